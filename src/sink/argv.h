/* SPDX-License-Identifier: MIT
 *
 * The fact argv_json as strings again. It comes from a recording, so any bytes may stand there.
 */
#pragma once

#include "base/buf.h"

/* Calls see for each string of a JSON array of strings (RFC 8259); text is valid until see returns. Returns 0, or
 * -EBADMSG where the text is no such array (see was called for what stood before), or -ENOMEM or -EFBIG. */
int argv_each(const char *json, void (*see)(void *ctx, const char *text), void *ctx);

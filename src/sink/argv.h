/* SPDX-License-Identifier: MIT
 *
 * Parses the fact argv_json into strings. It comes from a recording, so it may contain any bytes.
 */
#pragma once

#include "base/buf.h"

/* Calls see for each string of a JSON array of strings (RFC 8259); text is valid until see returns.
 * Returns 0; -EBADMSG if the text is no such array (see may have been called for strings before the
 * error); -ENOMEM or -EFBIG. */
int argv_each(const char *json, void (*see)(void *ctx, const char *text), void *ctx);

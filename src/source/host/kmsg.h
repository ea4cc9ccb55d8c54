/* SPDX-License-Identifier: MIT
 *
 * Lines of the kernel's log, as its device gives them. Documentation/ABI/testing/dev-kmsg.
 */
#pragma once

#include <stdbool.h>

#include "source/source.h"

/* Is the record one in which the kernel itself says whom it killed for lack of memory? Total on any bytes that end in a
 * NUL. */
bool kmsg_victim_parse(const char *record, struct oom_victim *ret);

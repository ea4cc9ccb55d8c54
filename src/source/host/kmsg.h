/* SPDX-License-Identifier: MIT
 *
 * Records of the kernel's log, in the format of /dev/kmsg. Documentation/ABI/testing/dev-kmsg.
 */
#pragma once

#include <stdbool.h>

#include "source/source.h"

/* Whether this is the record in which the kernel reports the process it killed for lack of memory.
 * Total on any bytes that end in a NUL. */
bool kmsg_victim_parse(const char *record, struct oom_victim *ret);

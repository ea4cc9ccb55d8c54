/* SPDX-License-Identifier: MIT
 *
 * Formats amounts in few columns, for tables and meters. Each function returns buf.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/units.h"

enum {
	SHORT_LEN = 24
};

/* "1.23G", "512M", "96K", "0": three significant digits; with UNITS_BYTES all digits. */
char *short_bytes(double bytes, enum units units, char buf[SHORT_LEN]);
/* "4.81", "12.3", "127": three significant digits, at most two decimals. */
char *short_number(double value, char buf[SHORT_LEN]);
/* "0:41:12"; "2d 3:04:05" past a day. */
char *short_time(uint64_t ns, char buf[SHORT_LEN]);
/* A round span: "45 s", "10 min", "2 h". */
char *short_span(uint64_t ns, char buf[SHORT_LEN]);

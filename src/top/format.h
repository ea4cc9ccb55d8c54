/* SPDX-License-Identifier: MIT
 *
 * Amounts in few columns, for tables and meters.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/units.h"

enum {
	SHORT_LEN = 24
};

/* "1.23G", "512M", "96K", "0"; with bytes all digits. Three significant digits. Returns buf. */
char *short_bytes(double bytes, enum units units, char buf[SHORT_LEN]);
/* "4.81", "12.3", "127": three significant digits, no more than two behind the point. */
char *short_number(double value, char buf[SHORT_LEN]);
/* "0:41:12"; "2d 3:04:05" past a day. */
char *short_time(uint64_t ns, char buf[SHORT_LEN]);
/* Of a span that somebody chose: "45 s", "10 min", "2 h". */
char *short_span(uint64_t ns, char buf[SHORT_LEN]);

/* SPDX-License-Identifier: MIT
 *
 * Numbers as people write and read them. Three significant digits, C locale. Writers fill a caller's buffer and
 * return it; UNITS_LEN is always enough.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum units {
	UNITS_IEC,
	UNITS_SI,
	UNITS_BYTES
};

#define UNITS_LEN 40

char *units_bytes(int64_t bytes, enum units units,
	char buf[UNITS_LEN]); /* "22.4 GiB", "24.1 GB", "24054000000 bytes" */
/* For figures side by side: in the unit that units_bytes gives to like, and without its name: "64.0", "0.512"; by
 * itself with a unit of its own where that would be under a hundredth or a thousand and more: 8 GiB beside 101 MiB are no 8192. */
char *units_bytes_like(int64_t bytes, int64_t like, enum units units, char buf[UNITS_LEN]);
char *units_duration(
	int64_t ns, char buf[UNITS_LEN]); /* "12.3 ms", "41.2 s", "0:12:40", "1 d 2:03:04" */
char *units_words(int64_t ns, char buf[UNITS_LEN * 2]); /* "3 minutes 51 seconds" */
char *units_percent(
	int64_t part, int64_t whole, char buf[UNITS_LEN]);  /* "35 %"; "" if whole is 0 */
char *units_decimal(int64_t value, unsigned digits,
	char buf[UNITS_LEN]);                               /* value / 10^digits, exactly: "-0.25"; digits up to 9 */
char *units_double(double value, char buf[UNITS_LEN]);       /* finite: "0.8", as few digits as read back to it */
char *units_date(uint64_t wall_ns, char buf[UNITS_LEN]);    /* "2026-11-21 05:35:33", local time */
char *units_rfc3339(uint64_t wall_ns, char buf[UNITS_LEN]); /* "2026-11-21T05:35:33.123Z" */

/* "24GiB", "8G" (= GiB), "500MB" (SI), "1024" (bytes); "100ms", "10m", "2h", "1.5s", "90" (seconds), "1:30:00",
 * "1-02:03:04". The whole text must be read. Return 0 or -EINVAL with text. */
int units_parse_bytes(const char *text, int64_t *ret, struct err *err);
int units_parse_duration(const char *text, int64_t *ret_ns, struct err *err);

/* SPDX-License-Identifier: MIT
 *
 * Amounts as people write and read them: the one place where a size, a time, a percentage, a power
 * or an energy becomes text. At most three significant digits, in any locale with a point.
 * UNITS_LEN is always enough.
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

/* ---- writing: each fills buf and returns it ------------------------------------------------------------------------- */

/* "22.4 GiB", "24.1 GB", "24054000000 bytes". */
char *units_bytes(int64_t bytes, enum units units, char buf[UNITS_LEN]);
/* For figures side by side: the number alone, in the unit that units_bytes gives to like: "64.0",
 * "0.512". A value under a hundredth of that unit, or of a thousand and more, gets a unit of its
 * own: "8.00 GiB" next to 101 MiB, not "8192". */
char *units_bytes_like(int64_t bytes, int64_t like, enum units units, char buf[UNITS_LEN]);

/* The one form of times: "827 us", "12.3 ms", "76 s", and from 100 s on the two
 * largest units: "12 min 40 s", "2 h 14 min", "1 d 2 h". No zeros behind the point. */
char *units_duration(int64_t ns, char buf[UNITS_LEN]);
/* An instant, counted from the start of the run: the same below an hour, to the second after it:
 * "2 h 14 min 5 s", "1 d 2 h 0 min 9 s". */
char *units_instant(int64_t ns, char buf[UNITS_LEN]);
/* A duration in whole words, for screen readers: "3 minutes 51 seconds". */
char *units_words(int64_t ns, char buf[UNITS_LEN * 2]);

/* What part is of whole: "35 %", "1.6 %", "<0.1 %"; "" if whole is 0. The sentence around it says
 * of what. */
char *units_percent(int64_t part, int64_t whole, char buf[UNITS_LEN]);
/* CPU cores, in millionths: "2", "1.90", "0.08", "<0.01". */
char *units_cores(int64_t ppm, char buf[UNITS_LEN]);
/* Microjoules: "12.3 J", from 3600 J on "4.20 Wh". */
char *units_energy(int64_t uj, char buf[UNITS_LEN]);
/* Microwatts: "310 W". */
char *units_power(int64_t uw, char buf[UNITS_LEN]);

/* Three significant digits without a unit: "4.80", "12.3", "1602". Finite. */
char *units_number(double value, char buf[UNITS_LEN]);
/* The same for any number, as users log them: whole ones without decimals, an exponent where the
 * digits would be too many, "NaN", "Infinity". */
char *units_any(double value, char buf[UNITS_LEN]);
/* With 0 to 4 decimals, and a point in any locale. */
char *units_fixed(double value, unsigned decimals, char buf[UNITS_LEN]);

/* value / 10^digits, exactly: "-0.25"; digits up to 9. */
char *units_decimal(int64_t value, unsigned digits, char buf[UNITS_LEN]);
/* As few digits as read back to the same value: "0.8". Finite. */
char *units_double(double value, char buf[UNITS_LEN]);

char *units_date(uint64_t wall_ns, char buf[UNITS_LEN]);    /* "2026-11-21 05:35:33", local time */
char *units_rfc3339(uint64_t wall_ns, char buf[UNITS_LEN]); /* "2026-11-21T05:35:33.123Z" */
/* "SIGTERM"; NULL for a signal without a name. */
const char *units_signal(int signal);

/* ---- parsing -------------------------------------------------------------------------------------------------------- */

/* "24GiB", "8G" (= GiB), "500MB" (SI), "1024" (bytes); "100ms", "10m", "2h", "1.5s", "90"
 * (seconds), "1:30:00", "1-02:03:04". Nothing may follow. Return 0, or -EINVAL with a text that
 * names the forms. */
int units_parse_bytes(const char *text, int64_t *ret, struct err *err);
int units_parse_duration(const char *text, int64_t *ret_ns, struct err *err);

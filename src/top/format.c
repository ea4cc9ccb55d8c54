/* SPDX-License-Identifier: MIT */
#include "top/format.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

char *short_number(double value, char buf[SHORT_LEN])
{
	const double size = fabs(value);

	(void) snprintf(buf, SHORT_LEN, "%.*f", size < 9.995 ? 2 : size < 99.95 ? 1
										: 0,
		value);
	return buf;
}

char *short_bytes(double bytes, enum units units, char buf[SHORT_LEN])
{
	static const char letters[] = "\0KMGTPE";
	const double step = units == UNITS_SI ? 1000 : 1024;
	char number[SHORT_LEN];
	size_t len;
	int i = 0;

	if (units == UNITS_BYTES || bytes < 999.5) {
		(void) snprintf(buf, SHORT_LEN, "%.0f", bytes);
		return buf;
	}
	while (bytes >= 999.5 && i < 6) {
		bytes /= step;
		i++;
	}
	len = strlen(short_number(bytes, number));
	memcpy(buf, number, len);
	buf[len] = i == 1 && units == UNITS_SI ? 'k' : letters[i];
	buf[len + 1] = '\0';
	return buf;
}

char *short_time(uint64_t ns, char buf[SHORT_LEN])
{
	const uint64_t s = ns / 1000000000, days = s / 86400;
	int at = 0;

	if (days > 0)
		at = snprintf(buf, SHORT_LEN, "%llud ", (unsigned long long) days);
	(void) snprintf(buf + at, SHORT_LEN - (size_t) at, "%u:%02u:%02u", (unsigned) (s % 86400 / 3600),
		(unsigned) (s % 3600 / 60), (unsigned) (s % 60));
	return buf;
}

char *short_span(uint64_t ns, char buf[SHORT_LEN])
{
	static const struct {
		double size;
		const char *name;
	} units[] = { { 86400e9, "d" }, { 3600e9, "h" }, { 60e9, "min" }, { 1e9, "s" }, { 1e6, "ms" } };
	size_t i = 0;

	while (i + 1 < sizeof(units) / sizeof(units[0]) && (double) ns < units[i].size)
		i++;
	(void) snprintf(buf, SHORT_LEN, "%.3g %s", (double) ns / units[i].size, units[i].name);
	return buf;
}

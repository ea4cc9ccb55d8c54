/* SPDX-License-Identifier: MIT */
#include "job/minima.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/parse.h"

bool minima_wanted(const char *series)
{
	static const char end[] = "/allocated_bytes"; /* python/hiwater/_frameworks.py */
	const size_t len = strlen(series);

	return len >= sizeof(end) && strcmp(series + len - sizeof(end) + 1, end) == 0;
}

static void halve(struct minima *l)
{
	for (unsigned i = 0; i < MINIMA / 2; i++)
		l->low[i] = fmin(l->low[2 * i], l->low[2 * i + 1]); /* ignores NaN */
	l->n = MINIMA / 2;
	l->each *= 2;
}

void minima_add(struct minima *l, uint64_t number, double value)
{
	const double low = isfinite(value) ? value : (double) NAN;

	if (l->each == 0)
		l->each = 1;
	while (number / l->each >= MINIMA)
		halve(l);
	const unsigned place = (unsigned) (number / l->each);

	for (; l->n <= place; l->n++)
		l->low[l->n] = (double) NAN;
	l->low[place] = fmin(l->low[place], low);
}

int minima_write(const struct minima *l, struct buf *out)
{
	int r = buf_printf(out, "%llu", (unsigned long long) l->each);

	for (unsigned i = 0; i < l->n && r >= 0; i++)
		r = isnan(l->low[i]) ? buf_str(out, " nan") : buf_printf(out, " %.17g", l->low[i]);
	return r < 0 ? r : 0;
}

int minima_parse(const char *text, struct minima *ret)
{
	struct minima l = { 0 };
	const char *p = text;

	if (parse_u64(&p, &l.each) < 0 || l.each == 0 || l.each > UINT64_MAX / MINIMA)
		return -EBADMSG;
	while (*p == ' ' && l.n < MINIMA) {
		p++;
		if (parse_double(&p, &l.low[l.n]) < 0)
			return -EBADMSG;
		l.n++;
	}
	if (*p)
		return -EBADMSG;
	*ret = l;
	return 0;
}

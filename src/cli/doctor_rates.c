/* SPDX-License-Identifier: MIT */
#include "cli/doctor_rates.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "cli/columns.h"

enum {
	RATES_MOST = 256,
	FACT_COLUMNS = 16,     /* as in doctor.c */
	RATE_COLUMNS = 2 + 36
};

/* ---- gathering ------------------------------------------------------------------------------- */

static const char *copy(struct doctor_rates *rates, const char *text)
{
	const char *copied = strdup(text);

	if (!copied)
		rates->error = -ENOMEM;
	return copied;
}

void doctor_rates_add(struct doctor_rates *rates, const struct hwi_gpu_rate *rate)
{
	if (rates->error == 0)
		rates->error = vec_reserve(
			&rates->list, &rates->cap, rates->n, sizeof(*rates->list), RATES_MOST);
	if (rates->error < 0)
		return;
	struct hwi_gpu_rate *mine = &rates->list[rates->n++];

	*mine = *rate;
	mine->source = copy(rates, rate->source);
	mine->group = copy(rates, rate->group);
	mine->contents = copy(rates, rate->contents);
	mine->why = copy(rates, rate->why);
}

void doctor_rates_done(struct doctor_rates *rates)
{
	for (size_t i = 0; i < rates->n; i++) {
		const struct hwi_gpu_rate *r = &rates->list[i];
		const char *const texts[] = { r->source, r->group, r->contents, r->why };

		for (size_t k = 0; k < sizeof(texts) / sizeof(*texts); k++)
			free((void *) (uintptr_t) texts[k]);
	}
	free(rates->list);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* "10/s", "every 24 s" */
static void add_period(struct buf *out, uint64_t ns)
{
	const double s = (double) ns / 1e9;

	(void) buf_printf(out, s > 5 ? "every %.3g s" : "%.3g/s", s > 5 ? s : 1 / s);
}

/* "NVML processes, 1/s (4/s while memory moves), here every 24 s" */
static void add_rate(struct buf *out, const struct hwi_gpu_rate *r)
{
	(void) buf_printf(out, "%s %s, ", r->source, r->group);
	add_period(out, r->planned_ns);
	if (r->moving_ns) {
		(void) buf_str(out, " (");
		add_period(out, r->moving_ns);
		(void) buf_str(out, " while memory moves");
		if (r->idle_period_ns) {
			(void) buf_str(out, ", ");
			add_period(out, r->idle_period_ns);
			(void) buf_str(out, " while it does not");
		}
		(void) buf_str(out, ")");
	}
	if (*r->why) {
		(void) buf_str(out, ", here ");
		add_period(out, r->lasting_ns);
	}
}

/* previous: the reason on the line above, which is not repeated. */
static void add_group(struct buf *out, const struct hwi_gpu_rate *r, const char *previous, size_t width)
{
	struct buf rate = BUF_INIT(4096), holds = BUF_INIT(4096);
	char took[UNITS_LEN];

	add_rate(&rate, r);
	(void) buf_str(&holds, r->contents);
	if (r->tried)
		(void) buf_printf(&holds, "; took %s", units_duration((int64_t) r->wall_ns, took));
	if (*r->why && strcmp(r->why, previous) != 0)
		(void) buf_printf(&holds, ": %s", r->why);
	if (!rate.error && !holds.error)
		add_two_columns(out, 2, rate.data, RATE_COLUMNS < width / 2 ? RATE_COLUMNS : width / 2,
			holds.data, width);
	buf_done(&rate);
	buf_done(&holds);
}

void doctor_rates_text(const struct doctor_rates *rates, size_t width, struct buf *out)
{
	struct buf most = BUF_INIT(4096);

	if (rates->n == 0)
		return;
	(void) buf_printf(&most,
		"at most %g %% of one core in total; process lists are slowed down first, memory last",
		100 * rates->list[0].share_max);
	if (!most.error)
		add_two_columns(out, 0, "GPU reads", FACT_COLUMNS, most.data, width);
	for (size_t i = 0; i < rates->n; i++)
		add_group(out, &rates->list[i], i ? rates->list[i - 1].why : "", width);
	buf_done(&most);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void add_seconds(struct json *j, const char *key, bool is_known, uint64_t ns)
{
	json_key(j, key);
	json_seconds(j, is_known ? known((int64_t) ns) : UNKNOWN);
}

void doctor_rates_json(const struct doctor_rates *rates, struct json *j)
{
	json_key(j, "gpu_reads");
	json_array(j);
	for (size_t i = 0; i < rates->n; i++) {
		const struct hwi_gpu_rate *r = &rates->list[i];

		json_object(j);
		json_key_text(j, "source", r->source);
		json_key_text(j, "group", r->group);
		json_key_text(j, "contents", r->contents);
		add_seconds(j, "period_s", true, r->planned_ns);
		add_seconds(j, "period_moving_s", true, r->moving_ns ? r->moving_ns : r->planned_ns);
		add_seconds(
			j, "period_idle_s", r->tried, r->idle_period_ns ? r->idle_period_ns : r->lasting_ns);
		add_seconds(j, "period_here_s", r->tried, r->lasting_ns);
		json_key_text(j, "why_longer", r->why);
		add_seconds(j, "cpu_s", r->tried, r->cpu_ns);
		add_seconds(j, "wall_s", r->tried, r->wall_ns);
		json_end(j);
	}
	json_end(j);
}

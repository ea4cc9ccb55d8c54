/* SPDX-License-Identifier: MIT
 *
 * The facts of a traced run: each device's busy time and gaps, the kernels and ranges with the most
 * time, what is missing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/textwidth.h"
#include "base/units.h"
#include "summary/facts.h"

/* Adds words of the job's own, which it frees. */
static int add(struct fact_list *list, const char *title, struct buf *words, bool begins_line)
{
	struct fact *facts = reallocarray(list->facts, list->n + 1, sizeof(*facts));
	char *text = words->error ? NULL : strdup(words->data);

	buf_done(words);
	if (facts)
		list->facts = facts;
	if (!facts || !text) {
		free(text);
		return -ENOMEM;
	}
	facts[list->n++] = (struct fact) {
		.group = FACTS_WORK,
		.key = FACT_WORK,
		.label = "",
		.title = title,
		.unit = FACT_WORDS,
		.text = text,
		.is_untrusted = true,
		.begins_line = begins_line,
	};
	return 0;
}

/* What the program asked for; the driver's figure, which has contexts and code too, is that of the GPU. */
static int add_memory(struct fact_list *list, const struct work_device *d)
{
	struct buf b = BUF_INIT(4096);
	char at[UNITS_LEN];
	int r;

	if (d->memory_peak_bytes == 0)
		return 0;
	(void) buf_printf(&b, " on GPU %lld, at %s, by calls of its process", (long long) d->number,
		units_instant((int64_t) d->memory_peak_at_ns, at));
	r = add(list, "traced memory", &b, true);
	if (r == 0) {
		struct fact *fact = &list->facts[list->n - 1];

		fact->label = "allocated";
		fact->unit = FACT_BYTES;
		fact->value = known((int64_t) d->memory_peak_bytes);
		fact->at_least = !d->memory_is_exact;
	}
	return r;
}

/* The driver's figure next to it, where the traced device is the only one, so that both are of the same. */
static int add_rest(struct fact_list *list, const struct work *w, struct maybe driver)
{
	const int64_t allocated = (int64_t) w->devices[0].memory_peak_bytes;
	struct buf b = BUF_INIT(256);
	int r;

	if (w->n_devices != 1 || w->more_devices > 0 || allocated == 0 || !driver.known ||
		driver.value <= allocated)
		return 0;
	(void) buf_str(&b, " more: contexts, code, what libraries keep");
	r = add(list, "next to traced memory", &b, false);
	if (r == 0) {
		struct fact *fact = &list->facts[list->n - 1];

		fact->label = "the driver counts";
		fact->unit = FACT_BYTES;
		fact->value = known(driver.value - allocated);
	}
	return r;
}

static int add_device(struct fact_list *list, const struct work_device *d)
{
	char busy[UNITS_LEN], time[UNITS_LEN], kernels[UNITS_LEN], copies[UNITS_LEN];
	char gap[UNITS_LEN], at[UNITS_LEN];
	struct buf b = BUF_INIT(4096);
	int r;

	(void) buf_printf(&b, "GPU %lld busy %s of %s traced (kernels %s, copies %s)", (long long) d->number,
		units_percent((int64_t) d->busy_ns, (int64_t) d->window_ns, busy),
		units_duration((int64_t) d->window_ns, time),
		units_percent((int64_t) d->kernel_ns, (int64_t) d->window_ns, kernels),
		units_percent((int64_t) d->copy_ns, (int64_t) d->window_ns, copies));
	r = add(list, "traced GPU", &b, true);
	if (r < 0 || d->n_gaps == 0)
		return r;
	b = BUF_INIT(4096);
	(void) buf_printf(&b, "longest of %llu gaps %s, at %s", (unsigned long long) d->n_gaps,
		units_duration((int64_t) d->longest_gap_ns, gap),
		units_instant((int64_t) d->longest_gap_at_ns, at));
	return add(list, "gaps", &b, false);
}

static int add_names(struct fact_list *list, const char *title, const struct work_name *names, size_t n)
{
	char time[UNITS_LEN];
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		struct buf b = BUF_INIT(4096);

		(void) buf_printf(&b, "%s %s in %llu", names[i].name,
			units_duration((int64_t) names[i].total_ns, time),
			(unsigned long long) names[i].count);
		r = add(list, title, &b, i == 0);
	}
	return r;
}

static int add_counts(struct fact_list *list, const struct work *w)
{
	struct buf b = BUF_INIT(4096);

	(void) buf_printf(&b, "%llu %s of %llu %s, ", (unsigned long long) w->n_events,
		w->n_events == 1 ? "event" : "events", (unsigned long long) w->n_processes,
		w->n_processes == 1 ? "process" : "processes");
	if (w->n_lost == 0)
		(void) buf_str(&b, "none lost");
	else
		(void) buf_printf(&b, "%llu lost", (unsigned long long) w->n_lost);
	if (w->n_invalid > 0)
		(void) buf_printf(&b, ", %llu invalid", (unsigned long long) w->n_invalid);
	return add(list, "traced", &b, true);
}

static int add_failures(struct fact_list *list, const struct work *w)
{
	int r = 0;

	for (size_t i = 0; i < w->n_failures && r == 0; i++) {
		struct buf b = BUF_INIT(4096);
		char at[UNITS_LEN];

		(void) buf_printf(&b, "%s, at %s", w->failures[i].text,
			units_instant((int64_t) w->failures[i].at_ns, at));
		r = add(list, "failed", &b, i == 0);
		if (r == 0)
			list->facts[list->n - 1].label = "failed";
	}
	return r;
}

int facts_work(const struct work *w, struct maybe gpu_peak, struct fact_list *list)
{
	int r = 0;

	for (size_t i = 0; i < w->n_devices && r == 0; i++) {
		if (w->devices[i].window_ns > 0)
			r = add_device(list, &w->devices[i]);
		if (r == 0)
			r = add_memory(list, &w->devices[i]);
	}
	if (r == 0)
		r = add_rest(list, w, gpu_peak);
	if (r == 0)
		r = add_failures(list, w);
	if (r == 0)
		r = add_names(list, "traced kernel", w->kernels, w->n_kernels);
	if (r == 0)
		r = add_names(list, "traced range", w->ranges, w->n_ranges);
	return r == 0 ? add_counts(list, w) : r;
}

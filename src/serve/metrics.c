/* SPDX-License-Identifier: MIT
 *
 * /metrics: the machine, its GPUs, and each live run that the viewer may see. Values of a run have the
 * label run and no other identity; what describes the run is on hiwater_run_info, to be joined.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "serve/answers.h"
#include "serve/squeeze.h"

/* Series, with the labels and values that they borrow. */
struct series {
	struct hwi_series *list;
	size_t n, cap;
	int error;
};

enum {
	SERIES_MOST = 1 << 16,
	LABELS_MOST = 4096
};

static void add(struct series *all, const struct thing *t, const char *labels, uint64_t now,
	const char *const *only, const char *const *without)
{
	struct hwi_last *last;

	if (!all->error)
		all->error = vec_reserve(&all->list, &all->cap, all->n, sizeof(*all->list), SERIES_MOST);
	if (all->error || !(last = calloc(METRICS_MOST, sizeof(*last))))
		return;
	thing_last(t, now, last);
	for (unsigned m = 0; only && m < METRICS_MOST; m++) {
		bool is_in = false;

		for (const char *const *name = only; *name; name++)
			is_in |= metric_of(t->entity, *name) == m;
		last[m].known &= is_in;
	}
	for (const char *const *name = without; name && *name; name++)
		last[metric_of(t->entity, *name)].known = false;
	all->list[all->n].entity = t->entity;
	all->list[all->n].labels = strdup(labels);
	all->list[all->n].last = last;
	if (all->list[all->n].labels)
		all->n++;
	else
		free(last);
}

static void free_series(struct series *all)
{
	for (size_t i = 0; i < all->n; i++) {
		free((char *) (uintptr_t) all->list[i].labels);
		free((struct hwi_last *) (uintptr_t) all->list[i].last);
	}
	free(all->list);
}

/* ---- labels ---------------------------------------------------------------------------------- */

/* gpu="0",uuid="GPU-..." after what is already there. */
static void add_gpu_labels(const struct stream *s, const struct thing *gpu, struct buf *labels)
{
	char number[48];

	gpu_number(s, gpu, number, sizeof(number));
	hwi_openmetrics_label(labels, "gpu", number);
	hwi_openmetrics_label(labels, "uuid", gpu->uuid);
}

static void write_gpu_infos(const struct serve *s, const struct stream *st, const char *run, bool is_text,
	bool *has_head, struct buf *out)
{
	for (size_t i = 0; i < st->n_gpus; i++) {
		const struct thing *gpu = st->gpus[i];
		struct buf labels = BUF_INIT(LABELS_MOST);

		if (!*has_head)
			hwi_openmetrics_head(out, is_text, "hiwater_gpu", "info", "", "the GPUs");
		*has_head = true;
		if (*run)
			hwi_openmetrics_label(&labels, "run", run);
		add_gpu_labels(st, gpu, &labels);
		hwi_openmetrics_label(&labels, "name", gpu->name);
		hwi_openmetrics_label(&labels, "vendor", gpu->vendor);
		hwi_openmetrics_label(&labels, "driver", gpu->driver);
		hwi_openmetrics_label(&labels, "parent", gpu->instance_of);
		if (*group_of(s, gpu->uuid))
			hwi_openmetrics_label(&labels, "group", group_of(s, gpu->uuid));
		(void) buf_printf(out, "hiwater_gpu_info{%s} 1\n", labels.data);
		buf_done(&labels);
	}
}

/* ---- the machine and the runs ---------------------------------------------------------------- */

/* Of a GPU of the machine: what belongs to a job is relative to this server's own recorder. */
static const char *const of_jobs[] = { "job_mem", "other_mem", NULL };
static const char *const job_only[] = { "job_mem", NULL };

static void add_machine(const struct stream *st, uint64_t now, struct series *all)
{
	add(all, &st->host, "", now, NULL, NULL);
	for (size_t i = 0; i < st->n_gpus; i++) {
		struct buf labels = BUF_INIT(LABELS_MOST);

		add_gpu_labels(st, st->gpus[i], &labels);
		add(all, st->gpus[i], labels.data, now, NULL, of_jobs);
		buf_done(&labels);
	}
}

/* is_alone: the job's own endpoint has the machine and the GPUs as the recording has them, with the label
 * run; next to a node's own series these would be the same values once more. is_seen: else a stranger
 * asks, who gets the machine and the GPUs alone. */
static void add_run(const struct live_run *r, bool is_alone, bool is_seen, uint64_t now, struct series *all)
{
	struct buf labels = BUF_INIT(LABELS_MOST);
	const struct stream *st = &r->stream;

	hwi_openmetrics_label(&labels, "run", r->id);
	if (is_seen)
		add(all, &st->job, labels.data, now, NULL, NULL);
	if (is_alone)
		add(all, &st->host, labels.data, now, NULL, NULL);
	for (size_t i = 0; i < st->n_gpus; i++) {
		buf_clear(&labels);
		hwi_openmetrics_label(&labels, "run", r->id);
		add_gpu_labels(st, st->gpus[i], &labels);
		add(all, st->gpus[i], labels.data, now, is_alone ? NULL : job_only, is_seen ? NULL : of_jobs);
	}
	buf_done(&labels);
}

static void write_up(struct buf *out, const char *source, bool is_up)
{
	(void) buf_printf(out, "hiwater_source_up{source=\"%s\"} %d\n", source, is_up);
}

/* A driver that never answered has no name yet. */
static void write_sources(const struct stream *st, bool is_text, uint64_t now, struct buf *out)
{
	bool has_driver = false;

	hwi_openmetrics_head(out, is_text, "hiwater_source_up", "gauge", "",
		"1 while the source of the values answers; the values of one that does not are left out");
	for (size_t i = 0; i < st->n_origins; i++) {
		has_driver |= strcmp(st->origins[i].name, "host") != 0;
		write_up(out, st->origins[i].name, origin_is_up(&st->origins[i], now));
	}
	if (!has_driver && *st->gpu_note)
		write_up(out, "gpu", false);
}

void metrics_write(const struct serve *s, const struct viewer *viewer, bool is_text, struct buf *out)
{
	const uint64_t now = clock_boot_ns();
	struct series all = { 0 };
	bool has_head = false;

	hwi_openmetrics_head(out, is_text, "hiwater_build", "info", "", "version of hiwater");
	(void) buf_printf(out, "hiwater_build_info{version=\"%s\"} 1\n", hiw_version());
	if (s->has_machine) {
		write_sources(&s->machine, is_text, now, out);
		write_gpu_infos(s, &s->machine, "", is_text, &has_head, out);
		add_machine(&s->machine, now, &all);
	}
	for (size_t i = 0; i < s->jobs.n; i++) {
		const struct live_run *r = s->jobs.list[i];

		const bool is_seen = viewer_sees(viewer, r->uid);

		if (!s->has_machine)
			write_gpu_infos(s, &r->stream, r->id, is_text, &has_head, out);
		if (is_seen || !s->has_machine)
			add_run(r, !s->has_machine, is_seen, now, &all);
	}
	has_head = false;
	for (size_t i = 0; i < s->jobs.n; i++) {
		const struct live_run *r = s->jobs.list[i];

		if (!viewer_sees(viewer, r->uid))
			continue;
		if (!has_head)
			hwi_openmetrics_head(out, is_text, "hiwater_run", "info", "",
				"facts of the run; join by the label run");
		has_head = true;
		(void) buf_printf(out, "hiwater_run_info{run=\"%s\",%s} 1\n", r->id, r->labels);
	}
	hwi_openmetrics(all.list, all.n, is_text, out);
	free_series(&all);
	if (!is_text)
		(void) buf_str(out, "# EOF\n");
}

void answer_metrics(struct serve *s, const struct request *q, struct answer *a)
{
	const bool is_openmetrics = accepts_openmetrics(q->accept);

	a->type = is_openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
				 : "text/plain; version=0.0.4; charset=utf-8";
	pthread_mutex_lock(&s->lock);
	metrics_write(s, &q->viewer, !is_openmetrics, &a->body);
	pthread_mutex_unlock(&s->lock);
}

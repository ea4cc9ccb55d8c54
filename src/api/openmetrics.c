/* SPDX-License-Identifier: MIT
 *
 * The internal interface: the last values of the machine and of runs as OpenMetrics, and what
 * identifies a run.
 */
#include <stdio.h>
#include <string.h>

#include "api/handles.h"
#include "sink/export/openmetrics.h"

_Static_assert((int) HIW_HOST == (int) ENTITY_HOST, "hiw_entity is enum entity");

static enum om_format format_of(bool is_text)
{
	return is_text ? OM_TEXT_0_0_4 : OM_1_0;
}

static void put_sample(
	struct buf *out, const struct om_family *f, enum metric m, const struct hwi_series *s)
{
	const char *fixed = metrics[m].om_labels;
	const bool has_labels = *fixed || *s->labels;

	om_put_sample_name(out, f);
	if (has_labels)
		(void) buf_printf(out, "{%s%s%s}", s->labels, *fixed && *s->labels ? "," : "", fixed);
	(void) buf_str(out, " ");
	om_put_value(out, m, f->is_max ? s->last[m].max : s->last[m].value);
	(void) buf_str(out, "\n");
}

/* The family that the metric begins: its metrics need not be adjacent in metric.def. */
static void put_family(
	const struct hwi_series *series, size_t n, enum metric first, bool is_max, bool is_text,
	struct buf *out)
{
	const struct om_family f = om_family_of(&metrics[first], is_max);
	bool has_head = false;

	for (unsigned m = 0; m < first; m++) {
		if (strcmp(metrics[m].om, f.om) == 0)
			return;
	}
	for (unsigned m = first; m < METRIC_COUNT; m++) {
		if (strcmp(metrics[m].om, f.om) != 0 || (is_max && metrics[m].kind != KIND_GAUGE))
			continue;
		for (size_t i = 0; i < n; i++) {
			if ((enum entity) series[i].entity != metrics[m].entity || !series[i].last[m].known ||
				(is_max && !series[i].last[m].has_max))
				continue;
			if (!has_head)
				om_put_head(out, format_of(is_text), &f);
			has_head = true;
			put_sample(out, &f, (enum metric) m, &series[i]);
		}
	}
}

void hwi_openmetrics(const struct hwi_series *series, size_t n, bool is_text, struct buf *out)
{
	for (unsigned m = 0; m < METRIC_COUNT; m++) {
		put_family(series, n, (enum metric) m, false, is_text, out);
		if (metrics[m].kind == KIND_GAUGE)
			put_family(series, n, (enum metric) m, true, is_text, out);
	}
}

void hwi_openmetrics_head(struct buf *out, bool is_text, const char *name, const char *type, const char *unit,
	const char *help)
{
	struct om_family f = { .unit = unit, .type = type, .help = help };

	(void) snprintf(f.name, sizeof(f.name), "%s", name);
	om_put_head(out, format_of(is_text), &f);
}

void hwi_openmetrics_label(struct buf *labels, const char *name, const char *value)
{
	om_put_label(labels, name, value);
}

void hwi_openmetrics_value(struct buf *out, unsigned metric, int64_t value)
{
	om_put_value(out, (enum metric) metric, value);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static const char *text_of(const char *text)
{
	return text ? text : "";
}

void hwi_run_identity(const struct hiw_run *run, struct hwi_identity *ret)
{
	const struct facts *f = job_facts_const(run->job);

	if (ret->size != sizeof(*ret))
		return;
	*ret = (struct hwi_identity) {
		.size = ret->size,
		.id = text_of(f->id),
		.scheduler = text_of(f->scheduler),
		.scheduler_job = text_of(f->scheduler_job),
		.step = text_of(f->step),
		.node = text_of(f->node),
		.cgroup = text_of(f->cgroup),
		.rank = api_maybe(f->rank),
		.ranks = api_maybe(f->ranks),
		.started_boot_ns = api_maybe(f->started_boot_ns),
		.limit_bytes = api_maybe(f->limit_bytes),
		.request_bytes = api_maybe(f->request_bytes),
	};
}

void hwi_run_labels(const struct hiw_run *run, bool with_user, bool with_command, struct buf *out)
{
	om_put_run_labels(out, job_facts_const(run->job), with_user, with_command);
}

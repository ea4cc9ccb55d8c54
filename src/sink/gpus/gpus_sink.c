/* SPDX-License-Identifier: MIT */
#include "sink/gpus/gpus_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/textwidth.h"

enum {
	WIDTH_LEAST = 40,
	WIDTH_MOST = 200,
	NAME_MOST = 4096,
};

static void plan_all(const struct gpus_options *g, struct gpus_needs *ret)
{
	static const enum gpu_fact always[] = { GF_GPU_INSTANCE, GF_COMPUTE_INSTANCE, GF_MIG };

	*ret = (struct gpus_needs) { .lists = true, .pairs = true, .busy = true };
	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		ret->facts.has[always[i]] = true;
	if (g->kind == GPUS_LIST || (g->spec && g->kind == GPUS_TEXT))
		ret->lists = ret->pairs = ret->busy = false;
	if (g->kind == GPUS_CSV)
		ret->lists = true;
	if (g->spec)
		gpus_spec_plan(ret);
}

int gpus_plan(const struct gpus_options *options, struct gpus_needs *ret, struct err *err)
{
	int r = 0;

	plan_all(options, ret);
	if (options->kind == GPUS_LINE)
		r = gpus_line_plan(options->what, ret, err);
	else if (options->kind == GPUS_QUERY || options->kind == GPUS_QUERY_APPS)
		r = gpus_query_plan(options, ret, err);
	ret->facts.has[GF_LOST] = ret->facts.has[GF_ASLEEP] = true;
	return r;
}

int gpus_sink(const struct gpus_options *options, const struct gpus_now *now,
	const struct sink_options *style, struct buf *out)
{
	struct sink_options o = *style;

	if (o.width < WIDTH_LEAST)
		o.width = WIDTH_LEAST;
	if (o.width > WIDTH_MOST)
		o.width = WIDTH_MOST;
	switch (options->kind) {
	case GPUS_TEXT:
		if (options->spec)
			gpus_spec(now, &o, out);
		else
			gpus_text(options, now, &o, out);
		break;
	case GPUS_JSON:
		gpus_json(options, now, out);
		break;
	case GPUS_CSV:
	case GPUS_CSV_PROCESSES:
		gpus_csv(options, now, out);
		break;
	case GPUS_LINE:
		gpus_line(options, now, &o, out);
		break;
	case GPUS_LIST:
		gpus_list(now, &o, out);
		break;
	case GPUS_QUERY:
	case GPUS_QUERY_APPS:
		gpus_query(options, now, out);
		break;
	default:
		return -EINVAL;
	}
	return out->error;
}

void gpus_fields_help(enum gpus_kind kind, struct buf *out)
{
	if (kind == GPUS_LINE)
		gpus_line_help(out);
	else
		gpus_query_help(kind, out);
}

void gpus_put_text(const char *text, const struct sink_options *o, struct buf *out)
{
	(void) text_clean(text, o->utf8, out);
}

const char *gpus_own_name(const struct gpus_now *now, const struct gpu_now *g)
{
	const struct gpu_now *parent = gpus_now_find(now, g->parent);
	const size_t n = parent ? strlen(parent->name) : 0;

	return n && strncmp(g->name, parent->name, n) == 0 && g->name[n] == ' ' ? g->name + n + 1 : g->name;
}

const char *gpus_best_name(const struct gpus_now *now, const struct gpu_now *g)
{
	const char *const names[] = { gpus_own_name(now, g), g->vendor, g->uuid, g->pci };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (*names[i])
			return names[i];
	}
	return "unknown";
}

/* As nvidia-smi -L writes it, except for lost GPUs, which that omits. */
static void put_listed(
	const struct gpus_now *now, const struct gpu_now *g, const struct sink_options *o, struct buf *out)
{
	struct buf name = BUF_INIT(NAME_MOST);
	char number[UNITS_LEN];

	gpus_put_text(gpus_best_name(now, g), o, &name);
	if (*g->parent)
		(void) buf_printf(out, "  %-15s Device  %s: (UUID: ", name.data,
			strchr(gpus_number(g, number), '.') + 1);
	else
		(void) buf_printf(out, "GPU %s: %s (UUID: ", gpus_number(g, number), name.data);
	gpus_put_text(*g->uuid ? g->uuid : "unknown", o, out);
	(void) buf_str(out, gpus_now_is_lost(now, g) ? "): lost\n" : ")\n");
	buf_done(&name);
}

void gpus_list(const struct gpus_now *now, const struct sink_options *o, struct buf *out)
{
	for (size_t i = 0; i < now->n_gpus; i++) {
		if (now->gpus[i].is_chosen)
			put_listed(now, &now->gpus[i], o, out);
	}
}

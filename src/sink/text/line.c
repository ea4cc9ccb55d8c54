/* SPDX-License-Identifier: MIT
 *
 * SINK_LINE: one line of key=value for scripts. The keys and their order are fixed, a value holds
 * no blank, what is unknown is "unknown".
 */
#include "sink/text/text.h"

#include <stdio.h>
#include <string.h>

#include "base/textwidth.h"

/* A blank would begin a new pair. */
static void without_blanks(char *text)
{
	for (char *p = text; *p; p++) {
		if (*p == ' ')
			*p = '_';
	}
}

static void name_of_run(const struct summary *s, const struct sink_options *o, struct buf *out)
{
	struct buf name = BUF_INIT(1 << 16);
	uint64_t number;

	if (figure_run(s->facts, o, &number)) {
		buf_printf(out, "hiwater %llu", (unsigned long long) number);
		return;
	}
	text_clean(s->facts->name && s->facts->name[0] ? s->facts->name : "-", o->utf8, &name);
	if (name.len > 0)
		without_blanks(name.data);
	buf_printf(out, "hiwater %s", name.data);
	buf_done(&name);
}

/* " KEY=VALUE"; "unknown" if the fact has no value, or is absent. */
static void value(struct buf *out, const char *key, const struct fact *fact, const struct sink_options *o)
{
	char text[UNITS_LEN] = "unknown", number[UNITS_LEN];
	size_t n = 0;

	if (fact && fact->value.known && fact->unit == FACT_BYTES)
		(void) units_bytes(fact->value.value, o->units, text);
	/* whole seconds from 100 on, three digits below */
	else if (fact && fact->value.known && fact->unit == FACT_NS)
		(void) snprintf(
			text, sizeof(text), "%.20ss", units_number((double) fact->value.value / 1e9, number));
	else if (fact && fact->value.known)
		(void) units_number((double) fact->value.value / 1e6, text);
	for (const char *p = text; *p; p++) {
		if (*p != ' ')
			text[n++] = *p;
	}
	buf_printf(out, " %s=%.*s", key, (int) n, text);
}

static bool is_number_of_gpu(const struct summary *s, int64_t number)
{
	for (size_t i = 0; i < job_gpu_count(s->job); i++) {
		const struct gpu_birth *gpu = &job_gpu(s->job, i)->birth.gpu;

		if (!*gpu->parent && gpu->index.known && gpu->index.value == number)
			return true;
	}
	return false;
}

/* A number for a device without a driver index: the first that no other device has. */
static int64_t free_number(const struct summary *s, size_t at)
{
	int64_t number = -1;

	for (size_t i = 0; i <= at; i++) {
		if (job_gpu(s->job, i)->birth.gpu.index.known)
			continue;
		do
			number++;
		while (is_number_of_gpu(s, number));
	}
	return number;
}

/* Appends nothing without GPUs. */
static void gpus(
	const struct summary *s, const struct fact_list *facts, const struct sink_options *o, struct buf *out)
{
	for (size_t i = 0; s->job && i < job_gpu_count(s->job); i++) {
		const struct birth *b = &job_gpu(s->job, i)->birth;
		const struct fact *work = facts_find(facts, FACT_GPU_LEAD, b->id);
		char name[UNITS_LEN], place[UNITS_LEN], key[2 * UNITS_LEN];
		const char *number = strpbrk(
			job_gpu_name(s->job, &b->gpu, name), "0123456789"); /* "0.1" of an instance */
		enum metric lead;

		if (!work)
			continue;
		(void) snprintf(place, sizeof(place), "%lld", (long long) free_number(s, i));
		number = number ? number : place;
		(void) snprintf(key, sizeof(key), "gpu%s_mem_peak", number);
		value(out, key, facts_find(facts, FACT_GPU_DEVICE, b->id), o);
		(void) snprintf(key, sizeof(key), "gpu%s_job_peak", number);
		value(out, key, facts_find(facts, FACT_GPU_JOB, b->id), o);
		if (summary_gpu_lead(s, b->id, &lead))
			buf_printf(out, " gpu%s_%s=%lld%%", number, metrics[lead].name,
				(long long) (work->value.value + 5000) / 10000);
	}
}

static void findings(const struct summary *s, struct buf *out)
{
	unsigned n[SEVERITY_ERROR + 1] = { 0 };

	for (size_t i = 0; i < s->n_findings; i++)
		n[s->findings[i].severity] += s->findings[i].fired;
	buf_printf(out, " error=%u warn=%u hint=%u", n[SEVERITY_ERROR], n[SEVERITY_WARN], n[SEVERITY_HINT]);
}

int line_sink(const struct summary *s, const struct sink_options *o, struct buf *out)
{
	const struct ending end = ending_of(s);
	struct fact_list facts;
	const int r = facts_make(s, &facts);

	if (r < 0)
		return r;
	name_of_run(s, o, out);
	if (s->facts->rank.known)
		buf_printf(out, " rank=%lld", (long long) s->facts->rank.value);
	if (end.code_known)
		buf_printf(out, " exit=%d", end.code);
	else
		buf_str(out, " exit=unknown");
	value(out, "wall", facts_find(&facts, FACT_WALL, 0), o);
	value(out, "ram_peak", facts_find(&facts, FACT_RAM_PEAK, 0), o);
	buf_printf(out, " ram_method=%s", method_name(s->combined.method));
	value(out, "cpu", facts_find(&facts, FACT_CPU_TIME, 0), o);
	value(out, "cores", facts_find(&facts, FACT_CPU, 0), o);
	gpus(s, &facts, o, out);
	findings(s, out);
	facts_done(&facts);
	return buf_str(out, "\n");
}

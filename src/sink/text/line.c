/* SPDX-License-Identifier: MIT
 *
 * SINK_LINE: one line of key=value for scripts. The keys and their order are fixed, a value holds no blank, what is
 * not known is "unknown".
 */
#include "sink/text/line.h"

#include <stdio.h>
#include <string.h>

#include "sink/figures.h"
#include "base/textwidth.h"

/* Blanks would begin a new value. */
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

/* Whole seconds from 100 on, three digits below. */
static void seconds(struct buf *out, const char *key, struct maybe ns)
{
	char number[UNITS_LEN];

	if (ns.known)
		buf_printf(out, " %s=%ss", key, figure_number((double) ns.value / 1e9, number));
	else
		buf_printf(out, " %s=unknown", key);
}

static char *amount(struct maybe bytes, enum units units, char buf[UNITS_LEN])
{
	size_t n = 0;

	(void) snprintf(buf, UNITS_LEN, "unknown");
	if (bytes.known)
		(void) units_bytes(bytes.value, units, buf);
	for (const char *p = buf; *p; p++) {
		if (*p != ' ')
			buf[n++] = *p;
	}
	buf[n] = '\0';
	return buf;
}

static void ram(struct buf *out, const struct ram_figure *r, enum units units)
{
	char text[UNITS_LEN];

	buf_printf(out, " ram_peak=%s ram_method=%s", amount(r->peak, units, text), method_name(r->method));
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

/* Of a device that its driver gives none: the first that is nobody's, nor of such a device before it. */
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

/* Nothing where there are none. */
static void gpus(const struct summary *s, const struct sink_options *o, struct buf *out)
{
	for (size_t i = 0; s->job && i < job_gpu_count(s->job); i++) {
		const struct birth *b = &job_gpu(s->job, i)->birth;
		char text[UNITS_LEN], name[UNITS_LEN], place[UNITS_LEN];
		const char *number = strpbrk(job_gpu_name(s->job, &b->gpu, name), "0123456789"); /* "0.1" of an instance */
		enum metric lead;
		enum method method;

		if (!figure_gpu_used(s, b->id))
			continue;
		(void) snprintf(place, sizeof(place), "%lld", (long long) free_number(s, i));
		number = number ? number : place;
		buf_printf(out, " gpu%s_mem_peak=%s", number, amount(summary_gpu_device_peak(s, b->id), o->units, text));
		buf_printf(out, " gpu%s_job_peak=%s", number, amount(summary_gpu_job_peak(s, b->id, &method), o->units, text));
		if (summary_gpu_lead(s, b->id, &lead))
			buf_printf(out, " gpu%s_%s=%lld%%", number, metrics[lead].name,
				(long long) (summary_mean(s, lead, b->id).value + 5000) / 10000);
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
	char number[UNITS_LEN];

	name_of_run(s, o, out);
	if (s->facts->rank.known)
		buf_printf(out, " rank=%lld", (long long) s->facts->rank.value);
	if (end.code_known)
		buf_printf(out, " exit=%d", end.code);
	else
		buf_str(out, " exit=unknown");
	seconds(out, "wall", s->wall_ns);
	ram(out, &s->combined, o->units);
	seconds(out, "cpu", maybe_sum(s->user_ns, s->system_ns));
	if (s->cores_mean_ppm.known)
		buf_printf(out, " cores=%s", figure_number((double) s->cores_mean_ppm.value / 1e6, number));
	else
		buf_str(out, " cores=unknown");
	gpus(s, o, out);
	findings(s, out);
	return buf_str(out, "\n");
}

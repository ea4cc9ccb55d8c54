/* SPDX-License-Identifier: MIT
 *
 * SINK_LINE: one line of key=value for scripts. The keys and their order are fixed, a value holds no blank, what is
 * not known is "unknown".
 */
#include "sink/line.h"

#include <string.h>

#include "sink/figures.h"
#include "sink/textwidth.h"

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

static void ram(struct buf *out, const struct ram_figure *r, enum units units)
{
	char amount[UNITS_LEN] = "unknown";
	size_t n = 0;

	if (r->peak.known)
		(void) units_bytes(r->peak.value, units, amount);
	for (const char *p = amount; *p; p++) {
		if (*p != ' ')
			amount[n++] = *p;
	}
	amount[n] = '\0';
	buf_printf(out, " ram_peak=%s ram_method=%s", amount, method_name(r->method));
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
	findings(s, out);
	return buf_str(out, "\n");
}

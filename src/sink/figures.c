/* SPDX-License-Identifier: MIT */
#include "sink/figures.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/textwidth.h"

#define NS_PER_S 1000000000

char *figure_rate(const struct facts *f, char buf[UNITS_LEN])
{
	char number[UNITS_LEN];
	const int64_t ns = facts_reached_interval(f).value;

	buf[0] = '\0';
	if (!f->interval_ns.known || ns <= 0)
		return buf;
	if (ns <= NS_PER_S) {
		double rate = (double) NS_PER_S / (double) ns;
		bool whole = fabs(rate - round(rate)) < 0.005;

		(void) snprintf(buf, UNITS_LEN, "%.30s/s",
			whole ? units_fixed(rate, 0, number) : units_number(rate, number));
	} else {
		(void) snprintf(buf, UNITS_LEN, "every %.33s", units_duration(ns, number));
	}
	return buf;
}

/* Bounds that differ by at most 1 % are written as one number. */
static void bounds(const struct ram_figure *r, const struct sink_options *o, struct buf *out)
{
	char low[UNITS_LEN], high[UNITS_LEN];

	if (!r->low.known || !r->high.known)
		return;
	if (r->high.value - r->low.value <= r->peak.value / 100) {
		buf_str(out, o->plain ? " within 1 percent" : " within" NB "1" NB "%");
		return;
	}
	(void) units_bytes_like(r->low.value, r->high.value, o->units, low);
	(void) units_bytes(r->high.value, o->units, high);
	buf_printf(out, o->plain ? " between %s and %s" : o->utf8 ? NB "%s\xE2\x80\x93%s"
								  : NB "%s-%s",
		keep_together(low), keep_together(high));
}

void figure_method(
	const struct ram_figure *r, const struct facts *f, const struct sink_options *o, struct buf *out)
{
	char rate[UNITS_LEN];

	buf_str(out, r->method == METHOD_UNKNOWN ? "method unknown" : method_name(r->method));
	if (r->method == METHOD_BOUNDED)
		bounds(r, o, out);
	if (r->method == METHOD_SAMPLED && figure_rate(f, rate)[0])
		buf_printf(out, NB "%s", keep_together(rate));
	if (r->source && r->method != METHOD_UNKNOWN)
		buf_printf(out, " (%s)", r->source);
}

bool figure_run(const struct facts *f, const struct sink_options *o, uint64_t *ret)
{
	size_t folder = o->history ? strlen(o->history) : 0;
	const char *p = f->recording;
	uint64_t number;

	if (folder == 0 || !p || strncmp(p, o->history, folder) != 0)
		return false;
	p += folder;
	while (*p == '/')
		p++;
	if (parse_u64(&p, &number) < 0 || strcmp(p, ".hiw") != 0)
		return false;
	*ret = number;
	return true;
}

void figure_headline(const struct facts *f, struct buf *out)
{
	const bool has_name = f->name && *f->name;

	if (has_name && figure_is_block(f, out))
		return;
	if (f->part && strcmp(f->part, "job") == 0 && f->scheduler_job && *f->scheduler_job)
		buf_printf(out, "%s %s  ", f->scheduler ? f->scheduler : "job", f->scheduler_job);
	if (has_name)
		buf_printf(out, "%s: ", f->name);
	buf_str(out, f->command ? f->command : "");
}

/* Facts are lines of KEY=VALUE. A first key that equals the phase's name holds its number: "epoch
 * 3". */
void figure_phase(const struct phase *p, bool all, struct buf *out)
{
	const size_t name_len = strlen(p->name);
	const char *line = p->facts ? p->facts : "";

	buf_str(out, p->name);
	if (strncmp(line, p->name, name_len) == 0 && line[name_len] == '=') {
		const size_t len = strcspn(line, "\n");

		buf_printf(out, " %.*s", (int) (len - name_len - 1), line + name_len + 1);
		line += len + (line[len] == '\n');
	}
	while (all && *line) {
		const size_t len = strcspn(line, "\n");

		buf_printf(out, ", %.*s", (int) len, line);
		line += len + (line[len] == '\n');
	}
}

char *keep_together(char *text)
{
	for (char *p = text; *p; p++) {
		if (*p == ' ')
			*p = NB[0];
	}
	return text;
}

/* ---- facts ------------------------------------------------------------------------------------------------------------- */

/* "12 J", and for screen readers "12 joules". */
static const char *in_words(char buf[UNITS_LEN], bool plain)
{
	static const struct {
		const char *unit, *words;
	} units[] = { { "Wh", "watt hours" }, { "J", "joules" }, { "W", "watts" } };
	char *unit = strchr(buf, ' ');

	for (size_t i = 0; plain && unit && i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(unit + 1, units[i].unit) != 0)
			continue;
		(void) snprintf(unit + 1, UNITS_LEN - (size_t) (unit + 1 - buf), "%s", units[i].words);
		break;
	}
	return buf;
}

static const char *percent(int64_t part, int64_t whole, bool plain, char buf[UNITS_LEN])
{
	const size_t len = strlen(units_percent(part, whole, buf));

	if (plain && len > 0)
		(void) snprintf(buf + len - 1, UNITS_LEN - (len - 1), "percent");
	return buf;
}

/* like: the number before this one, whose unit this one shares; UNKNOWN: there is none. */
static void put_number(struct maybe value, enum fact_unit unit, struct maybe like,
	const struct sink_options *o, struct buf *out)
{
	char text[UNITS_LEN * 2] = "", number[UNITS_LEN];

	if (!value.known)
		return;
	switch (unit) {
	case FACT_WORDS:
		break;
	case FACT_BYTES:
		(void) (like.known && !o->plain ? units_bytes_like(value.value, like.value, o->units, text)
						: units_bytes(value.value, o->units, text));
		break;
	case FACT_BYTES_PER_S:
		(void) snprintf(text, sizeof(text), "%s/s", units_bytes(value.value, o->units, number));
		break;
	case FACT_NS:
		(void) (o->plain ? units_words(value.value, text) : units_duration(value.value, text));
		break;
	case FACT_INTERVAL:
		(void) snprintf(text, sizeof(text), "%s%s", value.value <= NS_PER_S ? "at " : "",
			figure_rate(&(struct facts) { .interval_ns = value }, number));
		break;
	case FACT_COUNT:
		(void) snprintf(text, sizeof(text), "%lld", (long long) value.value);
		break;
	case FACT_CORES:
		(void) units_cores(value.value, text);
		break;
	case FACT_SHARE:
		(void) percent(value.value, 1000000, o->plain, text);
		break;
	case FACT_UJ:
		(void) in_words(units_energy(value.value, text), o->plain);
		break;
	case FACT_UW:
		(void) (like.known ? units_number((double) value.value / 1e6, text)
				   : in_words(units_power(value.value, text), o->plain));
		break;
	case FACT_MCEL:
		(void) snprintf(text, sizeof(text), "%lld %s", (long long) (value.value + 500) / 1000,
			o->plain ? "degrees Celsius" : "C");
		break;
	}
	(void) buf_str(out, keep_together(text));
}

void fact_value(const struct fact *fact, const struct sink_options *o, struct buf *out)
{
	if (fact->value.known && (fact->at_least || fact->at_most))
		buf_str(out, fact->at_least ? "at" NB "least" NB : "at" NB "most" NB);
	put_number(fact->value, fact->unit, UNKNOWN, o, out);
	if (fact->text && fact->is_untrusted)
		(void) text_clean(fact->text, o->utf8, out);
	else
		buf_str(out, fact->text ? fact->text : "");
}

/* "of 64.0 requested (35 %)" */
static void put_share(const struct fact *fact, const struct sink_options *o, struct buf *out)
{
	char text[UNITS_LEN];

	buf_str(out, fact->unit == FACT_CORES ? NB "of" NB : " of" NB);
	put_number(fact->of, fact->unit, fact->value, o, out);
	buf_printf(out, "%s%s", fact->of_words ? " " : "", fact->of_words ? fact->of_words : "");
	if (fact->is_percent_hidden)
		return;
	(void) percent(fact->value.value, fact->of.value, o->plain, text);
	buf_printf(out, o->plain ? ", %s%s" : " (%s%s)", keep_together(text),
		fact->percent_words ? fact->percent_words : "");
}

static void put_method(
	const struct fact *fact, const struct facts *f, const struct sink_options *o, struct buf *out)
{
	char rate[UNITS_LEN];

	if (!fact->figure && fact->method == METHOD_UNKNOWN)
		return;
	buf_str(out, fact->unit == FACT_WORDS ? "" : o->plain ? ", "
							      : " ");
	if (fact->figure)
		figure_method(fact->figure, f, o, out);
	else
		buf_str(out, method_name(fact->method));
	if (fact->has_rate && figure_rate(f, rate)[0])
		buf_printf(out, NB "%s", keep_together(rate));
}

void fact_rest(const struct fact *fact, const struct facts *f, const struct sink_options *o, struct buf *out)
{
	const bool has_no_end = fact->text && strcmp(fact->text, "end not recorded") == 0;

	if (fact->detail && *fact->detail)
		buf_printf(out, has_no_end ? ": %s" : " (%s)", fact->detail);
	if (fact->after &&
		!(o->plain && fact->title && strstr(fact->title, fact->after))) /* "processes: 9" */
		buf_printf(out, NB "%s", fact->after);
	if (fact->of.known && fact->value.known)
		put_share(fact, o, out);
	if (fact->more.known) {
		buf_str(out, fact->more_before);
		put_number(fact->more, fact->more_unit, fact->more_unit == fact->unit ? fact->value : UNKNOWN,
			o, out);
		buf_str(out, fact->more_after ? fact->more_after : "");
	}
	put_method(fact, f, o, out);
	if (fact->words && (!fact->is_apart || o->plain))
		buf_printf(out, "%s%s", fact->is_apart ? ", " : "", fact->words);
}

void fact_words(const struct fact *fact, const struct facts *f, const struct sink_options *o, struct buf *out)
{
	fact_value(fact, o, out);
	fact_rest(fact, f, o, out);
}

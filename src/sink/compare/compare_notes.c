/* SPDX-License-Identifier: MIT
 *
 * Below a comparison: what its runs do not decide and how many runs would decide it, what should be
 * equal and is not, and the result in one line.
 */
#include "sink/compare/compare_runs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/textwidth.h"
#include "sink/text/layout.h"

enum {
	NAME_MOST = 40,
	USUAL_WIDTH = 80,    /* from here on a note stays on one line, for grep */
	WARNED_LEN = 60,     /* of a fact in a warning */
	WARNED_BEFORE = 20,  /* of it, the common beginning that is kept */
	FAILED_NAMED = 20,   /* failed runs */
	RUNS_NAMED = 100,    /* a note suggests this many runs at most */
};

/* The figures that the result is about, and the words for them. */
static const struct {
	const char *key, *what;
} leading[] = {
	{ "time.wall_s", NULL }, /* "is 1.18 times faster", "takes 1.2 times as long" */
	{ "ram.combined.peak_bytes", "the RAM" },
	{ "gpu.combined.peak_bytes", "the GPU memory" },
};

enum {
	LEADING = sizeof(leading) / sizeof(leading[0])
};

void compare_name(
	const struct comparison *c, size_t group, const struct sink_options *options, struct buf *out)
{
	struct buf clean = BUF_INIT(1 << 16);

	(void) text_clean(c->groups[group], options->utf8, &clean);
	(void) text_shorten(clean.data, NAME_MOST, options->utf8, out);
	buf_done(&clean);
}

/* The leading figure, if it is known in the second group and the first, and not 0 in all runs. */
static const struct compare_row *leading_row(
	const struct comparison *c, size_t i, struct compare_change *ret_change)
{
	const struct compare_row *row = comparison_row(c, leading[i].key);

	if (!row || compare_is_nothing(c, row))
		return NULL;
	*ret_change = comparison_change(c, row, 1);
	return ret_change->result != COMPARE_UNKNOWN ? row : NULL;
}

/* ---- what is not decided --------------------------------------------------------------------------------------------- */

static bool is_undecided(const struct compare_change *change)
{
	return change->result == COMPARE_SINGLE || change->result == COMPARE_TOO_FEW;
}

/* Less than half a percent: its factor would be written as 1.00. */
static bool is_slight(const struct compare_change *change)
{
	return fabs(change->ratio - 1) < 0.005;
}

/* "every run of new is below every run of base: wall, CPU time" */
static void put_order(const struct comparison *c, enum compare_order order, const char *names[2],
	struct buf *out)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_rows; i++) {
		const struct compare_change change = comparison_change(c, &c->rows[i], 1);

		if (change.result != COMPARE_TOO_FEW || change.order != order ||
			compare_is_nothing(c, &c->rows[i]))
			continue;
		if (n++ > 0)
			(void) buf_str(out, ", ");
		else if (order == COMPARE_OVERLAP)
			(void) buf_printf(out, "runs of %s and %s overlap: ", names[1], names[0]);
		else
			(void) buf_printf(out, "every run of %s is %s every run of %s: ", names[1],
				order == COMPARE_ABOVE ? "above" : "below", names[0]);
		(void) buf_str(out, c->rows[i].label);
	}
	if (n > 0)
		(void) buf_str(out, "\n");
}

static bool has_result(const struct comparison *c, enum compare_result result)
{
	for (size_t i = 0; i < c->n_rows; i++) {
		if (!compare_is_nothing(c, &c->rows[i]) &&
			comparison_change(c, &c->rows[i], 1).result == result)
			return true;
	}
	return false;
}

/* Differences that the test did not find: how many runs would be needed if they are real. */
static void put_needed(const struct comparison *c, const struct sink_options *o, struct buf *out)
{
	for (size_t i = 0; i < LEADING; i++) {
		struct compare_change change;
		const struct compare_row *row = leading_row(c, i, &change);
		char text[COMPARE_CHANGE_LEN];

		if (!row || change.result != COMPARE_NO_DIFFERENCE || is_slight(&change) ||
			!(change.runs_needed <= RUNS_NAMED))
			continue;
		change.result = COMPARE_DIFFERS;
		(void) buf_printf(out, "%s: about %.0f runs of each would show whether %s is real\n",
			row->label, fmax(change.runs_needed, COMPARE_LEAST + 1),
			compare_change_text(row, &change, o, text));
	}
}

static void put_undecided(const struct comparison *c, const struct sink_options *o, struct buf *out)
{
	struct buf names[] = { BUF_INIT(1 << 16), BUF_INIT(1 << 16) };

	compare_name(c, 0, o, &names[0]);
	compare_name(c, 1, o, &names[1]);
	const char *texts[] = { names[0].data, names[1].data };

	if (has_result(c, COMPARE_TOO_FEW))
		(void) buf_printf(out, "no test: it needs %d runs of each; %s has %zu, %s has %zu\n",
			COMPARE_LEAST, texts[0], comparison_runs_of(c, 0), texts[1],
			comparison_runs_of(c, 1));
	else if (has_result(c, COMPARE_SINGLE))
		(void) buf_printf(out,
			"single runs: a difference may be chance; a test needs %d runs of each\n",
			COMPARE_LEAST);
	put_order(c, COMPARE_BELOW, texts, out);
	put_order(c, COMPARE_ABOVE, texts, out);
	put_order(c, COMPARE_OVERLAP, texts, out);
	put_needed(c, o, out);
	buf_done(&names[0]);
	buf_done(&names[1]);
}

/* ---- warnings -------------------------------------------------------------------------------------------------------- */

/* Two long texts, each cut to the part in which they differ: a common beginning is dropped,
 * "...train.py mlp". */
static void put_difference(const char *one, const char *other, struct buf *out)
{
	const char *const texts[] = { one, other };
	size_t alike = 0;

	while (one[alike] && one[alike] == other[alike])
		alike++;
	for (size_t i = 0; i < 2; i++) {
		const size_t len = strlen(texts[i]);
		size_t from = len > WARNED_LEN && alike > WARNED_BEFORE ? alike - WARNED_BEFORE : 0;

		while (from > 0 && ((unsigned char) texts[i][from] & 0xc0) == 0x80)
			from--;
		(void) buf_printf(out, "%s %s", i ? ";" : "", from > 0 ? "..." : "");
		(void) buf_printf(out, "%.*s%s", WARNED_LEN, len ? texts[i] + from : "unknown",
			len > from + WARNED_LEN ? "..." : "");
	}
	(void) buf_str(out, "\n");
}

/* Facts that differ between the runs: hosts, CPUs, drivers. other_commands: commands are meant to
 * differ. */
static void put_warnings(const struct comparison *c, bool other_commands, struct buf *out)
{
	const char *what, *one, *other;

	for (size_t i = 0; comparison_differs(c, i, &what, &one, &other); i++) {
		if (other_commands && strcmp(what, "commands") == 0)
			continue;
		(void) buf_printf(out, "warning: the %s differ:", what);
		put_difference(one, other, out);
	}
}

/* Names runs that are not compared: "warning: ... status 0: new (run 7, exit 1)". */
static void put_failed(const struct comparison *c, const struct sink_options *o, struct buf *out)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_runs; i++) {
		const struct compare_run *run = &c->runs[i];
		const char *slash = strrchr(run->path, '/'), *file = slash ? slash + 1 : run->path;
		struct buf clean = BUF_INIT(1 << 16);

		if (!run->failed || n++ >= FAILED_NAMED)
			continue;
		(void) buf_str(out, n == 1 ? "warning: time and memory are not compared for runs that did not end "
					     "with status 0: "
					   : ", ");
		compare_name(c, run->group, o, out);
		(void) text_clean(file, o->utf8, &clean);
		if (clean.len > 4 && strcmp(clean.data + clean.len - 4, ".hiw") == 0)
			clean.data[clean.len -= 4] = '\0';
		(void) buf_printf(out, " (run %s, %s)", clean.data, run->how);
		buf_done(&clean);
	}
	if (n > FAILED_NAMED)
		(void) buf_printf(out, " and %zu more", n - FAILED_NAMED);
	if (n > 0)
		(void) buf_str(out, "\n");
}

/* ---- the result in one line -------------------------------------------------------------------------------------------- */

static void put_factor(size_t i, const struct compare_change *change, bool has_error,
	const struct sink_options *o, struct buf *out)
{
	const bool is_faster = !leading[i].what && change->ratio < 1;
	const double factor = is_faster ? 1 / change->ratio : change->ratio;
	const double error = is_faster ? change->ratio_error / (change->ratio * change->ratio)
				       : change->ratio_error;
	char number[UNITS_LEN], spread[UNITS_LEN] = "";

	(void) units_fixed(factor, 2, number);
	if (has_error && !leading[i].what)
		(void) units_fixed(error, 2, spread);
	(void) buf_printf(out, "%s %s%s%s %s", is_faster ? "is" : leading[i].what ? "uses"
										  : "takes",
		number,
		!spread[0] ? "" : o->utf8 ? " \xC2\xB1 "
					  : " +- ",
		spread,
		is_faster ? "times faster" : leading[i].what ? "times"
							     : "times as long");
	if (leading[i].what)
		(void) buf_printf(out, " %s", leading[i].what);
}

/* Appends the changes of which wants is true: "is 1.18 +- 0.01 times faster and uses 1.11 times the
 * RAM". Returns how many. */
static size_t put_factors(const struct comparison *c, const struct sink_options *o,
	bool (*wants)(const struct compare_change *change), struct buf *out)
{
	struct compare_change changes[LEADING];
	size_t shown[LEADING], n = 0;

	for (size_t i = 0; i < LEADING; i++) {
		if (leading_row(c, i, &changes[i]) && wants(&changes[i]) && !isnan(changes[i].ratio) &&
			!is_slight(&changes[i]))
			shown[n++] = i;
	}
	for (size_t k = 0; k < n; k++) {
		(void) buf_str(out, k == 0 ? " " : k + 1 == n ? " and "
							      : ", ");
		put_factor(shown[k], &changes[shown[k]], changes[shown[k]].result == COMPARE_DIFFERS, o, out);
	}
	return n;
}

static bool differs(const struct compare_change *change)
{
	return change->result == COMPARE_DIFFERS;
}

static bool is_equal(const struct compare_change *change)
{
	return change->result == COMPARE_NO_DIFFERENCE;
}

static bool is_slight_only(const struct compare_change *change)
{
	return !is_equal(change) && is_slight(change);
}

/* The figures of which wants is true: "wall and peak RAM". Returns how many. */
static size_t put_labels(const struct comparison *c, bool (*wants)(const struct compare_change *change),
	struct buf *out)
{
	const struct compare_row *rows[LEADING];
	size_t n = 0;

	for (size_t i = 0; i < LEADING; i++) {
		struct compare_change change;
		const struct compare_row *row = leading_row(c, i, &change);

		if (row && wants(&change))
			rows[n++] = row;
	}
	for (size_t k = 0; k < n; k++)
		(void) buf_printf(out, "%s%s", k == 0 ? "" : k + 1 == n ? " and "
									: ", ",
			rows[k]->label);
	return n;
}

/* Two groups, one of which has no run that succeeded. Returns false if both have one. */
static bool put_none_succeeded(const struct comparison *c, const struct sink_options *o, struct buf *out)
{
	const bool failed[] = { comparison_all_failed(c, 0), comparison_all_failed(c, 1) };

	if (!failed[0] && !failed[1])
		return false;
	(void) buf_str(out, "time and memory are not compared; no run of ");
	compare_name(c, failed[0] ? 0 : 1, o, out);
	if (failed[0] && failed[1]) {
		(void) buf_str(out, " or ");
		compare_name(c, 1, o, out);
	}
	(void) buf_str(out, " ended with status 0");
	return true;
}

/* The result of two groups. */
static void put_tested(const struct comparison *c, const struct sink_options *o, struct buf *out)
{
	struct buf name = BUF_INIT(1 << 16), text = BUF_INIT(1 << 16);

	if (put_none_succeeded(c, o, out))
		return;
	compare_name(c, 1, o, &name);
	if (put_factors(c, o, differs, &text) > 0)
		(void) buf_printf(out, "%s%s", name.data, text.data);
	buf_clear(&text);
	if (put_labels(c, is_equal, &text) > 0)
		(void) buf_printf(out, "%sno difference found in %s", out->len ? "; " : "", text.data);
	buf_clear(&text);
	if (put_labels(c, is_undecided, &text) > 0)
		(void) buf_printf(out, "%sundecided, too few runs", out->len ? "; " : "");
	buf_clear(&text);
	if (put_factors(c, o, is_undecided, &text) > 0)
		(void) buf_printf(out, "; so far %s%s", name.data, text.data);
	buf_clear(&text);
	if (put_labels(c, is_slight_only, &text) > 0)
		(void) buf_printf(out, "%sless than 0.5 %% apart in %s", out->len ? "; " : "", text.data);
	if (out->len == 0)
		(void) buf_str(out, "undecided; neither time nor memory can be compared");
	buf_done(&name);
	buf_done(&text);
}

/* The group with the lowest mean of each leading figure. */
static void put_lowest(const struct comparison *c, const struct sink_options *o, struct buf *out)
{
	for (size_t i = 0; i < LEADING; i++) {
		const struct compare_row *row = comparison_row(c, leading[i].key);
		struct compare_cell least = { 0 };
		size_t group = 0;

		for (size_t g = 0; row && !compare_is_nothing(c, row) && g < c->n_groups; g++) {
			if (comparison_all_failed(c, g))
				continue;
			const struct compare_cell cell = comparison_cell(c, row, g);

			if (cell.n > 0 && (least.n == 0 || cell.mean < least.mean)) {
				least = cell;
				group = g;
			}
		}
		if (least.n == 0)
			continue;
		(void) buf_printf(out, "%slowest %s: ", out->len ? ", " : "", row->label);
		compare_name(c, group, o, out);
	}
	(void) buf_str(out, out->len ? " (means, not tested)" : "neither time nor memory can be compared");
}

void compare_result(
	const struct comparison *c, const struct sink_options *options, bool has_test, struct buf *out)
{
	struct buf line = BUF_INIT(1 << 20);
	size_t n_failed = 0;

	if (has_test)
		put_tested(c, options, &line);
	else
		put_lowest(c, options, &line);
	for (size_t i = 0; i < c->n_runs; i++)
		n_failed += c->runs[i].failed;
	if (n_failed > 0 && (!has_test || (!comparison_all_failed(c, 0) && !comparison_all_failed(c, 1))))
		(void) buf_printf(&line, " (without %zu run%s that did not end with status 0)", n_failed,
			n_failed == 1 ? "" : "s");
	(void) buf_str(out, line.data);
	buf_done(&line);
}

/* ---- all of it --------------------------------------------------------------------------------------------------------- */

bool compare_is_too_wide(const char *text, unsigned width)
{
	unsigned widest = 0;

	while (*text) {
		const size_t len = strcspn(text, "\n");
		struct buf line = BUF_INIT(1 << 16);

		(void) buf_add(&line, text, len);
		widest = text_width(line.data) > widest ? text_width(line.data) : widest;
		buf_done(&line);
		text += len + (text[len] != '\0');
	}
	return widest > width;
}

static void put_paragraphs(const char *text, struct buf *out)
{
	for (const char *line = text; *line;) {
		const size_t len = strcspn(line, "\n");

		if (line != text)
			(void) buf_str(out, "\n");
		(void) buf_add(out, line, len);
		(void) buf_str(out, "\n");
		line += len + (line[len] != '\0');
	}
}

static void put_lines(const struct buf *text, const struct sink_options *options, bool markdown,
	struct buf *out)
{
	struct layout l;

	if (markdown) {
		put_paragraphs(text->data, out);
	} else if (!options->width || options->width >= USUAL_WIDTH ||
		   !compare_is_too_wide(text->data, options->width)) {
		(void) buf_str(out, text->data);
	} else {
		layout_init(&l, out, options);
		layout_words(&l, text->data);
	}
	if (text->error)
		out->error = text->error;
}

static void put_notes(const struct comparison *c, const struct sink_options *o, bool has_test,
	bool markdown, struct buf *out)
{
	struct buf text = BUF_INIT(out->max);

	if (has_test)
		put_undecided(c, o, &text);
	else
		(void) buf_printf(&text, "mean %s standard deviation over the runs of each row\n",
			o->utf8 ? "\xC2\xB1" : "+-");
	put_warnings(c, !has_test, &text);
	put_failed(c, o, &text);
	(void) buf_str(&text, "Result: ");
	compare_result(c, o, has_test, &text);
	(void) buf_str(&text, ".\n");
	put_lines(&text, o, markdown, out);
	buf_done(&text);
}

void compare_notes(
	const struct comparison *c, const struct sink_options *options, bool markdown, struct buf *out)
{
	put_notes(c, options, true, markdown, out);
}

void compare_table_notes(
	const struct comparison *c, const struct sink_options *options, bool markdown, struct buf *out)
{
	put_notes(c, options, false, markdown, out);
}

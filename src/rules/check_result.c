/* SPDX-License-Identifier: MIT */
#include "rules/check_result.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "rules/engine.h"

/* Has the term a value for the whole run? */
static bool is_of_run(const struct rule_term *t)
{
	if (t->test == TEST_GROWTH || t->test == TEST_SILENT || t->name.what == RULE_FIELD)
		return false;
	return t->name.what == RULE_TIME || t->name.what == RULE_EXIT || t->name.part != PART_NOW;
}

static bool is_peak_of_processes(const struct rule_name *n)
{
	return n->part == PART_PEAK && (n->metric == M_PROC_RSS || n->metric == M_PROC_HWM);
}

static bool is_in_summary(const struct rule_name *n)
{
	return n->entity == ENTITY_HOST || n->entity == ENTITY_JOB ||
	       (n->entity == ENTITY_PROCESS && is_peak_of_processes(n));
}

enum check_by check_by(const struct rule *rule)
{
	bool in_summary = true;

	for (size_t i = 0; i < rule->n_terms; i++) {
		if (!is_of_run(&rule->terms[i]))
			return CHECK_EVER;
		in_summary &= is_in_summary(&rule->terms[i].name);
	}
	if (rule->for_ns > 0)
		return CHECK_EVER;
	return in_summary ? CHECK_SUMMARY : CHECK_END;
}

/* ---- the summary's figures ----------------------------------------------------------------------------------------- */

static void set(struct rule_value *ret, struct maybe value)
{
	ret->known = value.known;
	ret->low = ret->value = ret->high = (double) value.value;
}

/* The summary's memory figures include high-water marks and bounds, unlike the largest sample. */
static const struct ram_figure *ram_of(const struct summary *s, int metric)
{
	switch (metric) {
	case M_JOB_RAM:
		return &s->combined;
	case M_JOB_RAM_MAIN:
		return &s->main;
	case M_JOB_RAM_DESCENDANTS:
		return &s->descendants;
	default:
		return NULL;
	}
}

static bool lookup_ram(const struct summary *s, const struct rule_name *n, struct rule_value *ret)
{
	const struct ram_figure *figure = ram_of(s, n->metric);

	if (!figure || n->part == PART_LAST)
		return false;
	set(ret, n->part == PART_PEAK ? figure->peak : figure->mean);
	return true;
}

static struct maybe wall(const struct summary *s)
{
	return s->wall_ns.known && s->wall_ns.value > 0 ? s->wall_ns : UNKNOWN;
}

/* Increase of a counter during the run; those of the host and of GPUs began before it. */
static double risen(const struct acc *acc, enum entity entity)
{
	return (double) acc->last - (entity == ENTITY_HOST || entity == ENTITY_GPU ? (double) acc->min : 0);
}

/* Adds the accumulator's figure for the term to *sum. False: it has none. */
static bool add_part(
	const struct summary *s, const struct rule_term *t, const struct acc *acc, int metric, double *sum)
{
	const bool is_gauge = metrics[metric].kind == KIND_GAUGE;

	if (!acc)
		return false;
	if (t->rate) {
		/* Of rates only the mean over the run is known. */
		if (t->name.part != PART_MEAN || !wall(s).known)
			return false;
		*sum += risen(acc, metrics[metric].entity) / ((double) s->wall_ns.value / 1e9);
		return true;
	}
	if (t->name.part == PART_MEAN && (!is_gauge || acc->span_ns == 0))
		return false;
	if (!is_gauge)
		*sum += metrics[metric].kind == KIND_HWM ? (double) acc->max
							 : risen(acc, metrics[metric].entity);
	else
		*sum += t->name.part == PART_PEAK   ? (double) acc->max
			: t->name.part == PART_MEAN ? acc->sum / (double) acc->span_ns
						    : (double) acc->last;
	return true;
}

static void lookup_acc(
	const struct summary *s, const struct rule_term *t, uint32_t id, struct rule_value *ret)
{
	const struct rule_name *n = &t->name;
	double sum = 0;

	if (!add_part(s, t, job_acc(s->job, (enum metric) n->metric, id), n->metric, &sum))
		return;
	if (n->also >= 0 && !add_part(s, t, job_acc(s->job, (enum metric) n->also, id), n->also, &sum))
		return;
	ret->known = true;
	ret->low = ret->value = ret->high = sum;
}

/* The largest of all processes. */
static void lookup_processes(const struct summary *s, const struct rule_name *n, struct rule_value *ret)
{
	struct maybe most = UNKNOWN;

	if (!is_peak_of_processes(n))
		return;
	for (size_t i = 0; i < job_process_count(s->job); i++)
		most = maybe_max(most, known(job_process(s->job, i)->peak_bytes));
	set(ret, most);
}

static void lookup_series(const struct summary *s, const struct rule_name *n, struct rule_value *ret)
{
	for (size_t i = 0; i < job_series_count(s->job); i++) {
		const struct series *series = job_series(s->job, i);

		if (strcmp(series->name, n->series) != 0 || series->n == 0)
			continue;
		ret->known = true;
		ret->value = n->part == PART_PEAK   ? series->max
			     : n->part == PART_MEAN ? series->sum / (double) series->n
						    : series->last;
		ret->low = ret->high = ret->value;
	}
}

static void lookup(void *ctx, const struct rule *rule, size_t number, struct rule_value *ret)
{
	const struct summary *s = ctx;
	const struct rule_term *t = &rule->terms[number];
	/* What was requested or allowed is that of the steps, too. */
	const bool is_limit = t->whole == WHOLE_RAM || t->whole == WHOLE_LIMIT,
		   is_of_job = is_limit && t->name.entity == ENTITY_JOB;
	const struct maybe whole = is_of_job && summary_is_batch_only(s->facts)
					   ? UNKNOWN
					   : whole_of(s->facts, t, UNKNOWN);

	ret->whole_known = whole.known;
	ret->whole = (double) whole.value;
	if (t->name.what == RULE_TIME)
		set(ret, wall(s));
	else if (t->name.what == RULE_EXIT)
		set(ret, job_exit_code(s->facts));
	else if (t->name.what == RULE_SERIES)
		lookup_series(s, &t->name, ret);
	else if (t->name.entity == ENTITY_PROCESS)
		lookup_processes(s, &t->name, ret);
	else if (!lookup_ram(s, &t->name, ret) &&
		 (t->name.entity == ENTITY_JOB || t->name.entity == ENTITY_HOST))
		lookup_acc(s, t, 0, ret);
}

/* ---- results ------------------------------------------------------------------------------------------------------- */

/* Does the rule pass if its expression holds? That of always was negated while parsing. */
static bool passes_if_held(const struct rule *rule)
{
	return rule->quantifier == RULE_BARE || rule->quantifier == RULE_EVER;
}

static void value_text(const struct rule_seen *seen, char *buf, size_t size)
{
	const struct rule_term *t = seen->term;
	char name[RULE_NAME], value[RULE_VALUE_TEXT];

	if (!t || !seen->value.known)
		(void) snprintf(
			buf, size, "%s is unknown for this run", t ? rule_name_text(&t->name, name) : "it");
	else
		(void) snprintf(buf, size, "%s is %s%s", rule_name_text(&t->name, name),
			rule_value_text(t, &seen->value, value),
			t->whole != WHOLE_NONE && !seen->value.whole_known ? ", of an unknown total" : "");
}

static void fill(const struct rule *rule, bool holds, const struct rule_seen *seen, struct check_result *ret)
{
	*ret = (struct check_result) { .kind = holds == passes_if_held(rule) ? RESULT_PASS : RESULT_FAIL };
	if (!holds && seen->missing)
		ret->kind = RESULT_INCOMPLETE;
	ret->number = rule_number(seen->term, &seen->value);
	value_text(seen, ret->text, sizeof(ret->text));
}

void check_final(const struct rule *rule, const struct summary *summary, struct check_result *ret)
{
	struct summary s = *summary; /* the context of lookup() is not const */
	struct rule_seen seen;
	const bool holds = rule_holds(rule, lookup, &s, &seen);

	fill(rule, holds, &seen, ret);
}

void check_end(struct watch *w, size_t number, struct check_result *ret)
{
	/* The first kind of result with any subjects decides: a bare rule must hold for all, ever
	 * for one, always (which is negated) and never for none. */
	static const struct {
		enum count_kind of;
		enum check_result_kind result;
	} orders[][COUNT_KINDS] = {
		[RULE_BARE] = { { COUNT_HOLDS_NOT, RESULT_FAIL }, { COUNT_UNKNOWN, RESULT_INCOMPLETE },
			{ COUNT_HOLDS, RESULT_PASS } },
		[RULE_EVER] = { { COUNT_HOLDS, RESULT_PASS }, { COUNT_UNKNOWN, RESULT_INCOMPLETE },
			{ COUNT_HOLDS_NOT, RESULT_FAIL } },
		[RULE_ALWAYS] = { { COUNT_HOLDS, RESULT_FAIL }, { COUNT_UNKNOWN, RESULT_INCOMPLETE },
			{ COUNT_HOLDS_NOT, RESULT_PASS } },
		[RULE_NEVER] = { { COUNT_HOLDS, RESULT_FAIL }, { COUNT_UNKNOWN, RESULT_INCOMPLETE },
			{ COUNT_HOLDS_NOT, RESULT_PASS } },
	};
	const enum rule_quantifier quantifier = watch_rule(w, number)->quantifier;
	struct counts counts;
	size_t i = 0, len;

	watch_count(w, number, &counts);
	while (i < COUNT_KINDS && counts.of[orders[quantifier][i].of].n == 0)
		i++;
	*ret = (struct check_result) { .kind = RESULT_INCOMPLETE, .number = (double) NAN };
	if (i == COUNT_KINDS) {
		(void) snprintf(ret->text, sizeof(ret->text), "its values are unknown for this run");
		return;
	}
	const struct subject_count *t = &counts.of[orders[quantifier][i].of];

	ret->kind = orders[quantifier][i].result;
	ret->number = rule_number(t->seen.term, &t->seen.value);
	len = (size_t) snprintf(ret->text, sizeof(ret->text), "%s", t->subject);
	value_text(&t->seen, ret->text + len, sizeof(ret->text) - len);
}

void check_ever(const struct watch *w, size_t number, struct check_result *ret)
{
	const struct watch_history *history = watch_history(w, number);
	const struct rule *rule = watch_rule(w, number);
	const bool held = history->raised > 0;
	const bool always = rule->quantifier == RULE_ALWAYS;
	char at[UNITS_LEN];

	*ret = (struct check_result) { .kind = held == passes_if_held(rule) ? RESULT_PASS : RESULT_FAIL,
		.number = (double) NAN };
	if (held) {
		ret->number = history->number;
		ret->at_ns = known((int64_t) history->first_ns);
		(void) snprintf(ret->text, sizeof(ret->text), "%s at %s: %s", always ? "violated" : "held",
			units_instant((int64_t) history->first_ns, at), history->first);
	} else if (!history->had) {
		ret->kind = RESULT_INCOMPLETE;
		(void) snprintf(ret->text, sizeof(ret->text), "its values are unknown for this run");
	} else {
		(void) snprintf(
			ret->text, sizeof(ret->text), "%s", always ? "held all the time" : "never held");
	}
}

void check_unfinished(const struct rule *rule, struct check_result *v)
{
	static const char text[] = "; but the run's end is not recorded";
	const size_t len = strlen(v->text);
	const bool shown = v->at_ns.known && (v->kind == RESULT_PASS) == passes_if_held(rule);

	/* A rule that held once has held, whatever came later. */
	if (shown)
		return;
	v->kind = RESULT_INCOMPLETE;
	(void) snprintf(v->text + len, sizeof(v->text) - len, "%s", text);
}

/* What is missing may have used any amount. */
void check_lacking(const struct parts *parts, struct check_result *v)
{
	const size_t ranks = parts_missing(parts, NULL, 0), nodes = parts_missing_nodes(parts),
		     len = strlen(v->text);

	if (!parts_lack(parts) || v->kind == RESULT_INCOMPLETE)
		return;
	if (v->kind == RESULT_PASS)
		v->kind = RESULT_INCOMPLETE;
	if (ranks > 0)
		(void) snprintf(v->text + len, sizeof(v->text) - len, "; but %zu of %lld ranks have no recording", ranks,
			(long long) parts_ranks(parts));
	else
		(void) snprintf(v->text + len, sizeof(v->text) - len, "; but %s",
			nodes > 0 ? "nodes of the job have no recording" : "the recording of a rank was cut off");
}

/* ---- comparisons --------------------------------------------------------------------------------------------------- */

static void lookup_gpus(const struct summary *s, const struct rule_term *t, struct rule_value *ret)
{
	for (size_t i = 0; i < job_gpu_count(s->job); i++) {
		const struct birth *b = &job_gpu(s->job, i)->birth;
		struct rule_value one = { .known = false };

		if (t->name.indexed &&
			(*b->gpu.parent || !b->gpu.index.known ||
				b->gpu.index.value != (int64_t) t->name.index))
			continue;
		if (!t->name.indexed && !job_gpu_counts(s->job, b))
			continue;
		lookup_acc(s, t, b->id, &one);
		if (one.known && (!ret->known || one.value > ret->value))
			*ret = one;
	}
}

bool compare_value(const struct rule *rule, size_t term, const struct summary *summary, double *ret)
{
	struct summary s = *summary; /* the context of lookup() is not const */
	struct rule_value value = { .known = false };

	if (rule->terms[term].name.entity == ENTITY_GPU)
		lookup_gpus(&s, &rule->terms[term], &value);
	else
		lookup(&s, rule, term, &value);
	*ret = value.value;
	return value.known;
}

struct sides {
	const double *here, *base;
};

static void lookup_sides(void *ctx, const struct rule *rule, size_t number, struct rule_value *ret)
{
	const struct sides *sides = ctx;

	(void) rule;
	ret->known = !isnan(sides->here[number]);
	ret->low = ret->value = ret->high = sides->here[number];
	ret->whole_known = !isnan(sides->base[number]);
	ret->whole = sides->base[number];
}

void compare_judge(const struct rule *rule, const double *here, const double *base, struct check_result *ret)
{
	struct sides sides = { here, base };
	struct rule_seen seen;
	const bool holds = rule_holds(rule, lookup_sides, &sides, &seen);
	size_t len;

	*ret = (struct check_result) { .kind = holds ? RESULT_FAIL : seen.missing ? RESULT_INCOMPLETE
										  : RESULT_PASS };
	ret->number = rule_number(seen.term, &seen.value);
	value_text(&seen, ret->text, sizeof(ret->text));
	len = strlen(ret->text);
	if (seen.term && seen.value.known && seen.value.whole_known && seen.term->whole == WHOLE_BASE &&
		seen.value.whole > 0)
		(void) snprintf(ret->text + len, sizeof(ret->text) - len, ", %+.1f %%",
			(seen.value.value / seen.value.whole - 1) * 100);
}

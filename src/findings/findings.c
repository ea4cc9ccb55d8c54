/* SPDX-License-Identifier: MIT
 *
 * The table of rules and its evaluation. A new rule is a row here and a pure function in the file
 * of its topic.
 */
#include "findings/findings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "findings/finding.h"

#define SECONDS(n) (INT64_C(1000000000) * (n))

/* Findings of one severity are shown in this order. */
static const struct finding_rule rules[] = {
	{ "out-of-memory", SEVERITY_ERROR, 0, rule_out_of_memory },
	{ "rlimit", SEVERITY_WARN, 0, rule_rlimit },
	{ "failed", SEVERITY_WARN, 0, rule_failed },
	{ "gpu-ecc", SEVERITY_ERROR, 0, rule_gpu_ecc },
	{ "shm-full", SEVERITY_WARN, 0, rule_shm_full },
	{ "memory-near-limit", SEVERITY_WARN, 0, rule_memory_near_limit },
	{ "memory-exceeded", SEVERITY_WARN, 0, rule_memory_exceeded },
	{ "host-leak", SEVERITY_WARN, SECONDS(600), rule_host_leak },
	{ "gpu-leak", SEVERITY_WARN, SECONDS(600), rule_gpu_leak },
	{ "data-starved", SEVERITY_WARN, SECONDS(60), rule_data_starved },
	{ "rank-skew", SEVERITY_WARN, SECONDS(60), rule_rank_skew },
	{ "gpu-idle", SEVERITY_WARN, SECONDS(300), rule_gpu_idle },
	{ "gpu-throttle", SEVERITY_WARN, SECONDS(60), rule_gpu_throttle },
	{ "gpu-low-use", SEVERITY_WARN, SECONDS(60), rule_gpu_low_use },
	{ "cpu-throttled", SEVERITY_WARN, SECONDS(10), rule_cpu_throttled },
	{ "swap", SEVERITY_WARN, SECONDS(10), rule_swap },
	{ "cpu-oversubscribed", SEVERITY_WARN, SECONDS(120), rule_cpu_oversubscribed },
	{ "io-bound", SEVERITY_WARN, SECONDS(60), rule_io_bound },
	{ "fabric-rate", SEVERITY_HINT, SECONDS(60), rule_fabric_rate },
	{ "memory-request", SEVERITY_HINT, SECONDS(300), rule_memory_request },
	{ "cpu-request", SEVERITY_HINT, SECONDS(300), rule_cpu_request },
	{ "time-request", SEVERITY_HINT, SECONDS(60), rule_time_request },
	{ "gpu-memory", SEVERITY_HINT, SECONDS(300), rule_gpu_memory },
	{ "alloc-gap", SEVERITY_HINT, SECONDS(60), rule_alloc_gap },
	{ "gpu-bound-by", SEVERITY_HINT, SECONDS(60), rule_gpu_bound_by },
	{ "cpu-contention", SEVERITY_HINT, SECONDS(30), rule_cpu_contention },
	{ "blind-spots", SEVERITY_HINT, 0, rule_blind_spots },
};

/* Judged only of a job of several ranks; shown before the others of their severity. */
static const struct finding_rule job_rules[] = {
	{ "ranks-missing", SEVERITY_WARN, 0, rule_ranks_missing },
	{ "node-memory", SEVERITY_WARN, 0, rule_node_memory },
	{ "node-slow", SEVERITY_WARN, SECONDS(60), rule_node_slow },
	{ "node-idle", SEVERITY_WARN, SECONDS(300), rule_node_idle },
	{ "gpu-idle-tail", SEVERITY_WARN, SECONDS(300), rule_gpu_tail },
	{ "rank-memory", SEVERITY_HINT, 0, rule_rank_memory },
	{ "restarts", SEVERITY_HINT, 0, rule_restarts },
};

/* Judged only of a traced run, likewise. */
static const struct finding_rule work_rules[] = {
	{ "gpu-waits", SEVERITY_WARN, SECONDS(1), rule_gpu_waits },
	{ "gpu-launches", SEVERITY_WARN, SECONDS(1), rule_gpu_launches },
	{ "gpu-syncs", SEVERITY_WARN, SECONDS(1), rule_gpu_syncs },
	{ "gpu-pageable", SEVERITY_HINT, SECONDS(1), rule_gpu_pageable },
};

/* Judged only of a run whose memory was sampled. */
static const struct finding_rule where_rules[] = {
	{ "one-call", SEVERITY_HINT, 0, rule_one_call },
	{ "copy-on-write", SEVERITY_HINT, 0, rule_copy_on_write },
};

enum {
	RULES = sizeof(rules) / sizeof(*rules),
	JOB_RULES = sizeof(job_rules) / sizeof(*job_rules),
	WORK_RULES = sizeof(work_rules) / sizeof(*work_rules),
	WHERE_RULES = sizeof(where_rules) / sizeof(*where_rules)
};

static void add(struct finding *f, struct evidence evidence)
{
	evidence.device = f->n_devices;
	if (f->n_evidence < EVIDENCE_MOST)
		f->evidence[f->n_evidence++] = evidence;
}

void finding_evidence(struct finding *f, const char *key, double value)
{
	add(f, (struct evidence) { .key = key, .value = value });
}

void finding_text(struct finding *f, const char *key, const char *text)
{
	add(f, (struct evidence) { .key = key, .text = text });
}

void finding_device(struct finding *f)
{
	f->n_devices++;
}

void finding_interval(struct finding *f, int64_t from_ns, int64_t to_ns)
{
	f->from_ns = (uint64_t) (from_ns > 0 ? from_ns : 0);
	f->to_ns = (uint64_t) (to_ns > from_ns ? to_ns : from_ns);
}

bool run_succeeded(const struct summary *s)
{
	return s->complete && s->facts->exit_status.known && s->facts->exit_status.value == 0 &&
	       !s->facts->stopped_by.known;
}

/* False, with the reason in text, if the run was too short for the rule. */
static bool is_long_enough(const struct finding_rule *rule, const struct summary *s, struct buf *text)
{
	char wall[UNITS_LEN], least[UNITS_LEN];

	if (rule->min_wall_ns == 0)
		return true;
	if (!s->wall_ns.known) {
		buf_str(text, "the wall time of the run is unknown");
		return false;
	}
	if (s->wall_ns.value > rule->min_wall_ns)
		return true;
	buf_printf(text, "the run took %s; this rule needs more than %s",
		units_duration(s->wall_ns.value, wall), units_duration(rule->min_wall_ns, least));
	return false;
}

static int judge(const struct finding_rule *rule, const struct known_of_run *k, struct finding *f)
{
	struct buf text = BUF_INIT(1 << 16);
	char *copy;

	*f = (struct finding) { .code = rule->code, .severity = rule->severity };
	finding_interval(f, 0, k->s->wall_ns.known ? k->s->wall_ns.value : 0);
	f->is_unjudged = !is_long_enough(rule, k->s, &text);
	f->fired = !f->is_unjudged && rule->judge(k, f, &text);
	copy = text.error ? NULL : strdup(text.data);
	buf_done(&text);
	if (f->fired)
		f->message = copy;
	else
		f->why_not = copy;
	return copy ? 0 : -ENOMEM;
}

/* If this run does not show the job's use, earlier ones do not stand in for it: they may have been of
 * another size. */
static int make_request(struct summary *s, const struct earlier_runs *earlier)
{
	struct request_options options = REQUEST_OPTIONS_INIT;
	struct request_run *runs = calloc(earlier->n + 1, sizeof(*runs));
	int code;

	if (!runs)
		return -ENOMEM;
	request_run_of(s, &runs[0]);
	if (!runs[0].unseen)
		options.left_out = earlier->left_out;
	if (earlier->n > 0)
		memcpy(&runs[1], earlier->runs, earlier->n * sizeof(*runs));
	code = request_make(runs, runs[0].unseen ? 1 : earlier->n + 1, &options, &s->request);
	free(runs);
	return code;
}

int findings_make(struct summary *summary, const struct earlier_runs *earlier)
{
	static const struct earlier_runs none;
	const struct known_of_run k = { .s = summary, .earlier = earlier ? earlier : &none };
	const struct {
		const struct finding_rule *rules;
		size_t n;
	} tables[] = {
		{ job_rules, summary->job && job_parts(summary->job) ? JOB_RULES : 0 },
		{ work_rules, summary->work ? WORK_RULES : 0 },
		{ where_rules, summary->touched ? WHERE_RULES : 0 },
		{ rules, RULES },
	};
	struct finding *list = calloc(JOB_RULES + WORK_RULES + WHERE_RULES + RULES, sizeof(*list));
	int code = list ? make_request(summary, k.earlier) : -ENOMEM;
	size_t n = 0;

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		for (size_t j = 0; code == 0 && j < tables[i].n; j++)
			code = judge(&tables[i].rules[j], &k, &list[n++]);
	}
	/* summary_done() frees a partial list as well. */
	if (list) {
		summary->findings = list;
		summary->n_findings = n;
	}
	return code;
}

static bool is_in(const char *list, const char *code)
{
	const size_t len = strlen(code);

	for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',') {
		at += strspn(at, " ");
		if (strncmp(at, code, len) == 0 && strchr(", ", at[len]))
			return true;
	}
	return false;
}

/* Codes that were renamed; their former ones still switch them off. */
static const struct {
	const char *code, *former;
} renamed[] = {
	{ "cpu-contention", "foreign-load" },
};

static bool is_off(const char *list, const char *code)
{
	bool off = is_in(list, code);

	for (size_t i = 0; i < sizeof(renamed) / sizeof(renamed[0]); i++)
		off |= strcmp(renamed[i].code, code) == 0 && is_in(list, renamed[i].former);
	return off;
}

int findings_switch_off(struct summary *summary, const char *list)
{
	for (size_t i = 0; i < summary->n_findings; i++) {
		struct finding *f = &summary->findings[i];
		char *why_not = f->fired && is_off(list, f->code)
					? strdup("switched off by HIWATER_FINDINGS_OFF")
					: NULL;

		if (!f->fired || !is_off(list, f->code))
			continue;
		if (!why_not)
			return -ENOMEM;
		free(f->message);
		f->message = NULL;
		f->why_not = why_not;
		f->fired = false;
	}
	return 0;
}

/* ---- figures from the job's accumulators --------------------------------------------------------------------------- */

static const struct acc *acc_of(const struct summary *s, enum metric metric, uint32_t id)
{
	return s->job ? job_acc(s->job, metric, id) : NULL;
}

struct maybe figures_rise(const struct summary *s, enum metric metric)
{
	const struct acc *acc = acc_of(s, metric, 0);

	return acc ? known(acc->last > acc->min ? acc->last - acc->min : 0) : UNKNOWN;
}

struct maybe figures_most(const struct summary *s, enum metric metric, uint32_t id)
{
	const struct acc *acc = acc_of(s, metric, id);

	return acc ? known(acc->max) : UNKNOWN;
}

double figures_mean(const struct summary *s, enum metric metric, uint32_t id)
{
	const struct acc *acc = acc_of(s, metric, id);

	return acc && acc->span_ns > 0 ? acc->sum / (double) acc->span_ns : -1;
}

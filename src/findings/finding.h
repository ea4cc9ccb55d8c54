/* SPDX-License-Identifier: MIT
 *
 * What a rule of findings is (those of --alert are in rule.h), and what they share. One looks at a summary and the
 * earlier runs and at nothing else; it writes either the message (number, evidence, one action; "may" or "suspected"
 * unless it is exact) or, not firing, what it looked at and what it would have taken. Units in messages are binary.
 */
#pragma once

#include "base/buf.h"
#include "findings/findings.h"
#include "summary/summary.h"

/* What is known when rules are judged. */
struct known_of_run {
	const struct summary *s;
	const struct earlier_runs *earlier; /* never NULL */
};

struct finding_rule {
	const char *code;
	enum severity severity;   /* a rule may raise or lower it in the finding */
	int64_t min_wall_ns;      /* not judged on runs that are no longer than this */
	/* Returns true if it fires. Evidence and interval are added to f; the interval is the whole run at first. */
	bool (*judge)(const struct known_of_run *k, struct finding *f, struct buf *text);
};

bool rule_out_of_memory(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_memory_near_limit(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_memory_request(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_time_request(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_swap(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_shm_full(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_data_starved(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_io_bound(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_cpu_throttled(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_cpu_oversubscribed(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_cpu_request(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_foreign_load(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_gpu_leak(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_gpu_idle(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_gpu_low_use(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_gpu_memory(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_gpu_throttle(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_gpu_ecc(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_gpu_bound_by(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_alloc_gap(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_rank_skew(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_host_leak(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_blind_spots(const struct known_of_run *k, struct finding *f, struct buf *text);

/* key ends in _bytes, _s or _ratio, or is a plain number; it must live for ever. */
void finding_evidence(struct finding *f, const char *key, double value);
/* text must live as long as the summary. */
void finding_text(struct finding *f, const char *key, const char *text);
/* What is added from here on is of one device of several, the next. */
void finding_device(struct finding *f);
void finding_interval(struct finding *f, int64_t from_ns, int64_t to_ns);

/* The smallest of what may stop the job from getting more RAM: its cgroup's limit, one above it, the machine. */
struct maybe memory_limit(const struct summary *s);

/* True if there is a sign that the kernel killed a process of the job for lack of memory, and nothing says that it was others. */
bool memory_may_have_ended_it(const struct summary *s);

/* How many processors would have been enough, where those requested were far too many; else unknown. */
struct maybe cpus_enough(const struct summary *s);

/* Processors that others kept busy, on average; 0 if that is unknown. */
double foreign_cores(const struct summary *s);

/* True if main ended with status 0, by itself. */
bool run_succeeded(const struct summary *s);

/* ---- figures from the job's accumulators --------------------------------------------------------------------------- */

/* What a counter of the host or the job rose by during the run. */
struct maybe figures_rise(const struct summary *s, enum metric metric);
/* A gauge's largest value, and its mean over the time it is known for; negative if it is unknown. */
struct maybe figures_most(const struct summary *s, enum metric metric, uint32_t id);
double figures_mean(const struct summary *s, enum metric metric, uint32_t id);

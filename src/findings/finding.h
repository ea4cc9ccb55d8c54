/* SPDX-License-Identifier: MIT
 *
 * Rules of findings (rules of --alert are in rules/rule.h) and the figures that they share. A rule
 * is a pure function of a summary and of the earlier runs. Where it fires, it writes the message:
 * number, evidence, one action; "may" or "suspected" unless it is exact. Else it writes the values
 * that it compared and its threshold. Units in messages are binary.
 */
#pragma once

#include "base/buf.h"
#include "findings/findings.h"
#include "summary/summary.h"

/* Input of every rule. */
struct known_of_run {
	const struct summary *s;
	const struct earlier_runs *earlier; /* never NULL */
};

struct finding_rule {
	const char *code;
	enum severity severity;   /* default; a rule may change it in the finding */
	int64_t min_wall_ns;      /* shorter runs are not judged */
	/* Returns true if the rule fires. Adds evidence to f and may narrow its interval, which is
	 * the whole run at first. */
	bool (*judge)(const struct known_of_run *k, struct finding *f, struct buf *text);
};

bool rule_out_of_memory(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_memory_near_limit(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_rlimit(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_failed(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_memory_exceeded(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_memory_request(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_time_request(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_swap(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_shm_full(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_data_starved(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_io_bound(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_fabric_rate(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_cpu_throttled(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_cpu_oversubscribed(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_cpu_request(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_cpu_contention(const struct known_of_run *k, struct finding *f, struct buf *text);
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
/* Only of a job of several ranks (job_parts is not NULL). */
bool rule_ranks_missing(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_node_memory(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_node_slow(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_node_idle(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_rank_memory(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_restarts(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_gpu_tail(const struct known_of_run *k, struct finding *f, struct buf *text);
/* Only of a traced run (summary.work is not NULL). */
bool rule_gpu_waits(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_gpu_launches(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_gpu_pageable(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_gpu_syncs(const struct known_of_run *k, struct finding *f, struct buf *text);
/* Only of a sampled run (summary.touched is not NULL). */
bool rule_one_call(const struct known_of_run *k, struct finding *f, struct buf *text);
bool rule_copy_on_write(const struct known_of_run *k, struct finding *f, struct buf *text);

/* key ends in _bytes, _s or _ratio, or is a plain number; not copied: a literal. */
void finding_evidence(struct finding *f, const char *key, double value);
/* text is borrowed and must live as long as the summary. */
void finding_text(struct finding *f, const char *key, const char *text);
/* Evidence that is added from here on belongs to the next of several devices. */
void finding_device(struct finding *f);
void finding_interval(struct finding *f, int64_t from_ns, int64_t to_ns);

/* The smallest limit on the job's RAM: of its cgroup, of one above it, the machine's memory. */
struct maybe memory_limit(const struct summary *s);

/* True if the kernel may have killed a process of the job for lack of memory, unless its log names
 * other processes only. */
bool memory_may_have_ended_it(const struct summary *s);

enum {
	CPU_USE_FEW = 10 /* buckets: with fewer, the spread means little */
};

/* Cores that a job used over time: mean, standard deviation, and the busiest bucket of the
 * timeline. */
struct cpu_use {
	double mean, sigma, most;
	int64_t most_at_ns;
	int n; /* buckets; 0: unknown */
};

struct cpu_use cpu_use_of(const struct job *job);

/* CPUs that other processes kept busy, on average; 0 if unknown. */
double other_cores(const struct summary *s);

/* True if the main process ended by itself with status 0. */
bool run_succeeded(const struct summary *s);

/* ---- figures from the job's accumulators --------------------------------------------------------------------------- */

/* Increase of a counter of the host or the job during the run. */
struct maybe figures_rise(const struct summary *s, enum metric metric);
/* A gauge's largest value, and its mean over the time in which it was read (negative: unknown). */
struct maybe figures_most(const struct summary *s, enum metric metric, uint32_t id);
double figures_mean(const struct summary *s, enum metric metric, uint32_t id);

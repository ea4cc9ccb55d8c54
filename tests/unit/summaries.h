/* SPDX-License-Identifier: MIT
 *
 * Summaries made by hand, for the tests of findings and sinks: every value is written here, so that
 * results can be compared with it.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "findings/findings.h"
#include "summary/summary.h"

#define MIB(n)     ((int64_t) ((n) * 1048576.0))
#define GIB(n)     ((int64_t) ((n) * 1073741824.0))
#define SECONDS(n) ((int64_t) ((n) * 1e9))

struct made {
	struct job *job;
	struct facts *f;
	struct summary s;
};

static inline void set_text(char **field, const char *text)
{
	assert_int_equal(job_set_text(field, text), 0);
}

static inline struct ram_figure ram_figure(
	enum method method, const char *source, int64_t low, int64_t peak, int64_t high)
{
	return (struct ram_figure) {
		.peak = known(peak),
		.low = known(low),
		.high = known(high),
		.method = method,
		.source = source,
		.mean = known(peak / 2),
		.at_ns = known(SECONDS(12.5)),
	};
}

/* A run of one process that went well: 41.2 s, 413 MiB exactly, on a machine of 16 CPUs and 64 GiB. */
static inline void made_new(struct made *m)
{
	const struct job_config config = { .page_bytes = 4096, .fault_page_bytes = 4096, .ours = true };

	*m = (struct made) { .job = job_new(&config) };
	assert_non_null(m->job);
	m->f = job_facts(m->job);
	set_text(&m->f->id, "0123456789abcdef0123456789abcdef");
	set_text(&m->f->command, "python fit.py");
	set_text(&m->f->argv_json, "[\"python\",\"fit.py\"]");
	set_text(&m->f->host, "node7");
	set_text(&m->f->mode, "run");
	set_text(&m->f->version, "0.1.0");
	set_text(&m->f->recording, "/home/ana/.local/state/hiwater/17.hiw");
	m->f->started_wall_ns = known(INT64_C(1795239333123000000)); /* 2026-11-21 05:35:33.123 UTC */
	m->f->ended_ns = known(SECONDS(41.2));
	m->f->exit_status = known(0);
	m->f->cpus = known(16);
	m->f->capacity_bytes = known(GIB(64));
	m->f->processes_seen = known(1);
	m->f->processes_left = known(0);
	m->f->interval_ns = known(100000000);
	m->f->samples = known(412);
	m->f->late_samples = known(0);
	m->f->longest_gap_ns = known(SECONDS(0.1));
	m->f->own_cpu_ns = known(SECONDS(0.04));
	m->f->own_rss_bytes = known(MIB(4.1));
	m->s = (struct summary) {
		.job = m->job,
		.facts = job_facts_const(m->job),
		.complete = true,
		.cpu_exact = true,
		.wall_ns = known(SECONDS(41.2)),
		.user_ns = known(SECONDS(70)),
		.system_ns = known(SECONDS(2.1)),
		.main = ram_figure(METHOD_EXACT, "VmHWM", MIB(413), MIB(413), MIB(413)),
		.combined = ram_figure(METHOD_EXACT, "VmHWM", MIB(413), MIB(413), MIB(413)),
		.cores_mean_ppm = known(1750000),
		.peak_alive = known(1),
		.swap_peak = known(0),
		.hugetlb_peak = known(0),
		.read_bytes = known(0),
		.write_bytes = known(0),
		.system_peak = known(GIB(3)),
	};
	m->s.combined.mean = known(MIB(307));
}

static inline void made_done(struct made *m)
{
	summary_done(&m->s);
	job_free(m->job);
}

static inline void made_process(struct made *m, uint32_t id, const char *name, int64_t peak, bool exact)
{
	struct process p = {
		.id = id,
		.pid = 5000 + (int32_t) id,
		.is_main = id == 1,
		.peak_bytes = peak,
		.peak_exact = exact,
		.start_ns = id,
		.parent = id == 1 ? 0 : 1,
		.cpu_known = true,
		.cpu_user_ns = SECONDS(id),
		.ended = true,
	};

	(void) snprintf(p.name, sizeof(p.name), "%s", name);
	assert_int_equal(job_restore_process(m->job, &p), 0);
}

/* A counter that rises from from to to. */
static inline void made_counter(struct made *m, enum metric metric, int64_t from, int64_t to)
{
	const struct acc acc = { .n = 2, .min = from, .max = to, .last = to };

	assert_int_equal(job_restore_acc(m->job, metric, 0, &acc), 0);
}

static inline const struct finding *finding_of(const struct made *m, const char *code)
{
	for (size_t i = 0; i < m->s.n_findings; i++) {
		if (strcmp(m->s.findings[i].code, code) == 0)
			return &m->s.findings[i];
	}
	fail_msg("no rule %s", code);
	return NULL;
}

/* SPDX-License-Identifier: MIT
 *
 * The runs whose summaries are in tests/golden/summary-*.
 */
#pragma once

#include "summaries.h"

/* A main process that is alive, for phases. */
static inline void made_birth(struct made *m, const char *name)
{
	const struct birth birth = {
		.entity = ENTITY_PROCESS,
		.id = 1,
		.process = { .pid = 5001, .start_ns = 1, .name = name, .command = "", .is_main = true },
	};
	const struct frame frame = { .source = FRAME_PROCFS, .live = true, .births = &birth, .n_births = 1 };

	assert_int_equal(job_apply(m->job, &frame), 0);
}

static inline void made_phase(struct made *m, uint32_t number, const char *name, double begin_s, double end_s,
	const int64_t ram[3])
{
	const double at[] = { begin_s, (begin_s + end_s) / 2, end_s };

	for (int i = 0; i < 3; i++) {
		const struct reading reading = reading_of(M_PROC_RSS, 1, ram[i]);
		const struct event event = {
			.time_ns = (uint64_t) SECONDS(at[i]),
			.kind = i == 0 ? EVENT_PHASE_BEGIN : EVENT_PHASE_END,
			.entity = ENTITY_JOB,
			.phase = number,
			.text = name,
		};
		const struct frame level = {
			.time_ns = event.time_ns,
			.hold_ns = (uint64_t) SECONDS(1000),
			.source = FRAME_PROCFS,
			.live = true,
			.readings = &reading,
			.n_readings = 1,
		};
		const struct frame edge = {
			.time_ns = event.time_ns,
			.source = FRAME_USER,
			.live = true,
			.events = &event,
			.n_events = 1,
		};

		assert_int_equal(job_apply(m->job, &level), 0);
		if (i != 1)
			assert_int_equal(job_apply(m->job, &edge), 0);
	}
}

/* A phase inside phase 2. */
static inline void made_validation(struct made *m)
{
	char name[] = "validate", facts[] = "";
	const struct phase phase = {
		.number = 3,
		.parent = 2,
		.name = name,
		.facts = facts,
		.begin_ns = (uint64_t) SECONDS(4000),
		.end_ns = (uint64_t) SECONDS(4300),
		.ram_before = GIB(11.5),
		.ram_peak = GIB(12),
		.ram_after = GIB(12),
		.ram_known = true,
		.peak_exact = true,
	};

	assert_int_equal(job_restore_phase(m->job, &phase), 0);
}

/* A training run under Slurm that requested too much. */
static inline void made_training(struct made *m)
{
	const int64_t load[] = { MIB(80), GIB(9.7), GIB(9.3) }, fit[] = { GIB(9.3), GIB(12.1), GIB(12.0) };
	struct series loss = {
		.n = 1602,
		.first = 2.31,
		.last = 0.431,
		.min = 0.402,
		.max = 2.34,
		.has_step = true,
		.last_step = 1601,
	};
	char name[] = "loss";

	made_new(m);
	set_text(&m->f->command, "python train.py --epochs 3 --data /scratch/ana/imagenet-21k/train");
	set_text(&m->f->argv_json,
		"[\"python\",\"train.py\",\"--epochs\",\"3\",\"--data\",\"/scratch/ana/imagenet-21k/train\"]");
	set_text(&m->f->scheduler, "slurm");
	m->f->capacity_bytes = known(GIB(256));
	m->f->limit_bytes = known(GIB(64));
	m->f->request_bytes = known(GIB(64));
	m->f->request_time_ns = known(SECONDS(14400));
	m->f->request_cpus = known(16);
	m->f->processes_seen = known(9);
	m->f->samples = known(43240);
	m->f->late_samples = known(12);
	m->f->longest_gap_ns = known(SECONDS(0.31));
	m->f->own_cpu_ns = known(SECONDS(4.1));
	m->s.peak_alive = known(6);
	m->s.wall_ns = known(SECONDS(4324));
	m->s.user_ns = known(SECONDS(20000));
	m->s.system_ns = known(SECONDS(890));
	m->s.cores_mean_ppm = known(4831000);
	m->s.iowait_ppm = known(112000);
	m->s.main = ram_figure(METHOD_EXACT, "VmHWM", GIB(12.1), GIB(12.1), GIB(12.1));
	m->s.descendants = ram_figure(METHOD_SAMPLED, "statm", GIB(10.3), GIB(10.3), GIB(10.3));
	m->s.combined = ram_figure(METHOD_BOUNDED, "PSS", GIB(22.1), GIB(22.4), GIB(23.1));
	m->s.combined.at_ns = known(SECONDS(2467));
	m->s.combined.mean = known(GIB(18.9));
	m->s.combined.private_bytes = known(GIB(20.1));
	m->s.combined.shared_bytes = known(GIB(2.3));
	m->s.cgroup_peak = known(GIB(53.6));
	m->s.cgroup_method = METHOD_EXACT;
	m->s.cgroup_file_at_peak = known(GIB(31.2));
	m->s.cgroup_limit = known(GIB(64));
	m->s.cgroup_oom_kills = m->s.oom_kills = known(0);
	m->s.read_bytes = known(GIB(412));
	m->s.write_bytes = known(GIB(8.4));
	m->s.cpu_energy_uj = known(INT64_C(255600000000));
	made_counter(m, M_JOB_CGROUP_THROTTLED, SECONDS(1), SECONDS(13.5));
	made_birth(m, "python");
	made_process(m, 2, "pt_data_worker", GIB(3.1), false);
	made_process(m, 3, "pt_data_worker", GIB(3.0), false);
	made_process(m, 4, "sh", MIB(1.7), true);
	made_phase(m, 1, "load the training set", 0.5, 182, load);
	made_phase(m, 2, "epoch\nepoch=1\nlr=0.001", 190, 4300, fit);
	made_validation(m);
	loss.name = name;
	assert_int_equal(job_restore_series(m->job, &loss), 0);
	assert_int_equal(summary_note(&m->s, "gpu", "not measured: --gpu=none"), 0);
	assert_int_equal(
		summary_note(&m->s, "ram.descendants", "3 PSS passes were left out: a process was too large"),
		0);
	assert_int_equal(findings_make(&m->s, NULL), 0);
}

static inline void made_killed(struct made *m)
{
	struct process main = {
		.id = 1,
		.pid = 5123,
		.name = "solver",
		.is_main = true,
		.ended = true,
		.status_known = true,
		.status = SIGKILL,
		.peak_bytes = GIB(31.9),
		.peak_exact = true,
		.start_ns = 1,
	};

	made_new(m);
	set_text(&m->f->command, "./solver -n 8");
	set_text(&m->f->argv_json, "[\"./solver\",\"-n\",\"8\"]");
	set_text(&m->f->recording, "/home/ana/.local/state/hiwater/8.hiw");
	m->f->exit_status = known(SIGKILL);
	m->f->limit_bytes = known(GIB(32));
	m->s.oom_killed = true;
	m->s.cgroup_oom_kills = m->s.oom_kills = known(1);
	m->s.cgroup_limit = known(GIB(32));
	m->s.wall_ns = known(SECONDS(231));
	m->s.main = m->s.combined = ram_figure(METHOD_EXACT, "taskstats", GIB(31.9), GIB(31.9), GIB(31.9));
	m->s.combined.at_ns = known(SECONDS(228));
	assert_int_equal(job_restore_process(m->job, &main), 0);
	assert_int_equal(findings_make(&m->s, NULL), 0);
}

/* A build: two thousand processes, names in other scripts, a hostile one, a long path. */
static inline void made_many(struct made *m)
{
	char name[16];

	made_new(m);
	set_text(&m->f->command,
		"make -j16 \x1b[31mall\x1b[0m FLAGS='\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e' \xe2\x80\xaegnp.exe \xff");
	set_text(&m->f->argv_json, "[\"make\",\"-j16\",\"\\u001b[31mall\",\"\\u65e5\\ud83d\\ude00\"]");
	set_text(&m->f->recording,
		"/scratch/project/a-rather-long-folder-name/with-another-one-below-it/build-2026-11-21.hiw");
	set_text(&m->f->left_names, "ccache (7001), \xe6\x97\xa5\xe6\x9c\xac (7002)");
	m->f->processes_seen = known(2011);
	m->f->processes_left = known(2);
	m->f->limit_cpu_ppm = known(2500000);
	m->s.cores_mean_ppm = known(2480000);
	m->s.cpu_exact = false;
	m->s.peak_alive = known(34);
	m->s.main = ram_figure(METHOD_EXACT, "VmHWM", MIB(12.3), MIB(12.3), MIB(12.3));
	m->s.descendants = ram_figure(METHOD_BOUNDED, "fork families", MIB(2801), MIB(2817), MIB(2818));
	m->s.combined = ram_figure(METHOD_BOUNDED, "fork families", MIB(2805), MIB(2820), MIB(2830));
	for (uint32_t i = 1; i <= 2000; i++) {
		(void) snprintf(name, sizeof(name),
			i == 7   ? "\xe6\x97\xa5\xe6\x9c\xac"
			: i == 8 ? "a\x1b[2Jb c"
				 : "cc1-%u",
			i);
		made_process(m, i, i == 1 ? "make" : name, MIB(i < 9 ? 300 + i : i % 97), i % 2);
	}
	assert_int_equal(findings_make(&m->s, NULL), 0);
}

static inline void made_attached(struct made *m)
{
	made_new(m);
	set_text(&m->f->command, "postgres: writer");
	set_text(&m->f->argv_json, NULL);
	set_text(&m->f->recording, NULL);
	set_text(&m->f->mode, "attach");
	m->f->exit_status = UNKNOWN;
	m->f->capacity_bytes = known(INT64_C(23100000000));
	m->f->interval_ns = known(SECONDS(2));
	m->f->samples = known(301);
	m->s.cpu_exact = false;
	m->s.wall_ns = known(SECONDS(600));
	m->s.main = m->s.combined = ram_figure(METHOD_SAMPLED, "statm", MIB(96.2), MIB(96.2), MIB(96.2));
	m->s.combined.at_ns = known(SECONDS(0.25));
	m->s.swap_peak = known(MIB(12));
	m->s.hugetlb_peak = known(MIB(64));
	assert_int_equal(
		summary_note(&m->s, "time", "CPU time is sampled: hiwater did not start the job"), 0);
	assert_int_equal(
		summary_note(&m->s, "io", "not permitted: /proc/PID/io of another user's process"), 0);
	m->s.read_bytes = m->s.write_bytes = UNKNOWN;
	assert_int_equal(findings_make(&m->s, NULL), 0);
}

/* A named block of a Python program that went on. raised: the exception that left it; NULL: none. */
static inline void made_block_of(struct made *m, const char *raised)
{
	made_new(m);
	set_text(&m->f->name, "fit");
	set_text(&m->f->command, "python3 train.py");
	set_text(&m->f->mode, "attach");
	m->f->by_block = known(1);
	if (raised)
		set_text(&m->f->raised, raised);
	m->f->exit_status = UNKNOWN;
	m->s.cpu_exact = false;
	m->s.wall_ns = m->f->ended_ns = known(SECONDS(1.44));
	assert_int_equal(
		summary_note(&m->s, "time", "CPU time is sampled: hiwater did not start the job"), 0);
	assert_int_equal(findings_make(&m->s, NULL), 0);
}

static inline void made_block(struct made *m)
{
	made_block_of(m, NULL);
}

static inline void made_block_raised(struct made *m)
{
	made_block_of(m, "ValueError");
}

/* The recorder was killed in its first window: almost nothing is known. */
static inline void made_lost(struct made *m)
{
	const struct job_config config = { .page_bytes = 4096 };

	*m = (struct made) { .job = job_new(&config) };
	assert_non_null(m->job);
	m->f = job_facts(m->job);
	m->s = (struct summary) { .job = m->job, .facts = m->f, .lost = true };
	set_text(&m->f->argv_json, "[\"broken");
	set_text(&m->f->command, "sleep 100");
	assert_int_equal(findings_make(&m->s, NULL), 0);
}

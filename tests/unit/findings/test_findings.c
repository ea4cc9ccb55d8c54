/* SPDX-License-Identifier: MIT
 *
 * Each rule fires on one side of its threshold and, with a reason, does not on the other.
 */
#include "findings/finding.h"
#include "findings_rig.h"

static void test_a_good_run_has_none(void **state)
{
	struct made m;

	(void) state;
	made_new(&m);
	assert_int_equal(findings_make(&m.s, NULL), 0);
	assert_int_equal(m.s.n_findings, 27);
	for (size_t i = 0; i < m.s.n_findings; i++) {
		if (m.s.findings[i].fired)
			fail_msg("%s: %s", m.s.findings[i].code, m.s.findings[i].message);
	}
	made_done(&m);
}

static void test_out_of_memory_counted(void **state)
{
	struct made m;

	(void) state;
	made_new(&m);
	made_process(&m, 1, "sh", MIB(2), true);
	m.s.oom_kills = known(0);
	assert_false(fires(&m, "out-of-memory"));
	/* A descendant was killed and main went on: the counter alone is enough. */
	m.s.oom_kills = known(1);
	m.s.oom_killed = true;
	const struct finding *f = judged(&m, "out-of-memory", NULL);

	assert_true(f->fired);
	assert_int_equal(f->severity, SEVERITY_ERROR);
	assert_true(evidence_of(f, "oom_kills") == 1);
	assert_true(evidence_of(f, "peak_bytes") == (double) MIB(413));
	assert_says(f->message, "a process of the job for lack of memory");
	assert_null(strstr(f->message, "suspected"));
	made_done(&m);
}

static void test_out_of_memory_suspected(void **state)
{
	struct made m;

	(void) state;
	made_new(&m);
	m.f->limit_bytes = known(GIB(32));
	m.f->exit_status = known(SIGKILL);
	set_peak(&m, GIB(32) / 100 * 95 - 1);
	assert_false(fires(&m, "out-of-memory"));
	set_peak(&m, GIB(32) / 100 * 95 + 1000);
	assert_true(fires(&m, "out-of-memory"));
	assert_says(finding_of(&m, "out-of-memory")->message, "suspected");
	/* Another exit status at the same size does not fire. */
	m.f->exit_status = known(SIGTERM);
	assert_false(fires(&m, "out-of-memory"));
	m.f->exit_status = known(9 << 8);
	assert_false(fires(&m, "out-of-memory"));
	/* Without a limit the machine's memory is the limit. */
	m.f->limit_bytes = UNKNOWN;
	m.f->exit_status = known(SIGKILL);
	assert_false(fires(&m, "out-of-memory"));
	set_peak(&m, GIB(63));
	assert_true(fires(&m, "out-of-memory"));
	made_done(&m);
}

static void test_out_of_memory_names_the_victim(void **state)
{
	struct made m;
	struct process victim = {
		.id = 2,
		.pid = 5123,
		.name = "solver",
		.ended = true,
		.status_known = true,
		.status = SIGKILL,
		.start_ns = 5,
		.peak_bytes = GIB(31),
	};

	(void) state;
	made_new(&m);
	made_process(&m, 1, "sh", MIB(2), true);
	assert_int_equal(job_restore_process(m.job, &victim), 0);
	m.s.oom_kills = known(3);
	m.s.oom_killed = true;
	m.f->limit_bytes = known(GIB(32));
	set_peak(&m, GIB(31.9));
	m.s.combined.at_ns = known(SECONDS(40));
	const struct finding *f = judged(&m, "out-of-memory", NULL);

	assert_says(
		f->message, "pid 5123 (solver) and 2 more for lack of memory, peak 31.9 GiB of 32.0 (100 %)");
	assert_true(evidence_of(f, "victim_pid") == 5123);
	assert_true(evidence_of(f, "growth_bytes_per_s") == (double) GIB(31.9) / 40);
	assert_int_equal(f->from_ns, SECONDS(30));
	assert_int_equal(f->to_ns, SECONDS(41.2));
	made_done(&m);
}

/* The kernel's log takes precedence over exit statuses; main over processes that died before or
 * after it. */
static void test_out_of_memory_believes_the_kernel(void **state)
{
	struct made m;
	const struct process killed = {
		.id = 2,
		.pid = 41,
		.name = "killed",
		.ended = true,
		.status_known = true,
		.status = SIGKILL,
		.start_ns = 5,
	};
	const struct process main = { .id = 4, .pid = 40, .name = "main", .is_main = true, .start_ns = 4 };
	struct event events[] = {
		{ .kind = EVENT_OOM, .entity = ENTITY_PROCESS, .id = 3, .text = "program" },
		{ .kind = EVENT_OOM, .entity = ENTITY_PROCESS, .id = 4, .text = "" },
	};
	struct frame frame = { .source = FRAME_RECORDER, .live = true, .n_events = 1, .events = events };

	(void) state;
	made_new(&m);
	assert_int_equal(job_restore_process(m.job, &killed), 0);
	made_process(&m, 3, "named", MIB(2), false);
	assert_int_equal(job_restore_process(m.job, &main), 0);
	m.s.oom_killed = true;
	m.s.oom_kills = known(1);
	assert_true(fires(&m, "out-of-memory"));
	assert_says(finding_of(&m, "out-of-memory")->message, "(killed) for lack of memory");
	assert_int_equal(job_apply(m.job, &frame), 0);
	assert_true(fires(&m, "out-of-memory"));
	assert_says(finding_of(&m, "out-of-memory")->message, "(program) for lack of memory");
	frame.events = &events[1];
	assert_int_equal(job_apply(m.job, &frame), 0);
	frame.events = &events[0];
	assert_int_equal(job_apply(m.job, &frame), 0);
	assert_true(fires(&m, "out-of-memory"));
	assert_says(finding_of(&m, "out-of-memory")->message, "(main) for lack of memory");
	made_done(&m);
}

/* Weaker evidence: the machine's counter, where the job's cgroup could not be read. */
static void test_out_of_memory_on_the_machine(void **state)
{
	struct made m;
	const struct finding *f;

	(void) state;
	made_new(&m);
	made_process(&m, 1, "solver", MIB(2), true);
	m.s.host_oom_kills = known(2);
	f = judged(&m, "out-of-memory", NULL);
	assert_false(f->fired);
	assert_says(f->why_not,
		"killed 2 processes on this machine for lack of memory during the run, SIGKILL did not end");
	m.f->exit_status = known(SIGKILL);
	f = judged(&m, "out-of-memory", NULL);
	assert_true(f->fired);
	assert_says(f->message,
		"suspected, the kernel killed 2 processes on this machine for lack of memory during the run");
	assert_true(evidence_of(f, "host_oom_kills") == 2);
	/* No kill in the job's own cgroup: other processes were killed. */
	m.s.oom_kills = known(0);
	f = judged(&m, "out-of-memory", NULL);
	assert_false(f->fired);
	assert_says(f->why_not, "the kernel counted no OOM kill, SIGKILL ended it");
	m.s.oom_kills = UNKNOWN;
	m.s.host_oom_kills = known(0);
	assert_false(fires(&m, "out-of-memory"));
	made_done(&m);
}

/* In a shared cgroup, another process may have been killed. */
static void test_out_of_memory_nearby(void **state)
{
	struct request_run run;
	struct made m;

	(void) state;
	made_new(&m);
	made_process(&m, 1, "solver", MIB(2), true);
	m.s.oom_kills = known(1);
	assert_true(fires(&m, "out-of-memory"));
	assert_says(
		finding_of(&m, "out-of-memory")->message, "in the job's cgroup, which other processes share");
	assert_null(strstr(finding_of(&m, "out-of-memory")->message, "solver"));
	/* SIGKILL ended no process of the job: it was another's. */
	m.f->exit_status = known(1 << 8);
	assert_false(memory_may_have_ended_it(&m.s));
	request_run_of(&m.s, &run);
	assert_false(run.memory.at_limit);
	assert_true(fires(&m, "failed"));
	m.f->exit_status = known(137 << 8); /* a shell reports it */
	assert_true(memory_may_have_ended_it(&m.s));
	request_run_of(&m.s, &run);
	assert_true(run.memory.at_limit);
	made_done(&m);
}

/* In a shared cgroup, the process that SIGKILL ended may be the victim, unless the kernel's log was
 * read and does not name it. */
static void test_out_of_memory_nearby_and_killed(void **state)
{
	const struct process main = { .id = 1,
		.pid = 40,
		.name = "solver",
		.is_main = true,
		.start_ns = 4,
		.ended = true,
		.status_known = true,
		.status = SIGKILL };
	struct made m;
	const struct finding *f;

	(void) state;
	made_new(&m);
	assert_int_equal(job_restore_process(m.job, &main), 0);
	m.f->exit_status = known(SIGKILL);
	m.s.oom_kills = known(1);
	f = judged(&m, "out-of-memory", NULL);
	assert_true(f->fired);
	assert_says(f->message,
		"The kernel killed a process for lack of memory in the job's cgroup, which other processes share; "
		"it may have been pid 40 (solver), which SIGKILL ended");
	assert_true(evidence_of(f, "victim_pid") == 40);
	assert_true(memory_may_have_ended_it(&m.s));
	m.s.oom_kills = known(3);
	f = judged(&m, "out-of-memory", NULL);
	assert_says(f->message,
		"The kernel killed 3 processes for lack of memory in the job's cgroup, which other processes share; "
		"one of them may have been pid 40 (solver), which SIGKILL ended");
	m.f->oom_log = known(1);
	f = judged(&m, "out-of-memory", NULL);
	assert_true(f->fired);
	assert_says(f->message,
		"which other processes share; its log does not name pid 40 (solver), which SIGKILL ended");
	assert_false(memory_may_have_ended_it(&m.s));
	/* The job's own cgroup: a process of the job, but not that one. */
	m.s.oom_killed = true;
	f = judged(&m, "out-of-memory", NULL);
	assert_says(f->message, "The kernel killed a process of the job and 2 more for lack of memory");
	assert_null(strstr(f->message, "solver"));
	m.s.oom_killed = false;
	/* Then the machine's counter does not raise a suspicion either. */
	m.s.oom_kills = UNKNOWN;
	m.s.host_oom_kills = known(1);
	assert_false(fires(&m, "out-of-memory"));
	m.f->oom_log = known(0);
	assert_true(fires(&m, "out-of-memory"));
	made_done(&m);
}

static void test_near_limit_by_peak(void **state)
{
	struct made m;

	(void) state;
	made_new(&m);
	m.f->limit_bytes = known(GIB(10));
	set_peak(&m, GIB(9));
	assert_false(fires(&m, "memory-near-limit"));
	assert_says(finding_of(&m, "memory-near-limit")->why_not, "peak 9.00 GiB of 10.0 (90 %)");
	set_peak(&m, GIB(9) + 1);
	assert_true(fires(&m, "memory-near-limit"));
	/* The smaller limit counts; the cgroup's page cache does not. */
	m.s.cgroup_limit = known(GIB(11));
	m.s.cgroup_peak = known(GIB(11));
	set_peak(&m, GIB(8));
	assert_false(fires(&m, "memory-near-limit"));
	m.s.cgroup_limit = known(GIB(8.5));
	assert_true(fires(&m, "memory-near-limit"));
	assert_int_equal(finding_of(&m, "memory-near-limit")->severity, SEVERITY_WARN);
	/* out-of-memory covers it. */
	m.s.oom_killed = true;
	assert_false(fires(&m, "memory-near-limit"));
	made_done(&m);
}

/* Files in tmpfs count against the limit of a cgroup and cannot be freed; page cache can. */
static void test_near_limit_by_tmpfs(void **state)
{
	struct made m;
	const struct finding *f;

	(void) state;
	made_new(&m);
	m.f->limit_bytes = m.s.cgroup_limit = known(MIB(600));
	m.f->cgroup_exclusive = known(1);
	set_peak(&m, MIB(3));
	m.s.cgroup_peak = known(MIB(600)); /* page cache fills every group */
	m.s.unreclaimable_at_ns = known(SECONDS(2));
	m.s.unreclaimable_peak = known(MIB(539));
	assert_false(fires(&m, "memory-near-limit"));
	made_counter(&m, M_JOB_LIMIT_SHMEM, MIB(535), MIB(535));
	made_counter(&m, M_JOB_LIMIT_UNRECLAIMABLE, MIB(540), MIB(540));
	m.s.unreclaimable_peak = known(MIB(540));
	f = judged(&m, "memory-near-limit", NULL);
	assert_true(f->fired);
	assert_says(f->message, "540 MiB of 600 (90 %) cannot be reclaimed: tmpfs and shared memory 535 MiB");
	assert_says(f->message, "remove them sooner");
	assert_int_equal(evidence_of(f, "shmem_bytes"), MIB(535));
	made_done(&m);
}

/* Without a limit the machine's memory counts, if the job uses much of it. */
static void test_near_the_end_of_the_machine(void **state)
{
	struct made m;

	(void) state;
	made_new(&m); /* 64 GiB */
	m.s.system_peak = known(GIB(60));
	m.s.shmem_peak = known(GIB(40));
	set_peak(&m, MIB(3));
	made_counter(&m, M_HOST_MEM_USED, GIB(60), GIB(60));
	made_counter(&m, M_HOST_SHMEM, GIB(41), GIB(41));
	assert_true(fires(&m, "memory-near-limit"));
	assert_says(finding_of(&m, "memory-near-limit")->message, "60.0 GiB of 64.0 (94 %): tmpfs and shared memory 41.0 GiB");
	m.s.shmem_peak = known(GIB(1)); /* others use it */
	assert_false(fires(&m, "memory-near-limit"));
	m.s.shmem_peak = known(GIB(40));
	m.s.system_peak = known(GIB(50));
	assert_false(fires(&m, "memory-near-limit"));
	made_done(&m);
}

/* A limit on the address space is judged by that of one process, not by RAM. */
static void test_limits_of_processes(void **state)
{
	struct made m;
	const struct finding *f;

	(void) state;
	made_new(&m);
	assert_false(fires(&m, "rlimit"));
	m.f->vm_limit_bytes = known(MIB(781));
	m.f->vm_pid = known(5001);
	set_text(&m.f->vm_name, "python3");
	set_peak(&m, GIB(2)); /* several processes, each below its limit */
	m.f->vm_peak_bytes = known(MIB(700));
	assert_false(fires(&m, "rlimit"));
	assert_says(finding_of(&m, "rlimit")->why_not, "(90 %)");
	m.f->vm_peak_bytes = known(MIB(780));
	f = judged(&m, "rlimit", NULL);
	assert_true(f->fired);
	assert_int_equal(f->severity, SEVERITY_WARN);
	assert_says(f->message, "python3[5001] used at least 780 MiB of its 781 MiB limit on address space");
	assert_says(f->message, "ulimit -v");
	m.f->exit_status = known(1 << 8);
	assert_int_equal(judged(&m, "rlimit", NULL)->severity, SEVERITY_ERROR);
	m.f->data_limit_bytes = m.f->data_peak_bytes = known(MIB(100));
	m.f->data_pid = known(5001);
	assert_says(judged(&m, "rlimit", NULL)->message, "ulimit -d");
	/* Linux ignores the limit on the resident size. */
	m.f->vm_limit_bytes = m.f->data_limit_bytes = UNKNOWN;
	m.f->rss_limit_bytes = known(MIB(1));
	assert_false(fires(&m, "rlimit"));
	made_done(&m);
}

/* What is known of a failure is said; a good run, or one whose end is unknown, has no such finding. */
static void test_failed(void **state)
{
	struct made m;
	struct process worker = { .id = 2,
		.pid = 5002,
		.name = "worker",
		.start_ns = 2,
		.ended = true,
		.ended_ns = (uint64_t) SECONDS(38),
		.status_known = true,
		.status = SIGSEGV };

	(void) state;
	made_new(&m);
	assert_false(fires(&m, "failed"));
	m.s.oom_kills = known(0);
	m.f->exit_status = known(1 << 8);
	assert_true(fires(&m, "failed"));
	assert_says(finding_of(&m, "failed")->message, "exit status 1. RAM reached 413 MiB, 0.6 % of what");
	assert_says(finding_of(&m, "failed")->message, "the kernel killed no process for lack of it");
	assert_says(finding_of(&m, "failed")->message, "not the likely cause");
	m.f->data_limit_bytes = known(MIB(293));
	assert_says(judged(&m, "failed", NULL)->message,
		"; a limit of 293 MiB on the data segment of a process applies.");
	assert_null(strstr(finding_of(&m, "failed")->message, "not the likely cause"));
	m.f->data_limit_bytes = UNKNOWN;
	m.f->exit_status = known(127 << 8);
	assert_says(judged(&m, "failed", NULL)->message, "a command was not found");
	m.f->exit_status = known(139 << 8);
	assert_says(judged(&m, "failed", NULL)->message, "ended by SIGSEGV (an invalid memory access)");
	m.f->exit_status = known(SIGTERM);
	assert_says(judged(&m, "failed", NULL)->message, "SIGTERM (sent by a user or a scheduler");
	assert_int_equal(job_restore_process(m.job, &worker), 0);
	assert_null(strstr(judged(&m, "failed", NULL)->message, "worker")); /* 3 s before the end */
	worker.id = 3;
	worker.start_ns = 3;
	worker.pid = 5003;
	worker.ended_ns = (uint64_t) SECONDS(41);
	assert_int_equal(job_restore_process(m.job, &worker), 0);
	assert_says(judged(&m, "failed", NULL)->message, "SIGSEGV (an invalid memory access) ended worker[5003]");
	m.f->main_ended_ns = known(SECONDS(40.5)); /* main ended first */
	assert_null(strstr(judged(&m, "failed", NULL)->message, "worker"));
	made_counter(&m, M_HOST_DISK_FREE, 0, 0); /* as a read-only image reports */
	assert_null(strstr(judged(&m, "failed", NULL)->message, "working directory"));
	made_counter(&m, M_HOST_DISK_FREE, 0, GIB(1));
	assert_says(judged(&m, "failed", NULL)->message, "working directory was full");
	m.f->stopped_by = known(124);
	set_text(&m.f->stopped_why, "ram > 1 GiB: 1.2 GiB");
	assert_says(judged(&m, "failed", NULL)->message, "A limit (--limit) ended the job");
	m.f->stopped_by = UNKNOWN;
	m.s.oom_killed = true;
	assert_false(fires(&m, "failed"));
	m.s.oom_killed = false;
	m.f->exit_status = UNKNOWN;
	assert_false(fires(&m, "failed"));
	made_done(&m);
}

static void test_near_limit_by_pressure(void **state)
{
	struct made m;

	(void) state;
	made_new(&m);
	m.s.wall_ns = known(SECONDS(100));
	made_counter(&m, M_HOST_PSI_MEM, SECONDS(7), SECONDS(17));
	assert_false(fires(&m, "memory-near-limit"));
	made_counter(&m, M_HOST_PSI_MEM, SECONDS(7), SECONDS(17.01));
	assert_true(fires(&m, "memory-near-limit"));
	assert_says(finding_of(&m, "memory-near-limit")->message, "waited for memory 10 % of the time");
	/* Short runs are not judged by pressure. */
	m.s.wall_ns = known(SECONDS(9.9));
	made_counter(&m, M_HOST_PSI_MEM, 0, SECONDS(4.95));
	assert_false(fires(&m, "memory-near-limit"));
	assert_says(judged(&m, "memory-near-limit", NULL)->why_not,
		"waited for memory 50 % of the time, fires above 10 % in runs of 10 s or more");
	made_done(&m);
}

/* An hour under Slurm with 64 GiB requested on a machine of 256 GiB. */
static void made_slurm(struct made *m)
{
	made_new(m);
	set_text(&m->f->scheduler, "slurm");
	m->f->capacity_bytes = known(GIB(256));
	m->f->request_bytes = known(GIB(64));
	m->s.wall_ns = known(SECONDS(3600));
	set_peak(m, GIB(22.4));
}

static void test_memory_request(void **state)
{
	struct made m;

	(void) state;
	made_slurm(&m);
	const struct finding *f = judged(&m, "memory-request", NULL);

	assert_true(f->fired);
	assert_int_equal(f->severity, SEVERITY_HINT);
	assert_string_equal(
		f->message, "Request 27 GiB, not 64 GiB (peak 22.4 GiB + 20 %, one run).");
	assert_true(evidence_of(f, "advice_bytes") == (double) GIB(27));
	/* 70 % of 64 GiB are 44.8: 44 GiB is less, 45 is not. */
	set_peak(&m, GIB(44) / 6 * 5);
	assert_true(fires(&m, "memory-request"));
	set_peak(&m, GIB(44) / 6 * 5 + 100);
	assert_false(fires(&m, "memory-request"));
	assert_says(finding_of(&m, "memory-request")->why_not,
		"memory: 64.0 GiB requested, 36.7 GiB used: about right");
	/* Too little. */
	set_peak(&m, GIB(65));
	assert_true(fires(&m, "memory-request"));
	assert_string_equal(finding_of(&m, "memory-request")->message,
		"Request 78 GiB, not 64 GiB (peak 65.0 GiB + 20 %, one run).");
	made_done(&m);
}

static void test_memory_request_is_silent(void **state)
{
	struct made m;

	(void) state;
	made_slurm(&m);
	m.s.wall_ns = known(SECONDS(300));
	assert_false(fires(&m, "memory-request"));
	m.s.wall_ns = known(SECONDS(300.1));
	assert_true(fires(&m, "memory-request"));
	m.f->exit_status = known(1 << 8);
	assert_false(fires(&m, "memory-request"));
	m.f->exit_status = known(0);
	m.f->stopped_by = known(124);
	assert_false(fires(&m, "memory-request"));
	m.f->stopped_by = UNKNOWN;
	m.s.complete = false;
	assert_false(fires(&m, "memory-request"));
	m.s.complete = true;
	/* A request for the whole node is not judged. */
	m.f->capacity_bytes = known(GIB(71));
	assert_false(fires(&m, "memory-request"));
	m.f->capacity_bytes = known(GIB(72));
	assert_true(fires(&m, "memory-request"));
	m.f->srun_seen = known(1);
	assert_false(fires(&m, "memory-request"));
	m.f->srun_seen = known(0);
	m.f->ranks = known(4);
	assert_false(fires(&m, "memory-request"));
	made_done(&m);
}

/* At any length of run, and whatever else was not seen: what was used is used. */
static void test_memory_exceeded(void **state)
{
	struct made m;

	(void) state;
	made_slurm(&m);
	m.s.wall_ns = known(SECONDS(2));
	m.f->request_bytes = known(GIB(10));
	m.s.combined.low = known(GIB(10));
	m.s.combined.high = known(GIB(30));
	assert_false(fires(&m, "memory-exceeded"));
	m.s.combined.low = known(GIB(20));
	assert_true(fires(&m, "memory-exceeded"));
	assert_says(finding_of(&m, "memory-exceeded")->message, "at least 20.0 GiB, 200 % of the 10.0 GiB requested");
	m.f->srun_seen = known(1);
	m.f->exit_status = known(1 << 8);
	assert_true(fires(&m, "memory-exceeded"));
	m.f->request_bytes = UNKNOWN;
	assert_false(fires(&m, "memory-exceeded"));
	made_done(&m);
}

/* Without a request there is nothing to advise against; the summary's line has what to request. */
static void test_memory_request_without_one(void **state)
{
	struct made m;

	(void) state;
	made_slurm(&m);
	m.f->request_bytes = UNKNOWN;
	assert_false(fires(&m, "memory-request"));
	assert_says(finding_of(&m, "memory-request")->why_not, "no memory was requested");
	assert_true(m.s.request.memory.value.value == GIB(27));
	made_done(&m);
}

/* A request that is too small kills the job: the upper bound counts, plus swap and huge pages. */
static void test_memory_request_is_careful(void **state)
{
	struct made m;

	(void) state;
	made_slurm(&m);
	m.s.combined = ram_figure(METHOD_BOUNDED, "fork families", GIB(9), GIB(10), GIB(12));
	m.s.swap_peak = known(GIB(2));
	m.s.hugetlb_peak = known(GIB(1));
	judged(&m, "memory-request", NULL);
	assert_true(m.s.request.memory.value.value == GIB(18));
	made_done(&m);
}

static struct request_run earlier_run(const char *name, int64_t bytes, double seconds)
{
	struct request_run r = {
		.is_whole = true,
		.memory.value = known(bytes),
		.time.value = known(SECONDS(seconds)),
		.cores_mean_ppm = known(6500000),
	};

	(void) snprintf(r.run, sizeof(r.run), "%s", name);
	return r;
}

static void test_requests_look_at_earlier_runs(void **state)
{
	struct made m;
	struct request_run runs[] = { earlier_run("12", GIB(30), 7000), earlier_run("11", GIB(1), 1) };
	const struct earlier_runs earlier = { .runs = runs, .n = 2 };

	(void) state;
	made_slurm(&m);
	m.f->request_time_ns = known(SECONDS(14400));
	m.f->request_cpus = known(16);
	m.s.cores_mean_ppm = known(1000000);
	judged(&m, "memory-request", &earlier);
	assert_says(
		finding_of(&m, "memory-request")->message, "(peak 30.0 GiB + 20 %, max of 3 runs: run 12)");
	assert_says(finding_of(&m, "time-request")->message,
		"took 1 h 57 min + 50 %, rounded up to 5 minutes, max of 3 runs: run 12");
	assert_true(m.s.request.cpus.value.value == 7);
	/* This run is the largest: no other is named. */
	runs[0].memory.value = known(GIB(20));
	judged(&m, "memory-request", &earlier);
	assert_says(finding_of(&m, "memory-request")->message, "(peak 22.4 GiB + 20 %, max of 3 runs).");
	/* An earlier run needed all of it. */
	runs[0].memory.value = known(GIB(60));
	assert_false(judged(&m, "memory-request", &earlier)->fired);
	/* This run failed: the others decide. */
	m.f->exit_status = known(1 << 8);
	runs[0].memory.value = known(GIB(25));
	assert_true(judged(&m, "memory-request", &earlier)->fired);
	assert_true(m.s.request.memory.need.value == GIB(25));
	/* ... unless it used more than they: how much would be enough is unknown. */
	runs[0].memory.value = known(GIB(20));
	assert_false(judged(&m, "memory-request", &earlier)->fired);
	assert_true(m.s.request.memory.is_least && m.s.request.memory.need.value == GIB(22.4));
	/* What this run did was not seen: the others do not stand in for it. */
	m.f->exit_status = known(0);
	m.f->srun_seen = known(1);
	assert_false(judged(&m, "memory-request", &earlier)->fired);
	assert_string_equal(m.s.request.why_not, "the tasks that srun started were not measured");
	made_done(&m);
}

/* How a run ended says whether it needed more. */
static void test_requests_of_runs_that_ended_early(void **state)
{
	struct made m;

	(void) state;
	made_slurm(&m);
	m.f->limit_bytes = known(GIB(24));
	m.f->exit_status = known(SIGKILL);
	m.s.oom_killed = true;
	judged(&m, "memory-request", NULL);
	assert_true(m.s.request.memory.at_limit && m.s.request.memory.need.value == GIB(24));
	m.s.oom_killed = false;
	m.f->limit_bytes = UNKNOWN;
	m.f->exit_status = known(SIGTERM);
	judged(&m, "memory-request", NULL);
	assert_says(m.s.request.why_not, "the run did not end with status 0");
	/* The scheduler's time limit, and hiwater's. */
	m.f->request_time_ns = known(SECONDS(3650));
	judged(&m, "memory-request", NULL);
	assert_true(m.s.request.time.at_limit);
	m.f->request_time_ns = known(SECONDS(7200));
	judged(&m, "memory-request", NULL);
	assert_false(m.s.request.time.at_limit);
	m.f->stopped_by = known(124);
	set_text(&m.f->stopped_why, "time = 1h: time is 1 h; SIGTERM was sent to the job");
	judged(&m, "memory-request", NULL);
	assert_true(m.s.request.time.at_limit && !m.s.request.memory.at_limit);
	set_text(&m.f->stopped_why, "ram = 20GiB: ram is 22.4 GiB; SIGTERM was sent to the job");
	judged(&m, "memory-request", NULL);
	assert_true(!m.s.request.time.at_limit && m.s.request.memory.at_limit);
	set_text(&m.f->stopped_why, "ram.peak = 20GiB: ...");
	judged(&m, "memory-request", NULL);
	assert_false(m.s.request.memory.at_limit);
	/* Still running. */
	m.s.complete = false;
	judged(&m, "memory-request", NULL);
	assert_string_equal(m.s.request.why_not, "the run has not ended");
	made_done(&m);
}

static void test_time_request(void **state)
{
	struct made m;

	(void) state;
	made_new(&m);
	m.f->request_time_ns = known(SECONDS(7200));
	m.s.wall_ns = known(SECONDS(4319.9));
	const struct finding *f = judged(&m, "time-request", NULL);

	assert_true(f->fired);
	assert_string_equal(f->message,
		"Request 1 h 50 min, not 2 h: it may start sooner (took 1 h 12 min + 50 %, rounded up to 5 minutes, one run).");
	m.s.wall_ns = known(SECONDS(4320));
	assert_false(fires(&m, "time-request"));
	/* Requests are rounded up to five minutes: here no shorter request is possible. */
	m.f->request_time_ns = known(SECONDS(300));
	m.s.wall_ns = known(SECONDS(100));
	assert_false(fires(&m, "time-request"));
	m.f->request_time_ns = known(SECONDS(360000));
	assert_true(fires(&m, "time-request"));
	m.s.wall_ns = known(SECONDS(60));
	assert_false(fires(&m, "time-request"));
	m.s.wall_ns = known(SECONDS(100000));
	judged(&m, "time-request", NULL);
	assert_says(finding_of(&m, "time-request")->message, "Request 1 d 18 h, not 4 d 4 h");
	/* Too little: it may have been killed elsewhere. */
	m.f->request_time_ns = known(SECONDS(3600));
	judged(&m, "time-request", NULL);
	assert_says(finding_of(&m, "time-request")->message, "Request 1 d 18 h, not 1 h (took 1 d 4 h + 50 %");
	made_done(&m);
}

/* A process of the job, alive from second from to second to; made_process has none of these. */
static void add_client(struct made *m, uint32_t id, uint32_t parent, const char *name, const char *command,
	double from, double to)
{
	char text[256];
	struct process p = {
		.id = id,
		.parent = parent,
		.pid = 5000 + (int32_t) id,
		.is_main = id == 1,
		.born_ns = (uint64_t) SECONDS(from),
		.ended_ns = (uint64_t) SECONDS(to),
		.ended = true,
		.command = text,
	};

	(void) snprintf(p.name, sizeof(p.name), "%s", name);
	(void) snprintf(text, sizeof(text), "%s", command);
	assert_int_equal(job_restore_process(m->job, &p), 0);
}

/* The run takes 41.2 s; the process lives for its first 30 s. */
static bool is_client(const char *name, const char *command, const char *parent)
{
	struct made m;
	bool ret;

	made_new(&m);
	add_client(&m, 1, 0, parent, parent, 0, 41.2);
	add_client(&m, 2, 1, name, command, 0.5, 30);
	ret = fires(&m, "blind-spots");
	if (ret) {
		const struct finding *f = finding_of(&m, "blind-spots");

		assert_string_equal(words_of(f, "client"), name);
		assert_int_equal((int) (100 * evidence_of(f, "client_ratio")), 71);
		assert_int_equal(f->severity, SEVERITY_WARN);
		assert_says(f->message, "hiwater");
	}
	made_done(&m);
	return ret;
}

static void test_clients_of_daemons(void **state)
{
	static const struct {
		const char *name, *command, *parent;
		bool is;
	} cases[] = {
		{ "docker", "docker run --rm image python train.py", "bash", true },
		{ "docker", "/bin/sh /tmp/x/docker run image", "hiwater", true },
		{ "docker", "docker --context there exec c make", "bash", true },
		{ "docker", "docker logs -f c", "bash", false },
		{ "docker", "docker events -- run", "bash", false },
		{ "docker-compose", "/usr/lib/docker/docker-compose compose up", "docker", true },
		{ "nerdctl", "nerdctl run image", "bash", true },
		{ "podman", "podman --remote run image", "bash", true },
		{ "podman", "podman -r run image", "bash", true },
		{ "podman", "podman --url=ssh://h/run run image", "bash", true },
		{ "podman", "podman run image rm -r x", "bash", false }, /* its container is a descendant */
		{ "kubectl", "kubectl -n ns exec pod -- make", "bash", true },
		{ "kubectl", "kubectl port-forward pod 80", "bash", false },
		{ "oc", "oc rsh pod", "bash", true },
		{ "systemd-run", "systemd-run --wait make", "bash", true },
		{ "machinectl", "machinectl shell m", "bash", true },
		{ "sbatch", "sbatch --wait job.sh", "bash", true },
		{ "qsub", "qsub -sync y job.sh", "bash", true },
		{ "bsub", "bsub -K ./job", "bash", true },
		{ "ssh", "ssh node7 make -j8", "bash", true },
		{ "ssh", "ssh -l ana node7 ./N -N", "bash", true },
		{ "ssh", "ssh -o X=1 git@host git-upload-pack 'a.git'", "bash", false },
		{ "ssh", "ssh git@host x", "git", false },
		{ "ssh", "ssh git@host x", "git-remote-ssh", false },
		{ "ssh", "ssh host rsync --server -e x", "bash", false },
		{ "ssh", "ssh -fNL 8080:h:80 host", "bash", false },
		{ "ssh", "ssh -W h:22 jump", "bash", false },
		{ "pdsh", "pdsh -w n[1-9] uptime", "bash", true },
		{ "dask", "python /usr/bin/dask ssh a b", "bash", true },
		{ "dask", "python /usr/bin/dask run x", "bash", true },
		{ "dask", "python /usr/bin/dask worker tcp://a:1", "bash", false },
		{ "ray", "/usr/bin/python /usr/bin/ray job submit -- python x.py", "bash", true },
		{ "ray", "/usr/bin/python /usr/bin/ray start --head --block", "bash", false },
		{ "dockerd", "dockerd run", "bash", false },
		{ "python", "python docker run", "bash", false },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (is_client(cases[i].name, cases[i].command, cases[i].parent) != cases[i].is)
			fail_msg("%s, of %s", cases[i].command, cases[i].parent);
	}
}

/* Clients one after the other count together, those at the same time once. */
static void test_a_client_must_live_for_most_of_the_run(void **state)
{
	struct made m;

	(void) state;
	made_new(&m);
	add_client(&m, 1, 0, "bash", "bash x.sh", 0, 41.2);
	add_client(&m, 2, 1, "docker", "docker run a", 0, 15);
	add_client(&m, 3, 1, "docker", "docker run b", 1, 16);
	assert_false(fires(&m, "blind-spots"));
	add_client(&m, 4, 1, "ssh", "ssh h make", 16, 30);
	assert_false(fires(&m, "blind-spots"));
	add_client(&m, 5, 1, "docker", "docker run c", 30, 36);
	assert_true(fires(&m, "blind-spots"));
	assert_int_equal((int) (100 * evidence_of(finding_of(&m, "blind-spots"), "client_ratio")), 53);
	/* What was requested cannot be judged by the client's use. */
	m.f->request_bytes = known(GIB(32));
	m.s.wall_ns = known(SECONDS(400));
	assert_false(fires(&m, "blind-spots"));
	assert_true(fires(&m, "memory-request"));
	add_client(&m, 6, 1, "docker", "docker run d", 41, 400);
	assert_false(fires(&m, "memory-request"));
	assert_says(finding_of(&m, "memory-request")->why_not, "client");
	made_done(&m);
}

static void test_blind_spots(void **state)
{
	struct made m;

	(void) state;
	made_new(&m);
	m.f->taskstats = known(0);
	assert_false(fires(&m, "blind-spots"));
	m.f->srun_seen = known(1);
	assert_true(fires(&m, "blind-spots"));
	assert_int_equal(finding_of(&m, "blind-spots")->severity, SEVERITY_WARN);
	m.f->srun_seen = known(0);

	m.f->samples = known(19);
	assert_false(fires(&m, "blind-spots")); /* exact without samples */
	m.s.combined.method = METHOD_SAMPLED;
	assert_true(fires(&m, "blind-spots"));
	assert_int_equal(finding_of(&m, "blind-spots")->severity, SEVERITY_HINT);
	m.f->samples = known(20);
	assert_false(fires(&m, "blind-spots"));

	m.f->samples = known(1000);
	m.f->late_samples = known(10);
	assert_false(fires(&m, "blind-spots"));
	m.f->late_samples = known(11);
	assert_true(fires(&m, "blind-spots"));
	m.f->skipped_samples = known(442);
	assert_true(fires(&m, "blind-spots"));
	assert_says(finding_of(&m, "blind-spots")->message, "11 of 1000 samples were late and 442 were skipped");
	m.f->skipped_samples = UNKNOWN;
	m.f->late_samples = known(0);

	m.f->longest_gap_ns = known(SECONDS(1));
	assert_false(fires(&m, "blind-spots"));
	m.f->longest_gap_ns = known(SECONDS(1.1));
	assert_true(fires(&m, "blind-spots"));
	assert_says(finding_of(&m, "blind-spots")->message, "suspended or busy, or hiwater was stopped");
	const char *const causes[][2] = { { "busy", ": the machine was busy." },
		{ "suspended", ": the machine was suspended." }, { "stopped", ": hiwater was stopped." } };

	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(job_set_text(&m.f->longest_gap_cause, causes[i][0]), 0);
		assert_true(fires(&m, "blind-spots"));
		assert_says(finding_of(&m, "blind-spots")->message, causes[i][1]);
	}
	m.f->interval_ns = known(SECONDS(1));
	assert_false(fires(&m, "blind-spots"));

	m.f->frames_dropped = known(1);
	assert_true(fires(&m, "blind-spots"));
	m.f->frames_dropped = known(0);

	/* The measurement ended before the run. */
	m.s.complete = false;
	m.s.lost = true;
	assert_true(fires(&m, "blind-spots"));
	assert_says(finding_of(&m, "blind-spots")->message,
		"The recorder was lost after 41.2 s: all figures cover the time until then");
	assert_int_equal(finding_of(&m, "blind-spots")->severity, SEVERITY_WARN);
	m.s.elsewhere = true; /* it may still run there */
	assert_false(fires(&m, "blind-spots"));
	m.s.lost = m.s.elsewhere = false; /* it still runs */
	assert_false(fires(&m, "blind-spots"));
	set_text(&m.f->recording_stopped, "no space left on device");
	assert_true(fires(&m, "blind-spots"));
	m.s.complete = true; /* the live recorder measured all of it */
	assert_false(fires(&m, "blind-spots"));

	/* Hidden processes do not matter if the bounds are narrow. */
	m.f->processes_hidden = known(8);
	m.s.combined = ram_figure(METHOD_BOUNDED, "fork families by name", MIB(300), MIB(302), MIB(303));
	assert_false(fires(&m, "blind-spots"));
	m.s.combined = ram_figure(METHOD_BOUNDED, "fork families by name", MIB(300), MIB(302), MIB(400));
	assert_true(fires(&m, "blind-spots"));
	assert_says(finding_of(&m, "blind-spots")->message,
		"The memory of 8 processes cannot be inspected (setuid,");
	m.f->processes_hidden = known(1);
	assert_true(fires(&m, "blind-spots")); /* its parent may be readable */
	assert_says(finding_of(&m, "blind-spots")->message, "The memory of 1 process cannot be inspected");
	assert_says(finding_of(&m, "blind-spots")->message,
		"run hiwater as root or with CAP_SYS_PTRACE to include them.");
	m.f->refused_with_ptrace = known(1);
	assert_true(fires(&m, "blind-spots"));
	assert_says(finding_of(&m, "blind-spots")->message,
		"hiwater has CAP_SYS_PTRACE, but the kernel still denies access");
	m.f->processes_hidden = known(0);
	assert_false(fires(&m, "blind-spots"));

	m.f->taskstats_lost = known(1);
	assert_true(fires(&m, "blind-spots"));
	/* possibly of other processes */
	assert_int_equal(finding_of(&m, "blind-spots")->severity, SEVERITY_HINT);
	m.s.seen_at_least = true;
	assert_int_equal(judged(&m, "blind-spots", NULL)->severity, SEVERITY_WARN);
	m.s.seen_at_least = false;
	m.f->taskstats_lost = UNKNOWN;

	m.f->processes_left = known(1);
	set_text(&m.f->left_names, "sleepd (5123)");
	assert_true(fires(&m, "blind-spots"));
	assert_says(finding_of(&m, "blind-spots")->message,
		"1 process was left running and not measured further: sleepd (5123)");
	made_done(&m);
}

/* A truncated recording: hardly anything is known, and no rule fires. */
static void test_nothing_known(void **state)
{
	const struct job_config config = { .page_bytes = 4096 };
	struct made m = { .job = job_new(&config) };

	(void) state;
	m.s = (struct summary) { .job = m.job, .facts = job_facts_const(m.job) };
	assert_int_equal(findings_make(&m.s, NULL), 0);
	for (size_t i = 0; i < m.s.n_findings; i++)
		assert_false(m.s.findings[i].fired);
	made_done(&m);
}

/* HIWATER_FINDINGS_OFF. */
static void test_switched_off(void **state)
{
	struct made m;
	const struct finding *f;

	(void) state;
	made_new(&m);
	m.s.oom_killed = true;
	assert_true(fires(&m, "out-of-memory"));
	assert_int_equal(findings_switch_off(&m.s, NULL), 0);
	assert_int_equal(findings_switch_off(&m.s, "out-of,memory,out-of-memory-x,"), 0);
	assert_true(finding_of(&m, "out-of-memory")->fired);
	assert_int_equal(findings_switch_off(&m.s, "swap, out-of-memory"), 0);
	f = finding_of(&m, "out-of-memory");
	assert_false(f->fired);
	assert_null(f->message);
	assert_says(f->why_not, "HIWATER_FINDINGS_OFF");
	made_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_switched_off),
		cmocka_unit_test(test_a_good_run_has_none),
		cmocka_unit_test(test_out_of_memory_counted),
		cmocka_unit_test(test_out_of_memory_suspected),
		cmocka_unit_test(test_out_of_memory_names_the_victim),
		cmocka_unit_test(test_out_of_memory_believes_the_kernel),
		cmocka_unit_test(test_out_of_memory_on_the_machine),
		cmocka_unit_test(test_out_of_memory_nearby),
		cmocka_unit_test(test_out_of_memory_nearby_and_killed),
		cmocka_unit_test(test_near_limit_by_peak),
		cmocka_unit_test(test_near_limit_by_tmpfs),
		cmocka_unit_test(test_near_the_end_of_the_machine),
		cmocka_unit_test(test_limits_of_processes),
		cmocka_unit_test(test_failed),
		cmocka_unit_test(test_near_limit_by_pressure),
		cmocka_unit_test(test_memory_request),
		cmocka_unit_test(test_memory_request_is_silent),
		cmocka_unit_test(test_memory_exceeded),
		cmocka_unit_test(test_memory_request_without_one),
		cmocka_unit_test(test_memory_request_is_careful),
		cmocka_unit_test(test_requests_look_at_earlier_runs),
		cmocka_unit_test(test_requests_of_runs_that_ended_early),
		cmocka_unit_test(test_time_request),
		cmocka_unit_test(test_blind_spots),
		cmocka_unit_test(test_clients_of_daemons),
		cmocka_unit_test(test_a_client_must_live_for_most_of_the_run),
		cmocka_unit_test(test_nothing_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

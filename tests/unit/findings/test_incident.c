/* SPDX-License-Identifier: MIT
 *
 * Incident reports from moments made by hand.
 */
#include "findings_rig.h"

#include <math.h>

#include "findings/incident.h"

static void made_event(struct made *m, enum event_kind kind, double at_s, uint32_t id, const char *text)
{
	const struct event e = {
		.time_ns = (uint64_t) SECONDS(at_s),
		.kind = kind,
		.entity = id ? ENTITY_PROCESS : ENTITY_JOB,
		.id = id,
		.text = text,
	};
	const struct frame frame = {
		.source = FRAME_RECORDER, .live = true, .time_ns = e.time_ns, .n_events = 1, .events = &e
	};

	assert_int_equal(job_apply(m->job, &frame), 0);
}

static void made_victim(struct made *m, uint32_t id, const char *name, int64_t peak, double ended_s)
{
	struct process p = {
		.id = id,
		.pid = 5000 + (int32_t) id,
		.start_ns = id,
		.born_ns = 1,
		.ended = true,
		.ended_ns = (uint64_t) SECONDS(ended_s),
		.status_known = true,
		.status = SIGKILL,
		.peak_bytes = peak,
	};

	(void) snprintf(p.name, sizeof(p.name), "%s", name);
	assert_int_equal(job_restore_process(m->job, &p), 0);
}

/* Flat at 20 GiB for 100 s, then 100 MiB/s up to 100 s later, with a ripple of 50 MiB. */
static void rise(struct incident_level levels[2000])
{
	for (int i = 0; i < 2000; i++) {
		const double t = i / 10.0;

		levels[i].time_ns = (uint64_t) SECONDS(t);
		levels[i].bytes = GIB(20) + MIB(t < 100 ? 0 : (t - 100) * 100) + MIB(i % 2 ? 50 : 0);
	}
}

static void test_the_victim(void **state)
{
	const struct incident_use held[] = { { 1, MIB(2) }, { 2, GIB(29) }, { 3, GIB(1) }, { 9, GIB(7) } };
	struct incident_level levels[2000];
	struct made m;
	struct incident_moment when;

	(void) state;
	made_new(&m);
	made_process(&m, 1, "sh", MIB(2), true);
	made_victim(&m, 2, "solver", GIB(31), 200);
	made_process(&m, 3, "loader", GIB(1), true);
	m.f->limit_bytes = known(GIB(32));
	m.f->request_bytes = known(GIB(32));
	assert_false(incident_when(&m.s, &when));
	made_event(&m, EVENT_TRIGGER, 150, 0, "SIGUSR2");
	made_event(
		&m, EVENT_TRIGGER, 201, 0, "out of memory: the kernel killed a process in the job's cgroup");
	made_event(&m, EVENT_OOM, 210, 2, "solver");
	rise(levels);
	assert_true(incident_when(&m.s, &when));
	/* The victim's end, not the time of the report. */
	assert_int_equal(when.at_ns, SECONDS(200));
	assert_false(when.on_gpu);
	assert_int_equal(
		incident_make(&m.s, &(struct incident_moment) { when.at_ns, false, held, 4, levels, 2000, false, NULL }),
		0);
	const struct incident *s = &m.s.incident;

	assert_string_equal(s->what, "out of memory: the kernel killed solver[5002]");
	assert_true(s->memory && !s->on_gpu);
	assert_int_equal(s->n_processes, 3); /* 9 is not a known process */
	assert_int_equal(s->processes[0].bytes, GIB(31));
	assert_true(s->processes[0].killed && !s->processes[1].killed);
	assert_string_equal(s->processes[1].process->name, "loader");
	assert_int_equal(s->used.value, GIB(31));
	assert_in_range(s->since_ns.value, SECONDS(99), SECONDS(103));
	assert_true(fabs(s->growth_per_s / (double) MIB(100) - 1) < 0.03);
	assert_non_null(strstr(s->advice, "a larger request than 32.0 GiB"));
	made_done(&m);
}

static void test_where_ram_came_from(void **state)
{
	const struct touched touched = {
		.list = { { .name = "load_table", .bytes = (uint64_t) GIB(2) } }, .n = 1
	};
	const struct incident_moment ram = { .at_ns = SECONDS(200), .touched = &touched };
	struct incident_moment gpu = ram;
	struct made m;

	(void) state;
	made_new(&m);
	made_event(&m, EVENT_TRIGGER, 200, 0, "out of memory: the kernel killed a process in the job's cgroup");
	assert_int_equal(incident_make(&m.s, &ram), 0);
	assert_ptr_equal(m.s.incident.touched, &touched);
	gpu.on_gpu = true;
	assert_int_equal(incident_make(&m.s, &gpu), 0);
	assert_null(m.s.incident.touched);
	made_done(&m);
	made_new(&m);
	made_event(&m, EVENT_TRIGGER, 200, 0, "signal 11 ended the job"); /* memory did not run out */
	assert_int_equal(incident_make(&m.s, &ram), 0);
	assert_non_null(m.s.incident.what);
	assert_null(m.s.incident.touched);
	made_done(&m);
}

/* The next sample of processes may find the victim's replacement. */
static void test_a_replacement_is_left_out(void **state)
{
	const struct incident_use held[] = { { 1, MIB(2) }, { 2, GIB(3) }, { 3, GIB(1) }, { 4, GIB(2) } };
	struct process next = {
		.id = 4, .pid = 5004, .start_ns = 4, .name = "sleep", .born_ns = (uint64_t) SECONDS(200)
	};
	struct made m;

	(void) state;
	made_new(&m);
	made_process(&m, 1, "sh", MIB(2), true);
	made_victim(&m, 2, "solver", GIB(3), 200);
	made_process(&m, 3, "loader", GIB(1), true);
	assert_int_equal(job_restore_process(m.job, &next), 0);
	made_event(&m, EVENT_OOM, 201, 2, "solver");
	assert_int_equal(
		incident_make(
			&m.s, &(struct incident_moment) { .at_ns = SECONDS(200), .uses = held, .n_uses = 4 }),
		0);
	assert_int_equal(m.s.incident.n_processes, 3);
	for (size_t i = 0; i < m.s.incident.n_processes; i++)
		assert_int_not_equal(m.s.incident.processes[i].process->id, 4);
	made_done(&m);
}

static void test_flat_is_no_growth(void **state)
{
	struct incident_level levels[2000];
	struct made m;

	(void) state;
	made_new(&m);
	made_event(&m, EVENT_TRIGGER, 99, 0, "SIGUSR2");
	rise(levels);
	assert_int_equal(incident_make(&m.s,
				 &(struct incident_moment) {
					 .at_ns = SECONDS(99), .levels = levels, .n_levels = 1000 }),
		0);
	assert_false(m.s.incident.since_ns.known);
	assert_false(m.s.incident.memory);
	assert_string_equal(m.s.incident.what, "SIGUSR2");
	made_done(&m);
}

/* A device ran out of memory, not the host; the kernel killed no process. */
static void test_a_device(void **state)
{
	struct made m;
	struct incident_moment when;

	(void) state;
	made_new(&m);
	made_event(&m, EVENT_TRIGGER, 30, 0, "out of memory: CUDA: tried to allocate 2 GiB");
	assert_true(incident_when(&m.s, &when));
	assert_int_equal(when.at_ns, SECONDS(30));
	assert_true(when.on_gpu);
	assert_int_equal(incident_make(&m.s, &when), 0);
	assert_true(m.s.incident.memory && m.s.incident.on_gpu);
	assert_non_null(strstr(m.s.incident.advice, "smaller batch"));
	made_done(&m);
}

/* The last samples before the report are of the processes that remain after the victim's end. */
static void test_growth_until_the_kill(void **state)
{
	const struct incident_use held[] = { { 2, GIB(29) } };
	struct incident_level levels[2000];
	struct made m;

	(void) state;
	made_new(&m);
	made_victim(&m, 2, "solver", GIB(31), 199.9);
	made_event(&m, EVENT_OOM, 200, 2, "solver");
	rise(levels);
	for (int i = 1995; i < 2000; i++)
		levels[i].bytes = GIB(1);
	assert_int_equal(incident_make(&m.s,
				 &(struct incident_moment) { SECONDS(199.9), false, held, 1, levels, 2000, false, NULL }),
		0);
	assert_in_range(m.s.incident.since_ns.value, SECONDS(99), SECONDS(103));
	assert_true(fabs(m.s.incident.growth_per_s / (double) MIB(100) - 1) < 0.03);
	assert_int_equal(m.s.incident.used.value, GIB(31));
	made_done(&m);
}

/* 80 MiB for 2 s, 2 MiB for 1 s; then it ran into 100 MiB, at 3.1 s, faster than the samples
 * show. */
static size_t freed_before(struct incident_level levels[31])
{
	for (int i = 0; i < 31; i++)
		levels[i] = (struct incident_level) { (uint64_t) SECONDS(i / 10.0),
			i > 0 && i < 20 ? MIB(80) : MIB(2) };
	return 31;
}

static void assert_jump(const struct incident *s)
{
	assert_in_range(s->since_ns.value, SECONDS(2.9), SECONDS(3));
	assert_int_equal(s->from_bytes.value, MIB(2));
	assert_true(s->growth_per_s > (double) MIB(500));
	assert_null(strstr(s->advice, "leak"));
}

/* A fall ends a growth, whichever process released the memory. */
static void test_what_was_freed_before_is_no_growth(void **state)
{
	const struct incident_use held[] = { { 2, MIB(2) } };
	struct incident_level levels[31];
	struct made m;

	(void) state;
	for (int is_old = 0; is_old < 2; is_old++) {
		struct process victim = { .id = 2,
			.pid = 5002,
			.start_ns = 2,
			.name = "hold",
			.ended = true,
			.peak_bytes = MIB(98) };

		victim.born_ns = is_old ? 1 : (uint64_t) SECONDS(3.05);
		victim.ended_ns = (uint64_t) SECONDS(3.1);
		victim.status_known = true;
		victim.status = SIGKILL;
		made_new(&m);
		m.f->limit_bytes = known(MIB(100));
		m.s.wall_ns = known(SECONDS(3.2));
		assert_int_equal(job_restore_process(m.job, &victim), 0);
		made_event(&m, EVENT_OOM, 3.1, 2, "hold");
		assert_int_equal(incident_make(&m.s,
					 &(struct incident_moment) { SECONDS(3.1), false, held,
						 (size_t) is_old, levels, freed_before(levels), false, NULL }),
			0);
		assert_jump(&m.s.incident);
		/* The finding agrees. */
		m.s.oom_killed = true;
		const struct finding *f = judged(&m, "out-of-memory", NULL);

		assert_true(evidence_of(f, "growing_since_s") == (double) m.s.incident.since_ns.value / 1e9);
		assert_true(evidence_of(f, "growth_bytes_per_s") == m.s.incident.growth_per_s);
		made_done(&m);
	}
}

/* A process that no sample found: only the kernel's high-water mark is known. */
static void test_a_short_life(void **state)
{
	struct made m;

	(void) state;
	made_new(&m);
	made_process(&m, 1, "sh", MIB(2), true);
	made_victim(&m, 2, "burst", GIB(3), 20);
	made_event(&m, EVENT_OOM, 20, 2, "burst");
	assert_int_equal(incident_make(&m.s, &(struct incident_moment) { .at_ns = SECONDS(20) }), 0);
	assert_int_equal(m.s.incident.n_processes, 1);
	assert_int_equal(m.s.incident.processes[0].bytes, GIB(3));
	made_done(&m);
}

static void test_many_processes(void **state)
{
	struct incident_use held[20];
	struct made m;

	(void) state;
	made_new(&m);
	m.f->limit_bytes = known(GIB(20));
	for (uint32_t id = 1; id <= 20; id++) {
		made_process(&m, id, "worker", GIB(1), true);
		held[id - 1] = (struct incident_use) { id, MIB(1000 + id) };
	}
	made_event(&m, EVENT_OOM, 20, 0, "");
	const struct incident_level level = { SECONDS(19), GIB(19.5) };

	assert_int_equal(
		incident_make(&m.s, &(struct incident_moment) { SECONDS(20), false, held, 20, &level, 1, false, NULL }),
		0);
	assert_int_equal(m.s.incident.n_processes, INCIDENT_PROCESSES);
	assert_int_equal(m.s.incident.others, 15);
	assert_int_equal(m.s.incident.processes[0].bytes, MIB(1020));
	assert_int_equal(m.s.incident.others_bytes, MIB(15 * 1000 + 15 * 16 / 2));
	assert_non_null(strstr(m.s.incident.advice, "fewer processes"));
	made_done(&m);
}

/* The event with the highest rank is reported, not the first. */
static void test_which_event_is_reported(void **state)
{
	static const char *const texts[] = { "SIGUSR2", "alert: loss is nan: nan",
		"GPU memory alert: gpu.mem > 95%: gpu 0: 39 GiB", "RAM alert: ram > 90%: 29 GiB",
		"signal 11 ended the job", "out of memory: CUDA: tried to allocate 2 GiB" };
	struct incident_moment when;
	struct made m;

	(void) state;
	made_new(&m);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		/* Of equals the first: of the two memory alerts that of the GPU. */
		const char *reported = i == 1 ? texts[0] : i == 3 ? texts[2]
								  : texts[i];

		made_event(&m, EVENT_TRIGGER, 10 + (double) i, 0, texts[i]);
		assert_true(incident_when(&m.s, &when));
		assert_int_equal(when.on_gpu, i == 2 || i == 3 || i == 5);
		assert_int_equal(incident_make(&m.s, &when), 0);
		assert_string_equal(m.s.incident.what, reported);
		assert_int_equal(m.s.incident.memory, i == 2 || i == 3 || i == 5);
	}
	made_done(&m);
}

static void test_an_alert_about_memory(void **state)
{
	const struct incident_use held[] = { { 1, GIB(10) }, { 2, GIB(19) } };
	struct incident_level levels[2000];
	struct made m;

	(void) state;
	made_new(&m);
	m.f->limit_bytes = known(GIB(32));
	made_process(&m, 1, "loader", GIB(10), true);
	made_process(&m, 2, "trainer", GIB(19), true);
	made_event(&m, EVENT_TRIGGER, 199, 0, "RAM alert: ram > 90%: 28.9 GiB of 32.0 GiB");
	rise(levels);
	assert_int_equal(
		incident_make(&m.s, &(struct incident_moment) { SECONDS(199), false, held, 2, levels, 1991, false, NULL }),
		0);
	assert_true(m.s.incident.memory && !m.s.incident.on_gpu);
	assert_string_equal(m.s.incident.processes[0].process->name, "trainer");
	assert_int_equal(m.s.incident.used.value, levels[1990].bytes);
	assert_true(m.s.incident.since_ns.known);
	assert_says(m.s.incident.advice, "a larger limit than 32.0 GiB");
	m.f->limit_bytes = UNKNOWN;
	m.f->capacity_bytes = known(GIB(34));
	assert_int_equal(
		incident_make(&m.s, &(struct incident_moment) { SECONDS(199), false, held, 2, levels, 1991, false, NULL }),
		0);
	assert_says(m.s.incident.advice, "a machine with more than 34.0 GiB");
	m.f->capacity_bytes = known(GIB(64)); /* far above the memory in use */
	assert_int_equal(
		incident_make(&m.s, &(struct incident_moment) { SECONDS(199), false, held, 2, levels, 1991, false, NULL }),
		0);
	assert_null(strstr(m.s.incident.advice, "more than"));
	made_done(&m);
}

/* Memory of a process on several GPUs adds up; memory of other processes and the size of the GPU
 * are reported. */
static void test_memory_of_gpus(void **state)
{
	const struct incident_use held[] = { { 2, GIB(5) }, { 1, GIB(1) }, { 2, GIB(6) } };
	const struct incident_level level = { SECONDS(29), GIB(12) };
	struct framebuf b = { 0 };
	struct made m;

	(void) state;
	made_new(&m);
	made_process(&m, 1, "helper", GIB(1), true);
	made_process(&m, 2, "trainer", GIB(1), true);
	framebuf_birth(&b,
		&(struct birth) { .entity = ENTITY_GPU,
			.id = 1,
			.gpu = { .uuid = "GPU-1",
				.name = "x",
				.vendor = "nvidia",
				.index = known(0),
				.memory_bytes = known(GIB(40)) } });
	framebuf_value(&b, M_GPU_JOB_MEM, 1, GIB(12));
	framebuf_value(&b, M_GPU_OTHER_MEM, 1, GIB(27));
	const struct frame frame = framebuf_frame(&b, FRAME_NVML, SECONDS(29), UINT64_MAX);

	assert_int_equal(job_apply(m.job, &frame), 0);
	made_event(&m, EVENT_TRIGGER, 30, 0, "out of memory: CUDA: tried to allocate 2 GiB");
	assert_int_equal(
		incident_make(&m.s, &(struct incident_moment) { SECONDS(30), true, held, 3, &level, 1, false, NULL }), 0);
	const struct incident *s = &m.s.incident;

	assert_int_equal(s->n_processes, 2);
	assert_int_equal(s->processes[0].bytes, GIB(11));
	assert_string_equal(s->processes[0].process->name, "trainer");
	assert_int_equal(s->used.value, GIB(12));
	assert_int_equal(s->limit.value, GIB(40));
	assert_int_equal(s->other.value, GIB(27));
	assert_says(s->advice, "a GPU of its own: other processes used 27.0 GiB there");
	framebuf_done(&b);
	made_done(&m);
}

/* A kill by a user after the device ran out of memory is no OOM kill. */
static void test_a_kill_by_a_user(void **state)
{
	struct made m;

	(void) state;
	made_new(&m);
	made_victim(&m, 1, "python", GIB(3), 31);
	made_event(&m, EVENT_TRIGGER, 30, 0, "out of memory: CUDA: tried to allocate 2 GiB");
	assert_int_equal(incident_make(&m.s, &(struct incident_moment) { .at_ns = SECONDS(30) }), 0);
	assert_string_equal(m.s.incident.what, "out of memory: CUDA: tried to allocate 2 GiB");
	made_done(&m);
}

static void test_sigkill_at_the_limit(void **state)
{
	struct made m;

	(void) state;
	for (int near = 0; near <= 1; near++) {
		made_new(&m);
		m.f->limit_bytes = known(GIB(4));
		m.f->exit_status = known(SIGKILL);
		m.s.combined.peak = known(near ? GIB(3.9) : GIB(1));
		made_event(&m, EVENT_TRIGGER, 30, 0, "signal 9 ended the job");
		assert_int_equal(incident_make(&m.s, &(struct incident_moment) { .at_ns = SECONDS(30) }), 0);
		assert_int_equal(m.s.incident.memory, near);
		assert_string_equal(m.s.incident.what,
			near ? "signal 9 ended the job: out of memory is suspected"
			     : "signal 9 ended the job");
		made_done(&m);
	}
}

/* The story names what filled the limit, not the process that happened to be killed. */
static void test_tmpfs_filled_the_limit(void **state)
{
	struct incident_level levels[20];
	struct incident_moment when;
	struct made m;

	(void) state;
	made_new(&m);
	made_victim(&m, 1, "bash", MIB(3.13), 2);
	m.f->limit_bytes = known(MIB(600));
	m.f->cgroup_exclusive = known(1);
	made_counter(&m, M_JOB_LIMIT_SHMEM, MIB(590), MIB(590));
	made_counter(&m, M_JOB_LIMIT_UNRECLAIMABLE, MIB(596), MIB(596));
	made_event(&m, EVENT_OOM, 2, 1, "bash");
	for (int i = 0; i < 20; i++)
		levels[i] = (struct incident_level) { (uint64_t) SECONDS(i / 10.0), MIB(10 + 30 * i) };
	assert_true(incident_when(&m.s, &when));
	assert_true(when.of_limit);
	when.levels = levels;
	when.n_levels = 20;
	assert_int_equal(incident_make(&m.s, &when), 0);
	const struct incident *s = &m.s.incident;

	assert_true(s->is_kill && s->is_group_limit);
	assert_int_equal(s->parts[0].fill, FILL_SHMEM);
	assert_int_equal(s->parts[0].bytes, MIB(590));
	assert_int_equal(s->used.value, MIB(596));
	assert_true(s->since_ns.known);
	assert_says(s->advice, "removing files in /dev/shm");
	assert_null(strstr(s->advice, "chunks"));
	made_done(&m);
}

/* A process of 3 MiB that grew from 1 MiB in its first 100 ms did not fill 600 MiB. */
static void test_a_small_rise_is_no_growth(void **state)
{
	struct incident_level levels[20];
	struct made m;

	(void) state;
	made_new(&m);
	made_victim(&m, 1, "bash", MIB(3.13), 2);
	m.f->limit_bytes = known(MIB(600));
	made_event(&m, EVENT_OOM, 2, 1, "bash");
	for (int i = 0; i < 20; i++)
		levels[i] = (struct incident_level) { (uint64_t) SECONDS(i / 10.0), MIB(i == 0 ? 1 : 3) };
	assert_int_equal(incident_make(&m.s,
				 &(struct incident_moment) {
					 .at_ns = SECONDS(2), .levels = levels, .n_levels = 20 }),
		0);
	assert_false(m.s.incident.since_ns.known);
	made_done(&m);
}

/* A steady climb of 145 MiB/s in a cgroup that hiwater did not read, on a machine of 64 GiB: the least rise is not a
 * share of the machine's memory. */
static void test_growth_without_a_known_limit(void **state)
{
	struct incident_level levels[21];
	struct made m;

	(void) state;
	made_new(&m);
	made_victim(&m, 1, "bash", MIB(304), 2.1);
	made_counter(&m, M_HOST_MEM_USED, GIB(3), GIB(3));
	made_event(&m, EVENT_OOM, 2.1, 1, "bash");
	for (int i = 0; i < 21; i++)
		levels[i] = (struct incident_level) { (uint64_t) SECONDS(i / 10.0), MIB(1 + 14.5 * i) };
	assert_int_equal(incident_make(&m.s,
				 &(struct incident_moment) {
					 .at_ns = SECONDS(2.1), .levels = levels, .n_levels = 21 }),
		0);
	const struct incident *s = &m.s.incident;

	assert_false(s->limit.known);
	assert_true(s->since_ns.known);
	assert_in_range(s->since_ns.value, 0, SECONDS(0.1));
	assert_true(fabs(s->growth_per_s / (double) MIB(145) - 1) < 0.03);
	made_done(&m);
}

/* 150 MiB, a rest of 1.5 s, then what the limit of 300 MiB allows: growth began at the end of the rest. */
static void test_a_rest_ends_a_growth(void **state)
{
	struct incident_level levels[24];
	struct made m;

	(void) state;
	for (int seen = 0; seen < 2; seen++) { /* by the samples; by the victim's high-water mark alone */
		made_new(&m);
		m.s.wall_ns = known(SECONDS(2.2));
		made_victim(&m, 1, "python3", MIB(300), 2.2);
		m.f->limit_bytes = known(MIB(300));
		made_event(&m, EVENT_OOM, 2.2, 1, "python3");
		for (int i = 0; i < 22; i++)
			levels[i] = (struct incident_level) { (uint64_t) SECONDS(i / 10.0),
				i == 0 ? MIB(4) : i < 4         ? MIB(50 * i)
					  : i < 20 || seen == 0 ? MIB(154 + i % 2)
								: MIB(154 + 70 * (i - 19)) };
		assert_int_equal(incident_make(&m.s,
					 &(struct incident_moment) {
						 .at_ns = SECONDS(2.2), .levels = levels, .n_levels = 22 }),
			0);
		const struct incident *s = &m.s.incident;

		assert_true(s->since_ns.known);
		assert_int_equal(s->since_ns.value, seen ? SECONDS(1.9) : SECONDS(2.1));
		assert_in_range(s->from_bytes.value, MIB(154), MIB(155));
		assert_true(s->growth_per_s > (double) MIB(400));
		assert_null(strstr(s->advice, "leak"));
		made_done(&m);
	}
}

/* What reached the top and stayed there had grown. */
static void test_a_rest_at_the_top_is_after_growth(void **state)
{
	struct incident_level levels[100];
	struct made m;

	(void) state;
	made_new(&m);
	made_victim(&m, 1, "python3", MIB(300), 10);
	m.f->limit_bytes = known(MIB(300));
	made_event(&m, EVENT_OOM, 10, 1, "python3");
	for (int i = 0; i < 100; i++)
		levels[i] = (struct incident_level) { (uint64_t) SECONDS(i / 10.0),
			i < 30 ? MIB(10 * i) : MIB(298) };
	assert_int_equal(incident_make(&m.s,
				 &(struct incident_moment) {
					 .at_ns = SECONDS(10), .levels = levels, .n_levels = 100 }),
		0);
	assert_true(m.s.incident.since_ns.known);
	assert_in_range(m.s.incident.since_ns.value, 0, SECONDS(0.2));
	made_done(&m);
}

/* Ten equal steps with a rest after each are one growth. */
static void test_short_rests_are_a_part_of_growth(void **state)
{
	struct incident_level levels[200];
	struct made m;

	(void) state;
	made_new(&m);
	m.s.wall_ns = known(SECONDS(20));
	made_victim(&m, 1, "python3", MIB(300), 20);
	m.f->limit_bytes = known(MIB(300));
	made_event(&m, EVENT_OOM, 20, 1, "python3");
	for (int i = 0; i < 200; i++)
		levels[i] = (struct incident_level) { (uint64_t) SECONDS(i / 10.0), MIB(10 + 29 * (i / 20)) };
	assert_int_equal(incident_make(&m.s,
				 &(struct incident_moment) {
					 .at_ns = SECONDS(20), .levels = levels, .n_levels = 200 }),
		0);
	assert_in_range(m.s.incident.since_ns.value, 0, SECONDS(2));
	assert_says(m.s.incident.advice, "looking for a leak");
	made_done(&m);
}

/* The limit of a group that other processes share, the job's or one above: what they use is not the job's. */
static void test_others_filled_the_limit(void **state)
{
	(void) state;
	for (int above = 0; above < 2; above++) {
		struct made m;

		made_new(&m);
		made_victim(&m, 1, "python", GIB(1), 2);
		m.f->limit_bytes = known(GIB(8));
		m.f->cgroup_exclusive = known(above);
		m.f->limit_is_own = known(!above);
		made_counter(&m, M_JOB_LIMIT_UNRECLAIMABLE, GIB(7.9), GIB(7.9));
		made_counter(&m, M_JOB_LIMIT_SHMEM, 0, 0);
		made_counter(&m, M_JOB_ANON, GIB(0.9), GIB(0.9));
		made_event(&m, EVENT_OOM, 2, 1, "python");
		assert_int_equal(incident_make(&m.s, &(struct incident_moment) { .at_ns = SECONDS(2) }), 0);
		assert_int_equal(m.s.incident.parts[0].fill, FILL_OTHERS);
		assert_int_equal(m.s.incident.parts[0].bytes, GIB(7.9) - GIB(1));
		assert_int_equal(m.s.incident.parts[1].fill, FILL_PROCESSES);
		assert_int_equal(m.s.incident.parts[1].bytes, GIB(1));
		made_done(&m);
	}
}

/* Neither the size of the victim nor anything else is presented as a limit that was not read. */
static void test_an_unknown_limit_is_not_invented(void **state)
{
	struct made m;

	(void) state;
	made_new(&m); /* 64 GiB, of which 3 are in use */
	made_victim(&m, 1, "bash", MIB(3.13), 2);
	made_counter(&m, M_HOST_MEM_USED, GIB(3), GIB(3));
	made_event(&m, EVENT_OOM, 2, 1, "bash");
	assert_int_equal(incident_make(&m.s, &(struct incident_moment) { .at_ns = SECONDS(2) }), 0);
	assert_false(m.s.incident.limit.known);
	assert_says(m.s.incident.advice, "which hiwater did not read");
	assert_null(strstr(m.s.incident.advice, "MiB"));
	made_done(&m);
}

/* hiwater was killed, too: only the last frames show it. A recorder lost far from the limit is no
 * incident. */
static void test_cut_off(void **state)
{
	struct incident_level levels[2000];
	struct incident_moment when;
	struct made m;

	(void) state;
	rise(levels); /* up to 30 GiB, by 100 MiB a second */
	for (int i = 0; i < 4; i++) {
		made_new(&m);
		m.s.complete = false;
		m.s.lost = i != 3;
		m.s.wall_ns = known(SECONDS(200));
		m.f->limit_bytes = i == 2 ? UNKNOWN : known(i == 0 ? GIB(31) : GIB(60));
		m.f->capacity_bytes = UNKNOWN;
		assert_int_equal(incident_when(&m.s, &when), i != 3);
		when.levels = levels;
		when.n_levels = i == 3 ? 0 : 2000;
		if (i != 3)
			assert_int_equal(incident_make(&m.s, &when), 0);
		assert_int_equal(m.s.incident.what != NULL, i == 0);
		if (i == 0)
			assert_says(m.s.incident.what, "the recording breaks off close to the memory limit");
		made_done(&m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_victim),
		cmocka_unit_test(test_where_ram_came_from),
		cmocka_unit_test(test_a_replacement_is_left_out),
		cmocka_unit_test(test_flat_is_no_growth),
		cmocka_unit_test(test_a_device),
		cmocka_unit_test(test_growth_until_the_kill),
		cmocka_unit_test(test_tmpfs_filled_the_limit),
		cmocka_unit_test(test_a_small_rise_is_no_growth),
		cmocka_unit_test(test_growth_without_a_known_limit),
		cmocka_unit_test(test_a_rest_ends_a_growth),
		cmocka_unit_test(test_a_rest_at_the_top_is_after_growth),
		cmocka_unit_test(test_short_rests_are_a_part_of_growth),
		cmocka_unit_test(test_others_filled_the_limit),
		cmocka_unit_test(test_an_unknown_limit_is_not_invented),
		cmocka_unit_test(test_what_was_freed_before_is_no_growth),
		cmocka_unit_test(test_a_short_life),
		cmocka_unit_test(test_many_processes),
		cmocka_unit_test(test_which_event_is_reported),
		cmocka_unit_test(test_an_alert_about_memory),
		cmocka_unit_test(test_memory_of_gpus),
		cmocka_unit_test(test_a_kill_by_a_user),
		cmocka_unit_test(test_sigkill_at_the_limit),
		cmocka_unit_test(test_cut_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * GPUs in the sampling loop, with simulated sources that answer, hang, crash and flood. The test
 * controls them through a page shared with the helper.
 */
#include "sampler_rig.h"

#include "gpu/gpu_internal.h"

#include <stdatomic.h>

enum {
	USERS = 4,
	CROWD = 3000,
};

static struct stage {
	_Atomic int64_t mem, energy, energy_then, user_mem[USERS]; /* energy_then: after a crash */
	_Atomic int pid[USERS]; /* 0: none */
	_Atomic int sums; /* energy is the integral of power: the next value says so */
	/* leaves: process that is gone after a crash, from 1 */
	_Atomic int list_fails, hangs, crashes, crowd, opens_never, leaves;
	_Atomic int held;        /* 1: the next non-empty list waits once it is read; 2: it waits */
	_Atomic unsigned slow, was_slow; /* groups slower than a last value allows; and those that were */
	_Atomic int marks_last, lists_last; /* last values of these groups */
	_Atomic unsigned reads;
	_Atomic int second;      /* a second GPU, with this process on it; -1: removed */
	_Atomic int hidden;      /* number of lists with a process of unknown pid */
	_Atomic int nameless;    /* the first process is reported without a name */
	_Atomic int64_t total;   /* 0: not reported at birth; a change is reported by a second birth */
} *stage;

/* ---- a source -------------------------------------------------------------------------------- */

struct source {
	const struct source_env *env;
	bool born;
	int64_t total;
	int pid[USERS];
	uint32_t id[USERS], last_id, second;
	bool second_born;
};

static const struct source_group groups[] = {
	{ .name = "fast" },
	{ .name = "lists", .period_ns = 200 * MS, .moving_ns = 100 * MS },
	{ .name = "marks", .period_ns = 200 * MS, .moving_ns = 100 * MS, .marks = true },
};

static int fake_open(const struct source_env *env, struct source **ret, struct err *err)
{
	static struct source source;

	source.env = env;
	while (stage->opens_never == 1)
		wait_for(MS);
	if (stage->opens_never == 2)
		return err_set(err, -ENOENT, "no driver: libfake.so.1 not found");
	*ret = &source;
	return 0;
}

static void list(struct source *s, struct framebuf *out)
{
	int64_t n = 0;

	for (int i = 0; i < USERS; i++) {
		const int pid = stage->pid[i];

		if (s->pid[i] && s->pid[i] != pid)
			framebuf_end(out, &(struct end) { .entity = ENTITY_GPU_PROCESS, .id = s->id[i] });
		if (pid && s->pid[i] != pid) {
			s->id[i] = ++s->last_id;
			framebuf_birth(out,
				&(struct birth) {
					.entity = ENTITY_GPU_PROCESS,
					.id = s->id[i],
					.gpu_process = { .gpu = 1, .pid = known(pid), .compute = true },
				});
		}
		s->pid[i] = pid;
		if (pid)
			framebuf_value(out, M_GPROC_MEM, s->id[i], stage->user_mem[i]);
		n += pid != 0;
	}
	if (!s->second && stage->second > 0) {
		s->second = ++s->last_id;
		framebuf_birth(out,
			&(struct birth) {
				.entity = ENTITY_GPU_PROCESS,
				.id = s->second,
				.gpu_process = { .gpu = 2, .pid = known(stage->second), .compute = true },
			});
	}
	for (int i = 0; i < stage->crowd; i++) {
		framebuf_birth(out, &(struct birth) {
					    .entity = ENTITY_GPU_PROCESS,
					    .id = ++s->last_id,
					    .gpu_process = { .gpu = 1, .pid = known(4194304 + i) },
				    });
		framebuf_value(out, M_GPROC_MEM, s->last_id, 1);
	}
	stage->crowd = 0;
	s->last_id += stage->hidden > 0;
	for (int i = 0; i < stage->hidden; i++)
		framebuf_birth(out,
			&(struct birth) { .entity = ENTITY_GPU_PROCESS,
				.id = s->last_id,
				.gpu_process = { .gpu = 1, .compute = true } });
	stage->hidden = 0;
	framebuf_value(out, M_GPU_PROCESSES, 1, n);
	if (n > 0 && stage->held == 1)
		stage->held = 2;
	while (n > 0 && stage->held)
		wait_for(MS);
}

static int fake_read(struct source *s, unsigned what, struct framebuf *out)
{
	stage->reads++;
	stage->lists_last += what & 2 && s->env->budget->last;
	stage->marks_last += what & 4 && s->env->budget->last && s->env->budget->ns < 0;
	if (what & stage->slow)
		wait_for(50 * MS);
	stage->was_slow |= what & stage->slow;
	while (stage->hangs)
		wait_for(MS);
	if (stage->crashes && stage->crashes--) {
		stage->energy = stage->energy_then;
		if (stage->leaves)
			stage->pid[stage->leaves - 1] = 0;
		(void) raise(SIGSEGV);
	}
	const int64_t total = stage->total; /* once: the test may change it meanwhile */

	if (!s->born || s->total != total)
		framebuf_birth(out,
			&(struct birth) {
				.entity = ENTITY_GPU,
				.id = 1,
				.gpu = { .uuid = stage->nameless ? "" : "GPU-1",
					.index = known(0),
					.name = "Fake",
					.vendor = "nvidia",
					.memory_bytes = total ? known(total) : UNKNOWN },
			});
	s->born = true;
	s->total = total;
	if (stage->second > 0 && !s->second_born)
		framebuf_birth(out,
			&(struct birth) { .entity = ENTITY_GPU,
				.id = 2,
				.gpu = { .uuid = "GPU-2", .name = "Fake", .vendor = "nvidia" } });
	s->second_born = stage->second > 0;
	if (what & 1) {
		if (stage->mem < 0)
			framebuf_unknown(out, M_GPU_MEM, 1);
		else
			framebuf_value(out, M_GPU_MEM, 1, stage->mem);
		framebuf_value(out, M_GPU_ENERGY, 1, stage->energy);
		if (stage->sums)
			framebuf_event(out,
				&(struct event) { .kind = EVENT_NOTE,
					.entity = ENTITY_GPU,
					.id = 1,
					.text = "gpu.energy: GPU 0: no energy counter: power is integrated over time" });
		stage->sums = 0;
	}
	if (what & 2 && !stage->list_fails)
		list(s, out);
	else if (what & 2)
		framebuf_unknown(out, M_GPU_PROCESSES, 1);
	return 0;
}

static const struct source_ops fake = {
	.name = "fake",
	.frame = FRAME_NVML,
	.groups = groups,
	.n_groups = 3,
	.open = fake_open,
	.read = fake_read,
};
static const struct gpu_vendor vendors[] = { { .ops = &fake, .label = "FAKE", .silent = CAUSE_NVML },
	{ .ops = NULL } };

/* ---- a run ----------------------------------------------------------------------------------- */

struct gpu_rig {
	struct rig rig;
	struct child main;
	struct maybe last[METRIC_COUNT];   /* of host, job, and the GPU; of GPU processes the last one */
	size_t n_gpus, n_users, n_user_ends, n_ours;
	struct gpu_process_birth user;     /* born last */
	char user_name[32], notes[2048];   /* each note's cause before its text */
	bool went_back;
	uint64_t last_ns;
};

static void see_gpus(void *ctx, const struct frame *f)
{
	struct gpu_rig *g = ctx;

	g->went_back |= f->time_ns < g->last_ns;
	g->last_ns = f->time_ns;
	for (size_t i = 0; i < f->n_readings; i++) {
		if (metrics[f->readings[i].metric].entity != ENTITY_HOST)
			g->last[f->readings[i].metric] = f->readings[i].known ? known(f->readings[i].value)
									      : UNKNOWN;
	}
	for (size_t i = 0; i < f->n_births; i++) {
		g->n_gpus += f->births[i].entity == ENTITY_GPU;
		if (f->births[i].entity != ENTITY_GPU_PROCESS)
			continue;
		g->n_users++;
		g->user = f->births[i].gpu_process;
		g->n_ours += g->user.process != 0;
		(void) snprintf(g->user_name, sizeof(g->user_name), "%s", g->user.name);
	}
	for (size_t i = 0; i < f->n_ends; i++)
		g->n_user_ends += f->ends[i].entity == ENTITY_GPU_PROCESS;
	for (size_t i = 0; i < f->n_events; i++) {
		const size_t len = strlen(g->notes);

		if (f->events[i].kind == EVENT_NOTE)
			(void) snprintf(g->notes + len, sizeof(g->notes) - len, "%s %s\n",
				cause_name(f->events[i].cause), f->events[i].text);
	}
}

static int set_up(void **state)
{
	struct gpu_rig *g = calloc(1, sizeof(*g));

	assert_non_null(g);
	stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(stage != MAP_FAILED);
	stage->total = 1 << 30;
	g->main = waiting_child();
	rig_prepare(&g->rig, NULL, 10 * MS, true);
	g->rig.options.gpu = GPU_AUTO;
	g->rig.options.vendors = vendors;
	g->rig.options.gpu_restart_ns = 20 * MS;
	g->rig.options.see = see_gpus;
	g->rig.options.see_ctx = g;
	rig_make(&g->rig);
	rig_start(&g->rig, g->main.pid);
	*state = g;
	return 0;
}

static int tear_down(void **state)
{
	struct gpu_rig *g = *state;

	assert_false(g->went_back);
	child_close(&g->main);
	rig_done(&g->rig);
	(void) munmap(stage, sizeof(*stage));
	free(g);
	return 0;
}

#define until(g, condition) \
	do { \
		const uint64_t begun_ = clock_boot_ns(); \
		while (!(condition)) { \
			if (clock_boot_ns() - begun_ > 60000 * MS) \
				fail_msg("not within a minute: %s\n%s", #condition, (g)->notes); \
			steps(&(g)->rig, 1); \
		} \
	} while (0)

#define is(g, metric, number) ((g)->last[metric].known && (g)->last[metric].value == (number))

/* ---- its reports ----------------------------------------------------------------------------- */

static void memory_is_the_jobs_or_foreign_or_unattributed(void **state)
{
	struct gpu_rig *g = *state;

	stage->mem = 100 * MIB;
	until(g, is(g, M_GPU_MEM, 100 * MIB) && is(g, M_JOB_GPU_MEM, 0));
	assert_int_equal(g->n_gpus, 1);
	assert_int_equal(g->n_users, 0);
	stage->user_mem[0] = 30 * MIB;
	stage->pid[0] = g->main.pid;
	until(g, is(g, M_JOB_GPU_MEM, 30 * MIB));
	assert_int_equal(g->n_ours, 1);
	assert_true(is(g, M_JOB_GPU_MEM_MAIN, 30 * MIB) && is(g, M_JOB_GPU_MEM_DESCENDANTS, 0) &&
		    is(g, M_GPU_JOB_MEM, 30 * MIB));
	until(g, is(g, M_GPU_UNATTRIBUTED_MEM, 70 * MIB));
	/* One that is not a member, with its name and owner; one that is not visible. */
	stage->user_mem[1] = 50 * MIB;
	stage->pid[1] = getpid();
	until(g, is(g, M_GPU_OTHER_MEM, 50 * MIB) && is(g, M_GPU_UNATTRIBUTED_MEM, 20 * MIB));
	assert_int_equal(g->user.process, 0);
	assert_true(g->user.uid.known && g->user.uid.value == getuid());
	assert_string_not_equal(g->user_name, "");
	stage->user_mem[2] = 5 * MIB;
	stage->pid[2] = 4194304 + 1; /* PID_MAX_LIMIT: no process has it */
	until(g, g->n_users == 3);
	until(g, is(g, M_GPU_UNATTRIBUTED_MEM, 20 * MIB) && is(g, M_GPU_OTHER_MEM, 50 * MIB));
	assert_false(g->user.uid.known);
	/* A failed list is not an empty one. */
	stage->list_fails = 1;
	until(g, !g->last[M_GPU_JOB_MEM].known);
	assert_false(g->last[M_JOB_GPU_MEM].known || g->last[M_GPU_UNATTRIBUTED_MEM].known);
	stage->list_fails = 0;
	stage->pid[1] = stage->pid[2] = 0;
	until(g,
		is(g, M_GPU_OTHER_MEM, 0) && is(g, M_JOB_GPU_MEM, 30 * MIB) &&
			is(g, M_GPU_UNATTRIBUTED_MEM, 70 * MIB));
	assert_int_equal(g->n_user_ends, 2);
	/* the reason is the source's to report: a list may be outdated on purpose */
	assert_string_equal(g->notes, "");
}

/* A process that ended uses nothing, even if the driver still lists it. */
static void memory_of_ended_processes_is_unattributed(void **state)
{
	struct gpu_rig *g = *state;

	stage->mem = stage->user_mem[0] = 30 * MIB;
	stage->pid[0] = g->main.pid;
	until(g, is(g, M_JOB_GPU_MEM, 30 * MIB));
	child_go(&g->main);
	reap_main(&g->rig, g->main.pid);
	until(g, is(g, M_JOB_GPU_MEM, 0) && is(g, M_GPU_JOB_MEM, 0));
}

/* Its only list comes after its end, from a driver that is slow and did not know of it. */
static void a_list_that_comes_late_is_of_its_time(void **state)
{
	struct gpu_rig *g = *state;

	stage->mem = stage->user_mem[0] = 30 * MIB;
	until(g, is(g, M_JOB_GPU_MEM, 0));
	stage->held = 1;
	stage->pid[0] = g->main.pid;
	until(g, stage->held == 2);
	child_go(&g->main);
	reap_main(&g->rig, g->main.pid);
	until(g, job_main(sampler_job(g->rig.s))->ended);
	assert_int_equal(g->n_users, 0);
	stage->held = 0;
	until(g, g->n_users == 1);
	assert_int_equal(g->n_ours, 1);
	assert_int_equal(job_acc(sampler_job(g->rig.s), M_GPU_JOB_MEM, 1)->max, 30 * MIB);
	assert_int_equal(job_acc(sampler_job(g->rig.s), M_JOB_GPU_MEM_MAIN, 0)->max, 30 * MIB);
	until(g, is(g, M_JOB_GPU_MEM, 0) && is(g, M_GPU_JOB_MEM, 0));
	assert_int_equal(g->n_users, 1);
}

/* Thousands at once: all get births. */
static void a_crowd_is_reported(void **state)
{
	struct gpu_rig *g = *state;

	stage->crowd = CROWD;
	until(g, g->n_users == CROWD);
}

/* ---- the helper ------------------------------------------------------------------------------ */

/* The cause of missing values if a source does not answer: a missing row of the table would be
 * no cause. */
static void a_driver_that_is_silent_is_the_cause_of_its_own(void **state)
{
	static const enum note_cause causes[FRAME_SOURCE_COUNT] = {
		[FRAME_NVML] = CAUSE_NVML,
		[FRAME_AMDGPU] = CAUSE_AMDGPU,
		[FRAME_DRM] = CAUSE_DRM,
		[FRAME_DCGM] = CAUSE_NONE, /* it lists no processes */
	};

	(void) state;
	for (const struct gpu_vendor *v = gpu_vendors; v->ops; v++)
		assert_int_equal(v->silent, causes[v->ops->frame]);
}

static void it_keeps_to_itself(void **state)
{
	struct gpu_rig *g = *state;
	pid_t helper;
	char path[64];
	unsigned n = 0;
	DIR *dir;

	until(g, stage->reads > 2);
	helper = sampler_helper(g->rig.s);
	assert_true(helper > 0);
	assert_int_equal(getsid(helper), helper);
	assert_int_equal(processes_id(g->rig.s->processes, helper), 0);
	assert_int_equal(processes_count(g->rig.s->processes), 1);
	(void) snprintf(path, sizeof(path), "/proc/%d/fd", (int) helper);
	dir = opendir(path);
	assert_non_null(dir);
	while (readdir(dir))
		n++;
	(void) closedir(dir);
	assert_in_range(n, 2 + 3 + 4, 2 + 3 + 6); /* . and ..; null thrice; channel, root; the pipe */
	assert_int_equal(kill(helper, SIGTERM), 0); /* not meant for the helper */
	n = stage->reads;
	until(g, stage->reads > n + 2);
	until(g, facts_of(&g->rig)->gpu_queried.value == 1);
	assert_true(facts_of(&g->rig)->gpu_helper_cpu_ns.value > 0);
	sampler_end(g->rig.s);
	assert_int_equal(kill(helper, 0), -1);
	assert_int_equal(sampler_helper(g->rig.s), 0);
}

/* Between its calls a driver need not answer, however long ago the last call was. */
static void who_is_not_asked_is_not_silent(void **state)
{
	struct gpu_rig *g = *state;

	stage->mem = MIB;
	until(g, is(g, M_GPU_MEM, MIB) && gpu_helper_call_ns(g->rig.s->gpus.helper) == 0);
	sampler_end(g->rig.s);
}

/* The last value is at the end, not a second before it. */
static void the_end_is_read(void **state)
{
	struct gpu_rig *g = *state;

	until(g, is(g, M_GPU_MEM, 0));
	stage->mem = 7 * MIB;
	sampler_end(g->rig.s);
	assert_true(is(g, M_GPU_MEM, 7 * MIB));
}

static uint64_t end_takes(struct gpu_rig *g)
{
	const uint64_t began = clock_boot_ns();

	sampler_end(g->rig.s);
	return clock_boot_ns() - began;
}

static void silence_is_reported_and_blocks_nothing(void **state)
{
	struct gpu_rig *g = *state;

	until(g, stage->reads > 2);
	stage->hangs = 1;
	until(g, strstr(g->notes, "nvml gpu: FAKE has not answered since "));
	stage->hangs = 0;
	until(g, strstr(g->notes, "nvml gpu: FAKE did not answer from "));
	const unsigned n = stage->reads;

	until(g, stage->reads > n + 2);
	stage->hangs = 1;
	assert_true(end_takes(g) < 1000 * MS);
	assert_null(strstr(g->notes, "was killed but has not exited")); /* a sleeping one can be killed */
}

#define SILENCE_NS (700 * MS)

/* The driver does not answer for this long, repeatedly. */
static void be_silent(struct gpu_rig *g)
{
	stage->hangs = 1;

	const uint64_t since = clock_boot_ns();

	until(g, clock_boot_ns() > since + SILENCE_NS);
}

static void assert_silence_is_a_gap(struct gpu_rig *g)
{
	assert_true(facts_of(&g->rig)->gpu_longest_gap_ns.known);
	assert_true(facts_of(&g->rig)->gpu_longest_gap_ns.value >= (int64_t) SILENCE_NS);
}

static void a_silence_until_the_end_is_a_gap(void **state)
{
	struct gpu_rig *g = *state;

	until(g, stage->reads > 10 && g->last[M_GPU_MEM].known);
	be_silent(g);
	/* the driver may be slow, so far */
	assert_true(facts_of(&g->rig)->gpu_longest_gap_ns.value < (int64_t) SILENCE_NS);
	sampler_end(g->rig.s);
	assert_silence_is_a_gap(g);
}

/* A driver that hangs and then reports its GPU as lost. */
static void a_silence_that_ends_in_an_error_is_a_gap(void **state)
{
	struct gpu_rig *g = *state;

	until(g, stage->reads > 10 && g->last[M_GPU_MEM].known);
	be_silent(g);
	stage->mem = -1;
	stage->hangs = 0;
	until(g, !g->last[M_GPU_MEM].known);
	assert_silence_is_a_gap(g);
}

/* Stops it while it is in no call of the driver. */
static void kill_helper_between_calls(struct gpu_rig *g)
{
	const pid_t pid = sampler_helper(g->rig.s);
	int status;

	for (;;) {
		assert_int_equal(kill(pid, SIGSTOP), 0);
		assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
		if (!gpu_helper_is_cut_short(g->rig.s->gpus.helper, FRAME_NVML))
			break;
		assert_int_equal(kill(pid, SIGCONT), 0);
		wait_for(MS);
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
}

static void a_helper_that_is_gone_until_the_end_is_a_gap(void **state)
{
	struct gpu_rig *g = *state;

	until(g, stage->reads > 10 && g->last[M_GPU_MEM].known);
	kill_helper_between_calls(g);
	wait_for(SILENCE_NS);
	sampler_end(g->rig.s);
	assert_silence_is_a_gap(g);
}

/* The next helpers start and find no driver. */
static void a_driver_that_is_not_found_again_is_a_gap(void **state)
{
	struct gpu_rig *g = *state;

	until(g, stage->reads > 10 && g->last[M_GPU_MEM].known);
	stage->opens_never = 2;
	kill_helper_between_calls(g);

	const uint64_t since = clock_boot_ns();

	until(g,
		clock_boot_ns() > since + SILENCE_NS &&
			strstr(g->notes, "helper number 2 could not read GPUs"));
	sampler_end(g->rig.s);
	assert_silence_is_a_gap(g);
}

static void a_library_that_never_opens_holds_up_nothing(void **state)
{
	struct gpu_rig *g = *state;

	stage->opens_never = 1;
	steps(&g->rig, 10);
	assert_false(facts_of(&g->rig)->gpu_queried.known);
	assert_true(end_takes(g) < 1000 * MS);
	assert_false(facts_of(&g->rig)->gpu_queried.known);
}

static void a_crash_is_the_helpers_alone(void **state)
{
	struct gpu_rig *g = *state;
	pid_t first;

	stage->pid[0] = g->main.pid;
	stage->user_mem[0] = 100;
	stage->energy = 5000;
	until(g, is(g, M_JOB_GPU_MEM, 100) && is(g, M_GPU_ENERGY, 5000));
	first = sampler_helper(g->rig.s);
	stage->user_mem[0] = 200;
	stage->crashes = 1;
	until(g,
		strstr(g->notes,
			"helper-ended gpu: the helper was killed by signal 11 in a call of FAKE at "));
	assert_non_null(strstr(g->notes, "it is restarted"));
	until(g, strstr(g->notes, "none gpu: reading resumed at "));
	assert_int_not_equal(sampler_helper(g->rig.s), first);
	until(g, is(g, M_JOB_GPU_MEM, 200)); /* the same device, the same process, counted once */
	assert_int_equal(g->n_gpus, 1);
	assert_int_equal(g->n_users, 1);
	assert_int_equal(g->n_user_ends, 0);
	assert_int_equal(kill(g->main.pid, 0), 0);
	assert_false(processes_id(g->rig.s->processes, sampler_helper(g->rig.s)));
	sampler_end(g->rig.s);
}

/* From the list before its read hung, and from the same one after the read ended. */
static void a_process_reported_twice_is_one(void **state)
{
	struct gpu_rig *g = *state;

	stage->hidden = 2;
	until(g, !stage->hidden && g->n_users > 0);
	sampler_end(g->rig.s);
	assert_int_equal(g->n_users, 1);
}

/* A driver that crashes during the list does not report the processes. */
static void who_does_not_answer_after_a_crash_is_who_it_was(void **state)
{
	struct gpu_rig *g = *state;

	stage->energy = 5000;
	until(g, is(g, M_GPU_ENERGY, 5000));
	stage->nameless = 1;
	stage->crashes = 1;
	until(g, strstr(g->notes, "none gpu: reading resumed at "));
	assert_int_equal(g->n_gpus, 1);
	sampler_end(g->rig.s);
}

/* One of two processes is gone when a helper runs again: it has ended, and the other one
 * continues. */
static void a_process_gone_between_helpers_has_ended(void **state)
{
	struct gpu_rig *g = *state;

	stage->pid[0] = g->main.pid;
	stage->pid[1] = getppid();
	stage->user_mem[0] = 100;
	stage->user_mem[1] = 50;
	until(g, is(g, M_JOB_GPU_MEM, 100) && is(g, M_GPU_OTHER_MEM, 50));
	stage->leaves = 2;
	stage->user_mem[0] = 200;
	stage->crashes = 1;
	until(g, is(g, M_JOB_GPU_MEM, 200) && is(g, M_GPU_OTHER_MEM, 0));
	assert_int_equal(g->n_users, 2);
	assert_int_equal(g->n_user_ends, 1);
}

/* A GPU that the next helper does not find has no lists any more: its processes are not reported
 * as present. */
static void who_was_on_a_gpu_that_is_gone_has_left_it(void **state)
{
	struct gpu_rig *g = *state;

	stage->pid[0] = g->main.pid;
	stage->user_mem[0] = 100;
	stage->second = getppid();
	until(g, g->n_users == 2);
	stage->second = -1;
	stage->crashes = 1;
	until(g, is(g, M_JOB_GPU_MEM, 100) && strstr(g->notes, "gpu: reading resumed at"));
	until(g, g->n_user_ends == 1);
	assert_int_equal(g->n_users, 2);
}

/* Helpers that find no driver are given up after a while: then no end can be observed. */
static void who_is_awaited_in_vain_has_left(void **state)
{
	struct gpu_rig *g = *state;

	stage->pid[0] = g->main.pid;
	until(g, g->n_users == 1);
	stage->opens_never = 2;
	stage->crashes = 1;
	until(g, strstr(g->notes, "GPUs are no longer read"));
	until(g, g->n_user_ends == 1);
}

/* Failing lists may recover until the run ends. */
static void returning_processes_end_with_the_run(void **state)
{
	struct gpu_rig *g = *state;

	stage->pid[0] = g->main.pid;
	until(g, g->n_users == 1);
	stage->list_fails = 1;
	stage->crashes = 1;
	until(g, strstr(g->notes, "gpu: reading resumed at"));
	const unsigned n = stage->reads;

	until(g, stage->reads > n + 40);
	assert_int_equal(g->n_user_ends, 0);
	sampler_end(g->rig.s);
	assert_int_equal(g->n_user_ends, 1);
}

/* The driver's counters continue; those of the helper start at 0 again, and are not counted
 * twice. */
static void counters_go_on_over_a_crash(void **state)
{
	struct gpu_rig *g = *state;

	stage->energy = 5000;
	until(g, is(g, M_GPU_ENERGY, 5000));
	stage->energy_then = 5600;
	stage->crashes = 1;
	until(g, is(g, M_GPU_ENERGY, 5600));
	stage->energy_then = 10;
	stage->crashes = 1;
	until(g, strstr(g->notes, "helper number 3"));
	const unsigned n = stage->reads;

	until(g, stage->reads > n + 2);
	until(g, is(g, M_GPU_ENERGY, 5600));
	stage->energy = 110;
	until(g, is(g, M_GPU_ENERGY, 5700));
}

/* The earlier values of a driver's counter are not the GPU's use since then. */
static void a_counter_after_a_sum_goes_on_from_it(void **state)
{
	struct gpu_rig *g = *state;

	stage->sums = 1;
	stage->energy = 750;
	until(g, is(g, M_GPU_ENERGY, 750) && strstr(g->notes, "no energy counter"));
	stage->energy_then = 8000;
	stage->crashes = 1;
	until(g, strstr(g->notes, "helper number 2"));
	const unsigned n = stage->reads;

	until(g, stage->reads > n + 2);
	until(g, is(g, M_GPU_ENERGY, 750));
	stage->energy = 8100;
	until(g, g->last[M_GPU_ENERGY].known && g->last[M_GPU_ENERGY].value > 750);
	assert_true(is(g, M_GPU_ENERGY, 850));
	stage->energy_then = 9000;
	stage->crashes = 1;
	until(g, strstr(g->notes, "helper number 3"));
	until(g, g->last[M_GPU_ENERGY].known && g->last[M_GPU_ENERGY].value > 850);
	assert_true(is(g, M_GPU_ENERGY, 1750));
}

/* A driver that answers at once, with an error. */
static void what_cannot_be_read_is_no_slowness(void **state)
{
	struct gpu_rig *g = *state;
	const struct facts *f = job_facts_const(sampler_job(g->rig.s));

	stage->mem = MIB;
	until(g, is(g, M_GPU_MEM, MIB));
	stage->mem = -1;
	until(g, !g->last[M_GPU_MEM].known);
	const uint64_t begun_ns = clock_boot_ns();

	until(g, clock_boot_ns() - begun_ns > 400 * MS);
	const uint64_t ns = clock_boot_ns() - begun_ns;

	stage->mem = MIB;
	until(g, is(g, M_GPU_MEM, MIB));
	assert_true(!f->gpu_longest_gap_ns.known || (uint64_t) f->gpu_longest_gap_ns.value < ns);
}

static void crashes_without_end_have_one(void **state)
{
	struct gpu_rig *g = *state;

	stage->crashes = 100;
	until(g, strstr(g->notes, "GPUs are no longer read"));
	assert_int_equal(stage->crashes, 94); /* the first, and five more */
	steps(&g->rig, 20);
	assert_int_equal(sampler_helper(g->rig.s), 0);
	assert_int_equal(stage->crashes, 94);
}

/* A GPU that was lost at its birth, and later found to be half as large again: it is one device. */
static void a_total_may_be_reported_later(void **state)
{
	struct gpu_rig *g = *state;

	stage->total = 0;
	until(g, g->n_gpus == 1);
	const struct gpu_birth *gpu = &job_gpu(sampler_job(g->rig.s), 0)->birth.gpu;

	assert_false(gpu->memory_bytes.known);
	stage->total = 8 * MIB;
	until(g, gpu->memory_bytes.known && gpu->memory_bytes.value == 8 * MIB);
	stage->crashes = 1; /* the next helper reports the same */
	until(g, strstr(g->notes, "gpu: reading resumed at "));
	assert_int_equal(g->n_gpus, 2);
	stage->total = 4 * MIB;
	until(g, gpu->memory_bytes.value == 4 * MIB);
	assert_int_equal(job_gpu_count(sampler_job(g->rig.s)), 1);
}

/* As above, but the helper is reaped by the command first. */
static void whoever_waits_for_it(void **state)
{
	struct gpu_rig *g = *state;
	struct end end = { .entity = ENTITY_PROCESS, .how = END_REAPED, .status_known = true };
	pid_t helper;

	until(g, stage->reads > 2);
	helper = sampler_helper(g->rig.s);
	stage->crashes = 1;
	assert_int_equal(waitpid(helper, &end.status, 0), helper);
	sampler_reaped(g->rig.s, helper, &end);
	until(g, strstr(g->notes, "helper-ended gpu: the helper was killed by signal 11"));
}

/* The driver is lost with it: the next helpers find none, and are given up too. */
static void who_finds_none_the_second_time_says_so(void **state)
{
	struct gpu_rig *g = *state;

	until(g, stage->reads > 2);
	stage->opens_never = 2;
	stage->crashes = 1;
	until(g,
		strstr(g->notes,
			"helper-ended gpu: helper number 2 could not read GPUs: no driver: libfake.so.1 not found; it is restarted"));
	stage->opens_never = 0;
	until(g, strstr(g->notes, "none gpu: reading resumed at "));
}

static void why_there_is_none_is_known(void **state)
{
	struct gpu_rig *g = *state;

	stage->opens_never = 2;
	until(g, facts_of(&g->rig)->gpu_queried.value == 1 && sampler_helper(g->rig.s) == 0);
	assert_string_equal(facts_of(&g->rig)->gpu_why, "no driver: libfake.so.1 not found");
	assert_true(facts_of(&g->rig)->gpu_seen.known);
	assert_string_equal(g->notes, "");
}

/* A slow list is not waited for: sources that can answer without one are read. */
static void the_end_waits_for_no_dear_list(void **state)
{
	struct gpu_rig *g = *state;

	stage->slow = 2 | 4;
	until(g, stage->was_slow == (2 | 4));
	sampler_end(g->rig.s);
	assert_int_equal(stage->lists_last, 0);
	assert_int_equal(stage->marks_last, 1);
}

static void no_gpu_is_read_with_gpu_none(void **state)
{
	struct gpu_rig *g = *state;

	g->rig.s->options.gpu = GPU_NONE;
	steps(&g->rig, 5);
	assert_int_equal(sampler_helper(g->rig.s), 0);
	assert_int_equal(facts_of(&g->rig)->gpu_queried.value, 0);
	assert_true(facts_of(&g->rig)->gpu_queried.known);
	assert_int_equal(stage->reads, 0);
}

/* A run that ends before its first sample never starts a helper. */
static void a_short_run_has_none(void **state)
{
	struct gpu_rig *g = *state;

	sampler_end(g->rig.s);
	assert_int_equal(sampler_helper(g->rig.s), 0);
	assert_int_equal(stage->reads, 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(memory_is_the_jobs_or_foreign_or_unattributed),
		TEST(memory_of_ended_processes_is_unattributed),
		TEST(a_list_that_comes_late_is_of_its_time),
		TEST(a_crowd_is_reported),
		TEST(it_keeps_to_itself),
		TEST(who_is_not_asked_is_not_silent),
		TEST(the_end_is_read),
		cmocka_unit_test(a_driver_that_is_silent_is_the_cause_of_its_own),
		TEST(silence_is_reported_and_blocks_nothing),
		TEST(a_silence_until_the_end_is_a_gap),
		TEST(a_silence_that_ends_in_an_error_is_a_gap),
		TEST(a_helper_that_is_gone_until_the_end_is_a_gap),
		TEST(a_driver_that_is_not_found_again_is_a_gap),
		TEST(a_library_that_never_opens_holds_up_nothing),
		TEST(a_crash_is_the_helpers_alone),
		TEST(who_does_not_answer_after_a_crash_is_who_it_was),
		TEST(a_process_reported_twice_is_one),
		TEST(a_process_gone_between_helpers_has_ended),
		TEST(who_was_on_a_gpu_that_is_gone_has_left_it),
		TEST(who_is_awaited_in_vain_has_left),
		TEST(returning_processes_end_with_the_run),
		TEST(counters_go_on_over_a_crash),
		TEST(a_counter_after_a_sum_goes_on_from_it),
		TEST(what_cannot_be_read_is_no_slowness),
		TEST(crashes_without_end_have_one),
		TEST(a_total_may_be_reported_later),
		TEST(whoever_waits_for_it),
		TEST(who_finds_none_the_second_time_says_so),
		TEST(why_there_is_none_is_known),
		TEST(the_end_waits_for_no_dear_list),
		TEST(no_gpu_is_read_with_gpu_none),
		TEST(a_short_run_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

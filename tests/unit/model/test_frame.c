/* SPDX-License-Identifier: MIT
 *
 * frame.h is frozen: one recorded example of each kind, built here, written as text and compared
 * with tests/golden/frames.txt. A change of meaning changes that text. UPDATE_GOLDEN=1 rewrites it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "model/framebuf.h"

#define GOLDEN TESTS_DIR "/golden/frames.txt"

#define S   1000000000ULL
#define MIB (1LL << 20)

/* ---- what a recording or another program may rely on ---- */

_Static_assert(sizeof(struct reading) == 48, "a reading has 48 bytes");
_Static_assert(METRIC_COUNT <= UINT16_MAX, "a metric fits into a reading");

_Static_assert(ENTITY_HOST == 0 && ENTITY_JOB == 1 && ENTITY_PROCESS == 2 && ENTITY_GPU == 3,
	"entities keep their numbers");
_Static_assert(ENTITY_GPU_PROCESS == 4 && ENTITY_COUNT == 5, "entities keep their numbers");

_Static_assert(FRAME_PROCFS == 0 && FRAME_HOST == 1 && FRAME_CGROUP == 2 && FRAME_TASKSTATS == 3,
	"sources keep theirs");
_Static_assert(FRAME_TOTALS == 4 && FRAME_USER == 5 && FRAME_RECORDER == 6 && FRAME_NVML == 7,
	"sources keep theirs");
_Static_assert(FRAME_DCGM == 8 && FRAME_AMDGPU == 9 && FRAME_DRM == 10 && FRAME_SOURCE_COUNT == 11,
	"sources keep theirs");

_Static_assert(END_SEEN == 0 && END_REAPED == 1 && END_TASKSTATS == 2 && END_LEFT == 3,
	"ends keep theirs");

_Static_assert(
	EVENT_MARK == 0 && EVENT_PHASE_BEGIN == 1 && EVENT_PHASE_END == 2 && EVENT_ALERT == 3,
	"events keep theirs");
_Static_assert(EVENT_CLEARED == 4 && EVENT_OOM == 5 && EVENT_GAP == 6 && EVENT_NOTE == 7,
	"events keep theirs");
_Static_assert(
	EVENT_TRIGGER == 8 && EVENT_EXEC == 9 && EVENT_KIND_COUNT == 10, "events keep theirs");

_Static_assert(UNIT_BYTES == 0 && UNIT_NS == 1 && UNIT_COUNT == 2 && UNIT_PPM == 3 && UNIT_UJ == 4,
	"units keep theirs");
_Static_assert(UNIT_UW == 5 && UNIT_MCEL == 6 && UNIT_HZ == 7, "units keep theirs");
_Static_assert(KIND_GAUGE == 0 && KIND_COUNTER == 1 && KIND_HWM == 2, "kinds keep theirs");
_Static_assert(ADDS_SUM == 0 && ADDS_MAX == 1 && ADDS_NONE == 2, "ways to add up keep theirs");

/* ---- a frame as text: every member, one line an entry ---- */

static const char *const source_names[FRAME_SOURCE_COUNT] = {
	[FRAME_PROCFS] = "procfs",
	[FRAME_HOST] = "host",
	[FRAME_CGROUP] = "cgroup",
	[FRAME_TASKSTATS] = "taskstats",
	[FRAME_TOTALS] = "totals",
	[FRAME_USER] = "user",
	[FRAME_RECORDER] = "recorder",
	[FRAME_NVML] = "nvml",
	[FRAME_DCGM] = "dcgm",
	[FRAME_AMDGPU] = "amdgpu",
	[FRAME_DRM] = "drm",
};

static const char *const end_names[] = {
	[END_SEEN] = "seen",
	[END_REAPED] = "reaped",
	[END_TASKSTATS] = "taskstats",
	[END_LEFT] = "left",
};

static const char *const event_names[EVENT_KIND_COUNT] = {
	[EVENT_MARK] = "mark",
	[EVENT_PHASE_BEGIN] = "phase-begin",
	[EVENT_PHASE_END] = "phase-end",
	[EVENT_ALERT] = "alert",
	[EVENT_CLEARED] = "cleared",
	[EVENT_OOM] = "oom",
	[EVENT_GAP] = "gap",
	[EVENT_NOTE] = "note",
	[EVENT_TRIGGER] = "trigger",
	[EVENT_EXEC] = "exec",
};

static const char *const cause_names[CAUSE_COUNT] = {
	[CAUSE_NONE] = "none",
	[CAUSE_DEVICE] = "device",
	[CAUSE_NVML] = "nvml",
	[CAUSE_AMDGPU] = "amdgpu",
	[CAUSE_DRM] = "drm",
	[CAUSE_HELPER] = "helper",
	[CAUSE_HELPER_ENDED] = "helper-ended",
	[CAUSE_UNKNOWN] = "unknown",
};

static void dump_text(struct buf *out, const char *name, const char *text)
{
	buf_printf(out, " %s=\"", name);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\' || (unsigned char) *text < ' ' ||
			(unsigned char) *text > '~')
			buf_printf(out, "\\x%02x", (unsigned char) *text);
		else
			buf_add(out, text, 1);
	}
	buf_str(out, "\"");
}

static void dump_maybe(struct buf *out, const char *name, struct maybe m)
{
	if (m.known)
		buf_printf(out, " %s=%" PRId64, name, m.value);
	else
		buf_printf(out, " %s=unknown", name);
}

static void dump_birth(struct buf *out, const struct birth *b)
{
	buf_printf(out, "  birth %s id=%" PRIu32, entity_name(b->entity), b->id);
	if (b->entity == ENTITY_PROCESS) {
		const struct process_birth *p = &b->process;

		buf_printf(out,
			" pid=%" PRId32 " ppid=%" PRId32 " parent=%" PRIu32 " uid=%" PRIu32
			" start_ns=%" PRIu64 " startstack=%" PRIu64 " is_main=%d",
			p->pid, p->ppid, p->parent, p->uid, p->start_ns, p->startstack, p->is_main);
		dump_text(out, "name", p->name);
		dump_text(out, "command", p->command);
		dump_maybe(out, "rank", p->rank);
		dump_maybe(out, "ranks", p->ranks);
	} else if (b->entity == ENTITY_GPU) {
		dump_text(out, "uuid", b->gpu.uuid);
		dump_text(out, "name", b->gpu.name);
		dump_text(out, "vendor", b->gpu.vendor);
		dump_maybe(out, "index", b->gpu.index);
		dump_maybe(out, "memory_bytes", b->gpu.memory_bytes);
		dump_text(out, "pci", b->gpu.pci);
		dump_text(out, "parent", b->gpu.parent);
		dump_text(out, "driver", b->gpu.driver);
		dump_maybe(out, "cuda_index", b->gpu.cuda_index);
		buf_printf(out, " unified=%d is_module=%d", b->gpu.unified, b->gpu.is_module);
	} else {
		buf_printf(out, " gpu=%" PRIu32 " process=%" PRIu32, b->gpu_process.gpu,
			b->gpu_process.process);
		dump_maybe(out, "pid", b->gpu_process.pid);
		dump_maybe(out, "uid", b->gpu_process.uid);
		dump_text(out, "name", b->gpu_process.name);
		buf_printf(out, " compute=%d graphics=%d", b->gpu_process.compute, b->gpu_process.graphics);
	}
	buf_str(out, "\n");
}

static void dump_reading(struct buf *out, const struct reading *r)
{
	const struct metric_info *m = &metrics[r->metric];

	buf_printf(out,
		"  reading %s.%s id=%" PRIu32 " known=%d n=%" PRIu32 " value=%" PRId64
		" min=%" PRId64 " max=%" PRId64 " span_ns=%" PRIu64 "\n",
		entity_name(m->entity), m->name, r->id, r->known, r->n, r->value, r->min, r->max,
		r->span_ns);
}

static void dump_end(struct buf *out, const struct end *e)
{
	buf_printf(out, "  end %s id=%" PRIu32 " how=%s", entity_name(e->entity), e->id,
		end_names[e->how]);
	if (e->status_known)
		buf_printf(out, " status=%" PRId32, e->status);
	else
		buf_str(out, " status=unknown");
	dump_maybe(out, "hwm_bytes", e->hwm_bytes);
	dump_maybe(out, "maxrss_bytes", e->maxrss_bytes);
	dump_maybe(out, "cpu_user_ns", e->cpu_user_ns);
	dump_maybe(out, "cpu_system_ns", e->cpu_system_ns);
	dump_maybe(out, "faults_minor", e->faults_minor);
	dump_maybe(out, "faults_waited", e->faults_waited);
	dump_maybe(out, "read_bytes", e->io.read_bytes);
	dump_maybe(out, "write_bytes", e->io.write_bytes);
	dump_maybe(out, "write_cancelled", e->io.write_cancelled);
	dump_maybe(out, "read_chars", e->io.read_chars);
	dump_maybe(out, "write_chars", e->io.write_chars);
	buf_str(out, "\n");
}

static void dump_event(struct buf *out, const struct event *e)
{
	buf_printf(out,
		"  event %s time_ns=%" PRIu64 " about=%s id=%" PRIu32 " phase=%" PRIu32
		" value_ns=%" PRId64,
		event_names[e->kind], e->time_ns, entity_name(e->entity), e->id, e->phase,
		e->value_ns);
	if (e->kind == EVENT_NOTE)
		buf_printf(out, " cause=%s", cause_names[e->cause]);
	dump_text(out, "text", e->text);
	buf_str(out, "\n");
}

static void dump_series(struct buf *out, const struct series_value *s)
{
	buf_str(out, "  series");
	dump_text(out, "name", s->name);
	if (isnan(s->value))
		buf_str(out, " value=nan");
	else
		buf_printf(out, " value=%.17g", s->value);
	if (s->has_step)
		buf_printf(out, " step=%" PRId64, s->step);
	buf_str(out, "\n");
}

static void dump_frame(struct buf *out, const char *title, const struct frame *f)
{
	buf_printf(out, "# %s\nframe %s time_ns=%" PRIu64 " hold_ns=%" PRIu64 " live=%d\n", title,
		source_names[f->source], f->time_ns, f->hold_ns, f->live);
	for (size_t i = 0; i < f->n_births; i++)
		dump_birth(out, &f->births[i]);
	for (size_t i = 0; i < f->n_readings; i++)
		dump_reading(out, &f->readings[i]);
	for (size_t i = 0; i < f->n_ends; i++)
		dump_end(out, &f->ends[i]);
	for (size_t i = 0; i < f->n_events; i++)
		dump_event(out, &f->events[i]);
	for (size_t i = 0; i < f->n_series; i++)
		dump_series(out, &f->series[i]);
	buf_str(out, "\n");
}

/* ---- the examples, as sources and the recorder make them ---- */

static void births(struct framebuf *b)
{
	framebuf_birth(b, &(struct birth) { .entity = ENTITY_PROCESS,
				  .id = 1,
				  .process = { .pid = 4711,
					  .ppid = 4000,
					  .uid = 1000,
					  .start_ns = 86400 * S + 250000000,
					  .startstack = 140722934517136,
					  .name = "python3",
					  .command = "python3 train.py --token=***",
					  .is_main = true } });
	framebuf_birth(b, &(struct birth) { .entity = ENTITY_PROCESS,
				  .id = 2,
				  .process = { .pid = 4712,
					  .ppid = 4711,
					  .parent = 1,
					  .uid = 1000,
					  .start_ns = 86401 * S,
					  .startstack = 0,
					  .name = "a) \"b\\\n\xff",
					  .command = "" } });
	framebuf_value(b, M_PROC_RSS, 1, 300 * MIB);
	framebuf_value(b, M_PROC_RSS, 2, MIB);
}

/* A second birth of a process: it executes another program from here on. */
static void birth_again(struct framebuf *b)
{
	framebuf_birth(b, &(struct birth) { .entity = ENTITY_PROCESS,
				  .id = 2,
				  .process = { .pid = 4712,
					  .ppid = 4711,
					  .parent = 1,
					  .uid = 1000,
					  .start_ns = 86401 * S,
					  .startstack = 140730000000000,
					  .name = "make",
					  .command = "make -j8" } });
	framebuf_event(b, &(struct event) { .time_ns = S,
				  .kind = EVENT_EXEC,
				  .entity = ENTITY_PROCESS,
				  .id = 2,
				  .text = "make" });
}

static void gpu_births(struct framebuf *b)
{
	framebuf_birth(b, &(struct birth) { .entity = ENTITY_GPU,
				  .id = 1,
				  .gpu = { .uuid = "GPU-8a56a4bc-e184-a047-2620-be19fdf913d5",
					  .name = "NVIDIA H200",
					  .vendor = "nvidia",
					  .pci = "0000:18:00.0",
					  .driver = "580.65.06",
					  .index = known(0),
					  .cuda_index = known(0),
					  .memory_bytes = known(143771 * MIB) } });
	framebuf_birth(b, &(struct birth) { .entity = ENTITY_GPU,
				  .id = 2,
				  .gpu = { .uuid = "0000:03:00.0",
					  .name = "Radeon",
					  .vendor = "amd",
					  .index = UNKNOWN,
					  .memory_bytes = UNKNOWN } });
	framebuf_birth(b, &(struct birth) { .entity = ENTITY_GPU,
				  .id = 3,
				  .gpu = { .uuid = "MIG-41b36f2a-6b8f-5d2e-b9a3-08e2b1f7c9aa",
					  .name = "NVIDIA H200 MIG 1g.18gb",
					  .vendor = "nvidia",
					  .parent = "GPU-8a56a4bc-e184-a047-2620-be19fdf913d5",
					  .memory_bytes = known(16384 * MIB) } });
	framebuf_birth(b, &(struct birth) { .entity = ENTITY_GPU,
				  .id = 4,
				  .gpu = { .uuid = "GPU-1d0e3b5c-0f4e-4f7b-9d3a-5a2b8e6c7f10",
					  .name = "NVIDIA GB10",
					  .vendor = "nvidia",
					  .pci = "000f:01:00.0",
					  .memory_bytes = known(122570 * MIB),
					  .unified = true,
					  .is_module = true } });
	framebuf_birth(b,
		&(struct birth) { .entity = ENTITY_GPU_PROCESS,
			.id = 1,
			.gpu_process = { .gpu = 1,
				.process = 1,
				.pid = known(4711),
				.uid = known(1000),
				.name = "python3",
				.compute = true } });
	framebuf_birth(b, &(struct birth) { .entity = ENTITY_GPU_PROCESS,
				  .id = 2,
				  .gpu_process = { .gpu = 1, .process = 0, .pid = UNKNOWN } });
}

static void gauges(struct framebuf *b)
{
	struct reading burst = reading_of(M_PROC_RSS, 1, 310 * MIB);

	burst.max = 572 * MIB; /* the kernel's mark rose above the current value */
	framebuf_reading(b, burst);
	framebuf_value(b, M_PROC_RSS, 2, 0);
	framebuf_unknown(b, M_PROC_PSS, 2);
	framebuf_value(b, M_PROC_HWM, 1, 572 * MIB);
	framebuf_value(b, M_PROC_CPU_USER, 1, 41 * (int64_t) S);
}

/* Units of GPUs; samples of the driver within the interval. */
static void gpu_gauges(struct framebuf *b)
{
	struct reading busy = reading_of(M_GPU_BUSY, 1, 600000);

	busy.min = 0;
	busy.max = 1000000;
	framebuf_reading(b, busy);
	framebuf_value(b, M_GPU_MEM, 1, 9000 * MIB);
	framebuf_value(b, M_GPU_POWER, 1, 612500000);
	framebuf_value(b, M_GPU_ENERGY, 1, 4000000000000);
	framebuf_value(b, M_GPU_TEMP, 1, 61000);
	framebuf_value(b, M_GPU_CLOCK_SM, 1, 1980000000);
	framebuf_unknown(b, M_GPU_SM_ACTIVE, 3);
	framebuf_value(b, M_GPROC_MEM, 1, 8500 * MIB);
}

static void host(struct framebuf *b)
{
	framebuf_value(b, M_HOST_MEM_USED, 0, 8192 * MIB);
	framebuf_value(b, M_HOST_CPU_USER, 0, 7200 * (int64_t) S);
	framebuf_value(b, M_HOST_CPU_USER, 1 + 3, 1800 * (int64_t) S); /* of core 3 */
	framebuf_value(b, M_HOST_CORE_BUSIEST, 0, 875000);
	framebuf_unknown(b, M_HOST_ENERGY, 0);
}

static void totals(struct framebuf *b)
{
	framebuf_value(b, M_JOB_RAM, 0, 573 * MIB);
	framebuf_value(b, M_JOB_RAM_LOW, 0, 572 * MIB);
	framebuf_value(b, M_JOB_RAM_HIGH, 0, 575 * MIB);
	framebuf_value(b, M_JOB_PROCESSES, 0, 2);
}

/* A second of ten samples, as a recording returns it. */
static void folded(struct framebuf *b)
{
	framebuf_reading(b, (struct reading) { .id = 1,
				    .metric = M_PROC_RSS,
				    .known = true,
				    .n = 10,
				    .value = 305 * MIB,
				    .min = 300 * MIB,
				    .max = 572 * MIB,
				    .span_ns = S });
	framebuf_reading(b, (struct reading) { .id = 1,
				    .metric = M_PROC_CPU_USER,
				    .known = true,
				    .n = 10,
				    .value = 41 * (int64_t) S,
				    .min = 41 * (int64_t) S,
				    .max = 41 * (int64_t) S,
				    .span_ns = S });
	framebuf_reading(
		b, (struct reading) { .id = 2, .metric = M_PROC_PSS, .known = false, .n = 1 });
}

static void ends(struct framebuf *b)
{
	framebuf_end(b, &(struct end) { .entity = ENTITY_PROCESS,
				.id = 2,
				.how = END_SEEN,
				.hwm_bytes = known(2 * MIB),
				.cpu_user_ns = known(30000000),
				.cpu_system_ns = known(0) });
	framebuf_end(b, &(struct end) { .entity = ENTITY_PROCESS,
				.id = 1,
				.how = END_REAPED,
				.status_known = true,
				.status = 9 /* SIGKILL */,
				.hwm_bytes = known(572 * MIB),
				.maxrss_bytes = known(580 * MIB),
				.cpu_user_ns = known(42 * (int64_t) S),
				.cpu_system_ns = known((int64_t) S),
				.faults_minor = known(150000),
				.faults_waited = known(0),
				.io.read_bytes = known(4096),
				.io.write_bytes = known(0) });
	framebuf_end(b, &(struct end) { .entity = ENTITY_PROCESS,
				.id = 1,
				.how = END_TASKSTATS,
				.status_known = true,
				.status = 9,
				.hwm_bytes = known(573 * MIB),
				.io.read_bytes = known(8192) });
	framebuf_end(b, &(struct end) { .entity = ENTITY_PROCESS, .id = 3, .how = END_LEFT });
	framebuf_end(b, &(struct end) { .entity = ENTITY_GPU_PROCESS, .id = 1, .how = END_SEEN });
}

static void events(struct framebuf *b)
{
	static const struct event list[] = {
		{ 1 * S, EVENT_MARK, ENTITY_JOB, 0, 0, 0, "data loaded", CAUSE_NONE },
		{ 2 * S, EVENT_PHASE_BEGIN, ENTITY_JOB, 0, 1, 0, "epoch", CAUSE_NONE },
		{ 3 * S, EVENT_PHASE_BEGIN, ENTITY_JOB, 0, 2, 0, "forward", CAUSE_NONE },
		{ 4 * S, EVENT_PHASE_END, ENTITY_JOB, 0, 2, 0, "forward", CAUSE_NONE },
		{ 5 * S, EVENT_PHASE_END, ENTITY_JOB, 0, 1, 0, "epoch", CAUSE_NONE },
		{ 6 * S, EVENT_ALERT, ENTITY_JOB, 0, 0, 0, "ram > 90%: 0.93", CAUSE_NONE },
		{ 7 * S, EVENT_CLEARED, ENTITY_JOB, 0, 0, 0, "ram > 90%: 0.85", CAUSE_NONE },
		{ 8 * S, EVENT_OOM, ENTITY_PROCESS, 2, 0, 0, "memory of the cgroup", CAUSE_NONE },
		{ 9 * S, EVENT_OOM, ENTITY_JOB, 0, 0, 0, "", CAUSE_NONE },
		{ 10 * S, EVENT_GAP, ENTITY_HOST, 0, 0, 3600 * (int64_t) S, "suspended", CAUSE_NONE },
		{ 11 * S, EVENT_NOTE, ENTITY_HOST, 0, 0, 0, "energy: not readable", CAUSE_NONE },
		{ 12 * S, EVENT_TRIGGER, ENTITY_JOB, 0, 0, 0, "black box", CAUSE_NONE },
		{ 13 * S, EVENT_EXEC, ENTITY_PROCESS, 1, 0, 0, "make", CAUSE_NONE },
		{ 14 * S, EVENT_NOTE, ENTITY_GPU, 1, 0, 0, "gpu: GPU 0: lost", CAUSE_DEVICE },
	};

	for (size_t i = 0; i < sizeof(list) / sizeof(*list); i++)
		framebuf_event(b, &list[i]);
}

static void series(struct framebuf *b)
{
	framebuf_series(b, &(struct series_value) {
				   .name = "loss", .value = 0.1, .has_step = true, .step = 0 });
	framebuf_series(
		b, &(struct series_value) {
			   .name = "loss", .value = (double) NAN, .has_step = true, .step = 1 });
	framebuf_series(b, &(struct series_value) { .name = "accuracy", .value = 0.75 });
	framebuf_series(b, &(struct series_value) { .name = "gain", .value = -(double) INFINITY });
}

/* PSS passes are seconds apart: a value is valid for three periods. */
static void slow(struct framebuf *b)
{
	framebuf_value(b, M_PROC_PSS, 1, 290 * MIB);
	framebuf_value(b, M_PROC_PRIVATE, 1, 280 * MIB);
}

static const struct {
	const char *title;
	void (*fill)(struct framebuf *b);
	enum frame_source source;
	uint64_t time_ns, hold_ns;
	bool from_recording;
} examples[] = {
	{ "processes are observed for the first time", births, FRAME_PROCFS, 0, 300000000, false },
	{ "a process executes another program", birth_again, FRAME_PROCFS, S, 300000000, false },
	{ "GPUs and processes on them are observed for the first time", gpu_births, FRAME_NVML, 0, 300000000,
		false },
	{ "gauges, a burst between two samples, an unavailable value, a high-water mark, a counter", gauges,
		FRAME_PROCFS, 100000000, 300000000, false },
	{ "a GPU's gauges in their units, with the driver's samples of the interval", gpu_gauges, FRAME_NVML,
		S, 300000000, false },
	{ "the machine, one of its cores", host, FRAME_HOST, S, 3 * S, false },
	{ "totals of the job", totals, FRAME_TOTALS, S, 300000000, false },
	{ "aggregated windows of a recording", folded, FRAME_PROCFS, 2 * S, 3 * S, true },
	{ "a slow source", slow, FRAME_PROCFS, 3 * S, 30 * S, false },
	{ "ends", ends, FRAME_PROCFS, 14 * S, 300000000, false },
	{ "events", events, FRAME_RECORDER, 14 * S, 0, false },
	{ "series", series, FRAME_USER, 15 * S, 0, false },
};

static void dump_examples(struct buf *out)
{
	struct framebuf b = { 0 };

	for (size_t i = 0; i < sizeof(examples) / sizeof(*examples); i++) {
		framebuf_clear(&b);
		examples[i].fill(&b);
		struct frame f = framebuf_frame(
			&b, examples[i].source, examples[i].time_ns, examples[i].hold_ns);

		f.live = !examples[i].from_recording;
		dump_frame(out, examples[i].title, &f);
		assert_int_equal(b.error, 0);
	}
	framebuf_done(&b);
	assert_int_equal(out->error, 0);
}

static void read_golden(struct buf *golden)
{
	autofclose FILE *f = fopen(GOLDEN, "r");
	char part[4096];
	size_t n;

	if (!f)
		fail_msg("cannot open " GOLDEN);
	while ((n = fread(part, 1, sizeof(part), f)) > 0)
		assert_int_equal(buf_add(golden, part, n), 0);
}

/* The first different line says more than two long texts. */
static void assert_same_lines(const char *made, const char *golden)
{
	for (int line = 1; *made || *golden; line++) {
		size_t made_len = strcspn(made, "\n"), golden_len = strcspn(golden, "\n");

		if (made_len != golden_len || memcmp(made, golden, made_len) != 0)
			fail_msg("line %d of frames.txt is\n%.*s\nbut was made as\n%.*s", line,
				(int) golden_len, golden, (int) made_len, made);
		made += made_len + (made[made_len] == '\n');
		golden += golden_len + (golden[golden_len] == '\n');
	}
}

static void test_the_examples_are_as_recorded(void **state)
{
	struct buf made = BUF_INIT(1 << 20), golden = BUF_INIT(1 << 20);
	const char *update = getenv("UPDATE_GOLDEN");

	(void) state;
	dump_examples(&made);
	if (update && *update) {
		autofclose FILE *f = fopen(GOLDEN, "w");

		assert_non_null(f);
		assert_int_equal(fwrite(made.data, 1, made.len, f), made.len);
	} else {
		read_golden(&golden);
		assert_same_lines(made.data, golden.data);
	}
	buf_done(&made);
	buf_done(&golden);
}

/* Every kind has an example. */
static void test_each_kind_has_an_example(void **state)
{
	struct framebuf b = { 0 };
	unsigned event_kinds = 0, end_kinds = 0, birth_kinds = 0;

	(void) state;
	for (size_t i = 0; i < sizeof(examples) / sizeof(*examples); i++)
		examples[i].fill(&b);
	for (size_t i = 0; i < b.n_events; i++)
		event_kinds |= 1U << b.events[i].kind;
	for (size_t i = 0; i < b.n_ends; i++)
		end_kinds |= 1U << b.ends[i].how;
	for (size_t i = 0; i < b.n_births; i++)
		birth_kinds |= 1U << b.births[i].entity;
	framebuf_done(&b);
	assert_int_equal(event_kinds, (1U << EVENT_KIND_COUNT) - 1);
	assert_int_equal(end_kinds, (1U << (END_LEFT + 1)) - 1);
	assert_int_equal(
		birth_kinds, 1U << ENTITY_PROCESS | 1U << ENTITY_GPU | 1U << ENTITY_GPU_PROCESS);
}

static void test_a_live_reading(void **state)
{
	struct reading r = reading_of(M_PROC_RSS, 7, -5);

	(void) state;
	assert_int_equal(r.id, 7);
	assert_int_equal(r.metric, M_PROC_RSS);
	assert_true(r.known);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.value, -5);
	assert_int_equal(r.min, -5);
	assert_int_equal(r.max, -5);
	assert_int_equal(r.span_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_examples_are_as_recorded),
		cmocka_unit_test(test_each_kind_has_an_example),
		cmocka_unit_test(test_a_live_reading),
	};

	return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}

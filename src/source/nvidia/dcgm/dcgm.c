/* SPDX-License-Identifier: MIT
 *
 * SM activity of NVIDIA's data-center cards before Hopper, read from a DCGM host engine that
 * already runs: NVML has no such counters for them. Devices are matched with NVML's by UUID. Later
 * cards are left out, because NVML's GPM reports the same for them. Every call goes to another
 * process and may block.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "source/nvidia/dcgm/internal.h"

enum {
	ACTIVITY = 1 << 0,
	ENGINE = 1 << 1,
};

static const struct source_group groups[] = {
	/* One-second means, computed by the engine. */
	{ .name = "profiling",
		.contents = "SM activity and occupancy, pipes, DRAM",
		.period_ns = 1000000000,
		.rank = 1 },
	/* Is the engine running (again), and does a client profile now? */
	{ .name = "engine",
		.contents = "whether the engine runs, and which clients profile",
		.period_ns = 10000000000,
		.rank = 1 },
};

static const uint64_t first_ns = 5000000000; /* from the start of a watch; blank values before are normal */
static const int64_t stopped_us = 60000000;
static const uint64_t stalled_ns = 10000000000;
static const double busy_pct = 50;

const struct dcgm_row dcgm_rows[DCGM_ROWS] = {
	{ DCGM_SMACT, M_GPU_SM_ACTIVE, false },
	{ DCGM_GRACT, M_GPU_GRAPHICS_ACTIVE, false },
	{ DCGM_SMOCC, M_GPU_SM_OCCUPANCY, false },
	{ DCGM_TENSOR, M_GPU_TENSOR_ACTIVE, false },
	{ DCGM_DRAMA, M_GPU_DRAM_ACTIVE, false },
	{ DCGM_FP64, M_GPU_FP64_ACTIVE, false },
	{ DCGM_FP32, M_GPU_FP32_ACTIVE, false },
	{ DCGM_FP16, M_GPU_FP16_ACTIVE, false },
	{ DCGM_PCIE_TX, M_GPU_PCIE_TX, true },
	{ DCGM_PCIE_RX, M_GPU_PCIE_RX, true },
	{ DCGM_NVLINK_TX, M_GPU_NVLINK_TX, true },
	{ DCGM_NVLINK_RX, M_GPU_NVLINK_RX, true },
};

enum {
	ROW_SMACT = 0,
	ROW_GRACT = 1,
};

/* ---- output ---------------------------------------------------------------------------------- */

static void append_birth(struct source *s, struct dcgm_gpu *g, struct framebuf *out)
{
	const struct birth birth = {
		.entity = ENTITY_GPU,
		.id = g->id = ++s->last_id,
		.gpu = {
			.uuid = g->uuid,
			.name = g->name,
			.vendor = "nvidia",
			.pci = g->pci,
			.parent = "",
			.driver = "",
			.index = g->index,
			.memory_bytes = g->memory_bytes,
		},
	};

	framebuf_birth(out, &birth);
}

static void note(struct source *s, const struct dcgm_gpu *g, struct framebuf *out, const char *text)
{
	char words[512], which[48] = "";
	const struct event event = {
		.time_ns = counter_delta(s->env->start_boot_ns, s->now_ns),
		.kind = EVENT_NOTE,
		.entity = g && g->id ? ENTITY_GPU : ENTITY_JOB,
		.id = g ? g->id : 0,
		.text = words,
	};

	if (g && g->index.known)
		(void) snprintf(which, sizeof(which), "GPU %d: ", (int) g->index.value);
	(void) snprintf(words, sizeof(words), "gpu.sm_active: %s%s", which, text);
	framebuf_event(out, &event);
}

/* Names a process that probably uses the counters, if one is visible: " (possibly ncu, process
 * 4711)". */
static void name_profiler(const struct source *s, char *ret, size_t size)
{
	static const char profilers[] = "(^|/)(ncu|nsys|nv-nsight-cu-cli|nvprof|dcgmproftester[0-9]*)( |$)";
	char name[16];
	uint32_t uid;
	pid_t pid;

	*ret = '\0';
	if (find_by_name(s->env->root, profilers, &pid, 1, NULL) > 0 &&
		process_owner(s->env->root, pid, name, &uid) == 0)
		(void) snprintf(ret, size, " (possibly %s, process %d)", name, (int) pid);
}

static bool is_transient(enum dcgm_why why)
{
	return why == DCGM_FINE || why == DCGM_NOT_YET;
}

/* Notes once why values are missing, and once that they are available again. */
static void note_status(struct source *s, struct dcgm_gpu *g, struct framebuf *out)
{
	const struct dcgm_reason *reason = dcgm_reason(g->why);
	char text[384], who[64] = "";

	if (g->why == g->noted || g->why == DCGM_NOT_YET)
		return;
	if (g->why == DCGM_FINE && g->noted == DCGM_FINE)
		return;
	if (g->why == DCGM_COUNTERS_IN_USE)
		name_profiler(s, who, sizeof(who));
	if (g->why == DCGM_FINE)
		(void) snprintf(text, sizeof(text), "DCGM reports it again");
	else
		(void) snprintf(text, sizeof(text), "%s%s%s%s", reason->why, who, *reason->remedy ? ": " : "",
			reason->remedy);
	g->noted = g->why;
	note(s, g, out, text);
}

static void note_origin(struct source *s, struct framebuf *out)
{
	char text[192];

	if (s->origin_noted)
		return;
	s->origin_noted = true;
	(void) snprintf(text, sizeof(text),
		"reported by the DCGM host engine at %s, as are the other shares of SM time",
		s->dcgm.address);
	note(s, NULL, out, text);
}

static void append_unknown(struct dcgm_gpu *g, int row, struct framebuf *out)
{
	if (g->reported[row])
		framebuf_unknown(out, dcgm_rows[row].metric, g->id);
	g->reported[row] = false;
}

static void append_all_unknown(struct dcgm_gpu *g, struct framebuf *out)
{
	for (int i = 0; i < DCGM_ROWS; i++)
		append_unknown(g, i, out);
}

/* Bytes per second times the time since the previous value, accumulated. */
static struct maybe rate_total(struct dcgm_gpu *g, int row, double rate, int64_t stamp_us)
{
	const int64_t span_us = g->stamp_us[row] ? stamp_us - g->stamp_us[row] : 0;

	if (!(rate >= 0) || rate > 0x1p50 || span_us < 0 || span_us > stopped_us)
		return UNKNOWN;
	g->bytes[row] += rate * (double) span_us / 1e6;
	return known((int64_t) g->bytes[row]);
}

static void append_value(
	struct source *s, struct dcgm_gpu *g, int row, double x, int64_t stamp_us, struct framebuf *out)
{
	const struct maybe value = dcgm_rows[row].is_rate ? rate_total(g, row, x, stamp_us) : dcgm_ppm(x);

	g->stamp_us[row] = stamp_us;
	if (!value.known) {
		append_unknown(g, row, out);
		return;
	}
	if (!g->id)
		append_birth(s, g, out);
	framebuf_value(out, dcgm_rows[row].metric, g->id, value.value);
	g->reported[row] = true;
}

/* ---- values of the engine -------------------------------------------------------------------- */

/* Zeros may be wrong: the profiling module has been seen to stall and report 0 until the engine is
 * restarted. */
static bool is_stalled(struct source *s, struct dcgm_gpu *g)
{
	double active = 1, busy = 0;
	const bool suspicious = dcgm_number(&s->values[ROW_GRACT], &active) == DCGM_FINE && active == 0 &&
				dcgm_number(&s->values[DCGM_ROWS], &busy) == DCGM_FINE && busy >= busy_pct;

	if (!suspicious)
		g->zero_since_ns = 0;
	else if (!g->zero_since_ns)
		g->zero_since_ns = s->now_ns;
	return suspicious;
}

/* Appends the value of one field if it is new. */
static enum dcgm_why append_figure(struct source *s, struct dcgm_gpu *g, int row, struct framebuf *out)
{
	const struct dcgm_value *v = &s->values[row];
	double x = 0;
	enum dcgm_why why = dcgm_number(v, &x);

	if (why == DCGM_COUNTERS_IN_USE && !g->stamp_us[row] &&
		counter_delta(s->watched_ns, s->now_ns) < first_ns)
		return DCGM_NOT_YET;
	if (why == DCGM_FINE && v->stamp_us == g->stamp_us[row]) {
		if ((int64_t) (clock_wall_ns() / 1000) - v->stamp_us < stopped_us)
			return DCGM_FINE;
		why = DCGM_STOPPED;
	}
	if (why == DCGM_FINE)
		append_value(s, g, row, x, v->stamp_us, out);
	else
		append_unknown(g, row, out);
	return why;
}

/* Zeros of a module that may be stalled are withheld until the activity is certain. */
static void append_gpu(struct source *s, struct dcgm_gpu *g, struct framebuf *out)
{
	if (is_stalled(s, g)) {
		append_all_unknown(g, out);
		if (counter_delta(g->zero_since_ns, s->now_ns) >= stalled_ns)
			g->why = DCGM_STALLED;
		return;
	}
	for (size_t i = 0; i < s->n_watched; i++) {
		const enum dcgm_why why = append_figure(s, g, (int) i, out);

		if (i == ROW_SMACT)
			g->why = why;
	}
}

static void lose_engine(struct source *s, struct framebuf *out)
{
	s->dcgm.handle = 0;
	s->watched_ns = 0;
	for (size_t i = 0; i < s->n_gpus; i++) {
		struct dcgm_gpu *g = &s->gpus[i];

		append_all_unknown(g, out);
		g->why = DCGM_ENGINE_GONE;
		note_status(s, g, out);
	}
}

static void read_activity(struct source *s, struct framebuf *out)
{
	for (size_t i = 0; i < s->n_gpus && s->dcgm.handle; i++) {
		struct dcgm_gpu *g = &s->gpus[i];

		if (!g->is_present || g->why == DCGM_NOBODY_PROFILES || !s->watched_ns)
			continue;
		const enum dcgm_why why = dcgm_code_why(dcgm_engine_read(s, g));

		if (why == DCGM_ENGINE_GONE) {
			lose_engine(s, out);
			return;
		}
		if (why == DCGM_FINE) {
			append_gpu(s, g, out);
		} else {
			append_all_unknown(g, out);
			g->why = why;
		}
		if (g->why == DCGM_FINE)
			note_origin(s, out);
		note_status(s, g, out);
	}
}

/* An engine that has just started accepts connections before it knows its GPUs: disconnect, and try
 * again at a later read. */
static bool reconnect_gpus(struct source *s)
{
	if (dcgm_connect_again(&s->dcgm, NULL) < 0)
		return false;
	if (dcgm_engine_find_gpus(s) == DCGM_OK) {
		for (size_t i = 0; i < s->n_gpus; i++) {
			if (s->gpus[i].is_present)
				return true;
		}
	}
	dcgm_unload(&s->dcgm);
	return false;
}

static void check_engine(struct source *s, struct framebuf *out)
{
	if (!s->dcgm.handle && !reconnect_gpus(s))
		return;
	if (!s->watched_ns)
		dcgm_engine_watch(s);
	for (size_t i = 0; i < s->n_gpus; i++) {
		if (!is_transient(s->gpus[i].why))
			note_status(s, &s->gpus[i], out);
	}
}

/* ---- the source ------------------------------------------------------------------------------ */

static void dcgm_close(struct source *s)
{
	if (!s)
		return;
	dcgm_unload(&s->dcgm);
	free(s);
}

static bool is_wanted(const char *variable)
{
	const char *value = getenv(variable);

	return value && strcmp(value, "1") == 0;
}

static int dcgm_open(const struct source_env *env, struct source **ret, struct err *err)
{
	/* A captured machine has no engine. */
	if (!env->root->live)
		return err_set(err, -ENODEV, "DCGM can read this machine only, not a captured one");
	struct source *s = calloc(1, sizeof(*s));

	if (!s)
		return err_set(err, -ENOMEM, "DCGM: out of memory");
	s->env = env;
	s->now_ns = clock_boot_ns();
	s->may_profile = is_wanted("HIWATER_DCGM_PROFILE");
	int r = dcgm_load(env, &s->dcgm, err), code = r == 0 ? dcgm_engine_find_gpus(s) : DCGM_OK;

	if (r == 0 && code != DCGM_OK)
		r = err_set(err, -EIO, "the DCGM host engine does not list its GPUs (DCGM code %d)", code);
	else if (r == 0 && s->n_gpus == 0)
		r = err_set(
			err, -ENODEV, "NVML reports as much as the DCGM host engine for each of its GPUs");
	if (r < 0) {
		dcgm_close(s);
		return r;
	}
	dcgm_engine_watch(s);
	*ret = s;
	return 0;
}

static int dcgm_read(struct source *s, unsigned what, struct framebuf *out)
{
	s->now_ns = clock_boot_ns();
	if (what & ENGINE)
		check_engine(s, out);
	if (what & ACTIVITY)
		read_activity(s, out);
	return 0;
}

/* ---- availability, for doctor ---------------------------------------------------------------- */

static bool any(const struct source *s, int row)
{
	for (size_t i = 0; i < s->n_gpus; i++) {
		if (s->gpus[i].reported[row])
			return true;
	}
	return false;
}

/* Waits for the first means, two seconds at most. */
static void await_first(struct source *s)
{
	static const struct timespec moment = { .tv_nsec = 100000000 };
	struct framebuf out = { 0 };

	for (int i = 0; i < 20 && s->watched_ns && !any(s, ROW_SMACT); i++) {
		(void) nanosleep(&moment, NULL);
		(void) dcgm_read(s, ACTIVITY, &out);
		framebuf_clear(&out);
	}
	framebuf_done(&out);
}

static void dcgm_probe(const struct source_env *env, source_probe_fn *report, void *ctx)
{
	struct framebuf out = { 0 };
	struct source *s = NULL;
	struct err err = { "" };
	int r = dcgm_open(env, &s, &err);

	if (r == 0) {
		await_first(s);
		source_try(&source_dcgm, env, s, &out);
	}
	for (int i = 0; i < DCGM_ROWS; i++) {
		struct source_probe probe = { dcgm_rows[i].metric, false,
			"DCGM host engine, one-second means", err.text, "" };

		probe.available = s && any(s, i);
		if (s && !probe.available) {
			const enum dcgm_why why = s->gpus[0].why == DCGM_FINE ? DCGM_NO_COUNTERS
									      : s->gpus[0].why;

			probe.why_not = dcgm_reason(why)->why;
			probe.remedy = dcgm_reason(why)->remedy;
		}
		report(ctx, &probe);
	}
	framebuf_done(&out);
	dcgm_close(s);
}

const struct source_ops source_dcgm = {
	.name = "dcgm",
	.frame = FRAME_DCGM,
	.groups = groups,
	.n_groups = sizeof(groups) / sizeof(groups[0]),
	.open = dcgm_open,
	.read = dcgm_read,
	.probe = dcgm_probe,
	.call_name = dcgm_call_name,
	.close = dcgm_close,
};

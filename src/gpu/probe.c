/* SPDX-License-Identifier: MIT
 *
 * GPU_PROBE: which GPU metrics can be read on this machine, for doctor. Each source is probed by a
 * helper of its own, all at the same time; a hang or crash is reported as the reason.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "gpu/gpu_internal.h"

#define SECOND UINT64_C(1000000000)

/* An unused driver first attaches to its cards, which takes about a second each: a helper that
 * answers call after call gets longer than one in a single call. */
static const uint64_t patience_ns = 30 * SECOND, call_ns = 10 * SECOND;

/* A source's answers; or, if it did not answer, its helper's state and the reason. */
struct tried {
	const struct gpu_vendor *vendor;
	struct gpu_helper *helper;   /* NULL: no process could be started */
	bool is_over, answered, opened;
	int code;                    /* as its open returned it */
	const struct gpu_answer *answers;
	char why[GPU_ENDED];         /* why it did not answer */
	const char *remedy;
};

struct probe {
	const struct root *root;
	unsigned n;
	struct tried of[GPU_SOURCES];
};

/* ---- probing --------------------------------------------------------------------------------- */

/* Remedies for users: for NVIDIA's driver, and for any other. */
static const char *const remedies[GPU_FATES][2] = {
	[GPU_FINISHED] = { "", "" },
	[GPU_CRASHED] = {
		"check the kernel log (dmesg) for \"NVRM\"; reinstall the driver, with library and kernel module of the "
		"same version",
		"check the kernel log (dmesg); reinstall its driver, or try another version",
	},
	[GPU_STUCK] = {
		"check the kernel log (dmesg) for \"NVRM\" and \"Xid\", which give the cause; nvidia-smi -r or a reboot "
		"resets the GPU",
		"check the kernel log (dmesg) for the cause; a reboot resets the GPU",
	},
	[GPU_RUNS] = {
		"nvidia-smi -pm 1, as root, keeps the driver attached to unused GPUs; during a run, a slow driver is "
		"waited for and read less often",
		"retry when the GPUs are less busy; during a run, a slow driver is waited for and read less often",
	},
};

static void start(struct probe *p, const struct gpu_vendor *vendor, const struct source_env *env)
{
	const struct gpu_request request = {
		.task = GPU_PROBE, .vendors = vendor, .n_vendors = 1, .env = env
	};
	struct tried *t = &p->of[p->n++];
	struct err err = { "" };

	*t = (struct tried) { .vendor = vendor, .helper = gpu_helper_start(&request, &err) };
	if (t->helper) {
		t->answers = gpu_helper_shared(t->helper)->answers;
		return;
	}
	t->is_over = true;
	(void) snprintf(t->why, sizeof(t->why), "%.300s", err.text);
	t->remedy = "raise the limit of processes (ulimit -u, pids.max of the cgroup)";
}

/* Sets is_over once it has answered, ended, or taken too long. */
static void check(struct tried *t, uint64_t until_ns)
{
	(void) gpu_helper_frame(t->helper); /* no frames are sent: this detects the end */
	const enum gpu_fate fate = gpu_helper_fate(t->helper, call_ns);

	if (fate == GPU_RUNS && clock_boot_ns() < until_ns)
		return;
	(void) gpu_helper_end(t->helper);
	t->is_over = true;
	t->answered = fate == GPU_FINISHED;
	t->opened = t->answered && gpu_helper_status(t->helper).n_open > 0;
	t->code = gpu_helper_status(t->helper).code_not;
	t->remedy = remedies[fate][t->vendor->ops != &source_nvml];
	(void) gpu_helper_explain(t->helper, fate, fate == GPU_STUCK ? call_ns : patience_ns, t->why);
}

static void try_all(struct probe *p)
{
	const uint64_t until = clock_boot_ns() + patience_ns;

	for (;;) {
		struct gpu_helper *awaited[GPU_SOURCES];
		unsigned n = 0;

		for (unsigned i = 0; i < p->n; i++) {
			if (!p->of[i].is_over)
				check(&p->of[i], until);
			if (!p->of[i].is_over)
				awaited[n++] = p->of[i].helper;
		}
		if (n == 0)
			return;
		gpu_helper_poll(awaited, n, until);
	}
}

/* ---- reports per metric ---------------------------------------------------------------------- */

/* The source that adds to this source's devices, if it was probed for the metric; else the source
 * itself. */
static unsigned filling_source(const struct probe *p, unsigned source, enum metric metric)
{
	for (unsigned i = 0; i < p->n; i++) {
		if (p->of[i].vendor->fills == p->of[source].vendor->ops && p->of[i].opened &&
			p->of[i].answers[metric].given)
			return i;
	}
	return source;
}

/* NVIDIA's library answered, but could not be opened. */
static bool is_nvml_closed(const struct probe *p)
{
	return p->n > 0 && p->of[0].vendor->ops == &source_nvml && p->of[0].answered && !p->of[0].opened;
}

/* An NVIDIA card without its driver: metrics that the CPU's own GPU lacks may be available with
 * that driver. */
static bool lacks_driver(const struct probe *p, enum metric metric)
{
	return is_nvml_closed(p) && p->of[0].answers[metric].given && gpu_is_of_nvidia(p->root);
}

/* The source that answers for a metric: one that has it; else one that is stuck or has a reason;
 * else the first, whose reasons have known remedies. */
static unsigned best_source(const struct probe *p, enum metric metric)
{
	for (unsigned i = 0; i < p->n; i++) {
		if (p->of[i].answered && p->of[i].answers[metric].available)
			return i;
	}
	if (lacks_driver(p, metric))
		return 0;
	for (unsigned i = 0; i < p->n; i++) {
		if (!p->of[i].answered || (p->of[i].opened && p->of[i].answers[metric].given))
			return filling_source(p, i, metric);
	}
	return 0;
}

/* Is any source readable, or possibly readable? */
static bool is_any_here(const struct probe *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		if (!p->of[i].answered || p->of[i].opened)
			return true;
	}
	return false;
}

static void report_metric(const struct probe *p, enum metric metric, source_probe_fn *report, void *ctx)
{
	const struct tried *t = &p->of[best_source(p, metric)];
	struct source_probe probe = {
		.metric = metric, .how = "", .why_not = "no GPU driver here provides it", .remedy = ""
	};

	if (p->n > 0 && !t->answered) {
		probe.why_not = t->why;
		probe.remedy = t->remedy;
	} else if (p->n > 0 && t->answers[metric].given &&
		   (t->opened || !is_any_here(p) || lacks_driver(p, metric))) {
		const struct gpu_answer *a = &t->answers[metric];

		probe = (struct source_probe) { metric, a->available, a->how, a->available ? "" : a->why_not,
			a->remedy };
	}
	report(ctx, &probe);
}

static void report_all(const struct probe *p, source_probe_fn *report, void *ctx)
{
	/* A library that was loaded and cannot be read has a reason, whether or not the PCI bus
	 * shows a card. */
	const bool is_refused = is_nvml_closed(p) && p->of[0].code != -ENOENT;
	const bool none = !is_any_here(p) && !gpu_is_present(p->root) && !is_refused;

	for (int m = 0; m < METRIC_COUNT; m++) {
		const struct source_probe absent = {
			.metric = (enum metric) m, .how = "", .why_not = "no GPU", .remedy = ""
		};

		if (metrics[m].entity != ENTITY_GPU && metrics[m].entity != ENTITY_GPU_PROCESS)
			continue;
		if (m == M_GPU_JOB_MEM || m == M_GPU_OTHER_MEM || m == M_GPU_UNATTRIBUTED_MEM)
			continue; /* derived from the lists of processes */
		if (none)
			report(ctx, &absent);
		else
			report_metric(p, (enum metric) m, report, ctx);
	}
}

static void report_schedules(const struct probe *p, uint64_t interval_ns, gpu_schedule_reporter *report,
	void *ctx)
{
	struct gpu_tried tried[GPU_SOURCES];
	unsigned n = 0;

	for (unsigned i = 0; i < p->n; i++) {
		if (p->of[i].opened)
			tried[n++] = (struct gpu_tried) { p->of[i].vendor->label, p->of[i].vendor->ops,
				gpu_helper_shared(p->of[i].helper)->costs };
	}
	gpu_schedule(tried, n, interval_ns, report, ctx);
}

int gpu_probe(const struct gpu_vendor *vendors, const struct source_env *env, uint64_t interval_ns,
	source_probe_fn *report, gpu_schedule_reporter *report_schedule, void *ctx)
{
	struct probe *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->root = env->root;
	if (!env->root->live && vendors->ops == &source_nvml)
		vendors++; /* a library is not part of a captured machine */
	for (; vendors->ops && p->n < GPU_SOURCES; vendors++)
		start(p, vendors, env);
	try_all(p);
	report_all(p, report, ctx);
	if (report_schedule)
		report_schedules(p, interval_ns, report_schedule, ctx);
	for (unsigned i = 0; i < p->n; i++)
		gpu_helper_free(p->of[i].helper);
	free(p);
	return 0;
}

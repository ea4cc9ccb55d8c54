/* SPDX-License-Identifier: MIT
 *
 * Availability of each metric, found by reading it: a metric is available if any device reports it.
 */
#include <errno.h>
#include <time.h>

#include "source/nvidia/nvml/internal.h"

#define GPM_PAIR_NS 110000000 /* between two samples of GPM */

/* ---- NVML cannot be opened ------------------------------------------------------------------- */

static const struct {
	int error;
	const char *why, *remedy;
} open_texts[] = {
	{ -ENOENT, "libnvidia-ml.so.1 was not found",
		"install NVIDIA's driver; in a container, NVIDIA_DRIVER_CAPABILITIES must contain utility" },
	{ -EINVAL, "the library that HIWATER_NVML names cannot be loaded",
		"unset HIWATER_NVML, or set it to the path of NVIDIA's libnvidia-ml.so.1" },
	{ -ELIBACC, "a library that NVML needs is missing",
		"in a container, NVIDIA_DRIVER_CAPABILITIES must contain utility; otherwise install all of NVIDIA's driver" },
	{ -ENOEXEC, "this libnvidia-ml has no nvmlInit: it is not NVML", "install NVIDIA's driver" },
	{ -ENXIO, "libnvidia-ml is installed, but NVIDIA's kernel module is not loaded", "modprobe nvidia" },
	{ -ENODEV, "NVIDIA's driver is loaded but reports no GPU",
		"in a container, NVIDIA_VISIBLE_DEVICES must name a GPU" },
	{ -ELIBBAD, "NVIDIA's library and kernel module have different versions",
		"reboot, or reload the kernel module" },
	{ -EPERM, "no permission to use NVIDIA's driver",
		"get access to the device nodes nvidiactl and nvidia0" },
	{ 0, "NVML cannot be initialised", "" },
};

static void explain_open(int error, struct source_probe *ret)
{
	size_t i = 0;

	while (open_texts[i].error && open_texts[i].error != error)
		i++;
	ret->why_not = open_texts[i].why;
	ret->remedy = open_texts[i].remedy;
}

/* ---- one metric of one device ---------------------------------------------------------------- */

/* hiwater's own codes for reasons known without a call; they must differ from those of readers
 * (NVML_NONSENSE, NVML_ELSEWHERE). */
enum {
	ASLEEP = -100,
	IN_WSL = -101,
	DIVIDED = -102,
	ACCOUNTING_OFF = -103,
	NO_VALUE = -104,
	WITHHELD = -105,
};

static const struct {
	int code;
	const char *why, *remedy;
} own_texts[] = {
	{ ASLEEP, "the GPU is asleep", "hiwater reads it once another program wakes it" },
	{ IN_WSL, "WSL's driver does not report processes", "" },
	{ DIVIDED, "the GPU is divided by MIG: its instances are read instead", "" },
	{ ACCOUNTING_OFF, "the driver's accounting is off",
		"sudo nvidia-smi --accounting-mode=1, before the job" },
	{ NO_VALUE, "the driver returns no value", "" },
	{ WITHHELD, NVML_WITHHELD, "" },
};

static void explain(enum metric metric, int code, struct source_probe *ret)
{
	ret->why_not = nvml_code(code)->why;
	ret->remedy = nvml_code(code)->remedy;
	for (size_t i = 0; i < sizeof(own_texts) / sizeof(own_texts[0]); i++) {
		if (own_texts[i].code == code) {
			ret->why_not = own_texts[i].why;
			ret->remedy = own_texts[i].remedy;
		}
	}
	if (nvml_code(code)->meaning == NVML_ABSENT && nvml_gpm_has_metric(metric) && !nvml_row_of(metric))
		ret->remedy =
			"Hopper and newer support it; on older data-center cards, run a DCGM host engine (nv-hostengine)";
}

/* Availability of a metric on d: NVML_SUCCESS, else the code of the reason. */
typedef int availability(const struct source *s, const struct nvml_gpu *d, enum metric metric);

static int of_row(const struct source *s, const struct nvml_gpu *d, enum metric metric)
{
	const struct nvml_row *row = nvml_row_of(metric);
	int code = row ? d->tries[row - nvml_rows].code : d->gpm.code;

	(void) s;
	if (d->reported[metric] == REPORTED_KNOWN)
		return NVML_SUCCESS;
	if (nvml_is_withheld(d, metric, code))
		return WITHHELD;
	if (d->rejected[metric] & 1u << NVML_REJECTED_FIGURE)
		return NVML_NONSENSE;
	return code == NVML_SUCCESS || code == NVML_ELSEWHERE ? NO_VALUE : code;
}

static int of_lists(const struct source *s, const struct nvml_gpu *d, enum metric metric)
{
	(void) metric;
	return s->is_wsl ? IN_WSL : d->mig ? DIVIDED
					   : d->processes.list_code;
}

static int of_use(const struct source *s, const struct nvml_gpu *d, enum metric metric)
{
	int code = of_lists(s, d, metric);

	if (code != NVML_SUCCESS)
		return code;
	return d->processes.use_absent ? d->processes.use_code : NVML_SUCCESS;
}

static int of_accounting(const struct source *s, const struct nvml_gpu *d, enum metric metric)
{
	(void) s;
	(void) metric;
	return d->processes.accounting ? NVML_SUCCESS : ACCOUNTING_OFF;
}

static int of_events(const struct source *s, const struct nvml_gpu *d, enum metric metric)
{
	(void) metric;
	return s->event_code != NVML_SUCCESS ? s->event_code : d->event_code;
}

static const struct probed {
	enum metric metric;
	availability *check;
	const char *how;
} others[] = {
	{ M_GPU_GRAPHICS_ACTIVE, of_row, "GPM, between two samples" },
	{ M_GPU_SM_ACTIVE, of_row, "GPM, between two samples" },
	{ M_GPU_SM_OCCUPANCY, of_row, "GPM, between two samples" },
	{ M_GPU_TENSOR_ACTIVE, of_row, "GPM, between two samples" },
	{ M_GPU_FP64_ACTIVE, of_row, "GPM, between two samples" },
	{ M_GPU_FP32_ACTIVE, of_row, "GPM, between two samples" },
	{ M_GPU_FP16_ACTIVE, of_row, "GPM, between two samples" },
	{ M_GPU_DRAM_ACTIVE, of_row, "GPM, between two samples" },
	{ M_GPU_PROCESSES, of_lists, "the driver's process lists" },
	{ M_GPU_XID, of_events, "NVML's event set" },
	{ M_GPROC_MEM, of_lists, "the driver's process lists, compute, graphics and MPS merged" },
	{ M_GPROC_MEM_PEAK, of_accounting, "the driver's accounting" },
	{ M_GPROC_SM_BUSY, of_use, "the driver's samples of processes" },
	{ M_GPROC_MEM_BUSY, of_use, "the driver's samples of processes" },
	{ M_GPROC_ENC_BUSY, of_use, "the driver's samples of processes" },
	{ M_GPROC_DEC_BUSY, of_use, "the driver's samples of processes" },
};

/* ---- all metrics ----------------------------------------------------------------------------- */

struct prober {
	const struct source *s; /* NULL: NVML could not be opened */
	int error;
	source_probe_fn *report;
	void *ctx;
};

/* The way in use on the first device that reports the row; else the preferred one. */
static const char *row_how(const struct source *s, const struct nvml_row *row)
{
	for (size_t i = 0; s && i < s->n_gpus; i++) {
		if (s->gpus[i]->reported[row->metrics[0]] == REPORTED_KNOWN)
			return row->ways[s->gpus[i]->tries[row - nvml_rows].way].how;
	}
	return row->ways[0].how;
}

static void probe(const struct prober *p, enum metric metric, availability *check, const char *how)
{
	struct source_probe probe = { .metric = metric, .how = how, .why_not = "", .remedy = "" };
	int code = NO_VALUE;

	for (size_t i = 0; p->s && !probe.available && i < p->s->n_gpus; i++) {
		const struct nvml_gpu *d = p->s->gpus[i];
		int now = d->state == NVML_AWAKE    ? check(p->s, d, metric)
			  : d->state == NVML_ASLEEP ? ASLEEP
						    : d->lost_code;

		probe.available = now == NVML_SUCCESS;
		if (code == NO_VALUE)
			code = now;
	}
	if (!p->s)
		explain_open(p->error, &probe);
	else if (!probe.available)
		explain(metric, code, &probe);
	p->report(p->ctx, &probe);
}

static void probe_all(const struct prober *p)
{
	for (size_t i = 0; i < nvml_n_rows; i++) {
		for (unsigned m = 0; m < nvml_rows[i].n; m++)
			probe(p, nvml_rows[i].metrics[m], of_row, row_how(p->s, &nvml_rows[i]));
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		probe(p, others[i].metric, others[i].check, others[i].how);
}

static bool any_gpm(const struct source *s)
{
	for (size_t i = 0; i < s->n_gpus; i++) {
		if (s->gpus[i]->gpm.supported)
			return true;
	}
	return false;
}

void nvml_probe(const struct source_env *env, source_probe_fn *report, void *ctx)
{
	const struct timespec pair = { .tv_nsec = GPM_PAIR_NS };
	struct prober p = { .report = report, .ctx = ctx };
	struct framebuf out = { 0 };
	struct source *s = NULL;

	p.error = source_nvml.open(env, &s, NULL);
	if (p.error == 0) {
		p.s = s;
		source_try(&source_nvml, env, s, &out);
		if (any_gpm(s))
			(void) nanosleep(&pair, NULL);
		source_try(&source_nvml, env, s, &out);
		for (unsigned g = 0; env->costs && g < NVML_GROUPS; g++)
			env->costs[g].devices = nvml_gpus_count(s);
	}
	probe_all(&p);
	framebuf_done(&out);
	source_nvml.close(s);
}

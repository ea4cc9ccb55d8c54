/* SPDX-License-Identifier: MIT
 *
 * Figures of a device by name, and the processes on it.
 */
#include <stdio.h>
#include <string.h>

#include "sink/gpus/gpus_internal.h"

/* ---- processes --------------------------------------------------------------------------------------------------- */

static bool is_hidden(const struct gpu_user_now *u)
{
	return !u->pid.known || (!u->uid.known && !*u->name);
}

/* Larger memory first, then the older process. */
static bool is_before(const struct gpu_user_now *a, const struct gpu_user_now *b)
{
	const struct maybe x = a->metrics[M_GPROC_MEM], y = b->metrics[M_GPROC_MEM];

	if (x.known != y.known)
		return x.known;
	return x.value == y.value ? a->id < b->id : x.value > y.value;
}

const struct gpu_user_now *gpus_next_user(
	const struct gpus_now *now, const struct gpu_now *gpu, const struct gpu_user_now *user, bool hidden)
{
	const struct gpu_user_now *next = NULL;

	for (size_t i = 0; i < now->n_users; i++) {
		const struct gpu_user_now *u = &now->users[i];

		if (u->gpu == gpu->id && is_hidden(u) == hidden && (!user || is_before(user, u)) &&
			(!next || is_before(u, next)))
			next = u;
	}
	return next;
}

/* Without the device's total, the sum over invisible processes that the driver lists. */
struct maybe gpus_unattributed(const struct gpus_now *now, const struct gpu_now *gpu)
{
	struct maybe sum = known(0);

	if (gpu->metrics[M_GPU_UNATTRIBUTED_MEM].known)
		return gpu->metrics[M_GPU_UNATTRIBUTED_MEM];
	for (const struct gpu_user_now *u = NULL; (u = gpus_next_user(now, gpu, u, true));)
		sum = maybe_sum(sum, u->metrics[M_GPROC_MEM]);
	return sum;
}

static const char *write_number(struct maybe number, char *text, size_t size)
{
	(void) snprintf(text, size, number.known ? "%lld" : "?", (long long) number.value);
	return text;
}

char *gpus_number(const struct gpu_now *gpu, char buf[UNITS_LEN])
{
	char whole[UNITS_LEN / 2 - 1], part[UNITS_LEN / 2];

	(void) snprintf(buf, UNITS_LEN, "%s%s%s", write_number(gpu->number, whole, sizeof(whole)),
		*gpu->parent ? "." : "", *gpu->parent ? write_number(gpu->index, part, sizeof(part)) : "");
	return buf;
}

/* ---- figures that are not metrics ---------------------------------------------------------------------------------------------- */

static struct maybe get_cuda(const struct gpus_now *now, const struct gpu_now *gpu)
{
	(void) now;
	return gpu->visible;
}

static struct maybe get_total(const struct gpus_now *now, const struct gpu_now *gpu)
{
	(void) now;
	return gpu->memory_bytes;
}

static struct maybe get_share(const struct gpus_now *now, const struct gpu_now *gpu)
{
	const struct maybe used = gpu->metrics[M_GPU_MEM], all = gpu->memory_bytes;

	(void) now;
	if (!used.known || !all.known || all.value <= 0)
		return UNKNOWN;
	return known((int64_t) ((double) used.value / (double) all.value * 1e6 + 0.5));
}

static struct maybe get_lead(const struct gpus_now *now, const struct gpu_now *gpu)
{
	const enum metric lead = gpu_now_lead(gpu);

	(void) now;
	return lead == METRIC_COUNT ? UNKNOWN : gpu->metrics[lead];
}

static const char *text_lead(const struct gpu_now *gpu)
{
	const enum metric lead = gpu_now_lead(gpu);

	return lead == METRIC_COUNT ? "" : metrics[lead].name;
}

static const char *text_uuid(const struct gpu_now *gpu)
{
	return gpu->uuid;
}

static const char *text_name(const struct gpu_now *gpu)
{
	return gpu->name;
}

static const char *text_vendor(const struct gpu_now *gpu)
{
	return gpu->vendor;
}

static const char *text_pci(const struct gpu_now *gpu)
{
	return gpu->pci;
}

static const char *text_parent(const struct gpu_now *gpu)
{
	return gpu->parent;
}

static const char *text_driver(const struct gpu_now *gpu)
{
	return gpu->driver;
}

/* ---- the table ------------------------------------------------------------------------------------------------------ */

#define METRIC(word, column, unit, metric, sentence) \
	{ word, column, sentence, UNIT_##unit, metric, NULL, NULL }
#define NUMBER(word, column, unit, get, sentence) \
	{ word, column, sentence, UNIT_##unit, METRIC_COUNT, get, NULL }
#define TEXT(word, column, text, sentence) { word, column, sentence, UNIT_COUNT, METRIC_COUNT, NULL, text }

const struct gpus_figure gpus_figures[] = {
	NUMBER("cuda", "cuda_index", COUNT, get_cuda, "CUDA's number for it in this environment"),
	TEXT("uuid", "uuid", text_uuid, "its UUID"),
	TEXT("name", "name", text_name, "its product name"),
	TEXT("vendor", "vendor", text_vendor, "nvidia, amd, intel"),
	TEXT("pci", "pci", text_pci, "its PCI address"),
	TEXT("parent", "parent", text_parent, "of a MIG instance: uuid of its GPU"),
	TEXT("driver", "driver", text_driver, "version of its driver"),
	METRIC("temp", "temperature_c", MCEL, M_GPU_TEMP, "temperature, in degrees Celsius"),
	METRIC("temp_mem", "memory_temperature_c", MCEL, M_GPU_TEMP_MEM, "temperature of its memory"),
	NUMBER("util", "utilization_ratio", PPM, get_lead,
		"sm where available, else gract, else busy; util_kind says which"),
	TEXT("util_kind", "utilization_kind", text_lead, "sm_active, graphics_active or busy"),
	METRIC("busy", "busy_ratio", PPM, M_GPU_BUSY, "share of time in which some kernel ran"),
	METRIC("mem_busy", "memory_busy_ratio", PPM, M_GPU_MEM_BUSY,
		"share of time in which its memory was read or written"),
	METRIC("gract", "graphics_active_ratio", PPM, M_GPU_GRAPHICS_ACTIVE,
		"share of time in which the compute engine was active"),
	METRIC("sm", "sm_active_ratio", PPM, M_GPU_SM_ACTIVE,
		"share of time in which an SM had work, mean over the SMs"),
	METRIC("occupancy", "sm_occupancy_ratio", PPM, M_GPU_SM_OCCUPANCY,
		"resident warps, as a share of the SMs' maximum"),
	METRIC("tensor", "tensor_active_ratio", PPM, M_GPU_TENSOR_ACTIVE,
		"share of time in which the tensor cores worked"),
	METRIC("dram", "dram_active_ratio", PPM, M_GPU_DRAM_ACTIVE, "share of the memory's bandwidth in use"),
	METRIC("enc", "encoder_busy_ratio", PPM, M_GPU_ENC_BUSY, "share of time in which the encoder worked"),
	METRIC("dec", "decoder_busy_ratio", PPM, M_GPU_DEC_BUSY, "share of time in which the decoder worked"),
	METRIC("mem", "memory_used_bytes", BYTES, M_GPU_MEM, "memory in use by all processes"),
	NUMBER("mem_total", "memory_total_bytes", BYTES, get_total, "total memory"),
	METRIC("mem_free", "memory_free_bytes", BYTES, M_GPU_MEM_FREE, "free memory"),
	METRIC("mem_reserved", "memory_reserved_bytes", BYTES, M_GPU_MEM_RESERVED,
		"memory reserved by the driver"),
	NUMBER("mem_share", "memory_used_ratio", PPM, get_share, "mem as a share of mem_total"),
	METRIC("power", "power_w", UW, M_GPU_POWER, "power drawn, in watts"),
	METRIC("power_limit", "power_limit_w", UW, M_GPU_POWER_LIMIT, "power limit in force, in watts"),
	METRIC("energy", "energy_j", UJ, M_GPU_ENERGY, "energy used, as the driver counts it, in joules"),
	METRIC("clock", "clock_sm_hz", HZ, M_GPU_CLOCK_SM, "clock of the SMs, in MHz"),
	METRIC("clock_mem", "clock_memory_hz", HZ, M_GPU_CLOCK_MEM, "clock of the memory, in MHz"),
	METRIC("pstate", "performance_state", COUNT, M_GPU_PSTATE, "performance state: 0 is the fastest"),
	METRIC("fan", "fan_ratio", PPM, M_GPU_FAN, "fan speed, as a share of the fastest"),
	METRIC("processes", "processes", COUNT, M_GPU_PROCESSES, "number of processes on it"),
};

const size_t gpus_n_figures = sizeof(gpus_figures) / sizeof(gpus_figures[0]);

struct maybe gpus_figure_get(
	const struct gpus_figure *f, const struct gpus_now *now, const struct gpu_now *gpu)
{
	if (f->text)
		return UNKNOWN;
	return f->get ? f->get(now, gpu) : gpu->metrics[f->metric];
}

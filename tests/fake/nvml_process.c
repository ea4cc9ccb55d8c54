// SPDX-License-Identifier: MIT
/* Processes on a device: the lists, their utilisation, the driver's accounting. */
#include "nvml_fake.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MOST_ROWS = 1024
}; /* of one device */

static int number(const struct fake_item *process, const char *key, double t, double *ret)
{
	const struct fake_key *found = fake_bag_find(&process->bag, key);

	return found ? fake_value_at(&found->value, t, ret) : NVML_NOT_SUPPORTED;
}

/* Bytes; all ones if unknown. */
static uint64_t bytes(const struct fake_item *process, const char *key, double t)
{
	double x = 0;

	return number(process, key, t, &x) == 0 ? (uint64_t) llround(x) : UINT64_MAX;
}

static uint32_t percent(const struct fake_item *process, const char *key, double t)
{
	return (uint32_t) fake_bag_number(&process->bag, key, t, 0);
}

/* Does the process belong to the device? A divided device has those of all instances. */
static bool is_on(const struct fake_item *process, const struct fake_gpu *gpu)
{
	return process->gpu == gpu || process->gpu->parent == gpu;
}

/* An instance of the process, or all ones. */
static uint32_t instance(const struct fake_item *process, const char *key, double t)
{
	double otherwise = process->gpu->parent ? fake_bag_number(&process->gpu->bag, key, t, UINT32_MAX)
						: UINT32_MAX;

	return (uint32_t) fake_bag_number(&process->bag, key, t, otherwise);
}

/* Copies one row into the caller's array with the C library's memcpy, so that a sanitizer in the
 * caller detects a short array. */
static void row_put(void *rows, unsigned i, const void *row, size_t size)
{
	memcpy((char *) rows + i * size, row, size);
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* The processes of one list ("" is any), in full. */
static unsigned list_fill(const struct fake_gpu *gpu, const char *list, struct nvml_process_detail rows[])
{
	const struct fake_list *all = &nvml_scenario()->processes;
	double t = fake_now();
	unsigned n = 0, pid;

	for (size_t i = 0; i < all->n && n < MOST_ROWS; i++) {
		const struct fake_item *process = all->items[i];
		if (!is_on(process, gpu) || !strstr(fake_bag_text(&process->bag, "lists", "compute"), list) ||
			!fake_process_lives(process, t, &pid))
			continue;
		rows[n++] = (struct nvml_process_detail) {
			.pid = pid,
			.memory = bytes(process, "memory", t),
			.gi = instance(process, "gi", t),
			.ci = instance(process, "ci", t),
			.memory_protected = bytes(process, "memory_protected", t),
		};
	}
	return n;
}

/* A list into rows of stride bytes: the first 16, 24 or all 32 bytes of each process. */
static int list_get(const char *call, const struct fake_gpu *gpu, const char *list, size_t stride,
	unsigned *n, void *rows)
{
	struct nvml_process_detail found[MOST_ROWS];
	int code = nvml_enter(call, gpu);
	unsigned capacity, count;

	if (code != 0 || !n)
		return code ?: NVML_INVALID_ARGUMENT;
	capacity = rows ? *n : 0;
	count = list_fill(gpu, list, found);
	*n = count;
	if (count > capacity)
		return NVML_INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < count; i++)
		row_put(rows, i, (const char *) &found[i], stride);
	return NVML_SUCCESS;
}

/* 535.43 to 535.86 write the longer struct under the name of _v3. */
static size_t v3_stride(void)
{
	return nvml_level == 535043 ? sizeof(struct nvml_process_detail) : sizeof(struct nvml_process_v2);
}

#define LIST(name, list) \
	EXPORT int nvmlDeviceGet##name(struct fake_gpu *gpu, unsigned *n, void *rows) \
	{ \
		return list_get(__func__, gpu, list, sizeof(struct nvml_process_v1), n, rows); \
	} \
	EXPORT int nvmlDeviceGet##name##_v2(struct fake_gpu *gpu, unsigned *n, void *rows) \
	{ \
		return list_get(__func__, gpu, list, sizeof(struct nvml_process_v2), n, rows); \
	} \
	EXPORT int nvmlDeviceGet##name##_v3(struct fake_gpu *gpu, unsigned *n, void *rows) \
	{ \
		return list_get(__func__, gpu, list, v3_stride(), n, rows); \
	}

LIST(ComputeRunningProcesses, "compute")
LIST(GraphicsRunningProcesses, "graphics")
LIST(MPSComputeRunningProcesses, "mps")

EXPORT int nvmlDeviceGetRunningProcessDetailList(struct fake_gpu *gpu, struct nvml_detail_list *list)
{
	static const char *const names[] = { "compute", "graphics", "mps", "" };
	unsigned modes = nvml_level >= 610000 ? 4 : 3;
	int code = NVML_INVALID_ARGUMENT;

	if (list && list->version != NVML_VERSION(nvml_detail_list, 1))
		code = NVML_ARGUMENT_VERSION_MISMATCH;
	else if (list && list->mode < modes)
		return list_get(__func__, gpu, names[list->mode], sizeof(struct nvml_process_detail),
			&list->n, list->rows);
	return nvml_enter(__func__, gpu) ?: code;
}

/* ---- utilisation ----------------------------------------------------------------------------- */

/* When the driver last took a sample before t. */
static double sampled(const struct fake_gpu *gpu, double t)
{
	double interval = fake_bag_number(&gpu->bag, "sample_interval", t, 0.1);

	return floor(t / interval) * interval;
}

static bool has_util(const struct fake_item *process)
{
	return fake_bag_find(&process->bag, "sm") || fake_bag_find(&process->bag, "mem") ||
	       fake_bag_find(&process->bag, "enc") || fake_bag_find(&process->bag, "dec");
}

/* A row for each process with figures, all of the last sample; none if it is not newer than
 * last_seen. Returns a code: NOT_SUPPORTED if no process ever has figures. */
static int util_fill(
	const struct fake_gpu *gpu, uint64_t last_seen, struct nvml_process_util rows[], unsigned *ret_n)
{
	const struct fake_list *all = &nvml_scenario()->processes;
	double t = sampled(gpu, fake_now());
	bool is_supported = false;
	unsigned n = 0, pid;

	for (size_t i = 0; i < all->n && n < MOST_ROWS; i++) {
		const struct fake_item *process = all->items[i];
		if (!is_on(process, gpu) || !has_util(process))
			continue;
		is_supported = true;
		if (fake_stamp(t) <= last_seen || !fake_process_lives(process, t, &pid))
			continue;
		rows[n++] = (struct nvml_process_util) {
			.stamp = fake_stamp(t + fake_bag_number(&process->bag, "ahead", t, 0)),
			.pid = pid,
			.sm = percent(process, "sm", t),
			.mem = percent(process, "mem", t),
			.enc = percent(process, "enc", t),
			.dec = percent(process, "dec", t),
			.jpg = percent(process, "jpg", t),
			.ofa = percent(process, "ofa", t),
		};
	}
	*ret_n = n;
	if (!is_supported)
		return NVML_NOT_SUPPORTED;
	return n == 0 ? NVML_NOT_FOUND : NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetProcessUtilization(
	struct fake_gpu *gpu, struct nvml_process_sample *rows, unsigned *n, unsigned long long last_seen)
{
	enum {
		ANNOUNCED = 100
	}; /* any list */
	struct nvml_process_util found[MOST_ROWS];
	int code = nvml_enter(__func__, gpu);
	unsigned count;

	if (code != 0 || !n)
		return code ?: NVML_INVALID_ARGUMENT;
	code = util_fill(gpu, rows ? last_seen : 0, found, &count);
	if (code == NVML_NOT_SUPPORTED)
		return code;
	if (!rows || *n < count) {
		*n = ANNOUNCED;
		return NVML_INSUFFICIENT_SIZE;
	}
	for (unsigned i = 0; i < count; i++) {
		const struct nvml_process_util *u = &found[i];
		struct nvml_process_sample row = { u->pid, 0, u->stamp, u->sm, u->mem, u->enc, u->dec };
		row_put(rows, i, &row, sizeof(row));
	}
	*n = count;
	return code;
}

EXPORT int nvmlDeviceGetProcessesUtilizationInfo(struct fake_gpu *gpu, struct nvml_processes_util *info)
{
	struct nvml_process_util found[MOST_ROWS];
	int code = nvml_enter(__func__, gpu);
	unsigned count;

	if (code != 0 || !info)
		return code ?: NVML_INVALID_ARGUMENT;
	if (info->version != NVML_VERSION(nvml_processes_util, 1))
		return NVML_ARGUMENT_VERSION_MISMATCH;
	code = util_fill(gpu, info->rows ? info->last_seen : 0, found, &count);
	if (code == NVML_NOT_SUPPORTED)
		return code;
	if (!info->rows || info->n < count) {
		info->n = count;
		return NVML_INSUFFICIENT_SIZE;
	}
	for (unsigned i = 0; i < count; i++)
		row_put(info->rows, i, &found[i], sizeof(found[i]));
	info->n = count;
	return code;
}

/* ---- accounting ------------------------------------------------------------------------------ */

static int accounting_enter(const char *call, const struct fake_gpu *gpu)
{
	int code = nvml_enter(call, gpu);

	if (code == 0 && nvml_number(gpu, "accounting_mode", 0) != 1)
		code = NVML_NOT_SUPPORTED;
	return code;
}

static bool is_accounted(const struct fake_item *process, const struct fake_gpu *gpu, double t)
{
	return process->gpu == gpu && fake_bag_find(&process->bag, "account_memory") &&
	       t >= fake_bag_number(&process->bag, "from", t, 0);
}

/* The pid, also after the process has ended. */
static unsigned pid_of(const struct fake_item *process, double t, bool *ret_is_running)
{
	double start = fake_bag_number(&process->bag, "from", t, 0);
	unsigned pid = 0;

	*ret_is_running = fake_process_lives(process, t, &pid);
	if (!*ret_is_running)
		(void) fake_process_lives(process, start, &pid);
	return pid;
}

EXPORT int nvmlDeviceGetAccountingStats(struct fake_gpu *gpu, unsigned pid, struct nvml_account *ret)
{
	const struct fake_list *all = &nvml_scenario()->processes;
	int code = accounting_enter(__func__, gpu);
	double t = fake_now(), from, until;
	bool is_running;

	if (code != 0 || !ret)
		return code ?: NVML_INVALID_ARGUMENT;
	code = NVML_NOT_FOUND;
	for (size_t i = 0; i < all->n; i++) {
		const struct fake_item *process = all->items[i];
		if (!is_accounted(process, gpu, t) || pid_of(process, t, &is_running) != pid)
			continue;
		from = fake_bag_number(&process->bag, "from", t, 0);
		until = fake_bag_number(&process->bag, "until", t, t);
		*ret = (struct nvml_account) {
			.util = percent(process, "account_util", t),
			.util_memory = percent(process, "account_util_memory", t),
			.max_memory = bytes(process, "account_memory", t),
			.time_ms = is_running ? 0 : (uint64_t) ((fmin(until, t) - from) * 1e3),
			.start_us = fake_stamp(from),
			.is_running = is_running,
		};
		code = 0; /* for a reused pid, the last to end */
	}
	return code;
}

EXPORT int nvmlDeviceGetAccountingPids(struct fake_gpu *gpu, unsigned *n, unsigned *pids)
{
	const struct fake_list *all = &nvml_scenario()->processes;
	int code = accounting_enter(__func__, gpu);
	unsigned count = 0, capacity, pid;
	bool is_running;
	double t = fake_now();

	if (code != 0 || !n)
		return code ?: NVML_INVALID_ARGUMENT;
	capacity = pids ? *n : 0;
	for (size_t i = 0; i < all->n; i++) {
		if (!is_accounted(all->items[i], gpu, t))
			continue;
		pid = pid_of(all->items[i], t, &is_running);
		if (count < capacity)
			row_put(pids, count, &pid, sizeof(pid));
		count++;
	}
	*n = count;
	return count > capacity ? NVML_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

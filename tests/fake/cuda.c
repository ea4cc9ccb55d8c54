// SPDX-License-Identifier: MIT
/*
 * A fake of CUDA's driver library with one GPU: only the calls of tests/gpu/cuda_jobs.c and hiwater
 * gpus --spec. It runs no kernel and allocates no memory: the memory that a process would use, and
 * how busy it would keep the GPU, are written into the folder HIWATER_FAKE_CUDA, where a scenario
 * of the fake NVML reads them (`file PATH`):
 *
 *     pid.N, memory.N                  of up to four processes: pid, and bytes with its context
 *     busy, sm_active, sm_occupancy    percent, of the running kernel
 *
 * Memory is allocated in units of 2 MiB, up to HIWATER_FAKE_CUDA_BYTES (8 GiB). An opened IPC
 * handle is charged only to its owner. Use after a fork ends the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

enum {
	SUCCESS = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NOT_INITIALIZED = 3,
	NO_BINARY = 209,
	INVALID_HANDLE = 400,
	SLOTS = 4,
	ALLOCATIONS = 1 << 14,
	SMS = 132,
	THREADS_SM = 2048,
};
#define UNIT    (2ULL << 20)
#define CONTEXT (520ULL << 20)

/* An allocation; its address is its index in the table, in units of 1 TiB. */
static struct {
	pid_t pid;
	int slot;             /* -1: no folder */
	uint64_t sizes[ALLOCATIONS];
	uint64_t used;
	bool context;
	double until;         /* end of the last kernel */
} the = { .slot = -1 };

static const int attributes[][2] = {
	{ 1, 1024 },
	{ 8, 49152 },
	{ 9, 65536 },
	{ 10, 32 },
	{ 12, 65536 },
	{ 16, SMS },
	{ 37, 5120 },
	{ 38, 52428800 },
	{ 39, THREADS_SM },
	{ 40, 3 },
	{ 81, 233472 },
	{ 82, 65536 },
	{ 97, 232448 },
	{ 106, 32 },
};

/* ---- output for the scenario ----------------------------------------------------------------- */

static bool path_of(const char *name, int slot, char ret[4096])
{
	const char *folder = getenv("HIWATER_FAKE_CUDA");

	if (!folder)
		return false;
	if (slot >= 0)
		snprintf(ret, 4096, "%s/%s.%d", folder, name, slot);
	else
		snprintf(ret, 4096, "%s/%s", folder, name);
	return true;
}

/* Replaces the file atomically, since it may be read at any time. */
static void publish(const char *name, int slot, double value)
{
	char path[4096], aside[4200];
	FILE *file;

	if (!path_of(name, slot, path))
		return;
	snprintf(aside, sizeof(aside), "%s.%d", path, (int) getpid());
	file = fopen(aside, "we");
	if (!file || fprintf(file, "%.0f\n", value) < 0 || fclose(file) != 0 || rename(aside, path) != 0)
		fake_die("%s: %s", path, strerror(errno));
}

static pid_t owner(const char *path)
{
	char text[32] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	return n > 0 ? (pid_t) atol(text) : 0;
}

static void take_slot(void)
{
	char path[4096], text[32];

	for (int i = 0; i < SLOTS && path_of("pid", i, path); i++) {
		const pid_t pid = owner(path);

		if (pid > 0 && (kill(pid, 0) < 0 && errno == ESRCH))
			unlink(path);
		int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

		if (fd < 0)
			continue;
		the.slot = i;
		publish("memory", i, 0);
		int n = snprintf(text, sizeof(text), "%d\n", (int) getpid());
		if (write(fd, text, (size_t) n) != n)
			fake_die("%s: %s", path, strerror(errno));
		close(fd);
		return;
	}
	if (getenv("HIWATER_FAKE_CUDA"))
		fake_die("more than %d processes", SLOTS);
}

static int ready(void)
{
	if (the.pid == 0)
		return NOT_INITIALIZED;
	if (the.pid != getpid())
		fake_die("CUDA is used in a child of who began it");
	return SUCCESS;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

/* ---- devices --------------------------------------------------------------------------------- */

EXPORT int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
	if (flags)
		return INVALID_VALUE;
	if (the.pid == 0) {
		the.pid = getpid();
		take_slot();
	}
	return ready();
}

EXPORT int cuDriverGetVersion(int *ret);
int cuDriverGetVersion(int *ret)
{
	*ret = 12040;
	return SUCCESS;
}

EXPORT int cuDeviceGetCount(int *ret);
int cuDeviceGetCount(int *ret)
{
	*ret = 1;
	return ready();
}

EXPORT int cuDeviceGet(int *ret, int ordinal);
int cuDeviceGet(int *ret, int ordinal)
{
	*ret = ordinal;
	return ready() ?: ordinal ? 101
				  : SUCCESS;
}

EXPORT int cuDeviceGetName(char *ret, int size, int device);
int cuDeviceGetName(char *ret, int size, int device)
{
	(void) device;
	snprintf(ret, (size_t) size, "NVIDIA H100 80GB HBM3");
	return ready();
}

/* GPU-80000000-0000-4000-8000-000000000000, as in scenarios/cards/h100.conf */
EXPORT int cuDeviceGetUuid(unsigned char ret[16], int device);
int cuDeviceGetUuid(unsigned char ret[16], int device)
{
	static const unsigned char uuid[16] = { 0x80, 0, 0, 0, 0, 0, 0x40, 0, 0x80 };

	(void) device;
	memcpy(ret, uuid, sizeof(uuid));
	return ready();
}

EXPORT int cuDeviceGetAttribute(int *ret, int attribute, int device);
int cuDeviceGetAttribute(int *ret, int attribute, int device)
{
	(void) device;
	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
		if (attributes[i][0] == attribute) {
			*ret = attributes[i][1];
			return ready();
		}
	}
	return INVALID_VALUE;
}

EXPORT int cuDevicePrimaryCtxRetain(void **ret, int device);
int cuDevicePrimaryCtxRetain(void **ret, int device)
{
	(void) device;
	*ret = &the;
	if (!the.context)
		the.used += CONTEXT;
	the.context = true;
	publish("memory", the.slot < 0 ? 0 : the.slot, (double) the.used);
	return ready();
}

EXPORT int cuCtxSetCurrent(void *context);
int cuCtxSetCurrent(void *context)
{
	return context == &the ? ready() : 201;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static uint64_t most(void)
{
	const char *text = getenv("HIWATER_FAKE_CUDA_BYTES");

	return text ? strtoull(text, NULL, 10) : 8ULL << 30;
}

static void tell_used(void)
{
	publish("memory", the.slot < 0 ? 0 : the.slot, (double) the.used);
}

EXPORT int cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total);
int cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total)
{
	*ret_total = most();
	*ret_free = most() - the.used;
	return ready();
}

EXPORT int cuMemAlloc_v2(uint64_t *ret, size_t bytes);
int cuMemAlloc_v2(uint64_t *ret, size_t bytes)
{
	const uint64_t size = (bytes + UNIT - 1) / UNIT * UNIT;

	if (!the.context || bytes == 0)
		return ready() ?: INVALID_VALUE;
	if (the.used + size > most())
		return OUT_OF_MEMORY;
	for (unsigned i = 1; i < ALLOCATIONS; i++) {
		if (the.sizes[i])
			continue;
		the.sizes[i] = size;
		the.used += size;
		tell_used();
		*ret = (uint64_t) i << 40;
		return ready();
	}
	return OUT_OF_MEMORY;
}

static bool is_ours(uint64_t at)
{
	return at >> 40 < ALLOCATIONS && the.sizes[at >> 40];
}

EXPORT int cuMemFree_v2(uint64_t at);
int cuMemFree_v2(uint64_t at)
{
	if (!is_ours(at))
		return INVALID_VALUE;
	the.used -= the.sizes[at >> 40];
	the.sizes[at >> 40] = 0;
	tell_used();
	return ready();
}

EXPORT int cuMemsetD8_v2(uint64_t at, unsigned char value, size_t n);
int cuMemsetD8_v2(uint64_t at, unsigned char value, size_t n)
{
	(void) value;
	return is_ours(at) && n <= the.sizes[at >> 40] ? ready() : INVALID_VALUE;
}

EXPORT int cuMemHostAlloc(void **ret, size_t bytes, unsigned flags);
int cuMemHostAlloc(void **ret, size_t bytes, unsigned flags)
{
	(void) flags;
	*ret = malloc(bytes);
	return *ret ? ready() : OUT_OF_MEMORY;
}

EXPORT int cuMemcpyHtoD_v2(uint64_t at, const void *from, size_t n);
int cuMemcpyHtoD_v2(uint64_t at, const void *from, size_t n)
{
	return from && is_ours(at) && n <= the.sizes[at >> 40] ? ready() : INVALID_VALUE;
}

EXPORT int cuMemcpyDtoH_v2(void *to, uint64_t at, size_t n);
int cuMemcpyDtoH_v2(void *to, uint64_t at, size_t n)
{
	return to && is_ours(at) && n <= the.sizes[at >> 40] ? ready() : INVALID_VALUE;
}

struct handle {
	char bytes[64];
};

EXPORT int cuIpcGetMemHandle(struct handle *ret, uint64_t at);
int cuIpcGetMemHandle(struct handle *ret, uint64_t at)
{
	memset(ret, 0, sizeof(*ret));
	snprintf(ret->bytes, sizeof(ret->bytes), "ipc %d", (int) getpid());
	return is_ours(at) ? ready() : INVALID_VALUE;
}

EXPORT int cuIpcOpenMemHandle_v2(uint64_t *ret, struct handle handle, unsigned flags);
int cuIpcOpenMemHandle_v2(uint64_t *ret, struct handle handle, unsigned flags)
{
	const bool is_one = strncmp(handle.bytes, "ipc ", 4) == 0 && atol(handle.bytes + 4) != getpid();

	*ret = (uint64_t) ALLOCATIONS << 40;
	return is_one && flags == 1 ? ready() : INVALID_HANDLE;
}

EXPORT int cuIpcCloseMemHandle(uint64_t at);
int cuIpcCloseMemHandle(uint64_t at)
{
	return at == (uint64_t) ALLOCATIONS << 40 ? ready() : INVALID_VALUE;
}

/* ---- kernels --------------------------------------------------------------------------------- */

EXPORT int cuModuleLoadData(void **ret, const void *text);
int cuModuleLoadData(void **ret, const void *text)
{
	if (strncmp(text, ".version ", 9) != 0 || !strstr(text, ".entry square(") ||
		!strstr(text, "%globaltimer"))
		return NO_BINARY;
	*ret = (void *) (uintptr_t) text;
	return ready();
}

EXPORT int cuModuleGetFunction(void **ret, void *module, const char *name);
int cuModuleGetFunction(void **ret, void *module, const char *name)
{
	*ret = module;
	return strcmp(name, "square") == 0 ? ready() : 500;
}

static double percent(double part, double whole)
{
	return part >= whole ? 100 : 100 * part / whole;
}

/* parameters: output address, and duration in ns. */
EXPORT int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
	unsigned bz, unsigned shared, void *stream, void **parameters, void **extra);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
	unsigned bz, unsigned shared, void *stream, void **parameters, void **extra)
{
	const double threads = (double) gx * bx, now = seconds();
	const bool is_one = function && gx && bx && gy == 1 && gz == 1 && by == 1 && bz == 1 && !shared &&
			    !stream && !extra;

	if (!is_one || bx > 1024 || !is_ours(*(uint64_t *) parameters[0]))
		return INVALID_VALUE;
	the.until = (the.until > now ? the.until : now) + (double) *(uint64_t *) parameters[1] / 1e9;
	publish("busy", -1, 100);
	publish("sm_active", -1, percent(gx, SMS));
	publish("sm_occupancy", -1, percent(threads < 32 ? 32 : threads, (double) SMS * THREADS_SM));
	return ready();
}

EXPORT int cuCtxSynchronize(void);
int cuCtxSynchronize(void)
{
	const double rest = the.until - seconds();

	if (rest > 0)
		usleep((useconds_t) (rest * 1e6));
	return ready();
}

EXPORT int cuGetErrorName(int code, const char **ret);
int cuGetErrorName(int code, const char **ret)
{
	*ret = code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : code == SUCCESS ? "CUDA_SUCCESS"
										    : "CUDA_ERROR";
	return SUCCESS;
}

/* A process that exits leaves no kernel running. */
__attribute__((destructor)) static void end(void)
{
	if (the.pid == getpid() && the.until > 0) {
		publish("busy", -1, 0);
		publish("sm_active", -1, 0);
		publish("sm_occupancy", -1, 0);
	}
}

// SPDX-License-Identifier: MIT
/* Init and shutdown, system-wide facts, handles. */
#include "nvml_fake.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_scenario scenario;
static int references; /* Init calls; guarded by the lock, read without it */
static pid_t owner;

struct fake_scenario *nvml_scenario(void)
{
	return &scenario;
}

/* ---- before each call ------------------------------------------------------------------------ */

static bool is_handle(const struct fake_gpu *gpu)
{
	for (size_t i = 0; i < scenario.n_gpus; i++) {
		if (scenario.gpus[i] == gpu)
			return true;
	}
	for (size_t i = 0; i < scenario.n_migs; i++) {
		if (scenario.migs[i] == gpu)
			return true;
	}
	return false;
}

/* The code of every call on a device by its state. */
static int device_state(const struct fake_gpu *gpu)
{
	const struct fake_gpu *whole = gpu->parent ? gpu->parent : gpu;
	double t = fake_now();

	if (t >= fake_bag_number(&whole->bag, "lost", t, t + 1))
		return NVML_GPU_IS_LOST;
	if (t < fake_bag_number(&gpu->bag, "from", t, t) ||
		t >= fake_bag_number(&gpu->bag, "until", t, t + 1))
		return NVML_INVALID_ARGUMENT;
	return NVML_SUCCESS;
}

int nvml_enter(const char *call, const struct fake_gpu *gpu)
{
	int code;

	if (__atomic_load_n(&references, __ATOMIC_ACQUIRE) == 0)
		return NVML_UNINITIALIZED;
	if (getpid() != owner)
		fake_die("%s: called in a child of the process that called nvmlInit", call);
	if (gpu && !is_handle(gpu))
		fake_die("%s: %p is no handle of a device", call, (const void *) gpu);
	code = fake_call(&scenario, call, gpu);
	return code == 0 && gpu ? device_state(gpu) : code;
}

/* ---- init ------------------------------------------------------------------------------------ */

/* Touches every page, in small pages, so that the kernel has memory to release when the process
 * exits. */
static void take_memory(size_t bytes)
{
	static char *taken;

	if (bytes == 0)
		return;
	taken = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (taken == MAP_FAILED)
		fake_die("no memory: %zu bytes", bytes);
	(void) madvise(taken, bytes, MADV_NOHUGEPAGE);
	memset(taken, 1, bytes);
}

static void load(void)
{
	const char *path = getenv("HIWATER_FAKE_NVML"), *level;

	fake_scenario_load(&scenario, path ? path : FAKE_SCENARIOS "/default.conf");
	level = fake_bag_text(&scenario.driver, "level", nvml_level_name);
	if (path && strcmp(level, nvml_level_name) != 0)
		fake_die(
			"%s: this is for the library of driver %s, not for %s", path, level, nvml_level_name);
	fake_clock_start(&scenario);
	take_memory((size_t) fake_bag_number(&scenario.driver, "resident", 0, 0));
}

static int init(const char *call)
{
	int code;

	pthread_mutex_lock(&lock);
	if (!scenario.path)
		load();
	if (references > 0 && getpid() != owner)
		fake_die("%s: called in a child of the process that called it before", call);
	owner = getpid();
	code = fake_call(&scenario, call, NULL);
	if (code == 0)
		__atomic_add_fetch(&references, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lock);
	return code;
}

EXPORT int nvmlInit(void)
{
	return init(__func__);
}

EXPORT int nvmlInit_v2(void)
{
	return init(__func__);
}

EXPORT int nvmlInitWithFlags(unsigned flags)
{
	(void) flags;
	return init(__func__);
}

EXPORT int nvmlShutdown(void)
{
	int code = nvml_enter(__func__, NULL);

	if (code == 0)
		__atomic_sub_fetch(&references, 1, __ATOMIC_RELEASE);
	return code;
}

EXPORT const char *nvmlErrorString(int code)
{
	static const char *const texts[] = {
		[0] = "Success",
		[1] = "Uninitialized",
		[2] = "Invalid Argument",
		[3] = "Not Supported",
		[4] = "Insufficient Permissions",
		[5] = "Already Initialized",
		[6] = "Not Found",
		[7] = "Insufficient Size",
		[8] = "Insufficient External Power",
		[9] = "Driver Not Loaded",
		[10] = "Timeout",
		[11] = "Interrupt Request Issue",
		[12] = "NVML Shared Library Not Found",
		[13] = "Function Not Found",
		[14] = "Corrupted infoROM",
		[15] = "GPU is lost",
		[16] = "GPU requires reset",
		[17] = "GPU access blocked by the operating system",
		[18] = "Driver/library version mismatch",
		[19] = "In use by another client",
		[20] = "Insufficient Memory",
		[21] = "No data",
		[25] = "Argument version mismatch",
		[27] = "Not ready",
	};

	return code >= 0 && (size_t) code < sizeof(texts) / sizeof(texts[0]) && texts[code] ? texts[code]
											    : "Unknown Error";
}

/* ---- figures --------------------------------------------------------------------------------- */

int nvml_figure_at(const struct fake_gpu *gpu, const char *key, double t, double *ret)
{
	return fake_figure(&scenario, gpu, key, t, ret);
}

int nvml_figure(const struct fake_gpu *gpu, const char *key, double *ret)
{
	double t = fake_now(), refresh = fake_bag_number(&gpu->bag, "refresh", t, 0);

	return nvml_figure_at(gpu, key, refresh > 0 ? floor(t / refresh) * refresh : t, ret);
}

int nvml_u64(const struct fake_gpu *gpu, const char *key, uint64_t *ret)
{
	double x = 0;
	int code = ret ? nvml_figure(gpu, key, &x) : NVML_INVALID_ARGUMENT;

	if (code == FAKE_UNKNOWN)
		*ret = UINT64_MAX;
	else if (code == 0)
		*ret = (uint64_t) llround(x);
	return code == FAKE_UNKNOWN ? 0 : code;
}

int nvml_u32(const struct fake_gpu *gpu, const char *key, uint32_t *ret)
{
	uint64_t x;
	int code = ret ? nvml_u64(gpu, key, &x) : NVML_INVALID_ARGUMENT;

	if (code == 0)
		*ret = (uint32_t) x;
	return code;
}

uint64_t nvml_number(const struct fake_gpu *gpu, const char *key, uint64_t otherwise)
{
	(void) nvml_u64(gpu, key, &otherwise);
	return otherwise;
}

int nvml_text(const char *text, char *ret, unsigned size)
{
	if (!ret)
		return NVML_INVALID_ARGUMENT;
	if (!text)
		return NVML_NOT_SUPPORTED;
	if (strlen(text) >= size)
		return NVML_INSUFFICIENT_SIZE;
	memcpy(ret, text, strlen(text) + 1);
	return NVML_SUCCESS;
}

/* ---- the system ------------------------------------------------------------------------------ */

EXPORT int nvmlSystemGetDriverVersion(char *ret, unsigned size)
{
	return nvml_enter(__func__, NULL)
		       ?: nvml_text(fake_bag_text(&scenario.driver, "version", nvml_level_version), ret, size);
}

EXPORT int nvmlSystemGetNVMLVersion(char *ret, unsigned size)
{
	char made[80];

	snprintf(made, sizeof(made), "12.%s", fake_bag_text(&scenario.driver, "version", nvml_level_version));
	return nvml_enter(__func__, NULL)
		       ?: nvml_text(fake_bag_text(&scenario.driver, "nvml", made), ret, size);
}

static int cuda_get(int *ret)
{
	if (!ret)
		return NVML_INVALID_ARGUMENT;
	*ret = (int) fake_bag_number(&scenario.driver, "cuda", 0, 12000);
	return NVML_SUCCESS;
}

EXPORT int nvmlSystemGetCudaDriverVersion(int *ret)
{
	return nvml_enter(__func__, NULL) ?: cuda_get(ret);
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *ret)
{
	return nvml_enter(__func__, NULL) ?: cuda_get(ret);
}

EXPORT int nvmlSystemGetDriverBranch(struct nvml_versioned *info, unsigned size)
{
	(void) info;
	(void) size;
	return nvml_enter(__func__, NULL) ?: NVML_NOT_SUPPORTED;
}

/* ---- handles --------------------------------------------------------------------------------- */

static int count_get(unsigned *ret)
{
	if (!ret)
		return NVML_INVALID_ARGUMENT;
	*ret = (unsigned) scenario.n_gpus;
	return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetCount(unsigned *ret)
{
	return nvml_enter(__func__, NULL) ?: count_get(ret);
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *ret)
{
	return nvml_enter(__func__, NULL) ?: count_get(ret);
}

/* Returns the device if the call on it may succeed. */
static int handle_get(const char *call, struct fake_gpu *gpu, int otherwise, struct fake_gpu **ret)
{
	int code = nvml_enter(call, gpu);

	if (code != 0)
		return code;
	if (!gpu || !ret)
		return otherwise;
	*ret = gpu;
	return NVML_SUCCESS;
}

static struct fake_gpu *by_index(unsigned index)
{
	return index < scenario.n_gpus ? scenario.gpus[index] : NULL;
}

EXPORT int nvmlDeviceGetHandleByIndex(unsigned index, struct fake_gpu **ret)
{
	return handle_get(__func__, by_index(index), NVML_INVALID_ARGUMENT, ret);
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct fake_gpu **ret)
{
	return handle_get(__func__, by_index(index), NVML_INVALID_ARGUMENT, ret);
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, struct fake_gpu **ret)
{
	struct fake_gpu *found = NULL;

	for (size_t i = 0; uuid && i < scenario.n_gpus + scenario.n_migs; i++) {
		struct fake_gpu *gpu = i < scenario.n_gpus ? scenario.gpus[i]
							   : scenario.migs[i - scenario.n_gpus];
		if (strcmp(nvml_uuid(gpu), uuid) == 0)
			found = gpu;
	}
	return handle_get(__func__, found, uuid ? NVML_NOT_FOUND : NVML_INVALID_ARGUMENT, ret);
}

/* Domains have four or eight digits. */
static struct fake_gpu *by_pci(const char *wanted)
{
	for (size_t i = 0; wanted && i < scenario.n_gpus; i++) {
		const char *pci = fake_bag_text(&scenario.gpus[i]->bag, "pci", "");
		size_t skip = strlen(pci) > strlen(wanted) ? strlen(pci) - strlen(wanted) : 0;
		if (strcasecmp(pci + skip, wanted) == 0)
			return scenario.gpus[i];
	}
	return NULL;
}

EXPORT int nvmlDeviceGetHandleByPciBusId(const char *pci, struct fake_gpu **ret)
{
	return handle_get(__func__, by_pci(pci), pci ? NVML_NOT_FOUND : NVML_INVALID_ARGUMENT, ret);
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, struct fake_gpu **ret)
{
	return handle_get(__func__, by_pci(pci), pci ? NVML_NOT_FOUND : NVML_INVALID_ARGUMENT, ret);
}

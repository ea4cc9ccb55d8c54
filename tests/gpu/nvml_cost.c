/* SPDX-License-Identifier: MIT
 *
 * Measures the cost of each call to NVIDIA's driver on this machine:
 *
 *     nvml-cost [MILLISECONDS]      time spent on each call (200)
 *
 * Prints a line of JSON per call and GPU: the number of calls, the fastest, median and slowest time
 * in ns, and the return code. The two calls of a pair of GPM samples are measured separately.
 * HIWATER_NVML names another library.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	ROUNDS = 1 << 16,
	ROOM = 1 << 16,
	GPM_METRICS = 477,
	ROWS = 1024,
};

/* Parameters of a call. */
enum shape {
	ONE,        /* (device, any *) */
	TWO,        /* (device, unsigned *, unsigned *) */
	WHICH,      /* (device, int, unsigned *) */
	MEMORY_V2,  /* (device, struct that begins with 0x02000028) */
	LIST,       /* (device, unsigned *n, rows) */
	USE,        /* (device, rows, unsigned *n, uint64_t since) */
	SAMPLES,    /* (device, int, uint64_t since, int *type, unsigned *n, rows) */
	FIELDS,     /* (device, int n, fields) */
	ECC,        /* (device, int, int, uint64_t *) */
};

static const struct {
	const char *name;
	enum shape shape;
} calls[] = {
	{ "nvmlDeviceGetMemoryInfo_v2", MEMORY_V2 },
	{ "nvmlDeviceGetMemoryInfo", ONE },
	{ "nvmlDeviceGetUtilizationRates", ONE },
	{ "nvmlDeviceGetPowerUsage", ONE },
	{ "nvmlDeviceGetTotalEnergyConsumption", ONE },
	{ "nvmlDeviceGetEnforcedPowerLimit", ONE },
	{ "nvmlDeviceGetFanSpeed", ONE },
	{ "nvmlDeviceGetPerformanceState", ONE },
	{ "nvmlDeviceGetCurrentClocksEventReasons", ONE },
	{ "nvmlDeviceGetTemperature", WHICH },
	{ "nvmlDeviceGetClockInfo", WHICH },
	{ "nvmlDeviceGetPcieThroughput", WHICH },
	{ "nvmlDeviceGetEncoderUtilization", TWO },
	{ "nvmlDeviceGetMigMode", TWO },
	{ "nvmlDeviceGetTotalEccErrors", ECC },
	{ "nvmlDeviceGetSamples", SAMPLES },
	{ "nvmlDeviceGetFieldValues", FIELDS },
	{ "nvmlDeviceGetProcessUtilization", USE },
	{ "nvmlDeviceGetComputeRunningProcesses_v3", LIST },
	{ "nvmlDeviceGetGraphicsRunningProcesses_v3", LIST },
	{ "nvmlDeviceGetMPSComputeRunningProcesses_v3", LIST },
};

struct field {
	uint32_t id, scope;
	int64_t time_us, latency_us;
	uint32_t type, code;
	uint64_t value;
};

/* Argument of the call for GPM's metrics: 24 bytes, then rows of 40. */
struct gpm_get {
	uint32_t version, n;
	void *before, *after;
	struct {
		uint32_t id, code;
		double value;
		const char *names[3];
	} metrics[GPM_METRICS];
};

static void *library;
static uint64_t times[ROUNDS];
static char room[ROOM];

static uint64_t now_ns(void)
{
	struct timespec t;

	(void) clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}

static int call(void *f, enum shape shape, void *device)
{
	static const uint32_t ids[] = { 74, 75, 76, 77, 79, 82, 138, 139, 197, 198 };
	struct field fields[sizeof(ids) / sizeof(ids[0])];
	uint32_t words[64] = { 0x02000028 };
	unsigned n = ROWS, type;

	switch (shape) {
	case ONE:
		return ((int (*)(void *, void *)) f)(device, words);
	case MEMORY_V2:
		return ((int (*)(void *, void *)) f)(device, words);
	case TWO:
		return ((int (*)(void *, void *, void *)) f)(device, &words[0], &words[1]);
	case WHICH:
		return ((int (*)(void *, int, void *)) f)(device, 0, words);
	case LIST:
		return ((int (*)(void *, unsigned *, void *)) f)(device, &n, room);
	case USE:
		return ((int (*)(void *, void *, unsigned *, uint64_t)) f)(device, room, &n, 0);
	case SAMPLES:
		return ((int (*)(void *, int, uint64_t, unsigned *, unsigned *, void *)) f)(
			device, 1, 0, &type, &n, room);
	case FIELDS:
		memset(fields, 0, sizeof(fields));
		for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
			fields[i].id = ids[i];
		return ((int (*)(void *, int, void *)) f)(
			device, (int) (sizeof(ids) / sizeof(ids[0])), fields);
	case ECC:
		return ((int (*)(void *, int, int, void *)) f)(device, 0, 0, words);
	default:
		return -1;
	}
}

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

	return (x > y) - (x < y);
}

static void say(const char *name, unsigned gpu, int code, unsigned n)
{
	qsort(times, n, sizeof(times[0]), compare);
	(void) printf(
		"{\"call\": \"%s\", \"gpu\": %u, \"code\": %d, \"n\": %u, \"fastest_ns\": %llu, \"median_ns\": %llu, \"slowest_ns\": %llu}\n",
		name, gpu, code, n, (unsigned long long) times[0], (unsigned long long) times[n / 2],
		(unsigned long long) times[n - 1]);
	(void) fflush(stdout);
}

static void measure(unsigned gpu, void *device, const char *name, enum shape shape, uint64_t span_ns)
{
	void *f = dlsym(library, name);
	const uint64_t until = now_ns() + span_ns;
	unsigned n = 0;
	int code = 0;

	if (!f)
		return;
	do {
		const uint64_t began = now_ns();

		code = call(f, shape, device);
		times[n++] = now_ns() - began;
	} while (now_ns() < until && n < ROUNDS);
	say(name, gpu, code, n);
}

/* The two GPM calls in turn, with the twelve metrics that hiwater reads. */
static void measure_gpm(unsigned gpu, void *device, uint64_t span_ns)
{
	static const uint32_t ids[] = { 1, 2, 3, 5, 10, 11, 12, 13, 20, 21, 60, 61 };
	static uint64_t samples_ns[ROUNDS];
	static struct gpm_get get;
	int (*alloc)(void **) = (int (*)(void **)) dlsym(library, "nvmlGpmSampleAlloc");
	int (*sample)(void *, void *) = (int (*)(void *, void *)) dlsym(library, "nvmlGpmSampleGet");
	int (*metrics)(void *) = (int (*)(void *)) dlsym(library, "nvmlGpmMetricsGet");
	void *pair[2] = { NULL, NULL };
	int code = 0, sampled = 0;
	unsigned n = 0;

	if (!alloc || !sample || !metrics || alloc(&pair[0]) != 0 || alloc(&pair[1]) != 0 ||
		sample(device, pair[0]) != 0)
		return;
	const struct timespec gap = { .tv_nsec = 100000000 };

	for (uint64_t spent = 0; spent < span_ns && n < ROUNDS && n < 20; n++) {
		(void) nanosleep(&gap, NULL);
		uint64_t began = now_ns();

		sampled = sample(device, pair[(n + 1) % 2]);
		samples_ns[n] = now_ns() - began;
		get = (struct gpm_get) { .version = 1,
			.n = sizeof(ids) / sizeof(ids[0]),
			.before = pair[n % 2],
			.after = pair[(n + 1) % 2] };
		for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
			get.metrics[i].id = ids[i];
		began = now_ns();
		code = metrics(&get);
		times[n] = now_ns() - began;
		spent += times[n] + samples_ns[n];
	}
	say("nvmlGpmMetricsGet", gpu, code, n);
	memcpy(times, samples_ns, n * sizeof(times[0]));
	say("nvmlGpmSampleGet", gpu, sampled, n);
}

int main(int argc, char **argv)
{
	const char *wanted = getenv("HIWATER_NVML");
	const uint64_t span_ns = (argc > 1 ? strtoull(argv[1], NULL, 10) : 200) * 1000000;
	unsigned count = 0;

	library = dlopen(wanted && *wanted ? wanted : "libnvidia-ml.so.1", RTLD_NOW);
	if (!library) {
		(void) fprintf(stderr, "nvml-cost: no driver: %s\n", dlerror());
		return 2;
	}
	int (*init)(void) = (int (*)(void)) dlsym(library, "nvmlInit_v2");
	int (*get_count)(unsigned *) = (int (*)(unsigned *)) dlsym(library, "nvmlDeviceGetCount_v2");
	int (*by_index)(unsigned, void **) = (int (*)(unsigned, void **)) dlsym(
		library, "nvmlDeviceGetHandleByIndex_v2");

	if (!init || !get_count || !by_index || init() != 0 || get_count(&count) != 0) {
		(void) fprintf(stderr, "nvml-cost: the driver does not start\n");
		return 2;
	}
	for (unsigned gpu = 0; gpu < count; gpu++) {
		void *device = NULL;

		if (by_index(gpu, &device) != 0)
			continue;
		for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
			measure(gpu, device, calls[i].name, calls[i].shape, span_ns);
		measure_gpm(gpu, device, span_ns);
	}
	return 0;
}

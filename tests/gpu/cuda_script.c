// SPDX-License-Identifier: MIT
/*
 * A program that uses the fake driver of tests/fake/cuda_traced.c in ways whose outcome is known by
 * construction. cuda-script SCENARIO... runs them one after the other, in one process, and prints what
 * is true of them as KEY=NUMBER.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cuda_traced.h"

#define MIB      (UINT64_C(1) << 20)
#define CU(name) ((__typeof__(&name)) driver(#name))

enum {
	STREAMS = 3,
	LAUNCHES = 10000,
	MANY = 45000,
	BLOCKS = 3000,
	THREADS = 4,
	ROUNDS = 2000,
};

static const struct memory_properties on_device_1 = { .type = 1, .location = 1, .device = 1 };

static void *driver(const char *name)
{
	static void *handle;
	void *found;

	if (!handle)
		handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	found = handle ? dlsym(handle, name) : NULL;
	if (!found) {
		fprintf(stderr, "cuda-script: %s\n", dlerror());
		exit(2);
	}
	return found;
}

static void must(int code, const char *what)
{
	if (code != 0) {
		fprintf(stderr, "cuda-script: %s: error %d\n", what, code);
		exit(2);
	}
}
#define MUST(name, ...) must(CU(name)(__VA_ARGS__), #name)

static void *context(int device)
{
	static void *contexts[2];

	if (!contexts[device])
		MUST(cuCtxCreate_v2, &contexts[device], 0, device);
	MUST(cuCtxSetCurrent, contexts[device]);
	return contexts[device];
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Peak 57 MiB: 10 + 20 + 7 + 20 of the async one before 20 is freed; a pitch of 512 for 100 rows is 50 KiB. */
static void memory(void)
{
	uint64_t a, b, c, d, managed;
	size_t pitch;

	MUST(cuMemAlloc_v2, &a, 10 * MIB);
	MUST(cuMemAlloc_v2, &b, 20 * MIB);
	MUST(cuMemAllocManaged, &managed, 7 * MIB, 1);
	MUST(cuMemAllocAsync, &c, 20 * MIB, NULL);
	MUST(cuMemFreeAsync, b, NULL);
	MUST(cuMemFree_v2, c);
	MUST(cuMemAllocPitch_v2, &d, &pitch, 500, 100, 4);
	MUST(cuMemFree_v2, managed);
	MUST(cuMemFree_v2, 0);
	printf("peak=%llu\nlive=%llu\n", 57ULL * MIB, 10ULL * MIB + 51200);
}

static void host(void)
{
	static char page[8192];
	void *pinned;

	MUST(cuMemHostAlloc, &pinned, 3 * MIB, 0);
	MUST(cuMemHostRegister_v2, page, sizeof(page), 0);
	MUST(cuMemHostUnregister, page);
	MUST(cuMemFreeHost, pinned);
	printf("pinned_peak=%llu\n", 3ULL * MIB + sizeof(page));
}

static void array(void)
{
	const struct array_descriptor floats = { .width = 256, .height = 128, .format = 0x20, .channels = 1 };
	uint64_t handle;

	MUST(cuArray3DCreate_v2, &handle, &floats);
	MUST(cuArrayDestroy, handle);
	printf("array=%d\n", 256 * 128 * 4);
}

/* Released, but mapped: it is still there, with 4 MiB more. One call unmaps both. */
static void vmm(void)
{
	uint64_t one, two, more, foreign;

	MUST(cuMemCreate, &one, 20 * MIB, &on_device_1, 0);
	MUST(cuMemCreate, &two, 2 * MIB, &on_device_1, 0);
	MUST(cuMemMap, 0x10000000, 20 * MIB, 0, one, 0);
	MUST(cuMemMap, 0x10000000 + 20 * MIB, 2 * MIB, 0, two, 0);
	MUST(cuMemRelease, two);
	MUST(cuMemCreate, &more, 4 * MIB, &on_device_1, 0);
	MUST(cuMemRelease, more);
	MUST(cuMemUnmap, 0x10000000, 22 * MIB);
	MUST(cuMemRelease, one);
	MUST(cuMemImportFromShareableHandle, &foreign, NULL, 1);
	MUST(cuMemRelease, foreign);
	printf("vmm_peak=%llu\n", 26ULL * MIB);
}

/* In the order of NCCL: retain, release, unmap, release. Until the last it is there, with 8 MiB more. */
static void retained(void)
{
	uint64_t one, more, again;

	MUST(cuMemCreate, &one, 20 * MIB, &on_device_1, 0);
	MUST(cuMemMap, 0x10000000, 20 * MIB, 0, one, 0);
	MUST(cuMemRetainAllocationHandle, &again, (void *) 0x10000000);
	MUST(cuMemRelease, again);
	MUST(cuMemUnmap, 0x10000000, 20 * MIB);
	MUST(cuMemCreate, &more, 8 * MIB, &on_device_1, 0);
	MUST(cuMemRelease, more);
	MUST(cuMemRelease, one);
	printf("retained_peak=%llu\n", 28ULL * MIB);
}

/* Memory that was not seen to begin is not seen to end. */
static void unseen(void)
{
	uint64_t at;

	MUST(cuMemAllocUnseen, &at, MIB);
	MUST(cuMemFree_v2, at);
	printf("unseen=1\n");
}

/* Many at once, released in another order. */
static void blocks(void)
{
	static uint64_t at[BLOCKS];

	for (unsigned i = 0; i < BLOCKS; i++)
		MUST(cuMemAlloc_v2, &at[i], 1000 + i);
	for (unsigned i = 0; i < BLOCKS; i++)
		MUST(cuMemFree_v2, at[i * 7 % BLOCKS]);
	printf("blocks=%d\n", BLOCKS);
}

static uint64_t raced_at;

static void *allocate_between(void *first)
{
	MUST(cuCtxSetCurrent, first);
	MUST(cuMemAlloc_v2, &raced_at, 2 * MIB);
	return NULL;
}

static void between(void)
{
	pthread_t id;

	must(pthread_create(&id, NULL, allocate_between, context(0)), "pthread_create");
	pthread_join(id, NULL);
}

/* Another thread gets the address before its release has returned. */
static void raced(void)
{
	uint64_t at;

	MUST(cuMemAlloc_v2, &at, MIB);
	*(void (**)(void)) driver("traced_between") = between;
	MUST(cuMemFree_v2, at);
	must(raced_at != at, "the address was not given again");
	printf("raced=%llu\n", 2ULL * MIB);
}

/* Two sizes in a gigabyte less than there is fail; a smaller one succeeds, as with a caching allocator. */
static void oom(void)
{
	uint64_t most, more = 0;

	MUST(cuMemAlloc_v2, &most, 900 * MIB);
	for (int i = 0; i < 10; i++) {
		if (CU(cuMemAlloc_v2)(&more, 200 * MIB) != 2)
			exit(2);
	}
	MUST(cuMemFree_v2, most);
	MUST(cuMemAlloc_v2, &more, 200 * MIB);
	MUST(cuMemFree_v2, more);
	printf("oom=10\noom_peak=%llu\n", 900ULL * MIB);
}

/* Memory that its context takes along, and memory of before. */
static void contexts(void)
{
	void *other;
	uint64_t a, b;

	MUST(cuMemAlloc_v2, &a, 5 * MIB);
	MUST(cuCtxCreate_v2, &other, 0, 1);
	MUST(cuMemAlloc_v2, &b, 6 * MIB);
	MUST(cuCtxDestroy_v2, other);
	context(0);
	MUST(cuMemFree_v2, a);
	CU(cuMemFree_v2)(0xdead000);
	printf("context_peak=%llu\n", 11ULL * MIB);
}

/* Threads that get each other's addresses. */
static void *allocate(void *first)
{
	MUST(cuCtxSetCurrent, first);
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t a;

		MUST(cuMemAlloc_v2, &a, (i % 7 + 1) * 4096);
		MUST(cuMemFree_v2, a);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t id[THREADS];
	void *const first = context(0);

	for (int i = 0; i < THREADS; i++)
		must(pthread_create(&id[i], NULL, allocate, first), "pthread_create");
	for (int i = 0; i < THREADS; i++)
		pthread_join(id[i], NULL);
	printf("pairs=%d\n", THREADS * ROUNDS);
}

/* ---- work ------------------------------------------------------------------------------------ */

/* On three streams, which overlap. */
static void launches(void)
{
	static const struct traced_kernel kernels[] = {
		{ "_Z4gemmPfS_i", 20000 },
		{ "_Z3addPf", 7000 },
	};

	for (uintptr_t i = 0; i < LAUNCHES; i++)
		MUST(cuLaunchKernel, &kernels[i % 4 == 0 ? 0 : 1], 8, 2, 1, 128, 1, 1, 0, (void *) (i % STREAMS + 1), NULL, NULL);
	MUST(cuCtxSynchronize);
	printf("launches=%d\n", LAUNCHES);
}

static void few(void)
{
	static const struct traced_kernel kernel = { "_Z3fewv", 1000 };

	for (int i = 0; i < 5; i++)
		MUST(cuLaunchKernel, &kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	MUST(cuCtxSynchronize);
	printf("few=5\n");
}

/* Calls for longer than a second. */
static void slow(void)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		MUST(cuCtxSynchronize);
		usleep(10000);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < begin.tv_sec + 2);
}

/* More than a pool of 8 MiB has room for. */
static void many(void)
{
	static const struct traced_kernel kernel = { "_Z4manyv", 1 };

	for (int i = 0; i < MANY; i++)
		MUST(cuLaunchKernel, &kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	printf("many=%d\n", MANY);
}

static void copies(void)
{
	static char from[1 << 16];
	uint64_t at;

	MUST(cuMemAlloc_v2, &at, sizeof(from));
	MUST(cuMemcpyHtoD_v2, at, from, sizeof(from));
	MUST(cuMemcpyPeer, at, NULL, at, NULL, 1000);
	MUST(cuMemsetD8_v2, at, 0, sizeof(from));
	MUST(cuCtxSynchronize);
	MUST(cuMemFree_v2, at);
	printf("copies=2\nfills=1\n");
}

static void graphs(void)
{
	static const struct traced_graph graph = { .id = 7, .nodes = 5, .kernel = { "_Z4nodev", 1000 } };

	MUST(cuGraphLaunch, &graph, NULL);
	MUST(cuGraphLaunch, &graph, NULL);
	MUST(cuCtxSynchronize);
	printf("graphs=2\nnodes=10\n");
}

/* In flight when the process ends. */
static void unfinished(void)
{
	static const struct traced_kernel kernel = { "_Z4longv", UINT64_C(3600000000000) };

	MUST(cuLaunchKernel, &kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	printf("unfinished=1\n");
}

/* What a stream captures does not run. */
static void captured(void)
{
	static const struct traced_kernel kernel = { "_Z6gatherv", 1000 };
	void *graph = NULL;

	MUST(cuStreamBeginCapture_v2, NULL, 0);
	for (int i = 0; i < 50; i++)
		MUST(cuLaunchKernel, &kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	MUST(cuStreamEndCapture, NULL, &graph);
	printf("captured=50\n");
}

static void failure(void)
{
	static const struct traced_kernel kernel = { "_Z3badv", 1000 };

	for (int i = 0; i < 3; i++)
		CU(cuLaunchKernel)(&kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	printf("failed=3\n");
}

/* A child that uses CUDA after a fork gets an error, and ends by exit. */
static void forks(void)
{
	uint64_t a;
	int status = 0;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0)
		exit(CU(cuMemAlloc_v2)(&a, MIB) == 3 ? 0 : 1);
	waitpid(child, &status, 0);
	printf("child=%d\n", WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Says that it is there, and waits for a byte: for what happens meanwhile. */
static void wait_for_input(void)
{
	printf("waiting\n");
	fflush(stdout);
	if (getchar() == EOF)
		exit(2);
}

static void killed(void)
{
	fflush(stdout);
	raise(SIGKILL);
}

static const struct {
	const char *name;
	void (*run)(void);
} scenarios[] = {
	{ "memory", memory },
	{ "host", host },
	{ "array", array },
	{ "vmm", vmm },
	{ "retained", retained },
	{ "unseen", unseen },
	{ "blocks", blocks },
	{ "raced", raced },
	{ "oom", oom },
	{ "contexts", contexts },
	{ "threads", threads },
	{ "launches", launches },
	{ "few", few },
	{ "slow", slow },
	{ "many", many },
	{ "copies", copies },
	{ "graphs", graphs },
	{ "unfinished", unfinished },
	{ "captured", captured },
	{ "failure", failure },
	{ "forks", forks },
	{ "wait", wait_for_input },
	{ "killed", killed },
};

int main(int argc, char **argv)
{
	must(CU(cuInit)(0), "cuInit");
	context(0);
	for (int i = 1; i < argc; i++) {
		size_t n = 0;

		while (n < sizeof(scenarios) / sizeof(scenarios[0]) && strcmp(scenarios[n].name, argv[i]) != 0)
			n++;
		if (n == sizeof(scenarios) / sizeof(scenarios[0])) {
			fprintf(stderr, "cuda-script: no scenario '%s'\n", argv[i]);
			return 2;
		}
		scenarios[n].run();
	}
	return 0;
}

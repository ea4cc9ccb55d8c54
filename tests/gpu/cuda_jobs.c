/* SPDX-License-Identifier: MIT
 *
 * Jobs with a known use of a GPU:
 *
 *     cuda-jobs info                        prints the device's properties
 *     cuda-jobs ladder BYTES...             allocates each amount in addition to the earlier ones,
 *                                           then frees them in reverse
 *     cuda-jobs fill CHUNK                  allocates chunks until none is left; exits with 1
 *     cuda-jobs square BLOCKS THREADS S     squares numbers with that many threads for S seconds
 *     cuda-jobs work LAUNCHES NS            that many kernels of NS nanoseconds on all SMs, one
 *                                           after the other
 *     cuda-jobs long S                      one kernel of S seconds
 *     cuda-jobs copy BYTES TIMES            copies to the device and back
 *     cuda-jobs share BYTES                 two processes, one of which opens the other's memory
 *
 * Each step prints a line of JSON on stdout; ladder, fill, copy and share wait for a line on stdin
 * before the next step.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cuda_driver.h"

enum {
	STEPS_MOST = 64,
	CHUNKS_MOST = 1 << 16,
	THREADS = 1024,           /* per block, to use all SMs */
	LAUNCH_NS = 20000000,     /* of one kernel of square: many of them fill its time */
};

/* Squares numbers until its time is over; the sum is written so that no work can be optimised away.
 * PTX ISA 6.0, which every driver since 9.0 compiles for its GPU. */
static const char square_ptx[] =
	".version 6.0\n"
	".target sm_50\n"
	".address_size 64\n"
	".visible .entry square(.param .u64 out, .param .u64 span)\n"
	"{\n"
	"	.reg .pred %more;\n"
	"	.reg .b32 %r<6>;\n"
	"	.reg .f32 %x<3>;\n"
	"	.reg .b64 %d<8>;\n"
	"	ld.param.u64 %d1, [out];\n"
	"	ld.param.u64 %d2, [span];\n"
	"	mov.u64 %d3, %globaltimer;\n"
	"	add.u64 %d4, %d3, %d2;\n"
	"	mov.u32 %r1, %ctaid.x;\n"
	"	mov.u32 %r2, %ntid.x;\n"
	"	mov.u32 %r3, %tid.x;\n"
	"	mad.lo.u32 %r4, %r1, %r2, %r3;\n"
	"	cvt.rn.f32.u32 %x1, %r4;\n"
	"again:\n"
	"	mul.f32 %x1, %x1, %x1;\n"
	"	fma.rn.f32 %x1, %x1, 0f3F000000, 0f3F800000;\n"
	"	mul.f32 %x1, %x1, %x1;\n"
	"	fma.rn.f32 %x1, %x1, 0f3F000000, 0f3F800000;\n"
	"	mul.f32 %x1, %x1, %x1;\n"
	"	fma.rn.f32 %x1, %x1, 0f3F000000, 0f3F800000;\n"
	"	mov.u64 %d5, %globaltimer;\n"
	"	setp.lt.u64 %more, %d5, %d4;\n"
	"	@%more bra again;\n"
	"	cvta.to.global.u64 %d6, %d1;\n"
	"	and.b32 %r5, %r4, 255;\n"
	"	mul.wide.u32 %d7, %r5, 4;\n"
	"	add.u64 %d6, %d6, %d7;\n"
	"	st.global.f32 [%d6], %x1;\n"
	"	ret;\n"
	"}\n";

/* ---- messages to the parent ------------------------------------------------------------------ */

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void) printf("{");
	(void) vprintf(format, ap);
	(void) printf("}\n");
	va_end(ap);
	(void) fflush(stdout);
}

/* Waits for a line; at the end of stdin it waits no more. */
static void await(void)
{
	int c;

	while ((c = getchar()) != EOF && c != '\n')
		;
}

static double seconds(void)
{
	struct timespec now;

	(void) clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static uint64_t number(const char *text)
{
	char *end;
	const uint64_t value = strtoull(text, &end, 10);

	if (end == text || *end) {
		(void) fprintf(stderr, "cuda-jobs: no number: %s\n", text);
		exit(2);
	}
	return value;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void say_held(const struct cuda *cuda, uint64_t held)
{
	size_t available = 0, total = 0;

	CUDA(cuda, info, &available, &total);
	say("\"pid\": %d, \"held\": %" PRIu64 ", \"free\": %zu, \"total\": %zu", (int) getpid(), held,
		available, total);
	await();
}

static int ladder(const struct cuda *cuda, int n, char **sizes)
{
	uint64_t at[STEPS_MOST], held = 0;

	say_held(cuda, 0);
	for (int i = 0; i < n && i < STEPS_MOST; i++) {
		CUDA(cuda, alloc, &at[i], number(sizes[i]));
		CUDA(cuda, set, at[i], 1, number(sizes[i]));
		CUDA(cuda, wait);
		held += number(sizes[i]);
		say_held(cuda, held);
	}
	for (int i = n < STEPS_MOST ? n : STEPS_MOST; i-- > 0;) {
		CUDA(cuda, release, at[i]);
		held -= number(sizes[i]);
		say_held(cuda, held);
	}
	return 0;
}

static int fill(const struct cuda *cuda, int n, char **chunk)
{
	uint64_t at, held = 0;
	int code = 0;

	(void) n;
	for (int i = 0; i < CHUNKS_MOST && (code = cuda->alloc(&at, number(chunk[0]))) == 0; i++)
		held += number(chunk[0]);
	if (code != CUDA_OUT_OF_MEMORY)
		cuda_check(cuda, code, "alloc");
	say("\"pid\": %d, \"held\": %" PRIu64 ", \"error\": %d", (int) getpid(), held, code);
	await();
	(void) fprintf(stderr, "CUDA out of memory\n");
	return 1;
}

static int copy(const struct cuda *cuda, int n, char **args)
{
	const uint64_t bytes = number(args[0]), times = number(args[1]);
	uint64_t device;
	void *host;
	double began;

	(void) n;
	CUDA(cuda, alloc, &device, bytes);
	CUDA(cuda, host_alloc, &host, bytes, 0);
	memset(host, 1, bytes);
	say("\"pid\": %d", (int) getpid());
	await();
	began = seconds();
	for (uint64_t i = 0; i < times; i++)
		CUDA(cuda, to_device, device, host, bytes);
	const double there = seconds();

	for (uint64_t i = 0; i < times; i++)
		CUDA(cuda, to_host, host, device, bytes);
	say("\"bytes\": %" PRIu64 ", \"to_device_s\": %.6f, \"to_host_s\": %.6f", bytes * times,
		there - began, seconds() - there);
	await();
	return 0;
}

/* ---- kernels --------------------------------------------------------------------------------- */

struct kernel {
	void *function;
	uint64_t out;
};

static void make(const struct cuda *cuda, struct kernel *ret)
{
	void *module;

	CUDA(cuda, module, &module, square_ptx);
	CUDA(cuda, function, &ret->function, module, "square");
	CUDA(cuda, alloc, &ret->out, 1024);
}

static void launch(
	const struct cuda *cuda, const struct kernel *k, unsigned blocks, unsigned threads, uint64_t ns)
{
	uint64_t out = k->out;
	void *parameters[] = { &out, &ns };

	CUDA(cuda, launch, k->function, blocks, 1, 1, threads, 1, 1, 0, NULL, parameters, NULL);
}

/* Two kernels are queued at any time, so that there is no pause between them. */
static int square(const struct cuda *cuda, int n, char **args)
{
	const unsigned blocks = (unsigned) number(args[0]), threads = (unsigned) number(args[1]);
	const double until = seconds() + strtod(args[2], NULL);
	struct kernel k;

	(void) n;
	make(cuda, &k);
	say("\"pid\": %d, \"blocks\": %u, \"threads\": %u, \"sms\": %d", (int) getpid(), blocks, threads,
		cuda->sms);
	launch(cuda, &k, blocks, threads, LAUNCH_NS);
	while (seconds() < until) {
		for (int i = 0; i < 5; i++)
			launch(cuda, &k, blocks, threads, LAUNCH_NS);
		CUDA(cuda, wait);
	}
	return 0;
}

static unsigned full(const struct cuda *cuda)
{
	return (unsigned) cuda->sms * (unsigned) cuda->threads_sm / THREADS;
}

static int work(const struct cuda *cuda, int n, char **args)
{
	const uint64_t launches = number(args[0]), ns = number(args[1]);
	struct kernel k;
	double began;

	(void) n;
	make(cuda, &k);
	launch(cuda, &k, full(cuda), THREADS, ns);
	CUDA(cuda, wait);
	began = seconds();
	for (uint64_t i = 0; i < launches; i++) {
		launch(cuda, &k, full(cuda), THREADS, ns);
		CUDA(cuda, wait);
	}
	say("\"launches\": %" PRIu64 ", \"seconds\": %.6f", launches, seconds() - began);
	return 0;
}

static int one_long(const struct cuda *cuda, int n, char **args)
{
	struct kernel k;

	(void) n;
	make(cuda, &k);
	launch(cuda, &k, full(cuda), THREADS, (uint64_t) (strtod(args[0], NULL) * 1e9));
	say("\"pid\": %d", (int) getpid());
	CUDA(cuda, wait);
	say("\"over\": true");
	return 0;
}

/* ---- two processes --------------------------------------------------------------------------- */

static void whole(ssize_t n, size_t size)
{
	if (n == (ssize_t) size)
		return;
	(void) fprintf(stderr, "cuda-jobs: the other process is gone\n");
	exit(1);
}

/* Opens the memory that the parent sends, until the parent ends. A process that was forked after
 * CUDA was initialised must not use it: this one was forked before. */
static void open_shared(int from, int to)
{
	struct cuda cuda;
	struct cuda_ipc handle;
	uint64_t at;
	char end;

	cuda_open(&cuda);
	whole(write(to, "c", 1), 1);
	whole(read(from, &handle, sizeof(handle)), sizeof(handle));
	CUDA(&cuda, ipc_open, &at, handle, 1);
	whole(write(to, "o", 1), 1);
	while (read(from, &end, 1) > 0)
		;
	CUDA(&cuda, ipc_close, at);
	_exit(0);
}

static int share(uint64_t bytes)
{
	int there[2], back[2];
	struct cuda cuda;
	struct cuda_ipc handle;
	uint64_t at;
	char word;
	pid_t child;

	if (pipe(there) < 0 || pipe(back) < 0 || (child = fork()) < 0)
		return 1;
	if (child == 0) {
		(void) close(there[1]);
		(void) close(back[0]);
		open_shared(there[0], back[1]);
	}
	(void) close(there[0]);
	(void) close(back[1]);
	cuda_open(&cuda);
	whole(read(back[0], &word, 1), 1);
	say("\"owner\": %d, \"user\": %d, \"held\": 0", (int) getpid(), (int) child);
	await();
	CUDA(&cuda, alloc, &at, bytes);
	CUDA(&cuda, ipc_export, &handle, at);
	whole(write(there[1], &handle, sizeof(handle)), sizeof(handle));
	whole(read(back[0], &word, 1), 1);
	say("\"owner\": %d, \"user\": %d, \"held\": %" PRIu64, (int) getpid(), (int) child, bytes);
	await();
	return 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

static int info(const struct cuda *cuda, int n, char **args)
{
	int version = 0;

	(void) n;
	(void) args;
	CUDA(cuda, version, &version);
	say("\"name\": \"%s\", \"sms\": %d, \"threads_sm\": %d, \"cuda\": %d", cuda->gpu, cuda->sms,
		cuda->threads_sm, version);
	return 0;
}

static const struct {
	const char *name;
	int least;               /* arguments */
	int (*run)(const struct cuda *cuda, int n, char **args);
} jobs[] = {
	{ "info", 0, info },
	{ "ladder", 1, ladder },
	{ "fill", 1, fill },
	{ "square", 3, square },
	{ "work", 2, work },
	{ "long", 1, one_long },
	{ "copy", 2, copy },
};

int main(int argc, char **argv)
{
	struct cuda cuda;

	if (argc == 3 && strcmp(argv[1], "share") == 0)
		return share(number(argv[2]));
	for (size_t i = 0; argc > 1 && i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		if (strcmp(argv[1], jobs[i].name) != 0 || argc - 2 < jobs[i].least)
			continue;
		cuda_open(&cuda);
		return jobs[i].run(&cuda, argc - 2, argv + 2);
	}
	(void) fprintf(stderr,
		"cuda-jobs: info, ladder, fill, square, work, long, copy or share, with what each needs\n");
	return 2;
}

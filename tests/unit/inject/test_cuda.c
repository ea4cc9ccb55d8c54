/* SPDX-License-Identifier: MIT
 *
 * The CUDA front end in a process of its own: tests/gpu/cuda_script.c on the fake driver and the fake CUPTI
 * of tests/fake, with the library that run --trace loads. What is in the slot is compared with what the
 * program says of itself, and with the driver's log of what ran.
 */
#include "ring_rig.h"

#include <inttypes.h>
#include <sys/types.h>

#define MIB (UINT64_C(1) << 20)

enum {
	ALL = TRACE_MEMORY | TRACE_LAUNCHES | TRACE_KERNELS,
	OUTPUT = 4096,
	CUPTI_12,
	CUPTI_13,
	CUPTI_SHARED,
};

struct traced {
	struct ring_rig rig;
	char output[OUTPUT];
	char log[64];        /* path of the driver's log */
	int status;
	struct trace_slot *slot;
	struct rig_events events;
};

static struct traced the;

/* ---- the job --------------------------------------------------------------------------------------------------- */

static void begin(unsigned layers)
{
	rig_open(&the.rig);
	the.rig.ring->layers = layers;
	the.rig.ring->layers_wanted = layers;
	(void) snprintf(the.log, sizeof(the.log), "/tmp/hiwater-test-cuda-XXXXXX");
	const int fd = mkstemp(the.log);

	assert_true(fd >= 0);
	(void) close(fd);
	(void) setenv("HIWATER_FAKE_GPU_LOG", the.log, 1);
	(void) setenv("CUDA_INJECTION64_PATH", FAKE_DRIVERS "/../../../libhiwater-trace.so", 1);
}

/* The machine may have a libcupti of its own: the older one, and that there is none, are said by path. */
static void set_libraries(int cupti)
{
	static const char *const folders[] = { "cupti-12", "cupti-13", "cupti-13.3" };
	char path[3000];

	(void) snprintf(path, sizeof(path), "%s/cuda-traced:%s/%s", FAKE_DRIVERS, FAKE_DRIVERS,
		cupti ? folders[cupti - CUPTI_12] : "none");
	(void) setenv("LD_LIBRARY_PATH", path, 1);
	if (cupti == CUPTI_12)
		(void) setenv("HIWATER_CUPTI", FAKE_DRIVERS "/cupti-12/libcupti.so.12", 1);
	else if (!cupti)
		(void) setenv("HIWATER_CUPTI", "/nowhere/libcupti.so.13", 1);
}

static pid_t start(int cupti, const char *scenarios, int *ret_out, int *ret_in)
{
	int out[2], in[2];
	pid_t pid;

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		char words[200], *argv[12] = { "cuda-script" }, *rest = words;
		int n = 1;

		(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void) snprintf(words, sizeof(words), "%s", scenarios);
		while ((argv[n] = strsep(&rest, " ")))
			n++;
		(void) dup2(in[0], STDIN_FILENO);
		(void) dup2(out[1], STDOUT_FILENO);
		set_libraries(cupti);
		execv(FAKE_DRIVERS "/../../../cuda-script", argv);
		_exit(127);
	}
	(void) close(out[1]);
	(void) close(in[0]);
	*ret_out = out[0];
	*ret_in = in[1];
	return pid;
}

static void finish(pid_t pid, int out, int in)
{
	size_t n = strlen(the.output);
	ssize_t got;

	while ((got = read(out, the.output + n, OUTPUT - 1 - n)) > 0)
		n += (size_t) got;
	the.output[n] = '\0';
	(void) close(out);
	(void) close(in);
	assert_int_equal(waitpid(pid, &the.status, 0), pid);
	the.slot = rig_slot(&the.rig, 0);
	rig_read(the.slot, &the.events);
}

static void run(int cupti, const char *scenarios)
{
	int out, in;

	the.output[0] = '\0';
	const pid_t pid = start(cupti, scenarios, &out, &in);

	finish(pid, out, in);
	assert_int_equal(the.status, 0);
}

static void end(void)
{
	static const char *const variables[] = { "HIWATER_FAKE_CUPTI", "HIWATER_FAKE_GPU_BYTES", "HIWATER_FAKE_GPU_FAIL",
		"HIWATER_FAKE_GPU_LOG", "HIWATER_TRACE_GRAPH_NODES", "CUDA_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID" };

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		(void) unsetenv(variables[i]);
	(void) unlink(the.log);
	rig_close(&the.rig);
	free(the.events.all);
	the = (struct traced) { 0 };
}

/* KEY=NUMBER of the program's output. */
static uint64_t says(const char *key)
{
	const size_t len = strlen(key);

	for (const char *at = the.output; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
		if (strncmp(at, key, len) == 0 && at[len] == '=')
			return strtoull(at + len + 1, NULL, 10);
	}
	fail_msg("the program does not say %s: %s", key, the.output);
	return 0;
}

/* ---- what was written ------------------------------------------------------------------------------------------ */

static struct trace_ring_site site_at(uint32_t offset)
{
	struct trace_ring_site site;
	struct trace_text head;
	const char *const at = (const char *) the.slot + TRACE_ARENA_AT + (size_t) offset * 8;

	assert_true(offset > 0);
	memcpy(&head, at, sizeof(head));
	assert_int_equal(head.type, 1);
	assert_int_equal(head.len, sizeof(site));
	memcpy(&site, at + sizeof(head), sizeof(site));
	return site;
}

/* Live bytes of a kind of memory at their most, over all events, and at the end. Events of several threads are in
 * the order of their times. */
struct use {
	uint64_t peak, live;
	unsigned allocations, releases, failed, unknown;
};

static int by_time(const void *a, const void *b)
{
	const struct rig_event *x = a, *y = b;

	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

static struct use use_of(unsigned kinds, int device)
{
	struct use use = { 0 };

	qsort(the.events.all, the.events.n, sizeof(the.events.all[0]), by_time);
	for (size_t i = 0; i < the.events.n; i++) {
		const struct rig_event *const e = &the.events.all[i];

		if (e->kind != TRACE_RING_MEMORY)
			continue;
		const struct trace_ring_site site = site_at(e->memory.site);

		assert_int_equal(site.kind, TRACE_ALLOC);
		if (!(kinds >> site.target & 1) || (device >= 0 && site.device != device))
			continue;
		if (e->flags & TRACE_FAILED) {
			assert_int_equal(e->memory.bytes, 0);
			use.failed++;
		} else if (e->memory.is_free) {
			assert_true(use.live >= e->memory.bytes);
			use.live -= e->memory.bytes;
			use.releases++;
			use.unknown += e->memory.bytes == 0;
		} else {
			use.live += e->memory.bytes;
			use.allocations++;
		}
		if (use.live > use.peak)
			use.peak = use.live;
	}
	return use;
}

enum {
	GPU = 1 << TRACE_DEVICE | 1 << TRACE_MANAGED | 1 << TRACE_ARRAY,
	UNKNOWN = 1 << TRACE_MEMORY_UNKNOWN,
};

static size_t count(unsigned kind, unsigned flags)
{
	size_t n = 0;

	for (size_t i = 0; i < the.events.n; i++)
		n += the.events.all[i].kind == kind && (the.events.all[i].flags & flags) == flags;
	return n;
}

static size_t count_work(enum trace_kind kind, unsigned flags)
{
	size_t n = 0;

	for (size_t i = 0; i < the.events.n; i++) {
		const struct rig_event *const e = &the.events.all[i];

		n += e->kind == TRACE_RING_WORK && (e->flags & flags) == flags && site_at(e->work.site).kind == kind;
	}
	return n;
}

static bool has_mark(const char *text)
{
	for (size_t i = 0; i < the.events.n; i++) {
		const struct rig_event *const e = &the.events.all[i];

		if (e->kind == TRACE_RING_MARK && strcmp(rig_text(the.slot, e->range.name), text) == 0)
			return true;
	}
	return false;
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static void test_peak_is_exact(void **state)
{
	(void) state;
	begin(TRACE_MEMORY);
	run(CUPTI_13, "memory");
	const struct use use = use_of(GPU, 0);

	assert_int_equal(use.peak, says("peak"));
	assert_int_equal(use.live, says("live"));
	assert_int_equal(use.allocations, 5);
	assert_int_equal(use.releases, 3);
	assert_int_equal(use_of(1 << TRACE_MANAGED, 0).peak, 7 * MIB);
	assert_int_equal(rig_lost(the.slot), 0);
	assert_int_equal(count(TRACE_RING_ENTER, 0), 0);
	end();
}

static void test_host_and_arrays(void **state)
{
	(void) state;
	begin(TRACE_MEMORY);
	run(CUPTI_13, "host array");
	const struct use pinned = use_of(1 << TRACE_PINNED, -1), array = use_of(1 << TRACE_ARRAY, 0);

	assert_int_equal(pinned.peak, says("pinned_peak"));
	assert_int_equal(pinned.live, 0);
	assert_int_equal(array.peak, says("array"));
	assert_int_equal(array.live, 0);
	end();
}

/* Physical memory by handle, on the device that its properties say, whatever the context's. */
static void test_physical_memory(void **state)
{
	static const struct {
		const char *scenario, *peak;
		unsigned allocations;
	} rows[] = {
		{ "vmm", "vmm_peak", 3 },
		{ "retained", "retained_peak", 2 },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin(TRACE_MEMORY);
		run(CUPTI_13, rows[i].scenario);
		const struct use use = use_of(GPU, 1);

		assert_int_equal(use.peak, says(rows[i].peak));
		assert_int_equal(use.live, 0);
		assert_int_equal(use.allocations, rows[i].allocations);
		assert_int_equal(use.releases, rows[i].allocations);
		end();
	}
}

static void test_unseen_memory(void **state)
{
	(void) state;
	begin(TRACE_MEMORY);
	run(CUPTI_13, "memory unseen");
	assert_int_equal(use_of(UNKNOWN, -1).unknown, says("unseen"));
	assert_int_equal(use_of(GPU, 0).live, says("live"));
	end();
}

static void test_many_blocks(void **state)
{
	(void) state;
	begin(TRACE_MEMORY);
	run(CUPTI_13, "blocks");
	const struct use use = use_of(GPU, 0);

	assert_int_equal(use.releases, says("blocks"));
	assert_int_equal(use.live, 0);
	assert_int_equal(use.unknown, 0);
	assert_int_equal(use_of(UNKNOWN, -1).releases, 0);
	end();
}

static void test_address_used_again(void **state)
{
	(void) state;
	begin(TRACE_MEMORY);
	run(CUPTI_13, "raced");
	const struct use use = use_of(GPU, 0);

	assert_int_equal(use.live, says("raced"));
	assert_int_equal(use.allocations, 2);
	assert_int_equal(use.releases, 1);
	end();
}

static void test_out_of_memory(void **state)
{
	unsigned marks = 0;

	(void) state;
	begin(TRACE_MEMORY);
	(void) setenv("HIWATER_FAKE_GPU_BYTES", "1073741824", 1);
	run(CUPTI_13, "oom");
	const struct use use = use_of(GPU, 0);

	assert_int_equal(use.failed, says("oom"));
	assert_int_equal(use.peak, says("oom_peak"));
	assert_int_equal(use.live, 0);
	assert_true(has_mark("cuMemAlloc_v2 of 209715200 bytes: out of memory (2)"));
	for (size_t i = 0; i < the.events.n; i++)
		marks += the.events.all[i].kind == TRACE_RING_MARK;
	assert_int_equal(marks, 8);
	end();
}

static void test_contexts(void **state)
{
	(void) state;
	begin(TRACE_MEMORY);
	run(CUPTI_13, "contexts");
	const struct use use = use_of(GPU, -1);

	assert_int_equal(use.peak, says("context_peak"));
	assert_int_equal(use.live, 0);
	assert_int_equal(use_of(GPU, 1).peak, 6 * MIB);
	end();
}

static void test_threads(void **state)
{
	(void) state;
	begin(TRACE_MEMORY);
	run(CUPTI_13, "threads");
	const struct use use = use_of(GPU, 0);

	assert_int_equal(use.allocations, says("pairs"));
	assert_int_equal(use.releases, says("pairs"));
	assert_int_equal(use.live, 0);
	assert_int_equal(use.unknown, 0);
	assert_int_equal(rig_lost(the.slot), 0);
	end();
}

/* ---- work ------------------------------------------------------------------------------------------------------ */

struct logged {
	unsigned kind, stream;
	char name[64];
	uint64_t start, end;
};

static size_t read_log(struct logged *ret, size_t room)
{
	FILE *const file = fopen(the.log, "re");
	char line[200];
	size_t n = 0;

	assert_non_null(file);
	while (n < room && fgets(line, sizeof(line), file)) {
		struct logged *const l = &ret[n++];
		char *at = line;

		l->kind = (unsigned) strtoul(at, &at, 10);
		at++;
		(void) snprintf(l->name, sizeof(l->name), "%.*s", (int) strcspn(at, " "), at);
		at += strcspn(at, " ");
		l->stream = (unsigned) strtoul(at, &at, 10);
		l->start = strtoull(at, &at, 10);
		l->end = strtoull(at, &at, 10);
	}
	(void) fclose(file);
	return n;
}

static uint64_t sum_of_log(const struct logged *log, size_t n, unsigned kind)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += log[i].kind == kind ? log[i].end - log[i].start : 0;
	return sum;
}

/* Every launch has its call on the host, its record, the same number in both, and its name and shape. */
static void check_launches(int cupti)
{
	static struct logged log[10100];
	static uint8_t calls[40000];
	const size_t n = read_log(log, sizeof(log) / sizeof(log[0]));
	uint64_t sum = 0;
	size_t work = 0;

	(void) cupti;
	assert_int_equal(n, says("launches"));
	memset(calls, 0, sizeof(calls));
	for (size_t i = 0; i < the.events.n; i++) {
		const struct rig_event *const e = &the.events.all[i];

		if (e->kind == TRACE_RING_ENTER && e->call.correlation < sizeof(calls))
			calls[e->call.correlation] = 1;
	}
	for (size_t i = 0; i < the.events.n; i++) {
		const struct rig_event *const e = &the.events.all[i];

		if (e->kind != TRACE_RING_WORK)
			continue;
		const struct trace_ring_site site = site_at(e->work.site);
		const char *const name = rig_text(the.slot, site.name);

		assert_int_equal(site.kind, TRACE_KERNEL);
		assert_true(strcmp(name, "_Z4gemmPfS_i") == 0 || strcmp(name, "_Z3addPf") == 0);
		assert_int_equal(e->work.end_ns - e->time_ns, name[2] == '4' ? 20000 : 7000);
		assert_int_equal(site.grid[0], 8);
		assert_int_equal(site.grid[1], 2);
		assert_int_equal(site.block[0], 128);
		assert_int_equal(site.registers, 32);
		assert_int_equal(site.shared_static, 1024);
		assert_int_equal(site.shared_dynamic, 2048);
		assert_in_range(site.stream, 1, 3);
		assert_int_equal(site.device, 0);
		assert_int_equal(site.context, 1);
		assert_int_equal(e->work.queued_before, UINT32_MAX);
		assert_int_equal(e->flags, 0);
		assert_true(e->work.correlation < sizeof(calls) && calls[e->work.correlation]);
		sum += e->work.end_ns - e->time_ns;
		work++;
	}
	assert_int_equal(work, n);
	assert_int_equal(sum, sum_of_log(log, n, 10));
	assert_int_equal(count(TRACE_RING_ENTER, 0), n + 1); /* and the synchronisation */
	assert_int_equal(count(TRACE_RING_LEAVE, 0), n + 1);
	assert_int_equal(rig_lost(the.slot), 0);
}

static void test_launches(void **state)
{
	static const char *const words[] = { "", "thread" };

	(void) state;
	for (int cupti = CUPTI_12; cupti <= CUPTI_SHARED; cupti++) {
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
			begin(ALL);
			(void) setenv("HIWATER_FAKE_CUPTI", words[i], 1);
			run(cupti, "launches");
			check_launches(cupti);
			end();
		}
	}
}

/* The wall clock of a record becomes the clock of all events: the kernel runs after the call that launched it
 * begins, and ends before the synchronisation returns. */
static void test_times(void **state)
{
	uint64_t first = UINT64_MAX, last = 0;

	(void) state;
	begin(ALL);
	run(CUPTI_13, "launches");
	for (size_t i = 0; i < the.events.n; i++) {
		const struct rig_event *const e = &the.events.all[i];

		if (e->kind == TRACE_RING_ENTER && e->time_ns < first)
			first = e->time_ns;
		if (e->kind == TRACE_RING_LEAVE && e->time_ns > last)
			last = e->time_ns;
	}
	for (size_t i = 0; i < the.events.n; i++) {
		const struct rig_event *const e = &the.events.all[i];

		/* The difference of the clocks is read to some microseconds. */
		if (e->kind == TRACE_RING_WORK)
			assert_true(e->time_ns + 50000 > first && e->work.end_ns < last + 50000);
	}
	end();
}

static void test_copies(void **state)
{
	unsigned copies = 0;

	(void) state;
	begin(ALL);
	run(CUPTI_13, "copies");
	for (size_t i = 0; i < the.events.n; i++) {
		const struct rig_event *const e = &the.events.all[i];

		if (e->kind != TRACE_RING_WORK)
			continue;
		const struct trace_ring_site site = site_at(e->work.site);

		assert_true(e->work.correlation > 0);
		if (site.kind == TRACE_FILL) {
			assert_int_equal(e->work.bytes, 65536);
			assert_int_equal(site.target, TRACE_DEVICE);
		} else if (e->work.bytes == 1000) {
			assert_string_equal(rig_text(the.slot, site.name), "memcpy PtoP");
			assert_int_equal(site.source, TRACE_DEVICE);
			copies++;
		} else {
			assert_int_equal(e->work.bytes, 65536);
			assert_string_equal(rig_text(the.slot, site.name), "memcpy HtoD");
			assert_int_equal(site.source, TRACE_PAGEABLE);
			assert_int_equal(site.target, TRACE_DEVICE);
			copies++;
		}
	}
	assert_int_equal(copies, says("copies"));
	assert_int_equal(count_work(TRACE_FILL, 0), says("fills"));
	end();
}

/* As a whole; its nodes where asked for, and where CUPTI is shared. */
static void test_graphs(void **state)
{
	(void) state;
	begin(ALL);
	run(CUPTI_13, "graphs");
	assert_int_equal(count_work(TRACE_KERNEL, 0), says("graphs"));
	assert_int_equal(count_work(TRACE_KERNEL, TRACE_NODE), 0);
	end();
	begin(ALL);
	(void) setenv("HIWATER_TRACE_GRAPH_NODES", "1", 1);
	run(CUPTI_13, "graphs");
	assert_int_equal(count_work(TRACE_KERNEL, TRACE_NODE), says("nodes"));
	end();
	begin(ALL);
	run(CUPTI_SHARED, "graphs");
	assert_int_equal(count_work(TRACE_KERNEL, TRACE_NODE), says("nodes"));
	assert_int_equal(count_work(TRACE_KERNEL, 0), says("nodes"));
	end();
}

static void test_records_that_are_wrong(void **state)
{
	(void) state;
	begin(ALL);
	(void) setenv("HIWATER_FAKE_CUPTI", "zero=10 drops=7", 1);
	run(CUPTI_13, "launches");
	assert_int_equal(count_work(TRACE_KERNEL, TRACE_INVALID), 10);
	assert_int_equal(count_work(TRACE_KERNEL, 0), 10000);
	assert_int_equal(the.slot->lost[TRACE_LOST_DROPPED], 7);
	assert_int_equal(rig_lost(the.slot), 7);
	end();
	/* Delivered at exit: what has ended without times is no work in flight. */
	begin(ALL);
	(void) setenv("HIWATER_FAKE_CUPTI", "zero=2", 1);
	run(CUPTI_13, "few");
	assert_int_equal(count_work(TRACE_KERNEL, TRACE_INVALID), 2);
	assert_int_equal(count_work(TRACE_KERNEL, 0), says("few"));
	assert_int_equal(rig_lost(the.slot), 0);
	end();
	begin(ALL);
	(void) setenv("HIWATER_FAKE_CUPTI", "drops=7", 1);
	run(CUPTI_SHARED, "launches");
	assert_int_equal(the.slot->lost[TRACE_LOST_DROPPED], 7);
	end();
}

/* All buffers are in use: what finds no place is counted, whether a library may go without or not. What the
 * recorder of this test does not read in time is counted too, in units of 16 bytes. */
static void test_pool_is_full(void **state)
{
	(void) state;
	for (int cupti = CUPTI_12; cupti <= CUPTI_SHARED; cupti++) {
		begin(TRACE_KERNELS);
		(void) setenv("HIWATER_FAKE_CUPTI", "hold", 1);
		run(cupti, "many");
		const uint64_t dropped = the.slot->lost[TRACE_LOST_DROPPED];
		const uint64_t written = count_work(TRACE_KERNEL, 0) + the.slot->lost[TRACE_LOST_OVERWRITTEN];

		assert_true(dropped > 0);
		/* The last one's records were never read: it is estimated by the size of its records. */
		if (cupti == CUPTI_12)
			assert_true(written < says("many") && written + dropped >= says("many"));
		else
			assert_int_equal(written + dropped, says("many"));
		end();
	}
}

/* Buffers that come back are used again. */
static void test_pool_goes_round(void **state)
{
	(void) state;
	begin(TRACE_KERNELS);
	run(CUPTI_13, "many");
	assert_int_equal(the.slot->lost[TRACE_LOST_DROPPED], 0);
	assert_int_equal(count_work(TRACE_KERNEL, 0) + the.slot->lost[TRACE_LOST_OVERWRITTEN], says("many"));
	end();
}

/* 60 records as an H100 delivered them, read here by their offsets in bytes. */
static void test_captured_records(void **state)
{
	static const char path[] = TESTS_DIR "/trees/h100/cupti-13.0-kernels.bin";
	static char bytes[60 * 216 + 1];
	FILE *const file = fopen(path, "re");
	int64_t offset = 0;
	unsigned n = 0;

	(void) state;
	assert_non_null(file);
	assert_int_equal(fread(bytes, 1, sizeof(bytes), file), sizeof(bytes) - 1);
	(void) fclose(file);
	begin(ALL);
	(void) setenv("HIWATER_FAKE_CUPTI", "replay=" TESTS_DIR "/trees/h100/cupti-13.0-kernels.bin", 1);
	run(CUPTI_13, "unfinished");
	for (size_t i = 0; i < the.events.n; i++) {
		const struct rig_event *const e = &the.events.all[i];
		uint64_t start, end_ns;
		uint32_t correlation;

		if (e->kind != TRACE_RING_WORK)
			continue;
		const struct trace_ring_site site = site_at(e->work.site);

		assert_true(n < 60);
		memcpy(&start, bytes + n * 216 + 16, sizeof(start));
		memcpy(&end_ns, bytes + n * 216 + 24, sizeof(end_ns));
		memcpy(&correlation, bytes + n * 216 + 92, sizeof(correlation));
		if (n == 0)
			offset = (int64_t) (e->time_ns - start);
		assert_int_equal(e->time_ns, start + (uint64_t) offset);
		assert_int_equal(e->work.end_ns, end_ns + (uint64_t) offset);
		assert_int_equal(e->work.correlation, correlation);
		assert_string_equal(rig_text(the.slot, site.name), "captured");
		assert_int_equal(site.stream, 7);
		assert_int_equal(site.context, 1);
		assert_int_equal(site.registers, 16);
		assert_int_equal(site.grid[2], 1);
		assert_int_equal(site.shared_dynamic, 0);
		assert_int_equal(e->flags, 0);
		n++;
	}
	assert_int_equal(n, 60);
	assert_int_equal(the.slot->lost[TRACE_LOST_INCOMPLETE], 1);
	end();
}

static void test_unfinished(void **state)
{
	(void) state;
	begin(ALL);
	run(CUPTI_13, "copies unfinished");
	assert_int_equal(count_work(TRACE_KERNEL, 0), 0);
	assert_int_equal(count_work(TRACE_COPY, 0), 2);
	assert_int_equal(the.slot->lost[TRACE_LOST_INCOMPLETE], 1);
	end();
}

static void test_nothing_delivered(void **state)
{
	(void) state;
	begin(ALL);
	(void) setenv("HIWATER_FAKE_CUPTI", "mute", 1);
	run(CUPTI_13, "launches");
	assert_int_equal(the.slot->why[3], TRACE_WHY_UNSUPPORTED);
	assert_string_equal(rig_text(the.slot, the.slot->detail), "libcupti delivered no records");
	assert_int_equal(the.slot->why[2], TRACE_WHY_NONE);
	end();
	begin(ALL);
	run(CUPTI_13, "memory"); /* nothing to deliver is no fault */
	assert_int_equal(the.slot->why[3], TRACE_WHY_NONE);
	end();
}

/* Kernels alone while a window is open; launches always. */
static void test_windows(void **state)
{
	char waits[3];
	int out, in;
	pid_t pid;

	(void) state;
	begin(ALL);
	the.rig.ring->layers = TRACE_MEMORY | TRACE_LAUNCHES;
	pid = start(CUPTI_13, "copies wait copies copies wait copies", &out, &in);
	for (int i = 0; i < 2; i++) {
		char *at;

		do {
			const size_t n = strlen(the.output);
			const ssize_t got = read(out, the.output + n, OUTPUT - 1 - n);

			assert_true(got > 0);
			the.output[n + (size_t) got] = '\0';
			at = strstr(the.output, "waiting\n");
		} while (!at);
		*at = '.';
		the.rig.ring->layers = i == 0 ? ALL : TRACE_MEMORY | TRACE_LAUNCHES;
		waits[0] = '\n';
		assert_int_equal(write(in, waits, 1), 1);
	}
	finish(pid, out, in);
	assert_int_equal(the.status, 0);
	/* It opens at the exit of the first call after; that is an allocation, which comes before the first copy. */
	assert_int_equal(count_work(TRACE_COPY, 0), 4);
	assert_int_equal(count_work(TRACE_FILL, 0), 2);
	assert_int_equal(count(TRACE_RING_ENTER, 0), 4 * 4);
	end();
}

/* ---- what is in the way ---------------------------------------------------------------------------------------- */

static void check_refused(enum trace_why why, const char *detail)
{
	for (unsigned layer = 1; layer < 4; layer++)
		assert_int_equal(the.slot->why[layer], why);
	assert_string_equal(rig_text(the.slot, the.slot->detail), detail);
	assert_int_equal(the.events.n, 0);
}

static void test_refused(void **state)
{
	static const struct {
		int cupti;
		const char *words;
		enum trace_why why;
		const char *detail;
	} rows[] = {
		{ CUPTI_13, "subscribe=39", TRACE_WHY_SUBSCRIBER, "CUPTI for othertool" },
		{ CUPTI_SHARED, "subscribe=39", TRACE_WHY_SUBSCRIBER, "CUPTI for othertool" },
		{ CUPTI_12, "subscribe=39", TRACE_WHY_SUBSCRIBER, "" },
		{ CUPTI_13, "subscribe=15", TRACE_WHY_UNSUPPORTED, "libcupti 130001, result 15" },
		{ CUPTI_13, "subscribe=999", TRACE_WHY_UNSUPPORTED, "libcupti 130001, result 999" },
		{ CUPTI_12, "subscribe=33", TRACE_WHY_UNSUPPORTED, "a vGPU without profiling" },
		{ CUPTI_13, "subscribe=41", TRACE_WHY_UNSUPPORTED, "confidential computing" },
		{ 0, "", TRACE_WHY_NO_LIBRARY, "/nowhere/libcupti.so.13" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin(ALL);
		(void) setenv("HIWATER_FAKE_CUPTI", rows[i].words, 1);
		run(rows[i].cupti, "memory launches");
		check_refused(rows[i].why, rows[i].detail);
		end();
	}
	begin(ALL);
	(void) setenv("NSYS_PROFILING_SESSION_ID", "1", 1);
	run(CUPTI_13, "memory launches");
	check_refused(TRACE_WHY_SUBSCRIBER, "Nsight Systems");
	end();
}

/* Kernels alone are refused: the rest goes on. */
static void test_kernels_refused(void **state)
{
	(void) state;
	begin(ALL);
	(void) setenv("HIWATER_FAKE_CUPTI", "kernels=33", 1);
	run(CUPTI_13, "memory launches");
	assert_int_equal(the.slot->why[3], TRACE_WHY_UNSUPPORTED);
	assert_int_equal(the.slot->why[2], TRACE_WHY_NONE);
	assert_int_equal(count_work(TRACE_KERNEL, 0), 0);
	assert_int_equal(count(TRACE_RING_ENTER, 0), 10001);
	assert_int_equal(use_of(GPU, 0).peak, says("peak"));
	end();
}

/* A driver that cannot share: one subscriber, with the V1 functions alone, or the fake ends the process. */
static void test_old_driver(void **state)
{
	(void) state;
	begin(ALL);
	(void) setenv("HIWATER_FAKE_CUPTI", "old-driver", 1);
	run(CUPTI_SHARED, "launches graphs");
	assert_int_equal(count_work(TRACE_KERNEL, 0), 10002);
	end();
}

static void test_failures(void **state)
{
	(void) state;
	begin(ALL);
	(void) setenv("HIWATER_FAKE_GPU_FAIL", "cuLaunchKernel=700", 1);
	run(CUPTI_13, "failure");
	assert_int_equal(count(TRACE_RING_LEAVE, TRACE_FAILED), says("failed"));
	assert_true(has_mark("cuLaunchKernel: illegal address (700)"));
	assert_int_equal(count(TRACE_RING_MARK, 0), 1);
	end();
}

/* The fake ends a child that uses CUPTI, in a call or at its exit. */
static void test_fork(void **state)
{
	(void) state;
	begin(ALL);
	run(CUPTI_13, "copies forks copies");
	assert_int_equal(says("child"), 1);
	assert_int_equal(count_work(TRACE_COPY, 0), 4);
	assert_int_equal(rig_slots_taken(&the.rig), 2);
	assert_int_equal(rig_slot(&the.rig, 1)->why[1], TRACE_WHY_FORKED);
	end();
}

static void test_killed(void **state)
{
	int out, in;

	(void) state;
	begin(ALL);
	const pid_t pid = start(CUPTI_13, "memory launches killed", &out, &in);

	finish(pid, out, in);
	assert_true(WIFSIGNALED(the.status) && WTERMSIG(the.status) == SIGKILL);
	assert_int_equal(use_of(GPU, 0).peak, says("peak"));
	assert_int_equal(count(TRACE_RING_ENTER, 0), 10001);
	assert_int_equal(count(TRACE_RING_LEAVE, 0), 10001);
	end();
}

/* What is missing of a job that is killed: launched, not captured, and without a record. */
static void test_killed_in_flight(void **state)
{
	int out, in;

	(void) state;
	for (int cupti = CUPTI_12; cupti <= CUPTI_SHARED; cupti++) {
		begin(ALL);
		const bool has_nodes = cupti == CUPTI_SHARED; /* of a graph: several records of one launch */
		const pid_t pid = start(cupti,
			has_nodes ? "launches copies captured killed" : "launches graphs copies captured killed", &out,
			&in);

		finish(pid, out, in);
		assert_true(WIFSIGNALED(the.status) && WTERMSIG(the.status) == SIGKILL);
		assert_int_equal(the.slot->lost[TRACE_LOST_INCOMPLETE], 0);
		assert_true(the.slot->in_flight > 0);
		/* 10,000 kernels, 2 copies, 1 fill, and 2 graphs. */
		assert_int_equal(count_work(TRACE_KERNEL, 0) + count_work(TRACE_COPY, 0) + count_work(TRACE_FILL, 0) +
					 (size_t) the.slot->in_flight,
			has_nodes ? 10003 : 10005);
		end();
	}
	begin(ALL);
	run(CUPTI_13, "launches graphs copies captured");
	assert_true(the.slot->in_flight <= 0); /* all was delivered */
	end();
}

/* Nothing is asked for that is CUDA's: CUPTI is not even loaded. */
static void test_ranges_alone(void **state)
{
	(void) state;
	begin(TRACE_RANGES);
	(void) setenv("HIWATER_FAKE_CUPTI", "subscribe=39", 1);
	run(CUPTI_13, "memory launches");
	assert_int_equal(rig_slots_taken(&the.rig), 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_peak_is_exact),
		cmocka_unit_test(test_host_and_arrays),
		cmocka_unit_test(test_physical_memory),
		cmocka_unit_test(test_unseen_memory),
		cmocka_unit_test(test_many_blocks),
		cmocka_unit_test(test_address_used_again),
		cmocka_unit_test(test_out_of_memory),
		cmocka_unit_test(test_contexts),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_launches),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_graphs),
		cmocka_unit_test(test_records_that_are_wrong),
		cmocka_unit_test(test_pool_is_full),
		cmocka_unit_test(test_pool_goes_round),
		cmocka_unit_test(test_captured_records),
		cmocka_unit_test(test_unfinished),
		cmocka_unit_test(test_nothing_delivered),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_kernels_refused),
		cmocka_unit_test(test_old_driver),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_killed_in_flight),
		cmocka_unit_test(test_ranges_alone),
	};

	return cmocka_run_group_tests_name("cuda", tests, NULL, NULL);
}

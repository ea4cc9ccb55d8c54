/* SPDX-License-Identifier: MIT
 *
 * Stacks: this program's own, with its registers, copied as the kernel would; whole, cut and broken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "where/names.h"
#include "where/unwind.h"

enum {
	SP = 7, /* perf's numbers of x86-64 */
	IP = 8,
	COPY = 64 << 10,
	PID = 4711,
};

static struct rig {
	struct modules *modules;
	struct image *image;
	struct unwind *unwind;
	struct names *names;
	int proc;
	uint64_t stack_end;
	unsigned char stack[COPY];
	struct record sample;
} rig;

static void read_maps(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[5000];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long long start, end, offset, inode;
		unsigned major, minor;
		char rights[5];
		int at = 0;
		struct record map = { .kind = RECORD_MAP, .pid = getpid(), .tid = getpid() };

		assert_int_equal(sscanf(line, "%llx-%llx %4s %llx %x:%x %llu %n", &start, &end, rights, &offset, &major, &minor,
					 &inode, &at),
			7);
		line[strcspn(line, "\n")] = '\0';
		if (strcmp(line + at, "[stack]") == 0)
			rig.stack_end = end;
		if (rights[2] != 'x' || line[at] != '/')
			continue;
		map.map.start = start;
		map.map.length = end - start;
		map.map.offset = offset;
		map.map.major = major;
		map.map.minor = minor;
		map.map.inode = inode;
		map.map.path = line + at;
		image_add(&rig.image, &map);
	}
	assert_int_equal(fclose(maps), 0);
}

static int set_up(void **state)
{
	(void) state;
	memset(&rig, 0, sizeof(rig));
	rig.proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rig.modules = modules_new(rig.proc);
	rig.image = image_new(rig.modules);
	rig.unwind = unwind_new();
	rig.names = names_new();
	read_maps();
	return 0;
}

static int tear_down(void **state)
{
	(void) state;
	unwind_free(rig.unwind);
	names_free(rig.names);
	image_leave(rig.image);
	modules_free(rig.modules);
	(void) close(rig.proc);
	return 0;
}

/* ---- a copy ---------------------------------------------------------------------------------- */

#ifdef __x86_64__

static bool is_supported(void)
{
	return unwind_has_library();
}

/* What a sample has: registers that a call keeps, and all of the stack. */
__attribute__((noinline, no_sanitize("address", "undefined"))) static void take_sample(void)
{
	uint64_t r[8];
	volatile const unsigned char *from;
	size_t n;

	__asm__ volatile("movq %%rbx, 0(%0)\n"
			 "movq %%rbp, 8(%0)\n"
			 "movq %%rsp, 16(%0)\n"
			 "movq %%r12, 24(%0)\n"
			 "movq %%r13, 32(%0)\n"
			 "movq %%r14, 40(%0)\n"
			 "movq %%r15, 48(%0)\n"
			 "leaq 0(%%rip), %%rax\n"
			 "movq %%rax, 56(%0)\n"
		:
		: "r"(r)
		: "rax", "memory");
	from = (volatile const unsigned char *) (uintptr_t) r[2];
	n = rig.stack_end - r[2] < COPY ? (size_t) (rig.stack_end - r[2]) : COPY;
	for (size_t i = 0; i < n; i++)
		rig.stack[i] = from[i];
	rig.sample = (struct record) { .kind = RECORD_SAMPLE, .pid = PID, .tid = PID };
	rig.sample.sample.has_registers = true;
	rig.sample.sample.registers[1] = r[0];
	rig.sample.sample.registers[6] = r[1];
	rig.sample.sample.registers[SP] = r[2];
	for (int i = 0; i < 4; i++)
		rig.sample.sample.registers[20 + i] = r[3 + i];
	rig.sample.sample.registers[IP] = rig.sample.sample.ip = r[7];
	rig.sample.sample.stack = rig.stack;
	rig.sample.sample.stack_bytes = (uint32_t) (n / 8 * 8);
}

#else

static bool is_supported(void)
{
	return false;
}

static void take_sample(void)
{
}

#endif

int unwind_inner(int n);
int unwind_middle(int n);
int unwind_outer(int n);

__attribute__((noinline)) int unwind_inner(int n)
{
	volatile int kept = n;

	take_sample();
	return kept + 1;
}

__attribute__((noinline)) int unwind_middle(int n)
{
	volatile char room[300] = { 0 };

	room[7] = (char) n;
	return unwind_inner(n) + room[7];
}

__attribute__((noinline)) int unwind_outer(int n)
{
	volatile int kept = unwind_middle(n);

	return kept + 1;
}

/* Names of the stack's frames, the innermost first: "a < b < …". */
static void chain_of(uint32_t number, char *ret, size_t bytes)
{
	size_t n = 0;

	ret[0] = '\0';
	for (uint32_t at = number; at > 0; at = unwind_node(rig.unwind, at - 1)->parent) {
		const struct where_stack *const node = unwind_node(rig.unwind, at - 1);
		const struct unwind_frame *const frame = unwind_frame(rig.unwind, node->frame - 1);
		struct place_name name = { .function = "?" };

		assert_true(node->parent < at && node->frame > 0 && node->frame <= unwind_frame_count(rig.unwind));
		if (frame->module)
			names_of(rig.names, frame->module, frame->offset, &name);
		n += (size_t) snprintf(ret + n, bytes - n, "%s%s", n ? " < " : "", frame->is_cut ? "…" : name.function);
		assert_true(n < bytes);
	}
}

/* As an exact copy: a sanitizer detects a byte read past it. */
static uint32_t unwind_of(size_t bytes)
{
	unsigned char *const copy = malloc(bytes ? bytes : 1);
	struct record sample = rig.sample;
	uint32_t number;

	assert_non_null(copy);
	memcpy(copy, rig.stack, bytes);
	sample.sample.stack = copy;
	sample.sample.stack_bytes = (uint32_t) bytes;
	number = unwind_stack(rig.unwind, rig.image, &sample);
	free(copy);
	return number;
}

#define CHAIN "take_sample < unwind_inner < unwind_middle < unwind_outer < "

static void begin(void)
{
	if (!is_supported()) {
		print_message("no libdw here, or another machine than x86-64\n");
		skip();
	}
	assert_int_equal(unwind_outer(1) > 0, 1);
}

static void a_whole_stack_has_its_functions(void **state)
{
	char chain[8192];
	uint32_t number;
	size_t frames;

	(void) state;
	begin();
	number = unwind_of(rig.sample.sample.stack_bytes);
	assert_true(number > 0);
	chain_of(number, chain, sizeof(chain));
	assert_memory_equal(chain, CHAIN, strlen(CHAIN));
	assert_non_null(strstr(chain, " < main < "));
	assert_string_equal(chain + strlen(chain) - strlen("_start"), "_start");
	assert_null(strstr(chain, "…"));
	/* The same again is the same. */
	frames = unwind_frame_count(rig.unwind);
	assert_int_equal(unwind_of(rig.sample.sample.stack_bytes), number);
	assert_int_equal(unwind_frame_count(rig.unwind), frames);
}

static void a_cut_stack_has_its_mark(void **state)
{
	char chain[8192], cut[8192];
	const char *end;

	(void) state;
	begin();
	chain_of(unwind_of(rig.sample.sample.stack_bytes), chain, sizeof(chain));
	for (size_t n = 0; n <= 1024; n += 8) {
		chain_of(unwind_of(n), cut, sizeof(cut));
		end = strstr(cut, " < …");
		if (!end)
			fail_msg("%zu bytes: %s", n, cut);
		assert_int_equal(end[strlen(" < …")], '\0');
		assert_memory_equal(cut, chain, (size_t) (end - cut)); /* what it has is right */
	}
}

/* Where it is cut, words of code further in are no callers. */
static void a_cut_stack_is_not_continued(void **state)
{
	char chain[8192], cut[8192];
	uint64_t code;
	const char *end;

	(void) state;
	begin();
	chain_of(unwind_of(rig.sample.sample.stack_bytes), chain, sizeof(chain));
	code = rig.sample.sample.registers[IP];
	memcpy(rig.stack + 8, &code, sizeof(code));
	chain_of(unwind_of(64), cut, sizeof(cut));
	end = strstr(cut, " < …");
	assert_non_null(end);
	assert_int_equal(end[strlen(" < …")], '\0');
	assert_memory_equal(cut, chain, (size_t) (end - cut));
}

static void nonsense_is_survived(void **state)
{
	static const uint64_t values[] = { 0, 1, 8, 4096, INT64_MAX, UINT64_MAX - 15, UINT64_MAX - 8, UINT64_MAX - 7, UINT64_MAX };
	struct record good;

	(void) state;
	begin();
	good = rig.sample;
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		for (int k = 0; k < EVENTS_REGISTERS; k++) {
			rig.sample = good;
			rig.sample.sample.registers[k] = values[i];
			assert_true(unwind_of(256) > 0);
			assert_true(unwind_of(7) > 0);
		}
		for (int k = 0; k < EVENTS_REGISTERS; k++)
			rig.sample.sample.registers[k] = values[i];
		assert_true(unwind_of(256) > 0);
	}
	/* Words that lead anywhere. */
	srand(1);
	rig.sample = good;
	for (int i = 0; i < 200; i++) {
		for (int k = 0; k < 40; k++)
			rig.stack[rand() % 4096] = (unsigned char) rand();
		assert_true(unwind_of(4096) > 0);
	}
	assert_true(unwind_stack_count(rig.unwind) < 100000);
}

/* A stack whose return addresses are all of one function is no deeper than that. */
static void a_circle_ends(void **state)
{
	uint64_t code = 0;

	(void) state;
	begin();
	code = rig.sample.sample.registers[IP];
	for (size_t i = 0; i + 8 <= COPY; i += 8)
		memcpy(rig.stack + i, &code, sizeof(code));
	for (uint64_t sp = 0; sp < 64; sp += 8) {
		rig.sample.sample.registers[SP] += 8;
		assert_true(unwind_of(COPY / 2) > 0);
	}
	assert_true(unwind_stack_count(rig.unwind) <= 8 * (UNWIND_DEPTH + 1));
}

static void code_without_a_file_is_the_processs(void **state)
{
	uint32_t number;
	const struct unwind_frame *frame;

	(void) state;
	begin();
	rig.sample.sample.registers[IP] = 0x1234;
	memset(rig.stack, 0, 64);
	number = unwind_of(64);
	assert_true(number > 0);
	frame = unwind_frame(rig.unwind, unwind_node(rig.unwind, number - 1)->frame - 1);
	assert_null(frame->module);
	assert_int_equal(frame->offset, 0x1234);
	assert_int_equal(frame->pid, PID);
	assert_false(frame->is_cut);
}

/* Code like Python's trampolines, without a table: its caller is where the stack has it. */
static void a_trampoline_is_left(void **state)
{
	char chain[8192];
	uint64_t call;

	(void) state;
	begin();
	call = rig.sample.sample.registers[IP];
	memmove(rig.stack + 16, rig.stack, COPY - 16);
	memset(rig.stack, 0, 8);
	memcpy(rig.stack + 8, &call, sizeof(call));
	rig.sample.sample.registers[SP] -= 16;
	rig.sample.sample.registers[IP] = 0x1234;
	chain_of(unwind_of(rig.sample.sample.stack_bytes), chain, sizeof(chain));
	assert_memory_equal(chain, "? < " CHAIN, strlen("? < " CHAIN));
	assert_null(strstr(chain, "…"));
}

static void without_registers_it_is_one_frame(void **state)
{
	uint32_t number;

	(void) state;
	begin();
	rig.sample.sample.has_registers = false;
	rig.sample.sample.ip = rig.sample.sample.registers[IP];
	number = unwind_of(256);
	char chain[1000];

	chain_of(number, chain, sizeof(chain));
	assert_string_equal(chain, "take_sample < …");
}

/* More images than tables are kept. */
static void many_images(void **state)
{
	struct image *images[60];
	char chain[8192];

	(void) state;
	begin();
	image_leave(rig.image);
	for (int i = 0; i < 60; i++) {
		rig.image = image_new(rig.modules);
		read_maps();
		chain_of(unwind_of(4096), chain, sizeof(chain));
		assert_memory_equal(chain, CHAIN, strlen(CHAIN));
		images[i] = rig.image;
	}
	for (int i = 0; i < 59; i++)
		image_leave(images[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_whole_stack_has_its_functions),
		TEST(a_cut_stack_has_its_mark),
		TEST(a_cut_stack_is_not_continued),
		TEST(nonsense_is_survived),
		TEST(a_circle_ends),
		TEST(code_without_a_file_is_the_processs),
		TEST(a_trampoline_is_left),
		TEST(without_registers_it_is_one_frame),
		TEST(many_images),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

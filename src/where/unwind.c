/* SPDX-License-Identifier: MIT */
#include "where/unwind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_LIBDW
#include <elfutils/libdwfl.h>
#endif

#include "base/map.h"

enum {
	TABLES = 24,  /* images whose unwind tables are kept at once */
	MAPS_AT_ONCE = 64,
};

/* An image as libdwfl has it. */
struct tables {
	struct image *image; /* NULL: unused */
	uint64_t used;       /* the latest is the largest */
	size_t n_maps;       /* that were reported */
#ifdef HAVE_LIBDW
	Dwfl *dwfl;
#endif
	bool is_attached;
};

struct unwind {
	struct tables tables[TABLES];
	uint64_t uses;
	struct unwind_frame *frames;
	size_t n_frames, cap_frames;
	struct where_stack *stacks;
	size_t n_stacks, cap_stacks;
	struct map frame_places, stack_places;
	/* the stack that is unwound */
	const struct record *sample;
	uint64_t registers[EVENTS_REGISTERS]; /* numbers as DWARF has them */
	uint64_t ip, sp;
	struct image *image;
	uint64_t places[UNWIND_DEPTH];        /* program counters, the innermost first */
	size_t n_places;
	bool is_complete;
	bool has_missed;                      /* behind the last frame something outside the copy was needed */
	bool is_outside;                      /* the last frame is of code without a module */
};

/* Registers: the numbers of DWARF, and those of perf. */
#if defined(__x86_64__)
enum {
	DWARF_SP = 7,
	DWARF_REGISTERS = 17,
};
static const int perf_number[DWARF_REGISTERS] = { 0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 8 };
#elif defined(__aarch64__)
enum {
	DWARF_SP = 31,
	DWARF_REGISTERS = 32,
};
static const int perf_number[DWARF_REGISTERS] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
	17, 18, 19,
	20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31 };
#else
enum {
	DWARF_SP = 0,
	DWARF_REGISTERS = 1,
};
static const int perf_number[DWARF_REGISTERS] = { 0 };
#endif

/* ---- frames and nodes ------------------------------------------------------------------------ */

static bool grow(void **list, size_t n, size_t *cap, size_t size, size_t most)
{
	const size_t more = *cap ? 2 * *cap : 256;
	void *new;

	if (n < *cap)
		return true;
	new = n < most ? realloc(*list, more * size) : NULL;
	if (!new)
		return false;
	*list = new;
	*cap = more;
	return true;
}

static bool is_equal(const struct unwind_frame *a, const struct unwind_frame *b)
{
	return a->module == b->module && a->offset == b->offset && a->pid == b->pid && a->is_cut == b->is_cut;
}

/* A chain of numbers from a hash on, since two may have one hash. */
static uint32_t number_of_frame(struct unwind *u, const struct unwind_frame *frame)
{
	uint64_t key = map_mixed(map_mixed(1, frame->module ? frame->module->number : 0), frame->offset);
	uint32_t number;

	key = map_mixed(key, (uint64_t) frame->pid << 1 | frame->is_cut);
	for (; map_get(&u->frame_places, key, &number); key++) {
		if (is_equal(&u->frames[number - 1], frame))
			return number;
	}
	if (!grow((void **) &u->frames, u->n_frames, &u->cap_frames, sizeof(*u->frames), WHERE_FRAMES) ||
		map_put(&u->frame_places, key, (uint32_t) u->n_frames + 1) < 0)
		return 0;
	u->frames[u->n_frames++] = *frame;
	return (uint32_t) u->n_frames;
}

static uint32_t number_of_node(struct unwind *u, uint32_t parent, uint32_t frame)
{
	uint64_t key = map_mixed(map_mixed(2, parent), frame);
	uint32_t number;

	for (; map_get(&u->stack_places, key, &number); key++) {
		if (u->stacks[number - 1].parent == parent && u->stacks[number - 1].frame == frame)
			return number;
	}
	if (!grow((void **) &u->stacks, u->n_stacks, &u->cap_stacks, sizeof(*u->stacks), WHERE_STACKS) ||
		map_put(&u->stack_places, key, (uint32_t) u->n_stacks + 1) < 0)
		return 0;
	u->stacks[u->n_stacks++] = (struct where_stack) { parent, frame };
	return (uint32_t) u->n_stacks;
}

/* The places that were found, from the outermost on. */
static uint32_t number_of_stack(struct unwind *u)
{
	uint32_t node = 0;

	if (!u->is_complete)
		node = number_of_node(u, 0, number_of_frame(u, &(struct unwind_frame) { .is_cut = true }));
	for (size_t i = u->n_places; i > 0; i--) {
		struct unwind_frame frame = { .offset = u->places[i - 1], .pid = u->sample->pid };
		struct image_map map;
		uint32_t number;

		if (image_find(u->image, u->places[i - 1], &map) && map.module->is_elf)
			frame = (struct unwind_frame) { .module = map.module,
				.offset = frame.offset - map.bias };
		number = number_of_frame(u, &frame);
		node = number ? number_of_node(u, node, number) : 0;
		if (node == 0)
			return 0;
	}
	return node;
}

/* ---- libdwfl --------------------------------------------------------------------------------- */

#ifdef HAVE_LIBDW

static int no_file(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base, char **file,
	Elf **elf)
{
	(void) module, (void) user, (void) name, (void) base, (void) file, (void) elf;
	return -1;
}

static int no_debug_file(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
	const char *file,
	const char *link, GElf_Word crc, char **ret)
{
	(void) module, (void) user, (void) name, (void) base, (void) file, (void) link, (void) crc,
		(void) ret;
	return -1;
}

/* Unwinding needs no names. */
static const Dwfl_Callbacks files = {
	.find_elf = no_file,
	.find_debuginfo = no_debug_file,
};

static pid_t next_thread(Dwfl *dwfl, void *ctx, void **arg)
{
	struct unwind *u = ctx;
	const bool is_first = *arg == NULL;

	(void) dwfl;
	*arg = u;
	return is_first ? u->sample->pid : 0;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *ctx, void **arg)
{
	(void) dwfl, (void) tid;
	*arg = ctx;
	return true;
}

static bool read_stack(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *ret, void *ctx)
{
	struct unwind *u = ctx;
	const uint64_t at = address - u->sp, bytes = u->sample->sample.stack_bytes;

	(void) dwfl;
	if (bytes < sizeof(*ret) || at > bytes - sizeof(*ret)) { /* also below sp: the difference wraps */
		u->has_missed = true;
		return false;
	}
	memcpy(ret, u->sample->sample.stack + at, sizeof(*ret));
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *ctx)
{
	struct unwind *u = ctx;
	Dwarf_Word values[DWARF_REGISTERS];

	for (int i = 0; i < DWARF_REGISTERS; i++)
		values[i] = u->registers[i];
	if (!dwfl_thread_state_registers(thread, 0, DWARF_REGISTERS, values))
		return false;
#ifdef __aarch64__
	dwfl_thread_state_register_pc(thread, u->registers[32]);
#endif
	return true;
}

static const Dwfl_Thread_Callbacks threads = {
	.next_thread = next_thread,
	.get_thread = get_thread,
	.memory_read = read_stack,
	.set_initial_registers = set_registers,
};

/* The registers of a frame in code without a module, at which the unwinding continues. */
static void keep_registers(struct unwind *u, Dwfl_Frame *frame, uint64_t pc)
{
#ifdef __x86_64__
	for (unsigned i = 0; i < 16; i++) {
		Dwarf_Word value;

		u->registers[i] = dwfl_frame_reg(frame, i, &value) == 0 ? value : 0;
	}
	u->registers[16] = pc;
#else
	(void) u, (void) frame, (void) pc;
#endif
}

static int see_frame(Dwfl_Frame *frame, void *ctx)
{
	struct unwind *u = ctx;
	bool is_activation;
	struct image_map map;
	Dwarf_Addr pc;

	u->has_missed = false; /* before dwfl_frame_pc, which unwinds this frame */
	if (!dwfl_frame_pc(frame, &pc, &is_activation) || pc == 0)
		return DWARF_CB_ABORT;
	if (u->n_places == UNWIND_DEPTH) {
		u->is_complete = false;
		return DWARF_CB_ABORT;
	}
	u->places[u->n_places++] = is_activation ? pc : pc - 1;
	if (image_find(u->image, u->places[u->n_places - 1], &map) && map.module->is_elf)
		return DWARF_CB_OK;
	keep_registers(u, frame, pc);
	u->is_outside = true;
	u->is_complete = false;
	return DWARF_CB_ABORT;
}

static void close_tables(struct tables *t)
{
	if (t->dwfl)
		dwfl_end(t->dwfl);
	image_unref(t->image);
	*t = (struct tables) { .image = NULL };
}

static void report_maps(struct tables *t)
{
	struct image_map maps[MAPS_AT_ONCE];
	size_t n;

	while ((n = image_maps(t->image, t->n_maps, maps, MAPS_AT_ONCE)) > 0) {
		dwfl_report_begin_add(t->dwfl);
		for (size_t i = 0; i < n; i++) {
			const int fd = module_open(maps[i].module);

			if (fd >= 0 && !dwfl_report_elf(t->dwfl, maps[i].module->path, maps[i].module->path,
					       fd,
					       maps[i].bias + maps[i].module->first_address, false))
				(void) close(fd);
		}
		(void) dwfl_report_end(t->dwfl, NULL, NULL);
		t->n_maps += n;
	}
}

static struct tables *tables_of(struct unwind *u)
{
	struct tables *oldest = &u->tables[0];

	for (size_t i = 0; i < TABLES; i++) {
		struct tables *const t = &u->tables[i];

		if (t->image == u->image) {
			t->used = ++u->uses;
			return t;
		}
		if (t->used < oldest->used)
			oldest = t;
	}
	close_tables(oldest);
	oldest->dwfl = dwfl_begin(&files);
	if (!oldest->dwfl)
		return NULL;
	oldest->image = image_ref(u->image);
	oldest->used = ++u->uses;
	return oldest;
}

/* Python's trampolines (PYTHONPERFSUPPORT) have no unwind tables: they push nothing, or rbp alone.
 * */
static bool leave_trampoline(struct unwind *u)
{
#ifdef __x86_64__
	struct image_map map;
	Dwarf_Word word;

	for (uint64_t skip = 8; skip <= 16; skip += 8) {
		const uint64_t at = u->registers[DWARF_SP] + skip;

		if (!read_stack(NULL, at, &word, u) || !image_find(u->image, word - 1, &map) ||
			!map.module->is_elf)
			continue;
		u->registers[16] = word - 1; /* of the call */
		u->registers[DWARF_SP] = at + 8;
		return true;
	}
#else
	(void) u;
#endif
	return false;
}

static void unwind_native(struct unwind *u)
{
	struct tables *const t = tables_of(u);
	bool continues = t != NULL;

	if (t)
		report_maps(t);
	if (t && !t->is_attached)
		t->is_attached = dwfl_attach_state(t->dwfl, NULL, u->sample->pid, &threads, u);
	while (continues && t->is_attached) {
		const size_t before = u->n_places;

		u->is_complete = true;
		u->has_missed = u->is_outside = false;
		/* To libdwfl a return address that it cannot read is the end of the stack. */
		if (dwfl_getthread_frames(t->dwfl, dwfl_pid(t->dwfl), see_frame, u) < 0 || u->has_missed)
			u->is_complete = false;
		continues = u->is_outside && u->n_places > before && u->n_places < UNWIND_DEPTH &&
			    leave_trampoline(u);
	}
}

bool unwind_has_library(void)
{
	return true;
}

#else

static void close_tables(struct tables *t)
{
	image_unref(t->image);
	t->image = NULL;
}

static void unwind_native(struct unwind *u)
{
	(void) u;
}

bool unwind_has_library(void)
{
	return false;
}

#endif

/* ---- a sample -------------------------------------------------------------------------------- */

uint32_t unwind_stack(struct unwind *u, struct image *image, const struct record *sample)
{
	u->sample = sample;
	u->image = image;
	u->n_places = 0;
	u->is_complete = false;
	u->ip = record_place(sample);
	for (int i = 0; i < DWARF_REGISTERS; i++)
		u->registers[i] = sample->sample.registers[perf_number[i]];
#ifdef __aarch64__
	u->registers[32] = sample->sample.registers[32];
#endif
	u->sp = u->registers[DWARF_SP];
	if (sample->sample.has_registers)
		unwind_native(u);
	if (u->n_places == 0)
		u->places[u->n_places++] = u->ip;
	return number_of_stack(u);
}

/* ---- all of it ------------------------------------------------------------------------------- */

struct unwind *unwind_new(void)
{
	return calloc(1, sizeof(struct unwind));
}

void unwind_free(struct unwind *u)
{
	if (!u)
		return;
	for (size_t i = 0; i < TABLES; i++)
		close_tables(&u->tables[i]);
	map_done(&u->frame_places);
	map_done(&u->stack_places);
	free(u->frames);
	free(u->stacks);
	free(u);
}

size_t unwind_frame_count(const struct unwind *u)
{
	return u->n_frames;
}

const struct unwind_frame *unwind_frame(const struct unwind *u, size_t i)
{
	return &u->frames[i];
}

size_t unwind_stack_count(const struct unwind *u)
{
	return u->n_stacks;
}

const struct where_stack *unwind_node(const struct unwind *u, size_t i)
{
	return &u->stacks[i];
}

/* SPDX-License-Identifier: MIT */
#include "where/outbox.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/map.h"
#include "where/lines.h"

enum {
	MOST = 256 << 20, /* bytes that wait for the recorder */
	ROWS = 12000,     /* of a high: 16 highs take 3 MiB of the recording then */
	FILES = 1000,
};

/* Which numbers were sent. */
struct flags {
	unsigned char *bits;
	size_t n;
};

struct row {
	uint32_t stack, process;
	uint64_t bytes, n, copied;
};

struct outbox {
	int fd;
	uint64_t sample_bytes;
	struct buf lines;
	size_t sent;               /* of them */
	struct flags frames, stacks, processes;
	struct row *rows;          /* of a high */
	size_t n_rows, cap_rows;
};

/* True the first time. */
static bool set_flag(struct flags *f, uint32_t number)
{
	if (number >= f->n) {
		const size_t n = 2 * (size_t) number + 1024;
		unsigned char *const bits = realloc(f->bits, n);

		if (!bits)
			return false;
		memset(bits + f->n, 0, n - f->n);
		f->bits = bits;
		f->n = n;
	}
	if (f->bits[number])
		return false;
	f->bits[number] = 1;
	return true;
}

static void clear_flags(struct flags *f)
{
	if (f->n > 0)
		memset(f->bits, 0, f->n);
}

struct outbox *outbox_new(int fd, uint64_t sample_bytes)
{
	struct outbox *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->fd = fd;
	o->sample_bytes = sample_bytes;
	o->lines = (struct buf) BUF_INIT(MOST);
	return o;
}

void outbox_free(struct outbox *o)
{
	if (!o)
		return;
	buf_done(&o->lines);
	free(o->frames.bits);
	free(o->stacks.bits);
	free(o->processes.bits);
	free(o->rows);
	free(o);
}

struct buf *outbox_lines(struct outbox *o)
{
	return &o->lines;
}

void outbox_forget(struct outbox *o)
{
	clear_flags(&o->frames);
	clear_flags(&o->stacks);
	clear_flags(&o->processes);
}

/* ---- frames and stacks ----------------------------------------------------------------------- */

static void put_frame(struct outbox *o, uint32_t number, const struct unwind_frame *f,
	const struct place_name *name)
{
	static const struct place_name none = { .function = "" };

	if (!name)
		name = &none;
	(void) buf_str(&o->lines, "frame");
	lines_number(&o->lines, number);
	lines_text(&o->lines, f->is_cut ? "" : f->module ? f->module->path
							 : "[jit]");
	lines_text(&o->lines, f->module ? f->module->build_id : "");
	lines_number(&o->lines, f->offset);
	lines_text(&o->lines, f->is_cut ? "…" : name->function);
	lines_text(&o->lines, name->file);
	lines_number(&o->lines, name->line);
	(void) buf_str(&o->lines, "\n");
}

/* Callers first. */
static void put_stack(struct outbox *o, const struct unwind *u, uint32_t number)
{
	uint32_t path[UNWIND_DEPTH + 2];
	size_t n = 0;

	for (uint32_t at = number; at > 0 && n < sizeof(path) / sizeof(*path); at = unwind_node(u,
										       at - 1)
										       ->parent) {
		if (at < o->stacks.n && o->stacks.bits[at])
			break;
		path[n++] = at;
	}
	for (; n > 0; n--) {
		const struct where_stack *const stack = unwind_node(u, path[n - 1] - 1);

		(void) set_flag(&o->stacks, path[n - 1]);
		if (set_flag(&o->frames, stack->frame))
			put_frame(o, stack->frame, unwind_frame(u, stack->frame - 1), NULL);
		(void) buf_str(&o->lines, "stack");
		lines_number(&o->lines, path[n - 1]);
		lines_number(&o->lines, stack->parent);
		lines_number(&o->lines, stack->frame);
		(void) buf_str(&o->lines, "\n");
	}
}

static void put_process(struct outbox *o, const struct tree *t, uint32_t number)
{
	const struct tree_process *const p = tree_process(t, number - 1);

	(void) buf_str(&o->lines, "process");
	lines_number(&o->lines, number);
	lines_number(&o->lines, (uint64_t) p->pid);
	lines_text(&o->lines, p->name);
	(void) buf_str(&o->lines, "\n");
}

/* ---- highs ----------------------------------------------------------------------------------- */

bool outbox_is_ready(const struct tree_high *high, struct worker *w)
{
	bool is_ready = true;

	for (size_t i = 0; i < high->n_shares; i++) {
		struct sample *const s = sample_first(high->shares[i].sample);

		if (s->stack || s->has_failed)
			continue;
		is_ready = false;
		worker_add(w, s);
	}
	return is_ready;
}

static int by_key(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->stack != y->stack)
		return x->stack < y->stack ? -1 : 1;
	return x->process < y->process ? -1 : x->process > y->process;
}

static int largest_first(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->bytes != y->bytes ? (x->bytes > y->bytes ? -1 : 1) : by_key(a, b);
}

/* One row for each stack and process. */
static void join_rows(struct outbox *o)
{
	size_t n = 0;

	if (o->n_rows == 0)
		return;
	qsort(o->rows, o->n_rows, sizeof(*o->rows), by_key);
	for (size_t i = 1; i < o->n_rows; i++) {
		if (by_key(&o->rows[n], &o->rows[i]) == 0) {
			o->rows[n].bytes += o->rows[i].bytes;
			o->rows[n].n += o->rows[i].n;
			o->rows[n].copied += o->rows[i].copied;
		} else {
			o->rows[++n] = o->rows[i];
		}
	}
	o->n_rows = n + 1;
}

/* The smallest become their callers', until there are few enough. Outermost frames have no caller:
 * what is left over then is unsampled. */
static void merge_small_rows(struct outbox *o, const struct unwind *u)
{
	for (unsigned round = 0; o->n_rows > ROWS && round < UNWIND_DEPTH; round++) {
		qsort(o->rows, o->n_rows, sizeof(*o->rows), largest_first);
		const size_t excess = o->n_rows - ROWS, n = 2 * excess < o->n_rows ? 2 * excess : o->n_rows;

		for (size_t i = o->n_rows - n; i < o->n_rows; i++) {
			const uint32_t caller = unwind_node(u, o->rows[i].stack - 1)->parent;

			if (caller)
				o->rows[i].stack = caller;
		}
		join_rows(o);
	}
	if (o->n_rows > ROWS) {
		qsort(o->rows, o->n_rows, sizeof(*o->rows), largest_first);
		o->n_rows = ROWS;
	}
}

/* The high's samples by stack and process. */
static void gather(struct outbox *o, const struct tree_high *high, const struct unwind *u)
{
	o->n_rows = 0;
	if (high->n_shares > o->cap_rows) {
		struct row *const rows = realloc(o->rows, high->n_shares * sizeof(*rows));

		if (!rows)
			return;
		o->rows = rows;
		o->cap_rows = high->n_shares;
	}
	for (size_t i = 0; i < high->n_shares; i++) {
		struct sample *const sample = high->shares[i].sample;
		const uint32_t stack = sample_first(sample)->stack;
		const uint64_t bytes = high->shares[i].bytes;

		if (!stack)
			continue;
		o->rows[o->n_rows++] = (struct row) {
			.stack = stack,
			.process = sample->process,
			.bytes = bytes,
			.n = 1,
			.copied = sample->is_copy ? bytes : 0,
		};
	}
	join_rows(o);
	merge_small_rows(o, u);
}

static int largest_file_first(const void *a, const void *b)
{
	const struct check_file *x = a, *y = b;

	return x->bytes != y->bytes ? (x->bytes > y->bytes ? -1 : 1) : strcmp(x->name, y->name);
}

static void put_file(struct outbox *o, const char *name, uint64_t bytes)
{
	(void) buf_str(&o->lines, "file");
	lines_text(&o->lines, name);
	lines_number(&o->lines, bytes);
	(void) buf_str(&o->lines, "\n");
}

/* The smallest are one, if there are many. */
static void put_files(struct outbox *o, const struct tree_high *high)
{
	uint64_t rest = 0;

	if (high->n_files > FILES)
		qsort(high->files, high->n_files, sizeof(*high->files), largest_file_first);
	for (size_t i = 0; i < high->n_files; i++) {
		if (i < FILES)
			put_file(o, high->files[i].name, high->files[i].bytes);
		else
			rest += high->files[i].bytes;
	}
	if (high->n_files > FILES)
		put_file(o, "[other files]", rest);
}

static void put_python(struct outbox *o, const struct where_python *p)
{
	(void) buf_str(&o->lines, "python");
	lines_number(&o->lines, p->process);
	lines_number(&o->lines, (uint64_t) p->thread);
	lines_number(&o->lines, p->time_ns);
	lines_number(&o->lines, p->n_frames);
	(void) buf_str(&o->lines, "\n");
	for (size_t i = 0; i < p->n_frames; i++) {
		(void) buf_str(&o->lines, "at");
		lines_text(&o->lines, p->frames[i].function);
		lines_text(&o->lines, p->frames[i].file);
		lines_number(&o->lines, p->frames[i].line);
		(void) buf_str(&o->lines, "\n");
	}
}

void outbox_high(struct outbox *o, struct tree *t, struct tree_high *high, struct worker *w)
{
	const struct unwind *const u = worker_lock(w);

	gather(o, high, u);
	for (size_t i = 0; i < o->n_rows; i++) {
		put_stack(o, u, o->rows[i].stack);
		if (set_flag(&o->processes, o->rows[i].process))
			put_process(o, t, o->rows[i].process);
	}
	worker_unlock(w);
	for (size_t i = 0; i < high->pythons.n; i++) {
		if (set_flag(&o->processes, high->pythons.list[i].process))
			put_process(o, t, high->pythons.list[i].process);
	}

	uint64_t known = 0;

	for (size_t i = 0; i < o->n_rows; i++)
		known += o->rows[i].bytes;
	for (size_t i = 0; i < high->n_files; i++)
		known += high->files[i].bytes;

	/* What was there before is the rest, as far as there is one: some of it may have been freed. */
	const uint64_t rest = high->total_bytes > known ? high->total_bytes - known : 0;
	const uint64_t before = tree_before(t) < rest ? tree_before(t) : rest;
	const uint64_t values[] = { high->number, high->time_boot_ns, high->total_bytes,
		high->checked_boot_ns, high->checked_bytes,
		before, o->sample_bytes, high->huge_bytes, high->lost, o->n_rows,
		high->n_files > FILES ? FILES + 1 : high->n_files, high->pythons.n };

	(void) buf_str(&o->lines, "high");
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		lines_number(&o->lines, values[i]);
	(void) buf_str(&o->lines, "\n");
	for (size_t i = 0; i < o->n_rows; i++) {
		const struct row *const row = &o->rows[i];

		(void) buf_printf(&o->lines, "row\t%u\t%u\t%llu\t%llu\t%llu\n", row->stack, row->process,
			(unsigned long long) row->bytes, (unsigned long long) row->n,
			(unsigned long long) row->copied);
	}
	put_files(o, high);
	for (size_t i = 0; i < high->pythons.n; i++)
		put_python(o, &high->pythons.list[i]);
	high->is_new = false;
	high->was_sent = true;
}

/* ---- names ----------------------------------------------------------------------------------- */

struct named {
	uint32_t number;
	struct unwind_frame frame;
};

static int by_module(const void *a, const void *b)
{
	const struct module *const x = ((const struct named *) a)->frame.module;
	const struct module *const y = ((const struct named *) b)->frame.module;
	const uint32_t m = x ? x->number : 0, n = y ? y->number : 0;

	return m < n ? -1 : m > n;
}

void outbox_names(struct outbox *o, struct worker *w, struct names *names, uint64_t until_ns)
{
	const struct unwind *const u = worker_lock(w);
	struct named *list = calloc(unwind_frame_count(u) + 1, sizeof(*list));
	size_t n = 0;

	for (uint32_t i = 1; list && i <= unwind_frame_count(u) && i < o->frames.n; i++) {
		if (o->frames.bits[i] && !unwind_frame(u, i - 1)->is_cut)
			list[n++] = (struct named) { i, *unwind_frame(u, i - 1) };
	}
	worker_unlock(w);
	if (n > 0)
		qsort(list, n, sizeof(*list), by_module);
	for (size_t i = 0; i < n && clock_awake_ns() < until_ns; i++) {
		struct place_name name;

		if (!outbox_send(o, 0))
			break;
		if (list[i].frame.module)
			names_of(names, list[i].frame.module, list[i].frame.offset, &name);
		else if (!names_of_map(names, list[i].frame.pid, list[i].frame.offset, &name))
			continue;
		put_frame(o, list[i].number, &list[i].frame, &name);
	}
	free(list);
}

/* ---- sending --------------------------------------------------------------------------------- */

bool outbox_send(struct outbox *o, int timeout_ms)
{
	const uint64_t until = clock_awake_ns() + (uint64_t) timeout_ms * 1000000;

	while (o->sent < o->lines.len) {
		const ssize_t n = send(o->fd, o->lines.data + o->sent, o->lines.len - o->sent,
			MSG_DONTWAIT | MSG_NOSIGNAL);
		const uint64_t now = clock_awake_ns();

		if (n > 0) {
			o->sent += (size_t) n;
			continue;
		}
		if (errno != EAGAIN && errno != EINTR)
			return false;
		if (now >= until)
			return true;
		(void) poll(&(struct pollfd) { .fd = o->fd, .events = POLLOUT }, 1,
			(int) ((until - now) / 1000000) + 1);
	}
	buf_clear(&o->lines);
	o->sent = 0;
	return true;
}

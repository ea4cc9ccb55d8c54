/* SPDX-License-Identifier: MIT */
#include "where/pythons.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t budget_start_ns = 100000000;
enum {
	BUDGET_PARTS = 333, /* of the time */
};

bool python_budget_left(struct python_budget *b, uint64_t now_ns)
{
	if (b->begun_ns == 0)
		b->begun_ns = now_ns;
	return b->spent_ns < budget_start_ns + (now_ns - b->begun_ns) / BUDGET_PARTS;
}

bool python_home_may(const struct python_home *h)
{
	return h->files[0].minor > 0 && !h->has_failed;
}

void python_home_map(struct python_home *h, struct image *image, uint64_t address)
{
	struct image_map map;
	unsigned minor;

	if (!image_find(image, address, &map) || !map.module || !map.module->is_elf)
		return;
	minor = python_minor(map.module->path);
	if (minor == 0 || h->python)
		return;
	const size_t i = h->files[0].minor > 0;

	h->files[i].minor = minor;
	h->files[i].base = map.bias + map.module->first_address;
	h->has_failed = false;
}

struct python_home python_home_fork(const struct python_home *h)
{
	struct python_home child = *h;

	child.python = NULL;
	child.thread = 0;
	return child;
}

void python_home_leave(struct python_home *h)
{
	python_free(h->python);
	*h = (struct python_home) { .python = NULL };
}

/* The outermost first, as the recording has them. Takes the texts. */
static int take(struct where_python *to, struct python_stack *stack)
{
	struct where_python_frame *const frames = calloc(stack->n, sizeof(*frames));

	if (!frames)
		return -ENOMEM;
	for (size_t i = 0; i < stack->n; i++) {
		const struct python_frame *const from = &stack->frames[stack->n - 1 - i];

		frames[i] = (struct where_python_frame) { from->function, from->file, from->line };
	}
	to->frames = frames;
	to->n_frames = stack->n;
	stack->n = 0;
	return 0;
}

/* The program has the interpreter, or the library; the other one is a short program, or a copy that is not used. */
static int open_python(struct python_home *h, pid_t pid)
{
	int r = -ENOENT;

	for (size_t i = 0; i < 2 && r == -ENOENT && h->files[i].minor > 0; i++)
		r = python_open(pid, h->files[i].minor, h->files[i].base, &h->python);
	return r;
}

int pythons_read(
	struct pythons *to, struct python_home *h, pid_t pid, uint32_t process, uint64_t now_boot_ns)
{
	struct where_python new = { .process = process, .time_ns = now_boot_ns, .thread = pid };
	struct python_stack stack = { .n = 0 };
	int r = 0;

	if (!python_home_may(h) || to->n == WHERE_PYTHONS)
		return -ESRCH;
	if (!h->python)
		r = open_python(h, pid);
	h->has_failed = r < 0;
	if (r < 0)
		return r;
	r = -ESRCH;
	if (h->thread && h->thread != pid)
		r = python_stack(h->python, h->thread, &stack);
	if (r == 0)
		new.thread = h->thread;
	else
		r = python_stack(h->python, 0, &stack);
	if (r == 0)
		r = take(&new, &stack);
	python_stack_done(&stack);
	if (r == 0)
		to->list[to->n++] = new;
	return r;
}

void pythons_done(struct pythons *p)
{
	for (size_t i = 0; i < p->n; i++)
		where_python_done(&p->list[i]);
	*p = (struct pythons) { .n = 0 };
}

void pythons_join(struct pythons *to, struct pythons *from)
{
	if (from->risen_bytes >= to->risen_bytes) {
		pythons_done(to);
		*to = *from;
		*from = (struct pythons) { .n = 0 };
	} else {
		pythons_done(from);
	}
}

/* SPDX-License-Identifier: MIT */
#include "model/trace.h"

#include <errno.h>
#include <string.h>

static const char *const kind_names[] = {
	[TRACE_RANGE] = "range",
	[TRACE_MARK] = "mark",
	[TRACE_LAUNCH] = "launch",
	[TRACE_KERNEL] = "kernel",
	[TRACE_COPY] = "copy",
	[TRACE_FILL] = "fill",
	[TRACE_ALLOC] = "alloc",
	[TRACE_FREE] = "free",
};
static const char *const memory_names[] = {
	[TRACE_MEMORY_UNKNOWN] = "",
	[TRACE_PAGEABLE] = "pageable",
	[TRACE_PINNED] = "pinned",
	[TRACE_DEVICE] = "device",
	[TRACE_ARRAY] = "array",
	[TRACE_MANAGED] = "managed",
};
static const char *const loss_names[] = {
	[TRACE_LOST_OVERWRITTEN] = "overwritten",
	[TRACE_LOST_THREADS] = "threads",
	[TRACE_LOST_NAMES] = "names",
	[TRACE_LOST_DROPPED] = "dropped",
	[TRACE_LOST_INCOMPLETE] = "incomplete",
	[TRACE_LOST_DAMAGED] = "damaged",
	[TRACE_LOST_THINNED] = "thinned",
};
static const char *const layer_names[] = { "ranges", "memory", "launches", "kernels" };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

_Static_assert(COUNT(kind_names) == TRACE_KIND_COUNT, "a name a kind");
_Static_assert(COUNT(memory_names) == TRACE_MEMORY_COUNT, "a name a kind of memory");
_Static_assert(COUNT(loss_names) == TRACE_LOSS_COUNT, "a name a cause");

static int find(const char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(names[i], name) == 0)
			return (int) i;
	}
	return -1;
}

const char *trace_kind_name(enum trace_kind kind)
{
	return kind_names[kind];
}

int trace_kind_find(const char *name)
{
	return find(kind_names, COUNT(kind_names), name);
}

const char *trace_memory_name(enum trace_memory memory)
{
	return memory_names[memory];
}

int trace_memory_find(const char *name)
{
	return find(memory_names, COUNT(memory_names), name);
}

const char *trace_loss_name(enum trace_loss loss)
{
	return loss_names[loss];
}

int trace_loss_find(const char *name)
{
	return find(loss_names, COUNT(loss_names), name);
}

const char *trace_layer_name(unsigned layer)
{
	for (unsigned i = 0; i < COUNT(layer_names); i++) {
		if (layer == 1U << i)
			return layer_names[i];
	}
	return NULL;
}

/* The bit of the first len bytes of word; 0: it is no layer. */
static unsigned layer_of(const char *word, size_t len)
{
	for (unsigned i = 0; i < COUNT(layer_names); i++) {
		if (strlen(layer_names[i]) == len && memcmp(layer_names[i], word, len) == 0)
			return 1U << i;
	}
	return 0;
}

int trace_layers_parse(const char *list, unsigned *ret)
{
	unsigned layers = 0;

	for (const char *p = list; *list;) {
		const size_t len = strcspn(p, ",");
		const unsigned layer = layer_of(p, len);

		if (!layer)
			return -EINVAL;
		layers |= layer;
		if (!p[len])
			break;
		p += len + 1;
	}
	*ret = layers ? layers : TRACE_ALL;
	return 0;
}

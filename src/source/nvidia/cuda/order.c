/* SPDX-License-Identifier: MIT */
#include "source/nvidia/cuda/order.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"

enum cuda_ordering cuda_ordering_of(const char *value)
{
	return value && strcmp(value, "PCI_BUS_ID") == 0 ? CUDA_PCI_BUS_ID : CUDA_FASTEST_FIRST;
}

/* ---- order ----------------------------------------------------------------------------------- */

/* The first instance of a divided GPU, by which CUDA replaces the GPU; -1: it has none. */
static ssize_t first_instance(const struct cuda_device *list, size_t n, const char *uuid)
{
	ssize_t first = -1;

	for (size_t i = 0; i < n; i++) {
		if (strcmp(list[i].parent, uuid) == 0 &&
			(first < 0 || list[i].instance < list[first].instance))
			first = (ssize_t) i;
	}
	return first;
}

/* sysfs pads domain, bus, device and function to fixed widths, so they compare as text. A domain
 * may be longer. */
static int compare_pci(const char *a, const char *b)
{
	size_t x = strlen(a), y = strlen(b);

	return x == y ? strcmp(a, b) : x < y ? -1
					     : 1;
}

static bool are_alike(const struct cuda_device *list, const size_t *order, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		if (strcmp(list[order[i]].name, list[order[0]].name) != 0)
			return false;
	}
	return true;
}

ssize_t cuda_order(const struct cuda_device *list, size_t n, enum cuda_ordering by, size_t *order)
{
	size_t found = 0, kept = 0;

	for (size_t i = 0; i < n; i++) {
		size_t at = found;

		if (*list[i].parent)
			continue;
		if (!*list[i].pci)
			return -EAGAIN;
		for (; at > 0 && compare_pci(list[i].pci, list[order[at - 1]].pci) < 0; at--)
			order[at] = order[at - 1];
		order[at] = i;
		found++;
	}
	if (by == CUDA_FASTEST_FIRST && !are_alike(list, order, found))
		return -EAGAIN;
	for (size_t i = 0; i < found; i++) {
		const struct cuda_device *gpu = &list[order[i]];
		ssize_t instead = gpu->is_divided ? first_instance(list, n, gpu->uuid) : (ssize_t) order[i];

		if (instead >= 0)
			order[kept++] = (size_t) instead;
	}
	return (ssize_t) kept;
}

/* ---- selection ------------------------------------------------------------------------------- */

/* A word up to the next comma, without surrounding blanks. */
struct word {
	const char *text;
	size_t len;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool word_next(const char **p, struct word *ret)
{
	if (!*p)
		return false;
	const char *end = *p + strcspn(*p, ",");

	*ret = (struct word) { *p, (size_t) (end - *p) };
	*p = *end ? end + 1 : NULL;
	while (ret->len && is_blank(*ret->text)) {
		ret->text++;
		ret->len--;
	}
	while (ret->len && is_blank(ret->text[ret->len - 1]))
		ret->len--;
	return true;
}

static bool begins(const char *uuid, const struct word *w)
{
	return w->len <= strlen(uuid) && memcmp(uuid, w->text, w->len) == 0;
}

/* The only device whose UUID begins with the word; -1: none, or more than one. */
static ssize_t by_uuid(const struct cuda_device *list, size_t n, const struct word *w)
{
	ssize_t found = -1;

	for (size_t i = 0; i < n; i++) {
		if (!begins(list[i].uuid, w))
			continue;
		if (found >= 0)
			return -1;
		found = (ssize_t) i;
	}
	if (found >= 0 && list[found].is_divided)
		return first_instance(list, n, list[found].uuid);
	return found;
}

/* "MIG-GPU-UUID/3/0", the form before driver 470: GPU and compute instance of a GPU. */
static ssize_t by_old_uuid(const struct cuda_device *list, size_t n, const struct word *w)
{
	const char *slash = memchr(w->text, '/', w->len), *p = slash ? slash + 1 : NULL;
	const struct word parent = { w->text + 4, slash ? (size_t) (slash - w->text) - 4 : 0 };
	uint64_t gi, ci;

	if (!slash || parse_u64(&p, &gi) < 0 || *p++ != '/' || parse_u64(&p, &ci) < 0 ||
		p != w->text + w->len)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (*list[i].parent && strlen(list[i].parent) == parent.len &&
			begins(list[i].parent, &parent) && list[i].gpu_instance == gi &&
			list[i].compute_instance == ci)
			return (ssize_t) i;
	}
	return -1;
}

static ssize_t by_number(const size_t *order, size_t n_order, const struct word *w)
{
	const char *p = w->text;
	uint64_t number;

	if (parse_u64(&p, &number) < 0 || p != w->text + w->len || number >= n_order)
		return -1;
	return (ssize_t) order[number];
}

static bool word_begins(const struct word *w, const char *with)
{
	return w->len > strlen(with) && memcmp(w->text, with, strlen(with)) == 0;
}

static ssize_t find(
	const struct cuda_device *list, size_t n, const size_t *order, size_t n_order, const struct word *w)
{
	if (word_begins(w, "MIG-GPU-"))
		return by_old_uuid(list, n, w);
	if (word_begins(w, "GPU-") || word_begins(w, "MIG-"))
		return by_uuid(list, n, w);
	return by_number(order, n_order, w);
}

/* Numbers, UUIDs of GPUs and UUIDs of instances cannot be mixed. */
static int kind_of(const struct word *w)
{
	return word_begins(w, "GPU-") ? 1 : word_begins(w, "MIG-") ? 2
								   : 0;
}

static bool has(const size_t *list, size_t n, size_t what)
{
	for (size_t i = 0; i < n; i++) {
		if (list[i] == what)
			return true;
	}
	return false;
}

/* A process sees only one MIG instance, the first, even if it selects several. */
static ssize_t with_one_instance(const struct cuda_device *list, size_t n_found, size_t *ret)
{
	for (size_t i = 0; i < n_found; i++) {
		if (*list[ret[i]].parent) {
			ret[0] = ret[i];
			return 1;
		}
	}
	return (ssize_t) n_found;
}

ssize_t cuda_visible(const struct cuda_device *list, size_t n, const size_t *order, size_t n_order,
	const char *value, size_t *ret)
{
	size_t found = 0;
	struct word w;
	int kind = -1;

	if (!value) {
		memcpy(ret, order, n_order * sizeof(*ret));
		return with_one_instance(list, n_order, ret);
	}
	for (const char *p = value; word_next(&p, &w);) {
		ssize_t device = find(list, n, order, n_order, &w);

		if (device < 0 || (kind >= 0 && kind != kind_of(&w)))
			break;
		kind = kind_of(&w);
		if (has(ret, found, (size_t) device))
			return 0;
		ret[found++] = (size_t) device;
	}
	return with_one_instance(list, found, ret);
}

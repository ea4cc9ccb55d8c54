// SPDX-License-Identifier: MIT
#include "fake.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
	const char *section, *name;
	bool is_text;
} known_keys[] = {
#define T(section, name, meaning) { #section, #name, true },
#define N(section, name, meaning) { #section, #name, false },
#include "fake_keys.def"
#undef T
#undef N
};

/* State of the parser: the section that the next keys belong to. */
struct reading {
	struct fake_scenario *s;
	const char *path;
	unsigned line;
	const char *section; /* its name */
	struct fake_bag **bags; /* one per device of the section */
	struct fake_gpu **gpus; /* their devices, or NULL */
	size_t n;
};

void fake_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("fake GPU driver: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	abort();
}

static _Noreturn void bad(const struct reading *r, const char *what, const char *text)
{
	fake_die("%s:%u: %s: %s", r->path, r->line, what, text);
}

static void *grown(void *array, size_t n, size_t size)
{
	void *p = realloc(array, n * size);

	if (!p)
		fake_die("out of memory");
	memset((char *) p + (n - 1) * size, 0, size);
	return p;
}

static void *made(size_t size)
{
	return grown(NULL, 1, size);
}

/* ---- lookup ---------------------------------------------------------------------------------- */

const struct fake_key *fake_bag_find(const struct fake_bag *bag, const char *name)
{
	size_t low = 0, high = bag->n; /* sorted by name */

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(name, bag->keys[middle].name);
		if (order == 0)
			return &bag->keys[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

const char *fake_bag_text(const struct fake_bag *bag, const char *name, const char *otherwise)
{
	const struct fake_key *key = fake_bag_find(bag, name);

	return key ? key->text : otherwise;
}

double fake_bag_number(const struct fake_bag *bag, const char *name, double t, double otherwise)
{
	const struct fake_key *key = fake_bag_find(bag, name);

	if (key)
		(void) fake_value_at(&key->value, t, &otherwise);
	return otherwise;
}

/* ---- sections -------------------------------------------------------------------------------- */

static void section_take(struct reading *r, struct fake_bag *bag, struct fake_gpu *gpu)
{
	r->n++;
	r->bags = grown(r->bags, r->n, sizeof(*r->bags));
	r->gpus = grown(r->gpus, r->n, sizeof(*r->gpus));
	r->bags[r->n - 1] = bag;
	r->gpus[r->n - 1] = gpu;
}

static struct fake_gpu *gpu_get(struct fake_scenario *s, unsigned index)
{
	while (s->n_gpus <= index) {
		struct fake_gpu *gpu = made(sizeof(*gpu));
		gpu->index = (unsigned) s->n_gpus;
		snprintf(gpu->label, sizeof(gpu->label), "%u", gpu->index);
		s->gpus = grown(s->gpus, ++s->n_gpus, sizeof(struct fake_gpu *));
		s->gpus[s->n_gpus - 1] = gpu;
	}
	return s->gpus[index];
}

static struct fake_gpu *mig_get(struct fake_scenario *s, struct fake_gpu *parent, unsigned index)
{
	struct fake_gpu *mig;

	for (size_t i = 0; i < s->n_migs; i++) {
		if (s->migs[i]->parent == parent && s->migs[i]->index == index)
			return s->migs[i];
	}
	mig = made(sizeof(*mig));
	mig->index = index;
	mig->parent = parent;
	snprintf(mig->label, sizeof(mig->label), "%s.%u", parent->label, index);
	s->migs = grown(s->migs, ++s->n_migs, sizeof(struct fake_gpu *));
	return s->migs[s->n_migs - 1] = mig;
}

static struct fake_bag *item_add(struct fake_list *list, struct fake_gpu *gpu, const char *call)
{
	struct fake_item *item = made(sizeof(*item));

	item->named = made(sizeof(*item->named));
	item->gpu = gpu;
	item->call = call ? strdup(call) : NULL;
	list->items = grown(list->items, ++list->n, sizeof(struct fake_item *));
	list->items[list->n - 1] = item;
	return &item->bag;
}

/* Kinds of sections, with the section whose keys they use. */
enum of {
	OF_DRIVER,
	OF_GPU,
	OF_PROCESS,
	OF_EVENT,
	OF_CALL
};
static const struct {
	const char *name, *keys;
	enum of of;
} sections[] = {
	{ "driver", "driver", OF_DRIVER },
	{ "clock", "driver", OF_DRIVER },
	{ "gpu", "gpu", OF_GPU },
	{ "mig", "gpu", OF_GPU },
	{ "process", "process", OF_PROCESS },
	{ "event", "event", OF_EVENT },
	{ "call", "call", OF_CALL },
};

/* A section about this device: its own bag, or that of a new item. */
static void device_take(struct reading *r, enum of of, struct fake_gpu *gpu)
{
	section_take(r,
		of == OF_GPU ? &gpu->bag
			     : item_add(of == OF_PROCESS ? &r->s->processes : &r->s->events, gpu, NULL),
		gpu);
}

/* "0", "0-7", "0.1": devices or one instance. */
static void devices_take(struct reading *r, enum of of, const char *text)
{
	char *p;
	unsigned long first = strtoul(text, &p, 10), last = first;

	if (p == text || first > 1000)
		bad(r, "a device is a number", text);
	if (*p == '.') {
		device_take(r, of,
			mig_get(r->s, gpu_get(r->s, (unsigned) first), (unsigned) strtoul(p + 1, &p, 10)));
	} else {
		if (*p == '-')
			last = strtoul(p + 1, &p, 10);
		if (last > 1000)
			bad(r, "too many devices", text);
		for (unsigned long i = first; i <= last; i++)
			device_take(r, of, gpu_get(r->s, (unsigned) i));
	}
	if (*p != '\0')
		bad(r, "a device is N, N-M or N.M", text);
}

/* "gpu 0-7": the text between the brackets. */
static void section_begin(struct reading *r, char *header)
{
	char *argument = strchr(header, ' ');
	size_t i = 0;

	if (argument)
		*argument++ = '\0';
	while (i < COUNT(sections) && strcmp(sections[i].name, header) != 0)
		i++;
	if (i == COUNT(sections) || !argument != (sections[i].of == OF_DRIVER))
		bad(r, "no such section", header);
	r->section = sections[i].keys;
	r->n = 0;
	if (sections[i].of == OF_DRIVER)
		section_take(r, &r->s->driver, NULL);
	else if (sections[i].of == OF_CALL)
		section_take(r, item_add(&r->s->rules, NULL, argument), NULL);
	else
		devices_take(r, sections[i].of, argument);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Is the key a text, rather than a number? */
static bool is_text(const struct reading *r, const char *name)
{
	for (size_t i = 0; i < COUNT(known_keys); i++) {
		if (strcmp(known_keys[i].section, r->section) == 0 && strcmp(known_keys[i].name, name) == 0)
			return known_keys[i].is_text;
	}
	if (strcmp(r->section, "gpu") != 0 ||
		(strncmp(name, "field ", 6) != 0 && strncmp(name, "gpm ", 4) != 0 &&
			strncmp(name, "dcgm ", 5) != 0))
		bad(r, "no such key in this section", name);
	return false;
}

/* text with %d for the index. */
static char *numbered(const char *text, const struct fake_gpu *gpu)
{
	const char *percent = gpu ? strstr(text, "%d") : NULL;
	size_t size = strlen(text) + 16;
	char *copy = made(size);

	if (percent)
		snprintf(copy, size, "%.*s%u%s", (int) (percent - text), text, gpu->index, percent + 2);
	else
		snprintf(copy, size, "%s", text);
	return copy;
}

static void key_set(struct reading *r, size_t i, const char *name, const char *text)
{
	struct fake_bag *bag = r->bags[i];
	struct fake_key key = { .text = numbered(text, r->gpus[i]) };
	const char *wrong = is_text(r, name) ? NULL : fake_value_parse(key.text, &key.value);
	size_t at = 0;

	if (wrong)
		bad(r, wrong, text);
	while (at < bag->n && strcmp(bag->keys[at].name, name) < 0)
		at++;
	if (at < bag->n && strcmp(bag->keys[at].name, name) == 0) {
		key.name = bag->keys[at].name;
		free(bag->keys[at].text);
		free(bag->keys[at].value.points);
		free(bag->keys[at].value.of);
	} else {
		key.name = strdup(name);
		bag->keys = grown(bag->keys, ++bag->n, sizeof(*bag->keys));
		memmove(&bag->keys[at + 1], &bag->keys[at], (bag->n - 1 - at) * sizeof(*bag->keys));
	}
	bag->keys[at] = key;
}

/* ---- the file -------------------------------------------------------------------------------- */

static char *trimmed(char *text)
{
	char *end;

	while (isspace((unsigned char) *text))
		text++;
	end = text + strlen(text);
	while (end > text && isspace((unsigned char) end[-1]))
		*--end = '\0';
	return text;
}

static void file_read(struct reading *r, const char *path, unsigned depth);

/* Includes a file next to this one. */
static void include(struct reading *r, const char *name, unsigned depth)
{
	const char *slash = strrchr(r->path, '/'), *path_here = r->path;
	unsigned line_here = r->line;
	char path[4096];

	if (depth > 8)
		bad(r, "too many includes", name);
	snprintf(path, sizeof(path), "%.*s%s", name[0] != '/' && slash ? (int) (slash + 1 - r->path) : 0,
		r->path, name);
	file_read(r, path, depth + 1);
	r->path = path_here;
	r->line = line_here;
}

static void line_read(struct reading *r, char *line, unsigned depth)
{
	char *equals = strchr(line, '='), *hash = strchr(line, '#');

	if (hash)
		*hash = '\0';
	line = trimmed(line);
	if (*line == '\0')
		return;
	if (*line == '[') {
		if (line[strlen(line) - 1] != ']')
			bad(r, "a section ends with ]", line);
		line[strlen(line) - 1] = '\0';
		section_begin(r, line + 1);
		return;
	}
	if (!equals || (hash && equals > hash))
		bad(r, "not KEY = VALUE", line);
	*equals = '\0';
	if (strcmp(trimmed(line), "include") == 0) {
		include(r, trimmed(equals + 1), depth);
		return;
	}
	if (r->n == 0)
		bad(r, "a key before the first section", line);
	for (size_t i = 0; i < r->n; i++)
		key_set(r, i, trimmed(line), trimmed(equals + 1));
}

static void file_read(struct reading *r, const char *path, unsigned depth)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;

	if (!file)
		fake_die("%s: %s", path, strerror(errno));
	r->path = path;
	r->line = 0;
	while (getline(&line, &size, file) >= 0) {
		r->line++;
		line_read(r, line, depth);
	}
	free(line);
	fclose(file);
}

void fake_scenario_load(struct fake_scenario *s, const char *path)
{
	struct reading r = { .s = s };

	s->path = strdup(path);
	file_read(&r, path, 0);
	free(r.bags);
	free(r.gpus);
}

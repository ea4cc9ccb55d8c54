/* SPDX-License-Identifier: MIT */
#include "where/module.h"

#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/map.h"
#include "where/events.h"

enum {
	MODULES = 20000,
	MAPS = 20000,       /* of an image */
	HEADERS = 64,       /* of a file that are read */
	NOTE_BYTES = 4096,
};

struct known {
	struct module module;
	uint64_t inode;
	dev_t device;
};

struct modules {
	int proc;
	pthread_mutex_t lock; /* of the images, too */
	struct known **list;
	size_t n, cap;
	uint64_t images;
};

struct image {
	struct modules *owner;
	uint64_t number;
	unsigned references, users; /* users: processes, each with a reference */
	struct image_map *maps; /* in the order in which they came */
	size_t n, cap;
	uint64_t low, high;
};

/* ---- files ----------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_NONE
#endif

static void read_build_id(int fd, uint64_t offset, uint64_t bytes, struct module *ret)
{
	unsigned char notes[NOTE_BYTES];
	const ssize_t n = pread(fd, notes, bytes < sizeof(notes) ? bytes : sizeof(notes), (off_t) offset);
	size_t at = 0;

	while (n > 0 && at + sizeof(Elf64_Nhdr) <= (size_t) n) {
		Elf64_Nhdr note;

		memcpy(&note, notes + at, sizeof(note));
		at += sizeof(note);

		const size_t name = ((size_t) note.n_namesz + 3) & ~(size_t) 3,
			     value = ((size_t) note.n_descsz + 3) & ~(size_t) 3;

		if (name > (size_t) n - at || value > (size_t) n - at - name)
			return;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes + at, "GNU", 4) == 0) {
			for (size_t i = 0; i < note.n_descsz && 2 * i + 2 < sizeof(ret->build_id); i++)
				(void) snprintf(ret->build_id + 2 * i, 3, "%02x", notes[at + name + i]);
			return;
		}
		at += name + value;
	}
}

bool module_read(int fd, struct module *ret)
{
	Elf64_Ehdr head;
	Elf64_Phdr headers[HEADERS];
	bool has_first = false;
	ssize_t n;

	if (pread(fd, &head, sizeof(head), 0) != sizeof(head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
		head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != MACHINE ||
		head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phnum == 0)
		return false;
	n = pread(fd, headers, sizeof(*headers) * (head.e_phnum < HEADERS ? head.e_phnum : HEADERS),
		(off_t) head.e_phoff);
	for (ssize_t i = 0; i < n / (ssize_t) sizeof(*headers); i++) {
		const Elf64_Phdr *const h = &headers[i];

		if (h->p_type == PT_NOTE && !ret->build_id[0])
			read_build_id(fd, h->p_offset, h->p_filesz, ret);
		if (h->p_type != PT_LOAD || ret->n_segments == MODULE_SEGMENTS)
			continue;
		if (!has_first)
			ret->first_address = h->p_align > 1 ? h->p_vaddr & -h->p_align : h->p_vaddr;
		has_first = true;
		ret->segments[ret->n_segments].offset = h->p_offset;
		ret->segments[ret->n_segments].address = h->p_vaddr;
		ret->segments[ret->n_segments++].bytes = h->p_filesz;
	}
	ret->is_elf = has_first;
	return has_first;
}

/* A FIFO or a device is not opened for reading by mistake. */
static int open_regular(int folder, const char *path, struct stat *st)
{
	const int fd = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd >= 0 && (fstat(fd, st) < 0 || !S_ISREG(st->st_mode))) {
		(void) close(fd);
		return -1;
	}
	return fd;
}

/* As the process sees it, which may have another root. */
static int open_mapped(const struct modules *m, const struct record *map, struct stat *st)
{
	char path[4200];
	int fd;

	(void) snprintf(path, sizeof(path), "%d/root%s", (int) map->pid, map->map.path);
	fd = open_regular(m->proc, path, st);
	if (fd < 0)
		fd = open_regular(AT_FDCWD, map->map.path, st);
	/* Where file systems are stacked the kernel's numbers may be those of a lower one. */
	if (fd >= 0 && st->st_ino != map->map.inode &&
		st->st_dev == makedev(map->map.major, map->map.minor)) {
		(void) close(fd);
		return -1;
	}
	return fd;
}

int module_open(const struct module *module)
{
	struct module now = { 0 };
	struct stat st;
	int fd;

	if (!module->is_elf)
		return -1;
	fd = open_regular(AT_FDCWD, module->path, &st);
	if (fd < 0)
		return -1;
	if (!module_read(fd, &now) || strcmp(now.build_id, module->build_id) != 0 ||
		now.first_address != module->first_address) {
		(void) close(fd);
		return -1;
	}
	return fd;
}

static struct module *find_module(struct modules *m, const struct record *map)
{
	const dev_t device = makedev(map->map.major, map->map.minor);
	struct known *k;
	struct stat st;
	int fd;

	for (size_t i = m->n; i > 0; i--) {
		k = m->list[i - 1];
		if (k->inode == map->map.inode && k->device == device &&
			strcmp(k->module.path, map->map.path) == 0)
			return &k->module;
	}
	if (m->n == m->cap) {
		const size_t cap = m->cap ? 2 * m->cap : 64;
		struct known **const list = cap <= MODULES ? realloc(m->list, cap * sizeof(struct known *))
							   : NULL;

		if (!list)
			return NULL;
		m->list = list;
		m->cap = cap;
	}
	k = calloc(1, sizeof(*k));
	if (!k || !(k->module.path = strdup(map->map.path))) {
		free(k);
		return NULL;
	}
	k->inode = map->map.inode;
	k->device = device;
	fd = *map->map.path == '/' && strncmp(map->map.path, "//", 2) != 0 ? open_mapped(m, map, &st) : -1;
	if (fd >= 0) {
		(void) module_read(fd, &k->module);
		(void) close(fd);
	}
	m->list[m->n++] = k;
	k->module.number = (uint32_t) m->n;
	return &k->module;
}

struct modules *modules_new(int proc)
{
	struct modules *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->proc = proc;
	(void) pthread_mutex_init(&m->lock, NULL);
	return m;
}

void modules_free(struct modules *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n; i++) {
		free(m->list[i]->module.path);
		free(m->list[i]);
	}
	free(m->list);
	(void) pthread_mutex_destroy(&m->lock);
	free(m);
}

/* ---- images ---------------------------------------------------------------------------------- */

struct image *image_new(struct modules *m)
{
	struct image *i = calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	(void) pthread_mutex_lock(&m->lock);
	i->owner = m;
	i->number = ++m->images;
	i->references = i->users = 1;
	i->low = UINT64_MAX;
	(void) pthread_mutex_unlock(&m->lock);
	return i;
}

struct image *image_ref(struct image *i)
{
	(void) pthread_mutex_lock(&i->owner->lock);
	i->references++;
	(void) pthread_mutex_unlock(&i->owner->lock);
	return i;
}

void image_unref(struct image *i)
{
	unsigned left;

	if (!i)
		return;
	(void) pthread_mutex_lock(&i->owner->lock);
	left = --i->references;
	(void) pthread_mutex_unlock(&i->owner->lock);
	if (left > 0)
		return;
	free(i->maps);
	free(i);
}

struct image *image_share(struct image *i)
{
	(void) pthread_mutex_lock(&i->owner->lock);
	i->references++;
	i->users++;
	(void) pthread_mutex_unlock(&i->owner->lock);
	return i;
}

void image_leave(struct image *i)
{
	if (!i)
		return;
	(void) pthread_mutex_lock(&i->owner->lock);
	i->users--;
	(void) pthread_mutex_unlock(&i->owner->lock);
	image_unref(i);
}

static bool lies_over(const struct image *i, uint64_t start, uint64_t end)
{
	for (size_t k = 0; k < i->n; k++) {
		if (i->maps[k].start < end && start < i->maps[k].end)
			return true;
	}
	return false;
}

static void append(struct image *i, const struct image_map *map)
{
	if (i->n == i->cap) {
		const size_t cap = i->cap ? 2 * i->cap : 32;
		struct image_map *const maps = cap <= MAPS ? realloc(i->maps, cap * sizeof(*maps)) : NULL;

		if (!maps)
			return;
		i->maps = maps;
		i->cap = cap;
	}
	i->maps[i->n++] = *map;
	if (map->start < i->low)
		i->low = map->start;
	if (map->end > i->high)
		i->high = map->end;
}

/* What a file has at an offset is in one of its segments. */
static uint64_t bias_of(const struct module *m, uint64_t start, uint64_t offset)
{
	for (size_t i = 0; i < m->n_segments; i++) {
		const uint64_t page = m->segments[i].offset & ~UINT64_C(4095);

		if (offset >= page && offset < m->segments[i].offset + m->segments[i].bytes)
			return start - (m->segments[i].address - m->segments[i].offset + offset);
	}
	return start - offset;
}

void image_add(struct image **i, const struct record *map)
{
	struct modules *const m = (*i)->owner;
	struct image_map new = { .start = map->map.start, .end = map->map.start + map->map.length };
	struct image *copy = NULL;

	if (new.end <= new.start)
		return;
	(void) pthread_mutex_lock(&m->lock);
	new.module = find_module(m, map);
	if (new.module)
		new.bias = bias_of(new.module, new.start, map->map.offset);

	const bool is_shared = (*i)->users > 1, is_over = lies_over(*i, new.start, new.end);

	(void) pthread_mutex_unlock(&m->lock);
	if (!new.module)
		return;
	if (is_over || is_shared)
		copy = image_new(m);
	(void) pthread_mutex_lock(&m->lock);
	if (copy) {
		for (size_t k = 0; k < (*i)->n; k++) {
			if ((*i)->maps[k].start >= new.end || new.start >= (*i)->maps[k].end)
				append(copy, &(*i)->maps[k]);
		}
	}
	append(copy ? copy : *i, &new);
	(void) pthread_mutex_unlock(&m->lock);
	if (copy) {
		image_leave(*i);
		*i = copy;
	}
}

size_t image_maps(struct image *i, size_t from, struct image_map *ret, size_t most)
{
	size_t n = 0;

	(void) pthread_mutex_lock(&i->owner->lock);
	for (size_t k = from; k < i->n && n < most; k++)
		ret[n++] = i->maps[k];
	(void) pthread_mutex_unlock(&i->owner->lock);
	return n;
}

bool image_find(struct image *i, uint64_t address, struct image_map *ret)
{
	bool found = false;

	(void) pthread_mutex_lock(&i->owner->lock);
	for (size_t k = i->n; k > 0 && !found; k--) {
		found = address >= i->maps[k - 1].start && address < i->maps[k - 1].end;
		if (found)
			*ret = i->maps[k - 1];
	}
	(void) pthread_mutex_unlock(&i->owner->lock);
	return found;
}

void image_range(struct image *i, uint64_t *ret_low, uint64_t *ret_high)
{
	(void) pthread_mutex_lock(&i->owner->lock);
	*ret_low = i->low;
	*ret_high = i->high;
	(void) pthread_mutex_unlock(&i->owner->lock);
}

bool map_of_line(const char *line, struct record *ret)
{
	char *at = (char *) (uintptr_t) line, *rights;
	uint64_t stop;

	ret->map.start = strtoull(at, &at, 16);
	stop = *at == '-' ? strtoull(at + 1, &at, 16) : 0;
	rights = at;
	at = *at ? strchr(at + 1, ' ') : NULL;
	if (!at || stop <= ret->map.start || strncmp(rights, " r-x", 4) != 0)
		return false;
	ret->map.length = stop - ret->map.start;
	ret->map.offset = strtoull(at, &at, 16);
	ret->map.major = (uint32_t) strtoull(at, &at, 16);
	ret->map.minor = *at == ':' ? (uint32_t) strtoull(at + 1, &at, 16) : 0;
	ret->map.inode = strtoull(at, &at, 10);
	ret->map.path = at + strspn(at, " ");
	return *ret->map.path == '/';
}

uint64_t image_number(const struct image *i)
{
	return i->number;
}

#if defined(__x86_64__)
#define PERF_IP 8
#elif defined(__aarch64__)
#define PERF_IP 32
#else
#define PERF_IP 0
#endif

uint64_t record_place(const struct record *sample)
{
	return sample->sample.has_registers ? sample->sample.registers[PERF_IP] : sample->sample.ip;
}

uint64_t image_fingerprint(struct image *i, const struct record *sample)
{
	uint64_t low, high, h = map_mixed(image_number(i), record_place(sample));

	image_range(i, &low, &high);
	for (size_t at = 0; at + 8 <= sample->sample.stack_bytes; at += 8) {
		uint64_t word;

		memcpy(&word, sample->sample.stack + at, sizeof(word));
		if (word >= low && word < high)
			h = map_mixed(map_mixed(h, at), word);
	}
	return h;
}

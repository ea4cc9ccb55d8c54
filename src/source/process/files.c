/* SPDX-License-Identifier: MIT
 *
 * An upper bound of the distinct pages of files and shared memory that the members have resident,
 * from maps and rss_file.
 *
 * A process p has at most r(p) = rss_file such pages; all together at most U(f) = the union of the
 * ranges of a file f that any of them maps. For every set of processes counted by r(p), the sum of
 * these r(p) and of U(f) over the files that the other processes map is an upper bound (a cut in
 * the flow network processes - pages). The result is the smallest cut found by a few rounds of
 * single moves.
 */
#include "source/process/processes_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/smallfile.h"

enum {
	FILES_MAX = 1 << 22,
	RANGES_MAX = 64,        /* of one file; above it ranges are merged into one from the first
	                         * to the last */
	ROUNDS = 8,
	SEGMENT_EDGE = 65536,   /* adjacent segments of a program share at most one page of its file */
	NONE = 0,               /* no file, no range: indices count from 1 */
};

struct range {
	uint64_t start, end;
	uint32_t next;          /* sorted by start, disjoint */
};

/* A file, or a piece of anonymous shared memory. The name is part of its identity: on btrfs a
 * device has the same inode number several times, and SysV segments count from 0 like others. One
 * file under two names counts twice. */
struct file {
	uint64_t inode, name_hash;
	uint32_t major, minor;
	uint32_t next;          /* with the same hash */
	uint32_t ranges, n_ranges;
	uint32_t own, n_own;    /* ranges of the process that used it last */
	uint32_t seen_by;       /* number of the process that used it last */
	uint32_t users;         /* users not counted by rss_file */
	uint64_t bytes;
	uint64_t resident;      /* estimate of its resident part, of one process */
};

struct user {
	size_t from, n;         /* of uses */
	uint64_t rss_file;
	uint64_t mapped_twice;  /* part of its mappings that it maps more than once */
	bool cut;               /* counted by rss_file */
};

struct files {
	struct map by_hash;     /* first file of a hash */
	struct file *files;
	struct range *ranges;
	struct user *users;
	uint32_t *uses;         /* files of each user, consecutive */
	size_t n_files, n_ranges, n_users, n_uses;
	size_t cap_files, cap_ranges, cap_users, cap_uses;
	uint32_t free_range;
};

void files_free(struct files *f)
{
	if (!f)
		return;
	map_done(&f->by_hash);
	free(f->files);
	free(f->ranges);
	free(f->users);
	free(f->uses);
	free(f);
}

/* ---- files and their ranges --------------------------------------------------------------------------------------- */

/* FNV-1a. */
static uint64_t hash_add(uint64_t hash, const void *bytes, size_t n)
{
	const unsigned char *b = bytes;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ b[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static uint32_t file_of(struct files *f, const struct procfs_map *map)
{
	uint64_t name_hash = hash_add(UINT64_C(0xcbf29ce484222325), map->name, map->name_len);
	uint64_t hash = hash_add(
		hash_add(name_hash, &map->inode, sizeof(map->inode)), &map->major, sizeof(map->major));
	uint32_t first = NONE;

	hash = hash_add(hash, &map->minor, sizeof(map->minor));
	(void) map_get(&f->by_hash, hash, &first);
	for (uint32_t i = first; i != NONE; i = f->files[i - 1].next) {
		const struct file *at = &f->files[i - 1];

		if (at->inode == map->inode && at->major == map->major && at->minor == map->minor &&
			at->name_hash == name_hash)
			return i;
	}
	if (vec_reserve(&f->files, &f->cap_files, f->n_files, sizeof(*f->files), FILES_MAX) < 0 ||
		map_put(&f->by_hash, hash, (uint32_t) f->n_files + 1) < 0)
		return NONE;
	f->files[f->n_files++] = (struct file) {
		.inode = map->inode,
		.name_hash = name_hash,
		.major = map->major,
		.minor = map->minor,
		.next = first,
	};
	return (uint32_t) f->n_files;
}

static uint32_t range_new(struct files *f, uint64_t start, uint64_t end, uint32_t next)
{
	uint32_t i = f->free_range;

	if (i != NONE) {
		f->free_range = f->ranges[i - 1].next;
	} else {
		if (vec_reserve(&f->ranges, &f->cap_ranges, f->n_ranges, sizeof(*f->ranges), FILES_MAX) < 0)
			return NONE;
		i = (uint32_t) ++f->n_ranges;
	}
	f->ranges[i - 1] = (struct range) { start, end, next };
	return i;
}

static void range_free(struct files *f, uint32_t i)
{
	f->ranges[i - 1].next = f->free_range;
	f->free_range = i;
}

/* A list of ranges: its first one and their number. */
struct list {
	uint32_t *first, *n;
};

/* Merges the ranges behind i that overlap it. */
static void ranges_join(struct files *f, struct list list, uint32_t i)
{
	struct range *r = &f->ranges[i - 1];

	while (r->next != NONE && f->ranges[r->next - 1].start <= r->end) {
		uint32_t gone = r->next;

		if (f->ranges[gone - 1].end > r->end)
			r->end = f->ranges[gone - 1].end;
		r->next = f->ranges[gone - 1].next;
		range_free(f, gone);
		--*list.n;
	}
}

static int list_extend(struct files *f, struct list list, uint64_t start, uint64_t end)
{
	uint32_t before = NONE, at = *list.first;

	while (at != NONE && f->ranges[at - 1].start <= start) {
		before = at;
		at = f->ranges[at - 1].next;
	}
	if (before != NONE && f->ranges[before - 1].end >= start) {
		if (f->ranges[before - 1].end < end)
			f->ranges[before - 1].end = end;
		ranges_join(f, list, before);
		return 0;
	}
	uint32_t i = range_new(f, start, end, at);

	if (i == NONE)
		return -ENOMEM;
	*(before != NONE ? &f->ranges[before - 1].next : list.first) = i;
	++*list.n;
	ranges_join(f, list, i);
	if (*list.n <= RANGES_MAX)
		return 0;
	/* Too many pieces: the gaps between them are counted as well. */
	for (at = *list.first; f->ranges[at - 1].next != NONE; at = f->ranges[at - 1].next)
		;
	f->ranges[*list.first - 1].end = f->ranges[at - 1].end;
	ranges_join(f, list, *list.first);
	return 0;
}

static void list_free(struct files *f, struct list list)
{
	while (*list.first != NONE) {
		const uint32_t i = *list.first;

		*list.first = f->ranges[i - 1].next;
		range_free(f, i);
	}
	*list.n = 0;
}

/* The part of start..end that ranges of the list cover. */
static uint64_t list_overlap(const struct files *f, struct list list, uint64_t start, uint64_t end)
{
	uint64_t sum = 0;

	for (uint32_t i = *list.first; i != NONE && f->ranges[i - 1].start < end; i = f->ranges[i - 1].next) {
		const uint64_t from = f->ranges[i - 1].start > start ? f->ranges[i - 1].start : start;
		const uint64_t to = f->ranges[i - 1].end < end ? f->ranges[i - 1].end : end;

		sum += to > from ? to - from : 0;
	}
	return sum;
}

/* Device mappings are not part of rss_file; /dev/zero (anonymous shared memory) and /dev/shm are no
 * devices. */
static bool is_counted(const struct procfs_map *map)
{
	static const char dev[] = "/dev/", zero[] = "/dev/zero", shm[] = "/dev/shm/";
	static const char trace[] = "/memfd:hiwater-trace"; /* source_env.touched */

	if (strncmp(map->name, trace, sizeof(trace) - 1) == 0)
		return false;
	if (map->barred || (map->inode == 0 && map->major == 0 && map->minor == 0))
		return false;
	return strncmp(map->name, dev, sizeof(dev) - 1) != 0 ||
	       strncmp(map->name, zero, sizeof(zero) - 1) == 0 ||
	       strncmp(map->name, shm, sizeof(shm) - 1) == 0;
}

static int map_add(struct files *f, const struct procfs_map *map)
{
	uint32_t i;

	if (!is_counted(map))
		return 0;
	i = file_of(f, map);
	if (i == NONE)
		return -ENOMEM;
	struct file *file = &f->files[i - 1];

	if (file->seen_by != f->n_users) {
		if (vec_reserve(&f->uses, &f->cap_uses, f->n_uses, sizeof(*f->uses),
			    SIZE_MAX / sizeof(*f->uses)) < 0)
			return -ENOMEM;
		f->uses[f->n_uses++] = i;
		f->users[f->n_users - 1].n++;
		list_free(f, (struct list) { &file->own, &file->n_own });
		file->seen_by = (uint32_t) f->n_users;
		file->users++;
	}
	const uint64_t start = map->offset, end = map->offset + (map->end - map->start);
	const struct list own = { &file->own, &file->n_own };
	struct user *u = &f->users[f->n_users - 1];

	const uint64_t overlap = list_overlap(f, own, start, end);

	u->mapped_twice += overlap > SEGMENT_EDGE ? overlap : 0;
	if (list_extend(f, own, start, end) < 0)
		return -ENOMEM;
	return list_extend(f, (struct list) { &file->ranges, &file->n_ranges }, start, end);
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

/* Parses all complete lines of text; moves the rest to its front and returns the size of the rest. */
static ssize_t lines_parse(struct files *f, char *text, size_t len, bool full)
{
	char *at = text, *newline;
	struct procfs_map map;

	while ((newline = memchr(at, '\n', len - (size_t) (at - text)))) {
		*newline = '\0';
		if (procfs_map_parse(at, &map) == 0 && map_add(f, &map) < 0)
			return -ENOMEM;
		at = newline + 1;
	}
	size_t left = len - (size_t) (at - text);

	/* A name longer than the buffer: the line counts by its beginning; the rest of it is not a
	 * line of maps. */
	if (full && at == text) {
		if (procfs_map_parse(at, &map) == 0 && map_add(f, &map) < 0)
			return -ENOMEM;
		return 0;
	}
	memmove(text, at, left);
	return (ssize_t) left;
}

static int maps_read(struct processes *p, int fd)
{
	size_t len = 0;
	ssize_t n;

	while ((n = read(fd, p->text + len, sizeof(p->text) - 1 - len)) > 0) {
		len += (size_t) n;
		p->text[len] = '\0';
		n = lines_parse(p->files, p->text, len, len == sizeof(p->text) - 1);
		if (n < 0)
			return (int) n;
		len = (size_t) n;
	}
	return n < 0 ? -errno : 0;
}

/* Adds the mappings of m to the newest user. */
static int user_maps(struct processes *p, struct member *m)
{
	char path[PATH_LEN];
	autoclose int fd = smallfile_open(p->env.root->proc, process_path(path, m->pid, m->tid, "maps"));

	return fd < 0 ? fd : maps_read(p, fd);
}

/* Which pages of a file a process has resident is unknown: the estimate is in proportion to its
 * mappings of each file, with the same pages as other processes that map it. */
static void resident_estimate(struct files *f, const struct user *u)
{
	uint64_t mapped = 0;

	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < u->n; i++) {
			struct file *file = &f->files[f->uses[u->from + i] - 1];
			uint64_t bytes = 0, resident;

			for (uint32_t r = file->own; r != NONE; r = f->ranges[r - 1].next)
				bytes += f->ranges[r - 1].end - f->ranges[r - 1].start;
			if (round == 0) {
				mapped += bytes;
				continue;
			}
			resident = bytes;
			if (u->rss_file < mapped)
				resident = (uint64_t) ((double) u->rss_file *
						       ((double) bytes / (double) mapped));
			if (resident > file->resident)
				file->resident = resident;
		}
	}
}

/* A process whose maps cannot be read is counted by its rss_file. Returns 1 if it has ended since
 * the sample that is to be reported, which includes its files: others may map them too. */
static int user_read(struct processes *p, struct member *m)
{
	struct files *f = p->files;
	int r;

	if (m->vm_owner && member_shares_vm(p, m))
		return 0;
	const uint64_t before = m->rss_file;

	const bool is_there = member_memory(p, m) == 0;

	if (vec_reserve(&f->users, &f->cap_users, f->n_users, sizeof(*f->users), MEMBERS_MAX) < 0)
		return -ENOMEM;
	struct user *u = &f->users[f->n_users++];

	*u = (struct user) { .from = f->n_uses, .rss_file = before > m->rss_file ? before : m->rss_file };
	r = is_there ? user_maps(p, m) : -ESRCH;
	if (r == -ENOMEM)
		return r;
	if (r < 0 || u->n == 0 || !member_is_same(p, m)) {
		u->cut = true;
		for (size_t i = 0; i < u->n; i++)
			f->files[f->uses[u->from + i] - 1].users--;
	}
	resident_estimate(f, u);
	m->mapped_twice = u->mapped_twice; /* it may touch them later */
	return !is_there && u->rss_file > 0;
}

/* ---- the cut ------------------------------------------------------------------------------------------------------ */

/* The bytes no longer counted if u were counted by its rss_file: files that only u still uses. */
static uint64_t only_of(const struct files *f, const struct user *u)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < u->n; i++) {
		const struct file *file = &f->files[f->uses[u->from + i] - 1];

		if (file->users == 1)
			sum += file->bytes;
	}
	return sum;
}

static bool cut_round(struct files *f, uint64_t *total)
{
	bool better = false;

	for (size_t k = 0; k < f->n_users; k++) {
		struct user *u = &f->users[k];
		uint64_t only = u->cut ? 0 : only_of(f, u);

		if (u->cut || only <= u->rss_file)
			continue;
		u->cut = better = true;
		*total -= only - u->rss_file;
		for (size_t i = 0; i < u->n; i++)
			f->files[f->uses[u->from + i] - 1].users--;
	}
	return better;
}

static uint64_t smallest_cut(struct files *f)
{
	uint64_t total = 0, all = 0;

	for (size_t i = 0; i < f->n_files; i++) {
		struct file *file = &f->files[i];

		for (uint32_t r = file->ranges; r != NONE; r = f->ranges[r - 1].next)
			file->bytes += f->ranges[r - 1].end - f->ranges[r - 1].start;
		if (file->users > 0 && __builtin_add_overflow(total, file->bytes, &total))
			total = UINT64_MAX / 2;
	}
	for (size_t k = 0; k < f->n_users; k++) {
		all += f->users[k].rss_file;
		if (f->users[k].cut)
			total += f->users[k].rss_file;
	}
	for (int round = 0; round < ROUNDS && cut_round(f, &total); round++)
		;
	return total < all ? total : all;
}

uint64_t processes_mapped_twice(const struct processes *p, uint32_t id)
{
	uint32_t i;

	return map_get(&p->by_id, id, &i) ? p->members[i].mapped_twice : 0;
}

int processes_files(struct processes *p, struct files_read *ret)
{
	uint64_t began = thread_cpu_ns();
	struct files *f = p->files;
	int ended = 0;

	if (!f) {
		f = p->files = calloc(1, sizeof(*f));
		if (!f)
			return -ENOMEM;
	}
	f->n_files = f->n_ranges = f->n_users = f->n_uses = 0;
	f->free_range = NONE;
	map_done(&f->by_hash);
	for (size_t i = 0; i < p->n; i++) {
		int r = user_read(p, &p->members[i]);

		if (r < 0)
			return r;
		ended |= r;
	}
	*ret = (struct files_read) { .most_bytes = smallest_cut(f) };
	for (size_t i = 0; i < f->n_files; i++)
		ret->estimate_bytes += f->files[i].resident;
	if (ret->estimate_bytes > ret->most_bytes)
		ret->estimate_bytes = ret->most_bytes;
	ret->cost_ns = thread_cpu_ns() - began;
	return ended;
}

/* SPDX-License-Identifier: MIT */
#include "where/check.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/longfile.h"

enum {
	PAGE = 4096,
	PROBE_PAGES = 64,          /* pages of which one is probed */
	SAMPLES_A_STRATUM = 16,
	HUGE = 2 << 20,
	COLLAPSED = 4,             /* so many times more samples than huge faults: small ones,
		collapsed later */
};

/* pagemap's bits. */
#define IS_PRESENT (UINT64_C(1) << 63)
#define IS_SWAPPED (UINT64_C(1) << 62)
#define IS_FILE    (UINT64_C(1) << 61) /* or shared memory */

/* PAGEMAP_SCAN of Linux 6.7, which headers may lack. */
struct scan {
	uint64_t size, flags, start, end, walk_end, regions, n_regions, most_pages;
	uint64_t inverted, all_of, any_of, returned;
};
struct scan_region {
	uint64_t start, end, categories;
};
#define SCAN         _IOWR('f', 16, struct scan)
#define SCAN_PRESENT (UINT64_C(1) << 3)
#define SCAN_HUGE    (UINT64_C(1) << 6)

enum kind {
	ANONYMOUS,
	MAPPED_FILE,
	SHARED,
};

/* Instead of a sample's stratum. */
static const uint32_t no_page = UINT32_MAX, no_bytes = UINT32_MAX - 1;

struct mapping {
	uint64_t start, end, offset, device, inode;
	enum kind kind;
	bool is_reserved;          /* without any right: terabytes, of some allocators */
	bool has_huge;             /* some of it is; before Linux 6.7, where it is not known which */
	const char *name;          /* ends at a newline of the text */
	size_t name_bytes;
};

struct stratum {
	uint64_t resident, addresses, used;
	size_t n;                  /* samples that count */
	bool is_huge;
};

/* Addresses of a stratum, which may have several such spans. */
struct span {
	uint64_t start, end;
	uint32_t stratum;
};

struct check {
	struct longfile text;
	struct span *spans;
	size_t n_spans, cap_spans;
	struct stratum *strata;
	size_t n_strata, cap_strata;
	uint32_t *found;           /* stratum of each sample; or no_page, no_bytes */
	size_t cap_found;
	int64_t small, huge;       /* the stratum that small pages, and huge ones, go to; -1: a new one */
	bool has_no_scan;          /* the kernel is older */
	/* of the process */
	const struct check_options *o;
	int pagemap;
	struct check_result *result;
	int error;
};

/* ---- mappings -------------------------------------------------------------------------------- */

static bool has_prefix(const struct mapping *m, const char *prefix)
{
	const size_t n = strlen(prefix);

	return m->name_bytes >= n && memcmp(m->name, prefix, n) == 0;
}

static enum kind kind_of(const struct mapping *m)
{
	if (m->inode == 0)
		return ANONYMOUS;
	return has_prefix(m, "/dev/zero") || has_prefix(m, "/memfd:") || has_prefix(m, "/SYSV") ||
			       has_prefix(m, "/dev/shm/") || has_prefix(m, "/anon_hugepage") ||
			       has_prefix(m, "[anon_shmem:")
		       ? SHARED
		       : MAPPED_FILE;
}

/* "7f1c0000-7f1c8000 rw-p 00000000 fd:00 1234  /usr/lib/libc.so.6"; returns the next line, NULL at
 * the end. */
static char *parse_mapping(char *line, struct mapping *ret)
{
	char *end, *at = line;

	*ret = (struct mapping) { .start = strtoull(at, &at, 16) };
	if (*at != '-')
		return NULL;
	ret->end = strtoull(at + 1, &at, 16);
	ret->is_reserved = strncmp(at, " ---", 4) == 0;
	at = *at ? strchr(at + 1, ' ') : NULL; /* behind the rights */
	if (!at)
		return NULL;
	ret->offset = strtoull(at, &at, 16);
	ret->device = strtoull(at, &at, 16) << 32;
	if (*at == ':')
		ret->device |= strtoull(at + 1, &at, 16);
	ret->inode = strtoull(at, &at, 10);
	while (*at == ' ')
		at++;
	end = strchr(at, '\n');
	if (!end)
		return NULL;
	ret->name = at;
	ret->name_bytes = (size_t) (end - at);
	ret->kind = kind_of(ret);
	return end + 1;
}

/* Of smaps, from the line behind the mapping's own. */
static bool has_huge_pages(const char *line)
{
	static const char field[] = "AnonHugePages:";

	for (; line && *line >= 'A' && *line <= 'Z'; line = strchr(line, '\n'), line += line != NULL) {
		if (strncmp(line, field, strlen(field)) == 0)
			return strtoull(line + strlen(field), NULL, 10) > 0;
	}
	return false;
}

static char *behind_fields(char *line)
{
	while (*line >= 'A' && *line <= 'Z') {
		char *const end = strchr(line, '\n');

		if (!end)
			return line + strlen(line);
		line = end + 1;
	}
	return line;
}

/* The vdso and its data belong to the kernel. */
static bool is_of_kernel(const struct mapping *m)
{
	return m->inode == 0 && has_prefix(m, "[v");
}

/* ---- pages ----------------------------------------------------------------------------------- */

static uint64_t page_at(struct check *l, uint64_t address)
{
	uint64_t page = 0;

	if (pread(l->pagemap, &page, sizeof(page), (off_t) (address / PAGE * sizeof(page))) != sizeof(page))
		page = 0;
	return page;
}

static int scan_huge(struct check *l, uint64_t address)
{
	struct scan_region region;
	struct scan scan = {
		.size = sizeof(scan),
		.start = address,
		.end = address + PAGE,
		.regions = (uint64_t) (uintptr_t) &region,
		.n_regions = 1,
		.all_of = SCAN_PRESENT | SCAN_HUGE,
		.returned = SCAN_HUGE,
	};

	return ioctl(l->pagemap, SCAN, &scan);
}

static bool is_huge(struct check *l, const struct mapping *m, uint64_t address)
{
	return l->has_no_scan ? m && m->has_huge : scan_huge(l, address) > 0;
}

/* ---- strata ---------------------------------------------------------------------------------- */

static int64_t stratum_new(struct check *l, bool huge)
{
	if (l->n_strata == l->cap_strata) {
		const size_t cap = l->cap_strata ? 2 * l->cap_strata : 256;
		struct stratum *const strata = realloc(l->strata, cap * sizeof(*strata));

		if (!strata)
			return -1;
		l->strata = strata;
		l->cap_strata = cap;
	}
	l->strata[l->n_strata] = (struct stratum) { .is_huge = huge };
	return (int64_t) l->n_strata++;
}

static uint64_t weight_of(const struct check *l, bool huge)
{
	return (uint64_t) l->o->period * (huge ? HUGE : PAGE);
}

/* Adds addresses to the stratum that is being filled; those that follow each other are one span. */
static void add_span(struct check *l, uint64_t start, uint64_t end, uint64_t resident, bool huge)
{
	int64_t *const at = huge ? &l->huge : &l->small;
	struct span *last = l->n_spans ? &l->spans[l->n_spans - 1] : NULL;
	struct stratum *s;

	if (*at < 0)
		*at = stratum_new(l, huge);
	if (*at < 0) {
		l->error = -ENOMEM;
		return;
	}
	s = &l->strata[*at];
	s->resident += resident;
	s->addresses += resident;
	if (last && last->end == start && last->stratum == (uint32_t) *at) {
		last->end = end;
	} else {
		if (l->n_spans == l->cap_spans) {
			const size_t cap = l->cap_spans ? 2 * l->cap_spans : 1024;
			struct span *const spans = realloc(l->spans, cap * sizeof(*spans));

			if (!spans) {
				l->error = -ENOMEM;
				return;
			}
			l->spans = spans;
			l->cap_spans = cap;
		}
		l->spans[l->n_spans++] = (struct span) { start, end, (uint32_t) *at };
	}
	if (s->addresses >= SAMPLES_A_STRATUM * weight_of(l, huge))
		*at = -1;
}

/* What is resident of a stretch of pages, by its middle. */
static uint64_t probe(struct check *l, uint64_t start, uint64_t end, uint64_t *ret_file)
{
	const uint64_t page = page_at(l, start + (end - start) / 2);

	*ret_file = page & IS_PRESENT && page & IS_FILE ? end - start : 0;
	return !*ret_file && page & IS_PRESENT ? end - start : 0;
}

/* A part of a huge page's size, or less at the edges of a mapping. Returns the bytes of the file.
 * */
static uint64_t check_part(struct check *l, const struct mapping *m, uint64_t start, uint64_t end)
{
	uint64_t resident = 0, file = 0;
	bool huge;

	for (uint64_t at = start; at < end;) {
		const uint64_t chunk = (at / (PROBE_PAGES * PAGE) + 1) * PROBE_PAGES * PAGE,
			       stop = chunk < end ? chunk : end;
		uint64_t of_file;

		resident += probe(l, at, stop, &of_file);
		file += of_file;
		at = stop;
	}
	huge = end - start == HUGE && resident == HUGE && m->kind == ANONYMOUS && is_huge(l, m, start);
	if (huge)
		l->result->huge += resident;
	l->result->anonymous += resident;
	if (resident > 0)
		add_span(l, start, end, resident, huge);
	return file;
}

static void count_file(struct check *l, const struct mapping *m, uint64_t bytes)
{
	struct check_files *const f = l->o->files;

	for (size_t i = 0; i < f->n; i++) {
		if (f->list[i].inode == m->inode && f->list[i].device == m->device) {
			f->list[i].bytes += bytes;
			return;
		}
	}
	if (f->n == f->cap) {
		const size_t cap = f->cap ? 2 * f->cap : 64;
		struct check_file *const list = realloc(f->list, cap * sizeof(*list));

		if (!list)
			return;
		f->list = list;
		f->cap = cap;
	}
	f->list[f->n] = (struct check_file) { strndup(m->name, m->name_bytes), m->device, m->inode, bytes };
	f->n += f->list[f->n].name != NULL;
}

/* Marks of what is resident of shared memory, by the file's stretches of PROBE_PAGES: 32 of them a key. What a process of
 * this pass has counted is not counted again; one that it only maps is another's. */
static void check_shared(struct check *l, const struct mapping *m)
{
	const uint64_t bytes = PROBE_PAGES * PAGE, file = (m->inode * 1000003 + m->device) * 1000003;
	uint64_t of_file;

	for (uint64_t at = m->start, stop; at < m->end; at = stop) {
		const uint64_t offset = at - m->start + m->offset, n = offset / bytes;
		uint32_t counted = 0;

		stop = at + bytes - offset % bytes;
		stop = stop < m->end ? stop : m->end;
		(void) map_get(l->o->shared, file + n / 32, &counted);
		if (counted >> n % 32 & 1)
			continue;
		if (probe(l, at, stop, &of_file) + of_file == 0)
			continue;
		(void) map_put(l->o->shared, file + n / 32, counted | UINT32_C(1) << n % 32);
		l->result->shared += stop - at;
		add_span(l, at, stop, stop - at, false);
	}
}

static void check_mapping(struct check *l, const struct mapping *m)
{
	uint64_t file = 0;

	if (m->kind == SHARED)
		check_shared(l, m);
	for (uint64_t at = m->start; m->kind != SHARED && at < m->end;) {
		const uint64_t part = (at / HUGE + 1) * HUGE, stop = part < m->end ? part : m->end;

		file += check_part(l, m, at, stop);
		at = stop;
	}
	if (m->end - m->start >= HUGE)
		l->huge = -1; /* an array in a mapping of its own is a stratum of its own */
	if (file > 0)
		count_file(l, m, file);
}

static int measure(struct check *l)
{
	char name[32];
	struct mapping m;
	ssize_t n;

	/* smaps reads all page tables: only where there is no other way to know huge pages. */
	(void) snprintf(name, sizeof(name), "%d/%s", (int) l->o->pid, l->has_no_scan ? "smaps" : "maps");
	n = longfile_read(&l->text, l->o->proc, name);
	if (n <= 0)
		return n < 0 ? (int) n : -ESRCH;
	l->n_spans = l->n_strata = 0;
	l->small = l->huge = -1;
	for (char *line = l->text.data; (line = parse_mapping(line, &m));) {
		m.has_huge = has_huge_pages(line);
		line = behind_fields(line);
		if (!is_of_kernel(&m) && !m.is_reserved)
			check_mapping(l, &m);
	}
	return l->error;
}

/* ---- samples --------------------------------------------------------------------------------- */

static uint32_t stratum_of(const struct check *l, uint64_t address)
{
	size_t low = 0, high = l->n_spans;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (l->spans[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < l->n_spans && l->spans[low].start <= address ? l->spans[low].stratum : no_bytes;
}

/* Which stratum each sample is in, if its page is still there, or swapped out. */
static void find_samples(struct check *l, const struct samples *samples)
{
	for (size_t i = 0; i < samples->n; i++) {
		const struct sample *const s = samples->list[i];
		uint64_t page;

		l->found[i] = no_page;
		if (s->is_dead)
			continue;
		page = page_at(l, s->address);
		if (page & (IS_PRESENT | IS_SWAPPED))
			l->found[i] = stratum_of(l, s->address);
		if (l->found[i] < no_bytes)
			l->strata[l->found[i]].n++;
		else if (page & IS_PRESENT && page & IS_FILE)
			l->found[i] = no_page; /* a file's, or shared memory that another process has counted */
	}
}

/* In huge pages that were made of small ones later, each sample is one of a small fault: none of
 * them is too many. */
static bool is_collapsed(const struct stratum *s, uint64_t weight)
{
	return s->is_huge && s->n * weight > COLLAPSED * (s->resident + weight);
}

static void keep_newest(struct check *l, const struct samples *samples)
{
	for (size_t i = samples->n; i > 0; i--) {
		struct stratum *s;
		uint64_t weight;

		if (l->found[i - 1] >= no_bytes)
			continue;
		s = &l->strata[l->found[i - 1]];
		weight = weight_of(l, s->is_huge);
		if (s->used + weight / 2 < s->resident || is_collapsed(s, weight)) {
			s->used += weight;
		} else {
			s->n--;
			l->found[i - 1] = no_page;
		}
	}
}

static void divide(struct check *l, struct samples *samples)
{
	for (size_t i = 0; i < samples->n; i++) {
		struct sample *const s = samples->list[i];
		const struct stratum *stratum;
		double most, share;

		s->is_checked = true;
		s->bytes = 0;
		s->is_dead = l->found[i] == no_page;
		if (l->found[i] >= no_bytes)
			continue; /* or swapped out, or between the probes: it may have bytes again */
		stratum = &l->strata[l->found[i]];
		share = (double) stratum->resident / (double) stratum->n;
		most = (double) weight_of(l, stratum->is_huge) * (1 + 3 / sqrt((double) stratum->n));
		s->bytes = (uint64_t) (share < most ? share : most);
		l->result->sampled += s->bytes;
	}
}

/* Of a forked process. In a block of addresses the newest samples count, as in a stratum. */
static void count_samples(struct check *l, const struct samples *samples)
{
	const uint64_t block = SAMPLES_A_STRATUM * weight_of(l, false);
	struct map counted = { 0 };
	uint64_t all = 0;

	for (size_t i = samples->n; i > 0; i--) {
		struct sample *const s = samples->list[i - 1];
		const bool is_there = !s->is_dead && page_at(l, s->address) & (IS_PRESENT | IS_SWAPPED);
		const bool huge = is_there && is_huge(l, NULL, s->address / PAGE * PAGE);
		uint32_t n = 0;

		(void) map_get(&counted, s->address / block, &n);
		s->is_checked = true;
		s->is_dead = !is_there || (!huge && n == SAMPLES_A_STRATUM);
		s->bytes = s->is_dead ? 0 : weight_of(l, huge);
		all += s->bytes;
		if (!s->is_dead && !huge)
			(void) map_put(&counted, s->address / block, n + 1);
	}
	map_done(&counted);
	for (size_t i = 0; i < samples->n && all > l->o->most_bytes; i++) {
		struct sample *const s = samples->list[i];

		s->bytes = (uint64_t) ((double) s->bytes * (double) l->o->most_bytes / (double) all);
	}
	l->result->sampled = all < l->o->most_bytes ? all : l->o->most_bytes;
}

int check_process(struct check *l, const struct check_options *options, struct samples *samples,
	struct check_result *ret)
{
	char name[32];
	int r;

	*ret = (struct check_result) { 0 };
	l->o = options;
	l->result = ret;
	l->error = 0;
	if (samples->n > l->cap_found) {
		uint32_t *const found = realloc(l->found, 2 * samples->n * sizeof(*found));

		if (!found)
			return -ENOMEM;
		l->found = found;
		l->cap_found = 2 * samples->n;
	}
	(void) snprintf(name, sizeof(name), "%d/pagemap", (int) options->pid);
	l->pagemap = openat(options->proc, name, O_RDONLY | O_CLOEXEC);
	if (l->pagemap < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	/* Before the mappings are read, of which smaps are needed then. */
	l->has_no_scan = l->has_no_scan || (scan_huge(l, 0) < 0 && (errno == ENOTTY || errno == EINVAL));
	r = options->by_samples ? 0 : measure(l);
	if (options->by_samples) {
		count_samples(l, samples);
	} else if (r == 0) {
		find_samples(l, samples);
		keep_newest(l, samples);
		divide(l, samples);
	}
	(void) close(l->pagemap);
	return r;
}

/* ---- all of it ------------------------------------------------------------------------------- */

void check_files_done(struct check_files *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->list[i].name);
	free(f->list);
	*f = (struct check_files) { .list = NULL };
}

struct check *check_new(void)
{
	return calloc(1, sizeof(struct check));
}

void check_free(struct check *l)
{
	if (!l)
		return;
	longfile_done(&l->text);
	free(l->spans);
	free(l->strata);
	free(l->found);
	free(l);
}

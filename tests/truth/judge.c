/* SPDX-License-Identifier: MIT
 *
 * An independent measurement of the memory of a job, without any code of hiwater. judge PID [below]
 * walks the processes of a job repeatedly until PID ends or SIGTERM comes: PID and its descendants,
 * or with "below" only the descendants that run another program than PID. At the end it prints one
 * line:
 *
 *     METHOD LEAST ONCE WALKS LONGEST_US
 *
 * METHOD frames (with the right to read page frame numbers): LEAST is the largest number of bytes
 * in distinct page frames that two consecutive walks found at the same addresses. All of them
 * existed at the moment between the two walks, so LEAST is never above the true peak. ONCE is the
 * largest count of one walk; changes during the walk make it too small or too large.
 *
 * METHOD pss (without that right): the largest sum of Pss over a walk before and after which the
 * processes were the same. Pages that are also mapped outside the job count in part. LEAST and ONCE
 * are equal.
 *
 * LONGEST_US is the longest time from the start of one walk to the start of the next: a shorter peak
 * may be missing.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAGE           4096
#define PRESENT        (1ULL << 63)
#define FRAME          ((1ULL << 55) - 1)
#define MOST_PROCESSES 4096

struct range {
	uint64_t begin, end; /* pages */
	size_t at;           /* index of its first page in frames */
};

/* The pages of one process in one walk. */
struct process {
	long pid;
	struct range *ranges;
	size_t n_ranges, max_ranges;
	uint64_t *frames; /* 0: not resident */
	size_t n_frames, max_frames;
};

struct walk {
	struct process *processes;
	size_t n, max;
};

static volatile sig_atomic_t ended;
static uint64_t zero_frame;
static uint64_t *seen[2]; /* bit sets of frames: in this walk, in this one and the last */
static size_t seen_words;

static void on_end(int number)
{
	(void) number;
	ended = 1;
}

static void *grown(void *old, size_t *max, size_t needed, size_t size)
{
	void *p = old;

	if (needed > *max) {
		*max = needed * 2;
		p = realloc(old, *max * size);
		if (!p)
			exit(99);
	}
	return p;
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t) t.tv_sec * 1000000 + (uint64_t) t.tv_nsec / 1000;
}

/* A file of /proc as a string that the next call overwrites; NULL if it does not exist. */
static char *slurp(const char *path)
{
	static char *text;
	static size_t max;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t got = fd < 0 ? -1 : 0;

	while (fd >= 0) {
		text = grown(text, &max, n + 65536, 1);
		got = read(fd, text + n, max - n - 1);
		if (got <= 0)
			break;
		n += (size_t) got;
	}
	if (fd >= 0)
		(void) close(fd);
	if (got < 0)
		return NULL;
	text[n] = 0;
	return text;
}

/* ---- the processes of the job ------------------------------------------------------------------------------------- */

static int runs_same(long pid, const struct stat *program)
{
	char path[64];
	struct stat s;

	(void) snprintf(path, sizeof(path), "/proc/%ld/exe", pid);
	return stat(path, &s) == 0 && s.st_dev == program->st_dev && s.st_ino == program->st_ino;
}

/* Appends the children of a process to a list; returns the new length. */
static size_t append_children(long pid, long *pids, size_t n, const struct stat *except)
{
	char path[320], *text, *next;
	struct dirent *entry;
	DIR *tasks;

	(void) snprintf(path, sizeof(path), "/proc/%ld/task", pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		if (!isdigit((unsigned char) entry->d_name[0]))
			continue;
		(void) snprintf(path, sizeof(path), "/proc/%ld/task/%s/children", pid, entry->d_name);
		text = slurp(path);
		for (long child; text && (child = strtol(text, &next, 10)) > 0 && n < MOST_PROCESSES;
			text = next) {
			if (!except || !runs_same(child, except))
				pids[n++] = child;
		}
	}
	if (tasks)
		(void) closedir(tasks);
	return n;
}

/* Breadth first: PID, or with below its first matching descendants, then their children. */
static size_t find_processes(long pid, const struct stat *below, long *pids)
{
	size_t n = 0;

	if (below)
		n = append_children(pid, pids, 0, below);
	else
		pids[n++] = pid;
	for (size_t i = 0; i < n; i++)
		n = append_children(pids[i], pids, n, NULL);
	return n;
}

/* ---- page frames -------------------------------------------------------------------------------------------------- */

/* The frame of the kernel's page of zeros, which does not count as memory of a job: that of an own
 * page that was only read. */
static uint64_t frame_of_zeros(void)
{
	char *p = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0;
	volatile char c = *p;

	(void) c;
	if (fd < 0 ||
		pread(fd, &entry, sizeof(entry), (off_t) ((uintptr_t) p / PAGE * sizeof(entry))) !=
			sizeof(entry))
		entry = 0;
	if (fd >= 0)
		(void) close(fd);
	return entry & FRAME;
}

/* The ranges that may have pages. Ranges without any permission are only reserved, or small. */
static void read_ranges(struct process *p)
{
	char path[64], *text, *line, *rest;

	(void) snprintf(path, sizeof(path), "/proc/%ld/maps", p->pid);
	text = slurp(path);
	for (; text && *text; text = line ? line + 1 : NULL) {
		uint64_t begin = strtoull(text, &rest, 16), end = strtoull(rest + 1, &rest, 16);
		size_t pages = (size_t) ((end - begin) / PAGE);

		line = strchr(text, '\n');
		if (line)
			*line = 0;
		if (strstr(rest, "[v") || (strncmp(rest, " ---", 4) == 0 && pages > 16384))
			continue;
		p->ranges = grown(p->ranges, &p->max_ranges, p->n_ranges + 1, sizeof(*p->ranges));
		p->ranges[p->n_ranges++] = (struct range) { begin / PAGE, end / PAGE, p->n_frames };
		p->n_frames += pages;
	}
}

static void read_frames(struct process *p)
{
	char path[64];
	int fd;

	p->n_ranges = p->n_frames = 0;
	read_ranges(p);
	p->frames = grown(p->frames, &p->max_frames, p->n_frames, sizeof(*p->frames));
	(void) snprintf(path, sizeof(path), "/proc/%ld/pagemap", p->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	for (size_t i = 0; i < p->n_ranges; i++) {
		const struct range *r = &p->ranges[i];
		size_t bytes = (size_t) (r->end - r->begin) * sizeof(uint64_t), done = 0;

		while (fd >= 0 && done < bytes) {
			ssize_t got = pread(fd, (char *) (p->frames + r->at) + done, bytes - done,
				(off_t) (r->begin * sizeof(uint64_t) + done));

			if (got <= 0)
				break;
			done += (size_t) got;
		}
		memset((char *) (p->frames + r->at) + done, 0, bytes - done);
		for (size_t k = 0; k < bytes / sizeof(uint64_t); k++) {
			uint64_t *frame = &p->frames[r->at + k];

			*frame = *frame & PRESENT ? *frame & FRAME : 0;
			if (*frame == zero_frame)
				*frame = 0;
		}
	}
	if (fd >= 0)
		(void) close(fd);
}

/* Adds a frame to a set; 1 if it is new. */
static uint64_t add(int set, uint64_t frame)
{
	size_t word = (size_t) (frame / 64), old = seen_words;
	uint64_t bit = 1ULL << frame % 64;

	if (word >= seen_words) {
		seen_words = (word + 1) * 2;
		for (int i = 0; i < 2; i++) {
			seen[i] = realloc(seen[i], seen_words * sizeof(uint64_t));
			if (!seen[i])
				exit(99);
			memset(seen[i] + old, 0, (seen_words - old) * sizeof(uint64_t));
		}
	}
	if (seen[set][word] & bit)
		return 0;
	seen[set][word] |= bit;
	return 1;
}

/* Counts the frames of a process that the sets do not contain yet. */
static void count(const struct process *p, const struct process *before, uint64_t *once, uint64_t *both)
{
	size_t k = 0;

	for (size_t i = 0; i < p->n_ranges; i++) {
		const struct range *r = &p->ranges[i];

		for (uint64_t page = r->begin; page < r->end; page++) {
			uint64_t frame = p->frames[r->at + (size_t) (page - r->begin)];

			if (!frame)
				continue;
			*once += add(0, frame);
			while (before && k < before->n_ranges && before->ranges[k].end <= page)
				k++;
			if (before && k < before->n_ranges && before->ranges[k].begin <= page &&
				before->frames[before->ranges[k].at +
					       (size_t) (page - before->ranges[k].begin)] == frame)
				*both += add(1, frame);
		}
	}
}

static void walk_frames(struct walk *walk, const struct walk *last, const long *pids, size_t n,
	uint64_t *once, uint64_t *both)
{
	if (n > walk->max) {
		size_t had = walk->max;

		walk->processes = grown(walk->processes, &walk->max, n, sizeof(*walk->processes));
		memset(walk->processes + had, 0, (walk->max - had) * sizeof(*walk->processes));
	}
	walk->n = n;
	for (size_t i = 0; i < n; i++) {
		walk->processes[i].pid = pids[i];
		read_frames(&walk->processes[i]);
	}
	for (int i = 0; i < 2 && seen_words; i++)
		memset(seen[i], 0, seen_words * sizeof(uint64_t));
	*once = *both = 0;
	for (size_t i = 0; i < n; i++) {
		const struct process *before = NULL;

		for (size_t k = 0; k < last->n && !before; k++)
			before = last->processes[k].pid == pids[i] ? &last->processes[k] : NULL;
		count(&walk->processes[i], before, once, both);
	}
	*once *= PAGE;
	*both *= PAGE;
}

/* ---- Pss ---------------------------------------------------------------------------------------------------------- */

static uint64_t sum_of_pss(const long *pids, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		char path[64], *text, *line;

		(void) snprintf(path, sizeof(path), "/proc/%ld/smaps_rollup", pids[i]);
		text = slurp(path);
		line = text ? strstr(text, "\nPss:") : NULL;
		sum += line ? strtoull(line + 5, NULL, 10) * 1024 : 0;
	}
	return sum;
}

int main(int argc, char **argv)
{
	static long pids[2][MOST_PROCESSES];
	static struct walk walks[2];
	long pid = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
	uint64_t least = 0, most_once = 0, longest = 0, begin = now_us();
	unsigned long n_walks = 0;
	struct stat program;
	int is_below = argc > 2 && strcmp(argv[2], "below") == 0;
	char path[64];

	(void) snprintf(path, sizeof(path), "/proc/%ld/exe", pid);
	if (pid <= 0 || stat(path, &program) < 0) {
		perror(path);
		return 98;
	}
	(void) signal(SIGTERM, on_end);
	zero_frame = frame_of_zeros();
	(void) snprintf(path, sizeof(path), "/proc/%ld", pid);
	while (!ended && access(path, F_OK) == 0) {
		size_t n = find_processes(pid, is_below ? &program : NULL, pids[0]);
		uint64_t once = 0, both = 0, next;

		if (zero_frame) {
			walk_frames(&walks[n_walks % 2], &walks[(n_walks + 1) % 2], pids[0], n, &once, &both);
		} else {
			once = sum_of_pss(pids[0], n);
			if (find_processes(pid, is_below ? &program : NULL, pids[1]) == n &&
				memcmp(pids[0], pids[1], n * sizeof(pids[0][0])) == 0)
				both = once;
			once = both;
		}
		least = both > least ? both : least;
		most_once = once > most_once ? once : most_once;
		n_walks++;
		(void) usleep(500); /* leaves the CPU to the job */
		next = now_us();
		longest = next - begin > longest ? next - begin : longest;
		begin = next;
	}
	printf("%s %llu %llu %lu %llu\n", zero_frame ? "frames" : "pss", (unsigned long long) least,
		(unsigned long long) most_once, n_walks, (unsigned long long) longest);
	return 0;
}

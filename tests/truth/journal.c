/* SPDX-License-Identifier: MIT
 *
 * Writes a journal of the calls to the estimator of combined memory, for replay.c. It is linked
 * into hiwater-journal: the hiwater command in which the linker's --wrap routes every call that
 * changes the estimator (src/job/memory/memory.h) through this file.
 *
 * HIWATER_MEMORY_JOURNAL names the file, which must not exist yet. Only the first estimator that
 * any process makes under that name is journaled. A line is one call: its name without memory_, and
 * its arguments as decimal numbers, in the order of the declaration or of the struct's members; a
 * struct maybe is two numbers, whether it is known and its value. Unsigned 64-bit numbers are
 * written as signed ones.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job/memory/memory.h"

enum {
	LINE_MOST = 512
};

static struct {
	const struct memory *m; /* the estimator that is journaled */
	pid_t owner;            /* a fork inherits the buffer, and must not write it */
	int fd;
	size_t n;
	char text[1 << 16];
} journal;

/* Ends the run, because an incomplete journal must not be replayed. */
static void fail(const char *what)
{
	fprintf(stderr, "hiwater-journal: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static void flush(void)
{
	for (size_t done = 0; done < journal.n;) {
		const ssize_t n = write(journal.fd, journal.text + done, journal.n - done);

		if (n < 0 && errno != EINTR)
			fail("cannot write the journal");
		done += n > 0 ? (size_t) n : 0;
	}
	journal.n = 0;
}

static void line(const struct memory *m, const char *name, const int64_t *values, size_t n)
{
	if (!m || m != journal.m || getpid() != journal.owner)
		return;
	if (journal.n + LINE_MOST > sizeof(journal.text))
		flush();
	journal.n += (size_t) snprintf(journal.text + journal.n, LINE_MOST, "%s", name);
	for (size_t i = 0; i < n; i++)
		journal.n += (size_t) snprintf(journal.text + journal.n, 32, " %" PRId64, values[i]);
	journal.text[journal.n++] = '\n';
}

#define LINE(m, name, ...) \
	do { \
		const int64_t values[] = { __VA_ARGS__ }; \
		line(m, name, values, sizeof(values) / sizeof(values[0])); \
	} while (0)
#define MAYBE(maybe) (maybe).known, (maybe).value
#define WRAP(name)   extern __typeof__(memory_##name) __real_memory_##name, __wrap_memory_##name

WRAP(new);
WRAP(free);
WRAP(birth);
WRAP(exec);
WRAP(time);
WRAP(size);
WRAP(hwm);
WRAP(faults);
WRAP(mapped_twice);
WRAP(end);
WRAP(records_lost);
WRAP(some_process);
WRAP(huge);
WRAP(machine);
WRAP(cgroup);
WRAP(files);
WRAP(pss);
WRAP(pass);
WRAP(total);
WRAP(finish);

/* Commands of the job may be hiwater-journal as well: for them the file already exists. */
static void begin(const struct memory *m)
{
	const char *path = getenv("HIWATER_MEMORY_JOURNAL");

	if (!path || !m || journal.m)
		return;
	journal.fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (journal.fd < 0 && errno == EEXIST)
		return;
	if (journal.fd < 0)
		fail(path);
	journal.m = m;
	journal.owner = getpid();
}

struct memory *__wrap_memory_new(const struct memory_config *c)
{
	struct memory *m = __real_memory_new(c);

	begin(m);
	LINE(m, "new", c->page_bytes, c->huge_bytes, c->machine_bytes, c->rss_error_bytes, c->ours);
	return m;
}

void __wrap_memory_free(struct memory *m)
{
	if (m && m == journal.m && getpid() == journal.owner) {
		flush();
		close(journal.fd);
		journal.m = NULL;
	}
	__real_memory_free(m);
}

int __wrap_memory_birth(struct memory *m, const struct memory_birth *b)
{
	LINE(m, "birth", b->id, b->parent, (int64_t) b->program, (int64_t) b->forked_ns, b->is_main,
		b->is_new);
	return __real_memory_birth(m, b);
}

int __wrap_memory_exec(struct memory *m, uint32_t id, uint64_t program)
{
	LINE(m, "exec", id, (int64_t) program);
	return __real_memory_exec(m, id, program);
}

void __wrap_memory_time(struct memory *m, uint64_t time_ns)
{
	LINE(m, "time", (int64_t) time_ns);
	__real_memory_time(m, time_ns);
}

void __wrap_memory_size(struct memory *m, uint32_t id, int64_t rss, int64_t file)
{
	LINE(m, "size", id, rss, file);
	__real_memory_size(m, id, rss, file);
}

void __wrap_memory_hwm(struct memory *m, uint32_t id, int64_t hwm, bool is_own)
{
	LINE(m, "hwm", id, hwm, is_own);
	__real_memory_hwm(m, id, hwm, is_own);
}

void __wrap_memory_faults(struct memory *m, uint32_t id, int64_t faults)
{
	LINE(m, "faults", id, faults);
	__real_memory_faults(m, id, faults);
}

void __wrap_memory_mapped_twice(struct memory *m, uint32_t id, int64_t bytes)
{
	LINE(m, "mapped_twice", id, bytes);
	__real_memory_mapped_twice(m, id, bytes);
}

void __wrap_memory_end(struct memory *m, const struct memory_end *e)
{
	LINE(m, "end", e->id, MAYBE(e->hwm), (int64_t) e->until_ns, MAYBE(e->faults), e->is_own,
		e->is_renamed, e->is_copy, e->is_awaited);
	__real_memory_end(m, e);
}

void __wrap_memory_records_lost(struct memory *m)
{
	line(m, "records_lost", NULL, 0);
	__real_memory_records_lost(m);
}

void __wrap_memory_some_process(struct memory *m, int64_t bytes, bool no_main)
{
	LINE(m, "some_process", bytes, no_main);
	__real_memory_some_process(m, bytes, no_main);
}

void __wrap_memory_huge(struct memory *m, int64_t count)
{
	LINE(m, "huge", count);
	__real_memory_huge(m, count);
}

void __wrap_memory_machine(struct memory *m, int64_t bytes)
{
	LINE(m, "machine", bytes);
	__real_memory_machine(m, bytes);
}

void __wrap_memory_cgroup(struct memory *m, int64_t anon)
{
	LINE(m, "cgroup", anon);
	__real_memory_cgroup(m, anon);
}

void __wrap_memory_files(struct memory *m, int64_t most, int64_t likely)
{
	LINE(m, "files", most, likely);
	__real_memory_files(m, most, likely);
}

void __wrap_memory_pss(struct memory *m, const struct memory_pss *p)
{
	LINE(m, "pss", p->id, p->pss, p->anon, p->private);
	__real_memory_pss(m, p);
}

void __wrap_memory_pass(struct memory *m, bool valid, int64_t moved, const int64_t grown[MEMORY_SETS])
{
	LINE(m, "pass", valid, moved, grown[MEMORY_ALL], grown[MEMORY_DESCENDANTS]);
	__real_memory_pass(m, valid, moved, grown);
}

void __wrap_memory_total(struct memory *m, uint64_t time_ns, struct maybe faults, struct memory_total *ret)
{
	LINE(m, "total", (int64_t) time_ns, MAYBE(faults));
	__real_memory_total(m, time_ns, faults, ret);
}

void __wrap_memory_finish(struct memory *m)
{
	line(m, "finish", NULL, 0);
	__real_memory_finish(m);
}

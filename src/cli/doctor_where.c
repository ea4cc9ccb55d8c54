/* SPDX-License-Identifier: MIT */
#include "cli/doctor_where.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/programs.h"

#define PROGRAM "hiwater-where"

enum {
	ANSWER = 1024,
	PATIENCE_MS = 3000,
	CPUS_PRICED = 32,     /* from here on the price is worth a sentence */
	PAGE_KIB = 4,
};

/* What hiwater-where found: probe() in src/where/main.c. */
struct probe {
	int64_t error, kernel, pages, pages_most, cpus, libdw, machine;
	int64_t paranoid, seccomp, ptrace; /* -2: unknown; ptrace: or no obstacle */
	char huge[16];             /* always, madvise, never; "": unknown */
	char program[PATH_MAX];
};

/* ---- finding ---------------------------------------------------------------------------------- */

static _Noreturn void become(const char *program, int out)
{
	char name[] = PROGRAM, mode[] = "probe", *const argv[] = { name, mode, NULL };
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void) dup2(null, STDIN_FILENO);
	(void) dup2(out, STDOUT_FILENO);
	(void) dup2(null, STDERR_FILENO);
	(void) execv(program, argv);
	_exit(127);
}

/* All that comes until the end, in time. */
static size_t hear(int fd, char ret[static ANSWER])
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	size_t len = 0;
	ssize_t n = 1;

	while (n > 0 && len < ANSWER - 1 && poll(&wait, 1, PATIENCE_MS) > 0) {
		n = read(fd, ret + len, ANSWER - 1 - len);
		len += n > 0 ? (size_t) n : 0;
	}
	ret[len] = '\0';
	return len;
}

static bool ask(const char *program, char ret[static ANSWER])
{
	int ends[2];
	size_t len = 0;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	pid = fork();
	if (pid == 0)
		become(program, ends[1]);
	(void) close(ends[1]);
	if (pid > 0) {
		len = hear(ends[0], ret);
		(void) kill(pid, SIGKILL); /* it has answered, or hangs */
		(void) waitpid(pid, NULL, 0);
	}
	(void) close(ends[0]);
	return len > 0;
}

/* What is behind "\nKEY=". NULL: not there. */
static const char *value_of(const char *answer, const char *key)
{
	const char *const at = strstr(answer, key);

	return at ? at + strlen(key) : NULL;
}

static bool number_of(const char *answer, const char *key, int64_t *ret)
{
	const char *const text = value_of(answer, key);
	char *end;

	if (!text)
		return false;
	*ret = strtoll(text, &end, 10);
	return end != text && *end == '\n';
}

static bool read_answer(const char *text, struct probe *p)
{
	char answer[ANSWER + 1];
	const char *huge;

	(void) snprintf(answer, sizeof(answer), "\n%s", text);
	huge = value_of(answer, "\nhuge=");
	if (huge)
		(void) snprintf(p->huge, sizeof(p->huge), "%.*s", (int) strcspn(huge, "\n"), huge);
	return huge && number_of(answer, "\nerror=", &p->error) && number_of(answer, "\nkernel=", &p->kernel) &&
	       number_of(answer, "\npages=", &p->pages) && number_of(answer, "\npages_most=", &p->pages_most) &&
	       number_of(answer, "\ncpus=", &p->cpus) && number_of(answer, "\nlibdw=", &p->libdw) &&
	       number_of(answer, "\nmachine=", &p->machine) && number_of(answer, "\nparanoid=", &p->paranoid) &&
	       number_of(answer, "\nseccomp=", &p->seccomp) && number_of(answer, "\nptrace=", &p->ptrace);
}

/* ---- the rows --------------------------------------------------------------------------------- */

/* Which values of perf_event_paranoid are enough, and what to do without them. */
static void remedy_of(const struct probe *p, const char *value, char *ret, size_t size)
{
	(void) snprintf(ret, size, "as root, sysctl kernel.perf_event_paranoid=%s, or setcap cap_perfmon+ep %.600s (all users who may "
				   "execute it can then sample processes of others: give it to a group)",
		value, p->program);
}

static const char *error_name(const struct probe *p)
{
	return p->error == ENOSYS ? "ENOSYS" : "EPERM";
}

static void page_faults(const struct probe *p, struct doctor_row *row)
{
	char remedy[DOCTOR_ROW_TEXT];

	row->what = "page faults";
	if (!p->machine) {
		doctor_row_set(row, false, "", "not on this machine: x86-64 and aarch64 only");
	} else if (p->error == 0) {
		doctor_row_set(row, true, "", "1 sample of 64 faults of a thread (fine: of 16)");
	} else if (p->error == EACCES && p->paranoid > 2) {
		remedy_of(p, "2", remedy, sizeof(remedy));
		doctor_row_set(row, false, remedy, "kernel.perf_event_paranoid is %lld, and no CAP_PERFMON",
			(long long) p->paranoid);
	} else if (p->error == ENOSYS || (p->error == EPERM && p->seccomp == 2)) {
		doctor_row_set(row, false,
			"allow the system call perf_event_open in the seccomp profile of the container (docker run "
			"--security-opt seccomp=FILE), or give it CAP_PERFMON (--cap-add PERFMON)",
			"a seccomp profile forbids perf_event_open (%s)", error_name(p));
	} else {
		remedy_of(p, "2", remedy, sizeof(remedy));
		doctor_row_set(row, false, remedy, "perf_event_open: %s", strerror((int) p->error));
	}
}

static void kernel_faults(const struct probe *p, struct doctor_row *row)
{
	char remedy[DOCTOR_ROW_TEXT];

	row->what = "system calls";
	if (p->error != 0) {
		doctor_row_set(row, false, "", "no page faults");
	} else if (p->kernel) {
		doctor_row_set(row, true, "", "what read(2) and the like fill counts for the caller");
	} else {
		remedy_of(p, "1", remedy, sizeof(remedy));
		doctor_row_set(row, false, remedy, "a row of their own: kernel.perf_event_paranoid is %lld",
			(long long) p->paranoid);
	}
}

static void rings(const struct probe *p, struct doctor_row *row)
{
	row->what = "buffers";
	if (p->error != 0)
		doctor_row_set(row, false, "", "no page faults");
	else if (p->pages < p->pages_most)
		doctor_row_set(row, true,
			"raise the limit of locked memory (ulimit -l) or kernel.perf_event_mlock_kb, if records are lost",
			"%lld KiB a CPU, not %lld: locked memory is limited",
			(long long) p->pages * PAGE_KIB, (long long) p->pages_most * PAGE_KIB);
	else
		doctor_row_set(row, true, "", "%lld KiB a CPU", (long long) p->pages * PAGE_KIB);
}

/* Microseconds of a fork, an exec and an exit, by the number of events that they inherit; measured
 * on a machine of two CPUs, without events 189. */
static long long fork_us(int64_t cpus)
{
	static const struct {
		int64_t cpus, us;
	} measured[] = { { 0, 189 }, { 8, 216 }, { 32, 271 }, { 64, 323 }, { 128, 434 }, { 256, 684 } };
	size_t i = 1;

	while (i + 1 < sizeof(measured) / sizeof(*measured) && measured[i].cpus < cpus)
		i++;
	return measured[i - 1].us + (measured[i].us - measured[i - 1].us) * (cpus - measured[i - 1].cpus) /
					    (measured[i].cpus - measured[i - 1].cpus);
}

static void processors(const struct probe *p, struct doctor_row *row)
{
	const long long cpus = p->cpus;

	row->what = "CPUs";
	if (cpus < CPUS_PRICED)
		doctor_row_set(row, true, "", "%lld: a process inherits as many events", cpus);
	else
		doctor_row_set(row, true, "",
			"%lld: a fork and its exit take about %lld us, else %lld",
			cpus, fork_us(cpus), fork_us(0));
}

static void huge_pages(const struct probe *p, struct doctor_row *row)
{
	row->what = "resolution";
	if (!*p->huge || strcmp(p->huge, "never") == 0)
		doctor_row_set(row, true, "", "a sample is 256 KiB (fine: 64)%s",
			*p->huge ? "; no transparent huge pages" : "");
	else
		doctor_row_set(row, true, "", "a sample is 256 KiB, of huge pages 128 MiB (%s)", p->huge);
}

static void callers(const struct probe *p, struct doctor_row *row)
{
	row->what = "callers";
	if (p->libdw)
		doctor_row_set(row, true, "", "by unwind tables (libdw)");
	else
		doctor_row_set(row, false,
			"install libdw 0.188 or later (Debian: apt-get install libdw-dev) and build hiwater again",
			"built without libdw: innermost functions alone");
}

static void interpreted(const struct probe *p, struct doctor_row *row)
{
	(void) p;
	row->what = "Python, JIT";
	if (access("/tmp", W_OK | X_OK) == 0)
		doctor_row_set(row, true, "",
			"perf maps: Python 3.12 with --where=python, JITs");
	else
		doctor_row_set(row, false, "make /tmp writable", "/tmp is not writable: no perf maps");
}

/* What Python is doing while the memory rises. */
static void python_stacks(const struct probe *p, struct doctor_row *row)
{
	static const char remedy[] = "as root, sysctl kernel.yama.ptrace_scope=0";

	row->what = "Python stacks";
	if (p->ptrace < 1)
		doctor_row_set(row, true, "", "while the memory rises, of Python 3.8 to 3.13");
	else if (p->ptrace == 1)
		doctor_row_set(row, true, remedy, "of the first process (kernel.yama.ptrace_scope is 1)");
	else
		doctor_row_set(row, false, remedy, "kernel.yama.ptrace_scope is %lld", (long long) p->ptrace);
}

void doctor_where_find(struct doctor_where *ret)
{
	static void (*const finders[DOCTOR_WHERE_ROWS])(const struct probe *p, struct doctor_row *row) = {
		page_faults, kernel_faults, rings, processors, huge_pages, callers, interpreted,
		python_stacks
	};
	struct probe found = { 0 };
	char answer[ANSWER], why[PROGRAM_WHY_LEN];

	*ret = (struct doctor_where) { 0 };
	if (program_find(PROGRAM, found.program, sizeof(found.program)) < 0) {
		program_why_not(PROGRAM, why, sizeof(why));
		(void) snprintf(ret->lacks, sizeof(ret->lacks), "%.1000s", why);
	} else if (!ask(found.program, answer) || !read_answer(answer, &found)) {
		(void) snprintf(ret->lacks, sizeof(ret->lacks), "%.900s does not respond, or is of another version",
			found.program);
	}
	for (size_t i = 0; i < DOCTOR_WHERE_ROWS; i++) {
		finders[i](&found, &ret->rows[i]);
		if (ret->lacks[0])
			doctor_row_set(&ret->rows[i], false, "install hiwater with " PROGRAM, "%s", ret->lacks);
	}
}

/* ---- text and JSON ------------------------------------------------------------------------------ */

void doctor_where_text(const struct doctor_where *w, size_t width, struct buf *out)
{
	if (w->lacks[0])
		doctor_rows_lack("hiwater run --where", w->lacks, width, out);
	else
		doctor_rows_text(w->rows, DOCTOR_WHERE_ROWS, "RUN --WHERE", "For", width, out);
}

void doctor_where_json(const struct doctor_where *w, struct json *j)
{
	doctor_rows_json(w->rows, DOCTOR_WHERE_ROWS, "where", j);
}

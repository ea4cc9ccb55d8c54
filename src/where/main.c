/* SPDX-License-Identifier: MIT
 *
 * hiwater-where: samples the page faults of a job for a recorder, which starts it (where/feed.h)
 * and reads its lines. A program of its own: nothing else loads libdw, and what goes wrong with a
 * program of the job does not reach the recorder.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/longfile.h"
#include "base/parse.h"
#include "base/root.h"
#include "base/smallfile.h"
#include "where/events.h"
#include "where/lines.h"
#include "where/names.h"
#include "where/outbox.h"
#include "where/tree.h"
#include "where/worker.h"

enum {
	TICK_MS = 50,
	PROCESSES = 4096,          /* of an attached tree */
	CHECK_PERCENT_OF_10 = 7,    /* of the time that checks may take: 0.7 % */
	SPOOL_FULL = 20 << 20,     /* bytes of stacks; then unwinding has no limit */
};
static const uint64_t second_ns = 1000000000, check_start_ns = 300000000, settle_every_ns = 1000000000,
		      send_every_ns = 5000000000,
		      unwind_wait_ns = 8000000000, names_wait_ns = 6000000000;

struct sampler {
	int fd;
	pid_t pid;
	struct events_options options;
	struct root root;
	struct modules *modules;
	struct tree *tree;
	struct worker *worker;
	struct outbox *outbox;
	struct events *events;
	uint64_t begun_ns, checks_ns, settled_ns, sent_ns;
	bool is_over, is_gone;     /* the run; the recorder */
	bool removes_maps;         /* perf maps, when they were read */
	bool has_said_pythons;
	int64_t begun_wall_s;
	struct buf notes;          /* lines, until the first line is sent */
};

static int parse_number(const char *text, unsigned *ret)
{
	const char *p = text;
	uint64_t value;

	if (parse_u64(&p, &value) < 0 || *p || value > INT32_MAX)
		return -EINVAL;
	*ret = (unsigned) value;
	return 0;
}

/* ---- while the job runs ---------------------------------------------------------------------- */

static void drop_high(struct sampler *s, uint32_t number)
{
	(void) buf_str(outbox_lines(s->outbox), "drop");
	lines_number(outbox_lines(s->outbox), number);
	(void) buf_str(outbox_lines(s->outbox), "\n");
}

/* As one that was not sent. */
static void expose(struct tree_high *high)
{
	high->is_new = true;
	high->was_sent = false;
}

/* The recorder has lost what was sent, such as on a full disk. */
static void send_again(struct sampler *s)
{
	size_t kept = 0;

	outbox_forget(s->outbox);
	for (uint32_t number = 1; number <= tree_last_number(s->tree); number++) {
		if (kept < tree_high_count(s->tree) && tree_high(s->tree, kept)->number == number)
			expose(tree_high(s->tree, kept++));
		else
			drop_high(s, number);
	}
}

/* "again" or "end". */
static void hear(struct sampler *s)
{
	char text[64];
	const ssize_t n = recv(s->fd, text, sizeof(text) - 1, MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		s->is_gone = true;
	text[n > 0 ? n : 0] = '\0';
	if (strstr(text, "again\n"))
		send_again(s);
	if (strstr(text, "end\n"))
		s->is_over = true;
}

static void add_raw(void *ctx, struct sample *sample)
{
	worker_add(ctx, sample);
}

/* Sends what is ready; one that was sent and has changed since waits some time, since it changes often. */
static void send_highs(struct sampler *s, uint64_t now_ns, bool all)
{
	uint32_t dropped;

	while (tree_dropped(s->tree, &dropped))
		drop_high(s, dropped);
	for (size_t i = 0; i < tree_high_count(s->tree); i++) {
		struct tree_high *const high = tree_high(s->tree, i);

		if (!high->is_new || !outbox_is_ready(high, s->worker) ||
			(!all && high->was_sent && now_ns < s->sent_ns + send_every_ns))
			continue;
		outbox_high(s->outbox, s->tree, high, s->worker);
		s->sent_ns = now_ns;
	}
	if (!outbox_send(s->outbox, 0))
		s->is_gone = true;
}

/* A note for the user. */
static void say(struct buf *to, const char *text)
{
	(void) buf_str(to, "note");
	lines_text(to, text);
	(void) buf_str(to, "\n");
}

/* Once. */
static void say_pythons(struct sampler *s)
{
	if (s->has_said_pythons || !tree_lacks_pythons(s->tree))
		return;
	s->has_said_pythons = true;
	say(outbox_lines(s->outbox),
		"the kernel does not allow to read Python's stacks in some processes (kernel.yama.ptrace_scope, or a "
		"container without CAP_SYS_PTRACE): hiwater where does not show what Python was doing there");
}

static void step(struct sampler *s)
{
	const uint64_t now = clock_boot_ns(),
		       allowed = check_start_ns + (now - s->begun_ns) / 1000 * CHECK_PERCENT_OF_10;

	s->checks_ns += tree_tick(s->tree, now, allowed > s->checks_ns ? allowed - s->checks_ns : 0);
	(void) worker_collect(s->worker);
	if (now >= s->settled_ns + settle_every_ns) {
		s->settled_ns = now;
		tree_set_lost(s->tree, events_lost(s->events));
		tree_settle(s->tree);
	}
	worker_hurry(s->worker, tree_raw_bytes(s->tree) > SPOOL_FULL);
	if (tree_raw_bytes(s->tree) > SPOOL_FULL)
		tree_each_raw(s->tree, add_raw, s->worker);
	say_pythons(s);
	send_highs(s, now, false);
}

static bool fetch(struct sampler *s, int timeout_ms)
{
	struct record **list;
	size_t n;
	const bool goes_on = events_next(s->events, timeout_ms, &list, &n);

	for (size_t i = 0; i < n; i++)
		tree_record(s->tree, list[i]);
	return goes_on;
}

static void follow(struct sampler *s)
{
	while (!s->is_over && !s->is_gone) {
		if (!fetch(s, TICK_MS))
			break;
		step(s);
		hear(s);
	}
	if (s->is_over)
		events_flush(s->events);
	while (!s->is_gone && fetch(s, 0))
		if (s->is_over)
			break;
	(void) tree_tick(s->tree, clock_boot_ns(), second_ns);
	tree_end(s->tree, clock_boot_ns());
	tree_set_lost(s->tree, events_lost(s->events));
}

/* ---- the end --------------------------------------------------------------------------------- */

/* VmHWM: the maximum of getrusage(2) has that of the program before, too. 0: unknown. */
static uint64_t own_peak_bytes(const struct sampler *s)
{
	static const char key[] = "\nVmHWM:";
	struct longfile text = { 0 };
	uint64_t kib = 0;

	if (longfile_read(&text, s->root.proc, "self/status") > 0) {
		const char *at = strstr(text.data, key);

		if (at) {
			at += strlen(key);
			at += strspn(at, " \t");
			if (parse_u64(&at, &kib) < 0)
				kib = 0;
		}
	}
	longfile_done(&text);
	return kib * 1024;
}

static void send_cost(struct sampler *s)
{
	(void) buf_str(outbox_lines(s->outbox), "cost");
	lines_number(outbox_lines(s->outbox), clock_process_cpu_ns());
	lines_number(outbox_lines(s->outbox), own_peak_bytes(s));
	(void) buf_str(outbox_lines(s->outbox), "\n");
}

static void finish(struct sampler *s)
{
	const uint64_t until = clock_awake_ns() + unwind_wait_ns;
	struct names *names = names_new();

	worker_hurry(s->worker, true);
	send_highs(s, clock_boot_ns(), true);
	while (!s->is_gone && worker_collect(s->worker) > 0 && clock_awake_ns() < until) {
		worker_wait(s->worker, TICK_MS);
		(void) buf_str(outbox_lines(s->outbox), "busy\n"); /* else the recorder does not wait */
		s->is_gone = !outbox_send(s->outbox, 0);
		hear(s);
	}
	(void) worker_collect(s->worker);
	while (!s->is_over && !s->is_gone) { /* until then it may want all again */
		(void) poll(&(struct pollfd) { .fd = s->fd, .events = POLLIN }, 1, TICK_MS);
		hear(s);
	}
	send_highs(s, clock_boot_ns(), true);
	(void) buf_str(outbox_lines(s->outbox), "naming\n");
	if (names && !s->is_gone)
		outbox_names(s->outbox, s->worker, names, clock_awake_ns() + names_wait_ns);
	names_free(names);
	send_cost(s);
	(void) buf_str(outbox_lines(s->outbox), "done\n");
	(void) outbox_send(s->outbox, 5000);
}

/* ---- the beginning --------------------------------------------------------------------------- */

struct found {
	pid_t list[PROCESSES];
	size_t n;
	unsigned refused;          /* threads that are not sampled */
	struct err why;
};

/* A thread that ended meanwhile passed its children to another. The parent of the sampler is the recorder, which may be a child of
 * the job. */
static bool is_wanted(const struct found *found, pid_t pid)
{
	for (size_t i = 0; i < found->n; i++) {
		if (found->list[i] == pid)
			return false;
	}
	return pid != getpid() && pid != getppid();
}

/* Its event, unless it has one or has ended meanwhile; and the processes that it forked. */
static void add_thread(struct sampler *s, pid_t pid, pid_t tid, struct found *found)
{
	struct longfile text = { 0 };
	struct err err = { "" };
	char name[64];
	int r = 0;

	if (tid != s->pid)
		r = events_add(s->events, tid, &err);
	if (r < 0 && r != -ESRCH && found->refused++ == 0)
		found->why = err;
	(void) snprintf(name, sizeof(name), "%d/task/%d/children", (int) pid, (int) tid);
	if (longfile_read(&text, s->root.proc, name) > 0) {
		const char *p = text.data;
		uint64_t child;

		while (found->n < PROCESSES && parse_u64(&p, &child) == 0) {
			if (is_wanted(found, (pid_t) child))
				found->list[found->n++] = (pid_t) child;
			p += *p == ' ';
		}
	}
	longfile_done(&text);
}

static void add_threads(struct sampler *s, pid_t pid, struct found *found)
{
	char name[32];
	DIR *tasks;
	int fd;

	tree_add(s->tree, pid);
	(void) snprintf(name, sizeof(name), "%d/task", (int) pid);
	fd = openat(s->root.proc, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	tasks = fd >= 0 ? fdopendir(fd) : NULL;
	if (fd >= 0 && !tasks)
		(void) close(fd);
	for (struct dirent *d; tasks && (d = readdir(tasks));) {
		const char *p = d->d_name;
		uint64_t tid;

		if (parse_u64(&p, &tid) == 0 && !*p)
			add_thread(s, pid, (pid_t) tid, found);
	}
	if (tasks)
		(void) closedir(tasks);
}

/* The process and its descendants. */
static void add_tree(struct sampler *s)
{
	struct found found = { .list = { s->pid }, .n = 1 };
	char text[300];

	for (size_t i = 0; i < found.n; i++)
		add_threads(s, found.list[i], &found);
	if (found.refused == 0)
		return;
	(void) snprintf(text, sizeof(text), "%u threads that ran already are not sampled: %.200s", found.refused,
		found.why.text);
	say(&s->notes, text);
}

static int open_all(struct sampler *s, struct err *err)
{
	struct tree_options tree = { .period = s->options.period };
	int r = root_open("/", &s->root, err);

	if (r < 0)
		return r;
	s->modules = modules_new(s->root.proc);
	tree.proc = s->root.proc;
	tree.modules = s->modules;
	s->tree = s->modules ? tree_new(&tree) : NULL;
	s->worker = s->tree ? worker_new() : NULL;
	s->outbox = s->worker ? outbox_new(s->fd, (uint64_t) s->options.period * 4096) : NULL;
	if (!s->outbox)
		return err_set(err, -ENOMEM, "out of memory");
	r = events_open(s->pid, &s->options, &s->events, err);
	if (r == 0 && !s->options.from_exec)
		add_tree(s);
	return r == 0 ? events_start(s->events, err) : r;
}

static void close_all(struct sampler *s)
{
	for (size_t i = 0; s->removes_maps && s->tree && i < tree_pid_count(s->tree); i++)
		names_remove_map(tree_pid(s->tree, i), s->begun_wall_s);
	worker_free(s->worker);
	tree_free(s->tree);
	outbox_free(s->outbox);
	events_free(s->events);
	buf_done(&s->notes);
	modules_free(s->modules);
	root_done(&s->root);
}

/* ---- names for a recording ------------------------------------------------------------------- */

/* A module of which only the path and the build id are known. Without a build id it is not known
 * whether the file is still the one that ran. */
static struct module *module_of(struct module *last, const char *path, const char *build_id)
{
	struct module *new;
	struct stat st;
	int fd;

	if (last && strcmp(last->path, path) == 0 &&
		last->is_elf == (*build_id && strcmp(last->build_id, build_id) == 0))
		return last;
	new = calloc(1, sizeof(*new));
	if (!new || !(new->path = strdup(path))) {
		free(new);
		return NULL;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		(void) module_read(fd, new);
	if (fd >= 0)
		(void) close(fd);
	new->is_elf = new->is_elf && *build_id && strcmp(new->build_id, build_id) == 0;
	return new; /* the one before stays, as long as this program: names refer to it */
}

/* Answers lines of where/naming.c. */
static int answer(void)
{
	struct names *names = names_new();
	struct module *module = NULL;
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;

	(void) setvbuf(stdout, NULL, _IOLBF, 0); /* an answer does not wait for the others */
	while (names && (n = getline(&line, &cap, stdin)) > 0) {
		char *at = line, *word, *path, *build_id;
		struct buf out = BUF_INIT(1 << 20);
		struct place_name name;
		uint64_t number, offset;

		line[n - 1] = '\0';
		if (!lines_next_text(&at, &word) || !lines_next_number(&at, &number) ||
			!lines_next_text(&at, &path) || !lines_next_text(&at, &build_id) ||
			!lines_next_number(&at, &offset))
			continue;
		module = module_of(module, path, build_id);
		if (!module)
			break;
		names_of(names, module, offset, &name);
		(void) buf_str(&out, "named");
		lines_number(&out, number);
		lines_text(&out, name.function);
		lines_text(&out, name.file);
		lines_number(&out, name.line);
		(void) puts(out.data);
		buf_done(&out);
	}
	free(line);
	names_free(names);
	return 0;
}

/* ---- what could be sampled here -------------------------------------------------------------- */

/* The number behind key in a file of the kernel; -2: unknown. */
static long kernel_number(int dir, const char *path, const char *key)
{
	char text[4096], *end;
	const char *const at = smallfile_read(dir, path, text, sizeof(text)) > 0 ? strstr(text, key) : NULL;
	const long value = at ? strtol(at + strlen(key), &end, 10) : 0;

	return at && end != at + strlen(key) ? value : -2;
}

/* "always [madvise] never" */
static void print_huge(const struct root *root)
{
	char text[128];
	const char *from = NULL;

	if (smallfile_read(root->sys, "kernel/mm/transparent_hugepage/enabled", text, sizeof(text)) > 0)
		from = strchr(text, '[');
	(void) printf("huge=%.*s\n", from ? (int) strcspn(from + 1, "]") : 0, from ? from + 1 : "");
}

/* For hiwater doctor: opens events of this process and closes them. Prints lines KEY=NUMBER: error (the
 * kernel's errno; 0: opened), kernel (1: faults in system calls count), pages of a ring, pages_most (where
 * locked memory has no limit), cpus (an event and a ring each), libdw, machine (1: of an architecture that
 * is supported), paranoid, seccomp (2: a filter), ptrace (Yama's restriction of
 * this user; -2: no Yama), and huge (always, madvise or never). */
static int probe(void)
{
	const struct events_options options = { .period = 64, .stack_bytes = 16384 };
	struct err err = { "" };
	struct root root = { .proc = -1, .sys = -1, .top = -1 };
	struct events *events = NULL;
	const int r = events_open(getpid(), &options, &events, &err);

	(void) root_open("/", &root, &err);
	(void) printf("error=%d\nkernel=%d\npages=%u\npages_most=%u\n", -r, r == 0 && events_has_kernel(events),
		r == 0 ? events_ring_pages(events) : 0, events_ring_most());
	(void) printf("cpus=%ld\nlibdw=%d\nmachine=%d\n", sysconf(_SC_NPROCESSORS_CONF), unwind_has_library(),
		events_has_registers());
	(void) printf("paranoid=%ld\nseccomp=%ld\nptrace=%ld\n",
		kernel_number(root.proc, "sys/kernel/perf_event_paranoid", ""),
		kernel_number(root.proc, "self/status", "\nSeccomp:"),
		geteuid() == 0 ? 0 : kernel_number(root.proc, "sys/kernel/yama/ptrace_scope", ""));
	print_huge(&root);
	root_done(&root);
	events_free(events);
	return fflush(stdout) == 0 ? 0 : 1;
}

/* FD PID PERIOD STACK-BYTES run|attach[,maps]; or names; or probe */
int main(int argc, char **argv)
{
	static const int ends[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };
	struct sampler s = { .options.from_exec = true, .notes = BUF_INIT(1 << 12) };
	struct err err = { "" };
	unsigned fd, pid;
	int r;

	if (argc == 2 && strcmp(argv[1], "names") == 0)
		return answer();
	if (argc == 2 && strcmp(argv[1], "probe") == 0)
		return probe();
	if (argc != 6 || parse_number(argv[1], &fd) < 0 || parse_number(argv[2], &pid) < 0 ||
		parse_number(argv[3], &s.options.period) < 0 ||
		parse_number(argv[4], &s.options.stack_bytes) < 0) {
		(void) fprintf(stderr,
			"hiwater-where is a part of hiwater: hiwater run --where\n");
		return 2;
	}
	s.fd = (int) fd;
	s.pid = (pid_t) pid;
	s.options.from_exec = strncmp(argv[5], "attach", 6) != 0;
	s.removes_maps = strstr(argv[5], ",maps") != NULL;
	(void) fcntl(s.fd, F_SETFD, FD_CLOEXEC);
	s.begun_ns = clock_boot_ns();
	s.begun_wall_s = (int64_t) (clock_wall_ns() / 1000000000);
	r = open_all(&s, &err);
	if (r < 0) {
		if (s.outbox) {
			(void) buf_str(outbox_lines(s.outbox), "failed");
			lines_text(outbox_lines(s.outbox), err.text);
			(void) buf_str(outbox_lines(s.outbox), "\n");
			(void) outbox_send(s.outbox, 1000);
		}
		close_all(&s);
		return 1;
	}
	/* The end of a time limit ends all processes of a step: this one ends with its socket. */
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		(void) signal(ends[i], SIG_IGN);
	/* A job does not wait for a server of debug information. */
	(void) unsetenv("DEBUGINFOD_URLS");
	if (s.options.from_exec)
		tree_begin(s.tree, s.pid, true);
	(void) buf_printf(outbox_lines(s.outbox), "ready\t%u\t%d\n", events_ring_pages(s.events),
		events_has_kernel(s.events));
	if (!unwind_has_library())
		say(&s.notes, "this build of hiwater-where has no libdw: functions have no names and no callers");
	(void) buf_add(outbox_lines(s.outbox), s.notes.data, s.notes.len);
	(void) outbox_send(s.outbox, 1000);
	follow(&s);
	if (!s.is_gone)
		finish(&s);
	close_all(&s);
	return 0;
}

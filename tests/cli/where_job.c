/* SPDX-License-Identifier: MIT
 *
 * A job whose memory is known by construction: which function touches how much is said by the words of its command line, done one after
 * the other. Before it holds its memory it prints a line for each function: its name and the bytes that are resident. N is in MiB.
 *
 *     first N, second N, third N   touched by touch_first (a loop), touch_second (memset), touch_third (memset)
 *     free             gives back what the last first has; discard: its pages only (the next words take memory at the same addresses)
 *     arena N          the words after it take their memory from one mapping of N, until it is used up
 *     apart            the mappings after it have guard pages, so that the kernel does not merge them
 *     huge, small      the mappings after it are aligned and advised to be huge pages, or not
 *     read N FILE      read(2) of N into fresh memory, by fill_by_read
 *     brk N            by grow_break, with sbrk
 *     malloc N         by build_list, in pieces of 1000 bytes
 *     realloc N        by grow_list, whose array grows by an eighth
 *     thread N         by touch_on_thread
 *     stack KIB        by touch_stack, a recursion
 *     descend D N      by touch_deep, D calls of 1 KiB below main
 *     file N FILE      reads all pages of a mapped file (made if it does not exist), in read_mapped
 *     copyfile N FILE  writes all pages of a private mapping, in write_mapped
 *     shared N         shared memory, by touch_shared; shared-child N: a child, which stays, reads all of it again
 *     grow A B         by grower: A, which mremap moves to a mapping of B, and the rest
 *     move N           by mover, and moved by mremap
 *     cow N M          N children, which stay, write M of what first has, in rewrite_copy
 *     orphans N M K    a child touches 300 in touch_first; its N children write the same M of it (rewrite_copy); it ends; the first of
 *                      them touches K (touch_third); they stay until the main process goes on to its end
 *     crowd N MS M     N children, ten at a time, touch M in touch_small and last MS ms
 *     library N FILE   dlopen, touch_library, dlclose
 *     jit N none|own|forged   by machine code in anonymous memory; with a /tmp/perf-PID.map of its own, or one that is another user's
 *     exec, fork, vfork, daemon   the words after it are for: this process, a new image; a child; a child's new image; a daemon
 *     gap MS           sleeps
 *     hold [MS]        prints, and sleeps; a job that never held does so at its end
 *     until-eof        prints, and waits until stdin is closed
 *     ready FILE       makes FILE; await FILE: waits until it is there
 *     name NAME        is the name of the process from now on
 *     debug            a line with what the kernel says of this process comes with what it prints
 *     forbid ERRNO     perf_event_open fails so for this process and what comes from it; then as exec, but of any program
 *     exit N, kill N   ends so
 */
#include <stddef.h>
#include <string.h>

#define KEPT   __attribute__((noinline, noclone))
#define STAY() __asm__ volatile("" ::: "memory") /* no tail call: the caller stays on the stack */

#ifdef LIBRARY
KEPT void touch_library(char *at, size_t bytes)
{
	memset(at, 1, bytes);
	STAY();
}
#else
#ifndef NO_DLOPEN
#include <dlfcn.h>
#endif
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	PAGE = 4096,
	MIB = 1 << 20,
	HUGE = 2 << 20,
	HOLD_MS = 300,
	AT_ONCE = 10,
};

static struct {
	const char *who;
	long long bytes;
} known[32];
static char *program, **rest; /* the words to come */
static char *arena, *first_at;
static size_t arena_left, first_bytes;
static bool is_apart, is_huge, is_debug, has_held;
static int children_end[2] = { -1, -1 }; /* its write end is closed when the children may end */

static void fail(const char *what)
{
	perror(what);
	exit(99);
}

static void *sure(void *at, const char *what)
{
	if (at == MAP_FAILED || !at)
		fail(what);
	return at;
}

static void know(const char *who, long long bytes)
{
	unsigned i = 0;

	while (known[i].who && strcmp(known[i].who, who))
		i++;
	known[i].who = who;
	known[i].bytes += bytes;
}

static void sleep_ms(long ms)
{
	struct timespec left = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

static void say_lines_of(const char *file, const char *const *names)
{
	char line[256];
	FILE *from = fopen(file, "r");

	while (from && fgets(line, sizeof(line), from))
		for (const char *const *name = names; *name; name++)
			if (!strncmp(line, *name, strlen(*name)))
				dprintf(1, "# %s", line);
	if (from)
		fclose(from);
}

static void say_known(void)
{
	has_held = true;
	for (unsigned i = 0; known[i].who; i++)
		if (known[i].bytes)
			dprintf(1, "%s %lld\n", known[i].who, known[i].bytes);
	if (is_debug) {
		dprintf(1, "# pid %d\n", (int) getpid());
		say_lines_of("/proc/self/status",
			(const char *[]) { "VmRSS", "RssAnon", "RssFile", "RssShmem", "VmStk", NULL });
		say_lines_of("/proc/self/smaps_rollup", (const char *[]) { "Pss:", "Private_Dirty", "AnonHuge", NULL });
	}
}

/* ---- memory, and who touches it ---------------------------------------------------------------- */

static char *map(size_t bytes)
{
	return sure(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), "mmap");
}

/* Fresh memory, with what the words said of it. */
static char *take(size_t bytes)
{
	char *at;

	if (arena_left >= bytes) {
		at = arena;
		arena += bytes;
		arena_left -= bytes;
		return at;
	}
	if (is_huge) {
		at = map(bytes + HUGE);
		at += (HUGE - (size_t) at % HUGE) % HUGE;
		if (madvise(at, bytes, MADV_HUGEPAGE))
			fail("MADV_HUGEPAGE");
		return at;
	}
	if (!is_apart)
		return map(bytes);
	at = map(bytes + 2 * PAGE);
	if (mprotect(at, PAGE, PROT_NONE) || mprotect(at + PAGE + bytes, PAGE, PROT_NONE))
		fail("mprotect");
	return at + PAGE;
}

KEPT static void touch_first(volatile char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += PAGE)
		at[i] = 1;
}

KEPT static void touch_second(char *at, size_t bytes)
{
	memset(at, 2, bytes);
	STAY();
}

KEPT static void touch_third(char *at, size_t bytes)
{
	memset(at, 3, bytes);
	STAY();
}

KEPT static void touch_small(volatile char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += PAGE)
		at[i] = 1;
}

KEPT static void rewrite_copy(volatile char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += PAGE)
		at[i]++;
}

KEPT static void fill_by_read(char *at, size_t bytes, int fd)
{
	while (bytes) {
		ssize_t n = read(fd, at, bytes < MIB ? bytes : MIB);

		if (n <= 0)
			fail("read");
		at += n;
		bytes -= (size_t) n;
	}
}

KEPT static void grow_break(size_t bytes)
{
	char *at = sure(sbrk((intptr_t) bytes), "sbrk");

	memset(at, 1, bytes);
	STAY();
}

KEPT static long long build_list(size_t bytes)
{
	static void **volatile last;
	long long sum = 0;

	for (; sum < (long long) bytes; sum += 1008) {
		void **piece = sure(malloc(1000), "malloc");

		memset(piece, 1, 1000);
		*piece = last;
		last = piece;
	}
	return sum;
}

KEPT static void grow_list(size_t bytes)
{
	static char *volatile list;
	size_t used = 0;

	for (size_t room = PAGE; used < bytes; room += room / 8 + PAGE) {
		if (room > bytes)
			room = bytes;
		list = sure(realloc(list, room), "realloc");
		for (; used < room; used += 8)
			*(volatile long *) (list + used) = 1;
		if (room == bytes)
			break;
	}
}

KEPT static void touch_on_thread(char *at, size_t bytes)
{
	memset(at, 4, bytes);
	STAY();
}

static void *thread_main(void *bytes)
{
	touch_on_thread(take(*(size_t *) bytes), *(size_t *) bytes);
	STAY();
	return NULL;
}

KEPT static size_t touch_stack(size_t bytes)
{
	enum {
		FRAME = 32 << 10
	};
	volatile char frame[FRAME];

	for (size_t i = FRAME; i >= PAGE; i -= PAGE)
		frame[i - PAGE] = 1;
	return bytes > FRAME ? touch_stack(bytes - FRAME) + (size_t) frame[0] : (size_t) frame[0];
}

KEPT static void touch_deep(char *at, size_t bytes)
{
	memset(at, 5, bytes);
	STAY();
}

KEPT static size_t descend(size_t depth, size_t bytes)
{
	volatile char frame[1000];

	frame[0] = (char) depth;
	if (depth)
		return descend(depth - 1, bytes) + (size_t) frame[0];
	touch_deep(take(bytes), bytes);
	return (size_t) frame[0];
}

KEPT static long read_mapped(const volatile char *at, size_t bytes)
{
	long sum = 0;

	for (size_t i = 0; i < bytes; i += PAGE)
		sum += at[i];
	return sum;
}

KEPT static void write_mapped(volatile char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += PAGE)
		at[i] = 1;
}

KEPT static void touch_shared(volatile char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += PAGE)
		at[i] = 1;
}

KEPT static void grower(size_t before, size_t after)
{
	char *at = map(before + PAGE);

	if (mprotect(at + before, PAGE, PROT_NONE)) /* in the way, so that it has to move */
		fail("mprotect");
	memset(at, 1, before);
	at = sure(mremap(at, before, after, MREMAP_MAYMOVE), "mremap");
	memset(at + before, 2, after - before);
	STAY();
}

KEPT static void mover(size_t bytes)
{
	char *from = map(bytes), *to = map(bytes);

	memset(from, 1, bytes);
	sure(mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to), "mremap");
	STAY();
}

/* ---- words ------------------------------------------------------------------------------------- */

static size_t number(void)
{
	char *end = "";
	unsigned long n = *rest ? strtoul(*rest, &end, 10) : 0;

	if (!*rest || *end || end == *rest) {
		fprintf(stderr, "where_job: a number is missing\n");
		exit(98);
	}
	rest++;
	return n;
}

static size_t mib(void)
{
	return number() * MIB;
}

static const char *word(void)
{
	if (!*rest) {
		fprintf(stderr, "where_job: a word is missing\n");
		exit(98);
	}
	return *rest++;
}

static void make_pipe(int ends[2])
{
	if (pipe2(ends, O_CLOEXEC))
		fail("pipe");
}

static void wait_eof(int fd)
{
	char c;

	while (read(fd, &c, 1) > 0)
		;
}

static void wait_bytes(int fd, unsigned n)
{
	char c;

	while (n-- > 0)
		if (read(fd, &c, 1) != 1)
			fail("a child ended early");
}

static void say_ready(int fd)
{
	if (write(fd, "", 1) != 1)
		_exit(97);
}

static pid_t fork_sure(void)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	return pid;
}

static void stay_as_child(void)
{
	close(children_end[1]);
	wait_eof(children_end[0]);
	_exit(0);
}

static void children_may_stay(void)
{
	if (children_end[0] < 0)
		make_pipe(children_end);
}

static void cow(unsigned n, size_t bytes)
{
	int ready[2];

	make_pipe(ready);
	children_may_stay();
	for (unsigned i = 0; i < n; i++)
		if (!fork_sure()) {
			rewrite_copy(first_at, bytes);
			say_ready(ready[1]);
			stay_as_child();
		}
	wait_bytes(ready[0], n);
	know("rewrite_copy", (long long) (n * bytes));
}

static void parent_of_orphans(unsigned n, size_t first, size_t bytes, size_t third, const int done[2])
{
	int ready[2], alive[2];

	make_pipe(ready);
	make_pipe(alive); /* its write end is this process's alone */
	char *at = take(first);

	touch_first(at, first);
	for (unsigned i = 0; i < n; i++)
		if (!fork_sure()) {
			close(alive[1]);
			rewrite_copy(at, bytes);
			say_ready(ready[1]);
			wait_eof(alive[0]);
			if (!i) {
				touch_third(take(third), third);
				say_ready(done[1]);
			}
			stay_as_child();
		}
	wait_bytes(ready[0], n);
	_exit(0);
}

/* A parent that ends before its children. */
static void orphans(unsigned n, size_t bytes, size_t third)
{
	size_t first = (size_t) 300 * MIB;
	int done[2];

	make_pipe(done);
	children_may_stay();
	pid_t parent = fork_sure();

	if (!parent)
		parent_of_orphans(n, first, bytes, third, done);
	waitpid(parent, NULL, 0);
	wait_bytes(done[0], 1);
	know("touch_first", (long long) (first - bytes));
	know("rewrite_copy", (long long) (n * bytes));
	know("touch_third", (long long) third);
}

static void crowd(unsigned n, long ms, size_t bytes)
{
	unsigned living = 0;

	for (unsigned i = 0; i < n; i++) {
		if (living == AT_ONCE && wait(NULL) > 0)
			living--;
		if (!fork_sure()) {
			touch_small(take(bytes), bytes);
			sleep_ms(ms);
			_exit(0);
		}
		living++;
	}
	while (living && wait(NULL) > 0)
		living--;
}

static char *map_file(size_t bytes, const char *name, int prot, int flags)
{
	int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		fail(name);
	for (off_t at = st.st_size; at < (off_t) bytes; at += MIB) { /* real blocks, not holes */
		static char block[MIB];

		memset(block, 'x', sizeof(block));
		if (pwrite(fd, block, sizeof(block), at) != sizeof(block))
			fail(name);
	}
	char *mapped = sure(mmap(NULL, bytes, prot, flags, fd, 0), name);

	close(fd);
	return mapped;
}

static void share_with_child(void *at, size_t bytes)
{
	int ready[2];

	make_pipe(ready);
	children_may_stay();
	if (!fork_sure()) {
		read_mapped(at, bytes);
		say_ready(ready[1]);
		stay_as_child();
	}
	wait_bytes(ready[0], 1);
}

#ifndef NO_DLOPEN
static void by_library(size_t bytes, const char *name)
{
	void *library = dlopen(name, RTLD_NOW);
	void (*touch)(char *, size_t);

	if (!library) {
		fprintf(stderr, "where_job: %s\n", dlerror());
		exit(99);
	}
	*(void **) &touch = dlsym(library, "touch_library");
	touch(take(bytes), bytes);
	dlclose(library);
	know("touch_library", (long long) bytes);
}
#endif

/* x86-64: a loop that writes to each page. */
static void jit(size_t bytes, const char *whose)
{
	static const unsigned char code[] = { 0xc6, 0x07, 1, 0x48, 0x81, 0xc7, 0, 0x10, 0, 0,
		0x48, 0x81, 0xee, 0, 0x10, 0, 0, 0x75, 0xed, 0xc3 };
	char *at = map(PAGE), name[64];
	void (*touch)(char *, size_t);

	memcpy(at, code, sizeof(code));
	if (mprotect(at, PAGE, PROT_READ | PROT_EXEC))
		fail("mprotect");
	if (strcmp(whose, "none")) {
		snprintf(name, sizeof(name), "/tmp/perf-%d.map", (int) getpid());
		int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

		if (fd < 0)
			fail(name);
		dprintf(fd, "%lx %x jitted_%s\n", (unsigned long) at, (unsigned) PAGE, whose);
		if (!strcmp(whose, "forged") && fchown(fd, 65533, 65533))
			fail("chown");
		close(fd);
		dprintf(1, "# map %s\n", name);
	}
	memcpy(&touch, &at, sizeof(at));
	touch(take(bytes), bytes);
	know("[jit]", (long long) bytes);
}

static void forbid(unsigned error)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_perf_event_open, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog sieve = { sizeof(filter) / sizeof(*filter), filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &sieve))
		fail("seccomp");
	execvp(*rest, rest);
	fail(*rest);
}

static void exec_rest(void)
{
	*--rest = program;
	execv(program, rest);
	_exit(96);
}

static void wait_status(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || status)
		fail("a child did not end well");
}

/* Goes on as a process with a session of its own, whose parent has ended. */
static void become_daemon(void)
{
	int alive[2];

	make_pipe(alive);
	pid_t pid = fork_sure();

	if (pid) {
		close(alive[1]);
		say_known();
		waitpid(pid, NULL, 0);
		wait_eof(alive[0]);
		_exit(0);
	}
	setsid();
	if (fork_sure())
		_exit(0);
	memset(known, 0, sizeof(known));
}

static bool is_word_of_processes(const char *name)
{
	size_t n;

	if (!strcmp(name, "exec")) {
		exec_rest();
	} else if (!strcmp(name, "fork")) {
		pid_t pid = fork_sure();

		if (pid) {
			say_known();
			wait_status(pid);
			exit(0);
		}
		memset(known, 0, sizeof(known));
	} else if (!strcmp(name, "vfork")) {
		say_known();
		pid_t pid = vfork();

		if (!pid)
			exec_rest();
		wait_status(pid);
		exit(0);
	} else if (!strcmp(name, "daemon")) {
		become_daemon();
	} else if (!strcmp(name, "cow")) {
		n = number();
		cow((unsigned) n, mib());
	} else if (!strcmp(name, "orphans")) {
		n = number();
		size_t bytes = mib();

		orphans((unsigned) n, bytes, mib());
	} else if (!strcmp(name, "crowd")) {
		n = number();
		size_t ms = number();

		crowd((unsigned) n, (long) ms, mib());
	} else {
		return false;
	}
	return true;
}

/* What the kernel gives in other ways than by a first touch of a mapping. */
static bool is_word_of_mappings(const char *name)
{
	size_t n;

	if (!strcmp(name, "read")) {
		n = mib();
		int fd = open(word(), O_RDONLY | O_CLOEXEC);

		fill_by_read(take(n), n, fd);
		close(fd);
		know("fill_by_read", (long long) n);
	} else if (!strcmp(name, "file") || !strcmp(name, "copyfile")) {
		n = mib();
		if (*name == 'f')
			read_mapped(map_file(n, word(), PROT_READ, MAP_SHARED), n);
		else
			write_mapped(map_file(n, word(), PROT_READ | PROT_WRITE, MAP_PRIVATE), n);
		know(*name == 'f' ? "[file]" : "write_mapped", (long long) n);
	} else if (!strcmp(name, "shared") || !strcmp(name, "shared-child")) {
		n = mib();
		char *at = sure(mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), "mmap");

		touch_shared(at, n);
		if (strcmp(name, "shared"))
			share_with_child(at, n);
		know("touch_shared", (long long) n);
	} else if (!strcmp(name, "grow")) {
		n = mib();
		size_t after = mib();

		grower(n, after);
		know("grower", (long long) (after - n));
		know("[moved]", (long long) n);
	} else if (!strcmp(name, "move")) {
		n = mib();
		mover(n);
		know("[moved]", (long long) n);
	} else if (!strcmp(name, "jit")) {
		n = mib();
		jit(n, word());
#ifndef NO_DLOPEN
	} else if (!strcmp(name, "library")) {
		n = mib();
		by_library(n, word());
#endif
	} else {
		return false;
	}
	return true;
}

static bool is_word_of_touching(const char *name)
{
	size_t n;

	if (!strcmp(name, "first")) {
		n = mib();
		first_at = take(n);
		first_bytes = n;
		touch_first(first_at, n);
		know("touch_first", (long long) n);
	} else if (!strcmp(name, "second")) {
		n = mib();
		touch_second(take(n), n);
		know("touch_second", (long long) n);
	} else if (!strcmp(name, "third")) {
		n = mib();
		touch_third(take(n), n);
		know("touch_third", (long long) n);
	} else if (!strcmp(name, "free")) {
		munmap(first_at, first_bytes);
		know("touch_first", -(long long) first_bytes);
	} else if (!strcmp(name, "discard")) {
		madvise(first_at, first_bytes, MADV_DONTNEED);
		know("touch_first", -(long long) first_bytes);
		arena = first_at;
		arena_left = first_bytes;
	} else if (!strcmp(name, "brk")) {
		n = mib();
		grow_break(n);
		know("grow_break", (long long) n);
	} else if (!strcmp(name, "malloc")) {
		know("build_list", build_list(mib()));
	} else if (!strcmp(name, "realloc")) {
		n = mib();
		grow_list(n);
		know("grow_list", (long long) n);
	} else if (!strcmp(name, "thread")) {
		pthread_t thread;

		n = mib();
		if (pthread_create(&thread, NULL, thread_main, &n))
			fail("pthread_create");
		pthread_join(thread, NULL);
		know("touch_on_thread", (long long) n);
	} else if (!strcmp(name, "stack")) {
		n = number() << 10;
		touch_stack(n);
		know("touch_stack", (long long) n);
	} else if (!strcmp(name, "descend")) {
		size_t depth = number();

		n = mib();
		descend(depth, n);
		know("touch_deep", (long long) n);
	} else {
		return false;
	}
	return true;
}

static bool is_word_of_state(const char *name)
{
	if (!strcmp(name, "arena")) {
		arena_left = mib();
		arena = map(arena_left);
	} else if (!strcmp(name, "apart")) {
		is_apart = true;
	} else if (!strcmp(name, "huge") || !strcmp(name, "small")) {
		is_huge = *name == 'h';
	} else if (!strcmp(name, "debug")) {
		is_debug = true;
	} else if (!strcmp(name, "name")) {
		prctl(PR_SET_NAME, word());
	} else if (!strcmp(name, "ready")) {
		close(open(word(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
	} else if (!strcmp(name, "await")) {
		for (const char *file = word(); access(file, F_OK);)
			sleep_ms(5);
	} else if (!strcmp(name, "gap")) {
		sleep_ms((long) number());
	} else if (!strcmp(name, "hold")) {
		say_known();
		sleep_ms(*rest && **rest >= '0' && **rest <= '9' ? (long) number() : HOLD_MS);
	} else if (!strcmp(name, "until-eof")) {
		say_known();
		wait_eof(0);
	} else if (!strcmp(name, "forbid")) {
		forbid((unsigned) number());
	} else if (!strcmp(name, "exit")) {
		exit((int) number());
	} else if (!strcmp(name, "kill")) {
		kill(getpid(), (int) number());
	} else {
		return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	(void) argc;
	program = argv[0];
	rest = argv + 1;
	while (*rest) {
		const char *name = word();

		if (!is_word_of_state(name) && !is_word_of_touching(name) && !is_word_of_mappings(name) && !is_word_of_processes(name)) {
			fprintf(stderr, "where_job: unknown word '%s'\n", name);
			return 98;
		}
	}
	if (!has_held) {
		say_known();
		sleep_ms(HOLD_MS);
	}
	close(children_end[1]);
	while (wait(NULL) > 0)
		;
	return 0;
}
#endif

/* SPDX-License-Identifier: MIT
 *
 * Jobs that are hard to measure, and whose use is known:
 *
 *   many N           N children that wait
 *   storm N          N children of a millisecond, eight at a time; prints what the kernel counted for all, in us
 *   threads N        N threads that wait
 *   names HEX...     a child for each name (bytes in hexadecimal), set with PR_SET_NAME
 *   shrink WAS IS    held WAS MB, holds IS MB; "grow N" on stdin takes N MB more
 *   beat FILE        one byte into FILE each 5 ms
 *   wave FILE        memory, processor time, children and I/O that go up and down for two seconds and a half
 *
 * Each but storm and wave says "ready" on stdout, goes on until the end of stdin, and exits 3. None lives longer than
 * two minutes, whatever happens. The peaks of wave: 80 MB itself, 60 MB its child (20 of them its parent's).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	LIFE_S = 120,
	ALIVE_AT_ONCE = 8,
	STATUS = 3,
	MB = 1000000
};

static void fail(const char *what)
{
	(void) fprintf(stderr, "stress: %s: %s\n", what, strerror(errno));
	_exit(99);
}

static void say(const char *text)
{
	if (write(STDOUT_FILENO, text, strlen(text)) < 0)
		fail("stdout");
}

static void until_told(void)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

static void wait_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	(void) nanosleep(&t, NULL);
}

static long long now_us(clockid_t clock)
{
	struct timespec t;

	(void) clock_gettime(clock, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static void spin_us(long long us)
{
	long long end = now_us(CLOCK_PROCESS_CPUTIME_ID) + us;

	while (now_us(CLOCK_PROCESS_CPUTIME_ID) < end)
		;
}

static void *take(size_t bytes)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		fail("mmap");
	memset(p, 1, bytes);
	return p;
}

/* A child that dies with its parent and otherwise waits. */
static pid_t waiting_child(const char *name)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (pid > 0)
		return pid;
	(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void) close(STDIN_FILENO);
	(void) close(STDOUT_FILENO);
	if (name)
		(void) prctl(PR_SET_NAME, name);
	(void) alarm(LIFE_S);
	for (;;)
		(void) pause();
}

static void end_children(const pid_t *pids, int n)
{
	for (int i = 0; i < n; i++)
		(void) kill(pids[i], SIGKILL);
	for (int i = 0; i < n; i++)
		(void) waitpid(pids[i], NULL, 0);
}

static int many(int n)
{
	pid_t *pids = calloc((size_t) n, sizeof(*pids));

	for (int i = 0; pids && i < n; i++)
		pids[i] = waiting_child(NULL);
	say("ready\n");
	until_told();
	end_children(pids, n);
	free(pids);
	return STATUS;
}

static long long micros(struct timeval t)
{
	return t.tv_sec * 1000000LL + t.tv_usec;
}

static void print_usage(void)
{
	struct rusage self, children;

	(void) getrusage(RUSAGE_SELF, &self);
	(void) getrusage(RUSAGE_CHILDREN, &children);
	(void) printf("%lld %lld\n", micros(self.ru_utime) + micros(children.ru_utime),
		micros(self.ru_stime) + micros(children.ru_stime));
	(void) fflush(stdout);
}

static int storm(int n)
{
	int alive = 0;

	wait_ms(100); /* what lives before the first look is another matter */
	for (int i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid < 0)
			fail("fork");
		if (pid == 0) {
			spin_us(300);
			_exit(0);
		}
		if (++alive == ALIVE_AT_ONCE) {
			(void) wait(NULL);
			alive--;
		}
	}
	while (wait(NULL) > 0)
		;
	print_usage();
	return 0;
}

static void *idle(void *unused)
{
	for (;;)
		(void) pause();
	return unused;
}

static int threads(int n)
{
	pthread_attr_t small;

	(void) pthread_attr_init(&small);
	(void) pthread_attr_setstacksize(&small, 64 << 10);
	for (int i = 0; i < n; i++) {
		pthread_t thread;

		if ((errno = pthread_create(&thread, &small, idle, NULL)) != 0)
			fail("pthread_create");
	}
	say("ready\n");
	until_told();
	return STATUS;
}

static int names(int n, char **hex)
{
	pid_t *pids = calloc((size_t) n, sizeof(*pids));

	for (int i = 0; pids && i < n; i++) {
		char name[16] = "";

		for (size_t b = 0; b < sizeof(name) - 1 && hex[i][2 * b]; b++) {
			char byte[3] = { hex[i][2 * b], hex[i][2 * b + 1], '\0' };

			name[b] = (char) strtol(byte, NULL, 16);
		}
		pids[i] = waiting_child(name);
	}
	say("ready\n");
	until_told();
	end_children(pids, n);
	free(pids);
	return STATUS;
}

static int shrink(size_t was, size_t is)
{
	char line[64];

	(void) munmap(take(was * MB), was * MB);
	(void) take(is * MB);
	say("ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		if (strncmp(line, "grow ", 5) == 0) {
			(void) take(strtoul(line + 5, NULL, 10) * MB);
			say("grown\n");
		}
	}
	return STATUS;
}

static int beat(const char *path)
{
	struct pollfd told = { .fd = STDIN_FILENO, .events = POLLIN };
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	if (fd < 0)
		fail(path);
	say("ready\n");
	while (poll(&told, 1, 5) == 0)
		if (write(fd, ".", 1) != 1)
			fail(path);
	say("done\n");
	return STATUS;
}

static int wave(const char *path)
{
	char *first = take(20 * MB);
	pid_t child;

	spin_us(200000);
	wait_ms(200);
	child = fork();
	if (child < 0)
		fail("fork");
	if (child == 0) {
		(void) take(40 * MB);
		spin_us(100000);
		wait_ms(600);
		_exit(0);
	}
	(void) waitpid(child, NULL, 0);
	(void) munmap(take(60 * MB), 60 * MB); /* for a moment only */
	(void) munmap(first, 20 * MB);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	char *data = take(4 * MB);

	if (fd < 0 || write(fd, data, 4 * MB) != 4 * MB || fsync(fd) < 0)
		fail(path);
	wait_ms(1400);
	print_usage();
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int number = argc > 2 ? atoi(argv[2]) : 0;

	(void) alarm(LIFE_S);
	if (strcmp(mode, "many") == 0)
		return many(number);
	if (strcmp(mode, "storm") == 0)
		return storm(number);
	if (strcmp(mode, "threads") == 0)
		return threads(number);
	if (strcmp(mode, "names") == 0)
		return names(argc - 2, argv + 2);
	if (strcmp(mode, "shrink") == 0 && argc == 4)
		return shrink((size_t) number, (size_t) atoi(argv[3]));
	if (strcmp(mode, "beat") == 0 && argc == 3)
		return beat(argv[2]);
	if (strcmp(mode, "wave") == 0 && argc == 3)
		return wave(argv[2]);
	(void) fprintf(stderr, "stress: see the top of stress.c\n");
	return 2;
}

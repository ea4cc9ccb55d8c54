/* SPDX-License-Identifier: MIT
 *
 * Compares the cost of a sample with that of the bare preads that it needs, for trees of sleeping
 * processes. Prints lines "KIND PROCESSES SAMPLE_US FLOOR_US", several rounds of each: CPU time in
 * this process of a step of the sampler and of the reads alone, in turns, so that the speed and the
 * load of the machine are the same for both. KIND is memory, or all (with CPU time, I/O and
 * high-water marks).
 *
 * bench-tick bare SECONDS prints the share of a core that the reads of default sampling alone take:
 * a timer that fires ten times a second, reads of the memory of ten sleeping processes, and once a
 * second of their other files. On a virtual machine most of this is the cost of waking up.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/root.h"
#include "job/job.h"
#include "sample/sampler.h"

enum {
	PROCESSES_MOST = 1000,
	ROUNDS = 15,
	TICKS_A_ROUND = 20,
	FILES = 4,
	INTERVAL_NS = 2000000,
	BARE_PROCESSES = 10,
	BARE_HZ = 10
};

static pid_t pids[PROCESSES_MOST];
static int files[PROCESSES_MOST][FILES];
static int loadavg, timer;

static double cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double) t.tv_sec * 1e6 + (double) t.tv_nsec / 1e3;
}

static void open_files(const struct root *root, int n)
{
	static const char *const names[] = { "statm", "stat", "io", "status" };

	loadavg = openat(root->proc, "loadavg", O_RDONLY | O_CLOEXEC);
	for (int i = 0; i < n; i++) {
		for (int k = 0; k < FILES; k++) {
			char path[64];

			(void) snprintf(path, sizeof(path), "%d/%s", (int) pids[i], names[k]);
			files[i][k] = openat(root->proc, path, O_RDONLY | O_CLOEXEC);
		}
	}
}

static void read_bare(int n, int what)
{
	char buf[2048];

	(void) !read(timer, buf, sizeof(buf));
	(void) !pread(loadavg, buf, sizeof(buf), 0);
	for (int i = 0; i < n; i++) {
		for (int k = 0; k < what; k++)
			(void) !pread(files[i][k], buf, sizeof(buf), 0);
	}
}

/* The floor: woken by a timer at the same rate, it reads and ignores the content. */
static double floor_us(int n, int what)
{
	struct pollfd fd = { .fd = timer, .events = POLLIN };
	double sum = 0;

	for (int t = 0; t < TICKS_A_ROUND; t++) {
		(void) poll(&fd, 1, -1);
		double before = cpu_us();

		read_bare(n, what);
		sum += cpu_us() - before;
	}
	return sum / TICKS_A_ROUND;
}

static void start_timer(long interval_ns)
{
	const struct timespec period = { 0, interval_ns };
	const struct itimerspec when = { period, period };

	timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
	(void) timerfd_settime(timer, 0, &when, NULL);
}

/* Steps of the sampler, whenever its descriptor is readable. */
static double ticks_us(struct sampler *s)
{
	struct pollfd fd = { .fd = sampler_fd(s), .events = POLLIN };
	double sum = 0;

	for (int t = 0; t < TICKS_A_ROUND; t++) {
		(void) poll(&fd, 1, -1);
		double before = cpu_us();

		sampler_step(s);
		sum += cpu_us() - before;
	}
	return sum / TICKS_A_ROUND;
}

static struct sampler *start(const struct root *root, uint64_t window_ns)
{
	const struct sampler_options options = {
		.root = root,
		.interval_ns = INTERVAL_NS,
		.window_ns = window_ns,
		.ours = true,
		.cgroup = CGROUP_NONE,
		.workdir = NULL,
	};
	struct sampler *s = NULL;
	struct err err = { "" };

	if (sampler_new(&options, &s, &err) < 0 || sampler_start(s, pids[0], &err) < 0) {
		fprintf(stderr, "tick: %s\n", err.text);
		exit(1);
	}
	return s;
}

static void spawn(int n)
{
	for (int i = 0; i < n; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				(void) pause();
		}
	}
}

static void end(int n)
{
	for (int i = 0; i < n; i++) {
		(void) kill(pids[i], SIGKILL);
		(void) waitpid(pids[i], NULL, 0);
		for (int k = 0; k < FILES; k++)
			(void) close(files[i][k]);
	}
	(void) close(loadavg);
}

/* One sampler at a time, as in a run: two would evict each other's data from the caches. */
static void measure_kind(const struct root *root, int n, const char *kind, int what, uint64_t window_ns)
{
	struct sampler *s = start(root, window_ns);

	(void) ticks_us(s);
	for (int r = 0; r < ROUNDS; r++) {
		const double bare = floor_us(n, what), tick = ticks_us(s);

		printf("%s %d %.3f %.3f\n", kind, n, tick, bare);
	}
	sampler_free(s);
}

static void measure(const struct root *root, int n)
{
	spawn(n);
	open_files(root, n);
	measure_kind(root, n, "memory", 1, UINT64_C(3600000000000));
	measure_kind(root, n, "all", FILES, INTERVAL_NS);
	end(n);
}

/* Includes the cost of waking up. */
static void bare(const struct root *root, int seconds)
{
	struct pollfd fd = { .fd = timer, .events = POLLIN };
	double before;

	spawn(BARE_PROCESSES);
	open_files(root, BARE_PROCESSES);
	before = cpu_us();
	for (int t = 0; t < seconds * BARE_HZ; t++) {
		(void) poll(&fd, 1, -1);
		read_bare(BARE_PROCESSES, t % BARE_HZ == 0 ? FILES : 1);
	}
	printf("%.8f\n", (cpu_us() - before) / 1e6 / seconds);
	end(BARE_PROCESSES);
}

int main(int argc, char **argv)
{
	static const int sizes[] = { 10, 100, 1000 };
	const bool is_bare = argc == 3 && strcmp(argv[1], "bare") == 0;
	struct rlimit limit;
	struct root root;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void) setrlimit(RLIMIT_NOFILE, &limit);
	}
	(void) prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (root_open("/", &root, NULL) < 0)
		return 1;
	start_timer(is_bare ? 1000000000 / BARE_HZ : INTERVAL_NS);
	if (is_bare) {
		bare(&root, atoi(argv[2]));
	} else {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			measure(&root, sizes[i]);
	}
	root_done(&root);
	return 0;
}

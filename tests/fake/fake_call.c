// SPDX-License-Identifier: MIT
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* locked during delays if the scenario has `lock` */
static pthread_mutex_t the_driver = PTHREAD_MUTEX_INITIALIZER;

/* Appends a line per call, "TIME NAME DEVICE", to the file that HIWATER_FAKE_LOG names. */
static void log_write(const char *call, const struct fake_gpu *gpu)
{
	const char *path = getenv("HIWATER_FAKE_LOG");
	char line[128];
	int n, fd;

	if (!path)
		return;
	n = snprintf(line, sizeof(line), "%.6f %s %s\n", fake_now(), call, gpu ? gpu->label : "-");
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, line, (size_t) n) != n)
		fake_die("%s: %s", path, strerror(errno));
	close(fd);
}

/* Does the rule match this call and device now? */
static bool rule_holds(struct fake_item *rule, const char *call, const struct fake_gpu *gpu)
{
	const char *label = fake_bag_text(&rule->bag, "gpu", NULL);
	double t = fake_now();

	if (fnmatch(rule->call, call, 0) != 0 || (label && (!gpu || strcmp(label, gpu->label) != 0)))
		return false;
	if (t < fake_bag_number(&rule->bag, "from", t, t) ||
		t >= fake_bag_number(&rule->bag, "until", t, t + 1))
		return false;
	return (double) __atomic_fetch_add(&rule->seen, 1, __ATOMIC_RELAXED) >=
	       fake_bag_number(&rule->bag, "first", t, 0);
}

static double thread_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

/* Burns until the call has used this much CPU time, the fake's own included. */
static void burn_until(double end)
{
	while (thread_seconds() < end) {
	}
}

static void doze(double seconds)
{
	struct timespec left = { (time_t) seconds, (long) ((seconds - (double) (time_t) seconds) * 1e9) };

	while (nanosleep(&left, &left) < 0 && errno == EINTR) {
	}
}

static int rule_apply(const struct fake_item *rule, bool is_locked, double *burnt_until)
{
	double t = fake_now(), slept = fake_bag_number(&rule->bag, "delay", t, 0),
	       burnt = fake_bag_number(&rule->bag, "burn", t, 0);

	if (is_locked)
		pthread_mutex_lock(&the_driver);
	if (slept > 0)
		doze(slept);
	if (burnt > 0) {
		*burnt_until += burnt;
		burn_until(*burnt_until);
	}
	while (fake_bag_number(&rule->bag, "hang", t, 0) > 0)
		pause();
	if (fake_bag_number(&rule->bag, "crash", t, 0) > 0)
		raise(SIGSEGV);
	if (is_locked)
		pthread_mutex_unlock(&the_driver);
	return (int) fake_bag_number(&rule->bag, "error", t, 0);
}

int fake_call(struct fake_scenario *s, const char *call, const struct fake_gpu *gpu)
{
	bool is_locked = fake_bag_number(&s->driver, "lock", 0, 0) > 0;
	double burnt_until = s->rules.n > 0 ? thread_seconds() : 0;
	int code = 0;

	fake_clock_called(call, gpu);
	log_write(call, gpu);
	for (size_t i = 0; i < s->rules.n && code == 0; i++) {
		if (rule_holds(s->rules.items[i], call, gpu))
			code = rule_apply(s->rules.items[i], is_locked, &burnt_until);
	}
	return code;
}

// SPDX-License-Identifier: MIT
#include "fake.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
	enum {
		CLOCK_RUNS,
		CLOCK_FIXED,
		CLOCK_FILE,
		CLOCK_STEPS
	} kind;
	double zero;      /* CLOCK_RUNS: CLOCK_BOOTTIME at time 0; CLOCK_FIXED: the time */
	const char *path; /* CLOCK_FILE */
	double step;
	const char *on;
	double epoch;
	atomic_ullong calls;
} the;

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

/* The file may be empty for a moment while it is written. */
static double file_time(void)
{
	static const struct timespec moment = { .tv_nsec = 1000000 };
	char text[64];
	ssize_t n = -1;

	for (int i = 0; i < 1000 && n <= 0; i++) {
		int fd = open(the.path, O_RDONLY | O_CLOEXEC);

		if (i > 0)
			(void) nanosleep(&moment, NULL);
		n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
		if (fd >= 0)
			close(fd);
	}
	if (n <= 0)
		fake_die("%s: no time in it", the.path);
	text[n] = '\0';
	return strtod(text, NULL);
}

void fake_clock_start(const struct fake_scenario *s)
{
	const char *wanted = getenv("HIWATER_FAKE_TIME");

	the.step = fake_bag_number(&s->driver, "step", 0, 0);
	the.on = fake_bag_text(&s->driver, "on", NULL);
	if (!wanted) {
		the.kind = the.step > 0 ? CLOCK_STEPS : CLOCK_RUNS;
		the.zero = seconds(CLOCK_BOOTTIME);
	} else if (strncmp(wanted, "since:", 6) == 0) {
		the.kind = CLOCK_RUNS;
		the.zero = strtod(wanted + 6, NULL);
	} else if (strncmp(wanted, "file:", 5) == 0) {
		the.kind = CLOCK_FILE;
		the.path = wanted + 5;
	} else {
		the.kind = CLOCK_FIXED;
		the.zero = strtod(wanted, NULL);
	}
	the.epoch = fake_bag_number(&s->driver, "epoch", 0, seconds(CLOCK_REALTIME) - fake_now());
}

double fake_now(void)
{
	unsigned long long calls;

	switch (the.kind) {
	case CLOCK_FIXED:
		return the.zero;
	case CLOCK_FILE:
		return file_time();
	case CLOCK_STEPS:
		calls = atomic_load(&the.calls);
		return calls > 0 ? the.step * (double) (calls - 1) : 0;
	case CLOCK_RUNS:
		break;
	}
	return seconds(CLOCK_BOOTTIME) - the.zero;
}

unsigned long long fake_stamp(double t)
{
	return (unsigned long long) ((the.epoch + t) * 1e6 + 0.5);
}

void fake_clock_called(const char *call, const struct fake_gpu *gpu)
{
	if (the.kind == CLOCK_STEPS && the.on && gpu && !gpu->parent && gpu->index == 0 &&
		strcmp(call, the.on) == 0)
		atomic_fetch_add(&the.calls, 1);
}

/* SPDX-License-Identifier: MIT */
#include "inject/opencl_clock.h"

#include <stdbool.h>
#include <time.h>

enum {
	TOLERANCE_NS = 1000,    /* a clock of the kernel's may miss the bounds of a command by so much */
	CHECK_EACH_NS = 200000, /* two clocks drift apart by at most 500 ns in a millisecond */
	PAIR_NS = 300,          /* a measurement that took longer was interrupted */
	TRIES = 10,
	STEP_NS = 100,          /* smaller changes are noise: the distances of two commands stay exact */
};

static const clockid_t clocks[] = { CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME, CLOCK_REALTIME };
enum {
	KERNEL_CLOCKS = sizeof clocks / sizeof *clocks,
	OWN_CLOCK = KERNEL_CLOCKS + 1, /* opencl_clock.which: none of the kernel's */
};

static int64_t read_clock(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

/* CLOCK_MONOTONIC less another clock. False: each try was interrupted, and the best of them is less exact. */
static bool measure(clockid_t id, int64_t *ret)
{
	int64_t best = INT64_MAX;

	*ret = 0;
	for (int i = 0; i < TRIES && best > PAIR_NS && id != CLOCK_MONOTONIC; i++) {
		int64_t before = read_clock(CLOCK_MONOTONIC);
		int64_t other = read_clock(id);
		int64_t after = read_clock(CLOCK_MONOTONIC);

		if (after - before < best) {
			best = after - before;
			*ret = before + best / 2 - other;
		}
	}
	return best <= PAIR_NS || id == CLOCK_MONOTONIC;
}

static bool fits(int64_t distance, int64_t low, int64_t high)
{
	return distance >= low - TOLERANCE_NS && distance <= high + TOLERANCE_NS;
}

static void set(struct opencl_clock *clock, int which, int64_t distance, uint64_t now)
{
	atomic_store_explicit(&clock->distance, distance, memory_order_relaxed);
	atomic_store_explicit(&clock->checked_ns, now, memory_order_relaxed);
	atomic_store_explicit(&clock->which, which, memory_order_release);
}

/* The first of the kernel's clocks that fits, else one of its own. */
static void identify(struct opencl_clock *clock, int64_t low, int64_t high, uint64_t now)
{
	for (int i = 0; i < KERNEL_CLOCKS; i++) {
		int64_t distance;
		bool is_exact = measure(clocks[i], &distance);

		if (fits(distance, low, high)) {
			set(clock, i + 1, distance, is_exact ? now : 0); /* else measured again soon */
			return;
		}
	}
	set(clock, OWN_CLOCK, low + (high - low) / 2, now);
}

/* The distance of a clock of the kernel's, measured again. */
static int64_t renewed(struct opencl_clock *clock, int which, uint64_t now)
{
	int64_t distance = atomic_load_explicit(&clock->distance, memory_order_relaxed), fresh;

	atomic_store_explicit(&clock->checked_ns, now, memory_order_relaxed);
	if (!measure(clocks[which - 1], &fresh) ||
		(fresh <= distance + STEP_NS && fresh >= distance - STEP_NS))
		return distance;
	atomic_store_explicit(&clock->distance, fresh, memory_order_relaxed);
	return fresh;
}

/* Was one of the kernel's clocks checked a moment ago, by the device's time? */
static bool is_fresh(struct opencl_clock *clock, int which, uint64_t end)
{
	int64_t age = (int64_t) (opencl_clock_host(clock, end) -
				 atomic_load_explicit(&clock->checked_ns, memory_order_relaxed));

	return which != 0 && which != OWN_CLOCK && age < CHECK_EACH_NS &&
	       age > -100 * (int64_t) CHECK_EACH_NS;
}

void opencl_clock_saw(struct opencl_clock *clock, const struct opencl_clock_sight *sight)
{
	int which = atomic_load_explicit(&clock->which, memory_order_acquire);
	int64_t high, low = INT64_MIN / 2, distance;
	uint64_t now;

	if (is_fresh(clock, which, sight->end))
		return;
	now = (uint64_t) read_clock(CLOCK_MONOTONIC);
	high = (int64_t) (now - sight->end);
	if (sight->queued != 0) {
		int64_t returned = (int64_t) (sight->after - sight->queued);

		low = (int64_t) (sight->before - sight->queued);
		high = returned < high ? returned : high;
	}
	if (high < low) /* its times contradict each other */
		return;
	if (which != 0 && which != OWN_CLOCK && fits(renewed(clock, which, now), low, high))
		return;
	if (which != OWN_CLOCK) {
		if (sight->queued != 0)
			identify(clock, low, high, now);
		else if (which == 0) /* a first guess, until a command says when it was queued */
			atomic_store_explicit(&clock->distance, high, memory_order_relaxed);
		return;
	}
	distance = atomic_load_explicit(&clock->distance, memory_order_relaxed);
	if (distance < low || distance > high)
		atomic_store_explicit(&clock->distance, distance < low ? low : high, memory_order_relaxed);
}

uint64_t opencl_clock_host(struct opencl_clock *clock, uint64_t device_ns)
{
	return device_ns + (uint64_t) atomic_load_explicit(&clock->distance, memory_order_relaxed);
}

/* SPDX-License-Identifier: MIT
 *
 * What the fake drivers share: values as functions of time, the scenario, the clock, and what every
 * call does first.
 *
 * Each fake is a shared library of its own and holds one scenario, read at the first init and kept
 * until the process ends. Nothing is changed after that but counters, so calls may come from any
 * thread. A scenario that cannot be read or a use that a real driver would answer with corrupted
 * memory ends the process with a message on standard error.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

enum {
	FAKE_UNKNOWN = -1
}; /* a code: success, with all bits of the figure set */

enum fake_kind {
	FAKE_STEPS,
	FAKE_RAMP,
	FAKE_SINE,
	FAKE_SQUARE,
	FAKE_RATE,
	FAKE_INTEGRAL,
	FAKE_PROCESSES,
	FAKE_FILE,
};

/* The value from time t on; code is 0, an error of the driver, or FAKE_UNKNOWN. */
struct fake_point {
	double t;
	double v;
	int code;
};

/* A value as a function of time in seconds. README.md describes the syntax of each kind. */
struct fake_value {
	enum fake_kind kind;
	double a, b, c, d;
	char *of; /* FAKE_INTEGRAL: the key of the same device; FAKE_FILE: the path */
	struct fake_point *points;
	size_t n;
};

/* A key of a section with the text after the equal sign; value is parsed unless the key is a
 * text. */
struct fake_key {
	char *name;
	char *text;
	struct fake_value value;
};

struct fake_bag {
	struct fake_key *keys;
	size_t n;
};

/* A device, or a MIG instance of one. Callers get its address as their handle. */
struct fake_gpu {
	unsigned index;         /* of the device; of an instance: among those of its parent */
	struct fake_gpu *parent; /* of an instance, else NULL */
	char label[32];         /* "0", "0.1" */
	struct fake_bag bag;
};

/* The keys of a process, an event or a call rule, and its subject. */
struct fake_item {
	struct fake_gpu *gpu; /* NULL: all */
	char *call;           /* a rule: the pattern of names */
	struct fake_bag bag;
	unsigned long long seen; /* a rule: number of calls that matched */
	unsigned *named;         /* a process: the last pid read from its file or variable */
};

struct fake_list {
	struct fake_item **items;
	size_t n;
};

struct fake_scenario {
	const char *path;
	struct fake_bag driver; /* also the keys of [clock] */
	struct fake_gpu **gpus; /* by index */
	size_t n_gpus;
	struct fake_gpu **migs;
	size_t n_migs;
	struct fake_list processes, events, rules;
};

/* Ends the process: "fake NVML: text". */
_Noreturn void fake_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- fake_value.c ---------------------------------------------------------------------------- */

/* Parses text; returns NULL, or an error message. */
const char *fake_value_parse(const char *text, struct fake_value *ret);

/* The value of v at t. *ret is set only if the returned code is 0. */
int fake_value_at(const struct fake_value *v, double t, double *ret);

/* The integral from 0 to t; errors count as 0. */
double fake_value_integral(const struct fake_value *v, double t);

/* Expands "$NAME/rest"; false: no such variable. */
bool fake_expanded(const char *text, char *ret, size_t size);

/* ---- fake_scenario.c ------------------------------------------------------------------------- */

/* Reads the file. */
void fake_scenario_load(struct fake_scenario *s, const char *path);

/* NULL: no such key. */
const struct fake_key *fake_bag_find(const struct fake_bag *bag, const char *name);
const char *fake_bag_text(const struct fake_bag *bag, const char *name, const char *otherwise);

/* A number of a section other than a device, at t; `otherwise` if it is missing or an error. */
double fake_bag_number(const struct fake_bag *bag, const char *name, double t, double otherwise);

/* ---- fake_clock.c ---------------------------------------------------------------------------- */

/* Starts the clock that HIWATER_FAKE_TIME and the scenario select. */
void fake_clock_start(const struct fake_scenario *s);

/* Current time of the scenario, in seconds. */
double fake_now(void);

/* The same in microseconds since 1970, as in the driver's time stamps. */
unsigned long long fake_stamp(double t);

/* Called for every call: a stepped clock may advance. */
void fake_clock_called(const char *call, const struct fake_gpu *gpu);

/* ---- fake_call.c ----------------------------------------------------------------------------- */

/* Common to all calls, on a device or none (NULL): log, delay, hang, or an error by a rule. Returns
 * the code to answer with, 0 to continue. */
int fake_call(struct fake_scenario *s, const char *call, const struct fake_gpu *gpu);

/* ---- fake_process.c -------------------------------------------------------------------------- */

/* Does the item's process exist at t? *pid: its pid. */
bool fake_process_lives(const struct fake_item *process, double t, unsigned *ret_pid);

/* ---- fake_figure.c --------------------------------------------------------------------------- */

/* A figure of a device at t: a code, possibly FAKE_UNKNOWN; *ret is set for 0. A missing key is
 * NOT_SUPPORTED (3). */
int fake_figure(
	const struct fake_scenario *s, const struct fake_gpu *gpu, const char *key, double t, double *ret);

/* Its mean between two times; an error or nan at the end is returned as such; nan if no time has
 * passed. */
int fake_figure_mean(const struct fake_gpu *gpu, const char *key, double from, double until, double *ret);

/* SPDX-License-Identifier: MIT
 *
 * What the fake drivers share: values as functions of time, the scenario, the clock, and what every call does first.
 *
 * Each fake is a shared library of its own and holds one scenario, read at the first init and kept until the process
 * ends. Nothing is changed after that but counters, so calls may come from any thread. A scenario that cannot be read
 * or a use that a real driver would answer with corrupted memory ends the process with a message on standard error.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

enum {
	FAKE_UNKNOWN = -1
}; /* a code: the driver says success and the figure has all bits set */

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

/* What a value is from time t on; code is 0, an error of the driver, or FAKE_UNKNOWN. */
struct fake_point {
	double t;
	double v;
	int code;
};

/* A value as a function of time in seconds. README.md says how each kind is written. */
struct fake_value {
	enum fake_kind kind;
	double a, b, c, d;
	char *of; /* FAKE_INTEGRAL: the key of the same device; FAKE_FILE: the path */
	struct fake_point *points;
	size_t n;
};

/* A key of a section with what stands behind the equal sign; value is parsed unless the key is a text. */
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

/* The bag of a process, of an event or of a rule about calls, with what it is about. */
struct fake_item {
	struct fake_gpu *gpu; /* NULL: all */
	char *call;           /* a rule: the pattern of names */
	struct fake_bag bag;
	unsigned long long seen; /* a rule: calls it applied to */
	unsigned *named;         /* a process: its pid, as its file or variable had it last */
};

struct fake_list {
	struct fake_item **items;
	size_t n;
};

struct fake_scenario {
	const char *path;
	struct fake_bag driver; /* also what [clock] says */
	struct fake_gpu **gpus; /* by index */
	size_t n_gpus;
	struct fake_gpu **migs;
	size_t n_migs;
	struct fake_list processes, events, rules;
};

/* Ends the process: "fake NVML: text". */
_Noreturn void fake_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- fake_value.c ---- */

/* Parses text; returns NULL, or what is wrong with it. */
const char *fake_value_parse(const char *text, struct fake_value *ret);

/* What v is at t. *ret is left alone unless the returned code is 0. */
int fake_value_at(const struct fake_value *v, double t, double *ret);

/* The integral from 0 to t; errors count as nothing. */
double fake_value_integral(const struct fake_value *v, double t);

/* "$NAME/rest" with the variable's value; false if there is no such variable. */
bool fake_expanded(const char *text, char *ret, size_t size);

/* ---- fake_scenario.c ---- */

/* Reads the file. */
void fake_scenario_load(struct fake_scenario *s, const char *path);

/* NULL if there is no such key. */
const struct fake_key *fake_bag_find(const struct fake_bag *bag, const char *name);
const char *fake_bag_text(const struct fake_bag *bag, const char *name, const char *otherwise);

/* A number of a section that is no device's, at t; otherwise if it is not there or is an error then. */
double fake_bag_number(const struct fake_bag *bag, const char *name, double t, double otherwise);

/* ---- fake_clock.c ---- */

/* Starts the clock that HIWATER_FAKE_TIME and the scenario choose. */
void fake_clock_start(const struct fake_scenario *s);

/* Seconds of the scenario. */
double fake_now(void);

/* The same in microseconds since 1970, as the driver's time stamps have it. */
unsigned long long fake_stamp(double t);

/* A call was made: a clock of steps may go on. */
void fake_clock_called(const char *call, const struct fake_gpu *gpu);

/* ---- fake_call.c ---- */

/* What happens before a call on a device (NULL: none) is answered: the log, a delay, a hang, an error that a rule
 * demands. Returns the code to answer with, 0 to go on. */
int fake_call(struct fake_scenario *s, const char *call, const struct fake_gpu *gpu);

/* ---- fake_process.c ---- */

/* True if the process of the item exists at t; its pid. */
bool fake_process_lives(const struct fake_item *process, double t, unsigned *ret_pid);

/* ---- fake_figure.c ---- */

/* A figure of a device at t: a code, FAKE_UNKNOWN among them; *ret is set for 0. No such key is NOT_SUPPORTED (3). */
int fake_figure(const struct fake_scenario *s, const struct fake_gpu *gpu, const char *key, double t, double *ret);

/* Its mean from one time to another: as at their end where that is an error or nan; nan where no time has passed. */
int fake_figure_mean(const struct fake_gpu *gpu, const char *key, double from, double until, double *ret);

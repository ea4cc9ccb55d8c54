/* SPDX-License-Identifier: MIT
 *
 * What the ranges of a traced job start or end: phases of the run (--phase-range), steps (--step), and windows, in
 * which every kernel and copy is kept (--trace-window).
 *
 * The main process's ranges are seen as they are drained, 50 to 150 ms after they happened. So kernels are kept from about
 * a second before a window of steps on, which then lies between its edges, and a window of a range opens that much late.
 *
 * Threads: trace_select_new, _free, _add, _phase and _alert may be called by another thread than the rest.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/trace.h"

#define TRACE_STEP_DEFAULT "^(ProfilerStep#|step|iteration)"

enum {
	TRACE_PHASES_MOST = 10000,
	TRACE_WINDOWS_MOST = 16,
	TRACE_PHASE_NAME = 200,
};

struct trace_select_options {
	const char *phase_range;   /* POSIX ERE; NULL: no range is a phase */
	const char *step;          /* POSIX ERE; NULL: the default */
	const char *const *windows; /* NULL-terminated: "60s+5s", "steps=10-20", "range=RE", "api", "alert", "last=60s";
	                             * NULL: the whole run is one */
};

struct trace_select;

/* Returns 0, -EINVAL with text, or -ENOMEM with text. */
int trace_select_new(const struct trace_select_options *options, struct trace_select **ret, struct err *err);
void trace_select_free(struct trace_select *s);

/* A further window, as in the options; the first one takes the place of the whole run. It begins with the next update.
 * A range or a step that is open already does not open it, nor does a later range with a name that the main process has
 * used before, since names are looked at once. Returns 0 or -EINVAL with text. */
int trace_select_add(struct trace_select *s, const char *window, struct err *err);

/* Are kernels and copies to be kept from the begin of the run on? */
bool trace_select_begins_open(const struct trace_select *s);

/* The sink that hears of phases, until the next call. */
void trace_select_pass_to(struct trace_select *s, const struct trace_sink *sink);

/* What a range or a call of this name is, bits; 0: of no interest. */
unsigned trace_select_of(void *select, enum trace_kind kind, const char *name);

/* A range or call that is of interest begins or ends. number: 0 at its begin; at its end as it was set. */
void trace_select_edge(
	void *select, unsigned what, const char *name, uint64_t time_ns, bool begins, uint32_t *number);

/* Opens and closes windows, with word to the sink. Returns 0 or its error. *ret_open: one is open. last: the
 * run has ended. */
int trace_select_update(struct trace_select *s, uint64_t now_ns, bool last, const struct trace_sink *sink,
	bool *ret_open);

/* After the last update: the next window from *i (0 at first) on that did not open, "steps 10-20"; NULL: no further one.
 * That none of alerts opened is as it should be. */
const char *trace_select_unopened(const struct trace_select *s, unsigned *i);

/* An alert was raised. */
void trace_select_alert(struct trace_select *s);

/* An edge of a phase. */
struct trace_phase_edge {
	uint64_t time_ns;
	uint32_t number;
	bool begins;
	char name[TRACE_PHASE_NAME];
};
/* The next edge, in the order of their reading; false: there is none. */
bool trace_select_phase(struct trace_select *s, struct trace_phase_edge *ret);
/* Ranges that would have been phases, beyond TRACE_PHASES_MOST. */
uint64_t trace_select_phases_left_out(struct trace_select *s);

/* SPDX-License-Identifier: MIT
 *
 * run --trace: the environment by which programs of the job load the library that writes events. Only the job gets
 * it; hiwater's own helpers, which use GPUs too, do not.
 */
#pragma once

#include <hiwater.h>
#include <limits.h>
#include <stdbool.h>

#include "api/internal.h"
#include "base/err.h"

enum {
	TRACE_WINDOWS = 16
};

struct trace_options {
	struct hwi_tracing what;     /* layers 0: the job is not traced */
	const char *windows[TRACE_WINDOWS + 1];
	unsigned n_windows;
};

/* Of one run. All zero: it is not traced. */
struct trace_job {
	struct hwi_tracing what;
	char library[PATH_MAX];
	char **environment;        /* of the job; NULL: as hiwater's */
	char *owned[9];            /* texts in it */
	unsigned n_owned;
	int fd;                    /* that the job inherits; valid if there is an environment */
};

/* Parsers of options; dest is a struct trace_options. */
int parse_trace(const char *value, void *dest, struct err *err);
int parse_trace_limit(const char *value, void *dest, struct err *err);
int parse_trace_window(const char *value, void *dest, struct err *err);

/* Of attach: complains that only a program that starts can be traced. */
void trace_refuse(void);

/* An option of a trace without --trace; NULL: none. */
const char *trace_option_alone(const struct trace_options *options);

/* Before the recorder is made: may the job be traced? What is missing is a warning, and ret->what says that it is not
 * traced, or with strict an error. Returns 0, or -errno after a complaint. */
int trace_prepare(struct trace_job *ret, const struct trace_options *options, bool strict, bool quiet);

/* Makes the job's environment from this process's, once the recorder was made. Returns 0 or -ENOMEM. */
int trace_environment(struct trace_job *t, const struct hiw_recorder *recorder, bool quiet);
void trace_done(struct trace_job *t);

/* SPDX-License-Identifier: MIT
 *
 * What the sinks for people have in common: the parts of a summary as words and numbers. Numbers fill a caller's
 * buffer and return it, as in base/units.h; texts are appended to a buf, which keeps errors.
 */
#pragma once

#include "summary/summary.h"
#include "sink/sink.h"

/* How the job ended. */
enum outcome {
	OUTCOME_EXIT,
	OUTCOME_SIGNAL,
	OUTCOME_LIMIT,
	OUTCOME_UNSEEN,
	OUTCOME_UNFINISHED
};

struct ending {
	enum outcome outcome;
	int code;            /* as a shell has it: the job's own, 128 + signal, 124; not for UNSEEN and UNFINISHED */
	int signal;          /* OUTCOME_SIGNAL */
	bool code_known;
};

struct ending ending_of(const struct summary *s);

/* What was measured went on well beyond the end of main. */
bool figure_outlived(const struct summary *s);

/* "SIGKILL"; "signal 40" (in buf) for one without a name. */
const char *figure_signal(int signal, char buf[UNITS_LEN]);

/* Three significant digits, no unit: "4.80", "12.3", "1602". */
char *figure_number(double value, char buf[UNITS_LEN]);

/* What users log may be anything: whole numbers without decimals, exponents where the digits would be too many,
 * "NaN". */
char *figure_any(double value, char buf[UNITS_LEN]);

/* "10/s", "every 5.00 s"; "" if the interval is unknown. */
char *figure_rate(const struct facts *f, char buf[UNITS_LEN]);

/* What RAM is compared with: what was requested, a limit, or the machine. */
struct ceiling {
	struct maybe bytes;
	const char *words; /* "requested", "limit", "on this machine" */
};

struct ceiling ceiling_of(const struct summary *s);

/* " sampled 10/s" where it was; else "". Returns buf. */
char *figure_sampled(enum method method, const struct facts *f, char buf[2 * UNITS_LEN]);

/* How a figure was obtained: "exact (VmHWM)", "bounded 301-330 MiB (fork families)", "sampled 10/s (statm)". */
void figure_method(const struct ram_figure *r, const struct facts *f, const struct sink_options *o, struct buf *out);

/* What a counter of the job rose by while it was watched. */
struct maybe figure_risen(const struct summary *s, enum metric metric);

/* Cores that the job could have used: its quota where that is less than its processors. In millionths. */
struct maybe figure_cores(const struct facts *f);

/* "2", "2.50" of millionths. */
char *figure_core_count(int64_t ppm, char buf[UNITS_LEN]);

/* The number of the run in the history: the recording is options->history/NUMBER.hiw. False if it is elsewhere. */
bool figure_run(const struct facts *f, const struct sink_options *o, uint64_t *ret);

/* The processes of the job, largest peak first. *ret is the caller's to free(); NULL if there are none. */
int figure_processes(const struct job *job, const struct process ***ret, size_t *ret_n);

enum {
	FIGURE_THROTTLES = 4
};
/* What holds back a GPU's clocks, in words. */
struct figure_throttle {
	enum metric metric; /* how long it did */
	const char *words;
};
extern const struct figure_throttle figure_throttles[FIGURE_THROTTLES];

/* "epoch 3, split=train": its name, and what was given with it; "epoch 3": not all of that. As it was told: not cleaned.
 * Into out. */
void figure_phase(const struct phase *p, bool all, struct buf *out);

/* Is there something to say of GPUs, be it why they could not be read? Not where there are none. */
bool figure_has_gpus(const struct summary *s);
/* Did the job hold memory on it, or is that not known? */
bool figure_gpu_used(const struct summary *s, uint32_t id);
/* Did it hold nothing there, and is that GPU one of many, or beside one that it used? No picture of it is wanted then. */
bool figure_gpu_beside(const struct summary *s, uint32_t id);
/* What a utilisation is called: "SM active", "busy". */
const char *figure_gpu_lead(enum metric lead);

/* " " becomes NB, so that a number and its unit stay on one line. Returns text. */
char *keep_together(char *text);

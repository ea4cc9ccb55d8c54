/* SPDX-License-Identifier: MIT
 *
 * What run and attach share: the options of measuring, and what is printed and written at the end.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opt.h"

enum summary_kind {
	SUMMARY_DEFAULT = -1,
	SUMMARY_FULL,
	SUMMARY_LINE,
	SUMMARY_NONE
};

#define SUMMARY_CHOICES "full|line|none"
#define UNITS_CHOICES   "iec|si|bytes"
#define GPU_CHOICES     "auto|none"

/* What the options say. */
struct measure {
	struct hiw_options recorder;
	enum summary_kind summary;
	enum hiw_units units;
	const char *summary_file, *json_file;
	uint64_t progress_ns;   /* 0: none */
	bool plain;
	bool quiet;             /* HIWATER_QUIET: not a word */
};

#define MEASURE_INIT { .recorder = HIW_OPTIONS_INIT, .summary = SUMMARY_DEFAULT }

/* Rows of both commands; m is a static struct measure. */
#define MEASURE_ROWS(m) \
	{ 'o', "output", OPT_FILE, "FILE.hiw", \
		"keep the recording in FILE.hiw, which must not exist yet, instead of the history; %r is the rank", \
		opt_text, (void *) &(m).recorder.output }, \
		{ 0, "no-record", OPT_NONE, NULL, "keep no recording", opt_flag, &(m).recorder.no_record }, \
		{ 'n', NULL, OPT_TEXT, "NAME", "name the run; runs of one name are a group; %r is the rank", \
			opt_text, (void *) &(m).recorder.name }, \
		{ 'i', "interval", OPT_TEXT, "INTERVAL", "look at memory this often, from 1ms to 1h (100ms)", \
			take_interval, &(m).recorder.interval_ns }, \
		{ 0, "gpu", OPT_CHOICE, GPU_CHOICES, "measure the GPUs there are, or ask no driver (auto)", take_gpu, \
			&(m).recorder.gpu }, \
		{ 0, "pss", OPT_NONE, NULL, \
			"also split processes over 1.5 GiB into private and shared memory, which holds them up for 10 ms a GiB", \
			opt_flag, &(m).recorder.pss }, \
		{ 0, "request", OPT_TEXT, "ram=SIZE,cpus=N,time=SPAN", \
			"what was asked for, where the scheduler does not say it: what was used is compared with it", \
			take_request, &(m).recorder }, \
		{ 0, "summary", OPT_CHOICE, SUMMARY_CHOICES, "how much to print at the end, on stderr (full)", \
			take_summary, &(m).summary }, \
		{ 0, "summary-file", OPT_FILE, "FILE", "write the summary into FILE as well; %r is the rank", \
			opt_text, (void *) &(m).summary_file }, \
		{ 0, "json", OPT_FILE, "FILE", "write the summary as JSON into FILE; %r is the rank", \
			opt_text, (void *) &(m).json_file }, \
		{ 0, "progress", OPT_OPTIONAL, "PERIOD", "print a line about the present each PERIOD (10s)", \
			take_progress, &(m).progress_ns }, \
		{ 0, "plain", OPT_NONE, NULL, "one fact a line, for screen readers (also: ACCESSIBLE=1)", opt_flag, &(m).plain }, \
	{ 0, "units", OPT_CHOICE, UNITS_CHOICES, "units of amounts: GiB, GB, or bytes (iec)", take_units, &(m).units }

int take_interval(const char *value, void *dest, struct err *err);
int take_progress(const char *value, void *dest, struct err *err);
int take_gpu(const char *value, void *dest, struct err *err);
int take_request(const char *value, void *dest, struct err *err);
int take_summary(const char *value, void *dest, struct err *err);
int take_units(const char *value, void *dest, struct err *err);

/* The environment's share, file names with the rank put in, and whether files can be written: to be called once,
 * before anything is started. Returns 0, or -errno after a complaint. */
int measure_prepare(struct measure *m);

/* Prints a line about the present. */
void measure_progress(const struct measure *m, struct hiw_recorder *recorder);

/* Prints what the recorder has to warn of. */
void measure_warnings(const struct measure *m, struct hiw_recorder *recorder);

/* Prints and writes what was asked for of a run that is over; what fails is a complaint. */
void measure_report(const struct measure *m, struct hiw_run *run);

/* Makes the timer of progress lines. Returns a descriptor, or -1: none. */
int measure_timer(const struct measure *m);

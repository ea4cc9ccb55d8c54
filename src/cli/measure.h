/* SPDX-License-Identifier: MIT
 *
 * Shared by run and attach: the options of a measurement, its alerts, limits and progress lines,
 * and its summary.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opt.h"
#include "cli/action.h"

enum summary_kind {
	SUMMARY_DEFAULT = -1,
	SUMMARY_FULL,
	SUMMARY_LINE,
	SUMMARY_NONE
};

#define SUMMARY_CHOICES "full|line|none"
#define UNITS_CHOICES   "iec|si|bytes"
#define GPU_CHOICES     "auto|none"

/* Rules of an option that may be repeated; NULL-terminated. */
struct rules {
	enum hiw_rule_kind kind;
	const char *text[65];
};

/* The options of a measurement, and the state of its alerts. */
struct measure {
	struct hiw_options recorder;
	enum summary_kind summary;
	enum hiw_units units;
	const char *summary_file, *json_file;
	int summary_error, json_error; /* 0; or -errno that was reported before the job: not again */
	int summary_fd, json_fd; /* they name an inherited descriptor: opened before the job starts; else -1 */
	bool many;              /* --repeat: the files get every run, the JSON file a line per run */
	bool further;           /* not the first of these runs */
	uint64_t progress_ns;   /* 0: none */
	bool interval_given, gpu_given; /* -i, --gpu */
	bool plain;
	bool quiet;             /* HIWATER_QUIET: print nothing */
	struct rules alerts, limits;
	struct actions actions;
	struct {
		uint64_t since_ns; /* start of the current second */
		unsigned printed;  /* lines in this second */
		uint64_t dropped;  /* lines not printed because the second had too many */
	} alert_lines;
	struct {
		bool all;          /* the whole job, including processes born later */
		uint64_t since_ns; /* CLOCK_BOOTTIME; 0: nothing was killed */
	} killed;
};

#define MEASURE_INIT \
	{ .recorder = HIW_OPTIONS_INIT, \
		.summary = SUMMARY_DEFAULT, \
		.summary_fd = -1, \
		.json_fd = -1, \
		.alerts.kind = HIW_RULE_ALERT, \
		.limits.kind = HIW_RULE_LIMIT }

/* Option rows of both commands; m is a static struct measure. */
#define MEASURE_ROWS(m) \
	{ 'o', "output", OPT_FILE, "FILE.hiw", \
		"write the recording to FILE.hiw, or FILE-2.hiw if that exists, instead of the history; FILE/ is a " \
		"folder, with a recording for each rank; %r is the rank, %t the local rank, %N the node, %j the job, " \
		"%s the step, %a the array task, %R the number of restarts, %% a %", \
		opt_text, (void *) &(m).recorder.output }, \
		{ 0, "no-record", OPT_NONE, NULL, "keep no recording", opt_flag, &(m).recorder.no_record }, \
		{ 'n', NULL, OPT_TEXT, "NAME", "name the run; runs of one name are a group; %r is the rank", \
			opt_text, (void *) &(m).recorder.name }, \
		{ 'm', "note", OPT_TEXT, "NOTE", "keep a note with the run, for runs, show and report", \
			opt_text_or_empty, (void *) &(m).recorder.note }, \
		{ 'i', "interval", OPT_TEXT, "INTERVAL", \
			"time between samples of memory, from 1ms to 1h (100ms)", parse_interval, \
			&(m) }, \
		{ 0, "gpu", OPT_CHOICE, GPU_CHOICES, \
			"measure GPUs if there are any, or call no GPU driver (auto)", parse_measure_gpu, \
			&(m) }, \
		{ 0, "pss", OPT_NONE, NULL, \
			"also split processes over 1.5 GiB into private and shared memory, which stalls " \
			"them for 10 ms per GiB", \
			opt_flag, &(m).recorder.pss }, \
		{ 0, "request", OPT_TEXT, "ram=SIZE,cpus=N,time=SPAN,gpus=N", \
			"the resources requested for the job, to compare its use with; overrides the " \
			"scheduler's", \
			parse_request, &(m).recorder }, \
		{ 0, "alert", OPT_TEXT, "RULE", \
			"report when RULE becomes true and when it is no longer true, for example " \
			"'ram > 90% for 30s'; may be repeated", \
			parse_rule, &(m).alerts }, \
		{ 0, "on-alert", OPT_TEXT, "ACTION", \
			"what to do when an alert is raised: run a shell command, 'signal USR1', or " \
			"'trigger'; may be repeated", \
			parse_action, &(m).actions }, \
		{ 0, "limit", OPT_TEXT, "RULE", \
			"end the job when it reaches a limit, for example 'ram = 24GiB' or 'time = 2h'; " \
			"may be repeated", \
			parse_rule, &(m).limits }, \
		{ 0, "grace", OPT_TEXT, "SPAN", \
			"time between SIGTERM and SIGKILL when a limit ends the job (30s)", parse_grace, \
			&(m).recorder.grace_ns }, \
		{ 0, "summary", OPT_CHOICE, SUMMARY_CHOICES, \
			"how much to print to stderr at the end (full)", parse_summary, &(m).summary }, \
		{ 0, "summary-file", OPT_FILE, "FILE", "also write the summary to FILE; %r is the rank, and so on", \
			opt_text, (void *) &(m).summary_file }, \
		{ 0, "json", OPT_FILE, "FILE", "write the summary as JSON to FILE; %r is the rank, and so on", \
			opt_text, (void *) &(m).json_file }, \
		{ 0, "progress", OPT_OPTIONAL, "PERIOD", \
			"print a line about the current state every PERIOD (10s)", parse_progress, \
			&(m).progress_ns }, \
		{ 0, "plain", OPT_NONE, NULL, "one fact per line, for screen readers (also: ACCESSIBLE=1)", \
			opt_flag, &(m).plain }, \
	{ \
		0, "units", OPT_CHOICE, UNITS_CHOICES, "units of sizes: GiB, GB, or bytes (iec)", \
			parse_units, &(m).units \
	}

/* Paragraphs of both manuals. tests/cli/test_alert.py parses each rule in them. */
#define RULE_PROSE \
	"A rule compares current values: 'ram > 24GiB', 'ram > 90% of limit for 30s', 'cpu < 5% for 10m', " \
	"'gpu.mem > 95%', 'gpu0.busy < 5% for 10m', 'process.rss > 8GiB and process.name ~ ^python', " \
	"'host.mem_used > 95%', 'read_bytes > 100MB/s', 'time > 2h', or a series that the job pushes: " \
	"'loss is nan', 'loss > 10 or loss is inf'. Names are those of docs/metrics.md, metrics of the " \
	"job without their 'job.'; with .peak, .mean or .last a name stands for the run so far: 'ram > " \
	"1GiB and not loss.last < 0.5'. 'growth(ram) > 10MiB/min' covers the last five minutes, " \
	"'growth(ram, 30m) > 1MiB/min' the last thirty; 'no step for 5m' holds when no new step came for " \
	"that long, 'no step for 5x median' for five times the median; 'exit != 0' holds once the job has " \
	"failed. Operators are < <= > >= == != ~ (a regular expression, for texts), is nan, is inf, is " \
	"absent, and, or, not and parentheses. A rule may start with its level: 'error: ram > 95%'; the " \
	"default is warn.", \
		"--alert default stands for 'ram > 90%', 'gpu.mem > 95%', 'gpu.job_mem > 0B and gpu.busy < " \
		"5% for 10m', 'gpu.throttle_thermal > 5% for 1m', 'host.disk_free < 1GiB', 'host.shm > " \
		"80%', 'no step for 5x median and no step for 1m', 'error: loss is nan or loss is inf' " \
		"and 'error: exit != 0'.", \
		"A percentage of RAM is of the memory limit of the job's cgroup, else of the request, " \
		"else of the machine's memory; of device memory, of the GPU's memory; of CPU time, of the " \
		"CPUs that the job may use. A value that is not available, or was not updated in time, " \
		"raises no alert. A rule about a process or a GPU is evaluated for each of them. An alert " \
		"is reported once when its rule starts to hold, and once when the rule has not held for " \
		"as long as its for clause says (at least a second).", \
		"--on-alert runs an action when an alert is raised; with a level in front, only for " \
		"alerts of that level and above: 'error: signal USR1'. 'signal USR1' sends a signal to " \
		"the job's main process. 'trigger' keeps the last five minutes at full rate, and the run " \
		"in the history; hiwater show then lists which processes used the memory, and how fast " \
		"and since when it grew. Anything else is a shell command. Its environment has " \
		"HIWATER_ALERT (the text of the alert), HIWATER_RULE, HIWATER_VALUE (in bytes, seconds, " \
		"ratios), HIWATER_LEVEL, HIWATER_TIME_S, HIWATER_RUN (the recording) and HIWATER_PID (the " \
		"process that the alert is about, else the main process). The command is not part of the " \
		"job, and hiwater does not wait for it; up to four run at once, each for at most a " \
		"minute. Their output goes to hiwater's stderr, unless that is a pipe.", \
		"--limit 'ram = 24GiB', 'time = 2h', 'gpu.mem = 8GiB' or 'process.rss = 8GiB' warns at " \
		"90%. When the limit is reached, every process of the job gets SIGTERM, and SIGKILL after " \
		"the grace, also those that outlive the command (Ctrl-C then kills them at once). A limit " \
		"on a process or a GPU ends only the process that exceeds it, or that uses most of the " \
		"job's memory on that GPU. The summary names the limit, and the exit status is 124. " \
		"Processes born within two seconds after SIGKILL are killed as well. hiwater warns about " \
		"a limit on GPUs that cannot be checked (--gpu=none, no driver, no such GPU). hiwater " \
		"itself enforces limits: if it is killed (kill -9), no further signals are sent, and " \
		"processes that ignored SIGTERM keep running."

int parse_interval(const char *value, void *dest, struct err *err);
int parse_progress(const char *value, void *dest, struct err *err);
int parse_measure_gpu(const char *value, void *dest, struct err *err);
int parse_gpu(const char *value, void *dest, struct err *err);
int parse_rule(const char *value, void *dest, struct err *err);
int parse_grace(const char *value, void *dest, struct err *err);
int parse_request(const char *value, void *dest, struct err *err);
int parse_summary(const char *value, void *dest, struct err *err);
int parse_units(const char *value, void *dest, struct err *err);

/* Applies the environment, expands the rank in file names, and checks that files can be written; if
 * not, that is an error, or with recorder.degrade a warning. Call it once, before the job is
 * started. Returns 0, or -errno after a complaint. */
int measure_prepare(struct measure *m);

/* Prints a progress line: the current state of the job. */
void measure_progress(const struct measure *m, struct hiw_recorder *recorder);

/* Prints pending alerts, runs their actions and enforces limits. main: the job's main process, 0 if
 * it has ended. Returns true if a limit sent a signal to the job. */
bool measure_alerts(struct measure *m, struct hiw_recorder *recorder, pid_t main);

/* Does a limit still wait for processes to end? Up to 2 s after SIGKILL, also for those that cannot
 * be killed. */
bool measure_limit_waits(const struct measure *m, const struct hiw_recorder *recorder);

/* hiwater was asked to end: the next measure_alerts kills the processes that a limit waits for.
 * False: there are none, or they were killed before. */
bool measure_cut_grace(const struct measure *m, struct hiw_recorder *recorder);

/* hiw_find, with a warning if a newer run could have been meant and has no readable recording. */
int find_run(const char *run, char **ret_path, struct hiw_err *err);

/* Prints the recorder's warnings. */
void measure_warnings(const struct measure *m, struct hiw_recorder *recorder);

/* Prints the summary of a finished run and writes the files. A failure is a warning; the run is then
 * kept in the history, to be shown again. */
void measure_report(const struct measure *m, struct hiw_recorder *recorder);

/* Prints the full summary of a finished run to stderr. */
void measure_summary(const struct measure *m, struct hiw_recorder *recorder);

/* Makes the timer of progress lines. Returns a descriptor, the caller's to close, or -1: no
 * progress lines. */
int measure_timer(const struct measure *m);

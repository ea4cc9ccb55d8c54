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

/* Rules of an option that may be given several times; ends with a NULL. */
struct rules {
	enum hiw_rule_kind kind;
	const char *text[65];
};

/* What the options say. */
struct measure {
	struct hiw_options recorder;
	enum summary_kind summary;
	enum hiw_units units;
	const char *summary_file, *json_file;
	bool many;              /* several runs are measured: the files hold them all, JSON a line a run */
	bool further;           /* of those not the first */
	uint64_t progress_ns;   /* 0: none */
	bool plain;
	bool quiet;             /* HIWATER_QUIET: not a word */
	struct rules alerts, limits;
	struct actions actions;
	struct {
		uint64_t since_ns; /* of the second that is under way */
		unsigned said;     /* lines in it */
		uint64_t held;     /* that would have been too many */
	} alert_lines;
	struct {
		bool all;          /* the job: whoever is born yet as well */
		uint64_t since_ns; /* CLOCK_BOOTTIME; 0: nobody was killed */
	} killed;
};

#define MEASURE_INIT \
	{ .recorder = HIW_OPTIONS_INIT, .summary = SUMMARY_DEFAULT, .alerts.kind = HIW_RULE_ALERT, .limits.kind = HIW_RULE_LIMIT }

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
		{ 0, "alert", OPT_TEXT, "RULE", \
			"say when RULE begins to hold and when it no longer does, for example 'ram > 90% for 30s'; may be repeated", \
			take_rule, &(m).alerts }, \
		{ 0, "on-alert", OPT_TEXT, "ACTION", \
			"what to do when an alert is raised: a command for the shell, 'signal USR1', or 'trigger'; may be repeated", \
			take_action, &(m).actions }, \
		{ 0, "limit", OPT_TEXT, "RULE", \
			"end the job when a limit is reached, for example 'ram = 24GiB' or 'time = 2h'; may be repeated", \
			take_rule, &(m).limits }, \
		{ 0, "grace", OPT_TEXT, "SPAN", "from SIGTERM to SIGKILL where a limit ends the job (30s)", \
			take_grace, &(m).recorder.grace_ns }, \
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

/* Paragraphs of both manuals. Each rule in it is tested to be one. */
#define RULE_PROSE \
	"A rule compares what is measured now: 'ram > 24GiB', 'ram > 90% of limit for 30s', 'cpu < 5% for 10m', " \
	"'gpu.mem > 95%', 'gpu0.busy < 5% for 10m', 'process.rss > 8GiB and process.name ~ ^python', 'host.mem_used > 95%', " \
	"'read_bytes > 100MB/s', 'time > 2h', or a series that the job pushes: 'loss is nan', 'loss > 10 or loss is inf'. " \
	"Names are those of docs/metrics.md, what belongs to the job without its 'job.'; behind one .peak, .mean or .last " \
	"stand for the run so far: 'ram > 1GiB and not loss.last < 0.5'. 'growth(ram) > 10MiB/min' looks back five minutes, " \
	"'growth(ram, 30m) > 1MiB/min' thirty; 'no step for 5m' holds when nothing new came for so long, 'no step for 5x " \
	"median' for five times as long as usual; 'exit != 0' once the job has failed. There are < <= > >= == " \
	"!= ~ (a regular expression, for texts), is nan, is inf, is absent, and, or, not and parentheses. In front of it may " \
	"stand its level: 'error: ram > 95%', else it is warn.", \
		"--alert usual stands for 'ram > 90%', 'gpu.mem > 95%', 'gpu.job_mem > 0B and gpu.busy < 5% for 10m', " \
		"'gpu.throttle_thermal > 5% for 1m', 'host.disk_free < 1GiB', 'host.shm > 80%', 'no step for 5x median and no step " \
		"for 1m', 'error: loss is nan or loss is inf' and 'error: exit != 0'.", \
		"% is of the memory limit of the job's cgroup, else of what was asked for, else of the machine; of the GPU's memory; " \
		"of the processors the job may use. A number that cannot be had fires nothing, nor does one that was not renewed in " \
		"time. A rule with a process or a GPU in it is judged for each of them. It is told once when it begins to hold, and " \
		"once when it has not held for as long as its for says (a second at least).", \
		"--on-alert does something when an alert is raised; with a level in front only for alerts of that level and above: " \
		"'error: signal USR1'. 'signal USR1' sends the job's main process a signal. 'trigger' keeps what happened: the last " \
		"five minutes at full rate, and the run in the history; hiwater show then tells who held what, how fast it grew and " \
		"since when. Anything else is a command, run with HIWATER_ALERT (what is told), HIWATER_RULE, " \
		"HIWATER_VALUE (in bytes, seconds, ratios), HIWATER_LEVEL, HIWATER_TIME_S, HIWATER_RUN (the recording) and " \
		"HIWATER_PID (the process that it is about, else main) in its environment. It is not part of the job, nothing waits " \
		"for it; four may run at once, each for a minute at most. Its output goes where hiwater writes, unless that is a pipe.", \
		"--limit 'ram = 24GiB', 'time = 2h', 'gpu.mem = 8GiB' or 'process.rss = 8GiB' warns at 90%; when the limit is " \
		"reached, every process of the job gets SIGTERM, and SIGKILL after the grace, also those that outlive the command (Ctrl-C " \
		"then means them, at once); what belongs to a process or a GPU " \
		"only the process that is over it, or holds most of what the job holds there. The summary says so, and the exit " \
		"status is 124. For two seconds behind SIGKILL those who are born meanwhile get it, too; who comes later was not there " \
		"at the limit. A rule about GPUs that cannot be judged (--gpu=none, no driver, no such GPU) is warned of. It is hiwater that keeps to the limit: where it is itself killed (kill -9), nobody sends what is left to " \
		"send, and who ignored SIGTERM runs on."

int take_interval(const char *value, void *dest, struct err *err);
int take_progress(const char *value, void *dest, struct err *err);
int take_gpu(const char *value, void *dest, struct err *err);
int take_rule(const char *value, void *dest, struct err *err);
int take_grace(const char *value, void *dest, struct err *err);
int take_request(const char *value, void *dest, struct err *err);
int take_summary(const char *value, void *dest, struct err *err);
int take_units(const char *value, void *dest, struct err *err);

/* The environment's share, file names with the rank put in, and whether files can be written: to be called once,
 * before anything is started. Returns 0, or -errno after a complaint. */
int measure_prepare(struct measure *m);

/* Prints a line about the present. */
void measure_progress(const struct measure *m, struct hiw_recorder *recorder);

/* Says what alerts there are, does what they and the limits ask for. main: the job's main process, 0 when it has ended.
 * Returns true if the job was told to end. */
bool measure_alerts(struct measure *m, struct hiw_recorder *recorder, pid_t main);

/* Is whoever is left waited for, since a limit told them to end? A little also for who cannot be killed. */
bool measure_limit_waits(const struct measure *m, const struct hiw_recorder *recorder);

/* An end was asked for: who is waited for because of a limit is killed with the next measure_alerts. False: there is nobody,
 * or it has been tried. */
bool measure_cut_grace(const struct measure *m, struct hiw_recorder *recorder);

/* Prints what the recorder has to warn of. */
void measure_warnings(const struct measure *m, struct hiw_recorder *recorder);

/* Prints and writes what was asked for of a run that is over; what fails is a complaint. */
void measure_report(const struct measure *m, struct hiw_run *run);

/* Makes the timer of progress lines. Returns a descriptor, or -1: none. */
int measure_timer(const struct measure *m);

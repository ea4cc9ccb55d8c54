/* SPDX-License-Identifier: MIT
 *
 * hiwater: the resource use of a job. This is the whole public interface; plain C11, usable from
 * C++.
 *
 * A recorder measures a job and writes a recording. A run is one measured execution: the live run
 * of a recorder, or one read back from a recording. The same functions work on both, except where
 * they say otherwise. examples/peak.c is a complete program in one page.
 *
 * Errors       Functions return 0 or a negative errno. If the user can do something about the error,
 *              a text is written to the caller's struct hiw_err (which may be NULL): what happened,
 *              why, and what to do.
 * Ownership    A handle from _new or _open is the caller's, who frees it with the _free or _close of
 *              the same name; those accept NULL. Strings in a struct that a getter fills are borrowed
 *              from the handle, and valid until the next call on it.
 * Threads      A handle may be used by one thread at a time; different handles are independent. A
 *              recorder has a writer thread of its own, which blocks all signals.
 * Environment  The library never prints, exits, installs signal handlers, or changes the locale or
 *              the environment.
 * Units        Bytes, nanoseconds, microjoules, and millionths (ppm: a ratio of 1, or one core, is
 *              1000000).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HIW_API __attribute__((visibility("default")))

struct rusage;

/* The text of an error; "" if there is no text. */
struct hiw_err {
	char text[512];
};

/* A number that may not be available; value is meaningless unless known is true. */
struct hiw_maybe {
	int64_t value;
	bool known;
};

/* The library's version, such as "0.1.0". Static. */
HIW_API const char *hiw_version(void);

/* ---- recording a job ------------------------------------------------------------------------- */

enum hiw_cgroup {
	HIW_CGROUP_AUTO, /* use the job's cgroup if it has one to itself; make none */
	HIW_CGROUP_NONE, /* use no cgroup */
};

enum hiw_gpu {
	HIW_GPU_AUTO, /* measure GPUs if there are any; a helper process calls their drivers
	               * (hiw_recorder_helper) */
	HIW_GPU_NONE, /* call no GPU driver and load no driver library */
};

/* Initialise with HIW_OPTIONS_INIT, then set what differs. All strings are copied. */
struct hiw_options {
	size_t size;                 /* sizeof this struct, for compatibility with later versions */
	uint64_t interval_ns;        /* between two samples of memory, of processes that sleep: window_ns; 1 ms to 1 h */
	uint64_t window_ns;          /* span of a stored row, and the period of metrics that cost more to
	                              * read */
	const char *const *argv;     /* the command, NULL-terminated; secrets are masked before it is
	                              * stored. NULL: attached, the command is read from the process */
	const char *name;            /* runs of one name are a group; %r is the rank; NULL: no name */
	/* File of the recording, or, with '/' at its end, the folder for those of all ranks; %r is the rank, %t the local rank, %N the
	 * node, %j the job, %s the step, %a the array task, %R the number of restarts, %% a %; NULL: the history. */
	const char *output;
	bool overwrite;              /* output may exist */
	bool no_record;              /* write no recording */
	bool attached;               /* the job was not started by this process */
	bool reset_hwm;              /* attached: reset VmHWM of the first process at the start
	                              * (clear_refs) */
	bool pss;                    /* also read PSS of processes over 1.5 GiB, which locks their memory
	                              * map for 10 ms per GiB */
	enum hiw_cgroup cgroup;
	const char *cgroup_made;     /* a cgroup that was made for this job; NULL: none */
	int64_t fork_rss_bytes;      /* VmHWM of this process before it forked the job, a lower bound of
	                              * the job's ru_maxrss; 0: unknown, or hiw_recorder_forking reads it */
	const char *cgroup_path;     /* attached: measure all processes of this cgroup; NULL: only those
	                              * given to _start, and use the cgroup of the first */
	struct hiw_maybe request_bytes, request_cpus, request_time_ns; /* the job's resource request;
	                                                                * unknown: the scheduler's */
	enum hiw_gpu gpu;
	const char *const *alerts;   /* rules, NULL-terminated: "ram > 90% for 30s", "default"
	                              * (hiwater-run(1)); NULL: none */
	const char *const *limits;   /* rules, NULL-terminated: "ram = 24GiB", "time = 2h"; NULL: none */
	uint64_t grace_ns;           /* between SIGTERM and SIGKILL when a limit ends the job; 0: 30 s */
	bool everyone;               /* measure all processes of the machine; needs attached and no_record.
	                              * Metrics whose reading would stall other processes are not read, and
	                              * there are no totals */
	bool by_cell;                /* started by a notebook cell, which overwrites its recording when it
	                              * runs again */
	const char *note;            /* a sentence for people, kept with the run; NULL: none */
	bool degrade;                /* what is missing is a warning instead of an error: without a place
	                              * for the recording there is none, if output exists it is NAME-2.hiw,
	                              * without a timer there are no samples (not if attached) */
	bool by_block;               /* attached to a program for one block of it, after which it continues */
	struct hiw_maybe request_gpus; /* as request_bytes */
	pid_t slurm_pid;             /* attached: the run is of the Slurm job that this process is in: its number, node,
	                              * user and request are the run's; 0: of the one that this process is in */
	bool slurm_whole_job;        /* all steps of that job on this node, not only that one */
};

/* The defaults: a sample each 100 ms, a row each second. */
#define HIW_OPTIONS_INIT \
	{ .size = sizeof(struct hiw_options), .interval_ns = 100000000, .window_ns = 1000000000 }

/* Measures a job. The caller polls hiw_recorder_fd and calls hiw_recorder_step. */
struct hiw_recorder;

/* Checks the options and allocates everything that the job needs before its start; creates no
 * file. */
HIW_API int hiw_recorder_new(
	const struct hiw_options *options, struct hiw_recorder **ret, struct hiw_err *err);
HIW_API void hiw_recorder_free(struct hiw_recorder *recorder);

/* The value for HIWATER_SOCKET in the job's environment, by which hiwater mark and the Python
 * package find the recorder. Borrowed; "" if there is no socket. */
HIW_API const char *hiw_recorder_socket(const struct hiw_recorder *recorder);

/* Call this right before the fork of the job. It reads the caller's resident size, a lower bound of
 * the job's ru_maxrss, and the machine's counters of huge pages and out-of-memory kills, so that
 * earlier counts are not attributed to the job. Without it the upper bound of RAM may lack huge
 * pages that the job allocates before hiw_recorder_start. */
HIW_API void hiw_recorder_forking(struct hiw_recorder *recorder);

/* Measures pid and its descendants from now on. The first pid is the main process; if attached,
 * further calls add processes. Returns 0, -ESRCH, -EPERM or another -errno. */
HIW_API int hiw_recorder_start(struct hiw_recorder *recorder, pid_t pid, struct hiw_err *err);

/* A descriptor that is readable when hiw_recorder_step has work to do. It stays the same until
 * _free. */
HIW_API int hiw_recorder_fd(const struct hiw_recorder *recorder);
/* Reads what is due and handles messages and alerts; never blocks. */
HIW_API void hiw_recorder_step(struct hiw_recorder *recorder);

/* Excludes pid, a child of the caller, from the job. */
HIW_API void hiw_recorder_ignore(struct hiw_recorder *recorder, pid_t pid);

/* The PID of the recorder's helper, a child process that reads GPUs; 0: it is not running. A caller
 * that waits for all of its children sees it too, and may reap it (then call hiw_recorder_reaped).
 * hiw_recorder_end ends it; if it is stuck in a driver it is left behind, and the summary says
 * so. */
HIW_API pid_t hiw_recorder_helper(const struct hiw_recorder *recorder);

/* Reads the last values of pid, a child that is a zombie (waitid with WNOWAIT): the main process or
 * an orphan of the job. Call it before reaping pid. */
HIW_API void hiw_recorder_zombie(struct hiw_recorder *recorder, pid_t pid);
/* Reports that the caller reaped pid (wait4): the main process or an orphan of the job. usage may
 * be NULL. */
HIW_API void hiw_recorder_reaped(
	struct hiw_recorder *recorder, pid_t pid, int status, const struct rusage *usage);

/* Reports that the job was sent a signal because of a limit: the summary gets why, and the exit
 * status 124. */
HIW_API void hiw_recorder_stopped(struct hiw_recorder *recorder, const char *why);

/* Adds a mark at this instant; takes a sample at once. Returns 0, -ESRCH if the run has ended, or
 * -EMSGSIZE if text is longer than 4096 bytes. */
HIW_API int hiw_recorder_mark(struct hiw_recorder *recorder, const char *text);

/* Keeps the last minutes at full rate, and the run in the history, for an analysis afterwards. why
 * is one line; if it begins with "out of memory", "RAM alert" or "GPU memory alert", the summary
 * lists the processes that used the memory. At most 64 per run. */
HIW_API void hiw_recorder_trigger(struct hiw_recorder *recorder, const char *why);

/* Handles a message as if it was sent to hiw_recorder_socket: "mark TEXT", "phase+ NAME", "phase-
 * NAME", "log NAME=VALUE ...". exact: at the edges of a phase, reads the high-water mark of the
 * main process, and resets it (clear_refs) where the phase begins, which makes the phase's peak
 * exact if the main process does not run until this returns. Returns 0, -EBADMSG with text, or
 * -ESRCH if the run has ended. */
HIW_API int hiw_recorder_push(
	struct hiw_recorder *recorder, const char *message, bool exact, struct hiw_err *err);

/* True when every process of the job has ended. */
HIW_API bool hiw_recorder_finished(const struct hiw_recorder *recorder);

/* The next warning that the user should see now (disk full, queue overflow, ...), each once; NULL:
 * none. Borrowed until the next call. */
HIW_API const char *hiw_recorder_warning(struct hiw_recorder *recorder);

enum hiw_rule_kind {
	HIW_RULE_ALERT, /* "ram > 90% for 30s" */
	HIW_RULE_LIMIT, /* "ram = 24GiB" */
	HIW_RULE_CHECK, /* "ram.peak < 20GiB" */
	HIW_RULE_COMPARE, /* "ram.peak > +5%" */
	HIW_RULE_FILTER, /* "rss > 1GiB and name ~ ^py" */
};

/* Checks the syntax of a rule. Returns 0, or -EINVAL with a text of three lines: the error, the
 * rule, and a caret below it. */
HIW_API int hiw_rule_check(const char *rule, enum hiw_rule_kind kind, struct hiw_err *err);

/* The severity of a rule or a finding. */
enum hiw_level {
	HIW_INFO,
	HIW_WARN,
	HIW_ERROR,
};

/* What the caller must do about an alert: the recorder does not send the signals of limits
 * itself. */
enum hiw_act {
	HIW_ACT_NONE,
	HIW_ACT_END,  /* hiw_recorder_signal(recorder, alert.pid, SIGTERM), hiw_recorder_stopped(recorder,
	               * alert.text) */
	HIW_ACT_KILL, /* the same with SIGKILL: the grace is over */
};

/* The memory that a rule is about. */
enum hiw_alert_about {
	HIW_ABOUT_OTHER,      /* not about memory */
	HIW_ABOUT_RAM,        /* memory of the host */
	HIW_ABOUT_GPU_MEMORY,
};

/* A rule became true (raised), or is no longer true (cleared). */
struct hiw_alert {
	size_t size;                 /* in: sizeof the caller's struct */
	bool raised;
	enum hiw_level level;
	enum hiw_act act;
	pid_t pid;                   /* the process that the alert is about and that act applies to; 0: the
	                              * job */
	uint64_t time_ns;            /* since the start of the run */
	double value;                /* the value found, in bytes, seconds, joules, watts, degrees Celsius
	                              * or a ratio; may be NaN */
	const char *rule;            /* as it was given */
	const char *text;            /* the rule and the value, one line */
	enum hiw_alert_about about;
};

/* Calls see with each alert from within hiw_recorder_step and hiw_recorder_end; NULL: stops that.
 * The alert and its texts are borrowed until see returns. see may call hiw_recorder_signal,
 * _stopped, _mark and _trigger. A slow callback delays the measurement, not the job.
 * examples/alerts.c is a complete program. */
HIW_API void hiw_recorder_on_alert(
	struct hiw_recorder *recorder, void (*see)(void *ctx, const struct hiw_alert *alert), void *ctx);

/* Sends signal to process pid of the job; pid 0: to all processes of the job, the main process
 * first, and to those born meanwhile. Processes outside the job are never signalled, even if a PID
 * was reused. Returns how many processes got the signal, or -ESRCH. */
HIW_API int hiw_recorder_signal(struct hiw_recorder *recorder, pid_t pid, int signal);

/* True while a limit has asked for the end of a process that is still running, or for the end of
 * the whole job. Callers that enforce limits continue with hiw_recorder_step while it is true, also
 * after the main process has ended. For the whole job it stays true: continue until
 * hiw_recorder_finished or, if the job's processes are children of the caller, until none is left. */
HIW_API bool hiw_recorder_terminating(const struct hiw_recorder *recorder);

/* The file of the recording; "" if there is none, or not yet. Borrowed. */
HIW_API const char *hiw_recorder_path(const struct hiw_recorder *recorder);

/* Ends the run: reads the last values and finishes the recording, waiting for the disk a second
 * at most. The run stays readable through hiw_recorder_run until _free. A failure to write is a
 * warning (hiw_recorder_warning), not an error. */
HIW_API int hiw_recorder_end(struct hiw_recorder *recorder, struct hiw_err *err);

/* The recorder's run, live or ended. Borrowed; valid until _free. */
HIW_API struct hiw_run *hiw_recorder_run(struct hiw_recorder *recorder);

/* ---- frames: values as they are read --------------------------------------------------------- */

/* The kind of object that a metric belongs to. */
enum hiw_entity {
	HIW_HOST,
	HIW_JOB,
	HIW_PROCESS,
	HIW_GPU,
	HIW_GPU_PROCESS
};

/* The unit of a metric's values. */
enum hiw_unit {
	HIW_UNIT_BYTES,
	HIW_UNIT_NS,
	HIW_UNIT_COUNT,
	HIW_UNIT_PPM,  /* millionths */
	HIW_UNIT_UJ,   /* microjoules */
	HIW_UNIT_UW,   /* microwatts */
	HIW_UNIT_MCEL, /* thousandths of a degree Celsius */
	HIW_UNIT_HZ,
};

enum hiw_kind {
	HIW_GAUGE,   /* a level */
	HIW_COUNTER, /* only grows, except for resets */
	HIW_HWM,     /* a high-water mark of the kernel */
};

/* A metric (docs/metrics.md). */
struct hiw_metric {
	enum hiw_entity entity;
	enum hiw_unit unit;
	enum hiw_kind kind;
	const char *name, *sentence;
};

/* The metric with this number; NULL beyond the last. Static. Numbers may change with the library's
 * version: outside of the process, refer to metrics by name. */
HIW_API const struct hiw_metric *hiw_metric(unsigned number);
/* The number of entity's metric called name ("rss"); -1: no such metric. */
HIW_API int hiw_metric_find(enum hiw_entity entity, const char *name);

/* The value of one metric of one entity. In a window of a recording, value is the mean over time,
 * min and max are the extremes; live, all three are mostly equal. */
struct hiw_reading {
	uint32_t id;                 /* host and job: 0 (live, a single CPU: 1 + its number); else the id
	                              * of the birth; in a recording, process 0 is all small processes
	                              * together */
	unsigned metric;             /* its number */
	bool known;                  /* false: not available from now on */
	int64_t value, min, max;     /* in the metric's unit */
};

/* A process, a GPU or a process on a GPU has appeared. A second birth of a process gives its new
 * name and command (exec); a second birth of a GPU gives its memory size, if that was not known
 * before. */
struct hiw_birth {
	enum hiw_entity entity;
	uint32_t id;                 /* from 1, never reused */
	const char *name;            /* of the program or device; any bytes; "" if it is not visible */
	struct hiw_maybe pid, uid;   /* of a process, also on a GPU; unknown: not visible to this user */
	/* process */
	struct hiw_maybe ppid;
	uint32_t parent;             /* id of its parent; 0: the parent is not among these processes */
	uint64_t start_ns;           /* since boot */
	const char *command;         /* its arguments, secrets masked; "" if not known */
	bool is_main;
	/* GPU */
	const char *uuid, *vendor;
	const char *instance_of;     /* of a MIG instance: uuid of its GPU; else "" */
	const char *driver;          /* its version; "" if not known */
	struct hiw_maybe index, memory_bytes; /* index of an instance: its number on its GPU */
	bool unified;                /* its memory is the host's memory */
	/* process on a GPU */
	uint32_t gpu, process;       /* ids; process 0: not among these processes */
};

/* A process, a GPU or a process on a GPU has ended or disappeared. */
struct hiw_end {
	enum hiw_entity entity;
	uint32_t id;
};

/* An event at an instant. */
struct hiw_event {
	uint64_t time_ns;            /* since the start of the run */
	const char *kind;            /* "mark", "phase-begin", "phase-end", "alert", "cleared", "oom",
	                              * "gap", "note", "trigger", "exec"; static */
	enum hiw_entity entity;
	uint32_t id;                 /* of the entity that it is about */
	int64_t value_ns;            /* gap: its length */
	const char *text;            /* any bytes */
};

/* A value of a user series. */
struct hiw_value {
	const char *name;
	double value;                /* NaN and infinities are allowed */
	bool has_step;
	int64_t step;
};

/* The values read at one time. Births in it apply before everything else, ends after. */
struct hiw_frame {
	uint64_t time_ns;            /* since the start of the run; never decreases */
	uint64_t hold_ns;            /* how long a gauge read here stays valid; a longer time without a
	                              * frame is a gap */
	bool live;                   /* false: of a recording; readings are windows that begin at time_ns */
	const char *source;          /* live: what was read: "procfs", "host", "cgroup", "nvml", "dcgm", "amdgpu",
	                              * "drm", ...; else "". Static */
	size_t n_births, n_readings, n_ends, n_events, n_values;
	const struct hiw_birth *births;
	const struct hiw_reading *readings;
	const struct hiw_end *ends;
	const struct hiw_event *events;
	const struct hiw_value *values;
};

/* Is called with a frame; the frame and everything in it are borrowed until the call returns. */
typedef void hiw_frame_fn(void *ctx, const struct hiw_frame *frame);

/* Calls see with each frame from within _start, _step, _push, _mark, _end, and _signal to the whole
 * job (which searches for new processes); never recursively. Call it once, before _start. Returns 0
 * or -ENOMEM. */
HIW_API int hiw_recorder_watch(struct hiw_recorder *recorder, hiw_frame_fn *see, void *ctx);

/* ---- runs ------------------------------------------------------------------------------------ */

/* One measured execution of a job: the live run of a recorder, or one read back from a
 * recording. */
struct hiw_run;

/* Resolves a RUN: a number of the history, "last", a name ("name:NAME" if NAME would be read as
 * something else), a path, "slurm:JOB". *ret_path is the caller's to free(). */
HIW_API int hiw_find(const char *run, char **ret_path, struct hiw_err *err);

/* Opens a recording: finished, growing, or cut off. */
HIW_API int hiw_run_open(const char *path, struct hiw_run **ret, struct hiw_err *err);
HIW_API void hiw_run_close(struct hiw_run *run);

/* Facts about a run. Texts that are not known are "". */
struct hiw_about {
	size_t size;                 /* in: sizeof the caller's struct */
	const char *command, *name, *host, *user;
	const char *gpu_why;         /* why no GPU could be read */
	struct hiw_maybe main_pid, started_wall_ns, ended_ns, cpus, cpu_limit_ppm, capacity_bytes,
		limit_bytes, interval_ns, window_ns;
	uint64_t last_ns;            /* time of the last frame, since the start of the run */
	bool growing;                /* of a recording: its recorder is still running */
};
/* Returns 0. The facts of a recording are those at the time of hiw_run_open, except growing. */
HIW_API int hiw_run_about(struct hiw_run *run, struct hiw_about *ret);

/* Replays the frames of a recording in the order of time. The run must come from hiw_run_open and
 * is borrowed; do not use it otherwise while the player exists. Between calls the file is not
 * accessed, so it may grow and be thinned meanwhile. */
struct hiw_player;
HIW_API int hiw_player_new(
	struct hiw_run *run, hiw_frame_fn *see, void *ctx, struct hiw_player **ret, struct hiw_err *err);
HIW_API void hiw_player_free(struct hiw_player *player);
/* Calls see with the further frames up to until_ns (UINT64_MAX: all that are written by now).
 * Returns 0 or -errno with text. */
HIW_API int hiw_player_to(struct hiw_player *player, uint64_t until_ns, struct hiw_err *err);
/* Continues from from_ns, forwards or backwards: see gets new births of everything that exists
 * then, processes with their last values. Returns 0 or -errno with text. */
HIW_API int hiw_player_seek(struct hiw_player *player, uint64_t from_ns, struct hiw_err *err);

/* How a figure was obtained. */
enum hiw_method {
	HIW_UNKNOWN, /* not available; a note in the summary says why */
	HIW_EXACT,   /* a high-water mark or counter of the kernel */
	HIW_BOUNDED, /* between low and high */
	HIW_SAMPLED, /* the largest sample: the true value is at least this */
};

/* An amount of RAM in bytes; low <= peak <= high. */
struct hiw_ram {
	struct hiw_maybe peak, low, high, mean, private_bytes, shared_bytes;
	struct hiw_maybe at_ns;      /* time of the peak, since the start of the run */
	enum hiw_method method;
	const char *source;          /* "VmHWM", "ru_maxrss", ...; static */
};

/* The main figures of a run; HIW_JSON has all of them. */
struct hiw_figures {
	size_t size;                 /* in: sizeof the caller's struct */
	bool complete, oom_killed, cpu_exact;
	struct hiw_maybe exit_status;/* wait status of the main process (waitpid) */
	struct hiw_maybe wall_ns, user_ns, system_ns;
	struct hiw_ram main, descendants, combined;
	struct hiw_maybe swap_peak, read_bytes, write_bytes, cpu_energy_uj;
	struct hiw_maybe processes_seen, peak_alive, processes_left;
};
HIW_API int hiw_run_figures(struct hiw_run *run, struct hiw_figures *ret);

enum hiw_format {
	HIW_TEXT,     /* the full summary */
	HIW_LINE,     /* one line of key=value pairs */
	HIW_JSON,     /* docs/summary.schema.json */
	HIW_PROGRESS, /* one line about the current state */
	HIW_JSON_LINE, /* HIW_JSON on one line */
	HIW_MARKDOWN, /* for pull requests and notes */
};

/* The result of a rule for a run. */
enum hiw_check_result {
	HIW_PASS,
	HIW_FAIL,
	HIW_INCOMPLETE,              /* the recording does not decide it */
};

/* The result of a rule for a run, and why. */
struct hiw_checked {
	enum hiw_check_result result;
	const char *rule;
	const char *text;            /* the value found, for people */
	double value;                /* the value found, in base units; NaN: no value, or it is NaN */
	struct hiw_maybe at_ns;      /* when the rule first held, if it is about values over time */
};

/* Checks n rules (HIW_RULE_CHECK) against a run from hiw_run_open; see is called for each, in their
 * order. A rule whose names end in .peak, .mean or .last is checked against the summary; any other
 * passes if it held at any time. Returns 0; -EINVAL with text for a rule that cannot be parsed
 * (then see is not called at all); or another -errno. */
HIW_API int hiw_run_check(struct hiw_run *run, const char *const *rules, size_t n,
	void (*see)(void *ctx, const struct hiw_checked *checked), void *ctx, struct hiw_err *err);

/* Options of an export; docs/export.md describes the formats. */
struct hiw_export {
	size_t size;                 /* sizeof this struct */
	const char *to;              /* "csv", "json", "openmetrics", "otlp", "perfetto", "chrome", "nsys-sqlite",
	                              * "svg", "js1", "sacct" */
	const char *entity;          /* "host", "job", "process", "gpu", "gpu_process", "series", "events";
	                              * NULL: the job (csv), all (json), all but processes (openmetrics),
	                              * job, gpu and series (svg) */
	bool recent;                 /* the last minutes at full rate instead of as windows */
	bool redact;                 /* leave out user, host, commands and process names */
	/* Is called with the output, piece by piece. Returns 0, or a negative errno to stop the
	 * export. */
	int (*write)(void *ctx, const void *data, size_t len);
	void *ctx;
	const char *const *series;   /* svg: names of n_series user series to draw; n_series 0: the first
	                              * few */
	size_t n_series;
	unsigned width, height;      /* svg, in pixels: width of the picture, height of each chart; 0: the
	                              * default */
	const char *const *attributes; /* otlp: n_attributes texts, the keys and values of resource
	                              * attributes in turn */
	size_t n_attributes;
	bool gzip;                   /* compress what is written, as gzip does */
};

/* Exports a run from hiw_run_open, finished or not, in memory that does not grow with the length of
 * the run. Returns 0; -EINVAL with text if the format lacks what was asked for; the error of write;
 * or another -errno with text. */
HIW_API int hiw_run_export(struct hiw_run *run, const struct hiw_export *what, struct hiw_err *err);

/* Options of a self-contained HTML page about one run or several. */
struct hiw_report {
	size_t size;                 /* sizeof this struct */
	bool redact;                 /* leave out user, host, commands and process names */
	/* Is called with the page, piece by piece. Returns 0, or a negative errno to stop. */
	int (*write)(void *ctx, const void *data, size_t len);
	void *ctx;
};

/* Bounds of hiw_report. */
enum {
	HIW_REPORT_RUNS = 64         /* runs on a page at most */
};

/* Writes a page about n runs from hiw_run_open, finished or not, the first at the top. Neither
 * memory nor the size of the page grows with the length of the runs. Returns 0; -ENOTSUP with text
 * if this library was built without the page's JavaScript; -EINVAL with text for too many runs or
 * the run of a recorder; the error of write; or another -errno with text. */
HIW_API int hiw_report(
	struct hiw_run *const *runs, size_t n, const struct hiw_report *what, struct hiw_err *err);

/* Units of sizes: 1 KiB, 1 kB, plain bytes. */
enum hiw_units {
	HIW_IEC,
	HIW_SI,
	HIW_BYTES
};

/* The style of text. */
struct hiw_style {
	size_t size;                 /* sizeof this struct */
	enum hiw_units units;
	unsigned width;              /* columns; 0: 80 */
	bool color;                  /* terminal colours */
	bool utf8;                   /* characters beyond ASCII */
	bool plain;                  /* one fact per line, for screen readers */
	bool why;                    /* every check, whether its finding applies or not */
};

/* Writes the summary as text. style NULL: ASCII, 80 columns. *ret is the caller's to free().
 * Returns 0, -EINVAL for an unknown format, or another -errno. */
HIW_API int hiw_run_text(struct hiw_run *run, enum hiw_format format, const struct hiw_style *style,
	char **ret, size_t *ret_len, struct hiw_err *err);

/* What hiw_compare writes. */
enum hiw_compare_format {
	HIW_COMPARE_TEXT,
	HIW_COMPARE_MARKDOWN,
	HIW_COMPARE_JSON,
};

/* Options of a comparison. */
struct hiw_compare {
	const char *const *runs;     /* each a RUN (hiw_find), or a name: all finished runs of that name.
	                              * Runs of one name are a group; the first group is the base */
	size_t n_runs;
	const char *const *rules;    /* the comparison fails if one holds for the means of a group:
	                              * "ram.peak > +5%" */
	size_t n_rules;
	enum hiw_compare_format format;
	const struct hiw_style *style; /* units, utf8, width; NULL: plain ASCII, 80 columns */
	const char *by;              /* "model,data": heads for the parts of the groups' names, eight at
	                              * most; NULL: names are not split. With by, or with more than two
	                              * groups, the table has a row per group and no test */
};

/* Compares runs. *ret, the text, is the caller's to free(). *ret_result is HIW_PASS without rules.
 * Returns 0; -EINVAL with text for a rule that cannot be parsed or fewer than two groups; -ENOENT
 * with text if there is no such run; or another -errno. */
HIW_API int hiw_compare(const struct hiw_compare *what, char **ret, size_t *ret_len,
	enum hiw_check_result *ret_result, struct hiw_err *err);

/* ---- the history ----------------------------------------------------------------------------- */

/* A run in the history. */
struct hiw_entry {
	uint64_t number;
	const char *path, *name, *command;
	uint64_t started_wall_ns;    /* since 1970 */
	int64_t wall_ns;
	struct hiw_maybe exit_status;
	bool complete, running, pinned;
	struct hiw_maybe peak_bytes; /* combined RAM */
	uint64_t file_bytes;
	const char *note;            /* "": none */
	const char *raised;          /* type of the exception that left the block (Python); "": none */
	bool is_folder;              /* the recordings of a job of several ranks: path is that of their folder */
	struct hiw_maybe ranks, nodes; /* of such a job */
};
/* Calls see for each run in the history, the oldest first; see returns false to stop. */
HIW_API int hiw_history(
	bool (*see)(void *ctx, const struct hiw_entry *entry), void *ctx, struct hiw_err *err);

/* ---- from inside a job ----------------------------------------------------------------------- */

/* Adds a mark to the run that this process belongs to (HIWATER_SOCKET). Returns 0, -ENOENT if it
 * belongs to none, -EPERM if it is the run of another user, -EMSGSIZE if text is longer than 4096
 * bytes, or another -errno. */
HIW_API int hiw_mark(const char *text, struct hiw_err *err);

#ifdef __cplusplus
}
#endif

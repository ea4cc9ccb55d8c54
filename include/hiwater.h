/* SPDX-License-Identifier: MIT
 *
 * hiwater: what a job used. The whole public interface; plain C11, usable from C++.
 *
 * A recorder measures a job and keeps a recording; a run is what came of it: the live one of a recorder, or one read
 * back from a file. Both answer the same questions. examples/peak.c is a whole program in one page.
 *
 * Errors       Functions return 0 or a negative errno. Where a person can do something about it, a text goes into the
 *              caller's struct hiw_err (NULL is fine): what, why, what to do.
 * Ownership    _new and _open give something that the _free or _close of the same name takes back; those take NULL.
 *              Strings inside what a getter fills are borrowed from the handle until its next call.
 * Threads      One thread at a time a handle; different handles are independent. The recorder's writer thread is its
 *              own business and blocks all signals.
 * Environment  The library never prints, exits, installs signal handlers, changes locale or environment.
 * Units        bytes, nanoseconds, microjoules, millionths (ppm: a ratio of 1 is 1000000; one core is 1000000).
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

/* The text of an error; "" if there is none. */
struct hiw_err {
	char text[512];
};

/* A number that may not be had; value means nothing unless known. */
struct hiw_maybe {
	int64_t value;
	bool known;
};

/* "0.1.0". Static. */
HIW_API const char *hiw_version(void);

/* ---- recording a job ------------------------------------------------------------------------------------------- */

enum hiw_cgroup {
	HIW_CGROUP_AUTO, /* use the job's cgroup where it has one to itself; make none */
	HIW_CGROUP_NONE, /* use none */
};

enum hiw_gpu {
	HIW_GPU_AUTO, /* whatever GPUs there are; a process of its own asks their drivers (hiw_recorder_helper) */
	HIW_GPU_NONE, /* no driver is asked, no library of one loaded */
};

/* Fill with HIW_OPTIONS_INIT, then set what differs. All strings are copied. */
struct hiw_options {
	size_t size;                 /* of this struct, for later versions */
	uint64_t interval_ns;        /* between two looks at memory: 1 ms or more */
	uint64_t window_ns;          /* span of a stored row, and the period of what is dearer to read */
	const char *const *argv;     /* the command, NULL-terminated; secrets in it are masked before it is stored. NULL
	                              * with attach: read from the process */
	const char *name;            /* runs of one name are a group; NULL. %r is the rank */
	const char *output;          /* the recording's file; NULL: the history. %r is the rank */
	bool overwrite;              /* output may exist */
	bool no_record;              /* keep no recording */
	bool attached;               /* the job was not started by this process */
	bool reset_mark;             /* attached: reset VmHWM of the first process at the start (clear_refs) */
	bool pss;                    /* read PSS of large processes too (over 1.5 GiB: holds their memory lock for 20 ms) */
	enum hiw_cgroup cgroup;
	const char *cgroup_made;     /* a cgroup that was made for this job; NULL */
	int64_t fork_rss_bytes;      /* hiw_own_rss() before the job was forked: a floor of its ru_maxrss; 0: unknown */
	const char *cgroup_path;     /* attached to all of this cgroup (hiw_pids_by_cgroup); NULL: use that of the first process */
	struct hiw_maybe request_bytes, request_cpus, request_time_ns; /* what was asked for; unknown: the scheduler's */
	enum hiw_gpu gpu;
	const char *const *alerts;   /* rules, NULL-terminated: "ram > 90% for 30s", "usual" (hiwater-run(1)); NULL: none */
	const char *const *limits;   /* likewise: "ram = 24GiB", "time = 2h" */
	uint64_t grace_ns;           /* between being told to end because of a limit and being killed; 0: 30 s */
	bool everyone;               /* attached: all processes of the machine, whoever's; with no_record. Of each there is
	                              * what it holds and used; nothing that would hold others up is read, and there are
	                              * no totals over them */
	bool by_cell;                /* a cell of a notebook asked for it, which may make its recording again */
};

#define HIW_OPTIONS_INIT { .size = sizeof(struct hiw_options), .interval_ns = 100000000, .window_ns = 1000000000 }

/* Measures a job: made by hiw_recorder_new, to be driven by hiw_recorder_fd and hiw_recorder_step. */
struct hiw_recorder;

/* Checks the options and reserves what must be there before a job starts; creates no file. */
HIW_API int hiw_recorder_new(const struct hiw_options *options, struct hiw_recorder **ret, struct hiw_err *err);
HIW_API void hiw_recorder_free(struct hiw_recorder *recorder);

/* What HIWATER_SOCKET must be set to in the job's environment, so that hiwater mark and the Python package find the
 * recorder. Borrowed; "" if there is none. */
HIW_API const char *hiw_recorder_socket(const struct hiw_recorder *recorder);

/* The caller is about to fork the job: its own resident size now is a floor of the job's ru_maxrss, and what the machine has
 * counted until now (huge pages given out, processes killed for lack of memory) is none of the job's. Without this call the
 * upper bound of RAM may lack huge pages that the job takes before hiw_recorder_start. */
HIW_API void hiw_recorder_forking(struct hiw_recorder *recorder);

/* Measures pid and its descendants from now on; the first pid is main. With attach it may be called for several.
 * Returns 0, -ESRCH, -EPERM or -errno. */
HIW_API int hiw_recorder_start(struct hiw_recorder *recorder, pid_t pid, struct hiw_err *err);

/* A descriptor that is readable when hiw_recorder_step has something to do; the same one until _free. */
HIW_API int hiw_recorder_fd(const struct hiw_recorder *recorder);
/* Does what is due; never blocks. */
HIW_API void hiw_recorder_step(struct hiw_recorder *recorder);

/* A child of the caller that is no part of the job. */
HIW_API void hiw_recorder_ignore(struct hiw_recorder *recorder, pid_t pid);

/* The recorder's own child that reads GPUs; 0: none (any more). Whoever waits for all children meets it, and may reap it
 * (hiw_recorder_reaped). hiw_recorder_end ends it; where it is stuck in a driver it stays behind, and the summary says so. */
HIW_API pid_t hiw_recorder_helper(const struct hiw_recorder *recorder);
/* Has the caller a child besides that one? Where the kernel does not tell, or it had children before the job: does a process of
 * the job live, by the last look? */
HIW_API bool hiw_recorder_has_children(const struct hiw_recorder *recorder);

/* The caller saw (waitid WNOWAIT) that a child, main or an orphan, is a zombie: its last facts are read. Call before
 * reaping it. */
HIW_API void hiw_recorder_zombie(struct hiw_recorder *recorder, pid_t pid);
/* The caller reaped pid (wait4): main, or an orphan of the job. usage may be NULL. */
HIW_API void hiw_recorder_reaped(struct hiw_recorder *recorder, pid_t pid, int status, const struct rusage *usage);

/* The job was sent a signal because of a limit: why is in the summary from here on, exit status 124. */
HIW_API void hiw_recorder_stopped(struct hiw_recorder *recorder, const char *why);

/* A mark at this instant; a frame is read at once. Returns 0, -ESRCH: the run has ended, or -EMSGSIZE: text is longer than
 * 4096 bytes. */
HIW_API int hiw_recorder_mark(struct hiw_recorder *recorder, const char *text);

/* Something happened that is worth looking into: the last minutes at full rate and the run itself are kept. why is one
 * line; what begins with "out of memory", "RAM alert" or "GPU memory alert" is told with who held what. 64 a run at most. */
HIW_API void hiw_recorder_trigger(struct hiw_recorder *recorder, const char *why);

/* Takes what could be sent to hiw_recorder_socket: "mark TEXT", "phase+ NAME", "phase- NAME", "log NAME=VALUE ...". exact:
 * at a phase's edges main's mark of its largest size is read and, where it begins, set back (clear_refs), which makes the
 * phase's peak exact: the sender must stand still until this returns. Returns 0, -EBADMSG with text, or -ESRCH. */
HIW_API int hiw_recorder_push(struct hiw_recorder *recorder, const char *message, bool exact, struct hiw_err *err);

/* Reads main's memory and its mark now: for who is about to set the mark back. Returns 0, or -ESRCH: it cannot be read. */
HIW_API int hiw_recorder_read_mark(struct hiw_recorder *recorder);

/* After hiw_recorder_end: the recording of a run that was too short for the history is written into this file (a name that
 * is free), the caller's to remove; the run itself says nothing of it. Returns 0, or -errno with text: -ENOENT where the run
 * is recorded elsewhere, none was wanted, or it has not ended. */
HIW_API int hiw_recorder_spare(struct hiw_recorder *recorder, const char *path, struct hiw_err *err);

/* True when every process asked for has ended (attach). */
HIW_API bool hiw_recorder_over(const struct hiw_recorder *recorder);

/* A warning that a person should see now (disk full, queue overflow, ...): its text, once; NULL if there is none. */
HIW_API const char *hiw_recorder_warning(struct hiw_recorder *recorder);

enum hiw_rule_kind {
	HIW_RULE_ALERT, /* "ram > 90% for 30s" */
	HIW_RULE_LIMIT, /* "ram = 24GiB" */
	HIW_RULE_CHECK, /* "ram.peak < 20GiB" */
	HIW_RULE_COMPARE, /* "ram.peak > +5%" */
	HIW_RULE_FILTER, /* "rss > 1GiB and name ~ ^py" */
};

/* Can the rule be read? Returns 0, or -EINVAL with a text of three lines: what is wrong, the rule, a caret below. */
HIW_API int hiw_rule_check(const char *rule, enum hiw_rule_kind kind, struct hiw_err *err);

/* How bad it is: the level of a rule, of a finding. */
enum hiw_level {
	HIW_INFO,
	HIW_WARN,
	HIW_ERROR,
};

/* What an alert asks its reader to do: limits do not send signals themselves. */
enum hiw_act {
	HIW_ACT_NONE,
	HIW_ACT_END,  /* hiw_recorder_signal(recorder, alert.pid, SIGTERM), hiw_recorder_stopped(recorder, alert.text) */
	HIW_ACT_KILL, /* the same with SIGKILL: it did not end in time */
};

/* Whose memory a rule looks at. */
enum hiw_alert_about {
	HIW_ABOUT_OTHER,
	HIW_ABOUT_RAM,        /* memory of the host */
	HIW_ABOUT_GPU_MEMORY,
};

/* A rule began to hold (raised) or ceased to (cleared). */
struct hiw_alert {
	size_t size;                 /* in: sizeof of the caller's struct */
	bool raised;
	enum hiw_level level;
	enum hiw_act act;
	pid_t pid;                   /* whom it is about, to whom act belongs; 0: the job */
	uint64_t time_ns;            /* since the run's start */
	double value;                /* what was seen: bytes, seconds, joules, watts, degrees, ratios; NaN too */
	const char *rule;            /* as it was given */
	const char *text;            /* the rule and what it saw, one line */
	enum hiw_alert_about about;        /* whose memory the rule looks at, if any */
};

/* Calls see with each alert from within hiw_recorder_step and hiw_recorder_end, in place of hiw_recorder_alert, which then
 * has none; NULL: no longer. The alert and its texts are borrowed until see returns. see may call hiw_recorder_signal,
 * _stopped, _mark and _trigger; what takes long in it holds up the measuring, not the job. examples/alerts.c is a whole
 * program. */
HIW_API void hiw_recorder_on_alert(struct hiw_recorder *recorder, void (*see)(void *ctx, const struct hiw_alert *alert), void *ctx);

/* The next alert, each once; false: there is none. To be asked after each step and after the end. */
HIW_API bool hiw_recorder_alert(struct hiw_recorder *recorder, struct hiw_alert *ret);
/* How many alerts were left out because there were too many at once. */
HIW_API uint64_t hiw_recorder_alerts_lost(const struct hiw_recorder *recorder);

/* Looks at another interval from now on, ns, from 1 ms to 1 h. For recorders that keep no recording (no_record), which has one
 * interval; windows are as long, a second at least. Returns 0, -EINVAL (out of range), -EBUSY (it records), -ESRCH (it has not
 * begun, or has ended). */
HIW_API int hiw_recorder_pace(struct hiw_recorder *recorder, uint64_t interval_ns);

/* Sends signal to a living member of the job, or with pid 0 to each, main first, and to who is born meanwhile. Nobody else is hit, also where numbers
 * were given out again. Returns how many got it, or -ESRCH. */
HIW_API int hiw_recorder_signal(struct hiw_recorder *recorder, pid_t pid, int signal);

/* Has a limit asked for somebody to be told to end who still lives, or for the whole job, whoever of it lives? Then whoever
 * enforces limits goes on with hiw_recorder_step while one does, also beyond main's end. Of the whole job it stays true, also
 * when nobody is left: go on until hiw_recorder_over or, with a child of one's own, until there is no child any more. */
HIW_API bool hiw_recorder_ending(const struct hiw_recorder *recorder);
/* The grace of all of them is over now: alerts with HIW_ACT_KILL follow. */
HIW_API void hiw_recorder_cut_grace(struct hiw_recorder *recorder);

/* The recording's file; "" if there is none, or none yet. */
HIW_API const char *hiw_recorder_path(const struct hiw_recorder *recorder);

/* The run is over: last looks, the recording is finished (waiting for the disk two seconds at most). The run stays
 * readable through hiw_recorder_run until _free. A failure to write is a warning, not an error. */
HIW_API int hiw_recorder_end(struct hiw_recorder *recorder, struct hiw_err *err);

/* The run so far. Borrowed; valid until _free. */
HIW_API struct hiw_run *hiw_recorder_run(struct hiw_recorder *recorder);

/* ---- frames: what is read, as it is read ------------------------------------------------------------------------- */

/* What a metric belongs to. */
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
	HIW_COUNTER, /* only grows, but for resets */
	HIW_MARK,    /* a high-water mark that the kernel keeps */
};

/* A metric (docs/metrics.md). */
struct hiw_metric {
	enum hiw_entity entity;
	enum hiw_unit unit;
	enum hiw_kind kind;
	const char *name, *sentence;
};

/* The row of metric number, NULL behind the last; static. Numbers are this library's own: name metrics outside it. */
HIW_API const struct hiw_metric *hiw_metric(unsigned number);
/* The number of entity's metric called name ("rss"); -1: there is none. */
HIW_API int hiw_metric_find(enum hiw_entity entity, const char *name);

/* One metric of one entity. Of a recording's window: mean over time, extremes; live min, value and max are mostly equal. */
struct hiw_reading {
	uint32_t id;                 /* host and job: 0 (host: 1 + core, live); else as the birth gave it; of a recording's
	                              * processes 0 is all the small ones together */
	unsigned metric;             /* its number */
	bool known;                  /* false: it could not be had, from here on */
	int64_t value, min, max;     /* in the metric's unit */
};

/* A process, a GPU or a process on a GPU is there. A second birth of a process tells its new name and command, one
 * of a GPU how much memory it has, where that was not known before. */
struct hiw_birth {
	enum hiw_entity entity;
	uint32_t id;                 /* from 1, never used again */
	const char *name;            /* of the program, of the device; any bytes; "" if it cannot be seen */
	struct hiw_maybe pid, uid;   /* processes, also those on a GPU; unknown: not to be seen here */
	/* process */
	struct hiw_maybe ppid;
	uint32_t parent;             /* id of its parent; 0: it is none of these processes */
	uint64_t start_ns;           /* since boot */
	const char *command;         /* its arguments, secrets masked; "" */
	bool is_main;
	/* GPU */
	const char *uuid, *vendor;
	const char *instance_of;     /* of a MIG instance: uuid of its GPU; else "" */
	struct hiw_maybe index, memory_bytes; /* of an instance: its number on its GPU */
	bool unified;                /* its memory is the host's */
	/* process on a GPU */
	uint32_t gpu, process;       /* ids; process 0: none of these */
};

/* A process, a GPU or a process on a GPU is there no longer. */
struct hiw_end {
	enum hiw_entity entity;
	uint32_t id;
};

/* Something that happened at an instant. */
struct hiw_event {
	uint64_t time_ns;            /* since the run's start */
	const char *kind;            /* "mark", "phase-begin", "phase-end", "alert", "cleared", "oom", "gap", "note", "trigger",
	                              * "exec"; static */
	enum hiw_entity entity;
	uint32_t id;                 /* what it is about */
	int64_t value_ns;            /* gap: how long */
	const char *text;            /* any bytes */
};

/* A value of a series that the job pushed. */
struct hiw_value {
	const char *name;
	double value;                /* NaN and infinities are allowed */
	bool has_step;
	int64_t step;
};

/* What was read at one time. Births come before everything else in it, ends behind. */
struct hiw_frame {
	uint64_t time_ns;            /* since the run's start; never goes back */
	uint64_t hold_ns;            /* a level read here may stand for so long; longer silence is a gap */
	bool live;                   /* else of a recording: readings are windows that begin at time_ns */
	size_t n_births, n_readings, n_ends, n_events, n_values;
	const struct hiw_birth *births;
	const struct hiw_reading *readings;
	const struct hiw_end *ends;
	const struct hiw_event *events;
	const struct hiw_value *values;
};

/* Is shown a frame, all of which is borrowed until it returns. */
typedef void hiw_seer(void *ctx, const struct hiw_frame *frame);

/* see is called with each frame from within _start, _step, _push, _mark, _end and _signal to the whole job, which looks for
 * who is new, but not from within see. To be asked for before _start; once. Returns 0 or -ENOMEM. */
HIW_API int hiw_recorder_watch(struct hiw_recorder *recorder, hiw_seer *see, void *ctx);

/* A rule that picks processes (HIW_RULE_FILTER). */
struct hiw_filter;
HIW_API int hiw_filter_new(const char *rule, struct hiw_filter **ret, struct hiw_err *err);
HIW_API void hiw_filter_free(struct hiw_filter *filter);

/* What a filter asks of a process. */
struct hiw_asked {
	const char *field;           /* "name", "command", "pid", "uid"; NULL: a metric */
	enum hiw_entity entity;      /* of the metric: HIW_PROCESS, or what the process is part of or on */
	struct hiw_maybe gpu_index;  /* the driver's number of a certain GPU */
	int metric, also;            /* numbers; also: is added to it, -1: nothing */
	bool rate;                   /* the counter's rise a second is meant */
	bool peak;                   /* the largest so far is meant */
};
/* What it is told: known false, a text of name and command, a value (in the metric's unit) of everything else. whole is
 * what a percentage would be of: the memory of the machine or the GPU, the number of processors times 1e9; 0: unknown. */
struct hiw_answer {
	bool known;
	double value, whole;
	const char *text;
};
/* Does it pick the process of which look tells? *ret is all zero when look is called. */
HIW_API bool hiw_filter_picks(const struct hiw_filter *filter,
	void (*look)(void *ctx, const struct hiw_asked *asked, struct hiw_answer *ret), void *ctx);

/* ---- runs ------------------------------------------------------------------------------------------------------- */

/* What came of measuring a job: the live run of a recorder, or one read back from a file. */
struct hiw_run;

/* Finds a RUN: a number of the history, "last", a name ("name:3" where it would be read as something else), a path,
 * "slurm:JOB". *ret_path is the caller's to free(). */
HIW_API int hiw_find(const char *run, char **ret_path, struct hiw_err *err);

/* Opens a recording: finished, growing, or cut off. */
HIW_API int hiw_run_open(const char *path, struct hiw_run **ret, struct hiw_err *err);
HIW_API void hiw_run_close(struct hiw_run *run);

/* What a run is about. Texts are "" where they are not known. */
struct hiw_about {
	size_t size;                 /* in: sizeof of the caller's struct */
	const char *command, *name, *host, *user;
	const char *gpu_why;         /* why no GPU could be read */
	struct hiw_maybe main_pid, started_wall_ns, ended_ns, cpus, cpu_limit_ppm, capacity_bytes, limit_bytes, interval_ns,
		window_ns;
	uint64_t last_ns;            /* how far it goes, since the run's start */
	bool growing;                /* of a file: its recorder lives */
};
/* Returns 0. Of a file: as it was when it was opened, but for growing. */
HIW_API int hiw_run_about(struct hiw_run *run, struct hiw_about *ret);

/* Shows a recording's frames in the order of time, bit by bit. The run was opened from a file and is borrowed; nothing else
 * may be asked of it at the same time. Between calls the file is left alone, so it may grow, and be thinned, meanwhile. */
struct hiw_player;
HIW_API int hiw_player_new(struct hiw_run *run, hiw_seer *see, void *ctx, struct hiw_player **ret, struct hiw_err *err);
HIW_API void hiw_player_free(struct hiw_player *player);
/* What was not shown yet, up to until_ns (UINT64_MAX: all that was written by now). Returns 0 or -errno with text. */
HIW_API int hiw_player_to(struct hiw_player *player, uint64_t until_ns, struct hiw_err *err);
/* Goes on from from_ns, forwards or back: whoever lives then is born anew, processes with what they held last. Returns
 * likewise. */
HIW_API int hiw_player_seek(struct hiw_player *player, uint64_t from_ns, struct hiw_err *err);

/* Writes one file without a journal beside it. */
HIW_API int hiw_run_copy(struct hiw_run *run, const char *path, struct hiw_err *err);

enum hiw_method {
	HIW_UNKNOWN, /* not had; a note says why */
	HIW_EXACT,   /* the kernel's own mark or count */
	HIW_BOUNDED, /* between low and high */
	HIW_SAMPLED, /* at the sampling rate: the true value is at least this */
};

/* An amount of RAM. low <= peak <= high, in bytes. */
struct hiw_ram {
	struct hiw_maybe peak, low, high, mean, private_bytes, shared_bytes;
	struct hiw_maybe at_ns;      /* when the peak was, since the run's start */
	enum hiw_method method;
	const char *source;          /* "VmHWM", "ru_maxrss", ...; static */
};

/* The main figures of a run; the JSON text has all of them. */
struct hiw_figures {
	size_t size;                 /* in: sizeof of the caller's struct */
	bool complete, oom_killed, cpu_exact;
	struct hiw_maybe exit_status;/* of main, as waitpid gives it */
	struct hiw_maybe wall_ns, user_ns, system_ns;
	struct hiw_ram main, descendants, combined;
	struct hiw_maybe swap_peak, read_bytes, write_bytes, cpu_energy_uj;
	struct hiw_maybe processes_seen, peak_alive, processes_left;
};
HIW_API int hiw_run_figures(struct hiw_run *run, struct hiw_figures *ret);

enum hiw_format {
	HIW_TEXT,     /* the full summary */
	HIW_LINE,     /* one line of key=value */
	HIW_JSON,     /* docs/summary.schema.json */
	HIW_PROGRESS, /* one line about the present */
	HIW_JSON_LINE, /* HIW_JSON in one line */
};

/* What a rule says of a run. */
enum hiw_verdict {
	HIW_PASS,
	HIW_FAIL,
	HIW_INCOMPLETE,              /* it depends on what is not known of the run */
};

/* What a rule says of a run, and why. */
struct hiw_checked {
	enum hiw_verdict verdict;
	const char *rule;
	const char *text;            /* what was seen, for people */
	double value;                /* likewise, in base units; NaN: nothing, or no number */
	struct hiw_maybe at_ns;      /* when it first held, of a rule about what was there at a time */
};

/* Judges n rules (HIW_RULE_CHECK) by a run that was opened from a file; see is called for each, in their order. Names with
 * .peak, .mean or .last are figures of the summary; else it counts whether the rule ever held. Returns 0; -EINVAL with
 * text for a rule that cannot be read, then see is called for none; or -errno. */
HIW_API int hiw_run_check(struct hiw_run *run, const char *const *rules, size_t n,
	void (*see)(void *ctx, const struct hiw_checked *checked), void *ctx, struct hiw_err *err);

/* A recording in another program's format; docs/export.md says what each holds. */
struct hiw_export {
	size_t size;                 /* of this struct */
	const char *to;              /* "csv", "json", "openmetrics", "perfetto", "svg" */
	const char *entity;          /* "host", "job", "process", "gpu", "gpu_process", "series", "events"; NULL: csv: the
	                              * job; json: all; openmetrics: all but processes; svg: job, gpu and series */
	bool recent;                 /* the last minutes at full rate in place of their windows */
	bool redact;                 /* without user, host, commands and names of processes */
	/* Takes the bytes as they come. Returns 0 or a negative errno, which ends it. */
	int (*write)(void *ctx, const void *data, size_t len);
	void *ctx;
	const char *const *series;   /* of svg: n_series names of what the job logged; 0: the first few */
	size_t n_series;
	unsigned width, height;      /* of svg, in pixels: of the picture, of each chart in it; 0: as usual */
};

/* Exports a run that was opened from a file, finished or not, in memory that does not grow with its length. Returns 0;
 * -EINVAL with text for what the format does not have; what write returned; or -errno with text. */
HIW_API int hiw_run_export(struct hiw_run *run, const struct hiw_export *what, struct hiw_err *err);

/* One self-contained page of HTML about one run, or several beside each other. */
struct hiw_report {
	size_t size;                 /* of this struct */
	bool redact;                 /* without user, host, commands and names of processes */
	/* Takes the bytes as they come. Returns 0 or a negative errno, which ends it. */
	int (*write)(void *ctx, const void *data, size_t len);
	void *ctx;
};

/* Bounds of hiw_report. */
enum {
	HIW_REPORT_RUNS = 16         /* on a page at most */
};

/* Was the page's program there when this was built? Without it there are no reports. */
HIW_API bool hiw_has_report(void);

/* Writes the page of runs that were opened from files, finished or not, the first at the top. Memory and size of the page do
 * not grow with their length. Returns 0; -ENOTSUP with text: !hiw_has_report(); -EINVAL with text: too many runs, or a
 * recorder's; what write returned; or -errno with text. */
HIW_API int hiw_report(struct hiw_run *const *runs, size_t n, const struct hiw_report *what, struct hiw_err *err);

/* How amounts of memory are written: 1 KiB, 1 kB, plain bytes. */
enum hiw_units {
	HIW_IEC,
	HIW_SI,
	HIW_BYTES
};

/* How text is to look. size is that of this struct; color and plain are for terminals and for screen readers, utf8 allows
 * signs beyond ASCII. */
struct hiw_style {
	size_t size;
	enum hiw_units units;
	unsigned width;              /* columns; 0: 80 */
	bool color, utf8, plain;
	bool why;                    /* every finding, fired or not */
};

/* The summary as text. style NULL: plain ASCII, 80 columns. *ret is the caller's to free(). -EINVAL: no such format. */
HIW_API int hiw_run_text(struct hiw_run *run, enum hiw_format format, const struct hiw_style *style, char **ret, size_t *ret_len, struct hiw_err *err);

/* One sentence of the summary that a parallel job's rank above 0 prints; "" for others. */
HIW_API bool hiw_run_is_leader(struct hiw_run *run);

/* What hiw_compare writes. */
enum hiw_compare_format {
	HIW_COMPARE_TEXT,
	HIW_COMPARE_MARKDOWN,
	HIW_COMPARE_JSON,
};

/* What is to be compared. */
struct hiw_compare {
	const char *const *runs;     /* each a RUN, or a name: then all finished runs of it. Runs of one name are a group, the
	                              * first is the base */
	size_t n_runs;
	const char *const *rules;    /* what must not be, of the groups' means: "ram.peak > +5%" */
	size_t n_rules;
	enum hiw_compare_format format;
	const struct hiw_style *style; /* units, utf8, width; NULL: plain ASCII, 80 columns */
	const char *by;              /* "model,data": what the parts of the groups' names are, eight at most. Then, and of more than
	                              * two groups, the table has a row a group, and no test; NULL: names are one thing */
};

/* Runs beside each other, as text. *ret is the caller's to free(). *ret_verdict: HIW_PASS without rules. -EINVAL with text:
 * a rule that cannot be read, or nothing to compare; -ENOENT with text: no such run; or -errno. */
HIW_API int hiw_compare(const struct hiw_compare *what, char **ret, size_t *ret_len, enum hiw_verdict *ret_verdict, struct hiw_err *err);

/* ---- the history ------------------------------------------------------------------------------------------------ */

/* One kept run. */
struct hiw_entry {
	uint64_t number;
	const char *path, *name, *command;
	uint64_t started_wall_ns;    /* since 1970 */
	int64_t wall_ns;
	struct hiw_maybe exit_status;
	bool complete, running, pinned;
	struct hiw_maybe peak_bytes; /* combined RAM */
	uint64_t file_bytes;
};
/* Calls see for each kept run, oldest first; see returns false to stop. */
HIW_API int hiw_history(bool (*see)(void *ctx, const struct hiw_entry *entry), void *ctx, struct hiw_err *err);
/* Removes a run; a running one is refused. */
HIW_API int hiw_history_remove(const char *run, struct hiw_err *err);

/* ---- from inside a job ------------------------------------------------------------------------------------------- */

/* A mark in the enclosing run ($HIWATER_SOCKET). Returns 0, -ENOENT (no run encloses this process), -EPERM (another
 * user's does), -EMSGSIZE (text is longer than 4096 bytes), or -errno. */
HIW_API int hiw_mark(const char *text, struct hiw_err *err);

/* ---- what a program tells of itself ------------------------------------------------------------------------------- */

/* A bounded list of what a program pushes, reading by reading: its framework's allocator, a loss, a step. The list makes
 * events of what changes, of new peaks, and of rules that hold; the program adds its own. An event takes 88 bytes in it, a
 * push well under a microsecond. Unlike other handles, a list may be used by several threads at once. */
struct hiw_pushes;

/* Bounds of a list: how many series, ratios and rules it has at most. */
enum {
	HIW_PUSH_SERIES = 7,         /* series of a list, at most */
	HIW_PUSH_RATIOS = 4,
	HIW_PUSH_RULES = 16,
};

enum hiw_push_kind {
	HIW_PUSH_SAMPLE,             /* a push */
	HIW_PUSH_ALLOCATION,         /* the first series rose since the push before */
	HIW_PUSH_DEALLOCATION,       /* it fell */
	HIW_PUSH_PEAK,               /* it was never higher; values[0] is the peak, which may have been between two pushes */
	HIW_PUSH_ALERT,              /* a rule holds */
	HIW_PUSH_CLEARED,            /* it ceased to */
	HIW_PUSH_OWN = 8,            /* from here on to 31: the program's own */
};

/* The quotient of two series, for rules. */
struct hiw_push_ratio {
	const char *name;
	unsigned of, by;             /* numbers of series: of / by */
};

/* What a list keeps, and of what it makes events. */
struct hiw_pushes_options {
	size_t size;                 /* of this struct */
	size_t max_events;           /* 1 to 2^24; the oldest are dropped */
	const char *const *series;   /* names, which rules use; allocation, deallocation and peak are about the first one */
	size_t n_series;
	const struct hiw_push_ratio *ratios;
	size_t n_ratios;
	bool changes;                /* make events of allocation, deallocation, peak */
	bool samples;                /* make one of each push */
	bool every;                  /* an alert at each push while its rule holds; false: once, and when it ceases to */
};

/* *ret is the caller's. -EINVAL with text, or -ENOMEM. */
HIW_API int hiw_pushes_new(const struct hiw_pushes_options *options, struct hiw_pushes **ret, struct hiw_err *err);
HIW_API void hiw_pushes_free(struct hiw_pushes *pushes);

/* From now on these rules (HIW_RULE_ALERT) instead of those before. They name series, ratios, and "change": by how much the
 * first series rose since the push before. -EINVAL with text; then those before stay. */
HIW_API int hiw_pushes_rules(struct hiw_pushes *pushes, const char *const *rules, size_t n, struct hiw_err *err);

/* Statistics count the time from begin to end. Changes, and what mark says, are measured from this reading, which makes no
 * event; values NULL: from the next push. */
HIW_API void hiw_pushes_begin(struct hiw_pushes *pushes, const double *values, double mark);
HIW_API void hiw_pushes_end(struct hiw_pushes *pushes);

/* What a push made: the events with the numbers [first, end), and bit n of rules if rule n has an alert among them. */
struct hiw_pushed {
	uint64_t first, end;
	uint32_t rules;
};

/* A reading of now: one value a series (NaN: unknown). mark: the largest that the first series ever was, by the mark of
 * whoever keeps one (NaN: unknown); where it rose since the push before, that counts as a peak. ret may be NULL. */
HIW_API void hiw_pushes_push(struct hiw_pushes *pushes, const double *values, double mark, struct hiw_pushed *ret);

/* An event of the program's own: kind HIW_PUSH_OWN to 31 (else -EINVAL), a number and a text (NULL: none; 16 KiB at most,
 * the rest is cut) that come back with it, and a reading of now; values NULL: that of the last push. */
HIW_API int hiw_pushes_note(struct hiw_pushes *pushes, unsigned kind, uint32_t tag, const char *text, const double *values);

/* An event of a list. */
struct hiw_push_event {
	uint64_t time_ns;            /* since 1970 */
	unsigned kind;               /* enum hiw_push_kind */
	unsigned rule;               /* of an alert: its number */
	enum hiw_level level;        /* likewise */
	uint32_t tag;
	double change;               /* of the first series since the push before; NaN: unknown */
	double values[HIW_PUSH_SERIES]; /* NaN: unknown */
	const char *text;            /* of a note, of alerts unless options.every; "" without one */
};

/* Which events are wanted. */
struct hiw_push_filter {
	uint32_t kinds;              /* bit n: kind n; 0: all */
	uint64_t since_ns;           /* not before this time */
	uint64_t from;               /* not before the event of this number */
	size_t last;                 /* of those the last so many; 0: all */
};

/* Events in their order, as they were at one instant. free(*ret), which holds their texts, too. filter NULL: all.
 * 0 or -ENOMEM. */
HIW_API int hiw_pushes_read(struct hiw_pushes *pushes, const struct hiw_push_filter *filter, struct hiw_push_event **ret, size_t *ret_n);
/* One event for each interval (not 0) in which there was one: the last, at the time at which the interval began. Likewise. */
HIW_API int hiw_pushes_timeline(struct hiw_pushes *pushes, uint64_t interval_ns, struct hiw_push_event **ret, size_t *ret_n);

/* Statistics of a list. */
struct hiw_push_stats {
	size_t size;                 /* in: sizeof of the caller's struct */
	uint64_t events, kept;       /* ever, and still there */
	uint64_t counts[32];         /* ever, by kind */
	double risen, fallen;        /* sums of the first series' changes */
	double peaks[HIW_PUSH_SERIES]; /* NaN: unknown */
	uint64_t active_ns;          /* between begin and end */
	double rises_per_s, risen_per_s; /* allocations and their bytes by that time; NaN: none has passed */
};
/* Fills in the statistics up to now. */
HIW_API void hiw_pushes_stats(struct hiw_pushes *pushes, struct hiw_push_stats *ret);
/* Forgets events and statistics, not the time. */
HIW_API void hiw_pushes_clear(struct hiw_pushes *pushes);

/* ---- this machine ------------------------------------------------------------------------------------------------ */

/* What can be measured: one call a metric. */
struct hiw_check {
	const char *entity, *metric; /* "process", "rss" */
	const char *sentence, *origin;
	bool available;
	const char *how, *why_not, *remedy; /* "" where there is nothing to say */
};
/* How often a run at the usual interval would read what of GPUs: one call a group of readings of a driver that answers here. */
struct hiw_gpu_rate {
	const char *source, *group, *holds; /* "NVML", "memory", "device memory in use" */
	uint64_t planned_ns;         /* the period as planned */
	uint64_t moving_ns;          /* while device memory moves; 0: the same */
	uint64_t lasting_ns;         /* what is kept up where a reading takes what it took here: planned_ns or longer */
	const char *why;             /* it is longer; "" */
	uint64_t cpu_ns, wall_ns;    /* one reading, when it was tried; on all GPUs */
	bool tried;                  /* false: it was not, and those two are 0 */
	double share_most;           /* of a core, that all readings together may take */
	uint64_t resting_ns;         /* while device memory does not move, for lists that are dear here; 0: lasting_ns */
};
/* root: a folder of captured files, or NULL for this machine. see_reading may be NULL. */
HIW_API int hiw_doctor(const char *root, void (*see)(void *ctx, const struct hiw_check *check),
	void (*see_reading)(void *ctx, const struct hiw_gpu_rate *reading), void *ctx, struct hiw_err *err);

/* Facts of the machine for people, "key: value" lines. *ret is the caller's to free(). */
HIW_API int hiw_doctor_machine(const char *root, char **ret, struct hiw_err *err);

/* ---- the GPUs of this machine ------------------------------------------------------------------------------------ */

enum hiw_gpus_format {
	HIW_GPUS_TEXT,          /* a line a GPU, then who is on it */
	HIW_GPUS_JSON,          /* docs/gpus.schema.json */
	HIW_GPUS_CSV,           /* a row a GPU, base units */
	HIW_GPUS_CSV_PROCESSES, /* a row a process and GPU */
	HIW_GPUS_LINE,          /* hiw_gpus_options.fields is a format: "{gpu}: {busy}%" (hiwater-gpus(1)) */
	HIW_GPUS_LIST,          /* name and uuid, as nvidia-smi -L has them */
	HIW_GPUS_QUERY,         /* fields are those of nvidia-smi's --query-gpu, with commas between */
	HIW_GPUS_QUERY_APPS,    /* fields are those of its --query-compute-apps */
};

/* Fill with HIW_GPUS_OPTIONS_INIT, then set what differs. All strings are copied. Only what the format needs is read. */
struct hiw_gpus_options {
	size_t size;                 /* of this struct, for later versions */
	enum hiw_gpus_format format;
	const char *fields;          /* of the formats that have some */
	const char *ids;             /* "0,GPU-8a56...,0000:3b:00.0": these alone; NULL: all */
	const char *root;            /* a folder of captured files; NULL: this machine */
	uint64_t patience_ns;        /* how long a driver may take to answer */
	bool spec;                   /* of text and JSON: what the GPUs are made of */
	bool no_header, no_units;    /* of text, CSV and queries */
};

#define HIW_GPUS_OPTIONS_INIT { .size = sizeof(struct hiw_gpus_options), .patience_ns = 30000000000 }

/* The GPUs of a machine at one time, whoever made them. Processes of its own ask the drivers: one that hangs takes patience_ns
 * and nothing else. GPUs that sleep are not woken. */
struct hiw_gpus;

/* Checks the options and starts to ask. Returns 0; -EINVAL with text: fields or a format that cannot be read; or -errno. */
HIW_API int hiw_gpus_open(const struct hiw_gpus_options *options, struct hiw_gpus **ret, struct hiw_err *err);
/* Ends the processes that ask; NULL is fine. */
HIW_API void hiw_gpus_close(struct hiw_gpus *gpus);

/* Takes a look, each time a new one: waits for the drivers, patience_ns at most. Returns 0, or with text: -ENODEV: the machine
 * shows no GPU, or none of those asked for; -ENXIO: it shows one, and no driver can be asked; -ETIMEDOUT, -EIO: a driver did not answer
 * in time, or crashed; -EREMOTEIO: a GPU is lost. After the last three what was answered is there. */
HIW_API int hiw_gpus_look(struct hiw_gpus *gpus, struct hiw_err *err);
/* Why rows are missing from a format that has no place for notes (any but text and JSON). A reason that lasts is told once, after
 * the look that it came up in and after no later one; one of a single look, such as a driver that did not answer in time, after
 * each look that has it. What a look gave as its error is not told. Returns false when there is no further one. */
HIW_API bool hiw_gpus_warning(struct hiw_gpus *gpus, struct hiw_err *ret);

/* A GPU, or a MIG instance, which is a device of its own. */
struct hiw_gpu_device {
	size_t size;                 /* in: sizeof of the caller's struct */
	const char *uuid, *name, *vendor, *pci, *driver; /* "" where not known */
	const char *parent;          /* of an instance: uuid of its GPU; else "" */
	struct hiw_maybe number;     /* by which people call it: the driver's index where it has one */
	struct hiw_maybe index;      /* the driver's; of an instance the one in its GPU */
	struct hiw_maybe cuda_index; /* CUDA's, where the environment selects nothing, in PCI order */
	struct hiw_maybe cuda_visible; /* CUDA's in this process's environment; unknown: hidden, or nobody knows */
	bool cuda_hidden;
	bool lost;                   /* it does not answer any more */
	bool unified;                /* its memory is the host's */
	struct hiw_maybe memory_total, memory_used, memory_free, memory_reserved, memory_unattributed;
	struct hiw_maybe busy_ppm;   /* time in which some kernel ran */
	struct hiw_maybe sm_active_ppm, sm_occupancy_ppm; /* where the driver tells them */
	struct hiw_maybe power_uw, power_limit_uw, temperature_mc, clock_sm_hz, processes;
};
/* A process on a device. */
struct hiw_gpu_user {
	size_t size;                 /* in: sizeof of the caller's struct */
	size_t device;               /* number in hiw_gpus_device */
	struct hiw_maybe pid, uid;   /* uid unknown: the process cannot be seen here */
	const char *user, *name, *command; /* "" where not known; secrets in it are masked */
	bool compute, graphics;
	struct hiw_maybe memory, sm_busy_ppm;
};
/* The i-th device, or process, of the last look; false: there is no such. */
HIW_API bool hiw_gpus_device(const struct hiw_gpus *gpus, size_t i, struct hiw_gpu_device *ret);
HIW_API bool hiw_gpus_user(const struct hiw_gpus *gpus, size_t i, struct hiw_gpu_user *ret);

/* The last look in the format of the options. style NULL: plain ASCII, 80 columns. *ret is the caller's to free(). Returns
 * 0 or -errno. */
HIW_API int hiw_gpus_text(struct hiw_gpus *gpus, const struct hiw_style *style, char **ret, size_t *ret_len);

/* The fields of a format that has some, for people. *ret is the caller's to free(). */
HIW_API int hiw_gpus_fields(enum hiw_gpus_format format, char **ret);

/* ---- what the command needs -------------------------------------------------------------------------------------- */

/* Processes to attach to: by extended regular expression on name and command line, or those of a cgroup ("/a/b"
 * below the hierarchy, or a path of the mounted tree). At most n pids are stored; *ret_n is how many there are. This
 * process and its parents are never among them. -ENOENT if there are none, -EINVAL for a bad expression. */
HIW_API int hiw_pids_by_name(const char *regex, pid_t *pids, size_t n, size_t *ret_n, struct hiw_err *err);
HIW_API int hiw_pids_by_cgroup(const char *path, pid_t *pids, size_t n, size_t *ret_n, struct hiw_err *err);

/* Makes a cgroup for a job about to start. ret_path is its name for hiw_options.cgroup_made. The child writes "0" to
 * *ret_procs before exec. *ret_dir is the group's folder: what is open tells other runs that it is in use, where they
 * remove what killed ones have left. The caller closes them. */
HIW_API int hiw_cgroup_make(char *ret_path, size_t size, int *ret_procs, int *ret_dir, struct hiw_err *err);
/* Removes it. Returns 0, -EBUSY while processes are in it (and for a moment after the last has ended), -EINVAL for a group
 * that was not made by this function's twin, or another -errno. */
HIW_API int hiw_cgroup_remove(const char *path);

/* Signals that wait for a process (ShdPnd and SigPnd of its status), as a mask with bit n - 1 for signal n. */
HIW_API int hiw_pending_signals(pid_t pid, uint64_t *ret_mask);
/* The largest resident size that this process had (VmHWM), in bytes; 0: unknown. What it starts by vfork, as posix_spawn does,
 * has that in its ru_maxrss. */
HIW_API int64_t hiw_own_rss(void);
/* pattern with each %r replaced by this process's rank ("0" without one). *ret is the caller's to free(). */
HIW_API int hiw_expand(const char *pattern, char **ret);

#ifdef __cplusplus
}
#endif

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
	int64_t fork_rss_bytes;      /* VmHWM of this process before it forked the job: a floor of the job's ru_maxrss;
	                              * 0: unknown, or hiw_recorder_forking reads it */
	const char *cgroup_path;     /* attached to all of this cgroup; NULL: use that of the first process */
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

/* Calls see with each alert from within hiw_recorder_step and hiw_recorder_end; NULL: no longer. The alert and its texts are borrowed until see returns. see may call hiw_recorder_signal,
 * _stopped, _mark and _trigger; what takes long in it holds up the measuring, not the job. examples/alerts.c is a whole
 * program. */
HIW_API void hiw_recorder_on_alert(struct hiw_recorder *recorder, void (*see)(void *ctx, const struct hiw_alert *alert), void *ctx);

/* Sends signal to a living member of the job, or with pid 0 to each, main first, and to who is born meanwhile. Nobody else is hit, also where numbers
 * were given out again. Returns how many got it, or -ESRCH. */
HIW_API int hiw_recorder_signal(struct hiw_recorder *recorder, pid_t pid, int signal);

/* Has a limit asked for somebody to be told to end who still lives, or for the whole job, whoever of it lives? Then whoever
 * enforces limits goes on with hiw_recorder_step while one does, also beyond main's end. Of the whole job it stays true, also
 * when nobody is left: go on until hiw_recorder_over or, with a child of one's own, until there is no child any more. */
HIW_API bool hiw_recorder_ending(const struct hiw_recorder *recorder);

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

/* Writes the page of runs that were opened from files, finished or not, the first at the top. Memory and size of the page do
 * not grow with their length. Returns 0; -ENOTSUP with text: this library was built without the page's program; -EINVAL with text: too many runs, or a
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

/* ---- from inside a job ------------------------------------------------------------------------------------------- */

/* A mark in the enclosing run ($HIWATER_SOCKET). Returns 0, -ENOENT (no run encloses this process), -EPERM (another
 * user's does), -EMSGSIZE (text is longer than 4096 bytes), or -errno. */
HIW_API int hiw_mark(const char *text, struct hiw_err *err);

#ifdef __cplusplus
}
#endif

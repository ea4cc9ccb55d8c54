/* SPDX-License-Identifier: MIT
 *
 * The internal interface for hiwater's command, hiwater-top, hiwater-serve and the Python package, in addition to
 * the public hiwater.h: the same handles, and the same rules for errors, ownership, threads,
 * environment and units. It is not installed, and the shared library does not export it, so it may
 * change at any time.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- recorders ------------------------------------------------------------------------------- */

/* Does the caller have a child other than the helper (hiw_recorder_helper)? If the kernel does not
 * report that, or the caller had children before the job: was a process of the job running at the
 * last sample? */
bool hwi_recorder_has_children(const struct hiw_recorder *recorder);

/* What a recorder measures of a job of several ranks (docs/jobs.md). */
enum hwi_part {
	HWI_PART_NONE, /* a job of its own */
	HWI_PART_RANK, /* one rank */
	HWI_PART_LINE, /* one rank, of which no recording is kept but a line of NODE.ranks, added at its end */
	HWI_PART_NODE, /* all ranks of this node */
};

/* This process as one of several ranks, from its environment. Texts are borrowed from the struct. */
struct hwi_rank {
	bool is_many;                /* there is more than one rank; false: nothing else is set */
	bool is_launcher;            /* the command starts ranks of its own: the numbers are those of launchers */
	bool shares_node;            /* there are, or may be, further ranks on this node */
	struct hiw_maybe rank, ranks;
	char key[256];               /* "slurm-4711.0": of this start of ranks, the same for all; a file's name */
	char node[256];              /* this node, as part of a file's name */
	char run[128];               /* the whole job as a RUN: "slurm:4711.0"; "": it has no such name */
};
void hwi_rank_read(const char *const *argv, struct hwi_rank *ret);

/* As hiw_recorder_new, for a part of a job: its recording has that fact, and its place among those of the
 * other parts; a name that is taken is no error. */
int hwi_recorder_new_part(const struct hiw_options *options, enum hwi_part part, struct hiw_recorder **ret,
	struct hiw_err *err);

/* What run --where samples: page faults, by another program. */
struct hwi_sampling {
	const char *program;       /* path of hiwater-where */
	unsigned period;           /* faults a sample; 0: the job is not sampled */
	unsigned stack_bytes;
	bool attaches;             /* to a process that runs */
	bool removes_maps;         /* the perf maps of the job's processes, which they write for hiwater */
};

/* What run --trace follows. */
struct hwi_tracing {
	unsigned layers;           /* from hwi_trace_layers; 0: nothing */
	uint64_t limit_bytes;      /* of rows in the recording; 0: 256 MB */
	/* Extended regular expressions of names of ranges of the main process: which are phases of the run, and which
	 * are steps. NULL: none; "^(ProfilerStep#|step|iteration)". */
	const char *phase_range, *step;
	/* When kernels and copies are kept, NULL-terminated: "60s+5s", "steps=10-20", "range=RE", "api", "alert",
	 * "last=60s". NULL: always. */
	const char *const *windows;
	struct hwi_sampling sampling;
};

/* Parses a list, "ranges,kernels"; "" and NULL: all that can be traced. Returns 0, or -EINVAL with text. */
int hwi_trace_layers(const char *list, unsigned *ret, struct hiw_err *err);

/* The interfaces through which a program loads the library that writes events. */
enum hwi_trace_hook {
	HWI_TRACE_NVTX,
	HWI_TRACE_ITT,
	HWI_TRACE_CUDA,
	HWI_TRACE_OPENCL,
};
/* Do these layers need it? */
bool hwi_trace_needs(unsigned layers, enum hwi_trace_hook hook);

/* As hwi_recorder_new_part, for a job that is traced too. trace NULL: it is not. */
int hwi_recorder_new_traced(const struct hiw_options *options, enum hwi_part part,
	const struct hwi_tracing *trace, struct hiw_recorder **ret, struct hiw_err *err);
/* What the job needs: a descriptor to inherit, of the same number (-1: the job is not traced), and the value of
 * HIWATER_TRACE. */
int hwi_recorder_trace_fd(const struct hiw_recorder *recorder);
const char *hwi_recorder_trace_environment(const struct hiw_recorder *recorder);
/* A further window while the job runs, as in struct hwi_tracing; it takes the place of the whole run. Returns 0,
 * -EINVAL with text, or -ENOENT with text: the job is not traced. */
int hwi_recorder_trace_window(struct hiw_recorder *recorder, const char *window, struct hiw_err *err);

/* Of a recorder whose job is to be sampled: starts that for a process that has not executed its program yet. *ret_pid is the
 * sampler's, a child of this process; 0: none. Returns 0, or -errno with text: the job is not sampled. */
int hwi_recorder_where(struct hiw_recorder *recorder, pid_t pid, pid_t *ret_pid, struct hiw_err *err);

/* The GPUs, which this recorder does not read, are in the recording of its node. */
void hwi_recorder_gpus_by_node(struct hiw_recorder *recorder);

/* Of a node's recorder: it measures a further rank, which this process is of. The CPUs that it may use, and the GPUs that it was given, are the node's. */
void hwi_recorder_add_rank(struct hiw_recorder *recorder, pid_t pid);

/* Reads main's memory and its high-water mark now; call it before resetting the mark. Returns 0, or
 * -ESRCH if it cannot be read. */
int hwi_recorder_read_hwm(struct hiw_recorder *recorder);

/* An exception of this type left the measured block; at most 200 bytes of it are kept. Call it before
 * hiw_recorder_end. */
void hwi_recorder_raised(struct hiw_recorder *recorder, const char *type);

/* After hiw_recorder_end: writes the recording of a run that was too short for the history to path,
 * which must not exist. The file is the caller's to remove; the run does not refer to it. Returns
 * 0, or -errno with text: -ENOENT if the run is recorded elsewhere, has no_record set, or has not
 * ended. */
int hwi_recorder_spare(struct hiw_recorder *recorder, const char *path, struct hiw_err *err);

/* Before the job is started: how many more processes and threads the limit of a container or another
 * cgroup allows; INT64_MAX: no limit is known. */
int64_t hwi_recorder_processes_left(const struct hiw_recorder *recorder);

/* After hiw_recorder_end: keeps the run in the history although it was short. True if there is a
 * recording of it now. */
bool hwi_recorder_keep(struct hiw_recorder *recorder);

/* The next alert, each once; false: none. Call it after each step and after the end. Always false
 * if hiw_recorder_on_alert is used. Up to 64 alerts are queued; beyond that, alerts with
 * HIW_ACT_NONE are dropped. */
bool hwi_recorder_alert(struct hiw_recorder *recorder, struct hiw_alert *ret);

/* The calling process was stopped and got SIGCONT: call it before the next step, so that the gap has
 * this cause. */
void hwi_recorder_continued(struct hiw_recorder *recorder);

/* Ends the grace of all limits now: alerts with HIW_ACT_KILL follow. */
void hwi_recorder_cut_grace(struct hiw_recorder *recorder);

/* Changes the sampling interval, 1 ms to 1 h. Only with no_record, because a recording has one
 * interval. Windows become as long, but at least a second. Returns 0, -EINVAL (out of range),
 * -EBUSY (it records), or -ESRCH (not started, or ended). */
int hwi_recorder_set_interval(struct hiw_recorder *recorder, uint64_t interval_ns);

/* ---- filters --------------------------------------------------------------------------------- */

/* A rule that selects processes (HIW_RULE_FILTER). */
struct hwi_filter;
int hwi_filter_new(const char *rule, struct hwi_filter **ret, struct hiw_err *err);
void hwi_filter_free(struct hwi_filter *filter);

/* A value of a process that a filter needs. */
struct hwi_query {
	const char *field;           /* "name", "command", "pid", "uid"; NULL: a metric */
	enum hiw_entity entity;      /* of the metric: HIW_PROCESS, or an entity that the process belongs
	                              * to */
	struct hiw_maybe gpu_index;  /* the driver's index of a GPU; unknown: any GPU */
	int metric, also;            /* numbers of the metric and of one that is added to it; also -1: none */
	bool rate;                   /* of a counter: its increase per second */
	bool peak;                   /* the maximum so far */
};
/* The answer: text for name and command, else value (in the metric's unit). whole is the base of a
 * percentage: the memory of the machine or the GPU, the number of CPUs times 1e9; 0: unknown. */
struct hwi_answer {
	bool known;
	double value, whole;
	const char *text;
};
/* Does the filter match the process whose values look returns? *ret is all zero when look is
 * called. */
bool hwi_filter_picks(const struct hwi_filter *filter,
	void (*look)(void *ctx, const struct hwi_query *asked, struct hwi_answer *ret), void *ctx);

/* ---- runs and the history -------------------------------------------------------------------- */

/* Merges the recordings at paths, files or folders with those of one job's ranks, into the new file output. Returns 0 or -errno with text. */
int hwi_merge(const char *const *paths, size_t n, const char *output, struct hiw_err *err);

/* The traces of other tools: torch.profiler, Nsight Systems (SQLite), other Chrome traces. */
struct hwi_import_options {
	const char *into;   /* a RUN that they become part of; NULL: a new recording */
	const char *output; /* its file, absolute or not, which must not exist; NULL: in the history */
	const char *name;   /* of a new run; may be NULL */
	int64_t rank;       /* of the processes; -1: as in the files */
	/* Where the first event is: at a time of the wall clock (since 1970), so long after the run's start. */
	bool has_at, has_offset;
	int64_t at_wall_ns, offset_ns;
	/* A line for the user: what is missing, what was imported. NULL: none */
	void (*say)(void *ctx, const char *text);
	void *ctx;
};

/* Imports all files or none. Returns 0; -EEXIST (one is in that run already), -ERANGE (they have no time in
 * common with it), -EINVAL (their place is not known), -EBADMSG, -ENODATA (no trace in it), or -errno; with text. */
int hwi_import(const char *const *paths, size_t n, const struct hwi_import_options *options,
	struct hiw_err *err);
/* Of a signal handler that ends the process within hwi_import: removes what is not finished. */
void hwi_import_abandon(void);

/* True if the run is a job of several ranks of which something is missing: a rank, the end of one, a file that cannot be read. */
bool hwi_run_lacks_parts(const struct hiw_run *run);

/* Removes the journal of a finished recording that was read while it ended; no effect while another program has it open. */
void hwi_settle(const char *path);

/* Copies the recording into one file without a journal. Returns 0 or -errno with text. */
int hwi_run_copy(struct hiw_run *run, const char *path, struct hiw_err *err);

/* False for a rank above 0 of a parallel job, which prints one line instead of the summary. */
bool hwi_run_is_leader(struct hiw_run *run);

/* hiw_find. *ret_skipped: a newer run that could have been meant and whose recording cannot be read, or
 * has nothing in it; 0: none. */
int hwi_find(const char *run, char **ret_path, uint64_t *ret_skipped, struct hiw_err *err);

/* The path of the history's folder, which may not exist. Returns 0 or -errno. */
int hwi_history_folder(char *ret, size_t size);

/* Does the word, as a RUN, stand for the job of a scheduler or launcher ("slurm:4711", "mpi:ID")? */
bool hwi_is_job(const char *word);

/* Removes a run from the history. Returns 0, or -errno with text, also for a run that is still
 * running. */
int hwi_history_remove(const char *run, struct hiw_err *err);

/* Checks that hwi_history_remove() can remove the run at path; returns as it does. */
int hwi_history_may_remove(const char *path, struct hiw_err *err);

/* How a request for a scheduler or a workflow system is written. */
enum hwi_request_format {
	HWI_REQUEST_AUTO,            /* of the scheduler under which the newest run ran; else Slurm's */
	HWI_REQUEST_SLURM,
	HWI_REQUEST_PBS,
	HWI_REQUEST_LSF,
	HWI_REQUEST_SGE,
	HWI_REQUEST_K8S,
	HWI_REQUEST_SNAKEMAKE,
	HWI_REQUEST_NEXTFLOW,
};

struct hwi_request {
	const char *const *runs;     /* a name stands for all of its runs in the history */
	size_t n_runs;
	enum hwi_request_format format;
	bool json;
	double margin;               /* added to memory: 0.2 */
	double quantile;             /* of the runs that the request is enough for: above 0, at most 1 */
	const char *by;              /* an argument or a part of the name: a request for each value; NULL: one */
	const struct hiw_style *style; /* NULL: ASCII */
};

/* What to request for the next run of a job, from its runs. *ret is the caller's to free().
 * *ret_known: a request could be made. Returns 0, or -errno with text: -ENOENT if there is no such
 * run, or none has the key. */
int hwi_request(const struct hwi_request *what, char **ret, size_t *ret_len, bool *ret_known,
	struct hiw_err *err);

/* ---- traced work ----------------------------------------------------------------------------- */

enum hwi_trace_by {
	HWI_TRACE_BY_DEFAULT,        /* kernels, if there are any, else ranges */
	HWI_TRACE_BY_KERNEL,
	HWI_TRACE_BY_RANGE,
	HWI_TRACE_BY_PHASE,
	HWI_TRACE_BY_PROCESS,
	HWI_TRACE_BY_STREAM,
	HWI_TRACE_BY_COPY,
	HWI_TRACE_BY_API,
};

enum hwi_trace_format {
	HWI_TRACE_TEXT,
	HWI_TRACE_JSON,              /* docs/trace.schema.json */
	HWI_TRACE_CSV,
	HWI_TRACE_NCU,               /* one line for a shell: ncu on kernel number what->kernel of the table */
	HWI_TRACE_NSYS,              /* the same: nsys on the windows of the trace */
};

/* What of a trace is shown, and how. */
struct hwi_trace {
	const char *path;            /* a recording, a folder with those of a job's ranks, or a list of them */
	enum hwi_trace_by by;
	enum hwi_trace_format format;
	size_t top;                  /* lines of the table; 0: all */
	size_t kernel;               /* from 1 */
	bool has_span, has_steps;
	uint64_t from_ns, to_ns;     /* what began in this span */
	uint64_t first_step, last_step;
	const struct hiw_style *style; /* NULL: ASCII; width 0: names are whole */
};

/* *ret is the caller's to free(). Returns 0, or -errno with text: -ENOENT if nothing was traced, or no range is
 * one of the steps; -EINVAL if there is no such kernel. */
int hwi_trace(const struct hwi_trace *what, char **ret, size_t *ret_len, struct hiw_err *err);

/* As hiw_compare, with kernels (of runs without any: ranges) by name instead of the figures of the runs. Rules on
 * them, kernel("GLOB").total > +10%, may be given with and without. */
int hwi_compare_kernels(const struct hiw_compare *what, char **ret, size_t *ret_len,
	enum hiw_check_result *ret_result, struct hiw_err *err);

/* ---- memory by function ---------------------------------------------------------------------- */

enum hwi_where_by {
	HWI_WHERE_BY_FUNCTION,
	HWI_WHERE_BY_LINE,
	HWI_WHERE_BY_STACK,
	HWI_WHERE_BY_LIBRARY,
	HWI_WHERE_BY_PROCESS,
};

enum hwi_where_format {
	HWI_WHERE_TEXT,
	HWI_WHERE_JSON,              /* docs/where.schema.json */
	HWI_WHERE_CSV,
	HWI_WHERE_FOLDED,            /* a line a stack, for flamegraph.pl */
	HWI_WHERE_SPEEDSCOPE,
	HWI_WHERE_PPROF,             /* compressed */
	HWI_WHERE_SVG,               /* a flame graph */
};

/* Which functions first touched the memory of a run, and how that is shown. */
struct hwi_where {
	const char *path;            /* a recording, a folder with those of a job's ranks, or a list of them */
	enum hwi_where_by by;
	enum hwi_where_format format;
	size_t top;                  /* lines of the table; 0: all */
	uint32_t high;               /* from 1, in the order of time; 0: the last */
	bool is_self;                /* the innermost functions, allocators and memset too */
	bool is_by_total;            /* the largest total first */
	bool has_files;              /* a line for each mapped file */
	const char *under;           /* POSIX ERE: only stacks with such a function; NULL: all */
	const char *program;         /* hiwater-where, which names what has no name yet; NULL: nothing does */
	const struct hiw_style *style; /* NULL: ASCII; width 0: names are whole */
};

/* *ret is the caller's to free(); of pprof it has any bytes. Returns 0, or -errno with text: -ENOENT if nothing was
 * sampled, -EINVAL if there is no such high or under is no expression. */
int hwi_where(const struct hwi_where *what, char **ret, size_t *ret_len, struct hiw_err *err);

/* As hiw_compare, with memory by function instead of the figures of the runs. Rules on it, where("GLOB") > +10%, may be
 * given with and without. */
int hwi_compare_where(const struct hiw_compare *what, char **ret, size_t *ret_len,
	enum hiw_check_result *ret_result, struct hiw_err *err);

/* ---- user series of the calling program ------------------------------------------------------ */

/* A bounded list of the values that a program pushes: of its framework's allocator, a loss, a step.
 * The list makes events of changes, new peaks and rules that hold; the program adds its own. An
 * event takes 88 bytes, a push well under a microsecond. Unlike other handles, a list may be used
 * by several threads at once. */
struct hwi_pushes;

/* Bounds of a list. */
enum {
	HWI_PUSH_SERIES = 7,
	HWI_PUSH_RATIOS = 4,
	HWI_PUSH_RULES = 16,
};

enum hwi_push_kind {
	HWI_PUSH_SAMPLE,             /* a push */
	HWI_PUSH_ALLOCATION,         /* the first series rose since the previous push */
	HWI_PUSH_DEALLOCATION,       /* the first series fell */
	HWI_PUSH_PEAK,               /* a new maximum of the first series: values[0], which may have been
	                              * between two pushes */
	HWI_PUSH_ALERT,              /* a rule holds */
	HWI_PUSH_CLEARED,            /* a rule holds no longer */
	HWI_PUSH_OWN = 8,            /* 8 to 31: the program's own kinds */
};

/* The quotient of two series, for rules. */
struct hwi_push_ratio {
	const char *name;
	unsigned of, by;             /* numbers of series: of / by */
};

/* The series of a list, and the events that it makes. */
struct hwi_pushes_options {
	size_t size;                 /* sizeof this struct */
	size_t max_events;           /* 1 to 2^24; the oldest are dropped */
	const char *const *series;   /* names, for rules; allocation, deallocation and peak are about the
	                              * first series */
	size_t n_series;
	const struct hwi_push_ratio *ratios;
	size_t n_ratios;
	bool changes;                /* make events for allocation, deallocation, peak */
	bool samples;                /* make an event for each push */
	bool every;                  /* an alert at each push while its rule holds; false: once, and an
	                              * event at the end */
};

/* *ret is the caller's. Returns 0, -EINVAL with text, or -ENOMEM. */
int hwi_pushes_new(const struct hwi_pushes_options *options, struct hwi_pushes **ret, struct hiw_err *err);
void hwi_pushes_free(struct hwi_pushes *pushes);

/* Replaces the rules (HIW_RULE_ALERT). They name series, ratios, and "change": the increase of the
 * first series since the previous push. Returns 0; -EINVAL with text, then the previous rules stay;
 * or -ENOMEM. */
int hwi_pushes_rules(struct hwi_pushes *pushes, const char *const *rules, size_t n, struct hiw_err *err);

/* Statistics cover the time from begin to end. Changes, and increases of mark, are relative to
 * these values, which make no event; values NULL: relative to the next push. */
void hwi_pushes_begin(struct hwi_pushes *pushes, const double *values, double mark);
void hwi_pushes_end(struct hwi_pushes *pushes);

/* The events of a push have the numbers [first, end); bit n of rules is set if rule n has an alert
 * among them. */
struct hwi_push_result {
	uint64_t first, end;
	uint32_t rules;
};

/* Pushes current values, one per series (NaN: unknown). mark: the largest value that the first
 * series ever had, by the high-water mark of its owner (NaN: unknown); an increase since the
 * previous push counts as a peak. ret may be NULL. */
void hwi_pushes_push(
	struct hwi_pushes *pushes, const double *values, double mark, struct hwi_push_result *ret);

/* Adds an event of the program's own: kind HWI_PUSH_OWN to 31 (else -EINVAL), a number and a text
 * (NULL: none; cut after 16 KiB) that are stored with it, and current values; values NULL: those of
 * the last push. */
int hwi_pushes_note(
	struct hwi_pushes *pushes, unsigned kind, uint32_t tag, const char *text, const double *values);

/* An event of a list. */
struct hwi_push_event {
	uint64_t time_ns;            /* since 1970 */
	unsigned kind;               /* enum hwi_push_kind */
	unsigned rule;               /* of an alert: the number of its rule */
	enum hiw_level level;        /* of an alert */
	uint32_t tag;
	double change;               /* of the first series since the previous push; NaN: unknown */
	double values[HWI_PUSH_SERIES]; /* NaN: unknown */
	const char *text;            /* of a note, and of alerts unless options.every; else "" */
};

/* Selects events. */
struct hwi_push_filter {
	uint32_t kinds;              /* bit n: kind n; 0: all */
	uint64_t since_ns;           /* not before this time */
	uint64_t from;               /* not before the event of this number */
	size_t last;                 /* only the last so many of them; 0: all */
};

/* Events in their order, as of one instant; filter NULL: all. *ret is the caller's to free(), which
 * frees their texts too. Returns 0 or -ENOMEM. */
int hwi_pushes_read(struct hwi_pushes *pushes, const struct hwi_push_filter *filter,
	struct hwi_push_event **ret, size_t *ret_n);
/* The last event of each interval (not 0) that has one, at the time at which the interval began.
 * Ownership and errors as above. */
int hwi_pushes_timeline(
	struct hwi_pushes *pushes, uint64_t interval_ns, struct hwi_push_event **ret, size_t *ret_n);

/* Statistics of a list. */
struct hwi_push_stats {
	size_t size;                 /* in: sizeof the caller's struct */
	uint64_t events, kept;       /* events ever made, and still in the list */
	uint64_t counts[32];         /* events ever made, by kind */
	double risen, fallen;        /* sums of the first series' increases and decreases */
	double peaks[HWI_PUSH_SERIES]; /* NaN: unknown */
	uint64_t active_ns;          /* between begin and end */
	double rises_per_s, risen_per_s; /* allocations and their bytes per second of that time; NaN if it
	                                  * is 0 */
};
/* Fills in the statistics up to now. */
void hwi_pushes_stats(struct hwi_pushes *pushes, struct hwi_push_stats *ret);
/* Removes all events and resets the statistics, except active_ns. */
void hwi_pushes_clear(struct hwi_pushes *pushes);

/* ---- this machine ---------------------------------------------------------------------------- */

/* Whether a metric can be measured: one call per metric. */
struct hwi_check {
	const char *entity, *metric; /* "process", "rss" */
	const char *sentence, *origin;
	bool available;
	const char *how, *why_not, *remedy; /* "" if there is nothing to say */
};
/* How often a run at the default interval would read a group of GPU metrics: one call per group of
 * a driver that answers here. */
struct hwi_gpu_rate {
	const char *source, *group, *contents; /* "NVML", "memory", "device memory in use" */
	uint64_t planned_ns;         /* the planned period */
	uint64_t moving_ns;          /* the period while device memory moves; 0: planned_ns */
	uint64_t lasting_ns;         /* the period that the cost of a read here permits: planned_ns or
	                              * longer */
	const char *why;             /* why it is longer; "" */
	uint64_t cpu_ns, wall_ns;    /* cost of one read of all GPUs, now */
	bool tried;                  /* false: it was not read, and those two are 0 */
	double share_max;            /* of one core: budget of all reads together */
	uint64_t idle_period_ns;     /* the period while device memory does not move, for lists that are
	                              * costly; 0: lasting_ns */
};
/* Reports each metric to see and each group of GPU metrics to see_reading (which may be NULL).
 * root: a folder of captured files; NULL: this machine. Returns 0 or -errno with text. */
int hwi_doctor(const char *root, void (*see)(void *ctx, const struct hwi_check *check),
	void (*see_reading)(void *ctx, const struct hwi_gpu_rate *reading), void *ctx, struct hiw_err *err);

/* Facts about the machine for people, as "key: value" lines. *ret is the caller's to free(). */
int hwi_doctor_machine(const char *root, char **ret, struct hiw_err *err);

/* ---- the GPUs of this machine ---------------------------------------------------------------- */

enum hwi_gpus_format {
	HWI_GPUS_TEXT,          /* a line per GPU, then the processes on it */
	HWI_GPUS_JSON,          /* docs/gpus.schema.json */
	HWI_GPUS_CSV,           /* a row per GPU, base units */
	HWI_GPUS_CSV_PROCESSES, /* a row per process and GPU */
	HWI_GPUS_LINE,          /* hwi_gpus_options.fields is a format: "{gpu}: {busy}%" (hiwater-gpus(1)) */
	HWI_GPUS_LIST,          /* name and UUID, as nvidia-smi -L prints them */
	HWI_GPUS_QUERY,         /* fields are those of nvidia-smi's --query-gpu, separated by commas */
	HWI_GPUS_QUERY_APPS,    /* fields are those of its --query-compute-apps */
};

/* Initialise with HWI_GPUS_OPTIONS_INIT, then set what differs. All strings are copied. Only
 * metrics that the format needs are read. */
struct hwi_gpus_options {
	size_t size;                 /* sizeof this struct, for compatibility with later versions */
	enum hwi_gpus_format format;
	const char *fields;          /* of the line and query formats */
	const char *ids;             /* "0,GPU-8a56...,0000:3b:00.0": only these GPUs; NULL: all */
	const char *root;            /* a folder of captured files; NULL: this machine */
	uint64_t patience_ns;        /* how long to wait for a driver */
	bool spec;                   /* of text and JSON: the hardware of the GPUs */
	bool no_header, no_units;    /* of text, CSV and queries */
};

#define HWI_GPUS_OPTIONS_INIT { .size = sizeof(struct hwi_gpus_options), .patience_ns = 30000000000 }

/* The GPUs of a machine, of all vendors, at one time. Drivers are called in helper processes: one
 * that hangs costs patience_ns and nothing else. GPUs that sleep are not woken up. */
struct hwi_gpus;

/* Checks the options and starts the helpers. Returns 0; -EINVAL with text for unknown fields or an
 * invalid format; or another -errno. */
int hwi_gpus_open(const struct hwi_gpus_options *options, struct hwi_gpus **ret, struct hiw_err *err);
/* Ends the helpers; gpus may be NULL. */
void hwi_gpus_close(struct hwi_gpus *gpus);

/* Reads the GPUs anew, waiting patience_ns at most. Returns 0, or with text: -ENODEV if there is no
 * GPU, or none that ids selects; -ENXIO if there is a GPU but no driver to read it; -ETIMEDOUT or
 * -EIO if a driver did not answer in time or crashed; -EREMOTEIO if a GPU is lost. After the last
 * three, everything that was read is available. */
int hwi_gpus_read(struct hwi_gpus *gpus, struct hiw_err *err);
/* The next reason why rows are missing from a format without notes (any but text and JSON); false:
 * none. A lasting reason is reported once, after the read in which it occurred first; a temporary
 * one, such as a driver that did not answer in time, after each read that has it. The error of the
 * read itself is not reported again. */
bool hwi_gpus_warning(struct hwi_gpus *gpus, struct hiw_err *ret);

/* A GPU, or a MIG instance, which is a device of its own. */
struct hwi_gpu_device {
	size_t size;                 /* in: sizeof of the caller's struct */
	const char *uuid, *name, *vendor, *pci, *driver; /* "" if not known */
	const char *parent;          /* of an instance: UUID of its GPU; else "" */
	struct hiw_maybe number;     /* the number shown to users: the driver's index if it has one */
	struct hiw_maybe index;      /* the driver's index; of an instance: its index on its GPU */
	struct hiw_maybe cuda_index; /* CUDA's number in PCI order, without CUDA_VISIBLE_DEVICES */
	struct hiw_maybe cuda_visible; /* CUDA's number in this process's environment; unknown: hidden, or
	                                * only CUDA knows it */
	bool cuda_hidden;
	bool lost;                   /* it does not answer any more */
	bool unified;                /* its memory is the host's memory */
	struct hiw_maybe memory_total, memory_used, memory_free, memory_reserved, memory_unattributed;
	struct hiw_maybe busy_ppm;   /* share of time in which any kernel ran */
	struct hiw_maybe sm_active_ppm, sm_occupancy_ppm; /* if the driver reports them */
	struct hiw_maybe power_uw, power_limit_uw, temperature_mc, clock_sm_hz, processes;
};
/* A process on a device. */
struct hwi_gpu_user {
	size_t size;                 /* in: sizeof of the caller's struct */
	size_t device;               /* index for hwi_gpus_device */
	struct hiw_maybe pid, uid;   /* uid unknown: the process is not visible here */
	const char *user, *name, *command; /* "" if not known; secrets in command are masked */
	bool compute, graphics;
	struct hiw_maybe memory, sm_busy_ppm;
};
/* The i-th device, or process, of the last read; false if i is out of range. */
bool hwi_gpus_device(const struct hwi_gpus *gpus, size_t i, struct hwi_gpu_device *ret);
bool hwi_gpus_user(const struct hwi_gpus *gpus, size_t i, struct hwi_gpu_user *ret);

/* Writes the last read in the format of the options. style NULL: ASCII, 80 columns. *ret is the
 * caller's to free(). Returns 0 or -errno. */
int hwi_gpus_text(struct hwi_gpus *gpus, const struct hiw_style *style, char **ret, size_t *ret_len);

/* The list of the fields of a line or query format, for people. *ret is the caller's to free(). */
int hwi_gpus_fields(enum hwi_gpus_format format, char **ret);

/* ---- the last values, for a scrape ----------------------------------------------------------- */

struct buf;

/* The last value of a metric. has_max: it is the mean of a window, whose maximum is max. */
struct hwi_last {
	int64_t value, max;
	bool known, has_max;
};

/* The last values of one entity. */
struct hwi_series {
	enum hiw_entity entity;
	const char *labels;          /* its identity: run="...", or gpu="0",uuid="..."; "" for the machine */
	const struct hwi_last *last; /* by number of the metric (hiw_metric) */
};

/* The families of the entities' known values, named as hiwater export --to openmetrics names them, without
 * timestamps. is_text: in the Prometheus text format 0.0.4 instead of OpenMetrics 1.0. The caller adds
 * "# EOF" to the latter. */
void hwi_openmetrics(const struct hwi_series *series, size_t n, bool is_text, struct buf *out);
/* A family that is not in metric.def: its head ("" for no unit), and the name of its samples. */
void hwi_openmetrics_head(struct buf *out, bool is_text, const char *name, const char *type, const char *unit,
	const char *help);
/* Adds NAME="VALUE" to a list of labels. */
void hwi_openmetrics_label(struct buf *labels, const char *name, const char *value);
/* The value of a metric in its base unit, as a decimal number. */
void hwi_openmetrics_value(struct buf *out, unsigned metric, int64_t value);

/* What identifies a run. Texts that are not known are "". Borrowed from the run. */
struct hwi_identity {
	size_t size;                 /* in: sizeof the caller's struct */
	const char *id;              /* 32 hex digits */
	const char *scheduler, *scheduler_job, *step, *node, *cgroup;
	struct hiw_maybe rank, ranks, started_boot_ns, limit_bytes, request_bytes;
};
void hwi_run_identity(const struct hiw_run *run, struct hwi_identity *ret);
/* The labels of hiwater_run_info, as in an export; user and host, and the command, only if asked for. */
void hwi_run_labels(const struct hiw_run *run, bool with_user, bool with_command, struct buf *out);

/* ---- helpers of the command ------------------------------------------------------------------ */

/* Installs a SIGBUS handler, unless the signal is ignored or handled: this process then survives other
 * programs that truncate the index of a recording's journal (NAME-shm), which SQLite maps. Only for
 * programs of hiwater's own. */
void hwi_guard_recordings(void);

/* Finds processes to attach to: by an extended regular expression on name and command line, or
 * those of a cgroup ("/a/b" below the hierarchy, or a path of the mounted tree). At most n PIDs are
 * stored; *ret_n is the number of matches. This process and its ancestors are excluded. Returns 0,
 * -ENOENT with text if there are none, -EINVAL with text for an invalid expression, or another
 * -errno. */
int hwi_pids_by_name(const char *regex, pid_t *pids, size_t n, size_t *ret_n, struct hiw_err *err);
int hwi_pids_by_cgroup(const char *path, pid_t *pids, size_t n, size_t *ret_n, struct hiw_err *err);

/* The processes of a Slurm job on this node, those that can stand for it first; step NULL: of all steps.
 * job: a number, or ARRAY_TASK. ret_cgroup: its cgroup; "": it has none that charges memory, and further
 * processes are found by calling this again. Otherwise as hwi_pids_by_name. */
int hwi_pids_by_slurm(const char *job, const char *step, char *ret_cgroup, size_t size, pid_t *pids, size_t n,
	size_t *ret_n, struct hiw_err *err);
/* True if a cgroup of that path is that of a Slurm job or of a step of one. */
bool hwi_slurm_group(const char *path, bool *ret_is_step);
/* Sorts processes of such a group likewise, without slurmstepd. Returns how many are left. */
size_t hwi_slurm_sort(pid_t *pids, size_t n);
/* False: the group at path has been removed, or was never there. */
bool hwi_cgroup_exists(const char *path);

/* The processes of a container: of the one whose id begins with id, or, if id is NULL, of the one that
 * process pid is in. At most n are stored; *ret_n is their number. ret_cgroup is the container's
 * cgroup, "" if it is not visible from here. Returns 0, or with text -ENOENT if there is no such
 * container, -ESRCH if there is no such process, -EEXIST if two containers match, or another -errno. */
int hwi_container_find(const char *id, pid_t pid, char *ret_cgroup, size_t size, pid_t *pids, size_t n,
	size_t *ret_n, struct hiw_err *err);

/* Makes a cgroup for a job. ret_path is its name for hiw_options.cgroup_made. The child writes "0"
 * to *ret_procs before its exec. *ret_dir is the cgroup's folder: while it is open, other runs,
 * which remove cgroups that killed runs left behind, know that it is in use. The caller closes both
 * descriptors. */
int hwi_cgroup_make(char *ret_path, size_t size, int *ret_procs, int *ret_dir, struct hiw_err *err);
/* Removes it. Returns 0, -EBUSY while processes are in it (and shortly after the last has ended),
 * -EINVAL for a cgroup that hwi_cgroup_make did not make, or another -errno. */
int hwi_cgroup_remove(const char *path);

/* The pending signals of a process (ShdPnd and SigPnd of its status), as a mask with bit n - 1 for
 * signal n. */
int hwi_pending_signals(pid_t pid, uint64_t *ret_mask);
/* The high-water mark of this process (VmHWM), in bytes; 0: unknown. A process that it starts by
 * vfork, as posix_spawn does, inherits it in ru_maxrss. */
int64_t hwi_own_rss(void);
/* A file's name with what scheduler_expand (source/host/scheduler.h) replaces. *ret is the caller's to free(). Returns 0, -EINVAL or
 * -ENOMEM. */
int hwi_expand(const char *pattern, char **ret, struct hiw_err *ret_err);

/* ---- OTLP: where and how to send ------------------------------------------------------------- */

enum {
	HWI_OTLP_ATTRIBUTES = 64, /* keys and values */
	HWI_OTLP_HEADERS = 32,
};

/* Settings of the receiver, from an option and from the variables OTEL_EXPORTER_OTLP_... of this process's
 * environment. Headers are secrets: they are given to the receiver and to nothing else. */
struct hwi_otlp {
	char url[2048];            /* http or https, without user and password */
	bool loopback;             /* its host is this machine's loopback */
	bool disabled;             /* OTEL_SDK_DISABLED: send nothing */
	bool gzip;
	uint64_t timeout_ms;       /* of a request */
	uint64_t interval_ms;      /* between two requests while the job runs */
	char certificate[4096];    /* file of the authorities to trust; "": those of the system */
	char *headers[HWI_OTLP_HEADERS]; /* "NAME: VALUE" */
	size_t n_headers;
	char *attributes[HWI_OTLP_ATTRIBUTES]; /* of the resource: key, value, ... */
	size_t n_attributes;
};

/* Reads the settings. url NULL: from the environment, else http://localhost:4318. insecure: plain http is allowed to
 * other machines too. Returns 0; -EINVAL with text if url is wrong; -EBADMSG with text if a variable
 * is. Free *ret with _done in any case. */
int hwi_otlp_settings(const char *url, bool insecure, struct hwi_otlp *ret, struct hiw_err *err);
/* Reads the attributes of the resource alone, for a file. */
int hwi_otlp_resource(struct hwi_otlp *ret, struct hiw_err *err);
void hwi_otlp_done(struct hwi_otlp *otlp);

/* An export of a recording that may still grow, in stretches: one value per metric for each. The run is borrowed. */
struct hwi_exporting;
int hwi_exporting_new(
	struct hiw_run *run, const struct hiw_export *what, struct hwi_exporting **ret, struct hiw_err *err);
/* Writes what was recorded since the last call. Returns 0 or -errno with text. */
int hwi_exporting_more(struct hwi_exporting *exporting, struct hiw_err *err);
void hwi_exporting_free(struct hwi_exporting *exporting);

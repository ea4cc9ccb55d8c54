/* SPDX-License-Identifier: MIT
 *
 * The interface of hiwater's own command, of hiwater-top and of the Python package, besides the public one (hiwater.h): the
 * same handles, and the same rules for errors, ownership, threads, environment and units. It is not installed and the shared
 * library does not export it, so it changes as they need it.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- recorders ----------------------------------------------------------------------------------------------------- */

/* Has the caller a child besides the one that reads GPUs (hiw_recorder_helper)? Where the kernel does not tell, or it had children before the job: does a process of
 * the job live, by the last look? */
bool hwi_recorder_has_children(const struct hiw_recorder *recorder);

/* Reads main's memory and its mark now: for who is about to set the mark back. Returns 0, or -ESRCH: it cannot be read. */
int hwi_recorder_read_mark(struct hiw_recorder *recorder);

/* After hiw_recorder_end: the recording of a run that was too short for the history is written into this file (a name that
 * is free), the caller's to remove; the run itself says nothing of it. Returns 0, or -errno with text: -ENOENT where the run
 * is recorded elsewhere, none was wanted, or it has not ended. */
int hwi_recorder_spare(struct hiw_recorder *recorder, const char *path, struct hiw_err *err);

/* The next alert, each once; false: there is none. To be asked after each step and after the end. Has none where
 * hiw_recorder_on_alert is used. At most 64 wait; beyond that those that ask for nothing are left out. */
bool hwi_recorder_alert(struct hiw_recorder *recorder, struct hiw_alert *ret);

/* The grace of all of them is over now: alerts with HIW_ACT_KILL follow. */
void hwi_recorder_cut_grace(struct hiw_recorder *recorder);

/* Looks at another interval from now on, ns, from 1 ms to 1 h. For recorders that keep no recording (no_record), which has one
 * interval; windows are as long, a second at least. Returns 0, -EINVAL (out of range), -EBUSY (it records), -ESRCH (it has not
 * begun, or has ended). */
int hwi_recorder_pace(struct hiw_recorder *recorder, uint64_t interval_ns);

/* ---- rules that pick processes ------------------------------------------------------------------------------------- */

/* A rule that picks processes (HIW_RULE_FILTER). */
struct hwi_filter;
int hwi_filter_new(const char *rule, struct hwi_filter **ret, struct hiw_err *err);
void hwi_filter_free(struct hwi_filter *filter);

/* What a filter asks of a process. */
struct hwi_asked {
	const char *field;           /* "name", "command", "pid", "uid"; NULL: a metric */
	enum hiw_entity entity;      /* of the metric: HIW_PROCESS, or what the process is part of or on */
	struct hiw_maybe gpu_index;  /* the driver's number of a certain GPU */
	int metric, also;            /* numbers; also: is added to it, -1: nothing */
	bool rate;                   /* the counter's rise a second is meant */
	bool peak;                   /* the largest so far is meant */
};
/* What it is told: known false, a text of name and command, a value (in the metric's unit) of everything else. whole is
 * what a percentage would be of: the memory of the machine or the GPU, the number of processors times 1e9; 0: unknown. */
struct hwi_answer {
	bool known;
	double value, whole;
	const char *text;
};
/* Does it pick the process of which look tells? *ret is all zero when look is called. */
bool hwi_filter_picks(const struct hwi_filter *filter,
	void (*look)(void *ctx, const struct hwi_asked *asked, struct hwi_answer *ret), void *ctx);

/* ---- runs and the history ------------------------------------------------------------------------------------------ */

/* Writes one file without a journal beside it. */
int hwi_run_copy(struct hiw_run *run, const char *path, struct hiw_err *err);

/* One sentence of the summary that a parallel job's rank above 0 prints; "" for others. */
bool hwi_run_is_leader(struct hiw_run *run);

/* Removes a run; a running one is refused. */
int hwi_history_remove(const char *run, struct hiw_err *err);

/* ---- what a program tells of itself ------------------------------------------------------------------------------- */

/* A bounded list of what a program pushes, reading by reading: its framework's allocator, a loss, a step. The list makes
 * events of what changes, of new peaks, and of rules that hold; the program adds its own. An event takes 88 bytes in it, a
 * push well under a microsecond. Unlike other handles, a list may be used by several threads at once. */
struct hwi_pushes;

/* Bounds of a list: how many series, ratios and rules it has at most. */
enum {
	HWI_PUSH_SERIES = 7,         /* series of a list, at most */
	HWI_PUSH_RATIOS = 4,
	HWI_PUSH_RULES = 16,
};

enum hwi_push_kind {
	HWI_PUSH_SAMPLE,             /* a push */
	HWI_PUSH_ALLOCATION,         /* the first series rose since the push before */
	HWI_PUSH_DEALLOCATION,       /* it fell */
	HWI_PUSH_PEAK,               /* it was never higher; values[0] is the peak, which may have been between two pushes */
	HWI_PUSH_ALERT,              /* a rule holds */
	HWI_PUSH_CLEARED,            /* it ceased to */
	HWI_PUSH_OWN = 8,            /* from here on to 31: the program's own */
};

/* The quotient of two series, for rules. */
struct hwi_push_ratio {
	const char *name;
	unsigned of, by;             /* numbers of series: of / by */
};

/* What a list keeps, and of what it makes events. */
struct hwi_pushes_options {
	size_t size;                 /* of this struct */
	size_t max_events;           /* 1 to 2^24; the oldest are dropped */
	const char *const *series;   /* names, which rules use; allocation, deallocation and peak are about the first one */
	size_t n_series;
	const struct hwi_push_ratio *ratios;
	size_t n_ratios;
	bool changes;                /* make events of allocation, deallocation, peak */
	bool samples;                /* make one of each push */
	bool every;                  /* an alert at each push while its rule holds; false: once, and when it ceases to */
};

/* *ret is the caller's. -EINVAL with text, or -ENOMEM. */
int hwi_pushes_new(const struct hwi_pushes_options *options, struct hwi_pushes **ret, struct hiw_err *err);
void hwi_pushes_free(struct hwi_pushes *pushes);

/* From now on these rules (HIW_RULE_ALERT) instead of those before. They name series, ratios, and "change": by how much the
 * first series rose since the push before. -EINVAL with text; then those before stay. */
int hwi_pushes_rules(struct hwi_pushes *pushes, const char *const *rules, size_t n, struct hiw_err *err);

/* Statistics count the time from begin to end. Changes, and what mark says, are measured from this reading, which makes no
 * event; values NULL: from the next push. */
void hwi_pushes_begin(struct hwi_pushes *pushes, const double *values, double mark);
void hwi_pushes_end(struct hwi_pushes *pushes);

/* What a push made: the events with the numbers [first, end), and bit n of rules if rule n has an alert among them. */
struct hwi_pushed {
	uint64_t first, end;
	uint32_t rules;
};

/* A reading of now: one value a series (NaN: unknown). mark: the largest that the first series ever was, by the mark of
 * whoever keeps one (NaN: unknown); where it rose since the push before, that counts as a peak. ret may be NULL. */
void hwi_pushes_push(struct hwi_pushes *pushes, const double *values, double mark, struct hwi_pushed *ret);

/* An event of the program's own: kind HWI_PUSH_OWN to 31 (else -EINVAL), a number and a text (NULL: none; 16 KiB at most,
 * the rest is cut) that come back with it, and a reading of now; values NULL: that of the last push. */
int hwi_pushes_note(struct hwi_pushes *pushes, unsigned kind, uint32_t tag, const char *text, const double *values);

/* An event of a list. */
struct hwi_push_event {
	uint64_t time_ns;            /* since 1970 */
	unsigned kind;               /* enum hwi_push_kind */
	unsigned rule;               /* of an alert: its number */
	enum hiw_level level;        /* likewise */
	uint32_t tag;
	double change;               /* of the first series since the push before; NaN: unknown */
	double values[HWI_PUSH_SERIES]; /* NaN: unknown */
	const char *text;            /* of a note, of alerts unless options.every; "" without one */
};

/* Which events are wanted. */
struct hwi_push_filter {
	uint32_t kinds;              /* bit n: kind n; 0: all */
	uint64_t since_ns;           /* not before this time */
	uint64_t from;               /* not before the event of this number */
	size_t last;                 /* of those the last so many; 0: all */
};

/* Events in their order, as they were at one instant. free(*ret), which holds their texts, too. filter NULL: all.
 * 0 or -ENOMEM. */
int hwi_pushes_read(struct hwi_pushes *pushes, const struct hwi_push_filter *filter, struct hwi_push_event **ret, size_t *ret_n);
/* One event for each interval (not 0) in which there was one: the last, at the time at which the interval began. Likewise. */
int hwi_pushes_timeline(struct hwi_pushes *pushes, uint64_t interval_ns, struct hwi_push_event **ret, size_t *ret_n);

/* Statistics of a list. */
struct hwi_push_stats {
	size_t size;                 /* in: sizeof of the caller's struct */
	uint64_t events, kept;       /* ever, and still there */
	uint64_t counts[32];         /* ever, by kind */
	double risen, fallen;        /* sums of the first series' changes */
	double peaks[HWI_PUSH_SERIES]; /* NaN: unknown */
	uint64_t active_ns;          /* between begin and end */
	double rises_per_s, risen_per_s; /* allocations and their bytes by that time; NaN: none has passed */
};
/* Fills in the statistics up to now. */
void hwi_pushes_stats(struct hwi_pushes *pushes, struct hwi_push_stats *ret);
/* Forgets events and statistics, not the time. */
void hwi_pushes_clear(struct hwi_pushes *pushes);

/* ---- this machine ------------------------------------------------------------------------------------------------ */

/* What can be measured: one call a metric. */
struct hwi_check {
	const char *entity, *metric; /* "process", "rss" */
	const char *sentence, *origin;
	bool available;
	const char *how, *why_not, *remedy; /* "" where there is nothing to say */
};
/* How often a run at the usual interval would read what of GPUs: one call a group of readings of a driver that answers here. */
struct hwi_gpu_rate {
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
int hwi_doctor(const char *root, void (*see)(void *ctx, const struct hwi_check *check),
	void (*see_reading)(void *ctx, const struct hwi_gpu_rate *reading), void *ctx, struct hiw_err *err);

/* Facts of the machine for people, "key: value" lines. *ret is the caller's to free(). */
int hwi_doctor_machine(const char *root, char **ret, struct hiw_err *err);

/* ---- the GPUs of this machine ------------------------------------------------------------------------------------ */

enum hwi_gpus_format {
	HWI_GPUS_TEXT,          /* a line a GPU, then who is on it */
	HWI_GPUS_JSON,          /* docs/gpus.schema.json */
	HWI_GPUS_CSV,           /* a row a GPU, base units */
	HWI_GPUS_CSV_PROCESSES, /* a row a process and GPU */
	HWI_GPUS_LINE,          /* hwi_gpus_options.fields is a format: "{gpu}: {busy}%" (hiwater-gpus(1)) */
	HWI_GPUS_LIST,          /* name and uuid, as nvidia-smi -L has them */
	HWI_GPUS_QUERY,         /* fields are those of nvidia-smi's --query-gpu, with commas between */
	HWI_GPUS_QUERY_APPS,    /* fields are those of its --query-compute-apps */
};

/* Fill with HWI_GPUS_OPTIONS_INIT, then set what differs. All strings are copied. Only what the format needs is read. */
struct hwi_gpus_options {
	size_t size;                 /* of this struct, for later versions */
	enum hwi_gpus_format format;
	const char *fields;          /* of the formats that have some */
	const char *ids;             /* "0,GPU-8a56...,0000:3b:00.0": these alone; NULL: all */
	const char *root;            /* a folder of captured files; NULL: this machine */
	uint64_t patience_ns;        /* how long a driver may take to answer */
	bool spec;                   /* of text and JSON: what the GPUs are made of */
	bool no_header, no_units;    /* of text, CSV and queries */
};

#define HWI_GPUS_OPTIONS_INIT { .size = sizeof(struct hwi_gpus_options), .patience_ns = 30000000000 }

/* The GPUs of a machine at one time, whoever made them. Processes of its own ask the drivers: one that hangs takes patience_ns
 * and nothing else. GPUs that sleep are not woken. */
struct hwi_gpus;

/* Checks the options and starts to ask. Returns 0; -EINVAL with text: fields or a format that cannot be read; or -errno. */
int hwi_gpus_open(const struct hwi_gpus_options *options, struct hwi_gpus **ret, struct hiw_err *err);
/* Ends the processes that ask; NULL is fine. */
void hwi_gpus_close(struct hwi_gpus *gpus);

/* Takes a look, each time a new one: waits for the drivers, patience_ns at most. Returns 0, or with text: -ENODEV: the machine
 * shows no GPU, or none of those asked for; -ENXIO: it shows one, and no driver can be asked; -ETIMEDOUT, -EIO: a driver did not answer
 * in time, or crashed; -EREMOTEIO: a GPU is lost. After the last three what was answered is there. */
int hwi_gpus_look(struct hwi_gpus *gpus, struct hiw_err *err);
/* Why rows are missing from a format that has no place for notes (any but text and JSON). A reason that lasts is told once, after
 * the look that it came up in and after no later one; one of a single look, such as a driver that did not answer in time, after
 * each look that has it. What a look gave as its error is not told. Returns false when there is no further one. */
bool hwi_gpus_warning(struct hwi_gpus *gpus, struct hiw_err *ret);

/* A GPU, or a MIG instance, which is a device of its own. */
struct hwi_gpu_device {
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
struct hwi_gpu_user {
	size_t size;                 /* in: sizeof of the caller's struct */
	size_t device;               /* number in hwi_gpus_device */
	struct hiw_maybe pid, uid;   /* uid unknown: the process cannot be seen here */
	const char *user, *name, *command; /* "" where not known; secrets in it are masked */
	bool compute, graphics;
	struct hiw_maybe memory, sm_busy_ppm;
};
/* The i-th device, or process, of the last look; false: there is no such. */
bool hwi_gpus_device(const struct hwi_gpus *gpus, size_t i, struct hwi_gpu_device *ret);
bool hwi_gpus_user(const struct hwi_gpus *gpus, size_t i, struct hwi_gpu_user *ret);

/* The last look in the format of the options. style NULL: plain ASCII, 80 columns. *ret is the caller's to free(). Returns
 * 0 or -errno. */
int hwi_gpus_text(struct hwi_gpus *gpus, const struct hiw_style *style, char **ret, size_t *ret_len);

/* The fields of a format that has some, for people. *ret is the caller's to free(). */
int hwi_gpus_fields(enum hwi_gpus_format format, char **ret);

/* ---- what the command needs -------------------------------------------------------------------------------------- */

/* Processes to attach to: by extended regular expression on name and command line, or those of a cgroup ("/a/b"
 * below the hierarchy, or a path of the mounted tree). At most n pids are stored; *ret_n is how many there are. This
 * process and its parents are never among them. -ENOENT if there are none, -EINVAL for a bad expression. */
int hwi_pids_by_name(const char *regex, pid_t *pids, size_t n, size_t *ret_n, struct hiw_err *err);
int hwi_pids_by_cgroup(const char *path, pid_t *pids, size_t n, size_t *ret_n, struct hiw_err *err);

/* Makes a cgroup for a job about to start. ret_path is its name for hiw_options.cgroup_made. The child writes "0" to
 * *ret_procs before exec. *ret_dir is the group's folder: what is open tells other runs that it is in use, where they
 * remove what killed ones have left. The caller closes them. */
int hwi_cgroup_make(char *ret_path, size_t size, int *ret_procs, int *ret_dir, struct hiw_err *err);
/* Removes it. Returns 0, -EBUSY while processes are in it (and for a moment after the last has ended), -EINVAL for a group
 * that was not made by this function's twin, or another -errno. */
int hwi_cgroup_remove(const char *path);

/* Signals that wait for a process (ShdPnd and SigPnd of its status), as a mask with bit n - 1 for signal n. */
int hwi_pending_signals(pid_t pid, uint64_t *ret_mask);
/* The largest resident size that this process had (VmHWM), in bytes; 0: unknown. What it starts by vfork, as posix_spawn does,
 * has that in its ru_maxrss. */
int64_t hwi_own_rss(void);
/* pattern with each %r replaced by this process's rank ("0" without one). *ret is the caller's to free(). */
int hwi_expand(const char *pattern, char **ret);

/* SPDX-License-Identifier: MIT
 *
 * Private to api/: the structs behind the handles.
 */
#pragma once

#include "api/internal.h"
#include "base/err.h"
#include "base/root.h"
#include "record/read/replay.h"
#include "record/write/record.h"
#include "rules/engine.h"
#include "rules/limit.h"
#include "sample/sampler.h"
#include "sink/sink.h"
#include "source/host/scheduler.h"
#include "source/process/user_events.h"
#include "source/source.h"
#include "source/trace/read.h"
#include "where/feed.h"
#include "summary/summary.h"

/* Converts frames to those of hiwater.h, in buffers that are reused, and passes them to a
 * callback. */
struct public_frames {
	hiw_frame_fn *see;
	void *ctx;
	struct hiw_birth *births;
	struct hiw_reading *readings;
	struct hiw_end *ends;
	struct hiw_event *events;
	struct hiw_value *values;
	size_t cap_births, cap_readings, cap_ends, cap_events, cap_values;
};

struct hiw_run {
	struct job *job;
	bool owns_job;             /* else job is the sampler's */
	struct replay *replay;     /* NULL: live */
	struct sampler *sampler;   /* live: updates the recorder's cost before a summary is made; borrowed */
	struct summary summary;    /* owns the strings that the last call returned */
	bool made;                 /* summary is valid */
	struct work *work;         /* of the summary; NULL: not traced */
	struct touched *touched;   /* likewise; NULL: its memory was not sampled */
	struct touched *touched_then; /* at the incident */
	bool is_redacted;          /* without names of functions, which are those of a program of the user */
	struct sink_progress progress; /* state of the last progress line */
};

struct hiw_recorder {
	struct root root;
	struct sampler *sampler;
	struct record *record;     /* NULL: no recording, or it is finished */
	struct user_events user_events;
	struct framebuf user_frame;
	unsigned steps;
	int64_t received_seen;   /* processes of the job seen until received_since_ns */
	int records_fd;          /* socket of exit records, while epoll waits for it; else -1 */
	unsigned received;       /* wakeups for exit records in the second that began at received_since_ns */
	uint64_t received_since_ns;
	struct scheduler scheduler;
	struct cpus_allowed ranks_cpus; /* of a node: of all its ranks */
	char user[128];              /* of the job, if it is not this process's; "": it is */
	struct hiw_run run;
	enum hwi_part part;
	struct hwi_tracing trace_options;
	struct trace_reader *trace; /* NULL: the job is not traced */
	struct where_feed *where;  /* NULL: the job is not sampled */
	struct root *trace_root;   /* its own: it may outlive the recorder */
	int trace_timer;           /* until the recording has begun; -1: none */
	struct trace_check {
		int32_t pid;
		char name[16];
	} trace_checks[32];        /* processes that began, or executed another program, since the last step */
	unsigned n_trace_checks, out_of_reach;
	bool trace_is_used;        /* by the recording's thread, which continues after the end: trace, where and trace_root stay */
	char trace_warning[TRACE_NOTE_BYTES + 100];
	bool makes_folders;          /* of output: it is in a folder that was given */
	bool in_history;             /* of output: hiwater chose it */
	char *line_path;             /* part is HWI_PART_LINE: the file that its line is added to; NULL: none */
	char *name, *note, *output, *cgroup_made, *cgroup_path, *argv_text, *argv_json, *directory;
	size_t argv_cut;
	struct hiw_options options;
	int epoll;
	bool ended;
	char warning[sizeof(((struct err *) 0)->text)];
	char removed[sizeof(((struct err *) 0)->text)]; /* runs removed from the history; reported as a warning */
	char last_warning[sizeof(((struct err *) 0)->text)]; /* the text that hiw_recorder_warning returned
	                                                      * last */
	char note_warning[120];    /* the user's note was dropped or shortened; "": it was not */
	bool warned_of_note, warned_of_clock;
	struct watch *watch;       /* NULL: no alerts and limits */
	struct limits limits;
	struct queued_alert {
		struct alert alert;
		enum hiw_act act;
	} alerts[64], alert;       /* a ring of those queued for hwi_recorder_alert; the one that it
	                            * returned last */
	size_t first_alert, n_alerts;
	void (*on_alert)(void *ctx, const struct hiw_alert *alert); /* NULL: alerts are queued */
	void *on_alert_ctx;
	bool is_calling_back;      /* within on_alert */
	uint64_t default_rules;    /* bit n: rule n comes from the preset of common alerts (rules/engine.h) */
	bool warned_of_lost;       /* of alerts that were lost because too many came */
	uint64_t warned_rules;     /* bit n: warned that rule n could not be evaluated */
	struct public_frames *seer; /* of hiw_recorder_watch; NULL: none */
	int64_t kept_bytes, kept_rise; /* last value of job.limit_unreclaimable, and its last change */
	bool hurries;              /* an alert about memory is raised: the recording is committed at each
	                            * sample */
};

/* part.c: the file of a part's recording, or with another ending than ".hiw" the file of that ending of its node. pattern NULL: in the
 * history, *ret_path is NULL if the part has no folder there. *ret_makes_folders: in a folder that may have to be made. The caller frees
 * *ret_path. Returns 0, or -errno with text. */
int part_path(const struct hiw_recorder *r, const char *pattern, const char *ending, char **ret_path,
	bool *ret_makes_folders, struct err *err);

/* part.c: adds the line of a rank without a recording to its file, after its end. A failure becomes the recorder's warning. */
void part_add_line(struct hiw_recorder *r);

/* recorder.c: as hwi_recorder_new_part. */
int recorder_new(const struct hiw_options *options, enum hwi_part part, const struct hwi_tracing *trace,
	struct hiw_recorder **ret, struct hiw_err *err);

/* tracing.c: the memory that a traced job writes into, before the recording is opened; its socket among the
 * descriptors that are polled; the start of its time; what is due in a step; the next warning about it. */
int open_trace(struct hiw_recorder *r, struct err *err);
void close_trace(struct hiw_recorder *r);
void poll_trace(struct hiw_recorder *r);
void begin_trace(struct hiw_recorder *r);
void step_trace(struct hiw_recorder *r);
void trace_frame(struct hiw_recorder *r, const struct frame *frame);
void end_trace(struct hiw_recorder *r);
/* Has the job used the memory? */
bool has_traced(const struct hiw_recorder *r);
void finish_phases(struct hiw_recorder *r);
const char *trace_step(const struct hiw_recorder *r);
bool trace_warning(struct hiw_recorder *r, struct err *ret);

/* recorder.c: makes the folder of a file. Returns 0, or -errno with text. */
int make_folder_of(const char *path, struct err *err);

/* alerts.c: parses the rules of the options. Returns 0 or -errno with text. */
int open_watch(struct hiw_recorder *r, struct err *err);
/* alerts.c: evaluates the rules after a step; records, queues and calls back alerts. */
void process_alerts(struct hiw_recorder *r);
/* alerts.c: the next rule that could not be evaluated: rules about GPUs as soon as that is known,
 * others at the end. False: none. */
bool watch_warning(struct hiw_recorder *r, struct err *ret);

/* recorder.c: handles up to MESSAGES_A_STEP of the waiting messages. */
void handle_messages(struct hiw_recorder *r);
/* recorder.c: handles all messages that were sent before the end. */
void handle_last_messages(struct hiw_recorder *r);

/* frames.c: converts a frame and passes it to f's callback. */
void public_show(struct public_frames *f, const struct frame *frame);
void public_free(struct public_frames *f);

/* Copies the text of a failure (code < 0), or that of the errno if there is none. Returns code. err
 * may be NULL. */
int api_err(struct hiw_err *err, const struct err *from, int code);

static inline struct hiw_maybe api_maybe(struct maybe m)
{
	return (struct hiw_maybe) { m.value, m.known };
}

/* run.c: makes run->summary anew. Returns 0 or -errno. */
int run_summarise(struct hiw_run *run, bool with_findings);

/* run.c: what the run of a recording says about the next request; see (which may be NULL) gets its
 * facts. Returns 0 or -errno with text. */
int run_request_of(const char *path, void (*see)(void *ctx, const struct facts *facts), void *ctx,
	struct request_run *ret, struct err *err);

/* run.c: the step times of the other ranks of the run's job, from their recordings; NULL: none
 * known. The caller's to free(). */
/* The Slurm job of pid as all its tasks on this node have it, and its user. False: it is in none. */
bool read_slurm_job(pid_t pid, bool whole_job, struct scheduler *ret, char *ret_user, size_t size);

struct other_rank *read_ranks(const struct hiw_run *run, size_t *ret_n);

/* recordings.c: calls see with each recording of path, open: a file, a folder of a job's ranks, or a list of them. Of a
 * rank that was started again, its last start; in a folder a file that cannot be read is left out if others can.
 * Returns 0, what see returned, or -errno with text. */
int each_recording(
	const char *path, int (*see)(void *ctx, struct replay *replay), void *ctx, struct err *err);

/* work.c: the traced work of a recording; *ret is the caller's to free(), NULL if there is none. Returns 0 or
 * -errno. */
int work_read(struct replay *replay, struct work **ret);

/* where.c: where the memory of a recording came from, whose RAM is ram, at its last high until a time; *ret is
 * the caller's to free(), NULL if it was not sampled until then. Returns 0 or -errno. */
int touched_read(
	struct replay *replay, const struct ram_figure *ram, uint64_t until_ns, struct touched **ret);

/* run.c: frees the summary and the strings that the last call returned. */
void run_clear(struct hiw_run *run);

/* run.c: adds the incident to the summary, if there was one. Returns 0 or -ENOMEM. */
int run_add_incident(struct hiw_run *run);

/* Reads the scheduler's variables from this process's environment. */
void read_scheduler(struct scheduler *ret);

/* The command as text and as a JSON array, secrets masked in both; the caller's, also on failure.
 * *ret_cut: how many arguments were cut or left out. Returns 0 or -ENOMEM. */
int command_texts(const char *const *argv, char **ret_text, char **ret_json, size_t *ret_cut);

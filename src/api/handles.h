/* SPDX-License-Identifier: MIT
 *
 * Private to api/: what the handles hold.
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
#include "source/process/pushed.h"
#include "summary/summary.h"

/* Frames as hiwater.h has them. */
struct public_frames {
	hiw_seer *see;
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
	bool owns_job;             /* else the sampler's */
	struct replay *replay;     /* NULL: live */
	struct sampler *sampler;   /* live: asked for its cost before a summary is made; borrowed */
	struct summary summary;    /* borrowed strings of the last call live here */
	bool made;
	struct sink_progress progress; /* where the last line about the present left off */
};

struct hiw_recorder {
	struct root root;
	struct sampler *sampler;
	struct record *record;     /* NULL: none is kept, or it is finished */
	struct pushed pushed;
	struct framebuf pushed_frame;
	unsigned steps;
	int64_t received_seen;   /* processes of the job seen until received_since_ns */
	int records_fd;          /* of exit records, while epoll waits for it; -1 */
	unsigned received;       /* wakes for them in the second that began then */
	uint64_t received_since_ns;
	struct scheduler scheduler;
	struct hiw_run run;
	char *name, *output, *cgroup_made, *cgroup_path, *argv_text, *argv_json, *directory;
	size_t argv_cut;
	struct hiw_options options;
	int epoll;
	bool ended;
	char warning[sizeof(((struct err *) 0)->text)];
	char told[sizeof(((struct err *) 0)->text)]; /* the warning that was given out last */
	bool warned_of_note;
	struct watch *watch;       /* NULL: nothing is asked for */
	struct limits limits;
	struct told_alert {
		struct alert alert;
		enum hiw_act act;
	} alerts[64], alert;       /* those that wait for hwi_recorder_alert, a ring; the one given out last */
	size_t first_alert, n_alerts;
	void (*on_alert)(void *ctx, const struct hiw_alert *alert); /* NULL: they wait to be asked for */
	void *on_alert_ctx;
	bool is_telling;           /* within on_alert */
	uint64_t usual_rules;      /* bit n: rule n is one of those that nobody wrote (rules/engine.h) */
	bool told_lost;            /* alerts that nobody could take were warned of */
	uint64_t warned_rules;     /* bit n: that rule n has nothing to look at was warned of */
	struct public_frames *seer; /* who watches; NULL: nobody */
	bool hurries;              /* a rule about memory is raised: commits at each tick */
};

/* alerts.c: reads the rules of the options; what is to be told after each step, now_ns since the run's start. */
int open_watch(struct hiw_recorder *r, struct err *err);
void take_alerts(struct hiw_recorder *r);
/* The next rule that has nothing to look at: one about GPUs once that is known, others at the end. False: there is no (more). */
bool watch_warning(struct hiw_recorder *r, struct err *ret);

/* recorder.c: takes some of the messages that wait; all that were sent before the end. */
void take_messages(struct hiw_recorder *r);
void take_last_messages(struct hiw_recorder *r);

/* frames.c: shows a frame to f's seer. */
void public_show(struct public_frames *f, const struct frame *frame);
void public_free(struct public_frames *f);

/* Copies the text; returns code. */
int api_err(struct hiw_err *err, const struct err *from, int code);

static inline struct hiw_maybe api_maybe(struct maybe m)
{
	return (struct hiw_maybe) { m.value, m.known };
}

/* run.c: makes run->summary anew. A line about the present needs no advice. Returns 0 or -errno. */
int run_summarise(struct hiw_run *run, bool with_findings);

/* ranks.c: how long a step took on the other ranks of its job; NULL: none are known. The caller's to free(). */
struct other_rank *read_ranks(const struct hiw_run *run, size_t *ret_n);

/* Forgets what a run's last call gave out. */
void run_clear(struct hiw_run *run);

/* Fills the summary's story, if there is one. Returns 0 or -ENOMEM. */
int run_tell(struct hiw_run *run);

/* What this process's environment says of its launcher. */
void read_scheduler(struct scheduler *ret);

/* PATTERN with each %r replaced by the rank ("0" without one). *ret is the caller's. Returns 0 or -ENOMEM. */
int expand_rank(const char *pattern, const struct scheduler *scheduler, char **ret);

/* The command as text and as a JSON array, secrets masked in both; the caller's, also on failure. Returns 0 or -ENOMEM. */
int command_texts(const char *const *argv, char **ret_text, char **ret_json, size_t *ret_cut);

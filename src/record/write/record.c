/* SPDX-License-Identifier: MIT */
#include "record/write/record.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "record/network_fs.h"
#include "record/wire_totals.h"
#include "record/write/queue.h"
#include "record/write/record_check.h"
#include "record/write/writer.h"

enum {
	STACK_BYTES = 512 << 10,
	TOTALS_MOST = 256 << 20,
	DEFAULT_OTHERS = 200,
};
#define SECOND UINT64_C(1000000000)
static const uint64_t default_recent_ns = 300 * SECOND, default_bytes = 64000000;
static const uint64_t blocked_wait_ns = 100000000;
static const uint64_t trace_bytes = 256000000, drain_wait_ns = UINT64_C(1000000) * TRACE_DRAIN_MS,
		      where_wait_ns = 250000000;
static const uint64_t forget_wait_ns = 2 * SECOND;

struct record {
	struct record_options options;
	char *path;              /* absolute; NULL: the history */
	char *job_key;           /* NULL: none */
	char *trace_step;        /* likewise */
	char *renamed;           /* the first free name, if path is taken; else NULL */
	char note[256];
	pid_t pid;               /* pid of the process that created it */
	struct queue queue;
	/* used by the recorder's thread only */
	struct wire_memory memory;
	struct buf totals;       /* scratch */
	bool started, hurry;
	pthread_t thread;
	uint64_t dropped;
	uint64_t woken_window;
	/* protected by the lock */
	pthread_mutex_t lock;
	pthread_cond_t done_cond;
	bool done, abandoned, keep, discard, note_reported, reported, news_reported;
	unsigned n_news;         /* of the writer's, those published */
	bool needs_totals;       /* the next totals must be whole */
	unsigned drains_asked, drains_done; /* of record_drain */
	int result;
	struct err renamed_late, trouble, news;
	char *file;              /* path of the recording, once it exists */
	/* used by the writer's thread only */
	struct writer writer;
};

/* ---- the writer's thread --------------------------------------------------------------------- */

static void free_record(struct record *r)
{
	writer_done(&r->writer);
	queue_done(&r->queue);
	wire_memory_done(&r->memory);
	buf_done(&r->totals);
	(void) pthread_mutex_destroy(&r->lock);
	(void) pthread_cond_destroy(&r->done_cond);
	free(r->path);
	free(r->renamed);
	free(r->job_key);
	free(r->trace_step);
	free(r->file);
	free(r);
}

static bool is_busy(void *ctx)
{
	struct record *r = ctx;

	return queue_is_waiting(&r->queue);
}

/* Makes the file's path and the first error visible to the recorder's thread. */
static void publish(struct record *r)
{
	(void) pthread_mutex_lock(&r->lock);
	if (!r->file && r->writer.target && !r->writer.failed)
		r->file = strdup(r->writer.target);
	if (!r->trouble.text[0] && r->writer.trouble.text[0])
		r->trouble = r->writer.trouble;
	if (!r->renamed_late.text[0] && r->writer.note.text[0])
		r->renamed_late = r->writer.note;
	if (r->n_news != r->writer.n_news) {
		r->news = r->writer.news;
		r->news_reported = false;
	}
	r->n_news = r->writer.n_news;
	r->needs_totals = r->needs_totals || r->writer.needs_totals;
	r->writer.needs_totals = false;
	(void) pthread_mutex_unlock(&r->lock);
}

/* Returns the chunks that could not be written yet. */
static struct chunk *write_chunks(struct record *r, struct chunk *chunk, bool hurry)
{
	while (chunk && writer_apply(&r->writer, chunk, hurry && !chunk->next)) {
		struct chunk *next = chunk->next;

		queue_return(&r->queue, chunk);
		chunk = next;
	}
	return chunk;
}

static void drain(struct record *r)
{
	unsigned asked;

	(void) pthread_mutex_lock(&r->lock);
	asked = r->drains_asked;
	(void) pthread_mutex_unlock(&r->lock);
	writer_drain(&r->writer, asked == r->drains_done ? TRACE_DRAIN_USUAL : TRACE_DRAIN_ALL);
	(void) pthread_mutex_lock(&r->lock);
	if (r->drains_done != asked)
		(void) pthread_cond_signal(&r->done_cond);
	r->drains_done = asked;
	(void) pthread_mutex_unlock(&r->lock);
}

/* Returns the remaining chunks when it is time to finish; the caller writes them. */
static struct chunk *work(struct record *r)
{
	const uint64_t where_wait = r->options.where.drain ? where_wait_ns : 0;
	const uint64_t usual_wait_ns = r->options.trace.drain ? drain_wait_ns : where_wait;
	struct queue_state state = { 0 };
	struct chunk *waiting = NULL, **end;

	for (;;) {
		for (end = &waiting; *end;)
			end = &(*end)->next;
		/* While chunks are waiting the queue fills up; further frames are dropped and
		 * counted. */
		*end = queue_pop(&r->queue, waiting ? blocked_wait_ns : usual_wait_ns, &state);
		if (state.finish)
			return waiting;
		waiting = write_chunks(r, waiting, state.hurry);
		drain(r);
		publish(r);
	}
}

static void *write_thread(void *arg)
{
	struct record *r = arg;
	struct chunk *rest = work(r);
	bool keep, discard, abandoned;

	(void) pthread_mutex_lock(&r->lock);
	keep = r->keep;
	discard = r->discard;
	(void) pthread_mutex_unlock(&r->lock);
	if (discard) {
		writer_close(&r->writer, false);
		r->writer.failed = true;
		(void) write_chunks(r, rest, false);
	} else {
		writer_finishing(&r->writer, keep);
		(void) write_chunks(r, rest, false);
		writer_drain(&r->writer, TRACE_DRAIN_LAST);
		writer_finish(&r->writer, keep);
		publish(r);
	}
	(void) pthread_mutex_lock(&r->lock);
	r->result = r->writer.result;
	r->done = true;
	abandoned = r->abandoned;
	(void) pthread_cond_signal(&r->done_cond);
	(void) pthread_mutex_unlock(&r->lock);
	if (abandoned)
		free_record(r);
	return NULL;
}

/* The thread is created when there is work for it: a short run that is not kept never has one. */
static void start(struct record *r)
{
	pthread_attr_t attr;
	sigset_t all, before;
	int code;

	if (r->started || r->trouble.text[0])
		return;
	(void) sigfillset(&all);
	(void) sigdelset(&all, SIGBUS); /* a blocked fault ends the process: record/index_guard.h */
	(void) pthread_attr_init(&attr);
	(void) pthread_attr_setstacksize(&attr, STACK_BYTES);
	(void) pthread_sigmask(SIG_SETMASK, &all, &before);
	code = pthread_create(&r->thread, &attr, write_thread, r);
	(void) pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void) pthread_attr_destroy(&attr);
	r->started = code == 0;
	if (code != 0)
		(void) err_set(&r->trouble, -code,
			"no recording: cannot create its thread: %s. The run continues", strerror(code));
}

/* ---- the recorder's thread ------------------------------------------------------------------- */

static void set_defaults(struct record_options *o)
{
	if (o->window_ns == 0)
		o->window_ns = SECOND;
	if (o->recent_ns == 0)
		o->recent_ns = default_recent_ns;
	if (o->max_bytes == 0)
		o->max_bytes = default_bytes;
	if (o->queue_bytes == 0)
		o->queue_bytes = 8 << 20;
	if (o->others_after == 0)
		o->others_after = DEFAULT_OTHERS;
	if (o->trace_bytes == 0)
		o->trace_bytes = trace_bytes;
}

static void check_location(struct record *r, const char *where, struct writer_options *o)
{
	const char *kind = network_fs_kind(where);

	o->write_locally = kind || r->options.force_snapshot;
	if (o->write_locally)
		(void) snprintf(r->note, sizeof(r->note),
			"the recording is on %.32s: hiwater writes it in /tmp and copies it there every 10 to 60 s",
			kind ? kind : "a network file system");
}

static int init_locks(struct record *r)
{
	pthread_condattr_t attr;
	int code = queue_init(&r->queue, r->options.queue_bytes);

	if (code < 0)
		return code;
	(void) pthread_mutex_init(&r->lock, NULL);
	(void) pthread_condattr_init(&attr);
	(void) pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void) pthread_cond_init(&r->done_cond, &attr);
	(void) pthread_condattr_destroy(&attr);
	return 0;
}

int record_new(const struct record_options *options, struct record **ret, struct err *err)
{
	struct writer_options writer = { 0 };
	struct record *r = calloc(1, sizeof(*r));
	char where[PATH_MAX];
	int error;

	if (!r)
		return err_set(err, -ENOMEM, "no recording: out of memory");
	r->options = *options;
	r->pid = getpid();
	r->totals = BUF_INIT(TOTALS_MOST);
	set_defaults(&r->options);
	error = init_locks(r);
	if (error < 0) {
		free(r);
		return err_set(err, error, "no recording: %s", strerror(-error));
	}
	error = record_check(r->options.path, r->options.overwrite,
		r->options.renames ? &writer.number : NULL, &r->path, where, sizeof(where), err);
	if (error == 0 && writer.number > 1)
		error = (r->renamed = strdup(where)) ? 0 : -ENOMEM;
	if (error == 0) {
		writer.path = r->path;
		writer.overwrite = r->options.overwrite;
		writer.window_ns = r->options.window_ns;
		writer.recent_ns = r->options.recent_ns;
		writer.max_bytes = r->options.max_bytes;
		writer.others_after = r->options.others_after;
		writer.trace = r->options.trace;
		writer.where = r->options.where;
		writer.trace_bytes = r->options.trace_bytes;
		writer.trace_step = r->trace_step =
			r->options.trace_step ? strdup(r->options.trace_step) : NULL;
		writer.job_key = r->job_key = r->options.job_key ? strdup(r->options.job_key) : NULL;
		writer.job_has_folder = r->options.job_has_folder;
		check_location(r, where, &writer);
		error = writer_init(&r->writer, &writer);
		r->writer.busy = is_busy;
		r->writer.busy_ctx = r;
	}
	if (error < 0) {
		free_record(r);
		return error;
	}
	r->options.path = r->options.job_key = r->options.trace_step = NULL; /* borrowed until here */
	*ret = r;
	return 0;
}

/* Without totals, each new window wakes the writer, one window late. */
static bool is_time(struct record *r, uint64_t time_ns)
{
	const uint64_t window = time_ns / r->options.window_ns;

	if (!r->hurry && window < r->woken_window + 2)
		return false;
	r->woken_window = window;
	return true;
}

/* In a traced run edges of phases are known before the events behind them. */
static bool is_urgent(const struct record *r, const struct frame *frame)
{
	bool is_edge = false;

	for (size_t i = 0; i < frame->n_events; i++)
		is_edge = is_edge || frame->events[i].kind == EVENT_PHASE_BEGIN ||
			  frame->events[i].kind == EVENT_PHASE_END;
	return r->options.trace.drain && r->started && is_edge;
}

void record_frame(struct record *r, const struct frame *frame)
{
	void *room = queue_room(&r->queue, wire_frame_size(frame), false);

	if (!room) {
		r->dropped++;
		return;
	}
	wire_frame_put(room, frame);
	if (is_time(r, frame->time_ns) || is_urgent(r, frame)) {
		start(r);
		queue_push(&r->queue, true);
	} else if (!r->started && queue_is_waiting(&r->queue)) {
		start(r); /* half full within the first window */
	}
}

void record_begin(struct record *r)
{
	if (r->started)
		return;
	start(r);
	queue_push(&r->queue, true);
}

/* Returns false if the queue is full. */
static bool push_totals(struct record *r, const struct job *job, bool force)
{
	void *room = NULL;

	(void) pthread_mutex_lock(&r->lock);
	if (r->needs_totals)
		wire_memory_clear(&r->memory);
	r->needs_totals = false;
	(void) pthread_mutex_unlock(&r->lock);
	if (wire_totals_put(&r->totals, &r->memory, job) == 0)
		room = queue_room(&r->queue, r->totals.len, force);
	if (room) {
		memcpy(room, r->totals.data, r->totals.len);
		return true;
	}
	/* Send everything again next time. */
	wire_memory_clear(&r->memory);
	return false;
}

void record_totals(struct record *r, const struct job *job)
{
	if (!push_totals(r, job, false))
		r->dropped++;
	r->woken_window = job_now(job) / r->options.window_ns;
	start(r);
	queue_push(&r->queue, true);
}

void record_hurry(struct record *r, bool hurry)
{
	r->hurry = hurry;
	queue_set(&r->queue, hurry, false);
}

static bool take(const struct err *text, bool *reported, struct err *ret)
{
	if (!text->text[0] || *reported)
		return false;
	*ret = *text;
	*reported = true;
	return true;
}

bool record_trouble(struct record *r, struct err *ret)
{
	bool is_new;

	(void) pthread_mutex_lock(&r->lock);
	is_new = take(&r->renamed_late, &r->note_reported, ret) || take(&r->trouble, &r->reported, ret) ||
		 take(&r->news, &r->news_reported, ret);
	(void) pthread_mutex_unlock(&r->lock);
	return is_new;
}

const char *record_note(const struct record *r)
{
	return r->note[0] ? r->note : NULL;
}

const char *record_renamed(const struct record *r)
{
	return r->renamed;
}

uint64_t record_dropped(const struct record *r)
{
	return r->dropped;
}

const char *record_path(const struct record *r)
{
	struct record *mine = (struct record *) (uintptr_t) r; /* locking does not change its value */
	const char *file;

	(void) pthread_mutex_lock(&mine->lock);
	file = mine->file; /* does not change once set */
	(void) pthread_mutex_unlock(&mine->lock);
	return file;
}

/* ---- the end --------------------------------------------------------------------------------- */

static struct timespec in_ns(uint64_t wait_ns)
{
	struct timespec until;

	(void) clock_gettime(CLOCK_MONOTONIC, &until);
	wait_ns += (uint64_t) until.tv_nsec;
	until.tv_sec += (time_t) (wait_ns / SECOND);
	until.tv_nsec = (long) (wait_ns % SECOND);
	return until;
}

void record_drain(struct record *r, uint64_t wait_ns)
{
	const struct timespec until = in_ns(wait_ns);

	if (!r->started || !r->options.trace.drain)
		return;
	(void) pthread_mutex_lock(&r->lock);
	const unsigned mine = ++r->drains_asked;

	(void) pthread_mutex_unlock(&r->lock);
	queue_push(&r->queue, true);
	(void) pthread_mutex_lock(&r->lock);
	while (r->drains_done != mine && !r->done &&
		pthread_cond_timedwait(&r->done_cond, &r->lock, &until) == 0)
		;
	(void) pthread_mutex_unlock(&r->lock);
}

/* Waits for the thread, at most wait_ns. False: the thread continues on its own and frees r. */
static bool join(struct record *r, uint64_t wait_ns)
{
	const struct timespec until = in_ns(wait_ns);
	bool done;

	(void) pthread_mutex_lock(&r->lock);
	while (!r->done && pthread_cond_timedwait(&r->done_cond, &r->lock, &until) == 0)
		;
	done = r->done;
	r->abandoned = !done;
	if (!done)
		(void) pthread_detach(r->thread);
	(void) pthread_mutex_unlock(&r->lock);
	if (done)
		(void) pthread_join(r->thread, NULL);
	return done;
}

bool record_has_begun(const struct record *r)
{
	return r->started;
}

int record_divert(struct record *r, const char *path)
{
	if (r->started || r->path)
		return 0;
	r->path = strdup(path);
	r->writer.options.path = r->path;
	return r->path ? 0 : -ENOMEM;
}

static int finish_alone(struct record *r, struct err *err)
{
	int error = 0;

	if (r->trouble.text[0])
		error = err_set(err, -EAGAIN, "%s", r->trouble.text);
	free_record(r);
	return error;
}

/* The resulting file; NULL: there is none, or its name is now that of another file. */
static const char *resulting_file(const struct record *r)
{
	const struct writer *w = &r->writer;
	const char *file = w->moved ? w->target : w->lost || w->was_replaced || w->was_removed ? NULL
											       : r->file;

	return file && access(file, F_OK) == 0 ? file : NULL;
}

/* What record_trouble has not reported. */
static void unreported(const struct record *r, int error, struct err *err)
{
	const char *note = r->note_reported ? "" : r->renamed_late.text;
	const char *trouble = r->reported ? "" : r->trouble.text;
	const char *news = r->news_reported ? "" : r->news.text;

	if (*note || *trouble || *news)
		(void) err_set(err, error, "%s%s%s%s%s", note, *note && (*trouble || *news) ? "; " : "", trouble,
			*trouble && *news ? "; " : "", news);
}

int record_finish(struct record *r, const struct job *job, bool keep, uint64_t wait_ns,
	struct record_end *ret, struct err *err)
{
	const bool wanted = keep || r->path;
	const char *file;
	int error;

	if (ret)
		*ret = (struct record_end) { 0 };
	if (!r->started && !wanted)
		return finish_alone(r, err);
	if (job && wanted)
		(void) push_totals(r, job, true);
	start(r);
	if (!r->started)
		return finish_alone(r, err);
	(void) pthread_mutex_lock(&r->lock);
	r->keep = keep;
	(void) pthread_mutex_unlock(&r->lock);
	queue_push(&r->queue, true);
	queue_set(&r->queue, false, true);
	if (!join(r, wait_ns))
		return err_set(err, -ETIMEDOUT,
			"the recording may lack its end: the disk did not respond within %.3g s",
			(double) wait_ns / 1e9);
	error = r->result;
	unreported(r, error, err);
	file = wanted ? resulting_file(r) : NULL;
	if (ret && file)
		*ret = (struct record_end) { .path = strdup(file), .gap_ns = r->writer.gap_ns };
	free_record(r);
	return error;
}

bool record_forget(struct record *r)
{
	if (!r || r->pid != getpid())
		return true; /* forked child: thread and file belong to its parent */
	if (!r->started) {
		free_record(r);
		return true;
	}
	(void) pthread_mutex_lock(&r->lock);
	r->discard = true;
	(void) pthread_mutex_unlock(&r->lock);
	queue_set(&r->queue, false, true);
	if (!join(r, forget_wait_ns))
		return false;
	free_record(r);
	return true;
}

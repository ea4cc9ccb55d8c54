/* SPDX-License-Identifier: MIT
 *
 * The public interface: the recorder. It wires the sampler's frames to the recording.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api/handles.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mask.h"
#include "record/history/history.h"

#define SECOND UINT64_C(1000000000)

enum {
	HISTORY_RUNS = 200,
	STEPS_DEAF = 8, /* ticks in a row that may keep messages waiting */
	NAME_MOST = 1000, /* of a run, in bytes */
};
static const uint64_t history_bytes = UINT64_C(1) << 30;
static const uint64_t least_interval_ns = 1000000, most_interval_ns = 3600 * SECOND;
static const uint64_t recent_ns = 300 * SECOND, recording_bytes = 64000000, finish_wait_ns = 2 * SECOND;
static const size_t queue_bytes = 8 << 20;

const char *hiw_version(void)
{
	return HIW_VERSION;
}

int api_err(struct hiw_err *err, const struct err *from, int code)
{
	if (err && code < 0)
		(void) snprintf(err->text, sizeof(err->text), "%s", from->text[0] ? from->text : strerror(-code));
	return code;
}

/* ---- what a job is called ------------------------------------------------------------------------------------------ */

static void set_id(struct facts *f)
{
	unsigned char bytes[16];
	char id[2 * sizeof(bytes) + 1];

	if (getrandom(bytes, sizeof(bytes), GRND_NONBLOCK) != sizeof(bytes))
		memset(bytes, 0, sizeof(bytes));
	for (size_t i = 0; i < sizeof(bytes); i++)
		(void) snprintf(id + 2 * i, 3, "%02x", bytes[i]);
	(void) job_set_text(&f->id, id);
}

static struct maybe asked(struct hiw_maybe option, struct maybe scheduler)
{
	return option.known ? known(option.value) : scheduler;
}

static void set_people_facts(const struct hiw_recorder *r, struct facts *f)
{
	const char *user = getenv("LOGNAME"); /* no question to a directory server may hold up the job */
	char number[24];

	(void) snprintf(number, sizeof(number), "%u", (unsigned) geteuid());
	(void) job_set_text(&f->user, user && *user ? user : number);
	(void) job_set_text(&f->directory, r->directory ? r->directory : "");
	(void) job_set_text(&f->version, HIW_VERSION);
}

static void set_facts(struct hiw_recorder *r)
{
	struct facts *f = job_facts(sampler_job(r->sampler));
	const struct hiw_options *o = &r->options;
	const struct scheduler *s = &r->scheduler;

	set_id(f);
	(void) job_set_text(&f->mode, o->attached ? "attach" : "run");
	if (o->by_cell)
		f->by_cell = known(1);
	(void) job_set_text(&f->name, r->name);
	(void) job_set_text(&f->command, r->argv_text);
	(void) job_set_text(&f->argv_json, r->argv_json);
	if (r->argv_cut)
		f->argv_cut = known((int64_t) r->argv_cut);
	(void) job_set_text(&f->scheduler, s->name);
	(void) job_set_text(&f->scheduler_job, s->job);
	if (*s->node)
		(void) job_set_text(&f->host, s->node);
	f->rank = s->rank;
	f->ranks = s->ranks;
	f->nodes = s->nodes;
	f->request_bytes = asked(o->request_bytes, s->request_bytes);
	f->request_cpus = asked(o->request_cpus, s->request_cpus);
	f->request_time_ns = asked(o->request_time_ns, s->request_time_ns);
	if (o->fork_rss_bytes > 0)
		f->fork_rss_bytes = known(o->fork_rss_bytes);
}

/* ---- making one ------------------------------------------------------------------------------------------------------ */

static int check_options(const struct hiw_options *o, struct err *err)
{
	if (o->name && strlen(o->name) > NAME_MOST)
		return err_set(err, -EINVAL, "the name of a run has %d bytes at most, and this one %zu; give a shorter one", NAME_MOST, strlen(o->name));
	if (o->interval_ns < least_interval_ns)
		return err_set(err, -EINVAL, "an interval under 1 ms cannot be held; give 1ms or more");
	if (o->interval_ns > most_interval_ns)
		return err_set(err, -EINVAL, "an interval over 1 hour measures nothing; give 1h or less");
	if (o->no_record && o->output)
		return err_set(err, -EINVAL, "-o FILE and --no-record contradict each other; give one of them");
	if (o->everyone && !(o->attached && o->no_record))
		return err_set(err, -EINVAL, "all processes of a machine are watched, not recorded: attached and no_record must be set");
	return 0;
}

static int copy_options(struct hiw_recorder *r, const struct hiw_options *o)
{
	const size_t size = o->size < sizeof(r->options) ? o->size : sizeof(r->options);
	int error = 0;

	/* What a caller built against an older header does not know stays 0. */
	memcpy(&r->options, o, size);
	o = &r->options;
	if (r->options.window_ns < o->interval_ns)
		r->options.window_ns = o->interval_ns;
	if (o->name)
		error = expand_rank(o->name, &r->scheduler, &r->name);
	if (error == 0 && o->output)
		error = expand_rank(o->output, &r->scheduler, &r->output);
	if (error == 0 && o->cgroup_made)
		error = (r->cgroup_made = strdup(o->cgroup_made)) ? 0 : -ENOMEM;
	if (error == 0 && o->cgroup_path)
		error = (r->cgroup_path = strdup(o->cgroup_path)) ? 0 : -ENOMEM;
	if (error == 0 && o->argv)
		error = command_texts(o->argv, &r->argv_text, &r->argv_json, &r->argv_cut);
	return error;
}

static void see_frame(void *ctx, const struct frame *frame)
{
	struct hiw_recorder *r = ctx;

	if (r->record)
		record_frame(r->record, frame);
	if (r->watch)
		watch_see(r->watch, frame);
	if (r->seer)
		public_show(r->seer, frame);
}

/* Under a scheduler only the ranks that speak for others keep a recording, unless a file is asked for. */
static bool wants_record(const struct hiw_recorder *r)
{
	return !r->options.no_record && (r->output || scheduler_is_leader(&r->scheduler));
}

static int open_record(struct hiw_recorder *r, struct err *err)
{
	const struct record_options options = {
		.path = r->output,
		.overwrite = r->options.overwrite,
		.window_ns = r->options.window_ns,
		.recent_ns = recent_ns,
		.max_bytes = recording_bytes,
		.queue_bytes = queue_bytes,
		.others_after = 200,
	};

	if (!wants_record(r))
		return 0;
	int error = record_new(&options, &r->record, err);

	/* A history that cannot be written costs the recording, not the run. */
	if (error < 0 && !r->output) {
		(void) snprintf(r->warning, sizeof(r->warning), "no recording: %.480s", err->text);
		err->text[0] = '\0';
		return 0;
	}
	return error;
}

static int open_sampler(struct hiw_recorder *r, struct err *err)
{
	const struct sampler_options options = {
		.root = &r->root,
		.interval_ns = r->options.interval_ns,
		.window_ns = r->options.window_ns,
		.ours = !r->options.attached,
		.everyone = r->options.everyone,
		.big_pss = r->options.pss,
		.reset_mark = r->options.reset_mark,
		.cgroup = r->options.cgroup == HIW_CGROUP_NONE ? CGROUP_NONE : CGROUP_AUTO,
		.cgroup_made = r->cgroup_made,
		.cgroup_path = r->cgroup_path,
		.gpu = r->options.gpu == HIW_GPU_NONE ? GPU_NONE : GPU_AUTO,
		.workdir = r->directory,
		.see = see_frame,
		.see_ctx = r,
	};

	return sampler_new(&options, &r->sampler, err);
}

static int poll_together(struct hiw_recorder *r, struct err *err)
{
	struct epoll_event event = { .events = EPOLLIN };

	r->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (r->epoll < 0 || epoll_ctl(r->epoll, EPOLL_CTL_ADD, sampler_fd(r->sampler), &event) < 0)
		return err_set(err, -errno, "no event descriptor: %s", strerror(errno));
	if (pushed_open(&r->pushed) == 0)
		(void) epoll_ctl(r->epoll, EPOLL_CTL_ADD, r->pushed.fd, &event);
	return 0;
}

static int open_all(struct hiw_recorder *r, const struct hiw_options *options, struct err *err)
{
	int error = check_options(options, err);

	read_scheduler(&r->scheduler);
	r->directory = getcwd(NULL, 0);
	if (error == 0)
		error = copy_options(r, options);
	if (error == 0)
		error = root_open("/", &r->root, err);
	if (error == 0)
		error = open_record(r, err);
	if (error == 0)
		error = open_sampler(r, err);
	if (error == 0)
		error = open_watch(r, err);
	if (error == 0)
		error = poll_together(r, err);
	return error;
}

int hiw_recorder_new(const struct hiw_options *options, struct hiw_recorder **ret, struct hiw_err *ret_err)
{
	struct hiw_recorder *r = calloc(1, sizeof(*r));
	struct err err = { "" };
	int error;

	if (!r)
		return -ENOMEM;
	r->epoll = r->pushed.fd = r->records_fd = -1;
	error = open_all(r, options, &err);
	if (error < 0) {
		hiw_recorder_free(r);
		return api_err(ret_err, &err, error);
	}
	r->run.job = sampler_job(r->sampler);
	r->run.sampler = r->sampler;
	set_facts(r);
	*ret = r;
	return 0;
}

void hiw_recorder_free(struct hiw_recorder *r)
{
	if (!r)
		return;
	run_clear(&r->run);
	if (r->record)
		record_forget(r->record);
	watch_free(r->watch);
	sampler_free(r->sampler);
	pushed_done(&r->pushed);
	framebuf_done(&r->pushed_frame);
	public_free(r->seer);
	root_done(&r->root);
	if (r->epoll >= 0)
		(void) close(r->epoll);
	free(r->name);
	free(r->output);
	free(r->cgroup_made);
	free(r->cgroup_path);
	free(r->argv_text);
	free(r->argv_json);
	free(r->directory);
	free(r);
}

/* ---- measuring --------------------------------------------------------------------------------------------------------- */

const char *hiw_recorder_socket(const struct hiw_recorder *r)
{
	return r->pushed.name;
}

/* Exit records are received as they come, so that it is known who lived at one time; where they come faster than that is worth, with
 * the next tick. */
static void receive_records(struct hiw_recorder *r, bool ticked)
{
	enum {
		WAKES = 300,     /* a second, while processes of the job start and end */
		WAKES_REST = 20  /* while all exit records are of other jobs */
	};
	const int64_t seen = job_facts_const(sampler_job(r->sampler))->processes_seen.value;
	const int fd = sampler_records_fd(r->sampler);
	struct epoll_event event = { .events = EPOLLIN };

	if (!ticked && r->records_fd >= 0) {
		sampler_receive(r->sampler);
		r->received++;
	} else if (ticked && sampler_time(r->sampler) >= r->received_since_ns + 1000000000) {
		r->received_since_ns = sampler_time(r->sampler);
		r->received = seen != r->received_seen ? 0 : WAKES - WAKES_REST;
		r->received_seen = seen;
	}
	if (r->records_fd >= 0 && (fd < 0 || r->received >= WAKES)) {
		(void) epoll_ctl(r->epoll, EPOLL_CTL_DEL, r->records_fd, NULL);
		r->records_fd = -1;
	} else if (r->records_fd < 0 && fd >= 0 && ticked && r->received < WAKES && epoll_ctl(r->epoll, EPOLL_CTL_ADD, fd, &event) == 0) {
		r->records_fd = fd;
	}
}

int hiw_recorder_start(struct hiw_recorder *r, pid_t pid, struct hiw_err *ret_err)
{
	struct err err = { "" };
	struct facts *f = job_facts(sampler_job(r->sampler));
	int error;

	if (!f->user)
		set_people_facts(r, f);
	error = sampler_start(r->sampler, pid, &err);
	if (error < 0)
		return api_err(ret_err, &err, error);
	receive_records(r, true);
	const struct process *main = job_main(sampler_job(r->sampler));

	if (!f->command && main)
		(void) job_set_text(&f->command, main->command && *main->command ? main->command : main->name);
	return 0;
}

int hiw_recorder_fd(const struct hiw_recorder *r)
{
	return r->epoll;
}

void hiw_recorder_step(struct hiw_recorder *r)
{
	bool ticked;

	if (r->ended)
		return;
	/* What waits in the socket keeps the descriptor readable: the next step finds it. Where every step is a tick, one
	 * in a few asks all the same. */
	ticked = sampler_step(r->sampler);
	receive_records(r, ticked);
	if (!ticked || r->steps++ % STEPS_DEAF == 0)
		take_messages(r);
	take_alerts(r);
	if (!sampler_window_closed(r->sampler) || !r->record)
		return;
	sampler_cost(r->sampler);
	job_facts(sampler_job(r->sampler))->frames_dropped = known((int64_t) record_dropped(r->record));
	record_totals(r->record, sampler_job(r->sampler));
}

int hwi_recorder_pace(struct hiw_recorder *r, uint64_t interval_ns)
{
	if (interval_ns < least_interval_ns || interval_ns > most_interval_ns)
		return -EINVAL;
	return r->record ? -EBUSY : sampler_pace(r->sampler, interval_ns);
}

void hiw_recorder_ignore(struct hiw_recorder *r, pid_t pid)
{
	sampler_ignore(r->sampler, pid);
}

pid_t hiw_recorder_helper(const struct hiw_recorder *r)
{
	return sampler_helper(r->sampler);
}

bool hwi_recorder_has_children(const struct hiw_recorder *r)
{
	const int has = sampler_has_elders(r->sampler) ? -1 : self_has_children(&r->root, sampler_helper(r->sampler));

	return has < 0 ? job_alive(sampler_job(r->sampler)) > 0 : has > 0;
}

void hiw_recorder_zombie(struct hiw_recorder *r, pid_t pid)
{
	sampler_zombie(r->sampler, pid);
}

static struct maybe time_of(const struct timeval *t)
{
	return known((int64_t) t->tv_sec * (int64_t) SECOND + t->tv_usec * 1000);
}

void hiw_recorder_reaped(struct hiw_recorder *r, pid_t pid, int status, const struct rusage *usage)
{
	struct end end = {
		.entity = ENTITY_PROCESS,
		.how = END_REAPED,
		.status_known = true,
		.status = status,
	};

	if (usage) {
		end.maxrss_bytes = known((int64_t) usage->ru_maxrss * 1024);
		end.cpu_user_ns = time_of(&usage->ru_utime);
		end.cpu_system_ns = time_of(&usage->ru_stime);
		end.faults_minor = known(usage->ru_minflt);
		/* getrusage(2): in blocks of 512 bytes, of waited-for children too. */
		end.io.read_bytes = known((int64_t) usage->ru_inblock * 512);
		end.io.write_bytes = known((int64_t) usage->ru_oublock * 512);
	}
	sampler_reaped(r->sampler, pid, &end);
}

/* Attached: nobody tells when main ends; it is over when no member lives. */
bool hiw_recorder_over(const struct hiw_recorder *r)
{
	return job_alive(sampler_job(r->sampler)) == 0;
}

const char *hiw_recorder_warning(struct hiw_recorder *r)
{
	struct err err = { "" };
	const char *note;

	if (r->warning[0]) {
		(void) snprintf(err.text, sizeof(err.text), "%s", r->warning);
		r->warning[0] = '\0';
	} else if (r->record && record_trouble(r->record, &err)) {
		;
	} else if (r->record && !r->warned_of_note && (note = record_note(r->record))) {
		r->warned_of_note = true;
		(void) snprintf(err.text, sizeof(err.text), "%s", note);
	} else {
		(void) watch_warning(r, &err);
	}
	if (!err.text[0])
		return NULL;
	(void) snprintf(r->told, sizeof(r->told), "%s", err.text);
	return r->told;
}

/* ---- the end ---------------------------------------------------------------------------------------------------------- */

static void finish_record(struct hiw_recorder *r)
{
	struct job *job = sampler_job(r->sampler);
	struct facts *f = job_facts(job);
	const bool is_long = f->ended_ns.known && (uint64_t) f->ended_ns.value >= r->options.window_ns;
	const bool is_asked_for = job_oom_events(job) > 0 || f->stopped_by.known; /* a short one, too: somebody will want to know why */
	const bool keep = r->output || is_long || is_asked_for;
	struct err err = { "" };
	autofree char *path = NULL;

	f->frames_dropped = known((int64_t) record_dropped(r->record));
	if (!keep && !record_has_begun(r->record))
		return; /* hwi_recorder_spare may want it; else it goes with r */
	const int error = record_finish(r->record, job, keep, finish_wait_ns, &path, &err);

	if (error < 0)
		(void) snprintf(r->warning, sizeof(r->warning), "%s", err.text);
	r->record = NULL;
	if (!keep || !path)
		return;
	if (error < 0)
		(void) job_set_text(&f->recording_stopped, strerror(-error));
	(void) job_set_text(&f->recording, path);
	if (!r->output)
		(void) history_trim(HISTORY_RUNS, history_bytes, NULL);
}

int hwi_recorder_spare(struct hiw_recorder *r, const char *path, struct hiw_err *ret_err)
{
	struct err err = { "" };
	autofree char *file = NULL;
	int error;

	if (!r->ended || !r->record)
		error = err_set(&err, -ENOENT, "there is nothing to spare: %s", r->ended ? "the run is recorded, or not to be" : "it goes on");
	else
		error = record_divert(r->record, path) < 0 ? err_set(&err, -ENOMEM, "no recording: out of memory") : 0;
	if (error == 0) {
		error = record_finish(r->record, sampler_job(r->sampler), false, finish_wait_ns, &file, &err);
		r->record = NULL;
	}
	if (error == 0 && !file)
		error = err_set(&err, -EIO, "there is no recording at %s", path);
	return error < 0 ? api_err(ret_err, &err, error) : 0;
}

int hiw_recorder_end(struct hiw_recorder *r, struct hiw_err *err)
{
	(void) err;
	if (r->ended)
		return 0;
	take_last_messages(r);
	sampler_end(r->sampler);
	take_alerts(r);
	r->ended = true;
	if (r->record)
		finish_record(r);
	return 0;
}

struct hiw_run *hiw_recorder_run(struct hiw_recorder *r)
{
	return &r->run;
}

/* ---- a command as text, secrets masked ----------------------------------------------------------------------------- */

int command_texts(const char *const *argv, char **ret_text, char **ret_json, size_t *ret_cut)
{
	enum {
		ARGUMENT_SIZE = 4096,
		COMMAND_MOST = 1 << 16
	};
	struct buf text = BUF_INIT(COMMAND_MOST), array = BUF_INIT(4 * COMMAND_MOST);
	struct mask mask = { 0 };
	struct json json;

	json_init(&json, &array, true);
	json_array(&json);
	*ret_cut = 0;
	for (size_t i = 0; argv[i]; i++) {
		const size_t len = strlen(argv[i]);
		char word[ARGUMENT_SIZE];

		(void) mask_argument(&mask, argv[i], len, word, sizeof(word));
		if (buf_printf(&text, "%s%s", i ? " " : "", word) == 0)
			json_str(&json, word);
		*ret_cut += len >= sizeof(word) || text.error || array.error;
	}
	json_end(&json);
	*ret_text = strdup(text.data);
	*ret_json = strdup(array.error ? "[]" : array.data);
	buf_done(&text);
	buf_done(&array);
	return *ret_text && *ret_json ? 0 : -ENOMEM;
}

/* ---- messages from the job or its user ----------------------------------------------------------------------------- */

enum {
	MESSAGES_A_STEP = 64, /* taken between two looks at the clock */
};
static const uint64_t last_messages_ns = 100000000;

/* Main's mark at the edge that the frame tells of: is it right for an exact peak? */
static bool mark_at_edge(struct hiw_recorder *r, const struct frame *frame)
{
	const enum event_kind kind = frame->n_events > 0 ? frame->events[0].kind : EVENT_MARK;

	if (kind != EVENT_PHASE_BEGIN && kind != EVENT_PHASE_END)
		return false;
	return sampler_read_main(r->sampler) && (kind == EVENT_PHASE_END || sampler_reset_mark(r->sampler) == 0);
}

/* What a message said. A phase's edge or a mark asks for a frame at once, so that what happened lies between two looks. */
static void push_message(struct hiw_recorder *r, bool exact)
{
	struct frame frame = framebuf_frame(&r->pushed_frame, FRAME_USER, sampler_time(r->sampler), 0);

	if (frame.n_events > 0)
		sampler_now(r->sampler);
	exact = exact && mark_at_edge(r, &frame);
	frame.time_ns = sampler_time(r->sampler);
	if (!framebuf_is_empty(&r->pushed_frame))
		sampler_push(r->sampler, &frame);
	if (exact)
		job_phase_edge(sampler_job(r->sampler), frame.events[0].phase);
	framebuf_clear(&r->pushed_frame);
}

/* Takes one that waits, if any. */
static bool take_message(struct hiw_recorder *r)
{
	if (pushed_receive(&r->pushed, sampler_time(r->sampler), &r->pushed_frame) == 0)
		return false;
	push_message(r, false);
	return true;
}

int hiw_recorder_push(struct hiw_recorder *r, const char *message, bool exact, struct hiw_err *ret_err)
{
	struct err err = { "" };
	int error = r->ended ? -ESRCH : pushed_parse(&r->pushed, message, sampler_time(r->sampler), &r->pushed_frame, &err);

	if (error == 0)
		push_message(r, exact);
	else
		framebuf_clear(&r->pushed_frame);
	return api_err(ret_err, &err, error);
}

int hwi_recorder_read_mark(struct hiw_recorder *r)
{
	return sampler_read_main(r->sampler) ? 0 : -ESRCH;
}

void take_messages(struct hiw_recorder *r)
{
	for (int i = 0; i < MESSAGES_A_STEP && take_message(r); i++)
		;
}

/* All that were sent before the end. Who lives on may go on sending. */
void take_last_messages(struct hiw_recorder *r)
{
	const uint64_t until = clock_boot_ns() + last_messages_ns;

	while (take_message(r) && clock_boot_ns() < until)
		;
}

int hiw_recorder_mark(struct hiw_recorder *r, const char *text)
{
	const struct event event = {
		.time_ns = sampler_time(r->sampler),
		.kind = EVENT_MARK,
		.entity = ENTITY_JOB,
		.text = text,
	};
	struct frame frame = { .source = FRAME_USER, .live = true, .n_events = 1, .events = &event };

	if (r->ended)
		return -ESRCH;
	if (pushed_check_mark(text, NULL) < 0)
		return -EMSGSIZE;
	sampler_now(r->sampler);
	frame.time_ns = sampler_time(r->sampler);
	sampler_push(r->sampler, &frame);
	return 0;
}

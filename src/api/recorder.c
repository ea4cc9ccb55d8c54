/* SPDX-License-Identifier: MIT
 *
 * The public interface: the recorder. It passes the sampler's frames to the recording, the rules
 * and the callback.
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
#include "base/folders.h"
#include "base/json.h"
#include "base/mask.h"
#include "record/history/history.h"
#include "record/write/record_check.h"

#define SECOND UINT64_C(1000000000)

enum {
	HISTORY_RUNS = 200,
	/* if each step takes a sample, messages are read only every so many steps */
	STEPS_WITHOUT_MESSAGES = 8,
	NAME_MOST = 1000, /* bytes of a run's name */
	NOTE_MOST = 4000, /* bytes of its note; more are cut off */
};
static const uint64_t history_bytes = UINT64_C(1) << 30;
static const uint64_t least_interval_ns = 1000000, most_interval_ns = 3600 * SECOND;
static const uint64_t recent_ns = 300 * SECOND, recording_bytes = 64000000, finish_wait_ns = SECOND;
static const uint64_t where_wait_ns = 30 * SECOND; /* for stacks that are still to be unwound */
static const uint64_t trace_wait_ns = 10 * SECOND; /* for events that are still to be read */
static const size_t queue_bytes = 8 << 20;

const char *hiw_version(void)
{
	return HIW_VERSION;
}

int api_err(struct hiw_err *err, const struct err *from, int code)
{
	if (err && code < 0)
		(void) snprintf(err->text, sizeof(err->text), "%s",
			from->text[0] ? from->text : strerror(-code));
	return code;
}

/* ---- the facts of a job ---------------------------------------------------------------------- */

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

static struct maybe requested(struct hiw_maybe option, struct maybe scheduler)
{
	return option.known ? known(option.value) : scheduler;
}

static void set_people_facts(const struct hiw_recorder *r, struct facts *f)
{
	const char *user = getenv("LOGNAME"); /* not getpwuid: a slow directory server would delay the job */
	char number[24];

	(void) snprintf(number, sizeof(number), "%u", (unsigned) geteuid());
	(void) job_set_text(&f->user, *r->user ? r->user : user && *user ? user
									 : number);
	(void) job_set_text(&f->directory, r->directory ? r->directory : "");
	(void) job_set_text(&f->version, HIW_VERSION);
}

/* The fact part; nothing: a job of its own. */
static const char *part_name(enum hwi_part part)
{
	if (part == HWI_PART_NONE)
		return "";
	return part == HWI_PART_NODE ? "node" : "rank";
}

static void set_rank_facts(const struct hiw_recorder *r, struct facts *f)
{
	const struct scheduler *s = &r->scheduler;
	const bool is_launcher = scheduler_is_launcher(r->options.argv);

	(void) job_set_text(&f->step, s->step_id);
	(void) job_set_text(&f->node, s->node);
	(void) job_set_text(&f->cluster, s->cluster);
	(void) job_set_text(&f->part, s->all_tasks ? "node" : part_name(r->part));
	f->ranks = is_launcher ? UNKNOWN : s->ranks; /* that many launchers, of which one may have many ranks */
	if (!is_launcher && r->part != HWI_PART_NODE) {
		f->rank = s->rank;
		f->local_rank = s->local_rank;
		f->local_ranks = s->local_ranks;
	}
	f->nodes = s->nodes;
	f->node_rank = s->node_rank;
	f->array_task = s->array_task;
	f->restart = s->restart;
	if (s->selects_gpus)
		(void) job_set_text(&f->gpu_selection, s->gpu_selection);
	if (s->selects_gpus && !*s->gpu_selection)
		(void) job_set_text(&f->allocated_gpus, "");
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
	if (o->by_block)
		f->by_block = known(1);
	(void) job_set_text(&f->name, r->name);
	(void) job_set_text(&f->note, r->note);
	(void) job_set_text(&f->command, r->argv_text);
	(void) job_set_text(&f->argv_json, r->argv_json);
	if (r->argv_cut)
		f->argv_cut = known((int64_t) r->argv_cut);
	(void) job_set_text(&f->scheduler, s->name);
	(void) job_set_text(&f->scheduler_job, s->job);
	if (*s->node)
		(void) job_set_text(&f->host, s->node);
	set_rank_facts(r, f);
	f->request_bytes = requested(o->request_bytes, s->request_bytes);
	f->node_cpus = s->node_cpus;
	f->request_cpus = requested(o->request_cpus, s->request_cpus);
	f->request_time_ns = requested(o->request_time_ns, s->request_time_ns);
	f->request_gpus = requested(o->request_gpus, s->request_gpus);
	if (o->fork_rss_bytes > 0)
		f->fork_rss_bytes = known(o->fork_rss_bytes);
}

/* ---- making a recorder ----------------------------------------------------------------------- */

static int check_options(const struct hiw_options *o, struct err *err)
{
	if (o->name && strlen(o->name) > NAME_MOST)
		return err_set(err, -EINVAL,
			"the name of the run has %zu bytes; give one of at most %d bytes", strlen(o->name),
			NAME_MOST);
	if (o->interval_ns < least_interval_ns)
		return err_set(err, -EINVAL, "the interval is too short; give 1ms or more");
	if (o->interval_ns > most_interval_ns)
		return err_set(err, -EINVAL, "the interval is too long; give 1h or less");
	if (o->no_record && o->output)
		return err_set(err, -EINVAL, "-o FILE and --no-record exclude each other; give one of them");
	if (o->everyone && !(o->attached && o->no_record))
		return err_set(
			err, -EINVAL, "cannot record all processes of a machine; set attached and no_record");
	return 0;
}

/* Replaces a text by one without its secrets. */
static int mask_secrets(char **text)
{
	const size_t size = 2 * strlen(*text) + 1; /* "***" may be longer than what it replaces */
	char *masked = malloc(size);

	if (!masked)
		return -ENOMEM;
	(void) mask_text(*text, masked, size);
	free(*text);
	*text = masked;
	return 0;
}

/* A note that is too long, or empty, does not prevent a measurement. */
static int copy_note(struct hiw_recorder *r, const char *note)
{
	const size_t given = strlen(note);
	size_t n = given;

	if (given > NOTE_MOST)
		for (n = NOTE_MOST; n > 0 && ((unsigned char) note[n] & 0xc0) == 0x80; n--)
			; /* not within a character of UTF-8 */
	if (n < given)
		(void) snprintf(r->note_warning, sizeof(r->note_warning),
			"the note has %zu bytes; the first %zu are kept", given, n);
	else if (n == 0)
		(void) snprintf(r->note_warning, sizeof(r->note_warning), "the note is empty; none is kept");
	r->note = n > 0 ? strndup(note, n) : NULL;
	return n > 0 && !r->note ? -ENOMEM : 0;
}

/* The recording's file, or that of the line in its place. Without one of a part in the history there is none: that is a warning. */
static int copy_output(struct hiw_recorder *r, const char *pattern, struct err *err)
{
	const bool is_line = r->part == HWI_PART_LINE;
	char **path = is_line ? &r->line_path : &r->output;
	const int error = r->options.no_record
				  ? 0
				  : part_path(r, pattern, is_line ? ".ranks" : ".hiw", path, &r->makes_folders, err);

	r->in_history = !pattern && r->output;
	if (error == 0 || pattern)
		return error;
	(void) snprintf(r->warning, sizeof(r->warning), "no recording is written: %.480s", err->text);
	err->text[0] = '\0';
	r->options.no_record = true;
	return 0;
}

static int copy_options(struct hiw_recorder *r, const struct hiw_options *o, struct err *err)
{
	const size_t size = o->size < sizeof(r->options) ? o->size : sizeof(r->options);
	int error = 0;

	/* Options that are missing from the header of an older caller stay 0. */
	memcpy(&r->options, o, size);
	o = &r->options;
	if (r->options.window_ns < o->interval_ns)
		r->options.window_ns = o->interval_ns;
	if (o->name)
		error = scheduler_expand(o->name, &r->scheduler, &r->name, NULL);
	if (error == 0 && o->note)
		error = copy_note(r, o->note);
	if (error == 0 && r->note)
		error = mask_secrets(&r->note);
	if (error == 0 && r->name)
		error = mask_secrets(&r->name);
	if (error == 0)
		error = copy_output(r, o->output, err);
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
		watch_frame(r->watch, frame);
	if (r->seer)
		public_show(r->seer, frame);
	if (r->trace)
		trace_frame(r, frame);
}

/* Under a scheduler only the first rank of each node writes a recording, unless output is set or it is a part of a job. */
static bool wants_record(const struct hiw_recorder *r)
{
	if (r->options.no_record || r->part == HWI_PART_LINE)
		return false;
	return r->output || scheduler_is_leader(&r->scheduler);
}

int make_folder_of(const char *path, struct err *err)
{
	autofree char *folder = strdup(path);
	int error;

	if (!folder)
		return err_set(err, -ENOMEM, "out of memory");
	*strrchr(folder, '/') = '\0';
	error = *folder ? folders_make(folder) : 0;
	return error < 0 ? err_set(err, error, "cannot make the folder %s: %s", folder, strerror(-error)) : 0;
}

static int open_record(struct hiw_recorder *r, struct err *err)
{
	const struct scheduler *s = &r->scheduler;
	char key[sizeof(s->job) + 32];
	int error;
	struct record_options options = {
		.path = r->output,
		.job_key = *s->name && *s->job ? key : NULL,
		.job_has_folder = r->makes_folders && *s->job,
		.overwrite = r->options.overwrite,
		.renames = r->options.degrade || *r->scheduler.name, /* a requeued job must start */
		.window_ns = r->options.window_ns,
		.recent_ns = recent_ns,
		.max_bytes = recording_bytes,
		.queue_bytes = queue_bytes,
		.others_after = 200,
		.trace_bytes = r->trace_options.limit_bytes,
		.trace_step = trace_step(r),
	};

	if (!wants_record(r))
		return 0;
	error = open_trace(r, err);
	if (error < 0)
		return error;
	if (r->trace)
		options.trace = (struct trace_feed) { trace_drain, r->trace };
	if (r->where)
		options.where = (struct where_source) { where_feed_drain, where_feed_again, r->where };
	(void) snprintf(key, sizeof(key), "%s-%s", s->name, s->job);
	error = r->makes_folders ? make_folder_of(r->output, err) : 0;
	if (error == 0)
		error = record_new(&options, &r->record, err);

	if (error == 0 && record_renamed(r->record)) {
		char *path = strdup(record_renamed(r->record));

		if (!path)
			return err_set(err, -ENOMEM, "out of memory");
		if (!r->in_history && r->part != HWI_PART_NODE) /* one note for both parts */
			(void) snprintf(r->warning, sizeof(r->warning), RECORD_RENAMED, r->output, path);
		free(r->output);
		r->output = path;
	}
	/* If the history cannot be written, the run continues without a recording. */
	if (error < 0 && (!r->output || r->in_history || (r->options.degrade && error != -EINVAL))) {
		(void) snprintf(r->warning, sizeof(r->warning), "no recording is written: %.480s", err->text);
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
		.may_lack_clock = r->options.degrade && !r->options.attached,
		.everyone = r->options.everyone,
		.big_pss = r->options.pss,
		.reset_hwm = r->options.reset_hwm,
		.cgroup = r->options.cgroup == HIW_CGROUP_NONE ? CGROUP_NONE : CGROUP_AUTO,
		.cgroup_made = r->cgroup_made,
		.cgroup_path = r->cgroup_path,
		.whole_job = r->options.slurm_whole_job,
		.gpu = r->options.gpu == HIW_GPU_NONE ? GPU_NONE : GPU_AUTO,
		.workdir = r->directory,
		.see = see_frame,
		.see_ctx = r,
		.touched = r->trace ? trace_reader_bytes_of : NULL,
		.touched_ctx = r->trace,
	};

	return sampler_new(&options, &r->sampler, err);
}

static int poll_together(struct hiw_recorder *r, struct err *err)
{
	struct epoll_event event = { .events = EPOLLIN };

	r->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (r->epoll < 0 && !r->options.degrade)
		return err_set(err, -errno, "cannot make an event descriptor: %s", strerror(errno));
	if (sampler_fd(r->sampler) >= 0 &&
		epoll_ctl(r->epoll, EPOLL_CTL_ADD, sampler_fd(r->sampler), &event) < 0 && r->epoll >= 0)
		return err_set(err, -errno, "cannot make an event descriptor: %s", strerror(errno));
	if (user_events_open(&r->user_events) == 0)
		(void) epoll_ctl(r->epoll, EPOLL_CTL_ADD, r->user_events.fd, &event);
	poll_trace(r);
	return 0;
}

static void find_scheduler(struct hiw_recorder *r, const struct hiw_options *given)
{
	const bool has_slurm = given->size >= offsetof(struct hiw_options, slurm_whole_job) + sizeof(bool);

	if (!has_slurm || given->slurm_pid <= 0 ||
		!read_slurm_job(given->slurm_pid, given->slurm_whole_job, &r->scheduler, r->user,
			sizeof(r->user)))
		read_scheduler(&r->scheduler);
}

static int open_all(struct hiw_recorder *r, const struct hiw_options *options, struct err *err)
{
	int error = check_options(options, err);

	find_scheduler(r, options);
	r->directory = getcwd(NULL, 0);
	if (error == 0)
		error = copy_options(r, options, err);
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
	return recorder_new(options, HWI_PART_NONE, NULL, ret, ret_err);
}

int recorder_new(const struct hiw_options *options, enum hwi_part part, const struct hwi_tracing *trace,
	struct hiw_recorder **ret, struct hiw_err *ret_err)
{
	struct hiw_recorder *r = calloc(1, sizeof(*r));
	struct err err = { "" };
	int error;

	if (!r)
		return -ENOMEM;
	r->part = part;
	if (trace)
		r->trace_options = *trace;
	r->epoll = r->user_events.fd = r->records_fd = r->trace_timer = -1;
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
	if (r->record && !record_forget(r->record))
		r->trace_is_used = true;
	watch_free(r->watch);
	sampler_free(r->sampler);
	close_trace(r);
	user_events_done(&r->user_events);
	framebuf_done(&r->user_frame);
	public_free(r->seer);
	root_done(&r->root);
	if (r->epoll >= 0)
		(void) close(r->epoll);
	free(r->name);
	free(r->note);
	free(r->output);
	free(r->line_path);
	free(r->cgroup_made);
	free(r->cgroup_path);
	free(r->argv_text);
	free(r->argv_json);
	free(r->directory);
	free(r);
}

/* ---- measuring ------------------------------------------------------------------------------- */

const char *hiw_recorder_socket(const struct hiw_recorder *r)
{
	return r->user_events.name;
}

/* Receives exit records as they come, so that the set of processes running at one time is known; if
 * they come too fast, only with each sample. */
static void receive_records(struct hiw_recorder *r, bool sampled)
{
	enum {
		WAKEUPS = 300,    /* per second, while processes of the job start and end */
		WAKEUPS_REST = 20 /* while all exit records are of other jobs */
	};
	const int64_t seen = job_facts_const(sampler_job(r->sampler))->processes_seen.value;
	const int fd = sampler_records_fd(r->sampler);
	struct epoll_event event = { .events = EPOLLIN };

	if (!sampled && r->records_fd >= 0) {
		sampler_receive(r->sampler);
		r->received++;
	} else if (sampled && sampler_time(r->sampler) >= r->received_since_ns + 1000000000) {
		r->received_since_ns = sampler_time(r->sampler);
		r->received = seen != r->received_seen ? 0 : WAKEUPS - WAKEUPS_REST;
		r->received_seen = seen;
	}
	if (r->records_fd >= 0 && (fd < 0 || r->received >= WAKEUPS)) {
		(void) epoll_ctl(r->epoll, EPOLL_CTL_DEL, r->records_fd, NULL);
		r->records_fd = -1;
	} else if (r->records_fd < 0 && fd >= 0 && sampled && r->received < WAKEUPS &&
		   epoll_ctl(r->epoll, EPOLL_CTL_ADD, fd, &event) == 0) {
		r->records_fd = fd;
	}
}

/* The copy of a batch script in Slurm's spool has one name for all jobs. */
static void set_command(const struct hiw_recorder *r, struct facts *f, const char *command)
{
	char job[sizeof(r->scheduler.job) + 16];

	(void) snprintf(job, sizeof(job), "slurm job %s", r->scheduler.job);
	(void) job_set_text(&f->command, r->options.slurm_pid > 0 && strstr(command, "/slurm_script") ? job : command);
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
	begin_trace(r);
	receive_records(r, true);
	const struct process *main = job_main(sampler_job(r->sampler));

	if (!f->command && main)
		set_command(r, f, main->command && *main->command ? main->command : main->name);
	return 0;
}

/* Without epoll, messages wait for the next sample. */
int hiw_recorder_fd(const struct hiw_recorder *r)
{
	return r->epoll >= 0 ? r->epoll : sampler_fd(r->sampler);
}

void hiw_recorder_step(struct hiw_recorder *r)
{
	bool sampled;

	if (r->ended)
		return;
	/* Messages in the socket keep the descriptor readable, so the next step reads them. If
	 * every step takes a sample, only some of the steps read messages. */
	sampled = sampler_step(r->sampler);
	receive_records(r, sampled);
	if (!sampled || r->steps++ % STEPS_WITHOUT_MESSAGES == 0)
		handle_messages(r);
	process_alerts(r);
	step_trace(r);
	if (!sampler_window_closed(r->sampler) || !r->record)
		return;
	sampler_cost(r->sampler);
	job_facts(sampler_job(r->sampler))->frames_dropped = known((int64_t) record_dropped(r->record));
	record_totals(r->record, sampler_job(r->sampler));
}

int hwi_recorder_set_interval(struct hiw_recorder *r, uint64_t interval_ns)
{
	if (interval_ns < least_interval_ns || interval_ns > most_interval_ns)
		return -EINVAL;
	return r->record ? -EBUSY : sampler_set_interval(r->sampler, interval_ns);
}

void hwi_recorder_continued(struct hiw_recorder *r)
{
	sampler_continued(r->sampler);
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
	const int has = sampler_has_preexisting(r->sampler)
				? -1
				: self_has_children(&r->root, sampler_helper(r->sampler));

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

/* If attached, main is not a child, so only the end of all members counts. */
bool hiw_recorder_finished(const struct hiw_recorder *r)
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
	} else if (r->note_warning[0]) {
		(void) snprintf(err.text, sizeof(err.text), "%s", r->note_warning);
		r->note_warning[0] = '\0';
	} else if (r->removed[0]) {
		(void) snprintf(err.text, sizeof(err.text), "%s", r->removed);
		r->removed[0] = '\0';
	} else if (!r->warned_of_clock && sampler_fd(r->sampler) < 0) {
		r->warned_of_clock = true;
		(void) err_set(&err, 0, "%s; the summary has what the kernel reports at the end%s",
			sampler_clock_why(r->sampler),
			r->watch ? "; limits and alerts are checked only at the start and at the end" : "");
	} else if (trace_warning(r, &err) || (r->record && record_trouble(r->record, &err))) {
		;
	} else if (r->record && !r->warned_of_note && (note = record_note(r->record))) {
		r->warned_of_note = true;
		(void) snprintf(err.text, sizeof(err.text), "%s", note);
	} else {
		(void) watch_warning(r, &err);
	}
	if (!err.text[0])
		return NULL;
	(void) snprintf(r->last_warning, sizeof(r->last_warning), "%s", err.text);
	return r->last_warning;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* The recording's thread has added it to the recording. */
static void add_where_cost(struct hiw_recorder *r, struct facts *f)
{
	uint64_t cpu_ns, rss_bytes;

	if (!r->where || !where_feed_cost(r->where, &cpu_ns, &rss_bytes))
		return;
	f->where_cpu_ns = known((int64_t) cpu_ns);
	f->where_rss_bytes = known((int64_t) rss_bytes);
	if (f->own_cpu_ns.known)
		f->own_cpu_ns.value += (int64_t) cpu_ns;
	if (f->own_rss_bytes.known)
		f->own_rss_bytes.value += (int64_t) rss_bytes;
}

static void finish_record(struct hiw_recorder *r, bool wanted)
{
	struct job *job = sampler_job(r->sampler);
	struct facts *f = job_facts(job);
	const bool is_long = f->ended_ns.known && (uint64_t) f->ended_ns.value >= r->options.window_ns;
	/* keep a short run, too: the user needs the reason */
	const bool was_killed = job_oom_events(job) > 0 || f->stopped_by.known;
	const bool keep = wanted || r->output || is_long || was_killed || has_traced(r) || r->where;
	struct err err = { "" };
	struct record_end end = { 0 };

	f->frames_dropped = known((int64_t) record_dropped(r->record));
	if (!keep && !record_has_begun(r->record))
		return; /* kept for hwi_recorder_spare; else hiw_recorder_free frees it */
	const uint64_t trace_or_not_ns = r->trace ? trace_wait_ns : finish_wait_ns;
	const uint64_t wait_ns = r->where ? where_wait_ns : trace_or_not_ns;
	const int error = record_finish(r->record, job, keep, wait_ns, &end, &err);
	autofree char *path = end.path;

	r->trace_is_used = error == -ETIMEDOUT;
	if (r->where && !r->trace_is_used)
		where_feed_end(r->where);
	add_where_cost(r, f);
	if (err.text[0])
		(void) snprintf(r->warning, sizeof(r->warning), "%s", err.text);
	r->record = NULL;
	if (!keep || !path)
		return;
	if (end.gap_ns > 0)
		f->recording_gap_ns = known((int64_t) end.gap_ns);
	if (error < 0)
		(void) job_set_text(&f->recording_stopped, strerror(-error));
	(void) job_set_text(&f->recording, path);
	struct err removed = { "" };

	if ((!r->output || r->in_history) && history_trim(HISTORY_RUNS, history_bytes, &removed) == 0)
		(void) snprintf(r->removed, sizeof(r->removed), "%s", removed.text);
}

int hwi_recorder_spare(struct hiw_recorder *r, const char *path, struct hiw_err *ret_err)
{
	struct err err = { "" };
	struct record_end end = { 0 };
	int error;

	if (!r->ended || !r->record)
		error = err_set(&err, -ENOENT, "no spare recording: %s",
			r->ended ? "the run is recorded already, or not recorded" : "the run has not ended");
	else
		error = record_divert(r->record, path) < 0
				? err_set(&err, -ENOMEM, "cannot write the recording: out of memory")
				: 0;
	if (error == 0) {
		error = record_finish(r->record, sampler_job(r->sampler), false, finish_wait_ns, &end, &err);
		r->trace_is_used = r->trace_is_used || error == -ETIMEDOUT;
		r->record = NULL;
	}
	autofree char *file = end.path;

	if (error == 0 && !file)
		error = err_set(&err, -EIO, "no recording was written to %s", path);
	return error < 0 ? api_err(ret_err, &err, error) : 0;
}

int64_t hwi_recorder_processes_left(const struct hiw_recorder *r)
{
	return cgroup_processes_left(&r->root);
}

void hwi_recorder_raised(struct hiw_recorder *r, const char *type)
{
	enum {
		TYPE_MOST = 200
	};
	char kept[TYPE_MOST + 1];

	(void) snprintf(kept, sizeof(kept), "%s", type);
	if (!r->ended)
		(void) job_set_text(&job_facts(sampler_job(r->sampler))->raised, kept);
}

bool hwi_recorder_keep(struct hiw_recorder *r)
{
	if (r->ended && r->record)
		finish_record(r, true);
	return r->ended && job_facts_const(sampler_job(r->sampler))->recording;
}

int hiw_recorder_end(struct hiw_recorder *r, struct hiw_err *err)
{
	(void) err;
	if (r->ended)
		return 0;
	handle_last_messages(r);
	finish_phases(r);
	sampler_end(r->sampler);
	process_alerts(r);
	end_trace(r);
	r->ended = true;
	if (r->record)
		finish_record(r, false);
	if (r->line_path)
		part_add_line(r);
	return 0;
}

struct hiw_run *hiw_recorder_run(struct hiw_recorder *r)
{
	return &r->run;
}

/* ---- a command as text, secrets masked ------------------------------------------------------- */

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

/* ---- messages from the job or its user ------------------------------------------------------- */

enum {
	MESSAGES_A_STEP = 64, /* a step handles so many at most, so that it does not delay the next sample */
};
static const uint64_t last_messages_ns = 100000000;

/* Reads main's high-water mark at the edge of a phase, and resets it at the begin. True if the
 * phase's peak can be exact. */
static bool read_hwm_at_edge(struct hiw_recorder *r, const struct frame *frame)
{
	const enum event_kind kind = frame->n_events > 0 ? frame->events[0].kind : EVENT_MARK;

	if (kind != EVENT_PHASE_BEGIN && kind != EVENT_PHASE_END)
		return false;
	return sampler_read_main(r->sampler) &&
	       (kind == EVENT_PHASE_END || sampler_reset_hwm(r->sampler) == 0);
}

/* Pushes the parsed message. The edge of a phase, or a mark, takes a sample at once, so that it
 * lies between two samples. */
static void push_message(struct hiw_recorder *r, bool exact)
{
	struct frame frame = framebuf_frame(&r->user_frame, FRAME_USER, sampler_time(r->sampler), 0);

	if (frame.n_events > 0)
		sampler_now(r->sampler);
	exact = exact && read_hwm_at_edge(r, &frame);
	frame.time_ns = sampler_time(r->sampler);
	if (!framebuf_is_empty(&r->user_frame))
		sampler_push(r->sampler, &frame);
	if (exact)
		job_phase_edge(sampler_job(r->sampler), frame.events[0].phase);
	framebuf_clear(&r->user_frame);
}

/* Handles one waiting message; false: none waits. */
static bool handle_message(struct hiw_recorder *r)
{
	if (user_events_receive(&r->user_events, sampler_time(r->sampler), &r->user_frame) == 0)
		return false;
	push_message(r, false);
	return true;
}

int hiw_recorder_push(struct hiw_recorder *r, const char *message, bool exact, struct hiw_err *ret_err)
{
	struct err err = { "" };
	int error = -ESRCH;

	if (!r->ended)
		error = user_events_parse(
			&r->user_events, message, sampler_time(r->sampler), &r->user_frame, &err);
	if (error == 0)
		push_message(r, exact);
	else
		framebuf_clear(&r->user_frame);
	return api_err(ret_err, &err, error);
}

int hwi_recorder_read_hwm(struct hiw_recorder *r)
{
	return sampler_read_main(r->sampler) ? 0 : -ESRCH;
}

void handle_messages(struct hiw_recorder *r)
{
	for (int i = 0; i < MESSAGES_A_STEP && handle_message(r); i++)
		;
}

/* Bounded in time, because processes that are still running may keep sending. */
void handle_last_messages(struct hiw_recorder *r)
{
	const uint64_t until = clock_boot_ns() + last_messages_ns;

	while (handle_message(r) && clock_boot_ns() < until)
		;
	user_events_report(&r->user_events, sampler_time(r->sampler), &r->user_frame);
	push_message(r, false);
}

int hiw_recorder_mark(struct hiw_recorder *r, const char *text)
{
	char masked[USER_MARK_BYTES + 1];
	const struct event event = {
		.time_ns = sampler_time(r->sampler),
		.kind = EVENT_MARK,
		.entity = ENTITY_JOB,
		.text = masked,
	};
	struct frame frame = { .source = FRAME_USER, .live = true, .n_events = 1, .events = &event };

	if (r->ended)
		return -ESRCH;
	if (user_events_check_mark(text, NULL) < 0)
		return -EMSGSIZE;
	(void) mask_text(text, masked, sizeof(masked));
	sampler_now(r->sampler);
	frame.time_ns = sampler_time(r->sampler);
	sampler_push(r->sampler, &frame);
	return 0;
}

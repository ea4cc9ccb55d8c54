/* SPDX-License-Identifier: MIT
 *
 * The public interface: alerts and limits while a job runs, and the signals that they lead to.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api/handles.h"
#include "base/cleanup.h"
#include "base/smallfile.h"
#include "rules/engine.h"
#include "rules/trace_rule.h"
#include "source/process/procfs_stat.h"

static const uint64_t default_grace_ns = UINT64_C(30000000000);

int hiw_rule_check(const char *text, enum hiw_rule_kind kind, struct hiw_err *ret_err)
{
	static const enum rule_kind kinds[] = {
		[HIW_RULE_ALERT] = RULE_ALERT,
		[HIW_RULE_LIMIT] = RULE_LIMIT,
		[HIW_RULE_CHECK] = RULE_CHECK,
		[HIW_RULE_COMPARE] = RULE_COMPARE,
		[HIW_RULE_FILTER] = RULE_FILTER,
	};
	struct err err = { "" };
	struct rule rule;
	struct trace_rule trace;

	if (kind == HIW_RULE_ALERT && is_default_alerts(text))
		return 0;
	if (kind == HIW_RULE_COMPARE && trace_rule_is(text))
		return api_err(ret_err, &err, trace_rule_parse(text, &trace, &err));
	int r = (unsigned) kind < sizeof(kinds) / sizeof(kinds[0])
			? rule_parse(text, kinds[kind], &rule, &err)
			: err_set(&err, -EINVAL, "unknown kind of rule");

	if (r == 0)
		rule_done(&rule);
	return api_err(ret_err, &err, r);
}

/* ---- before the job -------------------------------------------------------------------------- */

/* Returns the rule's number in the watch, or -errno with text. */
static int add_rule(struct hiw_recorder *r, const char *text, struct err *err)
{
	struct rule rule;
	int error = rule_parse(text, RULE_ALERT, &rule, err);

	if (error < 0)
		return error;
	error = watch_add(r->watch, &rule);
	return error == -E2BIG ? err_set(err, error, "more than %d rules; leave some out", WATCH_RULES)
			       : error;
}

static int add_defaults(struct hiw_recorder *r, struct err *err)
{
	int n = 0;

	for (size_t i = 0; n >= 0 && default_alerts[i]; i++) {
		n = add_rule(r, default_alerts[i], err);
		if (n >= 0)
			r->default_rules |= UINT64_C(1) << n;
	}
	return n;
}

static int add_alert(struct hiw_recorder *r, const char *text, struct err *err)
{
	const int n = is_default_alerts(text) ? add_defaults(r, err) : add_rule(r, text, err);

	return n < 0 ? n : 0;
}

int open_watch(struct hiw_recorder *r, struct err *err)
{
	const struct hiw_options *o = &r->options;
	int error = 0;

	if (!(o->alerts && *o->alerts) && !(o->limits && *o->limits))
		return 0;
	r->watch = watch_new(job_facts_const(sampler_job(r->sampler)));
	if (!r->watch)
		return -ENOMEM;
	r->limits.grace_ns = o->grace_ns ? o->grace_ns : default_grace_ns;
	for (const char *const *p = o->alerts; error == 0 && p && *p; p++)
		error = add_alert(r, *p, err);
	for (const char *const *p = o->limits; error == 0 && p && *p; p++)
		error = limits_add(&r->limits, r->watch, *p, err);
	return error;
}

/* ---- while it runs --------------------------------------------------------------------------- */

static void queue(struct hiw_recorder *r, const struct alert *alert, enum hiw_act act)
{
	enum {
		MOST = sizeof(r->alerts) / sizeof(r->alerts[0])
	};

	/* If the queue is full, an alert that needs an action replaces the newest one that needs none. */
	size_t at = MOST - 1;

	if (r->n_alerts < MOST)
		at = r->n_alerts++;
	else if (act == HIW_ACT_NONE)
		return;
	else
		while (at > 0 && r->alerts[(r->first_alert + at) % MOST].act != HIW_ACT_NONE)
			at--;
	r->alerts[(r->first_alert + at) % MOST] = (struct queued_alert) { *alert, act };
}

/* Writes the alert to the recording as an event. */
static void push_event(struct hiw_recorder *r, const struct alert *a)
{
	const struct event event = {
		.time_ns = a->time_ns,
		.kind = a->raised ? EVENT_ALERT : EVENT_CLEARED,
		.entity = a->entity,
		.id = a->id,
		.text = a->text,
	};
	const struct frame frame = {
		.time_ns = sampler_time(r->sampler),
		.source = FRAME_RECORDER,
		.live = true,
		.n_events = 1,
		.events = &event,
	};

	sampler_push(r->sampler, &frame);
	if (r->trace && a->raised)
		trace_select_alert(trace_reader_select(r->trace));
}

static enum hiw_act act_of(enum limit_act act)
{
	return act == LIMIT_END ? HIW_ACT_END : act == LIMIT_KILL ? HIW_ACT_KILL
								  : HIW_ACT_NONE;
}

/* The cgroup whose limit applies is filling up: at the rate of the last rise, 80 % of it could not be
 * freed two reads from now, and it rose in the last two seconds. */
static bool is_filling_limit(struct hiw_recorder *r)
{
	static const uint64_t lately_ns = UINT64_C(2000000000);
	const struct job *job = sampler_job(r->sampler);
	const struct acc *kept = job_acc(job, M_JOB_LIMIT_UNRECLAIMABLE, 0);
	const struct maybe limit = job_facts_const(job)->limit_bytes;

	if (kept && kept->last != r->kept_bytes) {
		r->kept_rise = kept->last - r->kept_bytes;
		r->kept_bytes = kept->last;
	}
	return kept && limit.known && r->kept_bytes + 2 * r->kept_rise >= limit.value / 5 * 4 &&
	       kept->max_at_ns + lately_ns >= sampler_time(r->sampler);
}

/* Before the kernel kills the job, and perhaps hiwater, data must reach the disk (record.h). */
static void hurry(struct hiw_recorder *r)
{
	const bool now = (r->watch && watch_about_memory(r->watch)) || is_filling_limit(r);

	/* The file's first commit has the name, the command and the start. */
	if (now && r->record && !record_has_begun(r->record))
		record_totals(r->record, sampler_job(r->sampler));
	if (now != r->hurries && r->record)
		record_hurry(r->record, now);
	r->hurries = now;
}

static void call_back(struct hiw_recorder *r)
{
	struct hiw_alert alert = { .size = sizeof(alert) };

	if (!r->on_alert || r->is_calling_back)
		return;
	r->is_calling_back = true;
	while (r->on_alert && hwi_recorder_alert(r, &alert))
		r->on_alert(r->on_alert_ctx, &alert);
	r->is_calling_back = false;
}

void process_alerts(struct hiw_recorder *r)
{
	const uint64_t now = sampler_time(r->sampler);
	struct alert alert;

	if (!r->watch) {
		hurry(r);
		return;
	}
	watch_advance(r->watch, now);
	while (watch_next(r->watch, &alert)) {
		const enum limit_act act = limits_apply(&r->limits, r->watch, &alert);

		if (act == LIMIT_SILENT)
			continue;
		push_event(r, &alert);
		queue(r, &alert, act_of(act));
	}
	limits_settle(&r->limits, sampler_job(r->sampler));
	while (limits_due(&r->limits, now, &alert)) {
		push_event(r, &alert);
		queue(r, &alert, HIW_ACT_KILL);
	}
	hurry(r);
	call_back(r);
}

/* A limit is two rules with the same text; the second one is not reported again. */
static bool is_duplicate(const struct hiw_recorder *r, size_t number)
{
	return number > 0 &&
	       strcmp(watch_rule(r->watch, number)->text, watch_rule(r->watch, number - 1)->text) == 0;
}

/* ---- rules that could not be evaluated ------------------------------------------------------- */

static bool is_of_gpus(const struct rule_name *name)
{
	const bool of_job = name->metric == M_JOB_GPU_MEM || name->metric == M_JOB_GPU_MEM_MAIN ||
			    name->metric == M_JOB_GPU_MEM_DESCENDANTS;

	return name->what == RULE_METRIC &&
	       (name->entity == ENTITY_GPU || name->entity == ENTITY_GPU_PROCESS || of_job);
}

/* The first name in the rule that is about GPUs; NULL: none. */
static const struct rule_name *gpu_name(const struct rule *rule)
{
	for (size_t i = 0; i < rule->n_terms; i++) {
		if (is_of_gpus(&rule->terms[i].name))
			return &rule->terms[i].name;
	}
	return NULL;
}

static bool is_named(const struct rule_name *name, const struct gpu_birth *gpu)
{
	const bool is_whole = !(gpu->parent && *gpu->parent);

	return !name->indexed || (is_whole && gpu->index.known && gpu->index.value == name->index);
}

static bool has_named(const struct job *job, const struct rule_name *name)
{
	for (size_t i = 0; i < job_gpu_count(job); i++) {
		if (is_named(name, &job_gpu(job, i)->birth.gpu))
			return true;
	}
	return false;
}

/* Why the run has no GPU; while it is still running, only reasons that are final. */
static bool why_none(const struct hiw_recorder *r, char *buf, size_t size)
{
	static const struct {
		const char *text;
		bool is_final;
	} whys[GPU_ABSENCES] = {
		[GPUS_UNWANTED] = { "GPUs are not measured (--gpu=none)", true },
		[GPUS_REFUSED] = { "no GPU can be read: ", true },
		[GPUS_HELPER_ENDED] = { "no GPU was read: the helper ended before it reported one", false },
		[GPUS_UNREADABLE] = { "none of the GPUs on this machine could be read", false },
		[GPUS_NONE_HERE] = { "no GPU found on this machine", false },
	};
	const struct job *job = sampler_job(r->sampler);
	const enum gpu_absence absence = job_gpu_absence(job);

	if (!whys[absence].text || !(r->ended || whys[absence].is_final))
		return false;
	(void) snprintf(buf, size, "%s%s", whys[absence].text,
		absence == GPUS_REFUSED ? job_facts_const(job)->gpu_why : "");
	return true;
}

/* False if no reason is known, or not yet. */
static bool why_no_gpu(const struct hiw_recorder *r, const struct rule_name *name, char *buf, size_t size)
{
	const struct job *job = sampler_job(r->sampler);

	if (job_gpu_count(job) == 0)
		return why_none(r, buf, size);
	if (!r->ended || has_named(job, name))
		return false;
	(void) snprintf(buf, size, "there is no GPU %u", (unsigned) name->index);
	return true;
}

/* A metric that is read once per window may have no value in a run shorter than two windows. */
static bool is_short(const struct hiw_recorder *r)
{
	const struct maybe ended_ns = job_facts_const(sampler_job(r->sampler))->ended_ns;

	return !ended_ns.known || (uint64_t) ended_ns.value < 2 * r->options.window_ns;
}

/* Why a rule has no value because the run ended too early; NULL: another reason (review_rule). */
static const char *why_unread(const struct hiw_recorder *r, size_t number)
{
	if (!r->ended || !watch_never_known(r->watch, number))
		return NULL;
	if (!job_facts_const(sampler_job(r->sampler))->gpu_queried.known)
		return "the run ended before a driver answered";
	return is_short(r) ? "the run ended before that was read" : NULL;
}

/* Is the rule about the job's device memory, and did a driver not report it for all processes? */
static bool is_partial(const struct job *job, const struct rule_name *name)
{
	if (name->metric != M_GPU_JOB_MEM)
		return name->entity == ENTITY_JOB &&
		       job_gpu_unreported(job, 0, name->metric != M_JOB_GPU_MEM_DESCENDANTS,
			       name->metric != M_JOB_GPU_MEM_MAIN);
	for (size_t i = 0; i < job_gpu_count(job); i++) {
		const struct birth *b = &job_gpu(job, i)->birth;

		if (is_named(name, &b->gpu) && job_gpu_unreported(job, b->id, true, true))
			return true;
	}
	return false;
}

/* Reports a rule about GPUs that cannot be evaluated; a rule with other terms, which may still
 * hold, only at the end. */
static bool review_gpus(const struct hiw_recorder *r, size_t number, struct err *ret)
{
	const struct rule *rule = watch_rule(r->watch, number);
	const struct rule_name *name = gpu_name(rule);
	const struct watch_history *history = watch_history(r->watch, number);
	const bool is_plain = rule->n_terms == 1 &&
			      (rule->terms[0].test == TEST_COMPARE || rule->terms[0].test == TEST_GROWTH);
	const char *what = rule->kind == RULE_LIMIT ? "limit" : "alert", *unread = why_unread(r, number);
	char why[sizeof(ret->text) / 2];

	if (!name || history->raised || !(r->ended || is_plain))
		return false;
	if (!history->had && why_no_gpu(r, name, why, sizeof(why)))
		(void) err_set(ret, -ENODATA, "the %s '%s' %s checked: %s", what, rule->text,
			r->ended ? "was never" : "cannot be", why);
	else if (r->ended && is_partial(sampler_job(r->sampler), name))
		(void) err_set(ret, -ENODATA,
			"the %s '%s' was not fully checked: part of the job's GPU memory is not known", what,
			rule->text);
	else if (unread)
		(void) err_set(ret, -ENODATA, "the %s '%s' was never checked: %s", what, rule->text, unread);
	else
		return false;
	return true;
}

static bool review_rule(const struct hiw_recorder *r, size_t number, struct err *ret)
{
	const struct rule_name *name = watch_never_known(r->watch, number);
	char text[RULE_NAME];

	if (!name || !r->ended || is_short(r))
		return false;
	(void) err_set(ret, -ENODATA, "the rule '%s' was never checked: '%s' was never %s",
		watch_rule(r->watch, number)->text, rule_name_text(name, text),
		name->what == RULE_SERIES ? "pushed" : "measured");
	return true;
}

bool watch_warning(struct hiw_recorder *r, struct err *ret)
{
	if (r->watch && r->ended && watch_lost(r->watch) && !r->warned_of_lost) {
		r->warned_of_lost = true;
		(void) err_set(ret, -EOVERFLOW, "%llu alerts came too fast to be reported or recorded",
			(unsigned long long) watch_lost(r->watch));
		return true;
	}
	for (size_t i = 0; r->watch && watch_rule(r->watch, i); i++) {
		const uint64_t bit = UINT64_C(1) << i;

		if (((r->default_rules | r->warned_rules) & bit) || is_duplicate(r, i))
			continue;
		if (review_gpus(r, i, ret) || review_rule(r, i, ret)) {
			r->warned_rules |= bit;
			return true;
		}
	}
	return false;
}

void hiw_recorder_on_alert(
	struct hiw_recorder *r, void (*see)(void *ctx, const struct hiw_alert *alert), void *ctx)
{
	r->on_alert = see;
	r->on_alert_ctx = ctx;
}

bool hwi_recorder_alert(struct hiw_recorder *r, struct hiw_alert *ret)
{
	const size_t size = ret->size < sizeof(*ret) ? ret->size : sizeof(*ret);

	if (r->n_alerts == 0)
		return false;
	r->alert = r->alerts[r->first_alert];
	r->first_alert = (r->first_alert + 1) % (sizeof(r->alerts) / sizeof(r->alerts[0]));
	r->n_alerts--;
	const struct alert *a = &r->alert.alert;
	const struct hiw_alert alert = {
		.size = ret->size,
		.raised = a->raised,
		.level = (enum hiw_level) a->level,
		.act = r->alert.act,
		.pid = a->pid,
		.time_ns = a->time_ns,
		.value = a->number,
		.rule = watch_rule(r->watch, a->rule)->text,
		.text = a->text,
		.about = (enum hiw_alert_about) rule_memory(watch_rule(r->watch, a->rule)),
	};

	memcpy(ret, &alert, size);
	return true;
}

const char *hiw_recorder_path(const struct hiw_recorder *r)
{
	const char *path = r->record  ? record_path(r->record)
			   : r->ended ? job_facts_const(r->run.job)->recording
				      : NULL;

	if (!path && r->record)
		path = r->output; /* the file is created when the first window closes */
	return path ? path : "";
}

/* ---- signals --------------------------------------------------------------------------------- */

/* The start time of a process in the unit of its birth (source/process/birth.c). */
static uint64_t start_ns_of(const struct procfs_stat *st)
{
	const long a_second = sysconf(_SC_CLK_TCK);

	return a_second > 0 ? st->start_ticks * (UINT64_C(1000000000) / (uint64_t) a_second) : 0;
}

/* Opens a pidfd, then checks that it is the process that was measured: after that no other process
 * can get the signal. */
static int signal_one(const struct hiw_recorder *r, const struct process *p, int signal)
{
#if defined(SYS_pidfd_open) && defined(SYS_pidfd_send_signal)
	autoclose int fd = (int) syscall(SYS_pidfd_open, p->pid, 0U);
#else
	autoclose int fd = -1;
#endif
	char path[40], text[1024];
	struct procfs_stat st;

	if (fd < 0 && errno == ESRCH)
		return -ESRCH;
	(void) snprintf(path, sizeof(path), "%d/stat", (int) p->pid);
	if (smallfile_read(r->root.proc, path, text, sizeof(text)) <= 0 || procfs_stat_parse(text, &st) < 0 ||
		start_ns_of(&st) != p->start_ns)
		return -ESRCH;
#if defined(SYS_pidfd_open) && defined(SYS_pidfd_send_signal)
	if (fd >= 0)
		return syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0U) < 0 ? -errno : 0;
#endif
	return kill(p->pid, signal) < 0 ? -errno : 0; /* Linux before 5.3 */
}

/* Signals the processes with ids above last (pid 0), or pid. Main comes first: a main process that
 * supervises its children must not see them end before. */
static int signal_members(const struct hiw_recorder *r, uint32_t last, pid_t pid, int signal)
{
	const struct job *job = sampler_job(r->sampler);
	int n = 0;

	for (int descendants = 0; descendants <= 1; descendants++) {
		for (size_t i = job_process_behind(job, last); i < job_process_count(job); i++) {
			const struct process *p = job_process(job, i);

			if (p->ended || p->is_main == (descendants == 1) || (pid != 0 && p->pid != pid))
				continue;
			n += signal_one(r, p, signal) == 0;
		}
	}
	return n;
}

/* Processes that were born while the others were signalled are signalled in the next round. Killed
 * processes start no further ones, so a job that forks without end has fewer processes after each
 * round. */
int hiw_recorder_signal(struct hiw_recorder *r, pid_t pid, int signal)
{
	enum {
		ROUNDS = 8
	};
	const struct job *job = sampler_job(r->sampler);
	uint32_t last = 0;
	int n = 0;

	for (int round = 0; round < ROUNDS; round++) {
		if (pid == 0)
			sampler_find(r->sampler);
		const size_t count = job_process_count(job);

		if (job_process_behind(job, last) == count)
			break;
		n += signal_members(r, last, pid, signal);
		last = job_process(job, count - 1)->id;
		if (pid != 0)
			break;
	}
	return n > 0 ? n : -ESRCH;
}

bool hiw_recorder_terminating(const struct hiw_recorder *r)
{
	return limits_wait(&r->limits, sampler_job(r->sampler));
}

void hwi_recorder_cut_grace(struct hiw_recorder *r)
{
	limits_cut(&r->limits);
	process_alerts(r);
}

void hiw_recorder_stopped(struct hiw_recorder *r, const char *why)
{
	struct job *job = sampler_job(r->sampler);

	job_facts(job)->stopped_by = known(124);
	char past[800];

	limit_in_the_past(why, past, sizeof(past));
	(void) job_set_text(&job_facts(job)->stopped_why, past);
	sampler_now(r->sampler);
}

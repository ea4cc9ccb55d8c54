/* SPDX-License-Identifier: MIT
 *
 * The public interface: runs, live and read back, and the history.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/handles.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "findings/findings.h"
#include "findings/incident.h"
#include "record/history/history.h"
#include "record/merge/merge.h"
#include "record/store.h"
#include "rules/check_result.h"
#include "record/trace/trace_read.h"
#include "sink/export/exporter.h"
#include "sink/sink.h"

/* Runs as long as this are kept in the history. */
static const int64_t kept_ns = 1000000000;
/* Where a job has ended, hiwater must not wait for a slow disk; a later summary may. */
static const uint64_t end_patience_ns = 200000000, later_patience_ns = UINT64_C(2000000000);
enum {
	EARLIER_MOST = 1000
};

/* ---- earlier runs of the same name or command ------------------------------------------------ */

static int request_of(struct replay *replay, const char *path,
	void (*see)(void *ctx, const struct facts *facts), void *ctx, struct request_run *ret,
	struct err *err)
{
	struct job *job = NULL;
	struct summary summary = { 0 };
	int r = replay_job(replay, &job, err);

	if (r == 0)
		r = job_set_text(&job_facts(job)->recording, path);
	if (r == 0)
		r = summary_make(job, &summary);
	if (r == 0) {
		summary.lost = !summary.complete && !replay_growing(replay);
		request_run_of(&summary, ret);
		if (see)
			see(ctx, summary.facts);
		summary_done(&summary);
	}
	job_free(job);
	return r;
}

int run_request_of(const char *path, void (*see)(void *ctx, const struct facts *facts), void *ctx,
	struct request_run *ret, struct err *err)
{
	struct replay *replay = NULL;
	int r = merge_open(path, &replay, err);

	if (r == 0)
		r = request_of(replay, path, see, ctx, ret, err);
	replay_close(replay);
	return r;
}

static bool is_same(const char *a, const char *b)
{
	return a && *a && b && strcmp(a, b) == 0;
}

/* A block of a program and a whole program of one name are different jobs. */
static bool is_earlier(const struct history_entry *entry, const struct facts *f)
{
	if (entry->running || is_same(entry->path, f->recording) ||
		entry->is_watched != mode_is_attach(f->mode))
		return false;
	return f->name && *f->name ? is_same(f->name, entry->name)
				   : !*entry->name && is_same(f->command, entry->command);
}

struct reading_earlier {
	struct request_run *runs;
	size_t n, cap;
	const struct facts *facts;
	uint64_t until_ns, count_until_ns;
	struct request_left_out left_out;
};

static bool see_earlier(void *ctx, const struct history_entry *entry, struct replay *replay)
{
	struct reading_earlier *r = ctx;
	const uint64_t now_ns = clock_boot_ns();

	if (now_ns >= r->count_until_ns) {
		r->left_out.is_uncounted = true;
		return false;
	}
	if (!is_earlier(entry, r->facts))
		return true;
	if (now_ns >= r->until_ns ||
		vec_reserve(&r->runs, &r->cap, r->n, sizeof(*r->runs), EARLIER_MOST) < 0)
		r->left_out.unread++;
	else if (request_of(replay, entry->path, NULL, NULL, &r->runs[r->n], NULL) == 0)
		r->n++;
	else
		r->left_out.unreadable++;
	return true;
}

/* Reads from the newest on, until the patience ends, and counts the rest for half of that time. */
static void read_earlier(const struct hiw_run *run, struct reading_earlier *ret)
{
	const struct maybe wall = run->summary.wall_ns;
	uint64_t patience_ns = later_patience_ns;

	*ret = (struct reading_earlier) { .facts = run->summary.facts };
	if (!run->replay)
		patience_ns = end_patience_ns;
	ret->until_ns = clock_boot_ns() + patience_ns;
	ret->count_until_ns = ret->until_ns + patience_ns / 2;
	if (wall.known && wall.value >= kept_ns)
		(void) history_newest(see_earlier, ret, NULL);
}

/* ---- runs ------------------------------------------------------------------------------------ */

void run_clear(struct hiw_run *run)
{
	if (run->made)
		summary_done(&run->summary);
	run->made = false;
	free(run->work);
	free(run->touched);
	free(run->touched_then);
	run->work = NULL;
	run->touched = run->touched_then = NULL;
}

/* What was traced, or sampled, is in the recording alone: that of a live run is read after its end. */
static void add_work(struct hiw_run *run)
{
	const struct facts *f = job_facts_const(run->job);
	struct replay *replay = run->replay;

	if (!replay && (!run->summary.complete || !f->recording))
		return;
	if (!replay && replay_open(f->recording, &replay, NULL) < 0)
		return;
	(void) work_read(replay, &run->work);
	run->summary.work = run->work;
	if (!run->is_redacted)
		(void) touched_read(replay, &run->summary.combined, UINT64_MAX,
			&run->touched);
	run->summary.touched = run->touched;
	if (!run->replay)
		replay_close(replay);
}

/* On a shared disk a recording may be that of a job on another host. */
static bool is_of_another_host(const struct facts *f)
{
	char host[256] = "";

	return f->host && *f->host && gethostname(host, sizeof(host) - 1) == 0 && strcmp(host, f->host) != 0;
}

/* A merged job has no recorder of its own. */
static bool is_running_in_parts(const struct job *job)
{
	return job_parts(job) && parts_are_running(job_parts(job));
}

/* A progress line needs no findings. */
int run_summarise(struct hiw_run *run, bool with_findings)
{
	struct reading_earlier reading;
	size_t n_ranks;
	int r;

	run_clear(run);
	if (run->sampler)
		sampler_cost(run->sampler);
	r = summary_make(run->job, &run->summary);
	if (r < 0)
		return r;
	run->made = true;
	run->summary.lost = run->replay && !run->summary.complete && !replay_growing(run->replay) &&
			    !job_facts_const(run->job)->recording_stopped && !is_running_in_parts(run->job);
	run->summary.elsewhere = run->summary.lost && is_of_another_host(job_facts_const(run->job));
	if (!with_findings)
		return 0;
	read_earlier(run, &reading);
	struct other_rank *ranks = read_ranks(run, &n_ranks);
	const struct earlier_runs earlier = { reading.runs, reading.n, reading.left_out, ranks, n_ranks };

	add_work(run);
	/* before the findings: out-of-memory reports the growth that the incident has */
	r = run_add_incident(run);
	if (r == 0)
		r = findings_make(&run->summary, &earlier);
	free(reading.runs);
	free(ranks);
	if (r == 0)
		r = findings_switch_off(&run->summary, getenv("HIWATER_FINDINGS_OFF"));
	return r;
}

int hiw_find(const char *run, char **ret_path, struct hiw_err *ret_err)
{
	struct err err = { "" };

	return api_err(ret_err, &err, history_find(run, ret_path, &err));
}

int hwi_find(const char *run, char **ret_path, uint64_t *ret_skipped, struct hiw_err *ret_err)
{
	struct err err = { "" };

	return api_err(ret_err, &err, history_find_latest(run, ret_path, ret_skipped, &err));
}

bool hwi_is_job(const char *word)
{
	return history_is_job(word);
}

int hiw_run_open(const char *path, struct hiw_run **ret, struct hiw_err *ret_err)
{
	struct hiw_run *run = calloc(1, sizeof(*run));
	struct err err = { "" };
	int r = run ? merge_open(path, &run->replay, &err) : -ENOMEM;

	if (r == 0)
		r = replay_job(run->replay, &run->job, &err);
	if (r == 0) {
		run->owns_job = true;
		(void) job_set_text(&job_facts(run->job)->recording, path);
		*ret = run;
		return 0;
	}
	hiw_run_close(run);
	return api_err(ret_err, &err, r);
}

static const char *text_of(const char *text)
{
	return text ? text : "";
}

/* Fields that are missing from the header of an older caller are not written. */
int hiw_run_about(struct hiw_run *run, struct hiw_about *ret)
{
	const struct facts *f = job_facts_const(run->job);
	const size_t size = ret->size < sizeof(*ret) ? ret->size : sizeof(*ret);
	const struct hiw_about about = {
		.size = ret->size,
		.command = text_of(f->command),
		.name = text_of(f->name),
		.host = text_of(f->host),
		.user = text_of(f->user),
		.gpu_why = text_of(f->gpu_why),
		.main_pid = api_maybe(f->main_pid),
		.started_wall_ns = api_maybe(f->started_wall_ns),
		.ended_ns = api_maybe(f->ended_ns),
		.cpus = api_maybe(f->cpus),
		.cpu_limit_ppm = api_maybe(f->limit_cpu_ppm),
		.capacity_bytes = api_maybe(f->capacity_bytes),
		.limit_bytes = api_maybe(f->limit_bytes),
		.interval_ns = api_maybe(f->interval_ns),
		.window_ns = api_maybe(f->window_ns),
		.last_ns = job_now(run->job),
		.growing = run->replay && (replay_growing(run->replay) || is_running_in_parts(run->job)),
	};

	memcpy(ret, &about, size);
	return 0;
}

void hiw_run_close(struct hiw_run *run)
{
	if (!run)
		return;
	run_clear(run);
	if (run->owns_job)
		job_free(run->job);
	replay_close(run->replay);
	free(run);
}

int hwi_merge(const char *const *paths, size_t n, const char *output, struct hiw_err *ret_err)
{
	struct err err = { "" };

	return api_err(ret_err, &err, merge_recordings(paths, n, output, &err));
}

void hwi_settle(const char *path)
{
	store_settle(path);
}

bool hwi_run_lacks_parts(const struct hiw_run *run)
{
	const struct parts *parts = job_parts(run->job);

	return parts && !parts_are_complete(parts);
}

int hwi_run_copy(struct hiw_run *run, const char *path, struct hiw_err *ret_err)
{
	struct err err = { "" };
	int r = run->replay
			? replay_copy(run->replay, path, &err)
			: err_set(&err, -EINVAL, "cannot copy the run of a recorder; open its recording instead");

	return api_err(ret_err, &err, r);
}

static struct hiw_ram ram_of(const struct ram_figure *f)
{
	return (struct hiw_ram) {
		.peak = api_maybe(f->peak),
		.low = api_maybe(f->low),
		.high = api_maybe(f->high),
		.mean = api_maybe(f->mean),
		.private_bytes = api_maybe(f->private_bytes),
		.shared_bytes = api_maybe(f->shared_bytes),
		.at_ns = api_maybe(f->at_ns),
		.method = (enum hiw_method) f->method,
		.source = f->source,
	};
}

/* Fields that are missing from the header of an older caller are not written. */
int hiw_run_figures(struct hiw_run *run, struct hiw_figures *ret)
{
	const size_t size = ret->size < sizeof(*ret) ? ret->size : sizeof(*ret);
	int r = run_summarise(run, false);
	const struct summary *s = &run->summary;

	if (r < 0)
		return r;
	const struct hiw_figures figures = {
		.size = ret->size,
		.complete = s->complete,
		.oom_killed = s->oom_killed,
		.cpu_exact = s->cpu_exact,
		.exit_status = api_maybe(s->facts->exit_status),
		.wall_ns = api_maybe(s->wall_ns),
		.user_ns = api_maybe(s->user_ns),
		.system_ns = api_maybe(s->system_ns),
		.main = ram_of(&s->main),
		.descendants = ram_of(&s->descendants),
		.combined = ram_of(&s->combined),
		.swap_peak = api_maybe(s->swap_peak),
		.read_bytes = api_maybe(s->read_bytes),
		.write_bytes = api_maybe(s->write_bytes),
		.cpu_energy_uj = api_maybe(s->cpu_energy_uj),
		.processes_seen = api_maybe(s->facts->processes_seen),
		.peak_alive = api_maybe(s->peak_alive),
		.processes_left = api_maybe(s->facts->processes_left),
	};
	memcpy(ret, &figures, size);
	return 0;
}

static const enum sink_kind kinds[] = {
	[HIW_TEXT] = SINK_TEXT,
	[HIW_LINE] = SINK_LINE,
	[HIW_JSON] = SINK_JSON,
	[HIW_PROGRESS] = SINK_PROGRESS,
	[HIW_JSON_LINE] = SINK_JSON_LINE,
	[HIW_MARKDOWN] = SINK_MARKDOWN,
};

int hiw_run_text(struct hiw_run *run, enum hiw_format format, const struct hiw_style *style, char **ret,
	size_t *ret_len, struct hiw_err *ret_err)
{
	static const struct hiw_style plain_style = { .size = sizeof(plain_style) };
	char history[4096];

	style = style ? style : &plain_style;
	const struct sink_options options = {
		.units = (enum units) style->units,
		.width = style->width ? style->width : 80,
		.color = style->color,
		.utf8 = style->utf8,
		.plain = style->plain,
		.why = style->why,
		.progress = &run->progress,
		.history = history_dir(history, sizeof(history), NULL) == 0 ? history : NULL,
	};
	struct buf out = BUF_INIT(64 << 20);
	struct err err = { "" };
	int r = (unsigned) format < sizeof(kinds) / sizeof(kinds[0])
			? 0
			: err_set(&err, -EINVAL, "unknown format %d", (int) format);

	if (r == 0)
		r = run_summarise(run, format != HIW_PROGRESS);

	if (r == 0)
		r = sink_summary(kinds[format], &run->summary, &options, &out);
	if (r == 0) {
		if (ret_len)
			*ret_len = out.len;
		*ret = strdup(out.data);
		r = *ret ? 0 : -ENOMEM;
	}
	buf_done(&out);
	return api_err(ret_err, &err, r);
}

bool hwi_run_is_leader(struct hiw_run *run)
{
	const struct facts *f = job_facts_const(run->job);

	return !f->rank.known || f->rank.value == 0;
}

/* ---- the history ----------------------------------------------------------------------------- */

static struct hiw_entry entry_of(const struct history_entry *e)
{
	return (struct hiw_entry) {
		.number = e->number,
		.path = e->path,
		.name = e->name,
		.command = e->command,
		.started_wall_ns = e->started_wall_ns,
		.wall_ns = e->wall_ns,
		.exit_status = { e->status.value, e->complete && e->status.known },
		.complete = e->complete,
		.running = e->running,
		.pinned = e->pinned,
		.peak_bytes = api_maybe(e->peak_bytes),
		.file_bytes = e->file_bytes,
		.note = e->note,
		.raised = e->raised,
		.is_folder = e->is_folder,
		.ranks = e->is_folder ? api_maybe(e->ranks) : (struct hiw_maybe) { 0 },
		.nodes = e->is_folder ? api_maybe(e->nodes) : (struct hiw_maybe) { 0 },
	};
}

int hiw_history(bool (*see)(void *ctx, const struct hiw_entry *entry), void *ctx, struct hiw_err *ret_err)
{
	struct history history = { 0 };
	struct err err = { "" };
	int r = history_read(&history, &err);
	bool more = r == 0;

	for (size_t i = 0; more && i < history.n; i++) {
		const struct hiw_entry entry = entry_of(&history.entries[i]);

		more = see(ctx, &entry);
	}
	history_done(&history);
	return api_err(ret_err, &err, r);
}

int hwi_history_folder(char *ret, size_t size)
{
	struct err err = { "" };

	return history_dir(ret, size, &err);
}

int hwi_history_remove(const char *run, struct hiw_err *ret_err)
{
	struct err err = { "" };

	return api_err(ret_err, &err, history_remove(run, &err));
}

int hwi_history_may_remove(const char *path, struct hiw_err *ret_err)
{
	struct err err = { "" };

	return api_err(ret_err, &err, history_may_remove(path, &err));
}

/* ---- rules about a recording ----------------------------------------------------------------- */

/* The rules in their order, and how each is checked. */
struct checking {
	struct watch *watch;
	size_t n, n_watched;
	struct {
		enum check_by by;
		struct rule rule;   /* if checked against the summary */
		size_t watched;     /* else: its number in watch */
	} *rules;
};

static int add_rule(struct checking *c, const char *text, struct err *err)
{
	struct rule rule;
	int r = rule_parse(text, RULE_CHECK, &rule, err);

	if (r < 0)
		return r;
	const enum check_by by = check_by(&rule);

	c->rules[c->n].by = by;
	if (by == CHECK_SUMMARY) {
		c->rules[c->n++].rule = rule;
		return 0;
	}
	r = watch_add(c->watch, &rule);
	if (r == -E2BIG)
		return err_set(err, -EINVAL, "more than %d rules; check them in two runs of the command",
			WATCH_RULES);
	if (r < 0)
		return r;
	c->rules[c->n++].watched = (size_t) r;
	c->n_watched++;
	return 0;
}

static void checking_done(struct checking *c)
{
	for (size_t i = 0; i < c->n; i++)
		rule_done(&c->rules[i].rule);
	free(c->rules);
	watch_free(c->watch);
}

static bool see_frame(void *ctx, const struct frame *frame)
{
	struct checking *c = ctx;
	struct alert alert;

	watch_frame(c->watch, frame);
	while (watch_next(c->watch, &alert))
		; /* the history that the watch keeps of each rule decides, not single alerts */
	return true;
}

static void judge(struct hiw_run *run, struct checking *c, size_t i, struct check_result *ret)
{
	const enum check_by by = c->rules[i].by;
	const struct rule *rule = by == CHECK_SUMMARY ? &c->rules[i].rule
						      : watch_rule(c->watch, c->rules[i].watched);

	if (by == CHECK_SUMMARY)
		check_final(rule, &run->summary, ret);
	else if (by == CHECK_END)
		check_end(c->watch, c->rules[i].watched, ret);
	else
		check_ever(c->watch, c->rules[i].watched, ret);
	if (!run->summary.complete)
		check_unfinished(rule, ret);
	if (job_parts(run->job))
		check_lacking(job_parts(run->job), ret);
}

static void report_results(struct hiw_run *run, struct checking *c, const char *const *rules,
	void (*see)(void *ctx, const struct hiw_checked *checked), void *ctx)
{
	static const enum hiw_check_result verdicts[] = {
		[RESULT_PASS] = HIW_PASS, [RESULT_FAIL] = HIW_FAIL, [RESULT_INCOMPLETE] = HIW_INCOMPLETE
	};

	for (size_t i = 0; i < c->n; i++) {
		struct check_result v;

		judge(run, c, i, &v);
		const struct hiw_checked checked = {
			.result = verdicts[v.kind],
			.rule = rules[i],
			.text = v.text,
			.value = v.number,
			.at_ns = api_maybe(v.at_ns),
		};

		see(ctx, &checked);
	}
}

int hiw_run_check(struct hiw_run *run, const char *const *rules, size_t n,
	void (*see)(void *ctx, const struct hiw_checked *checked), void *ctx, struct hiw_err *ret_err)
{
	struct checking c = { .rules = calloc(n + 1, sizeof(*c.rules)),
		.watch = watch_new(job_facts_const(run->job)) };
	struct err err = { "" };
	int r = c.rules && c.watch ? 0 : -ENOMEM;

	if (r == 0 && !run->replay)
		r = err_set(&err, -EINVAL,
			"cannot check the run of a recorder; use its alerts, or open its recording");
	for (size_t i = 0; r == 0 && i < n; i++)
		r = add_rule(&c, rules[i], &err);
	if (r == 0 && c.n_watched)
		r = replay_frames(run->replay, true, see_frame, &c, &err);
	if (r == 0)
		r = run_summarise(run, false);
	if (r == 0)
		report_results(run, &c, rules, see, ctx);
	checking_done(&c);
	return api_err(ret_err, &err, r);
}

/* ---- a recording in other programs' formats -------------------------------------------------- */

static bool export_frame(void *ctx, const struct frame *frame)
{
	return export_see(ctx, frame);
}

static struct export_options export_options_of(const struct hiw_export *what)
{
	struct hiw_export given = { .size = sizeof(given) };

	memcpy(&given, what, what->size < sizeof(given) ? what->size : sizeof(given));
	return (struct export_options) {
		.to = given.to ? given.to : "",
		.table = given.entity,
		.recent = given.recent,
		.redact = given.redact,
		.series = given.series,
		.n_series = given.n_series,
		.width = given.width,
		.height = given.height,
		.attributes = given.attributes,
		.n_attributes = given.n_attributes,
		.gzip = given.gzip,
		.write = given.write,
		.ctx = given.ctx,
	};
}

static int new_export(
	struct hiw_run *run, const struct export_options *options, struct export **ret, struct err *err)
{
	if (!run->replay)
		return err_set(err, -EINVAL,
			"cannot export the run of a recorder; open its recording instead");
	return export_new(run->job, options, ret, err);
}

/* Opens the traced work for a format that has it; *ret stays NULL without any. */
static int read_trace(struct hiw_run *run, const char *to, struct trace_read **ret, struct err *err)
{
	const enum export_trace use = run->replay ? export_trace_use(to) : EXPORT_TRACE_NONE;
	int r = use == EXPORT_TRACE_NONE ? 0 : trace_read_new(run->replay, ret, err);

	if (r == -ENOENT && use == EXPORT_TRACE_MAY) {
		*err = (struct err) { "" };
		r = 0;
	}
	return r;
}

int hiw_run_export(struct hiw_run *run, const struct hiw_export *what, struct hiw_err *ret_err)
{
	struct export_options options = export_options_of(what);
	struct err err = { "" }, end_err = { "" };
	struct export *e = NULL;
	struct summary summary;
	int r, end;

	r = summary_make(run->job, &summary);
	if (r < 0)
		return r;
	summary.lost = run->replay && !summary.complete && !replay_growing(run->replay);
	options.summary = &summary;
	r = read_trace(run, options.to, &options.trace, &err);
	if (r == 0)
		r = new_export(run, &options, &e, &err);
	if (r < 0) {
		trace_read_free(options.trace);
		summary_done(&summary);
		return api_err(ret_err, &err, r);
	}
	if (export_wanted(e))
		r = replay_frames_of(
			run->replay, export_wants_recent(e), export_wanted(e), export_frame, e, &err);
	else
		r = replay_frames(run->replay, export_wants_recent(e), export_frame, e, &err);
	end = export_end(e, r == 0, &end_err);
	trace_read_free(options.trace);
	summary_done(&summary);
	return end < 0 ? api_err(ret_err, &end_err, end) : api_err(ret_err, &err, r);
}

struct hwi_exporting {
	struct export *e;
	struct player *player;
};

int hwi_exporting_new(struct hiw_run *run, const struct hiw_export *what, struct hwi_exporting **ret,
	struct hiw_err *ret_err)
{
	struct export_options options = export_options_of(what);
	struct hwi_exporting *x = calloc(1, sizeof(*x));
	struct err err = { "" };
	int r;

	options.aggregate = true;
	r = x ? new_export(run, &options, &x->e, &err) : -ENOMEM;
	if (r == 0)
		r = player_new(run->replay, export_frame, x->e, &x->player);
	if (r < 0) {
		if (x && x->e)
			(void) export_end(x->e, false, NULL);
		free(x);
	} else {
		*ret = x;
	}
	return api_err(ret_err, &err, r);
}

int hwi_exporting_more(struct hwi_exporting *x, struct hiw_err *ret_err)
{
	struct err err = { "" };
	int r = player_to(x->player, UINT64_MAX, &err);

	if (r == 0)
		r = export_pause(x->e);
	return api_err(ret_err, &err, r);
}

void hwi_exporting_free(struct hwi_exporting *x)
{
	if (!x)
		return;
	player_free(x->player);
	(void) export_end(x->e, false, NULL);
	free(x);
}

/* ---- the incident: data from the run's recording, worded by findings/ ------------------------ */

enum {
	MOST = 4000000
};
static const uint64_t high_late_ns = 1000000000;

struct gathering {
	struct incident_use *used;   /* memory of each process at the moment */
	struct incident_level *levels; /* the memory's history before it */
	size_t n_used, cap_used, n_levels, cap_levels;
	int error;
};

static void add_used(void *ctx, uint32_t id, int64_t bytes)
{
	struct gathering *g = ctx;

	if (g->error == 0)
		g->error = vec_reserve(&g->used, &g->cap_used, g->n_used, sizeof(*g->used), MOST);
	if (g->error == 0)
		g->used[g->n_used++] = (struct incident_use) { id, bytes };
}

static void add_level(void *ctx, uint64_t time_ns, int64_t bytes)
{
	struct gathering *g = ctx;

	if (g->error == 0)
		g->error = vec_reserve(&g->levels, &g->cap_levels, g->n_levels, sizeof(*g->levels), MOST);
	if (g->error == 0)
		g->levels[g->n_levels++] = (struct incident_level) { time_ns, bytes };
}

/* For a run that was just measured the recording is opened and read back; without a recording there
 * is no data. */
static void gather(struct hiw_run *run, const struct incident_moment *of, struct gathering *g)
{
	const struct replay_frame_fn seer = { add_used, add_level, g };
	const char *path = job_facts_const(run->job)->recording;
	struct replay *opened = NULL;

	struct replay *from = run->replay;

	if (!from && path && replay_open(path, &opened, NULL) == 0)
		from = opened;
	if (from)
		g->error = replay_moment(from, of->at_ns, of->on_gpu, of->of_limit, &seer);
	/* The end of a process is seen a little late, and so is a high. */
	if (from && run->touched && !of->on_gpu)
		(void) touched_read(from, &run->summary.combined, of->at_ns + high_late_ns,
			&run->touched_then);
	replay_close(opened);
}

int run_add_incident(struct hiw_run *run)
{
	struct gathering g = { 0 };
	struct incident_moment moment;
	int r;

	if (!incident_when(&run->summary, &moment))
		return 0;
	gather(run, &moment, &g);
	moment.uses = g.used;
	moment.n_uses = g.n_used;
	moment.levels = g.levels;
	moment.n_levels = g.n_levels;
	moment.touched = run->touched_then;
	r = incident_make(&run->summary, &moment);
	free(g.used);
	free(g.levels);
	return r < 0 ? r : g.error == -ENOMEM ? g.error
					      : 0;
}

void hiw_recorder_trigger(struct hiw_recorder *r, const char *why)
{
	sampler_now(r->sampler);
	sampler_trigger(r->sampler, why);
}

/* ---- the other ranks of a run's job, from their recordings in the same folder ---------------- */

/* Adds the recording's rank, if it is another rank of the same job. */
static void add_rank(const struct facts *own, const char *path, struct other_rank *ranks, size_t *n)
{
	struct replay *replay = NULL;
	struct job *job = NULL;

	if (replay_open(path, &replay, NULL) == 0 && replay_job(replay, &job, NULL) == 0) {
		const struct facts *f = job_facts_const(job);
		const double step_s = findings_step_s(job);

		if (is_same(own->scheduler_job, f->scheduler_job) && f->rank.known &&
			f->rank.value != own->rank.value && step_s >= 0)
			ranks[(*n)++] = (struct other_rank) { f->rank.value, step_s };
	}
	job_free(job);
	replay_close(replay);
}

static void read_folder(
	const struct facts *own, const char *folder, uint64_t until_ns, struct other_rank *ranks, size_t *n)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	char path[4096];

	while (dir && *n < RANKS_MOST && clock_boot_ns() < until_ns && (entry = readdir(dir))) {
		const size_t len = strlen(entry->d_name);
		const int size = snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);

		if (len > 4 && strcmp(entry->d_name + len - 4, ".hiw") == 0 && size > 0 &&
			(size_t) size < sizeof(path))
			add_rank(own, path, ranks, n);
	}
	if (dir)
		(void) closedir(dir);
}

struct other_rank *read_ranks(const struct hiw_run *run, size_t *ret_n)
{
	const struct facts *f = job_facts_const(run->job);
	const char *slash = f->recording ? strrchr(f->recording, '/') : NULL;
	const uint64_t until = clock_boot_ns() + (run->replay ? later_patience_ns : end_patience_ns);
	struct other_rank *ranks;
	char folder[4096];

	*ret_n = 0;
	if (!f->recording || !f->rank.known || !f->ranks.known || f->ranks.value < 2 ||
		findings_step_s(run->job) < 0)
		return NULL;
	ranks = calloc(RANKS_MOST, sizeof(*ranks));
	(void) snprintf(folder, sizeof(folder), "%.*s", slash ? (int) (slash - f->recording) : 1,
		slash ? f->recording : ".");
	if (ranks)
		read_folder(f, *folder ? folder : "/", until, ranks, ret_n);
	return ranks;
}

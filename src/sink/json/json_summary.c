/* SPDX-License-Identifier: MIT
 *
 * The summary for programs: docs/summary.schema.json is the contract. Base units only; unknown
 * values are null.
 */
#include "sink/json/json_summary.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "sink/argv.h"
#include "sink/figures.h"
#include "summary/ranks.h"

static void key_joules(struct json *j, const char *key, struct maybe uj)
{
	json_key(j, key);
	if (uj.known)
		json_num(j, (double) uj.value / 1e6);
	else
		json_null(j);
}

/* ---- which run ------------------------------------------------------------------------------------------------------ */

static void see_argument(void *ctx, const char *text)
{
	json_str(ctx, text);
}

static void see_nothing(void *ctx, const char *text)
{
	(void) ctx;
	(void) text;
}

/* The arguments as given; a command without that list (attach, a damaged recording) is one string. */
static void command(struct json *j, const struct facts *f)
{
	json_key(j, "command");
	json_array(j);
	if (f->argv_json && argv_each(f->argv_json, see_nothing, NULL) == 0)
		(void) argv_each(f->argv_json, see_argument, j);
	else if (f->command)
		json_str(j, f->command);
	json_end(j);
}

static void identity(struct json *j, const struct summary *s)
{
	const struct facts *f = s->facts;
	char date[UNITS_LEN];

	json_key(j, "schema");
	json_int(j, 2);
	json_key_str(j, "hiwater", f->version ? f->version : HIW_VERSION);
	json_key_object(j, "run");
	json_key_str(j, "id", f->id);
	json_key_str(j, "name", f->name);
	json_key_str(j, "note", f->note);
	json_key_str(j, "recording", f->recording);
	json_key(j, "complete");
	json_bool(j, s->complete);
	json_end(j);
	command(j, f);
	json_key_str(j, "host", f->host);
	json_key_str(j, "started",
		f->started_wall_ns.known ? units_rfc3339((uint64_t) f->started_wall_ns.value, date) : NULL);
}

static void exit_and_time(struct json *j, const struct summary *s)
{
	const struct ending end = ending_of(s);

	json_key_object(j, "exit");
	json_key_maybe(j, "code", end.code_known ? known(end.code) : UNKNOWN);
	json_key_maybe(j, "signal", end.outcome == OUTCOME_SIGNAL ? known(end.signal) : UNKNOWN);
	json_key(j, "oom_killed");
	json_bool(j, s->oom_killed);
	json_key_str(j, "raised", end.outcome == OUTCOME_RAISED ? s->facts->raised : NULL);
	json_end(j);
	json_key_object(j, "time");
	json_key_seconds(j, "wall_s", s->wall_ns);
	json_key_seconds(j, "main_wall_s", s->main_wall_ns);
	json_key_seconds(j, "user_s", s->user_ns);
	json_key_seconds(j, "system_s", s->system_ns);
	json_end(j);
}

/* ---- resources --------------------------------------------------------------------------------------------------- */

static void ram_figure(struct json *j, const char *key, const struct ram_figure *r)
{
	json_key_object(j, key);
	json_key_maybe(j, "peak_bytes", r->peak);
	json_key_maybe(j, "low_bytes", r->low);
	json_key_maybe(j, "high_bytes", r->high);
	json_key_maybe(j, "private_bytes", r->private_bytes);
	json_key_maybe(j, "shared_bytes", r->shared_bytes);
	json_key_maybe(j, "mean_bytes", r->mean);
	json_key_seconds(j, "at_s", r->at_ns);
	json_key_str(j, "method", r->method == METHOD_UNKNOWN ? NULL : method_name(r->method));
	json_key_str(j, "source", r->source);
	json_end(j);
}

/* Huge pages are in no resident size, and the kernel has no high-water mark of them. */
static void hugetlb(struct json *j, const struct summary *s)
{
	const enum method method = s->hugetlb_at_most ? METHOD_BOUNDED : METHOD_SAMPLED;

	json_key_object(j, "hugetlb");
	json_key_maybe(j, "peak_bytes", s->hugetlb_peak);
	json_key_str(j, "method", s->hugetlb_peak.known ? method_name(method) : NULL);
	json_end(j);
}

static void shmem(struct json *j, const struct summary *s)
{
	const enum method method = s->shmem_at_most ? METHOD_BOUNDED : METHOD_SAMPLED;
	const char *source = s->shmem_at_most ? "meminfo" : "cgroup";

	json_key_object(j, "shmem");
	json_key_maybe(j, "peak_bytes", s->shmem_peak);
	json_key_str(j, "method", s->shmem_peak.known ? method_name(method) : NULL);
	json_key_str(j, "source", s->shmem_peak.known ? source : NULL);
	json_end(j);
}

static void rlimit(struct json *j, const char *key, struct maybe limit, struct maybe peak, struct maybe pid,
	const char *name)
{
	json_key(j, key);
	if (!limit.known) {
		json_null(j);
		return;
	}
	json_object(j);
	json_key_maybe(j, "limit_bytes", limit);
	json_key_maybe(j, "peak_bytes", peak);
	json_key_maybe(j, "pid", pid);
	json_key_str(j, "name", name);
	json_end(j);
}

/* Limits of single processes; null: none. Linux ignores that of the resident size. */
static void rlimits(struct json *j, const struct facts *f)
{
	json_key_object(j, "rlimits");
	rlimit(j, "address_space", f->vm_limit_bytes, f->vm_peak_bytes, f->vm_pid, f->vm_name);
	rlimit(j, "data", f->data_limit_bytes, f->data_peak_bytes, f->data_pid, f->data_name);
	json_key_maybe(j, "rss_bytes", f->rss_limit_bytes);
	json_end(j);
}

static void ram(struct json *j, const struct summary *s)
{
	json_key_object(j, "ram");
	json_key_maybe(j, "capacity_bytes", s->facts->capacity_bytes);
	json_key_maybe(j, "limit_bytes", s->facts->limit_bytes);
	json_key_object(j, "system");
	json_key_maybe(j, "peak_bytes", s->system_peak);
	json_end(j);
	ram_figure(j, "main", &s->main);
	ram_figure(j, "descendants", &s->descendants);
	ram_figure(j, "combined", &s->combined);
	hugetlb(j, s);
	shmem(j, s);
	json_key_maybe(j, "unreclaimable_peak_bytes", s->unreclaimable_peak);
	rlimits(j, s->facts);
	json_key(j, "cgroup");
	if (s->cgroup_peak.known || s->cgroup_limit.known || s->cgroup_oom_kills.known) {
		json_object(j);
		json_key_maybe(j, "peak_bytes", s->cgroup_peak);
		json_key_str(j, "method",
			s->cgroup_method == METHOD_UNKNOWN ? NULL : method_name(s->cgroup_method));
		json_key_maybe(j, "limit_bytes", s->cgroup_limit);
		json_key_maybe(j, "oom_kills", s->cgroup_oom_kills);
		json_end(j);
	} else {
		json_null(j);
	}
	json_end(j);
}

static void key_ratio(struct json *j, const char *key, struct maybe ppm)
{
	json_key(j, key);
	if (ppm.known)
		json_num(j, (double) ppm.value / 1e6);
	else
		json_null(j);
}

/* Of the whole node; null where it has no active port. */
static void fabric(struct json *j, const struct summary *s)
{
	json_key(j, "fabric");
	if (!s->facts->fabric_ports) {
		json_null(j);
		return;
	}
	json_object(j);
	json_key_str(j, "ports", s->facts->fabric_ports);
	json_key_maybe(j, "rate_bits_per_s", s->facts->fabric_bits_per_s);
	json_key_maybe(j, "rx_bytes", s->fabric_rx_bytes);
	json_key_maybe(j, "tx_bytes", s->fabric_tx_bytes);
	json_key_maybe(j, "errors", s->fabric_errors);
	key_ratio(j, "busiest_mean", summary_mean(s, M_HOST_FABRIC_BUSIEST, 0));
	key_ratio(j, "busiest_max", summary_most(s, M_HOST_FABRIC_BUSIEST, 0));
	json_end(j);
}

static void rest_of_use(struct json *j, const struct summary *s)
{
	json_key(j, "gpu");
	json_gpu(j, s);
	json_key_object(j, "io");
	/* Cancelled writes are subtracted, and may have been written before the run. */
	json_key_maybe(j, "read_bytes", s->read_bytes);
	json_key_maybe(j, "write_bytes", s->write_bytes.known ? maybe_max(s->write_bytes, known(0)) : UNKNOWN);
	json_end(j);
	fabric(j, s);
	json_key_object(j, "energy");
	key_joules(j, "cpu_j", s->cpu_energy_uj);
	key_joules(j, "gpu_j", s->gpu_energy_uj);
	json_end(j);
	json_key_object(j, "swap");
	json_key_maybe(j, "peak_bytes", s->swap_peak);
	json_end(j);
}

/* ---- its parts ------------------------------------------------------------------------------------------------------ */

static void process(struct json *j, const struct process *p)
{
	char name[sizeof(p->name) + 1] = "";

	for (size_t i = 0; i < sizeof(p->name); i++)
		name[i] = p->name[i];
	json_object(j);
	json_key_maybe(j, "pid", known(p->pid));
	json_key_str(j, "name", name);
	/* A running program has memory: 0 means that it ended before the first sample. */
	json_key_maybe(j, "peak_bytes", p->peak_bytes > 0 ? known(p->peak_bytes) : UNKNOWN);
	json_key_seconds(j, "cpu_s", p->cpu_known ? known(p->cpu_user_ns + p->cpu_system_ns) : UNKNOWN);
	json_key_maybe(j, "rank", p->rank);
	json_end(j);
}

static int ranks(struct json *j, const struct summary *s)
{
	struct rank_use *list;
	size_t n;
	const int code = ranks_of(s->job, &list, &n);

	json_key_maybe(j, "ranks_started", s->facts->worker_ranks);
	json_key(j, "ranks");
	json_array(j);
	for (size_t i = 0; i < n; i++) {
		json_object(j);
		json_key_maybe(j, "rank", known(list[i].rank));
		json_key_maybe(j, "processes", known((int64_t) list[i].processes));
		json_key_maybe(j, "peak_bytes", list[i].peak_bytes);
		json_key_seconds(j, "cpu_s", list[i].cpu_ns);
		json_end(j);
	}
	json_end(j);
	free(list);
	return code;
}

static int processes(struct json *j, const struct summary *s)
{
	const struct process **list;
	size_t n;
	int code = figure_processes(s->job, &list, &n);

	if (code < 0)
		return code;
	json_key_object(j, "processes");
	json_key_maybe(j, "seen", s->facts->processes_seen);
	json_key(j, "seen_at_least");
	json_bool(j, s->seen_at_least);
	json_key_maybe(j, "peak_alive", s->peak_alive);
	json_key_maybe(j, "left", s->facts->processes_left);
	json_key(j, "list");
	json_array(j);
	for (size_t i = 0; i < n && i < JSON_PROCESSES; i++)
		process(j, list[i]);
	json_end(j);
	code = ranks(j, s);
	json_end(j);
	free(list);
	return code;
}

/* Lines of KEY=VALUE. */
static void phase_facts(struct json *j, const char *text)
{
	json_key_object(j, "facts");
	while (*text) {
		const size_t len = strcspn(text, "\n"), key_len = strcspn(text, "=\n");
		autofree char *key = strndup(text, key_len);
		autofree char *value = key_len < len ? strndup(text + key_len + 1, len - key_len - 1) : NULL;

		if (key && *key)
			json_key_str(j, key, value ? value : "");
		text += len + (text[len] == '\n');
	}
	json_end(j);
}

static void phase_use(struct json *j, const struct job *job, const struct phase *p)
{
	const struct phase_use *u = &p->use;
	const struct maybe peak = job_phase_gpu_peak(job, p);

	json_key(j, "gpu");
	if (!peak.known && !u->work[GPU_WORK_BUSY].known && !u->work[GPU_WORK_SM].known) {
		json_null(j);
	} else {
		json_object(j);
		json_key_maybe(j, "before_bytes", peak.known ? u->gpu_before : UNKNOWN);
		json_key_maybe(j, "peak_bytes", peak);
		json_key_maybe(j, "after_bytes", peak.known && p->end_ns ? u->gpu_after : UNKNOWN);
		json_key_str(j, "method", peak.known ? method_name(METHOD_SAMPLED) : NULL);
		key_ratio(j, "gpu_mean", u->work[GPU_WORK_BUSY]);
		key_ratio(j, "sm_active_mean", u->work[GPU_WORK_SM]);
		json_end(j);
	}
	json_key_object(j, "energy");
	key_joules(j, "cpu_j", u->cpu_energy_uj);
	key_joules(j, "gpu_j", u->gpu_energy_uj);
	json_key_str(j, "method",
		u->cpu_energy_uj.known || u->gpu_energy_uj.known ? method_name(METHOD_SAMPLED) : NULL);
	json_end(j);
}

static void phase(struct json *j, const struct job *job, const struct phase *p)
{
	json_object(j);
	json_key_str(j, "name", p->name);
	phase_facts(j, p->facts ? p->facts : "");
	json_key_seconds(j, "begin_s", known((int64_t) p->begin_ns));
	json_key_seconds(j, "end_s", p->end_ns ? known((int64_t) p->end_ns) : UNKNOWN);
	json_key_object(j, "ram");
	json_key_maybe(j, "before_bytes", p->ram_known ? known(p->ram_before) : UNKNOWN);
	json_key_maybe(j, "peak_bytes", p->ram_known ? known(p->ram_peak) : UNKNOWN);
	json_key_maybe(j, "after_bytes", p->ram_known && p->end_ns ? known(p->ram_after) : UNKNOWN);
	json_key_str(j, "method",
		p->ram_known ? method_name(p->peak_exact ? METHOD_EXACT : METHOD_SAMPLED) : NULL);
	json_key_maybe(j, "job_peak_bytes", p->use.job_peak);
	json_end(j);
	json_key_seconds(j, "cpu_s", p->use.cpu_ns);
	phase_use(j, job, p);
	json_end(j);
}

static void one_series(struct json *j, const struct series *v)
{
	json_key_object(j, v->name);
	json_key_maybe(j, "n", known((int64_t) v->n));
	json_key(j, "first");
	json_num(j, v->first);
	json_key(j, "last");
	json_num(j, v->last);
	json_key(j, "min");
	json_num(j, v->min);
	json_key(j, "max");
	json_num(j, v->max);
	json_key(j, "sum");
	json_num(j, v->sum);
	json_key_maybe(j, "last_step", v->has_step ? known(v->last_step) : UNKNOWN);
	json_end(j);
}

static void phases_and_series(struct json *j, const struct summary *s)
{
	json_key(j, "phases");
	json_array(j);
	for (size_t i = 0; s->job && i < job_phase_count(s->job); i++)
		phase(j, s->job, job_phase(s->job, i));
	json_end(j);
	json_key_object(j, "series");
	for (size_t i = 0; s->job && i < job_series_count(s->job); i++)
		one_series(j, job_series(s->job, i));
	json_end(j);
}

static void marks(struct json *j, const struct summary *s)
{
	const size_t n = s->job ? job_mark_count(s->job) : 0;

	json_key_object(j, "marks");
	json_key_maybe(j, "seen", s->facts->marks_seen.known ? s->facts->marks_seen : known((int64_t) n));
	json_key(j, "list");
	json_array(j);
	for (size_t i = 0; i < n; i++) {
		json_object(j);
		json_key_seconds(j, "time_s", known((int64_t) job_mark(s->job, i)->time_ns));
		json_key_str(j, "text", job_mark(s->job, i)->text);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

/* ---- sampling, findings, the incident ---------------------------------------------------------------------------------------- */

/* A recording may have any text. */
static bool is_gap_cause(const char *text)
{
	return text && (strcmp(text, "suspended") == 0 || strcmp(text, "stopped") == 0 || strcmp(text, "busy") == 0);
}

static void sampling(struct json *j, const struct facts *f)
{
	json_key_object(j, "sampling");
	json_key_seconds(j, "interval_s", f->interval_ns);
	json_key_maybe(j, "samples", f->samples);
	json_key_maybe(j, "late_samples", f->late_samples);
	if (f->skipped_samples.known)
		json_key_maybe(j, "skipped_samples", f->skipped_samples);
	json_key_seconds(j, "longest_gap_s", f->longest_gap_ns);
	if (is_gap_cause(f->longest_gap_cause))
		json_key_str(j, "longest_gap_cause", f->longest_gap_cause);
	json_key_seconds(j, "cpu_s", f->own_cpu_ns);
	json_key_maybe(j, "rss_peak_bytes", f->own_rss_bytes);
	if (f->gpu_longest_gap_ns.known)
		json_key_seconds(j, "gpu_longest_gap_s", f->gpu_longest_gap_ns);
	if (f->gpu_helper_cpu_ns.known)
		json_key_seconds(j, "gpu_helper_cpu_s", f->gpu_helper_cpu_ns);
	if (f->gpu_helper_rss_bytes.known)
		json_key_maybe(j, "gpu_helper_rss_bytes", f->gpu_helper_rss_bytes);
	if (f->where_cpu_ns.known)
		json_key_seconds(j, "where_cpu_s", f->where_cpu_ns);
	if (f->where_rss_bytes.known)
		json_key_maybe(j, "where_rss_bytes", f->where_rss_bytes);
	json_end(j);
}

/* The evidence of one device; 0: of the finding as a whole. */
static void evidence_of(struct json *j, const struct finding *f, unsigned device)
{
	for (unsigned i = 0; i < f->n_evidence; i++) {
		const struct evidence *e = &f->evidence[i];

		if (e->device != device)
			continue;
		json_key(j, e->key);
		if (e->text)
			json_str(j, e->text);
		else
			json_num(j, e->value);
	}
}

static void evidence(struct json *j, const struct finding *f)
{
	json_key_object(j, "evidence");
	evidence_of(j, f, 0);
	if (f->n_devices > 0) {
		json_key(j, "devices");
		json_array(j);
		for (unsigned device = 1; device <= f->n_devices; device++) {
			json_object(j);
			evidence_of(j, f, device);
			json_end(j);
		}
		json_end(j);
	}
	if (f->fired) {
		json_key_seconds(j, "from_s", known((int64_t) f->from_ns));
		json_key_seconds(j, "to_s", known((int64_t) f->to_ns));
	}
	json_end(j);
}

static void findings(struct json *j, const struct summary *s, bool why)
{
	static const char *const severities[] = {
		[SEVERITY_HINT] = "hint",
		[SEVERITY_WARN] = "warn",
		[SEVERITY_ERROR] = "error",
	};

	json_key(j, "findings");
	json_array(j);
	for (size_t i = 0; i < s->n_findings; i++) {
		const struct finding *f = &s->findings[i];

		if (!f->fired && !why)
			continue;
		json_object(j);
		json_key_str(j, "code", f->code);
		json_key_str(j, "severity", severities[f->severity]);
		json_key_str(j, "message", f->fired ? f->message : NULL);
		evidence(j, f);
		if (why) {
			json_key(j, "fired");
			json_bool(j, f->fired);
			json_key_str(j, "why_not", f->fired ? NULL : f->why_not);
		}
		json_end(j);
	}
	json_end(j);
}

static void incident(struct json *j, const struct incident *incident)
{
	if (!incident->what) {
		json_key_str(j, "incident", NULL);
		return;
	}
	json_key_object(j, "incident");
	json_key_str(j, "event", incident->what);
	json_key_seconds(j, "at_s", known((int64_t) incident->at_ns));
	json_key_str(j, "memory", incident->on_gpu ? "gpu" : "ram");
	json_key_maybe(j, "used_bytes", incident->used);
	json_key_maybe(j, "limit_bytes", incident->limit);
	json_key_maybe(j, "requested_bytes", incident->requested);
	json_key_seconds(j, "growing_since_s", incident->since_ns);
	json_key_maybe(j, "growing_from_bytes", incident->from_bytes);
	json_key_maybe(j, "growth_bytes_per_s",
		incident->since_ns.known ? known((int64_t) incident->growth_per_s) : UNKNOWN);
	json_key(j, "filled_by");
	json_array(j);
	for (size_t i = 0; i < incident->n_parts; i++) {
		json_object(j);
		json_key_str(j, "what", fill_name(incident->parts[i].fill));
		json_key_maybe(j, "bytes", known(incident->parts[i].bytes));
		json_end(j);
	}
	json_end(j);
	json_key(j, "processes");
	json_array(j);
	for (size_t i = 0; i < incident->n_processes; i++) {
		json_object(j);
		json_key_maybe(j, "pid", known(incident->processes[i].process->pid));
		json_key_str(j, "name", incident->processes[i].process->name);
		json_key_maybe(j, "bytes", known(incident->processes[i].bytes));
		json_key(j, "killed");
		json_bool(j, incident->processes[i].killed);
		json_end(j);
	}
	json_end(j);
	json_where_then(j, incident->touched);
	json_key_maybe(j, "other_bytes", incident->other);
	json_key_str(j, "remedy", incident->advice);
	json_end(j);
}

/* ---- the request ------------------------------------------------------------------------------------------------------- */

static void key_text(struct json *j, const char *key, void (*put)(const struct request *r, struct buf *out),
	const struct request *r)
{
	struct buf text = BUF_INIT(1 << 16);

	put(r, &text);
	json_key_str(j, key, text.len > 0 ? text.data : NULL);
	buf_done(&text);
}

static void amount(struct json *j, const char *key, const struct request_amount *a, int digits)
{
	json_key_object(j, key);
	json_key(j, "need");
	if (a->need.known)
		json_decimal(j, a->need.value, (unsigned) digits);
	else
		json_null(j);
	json_key(j, "at_least");
	json_bool(j, a->is_least);
	json_key(j, "at_limit");
	json_bool(j, a->at_limit);
	json_key(j, "requested");
	if (a->requested.known)
		json_decimal(j, a->requested.value, digits == 9 ? 9 : 0);
	else
		json_null(j);
	json_key_str(j, "fit", request_fit_words(a->fit));
	json_end(j);
}

static void put_basis(const struct request *r, struct buf *out)
{
	request_basis(r, UNITS_IEC, out);
}

void json_request(struct json *j, const struct request *r)
{
	if (!r->made) {
		json_null(j);
		return;
	}
	json_object(j);
	json_key_maybe(j, "memory_bytes", r->memory.value);
	json_key_maybe(j, "cpus", r->cpus.value);
	json_key_seconds(j, "time_s", r->time.value);
	json_key_maybe(j, "gpus", r->gpus.value);
	json_key_maybe(j, "gpu_memory_bytes", r->gpu_bytes);
	json_key_maybe(j, "runs", known((int64_t) r->runs));
	json_key_maybe(j, "runs_succeeded", known((int64_t) r->whole));
	json_key_maybe(j, "runs_would_fail", known((int64_t) r->would_fail));
	json_key(j, "margin");
	json_num(j, r->margin);
	json_key(j, "quantile");
	json_num(j, r->quantile);
	amount(j, "memory", &r->memory, 0);
	amount(j, "cpu", &r->cpus, 6);
	amount(j, "time", &r->time, 9);
	amount(j, "gpu", &r->gpus, 0);
	key_text(j, "line", request_line, r);
	key_text(j, "basis", put_basis, r);
	json_key_str(j, "why_not", r->why_not[0] ? r->why_not : NULL);
	json_key_str(j, "gpus_why_not", r->gpu_why_not[0] ? r->gpu_why_not : NULL);
	json_end(j);
}

static int json_write(const struct summary *s, const struct sink_options *o, struct buf *out, bool compact)
{
	struct json j;

	json_init(&j, out, compact);
	json_object(&j);
	identity(&j, s);
	json_job(&j, s);
	exit_and_time(&j, s);
	ram(&j, s);
	rest_of_use(&j, s);
	int code = processes(&j, s);

	if (code < 0)
		return code;
	phases_and_series(&j, s);
	marks(&j, s);
	json_work(&j, s->work);
	json_where(&j, s->touched);
	sampling(&j, s->facts);
	incident(&j, &s->incident);
	json_key(&j, "request");
	json_request(&j, &s->request);
	findings(&j, s, o->why);
	json_key(&j, "notes");
	json_notes(&j, s);
	json_end(&j);
	return buf_str(out, "\n");
}

int json_sink(const struct summary *s, const struct sink_options *o, struct buf *out)
{
	return json_write(s, o, out, false);
}

int json_line_sink(const struct summary *s, const struct sink_options *o, struct buf *out)
{
	return json_write(s, o, out, true);
}

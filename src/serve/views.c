/* SPDX-License-Identifier: MIT
 *
 * The JSON answers but room: docs/serve.schema.json.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/units.h"
#include "serve/answers.h"

/* ---- shared ---------------------------------------------------------------------------------- */

const struct stream *stream_of(const struct serve *s)
{
	if (s->has_machine)
		return &s->machine;
	return s->jobs.n > 0 ? &s->jobs.list[0]->stream : NULL;
}

bool is_ready(const struct serve *s)
{
	const struct stream *st = stream_of(s);

	return st && st->host.at_ns[metric_of(HIW_HOST, "mem_used")] > 0;
}

bool window_of(const struct serve *s, const struct request *q, struct answer *a, uint64_t *ret_ns)
{
	const char *text = request_arg(q, "window");
	struct err err = { "" };
	int64_t ns = 0;

	*ret_ns = 0;
	if (!text)
		return true;
	if (units_parse_duration(text, &ns, &err) < 0 || ns <= 0)
		answer_error(a, 400, "window: %s", *err.text ? err.text : "give a time such as 5m");
	else if ((uint64_t) ns > s->o.window_ns)
		answer_error(a, 400, "window: this server keeps the last %llu s (--window)",
			(unsigned long long) (s->o.window_ns / 1000000000));
	else
		*ret_ns = (uint64_t) ns;
	return *ret_ns > 0;
}

void json_time(struct json *j, const char *key, uint64_t at_ns, uint64_t now_ns)
{
	json_key(j, key);
	if (at_ns)
		json_decimal(j, (int64_t) ((clock_wall_ns() - now_ns + at_ns) / 1000000), 3);
	else
		json_null(j);
}

void json_stamp(const struct serve *s, struct json *j)
{
	const struct stream *st = stream_of(s);
	const uint64_t now = clock_boot_ns();

	json_key(j, "schema");
	json_int(j, 1);
	json_key(j, "generation");
	json_int(j, st ? (int64_t) st->generation : 0);
	json_time(j, "at", st ? st->at_ns : 0, now);
}

static unsigned digits_of(unsigned metric)
{
	static const unsigned digits[] = {
		[HIW_UNIT_BYTES] = 0,
		[HIW_UNIT_NS] = 9,
		[HIW_UNIT_COUNT] = 0,
		[HIW_UNIT_PPM] = 6,
		[HIW_UNIT_UJ] = 6,
		[HIW_UNIT_UW] = 6,
		[HIW_UNIT_MCEL] = 3,
		[HIW_UNIT_HZ] = 0,
	};
	const struct hiw_metric *m = hiw_metric(metric);

	return m ? digits[m->unit] : 0;
}

void json_metric(struct json *j, const char *key, const struct thing *t, const char *metric, uint64_t now_ns)
{
	const unsigned m = metric_of(t->entity, metric);
	const struct hiw_maybe value = thing_value(t, m, now_ns);

	json_key(j, key);
	if (value.known)
		json_decimal(j, value.value, digits_of(m));
	else
		json_null(j);
}

static void json_known(struct json *j, const char *key, struct hiw_maybe value)
{
	json_key(j, key);
	json_maybe(j, (struct maybe) { value.value, value.known });
}

void json_spread(struct json *j, const char *key, const struct spread *s, double scale)
{
	const struct {
		const char *key;
		double value;
	} parts[] = { { "min", s->min }, { "mean", s->mean }, { "p95", s->p95 }, { "max", s->max } };

	json_key(j, key);
	if (!s->known) {
		json_null(j);
		return;
	}
	json_object(j);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		json_key(j, parts[i].key);
		json_num(j, parts[i].value / scale);
	}
	json_key(j, "covered_s");
	json_num(j, s->covered_s);
	json_end(j);
}

static void spread_of(
	struct json *j, const char *key, const struct thing *t, enum kept kept, uint64_t span, double scale)
{
	const struct spread s = thing_spread(t, kept, span, clock_boot_ns());

	json_spread(j, key, &s, scale);
}

static void begin(struct json *j, const struct serve *s, struct answer *a)
{
	json_init(j, &a->body, true);
	json_object(j);
	json_stamp(s, j);
}

static void finish(struct json *j, struct answer *a)
{
	json_end(j);
	(void) buf_str(&a->body, "\n");
}

/* ---- /-/ready and /-/healthy ----------------------------------------------------------------- */

void answer_ready(struct serve *s, const struct request *q, struct answer *a)
{
	(void) q;
	pthread_mutex_lock(&s->lock);
	const bool ready = is_ready(s);

	pthread_mutex_unlock(&s->lock);
	if (!ready) {
		answer_error(a, 503, "no sample yet");
		return;
	}
	a->type = "text/plain; charset=utf-8";
	(void) buf_str(&a->body, "ready\n");
}

static void put_source(struct json *j, const char *name, bool is_up, uint64_t at, uint64_t now)
{
	json_key(j, name);
	json_object(j);
	json_key(j, "up");
	json_bool(j, is_up);
	json_key(j, "age_s");
	if (at)
		json_decimal(j, (int64_t) ((now > at ? now - at : 0) / 1000000), 3);
	else
		json_null(j);
	json_end(j);
}

/* The note may name the server's own processes. */
static void put_sources(struct json *j, const struct serve *s, const struct viewer *v)
{
	const struct stream *st = stream_of(s);
	const uint64_t now = clock_boot_ns();
	bool has_driver = false;

	json_key(j, "sources");
	json_object(j);
	for (size_t i = 0; st && i < st->n_origins; i++) {
		const struct origin *o = &st->origins[i];

		has_driver |= strcmp(o->name, "host") != 0;
		put_source(j, o->name, origin_is_up(o, now), o->at_ns, now);
	}
	if (st && !s->has_machine && st->at_ns)
		put_source(j, "recording", true, st->at_ns, now);
	if (st && !has_driver && *st->gpu_note)
		put_source(j, "gpu", false, 0, now);
	json_end(j);
	json_key(j, "gpu_note");
	json_str(j, st && *st->gpu_note && viewer_sees(v, geteuid()) ? st->gpu_note : NULL);
}

void answer_healthy(struct serve *s, const struct request *q, struct answer *a)
{
	struct json j;

	pthread_mutex_lock(&s->lock);
	begin(&j, s, a);
	put_sources(&j, s, &q->viewer);
	finish(&j, a);
	pthread_mutex_unlock(&s->lock);
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

/* Device memory of the viewer's own processes and of all others, from the driver's lists. Unknown where a
 * process's use is not reported. */
static void sum_users(const struct stream *st, const struct thing *gpu, const struct viewer *v, uint64_t now,
	struct hiw_maybe *ret_own, struct hiw_maybe *ret_others)
{
	*ret_own = *ret_others =
		(struct hiw_maybe) { 0, thing_value(gpu, metric_of(HIW_GPU, "processes"), now).known };
	for (size_t i = 0; i < st->n_users; i++) {
		const struct gpu_user *u = &st->users[i];
		const bool is_own = v->is_user && u->uid.known && u->uid.value == (int64_t) v->uid;
		struct hiw_maybe *sum = is_own ? ret_own : ret_others;

		if (u->gpu != gpu->id)
			continue;
		sum->known &= u->memory.known && now <= u->until_ns;
		sum->value += u->memory.value;
	}
}

static void put_gpu_users(
	struct json *j, const struct stream *st, const struct thing *gpu, const struct viewer *v)
{
	json_key(j, "processes");
	json_array(j);
	for (size_t i = 0; i < st->n_users; i++) {
		const struct gpu_user *u = &st->users[i];

		if (u->gpu != gpu->id ||
			!(v->sees_all || (v->is_user && u->uid.known && u->uid.value == (int64_t) v->uid)))
			continue;
		json_object(j);
		json_known(j, "pid", u->pid);
		json_known(j, "uid", u->uid);
		json_known(j, "memory_bytes", u->memory);
		json_end(j);
	}
	json_end(j);
}

static void put_gpu_window(struct json *j, const struct thing *gpu, uint64_t span)
{
	json_key(j, "window");
	json_object(j);
	spread_of(j, "memory_used_bytes", gpu, KEPT_GPU_MEM, span, 1);
	spread_of(j, "sm_active", gpu, KEPT_GPU_SM, span, 1e6);
	spread_of(j, "sm_occupancy", gpu, KEPT_GPU_OCCUPANCY, span, 1e6);
	spread_of(j, "dram_active", gpu, KEPT_GPU_DRAM, span, 1e6);
	spread_of(j, "busy", gpu, KEPT_GPU_BUSY, span, 1e6);
	spread_of(j, "power_w", gpu, KEPT_GPU_POWER, span, 1e6);
	json_end(j);
}

static void put_gpu(struct json *j, const struct serve *s, const struct stream *st, const struct thing *gpu,
	const struct viewer *v, uint64_t span)
{
	const uint64_t now = clock_boot_ns();
	struct hiw_maybe own, others;
	char number[48];

	sum_users(st, gpu, v, now, &own, &others);
	gpu_number(st, gpu, number, sizeof(number));
	json_object(j);
	json_key(j, "uuid");
	json_str(j, gpu->uuid);
	json_key(j, "gpu");
	json_str(j, number);
	json_key_text(j, "name", gpu->name);
	json_key_text(j, "vendor", gpu->vendor);
	json_key_text(j, "driver", gpu->driver);
	json_key_text(j, "instance_of", gpu->instance_of);
	json_key_text(j, "group", group_of(s, gpu->uuid));
	json_known(j, "memory_total_bytes", gpu->memory_bytes);
	json_metric(j, "memory_used_bytes", gpu, "mem", now);
	json_metric(j, "memory_free_bytes", gpu, "mem_free", now);
	json_metric(j, "memory_reserved_bytes", gpu, "mem_reserved", now);
	json_known(j, "memory_yours_bytes", v->is_user ? own : (struct hiw_maybe) { 0, false });
	json_known(j, "memory_used_by_others_bytes", v->is_user ? others : (struct hiw_maybe) { 0, false });
	json_metric(j, "sm_active", gpu, "sm_active", now);
	json_metric(j, "sm_occupancy", gpu, "sm_occupancy", now);
	json_metric(j, "dram_active", gpu, "dram_active", now);
	json_metric(j, "tensor_active", gpu, "tensor_active", now);
	json_metric(j, "busy", gpu, "busy", now);
	json_metric(j, "power_w", gpu, "power", now);
	json_metric(j, "power_limit_w", gpu, "power_limit", now);
	json_metric(j, "energy_j", gpu, "energy", now);
	json_metric(j, "temperature_c", gpu, "temp", now);
	json_metric(j, "process_count", gpu, "processes", now);
	put_gpu_users(j, st, gpu, v);
	if (span)
		put_gpu_window(j, gpu, span);
	json_end(j);
}

/* The sum of a value over a group; unknown if it is of one of its GPUs, or if none is here. */
static void put_group_sum(struct json *j, const char *key, const struct stream *st, const struct serve *s,
	const char *group, const char *metric)
{
	const uint64_t now = clock_boot_ns();
	struct hiw_maybe sum = { 0, true };
	const unsigned m = metric ? metric_of(HIW_GPU, metric) : 0;
	size_t n = 0;

	for (size_t i = 0; i < st->n_gpus; i++) {
		const struct hiw_maybe value = metric ? thing_value(st->gpus[i], m, now)
						      : st->gpus[i]->memory_bytes;

		if (strcmp(group_of(s, st->gpus[i]->uuid), group) != 0)
			continue;
		n++;
		sum.known &= value.known;
		sum.value += value.value;
	}
	json_key(j, key);
	if (sum.known && n > 0)
		json_decimal(j, sum.value, metric ? digits_of(m) : 0);
	else
		json_null(j);
}

static void put_groups(struct json *j, const struct serve *s, const struct stream *st)
{
	json_key(j, "groups");
	json_object(j);
	for (size_t g = 0; st && g < s->n_groups; g++) {
		json_key(j, s->groups[g].name);
		json_object(j);
		put_group_sum(j, "memory_total_bytes", st, s, s->groups[g].name, NULL);
		put_group_sum(j, "memory_used_bytes", st, s, s->groups[g].name, "mem");
		put_group_sum(j, "power_w", st, s, s->groups[g].name, "power");
		put_group_sum(j, "energy_j", st, s, s->groups[g].name, "energy");
		json_end(j);
	}
	json_end(j);
}

static void put_gpus(struct json *j, const struct serve *s, const struct viewer *v, uint64_t span)
{
	const struct stream *st = stream_of(s);

	json_key(j, "gpus");
	json_array(j);
	for (size_t i = 0; st && i < st->n_gpus; i++)
		put_gpu(j, s, st, st->gpus[i], v, span);
	json_end(j);
}

void answer_gpus(struct serve *s, const struct request *q, struct answer *a)
{
	struct json j;
	uint64_t span;

	if (!window_of(s, q, a, &span))
		return;
	pthread_mutex_lock(&s->lock);
	begin(&j, s, a);
	put_gpus(&j, s, &q->viewer, span);
	put_groups(&j, s, stream_of(s));
	finish(&j, a);
	pthread_mutex_unlock(&s->lock);
}

/* ---- the machine ----------------------------------------------------------------------------- */

/* Memory of the runs that are the viewer's own. */
static struct hiw_maybe own_ram(const struct serve *s, const struct viewer *v, uint64_t now)
{
	struct hiw_maybe sum = { 0, v->is_user };

	for (size_t i = 0; v->is_user && i < s->jobs.n; i++) {
		const struct live_run *r = s->jobs.list[i];
		const struct hiw_maybe ram = thing_value(&r->stream.job, metric_of(HIW_JOB, "ram"), now);

		if (r->uid == v->uid) {
			sum.known &= ram.known;
			sum.value += ram.value;
		}
	}
	return sum;
}

static void put_host(struct json *j, const struct serve *s, const struct viewer *v, uint64_t span)
{
	const struct stream *st = stream_of(s);
	const uint64_t now = clock_boot_ns();

	json_key(j, "host");
	if (!st) {
		json_null(j);
		return;
	}
	const struct hiw_maybe used = thing_value(&st->host, metric_of(HIW_HOST, "mem_used"), now),
			       own = own_ram(s, v, now);
	const struct spread cpu = thing_spread(&st->host, KEPT_HOST_CPU, 10000000000, now);

	json_object(j);
	json_key(j, "cpus");
	json_num(j, s->cpus);
	json_key(j, "cpus_used");
	if (cpu.known)
		json_num(j, cpu.mean);
	else
		json_null(j);
	json_known(j, "ram_total_bytes", (struct hiw_maybe) { s->capacity_bytes, s->capacity_bytes > 0 });
	json_metric(j, "ram_used_bytes", &st->host, "mem_used", now);
	json_metric(j, "ram_available_bytes", &st->host, "mem_available", now);
	json_known(j, "ram_of_your_runs_bytes", own);
	json_known(j, "ram_used_by_others_bytes",
		(struct hiw_maybe) { used.value - own.value, used.known && own.known });
	json_metric(j, "swap_used_bytes", &st->host, "swap_used", now);
	json_metric(j, "load1", &st->host, "load1", now);
	json_metric(j, "energy_j", &st->host, "energy", now);
	if (span) {
		json_key(j, "window");
		json_object(j);
		spread_of(j, "ram_used_bytes", &st->host, KEPT_HOST_RAM, span, 1);
		spread_of(j, "cpus_used", &st->host, KEPT_HOST_CPU, span, 1);
		json_end(j);
	}
	json_end(j);
}

void answer_now(struct serve *s, const struct request *q, struct answer *a)
{
	struct json j;
	uint64_t span;
	size_t n = 0;

	if (!window_of(s, q, a, &span))
		return;
	pthread_mutex_lock(&s->lock);
	begin(&j, s, a);
	put_sources(&j, s, &q->viewer);
	put_host(&j, s, &q->viewer, span);
	put_gpus(&j, s, &q->viewer, span);
	for (size_t i = 0; i < s->jobs.n; i++)
		n += viewer_sees(&q->viewer, s->jobs.list[i]->uid);
	json_key(&j, "jobs");
	json_int(&j, (int64_t) n);
	finish(&j, a);
	pthread_mutex_unlock(&s->lock);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void put_job_window(struct json *j, const struct thing *job, uint64_t span)
{
	json_key(j, "window");
	json_object(j);
	spread_of(j, "ram_bytes", job, KEPT_JOB_RAM, span, 1);
	spread_of(j, "cpus_used", job, KEPT_JOB_CPU, span, 1);
	spread_of(j, "gpu_memory_bytes", job, KEPT_JOB_GPU_MEM, span, 1);
	json_end(j);
}

static void put_job_gpus(struct json *j, const struct stream *st, uint64_t now)
{
	json_key(j, "gpus");
	json_array(j);
	for (size_t i = 0; i < st->n_gpus; i++) {
		json_object(j);
		json_key(j, "uuid");
		json_str(j, st->gpus[i]->uuid);
		json_metric(j, "memory_bytes", st->gpus[i], "job_mem", now);
		json_end(j);
	}
	json_end(j);
}

static void put_job(struct json *j, const struct live_run *r, uint64_t span)
{
	const struct thing *job = &r->stream.job;
	const uint64_t now = clock_boot_ns();
	const struct spread cpu = thing_spread(job, KEPT_JOB_CPU, 10000000000, now);

	json_object(j);
	json_key(j, "id");
	json_str(j, r->id);
	json_key_text(j, "name", r->name);
	json_key_text(j, "user", r->user);
	json_key(j, "uid");
	json_int(j, (int64_t) r->uid);
	json_key_text(j, "command", r->command);
	json_known(j, "pid", r->main_pid);
	json_key_text(j, "scheduler", r->scheduler);
	json_key_text(j, "scheduler_job", r->scheduler_job);
	json_key_text(j, "step", r->step);
	json_key_text(j, "node", r->node);
	json_known(j, "rank", r->rank);
	json_key_text(j, "pod", r->pod);
	json_key_text(j, "namespace", r->namespace);
	json_key_text(j, "container", r->container);
	json_key(j, "started");
	if (r->started_wall_ns)
		json_decimal(j, r->started_wall_ns / 1000000, 3);
	else
		json_null(j);
	json_time(j, "at", r->stream.at_ns, now);
	json_known(j, "ram_limit_bytes", r->limit_bytes);
	json_known(j, "ram_request_bytes", r->request_bytes);
	json_metric(j, "ram_bytes", job, "ram", now);
	json_metric(j, "ram_low_bytes", job, "ram_low", now);
	json_metric(j, "ram_high_bytes", job, "ram_high", now);
	json_metric(j, "swap_bytes", job, "swap", now);
	json_metric(j, "processes", job, "processes", now);
	json_metric(j, "threads", job, "threads", now);
	json_metric(j, "cpu_user_s", job, "cpu_user", now);
	json_metric(j, "cpu_system_s", job, "cpu_system", now);
	json_key(j, "cpus_used");
	if (cpu.known)
		json_num(j, cpu.mean);
	else
		json_null(j);
	json_metric(j, "read_bytes", job, "read_bytes", now);
	json_metric(j, "write_bytes", job, "write_bytes", now);
	json_metric(j, "gpu_memory_bytes", job, "gpu_mem", now);
	put_job_gpus(j, &r->stream, now);
	if (span)
		put_job_window(j, job, span);
	json_end(j);
}

void answer_jobs(struct serve *s, const struct request *q, struct answer *a)
{
	struct json j;
	uint64_t span;

	if (!window_of(s, q, a, &span))
		return;
	pthread_mutex_lock(&s->lock);
	begin(&j, s, a);
	json_key(&j, "jobs");
	json_array(&j);
	for (size_t i = 0; i < s->jobs.n; i++) {
		if (viewer_sees(&q->viewer, s->jobs.list[i]->uid))
			put_job(&j, s->jobs.list[i], span);
	}
	json_end(&j);
	finish(&j, a);
	pthread_mutex_unlock(&s->lock);
}

/* A run of another user and one that does not exist have the same answer. */
void answer_job(struct serve *s, const struct request *q, struct answer *a)
{
	const char *id = q->path + strlen("/v1/jobs/");
	bool found = false;
	struct json j;
	uint64_t span;

	if (!window_of(s, q, a, &span))
		return;
	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; !found && i < s->jobs.n; i++) {
		const struct live_run *r = s->jobs.list[i];

		const bool is_named = strcmp(r->id, id) == 0 || (*id && strcmp(r->name, id) == 0);

		if (!is_named || !viewer_sees(&q->viewer, r->uid))
			continue;
		found = true;
		begin(&j, s, a);
		json_key(&j, "job");
		put_job(&j, r, span);
		finish(&j, a);
	}
	pthread_mutex_unlock(&s->lock);
	if (!found)
		answer_error(a, 404, "no live run of yours has that id or name");
}

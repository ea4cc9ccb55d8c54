/* SPDX-License-Identifier: MIT
 *
 * The job as a recording: its facts, windows and totals, so that every command reads it as any other.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <inttypes.h>
#include <string.h>

#include "base/parse.h"
#include "record/merge/merge_internal.h"
#include "record/part_table.h"
#include "record/read/row_read.h"

enum {
	JOB_ROWS = 1000,
	NODES_NAMED = 4,
	MARKS_EMITTED = 50,
};

/* ---- facts ----------------------------------------------------------------------------------- */

static bool counts(const struct part *p)
{
	return p->counts.value == 1;
}

/* Known only if all nodes have it. */
static struct maybe over_nodes(const struct parts *p, size_t offset)
{
	struct maybe sum = known(0);

	for (size_t i = 0; i < p->n_nodes; i++)
		sum = maybe_sum(
			sum, *(const struct maybe *) (const void *) ((const char *) &p->node[i] + offset));
	return p->n_nodes > 0 ? sum : UNKNOWN;
}

/* The largest of the parts on each node, summed. Unknown if a node has none. */
static struct maybe request_over_nodes(const struct merge *m, size_t offset)
{
	const struct parts *p = m->parts;
	struct maybe *most = calloc(p->n_nodes ? p->n_nodes : 1, sizeof(*most)), sum = known(0);

	if (!most)
		return UNKNOWN;
	for (size_t i = 0; i < p->n; i++) {
		struct maybe *at = &most[m->node_of[i]];

		if (counts(&p->part[i]))
			*at = maybe_max(
				*at, *(const struct maybe *) (const void *) ((const char *) &p->part[i] +
									     offset));
	}
	for (size_t k = 0; k < p->n_nodes; k++)
		sum = maybe_sum(sum, most[k]);
	free(most);
	return sum;
}

/* Of each node what its ranks requested, at most what the scheduler gave all of them; that, where a rank's request is not known. */
static struct maybe request_cpus(const struct merge *m)
{
	const struct parts *p = m->parts;
	struct of_node {
		struct maybe ranks, given;
	} *nodes = calloc(p->n_nodes ? p->n_nodes : 1, sizeof(*nodes));
	struct maybe sum = p->n_nodes > 0 ? known(0) : UNKNOWN;

	for (size_t k = 0; nodes && k < p->n_nodes; k++)
		nodes[k].ranks = known(0);
	for (size_t i = 0; nodes && i < p->n; i++) {
		const struct part *part = &p->part[i];

		if (!counts(part))
			continue;
		nodes[m->node_of[i]].given = maybe_max(nodes[m->node_of[i]].given, part->node_cpus);
		if (part_is_own(part))
			nodes[m->node_of[i]].ranks =
				maybe_sum(nodes[m->node_of[i]].ranks, part->request_cpus);
	}
	for (size_t k = 0; nodes && k < p->n_nodes; k++) {
		const bool any = nodes[k].ranks.known && nodes[k].ranks.value > 0;

		sum = maybe_sum(sum, any ? maybe_min(nodes[k].ranks, nodes[k].given) : nodes[k].given);
	}
	if (!nodes)
		sum = UNKNOWN;
	free(nodes);
	return sum;
}

/* The status of the rank that was the first to fail; 0 if all ended well; unknown if one's is, or a rank is missing. */
static struct maybe exit_status(const struct parts *p)
{
	const struct part *first = NULL;
	bool all = parts_missing(p, NULL, 0) == 0 && parts_missing_nodes(p) == 0;
	bool any = false, only_nodes = true;

	for (size_t i = 0; i < p->n; i++)
		only_nodes = only_nodes && !part_is_own(&p->part[i]);

	for (size_t i = 0; i < p->n; i++) {
		const struct part *part = &p->part[i];

		if (only_nodes ? !counts(part) || !part_is(part, "node") : !part_is_own(part))
			continue;
		any = true;
		all = all && part->exit_code.known;
		if (part->exit_code.value != 0 && part->exit_code.known &&
			(!first || part_end_ns(part) < part_end_ns(first)))
			first = part;
	}
	if (!any || (!all && !first))
		return UNKNOWN;
	if (!first)
		return known(0);
	return known(first->exit_signal.known ? first->exit_signal.value & 0x7f
					      : (first->exit_code.value & 0xff) << 8);
}

static void write_hosts(const struct parts *p, struct buf *out)
{
	for (size_t i = 0; i < p->n_nodes && i < NODES_NAMED; i++)
		(void) buf_printf(out, "%s%s", i ? ", " : "", p->node[i].name ? p->node[i].name : "?");
	if (p->n_nodes > NODES_NAMED)
		(void) buf_printf(out, " and %zu more", p->n_nodes - NODES_NAMED);
}

/* Of the parts: the same parts make the same id. */
static void write_id(const struct parts *p, char ret[33])
{
	uint64_t a = 0, b = 0;

	for (size_t i = 0; i < p->n; i++) {
		const uint64_t hash = store_hash(p->part[i].id ? p->part[i].id : "");

		a ^= hash;
		b += hash * 0x9e3779b97f4a7c15U;
	}
	(void) snprintf(ret, 33, "%016" PRIx64 "%016" PRIx64, a, b);
}

/* The lowest rank whose recording has a command. */
static const struct part *first_of(const struct parts *p)
{
	const struct part *first = NULL;

	for (size_t i = 0; i < p->n; i++) {
		const struct part *part = &p->part[i];

		if (!part->command || !part_is_own(part))
			continue;
		if (!first || (part->rank.known && part->rank.value < (first->rank.known ? first->rank.value
											 : INT64_MAX)))
			first = part;
	}
	for (size_t i = 0; i < p->n && !first; i++)
		first = counts(&p->part[i]) ? &p->part[i] : NULL;
	return first;
}

/* Those that are not in the list yet. */
static void add_uuids(struct buf *to, const char *list)
{
	while (*list) {
		const size_t len = strcspn(list, ",");

		if (len > 0 && !parse_list_has(to->data, list, len))
			(void) buf_printf(to, "%s%.*s", to->len ? "," : "", (int) len, list);
		list += len + (list[len] == ',');
	}
}

/* Is there a part on its node that knows which GPUs are the job's? */
static bool has_list(const struct merge *m, size_t part)
{
	for (size_t i = 0; i < m->parts->n; i++) {
		if (m->node_of[i] == m->node_of[part] && counts(&m->parts->part[i]) &&
			m->parts->part[i].allocated_gpus)
			return true;
	}
	return false;
}

/* The lists of all nodes together. False: a node that has GPUs has no list, or none has one. */
static bool list_allocated(const struct merge *m, struct buf *ret)
{
	const struct parts *p = m->parts;
	bool any = false;

	for (size_t i = 0; i < p->n; i++) {
		const char *list = p->part[i].allocated_gpus;

		if (!counts(&p->part[i]) || !list)
			continue;
		any = true;
		if (strcmp(list, "none") != 0)
			add_uuids(ret, list);
	}
	for (size_t i = 0; i < p->n && any; i++)
		any = !counts(&p->part[i]) || m->candidates[i].n_gpus == 0 || has_list(m, i);
	return any;
}

static int write_texts(struct merge *m, struct facts *f)
{
	const struct parts *p = m->parts;
	const struct part *first = first_of(p);
	struct buf hosts = BUF_INIT(1 << 12), gpus = BUF_INIT(1 << 20);
	const bool has_gpus = list_allocated(m, &gpus);
	char id[33];
	int r = 0;

	write_hosts(p, &hosts);
	write_id(p, id);
	const struct {
		char **to;
		const char *text;
	} texts[] = {
		{ &f->id, id },
		{ &f->mode, "run" },
		{ &f->part, "job" },
		{ &f->host, hosts.data },
		{ &f->name, first->name },
		{ &f->command, first->command },
		{ &f->user, first->user },
		{ &f->scheduler, first->scheduler },
		{ &f->scheduler_job, first->job },
		{ &f->cluster, first->cluster },
		{ &f->step, first->step },
		{ &f->version, first->version },
		{ &f->other_jobs, m->other_jobs },
		{ &f->allocated_gpus, has_gpus ? gpus.data : NULL },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && r == 0; i++)
		r = texts[i].text ? job_set_text(texts[i].to, texts[i].text) : 0;
	buf_done(&hosts);
	buf_done(&gpus);
	return r;
}

static void write_sums(const struct merge *m, struct facts *f)
{
	const struct parts *p = m->parts;
	bool exact = true;

	for (size_t i = 0; i < p->n; i++) {
		const struct part *part = &p->part[i];

		if (!counts(part))
			continue;
		f->started_wall_ns = maybe_min(f->started_wall_ns, part->started_wall_ns);
		f->request_time_ns = maybe_max(f->request_time_ns, part->request_time_ns);
		f->interval_ns = maybe_min(f->interval_ns, part->interval_ns);
		f->restart = maybe_max(f->restart, part->restart);
		if (!part_is_own(part))
			continue;
		exact = exact && part->cpu_is_exact.value == 1;
		f->srun_seen = maybe_max(f->srun_seen, part->srun_seen);
	}
	for (size_t i = 0; i < p->n_nodes; i++) {
		exact = exact && p->node[i].cpu_is_exact.value == 1;
		f->reaped_user_ns = maybe_plus(f->reaped_user_ns, p->node[i].user_ns);
		f->reaped_system_ns = maybe_plus(f->reaped_system_ns, p->node[i].system_ns);
		f->processes_seen = maybe_plus(f->processes_seen, p->node[i].processes);
	}
	f->cpu_is_exact = known(exact);
}

static void write_numbers(struct merge *m, struct facts *f, uint64_t end_ns)
{
	const struct parts *p = m->parts;

	write_sums(m, f);
	if (!parts_are_running(p))
		f->ended_ns = known((int64_t) end_ns);
	f->exit_status = exit_status(p);
	f->ranks = parts_ranks(p) > 0 ? known(parts_ranks(p)) : UNKNOWN;
	f->nodes = known((int64_t) (p->n_nodes + parts_missing_nodes(p)));
	f->cpus = over_nodes(p, offsetof(struct part_node, cpus));
	f->capacity_bytes = over_nodes(p, offsetof(struct part_node, capacity_bytes));
	f->limit_bytes = over_nodes(p, offsetof(struct part_node, limit_bytes));
	f->request_cpus = request_cpus(m);
	f->request_bytes = request_over_nodes(m, offsetof(struct part, request_bytes));
	f->request_gpus = request_over_nodes(m, offsetof(struct part, request_gpus));
	f->ram_low_bytes = m->low;
	f->ram_peak_bytes = m->estimate;
	f->ram_high_bytes = m->high;
	if (p->n_gpus > 0)
		f->gpu_seen = f->gpu_queried = known(1);
}

/* ---- windows --------------------------------------------------------------------------------- */

static void add_readings(
	struct framebuf *out, const struct row_layout *l, enum entity entity, const struct row *row)
{
	for (unsigned i = 0; i < l->n[entity]; i++) {
		const struct cell *cell = &row->cells[i];
		const enum metric metric = l->metric[entity][i];
		struct reading r = reading_of(metric, row->id, cell->value);

		if (!cell->known)
			continue;
		r.n = row->n;
		r.min = cell->min;
		r.max = cell->max;
		r.span_ns = metrics[metric].kind == KIND_GAUGE ? cell->cover_ns : row->span_ns;
		framebuf_reading(out, r);
	}
}

static int apply_row(struct merge *m, enum entity entity, enum frame_source source, const struct row *row)
{
	struct framebuf out = { 0 };
	struct frame frame;
	int r = 0;

	add_readings(&out, &m->store->layout, entity, row);
	if (!framebuf_is_empty(&out)) {
		frame = framebuf_frame(&out, source, row->t_ns, 3 * row->span_ns);
		frame.live = false;
		r = out.error ? out.error : job_apply(m->job, &frame);
	}
	framebuf_done(&out);
	return r;
}

/* The mean, least and largest of a span of cells. */
static struct cell gauge(const int64_t *values, size_t first, size_t last, uint64_t span_ns)
{
	struct cell c = { .min = values[first], .max = values[first], .cover_ns = span_ns, .known = true };
	__int128 sum = 0;

	for (size_t i = first; i <= last; i++) {
		c.min = smaller(c.min, values[i]);
		c.max = larger(c.max, values[i]);
		sum += values[i];
	}
	c.value = (int64_t) (sum / (int64_t) (last - first + 1));
	return c;
}

/* The mean is over the time that was measured. */
static struct cell memory(const struct merge_cells *c, size_t first, size_t last, uint64_t span_ns)
{
	struct cell cell = gauge(c->estimate, first, last, span_ns);
	double sum = 0;

	cell.known = false;
	cell.cover_ns = 0;
	for (size_t i = first; i <= last; i++) {
		/* the last cell is longer than what is left of the job's time */
		const uint64_t before_ns = (i - first) * c->width_ns;
		const uint64_t left_ns = span_ns > before_ns ? span_ns - before_ns : 0;

		if (c->is_gap[i])
			continue;
		cell.min = cell.known ? smaller(cell.min, c->low[i]) : c->low[i];
		cell.known = true;
		cell.cover_ns += left_ns < c->width_ns ? left_ns : c->width_ns;
		sum += c->mean[i] * (double) c->width_ns;
	}
	cell.value = smaller(cell.max, (int64_t) (sum / (double) larger((int64_t) cell.cover_ns, 1)));
	cell.min = smaller(cell.min, cell.value);
	return cell;
}

static struct cell count(int64_t value)
{
	return (struct cell) { .min = value, .value = value, .max = value, .known = true };
}

struct counters {
	int64_t sum, total;
	bool has_total;
};

/* Windows miss what only the end of a part showed. */
static struct cell counter(
	struct counters *c, const int64_t *cells, size_t first, size_t last, bool is_last)
{
	for (size_t i = first; i <= last; i++)
		c->sum += cells[i];
	if (c->has_total)
		return count(is_last ? c->total : smaller(c->sum, c->total));
	return count(c->sum);
}

static struct counters total_of(const struct parts *p, size_t offset)
{
	struct counters c = { 0 };

	for (size_t i = 0; i < p->n_nodes; i++) {
		const struct maybe *value = (const void *) ((const char *) &p->node[i] + offset);

		c.total += value->value;
		c.has_total = c.has_total || value->known;
	}
	return c;
}

static int write_job_rows(struct merge *m, uint64_t end_ns)
{
	const struct merge_cells *c = &m->cells;
	const struct parts *p = m->parts;
	const size_t each = (c->n + JOB_ROWS - 1) / JOB_ROWS;
	struct counters user = total_of(p, offsetof(struct part_node, user_ns)),
			system = total_of(p, offsetof(struct part_node, system_ns)),
			read = total_of(p, offsetof(struct part_node, read_bytes)),
			written = total_of(p, offsetof(struct part_node, write_bytes));
	const uint8_t *place = m->store->layout.place;
	int r = 0;

	for (size_t first = 0; first < c->n && r == 0; first += each) {
		const size_t last = first + each <= c->n ? first + each - 1 : c->n - 1;
		const bool is_last = last + 1 == c->n;
		struct row row = { .t_ns = first * c->width_ns, .n = 1 };
		bool bounded = true;

		row.span_ns =
			is_last && end_ns > row.t_ns ? end_ns - row.t_ns : (last + 1 - first) * c->width_ns;
		for (size_t i = first; i <= last; i++)
			bounded = bounded && !c->is_unbounded[i];
		row.cells[place[M_JOB_RAM]] = memory(c, first, last, row.span_ns);
		row.cells[place[M_JOB_RAM_LOW]] = gauge(c->low, first, last, row.span_ns);
		if (bounded)
			row.cells[place[M_JOB_RAM_HIGH]] = gauge(c->high, first, last, row.span_ns);
		row.cells[place[M_JOB_PROCESSES]] = gauge(c->processes, first, last, row.span_ns);
		row.cells[place[M_JOB_CPU_USER]] = counter(&user, c->user, first, last, is_last);
		row.cells[place[M_JOB_CPU_SYSTEM]] = counter(&system, c->system, first, last, is_last);
		if (read.has_total)
			row.cells[place[M_JOB_READ_BYTES]] = counter(&read, c->read, first, last, is_last);
		if (written.has_total)
			row.cells[place[M_JOB_WRITE_BYTES]] =
				counter(&written, c->written, first, last, is_last);
		r = store_row(m->store, ENTITY_JOB, false, &row);
	}
	return r;
}

/* Applies the stored windows of the job and the GPUs to the job, in the order of time. */
static int apply_rows(struct merge *m)
{
	sqlite3_stmt *job = store_prepare(m->store, "SELECT * FROM job_sample ORDER BY t"),
		     *gpu = store_prepare(m->store, "SELECT * FROM gpu_sample ORDER BY t, id");
	struct row a, b;
	bool has_a = false, has_b = false, more_a = job, more_b = gpu;
	int r = job && gpu ? 0 : store_step(m->store, NULL);

	while (r == 0) {
		if (!has_a && more_a)
			has_a = more_a = sqlite3_step(job) == SQLITE_ROW &&
					 row_read(job, &m->store->layout, ENTITY_JOB, false, &a);
		if (!has_b && more_b)
			has_b = more_b = sqlite3_step(gpu) == SQLITE_ROW &&
					 row_read(gpu, &m->store->layout, ENTITY_GPU, false, &b);
		if (!has_a && !has_b)
			break;
		if (has_a && (!has_b || a.t_ns <= b.t_ns)) {
			r = apply_row(m, ENTITY_JOB, FRAME_TOTALS, &a);
			has_a = false;
		} else {
			r = apply_row(m, ENTITY_GPU, FRAME_NVML, &b);
			has_b = false;
		}
	}
	(void) sqlite3_finalize(job);
	(void) sqlite3_finalize(gpu);
	return r;
}

/* ---- events ---------------------------------------------------------------------------------- */

static int add_event(struct merge *m, enum event_kind kind, uint64_t t_ns, const char *text)
{
	const struct event event = { .time_ns = t_ns, .kind = kind, .entity = ENTITY_JOB, .text = text };
	const struct frame frame = {
		.time_ns = t_ns, .source = FRAME_USER, .n_events = 1, .events = &event
	};
	const int r = store_frame(m->store, &frame);

	return r == 0 ? job_apply(m->job, &frame) : r;
}

/* The marks of one rank, which the others mostly set as well; and who was killed for lack of memory. */
static int write_events(struct merge *m)
{
	const struct part *first = first_of(m->parts);
	const size_t at = (size_t) (first - m->parts->part);
	const struct candidate *c = &m->candidates[at];
	int r = 0;

	for (size_t i = 0; i < c->n_marks && i < MARKS_EMITTED && r == 0; i++)
		r = add_event(m, EVENT_MARK, (uint64_t) first->start_ns.value + c->marks[i].t_ns,
			c->marks[i].text);
	for (size_t i = 0; i < m->parts->n && r == 0; i++) {
		const struct part *p = &m->parts->part[i];
		char text[160];

		if (p->oom_killed.value != 1 || !part_is_own(p))
			continue;
		(void) snprintf(text, sizeof(text), "rank %" PRId64 " on %.100s", p->rank.value,
			p->node ? p->node : "?");
		r = add_event(m, EVENT_OOM, (uint64_t) larger(part_end_ns(p), 0), text);
	}
	return r;
}

/* ---- totals ---------------------------------------------------------------------------------- */

static int put_totals(struct merge *m)
{
	struct wire_memory memory = { 0 };
	struct buf out = BUF_INIT(64 << 20);
	int r = wire_totals_put(&out, &memory, m->job);

	if (r == 0)
		r = store_totals(m->store, wire_totals_get(out.data));
	buf_done(&out);
	wire_memory_done(&memory);
	return r;
}

/* The energy of all nodes' CPU packages. */
static int restore_energy(struct merge *m, uint64_t end_ns)
{
	struct maybe energy = UNKNOWN;

	for (size_t i = 0; i < m->parts->n_nodes; i++)
		energy = maybe_plus(energy, m->parts->node[i].energy_uj);
	const struct acc acc = { .n = 2,
		.max = energy.value,
		.max_at_ns = end_ns,
		.last = energy.value,
		.last_at_ns = end_ns,
		.span_ns = end_ns };

	return energy.known ? job_restore_acc(m->job, M_HOST_ENERGY, 0, &acc) : 0;
}

int merge_write(struct merge *m)
{
	struct facts *f = job_facts(m->job);
	const struct frame last = { .source = FRAME_RECORDER };
	uint64_t end_ns = 1;
	int r;

	for (size_t i = 0; i < m->parts->n; i++) {
		if (counts(&m->parts->part[i]))
			end_ns = (uint64_t) larger((int64_t) end_ns, part_end_ns(&m->parts->part[i]));
	}
	r = write_texts(m, f);
	write_numbers(m, f, end_ns);
	f->window_ns = known((int64_t) m->cells.width_ns);
	if (r == 0)
		r = write_job_rows(m, end_ns);
	if (r == 0)
		r = apply_rows(m);
	if (r == 0)
		r = write_events(m);
	if (r == 0)
		r = restore_energy(m, end_ns);
	if (r == 0) {
		struct frame end = last;

		end.time_ns = end_ns;
		r = job_apply(m->job, &end);
	}
	if (r == 0)
		r = put_totals(m);
	if (r == 0)
		r = store_meta_int(m->store, "last_ns", (int64_t) end_ns);
	parts_sort_problems(m->parts);
	return r == 0 ? part_tables_put(m->store, m->parts) : r;
}

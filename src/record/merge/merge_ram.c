/* SPDX-License-Identifier: MIT
 *
 * Adds the parts up. Time is cut into cells; in each, a node's memory is that of its union where one was measured, else the sum of its
 * ranks, of which the largest alone is a lower bound (they may share all of it). The job's peak is the largest sum over nodes in one cell:
 *
 *   high      each node's largest upper bound in the cell
 *   estimate  each node's largest value in windows that are centred there
 *   low       what each node used throughout the cell
 *
 * Where the nodes' clocks could not be compared, the bounds are those of no common time: the largest node, and the sum of the nodes.
 *
 * Peaks that no window shows (the kernel's marks at an exit) are added to the estimate and the upper bound, as their times are unknown.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "record/merge/merge_internal.h"

enum {
	CELLS_MOST = 4096,
};
static const uint64_t cell_least_ns = UINT64_C(1000000000);
/* Of windows that were edited: larger values are not known. */
static const int64_t bytes_most = INT64_C(1) << 50, ns_most = INT64_C(1) << 58;

static int merge_cells_new(struct merge_cells *c, uint64_t width_ns, size_t n)
{
	int64_t **const arrays[] = { &c->estimate, &c->low, &c->high, &c->user, &c->system, &c->read,
		&c->written, &c->processes };

	*c = (struct merge_cells) { .width_ns = width_ns, .n = n };
	c->is_unbounded = calloc(n, sizeof(*c->is_unbounded));
	c->is_gap = calloc(n, sizeof(*c->is_gap));
	c->mean = calloc(n, sizeof(*c->mean));
	for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
		*arrays[i] = calloc(n, sizeof(**arrays[i]));
		if (!*arrays[i])
			return -ENOMEM;
	}
	return c->is_unbounded && c->is_gap && c->mean ? 0 : -ENOMEM;
}

void merge_cells_done(struct merge_cells *c)
{
	free(c->estimate);
	free(c->low);
	free(c->high);
	free(c->mean);
	free(c->is_unbounded);
	free(c->is_gap);
	free(c->user);
	free(c->system);
	free(c->read);
	free(c->written);
	free(c->processes);
	*c = (struct merge_cells) { 0 };
}

static void cells_clear(struct merge_cells *c)
{
	const size_t bytes = c->n * sizeof(*c->low);

	memset(c->estimate, 0, bytes);
	memset(c->low, 0, bytes);
	memset(c->high, 0, bytes);
	memset(c->user, 0, bytes);
	memset(c->system, 0, bytes);
	memset(c->read, 0, bytes);
	memset(c->written, 0, bytes);
	memset(c->processes, 0, bytes);
	memset(c->is_unbounded, 0, c->n * sizeof(*c->is_unbounded));
	memset(c->is_gap, 0, c->n * sizeof(*c->is_gap));
	for (size_t i = 0; i < c->n; i++)
		c->mean[i] = 0;
}

static size_t cell_at(const struct merge_cells *c, int64_t t_ns)
{
	const size_t i = t_ns > 0 ? (size_t) ((uint64_t) t_ns / c->width_ns) : 0;

	return i < c->n ? i : c->n - 1;
}

static int64_t most_of(const int64_t *values, size_t n)
{
	int64_t most = 0;

	for (size_t i = 0; i < n; i++)
		most = larger(most, values[i]);
	return most;
}

/* ---- one part -------------------------------------------------------------------------------- */

/* A window of a part, at the job's time. */
struct window {
	int64_t from_ns, to_ns;
	struct maybe ram, ram_max, low_min, high, processes;
	struct maybe counters[4]; /* user, system, read, written; values at its end */
};

static void put_range(int64_t *values, size_t first, size_t last, int64_t value)
{
	for (size_t i = first; i <= last; i++)
		values[i] = larger(values[i], value);
}

/* seen: which cells have a lower bound already; a cell's is the least of all windows in it. */
static void put_window(struct merge_cells *c, const struct window *w, bool *seen)
{
	const size_t first = cell_at(c, w->from_ns),
		     last = cell_at(c, w->to_ns > w->from_ns ? w->to_ns - 1 : w->from_ns);
	const int64_t half = (int64_t) (c->width_ns / 2);

	/* The kernel's mark may raise the largest value above the bound of that window. */
	put_range(c->high, first, last, larger(w->high.value, w->ram_max.value));
	put_range(c->processes, first, last, w->processes.value);
	for (size_t i = first; i <= last; i++) {
		const int64_t begin = (int64_t) (i * c->width_ns), centre = begin + half;
		const int64_t end = begin + (int64_t) c->width_ns;
		const int64_t within = smaller(w->to_ns, end) - larger(w->from_ns, begin);

		if (within > 0)
			c->mean[i] += (double) w->ram.value * (double) within / (double) c->width_ns;

		if (!w->high.known)
			c->is_unbounded[i] = true;
		c->low[i] = seen[i] ? smaller(c->low[i], w->low_min.value) : w->low_min.value;
		seen[i] = true;
		if (centre >= w->from_ns && centre < w->to_ns)
			c->estimate[i] = larger(c->estimate[i], w->ram_max.value);
	}
	const size_t middle = cell_at(c, w->from_ns + (w->to_ns - w->from_ns) / 2);

	c->estimate[middle] = larger(c->estimate[middle], w->ram_max.value);
}

static void put_increases(struct merge_cells *c, const struct window *w, struct maybe before[4])
{
	int64_t *const to[4] = { c->user, c->system, c->read, c->written };
	const size_t at = cell_at(c, w->from_ns + (w->to_ns - w->from_ns) / 2);

	for (int i = 0; i < 4; i++) {
		if (!w->counters[i].known)
			continue;
		if (w->counters[i].value > before[i].value)
			to[i][at] += w->counters[i].value - before[i].value;
		before[i] = maybe_max(before[i], w->counters[i]);
	}
}

static void read_window(sqlite3_stmt *st, int64_t start_ns, struct window *w)
{
	struct maybe *const to[] = { &w->ram, &w->ram_max, &w->low_min, &w->high, &w->processes,
		&w->counters[0], &w->counters[1], &w->counters[2], &w->counters[3] };

	w->from_ns = start_ns + sqlite3_column_int64(st, 0);
	w->to_ns = w->from_ns + sqlite3_column_int64(st, 1);
	for (int i = 0; i < (int) (sizeof(to) / sizeof(to[0])); i++) {
		const int64_t most = i < 5 ? bytes_most : ns_most;

		const struct maybe value = reader_maybe(st, i + 2);

		*to[i] = value.known && value.value >= 0 && value.value <= most ? value : UNKNOWN;
	}
}

/* A rank without a recording: its figures hold for all of its time. */
static void put_figures(struct merge_cells *c, const struct part *p, bool *seen)
{
	const struct window w = {
		.from_ns = p->start_ns.value,
		.to_ns = part_end_ns(p),
		.ram = p->ram_peak_bytes, /* its mean is not known */
		.ram_max = p->ram_peak_bytes,
		.low_min = known(0),
		.high = p->ram_high_bytes,
		.counters = { p->user_ns, p->system_ns, p->read_bytes, p->write_bytes },
	};
	struct maybe before[4] = { UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN };

	if (p->ram_peak_bytes.known)
		put_window(c, &w, seen);
	put_increases(c, &w, before);
}

/* A value stays valid for two windows at most; then there is a gap. */
static void extend(struct window *w, int64_t until_ns)
{
	const int64_t span = w->to_ns - w->from_ns;

	if (until_ns > w->to_ns)
		w->to_ns = smaller(until_ns, w->to_ns + 2 * span);
}

/* Cells in the part's time without a window. */
static void find_gaps(struct merge_cells *c, const struct part *p, const bool *seen)
{
	const size_t first = cell_at(c, p->start_ns.value), last = cell_at(c, larger(part_end_ns(p) - 1, 0));

	for (size_t i = first; i <= last; i++) {
		c->is_gap[i] = !seen[i];
		c->is_unbounded[i] = c->is_unbounded[i] || !seen[i];
	}
}

/* Sets c to the part alone. */
static int fill(struct merge *m, size_t part, struct merge_cells *c, bool *seen)
{
	const struct part *p = &m->parts->part[part];
	sqlite3_stmt *st = store_cached(m->store, "SELECT t, span, ram, ram_max, low_min, high, processes, "
						  "user, system, read, written FROM part_row"
						  " WHERE part = ? ORDER BY t");
	struct maybe before[4] = { UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN };
	struct window now = { 0 }, next;
	bool has = false;

	cells_clear(c);
	memset(seen, 0, c->n * sizeof(*seen));
	if (!st)
		return store_step(m->store, NULL);
	if (p->has_recording.value != 1) {
		put_figures(c, p, seen);
		return 0;
	}
	(void) sqlite3_bind_int64(st, 1, p->rows.value);
	while (sqlite3_step(st) == SQLITE_ROW) {
		read_window(st, p->start_ns.value, &next);
		if (has) {
			extend(&now, next.from_ns);
			put_window(c, &now, seen);
		}
		put_increases(c, &next, before);
		now = next;
		has = true;
	}
	(void) sqlite3_reset(st);
	if (has) {
		if (p->complete.value != 1) /* the recorder runs, or was killed */
			extend(&now, INT64_MAX);
		put_window(c, &now, seen);
	}
	find_gaps(c, p, seen);
	return 0;
}

/* ---- one node -------------------------------------------------------------------------------- */

/* What its parts add up to. */
struct node_sums {
	struct merge_cells of_union, of_ranks, one;
	bool *covered; /* cells in which a union was measured */
	bool *seen;
	struct maybe low, estimate, high;    /* of the unions' own figures */
	struct maybe ranks_low, high_beyond;
	int64_t beyond; /* of the ranks' peaks, what no window shows */
	bool has_union, has_parts, has_ram;
	const struct part *rank; /* the only one there, measured to its end: it and the union measured the same */
	bool cpu_of_union, io_of_union; /* the ranks' own counters lack some */
	const char *method;
	struct maybe at_ns;
};

/* Recordings of a node follow each other: where two meet in a cell, both saw the same processes. */
static void join_cells(
	struct merge_cells *to, const struct merge_cells *from, const bool *seen, const bool *covered)
{
	for (size_t i = 0; i < to->n; i++) {
		if (seen[i]) {
			to->estimate[i] = larger(to->estimate[i], from->estimate[i]);
			to->high[i] = larger(to->high[i], from->high[i]);
			to->low[i] = larger(to->low[i], from->low[i]);
			to->processes[i] = larger(to->processes[i], from->processes[i]);
			to->is_unbounded[i] = to->is_unbounded[i] || from->is_unbounded[i];
			to->is_gap[i] = false;
			/* where two meet each has a share of the span */
			to->mean[i] = to->mean[i] + from->mean[i] < (double) to->estimate[i]
					      ? to->mean[i] + from->mean[i]
					      : (double) to->estimate[i];
		} else if (from->is_gap[i] && !covered[i])
			to->is_gap[i] = true;
		to->user[i] += from->user[i];
		to->system[i] += from->system[i];
		to->read[i] += from->read[i];
		to->written[i] += from->written[i];
	}
}

static void add_cells(struct merge_cells *to, const struct merge_cells *from, bool with_low)
{
	for (size_t i = 0; i < to->n; i++) {
		to->estimate[i] += from->estimate[i];
		to->high[i] += from->high[i];
		to->low[i] = with_low ? to->low[i] + from->low[i] : larger(to->low[i], from->low[i]);
		to->mean[i] += from->mean[i];
		to->is_unbounded[i] = to->is_unbounded[i] || from->is_unbounded[i];
		to->is_gap[i] = to->is_gap[i] || from->is_gap[i];
		to->user[i] += from->user[i];
		to->system[i] += from->system[i];
		to->read[i] += from->read[i];
		to->written[i] += from->written[i];
		to->processes[i] += from->processes[i];
	}
}

static struct maybe beyond(struct maybe peak, const int64_t *cells, size_t n)
{
	return peak.known ? known(larger(0, peak.value - most_of(cells, n))) : UNKNOWN;
}

static int add_part(struct merge *m, size_t part, struct node_sums *s)
{
	const struct part *p = &m->parts->part[part];
	int r = part_is(p, "worker") ? 0 : fill(m, part, &s->one, s->seen);

	if (r < 0 || part_is(p, "worker"))
		return r;
	if (part_is(p, "node")) {
		for (size_t i = 0; i < s->one.n; i++)
			s->covered[i] = s->covered[i] || s->seen[i];
		join_cells(&s->of_union, &s->one, s->seen, s->covered);
		if (!s->has_union || p->ram_peak_bytes.value > s->estimate.value) {
			s->method = p->ram_method;
			s->at_ns = p->ram_at_ns.known ? known(p->start_ns.value + p->ram_at_ns.value)
						      : UNKNOWN;
		}
		s->low = maybe_max(s->low, p->ram_low_bytes);
		s->estimate = maybe_max(s->estimate, p->ram_peak_bytes);
		s->high = s->has_union && !s->high.known ? UNKNOWN
			  : p->ram_high_bytes.known      ? maybe_max(s->high, p->ram_high_bytes)
							 : UNKNOWN;
		s->has_union = true;
		return 0;
	}
	add_cells(&s->of_ranks, &s->one, false);
	s->ranks_low = maybe_max(s->ranks_low, p->ram_low_bytes);
	s->beyond += beyond(p->ram_peak_bytes, s->one.estimate, s->one.n).value;
	s->high_beyond = maybe_sum(s->high_beyond, beyond(p->ram_high_bytes, s->one.high, s->one.n));
	s->has_parts = true;
	s->has_ram = s->has_ram || p->ram_peak_bytes.known;
	return 0;
}

/* The node's cells, in of_union: the union where there is one, else the ranks; counters are the ranks' own, unless these lack some. */
static void settle_cells(struct node_sums *s)
{
	struct merge_cells *u = &s->of_union, *k = &s->of_ranks;

	for (size_t i = 0; i < u->n; i++) {
		if (!s->covered[i] && s->has_parts) {
			u->estimate[i] = k->estimate[i];
			u->low[i] = k->low[i];
			u->high[i] = k->high[i];
			u->mean[i] = k->mean[i];
			u->is_unbounded[i] = k->is_unbounded[i];
			u->is_gap[i] = k->is_gap[i];
			u->processes[i] = k->processes[i];
		}
		if (s->has_parts && !s->cpu_of_union) {
			u->user[i] = k->user[i];
			u->system[i] = k->system[i];
		}
		if (s->has_parts && !s->io_of_union) {
			u->read[i] = k->read[i];
			u->written[i] = k->written[i];
		}
	}
}

/* The node's figures were made once all was known; a window was not. */
static void cap_cells(struct merge_cells *c, const struct part_node *node)
{
	for (size_t i = 0; i < c->n; i++) {
		if (node->ram_peak_bytes.known)
			c->estimate[i] = smaller(c->estimate[i], node->ram_peak_bytes.value);
		if (!node->ram_high_bytes.known)
			continue;
		c->high[i] = c->is_unbounded[i] ? node->ram_high_bytes.value
						: smaller(c->high[i], node->ram_high_bytes.value);
		c->is_unbounded[i] = false;
	}
}

static bool is_bounded(const struct merge_cells *c, const bool *but)
{
	for (size_t i = 0; i < c->n; i++) {
		if (c->is_unbounded[i] && !(but && but[i]))
			return false;
	}
	return true;
}

/* The largest sums of the ranks, where no union was measured (or anywhere, if all). */
static struct maybe ranks_most(
	const struct node_sums *s, const int64_t *cells, struct maybe extra, bool all)
{
	int64_t most = 0;

	for (size_t i = 0; i < s->of_ranks.n; i++) {
		if (all || !s->covered[i])
			most = larger(most, cells[i]);
	}
	return extra.known ? known(most + extra.value) : UNKNOWN;
}

/* What is counted, of the ranks or of the unions. */
struct counted {
	struct maybe user, system, read, write, net_rx, net_tx, energy, processes;
	size_t n;
};

static void count_part(struct counted *c, const struct part *p)
{
	c->user = maybe_plus(c->user, p->user_ns);
	c->system = maybe_plus(c->system, p->system_ns);
	c->read = maybe_plus(c->read, p->read_bytes);
	c->write = maybe_plus(c->write, p->write_bytes);
	if (part_is(p, "node")) /* one after the other, both saw the processes that continued */
		c->processes = maybe_max(c->processes, p->processes);
	else
		c->processes = maybe_plus(c->processes, p->processes);
	c->n++;
}

/* What is the node's and not a rank's: each rank saw all of it, one union after the other a part. */
static void count_node(struct counted *c, const struct part *p, bool is_union)
{
	const struct {
		struct maybe *to, value;
	} counters[] = {
		{ &c->net_rx, p->net_rx_bytes },
		{ &c->net_tx, p->net_tx_bytes },
		{ &c->energy, p->energy_uj },
	};

	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		*counters[i].to = is_union ? maybe_plus(*counters[i].to, counters[i].value)
					   : maybe_max(*counters[i].to, counters[i].value);
	}
}

/* A rank whose recorder was killed, or that has a line alone, lacks what the union measured. */
static bool is_more(struct maybe a, struct maybe b)
{
	return a.known && (!b.known || a.value > b.value);
}

static void settle_counters(struct node_sums *s, const struct counted *ranks, const struct counted *unions,
	struct part_node *node)
{
	s->cpu_of_union = ranks->n == 0 || is_more(maybe_sum(unions->user, unions->system),
						   maybe_sum(ranks->user, ranks->system));
	s->io_of_union = ranks->n == 0 || is_more(maybe_sum(unions->read, unions->write),
						  maybe_sum(ranks->read, ranks->write));
	node->user_ns = s->cpu_of_union ? unions->user : ranks->user;
	node->system_ns = s->cpu_of_union ? unions->system : ranks->system;
	node->cpu_ns = maybe_sum(node->user_ns, node->system_ns);
	node->cpu_is_exact = known(!s->cpu_of_union);
	node->read_bytes = s->io_of_union ? unions->read : ranks->read;
	node->write_bytes = s->io_of_union ? unions->write : ranks->write;
	node->net_rx_bytes = maybe_max(unions->net_rx, ranks->net_rx);
	node->net_tx_bytes = maybe_max(unions->net_tx, ranks->net_tx);
	node->energy_uj = maybe_max(unions->energy, ranks->energy);
	node->processes = maybe_max(unions->processes, ranks->processes);
}

static void count_ranks(const struct merge *m, size_t of_node, struct node_sums *s, struct part_node *node)
{
	struct counted of_ranks = { 0 }, of_unions = { 0 };
	struct maybe given = UNKNOWN, of_union = UNKNOWN;
	int64_t ranks = 0, most = 0;

	node->start_ns = known(INT64_MAX);
	for (size_t i = 0; i < m->parts->n; i++) {
		const struct part *p = &m->parts->part[i];
		const bool is_union = part_is(p, "node");

		if (p->counts.value != 1 || m->node_of[i] != of_node)
			continue;
		node->start_ns = maybe_min(node->start_ns, p->start_ns);
		node->end_ns = maybe_max(node->end_ns, known(part_end_ns(p)));
		node->limit_bytes = maybe_max(
			node->limit_bytes, p->limit_bytes.known ? p->limit_bytes : p->request_bytes);
		node->capacity_bytes = maybe_max(node->capacity_bytes, p->capacity_bytes);
		if (p->cpus.known)
			most = larger(most, p->cpus.value);
		given = maybe_max(given, p->node_cpus);
		if (is_union)
			of_union = maybe_max(of_union, p->cpus);
		ranks += part_is_rank(p);
		if (part_is(p, "worker"))
			continue;
		count_part(is_union ? &of_unions : &of_ranks, p);
		count_node(is_union ? &of_unions : &of_ranks, p, is_union);
	}
	node->ranks = known(ranks);
	/* One rank's CPUs may be another's as well, or not. */
	node->cpus = of_union.known                  ? of_union
		     : of_ranks.n > 1 && given.known ? given
		     : most > 0                      ? known(most)
						     : UNKNOWN;
	settle_counters(s, &of_ranks, &of_unions, node);
}

/* Time on the node between recordings of its union, each of which follows another. */
static int64_t union_gap(const struct merge *m, size_t of_node)
{
	const struct parts *p = m->parts;
	int64_t gap = 0, end = INT64_MAX;

	for (size_t i = 0; i < p->n; i++) { /* in the order of their starts */
		const struct part *part = &p->part[i];

		if (part->counts.value != 1 || m->node_of[i] != of_node || !part_is(part, "node"))
			continue;
		if (end < part->start_ns.value)
			gap += part->start_ns.value - end;
		end = end == INT64_MAX ? part_end_ns(part) : larger(end, part_end_ns(part));
	}
	return gap;
}

/* Both bounds hold. The rank's peak is better where it is the kernel's mark; else the union's, which is sampled more often. */
static int settle_twice_measured(const struct node_sums *s, struct part_node *node)
{
	const struct part *rank = s->rank;
	const bool is_exact = rank->ram_method && strcmp(rank->ram_method, "exact") == 0;

	node->union_gap_ns = known(0);
	node->ram_low_bytes = maybe_max(s->low, rank->ram_low_bytes);
	node->ram_high_bytes = s->high.known && rank->ram_high_bytes.known
				       ? maybe_min(s->high, rank->ram_high_bytes)
				       : maybe_max(s->high, rank->ram_high_bytes);
	node->ram_peak_bytes = maybe_max(node->ram_low_bytes, is_exact ? rank->ram_peak_bytes : s->estimate);
	if (node->ram_high_bytes.known)
		node->ram_peak_bytes = maybe_min(
			node->ram_peak_bytes, maybe_max(node->ram_high_bytes, node->ram_low_bytes));
	node->ram_at_ns = s->at_ns;
	return part_set_text(&node->ram_method, is_exact                     ? "exact"
						: node->ram_high_bytes.known ? "bounded"
									     : s->method);
}

static int settle_node(struct node_sums *s, size_t n_parts, const struct part *only, bool lacks_ranks,
	int64_t gap_ns, struct part_node *node)
{
	const struct maybe sum =
		s->has_ram ? ranks_most(s, s->of_ranks.estimate, known(s->beyond), true) : UNKNOWN;
	struct maybe sum_high = ranks_most(s, s->of_ranks.high, s->high_beyond, true);

	if (!is_bounded(&s->of_ranks, NULL) || lacks_ranks)
		sum_high = UNKNOWN;
	node->has_union = known(s->has_union);
	if (n_parts == 1 && only) { /* the figures of one recording are those of its node */
		node->ram_low_bytes = only->ram_low_bytes;
		node->ram_peak_bytes = only->ram_peak_bytes;
		node->ram_high_bytes = only->ram_high_bytes;
		node->ram_at_ns = only->ram_at_ns.known
					  ? known(only->start_ns.value + only->ram_at_ns.value)
					  : UNKNOWN;
		return part_set_text(&node->ram_method, only->ram_method);
	}
	if (s->rank && s->has_union)
		return settle_twice_measured(s, node);
	node->ram_low_bytes = maybe_max(s->low, s->ranks_low);
	if (!s->has_union) {
		node->ram_peak_bytes = sum;
		node->ram_high_bytes = sum_high;
		return part_set_text(&node->ram_method, sum_high.known ? "bounded" : "sampled");
	}
	node->union_gap_ns = known(gap_ns);
	node->ram_peak_bytes = maybe_max(s->estimate, ranks_most(s, s->of_ranks.estimate, known(0), false));
	if (s->high.known && is_bounded(&s->of_ranks, s->covered))
		node->ram_high_bytes = maybe_max(s->high, ranks_most(s, s->of_ranks.high, known(0), false));
	if (s->has_parts && sum_high.known && node->ram_high_bytes.known)
		node->ram_high_bytes = maybe_min(node->ram_high_bytes, sum_high);
	if (node->ram_high_bytes.known)
		node->ram_high_bytes = maybe_max(node->ram_high_bytes, node->ram_low_bytes);
	node->ram_peak_bytes = maybe_max(node->ram_low_bytes,
		node->ram_high_bytes.known ? maybe_min(node->ram_peak_bytes, node->ram_high_bytes)
					   : node->ram_peak_bytes);
	node->ram_at_ns = s->at_ns;
	return part_set_text(&node->ram_method, s->method);
}

static int add_node(struct merge *m, struct node_sums *s, struct part_node *node, int64_t *beyond_ns,
	struct maybe *high_beyond)
{
	const struct part *only = NULL, *rank = NULL;
	const size_t of_node = (size_t) (node - m->parts->node);
	size_t n = 0, n_ranks = 0;
	int r = 0;

	cells_clear(&s->of_union);
	cells_clear(&s->of_ranks);
	memset(s->covered, 0, s->of_union.n * sizeof(*s->covered));
	s->low = s->estimate = s->high = s->ranks_low = s->at_ns = UNKNOWN;
	s->beyond = 0;
	s->high_beyond = known(0);
	s->has_union = s->has_parts = s->has_ram = false;
	s->method = NULL;
	for (size_t i = 0; i < m->parts->n && r == 0; i++) {
		const struct part *p = &m->parts->part[i];

		if (p->counts.value != 1 || m->node_of[i] != of_node)
			continue;
		if (!part_is(p, "worker")) {
			only = p;
			n++;
		}
		if (!part_is(p, "worker") && !part_is(p, "node")) {
			rank = p;
			n_ranks++;
		}
		r = add_part(m, i, s);
	}
	s->rank = n_ranks == 1 && rank->complete.value == 1 && rank->has_recording.value == 1 ? rank : NULL;
	if (m->lacks_ranks)
		s->rank = NULL;
	if (r == 0)
		r = settle_node(s, n, only, m->lacks_ranks, union_gap(m, of_node), node);
	if (r < 0)
		return r;
	count_ranks(m, of_node, s, node);
	settle_cells(s);
	cap_cells(&s->of_union, node);
	add_cells(&m->cells, &s->of_union, true);
	*beyond_ns += beyond(node->ram_peak_bytes, s->of_union.estimate, s->of_union.n).value;
	*high_beyond =
		maybe_sum(*high_beyond, beyond(node->ram_high_bytes, s->of_union.high, s->of_union.n));
	m->low = maybe_max(m->low, node->ram_low_bytes);
	return 0;
}

/* ---- the job --------------------------------------------------------------------------------- */

/* What no window shows is in the one with the peak: windows and figures have one peak. */
static void put_peak(struct merge *m, size_t at)
{
	if (!m->estimate.known)
		return;
	for (size_t i = 0; i < m->cells.n; i++)
		m->cells.estimate[i] = smaller(m->cells.estimate[i], m->estimate.value);
	m->cells.estimate[at] = m->estimate.value;
	m->cells.high[at] = larger(m->cells.high[at], m->estimate.value);
}

static void settle_job(struct merge *m, int64_t beyond_bytes, struct maybe high_beyond)
{
	const struct parts *p = m->parts;
	const struct merge_cells *c = &m->cells;
	size_t at = 0;

	if (p->n_nodes == 1) {
		m->low = p->node[0].ram_low_bytes;
		m->estimate = p->node[0].ram_peak_bytes;
		m->high = p->node[0].ram_high_bytes;
		m->at_ns = p->node[0].ram_at_ns;
	}
	for (size_t i = 0; i < c->n; i++)
		at = c->estimate[i] > c->estimate[at] ? i : at;
	if (!m->at_ns.known)
		m->at_ns = known((int64_t) (at * c->width_ns + c->width_ns / 2));
	if (p->n_nodes == 1) {
		put_peak(m, at);
		return;
	}
	/* Sums at one time mean something only between clocks that agree. */
	m->low = maybe_max(m->low, p->clocks_compared ? known(most_of(c->low, c->n)) : UNKNOWN);
	m->estimate = known(c->estimate[at] + beyond_bytes);
	m->high = known(0);
	for (size_t i = 0; i < p->n_nodes; i++)
		m->high = maybe_sum(m->high, p->node[i].ram_high_bytes);
	if (high_beyond.known && m->high.known && p->clocks_compared && is_bounded(c, NULL))
		m->high = maybe_min(m->high, known(most_of(c->high, c->n) + high_beyond.value));
	if (m->high.known)
		m->estimate = maybe_min(m->estimate, m->high);
	m->estimate = maybe_max(m->estimate, m->low);
	put_peak(m, at);
}

static int64_t duration(const struct parts *p)
{
	int64_t end = 1;

	for (size_t i = 0; i < p->n; i++) {
		if (p->part[i].counts.value == 1)
			end = larger(end, part_end_ns(&p->part[i]));
	}
	return end;
}

int merge_add_up(struct merge *m)
{
	const uint64_t length = (uint64_t) duration(m->parts);
	const uint64_t width =
		length / CELLS_MOST + 1 > cell_least_ns ? length / CELLS_MOST + 1 : cell_least_ns;
	const size_t n = (size_t) ((length - 1) / width) + 1;
	struct node_sums sums = { 0 };
	struct maybe high_beyond = known(0);
	int64_t beyond_bytes = 0;
	int r = merge_cells_new(&m->cells, width, n);

	if (r == 0)
		r = merge_cells_new(&sums.of_union, width, n);
	if (r == 0)
		r = merge_cells_new(&sums.of_ranks, width, n);
	if (r == 0)
		r = merge_cells_new(&sums.one, width, n);
	m->lacks_ranks = parts_missing(m->parts, NULL, 0) > 0;
	sums.covered = calloc(n, sizeof(*sums.covered));
	sums.seen = calloc(n, sizeof(*sums.seen));
	if (!sums.covered || !sums.seen)
		r = -ENOMEM;
	for (size_t i = 0; i < m->parts->n_nodes && r == 0; i++)
		r = add_node(m, &sums, &m->parts->node[i], &beyond_bytes, &high_beyond);
	if (r == 0)
		settle_job(m, beyond_bytes, high_beyond);
	merge_cells_done(&sums.of_union);
	merge_cells_done(&sums.of_ranks);
	merge_cells_done(&sums.one);
	free(sums.covered);
	free(sums.seen);
	return r;
}

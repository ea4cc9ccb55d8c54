/* SPDX-License-Identifier: MIT
 *
 * Which candidates are the parts of the job, in which order, and when each began.
 *
 * Starts are compared by the wall clock of each node, which is the median of what its parts say (CLOCK_BOOTTIME, which all parts of
 * a node have in common, against the wall clock). Where ranks of all nodes have set the same marks, or begun the same phases, the nodes'
 * clocks are corrected by these.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/stats.h"
#include "record/merge/merge_internal.h"

enum {
	MARKS_NEEDED = 3, /* that nodes have in common, to compare their clocks */
};

static const char *text_of(const char *text)
{
	return text ? text : "";
}

static int compare_texts(const char *a, const char *b)
{
	return strcmp(text_of(a), text_of(b));
}

static int compare_maybes(struct maybe a, struct maybe b)
{
	if (a.known != b.known)
		return a.known ? -1 : 1;
	return a.known ? (a.value > b.value) - (a.value < b.value) : 0;
}

/* ---- one job --------------------------------------------------------------------------------- */

/* Copies of one recording: the one that has more comes first. */
static int by_id(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	int c = compare_texts(x->part.id, y->part.id);

	if (c == 0)
		c = compare_maybes(y->part.complete, x->part.complete);
	if (c == 0)
		c = compare_maybes(y->part.wall_ns, x->part.wall_ns);
	return c ? c : compare_texts(x->part.file, y->part.file);
}

/* Neither the part nor its windows are part of the result. */
static int drop(struct merge *m, struct candidate *c)
{
	const int r = merge_drop_rows(m, &c->part);

	candidate_done(c);
	return r;
}

static int drop_copies(struct merge *m)
{
	size_t n = 0;
	int r = 0;

	if (m->n > 0)
		qsort(m->candidates, m->n, sizeof(m->candidates[0]), by_id);
	for (size_t i = 0; i < m->n; i++) {
		const char *id = m->candidates[i].part.id;

		if (n > 0 && id && compare_texts(m->candidates[n - 1].part.id, id) == 0)
			r = r < 0 ? r : drop(m, &m->candidates[i]);
		else
			m->candidates[n++] = m->candidates[i];
	}
	m->n = n;
	return r;
}

static bool is_line(const struct candidate *c)
{
	return c->part.has_recording.value == 0;
}

static bool is_same_job(const struct part *a, const struct part *b)
{
	return compare_texts(a->job, b->job) == 0 && compare_texts(a->scheduler, b->scheduler) == 0 &&
	       compare_texts(a->cluster, b->cluster) == 0;
}

/* A recording in a folder that says nothing of a rank or a node, and whose program started no ranks, is a run of its own. */
static bool is_of_a_job(const struct merge *m, const struct candidate *c)
{
	const struct part *p = &c->part;

	return c->number > 0 || m->inputs[c->input].is_given || p->rank.known || *text_of(p->job) ||
	       c->has_workers || !part_is(p, "tree");
}

/* A launcher's tree and the workers in it: "ID", "ID/0", "ID/1". */
static bool is_same_recording(const struct part *a, const struct part *b)
{
	const char *x = text_of(a->id), *y = text_of(b->id);
	const size_t n = strcspn(x, "/");

	return n == strcspn(y, "/") && strncmp(x, y, n) == 0;
}

/* Of a launcher that no scheduler knows, each start is a job of its own. */
static bool is_unnumbered_launch(const struct part *p)
{
	return !*text_of(p->job) && (part_is(p, "tree") || part_is(p, "worker"));
}

/* The part that began last, of those that are part of a job. */
static const struct candidate *newest(const struct merge *m)
{
	const struct candidate *best = NULL;

	for (size_t i = 0; i < m->n; i++) {
		const struct candidate *c = &m->candidates[i];

		if (is_line(c) || !is_of_a_job(m, c))
			continue;
		if (!best || c->part.started_wall_ns.value > best->part.started_wall_ns.value)
			best = c;
	}
	return best;
}

/* "12.0" in "112.0, 12.0" */
static bool is_listed(const char *list, const char *job)
{
	const size_t len = strlen(job);

	for (const char *at = list; at && *at; at += strcspn(at, ","), at += strspn(at, ", ")) {
		if (strncmp(at, job, len) == 0 && (at[len] == ',' || at[len] == '\0'))
			return true;
	}
	return false;
}

static int note_other(struct merge *m, const struct part *p)
{
	const char *name = *text_of(p->job) ? p->job : "one without a number";
	struct buf text = BUF_INIT(400);
	int r;

	if (is_listed(m->other_jobs, name))
		return 0;
	(void) buf_printf(
		&text, "%s%s%s", m->other_jobs ? m->other_jobs : "", m->other_jobs ? ", " : "", name);
	r = text.error == -ENOMEM ? text.error : part_set_text(&m->other_jobs, text.data);
	buf_done(&text);
	return r;
}

static bool is_given(const struct merge *m, const struct candidate *c)
{
	return m->inputs[c->input].is_given;
}

static bool belongs(const struct merge *m, const struct candidate *c, const struct part *of)
{
	return is_of_a_job(m, c) && is_same_job(&c->part, of) &&
	       (is_given(m, c) || !is_unnumbered_launch(of) || is_same_recording(&c->part, of));
}

static const char *job_name(const struct part *p)
{
	return *text_of(p->job) ? p->job : "without a number";
}

/* Each file or folder that the user named must have something of the job: else the result would lack it without a word. */
static int check_given(struct merge *m, const struct part *of)
{
	const char *with = "";
	autofree bool *has = calloc(m->n_given ? m->n_given : 1, sizeof(*has));

	if (!has)
		return -ENOMEM;
	for (size_t i = 0; i < m->n; i++) {
		const struct merge_input *in = &m->inputs[m->candidates[i].input];

		if (!belongs(m, &m->candidates[i], of))
			continue;
		has[in->of_number] = true;
		with = in->of;
	}
	for (size_t i = 0; i < m->n; i++) {
		const struct candidate *c = &m->candidates[i];
		const struct merge_input *in = &m->inputs[c->input];

		if (!is_line(c) && !has[in->of_number])
			return err_set(m->err, -EINVAL,
				"%.120s is of job %.60s, %.120s of job %.60s: merge one job at a time, each into a file of "
				"its own",
				with, job_name(of), in->of, job_name(&c->part));
	}
	return 0;
}

static int choose_job(struct merge *m)
{
	const struct candidate *found = newest(m);
	struct part of = { 0 };
	size_t n = 0;
	int r = 0;

	if (!found)
		return err_set(m->err, -ENOENT, "%s",
			m->parts->n_problems > 0 ? "none of the recordings can be read"
						 : "none of the recordings is of a job of several ranks");
	if (m->is_below && !*text_of(found->part.job)) /* a folder of runs that belong together in no way */
		return err_set(m->err, -ENOENT,
			"no recordings (*.hiw) in the folder, and none of a numbered job in the newest folder in it");
	of = found->part; /* borrowed: the part itself is kept below */
	r = check_given(m, &of);
	for (size_t i = 0; i < m->n_earlier && r == 0; i++) {
		const struct earlier_problem *p = &m->earlier[i];

		r = is_same_job(&p->of, &of) ? parts_add_problem(m->parts, p->file, p->why) : 0;
	}
	for (size_t i = 0; i < m->n && r == 0; i++) {
		struct candidate *c = &m->candidates[i];

		if (is_line(c) || belongs(m, c, &of)) {
			struct candidate kept = *c;

			if (n < i)
				*c = (struct candidate) { 0 };
			m->candidates[n++] = kept;
		} else {
			r = note_other(m, &c->part);
			r = r < 0 ? r : drop(m, c);
		}
	}
	if (r == 0)
		m->n = n;
	return r;
}

/* Ranks of one job begin within minutes or, where they wait for nodes, hours. A part that began at another time is of a wrong clock, or
 * was edited, and would stretch the job's time to nothing. */
static int drop_strays(struct merge *m)
{
	static const int64_t most_ns = INT64_C(30) * 24 * 3600 * 1000000000;
	int64_t *starts = calloc(m->n ? m->n : 1, sizeof(*starts));
	size_t n = 0;
	int r = starts ? 0 : -ENOMEM;

	for (size_t i = 0; i < m->n && r == 0; i++)
		starts[i] = m->candidates[i].part.started_wall_ns.value;
	const int64_t middle = r == 0 && m->n > 0 ? stats_median(starts, m->n) : 0;

	for (size_t i = 0; i < m->n && r == 0; i++) {
		struct candidate *c = &m->candidates[i];
		const int64_t start = c->part.started_wall_ns.value;

		if (start > middle ? start - middle <= most_ns : middle - start <= most_ns) {
			m->candidates[n++] = *c;
			continue;
		}
		r = parts_add_problem(m->parts, text_of(c->part.file),
			"its clock differs from the others' by more than 30 days");
		r = r < 0 ? r : drop(m, c);
	}
	if (r == 0)
		m->n = n;
	free(starts);
	return r;
}

/* ---- which count ----------------------------------------------------------------------------- */

static int64_t restart_of(const struct part *p)
{
	return p->restart.known ? p->restart.value : 0;
}

/* Two parts of the same rank in one start of the job: the later one replaces the earlier. A node may have several, one after the other. */
static bool is_same_rank(const struct part *a, const struct part *b)
{
	return (part_is(a, "rank") || part_is(a, "worker")) &&
	       (part_is(b, "rank") || part_is(b, "worker")) && a->rank.known && b->rank.known &&
	       a->rank.value == b->rank.value;
}

static int by_rank(const void *a, const void *b)
{
	const struct candidate *x = *(const struct candidate *const *) a,
			       *y = *(const struct candidate *const *) b;
	int c = compare_maybes(x->part.rank, y->part.rank);

	if (c == 0) /* a recording of its own says more of a rank */
		c = (int) part_is(&y->part, "worker") - (int) part_is(&x->part, "worker");
	if (c == 0)
		c = compare_maybes(x->part.started_wall_ns, y->part.started_wall_ns);
	return c ? c : compare_texts(x->part.id, y->part.id);
}

/* The same job may have run twice under one number: a union that ended before a counting rank on its node began is of the earlier run. */
static void drop_earlier_unions(struct merge *m)
{
	for (size_t i = 0; i < m->n; i++) {
		struct part *u = &m->candidates[i].part;
		const int64_t end = u->started_wall_ns.value + u->wall_ns.value;
		bool any = false, is_earlier = true;

		if (!part_is(u, "node") || u->counts.value != 1)
			continue;
		for (size_t k = 0; k < m->n && is_earlier; k++) {
			const struct part *rank = &m->candidates[k].part;

			if (!part_is_rank(rank) || compare_texts(rank->node, u->node) != 0)
				continue;
			any = true;
			is_earlier = rank->started_wall_ns.value >= end;
		}
		if (any && is_earlier)
			u->counts = known(0);
	}
}

static int choose_counting(struct merge *m)
{
	struct candidate **order = calloc(m->n ? m->n : 1, sizeof(*order));
	int64_t last = 0;

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < m->n; i++) {
		order[i] = &m->candidates[i];
		last = larger(last, restart_of(&order[i]->part));
	}
	for (size_t i = 0; i < m->n; i++)
		order[i]->part.counts = known(restart_of(&order[i]->part) == last);
	qsort(order, m->n, sizeof(*order), by_rank);
	for (size_t i = 0; i + 1 < m->n; i++) {
		size_t next = i + 1;

		while (next < m->n && order[next]->part.counts.value == 0)
			next++;
		if (next < m->n && is_same_rank(&order[i]->part, &order[next]->part))
			order[i]->part.counts = known(0);
	}
	free(order);
	drop_earlier_unions(m);
	return 0;
}

/* ---- nodes and order ------------------------------------------------------------------------- */

static int kind_order(const struct part *p)
{
	static const char *const kinds[] = { "node", "tree", "rank", "worker" };
	int i = 0;

	while (i < 3 && !part_is(p, kinds[i]))
		i++;
	return i;
}

static int in_order(const void *a, const void *b)
{
	const struct part *x = &((const struct candidate *) a)->part,
			  *y = &((const struct candidate *) b)->part;
	int c = compare_texts(x->node, y->node);

	if (c == 0)
		c = kind_order(x) - kind_order(y);
	if (c == 0)
		c = compare_maybes(x->rank, y->rank);
	if (c == 0)
		c = compare_maybes(x->started_wall_ns, y->started_wall_ns);
	return c ? c : compare_texts(x->id, y->id);
}

/* Of all parts on the node that know it; for the order of nodes. */
static struct maybe node_rank(const struct parts *p, const char *node)
{
	struct maybe rank = UNKNOWN;

	for (size_t i = 0; i < p->n; i++) {
		if (compare_texts(p->part[i].node, node) == 0)
			rank = maybe_min(rank, p->part[i].node_rank);
	}
	return rank;
}

struct ranked_node {
	struct part_node node;
	struct maybe rank;
};

static int by_node(const void *a, const void *b)
{
	const struct ranked_node *x = a, *y = b;
	const int c = compare_maybes(x->rank, y->rank);

	return c ? c : compare_texts(x->node.name, y->node.name);
}

/* The parts are in the order of their nodes' names. */
static int list_nodes(struct parts *p)
{
	struct ranked_node *nodes = calloc(p->n ? p->n : 1, sizeof(*nodes));
	size_t n = 0;
	int r = nodes ? 0 : -ENOMEM;

	for (size_t i = 0; i < p->n && r == 0; i++) {
		if (p->part[i].counts.value != 1 ||
			(n > 0 && compare_texts(nodes[n - 1].node.name, p->part[i].node) == 0))
			continue;
		nodes[n].rank = node_rank(p, p->part[i].node);
		r = part_set_text(&nodes[n].node.name, p->part[i].node);
		n++;
	}
	if (n > 0)
		qsort(nodes, n, sizeof(*nodes), by_node);
	for (size_t i = 0; i < n && r == 0; i++)
		r = parts_add_node(p, &nodes[i].node);
	for (size_t i = 0; nodes && i < n; i++)
		part_node_done(&nodes[i].node);
	free(nodes);
	return r;
}

/* Which node each part is on. Parts of a node are neighbours. */
static int find_nodes(struct merge *m)
{
	const struct parts *p = m->parts;

	m->node_of = calloc(p->n ? p->n : 1, sizeof(*m->node_of));
	if (!m->node_of)
		return -ENOMEM;
	for (size_t i = 0; i < p->n; i++)
		m->node_of[i] = i > 0 && compare_texts(p->part[i - 1].node, p->part[i].node) == 0
					? m->node_of[i - 1]
					: parts_node_of(p, p->part[i].node);
	return 0;
}

/* ---- clocks ---------------------------------------------------------------------------------- */

/* start_ns of the node's parts: on the node's wall clock, for now. */
static int start_by_wall(struct parts *p, struct part_node *node)
{
	int64_t *offs = calloc(p->n, sizeof(*offs)), step = 0;
	const char *boot = NULL;
	size_t n = 0;

	if (!offs)
		return -ENOMEM;
	for (size_t i = 0; i < p->n; i++) {
		struct part *part = &p->part[i];

		if (compare_texts(part->node, node->name) != 0)
			continue;
		part->start_ns = known(part->started_wall_ns.value);
		if (part->clock_step_ns.known)
			step = larger(step, part->clock_step_ns.value);
		if (part->counts.value == 1 && part->started_boot_ns.known && part->started_wall_ns.known &&
			(!boot || compare_texts(boot, part->boot) == 0)) {
			boot = text_of(part->boot);
			offs[n++] = part->started_wall_ns.value - part->started_boot_ns.value;
		}
	}
	if (n > 0) {
		const int64_t off = stats_median(offs, n);

		step = larger(step, offs[n - 1] - offs[0]);
		for (size_t i = 0; i < p->n; i++) {
			struct part *part = &p->part[i];

			if (compare_texts(part->node, node->name) == 0 && part->started_boot_ns.known &&
				compare_texts(boot, part->boot) == 0)
				part->start_ns = known(part->started_boot_ns.value + off);
		}
	}
	node->clock_step_ns = known(step);
	free(offs);
	return 0;
}

/* The rank of each node whose marks are compared: the lowest one that has any. */
static const struct candidate *speaker(const struct merge *m, const char *node)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct candidate *c = &m->candidates[i];

		if (m->parts->part[i].counts.value == 1 &&
			compare_texts(m->parts->part[i].node, node) == 0 && c->n_marks > 0)
			return c;
	}
	return NULL;
}

static const struct merge_mark *find_mark(const struct candidate *c, uint64_t hash)
{
	const struct merge_mark *found = NULL;

	for (size_t i = 0; i < c->n_marks; i++) {
		if (c->marks[i].hash != hash)
			continue;
		if (found)
			return NULL; /* not unique */
		found = &c->marks[i];
	}
	return found;
}

/* The times of each common mark, less their median over nodes: diffs[mark * nodes + node]. */
static size_t common_marks(const struct merge *m, const struct candidate *const *speakers, int64_t *diffs)
{
	const size_t nodes = m->parts->n_nodes;
	int64_t *times = calloc(2 * nodes, sizeof(*times));
	size_t n = 0;

	for (size_t i = 0; times && i < speakers[0]->n_marks; i++) {
		bool is_common = true;

		for (size_t k = 0; k < nodes && is_common; k++) {
			const struct merge_mark *mark = find_mark(speakers[k], speakers[0]->marks[i].hash);
			const size_t part = (size_t) (speakers[k] - m->candidates);

			is_common = mark != NULL;
			if (mark)
				times[k] = times[nodes + k] =
					m->parts->part[part].start_ns.value + (int64_t) mark->t_ns;
		}
		if (!is_common)
			continue;
		const int64_t middle = stats_median(times + nodes, nodes);

		for (size_t k = 0; k < nodes; k++)
			diffs[n * nodes + k] = times[k] - middle;
		n++;
	}
	free(times);
	return n;
}

static void correct(struct merge *m, size_t node, int64_t ahead_ns)
{
	struct parts *p = m->parts;

	p->node[node].clock_ahead_ns = known(ahead_ns);
	for (size_t i = 0; i < p->n; i++) {
		if (compare_texts(p->part[i].node, p->node[node].name) == 0)
			p->part[i].start_ns.value -= ahead_ns;
	}
}

static int compare_clocks(struct merge *m)
{
	struct parts *p = m->parts;
	const size_t nodes = p->n_nodes;
	const struct candidate **speakers = calloc(nodes, sizeof(*speakers));
	int64_t *diffs = calloc(nodes * MERGE_MARKS, sizeof(*diffs)),
		*one = calloc(MERGE_MARKS, sizeof(*one));
	int64_t rest = 0;
	bool all = speakers && diffs && one;
	size_t n = 0;

	for (size_t k = 0; all && k < nodes; k++)
		all = (speakers[k] = speaker(m, p->node[k].name)) != NULL;
	if (all)
		n = common_marks(m, speakers, diffs);
	if (n >= MARKS_NEEDED) {
		for (size_t k = 0; k < nodes; k++) {
			for (size_t i = 0; i < n; i++)
				one[i] = diffs[i * nodes + k];
			const int64_t ahead = stats_median(one, n);

			rest = larger(rest, larger(one[n - 1] - ahead, ahead - one[0]));
			correct(m, k, ahead);
		}
		p->clocks_compared = true;
		p->clock_rest_ns = known(rest);
	}
	free(speakers);
	free(diffs);
	free(one);
	return 0;
}

/* The wall clock less CLOCK_BOOTTIME on each node, if all parts are of one boot of one machine: then nodes are names alone, and their
 * clocks must agree. False: they are not. */
static bool offsets_of_one_boot(const struct merge *m, int64_t *offs)
{
	const struct parts *p = m->parts;
	const char *boot = NULL;

	for (size_t i = 0; i < p->n; i++) {
		const struct part *part = &p->part[i];

		if (part->counts.value != 1 || part->has_recording.value != 1)
			continue;
		if (!part->boot || (boot && strcmp(boot, part->boot) != 0) ||
			!part->started_boot_ns.known || !part->started_wall_ns.known)
			return false;
		boot = part->boot;
		offs[m->node_of[i]] = part->started_wall_ns.value - part->started_boot_ns.value;
	}
	return boot != NULL;
}

/* The latest start of a rank less the earliest, with the nodes' clocks as they are, or corrected. */
static int64_t stagger(const struct merge *m, bool is_corrected)
{
	const struct parts *p = m->parts;
	int64_t first = INT64_MAX, last = INT64_MIN;

	for (size_t i = 0; i < p->n; i++) {
		const struct part *part = &p->part[i];

		if (!part_is_rank(part))
			continue;
		const int64_t ahead = is_corrected ? p->node[m->node_of[i]].clock_ahead_ns.value : 0;

		first = smaller(first, part->start_ns.value - ahead);
		last = larger(last, part->start_ns.value - ahead);
	}
	return last > first ? last - first : 0;
}

/* Where they do not agree, a wall clock was set, or a time namespace moved CLOCK_BOOTTIME. Ranks begin together: what brings their starts
 * closer to each other by more than clocks of one machine differ is right. */
static int compare_one_boot(struct merge *m)
{
	static const int64_t agree_ns = 50000000;
	struct parts *p = m->parts;
	const size_t n = p->n_nodes;
	int64_t *offs = calloc(2 * n + 1, sizeof(*offs)), most = 0;

	if (!offs)
		return -ENOMEM;
	if (offsets_of_one_boot(m, offs)) {
		memcpy(offs + n, offs, n * sizeof(*offs));
		const int64_t middle = stats_median(offs + n, n);

		for (size_t i = 0; i < n; i++) {
			const int64_t ahead = offs[i] - middle;

			p->node[i].clock_ahead_ns = known(ahead);
			most = larger(most, ahead < 0 ? -ahead : ahead);
		}
		const bool is_wall_wrong = most > agree_ns && stagger(m, true) + agree_ns < stagger(m, false);

		for (size_t i = 0; i < n && is_wall_wrong; i++)
			correct(m, i, p->node[i].clock_ahead_ns.value);
		p->clocks_compared = most <= agree_ns || is_wall_wrong;
		p->clock_rest_ns = !p->clocks_compared ? UNKNOWN : known(is_wall_wrong ? agree_ns : most);
	}
	free(offs);
	return 0;
}

/* From the start of the job: its earliest part. */
static void start_from_first(struct parts *p)
{
	int64_t first = INT64_MAX;

	for (size_t i = 0; i < p->n; i++) {
		if (p->part[i].counts.value == 1)
			first = smaller(first, p->part[i].start_ns.value);
	}
	for (size_t i = 0; i < p->n; i++)
		p->part[i].start_ns.value -= first;
}

int merge_align(struct merge *m)
{
	struct parts *p = m->parts;
	int r;

	r = drop_copies(m);
	if (r == 0)
		r = choose_job(m);
	if (r == 0)
		r = drop_strays(m);
	if (r == 0)
		r = choose_counting(m);
	if (r == 0)
		qsort(m->candidates, m->n, sizeof(m->candidates[0]), in_order);
	for (size_t i = 0; i < m->n && r == 0; i++)
		r = parts_add(p, &m->candidates[i].part);
	if (r == 0)
		r = list_nodes(p);
	if (r == 0)
		r = find_nodes(m);
	for (size_t i = 0; i < p->n_nodes && r == 0; i++)
		r = start_by_wall(p, &p->node[i]);
	if (r == 0 && p->n_nodes > 1)
		r = compare_clocks(m);
	if (r == 0 && p->n_nodes > 1 && !p->clocks_compared)
		r = compare_one_boot(m);
	if (r == 0)
		start_from_first(p);
	return r == -ENOMEM ? err_set(m->err, r, "out of memory") : r;
}

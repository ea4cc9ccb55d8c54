/* SPDX-License-Identifier: MIT
 *
 * Rules about a job of several ranks, which only a merged recording shows: what is missing, and ranks or nodes that differ from the others.
 */
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/units.h"
#include "findings/finding.h"

enum {
	NODE_FULL_PERCENT = 90,   /* of the limit of the fullest node, */
	NODE_MEDIAN_PERCENT = 75, /* while the median is below this */
	NODE_SLOW_PERCENT = 10,   /* more time a step than the other nodes */
	NODE_IDLE_PERCENT = 5,    /* of the mean of all nodes */
	RANK_RAM_PERCENT = 150,   /* of the median of all ranks */
	TAIL_PERCENT = 20,        /* of the run, without work on any GPU */
	BUSY_LEAST_PPM = 50000,
};
static const int64_t ram_difference_least = INT64_C(1) << 30, tail_least_ns = INT64_C(300000000000);

static const char *name_of(const char *name)
{
	return name ? name : "?";
}

/* "3 ranks without a recording, 1 node without any" */
static void list_lack(struct buf *text, size_t n, const char *one, const char *several)
{
	if (n > 0)
		buf_printf(text, "%s%zu %s", text->len && text->data[text->len - 1] != ' ' ? ", " : "", n,
			n == 1 ? one : several);
}

bool rule_ranks_missing(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct parts *p = job_parts(k->s->job);
	const size_t missing = parts_missing(p, NULL, 0), nodes = parts_missing_nodes(p);
	size_t cut = 0;

	for (size_t i = 0; i < p->n; i++)
		cut += part_is_cut_off(&p->part[i]) && !part_is(&p->part[i], "node");
	finding_evidence(f, "ranks", (double) parts_ranks(p));
	finding_evidence(f, "missing", (double) missing);
	finding_evidence(f, "missing_nodes", (double) nodes);
	finding_evidence(f, "cut_off", (double) cut);
	finding_evidence(f, "unreadable", (double) p->n_problems);
	if (parts_are_running(p) || (missing == 0 && nodes == 0 && cut == 0 && p->n_problems == 0)) {
		buf_str(text, parts_are_running(p) ? "the job is still running"
						   : "every rank has a recording with an end");
		return false;
	}
	buf_str(text, "Missing from the figures: ");
	list_lack(text, missing, "rank without a recording", "ranks without a recording");
	list_lack(text, cut, "recording that was cut off", "recordings that were cut off");
	list_lack(text, nodes, "node without any", "nodes without any");
	list_lack(text, p->n_problems, "file that could not be read", "files that could not be read");
	buf_str(text, ". Sums and peaks of the job are at least as shown.");
	return true;
}

bool rule_node_memory(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct parts *p = job_parts(k->s->job);
	int64_t *shares = calloc(p->n_nodes ? p->n_nodes : 1, sizeof(*shares)), most = 0;
	const struct part_node *worst = NULL;
	char used[UNITS_LEN], of[UNITS_LEN];
	size_t n = 0;
	bool fires = false;

	for (size_t i = 0; shares && i < p->n_nodes; i++) {
		const struct part_node *node = &p->node[i];
		const struct maybe limit =
			node->limit_bytes.known ? node->limit_bytes : node->capacity_bytes;

		if (!node->ram_peak_bytes.known || !limit.known || limit.value <= 0)
			continue;
		shares[n] = (int64_t) ((double) node->ram_peak_bytes.value / (double) limit.value * 100);
		if (!worst || shares[n] > most) {
			worst = node;
			most = shares[n];
		}
		n++;
	}
	if (n < 2) {
		buf_str(text, "memory and its limit are known of fewer than two nodes");
	} else {
		const struct maybe limit =
			worst->limit_bytes.known ? worst->limit_bytes : worst->capacity_bytes;
		const int64_t middle = stats_median(shares, n);

		fires = most >= NODE_FULL_PERCENT && middle < NODE_MEDIAN_PERCENT;
		finding_text(f, "node", name_of(worst->name));
		finding_evidence(f, "peak_bytes", (double) worst->ram_peak_bytes.value);
		finding_evidence(f, "limit_bytes", (double) limit.value);
		finding_evidence(f, "median_ratio", (double) middle / 100);
		if (fires)
			buf_printf(text,
				"Memory on node %s reached %s of %s, while the median node used %lld %%: "
				"what fills it there, often "
				"rank 0, limits the whole job. Spread it, or request more for that node.",
				name_of(worst->name),
				units_bytes(worst->ram_peak_bytes.value, UNITS_IEC, used),
				units_bytes(limit.value, UNITS_IEC, of), (long long) middle);
		else
			buf_printf(text,
				"the fullest node used %lld %% of its memory, the median %lld %%; fires "
				"from %d %% "
				"with a median below %d %%",
				(long long) most, (long long) middle, NODE_FULL_PERCENT,
				NODE_MEDIAN_PERCENT);
	}
	free(shares);
	return fires;
}

/* The least time of a step of the ranks on the node, and the most; false: not known. */
static bool node_steps(const struct parts *p, const char *node, int64_t *ret_least, int64_t *ret_most)
{
	bool any = false;

	for (size_t i = 0; i < p->n; i++) {
		const struct part *part = &p->part[i];

		if (!part_is_rank(part) || !part->step_ns.known ||
			strcmp(name_of(part->node), name_of(node)) != 0)
			continue;
		*ret_least = any ? smaller(*ret_least, part->step_ns.value) : part->step_ns.value;
		*ret_most = any ? larger(*ret_most, part->step_ns.value) : part->step_ns.value;
		any = true;
	}
	return any;
}

bool rule_node_slow(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct parts *p = job_parts(k->s->job);
	int64_t least = 0, most = 0, slowest = 0, others = 0;
	const char *worst = NULL;
	char slow[UNITS_LEN], other[UNITS_LEN];
	size_t n = 0;

	for (size_t i = 0; i < p->n_nodes; i++) {
		if (!node_steps(p, p->node[i].name, &least, &most))
			continue;
		n++;
		if (!worst || least > slowest) {
			worst = p->node[i].name;
			slowest = least;
		}
	}
	for (size_t i = 0; i < p->n_nodes; i++) {
		if (p->node[i].name != worst && node_steps(p, p->node[i].name, &least, &most))
			others = larger(others, most);
	}
	if (n < 2) {
		buf_str(text, "step times are known of ranks on fewer than two nodes");
		return false;
	}
	finding_text(f, "node", name_of(worst));
	finding_evidence(f, "step_s", (double) slowest / 1e9);
	finding_evidence(f, "others_step_s", (double) others / 1e9);
	(void) units_duration(slowest, slow);
	(void) units_duration(others, other);
	if (slowest * 100 <= others * (100 + NODE_SLOW_PERCENT)) {
		buf_printf(text,
			"on the slowest node, %s, a step took %s at least, elsewhere %s at most; fires "
			"above %d %%",
			name_of(worst), slow, other, 100 + NODE_SLOW_PERCENT);
		return false;
	}
	buf_printf(text,
		"Every rank on node %s is slower than every other rank: %s a step at least, elsewhere %s "
		"at most. Check that "
		"node's clocks, network and other processes, or leave it out.",
		name_of(worst), slow, other);
	return true;
}

static double cores_of(const struct part_node *n)
{
	const int64_t span = n->end_ns.value - n->start_ns.value;

	return n->cpu_ns.known && span > 0 ? (double) n->cpu_ns.value / (double) span : -1;
}

bool rule_node_idle(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct parts *p = job_parts(k->s->job);
	const struct part_node *worst = NULL;
	double sum = 0, least = 0;
	size_t n = 0;

	for (size_t i = 0; i < p->n_nodes; i++) {
		const double cores = cores_of(&p->node[i]);

		if (cores < 0)
			continue;
		sum += cores;
		n++;
		if (!worst || cores < least) {
			worst = &p->node[i];
			least = cores;
		}
	}
	if (n < 2) {
		buf_str(text, "CPU use is known of fewer than two nodes");
		return false;
	}
	finding_text(f, "node", name_of(worst->name));
	finding_evidence(f, "cores", least);
	finding_evidence(f, "mean_cores", sum / (double) n);
	if (least * 100 >= sum / (double) n * NODE_IDLE_PERCENT) {
		buf_printf(text,
			"the least busy node, %s, used %.3g cores, the mean is %.3g; fires below %d %% of "
			"it",
			name_of(worst->name), least, sum / (double) n, NODE_IDLE_PERCENT);
		return false;
	}
	buf_printf(text,
		"Node %s used %.3g cores, while the mean of %zu nodes is %.3g: it may have been idle. "
		"Check that its ranks do their "
		"share, or request fewer nodes.",
		name_of(worst->name), least, n, sum / (double) n);
	return true;
}

bool rule_rank_memory(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct parts *p = job_parts(k->s->job);
	int64_t *peaks = calloc(p->n ? p->n : 1, sizeof(*peaks));
	const struct part *worst = NULL;
	char most[UNITS_LEN], middle[UNITS_LEN];
	size_t n = 0;
	bool fires = false;

	for (size_t i = 0; peaks && i < p->n; i++) {
		const struct part *part = &p->part[i];

		if (!part_is_rank(part) || !part->ram_peak_bytes.known)
			continue;
		peaks[n++] = part->ram_peak_bytes.value;
		if (!worst || part->ram_peak_bytes.value > worst->ram_peak_bytes.value)
			worst = part;
	}
	if (n < 2) {
		buf_str(text, "memory is known of fewer than two ranks");
	} else {
		const int64_t half = stats_median(peaks, n), peak = worst->ram_peak_bytes.value;

		fires = (double) peak * 100 > (double) half * RANK_RAM_PERCENT &&
			peak - half > ram_difference_least;
		finding_evidence(f, "rank", (double) worst->rank.value);
		finding_evidence(f, "peak_bytes", (double) peak);
		finding_evidence(f, "median_bytes", (double) half);
		(void) units_bytes(peak, UNITS_IEC, most);
		(void) units_bytes(half, UNITS_IEC, middle);
		if (fires)
			buf_printf(text,
				"Rank %lld on node %s used %s of memory, the median of %zu ranks %s: what "
				"only it keeps, such "
				"as gathered results, decides how much each node needs.",
				(long long) worst->rank.value, name_of(worst->node), most, n, middle);
		else
			buf_printf(text,
				"the rank with most memory used %s, the median %s; fires above %d %% of it "
				"and 1 GiB more",
				most, middle, RANK_RAM_PERCENT);
	}
	free(peaks);
	return fires;
}

bool rule_restarts(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct maybe restart = k->s->facts->restart;
	const struct parts *p = job_parts(k->s->job);
	size_t replaced = 0;

	for (size_t i = 0; i < p->n; i++)
		replaced += p->part[i].counts.value != 1;
	if (!restart.known || restart.value == 0) {
		buf_str(text, "the job was started once");
		return false;
	}
	finding_evidence(f, "restarts", (double) restart.value);
	finding_evidence(f, "replaced_recordings", (double) replaced);
	buf_printf(text,
		"The job was started again %lld time%s; the figures are those of its last start. %zu "
		"recordings of earlier ones are not "
		"part of them.",
		(long long) restart.value, restart.value == 1 ? "" : "s", replaced);
	return true;
}

/* The time at which the last work on any GPU was seen; 0: none was, or it is not known. */
static int64_t last_work_ns(const struct job *job)
{
	const int64_t span = (int64_t) job_timeline_span(job);
	int64_t last = 0;

	for (size_t i = 0; i < job_gpu_count(job); i++) {
		const struct timeline *t = job_timeline(job, M_GPU_BUSY, job_gpu(job, i)->birth.id);

		for (int b = 0; t && b < TIMELINE_BUCKETS; b++) {
			if (t->buckets[b].known && t->buckets[b].max > BUSY_LEAST_PPM)
				last = larger(last, (b + 1) * span);
		}
	}
	return last;
}

bool rule_gpu_tail(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const int64_t wall = k->s->wall_ns.value, last = last_work_ns(k->s->job), tail = wall - last;
	char idle[UNITS_LEN], whole[UNITS_LEN];

	if (last == 0) {
		buf_str(text, "no work on a GPU was seen");
		return false;
	}
	finding_evidence(f, "idle_s", (double) tail / 1e9);
	(void) units_duration(tail > 0 ? tail : 0, idle);
	(void) units_duration(wall, whole);
	if (tail < tail_least_ns || (double) tail * 100 < (double) wall * TAIL_PERCENT) {
		buf_printf(text,
			"the GPUs were idle for the last %s of %s; fires from 5 minutes and %d %% of the "
			"run",
			idle, whole, TAIL_PERCENT);
		return false;
	}
	finding_interval(f, last, wall);
	buf_printf(text,
		"No GPU worked during the last %s of %s, though the job held them. Do what follows the "
		"training in a job without GPUs.",
		idle, whole);
	return true;
}

/* SPDX-License-Identifier: MIT */
#include "cli/run/node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "cli/terminal.h"

enum {
	RANKS_RECORDED = 64, /* by default; of more, each would leave a file for little */
};
static const uint64_t second_ns = UINT64_C(1000000000);

/* ---- --ranks --------------------------------------------------------------------------------- */

/* Is the rank in "0,8,16"? *ret_valid: it is a list. */
static bool list_has(const char *list, int64_t rank, bool *ret_valid)
{
	const char *p = list;
	bool has = false;

	for (;;) {
		uint64_t number;

		*ret_valid = parse_u64(&p, &number) == 0 && number <= INT32_MAX && (*p == ',' || *p == '\0');
		if (!*ret_valid)
			return false;
		has |= number == (uint64_t) rank;
		if (*p++ == '\0')
			return has;
	}
}

int parse_ranks(const char *value, void *dest, struct err *err)
{
	struct ranks *ranks = dest;
	bool is_valid;

	if (strcmp(value, "all") == 0 || strcmp(value, "leader") == 0) {
		ranks->which = *value == 'a' ? RANKS_ALL : RANKS_LEADER;
		return 0;
	}
	(void) list_has(value, -1, &is_valid);
	if (!is_valid)
		return err_set(err, -EINVAL, "'%.80s' names no ranks; give all, leader, or numbers such as 0,8,16", value);
	*ranks = (struct ranks) { RANKS_LIST, value };
	return 0;
}

/* ---- before the job -------------------------------------------------------------------------- */

/* A launcher that is alone on its node has all ranks there below it: its recording is the node's. */
static bool is_node_itself(const struct node *n)
{
	return n->rank.is_launcher && !n->rank.shares_node;
}

static int open_folder(struct node *n, struct err *err)
{
	char name[sizeof(n->rank.key) + sizeof(n->rank.node) + 1];

	(void) snprintf(name, sizeof(name), "%s-%s", n->rank.key, n->rank.node);
	return node_folder_open(name, &n->folder, err);
}

void node_prepare(struct node *n, const struct measure *measure, const char *const *argv)
{
	struct err err = { "" };

	n->measure = measure;
	n->argv = argv;
	hwi_rank_read(argv, &n->rank);
	if (!n->rank.is_many || is_node_itself(n))
		return;
	if (open_folder(n, &err) < 0) {
		if (!measure->quiet)
			complain("warning: node %s is not recorded, but this rank is: %s; set XDG_RUNTIME_DIR to a folder "
				 "of yours on the node, with mode 0700",
				n->rank.node, err.text);
		return;
	}
	(void) node_folder_lead(&n->folder);
}

enum hwi_part node_own_part(const struct node *n, const struct ranks *ranks)
{
	const bool is_leader = n->folder.lock >= 0;
	bool is_kept, is_valid;

	if (!n->rank.is_many)
		return HWI_PART_NONE;
	if (is_node_itself(n))
		return HWI_PART_NODE;
	switch (ranks->which) {
	case RANKS_ALL:
		is_kept = true;
		break;
	case RANKS_LEADER:
		is_kept = is_leader;
		break;
	case RANKS_LIST:
		is_kept = n->rank.rank.known && list_has(ranks->list, n->rank.rank.value, &is_valid);
		break;
	case RANKS_DEFAULT:
	default:
		is_kept = is_leader || n->rank.ranks.value <= RANKS_RECORDED;
	}
	return is_kept ? HWI_PART_RANK : HWI_PART_LINE;
}

/* Is there a rule about GPUs? The default alerts have some. */
static bool has_gpu_rule(const struct rules *rules)
{
	for (size_t i = 0; rules->text[i]; i++) {
		if (strstr(rules->text[i], "gpu") || strstr(rules->text[i], "default"))
			return true;
	}
	return false;
}

bool node_lighten(const struct node *n, struct hiw_options *o)
{
	const struct measure *m = n->measure;

	if (n->folder.dir < 0 || !n->rank.shares_node)
		return false;
	if (!m->interval_given && !m->alerts.text[0] && !m->limits.text[0])
		o->interval_ns = o->window_ns;
	if (m->gpu_given || has_gpu_rule(&m->alerts) || has_gpu_rule(&m->limits))
		return false;
	o->gpu = HIW_GPU_NONE;
	return true;
}

/* ---- measuring the node ---------------------------------------------------------------------- */

static void print_warnings(const struct node *n)
{
	const char *text;

	while (n->recorder && (text = hiw_recorder_warning(n->recorder))) {
		if (!n->measure->quiet)
			complain("warning: node %s: %s", n->rank.node, text);
	}
}

static bool is_measured(const struct node *n, const struct node_rank *rank)
{
	for (size_t i = 0; i < n->n; i++) {
		if (n->ranks[i].pid == rank->pid && n->ranks[i].start_ticks == rank->start_ticks)
			return true;
	}
	return false;
}

/* One that has ended meanwhile is left out. */
static void add_rank(void *ctx, const struct node_rank *rank)
{
	struct node *n = ctx;

	if (is_measured(n, rank) || hiw_recorder_start(n->recorder, rank->pid, NULL) < 0)
		return;
	n->started = true;
	n->has_rank_0 |= rank->rank.known && rank->rank.value == 0;
	if (n->n == n->cap) {
		const size_t cap = n->cap ? 2 * n->cap : 16;
		struct node_rank *ranks = reallocarray(n->ranks, cap, sizeof(*ranks));

		if (!ranks)
			return;
		n->ranks = ranks;
		n->cap = cap;
	}
	n->ranks[n->n++] = *rank;
	hwi_recorder_add_rank(n->recorder, rank->pid);
}

static void find_ranks(struct node *n)
{
	const size_t n_elsewhere = node_folder_list(&n->folder, add_rank, n);

	if (n_elsewhere > 0 && !n->warned && !n->measure->quiet)
		complain("warning: node %s: %zu ranks are in another PID namespace and not in the recording of the node",
			n->rank.node, n_elsewhere);
	n->warned |= n_elsewhere > 0;
}

/* The rank's recorder takes every child of this process for one of the job. */
static void ignore_helper(const struct node *n, struct hiw_recorder *rank)
{
	const pid_t helper = n->recorder ? hiw_recorder_helper(n->recorder) : 0;

	if (rank && helper > 0)
		hiw_recorder_ignore(rank, helper);
}

/* The alerts and limits are those of the ranks' own recorders. */
static void lead(struct node *n, struct hiw_recorder *rank)
{
	struct hiw_options o = n->measure->recorder;
	struct hiw_err err = { "" };
	int r;

	o.attached = true;
	o.degrade = true;
	o.alerts = o.limits = NULL;
	o.cgroup_made = NULL;
	o.argv = n->argv;
	r = hwi_recorder_new_part(&o, HWI_PART_NODE, &n->recorder, &err);
	if (r < 0) {
		n->recorder = NULL;
		if (!n->measure->quiet)
			complain("warning: node %s is not recorded: %s", n->rank.node, err.text[0] ? err.text : strerror(-r));
		return;
	}
	find_ranks(n);
	ignore_helper(n, rank);
	print_warnings(n);
}

static struct maybe number(const struct node *n)
{
	const struct hiw_maybe rank = n->rank.rank;

	return rank.known && !n->rank.is_launcher ? known(rank.value) : UNKNOWN;
}

void node_begin(struct node *n, pid_t main, struct hiw_recorder *rank)
{
	int r = node_folder_announce(&n->folder, main, number(n));

	if (r == -ENOENT) { /* a leader has removed the folder since, as no rank was announced there */
		node_folder_leave(&n->folder);
		r = open_folder(n, NULL);
		if (r == 0 && node_folder_announce(&n->folder, main, number(n)) == 0)
			(void) node_folder_lead(&n->folder);
	}
	n->next_try_ns = clock_boot_ns() + second_ns;
	if (n->folder.lock >= 0)
		lead(n, rank);
}

int node_fd(const struct node *n)
{
	return n->started && !n->ended ? hiw_recorder_fd(n->recorder) : -1;
}

void node_step(struct node *n, struct hiw_recorder *rank)
{
	hiw_recorder_step(n->recorder);
	if (node_folder_changed(&n->folder))
		find_ranks(n);
	ignore_helper(n, rank);
	print_warnings(n);
}

void node_try(struct node *n, struct hiw_recorder *rank)
{
	const uint64_t now = clock_boot_ns();

	if (n->folder.dir < 0 || n->started || now < n->next_try_ns)
		return;
	n->next_try_ns = now + second_ns;
	if (n->recorder) /* no rank could be measured yet */
		find_ranks(n);
	else if (n->folder.lock < 0 && node_folder_lead(&n->folder))
		lead(n, rank);
}

void node_reaped(struct node *n, pid_t pid, int status)
{
	if (n->recorder && pid == hiw_recorder_helper(n->recorder))
		hiw_recorder_reaped(n->recorder, pid, status, NULL);
}

/* ---- after the job --------------------------------------------------------------------------- */

void node_end(struct node *n)
{
	struct hiw_err err = { "" };
	int r;

	if (!n->started || n->ended)
		return;
	n->ended = true;
	r = hiw_recorder_end(n->recorder, &err);
	if (r < 0 && !n->measure->quiet)
		complain("warning: node %s: %s", n->rank.node, err.text[0] ? err.text : strerror(-r));
	print_warnings(n);
}

enum summary_kind node_summary_kind(const struct node *n)
{
	const bool is_first = n->rank.rank.known && n->rank.rank.value == 0;
	const bool is_unled = n->folder.dir < 0;
	const bool was_too_soon = n->folder.lock >= 0 && !n->ended; /* for a sample of the node */

	if (!n->rank.is_many)
		return SUMMARY_DEFAULT;
	return is_first && (is_unled || was_too_soon) ? SUMMARY_FULL : SUMMARY_LINE;
}

/* How to see the whole job: the folder that was given, else its name in the history. */
static void print_pointer(const struct node *n, struct hiw_recorder *recorder)
{
	const char *path = hiw_recorder_path(n->recorder ? n->recorder : recorder);
	const char *slash = strrchr(path, '/');

	if (n->measure->recorder.output && slash)
		complain("the whole job: hiwater show %.*s", (int) (slash - path + 1), path);
	else if (n->measure->recorder.output && *path)
		complain("the whole job: hiwater show ./");
	else if (*path && n->rank.run[0])
		complain("the whole job: hiwater show %s", n->rank.run);
	else if (slash)
		complain("the whole job: hiwater show %.*s", (int) (slash - path + 1), path);
}

void node_report(struct node *n, struct hiw_recorder *recorder)
{
	const bool is_whole_node = is_node_itself(n) && n->rank.rank.known && n->rank.rank.value == 0;

	if (!n->rank.is_many || n->measure->quiet || n->measure->summary != SUMMARY_DEFAULT)
		return;
	if (n->ended && n->has_rank_0 && node_folder_report(&n->folder))
		measure_summary(n->measure, n->recorder);
	else if (!is_whole_node)
		return;
	print_pointer(n, recorder);
}

void node_leave(struct node *n)
{
	node_end(n);
	hiw_recorder_free(n->recorder);
	node_folder_leave(&n->folder);
	free(n->ranks);
	*n = (struct node) NODE_NONE;
}

/* SPDX-License-Identifier: MIT */
#include "record/history/history_job.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "record/history/history_run.h"
#include "record/history/job_folder.h"

/* Recordings on a network file system are copied to it every 60 s at the latest. */
enum {
	FRESH_S = 120,
	BEGINNING_S = 60,
};

static bool is_within(int64_t mtime_s, int64_t span_s)
{
	return time(NULL) - mtime_s < span_s;
}

/* ---- is it still being recorded? ------------------------------------------------------------- */

static bool is_entry_running(const struct history_entry *e, const struct job_part *part)
{
	return e->running || (e->is_elsewhere && is_within(part->mtime_s, FRESH_S));
}

/* A finished recording has no journal; one that is copied here from a node has none either, but is fresh. */
static bool is_part_running(const struct job_part *part)
{
	struct history_entry entry;
	bool running;

	if (part->bytes == 0 && !part->has_journal)
		return is_within(part->mtime_s, BEGINNING_S);
	if ((!part->has_journal && !is_within(part->mtime_s, FRESH_S)) ||
		history_entry_read(part->path, &entry) < 0)
		return false;
	running = is_entry_running(&entry, part);
	history_entry_done(&entry);
	return running;
}

static bool are_running(const struct job_parts *parts)
{
	if (parts->n == 0)
		return is_within(parts->mtime_s, BEGINNING_S);
	for (size_t i = 0; i < parts->n; i++) {
		if (is_part_running(&parts->parts[i]))
			return true;
	}
	return false;
}

bool history_job_is_running(const char *folder)
{
	autoparts struct job_parts parts = { 0 };

	return job_folder_parts(folder, &parts) == 0 && are_running(&parts);
}

int history_job_state(const char *folder, struct history_job_state *ret)
{
	autoparts struct job_parts parts = { 0 };
	struct history_entry entry;
	bool by_hand = false;
	size_t n_read = 0;
	int r = job_folder_parts(folder, &parts);

	*ret = (struct history_job_state) { 0 };
	if (r < 0)
		return r;
	ret->is_fresh = is_within(parts.mtime_s, FRESH_S);
	ret->is_running = ret->is_fresh || are_running(&parts);
	for (size_t i = 0; i < parts.n && !ret->is_running; i++) {
		if (history_entry_read(parts.parts[i].path, &entry) < 0)
			continue;
		n_read++;
		ret->is_pinned |= entry.pinned;
		by_hand |= entry.pinned && !entry.by_trigger;
		history_entry_done(&entry);
	}
	ret->by_trigger = ret->is_pinned && !by_hand;
	ret->is_unreadable = !ret->is_running && parts.n > 0 && n_read == 0;
	return 0;
}

/* ---- as one run ------------------------------------------------------------------------------ */

/* What is added up over the recordings that are read. */
struct adding {
	struct history_entry entry; /* has the texts of the first one */
	uint64_t ended_wall_ns;
	size_t n_read, n_nodes, n_ranks;
	int64_t last_rank;          /* of those whose status is known */
	bool is_complete;
	struct maybe node_peak, node_cores;
};

static void take_texts(struct history_entry *to, struct history_entry *from)
{
	to->name = take_ptr(from->name);
	to->command = take_ptr(from->command);
	to->note = take_ptr(from->note);
	to->raised = take_ptr(from->raised);
}

/* The first status that is not 0, else 0. Of a rank that was started again the last start counts, which comes first. */
static void add_status(struct adding *a, const struct job_part *part, const struct history_entry *e)
{
	struct maybe *status = &a->entry.status;

	if (part->rank < 0 || part->rank == a->last_rank || !e->complete || !e->status.known)
		return;
	a->last_rank = part->rank;
	a->n_ranks++;
	if (!status->known || status->value == 0)
		*status = e->status;
}

/* One without a start was lost before anything was recorded. */
static void add_times(struct adding *a, const struct history_entry *e)
{
	uint64_t *started = &a->entry.started_wall_ns;
	const uint64_t end = e->started_wall_ns + (uint64_t) (e->wall_ns > 0 ? e->wall_ns : 0);

	if (e->started_wall_ns > 0 && (*started == 0 || e->started_wall_ns < *started))
		*started = e->started_wall_ns;
	if (end > a->ended_wall_ns)
		a->ended_wall_ns = end;
}

static void add_part(struct adding *a, const struct job_part *part, struct history_entry *e)
{
	struct history_entry *to = &a->entry;

	add_times(a, e);
	add_status(a, part, e);
	a->is_complete = (a->n_read == 0 || a->is_complete) && e->complete;
	to->running |= is_entry_running(e, part);
	to->by_trigger = e->pinned ? e->by_trigger && (to->by_trigger || !to->pinned) : to->by_trigger;
	to->pinned |= e->pinned;
	to->is_watched |= e->is_watched;
	to->ranks = maybe_max(to->ranks, e->ranks);
	to->nodes = maybe_max(to->nodes, e->nodes);
	if (e->is_node) {
		a->n_nodes++;
		a->node_peak = e->peak_bytes;
		a->node_cores = e->cores_ppm;
	}
	if (a->n_read++ == 0)
		take_texts(to, e);
}

/* A sum of peaks of different times would be no peak, nor is that of one rank. */
static void set_figures(struct adding *a, bool all_read)
{
	struct history_entry *e = &a->entry;
	const bool is_one_node = all_read && a->n_nodes == 1 && e->nodes.known && e->nodes.value == 1;

	e->peak_bytes = is_one_node ? a->node_peak : UNKNOWN;
	e->cores_ppm = is_one_node ? a->node_cores : UNKNOWN;
	e->wall_ns = (int64_t) (a->ended_wall_ns - e->started_wall_ns);
	e->complete = a->is_complete && !e->running;
	if (e->status.value == 0 && !(all_read && e->ranks.known && (int64_t) a->n_ranks == e->ranks.value))
		e->status = UNKNOWN;
}

int history_job_entry(const char *folder, struct history_entry *ret)
{
	autoparts struct job_parts parts = { 0 };
	struct adding a = { .entry = { .is_folder = true }, .last_rank = -1 };
	size_t i = 0;
	int r = job_folder_parts(folder, &parts);

	if (r < 0)
		return r;
	for (; i < parts.n && i < HISTORY_PARTS; i++) {
		struct history_entry e;

		if (history_entry_read(parts.parts[i].path, &e) < 0)
			continue;
		add_part(&a, &parts.parts[i], &e);
		history_entry_done(&e);
	}
	if (a.n_read == 0)
		return -EBADMSG;
	for (; i < parts.n && !a.entry.running; i++)
		a.entry.running = parts.parts[i].has_journal && is_part_running(&parts.parts[i]);
	set_figures(&a, a.n_read == parts.n);
	a.entry.path = strdup(folder);
	if (!a.entry.path) {
		history_entry_done(&a.entry);
		return -ENOMEM;
	}
	*ret = a.entry;
	return 0;
}

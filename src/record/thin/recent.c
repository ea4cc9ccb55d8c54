/* SPDX-License-Identifier: MIT
 *
 * Prunes the rows at full rate: the last minutes and the time around triggers stay.
 */
#include <errno.h>
#include <string.h>

#include "record/thin/thin_internal.h"

enum {
	SLICES = 64,           /* parts into which the time at full rate is divided; one is cut at a time */
	KEPT_SHARE = 3         /* data kept around triggers may use 1/3 of the limit */
};
static const uint64_t keep_after_ns = 10000000000, release_ns = 1000000000;

void thin_keep(struct thin *t, uint64_t time_ns)
{
	const uint64_t recent = t->options.recent_ns;
	const struct thin_range range = { time_ns > recent ? time_ns - recent : 0, time_ns + keep_after_ns };
	struct thin_range *last = t->n_kept > 0 ? &t->kept[t->n_kept - 1] : NULL;

	if (last && range.from_ns <= last->to_ns)
		last->to_ns = range.to_ns > last->to_ns ? range.to_ns : last->to_ns;
	else if (t->n_kept < THIN_KEPT)
		t->kept[t->n_kept++] = range;
}

static int cut(struct store *s, uint64_t from_ns, uint64_t to_ns)
{
	int64_t gone = 0;

	for (int e = 0; e < ENTITY_COUNT && gone >= 0 && from_ns < to_ns; e++) {
		struct buf sql = BUF_INIT(256);

		(void) buf_str(&sql, "DELETE FROM ");
		(void) buf_printf(&sql, "%s_recent WHERE t >= ? AND t < ?", entity_name((enum entity) e));
		gone = thin_delete(s, CLASS_RECENT, sql.data, (int64_t) from_ns, (int64_t) to_ns);
		buf_done(&sql);
	}
	return gone < 0 ? (int) gone : 0;
}

/* Cuts the rows between cut_ns and before_ns, except the kept ranges. */
static int cut_before(struct thin *t, struct store *s, uint64_t before_ns)
{
	uint64_t from = t->cut_ns;
	int r = 0;

	for (unsigned i = 0; i < t->n_kept && r == 0; i++) {
		const struct thin_range *kept = &t->kept[i];

		if (kept->to_ns <= from || kept->from_ns >= before_ns)
			continue;
		r = cut(s, from, kept->from_ns);
		from = kept->to_ns;
	}
	if (r == 0)
		r = cut(s, from, before_ns);
	if (r == 0 && before_ns > t->cut_ns)
		t->cut_ns = before_ns;
	return r;
}

/* Cuts a few rows at a time, or once every few windows: one statement per table costs more than
 * the rows. */
int thin_prune(struct thin *t, struct store *s, uint64_t now_ns)
{
	enum {
		WINDOWS = 4,
		PIECE = 512
	};
	const uint64_t rows = s->use[CLASS_RECENT].rows;
	uint64_t before, every = WINDOWS * t->options.window_ns;

	if (now_ns <= t->options.recent_ns)
		return 0;
	before = now_ns - t->options.recent_ns;
	if (rows * every / (t->options.recent_ns + every) > PIECE)
		every = t->options.window_ns;
	if (before < t->cut_ns + every)
		return 0;
	return cut_before(t, s, before);
}

/* If the kept ranges use more than their share, cuts the oldest one, a second at a time. */
static int release(struct thin *t, struct store *s)
{
	struct thin_range *oldest = &t->kept[0];
	uint64_t from;
	int r;

	if (t->n_kept == 0 || s->use[CLASS_RECENT].bytes <= t->options.max_bytes / KEPT_SHARE)
		return 0;
	from = oldest->from_ns;
	oldest->from_ns += release_ns;
	r = cut(s, from, oldest->from_ns);
	if (oldest->from_ns >= oldest->to_ns) {
		t->n_kept--;
		memmove(&t->kept[0], &t->kept[1], t->n_kept * sizeof(t->kept[0]));
	}
	return r < 0 ? r : 1;
}

/* The end of the kept range that contains ns; else ns. */
static uint64_t behind_kept(const struct thin *t, uint64_t ns)
{
	for (unsigned i = 0; i < t->n_kept; i++) {
		if (ns >= t->kept[i].from_ns && ns < t->kept[i].to_ns)
			ns = t->kept[i].to_ns;
	}
	return ns;
}

int thin_recent(struct thin *t, struct store *s)
{
	int64_t newest = 0;
	bool found = false;
	uint64_t slice;
	int r = thin_number(s, "SELECT max(t) FROM (SELECT max(t) AS t FROM job_recent UNION ALL"
			       " SELECT max(t) FROM host_recent UNION ALL SELECT max(t) FROM process_recent)",
		0, 0, &newest, &found);

	if (r < 0 || !found || s->use[CLASS_RECENT].rows == 0)
		return r;
	t->cut_ns = behind_kept(t, t->cut_ns);
	if ((uint64_t) newest <= t->cut_ns)
		return release(t, s);
	slice = ((uint64_t) newest - t->cut_ns) / SLICES;
	r = cut_before(t, s, t->cut_ns + (slice > 0 ? slice : 1));
	return r < 0 ? r : 1;
}

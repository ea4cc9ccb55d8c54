/* SPDX-License-Identifier: MIT
 *
 * Where the memory of the sampled parts came from (model/where.h): the last high of each, scaled to the part's peak, in
 * one high. Its total is the sum of these peaks, as hiwater where shows it of a folder; processes have the rank of
 * their part, equal frames and stacks are one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "record/merge/merge_internal.h"
#include "record/where/where_read.h"
#include "record/where/where_write.h"

enum {
	MOST_ROWS = 1 << 20,
	MOST_FILES = 1 << 16,
};

struct gathered {
	struct where_frame *frames;      /* with texts of their own, as processes and files */
	size_t n_frames, cap_frames;
	struct where_stack *stacks;
	size_t n_stacks, cap_stacks;
	struct where_process *processes;
	size_t n_processes, cap_processes;
	struct where_row *rows;
	size_t n_rows, cap_rows;
	struct where_file *files;
	size_t n_files, cap_files;
	struct map frame_ids, stack_ids, file_ids; /* by hash; of equal hashes the next number is taken */
	struct where_high high;
	uint64_t largest_bytes;          /* peak of the part that the high's time is of */
	bool is_found;
};

/* The part that is being added. */
struct adding {
	struct gathered *to;
	const struct where_data *data;
	int64_t rank;
	uint32_t *frames, *stacks, *processes; /* number in the result; 0: none yet */
};

static void free_text(const char *text)
{
	free((void *) (uintptr_t) text);
}

static void gathered_done(struct gathered *g)
{
	for (size_t i = 0; i < g->n_frames; i++) {
		free_text(g->frames[i].module);
		free_text(g->frames[i].build_id);
		free_text(g->frames[i].function);
		free_text(g->frames[i].file);
	}
	for (size_t i = 0; i < g->n_processes; i++)
		free_text(g->processes[i].name);
	for (size_t i = 0; i < g->n_files; i++)
		free_text(g->files[i].name);
	free(g->frames);
	free(g->stacks);
	free(g->processes);
	free(g->rows);
	free(g->files);
	map_done(&g->frame_ids);
	map_done(&g->stack_ids);
	map_done(&g->file_ids);
}

/* ---- equal ones are one ---------------------------------------------------------------------- */

static uint64_t mixed_text(uint64_t hash, const char *text)
{
	for (const char *p = text; *p; p++)
		hash = map_mixed(hash, (unsigned char) *p);
	return map_mixed(hash, 256);
}

static bool is_same_frame(const struct where_frame *a, const struct where_frame *b)
{
	return a->offset == b->offset && a->line == b->line && strcmp(a->function, b->function) == 0 &&
	       strcmp(a->module, b->module) == 0 && strcmp(a->build_id, b->build_id) == 0 &&
	       strcmp(a->file, b->file) == 0;
}

/* *ret 0: there are too many. Returns 0 or -ENOMEM. */
static int frame_number(struct gathered *g, const struct where_frame *f, uint32_t *ret)
{
	uint64_t hash = mixed_text(mixed_text(map_mixed(f->offset, f->line), f->module), f->build_id);
	struct where_frame copy = *f;

	hash = mixed_text(mixed_text(hash, f->function), f->file);
	for (; map_get(&g->frame_ids, hash, ret); hash++) {
		if (is_same_frame(&g->frames[*ret - 1], f))
			return 0;
	}
	*ret = 0;
	if (g->n_frames == WHERE_FRAMES)
		return 0;
	if (vec_reserve(&g->frames, &g->cap_frames, g->n_frames, sizeof(copy), WHERE_FRAMES) < 0)
		return -ENOMEM;
	copy.module = strdup(f->module);
	copy.build_id = strdup(f->build_id);
	copy.function = strdup(f->function);
	copy.file = strdup(f->file);
	g->frames[g->n_frames++] = copy;
	if (!copy.module || !copy.build_id || !copy.function || !copy.file)
		return -ENOMEM;
	*ret = (uint32_t) g->n_frames;
	return map_put(&g->frame_ids, hash, *ret);
}

static int stack_number(struct gathered *g, struct where_stack stack, uint32_t *ret)
{
	const uint64_t key = (uint64_t) stack.parent << 32 | stack.frame;

	if (map_get(&g->stack_ids, key, ret))
		return 0;
	*ret = 0;
	if (g->n_stacks == WHERE_STACKS)
		return 0;
	if (vec_reserve(&g->stacks, &g->cap_stacks, g->n_stacks, sizeof(stack), WHERE_STACKS) < 0)
		return -ENOMEM;
	g->stacks[g->n_stacks++] = stack;
	*ret = (uint32_t) g->n_stacks;
	return map_put(&g->stack_ids, key, *ret);
}

static int add_file(struct gathered *g, const char *name, uint64_t bytes)
{
	uint64_t hash = mixed_text(0, name);
	uint32_t at;

	for (; map_get(&g->file_ids, hash, &at); hash++) {
		if (strcmp(g->files[at].name, name) == 0) {
			g->files[at].bytes += bytes;
			return 0;
		}
	}
	if (g->n_files == MOST_FILES)
		return 0;
	if (vec_reserve(&g->files, &g->cap_files, g->n_files, sizeof(*g->files), MOST_FILES) < 0)
		return -ENOMEM;
	g->files[g->n_files] = (struct where_file) { strdup(name), bytes };
	if (!g->files[g->n_files].name)
		return -ENOMEM;
	return map_put(&g->file_ids, hash, (uint32_t) g->n_files++);
}

/* ---- a part ---------------------------------------------------------------------------------- */

/* The numbers in the result of the stacks of all rows, and of their callers, which have smaller numbers. */
static int carry_stacks(struct adding *a, const struct where_high *high)
{
	const struct where_data *data = a->data;
	int r = 0;

	for (size_t i = 0; i < high->n_rows; i++) {
		for (uint32_t at = high->rows[i].stack; at > 0 && a->stacks[at - 1] == 0;
			at = data->stacks[at - 1].parent)
			a->stacks[at - 1] = UINT32_MAX; /* to be numbered */
	}
	for (size_t i = 0; i < data->n_stacks && r == 0; i++) {
		const struct where_stack *s = &data->stacks[i];
		struct where_stack carried = { .parent = s->parent > 0 ? a->stacks[s->parent - 1] : 0 };

		if (a->stacks[i] == 0)
			continue;
		a->stacks[i] = 0;
		if (a->frames[s->frame - 1] == 0)
			r = frame_number(a->to, &data->frames[s->frame - 1], &a->frames[s->frame - 1]);
		carried.frame = a->frames[s->frame - 1];
		if (r == 0 && carried.frame > 0 && (s->parent == 0 || carried.parent > 0))
			r = stack_number(a->to, carried, &a->stacks[i]);
	}
	return r;
}

static int carry_process(struct adding *a, uint32_t number)
{
	struct gathered *g = a->to;
	struct where_process p = a->data->processes[number - 1];

	if (a->processes[number - 1] > 0 || g->n_processes == WHERE_PROCESSES)
		return 0;
	if (vec_reserve(&g->processes, &g->cap_processes, g->n_processes, sizeof(p), WHERE_PROCESSES) < 0)
		return -ENOMEM;
	p.rank = p.rank >= 0 ? p.rank : a->rank;
	p.name = strdup(p.name);
	g->processes[g->n_processes++] = p;
	a->processes[number - 1] = (uint32_t) g->n_processes;
	return p.name ? 0 : -ENOMEM;
}

/* Memory of a row that finds no room is unsampled. */
static int carry_row(struct adding *a, const struct where_row *row, uint64_t bytes)
{
	struct gathered *g = a->to;
	int r = carry_process(a, row->process);
	const struct where_row carried = {
		.stack = a->stacks[row->stack - 1],
		.process = a->processes[row->process - 1],
		.bytes = bytes,
		.n = row->n,
		.copied_bytes = where_share(row->copied_bytes, bytes, row->bytes),
	};

	if (r < 0 || carried.stack == 0 || carried.process == 0 || g->n_rows == MOST_ROWS)
		return r;
	if (vec_reserve(&g->rows, &g->cap_rows, g->n_rows, sizeof(carried), MOST_ROWS) < 0)
		return -ENOMEM;
	g->rows[g->n_rows++] = carried;
	return 0;
}

/* Times are those of the part with the largest peak. */
static void add_head(struct gathered *g, const struct where_high *high, const struct where_divided *parts,
	uint64_t peak, int64_t shift_ns)
{
	const uint64_t shift = shift_ns > 0 ? (uint64_t) shift_ns : 0;
	struct where_high *to = &g->high;

	to->total_bytes += peak;
	to->looked_bytes += high->looked_bytes;
	to->before_bytes += parts->before_room;
	to->lost += high->lost;
	to->huge_bytes = high->huge_bytes > to->huge_bytes ? high->huge_bytes : to->huge_bytes;
	if (g->is_found && peak <= g->largest_bytes)
		return;
	g->is_found = true;
	g->largest_bytes = peak;
	to->time_ns = high->time_ns + shift;
	to->looked_ns = high->looked_ns + shift;
	to->sample_bytes = high->sample_bytes;
}

static int carry_high(struct adding *a, const struct where_high *high, uint64_t peak, int64_t shift_ns)
{
	const struct where_divided parts = where_divide(high, peak);
	uint64_t done = 0;
	int r = carry_stacks(a, high);

	for (size_t i = 0; i < high->n_rows && r == 0; i++)
		r = carry_row(a, &high->rows[i],
			where_scaled(parts.rows_room, high->rows[i].bytes, parts.rows, &done));
	done = 0;
	for (size_t i = 0; i < high->n_files && r == 0; i++)
		r = add_file(a->to, high->files[i].name,
			where_scaled(parts.files_room, high->files[i].bytes, parts.files, &done));
	if (r == 0)
		add_head(a->to, high, &parts, peak, shift_ns);
	return r;
}

/* ---- an earlier merge ------------------------------------------------------------------------ */

/* The ranks of which the parts come from the input; 0: of no rank. */
static int ranks_from(const struct merge *m, size_t input, struct map *ret)
{
	int r = 0;

	for (size_t i = 0; i < m->n && r == 0; i++) {
		const struct part *p = &m->parts->part[i];

		if (m->candidates[i].input == input && part_is_own(p))
			r = map_put(ret, p->rank.known ? (uint64_t) p->rank.value + 1 : 0, 1);
	}
	return r;
}

/* Leaves of a merged high the rows of the ranks that are taken from it, and of what is known of all ranks together
 * the same share. */
static void leave_ranks(const struct where_data *data, struct where_high *high, const struct map *ranks)
{
	struct where_row *const rows = (struct where_row *) (uintptr_t) high->rows;
	struct where_file *const files = (struct where_file *) (uintptr_t) high->files;
	uint64_t all = 0, left = 0;
	size_t n = 0;

	for (size_t i = 0; i < high->n_rows; i++) {
		const int64_t rank = data->processes[rows[i].process - 1].rank;
		uint32_t unused;

		all += rows[i].bytes;
		if (!map_get(ranks, rank >= 0 ? (uint64_t) rank + 1 : 0, &unused))
			continue;
		left += rows[i].bytes;
		rows[n++] = rows[i];
	}
	high->n_rows = n;
	if (left == all)
		return;
	high->total_bytes = where_share(high->total_bytes, left, all);
	high->looked_bytes = where_share(high->looked_bytes, left, all);
	high->before_bytes = where_share(high->before_bytes, left, all);
	for (size_t i = 0; i < high->n_files; i++)
		files[i].bytes = where_share(files[i].bytes, left, all);
}

/* ---- all parts ------------------------------------------------------------------------------- */

static int add_data(struct merge *m, struct gathered *g, size_t part, struct where_data *data)
{
	const struct candidate *c = &m->candidates[part];
	const struct part *p = &m->parts->part[part];
	const bool is_merged = c->number > 0;
	struct where_high *high = &data->highs[data->n_highs - 1];
	struct adding a = {
		.to = g,
		.data = data,
		.rank = !is_merged && p->rank.known ? p->rank.value : -1,
		.frames = calloc(data->n_frames + 1, sizeof(*a.frames)),
		.stacks = calloc(data->n_stacks + 1, sizeof(*a.stacks)),
		.processes = calloc(data->n_processes + 1, sizeof(*a.processes)),
	};
	struct map ranks = { 0 };
	int r = a.frames && a.stacks && a.processes ? 0 : -ENOMEM;

	if (r == 0 && is_merged)
		r = ranks_from(m, c->input, &ranks);
	if (r == 0 && is_merged)
		leave_ranks(data, high, &ranks);
	if (r == 0)
		r = carry_high(&a, high,
			!is_merged && p->ram_peak_bytes.known && p->ram_peak_bytes.value >= 0
				? (uint64_t) p->ram_peak_bytes.value
				: high->total_bytes,
			p->start_ns.value - (is_merged ? c->was_start_ns : 0));
	map_done(&ranks);
	free(a.frames);
	free(a.stacks);
	free(a.processes);
	return r;
}

/* A file that has gone since the first pass, was not sampled or is damaged adds nothing. */
static int add_part(struct merge *m, struct gathered *g, size_t part)
{
	struct replay *replay = NULL;
	struct where_data *data = NULL;
	int r = 0;

	if (replay_open(m->inputs[m->candidates[part].input].path, &replay, NULL) < 0)
		return 0;
	r = where_read(replay, &data, NULL);
	if (r == 0)
		r = add_data(m, g, part, data);
	where_data_free(data);
	replay_close(replay);
	return r == -ENOMEM ? r : 0;
}

static int write_gathered(struct merge *m, struct gathered *g)
{
	struct where_write *w = where_write_new(m->store);
	const struct where_sink *sink = w ? where_write_sink(w) : NULL;
	int r = w ? 0 : -ENOMEM;

	g->high.rows = g->rows;
	g->high.n_rows = g->n_rows;
	g->high.files = g->files;
	g->high.n_files = g->n_files;
	for (size_t i = 0; i < g->n_frames && r == 0; i++)
		r = sink->frame(sink->ctx, (uint32_t) i + 1, &g->frames[i]);
	for (size_t i = 0; i < g->n_stacks && r == 0; i++)
		r = sink->stack(sink->ctx, (uint32_t) i + 1, &g->stacks[i]);
	for (size_t i = 0; i < g->n_processes && r == 0; i++)
		r = sink->process(sink->ctx, (uint32_t) i + 1, &g->processes[i]);
	if (r == 0)
		r = sink->high(sink->ctx, 1, &g->high);
	where_write_free(w);
	return r;
}

int merge_copy_where(struct merge *m)
{
	struct gathered g = { 0 };
	bool *is_done = calloc(m->n_inputs + 1, sizeof(*is_done)); /* an earlier merge has many parts */
	int r = is_done ? 0 : -ENOMEM;

	for (size_t i = 0; i < m->n && r == 0; i++) {
		const size_t input = m->candidates[i].input;

		if (is_done[input] || !m->inputs[input].has_where || !part_is_own(&m->parts->part[i]))
			continue;
		is_done[input] = true;
		r = add_part(m, &g, i);
	}
	if (r == 0 && g.is_found)
		r = write_gathered(m, &g);
	gathered_done(&g);
	free(is_done);
	return r;
}

/* SPDX-License-Identifier: MIT */
#include "sink/where/where_view.h"

#include <errno.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "sink/trace/trace_names.h"

enum {
	MOST = 1 << 22,        /* of each list */
	MOST_DEPTH = 1024,     /* frames of a stack; what is deeper counts for its caller there */
};

static const char *const by_names[WHERE_BY_COUNT] = {
	[WHERE_BY_FUNCTION] = "function",
	[WHERE_BY_LINE] = "line",
	[WHERE_BY_STACK] = "stack",
	[WHERE_BY_LIBRARY] = "library",
	[WHERE_BY_PROCESS] = "process",
};

const char *where_by_name(enum where_by by)
{
	return by_names[by];
}

const char *where_basename(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* ---- numbers of texts and pairs -------------------------------------------------------------- */

static uint64_t hash_of(const char *text, uint64_t salt)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ (salt * UINT64_C(0x9e3779b97f4a7c15));

	for (; *text; text++)
		hash = (hash ^ (unsigned char) *text) * UINT64_C(0x100000001b3);
	return hash ^ hash >> 29;
}

const char *where_text_of(const struct where_view *view, where_text_id id)
{
	return id > 0 && id <= view->texts.n ? view->texts.list[id - 1] : "";
}

static int text_id(struct where_view *view, const char *text, where_text_id *ret)
{
	struct where_texts *t = &view->texts;
	uint64_t salt = 0;
	uint32_t place;
	char *copy;

	*ret = 0;
	if (!*text)
		return 0;
	while (map_get(&t->places, hash_of(text, salt), &place)) {
		if (strcmp(t->list[place - 1], text) == 0) {
			*ret = place;
			return 0;
		}
		salt++;
	}
	if (vec_reserve(&t->list, &t->cap, t->n, sizeof(*t->list), MOST) < 0)
		return -ENOMEM;
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	t->list[t->n++] = copy;
	*ret = (uint32_t) t->n;
	return map_put(&t->places, hash_of(text, salt), (uint32_t) t->n);
}

static uint64_t pair(uint32_t a, uint32_t b)
{
	return (uint64_t) a << 32 | b;
}

/* The element of a list for the key, made (all zero) if there is none: *ret_new. */
static int find_or_add(struct map *map, uint64_t key, void *list, size_t *n, size_t *cap, size_t size,
	uint32_t *ret, bool *ret_new)
{
	char *array;

	*ret_new = false;
	if (map_get(map, key, ret))
		return 0;
	if (vec_reserve(list, cap, *n, size, MOST) < 0 || map_put(map, key, (uint32_t) *n) < 0)
		return -ENOMEM;
	memcpy(&array, list, sizeof(array));
	memset(array + *n * size, 0, size);
	*ret = (uint32_t) (*n)++;
	*ret_new = true;
	return 0;
}

/* ---- places ---------------------------------------------------------------------------------- */

static const char cut_name[] = "\xE2\x80\xA6"; /* an ellipsis */

static bool is_cut_frame(const struct where_frame *f)
{
	return !*f->module && (strcmp(f->function, "...") == 0 || strcmp(f->function, cut_name) == 0);
}

static int function_id(struct where_view *view, const struct where_frame *f, uint32_t *ret)
{
	const char *library = where_basename(f->module);
	struct buf name = BUF_INIT(1 << 20);
	where_text_id name_id, library_id;
	bool is_new;
	int r;

	if (is_cut_frame(f))
		(void) buf_str(&name, cut_name);
	else if (*f->function)
		trace_demangle(f->function, &name);
	else if (!*library || *library == '[')
		(void) buf_str(&name, *library ? library : "[unknown]");
	else
		(void) buf_printf(&name, "%s+0x%llx", library, (unsigned long long) f->offset);
	r = name.error;
	if (r == 0)
		r = text_id(view, name.data, &name_id);
	if (r == 0)
		r = text_id(view, library, &library_id);
	if (r == 0)
		r = find_or_add(&view->function_ids, pair(name_id, library_id), &view->functions,
			&view->n_functions, &view->cap_functions, sizeof(*view->functions), ret, &is_new);
	if (r == 0 && is_new)
		view->functions[*ret] = (struct where_function) {
			.name = name_id,
			.library = library_id,
			.first_place = UINT32_MAX,
			.is_named = *f->function && !is_cut_frame(f),
			.is_plumbing = where_is_plumbing(library, f->function),
			.is_cut = is_cut_frame(f),
			.is_script = *library == '[' && *f->function && *f->file,
			.is_under = view->under && regexec(view->under, name.data, 0, NULL, 0) == 0,
		};
	buf_done(&name);
	return r;
}

static int place_id(struct where_view *view, const struct where_frame *f, uint32_t *ret)
{
	struct where_place place = { .line = f->line };
	uint32_t at_file = 0;
	bool is_new;
	int r = function_id(view, f, &place.function);

	if (r == 0)
		r = text_id(view, f->file, &place.file);
	if (r == 0)
		r = text_id(view, f->module, &place.module);
	if (r == 0)
		r = text_id(view, f->build_id, &place.build_id);
	/* Two steps, since a key has room for two numbers. */
	if (r == 0 && !map_get(&view->file_places, pair(place.function, place.file), &at_file)) {
		at_file = (uint32_t) view->file_places.used;
		r = map_put(&view->file_places, pair(place.function, place.file), at_file);
	}
	if (r == 0)
		r = find_or_add(&view->place_ids, pair(at_file, f->line), &view->places, &view->n_places,
			&view->cap_places, sizeof(*view->places), ret, &is_new);
	if (r < 0 || !is_new)
		return r;
	view->places[*ret] = place;
	if (view->functions[place.function].first_place == UINT32_MAX)
		view->functions[place.function].first_place = *ret;
	return 0;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static int tree_node(struct where_view *view, uint32_t parent, uint32_t function, uint32_t *ret)
{
	bool is_new;
	int r = find_or_add(&view->tree_ids, pair(parent, function), &view->tree, &view->n_tree,
		&view->cap_tree, sizeof(*view->tree), ret, &is_new);

	if (r < 0 || !is_new)
		return r;
	view->tree[*ret] = (struct where_tree_node) { .parent = parent,
		.function = function,
		.depth = parent > 0 ? view->tree[parent - 1].depth + 1 : 1 };
	return 0;
}

/* Adds the stacks of a recording: nodes[i] becomes the number of stack i + 1 in the view. */
static int add_stacks(
	struct where_view *view, const struct where_data *data, const uint32_t *places, uint32_t *nodes)
{
	for (size_t i = 0; i < data->n_stacks; i++) {
		const struct where_stack *s = &data->stacks[i];
		struct where_node node = { .depth = 1 };
		uint32_t above = 0;
		int r;

		nodes[i] = UINT32_MAX;
		if (s->frame < 1 || s->frame > data->n_frames || s->parent > i ||
			(s->parent && nodes[s->parent - 1] == UINT32_MAX))
			continue;
		if (s->parent) {
			node.parent = nodes[s->parent - 1] + 1;
			node.depth = view->nodes[node.parent - 1].depth + 1;
			above = view->nodes[node.parent - 1].function_node + 1;
		}
		if (node.depth > MOST_DEPTH) {
			nodes[i] = nodes[s->parent - 1];
			continue;
		}
		node.place = places[s->frame - 1];
		r = tree_node(view, above, view->places[node.place].function, &node.function_node);
		if (r < 0 ||
			vec_reserve(&view->nodes, &view->cap_nodes, view->n_nodes, sizeof(node), MOST) < 0)
			return -ENOMEM;
		nodes[i] = (uint32_t) view->n_nodes;
		view->nodes[view->n_nodes++] = node;
	}
	return 0;
}

static const struct where_function *function_of(const struct where_view *view, uint32_t node)
{
	return &view->functions[view->places[view->nodes[node].place].function];
}

/* The frame that a stack counts for: the innermost one of a script, if there is one; else outside the
 * plumbing; if all is plumbing, the innermost. */
static uint32_t toucher_of(const struct where_view *view, uint32_t node)
{
	if (view->options.is_self)
		return node;
	for (uint32_t at = node + 1; at > 0; at = view->nodes[at - 1].parent) {
		if (function_of(view, at - 1)->is_script)
			return at - 1;
	}
	for (uint32_t at = node + 1; at > 0; at = view->nodes[at - 1].parent) {
		const struct where_function *f = function_of(view, at - 1);

		if (!f->is_plumbing && !f->is_cut)
			return at - 1;
	}
	return node;
}

static bool is_out(const struct where_view *view, uint32_t node)
{
	if (!view->under)
		return false;
	for (uint32_t at = node + 1; at > 0; at = view->nodes[at - 1].parent) {
		if (function_of(view, at - 1)->is_under)
			return false;
	}
	return true;
}

/* ---- a recording ----------------------------------------------------------------------------- */

static int add_rows(struct where_view *view, const struct where_high *high, const struct where_divided *parts,
	const uint32_t *nodes, size_t n_nodes, uint32_t first_process)
{
	uint64_t done = 0;

	for (size_t i = 0; i < high->n_rows; i++) {
		const struct where_row *row = &high->rows[i];
		struct where_leaf leaf = { .n = row->n };

		leaf.bytes = where_scaled(parts->rows_room, row->bytes, parts->rows, &done);
		leaf.copied = where_share(row->copied_bytes, leaf.bytes, row->bytes);
		if (row->stack < 1 || row->stack > n_nodes || nodes[row->stack - 1] == UINT32_MAX)
			return -EINVAL; /* where_read leaves out such rows */
		if (vec_reserve(&view->leaves, &view->cap_leaves, view->n_leaves, sizeof(leaf), MOST) < 0)
			return -ENOMEM;
		leaf.node = nodes[row->stack - 1];
		leaf.process = first_process + row->process - 1;
		leaf.is_out = is_out(view, leaf.node);
		*(leaf.is_out ? &view->out_bytes : &view->rows_bytes) += leaf.bytes;
		view->samples += leaf.n;
		view->leaves[view->n_leaves++] = leaf;
	}
	return 0;
}

static int add_files(
	struct where_view *view, const struct where_high *high, const struct where_divided *parts)
{
	uint64_t done = 0;

	for (size_t i = 0; i < high->n_files; i++) {
		const uint64_t bytes =
			where_scaled(parts->files_room, high->files[i].bytes, parts->files, &done);
		where_text_id name;
		uint32_t place;
		bool is_new;
		int r = text_id(view, high->files[i].name, &name);

		if (r == 0)
			r = find_or_add(&view->file_ids, name, &view->files, &view->n_files,
				&view->cap_files, sizeof(*view->files), &place, &is_new);
		if (r < 0)
			return r;
		view->files[place].name = name;
		view->files[place].bytes += bytes;
		view->files_bytes += bytes;
	}
	return 0;
}

static int add_processes(struct where_view *view, const struct where_data *data)
{
	for (size_t i = 0; i < data->n_processes; i++) {
		struct where_view_process p = { .pid = data->processes[i].pid,
			.rank = data->processes[i].rank,
			.recording = view->n_recordings };
		int r = text_id(view, data->processes[i].name, &p.name);

		if (r == 0 && vec_reserve(&view->processes, &view->cap_processes, view->n_processes,
				      sizeof(p), MOST) < 0)
			r = -ENOMEM;
		if (r < 0)
			return r;
		view->processes[view->n_processes++] = p;
	}
	return 0;
}

static int add_python(
	struct where_view *view, const struct where_python *from, uint32_t high, uint32_t first_process)
{
	struct where_view_python *to = &view->pythons[view->n_pythons];

	if (from->process == 0 || from->n_frames == 0)
		return 0;
	view->n_pythons++;
	to->high = high;
	to->process = first_process + from->process - 1;
	to->thread = from->thread;
	to->time_ns = from->time_ns;
	to->n_frames = from->n_frames;
	for (size_t i = 0; i < from->n_frames; i++) {
		struct where_view_frame *frame = &to->frames[i];

		frame->line = from->frames[i].line;
		if (text_id(view, from->frames[i].function, &frame->function) < 0 ||
			text_id(view, from->frames[i].file, &frame->file) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Of the recording with the largest peak: of its highs until the one at a place. */
static int add_pythons(
	struct where_view *view, const struct where_data *data, size_t at, uint32_t first_process)
{
	int r = 0;

	view->n_pythons = 0;
	for (size_t i = 0; i <= at && i < WHERE_HIGHS; i++) {
		const struct where_high *high = &data->highs[i];

		if (high->n_pythons > 0 && !view->pythons)
			view->pythons = calloc((size_t) WHERE_HIGHS * WHERE_PYTHONS, sizeof(*view->pythons));
		if (high->n_pythons > 0 && !view->pythons)
			return -ENOMEM;
		for (size_t k = 0; k < high->n_pythons && r == 0; k++)
			r = add_python(view, &high->pythons[k], (uint32_t) i + 1, first_process);
	}
	return r;
}

static int add_head(struct where_view *view, const struct where_data *data, size_t at, uint64_t peak,
	struct maybe at_ns, uint32_t first_process)
{
	const struct where_high *high = &data->highs[at];

	view->peak_bytes += peak;
	view->lost += high->lost;
	if (view->n_recordings > 0 && peak <= view->largest_bytes)
		return 0;
	view->largest_bytes = peak;
	view->high = (uint32_t) at + 1;
	view->high_ns = high->time_ns;
	view->at_ns = at_ns.known ? at_ns : known((int64_t) high->time_ns);
	view->looked_ns = high->looked_ns;
	view->looked_bytes = high->looked_bytes;
	view->sample_bytes = high->sample_bytes;
	view->huge_bytes = high->huge_bytes;
	view->n_highs = data->n_highs < WHERE_HIGHS ? data->n_highs : WHERE_HIGHS;
	for (size_t i = 0; i < view->n_highs; i++)
		view->highs[i] =
			(struct where_view_high) { data->highs[i].time_ns, data->highs[i].total_bytes };
	return add_pythons(view, data, at, first_process);
}

int where_view_add(struct where_view *view, const struct where_data *data, struct maybe peak,
	struct maybe at_ns, bool is_growing, struct err *err)
{
	const size_t wanted = view->options.high, at = wanted > 0 ? wanted - 1 : data->n_highs - 1;
	const bool is_last = at + 1 == data->n_highs;
	autofree uint32_t *places = calloc(data->n_frames + 1, sizeof(*places));
	autofree uint32_t *nodes = calloc(data->n_stacks + 1, sizeof(*nodes));
	const uint32_t first_process = (uint32_t) view->n_processes;
	const struct where_high *high;
	struct where_divided parts;
	uint64_t bytes;
	int r = 0;

	if (at >= data->n_highs)
		return err_set(err, -EINVAL, "there is no high %zu of the memory; its highs are 1 to %zu",
			wanted, data->n_highs);
	high = &data->highs[at];
	if (data->is_merged)
		peak = at_ns = UNKNOWN;
	bytes = is_last && peak.known && peak.value >= 0 ? (uint64_t) peak.value : high->total_bytes;
	parts = where_divide(high, bytes);
	if (!places || !nodes)
		return -ENOMEM;
	for (size_t i = 0; i < data->n_frames && r == 0; i++)
		r = place_id(view, &data->frames[i], &places[i]);
	if (r == 0)
		r = add_stacks(view, data, places, nodes);
	if (r == 0)
		r = add_rows(view, high, &parts, nodes, data->n_stacks, first_process);
	if (r == 0)
		r = add_processes(view, data);
	if (r == 0)
		r = add_files(view, high, &parts);
	if (r == 0)
		r = add_head(view, data, at, bytes, is_last ? at_ns : UNKNOWN, first_process);
	if (r < 0)
		return r;
	view->before_bytes += parts.before_room;
	view->unsampled_bytes += parts.unsampled;
	view->is_growing = view->is_growing || is_growing;
	view->n_recordings++;
	return 0;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static uint32_t key_of(const struct where_view *view, const struct where_leaf *leaf, uint32_t node)
{
	const struct where_place *place = &view->places[view->nodes[node].place];

	switch (view->options.by) {
	case WHERE_BY_LINE:
		return view->nodes[node].place;
	case WHERE_BY_STACK:
		return view->nodes[leaf->node].function_node;
	case WHERE_BY_LIBRARY:
		return view->functions[place->function].library;
	case WHERE_BY_PROCESS:
		return leaf->process;
	case WHERE_BY_FUNCTION:
	case WHERE_BY_COUNT:
		break;
	}
	return place->function;
}

static struct where_line *line_of(struct where_view *view, uint32_t key)
{
	uint32_t at;
	bool is_new;

	if (find_or_add(&view->line_ids, key, &view->lines, &view->n_lines, &view->cap_lines,
		    sizeof(*view->lines), &at, &is_new) < 0)
		return NULL;
	view->lines[at].key = key;
	return &view->lines[at];
}

/* The largest stack that is counted stands for the line; else the largest that passes through it. */
static void see_leaf(
	struct where_view *view, struct where_line *line, size_t leaf, uint32_t node, bool is_own)
{
	const uint64_t bytes = view->leaves[leaf].bytes;

	if (line->stamp > 0 &&
		(line->has_own > is_own || (line->has_own == is_own && bytes <= line->leaf_bytes)))
		return;
	line->has_own = is_own;
	line->leaf = (uint32_t) leaf;
	line->node = node;
	line->leaf_bytes = bytes;
}

static int add_leaf(struct where_view *view, size_t i)
{
	const struct where_leaf *leaf = &view->leaves[i];
	const uint32_t toucher = toucher_of(view, leaf->node);
	const bool has_callers = view->options.by < WHERE_BY_STACK || view->options.by == WHERE_BY_LIBRARY;
	struct where_line *line = line_of(view, key_of(view, leaf, toucher));

	if (!line)
		return -ENOMEM;
	see_leaf(view, line, i, toucher, true);
	line->bytes += leaf->bytes;
	line->n += leaf->n;
	line->total += leaf->bytes;
	line->copied += leaf->copied;
	line->stamp = i + 1;
	if (leaf->n > 0)
		line->variance += (double) leaf->bytes * (double) leaf->bytes / (double) leaf->n;
	for (uint32_t at = leaf->node + 1; has_callers && at > 0; at = view->nodes[at - 1].parent) {
		line = line_of(view, key_of(view, leaf, at - 1));
		if (!line)
			return -ENOMEM;
		if (line->stamp == i + 1)
			continue;
		see_leaf(view, line, i, at - 1, false);
		line->total += leaf->bytes;
		line->stamp = i + 1;
	}
	return 0;
}

/* Before lines are sorted. */
static int count_out(struct where_view *view)
{
	struct map seen = { 0 };
	int r = 0;

	for (size_t i = 0; i < view->n_leaves && r == 0; i++) {
		const struct where_leaf *leaf = &view->leaves[i];
		const uint32_t key = key_of(view, leaf, toucher_of(view, leaf->node));
		uint32_t at;

		if (!leaf->is_out || map_get(&seen, key, &at) ||
			(map_get(&view->line_ids, key, &at) && view->lines[at].has_own))
			continue;
		r = map_put(&seen, key, 0);
		view->n_out++;
	}
	map_done(&seen);
	return r;
}

/* Without those that only called others, unless their totals are wanted; then without plumbing among them. */
static void drop_lines(struct where_view *view)
{
	size_t n = 0;

	for (size_t i = 0; i < view->n_lines; i++) {
		const struct where_function *f = function_of(view, view->lines[i].node);
		const bool is_caller = view->options.is_by_total && view->lines[i].total > 0 &&
				       (view->options.is_self || (!f->is_plumbing && !f->is_cut));

		if (view->lines[i].has_own || is_caller)
			view->lines[n++] = view->lines[i];
	}
	view->n_lines = n;
}

struct sorting {
	const char *name;
	uint64_t first, second;
	size_t at;
};

static int by_size(const void *a, const void *b)
{
	const struct sorting *x = a, *y = b;
	int r;

	if (x->first != y->first)
		return x->first > y->first ? -1 : 1;
	if (x->second != y->second)
		return x->second > y->second ? -1 : 1;
	r = strcmp(x->name, y->name);
	return r ? r : x->at < y->at ? -1
				     : x->at > y->at;
}

static int sort_lines(struct where_view *view)
{
	struct sorting *order = calloc(view->n_lines + 1, sizeof(*order));
	struct where_line *sorted = calloc(view->n_lines + 1, sizeof(*sorted));
	char name[WHERE_NAME_LEN];
	const bool is_by_total = view->options.is_by_total;

	for (size_t i = 0; order && i < view->n_lines; i++) {
		const struct where_line *line = &view->lines[i];
		const char *text = where_line_name(view, line, name);

		order[i] = (struct sorting) { text == name ? "" : text,
			is_by_total ? line->total : line->bytes, is_by_total ? line->bytes : line->total,
			i };
	}
	if (order && sorted) {
		qsort(order, view->n_lines, sizeof(*order), by_size);
		for (size_t i = 0; i < view->n_lines; i++)
			sorted[i] = view->lines[order[i].at];
		free(view->lines);
		view->lines = sorted;
		view->cap_lines = view->n_lines + 1;
		sorted = NULL;
	}
	free(sorted);
	free(order);
	return view->cap_lines == view->n_lines + 1 ? 0 : -ENOMEM;
}

static int sort_files(struct where_view *view)
{
	struct sorting *order = calloc(view->n_files + 1, sizeof(*order));
	struct where_view_file *sorted = calloc(view->n_files + 1, sizeof(*sorted));

	if (!order || !sorted) {
		free(order);
		free(sorted);
		return -ENOMEM;
	}
	for (size_t i = 0; i < view->n_files; i++)
		order[i] = (struct sorting) { where_text_of(view, view->files[i].name),
			view->files[i].bytes, 0, i };
	qsort(order, view->n_files, sizeof(*order), by_size);
	for (size_t i = 0; i < view->n_files; i++)
		sorted[i] = view->files[order[i].at];
	free(order);
	free(view->files);
	view->files = sorted;
	return 0;
}

/* ---- stacks of functions --------------------------------------------------------------------- */

static int by_process(const void *a, const void *b)
{
	const struct where_sum *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->tree_node < y->tree_node ? -1 : x->tree_node > y->tree_node;
}

static int make_sums(struct where_view *view)
{
	struct map places = { 0 };
	int r = 0;

	for (size_t i = 0; i < view->n_leaves && r == 0; i++) {
		const struct where_leaf *leaf = &view->leaves[i];
		const uint32_t node = view->nodes[leaf->node].function_node;
		uint32_t at = 0;
		bool is_new = false;

		if (leaf->is_out)
			continue;
		r = find_or_add(&places, pair(leaf->process, node), &view->sums, &view->n_sums,
			&view->cap_sums, sizeof(*view->sums), &at, &is_new);
		if (r < 0)
			break;
		view->sums[at].process = leaf->process;
		view->sums[at].tree_node = node;
		view->sums[at].bytes += leaf->bytes;
		view->sums[at].n += leaf->n;
		view->tree[node].bytes += leaf->bytes;
		view->tree[node].n += leaf->n;
	}
	map_done(&places);
	if (view->n_sums > 0)
		qsort(view->sums, view->n_sums, sizeof(*view->sums), by_process);
	for (size_t i = view->n_tree; i-- > 0;) {
		struct where_tree_node *node = &view->tree[i];

		node->total += node->bytes;
		if (node->parent > 0)
			view->tree[node->parent - 1].total += node->total;
	}
	return r;
}

int where_view_end(struct where_view *view)
{
	int r = 0;

	for (size_t i = 0; i < view->n_leaves && r == 0; i++) {
		if (!view->leaves[i].is_out)
			r = add_leaf(view, i);
	}
	if (r == 0)
		r = count_out(view);
	if (r < 0)
		return r;
	drop_lines(view);
	r = sort_lines(view);
	if (r == 0)
		r = sort_files(view);
	return r == 0 ? make_sums(view) : r;
}

/* ---- names ----------------------------------------------------------------------------------- */

const char *where_function_name(const struct where_view *view, uint32_t function)
{
	return where_text_of(view, view->functions[function].name);
}

void where_process_name(const struct where_view *view, uint32_t process, char ret[WHERE_NAME_LEN])
{
	const struct where_view_process *p = &view->processes[process];
	const char *name = where_text_of(view, p->name);
	char rank[40] = "", pid[40] = "";

	if (p->rank >= 0)
		(void) snprintf(rank, sizeof(rank), "rank %lld ", (long long) p->rank);
	if (p->pid >= 0)
		(void) snprintf(pid, sizeof(pid), " (%lld)", (long long) p->pid);
	(void) snprintf(ret, WHERE_NAME_LEN, "%s%.400s%s", rank, *name ? name : "process", pid);
}

const char *where_line_name(
	const struct where_view *view, const struct where_line *line, char ret[WHERE_NAME_LEN])
{
	if (view->options.by == WHERE_BY_PROCESS) {
		where_process_name(view, line->key, ret);
		return ret;
	}
	if (view->options.by == WHERE_BY_LIBRARY)
		return line->key > 0 ? where_text_of(view, line->key) : "[unknown]";
	return where_function_name(view, view->places[view->nodes[line->node].place].function);
}

const char *where_line_library(const struct where_view *view, const struct where_line *line)
{
	return view->options.by == WHERE_BY_PROCESS
		       ? ""
		       : where_text_of(view, function_of(view, line->node)->library);
}

const char *where_line_file(
	const struct where_view *view, const struct where_line *line, uint32_t *ret_line)
{
	const struct where_place *place = &view->places[view->nodes[line->node].place];
	const bool has_file = view->options.by <= WHERE_BY_STACK;

	*ret_line = has_file ? place->line : 0;
	return has_file ? where_text_of(view, place->file) : "";
}

bool where_line_sigma(const struct where_line *line, uint64_t *ret)
{
	*ret = (uint64_t) (sqrt(line->variance) + 0.5);
	return line->n > 0;
}

/* ---- the handle ------------------------------------------------------------------------------ */

int where_view_new(const struct where_view_options *options, struct where_view **ret, struct err *err)
{
	struct where_view *view = calloc(1, sizeof(*view));
	regex_t *under;

	if (!view)
		return -ENOMEM;
	view->options = *options;
	view->options.under = NULL;
	if (options->under) {
		under = calloc(1, sizeof(*under));
		if (under && regcomp(under, options->under, REG_EXTENDED | REG_NOSUB) != 0) {
			free(under);
			free(view);
			return err_set(err, -EINVAL, "--under '%.80s' is not a valid regular expression",
				options->under);
		}
		view->under = under;
		if (!under) {
			free(view);
			return -ENOMEM;
		}
	}
	*ret = view;
	return 0;
}

void where_view_free(struct where_view *view)
{
	if (!view)
		return;
	if (view->under)
		regfree(view->under);
	free(view->under);
	for (size_t i = 0; i < view->texts.n; i++)
		free(view->texts.list[i]);
	free(view->texts.list);
	map_done(&view->texts.places);
	map_done(&view->function_ids);
	map_done(&view->file_ids);
	map_done(&view->place_ids);
	map_done(&view->tree_ids);
	map_done(&view->file_places);
	map_done(&view->line_ids);
	free(view->functions);
	free(view->places);
	free(view->nodes);
	free(view->tree);
	free(view->processes);
	free(view->leaves);
	free(view->files);
	free(view->lines);
	free(view->sums);
	free(view->pythons);
	free(view);
}

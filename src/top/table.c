/* SPDX-License-Identifier: MIT
 *
 * The process table: columns, values, order, filter, tree.
 */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "top/format.h"
#include "top/view.h"

const struct column_info column_infos[COLUMNS] = {
	[COL_PID] = { "PID", 7, 0, 'p', false, false },
	[COL_USER] = { "USER", 9, 100, 'u', false, false },
	[COL_CPU] = { "CPU%", 6, 0, 'c', false, true },
	[COL_RAM] = { "RAM", 7, 0, 'r', false, true },
	[COL_PEAK] = { "PEAK", 7, 56, 'k', false, true },
	[COL_SWAP] = { "SWAP", 7, 120, 's', false, true },
	[COL_GPU_MEM] = { "GPU MEM", 8, 64, 'g', true, true },
	[COL_GPU_BUSY] = { "GPU%", 5, 64, 'b', true, true },
	[COL_READ] = { "READ/s", 8, 70, 'd', false, true },
	[COL_WRITE] = { "WRITE/s", 8, 90, 'w', false, true },
	[COL_THREADS] = { "THR", 5, 110, 't', false, true },
	[COL_COMMAND] = { "COMMAND", 0, 0, 'n', false, false },
};

/* ---- values ------------------------------------------------------------------------------------------------------- */

/* The number that a column sorts by; false: unknown. */
static bool number_of(const struct model *m, const struct thing *t, enum column column, double *ret)
{
	static const enum fig levels[COLUMNS] = {
		[COL_RAM] = PROC_RSS, [COL_SWAP] = PROC_SWAP, [COL_THREADS] = PROC_THREADS
	};
	static const enum fig rises[COLUMNS] = { [COL_READ] = PROC_READ, [COL_WRITE] = PROC_WRITE };
	const struct figure *f;

	switch (column) {
	case COL_PID:
		*ret = (double) t->pid.value;
		return t->pid.known;
	case COL_CPU:
		return model_rate(m, t, PROC_CPU_USER, PROC_CPU_SYSTEM, ret);
	case COL_PEAK: {
		const struct figure *rss = model_figure(m, t, PROC_RSS), *hwm = model_figure(m, t, PROC_HWM);

		*ret = (double) (hwm && (!rss || hwm->peak > rss->peak) ? hwm->peak : rss ? rss->peak
											  : 0);
		return rss || hwm;
	}
	case COL_GPU_MEM:
		*ret = (double) t->gpu_mem.value;
		return t->gpu_mem.known;
	case COL_GPU_BUSY:
		*ret = (double) t->gpu_busy_ppm.value;
		return t->gpu_busy_ppm.known;
	case COL_READ:
	case COL_WRITE:
		f = model_figure(m, t, rises[column]);
		*ret = f ? f->rate : 0;
		return f && f->has_rate;
	case COL_RAM:
	case COL_SWAP:
	case COL_THREADS:
		f = model_figure(m, t, levels[column]);
		*ret = f ? (double) f->value : 0;
		return f != NULL;
	case COL_USER:
	case COL_COMMAND:
	case COLUMNS:
		break;
	}
	return false;
}

/* The name of a user, cached. */
static const char *user_name(struct view *v, int64_t uid)
{
	const struct passwd *entry;
	struct user *user;

	for (size_t i = 0; i < v->n_users; i++) {
		if (v->users[i].uid == uid)
			return v->users[i].name;
	}
	user = &v->users[v->n_users % (sizeof(v->users) / sizeof(v->users[0]))];
	if (v->n_users < sizeof(v->users) / sizeof(v->users[0]))
		v->n_users++;
	user->uid = uid;
	entry = getpwuid((uid_t) uid);
	(void) snprintf(user->name, sizeof(user->name), "%lld", (long long) uid);
	if (entry &&
		strspn(entry->pw_name,
			"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-$") ==
			strlen(entry->pw_name))
		(void) snprintf(user->name, sizeof(user->name), "%.8s", entry->pw_name);
	return user->name;
}

static const char *command_of(const struct thing *t)
{
	return t->command && *t->command ? t->command : t->name ? t->name
								: "";
}

/* The command without the folder of the program, to save room. */
static const char *without_folder(const char *command)
{
	const size_t word = strcspn(command, " ");
	const char *slash = command[0] == '/' ? memrchr(command, '/', word) : NULL;

	return slash && slash[1] && slash[1] != ' ' ? slash + 1 : command;
}

void column_text(struct view *v, const struct model *m, const struct thing *t, enum column column, char *buf,
	size_t size)
{
	char text[SHORT_LEN];
	double value;

	if (column == COL_USER) {
		(void) snprintf(buf, size, "%s", t->uid.known ? user_name(v, t->uid.value) : "-");
		return;
	}
	if (column == COL_COMMAND) {
		(void) snprintf(buf, size, "%s", without_folder(command_of(t)));
		return;
	}
	if (!number_of(m, t, column, &value))
		(void) snprintf(buf, size, "-");
	else if (column == COL_CPU)
		(void) snprintf(buf, size, "%.*f", value < 9.995e7 ? 1 : 0, value / 1e7);
	else if (column == COL_GPU_BUSY)
		(void) snprintf(buf, size, "%.0f", value / 1e4);
	else if (column == COL_PID || column == COL_THREADS)
		(void) snprintf(buf, size, "%.0f", value);
	else
		(void) snprintf(buf, size, "%s", short_bytes(value, v->units, text));
}

/* ---- order -------------------------------------------------------------------------------------------------------- */

struct order {
	const struct view *v;
	const struct model *m;
};

static int compare_texts(const struct view *v, const struct thing *a, const struct thing *b)
{
	if (v->sort == COL_COMMAND)
		return strcasecmp(command_of(a), command_of(b));
	return (a->uid.value > b->uid.value) - (a->uid.value < b->uid.value);
}

/* Unknown values come last in either order; equal ones are ordered by pid, so that rows keep their
 * place. */
static int compare(const void *x, const void *y, void *ctx)
{
	const struct order *o = ctx;
	const struct thing *a = ((const struct row *) x)->process, *b = ((const struct row *) y)->process;
	const bool down = column_infos[o->v->sort].down != o->v->reverse;
	double p = 0, q = 0;
	int way;

	if (o->v->sort == COL_COMMAND || o->v->sort == COL_USER) {
		way = compare_texts(o->v, a, b);
	} else {
		const bool has_p = number_of(o->m, a, o->v->sort, &p),
			   has_q = number_of(o->m, b, o->v->sort, &q);

		if (has_p != has_q)
			return has_p ? -1 : 1;
		way = (p > q) - (p < q);
	}
	if (way == 0)
		return (a->pid.value > b->pid.value) - (a->pid.value < b->pid.value);
	return down ? -way : way;
}

/* ---- the filter --------------------------------------------------------------------------------------------------- */

struct lookup {
	const struct view *v;
	const struct model *m;
	const struct thing *process;
};

/* The process's figure on GPUs: the sum over all GPUs. */
static void lookup_on_gpus(const struct lookup *l, const struct hwi_query *asked, struct hwi_answer *ret)
{
	for (size_t i = 0; i < l->m->n; i++) {
		const struct thing *t = l->m->things[i];
		const struct figure *f;

		if (t->entity != HIW_GPU_PROCESS || t->process != l->process->id)
			continue;
		f = model_metric(l->m, t, asked->metric);
		ret->value += f ? (double) (asked->peak ? f->peak : f->value) : 0;
		ret->known |= f != NULL;
	}
}

static void lookup_field(const struct lookup *l, const struct hwi_query *asked, struct hwi_answer *ret)
{
	const struct thing *t = l->process;

	ret->known = true;
	if (strcmp(asked->field, "name") == 0)
		ret->text = t->name ? t->name : "";
	else if (strcmp(asked->field, "command") == 0)
		ret->text = command_of(t);
	else if (strcmp(asked->field, "pid") == 0)
		ret->value = (double) t->pid.value;
	else
		ret->value = (double) t->uid.value;
	if (strcmp(asked->field, "uid") == 0)
		ret->known = t->uid.known;
}

static void lookup_metric(const struct lookup *l, const struct hwi_query *asked, struct hwi_answer *ret)
{
	const struct figure *f = model_metric(l->m, l->process, asked->metric);
	const struct figure *g = asked->also >= 0 ? model_metric(l->m, l->process, asked->also) : NULL;

	if (!f || (asked->also >= 0 && !g) || (asked->rate && !(f->has_rate && (!g || g->has_rate))))
		return;
	ret->known = true;
	if (asked->rate)
		ret->value = f->rate + (g ? g->rate : 0);
	else
		ret->value = (double) (asked->peak ? f->peak : f->value) + (g ? (double) g->value : 0);
	ret->whole = asked->rate ? (double) l->v->cpus_ns : (double) l->v->capacity_bytes;
}

static void lookup_value(void *ctx, const struct hwi_query *asked, struct hwi_answer *ret)
{
	const struct lookup *l = ctx;

	if (asked->field)
		lookup_field(l, asked, ret);
	else if (asked->entity == HIW_PROCESS)
		lookup_metric(l, asked, ret);
	else if (asked->entity == HIW_GPU_PROCESS)
		lookup_on_gpus(l, asked, ret);
}

int view_filter(struct view *v, const char *text)
{
	struct hwi_filter *filter = NULL;
	struct hiw_err err = { "" };
	int r = *text ? hwi_filter_new(text, &filter, &err) : 0;

	v->trouble[0] = '\0';
	if (r < 0) {
		(void) snprintf(
			v->trouble, sizeof(v->trouble), "%.*s", (int) strcspn(err.text, "\n"), err.text);
		return r;
	}
	hwi_filter_free(v->filter);
	v->filter = filter;
	(void) snprintf(v->filter_text, sizeof(v->filter_text), "%s", text);
	return 0;
}

static bool passes_filter(const struct view *v, const struct model *m, const struct thing *process)
{
	struct lookup l = { v, m, process };

	return !v->filter || hwi_filter_picks(v->filter, lookup_value, &l);
}

/* ---- rows --------------------------------------------------------------------------------------------------------- */

static void add_row(struct view *v, struct thing *process)
{
	if (vec_reserve(&v->rows, &v->cap_rows, v->n_rows, sizeof(*v->rows), 1 << 20) == 0)
		v->rows[v->n_rows++] = (struct row) { .id = process->id, .process = process };
}

/* Children follow their parent, in their order. Processes whose parent is not shown are roots. */
struct tree {
	struct row *in, *out;
	size_t n, n_out;
	struct map first;      /* process id -> place of its first child */
	uint32_t *next;        /* place of the next child of the same parent, plus 1 */
};

static void put_below(struct tree *t, uint32_t id, unsigned depth)
{
	uint32_t place;

	if (depth > 64 || !map_get(&t->first, id, &place))
		return;
	map_remove(&t->first, id); /* protects against cycles */
	for (uint32_t at = place + 1; at > 0; at = t->next[at - 1]) {
		struct row row = t->in[at - 1];

		row.depth = depth;
		row.last = t->next[at - 1] == 0;
		if (t->n_out < t->n)
			t->out[t->n_out++] = row;
		put_below(t, row.id, depth + 1);
	}
}

static uint32_t parent_of(const struct map *shown, const struct thing *process)
{
	uint32_t place;

	return process->parent != process->id && map_get(shown, process->parent, &place) ? process->parent
											 : 0;
}

static void make_tree(struct view *v)
{
	struct tree t = { .in = v->rows, .n = v->n_rows };
	struct map shown = { 0 };

	t.out = calloc(v->n_rows + 1, sizeof(*t.out));
	t.next = calloc(v->n_rows + 1, sizeof(*t.next));
	for (size_t i = 0; i < v->n_rows; i++)
		(void) map_put(&shown, v->rows[i].id, (uint32_t) i);
	for (size_t i = v->n_rows; t.out && t.next && i > 0; i--) {
		const uint32_t parent = parent_of(&shown, t.in[i - 1].process);
		uint32_t first;

		t.next[i - 1] = map_get(&t.first, parent, &first) ? first + 1 : 0;
		(void) map_put(&t.first, parent, (uint32_t) i - 1);
	}
	if (t.out && t.next) {
		put_below(&t, 0, 0);
		for (size_t i = 0; i < v->n_rows; i++) /* members of cycles */
			put_below(&t, parent_of(&shown, t.in[i].process), 0);
		memcpy(v->rows, t.out, t.n_out * sizeof(*t.out));
		v->n_rows = t.n_out;
	}
	free(t.out);
	free(t.next);
	map_done(&t.first);
	map_done(&shown);
}

void view_rows(struct view *v, struct model *m)
{
	struct order order = { v, m };

	model_settle(m);
	v->n_rows = 0;
	for (size_t i = 0; i < m->n; i++) {
		struct thing *t = m->things[i];

		if (t->entity == HIW_PROCESS && (t->id > 0 || model_figure(m, t, PROC_RSS)) &&
			passes_filter(v, m, t))
			add_row(v, t);
	}
	if (v->n_rows > 1)
		qsort_r(v->rows, v->n_rows, sizeof(*v->rows), compare, &order);
	if (v->tree)
		make_tree(v);
}

/* SPDX-License-Identifier: MIT
 *
 * GPUs of the parts, each UUID once: from the recordings of its node if these have it, else from that of the rank that used most of it. Of nodes that
 * see one GPU (containers of one machine) it is the one that used most of it. At most 256 windows of a GPU are kept.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/merge/merge_internal.h"
#include "record/read/row_read.h"

/* A GPU in one part. */
struct reference {
	const struct merge_gpu *gpu;
	size_t part, node, input;
	bool is_of_node;
	struct maybe rank;
};

static int by_uuid(const void *a, const void *b)
{
	const struct reference *x = a, *y = b;
	const int c = strcmp(x->gpu->uuid, y->gpu->uuid);

	if (c)
		return c;
	if (x->is_of_node != y->is_of_node)
		return x->is_of_node ? -1 : 1;
	if (x->gpu->used != y->gpu->used)
		return x->gpu->used > y->gpu->used ? -1 : 1;
	if (x->rank.known && y->rank.known && x->rank.value != y->rank.value)
		return x->rank.value < y->rank.value ? -1 : 1;
	return (x->part > y->part) - (x->part < y->part);
}

/* The GPUs of all parts, in the order of UUIDs. The caller frees it. */
static struct reference *list_gpus(const struct merge *m, size_t *ret_n)
{
	struct reference *list;
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++)
		n += m->candidates[i].n_gpus;
	list = calloc(n ? n : 1, sizeof(*list));
	*ret_n = 0;
	for (size_t i = 0; list && i < m->n; i++) {
		const struct part *p = &m->parts->part[i];

		for (size_t k = 0; p->counts.value == 1 && k < m->candidates[i].n_gpus; k++)
			list[(*ret_n)++] = (struct reference) { &m->candidates[i].gpus[k], i,
				m->node_of[i], m->candidates[i].input, part_is(p, "node"), p->rank };
	}
	if (list && *ret_n > 0)
		qsort(list, *ret_n, sizeof(*list), by_uuid);
	return list;
}

/* ---- one GPU of one part --------------------------------------------------------------------- */

enum {
	COLUMN_BORN = 5,
	COLUMN_ENDED = 6
};
static const char *const gpu_columns[] = { "uuid", "name", "vendor", "number", "memory", "born", "ended",
	"pci", "parent", "driver", "cuda", "unified", "is_module", "is_numa", "power_span", NULL };

static int apply_birth(struct merge *m, uint32_t id, sqlite3_stmt *st)
{
	const struct birth birth = {
		.entity = ENTITY_GPU,
		.id = id,
		.gpu = {
			.uuid = reader_text(st, 0),
			.name = reader_text(st, 1),
			.vendor = reader_text(st, 2),
			.index = reader_maybe(st, 3),
			.memory_bytes = reader_maybe(st, 4),
			.pci = reader_text(st, 7),
			.parent = reader_text(st, 8),
			.driver = reader_text(st, 9),
			.cuda_index = reader_maybe(st, 10),
			.unified = reader_maybe(st, 11).value != 0,
			.is_module = reader_maybe(st, 12).value != 0,
			.is_numa = reader_maybe(st, 13).value != 0,
			.power_span_ns = reader_maybe(st, 14),
		},
	};
	const struct frame frame = { .source = FRAME_NVML, .n_births = 1, .births = &birth };

	return job_apply(m->job, &frame);
}

static int copy_birth(struct merge *m, uint32_t id, int64_t shift_ns, sqlite3_stmt *st)
{
	sqlite3_stmt *to = store_cached(m->store, "INSERT INTO "
						  "gpu(id,uuid,name,vendor,number,memory,born,ended,pci,"
						  "parent,driver,cuda,unified,is_module,is_numa,"
						  "power_span) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");

	if (!to)
		return store_step(m->store, NULL);
	(void) sqlite3_bind_int64(to, 1, id);
	for (int i = 0; gpu_columns[i]; i++) {
		const struct maybe time = reader_maybe(st, i);

		if (i == COLUMN_BORN || i == COLUMN_ENDED)
			store_bind_if(to, i + 2, time.known, larger(0, time.value + shift_ns));
		else
			(void) sqlite3_bind_value(to, i + 2, sqlite3_column_value(st, i));
	}
	const int r = apply_birth(m, id, st);

	return r < 0 ? r : store_step(m->store, to);
}

/* Windows of one GPU in one part. */
struct span {
	uint64_t from_ns, to_ns, width_ns; /* of the source's time; rows of one width become one */
	int64_t shift_ns;                  /* to the job's time */
};

static int put_windows(struct merge *m, const struct span *s, struct row *row)
{
	row->t_ns = (uint64_t) ((int64_t) row->t_ns + s->shift_ns);
	return store_row(m->store, ENTITY_GPU, false, row);
}

static int copy_windows(struct merge *m, struct replay *r, uint32_t from, uint32_t id, const struct span *s)
{
	struct row row, sum = { 0 };
	bool any = false;
	char where[48];
	int code = 0;

	(void) snprintf(where, sizeof(where), "WHERE id = %u", (unsigned) from);
	sqlite3_stmt *st = reader_rows(r, ENTITY_GPU, false, where);

	while (st && code == 0 && sqlite3_step(st) == SQLITE_ROW) {
		if (!row_read(st, &r->layout, ENTITY_GPU, false, &row) || row.t_ns < s->from_ns ||
			row.t_ns >= s->to_ns)
			continue;
		row.id = id;
		if (any && (row.t_ns - s->from_ns) / s->width_ns == (sum.t_ns - s->from_ns) / s->width_ns) {
			row_merge(&sum, &row, &r->layout, ENTITY_GPU);
			continue;
		}
		if (any)
			code = put_windows(m, s, &sum);
		sum = row;
		any = true;
	}
	(void) sqlite3_finalize(st);
	return code == 0 && any ? put_windows(m, s, &sum) : code;
}

static int note_owner(struct merge *m, size_t part, uint32_t id, int64_t used)
{
	sqlite3_stmt *st = store_cached(m->store, "INSERT INTO part_gpu VALUES(?,?,?)");

	if (!st)
		return store_step(m->store, NULL);
	(void) sqlite3_bind_int64(st, 1, (int64_t) part + 1);
	(void) sqlite3_bind_int64(st, 2, id);
	(void) sqlite3_bind_int64(st, 3, used);
	return store_step(m->store, st);
}

/* has_windows: else only the fact that it is on the part's node. */
static int copy_gpu(
	struct merge *m, const struct reference *ref, uint32_t id, bool is_first, bool has_windows)
{
	const struct candidate *c = &m->candidates[ref->part];
	const struct part *p = &m->parts->part[ref->part];
	struct replay *r = NULL;
	char where[48];
	int code = 0;

	if (!has_windows)
		return note_owner(m, ref->part, id, ref->gpu->used);
	if (replay_open(m->inputs[c->input].path, &r, NULL) < 0)
		return 0; /* the file was readable in the first pass: its other figures stay */
	reader_allow(r);
	(void) snprintf(where, sizeof(where), "WHERE id = %u", (unsigned) ref->gpu->id);
	sqlite3_stmt *st = reader_table(r, "gpu", gpu_columns, where);

	/* In an earlier merge times are those of its job, and a GPU has the windows of all its parts. */
	const int64_t was = c->number > 0 ? c->was_start_ns : 0;
	const struct span span = {
		.from_ns = (uint64_t) was,
		.to_ns = c->number > 0 ? (uint64_t) (was + p->wall_ns.value) + 1 : UINT64_MAX,
		.width_ns = (uint64_t) larger(p->wall_ns.value, 1) / MERGE_ROWS_GPU + 1,
		.shift_ns = p->start_ns.value - was,
	};

	if (is_first && st && sqlite3_step(st) == SQLITE_ROW)
		code = copy_birth(m, id, span.shift_ns, st);
	(void) sqlite3_finalize(st);
	if (code == 0)
		code = copy_windows(m, r, ref->gpu->id, id, &span);
	if (code == 0)
		code = note_owner(m, ref->part, id, ref->gpu->used);
	replay_close(r);
	return code;
}

/* Of the references to one UUID the first is the owner, and its node's recordings have the windows. An earlier merge has those of the node
 * that was first among its parts. */
static bool has_windows(const struct reference *of_uuid, const struct reference *ref)
{
	const struct reference *first = of_uuid;

	while (first->input != ref->input)
		first++;
	return ref->node == of_uuid->node && ref->node == first->node;
}

int merge_copy_gpus(struct merge *m)
{
	size_t n, owner = 0;
	struct reference *list = list_gpus(m, &n);
	uint32_t id = 0;
	int r = list ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && r == 0; i++) {
		const bool is_first = i == 0 || strcmp(list[i - 1].gpu->uuid, list[i].gpu->uuid) != 0;

		if (is_first) {
			id++;
			owner = i;
		} else if (!list[i].is_of_node) {
			continue; /* it has an owner */
		}
		r = copy_gpu(m, &list[i], id, is_first, has_windows(&list[owner], &list[i]));
	}
	free(list);
	return r;
}

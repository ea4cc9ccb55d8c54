/* SPDX-License-Identifier: MIT
 *
 * Restores the parts of a merged recording.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/map.h"
#include "job/parts.h"
#include "record/read/reader.h"

enum {
	PARTS_READ = 100000,
	FIELDS_MOST = 128,
};

/* Selects number and the fields. NULL: there is no such table. */
static sqlite3_stmt *select_fields(
	struct replay *r, const char *table, const struct part_field *fields, size_t n)
{
	const char *columns[FIELDS_MOST + 2] = { "number" };

	for (size_t i = 0; i < n && i < FIELDS_MOST; i++)
		columns[i + 1] = fields[i].name;
	return reader_table(r, table, columns, "ORDER BY number");
}

static int read_fields(sqlite3_stmt *st, void *at, const struct part_field *fields, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		void *field = (char *) at + fields[i].offset;
		struct maybe *value = field;

		if (fields[i].is_text)
			r = part_set_text(field, reader_text(st, (int) i + 1));
		else
			value->known = reader_int(st, (int) i + 1, &value->value);
	}
	return r;
}

static int read_parts(struct replay *r, struct parts *ret)
{
	sqlite3_stmt *st = select_fields(r, "part", part_fields, part_field_count);
	int code = 0;

	for (int i = 0; st && code == 0 && i < PARTS_READ && sqlite3_step(st) == SQLITE_ROW; i++) {
		struct part part = { 0 };

		code = read_fields(st, &part, part_fields, part_field_count);
		part_limit(&part);
		if (code == 0)
			code = parts_add(ret, &part);
		else
			part_done(&part);
	}
	(void) sqlite3_finalize(st);
	return code;
}

static int read_nodes(struct replay *r, struct parts *ret)
{
	sqlite3_stmt *st = select_fields(r, "node", part_node_fields, part_node_field_count);
	int code = 0;

	for (int i = 0; st && code == 0 && i < PARTS_READ && sqlite3_step(st) == SQLITE_ROW; i++) {
		struct part_node node = { 0 };

		code = read_fields(st, &node, part_node_fields, part_node_field_count);
		part_node_limit(&node);
		if (code == 0)
			code = parts_add_node(ret, &node);
		else
			part_node_done(&node);
	}
	(void) sqlite3_finalize(st);
	return code;
}

static int read_problems(struct replay *r, struct parts *ret)
{
	static const char *const columns[] = { "file", "why", NULL };
	sqlite3_stmt *st = reader_table(r, "problem", columns, "ORDER BY number");
	int code = 0;

	for (int i = 0; st && code == 0 && i < PARTS_READ && sqlite3_step(st) == SQLITE_ROW; i++)
		code = parts_add_problem(ret, reader_text(st, 0), reader_text(st, 1));
	(void) sqlite3_finalize(st);
	return code;
}

static int read_gpus(struct replay *r, struct parts *ret)
{
	static const char *const columns[] = { "part", "gpu", NULL };
	sqlite3_stmt *st = reader_table(r, "part_gpu", columns, "ORDER BY part, gpu");
	int code = 0;

	for (int i = 0; st && code == 0 && i < PARTS_READ && sqlite3_step(st) == SQLITE_ROW; i++) {
		uint32_t part, gpu;

		if (!reader_id(st, 0, &part) || !reader_id(st, 1, &gpu) || part == 0 || part > ret->n)
			continue;
		code = parts_add_gpu(ret, gpu, (uint32_t) parts_node_of(ret, ret->part[part - 1].node));
	}
	(void) sqlite3_finalize(st);
	return code;
}

int reader_parts(struct replay *r, struct parts **ret)
{
	struct parts *parts = NULL;
	int64_t compared = 0;
	int code = 0;

	*ret = NULL;
	if (!reader_has_table(r, "part") || !reader_has_table(r, "node"))
		return 0;
	parts = parts_new();
	if (!parts)
		return -ENOMEM;
	code = read_parts(r, parts);
	if (code == 0)
		code = read_nodes(r, parts);
	if (code == 0)
		code = read_problems(r, parts);
	if (code == 0)
		code = read_gpus(r, parts);
	if (code < 0) {
		parts_free(parts);
		return code;
	}
	parts->clocks_compared = reader_meta_int(r, "clocks_compared", &compared) && compared == 1;
	parts->clock_rest_ns.known = reader_meta_int(r, "clock_rest_ns", &parts->clock_rest_ns.value);
	*ret = parts;
	return 0;
}

/* ---- for charts ------------------------------------------------------------------------------ */

static void put_span(
	struct parts *p, size_t part, int64_t from_ns, int64_t to_ns, int64_t ram, int64_t end_ns)
{
	const size_t n = p->rank_spans;
	const size_t first = from_ns > 0 ? (size_t) ((double) from_ns / (double) end_ns * (double) n) : 0;
	size_t last = to_ns > 0 ? (size_t) ((double) (to_ns - 1) / (double) end_ns * (double) n) : 0;

	last = last < n ? last : n - 1;
	for (size_t i = first; i <= last && i < n; i++) {
		int64_t *at = &p->rank_ram[part * n + i];

		*at = larger(*at, ram);
	}
}

int replay_rank_ram(struct replay *r, struct job *job, size_t spans)
{
	static const char *const columns[] = { "part", "t", "span", "ram_max", NULL };
	struct parts *p = job_edit_parts(job);
	struct map by_rows = { 0 };
	int64_t end_ns = 1;
	sqlite3_stmt *st;
	uint32_t part;

	if (!p || p->n == 0 || spans == 0)
		return 0;
	free(p->rank_ram);
	p->rank_spans = spans;
	p->rank_ram = calloc(p->n * spans, sizeof(*p->rank_ram));
	if (!p->rank_ram)
		return -ENOMEM;
	for (size_t i = 0; i < p->n * spans; i++)
		p->rank_ram[i] = -1;
	for (size_t i = 0; i < p->n; i++) {
		if (p->part[i].counts.value == 1)
			end_ns = larger(end_ns, part_end_ns(&p->part[i]));
		if (p->part[i].rows.known)
			(void) map_put(&by_rows, (uint64_t) p->part[i].rows.value, (uint32_t) i);
	}
	reader_allow(r);
	st = reader_table(r, "part_row", columns, "");
	while (st && sqlite3_step(st) == SQLITE_ROW) {
		int64_t rows, t, span, ram;

		if (!reader_int(st, 0, &rows) || !map_get(&by_rows, (uint64_t) rows, &part) ||
			!reader_int(st, 1, &t) || !reader_int(st, 2, &span) || !reader_int(st, 3, &ram) ||
			t < 0 || span < 0 || ram < 0 || t > INT64_MAX / 4 || span > INT64_MAX / 4)
			continue;
		const int64_t from = p->part[part].start_ns.value + t;

		put_span(p, part, from, from + span, ram, end_ns);
	}
	(void) sqlite3_finalize(st);
	map_done(&by_rows);
	return 0;
}

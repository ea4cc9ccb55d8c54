/* SPDX-License-Identifier: MIT
 *
 * A view for programs that show stacks: a line a stack, speedscope, pprof. What is not of functions is a stack of
 * one frame, so that the sum is the peak.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/json.h"
#include "base/proto.h"
#include "base/textwidth.h"
#include "sink/where/where_sink.h"

static int64_t of_bytes(uint64_t bytes)
{
	return bytes > INT64_MAX ? INT64_MAX : (int64_t) bytes;
}

/* The functions of a node of the tree, the innermost first. Returns their number. */
static size_t chain_of(const struct where_view *view, uint32_t node, uint32_t *ret)
{
	size_t n = 0;

	for (uint32_t at = node + 1; at > 0; at = view->tree[at - 1].parent)
		ret[n++] = view->tree[at - 1].function;
	return n;
}

static uint32_t *new_chain(const struct where_view *view)
{
	return calloc(view->n_tree + 1, sizeof(uint32_t));
}

/* ---- a line a stack ------------------------------------------------------------------------- */

static void put_folded(const char *name, struct buf *out)
{
	struct buf clean = BUF_INIT(1 << 20);

	(void) text_clean(name, true, &clean);
	for (char *p = clean.data; *p; p++)
		*p = *p == ';' ? ':' : *p;
	(void) buf_str(out, clean.len > 0 ? clean.data : "?");
	buf_done(&clean);
}

int where_folded(const struct where_view *view, struct buf *out)
{
	uint32_t *chain = new_chain(view);
	struct where_part parts[WHERE_PARTS];
	const size_t n_parts = where_parts(view, parts);

	if (!chain)
		return -ENOMEM;
	for (size_t i = 0; i < view->n_tree && !out->error; i++) {
		if (view->tree[i].bytes == 0)
			continue;
		for (size_t n = chain_of(view, (uint32_t) i, chain); n-- > 0;) {
			put_folded(where_function_name(view, chain[n]), out);
			(void) buf_str(out, n > 0 ? ";" : " ");
		}
		(void) buf_printf(out, "%llu\n", (unsigned long long) view->tree[i].bytes);
	}
	for (size_t i = 0; i < n_parts; i++)
		(void) buf_printf(out, "%s %llu\n", parts[i].name, (unsigned long long) parts[i].bytes);
	free(chain);
	return out->error;
}

/* ---- speedscope ------------------------------------------------------------------------------ */

static void put_frames(
	struct json *j, const struct where_view *view, const struct where_part *parts, size_t n_parts)
{
	json_key_object(j, "shared");
	json_key_array(j, "frames");
	for (size_t i = 0; i < view->n_functions; i++) {
		const struct where_function *f = &view->functions[i];
		const struct where_place *place =
			f->first_place < view->n_places ? &view->places[f->first_place] : NULL;
		const char *file = place ? where_text_of(view, place->file) : "";

		json_object(j);
		json_key_str(j, "name", where_function_name(view, (uint32_t) i));
		if (*file)
			json_key_str(j, "file", file);
		else if (f->library > 0)
			json_key_str(j, "file", where_text_of(view, f->library));
		if (*file && place->line > 0)
			json_key_int(j, "line", (int64_t) place->line);
		json_end(j);
	}
	for (size_t i = 0; i < n_parts; i++) {
		json_object(j);
		json_key_str(j, "name", parts[i].name);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

static void begin_profile(struct json *j, const char *name, uint64_t bytes)
{
	json_object(j);
	json_key_str(j, "type", "sampled");
	json_key_str(j, "name", name);
	json_key_str(j, "unit", "bytes");
	json_key_int(j, "startValue", 0);
	json_key_int(j, "endValue", of_bytes(bytes));
	json_key_array(j, "samples");
}

/* A profile of the sums of one process, view->sums[from] to [to - 1], and of parts that are no functions. */
static void put_profile(struct json *j, const struct where_view *view, size_t from, size_t to,
	const struct where_part *parts, size_t n_parts, uint32_t *chain)
{
	char name[WHERE_NAME_LEN] = "[not of functions]";
	uint64_t bytes = 0;

	if (from < to)
		where_process_name(view, view->sums[from].process, name);
	for (size_t i = from; i < to; i++)
		bytes += view->sums[i].bytes;
	for (size_t i = 0; i < n_parts; i++)
		bytes += parts[i].bytes;
	begin_profile(j, name, bytes);
	for (size_t i = from; i < to && !j->out->error; i++) {
		json_array(j);
		for (size_t n = chain_of(view, view->sums[i].tree_node, chain); n-- > 0;)
			json_int(j, (int64_t) chain[n]);
		json_end(j);
	}
	for (size_t i = 0; i < n_parts; i++) {
		json_array(j);
		json_int(j, (int64_t) (view->n_functions + i));
		json_end(j);
	}
	json_end(j);
	json_key_array(j, "weights");
	for (size_t i = from; i < to; i++)
		json_int(j, of_bytes(view->sums[i].bytes));
	for (size_t i = 0; i < n_parts; i++)
		json_int(j, of_bytes(parts[i].bytes));
	json_end(j);
	json_end(j);
}

/* A profile a process. Where there is one, it has all; else what is of none of them has its own. */
static void put_profiles(struct json *j, const struct where_view *view, const struct where_part *parts,
	size_t n_parts, uint32_t *chain)
{
	for (size_t from = 0, to; from < view->n_sums; from = to) {
		to = from;
		while (to < view->n_sums && view->sums[to].process == view->sums[from].process)
			to++;

		const bool is_only = from == 0 && to == view->n_sums;

		put_profile(j, view, from, to, parts, is_only ? n_parts : 0, chain);
		if (is_only)
			return;
	}
	if (n_parts > 0)
		put_profile(j, view, 0, 0, parts, n_parts, chain);
}

int where_speedscope(const struct where_view *view, struct buf *out)
{
	uint32_t *chain = new_chain(view);
	struct where_part parts[WHERE_PARTS];
	const size_t n_parts = where_parts(view, parts);
	struct json j;

	if (!chain)
		return -ENOMEM;
	json_init(&j, out, true);
	json_object(&j);
	json_key_str(&j, "$schema", "https://www.speedscope.app/file-format-schema.json");
	json_key_str(&j, "name", "resident memory by first touch");
	json_key_str(&j, "exporter", "hiwater");
	json_key_int(&j, "activeProfileIndex", 0);
	put_frames(&j, view, parts, n_parts);
	json_key_array(&j, "profiles");
	put_profiles(&j, view, parts, n_parts, chain);
	json_end(&j);
	json_end(&j);
	(void) buf_str(out, "\n");
	free(chain);
	return out->error;
}

/* ---- pprof ----------------------------------------------------------------------------------- */

/* Fields of profile.proto. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRINGS = 6,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD = 12,
	PROFILE_DEFAULT_TYPE = 14,
	TYPE_TYPE = 1,
	TYPE_UNIT = 2,
	SAMPLE_LOCATION = 1,
	SAMPLE_VALUE = 2,
	SAMPLE_LABEL = 3,
	LABEL_KEY = 1,
	LABEL_TEXT = 2,
	LABEL_NUMBER = 3,
	MAPPING_ID = 1,
	MAPPING_FILE = 5,
	MAPPING_BUILD_ID = 6,
	MAPPING_HAS_FUNCTIONS = 7,
	LOCATION_ID = 1,
	LOCATION_MAPPING = 2,
	LOCATION_LINE = 4,
	LINE_FUNCTION = 1,
	LINE_LINE = 2,
	FUNCTION_ID = 1,
	FUNCTION_NAME = 2,
	FUNCTION_SYSTEM_NAME = 3,
	FUNCTION_FILE = 4,
};

/* The string table: these, then the texts of the view, then the parts. */
enum {
	STRING_EMPTY,
	STRING_SPACE,
	STRING_BYTES,
	STRING_SAMPLES,
	STRING_COUNT,
	STRING_PROCESS,
	STRING_PID,
	STRINGS,
};

struct pprof {
	const struct where_view *view;
	struct proto p;
	struct where_part parts[WHERE_PARTS];
	size_t n_parts;
};

static uint64_t string_of(where_text_id id)
{
	return id > 0 ? STRINGS + (uint64_t) id - 1 : STRING_EMPTY;
}

static uint64_t string_of_part(const struct pprof *g, size_t part)
{
	return STRINGS + g->view->texts.n + part;
}

static void put_type(struct pprof *g, unsigned field, unsigned type, unsigned unit)
{
	proto_begin(&g->p, field);
	proto_uint(&g->p, TYPE_TYPE, type);
	proto_uint(&g->p, TYPE_UNIT, unit);
	proto_end(&g->p);
}

static void put_leaf(struct pprof *g, const struct where_leaf *leaf)
{
	const struct where_view *v = g->view;
	const struct where_view_process *process = &v->processes[leaf->process];

	proto_begin(&g->p, PROFILE_SAMPLE);
	for (uint32_t at = leaf->node + 1; at > 0; at = v->nodes[at - 1].parent)
		proto_uint(&g->p, SAMPLE_LOCATION, (uint64_t) v->nodes[at - 1].place + 1);
	proto_uint(&g->p, SAMPLE_VALUE, leaf->bytes);
	proto_uint(&g->p, SAMPLE_VALUE, leaf->n);
	proto_begin(&g->p, SAMPLE_LABEL);
	proto_uint(&g->p, LABEL_KEY, STRING_PROCESS);
	proto_uint(&g->p, LABEL_TEXT, string_of(process->name));
	proto_end(&g->p);
	if (process->pid > 0) {
		proto_begin(&g->p, SAMPLE_LABEL);
		proto_uint(&g->p, LABEL_KEY, STRING_PID);
		proto_int(&g->p, LABEL_NUMBER, process->pid);
		proto_end(&g->p);
	}
	proto_end(&g->p);
}

/* A sample of one frame of its own. */
static void put_part(struct pprof *g, size_t i)
{
	const struct where_view *v = g->view;

	proto_begin(&g->p, PROFILE_SAMPLE);
	proto_uint(&g->p, SAMPLE_LOCATION, v->n_places + i + 1);
	proto_uint(&g->p, SAMPLE_VALUE, g->parts[i].bytes);
	proto_uint(&g->p, SAMPLE_VALUE, 0);
	proto_end(&g->p);
	proto_begin(&g->p, PROFILE_LOCATION);
	proto_uint(&g->p, LOCATION_ID, v->n_places + i + 1);
	proto_begin(&g->p, LOCATION_LINE);
	proto_uint(&g->p, LINE_FUNCTION, v->n_functions + i + 1);
	proto_end(&g->p);
	proto_end(&g->p);
	proto_begin(&g->p, PROFILE_FUNCTION);
	proto_uint(&g->p, FUNCTION_ID, v->n_functions + i + 1);
	proto_uint(&g->p, FUNCTION_NAME, string_of_part(g, i));
	proto_end(&g->p);
}

/* A mapping for each module, whose number is that of its text. */
static int put_mappings(struct pprof *g)
{
	const struct where_view *v = g->view;
	bool *seen = calloc(v->texts.n + 1, sizeof(*seen));

	if (!seen)
		return -ENOMEM;
	for (size_t i = 0; i < v->n_places; i++) {
		const struct where_place *place = &v->places[i];

		if (place->module == 0 || seen[place->module])
			continue;
		seen[place->module] = true;
		proto_begin(&g->p, PROFILE_MAPPING);
		proto_uint(&g->p, MAPPING_ID, place->module);
		proto_uint(&g->p, MAPPING_FILE, string_of(place->module));
		proto_uint(&g->p, MAPPING_BUILD_ID, string_of(place->build_id));
		proto_uint(&g->p, MAPPING_HAS_FUNCTIONS, 1);
		proto_end(&g->p);
	}
	free(seen);
	return 0;
}

static void put_places(struct pprof *g)
{
	const struct where_view *v = g->view;

	for (size_t i = 0; i < v->n_places; i++) {
		const struct where_place *place = &v->places[i];

		proto_begin(&g->p, PROFILE_LOCATION);
		proto_uint(&g->p, LOCATION_ID, i + 1);
		if (place->module > 0)
			proto_uint(&g->p, LOCATION_MAPPING, place->module);
		proto_begin(&g->p, LOCATION_LINE);
		proto_uint(&g->p, LINE_FUNCTION, (uint64_t) place->function + 1);
		proto_uint(&g->p, LINE_LINE, place->line);
		proto_end(&g->p);
		proto_end(&g->p);
	}
	for (size_t i = 0; i < v->n_functions; i++) {
		const struct where_function *f = &v->functions[i];

		proto_begin(&g->p, PROFILE_FUNCTION);
		proto_uint(&g->p, FUNCTION_ID, i + 1);
		proto_uint(&g->p, FUNCTION_NAME, string_of(f->name));
		proto_uint(&g->p, FUNCTION_SYSTEM_NAME, string_of(f->name));
		if (f->first_place < v->n_places)
			proto_uint(&g->p, FUNCTION_FILE, string_of(v->places[f->first_place].file));
		proto_end(&g->p);
	}
}

static void put_strings(struct pprof *g)
{
	static const char *const strings[STRINGS] = { "", "inuse_space", "bytes", "samples", "count",
		"process", "pid" };

	for (size_t i = 0; i < STRINGS; i++)
		proto_text(&g->p, PROFILE_STRINGS, strings[i]);
	for (size_t i = 0; i < g->view->texts.n; i++)
		proto_text(&g->p, PROFILE_STRINGS, g->view->texts.list[i]);
	for (size_t i = 0; i < g->n_parts; i++)
		proto_text(&g->p, PROFILE_STRINGS, g->parts[i].name);
}

/* Appends data, compressed (RFC 1952). */
static int put_gzip(const struct buf *data, struct buf *out)
{
	enum {
		GZIP_WINDOW = 15 + 16,
	};
	unsigned char part[1 << 15];
	z_stream z = { .next_in = (unsigned char *) data->data, .avail_in = (unsigned) data->len };
	int code;

	if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	do {
		z.next_out = part;
		z.avail_out = sizeof(part);
		code = deflate(&z, Z_FINISH);
		(void) buf_add(out, part, sizeof(part) - z.avail_out);
	} while (code == Z_OK);
	(void) deflateEnd(&z);
	return code == Z_STREAM_END ? out->error : -EIO;
}

int where_pprof(const struct where_view *view, struct buf *out)
{
	struct buf data = BUF_INIT((size_t) 512 << 20);
	struct pprof g = { .view = view };
	int r;

	proto_init(&g.p, &data);
	g.n_parts = where_parts(view, g.parts);
	put_type(&g, PROFILE_SAMPLE_TYPE, STRING_SPACE, STRING_BYTES);
	put_type(&g, PROFILE_SAMPLE_TYPE, STRING_SAMPLES, STRING_COUNT);
	for (size_t i = 0; i < view->n_leaves; i++) {
		if (!view->leaves[i].is_out)
			put_leaf(&g, &view->leaves[i]);
	}
	r = put_mappings(&g);
	put_places(&g);
	for (size_t i = 0; i < g.n_parts; i++)
		put_part(&g, i);
	put_strings(&g);
	put_type(&g, PROFILE_PERIOD_TYPE, STRING_SPACE, STRING_BYTES);
	proto_int(&g.p, PROFILE_PERIOD, of_bytes(view->sample_bytes));
	proto_uint(&g.p, PROFILE_DEFAULT_TYPE, STRING_SPACE);
	if (r == 0)
		r = data.error;
	if (r == 0)
		r = put_gzip(&data, out);
	buf_done(&data);
	return r;
}

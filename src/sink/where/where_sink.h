/* SPDX-License-Identifier: MIT
 *
 * A view of where memory came from as text, JSON (docs/where.schema.json), CSV, and in the formats of other
 * programs. In each of them the parts add up to the peak.
 */
#pragma once

#include "sink/sink.h"
#include "sink/where/where_view.h"

/* The names of what is not of functions, as they stand in all formats. */
#define WHERE_UNSAMPLED "[touched by the kernel: read(2), or moved by mremap]"
#define WHERE_FILES     "[mapped files]"
#define WHERE_BEFORE    "[before hiwater came]"
#define WHERE_OTHERS    "[others]" /* not under --under; in a table others (N functions) */

struct where_part {
	const char *name;
	uint64_t bytes;
};
enum {
	WHERE_PARTS = 4,
};
/* Those that are not 0. Returns their number. */
size_t where_parts(const struct where_view *view, struct where_part ret[static WHERE_PARTS]);

/* Bytes and number of the lines behind the first top ones, and of those that are out. top 0: all lines are shown. */
uint64_t where_others(const struct where_view *view, size_t top, uint64_t *ret_n);

/* has_files: a line for each mapped file. options->width 0: names are whole. All return 0 or -errno. */
int where_text(const struct where_view *view, size_t top, bool has_files,
	const struct sink_options *options, struct buf *out);
int where_json(const struct where_view *view, size_t top, struct buf *out);
int where_csv(const struct where_view *view, size_t top, bool has_files, struct buf *out);

/* How many processes are shown with the stack at a place of view->pythons, as one: those with an equal stack at its high.
 * 0: it is not shown: an earlier one is equal, or its high is an earlier one, towards which the memory rose by less than a
 * tenth of the peak. */
size_t where_python_group(const struct where_view *view, size_t at);
/* "ones numeric.py:191 < load_table job.py:12 < ... < <module> job.py:40": of a long stack some inner and some outer
 * frames. */
void where_python_text(const struct where_view *view, const struct where_view_python *python, bool utf8,
	struct buf *out);

/* "main;load;ones 12345", in bytes: for flamegraph.pl, inferno. */
int where_folded(const struct where_view *view, struct buf *out);
/* www.speedscope.app/file-format-schema.json */
int where_speedscope(const struct where_view *view, struct buf *out);
/* profile.proto of pprof, compressed (gzip). */
int where_pprof(const struct where_view *view, struct buf *out);
/* A flame graph. A click on a frame zooms. */
int where_svg(const struct where_view *view, struct buf *out);
/* The same as part of an HTML page, without the script. */
int where_svg_inline(const struct where_view *view, struct buf *out);

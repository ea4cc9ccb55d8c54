/* SPDX-License-Identifier: MIT
 *
 * The report: one self-contained HTML page that needs neither a network nor other files. web/ has
 * its frame, styles and program, which tools/make-page embeds at build time; html.c fills the parts
 * in.
 */
#pragma once

#include "sink/html/html_data.h"

/* False: the page's program was missing when this was built (tools/make-page). */
bool html_is_built(void);

/* Writes the page of n runs, the first at the top. Returns 0, an error of write, -ENOTSUP without
 * the page's program, or -errno. */
int html_page(const struct html_run *runs, size_t n, const struct sink_options *o,
	int (*write)(void *ctx, const void *data, size_t len), void *ctx);

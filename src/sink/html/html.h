/* SPDX-License-Identifier: MIT
 *
 * A report: one page that needs nothing else, neither a network nor files beside it. web/ has its look and its program.
 */
#pragma once

#include "sink/html/html_data.h"

/* Was the page's program there when this was built (tools/make-page)? */
bool html_is_built(void);

/* The page of n runs, the first at the top. Calls write with its bytes; what that returns ends it. Returns 0 or -errno. */
int html_page(const struct html_run *runs, size_t n, const struct sink_options *o, int (*write)(void *ctx, const void *data, size_t len),
	void *ctx);

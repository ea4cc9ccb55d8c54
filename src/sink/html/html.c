/* SPDX-License-Identifier: MIT */
#include "sink/html/html.h"

#include <errno.h>
#include <string.h>

#include "sink/html/html_put.h"
#include "sink/html/page.h"

enum {
	PART_MOST = 64 << 20
};

static void put_data(struct html *h)
{
	const int r = html_data(h->runs, h->n, h->o, h->out);

	if (r < 0 && !h->out->error)
		h->out->error = r;
}

/* The parts of web/report.html. */
static const struct {
	const char *name;
	void (*put)(struct html *h);
} parts[] = {
	{ "title", html_title },
	{ "overview", html_overview },
	{ "findings", html_findings },
	{ "pictures", html_pictures },
	{ "ranks", html_ranks },
	{ "where", html_where },
	{ "phases", html_phases },
	{ "processes", html_processes },
	{ "minutes", html_minutes },
	{ "measured", html_measured },
	{ "summary", html_summary },
	{ "data", put_data },
};

static int put_part(struct html *h, const char *name)
{
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (strcmp(parts[i].name, name) == 0) {
			parts[i].put(h);
			return h->out->error;
		}
	}
	return *name ? -EINVAL : 0;
}

bool html_is_built(void)
{
	return page_piece_count > 0;
}

int html_page(const struct html_run *runs, size_t n, const struct sink_options *o,
	int (*write)(void *ctx, const void *data, size_t len), void *ctx)
{
	struct buf out = BUF_INIT(PART_MOST);
	struct html h = { &out, runs, n, o };
	int r = page_piece_count > 0 ? 0 : -ENOTSUP;

	for (size_t i = 0; r == 0 && i < page_piece_count; i++) {
		r = write(ctx, page_pieces[i].text, page_pieces[i].len);
		if (r == 0)
			r = put_part(&h, page_pieces[i].part);
		if (r == 0 && out.len > 0)
			r = write(ctx, out.data, out.len);
		buf_clear(&out);
	}
	buf_done(&out);
	return r;
}

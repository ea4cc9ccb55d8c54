/* SPDX-License-Identifier: MIT
 *
 * The text of hiwater request: lines to copy into a batch script or a workflow, everything else as
 * comments, so that the whole output can be pasted.
 */
#include "base/textwidth.h"
#include "sink/sink.h"

/* One comment; names in it may have any bytes. */
static void comment(
	const struct request *r, const struct sink_options *o, const struct buf *text, struct buf *out)
{
	if (text->len == 0)
		return;
	buf_str(out, request_comment(r));
	(void) text_clean(text->data, o->utf8, out);
	buf_str(out, "\n");
}

static void put(const struct request *r, const struct sink_options *o,
	void (*write)(const struct request *r, struct buf *out), struct buf *out)
{
	struct buf text = BUF_INIT(1 << 16);

	write(r, &text);
	comment(r, o, &text, out);
	buf_done(&text);
}

static void why_not(const struct request *r, struct buf *out)
{
	buf_printf(out, "not known: %s", r->why_not);
}

static void basis(const struct request *r, struct buf *out)
{
	request_basis(r, UNITS_IEC, out);
}

void sink_request(
	const struct request *r, const struct sink_options *options, const char *head, struct buf *out)
{
	struct buf text = BUF_INIT(1 << 16);

	if (head)
		buf_str(&text, head);
	comment(r, options, &text, out);
	buf_done(&text);
	if (r->why_not[0]) {
		put(r, options, why_not, out);
	} else {
		const size_t at = out->len;

		request_line(r, out);
		buf_str(out, out->len > at ? "\n" : "");
		put(r, options, basis, out);
		put(r, options, request_rounding, out);
	}
	for (unsigned which = 0; which < 4; which++) {
		struct buf judgement = BUF_INIT(1 << 16);

		(void) request_judgement(r, which, &judgement);
		comment(r, options, &judgement, out);
		buf_done(&judgement);
	}
}

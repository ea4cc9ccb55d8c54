/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "otlp/sender.h"

enum {
	QUEUE_MOST = 64,
	QUEUE_BYTES = 8 << 20,
};

int outbox_init(struct outbox *q)
{
	*q = (struct outbox) { .items = calloc(QUEUE_MOST, sizeof(*q->items)) };
	return q->items ? 0 : -ENOMEM;
}

struct queued *outbox_first(struct outbox *q)
{
	return q->n ? &q->items[q->first] : NULL;
}

void outbox_remove(struct outbox *q)
{
	struct queued *first = outbox_first(q);

	q->bytes -= first->len;
	free(first->bytes);
	*first = (struct queued) { 0 };
	q->first = (q->first + 1) % QUEUE_MOST;
	q->n--;
}

uint64_t outbox_points(const struct outbox *q)
{
	uint64_t points = 0;

	for (size_t i = 0; i < q->n; i++)
		points += q->items[(q->first + i) % QUEUE_MOST].points;
	return points;
}

/* Each point has exactly one timeUnixNano; texts of users cannot have the unescaped quotes. */
static uint64_t count_points(const char *text)
{
	static const char time[] = "\"timeUnixNano\":";
	uint64_t n = 0;

	while ((text = strstr(text, time)) != NULL) {
		text += sizeof(time) - 1;
		n++;
	}
	return n;
}

static int compress_text(const char *text, size_t len, struct queued *ret)
{
	enum {
		GZIP_WINDOW = 15 + 16, /* a gzip header */
		MEMORY = 8,
	};
	z_stream z = { .next_in = (z_const Bytef *) (uintptr_t) text, .avail_in = (uInt) len };
	size_t most;

	if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, MEMORY, Z_DEFAULT_STRATEGY) !=
		Z_OK)
		return -ENOMEM;
	most = deflateBound(&z, len);
	ret->bytes = malloc(most);
	z.next_out = (Bytef *) ret->bytes;
	z.avail_out = (uInt) most;
	if (!ret->bytes || deflate(&z, Z_FINISH) != Z_STREAM_END) {
		(void) deflateEnd(&z);
		free(ret->bytes);
		return -ENOMEM;
	}
	ret->len = z.total_out;
	(void) deflateEnd(&z);
	return 0;
}

int outbox_add(struct outbox *q, const char *text, size_t len, bool gzip)
{
	struct queued item = { .len = len };
	int r = 0;

	if (gzip)
		r = compress_text(text, len, &item);
	else if (!(item.bytes = strndup(text, len)))
		r = -ENOMEM;
	item.points = count_points(text);
	if (r < 0) {
		q->dropped += item.points;
		return r;
	}
	while (q->n > 0 && (q->n == QUEUE_MOST || q->bytes + item.len > QUEUE_BYTES)) {
		q->dropped += outbox_first(q)->points;
		outbox_remove(q);
	}
	q->items[(q->first + q->n++) % QUEUE_MOST] = item;
	q->bytes += item.len;
	return 0;
}

void outbox_done(struct outbox *q)
{
	while (q->n)
		outbox_remove(q);
	free(q->items);
	q->items = NULL;
}

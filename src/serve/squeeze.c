/* SPDX-License-Identifier: MIT */
#include "serve/squeeze.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

/* The weight of a word of a header such as "gzip;q=0.5, br": 0 to 1000; -1: the word is not there. */
static int weight_of(const char *header, const char *word)
{
	const size_t len = strlen(word);

	for (const char *p = header; *p; p += strcspn(p, ","), p += *p == ',') {
		p += strspn(p, " \t");
		if (strncasecmp(p, word, len) != 0 || !strchr(" \t;,", p[len]))
			continue;
		const size_t n = strcspn(p, ",");
		const char *q = memmem(p, n, "q=", 2);
		int weight = 0, digit = 1000;

		if (!q)
			return 1000;
		for (q += 2; (*q >= '0' && *q <= '9') || *q == '.'; q++) {
			if (*q == '.')
				continue;
			weight += (*q - '0') * digit;
			digit /= 10;
		}
		return weight;
	}
	return -1;
}

bool accepts_gzip(const char *header)
{
	const int gzip = header ? weight_of(header, "gzip") : -1;

	return gzip > 0 || (gzip < 0 && header && weight_of(header, "*") > 0);
}

bool accepts_openmetrics(const char *header)
{
	const int openmetrics = weight_of(header, "application/openmetrics-text");

	return openmetrics > 0 && openmetrics >= weight_of(header, "text/plain");
}

int squeeze(const struct buf *text, struct buf *out)
{
	z_stream z = { .next_in = (unsigned char *) text->data, .avail_in = (unsigned) text->len };
	unsigned char block[1 << 14];
	int rc;

	/* level 1: a scrape costs the node more than its network */
	if (deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	do {
		z.next_out = block;
		z.avail_out = sizeof(block);
		rc = deflate(&z, Z_FINISH);
		(void) buf_add(out, block, sizeof(block) - z.avail_out);
	} while (rc == Z_OK);
	(void) deflateEnd(&z);
	return rc == Z_STREAM_END ? out->error : -EIO;
}

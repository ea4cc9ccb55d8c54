/* SPDX-License-Identifier: MIT
 *
 * The page, assembled from web/ by tools/make-page at build time: texts, each with the name of the
 * part that follows it ("": none).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct page_piece {
	const char *text;
	size_t len;
	const char *part;
};

extern const struct page_piece page_pieces[];
extern const size_t page_piece_count; /* 0: web/ could not be assembled */

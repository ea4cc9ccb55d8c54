/* SPDX-License-Identifier: MIT
 *
 * The page as tools/make-page put it together from web/: texts, and behind each the name of the part that follows it ("":
 * none).
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
extern const size_t page_piece_count; /* 0: it could not be put together */

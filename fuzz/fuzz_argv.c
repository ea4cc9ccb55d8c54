/* SPDX-License-Identifier: MIT
 *
 * The command of a hostile recording, stored as a JSON array, and its text for the terminal.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/textwidth.h"
#include "sink/argv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The output has no control characters and at most the given number of columns. */
static void see(void *ctx, const char *text)
{
	const unsigned columns = *(const unsigned *) ctx;
	struct buf clean = BUF_INIT(1 << 20), fitted = BUF_INIT(1 << 20);

	text_clean(text, true, &clean);
	text_shorten(clean.data, columns, true, &fitted);
	if (text_width(fitted.data) > columns)
		abort();
	for (const char *p = fitted.data; *p; p++) {
		if ((unsigned char) *p < 0x20 || *p == 0x7f)
			abort();
	}
	buf_done(&clean);
	buf_done(&fitted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned columns = size > 0 ? data[0] % 100 : 0;
	char *text = malloc(size + 1);

	if (!text)
		return 0;
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	(void) argv_each(text, see, &columns);
	see(&columns, text);
	free(text);
	return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * Messages that any process of the user may send to the recorder: several in a row, since phases
 * open and close.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "source/process/user_events.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A valid message is one event or any number of values, an invalid one is only an error text. */
static void check(const struct user_events *p, const struct user_events *before, int r,
	const struct framebuf *out, const struct err *err)
{
	if (p->depth > USER_PHASES_OPEN || p->last_phase < before->last_phase)
		abort();
	if (r < 0 && (r != -EBADMSG || !framebuf_is_empty(out) || !err->text[0] ||
			     memcmp(p, before, sizeof(*p)) != 0))
		abort();
	if (r == 0 && (err->text[0] || out->n_events > 1 || (out->n_events && out->n_series)))
		abort();
	if (out->n_births || out->n_ends || out->n_readings || out->error)
		abort();
	for (size_t i = 0; i < out->n_series; i++) {
		if (!out->series[i].name[0])
			abort();
	}
}

/* Messages are separated by a byte that none of them contains. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum {
		DIVIDER = 0x01
	};
	struct user_events p = { .fd = -1 };
	struct framebuf out = { 0 };
	char *text = malloc(size + 1);

	if (!text)
		return 0;
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	for (char *message = text; message;) {
		char *next = strchr(message, DIVIDER);
		const struct user_events before = p;
		struct err err = { "" };

		if (next)
			*next++ = '\0';
		framebuf_clear(&out);
		check(&p, &before, user_events_parse(&p, message, 1, &out, &err), &out, &err);
		message = next;
	}
	framebuf_done(&out);
	free(p.open);
	free(text);
	return 0;
}

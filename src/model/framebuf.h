/* SPDX-License-Identifier: MIT
 *
 * Builds frames: arrays and a text arena that are filled, read as a struct frame, and cleared. The
 * capacity is kept, so that steady sampling allocates nothing. The first -ENOMEM (or -EFBIG: more
 * than a million entries of a kind) is stored in error until _clear, and the entry is omitted. An
 * all-zero struct is empty. Any thread, one at a time.
 */
#pragma once

#include "model/frame.h"

struct framebuf {
	struct birth *births;
	struct reading *readings;
	struct end *ends;
	struct event *events;
	struct series_value *series;
	size_t n_births, n_readings, n_ends, n_events, n_series;
	size_t cap_births, cap_readings, cap_ends, cap_events, cap_series;
	struct framebuf_text
		*text; /* blocks with the texts of births, events and series; they do not move */
	int error;
};

/* All of them copy their arguments, including texts; a NULL text becomes "". */
void framebuf_birth(struct framebuf *b, const struct birth *birth);
void framebuf_reading(struct framebuf *b, struct reading reading);
void framebuf_end(struct framebuf *b, const struct end *end);
void framebuf_event(struct framebuf *b, const struct event *event);
void framebuf_series(struct framebuf *b, const struct series_value *value);

/* The addresses of a birth's texts, which depend on its entity; returns their number. */
enum {
	BIRTH_TEXTS = 6
};
unsigned birth_texts(struct birth *b, const char **texts[BIRTH_TEXTS]);

/* Adds a known value, or an unknown one. */
void framebuf_value(struct framebuf *b, enum metric metric, uint32_t id, int64_t value);
void framebuf_unknown(struct framebuf *b, enum metric metric, uint32_t id);

/* The contents as a live frame; valid until the next call on b. */
struct frame framebuf_frame(
	const struct framebuf *b, enum frame_source source, uint64_t time_ns, uint64_t hold_ns);

bool framebuf_is_empty(const struct framebuf *b);
void framebuf_clear(struct framebuf *b);
void framebuf_done(struct framebuf *b);

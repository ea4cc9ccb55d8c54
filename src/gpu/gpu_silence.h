/* SPDX-License-Identifier: MIT
 *
 * A driver that does not answer, and what is told of it: a silence when it begins and when it is over, but of many only
 * those that last longer than ever before; how many there were is told once, in the end.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	GPU_SILENCE_TEXT = 192,
	GPU_INSTANT = 32
};

struct gpu_silence {
	uint64_t since_ns;       /* the one that goes on; 0: it answers */
	bool told;               /* that one */
	unsigned n;              /* so many there were, with it */
	uint64_t first_ns, last_ns; /* when they began; when the last was over */
	uint64_t sum_ns, longest_ns; /* of those that are over */
	uint64_t due_ns, missed_ns;  /* when who sleeps wanted to be awake; the first look that found it asleep after that */
};

/* A source that sleeps until due_ns (0: it does not): since when it does not wake up, 0: it is not due. Its helper is frozen, say. Counted
 * from the look that saw it first: a machine that slept, and a recorder that was stopped with its helper, made nobody wait. */
uint64_t gpu_silence_asleep(struct gpu_silence *s, uint64_t due_ns, uint64_t now_ns);

/* "1:02" into a run that began at start_ns. */
const char *gpu_instant(uint64_t start_ns, uint64_t at_ns, char text[GPU_INSTANT]);

/* The driver called label is waited for since call_ns (0: it is not), in one call, in which it was asked that ("": unknown), or
 * for its helper to wake up.
 * True: text is to be told. */
bool gpu_silence_look(struct gpu_silence *s, const char *label, const char *asked, uint64_t start_ns, uint64_t call_ns,
	uint64_t now_ns, char text[GPU_SILENCE_TEXT]);

/* One that goes on is over: the helper that was in the call is gone. */
void gpu_silence_over(struct gpu_silence *s, uint64_t now_ns);

/* In the end, of all of them, and of one that goes on: that begins sooner, since nobody will see the end of it. call_ns as
 * above. Returns how many texts are to be told. */
unsigned gpu_silence_last(struct gpu_silence *s, const char *label, const char *asked, uint64_t start_ns, uint64_t call_ns,
	uint64_t now_ns, char texts[2][GPU_SILENCE_TEXT]);

/* SPDX-License-Identifier: MIT
 *
 * What the parts of the summary share.
 */
#pragma once

#include "summary/summary.h"

/* What is about GPUs, with its notes. Returns 0 or -ENOMEM. */
int summary_gpu(struct summary *summary);
/* What was told of GPUs while it ran; of a device also when, and how often. Returns 0 or -ENOMEM. */
int summary_gpu_note_told(struct summary *summary);
/* What a note on GPUs is about, its text up to the colon; NULL: it is none. */
const char *summary_gpu_about(const struct event *event);
/* Was anything told of GPUs for that cause? */
bool summary_gpu_told(const struct job *job, enum note_cause cause);
/* Main, descendants, combined. */
void summary_ram(const struct job *job, struct summary *summary);
void summary_main(const struct job *job, struct ram_figure *figure);

enum {
	PAGE = 4096,   /* the least that a fault brings */
	MEAN_LOOKS = 3 /* fewer say nothing of a mean: the first is at a time when nothing was there yet */
};

void ram_figure_set(struct ram_figure *figure, enum method method, const char *source, int64_t low, int64_t high);
void ram_figure_time(struct ram_figure *figure, const struct acc *acc);
/* private of whole, at the peak. */
void ram_figure_split(struct ram_figure *figure, int64_t private, int64_t whole);

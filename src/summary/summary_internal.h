/* SPDX-License-Identifier: MIT
 *
 * Shared by the parts of the summary.
 */
#pragma once

#include "summary/summary.h"

/* Figures and notes about GPUs. Returns 0 or -ENOMEM. */
int summary_gpu(struct summary *summary);
/* Turns the notes that sources reported on GPUs into notes of the summary; on a device also when,
 * and how often. Returns 0 or -ENOMEM. */
int summary_gpu_note_reported(struct summary *summary);
/* The subject of a note on GPUs: its text up to the colon; NULL: the event is no such note. */
const char *summary_gpu_about(const struct event *event);
/* True if a note on GPUs has that cause. */
bool summary_gpu_reported(const struct job *job, enum note_cause cause);
/* Fill main, descendants and combined. */
void summary_ram(const struct job *job, struct summary *summary);
void summary_main(const struct job *job, struct ram_figure *figure);

enum {
	PAGE = 4096,   /* bytes: the smallest size that a fault maps */
	/* fewer give no mean: the first is taken before the program has allocated anything */
	MEAN_SAMPLES = 3
};

void ram_figure_set(
	struct ram_figure *figure, enum method method, const char *source, int64_t low, int64_t high);
void ram_figure_time(struct ram_figure *figure, const struct acc *acc);
/* Splits the peak into private and shared, as private is to whole. */
void ram_figure_split(struct ram_figure *figure, int64_t private, int64_t whole);

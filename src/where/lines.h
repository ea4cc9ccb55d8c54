/* SPDX-License-Identifier: MIT
 *
 * The lines between the sampler (a program of its own) and the recorder: a word and its values,
 * separated by tabs. In texts a byte below 32, 127 and a backslash are "\xNN".
 *
 *   ready PAGES KERNEL          the events are open; pages of a ring; 1: system calls' faults count
 *   failed TEXT                 they are not, and why
 *   frame N MODULE BUILD-ID OFFSET FUNCTION FILE LINE
 *   stack N PARENT FRAME
 *   process N PID NAME
 *   high N TIME TOTAL LOOKED LOOKED-TOTAL BEFORE SAMPLE HUGE LOST ROWS FILES PYTHONS
 *                               times: CLOCK_BOOTTIME, in ns
 *   row STACK PROCESS BYTES N COPIED   of the high before it
 *   file NAME BYTES             likewise
 *   python PROCESS THREAD TIME FRAMES
 *                               likewise: a stack of Python
 *   at FUNCTION FILE LINE       a frame of it, the outermost first
 *   drop N
 *   note TEXT                   for the user
 *   cost CPU-NS RSS-BYTES       of the sampler itself, before it is done
 *   done                        nothing more comes
 *
 * To the sampler: "end": the run is over.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* Appends a tab and a text. */
void lines_text(struct buf *out, const char *text);
/* Appends a tab and a number. */
void lines_number(struct buf *out, uint64_t value);

/* Takes the next value of a line, whose end is a NUL: *at moves behind it. Decodes a text in place;
 * false: there is none. */
bool lines_next_text(char **at, char **ret);
bool lines_next_number(char **at, uint64_t *ret);

/* SPDX-License-Identifier: MIT
 *
 * Names of frames that a recording has without, since its recorder was killed before the end: asked of hiwater-where,
 * which reads the programs, as far as they are the same ones still. At most 10 s.
 */
#pragma once

#include <stddef.h>

#include "model/where.h"

/* Sets function, file and line of frames without a function; the texts are the caller's to free(). What cannot be named stays
 * as it is. program: absolute. */
void where_name_frames(const char *program, struct where_frame *frames, size_t n);

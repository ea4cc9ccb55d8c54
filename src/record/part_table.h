/* SPDX-License-Identifier: MIT
 *
 * The tables that only a merged recording has (docs/recording.md): part, node, problem, and what a further merge needs of each part: part_row
 * (its windows), part_mark, part_gpu.
 */
#pragma once

#include "job/parts.h"
#include "record/store.h"

/* Each returns 0 or -errno. */
int part_tables_create(struct store *s);
int part_tables_put(struct store *s, const struct parts *parts);

/* SPDX-License-Identifier: MIT
 *
 * Writes where the memory came from (model/where.h) into a recording; docs/recording.md has the tables. They take at most
 * 8 MiB: past it further stacks are left out. All functions must be called from the store's thread,
 * between store_begin and store_commit.
 */
#pragma once

#include "model/where.h"
#include "record/store.h"

struct where_write;

/* NULL: out of memory. s is borrowed. */
struct where_write *where_write_new(struct store *s);
void where_write_free(struct where_write *w);

/* The transaction was rolled back: tables are made again; what was written in it has to be passed again. */
void where_write_rolled_back(struct where_write *w);

/* Valid until where_write_free. It returns errors of the store. */
const struct where_sink *where_write_sink(struct where_write *w);

/* SPDX-License-Identifier: MIT
 *
 * Recordings for imported traces: a new one, for a trace without a run, or an existing one to add it to. Both
 * are written as a temporary file next to it (network_fs_temporary), an existing one as a copy, that gets its
 * name when all is in it: whatever ends the process, there is no new file, or the existing one is as it was.
 */
#pragma once

#include "base/err.h"
#include "record/store.h"

/* Of a recording that has an imported trace and nothing else. Texts may be NULL: unknown. */
struct trace_file_facts {
	const char *name;          /* as run -n */
	const char *command, *host;
	int64_t started_wall_ns;   /* time 0 of the trace, since 1970; 0: unknown */
	uint64_t ended_ns;         /* its last event, since then */
	int64_t rank, ranks;       /* -1: unknown */
};

/* Creates what becomes path, which must not exist unless it is empty and reserved (history_reserve), with a
 * transaction begun. Call trace_file_facts_write when the facts are known, and trace_file_end. Returns 0 or
 * -errno with text. */
int trace_file_create(const char *path, bool reserved, struct store **ret, struct err *err);
int trace_file_facts_write(struct store *s, const struct trace_file_facts *facts);

/* Opens a copy of the finished recording at path, no symbolic link, with a transaction begun. Returns 0, or
 * -errno with text: -EBUSY if it is being recorded, or another program writes to it. */
int trace_file_open(const char *path, struct store **ret, struct err *err);

/* Commits, closes, and gives it its name; replaces: path is that of an existing recording, or reserved. keep
 * false, or an error: what was written is removed. Returns 0 or -errno with text; -EEXIST: the name is taken by
 * now. */
int trace_file_end(struct store *s, const char *path, bool keep, bool replaces, struct err *err);

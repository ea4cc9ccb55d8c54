/* SPDX-License-Identifier: MIT
 *
 * Names of traced work as people and other programs read them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Appends the name as C++ declares it, if it is a mangled one and libstdc++ is there; else the name as it is.
 * The library is loaded when the first mangled name comes. One thread at a time. */
void trace_demangle(const char *name, struct buf *out);

/* Appends text with a backslash before what is special in a regular expression of ncu (ECMAScript). */
void trace_regex_escape(const char *text, struct buf *out);

/* Appends text as one word of a POSIX shell: as it is, or in single quotes. */
void trace_shell_word(const char *text, struct buf *out);

/* "12,400". */
#define TRACE_COUNT_LEN 32
char *trace_count_text(uint64_t n, char buf[TRACE_COUNT_LEN]);

/* The number of a step in a range's name ("ProfilerStep#12", "step 12", "iteration_12"). False: it is none. */
bool trace_step_number(const char *name, uint64_t *ret);
/* Appends the name, with "*" in place of the number of a step: "ProfilerStep#*". */
void trace_step_fold(const char *name, struct buf *out);

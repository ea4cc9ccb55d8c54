/* SPDX-License-Identifier: MIT
 *
 * Names of traced work as people and other programs read them.
 */
#pragma once

#include <regex.h>
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
/* The last number in a name that an expression of steps matches, as --trace-window reads it. False: it has none. */
bool trace_last_number(const char *name, uint64_t *ret);
/* Compiles an expression of steps. It comes from a file: what could take memory or time without bound is refused. */
bool trace_step_compile(const char *text, regex_t *ret);

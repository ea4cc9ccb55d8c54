/* SPDX-License-Identifier: MIT
 *
 * Shared by the files of opt.h: iterating over a table and over choices.
 */
#pragma once

#include "base/opt.h"

#define OPT_PROGRAM "hiwater"

/* The row that every command has. */
extern const struct opt opt_help_row;

/* The row after o (NULL: the first) of command: its own rows, then opt_help_row, then NULL. */
const struct opt *opt_next(const struct command *command, const struct opt *o);

/* The next entry of "full|line|none" at *p, *len bytes long; advances *p. NULL at the end. */
const char *opt_next_choice(const char **p, size_t *len);

/* True for commands that are shown: neither hidden nor the program itself. */
bool opt_is_listed(const struct command *command);

/* SPDX-License-Identifier: MIT
 *
 * What the files of opt.h share: how to walk a table and its choices.
 */
#pragma once

#include "base/opt.h"

#define OPT_PROGRAM "hiwater"

/* The row that every command has. */
extern const struct opt opt_help_row;

/* The row behind o (NULL: the first) of command: its own, then opt_help_row, then NULL. */
const struct opt *opt_next(const struct command *command, const struct opt *o);

/* Moves *p over the next entry of "full|line|none" and returns it, *len bytes long; NULL at the end. */
const char *opt_next_choice(const char **p, size_t *len);

/* True if the command is for people: neither hidden nor the program itself. */
bool opt_is_listed(const struct command *command);

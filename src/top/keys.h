/* SPDX-License-Identifier: MIT
 *
 * Who does what the keys of keys.def ask for. None of them ends or slows the job at one key alone.
 */
#pragma once

#include "top/top.h"

typedef void key_action(struct top *t, int key);

/* A row of keys.def may share its action with another. */
#define KEY(name, shown, sentence, ...) key_action key_##name;
#include "top/keys.def"
#undef KEY

/* A line at the bottom, until the next key. */
void key_say(struct top *t, const char *text);

/* Sorting is by another column now. */
void key_sorted(struct top *t);

/* questions.c: a key, while the line at the bottom asks for something. */
void question_key(struct top *t, int key);

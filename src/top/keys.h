/* SPDX-License-Identifier: MIT
 *
 * The actions of the keys of keys.def. No single key press ends or slows the job.
 */
#pragma once

#include "top/top.h"

typedef void key_action(struct top *t, int key);

/* Rows of keys.def may share an action. */
#define KEY(name, shown, sentence, ...) key_action key_##name;
#include "top/keys.def"
#undef KEY

/* Shows text on the bottom line until the next key. */
void key_say(struct top *t, const char *text);

/* To be called when the sort column has changed. */
void key_sorted(struct top *t);

/* questions.c: handles a key while a question is open on the bottom line. */
void question_key(struct top *t, int key);
/* True if the open question is a line of text, in which every letter is text. */
bool question_is_text(const struct top *t);

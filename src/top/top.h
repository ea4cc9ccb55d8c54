/* SPDX-License-Identifier: MIT
 *
 * The live view as a whole, and what it was started with. hiwater top (src/cli/top.c) reads the command line and runs this
 * program with words of the form NAME=VALUE.
 */
#pragma once

#include "top/draw.h"
#include "top/feed.h"
#include "top/screen.h"
#include "top/view.h"

struct top_options {
	const char *file;      /* a recording; NULL: none */
	pid_t pid;             /* a process; 0: none */
	uint64_t interval_ns;
	uint64_t at_ns;        /* replay: where it begins, standing still; UINT64_MAX: at the start, running */
	uint64_t count;        /* plain: so many times; 0: until it is over */
	uint64_t rows;         /* plain: processes at most */
	enum units units;
	bool plain, utf8, color, mouse, gpus, readonly;
	bool live;             /* run --live: the job's end is the view's, and its keyboard signals are the job's own */
	int terminal;          /* descriptor of the terminal */
	const char *filter, *sort;
};

struct top {
	struct top_options options;
	struct screen screen;
	struct view view;
	struct model model;
	struct feed feed;
	struct picture picture;
	bool quit, redraw;
	int drag_x;            /* where the mouse was pressed in a chart; -1: it was not */
	uint64_t drag_from_ns;
};

/* keys.c: what a key, or the mouse (mouse.c), asks for. */
void top_key(struct top *t, struct press press);
void top_mouse(struct top *t, struct press press);
void top_zoom(struct top *t, int key);           /* '[' or ']' */
void top_go(struct top *t, uint64_t time_ns);    /* replay: stands still there */
/* What keys do, for the help page: rows of two texts, NULL behind the last. */
const char *const *key_help(void);

/* signals.c: F9. Sends what was chosen to the process that the question named. */
void top_signal(struct top *t, int signal);
bool top_may_signal(struct top *t);
/* The menu: a digit's signal, 0: none; all of them as a line. */
int signal_of(int digit);
const char *signal_menu(void);
const char *signal_name(int signal);

/* plain.c: lines instead of a screen. Returns the exit status. */
int plain_run(struct top *t);

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
	const char *hiwater;   /* the command, for reports; NULL: not known */
};

/* A report that is being written. */
struct written {
	pid_t pid;             /* 0: none is */
	int fd;                /* what it prints; -1 */
	size_t len;
	char said[512];
};

struct top {
	struct top_options options;
	struct screen screen;
	struct view view;
	struct model model;
	struct feed feed;
	struct picture picture;
	struct written report;
	bool quit, redraw;
	bool to_lines;         /* p: lines from here on */
	unsigned away;         /* Ctrl-Z, run --live: the screen is given back; so many more looks that bring something bring it back; 0: no */
	int drag_x;            /* where the mouse was pressed in a chart; -1: it was not */
	uint64_t drag_from_ns;
};

/* keys.c: what a key, or the mouse, asks for. */
void top_key(struct top *t, struct press press);
void top_mouse(struct top *t, struct press press);
/* keys.c */
void top_zoom(struct top *t, int key);           /* '[' or ']' */
void top_go(struct top *t, uint64_t time_ns);    /* replay: stands still there */

/* setup.c: F2, a page of its own. */
void setup_key(struct top *t, struct press press);
void setup_draw(struct top *t);

/* write_report.c: its fd is readable. */
void report_step(struct top *t);
/* The view is left while a report is being written. wait: that is waited for, and its name printed; else it is ended. */
void report_leave(struct top *t, bool wait);

/* signals.c: F9. Sends what was chosen to the process that the question named. */
void top_signal(struct top *t, int signal);
bool top_may_signal(struct top *t);
/* The menu: a digit's signal, 0: none; all of them as a line. */
int signal_of(int digit);
const char *signal_menu(void);
const char *signal_name(int signal);

/* plain.c: lines instead of a screen. Returns the exit status. */
int plain_run(struct top *t);
/* Lines after a screen, on the same terminal; signals are read from signals. Returns 0: it is over, or somebody left; 1: the
 * screen is wanted back; -N: signal N ended it. */
int plain_follow(struct top *t, int signals);

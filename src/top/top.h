/* SPDX-License-Identifier: MIT
 *
 * The whole live view and its options. hiwater top (src/cli/top.c) parses the command line and runs
 * this program with arguments of the form NAME=VALUE.
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
	uint64_t at_ns;        /* replay: starts here, paused; UINT64_MAX: at the start, running */
	uint64_t count;        /* plain: number of samples; 0: until the end */
	uint64_t rows;         /* plain: maximum number of processes */
	enum units units;
	bool plain, utf8, color, mouse, gpus, readonly;
	bool live;             /* run --live: ends with the job; keyboard signals are for the job */
	int terminal;          /* descriptor of the terminal */
	const char *filter, *sort;
	const char *hiwater;   /* the command, for reports; NULL: unknown */
};

/* A report in the making. */
struct written {
	pid_t pid;             /* of hiwater report; 0: none */
	int fd;                /* its output; -1: none */
	size_t len;
	char output[512];
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
	bool to_lines;         /* p: switch to plain lines */
	/* Ctrl-Z with run --live: the screen is released until so many more updates; 0: it is
	 * not */
	unsigned away;
	int drag_x;            /* where the mouse was pressed in a chart; -1: not pressed */
	uint64_t drag_from_ns;
};

/* keys.c: handle a key or a mouse event. */
void top_key(struct top *t, struct press press);
void top_mouse(struct top *t, struct press press);
/* keys.c */
void top_zoom(struct top *t, int key);           /* key: '[' or ']' */
void top_go(struct top *t, uint64_t time_ns);    /* replay: moves there and pauses */

/* setup.c: the setup page, F2. */
void setup_key(struct top *t, struct press press);
void setup_draw(struct top *t);

/* write_report.c: call it when report.fd is readable. */
void report_step(struct top *t);
/* The view ends while a report is being written. wait: waits for it and prints its name; else kills
 * it. */
void report_leave(struct top *t, bool wait);

/* signals.c: F9. Sends the chosen signal to the process that the question named. */
void top_signal(struct top *t, int signal);
bool top_may_signal(struct top *t);
/* The menu: the signal of a digit, 0: none; the menu as a line; the name of a signal. */
int signal_of(int digit);
const char *signal_menu(void);
const char *signal_name(int signal);

/* plain.c: plain lines instead of a screen. Returns the exit status. */
int plain_run(struct top *t);
/* Plain lines after a screen, on the same terminal; signals: a signalfd. Returns 0: over or quit;
 * 1: return to the screen; -N: ended by signal N. */
int plain_follow(struct top *t, int signals);

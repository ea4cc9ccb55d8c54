/* SPDX-License-Identifier: MIT
 *
 * The terminal, by ncursesw: input, output, and its restoration on every way out. One per process.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Styles of text, with and without colour. */
enum ink {
	INK_PLAIN,
	INK_DIM,
	INK_BOLD,
	INK_TITLE,   /* the title line, column titles */
	INK_RAM,
	INK_CPU,
	INK_GPU,
	INK_SERIES,
	INK_WARN,
	INK_ERROR,
	INK_LETTER,  /* key of a choice */
	INK_PICKED,  /* the selected row */
	INK_COUNT
};

/* Keys beyond characters. */
enum press_key {
	PRESS_NONE = -1,
	PRESS_CODE = 0x110000, /* above Unicode */
	PRESS_ARROW_UP,
	PRESS_ARROW_DOWN,
	PRESS_ARROW_LEFT,
	PRESS_ARROW_RIGHT,
	PRESS_PAGE_UP,
	PRESS_PAGE_DOWN,
	PRESS_FIRST,
	PRESS_LAST,
	PRESS_ERASE,
	PRESS_CANCEL,
	PRESS_RETURN,
	PRESS_TAB,
	PRESS_TAB_BACK,
	PRESS_FUNCTION,        /* PRESS_FUNCTION + n: Fn */
	PRESS_CLICK = PRESS_FUNCTION + 16,
	PRESS_RELEASE,
	PRESS_WHEEL_UP,
	PRESS_WHEEL_DOWN
};

struct press {
	int key;             /* a character or an enum press_key */
	int y, x;            /* mouse */
	bool pasted;         /* part of a pasted text */
};

struct screen {
	int rows, columns;
	bool utf8, color, mouse;
	bool pasting;        /* between the marks that the terminal sends around a pasted text */
	struct press waiting[16]; /* mouse events, the latest first */
	size_t n_waiting;
};

/* Sets up the terminal at descriptor fd. Returns 0, or -errno with the reason in text. */
int screen_open(struct screen *s, int fd, bool utf8, bool color, bool mouse, char *text, size_t size);
/* Restores the terminal. May be called any number of times. */
void screen_close(struct screen *s);

/* Writes cleaned text from column x on, at most width columns (negative: up to the end of the
 * line); cuts its middle if it is too long. Returns the number of columns written. */
int screen_put(struct screen *s, int y, int x, int width, enum ink ink, const char *text);
/* The same, but cuts the end. */
int screen_put_front(struct screen *s, int y, int x, int width, enum ink ink, const char *text);
int screen_print(struct screen *s, int y, int x, enum ink ink, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
/* Fills width columns from x on with one character. */
void screen_fill(struct screen *s, int y, int x, int width, enum ink ink, const char *character);

void screen_begin(struct screen *s);  /* starts with an empty screen */
void screen_show(struct screen *s);   /* writes the changes to the terminal */
void screen_redo(struct screen *s);   /* redraws everything */
void screen_resize(struct screen *s); /* the terminal's size has changed */
void screen_colors(struct screen *s, bool color);
void screen_mouse(struct screen *s, bool mouse);

/* Releases the terminal to other output of this process; screen_is_ours() takes it back. */
void screen_lend(struct screen *s);
/* Ctrl-Z: restores the terminal, stops the process, and sets up the terminal again after
 * SIGCONT. */
void screen_suspend(struct screen *s);
void screen_resume(struct screen *s); /* the process was stopped and continued, perhaps in the background */
/* False in the background: nothing may be drawn or read. Sets up the terminal again if the process
 * is back in the foreground. */
bool screen_is_ours(struct screen *s);

bool screen_in_foreground(void);

/* The next pressed key; PRESS_NONE: none is waiting. Never blocks. */
struct press screen_key(struct screen *s);

/* SPDX-License-Identifier: MIT
 *
 * The terminal: ncursesw, what restores it on every way out, and how text gets onto it. One at a time in a process.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* What text is written with; the meaning is the same with and without colour. */
enum ink {
	INK_PLAIN,
	INK_DIM,
	INK_BOLD,
	INK_TITLE,   /* the line at the top, heads of tables */
	INK_RAM,
	INK_CPU,
	INK_GPU,
	INK_SERIES,
	INK_WARN,
	INK_ERROR,
	INK_LETTER,  /* that chooses what it stands in front of */
	INK_PICKED,  /* the row that is picked */
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
};

struct screen {
	int rows, columns;
	bool utf8, color, mouse;
	struct press waiting[16]; /* of the mouse, the latest first */
	size_t n_waiting;
};

/* Takes the terminal at descriptor fd. Returns 0, or -errno with why in text. */
int screen_open(struct screen *s, int fd, bool utf8, bool color, bool mouse, char *text, size_t size);
/* Gives it back as it was. Any number of times. */
void screen_close(struct screen *s);

/* Writes harmless text from column x on, cut at width columns (negative: all that the line holds). Returns how many it
 * took. */
int screen_put(struct screen *s, int y, int x, int width, enum ink ink, const char *text);
/* The same, but what is too long loses its end, not its middle. */
int screen_put_front(struct screen *s, int y, int x, int width, enum ink ink, const char *text);
int screen_print(struct screen *s, int y, int x, enum ink ink, const char *format, ...) __attribute__((format(printf, 5, 6)));
/* The line from x on in one character. */
void screen_fill(struct screen *s, int y, int x, int width, enum ink ink, const char *character);

void screen_begin(struct screen *s);  /* an empty picture */
void screen_show(struct screen *s);   /* what changed since the last one goes out */
void screen_redo(struct screen *s);   /* all of it, anew */
void screen_resize(struct screen *s); /* the terminal has another size */
void screen_colors(struct screen *s, bool color);
void screen_mouse(struct screen *s, bool mouse);

/* Somebody else's for a while, who is no other process; screen_is_ours takes it back. */
void screen_lend(struct screen *s);
/* Ctrl-Z: the terminal is given back, the process stops, and both come back. */
void screen_suspend(struct screen *s);
void screen_resume(struct screen *s); /* somebody else stopped it and let it go on, perhaps in the background */
/* False in the background, where nothing is drawn and no key is read. Takes the terminal where it is back in the
 * foreground. */
bool screen_is_ours(struct screen *s);

bool screen_in_foreground(void);

/* The next key that was pressed; PRESS_NONE: there is none (any more). Never waits. */
struct press screen_key(struct screen *s);

/* SPDX-License-Identifier: MIT
 *
 * ncursesw. The restoration of the terminal is prepared before any change: the handler of a crash
 * calls only async-signal-safe functions.
 */
#define NCURSES_WIDECHAR 1

#include "top/screen.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <ncurses.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/textwidth.h"

#include <term.h> /* defines capabilities as macros: include it last */
#undef columns

static const struct {
	int curses;
	int press;
} keys[] = {
	{ KEY_UP, PRESS_ARROW_UP },
	{ KEY_DOWN, PRESS_ARROW_DOWN },
	{ KEY_LEFT, PRESS_ARROW_LEFT },
	{ KEY_RIGHT, PRESS_ARROW_RIGHT },
	{ KEY_PPAGE, PRESS_PAGE_UP },
	{ KEY_NPAGE, PRESS_PAGE_DOWN },
	{ KEY_HOME, PRESS_FIRST },
	{ KEY_END, PRESS_LAST },
	{ KEY_BACKSPACE, PRESS_ERASE },
	{ KEY_ENTER, PRESS_RETURN },
	{ KEY_BTAB, PRESS_TAB_BACK },
};

/* Sequences of terminals that differ from TERM: without these they would be read as Esc and other
 * keys. */
static const struct {
	const char *bytes;
	int key;
} sent[] = {
	{ "\033[1~", KEY_HOME },
	{ "\033[7~", KEY_HOME },
	{ "\033[H", KEY_HOME },
	{ "\033OH", KEY_HOME },
	{ "\033[4~", KEY_END },
	{ "\033[8~", KEY_END },
	{ "\033[F", KEY_END },
	{ "\033OF", KEY_END },
	{ "\033[5~", KEY_PPAGE },
	{ "\033[6~", KEY_NPAGE },
	{ "\033[A", KEY_UP },
	{ "\033[B", KEY_DOWN },
	{ "\033[C", KEY_RIGHT },
	{ "\033[D", KEY_LEFT },
	{ "\033[Z", KEY_BTAB },
	{ "\033OP", KEY_F(1) },
	{ "\033OQ", KEY_F(2) },
	{ "\033OR", KEY_F(3) },
	{ "\033OS", KEY_F(4) },
	{ "\033[11~", KEY_F(1) },
	{ "\033[12~", KEY_F(2) },
	{ "\033[13~", KEY_F(3) },
	{ "\033[14~", KEY_F(4) },
};

/* Bracketed paste: a terminal that supports it sends these before and after a pasted text. The key codes
 * are of keys that no terminal has. */
enum {
	PASTE_BEGIN = KEY_OPEN,
	PASTE_END = KEY_CLOSE
};
#define PASTE_MARK_BEGIN "\033[200~"
#define PASTE_MARK_END   "\033[201~"
#define PASTE_MODE_ON    "\033[?2004h"
#define PASTE_MODE_OFF   "\033[?2004l"

static const struct {
	short color;
	attr_t with, without; /* colours */
} inks[INK_COUNT] = {
	[INK_PLAIN] = { -1, A_NORMAL, A_NORMAL },
	[INK_DIM] = { -1, A_DIM, A_DIM },
	[INK_BOLD] = { -1, A_BOLD, A_BOLD },
	[INK_TITLE] = { -1, A_REVERSE, A_REVERSE },
	[INK_RAM] = { COLOR_CYAN, A_NORMAL, A_NORMAL },
	[INK_CPU] = { COLOR_GREEN, A_NORMAL, A_NORMAL },
	[INK_GPU] = { COLOR_MAGENTA, A_NORMAL, A_NORMAL },
	[INK_SERIES] = { COLOR_BLUE, A_BOLD, A_NORMAL },
	[INK_WARN] = { COLOR_YELLOW, A_BOLD, A_BOLD },
	[INK_ERROR] = { COLOR_RED, A_BOLD, A_BOLD },
	[INK_LETTER] = { -1, A_UNDERLINE, A_UNDERLINE },
	[INK_PICKED] = { -1, A_REVERSE, A_REVERSE },
};

/* ---- restoring the terminal ---------------------------------------------------------------------------------------- */

/* The only data that a signal handler of this process reads. */
static struct {
	volatile sig_atomic_t active;
	int fd;
	struct termios before;
	char leave[256];     /* leaves the alternate screen, shows the cursor, disables the mouse */
	size_t leave_len;
	SCREEN *screen;
	FILE *out, *in;
} terminal = { .fd = -1 };

/* Signals that end the process; the others come through live.c's descriptor. */
static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGXCPU, SIGXFSZ,
	SIGALRM, SIGVTALRM, SIGPROF, SIGUSR1, SIGUSR2, SIGIO };

/* False: another process group, mostly a shell, owns the terminal. True if it is no controlling
 * terminal. */
bool screen_in_foreground(void)
{
	const pid_t group = tcgetpgrp(terminal.fd);

	return group < 0 || group == getpgrp();
}

/* In the background only the screen is cleared: the modes belong to the foreground process. */
static void restore_async(void)
{
	if (!terminal.active)
		return;
	terminal.active = 0;
	(void) !write(terminal.fd, terminal.leave, terminal.leave_len);
	if (screen_in_foreground())
		(void) tcsetattr(terminal.fd, TCSANOW, &terminal.before);
}

static void crashed(int signal)
{
	restore_async();
	(void) raise(signal); /* SA_RESETHAND: now the signal ends the process */
}

static void handle_crashes(void)
{
	static char stack[16384]; /* the handler must run after a stack overflow, too */
	const stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_handler = crashed,
		.sa_flags = (int) (SA_RESETHAND | SA_NODEFER | SA_ONSTACK) };

	(void) sigaltstack(&other, NULL);

	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		(void) sigaction(crashes[i], &action, NULL);
	(void) atexit(restore_async);
}

static void add_leave(const char *text)
{
	const size_t len = text && text != (const char *) -1 ? strlen(text) : 0;

	if (len == 0 || terminal.leave_len + len > sizeof(terminal.leave))
		return;
	memcpy(terminal.leave + terminal.leave_len, text, len);
	terminal.leave_len += len;
}

static void prepare_leave(bool mouse)
{
	terminal.leave_len = 0;
	add_leave(PASTE_MODE_OFF);
	if (mouse)
		add_leave("\033[?1006l\033[?1002l\033[?1000l");
	add_leave(tigetstr("sgr0"));
	add_leave(tigetstr("cnorm"));
	add_leave(tigetstr("rmkx"));
	add_leave(tigetstr("rmcup"));
}

/* ---- setting up the terminal --------------------------------------------------------------------------------------- */

/* A missing locale must not garble the frame; without a UTF-8 locale it is ASCII. */
static bool choose_locale(bool utf8)
{
	(void) setlocale(LC_CTYPE, "");
	if (!utf8)
		return false;
	if (strcasecmp(nl_langinfo(CODESET), "UTF-8") != 0)
		(void) setlocale(LC_CTYPE, "C.UTF-8");
	return strcasecmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static void set_inks(void)
{
	if (!has_colors())
		return;
	(void) start_color();
	(void) use_default_colors();
	for (short i = 0; i < INK_COUNT; i++) {
		if (inks[i].color >= 0)
			(void) init_pair((short) (i + 1), inks[i].color, -1);
	}
}

static int open_terminal(int fd, char *text, size_t size)
{
	const char *type = getenv("TERM");
	const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3), other = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (copy < 0 || other < 0 || tcgetattr(fd, &terminal.before) < 0) {
		(void) snprintf(text, size, "not a terminal: %s", strerror(errno));
		return -ENOTTY;
	}
	terminal.fd = copy;
	terminal.out = fdopen(copy, "w");
	terminal.in = fdopen(other, "r");
	terminal.screen = terminal.out && terminal.in ? newterm(NULL, terminal.out, terminal.in) : NULL;
	if (!terminal.screen) {
		(void) snprintf(
			text, size, "unknown terminal type '%.40s' (TERM, terminfo)", type ? type : "");
		return -ENOTTY;
	}
	return 0;
}

static void set_mouse(bool mouse)
{
	(void) mousemask(
		mouse ? BUTTON1_PRESSED | BUTTON1_RELEASED | BUTTON4_PRESSED | BUTTON5_PRESSED : 0, NULL);
}

/* ncurses does not know this mode. */
static void set_paste_mode(bool on)
{
	const char *text = on ? PASTE_MODE_ON : PASTE_MODE_OFF;

	(void) !write(terminal.fd, text, strlen(text));
}

static void set_modes(bool mouse)
{
	(void) cbreak();
	(void) noecho();
	(void) nonl();
	(void) keypad(stdscr, TRUE);
	for (size_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++) {
		if (key_defined(sent[i].bytes) == 0)
			(void) define_key(sent[i].bytes, sent[i].key);
	}
	(void) define_key(PASTE_MARK_BEGIN, PASTE_BEGIN);
	(void) define_key(PASTE_MARK_END, PASTE_END);
	set_paste_mode(true);
	(void) nodelay(stdscr, TRUE);
	(void) set_escdelay(50);
	(void) curs_set(0);
	(void) mouseinterval(0);
	set_mouse(mouse);
}

int screen_open(struct screen *s, int fd, bool utf8, bool color, bool mouse, char *text, size_t size)
{
	int r;

	*s = (struct screen) { .utf8 = choose_locale(utf8), .color = color, .mouse = mouse };
	r = open_terminal(fd, text, size);
	if (r < 0)
		return r;
	prepare_leave(mouse);
	handle_crashes();
	terminal.active = 1;
	set_inks();
	set_modes(mouse);
	getmaxyx(stdscr, s->rows, s->columns);
	return 0;
}

static void release_terminal(void)
{
	if (!terminal.active || !screen_in_foreground()) {
		restore_async();
		return;
	}
	terminal.active = 0;
	set_paste_mode(false);
	(void) endwin();
	(void) tcsetattr(terminal.fd, TCSANOW, &terminal.before);
}

void screen_close(struct screen *s)
{
	(void) s;
	release_terminal();
}

void screen_lend(struct screen *s)
{
	(void) s;
	release_terminal();
}

void screen_suspend(struct screen *s)
{
	release_terminal();
	(void) raise(SIGSTOP);
	screen_resume(s);
}

/* The terminal's modes may have changed meanwhile: later it is restored to these. */
void screen_resume(struct screen *s)
{
	if (!screen_in_foreground()) {
		restore_async();
		return;
	}
	if (!terminal.active) {
		(void) tcgetattr(terminal.fd, &terminal.before);
		if (!isendwin()) /* restored without ncurses */
			(void) endwin();
	}
	terminal.active = 1;
	(void) reset_prog_mode();
	set_paste_mode(true);
	s->pasting = false;
	screen_resize(s);
}

bool screen_is_ours(struct screen *s)
{
	if (!screen_in_foreground())
		return false;
	if (!terminal.active)
		screen_resume(s);
	return true;
}

void screen_resize(struct screen *s)
{
	struct winsize size = { 0 };

	if (ioctl(terminal.fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
		(void) resizeterm(size.ws_row, size.ws_col);
	getmaxyx(stdscr, s->rows, s->columns);
	(void) clearok(stdscr, TRUE);
}

/* ---- writing ------------------------------------------------------------------------------------------------------ */

static void use(const struct screen *s, enum ink ink)
{
	const bool colored = s->color && has_colors() && inks[ink].color >= 0;

	(void) attr_set(
		(s->color ? inks[ink].with : inks[ink].without), colored ? (short) (ink + 1) : 0, NULL);
}

int screen_put(struct screen *s, int y, int x, int width, enum ink ink, const char *text)
{
	const int room = x < s->columns ? s->columns - x : 0;
	const int most = width < 0 || width > room ? room : width;
	struct buf cut = BUF_INIT(1 << 16);
	int took;

	if (y < 0 || y >= s->rows || x < 0 || most == 0)
		return 0;
	use(s, ink);
	took = (int) text_width(text);
	if (took > most) {
		(void) text_shorten(text, (unsigned) most, s->utf8, &cut);
		text = cut.data;
		took = (int) text_width(text);
	}
	(void) mvaddstr(y, x, text);
	buf_done(&cut);
	return took;
}

int screen_put_front(struct screen *s, int y, int x, int width, enum ink ink, const char *text)
{
	const char *dots = s->utf8 ? "\xe2\x80\xa6" : "..";
	const int dots_columns = s->utf8 ? 1 : 2;
	struct buf cut = BUF_INIT(1 << 16);
	int took;

	if (width > dots_columns && (int) text_width(text) > width) {
		(void) buf_add(&cut, text, text_fit(text, (unsigned) (width - dots_columns)));
		(void) buf_str(&cut, dots);
		text = cut.data;
	}
	took = screen_put(s, y, x, width, ink, text);
	buf_done(&cut);
	return took;
}

int screen_print(struct screen *s, int y, int x, enum ink ink, const char *format, ...)
{
	struct buf text = BUF_INIT(1 << 16);
	va_list ap;
	int took;

	va_start(ap, format);
	(void) buf_vprintf(&text, format, ap);
	va_end(ap);
	took = screen_put(s, y, x, -1, ink, text.data);
	buf_done(&text);
	return took;
}

void screen_fill(struct screen *s, int y, int x, int width, enum ink ink, const char *character)
{
	for (int i = 0; i < width; i++)
		(void) screen_put(s, y, x + i, 1, ink, character);
}

void screen_begin(struct screen *s)
{
	(void) s;
	(void) erase();
}

void screen_show(struct screen *s)
{
	(void) s;
	(void) refresh();
}

void screen_redo(struct screen *s)
{
	(void) s;
	(void) clearok(stdscr, TRUE);
}

void screen_colors(struct screen *s, bool color)
{
	s->color = color;
	screen_redo(s);
}

void screen_mouse(struct screen *s, bool mouse)
{
	s->mouse = mouse;
	set_mouse(mouse);
	prepare_leave(true);
}

/* ---- keys --------------------------------------------------------------------------------------------------------- */

static int button(mmask_t state)
{
	if (state & BUTTON1_PRESSED)
		return PRESS_CLICK;
	if (state & BUTTON1_RELEASED)
		return PRESS_RELEASE;
	if (state & BUTTON4_PRESSED)
		return PRESS_WHEEL_UP;
	return state & BUTTON5_PRESSED ? PRESS_WHEEL_DOWN : PRESS_NONE;
}

/* One mouse key of ncurses may stand for several events, returned from the latest on. */
static void read_mouse(struct screen *s)
{
	MEVENT event;

	while (s->n_waiting < sizeof(s->waiting) / sizeof(s->waiting[0]) && getmouse(&event) == OK) {
		if (button(event.bstate) != PRESS_NONE)
			s->waiting[s->n_waiting++] =
				(struct press) { button(event.bstate), event.y, event.x, false };
	}
}

static int special(wint_t code)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if ((wint_t) keys[i].curses == code)
			return keys[i].press;
	}
	if (code > KEY_F(0) && code <= KEY_F(12))
		return PRESS_FUNCTION + (int) (code - KEY_F(0));
	return PRESS_NONE;
}

static int ordinary(wint_t code)
{
	switch (code) {
	case 127:
	case 8:
		return PRESS_ERASE;
	case 27:
		return PRESS_CANCEL;
	case '\t':
		return PRESS_TAB;
	case '\r':
	case '\n':
		return PRESS_RETURN;
	default:
		return (int) code;
	}
}

struct press screen_key(struct screen *s)
{
	wint_t code;
	int r;

	do {
		if (s->n_waiting > 0)
			return s->waiting[--s->n_waiting];
		r = get_wch(&code);
		if (r == KEY_CODE_YES && code == KEY_MOUSE)
			read_mouse(s);
		else if (r == KEY_CODE_YES && (code == PASTE_BEGIN || code == PASTE_END))
			s->pasting = code == PASTE_BEGIN;
		else if (r == KEY_CODE_YES && special(code) != PRESS_NONE)
			return (struct press) { .key = special(code), .pasted = s->pasting };
		else if (r == OK)
			return (struct press) { .key = ordinary(code), .pasted = s->pasting };
	} while (r != ERR);
	return (struct press) { .key = PRESS_NONE };
}

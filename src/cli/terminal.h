/* SPDX-License-Identifier: MIT
 *
 * Output: the width, colours and character set of a terminal, writes that never hang, and files
 * that appear whole.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <stddef.h>

/* Opens /dev/null, close-on-exec, for those of 0, 1 and 2 that are closed: no file of hiwater gets
 * such a number, and the job still finds them closed. */
void terminal_guard_streams(void);

/* Columns of fd's terminal; if fd is no terminal, the value of COLUMNS; else the argument
 * otherwise. */
unsigned terminal_width(int fd, unsigned otherwise);

/* Honours NO_COLOR, CLICOLOR_FORCE and TERM. */
bool terminal_has_color(int fd);

/* According to LC_ALL, LC_CTYPE or LANG, the first that is set. */
bool terminal_is_utf8(void);

/* The style of text for fd (-1: a file). ACCESSIBLE implies plain. */
struct hiw_style terminal_style(int fd, enum hiw_units units, bool plain);

/* How long a write waits for its reader: a progress line, a message, output after the job's end.
 * Once a reader was waited for in vain, none is waited for until it reads again, or
 * terminal_be_patient(): readers that accept nothing delay the end of a run by a second at most. */
enum {
	PATIENCE_NONE_MS = 0,
	PATIENCE_SHORT_MS = 1000,
	PATIENCE_END_MS = 1000
};

/* Call it at the end of a run. */
void terminal_be_patient(void);

/* Writes all of text, in pieces. Gives up if the reader accepts nothing for patience_ms
 * (-ETIMEDOUT), or if hiwater gets a signal to end while it waits (-ECANCELED). Returns 0 or
 * -errno. */
int terminal_write(int fd, const char *text, size_t len, int patience_ms);
/* The same; *ret_written is the number of bytes written, also on failure. */
int terminal_write_part(int fd, const char *text, size_t len, int patience_ms, size_t *ret_written);

/* Writes text to path: atomically, by rename, if path is a file or does not exist; directly if it
 * is a device or a pipe. Returns 0 or -errno. */
int file_write(const char *path, const char *text, size_t len);
/* Appends text to path. Returns 0 or -errno. */
int file_add(const char *path, const char *text, size_t len);

/* file_write in pieces: a file in path's folder that replaces path once it is complete. Until then
 * it has no name (O_TMPFILE), so that nothing is left behind if hiwater is killed. If the file
 * system does not support that, or /proc is not mounted, its name is path.XXXXXX, and it is removed
 * on failure. A device, a pipe or /dev/stdout is written to directly. */
struct file_aside {
	int fd;
	bool is_special;  /* not a regular file: fd is path itself */
	bool has_name;
	const char *path; /* borrowed */
	char name[4096];
};
int file_begin(struct file_aside *file, const char *path);
/* Replaces path if error is 0, else discards the file. Returns error, or -errno of this step. */
int file_end(struct file_aside *file, int error);
/* Writes all bytes to fd. Returns 0 or -errno. */
int file_put(int fd, const void *bytes, size_t len);

/* Checks, without writing, whether file_write(path) is likely to succeed. Returns 0 or -errno. */
int file_check(const char *path);

/* If path is another name of a descriptor that this process inherited (/dev/stdout, /dev/fd/63),
 * opens it, to be written with terminal_write: it stays valid when the descriptor is closed. -1: it
 * is none, or cannot be opened. */
int file_open_inherited(const char *path);

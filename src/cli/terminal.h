/* SPDX-License-Identifier: MIT
 *
 * Where text goes: how wide, which colours, which letters, and writing that never hangs and never complains.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <stddef.h>

/* Sees to it that 0, 1 and 2 are taken, by what is closed on exec, so that no file of ours gets such a number and the
 * job still finds them closed. */
void terminal_guard_streams(void);

/* Columns of fd's terminal; COLUMNS where that is set; otherwise if fd is none. */
unsigned terminal_width(int fd, unsigned otherwise);

/* NO_COLOR, CLICOLOR_FORCE and TERM are honoured. */
bool terminal_has_color(int fd);

/* What LC_ALL, LC_CTYPE or LANG say. */
bool terminal_is_utf8(void);

/* How text for fd looks; plain also if ACCESSIBLE is set. fd -1: a file. */
struct hiw_style terminal_style(int fd, enum hiw_units units, bool plain);

/* How long a reader may let it wait: while the job runs, and when it is over. */
enum {
	PATIENCE_NONE_MS = 0,
	PATIENCE_SHORT_MS = 1000,
	PATIENCE_END_MS = 5000
};

/* Writes it all, in pieces, unless the reader takes nothing for so long, or somebody asks hiwater to end while it waits.
 * Returns 0 or -errno. */
int terminal_write(int fd, const char *text, size_t len, int patience_ms);
/* The same, and how much the reader took, also where that is not all. */
int terminal_write_part(int fd, const char *text, size_t len, int patience_ms, size_t *ret_written);

/* Writes text to path: whole and by rename where path is a file or nothing yet, else straight into it (a device, a
 * pipe). Returns 0 or -errno. */
int file_write(const char *path, const char *text, size_t len);
/* Adds text to what path holds. Returns 0 or -errno. */
int file_add(const char *path, const char *text, size_t len);

/* The same for what comes in pieces: a file in path's folder that takes its name if all went well. It has no name until
 * then, so that one that is cut off leaves nothing, also after SIGKILL; where the file system has no such files, or no proc is mounted, it is
 * called path.XXXXXX, and removed if something goes wrong. What is there and no file (a device, a pipe, /dev/stdout) is
 * written straight into. */
struct file_aside {
	int fd;
	bool is_special;  /* no file: fd is what path leads to */
	bool has_name;
	const char *path; /* borrowed */
	char name[4096];
};
int file_begin(struct file_aside *file, const char *path);
int file_end(struct file_aside *file, int error); /* returns error, or what then went wrong */
/* Writes it all to fd. Returns 0 or -errno. */
int file_put(int fd, const void *bytes, size_t len);

/* Whether file_write(path) can be expected to work. Returns 0 or -errno. */
int file_check(const char *path);

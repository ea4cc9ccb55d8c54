/* SPDX-License-Identifier: MIT
 *
 * The user's choices: sorting, filter, zoom, selected row, and the rows of the process table that
 * follow from them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/internal.h"
#include "base/units.h"
#include "top/model.h"

enum column {
	COL_PID,
	COL_USER,
	COL_CPU,
	COL_RAM,
	COL_PEAK,
	COL_SWAP,
	COL_GPU_MEM,
	COL_GPU_BUSY,
	COL_READ,
	COL_WRITE,
	COL_THREADS,
	COL_COMMAND,
	COLUMNS
};

/* The panel that arrow keys control. */
enum panel {
	PANEL_PROCESSES,
	PANEL_CHARTS,
	PANEL_EVENTS,
	PANELS
};

/* The question on the bottom line. */
enum asking {
	ASK_NOTHING,
	ASK_FILTER,
	ASK_SEARCH,
	ASK_MARK,
	ASK_SORT,      /* a letter */
	ASK_SIGNAL,    /* a digit */
	ASK_SURE,      /* y */
};

enum {
	INPUT_LEN = 160,
	MESSAGE_LEN = 512 /* as hiw_err */
};

/* A process in the table. */
struct row {
	uint32_t id;
	struct thing *process; /* valid until the model's next frame; then only id is */
	unsigned depth;        /* in the tree */
	bool last;             /* the last child of its parent */
};

struct view {
	enum column sort;
	bool reverse, tree, paused, help, setup, detail;
	bool show_events, show_charts, show_cores;
	unsigned hidden;       /* columns: 1 << enum column */
	enum panel panel;
	bool expanded;         /* the panel is enlarged; not the process table */
	size_t charts_first;   /* the first chart shown */
	size_t events_back;    /* number of newest events that are scrolled off */
	size_t help_top, setup_row;
	enum units units;
	bool color;
	unsigned zoom;         /* into zooms[] */
	uint64_t from_ns, to_ns; /* span selected with the mouse; to_ns 0: none */
	struct hwi_filter *filter;
	char filter_text[INPUT_LEN], search[INPUT_LEN];
	uint32_t picked;       /* a process's id; 0: none */
	size_t top;            /* first row shown */
	size_t page;           /* rows that fitted at the last drawing */
	enum asking asking;
	char input[INPUT_LEN], trouble[MESSAGE_LEN];
	char message[MESSAGE_LEN];
	int signal;            /* to be sent after the answer */
	uint32_t signal_to;    /* the process that the question names */
	struct user {
		int64_t uid;
		char name[12];
	} users[32];           /* cache of user names */
	size_t n_users;
	struct row *rows;
	size_t n_rows, cap_rows;
	uint64_t cpus_ns;      /* CPU time of all CPUs in a second: base of percentages in filters */
	uint64_t capacity_bytes;
};

void view_init(struct view *v, enum units units, bool color);
void view_done(struct view *v);

/* Sets the filter; "" removes it. Returns 0, or -EINVAL with the error in trouble. */
int view_filter(struct view *v, const char *text);

/* Time span of the charts; 0: since the start. */
uint64_t view_span(const struct view *v);
void view_zoom(struct view *v, int step);

/* Makes the rows from the model's processes: filtered, sorted, and as a tree if chosen. */
void view_rows(struct view *v, struct model *m);
/* Place of the selected row, 0 if it is gone. */
size_t view_place(const struct view *v);
void view_pick(struct view *v, size_t place);
/* Selects the next row whose name or command contains the search text, or whose pid equals it. */
void view_search(struct view *v, const struct model *m, bool again);

/* Columns of the table. */
struct column_info {
	const char *title;
	unsigned width;        /* 0: the remaining width */
	unsigned from;         /* minimum screen width */
	char letter;           /* its key in the sort menu */
	bool on_gpu;           /* shown only if there are GPUs */
	bool down;             /* largest first */
};
extern const struct column_info column_infos[COLUMNS];

/* The text of a cell; "-" if unknown. */
void column_text(struct view *v, const struct model *m, const struct thing *process, enum column column,
	char *buf, size_t size);

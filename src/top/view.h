/* SPDX-License-Identifier: MIT
 *
 * What a person has chosen to see, and how: sorting, filter, zoom, the row that is picked.
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

/* Who the arrows are for. */
enum panel {
	PANEL_PROCESSES,
	PANEL_CHARTS,
	PANEL_EVENTS,
	PANELS
};

/* What the line at the bottom asks for. */
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
	struct thing *process; /* until the model sees the next frame: behind that there is the id only */
	unsigned depth;        /* in the tree */
	bool last;             /* of its parent's children */
};

struct view {
	enum column sort;
	bool reverse, tree, paused, help, setup, detail;
	bool show_events, show_charts, show_cores;
	unsigned hidden;       /* columns: 1 << enum column */
	enum panel panel;
	bool expanded;         /* the panel has all the room; not of processes */
	size_t charts_first;   /* the first chart shown */
	size_t events_back;    /* so many of the newest are not shown */
	size_t help_top, setup_row;
	enum units units;
	bool color;
	unsigned zoom;         /* into zooms[] */
	uint64_t from_ns, to_ns; /* a span that was drawn with the mouse; to 0: none */
	struct hwi_filter *filter;
	char filter_text[INPUT_LEN], search[INPUT_LEN];
	uint32_t picked;       /* a process's id; 0: none */
	size_t top;            /* first row shown */
	size_t page;           /* rows that fit, as of the last drawing */
	enum asking asking;
	char input[INPUT_LEN], trouble[MESSAGE_LEN];
	char message[MESSAGE_LEN];
	int signal;            /* about to be sent */
	uint32_t signal_to;    /* the process that the question names */
	struct user {
		int64_t uid;
		char name[12];
	} users[32];           /* names that were asked for */
	size_t n_users;
	struct row *rows;
	size_t n_rows, cap_rows;
	uint64_t cpus_ns;      /* processor time of all processors in a second: what a filter's percentages are of */
	uint64_t capacity_bytes;
};

void view_init(struct view *v, enum units units, bool color);
void view_done(struct view *v);

/* Sets the filter; "" takes it away. Returns 0, or -EINVAL with what is wrong in trouble. */
int view_filter(struct view *v, const char *text);

/* How far the charts look back; 0: everything. */
uint64_t view_span(const struct view *v);
void view_zoom(struct view *v, int step);

/* Makes rows of the model's processes: those that the filter picks, sorted, or as a tree. */
void view_rows(struct view *v, struct model *m);
/* Where the picked row is, 0 if it is gone. */
size_t view_place(const struct view *v);
void view_pick(struct view *v, size_t place);
/* The next row whose name, command or pid has the searched text. */
void view_search(struct view *v, const struct model *m, bool again);

/* Columns of the table. */
struct column_info {
	const char *title;
	unsigned width;        /* 0: what is left */
	unsigned from;         /* shown on screens at least so wide */
	char letter;           /* sorts by it in the menu */
	bool on_gpu;           /* only where there are GPUs */
	bool down;             /* the largest come first */
};
extern const struct column_info column_infos[COLUMNS];

/* A cell's text; "-" where it is not known. */
void column_text(struct view *v, const struct model *m, const struct thing *process, enum column column, char *buf,
	size_t size);

/* SPDX-License-Identifier: MIT
 *
 * The GPUs as text: a line a device, its processes below. Columns without any value are left out.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/textwidth.h"
#include "sink/gpus/gpus_internal.h"
#include "sink/text/layout.h"

enum {
	NAME_LEAST = 12,
	NAME_STUB = 4,           /* once no other column can be dropped */
	NAME_MOST = 40,
	USER_MOST = 12,
	INDENT = 4,              /* of processes below a device */
	GAP = 2,
	CELL = 96,
	SHOWN_LEAST = 16 << 20,  /* less unattributed memory belongs to the driver */
	HIDDEN_SHOWN = 4,        /* PIDs of invisible processes that are listed */
};

struct page {
	const struct gpus_now *now;
	const struct sink_options *o;
	struct buf *out;
};

/* ---- cells of a device ---------------------------------------------------------------------------------------------- */

typedef void cell_writer(const struct page *p, const struct gpu_now *g, char cell[CELL]);

static const char *dash_or(struct maybe value, const char *text)
{
	return value.known ? text : "-";
}

static void write_number(const struct page *p, const struct gpu_now *g, char cell[CELL])
{
	char number[UNITS_LEN];

	(void) p;
	(void) snprintf(cell, CELL, "%s", gpus_number(g, number));
}

static void write_cuda(const struct page *p, const struct gpu_now *g, char cell[CELL])
{
	(void) p;
	if (g->visible.known)
		(void) snprintf(cell, CELL, "%lld", (long long) g->visible.value);
	else
		(void) snprintf(
			cell, CELL, "%s", strcmp(g->vendor, "nvidia") != 0 || g->is_hidden ? "-" : "?");
}

static void write_name(const struct page *p, const struct gpu_now *g, char cell[CELL])
{
	struct buf clean = BUF_INIT(4 * CELL);

	gpus_put_text(gpus_best_name(p->now, g), p->o, &clean);
	(void) snprintf(cell, CELL, "%s%s", *g->parent ? "  " : "", clean.data);
	buf_done(&clean);
}

static void write_share(struct maybe ppm, char cell[CELL])
{
	char text[UNITS_LEN];

	(void) snprintf(cell, CELL, "%s", dash_or(ppm, units_percent(ppm.value, 1000000, text)));
}

static void write_temp(const struct page *p, const struct gpu_now *g, char cell[CELL])
{
	const struct maybe t = g->metrics[M_GPU_TEMP];

	(void) p;
	(void) snprintf(cell, CELL, "%s", "-");
	if (t.known)
		(void) snprintf(cell, CELL, "%lld C", (long long) (t.value + 500) / 1000);
}

static void write_busy(const struct page *p, const struct gpu_now *g, char cell[CELL])
{
	(void) p;
	write_share(g->metrics[M_GPU_BUSY], cell);
}

static void write_sm(const struct page *p, const struct gpu_now *g, char cell[CELL])
{
	(void) p;
	write_share(g->metrics[M_GPU_SM_ACTIVE], cell);
}

static void write_memory(const struct page *p, const struct gpu_now *g, char cell[CELL])
{
	const struct maybe used = g->metrics[M_GPU_MEM], all = g->memory_bytes;
	char part[UNITS_LEN] = "-", whole[UNITS_LEN];

	if (used.known && all.known)
		(void) units_bytes_like(used.value, all.value, p->o->units, part);
	else if (used.known)
		(void) units_bytes(used.value, p->o->units, part);
	if (all.known)
		(void) snprintf(cell, CELL, "%s / %s", part, units_bytes(all.value, p->o->units, whole));
	else
		(void) snprintf(cell, CELL, "%s", part);
}

static void write_power(const struct page *p, const struct gpu_now *g, char cell[CELL])
{
	const struct maybe now = g->metrics[M_GPU_POWER], limit = g->metrics[M_GPU_POWER_LIMIT];

	(void) p;
	(void) snprintf(cell, CELL, "%s", "-");
	if (now.known && limit.known)
		(void) snprintf(cell, CELL, "%lld / %lld W", (long long) (now.value + 500000) / 1000000,
			(long long) (limit.value + 500000) / 1000000);
	else if (now.known)
		(void) snprintf(cell, CELL, "%lld W", (long long) (now.value + 500000) / 1000000);
}

/* ---- columns -------------------------------------------------------------------------------------------------------- */

struct column {
	const char *title;
	cell_writer *write;
	bool left;               /* left-aligned */
	bool may_go;             /* left out without values */
};

enum {
	NUMBER_COLUMN,
	CUDA_COLUMN,
	NAME_COLUMN,
	TEMP_COLUMN,
	BUSY_COLUMN,
	SM_COLUMN,
	MEMORY_COLUMN,
	POWER_COLUMN,
	COLUMNS
};

static const struct column columns[COLUMNS] = {
	[NUMBER_COLUMN] = { "GPU", write_number, false, false },
	[CUDA_COLUMN] = { "CUDA", write_cuda, false, true },
	[NAME_COLUMN] = { "NAME", write_name, true, false },
	[TEMP_COLUMN] = { "TEMP", write_temp, false, true },
	[BUSY_COLUMN] = { "BUSY", write_busy, false, false },
	[SM_COLUMN] = { "SM ACTIVE", write_sm, false, true },
	[MEMORY_COLUMN] = { "MEMORY", write_memory, false, false },
	[POWER_COLUMN] = { "POWER", write_power, false, true },
};

static unsigned wider(unsigned a, unsigned b)
{
	return a > b ? a : b;
}

/* Sets the width of each column; 0: left out. */
static void measure(const struct page *p, unsigned widths[COLUMNS])
{
	static const int first_to_go[] = { POWER_COLUMN, TEMP_COLUMN, CUDA_COLUMN, SM_COLUMN };
	unsigned sum = 0, name;

	for (int c = 0; c < COLUMNS; c++) {
		bool any = !columns[c].may_go;

		widths[c] = (unsigned) strlen(columns[c].title);
		for (size_t i = 0; i < p->now->n_gpus; i++) {
			char cell[CELL];

			if (!p->now->gpus[i].is_chosen)
				continue;
			columns[c].write(p, &p->now->gpus[i], cell);
			any |= strcmp(cell, "-") != 0;
			widths[c] = wider(widths[c], text_width(cell));
		}
		widths[c] = any ? widths[c] : 0;
		sum += c == NAME_COLUMN || !widths[c] ? 0 : widths[c] + GAP;
	}
	for (size_t i = 0; i < sizeof(first_to_go) / sizeof(first_to_go[0]) && sum + NAME_LEAST > p->o->width;
		i++) {
		sum -= widths[first_to_go[i]] ? widths[first_to_go[i]] + GAP : 0;
		widths[first_to_go[i]] = 0;
	}
	name = widths[NAME_COLUMN] < NAME_MOST ? widths[NAME_COLUMN] : NAME_MOST;
	if (sum + name > p->o->width)
		name = p->o->width > sum + NAME_STUB ? p->o->width - sum : NAME_STUB;
	widths[NAME_COLUMN] = name;
}

/* A name that is too long loses its maker: "NVIDIA H100 80GB HBM3" is "H100 80GB HBM3". */
static const char *without_maker(const char *cell, unsigned width)
{
	static const char *const makers[] = { "NVIDIA ", "AMD ", "Intel " };

	for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]) && text_width(cell) > width; i++) {
		if (strncmp(cell, makers[i], strlen(makers[i])) == 0)
			return cell + strlen(makers[i]);
	}
	return cell;
}

static void put_cell(const struct page *p, const char *cell, unsigned width, bool left, bool is_last)
{
	struct buf text = BUF_INIT(1 << 16);

	(void) text_shorten(cell, width, p->o->utf8, &text);
	const unsigned fill = text_width(text.data) < width ? width - text_width(text.data) : 0;

	(void) buf_printf(p->out, "%*s%s%*s", left ? 0 : (int) fill, "", text.data,
		left && !is_last ? (int) fill : 0, "");
	if (!is_last)
		(void) buf_printf(p->out, "%*s", GAP, "");
	buf_done(&text);
}

static void put_row(const struct page *p, const unsigned widths[COLUMNS], const struct gpu_now *g)
{
	int last = COLUMNS - 1;

	while (!widths[last])
		last--;
	if (p->o->color)
		(void) buf_str(p->out, g ? "" : "\x1b[2m");
	for (int c = 0; c < COLUMNS; c++) {
		char cell[CELL];

		if (!widths[c])
			continue;
		if (g)
			columns[c].write(p, g, cell);
		if (p->o->color && g && c == 0)
			(void) buf_str(p->out, "\x1b[1m");
		put_cell(p, !g ? columns[c].title : c == NAME_COLUMN ? without_maker(cell, widths[c])
								     : cell,
			widths[c], columns[c].left, c == last);
		if (p->o->color && g && c == NAME_COLUMN)
			(void) buf_str(p->out, "\x1b[0m");
	}
	(void) buf_str(p->out, p->o->color && !g ? "\x1b[0m\n" : "\n");
}

/* ---- processes ------------------------------------------------------------------------------------------------------ */

/* Widths of columns; 0: left out. */
struct user_widths {
	unsigned pid, user, memory, share;
};

/* Columns before the command. */
static unsigned taken_of(const struct user_widths *w)
{
	return INDENT + w->pid + GAP + w->memory + GAP + (w->user ? w->user + GAP : 0) +
	       (w->share ? w->share + GAP : 0);
}

static const char *memory_of(const struct page *p, struct maybe bytes, char text[UNITS_LEN])
{
	return dash_or(bytes, units_bytes(bytes.value, p->o->units, text));
}

static struct user_widths measure_users(const struct page *p)
{
	struct user_widths w = { .pid = 3, .user = 4, .memory = 8, .share = 6 };

	for (size_t i = 0; i < p->now->n_users; i++) {
		const struct gpu_user_now *u = &p->now->users[i];
		char text[UNITS_LEN];

		(void) snprintf(text, sizeof(text), "%lld", (long long) u->pid.value);
		w.pid = wider(w.pid, (unsigned) strlen(text));
		w.user = wider(w.user, text_width(u->user));
		w.memory = wider(w.memory, text_width(memory_of(p, u->metrics[M_GPROC_MEM], text)));
	}
	w.user = w.user < USER_MOST ? w.user : USER_MOST;
	if (taken_of(&w) + NAME_LEAST > p->o->width)
		w.user = 0;
	if (taken_of(&w) + NAME_LEAST > p->o->width)
		w.share = 0;
	return w;
}

/* Writes text in a column of that width and the gap behind it; nothing if width is 0. */
static void put_part(const struct page *p, const char *text, unsigned width, bool left)
{
	if (width)
		put_cell(p, text, width, left, false);
}

static void put_user(const struct page *p, const struct user_widths *w, const struct gpu_user_now *u)
{
	const struct maybe busy = u->metrics[M_GPROC_SM_BUSY];
	const unsigned taken = taken_of(w);
	struct buf user = BUF_INIT(1 << 12), command = BUF_INIT(1 << 16);
	char memory[UNITS_LEN], share[CELL], pid[UNITS_LEN];

	(void) snprintf(pid, sizeof(pid), "%lld", (long long) u->pid.value);
	gpus_put_text(*u->user ? u->user : "-", p->o, &user);
	gpus_put_text(*u->command ? u->command : u->name, p->o, &command);
	write_share(busy, share);
	(void) buf_printf(p->out, "%*s", INDENT, "");
	put_part(p, u->pid.known ? pid : "-", w->pid, false);
	put_part(p, user.data, w->user, true);
	put_part(p, memory_of(p, u->metrics[M_GPROC_MEM], memory), w->memory, false);
	put_part(p, busy.known ? share : "", w->share, false);
	put_cell(p, command.data, p->o->width > taken + NAME_STUB ? p->o->width - taken : NAME_STUB, true,
		true);
	(void) buf_str(p->out, "\n");
	buf_done(&user);
	buf_done(&command);
}

/* The PIDs of processes that the driver lists but that are not visible here: those of another
 * namespace. */
static void put_hidden(const struct page *p, const struct gpu_now *g, unsigned width)
{
	const struct gpu_user_now *u = NULL;
	struct buf who = BUF_INIT(1024);
	size_t n = 0;

	while ((u = gpus_next_user(p->now, g, u, true))) {
		if (u->pid.known && n < HIDDEN_SHOWN)
			(void) buf_printf(&who, "%s%lld",
				n ? ", " : "of processes not visible here: ", (long long) u->pid.value);
		n++;
	}
	if (n > HIDDEN_SHOWN)
		(void) buf_printf(&who, ", and %zu more", n - HIDDEN_SHOWN);
	if (n == 0 && g->is_numa)
		(void) buf_str(&who, "NUMA node: may be of ended processes");
	(void) buf_printf(p->out, "%*s", who.len ? GAP : 0, "");
	(void) text_shorten(who.data, width, p->o->utf8, p->out);
	buf_done(&who);
}

static void put_unattributed(const struct page *p, const struct user_widths *w, const struct gpu_now *g)
{
	const struct maybe bytes = gpus_unattributed(p->now, g);
	const bool hidden = gpus_next_user(p->now, g, NULL, true) != NULL;
	static const char nobody[] = "unattributed";
	const unsigned label = wider(w->pid + (w->user ? GAP + w->user : 0), sizeof(nobody) - 1);
	const unsigned taken = INDENT + label + w->memory + 2 * GAP;
	char memory[UNITS_LEN];

	if (!hidden && (!bytes.known || bytes.value < SHOWN_LEAST))
		return;
	(void) buf_printf(p->out, "%*s%-*s  %*s", INDENT, "", (int) label, nobody, (int) w->memory,
		memory_of(p, bytes, memory));
	put_hidden(p, g, p->o->width > taken ? p->o->width - taken : NAME_LEAST);
	(void) buf_str(p->out, "\n");
}

static void put_users(const struct page *p, const struct user_widths *w, const struct gpu_now *g)
{
	const struct gpu_user_now *u = NULL;

	while ((u = gpus_next_user(p->now, g, u, false)))
		put_user(p, w, u);
	put_unattributed(p, w, g);
}

/* ---- the page ------------------------------------------------------------------------------------------------------- */

/* "node7  2026-11-21 19:05:54  driver 550.54.15" */
static void put_header(const struct page *p)
{
	struct buf line = BUF_INIT(1 << 12);
	char date[UNITS_LEN];
	const char *driver = "";

	for (size_t i = 0; i < p->now->n_gpus && !*driver; i++)
		driver = p->now->gpus[i].driver;
	(void) buf_printf(&line, "%s  %s%s", p->now->host ? p->now->host : "",
		units_date(p->now->wall_ns, date), *driver ? "  driver " : "");
	gpus_put_text(driver, p->o, &line);
	(void) text_shorten(line.data, p->o->width, p->o->utf8, p->out);
	(void) buf_str(p->out, "\n");
	buf_done(&line);
}

static void put_note(const struct page *p, const char *text)
{
	struct layout l;

	layout_init(&l, p->out, p->o);
	layout_row(&l, TONE_HINT, "note", 6);
	layout_words(&l, text);
	layout_end(&l);
}

static void put_notes(const struct page *p)
{
	char text[128], number[UNITS_LEN];

	for (size_t i = 0; i < p->now->n_gpus; i++) {
		const struct gpu_now *g = &p->now->gpus[i];

		if (!g->is_chosen || !g->facts[GF_ASLEEP].number.known)
			continue;
		(void) snprintf(text, sizeof(text),
			"GPU %s: asleep: the kernel powered it down; hiwater does not wake it",
			gpus_number(g, number));
		put_note(p, text);
	}
	for (size_t i = 0; i < p->now->n_notes; i++) {
		const char *about = p->now->notes[i].about;

		if (strcmp(about, "gpu") == 0 || strcmp(about, "gpu.memory") == 0)
			put_note(p, p->now->notes[i].why);
	}
}

void gpus_text(const struct gpus_options *g, const struct gpus_now *now, const struct sink_options *o,
	struct buf *out)
{
	const struct page p = { .now = now, .o = o, .out = out };
	const struct user_widths w = measure_users(&p);
	unsigned widths[COLUMNS];

	measure(&p, widths);
	if (g->header) {
		put_header(&p);
		put_row(&p, widths, NULL);
	}
	for (size_t i = 0; i < now->n_gpus; i++) {
		if (!now->gpus[i].is_chosen)
			continue;
		put_row(&p, widths, &now->gpus[i]);
		put_users(&p, &w, &now->gpus[i]);
	}
	put_notes(&p);
}

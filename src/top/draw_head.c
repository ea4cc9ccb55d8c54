/* SPDX-License-Identifier: MIT
 *
 * The lines at the top: RAM, CPU, GPUs, I/O, user series. An unknown figure is "-", without a bar.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/textwidth.h"
#include "top/draw.h"
#include "top/format.h"

enum {
	WIDE = 70,           /* minimum screen width for a meter and its note on one line */
	NAME_COLUMNS = 5,    /* minimum */
	AMOUNT_COLUMNS = 10,
};

/* A line of the head: "RAM  18.9G [#####-----]  30 %  peak 22.4G  of 64.0G". */
struct meter {
	const char *name;
	char amount[SHORT_LEN];
	char total[SHORT_LEN];   /* "" if unknown */
	char note[96];
	double share, peak;      /* 0 to 1; NaN: unknown */
	enum ink ink;
};

static int bar_columns(const struct picture *p)
{
	const int columns = p->s->columns;

	if (columns < WIDE)
		return columns > 34 ? columns - 30 : 4;
	return columns < 120 ? columns / 2 - 18 : columns / 2 - 22;
}

static enum ink ink_of(const struct meter *meter)
{
	if (meter->share >= 0.95)
		return INK_ERROR;
	return meter->share >= 0.85 ? INK_WARN : meter->ink;
}

static void draw_bar(struct picture *p, int y, int x, int width, const struct meter *meter)
{
	const int inside = width - 2;
	const int full = isnan(meter->share) ? 0 : (int) (fmin(fmax(meter->share, 0), 1) * inside + 0.5);
	const int peak = isnan(meter->peak) ? -1 : (int) (fmin(fmax(meter->peak, 0), 1) * (inside - 1) + 0.5);
	const bool utf8 = p->s->utf8;

	(void) screen_put(p->s, y, x, 1, INK_PLAIN, "[");
	for (int i = 0; i < inside; i++) {
		const bool is_full = i < full;
		const char *mark = is_full ? (utf8 ? "\xe2\x96\xa0" : "#") : i == peak ? "|"
								     : utf8            ? "\xc2\xb7"
										       : "-";

		(void) screen_put(p->s, y, x + 1 + i, 1, is_full ? ink_of(meter) : i == peak ? INK_BOLD
											     : INK_DIM,
			mark);
	}
	(void) screen_put(p->s, y, x + 1 + inside, 1, INK_PLAIN, "]");
}

static void draw_meter(struct picture *p, int y, const struct meter *meter)
{
	const bool wide = p->s->columns >= WIDE;
	const int bar = bar_columns(p);
	char text[64], percent[16] = "   -  ";
	int x = 1;

	if (!isnan(meter->share))
		(void) snprintf(percent, sizeof(percent), "%3.0f %%", meter->share * 100);
	(void) screen_print(p->s, y, x, INK_BOLD, "%-*s", p->name_columns, meter->name);
	x += p->name_columns;
	if (wide) {
		(void) screen_print(p->s, y, x, INK_PLAIN, "%*s", AMOUNT_COLUMNS, meter->amount);
		x += AMOUNT_COLUMNS + 1;
	} else {
		(void) snprintf(
			text, sizeof(text), "%s%s%s", meter->amount, *meter->total ? "/" : "", meter->total);
		(void) screen_print(p->s, y, x, INK_PLAIN, "%-13s", text);
		x += 14;
	}
	draw_bar(p, y, x, bar, meter);
	x += bar + 1;
	x += screen_print(p->s, y, x, INK_PLAIN, "%s", percent);
	if (wide && *meter->total)
		x += screen_print(p->s, y, x, INK_PLAIN, "  of %s", meter->total);
	if (wide)
		(void) screen_put_front(p->s, y, x + 2, p->s->columns - x - 2, INK_DIM, meter->note);
}

/* ---- RAM and CPU --------------------------------------------------------------------------------------------------- */

static double share_of(double part, double total)
{
	return total > 0 ? part / total : (double) NAN;
}

static struct hiw_maybe capacity_of(const struct picture *p)
{
	const struct hiw_about *about = &p->f->about;

	return !p->m->machine && about->limit_bytes.known ? about->limit_bytes : about->capacity_bytes;
}

static struct meter ram_meter(const struct picture *p)
{
	const struct thing *t = p->m->machine ? &p->m->host : &p->m->job;
	const struct figure *ram = model_figure(p->m, t, p->m->machine ? HOST_MEM_USED : JOB_RAM);
	const struct figure *swap = model_figure(p->m, t, p->m->machine ? HOST_SWAP_USED : JOB_SWAP);
	const struct hiw_maybe total = capacity_of(p);
	struct meter meter = {
		.name = "RAM", .amount = "-", .share = (double) NAN, .peak = (double) NAN, .ink = INK_RAM
	};
	char text[SHORT_LEN];
	int at = 0;

	if (total.known)
		(void) short_bytes((double) total.value, p->v->units, meter.total);
	if (ram) {
		(void) short_bytes((double) ram->value, p->v->units, meter.amount);
		meter.share = share_of((double) ram->value, total.known ? (double) total.value : 0);
		meter.peak = share_of((double) ram->peak, total.known ? (double) total.value : 0);
		at = snprintf(meter.note, sizeof(meter.note), "peak %s",
			short_bytes((double) ram->peak, p->v->units, text));
	}
	if (swap && swap->value > 0)
		(void) snprintf(meter.note + at, sizeof(meter.note) - (size_t) at, "  swap %s",
			short_bytes((double) swap->value, p->v->units, text));
	return meter;
}

static double cpus_of(const struct picture *p)
{
	const struct hiw_about *about = &p->f->about;
	const double all = about->cpus.known ? (double) about->cpus.value : 0;
	const double quota = about->cpu_limit_ppm.known ? (double) about->cpu_limit_ppm.value / 1e6 : all;

	return !p->m->machine && quota < all ? quota : all;
}

static struct meter cpu_meter(const struct picture *p)
{
	const struct thing *t = p->m->machine ? &p->m->host : &p->m->job;
	const struct figure *wait = model_figure(p->m, &p->m->host, HOST_CPU_IOWAIT);
	const double cpus = cpus_of(p);
	struct meter meter = {
		.name = "CPU", .amount = "-", .share = (double) NAN, .peak = (double) NAN, .ink = INK_CPU
	};
	char number[SHORT_LEN];
	double rate;
	int at = 0;

	if (cpus > 0)
		(void) snprintf(meter.total, sizeof(meter.total), "%g", cpus);
	if (model_rate(p->m, t, p->m->machine ? HOST_CPU_USER : JOB_CPU_USER,
		    p->m->machine ? HOST_CPU_SYSTEM : JOB_CPU_SYSTEM, &rate)) {
		(void) short_number(rate / 1e9, number);
		(void) snprintf(meter.amount, sizeof(meter.amount), "%.10s%s", number,
			p->s->columns >= WIDE ? " cores" : "");
		meter.share = share_of(rate / 1e9, cpus);
	}
	if (wait && wait->has_rate && cpus > 0)
		at = snprintf(meter.note, sizeof(meter.note), "disk wait %.0f %%", wait->rate / 1e7 / cpus);
	(void) snprintf(meter.note + at, sizeof(meter.note) - (size_t) at, "%s%zu process%s", at ? "  " : "",
		model_processes(p->m), model_processes(p->m) == 1 ? "" : "es");
	return meter;
}

/* ---- GPUs --------------------------------------------------------------------------------------------------------- */

/* "318 W  71 C  NVIDIA H200"; unknown figures are left out. */
static void gpu_state(const struct picture *p, const struct thing *gpu, bool name, char *buf, size_t size)
{
	const struct figure *power = model_figure(p->m, gpu, GPU_POWER),
			    *temp = model_figure(p->m, gpu, GPU_TEMP);
	int at = 0;

	buf[0] = '\0';
	if (power)
		at += snprintf(buf + at, size - (size_t) at, "%.0f W  ", (double) power->value / 1e6);
	if (temp)
		at += snprintf(buf + at, size - (size_t) at, "%.0f C  ", (double) temp->value / 1e3);
	if (name && gpu->name && at >= 0 && (size_t) at < size)
		(void) snprintf(buf + at, size - (size_t) at, "%.30s", gpu->name);
}

static struct meter gpu_mem_meter(const struct picture *p, const struct thing *gpu, const char *name)
{
	const struct figure *mem = model_figure(p->m, gpu, GPU_MEM),
			    *job = model_figure(p->m, gpu, GPU_JOB_MEM);
	struct meter meter = {
		.name = name, .amount = "-", .share = (double) NAN, .peak = (double) NAN, .ink = INK_GPU
	};
	const double total = gpu->memory_bytes.known ? (double) gpu->memory_bytes.value : 0;
	char peak[SHORT_LEN], text[SHORT_LEN];

	if (total > 0)
		(void) short_bytes(total, p->v->units, meter.total);
	if (!mem)
		return meter;
	(void) short_bytes((double) mem->value, p->v->units, meter.amount);
	meter.share = share_of((double) mem->value, total);
	meter.peak = share_of((double) mem->peak, total);
	(void) snprintf(meter.note, sizeof(meter.note), "peak %s%s%s",
		short_bytes((double) mem->peak, p->v->units, peak), job && !p->m->machine ? "  job " : "",
		job && !p->m->machine ? short_bytes((double) job->value, p->v->units, text) : "");
	return meter;
}

/* SM activity if it is available, as busy (some kernel ran) says little. */
static struct meter gpu_busy_meter(const struct picture *p, const struct thing *gpu)
{
	const struct figure *busy = model_figure(p->m, gpu, GPU_BUSY), *sm = model_figure(p->m, gpu, GPU_SM);
	const struct figure *lead = sm ? sm : busy;
	struct meter meter = { .name = sm ? " SM" : " busy",
		.amount = "",
		.share = (double) NAN,
		.peak = (double) NAN,
		.ink = INK_GPU };
	int at = 0;

	if (lead)
		meter.share = (double) lead->value / 1e6;
	if (sm && busy)
		at = snprintf(meter.note, sizeof(meter.note), "busy %.0f %%  ", (double) busy->value / 1e4);
	gpu_state(p, gpu, true, meter.note + at, sizeof(meter.note) - (size_t) at);
	return meter;
}

/* All figures of a GPU on one line, for many GPUs. */
static void draw_gpu_line(struct picture *p, int y, const struct thing *gpu, const char *name)
{
	const struct figure *busy = model_figure(p->m, gpu, GPU_BUSY), *sm = model_figure(p->m, gpu, GPU_SM);
	struct meter meter = gpu_mem_meter(p, gpu, name);
	char state[96];
	int at = 0;

	gpu_state(p, gpu, false, state, sizeof(state));
	if (sm)
		at = snprintf(meter.note, sizeof(meter.note), "SM %.0f %%  ", (double) sm->value / 1e4);
	else if (busy)
		at = snprintf(meter.note, sizeof(meter.note), "busy %.0f %%  ", (double) busy->value / 1e4);
	(void) snprintf(meter.note + at, sizeof(meter.note) - (size_t) at, "%.60s", state);
	draw_meter(p, y, &meter);
}

static size_t gpus_in_use(const struct model *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_gpus; i++)
		n += model_uses(m, m->gpus[i]);
	return n;
}

/* "MIG0.1" is wider than "GPU0"; a blank follows. */
static int name_columns(const struct model *m)
{
	int most = NAME_COLUMNS;

	for (size_t i = 0; i < m->n_gpus; i++) {
		char name[GPU_NAME];

		model_gpu_name(m, i, "GPU", "MIG", name);
		if (model_uses(m, m->gpus[i]) && (int) strlen(name) >= most)
			most = (int) strlen(name) + 1;
	}
	return most;
}

static int draw_gpus(struct picture *p, int y, int lines)
{
	const size_t n = gpus_in_use(p->m), others = p->m->n_gpus - n;
	const bool two = (int) n * 2 + (others > 0) <= lines;
	size_t drawn = 0;
	int used = 0;

	for (size_t i = 0; i < p->m->n_gpus && used < lines; i++) {
		const struct thing *gpu = p->m->gpus[i];
		char name[GPU_NAME];

		if (!model_uses(p->m, gpu))
			continue;
		model_gpu_name(p->m, i, "GPU", "MIG", name);
		if (!two && used + 1 == lines && drawn + 1 < n) { /* not all fit */
			(void) screen_print(p->s, y + used++, 1, INK_DIM, "and %zu more GPUs", n - drawn);
			break;
		}
		drawn++;
		if (two) {
			const struct meter mem = gpu_mem_meter(p, gpu, name), busy = gpu_busy_meter(p, gpu);

			draw_meter(p, y + used++, &mem);
			draw_meter(p, y + used++, &busy);
		} else {
			draw_gpu_line(p, y + used++, gpu, name);
		}
	}
	if (others > 0 && used < lines && p->s->rows >= 30)
		(void) screen_print(p->s, y + used++, 1, INK_DIM, "%zu GPU%s on which the job uses no memory",
			others, others == 1 ? "" : "s");
	return used;
}

/* ---- the rest ----------------------------------------------------------------------------------------------------- */

static int draw_rate(struct picture *p, int y, int x, const char *name, const struct figure *f)
{
	char text[SHORT_LEN];

	if (!f || !f->has_rate)
		return 0;
	return screen_print(
		p->s, y, x, INK_PLAIN, "%s %s/s  ", name, short_bytes(f->rate, p->v->units, text));
}

static int draw_io(struct picture *p, int y)
{
	const struct model *m = p->m;
	const struct thing *t = m->machine ? &m->host : &m->job;
	const struct figure *energy = model_figure(m, &m->host, HOST_ENERGY);
	int x = 1 + p->name_columns;

	(void) screen_put(p->s, y, 1, -1, INK_BOLD, "I/O");
	x += draw_rate(p, y, x, "read", model_figure(m, t, m->machine ? HOST_DISK_READ : JOB_READ));
	x += draw_rate(p, y, x, "write", model_figure(m, t, m->machine ? HOST_DISK_WRITE : JOB_WRITE));
	if (p->s->columns >= WIDE) {
		x += draw_rate(p, y, x, "net in", model_figure(m, &m->host, HOST_NET_RX));
		x += draw_rate(p, y, x, "out", model_figure(m, &m->host, HOST_NET_TX));
	}
	if (energy && energy->has_rate && p->s->columns >= WIDE)
		x += screen_print(p->s, y, x, INK_PLAIN, "CPU power %.0f W", energy->rate / 1e6);
	if (x == 1 + p->name_columns)
		(void) screen_put(p->s, y, x, -1, INK_DIM, "-");
	return 1;
}

/* "phase epoch 3   step 1602   loss 0.431   accuracy 0.812": the newest value of each series. */
static int draw_series(struct picture *p, int y)
{
	const struct model *m = p->m;
	char value[SHORT_LEN + 2], bytes[SHORT_LEN];
	int x = 1;

	if (m->n_series == 0 && m->n_phases == 0)
		return 0;
	if (m->n_phases > 0)
		x += screen_print(p->s, y, x, INK_BOLD, "%s  ", m->phases[m->n_phases - 1]);
	for (size_t i = 0; i < m->n_series && x < p->s->columns; i++) {
		const struct series_line *line = m->series[i];

		if (i == 0 && line->has_step)
			x += screen_print(p->s, y, x, INK_PLAIN, "step %lld  ", (long long) line->step);
		if (line->is_bytes && line->value < 1e18)
			(void) snprintf(
				value, sizeof(value), "%s  ", short_bytes(line->value, p->v->units, bytes));
		else
			(void) snprintf(value, sizeof(value), "%.4g  ", line->value);
		if (x + (int) text_width(line->name) + (int) strlen(value) - 1 > p->s->columns)
			break; /* a cut number would be a different one */
		x += screen_print(p->s, y, x, INK_SERIES, "%s ", line->name);
		x += screen_put(p->s, y, x, -1, INK_PLAIN, value);
	}
	return 1;
}

/* On narrow screens the peak has a line of its own. */
static int draw_narrow_peak(struct picture *p, int y)
{
	const struct thing *t = p->m->machine ? &p->m->host : &p->m->job;
	const struct figure *ram = model_figure(p->m, t, p->m->machine ? HOST_MEM_USED : JOB_RAM);
	char text[SHORT_LEN];

	if (!ram || p->s->columns >= WIDE)
		return 0;
	(void) screen_print(
		p->s, y, 1, INK_DIM, "peak %s", short_bytes((double) ram->peak, p->v->units, text));
	return 1;
}

/* A bar for each core, as many per line as fit. */
static int draw_cores(struct picture *p, int y, int lines)
{
	const int each = 16, per_line = (p->s->columns - 1) / each;
	int used = 0;

	if (!p->v->show_cores || p->m->n_cores == 0 || per_line == 0)
		return 0;
	for (size_t i = 0; i < p->m->n_cores; i++) {
		const int x = 1 + (int) i % per_line * each;
		struct meter meter = { .share = (double) NAN, .peak = (double) NAN, .ink = INK_CPU };
		double rate;

		used = (int) i / per_line + 1;
		if (used > lines)
			return lines;
		if (model_rate(p->m, &p->m->cores[i], HOST_CPU_USER, HOST_CPU_SYSTEM, &rate))
			meter.share = rate / 1e9;
		(void) screen_print(p->s, y + used - 1, x, INK_DIM, "%3zu", i);
		draw_bar(p, y + used - 1, x + 4, each - 5, &meter);
	}
	return used;
}

int draw_head(struct picture *p, int y, int lines)
{
	const struct meter ram = ram_meter(p), cpu = cpu_meter(p);
	const int rest = 2 + (p->m->n_series + p->m->n_phases > 0); /* I/O, series and a spare line */
	int used = 0;

	p->name_columns = name_columns(p->m);
	draw_meter(p, y + used++, &ram);
	used += draw_narrow_peak(p, y + used);
	draw_meter(p, y + used++, &cpu);
	used += draw_cores(p, y + used, lines - used - rest);
	if (lines > used + rest)
		used += draw_gpus(p, y + used, lines - used - rest);
	if (used < lines)
		used += draw_io(p, y + used);
	if (used < lines)
		used += draw_series(p, y + used);
	return used;
}

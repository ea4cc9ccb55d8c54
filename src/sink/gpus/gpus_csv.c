/* SPDX-License-Identifier: MIT
 *
 * GPUs as CSV in base units, quoted as in RFC 4180.
 */
#include <inttypes.h>
#include <stdio.h>

#include "sink/export/export_internal.h"
#include "sink/gpus/gpus_internal.h"

static void put_value(struct buf *out, enum unit unit, struct maybe value)
{
	char text[UNITS_LEN];

	if (value.known)
		(void) buf_str(out, units_decimal(value.value, export_digits(unit), text));
}

static void put_devices(const struct gpus_options *g, const struct gpus_now *now, struct buf *out)
{
	char number[UNITS_LEN];

	if (g->header) {
		(void) buf_str(out, "gpu");
		for (size_t f = 0; f < gpus_n_figures; f++)
			(void) buf_printf(out, ",%s", gpus_figures[f].column);
		(void) buf_str(out, "\n");
	}
	for (size_t i = 0; i < now->n_gpus; i++) {
		if (!now->gpus[i].is_chosen)
			continue;
		(void) buf_str(out, gpus_number(&now->gpus[i], number));
		for (size_t f = 0; f < gpus_n_figures; f++) {
			(void) buf_str(out, ",");
			if (gpus_figures[f].text)
				export_csv_text(out, gpus_figures[f].text(&now->gpus[i]));
			else
				put_value(out, gpus_figures[f].unit,
					gpus_figure_get(&gpus_figures[f], now, &now->gpus[i]));
		}
		(void) buf_str(out, "\n");
	}
}

static void put_process(const struct gpu_now *gpu, const struct gpu_user_now *u, struct buf *out)
{
	static const enum metric figures[] = { M_GPROC_MEM, M_GPROC_SM_BUSY, M_GPROC_MEM_BUSY,
		M_GPROC_ENC_BUSY, M_GPROC_DEC_BUSY };
	char number[UNITS_LEN];

	(void) buf_printf(out, "%s,", gpus_number(gpu, number));
	export_csv_text(out, gpu->uuid);
	(void) buf_str(out, ",");
	put_value(out, UNIT_COUNT, u->pid);
	(void) buf_str(out, ",");
	export_csv_text(out, u->user);
	(void) buf_printf(out, ",%s,",
		u->compute    ? u->graphics ? "compute+graphics" : "compute"
		: u->graphics ? "graphics"
			      : "");
	export_csv_text(out, u->name);
	(void) buf_str(out, ",");
	export_csv_text(out, u->command);
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
		(void) buf_str(out, ",");
		put_value(out, metrics[figures[i]].unit, u->metrics[figures[i]]);
	}
	(void) buf_str(out, "\n");
}

static void put_processes(const struct gpus_options *g, const struct gpus_now *now, struct buf *out)
{
	if (g->header)
		(void) buf_str(out,
			"gpu,gpu_uuid,pid,user,type,name,command,memory_bytes,sm_busy_ratio,memory_busy_ratio,"
			"encoder_busy_ratio,decoder_busy_ratio\n");
	for (size_t i = 0; i < now->n_gpus; i++) {
		for (int hidden = 0; hidden < 2 && now->gpus[i].is_chosen; hidden++) {
			const struct gpu_user_now *u = NULL;

			while ((u = gpus_next_user(now, &now->gpus[i], u, hidden)))
				put_process(&now->gpus[i], u, out);
		}
	}
}

void gpus_csv(const struct gpus_options *g, const struct gpus_now *now, struct buf *out)
{
	if (g->kind == GPUS_CSV)
		put_devices(g, now, out);
	else
		put_processes(g, now, out);
}

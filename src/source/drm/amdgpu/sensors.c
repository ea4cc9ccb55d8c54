/* SPDX-License-Identifier: MIT
 *
 * The sensors of an AMD GPU: sysfs, hwmon, the firmware's table.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/smallfile.h"
#include "source/drm/amdgpu/internal.h"

/* ---- values in a file of their own -------------------------------------------------------------------------------- */

#define WATTS_MAX  INT64_C(5000000000)  /* 5 kW */
#define DEGREES    1, 1, GPU_TEMP_LEAST, GPU_TEMP_MOST
#define MICROWATTS 1, 1, 0, WATTS_MAX
#define HERTZ      1, 1, 0, INT64_C(10000000000)
#define PERCENT    10000, 1, 0, 1000000
#define BYTES      1, 1, 0, INT64_MAX
#define A_PART     METRIC_COUNT /* part of a value: not a metric by itself */

enum row {
	ROW_VRAM_USED,
	ROW_VRAM_TOTAL,
	ROW_GTT_USED,
	ROW_GTT_TOTAL,
};

const struct drm_figure amdgpu_rows[] = {
	[ROW_VRAM_USED] = { A_PART, AMDGPU_MEMORY, AT_DEVICE, "mem_info_vram_used", BYTES, "" },
	[ROW_VRAM_TOTAL] = { A_PART, AMDGPU_MEMORY, AT_DEVICE, "mem_info_vram_total", BYTES, "" },
	[ROW_GTT_USED] = { A_PART, AMDGPU_MEMORY, AT_DEVICE, "mem_info_gtt_used", BYTES, "" },
	[ROW_GTT_TOTAL] = { A_PART, AMDGPU_MEMORY, AT_DEVICE, "mem_info_gtt_total", BYTES, "" },
	{ M_GPU_BUSY, AMDGPU_SENSORS, AT_DEVICE, "gpu_busy_percent", PERCENT, "sysfs gpu_busy_percent" },
	{ M_GPU_MEM_BUSY, AMDGPU_SENSORS, AT_DEVICE, "mem_busy_percent", PERCENT, "sysfs mem_busy_percent" },
	{ M_GPU_POWER, AMDGPU_SENSORS, AT_HWMON, "power1_average", MICROWATTS, "hwmon power1_average" },
	{ M_GPU_POWER, AMDGPU_SENSORS, AT_HWMON, "power1_input", MICROWATTS, "hwmon power1_input" },
	{ M_GPU_POWER_LIMIT, AMDGPU_SENSORS, AT_HWMON, "power1_cap", MICROWATTS, "hwmon power1_cap" },
	{ M_GPU_TEMP, AMDGPU_SENSORS, AT_HWMON, "temp1_input", DEGREES, "hwmon temp1_input (edge)" },
	{ M_GPU_TEMP, AMDGPU_SENSORS, AT_HWMON, "temp2_input", DEGREES, "hwmon temp2_input (junction)" },
	{ M_GPU_TEMP_MEM, AMDGPU_SENSORS, AT_HWMON, "temp3_input", DEGREES, "hwmon temp3_input" },
	{ M_GPU_CLOCK_SM, AMDGPU_SENSORS, AT_HWMON, "freq1_input", HERTZ, "hwmon freq1_input" },
	{ M_GPU_CLOCK_MEM, AMDGPU_SENSORS, AT_HWMON, "freq2_input", HERTZ, "hwmon freq2_input" },
	{ M_GPU_FAN, AMDGPU_SENSORS, AT_HWMON, "pwm1", 1000000, 255, 0, 1000000, "hwmon pwm1" },
};

const size_t amdgpu_n_rows = sizeof(amdgpu_rows) / sizeof(amdgpu_rows[0]);
_Static_assert(sizeof(amdgpu_rows) / sizeof(amdgpu_rows[0]) <= DRM_FIGURES, "more rows than files are kept");

static struct maybe row_read(const struct source *s, size_t i, enum row row)
{
	int64_t number;
	int fd = s->gpus.list[i].files.fds[row];

	return fd >= 0 && drm_number_pread(fd, &number) == 0 && number >= 0 ? known(number) : UNKNOWN;
}

static struct maybe file_read(const struct drm_card *card, const char *file)
{
	int64_t number;

	return drm_number_read(card->dir, file, &number) == 0 && number >= 0 ? known(number) : UNKNOWN;
}

static struct maybe minus(struct maybe a, struct maybe b)
{
	return a.known && b.known && a.value >= b.value ? known(a.value - b.value) : UNKNOWN;
}

/* ---- identity of a GPU -------------------------------------------------------------------------------------------- */

/* One line of a file, without its end; "" without one. */
static void line_read(int dir, const char *file, char *ret, size_t size)
{
	if (smallfile_read(dir, file, ret, size) < 0)
		ret[0] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
}

/* A CPU with graphics: only its hwmon has the voltage of the north bridge (amdgpu_pm.c). Its own
 * memory ("vram") is a part that the firmware reserved; work uses the host's memory (GTT). */
static bool is_apu(const struct drm_card *card)
{
	char label[32];

	if (card->hwmon < 0)
		return false;
	line_read(card->hwmon, "in1_label", label, sizeof(label));
	return strcmp(label, "vddnb") == 0;
}

void amdgpu_describe(const struct source_env *env, const struct drm_card *card, struct drm_gpu *gpu)
{
	char id[32];

	(void) env;
	line_read(card->dir, "unique_id", id, sizeof(id));
	if (id[0] && strspn(id, "0") != strlen(id))
		snprintf(gpu->uuid, sizeof(gpu->uuid), "amd-%s", id);
	else
		snprintf(gpu->uuid, sizeof(gpu->uuid), "pci-%s", card->pci);
	line_read(card->dir, "product_name", gpu->name, sizeof(gpu->name));
	if (gpu->name[0] == '\0')
		drm_card_name(card, gpu->name, sizeof(gpu->name));
	gpu->adds_host = is_apu(card);
	gpu->memory_bytes = file_read(card, "mem_info_vram_total");
	if (gpu->adds_host)
		gpu->memory_bytes = maybe_sum(gpu->memory_bytes, file_read(card, "mem_info_gtt_total"));
}

/* ---- memory ------------------------------------------------------------------------------------------------------- */

void amdgpu_memory_report(struct source *s, size_t i, struct framebuf *out)
{
	struct maybe used = row_read(s, i, ROW_VRAM_USED), total = row_read(s, i, ROW_VRAM_TOTAL);
	struct maybe lent = UNKNOWN;

	if (s->gpus.list[i].adds_host) {
		lent = row_read(s, i, ROW_GTT_USED);
		used = maybe_sum(used, lent);
		total = maybe_sum(total, row_read(s, i, ROW_GTT_TOTAL));
	}
	if (used.known && total.known && total.value > 0 && used.value > total.value) {
		drm_gpu_set_impossible(&s->gpus, i, M_GPU_MEM);
		used = UNKNOWN;
	}
	drm_gpu_report(&s->gpus, i, out, M_GPU_MEM, used);
	drm_gpu_report(&s->gpus, i, out, M_GPU_MEM_FREE, minus(total, used));
	if (s->gpus.list[i].adds_host)
		drm_gpu_report(&s->gpus, i, out, M_GPU_MEM_HOST, lent);
}

/* ---- sensors ------------------------------------------------------------------------------------------------------ */

/* pp_dpm_sclk: "0: 500Mhz\n1: 2100Mhz *\n"; the star marks the current one. There may be none. */
static struct maybe dpm_clock(const struct drm_card *card, const char *file)
{
	char text[1024];
	const char *p = text;

	if (smallfile_read(card->dir, file, text, sizeof(text)) < 0)
		return UNKNOWN;
	do {
		uint64_t number, mhz;

		if (parse_u64(&p, &number) < 0 || !parse_word(&p, ": ") || parse_u64(&p, &mhz) < 0 ||
			!(parse_word(&p, "Mhz") || parse_word(&p, "MHz")))
			continue;
		parse_blanks(&p);
		if (*p == '*' && mhz <= 10000)
			return known((int64_t) mhz * 1000000);
	} while (parse_line(&p));
	return UNKNOWN;
}

/* Raven and Picasso always report 100 %. */
static bool is_busy_invalid(const struct drm_card *card)
{
	return card->device == 0x15dd || card->device == 0x15d8;
}

/* ras/umc_err_count: "ue: 0\nce: 12\n" */
static void errors_report(struct source *s, size_t i, struct framebuf *out)
{
	char text[128];
	uint64_t bad = 0, mended = 0;
	ssize_t n = smallfile_read(s->gpus.cards.list[i].dir, "ras/umc_err_count", text, sizeof(text));
	bool is_read = n > 0 && parse_key(text, "ue", &bad) == 0 && parse_key(text, "ce", &mended) == 0 &&
		       bad <= INT64_MAX && mended <= INT64_MAX;

	drm_gpu_report(&s->gpus, i, out, M_GPU_ECC_UNCORRECTED,
		drm_counter_apply(&s->more[i].uncorrected, is_read ? known((int64_t) bad) : UNKNOWN));
	drm_gpu_report(&s->gpus, i, out, M_GPU_ECC_CORRECTED,
		drm_counter_apply(&s->more[i].corrected, is_read ? known((int64_t) mended) : UNKNOWN));
}

/* ---- throttling --------------------------------------------------------------------------------------------------- */

static const struct {
	enum metric metric;
	uint64_t bits;                 /* of AMDGPU_THROTTLE */
	enum amdgpu_field counters[3]; /* from 1.6 on; AMDGPU_ACC_ALL: none */
} reasons[REASONS] = {
	[REASON_POWER] = { M_GPU_THROTTLE_POWER, AMDGPU_THROTTLED_POWER,
		{ AMDGPU_ACC_POWER, AMDGPU_ACC_ALL, AMDGPU_ACC_ALL } },
	[REASON_THERMAL] = { M_GPU_THROTTLE_THERMAL, AMDGPU_THROTTLED_THERMAL,
		{ AMDGPU_ACC_SOCKET, AMDGPU_ACC_VR, AMDGPU_ACC_HBM } },
	[REASON_HW] = { M_GPU_THROTTLE_HW, AMDGPU_THROTTLED_HW,
		{ AMDGPU_ACC_PROCHOT, AMDGPU_ACC_ALL, AMDGPU_ACC_ALL } },
	[REASON_OTHER] = { M_GPU_THROTTLE_OTHER,
		~(AMDGPU_THROTTLED_POWER | AMDGPU_THROTTLED_THERMAL | AMDGPU_THROTTLED_HW),
		{ AMDGPU_ACC_ALL, AMDGPU_ACC_ALL, AMDGPU_ACC_ALL } },
};

/* The rise of a 32-bit counter, which wraps to 0. */
static uint32_t rise_of(
	const struct amdgpu_metrics *last, const struct amdgpu_metrics *now, enum amdgpu_field field)
{
	bool both = last->field[field].known && now->field[field].known;

	return both ? (uint32_t) now->field[field].value - (uint32_t) last->field[field].value : 0;
}

/* The part of the time since the last table in which a reason throttled the clocks: from the
 * firmware's counts of periods, else whether it does now. */
static bool share_of(const struct amdgpu_state *m, const struct amdgpu_metrics *now,
	enum amdgpu_reason reason, double *ret)
{
	uint32_t periods = rise_of(&m->last, now, AMDGPU_ACC_ALL), throttled = 0;

	if (now->field[AMDGPU_THROTTLE].known) {
		*ret = ((uint64_t) now->field[AMDGPU_THROTTLE].value & reasons[reason].bits) != 0;
		return true;
	}
	if (periods == 0 || reason == REASON_OTHER)
		return false;
	for (size_t i = 0; i < 3; i++) {
		uint32_t rise = reasons[reason].counters[i] == AMDGPU_ACC_ALL
					? 0
					: rise_of(&m->last, now, reasons[reason].counters[i]);

		throttled = rise > throttled ? rise : throttled;
	}
	*ret = throttled < periods ? (double) throttled / periods : 1;
	return true;
}

static void throttle_report(struct source *s, size_t i, const struct amdgpu_metrics *now, uint64_t now_ns,
	struct framebuf *out)
{
	struct amdgpu_state *m = &s->more[i];
	bool has_reasons = now->field[AMDGPU_THROTTLE].known || now->field[AMDGPU_ACC_ALL].known;

	for (int reason = 0; reason < REASONS; reason++) {
		double share = 0;

		if (m->seen && share_of(m, now, (enum amdgpu_reason) reason, &share))
			m->throttled_ns[reason] += (int64_t) (share * (double) (now_ns - m->time_ns));
		drm_gpu_report(&s->gpus, i, out, reasons[reason].metric,
			has_reasons && (reason != REASON_OTHER || now->field[AMDGPU_THROTTLE].known)
				? known(m->throttled_ns[reason])
				: UNKNOWN);
	}
}

/* ---- the firmware's table ----------------------------------------------------------------------------------------- */

static void metrics_read(const struct drm_card *card, struct amdgpu_metrics *ret)
{
	char data[8192];
	ssize_t n = smallfile_read(card->dir, "gpu_metrics", data, sizeof(data));

	*ret = (struct amdgpu_metrics) { 0 };
	if (n > 0)
		(void) amdgpu_metrics_parse(data, (size_t) n, ret);
}

/* Metrics in a file of their own, or else in the table. */
static const struct {
	enum metric metric;
	enum amdgpu_field fields[2]; /* the second if the first is absent */
} by_table[] = {
	{ M_GPU_BUSY, { AMDGPU_BUSY, AMDGPU_BUSY } },
	{ M_GPU_MEM_BUSY, { AMDGPU_MEM_BUSY, AMDGPU_MEM_BUSY } },
	{ M_GPU_POWER, { AMDGPU_POWER, AMDGPU_POWER } },
	{ M_GPU_TEMP, { AMDGPU_TEMP, AMDGPU_TEMP_HOTSPOT } },
	{ M_GPU_TEMP_MEM, { AMDGPU_TEMP_MEM, AMDGPU_TEMP_MEM } },
	{ M_GPU_CLOCK_SM, { AMDGPU_CLOCK, AMDGPU_CLOCK } },
	{ M_GPU_CLOCK_MEM, { AMDGPU_CLOCK_MEM, AMDGPU_CLOCK_MEM } },
	{ M_GPU_POWER_LIMIT, { AMDGPU_FIELDS, AMDGPU_FIELDS } },
	{ M_GPU_FAN, { AMDGPU_FIELDS, AMDGPU_FIELDS } },
};

static struct maybe can_be(enum metric metric, struct maybe value)
{
	const bool is_temperature = metric == M_GPU_TEMP || metric == M_GPU_TEMP_MEM;

	return is_temperature && (value.value < GPU_TEMP_LEAST || value.value > GPU_TEMP_MOST) ? UNKNOWN
											       : value;
}

static struct maybe sensor_read(
	const struct source *s, size_t i, size_t row, const struct amdgpu_metrics *table)
{
	const struct drm_card *card = &s->gpus.cards.list[i];
	enum metric metric = by_table[row].metric;
	struct maybe value = metric == M_GPU_BUSY && is_busy_invalid(card)
				     ? UNKNOWN
				     : drm_gpu_figure(&s->gpus, i, metric);

	for (size_t k = 0; k < 2 && !value.known && by_table[row].fields[k] < AMDGPU_FIELDS; k++)
		value = can_be(metric, table->field[by_table[row].fields[k]]);
	if (!value.known && metric == M_GPU_CLOCK_SM)
		value = dpm_clock(card, "pp_dpm_sclk");
	if (!value.known && metric == M_GPU_CLOCK_MEM)
		value = dpm_clock(card, "pp_dpm_mclk");
	return value;
}

void amdgpu_sensors_report(struct source *s, size_t i, uint64_t now_ns, struct framebuf *out)
{
	struct amdgpu_state *m = &s->more[i];
	struct amdgpu_metrics table;

	metrics_read(&s->gpus.cards.list[i], &table);
	for (size_t k = 0; k < sizeof(by_table) / sizeof(by_table[0]); k++)
		drm_gpu_report(&s->gpus, i, out, by_table[k].metric, sensor_read(s, i, k, &table));
	drm_gpu_report(
		&s->gpus, i, out, M_GPU_ENERGY, drm_counter_apply(&m->energy, table.field[AMDGPU_ENERGY]));
	throttle_report(s, i, &table, now_ns, out);
	errors_report(s, i, out);
	m->seen = table.format != 0;
	m->last = table;
	m->time_ns = now_ns;
}

const char *amdgpu_how(const struct source *s, size_t i, enum metric metric)
{
	for (size_t row = 0; row < amdgpu_n_rows; row++) {
		int64_t number;
		int fd = s->gpus.list[i].files.fds[row];

		if (amdgpu_rows[row].metric == metric && fd >= 0 && drm_number_pread(fd, &number) == 0)
			return amdgpu_rows[row].how;
	}
	return "sysfs gpu_metrics, pp_dpm_*";
}

/* SPDX-License-Identifier: MIT
 *
 * The figures read per device: one row per call, with its metrics and the ways to read them, best
 * first. NVML's units: bytes, mW, mJ, MHz, degrees Celsius, percent. Two calls are not used for what
 * they cost on an H100: nvmlDeviceGetPcieThroughput 20 ms, and nvmlDeviceGetSamples 2.4 ms for each of
 * utilisation, memory and power, whose current values take 5 us.
 */
#include <string.h>

#include "source/nvidia/nvml/fields.h"
#include "source/nvidia/nvml/integrals.h"
#include "source/nvidia/nvml/internal.h"

enum {
	PCT = 10000, /* millionths per percent */
	MILLI = 1000,
	MEGA = 1000000,
	KIB = 1024,
};

/* Upper bounds, in the unit of the metric: far above existing hardware, far below garbage. */
#define ANYTHING       0
#define ALL_TIME       (100 * PCT)
#define FAN_MOST       (200 * PCT) /* of the intended maximum speed: over 100 % is valid */
#define HIGHEST_PSTATE (NVML_PSTATES - 1)

/* Is the value within the row's bound? */
static bool is_possible(uint32_t metric, uint64_t value, uint64_t scale)
{
	const int64_t most = nvml_row_of((enum metric) metric)->most;

	return most == ANYTHING || value <= (uint64_t) most / scale;
}

/* A value beyond the row's bound is garbage, as seen in the field; all ones means "no value". */
static void set_figure(struct nvml_gpu *d, struct reading *r, int code, uint32_t value, uint64_t scale)
{
	if (code != NVML_SUCCESS || value == NVML_NONE_U32)
		return;
	if (is_possible(r->metric, value, scale))
		nvml_set(r, value, scale);
	else
		nvml_reject(d, (enum metric) r->metric, NVML_REJECTED_FIGURE);
}

static void set_bytes(struct reading *r, uint64_t value)
{
	if (value != NVML_NONE_U64)
		nvml_set(r, value, 1);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* More memory used than the same answer's total is impossible. The answer may be the first with a
 * total. */
static int set_used(struct nvml_gpu *d, struct reading *r, uint64_t used, uint64_t total, int code)
{
	const bool has_both = code == NVML_SUCCESS && used != NVML_NONE_U64 && total &&
			      total != NVML_NONE_U64;

	if (has_both && used > total)
		return NVML_NONSENSE;
	if (!d->memory_bytes.known)
		nvml_set_total(d, code, total);
	set_bytes(r, used);
	return code;
}

static int read_memory_v2(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	struct nvml_memory_v2 m = { .version = NVML_VERSION(m, 2),
		.total = NVML_NONE_U64,
		.reserved = NVML_NONE_U64,
		.free = NVML_NONE_U64,
		.used = NVML_NONE_U64 };
	int code = NVML_CALL(&s->nvml, memory_v2, d->handle, &m);

	d->mem_free = known_unsigned(m.free);
	d->mem_reserved = known_unsigned(m.reserved);
	return set_used(d, r, m.used, m.total, code);
}

static int read_memory(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	struct nvml_memory m = { NVML_NONE_U64, NVML_NONE_U64, NVML_NONE_U64 };
	int code = NVML_CALL(&s->nvml, memory, d->handle, &m);

	d->mem_free = known_unsigned(m.free);
	d->mem_reserved = UNKNOWN;
	return set_used(d, r, m.used, m.total, code);
}

/* Drivers without memory_v2 do not count reserved memory as used. */
static int read_memory_early(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	return s->nvml.memory_v2 ? NVML_FUNCTION_NOT_FOUND : read_memory(s, d, r);
}

/* processes.c appends the sum; for any other device the reason is that of the failed calls. */
static int read_memory_unified(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	(void) s;
	(void) r;
	return d->unified ? NVML_ELSEWHERE : d->tries[nvml_row_of(M_GPU_MEM) - nvml_rows].code;
}

/* Figures that came with the memory call and are appended less often. */
static int read_memory_cached(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	const struct nvml_try *t = &d->tries[nvml_row_of(M_GPU_MEM) - nvml_rows];

	(void) s;
	if (t->absent || d->unified)
		return t->absent ? t->code : NVML_NOT_SUPPORTED;
	if (d->mem_free.known)
		nvml_set(&r[0], (uint64_t) d->mem_free.value, 1);
	if (d->mem_reserved.known)
		nvml_set(&r[1], (uint64_t) d->mem_reserved.value, 1);
	return t->code == NVML_SUCCESS ? NVML_SUCCESS : NVML_NO_DATA;
}

/* ---- activity -------------------------------------------------------------------------------- */

static int read_utilization(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	struct nvml_utilization u = { NVML_NONE_U32, NVML_NONE_U32 };
	int code = NVML_CALL(&s->nvml, utilization, d->handle, &u);

	set_figure(d, &r[0], code, u.gpu, PCT);
	set_figure(d, &r[1], code, u.memory, PCT);
	return code;
}

static int read_power(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	uint32_t mw = NVML_NONE_U32;
	int code = NVML_CALL(&s->nvml, power, d->handle, &mw);

	set_figure(d, r, code, mw, MILLI);
	nvml_power_update(s, d, code, code == NVML_SUCCESS && r->known ? known(r->value) : UNKNOWN);
	return code;
}

static int read_power_mean(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	return d->power_span_ns.value > 0 ? read_power(s, d, r) : NVML_NOT_SUPPORTED;
}

static int read_power_momentary(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	return d->power_span_ns.known && d->power_span_ns.value == 0 ? read_power(s, d, r)
								     : NVML_NOT_SUPPORTED;
}

static int read_energy(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	uint64_t mj = NVML_NONE_U64;
	int code = NVML_CALL(&s->nvml, energy, d->handle, &mj);

	if (mj != NVML_NONE_U64)
		nvml_set(r, mj, MILLI);
	return code == NVML_SUCCESS && r->known && !nvml_energy_update(s, d, r) ? NVML_NOT_SUPPORTED : code;
}

/* ---- state ----------------------------------------------------------------------------------- */

/* All ones means "no value". */
static int set_celsius(struct reading *r, uint64_t celsius, int code)
{
	if (code != NVML_SUCCESS || celsius == NVML_NONE_U32 || celsius == NVML_NONE_U64)
		return code;
	if (celsius * MILLI < GPU_TEMP_LEAST || !is_possible(r->metric, celsius, MILLI))
		return NVML_NONSENSE;
	nvml_set(r, celsius, MILLI);
	return code;
}

static int read_temperature_v(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	struct nvml_temperature t = { .version = NVML_VERSION(t, 1), .sensor = NVML_TEMPERATURE_GPU };
	int code = NVML_CALL(&s->nvml, temperature_v, d->handle, &t);

	return set_celsius(r, (uint32_t) t.celsius, code);
}

static int read_temperature(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	uint32_t celsius = 0;
	int code = NVML_CALL(&s->nvml, temperature, d->handle, NVML_TEMPERATURE_GPU, &celsius);

	return set_celsius(r, celsius, code);
}

static int read_temperature_memory(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	(void) s;
	return set_celsius(r, d->fields.value[FIELD_TEMP_MEMORY], d->fields.code[FIELD_TEMP_MEMORY]);
}

static int read_clock(struct source *s, struct nvml_gpu *d, int which, struct reading *r)
{
	uint32_t mhz = NVML_NONE_U32;
	int code = NVML_CALL(&s->nvml, clock, d->handle, which, &mhz);

	set_figure(d, r, code, mhz, MEGA);
	return code;
}

static int read_clock_sm(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	return read_clock(s, d, NVML_CLOCK_SM, r);
}

static int read_clock_memory(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	return read_clock(s, d, NVML_CLOCK_MEMORY, r);
}

static int read_pstate(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	int state = NVML_PSTATE_UNKNOWN;
	int code = NVML_CALL(&s->nvml, pstate, d->handle, &state);

	set_figure(d, r, code, state == NVML_PSTATE_UNKNOWN ? NVML_NONE_U32 : (uint32_t) state, 1);
	return code;
}

/* ---- engines --------------------------------------------------------------------------------- */

#define READ_ENGINE(member) \
	static int read_##member(struct source *s, struct nvml_gpu *d, struct reading *r) \
	{ \
		uint32_t pct = NVML_NONE_U32, period_us = 0; \
		int code = NVML_CALL(&s->nvml, member, d->handle, &pct, &period_us); \
\
		set_figure(d, r, code, pct, PCT); \
		return code; \
	}
READ_ENGINE(encoder)
READ_ENGINE(decoder)
READ_ENGINE(jpeg)
READ_ENGINE(optical_flow)
#undef READ_ENGINE

/* ---- traffic --------------------------------------------------------------------------------- */

static int read_counter(const struct nvml_gpu *d, enum nvml_field field, uint64_t scale, struct reading *r)
{
	nvml_set(r, d->fields.value[field], scale);
	return d->fields.code[field];
}

/* GPM's rates over time are preferred: these counters wrap at an undocumented width, and cost 0.4 to 0.7 ms
 * on an H100. They do not continue where GPM ends: both count from a start of their own. */
static int read_pcie(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	int code;

	const bool was_elsewhere = d->fields.unwanted[FIELD_PCIE_RX],
		   is_elsewhere = nvml_gpm_reports(s, d, M_GPU_PCIE_TX);

	d->fields.unwanted[FIELD_PCIE_RX] = d->fields.unwanted[FIELD_PCIE_TX] = is_elsewhere;
	if (is_elsewhere)
		return NVML_ELSEWHERE;
	if (was_elsewhere) { /* without a value of GPM so far, the fields are read from the next time on */
		const bool ends = d->reported[M_GPU_PCIE_TX] == REPORTED_KNOWN;

		d->fields.absent[FIELD_PCIE_RX] = d->fields.absent[FIELD_PCIE_TX] = ends;
		return ends ? NVML_NOT_SUPPORTED : NVML_NO_DATA;
	}
	code = read_counter(d, FIELD_PCIE_RX, 1, &r[0]);
	return code == NVML_SUCCESS ? read_counter(d, FIELD_PCIE_TX, 1, &r[1]) : code;
}

static int read_nvlink_kib(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	int code = read_counter(d, FIELD_NVLINK_RX_KIB, KIB, &r[0]);

	(void) s;
	return code == NVML_SUCCESS ? read_counter(d, FIELD_NVLINK_TX_KIB, KIB, &r[1]) : code;
}

static int read_nvlink_bytes(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	int code = read_counter(d, FIELD_NVLINK_RX, 1, &r[0]);

	(void) s;
	return code == NVML_SUCCESS ? read_counter(d, FIELD_NVLINK_TX, 1, &r[1]) : code;
}

static int read_nvlink_gpm(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	(void) s;
	(void) r;
	return nvml_gpm_reports(s, d, M_GPU_NVLINK_TX) ? NVML_ELSEWHERE : NVML_NOT_SUPPORTED;
}

/* ---- slowly changing figures ----------------------------------------------------------------- */

static int read_power_limit(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	uint32_t mw = NVML_NONE_U32;
	int code = NVML_CALL(&s->nvml, power_limit, d->handle, &mw);

	set_figure(d, r, code, mw, MILLI);
	return code;
}

static int read_fan(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	uint32_t pct = NVML_NONE_U32;
	int code = NVML_CALL(&s->nvml, fan, d->handle, &pct);

	set_figure(d, r, code, pct, PCT);
	return code;
}

static int read_ecc(struct source *s, struct nvml_gpu *d, int kind, struct reading *r)
{
	uint64_t count = NVML_NONE_U64;
	int code = NVML_CALL(&s->nvml, ecc, d->handle, kind, NVML_ECC_VOLATILE, &count);

	if (count != NVML_NONE_U64)
		nvml_set(r, count, 1);
	return code;
}

static int read_ecc_corrected(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	return read_ecc(s, d, NVML_ECC_CORRECTED, r);
}

static int read_ecc_uncorrected(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	return read_ecc(s, d, NVML_ECC_UNCORRECTED, r);
}

/* ---- the table ------------------------------------------------------------------------------- */

#define ROW_OF(group, of_instance, ...) \
	NVML_GROUP_##group, of_instance, { __VA_ARGS__ }, sizeof((int[]) { __VA_ARGS__ }) / sizeof(int)
#define GPU(group, ...) ROW_OF(group, false, __VA_ARGS__)
#define ANY(group, ...) ROW_OF(group, true, __VA_ARGS__)

const struct nvml_row nvml_rows[] = {
	{ ANY(MEMORY, M_GPU_MEM), ANYTHING,
		{ { read_memory_v2, "nvmlDeviceGetMemoryInfo_v2", NULL },
			{ read_memory_early, "nvmlDeviceGetMemoryInfo", NULL },
			{ read_memory, "nvmlDeviceGetMemoryInfo, including the driver's reserved memory",
				"gpu.memory: memory in use includes the driver's reserved memory, which this driver does not report separately" },
			{ read_memory_unified, "the host's memory: the sum over the visible processes",
				"gpu.memory: its memory is the host's and the driver reports no device total; the sum over the visible processes is used instead" } } },
	{ ANY(ACTIVITY, M_GPU_MEM_FREE, M_GPU_MEM_RESERVED), ANYTHING,
		{ { read_memory_cached,
			"nvmlDeviceGetMemoryInfo_v2; drivers before 510 report no reserved memory",
			NULL } } },
	{ GPU(ACTIVITY, M_GPU_BUSY, M_GPU_MEM_BUSY), ALL_TIME,
		{ { read_utilization, "nvmlDeviceGetUtilizationRates", NULL } } },
	{ GPU(ACTIVITY, M_GPU_POWER), GPU_POWER_MOST,
		{ { read_power_mean, "nvmlDeviceGetPowerUsage, the mean of 1 s", NULL },
			{ read_power_momentary, "nvmlDeviceGetPowerUsage, momentary", NULL },
			{ read_power, "nvmlDeviceGetPowerUsage", NULL } } },
	{ GPU(RARE, M_GPU_ENERGY), ANYTHING,
		{ { read_energy, "nvmlDeviceGetTotalEnergyConsumption", NULL },
			{ nvml_power_instead,
				"power integrated over time: the energy counter does not advance",
				"gpu.energy: its energy counter does not advance while power is drawn; power is integrated over time instead" },
			{ nvml_power_onwards,
				"power integrated over time: the energy counter became unavailable",
				"gpu.energy: its energy counter became unavailable; power is integrated over time instead" },
			{ nvml_power_integral, "power integrated over time",
				"gpu.energy: no energy counter; power is integrated over time instead" } } },
	{ GPU(ACTIVITY, M_GPU_TEMP), GPU_TEMP_MOST,
		{ { read_temperature_v, "nvmlDeviceGetTemperatureV", NULL },
			{ read_temperature, "nvmlDeviceGetTemperature", NULL } } },
	{ GPU(COUNTERS, M_GPU_TEMP_MEM), GPU_TEMP_MOST, { { read_temperature_memory, "NVML field 82", NULL } } },
	{ GPU(ACTIVITY, M_GPU_CLOCK_SM), GPU_CLOCK_MOST, { { read_clock_sm, "nvmlDeviceGetClockInfo", NULL } } },
	{ GPU(ACTIVITY, M_GPU_CLOCK_MEM), GPU_CLOCK_MOST,
		{ { read_clock_memory, "nvmlDeviceGetClockInfo", NULL } } },
	{ GPU(ACTIVITY, M_GPU_PSTATE), HIGHEST_PSTATE,
		{ { read_pstate, "nvmlDeviceGetPerformanceState", NULL } } },
	{ GPU(COUNTERS, M_GPU_THROTTLE_POWER), ANYTHING,
		{ { nvml_throttle_power, "NVML field 74", NULL },
			{ nvml_reasons_power, "clock event reasons, over time", NULL } } },
	{ GPU(COUNTERS, M_GPU_THROTTLE_THERMAL), ANYTHING,
		{ { nvml_throttle_thermal,
			  "NVML field 75 for the software's slowdown, clock event reasons for the hardware's",
			  NULL },
			{ nvml_throttle_thermal_sw, "NVML field 75, of the software's slowdown",
				"gpu: throttling by the hardware for heat is not in gpu.throttle_thermal: the driver does not report clock event reasons" },
			{ nvml_reasons_thermal, "clock event reasons, over time", NULL } } },
	{ GPU(COUNTERS, M_GPU_THROTTLE_HW), ANYTHING,
		{ { nvml_reasons_hw, "clock event reasons, over time", NULL } } },
	{ GPU(COUNTERS, M_GPU_THROTTLE_OTHER), ANYTHING,
		{ { nvml_throttle_other, "NVML fields 76, 77, 79", NULL },
			{ nvml_reasons_other, "clock event reasons, over time", NULL } } },
	{ GPU(COUNTERS, M_GPU_PCIE_RX, M_GPU_PCIE_TX), ANYTHING,
		{ { read_pcie, "NVML fields 197, 198, or GPM over time", NULL } } },
	{ GPU(COUNTERS, M_GPU_NVLINK_RX, M_GPU_NVLINK_TX), ANYTHING,
		{ { read_nvlink_kib, "NVML fields 138, 139", NULL },
			{ read_nvlink_bytes, "NVML fields 202, 204", NULL },
			{ read_nvlink_gpm, "GPM over time", NULL } } },
	{ GPU(ACTIVITY, M_GPU_ENC_BUSY), ALL_TIME,
		{ { read_encoder, "nvmlDeviceGetEncoderUtilization", NULL } } },
	{ GPU(ACTIVITY, M_GPU_DEC_BUSY), ALL_TIME,
		{ { read_decoder, "nvmlDeviceGetDecoderUtilization", NULL } } },
	{ GPU(ACTIVITY, M_GPU_JPG_BUSY), ALL_TIME, { { read_jpeg, "nvmlDeviceGetJpgUtilization", NULL } } },
	{ GPU(ACTIVITY, M_GPU_OFA_BUSY), ALL_TIME,
		{ { read_optical_flow, "nvmlDeviceGetOfaUtilization", NULL } } },
	{ GPU(RARE, M_GPU_POWER_LIMIT), GPU_POWER_MOST,
		{ { read_power_limit, "nvmlDeviceGetEnforcedPowerLimit", NULL } } },
	{ GPU(RARE, M_GPU_FAN), FAN_MOST, { { read_fan, "nvmlDeviceGetFanSpeed", NULL } } },
	{ GPU(RARE, M_GPU_ECC_CORRECTED), ANYTHING,
		{ { read_ecc_corrected, "nvmlDeviceGetTotalEccErrors, since the driver was loaded",
			NULL } } },
	{ GPU(RARE, M_GPU_ECC_UNCORRECTED), ANYTHING,
		{ { read_ecc_uncorrected, "nvmlDeviceGetTotalEccErrors, since the driver was loaded",
			NULL } } },
};

const size_t nvml_n_rows = sizeof(nvml_rows) / sizeof(nvml_rows[0]);
static_assert(
	sizeof(nvml_rows) / sizeof(nvml_rows[0]) <= NVML_MAX_ROWS, "struct nvml_gpu has one try per row");

const struct nvml_row *nvml_row_of(enum metric metric)
{
	for (size_t i = 0; i < nvml_n_rows; i++) {
		for (unsigned m = 0; m < nvml_rows[i].n; m++) {
			if (nvml_rows[i].metrics[m] == metric)
				return &nvml_rows[i];
		}
	}
	return NULL;
}

bool nvml_is_withheld(const struct nvml_gpu *d, enum metric metric, int code)
{
	static const enum metric withheld[] = { M_GPU_BUSY, M_GPU_MEM_BUSY, M_GPU_ENC_BUSY, M_GPU_DEC_BUSY,
		M_GPU_JPG_BUSY, M_GPU_OFA_BUSY };

	for (size_t i = 0; d->mig && i < sizeof(withheld) / sizeof(withheld[0]); i++) {
		if (withheld[i] == metric)
			return nvml_code(code)->meaning == NVML_ABSENT;
	}
	return false;
}

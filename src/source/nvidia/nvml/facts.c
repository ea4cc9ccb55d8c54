/* SPDX-License-Identifier: MIT
 *
 * Facts of NVIDIA's GPUs, one row per call. Properties of an SM come from the table of compute
 * capabilities and, if CUDA's driver is installed, from CUDA (source/nvidia/cuda/facts.c).
 */
#include <stdio.h>
#include <string.h>

#include "source/nvidia/cuda/facts.h"
#include "source/nvidia/nvml/internal.h"
#include "source/nvidia/nvml/tables.h"

enum {
	MOST = 2, /* facts per call */
	ONE = 1,
	MILLI = 1000,
	MEGA = 1000000,
	WARP_THREADS = 32,
	KIB = 1024,
	FIELD_POWER_AVERAGE = 185,
	FIELD_POWER_INSTANT = 186,
};

/* The values that one call returned. */
struct answer {
	struct maybe number[MOST];
	char text[NVML_NAME];
};

typedef int fact_reader(struct source *s, struct nvml_gpu *d, struct answer *answer);

static struct maybe number(uint32_t value, uint64_t scale)
{
	return value == NVML_NONE_U32 ? UNKNOWN : known((int64_t) (value * scale));
}

static struct maybe wide(uint64_t value)
{
	return value > INT64_MAX ? UNKNOWN : known((int64_t) value);
}

/* ---- readers --------------------------------------------------------------------------------- */

#define READ_TEXT(member) \
	static int read_##member(struct source *s, struct nvml_gpu *d, struct answer *answer) \
	{ \
		return NVML_CALL(&s->nvml, member, d->handle, answer->text, sizeof(answer->text)); \
	}
READ_TEXT(serial)
READ_TEXT(vbios)
READ_TEXT(part)
#undef READ_TEXT

#define READ_NUMBER(name, member, scale, ...) \
	static int read_##name(struct source *s, struct nvml_gpu *d, struct answer *answer) \
	{ \
		uint32_t value = NVML_NONE_U32; \
		int code = NVML_CALL(&s->nvml, member, d->handle, ##__VA_ARGS__, &value); \
\
		answer->number[0] = number(value, scale); \
		return code; \
	}
READ_NUMBER(minor, minor, ONE)
READ_NUMBER(persistence, persistence, ONE)
READ_NUMBER(display, display, ONE)
READ_NUMBER(display_active, display_active, ONE)
READ_NUMBER(compute_mode, compute_mode, ONE)
READ_NUMBER(accounting_room, accounting_room, ONE)
READ_NUMBER(retired_pending, retired_pending, ONE)
READ_NUMBER(power_managed, power_managed, ONE)
READ_NUMBER(power_set, power_set, MILLI)
READ_NUMBER(power_default, power_default, MILLI)
READ_NUMBER(cores, cores, ONE)
READ_NUMBER(bus_width, bus_width, ONE)
READ_NUMBER(pcie_generation_now, pcie_generation_now, ONE)
READ_NUMBER(pcie_width_now, pcie_width_now, ONE)
READ_NUMBER(pcie_generation, pcie_generation, ONE)
READ_NUMBER(pcie_width, pcie_width, ONE)
READ_NUMBER(clock_graphics, clock, MEGA, NVML_CLOCK_GRAPHICS)
READ_NUMBER(clock_video, clock, MEGA, NVML_CLOCK_VIDEO)
READ_NUMBER(max_graphics, max_clock, MEGA, NVML_CLOCK_GRAPHICS)
READ_NUMBER(max_sm, max_clock, MEGA, NVML_CLOCK_SM)
READ_NUMBER(max_memory, max_clock, MEGA, NVML_CLOCK_MEMORY)
READ_NUMBER(shutdown, threshold, MILLI, NVML_THRESHOLD_SHUTDOWN)
READ_NUMBER(slowdown, threshold, MILLI, NVML_THRESHOLD_SLOWDOWN)
#undef READ_NUMBER

#define READ_PAIR(member, scale) \
	static int read_##member(struct source *s, struct nvml_gpu *d, struct answer *answer) \
	{ \
		uint32_t first = NVML_NONE_U32, second = NVML_NONE_U32; \
		int code = NVML_CALL(&s->nvml, member, d->handle, &first, &second); \
\
		answer->number[0] = number(first, scale); \
		answer->number[1] = number(second, scale); \
		return code; \
	}
READ_PAIR(mig_mode, ONE)
READ_PAIR(ecc_mode, ONE)
READ_PAIR(power_range, MILLI)
#undef READ_PAIR

#define READ_WIDE(name, member, ...) \
	static int read_##name(struct source *s, struct nvml_gpu *d, struct answer *answer) \
	{ \
		uint64_t value = NVML_NONE_U64; \
		int code = NVML_CALL(&s->nvml, member, d->handle, ##__VA_ARGS__, &value); \
\
		answer->number[0] = wide(value); \
		return code; \
	}
READ_WIDE(reasons, reasons)
READ_WIDE(reasons_known, reasons_known)
READ_WIDE(ecc_corrected, ecc, NVML_ECC_CORRECTED, NVML_ECC_AGGREGATE)
READ_WIDE(ecc_uncorrected, ecc, NVML_ECC_UNCORRECTED, NVML_ECC_AGGREGATE)
#undef READ_WIDE

static int read_pci_ids(struct source *s, struct nvml_gpu *d, struct answer *answer)
{
	struct nvml_pci pci = { .id = NVML_NONE_U32, .subsystem = NVML_NONE_U32 };
	int code = NVML_CALL(&s->nvml, pci, d->handle, &pci);

	answer->number[0] = number(pci.id, ONE);
	answer->number[1] = number(pci.subsystem, ONE);
	return code;
}

static int read_accounting(struct source *s, struct nvml_gpu *d, struct answer *answer)
{
	int mode = 0;
	int code = NVML_CALL(&s->nvml, accounting_mode, d->handle, &mode);

	answer->number[0] = known(mode);
	return code;
}

static int read_capability(struct source *s, struct nvml_gpu *d, struct answer *answer)
{
	int major = 0, minor = 0;
	int code = NVML_CALL(&s->nvml, compute_capability, d->handle, &major, &minor);

	answer->number[0] = known((int64_t) major * 10 + minor);
	return code;
}

static int read_addressing(struct source *s, struct nvml_gpu *d, struct answer *answer)
{
	struct nvml_versioned mode = { .version = NVML_VERSION(mode, 1) };
	int code = NVML_CALL(&s->nvml, addressing, d->handle, &mode);

	answer->number[0] = known(mode.value);
	return code;
}

static int read_margin(struct source *s, struct nvml_gpu *d, struct answer *answer)
{
	struct nvml_versioned margin = { .version = NVML_VERSION(margin, 1) };
	int code = NVML_CALL(&s->nvml, margin, d->handle, &margin);

	answer->number[0] = known((int64_t) margin.value * MILLI);
	return code;
}

static int read_field(struct source *s, struct nvml_gpu *d, uint32_t id, struct answer *answer)
{
	struct nvml_field_value v = { .id = id, .code = NVML_UNKNOWN };
	int code = NVML_CALL(&s->nvml, fields, d->handle, 1, &v);
	uint64_t mw, wraps;

	if (code == NVML_SUCCESS)
		code = nvml_field_number(&v, &mw, &wraps);
	if (code == NVML_SUCCESS)
		answer->number[0] = wide(mw * MILLI);
	return code;
}

static int read_power_average(struct source *s, struct nvml_gpu *d, struct answer *answer)
{
	return read_field(s, d, FIELD_POWER_AVERAGE, answer);
}

static int read_power_instant(struct source *s, struct nvml_gpu *d, struct answer *answer)
{
	return read_field(s, d, FIELD_POWER_INSTANT, answer);
}

static int read_instance(struct source *s, struct nvml_gpu *d, struct answer *answer)
{
	(void) s;
	if (!d->parent)
		return NVML_NOT_SUPPORTED;
	answer->number[0] = known(d->gpu_instance);
	answer->number[1] = known(d->compute_instance);
	return NVML_SUCCESS;
}

static int read_library(struct source *s, struct nvml_gpu *d, struct answer *answer)
{
	(void) d;
	return NVML_CALL(&s->nvml, library_version, answer->text, sizeof(answer->text));
}

static int read_cuda(struct source *s, struct nvml_gpu *d, struct answer *answer)
{
	uint32_t version = NVML_NONE_U32;
	int code = NVML_CALL(&s->nvml, cuda_version, &version);

	(void) d;
	answer->number[0] = number(version, ONE);
	return code;
}

/* ---- the table ------------------------------------------------------------------------------- */

#define NO GPU_FACT_COUNT

static const struct {
	enum gpu_fact facts[MOST];
	fact_reader *read;
	bool of_instance;
} rows[] = {
	{ { GF_SERIAL, NO }, read_serial, false },
	{ { GF_VBIOS, NO }, read_vbios, false },
	{ { GF_PART, NO }, read_part, false },
	{ { GF_MINOR, NO }, read_minor, false },
	{ { GF_PCI_DEVICE, GF_PCI_SUBSYSTEM }, read_pci_ids, false },
	{ { GF_GPU_INSTANCE, GF_COMPUTE_INSTANCE }, read_instance, true },
	{ { GF_CUDA_VERSION, NO }, read_cuda, false },
	{ { GF_LIBRARY, NO }, read_library, false },
	{ { GF_MIG, GF_MIG_PENDING }, read_mig_mode, false },
	{ { GF_ECC, GF_ECC_PENDING }, read_ecc_mode, false },
	{ { GF_PERSISTENCE, NO }, read_persistence, false },
	{ { GF_DISPLAY, NO }, read_display, false },
	{ { GF_DISPLAY_ACTIVE, NO }, read_display_active, false },
	{ { GF_COMPUTE_MODE, NO }, read_compute_mode, false },
	{ { GF_ADDRESSING, NO }, read_addressing, false },
	{ { GF_ACCOUNTING, NO }, read_accounting, false },
	{ { GF_ACCOUNTING_ROOM, NO }, read_accounting_room, false },
	{ { GF_POWER_MANAGED, NO }, read_power_managed, false },
	{ { GF_POWER_SET, NO }, read_power_set, false },
	{ { GF_POWER_DEFAULT, NO }, read_power_default, false },
	{ { GF_POWER_MIN, GF_POWER_MAX }, read_power_range, false },
	{ { GF_RETIRED_PENDING, NO }, read_retired_pending, false },
	{ { GF_PCIE_GENERATION, NO }, read_pcie_generation_now, false },
	{ { GF_PCIE_LANES, NO }, read_pcie_width_now, false },
	{ { GF_POWER_AVERAGE, NO }, read_power_average, false },
	{ { GF_POWER_INSTANT, NO }, read_power_instant, false },
	{ { GF_CLOCK_GRAPHICS, NO }, read_clock_graphics, false },
	{ { GF_CLOCK_VIDEO, NO }, read_clock_video, false },
	{ { GF_REASONS, NO }, read_reasons, false },
	{ { GF_REASONS_KNOWN, NO }, read_reasons_known, false },
	{ { GF_TEMP_MARGIN, NO }, read_margin, false },
	{ { GF_ECC_CORRECTED_EVER, NO }, read_ecc_corrected, false },
	{ { GF_ECC_UNCORRECTED_EVER, NO }, read_ecc_uncorrected, false },
	{ { GF_CAPABILITY, NO }, read_capability, false },
	{ { GF_CORES, NO }, read_cores, false },
	{ { GF_BUS_BITS, NO }, read_bus_width, false },
	{ { GF_MAX_CLOCK_GRAPHICS, NO }, read_max_graphics, false },
	{ { GF_MAX_CLOCK_SM, NO }, read_max_sm, false },
	{ { GF_MAX_CLOCK_MEM, NO }, read_max_memory, false },
	{ { GF_PCIE_GENERATION_MAX, NO }, read_pcie_generation, false },
	{ { GF_PCIE_LANES_MAX, NO }, read_pcie_width, false },
	{ { GF_TEMP_SLOWDOWN, NO }, read_slowdown, false },
	{ { GF_TEMP_SHUTDOWN, NO }, read_shutdown, false },
};

/* ---- output ---------------------------------------------------------------------------------- */

struct fact_reporter {
	const struct gpu_fact_set *wanted;
	source_fact_fn *report;
	void *ctx;
	uint32_t id;
};

static void report_text(const struct fact_reporter *t, enum gpu_fact fact, const char *text)
{
	struct gpu_fact_value reported = { .id = t->id, .fact = (uint16_t) fact, .is_text = true };

	if (!t->wanted->has[fact] || !*text)
		return;
	(void) snprintf(reported.text, sizeof(reported.text), "%s", text);
	t->report(t->ctx, &reported);
}

static void report_lack(const struct fact_reporter *t, bool of_metric, int what, enum gpu_lack lack)
{
	if (lack != GPU_LACK_NONE && (of_metric || (what != NO && t->wanted->has[what])))
		t->report(t->ctx,
			&(struct gpu_fact_value) {
				.id = t->id, .fact = (uint16_t) what, .of_metric = of_metric, .lack = lack });
}

static void report_number(const struct fact_reporter *t, enum gpu_fact fact, struct maybe value)
{
	if (fact == NO || !t->wanted->has[fact] || !value.known)
		return;
	if (value.value > gpu_facts[fact].most)
		report_lack(t, false, (int) fact, GPU_LACK_ERROR);
	else
		t->report(t->ctx,
			&(struct gpu_fact_value) {
				.id = t->id, .fact = (uint16_t) fact, .value = value.value });
}

static enum gpu_lack lack_of(int code)
{
	if (nvml_code(code)->meaning == NVML_FORBIDDEN)
		return GPU_LACK_RIGHT;
	return code == NVML_UNKNOWN ? GPU_LACK_ERROR : GPU_LACK_NONE;
}

/* Reports errors of metrics that every sample reads. */
static void report_metric_lacks(const struct nvml_gpu *d, const struct fact_reporter *t)
{
	for (size_t i = 0; i < nvml_n_rows; i++) {
		for (unsigned m = 0; m < nvml_rows[i].n; m++)
			report_lack(t, true, nvml_rows[i].metrics[m], lack_of(d->tries[i].code));
	}
}

static void report_row(struct source *s, struct nvml_gpu *d, size_t row, const struct fact_reporter *t)
{
	const enum gpu_fact first = rows[row].facts[0], second = rows[row].facts[1];
	struct answer answer = { .text = "" };

	if ((d->parent && !rows[row].of_instance) ||
		(!t->wanted->has[first] && (second == NO || !t->wanted->has[second])))
		return;
	const int code = rows[row].read(s, d, &answer);

	report_lack(t, false, first, lack_of(code));
	report_lack(t, false, second, lack_of(code));
	if (code != NVML_SUCCESS)
		return;
	answer.text[sizeof(answer.text) - 1] = '\0';
	if (gpu_facts[first].kind == FACT_TEXT)
		report_text(t, first, answer.text);
	else
		report_number(t, first, answer.number[0]);
	report_number(t, second, answer.number[1]);
}

/* Facts derived from the compute capability: all of them are wanted, or none. */
static void report_sm(struct source *s, struct nvml_gpu *d, const struct fact_reporter *t)
{
	struct answer capability = { .text = "" }, cores = { .text = "" };

	if (!t->wanted->has[GF_ARCHITECTURE] || d->parent ||
		read_capability(s, d, &capability) != NVML_SUCCESS)
		return;
	const int64_t value = capability.number[0].value;
	const struct nvml_spec *of = nvml_spec_of((int) (value / 10), (int) (value % 10));

	if (!of)
		return;
	if (read_cores(s, d, &cores) == NVML_SUCCESS && cores.number[0].known) {
		const int64_t sms = cores.number[0].value / of->cores;

		report_number(t, GF_SMS, known(sms));
		report_number(t, GF_TENSOR_CORES, known(sms * of->tensor_cores));
	}
	report_text(t, GF_ARCHITECTURE, of->architecture);
	report_number(t, GF_SHARED_SM, known((int64_t) of->shared_kib * KIB));
	report_number(t, GF_REGISTERS_SM, known(of->registers));
	report_number(t, GF_WARP, known(WARP_THREADS));
	report_number(t, GF_WARPS_SM, known(of->warps));
	report_number(t, GF_THREADS_SM, known((int64_t) of->warps * WARP_THREADS));
	report_number(t, GF_BLOCKS_SM, known(of->blocks));
}

/* CUDA numbers devices differently, so they are matched by UUID. For a divided GPU CUDA reports the
 * limits of an instance, which are left out. */
static void report_cuda(void *ctx, const char *uuid, enum gpu_fact fact, int64_t value)
{
	struct {
		struct source *s;
		struct fact_reporter *t;
	} const *both = ctx;

	for (size_t i = 0; i < both->s->n_gpus; i++) {
		const struct nvml_gpu *d = both->s->gpus[i];

		both->t->id = d->id;
		if (d->id && !d->parent && !d->mig && strcmp(d->uuid, uuid) == 0)
			report_number(both->t, fact, known(value));
	}
}

/* CUDA's driver opens every GPU, so it is not started while one sleeps. */
static bool any_asleep(const struct source *s)
{
	for (size_t i = 0; i < s->n_gpus; i++) {
		if (s->gpus[i]->state == NVML_ASLEEP)
			return true;
	}
	return false;
}

void nvml_facts(struct source *s, const struct gpu_fact_set *wanted, source_fact_fn *report, void *ctx)
{
	struct fact_reporter t = { .wanted = wanted, .report = report, .ctx = ctx };
	const struct {
		struct source *s;
		struct fact_reporter *t;
	} both = { s, &t };

	for (size_t i = 0; i < s->n_gpus; i++) {
		struct nvml_gpu *d = s->gpus[i];

		t.id = d->id;
		nvml_turn_to(s, d);
		if (d->state == NVML_AWAY && !d->parent)
			report_number(&t, GF_LOST, known(d->lost_code));
		if (!d->id || d->state != NVML_AWAKE)
			continue;
		for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++)
			report_row(s, d, row, &t);
		report_sm(s, d, &t);
		report_metric_lacks(d, &t);
	}
	nvml_turn_to(s, NULL);
	if (cuda_facts_any(wanted) && !any_asleep(s))
		cuda_facts(report_cuda, (void *) (uintptr_t) &both);
}

/* SPDX-License-Identifier: MIT
 *
 * Properties of the GPUs, one fact a line.
 */
#include <stdio.h>
#include <string.h>

#include "sink/gpus/gpus_internal.h"

enum {
	LABEL = 30, /* columns */
};

static const struct {
	const char *label;
	enum gpu_fact fact;
} rows[] = {
	{ "Architecture", GF_ARCHITECTURE },
	{ "Compute capability", GF_CAPABILITY },
	{ "Multiprocessors (SMs)", GF_SMS },
	{ "FP32 cores", GF_CORES },
	{ "Tensor cores", GF_TENSOR_CORES },
	{ "Shared memory per SM", GF_SHARED_SM },
	{ "Shared memory per block", GF_SHARED_BLOCK },
	{ "  at most, on request", GF_SHARED_BLOCK_MOST },
	{ "32-bit registers per SM", GF_REGISTERS_SM },
	{ "32-bit registers per block", GF_REGISTERS_BLOCK },
	{ "L2 cache", GF_L2 },
	{ "Constant memory", GF_CONSTANT },
	{ "Threads per warp", GF_WARP },
	{ "Warps per SM", GF_WARPS_SM },
	{ "Threads per SM", GF_THREADS_SM },
	{ "Threads per block", GF_THREADS_BLOCK },
	{ "Blocks per SM", GF_BLOCKS_SM },
	{ "Copy engines", GF_COPY_ENGINES },
	{ "Memory bus", GF_BUS_BITS },
	{ "SM clock, maximum", GF_MAX_CLOCK_SM },
	{ "Memory clock, maximum", GF_MAX_CLOCK_MEM },
	{ "Power limit, default", GF_POWER_DEFAULT },
	{ "  minimum and maximum", GF_POWER_MIN },
	{ "Throttles at", GF_TEMP_SLOWDOWN },
	{ "Shuts down at", GF_TEMP_SHUTDOWN },
	{ "PCIe, maximum", GF_PCIE_GENERATION_MAX },
	{ "ECC", GF_ECC },
	{ "MIG", GF_MIG },
	{ "Persistence mode", GF_PERSISTENCE },
	{ "VBIOS", GF_VBIOS },
	{ "Serial number", GF_SERIAL },
	{ "CUDA version supported", GF_CUDA_VERSION },
};

/* Not rows themselves, but parts of rows. */
static const enum gpu_fact further[] = { GF_POWER_MAX, GF_PCIE_LANES_MAX };

void gpus_spec_plan(struct gpus_needs *ret)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ret->facts.has[rows[i].fact] = true;
	for (size_t i = 0; i < sizeof(further) / sizeof(further[0]); i++)
		ret->facts.has[further[i]] = true;
}

static const char *onoff(int64_t flag)
{
	return flag ? "on" : "off";
}

/* Facts with a form of their own. False: none of those. */
static bool write_own(const struct gpu_now *g, enum gpu_fact fact, long long value, char text[64])
{
	const struct maybe most = g->facts[GF_POWER_MAX].number, lanes = g->facts[GF_PCIE_LANES_MAX].number;

	if (fact == GF_CAPABILITY)
		(void) snprintf(text, 64, "%lld.%lld", value / 10, value % 10);
	else if (fact == GF_BUS_BITS)
		(void) snprintf(text, 64, "%lld bit", value);
	else if (fact == GF_CUDA_VERSION)
		(void) snprintf(text, 64, "%lld.%lld", value / 1000, value % 1000 / 10);
	else if (fact == GF_POWER_MIN && most.known)
		(void) snprintf(
			text, 64, "%lld to %lld W", value / 1000000, (long long) most.value / 1000000);
	else if (fact == GF_PCIE_GENERATION_MAX && lanes.known)
		(void) snprintf(text, 64, "generation %lld, %lld lanes", value, (long long) lanes.value);
	else
		return false;
	return true;
}

static void write_fact(const struct gpu_now *g, enum gpu_fact fact, enum units units, char text[64])
{
	const long long value = (long long) g->facts[fact].number.value;
	char bytes[UNITS_LEN];

	if (write_own(g, fact, value, text))
		return;
	switch (gpu_facts[fact].kind) {
	case FACT_TEXT:
		(void) snprintf(text, 64, "%.63s", g->facts[fact].text);
		break;
	case FACT_BYTES:
		(void) snprintf(text, 64, "%s", units_bytes(value, units, bytes));
		break;
	case FACT_HZ:
		(void) snprintf(text, 64, "%lld MHz", value / 1000000);
		break;
	case FACT_UW:
		(void) snprintf(text, 64, "%lld W", value / 1000000);
		break;
	case FACT_MCEL:
		(void) snprintf(text, 64, "%lld C", value / 1000);
		break;
	case FACT_FLAG:
		(void) snprintf(text, 64, "%s", onoff(value));
		break;
	case FACT_COUNT:
	case FACT_MASK:
	default:
		(void) snprintf(text, 64, "%lld", value);
		break;
	}
}

static void put_line(const struct sink_options *o, struct buf *out, const char *label, const char *value)
{
	(void) buf_printf(out, "  %-*s", LABEL, label);
	gpus_put_text(value, o, out);
	(void) buf_str(out, "\n");
}

static void put_device(
	const struct gpus_now *now, const struct gpu_now *g, const struct sink_options *o, struct buf *out)
{
	char number[UNITS_LEN], bytes[UNITS_LEN], text[64];

	(void) buf_printf(out, "GPU %s  ", gpus_number(g, number));
	gpus_put_text(*g->name ? g->name : gpus_best_name(now, g), o, out);
	(void) buf_str(out, "\n");
	if (gpus_now_is_lost(now, g))
		put_line(o, out, "State", "lost");
	put_line(o, out, "UUID", *g->uuid ? g->uuid : "unknown");
	if (*g->pci)
		put_line(o, out, "PCI", g->pci);
	if (*g->driver)
		put_line(o, out, "Driver", g->driver);
	if (g->memory_bytes.known) {
		(void) snprintf(text, sizeof(text), "%s%s",
			units_bytes(g->memory_bytes.value, o->units, bytes),
			g->unified ? ", shared with the host" : "");
		put_line(o, out, "Memory", text);
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!g->facts[rows[i].fact].number.known && !g->facts[rows[i].fact].text)
			continue;
		write_fact(g, rows[i].fact, o->units, text);
		put_line(o, out, rows[i].label, text);
	}
}

static void put_note(const char *why, const struct sink_options *o, struct buf *out)
{
	(void) buf_str(out, "\nnote: ");
	gpus_put_text(why, o, out);
	(void) buf_str(out, "\n");
}

void gpus_spec(const struct gpus_now *now, const struct sink_options *o, struct buf *out)
{
	bool any = false;

	for (size_t i = 0; i < now->n_gpus; i++) {
		if (!now->gpus[i].is_chosen)
			continue;
		(void) buf_str(out, any ? "\n" : "");
		put_device(now, &now->gpus[i], o, out);
		any = true;
	}
	for (size_t i = 0; i < now->n_notes; i++) {
		if (strcmp(now->notes[i].about, "gpu") == 0)
			put_note(now->notes[i].why, o, out);
	}
}

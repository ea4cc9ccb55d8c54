/* SPDX-License-Identifier: MIT
 *
 * The GPUs for programs: docs/gpus.schema.json is the contract. Base units, null for unavailable
 * values.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "sink/export/export_internal.h"
#include "sink/gpus/gpus_internal.h"

static void key_unit(struct json *j, const char *key, enum unit unit, struct maybe value)
{
	json_key(j, key);
	if (!value.known)
		json_null(j);
	else if (export_digits(unit) == 0)
		json_int(j, value.value);
	else
		json_decimal(j, value.value, export_digits(unit));
}

struct key {
	const char *key;
	enum metric metric;
};

#define N(table) (sizeof(table) / sizeof((table)[0]))

static void put_keys(
	struct json *j, const char *name, const struct key *keys, size_t n, const struct maybe *values)
{
	if (name) {
		json_key(j, name);
		json_object(j);
	}
	for (size_t i = 0; i < n; i++)
		key_unit(j, keys[i].key, metrics[keys[i].metric].unit, values[keys[i].metric]);
	if (name)
		json_end(j);
}

static const struct key utilization[] = {
	{ "gpu", M_GPU_BUSY },
	{ "memory", M_GPU_MEM_BUSY },
	{ "graphics_active", M_GPU_GRAPHICS_ACTIVE },
	{ "sm_active", M_GPU_SM_ACTIVE },
	{ "sm_occupancy", M_GPU_SM_OCCUPANCY },
	{ "tensor_active", M_GPU_TENSOR_ACTIVE },
	{ "fp64_active", M_GPU_FP64_ACTIVE },
	{ "fp32_active", M_GPU_FP32_ACTIVE },
	{ "fp16_active", M_GPU_FP16_ACTIVE },
	{ "dram_active", M_GPU_DRAM_ACTIVE },
	{ "encoder", M_GPU_ENC_BUSY },
	{ "decoder", M_GPU_DEC_BUSY },
	{ "jpeg", M_GPU_JPG_BUSY },
	{ "optical_flow", M_GPU_OFA_BUSY },
};
static const struct key power[] = { { "now", M_GPU_POWER }, { "limit", M_GPU_POWER_LIMIT } };
static const struct key temperature[] = { { "gpu", M_GPU_TEMP }, { "memory", M_GPU_TEMP_MEM } };
static const struct key clock_hz[] = { { "sm", M_GPU_CLOCK_SM }, { "memory", M_GPU_CLOCK_MEM } };
static const struct key rest[] = { { "energy_j", M_GPU_ENERGY }, { "performance_state", M_GPU_PSTATE },
	{ "fan", M_GPU_FAN } };
static const struct key errors[] = { { "ecc_corrected", M_GPU_ECC_CORRECTED },
	{ "ecc_uncorrected", M_GPU_ECC_UNCORRECTED } };
static const struct key traffic[] = {
	{ "pcie_rx_bytes", M_GPU_PCIE_RX },
	{ "pcie_tx_bytes", M_GPU_PCIE_TX },
	{ "nvlink_rx_bytes", M_GPU_NVLINK_RX },
	{ "nvlink_tx_bytes", M_GPU_NVLINK_TX },
};
static const struct key of_process[] = {
	{ "memory_bytes", M_GPROC_MEM },
	{ "host_memory_bytes", M_GPROC_MEM_HOST },
	{ "peak_bytes", M_GPROC_MEM_PEAK },
	{ "sm_busy", M_GPROC_SM_BUSY },
	{ "memory_busy", M_GPROC_MEM_BUSY },
	{ "encoder_busy", M_GPROC_ENC_BUSY },
	{ "decoder_busy", M_GPROC_DEC_BUSY },
};

static const char *lead_key(const struct gpu_now *g)
{
	const enum metric lead = gpu_now_lead(g);

	for (size_t i = 0; i < N(utilization) && lead != METRIC_COUNT; i++) {
		if (utilization[i].metric == lead)
			return utilization[i].key;
	}
	return NULL;
}

static void put_memory(struct json *j, const struct gpu_now *g)
{
	static const struct key memory[] = {
		{ "used_bytes", M_GPU_MEM },
		{ "free_bytes", M_GPU_MEM_FREE },
		{ "reserved_bytes", M_GPU_MEM_RESERVED },
		{ "host_bytes", M_GPU_MEM_HOST },
		{ "unattributed_bytes", M_GPU_UNATTRIBUTED_MEM },
	};

	json_key(j, "memory");
	json_object(j);
	key_unit(j, "total_bytes", UNIT_BYTES, g->memory_bytes);
	put_keys(j, NULL, memory, N(memory), g->metrics);
	json_key_bool(j, "unified", g->unified);
	json_key_bool(j, "numa", g->is_numa);
	json_end(j);
}

static void put_process(struct json *j, const struct gpu_user_now *u, bool hidden)
{
	json_object(j);
	key_unit(j, "pid", UNIT_COUNT, u->pid);
	json_key_bool(j, "visible", !hidden);
	key_unit(j, "uid", UNIT_COUNT, u->uid);
	json_key_text(j, "user", u->user);
	json_key_text(j, "name", u->name);
	json_key_text(j, "command", u->command);
	json_key_bool(j, "compute", u->compute);
	json_key_bool(j, "graphics", u->graphics);
	put_keys(j, NULL, of_process, N(of_process), u->metrics);
	json_end(j);
}

/* null: the list could not be read, unlike an empty list. */
static void put_processes(struct json *j, const struct gpus_now *now, const struct gpu_now *g)
{
	json_key(j, "processes");
	if (!g->metrics[M_GPU_PROCESSES].known) {
		json_null(j);
		return;
	}
	json_array(j);
	for (int hidden = 0; hidden < 2; hidden++) {
		const struct gpu_user_now *u = NULL;

		while ((u = gpus_next_user(now, g, u, hidden)))
			put_process(j, u, hidden);
	}
	json_end(j);
}

static void put_fact(struct json *j, const char *key, const struct gpu_now *g, enum gpu_fact fact)
{
	static const enum unit units[] = { [FACT_COUNT] = UNIT_COUNT,
		[FACT_BYTES] = UNIT_BYTES,
		[FACT_HZ] = UNIT_HZ,
		[FACT_UW] = UNIT_UW,
		[FACT_MCEL] = UNIT_MCEL,
		[FACT_FLAG] = UNIT_COUNT,
		[FACT_MASK] = UNIT_COUNT,
		[FACT_TEXT] = UNIT_COUNT };
	const enum gpu_fact_kind kind = gpu_facts[fact].kind;

	if (kind == FACT_TEXT)
		json_key_text(j, key, g->facts[fact].text);
	else if (kind == FACT_FLAG && g->facts[fact].number.known)
		json_key_bool(j, key, g->facts[fact].number.value);
	else
		key_unit(j, key, units[kind], g->facts[fact].number);
}

static void put_spec(struct json *j, const struct gpu_now *g)
{
	static const struct {
		const char *key;
		enum gpu_fact fact;
	} rows[] = {
		{ "architecture", GF_ARCHITECTURE },
		{ "sms", GF_SMS },
		{ "cores", GF_CORES },
		{ "tensor_cores", GF_TENSOR_CORES },
		{ "shared_bytes_per_sm", GF_SHARED_SM },
		{ "shared_bytes_per_block", GF_SHARED_BLOCK },
		{ "shared_bytes_per_block_max", GF_SHARED_BLOCK_MOST },
		{ "registers_per_sm", GF_REGISTERS_SM },
		{ "registers_per_block", GF_REGISTERS_BLOCK },
		{ "l2_bytes", GF_L2 },
		{ "constant_bytes", GF_CONSTANT },
		{ "warp_threads", GF_WARP },
		{ "warps_per_sm", GF_WARPS_SM },
		{ "threads_per_sm", GF_THREADS_SM },
		{ "threads_per_block", GF_THREADS_BLOCK },
		{ "blocks_per_sm", GF_BLOCKS_SM },
		{ "copy_engines", GF_COPY_ENGINES },
		{ "bus_bits", GF_BUS_BITS },
		{ "sm_clock_hz", GF_MAX_CLOCK_SM },
		{ "memory_clock_hz", GF_MAX_CLOCK_MEM },
		{ "power_limit_default_w", GF_POWER_DEFAULT },
		{ "power_limit_min_w", GF_POWER_MIN },
		{ "power_limit_max_w", GF_POWER_MAX },
		{ "slowdown_c", GF_TEMP_SLOWDOWN },
		{ "shutdown_c", GF_TEMP_SHUTDOWN },
		{ "pcie_generation", GF_PCIE_GENERATION_MAX },
		{ "pcie_lanes", GF_PCIE_LANES_MAX },
		{ "cuda_version", GF_CUDA_VERSION },
		{ "vbios", GF_VBIOS },
		{ "serial", GF_SERIAL },
		{ "ecc", GF_ECC },
		{ "persistence", GF_PERSISTENCE },
	};
	const struct maybe capability = g->facts[GF_CAPABILITY].number;
	char text[UNITS_LEN];

	json_key(j, "spec");
	json_object(j);
	(void) snprintf(text, sizeof(text), "%lld.%lld", (long long) capability.value / 10,
		(long long) capability.value % 10);
	json_key_text(j, "compute_capability", capability.known ? text : NULL);
	for (size_t i = 0; i < N(rows); i++)
		put_fact(j, rows[i].key, g, rows[i].fact);
	json_end(j);
}

static const char *state_of(const struct gpus_now *now, const struct gpu_now *g)
{
	return gpus_now_is_lost(now, g) ? "lost" : g->facts[GF_ASLEEP].number.known ? "asleep"
										    : "ok";
}

static void put_device(
	struct json *j, const struct gpus_options *o, const struct gpus_now *now, const struct gpu_now *g)
{
	char number[UNITS_LEN];

	json_object(j);
	json_key_text(j, "number", gpus_number(g, number));
	key_unit(j, "index", UNIT_COUNT, g->index);
	key_unit(j, "cuda_index", UNIT_COUNT, g->cuda_index);
	key_unit(j, "cuda_visible_index", UNIT_COUNT, g->visible);
	json_key_bool(j, "cuda_hidden", g->is_hidden);
	json_key_text(j, "state", state_of(now, g));
	json_key_text(j, "uuid", g->uuid);
	json_key_text(j, "parent", g->parent);
	json_key_text(j, "pci", g->pci);
	json_key_text(j, "name", g->name);
	json_key_text(j, "vendor", g->vendor);
	json_key_text(j, "driver", g->driver);
	put_memory(j, g);
	json_key_text(j, "utilization_lead", lead_key(g));
	put_keys(j, "utilization", utilization, N(utilization), g->metrics);
	put_keys(j, "power_w", power, N(power), g->metrics);
	json_key_bool(j, "power_of_module", g->is_module);
	key_unit(j, "power_averaged_s", UNIT_NS, g->power_span_ns);
	put_keys(j, "temperature_c", temperature, N(temperature), g->metrics);
	put_keys(j, "clock_hz", clock_hz, N(clock_hz), g->metrics);
	put_keys(j, NULL, rest, N(rest), g->metrics);
	put_keys(j, "errors", errors, N(errors), g->metrics);
	put_keys(j, "traffic", traffic, N(traffic), g->metrics);
	put_processes(j, now, g);
	if (o->spec)
		put_spec(j, g);
	json_end(j);
}

void gpus_json(const struct gpus_options *o, const struct gpus_now *now, struct buf *out)
{
	struct json j;
	char date[UNITS_LEN];

	json_init(&j, out, false);
	json_object(&j);
	key_unit(&j, "schema", UNIT_COUNT, known(2));
	json_key_text(&j, "hiwater", HIW_VERSION);
	json_key_text(&j, "host", now->host);
	json_key_text(&j, "time", units_rfc3339(now->wall_ns, date));
	json_key(&j, "devices");
	json_array(&j);
	for (size_t i = 0; i < now->n_gpus; i++) {
		if (now->gpus[i].is_chosen)
			put_device(&j, o, now, &now->gpus[i]);
	}
	json_end(&j);
	json_key(&j, "notes");
	json_array(&j);
	for (size_t i = 0; i < now->n_notes; i++) {
		json_object(&j);
		json_key_text(&j, "about", now->notes[i].about);
		json_key_text(&j, "why", now->notes[i].why);
		json_end(&j);
	}
	json_end(&j);
	json_end(&j);
	(void) buf_str(out, "\n");
}

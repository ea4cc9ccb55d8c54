/* SPDX-License-Identifier: MIT
 *
 * The GPUs of a summary for programs: tables map metrics to keys.
 */
#include <string.h>

#include "sink/json/json_summary.h"
#include "summary/framework.h"

static void key_scaled(struct json *j, const char *key, struct maybe value, double scale)
{
	json_key(j, key);
	if (value.known)
		json_num(j, (double) value.value / scale);
	else
		json_null(j);
}

static void key_bool_or_null(struct json *j, const char *key, struct maybe value)
{
	json_key(j, key);
	if (value.known)
		json_bool(j, value.value != 0);
	else
		json_null(j);
}

static void key_method(struct json *j, enum method method)
{
	json_key_text(j, "method", method == METHOD_UNKNOWN ? NULL : method_name(method));
}

/* A metric of a GPU and its key. */
struct key {
	const char *key;
	enum metric metric;
};

static const struct key utilization[] = {
	{ "gpu_mean", M_GPU_BUSY },
	{ "memory_mean", M_GPU_MEM_BUSY },
	{ "graphics_active_mean", M_GPU_GRAPHICS_ACTIVE },
	{ "sm_active_mean", M_GPU_SM_ACTIVE },
	{ "sm_occupancy_mean", M_GPU_SM_OCCUPANCY },
	{ "tensor_active_mean", M_GPU_TENSOR_ACTIVE },
	{ "fp64_active_mean", M_GPU_FP64_ACTIVE },
	{ "fp32_active_mean", M_GPU_FP32_ACTIVE },
	{ "fp16_active_mean", M_GPU_FP16_ACTIVE },
	{ "dram_active_mean", M_GPU_DRAM_ACTIVE },
};

static const struct key throttled[] = {
	{ "power", M_GPU_THROTTLE_POWER },
	{ "thermal", M_GPU_THROTTLE_THERMAL },
	{ "hardware", M_GPU_THROTTLE_HW },
	{ "other", M_GPU_THROTTLE_OTHER },
};

static const struct key errors[] = {
	{ "ecc_corrected", M_GPU_ECC_CORRECTED },
	{ "ecc_uncorrected", M_GPU_ECC_UNCORRECTED },
	{ "xid", M_GPU_XID },
};

static const struct key traffic[] = {
	{ "pcie_rx_bytes", M_GPU_PCIE_RX },
	{ "pcie_tx_bytes", M_GPU_PCIE_TX },
	{ "nvlink_rx_bytes", M_GPU_NVLINK_RX },
	{ "nvlink_tx_bytes", M_GPU_NVLINK_TX },
};

#define N(table) (sizeof(table) / sizeof((table)[0]))

static void risen(struct json *j, const char *key, const struct summary *s, uint32_t id,
	const struct key *keys, size_t n, double scale)
{
	json_key_object(j, key);
	for (size_t i = 0; i < n; i++) {
		const struct maybe value = summary_risen(s, keys[i].metric, id);

		if (scale > 1)
			key_scaled(j, keys[i].key, value, scale);
		else
			json_key_maybe(j, keys[i].key, value);
	}
	json_end(j);
}

static void memory(struct json *j, const struct summary *s, const struct birth *b)
{
	enum method method;
	const struct maybe job = summary_gpu_job_peak(s, b->id, &method);

	json_key_object(j, "memory");
	json_key_maybe(j, "total_bytes", b->gpu.memory_bytes);
	json_key_maybe(j, "peak_bytes", summary_gpu_device_peak(s, b->id));
	json_key_maybe(j, "mean_bytes", summary_mean(s, M_GPU_MEM, b->id));
	json_key_maybe(j, "job_peak_bytes", job);
	json_key_maybe(j, "job_high_bytes", summary_gpu_job_high(s, b->id));
	json_key_maybe(j, "job_mean_bytes", summary_gpu_job_mean(s, b->id));
	key_method(j, method);
	json_key_maybe(j, "other_peak_bytes", summary_most(s, M_GPU_OTHER_MEM, b->id));
	json_key_maybe(j, "unattributed_peak_bytes", summary_most(s, M_GPU_UNATTRIBUTED_MEM, b->id));
	json_key_maybe(j, "reserved_bytes", summary_most(s, M_GPU_MEM_RESERVED, b->id));
	json_key(j, "unified");
	json_bool(j, b->gpu.unified);
	json_key(j, "numa");
	json_bool(j, b->gpu.is_numa);
	json_end(j);
}

/* The key of the most informative utilisation. */
static const char *lead_key(const struct summary *s, uint32_t id)
{
	enum metric lead;

	for (size_t i = 0; summary_gpu_lead(s, id, &lead) && i < N(utilization); i++) {
		if (utilization[i].metric == lead)
			return utilization[i].key;
	}
	return NULL;
}

static void work(struct json *j, const struct summary *s, uint32_t id)
{
	json_key_text(j, "utilization_lead", lead_key(s, id));
	json_key_object(j, "utilization");
	for (size_t i = 0; i < N(utilization); i++)
		key_scaled(j, utilization[i].key, summary_mean(s, utilization[i].metric, id), 1e6);
	json_end(j);
}

static void power(struct json *j, const struct summary *s, const struct birth *b)
{
	bool counted;
	const struct maybe energy = summary_gpu_energy(s, b->id, &counted);

	key_scaled(j, "energy_j", energy, 1e6);
	json_key_text(j, "energy_source", !energy.known ? NULL : counted ? "counter"
									 : "power over time");
	json_key_object(j, "power_w");
	key_scaled(j, "mean", summary_mean(s, M_GPU_POWER, b->id), 1e6);
	key_scaled(j, "max", summary_most(s, M_GPU_POWER, b->id), 1e6);
	key_scaled(j, "limit", summary_most(s, M_GPU_POWER_LIMIT, b->id), 1e6);
	json_key(j, "module");
	json_bool(j, b->gpu.is_module);
	key_scaled(j, "averaged_s", b->gpu.power_span_ns, 1e9);
	json_end(j);
	json_key_object(j, "temperature_c");
	key_scaled(j, "max", summary_most(s, M_GPU_TEMP, b->id), 1e3);
	key_scaled(j, "memory_max", summary_most(s, M_GPU_TEMP_MEM, b->id), 1e3);
	json_end(j);
}

static void process(struct json *j, const struct summary *s, const struct birth *b)
{
	enum method method;
	struct maybe high;
	const struct maybe peak = summary_gpu_process_peak(s, b, &method, &high);
	const struct process *member = b->gpu_process.process
					       ? job_process_by_id(s->job, b->gpu_process.process)
					       : NULL;

	json_object(j);
	json_key_maybe(j, "pid", b->gpu_process.pid);
	json_key_text(j, "name", member ? member->name : b->gpu_process.name);
	json_key(j, "job");
	json_bool(j, b->gpu_process.process != 0);
	json_key_maybe(j, "uid", b->gpu_process.uid);
	json_key_maybe(j, "peak_bytes", peak);
	json_key_maybe(j, "high_bytes", high);
	json_key_maybe(j, "mean_bytes", summary_mean(s, M_GPROC_MEM, b->id));
	key_method(j, method);
	key_scaled(j, "busy_mean", summary_mean(s, M_GPROC_SM_BUSY, b->id), 1e6);
	json_end(j);
}

static void processes(struct json *j, const struct summary *s, uint32_t gpu)
{
	size_t shown = 0;

	json_key(j, "processes");
	json_array(j);
	for (size_t i = 0; i < job_gpu_process_count(s->job) && shown < JSON_PROCESSES; i++) {
		const struct birth *b = &job_gpu_process(s->job, i)->birth;

		if (b->gpu_process.gpu != gpu)
			continue;
		process(j, s, b);
		shown++;
	}
	json_end(j);
}

/* Memory statistics of the job's frameworks. */
static void frameworks(struct json *j, const struct summary *s, const struct birth *b)
{
	struct framework list[FRAMEWORKS_MOST];
	const size_t n = frameworks_of(s->job, b, list);

	json_key_object(j, "framework");
	for (size_t i = 0; i < n; i++) {
		json_key_object(j, list[i].name);
		json_key_maybe(j, "allocated_peak_bytes", list[i].allocated_peak);
		json_key_maybe(j, "reserved_peak_bytes", list[i].reserved_peak);
		key_scaled(j, "fragmentation_max", list[i].fragmentation_ppm, 1e6);
		json_key_maybe(j, "alloc_retries", list[i].alloc_retries);
		json_key_maybe(j, "ooms", list[i].ooms);
		json_end(j);
	}
	json_end(j);
}

static void device(struct json *j, const struct summary *s, const struct birth *b)
{
	json_object(j);
	json_key_maybe(j, "index", b->gpu.index);
	json_key_maybe(j, "cuda_index", b->gpu.cuda_index);
	json_key_text(j, "uuid", b->gpu.uuid);
	json_key_text(j, "parent", b->gpu.parent);
	json_key_text(j, "pci", b->gpu.pci);
	json_key_text(j, "name", b->gpu.name);
	json_key_text(j, "vendor", b->gpu.vendor);
	json_key_text(j, "driver", b->gpu.driver);
	key_bool_or_null(j, "allocated", gpu_is_allocated(s->facts, &b->gpu));
	memory(j, s, b);
	work(j, s, b->id);
	power(j, s, b);
	risen(j, "throttled_s", s, b->id, throttled, N(throttled), 1e9);
	risen(j, "traffic", s, b->id, traffic, N(traffic), 1);
	risen(j, "errors", s, b->id, errors, N(errors), 1);
	processes(j, s, b->id);
	frameworks(j, s, b);
	json_end(j);
}

static void peak(struct json *j, const char *key, struct maybe bytes)
{
	json_key_object(j, key);
	json_key_maybe(j, "peak_bytes", bytes);
	json_end(j);
}

void json_gpu(struct json *j, const struct summary *s)
{
	const size_t n = s->job ? job_gpu_count(s->job) : 0;

	if (n == 0 && !s->gpu_none) {
		json_null(j);
		return;
	}
	json_object(j);
	peak(j, "main", s->gpu_main_peak);
	peak(j, "descendants", s->gpu_descendants_peak);
	json_key_object(j, "combined");
	json_key_maybe(j, "peak_bytes", s->gpu_peak);
	key_method(j, s->gpu_method);
	json_end(j);
	json_key(j, "devices");
	json_array(j);
	for (size_t i = 0; i < n; i++)
		device(j, s, &job_gpu(s->job, i)->birth);
	json_end(j);
	json_end(j);
}

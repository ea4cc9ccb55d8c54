/* SPDX-License-Identifier: MIT
 *
 * The part of NVML's binary interface that hiwater uses, declared here so that no header of
 * NVIDIA's is needed to build. In the library, a name without suffix is the oldest form of a call,
 * with the smallest structs, whatever NVIDIA's header maps it to: every name below is the one
 * passed to dlsym, and is listed with the struct that exactly this name fills. Sizes are those of
 * x86-64 and aarch64; unless noted, they have not changed within a name.
 */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* Return codes. NVML has more, and adds new ones; tables.h classifies them. */
enum nvml_return {
	NVML_SUCCESS = 0,
	NVML_UNINITIALIZED = 1,
	NVML_INVALID_ARGUMENT = 2,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_NOT_FOUND = 6,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_DRIVER_NOT_LOADED = 9,
	NVML_TIMEOUT = 10,
	NVML_LIBRARY_NOT_FOUND = 12,
	NVML_FUNCTION_NOT_FOUND = 13,
	NVML_GPU_IS_LOST = 15,
	NVML_RESET_REQUIRED = 16,
	NVML_LIB_RM_VERSION_MISMATCH = 18,
	NVML_NO_DATA = 21,
	NVML_ARGUMENT_VERSION_MISMATCH = 25,
	NVML_DEPRECATED = 26,
	NVML_NOT_READY = 27,
	NVML_GPU_NOT_FOUND = 28,
	NVML_UNKNOWN = 999,
};

/* "Not available", in every value of this width. */
#define NVML_NONE_U32 UINT32_MAX
#define NVML_NONE_U64 UINT64_MAX

/* The first word of a versioned struct; GPM's structs have a plain 1. */
#define NVML_VERSION(type, version) ((uint32_t) sizeof(type) | (uint32_t) (version) << 24)

enum {
	NVML_NAME = 96,    /* bytes of a name or UUID */
	NVML_VERSION_LEN = 80,
	NVML_TEMPERATURE_GPU = 0,
	NVML_THRESHOLD_SHUTDOWN = 0,
	NVML_THRESHOLD_SLOWDOWN = 1,
	NVML_CLOCK_GRAPHICS = 0,
	NVML_CLOCK_SM = 1,
	NVML_CLOCK_MEMORY = 2,
	NVML_CLOCK_VIDEO = 3,
	NVML_ECC_CORRECTED = 0,
	NVML_ECC_UNCORRECTED = 1,
	NVML_ECC_VOLATILE = 0,
	NVML_ECC_AGGREGATE = 1,
	NVML_PSTATES = 16,
	NVML_PSTATE_UNKNOWN = 32,
};

#define NVML_EVENT_XID         0x8ULL
#define NVML_EVENT_UNAVAILABLE 0x4000ULL

struct nvml_memory {
	uint64_t total, free, used; /* used: since driver 510 including the driver's reserved memory */
};

struct nvml_memory_v2 {
	uint32_t version;
	uint64_t total, reserved, free, used;
};

struct nvml_utilization {
	uint32_t gpu, memory; /* per cent */
};

struct nvml_pci {
	char bus_legacy[16];
	uint32_t domain, bus, device, id, subsystem;
	char bus_id[32]; /* "00000000:3B:00.0" */
};

struct nvml_temperature {
	uint32_t version, sensor;
	int32_t celsius;
};

union nvml_number {
	double d;
	uint32_t u32;
	uint64_t u64;
	int64_t s64;
	int32_t s32;
	uint16_t u16;
};

enum nvml_type {
	NVML_DOUBLE,
	NVML_U32,
	NVML_ULONG,
	NVML_U64,
	NVML_S64,
	NVML_S32,
	NVML_U16,
};

struct nvml_field_value {
	uint32_t id, scope;
	int64_t time_us, latency_us;
	uint32_t type, code;
	union nvml_number value;
};

struct nvml_process_sample {
	uint32_t pid;
	uint64_t time_us;
	uint32_t sm, memory, encoder, decoder; /* per cent */
};

struct nvml_process_info {
	uint64_t time_us;
	uint32_t pid, sm, memory, encoder, decoder, jpeg, optical_flow;
};

struct nvml_processes_info {
	uint32_t version, count;
	uint64_t last_seen_us;
	struct nvml_process_info *list;
};

struct nvml_accounting {
	uint32_t gpu_pct, memory_pct;
	uint64_t max_bytes, time_ms, start_us;
	uint32_t is_running, reserved[5];
};

struct nvml_gpm_support {
	uint32_t version, supported;
};

struct nvml_gpm_metric {
	uint32_t id, code;
	double value;
	const char *names[3];
};

/* The driver's array grew from 98 to 477 entries while the version stayed 1: pass a full one,
 * although few entries are used. */
struct nvml_gpm_metrics {
	uint32_t version, count;
	void *before, *after;
	struct nvml_gpm_metric metrics[477];
};

struct nvml_event {
	void *device;
	uint64_t type, data;
	uint32_t gpu_instance, compute_instance;
};

/* A struct of a version and one number. */
struct nvml_versioned {
	uint32_t version;
	int32_t value;
};

struct nvml_attributes {
	uint32_t sms, copy_engines, decoders, encoders, jpegs, optical_flows, gpu_slices, compute_slices;
	uint64_t memory_mib;
};

static_assert(sizeof(struct nvml_memory) == 24 && sizeof(struct nvml_memory_v2) == 40, "memory");
static_assert(NVML_VERSION(struct nvml_memory_v2, 2) == 0x02000028, "the version word");
static_assert(sizeof(struct nvml_utilization) == 8 && sizeof(struct nvml_temperature) == 12,
	"utilization, temperature");
static_assert(sizeof(struct nvml_pci) == 68 && offsetof(struct nvml_pci, bus_id) == 36, "PciInfo_v3");
static_assert(sizeof(struct nvml_field_value) == 40, "fields");
static_assert(
	sizeof(struct nvml_process_sample) == 32 && sizeof(struct nvml_process_info) == 40, "processes");
static_assert(sizeof(struct nvml_processes_info) == 24 && sizeof(struct nvml_accounting) == 56, "processes");
static_assert(sizeof(struct nvml_gpm_support) == 8 && sizeof(struct nvml_gpm_metric) == 40, "GPM");
static_assert(sizeof(struct nvml_gpm_metrics) == 24 + 477 * 40, "GPM");
static_assert(sizeof(struct nvml_versioned) == 8, "AddressingMode, MarginTemperature");
static_assert(sizeof(struct nvml_event) == 32 && sizeof(struct nvml_attributes) == 40, "events, attributes");

/* Every call that hiwater uses: X(member, parameters, names...). The first name that the library
 * has is loaded; names share a line only if their parameters and structs are the same. */
#define NVML_CALLS(X) \
	X(init_with_flags, (unsigned flags), "nvmlInitWithFlags") \
	X(init, (void), "nvmlInit_v2", "nvmlInit") \
	X(shutdown, (void), "nvmlShutdown") \
	X(driver_version, (char *, unsigned size), "nvmlSystemGetDriverVersion") \
	X(library_version, (char *, unsigned size), "nvmlSystemGetNVMLVersion") \
	X(cuda_version, (unsigned *), "nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion") \
	X(count, (unsigned *), "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount") \
	X(by_index, (unsigned, void **), "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex") \
	X(by_bus_id, (const char *, void **), "nvmlDeviceGetHandleByPciBusId_v2", \
		"nvmlDeviceGetHandleByPciBusId") \
	X(index, (void *, unsigned *), "nvmlDeviceGetIndex") \
	X(pci, (void *, struct nvml_pci *), "nvmlDeviceGetPciInfo_v3") \
	X(name, (void *, char *, unsigned size), "nvmlDeviceGetName") \
	X(uuid, (void *, char *, unsigned size), "nvmlDeviceGetUUID") \
	X(serial, (void *, char *, unsigned size), "nvmlDeviceGetSerial") \
	X(vbios, (void *, char *, unsigned size), "nvmlDeviceGetVbiosVersion") \
	X(part, (void *, char *, unsigned size), "nvmlDeviceGetBoardPartNumber") \
	X(minor, (void *, unsigned *), "nvmlDeviceGetMinorNumber") \
	X(persistence, (void *, unsigned *), "nvmlDeviceGetPersistenceMode") \
	X(display, (void *, unsigned *), "nvmlDeviceGetDisplayMode") \
	X(display_active, (void *, unsigned *), "nvmlDeviceGetDisplayActive") \
	X(compute_mode, (void *, unsigned *), "nvmlDeviceGetComputeMode") \
	X(addressing, (void *, struct nvml_versioned *), "nvmlDeviceGetAddressingMode") \
	X(numa_node, (void *, unsigned *), "nvmlDeviceGetNumaNodeId") \
	X(ecc_mode, (void *, unsigned *now, unsigned *pending), "nvmlDeviceGetEccMode") \
	X(retired_pending, (void *, unsigned *), "nvmlDeviceGetRetiredPagesPendingStatus") \
	X(power_managed, (void *, unsigned *), "nvmlDeviceGetPowerManagementMode") \
	X(power_set, (void *, unsigned *mw), "nvmlDeviceGetPowerManagementLimit") \
	X(pcie_generation_now, (void *, unsigned *), "nvmlDeviceGetCurrPcieLinkGeneration") \
	X(pcie_width_now, (void *, unsigned *), "nvmlDeviceGetCurrPcieLinkWidth") \
	X(reasons_known, (void *, uint64_t *mask), "nvmlDeviceGetSupportedClocksEventReasons", \
		"nvmlDeviceGetSupportedClocksThrottleReasons") \
	X(threshold, (void *, int which, unsigned *celsius), "nvmlDeviceGetTemperatureThreshold") \
	X(margin, (void *, struct nvml_versioned *), "nvmlDeviceGetMarginTemperature") \
	X(accounting_room, (void *, unsigned *), "nvmlDeviceGetAccountingBufferSize") \
	X(compute_capability, (void *, int *, int *), "nvmlDeviceGetCudaComputeCapability") \
	X(cores, (void *, unsigned *), "nvmlDeviceGetNumGpuCores") \
	X(bus_width, (void *, unsigned *bits), "nvmlDeviceGetMemoryBusWidth") \
	X(max_clock, (void *, int which, unsigned *mhz), "nvmlDeviceGetMaxClockInfo") \
	X(power_range, (void *, unsigned *min_mw, unsigned *max_mw), \
		"nvmlDeviceGetPowerManagementLimitConstraints") \
	X(power_default, (void *, unsigned *mw), "nvmlDeviceGetPowerManagementDefaultLimit") \
	X(pcie_generation, (void *, unsigned *), "nvmlDeviceGetMaxPcieLinkGeneration") \
	X(pcie_width, (void *, unsigned *), "nvmlDeviceGetMaxPcieLinkWidth") \
	X(memory_v2, (void *, struct nvml_memory_v2 *), "nvmlDeviceGetMemoryInfo_v2") \
	X(memory, (void *, struct nvml_memory *), "nvmlDeviceGetMemoryInfo") \
	X(utilization, (void *, struct nvml_utilization *), "nvmlDeviceGetUtilizationRates") \
	X(encoder, (void *, unsigned *pct, unsigned *us), "nvmlDeviceGetEncoderUtilization") \
	X(decoder, (void *, unsigned *pct, unsigned *us), "nvmlDeviceGetDecoderUtilization") \
	X(jpeg, (void *, unsigned *pct, unsigned *us), "nvmlDeviceGetJpgUtilization") \
	X(optical_flow, (void *, unsigned *pct, unsigned *us), "nvmlDeviceGetOfaUtilization") \
	X(power, (void *, unsigned *mw), "nvmlDeviceGetPowerUsage") \
	X(power_limit, (void *, unsigned *mw), "nvmlDeviceGetEnforcedPowerLimit") \
	X(energy, (void *, uint64_t *mj), "nvmlDeviceGetTotalEnergyConsumption") \
	X(temperature_v, (void *, struct nvml_temperature *), "nvmlDeviceGetTemperatureV") \
	X(temperature, (void *, int sensor, unsigned *celsius), "nvmlDeviceGetTemperature") \
	X(fan, (void *, unsigned *pct), "nvmlDeviceGetFanSpeed") \
	X(clock, (void *, int which, unsigned *mhz), "nvmlDeviceGetClockInfo") \
	X(pstate, (void *, int *), "nvmlDeviceGetPerformanceState") \
	X(reasons, (void *, uint64_t *mask), "nvmlDeviceGetCurrentClocksEventReasons", \
		"nvmlDeviceGetCurrentClocksThrottleReasons") \
	X(ecc, (void *, int kind, int counter, uint64_t *), "nvmlDeviceGetTotalEccErrors") \
	X(fields, (void *, int n, struct nvml_field_value *), "nvmlDeviceGetFieldValues") \
	X(compute_v3, (void *, unsigned *n, void *list), "nvmlDeviceGetComputeRunningProcesses_v3") \
	X(compute_v2, (void *, unsigned *n, void *list), "nvmlDeviceGetComputeRunningProcesses_v2") \
	X(compute_v1, (void *, unsigned *n, void *list), "nvmlDeviceGetComputeRunningProcesses") \
	X(graphics_v3, (void *, unsigned *n, void *list), "nvmlDeviceGetGraphicsRunningProcesses_v3") \
	X(graphics_v2, (void *, unsigned *n, void *list), "nvmlDeviceGetGraphicsRunningProcesses_v2") \
	X(graphics_v1, (void *, unsigned *n, void *list), "nvmlDeviceGetGraphicsRunningProcesses") \
	X(mps_v3, (void *, unsigned *n, void *list), "nvmlDeviceGetMPSComputeRunningProcesses_v3") \
	X(mps_v2, (void *, unsigned *n, void *list), "nvmlDeviceGetMPSComputeRunningProcesses_v2") \
	X(mps_v1, (void *, unsigned *n, void *list), "nvmlDeviceGetMPSComputeRunningProcesses") \
	X(process_details, (void *, void *), "nvmlDeviceGetRunningProcessDetailList") /* presence only */ \
	X(conf_compute, (void *, void *), "nvmlDeviceGetConfComputeMemSizeInfo") /* likewise */ \
	X(processes_use, (void *, struct nvml_processes_info *), "nvmlDeviceGetProcessesUtilizationInfo") \
	X(process_use, (void *, struct nvml_process_sample *, unsigned *n, uint64_t seen_us), \
		"nvmlDeviceGetProcessUtilization") \
	X(accounting_mode, (void *, int *), "nvmlDeviceGetAccountingMode") \
	X(accounting, (void *, unsigned pid, struct nvml_accounting *), "nvmlDeviceGetAccountingStats") \
	X(mig_mode, (void *, unsigned *now, unsigned *pending), "nvmlDeviceGetMigMode") \
	X(mig_count, (void *, unsigned *), "nvmlDeviceGetMaxMigDeviceCount") \
	X(mig_by_index, (void *, unsigned, void **), "nvmlDeviceGetMigDeviceHandleByIndex") \
	X(gpu_instance, (void *, unsigned *), "nvmlDeviceGetGpuInstanceId") \
	X(compute_instance, (void *, unsigned *), "nvmlDeviceGetComputeInstanceId") \
	X(attributes, (void *, struct nvml_attributes *), "nvmlDeviceGetAttributes_v2") \
	X(gpm_support, (void *, struct nvml_gpm_support *), "nvmlGpmQueryDeviceSupport") \
	X(gpm_alloc, (void **sample), "nvmlGpmSampleAlloc") \
	X(gpm_free, (void *sample), "nvmlGpmSampleFree") \
	X(gpm_sample, (void *, void *sample), "nvmlGpmSampleGet") \
	X(gpm_mig_sample, (void *, unsigned gpu_instance, void *sample), "nvmlGpmMigSampleGet") \
	X(gpm_metrics, (struct nvml_gpm_metrics *), "nvmlGpmMetricsGet") \
	X(event_set, (void **set), "nvmlEventSetCreate") \
	X(event_set_free, (void *set), "nvmlEventSetFree") \
	X(event_types, (void *, uint64_t *types), "nvmlDeviceGetSupportedEventTypes") \
	X(event_register, (void *, uint64_t types, void *set), "nvmlDeviceRegisterEvents") \
	X(event_wait, (void *set, struct nvml_event *, unsigned ms), "nvmlEventSetWait_v2")

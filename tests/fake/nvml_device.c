// SPDX-License-Identifier: MIT
/* Identity and figures of a device. */
#include "nvml_fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one figure each ------------------------------------------------------------------------- */

#define FIGURE(name, type, key) \
	EXPORT int nvml##name(struct fake_gpu *gpu, uint##type##_t *ret) \
	{ \
		return nvml_enter(__func__, gpu) ?: nvml_u##type(gpu, key, ret); \
	}

FIGURE(DeviceGetArchitecture, 32, "arch")
FIGURE(DeviceGetBrand, 32, "brand")
FIGURE(DeviceGetBusType, 32, "bus_type")
FIGURE(DeviceGetIrqNum, 32, "irq")
FIGURE(DeviceGetNumGpuCores, 32, "cores")
FIGURE(DeviceGetMemoryBusWidth, 32, "bus_width")
FIGURE(DeviceGetNumaNodeId, 32, "numa_node")
FIGURE(DeviceGetPowerUsage, 32, "power")
FIGURE(DeviceGetEnforcedPowerLimit, 32, "power_limit")
FIGURE(DeviceGetPowerManagementMode, 32, "power_management")
FIGURE(DeviceGetPowerManagementLimit, 32, "power_management_limit")
FIGURE(DeviceGetPowerManagementDefaultLimit, 32, "power_default_limit")
FIGURE(DeviceGetTotalEnergyConsumption, 64, "energy")
FIGURE(DeviceGetFanSpeed, 32, "fan")
FIGURE(DeviceGetNumFans, 32, "fans")
FIGURE(DeviceGetPerformanceState, 32, "pstate")
FIGURE(DeviceGetPowerState, 32, "pstate")
FIGURE(DeviceGetCurrPcieLinkGeneration, 32, "pcie_gen")
FIGURE(DeviceGetCurrPcieLinkWidth, 32, "pcie_width")
FIGURE(DeviceGetMaxPcieLinkGeneration, 32, "pcie_gen_max")
FIGURE(DeviceGetMaxPcieLinkWidth, 32, "pcie_width_max")
FIGURE(DeviceGetPcieSpeed, 32, "pcie_speed")
FIGURE(DeviceGetPcieReplayCounter, 32, "pcie_replay")
FIGURE(DeviceGetCurrentClocksEventReasons, 64, "event_reasons")
FIGURE(DeviceGetCurrentClocksThrottleReasons, 64, "event_reasons")
FIGURE(DeviceGetSupportedClocksEventReasons, 64, "event_reasons_supported")
FIGURE(DeviceGetSupportedClocksThrottleReasons, 64, "event_reasons_supported")
FIGURE(DeviceGetPersistenceMode, 32, "persistence_mode")
FIGURE(DeviceGetDisplayMode, 32, "display_mode")
FIGURE(DeviceGetDisplayActive, 32, "display_active")
FIGURE(DeviceGetComputeMode, 32, "compute_mode")
FIGURE(DeviceGetAccountingMode, 32, "accounting_mode")
FIGURE(DeviceGetAccountingBufferSize, 32, "accounting_size")
FIGURE(DeviceGetRetiredPagesPendingStatus, 32, "retired_pending")
FIGURE(DeviceGetSupportedEventTypes, 64, "event_types")

/* ---- one text each --------------------------------------------------------------------------- */

#define TEXT(name, key) \
	EXPORT int nvml##name(struct fake_gpu *gpu, char *ret, unsigned size) \
	{ \
		return nvml_enter(__func__, gpu) \
			       ?: nvml_text(fake_bag_text(&gpu->bag, key, NULL), ret, size); \
	}

TEXT(DeviceGetSerial, "serial")
TEXT(DeviceGetVbiosVersion, "vbios")
TEXT(DeviceGetBoardPartNumber, "part")

const char *nvml_uuid(const struct fake_gpu *gpu)
{
	return fake_bag_text(&gpu->bag, "uuid", "");
}

EXPORT int nvmlDeviceGetName(struct fake_gpu *gpu, char *ret, unsigned size)
{
	return nvml_enter(__func__, gpu)
		       ?: nvml_text(fake_bag_text(&gpu->bag, "name", "Fake GPU"), ret, size);
}

EXPORT int nvmlDeviceGetUUID(struct fake_gpu *gpu, char *ret, unsigned size)
{
	return nvml_enter(__func__, gpu) ?: nvml_text(nvml_uuid(gpu), ret, size);
}

static int set_u32(uint32_t *ret, uint64_t value)
{
	if (!ret)
		return NVML_INVALID_ARGUMENT;
	*ret = (uint32_t) value;
	return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetIndex(struct fake_gpu *gpu, uint32_t *ret)
{
	return nvml_enter(__func__, gpu) ?: set_u32(ret, gpu->index);
}

EXPORT int nvmlDeviceGetMinorNumber(struct fake_gpu *gpu, uint32_t *ret)
{
	int code = nvml_enter(__func__, gpu);

	if (code != 0 || gpu->parent)
		return code ?: NVML_NOT_SUPPORTED;
	return set_u32(ret, nvml_number(gpu, "minor", gpu->index));
}

/* The key of an index, or an invalid argument. */
static int chosen(const struct fake_gpu *gpu, const char *const keys[], int n, int index, uint32_t *ret)
{
	return index < 0 || index >= n ? NVML_INVALID_ARGUMENT : nvml_u32(gpu, keys[index], ret);
}

/* Two figures, or the first error. */
static int two(
	const struct fake_gpu *gpu, const char *key, uint32_t *ret, const char *other, uint32_t *ret_other)
{
	int code = nvml_u32(gpu, key, ret);

	return code ?: nvml_u32(gpu, other, ret_other);
}

EXPORT int nvmlDeviceGetCudaComputeCapability(struct fake_gpu *gpu, uint32_t *major, uint32_t *minor)
{
	return nvml_enter(__func__, gpu) ?: two(gpu, "cc_major", major, "cc_minor", minor);
}

/* ---- PCI ------------------------------------------------------------------------------------- */

static int pci_get(const struct fake_gpu *gpu, struct nvml_pci_v3 *ret)
{
	const char *text = fake_bag_text(&gpu->bag, "pci", NULL);
	char *p;
	struct nvml_pci_v1 *v1 = &ret->v2.v1;

	if (!text)
		return NVML_NOT_SUPPORTED;
	v1->domain = (uint32_t) strtoul(text, &p, 16);
	v1->bus = (uint32_t) strtoul(p + 1, &p, 16);
	v1->device = (uint32_t) strtoul(p + 1, &p, 16);
	v1->pci_device = (uint32_t) nvml_number(gpu, "pci_device", 0);
	ret->v2.subsystem = (uint32_t) nvml_number(gpu, "pci_subsystem", 0);
	snprintf(v1->bus_id, sizeof(v1->bus_id), "%04X:%02X:%02X.0", v1->domain & 0xffff, v1->bus & 0xff,
		v1->device & 0xff);
	snprintf(ret->bus_id, sizeof(ret->bus_id), "%08X:%02X:%02X.0", v1->domain, v1->bus & 0xff,
		v1->device & 0xff);
	return NVML_SUCCESS;
}

static int pci_copy(const struct fake_gpu *gpu, void *ret, size_t size)
{
	struct nvml_pci_v3 pci = { 0 };
	int code = ret ? pci_get(gpu, &pci) : NVML_INVALID_ARGUMENT;

	if (code == 0)
		memcpy(ret, &pci, size);
	return code;
}

EXPORT int nvmlDeviceGetPciInfo(struct fake_gpu *gpu, struct nvml_pci_v1 *ret)
{
	return nvml_enter(__func__, gpu) ?: pci_copy(gpu, ret, sizeof(*ret));
}

EXPORT int nvmlDeviceGetPciInfo_v2(struct fake_gpu *gpu, struct nvml_pci_v2 *ret)
{
	return nvml_enter(__func__, gpu) ?: pci_copy(gpu, ret, sizeof(*ret));
}

EXPORT int nvmlDeviceGetPciInfo_v3(struct fake_gpu *gpu, struct nvml_pci_v3 *ret)
{
	return nvml_enter(__func__, gpu) ?: pci_copy(gpu, ret, sizeof(*ret));
}

EXPORT int nvmlDeviceGetPcieThroughput(struct fake_gpu *gpu, int counter, uint32_t *ret)
{
	static const char *const keys[] = { "pcie_tx", "pcie_rx" };

	return nvml_enter(__func__, gpu) ?: chosen(gpu, keys, 2, counter, ret);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Total, reserved, used and free memory; an unknown one is all ones. */
static int memory_get(const struct fake_gpu *gpu, struct nvml_memory_v2 *ret)
{
	int code = nvml_u64(gpu, "memory_total", &ret->total) ?: nvml_u64(gpu, "memory_used", &ret->used);

	ret->reserved = nvml_number(gpu, "memory_reserved", 0);
	ret->free = UINT64_MAX;
	if (ret->total != UINT64_MAX && ret->used != UINT64_MAX && ret->reserved != UINT64_MAX)
		ret->free = ret->total - ret->used - ret->reserved;
	return code;
}

static int memory_v1(const struct fake_gpu *gpu, struct nvml_memory *ret)
{
	struct nvml_memory_v2 m = { 0 };
	int code = ret ? memory_get(gpu, &m) : NVML_INVALID_ARGUMENT;

	if (code == 0)
		*ret = (struct nvml_memory) { m.total, m.free, m.free == UINT64_MAX ? m.used : m.used + m.reserved };
	return code;
}

static int memory_v2(const struct fake_gpu *gpu, struct nvml_memory_v2 *ret)
{
	struct nvml_memory_v2 m = { 0 };
	int code = ret ? memory_get(gpu, &m) : NVML_INVALID_ARGUMENT;

	if (!ret)
		return code;
	m.version = NVML_VERSION(nvml_memory_v2, 2);
	if (ret->version != m.version)
		return NVML_ARGUMENT_VERSION_MISMATCH;
	if (code == 0)
		*ret = m;
	return code;
}

EXPORT int nvmlDeviceGetMemoryInfo(struct fake_gpu *gpu, struct nvml_memory *ret)
{
	return nvml_enter(__func__, gpu) ?: memory_v1(gpu, ret);
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(struct fake_gpu *gpu, struct nvml_memory_v2 *ret)
{
	return nvml_enter(__func__, gpu) ?: memory_v2(gpu, ret);
}

EXPORT int nvmlDeviceGetBAR1MemoryInfo(struct fake_gpu *gpu, struct nvml_memory *ret)
{
	int code = nvml_enter(__func__, gpu);

	if (code != 0 || !ret)
		return code ?: NVML_INVALID_ARGUMENT;
	code = nvml_u64(gpu, "bar1_total", &ret->total) ?: nvml_u64(gpu, "bar1_used", &ret->used);
	if (code == 0)
		ret->free = ret->total - ret->used;
	return code;
}

/* ---- figures with an argument ---------------------------------------------------------------- */

EXPORT int nvmlDeviceGetUtilizationRates(struct fake_gpu *gpu, struct nvml_utilization *ret)
{
	int code = nvml_enter(__func__, gpu);

	if (code != 0 || !ret)
		return code ?: NVML_INVALID_ARGUMENT;
	return two(gpu, "util", &ret->gpu, "util_memory", &ret->memory);
}

static int engine(const struct fake_gpu *gpu, const char *key, uint32_t *ret, uint32_t *ret_period_us)
{
	int code = nvml_u32(gpu, key, ret);

	return code ?: set_u32(ret_period_us, 166666);
}

#define ENGINE(name, key) \
	EXPORT int nvml##name(struct fake_gpu *gpu, uint32_t *ret, uint32_t *ret_period_us) \
	{ \
		return nvml_enter(__func__, gpu) ?: engine(gpu, key, ret, ret_period_us); \
	}

ENGINE(DeviceGetEncoderUtilization, "util_encoder")
ENGINE(DeviceGetDecoderUtilization, "util_decoder")
ENGINE(DeviceGetJpgUtilization, "util_jpg")
ENGINE(DeviceGetOfaUtilization, "util_ofa")

EXPORT int nvmlDeviceGetClockInfo(struct fake_gpu *gpu, int type, uint32_t *ret)
{
	static const char *const keys[] = { "clock_graphics", "clock_sm", "clock_memory", "clock_video" };

	return nvml_enter(__func__, gpu) ?: chosen(gpu, keys, 4, type, ret);
}

EXPORT int nvmlDeviceGetMaxClockInfo(struct fake_gpu *gpu, int type, uint32_t *ret)
{
	static const char *const keys[] = { "clock_max_graphics", "clock_max_sm", "clock_max_memory",
		"clock_max_video" };

	return nvml_enter(__func__, gpu) ?: chosen(gpu, keys, 4, type, ret);
}

EXPORT int nvmlDeviceGetTemperature(struct fake_gpu *gpu, int sensor, uint32_t *ret)
{
	static const char *const keys[] = { "temperature" };

	return nvml_enter(__func__, gpu) ?: chosen(gpu, keys, 1, sensor, ret);
}

EXPORT int nvmlDeviceGetTemperatureV(struct fake_gpu *gpu, struct nvml_temperature *ret)
{
	int code = nvml_enter(__func__, gpu);

	if (code != 0 || !ret)
		return code ?: NVML_INVALID_ARGUMENT;
	if (ret->version != NVML_VERSION(nvml_temperature, 1))
		return NVML_ARGUMENT_VERSION_MISMATCH;
	return ret->sensor != 0 ? NVML_INVALID_ARGUMENT
				: nvml_u32(gpu, "temperature", (uint32_t *) &ret->celsius);
}

EXPORT int nvmlDeviceGetTemperatureThreshold(struct fake_gpu *gpu, int type, uint32_t *ret)
{
	static const char *const keys[] = { "temperature_shutdown", "temperature_slowdown",
		"temperature_memory_max", "temperature_gpu_max" };

	return nvml_enter(__func__, gpu) ?: chosen(gpu, keys, 4, type, ret);
}

/* A struct of a version word and one value. */
static int versioned(const struct fake_gpu *gpu, const char *key, struct nvml_versioned *ret)
{
	if (!ret)
		return NVML_INVALID_ARGUMENT;
	if (ret->version != NVML_VERSION(nvml_versioned, 1))
		return NVML_ARGUMENT_VERSION_MISMATCH;
	return nvml_u32(gpu, key, &ret->value);
}

EXPORT int nvmlDeviceGetMarginTemperature(struct fake_gpu *gpu, struct nvml_versioned *ret)
{
	return nvml_enter(__func__, gpu) ?: versioned(gpu, "temperature_margin", ret);
}

EXPORT int nvmlDeviceGetAddressingMode(struct fake_gpu *gpu, struct nvml_versioned *ret)
{
	return nvml_enter(__func__, gpu) ?: versioned(gpu, "addressing_mode", ret);
}

/* This call has no version word: its struct is only the mode. */
EXPORT int nvmlDeviceGetC2cModeInfoV(struct fake_gpu *gpu, uint32_t *ret)
{
	return nvml_enter(__func__, gpu) ?: nvml_u32(gpu, "c2c", ret);
}

EXPORT int nvmlDeviceGetFanSpeed_v2(struct fake_gpu *gpu, uint32_t fan, uint32_t *ret)
{
	int code = nvml_enter(__func__, gpu);

	if (code != 0 || fan >= nvml_number(gpu, "fans", 1))
		return code ?: NVML_INVALID_ARGUMENT;
	return nvml_u32(gpu, "fan", ret);
}

EXPORT int nvmlDeviceGetFanSpeedRPM(struct fake_gpu *gpu, struct nvml_fan_rpm *ret)
{
	int code = nvml_enter(__func__, gpu);

	if (code != 0 || !ret)
		return code ?: NVML_INVALID_ARGUMENT;
	return ret->version != NVML_VERSION(nvml_fan_rpm, 1) ? NVML_ARGUMENT_VERSION_MISMATCH
							     : nvml_u32(gpu, "fan_rpm", &ret->rpm);
}

EXPORT int nvmlDeviceGetPowerManagementLimitConstraints(struct fake_gpu *gpu, uint32_t *least, uint32_t *most)
{
	return nvml_enter(__func__, gpu) ?: two(gpu, "power_min_limit", least, "power_max_limit", most);
}

EXPORT int nvmlDeviceGetEccMode(struct fake_gpu *gpu, uint32_t *now, uint32_t *pending)
{
	return nvml_enter(__func__, gpu) ?: two(gpu, "ecc_mode", now, "ecc_mode", pending);
}

EXPORT int nvmlDeviceGetTotalEccErrors(struct fake_gpu *gpu, int type, int counter, uint64_t *ret)
{
	static const char *const keys[2][2] = { { "ecc_corrected_volatile", "ecc_corrected_aggregate" },
		{ "ecc_uncorrected_volatile", "ecc_uncorrected_aggregate" } };

	int code = nvml_enter(__func__, gpu);

	if (code != 0 || type < 0 || type > 1 || counter < 0 || counter > 1)
		return code ?: NVML_INVALID_ARGUMENT;
	return nvml_u64(gpu, keys[type][counter], ret);
}

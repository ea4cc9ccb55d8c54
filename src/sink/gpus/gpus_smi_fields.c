/* SPDX-License-Identifier: MIT
 *
 * The table of fields. Fields of nvidia-smi that hiwater does not read are absent: an [N/A] would
 * claim that the driver was queried.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "sink/gpus/gpus_smi.h"

/* ---- fields with a form of their own ---------------------------------------------------------------------------- */

#define OWN(name) \
	static bool put_##name(const struct gpus_now *now, const struct gpu_now *gpu, \
		const struct gpu_user_now *user, const struct smi_field *field, struct buf *out)
#define UNUSED(...) (void) (sizeof((const void *[]) { __VA_ARGS__ }))

/* "2026/11/21 19:05:54.123", local time */
OWN(timestamp)
{
	const time_t s = (time_t) (now->wall_ns / 1000000000);
	struct tm tm;
	char text[64];

	UNUSED(gpu, user, field);
	(void) strftime(text, sizeof(text), "%Y/%m/%d %H:%M:%S", localtime_r(&s, &tm));
	(void) buf_printf(out, "%s.%03u", text, (unsigned) (now->wall_ns / 1000000 % 1000));
	return true;
}

static bool put(struct buf *out, const char *text)
{
	(void) buf_str(out, text);
	return *text != '\0';
}

void smi_put_text(struct buf *out, const char *text)
{
	const size_t begin = out->len;

	(void) buf_str(out, text);
	for (size_t i = begin; i < out->len; i++) {
		if (out->data[i] == ',')
			out->data[i] = ';';
	}
}

static bool put_text(struct buf *out, const char *text)
{
	smi_put_text(out, text);
	return *text != '\0';
}

OWN(driver)
{
	UNUSED(now, user, field);
	return put_text(out, gpu->driver);
}

OWN(name)
{
	UNUSED(now, user, field);
	return put_text(out, gpu->name);
}

/* nvidia-smi lists processes of an instance with the UUID of their GPU. */
OWN(uuid)
{
	UNUSED(user, field);
	const struct gpu_now *parent = gpus_now_find(now, gpu->parent);

	return put_text(out, parent ? parent->uuid : gpu->uuid);
}

OWN(count)
{
	unsigned n = 0;

	UNUSED(gpu, user, field);
	for (size_t i = 0; i < now->n_gpus; i++)
		n += !*now->gpus[i].parent;
	(void) buf_printf(out, "%u", n);
	return true;
}

OWN(index)
{
	UNUSED(now, user, field);
	(void) buf_printf(out, "%lld", (long long) gpu->number.value);
	return gpu->number.known;
}

/* "0000:3b:00.0" is "00000000:3B:00.0" there. */
OWN(bus_id)
{
	const size_t domain = strcspn(gpu->pci, ":");
	char text[48] = "";

	UNUSED(now, user, field);
	if (!*gpu->pci)
		return false;
	(void) snprintf(
		text, sizeof(text), "%.*s%.24s", (int) (domain < 8 ? 8 - domain : 0), "00000000", gpu->pci);
	for (char *p = text; *p; p++)
		*p = (char) toupper((unsigned char) *p);
	return put(out, text);
}

/* which: of "domain:bus:device.function", from 0. */
OWN(pci_part)
{
	unsigned part[3];

	UNUSED(now, user);
	char text[32], *p = text, *end;

	(void) snprintf(text, sizeof(text), "%.31s", gpu->pci);
	for (int i = 0; i < 3; i++) {
		part[i] = 0;
		for (end = p; isxdigit((unsigned char) *end); end++)
			part[i] = part[i] * 16 +
				  (unsigned) (isdigit((unsigned char) *end)
						      ? *end - '0'
						      : tolower((unsigned char) *end) - 'a' + 10);
		if (end == p)
			return false;
		p = end + (*end != '\0');
	}
	(void) buf_printf(out, field->which == 0 ? "0x%04X" : "0x%02X", part[field->which]);
	return true;
}

OWN(capability)
{
	const struct maybe value = gpu->facts[GF_CAPABILITY].number;

	UNUSED(now, user, field);
	if (value.known)
		(void) buf_printf(
			out, "%lld.%lld", (long long) value.value / 10, (long long) value.value % 10);
	return value.known;
}

static bool put_one_of(const char *const *names, size_t n, struct maybe value, struct buf *out)
{
	return value.known && value.value >= 0 && (size_t) value.value < n && put(out, names[value.value]);
}

OWN(compute_mode)
{
	static const char *const names[] = { "Default", "Exclusive_Thread", "Prohibited",
		"Exclusive_Process" };

	UNUSED(now, user, field);
	return put_one_of(names, sizeof(names) / sizeof(names[0]), gpu->facts[GF_COMPUTE_MODE].number, out);
}

OWN(addressing)
{
	static const char *const names[] = { "None", "HMM", "ATS" };

	UNUSED(now, user, field);
	return put_one_of(names, sizeof(names) / sizeof(names[0]), gpu->facts[GF_ADDRESSING].number, out);
}

/* nvidia-smi has no total for a device that uses the host's memory. */
OWN(total)
{
	const bool has_its_own = gpu->memory_bytes.known && !gpu->unified;

	UNUSED(now, user, field);
	if (has_its_own)
		(void) buf_printf(out, "%lld", (long long) gpu->memory_bytes.value >> 20);
	return has_its_own;
}

/* A reason for the clocks: the bit of the mask that the last part of the field's name stands for. */
OWN(reason)
{
	static const struct {
		const char *name;
		int64_t bit;
	} bits[] = {
		{ "gpu_idle", 0x1 },
		{ "applications_clocks_setting", 0x2 },
		{ "sw_power_cap", 0x4 },
		{ "hw_slowdown", 0x8 },
		{ "sync_boost", 0x10 },
		{ "sw_thermal_slowdown", 0x20 },
		{ "hw_thermal_slowdown", 0x40 },
		{ "hw_power_brake_slowdown", 0x80 },
	};
	const struct maybe mask = gpu->facts[GF_REASONS].number;

	UNUSED(now, user);
	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]) && mask.known; i++) {
		if (strcmp(strchr(field->name, '.') + 1, bits[i].name) == 0)
			return put(out, mask.value & bits[i].bit ? "Active" : "Not Active");
	}
	return false;
}

OWN(pid)
{
	UNUSED(now, gpu, field);
	(void) buf_printf(out, "%lld", (long long) user->pid.value);
	return true;
}

OWN(program)
{
	UNUSED(now, gpu, field);
	return put_text(out, *user->program ? user->program : *user->name ? user->name
									  : "[Not Found]");
}

/* ---- the tables ----------------------------------------------------------------------------------------------------- */

#define F(name, form, from, which, sentence) \
	{ name, { NULL, NULL }, SMI_##form, FROM_##from, which, NULL, sentence }
#define F1(name, alias, form, from, which, sentence) \
	{ name, { alias, NULL }, SMI_##form, FROM_##from, which, NULL, sentence }
#define O(name, from, which, own, sentence) \
	{ name, { NULL, NULL }, SMI_OWN, FROM_##from, which, own, sentence }
#define O1(name, alias, from, which, own, sentence) \
	{ name, { alias, NULL }, SMI_OWN, FROM_##from, which, own, sentence }
#define REASON(last, sentence) \
	O1("clocks_event_reasons." last, "clocks_throttle_reasons." last, FACT, GF_REASONS, put_reason, \
		sentence)

const struct smi_field smi_gpu_fields[] = {
	O("timestamp", BIRTH, 0, put_timestamp, "Time of the query, local time"),
	O("driver_version", BIRTH, 0, put_driver, "Version of the driver"),
	O("count", BIRTH, 0, put_count, "Number of GPUs"),
	O1("name", "gpu_name", BIRTH, 0, put_name, "Product name of the GPU"),
	F1("serial", "gpu_serial", TEXT, FACT, GF_SERIAL, "Serial number of the board"),
	O1("uuid", "gpu_uuid", BIRTH, 0, put_uuid, "Identifier of the GPU, in any machine or slot"),
	O1("pci.bus_id", "gpu_bus_id", BIRTH, 0, put_bus_id,
		"PCI address: domain:bus:device.function, in hex"),
	O("pci.domain", BIRTH, 0, put_pci_part, "Its PCI domain, in hex"),
	O("pci.bus", BIRTH, 1, put_pci_part, "Its PCI bus, in hex"),
	O("pci.device", BIRTH, 2, put_pci_part, "Its number on the bus, in hex"),
	F("pci.device_id", MASK8, FACT, GF_PCI_DEVICE, "PCI device and vendor, in hex"),
	F("pci.sub_device_id", MASK8, FACT, GF_PCI_SUBSYSTEM, "PCI subsystem, in hex"),
	F1("pcie.link.gen.current", "pcie.link.gen.gpucurrent", COUNT, FACT, GF_PCIE_GENERATION,
		"Current generation of the PCIe link"),
	F("pcie.link.gen.max", COUNT, FACT, GF_PCIE_GENERATION_MAX, "Highest generation of the PCIe link"),
	F("pcie.link.width.current", COUNT, FACT, GF_PCIE_LANES, "Current lanes of the PCIe link"),
	F("pcie.link.width.max", COUNT, FACT, GF_PCIE_LANES_MAX, "Most lanes of the PCIe link"),
	O("index", BIRTH, 0, put_index, "The GPU's number, from 0, which a reboot may change"),
	F("display_mode", ENABLED, FACT, GF_DISPLAY, "Whether a display is connected"),
	F("display_attached", YES, FACT, GF_DISPLAY, "Whether a display is connected"),
	F("display_active", ENABLED, FACT, GF_DISPLAY_ACTIVE, "Whether a display is active"),
	F("persistence_mode", ENABLED, FACT, GF_PERSISTENCE,
		"Whether the driver stays loaded without clients"),
	O("addressing_mode", FACT, GF_ADDRESSING, put_addressing,
		"How it reads the host's memory: None, HMM or ATS"),
	F("accounting.mode", ENABLED, FACT, GF_ACCOUNTING,
		"Whether the driver records the usage of each process"),
	F("accounting.buffer_size", COUNT, FACT, GF_ACCOUNTING_ROOM,
		"Number of processes whose usage it records"),
	F("vbios_version", TEXT, FACT, GF_VBIOS, "Version of the board's BIOS"),
	F("fan.speed", PERCENT, METRIC, M_GPU_FAN, "Fan speed, as a share of the intended fastest"),
	F("pstate", STATE, METRIC, M_GPU_PSTATE, "Performance state, from P0, the fastest, to P15"),
	F1("clocks_event_reasons.supported", "clocks_throttle_reasons.supported", MASK16, FACT,
		GF_REASONS_KNOWN, "Reasons for its clocks that it can report, as bits"),
	F1("clocks_event_reasons.active", "clocks_throttle_reasons.active", MASK16, FACT, GF_REASONS,
		"Current reasons for its clocks, as bits"),
	REASON("gpu_idle", "Clocks are low because the GPU is idle"),
	REASON("applications_clocks_setting", "Clocks are limited by a setting"),
	REASON("sw_power_cap", "Clocks are throttled by the power limit"),
	REASON("hw_slowdown", "The hardware throttles the clocks to half or less"),
	REASON("hw_thermal_slowdown", "The same, because of heat"),
	REASON("hw_power_brake_slowdown", "The same, on request of the power supply"),
	REASON("sw_thermal_slowdown", "Clocks are throttled because of heat"),
	REASON("sync_boost", "Clocks follow the slowest GPU of a group"),
	F("clocks_event_reasons_counters.sw_power_cap", MICROS, METRIC, M_GPU_THROTTLE_POWER,
		"Time in which the power limit throttled the clocks"),
	{ "memory.total", { NULL, NULL }, SMI_MIB, FROM_BIRTH, 0, put_total, "Memory of the GPU" },
	F("memory.reserved", MIB, METRIC, M_GPU_MEM_RESERVED, "Memory reserved by the driver"),
	F("memory.used", MIB, METRIC, M_GPU_MEM,
		"Memory in use, without reserved memory where the driver reports that separately"),
	F("memory.free", MIB, METRIC, M_GPU_MEM_FREE, "Free memory"),
	O("compute_mode", FACT, GF_COMPUTE_MODE, put_compute_mode,
		"Compute mode: Default, Exclusive_Thread, Prohibited, Exclusive_Process"),
	O("compute_cap", FACT, GF_CAPABILITY, put_capability, "Compute capability"),
	F("utilization.gpu", PERCENT, METRIC, M_GPU_BUSY, "Share of time in which some kernel ran"),
	F("utilization.memory", PERCENT, METRIC, M_GPU_MEM_BUSY,
		"Share of time in which memory was read or written"),
	F("utilization.encoder", PERCENT, METRIC, M_GPU_ENC_BUSY,
		"Share of time in which the encoder worked"),
	F("utilization.decoder", PERCENT, METRIC, M_GPU_DEC_BUSY,
		"Share of time in which the decoder worked"),
	F("utilization.jpeg", PERCENT, METRIC, M_GPU_JPG_BUSY,
		"Share of time in which the JPEG engine worked"),
	F("utilization.ofa", PERCENT, METRIC, M_GPU_OFA_BUSY,
		"Share of time in which the optical flow engine worked"),
	F("ecc.mode.current", ENABLED, FACT, GF_ECC, "Whether memory errors are corrected"),
	F("ecc.mode.pending", ENABLED, FACT, GF_ECC_PENDING, "Whether they will be after a reset"),
	F("ecc.errors.corrected.volatile.total", COUNT, METRIC, M_GPU_ECC_CORRECTED,
		"Errors corrected since the driver was loaded"),
	F("ecc.errors.corrected.aggregate.total", COUNT, FACT, GF_ECC_CORRECTED_EVER,
		"Errors corrected over the GPU's lifetime"),
	F("ecc.errors.uncorrected.volatile.total", COUNT, METRIC, M_GPU_ECC_UNCORRECTED,
		"Errors not corrected since the driver was loaded"),
	F("ecc.errors.uncorrected.aggregate.total", COUNT, FACT, GF_ECC_UNCORRECTED_EVER,
		"Errors not corrected over the GPU's lifetime"),
	F("retired_pages.pending", YES, FACT, GF_RETIRED_PENDING, "Whether pages wait to be retired"),
	F("temperature.gpu", CELSIUS, METRIC, M_GPU_TEMP, "Temperature in degrees Celsius"),
	F("temperature.gpu.tlimit", CELSIUS, FACT, GF_TEMP_MARGIN,
		"Degrees below the temperature at which it throttles"),
	F("temperature.memory", CELSIUS, METRIC, M_GPU_TEMP_MEM, "Temperature of the memory"),
	F("power.management", ENABLED, FACT, GF_POWER_MANAGED, "Whether power is managed"),
	F("power.draw", WATTS, METRIC, M_GPU_POWER, "Power drawn"),
	F("power.draw.average", WATTS, FACT, GF_POWER_AVERAGE, "Power drawn, mean of the last second"),
	F("power.draw.instant", WATTS, FACT, GF_POWER_INSTANT, "Power drawn at this instant"),
	F("power.limit", WATTS, FACT, GF_POWER_SET, "Power limit as set"),
	F("enforced.power.limit", WATTS, METRIC, M_GPU_POWER_LIMIT, "Power limit in force"),
	F("power.default_limit", WATTS, FACT, GF_POWER_DEFAULT, "Power limit without a setting"),
	F("power.min_limit", WATTS, FACT, GF_POWER_MIN, "Smallest power limit that can be set"),
	F("power.max_limit", WATTS, FACT, GF_POWER_MAX, "Largest power limit that can be set"),
	{ "clocks.current.graphics", { "clocks.gr", "clocks.graphics" }, SMI_MHZ, FROM_FACT,
		GF_CLOCK_GRAPHICS, NULL, "Clock of the graphics engine" },
	F1("clocks.current.sm", "clocks.sm", MHZ, METRIC, M_GPU_CLOCK_SM, "Clock of the SMs"),
	{ "clocks.current.memory", { "clocks.mem", "clocks.memory" }, SMI_MHZ, FROM_METRIC, M_GPU_CLOCK_MEM,
		NULL, "Clock of the memory" },
	F1("clocks.current.video", "clocks.video", MHZ, FACT, GF_CLOCK_VIDEO, "Clock of the video engines"),
	{ "clocks.max.graphics", { "clocks.max.gr", NULL }, SMI_MHZ, FROM_FACT, GF_MAX_CLOCK_GRAPHICS, NULL,
		"Fastest clock of the graphics engine" },
	F("clocks.max.sm", MHZ, FACT, GF_MAX_CLOCK_SM, "Fastest clock of the SMs"),
	F1("clocks.max.memory", "clocks.max.mem", MHZ, FACT, GF_MAX_CLOCK_MEM, "Fastest clock of the memory"),
	F("mig.mode.current", ENABLED, FACT, GF_MIG, "Whether it is divided into instances"),
	F("mig.mode.pending", ENABLED, FACT, GF_MIG_PENDING, "Whether it will be after a reset"),
};
const size_t smi_n_gpu_fields = sizeof(smi_gpu_fields) / sizeof(smi_gpu_fields[0]);

const struct smi_field smi_app_fields[] = {
	O("timestamp", BIRTH, 0, put_timestamp, "Time of the query, local time"),
	O("gpu_name", BIRTH, 0, put_name, "Product name of the GPU"),
	O("gpu_bus_id", BIRTH, 0, put_bus_id, "PCI address of the GPU"),
	F("gpu_serial", TEXT, FACT, GF_SERIAL, "Serial number of the board"),
	O("gpu_uuid", BIRTH, 0, put_uuid, "Identifier of the GPU"),
	O("pid", BIRTH, 0, put_pid, "The process"),
	O1("process_name", "name", BIRTH, 0, put_program,
		"Its program, as it was started; [Not Found] if it is not visible"),
	F1("used_gpu_memory", "used_memory", MIB, METRIC, M_GPROC_MEM, "Memory that it uses on the GPU"),
};
const size_t smi_n_app_fields = sizeof(smi_app_fields) / sizeof(smi_app_fields[0]);

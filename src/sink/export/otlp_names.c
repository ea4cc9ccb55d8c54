/* SPDX-License-Identifier: MIT */
#include "sink/export/otlp_names.h"

#include <stdio.h>
#include <string.h>

/* ---- the semantic conventions ------------------------------------------------------------------------------------------ */

#define PAIR(key, value) { key, value }
#define GPU              PAIR("hw.type", "gpu")

static const struct convention {
	enum metric metric;
	const char *name, *unit;
	enum otlp_type type;
	struct otlp_attribute attributes[OTLP_ATTRIBUTES];
} conventions[] = {
	{ M_HOST_MEM_USED, "system.memory.usage", "By", OTLP_UP_DOWN, { PAIR("system.memory.state", "used") } },
	{ M_HOST_MEM_AVAILABLE, "system.memory.linux.available", "By", OTLP_UP_DOWN, { { 0 } } },
	{ M_HOST_SWAP_USED, "system.paging.usage", "By", OTLP_UP_DOWN, { PAIR("system.paging.state", "used") } },
	{ M_HOST_CPU_USER, "system.cpu.time", "s", OTLP_COUNTER, { PAIR("cpu.mode", "user") } },
	{ M_HOST_CPU_SYSTEM, "system.cpu.time", "s", OTLP_COUNTER, { PAIR("cpu.mode", "system") } },
	{ M_HOST_CPU_IDLE, "system.cpu.time", "s", OTLP_COUNTER, { PAIR("cpu.mode", "idle") } },
	{ M_HOST_CPU_IOWAIT, "system.cpu.time", "s", OTLP_COUNTER, { PAIR("cpu.mode", "iowait") } },
	{ M_HOST_CPU_STEAL, "system.cpu.time", "s", OTLP_COUNTER, { PAIR("cpu.mode", "steal") } },
	{ M_HOST_DISK_READ, "system.disk.io", "By", OTLP_COUNTER, { PAIR("disk.io.direction", "read") } },
	{ M_HOST_DISK_WRITE, "system.disk.io", "By", OTLP_COUNTER, { PAIR("disk.io.direction", "write") } },
	{ M_HOST_NET_RX, "system.network.io", "By", OTLP_COUNTER, { PAIR("network.io.direction", "receive") } },
	{ M_HOST_NET_TX, "system.network.io", "By", OTLP_COUNTER, { PAIR("network.io.direction", "transmit") } },
	{ M_HOST_ENERGY, "hw.energy", "J", OTLP_COUNTER, { PAIR("hw.id", "packages"), PAIR("hw.type", "cpu") } },
	{ M_JOB_RAM, "process.memory.usage", "By", OTLP_UP_DOWN, { { 0 } } },
	{ M_JOB_THREADS, "process.thread.count", "{thread}", OTLP_UP_DOWN, { { 0 } } },
	{ M_JOB_CPU_USER, "process.cpu.time", "s", OTLP_COUNTER, { PAIR("cpu.mode", "user") } },
	{ M_JOB_CPU_SYSTEM, "process.cpu.time", "s", OTLP_COUNTER, { PAIR("cpu.mode", "system") } },
	{ M_JOB_FAULTS_MINOR, "process.paging.faults", "{fault}", OTLP_COUNTER,
		{ PAIR("system.paging.fault.type", "minor") } },
	{ M_JOB_FAULTS_MAJOR, "process.paging.faults", "{fault}", OTLP_COUNTER,
		{ PAIR("system.paging.fault.type", "major") } },
	{ M_JOB_READ_BYTES, "process.disk.io", "By", OTLP_COUNTER, { PAIR("disk.io.direction", "read") } },
	{ M_JOB_WRITE_BYTES, "process.disk.io", "By", OTLP_COUNTER, { PAIR("disk.io.direction", "write") } },
	{ M_JOB_SWITCHES, "process.context_switches", "{context_switch}", OTLP_COUNTER,
		{ PAIR("process.context_switch.type", "voluntary") } },
	{ M_JOB_PREEMPTIONS, "process.context_switches", "{context_switch}", OTLP_COUNTER,
		{ PAIR("process.context_switch.type", "involuntary") } },
	{ M_GPU_MEM, "hw.gpu.memory.usage", "By", OTLP_UP_DOWN, { GPU } },
	{ M_GPU_BUSY, "hw.gpu.utilization", "1", OTLP_GAUGE, { GPU, PAIR("hw.gpu.task", "general") } },
	{ M_GPU_ENC_BUSY, "hw.gpu.utilization", "1", OTLP_GAUGE, { GPU, PAIR("hw.gpu.task", "encoder") } },
	{ M_GPU_DEC_BUSY, "hw.gpu.utilization", "1", OTLP_GAUGE, { GPU, PAIR("hw.gpu.task", "decoder") } },
	{ M_GPU_PCIE_RX, "hw.gpu.io", "By", OTLP_COUNTER, { GPU, PAIR("network.io.direction", "receive") } },
	{ M_GPU_PCIE_TX, "hw.gpu.io", "By", OTLP_COUNTER, { GPU, PAIR("network.io.direction", "transmit") } },
	{ M_GPU_POWER, "hw.power", "W", OTLP_GAUGE, { GPU } },
	{ M_GPU_ENERGY, "hw.energy", "J", OTLP_COUNTER, { GPU } },
	{ M_GPU_TEMP, "hw.temperature", "Cel", OTLP_GAUGE, { GPU, PAIR("hw.sensor_location", "gpu") } },
	{ M_GPU_TEMP_MEM, "hw.temperature", "Cel", OTLP_GAUGE, { GPU, PAIR("hw.sensor_location", "memory") } },
	{ M_GPU_ECC_CORRECTED, "hw.errors", "{error}", OTLP_COUNTER, { GPU, PAIR("error.type", "ecc_corrected") } },
	{ M_GPU_ECC_UNCORRECTED, "hw.errors", "{error}", OTLP_COUNTER,
		{ GPU, PAIR("error.type", "ecc_uncorrected") } },
};

/* ---- the others -------------------------------------------------------------------------------------------------------- */

static const struct {
	const char *suffix, *ucum;
} units[] = {
	[UNIT_BYTES] = { "_bytes", "By" },
	[UNIT_NS] = { "_seconds", "s" },
	[UNIT_COUNT] = { "", "{count}" },
	[UNIT_PPM] = { "_ratio", "1" },
	[UNIT_UJ] = { "_joules", "J" },
	[UNIT_UW] = { "_watts", "W" },
	[UNIT_MCEL] = { "_celsius", "Cel" },
	[UNIT_HZ] = { "_hertz", "Hz" },
};

/* "hiwater_run_memory_bytes" is "hiwater.run.memory", its maximum "hiwater.run.memory_max". */
static void put_own_name(const struct metric_info *m, bool is_max, char ret[OTLP_NAME_LEN])
{
	const char *suffix = units[m->unit].suffix;
	const size_t cut = strlen(suffix);
	size_t len = strlen(m->om);

	if (cut > 0 && len > cut && strcmp(m->om + len - cut, suffix) == 0)
		len -= cut;
	(void) snprintf(ret, OTLP_NAME_LEN, "%.*s%s", (int) len, m->om, is_max ? "_max" : "");
	for (int dots = 0; *ret && dots < 2; ret++) {
		if (*ret != '_')
			continue;
		*ret = '.';
		dots++;
	}
}

/* kind="combined",layer="block" as attributes; metric.def has no escapes in it. */
static void put_own_attributes(const char *labels, struct otlp_name *ret)
{
	char *at = ret->room;

	(void) snprintf(ret->room, sizeof(ret->room), "%s", labels);
	for (size_t i = 0; i < OTLP_ATTRIBUTES && *at; i++) {
		char *equals = strchr(at, '='), *end;

		end = equals ? strchr(equals + 2, '"') : NULL;
		if (!end)
			return;
		*equals = *end = '\0';
		ret->attributes[i] = (struct otlp_attribute) { at, equals + 2 };
		at = end + 1;
		at += *at == ',';
	}
}

void otlp_name_of(enum metric metric, bool is_max, struct otlp_name *ret)
{
	const struct metric_info *m = &metrics[metric];

	*ret = (struct otlp_name) {
		.unit = units[m->unit].ucum,
		.type = m->kind == KIND_COUNTER ? OTLP_COUNTER : OTLP_GAUGE,
	};
	for (size_t i = 0; !is_max && i < sizeof(conventions) / sizeof(conventions[0]); i++) {
		const struct convention *c = &conventions[i];

		if (c->metric != metric)
			continue;
		(void) snprintf(ret->name, sizeof(ret->name), "%s", c->name);
		ret->unit = c->unit;
		ret->type = c->type;
		ret->is_convention = true;
		memcpy(ret->attributes, c->attributes, sizeof(ret->attributes));
		return;
	}
	put_own_name(m, is_max, ret->name);
	put_own_attributes(m->om_labels, ret);
}

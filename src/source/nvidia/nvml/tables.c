/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "source/nvidia/nvml/tables.h"

static const struct nvml_code codes[] = {
	{ NVML_SUCCESS, NVML_FINE, "", "" },
	{ NVML_NOT_SUPPORTED, NVML_ABSENT, "this device does not support it", "" },
	{ NVML_FUNCTION_NOT_FOUND, NVML_ABSENT, "this driver does not support it", "a newer driver may" },
	{ NVML_DEPRECATED, NVML_ABSENT, "this driver no longer supports it", "" },
	{ NVML_ARGUMENT_VERSION_MISMATCH, NVML_ABSENT, "this driver has another version of the call", "" },
	{ NVML_NO_PERMISSION, NVML_FORBIDDEN, "no permission",
		"run as root; with MIG, access to the device's mig/monitor capability suffices" },
	{ NVML_INSUFFICIENT_SIZE, NVML_GROW, "the list is too long", "" },
	{ NVML_GPU_IS_LOST, NVML_LOST, "the GPU has fallen off the bus",
		"reboot; the kernel log (dmesg) has the cause" },
	{ NVML_RESET_REQUIRED, NVML_LOST, "the GPU needs a reset", "nvidia-smi --gpu-reset, or reboot" },
	{ NVML_GPU_NOT_FOUND, NVML_LOST, "the driver no longer finds the GPU", "" },
	{ NVML_UNINITIALIZED, NVML_STALE, "the driver was unloaded", "" },
	{ NVML_INVALID_ARGUMENT, NVML_STALE, "the driver no longer knows the device", "" },
	{ NVML_NOT_FOUND, NVML_NOT_NOW, "no data at the moment", "" },
	{ NVML_NO_DATA, NVML_NOT_NOW, "no data at the moment", "" },
	{ NVML_NOT_READY, NVML_NOT_NOW, "no data at the moment", "" },
	{ NVML_NONSENSE, NVML_NOT_NOW, "the driver reports an impossible value", "" },
	{ NVML_TIMEOUT, NVML_NOT_NOW, "the driver did not answer in time", "" },
};

const struct nvml_code *nvml_code(int code)
{
	static const struct nvml_code other = { NVML_UNKNOWN, NVML_NOT_NOW,
		"the driver reports an unspecified error", "" };

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		if (codes[i].code == code)
			return &codes[i];
	}
	return &other;
}

/* ---- Xids ------------------------------------------------------------------------------------ */

/* Xids that matter to the user of a job, with their usual cause. */
static const struct {
	uint64_t xid;
	const char *text;
} xids[] = {
	{ 13, "an exception in a GPU engine, mostly caused by the program" },
	{ 31, "a page fault on the GPU, mostly caused by the program" },
	{ 43, "a program's GPU work was stopped after an error of its own" },
	{ 45, "a program's channel was torn down, mostly because it was killed" },
	{ 48, "an uncorrectable memory error" },
	{ 63, "a memory row was retired or remapped" },
	{ 64, "a memory row could not be retired or remapped" },
	{ 74, "an error on NVLink" },
	{ 79, "the GPU has fallen off the bus" },
	{ 92, "many corrected memory errors" },
	{ 94, "a memory error contained to one program" },
	{ 95, "an uncontained memory error: reset the GPU" },
	{ 119, "the GPU's firmware controller (GSP) does not answer" },
	{ 120, "an error in the GPU's firmware controller (GSP)" },
};

void xid_text(uint64_t xid, char *ret, size_t size)
{
	for (size_t i = 0; i < sizeof(xids) / sizeof(xids[0]); i++) {
		if (xids[i].xid == xid) {
			(void) snprintf(ret, size, "Xid %" PRIu64 ": %s", xid, xids[i].text);
			return;
		}
	}
	(void) snprintf(ret, size, "Xid %" PRIu64, xid);
}

/* ---- multiprocessors, by compute capability -------------------------------------------------- */

#define REGISTERS 65536 /* for all entries below */

/* CUDA C++ Programming Guide, "Compute Capabilities": the table of technical specifications; cores
 * from the "Architecture" section of each. */
static const struct nvml_spec specs[] = {
	/* cores, tensor cores, KiB of shared memory, warps, blocks, registers */
	{ 5, 0, "Maxwell", 128, 0, 64, 64, 32, REGISTERS },
	{ 5, 2, "Maxwell", 128, 0, 96, 64, 32, REGISTERS },
	{ 5, 3, "Maxwell", 128, 0, 64, 64, 32, REGISTERS },
	{ 6, 0, "Pascal", 64, 0, 64, 64, 32, REGISTERS },
	{ 6, 1, "Pascal", 128, 0, 96, 64, 32, REGISTERS },
	{ 6, 2, "Pascal", 128, 0, 64, 64, 32, REGISTERS },
	{ 7, 0, "Volta", 64, 8, 96, 64, 32, REGISTERS },
	{ 7, 2, "Volta", 64, 8, 96, 64, 32, REGISTERS },
	{ 7, 5, "Turing", 64, 8, 64, 32, 16, REGISTERS },
	{ 8, 0, "Ampere", 64, 4, 164, 64, 32, REGISTERS },
	{ 8, 6, "Ampere", 128, 4, 100, 48, 16, REGISTERS },
	{ 8, 7, "Ampere", 128, 4, 164, 48, 16, REGISTERS },
	{ 8, 9, "Ada Lovelace", 128, 4, 100, 48, 24, REGISTERS },
	{ 9, 0, "Hopper", 128, 4, 228, 64, 32, REGISTERS },
	{ 10, 0, "Blackwell", 128, 4, 228, 64, 32, REGISTERS },
	{ 10, 3, "Blackwell", 128, 4, 228, 64, 32, REGISTERS },
	{ 11, 0, "Blackwell", 128, 4, 228, 48, 24, REGISTERS },
	{ 12, 0, "Blackwell", 128, 4, 100, 48, 24, REGISTERS },
	{ 12, 1, "Blackwell", 128, 4, 100, 48, 24, REGISTERS },
};

const struct nvml_spec *nvml_spec_of(int major, int minor)
{
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		if (specs[i].major == major && specs[i].minor == minor)
			return &specs[i];
	}
	return NULL;
}

/* SPDX-License-Identifier: MIT */
#include "source/nvidia/nvml/spec.h"

#include <stddef.h>

#define REGISTERS 65536 /* of all that are here */

/* CUDA C++ Programming Guide, "Compute Capabilities": the table of technical specifications, and for cores the sections
 * "Architecture" of each. */
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

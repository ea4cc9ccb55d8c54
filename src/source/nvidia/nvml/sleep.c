/* SPDX-License-Identifier: MIT
 *
 * GPUs that the kernel has powered down (laptops): taking a handle wakes them, so sysfs is asked first.
 * Documentation/ABI/testing/sysfs-devices-power.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "source/nvidia/nvml/internal.h"

#define PCI_DEVICES "bus/pci/devices"

static bool file_begins(const struct root *root, const char *id, const char *file, const char *with)
{
	char path[96], text[64];
	const char *p = text;

	(void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/%s", id, file);
	return smallfile_read(root->sys, path, text, sizeof(text)) > 0 && parse_word(&p, with);
}

bool nvml_pci_look(const struct root *root, const char *id, struct nvml_pci_gpu *ret)
{
	/* A GPU also has a sound device and a USB port: only displays and 3D controllers count. */
	if (!*id || !file_begins(root, id, "vendor", "0x10de") || !file_begins(root, id, "class", "0x03"))
		return false;
	(void) snprintf(ret->id, sizeof(ret->id), "%s", id);
	ret->asleep = file_begins(root, id, "power/runtime_status", "suspended");
	ret->may_sleep = file_begins(root, id, "power/control", "auto");
	return true;
}

size_t nvml_pci_list(const struct root *root, struct nvml_pci_gpu *ret, size_t n)
{
	autoclose int fd = openat(root->sys, PCI_DEVICES, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclosedir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	size_t found = 0;

	if (!dir)
		return 0;
	(void) take_fd(fd); /* dir owns it now */
	for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
		struct nvml_pci_gpu gpu;

		if (entry->d_name[0] == '.' || strlen(entry->d_name) >= sizeof(gpu.id) || !nvml_pci_look(root, entry->d_name, &gpu))
			continue;
		if (found < n)
			ret[found] = gpu;
		found++;
	}
	return found;
}

/* SPDX-License-Identifier: MIT
 *
 * The sources that read GPUs, and whether a machine has a GPU, found without calling a driver.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/smallfile.h"
#include "gpu/gpu.h"

const struct gpu_vendor gpu_vendors[] = {
	{ &source_nvml, "NVML", NULL, CAUSE_NVML },
	{ &source_amdgpu, "amdgpu", NULL, CAUSE_AMDGPU },
	{ &source_drm, "DRM", NULL, CAUSE_DRM },
	{ &source_dcgm, "DCGM", &source_nvml, CAUSE_NONE }, /* it lists no processes */
	{ NULL, NULL, NULL, CAUSE_NONE },
};

static bool begins(int dir, const char *device, const char *file, const char *with)
{
	char path[300], text[64];

	(void) snprintf(path, sizeof(path), "%.250s/%s", device, file);
	return smallfile_read(dir, path, text, sizeof(text)) >= 0 && strncmp(text, with, strlen(with)) == 0;
}

/* PCI class 03: display controllers, with or without an output. */
static bool is_nvidia_gpu(int dir, const char *device)
{
	return begins(dir, device, "class", "0x03") && begins(dir, device, "vendor", "0x10de");
}

/* Only NVIDIA, AMD and Intel: the video chip of a server's management controller is not a GPU. */
static bool is_gpu(int dir, const char *device)
{
	return is_nvidia_gpu(dir, device) ||
	       (begins(dir, device, "class", "0x03") &&
		       (begins(dir, device, "vendor", "0x1002") || begins(dir, device, "vendor", "0x8086")));
}

/* Does the folder have an entry for which is_one is true (NULL: any entry)? */
static bool has(int at, const char *folder, bool (*is_one)(int dir, const char *name))
{
	int fd = at >= 0 ? openat(at, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	autoclosedir DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *d;

	if (!dir && fd >= 0)
		(void) close(fd);
	while (dir && (d = readdir(dir))) {
		if (d->d_name[0] != '.' && (!is_one || is_one(fd, d->d_name)))
			return true;
	}
	return false;
}

static bool is_render_node(int dir, const char *name)
{
	(void) dir;
	return strncmp(name, "renderD", 7) == 0;
}

bool gpu_is_present(const struct root *root)
{
	return has(root->proc, "driver/nvidia/gpus", NULL) || has(root->sys, "class/drm", is_render_node) ||
	       has(root->sys, "bus/pci/devices", is_gpu) || faccessat(root->top, "dev/dxg", F_OK, 0) == 0;
}

bool gpu_is_of_nvidia(const struct root *root)
{
	return has(root->sys, "bus/pci/devices", is_nvidia_gpu);
}

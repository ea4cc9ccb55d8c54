/* SPDX-License-Identifier: MIT
 *
 * The sources that read GPUs, and whether a machine shows a GPU without calling any driver.
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
	{ &source_dcgm, "DCGM", &source_nvml, CAUSE_NONE }, /* it lists nobody */
	{ NULL, NULL, NULL, CAUSE_NONE },
};

/* Who makes GPUs: the video chip of a server's management controller is none. PCI ids. */
static const char *const makers[] = { "0x10de", "0x1002", "0x8086" };

static bool begins(int dir, const char *device, const char *file, const char *const *with, size_t n)
{
	char path[300], text[64];

	(void) snprintf(path, sizeof(path), "%.250s/%s", device, file);
	if (smallfile_read(dir, path, text, sizeof(text)) < 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (strncmp(text, with[i], strlen(with[i])) == 0)
			return true;
	}
	return false;
}

/* Class 03 of PCI: display controllers, with a picture or without. */
static bool is_gpu(int dir, const char *device)
{
	static const char *const display[] = { "0x03" };

	return begins(dir, device, "class", display, 1) &&
	       begins(dir, device, "vendor", makers, sizeof(makers) / sizeof(makers[0]));
}

/* Is there an entry in the folder for which is_one says so (NULL: any)? */
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

static bool is_of_nvidia(int dir, const char *device)
{
	static const char *const nvidia[] = { "0x10de" };

	return is_gpu(dir, device) && begins(dir, device, "vendor", nvidia, 1);
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
	return has(root->sys, "bus/pci/devices", is_of_nvidia);
}

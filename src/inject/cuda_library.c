/* SPDX-License-Identifier: MIT
 *
 * Finds libcupti at run time. The program may have one already, which must be the one that is used: two
 * copies in a process break each other. Else it lies next to the CUDA libraries that the program has loaded
 * (Python wheels), in the loader's path, or in a toolkit. It is never newer than the driver, never
 * unloaded, and nothing of it is called here but the question for its version.
 *
 * In order: HIWATER_CUPTI (a path); one that is loaded; .../nvidia/cuda_cupti/lib or .../nvidia/cu13/lib
 * next to a loaded library of .../nvidia/; the loader's path; $CUDA_HOME, $CUDA_PATH, /usr/local/cuda.
 */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inject/cuda.h"

static const struct release {
	const char *soname;
	unsigned major;
} releases[] = {
	{ "libcupti.so.13", 13 },
	{ "libcupti.so.12", 12 },
	{ "libcupti.so.11.8", 11 },
};
enum {
	RELEASES = sizeof(releases) / sizeof(releases[0])
};

/* ---- the driver ------------------------------------------------------------------------------ */

/* The first branch of the driver that supports the CUDA release of that major number. */
static unsigned cuda_of_branch(unsigned branch)
{
	return branch >= 580 ? 13 : branch >= 525 ? 12
						  : 11;
}

static int find_driver(struct dl_phdr_info *info, size_t size, void *ret)
{
	const char *const name = strrchr(info->dlpi_name, '/');

	(void) size;
	if (!name || strncmp(name, "/libcuda.so", strlen("/libcuda.so")) != 0)
		return 0;
	snprintf(ret, PATH_MAX, "%s", info->dlpi_name);
	return 1;
}

/* The newest CUDA that the driver supports, from the name of its library's file (libcuda.so.580.95.05), since no
 * function of it may be called here. Unknown: the newest. */
static unsigned driver_major(void)
{
	char path[PATH_MAX] = "", real[PATH_MAX];
	const char *version;
	unsigned long branch;

	dl_iterate_phdr(find_driver, path);
	if (!path[0] || !realpath(path, real))
		return UINT_MAX;
	version = strstr(real, "libcuda.so.");
	branch = version ? strtoul(version + strlen("libcuda.so."), NULL, 10) : 0;
	return branch > 100 ? cuda_of_branch((unsigned) branch) : UINT_MAX;
}

/* ---- places ---------------------------------------------------------------------------------- */

static void *open_in(const char *folder, size_t folder_len, const char *below, const char *soname)
{
	char path[PATH_MAX];
	const int len = snprintf(path, sizeof(path), "%.*s%s/%s", (int) folder_len, folder, below, soname);

	return len > 0 && (size_t) len < sizeof(path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

struct beside {
	char folder[PATH_MAX]; /* .../nvidia */
	size_t len;
};

/* .../nvidia/cublas/lib/libcublas.so.12: the folder of all such packages. */
static int find_packages(struct dl_phdr_info *info, size_t size, void *data)
{
	struct beside *const ret = data;
	const char *const at = strstr(info->dlpi_name, "/nvidia/");

	(void) size;
	if (!at || !strstr(at, "/lib/"))
		return 0;
	ret->len = (size_t) (at - info->dlpi_name) + strlen("/nvidia");
	if (ret->len >= sizeof(ret->folder))
		return 0;
	memcpy(ret->folder, info->dlpi_name, ret->len);
	return 1;
}

static void *open_beside(const struct release *release)
{
	struct beside beside = { 0 };
	void *handle;

	if (dl_iterate_phdr(find_packages, &beside) == 0)
		return NULL;
	handle = release->major >= 13 ? open_in(beside.folder, beside.len, "/cu13/lib", release->soname) : NULL;
	return handle ? handle : open_in(beside.folder, beside.len, "/cuda_cupti/lib", release->soname);
}

static void *open_toolkit(const struct release *release)
{
	const char *const roots[] = { getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda" };
	void *handle = NULL;

	for (size_t i = 0; !handle && i < sizeof(roots) / sizeof(roots[0]); i++) {
		if (!roots[i] || roots[i][0] != '/')
			continue;
		handle = open_in(roots[i], strlen(roots[i]), "/extras/CUPTI/lib64", release->soname);
		if (!handle)
			handle = open_in(roots[i], strlen(roots[i]), "/lib64", release->soname);
	}
	return handle;
}

static void *open_any(void)
{
	const unsigned newest = driver_major();
	void *handle = NULL;

	for (size_t i = 0; !handle && i < RELEASES; i++)
		handle = dlopen(releases[i].soname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	for (size_t i = 0; !handle && i < RELEASES; i++) {
		if (releases[i].major > newest)
			continue;
		handle = open_beside(&releases[i]);
		if (!handle)
			handle = dlopen(releases[i].soname, RTLD_NOW | RTLD_LOCAL);
		if (!handle)
			handle = open_toolkit(&releases[i]);
	}
	return handle;
}

const char *cuda_library(struct cupti *ret)
{
	const char *const override = getenv("HIWATER_CUPTI");
	void *const handle = override && override[0] ? dlopen(override, RTLD_NOW | RTLD_LOCAL) : open_any();

	if (!handle)
		return override && override[0] ? override : releases[0].soname;
#define CUPTI_LOAD(name, symbol, arguments) ret->name = (int(*) arguments) dlsym(handle, symbol);
	CUPTI_FUNCTIONS(CUPTI_LOAD)
#undef CUPTI_LOAD
	if (!ret->get_version || ret->get_version(&ret->version) != CUPTI_OK)
		ret->version = 0;
	return NULL;
}

/* ---- other tools ----------------------------------------------------------------------------- */

static int find_tool(struct dl_phdr_info *info, size_t size, void *ret)
{
	/* Parts of names of libraries that these tools load into the program. */
	static const char *const parts[][2] = {
		{ "libToolsInjection", "Nsight Systems" },
		{ "libInterceptorInjectionTarget", "Nsight Compute" },
		{ "libTreeLauncherTargetInjection", "Nsight Compute or compute-sanitizer" },
		{ "libsanitizer-collection", "compute-sanitizer" },
	};

	(void) size;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (strstr(info->dlpi_name, parts[i][0])) {
			*(const char **) ret = parts[i][1];
			return 1;
		}
	}
	return 0;
}

const char *cuda_other_tool(void)
{
	/* Only those that such a tool sets for its session: others, such as NSYS_NVTX_PROFILER_REGISTER_ONLY, stay in
	 * users' profiles. */
	static const char *const variables[][2] = {
		{ "NSYS_PROFILING_SESSION_ID", "Nsight Systems" },
		{ "NV_TPS_LAUNCH_TOKEN", "Nsight Compute" },
		{ "NV_SANITIZER_INJECTION_PORT_BASE", "compute-sanitizer" },
	};
	const char *ret = NULL;

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		if (getenv(variables[i][0]))
			return variables[i][1];
	}
	dl_iterate_phdr(find_tool, &ret);
	return ret;
}

/* SPDX-License-Identifier: MIT */
#include "source/nvidia/nvml/load.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/smallfile.h"
#include "source/nvidia/library.h"
#include "source/nvidia/nvml/tables.h"

/* The name without a number may be CUDA's linker stub, whose init fails, so the numbered name comes
 * first. Then WSL, folders outside the loader's cache, NixOS, GKE. */
static const char *const library_names[] = {
	"libnvidia-ml.so.1",
	"libnvidia-ml.so",
	"/usr/lib/wsl/lib/libnvidia-ml.so.1",
	"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
	"/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
	"/usr/lib64/libnvidia-ml.so.1",
	"/usr/lib64/nvidia/libnvidia-ml.so.1",
	"/usr/lib/nvidia/libnvidia-ml.so.1",
	"/run/opengl-driver/lib/libnvidia-ml.so.1",
	"/usr/local/nvidia/lib64/libnvidia-ml.so.1",
};

#define MAX_NAMES 3

static const struct {
	size_t at; /* of the member in struct nvml */
	const char *names[MAX_NAMES];
} symbols[] = {
#define X(member, parameters, ...) { offsetof(struct nvml, member), { __VA_ARGS__ } },
	NVML_CALLS(X)
#undef X
};

static void find_symbols(struct nvml *nvml)
{
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *found = NULL;

		for (int n = 0; !found && n < MAX_NAMES && symbols[i].names[n]; n++)
			found = dlsym(nvml->library, symbols[i].names[n]);
		/* POSIX allows a function address in an object pointer; ISO C does not allow the
		 * cast. */
		memcpy((char *) nvml + symbols[i].at, &found, sizeof(found));
	}
}

int nvml_init_again(struct nvml *nvml)
{
	return nvml->init_with_flags ? NVML_CALL(nvml, init_with_flags, 0) : NVML_CALL(nvml, init);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static bool has_driver(const struct root *root)
{
	char version[64];

	return smallfile_read(root->proc, "driver/nvidia/version", version, sizeof(version)) > 0;
}

static int no_library(const struct root *root, struct err *err)
{
	const char *name = getenv("HIWATER_NVML"), *why = dlerror();

	if (name && *name)
		return err_set(err, -EINVAL, "the library that HIWATER_NVML names cannot be loaded: %s",
			why ? why : name);
	if (has_driver(root))
		return err_set(err, -ENOENT,
			"NVIDIA's driver is loaded, but libnvidia-ml.so.1 was not found: in a container, "
			"NVIDIA_DRIVER_CAPABILITIES must contain utility");
	return err_set(err, -ENOENT, "no NVIDIA driver: libnvidia-ml.so.1 was not found");
}

/* -ENOENT is only for a missing library: if one is installed or named, its fault is reported. */
static const struct {
	int code, error;
	const char *text;
} init_texts[] = {
	{ NVML_DRIVER_NOT_LOADED, -ENXIO,
		"libnvidia-ml is installed, but NVIDIA's kernel module is not loaded: run modprobe nvidia if the machine has an NVIDIA GPU" },
	{ NVML_LIB_RM_VERSION_MISMATCH, -ELIBBAD,
		"NVIDIA's library and kernel module have different versions: the driver was upgraded; reboot or reload the module" },
	{ NVML_LIBRARY_NOT_FOUND, -ELIBACC,
		"a library that NVML needs is missing: a container without the driver's companion libraries" },
	{ NVML_NOT_FOUND, -ELIBACC,
		"a library that NVML needs is missing: a container without the driver's companion libraries" },
	{ NVML_NO_PERMISSION, -EPERM,
		"no permission to use NVIDIA's driver: open access to the device nodes nvidiactl and nvidia0 is needed" },
	{ NVML_FUNCTION_NOT_FOUND, -ENOEXEC, "this libnvidia-ml has no nvmlInit: it is not NVML" },
};

static int init_failed(int code, struct err *err)
{
	for (size_t i = 0; i < sizeof(init_texts) / sizeof(init_texts[0]); i++) {
		if (init_texts[i].code == code)
			return err_set(err, init_texts[i].error, "%s", init_texts[i].text);
	}
	return err_set(
		err, -EIO, "NVML cannot be initialised: %s (NVML code %d)", nvml_code(code)->why, code);
}

const char *nvml_call_name(unsigned call)
{
	return call > 0 && call <= sizeof(symbols) / sizeof(symbols[0]) ? symbols[call - 1].names[0] : NULL;
}

int nvml_load(const struct source_env *env, struct nvml *ret, struct err *err)
{
	struct nvml nvml = {
		.library = library_open(
			"HIWATER_NVML", library_names, sizeof(library_names) / sizeof(library_names[0])),
		.env = env,
	};

	if (!nvml.library)
		return no_library(env->root, err);
	find_symbols(&nvml);
	int code = nvml_init_again(&nvml);

	if (code != NVML_SUCCESS)
		return init_failed(code, err); /* the library stays loaded: it may have started threads */
	if (NVML_CALL(&nvml, driver_version, nvml.driver, sizeof(nvml.driver)) != NVML_SUCCESS)
		nvml.driver[0] = '\0';
	nvml.driver[sizeof(nvml.driver) - 1] = '\0';
	*ret = nvml;
	return 0;
}

void nvml_unload(struct nvml *nvml)
{
	if (nvml->library)
		(void) NVML_CALL(nvml, shutdown);
	nvml->library = NULL;
}

/* SPDX-License-Identifier: MIT */
#include "cli/doctor_trace.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/programs.h"

#define LIBRARY "libhiwater-trace.so"

/* Where the loader finds libraries, roughly: what ld.so.conf usually names. */
static const char *const library_folders[] = { "/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64",
	"/usr/lib/wsl/lib", "/usr/local/lib" };
/* CUPTI comes with the toolkit, or with a framework from PyPI. */
static const char *const cupti_folders[] = { "/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda*/lib64",
	"/usr/lib/*-linux-gnu", "/opt/cuda/extras/CUPTI/lib64" };
static const char *const cupti_below_python[] = { "nvidia/cu13/lib", "nvidia/cuda_cupti/lib" };

/* The first file that matches; false: there is none. */
static bool match(const char *pattern, char ret[static PATH_MAX])
{
	glob_t found;
	bool is_found = false;

	if (glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0) {
		(void) snprintf(ret, PATH_MAX, "%s", found.gl_pathv[0]);
		is_found = true;
	}
	globfree(&found);
	return is_found;
}

static bool find_below(const char *const *folders, size_t n, const char *name, char ret[static PATH_MAX])
{
	char pattern[PATH_MAX];

	for (size_t i = 0; i < n; i++) {
		const int len = snprintf(pattern, sizeof(pattern), "%s/%s", folders[i], name);

		if (len > 0 && (size_t) len < sizeof(pattern) && match(pattern, ret))
			return true;
	}
	return false;
}

/* In the folders of LD_LIBRARY_PATH, then in the usual ones. */
static bool find_library(const char *name, char ret[static PATH_MAX])
{
	const char *list = getenv("LD_LIBRARY_PATH");

	while (list && *list) {
		const size_t len = strcspn(list, ":;");
		char path[PATH_MAX];

		if (len > 0 && len < PATH_MAX / 2) {
			(void) snprintf(path, sizeof(path), "%.*s/%s", (int) len, list, name);
			if (access(path, F_OK) == 0) {
				(void) snprintf(ret, PATH_MAX, "%s", path);
				return true;
			}
		}
		list += len + (list[len] != '\0');
	}
	return find_below(library_folders, sizeof(library_folders) / sizeof(*library_folders), name, ret);
}

/* CUPTI of the toolkit, or of a virtual environment that is active here. */
static bool find_cupti(char ret[static PATH_MAX])
{
	const char *home = getenv("VIRTUAL_ENV");
	char folder[PATH_MAX];

	for (size_t i = 0; home && i < sizeof(cupti_below_python) / sizeof(*cupti_below_python); i++) {
		const char *const one = folder;
		const int len = snprintf(
			folder, sizeof(folder), "%s/lib/python3*/site-packages/%s", home, cupti_below_python[i]);

		if (len > 0 && (size_t) len < sizeof(folder) && find_below(&one, 1, "libcupti.so.1*", ret))
			return true;
	}
	return find_library("libcupti.so.1*", ret) ||
	       find_below(cupti_folders, sizeof(cupti_folders) / sizeof(*cupti_folders), "libcupti.so.1*", ret);
}

/* True if the file contains the text: a loader of OpenCL that knows layers has their variable's name. */
static bool has_text(const char *path, const char *text)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	bool ret = false;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= 0)
		return false;
	void *map = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

	if (map != MAP_FAILED) {
		ret = memmem(map, (size_t) st.st_size, text, strlen(text)) != NULL;
		(void) munmap(map, (size_t) st.st_size);
	}
	return ret;
}

/* ---- the rows --------------------------------------------------------------------------------- */

static const char *value_of(const char *variable)
{
	const char *value = getenv(variable);

	return value && *value ? value : NULL;
}

static void nvtx(struct doctor_row *row)
{
	const char *other = value_of("NVTX_INJECTION64_PATH");

	row->what = "ranges (NVTX)";
	if (other)
		doctor_row_set(row, true, "", "after that of another tool, which is called first: %s", other);
	else
		doctor_row_set(row, true, "", "%s, in any library that emits NVTX", LIBRARY);
}

static void itt(struct doctor_row *row)
{
	const char *other = value_of("INTEL_LIBITTNOTIFY64");

	row->what = "ranges (ITT)";
	if (other)
		doctor_row_set(row, false, "unset INTEL_LIBITTNOTIFY64", "another tool follows ITT: %s", other);
	else
		doctor_row_set(row, true, "", "%s: PyTorch, oneDNN, TBB", LIBRARY);
}

/* The platforms that the loader would load, by their files: "pocl, nvidia". */
static size_t list_platforms(char *ret, size_t size)
{
	const char *folder = value_of("OCL_ICD_VENDORS");
	char pattern[PATH_MAX];
	glob_t found;
	size_t n = 0, len = 0;

	(void) snprintf(pattern, sizeof(pattern), "%s/*.icd", folder ? folder : "/etc/OpenCL/vendors");
	*ret = '\0';
	if (glob(pattern, 0, NULL, &found) == 0)
		n = found.gl_pathc;
	for (size_t i = 0; i < n && len < size; i++) {
		const char *path = found.gl_pathv[i];
		const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
		const int more = snprintf(ret + len, size - len, "%s%.*s", i > 0 ? ", " : "",
			(int) (strlen(name) - strlen(".icd")), name);

		len += more > 0 ? (size_t) more : 0;
	}
	globfree(&found);
	return n;
}

static void opencl(struct doctor_row *row)
{
	char path[PATH_MAX], platforms[512];

	row->what = "OpenCL";
	if (!find_library("libOpenCL.so.1", path))
		doctor_row_set(row, false, "", "no OpenCL here (no libOpenCL.so.1)");
	else if (!has_text(path, "OPENCL_LAYERS"))
		doctor_row_set(row, false, "install a loader with layers (ocl-icd 2.3, or Khronos's)",
			"the loader %s knows no layers", path);
	else if (list_platforms(platforms, sizeof(platforms)) == 0)
		doctor_row_set(row, false, "install the vendor's OpenCL runtime", "no OpenCL platform in /etc/OpenCL/vendors");
	else
		doctor_row_set(row, true, "", "a layer of %s; platforms: %s", path, platforms);
}

static void cuda(struct doctor_row *row)
{
	const char *other = value_of("CUDA_INJECTION64_PATH");
	char path[PATH_MAX], file[PATH_MAX];

	row->what = "CUDA";
	if (!find_library("libcuda.so.1", path))
		doctor_row_set(row, false, "", "no CUDA driver here (no libcuda.so.1)");
	else if (other)
		doctor_row_set(row, false, "unset CUDA_INJECTION64_PATH", "another tool follows CUDA: %s", other);
	else if (!find_cupti(path))
		doctor_row_set(row, false,
			"none if the program brings its own (PyTorch does); else install the CUDA toolkit, or pip install nvidia-cuda-cupti",
			"no libcupti in the usual folders and in this virtual environment");
	else
		doctor_row_set(row, true, "", "CUPTI, %s", realpath(path, file) ? file : path);
}

void doctor_trace_find(struct doctor_trace *ret)
{
	static void (*const finders[DOCTOR_TRACE_ROWS])(
		struct doctor_row *row) = { nvtx, itt, opencl, cuda };
	char path[PATH_MAX], why[PROGRAM_WHY_LEN];

	*ret = (struct doctor_trace) { 0 };
	for (size_t i = 0; i < DOCTOR_TRACE_ROWS; i++)
		finders[i](&ret->rows[i]);
	if (program_find(LIBRARY, path, sizeof(path)) == 0)
		return;
	program_why_not(LIBRARY, why, sizeof(why));
	(void) snprintf(ret->lacks, sizeof(ret->lacks), "%.1000s", why);
	for (size_t i = 0; i < DOCTOR_TRACE_ROWS; i++)
		doctor_row_set(&ret->rows[i], false, "install hiwater with " LIBRARY, "%s", ret->lacks);
}

/* ---- text and JSON ------------------------------------------------------------------------------ */

void doctor_trace_text(const struct doctor_trace *t, size_t width, struct buf *out)
{
	if (t->lacks[0])
		doctor_rows_lack("hiwater run --trace", t->lacks, width, out);
	else
		doctor_rows_text(t->rows, DOCTOR_TRACE_ROWS, "RUN --TRACE", "To follow", width, out);
}

void doctor_trace_json(const struct doctor_trace *t, struct json *j)
{
	doctor_rows_json(t->rows, DOCTOR_TRACE_ROWS, "trace", j);
}

/* SPDX-License-Identifier: MIT */
#include "cli/run/trace.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parse.h"
#include "base/root.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/programs.h"

#define LIBRARY "libhiwater-trace.so"
#define TRACE   "HIWATER_TRACE"

/* ---- options --------------------------------------------------------------------------------- */

int parse_trace(const char *value, void *dest, struct err *err)
{
	struct trace_options *o = dest;
	struct hiw_err why = { "" };
	const int r = hwi_trace_layers(value, &o->what.layers, &why);

	return r < 0 ? err_set(err, r, "%s", why.text) : 0;
}

int parse_trace_limit(const char *value, void *dest, struct err *err)
{
	struct trace_options *o = dest;
	int64_t bytes;
	const int r = units_parse_bytes(value, &bytes, err);

	if (r < 0)
		return r;
	if (bytes < 1000000)
		return err_set(err, -EINVAL, "'%.80s' is too little; give 1MB or more", value);
	o->what.limit_bytes = (uint64_t) bytes;
	return 0;
}

int parse_trace_window(const char *value, void *dest, struct err *err)
{
	struct trace_options *o = dest;

	if (o->n_windows == TRACE_WINDOWS)
		return err_set(err, -EINVAL, "at most %d may be given", TRACE_WINDOWS);
	o->windows[o->n_windows++] = value;
	o->what.windows = o->windows;
	return 0;
}

const char *trace_option_alone(const struct trace_options *o)
{
	if (o->what.layers)
		return NULL;
	return o->what.limit_bytes   ? "--trace-limit"
	       : o->n_windows        ? "--trace-window"
	       : o->what.phase_range ? "--phase-range"
	       : o->what.step        ? "--step"
				     : NULL;
}

void trace_refuse(void)
{
	complain("--trace: a process that already runs cannot be traced: the library that writes events is loaded when a "
		 "program starts to use NVTX, ITT, CUDA or OpenCL; start it with hiwater run --trace");
}

/* ---- may it be traced? ----------------------------------------------------------------------- */

/* The recorder that a value of HIWATER_TRACE names, "FD:PID:DEVICE:INODE:@SOCKET", if it is running: the process of
 * that number may be another by now. 0: none. */
static pid_t recorder_of(const char *value)
{
	uint64_t numbers[4]; /* as in the value */
	struct root root = { 0 };
	struct stat st;
	char path[64];
	int r;

	for (int i = 0; i < 4; i++) {
		if (parse_u64(&value, &numbers[i]) < 0 || *value++ != ':')
			return 0;
	}
	if (numbers[0] > INT32_MAX || numbers[1] == 0 || numbers[1] > INT32_MAX)
		return 0;
	(void) snprintf(path, sizeof(path), "%d/fd/%d", (int) numbers[1], (int) numbers[0]);
	r = root_open("/", &root, NULL) < 0 || fstatat(root.proc, path, &st, 0) < 0 ? -errno : 0;
	root_done(&root);
	if (r == 0)
		return st.st_dev == numbers[2] && st.st_ino == numbers[3] ? (pid_t) numbers[1] : 0;
	return r == -EACCES && kill((pid_t) numbers[1], 0) < 0 && errno == EPERM ? (pid_t) numbers[1] : 0;
}

/* The library is next to this program in a build, else where it is installed. */
static int find_library(char path[static PATH_MAX])
{
	const char *given = getenv("HIWATER_TRACE_LIBRARY");

	if (given && *given == '/' && strlen(given) < PATH_MAX) {
		(void) snprintf(path, PATH_MAX, "%s", given);
		return access(path, R_OK) == 0 ? 0 : -errno;
	}
	return program_find(LIBRARY, path, PATH_MAX);
}

int trace_prepare(struct trace_job *ret, const struct trace_options *options, bool strict, bool quiet)
{
	const char *outer = getenv(TRACE);
	char why[PROGRAM_WHY_LEN];

	*ret = (struct trace_job) { .what = options->what, .fd = -1 };
	if (!ret->what.layers)
		return 0;
	if (outer && strcmp(outer, "off") == 0) {
		if (!quiet)
			complain("the job is not traced: " TRACE " is off");
		ret->what.layers = 0;
		return 0;
	}
	if (outer && recorder_of(outer) > 0) {
		if (!quiet)
			complain("the job is traced by the enclosing hiwater, process %d; its recording has the events",
				(int) recorder_of(outer));
		ret->what.layers = 0;
		return 0;
	}
	if (find_library(ret->library) == 0)
		return 0;
	program_why_not(LIBRARY, why, sizeof(why));
	ret->what.layers = 0;
	if (strict)
		complain("--trace: %s; the job was not started (--strict)", why);
	else if (!quiet)
		complain("warning: the job is not traced: %s", why);
	return strict ? -ENOENT : 0;
}

/* ---- the environment ------------------------------------------------------------------------- */

static bool is_variable(const char *entry, const char *name)
{
	const size_t n = strlen(name);

	return strncmp(entry, name, n) == 0 && entry[n] == '=';
}

/* Sets a variable in the copy, which has room for it. */
static int set(struct trace_job *t, const char *name, const char *before, const char *value)
{
	char **at = t->environment;
	char *text;

	if (asprintf(&text, "%s=%s%s", name, before, value) < 0)
		return -ENOMEM;
	t->owned[t->n_owned++] = text;
	while (*at && !is_variable(*at, name))
		at++;
	if (!*at)
		at[1] = NULL;
	*at = text;
	return 0;
}

enum present {
	LEFT,      /* what is there already stays, and hiwater does without */
	CHAINED,   /* the library calls it */
	APPENDED,  /* it is a list */
};

static const struct hook {
	enum hwi_trace_hook hook;
	const char *variable;
	enum present present;
	const char *lost;
} hooks[] = {
	{ HWI_TRACE_NVTX, "NVTX_INJECTION64_PATH", CHAINED, "" },
	{ HWI_TRACE_ITT, "INTEL_LIBITTNOTIFY64", LEFT, "ranges of ITT" },
	{ HWI_TRACE_CUDA, "CUDA_INJECTION64_PATH", LEFT, "CUDA" },
	{ HWI_TRACE_OPENCL, "OPENCL_LAYERS", APPENDED, "" },
};

static int set_hook(struct trace_job *t, const struct hook *hook, bool quiet)
{
	const char *now = getenv(hook->variable);
	char before[2 * PATH_MAX] = "";
	int r = 0;

	if (!hwi_trace_needs(t->what.layers, hook->hook) || (now && strcmp(now, t->library) == 0))
		return 0;
	if (now && *now && hook->present == LEFT) {
		if (!quiet)
			complain("%s is set already, to %.200s: it stays, and hiwater does not follow %s", hook->variable,
				now, hook->lost);
		return 0;
	}
	if (now && *now && hook->present == CHAINED) {
		r = set(t, "HIWATER_TRACE_NVTX", "", now);
		if (!quiet)
			complain("%s is set already, to %.200s: that tool is called first, and both get every range",
				hook->variable, now);
	}
	if (now && *now && hook->present == APPENDED)
		(void) snprintf(before, sizeof(before), "%s:", now);
	return r < 0 ? r : set(t, hook->variable, before, t->library);
}

/* CUDA's tracing has one user in a process, and which job will use PyTorch's profiler is not known. So it
 * is said wherever there may be an NVIDIA GPU; HIWATER_NVML stands for one in tests. */
static void warn_of_profiler(const struct trace_job *t)
{
	bool is_ours = false;

	for (char **at = t->environment; *at; at++)
		is_ours |= is_variable(*at, "CUDA_INJECTION64_PATH") && strcmp(strchr(*at, '=') + 1, t->library) == 0;
	if (is_ours && hwi_trace_needs(t->what.layers, HWI_TRACE_CUDA) &&
		(access("/dev/nvidiactl", F_OK) == 0 || getenv("HIWATER_NVML")))
		complain("torch.profiler in this job will have no GPU events, since CUDA's tracing has one user; "
			 "--trace=ranges leaves it to PyTorch");
}

/* oneDNN's own choice is a range for each worker thread of a primitive; one for the primitive is what its log counts. */
static int choose_tasks(struct trace_job *t)
{
	const bool is_followed = hwi_trace_needs(t->what.layers, HWI_TRACE_ITT) && !getenv("INTEL_LIBITTNOTIFY64");

	return is_followed && !getenv("ONEDNN_ITT_TASK_LEVEL") ? set(t, "ONEDNN_ITT_TASK_LEVEL", "", "1") : 0;
}

/* run --where=python: a perf map, which names Python's functions. */
static int set_python(struct trace_job *t, bool quiet)
{
	if (!quiet)
		complain("PYTHONPERFSUPPORT=1 is set for the job: Python from 3.12 on names its functions, which makes calls "
			 "slower; programs that start it with -I or -E are not named");
	return set(t, "PYTHONPERFSUPPORT", "", "1");
}

int trace_environment(struct trace_job *t, const struct hiw_recorder *recorder, bool quiet)
{
	const size_t room = sizeof(t->owned) / sizeof(*t->owned) + 1;
	size_t n = 0;
	int r;

	t->fd = hwi_recorder_trace_fd(recorder);
	if (t->fd < 0 && !t->what.sampling.removes_maps)
		return 0;
	while (environ[n])
		n++;
	t->environment = calloc(n + room, sizeof(*t->environment));
	if (!t->environment)
		return -ENOMEM;
	memcpy(t->environment, environ, n * sizeof(*environ));
	r = t->what.sampling.removes_maps ? set_python(t, quiet) : 0;
	if (t->fd < 0)
		return r;
	if (r == 0)
		r = set(t, TRACE, "", hwi_recorder_trace_environment(recorder));
	for (size_t i = 0; i < sizeof(hooks) / sizeof(*hooks) && r == 0; i++)
		r = set_hook(t, &hooks[i], quiet);
	if (r == 0)
		r = choose_tasks(t);
	if (r == 0 && !quiet)
		warn_of_profiler(t);
	return r;
}

void trace_done(struct trace_job *t)
{
	for (unsigned i = 0; i < t->n_owned; i++)
		free(t->owned[i]);
	free(t->environment);
	*t = (struct trace_job) { .fd = -1 };
}

/* SPDX-License-Identifier: MIT */
#include "cli/run/where.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/parse.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/programs.h"

#define PROGRAM "hiwater-where"

enum {
	PERIOD = 64,              /* faults a sample */
	PERIOD_FINE = 16,
	STACK_BYTES = 16384,
	STACK_MOST = 65528,
	PATIENCE_MS = 1000,
	POLL_MS = 5,
};

static int parse_stack(const char *value, unsigned *ret, struct err *err)
{
	int64_t bytes;
	const int r = units_parse_bytes(value, &bytes, err);

	if (r < 0)
		return r;
	if (bytes < 1024 || bytes > 65536)
		return err_set(err, -EINVAL, "stack=%.20s: give 1K to 64K", value);
	bytes = bytes / 8 * 8;
	*ret = bytes > STACK_MOST ? STACK_MOST : (unsigned) bytes;
	return 0;
}

int parse_where(const char *value, void *dest, struct err *err)
{
	struct where_options *o = dest;
	char word[32];
	size_t n;

	o->enabled = true;
	for (const char *p = value ? value : ""; *p; p += n + (p[n] == ',')) {
		int r = 0;

		n = strcspn(p, ",");
		(void) snprintf(word, sizeof(word), "%.*s", (int) (n < sizeof(word) ? n : sizeof(word) - 1), p);
		if (strcmp(word, "fine") == 0)
			o->fine = true;
		else if (strcmp(word, "python") == 0)
			o->python = true;
		else if (strncmp(word, "stack=", 6) == 0)
			r = parse_stack(word + 6, &o->stack_bytes, err);
		else
			r = err_set(err, -EINVAL,
				"'%.40s' is not a way to sample; give some of fine, python, stack=SIZE, "
				"separated by commas",
				word);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Apart, since a stack may be small (ulimit -s): only runs that are sampled need room for paths. */
static __attribute__((noinline)) int find_program(struct where_job *w)
{
	char path[PATH_MAX], why[PROGRAM_WHY_LEN];

	if (program_find(PROGRAM, path, sizeof(path)) == 0) {
		w->program = strdup(path);
		return w->program ? 0 : -ENOMEM;
	}
	program_why_not(PROGRAM, why, sizeof(why));
	w->enabled = false;
	if (w->strict)
		complain("--where: %s; the job was not started (--strict)", why);
	else if (!w->quiet)
		complain("warning: memory is not sampled: %s", why);
	return w->strict ? -ENOENT : 0;
}

int where_prepare(struct where_job *w, const struct where_options *options, bool strict, bool quiet,
	struct hwi_sampling *ret)
{
	int r;

	*w = (struct where_job) { .enabled = options->enabled, .quiet = quiet, .strict = strict };
	if (!options->enabled)
		return 0;
	r = find_program(w);
	if (r < 0 || !w->program)
		return r;
	*ret = (struct hwi_sampling) {
		.program = w->program,
		.period = options->fine ? PERIOD_FINE : PERIOD,
		.stack_bytes = options->stack_bytes ? options->stack_bytes : STACK_BYTES,
		.removes_maps = options->python && !getenv("PYTHONPERFSUPPORT"),
	};
	return 0;
}

int where_hold(void *ctx, pid_t pid, pid_t *ret_reader)
{
	struct where_job *w = ctx;
	struct hiw_err err = { "" };
	const int error = hwi_recorder_where(w->recorder, pid, &w->pid, &err);

	*ret_reader = w->pid;
	if (error == 0)
		return 0;
	if (w->strict)
		complain("--where: %s; the job was not started (--strict)", err.text);
	else if (!w->quiet)
		complain("warning: memory is not sampled: %s", err.text);
	return w->strict ? error : 0;
}

void where_left(struct where_job *w)
{
	w->pid = 0;
}

void where_end(struct where_job *w)
{
	const struct timespec moment = { .tv_nsec = POLL_MS * 1000000 };

	free(w->program);
	w->program = NULL;
	for (int ms = 0; w->pid && ms < PATIENCE_MS; ms += POLL_MS) {
		if (waitpid(w->pid, NULL, WNOHANG) != 0)
			w->pid = 0;
		else
			(void) nanosleep(&moment, NULL);
	}
	if (!w->pid)
		return;
	(void) kill(w->pid, SIGKILL);
	(void) waitpid(w->pid, NULL, 0);
	w->pid = 0;
}

/* SPDX-License-Identifier: MIT
 *
 * summary/summary_gpu_reported.c matches these texts, to drop a note that a later one completes
 * (is_told_better).
 */
#include "gpu/watchdog.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "base/units.h"

#define SECOND UINT64_C(1000000000)

enum {
	FLAGS_BEHIND_STATE = 6, /* fields of proc(5)'s stat */
	PF_EXITING = 4,
};
static const uint64_t silence_ns = 5 * SECOND;           /* a longer call is a silence */
static const uint64_t last_silence_ns = SECOND;      /* at the end of the run */
static const uint64_t unanswered_ns = SECOND / 10;   /* at the end of the run: long enough for a note */

const char *gpu_run_time(uint64_t start_ns, uint64_t at_ns, char text[GPU_RUN_TIME])
{
	const uint64_t s = at_ns > start_ns ? (at_ns - start_ns) / SECOND : 0;

	return units_instant((int64_t) (s * SECOND), text);
}

const char *gpu_call_name(
	const struct source_ops *ops, const struct driver_call_trace *call, char text[GPU_CALL])
{
	const uint32_t device = atomic_load(&call->device);
	const char *name = ops->call_name ? ops->call_name(atomic_load(&call->call)) : NULL;

	if (name && device)
		(void) snprintf(text, GPU_CALL, "%s of GPU %u", name, (unsigned) (device - 1));
	else
		(void) snprintf(text, GPU_CALL, "%s", name ? name : "");
	return text;
}

/* ---- silences -------------------------------------------------------------------------------- */

uint64_t gpu_watchdog_overslept(struct gpu_watchdog *w, uint64_t due_ns, uint64_t now_ns)
{
	if (due_ns == 0 || now_ns < due_ns)
		return 0;
	if (w->due_ns != due_ns) {
		w->due_ns = due_ns;
		w->missed_ns = now_ns;
	}
	return w->missed_ns;
}

static void begin(struct gpu_watchdog *w, uint64_t call_ns)
{
	w->since_ns = call_ns;
	w->reported = false;
	w->first_ns = w->n++ ? w->first_ns : call_ns;
}

void gpu_watchdog_end(struct gpu_watchdog *w, uint64_t now_ns)
{
	const uint64_t took = now_ns > w->since_ns ? now_ns - w->since_ns : 0;

	if (!w->since_ns)
		return;
	w->sum_ns += took;
	w->longest_ns = took > w->longest_ns ? took : w->longest_ns;
	w->last_ns = now_ns;
	w->since_ns = 0;
}

/* Words a silence that has not ended. */
static void format_silence(const struct gpu_watchdog *w, const char *what, const char *call,
	uint64_t since_ns, char text[GPU_REPORT])
{
	char at[GPU_RUN_TIME];

	(void) snprintf(text, GPU_REPORT,
		"gpu: %s %s since %s%s%s%s; its values are missing from that time on", w->label, what,
		gpu_run_time(w->start_ns, since_ns, at), *call ? " (" : "", call, *call ? ")" : "");
}

bool gpu_watchdog_check(struct gpu_watchdog *w, const char *call, uint64_t call_ns, uint64_t now_ns,
	char text[GPU_REPORT])
{
	const uint64_t silent_ns = call_ns && now_ns > call_ns ? now_ns - call_ns : 0;
	char from[GPU_RUN_TIME], to[GPU_RUN_TIME];

	if (w->since_ns && call_ns != w->since_ns) {
		(void) snprintf(text, GPU_REPORT,
			"gpu: %s did not answer from %s to %s; its values for that time are missing",
			w->label, gpu_run_time(w->start_ns, w->since_ns, from),
			gpu_run_time(w->start_ns, now_ns, to));
		gpu_watchdog_end(w, now_ns);
		return w->reported;
	}
	if (silent_ns <= silence_ns)
		return false;
	if (!w->since_ns)
		begin(w, call_ns);
	if (w->reported || silent_ns <= 2 * w->longest_ns)
		return false;
	w->reported = true;
	format_silence(w, "has not answered", call, w->since_ns, text);
	return true;
}

unsigned gpu_watchdog_finish(struct gpu_watchdog *w, const char *call, uint64_t call_ns, uint64_t now_ns,
	char texts[2][GPU_REPORT])
{
	char from[GPU_RUN_TIME], to[GPU_RUN_TIME], sum[GPU_RUN_TIME];
	unsigned n = 0;

	if (!w->since_ns && call_ns && now_ns > call_ns + last_silence_ns)
		begin(w, call_ns);
	if (w->n > 1) {
		const uint64_t last_ns = w->since_ns ? now_ns : w->last_ns,
			       sum_ns = w->sum_ns + (w->since_ns ? now_ns - w->since_ns : 0);

		(void) snprintf(texts[n++], GPU_REPORT,
			"gpu: %s did not answer %u times between %s and %s, for %s in total; "
			"its values for those times are missing",
			w->label, w->n, gpu_run_time(w->start_ns, w->first_ns, from),
			gpu_run_time(w->start_ns, last_ns, to), gpu_run_time(0, sum_ns + SECOND / 2, sum));
	}
	if (w->since_ns && (w->n > 1 || !w->reported))
		format_silence(w, "has not answered", call, w->since_ns, texts[n++]);
	else if (!w->since_ns && call_ns && now_ns > call_ns + unanswered_ns) /* it may just be slow */
		format_silence(w, "was still being read when the run ended,", call, call_ns, texts[n++]);
	return n;
}

/* ---- killed processes ------------------------------------------------------------------------ */

/* A thread that has begun to exit and does not wait in a driver; one that is gone counts as
 * well. */
static bool is_thread_exiting(int tasks, const char *tid)
{
	char path[64], text[512];
	const char *p;
	uint64_t flags;

	(void) snprintf(path, sizeof(path), "%.20s/stat", tid);
	if (smallfile_read(tasks, path, text, sizeof(text)) <= 0)
		return true;
	p = strrchr(text, ')');
	if (!p || strlen(p) < 3 || p[2] == 'D')
		return false;
	p += 2;
	for (int i = 0; i < FLAGS_BEHIND_STATE; i++) {
		(void) parse_field(&p);
		parse_blanks(&p);
	}
	return parse_u64(&p, &flags) == 0 && flags & PF_EXITING;
}

bool gpu_is_exiting(const struct root *root, pid_t pid)
{
	char path[64];

	(void) snprintf(path, sizeof(path), "%d/task", (int) pid);

	const int fd = openat(root->proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclosedir DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *d;

	if (!dir && fd >= 0)
		(void) close(fd);
	while (dir && (d = readdir(dir))) {
		if (d->d_name[0] != '.' && !is_thread_exiting(fd, d->d_name))
			return false;
	}
	return true;
}

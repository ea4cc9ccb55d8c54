/* SPDX-License-Identifier: MIT */
#include "record/write/writer_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "record/history/history.h"
#include "record/history/history_array.h"
#include "record/recorder_id.h"
#include "record/network_fs.h"
#include "record/write/record_check.h"

static const uint64_t copy_first_ns = UINT64_C(10000000000), copy_last_ns = UINT64_C(60000000000);

/* ---- space for the final message ------------------------------------------------------------- */

void spare_free(struct writer *w)
{
	if (w->spare >= 0)
		(void) close(w->spare);
	w->spare = -1;
}

enum {
	SPARE_REASON = 16384,           /* for a transaction that changes one row: the last one of all */
	SPARE_ALL = SPARE_REASON + 32768, /* and for the end of the run, before it */
};

/* An unnamed file in the recording's folder, removed with this process: its disk space is
 * available when the disk is full. Some file systems do not support it; then the final message
 * may be missing. */
static void spare_keep(struct writer *w)
{
	autofree char *folder = strdup(w->file);
	char *slash = folder ? strrchr(folder, '/') : NULL;

	if (!folder)
		return;
	if (slash)
		slash[1] = '\0';
	w->spare = open(slash ? folder : ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (w->spare >= 0 && posix_fallocate(w->spare, 0, SPARE_ALL) != 0)
		spare_free(w);
}

void spare_use(struct writer *w)
{
	if (w->spare >= 0 && ftruncate(w->spare, SPARE_REASON) < 0)
		spare_free(w);
}

/* Stores the error, so that readers do not report the recorder as lost. */
static void store_reason(struct writer *w, const char *why)
{
	char text[sizeof(w->store->why)];

	(void) snprintf(text, sizeof(text), "%s", why);
	spare_free(w);
	if (w->store->wal && store_begin(w->store) == 0 &&
		store_meta_text(w->store, "recording_stopped", text) == 0)
		(void) store_commit(w->store);
}

struct err *writer_text(struct writer *w)
{
	if (!w->trouble.text[0])
		return &w->trouble;
	w->n_news++;
	return &w->news;
}

void writer_report_gap(struct writer *w)
{
	char gap[UNITS_LEN];

	if (w->has_resumed && w->finishing)
		(void) err_set(writer_text(w), 0, "the recording has a gap of %s: %s",
			units_duration((int64_t) w->gap_ns, gap), w->why);
	w->has_resumed = false;
}

/* A file with committed data is kept; an empty one is removed. */
static void end_file(struct writer *w, int r, const char *why)
{
	const char *name = w->is_temporary ? w->target : w->file;
	const bool is_empty = w->commits == 0, has_name = store_has_name(w->store);
	char end[UNITS_LEN];

	trace_write_free(w->trace);
	w->trace = NULL;
	where_write_free(w->where);
	w->where = NULL;
	store_rollback(w->store);
	if (!is_empty)
		store_reason(w, why);
	if (w->said_stopped)
		writer_report_gap(w); /* the end was reported when the recording paused */
	else if (is_empty)
		(void) err_set(writer_text(w), r, "no recording: cannot write %s: %s%s", name, why,
			w->finishing ? "" : ". The run continues");
	else
		(void) err_set(writer_text(w), r, "recording stopped: cannot write %s: %s. It ends %s into the run%s",
			name, why, units_instant((int64_t) w->committed_ns, end),
			w->finishing ? "" : "; the run continues");
	writer_close(w, false);
	if (is_empty && has_name) {
		store_unlink(w->file);
		writer_remove(w, false);
	}
}

int writer_fail(struct writer *w, int r, const char *why)
{
	if (w->failed)
		return r;
	why = why && *why ? why : strerror(-r);
	w->failed = true;
	w->result = r;
	if (w->store)
		end_file(w, r, why);
	else if (!w->trouble.text[0])
		(void) err_set(&w->trouble, r, "no recording: %s%s", why, w->finishing ? "" : ". The run continues");
	return r;
}

int writer_lose(struct writer *w, const char *what)
{
	const bool has_name = store_has_name(w->store);
	char end[UNITS_LEN];

	if (w->finishing)
		(void) err_set(writer_text(w), -EBADMSG,
			"no recording: another program has %s %s during the run", what, w->file);
	else
		(void) err_set(writer_text(w), -EBADMSG,
			"no recording: another program has %s %s, %s into the run. The run continues", what,
			w->file, units_instant((int64_t) w->last_ns, end));
	w->failed = w->lost = true;
	w->result = -EBADMSG;
	store_rollback(w->store);
	writer_close(w, false);
	if (has_name)
		store_unlink_journals(w->file);
	spare_free(w);
	return w->result;
}

/* ---- creating -------------------------------------------------------------------------------- */

/* Other runs may choose a name at the same time (the ranks of a job): making the file decides. */
static int reserve_name(struct writer *w)
{
	char path[PATH_MAX];
	int fd;

	for (unsigned n = w->options.number; record_name(w->options.path, n, path, sizeof(path)) == 0; n++) {
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0 && errno == EEXIST)
			continue;
		if (fd < 0)
			return -errno;
		(void) close(fd);
		w->reserved = true;
		w->target = strdup(path);
		if (n != w->options.number)
			(void) err_set(&w->note, 0, RECORD_RENAMED, w->options.path, path);
		return w->target ? 0 : -ENOMEM;
	}
	return -EEXIST;
}

static int choose_target(struct writer *w)
{
	uint64_t number;

	if (w->options.path && w->options.number)
		return reserve_name(w);
	if (w->options.path) {
		w->target = strdup(w->options.path);
		return w->target ? 0 : -ENOMEM;
	}
	w->reserved = true;
	const int r = history_reserve(&w->target, &number, &w->trouble);

	if (r == 0)
		history_array_note(w->target, w->options.job_key);
	return r;
}

/* A file that is written at once replaces an existing one only at the end; a growing one needs
 * its name now. */
static int clear_target(struct writer *w)
{
	struct stat st;

	if (w->reserved || lstat(w->target, &st) < 0)
		return 0;
	if (!w->options.overwrite)
		return err_set(&w->trouble, -EEXIST,
			"no recording: %s was created by another program meanwhile", w->target);
	store_unlink(w->target);
	return 0;
}

static int choose_local(struct writer *w)
{
	const char *name = strrchr(w->target, '/');
	char path[PATH_MAX];
	int r;

	r = network_fs_local_folder(path, sizeof(path) - NAME_MAX - 2, &w->trouble);
	if (r < 0)
		return r;
	w->folder = strdup(path);
	(void) snprintf(path + strlen(path), NAME_MAX + 2, "%s", name ? name : "/run.hiw");
	w->file = strdup(path);
	return w->folder && w->file ? 0 : -ENOMEM;
}

static int choose_file(struct writer *w, bool whole)
{
	char path[PATH_MAX];
	int r = 0;

	if (w->options.write_locally)
		return choose_local(w);
	if (!whole) {
		r = clear_target(w);
		w->file = r == 0 ? strdup(w->target) : NULL;
		return r < 0 ? r : w->file ? 0
					   : -ENOMEM;
	}
	r = network_fs_temporary(w->target, path, sizeof(path));
	if (r < 0)
		return r;
	w->is_temporary = true;
	(void) unlink(path); /* left by a process that had our pid */
	w->file = strdup(path);
	return w->file ? 0 : -ENOMEM;
}

int writer_sign(struct writer *w)
{
	struct store *s = w->store;
	struct recorder_id id;
	int r = 0;

	if (recorder_id_self(&id) < 0)
		return 0; /* to readers, its recorder is gone */
	r = store_meta_int(s, "recorder_pid", id.pid);
	if (r == 0)
		r = store_meta_int(s, "recorder_start", (int64_t) id.start_ticks);
	if (r == 0 && w->options.trace_step)
		r = store_meta_text(s, "trace_step_re", w->options.trace_step);
	return r == 0 ? store_meta_text(s, "boot_id", id.boot) : r;
}

/* People find it by the number of the job; if that fails, they find it by its path. */
static void note_job(const struct writer *w)
{
	autofree char *path = strdup(w->target);

	if (!w->options.job_key || !path)
		return;
	if (w->options.job_has_folder)
		*strrchr(path, '/') = '\0';
	(void) history_point(w->options.job_key, path);
}

int writer_open(struct writer *w, bool whole)
{
	struct store_options options = {
		.wal = !whole,
		.max_bytes = w->options.max_bytes,
		.wal_pages = thin_wal_pages(w->options.max_bytes),
	};
	int r = choose_target(w);

	if (r == 0)
		r = choose_file(w, whole);
	if (r == 0) {
		options.path = w->file;
		options.name = w->is_temporary ? w->target : w->file;
		options.reserved = w->reserved && !w->is_temporary && !w->folder;
		r = store_create(&options, &w->store, &w->trouble);
	}
	if (r == 0)
		r = store_begin(w->store);
	if (r == 0)
		r = writer_sign(w);
	if (r == 0 && !whole)
		spare_keep(w);
	if (r == 0)
		note_job(w);
	if (r < 0) {
		char why[sizeof(w->trouble.text)];

		memcpy(why, w->trouble.text, sizeof(why));
		w->trouble.text[0] = '\0';
		(void) writer_fail(w, r, w->store ? store_why(w->store) : why);
		if (w->reserved && w->target)
			(void) unlink(w->target);
	}
	return r;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static int copy_to(struct writer *w, const char *temporary)
{
	int fd, r;

	(void) unlink(temporary);
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = store_copy(w->store, fd);
	if (close(fd) < 0 && r == 0)
		r = -errno;
	if (r < 0)
		(void) unlink(temporary);
	return r;
}

static bool may_replace(const struct writer *w)
{
	return w->reserved || w->copied || w->options.overwrite;
}

/* A failed copy is tried again; only the one at the end is essential. */
void writer_snapshot(struct writer *w, bool now)
{
	char temporary[PATH_MAX];

	if (!w->folder || !w->store || w->failed)
		return;
	if (w->copy_every_ns == 0)
		w->copy_every_ns = copy_first_ns;
	if (!now && w->last_ns < w->copied_ns + w->copy_every_ns)
		return;
	w->copied_ns = w->last_ns;
	w->copy_every_ns += w->copy_every_ns / 2;
	if (w->copy_every_ns > copy_last_ns)
		w->copy_every_ns = copy_last_ns;
	if (network_fs_temporary(w->target, temporary, sizeof(temporary)) < 0 || copy_to(w, temporary) < 0)
		return;
	if (network_fs_rename(temporary, w->target, may_replace(w)) == 0)
		w->copied = true;
	else
		(void) unlink(temporary);
}

/* ---- the end --------------------------------------------------------------------------------- */

int writer_place(struct writer *w)
{
	char temporary[PATH_MAX];
	int r;

	if (w->is_temporary) {
		r = network_fs_rename(w->file, w->target, may_replace(w));
		if (r < 0)
			(void) unlink(w->file);
		return r;
	}
	if (!w->folder) /* it may have been removed meanwhile */
		return access(w->file, F_OK) < 0 ? -errno : 0;
	r = network_fs_temporary(w->target, temporary, sizeof(temporary));
	if (r == 0) {
		(void) unlink(temporary);
		r = network_fs_copy(w->file, temporary);
	}
	if (r == 0) {
		r = network_fs_rename(temporary, w->target, may_replace(w));
		if (r < 0)
			(void) unlink(temporary);
	}
	return r;
}

static int place_anew(struct writer *w, const char *temporary, char *ret, size_t size)
{
	autofree char *path = NULL;
	uint64_t number;
	int r;

	if (!w->options.path) {
		r = history_reserve(&path, &number, NULL);
		if (r < 0)
			return r;
		(void) snprintf(ret, size, "%s", path);
		return network_fs_rename(temporary, ret, true);
	}
	for (unsigned n = 2; (r = record_name(w->options.path, n, ret, size)) == 0; n++) {
		r = network_fs_rename(temporary, ret, false);
		if (r != -EEXIST)
			break;
	}
	return r;
}

int writer_move(struct writer *w)
{
	char temporary[PATH_MAX], path[PATH_MAX] = "";
	int r = network_fs_temporary(w->target, temporary, sizeof(temporary));

	if (r == 0)
		r = copy_to(w, temporary);
	if (r == 0) {
		r = place_anew(w, temporary, path, sizeof(path));
		if (r < 0)
			(void) unlink(temporary);
	}
	if (r < 0)
		return err_set(writer_text(w), r,
			"no recording: another program replaced %s during the run, and no other file can be written: %s",
			w->target, strerror(-r));
	w->n_news++;
	(void) err_set(&w->news, 0, "another program replaced %s during the run: its recording is %s",
		w->target, path);
	free(w->target);
	w->target = strdup(path);
	w->moved = true;
	return w->target ? 0 : -ENOMEM;
}

void writer_remove(struct writer *w, bool keep)
{
	if (w->folder && w->file)
		store_unlink(w->file);
	if (w->folder)
		(void) rmdir(w->folder);
	if (!keep && w->reserved && w->target)
		store_unlink(w->target);
}

void writer_abandon(struct writer *w, bool keep)
{
	if (w->is_temporary && w->file) {
		(void) unlink(w->file); /* it would have been one transaction */
		keep = false;
	}
	if (!keep)
		writer_remove(w, false);
}

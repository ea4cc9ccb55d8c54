/* SPDX-License-Identifier: MIT */
#include "record/merge/merge.h"

#include <errno.h>
#include <stdio.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/history/job_pointer.h"
#include "record/merge/merge_internal.h"
#include "record/network_fs.h"
#include "record/part_table.h"

static void merge_done(struct merge *m)
{
	for (size_t i = 0; i < m->n_inputs; i++) {
		free(m->inputs[i].path);
		free(m->inputs[i].name);
	}
	for (size_t i = 0; i < m->n; i++)
		candidate_done(&m->candidates[i]);
	free(m->inputs);
	free(m->candidates);
	free(m->other_jobs);
	free(m->node_of);
	for (size_t i = 0; i < m->n_earlier; i++)
		earlier_problem_done(&m->earlier[i]);
	free(m->earlier);
	parts_free(m->parts);
	job_free(m->job);
	merge_cells_done(&m->cells);
}

static int failed(struct merge *m, const char *output, int r)
{
	const char *why = store_why(m->store);

	return m->err && m->err->text[0]
		       ? r
		       : err_set(m->err, r, "cannot write %.200s: %s", output, why[0] ? why : strerror(-r));
}

static int write_store(struct merge *m)
{
	int r = store_begin(m->store);

	if (r == 0)
		r = part_tables_create(m->store);
	if (r == 0)
		r = merge_read_inputs(m);
	if (r == 0)
		r = merge_align(m);
	if (r == 0)
		r = merge_put_marks(m);
	if (r == 0)
		r = merge_add_up(m);
	if (r == 0)
		r = merge_copy_gpus(m);
	if (r == 0)
		r = merge_copy_trace(m);
	if (r == 0)
		r = merge_copy_where(m);
	if (r == 0)
		r = merge_write(m);
	return r == 0 ? store_commit(m->store) : r;
}

/* Writes the file, which appears when it is complete. */
static int write_file(struct merge *m, const char *output)
{
	char temporary[PATH_MAX];
	struct store_options options = { .path = temporary, .name = output, .max_bytes = UINT64_MAX };
	int r = network_fs_temporary(output, temporary, sizeof(temporary));

	if (r < 0)
		return err_set(m->err, r, "the name %.200s is too long", output);
	store_unlink(temporary); /* left by a process that had our pid */
	r = store_create(&options, &m->store, m->err);
	if (r < 0)
		return r;
	r = write_store(m);
	if (r < 0)
		r = failed(m, output, r);
	const int closed = store_close(m->store, r == 0);

	m->store = NULL;
	if (r == 0 && closed < 0)
		r = err_set(m->err, closed, "cannot write %.200s: %s", output, strerror(-closed));
	if (r == 0) {
		r = network_fs_rename(temporary, output, false);
		if (r < 0)
			(void) err_set(m->err, r, "cannot write %.200s: %s", output, strerror(-r));
	}
	if (r < 0)
		store_unlink(temporary);
	return r;
}

int merge_recordings(const char *const *paths, size_t n, const char *output, struct err *err)
{
	const struct job_config config = { .page_bytes = 4096 };
	struct err own = { "" };
	struct merge m = { .err = err ? err : &own, .parts = parts_new(), .job = job_new(&config) };
	struct stat st;
	int r = m.parts && m.job ? 0 : err_set(m.err, -ENOMEM, "out of memory");

	if (r == 0 && lstat(output, &st) == 0)
		r = err_set(m.err, -EEXIST, "%.200s exists; give another name, or remove it first", output);
	for (size_t i = 0; i < n && r == 0; i++)
		r = merge_add_path(&m, paths[i]);
	if (r == 0)
		r = write_file(&m, output);
	merge_done(&m);
	return r;
}

int merge_open(const char *path, struct replay **ret, struct err *err)
{
	autopaths struct job_paths listed = { 0 };
	char folder[PATH_MAX], file[PATH_MAX];
	struct stat st;
	int r;

	if ((stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) && job_pointer_read(path, &listed) < 0)
		return replay_open(path, ret, err);
	r = network_fs_local_folder(folder, sizeof(folder) - sizeof("/job.hiw"), err);
	if (r < 0)
		return r;
	(void) snprintf(
		file, sizeof(file), "%.*s/job.hiw", (int) (sizeof(file) - sizeof("/job.hiw")), folder);
	if (listed.n > 0)
		r = merge_recordings((const char *const *) listed.paths, listed.n, file, err);
	else
		r = merge_recordings(&path, 1, file, err);
	if (r == 0)
		r = replay_open(file, ret, err);
	store_unlink(file); /* the open file stays readable */
	(void) rmdir(folder);
	return r;
}

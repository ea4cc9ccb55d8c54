/* SPDX-License-Identifier: MIT
 *
 * The recordings that a RUN of several ranks stands for: a folder of them, or what a list of a job names.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "api/handles.h"
#include "record/history/job_folder.h"
#include "record/history/job_pointer.h"

struct seeing {
	int (*see)(void *ctx, struct replay *replay);
	void *ctx;
	struct err *err;
};

static int see_file(const struct seeing *s, const char *path)
{
	struct replay *replay = NULL;
	int r = replay_open(path, &replay, s->err);

	if (r == 0)
		r = s->see(s->ctx, replay);
	replay_close(replay);
	return r;
}

static int see_folder(const struct seeing *s, const char *path)
{
	autoparts struct job_parts parts = { 0 };
	int r = job_folder_parts(path, &parts), first = 0;
	size_t n_read = 0;

	if (r < 0)
		return err_set(s->err, r, "cannot read the folder %.200s: %s", path, strerror(-r));
	for (size_t i = 0; i < parts.n && r != -ENOMEM; i++) {
		if (i > 0 && parts.parts[i].rank >= 0 && parts.parts[i].rank == parts.parts[i - 1].rank)
			continue;
		r = see_file(s, parts.parts[i].path);
		n_read += r == 0;
		first = first ? first : r;
	}
	if (parts.n == 0)
		return err_set(s->err, -ENOENT, "%.200s has no recordings", path);
	return n_read > 0 && r != -ENOMEM ? 0 : first;
}

static int see_path(const struct seeing *s, const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? see_folder(s, path) : see_file(s, path);
}

int each_recording(
	const char *path, int (*see)(void *ctx, struct replay *replay), void *ctx, struct err *err)
{
	const struct seeing s = { see, ctx, err };
	autopaths struct job_paths paths = { 0 };
	const char *folder;
	int r = 0;

	if (job_pointer_read(path, &paths) != 0)
		return see_path(&s, path);
	folder = job_paths_folder(&paths);
	if (folder)
		return see_path(&s, folder);
	for (size_t i = 0; i < paths.n && r == 0; i++)
		r = see_path(&s, paths.paths[i]);
	return r;
}

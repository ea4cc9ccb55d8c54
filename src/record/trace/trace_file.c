/* SPDX-License-Identifier: MIT */
#include "record/trace/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "record/network_fs.h"
#include "record/read/replay.h"

/* What is written is not read by anybody, and removed if it is not finished: it needs no journal on disk. */
static int begin(struct store *s, const char *path, struct err *err)
{
	int r = store_run(s, "PRAGMA journal_mode=MEMORY");

	if (r == 0)
		r = store_begin(s);
	if (r < 0)
		(void) err_set(err, r, "cannot write %s: %s", path, store_why(s));
	return r;
}

/* The temporary file, of which none is there afterwards. */
static int temporary_of(const char *path, char ret[PATH_MAX], struct err *err)
{
	const int r = network_fs_temporary(path, ret, PATH_MAX);

	if (r < 0)
		return err_set(err, r, "cannot write %s: %s", path, strerror(-r));
	store_unlink(ret);
	return 0;
}

/* Which run it is, and by what it was made. */
static int write_identity(struct store *s)
{
	unsigned char bytes[16];
	char text[2 * sizeof(bytes) + 1];
	int r;

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t) sizeof(bytes))
		return -EIO;
	for (size_t i = 0; i < sizeof(bytes); i++)
		(void) snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	r = store_meta_text(s, "id", text);
	if (r == 0)
		r = store_meta_text(s, "mode", "import");
	return r == 0 ? store_meta_text(s, "version", HIW_VERSION) : r;
}

static void abandon(struct store *s, const char *temporary)
{
	store_rollback(s);
	(void) store_close(s, false);
	store_unlink(temporary);
}

int trace_file_create(const char *path, bool reserved, struct store **ret, struct err *err)
{
	char temporary[PATH_MAX];
	const struct store_options options = { .path = temporary, .name = path };
	struct store *s = NULL;
	int r = temporary_of(path, temporary, err);

	if (r < 0)
		return r;
	if (!reserved && access(path, F_OK) == 0)
		return err_set(err, -EEXIST, "%s already exists; choose another name or remove it", path);
	r = store_create(&options, &s, err);
	if (r < 0)
		return r;
	r = begin(s, path, err);
	if (r == 0) {
		r = write_identity(s);
		if (r < 0)
			(void) err_set(err, r, "cannot write %s: %s", path, store_why(s));
	}
	if (r < 0) {
		abandon(s, temporary);
		return r;
	}
	*ret = s;
	return 0;
}

int trace_file_facts_write(struct store *s, const struct trace_file_facts *facts)
{
	const struct {
		const char *key, *text;
	} texts[] = { { "name", facts->name }, { "command", facts->command }, { "host", facts->host } };
	const struct {
		const char *key;
		bool is_known;
		int64_t value;
	} numbers[] = {
		{ "started_wall_ns", facts->started_wall_ns != 0, facts->started_wall_ns },
		{ "ended_ns", true, (int64_t) facts->ended_ns },
		{ "last_ns", true, (int64_t) facts->ended_ns },
		{ "rank", facts->rank >= 0, facts->rank },
		{ "ranks", facts->ranks >= 0, facts->ranks },
	};
	int r = 0;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && r == 0; i++) {
		if (texts[i].text && *texts[i].text)
			r = store_meta_text(s, texts[i].key, texts[i].text);
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && r == 0; i++) {
		if (numbers[i].is_known)
			r = store_meta_int(s, numbers[i].key, numbers[i].value);
	}
	return r;
}

/* Its journal, if it has one, would be taken for that of the file that takes its place. */
static bool has_journal(const char *path)
{
	char name[PATH_MAX];
	struct stat st;

	(void) snprintf(name, sizeof(name), "%s-wal", path);
	return stat(name, &st) == 0 && st.st_size > 0;
}

/* A copy with the file's owner and mode. */
static int copy_recording(const char *path, const char *temporary, struct err *err)
{
	struct replay *replay = NULL;
	struct stat st;
	int r = replay_open(path, &replay, err);

	if (r < 0)
		return r;
	if (replay_growing(replay))
		r = err_set(err, -EBUSY, "%s is still being recorded; import into it when its run has ended", path);
	else
		r = replay_copy(replay, temporary, err);
	replay_close(replay);
	if (r < 0 || stat(path, &st) < 0)
		return r;
	if (chown(temporary, st.st_uid, st.st_gid) < 0 || chmod(temporary, st.st_mode & 07777) < 0)
		r = err_set(err, -errno, "cannot write %s: %s", temporary, strerror(errno));
	return r;
}

int trace_file_open(const char *path, struct store **ret, struct err *err)
{
	char temporary[PATH_MAX];
	int r = temporary_of(path, temporary, err);

	if (r < 0)
		return r;
	if (has_journal(path))
		store_settle(path);
	r = copy_recording(path, temporary, err);
	if (r == 0 && has_journal(path))
		r = err_set(err, -EBUSY, "%s is open in another program; try again when that has ended", path);
	if (r == 0)
		r = store_open_existing(temporary, ret, err);
	if (r == 0) {
		r = begin(*ret, path, err);
		if (r < 0)
			abandon(*ret, temporary);
	}
	if (r < 0)
		store_unlink(temporary);
	return r;
}

/* A file takes the place of another one only when it is on the disk. */
static int sync_file(const char *path)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

int trace_file_end(struct store *s, const char *path, bool keep, bool replaces, struct err *err)
{
	autofree char *temporary = strdup(s->path);
	int r = temporary ? 0 : -ENOMEM;

	if (!temporary)
		keep = false;
	if (!keep) {
		store_rollback(s);
	} else {
		r = store_commit(s);
		if (r < 0)
			(void) err_set(err, r, "cannot write %s: %s", path, store_why(s));
	}
	(void) store_close(s, keep && r == 0);
	if (r == 0 && keep) {
		r = replaces ? sync_file(temporary) : 0;
		if (r == 0)
			r = network_fs_rename(temporary, path, replaces);
		if (r < 0)
			(void) err_set(err, r, "cannot write %s: %s", path, strerror(-r));
	}
	if (temporary && (!keep || r < 0))
		store_unlink(temporary);
	return r;
}

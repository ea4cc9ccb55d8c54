/* SPDX-License-Identifier: MIT */
#include "record/trace/trace_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "record/read/replay.h"

static int begin(struct store *s, const char *path, struct err *err)
{
	const int r = store_begin(s);

	if (r < 0)
		(void) err_set(err, r, "cannot write %s: %s", path, store_why(s));
	return r;
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

int trace_file_create(const char *path, bool reserved, struct store **ret, struct err *err)
{
	const struct store_options options = { .path = path, .name = path, .reserved = reserved };
	struct store *s = NULL;
	int r = store_create(&options, &s, err);

	if (r < 0)
		return r;
	r = begin(s, path, err);
	if (r == 0) {
		r = write_identity(s);
		if (r < 0)
			(void) err_set(err, r, "cannot write %s: %s", path, store_why(s));
	}
	if (r < 0) {
		(void) trace_file_end(s, false, true, NULL);
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

int trace_file_open(const char *path, struct store **ret, struct err *err)
{
	struct replay *replay = NULL;
	int r = replay_open(path, &replay, err);

	if (r < 0)
		return r;
	if (replay_growing(replay))
		r = err_set(err, -EBUSY, "%s is still being recorded; import into it when its run has ended", path);
	replay_close(replay);
	if (r == 0)
		r = store_open_existing(path, ret, err);
	if (r < 0)
		return r;
	r = begin(*ret, path, err);
	if (r < 0)
		(void) store_close(*ret, false);
	return r;
}

int trace_file_end(struct store *s, bool keep, bool is_new, struct err *err)
{
	autofree char *path = strdup(s->path);
	int r = 0;

	if (keep)
		r = store_commit(s);
	else
		store_rollback(s);
	if (r < 0)
		(void) err_set(err, r, "cannot write %s: %s", path ? path : "the recording", store_why(s));
	(void) store_close(s, keep && r == 0);
	if (is_new && path && (!keep || r < 0))
		store_unlink(path);
	return r;
}

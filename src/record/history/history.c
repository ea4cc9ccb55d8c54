/* SPDX-License-Identifier: MIT */
#include "record/history/history.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/folders.h"
#include "base/clock.h"
#include "base/units.h"
#include "record/history/history_array.h"
#include "record/history/history_job.h"
#include "record/history/history_list.h"
#include "record/history/history_run.h"
#include "record/history/job_folder.h"
#include "record/network_fs.h"
#include "record/read/replay.h"
#include "record/store.h"

enum {
	MOST_TRIES = 1000,
	NEW_S = 60,
	JOB_RESTS_S = 600, /* recordings are written to every minute at least */
};

/* ---- numbers --------------------------------------------------------------------------------- */

static bool has_journal(const char *path)
{
	static const char *const ends[] = { "-wal", "-journal" };
	char journal[PATH_MAX];

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		const int len = snprintf(journal, sizeof(journal), "%s%s", path, ends[i]);

		if (len > 0 && (size_t) len < sizeof(journal) && access(journal, F_OK) == 0)
			return true;
	}
	return false;
}

/* A job's folder has the same row of numbers. */
static bool is_of_a_folder(const char *history, uint64_t number)
{
	autoclosedir DIR *dir = opendir(history);
	const struct dirent *entry;
	uint64_t found;
	const char *key;

	while (dir && (entry = readdir(dir))) {
		if (history_name(entry->d_name, &found, &key) && key && found == number)
			return true;
	}
	return false;
}

int history_reserve(char **ret_path, uint64_t *ret_number, struct err *err)
{
	autolist struct listing list;
	char path[PATH_MAX];
	struct listed run = { 0 };
	int r = history_list(&list, false, err);

	if (r == 0 && (r = folders_make(list.folder)) < 0)
		(void) err_set(
			err, r, "cannot create the history's folder %s: %s", list.folder, strerror(-r));
	if (r < 0)
		return r;
	run.number = history_next(&list);
	for (int i = 0; i < MOST_TRIES; i++, run.number++) {
		int fd;

		history_list_path(&list, &run, path, sizeof(path));
		if (has_journal(path))
			continue; /* SQLite would take it for the journal of the new recording */
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0 && errno == EEXIST)
			continue; /* another run was faster */
		if (fd < 0)
			return err_set(err, -errno, "cannot write %s: %s", path, strerror(errno));
		(void) close(fd);
		if (is_of_a_folder(list.folder, run.number)) {
			(void) unlink(path);
			continue;
		}
		*ret_path = strdup(path);
		*ret_number = run.number;
		return *ret_path ? 0 : err_set(err, -ENOMEM, "out of memory");
	}
	return err_set(err, -EEXIST, "no free run number in %s", list.folder);
}

/* ---- the folder of a job --------------------------------------------------------------------- */

/* The newest folder of that key, unless it rests: launchers use their numbers again (torchrun's "none", Slurm's after a new
 * start of its database), and what has not been written to for so long is another job's. */
static bool find_folder(const struct listing *list, const char *key, int64_t now_s, char *ret, size_t size)
{
	autoparts struct job_parts parts = { 0 };

	for (size_t i = list->n; i > 0; i--) {
		const struct listed *run = &list->runs[i - 1];

		if (!run->key || strcmp(run->key, key) != 0)
			continue;
		history_list_path(list, run, ret, size);
		return job_folder_parts(ret, &parts) == 0 && now_s - parts.mtime_s < JOB_RESTS_S;
	}
	return false;
}

/* The number is reserved as that of any other run until the folder has its name. */
static int make_folder(const struct listing *list, const char *key, char *ret, size_t size, struct err *err)
{
	struct listed run = { .key = (char *) (uintptr_t) key };
	autofree char *reserved = NULL;
	int r = history_reserve(&reserved, &run.number, err);

	if (r < 0)
		return r;
	history_list_path(list, &run, ret, size);
	if (mkdir(ret, 0700) < 0)
		r = err_set(err, -errno, "cannot create the folder %s: %s", ret, strerror(errno));
	(void) unlink(reserved);
	return r;
}

/* With the lock: what another rank has made is visible now. The lock's time is that of the file system's clock. */
static int find_or_make(const char *lock, const char *key, char *ret, size_t size, struct err *err)
{
	autolist struct listing list = { .n = 0 };
	struct stat st;
	int r = history_list(&list, false, err);

	if (r < 0)
		return r;
	if (find_folder(&list, key, stat(lock, &st) == 0 ? st.st_mtime : time(NULL), ret, size))
		return 0;
	return make_folder(&list, key, ret, size, err);
}

/* One rank at a time, on all nodes: making a folder is atomic on every file system, and what is made in it makes a client of NFS
 * read the history anew. A lock that outlasts the patience is that of a rank that was killed. */
static int lock_and_make(const char *lock, const char *key, char *ret, size_t size, struct err *err)
{
	static const struct timespec pause = { .tv_nsec = 2000000 };
	static const uint64_t patience_ns = UINT64_C(1000000000);
	uint64_t until_ns = clock_boot_ns() + patience_ns;
	int r;

	while (mkdir(lock, 0700) < 0) {
		autolist struct listing list = { .n = 0 };

		if (errno != EEXIST)
			return err_set(err, -errno, "cannot create a folder in the history: %s: %s", lock,
				strerror(errno));
		if (history_list(&list, false, NULL) == 0 && find_folder(&list, key, time(NULL), ret, size))
			return 0;
		if (clock_boot_ns() > until_ns) {
			(void) rmdir(lock);
			until_ns += patience_ns;
		}
		(void) nanosleep(&pause, NULL);
	}
	r = find_or_make(lock, key, ret, size, err);
	(void) rmdir(lock);
	return r;
}

int history_job_folder(const char *key, char **ret_folder, struct err *err)
{
	autolist struct listing list = { .n = 0 };
	char clean[JOB_KEY_BYTES], lock[PATH_MAX], path[PATH_MAX];
	int r = job_folder_key(key, clean, sizeof(clean));

	if (r < 0)
		return err_set(err, r, "\"%.80s\" cannot name the folder of a job", key);
	r = history_list(&list, false, err);
	if (r == 0 && !find_folder(&list, clean, time(NULL), path, sizeof(path))) {
		r = folders_make(list.folder);
		if (r < 0)
			return err_set(err, r, "cannot create the history's folder %s: %s", list.folder,
				strerror(-r));
		(void) snprintf(lock, sizeof(lock), "%s/.making-%s", list.folder, clean);
		r = lock_and_make(lock, clean, path, sizeof(path), err);
	}
	if (r < 0)
		return r;
	*ret_folder = strdup(path);
	return *ret_folder ? 0 : err_set(err, -ENOMEM, "out of memory");
}

/* ---- reading --------------------------------------------------------------------------------- */

void history_done(struct history *h)
{
	for (size_t i = 0; i < h->n; i++)
		history_entry_done(&h->entries[i]);
	free(h->entries);
	*h = (struct history) { 0 };
}

/* False: it has just started, or it is not a recording. */
static bool entry_of(
	const struct listing *list, size_t i, struct history_entry *ret, struct replay **ret_replay)
{
	const struct listed *run = &list->runs[i];
	char path[PATH_MAX];

	if (run->bytes == 0)
		return false;
	history_list_path(list, run, path, sizeof(path));
	if ((run->key ? history_job_entry(path, ret) : history_entry_open(path, ret, ret_replay)) < 0)
		return false;
	ret->number = run->number;
	ret->file_bytes = run->bytes;
	return true;
}

int history_newest(bool (*see)(void *ctx, const struct history_entry *entry, struct replay *replay),
	void *ctx, struct err *err)
{
	autolist struct listing list;
	bool more = true;
	int r = history_list(&list, false, err);

	for (size_t i = r < 0 ? 0 : list.n; more && i > 0; i--) {
		struct history_entry entry = { 0 };
		struct replay *replay = NULL;

		if (list.runs[i - 1].key || !entry_of(&list, i - 1, &entry, &replay))
			continue;
		more = see(ctx, &entry, replay);
		history_entry_done(&entry);
		replay_close(replay);
	}
	return r;
}

int history_read(struct history *ret, struct err *err)
{
	autolist struct listing list;
	struct history h = { 0 };
	int r = history_list(&list, true, err);

	if (r < 0)
		return r;
	h.entries = calloc(list.n ? list.n : 1, sizeof(*h.entries));
	if (!h.entries)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < list.n; i++)
		h.n += entry_of(&list, i, &h.entries[h.n], NULL);
	*ret = h;
	return 0;
}

/* ---- removing -------------------------------------------------------------------------------- */

/* A reserved file is empty until its first window closes. */
static bool is_beginning(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_size == 0 && time(NULL) - st.st_mtime < NEW_S;
}

static int check_file_removal(const char *path, uint64_t number, struct err *err)
{
	struct history_entry entry = { 0 };

	if (history_entry_read(path, &entry) == 0) {
		bool running = entry.running;

		history_entry_done(&entry);
		if (running)
			return err_set(err, -EBUSY, "run %" PRIu64 " is still running", number);
	} else if (is_beginning(path)) {
		return err_set(
			err, -EBUSY, "run %" PRIu64 " has just started; try again when it has ended", number);
	}
	return 0;
}

/* The run at path. */
struct removable {
	char folder[PATH_MAX]; /* the history's */
	uint64_t number;
	bool is_folder;
};

/* May it be removed? */
static int check_removal(const char *path, struct removable *ret, struct err *err)
{
	const char *name, *key;
	int r = history_dir(ret->folder, sizeof(ret->folder), err);

	if (r < 0)
		return r;
	const size_t n = strlen(ret->folder);

	name = strncmp(path, ret->folder, n) == 0 && path[n] == '/' ? path + n + 1 : "";
	if (strncmp(name, "jobs/", 5) == 0)
		return err_set(err, -EINVAL,
			"the recordings that %s names were written with -o and are not in the history; remove them with rm",
			path);
	if (!history_name(name, &ret->number, &key) || strchr(name, '/'))
		return err_set(err, -EINVAL, "%s is not in the history; remove it with rm", path);
	ret->is_folder = key != NULL;
	if (!history_is_ours(ret->folder, name))
		return err_set(err, -EINVAL, "%s is not a hiwater recording; remove it with rm", path);
	if (!key)
		return check_file_removal(path, ret->number, err);
	if (history_job_is_running(path))
		return err_set(err, -EBUSY, "run %" PRIu64 " is still running, or has just started", ret->number);
	return 0;
}

int history_may_remove(const char *path, struct err *err)
{
	struct removable run;

	return check_removal(path, &run, err);
}

int history_remove(const char *run, struct err *err)
{
	autofree char *path = NULL;
	struct removable found;
	int r = history_find(run, &path, err);

	if (r == 0)
		r = check_removal(path, &found, err);
	if (r < 0)
		return r;
	const bool is_noted = history_note_removed(found.folder, found.number);

	if (found.is_folder)
		r = job_folder_remove(path, err);
	else
		store_unlink(path);
	if (!is_noted) /* on a full disk, the removal has freed space for it */
		(void) history_note_removed(found.folder, found.number);
	return r;
}

enum removal {
	STAYS,
	REMOVED,
	GONE,       /* another recorder has removed it, and names it */
	UNREADABLE, /* damaged, or of a later version: it stays and does not count, or others would go in its
		     * place */
};

/* REMOVED: it may be. hard: also if a trigger pinned it. */
static enum removal judge(const struct listed *run, const char *path, bool hard)
{
	struct history_job_state state = { 0 };
	struct history_entry entry = { 0 };
	int r;

	if (run->key) {
		r = history_job_state(path, &state);
	} else {
		r = history_entry_read(path, &entry) < 0 ? -EBADMSG : 0;
		if (r < 0 && access(path, F_OK) < 0 && errno == ENOENT)
			r = -ENOENT;
		state = (struct history_job_state) {
			.is_running = entry.running, .is_pinned = entry.pinned, .by_trigger = entry.by_trigger
		};
		history_entry_done(&entry);
	}
	if (r < 0)
		return r == -ENOENT ? GONE : UNREADABLE;
	if (state.is_running || (state.is_pinned && !(hard && state.by_trigger)))
		return STAYS;
	return state.is_unreadable ? UNREADABLE : REMOVED;
}

/* Removes the run unless it has to stay. A run that another program has removed since the listing counts as removed: else a
 * newer one would be removed instead. */
static enum removal remove_if_allowed(const struct listing *list, const struct listed *run, bool hard)
{
	char path[PATH_MAX];
	enum removal what;

	history_list_path(list, run, path, sizeof(path));
	what = judge(run, path, hard);
	if (what == REMOVED && run->key) {
		(void) job_folder_remove(path, NULL); /* what is not hiwater's stays, and does not count */
	} else if (what == REMOVED) {
		what = unlink(path) == 0 ? REMOVED : GONE;
		store_unlink(path); /* with its journals */
	}
	return what;
}

/* Where the bytes are too many: large ones that cannot be read, however new. Opening all would take longer
 * than a short run. */
static void drop_unreadable(struct listing *list, uint64_t max_bytes, size_t *left, uint64_t *bytes)
{
	enum {
		LARGE_PARTS = 32
	};
	char path[PATH_MAX];

	for (size_t i = 0; i < list->n; i++) {
		struct listed *run = &list->runs[i];
		struct replay *replay;

		history_list_path(list, run, path, sizeof(path));
		if (run->bytes == 0 || run->key || run->bytes < max_bytes / LARGE_PARTS)
			continue;
		if (replay_open(path, &replay, NULL) == 0) {
			replay_close(replay);
		} else if (access(path, F_OK) == 0) {
			--*left;
			*bytes -= run->bytes;
			run->bytes = 0;
		}
	}
}

static void write_removed(const struct listing *list, const bool *removed, unsigned max_runs,
	uint64_t max_bytes, struct err *err)
{
	enum {
		MOST_NAMED = 20
	};
	struct buf text = BUF_INIT(sizeof(err->text) / 2);
	char most[UNITS_LEN];
	size_t n = 0, more = 0;

	for (size_t i = 0; i < list->n; i++) {
		if (!removed[i])
			continue;
		if (n < MOST_NAMED)
			(void) buf_printf(&text, "%s%" PRIu64, n ? ", " : "", list->runs[i].number);
		else
			more++;
		n++;
	}
	if (more > 0)
		(void) buf_printf(&text, " and %zu more", more);
	if (n > 0)
		(void) err_set(err, 0,
			"removed the oldest run%s from the history, which keeps at most %u runs and %s: %s",
			n == 1 ? "" : "s", max_runs, units_bytes((int64_t) max_bytes, UNITS_IEC, most),
			text.data);
	buf_done(&text);
}

/* What the runs count. A number that was only reserved may not be kept, and counts nothing. A job that is being recorded never
 * makes all others go, however large it gets. */
static void count_runs(struct listing *list, uint64_t max_bytes, size_t *ret_left, uint64_t *ret_bytes)
{
	char path[PATH_MAX];

	*ret_left = 0;
	*ret_bytes = 0;
	for (size_t i = 0; i < list->n; i++) {
		struct listed *run = &list->runs[i];
		struct history_job_state state;

		history_list_path(list, run, path, sizeof(path));
		if (run->key && run->bytes == 0 && time(NULL) - run->mtime_s > JOB_RESTS_S)
			(void) rmdir(path); /* no rank of it ran long enough to be kept */
		if (run->key && run->bytes > max_bytes / 2 && history_job_state(path, &state) == 0 &&
			state.is_running)
			run->bytes = max_bytes / 2;
		*ret_bytes += run->bytes;
		*ret_left += run->bytes > 0;
	}
}

/* First those that are larger than the limit on their own, as only a job's folder or an array can be: keeping them would remove all
 * that are older. Then the oldest, and at last those that a trigger pinned. */
enum pass {
	TOO_LARGE,
	OLDEST,
	PINNED_BY_TRIGGER,
	PASSES,
};

/* A trim of the history. Tasks of an array count as one run, in place of its newest task. */
struct trim {
	struct listing list;
	size_t *of; /* of each run: the newest of its array; itself */
	size_t *members; /* runs that are left of it */
	uint64_t *array_bytes; /* their bytes */
	bool *removed;
	uint64_t bytes;
	size_t left;
};

static void trim_done(struct trim *t)
{
	free(t->of);
	free(t->members);
	free(t->array_bytes);
	free(t->removed);
	history_list_done(&t->list);
}

/* The array that is being recorded, whose task has just ended, counts as half of the bytes at most. */
static int join_arrays(struct trim *t, uint64_t max_bytes)
{
	const size_t n = t->list.n, last = n > 0 ? n - 1 : 0;
	const int r = history_array_find(&t->list, t->of);

	for (size_t i = 0; r == 0 && i < n; i++) {
		const size_t of = t->of[i];

		if (t->list.runs[i].bytes == 0)
			continue;
		t->left -= t->members[of]++ > 0;
		t->array_bytes[of] += t->list.runs[i].bytes;
	}
	if (r == 0 && t->members[last] > 1 && t->array_bytes[last] > max_bytes / 2)
		t->bytes -= t->array_bytes[last] - max_bytes / 2;
	return r;
}

static void trim_one(struct trim *t, size_t i, enum pass pass)
{
	struct listed *run = &t->list.runs[i];
	const enum removal what = remove_if_allowed(&t->list, run, pass == PINNED_BY_TRIGGER);

	if (what == STAYS)
		return;
	t->removed[i] = what == REMOVED;
	t->left -= --t->members[t->of[i]] == 0;
	t->bytes -= run->bytes;
	t->array_bytes[t->of[i]] -= run->bytes;
	run->bytes = 0;
}

/* All tasks of the array whose newest is i, or none. */
static void trim_array(struct trim *t, size_t i, enum pass pass)
{
	char path[PATH_MAX];
	bool stays = false;

	for (size_t k = 0; t->members[i] > 1 && !stays && k <= i; k++) {
		history_list_path(&t->list, &t->list.runs[k], path, sizeof(path));
		stays = t->of[k] == i && t->list.runs[k].bytes > 0 &&
			judge(&t->list.runs[k], path, pass == PINNED_BY_TRIGGER) == STAYS;
	}
	for (size_t k = 0; !stays && k <= i; k++) {
		if (t->of[k] == i && t->list.runs[k].bytes > 0)
			trim_one(t, k, pass);
	}
}

/* Not of the last one, which has just ended, nor of its array. */
static void trim_pass(struct trim *t, enum pass pass, unsigned max_runs, uint64_t max_bytes)
{
	for (size_t i = 0; i + 1 < t->list.n; i++) {
		const size_t of = t->of[i];

		if (t->list.runs[i].bytes == 0 || of + 1 == t->list.n ||
			(pass == TOO_LARGE && t->array_bytes[of] <= max_bytes))
			continue;
		if (t->bytes > max_bytes)
			trim_one(t, i, pass);
		else if (t->left > max_runs && of == i)
			trim_array(t, i, pass);
	}
}

int history_trim(unsigned max_runs, uint64_t max_bytes, struct err *err)
{
	char folder[PATH_MAX];
	struct trim t = { .left = 0 };
	int r = history_dir(folder, sizeof(folder), err);
	autoclose int turn = r < 0 ? -1 : network_fs_lock(folder); /* others would change the list */

	(void) turn; /* the lock is only kept */
	r = r < 0 ? r : history_list(&t.list, true, err);
	if (r < 0)
		return r;
	const size_t n = t.list.n ? t.list.n : 1;

	t.of = calloc(n, sizeof(*t.of));
	t.members = calloc(n, sizeof(*t.members));
	t.array_bytes = calloc(n, sizeof(*t.array_bytes));
	t.removed = calloc(n, sizeof(*t.removed));
	if (!t.of || !t.members || !t.array_bytes || !t.removed) {
		trim_done(&t);
		return err_set(err, -ENOMEM, "out of memory");
	}
	count_runs(&t.list, max_bytes, &t.left, &t.bytes);
	if (t.bytes > max_bytes)
		drop_unreadable(&t.list, max_bytes, &t.left, &t.bytes);
	if (t.left > max_runs || t.bytes > max_bytes) {
		r = join_arrays(&t, max_bytes);
		for (enum pass pass = TOO_LARGE; r == 0 && pass < PASSES; pass++)
			trim_pass(&t, pass, max_runs, max_bytes);
	}
	write_removed(&t.list, t.removed, max_runs, max_bytes, err);
	trim_done(&t);
	return r < 0 ? err_set(err, r, "out of memory") : 0;
}

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
#include "base/parse.h"
#include "base/units.h"
#include "record/history/history_run.h"
#include "record/network_fs.h"
#include "record/read/replay.h"
#include "record/schema.h"
#include "record/store.h"

enum {
	MOST_RUNS = 1 << 20,
	MOST_TRIES = 1000,
	NEW_S = 60
};

/* ---- the folder ------------------------------------------------------------------------------ */

/* A relative folder would differ for each working directory; the XDG specification requires to
 * ignore it. */
static const char *absolute(const char *name)
{
	const char *value = getenv(name);

	return value && *value == '/' ? value : NULL;
}

static bool is_below(const char *path, const char *folder)
{
	const size_t n = strlen(folder);

	return strncmp(path, folder, n) == 0 && (path[n] == '/' || (n > 0 && folder[n - 1] == '/'));
}

/* A home that does not exist is not made (a service user's, one that is not mounted). */
int history_dir(char *ret, size_t size, struct err *err)
{
	const char *own = getenv("HIWATER_DIR"), *state = absolute("XDG_STATE_HOME"),
		   *home = absolute("HOME");
	autofree char *here = NULL;
	char folder[PATH_MAX];
	struct stat st;
	int n;

	if (!(own && *own) && home && (!state || is_below(state, home)) && stat(home, &st) < 0)
		return err_set(err, -errno, "no folder for the history: HOME is %.200s: %s; set HIWATER_DIR or use -o FILE",
			home, strerror(errno));
	if (own && *own)
		n = snprintf(folder, sizeof(folder), "%s", own);
	else if (state)
		n = snprintf(folder, sizeof(folder), "%s/hiwater", state);
	else if (home)
		n = snprintf(folder, sizeof(folder), "%s/.local/state/hiwater", home);
	else
		return err_set(err, -ENOENT,
			"no folder for the history: HOME is %s; set HIWATER_DIR or use -o FILE",
			getenv("HOME") ? "not an absolute path" : "not set");
	if (n < 0 || (size_t) n >= sizeof(folder))
		return err_set(err, -ENAMETOOLONG, "the path of the history's folder is too long");
	if (folder[0] != '/')
		here = getcwd(NULL, 0);
	n = snprintf(ret, size, "%s%s%s", here ? here : "", here ? "/" : "", folder);
	if (n < 0 || (size_t) n >= size)
		return err_set(err, -ENAMETOOLONG, "the path of the history's folder is too long");
	return 0;
}

/* "17.hiw" */
static bool read_number(const char *name, uint64_t *ret)
{
	const char *p = name;

	return *p != '0' && parse_u64(&p, ret) == 0 && strcmp(p, ".hiw") == 0;
}

struct listed {
	uint64_t number, bytes;
	int64_t mtime_s;
};

struct listing {
	char folder[PATH_MAX - NAME_MAX - 1];
	struct listed *runs; /* oldest first */
	size_t n, cap;
};

static int by_number(const void *a, const void *b)
{
	const struct listed *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

static void list_done(struct listing *list)
{
	free(list->runs);
}

#define autolist __attribute__((cleanup(list_done)))

/* An empty file is a number that a run has reserved. Any other file without the header of a recording
 * belongs to another program: it does not count and is never removed. A file that this process writes or reads is not
 * opened here, since closing it would drop its locks (fcntl(2)). */
static bool is_ours(int folder, const char *name, const struct stat *st)
{
	enum {
		APPLICATION = 68, /* sqlite.org/fileformat2.html */
		HEADER = 100
	};
	static const char magic[16] = "SQLite format 3";
	unsigned char header[HEADER];

	if (st->st_size == 0 || store_is_open(st))
		return true;
	autoclose int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0 || pread(fd, header, HEADER, 0) != HEADER || memcmp(header, magic, sizeof(magic)) != 0)
		return false;
	const unsigned char *at = header + APPLICATION;

	return ((uint32_t) at[0] << 24 | (uint32_t) at[1] << 16 | (uint32_t) at[2] << 8 | at[3]) ==
	       SCHEMA_APPLICATION;
}

static int list_add(struct listing *list, int folder, const char *name)
{
	struct listed run;
	struct stat st;
	char journal[NAME_MAX + 8];

	if (!read_number(name, &run.number) || fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		!S_ISREG(st.st_mode) || !is_ours(folder, name, &st))
		return 0;
	run.bytes = (uint64_t) st.st_size;
	run.mtime_s = st.st_mtime;
	(void) snprintf(journal, sizeof(journal), "%s-wal", name);
	if (fstatat(folder, journal, &st, AT_SYMLINK_NOFOLLOW) == 0)
		run.bytes += (uint64_t) st.st_size;
	if (vec_reserve(&list->runs, &list->cap, list->n, sizeof(run), MOST_RUNS) < 0)
		return -ENOMEM;
	list->runs[list->n++] = run;
	return 0;
}

/* A missing folder is an empty history. */
static int list_read(struct listing *list, struct err *err)
{
	autoclosedir DIR *dir = NULL;
	struct dirent *entry;
	int r;

	memset(list, 0, sizeof(*list));
	r = history_dir(list->folder, sizeof(list->folder), err);
	if (r < 0)
		return r;
	dir = opendir(list->folder);
	if (!dir && errno == ENOENT)
		return 0;
	if (!dir)
		return err_set(err, -errno, "cannot read the history %s: %s", list->folder, strerror(errno));
	while (r == 0 && (entry = readdir(dir)))
		r = list_add(list, dirfd(dir), entry->d_name);
	if (list->n > 0)
		qsort(list->runs, list->n, sizeof(list->runs[0]), by_number);
	return r < 0 ? err_set(err, r, "cannot read the history %s: out of memory", list->folder) : 0;
}

static void path_of(const struct listing *list, uint64_t number, char *ret, size_t size)
{
	(void) snprintf(ret, size, "%s/%" PRIu64 ".hiw", list->folder, number);
}

/* If the newest run was removed, its number is stored, so that no number is used twice: people
 * write numbers down. */
#define NEWEST "newest-removed"

static uint64_t newest_removed(const char *folder)
{
	char path[PATH_MAX], text[32];
	const char *p = text;
	uint64_t number;
	ssize_t n;

	if ((size_t) snprintf(path, sizeof(path), "%s/" NEWEST, folder) >= sizeof(path))
		return 0;
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);

	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	return parse_u64(&p, &number) == 0 && number <= INT64_MAX ? number : 0; /* larger: damaged */
}

/* True if the number is stored. Numbers never get shorter: writing over the old one cannot fail
 * half-way on a full disk. */
static bool note_removed(const char *folder, uint64_t number)
{
	char path[PATH_MAX], text[32];
	const int len = snprintf(text, sizeof(text), "%" PRIu64 "\n", number);

	if (number <= newest_removed(folder))
		return true;
	if ((size_t) snprintf(path, sizeof(path), "%s/" NEWEST, folder) >= sizeof(path))
		return false;
	autoclose int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	return fd >= 0 && write(fd, text, (size_t) len) == len;
}

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

int history_reserve(char **ret_path, uint64_t *ret_number, struct err *err)
{
	autolist struct listing list;
	char path[PATH_MAX];
	uint64_t number;
	int r = list_read(&list, err);

	if (r == 0 && (r = folders_make(list.folder)) < 0)
		(void) err_set(
			err, r, "cannot create the history's folder %s: %s", list.folder, strerror(-r));
	if (r < 0)
		return r;
	number = newest_removed(list.folder);
	if (list.n > 0 && list.runs[list.n - 1].number > number)
		number = list.runs[list.n - 1].number;
	number++;
	for (int i = 0; i < MOST_TRIES; i++, number++) {
		int fd;

		path_of(&list, number, path, sizeof(path));
		if (has_journal(path))
			continue; /* SQLite would take it for the journal of the new recording */
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0 && errno == EEXIST)
			continue; /* another run was faster */
		if (fd < 0)
			return err_set(err, -errno, "cannot write %s: %s", path, strerror(errno));
		(void) close(fd);
		*ret_path = strdup(path);
		*ret_number = number;
		return *ret_path ? 0 : err_set(err, -ENOMEM, "out of memory");
	}
	return err_set(err, -EEXIST, "no free run number in %s", list.folder);
}

/* The number of the folder of this key, the lowest if there are several; 0: none. *ret_newest: the largest number of any run. */
static uint64_t find_folder(const char *folder, const char *key, uint64_t *ret_newest)
{
	autoclosedir DIR *dir = opendir(folder);
	uint64_t found = 0;
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		const char *p = entry->d_name;
		uint64_t number;

		if (*p == '0' || parse_u64(&p, &number) < 0 || (*p != '.' && *p != '-'))
			continue;
		if (number > *ret_newest)
			*ret_newest = number;
		if (*p == '-' && strcmp(p + 1, key) == 0 && (found == 0 || number < found))
			found = number;
	}
	return found;
}

int history_job_folder(const char *key, char **ret_folder, struct err *err)
{
	char folder[PATH_MAX - NAME_MAX], path[PATH_MAX + NAME_MAX];
	int r = history_dir(folder, sizeof(folder), err);
	uint64_t newest, number;

	if (r == 0 && (r = folders_make(folder)) < 0)
		(void) err_set(err, r, "cannot create the history's folder %s: %s", folder, strerror(-r));
	if (r < 0)
		return r;
	autoclose int turn = network_fs_lock(folder);

	(void) turn; /* the lock is only kept; without it, the lowest number wins */
	newest = newest_removed(folder);
	for (int i = 0; (number = find_folder(folder, key, &newest)) == 0; i++) {
		(void) snprintf(path, sizeof(path), "%s/%" PRIu64 "-%s", folder, newest + 1, key);
		if (mkdir(path, 0700) < 0 && (errno != EEXIST || i == MOST_TRIES))
			return err_set(err, -errno, "cannot create the folder %s: %s", path, strerror(errno));
	}
	(void) snprintf(path, sizeof(path), "%s/%" PRIu64 "-%s", folder, number, key);
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

	path_of(list, run->number, path, sizeof(path));
	if (run->bytes == 0 || history_entry_open(path, ret, ret_replay) < 0)
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
	int r = list_read(&list, err);

	for (size_t i = r < 0 ? 0 : list.n; more && i > 0; i--) {
		struct history_entry entry = { 0 };
		struct replay *replay = NULL;

		if (!entry_of(&list, i - 1, &entry, &replay))
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
	int r = list_read(&list, err);

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

/* ---- finding --------------------------------------------------------------------------------- */

static bool ends_in(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

static int found(const char *path, char **ret_path, struct err *err)
{
	*ret_path = strdup(path);
	return *ret_path ? 0 : err_set(err, -ENOMEM, "out of memory");
}

static int find_path(const char *run, char **ret_path, struct err *err)
{
	if (access(run, F_OK) < 0)
		return err_set(err, -errno, "no recording %s: %s%s", run, strerror(errno),
			errno == ENOENT ? ", and no run of that name" : "");
	return found(run, ret_path, err);
}

static int find_number(const struct listing *list, uint64_t number, char **ret_path, struct err *err)
{
	char path[PATH_MAX];

	path_of(list, number, path, sizeof(path));
	if (access(path, F_OK) < 0)
		return err_set(err, -ENOENT, "no run %" PRIu64 " in %s; see hiwater runs", number,
			list->folder);
	return found(path, ret_path, err);
}

/* From the newest on: the first counts. */
static void note_skipped(const struct listing *list, size_t i, uint64_t *ret_skipped)
{
	if (*ret_skipped == 0)
		*ret_skipped = list->runs[i].number;
}

/* The run that is back positions before the last one. */
static int find_last(
	const struct listing *list, uint64_t back, char **ret_path, uint64_t *ret_skipped, struct err *err)
{
	char path[PATH_MAX];

	for (size_t i = list->n; i > 0; i--) {
		if (list->runs[i - 1].bytes == 0) { /* its recorder was killed, or has just reserved it */
			note_skipped(list, i - 1, ret_skipped);
			continue;
		}
		if (back-- > 0)
			continue;
		path_of(list, list->runs[i - 1].number, path, sizeof(path));
		return found(path, ret_path, err);
	}
	return err_set(err, -ENOENT,
		list->n ? "there are fewer runs in %s; see hiwater runs" : "no runs in %s yet", list->folder);
}

/* The latest run for which is returns true. */
static int find_latest(const struct listing *list,
	bool (*is)(const struct history_run *run, const char *what), const char *what, char **ret_path,
	uint64_t *ret_skipped)
{
	char path[PATH_MAX];

	for (size_t i = list->n; i > 0; i--) {
		struct history_run run = { 0 };
		bool yes;

		path_of(list, list->runs[i - 1].number, path, sizeof(path));
		if (list->runs[i - 1].bytes == 0 || history_run_read(path, &run) < 0) {
			note_skipped(list, i - 1, ret_skipped);
			continue;
		}
		if (run.is_blank)
			note_skipped(list, i - 1, ret_skipped);
		yes = is(&run, what);
		history_run_done(&run);
		if (yes)
			return found(path, ret_path, NULL);
	}
	return -ENOENT;
}

static bool is_name(const struct history_run *run, const char *what)
{
	return run->name && strcmp(run->name, what) == 0;
}

/* "4711" also finds its step "4711.0" and its array tasks "4711_7". */
static bool is_slurm(const struct history_run *run, const char *what)
{
	size_t n = strlen(what);

	return run->scheduler && strcmp(run->scheduler, "slurm") == 0 && run->scheduler_job &&
	       n > 0 && strncmp(run->scheduler_job, what, n) == 0 && strchr("._", run->scheduler_job[n]);
}

static bool is_last(const char *run, uint64_t *ret_back)
{
	const char *p = run;

	*ret_back = 0;
	if (!parse_word(&p, "last"))
		return false;
	return *p == '\0' || (*p++ == '-' && parse_u64(&p, ret_back) == 0 && *p == '\0');
}

const char *history_name_of(const char *run)
{
	static const char slurm[] = "slurm:", name[] = "name:";
	const char *p = run;
	uint64_t number;

	if (strncmp(run, name, strlen(name)) == 0)
		return run + strlen(name);
	if (strncmp(run, slurm, strlen(slurm)) == 0 || is_last(run, &number))
		return NULL;
	if (strchr(run, '/'))
		return access(run, F_OK) < 0 ? run : NULL;
	return parse_u64(&p, &number) == 0 && *p == '\0' ? NULL : run;
}

int history_find(const char *run, char **ret_path, struct err *err)
{
	uint64_t skipped;

	return history_find_latest(run, ret_path, &skipped, err);
}

int history_find_latest(const char *run, char **ret_path, uint64_t *ret_skipped, struct err *err)
{
	static const char slurm[] = "slurm:", name[] = "name:";
	autolist struct listing list = { .n = 0 };
	const char *p = run;
	uint64_t number;
	int r;

	*ret_skipped = 0;
	if (*run == '\0')
		return err_set(err, -EINVAL,
			"RUN is empty; give a number, \"last\", a name, name:NAME, a path or slurm:JOB");
	if (strncmp(run, name, strlen(name)) == 0) {
		r = list_read(&list, err);
		r = r < 0 ? r : find_latest(&list, is_name, run + strlen(name), ret_path, ret_skipped);
		return r == -ENOENT
			       ? err_set(err, r, "no run named %s in %s", run + strlen(name), list.folder)
			       : r;
	}
	if (strchr(run, '/') || ends_in(run, ".hiw")) {
		if (access(run, F_OK) < 0 && list_read(&list, NULL) == 0 &&
			find_latest(&list, is_name, run, ret_path, ret_skipped) == 0)
			return 0;
		return find_path(run, ret_path, err);
	}
	r = list_read(&list, err);
	if (r < 0)
		return r;
	if (is_last(run, &number))
		return find_last(&list, number, ret_path, ret_skipped, err);
	if (parse_u64(&p, &number) == 0 && *p == '\0')
		return find_number(&list, number, ret_path, err);
	if (strncmp(run, slurm, strlen(slurm)) == 0) {
		r = find_latest(&list, is_slurm, run + strlen(slurm), ret_path, ret_skipped);
		return r < 0
			       ? err_set(err, r, "no run of Slurm job %s in %s", run + strlen(slurm), list.folder)
			       : 0;
	}
	r = find_latest(&list, is_name, run, ret_path, ret_skipped);
	if (r == -ENOENT && access(run, F_OK) == 0)
		return found(run, ret_path, err);
	return r < 0 ? err_set(err, r, "no run named %s in %s, and no such file", run, list.folder) : 0;
}

/* ---- removing -------------------------------------------------------------------------------- */

/* A reserved file is empty until its first window closes. */
static bool is_beginning(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_size == 0 && time(NULL) - st.st_mtime < NEW_S;
}

/* False: there is no such file, or it is not a recording. */
static bool is_listed(const char *folder, uint64_t number)
{
	autoclosedir DIR *dir = opendir(folder);
	autolist struct listing list = { .n = 0 };
	char name[NAME_MAX];

	(void) snprintf(name, sizeof(name), "%" PRIu64 ".hiw", number);
	return dir && list_add(&list, dirfd(dir), name) == 0 && list.n == 1;
}

/* May the run at path be removed? *ret_number: its number. */
static int check_removal(const char *path, const char *folder, uint64_t *ret_number, struct err *err)
{
	struct history_entry entry = { 0 };
	uint64_t number;

	if (strncmp(path, folder, strlen(folder)) != 0 || path[strlen(folder)] != '/' ||
		!read_number(path + strlen(folder) + 1, &number))
		return err_set(err, -EINVAL, "%s is not in the history; remove it with rm", path);
	if (!is_listed(folder, number))
		return err_set(err, -EINVAL, "%s is not a hiwater recording; remove it with rm", path);
	if (history_entry_read(path, &entry) == 0) {
		bool running = entry.running;

		history_entry_done(&entry);
		if (running)
			return err_set(err, -EBUSY, "run %" PRIu64 " is still running", number);
	} else if (is_beginning(path)) {
		return err_set(
			err, -EBUSY, "run %" PRIu64 " has just started; try again when it has ended", number);
	}
	*ret_number = number;
	return 0;
}

int history_may_remove(const char *path, struct err *err)
{
	char folder[PATH_MAX];
	uint64_t number;
	int r = history_dir(folder, sizeof(folder), err);

	return r < 0 ? r : check_removal(path, folder, &number, err);
}

int history_remove(const char *run, struct err *err)
{
	autofree char *path = NULL;
	char folder[PATH_MAX];
	uint64_t number;
	int r = history_find(run, &path, err);

	if (r == 0)
		r = history_dir(folder, sizeof(folder), err);
	if (r == 0)
		r = check_removal(path, folder, &number, err);
	if (r < 0)
		return r;
	const bool is_noted = note_removed(folder, number);

	store_unlink(path);
	if (!is_noted)
		(void) note_removed(folder, number); /* on a full disk, the removal has freed space for it */
	return 0;
}

enum removal {
	STAYS,
	REMOVED,
	UNREADABLE, /* damaged, or of a later version: it stays and does not count, or others would go in its
		     * place */
};

/* Removes the run unless it has to stay. hard: also if a trigger pinned it. A run that another
 * program has removed since the listing counts as removed: else a newer one would be removed
 * instead. */
static enum removal remove_if_allowed(const struct listing *list, const struct listed *run, bool hard)
{
	struct history_entry entry = { 0 };
	char path[PATH_MAX];
	bool stays;

	path_of(list, run->number, path, sizeof(path));
	if (history_entry_read(path, &entry) < 0)
		return access(path, F_OK) < 0 && errno == ENOENT ? REMOVED : UNREADABLE;
	stays = entry.running || (entry.pinned && !(hard && entry.by_trigger));
	history_entry_done(&entry);
	if (!stays)
		store_unlink(path);
	return stays ? STAYS : REMOVED;
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

		path_of(list, run->number, path, sizeof(path));
		if (run->bytes == 0 || run->bytes < max_bytes / LARGE_PARTS)
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

int history_trim(unsigned max_runs, uint64_t max_bytes, struct err *err)
{
	char folder[PATH_MAX];
	int r = history_dir(folder, sizeof(folder), err);
	autoclose int turn = r < 0 ? -1 : network_fs_lock(folder); /* others would change the list */
	autolist struct listing list = { .n = 0 };
	autofree bool *removed = NULL;
	uint64_t bytes = 0;
	size_t left = 0;

	(void) turn; /* the lock is only kept */
	r = r < 0 ? r : list_read(&list, err);
	if (r < 0)
		return r;
	removed = calloc(list.n ? list.n : 1, sizeof(*removed));
	if (!removed)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < list.n; i++) {
		bytes += list.runs[i].bytes;
		left += list.runs[i].bytes > 0; /* a run that has just started may not be kept */
	}
	if (bytes > max_bytes)
		drop_unreadable(&list, max_bytes, &left, &bytes);
	/* Oldest first, except the last, which has just ended. */
	for (int hard = 0; hard < 2; hard++) {
		for (size_t i = 0; i + 1 < list.n && (left > max_runs || bytes > max_bytes); i++) {
			if (list.runs[i].bytes == 0)
				continue;
			const enum removal what = remove_if_allowed(&list, &list.runs[i], hard == 1);

			if (what == STAYS)
				continue;
			removed[i] = what == REMOVED;
			left--;
			bytes -= list.runs[i].bytes;
			list.runs[i].bytes = 0;
		}
	}
	write_removed(&list, removed, max_runs, max_bytes, err);
	return 0;
}

/* SPDX-License-Identifier: MIT */
#include "cli/run/node_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/smallfile.h"

#define LOCK     "lock"
#define REPORTED "reported"

enum {
	LONGEST_BASE = 200, /* of XDG_RUNTIME_DIR, in bytes */
	TRIES = 16, /* against recorders that remove what this one is about to use */
};
/* Times of files have the resolution of the kernel's clock: what changes within this time may leave them as they are. */
static const int64_t settle_ns = 50000000;

/* ---- the folders ----------------------------------------------------------------------------- */

static int check(int fd, const char *path, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(err, -errno, "%s: %s", path, strerror(errno));
	if (st.st_uid != geteuid())
		return err_set(err, -EPERM, "%s belongs to another user (%u)", path, (unsigned) st.st_uid);
	if (st.st_mode & (S_IRWXG | S_IRWXO))
		return err_set(err, -EPERM, "%s is open to other users (mode %o)", path, (unsigned) st.st_mode & 07777);
	return 0;
}

/* Makes and opens the folder name below parent. Returns a descriptor, or -errno with text. */
static int enter(int parent, const char *name, const char *path, struct err *err)
{
	autoclose int fd = -1;
	int r;

	if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
		return err_set(err, -errno, "cannot make the folder %s: %s", path, strerror(errno));
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "%s: %s", path,
			errno == ELOOP || errno == ENOTDIR ? "not a folder" : strerror(errno));
	r = check(fd, path, err);
	return r < 0 ? r : take_fd(fd);
}

/* XDG_RUNTIME_DIR where it is as its specification says: the one of a login elsewhere, which a batch job may inherit, is not here. */
static const char *base_folder(void)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	struct stat st;

	const char *shared = "/tmp";

	if (!runtime || *runtime != '/' || strlen(runtime) > LONGEST_BASE || stat(runtime, &st) < 0)
		return shared;
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & (S_IRWXG | S_IRWXO)))
		return shared;
	return access(runtime, W_OK) == 0 ? runtime : shared;
}

static int open_once(const char *name, struct node_folder *f, struct err *err)
{
	const char *base = base_folder();
	char user[64];
	int len;

	(void) snprintf(user, sizeof(user), "hiwater-%u", (unsigned) geteuid());
	autoclose int above = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (above < 0)
		return err_set(err, -errno, "%s: %s", base, strerror(errno));
	len = snprintf(f->path, sizeof(f->path), "%s/%s", base, user);
	autoclose int own = enter(above, user, f->path, err);

	if (own < 0)
		return own;
	len += snprintf(f->path + len, sizeof(f->path) - (size_t) len, "/%s", name);
	if ((size_t) len >= sizeof(f->path) || strlen(name) > NAME_MAX)
		return err_set(err, -ENAMETOOLONG, "%s/%s/...: the name is too long", base, user);
	f->dir = enter(own, name, f->path, err);
	return f->dir < 0 ? f->dir : 0;
}

int node_folder_open(const char *name, struct node_folder *ret, struct err *err)
{
	struct node_folder f = NODE_FOLDER_NONE;
	int r;

	*ret = f;
	r = root_open("/", &f.root, err);
	if (r < 0)
		return r;
	for (int i = 0; (r = open_once(name, &f, err)) == -ENOENT && i < TRIES; i++)
		; /* the last recorder has just removed it */
	if (r < 0)
		root_done(&f.root);
	else
		*ret = f;
	return r;
}

/* ---- the leader ------------------------------------------------------------------------------ */

/* Is it the file that others find, or one that a former leader has removed? */
static bool is_current(const struct node_folder *f, int fd)
{
	struct stat ours, theirs;

	if (fstat(fd, &ours) < 0 || fstatat(f->dir, LOCK, &theirs, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	return ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev;
}

bool node_folder_lead(struct node_folder *f)
{
	for (int i = 0; f->dir >= 0 && f->lock < 0 && i < TRIES; i++) {
		autoclose int fd = openat(f->dir, LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
			return false;
		if (is_current(f, fd))
			f->lock = take_fd(fd);
	}
	return f->lock >= 0;
}

/* ---- the ranks ------------------------------------------------------------------------------- */

/* Field 22 of procfs' stat, behind a name that may have any bytes. Returns 0 or -errno; a zombie has ended. */
static int read_start(const struct node_folder *f, pid_t pid, uint64_t *ret)
{
	enum {
		STATE = 3,
		START = 22
	};
	char path[40], text[1024];
	const char *p;
	ssize_t n;

	(void) snprintf(path, sizeof(path), "%d/stat", (int) pid);
	n = smallfile_read(f->root.proc, path, text, sizeof(text));
	if (n < 0)
		return (int) n;
	p = strrchr(text, ')');
	if (!p || p[1] != ' ' || p[2] == 'Z' || p[2] == 'X')
		return -ESRCH;
	for (int field = STATE - 1; p && field < START; field++)
		p = strchr(p + 1, ' ');
	if (!p)
		return -EBADMSG;
	p++;
	return parse_u64(&p, ret) < 0 ? -EBADMSG : 0;
}

static uint64_t pid_namespace(const struct node_folder *f)
{
	struct stat st;

	return fstatat(f->root.proc, "self/ns/pid", &st, 0) == 0 ? st.st_ino : 0;
}

int node_folder_announce(struct node_folder *f, pid_t pid, struct maybe rank)
{
	char text[80], number[24] = "unknown";
	uint64_t start;
	int r = f->dir < 0 ? -EBADF : read_start(f, pid, &start);

	if (r < 0)
		return r;
	if (rank.known)
		(void) snprintf(number, sizeof(number), "%" PRId64, rank.value);
	const int len = snprintf(text, sizeof(text), "rank %s\npidns %" PRIu64 "\n", number, pid_namespace(f));
	char name[sizeof(f->own)];

	(void) snprintf(name, sizeof(name), "%d-%" PRIu64, (int) pid, start);
	autoclose int fd = openat(f->dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, text, (size_t) len) != len)
		return -errno;
	memcpy(f->own, name, sizeof(f->own));
	return 0;
}

bool node_folder_changed(struct node_folder *f)
{
	struct stat st;

	if (f->dir < 0 || fstat(f->dir, &st) < 0)
		return false;
	return !f->settled || f->mtime_ns != st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
}

static bool parse_name(const char *name, struct node_rank *ret)
{
	uint64_t pid;

	if (parse_u64(&name, &pid) < 0 || pid == 0 || pid > INT32_MAX || *name++ != '-' ||
		parse_u64(&name, &ret->start_ticks) < 0 || *name)
		return false;
	ret->pid = (pid_t) pid;
	return true;
}

/* False: it was announced in another PID namespace, or is just being written. */
static bool read_contents(
	const struct node_folder *f, const char *name, struct node_rank *ret, bool *ret_elsewhere)
{
	char text[128];
	const ssize_t n = smallfile_read(f->dir, name, text, sizeof(text));
	const char *p = text;
	uint64_t rank, space;

	if (n <= 0 || !parse_word(&p, "rank "))
		return false;
	ret->rank = parse_u64(&p, &rank) == 0 ? known((int64_t) rank) : UNKNOWN;
	if (!ret->rank.known && !parse_word(&p, "unknown"))
		return false;
	if (!parse_word(&p, "\npidns ") || parse_u64(&p, &space) < 0 || *p != '\n')
		return false;
	*ret_elsewhere = space != pid_namespace(f);
	return !*ret_elsewhere;
}

static bool has_ended(const struct node_folder *f, const struct node_rank *rank)
{
	uint64_t start;
	const int r = read_start(f, rank->pid, &start);

	return r == -ENOENT || r == -ESRCH || (r == 0 && start != rank->start_ticks);
}

/* The folder's entries, with a position of their own. */
static DIR *open_list(const struct node_folder *f)
{
	const int fd = f->dir < 0 ? -1 : openat(f->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);

	if (!list && fd >= 0)
		(void) close(fd);
	return list;
}

size_t node_folder_list(
	struct node_folder *f, void (*see)(void *ctx, const struct node_rank *rank), void *ctx)
{
	autoclosedir DIR *list = open_list(f);
	size_t n_elsewhere = 0;
	struct dirent *entry;
	struct stat st;

	if (!list || fstat(f->dir, &st) < 0)
		return 0;
	f->mtime_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
	f->settled = (int64_t) clock_wall_ns() - f->mtime_ns > settle_ns;
	while ((entry = readdir(list))) {
		struct node_rank rank;
		bool elsewhere = false;

		if (!parse_name(entry->d_name, &rank))
			continue;
		if (!read_contents(f, entry->d_name, &rank, &elsewhere)) {
			n_elsewhere += elsewhere;
			continue;
		}
		if (has_ended(f, &rank))
			(void) unlinkat(f->dir, entry->d_name, 0);
		else
			see(ctx, &rank);
	}
	return n_elsewhere;
}

bool node_folder_report(struct node_folder *f)
{
	const int how = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
	autoclose int fd = f->dir < 0 ? -1 : openat(f->dir, REPORTED, how, 0600);

	return fd >= 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void count(void *ctx, const struct node_rank *rank)
{
	(void) rank;
	++*(size_t *) ctx;
}

/* Only the holder of the lock removes it: the next to lock it finds that it is not current, and makes another. */
static void remove_folder(struct node_folder *f)
{
	(void) unlinkat(f->dir, REPORTED, 0);
	(void) unlinkat(f->dir, LOCK, 0);
	(void) rmdir(f->path);
	*strrchr(f->path, '/') = '\0';
	(void) rmdir(f->path);
}

void node_folder_leave(struct node_folder *f)
{
	size_t others = 0;

	if (f->dir < 0)
		return;
	if (f->own[0])
		(void) unlinkat(f->dir, f->own, 0);
	if (node_folder_lead(f) && node_folder_list(f, count, &others) == 0 && others == 0)
		remove_folder(f);
	if (f->lock >= 0)
		(void) close(f->lock);
	(void) close(f->dir);
	root_done(&f->root);
	*f = (struct node_folder) NODE_FOLDER_NONE;
}

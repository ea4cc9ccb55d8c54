/* SPDX-License-Identifier: MIT */
#include "serve/jobs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/root.h"
#include "base/smallfile.h"
#include "serve/pods.h"
#include "serve/serve.h"

#define SECOND UINT64_C(1000000000)

enum {
	MOST_JOBS = 4096,
	OF_A_USER_MOST = 512,
	MOST_FILES = 4096,       /* of a folder, or of a process */
	SHARE = 20,              /* of the time, at most one in so many is spent reading */
};
static const uint64_t poll_ns = SECOND, search_ns = 5 * SECOND;
static const uint64_t commit_ns = 2 * SECOND; /* until a window that has ended is in the file */
static const uint64_t open_most_bytes = UINT64_C(1) << 32; /* no recording is as large */

/* ---- with the owner's rights ----------------------------------------------------------------- */

/* The file system identity of this thread alone (setfsuid(2)). */
static void act_as(uid_t uid, gid_t gid)
{
	if (geteuid() != 0)
		return;
	(void) setfsgid(gid);
	(void) setfsuid(uid);
}

static void act_as_self(void)
{
	if (geteuid() != 0)
		return;
	(void) setfsuid(geteuid());
	(void) setfsgid(getegid());
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void free_run(struct live_run *r)
{
	if (!r)
		return;
	hiw_player_free(r->player);
	hiw_run_close(r->run);
	stream_done(&r->stream);
	free(r->path);
	free(r->id);
	free(r->name);
	free(r->command);
	free(r->user);
	free(r->scheduler);
	free(r->scheduler_job);
	free(r->node);
	free(r->step);
	free(r->labels);
	free(r);
}

/* As its owner: a recording that ended while it was read here still has its journal. */
static void leave(struct live_run *r)
{
	struct hiw_about about = { .size = sizeof(about) };
	char path[PATH_MAX];
	const bool has_ended = hiw_run_about(r->run, &about) == 0 && !about.growing;

	(void) snprintf(path, sizeof(path), "%s", r->path);
	free_run(r);
	if (has_ended)
		hwi_settle(path);
}

/* A frame of a recording: the lock is held for this frame alone. */
static void see(void *ctx, const struct hiw_frame *frame)
{
	struct live_run *r = ctx;

	pthread_mutex_lock(r->lock);
	stream_see(&r->stream, frame);
	pthread_mutex_unlock(r->lock);
}

static bool copy_facts(const struct serve *s, struct live_run *r)
{
	struct hiw_about about = { .size = sizeof(about) };
	struct hwi_identity id = { .size = sizeof(id) };
	struct buf labels = BUF_INIT(1 << 16);

	(void) hiw_run_about(r->run, &about);
	hwi_run_identity(r->run, &id);
	if (!about.growing || !id.started_boot_ns.known || !*id.id)
		return false;
	stream_init(&r->stream, (uint64_t) id.started_boot_ns.value, s->o.window_ns);
	r->main_pid = about.main_pid;
	r->started_wall_ns = about.started_wall_ns.known ? about.started_wall_ns.value : 0;
	r->limit_bytes = id.limit_bytes;
	r->request_bytes = id.request_bytes;
	r->rank = id.rank;
	r->id = strdup(id.id);
	r->name = strdup(about.name);
	r->command = strdup(about.command);
	r->user = strdup(about.user);
	r->scheduler = strdup(id.scheduler);
	r->scheduler_job = strdup(id.scheduler_job);
	r->node = strdup(id.node);
	r->step = strdup(id.step);
	hwi_run_labels(r->run, s->o.with_users, false, &labels);
	pods_identify(r, id.cgroup, &labels);
	r->labels = labels.error ? NULL : strdup(labels.data);
	buf_done(&labels);
	return r->id && r->name && r->command && r->user && r->scheduler && r->scheduler_job && r->node &&
	       r->step && r->labels;
}

static bool is_wanted(const struct serve *s, const struct live_run *r)
{
	switch (s->o.jobs) {
	case JOBS_SLURM:
		return strcmp(r->scheduler, "slurm") == 0;
	case JOBS_K8S:
		return strcmp(r->scheduler, "kubernetes") == 0 || *r->pod;
	case JOBS_SYSTEMD:
		return strcmp(r->scheduler, "systemd") == 0;
	case JOBS_NONE:
		return s->o.file != NULL;
	default:
		return true;
	}
}

static bool is_known(const struct serve *s, const char *path, const char *id)
{
	for (size_t i = 0; i < s->jobs.n; i++) {
		if (strcmp(s->jobs.list[i]->path, path) == 0 || (id && strcmp(s->jobs.list[i]->id, id) == 0))
			return true;
	}
	return false;
}

static size_t count_of(const struct serve *s, uid_t uid)
{
	size_t n = 0;

	for (size_t i = 0; i < s->jobs.n; i++)
		n += s->jobs.list[i]->uid == uid;
	return n;
}

/* Plays what is new. False: the run is over, or cannot be read any more. */
static bool follow(struct serve *s, struct live_run *r)
{
	struct hiw_about about = { .size = sizeof(about) };

	(void) hiw_run_about(r->run, &about);
	if (!about.growing)
		return false;
	r->stream.slack_ns = 2 * s->jobs.pause_ns + commit_ns;
	if (!r->player) {
		const uint64_t from = about.last_ns > s->o.window_ns ? about.last_ns - s->o.window_ns : 0;

		if (hiw_player_new(r->run, see, r, &r->player, NULL) < 0 ||
			hiw_player_seek(r->player, from, NULL) < 0)
			return false;
	}
	const int error = hiw_player_to(r->player, UINT64_MAX, NULL);

	return error == 0 || error == -EBUSY;
}

/* Opens a recording that may be growing. */
static void open_run(struct serve *s, const char *path, uid_t uid, gid_t gid)
{
	struct live_run *r = NULL;

	if (is_known(s, path, NULL) || count_of(s, uid) >= OF_A_USER_MOST || !(r = calloc(1, sizeof(*r))))
		return;
	r->lock = &s->lock;
	r->uid = uid;
	r->gid = gid;
	r->path = strdup(path);
	act_as(uid, gid);
	bool good = r->path && hiw_run_open(path, &r->run, NULL) == 0;

	good = good && copy_facts(s, r) && is_wanted(s, r) && !is_known(s, path, r->id) && follow(s, r);
	act_as_self();
	pthread_mutex_lock(&s->lock);
	if (good && vec_reserve(&s->jobs.list, &s->jobs.cap, s->jobs.n, sizeof(r), MOST_JOBS) == 0) {
		s->jobs.list[s->jobs.n++] = r;
		r = NULL;
	}
	pthread_mutex_unlock(&s->lock);
	free_run(r);
}

static void follow_all(struct serve *s)
{
	for (size_t i = s->jobs.n; i-- > 0;) {
		struct live_run *r = s->jobs.list[i];

		act_as(r->uid, r->gid);
		const bool good = follow(s, r);

		act_as_self();
		if (good)
			continue;
		pthread_mutex_lock(&s->lock);
		s->jobs.list[i] = s->jobs.list[--s->jobs.n];
		pthread_mutex_unlock(&s->lock);
		act_as(r->uid, r->gid);
		leave(r);
		act_as_self();
	}
}

/* ---- finding recordings ---------------------------------------------------------------------- */

/* A regular file, not a link, with the journal that a growing recording has. */
static bool may_grow(int folder, const char *name, struct stat *st)
{
	char journal[NAME_MAX + 8];
	struct stat of_journal;
	const size_t len = strlen(name);

	if (len < 5 || strcmp(name + len - 4, ".hiw") != 0 || len > NAME_MAX - 4)
		return false;
	(void) snprintf(journal, sizeof(journal), "%s-wal", name);
	return fstatat(folder, name, st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st->st_mode) &&
	       (uint64_t) st->st_size < open_most_bytes &&
	       fstatat(folder, journal, &of_journal, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(of_journal.st_mode);
}

static void search_folder(struct serve *s, const char *path)
{
	autoclose int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclosedir DIR *dir = fd >= 0 ? opendir(path) : NULL;
	const struct dirent *entry;
	unsigned seen = 0;

	while (dir && seen++ < MOST_FILES && (entry = readdir(dir))) {
		char file[PATH_MAX];
		struct stat st;

		if (may_grow(fd, entry->d_name, &st) &&
			snprintf(file, sizeof(file), "%s/%s", path, entry->d_name) < (int) sizeof(file))
			open_run(s, file, st.st_uid, st.st_gid);
	}
}

/* The recordings that a process called hiwater has open: those of -o FILE. */
static void search_process(struct serve *s, const struct root *root, const char *pid)
{
	char path[64], link[PATH_MAX];
	const struct dirent *entry;
	unsigned seen = 0;

	(void) snprintf(path, sizeof(path), "%.20s/fd", pid);
	autoclose int fd = openat(root->proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclosedir DIR *dir = fd >= 0 ? fdopendir(fcntl(fd, F_DUPFD_CLOEXEC, 3)) : NULL;

	while (dir && seen++ < MOST_FILES && (entry = readdir(dir))) {
		const ssize_t n = readlinkat(fd, entry->d_name, link, sizeof(link) - 1);
		struct stat st;

		if (n < 5 || link[0] != '/')
			continue;
		link[n] = '\0';
		if (may_grow(AT_FDCWD, link, &st))
			open_run(s, link, st.st_uid, st.st_gid);
	}
}

static void search_processes(struct serve *s)
{
	struct root root = { 0 };

	if (root_open("/", &root, NULL) < 0)
		return;
	const int own = openat(root.proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclosedir DIR *dir = own >= 0 ? fdopendir(own) : NULL;
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char path[64], name[32];
		const char *p = entry->d_name;
		uint64_t pid;

		if (parse_u64(&p, &pid) < 0 || *p)
			continue;
		(void) snprintf(path, sizeof(path), "%.20s/comm", entry->d_name);
		if (smallfile_read(root.proc, path, name, sizeof(name)) > 0 && strcmp(name, "hiwater\n") == 0)
			search_process(s, &root, entry->d_name);
	}
	root_done(&root);
}

static void search(struct serve *s)
{
	char folder[PATH_MAX];
	struct stat st;

	if (s->o.file) {
		if (stat(s->o.file, &st) == 0 && S_ISREG(st.st_mode))
			open_run(s, s->o.file, st.st_uid, st.st_gid);
		return;
	}
	for (size_t i = 0; i < NAMES_MOST && s->o.histories[i]; i++)
		search_folder(s, s->o.histories[i]);
	if (!s->o.histories[0] && hwi_history_folder(folder, sizeof(folder)) == 0)
		search_folder(s, folder);
	search_processes(s);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void *read_jobs(void *ctx)
{
	struct serve *s = ctx;
	uint64_t searched_ns = 0;

	s->jobs.pause_ns = poll_ns;

	while (!s->jobs.stop) {
		const uint64_t begun = clock_boot_ns();

		follow_all(s);
		if (searched_ns == 0 || begun - searched_ns >= search_ns || (s->o.file && s->jobs.n == 0)) {
			search(s);
			searched_ns = begun;
		}
		const uint64_t took = clock_boot_ns() - begun;
		struct pollfd wake = { .fd = s->jobs.wake, .events = POLLIN };

		s->jobs.pause_ns = SHARE * took > poll_ns ? SHARE * took : poll_ns;
		(void) poll(&wake, 1, (int) (s->jobs.pause_ns / 1000000));
	}
	return NULL;
}

int jobs_start(struct serve *s)
{
	int r;

	if (s->o.jobs == JOBS_NONE && !s->o.file)
		return 0;
	s->jobs.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->jobs.wake < 0)
		return -errno;
	r = pthread_create(&s->jobs.thread, NULL, read_jobs, s);
	s->jobs.is_running = r == 0;
	return -r;
}

void jobs_end(struct serve *s)
{
	const uint64_t one = 1;

	if (!s->jobs.is_running)
		return;
	s->jobs.stop = true;
	if (write(s->jobs.wake, &one, sizeof(one)) == sizeof(one))
		(void) pthread_join(s->jobs.thread, NULL);
	for (size_t i = 0; i < s->jobs.n; i++)
		free_run(s->jobs.list[i]);
	free(s->jobs.list);
	(void) close(s->jobs.wake);
}

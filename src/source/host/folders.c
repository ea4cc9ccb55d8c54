/* SPDX-License-Identifier: MIT */
#include "source/host/folders.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>

#include "source/host/mountinfo.h"
#include "source/report_once.h"

/* File systems on which every call may wait for another machine or a daemon, forever if that one
 * hangs. */
static bool may_hang(const char *type)
{
	static const char *const types[] = {
		"nfs",
		"nfs4",
		"cifs",
		"smb3",
		"smbfs",
		"ceph",
		"lustre",
		"gpfs",
		"beegfs",
		"glusterfs",
		"afs",
		"9p",
		"panfs",
		"pvfs2",
		"orangefs",
		"coda",
		"ocfs2",
		"gfs2",
		"autofs",
		"virtiofs",
		"wekafs",
	};

	if (strncmp(type, "fuse", 4) == 0)
		return true;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (strcmp(type, types[i]) == 0)
			return true;
	}
	return false;
}

/* mountinfo gives the file system's type without a call to it: on a hung network mount even statfs
 * never returns. */
int folder_open_work(const struct source_env *env)
{
	struct mount mount;

	if (!env->workdir || env->workdir[0] != '/' || !env->root->live)
		return -ENOENT;
	const char *text = mountinfo_text(env->root);

	if (!text || !mountinfo_type_at(text, env->workdir, &mount))
		return -ENOENT;
	if (may_hang(mount.type))
		return -EREMOTE;
	int fd = open(env->workdir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int folder_open_shm(const struct source_env *env)
{
	/* Always in kernel memory (shm_overview(7)) wherever glibc is used: no call to it can hang. */
	const int fd = env->root->live ? openat(env->root->top, "dev/shm", O_PATH | O_DIRECTORY | O_CLOEXEC)
				       : -1;

	if (fd < 0)
		return env->root->live ? -errno : -ENOENT;
	return fd;
}

struct maybe folder_free(int fd)
{
	struct statvfs st;

	/* without a size, or read-only: it always reports 0 */
	if (fd < 0 || fstatvfs(fd, &st) < 0 || st.f_blocks == 0 || (st.f_flag & ST_RDONLY))
		return UNKNOWN;
	return maybe_count(0, st.f_bavail, st.f_frsize);
}

struct maybe folder_used(int fd)
{
	struct statvfs st;

	if (fd < 0 || fstatvfs(fd, &st) < 0 || st.f_blocks == 0 || st.f_bfree > st.f_blocks)
		return UNKNOWN;
	return known((int64_t) ((double) (st.f_blocks - st.f_bfree) * 1e6 / (double) st.f_blocks));
}

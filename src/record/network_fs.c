/* SPDX-License-Identifier: MIT */
#include "record/network_fs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"

/* f_type of statfs(2). Most values are in linux/magic.h, the others in the vendors' sources. */
static const struct {
	uint32_t type;
	const char *name;
} kinds[] = {
	{ 0x6969, "NFS" },
	{ 0x517b, "SMB" },
	{ 0xff534d42, "CIFS" },
	{ 0xfe534d42, "SMB2" },
	{ 0x0bd00bd0, "Lustre" },
	{ 0x65735546, "FUSE" },
	{ 0x01021997, "9p" },
	{ 0x47504653, "GPFS" },
	{ 0x19830326, "BeeGFS" },
	{ 0x00c36400, "Ceph" },
	{ 0x5346414f, "AFS" },
	{ 0x6b414653, "AFS" },
	{ 0x7461636f, "OCFS2" },
	{ 0x01161970, "GFS2" },
	{ 0xaad7aaea, "PanFS" },
	{ 0x20030528, "OrangeFS" },
	{ 0x73757245, "Coda" },
	{ 0x564c, "NCP" },
	{ 0x786f4256, "VirtualBox folder" },
	{ 0xbacbacbc, "VMware folder" },
};

const char *network_fs_kind(const char *path)
{
	char folder[PATH_MAX];
	struct statfs fs;
	char *slash;

	if (strlen(path) >= sizeof(folder))
		return NULL;
	memcpy(folder, path, strlen(path) + 1);
	while (statfs(folder, &fs) < 0) {
		slash = strrchr(folder, '/');
		if (!slash || errno != ENOENT)
			return NULL;
		if (slash == folder)
			slash++;
		if (*slash == '\0')
			return NULL;
		*slash = '\0';
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if ((uint32_t) fs.f_type == kinds[i].type)
			return kinds[i].name;
	}
	return NULL;
}

int network_fs_lock(const char *folder)
{
	static const struct timespec pause = { .tv_nsec = 2000000 };
	static const uint64_t patience_ns = 50000000;
	const uint64_t until_ns = clock_boot_ns() + patience_ns;
	int fd = network_fs_kind(folder) ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK || clock_boot_ns() >= until_ns) {
			(void) close(fd);
			return -1;
		}
		(void) nanosleep(&pause, NULL);
	}
	return fd;
}

int network_fs_local_folder(char *ret, size_t size, struct err *err)
{
	static const char pattern[] = "/tmp/hiwater-XXXXXX";

	if (size < sizeof(pattern))
		return -ENAMETOOLONG;
	memcpy(ret, pattern, sizeof(pattern));
	if (!mkdtemp(ret))
		return err_set(err, -errno, "cannot create a folder in /tmp: %s", strerror(errno));
	return 0;
}

int network_fs_temporary(const char *path, char *ret, size_t size)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	int n = snprintf(
		ret, size, "%.*s.%s.%lld.tmp", (int) (name - path), path, name, (long long) getpid());

	return n < 0 || (size_t) n >= size ? -ENAMETOOLONG : 0;
}

int network_fs_rename(const char *from, const char *to, bool replace)
{
	if (replace)
		return rename(from, to) < 0 ? -errno : 0;
	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* renameat2 without NOREPLACE support: link instead, if the file system has links. */
	if (link(from, to) == 0)
		return unlink(from) < 0 ? -errno : 0;
	if (errno == EEXIST)
		return -EEXIST;
	if (access(to, F_OK) == 0)
		return -EEXIST;
	return rename(from, to) < 0 ? -errno : 0;
}

static int copy_bytes(int from, int to)
{
	char bytes[32 << 10];
	ssize_t n;

	while ((n = read(from, bytes, sizeof(bytes))) > 0) {
		for (ssize_t done = 0; done < n;) {
			ssize_t written = write(to, bytes + done, (size_t) (n - done));

			if (written < 0)
				return -errno;
			done += written;
		}
	}
	return n < 0 ? -errno : 0;
}

int network_fs_copy(const char *from, const char *to)
{
	autoclose int in = open(from, O_RDONLY | O_CLOEXEC);
	int out, r;

	if (in < 0)
		return -errno;
	out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		return -errno;
	r = copy_bytes(in, out);
	if (close(out) < 0 && r == 0) /* a full network file system may report it only here */
		r = -errno;
	if (r < 0)
		(void) unlink(to);
	return r;
}

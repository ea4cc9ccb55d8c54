/* SPDX-License-Identifier: MIT */
#include "source/host/container.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "base/smallfile.h"
#include "source/host/mountinfo.h"

static const char *find(const char *text, size_t n, const char *const (*rows)[2])
{
	for (size_t i = 0; i < n; i++) {
		if (strstr(text, rows[i][0]))
			return rows[i][1];
	}
	return "";
}

#define FIND(text, rows) find(text, sizeof(rows) / sizeof((rows)[0]), rows)

/* Marker files that engines create in each container. */
static const char *by_file(const struct root *root)
{
	static const char *const rows[][2] = {
		{ "run/.containerenv", "podman" },
		{ ".dockerenv", "docker" },
		{ ".singularity.d", "apptainer" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (faccessat(root->top, rows[i][0], F_OK, 0) == 0)
			return rows[i][1];
	}
	return "";
}

/* The cgroup of the first process: "/" on a host and in a cgroup namespace. */
static const char *by_cgroup(const struct root *root)
{
	static const char *const rows[][2] = {
		{ "/kubepods", "kubernetes" },
		{ "/docker", "docker" },
		{ "/libpod-", "podman" },
		{ ":/lxc", "lxc" },
	};
	char text[4096];

	if (smallfile_read(root->proc, "1/cgroup", text, sizeof(text)) < 0)
		return "";
	return FIND(text, rows);
}

/* Engines mount their own files over /etc/hosts and others: the sources of these mounts name the
 * engine. Other mounts do not, because a host sees its containers' mounts too. */
static const char *by_mount(const struct mount *mount)
{
	static const char *const rows[][2] = {
		{ "/kubelet/pods/", "kubernetes" },
		{ "/docker/containers/", "docker" },
		{ "/overlay-containers/", "podman" },
	};

	if (strcmp(mount->point, "/run/secrets/kubernetes.io/serviceaccount") == 0 ||
		strcmp(mount->point, "/var/run/secrets/kubernetes.io/serviceaccount") == 0)
		return "kubernetes";
	if (strcmp(mount->type, "fuse.lxcfs") == 0 && strcmp(mount->point, "/var/lib/lxcfs") != 0)
		return "lxc";
	return strncmp(mount->point, "/etc/", 5) == 0 ? FIND(mount->root, rows) : "";
}

/* The more specific of two names: an engine runs below an orchestrator. */
static const char *better(const char *a, const char *b)
{
	return *a == '\0' || strcmp(b, "kubernetes") == 0 ? b : a;
}

/* Also returns whether the root directory is on a disk of its own. */
static const char *by_mounts(const struct root *root, bool *ret_on_disk)
{
	const char *text = mountinfo_text(root), *found = "";
	struct mount mount;

	while (text && mountinfo_next(&text, &mount)) {
		const char *name = by_mount(&mount);

		found = *name ? better(found, name) : found;
		if (strcmp(mount.point, "/") == 0)
			*ret_on_disk = strncmp(mount.source, "/dev/", 5) == 0;
	}
	return found;
}

/* PROC_PID_INIT_INO of include/linux/proc_ns.h: the initial pid namespace. */
bool machine_first_pids(const struct root *root)
{
	static const char first[] = "pid:[4026531836]";
	char link[64];
	ssize_t n = readlinkat(root->proc, "self/ns/pid", link, sizeof(link));

	return n == (ssize_t) sizeof(first) - 1 && memcmp(link, first, (size_t) n) == 0;
}

/* The environment of the first process: systemd's container interface. Mostly unreadable. */
static const char *by_environment(const struct root *root)
{
	static const char *const names[] = { "lxc", "systemd-nspawn", "podman", "docker", "wsl" };
	static const char key[] = "container=";
	char text[4096];
	ssize_t n = smallfile_read(root->proc, "1/environ", text, sizeof(text));

	for (ssize_t at = 0; at < n; at += (ssize_t) strlen(text + at) + 1) {
		const char *p = text + at;

		if (!parse_word(&p, key))
			continue;
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			if (strcmp(p, names[i]) == 0)
				return names[i];
		}
	}
	return "";
}

/* A virtual machine may boot from a container image that contains marker files: they count only if
 * nothing else contradicts them. */
const char *machine_container(const struct root *root, const char *release)
{
	bool on_disk = false;
	const char *mounted = by_mounts(root, &on_disk);
	const char *found = better(by_cgroup(root), mounted);

	if (*found == '\0')
		found = by_environment(root);
	if (*found == '\0' && !(on_disk && machine_first_pids(root)))
		found = by_file(root);
	if (*found == '\0' && (strstr(release, "microsoft") || strstr(release, "Microsoft")))
		found = "wsl";
	return found;
}

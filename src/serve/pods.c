/* SPDX-License-Identifier: MIT */
#include "serve/pods.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/cleanup.h"
#include "base/root.h"
#include "base/smallfile.h"
#include "serve/jobs.h"

enum {
	UID_LEN = 36,        /* 8-4-4-4-12 hex digits */
	CONTAINER_LEN = 64,
	FILE_MOST = 1 << 18,
};

/* ---- cgroups --------------------------------------------------------------------------------- */

/* A UUID, also with the underscores that systemd's names have instead of dashes. */
static bool parse_uid(const char *p, char ret[64])
{
	for (size_t i = 0; i < UID_LEN; i++) {
		const bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (is_dash ? p[i] != '-' && p[i] != '_' : !isxdigit((unsigned char) p[i]))
			return false;
		ret[i] = p[i] == '_' ? '-' : p[i];
	}
	ret[UID_LEN] = '\0';
	return !isxdigit((unsigned char) p[UID_LEN]);
}

/* Kubelet's groups are .../podUID/CONTAINER (cgroupfs) or
 * kubepods-QOS-podUID.slice/RUNTIME-CONTAINER.scope (systemd). */
bool pod_of_cgroup(const char *path, struct pod *ret)
{
	const char *p = strstr(path, "kubepods");
	char uid[64] = "";

	for (p = p ? strstr(p, "pod") : NULL; p && !parse_uid(p + 3, uid); p = strstr(p + 3, "pod"))
		;
	if (!p)
		return false;
	if (!*ret->uid)
		(void) snprintf(ret->uid, sizeof(ret->uid), "%s", uid);
	for (p += 3 + UID_LEN; *p && !*ret->container; p++) {
		const size_t n = strspn(p, "0123456789abcdef");

		if (n == CONTAINER_LEN)
			(void) snprintf(ret->container, sizeof(ret->container), "%.*s", CONTAINER_LEN, p);
		p += n > 0 ? n - 1 : 0;
	}
	return true;
}

/* ---- mounts ---------------------------------------------------------------------------------- */

/* Kubelet mounts a file of the pod's folder over /etc/hosts. The node itself has mounts of all pods, but not there. */
bool pod_of_mountinfo(const char *text, struct pod *ret)
{
	static const char folder[] = "/pods/", file[] = "/etc-hosts /etc/hosts ";
	const char *p = strstr(text, file);
	char uid[64];

	if (!p || p - text < UID_LEN + (long) strlen(folder))
		return false;
	p -= UID_LEN;
	if (strncmp(p - strlen(folder), folder, strlen(folder)) != 0 || !parse_uid(p, uid))
		return false;
	if (!*ret->uid)
		(void) snprintf(ret->uid, sizeof(ret->uid), "%s", uid);
	return true;
}

/* ---- the environment ------------------------------------------------------------------------- */

bool pod_of_environment(const char *block, size_t n, struct pod *ret)
{
	const struct {
		const char *name;
		char *field;
		size_t size;
		bool proves; /* only pods have it */
	} rows[] = {
		{ "POD_NAME", ret->name, sizeof(ret->name), true },
		{ "K8S_POD_NAME", ret->name, sizeof(ret->name), true },
		{ "MY_POD_NAME", ret->name, sizeof(ret->name), true },
		{ "POD_NAMESPACE", ret->namespace, sizeof(ret->namespace), true },
		{ "K8S_NAMESPACE", ret->namespace, sizeof(ret->namespace), true },
		{ "MY_POD_NAMESPACE", ret->namespace, sizeof(ret->namespace), true },
		{ "POD_UID", ret->uid, sizeof(ret->uid), true },
		{ "HOSTNAME", ret->name, sizeof(ret->name), false },
	};
	bool found = *ret->uid != '\0';

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const size_t len = strlen(rows[i].name);

		for (size_t at = 0; at < n; at += strnlen(block + at, n - at) + 1) {
			const char *entry = block + at;

			if (n - at <= len || strncmp(entry, rows[i].name, len) != 0 || entry[len] != '=' ||
				*rows[i].field || !(rows[i].proves || found))
				continue;
			(void) snprintf(rows[i].field, rows[i].size, "%.*s",
				(int) strnlen(entry + len + 1, n - at - len - 1), entry + len + 1);
			found = true;
		}
	}
	return found;
}

/* ---- a run ----------------------------------------------------------------------------------- */

static ssize_t read_of(const struct root *root, int64_t pid, const char *name, char *text)
{
	char path[64];

	(void) snprintf(path, sizeof(path), "%lld/%s", (long long) pid, name);
	return smallfile_read(root->proc, path, text, FILE_MOST);
}

void pods_identify(struct live_run *run, const char *cgroup, struct buf *labels)
{
	struct pod pod = { .uid = "" };
	struct root root = { 0 };
	autofree char *text = run->main_pid.known ? malloc(FILE_MOST) : NULL;
	bool found = pod_of_cgroup(cgroup, &pod);
	ssize_t n;

	if (text && root_open("/", &root, NULL) == 0) {
		if (read_of(&root, run->main_pid.value, "cgroup", text) > 0)
			found |= pod_of_cgroup(text, &pod);
		if (read_of(&root, run->main_pid.value, "mountinfo", text) > 0)
			found |= pod_of_mountinfo(text, &pod);
		/* variables of that name also exist elsewhere: only in a pod are they its identity */
		if (found && (n = read_of(&root, run->main_pid.value, "environ", text)) > 0)
			(void) pod_of_environment(text, (size_t) n, &pod);
		root_done(&root);
	}
	if (!found)
		return;
	(void) snprintf(run->pod, sizeof(run->pod), "%s", *pod.name ? pod.name : pod.uid);
	(void) snprintf(run->namespace, sizeof(run->namespace), "%s", pod.namespace);
	(void) snprintf(run->container, sizeof(run->container), "%s", pod.container);
	hwi_openmetrics_label(labels, "pod", run->pod);
	hwi_openmetrics_label(labels, "namespace", run->namespace);
	hwi_openmetrics_label(labels, "container", run->container);
}

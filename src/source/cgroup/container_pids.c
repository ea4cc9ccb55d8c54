/* SPDX-License-Identifier: MIT
 *
 * Containers by their id: docker, podman, containerd and CRI-O name a container's cgroup after its
 * id, 64 hexadecimal digits ("/docker/ID", "docker-ID.scope", "libpod-ID.scope", "cri-containerd-ID").
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/longfile.h"
#include "source/cgroup/path.h"

enum {
	ID_DIGITS = CONTAINER_ID - 1
};

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* The next id in text: exactly 64 digits. NULL: there is none. */
static const char *next_id(const char *text)
{
	while (*text) {
		size_t n = 0;

		while (is_hex(text[n]))
			n++;
		if (n == ID_DIGITS)
			return text;
		text += n > 0 ? n : 1;
	}
	return NULL;
}

static ssize_t groups_read(const struct root *root, pid_t pid, struct longfile *text)
{
	char path[32];

	(void) snprintf(path, sizeof(path), "%d/cgroup", (int) pid);
	return longfile_read(text, root->proc, path);
}

/* Is it in a container whose id begins so? A container within another is part of that, too. *ret_at is
 * the id. */
static bool is_inside(const char *text, const char *id, const char **ret_at)
{
	const size_t len = strlen(id);

	for (const char *at = next_id(text); at; at = next_id(at + ID_DIGITS)) {
		if (strncmp(at, id, len) == 0) {
			*ret_at = at;
			return true;
		}
	}
	return false;
}

struct search {
	const struct root *root;
	const char *id;       /* or the beginning of one */
	struct longfile text; /* of the process seen last */
	struct container *ret;
	pid_t *pids; /* room for n */
	size_t n;
};

/* Adds pid if it is in the container. Returns 0, or -EEXIST if it is in another one that matches. */
static int add(pid_t pid, void *ctx)
{
	struct search *s = ctx;
	struct container *ret = s->ret;
	const char *at;

	if (groups_read(s->root, pid, &s->text) <= 0 || !is_inside(s->text.data, s->id, &at))
		return 0;
	if (ret->id[0] && strncmp(ret->id, at, ID_DIGITS) != 0)
		return -EEXIST;
	(void) snprintf(ret->id, sizeof(ret->id), "%.*s", (int) ID_DIGITS, at);
	if (ret->n < s->n)
		s->pids[ret->n] = pid;
	ret->n++;
	return 0;
}

/* The group of the container in the hierarchy that charges memory: that of its first process, or the
 * one above it that has the id in its name. */
static void find_group(const struct root *root, pid_t pid, struct container *ret)
{
	struct cgroup_facts facts = { .path = "" };
	char *at;

	if (cgroup_of(root, pid, &facts) < 0 || !(at = strstr(facts.path, ret->id)))
		return;
	at[strcspn(at, "/")] = '\0';
	(void) snprintf(ret->cgroup, sizeof(ret->cgroup), "%s", facts.path);
}

int container_find(
	const struct root *root, const char *id, pid_t *pids, size_t n, struct container *ret)
{
	struct search s = { .root = root, .id = id, .ret = ret, .pids = pids, .n = n };

	*ret = (struct container) { .id = "" };
	const int r = cgroup_each_pid(root, add, &s);

	longfile_done(&s.text);
	if (r < 0 || ret->n == 0)
		return r < 0 ? r : -ENOENT;
	find_group(root, pids[0], ret);
	return 0;
}

int container_of(const struct root *root, pid_t pid, char ret[CONTAINER_ID])
{
	struct longfile text = { 0 };
	const char *last = NULL;
	int r = groups_read(root, pid, &text) < 0 ? -ESRCH : -ENOENT;

	for (const char *at = r == -ENOENT ? next_id(text.data) : NULL; at; at = next_id(at + ID_DIGITS))
		last = at;
	if (last) {
		(void) snprintf(ret, CONTAINER_ID, "%.*s", (int) ID_DIGITS, last);
		r = 0;
	}
	longfile_done(&text);
	return r;
}

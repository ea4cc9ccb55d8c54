/* SPDX-License-Identifier: MIT */
#include "record/recorder_id.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "base/root.h"
#include "base/smallfile.h"

/* "4711 (python (x)) S 4000 ...": proc_pid_stat(5). The name may contain any character, so count
 * fields from the last ')'. */
static int start_of(const struct root *root, int64_t pid, uint64_t *ret)
{
	enum {
		STATE = 3,
		START = 22
	};
	char path[32], text[2048];
	const char *p;
	ssize_t n;

	(void) snprintf(path, sizeof(path), "%lld/stat", (long long) pid);
	n = smallfile_read(root->proc, path, text, sizeof(text));
	if (n < 0)
		return (int) n;
	p = strrchr(text, ')');
	for (int field = STATE; p && field <= START; field++) {
		p = strchr(p, ' ');
		if (p)
			p++;
		if (p && field == STATE && (*p == 'Z' || *p == 'X'))
			return -ESRCH; /* zombie: ended, not yet waited for */
	}
	return p ? parse_u64(&p, ret) : -EBADMSG;
}

static int boot_of(const struct root *root, char *ret, size_t size)
{
	ssize_t n = smallfile_read(root->proc, "sys/kernel/random/boot_id", ret, size);

	if (n < 0)
		return (int) n;
	ret[strcspn(ret, "\n")] = '\0';
	return 0;
}

int recorder_id_self(struct recorder_id *ret)
{
	struct recorder_id id = { .pid = getpid() };
	struct root root;
	int r = root_open(NULL, &root, NULL);

	if (r < 0)
		return r;
	r = start_of(&root, id.pid, &id.start_ticks);
	if (r == 0)
		r = boot_of(&root, id.boot, sizeof(id.boot));
	root_done(&root);
	if (r == 0)
		*ret = id;
	return r;
}

bool recorder_id_lives(const struct recorder_id *id)
{
	struct root root;
	char boot[sizeof(id->boot)];
	uint64_t start = 0;
	bool lives;

	if (id->pid <= 0 || root_open(NULL, &root, NULL) < 0)
		return false;
	lives = boot_of(&root, boot, sizeof(boot)) == 0 && strcmp(boot, id->boot) == 0 &&
		start_of(&root, id->pid, &start) == 0 && start == id->start_ticks;
	root_done(&root);
	return lives;
}

/* SPDX-License-Identifier: MIT
 *
 * Values of single processes outside the job's hot path: the recorder itself, the group probe. Also
 * starts a process only to obtain its pid.
 */
#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/longfile.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "source/source.h"

/* The groups line of status precedes the lines read here and may be long (1000 groups of a large
 * site are 8 KiB), while the stack may be small. */
#define autolongfile __attribute__((cleanup(longfile_done)))

int self_memory(const struct root *root, uint64_t *ret_rss, uint64_t *ret_hwm)
{
	autolongfile struct longfile file = { 0 };
	ssize_t n = longfile_read(&file, root->proc, "self/status");
	const char *text = file.data;
	uint64_t rss, hwm;

	if (n < 0)
		return (int) n;
	if (parse_key(text, "VmRSS", &rss) < 0 || parse_key(text, "VmHWM", &hwm) < 0)
		return -EBADMSG;
	*ret_rss = rss;
	*ret_hwm = hwm;
	return 0;
}

/* "ShdPnd:\t0000000000000200": pending signals of the whole process; proc_pid_status(5). */
static int mask_of(const char *text, const char *key, uint64_t *ret)
{
	const char *p = strstr(text, key);

	if (!p)
		return -EBADMSG;
	p += strlen(key);
	parse_blanks(&p);
	return parse_hex(&p, ret);
}

int pending_signals(const struct root *root, pid_t pid, uint64_t *ret_mask)
{
	autolongfile struct longfile file = { 0 };
	char path[32];
	const char *text;
	uint64_t own, shared;
	ssize_t n;

	(void) snprintf(path, sizeof(path), "%d/status", (int) pid);
	n = longfile_read(&file, root->proc, path);
	if (n < 0)
		return (int) n;
	text = file.data;
	if (mask_of(text, "\nSigPnd:", &own) < 0 || mask_of(text, "\nShdPnd:", &shared) < 0)
		return -EBADMSG;
	*ret_mask = own | shared;
	return 0;
}

bool self_has_ptrace(const struct root *root)
{
	autolongfile struct longfile file = { 0 };
	uint64_t caps;

	return longfile_read(&file, root->proc, "self/status") >= 0 &&
	       mask_of(file.data, "\nCapEff:", &caps) == 0 && (caps & (UINT64_C(1) << CAP_SYS_PTRACE)) != 0;
}

int process_owner(const struct root *root, pid_t pid, char ret_name[16], uint32_t *ret_uid)
{
	autolongfile struct longfile file = { 0 };
	char path[32];
	const char *text;
	const char *name, *uid;
	uint64_t value;
	ssize_t n;

	(void) snprintf(path, sizeof(path), "%d/status", (int) pid);
	n = longfile_read(&file, root->proc, path);
	if (n < 0)
		return (int) n;
	text = file.data;
	name = strstr(text, "Name:\t");
	uid = strstr(text, "\nUid:\t");
	if (name != text || !uid)
		return -EBADMSG;
	name += strlen("Name:\t");
	uid += strlen("\nUid:\t");
	if (parse_u64(&uid, &value) < 0)
		return -EBADMSG;
	(void) snprintf(ret_name, 16, "%.*s", (int) strcspn(name, "\n"), name);
	*ret_uid = (uint32_t) value;
	return 0;
}

int self_has_children(const struct root *root, pid_t but)
{
	char text[4096];
	const char *at = text;
	uint64_t pid;
	ssize_t n = smallfile_read(root->proc, "thread-self/children", text, sizeof(text));

	if (n < 0)
		return (int) n;
	while (parse_blanks(&at), parse_u64(&at, &pid) == 0) {
		if (pid != (uint64_t) but)
			return 1;
	}
	return 0;
}

static int end_at_once(void *arg)
{
	(void) arg;
	_exit(0);
}

/* clone(2): without an exit signal, only a wait with __WCLONE finds the child. It runs in this
 * memory, on a stack of its own, while this thread waits, so that no page is copied.
 * ThreadSanitizer assumes that every clone has a memory of its own: it would attribute the child's
 * accesses to this process afterwards. */
pid_t spent_pid(void)
{
#ifdef __SANITIZE_THREAD__
	const int flags = CLONE_VFORK;
#else
	const int flags = CLONE_VFORK | CLONE_VM;
#endif
	_Alignas(16) char stack[16384];
	pid_t pid = clone(end_at_once, stack + sizeof(stack), flags, NULL);

	if (pid <= 0)
		return 0;
	while (waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
		;
	return pid;
}

/* SPDX-License-Identifier: MIT
 *
 * The folder in which the recorders of a node's ranks meet: who becomes the leader, which ranks are seen, and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/run/node_folder.h"

static char above[64];

static int set_up(void **state)
{
	(void) state;
	(void) snprintf(above, sizeof(above), "/tmp/hiwater-test-XXXXXX");
	return mkdtemp(above) && setenv("XDG_RUNTIME_DIR", above, 1) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[128];

	(void) state;
	(void) snprintf(command, sizeof(command), "rm -rf %s", above);
	return system(command);
}

static struct node_folder opened(void)
{
	struct node_folder f;
	struct err err = { "" };

	assert_int_equal(node_folder_open("slurm-1.0-n1", &f, &err), 0);
	return f;
}

/* A child that does as a recorder would: announces a child of its own, and leads if it can. Then it says so, and waits to be killed. */
static pid_t recorder(int rank, bool *ret_leads)
{
	int ready[2];
	char answer;

	assert_int_equal(pipe(ready), 0);
	const pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct node_folder f;

		if (node_folder_open("slurm-1.0-n1", &f, NULL) < 0 || node_folder_announce(&f, getpid(), known(rank)) < 0)
			_exit(1);
		answer = node_folder_lead(&f) ? 'y' : 'n';
		(void) !write(ready[1], &answer, 1);
		for (;;)
			(void) pause();
	}
	assert_int_equal(read(ready[0], &answer, 1), 1);
	(void) close(ready[0]);
	(void) close(ready[1]);
	*ret_leads = answer == 'y';
	return pid;
}

static void end(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

struct seen {
	struct node_rank ranks[8];
	size_t n;
};

static void see(void *ctx, const struct node_rank *rank)
{
	struct seen *seen = ctx;

	assert_true(seen->n < 8);
	seen->ranks[seen->n++] = *rank;
}

static struct seen listed(struct node_folder *f)
{
	struct seen seen = { .n = 0 };

	assert_int_equal(node_folder_list(f, see, &seen), 0);
	return seen;
}

static bool exists(const char *name)
{
	char path[256];

	(void) snprintf(path, sizeof(path), "%s/hiwater-%u%s", above, (unsigned) geteuid(), name);
	return access(path, F_OK) == 0;
}

/* ---- the leader ------------------------------------------------------------------------------ */

static void one_leads_until_it_is_killed(void **state)
{
	bool first, second;
	(void) state;
	const pid_t leader = recorder(0, &first), other = recorder(1, &second);
	struct node_folder f = opened();

	assert_true(first);
	assert_false(second);
	assert_false(node_folder_lead(&f));
	assert_int_equal(listed(&f).n, 2);
	end(leader);
	assert_true(node_folder_lead(&f));
	assert_true(node_folder_lead(&f)); /* it still is */
	const struct seen seen = listed(&f);

	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.ranks[0].pid, other);
	assert_int_equal(seen.ranks[0].rank.value, 1);
	node_folder_leave(&f);
	assert_true(exists("/slurm-1.0-n1")); /* a rank is still announced */
	end(other);
}

static void the_last_to_leave_removes_the_folder(void **state)
{
	struct node_folder a = opened(), b = opened();

	(void) state;
	assert_true(node_folder_lead(&a));
	assert_int_equal(node_folder_announce(&a, getpid(), known(0)), 0);
	node_folder_leave(&b);
	assert_true(exists("/slurm-1.0-n1"));
	assert_true(node_folder_report(&a));
	assert_false(node_folder_report(&a));
	node_folder_leave(&a);
	assert_false(exists(""));
}

/* b opened the folder that a has removed since. */
static void a_folder_that_was_removed_is_made_again(void **state)
{
	struct node_folder a = opened(), b = opened();

	(void) state;
	node_folder_leave(&a);
	assert_int_equal(node_folder_announce(&b, getpid(), UNKNOWN), -ENOENT);
	assert_false(node_folder_lead(&b));
	node_folder_leave(&b);
	b = opened();
	assert_int_equal(node_folder_announce(&b, getpid(), UNKNOWN), 0);
	assert_true(node_folder_lead(&b));
	node_folder_leave(&b);
}

/* ---- the ranks ------------------------------------------------------------------------------- */

static void what_was_not_announced_here_is_no_rank(void **state)
{
	static const char *const names[] = { "1-1", "12", "x", "0-5", "99999999999-1", "7-" };
	struct node_folder f = opened();
	struct seen seen;
	char name[64];

	(void) state;
	assert_int_equal(node_folder_announce(&f, getpid(), known(3)), 0);
	/* pid 1 did not start at tick 1 of the clock: its number was given again */
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const int fd = openat(f.dir, names[i], O_WRONLY | O_CREAT, 0600);
		struct stat st;
		char text[64];

		assert_true(fd >= 0 && stat("/proc/self/ns/pid", &st) == 0);
		assert_true(write(fd, text, (size_t) snprintf(text, sizeof(text), "rank 9\npidns %ju\n", (uintmax_t) st.st_ino)) > 0);
		(void) close(fd);
	}
	seen = listed(&f);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.ranks[0].pid, getpid());
	assert_int_equal(seen.ranks[0].rank.value, 3);
	assert_int_equal(faccessat(f.dir, "1-1", F_OK, 0), -1); /* removed, as it has ended */
	(void) snprintf(name, sizeof(name), "%s", f.own);
	(void) unlinkat(f.dir, name, 0);
	assert_int_equal(symlinkat("/etc/passwd", f.dir, name), 0);
	assert_int_equal(listed(&f).n, 0);
	node_folder_leave(&f);
}

static void ranks_of_another_pid_namespace_are_counted(void **state)
{
	struct node_folder f = opened();
	struct seen seen = { .n = 0 };
	const int fd = openat(f.dir, "77-1", O_WRONLY | O_CREAT, 0600);

	(void) state;
	assert_true(fd >= 0 && write(fd, "rank 1\npidns 1\n", 15) == 15);
	(void) close(fd);
	assert_int_equal(node_folder_list(&f, see, &seen), 1);
	assert_int_equal(seen.n, 0);
	node_folder_leave(&f);
}

static void a_change_is_noticed_however_soon_it_comes(void **state)
{
	struct node_folder f = opened();

	(void) state;
	assert_true(node_folder_changed(&f));
	assert_int_equal(listed(&f).n, 0);
	assert_int_equal(node_folder_announce(&f, getpid(), UNKNOWN), 0); /* within the same tick of the file system's clock */
	assert_true(node_folder_changed(&f));
	assert_int_equal(listed(&f).n, 1);
	while (node_folder_changed(&f)) /* it ends: the clock passes on */
		(void) listed(&f);
	assert_false(node_folder_changed(&f));
	node_folder_leave(&f);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refused(const char *why)
{
	struct node_folder f;
	struct err err = { "" };

	assert_true(node_folder_open("slurm-1.0-n1", &f, &err) < 0);
	if (!strstr(err.text, why))
		fail_msg("'%s' lacks '%s'", err.text, why);
	assert_int_equal(f.dir, -1);
	assert_false(node_folder_lead(&f)); /* harmless */
	assert_int_equal(node_folder_announce(&f, getpid(), UNKNOWN), -EBADF);
	node_folder_leave(&f);
}

static void folders_that_others_may_have_made_are_refused(void **state)
{
	char own[128], other[128];

	(void) state;
	(void) snprintf(own, sizeof(own), "%s/hiwater-%u", above, (unsigned) geteuid());
	(void) snprintf(other, sizeof(other), "%s/other", above);
	assert_int_equal(mkdir(other, 0700), 0);
	assert_int_equal(symlink(other, own), 0);
	refused("not a folder");
	assert_int_equal(unlink(own), 0);
	assert_int_equal(close(open(own, O_WRONLY | O_CREAT, 0600)), 0);
	refused("not a folder");
	assert_int_equal(unlink(own), 0);
	assert_int_equal(mkdir(own, 0700), 0);
	assert_int_equal(chmod(own, 0770), 0);
	refused("open to other users (mode 770)");
	if (geteuid() == 0) {
		assert_int_equal(chmod(own, 0700), 0);
		assert_int_equal(chown(own, 65534, (gid_t) -1), 0);
		refused("belongs to another user (65534)");
		assert_int_equal(chown(own, 0, (gid_t) -1), 0);
	}
	assert_int_equal(chmod(own, 0700), 0);
	(void) snprintf(own + strlen(own), sizeof(own) - strlen(own), "/slurm-1.0-n1");
	assert_int_equal(symlink(other, own), 0);
	refused("not a folder");
}

/* A login's XDG_RUNTIME_DIR that is not on this node, or is nobody's alone. */
static void a_runtime_folder_of_elsewhere_is_not_used(void **state)
{
	struct node_folder f;

	(void) state;
	assert_int_equal(chmod(above, 0755), 0);
	f = opened();
	assert_int_equal(strncmp(f.path, "/tmp/hiwater-", strlen("/tmp/hiwater-")), 0);
	assert_null(strstr(f.path, above));
	node_folder_leave(&f);
	assert_int_equal(setenv("XDG_RUNTIME_DIR", "/nowhere/at/all", 1), 0);
	f = opened();
	node_folder_leave(&f);
	assert_int_equal(chmod(above, 0700), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(one_leads_until_it_is_killed),
		TEST(the_last_to_leave_removes_the_folder),
		TEST(a_folder_that_was_removed_is_made_again),
		TEST(what_was_not_announced_here_is_no_rank),
		TEST(ranks_of_another_pid_namespace_are_counted),
		TEST(a_change_is_noticed_however_soon_it_comes),
		TEST(folders_that_others_may_have_made_are_refused),
		TEST(a_runtime_folder_of_elsewhere_is_not_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

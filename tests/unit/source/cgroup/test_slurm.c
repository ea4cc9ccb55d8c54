/* SPDX-License-Identifier: MIT
 *
 * Jobs of Slurm by recorded paths of their cgroups (22.05 with cgroup v1 and v2, several slurmd on one
 * machine; 26.05 by its documentation) and by recorded environments.
 */
#include "source/cgroup/slurm.h"

#include "tree_helper.h"

enum {
	MANY = 8
};

static const struct row {
	const char *path;
	const char *node, *job, *sluid, *step; /* job and sluid NULL: no job of Slurm */
	int uid, task;                         /* -1: not in the path */
	bool is_daemons;
	const char *job_path, *step_path;
} rows[] = {
	/* v1 */
	{ "/slurm/uid_1000/job_7/step_0/task_1", "", "7", "", "0", 1000, 1, false, "/slurm/uid_1000/job_7",
		"/slurm/uid_1000/job_7/step_0" },
	{ "/slurm_n1/uid_0/job_2/step_batch/task_0", "n1", "2", "", "batch", 0, 0, false,
		"/slurm_n1/uid_0/job_2", "/slurm_n1/uid_0/job_2/step_batch" },
	{ "/slurm_n1/uid_0/job_2/step_0", "n1", "2", "", "0", 0, -1, false, "/slurm_n1/uid_0/job_2",
		"/slurm_n1/uid_0/job_2/step_0" }, /* the freezer ends here */
	{ "/slurm_n1/uid_0/job_1", "n1", "1", "", "", 0, -1, false, "/slurm_n1/uid_0/job_1", "" },
	{ "/sys/fs/cgroup/memory/slurm_rack_7/uid_5/job_12/", "rack_7", "12", "", "", 5, -1, false,
		"/sys/fs/cgroup/memory/slurm_rack_7/uid_5/job_12", "" },
	/* v2 */
	{ "/system.slice/slurmstepd.scope/job_3/step_0/user/task_0", "", "3", "", "0", -1, 0, false,
		"/system.slice/slurmstepd.scope/job_3", "/system.slice/slurmstepd.scope/job_3/step_0" },
	{ "/system.slice/slurmstepd.scope/job_3/step_extern/user/task_special", "", "3", "", "extern", -1, -1,
		false, "/system.slice/slurmstepd.scope/job_3",
		"/system.slice/slurmstepd.scope/job_3/step_extern" },
	{ "/system.slice/slurmstepd.scope/job_3/step_0/slurm", "", "3", "", "0", -1, -1, true,
		"/system.slice/slurmstepd.scope/job_3", "/system.slice/slurmstepd.scope/job_3/step_0" },
	{ "/system.slice/n2_slurmstepd.scope/job_4/step_batch/user/task_0", "n2", "4", "", "batch", -1, 0,
		false, "/system.slice/n2_slurmstepd.scope/job_4",
		"/system.slice/n2_slurmstepd.scope/job_4/step_batch" },
	{ "/../../system.slice/slurmstepd.scope/job_3/step_interactive", "", "3", "", "interactive", -1, -1,
		false, "/../../system.slice/slurmstepd.scope/job_3",
		"/../../system.slice/slurmstepd.scope/job_3/step_interactive" },
	/* 26.05 */
	{ "/system.slice/slurmstepd.scope/s8K2MTQW1V3XYZ/step_0/user/task_0", "", "", "s8K2MTQW1V3XYZ", "0",
		-1, 0, false, "/system.slice/slurmstepd.scope/s8K2MTQW1V3XYZ",
		"/system.slice/slurmstepd.scope/s8K2MTQW1V3XYZ/step_0" },
	/* not of Slurm, or not of a job */
	{ .path = "/" },
	{ .path = "" },
	{ .path = "/slurm" },
	{ .path = "/slurm_n1/uid_0" },
	{ .path = "/slurm/uid_0/job_x" },
	{ .path = "/slurm/uid_/job_1" },
	{ .path = "/system.slice/slurmstepd.scope/system" },
	{ .path = "/system.slice/slurmstepd.scope/s8K2MTQW1V3XY" },
	{ .path = "/system.slice/slurmstepd.scope/s8k2mtqw1v3xyz" },
	{ .path = "/system.slice/slurmd.service" },
	{ .path = "/user.slice/job_1/step_0" },
};

static void assert_prefix(const char *path, size_t len, const char *wanted)
{
	assert_int_equal(len, strlen(wanted));
	assert_memory_equal(path, wanted, len);
}

static void paths_of_jobs(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		struct slurm_place place;
		const bool found = slurm_place_parse(r->path, strlen(r->path), &place);

		if (found != (r->job != NULL))
			fail_msg("%s: %s", r->path, found ? "taken for a job's" : "not taken for a job's");
		if (!found)
			continue;
		assert_string_equal(place.node, r->node);
		assert_string_equal(place.job, r->job);
		assert_string_equal(place.sluid, r->sluid);
		assert_string_equal(place.step, r->step);
		assert_int_equal(place.uid.known ? place.uid.value : -1, r->uid);
		assert_int_equal(place.task.known ? place.task.value : -1, r->task);
		assert_int_equal(place.is_daemons, r->is_daemons);
		assert_prefix(r->path, place.job_len, r->job_path);
		assert_prefix(r->path, place.step_len, r->step_path);
	}
}

/* ---- processes ------------------------------------------------------------------------------- */

#define V1 "31 20 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"

/* environment: a variable a line. */
static void put_process(const struct temp_tree *t, int pid, const char *name, unsigned start, const char *groups,
	const char *environment)
{
	char path[64], text[256], environ_path[160];

	(void) snprintf(path, sizeof(path), "proc/%d/stat", pid);
	(void) snprintf(text, sizeof(text),
		"%d (%s) S 1 %d %d 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %u 1000 10 18446744073709551615 1 1 1 0 0 0 0 0 0 0 0 "
		"0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
		pid, name, pid, pid, start);
	temp_tree_put(t, path, text);
	(void) snprintf(path, sizeof(path), "proc/%d/cgroup", pid);
	temp_tree_put(t, path, groups);
	(void) snprintf(path, sizeof(path), "proc/%d/environ", pid);
	temp_tree_put(t, path, "");
	(void) snprintf(environ_path, sizeof(environ_path), "%s/%s", t->path, path);
	FILE *f = fopen(environ_path, "w");

	assert_non_null(f);
	for (const char *p = environment; *p; p++)
		(void) fputc(*p == '\n' ? '\0' : *p, f);
	assert_int_equal(fclose(f), 0);
}

static ssize_t find(const struct root *root, const struct slurm_job *job, pid_t pids[MANY], char cgroup[256])
{
	struct err err = { "" };

	memset(pids, 0, MANY * sizeof(*pids));
	return slurm_pids(root, job, pids, MANY, cgroup, 256, &err);
}

static void processes_by_cgroup(void **state)
{
	struct temp_tree t;
	pid_t pids[MANY];
	char cgroup[256];

	(void) state;
	temp_tree_new(&t);
	temp_tree_put(&t, "proc/self/mountinfo", V1);
	put_process(&t, 10, "slurmstepd", 100, "4:memory:/slurm_n1/uid_0/job_2/step_batch\n", "");
	put_process(&t, 11, "srun", 101, "4:memory:/slurm_n1/uid_0/job_2/step_batch/task_0\n", "");
	put_process(&t, 12, "slurm_script", 100, "4:memory:/slurm_n1/uid_0/job_2/step_batch/task_0\n", "");
	put_process(&t, 9, "python3", 102, "4:memory:/slurm_n1/uid_0/job_2/step_0/task_0\n", "");
	put_process(&t, 8, "sleep", 1, "4:memory:/slurm_n1/uid_0/job_2/step_extern/task_0\n", "");
	put_process(&t, 20, "python3", 1, "4:memory:/slurm_n1/uid_0/job_22/step_0/task_0\n", "SLURM_JOB_ID=2\n");
	put_process(&t, 21, "sh", 1, "4:memory:/\n", "PATH=/bin\n");
	struct root root = temp_tree_root(&t);

	assert_int_equal(find(&root, &(struct slurm_job) { .job = "2" }, pids, cgroup), 3);
	assert_int_equal(pids[0], 12); /* the script stands for the job, and the client of srun comes last */
	assert_int_equal(pids[1], 9);
	assert_int_equal(pids[2], 11);
	assert_string_equal(cgroup, "/slurm_n1/uid_0/job_2");
	assert_int_equal(find(&root, &(struct slurm_job) { .job = "2", .step = "0" }, pids, cgroup), 1);
	assert_int_equal(pids[0], 9);
	assert_string_equal(cgroup, "/slurm_n1/uid_0/job_2/step_0");
	assert_int_equal(find(&root, &(struct slurm_job) { .job = "2", .own_step = "0" }, pids, cgroup), 2);
	assert_int_equal(find(&root, &(struct slurm_job) { .job = "2", .node = "n2" }, pids, cgroup), 0);
	assert_int_equal(find(&root, &(struct slurm_job) { .job = "3" }, pids, cgroup), 0);
	root_done(&root);
	temp_tree_done(&t);
}

/* 26.05: the number of the job is in the environment alone. */
static void processes_by_sluid(void **state)
{
#define SLUID "0::/system.slice/slurmstepd.scope/s8K2MTQW1V3XYZ/step_0/user/task_"
	struct temp_tree t;
	pid_t pids[MANY];
	char cgroup[256];

	(void) state;
	temp_tree_new(&t);
	temp_tree_put(&t, "proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	temp_tree_put(&t, "sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
	put_process(&t, 11, "a", 101, SLUID "0\n", "SLURM_JOB_ID=5\nSLURM_STEP_ID=0\n");
	put_process(&t, 12, "b", 102, SLUID "1\n", "SLURM_JOB_ID=5\nSLURM_ARRAY_JOB_ID=4\nSLURM_ARRAY_TASK_ID=9\n");
	struct root root = temp_tree_root(&t);

	assert_int_equal(find(&root, &(struct slurm_job) { .job = "5" }, pids, cgroup), 2);
	assert_string_equal(cgroup, "/system.slice/slurmstepd.scope/s8K2MTQW1V3XYZ");
	assert_int_equal(find(&root, &(struct slurm_job) { .job = "4_9" }, pids, cgroup), 1);
	assert_int_equal(pids[0], 12);
	root_done(&root);
	temp_tree_done(&t);
}

static void processes_by_environment(void **state)
{
	struct temp_tree t;
	pid_t pids[MANY];
	char cgroup[256];

	(void) state;
	temp_tree_new(&t);
	temp_tree_put(&t, "proc/self/mountinfo", V1);
	put_process(&t, 10, "slurmstepd", 1, "4:memory:/\n", "SLURM_JOB_ID=2\nSLURMD_NODENAME=n1\n");
	put_process(&t, 11, "sh", 2, "4:memory:/\n", "SLURM_JOB_ID=2\nSLURMD_NODENAME=n1\nSLURM_STEP_ID=4294967291\n");
	put_process(&t, 12, "a", 3, "4:memory:/\n", "SLURM_JOB_ID=2\nSLURMD_NODENAME=n1\nSLURM_STEP_ID=0\n");
	put_process(&t, 13, "b", 4, "4:memory:/\n", "SLURM_JOB_ID=2\nSLURMD_NODENAME=n2\nSLURM_STEP_ID=0\n");
	put_process(&t, 14, "bash", 1, "4:memory:/\n", "SLURM_JOB_ID=2\n"); /* salloc's, on a login node */
	put_process(&t, 15, "c", 1, "4:memory:/\n", "SLURM_JOB_ID=21\nSLURMD_NODENAME=n1\n");
	put_process(&t, 16, "prolog", 1, "4:memory:/\n",
		"SLURM_JOB_ID=2\nSLURMD_NODENAME=n1\nSLURM_SCRIPT_CONTEXT=prolog_slurmd\n");
	put_process(&t, 17, "task_prolog", 1, "4:memory:/\n",
		"SLURM_JOB_ID=2\nSLURMD_NODENAME=n1\nSLURM_STEP_ID=0\nSLURM_SCRIPT_CONTEXT=prolog_task\nSLURM_TASK_PID=10\n");
	put_process(&t, 18, "d", 5, "4:memory:/\n",
		"SLURM_JOB_ID=2\nSLURMD_NODENAME=n1\nSLURM_STEP_ID=1\nSLURM_SCRIPT_CONTEXT=prolog_task\nSLURM_TASK_PID=18\n");
	struct root root = temp_tree_root(&t);

	/* Two nodes are on this machine: which one must be said. */
	assert_int_equal(find(&root, &(struct slurm_job) { .job = "2" }, pids, cgroup), -ENOTUNIQ);
	assert_int_equal(find(&root, &(struct slurm_job) { .job = "2", .node = "n1" }, pids, cgroup), 3);
	assert_int_equal(pids[0], 11);
	assert_int_equal(pids[1], 12);
	assert_int_equal(pids[2], 18);
	assert_string_equal(cgroup, "");
	assert_int_equal(find(&root, &(struct slurm_job) { "2", "batch", "n1", NULL }, pids, cgroup), 1);
	assert_int_equal(pids[0], 11);
	assert_int_equal(find(&root, &(struct slurm_job) { "2", "0", "n2", NULL }, pids, cgroup), 1);
	assert_int_equal(pids[0], 13);
	root_done(&root);
	temp_tree_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_of_jobs),
		cmocka_unit_test(processes_by_cgroup),
		cmocka_unit_test(processes_by_sluid),
		cmocka_unit_test(processes_by_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * A SPANK plugin for Slurm: srun --hiwater[=DIR] records the step, one recorder on each node, in
 * DIR/JOB.STEP/NODE.hiw (hiwater/ in the working directory). In plugstack.conf:
 *
 *     optional spank_hiwater.so hiwater=/usr/bin/hiwater
 *
 * The recorder is "hiwater attach slurm:JOB.STEP", started beside the tasks as the job's user. It is a child of
 * slurmstepd, which waits for it for three seconds at most when the tasks have ended; whatever fails here, the step
 * goes on. Not for machines with several slurmd: a plugin is not told for which node it works. Build: meson setup -Dspank=true, with the slurm/spank.h of the cluster's own Slurm.
 */
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

SPANK_PLUGIN(hiwater, 1)

enum {
	TEXT_SIZE = 4096,
	FILES_MOST = 1024,
	WAIT_TENTHS = 30
};

static bool is_wanted;
static char folder[TEXT_SIZE] = "hiwater";
static char program[TEXT_SIZE] = "/usr/bin/hiwater";
static pid_t recorder; /* 0: none */

static int parse_option(int value, const char *text, int is_remote)
{
	(void) value;
	(void) is_remote;
	is_wanted = true;
	if (text && *text && strcmp(text, "(null)") != 0)
		(void) snprintf(folder, sizeof(folder), "%s", text);
	return 0;
}

static struct spank_option option = { "hiwater", "DIR", "record the step with hiwater in DIR (hiwater)", 2, 0,
	parse_option };

int slurm_spank_init(spank_t spank, int argc, char **argv)
{
	static const char prefix[] = "hiwater=";

	for (int i = 0; i < argc; i++) {
		if (strncmp(argv[i], prefix, sizeof(prefix) - 1) == 0)
			(void) snprintf(program, sizeof(program), "%s", argv[i] + sizeof(prefix) - 1);
	}
	(void) spank_option_register(spank, &option);
	return 0;
}

struct step {
	uid_t uid;
	gid_t gid;
	char name[64], folder[TEXT_SIZE];                 /* "slurm:JOB.STEP"; with '/' at its end */
	char path[TEXT_SIZE], home[TEXT_SIZE];            /* "PATH=..." */
	char directory[TEXT_SIZE];
};

static void read_variable(spank_t spank, const char *name, char *ret, size_t size)
{
	const size_t n = (size_t) snprintf(ret, size, "%s=", name);

	if (n < size && spank_getenv(spank, name, ret + n, (int) (size - n)) != ESPANK_SUCCESS)
		ret[n] = '\0';
}

static bool read_step(spank_t spank, struct step *step)
{
	uint32_t job, number;

	if (spank_get_item(spank, S_JOB_UID, &step->uid) != ESPANK_SUCCESS ||
		spank_get_item(spank, S_JOB_GID, &step->gid) != ESPANK_SUCCESS ||
		spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
		spank_get_item(spank, S_JOB_STEPID, &number) != ESPANK_SUCCESS ||
		spank_getenv(spank, "PWD", step->directory, sizeof(step->directory)) != ESPANK_SUCCESS)
		return false;
	(void) snprintf(step->name, sizeof(step->name), "slurm:%u.%u", job, number);
	read_variable(spank, "PATH", step->path, sizeof(step->path));
	read_variable(spank, "HOME", step->home, sizeof(step->home));
	const int n = snprintf(step->folder, sizeof(step->folder), "%s/", folder);

	return n > 0 && (size_t) n < sizeof(step->folder);
}

/* In the child. The limits of what is open and of signals are slurmstepd's, not the recorder's. */
static void become_recorder(const struct step *step)
{
	const char *const argv[] = { "hiwater", "attach", step->name, "--wait-start", "1m", "-o", step->folder, NULL };
	const char *const environment[] = { step->path, step->home, NULL };
	const int null = open("/dev/null", O_RDWR);
	sigset_t none;

	(void) setsid();
	(void) sigemptyset(&none);
	(void) sigprocmask(SIG_SETMASK, &none, NULL);
	for (int number = 1; number < NSIG; number++)
		(void) signal(number, SIG_DFL);
	for (int fd = 0; fd <= 2; fd++)
		(void) dup2(null, fd);
	for (int fd = 3; fd < FILES_MOST; fd++)
		(void) close(fd);
	if ((geteuid() == 0 && setgroups(0, NULL) < 0) || setgid(step->gid) < 0 || setuid(step->uid) < 0 ||
		chdir(step->directory) < 0)
		_exit(127);
	(void) execve(program, (char *const *) argv, (char *const *) environment);
	_exit(127);
}

/* For each task: the first one starts the recorder, which waits until a task runs. */
int slurm_spank_task_post_fork(spank_t spank, int argc, char **argv)
{
	static struct step step;
	static bool is_started;

	(void) argc;
	(void) argv;
	if (!is_wanted || is_started || !spank_remote(spank) || !read_step(spank, &step))
		return 0;
	is_started = true;
	const pid_t pid = fork();

	if (pid == 0)
		become_recorder(&step);
	recorder = pid > 0 ? pid : 0;
	return 0;
}

/* slurmstepd waits for any child: where it has waited for the recorder, the pid may be another's. */
static void end_recorder(void)
{
	static const struct timespec tenth = { 0, 100000000 };
	const pid_t pid = recorder;

	recorder = 0;
	if (pid <= 0 || waitpid(pid, NULL, WNOHANG) != 0)
		return;
	(void) kill(pid, SIGTERM);
	for (int i = 0; i < WAIT_TENTHS; i++) {
		if (waitpid(pid, NULL, WNOHANG) != 0)
			return;
		(void) nanosleep(&tenth, NULL);
	}
	(void) kill(pid, SIGKILL);
	(void) waitpid(pid, NULL, 0);
}

/* Slurm kills what is left of a step after the last of its tasks here has ended: this comes before. */
int slurm_spank_task_exit(spank_t spank, int argc, char **argv)
{
	static uint32_t ended;
	uint32_t tasks;

	(void) argc;
	(void) argv;
	ended++;
	if (spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks) == ESPANK_SUCCESS && ended >= tasks)
		end_recorder();
	return 0;
}

int slurm_spank_exit(spank_t spank, int argc, char **argv)
{
	(void) spank;
	(void) argc;
	(void) argv;
	end_recorder();
	return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * hog WHAT MIB: memory in known amounts, for tests of limits.
 *   fill    touches MIB and ends with status 3
 *   grow    is the first that the kernel should spare when memory runs out, and touches a MiB every 20 ms
 *   child   has a child touch MIB; ends with 4 if SIGKILL ended that, else with 5
 *   killed  touches MIB, then sends itself SIGKILL
 *   hold    touches MIB, writes a line, holds it until stdin ends
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void fill(size_t mib, useconds_t pause)
{
	const size_t bytes = mib << 20;
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		exit(90);
	(void) madvise(p, bytes, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < bytes; i += 4096) {
		p[i] = 1;
		if (pause > 0 && i % (1 << 20) == 0)
			(void) usleep(pause);
	}
}

/* proc_pid_oom_score_adj(5): root may go below what it inherited. */
static int be_spared(void)
{
	FILE *f = fopen("/proc/self/oom_score_adj", "w");
	int ok = f && fputs("0", f) >= 0;

	return f && fclose(f) == 0 && ok;
}

static int child(size_t mib)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		fill(mib, 0);
		_exit(3);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 91;
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 4 : 5;
}

int main(int argc, char **argv)
{
	const char *what = argc == 3 ? argv[1] : "";
	const size_t mib = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	char c;

	if (strcmp(what, "child") == 0)
		return child(mib);
	if (strcmp(what, "grow") == 0 && !be_spared())
		return 94;
	fill(mib, strcmp(what, "grow") == 0 ? 20000 : 0);
	if (strcmp(what, "fill") == 0 || strcmp(what, "grow") == 0)
		return 3;
	if (strcmp(what, "killed") == 0)
		return kill(getpid(), SIGKILL);
	if (strcmp(what, "hold") != 0)
		return 92;
	if (puts("holds") < 0 || fflush(stdout) != 0)
		return 93;
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	return 0;
}

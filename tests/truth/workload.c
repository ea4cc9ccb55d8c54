/* SPDX-License-Identifier: MIT
 *
 * Jobs whose use is known by construction. workload NAME [ARGUMENT]; sizes are in MB of 10^6 bytes
 * unless stated otherwise. Memory stays in use until a step ends, so the peak of the job follows
 * from the code below.
 *
 * A step lasts for a given time. Two environment variables make it last until hiwater has sampled
 * it, also on a busy machine:
 * TRUTH_STARTED_BY=PID   PID started hiwater: a step of 100 ms or more lasts for a wake-up of hiwater per 100 ms at least.
 * TRUTH_UNTIL=stdin      the step in which all memory is in use writes "held" to stdout and lasts until stdin is closed.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MB 1000000

static void die(const char *what)
{
	perror(what);
	exit(99);
}

static void nap(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		;
}

/* The value of a line "FIELD: VALUE" of /proc/PID/FILE, or -1. */
static long proc_field(const char *path, const char *name)
{
	FILE *file = fopen(path, "re");
	char line[256];
	long value = -1;

	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, strlen(name)) == 0)
			value = strtol(line + strlen(name), NULL, 10);
	}
	if (file)
		(void) fclose(file);
	return value;
}

/* hiwater, which is the ancestor that the scoreboard started; 0 if there is none. */
static long find_sampler(void)
{
	const char *starter = getenv("TRUTH_STARTED_BY");
	long wanted = starter ? strtol(starter, NULL, 10) : 0, pid = getppid();
	char path[64];

	while (wanted > 0 && pid > 1) {
		long parent;

		(void) snprintf(path, sizeof(path), "/proc/%ld/status", pid);
		parent = proc_field(path, "PPid:");
		if (parent == wanted)
			return pid;
		pid = parent;
	}
	return 0;
}

/* Number of voluntary context switches of the busiest thread of a process. */
static long wakeups(long pid)
{
	char path[320];
	struct dirent *entry;
	DIR *tasks;
	long most = 0;

	(void) snprintf(path, sizeof(path), "/proc/%ld/task", pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		long n;

		if (!isdigit((unsigned char) entry->d_name[0]))
			continue;
		(void) snprintf(path, sizeof(path), "/proc/%ld/task/%s/status", pid, entry->d_name);
		n = proc_field(path, "voluntary_ctxt_switches:");
		most = n > most ? n : most;
	}
	if (tasks)
		(void) closedir(tasks);
	return most;
}

/* A step that hiwater must sample: lasts ms, and on a busy machine until hiwater has taken as many
 * samples, up to half a minute. */
static void stay(long ms)
{
	long sampler = ms >= 100 ? find_sampler() : 0;
	long enough = sampler ? wakeups(sampler) + ms / 100 : 0;

	nap(ms);
	for (int i = 0; sampler && i < 3000 && wakeups(sampler) < enough; i++)
		nap(10);
}

/* Waits until stdin is closed. */
static void wait_for_end(void)
{
	char c;

	while (read(0, &c, 1) > 0)
		;
}

/* The step in which all memory is in use. */
static void stay_full(long ms)
{
	if (!getenv("TRUTH_UNTIL")) {
		stay(ms);
		return;
	}
	(void) !write(1, "held\n", 5);
	wait_for_end();
}

/* Anonymous memory of 4 KiB pages, every page written. */
static char *fill(size_t bytes)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	(void) madvise(p, bytes, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < bytes; i += 4096)
		p[i] = 1;
	return p;
}

/* The same in huge pages if the kernel provides them: few faults bring much memory. */
static char *fill_huge(size_t bytes)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	(void) madvise(p, bytes, MADV_HUGEPAGE);
	for (size_t i = 0; i < bytes; i += 4096)
		p[i] = 1;
	return p;
}

static void burn_cpu_ms(long ms)
{
	struct timespec t;
	volatile unsigned x = 0;

	do {
		for (int i = 0; i < 10000; i++)
			x += (unsigned) i;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	} while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < ms);
}

/* Runs body(i) in n children at the same time; all keep their memory until the last has finished
 * body, then ms more. */
static void children_start(int n, void (*body)(int), long ms)
{
	int ready[2], go[2];
	char c = 0;

	if (pipe(ready) < 0 || pipe(go) < 0)
		die("pipe");
	for (int i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid == 0) {
			close(go[1]); /* also in processes that the body forks */
			body(i);
			(void) !write(ready[1], &c, 1);
			(void) !read(go[0], &c, 1);
			_exit(0);
		}
	}
	for (int i = 0; i < n; i++) {
		if (read(ready[0], &c, 1) != 1)
			die("read");
	}
	stay_full(ms);
	close(go[1]);
}

static void children(int n, void (*body)(int), long ms)
{
	children_start(n, body, ms);
	while (wait(NULL) > 0)
		;
}

static void nothing(int i)
{
	(void) i;
}

/* ---- the jobs ---------------------------------------------------------------------------------------------------- */

/* 500 MB for 50 ms: released before a second sample at 10 Hz. */
static void burst(void)
{
	char *p;

	stay(300);
	p = fill(500 * (size_t) MB);
	nap(50);
	munmap(p, 500 * (size_t) MB);
	stay(300);
}

/* Eight forks share 300 MB in `pieces` mappings: 300 MB and a little. */
static void forks(int pieces)
{
	for (int i = 0; i < pieces; i++) {
		(void) fill(300 * (size_t) MB / (size_t) pieces);
		if (pieces > 1) /* keeps adjacent mappings from being merged */
			(void) mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	children(8, nothing, 700);
}

static char *shared_with;

static void write_shared(int i)
{
	(void) i;
	memset(shared_with, 2, 100 * (size_t) MB);
}

/* 100 MB that all share by fork, and 100 MB of a shared mapping that each child writes: 200 MB. */
static void forks_write_shared(void)
{
	(void) fill(100 * (size_t) MB);
	shared_with = mmap(
		NULL, 100 * (size_t) MB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared_with == MAP_FAILED)
		die("mmap");
	memset(shared_with, 1, 100 * (size_t) MB);
	stay(250);
	children(8, write_shared, 700);
}

static void more_huge(int i)
{
	(void) i;
	(void) fill_huge(150 * (size_t) MB);
}

/* 100 MB shared, and each of two children fills 150 MB of huge pages: 400 MB. */
static void forks_huge(void)
{
	(void) fill(100 * (size_t) MB);
	children(2, more_huge, 700);
}

static char *rewritten;

static void rewrite(void)
{
	for (size_t i = 0; i < 150 * (size_t) MB; i += 4096)
		rewritten[i]++;
}

/* A child copies all shared pages, which does not make it larger, and then does something. Its
 * parent may run on for a while. */
static void copy(void (*then)(void), int parent_ms)
{
	rewritten = fill(150 * (size_t) MB);
	stay(250);
	if (fork() == 0) {
		stay(120); /* so that a sample finds it before */
		rewrite();
		then();
		_exit(0);
	}
	(void) wait(NULL);
	nap(parent_ms);
}

static void end(void)
{
}

static void give_back(void)
{
	(void) munmap(rewritten, 150 * (size_t) MB);
	stay(400);
}

static void run_another(void)
{
	(void) execl("/bin/sleep", "sleep", "0.3", NULL);
}

/* Main copies the pages that it shares with a child, which lives as long as main; it has waited
 * for another child before. */
static void copy_by_main(void)
{
	int hold[2];
	char c;

	rewritten = fill(150 * (size_t) MB);
	stay(250);
	if (fork() == 0)
		_exit(0);
	(void) wait(NULL);
	if (pipe2(hold, O_CLOEXEC) < 0)
		die("pipe");
	if (fork() == 0) {
		(void) close(hold[1]);
		(void) !read(hold[0], &c, 1);
		nap(500);
		_exit(0);
	}
	nap(150);
	rewrite();
}

/* Memory that is allocated and released twenty times. */
static void churn(void)
{
	for (int i = 0; i < 20; i++) {
		char *p = fill(50 * (size_t) MB);

		nap(50);
		(void) munmap(p, 50 * (size_t) MB);
	}
}

/* 150 MB and n forks that only sleep while the parent does something. */
static void with_forks(int n, void (*parent)(void))
{
	int hold[2];
	char c;

	rewritten = fill(150 * (size_t) MB);
	if (pipe(hold) < 0)
		die("pipe");
	for (int i = 0; i < n; i++) {
		if (fork() == 0) {
			close(hold[1]);
			(void) !read(hold[0], &c, 1);
			_exit(0);
		}
	}
	close(hold[0]);
	stay(250);
	parent();
	stay(600);
	close(hold[1]);
	while (wait(NULL) > 0)
		;
}

/* Allocates and releases huge pages until it is killed; it does not belong to a job. */
static void neighbour(void)
{
	const size_t size = 8 * (size_t) MB;

	for (;;) {
		char *p = fill_huge(size);

		nap(10);
		(void) munmap(p, size);
	}
}

/* A daemonised grandchild uses 200 MB; main waits for it by a pipe. */
static void daemon_job(void)
{
	int done[2];
	char c;

	if (pipe(done) < 0)
		die("pipe");
	if (fork() == 0) {
		setsid();
		if (fork() == 0) {
			close(done[0]);
			(void) fill(200 * (size_t) MB);
			stay(800);
			_exit(0);
		}
		_exit(0);
	}
	close(done[1]);
	(void) wait(NULL);
	(void) !read(done[0], &c, 1);
	nap(50);
}

/* n children one after the other, each using ms of CPU time: none runs long enough for two samples. */
static void short_children(int n, long ms)
{
	for (int i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			burn_cpu_ms(ms);
			_exit(0);
		}
		(void) waitpid(pid, NULL, 0);
	}
}

/* The same under a parent that ignores SIGCHLD: their rusage is lost. */
static void ignored_children(void)
{
	signal(SIGCHLD, SIG_IGN);
	for (int i = 0; i < 50; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			burn_cpu_ms(20);
			_exit(0);
		}
		(void) waitpid(pid, NULL, 0);
	}
}

static char *shared;

static void touch_shared(int i)
{
	volatile char sum = 0;

	(void) i;
	for (size_t k = 0; k < 200 * (size_t) MB; k += 4096)
		sum = (char) (sum + shared[k]);
}

/* One shared mapping of 200 MB that main and three children all touch: 200 MB. */
static void shared_mapping(void)
{
	shared = mmap(NULL, 200 * (size_t) MB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		die("mmap");
	memset(shared, 1, 200 * (size_t) MB);
	children(3, touch_shared, 700);
}

static const char *folder;

static char *map_file(int number, size_t bytes)
{
	char path[4096];
	volatile char sum = 0;
	char *p;
	int fd;

	(void) snprintf(path, sizeof(path), "%s/file-%d", folder, number);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		die(path);
	{
		static char block[1 << 20];

		memset(block, 7, sizeof(block));
		for (size_t done = 0; done < bytes; done += sizeof(block)) {
			if (write(fd, block, sizeof(block)) != (ssize_t) sizeof(block))
				die("write");
		}
	}
	p = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		die("mmap");
	for (size_t k = 0; k < bytes; k += 4096)
		sum = (char) (sum + p[k]);
	close(fd);
	unlink(path);
	return p;
}

/* One process maps and reads a file of 200 MB alone: all of it is private. */
static void file_alone(void)
{
	(void) map_file(0, 200 * (size_t) MB);
	stay(900);
}

static void map_own(int i)
{
	(void) map_file(i + 1, 80 * (size_t) MB);
}

/* Three children map a file of 80 MB each, three different ones: 240 MB. */
static void files_apart(void)
{
	children(3, map_own, 700);
}

/* 32 MiB of reserved huge pages, which no resident size includes. */
static void hugetlb(void)
{
	const size_t bytes = 32 << 20;
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	memset(p, 1, bytes);
	wait_for_end();
}

static size_t each_mb;

static void fill_each(int i)
{
	(void) i;
	(void) fill(each_mb * MB);
}

/* n children use mb each at one instant and end at once; they are waited for much later, or never. */
static void all_at_once(int n, size_t mb, int waits)
{
	each_mb = mb;
	nap(230);
	children_start(n, fill_each, 0);
	nap(600);
	while (waits && wait(NULL) > 0)
		;
}

static void huge_100(int i)
{
	(void) i;
	(void) fill_huge(100 * (size_t) MB);
}

static void small_300(int i)
{
	(void) i;
	(void) fill(300 * (size_t) MB);
}

/* A child of 300 MB for long, and then four of 100 MB of huge pages each, at one instant: 400 MB by
 * few faults. */
static void huge_at_once(void)
{
	children(1, small_300, 500);
	children(4, huge_100, 0);
}

/* A child that samples have found uses 150 MB until main uses as much, too, and then releases it:
 * 300 MB at one instant. */
static void gives_way(const char *how)
{
	const size_t bytes = 150 * (size_t) MB;
	int gate[2], ready[2];
	char *p, c = 0;

	if (pipe2(gate, O_CLOEXEC) < 0 || pipe2(ready, O_CLOEXEC) < 0)
		die("pipe");
	if (fork() == 0) {
		(void) close(gate[1]);
		p = strcmp(how, "file") == 0   ? map_file(0, bytes)
		    : strcmp(how, "huge") == 0 ? fill_huge(bytes)
					       : fill(bytes);
		if (write(ready[1], &c, 1) != 1)
			die("write");
		if (read(gate[0], &c, 1) != 0) /* end of file opens the gate */
			die("read");
		if (strcmp(how, "give-back") == 0)
			(void) munmap(p, bytes);
		else if (strcmp(how, "exec") == 0)
			run_another();
		nap(strcmp(how, "give-back") == 0 ? 400 : 0);
		_exit(0);
	}
	if (read(ready[0], &c, 1) != 1)
		die("read");
	stay(1300);
	(void) fill(bytes);
	(void) close(gate[1]);
	stay(700);
	(void) wait(NULL);
}

/* A child uses 120 MB for a moment, long after the first sample, and then ends or executes another
 * program, which resets its mark. */
static void unread_mark(int execs)
{
	const size_t bytes = 120 * (size_t) MB;

	if (fork() == 0) {
		stay(1250);
		(void) munmap(fill(bytes), bytes);
		if (execs)
			run_another();
		_exit(0);
	}
	(void) fill(200 * (size_t) MB);
	(void) wait(NULL);
	nap(300);
}

/* Main uses 100 MB, and a child that executes this program maps 150 MB of a file for a moment, with
 * few faults if the file is cached in large folios: 250 MB. */
static void file_by_exec(char *self)
{
	(void) fill(100 * (size_t) MB);
	stay(1250);
	if (fork() == 0) {
		(void) execl(self, self, "file-briefly", NULL);
		die(self);
	}
	(void) wait(NULL);
	nap(900);
}

static void file_briefly(void)
{
	(void) map_file(0, 150 * (size_t) MB);
}

/* Uses 100 MB and forks n children, one after the other, that do nothing: 100 MB. */
static void forks_in_turn(int n)
{
	(void) fill(100 * (size_t) MB);
	for (int i = 0; i < n; i++)
		children(1, nothing, 0);
	nap(300);
}

/* Uses n MB for ms. */
static void hold(size_t mb, long ms)
{
	(void) fill(mb * MB);
	stay_full(ms);
}

/* A new empty mapping, shared in the given way. */
static char *map_shared(const char *way, size_t bytes)
{
	char path[4096];
	char *p;
	int fd = -1;

	if (strcmp(way, "sysv") == 0) {
		int id = shmget(IPC_PRIVATE, bytes, IPC_CREAT | 0600);

		p = id < 0 ? (char *) -1 : shmat(id, NULL, 0);
		(void) shmctl(id, IPC_RMID, NULL); /* takes effect when the last process detaches it */
		if (p == (char *) -1)
			die("shmget");
		return p;
	}
	if (strcmp(way, "memfd") == 0) {
		fd = memfd_create("truth", MFD_CLOEXEC);
	} else if (strcmp(way, "anon") != 0) {
		(void) snprintf(path, sizeof(path), "%s/truth-%ld",
			strcmp(way, "shm") == 0 ? "/dev/shm" : folder, (long) getpid());
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		(void) unlink(path);
	}
	if (strcmp(way, "anon") != 0 && (fd < 0 || ftruncate(fd, (off_t) bytes) < 0))
		die(way);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
	if (p == MAP_FAILED)
		die("mmap");
	return p; /* the descriptor stays open: only it refers to the pages */
}

static char *everybodys;
static size_t everybodys_bytes;

static void touch_everybodys(int i)
{
	volatile char sum = 0;

	(void) i;
	for (size_t k = 0; k < everybodys_bytes; k += 4096)
		sum = (char) (sum + everybodys[k]);
}

/* One mapping of mib MiB that main fills and n children read: mib MiB, in any way of sharing. */
static void share(const char *way, size_t mib, int n)
{
	everybodys_bytes = mib << 20;
	everybodys = map_shared(way, everybodys_bytes);
	for (size_t i = 0; i < everybodys_bytes; i += 4096)
		everybodys[i] = 1;
	children(n, touch_everybodys, 1200);
}

/* One process that maps the same mib MiB twice, and n children that have both mappings, too: mib
 * MiB. */
static void twice(const char *way, size_t mib, int n)
{
	const size_t bytes = mib << 20;
	char *first = map_shared(way, bytes);
	/* of a shared mapping: a second one of the same pages */
	char *second = mremap(first, 0, bytes, MREMAP_MAYMOVE);

	if (second == MAP_FAILED)
		die("mremap");
	for (size_t i = 0; i < bytes; i += 4096)
		first[i] = 1;
	everybodys = second;
	everybodys_bytes = bytes;
	touch_everybodys(0);
	if (n > 0)
		children(n, touch_everybodys, 1200);
	else
		stay_full(1200);
}

/* Grows by mb MB in steps of equal size, one each step_ms, and rests. */
static void grow(size_t mb, int steps, long step_ms, long rest_ms)
{
	for (int i = 0; i < steps; i++) {
		(void) fill(mb * MB / (size_t) steps);
		nap(step_ms);
	}
	stay_full(rest_ms);
}

static void with_grandchild(int i)
{
	int ready[2];
	char c = 0;

	(void) i;
	(void) fill(40 * (size_t) MB);
	if (pipe(ready) < 0)
		die("pipe");
	if (fork() == 0) {
		(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void) fill(24 * (size_t) MB);
		(void) !write(ready[1], &c, 1);
		for (;;)
			(void) pause();
	}
	if (read(ready[0], &c, 1) != 1)
		die("read");
}

/* Main, four children and a child of each share 300 MB by fork; a child has 40 MB more, which its
 * own child shares, and that one 24 MB: 556 MB in nine processes, which rest. */
static void tree_at_rest(long ms)
{
	(void) fill(300 * (size_t) MB);
	children(4, with_grandchild, ms);
}

/* A sleeping process and n sleeping children, of 10 MB each. */
static void idle(int n, long ms)
{
	each_mb = 10;
	children(n, fill_each, ms);
}

/* Uses 20 MB and forks n children, one after the other, that end at once: 20 MB. */
static void short_forks(int n)
{
	(void) fill(20 * (size_t) MB);
	for (int i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid == 0)
			_exit(0);
		(void) waitpid(pid, NULL, 0);
	}
	stay(300);
}

int main(int argc, char **argv)
{
	const char *job = argc > 1 ? argv[1] : "";
	long number = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
	long other = argc > 3 ? strtol(argv[3], NULL, 10) : 0;

	folder = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
	if (strcmp(job, "burst") == 0)
		burst();
	else if (strcmp(job, "forks") == 0)
		forks((int) number);
	else if (strcmp(job, "forks-huge") == 0)
		forks_huge();
	else if (strcmp(job, "forks-rewrite") == 0) /* the children keep the old pages: 300 MB */
		with_forks((int) number, rewrite);
	else if (strcmp(job, "forks-churn") == 0) /* 200 MB, however often it is allocated again */
		with_forks((int) number, churn);
	else if (strcmp(job, "copy-and-end") == 0) /* 300 MB, as all of these */
		copy(end, 200);
	else if (strcmp(job, "copy-and-all-end") == 0)
		copy(end, 0);
	else if (strcmp(job, "copy-and-give-back") == 0)
		copy(give_back, 200);
	else if (strcmp(job, "copy-and-exec") == 0)
		copy(run_another, 200);
	else if (strcmp(job, "copy-by-main") == 0)
		copy_by_main();
	else if (strcmp(job, "forks-write-shared") == 0)
		forks_write_shared();
	else if (strcmp(job, "forks-wait") == 0) /* 150 MB */
		with_forks((int) number, wait_for_end);
	else if (strcmp(job, "neighbour") == 0)
		neighbour();
	else if (strcmp(job, "daemon") == 0)
		daemon_job();
	else if (strcmp(job, "short-children") == 0)
		short_children((int) number, other);
	else if (strcmp(job, "ignored-children") == 0)
		ignored_children();
	else if (strcmp(job, "shared-mapping") == 0)
		shared_mapping();
	else if (strcmp(job, "file-alone") == 0)
		file_alone();
	else if (strcmp(job, "files-apart") == 0)
		files_apart();
	else if (strcmp(job, "hugetlb") == 0)
		hugetlb();
	else if (strcmp(job, "all-at-once") == 0)
		all_at_once((int) number, (size_t) other, argc > 4);
	else if (strcmp(job, "huge-at-once") == 0)
		huge_at_once();
	else if (strcmp(job, "gives-way") == 0)
		gives_way(argc > 2 ? argv[2] : "");
	else if (strcmp(job, "unread-mark") == 0)
		unread_mark(argc > 2 && strcmp(argv[2], "exec") == 0);
	else if (strcmp(job, "file-by-exec") == 0)
		file_by_exec(argv[0]);
	else if (strcmp(job, "file-briefly") == 0)
		file_briefly();
	else if (strcmp(job, "forks-in-turn") == 0)
		forks_in_turn((int) number);
	else if (strcmp(job, "hold") == 0)
		hold((size_t) number, other);
	else if (strcmp(job, "share") == 0 && argc == 5)
		share(argv[2], (size_t) other, (int) strtol(argv[4], NULL, 10));
	else if (strcmp(job, "twice") == 0 && argc == 5)
		twice(argv[2], (size_t) other, (int) strtol(argv[4], NULL, 10));
	else if (strcmp(job, "grow") == 0 && argc == 6)
		grow((size_t) number, (int) other, strtol(argv[4], NULL, 10), strtol(argv[5], NULL, 10));
	else if (strcmp(job, "tree-at-rest") == 0)
		tree_at_rest(number);
	else if (strcmp(job, "idle") == 0)
		idle((int) number, other);
	else if (strcmp(job, "short-forks") == 0)
		short_forks((int) number);
	else
		return fprintf(stderr, "workload: unknown job '%s'\n", job), 98;
	return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * Jobs whose use is known by construction. workload NAME [ARGUMENT]; sizes are in MB of 10^6 bytes unless said
 * otherwise. Memory is held until a step is over, so what the job holds at its peak follows from the text below.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
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

/* The same in huge pages where the kernel gives them: few faults bring much memory. */
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

/* Runs body(i) in n children at once; all hold until the last is there, then ms more. */
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
			body(i);
			(void) !write(ready[1], &c, 1);
			close(go[1]);
			(void) !read(go[0], &c, 1);
			_exit(0);
		}
	}
	for (int i = 0; i < n; i++) {
		if (read(ready[0], &c, 1) != 1)
			die("read");
	}
	nap(ms);
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

/* 500 MB for 50 ms: over before a second look at 10 Hz. */
static void burst(void)
{
	char *p;

	nap(300);
	p = fill(500 * (size_t) MB);
	nap(50);
	munmap(p, 500 * (size_t) MB);
	nap(300);
}

/* Eight forks share 300 MB in pieces mappings: 300 MB and a little. */
static void forks(int pieces)
{
	for (int i = 0; i < pieces; i++) {
		(void) fill(300 * (size_t) MB / (size_t) pieces);
		if (pieces > 1) /* keeps neighbours from becoming one mapping */
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
	shared_with = mmap(NULL, 100 * (size_t) MB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared_with == MAP_FAILED)
		die("mmap");
	memset(shared_with, 1, 100 * (size_t) MB);
	nap(250);
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

/* A child copies all that it shares, which makes it no larger, and then does something. Its parent lives on for a while, or not. */
static void copy(void (*then)(void), int parent_ms)
{
	rewritten = fill(150 * (size_t) MB);
	nap(250);
	if (fork() == 0) {
		nap(120); /* so that it is found before */
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
	nap(400);
}

static void run_another(void)
{
	(void) execl("/bin/sleep", "sleep", "0.3", NULL);
}

/* Main copies what a child holds that sleeps on; it has waited for another one before. */
static void copy_by_main(void)
{
	rewritten = fill(150 * (size_t) MB);
	nap(250);
	if (fork() == 0)
		_exit(0);
	(void) wait(NULL);
	if (fork() == 0) {
		nap(1500);
		_exit(0);
	}
	nap(150);
	rewrite();
}

/* Memory that is taken and given back twenty times. */
static void churn(void)
{
	for (int i = 0; i < 20; i++) {
		char *p = fill(50 * (size_t) MB);

		nap(50);
		(void) munmap(p, 50 * (size_t) MB);
	}
}

/* Until stdin is closed. */
static void wait_for_end(void)
{
	char c;

	while (read(0, &c, 1) > 0)
		;
}

/* 150 MB and n forks that only sleep, beside which the parent does something. */
static void beside_forks(int n, void (*parent)(void))
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
	nap(250);
	parent();
	nap(600);
	close(hold[1]);
	while (wait(NULL) > 0)
		;
}

/* Takes huge pages and gives them back, until it is ended: it is none of any job's. */
static void neighbour(void)
{
	const size_t size = 8 * (size_t) MB;

	for (;;) {
		char *p = fill_huge(size);

		nap(10);
		(void) munmap(p, size);
	}
}

/* A grandchild in a session of its own whose parents are gone holds 200 MB; main waits for it by a pipe. */
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
			nap(800);
			_exit(0);
		}
		_exit(0);
	}
	close(done[1]);
	(void) wait(NULL);
	(void) !read(done[0], &c, 1);
	nap(50);
}

/* n children one after the other, each burning ms of processor time: none lives long enough to be looked at twice. */
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

/* The same under a parent that ignores SIGCHLD: nobody is told what they used. */
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
	nap(900);
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

/* 32 MiB of reserved huge pages, which no resident size has. */
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

/* n children hold mb each at one instant and end at once; they are waited for much later, or not at all. */
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

/* A child of 300 MB for long, and then four of 100 MB of huge pages each, at one instant: 400 MB by few faults. */
static void huge_at_once(void)
{
	children(1, small_300, 500);
	children(4, huge_100, 0);
}

/* A child that looks have found holds 150 MB until main holds as much, too, and then lets go: 300 MB at one instant. */
static void gives_way(const char *how)
{
	const size_t bytes = 150 * (size_t) MB;
	int gate[2];

	if (pipe2(gate, O_CLOEXEC) < 0)
		die("pipe");
	if (fork() == 0) {
		char *p, c;

		(void) close(gate[1]);
		p = strcmp(how, "file") == 0 ? map_file(0, bytes) : strcmp(how, "huge") == 0 ? fill_huge(bytes)
											     : fill(bytes);
		if (read(gate[0], &c, 1) != 0) /* its end is what opens it */
			die("read");
		if (strcmp(how, "give-back") == 0)
			(void) munmap(p, bytes);
		else if (strcmp(how, "exec") == 0)
			run_another();
		nap(strcmp(how, "give-back") == 0 ? 400 : 0);
		_exit(0);
	}
	nap(1300);
	(void) fill(bytes);
	(void) close(gate[1]);
	nap(700);
	(void) wait(NULL);
}

/* A child has 120 MB for a moment, long after looks began, and then ends or runs another program: its mark goes with that. */
static void unread_mark(int execs)
{
	const size_t bytes = 120 * (size_t) MB;

	if (fork() == 0) {
		nap(1250);
		(void) munmap(fill(bytes), bytes);
		if (execs)
			run_another();
		_exit(0);
	}
	(void) fill(200 * (size_t) MB);
	(void) wait(NULL);
	nap(300);
}

/* Beside main's 100 MB a child runs this program anew, which maps 150 MB of a file for a moment: by few faults, where that is cached in
 * large folios. 250 MB. */
static void file_by_exec(char *self)
{
	(void) fill(100 * (size_t) MB);
	nap(1250);
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

/* Holds 100 MB and forks n children, one after the other, that do nothing: 100 MB. */
static void forks_in_turn(int n)
{
	(void) fill(100 * (size_t) MB);
	for (int i = 0; i < n; i++)
		children(1, nothing, 0);
	nap(300);
}

/* Holds n MB for ms. */
static void hold(size_t mb, long ms)
{
	(void) fill(mb * MB);
	nap(ms);
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
	else if (strcmp(job, "forks-rewrite") == 0) /* the children hold the old pages: 300 MB */
		beside_forks((int) number, rewrite);
	else if (strcmp(job, "forks-churn") == 0) /* 200 MB, however often it is taken anew */
		beside_forks((int) number, churn);
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
		beside_forks((int) number, wait_for_end);
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
	else
		return fprintf(stderr, "workload: no job '%s'\n", job), 98;
	return 0;
}

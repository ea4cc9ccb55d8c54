/* SPDX-License-Identifier: MIT
 *
 * A job that uses NVTX as its client header does: it loads the library that NVTX_INJECTION64_PATH names, and calls
 * through tables that this library fills in. The words of its command line say what it does, one after the other:
 *
 *     ranges N MS      N ranges "step" of MS ms (0: at once); prints the time that it measured, in ns
 *     paced N RATE     N ranges "paced", RATE a second
 *     nested           "outer" around two "inner"
 *     crossing         in domains "one" and "two", that overlap
 *     across           a range that begins here and ends on another thread
 *     threads N        N threads with a range "thread" each, which have names
 *     open             a range "open" without an end
 *     name             a range whose name is ESC [2J
 *     fork N           a child without exec, with N ranges "child"
 *     loop FILE N      pushes and pops until N were made, or for ever; FILE has their number; then SIGKILL
 *     sleep MS         as long as that
 *     hold MIB         touches so much memory
 *     ready FILE       makes FILE
 *     scribble         writes into what it shares with the recorder
 *     cut              tries to make it shorter, and empties it
 *     unmap            takes it away from itself
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef void (*function)(void);

struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type, padding;
	const char *message;
};

static function core[16], core2[16];
static function *core_table[17], *core2_table[17];

static int module_table(int module, function ***table, unsigned *n)
{
	*table = module == 1 ? core_table : module == 5 ? core2_table
							: NULL;
	*n = 16;
	return *table != NULL;
}

static const struct {
	size_t size;
	int (*module_table)(int module, function ***table, unsigned *n);
} callbacks = { sizeof(callbacks), module_table };

static const void *get_export_table(uint32_t id)
{
	return id == 1 ? &callbacks : NULL;
}

static void load(void)
{
	const char *path = getenv("NVTX_INJECTION64_PATH");
	void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
	int (*initialize)(const void *(*)(uint32_t) ) = NULL;
	void *symbol = library ? dlsym(library, "InitializeInjectionNvtx2") : NULL;

	for (int i = 1; i < 16; i++) {
		core_table[i] = &core[i];
		core2_table[i] = &core2[i];
	}
	memcpy(&initialize, &symbol, sizeof(symbol));
	if (path && !library)
		(void) fprintf(stderr, "%s\n", dlerror());
	if (initialize)
		(void) initialize(get_export_table);
}

static void push(const char *name)
{
	if (core[9])
		(void) ((int (*)(const char *)) core[9])(name);
}

static void pop(void)
{
	if (core[11])
		(void) ((int (*)(void)) core[11])();
}

static uint64_t start(const char *name)
{
	return core[5] ? ((uint64_t (*)(const char *)) core[5])(name) : 0;
}

static void end(uint64_t id)
{
	if (core[7])
		((void (*)(uint64_t)) core[7])(id);
}

static void *domain(const char *name)
{
	return core2[12] ? ((void *(*)(const char *) ) core2[12])(name) : NULL;
}

static void domain_push(void *domain, const char *name)
{
	const struct attributes a = { .version = 3, .size = sizeof(a), .message_type = 1, .message = name };

	if (core2[4])
		(void) ((int (*)(void *, const struct attributes *)) core2[4])(domain, &a);
}

static void domain_pop(void *domain)
{
	if (core2[5])
		(void) ((int (*)(void *)) core2[5])(domain);
}

static uint64_t now(void)
{
	struct timespec t;

	(void) clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}

static void rest(long ms)
{
	const struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	(void) nanosleep(&t, NULL);
}

static void *end_there(void *id)
{
	end((uint64_t) (uintptr_t) id);
	return NULL;
}

static void *in_thread(void *number)
{
	char name[32];

	(void) snprintf(name, sizeof(name), "worker %d", (int) (intptr_t) number);
	if (core[14])
		((void (*)(uint32_t, const char *)) core[14])((uint32_t) gettid(), name);
	push("thread");
	rest(2);
	pop();
	return NULL;
}

static void ranges(int n, int ms)
{
	uint64_t total = 0;

	for (int i = 0; i < n; i++) {
		const uint64_t t = now();

		push("step");
		if (ms > 0)
			rest(ms);
		pop();
		total += now() - t;
	}
	(void) printf("%llu\n", (unsigned long long) total);
	(void) fflush(stdout);
}

/* As many at a time as make 2 ms. */
static void paced(unsigned long n, unsigned long rate)
{
	const unsigned long batch = rate / 500 + 1;
	const uint64_t began = now();

	for (unsigned long i = 0; i < n; i++) {
		const uint64_t due = began + i * 1000000000 / rate, t = i % batch ? 0 : now();

		if (i % batch == 0 && due > t)
			(void) usleep((useconds_t) ((due - t) / 1000));
		push("paced");
		pop();
	}
}

static void crossing(void)
{
	void *one = domain("one"), *two = domain("two");

	domain_push(one, "a");
	domain_push(two, "b");
	domain_pop(one);
	domain_pop(two);
}

static void loop(const char *file, unsigned long most)
{
	const int fd = open(file, O_RDWR | O_CREAT, 0600);
	volatile unsigned long *count;

	if (fd < 0 || ftruncate(fd, 4096) < 0)
		exit(3);
	count = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	*count = 0;
	while (most == 0 || *count < most) {
		push("loop");
		*count += 1;
		pop();
		*count += 1;
	}
	(void) kill(getpid(), SIGKILL);
}

/* The descriptor that the job inherited. */
static int shared(void)
{
	const char *text = getenv("HIWATER_TRACE");

	return text ? atoi(text) : -1;
}

/* The parts of it that this process has mapped. */
static void each_map(void (*see)(char *at, size_t n))
{
	struct {
		char *at;
		size_t n;
	} maps[16];
	size_t n_maps = 0;
	char line[1024];
	FILE *f = fopen("/proc/self/maps", "r");

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long from, to;

		if (strstr(line, "memfd:hiwater-trace") && sscanf(line, "%lx-%lx", &from, &to) == 2 && n_maps < 16) {
			maps[n_maps].at = (char *) from;
			maps[n_maps++].n = to - from;
		}
	}
	if (f)
		(void) fclose(f);
	for (size_t i = 0; i < n_maps; i++)
		see(maps[i].at, maps[i].n);
	(void) printf("%zu\n", n_maps);
}

static void scribble(char *at, size_t n)
{
	uint32_t *words = (uint32_t *) (void *) at, random = 2463534242;

	for (int i = 0; i < 200000; i++) {
		random ^= random << 13;
		random ^= random >> 17;
		random ^= random << 5;
		words[random % (n / 4)] = random >> (random % 32);
	}
}

static void unmap(char *at, size_t n)
{
	(void) mmap(at, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void cut(void)
{
	const int fd = shared(), r = ftruncate(fd, 0);

	(void) printf("%d %d\n", r, errno == EPERM);
	(void) fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 30);
}

int main(int argc, char **argv)
{
	load();
	for (int i = 1; i < argc; i++) {
		const char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : "0";
		pthread_t threads[64];

		if (strcmp(word, "ranges") == 0) {
			ranges(atoi(next), atoi(argv[i + 2]));
			i += 2;
		} else if (strcmp(word, "paced") == 0) {
			paced(strtoul(next, NULL, 10), strtoul(argv[i + 2], NULL, 10));
			i += 2;
		} else if (strcmp(word, "nested") == 0) {
			push("outer");
			for (int k = 0; k < 2; k++) {
				push("inner");
				pop();
			}
			pop();
		} else if (strcmp(word, "crossing") == 0) {
			crossing();
		} else if (strcmp(word, "across") == 0) {
			const uint64_t id = start("across");

			(void) pthread_create(&threads[0], NULL, end_there, (void *) (uintptr_t) id);
			(void) pthread_join(threads[0], NULL);
		} else if (strcmp(word, "threads") == 0) {
			for (int k = 0; k < atoi(next); k++)
				(void) pthread_create(&threads[k], NULL, in_thread, (void *) (intptr_t) k);
			for (int k = 0; k < atoi(next); k++)
				(void) pthread_join(threads[k], NULL);
			i++;
		} else if (strcmp(word, "open") == 0) {
			push("open");
		} else if (strcmp(word, "name") == 0) {
			push("\x1b[2J");
			pop();
		} else if (strcmp(word, "fork") == 0) {
			const pid_t pid = fork();

			for (int k = 0; pid == 0 && k < atoi(next); k++) {
				push("child");
				pop();
			}
			if (pid == 0)
				_exit(0);
			(void) waitpid(pid, NULL, 0);
			i++;
		} else if (strcmp(word, "loop") == 0) {
			loop(next, strtoul(argv[i + 2], NULL, 10));
		} else if (strcmp(word, "sleep") == 0) {
			rest(atol(next));
			i++;
		} else if (strcmp(word, "hold") == 0) {
			const size_t n = (size_t) atoi(next) << 20;

			memset(mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, n);
			i++;
		} else if (strcmp(word, "ready") == 0) {
			(void) close(open(next, O_WRONLY | O_CREAT, 0600));
			i++;
		} else if (strcmp(word, "scribble") == 0) {
			each_map(scribble);
		} else if (strcmp(word, "cut") == 0) {
			cut();
		} else if (strcmp(word, "unmap") == 0) {
			each_map(unmap);
		} else {
			return 2;
		}
	}
	return 0;
}

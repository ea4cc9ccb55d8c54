/* SPDX-License-Identifier: MIT
 *
 * The client part of NVTX is represented by two tables of pointers, as each library of a program has one;
 * the other tool is tests/fake/nvtx_tool.c.
 */
#include "ring_rig.h"

#include <dlfcn.h>
#include <pthread.h>

#define OTHER_TOOL FAKE_DRIVERS "/../libfake-nvtx-tool.so"

typedef void (*function)(void);

int InitializeInjectionNvtx2(const void *(*get)(uint32_t) );

struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	const void *message;
};

enum {
	ASCII = 1,
	WIDE,
	REGISTERED,
	LAST = 16, /* entries of each table */
};

/* As in tests/fake/nvtx_tool.c. */
struct fake_nvtx {
	int initialized, marks, pushes, pops, starts, ends, domains, strings, destroyed, wrong;
	int named;
};

/* ---- two copies of the client part -------------------------------------------------------------------------------- */

static struct client {
	function core[LAST], core2[LAST];
	function *core_table[LAST], *core2_table[LAST];
} first, second;

static unsigned entries = LAST;

static void unset(void)
{
}

static int table_of(struct client *c, int module, function ***table, unsigned *n)
{
	*n = entries;
	*table = module == 1 ? c->core_table : c->core2_table;
	return module == 1 || module == 5;
}

static int first_table(int module, function ***table, unsigned *n)
{
	return table_of(&first, module, table, n);
}

static int second_table(int module, function ***table, unsigned *n)
{
	return table_of(&second, module, table, n);
}

struct callbacks {
	size_t size;
	int (*module_table)(int module, function ***table, unsigned *n);
};

static const void *first_get(uint32_t id)
{
	static const struct callbacks callbacks = { sizeof(callbacks), first_table };

	return id == 1 ? &callbacks : NULL;
}

static const void *second_get(uint32_t id)
{
	static const struct callbacks callbacks = { sizeof(callbacks), second_table };

	return id == 1 ? &callbacks : NULL;
}

static int begin(struct client *c)
{
	for (unsigned i = 1; i < LAST; i++) {
		c->core[i] = c->core2[i] = unset;
		c->core_table[i] = &c->core[i];
		c->core2_table[i] = &c->core2[i];
	}
	return InitializeInjectionNvtx2(c == &first ? first_get : second_get);
}

#define CORE(c, id, type)  ((type) (c)->core[id])
#define CORE2(c, id, type) ((type) (c)->core2[id])

static struct attributes message(int type, const void *text)
{
	return (struct attributes) { .version = 3, .size = sizeof(struct attributes), .message_type = type, .message = text };
}

static int push_a(struct client *c, const char *text)
{
	return CORE(c, 9, int (*)(const char *))(text);
}

static int pop(struct client *c)
{
	return CORE(c, 11, int (*)(void))();
}

static uint64_t start_a(struct client *c, const char *text)
{
	return CORE(c, 5, uint64_t (*)(const char *))(text);
}

static void end(struct client *c, uint64_t id)
{
	CORE(c, 7, void (*)(uint64_t))(id);
}

static void *create(struct client *c, const char *name)
{
	return CORE2(c, 12, void *(*)(const char *) )(name);
}

static void *register_a(struct client *c, void *domain, const char *text)
{
	return CORE2(c, 10, void *(*)(void *, const char *) )(domain, text);
}

static int domain_push(struct client *c, void *domain, int type, const void *text)
{
	const struct attributes a = message(type, text);

	return CORE2(c, 4, int (*)(void *, const struct attributes *))(domain, &a);
}

static int domain_pop(struct client *c, void *domain)
{
	return CORE2(c, 5, int (*)(void *))(domain);
}

static uint64_t domain_start(struct client *c, void *domain, int type, const void *text)
{
	const struct attributes a = message(type, text);

	return CORE2(c, 2, uint64_t (*)(void *, const struct attributes *))(domain, &a);
}

static void domain_end(struct client *c, void *domain, uint64_t id)
{
	CORE2(c, 3, void (*)(void *, uint64_t))(domain, id);
}

/* ---- what was written --------------------------------------------------------------------------------------------- */

struct expected {
	unsigned kind;
	const char *name, *domain;
};

static void check_events(struct ring_rig *rig, unsigned slot_number, const struct expected *e, size_t n)
{
	struct trace_slot *const slot = rig_slot(rig, slot_number);
	struct rig_events found = { 0 };

	rig_read(slot, &found);
	assert_int_equal(found.n, n);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(found.all[i].kind, e[i].kind);
		assert_string_equal(rig_text(slot, found.all[i].range.name), e[i].name);
		assert_string_equal(rig_text(slot, found.all[i].range.domain), e[i].domain);
	}
	assert_int_equal(rig_lost(slot), 0);
	free(found.all);
}

static void run_and_check(void (*run)(struct ring_rig *rig), const struct expected *e, size_t n)
{
	struct ring_rig rig;

	rig_open(&rig);
	rig_run(&rig, run);
	check_events(&rig, 0, e, n);
	rig_close(&rig);
}

#define RUN_AND_CHECK(run, e) run_and_check(run, e, sizeof(e) / sizeof((e)[0]))

/* ---- without another tool ----------------------------------------------------------------------------------------- */

static void call_everything(struct ring_rig *rig)
{
	struct client *const c = &first;
	struct attributes a = message(ASCII, "ascii"), w = message(WIDE, L"w\u00efde"), none = message(0, "x");
	struct attributes shorter = { .size = 40, .message_type = ASCII };
	void *domain, *wide_domain;
	uint64_t id;

	(void) rig;
	CHECK(begin(c) == 1);
	for (unsigned i = 1; i < LAST; i++) {
		CHECK((c->core[i] == unset) == (i == 12 || i == 13)); /* names of categories */
		CHECK((c->core2[i] == unset) == ((i >= 6 && i <= 9) || i == 15));
	}
	CORE(c, 2, void (*)(const char *))("mark a");
	CORE(c, 3, void (*)(const wchar_t *))(L"mark w");
	CORE(c, 1, void (*)(const struct attributes *))(&a);
	CORE(c, 1, void (*)(const struct attributes *))(&w);
	CORE(c, 1, void (*)(const struct attributes *))(&none);
	CORE(c, 1, void (*)(const struct attributes *))(&shorter);
	CORE(c, 1, void (*)(const struct attributes *))(NULL);
	CHECK(push_a(c, "push a") == 0);
	CHECK(CORE(c, 10, int (*)(const wchar_t *))(L"push w") == 1);
	CHECK(CORE(c, 8, int (*)(const struct attributes *))(&a) == 2);
	CHECK(pop(c) == 2 && pop(c) == 1 && pop(c) == 0);
	CHECK(pop(c) < 0);
	id = start_a(c, "start a");
	CHECK(id != 0);
	end(c, id);
	id = CORE(c, 6, uint64_t (*)(const wchar_t *))(L"start w");
	end(c, id);
	id = CORE(c, 4, uint64_t (*)(const struct attributes *))(&a);
	end(c, id);
	CORE(c, 14, void (*)(uint32_t, const char *))(77, "thread a");
	CORE(c, 15, void (*)(uint32_t, const wchar_t *))(78, L"thread w");
	domain = create(c, "domain a");
	wide_domain = CORE2(c, 13, void *(*)(const wchar_t *) )(L"dom\u00e4in w");
	CHECK(domain && wide_domain && domain != wide_domain);
	CHECK(create(c, "domain a") == domain);
	CORE2(c, 1, void (*)(void *, const struct attributes *))(domain, &a);
	CHECK(domain_push(c, wide_domain, REGISTERED, register_a(c, domain, "registered")) == 0);
	CHECK(domain_push(c, wide_domain, REGISTERED,
		      CORE2(c, 11, void *(*)(void *, const wchar_t *) )(domain, L"registered w")) == 1);
	CHECK(domain_pop(c, wide_domain) == 1 && domain_pop(c, wide_domain) == 0);
	domain_end(c, domain, domain_start(c, domain, ASCII, "across"));
	CORE2(c, 14, void (*)(void *))(domain);
	CHECK(push_a(c, NULL) == 0);
	CHECK(pop(c) == 0);
}

static void test_every_function(void **state)
{
	static const struct expected e[] = {
		{ TRACE_RING_MARK, "mark a", "" },
		{ TRACE_RING_MARK, "mark w", "" },
		{ TRACE_RING_MARK, "ascii", "" },
		{ TRACE_RING_MARK, "w\u00efde", "" },
		{ TRACE_RING_MARK, "", "" },
		{ TRACE_RING_MARK, "", "" },
		{ TRACE_RING_MARK, "", "" },
		{ TRACE_RING_PUSH, "push a", "" },
		{ TRACE_RING_PUSH, "push w", "" },
		{ TRACE_RING_PUSH, "ascii", "" },
		{ TRACE_RING_POP, "", "" },
		{ TRACE_RING_POP, "", "" },
		{ TRACE_RING_POP, "", "" },
		{ TRACE_RING_POP, "", "" },
		{ TRACE_RING_START, "start a", "" },
		{ TRACE_RING_END, "", "" },
		{ TRACE_RING_START, "start w", "" },
		{ TRACE_RING_END, "", "" },
		{ TRACE_RING_START, "ascii", "" },
		{ TRACE_RING_END, "", "" },
		{ TRACE_RING_THREAD, "thread a", "" },
		{ TRACE_RING_THREAD, "thread w", "" },
		{ TRACE_RING_MARK, "ascii", "domain a" },
		{ TRACE_RING_PUSH, "registered", "dom\u00e4in w" },
		{ TRACE_RING_PUSH, "registered w", "dom\u00e4in w" },
		{ TRACE_RING_POP, "", "dom\u00e4in w" },
		{ TRACE_RING_POP, "", "dom\u00e4in w" },
		{ TRACE_RING_START, "across", "domain a" },
		{ TRACE_RING_END, "", "" },
		{ TRACE_RING_PUSH, "", "" },
		{ TRACE_RING_POP, "", "" },
	};

	(void) state;
	RUN_AND_CHECK(call_everything, e);
}

enum {
	DOMAINS = 20
};

static void nest_in_domains(struct ring_rig *rig)
{
	struct client *const c = &first;
	void *domains[DOMAINS];
	char name[20];

	(void) rig;
	CHECK(begin(c) == 1);
	for (int i = 0; i < DOMAINS; i++) {
		(void) snprintf(name, sizeof(name), "domain %d", i);
		domains[i] = create(c, name);
		CHECK(domains[i]);
		for (int depth = 0; depth < 5; depth++)
			CHECK(domain_push(c, domains[i], ASCII, "x") == depth);
		for (int depth = 4; depth >= 0; depth--)
			CHECK(domain_pop(c, domains[i]) == depth);
	}
	/* Some at once, each with a level of its own. */
	for (int depth = 0; depth < 3; depth++) {
		for (int i = 0; i < 4; i++)
			CHECK(domain_push(c, domains[i], ASCII, "x") == depth);
		CHECK(push_a(c, "x") == depth);
	}
	for (int depth = 2; depth >= 0; depth--) {
		CHECK(pop(c) == depth);
		for (int i = 0; i < 4; i++)
			CHECK(domain_pop(c, domains[i]) == depth);
	}
	/* More at once than have a level: "not tracked" is a valid answer, a wrong level none. */
	for (int i = 0; i < DOMAINS; i++) {
		const int level = domain_push(c, domains[i], ASCII, "x");

		CHECK(level == 0 || level == -2);
	}
	for (int i = 0; i < DOMAINS; i++) {
		const int level = domain_pop(c, domains[i]);

		CHECK(level == 0 || level == -2);
	}
	CHECK(push_a(c, "x") == 0 && pop(c) == 0);
}

static void test_levels_of_domains(void **state)
{
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, nest_in_domains);
	rig_close(&rig);
}

enum {
	THREADS = 8,
	RANGES = 1000,
};

static uint64_t ids[THREADS][RANGES];

static void *start_in_thread(void *number)
{
	uint64_t *const mine = ids[(uintptr_t) number];

	for (int i = 0; i < RANGES; i++) {
		CHECK(push_a(&first, "nested") == 0);
		mine[i] = start_a(&first, "across");
		CHECK(pop(&first) == 0);
	}
	return NULL;
}

static int compare_ids(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

	return (x > y) - (x < y);
}

static void start_in_threads(struct ring_rig *rig)
{
	uint64_t *const all = ids[0];
	pthread_t threads[THREADS];

	(void) rig;
	CHECK(begin(&first) == 1);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, start_in_thread, (void *) i) == 0);
	for (unsigned i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	qsort(all, (size_t) THREADS * RANGES, sizeof(*all), compare_ids);
	CHECK(all[0] != 0);
	for (unsigned i = 1; i < THREADS * RANGES; i++)
		CHECK(all[i] != all[i - 1]);
}

static void test_ids_are_unique(void **state)
{
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, start_in_threads);
	rig_close(&rig);
}

static void use_two_copies(struct ring_rig *rig)
{
	void *domain;

	(void) rig;
	CHECK(begin(&first) == 1);
	CHECK(push_a(&first, "first") == 0);
	CHECK(begin(&second) == 1);
	CHECK(push_a(&second, "second") == 1);
	domain = create(&first, "shared");
	CHECK(create(&second, "shared") == domain);
	CHECK(pop(&first) == 1 && pop(&second) == 0);
}

static void test_two_copies(void **state)
{
	static const struct expected e[] = {
		{ TRACE_RING_PUSH, "first", "" },
		{ TRACE_RING_PUSH, "second", "" },
		{ TRACE_RING_POP, "", "" },
		{ TRACE_RING_POP, "", "" },
	};

	(void) state;
	RUN_AND_CHECK(use_two_copies, e);
}

static void use_handles_in_child(struct ring_rig *rig)
{
	void *domain, *string;
	pid_t pid;

	(void) rig;
	CHECK(begin(&first) == 1);
	(void) push_a(&first, "only in the parent's arena, so that offsets differ");
	domain = create(&first, "domain");
	string = register_a(&first, domain, "string");
	CHECK(domain_push(&first, domain, REGISTERED, string) == 0);
	pid = fork();
	if (pid == 0) {
		/* The ranges of the thread are open here too. */
		CHECK(domain_push(&first, domain, REGISTERED, string) == 1);
		CHECK(domain_pop(&first, domain) == 1 && domain_pop(&first, domain) == 0);
		_exit(0);
	}
	rig_wait(pid);
	CHECK(domain_pop(&first, domain) == 0);
}

static void test_handles_outlive_a_fork(void **state)
{
	static const struct expected child[] = {
		{ TRACE_RING_PUSH, "string", "domain" },
		{ TRACE_RING_POP, "", "domain" },
		{ TRACE_RING_POP, "", "domain" },
	};
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, use_handles_in_child);
	check_events(&rig, 1, child, 3);
	rig_close(&rig);
}

static void use_garbage(struct ring_rig *rig)
{
	struct client *const c = &first;
	void *const domain = NULL;
	const void *const garbage[] = { (void *) 8, (void *) -1, (void *) &first, "text", (void *) (1ull << 40) };

	(void) rig;
	CHECK(begin(c) == 1);
	for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		void *const bad = (void *) (uintptr_t) garbage[i];

		CHECK(domain_push(c, bad, ASCII, "x") == 0);
		CHECK(domain_pop(c, bad) == 0);
		CHECK(domain_push(c, domain, REGISTERED, bad) == 0);
		CHECK(domain_pop(c, domain) == 0);
		domain_end(c, bad, 12345);
	}
	CHECK(create(c, NULL) == NULL && register_a(c, NULL, NULL) == NULL);
	/* Positions inside the table of handles. */
	for (unsigned i = 1; i < 2000; i++) {
		(void) domain_push(c, (char *) create(c, "a") + i, REGISTERED, (char *) create(c, "a") + i);
		(void) domain_pop(c, (char *) create(c, "a") + i);
	}
	/* More names than there is room for. */
	for (unsigned i = 0; i < 20000; i++) {
		char name[40];

		(void) snprintf(name, sizeof(name), "name %u", i);
		CHECK(i > 1000 || register_a(c, NULL, name));
		(void) register_a(c, NULL, name);
	}
}

static void test_handles_that_nobody_made(void **state)
{
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, use_garbage);
	rig_close(&rig);
}

static void refuse(struct ring_rig *rig)
{
	(void) rig;
	CHECK(begin(&first) == 0);
	for (unsigned i = 1; i < LAST; i++)
		CHECK(first.core[i] == unset && first.core2[i] == unset);
}

static void test_not_followed(void **state)
{
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig.ring->layers_wanted = TRACE_ALL & ~TRACE_RANGES;
	rig_run(&rig, refuse);
	rig.ring->layers_wanted = TRACE_ALL;
	assert_int_equal(setenv(TRACE_ENVIRONMENT, "off", 1), 0);
	rig_run(&rig, refuse);
	assert_int_equal(rig_slots_taken(&rig), 0);
	rig_close(&rig);
}

static void pause_following(struct ring_rig *rig)
{
	CHECK(begin(&first) == 1);
	CHECK(push_a(&first, "a") == 0);
	rig->ring->layers = 0;
	CHECK(push_a(&first, "unseen") == 1);
	CHECK(start_a(&first, "unseen") != 0);
	rig->ring->layers = TRACE_RANGES;
	CHECK(push_a(&first, "b") == 2);
}

static void test_levels_go_on_while_nothing_is_followed(void **state)
{
	static const struct expected e[] = { { TRACE_RING_PUSH, "a", "" }, { TRACE_RING_PUSH, "b", "" } };

	(void) state;
	RUN_AND_CHECK(pause_following, e);
}

/* A copy of an older version, with fewer functions. */
static void use_short_tables(struct ring_rig *rig)
{
	(void) rig;
	entries = 10;
	CHECK(begin(&first) == 1);
	CHECK(first.core[10] == unset && first.core2[10] == unset);
	CHECK(push_a(&first, "a") == 0);
	entries = LAST;
	CHECK(InitializeInjectionNvtx2(NULL) == 0);
}

static void test_short_tables(void **state)
{
	static const struct expected e[] = { { TRACE_RING_PUSH, "a", "" } };

	(void) state;
	RUN_AND_CHECK(use_short_tables, e);
}

/* ---- with another tool -------------------------------------------------------------------------------------------- */

static const struct fake_nvtx *other_tool(const char *how)
{
	void *const library = dlopen(OTHER_TOOL, RTLD_NOW);

	CHECK(library);
	CHECK(setenv("HIWATER_TRACE_NVTX", OTHER_TOOL, 1) == 0);
	CHECK(setenv("FAKE_NVTX", how, 1) == 0);
	return dlsym(library, "fake_nvtx");
}

static void use_both(struct client *c)
{
	void *const domain = create(c, "domain"), *const string = register_a(c, domain, "string");
	uint64_t id, id2;

	CHECK(domain && string);
	CORE(c, 2, void (*)(const char *))("mark");
	CHECK(push_a(c, "outer") == 100);
	CHECK(domain_push(c, domain, REGISTERED, string) == 101);
	CHECK(domain_push(c, domain, ASCII, "ascii") == 102);
	CHECK(domain_pop(c, domain) == 102 && domain_pop(c, domain) == 101 && pop(c) == 100);
	id = start_a(c, "across");
	id2 = domain_start(c, domain, REGISTERED, string);
	CHECK(id >= 7000 && id2 == id + 1); /* theirs */
	domain_end(c, domain, id2);
	end(c, id);
	CORE(c, 3, void (*)(const wchar_t *))(L"ours alone");
	id = CORE(c, 6, uint64_t (*)(const wchar_t *))(L"start w"); /* they have none: the id is ours */
	CHECK(id != 0);
	end(c, id);
	CORE2(c, 14, void (*)(void *))(domain);
}

#define BOTH_EXPECTED \
	{ TRACE_RING_MARK, "mark", "" }, { TRACE_RING_PUSH, "outer", "" }, { TRACE_RING_PUSH, "string", "domain" }, \
		{ TRACE_RING_PUSH, "ascii", "domain" }, { TRACE_RING_POP, "", "domain" }, { TRACE_RING_POP, "", "domain" }, \
		{ TRACE_RING_POP, "", "" }, { TRACE_RING_START, "across", "" }, { TRACE_RING_START, "string", "domain" }, \
		{ TRACE_RING_END, "", "" }, { TRACE_RING_END, "", "" }, { TRACE_RING_MARK, "ours alone", "" }, \
		{ TRACE_RING_START, "start w", "" }, { TRACE_RING_END, "", "" }

static void chain(struct ring_rig *rig)
{
	const struct fake_nvtx *const they = other_tool("");

	(void) rig;
	CHECK(begin(&first) == 1 && begin(&second) == 1);
	CHECK(they->initialized == 2);
	use_both(&first);
	CHECK(they->marks == 1 && they->pushes == 3 && they->pops == 3 && they->starts == 2 && they->ends == 3);
	CHECK(they->domains == 1 && they->strings == 1 && they->destroyed == 1 && they->named == 3);
	use_both(&second);
	CHECK(they->pushes == 6 && they->wrong == 0);
}

static void test_both_tools_get_everything(void **state)
{
	static const struct expected e[] = { BOTH_EXPECTED, BOTH_EXPECTED };

	(void) state;
	RUN_AND_CHECK(chain, e);
}

/* The other tool has no handles: it must not see ours. */
static void chain_without_handles(struct ring_rig *rig)
{
	const struct fake_nvtx *const they = other_tool("h");

	(void) rig;
	CHECK(begin(&first) == 1);
	use_both(&first);
	CHECK(they->pushes == 3 && they->pops == 3 && they->starts == 2 && they->ends == 3);
	CHECK(they->named == 1 && they->destroyed == 0 && they->wrong == 0);
}

static void test_the_other_tool_has_no_handles(void **state)
{
	static const struct expected e[] = { BOTH_EXPECTED };

	(void) state;
	RUN_AND_CHECK(chain_without_handles, e);
}

/* It failed: what it stored is not called. */
static void chain_to_failure(struct ring_rig *rig)
{
	const struct fake_nvtx *const they = other_tool("f");

	(void) rig;
	CHECK(begin(&first) == 1);
	CHECK(they->initialized == 1);
	CHECK(push_a(&first, "a") == 0);
	CHECK(they->pushes == 0);
}

static void chain_to_nothing(struct ring_rig *rig)
{
	(void) rig;
	CHECK(setenv("HIWATER_TRACE_NVTX", "/nonexistent", 1) == 0);
	CHECK(begin(&first) == 1);
	CHECK(push_a(&first, "a") == 0);
}

static void test_the_other_tool_fails(void **state)
{
	static const struct expected e[] = { { TRACE_RING_PUSH, "a", "" } };

	(void) state;
	RUN_AND_CHECK(chain_to_failure, e);
	RUN_AND_CHECK(chain_to_nothing, e);
}

/* Ranges are not followed: the other tool has the copy to itself. */
static void theirs_alone(struct ring_rig *rig)
{
	const struct fake_nvtx *const they = other_tool("");

	(void) rig;
	CHECK(begin(&first) == 1);
	CHECK(push_a(&first, "a") == 100 && they->pushes == 1);
	CHECK(first.core[3] == unset);
}

static void test_the_other_tool_alone(void **state)
{
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig.ring->layers_wanted = TRACE_MEMORY;
	rig_run(&rig, theirs_alone);
	assert_int_equal(rig_slots_taken(&rig), 0);
	rig_close(&rig);
}

/* It gives the second copy other functions: that copy is its own. */
static void other_functions(struct ring_rig *rig)
{
	const struct fake_nvtx *const they = other_tool("o");

	(void) rig;
	CHECK(begin(&first) == 1 && begin(&second) == 1);
	CHECK(push_a(&first, "a") == 100);
	CHECK(push_a(&second, "b") == 0);
	CHECK(they->pushes == 1);
}

static void test_a_copy_with_other_functions(void **state)
{
	static const struct expected e[] = { { TRACE_RING_PUSH, "a", "" } };

	(void) state;
	RUN_AND_CHECK(other_functions, e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_function),
		cmocka_unit_test(test_levels_of_domains),
		cmocka_unit_test(test_ids_are_unique),
		cmocka_unit_test(test_two_copies),
		cmocka_unit_test(test_handles_outlive_a_fork),
		cmocka_unit_test(test_handles_that_nobody_made),
		cmocka_unit_test(test_not_followed),
		cmocka_unit_test(test_levels_go_on_while_nothing_is_followed),
		cmocka_unit_test(test_short_tables),
		cmocka_unit_test(test_both_tools_get_everything),
		cmocka_unit_test(test_the_other_tool_has_no_handles),
		cmocka_unit_test(test_the_other_tool_fails),
		cmocka_unit_test(test_the_other_tool_alone),
		cmocka_unit_test(test_a_copy_with_other_functions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

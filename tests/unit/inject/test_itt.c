/* SPDX-License-Identifier: MIT
 *
 * The static part of ITT is represented by a list of functions with pointers, as each library of a
 * program has one.
 */
#include "ring_rig.h"

#include <pthread.h>

struct id {
	unsigned long long d1, d2, d3;
};

struct domain {
	volatile int flags;
	const char *name;
	void *wide;
	int extra1;
	void *extra2;
	struct domain *next;
};

struct string {
	const char *text;
	void *wide;
	int extra1;
	void *extra2;
	struct string *next;
};

struct api {
	const char *name;
	void **pointer;
	void *initial, *without;
	int group;
};

struct global {
	unsigned char magic[8];
	unsigned long major, minor, build;
	volatile long initialized, mutex_initialized, counter;
	pthread_mutex_t mutex;
	void *library, *error_handler;
	const char **path;
	struct api *list;
	struct global *next;
};

void __itt_api_init(struct global *global, int groups);

/* ---- two static parts --------------------------------------------------------------------------------------------- */

enum {
	DOMAIN_CREATE,
	STRING_CREATE,
	TASK_BEGIN,
	TASK_BEGIN_FN,
	TASK_END,
	BEGIN_OVERLAPPED,
	END_OVERLAPPED,
	MARKER,
	SET_NAME,
	PAUSE, /* not ours, with a static implementation */
	FRAME_BEGIN,
	FUNCTIONS,
};

static char initial, without; /* addresses that stand for functions */

struct part {
	void *pointers[FUNCTIONS];
	struct api list[FUNCTIONS + 1];
	struct global global;
};

static struct part part, other_part;

static void begin(struct part *p)
{
	static const char *const names[FUNCTIONS] = { "__itt_domain_create", "__itt_string_handle_create",
		"__itt_task_begin", "__itt_task_begin_fn", "__itt_task_end", "__itt_task_begin_overlapped",
		"__itt_task_end_overlapped", "__itt_marker", "__itt_thread_set_name", "__itt_pause",
		"__itt_frame_begin_v3" };

	for (unsigned i = 0; i < FUNCTIONS; i++) {
		p->pointers[i] = &initial;
		p->list[i] = (struct api) { names[i], &p->pointers[i], &initial,
			i < 2 || i == PAUSE ? &without : NULL, 1 << 12 };
	}
	p->global = (struct global) {
		.magic = { 0xED, 0xAB, 0xAB, 0xEC, 0x0D, 0xEE, 0xDA, 0x30 },
		.major = 3,
		.build = 20250807,
		.list = p->list
	};
}

static void *function(const struct part *p, unsigned which)
{
	return p->pointers[which];
}

#define CALL(p, which, type) ((type) function(p, which))

static struct domain *domain_create(struct part *p, const char *name)
{
	return CALL(p, DOMAIN_CREATE, struct domain * (*)(const char *) )(name);
}

static struct string *string_create(struct part *p, const char *name)
{
	return CALL(p, STRING_CREATE, struct string * (*)(const char *) )(name);
}

static void task_begin(struct part *p, const struct domain *domain, struct string *name)
{
	const struct id none = { 0, 0, 0 };

	CALL(p, TASK_BEGIN, void (*)(const struct domain *, struct id, struct id, struct string *))(domain, none, none, name);
}

static void task_end(struct part *p, const struct domain *domain)
{
	CALL(p, TASK_END, void (*)(const struct domain *))(domain);
}

/* ---- tests -------------------------------------------------------------------------------------------------------- */

static void *known_function(void *unused)
{
	return unused;
}

static void call_everything(struct ring_rig *rig)
{
	/* Made by the static part, before it loaded us. */
	static const struct domain early_domain = { .flags = 1, .name = "early" };
	static struct string early_name = { .text = "first" };
	const struct id none = { 0, 0, 0 }, one = { 1, 2, 3 }, two = { 1, 2, 4 };
	struct domain *domain;
	struct string *name;

	(void) rig;
	begin(&part);
	begin(&other_part);
	__itt_api_init(&part.global, -1);
	CHECK(part.pointers[PAUSE] == &without && part.pointers[FRAME_BEGIN] == NULL);
	for (unsigned i = 0; i < PAUSE; i++)
		CHECK(part.pointers[i] && part.pointers[i] != &initial && part.pointers[i] != &without);
	CHECK(other_part.pointers[TASK_BEGIN] == &initial);
	__itt_api_init(&other_part.global, -1);
	domain = domain_create(&part, "later");
	name = string_create(&part, "second");
	CHECK(domain->flags == 1 && strcmp(domain->name, "later") == 0 && !domain->wide && !domain->next);
	CHECK(strcmp(name->text, "second") == 0 && !name->wide && !name->extra1 && !name->extra2 && !name->next);
	CHECK(domain_create(&other_part, "later") == domain && domain_create(&part, "more") != domain);
	CHECK((void *) string_create(&part, "later") != (void *) domain);
	CHECK(!domain_create(&part, NULL) && !string_create(&part, NULL));
	task_begin(&part, &early_domain, &early_name);
	task_begin(&other_part, domain, name);
	CALL(&part, MARKER, void (*)(const struct domain *, struct id, struct string *, int))(domain, none, name, 3);
	task_end(&other_part, domain);
	task_end(&part, &early_domain);
	CALL(&part, BEGIN_OVERLAPPED, void (*)(const struct domain *, struct id, struct id, struct string *))(domain, one, none, name);
	CALL(&part, BEGIN_OVERLAPPED, void (*)(const struct domain *, struct id, struct id, struct string *))(domain, two, one, name);
	CALL(&part, END_OVERLAPPED, void (*)(const struct domain *, struct id))(domain, one);
	CALL(&part, END_OVERLAPPED, void (*)(const struct domain *, struct id))(domain, two);
	CALL(&part, SET_NAME, void (*)(const char *))("worker");
	CALL(&part, TASK_BEGIN_FN, void (*)(const struct domain *, struct id, struct id, void *))(domain, none, none, (void *) (uintptr_t) known_function);
	task_end(&part, domain);
	CALL(&part, TASK_BEGIN_FN, void (*)(const struct domain *, struct id, struct id, void *))(domain, none, none, (void *) 8);
	task_end(&part, NULL);
	task_begin(&part, NULL, NULL);
	task_end(&part, NULL);
}

static void test_every_function(void **state)
{
	static const struct {
		unsigned kind;
		const char *name, *domain;
	} e[] = {
		{ TRACE_RING_PUSH, "first", "early" },
		{ TRACE_RING_PUSH, "second", "later" },
		{ TRACE_RING_MARK, "second", "later" },
		{ TRACE_RING_POP, "", "later" },
		{ TRACE_RING_POP, "", "early" },
		{ TRACE_RING_START, "second", "later" },
		{ TRACE_RING_START, "second", "later" },
		{ TRACE_RING_END, "", "later" },
		{ TRACE_RING_END, "", "later" },
		{ TRACE_RING_THREAD, "worker", "" },
		{ TRACE_RING_PUSH, NULL, "later" }, /* the test and an offset */
		{ TRACE_RING_POP, "", "later" },
		{ TRACE_RING_PUSH, "", "later" },
		{ TRACE_RING_POP, "", "" },
		{ TRACE_RING_PUSH, "", "" },
		{ TRACE_RING_POP, "", "" },
	};
	struct rig_events found = { 0 };
	struct trace_slot *slot;
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, call_everything);
	slot = rig_slot(&rig, 0);
	rig_read(slot, &found);
	assert_int_equal(found.n, sizeof(e) / sizeof(e[0]));
	for (size_t i = 0; i < found.n; i++) {
		assert_int_equal(found.all[i].kind, e[i].kind);
		if (e[i].name)
			assert_string_equal(rig_text(slot, found.all[i].range.name), e[i].name);
		assert_string_equal(rig_text(slot, found.all[i].range.domain), e[i].domain);
	}
	assert_non_null(strstr(rig_text(slot, found.all[10].range.name), "test_itt+0x"));
	assert_int_equal(found.all[5].range.id, found.all[7].range.id);
	assert_int_equal(found.all[6].range.id, found.all[8].range.id);
	assert_int_not_equal(found.all[5].range.id, found.all[6].range.id);
	assert_int_equal(rig_lost(slot), 0);
	free(found.all);
	rig_close(&rig);
}

static void use_in_child(struct ring_rig *rig)
{
	struct domain *domain;
	struct string *name;
	pid_t pid;

	(void) rig;
	begin(&part);
	__itt_api_init(&part.global, -1);
	task_begin(&part, domain_create(&part, "another"), string_create(&part, "before"));
	domain = domain_create(&part, "domain");
	name = string_create(&part, "name");
	task_begin(&part, domain, name);
	pid = fork();
	if (pid == 0) {
		task_begin(&part, domain, name);
		_exit(0);
	}
	rig_wait(pid);
}

static void test_handles_outlive_a_fork(void **state)
{
	struct rig_events found = { 0 };
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, use_in_child);
	rig_read(rig_slot(&rig, 1), &found);
	assert_int_equal(found.n, 1);
	assert_string_equal(rig_text(rig_slot(&rig, 1), found.all[0].range.name), "name");
	assert_string_equal(rig_text(rig_slot(&rig, 1), found.all[0].range.domain), "domain");
	free(found.all);
	rig_close(&rig);
}

/* As without a collector. */
static void refuse(struct ring_rig *rig)
{
	(void) rig;
	begin(&part);
	__itt_api_init(&part.global, -1);
	for (unsigned i = 0; i < FUNCTIONS; i++)
		CHECK(part.pointers[i] == part.list[i].without);
}

static void test_not_followed(void **state)
{
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig.ring->layers_wanted = TRACE_KERNELS;
	rig_run(&rig, refuse);
	assert_int_equal(setenv(TRACE_ENVIRONMENT, "off", 1), 0);
	rig_run(&rig, refuse);
	assert_int_equal(unsetenv(TRACE_ENVIRONMENT), 0);
	rig_run(&rig, refuse);
	assert_int_equal(rig_slots_taken(&rig), 0);
	rig_close(&rig);
}

/* One of another layout is left as it is. */
static void foreign_parts(struct ring_rig *rig)
{
	(void) rig;
	__itt_api_init(NULL, -1);
	begin(&part);
	part.global.build = 20101001;
	__itt_api_init(&part.global, -1);
	CHECK(part.pointers[TASK_BEGIN] == &initial);
	begin(&part);
	part.global.magic[7]++;
	__itt_api_init(&part.global, -1);
	CHECK(part.pointers[TASK_BEGIN] == &initial);
	begin(&part);
	part.global.list = NULL;
	__itt_api_init(&part.global, -1);
}

static void test_static_parts_of_another_layout(void **state)
{
	struct ring_rig rig;

	(void) state;
	rig_open(&rig);
	rig_run(&rig, foreign_parts);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_function),
		cmocka_unit_test(test_handles_outlive_a_fork),
		cmocka_unit_test(test_not_followed),
		cmocka_unit_test(test_static_parts_of_another_layout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * The NVML source on a fake driver. A fake keeps one scenario until its process ends, so each test
 * runs in a child.
 */
#pragma once

#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#include "tree_helper.h"

/* enum nvml_group as bits; test_nvml_energy.c checks them. */
#define ALL_GROUPS 0x7fu
enum {
	MEMORY = 1 << 0,
	ACTIVITY = 1 << 1,
	COUNTERS = 1 << 2,
	RARE = 1 << 3,
	PROCESSES = 1 << 4,
	GPM = 1 << 5,
	EVENTS = 1 << 6
};

#define MIB (1024LL * 1024)
#define GIB (1024 * MIB)

/* The fake keeps its scenario until the process ends. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libfake-nvml\nleak:libnvidia-ml\n";
}

__attribute__((visibility("default"))) const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
	return "print_suppressions=0";
}

struct nvml_rig {
	struct temp_tree tree;
	struct root root;
	struct source_env env;
	struct source *s;
	struct framebuf out;
	struct err err;
};

/* The scenario's time. */
static inline void rig_at(struct nvml_rig *rig, double t)
{
	char text[32];

	snprintf(text, sizeof(text), "%.6f", t);
	temp_tree_put(&rig->tree, "time", text);
}

static inline void rig_env(struct nvml_rig *rig, const char *level, const char *scenario)
{
	char text[512];

	snprintf(text, sizeof(text), "%s/%s/libnvidia-ml.so.1", FAKE_DRIVERS, level);
	assert_int_equal(setenv("HIWATER_NVML", text, 1), 0);
	snprintf(text, sizeof(text), "%s/fake/scenarios/%s", TESTS_DIR, scenario);
	assert_int_equal(setenv("HIWATER_FAKE_NVML", text, 1), 0);
	snprintf(text, sizeof(text), "file:%s/time", rig->tree.path);
	assert_int_equal(setenv("HIWATER_FAKE_TIME", text, 1), 0);
	snprintf(text, sizeof(text), "%d", (int) getpid());
	assert_int_equal(setenv("HIWATER_FAKE_PID", text, 1), 0);
}

/* In the initial pid namespace. */
static inline void rig_first_pids(struct nvml_rig *rig)
{
	char path[128];

	temp_tree_put(&rig->tree, "proc/self/ns/x", "");
	snprintf(path, sizeof(path), "%s/proc/self/ns/pid", rig->tree.path);
	assert_int_equal(symlink("pid:[4026531836]", path), 0);
}

/* A machine on which this process is called "train" and belongs to user 1234. */
static inline void rig_new(struct nvml_rig *rig, const char *level, const char *scenario, double t)
{
	char file[64];

	memset(rig, 0, sizeof(*rig));
	temp_tree_new(&rig->tree);
	snprintf(file, sizeof(file), "proc/%d/status", (int) getpid());
	temp_tree_put(&rig->tree, file, "Name:\ttrain\nTgid:\t7\nPPid:\t1\nUid:\t1234\t1234\t1234\t1234\n");
	rig_first_pids(rig);
	temp_tree_put(&rig->tree, "proc/meminfo", "MemTotal:       127000000 kB\n");
	rig_env(rig, level, scenario);
	rig_at(rig, t);
}

/* A scenario written by the test itself. */
static inline void rig_scenario(struct nvml_rig *rig, const char *level, const char *text)
{
	char path[128];

	rig_new(rig, level, "", 0);
	temp_tree_put(&rig->tree, "scenario", text);
	snprintf(path, sizeof(path), "%s/scenario", rig->tree.path);
	assert_int_equal(setenv("HIWATER_FAKE_NVML", path, 1), 0);
}

static inline int rig_try(struct nvml_rig *rig)
{
	rig->root = temp_tree_root(&rig->tree);
	rig->env = (struct source_env) { .root = &rig->root };
	return source_nvml.open(&rig->env, &rig->s, &rig->err);
}

static inline void rig_open(struct nvml_rig *rig)
{
	if (rig_try(rig) < 0)
		fail_msg("%s", rig->err.text);
}

static inline void rig_read(struct nvml_rig *rig, unsigned what)
{
	framebuf_clear(&rig->out);
	assert_int_equal(source_nvml.read(rig->s, what, &rig->out), 0);
	assert_int_equal(rig->out.error, 0);
}

/* From here on the fake logs its calls. */
static inline void rig_log(struct nvml_rig *rig)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/log", rig->tree.path);
	assert_int_equal(setenv("HIWATER_FAKE_LOG", path, 1), 0);
	temp_tree_put(&rig->tree, "log", "");
}

/* The number of calls for that device ("0") whose name contains words, since the last rig_log. */
static inline int rig_calls(const struct nvml_rig *rig, const char *words, const char *device)
{
	char path[128], line[256];
	int n = 0;

	snprintf(path, sizeof(path), "%s/log", rig->tree.path);
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		const char *last = strrchr(line, ' ');

		line[strcspn(line, "\n")] = '\0';
		n += strstr(line, words) && last && strcmp(last + 1, device) == 0;
	}
	(void) fclose(f);
	return n;
}

/* Two samples of GPM are at least this far apart, by the real clock. */
static inline void rig_wait_gpm(void)
{
	const struct timespec pair = { .tv_nsec = 105000000 };

	nanosleep(&pair, NULL);
}

static inline void rig_done(struct nvml_rig *rig)
{
	source_nvml.close(rig->s);
	framebuf_done(&rig->out);
	root_done(&rig->root);
	temp_tree_done(&rig->tree);
}

static inline const struct birth *find_birth(const struct framebuf *b, enum entity entity, size_t which)
{
	for (size_t i = 0; i < b->n_births; i++) {
		if (b->births[i].entity == entity && which-- == 0)
			return &b->births[i];
	}
	return NULL;
}

/* The process with that pid on that GPU, of those born in this frame. */
static inline const struct birth *find_process(const struct framebuf *b, uint32_t gpu, int64_t pid)
{
	for (size_t i = 0; i < b->n_births; i++) {
		const struct birth *birth = &b->births[i];

		if (birth->entity == ENTITY_GPU_PROCESS && birth->gpu_process.gpu == gpu &&
			birth->gpu_process.pid.known && birth->gpu_process.pid.value == pid)
			return birth;
	}
	return NULL;
}

static inline const struct event *find_note(const struct framebuf *b, const char *about, const char *words)
{
	for (size_t i = 0; i < b->n_events; i++) {
		const char *text = b->events[i].text;

		if (b->events[i].kind == EVENT_NOTE && strncmp(text, about, strlen(about)) == 0 &&
			text[strlen(about)] == ':' && strstr(text, words))
			return &b->events[i];
	}
	return NULL;
}

static inline bool has_note(const struct framebuf *b, const char *about, const char *words)
{
	return find_note(b, about, words);
}

/* A note on why the processes on device id cannot be listed. */
static inline bool has_cause(const struct framebuf *b, const char *about, const char *words, uint32_t id)
{
	const struct event *e = find_note(b, about, words);

	return e && e->cause == CAUSE_DEVICE && e->id == id;
}

/* A note without a cause. */
static inline bool has_mere_note(const struct framebuf *b, const char *about, const char *words)
{
	const struct event *e = find_note(b, about, words);

	return e && e->cause == CAUSE_NONE;
}

/* A value with any extremes. */
static inline void check_mean(
	const struct framebuf *b, enum metric metric, uint32_t id, int64_t min, int64_t value, int64_t max)
{
	const struct reading *r = find_reading(b, metric, id);

	assert_non_null(r);
	assert_true(r->known);
	assert_int_equal(r->value, value);
	assert_int_equal(r->min, min);
	assert_int_equal(r->max, max);
}

static inline void check_absent(const struct framebuf *b, enum metric metric, uint32_t id)
{
	const struct reading *r = find_reading(b, metric, id);

	if (r && r->known)
		fail_msg("%s of %u: %lld, nothing expected", metrics[metric].name, (unsigned) id,
			(long long) r->value);
}

/* Runs body in a child, as a test of its own. Checking for leaks takes most of the time in files of
 * hundreds of tests. */
static inline void in_child(void (*body)(void **state), void *state, bool leaks)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		const struct CMUnitTest test = { "in a child", body, NULL, NULL, state };

		(void) dup2(STDERR_FILENO, STDOUT_FILENO);
		int failed = _cmocka_run_group_tests("child", &test, 1, NULL, NULL);

		if (!leaks)
			_exit(failed);
		exit(failed);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status != 0)
		fail_msg("the child ended with status %d", status);
}

/* A test that runs in a child. */
#define CHILD_TEST(name) \
	static void name##_body(void **state); \
	static void name(void **state) \
	{ \
		in_child(name##_body, *state, true); \
	} \
	static void name##_body(void **state)

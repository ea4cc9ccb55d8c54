/* SPDX-License-Identifier: MIT
 *
 * For tests of the process source: children that perform one step at a time, and checks of the
 * resulting frame. A child is killed when the test ends, in any case.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "source/source.h"

#define MIB (INT64_C(1) << 20)

/* A child and the two pipes to it. */
struct child {
	pid_t pid;
	int to, from;
};

/* In the child: sends a number to the test when a step is done, and waits for the next one. */
static inline void child_done(const struct child *c, int32_t number)
{
	if (write(c->from, &number, sizeof(number)) != sizeof(number))
		_exit(1);
}

static inline void child_wait(const struct child *c)
{
	char byte;

	if (read(c->to, &byte, 1) != 1)
		_exit(0);
}

/* Starts run(c, arg) in a child; it ends when run returns. */
static inline struct child child_start(void (*run)(const struct child *c, void *arg), void *arg)
{
	int to[2], from[2];
	struct child c;

	assert_int_equal(pipe(to), 0);
	assert_int_equal(pipe(from), 0);
	c.pid = fork();
	assert_true(c.pid >= 0);
	if (c.pid == 0) {
		(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void) close(to[1]);
		(void) close(from[0]);
		c = (struct child) { .pid = getpid(), .to = to[0], .from = from[1] };
		run(&c, arg);
		_exit(0);
	}
	(void) close(to[0]);
	(void) close(from[1]);
	c.to = to[1];
	c.from = from[0];
	return c;
}

/* In the test: the number sent by the child's step. */
static inline int32_t child_take(const struct child *c)
{
	int32_t number = -1;

	assert_int_equal(read(c->from, &number, sizeof(number)), sizeof(number));
	return number;
}

static inline void child_go(const struct child *c)
{
	assert_int_equal(write(c->to, "g", 1), 1);
}

static inline void child_close(struct child *c)
{
	(void) close(c->to);
	(void) close(c->from);
}

/* Kills and reaps it. */
static inline void child_end(struct child *c)
{
	/* First: a closed pipe would let it end by itself. */
	(void) kill(c->pid, SIGKILL);
	child_close(c);
	(void) waitpid(c->pid, NULL, 0);
}

/* Waits until pid is a zombie, without reaping it. */
static inline void zombie_wait(pid_t pid)
{
	siginfo_t info;

	assert_int_equal(waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT), 0);
}

/* After each test: kills and reaps all remaining children, orphans too if the test is their
 * subreaper. */
static inline int children_reap(void **state)
{
	(void) state;
	do {
		FILE *f = fopen("/proc/thread-self/children", "re");
		int pid;

		while (f && fscanf(f, "%d", &pid) == 1)
			(void) kill(pid, SIGKILL);
		if (f)
			(void) fclose(f);
	} while (waitpid(-1, NULL, 0) > 0);
	return 0;
}

#define CHILDREN_TEST(name) cmocka_unit_test_teardown(name, children_reap)

/* The machine, a process source on it, and its frame. */
struct bench {
	struct root root;
	struct source_env env;
	struct processes *p;
	struct framebuf out;
};

static inline void bench_start(struct bench *b, const char *root, bool ours)
{
	struct err err = { "" };

	*b = (struct bench) { 0 };
	assert_int_equal(root_open(root, &b->root, &err), 0);
	b->env = (struct source_env) {
		.root = &b->root, .start_boot_ns = clock_boot_ns(), .recorder_pid = ours ? getpid() : 0
	};
	assert_int_equal(processes_new(&b->env, ours, &b->p, &err), 0);
}

static inline void bench_end(struct bench *b)
{
	processes_free(b->p);
	framebuf_done(&b->out);
	root_done(&b->root);
}

/* ---- results ------------------------------------------------------------------------------------------------------ */

static inline const struct birth *birth_of(const struct framebuf *out, pid_t pid)
{
	const struct birth *found = NULL;

	for (size_t i = 0; i < out->n_births; i++) {
		if (out->births[i].process.pid == pid)
			found = &out->births[i];
	}
	return found;
}

static inline const struct reading *reading_in(const struct framebuf *out, enum metric metric, uint32_t id)
{
	for (size_t i = 0; i < out->n_readings; i++) {
		if (out->readings[i].metric == metric && out->readings[i].id == id)
			return &out->readings[i];
	}
	return NULL;
}

/* A value that must exist and be known. */
static inline int64_t value_in(const struct framebuf *out, enum metric metric, uint32_t id)
{
	const struct reading *r = reading_in(out, metric, id);

	assert_non_null(r);
	assert_true(r->known);
	return r->value;
}

static inline const struct end *end_of(const struct framebuf *out, uint32_t id)
{
	for (size_t i = 0; i < out->n_ends; i++) {
		if (out->ends[i].id == id)
			return &out->ends[i];
	}
	return NULL;
}

/* Children of a process that ends after them. Returns its pid. */
static inline pid_t strangers_end(int n)
{
	const pid_t parent = fork();

	if (parent == 0) {
		for (int i = 0; i < n; i++) {
			const pid_t pid = fork();

			if (pid == 0)
				_exit(0);
			(void) waitpid(pid, NULL, 0);
		}
		_exit(0);
	}
	zombie_wait(parent);
	return parent;
}

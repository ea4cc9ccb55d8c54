/* SPDX-License-Identifier: MIT
 *
 * The stack of Python functions of a running process, read from outside (process_vm_readv): CPython
 * 3.8 to 3.13. The process is not stopped and runs on meanwhile, so a stack is read twice: its frames are
 * the outer ones that both have.
 *
 * The kernel allows it where it allows ptrace: for processes of the same user, unless
 * kernel.yama.ptrace_scope forbids it. What is read is not trusted: lengths and depths have limits.
 * One thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "model/where.h"

struct python_frame {
	char *function;       /* UTF-8; qualified from 3.11 on */
	char *file;
	uint32_t line;        /* where it is; 0: unknown */
};

struct python_stack {
	struct python_frame frames[WHERE_PYTHON_DEPTH]; /* the innermost first; of more, the last is "…" */
	size_t n;
};

/* The 11 of Python 3.11, if that is the file of a program or library of a known interpreter; else 0. */
unsigned python_minor(const char *path);

struct python;

/* The interpreter of a process, whose file is loaded at base. Returns 0, or -errno: -EPERM (this process may not
 * read the other one), -ENOENT (there is no Python), -ESRCH, -ENOMEM. */
int python_open(pid_t pid, unsigned minor, uint64_t base, struct python **ret);
void python_free(struct python *p);

/* The stack of a thread, the caller's to end with python_stack_done; of thread 0, that of the main thread. Returns 0,
 * or -ESRCH: the thread runs no Python code, or what was read contradicts itself. */
int python_stack(struct python *p, pid_t thread, struct python_stack *ret);
void python_stack_done(struct python_stack *s);

/* SPDX-License-Identifier: MIT
 *
 * Processes that are no children of the program (_core.spawn, _core.reap).
 *
 * A process that clone(2) made without an exit signal is returned by wait() with __WALL only, and
 * its end sends no SIGCHLD; an exec would set the exit signal to SIGCHLD. So an intermediate process
 * that never calls exec starts the command. It shares the memory of the program, so that nothing is
 * copied and no page becomes copy-on-write. Either it ends at once, and the command is adopted by
 * init, or it stays as subreaper, where init does not reap: it reaps the command and its
 * descendants. When those have ended and core_reap() has sent SIGTERM, it ends, with the exit status
 * of the command; before, it would be a zombie. It also ends with the program, and after an exec of
 * it, since the shared memory would stay with it: a socket of which core_spawn() returns one end,
 * close-on-exec, shows the exec.
 */
#pragma once

#include <Python.h>

/* An intermediate can stay: raw system calls are written for this architecture. */
#if defined(__x86_64__) || defined(__aarch64__)
#define CORE_CAN_STAY 1
#else
#define CORE_CAN_STAY 0
#endif

PyObject *core_spawn(PyObject *module, PyObject *arguments);
PyObject *core_reap(PyObject *module, PyObject *arguments);

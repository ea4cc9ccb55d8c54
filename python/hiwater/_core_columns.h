/* SPDX-License-Identifier: MIT
 *
 * Private to _core*.c: the result of a SELECT on a recording, column by column.
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Implements columns(uri, sql) of _core.pyi. */
PyObject *core_columns(PyObject *module, PyObject *args);

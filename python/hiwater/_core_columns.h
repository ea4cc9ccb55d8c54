/* SPDX-License-Identifier: MIT
 *
 * Private to _core*.c: rows of a recording, column by column.
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* columns(uri, sql): what _core.pyi says. */
PyObject *core_columns(PyObject *module, PyObject *args);

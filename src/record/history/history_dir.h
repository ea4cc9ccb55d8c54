/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>

#include "base/err.h"

/* The path of the history's folder, which may not exist. Returns 0 or -errno with text (HOME is
 * not set). */
int history_dir(char *ret, size_t size, struct err *err);

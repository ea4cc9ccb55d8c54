/* SPDX-License-Identifier: MIT
 *
 * Texts beside each other, for doctor.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"

/* left and right beside each other, each broken into lines of width: left from column indent on, right from column at on. */
void beside_add(struct buf *out, size_t indent, const char *left, size_t at, const char *right, size_t width);

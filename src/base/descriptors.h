/* SPDX-License-Identifier: MIT
 *
 * How many files may still be opened (ulimit -n).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* May n more files be open at once? It tries, a microsecond each: what was inherited counts, wherever it lies. */
bool descriptors_are_left(size_t n);

/* Does error (-errno) say that no further file may be opened? */
bool descriptors_were_lacking(int error);

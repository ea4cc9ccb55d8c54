/* SPDX-License-Identifier: MIT
 *
 * Parsing by cursor: *p moves behind what was read and stays where it was on failure. Total on any bytes that end in
 * a NUL; no locale. Every parser that is built on these has a target in fuzz/.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Decimal digits. Returns 0, -EBADMSG if there is no digit, -ERANGE if it does not fit. */
int parse_u64(const char **p, uint64_t *ret);

/* The same with an optional minus. */
int parse_i64(const char **p, int64_t *ret);

/* Hexadecimal digits without 0x. */
int parse_hex(const char **p, uint64_t *ret);

/* A decimal fraction "12.34" as millionths; further digits are cut. */
int parse_ppm(const char **p, uint64_t *ret);

/* A number as strtod(3) has it in the C locale, whatever locale the process has: "1.5e-3", "nan", "-inf"; no blanks
 * before it. Returns 0, -EBADMSG if there is none, or -ENOMEM. */
int parse_double(const char **p, double *ret);

/* True and moved if the text at *p begins with word. */
static inline bool parse_word(const char **p, const char *word)
{
	const size_t len = strlen(word);

	if (strncmp(*p, word, len) != 0)
		return false;
	*p += len;
	return true;
}

/* Moves over blanks and tabs. */
void parse_blanks(const char **p);

/* Moves over what is neither a blank nor the end of a line; how many bytes that were. */
static inline size_t parse_field(const char **p)
{
	const char *const start = *p;

	while (**p != ' ' && **p != '\n' && **p != '\0')
		(*p)++;
	return (size_t) (*p - start);
}

/* Moves to the first byte of the next line; false (and at the NUL) if there is none. */
bool parse_line(const char **p);

/* The line that begins at *p, which moves to the next one; NULL at the end of the text. */
const char *parse_next_line(const char **p);

/* The value of "Key:   123 kB" in a file of such lines (meminfo, status), in bytes where the line ends in kB, else as
 * it stands. key is without the colon. Returns 0, -ENOENT without such a line, -EBADMSG or -ERANGE. */
int parse_key(const char *text, const char *key, uint64_t *ret);

/* The value of "key 123" in a file of such lines (memory.stat, vmstat). */
int parse_flat(const char *text, const char *key, uint64_t *ret);

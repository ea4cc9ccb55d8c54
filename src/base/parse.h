/* SPDX-License-Identifier: MIT
 *
 * Parsing with a cursor: *p advances past the parsed text and stays where it was on failure.
 * Defined for any bytes that end in a NUL; independent of the locale. Every parser built on these
 * has a target in fuzz/.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Decimal digits. Returns 0, -EBADMSG if there is no digit, -ERANGE if it does not fit. */
int parse_u64(const char **p, uint64_t *ret);

/* The same with an optional minus sign. */
int parse_i64(const char **p, int64_t *ret);

/* Hexadecimal digits without 0x. */
int parse_hex(const char **p, uint64_t *ret);

/* A decimal fraction "12.34" in millionths; further digits are truncated. */
int parse_ppm(const char **p, uint64_t *ret);

/* A number as for strtod(3) in the C locale, whatever the process's locale: "1.5e-3", "nan",
 * "-inf"; without leading blanks. Returns 0, -EBADMSG if there is none, or -ENOMEM. */
int parse_double(const char **p, double *ret);

/* True, and *p advances, if the text at *p begins with word. */
static inline bool parse_word(const char **p, const char *word)
{
	const size_t len = strlen(word);

	if (strncmp(*p, word, len) != 0)
		return false;
	*p += len;
	return true;
}

/* Does a list separated by commas, without blanks, have this entry of len bytes? An empty one never. */
bool parse_list_has(const char *list, const char *entry, size_t len);

/* Skips blanks and tabs. */
void parse_blanks(const char **p);

/* Skips bytes that are neither blank nor end of line; returns their number. */
static inline size_t parse_field(const char **p)
{
	const char *const start = *p;

	while (**p != ' ' && **p != '\n' && **p != '\0')
		(*p)++;
	return (size_t) (*p - start);
}

/* Advances to the next line; false (and at the NUL) if there is none. */
bool parse_line(const char **p);

/* The line at *p, which advances to the next one; NULL at the end of the text. */
const char *parse_next_line(const char **p);

/* The value of "Key:   123 kB" in a file of such lines (meminfo, status), in bytes if the line
 * ends in kB, else unchanged. key is without the colon. Returns 0, -ENOENT if there is no such
 * line, -EBADMSG or -ERANGE. */
int parse_key(const char *text, const char *key, uint64_t *ret);

/* The value of "key 123" in a file of such lines (memory.stat, vmstat). */
int parse_flat(const char *text, const char *key, uint64_t *ret);

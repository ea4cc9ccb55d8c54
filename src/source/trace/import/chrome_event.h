/* SPDX-License-Identifier: MIT
 *
 * One event of a Chrome trace, as the file has it: an object whose keys come in any order, twice, or not
 * at all; a number may be a string and the other way round.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json/json_read.h"

enum {
	CHROME_NAME = JSON_READ_TEXT + 1,
	CHROME_WORD = 128,
};

/* A pid or tid: a number, or a text that is none. */
struct chrome_id {
	bool is_known, is_text;
	int64_t number;
	char text[CHROME_WORD];
};

struct chrome_event {
	char ph; /* '\0': none, or longer than one character */
	bool has_ts, has_dur, is_beyond; /* a time does not fit */
	int64_t ts_ns, dur_ns;
	struct chrome_id pid, tid;
	/* args; -1: not there */
	int64_t device, context, stream, correlation, bytes, registers, shared, grid[3], block[3];
	char category[CHROME_WORD];
	char domain[CHROME_WORD]; /* args.domain, which hiwater's own export has; "": none */
	char about[CHROME_WORD]; /* args.name or args.labels, of metadata */
	bool is_name_cut;
	char name[CHROME_NAME];
};

/* Reads the rest of an object whose begin was read. Returns JSON_OBJECT_END, JSON_CUT or JSON_BROKEN: then
 * the event is not whole. */
enum json_token chrome_event_read(struct json_read *j, struct chrome_event *ret);

/* After a key: reads a number, or a string that is one. *ret stays without one. Returns the value's last
 * token. */
enum json_token chrome_number_read(struct json_read *j, unsigned digits, int64_t *ret);
/* The same of a text of any kind, shortened to size. */
enum json_token chrome_text_read(struct json_read *j, char *ret, size_t size);

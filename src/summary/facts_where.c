/* SPDX-License-Identifier: MIT
 *
 * The facts of a sampled run: the functions that touched most of its memory first, and what is of none.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "summary/facts.h"

static const unsigned shown_part = 10; /* what is of no function is shown from a tenth of the peak on */

enum {
	SHOWN_THEN = 3,
};

/* Takes the text, which the list frees. */
static int add_fact(struct fact_list *list, struct fact fact, char *text)
{
	struct fact *facts = reallocarray(list->facts, list->n + 1, sizeof(*facts));

	if (!facts) {
		free(text);
		return -ENOMEM;
	}
	list->facts = facts;
	fact.text = text;
	fact.is_untrusted = text != NULL;
	facts[list->n++] = fact;
	return 0;
}

static int add(struct fact_list *list, enum fact_unit unit, struct maybe value, char *text)
{
	const struct fact fact = {
		.group = FACTS_WHERE,
		.key = FACT_WHERE,
		.label = "",
		.title = "memory touched first",
		.unit = unit,
		.value = value,
	};

	return add_fact(list, fact, text);
}

/* "300 MiB by ones (50 %)" */
static int add_bytes(
	struct fact_list *list, const struct touched *w, uint64_t bytes, const char *by, const char *what)
{
	char percent[UNITS_LEN];
	char *text;

	(void) units_percent((int64_t) bytes, (int64_t) w->peak_bytes, percent);
	if (asprintf(&text, " %s%s%s%s%s", by, what, *percent ? " (" : "", percent, *percent ? ")" : "") < 0)
		return -ENOMEM;
	return add(list, FACT_BYTES, known((int64_t) bytes), text);
}

static int add_lost(struct fact_list *list, const struct touched *w)
{
	char *text;

	if (w->n_lost == 0)
		return 0;
	if (asprintf(&text, "%llu record%s lost", (unsigned long long) w->n_lost, w->n_lost == 1 ? "" : "s") < 0)
		return -ENOMEM;
	return add(list, FACT_WORDS, UNKNOWN, text);
}

int facts_where(const struct touched *w, struct fact_list *list)
{
	const struct {
		const char *text;
		uint64_t bytes;
	} rest[] = { { "by the kernel, or moved by mremap", w->unsampled_bytes },
		{ "of mapped files", w->files_bytes },
		{ "before hiwater came", w->before_bytes } };
	int r = 0;

	for (size_t i = 0; i < w->n && r == 0; i++)
		r = add_bytes(list, w, w->list[i].bytes, "by ", w->list[i].name);
	for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]) && r == 0; i++) {
		if (rest[i].bytes > 0 && rest[i].bytes >= w->peak_bytes / shown_part)
			r = add_bytes(list, w, rest[i].bytes, "", rest[i].text);
	}
	return r == 0 ? add_lost(list, w) : r;
}

int facts_where_then(const struct touched *w, struct fact_list *list)
{
	struct fact at = {
		.group = FACTS_INCIDENT,
		.key = FACT_INCIDENT,
		.label = "at",
		.title = "time of this figure",
		.unit = FACT_NS,
		.value = known((int64_t) w->at_ns),
	};
	int r = 0;

	for (size_t i = 0; i < w->n && i < SHOWN_THEN && r == 0; i++) {
		const struct fact fact = {
			.group = FACTS_INCIDENT,
			.key = FACT_INCIDENT,
			.label = i == 0 ? "touched first: " : "",
			.title = "RAM touched first",
			.unit = FACT_BYTES,
			.value = known((int64_t) w->list[i].bytes),
			.begins_line = i == 0,
		};
		char *text;

		r = asprintf(&text, " by %s", w->list[i].name) < 0 ? -ENOMEM : add_fact(list, fact, text);
	}
	return r == 0 && w->n > 0 ? add_fact(list, at, NULL) : r;
}

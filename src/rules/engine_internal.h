/* SPDX-License-Identifier: MIT
 *
 * Private to the engine: its state, and the context of the evaluation of a rule.
 */
#pragma once

#include "rules/cells.h"

enum {
	ALERTS_WAITING = 128
};

/* State of a rule for one subject. */
struct state {
	bool is_holding, raised, is_quiet; /* is_quiet: raised, but does not hold now */
	uint64_t since_ns, quiet_ns;
};

struct watched {
	struct rule rule;
	uint16_t slots[RULE_TERMS];
	struct state *states;              /* one per place of its subject */
	size_t cap;
	uint64_t quiet_ns;                 /* time for which it must not hold before it is cleared */
	uint64_t next_ns;                  /* time of the next evaluation without new values */
	struct watch_history history;
	struct counts ended;                /* of a rule of check: subjects that have ended */
};

struct watch {
	const struct facts *facts;
	struct cells cells;
	unsigned entities;                 /* kinds of entities in rules: bit n is entity n */
	struct watched rules[WATCH_RULES];
	size_t n;
	bool begun, ended;                 /* ended: main's exit status was evaluated */
	uint64_t exit_rules;               /* rules that use it */
	uint64_t first_ns, now_ns;
	int memory_raised;
	bool has_top_users;
	size_t top_users;                    /* slot of processes' GPU memory */
	struct alert waiting[ALERTS_WAITING]; /* a ring */
	size_t first_waiting, n_waiting;
	uint64_t lost;
};

/* Evaluation of a rule for one subject. */
struct judging {
	struct watch *w;
	struct watched *watched;
	size_t number;
	enum entity subject;
	size_t place, value_place; /* of the subject, of the current term's entity */
	/* next: the earliest time at which the result may change without a new value */
	uint64_t now, next;
	uint64_t span;                     /* time that the values cover: of a window from a recording */
};

/* A rule_lookup; ctx is a struct judging. */
void judging_lookup(void *ctx, const struct rule *rule, size_t number, struct rule_value *ret);
/* Adds the subject to the counts by the rule's result. */
void counts_add(struct judging *j, struct counts *counts);
/* Writes the subject as texts begin with it: "gpu 0: "; "" for the job. */
void alert_subject(const struct judging *j, char *buf, size_t size);
/* Appends an alert to the queue. seen NULL: the subject has ended. */
void alert_append(struct judging *j, bool raised, const struct rule_seen *seen);

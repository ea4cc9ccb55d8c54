/* SPDX-License-Identifier: MIT
 *
 * Private to the engine: its state, and what is at hand while a rule is judged.
 */
#pragma once

#include "rules/cells.h"

enum {
	ALERTS_WAITING = 128
};

/* Of a rule and one whom it is judged for. */
struct state {
	bool is_holding, raised, is_quiet; /* is_quiet: raised, but it does not hold */
	uint64_t since_ns, quiet_ns;
};

struct watched {
	struct rule rule;
	uint16_t slots[RULE_TERMS];
	struct state *states;              /* one a place of its subject */
	size_t cap;
	uint64_t quiet_ns;                 /* it must not hold for so long before it is cleared */
	uint64_t next_ns;                  /* when it must be judged though nothing new came */
	struct watch_story story;
	struct tally ended;                /* of a rule to check: those who are no more */
};

struct watch {
	const struct facts *facts;
	struct cells cells;
	unsigned entities;                 /* whom the rules look at: bit n is entity n */
	struct watched rules[WATCH_RULES];
	size_t n;
	bool begun, ended;                 /* ended: main's exit status was judged */
	uint64_t exit_rules;               /* who looks at that */
	uint64_t first_ns, now_ns;
	int memory_raised;
	bool has_holders;
	size_t holders;                    /* the slot of what processes hold on GPUs */
	struct alert waiting[ALERTS_WAITING]; /* a ring */
	size_t first_waiting, n_waiting;
	uint64_t lost;
};

/* A rule is judged for somebody. */
struct judging {
	struct watch *w;
	struct watched *watched;
	size_t number;
	enum entity subject;
	size_t place, looked_at;
	uint64_t now, next;                /* next: the earliest time at which something changes by itself */
	uint64_t span;                     /* that the values stand for: from a recording, a window's */
};

/* A rule_look; ctx is a judging. */
void judging_look(void *ctx, const struct rule *rule, size_t number, struct rule_value *ret);
/* One more for whom the rule holds or does not. */
void tally_count(struct judging *j, struct tally *tally);
/* Whom it is judged for, as texts begin: "gpu 0: ". */
void alert_who(const struct judging *j, char *buf, size_t size);
/* Puts what is to tell into the queue. seen NULL: whom it was about has ended. */
void alert_tell(struct judging *j, bool raised, const struct rule_seen *seen);

/* SPDX-License-Identifier: MIT
 *
 * Alerts of the engine: their texts, and the queue of alerts that were not fetched yet.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "rules/engine.h"
#include "rules/engine_internal.h"

bool watch_next(struct watch *w, struct alert *ret)
{
	if (w->n_waiting == 0)
		return false;
	*ret = w->waiting[w->first_waiting];
	w->first_waiting = (w->first_waiting + 1) % ALERTS_WAITING;
	w->n_waiting--;
	return true;
}

uint64_t watch_lost(const struct watch *w)
{
	return w->lost;
}

bool watch_stands(const struct watch *w, size_t number, uint32_t id)
{
	const struct watched *r = &w->rules[number];
	const struct crowd *crowd = &w->cells.crowds[r->rule.subject];
	bool stands = false;

	for (size_t i = 0; !stands && i < crowd->n; i++) {
		const bool is_it = crowd->places[i].id && (id == 0 || crowd->places[i].id == id);

		stands = is_it && r->states[i].raised && r->states[i].is_holding;
	}
	return stands;
}

/* Names of processes are any bytes: replaces control characters, which a terminal would obey. */
static void printable(char *text)
{
	for (; *text; text++) {
		if ((unsigned char) *text < ' ' || *text == 0x7f)
			*text = '?';
	}
}

/* "python (4711): ", "gpu 0: ". */
static void subject_text(const struct place *p, enum entity entity, char *buf, size_t size)
{
	buf[0] = '\0';
	if (entity == ENTITY_PROCESS || entity == ENTITY_GPU_PROCESS)
		(void) snprintf(buf, size, "%s (%d): ", p->name[0] ? p->name : "?", (int) p->pid);
	else if (entity == ENTITY_GPU && p->has_index)
		(void) snprintf(buf, size, "gpu %u: ", (unsigned) p->index);
	else if (entity == ENTITY_GPU)
		(void) snprintf(buf, size, "%s: ", p->name);
}

void alert_subject(const struct judging *j, char *buf, size_t size)
{
	subject_text(&j->w->cells.crowds[j->subject].places[j->place], j->subject, buf, size);
	printable(buf);
}

/* "23.1 GiB of 25.0 GiB"; with more than one term preceded by the name. */
static void seen_text(const struct rule *rule, const struct rule_seen *seen, char *buf, size_t size)
{
	const struct rule_term *t = seen->term;
	char name[RULE_NAME], value[RULE_VALUE_TEXT], whole[RULE_VALUE_TEXT];
	const bool several = rule->n_terms > 1;

	if (!t) {
		(void) snprintf(buf, size, "absent");
		return;
	}
	(void) rule_value_text(t, &seen->value, value);
	(void) snprintf(buf, size, "%s%s%s", several ? rule_name_text(&t->name, name) : "",
		several ? " " : "", value);
	if (t->whole == WHOLE_NONE || !seen->value.whole_known)
		return;
	const struct rule_value of = { .known = true, .value = seen->value.whole };
	const size_t len = strlen(buf);
	struct rule_term amount = *t;

	if (t->whole == WHOLE_MEDIAN) {
		(void) snprintf(
			buf + len, size - len, ", the median is %s", rule_value_text(&amount, &of, whole));
		return;
	}
	amount.test = TEST_COMPARE;
	(void) snprintf(buf + len, size - len, " of %s", rule_value_text(&amount, &of, whole));
}

static void fill(struct alert *a, struct judging *j, bool raised, const struct rule_seen *seen)
{
	const struct rule *rule = &j->watched->rule;
	const struct place *p = &j->w->cells.crowds[j->subject].places[j->place];
	char subject[ALERT_SUBJECT], what[sizeof(a->what) - sizeof(subject)];

	*a = (struct alert) {
		.rule = j->number,
		.raised = raised,
		.level = rule->level,
		.entity = j->subject,
		.id = j->subject == ENTITY_JOB ? 0 : p->id,
		.pid = p->pid,
		.time_ns = j->now,
		.number = seen ? rule_number(seen->term, &seen->value) : (double) NAN,
	};
	alert_subject(j, subject, sizeof(subject));
	if (seen)
		seen_text(rule, seen, what, sizeof(what));
	else
		(void) snprintf(what, sizeof(what), "it has ended");
	if (seen && seen->term)
		(void) rule_value_text(seen->term, &seen->value, a->value);
	(void) snprintf(a->what, sizeof(a->what), "%s%s", subject, what);
	printable(a->what);
	(void) snprintf(a->text, sizeof(a->text), "%s: %s", rule->text, a->what);
	printable(a->text);
	printable(a->value);
}

static void count_raised(struct watch_history *history, const struct alert *a)
{
	if (!a->raised)
		return;
	if (history->raised++ == 0) {
		history->first_ns = a->time_ns;
		history->number = a->number;
		(void) snprintf(history->first, sizeof(history->first), "%s", a->what);
	}
}

void alert_append(struct judging *j, bool raised, const struct rule_seen *seen)
{
	struct watch *w = j->w;
	struct alert dropped;
	const bool is_full = w->n_waiting == ALERTS_WAITING;
	struct alert *a = is_full ? &dropped
				  : &w->waiting[(w->first_waiting + w->n_waiting) % ALERTS_WAITING];

	fill(a, j, raised, seen);
	count_raised(&j->watched->history, a);
	if (is_full)
		w->lost++;
	else
		w->n_waiting++;
}

/* ---- the largest user of a GPU's memory, for limits on it ---------------------------------------------------------- */

int watch_keep_top_users(struct watch *w)
{
	const struct rule_term used = { .name = { .what = RULE_METRIC,
						.entity = ENTITY_GPU_PROCESS,
						.metric = M_GPROC_MEM,
						.also = -1 } };

	w->entities |= 1U << ENTITY_GPU_PROCESS | 1U << ENTITY_GPU;
	w->top_users = cells_slot(&w->cells, &used);
	w->has_top_users = true;
	return 0;
}

int32_t watch_top_user(const struct watch *w, uint32_t gpu)
{
	const struct crowd *crowd = &w->cells.crowds[ENTITY_GPU_PROCESS];
	double most = 0;
	int32_t pid = 0;

	for (size_t i = 0; w->has_top_users && i < crowd->n; i++) {
		const struct place *p = &crowd->places[i];
		const struct cell *cell = &w->cells.slots[w->top_users].cells[i];

		if (!p->id || p->gpu != gpu || !p->ours || p->pid == 0 || !cell->known || cell->value <= most)
			continue;
		most = cell->value;
		pid = p->pid;
	}
	return pid;
}

int32_t watch_top_user_of_index(const struct watch *w, uint32_t index)
{
	const int place = cells_gpu(&w->cells, index);

	return place < 0 ? 0 : watch_top_user(w, w->cells.crowds[ENTITY_GPU].places[place].id);
}

/* ---- the preset of common alerts ----------------------------------------------------------------------------------- */

const char *const default_alerts[] = {
	"ram > 90%",
	"gpu.mem > 95%",
	"gpu.job_mem > 0B and gpu.busy < 5% for 10m",
	"gpu.throttle_thermal > 5% for 1m",
	"host.disk_free < 1GiB",
	"host.shm > 80%",
	"no step for 5x median and no step for 1m",
	"error: loss is nan or loss is inf",
	"error: exit != 0",
	NULL,
};

bool is_default_alerts(const char *text)
{
	return strcmp(text, "default") == 0 || strcmp(text, "usual") == 0; /* usual: its former name */
}

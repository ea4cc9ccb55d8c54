/* SPDX-License-Identifier: MIT */
#include "job/parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

const struct part_field part_fields[] = {
#define P_INT(name)             { #name, false, offsetof(struct part, name) },
#define P_TEXT(name)            { #name, true, offsetof(struct part, name) },
#define P(kind, name, sentence) P_##kind(name)
#include "job/part.def"
#undef P
};
const size_t part_field_count = sizeof(part_fields) / sizeof(part_fields[0]);

const struct part_field part_node_fields[] = {
#define N_INT(name)             { #name, false, offsetof(struct part_node, name) },
#define N_TEXT(name)            { #name, true, offsetof(struct part_node, name) },
#define N(kind, name, sentence) N_##kind(name)
#include "job/part_node.def"
#undef N
};
const size_t part_node_field_count = sizeof(part_node_fields) / sizeof(part_node_fields[0]);

static void free_texts(void *at, const struct part_field *fields, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (fields[i].is_text)
			free(*(char **) (void *) ((char *) at + fields[i].offset));
	}
}

void part_done(struct part *p)
{
	free_texts(p, part_fields, part_field_count);
	*p = (struct part) { 0 };
}

void part_node_done(struct part_node *n)
{
	free_texts(n, part_node_fields, part_node_field_count);
	*n = (struct part_node) { 0 };
}

struct parts *parts_new(void)
{
	return calloc(1, sizeof(struct parts));
}

void parts_free(struct parts *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n; i++)
		part_done(&p->part[i]);
	for (size_t i = 0; i < p->n_nodes; i++)
		part_node_done(&p->node[i]);
	for (size_t i = 0; i < p->n_problems; i++) {
		free(p->problem[i].file);
		free(p->problem[i].why);
	}
	free(p->part);
	free(p->node);
	free(p->problem);
	free(p->gpu);
	free(p->rank_ram);
	free(p);
}

int parts_add(struct parts *p, struct part *part)
{
	if (vec_reserve(&p->part, &p->cap, p->n, sizeof(*part), PARTS_MOST) < 0) {
		part_done(part);
		return -ENOMEM;
	}
	p->part[p->n++] = *part;
	*part = (struct part) { 0 };
	return 0;
}

int parts_add_node(struct parts *p, struct part_node *node)
{
	if (vec_reserve(&p->node, &p->cap_nodes, p->n_nodes, sizeof(*node), PARTS_MOST) < 0) {
		part_node_done(node);
		return -ENOMEM;
	}
	p->node[p->n_nodes++] = *node;
	*node = (struct part_node) { 0 };
	return 0;
}

int parts_add_problem(struct parts *p, const char *file, const char *why)
{
	struct part_problem problem;

	for (size_t i = 0; i < p->n_problems; i++) {
		if (strcmp(p->problem[i].file, file) == 0 && strcmp(p->problem[i].why, why) == 0)
			return 0;
	}
	if (vec_reserve(&p->problem, &p->cap_problems, p->n_problems, sizeof(problem), PARTS_MOST) < 0)
		return -ENOMEM;
	problem = (struct part_problem) { strdup(file), strdup(why) };
	if (!problem.file || !problem.why) {
		free(problem.file);
		free(problem.why);
		return -ENOMEM;
	}
	p->problem[p->n_problems++] = problem;
	return 0;
}

static int by_file(const void *a, const void *b)
{
	const struct part_problem *x = a, *y = b;

	return strcmp(x->file, y->file);
}

void parts_sort_problems(struct parts *p)
{
	if (p->n_problems > 0)
		qsort(p->problem, p->n_problems, sizeof(p->problem[0]), by_file);
}

int parts_add_gpu(struct parts *p, uint32_t gpu, uint32_t node)
{
	/* Another recording of its node may have it, too: a recorder that ended was followed by another. */
	for (size_t i = p->n_gpus; i-- > 0;) {
		if (p->gpu[i].gpu == gpu && p->gpu[i].node == node)
			return 0;
	}
	if (vec_reserve(&p->gpu, &p->cap_gpus, p->n_gpus, sizeof(p->gpu[0]), PARTS_MOST) < 0)
		return -ENOMEM;
	p->gpu[p->n_gpus++] = (struct part_gpu) { gpu, node };
	return 0;
}

int part_set_text(char **field, const char *text)
{
	char *copy = text && *text ? strdup(text) : NULL;

	if (text && *text && !copy)
		return -ENOMEM;
	free(*field);
	*field = copy;
	return 0;
}

static bool ends_in(const char *name, const char *end)
{
	const size_t n = strlen(name), len = strlen(end);

	return n >= len && strcmp(name + n - len, end) == 0;
}

static int64_t most_of_field(const char *name)
{
	if (ends_in(name, "_wall_ns") || ends_in(name, "_boot_ns"))
		return INT64_C(4000000000000000000);
	if (ends_in(name, "_ns"))
		return INT64_C(1) << 56; /* two years */
	if (ends_in(name, "rank") || ends_in(name, "ranks") || ends_in(name, "nodes"))
		return PARTS_MOST;
	return ends_in(name, "_bytes") ? INT64_C(1) << 50 : INT64_C(1) << 40;
}

static void limit(void *at, const struct part_field *fields, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct maybe *value = (void *) ((char *) at + fields[i].offset);
		const bool may_be_negative = strcmp(fields[i].name, "clock_ahead_ns") == 0;
		const int64_t most = most_of_field(fields[i].name);

		if (!fields[i].is_text && value->known &&
			(value->value > most || value->value < (may_be_negative ? -most : 0)))
			*value = UNKNOWN;
	}
}

void part_limit(struct part *p)
{
	limit(p, part_fields, part_field_count);
}

void part_node_limit(struct part_node *n)
{
	limit(n, part_node_fields, part_node_field_count);
}

static void rename_node(char **name, size_t number)
{
	char text[32];

	(void) snprintf(text, sizeof(text), "node %zu", number);
	(void) part_set_text(name, text);
}

/* Nodes keep their order, so that "node 2" is the same everywhere. */
void parts_redact(struct parts *p)
{
	for (size_t i = 0; i < p->n; i++) {
		rename_node(&p->part[i].node, parts_node_of(p, p->part[i].node) + 1);
		(void) part_set_text(&p->part[i].file, NULL);
		(void) part_set_text(&p->part[i].command, NULL);
		(void) part_set_text(&p->part[i].user, NULL);
	}
	for (size_t i = 0; i < p->n_nodes; i++)
		rename_node(&p->node[i].name, i + 1);
	for (size_t i = 0; i < p->n_problems; i++) {
		p->problem[i].file[0] = '\0';
		p->problem[i].why[0] = '\0';
	}
}

bool part_is(const struct part *part, const char *kind)
{
	return part->kind && strcmp(part->kind, kind) == 0;
}

bool part_is_rank(const struct part *part)
{
	return part->counts.value == 1 && (part_is(part, "rank") || part_is(part, "worker"));
}

bool part_is_own(const struct part *part)
{
	return part->counts.value == 1 && !part_is(part, "node") && !part_is(part, "worker");
}

size_t parts_node_of(const struct parts *p, const char *name)
{
	size_t i = 0;

	while (i < p->n_nodes && strcmp(p->node[i].name ? p->node[i].name : "", name ? name : "") != 0)
		i++;
	return i;
}

/* ---- ranks and nodes ------------------------------------------------------------------------- */

int64_t parts_ranks(const struct parts *p)
{
	int64_t most = 0;

	for (size_t i = 0; i < p->n; i++) {
		const struct part *part = &p->part[i];

		if (part->counts.value != 1)
			continue;
		if (part->ranks.known && part->ranks.value <= PARTS_MOST)
			most = larger(most, part->ranks.value);
		if (part_is_rank(part) && part->rank.known && part->rank.value < PARTS_MOST)
			most = larger(most, part->rank.value + 1);
	}
	return most;
}

/* Only where at least one part is that of a rank: agents of launchers know none. */
size_t parts_missing(const struct parts *p, int64_t *ret, size_t most)
{
	const int64_t n = parts_ranks(p);
	bool *found = n > 0 ? calloc((size_t) n, sizeof(*found)) : NULL, any = false;
	size_t missing = 0;

	for (size_t i = 0; found && i < p->n; i++) {
		const struct part *part = &p->part[i];

		if (part_is_rank(part) && part->rank.known && part->rank.value >= 0 && part->rank.value < n)
			found[part->rank.value] = any = true;
	}
	for (int64_t rank = 0; any && rank < n; rank++) {
		if (found[rank])
			continue;
		if (missing < most)
			ret[missing] = rank;
		missing++;
	}
	free(found);
	return missing;
}

size_t parts_missing_nodes(const struct parts *p)
{
	int64_t nodes = 0;

	for (size_t i = 0; i < p->n; i++) {
		if (p->part[i].counts.value == 1 && p->part[i].nodes.known)
			nodes = larger(nodes, p->part[i].nodes.value);
	}
	return nodes > (int64_t) p->n_nodes ? (size_t) (nodes - (int64_t) p->n_nodes) : 0;
}

int64_t part_end_ns(const struct part *part)
{
	return part->start_ns.value + part->wall_ns.value;
}

bool part_is_cut_off(const struct part *part)
{
	return part->counts.value == 1 && part->complete.value != 1 && part->running.value != 1;
}

bool parts_are_running(const struct parts *p)
{
	for (size_t i = 0; i < p->n; i++) {
		if (p->part[i].running.value == 1)
			return true;
	}
	return false;
}

/* A node's union that was cut off and taken over by another recorder lacks nothing but a moment. */
bool parts_lack(const struct parts *p)
{
	if (parts_missing(p, NULL, 0) > 0 || parts_missing_nodes(p) > 0)
		return true;
	for (size_t i = 0; i < p->n; i++) {
		if (!part_is(&p->part[i], "node") && part_is_cut_off(&p->part[i]))
			return true;
	}
	return false;
}

bool parts_are_complete(const struct parts *p)
{
	return p->n_problems == 0 && !parts_lack(p) && !parts_are_running(p);
}

int64_t parts_stagger_ns(const struct parts *p)
{
	int64_t first = INT64_MAX, last = 0;

	for (size_t i = 0; i < p->n; i++) {
		if (p->part[i].counts.value != 1 || part_is(&p->part[i], "node"))
			continue;
		first = smaller(first, p->part[i].start_ns.value);
		last = larger(last, p->part[i].start_ns.value);
	}
	return last > first ? last - first : 0;
}

/* SPDX-License-Identifier: MIT
 *
 * What the parts of a job say of it: which ranks and nodes are missing, which were cut off, whether all is there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "job/parts.h"

static void add(struct parts *p, const char *kind, const char *node, int64_t rank, bool complete)
{
	struct part part = {
		.counts = known(1),
		.rank = rank < 0 ? UNKNOWN : known(rank),
		.ranks = known(4),
		.nodes = known(2),
		.start_ns = known(rank * 1000),
		.wall_ns = known(5000),
		.complete = known(complete),
		.running = known(0),
	};

	assert_int_equal(part_set_text(&part.kind, kind), 0);
	assert_int_equal(part_set_text(&part.node, node), 0);
	assert_int_equal(parts_add(p, &part), 0);
}

static void add_node(struct parts *p, const char *name)
{
	struct part_node node = { 0 };

	assert_int_equal(part_set_text(&node.name, name), 0);
	assert_int_equal(parts_add_node(p, &node), 0);
}

static struct parts *whole(void)
{
	struct parts *p = parts_new();

	assert_non_null(p);
	for (int64_t rank = 0; rank < 4; rank++)
		add(p, "rank", rank < 2 ? "n1" : "n2", rank, true);
	add_node(p, "n1");
	add_node(p, "n2");
	return p;
}

static void a_whole_job_is_complete(void **state)
{
	struct parts *p = whole();

	(void) state;
	assert_int_equal(parts_ranks(p), 4);
	assert_int_equal(parts_missing(p, NULL, 0), 0);
	assert_int_equal(parts_missing_nodes(p), 0);
	assert_int_equal(parts_stagger_ns(p), 3000);
	assert_true(parts_are_complete(p));
	assert_int_equal(parts_node_of(p, "n2"), 1);
	assert_int_equal(parts_node_of(p, "n3"), 2);
	parts_free(p);
}

static void what_is_missing_is_listed(void **state)
{
	struct parts *p = parts_new();
	int64_t missing[1];

	(void) state;
	add(p, "rank", "n1", 1, true);
	add_node(p, "n1");
	assert_int_equal(parts_missing(p, missing, 1), 3);
	assert_int_equal(missing[0], 0);
	assert_int_equal(parts_missing_nodes(p), 1);
	assert_false(parts_are_complete(p));
	parts_free(p);
}

static void a_rank_that_was_cut_off_is_not_complete(void **state)
{
	struct parts *p = whole();

	(void) state;
	p->part[2].complete = known(0);
	assert_true(part_is_cut_off(&p->part[2]));
	assert_false(parts_are_complete(p));
	p->part[2].running = known(1);
	assert_false(part_is_cut_off(&p->part[2]));
	assert_true(parts_are_running(p));
	parts_free(p);
}

/* Another recorder took over. */
static void a_union_that_was_cut_off_lacks_nothing(void **state)
{
	struct parts *p = whole();

	(void) state;
	add(p, "node", "n1", -1, false);
	assert_true(part_is_cut_off(&p->part[4]));
	assert_true(parts_are_complete(p));
	parts_free(p);
}

/* An agent of a launcher knows how many there are, but is none of them. */
static void a_tree_is_no_rank(void **state)
{
	struct parts *p = parts_new();

	(void) state;
	add(p, "tree", "n1", -1, true);
	add(p, "tree", "n2", -1, true);
	add_node(p, "n1");
	add_node(p, "n2");
	assert_int_equal(parts_missing(p, NULL, 0), 0);
	assert_true(parts_are_complete(p));
	parts_free(p);
}

static void redacted_names_of_nodes_agree(void **state)
{
	struct parts *p = whole();

	(void) state;
	assert_int_equal(parts_add_problem(p, "alice.hiw", "alice: it is empty"), 0);
	parts_redact(p);
	assert_string_equal(p->node[1].name, "node 2");
	assert_string_equal(p->part[3].node, "node 2");
	assert_string_equal(p->problem[0].file, "");
	assert_string_equal(p->problem[0].why, "");
	parts_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_job_is_complete),
		cmocka_unit_test(what_is_missing_is_listed),
		cmocka_unit_test(a_rank_that_was_cut_off_is_not_complete),
		cmocka_unit_test(a_union_that_was_cut_off_lacks_nothing),
		cmocka_unit_test(a_tree_is_no_rank),
		cmocka_unit_test(redacted_names_of_nodes_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>

#include "model/trace.h"
#include "model/trace_ring.h"

static void test_lists_of_layers(void **state)
{
	static const char *const wrong[] = { "range", "ranges,", ",ranges", "ranges,,memory", "ranges memory", "all", "," };
	unsigned layers = 99;

	(void) state;
	assert_int_equal(trace_layers_parse("", &layers), 0);
	assert_int_equal(layers, TRACE_ALL);
	assert_int_equal(trace_layers_parse("ranges,memory,launches,kernels", &layers), 0);
	assert_int_equal(layers, TRACE_ALL);
	assert_int_equal(trace_layers_parse("memory,ranges", &layers), 0);
	assert_int_equal(layers, TRACE_RANGES | TRACE_MEMORY);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(trace_layers_parse(wrong[i], &layers), -EINVAL);
	assert_int_equal(layers, TRACE_RANGES | TRACE_MEMORY);
}

static void test_names_there_and_back(void **state)
{
	(void) state;
	for (int i = 0; i < TRACE_KIND_COUNT; i++)
		assert_int_equal(trace_kind_find(trace_kind_name((enum trace_kind) i)), i);
	for (int i = 0; i < TRACE_MEMORY_COUNT; i++)
		assert_int_equal(trace_memory_find(trace_memory_name((enum trace_memory) i)), i);
	for (int i = 0; i < TRACE_LOSS_COUNT; i++)
		assert_int_equal(trace_loss_find(trace_loss_name((enum trace_loss) i)), i);
	assert_int_equal(trace_kind_find("kernels"), -1);
	assert_string_equal(trace_layer_name(TRACE_LAUNCHES), "launches");
	assert_null(trace_layer_name(TRACE_ALL));
}

/* The layout is shared by programs that are built apart. */
static void test_the_layout_of_the_ring(void **state)
{
	(void) state;
	assert_int_equal(sizeof(struct trace_ring_head), 16);
	assert_int_equal(sizeof(struct trace_ring_head) + sizeof(struct trace_ring_range), trace_ring_bytes(TRACE_RING_PUSH));
	assert_int_equal(sizeof(struct trace_ring_head) + sizeof(struct trace_ring_call), trace_ring_bytes(TRACE_RING_LEAVE));
	assert_int_equal(sizeof(struct trace_ring_head) + sizeof(struct trace_ring_memory), trace_ring_bytes(TRACE_RING_MEMORY));
	assert_int_equal(sizeof(struct trace_ring_head) + sizeof(struct trace_ring_work), trace_ring_bytes(TRACE_RING_WORK));
	assert_int_equal(TRACE_CHUNKS_AT + TRACE_CHUNKS * TRACE_CHUNK_BYTES, TRACE_SLOT_BYTES);
	assert_int_not_equal(TRACE_SEQ(1, TRACE_CHUNK_BYTES / TRACE_UNIT_BYTES - 1), TRACE_SEQ(2, 0));
	assert_int_equal(trace_ring_bytes(TRACE_RING_NONE), 0);
	assert_int_equal(trace_ring_bytes(TRACE_RING_KIND_COUNT), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists_of_layers),
		cmocka_unit_test(test_names_there_and_back),
		cmocka_unit_test(test_the_layout_of_the_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

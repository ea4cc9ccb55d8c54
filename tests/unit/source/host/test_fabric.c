/* SPDX-License-Identifier: MIT
 *
 * Ports of InfiniBand, RoCE and Slingshot, from trees made by the kernel's documents (tests/trees/fabric-*), and counters that wrap,
 * stop and go back.
 */
#include "tree_helper.h"

#include <unistd.h>

#include "source/host/fabric.h"

#define PORT "sys/class/infiniband/mlx4_0/ports/1/"

static struct source *open_fabric(const struct root *root)
{
	const struct source_env env = { .root = root };
	struct source *s = NULL;

	assert_int_equal(source_fabric.open(&env, &s, NULL), 0);
	return s;
}

static void only_active_ports_count(void **state)
{
	static const struct {
		const char *tree, *ports;
		int64_t bits;
	} trees[] = {
		{ "fabric-infiniband", "mlx5_0/1 100 Gb/s, mlx5_1/1 25 Gb/s", INT64_C(125000000000) },
		{ "fabric-slingshot", "hsn0 200 Gb/s, hsn1 200 Gb/s", INT64_C(400000000000) },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(trees) / sizeof(trees[0]); i++) {
		struct root root = tree_open(trees[i].tree);
		struct maybe bits;
		char names[128];

		fabric_links(&root, &bits, names, sizeof(names));
		assert_string_equal(names, trees[i].ports);
		assert_int_equal(bits.value, trees[i].bits);
		root_done(&root);
	}
}

static void a_machine_without_a_port_costs_nothing(void **state)
{
	struct root root = tree_open("cgroup-v2");
	const struct source_env env = { .root = &root };
	struct source *s = NULL;
	struct maybe bits;
	char names[128];

	(void) state;
	assert_int_equal(source_fabric.open(&env, &s, NULL), -ENOENT);
	assert_null(s);
	fabric_links(&root, &bits, names, sizeof(names));
	assert_false(bits.known);
	assert_string_equal(names, "");
	root_done(&root);
}

static void every_metric_is_probed(void **state)
{
	static const char *const trees[] = { "fabric-infiniband", "fabric-slingshot", "cgroup-v2" };

	(void) state;
	for (size_t i = 0; i < 3; i++) {
		struct root root = tree_open(trees[i]);
		const struct source_env env = { .root = &root };
		struct probes probes = { 0 };

		source_fabric.probe(&env, probes_take, &probes);
		for (int m = M_HOST_FABRIC_RX; m < M_HOST_FABRIC_BUSIEST; m++) {
			assert_int_equal(probes.of[m].available, i < 2);
			assert_true((*probes.of[m].why_not != '\0') == (i == 2));
		}
		root_done(&root);
	}
}

static void put_port(const struct temp_tree *t, const char *received, const char *sent, const char *errors)
{
	temp_tree_put(t, PORT "state", "4: ACTIVE\n");
	temp_tree_put(t, PORT "rate", "100 Gb/sec (4X EDR)\n");
	temp_tree_put(t, PORT "counters/port_rcv_data", received);
	temp_tree_put(t, PORT "counters/port_xmit_data", sent);
	temp_tree_put(t, PORT "counters/port_rcv_errors", errors);
}

static void expect(struct source *s, int64_t received, int64_t sent, int64_t errors)
{
	struct framebuf out = { 0 };

	assert_int_equal(source_fabric.read(s, 1, &out), 0);
	if (received >= 0)
		check_value(&out, M_HOST_FABRIC_RX, 0, received);
	else
		check_unknown(&out, M_HOST_FABRIC_RX);
	check_value(&out, M_HOST_FABRIC_TX, 0, sent);
	check_value(&out, M_HOST_FABRIC_ERRORS, 0, errors);
	framebuf_done(&out);
}

static void counters_are_in_units_of_four_bytes_and_wrap(void **state)
{
	struct temp_tree t;

	(void) state;
	temp_tree_new(&t);
	put_port(&t, "4294967290\n", "100\n", "5\n");
	struct root root = temp_tree_root(&t);
	struct source *s = open_fabric(&root);

	expect(s, 0, 0, 0);
	put_port(&t, "4\n", "350\n", "7\n"); /* 4294967290 + 10 in 32 bits */
	expect(s, 40, 1000, 2);
	put_port(&t, "8589934592\n", "360\n", "7\n"); /* 64 bits wide after all: 2^33 - 4 more */
	expect(s, 40 + (INT64_C(8589934592) - 4) * 4, 1040, 2);
	put_port(&t, "10\n", "30\n", "0\n"); /* reset: counts from 0 */
	expect(s, 40 + (INT64_C(8589934592) - 4) * 4 + 40, 1160, 2);
	source_fabric.close(s);
	root_done(&root);
	temp_tree_done(&t);
}

static void a_counter_at_its_end_is_unknown(void **state)
{
	struct temp_tree t;

	(void) state;
	temp_tree_new(&t);
	put_port(&t, "4294967294\n", "0\n", "0\n");
	struct root root = temp_tree_root(&t);
	struct source *s = open_fabric(&root);

	expect(s, 0, 0, 0);
	put_port(&t, "4294967295\n", "1\n", "0\n");
	expect(s, 4, 4, 0);
	put_port(&t, "4294967295\n", "2\n", "0\n");
	expect(s, -1, 8, 0);
	source_fabric.close(s);
	root_done(&root);
	temp_tree_done(&t);
}

static void the_busiest_port_is_compared_with_its_rate(void **state)
{
	struct temp_tree t;
	struct framebuf out = { 0 };

	(void) state;
	temp_tree_new(&t);
	put_port(&t, "0\n", "0\n", "0\n");
	struct root root = temp_tree_root(&t);
	struct source *s = open_fabric(&root);

	assert_int_equal(source_fabric.read(s, 1, &out), 0);
	assert_null(find_reading(&out, M_HOST_FABRIC_BUSIEST, 0)); /* nothing to compare with */
	framebuf_clear(&out);
	put_port(&t, "1000000000000000\n", "0\n", "0\n"); /* more than any link moves */
	assert_int_equal(source_fabric.read(s, 1, &out), 0);
	check_value(&out, M_HOST_FABRIC_BUSIEST, 0, 1000000);
	framebuf_clear(&out);
	assert_int_equal(source_fabric.read(s, 1, &out), 0);
	check_value(&out, M_HOST_FABRIC_BUSIEST, 0, 0);
	framebuf_done(&out);
	source_fabric.close(s);
	root_done(&root);
	temp_tree_done(&t);
}

static void nonsense_is_unknown(void **state)
{
	struct temp_tree t;
	struct maybe bits;
	char names[64];

	(void) state;
	temp_tree_new(&t);
	put_port(&t, "x\n", "1\n", "1\n");
	temp_tree_put(&t, PORT "rate", "fast\n");
	struct root root = temp_tree_root(&t);
	struct source *s = open_fabric(&root);

	expect(s, -1, 0, 0);
	fabric_links(&root, &bits, names, sizeof(names));
	assert_false(bits.known);
	assert_string_equal(names, "mlx4_0/1 0 Gb/s");
	source_fabric.close(s);
	root_done(&root);
	temp_tree_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_active_ports_count),
		cmocka_unit_test(a_machine_without_a_port_costs_nothing),
		cmocka_unit_test(every_metric_is_probed),
		cmocka_unit_test(counters_are_in_units_of_four_bytes_and_wrap),
		cmocka_unit_test(a_counter_at_its_end_is_unknown),
		cmocka_unit_test(the_busiest_port_is_compared_with_its_rate),
		cmocka_unit_test(nonsense_is_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

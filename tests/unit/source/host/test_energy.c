/* SPDX-License-Identifier: MIT */
#include "tree_helper.h"

#define CLASS "sys/class/powercap/"

/* A zone of the powercap class. */
static void put_zone(
	const struct temp_tree *t, const char *zone, const char *name, const char *energy, const char *range)
{
	char path[256];

	snprintf(path, sizeof(path), CLASS "%s/name", zone);
	temp_tree_put(t, path, name);
	snprintf(path, sizeof(path), CLASS "%s/energy_uj", zone);
	temp_tree_put(t, path, energy);
	if (!range)
		return;
	snprintf(path, sizeof(path), CLASS "%s/max_energy_range_uj", zone);
	temp_tree_put(t, path, range);
}

static struct source *open_energy(const struct root *root)
{
	struct source_env env = { .root = root };
	struct source *s = NULL;

	assert_int_equal(source_energy.open(&env, &s, NULL), 0);
	return s;
}

static void whole_packages_are_added_up(void **state)
{
	(void) state;
	struct temp_tree t;
	struct framebuf out = { 0 };

	temp_tree_new(&t);
	put_zone(&t, "intel-rapl:0", "package-0\n", "1000000\n", "262143328850\n");
	put_zone(&t, "intel-rapl:1", "package-1-die-0\n", "2000000\n", "262143328850\n");
	put_zone(&t, "intel-rapl:0:0", "core\n", "400\n", NULL);
	put_zone(&t, "intel-rapl:2", "psys\n", "9000000\n", NULL); /* includes the packages */
	put_zone(&t, "intel-rapl-mmio:0", "package-0\n", "1000000\n", NULL);
	temp_tree_put(&t, CLASS "intel-rapl/enabled", "1\n");
	temp_tree_put(&t, CLASS "dtpm/name", "package\n");
	struct root root = temp_tree_root(&t);
	struct source *s = open_energy(&root);

	assert_int_equal(source_energy.read(s, 1, &out), 0);
	check_value(&out, M_HOST_ENERGY, 0, 3000000);
	framebuf_clear(&out);
	temp_tree_put(&t, CLASS "intel-rapl:1/energy_uj", "2500000\n");
	assert_int_equal(source_energy.read(s, 0, &out), 0); /* not requested */
	assert_int_equal(out.n_readings, 0);
	assert_int_equal(source_energy.read(s, 1, &out), 0);
	check_value(&out, M_HOST_ENERGY, 0, 3500000);
	source_energy.close(s);
	framebuf_done(&out);
	root_done(&root);
	temp_tree_done(&t);
}

static void a_counter_that_wraps_goes_on(void **state)
{
	(void) state;
	struct temp_tree t;
	struct framebuf out = { 0 };

	temp_tree_new(&t);
	put_zone(&t, "intel-rapl:0", "package-0\n", "990\n", "1000\n");
	put_zone(&t, "intel-rapl:1", "package-1\n", "500\n", NULL); /* no range: a fall is a reset */
	struct root root = temp_tree_root(&t);
	struct source *s = open_energy(&root);

	assert_int_equal(source_energy.read(s, 1, &out), 0);
	temp_tree_put(&t, CLASS "intel-rapl:0/energy_uj", "15\n");
	temp_tree_put(&t, CLASS "intel-rapl:1/energy_uj", "7\n");
	assert_int_equal(source_energy.read(s, 1, &out), 0);
	check_value(&out, M_HOST_ENERGY, 0, 990 + 500 + 25);
	temp_tree_put(&t, CLASS "intel-rapl:1/energy_uj", "10\n");
	assert_int_equal(source_energy.read(s, 1, &out), 0);
	check_value(&out, M_HOST_ENERGY, 0, 990 + 500 + 25 + 3);
	source_energy.close(s);
	framebuf_done(&out);
	root_done(&root);
	temp_tree_done(&t);
}

static void garbage_is_unknown_once(void **state)
{
	(void) state;
	static const char *const garbage[] = { "", "\n", "-1\n", "12x\n", "99999999999999999999999\n" };
	struct temp_tree t;
	struct framebuf out = { 0 };

	temp_tree_new(&t);
	put_zone(&t, "intel-rapl:0", "package-0\n", "100\n", "1000\n");
	struct root root = temp_tree_root(&t);
	struct source *s = open_energy(&root);

	assert_int_equal(source_energy.read(s, 1, &out), 0);
	for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		framebuf_clear(&out);
		temp_tree_put(&t, CLASS "intel-rapl:0/energy_uj", garbage[i]);
		assert_int_equal(source_energy.read(s, 1, &out), 0);
		if (i == 0)
			check_unknown(&out, M_HOST_ENERGY);
		else
			assert_int_equal(out.n_readings, 0);
	}
	temp_tree_put(&t, CLASS "intel-rapl:0/energy_uj", "110\n");
	assert_int_equal(source_energy.read(s, 1, &out), 0);
	check_value(&out, M_HOST_ENERGY, 0, 110);
	source_energy.close(s);
	framebuf_done(&out);
	root_done(&root);
	temp_tree_done(&t);
}

static void without_rapl_there_is_a_reason(void **state)
{
	(void) state;
	struct temp_tree t;
	struct err err = { "" };
	struct source *s = NULL;
	struct probes probes = { 0 };

	temp_tree_new(&t);
	for (int i = 0; i < 3; i++) { /* no sysfs, no class, a class without packages */
		if (i == 1)
			temp_tree_put(&t, "sys/class/net/lo", "");
		if (i == 2)
			put_zone(&t, "intel-rapl:0", "psys\n", "1\n", NULL);
		struct root root = temp_tree_root(&t);
		struct source_env env = { .root = &root };

		memset(&probes, 0, sizeof(probes));
		assert_true(source_energy.open(&env, &s, &err) < 0);
		assert_null(s);
		assert_non_null(strstr(err.text, "no RAPL"));
		source_energy.probe(&env, probes_take, &probes);
		assert_int_equal(probes.n, 1);
		assert_false(probes.of[M_HOST_ENERGY].available);
		assert_non_null(strstr(probes.of[M_HOST_ENERGY].why_not, "no RAPL"));
		root_done(&root);
	}
	temp_tree_done(&t);
}

/* Mode 0400 does not stop root, a folder in the file's place does. */
static void one_unreadable_package_spoils_the_sum(void **state)
{
	(void) state;
	struct temp_tree t;
	struct framebuf out = { 0 };
	struct probes probes = { 0 };

	temp_tree_new(&t);
	put_zone(&t, "intel-rapl:0", "package-0\n", "100\n", "1000\n");
	temp_tree_put(&t, CLASS "intel-rapl:1/name", "package-1\n");
	temp_tree_put(&t, CLASS "intel-rapl:1/energy_uj/x", "");
	struct root root = temp_tree_root(&t);
	struct source_env env = { .root = &root };
	struct source *s = open_energy(&root);

	assert_int_equal(source_energy.read(s, 1, &out), 0);
	check_unknown(&out, M_HOST_ENERGY);
	source_energy.probe(&env, probes_take, &probes);
	assert_false(probes.of[M_HOST_ENERGY].available);
	source_energy.close(s);
	framebuf_done(&out);
	root_done(&root);
	temp_tree_done(&t);
}

static void readable_by_root_only_names_the_remedy(void **state)
{
	(void) state;
	struct temp_tree t;
	struct probes probes = { 0 };
	struct err err = { "" };
	struct source *s = NULL;
	uid_t uid = geteuid();
	char path[256];

	temp_tree_new(&t);
	put_zone(&t, "intel-rapl:0", "package-0\n", "100\n", "1000\n");
	snprintf(path, sizeof(path), "%s/" CLASS "intel-rapl:0/energy_uj", t.path);
	assert_int_equal(chmod(path, 0400), 0);
	assert_int_equal(chmod(t.path, 0755), 0);
	if (uid == 0)
		assert_int_equal(seteuid(65534), 0);
	else
		assert_int_equal(chmod(path, 0), 0);
	struct root root = temp_tree_root(&t);
	struct source_env env = { .root = &root };
	int r = source_energy.open(&env, &s, &err);

	source_energy.probe(&env, probes_take, &probes);
	if (uid == 0)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(r, -EACCES);
	assert_non_null(strstr(err.text, "sudo chmod"));
	assert_non_null(strstr(probes.of[M_HOST_ENERGY].remedy, "sudo chmod"));
	root_done(&root);
	temp_tree_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_packages_are_added_up),
		cmocka_unit_test(a_counter_that_wraps_goes_on),
		cmocka_unit_test(garbage_is_unknown_once),
		cmocka_unit_test(without_rapl_there_is_a_reason),
		cmocka_unit_test(one_unreadable_package_spoils_the_sum),
		cmocka_unit_test(readable_by_root_only_names_the_remedy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

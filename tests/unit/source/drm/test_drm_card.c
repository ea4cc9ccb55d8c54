/* SPDX-License-Identifier: MIT */
#include "tree_helper.h"

#include "source/drm/card.h"
#include "source/drm/sysfs_values.h"
#include "source/drm/query.h"

static bool all(const struct drm_card *card)
{
	(void) card;
	return true;
}

static void cards_go_by_pci_address(void **state)
{
	(void) state;
	struct root root = tree_open("amd-mi");
	struct drm_cards cards = { 0 };

	assert_int_equal(drm_cards_scan(&cards, &root, all), 2);
	assert_int_equal(cards.n, 2);
	assert_string_equal(cards.list[0].pci, "0000:c1:00.0");
	assert_string_equal(cards.list[0].driver, "amdgpu");
	assert_int_equal(cards.list[0].vendor, 0x1002);
	assert_int_equal(cards.list[0].device, 0x74a1);
	assert_int_equal(cards.list[0].card, 1);
	assert_int_equal(cards.list[0].render, 129);
	assert_true(cards.list[0].hwmon >= 0);
	assert_string_equal(drm_card_vendor(&cards.list[0]), "amd");
	assert_int_equal(drm_cards_find(&cards, "0000:c6:00.0", ""), 1);
	assert_int_equal(drm_cards_find(&cards, "0000:c7:00.0", "amdgpu"), -1);
	assert_int_equal(drm_cards_find(&cards, "", "amdgpu"), -1);
	assert_int_equal(drm_cards_scan(&cards, &root, all), 2); /* the same ones */
	assert_int_equal(cards.n, 2);
	drm_cards_done(&cards);
	root_done(&root);
}

static void platform_devices_have_no_address(void **state)
{
	(void) state;
	struct root root = tree_open("panfrost");
	struct drm_cards cards = { 0 };
	char name[64];

	assert_int_equal(drm_cards_scan(&cards, &root, all), 1); /* the display has no render node */
	assert_string_equal(cards.list[0].key, "platform-gpu@ff9a0000");
	assert_string_equal(cards.list[0].pci, "");
	drm_card_name(&cards.list[0], name, sizeof(name));
	assert_string_equal(name, "rockchip,rk3399-mali");
	assert_string_equal(drm_card_vendor(&cards.list[0]), "");
	assert_int_equal(drm_cards_find(&cards, "", "panfrost"), 0);
	drm_cards_done(&cards);
	root_done(&root);
}

static void a_machine_without_any(void **state)
{
	(void) state;
	struct root root = tree_open("wsl");
	struct drm_cards cards = { 0 };

	assert_int_equal(drm_cards_scan(&cards, &root, all), 0);
	drm_cards_done(&cards);
	root_done(&root);
}

static void one_that_was_gone_keeps_its_place(void **state)
{
	(void) state;
	struct root root = tree_open("amd-mi");
	struct drm_cards cards = { 0 };

	assert_int_equal(drm_cards_scan(&cards, &root, all), 2);
	drm_card_lose(&cards.list[0]);
	assert_int_equal(cards.list[0].dir, -1);
	assert_int_equal(drm_cards_scan(&cards, &root, all), 2);
	assert_int_equal(cards.n, 2);
	assert_true(cards.list[0].dir >= 0);
	assert_string_equal(cards.list[0].pci, "0000:c1:00.0");
	drm_cards_done(&cards);
	root_done(&root);
}

/* ---- sleep -------------------------------------------------------------------------------------------------------- */

#define S UINT64_C(1000000000)

static void a_sleeping_gpu_is_never_asked(void **state)
{
	(void) state;
	struct drm_gate gate = { 0 };

	assert_false(drm_gate_may_read(&gate, "suspended\n", "auto\n", known(5000), false, S));
	assert_false(drm_gate_may_read(&gate, "suspending\n", "auto\n", known(5000), true, S));
	assert_false(drm_gate_may_read(&gate, "suspended\n", "on\n", UNKNOWN, true, S));
	assert_true(drm_gate_may_read(&gate, "active\n", "on\n", UNKNOWN, false, S));
	/* a kernel without power management */
	assert_true(drm_gate_may_read(&gate, "", "", UNKNOWN, false, S));
}

/* Read every second, it would stay awake forever: it is left alone for longer than it takes to go
 * to sleep. */
static void an_idle_gpu_may_fall_asleep(void **state)
{
	(void) state;
	struct drm_gate gate = { 0 };
	uint64_t silence = 0, longest = 0, asked = 0;

	for (uint64_t t = 100 * S; t < 160 * S; t += S / 10) {
		if (drm_gate_may_read(&gate, "active\n", "auto\n", known(5000), false, t)) {
			silence = 0;
			asked++;
		} else {
			silence += S / 10;
		}
		longest = silence > longest ? silence : longest;
	}
	assert_true(longest > 5 * S);
	assert_true(asked >= 5 * 14 && asked <= 6 * 15); /* five or six times a second and a half */
	assert_true(drm_gate_may_read(
		&gate, "active\n", "auto\n", known(5000), true, 160 * S)); /* a process uses it
	                                                                                          */
	for (int i = 0; i < 100; i++) /* it never goes to sleep */
		assert_true(drm_gate_may_read(&gate, "active\n", "auto\n", known(-1), false, 161 * S));
}

/* ---- values ------------------------------------------------------------------------------------------------------- */

static void counters_go_on(void **state)
{
	(void) state;
	struct drm_counter reset = { 0 }, wraps = { .range = 1000 };

	assert_int_equal(drm_counter_apply(&reset, known(500)).value, 500);
	assert_int_equal(drm_counter_apply(&reset, known(700)).value, 700);
	assert_false(drm_counter_apply(&reset, UNKNOWN).known);
	assert_int_equal(drm_counter_apply(&reset, known(10)).value, 700); /* it was reset */
	assert_int_equal(drm_counter_apply(&reset, known(30)).value, 720);
	assert_int_equal(drm_counter_apply(&wraps, known(900)).value, 900);
	assert_int_equal(drm_counter_apply(&wraps, known(100)).value, 1100);
}

/* i915_drm.h: struct drm_i915_query_memory_regions; xe_drm.h: struct drm_xe_query_mem_regions. */
static void memory_of_intels_cards(void **state)
{
	(void) state;
	uint8_t i915[16 + 2 * 88] = { 2 }, xe[8 + 2 * 88] = { 2 };
	const uint64_t total = UINT64_C(16) << 30, other = UINT64_C(12) << 30;
	struct drm_memory m;

	i915[16 + 88] = xe[8 + 88] = 1; /* the second is the device's */
	for (size_t at = 0; at < 2; at++) {
		memcpy(i915 + 16 + at * 88 + 8, &total, 8);
		memcpy(i915 + 16 + at * 88 + 16, &other, 8);
		memcpy(xe + 8 + at * 88 + 8, &total, 8);
		memcpy(xe + 8 + at * 88 + 16, &other, 8);
	}
	drm_memory_parse("i915", i915, sizeof(i915), &m);
	assert_true(m.total.known && m.used.known);
	assert_int_equal(m.total.value, INT64_C(16) << 30);
	assert_int_equal(m.used.value, INT64_C(4) << 30);
	drm_memory_parse("xe", xe, sizeof(xe), &m);
	assert_int_equal(m.used.value, INT64_C(12) << 30);
	memcpy(i915 + 16 + 88 + 16, &total, 8); /* all of it free: no permission to know */
	drm_memory_parse("i915", i915, sizeof(i915), &m);
	assert_true(m.total.known && !m.used.known);
	drm_memory_parse("i915", i915, sizeof(i915) - 1, &m);
	assert_false(m.total.known);
	drm_memory_parse("panfrost", xe, sizeof(xe), &m);
	assert_false(m.total.known);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cards_go_by_pci_address),
		cmocka_unit_test(platform_devices_have_no_address),
		cmocka_unit_test(a_machine_without_any),
		cmocka_unit_test(one_that_was_gone_keeps_its_place),
		cmocka_unit_test(a_sleeping_gpu_is_never_asked),
		cmocka_unit_test(an_idle_gpu_may_fall_asleep),
		cmocka_unit_test(counters_go_on),
		cmocka_unit_test(memory_of_intels_cards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

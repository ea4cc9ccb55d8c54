/* SPDX-License-Identifier: MIT */
#include "tree_helper.h"

#include "source/drm/fdinfo.h"

static struct drm_fdinfo parsed(const char *text)
{
	struct drm_fdinfo f = { .n_engines = 77 };

	assert_int_equal(drm_fdinfo_parse(text, &f), 0);
	return f;
}

static void check_maybe(struct maybe value, int64_t expected)
{
	assert_true(value.known);
	assert_int_equal(value.value, expected);
}

static void check_region(const struct drm_fdinfo *f, const char *name, int64_t bytes)
{
	for (unsigned i = 0; i < f->n_regions; i++) {
		if (strcmp(f->regions[i].name, name) == 0) {
			check_maybe(drm_region_bytes(&f->regions[i]), bytes);
			return;
		}
	}
	fail_msg("no region %s", name);
}

#define HEAD "pos:\t0\nflags:\t02100002\ndrm-driver:\ti915\ndrm-pdev:\t0000:00:02.0\ndrm-client-id:\t7\n"

/* Documentation/gpu/i915.rst and drm-usage-stats.rst */
static void a_client_of_i915(void **state)
{
	(void) state;
	struct drm_fdinfo f = parsed(
		HEAD "drm-total-system0:\t96 MiB\ndrm-shared-system0:\t16 MiB\n"
		     "drm-resident-system0:\t80 MiB\ndrm-engine-render:\t25662044495 ns\n"
		     "drm-engine-video:\t9 ns\ndrm-engine-capacity-video:\t2\n"
		     "drm-engine-video-enhance:\t3 ns\n");

	assert_string_equal(f.driver, "i915");
	assert_string_equal(f.pdev, "0000:00:02.0");
	check_maybe(f.client, 7);
	assert_int_equal(f.n_regions, 1);
	check_maybe(f.regions[0].total, 96 << 20);
	check_maybe(f.regions[0].shared, 16 << 20);
	assert_int_equal(f.n_engines, 3);
	check_maybe(f.engines[0].busy_ns, 25662044495);
	assert_int_equal(f.engines[0].capacity, 1);
	assert_string_equal(f.engines[1].name, "video");
	assert_int_equal(f.engines[1].capacity, 2);
	assert_string_equal(f.engines[2].name, "video-enhance");
	assert_false(f.cut);
}

static void units_differ_by_value(void **state)
{
	(void) state;
	struct drm_fdinfo f = parsed(
		HEAD "drm-resident-a:\t0\ndrm-resident-b:\t123\ndrm-resident-c:\t4 KiB\n"
		     "drm-resident-d:\t2 MiB\ndrm-resident-e:  3 GiB  \ndrm-resident-f:\t5 kB\n"
		     "drm-memory-g:\t6 KiB\ndrm-memory-d:\t9 KiB\n");

	check_region(&f, "a", 0);
	check_region(&f, "b", 123);
	check_region(&f, "c", 4096);
	check_region(&f, "d", 2 << 20); /* resident before memory */
	check_region(&f, "e", INT64_C(3) << 30);
	check_region(&f, "f", 5120);
	check_region(&f, "g", 6144);
}

static void cycles_of_xe(void **state)
{
	(void) state;
	struct drm_fdinfo f = parsed(
		"drm-driver:\txe\ndrm-cycles-rcs:\t28257900\ndrm-total-cycles-rcs:\t7655183225\n"
		"drm-engine-capacity-vcs:\t2\ndrm-maxfreq-gpu:\t800 MHz\n");

	assert_int_equal(f.n_engines, 3);
	check_maybe(f.engines[0].cycles, 28257900);
	check_maybe(f.engines[0].total_cycles, INT64_C(7655183225));
	assert_false(f.engines[0].busy_ns.known);
	assert_int_equal(f.engines[1].capacity, 2);
	check_maybe(f.engines[2].max_hz, 800000000);
	assert_string_equal(f.pdev, "");
	assert_false(f.client.known);
}

static void amdgpu_before_5_19(void **state)
{
	(void) state;
	struct drm_fdinfo f = parsed(
		"pos:\t0\nflags:\t02\npdev:\t0000:2b:00.0\npasid:\t32769\nvram mem:\t262144 kB\n"
		"gtt mem:\t1024 kB\ncpu mem:\t0 kB\ngfx0:\t 12.50%\n");

	assert_string_equal(f.pdev, "0000:2b:00.0");
	check_maybe(f.client, 32769);
	check_region(&f, "vram", 256 << 20);
	check_region(&f, "gtt", 1 << 20);
	assert_int_equal(f.n_engines, 0);
}

static void invalid_clients(void **state)
{
	(void) state;
	static const char *const texts[] = {
		"",
		"pos:\t0\nflags:\t02\nmnt_id:\t26\nino:\t9\n",
		"drm-driver:\n",
		"drm-driver\ti915\n",
		" drm-driver:\ti915\n",
		"pdev:\t0000:2b:00.0\n",
		"pdev:\t0000:2b:00.0\npasid:\tx\nvram mem:\t1 kB\n",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct drm_fdinfo f = { .n_engines = 77 };

		assert_int_equal(drm_fdinfo_parse(texts[i], &f), -EBADMSG);
		assert_int_equal(f.n_engines, 77);
	}
}

static void nonsense_is_unknown(void **state)
{
	(void) state;
	struct drm_fdinfo f = parsed(
		HEAD "drm-resident-a:\t99999999999999999999\ndrm-resident-b:\t9223372036854775807 KiB\n"
		     "drm-resident-c:\t5 parsecs\ndrm-resident-d:\t-1\ndrm-resident-e:\t\n"
		     "drm-engine-x:\t1.5 ns\ndrm-engine-capacity-x:\t0\ndrm-engine-:\t4 ns\n"
		     "drm-engine-a-name-that-is-longer-than-any:\t4 ns\ndrm-resident-two words:\t4\n"
		     "drm-client-identity:\t5\n");

	assert_int_equal(f.n_regions, 5);
	for (unsigned i = 0; i < f.n_regions; i++)
		assert_false(drm_region_bytes(&f.regions[i]).known);
	assert_int_equal(f.n_engines, 1);
	assert_false(f.engines[0].busy_ns.known);
	assert_int_equal(f.engines[0].capacity, 1);
	check_maybe(f.client, 7);
}

static void more_regions_than_fit_are_flagged(void **state)
{
	(void) state;
	char text[4096] = HEAD;
	size_t len = strlen(text);

	for (int i = 0; i < DRM_REGIONS; i++)
		len += (size_t) snprintf(text + len, sizeof(text) - len, "drm-resident-r%d:\t1\n", i);
	assert_false(parsed(text).cut);
	(void) snprintf(text + len, sizeof(text) - len, "drm-resident-one-more:\t1\n");
	assert_true(parsed(text).cut);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_of_i915),
		cmocka_unit_test(units_differ_by_value),
		cmocka_unit_test(cycles_of_xe),
		cmocka_unit_test(amdgpu_before_5_19),
		cmocka_unit_test(invalid_clients),
		cmocka_unit_test(nonsense_is_unknown),
		cmocka_unit_test(more_regions_than_fit_are_flagged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * Tables of every revision, as tests/trees/make-gpu-metrics lays them out; the values are chosen
 * there (VALUES).
 */
#include "tree_helper.h"

#include "source/drm/amdgpu/metrics.h"

#define NONE INT64_MIN

/* The expected values of a revision, in the order of enum amdgpu_field. */
struct expected {
	const char *revision;
	int64_t field[AMDGPU_FIELDS];
};

#define DISCRETE 41000, 52000, 63000, 370000, 120000, 215000000, NONE, INT64_C(1800000000), 900000000
#define INSTINCT \
	NONE, 52000, 63000, 370000, 120000, 215000000, INT64_C(1024000000), INT64_C(1800000000), 900000000
#define NO_COUNTS  NONE, NONE, NONE, NONE, NONE, NONE
#define COUNTS     1000, 0, 250, 0, 10, 100
#define THROTTLED  1 | INT64_C(1) << 36
#define APU(power) 43210, NONE, NONE, 567800, NONE, (power), NONE, INT64_C(1800000000), 900000000

static const struct expected table[] = {
	{ "1.0", { DISCRETE, NONE, NO_COUNTS } },
	{ "1.1", { DISCRETE, NONE, NO_COUNTS } },
	{ "1.2", { DISCRETE, NONE, NO_COUNTS } },
	{ "1.3", { DISCRETE, THROTTLED, NO_COUNTS } },
	{ "1.4", { INSTINCT, NONE, NO_COUNTS } },
	{ "1.5", { INSTINCT, NONE, NO_COUNTS } },
	{ "1.6", { INSTINCT, NONE, COUNTS } },
	{ "1.7", { INSTINCT, NONE, COUNTS } },
	{ "1.8", { INSTINCT, NONE, COUNTS } },
	{ "1.9", { INSTINCT, NONE, COUNTS } },
	{ "2.0", { APU(NONE), NONE, NO_COUNTS } },
	{ "2.1", { APU(NONE), NONE, NO_COUNTS } },
	{ "2.2", { APU(NONE), THROTTLED, NO_COUNTS } },
	{ "2.3", { APU(NONE), THROTTLED, NO_COUNTS } },
	{ "2.4", { APU(15500000), THROTTLED, NO_COUNTS } },
	{ "3.0",
		{ NONE, NONE, NONE, NONE, NONE, 28000000, NONE, INT64_C(1800000000), 900000000, NONE,
			NO_COUNTS } },
};

static size_t blob_read(const char *revision, char *data, size_t size)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/trees/gpu-metrics/v%s", TESTS_DIR, revision);
	FILE *f = fopen(path, "rb");

	assert_non_null(f);
	size_t n = fread(data, 1, size, f);

	assert_int_equal(fclose(f), 0);
	assert_true(n > 4 && n < size);
	return n;
}

static void every_revision_gives_its_values(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		char data[8192];
		struct amdgpu_metrics m;
		size_t n = blob_read(table[i].revision, data, sizeof(data));

		assert_int_equal(amdgpu_metrics_parse(data, n, &m), 0);
		assert_int_equal(m.format, table[i].revision[0] - '0');
		assert_int_equal(m.content, table[i].revision[2] - '0');
		for (int f = 0; f < AMDGPU_FIELDS; f++) {
			if (m.field[f].known != (table[i].field[f] != NONE) ||
				(m.field[f].known && m.field[f].value != table[i].field[f]))
				fail_msg("%s, field %d: %s %lld, %lld expected", table[i].revision, f,
					m.field[f].known ? "known" : "unknown", (long long) m.field[f].value,
					(long long) table[i].field[f]);
		}
	}
}

/* The kernel leaves all ones in fields that the firmware does not set. */
static void all_ones_are_absent(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		char data[8192];
		struct amdgpu_metrics m;
		size_t n = blob_read(table[i].revision, data, sizeof(data));

		if (strcmp(table[i].revision, "1.9") == 0)
			continue; /* all ones would not be a list */
		memset(data + 4, 0xff, n - 4);
		assert_int_equal(amdgpu_metrics_parse(data, n, &m), 0);
		for (int f = 0; f < AMDGPU_FIELDS; f++)
			assert_false(m.field[f].known);
	}
}

static void a_table_cut_anywhere_is_none(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		char data[8192];
		size_t n = blob_read(table[i].revision, data, sizeof(data));

		for (size_t cut = 0; cut < n; cut++) {
			struct amdgpu_metrics m;

			assert_int_equal(amdgpu_metrics_parse(data, cut, &m), -EBADMSG);
			assert_false(m.field[AMDGPU_CLOCK].known);
		}
	}
}

static void unknown_revisions_are_not_read(void **state)
{
	(void) state;
	char data[8192];
	struct amdgpu_metrics m;
	size_t n = blob_read("1.3", data, sizeof(data));

	data[3] = 42; /* an unknown content */
	assert_int_equal(amdgpu_metrics_parse(data, n, &m), -EOPNOTSUPP);
	assert_int_equal(m.content, 42);
	assert_false(m.field[AMDGPU_TEMP].known);
	data[3] = 3;
	data[0] = 112; /* 1.3 in another size is another 1.3 */
	assert_int_equal(amdgpu_metrics_parse(data, n, &m), -EOPNOTSUPP);
}

/* A device similar to the Steam Deck reported 655 % (MangoHud). */
static void impossible_values_are_unknown(void **state)
{
	(void) state;
	char data[8192];
	struct amdgpu_metrics m;
	size_t n = blob_read("1.3", data, sizeof(data));
	const uint16_t busy = 101, hot = 300, clock = 12000;

	memcpy(data + 16, &busy, 2);
	memcpy(data + 4, &hot, 2);
	memcpy(data + 54, &clock, 2);
	assert_int_equal(amdgpu_metrics_parse(data, n, &m), 0);
	assert_false(m.field[AMDGPU_BUSY].known);
	assert_false(m.field[AMDGPU_TEMP].known);
	assert_false(m.field[AMDGPU_CLOCK].known);
	assert_true(m.field[AMDGPU_TEMP_MEM].known);
}

static void inconsistent_lists_are_refused(void **state)
{
	(void) state;
	char data[8192], bad[8192];
	struct amdgpu_metrics m;
	size_t n = blob_read("1.9", data, sizeof(data));

	memcpy(bad, data, n);
	bad[4]++; /* more attributes than there are */
	assert_int_equal(amdgpu_metrics_parse(bad, n, &m), -EBADMSG);
	assert_false(m.field[AMDGPU_POWER].known);
	memcpy(bad, data, n);
	bad[8 + 2] = (char) 0xf0; /* an unknown type */
	assert_int_equal(amdgpu_metrics_parse(bad, n, &m), -EBADMSG);
	memcpy(bad, data, n);
	bad[8 + 3] = 7; /* another unit than degrees: this field is ignored, the rest is not */
	assert_int_equal(amdgpu_metrics_parse(bad, n, &m), 0);
	assert_false(m.field[AMDGPU_TEMP_HOTSPOT].known);
	assert_true(m.field[AMDGPU_POWER].known);
	memcpy(bad, data, n);
	bad[17] = (char) 0x80; /* a negative temperature */
	assert_int_equal(amdgpu_metrics_parse(bad, n, &m), 0);
	assert_false(m.field[AMDGPU_TEMP_HOTSPOT].known);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_revision_gives_its_values),
		cmocka_unit_test(all_ones_are_absent),
		cmocka_unit_test(a_table_cut_anywhere_is_none),
		cmocka_unit_test(unknown_revisions_are_not_read),
		cmocka_unit_test(impossible_values_are_unknown),
		cmocka_unit_test(inconsistent_lists_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * Names of OpenTelemetry: metrics that share a name are one metric there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sink/export/otlp_names.h"

static bool has_same_attributes(const struct otlp_name *a, const struct otlp_name *b)
{
	for (size_t i = 0; i < OTLP_ATTRIBUTES; i++) {
		const struct otlp_attribute *x = &a->attributes[i], *y = &b->attributes[i];

		if (!x->key != !y->key)
			return false;
		if (x->key && (strcmp(x->key, y->key) != 0 || strcmp(x->value, y->value) != 0))
			return false;
	}
	return true;
}

static void metrics_of_one_name_differ_in_attributes_alone(void **state)
{
	(void) state;
	for (int m = 0; m < METRIC_COUNT; m++) {
		for (int k = 0; k < m; k++) {
			struct otlp_name a, b;

			otlp_name_of((enum metric) m, false, &a);
			otlp_name_of((enum metric) k, false, &b);
			if (strcmp(a.name, b.name) != 0)
				continue;
			assert_string_equal(a.unit, b.unit);
			assert_int_equal(a.type, b.type);
			assert_false(has_same_attributes(&a, &b));
		}
	}
}

static void own_names_are_those_of_openmetrics(void **state)
{
	struct otlp_name name;

	(void) state;
	otlp_name_of(M_JOB_RAM_LOW, false, &name);
	assert_string_equal(name.name, "hiwater.run.memory");
	assert_string_equal(name.unit, "By");
	assert_string_equal(name.attributes[0].key, "kind");
	assert_string_equal(name.attributes[0].value, "combined_low");
	assert_null(name.attributes[1].key);
	otlp_name_of(M_HOST_PSI_CPU, false, &name);
	assert_string_equal(name.name, "hiwater.node.pressure");
	assert_string_equal(name.attributes[1].key, "kind");
	assert_string_equal(name.attributes[1].value, "some");
	otlp_name_of(M_GPU_PSTATE, false, &name);
	assert_string_equal(name.name, "hiwater.gpu.performance_state");
	assert_string_equal(name.unit, "{count}");
}

static void a_maximum_is_never_named_as_the_value_is(void **state)
{
	struct otlp_name name;

	(void) state;
	otlp_name_of(M_JOB_RAM, false, &name);
	assert_string_equal(name.name, "process.memory.usage");
	assert_true(name.is_convention);
	otlp_name_of(M_JOB_RAM, true, &name);
	assert_string_equal(name.name, "hiwater.run.memory_max");
	assert_false(name.is_convention);
	assert_string_equal(name.attributes[0].value, "combined");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(metrics_of_one_name_differ_in_attributes_alone),
		cmocka_unit_test(own_names_are_those_of_openmetrics),
		cmocka_unit_test(a_maximum_is_never_named_as_the_value_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * hiwater.h: the GPUs of a machine, as a program sees them; on a captured one with two GPUs of
 * AMD's.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/internal.h"

#define TREE TESTS_DIR "/trees/amd-mi"

static void devices_and_users(void **state)
{
	struct hwi_gpus_options options = HWI_GPUS_OPTIONS_INIT;
	struct hwi_gpu_device device = { .size = sizeof(device) }, none = { .size = 1 };
	struct hwi_gpu_user user = { .size = sizeof(user) };
	struct hwi_gpus *gpus = NULL;
	struct hiw_err err = { "" };

	(void) state;
	options.root = TREE;
	assert_int_equal(hwi_gpus_open(&options, &gpus, &err), 0);
	assert_false(hwi_gpus_device(gpus, 0, &device)); /* nothing was read yet */
	for (int look = 0; look < 2; look++) {
		assert_int_equal(hwi_gpus_read(gpus, &err), 0);
		assert_true(hwi_gpus_device(gpus, 1, &device));
		assert_string_equal(device.vendor, "amd");
		assert_true(device.number.known && device.number.value == 1);
		assert_false(device.index.known || device.cuda_visible.known || device.lost);
		assert_true(device.memory_total.known && device.memory_total.value == 196592LL << 20);
		assert_true(device.busy_ppm.known && device.power_uw.known && device.temperature_mc.known);
		assert_false(hwi_gpus_device(gpus, 2, &device) || hwi_gpus_device(gpus, 0, &none));
		assert_true(hwi_gpus_user(gpus, 0, &user));
		assert_true(user.pid.known && user.memory.known && user.device < 2);
		/* the second read replaces the first: three processes, not six */
		assert_false(hwi_gpus_user(gpus, 3, &user));
	}
	hwi_gpus_close(gpus);
}

static void text_of(enum hwi_gpus_format format, const char *fields, const char *begins)
{
	struct hwi_gpus_options options = HWI_GPUS_OPTIONS_INIT;
	struct hwi_gpus *gpus = NULL;
	char *text = NULL;
	size_t len = 0;

	options.root = TREE;
	options.format = format;
	options.fields = fields;
	assert_int_equal(hwi_gpus_open(&options, &gpus, NULL), 0);
	assert_int_equal(hwi_gpus_read(gpus, NULL), 0);
	assert_int_equal(hwi_gpus_text(gpus, NULL, &text, &len), 0);
	assert_int_equal(len, strlen(text));
	assert_int_equal(strncmp(text, begins, strlen(begins)), 0);
	free(text);
	hwi_gpus_close(gpus);
}

static void texts(void **state)
{
	(void) state;
	text_of(HWI_GPUS_JSON, NULL, "{\n  \"schema\": 2,");
	text_of(HWI_GPUS_CSV, NULL, "gpu,cuda_index,");
	text_of(HWI_GPUS_CSV_PROCESSES, NULL, "gpu,gpu_uuid,pid,");
	text_of(HWI_GPUS_LINE, "{gpu}={vendor}", "0=amd  1=amd\n");
	text_of(HWI_GPUS_LIST, NULL, "GPU 0: AMD Instinct MI300X");
	text_of(HWI_GPUS_QUERY, "index,memory.total",
		"index, memory.total [MiB]\n0, 196592 MiB\n1, 196592 MiB\n");
	text_of(HWI_GPUS_QUERY_APPS, "pid,used_memory", "pid, used_gpu_memory [MiB]\n800, 40960 MiB\n");
}

static void what_is_refused(void **state)
{
	struct hwi_gpus_options options = HWI_GPUS_OPTIONS_INIT;
	struct hwi_gpus *gpus = NULL;
	struct hiw_err err = { "" };
	char *text = NULL;

	(void) state;
	options.root = TREE;
	options.format = HWI_GPUS_QUERY;
	options.fields = "memory.use";
	assert_int_equal(hwi_gpus_open(&options, &gpus, &err), -EINVAL);
	assert_non_null(strstr(err.text, "memory.used"));
	options.fields = "index";
	options.ids = "0,9";
	assert_int_equal(hwi_gpus_open(&options, &gpus, &err), 0);
	assert_int_equal(hwi_gpus_read(gpus, &err), -ENODEV);
	assert_non_null(strstr(err.text, "9"));
	hwi_gpus_close(gpus);
	options.size = 3;
	assert_int_equal(hwi_gpus_open(&options, &gpus, NULL), -EINVAL);
	options.size = sizeof(options);
	options.root = "/no/such/machine";
	assert_int_equal(hwi_gpus_open(&options, &gpus, &err), -ENOENT);
	hwi_gpus_close(NULL);
	assert_int_equal(hwi_gpus_fields(HWI_GPUS_LINE, &text), 0);
	assert_non_null(strstr(text, "{busy}"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(devices_and_users),
		cmocka_unit_test(texts),
		cmocka_unit_test(what_is_refused),
	};

	return cmocka_run_group_tests_name("gpus_api", tests, NULL, NULL);
}

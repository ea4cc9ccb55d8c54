/* SPDX-License-Identifier: MIT
 *
 * A recorder whose recording cannot be ended, as the disk does not answer: its thread reads what is traced on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/handles.h"

/* What the reader needs is still there when the recorder is not. */
static void test_the_reader_outlives_the_recorder(void **state)
{
	const struct hwi_tracing trace = { .layers = TRACE_RANGES };
	struct hiw_options options = HIW_OPTIONS_INIT;
	struct hiw_recorder *r = NULL;
	struct trace_reader *reader;
	struct hiw_err err;
	struct root *root;
	char path[64];

	(void) state;
	(void) snprintf(path, sizeof(path), "/tmp/hiwater-tracing-%d.hiw", (int) getpid());
	options.output = path;
	options.degrade = false;
	options.gpu = HIW_GPU_NONE;
	if (hwi_recorder_new_traced(&options, HWI_PART_NONE, &trace, &r, &err) < 0)
		fail_msg("%s", err.text);
	reader = r->trace;
	root = r->trace_root;
	assert_non_null(reader);
	r->trace_is_used = true;
	hiw_recorder_free(r);
	(void) unlink(path);
	assert_true(fcntl(root->proc, F_GETFD) >= 0);
	assert_int_equal(faccessat(root->proc, "self/status", R_OK, 0), 0);
	trace_reader_answer(reader);
	trace_reader_free(reader);
	root_done(root);
	free(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_reader_outlives_the_recorder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

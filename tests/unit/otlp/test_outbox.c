/* SPDX-License-Identifier: MIT
 *
 * Requests that wait for a receiver: their number and size are bounded, and what is dropped is counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "otlp/sender.h"

static const char two_points[] = "{\"timeUnixNano\":\"1\"},{\"timeUnixNano\":\"2\",\"description\":\"\\\"timeUnixNano\\\":\"}";

static void of_too_many_the_oldest_are_dropped_and_counted(void **state)
{
	struct outbox box;
	char text[64];

	(void) state;
	assert_int_equal(outbox_init(&box), 0);
	for (int i = 0; i < 70; i++) {
		(void) snprintf(text, sizeof(text), "\"timeUnixNano\":%d", i);
		assert_int_equal(outbox_add(&box, text, strlen(text), false), 0);
	}
	assert_int_equal(box.n, 64);
	assert_int_equal(box.dropped, 6);
	assert_int_equal(outbox_points(&box), 64);
	assert_memory_equal(outbox_first(&box)->bytes, "\"timeUnixNano\":6", outbox_first(&box)->len);
	while (outbox_first(&box))
		outbox_remove(&box);
	assert_int_equal(box.bytes, 0);
	outbox_done(&box);
}

static void their_bytes_are_bounded_too(void **state)
{
	enum {
		LARGE = 3 << 20
	};
	char *text = malloc(LARGE);
	struct outbox box;

	(void) state;
	assert_non_null(text);
	memset(text, 'x', LARGE);
	memcpy(text, two_points, strlen(two_points));
	text[LARGE - 1] = '\0';
	assert_int_equal(outbox_init(&box), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(outbox_add(&box, text, LARGE - 1, false), 0);
	assert_int_equal(box.n, 2);
	assert_int_equal(box.dropped, 3 * 2);
	assert_true(box.bytes <= 8 << 20);
	outbox_done(&box);
	free(text);
}

static void gzip_gives_the_same_text(void **state)
{
	z_stream z = { 0 };
	struct outbox box;
	char text[256] = "";

	(void) state;
	assert_int_equal(outbox_init(&box), 0);
	assert_int_equal(outbox_add(&box, two_points, strlen(two_points), true), 0);
	assert_int_equal(outbox_points(&box), 2);
	z.next_in = (Bytef *) outbox_first(&box)->bytes;
	z.avail_in = (uInt) outbox_first(&box)->len;
	z.next_out = (Bytef *) text;
	z.avail_out = sizeof(text) - 1;
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	(void) inflateEnd(&z);
	assert_string_equal(text, two_points);
	outbox_done(&box);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_too_many_the_oldest_are_dropped_and_counted),
		cmocka_unit_test(their_bytes_are_bounded_too),
		cmocka_unit_test(gzip_gives_the_same_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

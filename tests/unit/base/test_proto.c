/* SPDX-License-Identifier: MIT
 *
 * Bytes computed by hand from protobuf.dev/programming-guides/encoding; tests/cli/test_export.py
 * decodes whole traces.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "base/proto.h"

static void expect(struct buf *out, const char *bytes, size_t len)
{
	assert_int_equal(out->error, 0);
	assert_int_equal(out->len, len);
	assert_memory_equal(out->data, bytes, len);
	buf_done(out);
}

static void test_numbers(void **state)
{
	struct buf out = BUF_INIT(1000);
	struct proto p;

	(void) state;
	proto_init(&p, &out);
	proto_uint(&p, 1, 150); /* the guide's first example */
	proto_uint(&p, 60, 0);
	proto_uint(&p, 2, UINT64_MAX);
	proto_int(&p, 3, -2);   /* ten bytes, as int32 and int64 have */
	proto_double(&p, 4, -2.0);
	expect(&out,
		"\x08\x96\x01"
		"\xe0\x03\x00"
		"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
		"\x18\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
		"\x21\x00\x00\x00\x00\x00\x00\x00\xc0",
		3 + 3 + 11 + 11 + 9);
}

/* Short lengths have one byte, longer ones four: continuation bits do not change a varint's value. */
static void test_texts_and_messages(void **state)
{
	struct buf out = BUF_INIT(1000);
	struct proto p;

	(void) state;
	proto_init(&p, &out);
	proto_begin(&p, 3);
	proto_uint(&p, 1, 150);
	proto_begin(&p, 2);
	proto_end(&p);
	proto_end(&p);
	proto_text(&p, 2, "a\xff\xc3\xa9");
	expect(&out,
		"\x1a\x05"
		"\x08\x96\x01"
		"\x12\x00"
		"\x12\x06"
		"a\xef\xbf\xbd\xc3\xa9",
		2 + 3 + 2 + 2 + 6);
}

static void test_a_long_message(void **state)
{
	struct buf out = BUF_INIT(1 << 20);
	struct proto p;

	(void) state;
	proto_init(&p, &out);
	proto_begin(&p, 1);
	for (unsigned i = 0; i < 10000; i++)
		proto_uint(&p, 1, 1);
	proto_end(&p);
	assert_int_equal(out.len, 20005);
	assert_memory_equal(out.data, "\x0a\xa0\x9c\x81\x00", 5); /* 20000 = 0x4e20 */
	buf_done(&out);
}

static void test_nesting_is_checked(void **state)
{
	struct buf out = BUF_INIT(1000);
	struct proto p;

	(void) state;
	proto_init(&p, &out);
	proto_end(&p);
	assert_int_equal(out.error, -EINVAL);
	buf_clear(&out);
	proto_init(&p, &out);
	for (unsigned i = 0; i < PROTO_DEPTH; i++)
		proto_begin(&p, 1);
	assert_int_equal(out.error, 0);
	proto_begin(&p, 1);
	assert_int_equal(out.error, -EINVAL);
	buf_done(&out);
}

static void test_no_room(void **state)
{
	struct buf out = BUF_INIT(12);
	struct proto p;

	(void) state;
	proto_init(&p, &out);
	proto_begin(&p, 1);
	proto_text(&p, 2, "longer than that");
	proto_end(&p);
	assert_int_equal(out.error, -EFBIG);
	buf_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_texts_and_messages),
		cmocka_unit_test(test_a_long_message),
		cmocka_unit_test(test_nesting_is_checked),
		cmocka_unit_test(test_no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

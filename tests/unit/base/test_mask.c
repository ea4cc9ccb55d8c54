/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mask.h"

/* A command line as in /proc/PID/cmdline, each argument with its NUL. */
#define COMMAND(block) mask_command(block "\0", sizeof(block), out, sizeof(out))

static char out[4097];

static void values_of_secret_options_are_hidden(void **state)
{
	(void) state;
	COMMAND("train\0--token=abc\0--lr=0.1");
	assert_string_equal(out, "train --token=*** --lr=0.1");
	COMMAND("train\0--api-key\0abc\0x");
	assert_string_equal(out, "train --api-key *** x");
	COMMAND("env\0AWS_SECRET_ACCESS_KEY=abc/def+g==\0HF_TOKEN=hf_x\0python");
	assert_string_equal(out, "env AWS_SECRET_ACCESS_KEY=*** HF_TOKEN=*** python");
	COMMAND("x\0--Password\0-abc\0--authToken=1");
	assert_string_equal(out, "x --Password *** --authToken=***");
	COMMAND("x\0-passwd=one two\0y");
	assert_string_equal(out, "x -passwd=*** two y");
}

static void options_behind_options_stay(void **state)
{
	(void) state;
	COMMAND("x\0--use-key\0--verbose\0a");
	assert_string_equal(out, "x --use-key --verbose a");
	COMMAND("x\0--use-key\0-v\0a");
	assert_string_equal(out, "x --use-key -v a");
}

static void names_that_only_look_like_it_stay(void **state)
{
	(void) state;
	COMMAND("python\0train.py\0--tokenizer\0bert\0--max_tokens=512\0--monkey=1\0--keyboard\0us\0compass=3\0key");
	assert_string_equal(out,
		"python train.py --tokenizer bert --max_tokens=512 --monkey=1 --keyboard us compass=3 key");
	assert_false(mask_is_secret("tokenizer", 9));
	assert_true(mask_is_secret("api_key", 7));
	assert_true(mask_is_secret("DB_PASSWORD", 11));
	assert_false(mask_is_secret("", 0));
}

static void secrets_inside_one_argument_are_hidden(void **state)
{
	(void) state;
	COMMAND("sh\0-c\0export TOKEN=abc; run --secret xyz 2>&1");
	assert_string_equal(out, "sh -c export TOKEN=***; run --secret *** 2>&1");
	COMMAND("curl\0-H\0Authorization: Bearer abc.def\0http://h/p?api_key=1&q=2");
	assert_string_equal(out, "curl -H Authorization: *** http://h/p?api_key=***&q=2");
	COMMAND("x\0{\"token\": \"a b\", \"n\": 1}");
	assert_string_equal(out, "x {\"token\": \"***\", \"n\": 1}");
	COMMAND("x\0password='a b' c");
	assert_string_equal(out, "x password='***' c");
}

static void passwords_in_urls_are_hidden(void **state)
{
	(void) state;
	COMMAND("psql\0postgres://joe:s3cr:t@db/x\0http://host:80/a@b\0git@host:path");
	assert_string_equal(out, "psql postgres://joe:***@db/x http://host:80/a@b git@host:path");
	COMMAND("git\0clone\0https://x-access-token:ghp_1@github.com/a/b");
	assert_string_equal(out, "git clone https://x-access-token:***@github.com/a/b");
}

static void control_characters_become_question_marks(void **state)
{
	(void) state;
	COMMAND("a\n\tb\x1b[0m\0caf\xc3\xa9\x7f");
	assert_string_equal(out, "a??b?[0m caf\xc3\xa9?");
}

static void trailing_nuls_and_empty_arguments(void **state)
{
	(void) state;
	COMMAND("nginx: worker process\0\0\0\0");
	assert_string_equal(out, "nginx: worker process");
	COMMAND("a\0\0b");
	assert_string_equal(out, "a  b");
	assert_int_equal(mask_command("", 0, out, sizeof(out)), 0);
	assert_string_equal(out, "");
	COMMAND("x\0--token");
	assert_string_equal(out, "x --token");
	COMMAND("x\0--token=");
	assert_string_equal(out, "x --token=");
}

static void what_does_not_fit_is_cut(void **state)
{
	char small[8];

	(void) state;
	assert_int_equal(mask_command("abc\0defghij", 12, small, sizeof(small)), 7);
	assert_string_equal(small, "abc def");
	assert_int_equal(mask_command("abcdefg\0hij", 12, small, sizeof(small)), 7);
	assert_string_equal(small, "abcdefg");
	assert_int_equal(mask_command("abc", 3, small, 1), 0);
}

/* No byte of a secret remains, wherever the command is truncated. */
static void a_cut_never_shows_a_secret(void **state)
{
	static const char block[] = "x\0--token=SSSSSS\0--key\0SSSS\0sh -c 'password: SSSS'\0u://a:SSS@h";
	const size_t at = (size_t) ((const char *) memchr(block, '@', sizeof(block)) - block);
	char shown[64];

	(void) state;
	for (size_t len = 0; len <= sizeof(block); len++) {
		for (size_t size = 1; size <= sizeof(shown); size++) {
			size_t n = mask_command(block, len, shown, size);

			assert_true(n < size);
			/* Only the '@' after it shows that a part of a URL is a password. */
			if (len <= at - 3 || len > at)
				assert_null(strchr(shown, 'S'));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_of_secret_options_are_hidden),
		cmocka_unit_test(options_behind_options_stay),
		cmocka_unit_test(names_that_only_look_like_it_stay),
		cmocka_unit_test(secrets_inside_one_argument_are_hidden),
		cmocka_unit_test(passwords_in_urls_are_hidden),
		cmocka_unit_test(control_characters_become_question_marks),
		cmocka_unit_test(trailing_nuls_and_empty_arguments),
		cmocka_unit_test(what_does_not_fit_is_cut),
		cmocka_unit_test(a_cut_never_shows_a_secret),
	};

	return cmocka_run_group_tests_name("mask", tests, NULL, NULL);
}

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
	COMMAND("x\0--Password\0-abc\0--authToken=abc");
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
	COMMAND("curl\0-H\0Authorization: Bearer abc.def\0http://h/p?api_key=abc&q=2");
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

/* Each: the arguments, and what is stored of them. */
struct masked {
	const char *block;
	size_t len;
	const char *shown;
};

#define MASKED(block, shown) { block "\0", sizeof(block), shown }

static void check(const struct masked *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		(void) mask_command(cases[i].block, cases[i].len, out, sizeof(out));
		assert_string_equal(out, cases[i].shown);
	}
}

#define CHECK(cases) check(cases, sizeof(cases) / sizeof((cases)[0]))

static void passwords_in_options_of_known_programs_are_hidden(void **state)
{
	static const struct masked cases[] = {
		MASKED("mysql\0-uroot\0-pSECRET\0db", "mysql -uroot -p*** db"),
		MASKED("/usr/bin/mysqldump\0-p\0db", "/usr/bin/mysqldump -p db"), /* it asks; db is the database */
		MASKED("mariadb-admin\0-pSE;CR ET\0ping", "mariadb-admin -p*** ping"),
		MASKED("psql\0-p5432\0-Uana", "psql -p5432 -Uana"),
		MASKED("psql\0-h\0mysql\0-p5432", "psql -h mysql -p5432"),
		MASKED("mongosh\0-u\0a\0-p\0SECRET\0--port\0"
		       "1",
			"mongosh -u a -p *** --port 1"),
		MASKED("mongodump\0-pSECRET", "mongodump -p***"),
		MASKED("redis-cli\0-h\0h\0-a\0SECRET\0ping", "redis-cli -h h -a *** ping"),
		MASKED("curl\0-u\0ana:SECRET\0https://h/", "curl -u ana:*** https://h/"),
		MASKED("curl\0-uana:SECRET\0h", "curl -uana:*** h"),
		MASKED("curl\0-sSu\0ana:SEC RET\0h", "curl -sSu ana:*** h"),
		MASKED("curl\0--user\0ana:SECRET\0--proxy-user=b:SECRET\0h",
			"curl --user ana:*** --proxy-user=b:*** h"),
		MASKED("curl\0-u\0ana\0-o\0a:b\0h", "curl -u ana -o a:b h"),
		MASKED("wget\0--user=ana\0--password=SECRET\0h", "wget --user=ana --password=*** h"),
		MASKED("docker\0run\0--user\0"
		       "1000:1000\0-u\0"
		       "1:1\0-p80:80\0image",
			"docker run --user 1000:1000 -u 1:1 -p80:80 image"),
		MASKED("docker\0run\0--name\0mysql\0-p3306:3306\0x", "docker run --name mysql -p3306:3306 x"),
		MASKED("docker\0exec\0-it\0db\0mysql\0-pSECRET", "docker exec -it db mysql -p***"),
		MASKED("kubectl\0exec\0pod\0--\0mysql\0-pSECRET", "kubectl exec pod -- mysql -p***"),
		MASKED("docker\0login\0-u\0a\0-p\0SECRET", "docker login -u a -p ***"),
		MASKED("sudo\0-E\0mysql\0-pSECRET", "sudo -E mysql -p***"),
		MASKED("hiwater\0run\0--\0mysql\0-pSECRET", "hiwater run -- mysql -p***"),
		MASKED("env\0MYSQL_HOST=h\0mysql\0-pSECRET", "env MYSQL_HOST=h mysql -p***"),
		MASKED("sshpass\0-p\0SECRET\0ssh\0-p\0"
		       "22\0h",
			"sshpass -p *** ssh -p 22 h"),
		MASKED("ssh\0-p22\0h", "ssh -p22 h"),
		MASKED("ldapsearch\0-D\0cn\0-w\0SECRET", "ldapsearch -D cn -w ***"),
		MASKED("cp\0-pr\0a\0b", "cp -pr a b"),
		MASKED("./with-retries\0mysql\0-pSECRET", "./with-retries mysql -p***"),
	};

	(void) state;
	CHECK(cases);
}

static void programs_are_known_by_their_whole_name(void **state)
{
	static const struct masked cases[] = {
		MASKED("mongo-train\0-p\0SHOWN", "mongo-train -p SHOWN"),
		MASKED("mysqlike\0-pSHOWN", "mysqlike -pSHOWN"),
		MASKED("ldap-sync\0-w\0SHOWN", "ldap-sync -w SHOWN"),
		MASKED("7zip-bench\0-pSHOWN", "7zip-bench -pSHOWN"),
		MASKED("mysqladmin\0-pSECRET", "mysqladmin -p***"),
		MASKED("mongorestore\0-p\0"
		       "1234",
			"mongorestore -p ***"),
		MASKED("ldapwhoami\0-w\0SECRET", "ldapwhoami -w ***"),
		MASKED("7za\0-pSECRET", "7za -p***"),
		MASKED("zip -P 4 threads done", "zip -P 4 threads done"),
		MASKED("zip\0-P\0SECRET", "zip -P ***"),
	};

	(void) state;
	CHECK(cases);
}

static void the_last_word_of_a_name_decides(void **state)
{
	static const struct masked cases[] = {
		MASKED("x\0key_frames=300000001\0token_count=500000001\0--num_key_value_heads\0abc\0key_size=a",
			"x key_frames=300000001 token_count=500000001 --num_key_value_heads abc key_size=a"),
		MASKED("x\0x_token=SECRET\0API_KEY_1=SECRET\0secret_key=SECRET\0token_secret=SECRET",
			"x x_token=*** API_KEY_1=*** secret_key=*** token_secret=***"),
		MASKED("x\0DB_PASSWORD_PROD=SECRET\0secret_key_base=SECRET\0token2=SECRET",
			"x DB_PASSWORD_PROD=*** secret_key_base=*** token2=***"),
	};

	(void) state;
	CHECK(cases);
}

static void small_numbers_stay_except_those_of_passwords(void **state)
{
	static const struct masked cases[] = {
		MASKED("n_keys=7 key_size=5 auth=3ms, key=0.5s; pass=3 fail=0", "n_keys=7 key_size=5 auth=3ms, key=0.5s; pass=3 fail=0"),
		MASKED("x\0{\"keys\": 7, \"token\": 12}\0--key\0"
		       "8\0--n-keys=9",
			"x {\"keys\": 7, \"token\": 12} --key 8 --n-keys=9"),
		MASKED("x\0password=1234\0--passwd\0"
		       "1\0db_pwd=12\0mysql\0-p1234",
			"x password=*** --passwd *** db_pwd=*** mysql -p***"),
		MASKED("x\0token=1234567\0key=3abc\0key=1a2b\0auth=3 pass", "x token=*** key=*** key=*** auth=3 pass"),
	};

	(void) state;
	CHECK(cases);
}

static void prose_stays(void **state)
{
	static const struct masked cases[] = {
		MASKED("token: 12 seen", "token: 12 seen"),
		MASKED("auth: ok, user 7", "auth: ok, user 7"),
		MASKED("credentials: loaded from file", "credentials: loaded from file"),
		MASKED("token: 0123456789abcdef", "token: ***"),
		MASKED("Authorization: Bearer SECRET", "Authorization: ***"),
		MASKED("auth: \"SECRET\"", "auth: \"***\""),
		MASKED("password: SECRET; key: \"SECRET\"; n", "password: ***"),
		MASKED("'password: SECRET' key: \"SECRET\" n", "'password: ***' key: \"***\" n"),
	};

	(void) state;
	CHECK(cases);
}

static void scripts_hide_the_same(void **state)
{
	static const struct masked cases[] = {
		MASKED("sh\0-c\0mysql -pSECRET db | gzip -p1 > x", "sh -c mysql -p*** db | gzip -p1 > x"),
		MASKED("sh\0-c\0cd x && X=1 mysqldump -p'SEC RET' db; psql -p5432",
			"sh -c cd x && X=1 mysqldump -p'***' db; psql -p5432"),
		MASKED("bash\0-c\0if curl -u \"ana:SEC RET\" h; then redis-cli -a SECRET; fi",
			"bash -c if curl -u \"ana:***\" h; then redis-cli -a ***; fi"),
		MASKED("sh\0-c\0ssh h 'mysql -pSECRET'", "sh -c ssh h 'mysql -p***'"),
		MASKED("sh\0-c\0x --password 'SEC RET' y", "sh -c x --password '***' y"),
		MASKED("sh\0-c\0curl -d \"{\\\"token\\\": \\\"SEC RET\\\", \\\"n\\\": 1}\" h",
			"sh -c curl -d \"{\\\"token\\\": \\\"***\\\", \\\"n\\\": 1}\" h"),
		MASKED("x\0{\"password\": \"SEC\\\"RET\", \"secret\": \"\", \"n\": 1}",
			"x {\"password\": \"***\", \"secret\": \"\", \"n\": 1}"),
	};

	(void) state;
	CHECK(cases);
}

static void headers_and_signed_urls_are_hidden(void **state)
{
	static const struct masked cases[] = {
		MASKED("curl\0-H\0X-Api-Key: SECRET\0-H\0private-token:SECRET\0h",
			"curl -H X-Api-Key: *** -H private-token:*** h"),
		MASKED("x\0{\"clientSecret\": \"SECRET\", \"sshKey\": \"SECRET\", \"keyboard\": \"us\"}",
			"x {\"clientSecret\": \"***\", \"sshKey\": \"***\", \"keyboard\": \"us\"}"),
		MASKED("x\0https://a.blob/c?sv=1&sig=SEC%2B&se=2", "x https://a.blob/c?sv=1&sig=***&se=2"),
		MASKED("x\0https://b.s3/k?X-Amz-Signature=SECRET&X-Amz-Date=2",
			"x https://b.s3/k?X-Amz-Signature=***&X-Amz-Date=2"),
		MASKED("x\0AccountName=a;AccountKey=SEC/RET+1==;EndpointSuffix=b",
			"x AccountName=a;AccountKey=***;EndpointSuffix=b"),
		MASKED("x\0--design=a\0design=a\0--signature\0f.sig", "x --design=a design=a --signature f.sig"),
		MASKED("git\0clone\0https://0123456789abcdef0123@h/a", "git clone https://***@h/a"),
		MASKED("git\0clone\0https://a1b2c3d4e5f6a7b8:x-oauth-basic@h/a", "git clone https://***:***@h/a"),
		MASKED("git\0clone\0ssh://continuousintegration@h/a\0ssh://git@h",
			"git clone ssh://continuousintegration@h/a ssh://git@h"),
	};

	(void) state;
	CHECK(cases);
}

#define LETTERS_36 "abcdefghijklmnopqrstuvwxyz0123456789"

static void tokens_are_known_by_their_shape(void **state)
{
	static const struct masked cases[] = {
		MASKED("x\0ghp_" LETTERS_36 "\0-t=gho_" LETTERS_36, "x ghp_*** -t=gho_***"),
		MASKED("x\0github_pat_11ABCDEFG0abcdefghij_" LETTERS_36, "x github_pat_***"),
		MASKED("x\0glpat-abcdefghij-0123456789", "x glpat-***"),
		MASKED("x\0hf_abcdefghijklmnopqrstuvwxyzABCDEFGH", "x hf_***"),
		MASKED("x\0sk-proj-abcdefghij_0123456789\0-k\0sk-0123456789abcdef0123", "x sk-proj-*** -k sk-***"),
		MASKED("x\0xoxb-123456789012-abcdef", "x xoxb-***"),
		MASKED("x\0eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.sig-nature_1", "x ***"),
		MASKED("sh\0-c\0x 'ghp_" LETTERS_36 "' y", "sh -c x 'ghp_***' y"),
		MASKED("x\0sk-ant-api03-abcd_efgh-0123456789\0sk-learn-pipeline-v1-2024-0000\0sk-abcdefghij0123456789-_x",
			"x sk-ant-*** sk-learn-pipeline-v1-2024-0000 sk-***"),
		/* too short, or words */
		MASKED("x\0ghp_short\0sk-learn\0sk-image-processing-pipeline\0hf_hub_download_something_long",
			"x ghp_short sk-learn sk-image-processing-pipeline hf_hub_download_something_long"),
		MASKED("x\0risk-0123456789abcdef0123\0eyJ.a.b\0glpat-1", "x risk-0123456789abcdef0123 eyJ.a.b glpat-1"),
	};

	(void) state;
	CHECK(cases);
}

static void text_is_masked_and_else_kept(void **state)
{
	char small[8];

	(void) state;
	assert_int_equal(mask_text("epoch 1\n\tlr=0.1", out, sizeof(out)), 15);
	assert_string_equal(out, "epoch 1\n\tlr=0.1");
	(void) mask_text("token=SECRET; mysql -pSECRET", out, sizeof(out));
	assert_string_equal(out, "token=***; mysql -p***");
	(void) mask_text("pass: 2 of 3; key: 7", out, sizeof(out));
	assert_string_equal(out, "pass: 2 of 3; key: 7");
	(void) mask_text("key: \"SECRET\"; pass=SECRET; X-Api-Key: SECRET", out, sizeof(out));
	assert_null(strstr(out, "SECRET"));
	assert_int_equal(mask_text("abcdefghij", small, sizeof(small)), 7);
	assert_string_equal(small, "abcdefg");
	assert_int_equal(mask_text("", out, sizeof(out)), 0);
	assert_string_equal(out, "");
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
	static const char block[] = "x\0--token=SSSSSS\0--key\0SSSS\0sh -c 'password: SSSS'\0u://a:SSS@h\0mysql\0-pSSSS\0sh -c \"curl -u a:SSSS\"";
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
		cmocka_unit_test(passwords_in_options_of_known_programs_are_hidden),
		cmocka_unit_test(programs_are_known_by_their_whole_name),
		cmocka_unit_test(the_last_word_of_a_name_decides),
		cmocka_unit_test(small_numbers_stay_except_those_of_passwords),
		cmocka_unit_test(prose_stays),
		cmocka_unit_test(scripts_hide_the_same),
		cmocka_unit_test(headers_and_signed_urls_are_hidden),
		cmocka_unit_test(tokens_are_known_by_their_shape),
		cmocka_unit_test(text_is_masked_and_else_kept),
		cmocka_unit_test(control_characters_become_question_marks),
		cmocka_unit_test(trailing_nuls_and_empty_arguments),
		cmocka_unit_test(what_does_not_fit_is_cut),
		cmocka_unit_test(a_cut_never_shows_a_secret),
	};

	return cmocka_run_group_tests_name("mask", tests, NULL, NULL);
}

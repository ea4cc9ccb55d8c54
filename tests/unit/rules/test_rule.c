/* SPDX-License-Identifier: MIT
 *
 * The grammar of rules: parsed terms, refused rules with their columns, evaluation on values.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/rule.h"

#define SECOND UINT64_C(1000000000)
#define GIB    0x1p30

static struct rule parsed(const char *text, enum rule_kind kind)
{
	struct rule rule;
	struct err err = { "" };

	if (rule_parse(text, kind, &rule, &err) < 0)
		fail_msg("\"%s\" is refused: %s", text, err.text);
	return rule;
}

/* ---- parsing ---- */

static const struct {
	const char *text, *name;
	enum rule_kind kind;
	enum rule_test test;
	enum rule_op op;
	double value;
	enum rule_whole whole;
	bool rate;
} terms[] = {
	{ "ram > 24GiB", "ram", RULE_ALERT, TEST_COMPARE, OP_GT, 24 * GIB, WHOLE_NONE, false },
	{ "job.ram>24GiB", "ram", RULE_ALERT, TEST_COMPARE, OP_GT, 24 * GIB, WHOLE_NONE, false },
	{ "ram >= 500 MB", "ram", RULE_ALERT, TEST_COMPARE, OP_GE, 5e8, WHOLE_NONE, false },
	{ "ram <= 8G", "ram", RULE_ALERT, TEST_COMPARE, OP_LE, 8 * GIB, WHOLE_NONE, false },
	{ "ram == 1024", "ram", RULE_ALERT, TEST_COMPARE, OP_EQ, 1024, WHOLE_NONE, false },
	{ "ram > 1", "ram", RULE_ALERT, TEST_COMPARE, OP_GT, 1, WHOLE_NONE, false },
	{ "ram.peak < 500", "ram.peak", RULE_CHECK, TEST_COMPARE, OP_LT, 500, WHOLE_NONE, false },
	{ "rss > 20", "process.rss", RULE_FILTER, TEST_COMPARE, OP_GT, 20, WHOLE_NONE, false },
	{ "ram != 1kB", "ram", RULE_ALERT, TEST_COMPARE, OP_NE, 1000, WHOLE_NONE, false },
	{ "ram > 90%", "ram", RULE_ALERT, TEST_COMPARE, OP_GT, 90, WHOLE_RAM, false },
	{ "ram > 90% of limit", "ram", RULE_ALERT, TEST_COMPARE, OP_GT, 90, WHOLE_LIMIT, false },
	{ "ram > 90 % of capacity", "ram", RULE_ALERT, TEST_COMPARE, OP_GT, 90, WHOLE_CAPACITY, false },
	{ "host.mem_used > 95%", "host.mem_used", RULE_ALERT, TEST_COMPARE, OP_GT, 95, WHOLE_CAPACITY,
		false },
	{ "process.rss < 1.5TiB", "process.rss", RULE_ALERT, TEST_COMPARE, OP_LT, 1.5 * 0x1p40, WHOLE_NONE,
		false },
	{ "ram.peak > 1GiB", "ram.peak", RULE_CHECK, TEST_COMPARE, OP_GT, GIB, WHOLE_NONE, false },
	{ "ram.mean > 1GiB", "ram.mean", RULE_CHECK, TEST_COMPARE, OP_GT, GIB, WHOLE_NONE, false },
	{ "processes > 100", "processes", RULE_ALERT, TEST_COMPARE, OP_GT, 100, WHOLE_NONE, false },
	{ "read_bytes > 100MB/s", "read_bytes", RULE_ALERT, TEST_COMPARE, OP_GT, 1e8, WHOLE_NONE, true },
	{ "read_bytes > 6GB/min", "read_bytes", RULE_ALERT, TEST_COMPARE, OP_GT, 1e8, WHOLE_NONE, true },
	{ "read_bytes > 6GB", "read_bytes", RULE_ALERT, TEST_COMPARE, OP_GT, 6e9, WHOLE_NONE, false },
	{ "cpu > 3.5 cores", "cpu", RULE_ALERT, TEST_COMPARE, OP_GT, 3.5e9, WHOLE_NONE, true },
	{ "cpu > 3.5", "cpu", RULE_ALERT, TEST_COMPARE, OP_GT, 3.5e9, WHOLE_NONE, true },
	{ "cpu > 90%", "cpu", RULE_ALERT, TEST_COMPARE, OP_GT, 90, WHOLE_CORES, true },
	{ "cpu > 10h", "cpu", RULE_ALERT, TEST_COMPARE, OP_GT, 36e12, WHOLE_NONE, false },
	{ "host.psi_mem > 10%", "host.psi_mem", RULE_ALERT, TEST_COMPARE, OP_GT, 1e8, WHOLE_NONE, true },
	{ "host.energy > 50W", "host.energy", RULE_ALERT, TEST_COMPARE, OP_GT, 5e7, WHOLE_NONE, true },
	{ "host.energy > 2Wh", "host.energy", RULE_ALERT, TEST_COMPARE, OP_GT, 7.2e9, WHOLE_NONE, false },
	{ "host.core_busiest < 5%", "host.core_busiest", RULE_ALERT, TEST_COMPARE, OP_LT, 5e4, WHOLE_NONE,
		false },
	{ "host.core_busiest < 0.05", "host.core_busiest", RULE_ALERT, TEST_COMPARE, OP_LT, 5e4, WHOLE_NONE,
		false },
	{ "time > 2h", "time", RULE_ALERT, TEST_COMPARE, OP_GT, 7200e9, WHOLE_NONE, false },
	{ "loss > -1.5e-3", "loss", RULE_ALERT, TEST_COMPARE, OP_GT, -1.5e-3, WHOLE_NONE, false },
	{ "\"ram\" > 5", "ram", RULE_ALERT, TEST_COMPARE, OP_GT, 5, WHOLE_NONE, false },
	{ "'eval loss' > 5", "eval loss", RULE_ALERT, TEST_COMPARE, OP_GT, 5, WHOLE_NONE, false },
	{ "train/loss-1 > .5", "train/loss-1", RULE_ALERT, TEST_COMPARE, OP_GT, .5, WHOLE_NONE, false },
	{ "accuracy < 90%", "accuracy", RULE_ALERT, TEST_COMPARE, OP_LT, .9, WHOLE_NONE, false },
	{ "torch.reserved > 2GiB", "torch.reserved", RULE_ALERT, TEST_COMPARE, OP_GT, 2 * GIB, WHOLE_NONE,
		false },
	{ "loss is nan", "loss", RULE_ALERT, TEST_NAN, OP_LT, 0, WHOLE_NONE, false },
	{ "loss is inf", "loss", RULE_ALERT, TEST_INF, OP_LT, 0, WHOLE_NONE, false },
	{ "swap is absent", "swap", RULE_ALERT, TEST_ABSENT, OP_LT, 0, WHOLE_NONE, false },
	{ "growth(ram) > 10MiB/min", "ram", RULE_ALERT, TEST_GROWTH, OP_GT, 10 * 0x1p20 / 60, WHOLE_NONE,
		false },
	{ "growth( loss , 10m ) > 0.6/min", "loss", RULE_ALERT, TEST_GROWTH, OP_GT, 0.01, WHOLE_NONE, false },
	{ "growth(ram) > 6%/min", "ram", RULE_ALERT, TEST_GROWTH, OP_GT, .1, WHOLE_RAM, false },
	{ "no step for 5m", "step", RULE_ALERT, TEST_SILENT, OP_LT, 0, WHOLE_NONE, false },
	{ "no step for 5x median", "step", RULE_ALERT, TEST_SILENT, OP_LT, 0, WHOLE_MEDIAN, false },
	{ "exit != 0", "exit", RULE_ALERT, TEST_COMPARE, OP_NE, 0, WHOLE_NONE, false },
	{ "host.load1 > 3.5", "host.load1", RULE_ALERT, TEST_COMPARE, OP_GT, 3.5e6, WHOLE_NONE, false },
	{ "process.name ~ ^py", "process.name", RULE_ALERT, TEST_MATCH, OP_LT, 0, WHOLE_NONE, false },
	{ "command ~ 'train [a-z]+'", "process.command", RULE_FILTER, TEST_MATCH, OP_LT, 0, WHOLE_NONE,
		false },
	{ "gpu.mem > 95%", "gpu.mem", RULE_ALERT, TEST_COMPARE, OP_GT, 95, WHOLE_GPU, false },
	{ "gpu0.mem > 8GiB", "gpu0.mem", RULE_ALERT, TEST_COMPARE, OP_GT, 8 * GIB, WHOLE_NONE, false },
	{ "gpu[7].mem > 8GiB", "gpu7.mem", RULE_ALERT, TEST_COMPARE, OP_GT, 8 * GIB, WHOLE_NONE, false },
	{ "gpu.busy < 5%", "gpu.busy", RULE_ALERT, TEST_COMPARE, OP_LT, 5e4, WHOLE_NONE, false },
	{ "gpu.temp > 85C", "gpu.temp", RULE_ALERT, TEST_COMPARE, OP_GT, 85e3, WHOLE_NONE, false },
	{ "gpu.power > 300W", "gpu.power", RULE_ALERT, TEST_COMPARE, OP_GT, 3e8, WHOLE_NONE, false },
	{ "gpu.clock_sm < 1.2GHz", "gpu.clock_sm", RULE_ALERT, TEST_COMPARE, OP_LT, 1.2e9, WHOLE_NONE,
		false },
	{ "gpu.mem = 8GiB", "gpu.job_mem", RULE_LIMIT, TEST_COMPARE, OP_GE, 8 * GIB, WHOLE_NONE, false },
	{ "gpu1.mem = 90%", "gpu1.job_mem", RULE_LIMIT, TEST_COMPARE, OP_GE, 90, WHOLE_GPU, false },
	{ "gpu.mem > 1GiB", "gpu_process.mem", RULE_FILTER, TEST_COMPARE, OP_GT, GIB, WHOLE_NONE, false },
	{ "gpu.busy > 5%", "gpu_process.sm_busy", RULE_FILTER, TEST_COMPARE, OP_GT, 5e4, WHOLE_NONE, false },
	{ "loss > +3", "loss", RULE_ALERT, TEST_COMPARE, OP_GT, 3, WHOLE_NONE, false },
	{ "rss > 1GiB", "process.rss", RULE_FILTER, TEST_COMPARE, OP_GT, GIB, WHOLE_NONE, false },
	{ "pid == 4711", "process.pid", RULE_FILTER, TEST_COMPARE, OP_EQ, 4711, WHOLE_NONE, false },
	{ "ram = 24GiB", "ram", RULE_LIMIT, TEST_COMPARE, OP_GE, 24 * GIB, WHOLE_NONE, false },
	{ "ram=50% of capacity", "ram", RULE_LIMIT, TEST_COMPARE, OP_GE, 50, WHOLE_CAPACITY, false },
	{ "time = 1:30:00", NULL, RULE_LIMIT, TEST_COMPARE, OP_GE, 0, WHOLE_NONE, false },
	{ "time = 2h", "time", RULE_LIMIT, TEST_COMPARE, OP_GE, 7200e9, WHOLE_NONE, false },
	{ "ram.peak > +5%", "ram.peak", RULE_COMPARE, TEST_COMPARE, OP_GT, 105, WHOLE_BASE, false },
	{ "ram.peak < -5%", "ram.peak", RULE_COMPARE, TEST_COMPARE, OP_LT, 95, WHOLE_BASE, false },
	{ "ram.peak > 110%", "ram.peak", RULE_COMPARE, TEST_COMPARE, OP_GT, 110, WHOLE_BASE, false },
	/* cores */
	{ "cpu.mean > +5%", "cpu.mean", RULE_COMPARE, TEST_COMPARE, OP_GT, 105, WHOLE_BASE, true },
	{ "host.cpu.mean < 50%", "host.cpu.mean", RULE_COMPARE, TEST_COMPARE, OP_LT, 50, WHOLE_BASE, true },
	{ "gpu.energy.mean > +5%", "gpu.energy.mean", RULE_COMPARE, TEST_COMPARE, OP_GT, 105, WHOLE_BASE,
		true },
	/* seconds in all */
	{ "cpu.last > +5%", "cpu.last", RULE_COMPARE, TEST_COMPARE, OP_GT, 105, WHOLE_BASE, false },
	{ "loss.mean > +5%", "loss.mean", RULE_COMPARE, TEST_COMPARE, OP_GT, 105, WHOLE_BASE, false },
};

static void test_terms(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(terms) / sizeof(*terms); i++) {
		char name[RULE_NAME];

		if (!terms[i].name)
			continue;
		struct rule rule = parsed(terms[i].text, terms[i].kind);
		const struct rule_term *t = &rule.terms[0];

		print_message("%s\n", terms[i].text);
		assert_int_equal(rule.n_terms, 1);
		assert_string_equal(rule_name_text(&t->name, name), terms[i].name);
		assert_int_equal(t->test, terms[i].test);
		assert_int_equal(t->whole, terms[i].whole);
		assert_int_equal(t->rate, terms[i].rate);
		if (t->test == TEST_COMPARE || t->test == TEST_GROWTH) {
			assert_int_equal(t->op, terms[i].op);
			assert_true(fabs(t->value - terms[i].value) <= 1e-9 * fabs(terms[i].value));
		}
		rule_done(&rule);
	}
}

static void test_around_the_expression(void **state)
{
	struct rule rule = parsed("  error: ram > 1GiB for 1m30s ", RULE_ALERT);

	(void) state;
	assert_int_equal(rule.level, RULE_ERROR);
	assert_true(rule.for_ns == 90 * SECOND);
	assert_string_equal(rule.text, "error: ram > 1GiB for 1m30s");
	rule_done(&rule);
	rule = parsed("ram > 1 GiB for 90 s", RULE_ALERT); /* blanks as in amounts */
	assert_true(rule.for_ns == 90 * SECOND);
	rule_done(&rule);
	rule = parsed("info:ram > 1B", RULE_ALERT);
	assert_int_equal(rule.level, RULE_INFO);
	assert_int_equal(rule.quantifier, RULE_BARE);
	rule_done(&rule);
	rule = parsed("always ram < 1GiB", RULE_CHECK);
	assert_int_equal(rule.level, RULE_WARN);
	assert_int_equal(rule.quantifier, RULE_ALWAYS);
	assert_int_equal(rule.terms[0].op, OP_GE);
	rule_done(&rule);
	rule = parsed("never loss is nan for 5s", RULE_CHECK);
	assert_int_equal(rule.quantifier, RULE_NEVER);
	assert_false(rule.terms[0].negated);
	rule_done(&rule);
}

static void test_subject(void **state)
{
	static const struct {
		const char *text;
		enum entity subject;
	} subjects[] = {
		{ "ram > 1B", ENTITY_JOB },
		{ "host.mem_used > 1B and loss > 1", ENTITY_JOB },
		{ "ram > 1B and process.rss > 1B", ENTITY_PROCESS },
		{ "process.name ~ x", ENTITY_PROCESS },
		{ "gpu.mem > 1B and ram > 1B", ENTITY_GPU },
		{ "gpu0.mem > 1B and gpu1.mem > 1B", ENTITY_JOB },
		{ "gpu0.mem > 1B and process.rss > 1B", ENTITY_PROCESS },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(subjects) / sizeof(*subjects); i++) {
		struct rule rule = parsed(subjects[i].text, RULE_ALERT);

		assert_int_equal(rule.subject, subjects[i].subject);
		rule_done(&rule);
	}
}

/* ---- errors ---- */

static const struct {
	const char *text;
	enum rule_kind kind;
	int column;
	const char *says;
} refused[] = {
	{ "", RULE_ALERT, 0, "empty" },
	{ "ram = 24", RULE_LIMIT, 7, "write it as 24GiB" },
	{ "gpu.busy < 5", RULE_ALERT, 12, "5% or 0.05" },
	{ "cpu > 250%", RULE_ALERT, 7, "2.5 cores" },
	{ "gpu.mem > 95", RULE_ALERT, 11, "95GiB or 95%, or 95B" },
	{ "ram.peak < 95", RULE_CHECK, 12, "or 95%" },
	{ "ram > +5%", RULE_ALERT, 7, "a sign is for compare" },
	{ "ram.peak < +5%", RULE_CHECK, 12, "a sign is for compare" },
	{ "ram > +5GiB", RULE_ALERT, 7, "a sign is for compare" },
	{ "ram > 1e400GiB", RULE_ALERT, 7, "too large" },
	{ "ram = -3GiB", RULE_LIMIT, 7, "above 0" },
	{ "time = 0s", RULE_LIMIT, 8, "above 0" },
	{ "ever ram > 1GiB", RULE_ALERT, 1, "hiwater check" },
	{ "error: never ram > 1GiB", RULE_ALERT, 8, "hiwater check" },
	{ "always ram.peak > 1GiB", RULE_COMPARE, 1, "hiwater check" },
	{ "ram > 5%", RULE_COMPARE, 1, "ram.peak, ram.mean or ram.last" },
	{ "ram.peak > 1GiB and cpu > 5%", RULE_COMPARE, 21, "cpu.peak" },
	{ "growth(ram) > 1MiB/s", RULE_COMPARE, 1, "whole run" },
	{ "ram > 1GiB", RULE_FILTER, 1, "did you mean 'rss'" },
	{ "cmd ~ x", RULE_FILTER, 1, "did you mean 'command'" },
	{ "host.load1 > 1", RULE_FILTER, 1, "not a value of a process" },
	{ "gpu.power > 1W", RULE_FILTER, 1, "not a value of a process" },
	{ "gpu0.mem > 1GiB", RULE_FILTER, 1, "not a value of a process" },
	{ "foo > 3", RULE_FILTER, 1, "unknown name 'foo' for processes" },
	{ "ram > 1GiB for 3 x", RULE_ALERT, 18, "'for' before a duration" },
	{ "RAM > 1GiB", RULE_ALERT, 1, "did you mean 'ram'?" },
	{ "memory > 1GiB", RULE_ALERT, 1, "did you mean 'ram'?" },
	{ "ram.peek < 1GiB", RULE_CHECK, 1, "use ram.peak" },
	{ "critical: ram > 1GiB", RULE_ALERT, 1, "unknown level 'critical'" },
	{ "loss == nan", RULE_ALERT, 9, "write NAME is nan" },
	{ "exit > 5MB", RULE_ALERT, 8, "expected an exit status" },
	{ "exit = 5", RULE_LIMIT, 1, "a current value" },
	{ "growth(exit) > 5/s", RULE_ALERT, 12, "growth() takes a metric" },
	{ "no step for 5x", RULE_ALERT, 13, "5x median" },
	{ "no step for 1x median", RULE_ALERT, 13, "above 1" },
	{ "gpu.memm > 5GiB", RULE_ALERT, 1, "did you mean 'gpu.mem'?" },
	{ "gpu > 90%", RULE_ALERT, 1, "did you mean 'gpu.busy'?" },
	{ "gpu0 > 90%", RULE_ALERT, 1,
		"unknown name 'gpu0'; did you mean 'gpu0.busy'? For a user series of this name, write \"gpu0\" in quotes" },
	{ "GPU[12].peak > 90%", RULE_ALERT, 1, "did you mean 'gpu12.busy'?" },
	{ "gpu1 > 90%", RULE_LIMIT, 1, "did you mean 'gpu1.busy'?" },
	{ "gpu1 > 1GiB", RULE_FILTER, 1, "did you mean 'gpu.mem'?" },
	{ "gpu > 1GiB", RULE_FILTER, 1, "did you mean 'gpu.mem'?" },
	{ "gpu.p > 5W", RULE_ALERT, 1, "did you mean 'gpu.power'?" },
	{ "gpu0.ener > 5J", RULE_ALERT, 1, "did you mean 'gpu0.energy'?" },
	{ "gpu.cpu > 5", RULE_ALERT, 1, "unknown name 'gpu.cpu'; docs/metrics.md" },
	{ "gpu. > 5", RULE_ALERT, 1, "unknown name 'gpu.'; docs/metrics.md" },
	{ "gpu.util > 5%", RULE_ALERT, 1,
		"unknown name 'gpu.util'; docs/metrics.md lists all names, for example gpu.busy" },
	{ "job.thread > 5", RULE_ALERT, 1, "did you mean 'job.threads'?" },
	{ "process.rsss > 5GiB", RULE_FILTER, 1, "did you mean 'process.rss'?" },
	{ "busy < 5%", RULE_ALERT, 1, "did you mean 'gpu.busy'?" },
	{ "gpu.mem > 5% of limit", RULE_ALERT, 17, "has no limit" },
	{ "gpu.mem > 5GiB and process.rss > 1GiB", RULE_ALERT, 20, "not both" },
	{ "gpu[1.mem > 1", RULE_ALERT, 1, "unknown name" },
	{ "  ", RULE_LIMIT, 0, "ram = 24GiB" },
	{ "ram", RULE_ALERT, 4, "expected <" },
	{ "ram >", RULE_ALERT, 6, "expected a number" },
	{ "ram > x", RULE_ALERT, 7, "expected a number" },
	{ "ram > 5GBi", RULE_ALERT, 8, "unknown unit" },
	{ "ram > 5GiB/x", RULE_ALERT, 8, "unknown unit" },
	{ "ram > 5s", RULE_ALERT, 7, "write it as 24GiB" },
	{ "ram = 5GiB", RULE_ALERT, 5, "==" },
	{ "ram == 5GiB", RULE_LIMIT, 5, "NAME = VALUE" },
	{ "ram > 5GiB", RULE_LIMIT, 5, "NAME = VALUE" },
	{ "loss = 5", RULE_LIMIT, 1, "unknown name 'loss'" },
	{ "ram.peak = 5GiB", RULE_LIMIT, 1, "a current value" },
	{ "rma > 5GiB", RULE_ALERT, 1, "did you mean 'ram'?" },
	{ "rss > 5GiB", RULE_ALERT, 1, "did you mean 'process.rss'?" },
	{ "process.rsss > 5GiB", RULE_ALERT, 1, "did you mean 'process.rss'?" },
	{ "host.nothing_like_it > 5", RULE_ALERT, 1, "docs/metrics.md" },
	{ "ram > 5GiB ram > 4", RULE_ALERT, 12, "'and' or 'or'" },
	{ "(ram > 5GiB", RULE_ALERT, 1, "not closed" },
	{ "ram > 5GiB)", RULE_ALERT, 11, "'for' before a duration" },
	{ "ram > 5GiB and", RULE_ALERT, 15, "missing name" },
	{ "ram > 5GiB and 7 > 5", RULE_ALERT, 16, "expected a name" },
	{ "'ram > 5", RULE_ALERT, 1, "quote" },
	{ "ram > 5GiB for", RULE_ALERT, 15, "duration" },
	{ "ram > 5GiB for soon", RULE_ALERT, 16, "duration" },
	{ "ram > 5GiB for 0s", RULE_ALERT, 16, "duration" },
	{ "rss > 5GiB for 3s", RULE_FILTER, 12, "alerts and checks" },
	{ "always ram > 5B for 3s", RULE_CHECK, 17, "whole time" },
	{ "loss is big", RULE_ALERT, 9, "nan, inf or absent" },
	{ "no step", RULE_ALERT, 8, "no NAME for 5m" },
	{ "no time for 5m", RULE_ALERT, 9, "always has a value" },
	{ "growth(ram) > 10MiB", RULE_ALERT, 15, "10MiB/min" },
	{ "growth(ram > 10MiB/min", RULE_ALERT, 12, "not closed" },
	{ "growth ram > 10MiB/min", RULE_ALERT, 7, "growth(NAME)" },
	{ "growth(ram.peak) > 10MiB/min", RULE_ALERT, 16, "growth() takes a metric" },
	{ "growth(ram, 1ms) > 10MiB/min", RULE_ALERT, 13, "at least 1 s" },
	{ "ram > 5GiB/min", RULE_ALERT, 7, "growth(ram)" },
	{ "host.disk_free < 5%", RULE_ALERT, 18, "to take a percentage of" },
	{ "processes > 5%", RULE_ALERT, 13, "to take a percentage of" },
	{ "ram > 5GiB of limit", RULE_ALERT, 15, "only a percentage" },
	{ "ram > 5% of it", RULE_ALERT, 13, "limit or capacity" },
	{ "ram => 5GiB", RULE_ALERT, 5, "write >=" },
	{ "ram > 5GiB fro 30s", RULE_ALERT, 12, "'for' before a duration" },
	{ "cpu > 5% of limit", RULE_ALERT, 13, "no such limit" },
	{ "ram.peak > +5MiB", RULE_COMPARE, 12, "+5%" },
	{ "ram.peak > +5% of limit", RULE_COMPARE, 19, "of the base run's figure; remove of limit" },
	{ "gpu.mem.peak > 50% of capacity", RULE_COMPARE, 23, "remove of capacity" },
	{ "process.name > 5", RULE_ALERT, 16, "~ PATTERN" },
	{ "ram ~ x", RULE_ALERT, 5, "to texts" },
	{ "name ~ ((", RULE_FILTER, 8, "invalid pattern" },
	{ "name ~ a{3}", RULE_FILTER, 8, "{ and" },
	{ "name ~", RULE_FILTER, 7, "expected a pattern" },
	/* characters are counted, not bytes */
	{ "\xc3\xa4\xc3\xb6 > x", RULE_ALERT, 6, "expected a number" },
	{ "not not not not not not not not not not not not not not not not ram > 5B", RULE_ALERT, 65,
		"deep" },
	{ "a>1 or a>1 or a>1 or a>1 or a>1 or a>1 or a>1 or a>1 or a>1 or a>1 or a>1 or a>1 or a>1 or a>1 or a>1 or a>1 or a>1",
		RULE_ALERT, 113, "split the rule" },
};

static void test_refused(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		struct err err = { "" };
		struct rule rule;
		char column[24];

		print_message("%s\n", refused[i].text);
		assert_int_equal(rule_parse(refused[i].text, refused[i].kind, &rule, &err), -EINVAL);
		assert_int_equal(rule.n_terms, 0);
		(void) snprintf(column, sizeof(column), "column %d: ", refused[i].column);
		if (!strstr(err.text, refused[i].says) ||
			(refused[i].column && strncmp(err.text, column, strlen(column)) != 0))
			fail_msg("expected \"%s%s\", got: %s", column, refused[i].says, err.text);
	}
}

static void test_caret(void **state)
{
	struct err err = { "" };
	struct rule rule;

	(void) state;
	assert_int_equal(rule_parse("ram > 5GiB and process.rsss > 4", RULE_ALERT, &rule, &err), -EINVAL);
	assert_string_equal(err.text, "column 16: unknown name 'process.rsss'; did you mean 'process.rss'?\n"
				      "  ram > 5GiB and process.rsss > 4\n"
				      "                 ^");
}

static void test_long_rule_error(void **state)
{
	char text[2 * RULE_TEXT];
	struct err err = { "" };
	struct rule rule;

	(void) state;
	memset(text, ' ', sizeof(text));
	(void) snprintf(text + 200, 20, "ram > x");
	assert_int_equal(rule_parse(text, RULE_ALERT, &rule, &err), -EINVAL);
	assert_non_null(strstr(err.text, "column 207"));
	assert_true(strlen(err.text) < 300);
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(rule_parse(text, RULE_ALERT, &rule, &err), -EINVAL);
	assert_non_null(strstr(err.text, "255 bytes"));
}

/* ---- evaluation ---- */

/* Values by the first letter of a series' name; the base of any percentage is 200. */
struct values {
	struct rule_value of[26];
};

static void lookup(void *ctx, const struct rule *rule, size_t term, struct rule_value *ret)
{
	const struct values *v = ctx;
	const struct rule_name *name = &rule->terms[term].name;

	*ret = v->of[name->what == RULE_SERIES ? name->series[0] - 'a' : 25];
	ret->whole_known = true;
	ret->whole = 200;
}

static struct rule_value at(double value)
{
	return (struct rule_value) { .known = true, .low = value, .value = value, .high = value };
}

static bool holds(const char *text, struct values *v)
{
	struct rule rule = parsed(text, RULE_ALERT);
	const bool r = rule_holds(&rule, lookup, v, NULL);

	rule_done(&rule);
	return r;
}

static void test_evaluation(void **state)
{
	struct values v = { 0 };

	(void) state;
	v.of['a' - 'a'] = at(1);
	v.of['b' - 'a'] = at(2);
	v.of['n' - 'a'] = at((double) NAN);
	v.of['i' - 'a'] = at((double) -INFINITY);
	v.of['z' - 'a'] = at(190); /* ram */
	assert_true(holds("aa < 2", &v));
	assert_false(holds("aa < 1", &v));
	assert_true(holds("aa <= 1 and bb >= 2", &v));
	assert_true(holds("aa > 1 or bb > 1 and aa == 1", &v)); /* and binds closer */
	assert_false(holds("(aa > 1 or bb > 1) and aa != 1", &v));
	assert_true(holds("not aa > 1", &v));
	assert_true(holds("not (aa > 1 or bb > 2)", &v));
	assert_false(holds("not (aa > 1 or bb > 1)", &v));
	assert_true(holds("not (aa > 1 and bb > 1)", &v));
	assert_true(holds("not not aa == 1", &v));
	assert_true(holds("nn is nan and ii is inf and not aa is nan", &v));
	assert_true(holds("aa is not nan", &v));
	assert_true(holds("ram > 90%", &v));
	assert_false(holds("ram > 96%", &v));
	/* Comparisons with NaN and with absent values are false. */
	assert_false(holds("nn > 1 or nn <= 1 or nn != 1", &v));
	assert_false(holds("not nn > 1", &v));
	assert_false(holds("cc > 1 or cc <= 1 or cc is nan", &v));
	assert_false(holds("not cc > 1", &v));
	assert_false(holds("cc is not nan", &v));
	assert_true(holds("cc is absent and not aa is absent", &v));
}

/* A window from a recording has extremes: without a span, true if ever; with a span, if always. */
static void test_windows(void **state)
{
	struct values v = { 0 };

	(void) state;
	v.of[0] = (struct rule_value) { .known = true, .low = 1, .value = 5, .high = 9 };
	assert_true(holds("aa > 8", &v));
	assert_false(holds("aa > 8 for 1s", &v));
	assert_true(holds("aa > 0 for 1s", &v));
	assert_true(holds("aa < 2", &v));
	assert_false(holds("aa < 2 for 1s", &v));
	assert_true(holds("aa < 10 for 1s", &v));
	assert_true(holds("not aa < 8", &v)); /* at some moment it was not */
	assert_true(holds("aa == 5", &v));
}

static void test_deciding_term(void **state)
{
	struct values v = { 0 };
	struct rule rule = parsed("cc > 1 or aa > 5 or bb > 1", RULE_ALERT);
	struct rule_seen seen;
	char text[RULE_VALUE_TEXT], name[RULE_NAME];

	(void) state;
	v.of[0] = at(1);
	v.of[1] = at(2);
	assert_true(rule_holds(&rule, lookup, &v, &seen));
	assert_string_equal(rule_name_text(&seen.term->name, name), "bb");
	assert_string_equal(rule_value_text(seen.term, &seen.value, text), "2");
	assert_true(seen.missing); /* cc */
	v.of[1] = at(0);
	assert_false(rule_holds(&rule, lookup, &v, &seen));
	assert_string_equal(rule_name_text(&seen.term->name, name), "aa");
	rule_done(&rule);
}

static void test_relative(void **state)
{
	struct rule rule = parsed("loss.last > +5%", RULE_COMPARE);
	struct rule_value v = { .known = true, .whole_known = true, .whole = -10 };

	(void) state;
	assert_true(fabs(rule_threshold(&rule.terms[0], &v) - -9.5) < 1e-9);
	v.whole = 10;
	assert_true(fabs(rule_threshold(&rule.terms[0], &v) - 10.5) < 1e-9);
	v.whole_known = false;
	assert_true(isnan(rule_threshold(&rule.terms[0], &v)));
	rule_done(&rule);
}

static void test_texts_of_values(void **state)
{
	static const struct {
		const char *rule;
		double value;
		const char *text;
	} texts[] = {
		{ "ram > 1B", 24 * GIB, "24.0 GiB" },
		{ "growth(ram) > 1B/min", 0x1p20, "60.0 MiB/min" },
		{ "growth(ram) > 1B/s", 0x1p20, "1.00 MiB/s" },
		{ "growth(loss) > 3/s", 4, "4/s" },
		{ "growth(loss) > 3/d", 0.5, "43200/d" },
		{ "growth(ram) > 1%/h", 0x1p20, "3.52 GiB/h" },
		{ "read_bytes > 1B/min", 0x1p20, "60.0 MiB/min" },
		{ "read_bytes > 1B/s", 0x1p20, "1.00 MiB/s" },
		{ "cpu > 1", 3.5e9, "3.5 cores" },
		{ "time > 1s", 90e9, "90 s" },
		{ "no step for 5m", 301e9, "5 min 1 s" },
		{ "host.core_busiest > 1%", 52000, "5.2%" },
		{ "host.energy > 1W", 5e7, "50 W" },
		{ "loss > 1", 0.125, "0.125" },
		{ "gpu.power > 1", 3e8, "300 W" },
		{ "gpu.temp > 1", 85e3, "85 C" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct rule rule = parsed(texts[i].rule, RULE_ALERT);
		const struct rule_value value = at(texts[i].value), none = { .known = false };
		char text[RULE_VALUE_TEXT];

		assert_string_equal(rule_value_text(&rule.terms[0], &value, text), texts[i].text);
		assert_string_equal(rule_value_text(&rule.terms[0], &none, text), "absent");
		rule_done(&rule);
	}
}

static void test_about_memory(void **state)
{
	struct rule rule = parsed("loss > 1 or swap > 1B", RULE_ALERT);

	(void) state;
	assert_int_equal(rule_memory(&rule), RULE_HOST_MEMORY);
	rule_done(&rule);
	rule = parsed("loss > 1 or gpu.mem > 95%", RULE_ALERT);
	assert_int_equal(rule_memory(&rule), RULE_GPU_MEMORY);
	rule_done(&rule);
	rule = parsed("gpu_mem > 1GiB", RULE_ALERT);
	assert_int_equal(rule_memory(&rule), RULE_GPU_MEMORY);
	rule_done(&rule);
	rule = parsed("loss > 1 or read_bytes > 1B or host.disk_free < 1GiB", RULE_ALERT);
	assert_int_equal(rule_memory(&rule), RULE_NO_MEMORY);
	rule_done(&rule);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_terms),
		cmocka_unit_test(test_around_the_expression),
		cmocka_unit_test(test_subject),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_caret),
		cmocka_unit_test(test_long_rule_error),
		cmocka_unit_test(test_evaluation),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_deciding_term),
		cmocka_unit_test(test_relative),
		cmocka_unit_test(test_texts_of_values),
		cmocka_unit_test(test_about_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

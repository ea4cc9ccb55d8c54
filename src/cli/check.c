/* SPDX-License-Identifier: MIT
 *
 * hiwater check: tests a run against rules; a gate for CI.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/measure.h"

enum {
	CHECK_PASS = 0,
	CHECK_FAIL = 1,
	CHECK_BAD_RULE = 2,
	CHECK_INCOMPLETE = 3,
	TEXT_MOST = 1 << 20
};

static struct {
	bool json;
} arg_check;

struct report {
	struct buf out;
	struct json json;
	bool failed, incomplete;
};

static const char *const words[] = { [HIW_PASS] = "pass", [HIW_FAIL] = "FAIL", [HIW_INCOMPLETE] = "?" };
static const char *const keys[] = {
	[HIW_PASS] = "pass", [HIW_FAIL] = "fail", [HIW_INCOMPLETE] = "incomplete"
};

static void add_json(struct json *j, const struct hiw_checked *c)
{
	json_object(j);
	json_key(j, "rule");
	json_str(j, c->rule);
	json_key(j, "result");
	json_str(j, keys[c->result]);
	json_key(j, "value");
	/* NaN with a time is a value that the job logged; without, there is no value */
	if (isnan(c->value) && !c->at_ns.known)
		json_null(j);
	else
		json_num(j, c->value);
	json_key(j, "at_s");
	json_seconds(j, (struct maybe) { c->at_ns.value, c->at_ns.known });
	json_key(j, "text");
	json_str(j, c->text);
	json_end(j);
}

static void see(void *ctx, const struct hiw_checked *c)
{
	struct report *r = ctx;

	r->failed |= c->result == HIW_FAIL;
	r->incomplete |= c->result == HIW_INCOMPLETE;
	if (arg_check.json)
		add_json(&r->json, c);
	else
		(void) buf_printf(&r->out, "%-4s  %s: %s\n", words[c->result], c->rule, c->text);
}

static int status_of(const struct report *r)
{
	return r->failed ? CHECK_FAIL : r->incomplete ? CHECK_INCOMPLETE
						      : CHECK_PASS;
}

static void begin_json(struct report *r, const char *path)
{
	json_init(&r->json, &r->out, false);
	json_object(&r->json);
	json_key(&r->json, "recording");
	json_str(&r->json, path);
	json_key(&r->json, "rules");
	json_array(&r->json);
}

static void end_json(struct report *r)
{
	json_end(&r->json);
	json_key(&r->json, "pass");
	json_bool(&r->json, status_of(r) == CHECK_PASS);
	json_end(&r->json);
	(void) buf_str(&r->out, "\n");
}

static int check_run(
	struct hiw_run *run, const char *path, const char *const *rules, size_t n, struct hiw_err *err)
{
	struct report r = { .out = BUF_INIT(TEXT_MOST) };
	int code;

	if (arg_check.json)
		begin_json(&r, path);
	code = hiw_run_check(run, rules, n, see, &r, err);
	if (code == 0 && arg_check.json)
		end_json(&r);
	if (code == 0)
		code = r.out.error ? r.out.error : print_out(r.out.data, r.out.len) ? EXIT_FAILED
										    : status_of(&r);
	buf_done(&r.out);
	return code;
}

/* Rules are parsed before the run is opened: a syntax error does not depend on the run. Returns 0
 * or an exit status. */
static int read_rules(const char *const *rules, int n)
{
	for (int i = 0; i < n; i++) {
		struct hiw_err err = { "" };

		if (hiw_rule_check(rules[i], HIW_RULE_CHECK, &err) < 0) {
			complain("%s", err.text);
			return CHECK_BAD_RULE;
		}
	}
	return 0;
}

static int check_main(int argc, char **argv)
{
	const char *const *rules = (const char *const *) argv + 1;
	autofree char *path = NULL;
	struct hiw_run *run = NULL;
	struct hiw_err err = { "" };
	int r;

	if (argc < 2) {
		complain(
			"check needs a RUN and at least one RULE, for example: hiwater check last 'ram.peak < 20GiB'");
		return CHECK_BAD_RULE;
	}
	r = read_rules(rules, argc - 1);
	if (r)
		return r;
	r = find_run(argv[0], &path, &err);
	if (r == 0)
		r = hiw_run_open(path, &run, &err);
	if (r == 0 && hwi_run_lacks_parts(run))
		complain("warning: something of the job is missing, so no rule passes for sure; see hiwater show %s", argv[0]);
	if (r == 0)
		r = check_run(run, path, rules, (size_t) argc - 1, &err);
	hiw_run_close(run);
	if (r < 0)
		complain("%s", err.text[0] ? err.text : strerror(-r));
	return r < 0 ? CHECK_INCOMPLETE : r;
}

static const struct opt opts[] = {
	{ 0, "json", OPT_NONE, NULL, "print JSON, in base units", opt_flag, &arg_check.json },
	{ 0 },
};

static const char *const prose[] = {
	"Prints a line for each RULE: pass, FAIL, or ? if the recording does not decide it.",
	"The syntax is that of --alert (see hiwater-run(1)). A rule whose names end in .peak, .mean or "
	".last tests figures of the summary: 'ram.peak < 20GiB', 'ram.peak < 80% of limit', 'cpu.mean > 1.5 "
	"cores', 'time < 2h', 'loss.last < 0.5 and accuracy.last > 90%', 'process.rss.peak < 8GiB' (the "
	"largest process), 'gpu.mem.peak < 95%', 'gpu_process.mem.peak < 8GiB' (each GPU, each process on a "
	"GPU, also those that have ended; 'ever gpu.mem.peak > 95%': at least one of them). Counters of the "
	"machine and of its GPUs start at 0 with the run: 'gpu.energy.last < 500kJ'.",
	"Any other rule tests the values over time: it passes if it held at any time, as an alert would "
	"have been raised: 'ram > 1GiB for 30s'. 'always ram < 20GiB' must hold at every sample, 'never "
	"loss is nan' and 'never growth(ram) > 10MiB/min' at none.",
	"The exit status is 0 if every rule passes, 1 if one fails (or stdout cannot be written), 2 for a "
	"rule that cannot be parsed, 3 if the data does not decide: there is no such run, its end is not "
	"recorded, a rank of the job has no recording, or a value is not available.",
	NULL,
};

static const char *const examples[] = {
	"hiwater check last 'ram.peak < 20GiB' 'time < 2h'",
	"test the last run against a budget",
	"hiwater check base 'never loss is nan' 'always host.mem_used < 95%'",
	"a gate for a nightly run",
	"hiwater check --json run.hiw 'ram.peak < 80% of limit'",
	"the result as JSON, for a program",
	NULL,
};

const struct command command_check = {
	.name = "check",
	.usage = "[options] RUN RULE...",
	.sentence = "test a run against rules: a gate for CI",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = check_main,
};

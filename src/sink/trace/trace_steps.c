/* SPDX-License-Identifier: MIT */
#include "sink/trace/trace_steps.h"

#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/parse.h"
#include "base/textwidth.h"

/* ---- names ----------------------------------------------------------------------------------- */

/* The last number in a name that the expression matches, as --trace-window reads it. */
static bool last_number(const char *name, uint64_t *ret)
{
	const char *p = name + strlen(name);

	while (p > name && (p[-1] < '0' || p[-1] > '9'))
		p--;
	while (p > name && p[-1] >= '0' && p[-1] <= '9')
		p--;
	return parse_u64(&p, ret) == 0;
}

/* The expression comes from a file. Repeats of repeats multiply, and references back are searched without bound. */
static bool compile(const char *text, regex_t *ret)
{
	enum {
		LONGEST = 200
	};
	const char *const brace = strchr(text, '{');

	if (strlen(text) > LONGEST || (brace && strchr(brace + 1, '{')))
		return false;
	for (const char *p = strchr(text, '\\'); p; p = p[1] ? strchr(p + 2, '\\') : NULL) {
		if (p[1] >= '1' && p[1] <= '9')
			return false;
	}
	return regcomp(ret, text, REG_EXTENDED | REG_NOSUB) == 0;
}

/* "ProfilerStep#12", "step 12", "iteration_12". */
static bool usual_number(const char *name, uint64_t *ret)
{
	static const char *const words[] = { "ProfilerStep", "step", "iteration", "iter" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const size_t len = strlen(words[i]);
		const char *p = name + len;

		if (strncasecmp(name, words[i], len) != 0)
			continue;
		p += strspn(p, " #_:-=");
		if (parse_u64(&p, ret) == 0 && *p == '\0')
			return true;
	}
	return false;
}

bool trace_step_fold(const char *name, struct buf *out)
{
	uint64_t number;
	size_t len = strlen(name);

	if (!usual_number(name, &number))
		return false;
	while (len > 0 && name[len - 1] >= '0' && name[len - 1] <= '9')
		len--;
	(void) buf_printf(out, "%.*s*", (int) len, name);
	return true;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

struct steps {
	struct trace_read *t;
	uint64_t first, last, begin_ns, end_ns;
	regex_t expression;
	bool has_expression; /* of the run; else the usual names */
	bool has_number;     /* some step has one in its name */
	uint64_t *begun;     /* by process: steps without a number are counted; NULL: they are left out */
};

static bool is_step(struct steps *steps, const struct trace_site *site, uint64_t *ret_number)
{
	if (!steps->has_expression)
		return usual_number(site->name, ret_number);
	if (regexec(&steps->expression, site->name, 0, NULL, 0) != 0)
		return false;
	if (steps->begun) {
		*ret_number = ++steps->begun[site->process];
		return true;
	}
	return last_number(site->name, ret_number);
}

static bool see_step(void *ctx, const struct trace_event *e)
{
	struct steps *steps = ctx;
	uint64_t number;

	if (e->kind != TRACE_RANGE || !is_step(steps, trace_read_site(steps->t, e->site), &number))
		return true;
	steps->has_number = true;
	if (number < steps->first || number > steps->last)
		return true;
	if (e->start_ns < steps->begin_ns)
		steps->begin_ns = e->start_ns;
	if (e->end_ns > steps->end_ns)
		steps->end_ns = e->end_ns;
	return true;
}

/* Steps by the numbers in their names; where none has one, by how many began. */
static int read_steps(struct steps *steps, struct err *err)
{
	struct trace_read *t = steps->t;
	int r = trace_read_rows(t, 1U << TRACE_RANGE, 0, UINT64_MAX, see_step, steps, err);

	if (r < 0 || steps->has_number || !steps->has_expression)
		return r;
	steps->begun = calloc(trace_read_process_count(t) + 1, sizeof(*steps->begun));
	if (!steps->begun)
		return -ENOMEM;
	r = trace_read_rows(t, 1U << TRACE_RANGE, 0, UINT64_MAX, see_step, steps, err);
	free(steps->begun);
	return r;
}

static int no_steps(const struct steps *steps, const char *expression, struct err *err)
{
	struct buf clean = BUF_INIT(1 << 12);
	int r;

	if (!steps->has_expression)
		return err_set(err, -ENOENT,
			"no range of the trace is one of the steps %llu to %llu; ranges called step N, iteration "
			"N or ProfilerStep#N are",
			(unsigned long long) steps->first, (unsigned long long) steps->last);
	(void) text_clean(expression, false, &clean);
	r = err_set(err, -ENOENT,
		"no range of the trace is one of the steps %llu to %llu; those that match '%s' are (run "
		"--step)",
		(unsigned long long) steps->first, (unsigned long long) steps->last, clean.data);
	buf_done(&clean);
	return r;
}

int trace_find_steps(struct trace_read *t, uint64_t first, uint64_t last, uint64_t *ret_from,
	uint64_t *ret_to, struct err *err)
{
	const char *const text = trace_read_step(t);
	struct steps steps = { .t = t, .first = first, .last = last, .begin_ns = UINT64_MAX };
	int r;

	steps.has_expression = text && compile(text, &steps.expression);
	r = read_steps(&steps, err);
	if (steps.has_expression)
		regfree(&steps.expression);
	if (r < 0)
		return r;
	if (steps.end_ns == 0)
		return no_steps(&steps, text, err);
	*ret_from = steps.begin_ns;
	*ret_to = steps.end_ns;
	return 0;
}

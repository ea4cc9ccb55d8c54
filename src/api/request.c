/* SPDX-License-Identifier: MIT
 *
 * What to request for the next run of a job: reads its runs from the history, in groups by an
 * argument if that is wanted.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "record/history/history.h"
#include "sink/argv.h"
#include "sink/json/json_summary.h"
#include "summary/request.h"

enum {
	RUNS_MOST = 100000
};

struct counted {
	char *path;
	char value[REQUEST_TEXT]; /* of the key; "": the run has none */
	struct request_run run;
};

struct requesting {
	const struct hwi_request *what;
	struct counted *runs;     /* the newest first, once they are read */
	size_t n, cap;
	struct request_options options;
	struct err *err;
};

/* ---- the value of a key ---------------------------------------------------------------------- */

struct key_search {
	const char *key;
	char *value;
	bool is_next;
};

static void keep(char value[REQUEST_TEXT], const char *text, size_t len)
{
	if (value[0])
		return; /* the first one counts */
	if (len >= REQUEST_TEXT)
		len = REQUEST_TEXT - 1;
	memcpy(value, text, len);
	value[len] = '\0';
}

/* "--rows 1000", "--rows=1000", "-n 1000", "rows=1000" */
static void see_argument(void *ctx, const char *text)
{
	struct key_search *s = ctx;
	const char *p = text + strspn(text, "-");

	if (s->is_next) {
		s->is_next = false;
		keep(s->value, text, strlen(text));
		return;
	}
	if (!parse_word(&p, s->key))
		return;
	if (*p == '=')
		keep(s->value, p + 1, strlen(p + 1));
	else if (*p == '\0' && text[0] == '-')
		s->is_next = true;
}

/* "xgb-rows=1000", "xgb/rows1000": a part of the name, up to the next separator. */
static void search_name(const char *name, const char *key, char value[REQUEST_TEXT])
{
	static const char separators[] = "/:, ";

	for (const char *at = strstr(name, key); at; at = strstr(at + 1, key)) {
		const char *p = at + strlen(key);

		if (at > name && isalnum((unsigned char) at[-1]))
			continue;
		if (*p == '=')
			p++;
		else if (!isdigit((unsigned char) *p))
			continue;
		keep(value, p, strcspn(p, p[-1] == '=' ? separators : "/:, -_"));
		return;
	}
}

static void see_facts(void *ctx, const struct facts *f)
{
	struct key_search *s = ctx;

	if (f->argv_json)
		(void) argv_each(f->argv_json, see_argument, s);
	if (!s->value[0] && f->name)
		search_name(f->name, s->key, s->value);
}

/* ---- which runs ------------------------------------------------------------------------------ */

static int add_path(struct requesting *q, const char *path)
{
	for (size_t i = 0; i < q->n; i++) {
		if (strcmp(q->runs[i].path, path) == 0)
			return 0;
	}
	if (vec_reserve(&q->runs, &q->cap, q->n, sizeof(*q->runs), RUNS_MOST) < 0)
		return err_set(q->err, -EINVAL, "more than %d runs; leave some out", RUNS_MOST);
	memset(&q->runs[q->n], 0, sizeof(*q->runs));
	q->runs[q->n].path = strdup(path);
	return q->runs[q->n++].path ? 0 : -ENOMEM;
}

/* With a key also runs whose names begin with this one: "xgb/rows=1000" for xgb. */
static bool is_of_name(const char *name, const char *wanted, bool by_key)
{
	const size_t len = strlen(wanted);

	if (!by_key)
		return strcmp(name, wanted) == 0;
	return strncmp(name, wanted, len) == 0 && strchr("/:, -_", name[len]) != NULL;
}

/* Adds the runs of that name that are not running, failed and lost ones included, and that measured a
 * whole program, or a part, as the newest of them. *ret_running: runs that are running. */
static int add_name(struct requesting *q, const char *name, size_t *ret_running)
{
	struct history history = { 0 };
	bool is_first = true, is_watched = false;
	int r = history_read(&history, q->err);

	for (size_t i = history.n; r == 0 && i > 0; i--) {
		const struct history_entry *e = &history.entries[i - 1];

		if (!is_of_name(e->name, name, q->what->by))
			continue;
		if (e->running) {
			(*ret_running)++;
			continue;
		}
		if (is_first)
			is_watched = e->is_watched;
		is_first = false;
		if (e->is_watched == is_watched)
			r = add_path(q, e->path);
		else
			q->options.left_out.other_mode++;
	}
	history_done(&history);
	return r;
}

static int add_word(struct requesting *q, const char *word)
{
	const char *name = history_name_of(word);
	const size_t before = q->n;
	autofree char *path = NULL;
	size_t running = 0;
	int r = name ? add_name(q, name, &running) : 0;

	if (r < 0 || q->n > before)
		return r;
	if (running > 0)
		return err_set(q->err, -ENOENT, "the only run of %s has not ended", name);
	r = history_find(word, &path, q->err);
	return r < 0 ? r : add_path(q, path);
}

/* A damaged recording among several is left out, which the basis states. */
static int read_runs(struct requesting *q)
{
	struct err err = { "" };
	size_t kept = 0;
	int r = 0;

	for (size_t i = 0; i < q->n; i++) {
		struct counted c = q->runs[i];
		struct key_search search = { .key = q->what->by, .value = c.value };
		const int code = run_request_of(
			c.path, q->what->by ? see_facts : NULL, &search, &c.run, &err);

		if (r != -ENOMEM && code < 0)
			r = code;
		if (code < 0)
			free(c.path);
		else
			q->runs[kept++] = c;
	}
	q->options.left_out.unreadable += q->n - kept;
	q->n = kept;
	return r == -ENOMEM ? r : kept > 0 ? 0
					   : err_set(q->err, r, "%s", err.text);
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Numbers by value, before other texts; runs without the key last. */
static int compare_values(const char *a, const char *b)
{
	const char *p = a, *q = b;
	double x, y;
	const bool x_ok = parse_double(&p, &x) == 0 && *p == '\0';
	const bool y_ok = parse_double(&q, &y) == 0 && *q == '\0';

	if (!*a || !*b)
		return *a ? -1 : *b != '\0';
	if (x_ok && y_ok && x != y)
		return x < y ? -1 : 1;
	return x_ok != y_ok ? (x_ok ? -1 : 1) : strcmp(a, b);
}

/* Keeps the order of the runs in a group. */
static void sort_by_value(struct counted *runs, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		const struct counted c = runs[i];
		size_t k = i;

		for (; k > 0 && compare_values(runs[k - 1].value, c.value) > 0; k--)
			runs[k] = runs[k - 1];
		runs[k] = c;
	}
}

static int make(const struct requesting *q, size_t from, size_t to, struct request *ret)
{
	struct request_run *runs = calloc(to - from, sizeof(*runs));
	int r;

	if (!runs)
		return -ENOMEM;
	for (size_t i = from; i < to; i++)
		runs[i - from] = q->runs[i].run;
	r = request_make(runs, to - from, &q->options, ret);
	free(runs);
	return r;
}

static size_t end_of_group(const struct requesting *q, size_t from)
{
	size_t to = from + 1;

	while (to < q->n && (!q->what->by || strcmp(q->runs[to].value, q->runs[from].value) == 0))
		to++;
	return to;
}

static int prepare_groups(struct requesting *q)
{
	if (!q->what->by)
		return 0;
	sort_by_value(q->runs, q->n);
	if (q->runs[0].value[0])
		return 0;
	return err_set(q->err, -ENOENT,
		"no run of these has '%s' in its arguments (--%s=VALUE, %s=VALUE) or its name", q->what->by,
		q->what->by, q->what->by);
}

/* ---- writing --------------------------------------------------------------------------------- */

static int put_group(const struct requesting *q, size_t from, const struct request *r, struct buf *out)
{
	const struct hiw_style *style = q->what->style;
	const struct sink_options options = { .utf8 = style && style->utf8 };
	const char *value = q->runs[from].value;
	struct buf head = BUF_INIT(4096);

	if (q->what->by)
		buf_printf(&head, value[0] ? "%s = %s" : "without %s", q->what->by, value);
	buf_str(out, from > 0 ? "\n" : "");
	sink_request(r, &options, head.len > 0 ? head.data : NULL, out);
	buf_done(&head);
	return out->error;
}

static void put_json_group(const struct requesting *q, size_t from, const struct request *r, struct json *j)
{
	if (!q->what->by) {
		json_key(j, "request");
		json_request(j, r);
		return;
	}
	json_object(j);
	json_key(j, "value");
	json_str(j, q->runs[from].value[0] ? q->runs[from].value : NULL);
	json_key(j, "request");
	json_request(j, r);
	json_end(j);
}

static int write_groups(struct requesting *q, struct buf *out, bool *ret_known)
{
	struct json j;
	int r = 0;

	json_init(&j, out, false);
	if (q->what->json) {
		json_object(&j);
		json_key(&j, "schema");
		json_int(&j, 2);
		if (q->what->by) {
			json_key(&j, "by");
			json_str(&j, q->what->by);
			json_key(&j, "groups");
			json_array(&j);
		}
	}
	for (size_t from = 0, to; from < q->n && r == 0; from = to) {
		struct request request;

		to = end_of_group(q, from);
		r = make(q, from, to, &request);
		if (r < 0)
			break;
		*ret_known |= !request.why_not[0];
		if (q->what->json)
			put_json_group(q, from, &request, &j);
		else
			r = put_group(q, from, &request, out);
	}
	if (q->what->json && r == 0) {
		if (q->what->by)
			json_end(&j);
		json_end(&j);
		buf_str(out, "\n");
	}
	return r < 0 ? r : out->error;
}

int hwi_request(const struct hwi_request *what, char **ret, size_t *ret_len, bool *ret_known,
	struct hiw_err *ret_err)
{
	struct err err = { "" };
	struct requesting q = {
		.what = what,
		.options = { .margin = what->margin,
			.quantile = what->quantile,
			.format = (enum request_format) what->format },
		.err = &err,
	};
	struct buf out = BUF_INIT(64 << 20);
	int r = what->n_runs > 0 ? 0 : err_set(&err, -EINVAL, "no runs were given");

	*ret_known = false;
	for (size_t i = 0; i < what->n_runs && r == 0; i++)
		r = add_word(&q, what->runs[i]);
	if (r == 0)
		r = read_runs(&q);
	if (r == 0)
		r = prepare_groups(&q);
	if (r == 0)
		r = write_groups(&q, &out, ret_known);
	if (r == 0) {
		*ret = strdup(out.data);
		*ret_len = out.len;
		r = *ret ? 0 : -ENOMEM;
	}
	buf_done(&out);
	for (size_t i = 0; i < q.n; i++)
		free(q.runs[i].path);
	free(q.runs);
	return api_err(ret_err, &err, r);
}

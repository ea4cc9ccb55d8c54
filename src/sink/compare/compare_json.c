/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "sink/compare/compare_runs.h"

static const char *const unit_names[] = {
	[COMPARE_SECONDS] = "s",
	[COMPARE_BYTES] = "bytes",
	[COMPARE_RATIO] = "ratio",
	[COMPARE_JOULES] = "j",
	[COMPARE_NUMBER] = "",
};
static const char *const result_names[] = {
	[COMPARE_UNKNOWN] = "unknown",
	[COMPARE_SINGLE] = "single-runs",
	[COMPARE_TOO_FEW] = "too-few-runs",
	[COMPARE_NO_DIFFERENCE] = "no-difference",
	[COMPARE_DIFFERS] = "differs",
};

static const char *const order_names[] = {
	[COMPARE_OVERLAP] = "overlap",
	[COMPARE_BELOW] = "below",
	[COMPARE_ABOVE] = "above",
};

static void key_num(struct json *j, const char *key, double value, bool known)
{
	json_key(j, key);
	if (known && !isnan(value))
		json_num(j, value);
	else
		json_null(j);
}

static void put_parts(
	struct json *j, const struct comparison *c, const struct compare_heads *heads, size_t group)
{
	json_key(j, "by");
	json_object(j);
	for (size_t h = 0; h < heads->n; h++) {
		struct buf part = BUF_INIT(1 << 16);

		compare_part(c, heads, group, h, &part);
		json_key_str(j, heads->names[h], part.len ? part.data : "");
		buf_done(&part);
	}
	json_end(j);
}

static void put_group(
	struct json *j, const struct comparison *c, const struct compare_heads *heads, size_t group)
{
	json_object(j);
	json_key_str(j, "name", c->groups[group]);
	if (heads->n)
		put_parts(j, c, heads, group);
	json_key(j, "runs");
	json_array(j);
	for (size_t i = 0; i < c->n_runs; i++) {
		if (c->runs[i].group != group)
			continue;
		json_object(j);
		json_key_str(j, "recording", c->runs[i].path);
		json_key(j, "complete");
		json_bool(j, c->runs[i].complete);
		json_key(j, "failed");
		json_bool(j, c->runs[i].failed);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

static void put_values(
	struct json *j, const struct comparison *c, const struct compare_row *row, size_t group)
{
	const struct compare_cell cell = comparison_cell(c, row, group);
	const struct compare_change change = comparison_change(c, row, group);

	json_object(j);
	json_key(j, "n");
	json_int(j, (int64_t) cell.n);
	key_num(j, "mean", cell.mean, cell.n > 0);
	key_num(j, "deviation", cell.deviation, cell.n > 1);
	if (group > 0) {
		json_key_str(j, "result", result_names[change.result]);
		json_key(j, "order");
		if (change.result == COMPARE_UNKNOWN)
			json_null(j);
		else
			json_str(j, order_names[change.order]);
		key_num(j, "difference", change.difference, change.result != COMPARE_UNKNOWN);
		key_num(j, "ratio", change.ratio, true);
		key_num(j, "ratio_error", change.ratio_error, cell.n > 1);
		key_num(j, "p", change.p, true);
		key_num(j, "runs_needed", change.runs_needed, true);
	}
	json_key(j, "values");
	json_array(j);
	for (size_t i = 0; i < c->n_runs; i++) {
		if (c->runs[i].group == group && i < row->n && !isnan(row->values[i]))
			json_num(j, row->values[i]);
		else if (c->runs[i].group == group)
			json_null(j);
	}
	json_end(j);
	json_end(j);
}

static void put_conclusion(struct json *j, const struct comparison *c, const struct compare_heads *heads)
{
	const struct sink_options options = { .width = 80, .utf8 = true };
	struct buf text = BUF_INIT(1 << 16);

	compare_result(c, &options, c->n_groups == 2 && heads->n == 0, &text);
	json_key_str(j, "conclusion", text.len ? text.data : "");
	buf_done(&text);
}

int compare_json(const struct comparison *c, const struct compare_heads *heads, struct json *j)
{
	const char *what, *one, *other;

	json_key(j, "groups");
	json_array(j);
	for (size_t g = 0; g < c->n_groups; g++)
		put_group(j, c, heads, g);
	json_end(j);
	json_key(j, "figures");
	json_array(j);
	for (size_t i = 0; i < c->n_rows; i++) {
		json_object(j);
		json_key_str(j, "key", c->rows[i].key);
		json_key_str(j, "unit", unit_names[c->rows[i].unit]);
		json_key(j, "groups");
		json_array(j);
		for (size_t g = 0; g < c->n_groups; g++)
			put_values(j, c, &c->rows[i], g);
		json_end(j);
		json_end(j);
	}
	json_end(j);
	json_key(j, "differ");
	json_array(j);
	for (size_t i = 0; comparison_differs(c, i, &what, &one, &other); i++)
		json_str(j, what);
	json_end(j);
	put_conclusion(j, c, heads);
	return j->out->error;
}

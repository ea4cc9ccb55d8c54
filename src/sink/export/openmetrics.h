/* SPDX-License-Identifier: MIT
 *
 * The text of OpenMetrics 1.0 and of the Prometheus text format 0.0.4: families of metric.def, their
 * heads and labels. hiwater export --to openmetrics and the scrapes of hiwater serve write them by
 * these functions alone, so that a run that was scraped and the same run exported have the same
 * names, units and labels.
 *
 * The two formats differ in three ways: 0.0.4 names a counter's family with its "_total" and an info
 * family with its "_info", where OpenMetrics leaves those to the samples; it has no UNIT; and it does
 * not end with "# EOF".
 */
#pragma once

#include "base/buf.h"
#include "job/job.h"

enum om_format {
	OM_1_0,
	OM_TEXT_0_0_4,
};

/* A family of values, or, is_max, of the maxima of a gauge's windows ("_max" before the unit). */
struct om_family {
	const char *om;      /* as in metric.def */
	char name[96];
	const char *unit;    /* with its underscore; "" if none */
	const char *type, *help; /* "gauge", "counter", "info" */
	bool is_max;
};

struct om_family om_family_of(const struct metric_info *m, bool is_max);

/* HELP, TYPE and, where it has one, UNIT. */
void om_put_head(struct buf *out, enum om_format format, const struct om_family *f);

/* The name of the family's samples: that of a counter with "_total", of an info family with "_info". */
void om_put_sample_name(struct buf *out, const struct om_family *f);

/* Adds NAME="VALUE" to a list of labels, escaped; control characters of the value become blanks. */
void om_put_label(struct buf *labels, const char *name, const char *value);

/* The value of a metric in its base unit. */
void om_put_value(struct buf *out, enum metric metric, int64_t value);

/* The labels of the family hiwater_run, beyond run: step, node and rank where there are any; user,
 * host and command only if with_user, with_command. */
void om_put_run_labels(struct buf *labels, const struct facts *f, bool with_user, bool with_command);

/* SPDX-License-Identifier: MIT
 *
 * Names of OpenTelemetry. Where its semantic conventions (1.44) name a quantity, a metric of metric.def
 * has that name; the process of process.* is then the whole job, its main process and all
 * descendants. Every other metric is hiwater.*, with the words of its OpenMetrics family, so that a
 * Prometheus that receives OTLP has the same family names as one that scrapes hiwater.
 */
#pragma once

#include <stdbool.h>

#include "model/metric.h"

/* The instrument. */
enum otlp_type {
	OTLP_GAUGE,
	OTLP_UP_DOWN, /* a sum that may fall: an amount that adds up over its attributes */
	OTLP_COUNTER, /* a monotonic sum */
};

enum {
	OTLP_NAME_LEN = 96,
	OTLP_ATTRIBUTES = 4,
};

struct otlp_attribute {
	const char *key, *value;
};

struct otlp_name {
	char name[OTLP_NAME_LEN];
	const char *unit; /* UCUM: "By", "s", "{count}" */
	enum otlp_type type;
	bool is_convention; /* a name of the semantic conventions; GPUs then have the attributes hw.* */
	struct otlp_attribute attributes[OTLP_ATTRIBUTES]; /* fixed ones; those after the last have no key */
	char room[OTLP_NAME_LEN]; /* of the texts of attributes; a copy of the struct must not use them */
};

/* The name of a metric, or with is_max that of the maxima of a gauge, which is always hiwater.*. */
void otlp_name_of(enum metric metric, bool is_max, struct otlp_name *ret);

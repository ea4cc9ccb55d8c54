/* SPDX-License-Identifier: MIT
 *
 * The part of doctor that states how often each group of GPU metrics is read, and what a read
 * costs.
 */
#pragma once

#include <stddef.h>

#include "api/internal.h"
#include "base/buf.h"
#include "base/json.h"

/* Copies of the rates that hwi_doctor reported. */
struct doctor_rates {
	struct hwi_gpu_rate *list;
	size_t n, cap;
	int error;
};

void doctor_rates_add(struct doctor_rates *rates, const struct hwi_gpu_rate *rate);
void doctor_rates_done(struct doctor_rates *rates);
/* Appends the rates as text; nothing if there are none. */
void doctor_rates_text(const struct doctor_rates *rates, size_t width, struct buf *out);
/* Writes key and value. */
void doctor_rates_json(const struct doctor_rates *rates, struct json *j);

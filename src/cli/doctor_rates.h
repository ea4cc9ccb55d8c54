/* SPDX-License-Identifier: MIT
 *
 * The part of doctor that says how often what is read of GPUs.
 */
#pragma once

#include <stddef.h>

#include "api/internal.h"
#include "base/buf.h"
#include "base/json.h"

/* Copies of what hwi_doctor told. */
struct doctor_rates {
	struct hwi_gpu_rate *list;
	size_t n, cap;
	int error;
};

void doctor_rates_add(struct doctor_rates *rates, const struct hwi_gpu_rate *rate);
void doctor_rates_done(struct doctor_rates *rates);
void doctor_rates_text(const struct doctor_rates *rates, size_t width, struct buf *out); /* nothing where there are none */
void doctor_rates_json(const struct doctor_rates *rates, struct json *j);                /* key and value */

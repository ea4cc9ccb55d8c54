// SPDX-License-Identifier: MIT
#include "dcgm_fake.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Blank, and the blank for NOT_SUPPORTED. */
#define INT64_BLANK  0x7ffffffffffffff0LL
#define DOUBLE_BLANK 140737488355328.0
enum {
	BLANK = 0,
	BLANK_NOT_SUPPORTED = 2,
	CAPABILITY = 63
};

/* Fields that use another key of the scenario if it has no "dcgm N". The figure is divided by
 * `per`. */
static const struct {
	uint16_t first, last;
	char type;
	const char *key;
	double per;
	bool is_mean; /* mean between two updates, of the profiling module */
} fields[] = {
	{ 50, 50, 's', "name", 1, false },
	{ 52, 52, 'i', NULL, 1, false }, /* the index */
	{ 53, 53, 's', "serial", 1, false },
	{ 54, 54, 's', "uuid", 1, false },
	{ 57, 57, 's', "pci", 1, false },
	{ CAPABILITY, CAPABILITY, 'i', NULL, 1, false },
	{ 100, 100, 'i', "clock_sm", 1, false },
	{ 101, 101, 'i', "clock_memory", 1, false },
	{ 112, 112, 'i', "event_reasons", 1, false },
	{ 140, 140, 'i', "temperature_memory", 1, false },
	{ 150, 150, 'i', "temperature", 1, false },
	{ 155, 155, 'd', "power", 1000, false },
	{ 156, 156, 'i', "energy", 1, false },
	{ 157, 157, 'd', "power", 1000, false },
	{ 203, 203, 'i', "util", 1, false },
	{ 204, 204, 'i', "util_memory", 1, false },
	{ 206, 206, 'i', "util_encoder", 1, false },
	{ 207, 207, 'i', "util_decoder", 1, false },
	{ 250, 250, 'i', "memory_total", 1 << 20, false },
	{ 252, 252, 'i', "memory_used", 1 << 20, false },
	{ 253, 253, 'i', "memory_reserved", 1 << 20, false },
	{ 1001, 1008, 'd', NULL, 1, true },
	{ 1009, 1012, 'i', NULL, 1, true },
	{ 1013, 1016, 'd', NULL, 1, true },
};
enum {
	N_FIELDS = sizeof(fields) / sizeof(fields[0])
};

static void blank_put(struct dcgm_value_v1 *ret, int which)
{
	if (ret->type == 'd')
		ret->value.dbl = DOUBLE_BLANK + which;
	else if (ret->type == 's')
		snprintf(ret->value.str, sizeof(ret->value.str), "%s",
			which == BLANK ? "<<<NULL>>>" : "<<<NOT_SUPPORTED>>>");
	else
		ret->value.i64 = INT64_BLANK + which;
}

static void number_put(struct dcgm_value_v1 *ret, double x)
{
	if (ret->type == 'd')
		ret->value.dbl = x;
	else
		ret->value.i64 = llround(x);
}

/* The figure after an update; a code, FAKE_UNKNOWN for a blank. */
static int figure(const struct fake_scenario *s, const struct fake_gpu *gpu, size_t at, uint16_t field,
	struct dcgm_update update, double *ret)
{
	char own[32];

	snprintf(own, sizeof(own), "dcgm %u", field);
	if (at < N_FIELDS && fields[at].is_mean)
		return update.before < update.at ? fake_figure_mean(gpu, own, update.before, update.at, ret)
						 : FAKE_UNKNOWN;
	if (fake_bag_find(&gpu->bag, own) || at == N_FIELDS)
		return fake_figure(s, gpu, own, update.at, ret);
	if (field == CAPABILITY) {
		*ret = fake_bag_number(&gpu->bag, "cc_major", update.at, 0) * 65536 + fake_bag_number(&gpu->bag, "cc_minor", update.at, 0);
		return 0;
	}
	if (!fields[at].key) {
		*ret = gpu->index;
		return 0;
	}
	return fake_figure(s, gpu, fields[at].key, update.at, ret);
}

void dcgm_value_fill(const struct fake_scenario *s, const struct fake_gpu *gpu, uint16_t field,
	struct dcgm_update update, bool is_paused, struct dcgm_value_v1 *ret)
{
	size_t at = 0;
	double x = 0;
	int code;

	while (at < N_FIELDS && (field < fields[at].first || field > fields[at].last))
		at++;
	*ret = (struct dcgm_value_v1) { .version = sizeof(*ret) | 1 << 24, .field = field };
	ret->type = (uint16_t) (at < N_FIELDS ? fields[at].type : 'i');
	ret->status = update.is_watched ? DCGM_NO_DATA : DCGM_NOT_WATCHED;
	blank_put(ret, BLANK);
	if (!update.is_there)
		return;
	ret->status = DCGM_OK;
	ret->stamp = (int64_t) fake_stamp(update.at);
	if (ret->type == 's') {
		snprintf(ret->value.str, sizeof(ret->value.str), "%s",
			fake_bag_text(&gpu->bag, fields[at].key, "<<<NOT_SUPPORTED>>>"));
		return;
	}
	code = at < N_FIELDS && fields[at].is_mean && is_paused ? FAKE_UNKNOWN
								: figure(s, gpu, at, field, update, &x);
	if (code == 0)
		number_put(ret, at < N_FIELDS && fields[at].per > 1 && !isnan(x) ? x / fields[at].per : x);
	else
		blank_put(ret, code == FAKE_UNKNOWN ? BLANK : BLANK_NOT_SUPPORTED);
}

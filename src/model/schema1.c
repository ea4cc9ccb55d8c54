/* SPDX-License-Identifier: MIT */
#include "model/schema1.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *now, *then;
} renamed[] = {
	/* tables and columns */
	{ "timeline", "course" },
	{ "end_source", "how" }, /* of process */
	{ "minima", "lows" },    /* of series */
	/* metrics */
	{ "cgroup_throttled_periods", "cgroup_held_periods" },
	{ "gpu_mem_descendants", "gpu_mem_rest" },
	{ "other_mem", "foreign_mem" },
	{ "ram_descendants", "ram_rest" },
	{ "ram_descendants_high", "ram_rest_high" },
	{ "ram_descendants_low", "ram_rest_low" },
	/* facts */
	{ "gpu_queried", "gpu_asked" },
	{ "late_samples", "late_ticks" },
	{ "main_high_bytes", "main_most_bytes" },
	{ "main_hwm_reset", "main_mark_reset" },
	{ "peak_private_descendants_bytes", "peak_private_rest_bytes" },
	{ "samples", "ticks" },
};

enum {
	RENAMED = sizeof(renamed) / sizeof(renamed[0])
};

const char *schema1_now(const char *then)
{
	for (int i = 0; i < RENAMED; i++) {
		if (strcmp(renamed[i].then, then) == 0)
			return renamed[i].now;
	}
	return then;
}

/* Is name base and ending? */
static bool consists_of(const char *name, const char *base, const char *ending)
{
	const size_t len = strlen(base);

	return strncmp(name, base, len) == 0 && strcmp(name + len, ending) == 0;
}

const char *schema1_then(const char *now, char buf[SCHEMA1_NAME])
{
	static const char *const endings[] = { "", "_min", "_max" };

	for (int i = 0; i < RENAMED; i++) {
		for (size_t e = 0; e < sizeof(endings) / sizeof(endings[0]); e++) {
			if (!consists_of(now, renamed[i].now, endings[e]))
				continue;
			(void) snprintf(buf, SCHEMA1_NAME, "%s%s", renamed[i].then, endings[e]);
			return buf;
		}
	}
	return NULL;
}

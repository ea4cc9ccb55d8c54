/* SPDX-License-Identifier: MIT
 *
 * Series whose names determine the meaning of their values.
 */
#include <string.h>

#include "base/textwidth.h"
#include "job/job.h"

/* Series in seconds, by any logger. */
static const struct {
	const char *name;
	enum series_time time;
} times[] = {
	{ "data_wait", SERIES_WAIT },
	{ "data_wait_s", SERIES_WAIT },
	{ "data_s", SERIES_WAIT },
	{ "step_time", SERIES_STEP },
	{ "step_s", SERIES_STEP },
	{ "step_time_s", SERIES_STEP },
	{ "hiwater/step_s", SERIES_STEP },
};

enum {
	TIMES = sizeof(times) / sizeof(times[0])
};

/* True for series that hiwater reports to trackers as shares of time
 * (python/hiwater/_figures.py). */
static bool is_share(const char *name)
{
	return strcmp(name, "hiwater/data_wait") == 0;
}

const char *series_time(const char *name, enum series_time time)
{
	for (size_t i = 0; i < TIMES; i++) {
		const size_t len = strlen(times[i].name);

		if (times[i].time == time && strncmp(name, times[i].name, len) == 0 &&
			(!name[len] || name[len] == '/'))
			return name + len;
	}
	return NULL;
}

bool series_is_bytes(const char *name)
{
	return text_ends(name, "bytes");
}

bool series_is_seconds(const char *name)
{
	for (const char *part = name; part && !is_share(name); part = strchr(part, '/')) {
		part += strspn(part, "/");
		if (series_time(part, SERIES_WAIT) || series_time(part, SERIES_STEP))
			return true;
	}
	return text_ends(name, "seconds");
}

/* SPDX-License-Identifier: MIT
 *
 * Linked into the command for tests (-Wl,--wrap=record_new,--wrap=hwi_recorder_new_part): a recording with the limit and the
 * window that the environment gives, so that thinning, which takes days in life, is seen in seconds on a real job.
 */
#include <stdlib.h>

#include "api/internal.h"
#include "record/write/record.h"

int __real_record_new(const struct record_options *options, struct record **ret, struct err *err);
int __wrap_record_new(const struct record_options *options, struct record **ret, struct err *err);
int __real_hwi_recorder_new_part(const struct hiw_options *options, enum hwi_part part,
	struct hiw_recorder **ret, struct hiw_err *err);
int __wrap_hwi_recorder_new_part(const struct hiw_options *options, enum hwi_part part,
	struct hiw_recorder **ret, struct hiw_err *err);

static unsigned long long setting(const char *name, unsigned long long otherwise)
{
	const char *value = getenv(name);

	return value ? strtoull(value, NULL, 10) : otherwise;
}

int __wrap_record_new(const struct record_options *options, struct record **ret, struct err *err)
{
	struct record_options small = *options;

	small.max_bytes = setting("TEST_MAX_BYTES", small.max_bytes);
	return __real_record_new(&small, ret, err);
}

int __wrap_hwi_recorder_new_part(const struct hiw_options *options, enum hwi_part part,
	struct hiw_recorder **ret, struct hiw_err *err)
{
	struct hiw_options small = *options;

	small.window_ns = setting("TEST_WINDOW_NS", small.window_ns);
	return __real_hwi_recorder_new_part(&small, part, ret, err);
}

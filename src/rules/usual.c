/* SPDX-License-Identifier: MIT */
#include "rules/usual.h"

#include <string.h>

const char *const usual_alerts[] = {
	"ram > 90%",
	"gpu.mem > 95%",
	"gpu.job_mem > 0B and gpu.busy < 5% for 10m",
	"gpu.throttle_thermal > 5% for 1m",
	"host.disk_free < 1GiB",
	"host.shm > 80%",
	"no step for 5x median and no step for 1m",
	"error: loss is nan or loss is inf",
	"error: exit != 0",
	NULL,
};

bool usual_is(const char *text)
{
	return strcmp(text, "usual") == 0;
}

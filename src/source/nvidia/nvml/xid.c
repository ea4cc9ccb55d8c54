/* SPDX-License-Identifier: MIT */
#include "source/nvidia/nvml/xid.h"

#include <inttypes.h>
#include <stdio.h>

/* Those that matter to whoever runs a job, and whose fault they mostly are. */
static const struct {
	uint64_t xid;
	const char *text;
} xids[] = {
	{ 13, "an exception in the engines, mostly the program's own fault" },
	{ 31, "a page fault on the GPU, mostly the program's own fault" },
	{ 43, "a program's work was stopped after a fault of its own" },
	{ 45, "a program's channel was torn down, mostly because it was killed" },
	{ 48, "a memory error that could not be corrected" },
	{ 63, "a memory row was retired or remapped" },
	{ 64, "a memory row could not be retired or remapped" },
	{ 74, "an error on NVLink" },
	{ 79, "the GPU has fallen off the bus" },
	{ 92, "many memory errors that were corrected" },
	{ 94, "a memory error that hit one program alone" },
	{ 95, "a memory error that was not contained: reset the GPU" },
	{ 119, "the GPU's own processor does not answer" },
	{ 120, "an error in the GPU's own processor" },
};

void xid_text(uint64_t xid, char *ret, size_t size)
{
	for (size_t i = 0; i < sizeof(xids) / sizeof(xids[0]); i++) {
		if (xids[i].xid == xid) {
			(void) snprintf(ret, size, "Xid %" PRIu64 ": %s", xid, xids[i].text);
			return;
		}
	}
	(void) snprintf(ret, size, "Xid %" PRIu64, xid);
}

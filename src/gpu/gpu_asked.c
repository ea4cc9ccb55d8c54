/* SPDX-License-Identifier: MIT
 *
 * What a driver was being asked when it did not answer, in words.
 */
#include <stdio.h>

#include "base/clock.h"
#include "gpu/gpu_shared.h"

const char *gpu_asked_of(const struct source_ops *ops, const struct source_asked *asked, char text[GPU_ASKED])
{
	const uint32_t device = atomic_load(&asked->device);
	const char *name = ops->call_name ? ops->call_name(atomic_load(&asked->call)) : NULL;

	text[0] = '\0';
	if (name && device)
		(void) snprintf(text, GPU_ASKED, "%s of GPU %u", name, (unsigned) (device - 1));
	else if (name)
		(void) snprintf(text, GPU_ASKED, "%s", name);
	return text;
}

const char *gpu_asked(const struct gpu_start *start, unsigned i, char text[GPU_ASKED])
{
	return gpu_asked_of(start->vendors[i].ops, &start->shared->slots[i].asked, text);
}

/* Each source has a thread, so several may be in calls: any of them may have done it. */
const char *gpu_culprit(const struct gpu_start *start, char text[GPU_CULPRIT])
{
	size_t len = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < start->n_vendors && len < GPU_CULPRIT; i++) {
		char asked[GPU_ASKED];

		if (!atomic_load(&start->shared->slots[i].in_call_ns))
			continue;
		(void) gpu_asked(start, i, asked);
		len += (size_t) snprintf(text + len, GPU_CULPRIT - len, "%s of %s%s%s%s", len > 0 ? " or" : " in a call", start->vendors[i].label,
			*asked ? " (" : "", asked, *asked ? ")" : "");
	}
	return text;
}

uint64_t gpu_waited(const struct gpu_start *start, unsigned i, struct gpu_silence *s, char what[GPU_ASKED])
{
	const struct gpu_slot *slot = &start->shared->slots[i];
	const uint64_t call_ns = atomic_load(&slot->in_call_ns);

	if (call_ns) {
		(void) gpu_asked(start, i, what);
		return call_ns;
	}
	(void) snprintf(what, GPU_ASKED, "the helper that asks it does not run");
	return gpu_silence_asleep(s, atomic_load(&slot->due_ns), clock_boot_ns());
}

/* SPDX-License-Identifier: MIT
 *
 * Names of the enumerators of frame.h, in recordings and exports.
 */
#include "model/frame.h"

#include <string.h>

static const char *const event_names[EVENT_KIND_COUNT] = {
	[EVENT_MARK] = "mark",
	[EVENT_PHASE_BEGIN] = "phase-begin",
	[EVENT_PHASE_END] = "phase-end",
	[EVENT_ALERT] = "alert",
	[EVENT_CLEARED] = "cleared",
	[EVENT_OOM] = "oom",
	[EVENT_GAP] = "gap",
	[EVENT_NOTE] = "note",
	[EVENT_TRIGGER] = "trigger",
	[EVENT_EXEC] = "exec",
};
static const char *const how_names[] = {
	[END_SEEN] = "seen",
	[END_REAPED] = "reaped",
	[END_TASKSTATS] = "taskstats",
	[END_LEFT] = "left",
};
/* CAUSE_UNKNOWN has no name. */
static const char *const cause_names[CAUSE_UNKNOWN] = {
	[CAUSE_NONE] = "none",
	[CAUSE_DEVICE] = "device",
	[CAUSE_NVML] = "nvml",
	[CAUSE_AMDGPU] = "amdgpu",
	[CAUSE_DRM] = "drm",
	[CAUSE_HELPER] = "helper",
	[CAUSE_HELPER_ENDED] = "helper-ended",
};

const char *event_name(enum event_kind kind)
{
	return event_names[kind];
}

const char *how_name(enum end_how how)
{
	return how_names[how];
}

static int find(const char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; name && i < n; i++) {
		if (strcmp(names[i], name) == 0)
			return (int) i;
	}
	return -1;
}

int event_find(const char *name)
{
	return find(event_names, EVENT_KIND_COUNT, name);
}

int how_find(const char *name)
{
	return find(how_names, sizeof(how_names) / sizeof(how_names[0]), name);
}

const char *cause_name(enum note_cause cause)
{
	return cause < CAUSE_UNKNOWN ? cause_names[cause] : NULL;
}

enum note_cause cause_find(const char *name)
{
	const int cause = find(cause_names, CAUSE_UNKNOWN, name);

	return cause < 0 ? CAUSE_UNKNOWN : (enum note_cause) cause;
}

bool event_is_private(const struct event *event)
{
	return event->kind == EVENT_EXEC || event->kind == EVENT_OOM || event->entity == ENTITY_PROCESS ||
	       event->entity == ENTITY_GPU_PROCESS;
}

bool note_is_about(const struct event *event, const char *about)
{
	const size_t n = strlen(about);

	return event->kind == EVENT_NOTE && strncmp(event->text, about, n) == 0 && event->text[n] == ':' &&
	       event->text[n + 1] == ' ';
}

/* "Intel NPU 8086:7d1d": the name set by source/drm/card.c. */
bool gpu_is_npu(const struct gpu_birth *gpu)
{
	return strstr(gpu->name, " NPU ") != NULL;
}

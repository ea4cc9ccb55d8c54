/* SPDX-License-Identifier: MIT
 *
 * Private to gpu*.c: the page that recorder and helper share, mapped before the fork. It says what a process that is
 * stuck cannot say any more.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "gpu/gpu.h"
#include "gpu/gpu_silence.h"

enum {
	GPU_VENDORS = 8,
	GPU_WHY = 256,
	GPU_ASKED = 80,
	GPU_CULPRIT = 160,
	GPU_MESSAGE = 256 << 10, /* bytes of a message at most */
};

enum gpu_state {
	GPU_OPENING,
	GPU_OPEN,
	GPU_FAILED,             /* why says it */
	GPU_OVER,               /* the last reading is sent */
};

/* A frame that a source had told when it was called: of use where that call does not return. */
struct gpu_so_far {
	_Atomic uint32_t turn;       /* odd: it is being written */
	_Atomic uint32_t size;       /* 0: there is none */
	_Alignas(16) unsigned char message[GPU_MESSAGE]; /* pages of it that nobody writes cost nothing */
};

/* A source and its thread. */
struct gpu_slot {
	_Atomic int state;
	_Atomic uint64_t in_call_ns; /* CLOCK_BOOTTIME when it was called, or when its driver answered it last; 0: it is not
	                              * in a call */
	struct source_asked asked;   /* in that call */
	_Atomic uint64_t due_ns;     /* CLOCK_BOOTTIME when it wants to be awake; 0: it does not sleep */
	_Atomic uint64_t spent_ppb;  /* of a core, over the last seconds */
	int code;               /* why, as open returned it; written before state says GPU_FAILED, as why is */
	char why[GPU_WHY];
	struct gpu_so_far so_far;
};

enum {
	GPU_FACTS_MOST = 1 << 15,
};

/* Facts that one look told; of a source that looks when it is asked to. */
struct gpu_facts_page {
	_Atomic uint32_t n;
	struct gpu_fact_told list[GPU_FACTS_MOST]; /* pages of it that nobody writes cost nothing */
};

struct gpu_shared {
	struct gpu_slot slots[GPU_VENDORS];
	_Atomic uint64_t cpu_ns, rss_bytes;
	_Atomic int any_seen;
	_Atomic uint64_t interval_ns; /* nothing is read more often; it may change at any time */
};

/* What the helper is started with. */
struct gpu_start {
	const struct gpu_vendor *vendors;
	unsigned n_vendors;
	const struct source_env *env;
	uint64_t interval_ns;        /* to begin with */
	const struct gpu_wish *wish; /* NULL: it reads on and on */
	struct gpu_facts_page *facts;
	struct gpu_shared *shared;
	int channel;
	pid_t recorder;
};

/* gpu.c: gpu_start for one that looks when it is asked to: at once, then for each gpu_ask. The end of
 * a look is a frame with nothing in it. What start points to stays as it is. */
struct gpu *gpu_start_asked(const struct gpu_start *start, struct err *err);
void gpu_ask(struct gpu *g);
uint64_t gpu_silent_ns(const struct gpu *g); /* how long its first source has been in one call; 0: it is in none */
const char *gpu_asked_first(const struct gpu *g, char text[GPU_ASKED]); /* what that was asked in it, as gpu_asked says */

/* gpu_helper.c: in the child of the fork. */
_Noreturn void gpu_helper(const struct gpu_start *start);
/* gpu_alone.c: in any child that calls drivers: of its descriptors only root and channel (-1: none) are left. Ends it if the
 * recorder is gone. */
void gpu_stand_alone(pid_t recorder, const struct root *root, int channel);

/* gpu_frame.c: the frame in a message of so many bytes, which it leaves changed; NULL: it has none, or one that is not about GPUs
 * alone. */
const struct frame *gpu_frame(void *message, size_t size);

/* gpu_so_far.c: in the helper, what is known now, instead of what was before; and that nothing is needed any more. */
void gpu_so_far_put(struct gpu_so_far *page, const struct frame *frame);
void gpu_so_far_drop(struct gpu_so_far *page);
/* In the recorder: a message of GPU_MESSAGE at most, whoever writes there meanwhile. Each is taken once: the turn of the last one is
 * in taken. Returns its size, 0 where there is none. */
size_t gpu_so_far_take(struct gpu_so_far *page, uint32_t *taken, void *ret);

/* gpu_asked.c: what the i-th source's driver is being asked, "nvmlDeviceGetUUID of GPU 1"; "" unknown. And in which call a helper
 * has ended, " in a call of NVML (nvmlDeviceGetUUID of GPU 1)"; "" in none; where several went on, " in a call of NVML or of DRM". */
const char *gpu_asked(const struct gpu_start *start, unsigned i, char text[GPU_ASKED]);
const char *gpu_asked_of(const struct source_ops *ops, const struct source_asked *asked, char text[GPU_ASKED]);
const char *gpu_culprit(const struct gpu_start *start, char text[GPU_CULPRIT]);

/* Since when it is waited for, and for what: the answer to a call, or its helper, that does not wake up. 0: it is not. s is its. */
uint64_t gpu_waited(const struct gpu_start *start, unsigned i, struct gpu_silence *s, char what[GPU_ASKED]);

/* gpu_ending.c: is a process that was killed on its way out, or out, rather than stuck? */
bool gpu_is_ending(const struct root *root, pid_t pid);

/* gpu_present.c: does this machine show a GPU, by its files alone? */
bool gpu_is_present(const struct root *root);
bool gpu_is_of_nvidia(const struct root *root); /* one of NVIDIA's, with its driver or without */

/* SPDX-License-Identifier: MIT
 *
 * The GPUs of a machine at one time and the processes on them, independent of any job. Frames of
 * the sources build it (gpus_now_apply), facts that the caller requested complete it
 * (gpus_now_fact). One thread at a time.
 */
#pragma once

#include "model/frame.h"
#include "model/gpu_fact.h"

struct gpu_now {
	uint32_t id;
	enum frame_source source;    /* that reported it */
	char *uuid, *name, *vendor, *pci, *parent, *driver; /* as in struct gpu_birth */
	struct maybe index, cuda_index, memory_bytes;
	bool unified, is_module, is_numa;
	struct maybe power_span_ns;  /* power is the mean of this time; 0: momentary */
	struct maybe number; /* shown to users: the driver's index, else the next free one; a MIG instance has
	                              * that of its GPU, and index is its own within that */
	/* CUDA's index in the caller's environment; unknown if hidden or not determined */
	struct maybe visible;
	/* energy is power over time since the first sample, not the driver's counter */
	bool energy_is_summed;
	bool is_hidden;              /* the caller's environment hides it from CUDA */
	bool is_chosen;              /* the user selected it */
	struct maybe metrics[METRIC_COUNT];
	enum gpu_lack lacks[METRIC_COUNT]; /* why metrics have no value in the last sample */
	struct {
		struct maybe number;
		char *text;          /* NULL: not a text, or unavailable */
		enum gpu_lack lack;  /* why it is unavailable */
	} facts[GPU_FACT_COUNT];
};

struct gpu_user_now {
	uint32_t id, gpu;            /* gpu: id of the device */
	struct maybe pid, uid;
	char *name;                  /* comm; "": not visible */
	char *user, *command, *program; /* filled in by the caller; "": not visible */
	bool compute, graphics;
	struct maybe metrics[METRIC_COUNT];
};

struct gpu_note_now {
	uint32_t gpu;                /* 0: no particular GPU */
	char *about, *why;           /* "gpu", "GPU 1: asleep: ..." */
	enum note_cause cause;       /* says which figures are missing */
	bool is_of_sample;           /* of the last sample alone */
	bool is_warned;              /* was printed as a warning, for outputs without notes */
};

struct gpus_now {
	/* in the order of their numbers, each followed by its MIG instances (gpus_now_sort) */
	struct gpu_now *gpus;
	struct gpu_user_now *users;
	struct gpu_note_now *notes;
	size_t n_gpus, cap_gpus, n_users, cap_users, n_notes, cap_notes;
	uint64_t wall_ns;            /* since 1970: time of the last sample */
	char *host;                  /* filled in by the caller */
	int error;                   /* 0, or -ENOMEM: the data is incomplete */
};

/* A cleaned copy of a text of a driver or a user: one line without control characters, so that
 * outputs need not clean it. The caller frees it. NULL: out of memory, recorded in error. */
char *gpus_now_text(struct gpus_now *now, const char *text);

/* Applies the births, values, ends and notes of a frame. Errors are kept in error. */
void gpus_now_apply(struct gpus_now *now, const struct frame *frame);

/* Sets a fact of the device with that id (struct gpu_now). */
void gpus_now_fact(struct gpus_now *now, uint32_t id, const struct gpu_fact_value *told);

/* Begins a sample: drops the facts of all devices and the notes of the previous sample, which will
 * be reported anew. */
void gpus_now_begin_sample(struct gpus_now *now);

/* Add a note about no particular GPU: one that stays, and one that the next sample drops
 * (gpus_now_begin_sample). */
void gpus_now_note(struct gpus_now *now, const char *why);
void gpus_now_sample_note(struct gpus_now *now, const char *why);

/* Orders the devices and numbers them. */
void gpus_now_sort(struct gpus_now *now);

void gpus_now_done(struct gpus_now *now);

/* The device of that UUID; NULL: none. */
const struct gpu_now *gpus_now_find(const struct gpus_now *now, const char *uuid);

/* True if the device, or the GPU that it is an instance of, no longer answers. */
bool gpus_now_is_lost(const struct gpus_now *now, const struct gpu_now *gpu);

/* The most informative utilisation, for outputs with room for one: SM activity, else graphics
 * engine active, else busy; METRIC_COUNT: none. */
enum metric gpu_now_lead(const struct gpu_now *gpu);

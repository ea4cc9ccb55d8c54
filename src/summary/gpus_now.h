/* SPDX-License-Identifier: MIT
 *
 * The GPUs of a machine at one time, with whoever is on them: made by applying frames, and by nothing else but the facts
 * that somebody asked for. Nothing of it belongs to a job. One thread.
 */
#pragma once

#include "model/frame.h"
#include "model/gpu_fact.h"

struct gpu_now {
	uint32_t id;
	enum frame_source source;    /* that found it */
	char *uuid, *name, *vendor, *pci, *parent, *driver; /* as in struct gpu_birth */
	struct maybe index, cuda_index, memory_bytes;
	bool unified, is_module;
	struct maybe number;         /* by which people call it: the driver's index, else the next free one; of a MIG instance
	                              * that of its GPU, and index is its own in there */
	struct maybe visible;        /* CUDA's number for it in the caller's environment; unknown: it is hidden, or nobody knows */
	bool energy_is_summed;       /* power over time since the first look: it is none of what the driver counts */
	bool is_hidden;              /* the caller's environment hides it from CUDA */
	bool is_chosen;              /* it is one of those that were asked for */
	struct maybe metrics[METRIC_COUNT];
	enum gpu_lack lacks[METRIC_COUNT]; /* why metrics have no value at the last look */
	struct {
		struct maybe number;
		char *text;          /* NULL: it is none, or not had */
		enum gpu_lack lack;  /* why it is not had */
	} facts[GPU_FACT_COUNT];
};

struct gpu_user_now {
	uint32_t id, gpu;            /* gpu: id of the device */
	struct maybe pid, uid;
	char *name;                  /* comm; "" not to be seen */
	char *user, *command, *program; /* who asked fills them in: "" where it cannot be seen */
	bool compute, graphics;
	struct maybe metrics[METRIC_COUNT];
};

struct gpu_note_now {
	uint32_t gpu;                /* 0: of none in particular */
	char *about, *why;           /* "gpu", "GPU 1: asleep: ..." */
	enum note_cause cause;       /* what is missing because of it */
	bool is_of_look;             /* of the last look alone */
	bool is_warned;              /* somebody was told where the table has no notes */
};

struct gpus_now {
	struct gpu_now *gpus;        /* in the order of their numbers, each followed by its MIG instances (gpus_now_sort) */
	struct gpu_user_now *users;
	struct gpu_note_now *notes;
	size_t n_gpus, cap_gpus, n_users, cap_users, n_notes, cap_notes;
	uint64_t wall_ns;            /* since 1970: of the last look */
	char *host;                  /* who asked fills it in */
	int error;                   /* 0, or -ENOMEM: something was left out */
};

/* A text as all of them are kept here, whoever it is from, drivers and users alike: what no terminal obeys, and what is one
 * line. Who writes them need not look after that. The caller's; NULL: -ENOMEM, told in error. */
char *gpus_now_text(struct gpus_now *now, const char *text);

/* Puts births, readings, ends and notes in. */
void gpus_now_apply(struct gpus_now *now, const struct frame *frame);

/* A fact of the device with that id (of struct gpu_now). */
void gpus_now_fact(struct gpus_now *now, uint32_t id, const struct gpu_fact_told *told);

/* Forgets all facts, of all devices, and what the last look alone has noted: each is told anew. */
void gpus_now_begin_look(struct gpus_now *now);

/* A note on no GPU in particular, which stays; and one that the next look begins without (gpus_now_begin_look). */
void gpus_now_note(struct gpus_now *now, const char *why);
void gpus_now_look_note(struct gpus_now *now, const char *why);

/* Orders the devices and numbers them. */
void gpus_now_sort(struct gpus_now *now);

void gpus_now_done(struct gpus_now *now);

/* NULL if there is none. */
const struct gpu_now *gpus_now_find(const struct gpus_now *now, const char *uuid);

/* It answers no more, or is an instance of one that does not. */
bool gpus_now_is_lost(const struct gpus_now *now, const struct gpu_now *gpu);

/* A figure that leads where there is room for one: SM activity, else graphics engine active, else busy; METRIC_COUNT: there
 * is none. */
enum metric gpu_now_lead(const struct gpu_now *gpu);

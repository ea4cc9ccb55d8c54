/* SPDX-License-Identifier: MIT
 *
 * Machines with GPUs for tests of their sources: a source opened on a root, and checks of its
 * frame.
 */
#pragma once

#include "tree_helper.h"

#include "base/clock.h"

struct gpu_rig {
	struct root root;
	struct source_env env;
	const struct source_ops *ops;
	struct source *source;
	struct framebuf out;
};

/* rig must not move: the source borrows from it. */
static inline void gpu_rig_new(struct gpu_rig *rig, const struct source_ops *ops, struct root root)
{
	*rig = (struct gpu_rig) { .root = root, .ops = ops };
	rig->env = (struct source_env) { .root = &rig->root, .start_boot_ns = clock_boot_ns() };
	assert_int_equal(ops->open(&rig->env, &rig->source, NULL), 0);
}

/* Reads all groups into an empty frame. */
static inline void gpu_rig_read(struct gpu_rig *rig)
{
	framebuf_clear(&rig->out);
	assert_int_equal(rig->ops->read(rig->source, (1u << rig->ops->n_groups) - 1, &rig->out), 0);
	assert_int_equal(rig->out.error, 0);
	for (size_t i = 0; i < rig->out.n_readings; i++) {
		const struct reading *r = &rig->out.readings[i];

		assert_true(r->id > 0);
		for (size_t k = 0; k < i; k++) /* each once a frame */
			assert_false(
				rig->out.readings[k].id == r->id && rig->out.readings[k].metric == r->metric);
	}
}

static inline void gpu_rig_done(struct gpu_rig *rig)
{
	rig->ops->close(rig->source);
	framebuf_done(&rig->out);
	root_done(&rig->root);
}

static inline const struct birth *gpu_birth_of(const struct framebuf *b, enum entity entity, uint32_t id)
{
	for (size_t i = 0; i < b->n_births; i++) {
		if (b->births[i].entity == entity && b->births[i].id == id)
			return &b->births[i];
	}
	fail_msg("no birth of %s %u", entity_name(entity), (unsigned) id);
	return NULL;
}

static inline size_t gpu_births(const struct framebuf *b, enum entity entity)
{
	size_t n = 0;

	for (size_t i = 0; i < b->n_births; i++)
		n += b->births[i].entity == entity;
	return n;
}

/* The id of pid on a GPU; 0: not reported. */
static inline uint32_t gpu_process(const struct framebuf *b, uint32_t gpu, int64_t pid)
{
	for (size_t i = 0; i < b->n_births; i++) {
		const struct birth *birth = &b->births[i];

		if (birth->entity == ENTITY_GPU_PROCESS && birth->gpu_process.gpu == gpu &&
			birth->gpu_process.pid.known && birth->gpu_process.pid.value == pid)
			return birth->id;
	}
	return 0;
}

/* The metric of id was reported as unknown. */
static inline void check_lacks(const struct framebuf *b, enum metric metric, uint32_t id)
{
	const struct reading *r = find_reading(b, metric, id);

	if (!r || r->known)
		fail_msg("%s of %u: %s, unknown expected", metrics[metric].name, (unsigned) id,
			r ? "a value" : "no reading");
}

/* Nothing was reported for it. */
static inline void check_silent(const struct framebuf *b, enum metric metric, uint32_t id)
{
	if (find_reading(b, metric, id))
		fail_msg("%s of %u: a value, none expected", metrics[metric].name, (unsigned) id);
}

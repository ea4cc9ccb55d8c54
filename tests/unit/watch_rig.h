/* SPDX-License-Identifier: MIT
 *
 * A watch with rules, its frames, and the alerts that it raises.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/framebuf.h"
#include "rules/engine.h"

#define MS  UINT64_C(1000000)
#define S   UINT64_C(1000000000)
#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)

/* ---- a watch and its frames ---- */

struct rig {
	struct facts facts;
	struct watch *w;
	struct framebuf buf;
	uint64_t now;
};

static inline void add(struct rig *r, const char *text)
{
	struct err err = { "" };
	struct rule rule;

	if (rule_parse(text, RULE_ALERT, &rule, &err) < 0)
		fail_msg("%s", err.text);
	assert_true(watch_add(r->w, &rule) >= 0);
}

static inline void begin(struct rig *r, const char *rule)
{
	*r = (struct rig) { .now = 0 };
	r->w = watch_new(&r->facts);
	assert_non_null(r->w);
	if (rule)
		add(r, rule);
}

static inline void finish(struct rig *r)
{
	watch_free(r->w);
	framebuf_done(&r->buf);
}

static inline void show(struct rig *r, uint64_t hold_ns)
{
	const struct frame frame = framebuf_frame(&r->buf, FRAME_TOTALS, r->now, hold_ns);

	watch_frame(r->w, &frame);
	framebuf_clear(&r->buf);
}

static inline void put(struct rig *r, enum metric metric, uint32_t id, int64_t value)
{
	framebuf_value(&r->buf, metric, id, value);
}

static inline void ram(struct rig *r, uint64_t at, int64_t value)
{
	r->now = at;
	put(r, M_JOB_RAM, 0, value);
	show(r, 300 * MS);
}

static inline void series(struct rig *r, uint64_t at, const char *name, double value)
{
	const struct series_value v = { .name = name, .value = value };

	r->now = at;
	framebuf_series(&r->buf, &v);
	show(r, 0);
}

static inline void process(struct rig *r, uint32_t id, const char *name)
{
	const struct birth b = {
		.entity = ENTITY_PROCESS,
		.id = id,
		.process = { .pid = (int32_t) (1000 + id), .name = name, .command = "" },
	};

	framebuf_birth(&r->buf, &b);
}

static inline void process_end(struct rig *r, uint32_t id)
{
	const struct end e = { .entity = ENTITY_PROCESS, .id = id };

	framebuf_end(&r->buf, &e);
}

static inline void gpu(struct rig *r, uint32_t id, int64_t index, int64_t memory)
{
	const struct birth b = {
		.entity = ENTITY_GPU,
		.id = id,
		.gpu = { .uuid = "GPU-1",
			.name = "a GPU",
			.vendor = "nvidia",
			.pci = "",
			.parent = "",
			.driver = "",
			.index = known(index),
			.memory_bytes = known(memory) },
	};

	framebuf_birth(&r->buf, &b);
}

static inline struct alert next(struct rig *r)
{
	struct alert a;

	assert_true(watch_next(r->w, &a));
	return a;
}

static inline void assert_raised(struct rig *r)
{
	assert_true(next(r).raised);
}

static inline void assert_cleared(struct rig *r)
{
	assert_false(next(r).raised);
}

static inline void assert_quiet(struct rig *r)
{
	struct alert a;

	if (watch_next(r->w, &a))
		fail_msg("raised at %.3f s: %s", (double) a.time_ns / 1e9, a.text);
}

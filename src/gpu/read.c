/* SPDX-License-Identifier: MIT
 *
 * GPU_READ: each source has a helper of its own, so that a hang or crash affects no other source.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "gpu/gpu_internal.h"
#include "gpu/ids.h"
#include "summary/gpus_now.h"

/* A source and its helper. */
struct origin {
	const struct gpu_vendor *vendor;
	struct gpu_helper *helper;
	int error;                   /* why it is not read until its helper restarts; 0: it is read */
	bool is_done;                /* its read is complete */
	bool is_noted;               /* its failure was noted, or needs no note */
	bool is_new;                 /* its helper's first read: all its values are new */
	bool must_forget;           /* it failed in a read whose values were kept; the next read drops them */
};

struct gpu_reader {
	struct origin origins[GPU_SOURCES];
	unsigned n;
	bool is_first, any_seen;
	struct gpu_ids ids;
	struct framebuf buf;
};

/* ---- life ------------------------------------------------------------------------------------ */

struct gpu_reader *gpu_reader_new(const struct gpu_vendor *vendors, const struct source_env *env,
	const struct gpu_wish *wish, struct err *err)
{
	struct gpu_reader *r = calloc(1, sizeof(*r));

	if (!r) {
		(void) err_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	r->is_first = true;
	r->ids.root = env->root;
	for (; vendors->ops && r->n < GPU_SOURCES; vendors++) {
		struct origin *o = &r->origins[r->n++];
		const struct gpu_request request = {
			.task = GPU_READ, .vendors = vendors, .n_vendors = 1, .env = env, .wish = wish
		};

		*o = (struct origin) {
			.vendor = vendors,
			.is_new = true,
			.helper = gpu_helper_start(&request, err),
		};
		if (o->helper)
			continue;
		gpu_reader_free(r);
		return NULL;
	}
	return r;
}

void gpu_reader_free(struct gpu_reader *r)
{
	if (!r)
		return;
	for (unsigned i = 0; i < r->n; i++) {
		if (r->origins[i].helper)
			(void) gpu_helper_end(r->origins[i].helper);
		gpu_helper_free(r->origins[i].helper);
	}
	gpu_ids_done(&r->ids);
	framebuf_done(&r->buf);
	free(r);
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* Applies the buffer as a frame of source. */
static void apply_buffer(struct gpu_reader *r, struct gpus_now *now, enum frame_source source,
	uint64_t time_ns, uint64_t hold_ns)
{
	const struct frame mine = framebuf_frame(&r->buf, source, time_ns, hold_ns);

	gpus_now_apply(now, &mine);
	framebuf_clear(&r->buf);
}

static void apply(struct gpu_reader *r, const struct frame *frame, struct gpus_now *now)
{
	gpu_ids_apply(&r->ids, frame, NULL, NULL, &r->buf);
	if (gpu_frame_is_empty(frame))
		gpu_ids_flush(&r->ids, &r->buf);
	apply_buffer(r, now, frame->source, frame->time_ns, frame->hold_ns);
}

static void apply_facts(struct gpu_reader *r, const struct origin *o, struct gpus_now *now)
{
	const struct gpu_facts *facts = &gpu_helper_shared(o->helper)->facts;
	const uint32_t n = atomic_load(&facts->n);

	for (uint32_t i = 0; i < n && i < GPU_FACTS; i++) {
		struct gpu_fact_value fact = facts->list[i];
		const uint32_t id = gpu_ids_device(&r->ids, o->vendor->ops->frame, fact.id);

		fact.text[sizeof(fact.text) - 1] = '\0';
		if (id)
			gpus_now_fact(now, id, &fact);
	}
}

static void receive_frames(struct gpu_reader *r, struct origin *o, struct gpus_now *now)
{
	const struct frame *frame;

	while (!o->is_done && (frame = gpu_helper_frame(o->helper))) {
		o->is_done = gpu_frame_is_empty(frame);
		apply(r, frame, now);
	}
	o->is_done |= gpu_helper_fd(o->helper) < 0;
}

static bool is_awaited(const struct origin *o)
{
	return !o->error && !o->is_done;
}

/* A source that adds to another's devices is applied after it, since the births are the other's. */
static bool must_wait(const struct gpu_reader *r, const struct origin *o)
{
	for (unsigned i = 0; i < r->n && o->vendor->fills; i++) {
		if (r->origins[i].vendor->ops == o->vendor->fills && is_awaited(&r->origins[i]))
			return true;
	}
	return false;
}

/* Receives frames until all sources are done or the time is over. */
static void receive(struct gpu_reader *r, uint64_t until_ns, struct gpus_now *now)
{
	for (;;) {
		struct gpu_helper *awaited[GPU_SOURCES];
		unsigned n = 0;
		const bool is_over = clock_boot_ns() >= until_ns;

		for (unsigned i = 0; i < r->n; i++) {
			struct origin *o = &r->origins[i];

			if (is_awaited(o) && (is_over || !must_wait(r, o)))
				receive_frames(r, o, now);
			if (is_awaited(o) && !must_wait(r, o))
				awaited[n++] = o->helper;
		}
		if (n == 0 || is_over)
			return;
		gpu_helper_poll(awaited, n, until_ns);
	}
}

/* ---- a source that failed -------------------------------------------------------------------- */

/* Sets the values that it reported before to unknown. */
static void forget(struct gpu_reader *r, struct origin *o, struct gpus_now *now)
{
	const enum frame_source source = o->vendor->ops->frame;

	o->must_forget = false;
	framebuf_clear(&r->buf);
	gpu_ids_forget(&r->ids, source, &r->buf);
	apply_buffer(r, now, source, 0, 0);
}

/* Ends its helper. Values of this read are kept for GPUs that answered; values that may be of an
 * earlier read are not. Returns error. */
static int give_up(struct gpu_reader *r, struct origin *o, int error, enum gpu_fate fate,
	uint64_t patience_ns, struct gpus_now *now, struct err *err)
{
	const struct frame end = { .source = o->vendor->ops->frame };
	char text[GPU_ENDED];

	(void) gpu_helper_end(o->helper);
	gpus_now_sample_note(now, gpu_helper_explain(o->helper, fate, patience_ns, text));
	o->error = error;
	o->must_forget = o->is_new;
	if (o->is_new)
		apply(r, &end, now);
	else
		forget(r, o, now);
	return err_set(err, error, "%s", text);
}

static int note_unread(const struct origin *o, struct gpus_now *now, struct err *err)
{
	char text[160];

	(void) snprintf(text, sizeof(text), "%s %s", o->vendor->label,
		gpu_helper_will_restart(o->helper) ? "will be retried soon" : "is no longer read");
	gpus_now_sample_note(now, text);
	return err_set(err, o->error, "%s", text);
}

/* The result of a source in this read: it answered, it has no device, it is stuck, or its helper
 * ended. */
static int check_origin(struct gpu_reader *r, struct origin *o, uint64_t patience_ns, struct gpus_now *now,
	struct err *err)
{
	if (o->error)
		return note_unread(o, now, err);

	const struct frame *last = gpu_helper_last_frame(o->helper, 0);
	const enum gpu_fate fate = gpu_helper_fate(o->helper, patience_ns / 2);
	const struct gpu_status status = gpu_helper_status(o->helper);
	int error = 0;

	if (last)
		apply(r, last, now);
	r->any_seen |= status.saw_gpu;
	if (gpu_is_fault(status.code_not) && !o->is_noted)
		gpus_now_note(now, status.why_not);
	o->is_noted |= status.code_not != 0;
	apply_facts(r, o, now);
	if (!o->is_done) {
		error = give_up(r, o, -ETIMEDOUT, fate, patience_ns, now, err);
	} else if (fate == GPU_CRASHED || fate == GPU_REFUSED) {
		error = give_up(r, o, -EIO, fate, patience_ns, now, err);
		(void) gpu_helper_plan_restart(o->helper);
	}
	return error;
}

/* ---- no GPU ---------------------------------------------------------------------------------- */

/* Why now has no GPU. If none is visible, NVIDIA's library may know of a fault in its driver. */
static int explain_none(const struct gpu_reader *r, const struct gpus_now *now, struct err *err)
{
	struct gpu_status of_library = { .why_not = "" };
	const char *why = "";

	for (unsigned i = r->n; i-- > 0;) {
		const struct origin *o = &r->origins[i];
		const struct gpu_status status = gpu_helper_status(o->helper);

		if (o->error)
			continue;
		why = *status.why_not ? status.why_not : why;
		if (o->vendor->ops == &source_nvml)
			of_library = status;
	}
	if (now->n_notes > 0)
		return err_set(err, -ENXIO, "no GPU can be read: %s", now->notes[0].why);
	if (r->any_seen)
		return err_set(err, -ENXIO, "a GPU is present, but no driver can read it: %s", why);
	if (of_library.code_not == 0 || of_library.code_not == -ENOENT)
		return err_set(err, -ENODEV, "no GPU found (no driver, none on the PCI bus)");
	return err_set(err, of_library.code_not == -ENODEV ? -ENODEV : -ENXIO, "no GPU can be read: %s",
		of_library.why_not);
}

/* ---- a read ---------------------------------------------------------------------------------- */

static void request(struct gpu_reader *r, struct origin *o, struct gpus_now *now)
{
	int restarted = 0;

	o->is_done = false;
	if (o->must_forget)
		forget(r, o, now);
	if (r->is_first)
		return;
	o->is_new = false;
	if (!o->error)
		gpu_helper_request_read(o->helper);
	else if ((restarted = gpu_helper_restart(o->helper)) < 0)
		(void) gpu_helper_plan_restart(o->helper);
	if (restarted > 0) {
		o->is_new = true;
		o->error = 0;
	}
}

int gpu_reader_read(struct gpu_reader *r, uint64_t patience_ns, struct gpus_now *now, struct err *err)
{
	const uint64_t until = clock_boot_ns() + patience_ns;
	int code = 0;

	for (unsigned i = 0; i < r->n; i++)
		request(r, &r->origins[i], now);
	r->is_first = false;
	gpus_now_begin_sample(now);
	receive(r, until, now);
	now->wall_ns = clock_wall_ns();
	for (unsigned i = 0; i < r->n; i++) {
		const int of_this = check_origin(r, &r->origins[i], patience_ns, now, code == 0 ? err : NULL);

		code = code == 0 ? of_this : code;
	}
	gpus_now_sort(now);
	if (code == 0 && now->n_gpus == 0) {
		const bool is_noted = now->n_notes > 0;

		code = explain_none(r, now, err);
		if (!is_noted) /* JSON has the reason next to the empty list */
			gpus_now_sample_note(now, err->text);
	}
	return now->error ? err_set(err, now->error, "out of memory") : code;
}

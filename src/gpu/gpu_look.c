/* SPDX-License-Identifier: MIT */
#include "gpu/gpu_look.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "gpu/gpu_again.h"
#include "gpu/gpu_ids.h"
#include "gpu/gpu_shared.h"

/* A source that is asked, by a helper of its own. */
struct asked {
	struct gpu_vendor vendor[2]; /* itself, and the end of the table */
	struct gpu *helper;          /* NULL: ended */
	struct gpu_facts_page *facts;
	bool is_open, is_done;       /* it can be read; it has said all in this look */
	bool is_noted;               /* that it cannot be read is a note, or need be none */
	bool is_new;                 /* all that it said was said in this look, its first */
	bool is_to_forget;           /* it ended in a look whose figures stood; they do not in the next */
	struct gpu_again again;      /* after a crash; who is stuck is not asked again */
	uint64_t started_ns;         /* its helper */
	int error;                   /* for which its helper was ended: it is not asked, unless again says so */
};

struct gpu_look {
	struct asked asked[GPU_VENDORS];
	unsigned n;
	bool is_first, any_seen;
	const struct source_env *env;
	const struct gpu_wish *wish;
	struct gpu_ids ids;
	struct framebuf buf;
};

/* ---- life ----------------------------------------------------------------------------------------------------------- */

/* Which looks at once. */
static int start_helper(const struct gpu_look *l, struct asked *a, struct err *err)
{
	a->is_new = true;
	a->again.at_ns = 0;
	a->started_ns = clock_boot_ns();
	atomic_store(&a->facts->n, 0);
	a->helper = gpu_start_asked(
		&(struct gpu_start) { .vendors = a->vendor, .env = l->env, .wish = l->wish, .facts = a->facts }, err);
	return a->helper ? 0 : -ENOMEM;
}

static int start(struct gpu_look *l, const struct gpu_vendor *vendor, struct err *err)
{
	struct asked *a = &l->asked[l->n];

	*a = (struct asked) { .vendor = { *vendor }, .again.first_ns = GPU_AGAIN_NS };
	a->facts = mmap(NULL, sizeof(*a->facts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (a->facts == MAP_FAILED)
		return err_set(err, -ENOMEM, "out of memory");
	l->n++;
	return start_helper(l, a, err);
}

struct gpu_look *gpu_look_new(const struct gpu_vendor *vendors, const struct source_env *env, const struct gpu_wish *wish,
	struct err *err)
{
	struct gpu_look *l = calloc(1, sizeof(*l));
	int r = l ? 0 : err_set(err, -ENOMEM, "out of memory");

	if (!l)
		return NULL;
	l->env = env;
	l->wish = wish;
	l->is_first = true;
	l->ids.root = env->root;
	for (; vendors->ops && l->n < GPU_VENDORS && r == 0; vendors++)
		r = start(l, vendors, err);
	if (r == 0)
		return l;
	gpu_look_free(l);
	return NULL;
}

static void end_helper(struct asked *a)
{
	if (a->helper) {
		(void) gpu_end(a->helper);
		gpu_free(a->helper);
	}
	a->helper = NULL;
}

void gpu_look_free(struct gpu_look *l)
{
	if (!l)
		return;
	for (unsigned i = 0; i < l->n; i++) {
		end_helper(&l->asked[i]);
		(void) munmap(l->asked[i].facts, sizeof(*l->asked[i].facts));
	}
	gpu_ids_done(&l->ids);
	framebuf_done(&l->buf);
	free(l);
}

/* ---- a look --------------------------------------------------------------------------------------------------------- */

static bool is_end(const struct frame *f)
{
	return f->n_births + f->n_readings + f->n_ends + f->n_events == 0;
}

static void take_facts(struct gpu_look *l, const struct asked *a, struct gpus_now *now)
{
	const uint32_t n = atomic_load(&a->facts->n);

	for (uint32_t i = 0; i < n && i < GPU_FACTS_MOST; i++) {
		struct gpu_fact_told told = a->facts->list[i];
		const uint32_t id = gpu_ids_device(&l->ids, a->vendor->ops->frame, told.id);

		told.text[sizeof(told.text) - 1] = '\0';
		if (id)
			gpus_now_fact(now, id, &told);
	}
}

static void apply(struct gpu_look *l, const struct frame *frame, struct gpus_now *now)
{
	gpu_ids_take(&l->ids, frame, NULL, NULL, &l->buf);
	if (is_end(frame))
		gpu_ids_settle(&l->ids, &l->buf);

	const struct frame mine = framebuf_frame(&l->buf, frame->source, frame->time_ns, frame->hold_ns);

	gpus_now_apply(now, &mine);
	framebuf_clear(&l->buf);
}

static void take(struct gpu_look *l, struct asked *a, struct gpus_now *now)
{
	const struct frame *frame;

	while (!a->is_done && (frame = gpu_take(a->helper))) {
		a->is_done = is_end(frame);
		apply(l, frame, now);
	}
	a->is_open = gpu_n_open(a->helper) > 0;
	a->is_done |= gpu_fd(a->helper) < 0;
}

/* Who tells more of another's devices is heard after it: the births are the other's. */
static bool must_wait(const struct gpu_look *l, const struct asked *a)
{
	for (unsigned i = 0; i < l->n && a->vendor->fills; i++) {
		if (l->asked[i].vendor->ops == a->vendor->fills && l->asked[i].helper && !l->asked[i].is_done)
			return true;
	}
	return false;
}

/* Takes what comes until all are done, or the time is over. */
static void await(struct gpu_look *l, uint64_t until_ns, struct gpus_now *now)
{
	for (;;) {
		struct pollfd fds[GPU_VENDORS];
		nfds_t n = 0;
		const uint64_t at = clock_boot_ns();

		for (unsigned i = 0; i < l->n; i++) {
			struct asked *a = &l->asked[i];

			if (a->helper && !a->is_done && (at >= until_ns || !must_wait(l, a)))
				take(l, a, now);
			if (a->helper && !a->is_done && !must_wait(l, a))
				fds[n++] = (struct pollfd) { .fd = gpu_fd(a->helper), .events = POLLIN };
		}
		if (n == 0 || at >= until_ns)
			return;
		(void) poll(fds, n, (int) ((until_ns - at + 999999) / 1000000));
	}
}

static int tell_silent(const struct asked *a, const struct gpu *helper, uint64_t patience_ns, struct gpus_now *now, struct err *err)
{
	const double seconds = (double) patience_ns / 1e9;
	char text[256], asked[GPU_ASKED];
	const char *what = gpu_asked_first(helper, asked);

	if (gpu_silent_ns(helper) < patience_ns / 2)
		(void) snprintf(text, sizeof(text), "%s was not done in %.3g s: its driver answers, and slowly", a->vendor->label, seconds);
	else
		(void) snprintf(text, sizeof(text), "%s has not answered in %.3g s (process %d is stuck in %s)", a->vendor->label, seconds,
			(int) gpu_pid(helper), *what ? what : "its driver");
	gpus_now_look_note(now, text);
	return err_set(err, -ETIMEDOUT, "%s", text);
}

/* What it said before is not so any more, as far as anybody knows. */
static void forget(struct gpu_look *l, struct asked *a, struct gpus_now *now)
{
	const enum frame_source source = a->vendor->ops->frame;

	a->is_to_forget = false;
	framebuf_clear(&l->buf);
	gpu_ids_forget(&l->ids, source, &l->buf);

	const struct frame unknown = framebuf_frame(&l->buf, source, 0, 0);

	gpus_now_apply(now, &unknown);
	framebuf_clear(&l->buf);
}

/* What it said in this look of GPUs that answered is theirs, and all that will be said; unless it may be of a look before. */
static void give_up(struct gpu_look *l, struct asked *a, int error, struct gpus_now *now)
{
	const struct frame end = { .source = a->vendor->ops->frame };

	end_helper(a);
	a->error = error;
	a->is_to_forget = a->is_new;
	if (a->is_new)
		apply(l, &end, now);
	else
		forget(l, a, now);
}

static int tell_absent(const struct asked *a, struct gpus_now *now, struct err *err)
{
	char text[160];

	if (!a->error)
		return 0;
	(void) snprintf(text, sizeof(text), "%s is %s", a->vendor->label, a->again.at_ns ? "asked again soon" : "not asked any more");
	gpus_now_look_note(now, text);
	return err_set(err, a->error, "%s", text);
}

/* One that could be asked once has something here. */
static int tell_ended(const struct asked *a, bool is_none, struct gpus_now *now, struct err *err)
{
	char text[256], asked[GPU_ASKED];
	const char *what = gpu_asked_first(a->helper, asked);

	if (is_none)
		(void) snprintf(text, sizeof(text), "%s cannot be asked again: %.120s", a->vendor->label, gpu_why_not(a->helper));
	else
		(void) snprintf(text, sizeof(text), "the process that asked %s crashed%s%s", a->vendor->label, *what ? " in " : "", what);
	gpus_now_look_note(now, text);
	return err_set(err, -EIO, "%s", text);
}

/* What became of one: it is here, it has nothing here, it is stuck, or it ended in the middle of an answer. */
static int judge(struct gpu_look *l, struct asked *a, uint64_t patience_ns, struct gpus_now *now, struct err *err)
{
	int r = 0;

	if (!a->helper)
		return tell_absent(a, now, err);

	const bool is_none = gpu_is_settled(a->helper) && gpu_n_open(a->helper) == 0;
	const struct frame *so_far = gpu_take_so_far(a->helper, 0);

	if (so_far)
		apply(l, so_far, now);
	l->any_seen |= gpu_any_seen(a->helper);
	if (gpu_is_fault(gpu_code_not(a->helper)) && !a->is_noted)
		gpus_now_note(now, gpu_why_not(a->helper));
	a->is_noted |= gpu_code_not(a->helper) != 0;
	take_facts(l, a, now);
	if (!a->is_done) {
		r = tell_silent(a, a->helper, patience_ns, now, err);
		give_up(l, a, r, now);
	} else if (gpu_fd(a->helper) < 0 && (!is_none || a->again.ends > 0)) {
		r = tell_ended(a, is_none, now, err);
		give_up(l, a, r, now);
		gpu_again_plan(&a->again, a->started_ns);
	}
	return r;
}

/* The first reason is that of NVIDIA's library, if that is here: it says what is wrong with a driver. */
static int tell_unseen(const struct gpu *library, struct err *err)
{
	const int code = library ? gpu_code_not(library) : -ENOENT;

	if (code == 0 || code == -ENOENT)
		return err_set(err, -ENODEV, "no GPU is here: neither a driver nor the PCI bus shows one");
	return err_set(err, code == -ENODEV ? -ENODEV : -ENXIO, "no GPU can be asked: %s", gpu_why_not(library));
}

/* Nobody has one. A reason is told only where there is something to ask. */
static int tell_none(const struct gpu_look *l, const struct gpus_now *now, struct err *err)
{
	const char *why = "";

	for (unsigned i = 0; i < l->n && !*why; i++)
		why = l->asked[i].helper ? gpu_why_not(l->asked[i].helper) : "";
	if (now->n_notes > 0)
		return err_set(err, -ENXIO, "no GPU can be asked: %s", now->notes[0].why);
	if (!l->any_seen)
		return tell_unseen(l->asked[0].vendor->ops == &source_nvml ? l->asked[0].helper : NULL, err);
	return err_set(err, -ENXIO, "there is a GPU here, and nobody to ask about it: %s", why);
}

/* One that found no GPU ends at once, and is kept for the reason that it told. */
static void reap_ended(struct gpu_look *l)
{
	for (unsigned i = 0; i < l->n; i++) {
		if (l->asked[i].helper && gpu_fd(l->asked[i].helper) < 0)
			(void) gpu_reap(l->asked[i].helper);
	}
}

/* Who reads no stderr has the reason beside the empty list, unless a note says it already. */
static int note_none(const struct gpu_look *l, struct gpus_now *now, struct err *err)
{
	struct err why = { "" };
	const bool is_noted = now->n_notes > 0;
	const int r = tell_none(l, now, &why);

	if (!is_noted)
		gpus_now_look_note(now, why.text);
	return err_set(err, r, "%s", why.text);
}

static void ask(struct asked *a)
{
	a->is_new = false;
	atomic_store(&a->facts->n, 0);
	gpu_ask(a->helper);
}

int gpu_look(struct gpu_look *l, uint64_t patience_ns, struct gpus_now *now, struct err *err)
{
	const uint64_t until = clock_boot_ns() + patience_ns;
	int r = 0;

	for (unsigned i = 0; i < l->n; i++) {
		struct asked *a = &l->asked[i];

		a->is_done = false;
		if (a->is_to_forget)
			forget(l, a, now);
		if (l->is_first)
			continue;
		if (a->helper)
			ask(a);
		else if (gpu_again_is_due(&a->again) && start_helper(l, a, err) < 0)
			gpu_again_plan(&a->again, a->started_ns);
	}
	l->is_first = false;
	gpus_now_begin_look(now);
	await(l, until, now);
	now->wall_ns = clock_wall_ns();
	for (unsigned i = 0; i < l->n; i++) {
		struct err why = { "" };
		const int of_this = judge(l, &l->asked[i], patience_ns, now, &why);

		if (of_this < 0 && r == 0)
			r = err_set(err, of_this, "%s", why.text);
	}
	reap_ended(l);
	gpus_now_sort(now);
	if (r == 0 && now->n_gpus == 0)
		r = note_none(l, now, err);
	return now->error ? err_set(err, now->error, "out of memory") : r;
}

/* SPDX-License-Identifier: MIT */
#include "source/drm/users.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"

/* The metrics reported for a process. */
static const enum metric reported[] = {
	M_GPROC_MEM,
	M_GPROC_MEM_HOST,
	M_GPROC_SM_BUSY,
	M_GPROC_ENC_BUSY,
	M_GPROC_DEC_BUSY,
};

enum {
	REPORTED = sizeof(reported) / sizeof(reported[0]),
	MAX_USERS = 1 << 16
};

struct drm_user {
	int32_t pid;
	uint64_t start_ticks;
	int card;
	uint32_t id;
	uint64_t scan;
	bool unknown[REPORTED]; /* last reported as unknown */
};

struct maybe drm_use_bytes(const struct drm_use *use, bool adds_host)
{
	int64_t sum;

	if (!adds_host || !use->host_bytes.known)
		return use->device_bytes;
	if (!use->device_bytes.known)
		return use->host_bytes;
	return __builtin_add_overflow(use->device_bytes.value, use->host_bytes.value, &sum) ? UNKNOWN
											    : known(sum);
}

/* The process of a use; a new one is created with its birth. NULL: out of memory. */
static struct drm_user *user_of(struct drm_users *u, const struct drm_use *use, struct framebuf *out)
{
	for (size_t i = 0; i < u->n; i++) {
		struct drm_user *user = &u->list[i];

		if (user->pid == use->pid && user->card == use->card && user->start_ticks == use->start_ticks)
			return user;
	}
	if (vec_reserve(&u->list, &u->cap, u->n, sizeof(*u->list), MAX_USERS) < 0)
		return NULL;
	struct drm_user *user = &u->list[u->n++];
	struct birth birth = {
		.entity = ENTITY_GPU_PROCESS,
		.id = ++u->last_id,
		.gpu_process = {
			.gpu = (uint32_t) use->card + 1,
			.pid = known(use->pid),
			.compute = use->compute,
			.graphics = use->graphics,
		},
	};

	*user = (struct drm_user) {
		.pid = use->pid,
		.start_ticks = use->start_ticks,
		.card = use->card,
		.id = u->last_id,
	};
	framebuf_birth(out, &birth);
	return user;
}

static void user_report(struct drm_user *user, size_t row, struct maybe value, struct framebuf *out)
{
	if (value.known)
		framebuf_value(out, reported[row], user->id, value.value);
	else if (!user->unknown[row])
		framebuf_unknown(out, reported[row], user->id);
	user->unknown[row] = !value.known;
}

static void ends_tell(struct drm_users *u, struct framebuf *out)
{
	for (size_t i = 0; i < u->n;) {
		if (u->list[i].scan == u->scan) {
			i++;
			continue;
		}
		struct end end = { .entity = ENTITY_GPU_PROCESS, .id = u->list[i].id, .how = END_SEEN };

		framebuf_end(out, &end);
		u->list[i] = u->list[--u->n];
	}
}

int drm_users_report(struct drm_users *u, const struct drm_use *uses, size_t n, const bool *adds_host,
	struct framebuf *out)
{
	u->scan++;
	for (size_t i = 0; i < n; i++) {
		const struct drm_use *use = &uses[i];
		struct drm_user *user = user_of(u, use, out);

		if (!user)
			return -ENOMEM;
		const struct maybe values[REPORTED] = {
			drm_use_bytes(use, adds_host[use->card]),
			use->host_bytes,
			drm_rates_busiest(use->rates, use->n_rates, DRM_COMPUTE),
			drm_rates_busiest(use->rates, use->n_rates, DRM_ENCODE),
			drm_rates_busiest(use->rates, use->n_rates, DRM_DECODE),
		};

		user->scan = u->scan;
		for (size_t row = 0; row < REPORTED; row++) {
			if (reported[row] != M_GPROC_MEM_HOST || adds_host[use->card])
				user_report(user, row, values[row], out);
		}
	}
	ends_tell(u, out);
	return 0;
}

void drm_users_unknown(struct drm_users *u, struct framebuf *out)
{
	for (size_t i = 0; i < u->n; i++) {
		for (size_t row = 0; row < REPORTED; row++)
			user_report(&u->list[i], row, UNKNOWN, out);
	}
}

void drm_users_done(struct drm_users *u)
{
	free(u->list);
	*u = (struct drm_users) { 0 };
}

/* SPDX-License-Identifier: MIT */
#include "source/nvidia/nvml/integrals.h"

#include <string.h>

#include "base/clock.h"
#include "source/nvidia/nvml/internal.h"

/* Reads further apart than this are not integrated over. */
#define LONGEST_NS 10000000000ULL

/* A counter that does not advance in STUCK_NS, while STUCK_UJ were drawn, is stuck. Working
 * counters advance every 100 ms. */
#define STUCK_NS      2000000000ULL
#define STUCK_LAST_NS 300000000ULL /* if no other read follows */
#define STUCK_UJ      1000000

static uint64_t span_of(uint64_t before_ns, uint64_t now_ns)
{
	uint64_t span = counter_delta(before_ns, now_ns);

	return before_ns && span < LONGEST_NS ? span : 0;
}

/* ---- energy ---------------------------------------------------------------------------------- */

/* Cards before Volta and some virtual ones have no energy counter, on others it disappears or gets
 * stuck: from its last value on, power is integrated, linearly between two reads. */
void nvml_power_update(struct source *s, struct nvml_gpu *d, int code, struct maybe uw)
{
	struct nvml_power *p = &d->power;

	p->code = code;
	if (uw.known && p->uw.known) {
		__int128 sum = (__int128) (uw.value + p->uw.value) *
				       (int64_t) span_of(p->read_ns, s->now_ns) +
			       p->left;

		p->energy_uj += (int64_t) (sum / 2000000000);
		p->left = (int64_t) (sum % 2000000000);
	}
	p->uw = uw;
	p->read_ns = s->now_ns;
}

/* Relates the counter to the energy reported so far. A counter below its last value was reset. One
 * that is not, yet is below the reported energy, missed the energy that was integrated while it was
 * unavailable, so the reported value continues from there. The same holds for a counter that
 * appears after power was integrated: the energy that it counted before belongs to no run. */
static void set_ahead(struct nvml_power *p, int64_t uj, int64_t told_uj)
{
	if (!p->counter.known && p->reported)
		p->ahead_uj = told_uj - uj;
	else if (p->counter.known && uj < p->counter.value)
		p->ahead_uj = 0;
	else if (told_uj - uj > p->ahead_uj)
		p->ahead_uj = told_uj - uj;
}

bool nvml_energy_update(const struct source *s, struct nvml_gpu *d, struct reading *r)
{
	const bool is_last = s->env->budget && s->env->budget->last;
	struct nvml_power *p = &d->power;
	const int64_t uj = r->value;

	if (p->stuck)
		return false;
	/* power may have been read since the integral was reported */
	set_ahead(p, uj, p->reported ? p->energy_uj : d->counters[M_GPU_ENERGY].last);
	p->reported = false;
	if (__builtin_add_overflow(uj, p->ahead_uj, &r->value))
		r->value = INT64_MAX;
	r->min = r->max = r->value;
	if (!p->counter.known || p->counter.value != uj) {
		p->counter = known(uj);
		p->moved_ns = s->now_ns;
		p->energy_uj = r->value;
		p->left = 0;
		p->read_ns = s->now_ns; /* what was drawn before is in the counter */
	}
	p->stuck = counter_delta(p->moved_ns, s->now_ns) >= (is_last ? STUCK_LAST_NS : STUCK_NS) &&
		   p->energy_uj - r->value >= STUCK_UJ;
	return !p->stuck;
}

void nvml_power_resume(const struct source *s, struct nvml_gpu *d)
{
	d->power.uw = UNKNOWN;
	d->power.moved_ns = s->now_ns;
}

/* An unspecified error was already noted for power, its cause. */
int nvml_power_integral(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	struct nvml_power *p = &d->power;

	(void) s;
	if (p->code == NVML_SUCCESS ? !p->uw.known : nvml_code(p->code)->code == NVML_UNKNOWN)
		return NVML_NO_DATA;
	nvml_set(r, (uint64_t) p->energy_uj, 1);
	p->reported |= p->code == NVML_SUCCESS;
	return p->code;
}

/* The same, for other reasons. */
int nvml_power_instead(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	return d->power.stuck ? nvml_power_integral(s, d, r) : NVML_NOT_SUPPORTED;
}

int nvml_power_onwards(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	return d->power.counter.known ? nvml_power_integral(s, d, r) : NVML_NOT_SUPPORTED;
}

/* ---- throttling ------------------------------------------------------------------------------ */

/* The hardware slowdown bit is set for every cause, including heat, which also has a bit of its
 * own. */
#define HW_SLOWDOWN 0x8ULL

/* Idle (0x1), clocks set by a user (0x2) and display clocks (0x100) are not throttling. */
static const uint64_t reason_bits[NVML_REASONS] = {
	[REASON_POWER] = 0x4,          /* software power cap */
	[REASON_THERMAL] = 0x20 | 0x40, /* software and hardware thermal slowdown */
	[REASON_HW] = HW_SLOWDOWN | 0x80, /* power brake */
	[REASON_OTHER] = 0x10 | 0x200 | 0x400, /* sync boost, board limit, reliability */
	[REASON_HW_THERMAL] = 0x40,
};

void nvml_reasons_of(uint64_t mask, bool ret[NVML_REASONS])
{
	if (mask & reason_bits[REASON_THERMAL])
		mask &= ~HW_SLOWDOWN;
	for (int i = 0; i < NVML_REASONS; i++)
		ret[i] = mask & reason_bits[i];
}

/* Reads the mask once per read. A reason active at both ends counts for the whole interval, at one
 * end for half of it. */
static void read_reasons(struct source *s, struct nvml_gpu *d)
{
	struct nvml_reasons *reasons = &d->reasons;
	uint64_t mask = NVML_NONE_U64, span = span_of(reasons->read_ns, s->now_ns);
	bool active[NVML_REASONS];

	reasons->n_reads = s->n_reads;
	reasons->code = NVML_CALL(&s->nvml, reasons, d->handle, &mask);
	if (reasons->code == NVML_SUCCESS && mask == NVML_NONE_U64)
		reasons->code = NVML_NO_DATA;
	if (reasons->code != NVML_SUCCESS) {
		reasons->read_ns = 0;
		return;
	}
	nvml_reasons_of(mask, active);
	for (int i = 0; i < NVML_REASONS; i++)
		reasons->total_ns[i] += span * (unsigned) (active[i] + reasons->active[i]) / 2;
	memcpy(reasons->active, active, sizeof(active));
	reasons->read_ns = s->now_ns;
}

static int read_reason(struct source *s, struct nvml_gpu *d, enum nvml_reason reason, struct reading *r)
{
	if (d->reasons.n_reads != s->n_reads)
		read_reasons(s, d);
	nvml_set(r, d->reasons.total_ns[reason], 1);
	return d->reasons.code;
}

int nvml_reasons_power(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	return read_reason(s, d, REASON_POWER, r);
}

int nvml_reasons_thermal(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	return read_reason(s, d, REASON_THERMAL, r);
}

int nvml_reasons_hw(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	return read_reason(s, d, REASON_HW, r);
}

int nvml_reasons_other(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	return read_reason(s, d, REASON_OTHER, r);
}

/* The driver's own time, in ns. */
static int read_field(const struct nvml_gpu *d, enum nvml_field field, struct reading *r)
{
	nvml_set(r, d->fields.value[field], 1);
	return d->fields.code[field];
}

int nvml_throttle_power(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	(void) s;
	return read_field(d, FIELD_THROTTLE_POWER, r);
}

/* Where the mask of reasons cannot be read. */
int nvml_throttle_thermal_sw(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	(void) s;
	return read_field(d, FIELD_THROTTLE_THERMAL, r);
}

/* By NVML's header the driver's time (field 75) is that of the software's slowdown alone. It may
 * include the hardware's on some driver, and both may be active at once: between two reads, the
 * larger of the driver's time and the hardware's time by the mask counts. */
int nvml_throttle_thermal(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	struct nvml_thermal *t = &d->thermal;
	const uint64_t driver_ns = d->fields.value[FIELD_THROTTLE_THERMAL];
	const int code = d->fields.code[FIELD_THROTTLE_THERMAL];

	if (code != NVML_SUCCESS)
		return code;
	if (d->reasons.n_reads != s->n_reads)
		read_reasons(s, d);
	if (nvml_code(d->reasons.code)->meaning == NVML_ABSENT ||
		nvml_code(d->reasons.code)->meaning == NVML_FORBIDDEN)
		return d->reasons.code;
	const uint64_t hw_ns = d->reasons.total_ns[REASON_HW_THERMAL];
	const uint64_t of_driver = counter_delta(t->driver_ns, driver_ns),
		       of_hw = counter_delta(t->hw_ns, hw_ns);

	if (!t->begun)
		t->total_ns = driver_ns;
	else
		t->total_ns += of_driver > of_hw ? of_driver : of_hw;
	*t = (struct nvml_thermal) {
		.driver_ns = driver_ns, .hw_ns = hw_ns, .total_ns = t->total_ns, .begun = true
	};
	nvml_set(r, t->total_ns, 1);
	return NVML_SUCCESS;
}

/* All three or none: a sum without one of them would be less precise than the mask. */
int nvml_throttle_other(struct source *s, struct nvml_gpu *d, struct reading *r)
{
	static const enum nvml_field fields[] = { FIELD_THROTTLE_SYNC_BOOST, FIELD_THROTTLE_BOARD,
		FIELD_THROTTLE_RELIABILITY };
	uint64_t sum = 0;

	(void) s;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (d->fields.code[fields[i]] != NVML_SUCCESS)
			return d->fields.code[fields[i]];
		sum += d->fields.value[fields[i]];
	}
	nvml_set(r, sum, 1);
	return NVML_SUCCESS;
}

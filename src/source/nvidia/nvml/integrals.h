/* SPDX-License-Identifier: MIT
 *
 * What is made into a counter by adding up over time: power where there is no energy counter (any more) or none to be
 * believed, and the reasons for which clocks are held back, which the driver tells as a mask of the moment.
 */
#pragma once

#include "base/maybe.h"
#include "model/frame.h"

struct source;
struct nvml_gpu;

enum nvml_reason {
	REASON_POWER,
	REASON_THERMAL,
	REASON_HW,
	REASON_OTHER,
	NVML_REASONS,
};

/* Of one device. */
struct nvml_reasons {
	uint64_t look;    /* the source's look at which the mask was read */
	uint64_t read_ns; /* 0: never */
	bool held[NVML_REASONS];
	uint64_t total_ns[NVML_REASONS];
	int code;
};

struct nvml_power {
	struct maybe uw;
	uint64_t read_ns;
	int64_t energy_uj, left; /* so far, and what is less than a microjoule, in units of 2e-9 of one */
	int code;                /* of the last reading of power */
	struct maybe counter;    /* the driver's own, as it was when it last moved, */
	uint64_t moved_ns;       /* then; energy_uj goes on from it */
	int64_t ahead_uj;        /* of it is what was told: what it missed; or, negative, what it had counted before anybody asked it */
	bool told;               /* energy_uj was */
	bool stands;             /* it does not rise, whatever is drawn: not believed from then on */
};

/* What clock event reasons a mask names, one or more of each kind. */
void nvml_reasons_of(uint64_t mask, bool ret[NVML_REASONS]);

/* Power was read, or could not be. */
void nvml_power_seen(struct source *s, struct nvml_gpu *d, int code, struct maybe uw);

/* The driver's counter was read into *r, behind power: *r becomes what is told. Returns whether it can be so. */
bool nvml_energy_seen(const struct source *s, struct nvml_gpu *d, struct reading *r);

/* The device was away: what it drew meanwhile nobody knows. */
void nvml_power_again(const struct source *s, struct nvml_gpu *d);

/* Readers of rows.c. */
int nvml_power_instead(struct source *s, struct nvml_gpu *d, struct reading *r);
int nvml_power_onwards(struct source *s, struct nvml_gpu *d, struct reading *r);
int nvml_power_integral(struct source *s, struct nvml_gpu *d, struct reading *r);
int nvml_throttle_power(struct source *s, struct nvml_gpu *d, struct reading *r);
int nvml_throttle_thermal(struct source *s, struct nvml_gpu *d, struct reading *r);
int nvml_throttle_other(struct source *s, struct nvml_gpu *d, struct reading *r);
int nvml_reasons_power(struct source *s, struct nvml_gpu *d, struct reading *r);
int nvml_reasons_thermal(struct source *s, struct nvml_gpu *d, struct reading *r);
int nvml_reasons_hw(struct source *s, struct nvml_gpu *d, struct reading *r);
int nvml_reasons_other(struct source *s, struct nvml_gpu *d, struct reading *r);

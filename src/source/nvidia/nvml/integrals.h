/* SPDX-License-Identifier: MIT
 *
 * Counters made by integrating over time: energy from power if there is no (working) energy
 * counter, and throttling time from the mask of clock event reasons, which the driver reports only
 * for the moment.
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
	REASON_HW_THERMAL, /* the hardware's part of REASON_THERMAL */
	NVML_REASONS,
};

/* State of one device. */
struct nvml_reasons {
	uint64_t n_reads;    /* the source's read that read the mask */
	uint64_t read_ns; /* 0: never */
	bool active[NVML_REASONS];
	uint64_t total_ns[NVML_REASONS];
	int code;
};

/* Time of throttling for heat: the driver's time of the software's, and the hardware's by the
 * mask. */
struct nvml_thermal {
	uint64_t driver_ns, hw_ns; /* as last read */
	uint64_t total_ns;
	bool begun;
};

struct nvml_power {
	struct maybe uw;
	uint64_t read_ns;
	int64_t energy_uj, left; /* so far; the rest below 1 uJ, in units of 2e-9 uJ */
	int code;                /* of the last read of power */
	struct maybe counter;    /* the driver's counter when it last advanced */
	uint64_t moved_ns;       /* at this time; energy_uj continues from it */
	int64_t ahead_uj;        /* reported minus counter: energy it missed; < 0: counted before the run */
	bool reported;               /* energy_uj was appended */
	bool stuck;             /* it does not advance while power is drawn: ignored afterwards */
};

/* Splits a mask of clock event reasons into kinds; several may be set. */
void nvml_reasons_of(uint64_t mask, bool ret[NVML_REASONS]);

/* Applies a read of power, or its failure. */
void nvml_power_update(struct source *s, struct nvml_gpu *d, int code, struct maybe uw);

/* Applies a read of the driver's counter in *r: *r becomes the value to append. Power is read between
 * two reads of the counter, at least as often. Returns false if the counter is stuck. */
bool nvml_energy_update(const struct source *s, struct nvml_gpu *d, struct reading *r);

/* The device was unavailable: its energy in that time is unknown. */
void nvml_power_resume(const struct source *s, struct nvml_gpu *d);

/* Readers for the rows of rows.c. */
int nvml_power_instead(struct source *s, struct nvml_gpu *d, struct reading *r);
int nvml_power_onwards(struct source *s, struct nvml_gpu *d, struct reading *r);
int nvml_power_integral(struct source *s, struct nvml_gpu *d, struct reading *r);
int nvml_throttle_power(struct source *s, struct nvml_gpu *d, struct reading *r);
int nvml_throttle_thermal(struct source *s, struct nvml_gpu *d, struct reading *r);
int nvml_throttle_thermal_sw(struct source *s, struct nvml_gpu *d, struct reading *r);
int nvml_throttle_other(struct source *s, struct nvml_gpu *d, struct reading *r);
int nvml_reasons_power(struct source *s, struct nvml_gpu *d, struct reading *r);
int nvml_reasons_thermal(struct source *s, struct nvml_gpu *d, struct reading *r);
int nvml_reasons_hw(struct source *s, struct nvml_gpu *d, struct reading *r);
int nvml_reasons_other(struct source *s, struct nvml_gpu *d, struct reading *r);

/* SPDX-License-Identifier: MIT */
#include "nvml_internal.h"
#include "nvml_spec.h"

enum {
	MEGA = 1000000,
	MILLI = 1000,
};

static struct maybe figure(int code, unsigned value, uint64_t scale)
{
	if (code != NVML_SUCCESS || value == NVML_NONE_U32)
		return UNKNOWN;
	return known((int64_t) (value * scale));
}

/* One call that gives one number. */
#define ONE(s, d, scale, member, ...) \
	({ \
		unsigned value_ = NVML_NONE_U32; \
		int code_ = NVML_CALL(&(s)->nvml, member, (d)->handle, ##__VA_ARGS__, &value_); \
		figure(code_, value_, scale); \
	})

static void read_capability(struct source *s, const struct nvml_gpu *d, struct nvml_device_spec *ret)
{
	int major, minor;

	if (NVML_CALL(&s->nvml, compute_capability, d->handle, &major, &minor) != NVML_SUCCESS)
		return;
	ret->major = known(major);
	ret->minor = known(minor);
	ret->of_sm = nvml_spec_of(major, minor);
	ret->cores = ONE(s, d, 1, cores);
	if (ret->cores.known && ret->of_sm)
		ret->sms = known(ret->cores.value / ret->of_sm->cores);
}

static void read_limits(struct source *s, const struct nvml_gpu *d, struct nvml_device_spec *ret)
{
	unsigned min_mw = NVML_NONE_U32, max_mw = NVML_NONE_U32;
	int code = NVML_CALL(&s->nvml, power_range, d->handle, &min_mw, &max_mw);

	ret->power_min_uw = figure(code, min_mw, MILLI);
	ret->power_max_uw = figure(code, max_mw, MILLI);
	ret->power_default_uw = ONE(s, d, MILLI, power_default);
	ret->power_limit_uw = ONE(s, d, MILLI, power_limit);
	ret->max_sm_hz = ONE(s, d, MEGA, max_clock, NVML_CLOCK_SM);
	ret->max_memory_hz = ONE(s, d, MEGA, max_clock, NVML_CLOCK_MEMORY);
	ret->bus_bits = ONE(s, d, 1, bus_width);
	ret->pcie_generation = ONE(s, d, 1, pcie_generation);
	ret->pcie_lanes = ONE(s, d, 1, pcie_width);
}

int nvml_specs(const struct source_env *env, nvml_spec_teller *tell, void *ctx, struct err *err)
{
	struct source *s = NULL;
	int n = 0, r = source_nvml.open(env, &s, err);

	for (size_t i = 0; r == 0 && i < s->n_gpus; i++) {
		const struct nvml_gpu *d = s->gpus[i];
		struct nvml_device_spec spec = {
			.uuid = d->uuid,
			.name = d->name,
			.pci = d->pci,
			.driver = s->nvml.driver,
			.index = d->index,
			.memory_bytes = d->memory_bytes,
			.divided = d->mig,
			.unified = d->unified,
		};

		if (d->state != NVML_AWAKE || d->parent)
			continue;
		read_capability(s, d, &spec);
		read_limits(s, d, &spec);
		tell(ctx, &spec);
		n++;
	}
	source_nvml.close(s);
	return r < 0 ? r : n;
}

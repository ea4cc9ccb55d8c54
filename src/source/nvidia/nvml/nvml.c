/* SPDX-License-Identifier: MIT
 *
 * NVIDIA's GPUs, by NVML. Every call may block in the driver, so this source runs in a helper
 * process.
 *
 * Periods: the driver refreshes the values on its shared page (utilisation, clocks, power, clock
 * event reasons, temperature, memory) every 100 ms on data-center cards and every 500 ms on others,
 * so faster reads return the same values. All other calls take the driver's global lock, which the
 * measured program waits for as well.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "source/host/container.h"
#include "source/nvidia/nvml/internal.h"

static const struct source_group groups[NVML_GROUPS] = {
	/* Peak memory matters most: read as often as the driver's page changes; 12 us a device. */
	[NVML_GROUP_MEMORY] = { .name = "memory",
		.contents = "device memory in use",
		.period_ns = 100000000 },
	/* All of it is on the driver's page: 50 us a device. Utilisation and power are themselves means,
	 * of up to 1 s. */
	[NVML_GROUP_ACTIVITY] = { .name = "activity",
		.contents = "busy, power, free memory, temperature, clocks, encoders",
		.period_ns = 200000000 },
	/* 1 ms a device on an H100. A longer period of counters loses no time, only detail. */
	[NVML_GROUP_COUNTERS] = { .name = "counters",
		.contents = "throttling, PCIe, NVLink; the memory's temperature",
		.period_ns = 1000000000,
		.rank = 1 },
	/* Energy is a counter, and takes 3 ms on an H100, the fan 0.4 ms; ECC, limits, MIG instances,
	 * sleeping and lost devices seldom change. */
	[NVML_GROUP_RARE] = { .name = "rare",
		.contents = "energy, power limit, fan, ECC, MIG instances, lost GPUs",
		.period_ns = 5000000000,
		.rank = 1 },
	/* Takes milliseconds a device, under locks that the measured program waits for: read faster
	 * only while device memory moves, and only the lists of those devices; slower where lists
	 * are expensive and nothing moves (schedule.c). */
	[NVML_GROUP_PROCESSES] = { .name = "processes",
		.contents = "the processes on each GPU, and their memory",
		.period_ns = 1000000000,
		.moving_ns = 250000000,
		.idle_ns = 5000000000,
		.lists = true,
		.marks = true },
	/* The mean between two samples: a longer period loses no time, only detail. 0.3 ms a device on an
	 * H100, without expensive metrics. */
	[NVML_GROUP_GPM] = { .name = "gpm",
		.contents = "SM activity and occupancy, pipes, DRAM",
		.period_ns = 1000000000,
		.rank = 1,
		.pairs = true },
	/* The driver collects them between reads. */
	[NVML_GROUP_EVENTS] = { .name = "events",
		.contents = "Xid errors",
		.period_ns = 1000000000,
		.rank = 1,
		.gathers = true },
};

#define RESCAN_NS 1000000000ULL  /* between scans for MIG instances after a handle became invalid */
#define RETRY_NS  1000000000ULL /* the first delay; it doubles each time */

static bool is_wsl(const struct root *root)
{
	char text[256];

	return smallfile_read(root->proc, "version", text, sizeof(text)) > 0 &&
	       (strstr(text, "microsoft") || strstr(text, "Microsoft"));
}

/* Since 535.113.01 the driver reports pids in the caller's pid namespace. */
static bool translates_pids(const char *driver)
{
	uint64_t major = 0, minor = 0;

	if (parse_u64(&driver, &major) < 0 || !parse_word(&driver, ".") || parse_u64(&driver, &minor) < 0)
		return false;
	return major > 535 || (major == 535 && minor >= 113);
}

static void nvml_close(struct source *s)
{
	if (!s)
		return;
	nvml_events_close(s);
	nvml_gpus_free(s);
	free(s->room.bytes);
	free(s->room.listed);
	free(s->gpm_metrics);
	nvml_unload(&s->nvml);
	free(s);
}

static int nvml_open(const struct source_env *env, struct source **ret, struct err *err)
{
	/* A captured machine has no driver, unless HIWATER_NVML names a library that stands in for
	 * it (tests). */
	if (!env->root->live && !getenv("HIWATER_NVML"))
		return err_set(err, -ENODEV, "NVML can read this machine only, not a captured one");
	struct source *s = calloc(1, sizeof(*s));

	if (!s)
		return err_set(err, -ENOMEM, "NVML: out of memory");
	s->env = env;
	s->now_ns = clock_boot_ns();
	s->run_wall_us = UINT64_MAX;
	if (env->start_boot_ns)
		s->run_wall_us = (clock_wall_ns() - counter_delta(env->start_boot_ns, s->now_ns)) / 1000;
	s->retry_first_ns = RETRY_NS;
	s->is_wsl = is_wsl(env->root);
	int r = nvml_load(env, &s->nvml, err);

	if (r == 0) {
		s->pids_mean_nothing = !translates_pids(s->nvml.driver) && !machine_first_pids(env->root);
		r = nvml_gpus_find(s, err);
	}
	if (r < 0) {
		nvml_close(s);
		return r;
	}
	nvml_events_open(s);
	*ret = s;
	return 0;
}

static int nvml_read(struct source *s, unsigned what, struct framebuf *out)
{
	s->now_ns = clock_boot_ns();
	s->n_reads++;
	if (what & 1u << NVML_GROUP_RARE ||
		(s->rescan && counter_delta(s->checked_ns, s->now_ns) > RESCAN_NS)) {
		s->checked_ns = s->now_ns;
		nvml_gpus_check(s, out);
	}
	nvml_gpus_retry(s, out);
	nvml_append_births(s, out);
	if (s->env->budget)
		s->env->budget->devices = nvml_gpus_count(s);
	if (what & ~(1u << NVML_GROUP_GPM | 1u << NVML_GROUP_EVENTS))
		nvml_read_devices(s, what, out);
	if (what & 1u << NVML_GROUP_PROCESSES)
		nvml_processes_read(s, out);
	if (what & (1u << NVML_GROUP_MEMORY | 1u << NVML_GROUP_PROCESSES))
		nvml_processes_watch(s, out);
	if (what & 1u << NVML_GROUP_GPM)
		nvml_gpm_read(s, out);
	if (what & 1u << NVML_GROUP_EVENTS)
		nvml_events_read(s, out);
	nvml_turn_to(s, NULL);
	return 0;
}

const struct source_ops source_nvml = {
	.name = "nvml",
	.frame = FRAME_NVML,
	.groups = groups,
	.n_groups = NVML_GROUPS,
	.open = nvml_open,
	.read = nvml_read,
	.probe = nvml_probe,
	.facts = nvml_facts,
	.call_name = nvml_call_name,
	.close = nvml_close,
};

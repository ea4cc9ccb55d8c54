/* SPDX-License-Identifier: MIT
 *
 * GPUs (and NPUs) of every driver without a source of its own: processes from fdinfo, for any
 * driver; clocks, power and temperature from the files of i915, xe and nouveau.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/smallfile.h"
#include "source/drm/gpus.h"
#include "source/drm/query.h"
#include "source/host/parse.h"

enum {
	SENSORS = 1 << 0,
	PROCESSES = 1 << 1,
};

static const struct source_group groups[] = {
	{ .name = "sensors",
		.contents = "power, energy, temperatures, clocks",
		.period_ns = 1000000000,
		.rank = 1,
		.pairs = true },
	{ .name = "processes",
		.contents = "processes on the GPUs, their memory and busy time",
		.period_ns = 1000000000,
		.moving_ns = 1000000000,
		.pairs = true,
		.busy = true },
};

#define MEGAHERTZ  1000000, 1, 0, INT64_C(10000000000)
#define MICROWATTS 1, 1, 0, INT64_C(5000000000)
#define DEGREES    1, 1, GPU_TEMP_LEAST, GPU_TEMP_MOST

static const struct drm_figure rows[] = {
	{ M_GPU_CLOCK_SM, SENSORS, AT_CLASS, "gt_act_freq_mhz", MEGAHERTZ, "sysfs gt_act_freq_mhz" },
	{ M_GPU_CLOCK_SM, SENSORS, AT_CLASS, "gt_cur_freq_mhz", MEGAHERTZ, "sysfs gt_cur_freq_mhz" },
	{ M_GPU_CLOCK_SM, SENSORS, AT_DEVICE, "tile0/gt0/freq0/act_freq", MEGAHERTZ,
		"sysfs tile0/gt0/freq0/act_freq" },
	{ M_GPU_CLOCK_SM, SENSORS, AT_DEVICE, "tile0/gt0/freq0/cur_freq", MEGAHERTZ,
		"sysfs tile0/gt0/freq0/cur_freq" },
	{ M_GPU_POWER, 0, AT_HWMON, "power1_input", MICROWATTS, "hwmon power1_input" }, /* energy_report */
	{ M_GPU_POWER_LIMIT, SENSORS, AT_HWMON, "power1_max", MICROWATTS, "hwmon power1_max" },
	{ M_GPU_TEMP, SENSORS, AT_HWMON, "temp1_input", DEGREES, "hwmon temp1_input" },
	{ M_GPU_TEMP, SENSORS, AT_HWMON, "temp2_input", DEGREES, "hwmon temp2_input (package)" },
	{ M_GPU_TEMP_MEM, SENSORS, AT_HWMON, "temp3_input", DEGREES, "hwmon temp3_input" },
	{ M_GPU_FAN, SENSORS, AT_HWMON, "pwm1", 1000000, 255, 0, 1000000, "hwmon pwm1" },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))
_Static_assert(ROWS <= (size_t) DRM_FIGURES, "more rows than files are kept");

/* Additional state of a GPU. */
struct more {
	struct drm_counter energy;
	uint64_t time_ns; /* of the previous energy value */
};

struct source {
	struct drm_gpus gpus;
	struct more more[DRM_CARDS];
};

/* ---- identity of a GPU -------------------------------------------------------------------------------------------- */

/* amdgpu and NVIDIA's own driver have sources with more detail; the nodes of AMD's partitions
 * belong to a card of amdgpu. */
static bool is_ours(const struct drm_card *card)
{
	static const char *const others[] = { "amdgpu", "amdgpu_xcp", "nvidia", "nvidia-drm" };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (strcmp(card->driver, others[i]) == 0)
			return false;
	}
	return true;
}

/* Part of the CPU or of the board: a GPU of a system on a chip, an NPU, Intel's at its fixed
 * address. */
static bool is_integrated(const struct drm_card *card)
{
	return card->pci[0] == '\0' || card->accel || strcmp(card->pci, "0000:00:02.0") == 0;
}

static struct maybe machine_memory(const struct root *root)
{
	char text[4096];
	struct meminfo m = { 0 };

	if (smallfile_read(root->proc, "meminfo", text, sizeof(text)) > 0)
		meminfo_parse(text, &m);
	return m.total;
}

static void describe(const struct source_env *env, const struct drm_card *card, struct drm_gpu *gpu)
{
	struct drm_memory memory = { 0 };

	snprintf(gpu->uuid, sizeof(gpu->uuid), "%s%s", card->pci[0] ? "pci-" : "", card->key);
	drm_card_name(card, gpu->name, sizeof(gpu->name));
	gpu->unified = gpu->adds_host = is_integrated(card);
	if (!gpu->unified && !drm_card_sleeps(card))
		drm_query_memory(env->root, card, &memory);
	gpu->memory_bytes = gpu->unified ? machine_memory(env->root) : memory.total;
}

/* ---- energy ------------------------------------------------------------------------------------------------------- */

/* The energy counters of Intel cards: energy1 is the card's; energy2, if there are two, is its
 * package's. */
static const char *const energy_files[] = { "energy1_input", "energy2_input" };

/* RAPL names the graphics part of a CPU "uncore", among the domains of its first package. Only root
 * may read it. */
static struct maybe uncore_read(const struct root *root, int64_t *ret_range)
{
	for (int i = 0; i < 8; i++) {
		char path[64], name[32];
		int64_t value;

		snprintf(path, sizeof(path), "class/powercap/intel-rapl:0:%d/name", i);
		if (smallfile_read(root->sys, path, name, sizeof(name)) < 0 || strcmp(name, "uncore\n") != 0)
			continue;
		snprintf(path, sizeof(path), "class/powercap/intel-rapl:0:%d/max_energy_range_uj", i);
		if (drm_number_read(root->sys, path, ret_range) < 0)
			*ret_range = 0;
		snprintf(path, sizeof(path), "class/powercap/intel-rapl:0:%d/energy_uj", i);
		return drm_number_read(root->sys, path, &value) == 0 ? known(value) : UNKNOWN;
	}
	return UNKNOWN;
}

static struct maybe energy_read(const struct source *s, size_t i, int64_t *ret_range)
{
	const struct drm_card *card = &s->gpus.cards.list[i];

	*ret_range = 0;
	for (size_t k = 0; k < sizeof(energy_files) / sizeof(energy_files[0]) && card->hwmon >= 0; k++) {
		int64_t value;

		if (drm_number_read(card->hwmon, energy_files[k], &value) == 0 && value >= 0)
			return known(value);
	}
	return s->gpus.list[i].unified && card->vendor == 0x8086 && !card->accel
		       ? uncore_read(s->gpus.env->root, ret_range)
		       : UNKNOWN;
}

/* If no file gives the power, it is the rise of the energy since the previous read. */
static void energy_report(struct source *s, size_t i, uint64_t now_ns, struct framebuf *out)
{
	struct more *m = &s->more[i];
	const bool seen = m->energy.seen, moves = seen && !s->gpus.env->is_still;
	int64_t before = m->energy.total;
	struct maybe power = drm_gpu_figure(&s->gpus, i, M_GPU_POWER),
		     energy = energy_read(s, i, &m->energy.range);

	energy = drm_counter_apply(&m->energy, energy);
	if (!power.known && energy.known && moves && now_ns > m->time_ns) {
		double watts = (double) (energy.value - before) * 1e3 / (double) (now_ns - m->time_ns);

		power = watts < 5e3 ? known((int64_t) (watts * 1e6)) : UNKNOWN;
	}
	drm_gpu_report(&s->gpus, i, out, M_GPU_ENERGY, energy);
	if (power.known || seen || !energy.known)
		drm_gpu_report(&s->gpus, i, out, M_GPU_POWER, power);
	if (energy.known)
		m->time_ns = now_ns;
}

/* ---- the source --------------------------------------------------------------------------------------------------- */

static void drm_close(struct source *s)
{
	if (!s)
		return;
	drm_gpus_close(&s->gpus);
	free(s);
}

static int drm_open(const struct source_env *env, struct source **ret, struct err *err)
{
	struct source *s = calloc(1, sizeof(*s));

	if (!s)
		return err_set(err, -ENOMEM, "drm: out of memory");
	s->gpus = (struct drm_gpus) {
		.env = env,
		.rows = rows,
		.n_rows = ROWS,
		.is_ours = is_ours,
		.describe = describe,
	};
	int r = drm_gpus_open(&s->gpus);

	if (r < 0) {
		drm_close(s);
		return err_set(err, r, "no other GPU found: %s",
			r == -ENOENT ? "no driver has a render node" : strerror(-r));
	}
	*ret = s;
	return 0;
}

static void sensors_report(struct source *s, size_t i, uint64_t now_ns, struct framebuf *out)
{
	drm_gpus_report_rows(&s->gpus, i, SENSORS, out);
	energy_report(s, i, now_ns, out);
	if (!s->gpus.list[i].unified) {
		struct drm_memory memory;

		drm_query_memory(s->gpus.env->root, &s->gpus.cards.list[i], &memory);
		drm_gpu_report(&s->gpus, i, out, M_GPU_MEM, memory.used);
	}
}

/* The memory that visible processes use on a GPU without memory of its own. */
static struct maybe memory_of_users(const struct drm_use *uses, size_t n, size_t card)
{
	struct maybe sum = known(0);

	for (size_t i = 0; i < n; i++) {
		struct maybe bytes = uses[i].card == (int) card ? drm_use_bytes(&uses[i], true) : UNKNOWN;

		if (bytes.known && __builtin_add_overflow(sum.value, bytes.value, &sum.value))
			return UNKNOWN;
	}
	return sum;
}

static void processes_report(struct source *s, uint64_t now_ns, struct framebuf *out)
{
	size_t n;
	bool listed = drm_clients_scan(s->gpus.clients, now_ns) == 0;
	const struct drm_use *uses = drm_clients_uses(s->gpus.clients, &n);

	if (listed)
		drm_gpus_report_users(&s->gpus, uses, n, out);
	else
		drm_gpus_report_no_users(&s->gpus, out);
	for (size_t i = 0; i < s->gpus.cards.n; i++) {
		drm_gpu_report_by_users(
			&s->gpus, i, out, M_GPU_BUSY, drm_gpus_busy(&s->gpus, i, DRM_COMPUTE));
		drm_gpu_report_by_users(
			&s->gpus, i, out, M_GPU_ENC_BUSY, drm_gpus_busy(&s->gpus, i, DRM_ENCODE));
		drm_gpu_report_by_users(
			&s->gpus, i, out, M_GPU_DEC_BUSY, drm_gpus_busy(&s->gpus, i, DRM_DECODE));
		if (s->gpus.list[i].unified)
			drm_gpu_report_by_users(
				&s->gpus, i, out, M_GPU_MEM, listed ? memory_of_users(uses, n, i) : UNKNOWN);
	}
}

static int drm_read(struct source *s, unsigned group_mask, struct framebuf *out)
{
	uint64_t now = clock_boot_ns();

	drm_gpus_refresh(&s->gpus, now, out);
	for (size_t i = 0; i < s->gpus.cards.n && group_mask & SENSORS; i++) {
		if (drm_gpus_may_query(&s->gpus, i, now, out))
			sensors_report(s, i, now, out);
	}
	if (group_mask & PROCESSES)
		processes_report(s, now, out);
	return 0;
}

/* ---- availability ------------------------------------------------------------------------------------------------- */

#define NO_FILE "this driver does not provide it"
#define FDINFO  "DRM fdinfo engines, all clients, between two samples"
#define BLIND   "needs a driver with fdinfo, and fdinfo of all processes on the GPU, including other users'"

static const struct {
	enum metric metric;
	const char *how, *why_not, *remedy;
} probed[] = {
	{ M_GPU_MEM, "DRM fdinfo, memory of visible processes; Intel cards: i915 and xe queries",
		"Intel cards report it only with CAP_PERFMON, other cards do not report it",
		"sudo setcap cap_perfmon+ep hiwater" },
	{ M_GPU_PROCESSES, "DRM fdinfo", "processes cannot be listed", "" },
	{ M_GPU_BUSY, FDINFO, BLIND, "run as root" },
	{ M_GPU_ENC_BUSY, FDINFO, BLIND, "run as root" },
	{ M_GPU_DEC_BUSY, FDINFO, BLIND, "run as root" },
	{ M_GPU_POWER, "hwmon energy1_input, RAPL uncore, between two samples",
		"no energy counter, or no permission to read it",
		"integrated GPUs: sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj" },
	{ M_GPU_POWER_LIMIT, "hwmon power1_max", NO_FILE, "" },
	{ M_GPU_ENERGY, "hwmon energy1_input, RAPL uncore", "no energy counter, or no permission to read it",
		"integrated GPUs: sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj" },
	{ M_GPU_TEMP, "hwmon temp1_input, temp2_input", NO_FILE, "" },
	{ M_GPU_TEMP_MEM, "hwmon temp3_input", NO_FILE, "" },
	{ M_GPU_CLOCK_SM, "sysfs act_freq", NO_FILE, "" },
	{ M_GPU_FAN, "hwmon pwm1", NO_FILE, "" },
	{ M_GPROC_MEM, "DRM fdinfo resident memory", "no process is on the GPU", "" },
	{ M_GPROC_SM_BUSY, "DRM fdinfo, busiest engine",
		"no process is on the GPU, or its driver has no engine counters", "" },
	{ M_GPROC_ENC_BUSY, "DRM fdinfo engines",
		"no process is on the GPU, or its driver has no engine counters", "" },
	{ M_GPROC_DEC_BUSY, "DRM fdinfo engines",
		"no process is on the GPU, or its driver has no engine counters", "" },
};

/* Shares exist from the second read on. */
static void drm_probe(const struct source_env *env, source_probe_fn *report, void *ctx)
{
	struct framebuf out = { 0 };
	struct source *s = NULL;
	int r = drm_open(env, &s, NULL);

	for (int scan = 0; scan < 2 && r == 0; scan++)
		source_try(&source_drm, env, s, &out);
	for (size_t i = 0; i < sizeof(probed) / sizeof(probed[0]); i++) {
		struct source_probe probe = {
			.metric = probed[i].metric,
			.available = drm_was_reported(&out, probed[i].metric),
			.how = probed[i].how,
			.why_not = "",
			.remedy = "",
		};

		if (!probe.available) {
			probe.why_not = r < 0 ? "no GPU whose driver has a render node"
					      : drm_gpus_sleep(&s->gpus, probed[i].why_not);
			probe.remedy = r < 0 ? "" : probed[i].remedy;
		}
		report(ctx, &probe);
	}
	framebuf_done(&out);
	drm_close(s);
}

static void drm_facts(struct source *s, const struct gpu_fact_set *wanted, source_fact_fn *report, void *ctx)
{
	drm_gpus_facts(&s->gpus, wanted, report, ctx);
}

const struct source_ops source_drm = {
	.name = "drm",
	.frame = FRAME_DRM,
	.groups = groups,
	.n_groups = sizeof(groups) / sizeof(groups[0]),
	.open = drm_open,
	.read = drm_read,
	.probe = drm_probe,
	.facts = drm_facts,
	.close = drm_close,
};

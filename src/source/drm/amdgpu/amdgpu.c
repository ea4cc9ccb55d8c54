/* SPDX-License-Identifier: MIT
 *
 * The source of AMD GPUs, from their kernel driver: sysfs, hwmon, the firmware's table
 * (gpu_metrics); processes from KFD (ROCm) and fdinfo (everything else). AMD's libraries are not
 * used: they take locks that jobs wait for.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "source/drm/amdgpu/internal.h"

/* Reading the sensors makes the firmware write a table, about 1 ms of its time. */
static const struct source_group groups[] = {
	{ .name = "memory", .contents = "device memory", .period_ns = 200000000 },
	{ .name = "sensors",
		.contents = "busy, power, energy, temperatures, clocks, throttling, ECC",
		.period_ns = 1000000000,
		.rank = 1 },
	{ .name = "processes",
		.contents = "processes on the GPUs and their memory; encoders",
		.period_ns = 1000000000,
		.moving_ns = 1000000000,
		.lists = true,
		.pairs = true },
};

static bool is_ours(const struct drm_card *card)
{
	return strcmp(card->driver, "amdgpu") == 0 && card->pci[0] != '\0';
}

static void amdgpu_close(struct source *s)
{
	if (!s)
		return;
	drm_gpus_close(&s->gpus);
	kfd_done(&s->kfd);
	free(s->uses);
	free(s);
}

static int amdgpu_open(const struct source_env *env, struct source **ret, struct err *err)
{
	struct source *s = calloc(1, sizeof(*s));

	if (!s)
		return err_set(err, -ENOMEM, "amdgpu: out of memory");
	s->gpus = (struct drm_gpus) {
		.env = env,
		.rows = amdgpu_rows,
		.n_rows = amdgpu_n_rows,
		.is_ours = is_ours,
		.describe = amdgpu_describe,
	};
	int r = drm_gpus_open(&s->gpus);

	if (r < 0) {
		amdgpu_close(s);
		return err_set(err, r, "no AMD GPU found: %s",
			r == -ENOENT ? "no card uses the amdgpu driver" : strerror(-r));
	}
	s->kfd_error = kfd_open(env->root, &s->gpus.cards, &s->kfd);
	*ret = s;
	return 0;
}

#define KFD_FOREIGN "KFD reports pids of the host, and this is another pid namespace"

/* ---- processes ---------------------------------------------------------------------------------------------------- */

static int use_add(struct source *s, const struct drm_use *use)
{
	int r = vec_reserve(&s->uses, &s->cap_uses, s->n_uses, sizeof(*use), 1 << 20);

	if (r == 0)
		s->uses[s->n_uses++] = *use;
	return r;
}

/* A process that KFD lists. Its fdinfo may include the same memory, since ROCm opens a render node
 * and shares its address space: the larger of the two values counts, not the sum. */
static int kfd_use_add(struct source *s, const struct kfd_use *kfd)
{
	uint64_t start = drm_start_ticks(s->gpus.env->root, kfd->pid);

	for (size_t i = 0; i < s->n_uses; i++) {
		if (s->uses[i].pid == kfd->pid && s->uses[i].card == kfd->card) {
			s->uses[i].device_bytes = maybe_max(s->uses[i].device_bytes, known(kfd->vram_bytes));
			s->uses[i].compute = true;
			return 0;
		}
	}
	if (start == 0 || kfd->vram_bytes == 0) /* it has ended, or only opened the device */
		return 0;
	return use_add(s, &(struct drm_use) {
				  .pid = kfd->pid,
				  .start_ticks = start,
				  .card = kfd->card,
				  .device_bytes = known(kfd->vram_bytes),
				  .compute = true,
			  });
}

/* Returns 0, or -errno: the list is not available. */
static int uses_gather(struct source *s, uint64_t now_ns)
{
	size_t n;
	int r = drm_clients_scan(s->gpus.clients, now_ns);
	const struct drm_use *uses = drm_clients_uses(s->gpus.clients, &n);

	s->n_uses = 0;
	for (size_t i = 0; i < n && r == 0; i++)
		r = use_add(s, &uses[i]);
	if (r == 0 && s->kfd_error == 0)
		r = kfd_read(s->gpus.env->root, &s->kfd);
	for (size_t i = 0; i < s->kfd.n_uses && r == 0; i++)
		r = kfd_use_add(s, &s->kfd.uses[i]);
	return r;
}

/* A ROCm process may use more than fdinfo shows, or be visible only through KFD. */
static void note_kfd(struct source *s, uint64_t now_ns, struct framebuf *out)
{
	static const char unseen[] =
		"may have ROCm processes that cannot be identified here: " KFD_FOREIGN
		"; memory that DRM fdinfo does not show is not attributed to any process";

	if (s->kfd_error != -EXDEV || s->kfd_noted)
		return;
	s->kfd_noted = true;
	for (size_t i = 0; i < s->gpus.cards.n; i++) {
		if (kfd_has(&s->kfd, i))
			drm_gpu_note(&s->gpus, i, "gpu.memory", CAUSE_DEVICE, unseen, now_ns, out);
	}
}

static void processes_report(struct source *s, uint64_t now_ns, struct framebuf *out)
{
	note_kfd(s, now_ns, out);
	if (uses_gather(s, now_ns) == 0)
		drm_gpus_report_users(&s->gpus, s->uses, s->n_uses, out);
	else
		drm_gpus_report_no_users(&s->gpus, out);
	for (size_t i = 0; i < s->gpus.cards.n; i++) {
		drm_gpu_report_by_users(
			&s->gpus, i, out, M_GPU_ENC_BUSY, drm_gpus_busy(&s->gpus, i, DRM_ENCODE));
		drm_gpu_report_by_users(
			&s->gpus, i, out, M_GPU_DEC_BUSY, drm_gpus_busy(&s->gpus, i, DRM_DECODE));
	}
}

/* ---- the source --------------------------------------------------------------------------------------------------- */

static int amdgpu_read(struct source *s, unsigned group_mask, struct framebuf *out)
{
	uint64_t now = clock_boot_ns();

	drm_gpus_refresh(&s->gpus, now, out);
	for (size_t i = 0; i < s->gpus.cards.n && group_mask & (AMDGPU_MEMORY | AMDGPU_SENSORS); i++) {
		if (!drm_gpus_may_query(&s->gpus, i, now, out))
			continue;
		if (group_mask & AMDGPU_MEMORY)
			amdgpu_memory_report(s, i, out);
		if (group_mask & AMDGPU_SENSORS)
			amdgpu_sensors_report(s, i, now, out);
	}
	if (group_mask & AMDGPU_PROCESSES)
		processes_report(s, now, out);
	return 0;
}

/* ---- availability ------------------------------------------------------------------------------------------------- */

#define NO_FILE  "this GPU or its kernel driver does not provide it"
#define NO_TABLE "needs a gpu_metrics table of a revision that has it (1.3, or 1.4 and newer)"
#define FDINFO   "needs fdinfo of all processes on the GPU, including other users' (Linux 5.19)"

static const struct {
	enum metric metric;
	const char *how; /* NULL: see amdgpu_how */
	const char *why_not, *remedy;
} probed[] = {
	{ M_GPU_MEM, "sysfs mem_info_vram_used; on an APU plus mem_info_gtt_used", NO_FILE, "" },
	{ M_GPU_MEM_FREE, "sysfs mem_info_vram_total - used; on an APU with GTT", NO_FILE, "" },
	{ M_GPU_MEM_HOST, "sysfs mem_info_gtt_used, on an APU", "not an APU", "" },
	{ M_GPU_PROCESSES, "KFD and DRM fdinfo", "processes cannot be listed", "" },
	{ M_GPU_BUSY, NULL, "gpu_busy_percent cannot be read, or always reads 100 (Raven, Picasso)", "" },
	{ M_GPU_MEM_BUSY, NULL, NO_FILE, "" },
	{ M_GPU_ENC_BUSY, "DRM fdinfo, all clients", FDINFO, "run as root" },
	{ M_GPU_DEC_BUSY, "DRM fdinfo, all clients", FDINFO, "run as root" },
	{ M_GPU_POWER, NULL, NO_FILE, "" },
	{ M_GPU_POWER_LIMIT, NULL, NO_FILE, "" },
	{ M_GPU_ENERGY, "sysfs gpu_metrics energy accumulator, steps of 15.3 uJ", NO_TABLE, "" },
	{ M_GPU_TEMP, NULL, NO_FILE, "" },
	{ M_GPU_TEMP_MEM, NULL, NO_FILE, "" },
	{ M_GPU_CLOCK_SM, NULL, NO_FILE, "" },
	{ M_GPU_CLOCK_MEM, NULL, NO_FILE, "" },
	{ M_GPU_FAN, NULL, NO_FILE, "" },
	{ M_GPU_THROTTLE_POWER, "sysfs gpu_metrics throttle residency, or the status at each sample",
		NO_TABLE, "" },
	{ M_GPU_THROTTLE_THERMAL, "sysfs gpu_metrics throttle residency, or the status at each sample",
		NO_TABLE, "" },
	{ M_GPU_THROTTLE_HW, "sysfs gpu_metrics throttle residency, or the status at each sample", NO_TABLE,
		"" },
	{ M_GPU_THROTTLE_OTHER, "sysfs gpu_metrics throttle status at each sample", NO_TABLE, "" },
	{ M_GPU_PCIE_RX, "sysfs pcie_bw", "not read: each read of pcie_bw takes 1 s", "" },
	{ M_GPU_PCIE_TX, "sysfs pcie_bw", "not read: each read of pcie_bw takes 1 s", "" },
	{ M_GPU_ECC_CORRECTED, "sysfs ras/umc_err_count", "no RAS support", "" },
	{ M_GPU_ECC_UNCORRECTED, "sysfs ras/umc_err_count", "no RAS support", "" },
	{ M_GPROC_MEM, "the larger of KFD vram and DRM fdinfo", "no process is on the GPU", "" },
	{ M_GPROC_SM_BUSY, "DRM fdinfo, busiest engine; without ROCm", "no process is on the GPU", "" },
	{ M_GPROC_ENC_BUSY, "DRM fdinfo engines", "no process is on the GPU", "" },
	{ M_GPROC_DEC_BUSY, "DRM fdinfo engines", "no process is on the GPU", "" },
};

/* The method where KFD cannot identify processes, so that only fdinfo is left, and what this may
 * omit. */
static const struct {
	enum metric metric;
	const char *how;
} without_kfd[] = {
	{ M_GPU_PROCESSES, "DRM fdinfo alone: " KFD_FOREIGN },
	{ M_GPROC_MEM, "DRM fdinfo alone, which may be less than is used: " KFD_FOREIGN },
};

static void explain_kfd(const struct source *s, struct source_probe *probe)
{
	for (size_t i = 0; s && s->kfd_error == -EXDEV && i < sizeof(without_kfd) / sizeof(without_kfd[0]);
		i++) {
		if (without_kfd[i].metric != probe->metric)
			continue;
		probe->how = without_kfd[i].how;
		probe->why_not = probe->available ? ""
						  : "no process on the GPU shows it in fdinfo; " KFD_FOREIGN;
		probe->remedy = probe->available
					? ""
					: "run hiwater outside the container, or in the host's pid namespace (--pid=host)";
	}
}

static void amdgpu_probe(const struct source_env *env, source_probe_fn *report, void *ctx)
{
	struct framebuf out = { 0 };
	struct source *s = NULL;
	int r = amdgpu_open(env, &s, NULL);

	for (int scan = 0; scan < 2 && r == 0; scan++)
		source_try(&source_amdgpu, env, s, &out);
	for (size_t i = 0; i < sizeof(probed) / sizeof(probed[0]); i++) {
		struct source_probe probe = {
			.metric = probed[i].metric,
			.available = drm_was_reported(&out, probed[i].metric),
			.how = probed[i].how ? probed[i].how : s ? amdgpu_how(s, 0, probed[i].metric)
								 : "sysfs, hwmon",
			.why_not = "",
			.remedy = "",
		};

		if (!probe.available) {
			probe.why_not = r < 0 ? "no AMD GPU with the amdgpu driver found"
					      : drm_gpus_sleep(&s->gpus, probed[i].why_not);
			probe.remedy = r < 0 ? "" : probed[i].remedy;
		}
		explain_kfd(s, &probe);
		report(ctx, &probe);
	}
	framebuf_done(&out);
	amdgpu_close(s);
}

const struct source_ops source_amdgpu = {
	.name = "amdgpu",
	.frame = FRAME_AMDGPU,
	.groups = groups,
	.n_groups = sizeof(groups) / sizeof(groups[0]),
	.open = amdgpu_open,
	.read = amdgpu_read,
	.probe = amdgpu_probe,
	.facts = amdgpu_facts,
	.close = amdgpu_close,
};

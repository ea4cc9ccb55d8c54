/* SPDX-License-Identifier: MIT
 *
 * Rules about GPU activity: idle GPUs, kernels that are too small, what bounds the work.
 */
#include <stdio.h>

#include "base/units.h"
#include "findings/finding.h"
#include "findings/gpus.h"

enum {
	IDLE_PERCENT = 5,
	BUSY_PERCENT = 80,
	SM_PERCENT = 30,
	POWER_PERCENT = 40,
	BOUND_PERCENT = 60
};
static const int64_t idle_least_ns = INT64_C(600000000000);

/* Appends a share from 0 to 1 in percent, unless it is negative (unknown). */
static void put_share(const char *before, double share, const char *after, struct buf *text)
{
	if (share >= 0)
		buf_printf(text, "%s%.0f %%%s", before, share * 100, after);
}

static void share_evidence(struct finding *f, const char *key, double value)
{
	if (value >= 0)
		finding_evidence(f, key, value);
}

/* PCIe traffic, both directions, in bytes a second; negative: unknown. */
static double copied(const struct summary *s, uint32_t id)
{
	const double in = gpu_rise(s->job, M_GPU_PCIE_RX, id), out = gpu_rise(s->job, M_GPU_PCIE_TX, id);

	return in >= 0 && out >= 0 && s->wall_ns.known && s->wall_ns.value > 0
		       ? (in + out) * 1e9 / (double) s->wall_ns.value
		       : -1;
}

/* ---- gpu-idle --------------------------------------------------------------------------------------------------------- */

struct stretch {
	int64_t from_ns, to_ns;
};

static int64_t length(struct stretch stretch)
{
	return stretch.to_ns - stretch.from_ns;
}

/* The longest time in which the GPU was idle while the job used memory on it. */
static struct stretch longest_idle(const struct job *job, uint32_t id)
{
	const struct timeline *some_kernel = job_timeline(job, M_GPU_BUSY, id),
			      *used = job_timeline(job, M_GPU_JOB_MEM, id);
	const struct timeline *busy = some_kernel ? some_kernel
						  : job_timeline(job, M_GPU_GRAPHICS_ACTIVE, id);
	const int64_t span = (int64_t) job_timeline_span(job);
	struct stretch most = { 0 }, now = { 0 };

	for (int64_t i = 0; busy && used && i < TIMELINE_BUCKETS; i++) {
		const struct timeline_bucket *b = &busy->buckets[i];

		if (b->cover_ns == 0 || timeline_mean(b) >= IDLE_PERCENT * 1e4 || used->buckets[i].min <= 0) {
			now = (struct stretch) { 0 };
			continue;
		}
		if (now.to_ns == 0)
			now.from_ns = i * span;
		now.to_ns = (i + 1) * span;
		if (length(now) > length(most))
			most = now;
	}
	return most;
}

static bool is_idle(const struct job *job, uint32_t id)
{
	return length(longest_idle(job, id)) > idle_least_ns;
}

/* How many of the GPUs that the driver shows the job was given. Slurm says which those are, or at least how many, and the driver may
 * show those of other jobs; containers have theirs alone. */
static size_t given_gpus(const struct summary *s, const struct gpus *all, const struct gpus *used)
{
	const struct maybe asked = s->facts->request_gpus;
	const struct maybe ranks = s->facts->ranks, nodes = s->facts->nodes;
	const char *scheduler = s->facts->scheduler ? s->facts->scheduler : "";
	const bool is_of_node = s->facts->part && strcmp(s->facts->part, "node") == 0;

	const bool is_of_all = is_of_node || s->facts->worker_ranks.known;

	if (!is_of_all && ranks.known && ranks.value > (nodes.known ? nodes.value : 1)) /* other ranks use them */
		return 0;
	if (s->facts->allocated_gpus)
		return all->n;
	if (asked.known)
		return (size_t) asked.value < all->n ? (size_t) asked.value : all->n;
	if (strcmp(scheduler, "slurm") == 0)
		return 0;
	return used->n > 0 || *scheduler ? all->n : 0;
}

/* GPUs that the job was given and never used. */
static size_t unused_gpus(
	const struct summary *s, const struct gpus *all, const struct gpus *used, size_t given)
{
	const size_t most = given > used->n ? given - used->n : 0;
	size_t n = 0;

	for (size_t i = 0; i < all->n; i++) {
		const double memory = gpu_most(s->job, M_GPU_JOB_MEM, all->ids[i]);

		n += memory >= 0 && memory <= 0;
	}
	return n < most ? n : most;
}

static void idle_evidence(const struct summary *s, uint32_t id, struct finding *f)
{
	gpu_evidence(s->job, id, f);
	finding_evidence(f, "idle_s", (double) length(longest_idle(s->job, id)) / 1e9);
}

static void put_idle(const struct summary *s, const struct gpus_ranked *idlest, size_t used,
	struct finding *f, struct buf *text)
{
	const struct job *job = s->job;
	const uint32_t id = idlest->list[0].id;
	const struct stretch idle = longest_idle(job, id);
	char time[UNITS_LEN], from[UNITS_LEN], bytes[UNITS_LEN], name[UNITS_LEN];

	gpus_evidence(s, idlest, used, idle_evidence, f);
	finding_interval(f, idle.from_ns, idle.to_ns);
	buf_printf(text, "%s was idle for %s, from %s on, while the job used %s of its memory.",
		gpu_name(job, id, name), units_duration(length(idle), time),
		units_instant(idle.from_ns, from),
		units_bytes((int64_t) gpu_most(job, M_GPU_JOB_MEM, id), UNITS_IEC, bytes));
	gpus_put_others(job, idlest, used, text);
	buf_str(text, " Release it before work that needs no GPU, or run that work in a separate job.");
}

bool rule_gpu_idle(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct job *job = k->s->job;
	const struct gpus all = gpus_all(job), used = gpus_used(job);
	const size_t given = given_gpus(k->s, &all, &used), unused = unused_gpus(k->s, &all, &used, given);
	struct gpus_ranked idlest = { 0 };

	if (gpus_none(&all, text))
		return false;
	for (size_t i = 0; i < all.n; i++) {
		if (is_idle(job, all.ids[i]))
			gpus_rank(&idlest, all.ids[i], (double) length(longest_idle(job, all.ids[i])));
	}
	if (idlest.n > 0) {
		put_idle(k->s, &idlest, used.n, f, text);
		return true;
	}
	if (unused > 0) {
		finding_evidence(f, "unused_gpus", (double) unused);
		finding_evidence(f, "gpus", (double) given);
		buf_printf(text, "%zu of %zu GPUs %s never used by the job: request fewer, or use them all.", unused,
			given, unused == 1 ? "was" : "were");
		return true;
	}
	buf_printf(text,
		"no GPU was under %d %% busy for 10 minutes while the job used memory on it, none was unused",
		IDLE_PERCENT);
	return false;
}

/* ---- gpu-low-use ------------------------------------------------------------------------------------------------------ */

/* Activity of one GPU; shares from 0 to 1, negative: unknown. */
struct use {
	double busy, sm, drawn, dram, copied;
};

static struct use use_of(const struct summary *s, uint32_t id)
{
	const struct job *job = s->job;
	const double power = gpu_mean(job, M_GPU_POWER, id), limit = gpu_mean(job, M_GPU_POWER_LIMIT, id);

	return (struct use) {
		.busy = gpu_busy(job, id),
		.sm = gpu_share(job, M_GPU_SM_ACTIVE, id),
		.drawn = power >= 0 && limit > 0 ? power / limit : -1,
		.dram = gpu_share(job, M_GPU_DRAM_ACTIVE, id),
		.copied = copied(s, id),
	};
}

static bool knows_low_use(const struct use *u)
{
	return u->busy >= 0 && (u->sm >= 0 || u->drawn >= 0);
}

static bool is_low(const struct use *u)
{
	return u->busy * 100 > BUSY_PERCENT && ((u->sm >= 0 && u->sm * 100 < SM_PERCENT) ||
						       (u->drawn >= 0 && u->drawn * 100 < POWER_PERCENT));
}

static void low_use_evidence(const struct summary *s, uint32_t id, struct finding *f)
{
	const struct use u = use_of(s, id);

	gpu_evidence(s->job, id, f);
	share_evidence(f, "gpu_busy_ratio", u.busy);
	share_evidence(f, "sm_active_ratio", u.sm);
	share_evidence(f, "power_ratio", u.drawn);
}

/* known: the GPUs with known activity, the least active first. */
static void put_no_low_use(
	const struct summary *s, const struct gpus_ranked *known, size_t used, struct buf *text)
{
	const struct use u = use_of(s, known->list[0].id);
	char name[UNITS_LEN];

	buf_printf(text, "%s was busy %.0f %% of the time", gpu_called(s->job, known->list[0].id, used, name),
		u.busy * 100);
	put_share(", SMs active ", u.sm, "", text);
	put_share(", ", u.drawn, " of the power limit", text);
	if (known->n > 1)
		buf_printf(text, " (the least of %zu)", known->n);
	buf_printf(text, "; fires above %d %% busy with SMs under %d %% or power under %d %%", BUSY_PERCENT,
		SM_PERCENT, POWER_PERCENT);
}

static void put_low_use(const struct summary *s, const struct gpus_ranked *low, size_t used, struct buf *text)
{
	const uint32_t id = low->list[0].id;
	const struct use u = use_of(s, id);
	char name[UNITS_LEN];

	buf_printf(text, "%s was busy %.0f %% of the time, which only says that some kernel ran:",
		gpu_called(s->job, id, used, name), u.busy * 100);
	put_share(" its SMs were active ", u.sm, "", text);
	put_share(u.sm >= 0 ? " and it drew " : " it drew ", u.drawn, " of its power limit", text);
	buf_str(text, ".");
	gpus_put_others(s->job, low, used, text);
	buf_str(text, " Kernels may be too small: try a larger batch, fused kernels or CUDA graphs.");
	if (low->n < used)
		buf_str(text, " The other GPUs were better used: one may wait for another.");
}

bool rule_gpu_low_use(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct gpus used = gpus_used(k->s->job);
	struct gpus_ranked known = { 0 }, low = { 0 };

	if (gpus_none(&used, text))
		return false;
	for (size_t i = 0; i < used.n; i++) {
		const struct use u = use_of(k->s, used.ids[i]);

		if (knows_low_use(&u))
			gpus_rank(&known, used.ids[i], u.sm >= 0 ? -u.sm : -u.drawn);
		if (is_low(&u))
			gpus_rank(&low, used.ids[i], u.sm >= 0 ? -u.sm : -u.drawn);
	}
	if (known.n == 0) {
		buf_str(text, "neither SM activity nor power could be read");
		return false;
	}
	if (low.n == 0) {
		put_no_low_use(k->s, &known, used.n, text);
		return false;
	}
	gpus_evidence(k->s, &low, used.n, low_use_evidence, f);
	put_low_use(k->s, &low, used.n, text);
	return true;
}

/* ---- gpu-bound-by ----------------------------------------------------------------------------------------------------- */

static bool by_memory(const struct use *u)
{
	return u->dram * 100 >= BOUND_PERCENT;
}

static bool by_compute(const struct use *u)
{
	return u->sm * 100 >= BOUND_PERCENT;
}

static bool by_copies(const struct use *u)
{
	static const double least = 8e9; /* a PCIe 4 link of 16 lanes moves about 20 GB/s in practice */

	return u->copied >= least;
}

static bool by_launches(const struct use *u)
{
	return u->busy * 100 > BUSY_PERCENT && u->sm >= 0 && u->sm * 100 < SM_PERCENT;
}

static bool by_input(const struct use *u)
{
	return u->busy >= 0 && u->busy * 100 < BOUND_PERCENT;
}

/* From the best to the worst; the first that applies to a GPU is reported. */
static const struct bound {
	bool (*is_so)(const struct use *u);
	const char *name, *advice;
} bounds[] = {
	{ by_memory, "memory",
		"lower precision, fused kernels and better locality help; more FLOPs are free" },
	{ by_compute, "compute", "the GPU is well used; tensor cores and lower precision may still help" },
	{ by_copies, "copy", "keep data on the GPU, use pinned memory and overlap copies with kernels" },
	{ by_launches, "launch", "larger batches, fused kernels or CUDA graphs help" },
	{ by_input, "input", "the GPU waits for the host: see data-starved, or profile the host" },
};

enum {
	BOUNDS = sizeof(bounds) / sizeof(bounds[0])
};

/* Returns BOUNDS if none applies. */
static size_t bound_of(const struct use *u)
{
	size_t by = 0;

	while (by < BOUNDS && !bounds[by].is_so(u))
		by++;
	return by;
}

static void bound_evidence(const struct summary *s, uint32_t id, struct finding *f)
{
	const struct use u = use_of(s, id);

	gpu_evidence(s->job, id, f);
	finding_text(f, "bound_by", bounds[bound_of(&u)].name);
	share_evidence(f, "gpu_busy_ratio", u.busy);
	share_evidence(f, "sm_active_ratio", u.sm);
	share_evidence(f, "dram_active_ratio", u.dram);
	share_evidence(f, "copied_bytes_per_s", u.copied);
}

static void put_bound(const struct summary *s, const struct gpus_ranked *worst, size_t used, struct buf *text)
{
	const uint32_t id = worst->list[0].id;
	const struct use u = use_of(s, id);
	const struct bound *bound = &bounds[bound_of(&u)];
	char name[UNITS_LEN];

	buf_printf(text, "The work on %s may be bound by %s", gpu_called_within(s->job, id, used, name),
		bound->name);
	put_share(", busy ", u.busy, "", text);
	put_share(", SMs active ", u.sm, "", text);
	put_share(", memory active ", u.dram, "", text);
	buf_printf(text, ": %s.", bound->advice);
	gpus_put_others(s->job, worst, used, text);
	if (worst->n < used)
		buf_str(text, " The others are not.");
}

/* Reports the GPUs with the worst bound, the least busy of them first. GPUs that were idle for long
 * are left to gpu-idle: means over such a run do not show what bounds the work. */
bool rule_gpu_bound_by(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct gpus used = gpus_used(k->s->job);
	struct gpus_ranked by[BOUNDS + 1] = { 0 };
	bool any_known = false, idle = false;

	if (gpus_none(&used, text))
		return false;
	for (size_t i = 0; i < used.n; i++) {
		const struct use u = use_of(k->s, used.ids[i]);

		if (is_idle(k->s->job, used.ids[i])) {
			idle = true;
			continue;
		}
		any_known = any_known || u.busy >= 0 || u.sm >= 0;
		gpus_rank(&by[bound_of(&u)], used.ids[i], -(u.busy >= 0 ? u.busy : u.sm));
	}
	for (size_t i = BOUNDS; i-- > 0;) {
		if (by[i].n == 0)
			continue;
		gpus_evidence(k->s, &by[i], used.n, bound_evidence, f);
		put_bound(k->s, &by[i], used.n, text);
		return true;
	}
	buf_str(text,
		any_known ? "no single bound stands out"
		: idle    ? "the GPU was idle for long: see gpu-idle"
			  : "the GPU's activity is unknown");
	return false;
}

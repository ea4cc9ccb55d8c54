/* SPDX-License-Identifier: MIT
 *
 * What GPUs could tell, for doctor. A probe may hang or crash in a driver: each source's is made by a process of its own,
 * all at the same time, and what has not answered in time is told as that. They leave their answers in memory that is
 * shared, so that nothing of a process that is stuck has to be waited for.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "sample/gpu_shared.h"

enum {
	PROBE_WHY = 320
};
/* A driver that nobody uses attaches to its cards first, a second or so for each. */
static const uint64_t patience_ns = UINT64_C(10000000000), end_ns = 40000000;

struct answer {
	bool told, available;
	char how[GPU_WHY], why_not[PROBE_WHY], remedy[PROBE_WHY];
};

/* Of a source; written by its process, read once that has ended or done is set. */
struct answers {
	pid_t pid;
	bool opened;             /* there is something for it here */
	int code;                /* why not, as open returned it */
	_Atomic bool done;
	struct answer of[METRIC_COUNT];
	struct source_cost costs[GPU_PLAN_GROUPS];
};

/* ---- in a process of its own ---------------------------------------------------------------------------------------- */

static void take_down(void *ctx, const struct source_probe *probe)
{
	struct answers *answers = ctx;
	struct answer *a = &answers->of[probe->metric];

	a->told = true;
	a->available = probe->available;
	answers->opened |= probe->available;
	(void) snprintf(a->how, sizeof(a->how), "%s", probe->how);
	(void) snprintf(a->why_not, sizeof(a->why_not), "%s", probe->why_not);
	(void) snprintf(a->remedy, sizeof(a->remedy), "%s", probe->remedy);
}

static _Noreturn void answer(const struct source_ops *ops, const struct source_env *env, struct answers *answers, pid_t asker)
{
	struct source_env own = *env;
	struct source *source;

	gpu_stand_alone(asker, env->root, -1);
	own.costs = answers->costs;
	ops->probe(&own, take_down, answers);
	if (!answers->opened)
		answers->code = ops->open(&own, &source, NULL);
	answers->opened |= answers->code == 0;
	atomic_store(&answers->done, true);
	_exit(0);
}

/* ---- who asks ------------------------------------------------------------------------------------------------------- */

static void start_all(const struct gpu_vendor *vendors, unsigned n, const struct source_env *env, struct answers *all)
{
	const pid_t asker = getpid();

	for (unsigned i = 0; i < n; i++) {
		const pid_t pid = fork();

		if (pid == 0)
			answer(vendors[i].ops, env, &all[i], asker);
		all[i].pid = pid;
	}
}

static bool is_gone_by(pid_t pid, uint64_t until_ns)
{
	static const struct timespec moment = { .tv_nsec = 2000000 };

	while (waitpid(pid, NULL, WNOHANG) == 0) {
		if (clock_boot_ns() >= until_ns)
			return false;
		(void) nanosleep(&moment, NULL);
	}
	return true;
}

/* Who cannot be killed, in a driver, is left behind. */
static void await(const struct answers *answers, uint64_t until_ns)
{
	if (answers->pid <= 0 || is_gone_by(answers->pid, until_ns))
		return;
	(void) kill(answers->pid, SIGKILL);
	(void) is_gone_by(answers->pid, clock_boot_ns() + end_ns);
}

/* Who tells more of a source's devices, and has been asked of this metric; else the source itself. */
static unsigned who_fills(const struct gpu_vendor *vendors, const struct answers *all, unsigned n, unsigned source,
	enum metric metric)
{
	for (unsigned i = 0; i < n; i++) {
		if (vendors[i].fills == vendors[source].ops && all[i].done && all[i].opened && all[i].of[metric].told)
			return i;
	}
	return source;
}

/* NVML is loaded and cannot be read: it has a reason, whether or not the PCI bus shows a card. */
static bool is_refused(const struct gpu_vendor *vendors, const struct answers *all)
{
	return vendors[0].ops == &source_nvml && all[0].done && !all[0].opened && all[0].code != -ENOENT;
}

/* A card of NVIDIA's is here and its driver is not: what is missing beside the GPU of a processor, that one could tell. */
static bool lacks_driver(const struct gpu_vendor *vendors, const struct answers *all, const struct root *root, enum metric metric)
{
	return vendors[0].ops == &source_nvml && all[0].done && !all[0].opened && all[0].of[metric].told && gpu_is_of_nvidia(root);
}

/* The source that speaks for a metric: one that has it, else one that is stuck or knows why not, else the first: of
 * several that have nothing here, its reasons are those that a remedy is known for. */
static unsigned most_telling(const struct gpu_vendor *vendors, const struct answers *all, unsigned n, const struct root *root,
	enum metric metric)
{
	for (unsigned i = 0; i < n; i++) {
		if (all[i].done && all[i].of[metric].available)
			return i;
	}
	if (lacks_driver(vendors, all, root, metric))
		return 0;
	for (unsigned i = 0; i < n; i++) {
		if (!all[i].done || (all[i].opened && all[i].of[metric].told))
			return who_fills(vendors, all, n, i, metric);
	}
	return 0;
}

/* Something that can be read, or may be. */
static bool is_any_here(const struct answers *all, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (!all[i].done || all[i].opened)
			return true;
	}
	return false;
}

static void tell_one(const struct gpu_vendor *vendors, const struct answers *all, unsigned n, const struct root *root,
	enum metric metric, source_prober *tell, void *ctx)
{
	const unsigned i = most_telling(vendors, all, n, root, metric);
	const struct answer *a = &all[i].of[metric];
	struct source_probe probe = { .metric = metric, .how = "", .why_not = "no driver of a GPU here tells it", .remedy = "" };
	char silent[GPU_WHY];

	if (!all[i].done) {
		(void) snprintf(silent, sizeof(silent), "%s does not answer, or crashed when it was asked", vendors[i].label);
		probe.why_not = silent;
	} else if (a->told && (all[i].opened || !is_any_here(all, n) || lacks_driver(vendors, all, root, metric))) {
		probe = (struct source_probe) { metric, a->available, a->how, a->available ? "" : a->why_not, a->remedy };
	}
	tell(ctx, &probe);
}

/* What the recorder makes of the lists of processes. */
static bool is_made(enum metric m)
{
	return m == M_GPU_JOB_MEM || m == M_GPU_FOREIGN_MEM || m == M_GPU_UNATTRIBUTED_MEM;
}

static void tell_all(const struct gpu_vendor *vendors, const struct answers *all, unsigned n, const struct root *root,
	source_prober *tell, void *ctx)
{
	const bool none = !is_any_here(all, n) && !gpu_is_present(root) && !is_refused(vendors, all);

	for (int m = 0; m < METRIC_COUNT; m++) {
		const struct source_probe absent = { .metric = (enum metric) m, .how = "", .why_not = "no GPU", .remedy = "" };

		if ((metrics[m].entity != ENTITY_GPU && metrics[m].entity != ENTITY_GPU_PROCESS) || is_made((enum metric) m))
			continue;
		if (none)
			tell(ctx, &absent);
		else
			tell_one(vendors, all, n, root, (enum metric) m, tell, ctx);
	}
}

static void tell_plan(const struct gpu_vendor *vendors, const struct answers *all, unsigned n, uint64_t interval_ns, gpu_planner *plan,
	void *ctx)
{
	struct gpu_tried tried[GPU_VENDORS];
	unsigned n_tried = 0;

	for (unsigned i = 0; i < n && n_tried < GPU_VENDORS; i++) {
		if (all[i].done && all[i].opened)
			tried[n_tried++] = (struct gpu_tried) { &vendors[i], all[i].costs };
	}
	gpu_plan(tried, n_tried, interval_ns, plan, ctx);
}

int gpu_probe(const struct gpu_vendor *vendors, const struct source_env *env, uint64_t interval_ns, source_prober *tell,
	gpu_planner *plan, void *ctx)
{
	const uint64_t until = clock_boot_ns() + patience_ns;
	struct answers *all;
	unsigned n = 0;

	if (!env->root->live && vendors->ops == &source_nvml)
		vendors++; /* a library is no captured file */
	while (vendors[n].ops)
		n++;
	all = mmap(NULL, (n + 1) * sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED)
		return -ENOMEM;
	start_all(vendors, n, env, all);
	for (unsigned i = 0; i < n; i++)
		await(&all[i], until);
	tell_all(vendors, all, n, env->root, tell, ctx);
	if (plan)
		tell_plan(vendors, all, n, interval_ns, plan, ctx);
	(void) munmap(all, (n + 1) * sizeof(*all));
	return 0;
}

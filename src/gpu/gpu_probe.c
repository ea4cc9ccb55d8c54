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
#include "gpu/gpu_shared.h"

enum {
	PROBE_WHY = 320
};
#define SECOND UINT64_C(1000000000)

/* A driver that nobody uses attaches to its cards first, a second or so for each: who answers call after call has longer than who
 * is in a single one. */
static const uint64_t patience_ns = 30 * SECOND, call_ns = 10 * SECOND, end_ns = 40000000;

/* What became of a process that asks. */
enum fate {
	ANSWERED,
	UNBORN,                  /* there is none */
	CRASHED,                 /* status says how */
	STUCK,                   /* in a call, or in what nobody knows */
	SLOW,                    /* it was answered all the time, and was not done */
	FATES
};

struct answer {
	bool told, available;
	char how[GPU_WHY], why_not[PROBE_WHY], remedy[PROBE_WHY];
};

/* Of a source; written by its process, read once that has ended or done is set; what is atomic at any time. Fate, status and
 * silent_ns are the asker's. */
struct answers {
	pid_t pid;
	enum fate fate;
	int status;              /* CRASHED: as waitpid has it */
	bool stays;              /* it could not be killed */
	uint64_t silent_ns;      /* STUCK: for so long */
	_Atomic uint64_t beat;   /* CLOCK_BOOTTIME when it was answered last, or began */
	struct source_asked asked;
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
	own.beat = &answers->beat;
	own.asked = &answers->asked;
	ops->probe(&own, take_down, answers);
	if (!answers->opened)
		answers->code = ops->open(&own, &source, NULL);
	answers->opened |= answers->code == 0;
	atomic_store(&answers->done, true);
	_exit(0);
}

/* ---- who asks ------------------------------------------------------------------------------------------------------- */

static const struct timespec moment = { .tv_nsec = 2000000 };

static void start_all(const struct gpu_vendor *vendors, unsigned n, const struct source_env *env, struct answers *all)
{
	const pid_t asker = getpid();

	for (unsigned i = 0; i < n; i++) {
		atomic_store(&all[i].beat, clock_boot_ns());

		const pid_t pid = fork();

		if (pid == 0)
			answer(vendors[i].ops, env, &all[i], asker);
		all[i].pid = pid;
	}
}

/* Over, or given up: what became of it. */
static bool is_over(struct answers *a, uint64_t until_ns)
{
	const uint64_t now = clock_boot_ns(), beat = atomic_load(&a->beat);

	a->silent_ns = now > beat ? now - beat : 0;
	if (a->pid <= 0)
		a->fate = UNBORN;
	else if (waitpid(a->pid, &a->status, WNOHANG) != 0)
		a->fate = CRASHED;
	else if (a->silent_ns >= call_ns)
		a->fate = STUCK;
	else if (now >= until_ns)
		a->fate = SLOW;
	else
		return false;
	return true;
}

static bool is_gone_by(pid_t pid, uint64_t until_ns)
{
	while (waitpid(pid, NULL, WNOHANG) == 0) {
		if (clock_boot_ns() >= until_ns)
			return false;
		(void) nanosleep(&moment, NULL);
	}
	return true;
}

/* Who cannot be killed, in a driver, is left behind. */
static void await(struct answers *a, uint64_t until_ns)
{
	while (!is_over(a, until_ns))
		(void) nanosleep(&moment, NULL);
	if (a->fate == STUCK || a->fate == SLOW) {
		(void) kill(a->pid, SIGKILL);
		a->stays = !is_gone_by(a->pid, clock_boot_ns() + end_ns);
	}
	if (atomic_load(&a->done))
		a->fate = ANSWERED;
}

/* ---- one that did not answer ---------------------------------------------------------------------------------------- */

/* What a person can do about it: NVIDIA's, and any other's. */
static const char *const remedies[FATES][2] = {
	[UNBORN] = { "let this user have more processes (ulimit -u, pids.max of the cgroup)",
		"let this user have more processes (ulimit -u, pids.max of the cgroup)" },
	[CRASHED] = { "look for \"NVRM\" in the kernel's log (dmesg); install the driver anew, library and kernel module of one version",
		"look into the kernel's log (dmesg); install its driver anew, or another version of it" },
	[STUCK] = { "look for \"NVRM\" and \"Xid\" in the kernel's log (dmesg), which say what became of the GPU; nvidia-smi -r resets it, a "
		    "restart of the machine, too",
		"look into the kernel's log (dmesg), which says what became of it; a restart of the machine resets it" },
	[SLOW] = { "nvidia-smi -pm 1, as root, keeps the driver attached to GPUs that nobody uses; a run waits for a driver that is slow, and "
		   "reads it more rarely",
		"ask again when the GPUs are less busy; a run waits for a driver that is slow, and reads it more rarely" },
};

/* "signal 11", "exit status 3": how it came to its end. */
static void tell_how(const struct answers *a, char *text, size_t size)
{
	if (WIFSIGNALED(a->status))
		(void) snprintf(text, size, "was ended by signal %d", WTERMSIG(a->status));
	else
		(void) snprintf(text, size, "ended with exit status %d", WEXITSTATUS(a->status));
}

static const char *explain(const struct gpu_vendor *vendor, const struct answers *a, char text[PROBE_WHY])
{
	const int seconds = (int) (a->silent_ns / SECOND);
	char asked[GPU_ASKED], how[48], stays[64] = "";
	const char *in = *gpu_asked_of(vendor->ops, &a->asked, asked) ? " in " : "";

	if (a->stays)
		(void) snprintf(stays, sizeof(stays), ", and process %d, which asks it, cannot be ended", (int) a->pid);
	switch (a->fate) {
	case UNBORN:
		(void) snprintf(text, PROBE_WHY, "no process could be started to ask %s", vendor->label);
		break;
	case CRASHED:
		tell_how(a, how, sizeof(how));
		(void) snprintf(text, PROBE_WHY, "the process that asked %s %s%s%s", vendor->label, how, in, asked);
		break;
	case STUCK:
		(void) snprintf(text, PROBE_WHY, "%s has not answered in %d s: it is stuck%s%s%s", vendor->label, seconds, in, asked, stays);
		break;
	case SLOW:
	case ANSWERED:
	case FATES:
		(void) snprintf(text, PROBE_WHY, "%s was not done in %d s: its driver answers, and slowly", vendor->label,
			(int) (patience_ns / SECOND));
		break;
	}
	return text;
}

static const char *remedy_of(const struct gpu_vendor *vendor, const struct answers *a)
{
	return remedies[a->fate][vendor->ops != &source_nvml];
}

/* ---- what is told of a metric --------------------------------------------------------------------------------------- */

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
	char silent[PROBE_WHY];

	if (!all[i].done) {
		probe.why_not = explain(&vendors[i], &all[i], silent);
		probe.remedy = remedy_of(&vendors[i], &all[i]);
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

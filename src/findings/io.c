/* SPDX-License-Identifier: MIT
 *
 * Rules about swap, disks and shared memory.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/units.h"
#include "findings/finding.h"

#define MIB INT64_C(1048576)

enum {
	WAIT_PERCENT = 30,
	FEW_BUSY_PERCENT = 30, /* of the machine's CPUs */
	STALLED_PERCENT = 50,  /* of the run: time in which some task waited for a disk */
	FABRIC_PERCENT = 90,   /* of the link rate: about what is left after headers */
	FABRIC_TIME_PERCENT = 10, /* of the run */
	SHM_PERCENT = 80,
	SHM_SIGBUS_PERCENT = 50
};
static const int64_t swap_least = 1 * MIB, machine_swap_least = 64 * MIB; /* swapped in */

/* ---- swap ------------------------------------------------------------------------------------------------------------- */

bool rule_swap(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct summary *s = k->s;
	const struct maybe in = figures_rise(s, M_HOST_SWAP_IN), swapped = s->swap_peak;
	const bool ours = swapped.known && swapped.value >= swap_least && in.known && in.value > 0;
	char number[UNITS_LEN], back[UNITS_LEN];

	(void) units_bytes(in.value, UNITS_IEC, back);
	(void) units_bytes(swapped.value, UNITS_IEC, number);
	if (!ours && (!in.known || in.value < machine_swap_least)) {
		if (!in.known)
			buf_str(text, "swap activity is unknown");
		else
			buf_printf(text,
				"%s read back from swap on this machine, at most %s of the job in swap", back,
				swapped.known ? number : "an unknown amount");
		return false;
	}
	finding_evidence(f, "swapped_in_bytes", (double) in.value);
	if (swapped.known)
		finding_evidence(f, "swap_peak_bytes", (double) swapped.value);
	if (ours)
		buf_printf(text,
			"%s of the job were swapped out, and %s were read back on this machine: the job waited for swap. ",
			number, back);
	else
		buf_printf(text,
			"%s were read back from swap on this machine: the job may have waited for swap. ",
			back);
	buf_str(text, "Use less memory, or a machine with more.");
	return true;
}

/* ---- io-bound --------------------------------------------------------------------------------------------------------- */

static struct maybe busy_ppm(const struct summary *s)
{
	const struct maybe busy = maybe_sum(
		figures_rise(s, M_HOST_CPU_USER), figures_rise(s, M_HOST_CPU_SYSTEM));
	const struct maybe idle = maybe_sum(
		figures_rise(s, M_HOST_CPU_IDLE), figures_rise(s, M_HOST_CPU_IOWAIT));
	const double all = (double) busy.value + (double) idle.value;

	return busy.known && idle.known && all > 0 ? known((int64_t) ((double) busy.value / all * 1e6))
						   : UNKNOWN;
}

/* Share of the run, in ppm, in which some task of the machine waited for a disk. */
static struct maybe stalled_ppm(const struct summary *s)
{
	const struct maybe stalled = figures_rise(s, M_HOST_PSI_IO);

	if (!stalled.known || !s->wall_ns.known || s->wall_ns.value <= 0)
		return UNKNOWN;
	return known((int64_t) ((double) stalled.value * 1e6 / (double) s->wall_ns.value));
}

static bool above(struct maybe ppm, int percent)
{
	return ppm.known && ppm.value > percent * INT64_C(10000);
}

/* The job moved a MiB a second or more and used less than half a core. */
static bool moves_data(const struct summary *s)
{
	const struct maybe moved = maybe_sum(s->read_bytes, s->write_bytes);

	return moved.known && s->wall_ns.known && s->cores_mean_ppm.known &&
	       s->cores_mean_ppm.value < 500000 &&
	       (double) moved.value > (double) MIB * (double) s->wall_ns.value / 1e9;
}

static void put_moved(const struct summary *s, const char *verb, struct maybe bytes, struct buf *text)
{
	char number[UNITS_LEN];

	if (bytes.known && bytes.value >= MIB)
		buf_printf(text, ", %s %s/s", verb,
			units_bytes((int64_t) ((double) bytes.value / ((double) s->wall_ns.value / 1e9)),
				UNITS_IEC, number));
}

static void put_waits(struct maybe wait, struct maybe stalled, struct buf *text)
{
	char share[UNITS_LEN];

	buf_printf(text, "CPUs waited for disks %s of the time", units_percent(wait.value, 1000000, share));
	if (stalled.known)
		buf_printf(text, ", some task %s", units_percent(stalled.value, 1000000, share));
	buf_printf(text, "; fires above %d %% with less than %d %% of the CPUs busy", WAIT_PERCENT,
		FEW_BUSY_PERCENT);
	if (stalled.known)
		buf_printf(text,
			", or above %d %% while the job moves a MiB a second and uses under half a core",
			STALLED_PERCENT);
}

bool rule_io_bound(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct summary *s = k->s;
	const struct maybe wait = s->iowait_ppm, busy = busy_ppm(s), stalled = stalled_ppm(s);
	const bool waits = above(wait, WAIT_PERCENT) && busy.known && !above(busy, FEW_BUSY_PERCENT);
	const bool stalls = above(stalled, STALLED_PERCENT) && moves_data(s);
	char share[UNITS_LEN];

	if (!waits && !stalls) {
		if (!wait.known)
			buf_str(text, "CPU time waiting for disks is unknown");
		else
			put_waits(wait, stalled, text);
		return false;
	}
	if (wait.known)
		finding_evidence(f, "iowait_ratio", (double) wait.value / 1e6);
	if (stalled.known)
		finding_evidence(f, "io_pressure_ratio", (double) stalled.value / 1e6);
	if (waits)
		buf_printf(text, "The machine's CPUs waited for disks %s of the time",
			units_percent(wait.value, 1000000, share));
	else
		buf_printf(text,
			"Tasks waited for disks %s of the time while the job used less than half a core",
			units_percent(stalled.value, 1000000, share));
	put_moved(s, "read", s->read_bytes, text);
	put_moved(s, "written", s->write_bytes, text);
	buf_str(text,
		": the disk may be the bottleneck. Try a local or faster disk, larger reads, or more of them in parallel.");
	return true;
}

/* ---- shm-full --------------------------------------------------------------------------------------------------------- */

static const struct process *ended_by(const struct job *job, int signal)
{
	for (size_t i = 0; job && i < job_process_count(job); i++) {
		const struct process *p = job_process(job, i);

		if (p->status_known && WIFSIGNALED(p->status) && WTERMSIG(p->status) == signal)
			return p;
	}
	return NULL;
}

static const char *remedy(const struct facts *f)
{
	const bool is_container = f->container && *f->container;

	if (is_container && strcmp(f->container, "kubernetes") == 0)
		return "Mount an emptyDir of medium Memory at /dev/shm";
	return is_container
		       ? "Start the container with a larger --shm-size, or use fewer workers"
		       : "Use fewer or smaller shared buffers, or enlarge it (mount -o remount,size=.. /dev/shm)";
}

bool rule_shm_full(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct summary *s = k->s;
	const struct maybe most = figures_most(s, M_HOST_SHM, 0);
	const struct process *victim = ended_by(s->job, SIGBUS);
	const struct acc *acc = s->job ? job_acc(s->job, M_HOST_SHM, 0) : NULL;
	char share[UNITS_LEN];

	(void) units_percent(most.value, 1000000, share);
	if (!above(most, SHM_PERCENT) && !(victim && (!most.known || above(most, SHM_SIGBUS_PERCENT)))) {
		if (most.known)
			buf_printf(text, "/dev/shm was at most %s full; fires above %d %%, or on SIGBUS",
				share, SHM_PERCENT);
		else
			buf_str(text, "the use of /dev/shm is unknown, and SIGBUS ended no process");
		return false;
	}
	if (most.known)
		finding_evidence(f, "shm_ratio", (double) most.value / 1e6);
	if (acc)
		finding_interval(f, (int64_t) acc->max_at_ns, (int64_t) acc->max_at_ns);
	if (victim) {
		f->severity = SEVERITY_ERROR;
		finding_evidence(f, "victim_pid", victim->pid);
		buf_printf(text, "SIGBUS ended pid %d (%.15s)", victim->pid, victim->name);
		buf_printf(text,
			most.known ? "; shared memory (/dev/shm) was %s full: it may have run out. "
				   : "; shared memory (/dev/shm) may have run out. ",
			share);
	} else {
		buf_printf(text,
			"Shared memory (/dev/shm) was %s full; a process that fills it gets SIGBUS. ", share);
	}
	buf_printf(text, "%s.", remedy(s->facts));
	return true;
}

/* ---- fabric-rate ------------------------------------------------------------------------------------------------------ */

/* The share of the run in which the busiest port moved as much as its link can; unknown: -1. */
static double time_at_rate(const struct job *job)
{
	const struct timeline *t = job_timeline(job, M_HOST_FABRIC_BUSIEST, 0);
	double all = 0, busy = 0;

	for (int i = 0; t && i < TIMELINE_BUCKETS; i++) {
		const struct timeline_bucket *b = &t->buckets[i];

		all += (double) b->cover_ns;
		if (b->cover_ns > 0 && timeline_mean(b) >= FABRIC_PERCENT * 1e4)
			busy += (double) b->cover_ns;
	}
	return all > 0 ? busy / all : -1;
}

bool rule_fabric_rate(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct acc *busiest = job_acc(k->s->job, M_HOST_FABRIC_BUSIEST, 0);
	const double time = time_at_rate(k->s->job);

	if (!busiest || time < 0) {
		buf_str(text, "no active InfiniBand, RoCE or Slingshot port, or its rate is unknown");
		return false;
	}
	if (time * 100 < FABRIC_TIME_PERCENT) {
		buf_printf(text, "the busiest port moved at most %.0f %% of its link rate between two samples; fires where it "
				 "moves %d %% for %d %% of the run",
			(double) busiest->max / 1e4, FABRIC_PERCENT, FABRIC_TIME_PERCENT);
		return false;
	}
	finding_evidence(f, "fabric_busy_ratio", time);
	buf_printf(text,
		"A port of the node's fabric moved over %d %% of its link rate for %.0f %% of the run (all users of the node): "
		"communication may bound the job. Send less or less often (larger steps, compression), overlap it with "
		"computation, or use more ports.",
		FABRIC_PERCENT, time * 100);
	return true;
}

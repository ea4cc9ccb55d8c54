/* SPDX-License-Identifier: MIT
 *
 * Rules about memory that ran out, or nearly did: out-of-memory, memory-near-limit, and rlimit for
 * limits of single processes.
 */
#include <signal.h>
#include <sys/wait.h>

#include "base/units.h"
#include "findings/fill.h"
#include "findings/finding.h"
#include "findings/growth.h"
#include "summary/facts.h"

enum {
	OOM_PERCENT = 95,
	NEAR_PERCENT = 90,
	HALF_PERCENT = 50,
	PRESSURE_PERCENT = 10
};

static const int64_t pressure_least_ns = 10000000000; /* in shorter runs the share means little */
/* the finding's interval starts this long before the peak */
static const int64_t before_end_ns = 10000000000;

struct maybe memory_limit(const struct summary *s)
{
	return maybe_min(maybe_min(s->facts->limit_bytes, s->cgroup_limit), s->facts->capacity_bytes);
}

/* -1, below any threshold, if either is unknown. */
static double percent_of(struct maybe part, struct maybe total)
{
	return part.known && total.known && total.value > 0 ? (double) part.value * 100 / (double) total.value
							    : -1;
}

static bool was_killed(int64_t status)
{
	return WIFSIGNALED((int) status) && WTERMSIG((int) status) == SIGKILL;
}

struct victim {
	const struct process *process; /* NULL: unknown */
	const char *name;              /* from the kernel's log, else as last sampled */
};

/* The process that the kernel's log names as killed, main before others. */
static struct victim named_victim(const struct summary *s)
{
	struct victim found = { NULL, NULL };

	for (size_t i = s->job ? job_event_count(s->job) : 0; i-- > 0;) {
		const struct event *e = job_event(s->job, i);
		const struct process *p = NULL;

		if (e->kind == EVENT_OOM && e->entity == ENTITY_PROCESS)
			p = job_process_by_id(s->job, e->id);
		if (p && (!found.process || p->is_main))
			found = (struct victim) { p, *e->text ? e->text : p->name };
	}
	return found;
}

/* True if the kernel's log was read and names no process of the job. */
static bool log_names_others_only(const struct summary *s)
{
	return s->facts->oom_log.value == 1 && !named_victim(s).process;
}

/* A process that SIGKILL ended, main before others. */
static struct victim killed_one(const struct summary *s)
{
	const struct process *main = s->job ? job_main(s->job) : NULL;

	if (main && main->status_known && was_killed(main->status))
		return (struct victim) { main, main->name };
	for (size_t i = 0; s->job && i < job_process_count(s->job); i++) {
		const struct process *p = job_process(s->job, i);

		if (p->status_known && was_killed(p->status))
			return (struct victim) { p, p->name };
	}
	return (struct victim) { NULL, NULL };
}

/* The process that the log names; if the log could not be read, one that SIGKILL ended. */
static struct victim victim_of(const struct summary *s)
{
	const struct victim named = named_victim(s);

	return named.process || log_names_others_only(s) ? named : killed_one(s);
}

/* Growth before the end; without samples on the way, the mean rate up to the peak. */
static void growth(const struct summary *s, struct finding *f, struct buf *text)
{
	const struct ram_figure *all = &s->combined;
	const struct growth last = growth_of_run(s);
	char rate[UNITS_LEN], time[UNITS_LEN];

	/* The incident report has left out what is no growth. */
	if (last.known && !s->incident.since_ns.known && last.rise < (double) growth_least(memory_limit(s)))
		return;
	if (last.known) {
		finding_evidence(f, "growth_bytes_per_s", last.per_s);
		finding_evidence(f, "growing_since_s", (double) last.since_ns / 1e9);
		buf_printf(text, " It grew %s/s from %s on.",
			units_bytes((int64_t) last.per_s, UNITS_IEC, rate),
			units_instant(last.since_ns, time));
		return;
	}
	if (s->incident.has_history || (s->job && job_timeline(s->job, M_JOB_ANON, 0)) || !all->peak.known ||
		!all->at_ns.known || all->at_ns.value < 1000000000)
		return;
	const double per_s = (double) all->peak.value / ((double) all->at_ns.value / 1e9);

	finding_evidence(f, "growth_bytes_per_s", per_s);
	buf_printf(text, " The peak was reached in %s, %s/s on average.",
		units_duration(all->at_ns.value, time), units_bytes((int64_t) per_s, UNITS_IEC, rate));
}

static void memory_evidence(const struct summary *s, struct finding *f)
{
	const struct maybe limit = memory_limit(s);

	if (limit.known)
		finding_evidence(f, "limit_bytes", (double) limit.value);
	if (s->combined.peak.known)
		finding_evidence(f, "peak_bytes", (double) s->combined.peak.value);
}

/* What the limit of the cgroup counts and the kernel cannot free, if that is more than the RAM of the
 * job's processes. */
static struct maybe kept_of_limit(const struct summary *s)
{
	const struct maybe kept = s->unreclaimable_peak, peak = s->combined.peak;

	return kept.known && s->facts->limit_bytes.known && (!peak.known || kept.value > peak.value)
		       ? kept
		       : UNKNOWN;
}

static double percent_of_limit(const struct summary *s)
{
	const double kept = percent_of(kept_of_limit(s), s->facts->limit_bytes),
		     peak = percent_of(s->combined.peak, memory_limit(s));

	return kept > peak ? kept : peak;
}

/* "565 MiB of 600 (94 %) cannot be reclaimed: tmpfs and shared memory 551 MiB, ..." */
static void kept_put(const struct summary *s, struct finding *f, struct buf *text)
{
	const struct maybe kept = s->unreclaimable_peak, limit = s->facts->limit_bytes;
	char number[UNITS_LEN], of[UNITS_LEN], percent[UNITS_LEN];
	const struct fills fills =
		fills_at(s, (uint64_t) s->unreclaimable_at_ns.value, s->combined.peak, limit);

	finding_evidence(f, "unreclaimable_bytes", (double) kept.value);
	for (size_t i = 0; i < fills.n; i++) {
		if (fills.parts[i].fill == FILL_SHMEM)
			finding_evidence(f, "shmem_bytes", (double) fills.parts[i].bytes);
	}
	buf_printf(text, "%s of %s (%s) cannot be reclaimed: ", units_bytes(kept.value, UNITS_IEC, number),
		units_bytes_like(limit.value, kept.value, UNITS_IEC, of),
		units_percent(kept.value, limit.value, percent));
	fills_put(&fills, text);
}

/* "peak 31.9 GiB of 32.0 (100 %)" */
static void peak_of_limit(const struct summary *s, const char *before, struct buf *text)
{
	const struct maybe peak = s->combined.peak, limit = memory_limit(s);
	char number[UNITS_LEN], of[UNITS_LEN], percent[UNITS_LEN];

	if (!peak.known)
		return;
	buf_printf(text, "%speak %s", before, units_bytes(peak.value, UNITS_IEC, number));
	if (limit.known)
		buf_printf(text, " of %s (%s)", units_bytes_like(limit.value, peak.value, UNITS_IEC, of),
			units_percent(peak.value, limit.value, percent));
}

/* Certainty that memory ran out. */
enum oom_sign {
	NO_SIGN,
	/* SIGKILL ended main, and the kernel killed some process on this machine, or the peak was
	 * at the limit */
	SUSPECTED,
	/* the kernel killed some process in the job's cgroup, which other processes share, and
	 * named none of the job's */
	NEARBY,
	COUNTED,   /* the kernel killed a process of the job */
};

static bool main_was_killed(const struct summary *s)
{
	return s->facts->exit_status.known && was_killed(s->facts->exit_status.value);
}

/* The machine's counter is a sign only where neither the job's cgroup nor the log says more. */
static bool machine_ran_out(const struct summary *s)
{
	return !s->oom_kills.known && s->host_oom_kills.known && s->host_oom_kills.value > 0 &&
	       !log_names_others_only(s);
}

static enum oom_sign oom_sign_of(const struct summary *s)
{
	if (s->oom_killed)
		return COUNTED;
	if (s->oom_kills.known && s->oom_kills.value > 0)
		return NEARBY;
	if (!main_was_killed(s))
		return NO_SIGN;
	return machine_ran_out(s) || percent_of_limit(s) >= OOM_PERCENT ? SUSPECTED : NO_SIGN;
}

/* Main, or a descendant; without exit records a shell's status says so. */
static bool some_was_killed(const struct summary *s)
{
	return killed_one(s).process || main_was_killed(s) || ending_of(s).code == 128 + SIGKILL;
}

bool memory_may_have_ended_it(const struct summary *s)
{
	const enum oom_sign sign = oom_sign_of(s);

	return sign != NO_SIGN && !(sign == NEARBY && (log_names_others_only(s) || !some_was_killed(s)));
}

static void machine_count(const struct summary *s, struct buf *text)
{
	const int64_t n = s->host_oom_kills.value;

	buf_printf(text, "the kernel killed %lld process%s on this machine for lack of memory during the run",
		(long long) n, n == 1 ? "" : "es");
}

static bool oom_quiet(const struct summary *s, struct buf *text)
{
	if (machine_ran_out(s))
		machine_count(s, text);
	else if (s->oom_kills.known || s->host_oom_kills.known)
		buf_str(text, "the kernel counted no OOM kill");
	else
		buf_str(text, "OOM kills could not be counted");
	buf_str(text, main_was_killed(s) ? ", SIGKILL ended it" : ", SIGKILL did not end it");
	peak_of_limit(s, ", ", text);
	buf_printf(text, "; fires on a counted kill, or on SIGKILL with the peak at %d %% of the limit",
		OOM_PERCENT);
	return false;
}

/* Appends "pid 5123 (solver)" and adds it as evidence; appends unknown if there is no victim. */
static void name_victim(const struct summary *s, struct finding *f, const char *unknown, struct buf *text)
{
	const struct victim victim = victim_of(s);

	if (!victim.process) {
		buf_str(text, unknown);
		return;
	}
	finding_evidence(f, "victim_pid", victim.process->pid);
	finding_text(f, "victim", victim.name);
	buf_printf(text, "pid %d (%.15s)", victim.process->pid, victim.name);
}

/* The counter of a shared cgroup does not say which processes were killed. */
static void killed_nearby(const struct summary *s, struct finding *f, struct buf *text)
{
	const long long n = s->oom_kills.value;
	const struct victim killed = killed_one(s);

	if (n == 1)
		buf_str(text,
			"The kernel killed a process for lack of memory in the job's cgroup, which other processes share");
	else
		buf_printf(text,
			"The kernel killed %lld processes for lack of memory in the job's cgroup, which other processes share",
			n);
	if (!killed.process)
		return;
	if (log_names_others_only(s)) {
		buf_printf(text, "; its log does not name pid %d (%.15s), which SIGKILL ended",
			killed.process->pid, killed.name);
		return;
	}
	buf_str(text, n == 1 ? "; it may have been " : "; one of them may have been ");
	name_victim(s, f, "", text);
	buf_str(text, ", which SIGKILL ended");
}

/* "The kernel killed pid 5123 (solver) for lack of memory" */
static void write_kill(const struct summary *s, enum oom_sign sign, struct finding *f, struct buf *text)
{
	if (sign == COUNTED) {
		buf_str(text, "The kernel killed ");
		name_victim(s, f, "a process of the job", text);
		if (s->oom_kills.known && s->oom_kills.value > 1)
			buf_printf(text, " and %lld more", (long long) s->oom_kills.value - 1);
		buf_str(text, " for lack of memory");
	} else if (sign == NEARBY) {
		killed_nearby(s, f, text);
	} else {
		buf_str(text, "SIGKILL ended ");
		name_victim(s, f, "the job", text);
		buf_str(text, ": out of memory is suspected");
	}
	if (sign == SUSPECTED && machine_ran_out(s)) {
		finding_evidence(f, "host_oom_kills", (double) s->host_oom_kills.value);
		buf_str(text, ", ");
		machine_count(s, text);
	}
}

bool rule_out_of_memory(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct summary *s = k->s;
	const enum oom_sign sign = oom_sign_of(s);

	if (sign == NO_SIGN)
		return oom_quiet(s, text);
	if (s->oom_kills.known)
		finding_evidence(f, "oom_kills", (double) s->oom_kills.value);
	memory_evidence(s, f);
	write_kill(s, sign, f, text);
	peak_of_limit(s, ", ", text);
	buf_str(text, ".");
	if (kept_of_limit(s).known && percent_of(kept_of_limit(s), s->facts->limit_bytes) > HALF_PERCENT) {
		buf_str(text, " Of the limit ");
		kept_put(s, f, text);
		buf_str(text, ".");
	}
	growth(s, f, text);
	buf_str(text, " Give it more memory, or make it use less.");
	if (s->combined.at_ns.known)
		finding_interval(f, s->combined.at_ns.value - before_end_ns, (int64_t) f->to_ns);
	return true;
}

/* Share of the wall time, in ppm, in which some task of the machine waited for memory. */
static struct maybe pressure_ppm(const struct summary *s)
{
	const struct maybe waited = figures_rise(s, M_HOST_PSI_MEM);

	if (!waited.known || !s->wall_ns.known || s->wall_ns.value <= 0)
		return UNKNOWN;
	return known((int64_t) ((double) waited.value * 1e6 / (double) s->wall_ns.value));
}

/* The machine's memory is nearly used up, and the job's part of it is large. Shared memory may be in the
 * RAM of processes as well, so the sum only says that the job matters. */
static bool fills_machine(const struct summary *s)
{
	const struct maybe capacity = s->facts->capacity_bytes;
	const int64_t own = s->combined.peak.value + s->shmem_peak.value;

	return capacity.known && memory_limit(s).value == capacity.value && own >= capacity.value / 2 &&
	       percent_of(s->system_peak, capacity) >= NEAR_PERCENT;
}

static void machine_put(const struct summary *s, struct finding *f, struct buf *text)
{
	const struct maybe capacity = s->facts->capacity_bytes, used = s->system_peak;
	const struct acc *acc = s->job ? job_acc(s->job, M_HOST_MEM_USED, 0) : NULL;
	const struct fills fills = fills_at(s, acc ? acc->max_at_ns : 0, s->combined.peak, capacity);
	char number[UNITS_LEN], of[UNITS_LEN], percent[UNITS_LEN];

	finding_evidence(f, "system_bytes", (double) used.value);
	buf_printf(text, "The memory of this machine was nearly full, %s of %s (%s): ",
		units_bytes(used.value, UNITS_IEC, number),
		units_bytes_like(capacity.value, used.value, UNITS_IEC, of),
		units_percent(used.value, capacity.value, percent));
	fills_put(&fills, text);
}

static bool near_quiet(const struct summary *s, bool is_oom, struct maybe pressure, struct buf *text)
{
	char share[UNITS_LEN];

	if (is_oom) {
		buf_str(text, "covered by out-of-memory");
		return false;
	}
	peak_of_limit(s, "", text);
	if (kept_of_limit(s).known)
		buf_printf(text, "%sof the limit %s cannot be reclaimed", text->len > 0 ? ", " : "",
			units_percent(kept_of_limit(s).value, s->facts->limit_bytes.value, share));
	buf_printf(text, "%sfires above %d %% of the limit", text->len > 0 ? "; " : "the peak is unknown; ",
		NEAR_PERCENT);
	if (pressure.known)
		buf_printf(text, "; tasks waited for memory %s of the time",
			units_percent(pressure.value, 1000000, share));
	else
		buf_str(text, "; memory pressure is unknown");
	buf_printf(text, ", fires above %d %%", PRESSURE_PERCENT);
	if (pressure.known && s->wall_ns.value < pressure_least_ns)
		buf_str(text, " in runs of 10 s or more");
	return false;
}

bool rule_memory_near_limit(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct summary *s = k->s;
	const struct maybe pressure = pressure_ppm(s);
	const bool near = percent_of(s->combined.peak, memory_limit(s)) > NEAR_PERCENT;
	const bool kept = !near && percent_of(kept_of_limit(s), s->facts->limit_bytes) >= NEAR_PERCENT;
	const bool machine = !near && !kept && fills_machine(s);
	const bool pressed = pressure.known && s->wall_ns.value >= pressure_least_ns &&
			     pressure.value > PRESSURE_PERCENT * 10000;
	const bool is_oom = oom_sign_of(s) != NO_SIGN;
	char share[UNITS_LEN];

	if (is_oom || (!near && !kept && !machine && !pressed))
		return near_quiet(s, is_oom, pressure, text);
	memory_evidence(s, f);
	if (pressure.known)
		finding_evidence(f, "pressure_ratio", (double) pressure.value / 1e6);
	if (near && s->combined.at_ns.known)
		finding_interval(f, s->combined.at_ns.value, s->combined.at_ns.value);
	if (kept && s->unreclaimable_at_ns.known)
		finding_interval(f, s->unreclaimable_at_ns.value, s->unreclaimable_at_ns.value);
	if (kept) {
		buf_str(text, "The memory limit was nearly full: ");
		kept_put(s, f, text);
	} else if (machine) {
		machine_put(s, f, text);
	} else {
		buf_str(text, near ? "RAM came close to the limit" : "Memory was short on this machine");
		peak_of_limit(s, ", ", text);
	}
	if (pressed)
		buf_printf(text, "; tasks waited for memory %s of the time",
			units_percent(pressure.value, 1000000, share));
	if (kept && is_filled_by_shmem(s, (uint64_t) s->unreclaimable_at_ns.value))
		buf_str(text,
			". Files in tmpfs and shared memory count as memory until they are removed: remove them sooner, keep them "
			"on a disk, or request more.");
	else
		buf_str(text, ". A larger input may exceed it: request more memory, or use less.");
	return true;
}

/* ---- limits of single processes ------------------------------------------------------------------- */

/* A limit that a process sets itself, or inherits (ulimit). */
struct process_limit {
	struct maybe limit, peak, pid;
	const char *name, *of, *option;
};

static struct process_limit nearest_rlimit(const struct facts *f)
{
	const struct process_limit vm = { f->vm_limit_bytes, f->vm_peak_bytes, f->vm_pid, f->vm_name,
		"address space", "ulimit -v" };
	const struct process_limit data = { f->data_limit_bytes, f->data_peak_bytes, f->data_pid,
		f->data_name, "data segment", "ulimit -d" };
	const bool is_data = percent_of(data.peak, data.limit) > percent_of(vm.peak, vm.limit);

	return is_data || !vm.limit.known ? data : vm;
}

static void rlimit_put(const struct process_limit *l, struct buf *text)
{
	char number[UNITS_LEN], of[UNITS_LEN], percent[UNITS_LEN];

	buf_printf(text, "%.15s[%lld] used %s%s of its %s limit on %s (%s)",
		l->name && *l->name ? l->name : "process", (long long) l->pid.value, "at least ",
		units_bytes(l->peak.value, UNITS_IEC, number), units_bytes(l->limit.value, UNITS_IEC, of),
		l->of, units_percent(l->peak.value, l->limit.value, percent));
}

bool rule_rlimit(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct process_limit l = nearest_rlimit(k->s->facts);

	if (!l.limit.known) {
		buf_str(text, "no process with a limit on its address space or data segment was found");
		return false;
	}
	if (percent_of(l.peak, l.limit) < NEAR_PERCENT) {
		if (l.peak.known)
			rlimit_put(&l, text);
		else
			buf_printf(text, "use under the limit on %s is unknown", l.of);
		buf_printf(text, "; fires above %d %%", NEAR_PERCENT);
		return false;
	}
	finding_evidence(f, "limit_bytes", (double) l.limit.value);
	finding_evidence(f, "peak_bytes", (double) l.peak.value);
	finding_evidence(f, "process_pid", (double) l.pid.value);
	if (l.name)
		finding_text(f, "process", l.name);
	finding_text(f, "limit", l.of);
	if (ended_badly(k->s))
		f->severity = SEVERITY_ERROR;
	rlimit_put(&l, text);
	buf_printf(text,
		": beyond it allocations fail (MemoryError, bad_alloc, ENOMEM). Raise the limit (%s, or the memory request of "
		"the batch system that sets it), or use less memory.",
		l.option);
	return true;
}

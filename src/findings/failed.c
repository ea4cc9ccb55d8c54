/* SPDX-License-Identifier: MIT
 *
 * failed: what is known of a run that ended badly, where no other rule explains it.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/units.h"
#include "findings/finding.h"
#include "findings/gpus.h"
#include "summary/facts.h"

enum {
	SHELL_SIGNAL = 128,
	DISK_FULL_BYTES = 1 << 20,
	FAR_PERCENT = 80,  /* of the limit: below it memory is no likely cause */
	GPU_PERCENT = 80   /* of a GPU's memory: from there on it may be the cause */
};

static const uint64_t before_main_ns = 2000000000;

/* What a signal means to the process that it ends. */
static const struct {
	int signal;
	const char *words;
} meanings[] = {
	{ SIGSEGV, "an invalid memory access" },
	{ SIGBUS, "a mapped file that was truncated, or a full /dev/shm" },
	{ SIGILL, "an instruction that this CPU does not have" },
	{ SIGFPE, "a division by zero" },
	{ SIGABRT, "the program aborted itself" },
	{ SIGKILL, "sent by a user, a scheduler or the kernel" },
	{ SIGTERM, "sent by a user or a scheduler, often at a time limit" },
	{ SIGINT, "an interrupt, as by Ctrl-C" },
	{ SIGHUP, "its terminal or session ended" },
	{ SIGPIPE, "the reader of its output ended" },
	{ SIGXCPU, "the limit on CPU time (ulimit -t)" },
	{ SIGXFSZ, "the limit on the size of a file (ulimit -f)" },
	{ SIGSYS, "a system call that is not allowed" },
};

static void put_signal(int signal, struct buf *text)
{
	char name[UNITS_LEN];

	buf_str(text, figure_signal(signal, name));
	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
		if (meanings[i].signal == signal)
			buf_printf(text, " (%s)", meanings[i].words);
	}
}

static void put_code(int code, struct buf *text)
{
	buf_printf(text, "The job ended with exit status %d", code);
	if (code == 126)
		buf_str(text, ": a command could not be executed");
	else if (code == 127)
		buf_str(text, ": a command was not found");
	else if (code > SHELL_SIGNAL && code < SHELL_SIGNAL + 65) {
		buf_str(text, ", which a shell reports for a process ended by ");
		put_signal(code - SHELL_SIGNAL, text);
	}
	buf_str(text, ".");
}

static void put_ending(const struct ending *end, const char *raised, struct finding *f, struct buf *text)
{
	if (end->outcome == OUTCOME_RAISED) {
		finding_text(f, "raised", raised);
		buf_printf(text, "The block ended with an exception, %s.", raised);
		return;
	}
	finding_evidence(f, "exit_code", end->code);
	if (end->outcome == OUTCOME_SIGNAL) {
		finding_evidence(f, "signal", end->signal);
		put_signal(end->signal, text);
		buf_str(text, " ended the job.");
	} else if (end->outcome == OUTCOME_LIMIT) {
		buf_str(text, "A limit (--limit) ended the job; the notes have its value.");
	} else {
		put_code(end->code, text);
	}
}

static uint64_t main_end_of(const struct summary *s)
{
	const struct process *main = job_main(s->job);
	const struct facts *f = s->facts;

	if (f->main_ended_ns.known)
		return (uint64_t) f->main_ended_ns.value;
	return main && main->ended ? main->ended_ns : (uint64_t) f->ended_ns.value;
}

/* A signal ended it shortly before main. Signals by which programs end their own children say nothing. */
static bool is_possible_cause(const struct process *p, uint64_t main_end_ns)
{
	const int signal = p->status_known && WIFSIGNALED(p->status) ? WTERMSIG(p->status) : 0;

	return !p->is_main && signal && signal != SIGTERM && signal != SIGPIPE && signal != SIGINT &&
	       signal != SIGHUP && p->ended && p->ended_ns <= main_end_ns &&
	       main_end_ns - p->ended_ns <= before_main_ns;
}

/* The last of the descendants whose end by a signal is often the cause of main's status. */
static const struct process *killed_descendant(const struct summary *s)
{
	const struct process *found = NULL;
	const uint64_t main_end_ns = s->job ? main_end_of(s) : 0;

	for (size_t i = 0; s->job && i < job_process_count(s->job); i++) {
		const struct process *p = job_process(s->job, i);

		if (is_possible_cause(p, main_end_ns) && (!found || p->ended_ns > found->ended_ns))
			found = p;
	}
	return found;
}

static void put_descendant(const struct summary *s, struct finding *f, struct buf *text)
{
	const struct process *p = killed_descendant(s);

	if (!p)
		return;
	finding_evidence(f, "victim_pid", p->pid);
	finding_text(f, "victim", p->name);
	buf_str(text, " Before it, ");
	put_signal(WTERMSIG(p->status), text);
	buf_printf(text, " ended %.15s[%d].", p->name, p->pid);
}

/* Where there was never free space, the file system may be one that reports none (/proc, an image). */
static void put_disk(const struct summary *s, struct finding *f, struct buf *text)
{
	const struct acc *free = s->job ? job_acc(s->job, M_HOST_DISK_FREE, 0) : NULL;

	if (!free || free->min >= DISK_FULL_BYTES || free->max < DISK_FULL_BYTES)
		return;
	finding_evidence(f, "disk_free_bytes", (double) free->min);
	buf_str(text, " The file system of the working directory was full.");
}

/* Limits of single processes, which apply long before memory is short. True if there is one. */
static bool put_rlimits(const struct facts *f, struct buf *text)
{
	const struct {
		struct maybe limit;
		const char *of;
	} limits[] = {
		{ f->vm_limit_bytes, "address space" },
		{ f->data_limit_bytes, "data segment" },
	};
	char number[UNITS_LEN];
	bool any = false;

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		if (!limits[i].limit.known)
			continue;
		buf_printf(text, "; a limit of %s on the %s of a process applies",
			units_bytes(limits[i].limit.value, UNITS_IEC, number), limits[i].of);
		any = true;
	}
	return any;
}

/* A GPU's memory that was nearly all in use: what did not fit into the rest failed, and no driver
 * counts such failures. */
static void put_gpu_memory(const struct summary *s, struct finding *f, struct buf *text)
{
	const struct gpus used = s->job ? gpus_used(s->job) : (struct gpus) { 0 };
	double peak = 0, size = 0;
	char most[UNITS_LEN], of[UNITS_LEN], percent[UNITS_LEN], left[UNITS_LEN], name[UNITS_LEN];
	uint32_t worst = 0;

	for (size_t i = 0; i < used.n; i++) {
		const double all = gpu_memory(s->job, used.ids[i]),
			     device_most = gpu_device_most(s, used.ids[i]);

		if (all <= 0 || device_most < 0 || device_most * 100 < all * GPU_PERCENT ||
			(size > 0 && device_most / all <= peak / size))
			continue;
		peak = device_most;
		size = all;
		worst = used.ids[i];
	}
	if (size <= 0)
		return;
	finding_evidence(f, "gpu_peak_bytes", peak);
	finding_evidence(f, "gpu_memory_bytes", size);
	buf_printf(text,
		" Memory of %s reached %s of %s (%s): an allocation of more than the remaining %s fails, which may be the cause.",
		gpu_called_within(s->job, worst, used.n, name),
		units_bytes((int64_t) peak, UNITS_IEC, most),
		units_bytes_like((int64_t) size, (int64_t) peak, UNITS_IEC, of),
		units_percent((int64_t) peak, (int64_t) size, percent),
		units_bytes((int64_t) (size > peak ? size - peak : 0), UNITS_IEC, left));
}

/* Whether memory may be the cause. */
static void put_memory(const struct summary *s, struct finding *f, struct buf *text)
{
	const struct maybe limit = memory_limit(s), peak = maybe_max(s->combined.peak, s->unreclaimable_peak);
	const bool was_counted = s->oom_kills.known || s->host_oom_kills.known;
	char number[UNITS_LEN], percent[UNITS_LEN];

	if (!peak.known || !limit.known)
		return;
	finding_evidence(f, "peak_bytes", (double) peak.value);
	finding_evidence(f, "limit_bytes", (double) limit.value);
	buf_printf(text, " RAM reached %s, %s of what is available%s", units_bytes(peak.value, UNITS_IEC, number),
		units_percent(peak.value, limit.value, percent),
		!was_counted                                                                     ? ""
		: s->oom_kills.value > 0 || (!s->oom_kills.known && s->host_oom_kills.value > 0) ? ""
												 : ", and the kernel killed no process for lack of it");
	if (!put_rlimits(s->facts, text) &&
		(double) peak.value < (double) limit.value * FAR_PERCENT / 100)
		buf_str(text, ": it is not the likely cause");
	buf_str(text, ".");
}

bool rule_failed(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct summary *s = k->s;
	const struct ending end = ending_of(s);

	if (!ended_badly(s)) {
		buf_str(text, end.outcome == OUTCOME_EXIT         ? "the exit status is 0"
			      : end.outcome == OUTCOME_UNFINISHED ? "the end was not recorded"
								  : "the exit status is unknown");
		return false;
	}
	if (memory_may_have_ended_it(s)) {
		buf_str(text, "covered by out-of-memory");
		return false;
	}
	put_ending(&end, s->facts->raised, f, text);
	if (end.outcome == OUTCOME_LIMIT)
		return true;
	put_descendant(s, f, text);
	put_disk(s, f, text);
	if (end.outcome == OUTCOME_RAISED) /* the exception names its cause */
		return true;
	put_memory(s, f, text);
	put_gpu_memory(s, f, text);
	return true;
}

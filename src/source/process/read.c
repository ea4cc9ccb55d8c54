/* SPDX-License-Identifier: MIT
 *
 * Reads the members. A call first reads all files and then reports, so that a high-water mark that
 * proves a burst can raise the rss of the same sample.
 */
#include "source/process/processes_internal.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/smallfile.h"
#include <sys/resource.h>
#include "source/process/procfs_status.h"

enum {
	ROUND_SHARE_NS = 1000 * 1000,
	ROUND_BATCH = 16,    /* members between two checks of the clock */
	IDLE_TURNS_MAX = 16, /* turns in which the io and status of a sleeping member are skipped */
	REST_READS = 4,      /* of stat without activity, after which schedstat is read first */
};

/* The metrics of each group and the fields of their values. rss and rss_file, which are read most
 * often, are handled separately. */
static const struct {
	unsigned group;
	enum metric metric;
	size_t from;
} rows[] = {
	{ PROCESSES_CPU, M_PROC_THREADS, offsetof(struct member, threads) },
	{ PROCESSES_CPU, M_PROC_CPU_USER, offsetof(struct member, cpu_user_ns) },
	{ PROCESSES_CPU, M_PROC_CPU_SYSTEM, offsetof(struct member, cpu_system_ns) },
	{ PROCESSES_CPU, M_PROC_CPU_WAITED_USER, offsetof(struct member, cpu_waited_user_ns) },
	{ PROCESSES_CPU, M_PROC_CPU_WAITED_SYSTEM, offsetof(struct member, cpu_waited_system_ns) },
	{ PROCESSES_CPU, M_PROC_FAULTS_MINOR, offsetof(struct member, faults_minor) },
	{ PROCESSES_CPU, M_PROC_FAULTS_MAJOR, offsetof(struct member, faults_major) },
	{ PROCESSES_CPU, M_PROC_FAULTS_WAITED, offsetof(struct member, faults_waited) },
	{ PROCESSES_IO, M_PROC_READ_BYTES, offsetof(struct member, io.read_bytes) },
	{ PROCESSES_IO, M_PROC_WRITE_BYTES, offsetof(struct member, io.write_bytes) },
	{ PROCESSES_IO, M_PROC_WRITE_CANCELLED, offsetof(struct member, io.write_cancelled) },
	{ PROCESSES_IO, M_PROC_READ_CHARS, offsetof(struct member, io.read_chars) },
	{ PROCESSES_IO, M_PROC_WRITE_CHARS, offsetof(struct member, io.write_chars) },
	{ PROCESSES_HWM, M_PROC_HWM, offsetof(struct member, program_hwm) },
	{ PROCESSES_HWM, M_PROC_SWAP, offsetof(struct member, swap) },
	{ PROCESSES_HWM, M_PROC_HUGETLB, offsetof(struct member, hugetlb) },
	{ PROCESSES_HWM, M_PROC_SWITCHES, offsetof(struct member, switches) },
	{ PROCESSES_HWM, M_PROC_PREEMPTIONS, offsetof(struct member, preemptions) },
};

enum {
	ROWS = sizeof(rows) / sizeof(rows[0]),
	MEMORY_BITS = 1 << (M_PROC_RSS - M_PROC_RSS) | 1 << (M_PROC_RSS_FILE - M_PROC_RSS),
};

/* Reports a group as unknown, once. */
static void group_unknown(struct member *m, unsigned group_mask, struct framebuf *out)
{
	if (group_mask == PROCESSES_MEMORY) {
		member_report(m, M_PROC_RSS, UNKNOWN, out);
		member_report(m, M_PROC_RSS_FILE, UNKNOWN, out);
	}
	for (size_t i = 0; i < ROWS; i++) {
		if (rows[i].group == group_mask)
			member_report(m, rows[i].metric, UNKNOWN, out);
	}
}

/* A file of m could not be read or parsed: m has ended, or the group is unknown. */
static void group_failed(
	struct processes *p, struct member *m, unsigned group_mask, int error, struct framebuf *out)
{
	if ((error == -ESRCH || error == -ENOENT || descriptors_were_lacking(error)) && !member_check(p, m))
		return;
	if (error != -EAGAIN && error != -ESRCH)
		group_unknown(m, group_mask, out);
}

/* ---- the groups --------------------------------------------------------------------------------------------------- */

static struct maybe rlimit_of(const struct member *m, int resource)
{
	struct rlimit limit;

	if (prlimit(m->pid, resource, NULL, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return UNKNOWN;
	return known_unsigned(limit.rlim_cur);
}

/* A process may change its limits at any time, and a shell does for the programs that it starts. */
static void limits_read(const struct processes *p, struct member *m)
{
	m->limits_read = true;
	if (!p->env.root->live)
		return;
	m->vm_limit = rlimit_of(m, RLIMIT_AS);
	m->data_limit = rlimit_of(m, RLIMIT_DATA);
}

/* The address space is read with each sample where it has a limit: VmData is in status only. */
static void limited_read(struct processes *p, struct member *m)
{
	struct procfs_status st;

	if (m->vm_limit.known)
		m->vm = maybe_max(m->vm, known_unsigned(m->size));
	if (m->data_limit.known && member_read(p, m, KEEP_STATUS) > 0 &&
		procfs_status_parse(p->text, &st) == 0)
		m->data = maybe_max(m->data, st.data_bytes);
}

static void limits_report(struct member *m, struct framebuf *out)
{
	if (m->vm_limit.known) {
		member_report(m, M_PROC_VM_LIMIT, m->vm_limit, out);
		member_report(m, M_PROC_VM, m->vm, out);
	}
	if (m->data_limit.known) {
		member_report(m, M_PROC_DATA_LIMIT, m->data_limit, out);
		member_report(m, M_PROC_DATA, m->data, out);
	}
}

static void memory_read(struct processes *p, struct member *m, struct framebuf *out)
{
	if (m->vm_owner && member_shares_vm(p, m))
		return;
	int r = member_memory(p, m);

	if (r < 0)
		group_failed(p, m, PROCESSES_MEMORY, r, out);
	else
		m->groups_done |= PROCESSES_MEMORY;
	if (r < 0)
		return;
	if (!m->limits_read)
		limits_read(p, m);
	if (m->vm_limit.known || m->data_limit.known)
		limited_read(p, m);
}

/* A new program, or only a new name (prctl)? An exec places stack and code anew. Where the kernel
 * hides them, a new name is the only sign. A process without memory (vsize 0) shows neither. */
static void exec_detect(
	struct processes *p, struct member *m, const struct procfs_stat *st, struct framebuf *out)
{
	bool renamed = strncmp(st->name, m->name, sizeof(m->name) - 1) != 0;
	bool moved = st->startstack != m->startstack || st->startcode != m->startcode ||
		     st->endcode != m->endcode;
	bool hidden = st->startstack == 0 || m->startstack == 0;
	uint64_t now = clock_boot_ns();
	enum recorder recorder;

	if (!renamed && !moved)
		return;
	recorder = m->is_main ? RECORDER_NOT : process_recorder(p, st);
	if (recorder == RECORDER_IS)
		member_disown(p, m); /* it was found before its exec */
	if (recorder != RECORDER_NOT)
		return;
	member_rebirth(p, m, st, out);
	if (hidden ? !renamed : !moved)
		return;
	m->vm_owner = 0;
	m->young = true;
	m->program_hwm = m->hwm = m->vm = m->data = UNKNOWN;
	m->limits_read = false;
	m->burst = 0;
	framebuf_event(out, &(struct event) {
				    .time_ns = now > p->env.start_boot_ns ? now - p->env.start_boot_ns : 0,
				    .kind = EVENT_EXEC,
				    .entity = ENTITY_PROCESS,
				    .id = m->id,
				    .text = m->name,
			    });
}

static uint64_t cpu_ticks(const struct procfs_stat *st)
{
	return st->user_ticks + st->system_ticks;
}

/* Any activity of a process changes one of these, if not at once: its CPU time is counted in
 * hundredths of a second. */
static uint64_t activity(const struct member *m)
{
	return m->cpu_ticks +
	       (uint64_t) (m->faults_minor.value + m->faults_major.value + m->faults_waited.value);
}

static void cpu_read(struct processes *p, struct member *m, struct framebuf *out)
{
	const uint64_t before = activity(m);
	struct procfs_stat st;
	ssize_t n = member_read(p, m, KEEP_STAT);
	int r = n < 0 ? (int) n : procfs_stat_parse(p->text, &st);

	if (r < 0) {
		group_failed(p, m, PROCESSES_CPU, r, out);
		return;
	}
	if (st.start_ticks != m->start_ticks) {
		m->gone = true;
		return;
	}
	m->busy = !m->cpu_user_ns.known || cpu_ticks(&st) != m->cpu_ticks;
	m->cpu_ticks = cpu_ticks(&st);
	member_stat(p, m, &st);
	m->rested = st.threads != 1 || st.state != 'S' || activity(m) != before ? 0 : m->rested + 1;
	m->groups_done |= PROCESSES_CPU;
	if (st.vsize_bytes > 0)
		exec_detect(p, m, &st, out);
	else if (st.state == 'Z' && st.threads <= 1)
		member_died(p, m, p->text);
}

/* Counters never fall: the sum changes if one of them does. */
static uint64_t io_sum(const struct io_facts *io)
{
	return (uint64_t) io->read_bytes.value + (uint64_t) io->write_bytes.value +
	       (uint64_t) io->write_cancelled.value + (uint64_t) io->read_chars.value +
	       (uint64_t) io->write_chars.value;
}

/* Whether it has waited for a child. Each child has faults, and its I/O moves to the parent. */
static bool has_waited(struct processes *p, struct member *m)
{
	uint64_t faults;

	return !member_faults_waited(p, m, &faults) || faults > 0;
}

static void io_read(struct processes *p, struct member *m, struct framebuf *out)
{
	const uint64_t before = io_sum(&m->io);
	ssize_t n = member_read(p, m, KEEP_IO);
	int r = n < 0 ? (int) n : process_io(p->text, &m->io);

	if (r < 0) {
		group_failed(p, m, PROCESSES_IO, r, out);
		return;
	}
	m->groups_done |= PROCESSES_IO;
	if (!p->io_moved && io_sum(&m->io) != before)
		p->io_moved = has_waited(p, m);
}

/* A high-water mark that rose since its last read proves that the process was that large in
 * between; so does one that fell, because it was reset since. The first mark read of a process
 * older than the run proves nothing. */
static void hwm_update(struct member *m, struct maybe hwm)
{
	int64_t before = m->program_hwm.known ? m->program_hwm.value : m->young ? 0
										: INT64_MAX;
	const bool fell = hwm.known && m->program_hwm.known && hwm.value < m->program_hwm.value;

	if (hwm.known && (hwm.value > before || fell) && (uint64_t) hwm.value > m->burst)
		m->burst = (uint64_t) hwm.value;
	m->program_hwm = hwm;
	m->hwm = maybe_max(m->hwm, hwm);
}

/* VmPeak is since the program began: of a process older than the run it counts once it rises. */
static void vm_peak_update(struct member *m, struct maybe peak)
{
	if (m->young || (m->vm_peak_before.known && peak.known && peak.value > m->vm_peak_before.value))
		m->vm = maybe_max(m->vm, peak);
	if (!m->vm_peak_before.known)
		m->vm_peak_before = peak;
}

static void status_read(struct processes *p, struct member *m, struct framebuf *out)
{
	struct procfs_status st;
	ssize_t n;
	int r;

	m->rss_at_status = m->rss;
	m->activity_at_status = activity(m);
	m->idle_turns = 0;
	if (m->vm_owner && member_shares_vm(p, m))
		return;
	n = member_read(p, m, KEEP_STATUS);
	r = n < 0 ? (int) n : procfs_status_parse(p->text, &st);
	if (r < 0) {
		group_failed(p, m, PROCESSES_HWM, r, out);
		return;
	}
	/* A zombie has no Vm lines. */
	if (!st.rss_bytes.known && !member_check(p, m))
		return;
	if (!st.rss_bytes.known && st.threads.known)
		return;
	if (st.hwm_bytes.known)
		st.hwm_bytes.value =
			(int64_t) less_touched(p, m->pid, m->start_ticks, (uint64_t) st.hwm_bytes.value);
	hwm_update(m, st.hwm_bytes);
	limits_read(p, m);
	if (m->vm_limit.known)
		vm_peak_update(m, st.vm_peak_bytes);
	m->swap = st.swap_bytes;
	m->hugetlb = st.hugetlb_bytes;
	m->switches = st.switches;
	m->preemptions = st.preemptions;
	p->unwaited += st.ignores_sigchld && !m->ignores_sigchld;
	m->ignores_sigchld |= st.ignores_sigchld;
	m->groups_done |= PROCESSES_HWM;
}

/* ---- expensive files, on a budget --------------------------------------------------------------------------------- */

/* In a crowd, a member that was inactive since its io and status were read is not read at every
 * turn. */
static bool is_idle(const struct processes *p, struct member *m)
{
	if (p->n <= WIDE_MEMBERS || m->is_main || !(m->groups_done & PROCESSES_CPU) ||
		m->activity_at_status != activity(m) || m->rss != m->rss_at_status)
		return false;
	return ++m->idle_turns < IDLE_TURNS_MAX;
}

/* io is read with the rest if its file is kept open; by path it takes three times as long, and is
 * read on the budget. */
static void expensive_read(struct processes *p, struct member *m, unsigned group_mask, struct framebuf *out)
{
	m->visited = true;
	if ((group_mask & PROCESSES_CPU) && !(m->groups_done & PROCESSES_CPU))
		cpu_read(p, m, out);
	if (is_idle(p, m))
		return;
	if ((group_mask & PROCESSES_IO) && m->fd[KEEP_IO] < 0 && !m->gone)
		io_read(p, m, out);
	if ((group_mask & PROCESSES_HWM) && !m->gone)
		status_read(p, m, out);
}

struct budget {
	uint64_t until_ns;
	unsigned n;
};

static bool budget_left(struct budget *b)
{
	return ++b->n % ROUND_BATCH != 0 || clock_boot_ns() < b->until_ns;
}

static bool is_active(const struct member *m)
{
	return m->busy || m->rss != m->rss_at_status;
}

/* One round from *cursor over the members not visited yet; awake: only those that are awake. Leaves
 * the cursor at the first member for which no time was left. */
static void round_run(struct processes *p, size_t *cursor, bool active, unsigned group_mask, struct budget *b,
	struct framebuf *out)
{
	size_t from = p->n > 0 ? *cursor % p->n : 0;

	for (size_t k = 0; k < p->n; k++) {
		size_t i = (from + k) % p->n;
		struct member *m = &p->members[i];

		if (m->visited || m->gone || (active && !is_active(m)))
			continue;
		if (!budget_left(b)) {
			*cursor = i;
			return;
		}
		expensive_read(p, m, group_mask, out);
	}
}

/* Three parts of the time go to active members and one to those that may have woken up; if all
 * sleep, two parts suffice to get round soon. */
static void round_all(struct processes *p, unsigned group_mask, struct framebuf *out)
{
	/* The whole machine is shown interactively: most of its processes can wait. */
	const uint64_t share = p->all ? ROUND_SHARE_NS / 2 : ROUND_SHARE_NS, began = clock_boot_ns();
	struct budget b = { .until_ns = began + 3 * share };
	uint64_t now;

	for (size_t i = 0; i < p->n; i++) {
		if (p->members[i].is_main && !p->members[i].gone)
			expensive_read(p, &p->members[i], group_mask, out);
	}
	round_run(p, &p->round_active, true, group_mask, &b, out);
	now = clock_boot_ns();
	b.until_ns = now > began + share ? now + share : began + 2 * share;
	round_run(p, &p->round_others, false, group_mask, &b, out);
	for (size_t i = 0; i < p->n; i++)
		p->members[i].visited = false;
}

/* ---- reporting ---------------------------------------------------------------------------------------------------- */

static void rss_report(struct member *m, struct framebuf *out)
{
	struct reading rss = reading_of(M_PROC_RSS, m->id, (int64_t) m->rss);

	if (m->burst > m->rss)
		rss.max = (int64_t) m->burst;
	m->burst = 0;
	framebuf_reading(out, rss);
	framebuf_value(out, M_PROC_RSS_FILE, m->id, (int64_t) m->rss_file);
	limits_report(m, out);
	m->reported_unknown &= ~(uint32_t) MEMORY_BITS;
}

static void groups_report(struct member *m, struct framebuf *out)
{
	if (m->groups_done & PROCESSES_MEMORY)
		rss_report(m, out);
	if (m->groups_done & ~(unsigned) PROCESSES_MEMORY) {
		for (size_t i = 0; i < ROWS; i++) {
			if (!(m->groups_done & rows[i].group))
				continue;
			const void *value = (const char *) m + rows[i].from;

			member_report(m, rows[i].metric, *(const struct maybe *) value, out);
		}
	}
	m->groups_done = 0;
}

/* Whether its only thread has not been on a CPU since statm and stat were read: then nothing in them has changed by its doing. schedstat
 * takes a quarter of the time of stat. */
static bool has_slept(struct processes *p, struct member *m)
{
	char ran[sizeof(m->ran)];
	bool is_same;

	if (m->rested < REST_READS)
		return false;
	if (m->rested == REST_READS && m->fd[KEEP_SCHEDSTAT] < 0)
		member_keep(p, m, KEEP_SCHEDSTAT);
	if (m->fd[KEEP_SCHEDSTAT] < 0 || smallfile_pread(m->fd[KEEP_SCHEDSTAT], ran, sizeof(ran)) <= 0)
		return false;
	is_same = strcmp(ran, m->ran) == 0 && ran[0] != '0'; /* zeros: this kernel does not count */
	memcpy(m->ran, ran, sizeof(ran));
	return is_same;
}

/* Its own: not while it runs in its parent's memory. */
static bool is_size_known(const struct member *m)
{
	return m->rss > 0 && !m->vm_owner && !(m->reported_unknown & MEMORY_BITS);
}

/* In a crowd most members sleep: if the CPU time did not change, it probably still has not. Of a few, what is known of those that have not
 * run is reported again. */
static void groups_read(struct processes *p, struct member *m, unsigned group_mask, struct framebuf *out)
{
	const unsigned both = PROCESSES_MEMORY | PROCESSES_CPU;
	const bool rotate = group_mask & PROCESSES_ROTATE, is_crowd = p->n > WIDE_MEMBERS;

	if (rotate && !is_crowd && (group_mask & both) == both && has_slept(p, m))
		m->groups_done |= (group_mask & PROCESSES_REST) && is_size_known(m) ? both : PROCESSES_CPU;
	if (group_mask & PROCESSES_MEMORY & ~m->groups_done)
		memory_read(p, m, out);
	if ((group_mask & PROCESSES_CPU & ~m->groups_done) && !m->gone &&
		!(rotate && is_crowd && !m->busy && !m->is_main))
		cpu_read(p, m, out);
	if ((group_mask & PROCESSES_IO) && !m->gone && m->fd[KEEP_IO] >= 0)
		io_read(p, m, out);
}

/* The I/O of a process that was reaped since its memory was read is also in its parent's, if that
 * was read later. This does not apply to a zombie. A crowd in which no I/O moved is not checked
 * again. */
static void reaped_check(struct processes *p)
{
	char text[256];

	for (size_t i = 0; i < p->n; i++) {
		struct member *m = &p->members[i];
		const int fd = m->fd[KEEP_STATM];

		m->gone |= fd >= 0 && m->tid == m->pid && smallfile_pread(fd, text, sizeof(text)) == -ESRCH;
	}
}

int processes_read(struct processes *p, unsigned group_mask, struct framebuf *out)
{
	for (size_t i = 0; i < p->n; i++)
		groups_read(p, &p->members[i], group_mask, out);
	if (group_mask & (PROCESSES_IO | PROCESSES_HWM))
		round_all(p, group_mask, out);
	if (p->io_moved && p->n > 1 && !p->all)
		reaped_check(p);
	p->io_moved = false;
	for (size_t i = 0; i < p->n; i++) {
		if (p->members[i].groups_done)
			groups_report(&p->members[i], out);
	}
	members_sweep(p, out);
	return out->error;
}

void processes_bursts(struct processes *p, struct framebuf *out)
{
	for (size_t i = 0; i < p->n; i++) {
		struct member *m = &p->members[i];

		if (m->burst > m->rss && m->rss > 0 && !m->gone)
			rss_report(m, out);
	}
}

int processes_read_some(
	struct processes *p, unsigned group_mask, const uint32_t *ids, size_t n, struct framebuf *out)
{
	for (size_t k = 0; k < n; k++) {
		uint32_t i;

		if (!map_get(&p->by_id, ids[k], &i))
			continue;
		struct member *m = &p->members[i];

		groups_read(p, m, group_mask, out);
		if (!m->gone)
			expensive_read(p, m, group_mask, out);
		m->visited = false;
		groups_report(m, out);
	}
	members_sweep(p, out);
	return out->error;
}

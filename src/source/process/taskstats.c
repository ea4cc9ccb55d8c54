/* SPDX-License-Identifier: MIT
 *
 * The kernel's exit records: Documentation/accounting/taskstats.rst. The kernel sends a record for
 * each thread, from a point in do_exit where its memory still exists, so hiwater_rss is exact. The
 * records of one process are added up here until its last thread has ended.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/map.h"
#include "source/process/processes_internal.h"
#include "source/process/taskstats_socket.h"

enum {
	MESSAGES_MAX = 65536,    /* in one read */
	GROUPS_MAX = 65536,      /* processes with some threads ended and some left, on the whole
	                          * machine */
	LATE_MAX = GROUPS_MAX + MESSAGES_MAX, /* waiting ends, plus those of one read */
	START_SLACK_S = 3,       /* a record gives its start in whole seconds of the wall clock */
};

/* A process of which some thread has ended. */
struct group {
	struct taskstats_record sum;
	bool first_seen; /* the record of its first thread has arrived: usually its status is the
	                  * process's */
	uint32_t last_tid, last_status;
	/* Of one that waited: */
	uint32_t id;     /* 0: not part of the job */
	bool waits;      /* for its parent */
	uint64_t start_ns;
};

struct taskstats {
	struct taskstats_socket socket;
	uint64_t opened_ns;
	bool lossy;              /* records were lost: sums over threads may be too low */
	struct group *groups;
	size_t n, cap;
	struct map by_tgid;
	struct group *late;
	size_t n_late, cap_late;
	struct map late_ids;     /* of these, by pid; 0: not known yet */
	struct taskstats_record *received;
	size_t n_received, cap_received;
	int error;               /* the kernel sends no more records */
};

void taskstats_precede(struct taskstats *t)
{
	t->opened_ns = 0;
}

int taskstats_open(struct taskstats **ret, struct err *err)
{
	struct taskstats *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	t->opened_ns = clock_boot_ns();
	r = taskstats_socket_open(&t->socket);
	if (r < 0) {
		taskstats_close(t);
		return err_set(err, r, "the kernel's exit records (taskstats) are not available: %s",
			taskstats_socket_why(r));
	}
	*ret = t;
	return 0;
}

void taskstats_close(struct taskstats *t)
{
	if (!t)
		return;
	taskstats_socket_close(&t->socket);
	map_done(&t->by_tgid);
	free(t->groups);
	free(t->late);
	free(t->received);
	free(t);
}

int taskstats_fd(const struct taskstats *t)
{
	return t->socket.fd;
}

/* ---- processes from threads --------------------------------------------------------------------------------------- */

static struct group *group_of(struct taskstats *t, uint32_t tgid)
{
	uint32_t i;

	if (map_get(&t->by_tgid, tgid, &i))
		return &t->groups[i];
	if (t->n == GROUPS_MAX) {
		/* Lost ends have left their groups behind. */
		t->n = 0;
		t->lossy = true;
		map_done(&t->by_tgid);
	}
	if (vec_reserve(&t->groups, &t->cap, t->n, sizeof(*t->groups), GROUPS_MAX) < 0 ||
		map_put(&t->by_tgid, tgid, (uint32_t) t->n) < 0) {
		t->lossy = true;
		return NULL;
	}
	t->groups[t->n] = (struct group) { .sum.tgid = tgid };
	return &t->groups[t->n++];
}

static void group_forget(struct taskstats *t, uint32_t tgid)
{
	uint32_t i;

	if (!map_get(&t->by_tgid, tgid, &i))
		return;
	map_remove(&t->by_tgid, tgid);
	if (i == --t->n)
		return;
	t->groups[i] = t->groups[t->n];
	(void) map_put(&t->by_tgid, t->groups[i].sum.tgid, i);
}

static void group_add(struct group *g, const struct taskstats_record *r)
{
	struct taskstats_record *sum = &g->sum;

	if (r->hwm_bytes > sum->hwm_bytes)
		sum->hwm_bytes = r->hwm_bytes;
	if (r->vm_bytes > sum->vm_bytes)
		sum->vm_bytes = r->vm_bytes;
	sum->run_ns += r->run_ns;
	sum->user_ns += r->user_ns;
	sum->system_ns += r->system_ns;
	sum->faults_minor += r->faults_minor;
	taskstats_io_add(&sum->io, &r->io);
	/* A thread's record gives the thread's own start: its process started then or before. */
	if (r->pid == r->tgid || sum->start_wall_s == 0 ||
		(!g->first_seen && r->start_wall_s < sum->start_wall_s))
		sum->start_wall_s = r->start_wall_s;
	sum->received_ns = r->received_ns;
	sum->ppid = r->ppid;
	sum->uid = r->uid;
	if (r->pid == r->tgid || !g->first_seen) /* a thread has a name of its own */
		memcpy(sum->name, r->name, sizeof(sum->name));
	g->last_tid = r->pid;
	g->last_status = r->status;
	if (r->pid == r->tgid) {
		sum->status = r->status;
		sum->has_run = r->has_run;
		g->first_seen = true;
	}
}

/* The member that a record belongs to, and its birth; 0: none (or an older one with the same pid). */
static uint32_t member_id(const struct processes *p, const struct group *g, uint64_t *ret_start_ns)
{
	const struct taskstats_record *r = &g->sum;
	const struct member *m = member_of_pid(p, (int32_t) r->tgid);
	uint64_t ticks = m ? m->start_ticks : 0;
	uint32_t id = m ? m->id : ended_find(p, (int32_t) r->tgid, &ticks);
	int64_t wall = (int64_t) (clock_wall_ns() / 1000000000),
		boot = (int64_t) (clock_boot_ns() / 1000000000);
	int64_t off = (int64_t) (ticks * p->tick_ns / 1000000000) -
		      ((int64_t) r->start_wall_s - (wall - boot));

	*ret_start_ns = ticks * p->tick_ns;
	return (off >= -START_SLACK_S || !g->first_seen) && off <= START_SLACK_S ? id : 0;
}

static struct maybe value_of(uint64_t value, bool is_known)
{
	return is_known ? known_unsigned(value) : UNKNOWN;
}

/* User and system time are sampled by the timer, the run time is exact: it is divided in their
 * proportion, as the kernel does in stat and rusage (kernel/sched/cputime.c, cputime_adjust). */
static void scale(struct taskstats_record *r)
{
	uint64_t sampled = r->user_ns + r->system_ns;

	if (r->run_ns == 0)
		return;
	if (r->system_ns == 0 || sampled < r->system_ns)
		r->user_ns = r->run_ns;
	else
		r->user_ns = (uint64_t) ((double) r->run_ns * ((double) r->user_ns / (double) sampled));
	r->system_ns = r->user_ns < r->run_ns ? r->run_ns - r->user_ns : 0;
}

/* exit() gives all remaining threads one status; a first thread that had ended by itself
 * (pthread_exit) has 0. */
static struct maybe status_of(const struct taskstats *t, const struct group *g)
{
	if (!g->first_seen ||
		(g->sum.status == 0 && g->last_tid != g->sum.tgid && !t->socket.layout.has_tgid))
		return UNKNOWN;
	return known((int32_t) (g->sum.status != 0 ? g->sum.status : g->last_status));
}

static uint64_t run_time(const struct processes *p, uint64_t boot_ns)
{
	return boot_ns > p->env.start_boot_ns ? boot_ns - p->env.start_boot_ns : 0;
}

/* Reports the end of the process with this id. */
static void end_report(struct taskstats *t, const struct processes *p, const struct group *g, uint32_t id,
	uint64_t start_ns, struct framebuf *out)
{
	struct taskstats_record sum = g->sum, *r = &sum;
	const struct maybe status = status_of(t, g);
	/* Threads that ended before the socket was opened are missing from a sum. */
	bool whole = !t->lossy && start_ns > t->opened_ns && t->socket.layout.has_tgid;
	/* I/O is a lower bound in any case. */
	bool has_io = !t->lossy && t->socket.layout.has_tgid && t->socket.layout.has_io;
	struct end end;

	scale(&sum);
	end = (struct end) {
		.entity = ENTITY_PROCESS,
		.id = id,
		.how = END_TASKSTATS,
		.status_known = status.known,
		.status = (int32_t) status.value,
		.hwm_bytes = value_of(less_touched(p, (pid_t) r->tgid, 0, r->hwm_bytes), r->hwm_bytes > 0),
		.vm_bytes = value_of(r->vm_bytes, r->vm_bytes > 0),
		.cpu_user_ns = value_of(r->user_ns, whole && r->run_ns > 0),
		.cpu_system_ns = value_of(r->system_ns, whole && r->run_ns > 0),
		.faults_minor = value_of(r->faults_minor, whole),
		.io = taskstats_io_facts(&r->io, has_io),
		.until_ns = run_time(p, r->received_ns),
	};
	if (g->first_seen) {
		memcpy(end.name, r->name, sizeof(end.name));
		end.program = r->has_run ? PROGRAM_OWN : PROGRAM_OF_PARENT;
	}
	framebuf_end(out, &end);
}

/* A recorder that was found before its exec, and may have ended by now: its values at the end are
 * hiwater's. */
static bool is_of_recorder(const struct processes *p, const struct taskstats_record *r)
{
	const int32_t pid = (int32_t) r->tgid;
	const struct member *m = member_of_pid(p, pid);

	if (strcmp(r->name, REAPER) == 0)
		return true;
	return strcmp(r->name, HIWATER) == 0 &&
	       (m ? strcmp(m->name, HIWATER) != 0 : !ended_is_hiwater(p, pid));
}

/* Returns whether its process is known. */
static bool group_end(
	struct taskstats *t, const struct processes *p, const struct group *g, struct framebuf *out)
{
	uint64_t start_ns;
	uint32_t id = member_id(p, g, &start_ns);

	if (id != 0 && !is_of_recorder(p, &g->sum))
		end_report(t, p, g, id, start_ns, out);
	return id != 0;
}

/* Pids are reassigned, on a busy machine within minutes: a process that started after this parent's
 * end is not its child. */
static bool started_in_parents_life(const struct processes *p, const struct taskstats_record *r)
{
	const int64_t wall = (int64_t) (clock_wall_ns() / 1000000000),
		      boot = (int64_t) (clock_boot_ns() / 1000000000);
	const uint64_t ended_ns = member_of_pid(p, (int32_t) r->ppid) ? 0 : ended_when(p, (int32_t) r->ppid);

	return ended_ns == 0 || r->start_wall_s == 0 ||
	       (int64_t) r->start_wall_s - (wall - boot) <= (int64_t) (ended_ns / 1000000000) + START_SLACK_S;
}

/* A scan took place and did not find it: it was born and reaped between two scans. If its
 * parent is a member, it was one too. */
static uint32_t late_unsampled(const struct taskstats *t, struct processes *p,
	const struct taskstats_record *r, struct framebuf *out)
{
	const int64_t wall = (int64_t) (clock_wall_ns() / 1000000000),
		      boot = (int64_t) (clock_boot_ns() / 1000000000);
	uint64_t ticks;
	uint32_t parent = 0;

	/* A process with this pid is known, and it may be another one: better to skip it than to
	 * count it twice. */
	if (member_of_pid(p, (int32_t) r->tgid) || ended_find(p, (int32_t) r->tgid, &ticks) ||
		processes_ignored_since(p, (int32_t) r->tgid, (int64_t) r->start_wall_s - (wall - boot)))
		return 0;
	if (!map_get(&t->late_ids, r->ppid, &parent) && !started_in_parents_life(p, r))
		return 0;
	return member_unsampled(p, (int32_t) r->tgid, (int32_t) r->ppid, parent, r->uid, r->name, out);
}

/* Its parent ended after the scan: the parent is identified at the next call, and then its child
 * is. */
static bool is_parent_pending(const struct taskstats *t, const struct group *g)
{
	uint32_t parent;

	return g->id == 0 && map_get(&t->late_ids, g->sum.ppid, &parent) && parent == 0;
}

/* Returns whether it waits for one more call. */
static bool late_find(struct taskstats *t, struct processes *p, struct group *g, struct framebuf *out)
{
	const struct taskstats_record *r = &g->sum;
	bool waits;

	g->id = member_id(p, g, &g->start_ns);
	waits = is_parent_pending(t, g);
	if (g->id == 0 && !waits) {
		/* its whole life was within the run, so its sums are complete */
		g->start_ns = UINT64_MAX;
		g->id = late_unsampled(t, p, r, out);
	}
	if (g->id == 0 && !waits)
		map_remove(&t->late_ids, r->tgid);
	else if (map_put(&t->late_ids, r->tgid, g->id) < 0)
		t->lossy = true;
	return waits;
}

/* The first n had their scan. The parent of a process that no scan found may be such a process
 * itself. It ended later, so the one that ended last is identified first; and of several with the
 * parent's pid, it is the one that ended next. */
static void late_resolve(struct taskstats *t, struct processes *p, size_t n, struct framebuf *out)
{
	size_t kept = 0;

	for (size_t i = t->n_late; i-- > n;)
		t->lossy |= map_put(&t->late_ids, t->late[i].sum.tgid, 0) < 0;
	for (size_t i = n; i-- > 0;)
		t->late[i].waits = late_find(t, p, &t->late[i], out);
	for (size_t i = 0; i < t->n_late; i++) {
		const struct group *g = &t->late[i];

		if (i >= n || g->waits)
			t->late[kept++] = *g;
		else if (g->id != 0 && !is_of_recorder(p, &g->sum))
			end_report(t, p, g, g->id, g->start_ns, out);
	}
	map_done(&t->late_ids);
	t->n_late = kept;
}

/* Most are not part of the job; but the scan that follows may find a zombie, so each end is tried
 * once more. */
static void group_end_or_wait(struct taskstats *t, const struct processes *p, const struct group *g,
	struct framebuf *out)
{
	if (group_end(t, p, g, out))
		return;
	if (vec_reserve(&t->late, &t->cap_late, t->n_late, sizeof(*t->late), LATE_MAX) < 0)
		t->lossy = true;
	else
		t->late[t->n_late++] = *g;
}

/* Before version 12 a record states neither the process of its thread nor whether the thread was
 * the last. A process with several threads announces its end with the last one (AGGR_TGID); one
 * with a single thread sends only the record of its own pid. */
static bool is_process_end(const struct processes *p, const struct taskstats_record *r)
{
	const struct member *m = member_of_pid(p, (int32_t) r->pid);
	struct procfs_stat st;

	if (!m || process_stat(p, m->pid, &st) < 0)
		return true;
	return st.start_ticks != m->start_ticks || st.threads <= 1;
}

static void record_take(struct taskstats *t, const struct processes *p, const struct taskstats_record *r,
	struct framebuf *out)
{
	struct group *g, alone = { .sum.tgid = r->tgid };
	uint32_t i;

	if (!map_get(&t->by_tgid, r->tgid, &i) &&
		(r->is_last || (!t->socket.layout.has_tgid && is_process_end(p, r)))) {
		group_add(&alone, r);
		group_end_or_wait(t, p, &alone, out);
		return;
	}
	g = group_of(t, r->tgid);
	if (!g)
		return;
	group_add(g, r);
	if (r->is_last) {
		group_end_or_wait(t, p, g, out);
		group_forget(t, r->tgid);
	}
}

bool taskstats_waits(const struct taskstats *t)
{
	return t->n_late > 0;
}

void taskstats_receive(struct taskstats *t)
{
	const size_t had = t->n_received;
	struct taskstats_record record;
	int r = 0;

	for (int i = 0; i < MESSAGES_MAX && t->error == 0; i++) {
		r = taskstats_socket_next(&t->socket, &record);
		if (r == -EAGAIN)
			break;
		if (r < 0 && r != -ENOBUFS)
			t->error = r; /* the records before it still count */
		t->lossy |= r < 0;
		if (r <= 0)
			continue;
		if (vec_reserve(&t->received, &t->cap_received, t->n_received, sizeof(*t->received),
			    GROUPS_MAX) < 0)
			t->lossy = true;
		else
			t->received[t->n_received++] = record;
	}
	const uint64_t ended = clock_boot_ns();

	for (size_t i = had; i < t->n_received; i++)
		t->received[i].received_ns = ended;
}

int taskstats_read(struct taskstats *t, struct processes *p, struct framebuf *out)
{
	const size_t waited = t->n_late;

	taskstats_receive(t);
	for (size_t i = 0; i < t->n_received; i++)
		record_take(t, p, &t->received[i], out);
	t->n_received = 0;
	late_resolve(t, p, waited, out);
	if (t->error < 0)
		return t->error;
	return t->lossy || out->error < 0 ? -ENOBUFS : 0;
}

/* SPDX-License-Identifier: MIT
 *
 * The last-pid gate: the last pid assigned (loadavg's fifth field) shows whether a process can have
 * been born.
 */
#include "source/process/processes_internal.h"

#include "base/clock.h"
#include "base/parse.h"
#include "base/smallfile.h"

enum {
	PIDS_RESERVED = 300, /* kernel/pid.c, RESERVED_PIDS: pids wrap around to here */
	NEAR = 4096,         /* a fork this many pids before the last one counts as shown */
};

static uint32_t pid_max_read(const struct processes *p)
{
	char text[64];
	const char *at = text;
	uint64_t value;

	if (smallfile_read(p->env.root->proc, "sys/kernel/pid_max", text, sizeof(text)) < 0 ||
		parse_u64(&at, &value) < 0 || value > 1 << 22)
		return 1 << 22; /* PID_MAX_LIMIT */
	return (uint32_t) value;
}

bool gate_read(struct processes *p, uint32_t *ret)
{
	struct gate *g = &p->gate;
	char text[256];

	if (g->fd < 0 || smallfile_pread(g->fd, text, sizeof(text)) <= 0 ||
		procfs_lastpid_parse(text, ret) < 0)
		return false;
	if (*ret >= g->pid_max) /* it was raised */
		g->pid_max = pid_max_read(p);
	return true;
}

void gate_init(struct processes *p)
{
	struct gate *g = &p->gate;

	g->why_not = "";
	g->pid_max = pid_max_read(p);
	g->fd = smallfile_open(p->env.root->proc, "loadavg");
	if (g->fd < 0 || !gate_read(p, &g->last)) {
		g->off = true;
		g->why_not = "loadavg does not show the last pid";
	}
	g->first = g->before = g->last;
	g->scanned_ns = clock_boot_ns();
}

uint32_t gate_pid_after(const struct gate *g, uint32_t pid, uint32_t to)
{
	if (pid + 1 < g->pid_max)
		return pid + 1;
	return to < PIDS_RESERVED ? 1 : PIDS_RESERVED;
}

uint32_t gate_pids_between(const struct gate *g, uint32_t from, uint32_t to)
{
	uint32_t again = to < PIDS_RESERVED ? 1 : PIDS_RESERVED;

	if (to >= from)
		return to - from;
	return (from + 1 < g->pid_max ? g->pid_max - 1 - from : 0) + (to - again + 1);
}

static bool is_between(const struct gate *g, uint32_t from, uint32_t pid, uint32_t to)
{
	return to >= from ? pid > from && pid <= to : (pid > from && pid < g->pid_max) || pid <= to;
}

/* A member born since the last scan, with a pid outside those assigned since, shows that loadavg
 * belongs to another pid namespace or to none (lxcfs). */
void gate_verify(struct processes *p, uint32_t before_id)
{
	struct gate *g = &p->gate;
	uint32_t now, i;

	if (g->off || !p->env.root->live || !gate_read(p, &now))
		return;
	for (uint32_t id = before_id + 1; id <= p->last_id; id++) {
		if (!map_get(&p->by_id, id, &i))
			continue;
		const struct member *m = &p->members[i];

		if (m->start_ticks * p->tick_ns > g->scanned_ns + p->tick_ns &&
			!is_between(g, g->before, (uint32_t) m->pid, now)) {
			g->off = true;
			g->why_not = "the last pid in loadavg is not of this pid namespace (lxcfs?)";
			return;
		}
	}
}

void processes_test_gate(struct processes *p, pid_t pid)
{
	struct gate *g = &p->gate;
	uint32_t now;

	if (g->off || !p->env.root->live || pid <= 0)
		return;
	/* It was forked since the source was opened, or just before. */
	if (gate_read(p, &now) &&
		(is_between(g, g->first, (uint32_t) pid, now) ||
			gate_pids_between(g, (uint32_t) pid, now) < NEAR)) {
		g->proven = true;
		return;
	}
	g->proven = false;
	g->off = true;
	g->why_not = "loadavg did not show the pid of a process just started (lxcfs?)";
}

bool processes_moved(const struct processes *p)
{
	return p->gate.off || p->gate.before != p->gate.last;
}

bool processes_gate_works(const struct processes *p, const char **ret_why_not)
{
	*ret_why_not = p->gate.why_not;
	return !p->gate.off;
}

/* SPDX-License-Identifier: MIT
 *
 * A sink that counts what an import passes on, and keeps the first events with their sites.
 */
#pragma once

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "source/trace/import/import.h"

enum {
	SINK_EVENTS = 64,
	SINK_SITES = 64
};

struct counting_sink {
	struct trace_sink sink;
	uint32_t n_processes, n_sites, n_threads, n_windows;
	int64_t pids[8], ranks[8];
	char origin[16];
	struct trace_site sites[SINK_SITES];
	char names[SINK_SITES][200], domains[SINK_SITES][100], devices[SINK_SITES][100];
	struct trace_event events[SINK_EVENTS];
	uint64_t n_events, kinds[TRACE_KIND_COUNT], total_ns[TRACE_KIND_COUNT], lost;
	int fails_after; /* with -ENOSPC; 0: never */
};

static int count_process(void *ctx, const struct trace_process *process, uint32_t *ret)
{
	struct counting_sink *c = ctx;

	assert_true(c->n_processes < 8);
	c->pids[c->n_processes] = process->pid;
	c->ranks[c->n_processes] = process->rank;
	(void) snprintf(c->origin, sizeof(c->origin), "%s", process->origin);
	*ret = ++c->n_processes;
	return 0;
}

static int count_site(void *ctx, const struct trace_site *site, uint32_t *ret)
{
	struct counting_sink *c = ctx;
	const uint32_t n = c->n_sites < SINK_SITES ? c->n_sites++ : SINK_SITES - 1;

	assert_true(site->process >= 1 && site->process <= c->n_processes);
	c->sites[n] = *site;
	(void) snprintf(c->names[n], sizeof(c->names[n]), "%s", site->name);
	(void) snprintf(c->domains[n], sizeof(c->domains[n]), "%s", site->domain);
	(void) snprintf(c->devices[n], sizeof(c->devices[n]), "%s", site->device_name);
	*ret = n + 1;
	return 0;
}

static int count_event_of(void *ctx, const struct trace_event *event)
{
	struct counting_sink *c = ctx;

	if (c->fails_after && c->n_events + 1 >= (uint64_t) c->fails_after)
		return -ENOSPC;
	if (c->n_events < SINK_EVENTS)
		c->events[c->n_events] = *event;
	c->n_events++;
	c->kinds[event->kind]++;
	assert_true(event->end_ns >= event->start_ns);
	if (!(event->flags & TRACE_INVALID))
		c->total_ns[event->kind] += event->end_ns - event->start_ns;
	return 0;
}

static int count_thread(void *ctx, uint32_t process, int64_t tid, const char *name)
{
	struct counting_sink *c = ctx;

	(void) tid;
	assert_true(process >= 1 && process <= c->n_processes && name[0]);
	c->n_threads++;
	return 0;
}

static int count_lost(void *ctx, uint32_t process, enum trace_loss cause, uint64_t n)
{
	(void) process;
	assert_int_equal(cause, TRACE_LOST_DAMAGED);
	((struct counting_sink *) ctx)->lost += n;
	return 0;
}

static int count_window(void *ctx, uint64_t begin_ns, uint64_t end_ns, const char *why)
{
	assert_true(begin_ns < end_ns && why[0]);
	((struct counting_sink *) ctx)->n_windows++;
	return 0;
}

static void counting_sink_init(struct counting_sink *c)
{
	memset(c, 0, sizeof(*c));
	c->sink = (struct trace_sink) {
		.process = count_process,
		.site = count_site,
		.event = count_event_of,
		.thread = count_thread,
		.lost = count_lost,
		.window = count_window,
		.ctx = c,
	};
}

/* The event's name. */
static const char *name_of_event(const struct counting_sink *c, int i)
{
	return c->names[c->events[i].site - 1];
}

/* A temporary file with this content. */
static void write_temporary(char path[64], const void *bytes, size_t len)
{
	int fd;

	(void) snprintf(path, 64, "/tmp/hiwater-import-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), (ssize_t) len);
	(void) close(fd);
}

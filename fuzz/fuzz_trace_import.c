/* SPDX-License-Identifier: MIT
 *
 * source/trace/import: any bytes as a trace. What the facts count is what both passes pass on, with sites,
 * processes and times that hold what model/trace.h says.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "source/trace/import/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	uint32_t processes, sites;
	uint64_t events, invalid;
};

static void check(bool holds)
{
	if (!holds)
		abort();
}

static int see_process(void *ctx, const struct trace_process *process, uint32_t *ret)
{
	check(process->name && process->origin[0] && process->pid >= -1);
	*ret = ++((struct seen *) ctx)->processes;
	return 0;
}

static int see_site(void *ctx, const struct trace_site *site, uint32_t *ret)
{
	struct seen *seen = ctx;

	check(site->kind < TRACE_KIND_COUNT && site->process >= 1 && site->process <= seen->processes);
	check(site->source < TRACE_MEMORY_COUNT && site->target < TRACE_MEMORY_COUNT);
	check(strlen(site->name) < 1 << 24 && strlen(site->domain) < 1 << 16 && site->device_name);
	*ret = ++seen->sites;
	return 0;
}

static int see_event(void *ctx, const struct trace_event *event)
{
	struct seen *seen = ctx;

	check(event->site >= 1 && event->site <= seen->sites && event->start_ns <= event->end_ns);
	seen->events++;
	seen->invalid += event->flags & TRACE_INVALID ? 1 : 0;
	return 0;
}

static int see_thread(void *ctx, uint32_t process, int64_t tid, const char *name)
{
	(void) tid;
	check(process >= 1 && process <= ((struct seen *) ctx)->processes && name);
	return 0;
}

static int see_lost(void *ctx, uint32_t process, enum trace_loss cause, uint64_t n)
{
	(void) ctx;
	check(process == 0 && cause == TRACE_LOST_DAMAGED && n > 0);
	return 0;
}

static int see_window(void *ctx, uint64_t begin_ns, uint64_t end_ns, const char *why)
{
	(void) ctx;
	check(begin_ns < end_ns && why[0]);
	return 0;
}

static void pass(struct trace_import *f, int64_t zero_ns, struct err *err)
{
	struct seen seen = { 0 };
	const struct trace_sink sink = {
		.process = see_process,
		.site = see_site,
		.event = see_event,
		.thread = see_thread,
		.lost = see_lost,
		.window = see_window,
		.ctx = &seen,
	};
	struct trace_import_target target = { .sink = &sink, .zero_ns = zero_ns, .rank = -1 };
	const struct trace_import_facts *facts = trace_import_facts(f);

	check(trace_import_pass(f, &target, err) == 0);
	check(seen.events + target.before == facts->events);
	check(zero_ns != facts->first_ns || (target.before == 0 && seen.invalid == facts->invalid));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const int fd = memfd_create("trace", MFD_CLOEXEC);
	struct trace_import *f = NULL;
	struct err err = { "" };
	char path[64];

	if (fd < 0 || write(fd, data, size) != (ssize_t) size)
		return 0;
	(void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (trace_import_open(path, &f, &err) == 0) {
		const struct trace_import_facts *facts = trace_import_facts(f);

		check(facts->events > 0 && facts->first_ns <= facts->last_ns);
		pass(f, facts->first_ns, &err);
		pass(f, facts->first_ns / 2 + facts->last_ns / 2, &err);
		trace_import_free(f);
	} else {
		check(err.text[0]);
	}
	(void) close(fd);
	return 0;
}

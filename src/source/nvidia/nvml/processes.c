/* SPDX-License-Identifier: MIT */
#include "source/nvidia/nvml/processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/smallfile.h"
#include "source/nvidia/nvml/internal.h"
#include "source/process/procfs_stat.h"
#include "source/process/procfs_status.h"

/* Device memory that another group read is reused for this long. */
#define FRESH_NS 150000000ULL

/* Tolerated change of the wall clock since a process started. */
#define SLACK_US 2000000ULL

/* ---- one process ----------------------------------------------------------------------------- */

/* A process cannot use more memory than the device has. */
static bool is_implausible(const struct nvml_gpu *d, uint64_t bytes)
{
	return d->memory_bytes.known && bytes != NVML_NONE_U64 && bytes > (uint64_t) d->memory_bytes.value;
}

/* Sets pid, owner and name, as far as /proc shows them. */
static void describe(
	const struct source *s, uint32_t pid, char *ret_name, size_t size, struct gpu_process_birth *ret)
{
	struct procfs_status status;
	char path[32], text[4096];

	ret_name[0] = '\0';
	if (s->pids_mean_nothing)
		return;
	ret->pid = known(pid);
	(void) snprintf(path, sizeof(path), "%u/status", pid);
	if (smallfile_read(s->env->root->proc, path, text, sizeof(text)) <= 0 ||
		procfs_status_parse(text, &status) < 0)
		return;
	ret->uid = status.uid;
	(void) snprintf(ret_name, size, "%s", status.name);
}

/* Start time by the wall clock in us, precise to a clock tick; 0: unknown. */
static uint64_t start_of(const struct source *s, uint32_t pid)
{
	const uint64_t tick_us = 1000000 / (uint64_t) sysconf(_SC_CLK_TCK);
	struct procfs_stat stat;
	char path[32], text[4096];

	(void) snprintf(path, sizeof(path), "%u/stat", pid);
	if (s->pids_mean_nothing || smallfile_read(s->env->root->proc, path, text, sizeof(text)) <= 0 ||
		procfs_stat_parse(text, &stat) < 0)
		return 0;
	return (clock_wall_ns() - clock_boot_ns()) / 1000 + stat.start_ticks * tick_us;
}

static void append_birth(
	struct source *s, const struct nvml_gpu *d, const struct nvml_process *p, struct framebuf *out)
{
	char name[64];
	struct birth birth = {
		.entity = ENTITY_GPU_PROCESS,
		.id = p->id,
		.gpu_process = { .gpu = d->id, .name = name, .compute = p->compute, .graphics = p->graphics },
	};

	describe(s, p->pid, name, sizeof(name), &birth.gpu_process);
	framebuf_birth(out, &birth);
}

/* The driver keeps accounting data of ended processes: data of one that ended and began before this
 * process belongs to an earlier process with the same pid. */
static bool is_of_earlier(const struct nvml_process *p, const struct nvml_accounting *a)
{
	if (p->accounted_us)
		return p->accounted_us != a->start_us;
	return !a->is_running && a->start_us + SLACK_US < p->started_us;
}

/* The driver's high-water mark, if accounting is on: exact, also between two lists. Data of an
 * earlier process with the same pid is ignored. */
static void append_peak(struct source *s, struct nvml_gpu *d, struct nvml_process *p, struct framebuf *out)
{
	struct nvml_accounting a = { .max_bytes = NVML_NONE_U64 };

	if (!d->processes.accounting ||
		NVML_CALL(&s->nvml, accounting, d->handle, p->pid, &a) != NVML_SUCCESS)
		return;
	if (a.max_bytes > INT64_MAX || a.max_bytes == 0 || is_of_earlier(p, &a) ||
		is_implausible(d, a.max_bytes))
		return;
	/* A mark that began within the run is all of the run's: it began at 0. */
	if (!p->accounted_us && a.start_us > s->run_wall_us)
		framebuf_value(out, M_GPROC_MEM_PEAK, p->id, 0);
	p->accounted_us = a.start_us;
	framebuf_value(out, M_GPROC_MEM_PEAK, p->id, (int64_t) a.max_bytes);
}

static void append_end(const struct nvml_process *p, struct framebuf *out)
{
	const struct end end = { .entity = ENTITY_GPU_PROCESS, .id = p->id, .how = END_SEEN };

	framebuf_end(out, &end);
}

static void append_memory(const struct nvml_process *p, struct framebuf *out)
{
	if (p->bytes.known)
		framebuf_value(out, M_GPROC_MEM, p->id, p->bytes.value);
	else
		framebuf_unknown(out, M_GPROC_MEM, p->id);
}

/* ---- the processes of one device ------------------------------------------------------------- */

static void set(const struct nvml_gpu *d, struct nvml_process *p, const struct nvml_listed *l)
{
	p->implausible = is_implausible(d, l->bytes);
	p->bytes = p->implausible ? UNKNOWN : known_unsigned(l->bytes);
	p->compute |= l->compute;
	p->graphics |= l->graphics;
}

static int make_room(struct nvml_processes *p, size_t n)
{
	if (n <= p->cap)
		return 0;
	struct nvml_process *list = reallocarray(p->list, n * 2, sizeof(*list));

	if (!list)
		return -1;
	p->list = list;
	struct nvml_process *next = reallocarray(p->next, n * 2, sizeof(*next));

	if (!next)
		return -1;
	p->next = next;
	p->cap = n * 2;
	return 0;
}

static void end_process(struct source *s, struct nvml_gpu *d, struct nvml_process *p, struct framebuf *out)
{
	append_peak(s, d, p, out);
	append_end(p, out);
}

/* Merges two lists sorted by pid: processes only in the old one have ended, those only in the new
 * one are born. Returns 0, or -1 if out of memory, with nothing changed. */
static int replace(struct source *s, struct nvml_gpu *d, struct framebuf *out)
{
	struct nvml_processes *now = &d->processes;
	size_t old = 0;

	if (make_room(now, s->room.n) < 0)
		return -1;
	for (size_t i = 0; i < s->room.n; i++) {
		const struct nvml_listed *l = &s->room.listed[i];
		struct nvml_process *p = &now->next[i];

		while (old < now->n && now->list[old].pid < l->pid)
			end_process(s, d, &now->list[old++], out);
		if (old < now->n && now->list[old].pid == l->pid) {
			*p = now->list[old++];
			set(d, p, l);
			continue;
		}
		*p = (struct nvml_process) { .pid = l->pid, .id = ++s->last_process_id };
		p->started_us = now->accounting ? start_of(s, l->pid) : 0;
		set(d, p, l);
		append_birth(s, d, p, out);
	}
	while (old < now->n)
		end_process(s, d, &now->list[old++], out);
	struct nvml_process *spare = now->list;

	now->list = now->next;
	now->next = spare;
	now->n = s->room.n;
	return 0;
}

struct nvml_process *nvml_process_find(const struct nvml_processes *p, uint32_t pid)
{
	for (size_t low = 0, high = p->n; low < high;) {
		size_t middle = low + (high - low) / 2;

		if (p->list[middle].pid == pid)
			return &p->list[middle];
		if (p->list[middle].pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

void nvml_processes_end(struct nvml_gpu *d, struct framebuf *out)
{
	for (size_t i = 0; i < d->processes.n; i++)
		append_end(&d->processes.list[i], out);
	d->processes.n = 0;
}

void nvml_processes_free(struct nvml_gpu *d)
{
	free(d->processes.list);
	free(d->processes.next);
	d->processes = (struct nvml_processes) { 0 };
}

/* ---- the lists of one device ----------------------------------------------------------------- */

/* Device memory in use, by the way that works; unknown also if the device uses the host's
 * memory. */
static struct maybe memory_used(struct source *s, struct nvml_gpu *d)
{
	const struct nvml_row *row = nvml_row_of(M_GPU_MEM);
	const struct nvml_try *t = &d->tries[row - nvml_rows];
	struct reading r[NVML_MAX_METRICS] = { { .metric = M_GPU_MEM } };

	if (t->absent || row->ways[t->way].read(s, d, r) != NVML_SUCCESS || !r[0].known)
		return UNKNOWN;
	return known(r[0].value);
}

/* Device memory before and after the lists were read: the smaller value was in use throughout and
 * bounds the sum over the processes. */
static void append_used(struct nvml_gpu *d, struct maybe before, struct maybe after, struct framebuf *out)
{
	struct reading r = reading_of(M_GPU_MEM, d->id, maybe_min(before, after).value);

	if (!before.known || !after.known)
		return;
	r.max = maybe_max(before, after).value;
	nvml_append(d, out, &r);
}

/* Appends the sum over the processes for a device without a memory figure. */
static void append_sum(struct nvml_gpu *d, struct framebuf *out)
{
	struct maybe sum = known(0);

	for (size_t i = 0; i < d->processes.n; i++)
		sum = maybe_sum(sum, d->processes.list[i].bytes);
	nvml_append_value(d, out, M_GPU_MEM, sum);
}

/* Names the lists that failed with the same code as list first, "compute, graphics", and marks them
 * as noted. */
static void name_lists(struct nvml_gpu *d, int first, char *names, size_t room)
{
	static const char *const of[NVML_LISTS] = { "compute", "graphics", "MPS" };
	const struct nvml_processes *p = &d->processes;
	size_t len = 0;

	for (int which = first; which < NVML_LISTS; which++) {
		if (d->list_noted[which] || p->code[which] != p->code[first] ||
			!nvml_list_lacks(p, (enum nvml_list) which))
			continue;
		d->list_noted[which] = true;
		len += (size_t) snprintf(names + len, room - len, "%s%s", len ? ", " : "", of[which]);
	}
}

/* Notes why processes are missing: once per list, lists that failed alike together. */
static void note_lists(struct source *s, struct nvml_gpu *d, struct framebuf *out)
{
	const struct nvml_processes *p = &d->processes;
	char text[224], names[40];

	for (int which = 0; which < NVML_LISTS; which++) {
		const struct nvml_code *code = nvml_code(p->code[which]);

		if (d->list_noted[which] || !nvml_list_lacks(p, (enum nvml_list) which))
			continue;
		name_lists(d, which, names, sizeof(names));
		(void) snprintf(text, sizeof(text),
			"its %s processes cannot be listed: %s (NVML code %d); their memory is missing from the job's",
			names, code->why, p->code[which]);
		nvml_note(s, d, out, "gpu.memory", CAUSE_DEVICE, text);
	}
}

/* Notes once why the memory of some processes is unknown. */
static void note_silence(struct source *s, struct nvml_gpu *d, const char *text, struct framebuf *out)
{
	if (d->silence_noted)
		return;
	d->silence_noted = true;
	nvml_note(s, d, out, "gpu.memory", CAUSE_DEVICE, text);
}

/* Appends the number of processes; unknown, each time, if a list failed: then only the processes of
 * the other lists are known. */
static void append_count(struct nvml_gpu *d, struct framebuf *out)
{
	const struct nvml_processes *p = &d->processes;
	const bool lacks = nvml_list_lacks(p, NVML_LIST_GRAPHICS) || nvml_list_lacks(p, NVML_LIST_MPS);

	if (lacks)
		d->reported[M_GPU_PROCESSES] = REPORTED_NEVER;
	nvml_append_value(d, out, M_GPU_PROCESSES, lacks ? UNKNOWN : known((int64_t) p->n));
}

static void append_peaks(struct source *s, struct nvml_gpu *d, struct framebuf *out)
{
	struct nvml_processes *p = &d->processes;

	for (size_t i = 0; p->accounting && i < p->n; i++)
		append_peak(s, d, &p->list[i], out);
}

static void append_all(struct source *s, struct nvml_gpu *d, struct framebuf *out)
{
	struct nvml_processes *p = &d->processes;

	append_count(d, out);
	note_lists(s, d, out);
	for (size_t i = 0; i < p->n; i++) {
		append_memory(&p->list[i], out);
		if (p->list[i].implausible)
			note_silence(s, d,
				"the driver reports more memory for some of its processes than the GPU has; these values are left out",
				out);
		else if (!p->list[i].bytes.known)
			note_silence(s, d,
				"the driver does not report how much memory some of its processes use; it is counted for no process",
				out);
	}
	if (d->unified)
		append_sum(d, out);
	if (p->listed_ns == s->now_ns)
		append_peaks(s, d, out);
	p->waited_ns = p->reported_ns ? counter_delta(p->reported_ns, s->now_ns) : 0;
	p->reported_ns = s->now_ns;
}

/* Reads the lists, with a read of the device's memory before and after. */
static void list(struct source *s, struct nvml_gpu *d, struct framebuf *out)
{
	struct nvml_processes *p = &d->processes;
	const struct maybe before = memory_used(s, d);

	p->list_code = nvml_lists_read(s, d);
	if (p->list_code == NVML_SUCCESS && replace(s, d, out) < 0)
		p->list_code = NVML_NO_DATA;
	p->listed_ns = s->now_ns;
	p->listed_used = p->used = before;
	p->stale_ns = 0;
	p->forgotten = false;
	if (p->list_code != NVML_SUCCESS)
		return;
	if (before.known && before.value > p->most_used)
		p->most_used = before.value;
	append_used(d, before, memory_used(s, d), out);
}

/* Updates the memory in use: from the memory group's last read if calls are to be saved, else by a
 * call. */
static void update_memory(struct source *s, struct nvml_gpu *d)
{
	struct nvml_processes *p = &d->processes;
	const bool fresh = s->env->budget && d->mem_ns && counter_delta(d->mem_ns, s->now_ns) < FRESH_NS;

	nvml_turn_to(s, d);
	if (p->listed_ns != 0)
		nvml_memory_update(s, p, fresh ? d->mem : memory_used(s, d));
}

static void list_timed(struct source *s, struct nvml_gpu *d, struct framebuf *out)
{
	const uint64_t cpu_ns = clock_thread_cpu_ns(), wall_ns = clock_boot_ns();

	nvml_turn_to(s, d);
	list(s, d, out);
	d->processes.list_cpu_ns = clock_thread_cpu_ns() - cpu_ns;
	d->processes.list_wall_ns = clock_boot_ns() - wall_ns;
}

/* ---- a read ---------------------------------------------------------------------------------- */

static bool use_is_due(const struct source *s, const struct nvml_processes *p)
{
	return p->listed_ns == s->now_ns || nvml_has_credit(s, NVML_CREDIT_SPARE);
}

/* The processes are known if they were just listed, and while memory has not moved since. */
static void append_device(struct source *s, struct nvml_gpu *d, struct framebuf *out)
{
	struct nvml_processes *p = &d->processes;
	const bool is_now = p->listed_ns == s->now_ns;

	nvml_turn_to(s, d);
	if (p->list_code == NVML_SUCCESS) {
		/* Accounting still has a process that has just ended, although a list would not. */
		if (!is_now && s->env->budget && s->env->budget->last)
			append_peaks(s, d, out);
		if (!is_now && nvml_memory_has_moved(p))
			return;
		append_all(s, d, out);
		if (use_is_due(s, p))
			nvml_use_read(s, d, out);
	} else if (nvml_handle_code(s, d, p->list_code, out) != NVML_LOST) {
		note_lists(s, d, out);
		nvml_append_value(d, out, M_GPU_PROCESSES, UNKNOWN);
		if (d->unified)
			nvml_append_value(d, out, M_GPU_MEM, UNKNOWN);
	}
}

static void list_by_turns(struct source *s, struct framebuf *out)
{
	struct nvml_gpu *d;
	unsigned n = 0;

	if (!s->env->budget)
		return;
	for (size_t i = 0; i < s->n_gpus; i++) {
		if (nvml_can_list(s, s->gpus[i]))
			update_memory(s, s->gpus[i]);
	}
	s->idle_ns = nvml_idle_ns(s);
	while ((d = nvml_next_to_list(s))) {
		list_timed(s, d, out);
		n++;
		s->env->budget->ns -= (int64_t) d->processes.list_cpu_ns;
		append_device(s, d, out);
		nvml_publish(s, out);
	}
	s->env->budget->lists = n;
}

void nvml_processes_list(struct source *s, struct nvml_gpu *d, struct framebuf *out)
{
	if (!nvml_can_list(s, d))
		return;
	update_memory(s, d);
	s->idle_ns = nvml_idle_ns(s);
	if (!nvml_list_is_due(s, d))
		return;
	list_timed(s, d, out);
	append_device(s, d, out);
}

/* A divided GPU's processes are on its instances. In WSL, lists are empty or partial and without
 * memory, and calls about processes have crashed inside the library. */
void nvml_processes_read(struct source *s, struct framebuf *out)
{
	const int64_t budget_ns = s->env->budget ? s->env->budget->ns : 0;
	uint64_t waited_ns = 0;

	list_by_turns(s, out);
	for (size_t i = 0; i < s->n_gpus; i++) {
		struct nvml_gpu *d = s->gpus[i];

		if (d->state != NVML_AWAKE)
			continue;
		if (s->is_wsl)
			note_silence(s, d,
				"WSL's driver does not report processes; the job's memory on this GPU is unknown",
				out);
		if (s->is_wsl || d->mig)
			nvml_append_value(d, out, M_GPU_PROCESSES, UNKNOWN);
		else if (d->processes.listed_ns != s->now_ns)
			append_device(s, d, out);
		if (d->processes.waited_ns > waited_ns)
			waited_ns = d->processes.waited_ns;
	}
	if (!s->env->budget)
		return;
	s->env->budget->waited_ns = waited_ns;
	s->env->budget->ns = budget_ns; /* the helper subtracts the cost of the whole read */
}

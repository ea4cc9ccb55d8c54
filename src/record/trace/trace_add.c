/* SPDX-License-Identifier: MIT
 *
 * Adds the sums of another recording: those of a part of a job to the job's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "record/trace/trace_internal.h"

struct add {
	struct trace_write *w;
	const struct trace_read *t;
	const struct trace_add_options *options;
	uint32_t *processes; /* by number in t, from 0: the number in w; 0: not of this part */
};

static uint32_t process_of(const struct add *a, uint32_t number)
{
	return number < 1 || number > trace_read_process_count(a->t) ? 0 : a->processes[number];
}

/* On the time axis of the job. */
static uint64_t moved(const struct add *a, uint64_t ns)
{
	const int64_t t = (int64_t) (ns < INT64_MAX / 2 ? ns : INT64_MAX / 2) + a->options->shift_ns;

	return t > 0 ? (uint64_t) t : 0;
}

static int add_processes(struct add *a)
{
	const struct trace_add_options *o = a->options;
	const size_t n = trace_read_process_count(a->t);
	int r = 0;

	for (size_t i = 1; i <= n && r == 0; i++) {
		const struct trace_process *known = trace_read_process(a->t, (uint32_t) i);
		struct trace_process process;

		if (!known || (o->only_its_rank && known->rank != o->rank))
			continue;
		process = *known;
		process.rank = o->rank >= 0 ? o->rank : process.rank;
		r = trace_put_process(a->w, &process);
		if (r < 0)
			continue;
		a->processes[i] = (uint32_t) a->w->n_processes;
		/* Its number in table process is of another recording. */
		a->w->processes[a->w->n_processes - 1].is_of_part = true;
		a->w->processes[a->w->n_processes - 1].is_lost_written = true;
	}
	return r;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a + b < a || a + b > INT64_MAX ? INT64_MAX : a + b;
}

static int add_histogram(struct stat_entry *to, const struct trace_stat *from)
{
	struct trace_histogram histogram = { 0 };
	int r = trace_histogram_read(&histogram, from->histogram, from->histogram_bytes);

	if (r == 0)
		r = trace_histogram_merge(&to->histogram, &histogram);
	trace_histogram_done(&histogram);
	return r;
}

/* Phases are those of the part, and rows remain there. */
static int add_stat(struct add *a, const struct trace_stat *stat)
{
	const uint32_t process = process_of(a, stat->process);
	struct stat_entry *to;
	struct stat_key key;
	int r;

	if (process == 0)
		return 0;
	memset(&key, 0, sizeof(key));
	key.kind = stat->kind;
	key.process = process;
	key.tid = stat->tid;
	key.device = stat->device;
	key.stream = a->w->n_stats < TRACE_MOST_STATS ? stat->stream : 0;
	key.source = stat->source;
	key.target = stat->target;
	r = trace_number_name(a->w, stat->name, process, &key.name);
	if (r == 0)
		r = trace_number_name(a->w, stat->domain, process, &key.domain);
	if (r == 0)
		r = trace_put_stat(a->w, &key, &to);
	if (r < 0)
		return r;
	to->is_changed = true;
	to->count = sum(to->count, stat->count);
	to->invalid = sum(to->invalid, stat->invalid);
	to->total_ns = sum(to->total_ns, stat->total_ns);
	to->bytes = sum(to->bytes, stat->bytes);
	to->sum_squares += stat->sum_squares;
	if (stat->count > 0 && stat->min_ns < to->min_ns)
		to->min_ns = stat->min_ns;
	if (stat->max_ns > to->max_ns)
		to->max_ns = stat->max_ns;
	if (stat->rows > 0)
		trace_count_lost(a->w, process, TRACE_LOST_THINNED, stat->rows);
	return add_histogram(to, stat);
}

static int add_busy(struct add *a, const struct trace_busy *busy)
{
	const uint32_t process = process_of(a, busy->process);
	const struct trace_union_sums sums = {
		.traced_ns = busy->traced_ns,
		.busy_ns = busy->busy_ns,
		.kernels_ns = busy->kernels_ns,
		.copies_ns = busy->copies_ns,
		.both_ns = busy->both_ns,
		.gaps = busy->gaps,
		.longest_ns = busy->longest_ns,
		.longest_at_ns = moved(a, busy->longest_at_ns),
		.first_ns = moved(a, busy->first_ns),
		.last_ns = moved(a, busy->last_ns),
		.late = busy->late,
	};
	struct device_entry *device;
	uint32_t at;
	int r;

	if (process == 0)
		return 0;
	r = trace_put_device(a->w, process, busy->device, &at);
	if (r < 0)
		return r;
	device = &a->w->devices[at];
	if (!device->name)
		device->name = strdup(busy->name);
	return device->name ? trace_flush_busy(a->w, device, &sums) : -ENOMEM;
}

static int add_peak(struct add *a, const struct trace_peak *peak)
{
	const uint32_t process = process_of(a, peak->process);
	uint32_t at;
	int r;

	if (process == 0)
		return 0;
	r = trace_put_peak(a->w, process, peak->device, peak->memory, &at);
	if (r == 0)
		a->w->peaks[at].sums = (struct peak_sums) {
			.live = peak->live_bytes, .peak = peak->peak_bytes, .at_ns = moved(a, peak->peak_at_ns)
		};
	return r;
}

static int add_window(struct add *a, const struct trace_window *window)
{
	const uint64_t begin = moved(a, window->begin_ns);
	uint64_t end = moved(a, window->end_ns);

	if (end > a->options->end_ns)
		end = a->options->end_ns;
	return a->w->sink.window(a->w, begin, end > begin ? end : begin, window->why);
}

static int add_all(struct add *a)
{
	int r = add_processes(a);

	if (r == 0)
		r = trace_flush_tables(a->w);
	for (size_t i = 0; i < trace_read_stat_count(a->t) && r == 0; i++)
		r = add_stat(a, trace_read_stat(a->t, i));
	for (size_t i = 0; i < trace_read_busy_count(a->t) && r == 0; i++)
		r = add_busy(a, trace_read_busy(a->t, i));
	for (size_t i = 0; i < trace_read_peak_count(a->t) && r == 0; i++)
		r = add_peak(a, trace_read_peak(a->t, i));
	for (size_t i = 0; i < trace_read_window_count(a->t) && r == 0; i++)
		r = add_window(a, trace_read_window(a->t, i));
	for (size_t i = 0; i < trace_read_lost_count(a->t) && r == 0; i++) {
		const struct trace_lost *lost = trace_read_lost(a->t, i);
		const uint32_t process = process_of(a, lost->process);

		/* Of an earlier merge, those of no process in particular are of no part in particular. */
		if (process != 0 || (lost->process == 0 && !a->options->only_its_rank))
			trace_count_lost(a->w, process, lost->cause, lost->n);
	}
	return r;
}

int trace_write_add(
	struct trace_write *w, const struct trace_read *t, const struct trace_add_options *options)
{
	struct add a = { .w = w, .t = t, .options = options };
	int r;

	a.processes = calloc(trace_read_process_count(t) + 1, sizeof(*a.processes));
	r = a.processes ? add_all(&a) : -ENOMEM;
	free(a.processes);
	return r;
}

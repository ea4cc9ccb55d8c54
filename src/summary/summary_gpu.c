/* SPDX-License-Identifier: MIT
 *
 * GPUs in a summary: memory of the job and of devices, the leading utilisation, and reasons why
 * figures are missing.
 */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "summary/facts.h"
#include "summary/summary_internal.h"

static const struct acc *acc_of(const struct summary *s, enum metric metric, uint32_t id)
{
	return s->job ? job_acc(s->job, metric, id) : NULL;
}

struct maybe summary_most(const struct summary *s, enum metric metric, uint32_t id)
{
	const struct acc *acc = acc_of(s, metric, id);

	return acc ? known(acc->max) : UNKNOWN;
}

struct maybe summary_mean(const struct summary *s, enum metric metric, uint32_t id)
{
	const struct acc *acc = acc_of(s, metric, id);

	if (!acc)
		return UNKNOWN;
	return known(acc->span_ns > 0 ? (int64_t) (acc->sum / (double) acc->span_ns + 0.5) : acc->last);
}

struct maybe summary_risen(const struct summary *s, enum metric metric, uint32_t id)
{
	const struct acc *acc = acc_of(s, metric, id);

	return acc ? known(acc->last > acc->min ? acc->last - acc->min : 0) : UNKNOWN;
}

bool summary_gpu_lead(const struct summary *s, uint32_t id, enum metric *ret)
{
	static const enum metric leads[] = { M_GPU_SM_ACTIVE, M_GPU_GRAPHICS_ACTIVE, M_GPU_BUSY };

	for (size_t i = 0; i < sizeof(leads) / sizeof(leads[0]); i++) {
		if (acc_of(s, leads[i], id)) {
			*ret = leads[i];
			return true;
		}
	}
	return false;
}

struct maybe summary_gpu_energy(const struct summary *s, uint32_t id, bool *ret_counted)
{
	*ret_counted = false;
	return s->job ? job_gpu_energy(s->job, id, ret_counted) : UNKNOWN;
}

/* ---- memory of the job ----------------------------------------------------------------------------------------------- */

/* High-water marks of the processes of main, of the descendants or of both on a GPU (0: on all
 * devices). */
struct hwms {
	size_t n;              /* processes there */
	struct maybe largest;  /* of the marks that are of this run: no sum is below it */
	struct maybe only;     /* that of the only process there, of this run or earlier */
};

static struct hwms hwms_of(const struct summary *s, uint32_t gpu, bool main, bool rest)
{
	struct hwms all = { .largest = UNKNOWN, .only = UNKNOWN };

	for (size_t i = 0; i < job_gpu_process_count(s->job); i++) {
		const struct birth *b = &job_gpu_process(s->job, i)->birth;
		bool is_of_run;

		if (!b->gpu_process.process || (gpu && !job_gpu_is_on(s->job, b->gpu_process.gpu, gpu)) ||
			!job_gpu_is_of(s->job, b, main, rest))
			continue;
		const struct maybe hwm = job_gpu_hwm(s->job, b, &is_of_run);

		all.only = all.n++ == 0 ? hwm : UNKNOWN;
		if (is_of_run)
			all.largest = maybe_max(all.largest, hwm);
	}
	return all;
}

static struct maybe peak_of(const struct summary *s, enum metric metric, bool main, bool rest)
{
	const struct maybe seen = job_gpu_unreported(s->job, 0, main, rest) ? UNKNOWN
									    : summary_most(s, metric, 0);

	return maybe_max(seen, hwms_of(s, 0, main, rest).largest);
}

struct maybe summary_gpu_job_mean(const struct summary *s, uint32_t id)
{
	return job_gpu_unreported(s->job, id, true, true) ? UNKNOWN : summary_mean(s, M_GPU_JOB_MEM, id);
}

/* On all devices at one instant. The ranks of a job have a figure for each device only: that of one
 * device is the job's. */
static struct maybe most_of_all(const struct summary *s)
{
	const struct maybe most = summary_most(s, M_JOB_GPU_MEM, 0);

	if (!most.known && job_gpu_count(s->job) == 1)
		return summary_most(s, M_GPU_JOB_MEM, job_gpu(s->job, 0)->birth.id);
	return most;
}

/* The marks decide if there is one process only: the peak is its mark, if that is of this run, or
 * lies between the samples and the mark. */
struct maybe summary_gpu_job_peak(const struct summary *s, uint32_t id, enum method *ret_method)
{
	const bool is_incomplete = job_gpu_unreported(s->job, id, true, true);
	const struct maybe seen = is_incomplete ? UNKNOWN : id ? summary_most(s, M_GPU_JOB_MEM, id)
							       : most_of_all(s);
	const struct hwms hwms = hwms_of(s, id, true, true);
	const struct maybe peak = maybe_max(seen, hwms.largest);

	if (hwms.only.known && peak.known && peak.value >= hwms.only.value)
		*ret_method = METHOD_EXACT;
	else
		*ret_method = peak.known ? METHOD_SAMPLED : METHOD_UNKNOWN;
	return peak;
}

struct maybe summary_gpu_job_high(const struct summary *s, uint32_t id)
{
	enum method method;

	(void) summary_gpu_job_peak(s, id, &method);
	return method == METHOD_EXACT ? UNKNOWN : hwms_of(s, id, true, true).only;
}

struct maybe summary_gpu_process_peak(
	const struct summary *s, const struct birth *b, enum method *ret_method, struct maybe *ret_high)
{
	bool is_of_run;
	const struct maybe seen = summary_most(s, M_GPROC_MEM, b->id),
			   hwm = job_gpu_hwm(s->job, b, &is_of_run);
	const struct maybe peak = is_of_run ? maybe_max(seen, hwm) : seen;
	const bool is_exact = hwm.known && peak.known && peak.value >= hwm.value;

	*ret_high = is_exact ? UNKNOWN : hwm;
	*ret_method = is_exact ? METHOD_EXACT : peak.known ? METHOD_SAMPLED
							   : METHOD_UNKNOWN;
	return peak;
}

struct maybe summary_gpu_device_peak(const struct summary *s, uint32_t id)
{
	const struct maybe seen = summary_most(s, M_GPU_MEM, id);

	return seen.known ? maybe_max(seen, hwms_of(s, id, true, true).largest) : UNKNOWN;
}

/* ---- for all outputs ------------------------------------------------------------------------------------------------- */

const struct figure_throttle figure_throttles[FIGURE_THROTTLES] = {
	{ M_GPU_THROTTLE_POWER, "power limit" },
	{ M_GPU_THROTTLE_THERMAL, "heat" },
	{ M_GPU_THROTTLE_HW, "hardware" },
	{ M_GPU_THROTTLE_OTHER, "other reasons" },
};

bool figure_has_gpus(const struct summary *s)
{
	return (s->job && job_gpu_count(s->job) > 0) || s->facts->gpu_seen.value == 1 ||
	       (s->facts->gpu_queried.known && s->facts->gpu_queried.value == 0);
}

bool figure_gpu_used(const struct summary *s, uint32_t id)
{
	enum method method;
	const struct maybe used = summary_gpu_job_peak(s, id, &method);

	return job_gpu_id_counts(s->job, id) && (!used.known || used.value > 0);
}

bool figure_gpu_unused(const struct summary *s, uint32_t id)
{
	const size_t few = 2, n = job_gpu_count(s->job);
	bool any = n > few || !job_gpu_id_counts(s->job, id);

	for (size_t i = 0; i < n; i++)
		any = any || figure_gpu_used(s, job_gpu(s->job, i)->birth.id);
	return any && !figure_gpu_used(s, id);
}

const char *figure_gpu_lead(enum metric lead)
{
	return lead == M_GPU_SM_ACTIVE ? "SM active" : lead == M_GPU_GRAPHICS_ACTIVE ? "engine active"
										     : "busy";
}

/* ---- notes ----------------------------------------------------------------------------------------------------------- */

/* True if the GPU helper ended, or a note may say so: then missing reports prove nothing. */
static bool may_have_ended(const struct summary *s)
{
	return summary_gpu_reported(s->job, CAUSE_HELPER_ENDED) ||
	       summary_gpu_reported(s->job, CAUSE_UNKNOWN);
}

/* True if a note says that a driver or the GPU helper did not answer. */
static bool is_silence_noted(const struct job *job)
{
	static const enum note_cause causes[] = { CAUSE_NVML, CAUSE_AMDGPU, CAUSE_DRM, CAUSE_HELPER };

	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
		if (summary_gpu_reported(job, causes[i]))
			return true;
	}
	return false;
}

enum gpu_absence job_gpu_absence(const struct job *job)
{
	const struct facts *f = job_facts_const(job);

	if (f->gpu_queried.known && f->gpu_queried.value == 0)
		return GPUS_UNWANTED;
	if (f->gpu_why && *f->gpu_why)
		return GPUS_REFUSED;
	if (summary_gpu_reported(job, CAUSE_HELPER_ENDED))
		return GPUS_HELPER_ENDED;
	if (summary_gpu_reported(job, CAUSE_UNKNOWN))
		return GPUS_MAYBE;
	if (!f->gpu_queried.known)
		return is_silence_noted(job) ? GPUS_SILENT : GPUS_NOT_QUERIED;
	return f->gpu_seen.value ? GPUS_UNREADABLE : GPUS_NONE_HERE;
}

static int note_absence(struct summary *s)
{
	static const char *const texts[GPU_ABSENCES] = {
		[GPUS_UNWANTED] = "not measured: --gpu=none",
		[GPUS_HELPER_ENDED] = "none could be read: the GPU helper ended before it reported one",
		[GPUS_NOT_QUERIED] = "the run ended before any GPU could be read",
		[GPUS_UNREADABLE] = "no GPU of this machine could be read",
		[GPUS_NONE_HERE] = "no GPU found",
	};
	const enum gpu_absence absence = job_gpu_absence(s->job);
	const char *why = s->facts->gpu_why;
	const bool is_elsewhere = absence == GPUS_UNWANTED && why && *why; /* of a rank: in the node's recording */
	const char *of_parts = absence == GPUS_NOT_QUERIED && job_parts(s->job) ? "the recordings of the job have none" : NULL;
	const char *text = absence == GPUS_REFUSED || is_elsewhere ? why : of_parts ? of_parts
										    : texts[absence];
	const int r = text ? summary_note(s, "gpu", "%s", text) : 0;

	if (text && r == 0)
		s->notes[s->n_notes - 1].is_failure = absence == GPUS_REFUSED && s->facts->gpu_fault.known;
	return r;
}

static int note_unattributed(struct summary *s)
{
	static const int64_t worth_a_word = INT64_C(1) << 30;
	bool any = false, any_numa = false;
	int r;

	for (size_t i = 0; i < job_gpu_count(s->job); i++) {
		const struct birth *b = &job_gpu(s->job, i)->birth;
		const struct maybe mem = summary_mean(s, M_GPU_UNATTRIBUTED_MEM, b->id);

		if (job_gpu_counts(s->job, b) && mem.known && mem.value >= worth_a_word)
			*(b->gpu.is_numa ? &any_numa : &any) = true;
	}
	r = any ? summary_note(s, "gpu",
			  "part of the memory in use belongs to no visible process: to processes of "
			  "another container, or to the driver")
		: 0;
	if (r == 0 && any_numa)
		r = summary_note(s, "gpu",
			"part of the memory in use belongs to no visible process: the GPU's memory is a "
			"NUMA node of the host, where the kernel may keep memory of processes that ended, "
			"and give memory to programs that use no GPU");
	return r;
}

static int note_unlisted(struct summary *s)
{
	int r = 0;

	for (size_t i = 0; i < job_gpu_count(s->job) && r == 0; i++) {
		const struct birth *b = &job_gpu(s->job, i)->birth;
		enum method method;
		const struct maybe job = summary_gpu_job_peak(s, b->id, &method);
		char bytes[UNITS_LEN], name[UNITS_LEN], time[UNITS_LEN], whose[64] = "";
		uint64_t ns = 0;
		const int64_t more = job_gpu_unlisted(s->job, b, job.known ? job.value : 0, &ns);

		if (more == 0 || !job_gpu_counts(s->job, b) ||
			(job.known ? job.value == 0 : !job_gpu_is_unsure(s->job, job_gpu(s->job, i))))
			continue;
		if (ns >= UINT64_C(1000000000)) /* a process list is valid for that long anyway */
			(void) snprintf(whose, sizeof(whose), " (for %s its users are unknown)",
				units_duration((int64_t) ns, time));
		r = summary_note(s, "gpu.memory",
			"%s: the driver did not list its processes when most memory was in use%s; by the samples of the device, the job's peak there may be up to %s, and higher between samples",
			job_gpu_name(s->job, &b->gpu, name), whose,
			units_bytes(job.value + more, UNITS_IEC, bytes));
	}
	return r;
}

/* By vendor, since the recording does not say which source reads a device: the kernel's own drivers
 * for old NVIDIA and AMD GPUs belong to DRM. */
static enum note_cause driver_of(const struct gpu_birth *gpu)
{
	if (strcmp(gpu->vendor, "nvidia") == 0)
		return CAUSE_NVML;
	return strcmp(gpu->vendor, "amd") == 0 ? CAUSE_AMDGPU : CAUSE_DRM;
}

/* True if the note explains why that GPU has no process list. */
static bool explains(const struct event *e, const struct birth *gpu)
{
	switch (e->cause) {
	case CAUSE_DEVICE:
		return e->id == gpu->id;
	case CAUSE_NVML:
	case CAUSE_AMDGPU:
	case CAUSE_DRM:
		return e->cause == driver_of(&gpu->gpu);
	case CAUSE_HELPER:
	case CAUSE_HELPER_ENDED:
		return true;
	case CAUSE_UNKNOWN:
		return !e->id || e->id == gpu->id;
	case CAUSE_NONE:
	case CAUSE_COUNT:
		break;
	}
	return false;
}

static bool is_no_list_noted(const struct job *job, const struct birth *gpu)
{
	for (size_t i = 0; i < job_event_count(job); i++) {
		const struct event *e = job_event(job, i);

		if (summary_gpu_about(e) && explains(e, gpu))
			return true;
	}
	return false;
}

/* Marks of the job's only process on a GPU that are older than the run. */
static int note_early_hwm(struct summary *s)
{
	int r = 0;

	for (size_t i = 0; i < job_gpu_count(s->job) && r == 0; i++) {
		const struct birth *b = &job_gpu(s->job, i)->birth;
		const struct maybe high = summary_gpu_job_high(s, b->id);
		char name[UNITS_LEN], bytes[UNITS_LEN];

		if (high.known && !*b->gpu.parent)
			r = summary_note(s, "gpu.memory",
				"%s: the driver's high-water mark, %s, counts from the start of the process and did not rise in this run: the job's peak is at most that",
				job_gpu_name(s->job, &b->gpu, name),
				units_bytes(high.value, UNITS_IEC, bytes));
	}
	return r;
}

/* GPUs without a process list and without a note that explains it, with PIDs of another namespace,
 * or with memory of processes that this namespace hides. */
static int note_no_list(struct summary *s)
{
	static const char none[] =
		"%s: the driver returned no process list before the end; how much memory the job used there is unknown";
	static const char theirs[] =
		"%s: its driver lists processes by the PIDs of another namespace (a container, and a driver"
		" before 535.113); how much memory the job used there is unknown";
	static const char hidden[] =
		"%s: %s was allocated during the run, but no visible process uses it: hiwater runs in a PID namespace"
		" (a container), and the driver lists no process outside it; how much memory the job used there is unknown";
	static const char partly[] =
		"%s: the driver returned no process list for %s of the %s; whether the job used memory there then is unknown";
	int r = 0;

	for (size_t i = 0; i < job_gpu_count(s->job) && r == 0; i++) {
		const struct gpu_entity *gpu = job_gpu(s->job, i);
		const struct birth *b = &gpu->birth;
		const struct acc *ours = acc_of(s, M_GPU_JOB_MEM, b->id);
		char name[UNITS_LEN], span[UNITS_LEN], of[UNITS_LEN];
		uint64_t of_ns = 0;
		const bool is_zero = ours && ours->max == 0, is_none = !ours || is_zero;
		const uint64_t ns = is_zero ? job_gpu_unqueried(s->job, gpu, &of_ns) : 0;
		const bool strange = is_none && job_gpu_had_hidden_pids(s->job, b->id);
		const int64_t bytes = is_none && !strange ? job_gpu_hidden(s->job, b->id) : 0;

		if ((ours && ns == 0 && !strange && bytes == 0) || is_no_list_noted(s->job, b) ||
			!job_gpu_counts(s->job, b))
			continue;
		(void) job_gpu_name(s->job, &b->gpu, name);
		if (bytes > 0)
			r = summary_note(
				s, "gpu.memory", hidden, name, units_bytes(bytes, UNITS_IEC, span));
		else if (ours && !strange)
			r = summary_note(s, "gpu.memory", partly, name, units_duration((int64_t) ns, span),
				units_duration((int64_t) of_ns, of));
		else
			r = summary_note(s, "gpu.memory", strange ? theirs : none, name);
	}
	return r;
}

/* A counter's increase covers all the time between its first and last value; a sum of power lacks
 * the time in which power was not reported. */
static uint64_t energy_of_ns(const struct summary *s, uint32_t id, const struct acc *counter)
{
	const struct acc *power = acc_of(s, M_GPU_POWER, id);
	bool counted;

	(void) summary_gpu_energy(s, id, &counted);
	return !counted && power && power->span_ns < counter->span_ns ? power->span_ns : counter->span_ns;
}

/* True if the gap deserves a note. The first sample of GPUs comes one or two intervals after the
 * start, which matters only in short runs. */
static bool lacks_much(uint64_t covered_ns, uint64_t wall_ns)
{
	static const uint64_t start_ns = 300000000;
	const uint64_t lacks_ns = covered_ns < wall_ns ? wall_ns - covered_ns : 0;

	return lacks_ns > wall_ns / (lacks_ns < start_ns ? 5 : 10);
}

/* Whole GPUs have energy, instances have none. */
static int note_shared_energy(struct summary *s)
{
	char name[UNITS_LEN];
	int r = 0;

	for (size_t i = 0; s->facts->allocated_gpus && i < job_gpu_count(s->job) && r == 0; i++) {
		const struct birth *b = &job_gpu(s->job, i)->birth;

		if (*b->gpu.parent || gpu_is_allocated(s->facts, &b->gpu).value ||
			!job_gpu_counts(s->job, b) || !job_gpu_is_divided(s->job, b->id) ||
			!acc_of(s, M_GPU_ENERGY, b->id))
			continue;
		r = summary_note(s, "gpu.energy",
			"%s: its energy is that of the whole GPU, of which the job was allocated a part",
			job_gpu_name(s->job, &b->gpu, name));
	}
	return r;
}

/* A counter that was read late, once, or not to the end (a slow driver, a lost GPU) misses part of
 * the run's energy. */
static int note_energy(struct summary *s)
{
	const uint64_t wall_ns = s->wall_ns.known ? (uint64_t) s->wall_ns.value : 0;
	int r = 0;

	for (size_t i = 0; i < job_gpu_count(s->job) && r == 0; i++) {
		const struct birth *b = &job_gpu(s->job, i)->birth;
		const struct acc *counter = acc_of(s, M_GPU_ENERGY, b->id);
		const uint64_t covered_ns = counter ? energy_of_ns(s, b->id, counter) : 0;
		char name[UNITS_LEN], span[UNITS_LEN], wall[UNITS_LEN];

		if (!counter || !job_gpu_counts(s->job, b))
			continue;
		(void) job_gpu_name(s->job, &b->gpu, name);
		if (counter->n < 2)
			r = summary_note(s, "gpu.energy",
				"%s: its energy counter was read only once, so the energy used is unknown",
				name);
		else if (covered_ns > 0 && lacks_much(covered_ns, wall_ns))
			r = summary_note(s, "gpu.energy",
				"%s: its energy covers %s of the %s; it was not read for the rest", name,
				units_duration((int64_t) covered_ns, span),
				units_duration(s->wall_ns.value, wall));
	}
	return r;
}

/* Silent drivers and an ended helper have notes of their own; a driver that was slow for a while
 * has only this one. */
static int note_gap(struct summary *s)
{
	static const int64_t worth_a_word = 1000000000;
	const struct maybe gap = s->facts->gpu_longest_gap_ns;
	char text[UNITS_LEN];

	for (size_t i = 0; i < s->n_notes; i++) {
		if (strcmp(s->notes[i].about, "gpu") == 0)
			return 0;
	}
	if (!gap.known || gap.value < worth_a_word)
		return 0;
	return summary_note(s, "gpu",
		"a slow driver left GPUs unread for %s; use within that time is not in any figure",
		units_duration(gap.value, text));
}

int summary_gpu(struct summary *s)
{
	const bool any = job_gpu_count(s->job) > 0;
	int r;

	s->gpu_peak = summary_gpu_job_peak(s, 0, &s->gpu_method);
	s->gpu_main_peak = peak_of(s, M_JOB_GPU_MEM_MAIN, true, false);
	s->gpu_descendants_peak = peak_of(s, M_JOB_GPU_MEM_DESCENDANTS, false, true);
	s->gpu_energy_uj = job_gpus_energy(s->job);
	s->gpu_none = !any && s->facts->gpu_queried.value == 1 && s->facts->gpu_seen.known &&
		      !s->facts->gpu_seen.value && !may_have_ended(s);
	r = summary_gpu_note_reported(s);
	if (r == 0 && !any)
		r = note_absence(s);
	if (r == 0 && any)
		r = note_gap(s);
	if (r == 0 && any)
		r = note_unlisted(s);
	if (r == 0 && any)
		r = note_early_hwm(s);
	if (r == 0 && any)
		r = note_no_list(s);
	if (r == 0 && any)
		r = note_energy(s);
	if (r == 0 && any)
		r = note_shared_energy(s);
	return r == 0 && any ? note_unattributed(s) : r;
}

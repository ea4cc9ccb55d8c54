/* SPDX-License-Identifier: MIT
 *
 * The job: its processes, totals and peaks. It is built only by applying frames, live and from a
 * recording alike. Totals over processes are computed from live frames (job_total) and are frames
 * themselves; a recording has them as frames, and its aggregated processes are never added up.
 *
 * Live, for every frame of a source:   job_apply(job, frame), pass it on
 *       after each frame of processes: job_total(job, now, out), job_apply(job, totals), pass it on
 *
 * Threads: one at a time. The job keeps no pointer into a frame.
 */
#pragma once

#include <string.h>

#include "base/buf.h"
#include "base/maybe.h"
#include "base/units.h"
#include "model/framebuf.h"
#include "model/frame.h"
#include "job/timeline.h"
#include "job/minima.h"
#include "job/parts.h"

/* The accumulator of one metric of one entity over the whole run. It is stored completely, so
 * that a restored job can continue. Sums are doubles because bytes times nanoseconds overflow 64
 * bits. */
struct acc {
	uint64_t n;          /* number of samples; 0: never known */
	int64_t min, max;    /* gauge: extremes; counter: first and last value */
	uint64_t max_at_ns;  /* when max was first reached */
	int64_t last;
	uint64_t last_at_ns;
	uint64_t hold_ns;    /* how long last stays valid */
	double sum;          /* gauge: integral over time, value x ns */
	/* gauge: time that sum covers, mean = sum / span_ns; counter: from its first to its last
	 * value */
	uint64_t span_ns;
	/* memory of a GPU: time in which it was known but the job's part of it was not */
	uint64_t unlisted_ns;
	/* largest rise above an earlier value, of the metrics of acc_has_rise */
	int64_t rise;
};

/* Memory of a GPU that belongs to no visible process, and shared memory of the machine: what was there
 * before the run is not the job's, and it may fall during the run. */
static inline bool acc_has_rise(enum metric metric)
{
	return metric == M_GPU_UNATTRIBUTED_MEM || metric == M_HOST_SHMEM;
}

/* The facts of the run: one field per row of facts.def. */
struct facts {
#define F_INT(name)             struct maybe name;
#define F_TEXT(name)            char *name; /* NULL: unknown; owned by the job */
#define F(kind, name, sentence) F_##kind(name)
#include "model/facts.def"
#undef F
#undef F_INT
#undef F_TEXT
};

/* The facts' mode of a run whose main process was there before. NULL: unknown, so false. */
static inline bool mode_is_attach(const char *mode)
{
	return mode && strcmp(mode, "attach") == 0;
}

/* A member, living or ended. Borrowed from the job until the next job_apply. */
struct process {
	uint32_t id, parent;
	int32_t pid, ppid;
	uint32_t uid;
	uint64_t start_ns;         /* since boot */
	uint64_t startstack;
	uint64_t born_ns, ended_ns;/* since the run's start: first observed, found to have ended */
	struct maybe rank;         /* in a parallel job below hiwater; unknown: of none */
	bool is_main, ended;
	enum end_how how;          /* if ended */
	bool status_known;
	int32_t status;
	char name[16];
	char *command;
	int64_t rss_bytes, rss_file_bytes; /* at the last sample; 0 once ended */
	int64_t peak_bytes;        /* largest of rss and high-water marks */
	/* peak is the kernel's high-water mark, read when it could not grow any more */
	bool peak_exact;
	int64_t cpu_user_ns, cpu_system_ns; /* its own, without its children */
	int64_t faults_minor, faults_waited;
	int64_t read_bytes, write_bytes;
	int64_t private_bytes, shared_bytes; /* at the last PSS pass */
	bool cpu_known, io_known, split_known;
	/* growth of its anonymous memory from grown_since_ns, which is between a quarter and half of
	 * the run until then, or its birth, to its last sample */
	int64_t grown_bytes;
	uint64_t grown_since_ns;
};

/* A monitored GPU, or a process on one. Borrowed from the job until the next job_apply. */
struct gpu_entity {
	struct birth birth;
	uint64_t born_ns, ended_ns;
	bool ended;
	bool energy_is_summed;     /* its energy is the integral of power: a note about gpu.energy says so */
};

/* Work done on the GPUs on which the job uses memory, as shares of time. */
enum gpu_work {
	GPU_WORK_BUSY,             /* at least one kernel ran */
	GPU_WORK_SM,               /* an SM had a resident warp, mean over the SMs */
	GPU_WORK_COUNT
};

/* Increases between two values, of which a phase gets the part during which it was open. */
enum phase_part {
	PART_BUSY = GPU_WORK_BUSY, /* ppm x ns */
	PART_SM = GPU_WORK_SM,
	PART_CPU_ENERGY,           /* uJ */
	PART_GPU_ENERGY,
	PART_COUNT
};

/* Use during a phase, sampled, up to its last sample. Energy and work are assumed to be even
 * between two values when the start or end of the phase divides that interval. */
struct phase_use {
	/* device memory that the job used, over all devices; bytes */
	struct maybe gpu_before, gpu_peak, gpu_after;
	struct maybe work[GPU_WORK_COUNT];            /* means; ppm */
	/* of the CPU packages and of the devices, system-wide; unknown if less than half of the
	 * phase is covered by values */
	struct maybe cpu_energy_uj, gpu_energy_uj;
	struct maybe job_peak;                        /* RAM of the whole job at one instant; bytes */
	struct maybe cpu_ns;                          /* CPU time of the whole job */
	struct maybe cpu_before_ns;                   /* live: the run's CPU time at its start */
	struct {
		double sum;
		/* time of the phase covered by values so far; over all devices */
		uint64_t span_ns;
	} parts[PART_COUNT];                          /* live */
};

/* A phase, open or closed. */
struct phase {
	uint32_t number, parent;
	char *name, *facts;        /* facts: lines of KEY=VALUE; "": none */
	uint64_t begin_ns, end_ns; /* end 0: open */
	/* of the main process (bytes), sampled unless its high-water mark was reset */
	int64_t ram_before, ram_peak, ram_after;
	bool ram_known, peak_exact;
	struct phase_use use;
	bool settled;              /* live: it ended, and no further reading will change it */
	/* live, while open: the main process's high-water mark was reset when it began */
	bool hwm_reset;
};

struct series {
	char *name;
	uint64_t n;
	double first, last, min, max;
	double sum;                /* without NaN */
	bool has_step;
	int64_t last_step;
	struct minima minima;      /* only for some series (minima_wanted) */
};

struct job_config {
	/* of struct machine: the most that one anonymous fault may map, huge pages excepted */
	uint64_t page_bytes, fault_page_bytes;
	uint64_t huge_page_bytes;
	uint64_t machine_bytes, rss_error_bytes; /* of struct machine */
	bool ours;                 /* hiwater started the job */
	bool everyone;             /* all processes of the machine: there are no totals */
	/* ended processes kept by name; smaller ones beyond it count only in totals. 0: 500 */
	uint64_t max_processes;
};

struct job;

/* Values of the fact pinned. */
enum {
	JOB_PINNED_BY_HAND = 1,
	JOB_PINNED_BY_TRIGGER = 2
};

struct job *job_new(const struct job_config *config); /* NULL: out of memory */
void job_free(struct job *job);

/* Facts may be set by any module. job_set_text copies a string and frees the old one. */
struct facts *job_facts(struct job *job);
const struct facts *job_facts_const(const struct job *job);
int job_set_text(char **field, const char *text);
/* The exit code of the main process as in a shell: its exit status, 128 + signal, or 124 if a
 * limit ended it. */
struct maybe job_exit_code(const struct facts *facts);

/* The parts of a merged job of several ranks; NULL: the job was recorded as a whole. _take_ takes them over. */
const struct parts *job_parts(const struct job *job);
struct parts *job_edit_parts(struct job *job);
void job_take_parts(struct job *job, struct parts *parts);

/* Applies a frame. Returns 0, or -ENOMEM after applying as much as possible. */
int job_apply(struct job *job, const struct frame *frame);

/* Values that the totals need and that were not read yet: the sampler reads them and calls
 * job_apply, then job_total. */
enum job_need {
	NEED_FAULTS = 1 << 0,  /* faults of all members and the count of huge pages: PROCESSES_CPU */
	NEED_PSS = 1 << 1,     /* a PSS pass would change a result */
	/* the maps would: files were mapped since processes_files that may be shared */
	NEED_FILES = 1 << 2,
	NEED_HWM = 1 << 4,   /* high-water marks of all members would: PROCESSES_HWM */
	/* the machine's mapped memory would, read before and after the members' sizes */
	NEED_MACHINE = 1 << 3,
};
unsigned job_needs(struct job *job);
/* True if the faults of all members were read since the last total. */
bool job_has_faults(const struct job *job);

/* Appends the totals over the living members at this instant to out, as values of ENTITY_JOB. */
void job_total(struct job *job, uint64_t time_ns, struct framebuf *out);

/* One process of a PSS pass, in addition to its values: the anonymous part of its PSS;
 * negative: unknown. */
void job_pss(struct job *job, uint32_t id, int64_t pss, int64_t anon, int64_t private);

/* The differences between a PSS pass and the sample before it. */
struct pss_drift {
	int64_t moved;             /* largest error of its sum: memory that changed during the pass */
	/* growth of all members and of the main process from the sample to the start of the pass */
	int64_t grown, grown_main;
};

/* The result of a valid or invalid PSS pass whose values were just applied; of
 * processes_files. */
void job_pss_done(struct job *job, struct pss_drift drift, bool valid);
void job_files_done(struct job *job, uint64_t most, uint64_t likely);
/* Memory mapped by all processes of the machine, read before and after the sizes of a sample. */
void job_machine(struct job *job, int64_t bytes);
/* The upper bound of the file and shared memory of process id that it may map more than once, in
 * bytes. */
void job_mapped_twice(struct job *job, uint32_t id, uint64_t bytes);

/* Ends the run: closes open phases and computes peaks and methods from the facts. May be called
 * more than once. Totals that this raises (a peak known only from an exit record) are appended
 * to out, to be applied and stored. */
void job_end(struct job *job, uint64_t time_ns, struct framebuf *out);

/* Removes user, host, commands, paths and process names, for reports that are shown to others. */
void job_redact(struct job *job);

/* ---- reading it ------------------------------------------------------------------------------ */

/* The accumulator of a metric of host, job (id 0), a GPU or a process on one; NULL if it was
 * never known. */
const struct acc *job_acc(const struct job *job, enum metric metric, uint32_t id);
/* The timeline; NULL if the metric has none or was never known. */
const struct timeline *job_timeline(const struct job *job, enum metric metric, uint32_t id);
/* width of each bucket; 0: there are none */
uint64_t job_timeline_span(const struct job *job);
size_t job_process_count(const struct job *job);                  /* of those kept */
const struct process *job_process(const struct job *job, size_t i);
/* The first of those born after id. Ids are stable; indices change when ended processes are
 * dropped. */
size_t job_process_behind(const struct job *job, uint32_t id);
const struct process *job_process_by_id(const struct job *job, uint32_t id);
const struct process *job_main(const struct job *job);            /* NULL before its birth */
size_t job_alive(const struct job *job);
size_t job_gpu_count(const struct job *job);
const struct gpu_entity *job_gpu(const struct job *job, size_t i);
/* "GPU 0"; "MIG 0.2" for an instance, or "MIG" if it has no number. As in hiwater gpus. */
char *job_gpu_name(const struct job *job, const struct gpu_birth *gpu, char buf[UNITS_LEN]);
/* Of the facts that a list of UUIDs has the GPU, or the one that it is an instance of. Unknown: no scheduler said which GPUs it
 * allocated. */
struct maybe gpu_is_allocated(const struct facts *f, const struct gpu_birth *gpu);
/* Adds the variables by which the scheduler selects the GPUs of a further rank on the node ("NAME=VALUE;NAME=VALUE"). Returns 0 or -errno. */
int job_select_gpus(struct job *job, const char *selection);
/* False for a GPU that the scheduler did not allocate to the job and on which no process of the job was seen: its figures are
 * recorded, and are none of the job's. A divided GPU counts if one of its instances does. */
bool job_gpu_counts(const struct job *job, const struct birth *gpu);
bool job_gpu_id_counts(const struct job *job, uint32_t id); /* true for a GPU without a birth */
size_t job_gpus_counted(const struct job *job);
/* True if device is the GPU gpu or one of its instances. */
bool job_gpu_is_on(const struct job *job, uint32_t device, uint32_t gpu);
/* True if instances of it are monitored: the job's work on this GPU is done on them. */
bool job_gpu_is_divided(const struct job *job, uint32_t gpu);
/* Energy in microjoules that a GPU used: from the device's counter (*ret_counted), else power
 * integrated over time. */
struct maybe job_gpu_energy(const struct job *job, uint32_t id, bool *ret_counted);
/* True if the driver reported no memory of a process of the job (rest: of its descendants, main:
 * the main process) on the GPU (0: any), or listed no process when the GPU's memory grew. The
 * job's known GPU memory is then incomplete. */
bool job_gpu_unreported(const struct job *job, uint32_t gpu, bool main, bool descendants);

/* The reason why a job has no GPUs, so far. */
enum gpu_absence {
	GPUS_MAYBE,        /* unknown: notes of an old recording may have the reason */
	GPUS_UNWANTED,     /* --gpu=none */
	GPUS_REFUSED,      /* facts.gpu_why */
	GPUS_HELPER_ENDED, /* a driver ended the process that reads GPUs */
	GPUS_SILENT,       /* a driver does not respond, which a note says */
	GPUS_NOT_QUERIED,  /* no source has answered yet */
	GPUS_UNREADABLE,   /* there are GPUs, but no source can read them */
	GPUS_NONE_HERE,
	GPU_ABSENCES
};
enum gpu_absence job_gpu_absence(const struct job *job);
/* The memory of a GPU at its peak beyond the peaks of all known users: it was allocated while
 * the processes were not listed (lists may be expensive, or fail), so it may be the job's, whose
 * known part is held_bytes. 0: not significant. *ret_ns: the time in which the memory was known
 * but its users were not. */
int64_t job_gpu_unlisted(
	const struct job *job, const struct birth *gpu, int64_t held_bytes, uint64_t *ret_ns);
/* The part of a GPU's presence during which the job's use of it was unknown; 0: not significant.
 * *ret_ns: the time of presence. */
uint64_t job_gpu_unqueried(const struct job *job, const struct gpu_entity *gpu, uint64_t *ret_ns);
/* True if lists had a process with a meaningless pid (in a container with an old driver), which
 * may be the job's. */
bool job_gpu_had_hidden_pids(const struct job *job, uint32_t gpu);
/* Memory that was allocated on the GPU in this run and belongs to no visible process, while
 * hiwater is in a PID namespace of its own and no list had a process of the job: the driver may
 * hide it. 0: none, or not significant. */
int64_t job_gpu_hidden(const struct job *job, uint32_t gpu);
/* True if the job's listed memory on the GPU is zero but this is uncertain: there were such
 * unknown or hidden processes; memory was allocated while no list was read, either much or for
 * long; or no list was read for a good part of the run. */
bool job_gpu_is_unsure(const struct job *job, const struct gpu_entity *gpu);
/* The driver's high-water mark of a process on a GPU (a birth of job_gpu_process); unknown without
 * accounting. It counts from the start of the process. *ret_of_run: the process started in this
 * run, or the mark rose in it, so that it is the peak in this run; else it is an upper bound. */
struct maybe job_gpu_hwm(const struct job *job, const struct birth *b, bool *ret_of_run);
/* True if the process on a GPU is the main process (main), or another one (rest). */
bool job_gpu_is_of(const struct job *job, const struct birth *b, bool main, bool descendants);
/* The peak of the job's GPU memory in a phase; unknown instead of 0 where the job's is
 * (job_gpu_unreported). */
struct maybe job_phase_gpu_peak(const struct job *job, const struct phase *phase);
struct maybe job_gpus_energy(const struct job *job);              /* sum over those with a value */
size_t job_gpu_process_count(const struct job *job);              /* on all GPUs, members or not */
const struct gpu_entity *job_gpu_process(const struct job *job, size_t i);
/* Call at the start or end of a phase that a frame has just reported, live: the main process's
 * high-water mark was read at this instant and, at a start, reset (VmHWM, clear_refs). A peak
 * between two such calls is exact. */
void job_phase_edge(struct job *job, uint32_t number);

size_t job_phase_count(const struct job *job);
const struct phase *job_phase(const struct job *job, size_t i);   /* a parent comes before its children */
/* NULL: it has no parent */
const struct phase *job_phase_parent(const struct job *job, const struct phase *phase);
unsigned job_phase_depth(const struct job *job, const struct phase *phase); /* 0: no parent; at most 8 */
bool series_is_bytes(const char *name); /* "torch/gpu0/allocated_bytes" */
bool series_is_seconds(const char *name); /* "load_seconds", and the times below: "train/data_wait" */

/* Series in which training loops log the seconds of a step. */
enum series_time {
	SERIES_WAIT, /* time waiting for data: "data_wait" */
	SERIES_STEP, /* whole step: "step_time", "step_s" */
};
/* NULL, or the rest of the name: "", "/rank0" */
const char *series_time(const char *name, enum series_time time);
size_t job_series_count(const struct job *job);
const struct series *job_series(const struct job *job, size_t i);
int64_t job_oom_events(const struct job *job);                    /* number of OOM events */
/* A user's mark. */
struct mark {
	uint64_t time_ns;
	char *text;
};

enum {
	MARKS_KEPT = 50 /* the newest marks, which a summary lists and thinning keeps */
};

/* at most MARKS_KEPT; the total is the fact marks_seen */
size_t job_mark_count(const struct job *job);
const struct mark *job_mark(const struct job *job, size_t i);     /* in the order in which they were set */
size_t job_event_count(const struct job *job);                    /* the last 1000 are kept */
const struct event *job_event(const struct job *job, size_t i);
uint64_t job_now(const struct job *job);                          /* time of the last frame */

/* ---- for the summary ------------------------------------------------------------------------- */

enum {
	/* bytes: the most of a file that one fault maps (fault_around_bytes), unless pages are
	 * larger */
	FAULT_AROUND = 65536,
};

/* The largest value that hiwater itself may have caused in the main process's ru_maxrss. */
int64_t image_before_exec(const struct facts *f);

/* True if the counters of another process include those of p. Orphans are reaped by hiwater, and
 * processes still running by none. */
static inline bool process_is_in_another(const struct process *p)
{
	return !p->is_main && p->ended && p->how != END_REAPED && p->how != END_LEFT;
}

/* ---- storing: the recording's tables summary, process, meta ---------------------------------- */

/* Calls see for each accumulator with n > 0 of host, job, GPUs and processes on them. */
void job_each_acc(const struct job *job,
	void (*see)(void *ctx, enum metric metric, uint32_t id, const struct acc *acc), void *ctx);
/* The number of frames applied so far. Calls see for each bucket of a timeline that changed
 * since then (0: all). */
uint64_t job_seq(const struct job *job);
void job_each_bucket(const struct job *job, uint64_t since_seq,
	void (*see)(void *ctx, const struct timeline *timeline, unsigned place), void *ctx);
/* Restore stored values. Each returns 0 or -ENOMEM. Events and phases are restored by applying
 * their frames; job_restore_phase then adds the values that these events do not contain. */
int job_restore_acc(struct job *job, enum metric metric, uint32_t id, const struct acc *acc);
int job_restore_bucket(struct job *job, enum metric metric, uint32_t id, uint64_t time_ns, uint64_t span_ns,
	const struct timeline_bucket *bucket);
int job_restore_process(struct job *job, const struct process *process);
int job_restore_series(struct job *job, const struct series *series);
int job_restore_phase(struct job *job, const struct phase *phase);

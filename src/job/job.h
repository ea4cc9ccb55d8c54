/* SPDX-License-Identifier: MIT
 *
 * The job: its processes, totals, peaks. It comes into being in one way only, by applying frames; live and from a
 * recording alike. Totals over processes are made on live frames (job_total) and are frames themselves; from a
 * recording they are applied as they come and folded processes are never added up.
 *
 * Live, for every frame of a source:   job_apply(job, frame), show it to the others
 *       after each frame of processes: job_total(job, now, out), job_apply(job, totals), show it to the others
 *
 * Threads: one at a time. The job keeps no pointer into a frame.
 */
#pragma once

#include "base/buf.h"
#include "base/maybe.h"
#include "base/units.h"
#include "model/framebuf.h"
#include "model/frame.h"
#include "job/course.h"
#include "job/lows.h"

/* What accumulates of one metric of one entity over the whole run. All of it is stored, so that show can go on from
 * there; sums are doubles because bytes times nanoseconds overflow 64 bits. */
struct acc {
	uint64_t n;          /* looks; 0: never had */
	int64_t min, max;    /* gauge: extremes; counter: first and last value */
	uint64_t max_at_ns;  /* when max was first reached */
	int64_t last;
	uint64_t last_at_ns;
	uint64_t hold_ns;    /* how long last may stand */
	double sum;          /* gauge: integral of value over time, value x ns */
	uint64_t span_ns;    /* gauge: time that sum covers; mean = sum / span_ns. counter: from its first reading to its last */
	uint64_t unlisted_ns; /* of a GPU's memory: time in which it was known and what the job held of it was not */
};

/* What is known of the run besides its metrics: one field a row of facts.def. */
struct facts {
#define F_INT(name)             struct maybe name;
#define F_TEXT(name)            char *name; /* NULL: unknown; owned by the job */
#define F(kind, name, sentence) F_##kind(name)
#include "model/facts.def"
#undef F
#undef F_INT
#undef F_TEXT
};

/* A member, living or ended. Borrowed from the job until the next job_apply. */
struct process {
	uint32_t id, parent;
	int32_t pid, ppid;
	uint32_t uid;
	uint64_t start_ns;         /* since boot */
	uint64_t startstack;
	uint64_t born_ns, ended_ns;/* since the run's start: first seen, found gone */
	bool is_main, ended;
	enum end_how how;          /* if ended */
	bool status_known;
	int32_t status;
	char name[16];
	char *command;
	int64_t rss_bytes, rss_file_bytes; /* last look; 0 once ended */
	int64_t peak_bytes;        /* largest of rss and marks */
	bool peak_exact;           /* peak is the kernel's own mark, read when nothing could grow any more */
	int64_t cpu_user_ns, cpu_system_ns; /* its own; children apart */
	int64_t faults_minor, faults_waited;
	int64_t read_bytes, write_bytes;
	int64_t private_bytes, shared_bytes; /* last PSS pass */
	bool cpu_known, io_known, split_known;
	int64_t grown_bytes;       /* by how much its anonymous memory was larger at its last look than at grown_since_ns, */
	uint64_t grown_since_ns;   /* which lies between a quarter and half of the run until then, or at its birth */
};

/* A GPU that was watched, or a process on one. Borrowed from the job until the next job_apply. */
struct gpu_entity {
	struct birth birth;
	uint64_t born_ns, ended_ns;
	bool ended;
	bool energy_is_summed;     /* its energy is power over time: a note about gpu.energy says so */
};

/* What was worked on the GPUs that the job holds memory on: a share over time. */
enum gpu_work {
	GPU_WORK_BUSY,             /* some kernel ran */
	GPU_WORK_SM,               /* an SM had a warp resident, mean over the SMs */
	GPU_WORK_COUNT
};

/* What is added up of the time between two readings, by the part of it in which a phase was open. */
enum phase_part {
	PART_BUSY = GPU_WORK_BUSY, /* ppm x ns */
	PART_SM = GPU_WORK_SM,
	PART_CPU_ENERGY,           /* uJ */
	PART_GPU_ENERGY,
	PART_COUNT
};

/* What was used while a phase was open, up to the last look at it: sampled. Energy and work between two readings are taken
 * to be even, so what an edge of the phase cuts off is right as far as they were. */
struct phase_use {
	struct maybe gpu_before, gpu_peak, gpu_after; /* device memory that the job held, over all devices; bytes */
	struct maybe work[GPU_WORK_COUNT];            /* means; ppm */
	struct maybe cpu_energy_uj, gpu_energy_uj;    /* of the packages, of the devices, whoever used them; unknown where less
	                                               * than half of the phase lay between readings */
	struct maybe job_peak;                        /* RAM of the whole job at one instant; bytes */
	struct maybe cpu_ns;                          /* processor time of the whole job */
	struct maybe cpu_before_ns;                   /* live: of the run, when it began */
	struct {
		double sum;
		uint64_t span_ns;                     /* of the phase, so far, that readings tell of; over all devices */
	} parts[PART_COUNT];                          /* live */
};

/* A phase, open or closed. */
struct phase {
	uint32_t number, parent;
	char *name, *facts;        /* facts: lines of KEY=VALUE; "": none */
	uint64_t begin_ns, end_ns; /* end 0: open */
	int64_t ram_before, ram_peak, ram_after; /* of main (bytes), sampled unless its mark was reset */
	bool ram_known, peak_exact;
	struct phase_use use;
	bool settled;              /* live: it ended, and no reading will tell more of it */
	bool mark_reset;           /* live, while it is open: main's mark told of nothing older when it began */
};

struct series {
	char *name;
	uint64_t n;
	double first, last, min, max;
	double sum;                /* of the values that are numbers */
	bool has_step;
	int64_t last_step;
	struct lows lows;          /* of some (lows_wanted) */
};

struct job_config {
	uint64_t page_bytes, fault_page_bytes; /* of struct machine: what one anonymous fault may bring at most, huge pages apart */
	uint64_t huge_page_bytes;
	uint64_t machine_bytes, rss_error_bytes; /* likewise */
	bool ours;                 /* hiwater started the job */
	bool everyone;             /* all processes of the machine: there are no totals */
	uint64_t max_processes;    /* ended processes kept by name; smaller ones beyond it are in sums alone. 0: 500 */
};

struct job;

/* The fact pinned. */
enum {
	JOB_PINNED_BY_HAND = 1,
	JOB_PINNED_BY_TRIGGER = 2
};

struct job *job_new(const struct job_config *config); /* NULL: out of memory */
void job_free(struct job *job);

/* Facts may be set by whoever learns them. Strings are taken over with free/strdup through job_set_text. */
struct facts *job_facts(struct job *job);
const struct facts *job_facts_const(const struct job *job);
int job_set_text(char **field, const char *text);
/* How main ended, as a shell has it: its exit status, 128 + signal, 124 where a limit ended it. */
struct maybe job_exit_code(const struct facts *facts);

/* Applies a frame. Returns 0 or -ENOMEM (what could be applied was). */
int job_apply(struct job *job, const struct frame *frame);

/* What the totals need that has not been read yet: the sampler reads it and calls job_apply, then job_total. */
enum job_need {
	NEED_FAULTS = 1 << 0,  /* faults of all members and the count of huge pages: PROCESSES_CPU */
	NEED_PSS = 1 << 1,     /* a PSS pass would change an answer */
	NEED_FILES = 1 << 2,   /* so would maps: files were mapped since processes_files that may be the same ones */
	NEED_HWM = 1 << 4,   /* so would high-water marks of all members: PROCESSES_MARKS */
	NEED_MACHINE = 1 << 3, /* so would what the whole machine has mapped, read before and after the members' sizes */
};
unsigned job_needs(struct job *job);
/* Has memory, or have faults, of a member changed since the last total, or did a member come or leave? */
bool job_is_moving(struct job *job);
/* Were the faults of all members read since the last total? */
bool job_has_faults(const struct job *job);

/* The totals of this instant over the living members, as readings of ENTITY_JOB, into out. */
void job_total(struct job *job, uint64_t time_ns, struct framebuf *out);

/* Of one process in a PSS pass, beside the readings of it: the anonymous part of its PSS; negative: unknown. */
void job_pss(struct job *job, uint32_t id, int64_t pss, int64_t anon, int64_t private);

/* How a PSS pass differs from one instant, that of the sample before it. */
struct pss_drift {
	int64_t moved;             /* its sum is off by so much at most: what changed while it went round */
	int64_t grown, grown_main; /* what all and what main had grown by, since the sample, when it began */
};

/* Result of a valid or spoilt PSS pass whose readings were applied just before; of processes_files. */
void job_pss_done(struct job *job, struct pss_drift drift, bool valid);
void job_files_done(struct job *job, uint64_t most, uint64_t likely);
/* What all processes of the machine map: read twice, before and after the sizes of a sample. */
void job_machine(struct job *job, int64_t bytes);
/* Of what id has of files and shared memory, so many bytes may be pages that it maps more than once. */
void job_mapped_twice(struct job *job, uint32_t id, uint64_t bytes);

/* The run is over: what is still open is closed, peaks and methods are settled from the facts. More than once is
 * fine. Totals that this raises (a peak known only from the exit record) are put into out, to be applied and stored. */
void job_end(struct job *job, uint64_t time_ns, struct framebuf *out);

/* Takes out user, host, commands, paths and the names of processes, for who shows it to others. */
void job_redact(struct job *job);

/* ---- looking at it ------------------------------------------------------------------------------------------------ */

/* The accumulated metric of host, job (id 0), a GPU or a process on one; NULL if it was never read. */
const struct acc *job_acc(const struct job *job, enum metric metric, uint32_t id);
/* How it went; NULL if it is not followed or was never read. */
const struct course *job_course(const struct job *job, enum metric metric, uint32_t id);
uint64_t job_course_span(const struct job *job);                  /* of each bucket; 0: there are none */
size_t job_process_count(const struct job *job);                  /* those kept */
const struct process *job_process(const struct job *job, size_t i);
/* The first of those born behind id, which ids tell; places do not: they change when ended ones are dropped. */
size_t job_process_behind(const struct job *job, uint32_t id);
const struct process *job_process_by_id(const struct job *job, uint32_t id);
const struct process *job_main(const struct job *job);            /* NULL before its birth */
size_t job_alive(const struct job *job);
size_t job_gpu_count(const struct job *job);
const struct gpu_entity *job_gpu(const struct job *job, size_t i);
/* "GPU 0"; "MIG 0.2" of an instance, or "MIG" where it has no number. As hiwater gpus has it. */
char *job_gpu_name(const struct job *job, const struct gpu_birth *gpu, char buf[UNITS_LEN]);
/* Is a device that GPU, or one of its instances? */
bool job_gpu_is_on(const struct job *job, uint32_t device, uint32_t gpu);
/* Has it instances that are watched? What the job does there, it does on them. */
bool job_gpu_is_divided(const struct job *job, uint32_t gpu);
/* Energy in microjoules that a GPU used: of the device's counter (*ret_counted), else power over time. */
struct maybe job_gpu_energy(const struct job *job, uint32_t id, bool *ret_counted);
/* Was a process of the job (rest: of its descendants, main: main) on the GPU (0: any), of whose memory there the driver told
 * nothing? Or was nobody listed there when its memory came? What the job is said to hold without that is no figure. */
bool job_gpu_untold(const struct job *job, uint32_t gpu, bool main, bool rest);

/* Why a job has no GPUs, so far. */
enum gpu_absence {
	GPUS_MAYBE,        /* nobody knows: notes of an old recording may say it */
	GPUS_UNWANTED,     /* --gpu=none */
	GPUS_REFUSED,      /* facts.gpu_why */
	GPUS_HELPER_ENDED, /* whoever asks was ended by a driver */
	GPUS_SILENT,       /* a driver has not answered, which a note says */
	GPUS_UNASKED,      /* none has answered yet */
	GPUS_UNREADABLE,   /* there are some, and nobody to ask */
	GPUS_NONE_HERE,
	GPU_ABSENCES
};
enum gpu_absence job_gpu_absence(const struct job *job);
/* What a GPU held at its peak beyond the peaks of all who are known to have held something came while its processes were not
 * listed (lists may be dear, or fail), and may have been the job's, who is known to have held held_bytes. 0: that is not worth
 * a word. *ret_ns: for how long memory was told and whose it is was not. */
int64_t job_gpu_unlisted(const struct job *job, const struct birth *gpu, int64_t held_bytes, uint64_t *ret_ns);
/* For how long of the time for which a GPU was there nobody said what the job held on it; 0: that is not worth a word. *ret_ns: of
 * how long. */
uint64_t job_gpu_unasked(const struct job *job, const struct gpu_entity *gpu, uint64_t *ret_ns);
/* Did lists have somebody there whose number means nothing here (a container, and an old driver), so that it may be the job's? */
bool job_gpu_had_strangers(const struct job *job, uint32_t gpu);
/* Did the job hold nothing there as far as it was listed, and nobody knows whether that held on: beside such a stranger; while
 * memory came, so much that it is somebody's whenever it was there, or for long; or for a good part of the run, in which nobody
 * was listed? */
bool job_gpu_is_unsure(const struct job *job, const struct gpu_entity *gpu);
/* Is a process on a GPU main, or of the rest of the job, or either? */
bool job_gpu_is_of(const struct job *job, const struct birth *b, bool main, bool rest);
struct maybe job_gpus_energy(const struct job *job);              /* of all that tell it; unknown where none does */
size_t job_gpu_process_count(const struct job *job);              /* on all of them, whoever's they are */
const struct gpu_entity *job_gpu_process(const struct job *job, size_t i);
/* At the edge of a phase that a frame has just told of, live: main's mark was read at this instant and, where the phase
 * begins, set back to what is resident then (VmHWM, clear_refs). A peak between two such edges is exact. */
void job_phase_edge(struct job *job, uint32_t number);

size_t job_phase_count(const struct job *job);
const struct phase *job_phase(const struct job *job, size_t i);   /* a parent stands before its children */
const struct phase *job_phase_parent(const struct job *job, const struct phase *phase); /* phase is job's; NULL: it has none */
unsigned job_phase_depth(const struct job *job, const struct phase *phase); /* 0: it has no parent; 8 at most */
bool series_is_bytes(const char *name); /* so called: "torch/gpu0/allocated_bytes" */
bool series_is_seconds(const char *name); /* "load_seconds", and the times below as a part of it: "train/data_wait" */

/* What loops log of the seconds of a step. */
enum series_time {
	SERIES_WAIT, /* in which it waited for data: "data_wait" */
	SERIES_STEP, /* all of it: "step_time", "step_s" */
};
const char *series_time(const char *name, enum series_time time); /* NULL, or what follows: "", "/rank0" */
size_t job_series_count(const struct job *job);
const struct series *job_series(const struct job *job, size_t i);
int64_t job_oom_events(const struct job *job);                    /* how many there were */
/* A mark that the job set. */
struct mark {
	uint64_t time_ns;
	char *text;
};

enum {
	MARKS_KEPT = 50 /* the last of them: what a summary tells, and what thinning leaves */
};

size_t job_mark_count(const struct job *job);                     /* MARKS_KEPT at most; all: the fact marks_seen */
const struct mark *job_mark(const struct job *job, size_t i);     /* in the order in which they were set */
size_t job_event_count(const struct job *job);                    /* the last 1000 are kept */
const struct event *job_event(const struct job *job, size_t i);
uint64_t job_now(const struct job *job);                          /* time of the last frame */

/* ---- for who makes answers of it ----------------------------------------------------------------------------------- */

enum {
	FAULT_AROUND = 65536,    /* bytes: the most that a fault maps of a file (fault_around_bytes), where pages are no larger */
};

/* The largest that hiwater itself can have been in main's ru_maxrss. */
int64_t image_before_exec(const struct facts *f);

/* Do another's counters come to have its own? Orphans are waited for by hiwater, and who lives on by nobody. */
static inline bool process_is_in_another(const struct process *p)
{
	return !p->is_main && p->ended && p->how != END_REAPED && p->how != END_LEFT;
}

/* ---- storing it: the recording's summary, process, meta tables ---------------------------------------------------- */

/* Calls see for each accumulator with n > 0 of host, job, GPUs and processes on them. */
void job_each_acc(const struct job *job, void (*see)(void *ctx, enum metric metric, uint32_t id, const struct acc *acc), void *ctx);
/* Frames applied so far. Calls see for each bucket of a course that changed since then (0: all). */
uint64_t job_seq(const struct job *job);
void job_each_bucket(const struct job *job, uint64_t since_seq,
	void (*see)(void *ctx, const struct course *course, unsigned place), void *ctx);
/* Puts back what was stored. Each returns 0 or -ENOMEM. Events come back by applying their frames, phases too; then
 * job_restore_phase adds what the events of their edges do not say. */
int job_restore_acc(struct job *job, enum metric metric, uint32_t id, const struct acc *acc);
int job_restore_bucket(struct job *job, enum metric metric, uint32_t id, uint64_t time_ns, uint64_t span_ns,
	const struct course_bucket *bucket);
int job_restore_process(struct job *job, const struct process *process);
int job_restore_series(struct job *job, const struct series *series);
int job_restore_phase(struct job *job, const struct phase *phase);

/* SPDX-License-Identifier: MIT
 *
 * A frame: what one source read at one time. The only record that crosses folders: sources make frames, the job is
 * made by applying them, the recording stores them and gives them back, rules and sinks see nothing else.
 *
 * Live, a gauge's reading has n = 1 and min = value = max, except where the kernel's own mark proves a burst between
 * two looks (then max is above value), or the driver's samples since the last look (then min, value and max are theirs). From a recording the same reading is a folded window: min, mean over time, max
 * and the number of looks. Whoever applies frames must not need to know which of the two it was given.
 *
 * Ownership: a frame borrows everything it points to. What a callback is given is valid until the callback returns.
 * Threads: a frame belongs to one thread at a time; nothing here is shared.
 * tests/unit/model/test_frame.c holds one recorded example of each kind (readings, births, ends, events, series, a slow
 * source) and fails when this file changes their meaning: the format is frozen.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/maybe.h"
#include "model/metric.h"

/* Who made a frame. Sources tick at their own rates; a stale source sends nothing. */
enum frame_source {
	FRAME_PROCFS,   /* members of the job: memory, CPU, I/O, births and ends */
	FRAME_HOST,     /* the machine: meminfo, stat, vmstat, diskstats, net, pressure, energy */
	FRAME_CGROUP,   /* the job's cgroup */
	FRAME_TASKSTATS,/* exit records of the kernel */
	FRAME_TOTALS,   /* the job's own totals over its processes */
	FRAME_USER,     /* marks, phases and series that the job or its user pushed */
	FRAME_RECORDER, /* hiwater itself: gaps, alerts, notes */
	FRAME_NVML,
	FRAME_DCGM,
	FRAME_AMDGPU,
	FRAME_DRM,
	FRAME_SOURCE_COUNT,
};

/* One metric of one entity. 48 bytes. */
struct reading {
	uint32_t id;      /* host, job: 0 (host: 1 + core); else the id that a birth gave */
	uint16_t metric;  /* enum metric; says the entity's kind too */
	bool known;       /* false: it was looked for and could not be had; values are 0 and mean nothing */
	uint32_t n;       /* looks folded into this; 1 live */
	int64_t value;    /* gauge: mean over time; counter and mark: the last value. In the metric's unit */
	int64_t min, max; /* gauge: extremes; counter and mark: equal to value */
	uint64_t span_ns; /* from a recording: time that value is the mean of; 0 live */
};

#define STARTSTACK_HIDDEN (UINT64_C(1) << 63) /* no stack of a program lies there */

/* A process that was first seen in the job. (pid, start_ns) is its identity; id is short for it in this run. */
struct process_birth {
	int32_t pid, ppid;
	uint32_t parent;         /* id of the parent where it is a member, else 0 */
	uint32_t uid;
	uint64_t start_ns;       /* since boot: procfs stat field 22; resolution of a clock tick */
	uint64_t startstack;     /* procfs stat field 28: equal among forks, changed by exec; 0 = none. Where it is hidden, a number
	                          * of STARTSTACK_HIDDEN and more stands for it, as far as names tell that */
	const char *name;        /* procfs comm, at most 15 bytes, any bytes */
	const char *command;     /* arguments joined by spaces, secrets masked; "" if none could be read */
	bool is_main;
};

/* A GPU that is watched, or a MIG instance, which is a device of its own. uuid is its identity. */
struct gpu_birth {
	const char *uuid, *name;
	const char *vendor;      /* "nvidia", "amd", "intel"; "" if it is none that we know */
	const char *pci;         /* "0000:3b:00.0" as sysfs has it; "" if it has none */
	const char *parent;      /* of a MIG instance: uuid of the GPU that it is part of; else "" */
	const char *driver;      /* version, as the driver says it; "" if it does not */
	struct maybe gpu_instance; /* of a MIG instance: those of one parent and one of these share their memory */
	struct maybe index;      /* the driver's */
	struct maybe cuda_index; /* what CUDA calls it in an environment that selects nothing, in PCI order */
	struct maybe memory_bytes;
	bool unified;            /* it shares the host's memory: mem is what its visible processes hold, added up, and
	                          * memory_bytes the machine's */
	bool is_module;          /* power and energy are those of the module, processors included */
};

/* A process that was first seen on a GPU. */
struct gpu_process_birth {
	uint32_t gpu;            /* id of the GPU */
	uint32_t process;        /* id of the member; 0 = not of this job */
	struct maybe pid;        /* as the driver says it, in this pid namespace; unknown = unattributed */
	struct maybe uid;        /* whose it is; unknown: it cannot be seen here */
	const char *name;        /* procfs comm; "" likewise */
	bool compute, graphics;  /* what it was listed for */
};

/* An entity comes into being. ids of one entity kind start at 1, only grow and are never used again in a run. A second
 * birth of a known id of a process updates its name, command, uid and startstack (it ran another program or took
 * another name) and nothing else; one of a GPU its memory_bytes and whether that is the host's, which a driver could not tell at first. */
struct birth {
	enum entity entity;
	uint32_t id;
	union {
		struct process_birth process;
		struct gpu_birth gpu;
		struct gpu_process_birth gpu_process;
	};
};

/* What the kernel counts of a process's I/O (proc_pid_io(5)). */
struct io_facts {
	struct maybe read_bytes, write_bytes, write_cancelled; /* storage */
	struct maybe read_chars, write_chars;                  /* calls */
};

/* How the facts of an end were learnt. */
enum end_how {
	END_SEEN,      /* it was found gone: facts are those of the last look */
	END_REAPED,    /* hiwater waited for it: status and rusage are the kernel's, of it and its waited-for children */
	END_TASKSTATS, /* the kernel's exit record: its own, exact */
	END_LEFT,      /* the run ended, it lives on */
};

/* Whose program ran in an ended process. A copy of its parent's memory is gone with the first exec. */
enum end_program {
	PROGRAM_UNKNOWN,
	PROGRAM_OF_PARENT, /* it was forked and ran no other */
	PROGRAM_OWN,       /* it has called exec since */
};

/* An entity is gone. A second end of the same id only adds facts (a reaping and an exit record). */
struct end {
	enum entity entity;
	uint32_t id;
	enum end_how how;
	bool status_known;
	int32_t status;          /* as waitpid gives it */
	struct maybe hwm_bytes;     /* largest rss of its last program */
	struct maybe maxrss_bytes;  /* ru_maxrss: an upper bound of hwm (other programs before exec, children) */
	struct maybe cpu_user_ns, cpu_system_ns; /* END_REAPED: children that it waited for included */
	struct maybe faults_minor;  /* likewise */
	struct maybe faults_waited; /* minor faults of the children that it waited for (a zombie's stat field 11) */
	struct maybe faults_major;  /* of a zombie: its own */
	struct io_facts io;         /* of the children that it waited for, too; END_TASKSTATS: its own, at least */
	char name[16];              /* END_TASKSTATS: what it was called at its end; "": unknown */
	enum end_program program;   /* likewise */
	uint64_t from_ns, until_ns; /* likewise: it lived in this span of the run, at most; until 0: unknown */
};

enum event_kind {
	EVENT_MARK,
	EVENT_PHASE_BEGIN,
	EVENT_PHASE_END,
	EVENT_ALERT,       /* raised; text is the rule and what it saw */
	EVENT_CLEARED,
	EVENT_OOM,         /* the kernel killed for lack of memory; id is the victim if it is known, text its name then */
	EVENT_GAP,         /* nothing was read for a while (suspension, a stopped recorder); value_ns long */
	EVENT_NOTE,        /* something could not be had from here on; about: text up to the first ':' */
	EVENT_TRIGGER,
	EVENT_EXEC,        /* a member runs another program from here on; text is its new name */
	EVENT_KIND_COUNT,
};

/* Who tells nothing because of what a note says, whatever its words: what is missing of them needs no second reason. */
enum note_cause {
	CAUSE_NONE,
	CAUSE_DEVICE,       /* nobody lists who is on the device id, or not all of them */
	CAUSE_NVML,         /* a driver, of all devices that it reads */
	CAUSE_AMDGPU,
	CAUSE_DRM,
	CAUSE_HELPER,       /* whoever asks the drivers, of all devices */
	CAUSE_HELPER_ENDED, /* likewise; and before it had told of a device, maybe */
	CAUSE_UNKNOWN,      /* a recording does not say it: then nothing follows from what is missing */
	CAUSE_COUNT,
};

/* Something that happened at an instant. */
struct event {
	uint64_t time_ns;        /* since the run's start */
	enum event_kind kind;
	enum entity entity;      /* what it is about; ENTITY_JOB where nothing narrower is known */
	uint32_t id;
	uint32_t phase;          /* PHASE_*: number of the phase, from 1, nested ones too; else 0 */
	int64_t value_ns;        /* GAP: how long; else 0 */
	const char *text;        /* UTF-8 or any bytes, never NULL */
	enum note_cause cause;   /* of a NOTE */
};

/* One value of a series that the user pushed. */
struct series_value {
	const char *name;
	double value;            /* NaN and infinities are allowed */
	bool has_step;
	int64_t step;
};

/* Lists may be empty; then the pointer may be NULL. */
struct frame {
	uint64_t time_ns;        /* CLOCK_BOOTTIME since the run's start; frames of one run never go back */
	uint64_t hold_ns;        /* how long a gauge read here may stand for its metric if nothing newer comes: three
	                          * periods of the source. Longer silence is a gap, not a level */
	uint64_t told_ns;        /* of what GPUs' drivers tell: when they had answered; 0: nobody says */
	enum frame_source source;
	bool live;               /* false: it comes from a recording and holds folded windows */
	size_t n_births, n_ends, n_readings, n_events, n_series;
	const struct birth *births;   /* applied first */
	const struct reading *readings;
	const struct end *ends;       /* then these */
	const struct event *events;
	const struct series_value *series;
};

/* Whoever is interested. Must not keep what frame points to, must not block. */
typedef void frame_seer(void *ctx, const struct frame *frame);

/* "phase-begin", "reaped": as recordings and exports have them; and back, -1 for a text that is none. */
const char *event_name(enum event_kind kind);
const char *how_name(enum end_how how);
int event_find(const char *name);
int how_find(const char *name);
/* "helper-ended"; NULL for one that is unknown, which is what it is where there is no such text. */
const char *cause_name(enum note_cause cause);
enum note_cause cause_find(const char *name);

/* Does its text name a process? */
bool event_is_private(const struct event *event);

/* Is it a note of which the text begins with about and a colon: "gpu.energy"? */
bool note_is_about(const struct event *event, const char *about);

/* Is it a processor for neural networks alone? It has memory, clients and engines like a GPU, and is none. */
bool gpu_is_npu(const struct gpu_birth *gpu);

/* A live reading of a value that was had. */
static inline struct reading reading_of(enum metric metric, uint32_t id, int64_t value)
{
	return (struct reading) {
		.id = id,
		.metric = (uint16_t) metric,
		.known = true,
		.n = 1,
		.value = value,
		.min = value,
		.max = value,
	};
}

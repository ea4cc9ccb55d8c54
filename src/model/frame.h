/* SPDX-License-Identifier: MIT
 *
 * A frame: the values that one source read at one time. It is the only record that modules
 * exchange: sources make frames, the job is built by applying them, the recording stores them and
 * returns them, and rules and sinks see nothing else.
 *
 * Live, a gauge's reading has n = 1 and min = value = max, unless the kernel's high-water mark
 * proves a burst between two samples (then max is above value) or the driver took samples of its
 * own in the interval (then min, value and max are theirs). From a recording, a reading is an
 * aggregated window: min, mean over time, max and the number of samples. Code that applies frames
 * must not depend on which of the two it is.
 *
 * Ownership: a frame borrows everything it points to. A frame passed to a callback is valid until
 * the callback returns. Threads: a frame belongs to one thread at a time; nothing here is shared.
 * tests/unit/model/test_frame.c contains one recorded example of each kind (readings, births, ends,
 * events, series, a slow source) and fails when this file changes their meaning: the format is
 * frozen.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/maybe.h"
#include "model/metric.h"

/* The source of a frame. Sources have their own periods; a source without new values sends
 * nothing. */
enum frame_source {
	FRAME_PROCFS,   /* members of the job: memory, CPU, I/O, births and ends */
	FRAME_HOST,     /* the machine: meminfo, stat, vmstat, diskstats, net, pressure, energy */
	FRAME_CGROUP,   /* the job's cgroup */
	FRAME_TASKSTATS,/* exit records of the kernel */
	FRAME_TOTALS,   /* the job's own totals over its processes */
	FRAME_USER,     /* user marks, phases and series */
	FRAME_RECORDER, /* hiwater itself: gaps, alerts, notes */
	FRAME_NVML,
	FRAME_DCGM,
	FRAME_AMDGPU,
	FRAME_DRM,
	FRAME_SOURCE_COUNT,
};

/* One metric of one entity. 48 bytes. */
struct reading {
	uint32_t id;      /* host, job: 0 (host: 1 + core); else the id from its birth */
	uint16_t metric;  /* enum metric, which also determines the entity */
	bool known;       /* false: it was read, but is not available; the values are 0 */
	uint32_t n;       /* number of samples aggregated; 1 live */
	int64_t value;    /* gauge: mean over time; else the last value. In the metric's unit */
	int64_t min, max; /* gauge: extremes; else equal to value */
	/* a mean: over this time, which follows the frame's time in a recording and precedes it live; 0: a value of
	 * the moment, valid until the next */
	uint64_t span_ns;
};

#define STARTSTACK_HIDDEN (UINT64_C(1) << 63) /* no program's stack has such an address */

/* A process observed in the job for the first time. (pid, start_ns) is its identity; id stands
 * for it in this run. */
struct process_birth {
	int32_t pid, ppid;
	uint32_t parent;         /* id of the parent if it is a member, else 0 */
	uint32_t uid;
	uint64_t start_ns;       /* since boot: procfs stat field 22; resolution of a clock tick */
	/* procfs stat field 28: equal among forks, changed by exec; 0: none. If it is hidden, a
	 * number from STARTSTACK_HIDDEN on, derived from the name */
	uint64_t startstack;
	const char *name;        /* procfs comm, at most 15 bytes, any bytes */
	const char *command;     /* arguments joined by spaces, secrets masked; "" if unreadable */
	bool is_main;
	/* number in a parallel job whose launcher is below hiwater, and how many the launcher started; descendants have
	 * their parent's. Unknown: it is of no rank. ranks: live frames only */
	struct maybe rank, ranks;
};

/* A monitored GPU, or a MIG instance, which counts as a device. uuid is its identity. */
struct gpu_birth {
	const char *uuid, *name;
	const char *vendor;      /* "nvidia", "amd", "intel"; "" for others */
	const char *pci;         /* "0000:3b:00.0" as in sysfs; "" if it has none */
	const char *parent;      /* uuid of a MIG instance's GPU; else "" */
	const char *driver;      /* version reported by the driver; "" if there is none */
	/* of a MIG instance: instances of one GPU with equal numbers share memory */
	struct maybe gpu_instance;
	struct maybe index;      /* the driver's index */
	struct maybe cuda_index; /* CUDA's index, in PCI order and without a selection */
	struct maybe memory_bytes;
	/* it shares the host's memory: mem is the sum over its visible processes, memory_bytes
	 * the machine's */
	bool unified;
	bool is_module;          /* power and energy are those of the whole module, CPUs included */
	/* its memory is a NUMA node of the host: the kernel may keep memory of ended processes in
	 * use, and give it to programs that use no GPU */
	bool is_numa;
	struct maybe power_span_ns; /* its power is the mean of this time; 0: momentary */
};

/* A process observed on a GPU for the first time. */
struct gpu_process_birth {
	uint32_t gpu;            /* id of the GPU */
	uint32_t process;        /* id of the member; 0 = not of this job */
	struct maybe pid;        /* as the driver reports it, in this pid namespace; unknown: unattributed */
	struct maybe uid;        /* its user; unknown if not visible */
	const char *name;        /* procfs comm; "" if unknown */
	bool compute, graphics;  /* the lists that contain it */
};

/* An entity appears. The ids of each entity type start at 1, increase, and are never reused in a
 * run. A second birth of a known process id updates its name, command, uid, rank and startstack (it
 * executed another program or changed its name) and nothing else; one of a GPU updates
 * memory_bytes and unified, which a driver may report late. */
struct birth {
	enum entity entity;
	uint32_t id;
	union {
		struct process_birth process;
		struct gpu_birth gpu;
		struct gpu_process_birth gpu_process;
	};
};

/* The kernel's I/O counters of a process (proc_pid_io(5)). */
struct io_facts {
	struct maybe read_bytes, write_bytes, write_cancelled; /* storage */
	struct maybe read_chars, write_chars;                  /* calls */
};

/* The source of the facts of an end. */
enum end_how {
	END_SEEN,      /* it was missing: the facts are those of its last sample */
	END_REAPED,    /* hiwater waited for it: status and rusage, including children that it waited for */
	END_TASKSTATS, /* the kernel's exit record: its own values, exact */
	END_LEFT,      /* the run ended, the process is still running */
};

/* The program of an ended process. Memory inherited from its parent ends with the first exec. */
enum end_program {
	PROGRAM_UNKNOWN,
	PROGRAM_OF_PARENT, /* it was forked and executed no other */
	PROGRAM_OWN,       /* it has called exec */
};

/* An entity has ended. A second end of the same id only adds facts (reaping and an exit record). */
struct end {
	enum entity entity;
	uint32_t id;
	enum end_how how;
	bool status_known;
	int32_t status;          /* as waitpid returns it */
	struct maybe hwm_bytes;     /* largest rss of its last program */
	struct maybe vm_bytes;      /* END_TASKSTATS: largest address space of its last program */
	/* ru_maxrss: an upper bound of hwm (other programs before exec, children) */
	struct maybe maxrss_bytes;
	struct maybe cpu_user_ns, cpu_system_ns; /* END_REAPED: including children that it waited for */
	struct maybe faults_minor;  /* END_REAPED: including children that it waited for */
	/* minor faults of the children that it waited for (a zombie's stat field 11) */
	struct maybe faults_waited;
	struct maybe faults_major;  /* from a zombie: its own */
	/* including children that it waited for; END_TASKSTATS: its own, lower bound */
	struct io_facts io;
	char name[16];              /* END_TASKSTATS: its name at its end; "": unknown */
	enum end_program program;   /* END_TASKSTATS */
	uint64_t until_ns;      /* END_TASKSTATS: when its exit record was received; 0: unknown */
};

enum event_kind {
	EVENT_MARK,
	EVENT_PHASE_BEGIN,
	EVENT_PHASE_END,
	EVENT_ALERT,       /* raised; text is the rule and the value */
	EVENT_CLEARED,
	EVENT_OOM,         /* OOM kill; id is the victim if known, text its name then */
	EVENT_GAP,         /* no samples for value_ns; text: "suspended", "stopped" or "busy" */
	/* a value is not available from here on; its name is the text up to the first ':' */
	EVENT_NOTE,
	EVENT_TRIGGER,
	EVENT_EXEC,        /* a member executes another program; text is its new name */
	EVENT_KIND_COUNT,
};

/* The source whose values are missing because of a note, so that no second reason is given for
 * them. */
enum note_cause {
	CAUSE_NONE,
	CAUSE_DEVICE,       /* processes on the device id are not listed, or not all */
	CAUSE_NVML,         /* a driver, for all its devices */
	CAUSE_AMDGPU,
	CAUSE_DRM,
	CAUSE_HELPER,       /* the process that reads GPUs, for all devices */
	CAUSE_HELPER_ENDED, /* the same, possibly before it had reported a device */
	CAUSE_UNKNOWN,      /* not recorded: nothing follows from missing values */
	CAUSE_COUNT,
};

/* Something that happened at an instant. */
struct event {
	uint64_t time_ns;        /* since the run's start */
	enum event_kind kind;
	enum entity entity;      /* its subject; ENTITY_JOB if no other is known */
	uint32_t id;
	uint32_t phase;          /* PHASE_*: number of the phase, from 1, nested ones included; else 0 */
	int64_t value_ns;        /* GAP: its length; else 0 */
	const char *text;        /* UTF-8 or any bytes, never NULL */
	enum note_cause cause;   /* of a NOTE */
};

/* One value of a user series. */
struct series_value {
	const char *name;
	double value;            /* NaN and infinities are allowed */
	bool has_step;
	int64_t step;
};

/* Lists may be empty; then the pointer may be NULL. */
struct frame {
	uint64_t time_ns;        /* CLOCK_BOOTTIME since the run's start; never decreases within a run */
	/* how long a gauge in this frame is valid if no newer value comes: three periods of the
	 * source; a longer silence is a gap */
	uint64_t hold_ns;
	uint64_t answered_ns;    /* frames of GPU drivers: when the driver answered; 0: unknown */
	enum frame_source source;
	bool live;               /* false: it comes from a recording and contains aggregated windows */
	size_t n_births, n_ends, n_readings, n_events, n_series;
	const struct birth *births;   /* applied first */
	const struct reading *readings;
	const struct end *ends;  /* then these */
	const struct event *events;
	const struct series_value *series;
};

/* A callback for frames. It must not keep pointers into the frame and must not block. */
typedef void frame_fn(void *ctx, const struct frame *frame);

/* "phase-begin", "reaped": the names in recordings and exports, and the reverse; -1 for unknown
 * names. */
const char *event_name(enum event_kind kind);
const char *how_name(enum end_how how);
int event_find(const char *name);
int how_find(const char *name);
/* "helper-ended"; NULL for unknown causes. The reverse; CAUSE_UNKNOWN for other texts. */
const char *cause_name(enum note_cause cause);
enum note_cause cause_find(const char *name);

/* True if its text is the name of a process. */
bool event_is_private(const struct event *event);

/* True for a note whose text begins with about and a colon: "gpu.energy". */
bool note_is_about(const struct event *event, const char *about);

/* True for a neural processing unit: it has memory, clients and engines like a GPU, but is not
 * one. */
bool gpu_is_npu(const struct gpu_birth *gpu);

/* A live reading with a known value. */
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

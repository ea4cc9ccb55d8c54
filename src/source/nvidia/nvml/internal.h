/* SPDX-License-Identifier: MIT
 *
 * Shared by the files of the NVML source. nvml.c implements the source and the groups, gpus.c finds
 * devices, rows.c is the table of figures and read.c reads its rows; processes.c, gpm_pairs.c and
 * events.c read in ways of their own.
 *
 * A device is a GPU or a MIG instance. Every call may fail for one device alone, so capabilities
 * are remembered per device, and a lost or sleeping one leaves the others as they are.
 */
#pragma once

#include "source/nvidia/nvml/fields.h"
#include "source/nvidia/nvml/gpm.h"
#include "source/nvidia/nvml/integrals.h"
#include "source/nvidia/nvml/load.h"
#include "source/nvidia/nvml/processes.h"
#include "source/nvidia/nvml/tables.h"
#include "source/source.h"

enum nvml_group {
	NVML_GROUP_MEMORY,
	NVML_GROUP_ACTIVITY,
	NVML_GROUP_COUNTERS,
	NVML_GROUP_RARE,
	NVML_GROUP_PROCESSES,
	NVML_GROUP_GPM,
	NVML_GROUP_EVENTS,
	NVML_GROUPS,
};

enum {
	NVML_MAX_WAYS = 4,    /* of reading one figure */
	NVML_MAX_METRICS = 3, /* read by one call */
	NVML_MAX_ROWS = 32,
	NVML_MAX_DEVICES = 512, /* MIG instances of all reconfigurations included */
};

enum nvml_state {
	NVML_AWAKE,
	NVML_ASLEEP, /* powered down by the kernel: no calls */
	NVML_CLOSED, /* it exists, but this user may not open it */
	NVML_AWAY,   /* lost: retried with a growing delay */
	NVML_ENDED,  /* a MIG instance that no longer exists */
};

/* What was last appended for a metric: unknown is appended only once. */
enum nvml_reported {
	REPORTED_NEVER,
	REPORTED_KNOWN,
	REPORTED_UNKNOWN,
};

/* State of one row of nvml_rows on one device. */
struct nvml_try {
	uint8_t way;   /* index of the way in use */
	bool absent;   /* no way works: not read again */
	int code;      /* of the last call; if absent, the most informative code of all ways */
	int refusal;   /* code by which a way is refused to this user; else NVML_SUCCESS */
};

/* Notes already sent about a row: each once per card, however often it sleeps or is lost. */
struct nvml_notes {
	bool way;    /* the note of the way in use */
	bool error;    /* an unspecified error */
	bool unavailable; /* values became unavailable */
	bool divided; /* not reported for a divided GPU */
};

/* Impossible values of a metric, and what replaces them. */
enum nvml_rejected {
	NVML_REJECTED_FIGURE,  /* left out */
	NVML_REJECTED_ROW,     /* of a process: the whole row is left out */
	NVML_REJECTED
};

/* A driver's counter: the last value read, and the sum of values before its resets. */
struct nvml_counter {
	int64_t last, before;
};

struct nvml_gpu {
	uint32_t id; /* 0: no birth appended yet */
	enum nvml_state state;
	void *handle;
	struct nvml_gpu *parent; /* of a MIG instance; else NULL */
	unsigned index, gpu_instance, compute_instance;
	char uuid[NVML_NAME], name[NVML_NAME];
	char pci[32];  /* "0000:3b:00.0", as in sysfs; "" unknown */
	char bus_id[32]; /* as NVML writes it */
	bool mig;      /* divided: its instances are read where they support it */
	bool unified;  /* its memory is the host's */
	bool is_duplicate; /* has another GPU's UUID: identified by PCI address */
	bool is_module;
	bool is_numa;  /* its memory is a NUMA node of the host */
	struct maybe power_span_ns; /* its power is the mean of this time; 0: momentary */
	struct maybe memory_bytes, memory_reported; /* in total; as its birth reported it */
	bool may_sleep;    /* the kernel powers it down when unused */
	bool state_noted;  /* asleep, closed or away */
	bool refusal_noted; /* some values are refused to this user */
	bool list_noted[NVML_LISTS]; /* the list failed */
	bool use_noted;     /* the samples of processes failed */
	bool silence_noted; /* memory of processes is not reported */
	uint64_t retry_ns, wait_ns; /* AWAY: next retry, and its delay */
	uint64_t awake_ns; /* since when it answers */
	int lost_code;

	struct nvml_try tries[NVML_MAX_ROWS];
	struct nvml_notes notes[NVML_MAX_ROWS];
	enum nvml_reported reported[METRIC_COUNT];
	uint8_t rejected[METRIC_COUNT], rejected_noted[METRIC_COUNT]; /* bits of NVML_REJECTED_* */
	bool no_value[METRIC_COUNT], no_value_noted[METRIC_COUNT]; /* the first answer had no value */
	struct nvml_counter counters[METRIC_COUNT];
	struct nvml_fields fields;
	struct nvml_reasons reasons;
	struct nvml_thermal thermal;
	struct nvml_power power;
	struct nvml_gpm gpm;

	struct maybe mem;  /* as its group last read it, at mem_ns; 0: not yet */
	struct maybe mem_free, mem_reserved;
	uint64_t mem_ns;
	struct nvml_processes processes;
	uint64_t xids;
	bool has_events; /* registered for Xids */
	int event_code;  /* why not */
	bool found;        /* an instance: found by the scan in progress */
};

struct source {
	struct nvml nvml;
	const struct source_env *env;
	struct nvml_gpu **gpus;
	size_t n_gpus, cap_gpus;
	uint32_t last_id, last_process_id;
	uint64_t now_ns; /* of this read, CLOCK_BOOTTIME */
	uint64_t n_reads;
	bool is_wsl;
	bool rescan;     /* MIG instances may have changed */
	uint64_t checked_ns;
	uint64_t retry_first_ns; /* first delay before a lost GPU is retried */
	uint64_t run_wall_us;    /* wall clock at the run's start; UINT64_MAX: no run */
	bool pids_mean_nothing; /* an old driver in a container reports the host's pids */
	struct nvml_room room;
	uint64_t idle_ns;       /* how long a list stays valid while memory does not move */
	void *event_set;
	bool events_stale; /* a device returned: register again */
	int event_code;
	struct nvml_gpm_metrics *gpm_metrics;
};

/* The calls that follow concern d, or the GPU that it is a part of; NULL: no particular GPU. */
static inline void nvml_turn_to(const struct source *s, const struct nvml_gpu *d)
{
	const struct nvml_gpu *gpu = d && d->parent ? d->parent : d;

	driver_call_device(s->env, gpu ? known(gpu->index) : UNKNOWN);
}

/* ---- gpus.c ---------------------------------------------------------------------------------- */

/* Finds the devices. Returns 0, -EIO, -ENODEV or -ENOMEM with text. */
int nvml_gpus_find(struct source *s, struct err *err);
/* Checks for devices that fell asleep, woke or were divided anew; appends births, ends and
 * notes. */
void nvml_gpus_check(struct source *s, struct framebuf *out);
/* Retries lost devices whose delay is over. */
void nvml_gpus_retry(struct source *s, struct framebuf *out);
/* d is lost according to code: appends unknown once for its metrics, and a note. */
void nvml_gpu_lost(struct source *s, struct nvml_gpu *d, int code, struct framebuf *out);
void nvml_gpus_free(struct source *s);
/* Whole GPUs that are read: without MIG instances, and those that sleep or are lost. */
unsigned nvml_gpus_count(const struct source *s);
/* Adds a device, zeroed; NULL: out of memory. */
struct nvml_gpu *nvml_gpu_add(struct source *s);

/* ---- identity.c ------------------------------------------------------------------------------ */

/* Reads what does not change of a device with a handle: name, UUID, PCI address, total memory.
 * Returns NVML's code. */
int nvml_identify(struct source *s, struct nvml_gpu *d);
/* Sets the total memory from a call's result. */
void nvml_set_total(struct nvml_gpu *d, int code, uint64_t total);
/* Appends the births of devices that have none yet, parents first; and a second one if the total
 * memory became known or changed. */
void nvml_append_births(struct source *s, struct framebuf *out);
/* While devices are found, before any birth: publishes the devices known so far, with the note that
 * applies if the driver never returns from the next call, which concerns the device queried (NULL:
 * no call follows). The client uses that frame if the helper hangs or crashes. */
void nvml_publish_found(struct source *s, const struct nvml_gpu *queried, const char *note);

/* ---- gpus.c, sleeping GPUs ------------------------------------------------------------------- */

/* NVIDIA's GPUs as sysfs lists them. Returns their number; at most n are stored. */
struct nvml_pci_gpu {
	char id[16]; /* "0000:3b:00.0" */
	bool asleep, may_sleep;
};
size_t nvml_pci_list(const struct root *root, struct nvml_pci_gpu *ret, size_t n);
/* The same for one; false: no such GPU. */
bool nvml_pci_read(const struct root *root, const char *id, struct nvml_pci_gpu *ret);

/* ---- gpus.c, MIG instances ------------------------------------------------------------------- */

/* Finds the instances of d; those that no longer exist end. */
void nvml_instances_find(struct source *s, struct nvml_gpu *d, struct framebuf *out);

/* ---- read.c ---------------------------------------------------------------------------------- */

/* Appends a metric of d: a value always, unknown once. */
void nvml_append(struct nvml_gpu *d, struct framebuf *out, const struct reading *reading);
void nvml_append_value(struct nvml_gpu *d, struct framebuf *out, enum metric metric, struct maybe value);
void nvml_note(struct source *s, const struct nvml_gpu *d, struct framebuf *out, const char *about,
	enum note_cause cause, const char *text);
/* Marks a value of d as impossible; nvml_note_rejected notes each metric and kind once. */
void nvml_reject(struct nvml_gpu *d, enum metric metric, enum nvml_rejected kind);
void nvml_note_rejected(
	struct source *s, struct nvml_gpu *d, const enum metric *rejected, size_t n, struct framebuf *out);
/* Marks that d's first answer had no value; nvml_note_no_value notes them together, each once: "GPM
 * returns no value for ...". */
void nvml_mark_no_value(struct nvml_gpu *d, enum metric metric);
void nvml_note_no_value(struct source *s, struct nvml_gpu *d, const char *who, struct framebuf *out);
/* Publishes what was read so far, before a call about the next group or device, in which the driver
 * may hang or crash. */
void nvml_publish(struct source *s, const struct framebuf *out);
/* Reads the rows of the groups whose bits are set, and, without a read budget, the lists of
 * processes: one device and its instances completely before the next, so that its values are
 * published even if the next one hangs. */
void nvml_read_devices(struct source *s, unsigned what, struct framebuf *out);
/* For calls outside of rows: handles codes of lost devices and stale handles. Returns the meaning
 * of the code. */
enum nvml_meaning nvml_handle_code(struct source *s, struct nvml_gpu *d, int code, struct framebuf *out);

/* ---- events.c -------------------------------------------------------------------------------- */

/* Registers for Xids; reads the pending ones, without waiting. */
void nvml_events_open(struct source *s);
void nvml_events_read(struct source *s, struct framebuf *out);
void nvml_events_close(struct source *s);

/* ---- facts.c --------------------------------------------------------------------------------- */

void nvml_facts(struct source *s, const struct gpu_fact_set *wanted, source_fact_fn *report, void *ctx);

/* ---- probe.c --------------------------------------------------------------------------------- */

void nvml_probe(const struct source_env *env, source_probe_fn *report, void *ctx);

/* ---- rows.c ---------------------------------------------------------------------------------- */

/* Fills the readings of a row, which are unknown before; r[i] is for metrics[i]. Returns NVML's
 * code. */
typedef int nvml_reader(struct source *s, struct nvml_gpu *d, struct reading *r);

/* Figures read together. The first way that the device supports is used. */
struct nvml_row {
	enum nvml_group group;
	bool of_instance; /* a MIG instance supports it */
	enum metric metrics[NVML_MAX_METRICS];
	unsigned n;
	int64_t most; /* upper bound, in the metric's unit; larger values are left out; 0: none */
	struct {
		nvml_reader *read;
		const char *how;
		const char *note; /* NULL, or a note if this way is used: "about: text" */
	} ways[NVML_MAX_WAYS];
};

extern const struct nvml_row nvml_rows[];
extern const size_t nvml_n_rows;
/* The row of metric; NULL: none. */
const struct nvml_row *nvml_row_of(enum metric metric);

#define NVML_WITHHELD "NVIDIA's driver does not report it for a GPU divided by MIG"

/* Does NVML document the metric as not supported for a GPU divided by MIG? */
bool nvml_is_withheld(const struct nvml_gpu *d, enum metric metric, int code);

/* Sets r to value times scale; it stays unknown on overflow. */
void nvml_set(struct reading *r, uint64_t value, uint64_t scale);

/* hiwater's own codes that a reader may return. */
enum {
	NVML_ELSEWHERE = -1, /* another group reports it: append nothing */
};

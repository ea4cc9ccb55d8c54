/* SPDX-License-Identifier: MIT
 *
 * What the files of the NVML source share. nvml.c is the source, gpus.c finds devices, rows.c says what is
 * read and read.c how, processes.c, nvml_gpm.c and events.c have ways of their own.
 *
 * A device is a GPU or a MIG instance. Every call may fail for one device alone: what it gave is remembered per device,
 * and one that is lost or asleep keeps the others as they are.
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
	NVML_GROUP_STATE,
	NVML_GROUP_PROCESSES,
	NVML_GROUP_GPM,
	NVML_GROUP_RARE,
	NVML_GROUP_EVENTS,
	NVML_GROUPS,
};

enum {
	NVML_MAX_WAYS = 4,    /* of reading one figure */
	NVML_MAX_METRICS = 3, /* that one call gives */
	NVML_MAX_ROWS = 32,
	NVML_MAX_DEVICES = 512, /* MIG instances of all reconfigurations included */
};

enum nvml_state {
	NVML_AWAKE,
	NVML_ASLEEP, /* the kernel has powered it down: nothing is asked */
	NVML_CLOSED, /* it exists, we may not open it */
	NVML_AWAY,   /* lost: asked again rarely */
	NVML_ENDED,  /* a MIG instance that is no more */
};

/* What was last told of a metric: unknown is said once. */
enum nvml_told {
	TOLD_NEVER,
	TOLD_KNOWN,
	TOLD_UNKNOWN,
};

/* How far one row of nvml_rows has got on one device. */
struct nvml_try {
	uint8_t way;   /* the one in use */
	bool absent;   /* no way is left: not asked again */
	int code;      /* what the last call answered; where none is left, what matters of all answers */
	int refusal;   /* a way is closed to this user by that code; NVML_SUCCESS: none is */
};

/* What of a row was told: of one card each once, however often it sleeps or is lost and asked anew. */
struct nvml_notes {
	bool way;    /* the note of the way in use */
	bool odd;    /* an error that says nothing */
	bool ceased; /* that figures which were had are missing */
	bool divided; /* that they are of no GPU that is divided */
};

/* What of a metric was given and cannot be so. */
enum nvml_refused {
	NVML_REFUSED_FIGURE,  /* it is left out */
	NVML_REFUSED_SAMPLES, /* of the time since the last look: the value of the moment is told */
	NVML_REFUSED_ROW,     /* of a process: what else the row says is not believed, either */
	NVML_REFUSED
};

/* A counter of the driver, as it was last read, and what it had counted before it began again. */
struct nvml_counter {
	int64_t last, before;
};

struct nvml_gpu {
	uint32_t id; /* 0: not born yet */
	enum nvml_state state;
	void *handle;
	struct nvml_gpu *parent; /* of a MIG instance; NULL */
	unsigned index, gpu_instance, compute_instance;
	char uuid[NVML_NAME], name[NVML_NAME];
	char pci[32];  /* "0000:3b:00.0", as sysfs has it; "" unknown */
	char bus_id[32]; /* as NVML has it */
	bool mig;      /* it is divided: its instances are asked for what they can tell */
	bool unified;  /* its memory is the host's */
	bool is_double; /* it has the UUID of another, and is known by its place */
	bool is_module;
	struct maybe memory_bytes, memory_told; /* in all; as its birth had it */
	bool may_sleep;    /* the kernel powers it down when nobody uses it */
	bool state_noted;  /* it was told that it is asleep, closed or away */
	bool refusal_noted; /* that this user may not have all of its figures */
	bool list_noted[NVML_LISTS]; /* that it failed */
	bool use_noted;     /* that its samples of processes failed */
	bool silence_noted; /* that nobody says what who is on it holds */
	uint64_t retry_ns, wait_ns; /* AWAY: when to ask again, and how long that is from the last answer */
	uint64_t awake_ns; /* since when it answers */
	int lost_code;

	struct nvml_try tries[NVML_MAX_ROWS];
	struct nvml_notes notes[NVML_MAX_ROWS];
	enum nvml_told told[METRIC_COUNT];
	uint8_t refused[METRIC_COUNT], refused_noted[METRIC_COUNT]; /* bits of NVML_REFUSED_* */
	bool bare[METRIC_COUNT], bare_noted[METRIC_COUNT]; /* the first answer had no figure */
	struct nvml_counter counters[METRIC_COUNT];
	struct nvml_fields fields;
	struct nvml_reasons reasons;
	struct nvml_power power;
	uint64_t samples_seen_us[NVML_SAMPLES]; /* by NVML_SAMPLES_*: the newest that was told, wall clock */
	bool samples_absent[NVML_SAMPLES];
	struct nvml_gpm gpm;

	struct maybe mem;  /* as its group has read it last, at mem_ns; 0: not yet */
	struct maybe mem_free, mem_reserved;
	uint64_t mem_ns;
	struct nvml_processes processes;
	uint64_t xids;
	bool has_events; /* Xids reach the event set */
	int event_code;  /* why not */
	bool met;        /* an instance: it was found at the last look for them */
};

struct source {
	struct nvml nvml;
	const struct source_env *env;
	struct nvml_gpu **gpus;
	size_t n_gpus, cap_gpus;
	uint32_t last_id, last_process_id;
	uint64_t now_ns; /* of this look, CLOCK_BOOTTIME */
	uint64_t look;
	bool is_wsl;
	bool rescan;     /* MIG instances may have changed */
	uint64_t checked_ns;
	uint64_t retry_first_ns; /* how long a GPU that is lost is left alone at first */
	bool pids_mean_nothing; /* an old driver tells a container the pids of the host */
	struct nvml_room room;
	uint64_t rest_ns;       /* how long a list stands where memory does not move */
	void *event_set;
	bool events_stale; /* a device came back */
	int event_code;
	struct nvml_gpm_metrics *gpm_metrics;
};

/* The calls from here on are about d, or the GPU that it is a part of; NULL: about none. */
static inline void nvml_turn_to(const struct source *s, const struct nvml_gpu *d)
{
	const struct nvml_gpu *gpu = d && d->parent ? d->parent : d;

	asked_turn_to(s->env, gpu ? known(gpu->index) : UNKNOWN);
}

/* ---- gpus.c ---------------------------------------------------------------------------------------------------- */

/* Finds the devices. Returns 0, -ENODEV or -ENOMEM with text. */
int nvml_gpus_find(struct source *s, struct err *err);
/* Looks after devices that are asleep or divided anew; births, ends and notes go to out. */
void nvml_gpus_check(struct source *s, struct framebuf *out);
/* Asks those that are lost whose time has come. */
void nvml_gpus_retry(struct source *s, struct framebuf *out);
/* d answered code, which means that it is lost: unknown readings once, a note, then silence. */
void nvml_gpu_lost(struct source *s, struct nvml_gpu *d, int code, struct framebuf *out);
void nvml_gpus_free(struct source *s);
/* A device more, all zero; NULL without memory. */
struct nvml_gpu *nvml_gpu_add(struct source *s);

/* ---- identity.c ------------------------------------------------------------------------------------------------ */

/* Reads what does not change of a device with a handle: name, uuid, place, memory. Returns NVML's code. */
int nvml_identify(struct source *s, struct nvml_gpu *d);
/* What a call for its memory says of how much there is in all. */
void nvml_set_total(struct nvml_gpu *d, int code, uint64_t total);
/* Births of all devices that have none yet, parents first; a second one of those whose memory is only known now, or another. */
void nvml_tell_births(struct source *s, struct framebuf *out);
/* While devices are found, which nothing was told of yet: shows those that have answered, and that the driver is asked about
 * one of them (NULL: about none), with the note that stands if it does not answer, to whoever may have to do without. */
void nvml_show_so_far(struct source *s, const struct nvml_gpu *asked, const char *note);

/* ---- gpus.c, sleeping GPUs --------------------------------------------------------------------------------------------------- */

/* NVIDIA's GPUs as sysfs lists them. Returns how many there are; at most n are stored. */
struct nvml_pci_gpu {
	char id[16]; /* "0000:3b:00.0" */
	bool asleep, may_sleep;
};
size_t nvml_pci_list(const struct root *root, struct nvml_pci_gpu *ret, size_t n);
/* The same of one; false if there is none. */
bool nvml_pci_look(const struct root *root, const char *id, struct nvml_pci_gpu *ret);

/* ---- gpus.c, MIG instances ----------------------------------------------------------------------------------------------- */

/* Finds the instances of d; those that are gone end. */
void nvml_instances_find(struct source *s, struct nvml_gpu *d, struct framebuf *out);

/* ---- read.c ---------------------------------------------------------------------------------------------------- */

/* Tells of a metric of d: a value always, unknown once. */
void nvml_tell(struct nvml_gpu *d, struct framebuf *out, const struct reading *reading);
void nvml_tell_value(struct nvml_gpu *d, struct framebuf *out, enum metric metric, struct maybe value);
void nvml_note(struct source *s, const struct nvml_gpu *d, struct framebuf *out, const char *about, enum note_cause cause,
	const char *text);
/* A figure that d gave cannot be so; and the notes on all that were refused since, of each metric and kind once. */
void nvml_refuse(struct nvml_gpu *d, enum metric metric, enum nvml_refused kind);
void nvml_note_refused(struct source *s, struct nvml_gpu *d, const enum metric *refused, size_t n, struct framebuf *out);
/* d's first answer had no figure; and the note on all of them since, each once: "GPM answers without a figure for ...". */
void nvml_bare(struct nvml_gpu *d, enum metric metric);
void nvml_note_bare(struct source *s, struct nvml_gpu *d, const char *who, struct framebuf *out);
/* What was read does not wait for the next group or device, over which the driver may hang or crash. */
void nvml_show(struct source *s, const struct framebuf *out);
/* Reads the groups whose bits are set, as far as they are rows or lists that nobody has to save: all of one device, then all of
 * its instances, before the next one, so that it has what it said. */
void nvml_read_devices(struct source *s, unsigned what, struct framebuf *out);
/* The devices' calls outside of rows: lost and stale ones are dealt with. Returns what the code means. */
enum nvml_meaning nvml_judge(struct source *s, struct nvml_gpu *d, int code, struct framebuf *out);

/* ---- events.c -------------------------------------------------------------------------------------------------- */

/* Registers for Xids; takes what waits, without waiting. */
void nvml_events_open(struct source *s);
void nvml_events_read(struct source *s, struct framebuf *out);
void nvml_events_close(struct source *s);

/* ---- facts.c --------------------------------------------------------------------------------------------------- */

void nvml_facts(struct source *s, const struct gpu_fact_set *wanted, source_fact_teller *tell, void *ctx);

/* ---- probe.c --------------------------------------------------------------------------------------------------- */

void nvml_probe(const struct source_env *env, source_prober *tell, void *ctx);

/* ---- rows.c ---------------------------------------------------------------------------------------------------- */

/* Fills the readings of a row, which are unknown before; r[i] is for metrics[i]. Returns NVML's code. */
typedef int nvml_reader(struct source *s, struct nvml_gpu *d, struct reading *r);

/* Figures that come together. The first way that the device knows is used. */
struct nvml_row {
	enum nvml_group group;
	bool of_instance; /* a MIG instance can be asked */
	enum metric metrics[NVML_MAX_METRICS];
	unsigned n;
	int64_t most; /* that any of them may be, in its metric's unit: more is left out; 0: no bound is known */
	struct {
		nvml_reader *read;
		const char *how;
		const char *note; /* NULL, or what to tell when this way is the one: "about: text" */
	} ways[NVML_MAX_WAYS];
};

extern const struct nvml_row nvml_rows[];
extern const size_t nvml_n_rows;
/* The row that gives metric; NULL. */
const struct nvml_row *nvml_row_of(enum metric metric);

#define NVML_WITHHELD "NVIDIA's driver does not report it for a GPU divided by MIG"

/* NVML documents it as not supported of a GPU that is divided by MIG. */
bool nvml_is_withheld(const struct nvml_gpu *d, enum metric metric, int code);

/* A value that was had. */
void nvml_set(struct reading *r, uint64_t value, uint64_t scale);

/* Codes of hiwater's own that a reader may return. */
enum {
	NVML_ELSEWHERE = -1, /* another group tells of it: silence */
};

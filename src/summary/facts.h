/* SPDX-License-Identifier: MIT
 *
 * The answers of a summary as an ordered list of facts: label, value, unit, method, words. The full
 * text, its plain form, the line for scripts, the progress line and the tiles of a report render
 * this list; none of them computes or words an answer itself. A fact that does not apply is absent;
 * one that could not be measured has no value, and its words say so.
 *
 * A fact reads "LABEL [at least] VALUE AFTER of WHOLE (PERCENT), MORE METHOD WORDS"; sink/figures.h
 * writes it with units. Texts may contain NB (base/textwidth.h), a blank at which no line breaks.
 *
 * Lists (phases, series, marks, notes, findings) are not facts: they have tables of their own.
 */
#pragma once

#include "base/buf.h"
#include "summary/summary.h"

enum fact_group {
	FACTS_RESULT,
	FACTS_RAM,
	FACTS_WHERE,    /* which functions touched it, of a sampled run */
	FACTS_LARGEST,  /* processes with the largest peaks */
	FACTS_RANKS,    /* of a launcher that hiwater started */
	FACTS_GPU,      /* GPU by GPU; fact.gpu says which */
	FACTS_UNUSED_GPUS,
	FACTS_CPU,
	FACTS_IO,
	FACTS_ENERGY,
	FACTS_WORK,     /* of a traced run */
	FACTS_SAMPLING, /* samples, and hiwater's own cost */
	FACTS_INCIDENT, /* the incident, if there was one */
	FACTS_NOW,      /* the last sample of a running job */
};

enum fact_key {
	FACT_END,
	FACT_CAUSE,     /* of the end; texts have findings for it */
	FACT_WALL,
	FACT_MAIN_ENDED,
	FACT_CPU_TIME,
	FACT_PROCESSES,
	FACT_RANK,
	FACT_SCOPE,     /* not the whole job */
	FACT_NOTE,      /* of -m */
	FACT_RAM_PEAK,
	FACT_RAM_AT,
	FACT_RAM_MEAN,
	FACT_RAM_METHOD,
	FACT_RAM_OTHER, /* main, descendants, swap, cgroup, ... */
	FACT_WHERE,
	FACT_PROCESS,
	FACT_RANK_USE,
	FACT_FABRIC,    /* of the node */
	FACT_GPU_JOB,
	FACT_GPU_DEVICE,
	FACT_GPU_LEAD,  /* the most informative utilisation */
	FACT_GPU_BUSY,
	FACT_GPU_POWER,
	FACT_GPU_TEMP,
	FACT_GPU_OTHER,
	FACT_CPU,
	FACT_IOWAIT,
	FACT_THROTTLED,
	FACT_READ,
	FACT_WRITTEN,
	FACT_CPU_ENERGY,
	FACT_GPU_ENERGY,
	FACT_WORK,
	FACT_SAMPLING,
	FACT_INCIDENT,
	FACT_RAM_NOW,
	FACT_CPU_NOW,
	FACT_GPU_NOW,
	FACT_PROCESSES_NOW,
};

enum fact_unit {
	FACT_WORDS,     /* no number: text, then words */
	FACT_BYTES,
	FACT_BYTES_PER_S,
	FACT_NS,
	FACT_INTERVAL,  /* ns between two samples, as a rate */
	FACT_COUNT,
	FACT_CORES,     /* millionths, as the next */
	FACT_SHARE,
	FACT_UJ,
	FACT_UW,
	FACT_MCEL,
};

struct fact {
	enum fact_group group;
	enum fact_key key;
	const char *label;   /* in a row of its group: "wall"; "": none; NULL: not in rows */
	const char *
		title; /* on a line of its own: "wall time"; NULL: not as a line. Of GPUs: follows the GPU's name */
	enum fact_unit unit;
	struct maybe value;
	bool at_least, at_most;
	const char *after;   /* directly behind the value: "samples" */
	struct maybe of;     /* the whole, in the same unit; */
	const char *of_words, *percent_words; /* its name, "requested"; the base of the percentage */
	bool is_percent_hidden;
	const char *more_before, *more_after; /* a second number, with text around it: ", shared" */
	struct maybe more;
	enum fact_unit more_unit;
	const struct ram_figure *figure;      /* its method and bounds; NULL: method says it */
	enum method method;                   /* METHOD_UNKNOWN: not stated */
	bool has_rate;                        /* the sampling rate follows the method */
	const char *words;                    /* a qualifier, with its punctuation: " (sampled)" */
	bool is_apart;                        /* words are long: a part of their own */
	bool begins_line;
	char *text, *detail;                  /* owned by the list; behind the value. detail: "exit 137" */
	bool is_untrusted;                    /* text may have any bytes: not cleaned yet */
	/* of FACTS_GPU and FACT_GPU_NOW; borrowed from the job, as the next */
	const struct birth *gpu;
	const struct process *process;        /* of FACT_PROCESS */
};

struct fact_list {
	struct fact *facts;
	size_t n;
};

/* The mean time between two samples: the interval, unless more than a fiftieth of the samples were
 * skipped. */
struct maybe facts_reached_interval(const struct facts *facts);

/* Makes the list. Facts borrow from the summary, which must outlive it. Returns 0 or -ENOMEM. */
int facts_make(const struct summary *s, struct fact_list *ret);
void facts_done(struct fact_list *list);
/* facts_work.c: adds those of a traced run, whose GPU memory was gpu_peak by the driver. Returns 0 or -ENOMEM. */
int facts_work(const struct work *work, struct maybe gpu_peak, struct fact_list *list);
/* facts_where.c: adds those of a sampled run. Returns 0 or -ENOMEM. */
int facts_where(const struct touched *touched, struct fact_list *list);
/* The three largest of them, at an incident. */
int facts_where_then(const struct touched *touched, struct fact_list *list);
/* The first fact of that key (of that GPU if gpu is not 0); NULL: none. */
const struct fact *facts_find(const struct fact_list *list, enum fact_key key, uint32_t gpu);

/* ---- shared with other outputs ------------------------------------------------------------------- */

/* How the job ended. */
enum outcome {
	OUTCOME_EXIT,
	OUTCOME_SIGNAL,
	OUTCOME_LIMIT,
	OUTCOME_RAISED, /* an exception left the block or cell: facts->raised */
	OUTCOME_UNSEEN,
	OUTCOME_UNFINISHED
};

struct ending {
	enum outcome outcome;
	/* as a shell reports it: the job's own, 128 + signal, 124; not for RAISED, UNSEEN and
	 * UNFINISHED */
	int code;
	int signal;          /* OUTCOME_SIGNAL */
	bool code_known;
};

struct ending ending_of(const struct summary *s);
/* True if it ended with a status other than 0, by a signal, by a limit or by an exception. */
bool ended_badly(const struct summary *s);

/* "SIGKILL"; "signal 40" (in buf) for one without a name. */
const char *figure_signal(int signal, char buf[UNITS_LEN]);

/* The words after the time of an incident that is out of memory. Static. */
const char *out_of_memory_words(const struct summary *s);

/* True if the incident report says all that the finding does: out of memory is reported once. */
bool finding_is_repeated(const struct summary *s, const struct finding *f);

/* True if the run is a block or a notebook cell of a program; appends "block fit", "cell". Its name may
 * have any bytes. */
bool figure_is_block(const struct facts *f, struct buf *ret_title);

/* True if the run is that of all ranks on a node: they have no exit status of their own. */
bool figure_is_node(const struct facts *f);
/* Appends "node n1, 4 ranks". */
void figure_node(const struct facts *f, struct buf *out);

/* True if the measurement continued well beyond the end of main. */
bool figure_outlived(const struct summary *s);

/* The amount that RAM is compared with: the request, a limit, or the capacity of the machine. */
struct ceiling {
	struct maybe bytes;
	const char *words; /* "requested", "limit", "on this machine", "on its nodes" */
};

struct ceiling ceiling_of(const struct summary *s);

/* Cores available to the job: its CPUs, or its quota if that is smaller. Millionths. */
struct maybe figure_cores(const struct facts *f);

/* The processes of the job, largest peak first. The caller frees *ret with free(); NULL if there
 * are none. Returns 0 or -ENOMEM. */
int figure_processes(const struct job *job, const struct process ***ret, size_t *ret_n);

enum {
	FIGURE_THROTTLES = 4
};
/* Reasons why a GPU's clocks are throttled, in words. */
struct figure_throttle {
	enum metric metric; /* time for which this reason throttled them */
	const char *words;
};
extern const struct figure_throttle figure_throttles[FIGURE_THROTTLES];

/* True if the summary mentions GPUs, if only why they could not be read; false where there are
 * none. */
bool figure_has_gpus(const struct summary *s);
/* True if the job used memory on the GPU, or may have. */
bool figure_gpu_used(const struct summary *s, uint32_t id);
/* True if the job used no memory on the GPU and there are many GPUs, or others that it used. Such a
 * GPU has no chart. */
bool figure_gpu_unused(const struct summary *s, uint32_t id);
/* The name of a utilisation: "SM active", "busy". */
const char *figure_gpu_lead(enum metric lead);

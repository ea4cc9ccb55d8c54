/* SPDX-License-Identifier: MIT
 *
 * The answers of a summary, one by one, in the order in which people are shown them. The full text, its plain form, the line
 * for scripts, the progress line and the tiles of a report all render this list; none of them computes or words an answer of its
 * own. A fact that does not apply is not in the list; one that should be there and could not be measured has no value, and its
 * words say so.
 *
 * A fact reads "LABEL [at least] VALUE AFTER of WHOLE (PERCENT), MORE METHOD WORDS"; sink/fact_words.h writes that with units.
 * Texts may hold NB (base/textwidth.h), a blank at which no line is broken.
 *
 * Lists (phases, series, marks, notes, findings) are no facts: they have tables of their own.
 */
#pragma once

#include "summary/summary.h"

enum fact_group {
	FACTS_RESULT,
	FACTS_RAM,
	FACTS_LARGEST,  /* processes with the largest peaks */
	FACTS_GPU,      /* one after the other, by fact.gpu */
	FACTS_UNUSED_GPUS,
	FACTS_CPU,
	FACTS_IO,
	FACTS_ENERGY,
	FACTS_SAMPLING, /* what hiwater did, and what it cost */
	FACTS_STORY,    /* what went wrong, if something did */
	FACTS_NOW,      /* the last sample, for a run that goes on */
};

enum fact_key {
	FACT_END,
	FACT_CAUSE,     /* of its end; findings say more of it in texts */
	FACT_WALL,
	FACT_MAIN_ENDED,
	FACT_CPU_TIME,
	FACT_PROCESSES,
	FACT_RANK,
	FACT_RAM_PEAK,
	FACT_RAM_AT,
	FACT_RAM_MEAN,
	FACT_RAM_METHOD,
	FACT_RAM_OTHER, /* main's, the descendants', swap, cgroup, ... */
	FACT_PROCESS,
	FACT_GPU_JOB,
	FACT_GPU_DEVICE,
	FACT_GPU_LEAD,  /* the utilisation that says most */
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
	FACT_SAMPLING,
	FACT_STORY,
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
	const char *label;   /* in a row of its group: "wall"; "" none; NULL: not shown there */
	const char *title;   /* on a line of its own: "wall time"; NULL: not shown there. Of GPUs: behind the GPU's name */
	enum fact_unit unit;
	struct maybe value;
	bool at_least, at_most;
	const char *after;   /* directly behind the value: "ticks" */
	struct maybe of;     /* the whole, in the same unit, */
	const char *of_words, *percent_words; /* its name behind it, "requested"; what the percentage is of */
	bool is_percent_hidden;
	const char *more_before, *more_after; /* a second number, and what stands round it: ", shared" */
	struct maybe more;
	enum fact_unit more_unit;
	const struct ram_figure *figure;      /* how it was obtained, with bounds; NULL: */
	enum method method;                   /* METHOD_UNKNOWN: not said */
	bool has_rate;                        /* sampled with the tick */
	const char *words;                    /* a qualifier, with its punctuation: " (sampled)" */
	bool is_apart;                        /* it is long: its words stand apart where there is room */
	bool begins_line;
	char *text, *detail;                  /* the list's, behind the value. detail: "exit 137" */
	bool is_foreign;                      /* text may hold anything: it is not cleaned yet */
	const struct birth *gpu;              /* of FACTS_GPU and FACT_GPU_NOW; borrowed from the job, as the next */
	const struct process *process;        /* of FACT_PROCESS */
};

struct fact_list {
	struct fact *facts;
	size_t n;
};

/* Returns 0 or -ENOMEM. The summary outlives the list. */
int facts_make(const struct summary *s, struct fact_list *ret);
void facts_done(struct fact_list *list);
/* The first of that key, of that GPU if gpu is not 0; NULL: there is none. */
const struct fact *facts_find(const struct fact_list *list, enum fact_key key, uint32_t gpu);

/* ---- what several facts, and others, are made from ------------------------------------------------------------------- */

/* How the job ended. */
enum outcome {
	OUTCOME_EXIT,
	OUTCOME_SIGNAL,
	OUTCOME_LIMIT,
	OUTCOME_UNSEEN,
	OUTCOME_UNFINISHED
};

struct ending {
	enum outcome outcome;
	int code;            /* as a shell has it: the job's own, 128 + signal, 124; not for UNSEEN and UNFINISHED */
	int signal;          /* OUTCOME_SIGNAL */
	bool code_known;
};

struct ending ending_of(const struct summary *s);

/* "SIGKILL"; "signal 40" (in buf) for one without a name. */
const char *figure_signal(int signal, char buf[UNITS_LEN]);

/* What was measured went on well beyond the end of main. */
bool figure_outlived(const struct summary *s);

/* What RAM is compared with: what was requested, a limit, or the machine. */
struct ceiling {
	struct maybe bytes;
	const char *words; /* "requested", "limit", "on this machine" */
};

struct ceiling ceiling_of(const struct summary *s);

/* Cores that the job could have used: its quota where that is less than its processors. In millionths. */
struct maybe figure_cores(const struct facts *f);

/* The processes of the job, largest peak first. *ret is the caller's to free(); NULL if there are none. */
int figure_processes(const struct job *job, const struct process ***ret, size_t *ret_n);

enum {
	FIGURE_THROTTLES = 4
};
/* What holds back a GPU's clocks, in words. */
struct figure_throttle {
	enum metric metric; /* how long it did */
	const char *words;
};
extern const struct figure_throttle figure_throttles[FIGURE_THROTTLES];

/* Is there something to say of GPUs, be it why they could not be read? Not where there are none. */
bool figure_has_gpus(const struct summary *s);
/* Did the job hold memory on it, or is that not known? */
bool figure_gpu_used(const struct summary *s, uint32_t id);
/* Did it hold nothing there, and is that GPU one of many, or beside one that it used? No picture of it is wanted then. */
bool figure_gpu_beside(const struct summary *s, uint32_t id);
/* What a utilisation is called: "SM active", "busy". */
const char *figure_gpu_lead(enum metric lead);

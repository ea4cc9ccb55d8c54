/* SPDX-License-Identifier: MIT
 *
 * The answer: what a job used, each figure with how it was obtained. Plain data made from a job; sinks write it.
 */
#pragma once

#include "job/job.h"

enum method {
	METHOD_UNKNOWN, /* the figure could not be had; a note says why */
	METHOD_EXACT,   /* the kernel's own mark or count */
	METHOD_BOUNDED, /* between low and high */
	METHOD_SAMPLED, /* at the sampling rate; true value is at least this */
};

/* "exact", "bounded", "sampled", "unknown". */
const char *method_name(enum method method);

/* An amount of RAM: of main, of the descendants, of all. */
struct ram_figure {
	struct maybe peak, low, high;  /* low <= peak <= high */
	struct maybe mean;
	struct maybe private_bytes, shared_bytes; /* at the last PSS pass before or at the peak */
	struct maybe at_ns;            /* when */
	enum method method;
	const char *source;            /* "VmHWM", "ru_maxrss", "taskstats", "statm", "faults", "PSS", "fork families", "fork families by name", "procfs"; static */
};

struct note {
	const char *about;  /* "gpu", "energy", "cpu": first part of a JSON path; or a metric, "gpu.xid" */
	char *why;
	bool happened;      /* while it ran, or what is here failed; rather than that there is nothing to be had */
};

enum severity {
	SEVERITY_HINT,
	SEVERITY_WARN,
	SEVERITY_ERROR
};

enum {
	EVIDENCE_MOST = 64,
	EVIDENCE_DEVICES = 8
};

/* One piece of advice; made by watch/, kept here because the summary shows it. */
struct finding {
	const char *code;       /* "out-of-memory"; static */
	enum severity severity;
	bool fired;
	bool is_unjudged;       /* the run was too short for it */
	char *message;          /* if fired: number, evidence, one action */
	char *why_not;          /* if not: what was looked at and what it would have taken */
	struct evidence {
		const char *key;
		double value;
		const char *text;
		unsigned device; /* 0: what the finding stands on; from 1 on: of that one of n_devices */
	} evidence[EVIDENCE_MOST]; /* text if not NULL, else value; those of a device are together */
	unsigned n_evidence, n_devices;
	uint64_t from_ns, to_ns;/* the interval that shows it */
};

enum {
	STORY_HOLDERS = 5
};

/* What happened, if something did; made by watch/, kept here because the summary shows it. */
struct story {
	char *what;              /* "out of memory: the kernel killed solver[5123]"; NULL: there is nothing to tell */
	uint64_t at_ns;
	bool memory;             /* memory ran out, or came near to it; */
	bool on_gpu;             /* it was a GPU's, and so is all that follows; else RAM */
	struct maybe held;       /* by the job at that moment; bytes */
	struct maybe limit, asked;
	struct maybe foreign;    /* by others on the job's GPUs at the most */
	bool looked;             /* a recording says how it went until then */
	struct maybe since_ns, from_bytes; /* since when it had been growing, and from how much */
	double growth_per_s;     /* if it had */
	struct story_holder {
		const struct process *process; /* borrowed from the job */
		int64_t bytes;
		bool killed;
	} holders[STORY_HOLDERS]; /* the largest first */
	size_t n_holders, others;
	int64_t others_bytes;
	char *advice;            /* what to try */
};

struct summary {
	const struct job *job;         /* borrowed: processes, phases, series, facts */
	const struct facts *facts;
	bool complete;                 /* the end was recorded */
	bool lost;                     /* it was not, and nobody here records it any more */
	bool elsewhere;                /* lost, unless the host that recorded it still does: it is known only there */
	bool oom_killed;               /* the kernel killed a process of the job for lack of memory */
	struct maybe wall_ns;      /* of all that was measured */
	struct maybe main_wall_ns; /* until main's own end, where that was seen */
	struct maybe user_ns, system_ns;
	bool cpu_exact;                /* else a lower bound (or sampled, with attach) */
	struct ram_figure main, descendants, combined;
	struct maybe system_peak;
	struct maybe cgroup_peak, cgroup_limit, cgroup_oom_kills, cgroup_file_at_peak; /* of one that the job has to itself */
	enum method cgroup_method;     /* of its peak: the kernel's mark, or the largest charge that was seen */
	struct maybe oom_kills;        /* in the job's cgroup, whoever else is in it; at least as many as were named */
	struct maybe host_oom_kills;   /* on the whole machine while the job ran */
	struct maybe swap_peak, hugetlb_peak;
	bool hugetlb_at_most; /* it adds up several processes: what they share counts in each */
	struct maybe read_bytes, write_bytes;
	struct maybe cpu_energy_uj;
	struct maybe gpu_peak, gpu_main_peak, gpu_rest_peak; /* device memory of the job, over all devices */
	enum method gpu_method;        /* of gpu_peak */
	struct maybe gpu_energy_uj;    /* of all devices, whoever used it */
	bool gpu_none;                 /* all were asked, and the machine shows none */
	struct maybe cores_mean_ppm;   /* (user + system) / the time until the last of the job ended, in millionths of a core; at most all */
	struct maybe iowait_ppm;       /* of the machine, while the job ran */
	struct maybe peak_alive;
	bool seen_at_least;            /* there may have been more processes than were seen */
	struct note *notes;
	size_t n_notes;
	struct finding *findings;
	size_t n_findings;
	struct story story;
};

/* Makes it from the job as it is now (a running one too). Returns 0 or -ENOMEM. findings are empty. */
int summary_make(struct job *job, struct summary *ret);
/* A metric's largest value, its mean over time, what a counter rose by; of host, job (id 0), a GPU or a process on one. */
struct maybe summary_most(const struct summary *summary, enum metric metric, uint32_t id);
struct maybe summary_mean(const struct summary *summary, enum metric metric, uint32_t id);
struct maybe summary_risen(const struct summary *summary, enum metric metric, uint32_t id);

/* The utilisation that says most of a GPU: SM activity where it was had. False: there is none. */
bool summary_gpu_lead(const struct summary *summary, uint32_t id, enum metric *ret);
/* Energy in microjoules: of the device's counter (*ret_counted), else power over time. */
struct maybe summary_gpu_energy(const struct summary *summary, uint32_t id, bool *ret_counted);
/* What the job held on it in the mean, and at most; id 0: on all devices. Unknown where the driver does not tell of one of
 * its processes there. */
struct maybe summary_gpu_job_mean(const struct summary *summary, uint32_t id);
struct maybe summary_gpu_job_peak(const struct summary *summary, uint32_t id, enum method *ret_method);
/* What was in use on it at most, whoever held it: what looks found, and never less than a mark of one of the job's processes. */
struct maybe summary_gpu_device_peak(const struct summary *summary, uint32_t id);

/* Adds a note (its text is copied, about is not). */
int summary_note(struct summary *summary, const char *about, const char *format, ...) __attribute__((format(printf, 3, 4)));
void summary_done(struct summary *summary);

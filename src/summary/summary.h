/* SPDX-License-Identifier: MIT
 *
 * The answers about a job as plain data: each figure with the method by which it was obtained.
 * summary_make() computes them from a job, which may still be running; sinks write them.
 */
#pragma once

#include "job/job.h"
#include "summary/request.h"
#include "summary/where.h"
#include "summary/work.h"

enum method {
	METHOD_UNKNOWN, /* the figure is not available; a note says why */
	METHOD_EXACT,   /* the kernel's or the driver's own high-water mark or count */
	METHOD_BOUNDED, /* between low and high */
	METHOD_SAMPLED, /* the largest sample; the true value is at least this */
};

/* "exact", "bounded", "sampled", "unknown". */
const char *method_name(enum method method);

/* An amount of RAM: of the main process, of the descendants, or of all. Bytes. */
struct ram_figure {
	struct maybe peak, low, high;  /* low <= peak <= high */
	struct maybe mean;
	struct maybe private_bytes, shared_bytes; /* at the last PSS pass before or at the peak */
	struct maybe at_ns;            /* time of the peak since the start */
	enum method method;
	const char *
		source; /* "VmHWM", "ru_maxrss", "taskstats", "statm", "faults", "PSS", "fork families", "fork families by name", "procfs"; static */
};

struct note {
	const char *about;  /* "gpu", "energy", "cpu": first part of a JSON path; or a metric, "gpu.xid" */
	char *why;
	bool is_failure;    /* something failed during the run; false: the figure does not exist here */
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

/* One piece of advice; made by findings/, declared here because the summary shows it. */
struct finding {
	const char *code;       /* "out-of-memory"; static */
	enum severity severity;
	bool fired;
	bool is_unjudged;       /* the run was too short for it */
	char *message;          /* if fired: a number, the evidence, one action */
	char *why_not;          /* if not: the figures, and the threshold that they missed */
	struct evidence {
		const char *key;
		double value;
		const char *text;
		unsigned device; /* 0: of the finding as a whole; from 1 on: of that one of n_devices */
	} evidence[EVIDENCE_MOST]; /* text if not NULL, else value; those of a device are together */
	unsigned n_evidence, n_devices;
	uint64_t from_ns, to_ns;/* the stretch of the run that shows it */
};

enum {
	INCIDENT_PROCESSES = 5
};

/* What fills a memory limit. */
enum fill {
	FILL_PROCESSES, /* memory of the job's processes */
	FILL_SHMEM,     /* tmpfs files and shared memory */
	FILL_CACHE,     /* page cache */
	FILL_KERNEL,
	FILL_OTHERS,    /* processes outside the job */
	FILLS
};

/* "processes", "shmem", "page_cache", "kernel", "others": in JSON; and in words. */
const char *fill_name(enum fill fill);
const char *fill_words(enum fill fill);

/* The incident of the run, if there was one; made by findings/, declared here because the summary
 * shows it. */
struct incident {
	char *what;              /* "out of memory: the kernel killed solver[5123]"; NULL: no incident */
	uint64_t at_ns;
	bool memory;             /* memory ran out, or nearly */
	bool on_gpu;             /* the memory of a GPU, as are all amounts below; else RAM */
	struct maybe used;       /* used by the job, or of the limit, at that moment; bytes */
	struct maybe limit, requested;
	struct maybe other;      /* used by other processes on the job's GPUs, at most */
	bool has_history;        /* the recording was read up to then */
	struct maybe since_ns, from_bytes; /* start of the growth, and the amount at that time */
	double growth_per_s;     /* bytes each second, if it grew */
	struct incident_process {
		const struct process *process; /* borrowed from the job */
		int64_t bytes;
		bool killed;
	} processes[INCIDENT_PROCESSES]; /* the largest first */
	size_t n_processes, others;
	int64_t others_bytes;
	struct incident_part {
		enum fill fill;
		int64_t bytes;
	} parts[FILLS];          /* of RAM: what the limit was filled with, the largest first */
	size_t n_parts;
	/* the limit is that of a cgroup, which counts more than the RAM of the processes; else the
	 * machine's memory */
	bool is_group_limit;
	bool is_kill;            /* the kernel killed a process, or is suspected to have */
	/* where RAM came from, at the last high before; borrowed; NULL: not sampled, or RAM did not run out */
	const struct touched *touched;
	char *advice;            /* suggested action */
};

struct summary {
	const struct job *job;         /* borrowed: processes, phases, series, facts */
	const struct facts *facts;
	bool complete;                 /* the end was recorded */
	bool lost;                     /* it was not, and no recorder on this host is alive */
	/* lost, unless the recorder on another host is alive: only that host knows */
	bool elsewhere;
	bool oom_killed;               /* the kernel killed a process of the job for lack of memory */
	struct maybe wall_ns;      /* until the end of the measurement */
	struct maybe main_wall_ns; /* until the end of the main process, where that was observed */
	struct maybe user_ns, system_ns;
	bool cpu_exact;                /* else a lower bound (or sampled, with attach) */
	struct ram_figure main, descendants, combined;
	struct maybe system_peak;
	/* only of a cgroup that the job does not share */
	struct maybe cgroup_peak, cgroup_limit, cgroup_oom_kills, cgroup_file_at_peak;
	enum method cgroup_method;     /* of its peak: the kernel's high-water mark, or the largest sample */
	/* tmpfs and shared memory: of the job's own cgroup, or, as an upper bound (shmem_at_most), the rise
	 * on the whole machine */
	struct maybe shmem_peak;
	bool shmem_at_most;
	/* in the cgroup whose limit applies (facts.limit_bytes), of all its processes: memory that the
	 * kernel cannot free */
	struct maybe unreclaimable_peak, unreclaimable_at_ns;
	/* in the job's cgroup, its other members included; at least the kills that the kernel named */
	struct maybe oom_kills;
	struct maybe host_oom_kills;   /* on the whole machine while the job ran */
	struct maybe swap_peak, hugetlb_peak;
	bool hugetlb_at_most; /* a sum over processes, in which shared pages count in each */
	struct maybe read_bytes, write_bytes;
	struct maybe fabric_rx_bytes, fabric_tx_bytes, fabric_errors; /* of the node */
	struct maybe cpu_energy_uj;
	/* device memory of the job, over all devices */
	struct maybe gpu_peak, gpu_main_peak, gpu_descendants_peak;
	enum method gpu_method;        /* of gpu_peak */
	struct maybe gpu_energy_uj;    /* of all devices and all their users */
	bool gpu_none;                 /* all drivers were asked, and the machine has none */
	/* (user + system) / time until the last process ended, in millionths of a core; at most all cores */
	struct maybe cores_mean_ppm;
	struct maybe iowait_ppm;       /* of the machine, while the job ran */
	struct maybe peak_alive;
	bool seen_at_least;            /* there may have been more processes than were found */
	struct note *notes;
	size_t n_notes;
	struct finding *findings;
	size_t n_findings;
	struct incident incident;
	struct request request;        /* made with the findings */
	const struct work *work;       /* borrowed; NULL: the run was not traced, or that was not read */
	const struct touched *touched; /* likewise; NULL: its memory was not sampled */
};

/* True if tmpfs and shared memory are worth showing: of a small rise on the machine the job's part is
 * unknown. */
bool summary_shows_shmem(const struct summary *s);

/* Computes the summary of the job in its present state. findings, incident and request stay empty. Returns 0 or
 * -ENOMEM. */
int summary_make(struct job *job, struct summary *ret);
/* The upper bound of the combined RAM, for pictures, which have no other figure of the summary. */
struct maybe summary_ram_most(const struct job *job);
/* True if the run is a Slurm batch script that called srun: the tasks, which Slurm starts elsewhere, were not seen,
 * so that what was requested for the job is no measure of it. */
bool summary_is_batch_only(const struct facts *f);
/* True if the memory limit of facts->limit_bytes counts this job alone: it has the cgroup to itself, and
 * the limit is not of a group above. */
bool summary_limit_is_own(const struct summary *s);
/* A metric's largest value, its mean over time, the increase of a counter; id: 0 for host and job,
 * else a GPU or a process on one. */
struct maybe summary_most(const struct summary *summary, enum metric metric, uint32_t id);
struct maybe summary_mean(const struct summary *summary, enum metric metric, uint32_t id);
struct maybe summary_risen(const struct summary *summary, enum metric metric, uint32_t id);

/* The most informative utilisation of a GPU: SM activity where it was read. False: there is none. */
bool summary_gpu_lead(const struct summary *summary, uint32_t id, enum metric *ret);
/* Energy in microjoules: from the device's counter (*ret_counted), else power over time. */
struct maybe summary_gpu_energy(const struct summary *summary, uint32_t id, bool *ret_counted);
/* Memory that the job used on a device, mean and peak; id 0: on all devices. Unknown where the
 * driver does not report one of the job's processes there. */
struct maybe summary_gpu_job_mean(const struct summary *summary, uint32_t id);
struct maybe summary_gpu_job_peak(const struct summary *summary, uint32_t id, enum method *ret_method);
/* Upper bound of that peak, where the only mark of the driver is older than the run; else unknown. */
struct maybe summary_gpu_job_high(const struct summary *summary, uint32_t id);
/* The peak of a process on a GPU in this run, b of job_gpu_process. *ret_high: its upper bound by a
 * mark that is older than the run, or unknown. */
struct maybe summary_gpu_process_peak(const struct summary *summary, const struct birth *b,
	enum method *ret_method, struct maybe *ret_high);
/* Peak of the device's memory in use by all processes: the largest sample, and at least the
 * high-water mark in this run of each of the job's processes. */
struct maybe summary_gpu_device_peak(const struct summary *summary, uint32_t id);

/* Adds a note; its text is copied, about is not. Returns 0 or -errno. */
int summary_note(struct summary *summary, const char *about, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void summary_done(struct summary *summary);

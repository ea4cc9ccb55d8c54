/* SPDX-License-Identifier: MIT
 *
 * The interface of everything that can be read: processes, the cgroup, the host, energy, GPUs. The
 * sampler knows sources only through this header.
 *
 * A source reads in groups, each with a cost and a default period of its own; the sampler's plan
 * decides when a group is due. A group that cannot be read yields unknown values once and nothing
 * more until it can be read again. A source never prints, blocks only on the kernel's own files
 * (GPU sources may block in a driver, see below), and allocates only when something new appears.
 * Threads: one at a time.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/root.h"
#include "model/frame.h"
#include "model/framebuf.h"
#include "model/gpu_fact.h"

/* The CPU time that expensive process lists on GPUs may spend: what the other groups leave, saved
 * up. The reader sets ns, most_ns, share, last and debts_only; the source sets the rest. */
struct source_budget {
	unsigned devices;        /* that the source reads, set by it; 0: not known yet */
	int64_t ns;              /* available; 0 or less: only lists that cannot wait are made */
	int64_t most_ns;         /* most that is saved up */
	double share;            /* of a core: current rate of earning */
	bool last;               /* this is the last read */
	bool debts_only;         /* this read comes early: list only what may be read on debt,
	                          * nothing else */
	int64_t floor_ns;        /* below 0: what is due now may borrow down to this */
	unsigned lists, urgent;  /* devices: listed at the last read; may be listed on debt now */
	bool moving;             /* memory of a device has changed since its processes were listed */
	uint64_t waited_ns;      /* the longest time that any device has been without a process list */
};

/* The cost of the last attempt to read a group. */
struct source_cost {
	uint64_t cpu_ns, wall_ns;
	unsigned n;              /* reads; 0: none */
	unsigned devices;        /* that were read */
};

/* The driver call in progress, so that another thread can report it if the call does not return. */
struct driver_call_trace {
	_Atomic uint32_t call;   /* numbered as in call_name; 0: none */
	_Atomic uint32_t device; /* device number plus 1; 0: no particular device */
};

/* What every source is opened with. Borrowed for the life of the source. */
struct source_env {
	const struct root *root;
	uint64_t start_boot_ns;  /* start of the run on CLOCK_BOOTTIME */
	int32_t recorder_pid;    /* hiwater's own pid */
	const char *workdir;     /* folder whose file system is measured; NULL: none */
	/* Bytes in the resident size, and in the high-water mark, of a process of the job that it would not use without
	 * hiwater: the memory of a trace. They are not part of any figure. start_ticks (stat field 22)
	 * 0: of the latest process of this pid. NULL: there are none. */
	uint64_t (*touched)(void *ctx, pid_t pid, uint64_t start_ticks);
	void *touched_ctx;
	const char *cgroup;      /* SOURCE_CGROUP: path below the hierarchy's mount, "/a/b" */
	bool cgroup_shared;      /* other processes are in the cgroup: only for_all groups are valid */
	const char *cgroup_limit; /* the group whose memory limit applies, below the same mount;
	                          * NULL: there is no limit */
	struct maybe cgroup_limit_bytes; /* that limit */
	const char *cgroup_cpu;  /* the group whose quota throttles the job, below the mount of the
	                          * CPU quota; NULL: unknown, on v1 the group with the same
	                          * processes is looked up */
	struct source_budget *budget; /* GPUs: budget for process lists; NULL: unlimited */
	_Atomic uint64_t *beat;       /* GPUs: CLOCK_BOOTTIME of the driver's last answer; NULL: not
	                               * watched */
	struct driver_call_trace *call_trace; /* GPUs: NULL: not watched */
	void (*on_progress)(void *ctx); /* GPUs: called when out may be emptied before the next call, which
	                          * may hang or crash; NULL: out is taken when read returns */
	/* GPUs: called with the values known so far before a call that may hang or crash. The last
	 * such frame is used only if that call does not return. NULL: not needed */
	void (*on_partial)(void *ctx, const struct framebuf *known);
	void *progress_ctx;           /* passed to on_progress and on_partial */
	bool is_still;           /* GPUs: the files of a captured machine never change, so
	                          * differences between reads are meaningless */
	struct source_cost *costs;    /* GPUs: probe stores each group's cost here; NULL: not needed */
};

/* Whether one metric is available here. */
struct source_probe {
	enum metric metric;
	bool available;
	const char *how;     /* the method in use, "procfs statm, kept descriptor"; borrowed, static */
	const char *why_not; /* the reason; "" if available */
	const char *remedy;  /* what the user can do; "" if nothing */
};
typedef void source_probe_fn(void *ctx, const struct source_probe *probe);

enum {
	SOURCE_RANKS = 2
};

struct source_group {
	const char *name;
	const char *contents; /* GPUs: its contents, for users */
	uint64_t period_ns;  /* default; 0: at every sample */
	uint64_t moving_ns;  /* GPUs, process lists on credit: period while device memory changes;
	                      * else 0 */
	uint64_t idle_ns;    /* likewise: longest period while it does not change, where a list is
	                      * expensive; else 0 */
	unsigned rank;       /* GPUs: if reads cost too much, the highest rank is read less often
	                      * first, lists before everything else; below SOURCE_RANKS */
	bool lists;          /* GPUs: lists processes */
	bool marks;          /* GPUs: without credit makes no list and reports what is known without
	                      * one */
	bool pairs;          /* GPUs: some values exist only from the second read on */
	bool busy;           /* GPUs: the lists also give the device's busy time */
	bool for_all;        /* cgroup: also valid for the job if other processes are in the group */
	bool gathers;        /* GPUs: values accumulate only between repeated reads */
};

/* The least valid GPU temperature, in thousandths of a degree: 0 means that the sensor does not
 * answer (limits: gpu_fact.h). */
enum {
	GPU_TEMP_LEAST = 1,
};

struct source; /* defined by each source */

/* value is valid until the function returns. */
typedef void source_fact_fn(void *ctx, const struct gpu_fact_value *value);

struct source_ops {
	const char *name;
	enum frame_source frame;
	const struct source_group *groups; /* bit i of a group_mask is group i */
	unsigned n_groups;
	/* Returns 0, or -errno with text: nothing of this source is available here. */
	int (*open)(const struct source_env *env, struct source **ret, struct err *err);
	/* Reads the groups whose bits are set into out (GPUs: no bit reports births alone). Returns
	 * 0 or -errno (nothing was added). */
	int (*read)(struct source *source, unsigned group_mask, struct framebuf *out);
	/* Reports the availability of every metric of this source. */
	void (*probe)(const struct source_env *env, source_probe_fn *report, void *ctx);
	/* The name of library call number call, from 1; NULL: no such call. NULL member: the source
	 * calls no library, or does not trace its calls. */
	const char *(*call_name)(unsigned call);
	/* GPUs: reports the wanted facts that are available, of devices whose birth was reported.
	 * May be NULL. */
	void (*facts)(
		struct source *source, const struct gpu_fact_set *wanted, source_fact_fn *report, void *ctx);
	void (*close)(struct source *source); /* NULL is allowed */
};

/* The period of a group while device memory does not change, from the cost of a read and the share
 * of a core that is earned for it (0: unknown). The group's own period where it never rests. */
uint64_t source_idle_ns(const struct source_group *group, const struct source_cost *cost, double share);

/* For probe: reads all groups one after the other into out and stores their costs. Each is read
 * twice, because the first read resolves symbols and allocates; exceptions are process lists that
 * need one read only, and reads that took more than 1 s. */
void source_try(const struct source_ops *ops, const struct source_env *env, struct source *source,
	struct framebuf *out);

extern const struct source_ops source_host;   /* host.c: groups fast (meminfo), pages (vmstat), slow
                                               * (the rest) */
extern const struct source_ops source_energy; /* energy.c: RAPL */
extern const struct source_ops source_fabric; /* fabric.c: ports of InfiniBand, RoCE, Slingshot */
extern const struct source_ops source_cgroup; /* cgroup.c: env->cgroup; groups memory (charged,
                                               * peak), detail, events, quota, limit. The peak is known if
                                               * it belongs to this run: reset at its start, or
                                               * risen since */
extern const struct source_ops source_nvml;   /* nvml.c: NVIDIA GPUs. May block in the driver, so it
                                               * runs in a process of its own */

/* ---- GPUs ----------------------------------------------------------------------------------------
 *
 * GPU sources are read by a helper process of the recorder, never in the recorder: each on a
 * thread of its own, one call at a time, on which it may block. They are opened there as well, so
 * that no other process loads a vendor library. Where there is nothing to read, open gives the
 * reason in err ("no driver: libnvidia-ml.so.1 not found").
 *
 * ids   Each source numbers GPUs (MIG instances too) and processes on GPUs from 1 and never reuses
 *       a number; the recorder maps them to the run's ids. Births come with the first values, from
 *       any group. A gpu_process's birth leaves process, uid and name empty: the recorder knows the
 *       owner of the pid. It ends (END_SEEN) when no list has it any more.
 * lists Each time the processes on a device are listed, the source reports gpu.processes (their
 *       number; unknown: the list could not be read, which is not an empty list: no process ends,
 *       mem is unknown) and the mem of each process in it: one value per process and device. From
 *       these the recorder computes job_mem, other_mem and unattributed_mem.
 * lost  A lost GPU reports unknown values once, with an EVENT_NOTE ("gpu: GPU-8a56... fell off the
 *       bus"); it is retried rarely, the other GPUs are not affected. The same applies to anything
 *       that stops answering.
 * now   A frame's time is the call of read. read gets the groups that are due; their cost is
 *       measured, and expensive ones are read less often, so periods are requests. A group's name
 *       is for the reader only.
 * sleep A sleeping GPU (power/runtime_status "suspended") is not woken: its values are unknown,
 *       once.
 *
 * Each source declares its groups next to its name, here. */

extern const struct source_ops source_amdgpu; /* amdgpu.c: memory, sensors, processes */
extern const struct source_ops source_dcgm;   /* dcgm.c: SM activity of NVIDIA cards before Hopper,
                                               * from a host engine */
extern const struct source_ops source_drm;    /* drm.c: every driver except amdgpu and NVIDIA's own:
                                               * sensors, processes */

/* ---- the cgroup's facts ------------------------------------------------------------------------------------------ */

struct cgroup_facts {
	char path[512];               /* in the memory hierarchy (v1) or the only one (v2), below
	                               * its mount; "" if none */
	bool v2;
	bool exclusive;               /* all processes in it and below are members or recorder_pid;
	                               * always false from cgroup_of: the caller sets it, as it
	                               * knows the members (cgroup_pids) */
	bool peak_is_ours;            /* its memory peak was created or reset for this run; set by
	                               * the caller (cgroup_make) */
	struct maybe limit_bytes;     /* smallest limit of it and its ancestors; unknown: none */
	char limit_path[512];         /* the group with that limit; its own path where there is none,
	                               * or where it is out of sight */
	struct maybe cpu_limit_ppm;   /* smallest CPU quota of it and its ancestors, in millionths
	                               * of a core */
	char cpu_path[512];           /* the group with that quota, the process's own if none has
	                               * one; on v1 in the cpu hierarchy; "" if unknown */
	const char *scheduler;        /* "slurm", "kubernetes", "docker", "podman", "lxc", "qemu",
	                               * "systemd" or "", by the pattern of the path; static */
};

/* The cgroup of pid (0: this process). Returns 0, -ENOENT without cgroups, or -errno. */
int cgroup_of(const struct root *root, pid_t pid, struct cgroup_facts *ret);

/* The group at path: "/a/b" below the hierarchy, or a folder of the mounted tree. Returns likewise. */
int cgroup_at(const struct root *root, const char *path, struct cgroup_facts *ret);

/* Whether two processes are in the same group of every hierarchy: two small reads, no walk. */
bool cgroup_is_common(const struct root *root, pid_t a, pid_t b);

/* The processes in the group at path (as above) and below. Stores at most n and returns how many
 * there are, or -errno. */
ssize_t cgroup_pids(const struct root *root, const char *path, pid_t *pids, size_t n);

#define CONTAINER_ID 65 /* 64 hexadecimal digits and a NUL */

struct container {
	char id[CONTAINER_ID];
	char cgroup[512]; /* in the hierarchy that charges memory; "": not visible from here */
	size_t n;         /* its processes */
};

/* The processes in the container whose id begins with id, which is not "", by their procfs cgroup.
 * Stores at most n of them. Returns 0, -ENOENT if there are none, -EEXIST if two containers match, or
 * -errno. */
int container_find(
	const struct root *root, const char *id, pid_t *pids, size_t n, struct container *ret);
/* The id of the container that pid is in, the innermost. Returns 0, -ENOENT if its groups show none, or
 * -ESRCH. */
int container_of(const struct root *root, pid_t pid, char ret[CONTAINER_ID]);

/* How many more processes and threads the limits of this process's group and of those above allow;
 * INT64_MAX: no limit is known. */
int64_t cgroup_processes_left(const struct root *root);

/* Creates a cgroup for a job about to start (--cgroup=new), in the hierarchy that charges memory:
 * below this process's group; on v2 as its sibling if the group cannot delegate controllers and has
 * no limit. *ret_procs is an open cgroup.procs (write "0" in the child before exec); *ret_dir is
 * the group's folder and must stay open while the group is in use. The caller closes both. Removes
 * empty groups there that killed recorders left behind. Returns 0 or -errno with text. */
int cgroup_make(
	const struct root *root, char *ret_path, size_t size, int *ret_procs, int *ret_dir, struct err *err);
/* Whether cgroup_make has permission. Creates nothing. */
bool cgroup_may_make(const struct root *root);
/* Removes a group that cgroup_make created, if it is empty; leaves any other alone. */
int cgroup_remove(const struct root *root, const char *path);

/* ---- processes: the one source with a wider interface ------------------------------------------------------------ */

/* Groups of values to read of each member. */
enum processes_groups {
	PROCESSES_MEMORY = 1 << 0, /* statm: rss, rss_file */
	PROCESSES_CPU = 1 << 1, /* stat: cpu, faults, threads; detects an exec (EVENT_EXEC, and the
	                         * birth again) */
	PROCESSES_IO = 1 << 2, /* io: storage and calls; above a few hundred members on a budget,
	                        * round-robin */
	PROCESSES_REST = 1 << 5, /* with ROTATE: nor statm of those of a few that have not run; the kernel
	                          * and other processes may change their sizes, so not at every read */
	PROCESSES_ROTATE = 1 << 4, /* stat too is not read of each member: in a crowd only of those that
	                           * were busy or are next in turn, else of those that have run */
	PROCESSES_HWM = 1 << 3, /* status: VmHWM, swap, hugetlb, switches; on the same budget,
	                           * main always */
};

/* How to scan for new members. */
enum processes_scan {
	SCAN_GATE, /* only if the last pid has changed: the pids assigned since, and those once more
	            * at the next scan */
	SCAN_FULL, /* the whole tree below the members and the recorder */
};

struct processes;

/* Reads nothing yet. ours: hiwater started the job and is its subreaper. Returns 0 or -errno with
 * text. */
int processes_new(const struct source_env *env, bool ours, struct processes **ret, struct err *err);
void processes_free(struct processes *p);

/* Why processes cannot be identified by pid: /proc belongs to another pid namespace, where our pids
 * mean other processes or none, or no proc file system is mounted. NULL: /proc is ours. Otherwise
 * no process is scanned for or read, and members are known from the kernel's exit records alone. */
struct proc_lack {
	const char *why, *remedy;
};
const struct proc_lack *processes_proc_lack(const struct root *root);

/* Makes every process of the machine a member, except kernel threads and the recorder. */
void processes_add_all(struct processes *p);

/* Makes pid a member (the first one: main, or with attach each one requested) and scans for
 * main's descendants; those of a further one are found by the next SCAN_FULL. Returns 0, -ESRCH, or
 * -errno; births go to out. */
int processes_adopt(struct processes *p, pid_t pid, bool is_main, struct framebuf *out);

/* The process of which pid is a thread other than the first; 0: pid is not such a thread. */
int32_t processes_of_thread(struct processes *p, pid_t pid);

/* pid is in the measured cgroup: makes it a member unless it is hiwater's own process, a recorder
 * or a child that this recorder ignores. Returns 1 if it became a member, 0 if it was one already
 * or is excluded (so is the daemon that starts tasks there, slurmstepd), or -errno; births go to out. */
int processes_join(struct processes *p, pid_t pid, struct framebuf *out);
bool processes_is_task_starter(struct processes *p, pid_t pid);

/* Excludes a child of the recorder that is not part of the job (group probe, GPU helper). */
void processes_ignore(struct processes *p, pid_t pid);
bool processes_is_ignored(const struct processes *p, pid_t pid);
/* Likewise, cached for up to 1 s: every scan meets the recorder's own children. */
bool processes_was_ignored(struct processes *p, pid_t pid);

/* The recorder's children from before the job. A shell that starts helpers and then execs hiwater
 * (entry point of a container) leaves it children that are not part of the job; so may an earlier
 * run. Start times, in steps of 10 ms, cannot separate the youngest of them from the job. */
struct pid_list {
	int32_t *pid;
	size_t n, cap;
};
void pid_list_done(struct pid_list *l);
/* Lists the children of this thread, right before it forks the job. Other threads of the recorder
 * have only children that it started itself. Empty where the kernel does not list children. */
void processes_list_preexisting(const struct root *root, struct pid_list *ret);
/* Ignores these processes and the children they start, if a scan finds the child before it is
 * orphaned. */
void processes_ignore_preexisting(struct processes *p, const struct pid_list *preexisting);
bool processes_is_preexisting(const struct processes *p, pid_t pid);
bool processes_has_preexisting(const struct processes *p); /* some were alive at the last scan */

/* Scans for new members; births go to out. Returns the number found, or -errno. */
int processes_scan(struct processes *p, enum processes_scan how, struct framebuf *out);

/* pid was just forked: turns the last-pid gate off if the gate does not show it. */
void processes_test_gate(struct processes *p, pid_t pid);
/* Whether a process may have been born between the last two scans: false if the gate rules it
 * out. */
bool processes_moved(const struct processes *p);
/* The number of members whose memory this process may not read: another user's, or setuid. */
size_t processes_hidden(const struct processes *p);
bool processes_gate_works(const struct processes *p, const char **ret_why_not);

/* Reads the given groups of every member; values, and the ends of members found ended, go to out
 * (kept descriptors, pread). A VmHWM that rose above the rss sampled since its last read raises max
 * of the next rss value. A process that still runs in its parent's memory (vfork) has no memory
 * values of its own. Returns 0 or -errno. */
int processes_read(struct processes *p, unsigned group_mask, struct framebuf *out);

/* For members whose VmHWM, read after their memory, proves a burst: reports their last rss again,
 * with the burst as max. */
void processes_bursts(struct processes *p, struct framebuf *out);

/* Reads the given groups of the members with these ids at once, without a budget. */
int processes_read_some(
	struct processes *p, unsigned group_mask, const uint32_t *ids, size_t n, struct framebuf *out);

/* One smaps_rollup pass over all members: pss, private, shared; begins with a full scan.
 * Processes with an rss above max_bytes are left out and make the pass invalid (0: no limit).
 * valid: all members were read, the set of members did not change, and no pid assigned meanwhile is
 * a member's child; of pids that vanished, no member's counters show that it waited for one. */
struct pss_pass {
	bool valid;
	uint64_t moved_bytes;    /* total change of the members' rss during the pass: the bound of
	                          * the error of their sum */
	int64_t grown_bytes;     /* growth of all, without files, from their last reported memory to
	                          * the start of the pass */
	int64_t grown_main_bytes;/* main's part of it */
	uint64_t cost_ns;        /* CPU time */
};
int processes_pss(struct processes *p, uint64_t max_bytes, struct pss_pass *ret, struct framebuf *out);
/* The anonymous part of its PSS in the last pass; unknown before Linux 5.4. */
struct maybe processes_pss_anon(const struct processes *p, uint32_t id);

/* Mapped files and shared memory of all members, each (device, inode) once. */
struct files_read {
	uint64_t most_bytes;     /* upper bound: mapped extents, limited by what the members have
	                          * resident */
	uint64_t estimate_bytes; /* estimate: processes that map the same file have the same part of
	                          * it resident */
	uint64_t cost_ns;        /* CPU time */
};
/* Reads the maps of all members: small text, no page walk. Returns 0; 1 if a member has ended since
 * its size was reported; or -errno. */
int processes_files(struct processes *p, struct files_read *ret);
/* The part of its files and shared memory that it may map more than once, from the last
 * processes_files. */
uint64_t processes_mapped_twice(const struct processes *p, uint32_t id);

/* What a zombie that is not yet reaped still shows: end.faults_waited, cpu (stat), and whether it
 * ignored SIGCHLD (status). Returns 0 or -errno. */
int processes_zombie(struct processes *p, pid_t pid, struct end *ret, bool *ret_ignored_sigchld);

/* Its I/O, including that of the children it waited for; unknown where it cannot be read. */
void processes_zombie_io(struct processes *p, pid_t pid, struct io_facts *ret);

/* A zombie that the recorder is about to reap: its birth goes to out if no scan has found it.
 * False: it is not part of the job. */
bool processes_orphan(struct processes *p, pid_t pid, struct framebuf *out);

/* Reports the end of a member that was reaped, with its facts. Returns false, and does nothing, for
 * any other process. */
bool processes_reaped(struct processes *p, pid_t pid, const struct end *facts, struct framebuf *out);

/* Resets a member's VmHWM (clear_refs 5). Returns 0 or -errno. */
int processes_reset_hwm(struct processes *p, uint32_t id);

size_t processes_count(const struct processes *p);
uint32_t processes_id(const struct processes *p, pid_t pid); /* 0: not a member */

/* The number of members, living and ended, that ignored SIGCHLD: their children's CPU time is never
 * added to theirs. */
size_t processes_unwaited(const struct processes *p);

/* The process to probe availability with: this one; on a captured machine the captured one (the
 * first with memory, else with a cgroup); 0: none. */
pid_t processes_example(const struct root *root);

/* Reports the availability of every process metric, tested on env->recorder_pid. */
void processes_probe(const struct source_env *env, source_probe_fn *report, void *ctx);

/* ---- the kernel's exit records ----------------------------------------------------------------------------------- */

struct taskstats;

/* Listens to the machine's exit records (CAP_NET_ADMIN). Returns 0, -EPERM, or -errno with text. */
int taskstats_open(struct taskstats **ret, struct err *err);
void taskstats_close(struct taskstats *t);
/* Every process of interest starts after this call, so its start time, in clock ticks, need not be
 * compared with the opening of the socket. */
void taskstats_precede(struct taskstats *t);
int taskstats_fd(const struct taskstats *t); /* readable when a record waits */

/* Reads the waiting records; ends of members (END_TASKSTATS) go to out, also of members whose end
 * was already reported. The record of an unknown process waits for one more call, so that the
 * scan in between can find its zombie. If it does not, the process was born and reaped between
 * two scans: if its parent is a member, it gets a birth and an end. Returns 0; -ENOBUFS: records
 * were lost, now or before; or -errno: no more will come. */
int taskstats_read(struct taskstats *t, struct processes *p, struct framebuf *out);
/* Only empties the socket, so that the time of arrival is known; taskstats_read continues with the
 * records. */
void taskstats_receive(struct taskstats *t);
/* Whether a record waits for one more call. */
bool taskstats_waits(const struct taskstats *t);

/* ---- processes that the kernel killed for lack of memory ---------------------------------------------------------- */

#define OOM_NAME 16

struct oom_victim {
	int32_t pid;
	char name[OOM_NAME];
};

/* Counter values at this moment. */
struct counters_before_fork {
	struct maybe oom_kills, cgroup_oom_kills;
	struct maybe thp_faults; /* huge pages given to programs */
	char path[512]; /* cgroup of this process; "": none */
};

/* Reads a few small files. */
void counters_before_fork_read(const struct root *root, bool no_cgroup, struct counters_before_fork *ret);

/* Opens the kernel's log at its end. Returns a descriptor, -EOPNOTSUPP in a pid namespace, where
 * the log's pids mean other processes, or -errno: usually only root may read it. */
int oom_log_open(const struct root *root);
/* The next process that the log reports as killed. Never waits. Returns 1, 0 if there is no more,
 * or -errno; -EPIPE: the kernel had overwritten the next records, and the next call continues
 * behind them. */
int oom_log_next(int fd, struct oom_victim *ret);

/* ---- this machine ------------------------------------------------------------------------------------------------- */

struct machine {
	char hostname[128];
	char kernel[128];
	char cpu_model[128];
	char container[32];           /* "docker", "kubernetes", "lxc", "wsl", "" */
	bool pid_namespace;           /* not the initial one */
	uint32_t cpus;                /* CPUs that this process may run on (affinity, without the
	                               * quota) */
	uint32_t cpus_online;
	uint64_t page_bytes;
	uint64_t huge_page_bytes;     /* PMD size; 0: none */
	uint64_t fault_page_bytes;    /* largest page below that size that one anonymous fault may
	                               * map; page_bytes if none */
	uint64_t file_fault_bytes;    /* most of a file that one fault may map */
	uint64_t mem_total_bytes;
	struct maybe shmem; /* tmpfs and shared memory in use when this was read; bytes */
	uint64_t swap_total_bytes;
	uint64_t rss_error_bytes;     /* largest error of one process's rss: counters that this
	                               * kernel sums up late */
	uint64_t hwm_error_bytes;     /* likewise of VmHWM, if memory was released since the peak */
	bool rss_error_per_thread;    /* both are per thread (before Linux 6.2) */
	struct maybe fabric_bits_per_s; /* sum of the link rates of the active fabric ports */
	char fabric_ports[512];       /* "mlx5_0/1 100 Gb/s, ..."; "": none */
	uint64_t boot_id_hash;
	uint64_t clock_tick_ns;
};

/* Reads what is available; the rest stays 0 or "". */
int machine_read(const struct root *root, struct machine *ret);

/* The CPUs that processes may run on, a bit each. */
struct cpus_allowed {
	unsigned long bits[8192 / (8 * sizeof(unsigned long))]; /* the most that Linux has */
};

/* Adds those of a process (its affinity). Returns how many CPUs there are by now. */
uint32_t cpus_allowed_add(struct cpus_allowed *to, pid_t pid);

/* The memory that all processes of the machine map (AnonPages + Mapped of meminfo), in bytes.
 * Unknown where a container's file is mounted over meminfo (lxcfs). */
struct maybe host_mapped(const struct root *root);
/* VmRSS and VmHWM of this process, in bytes. */
int self_memory(const struct root *root, uint64_t *ret_rss, uint64_t *ret_hwm);
/* The owner and name (procfs comm) of pid. Returns 0 or -errno: no such process is visible. */
int process_owner(const struct root *root, pid_t pid, char ret_name[16], uint32_t *ret_uid);
/* Whether this process has a child other than but. -errno: unknown. */
bool self_has_ptrace(const struct root *root); /* CAP_SYS_PTRACE is effective: other users'
                                                * processes may be read */
int self_has_children(const struct root *root, pid_t but);
/* Starts a process that ends at once and returns its pid, for processes_test_gate; 0: none could be
 * started. Its end sends no signal. */
pid_t spent_pid(void);
/* Pending signals of pid: bit n - 1 for signal n. */
int pending_signals(const struct root *root, pid_t pid, uint64_t *ret_mask);

/* Processes whose name or command line matches an extended regular expression, except this process
 * and its ancestors. Stores at most n. Returns how many there are, -EINVAL with text for an invalid
 * expression, or -errno. */
ssize_t find_by_name(const struct root *root, const char *regex, pid_t *pids, size_t n, struct err *err);

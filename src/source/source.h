/* SPDX-License-Identifier: MIT
 *
 * The interface of everything that can be read. The sampler knows sources only through this header.
 *
 * A source reads in groups, each with a cost and a default period of its own; the sampler's plan says when. A group
 * that cannot be read gives unknown readings once and is then silent until it can again. A source never prints,
 * never blocks on anything but the kernel's own files (those of GPUs may, below), and allocates only when something new
 * appears. Threads: one at a time.
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

/* Processor time for lists of processes, which are dear: they are made of what is left and saved up. The reader keeps ns,
 * most_ns, share, last and debts_only, the source the rest. */
struct source_credit {
	int64_t ns;              /* to be spent; 0 or less: nothing that can wait is to be listed */
	int64_t most_ns;         /* to be saved up */
	double share;            /* of a core: what is earned now */
	bool last;               /* nothing is read after this look */
	bool debts_only;         /* this look comes early: for what is worth a debt, nothing else is to be listed */
	int64_t floor_ns;        /* below 0: what is due now may be borrowed for, down to here */
	unsigned lists, urgent;  /* devices: listed at the last look; now worth a debt */
	bool moving;             /* memory of a device is, since its processes were listed */
	uint64_t waited_ns;      /* the longest that any device has been without a word of its processes */
};

/* What a reading of a group took, the last one that was tried. */
struct source_cost {
	uint64_t cpu_ns, wall_ns;
	unsigned n;              /* readings; 0: none */
};

/* What a driver is being asked, for whoever has to do without the answer. */
struct source_asked {
	_Atomic uint32_t call;   /* as call_name numbers them; 0: nothing */
	_Atomic uint32_t device; /* its number and 1; 0: none in particular */
};

/* What every source is opened with. Borrowed for the life of the source. */
struct source_env {
	const struct root *root;
	uint64_t start_boot_ns;  /* the run's start on CLOCK_BOOTTIME */
	int32_t recorder_pid;    /* hiwater's own */
	const char *workdir;     /* folder whose file system is watched; NULL: none */
	const char *cgroup;      /* SOURCE_CGROUP: path below the hierarchy's mount, "/a/b" */
	bool cgroup_shared;      /* others are known to be in it: only what is for_all is of use */
	const char *cgroup_cpu;  /* likewise, below the mount that the CPU quota is in: the group whose quota holds the job
	                          * back; NULL: not known, v1 looks for the group with the same processes */
	struct source_credit *credit; /* GPUs: for lists of processes; NULL: they may take what they take */
	_Atomic uint64_t *beat;       /* GPUs: CLOCK_BOOTTIME when a driver answered last; NULL: nobody waits */
	struct source_asked *asked;   /* GPUs: NULL: nobody waits */
	void (*told)(void *ctx); /* GPUs: called where all that out holds may be taken out of it: the next call may hang or crash;
	                          * NULL: it is taken when read returns */
	/* GPUs: is shown what is known in front of a call that may hang or crash. What was shown last counts where that call does not
	 * return, else not at all. NULL: nobody asks */
	void (*so_far)(void *ctx, const struct framebuf *known);
	void *told_ctx;               /* of both */
	bool is_still;           /* GPUs: files of a captured machine are read again, which do not move: their differences say nothing */
	struct source_cost *costs;    /* GPUs: probe writes here what each group took; NULL: nobody asks */
};

/* One metric's availability here. */
struct source_probe {
	enum metric metric;
	bool available;
	const char *how;     /* "procfs statm, kept descriptor": which of several ways is in use; borrowed, static */
	const char *why_not; /* "" if available: what is missing */
	const char *remedy;  /* "" if there is none: what a person can do */
};
typedef void source_prober(void *ctx, const struct source_probe *probe);

enum {
	SOURCE_RANKS = 2
};

struct source_group {
	const char *name;
	const char *holds;   /* GPUs: what is read, for people */
	uint64_t period_ns;  /* default; 0: at every tick */
	uint64_t moving_ns;  /* GPUs: lists of processes, on credit: the period while device memory is moving; else 0 */
	uint64_t rest_ns;    /* likewise, at the longest while nothing moves, where a list is dear; else 0 */
	unsigned rank;       /* GPUs: where readings cost too much, the highest gives way first, lists before all; below
	                      * SOURCE_RANKS */
	bool lists;          /* GPUs: it lists processes */
	bool marks;          /* GPUs: without credit it lists nobody, and tells what is known without a list */
	bool pairs;          /* GPUs: some of it is known from the second reading on */
	bool busy;           /* GPUs: what it lists also says how busy the device is */
	bool for_all;        /* the cgroup: true of the job also where others are in the group */
	bool gathers;        /* GPUs: nothing but what happens while somebody looks again and again */
};

/* What can be a GPU's temperature, in thousandths of a degree, is more than 0, which is no sensor that answers (gpu_fact.h:
 * and how much). */
enum {
	GPU_TEMP_LEAST = 1,
};

struct source; /* each file's own */

/* What tell is given is valid until it returns. */
typedef void source_fact_teller(void *ctx, const struct gpu_fact_told *told);

struct source_ops {
	const char *name;
	enum frame_source frame;
	const struct source_group *groups; /* bit i of what is group i */
	unsigned n_groups;
	/* Returns 0, or -errno (nothing of it can be had here) with text. */
	int (*open)(const struct source_env *env, struct source **ret, struct err *err);
	/* Reads the groups whose bits are set (GPUs: without any, births alone) into out. Returns 0 or -errno (nothing was added). */
	int (*read)(struct source *source, unsigned what, struct framebuf *out);
	/* Tells of every metric that the source could give. */
	void (*probe)(const struct source_env *env, source_prober *tell, void *ctx);
	/* Of a call of a library, numbered from 1 on; NULL: there is no such call. May be NULL: it calls none, or does not say which. */
	const char *(*call_name)(unsigned call);
	/* GPUs: tells those facts of the devices that were born which are wanted and can be had. May be NULL. */
	void (*facts)(struct source *source, const struct gpu_fact_set *wanted, source_fact_teller *tell, void *ctx);
	void (*close)(struct source *source); /* NULL is fine */
};

/* source_rest.c: how often a group is read while device memory does not move, where a reading takes that much and share of a core
 * is earned for it (0: not known). A group that does not rest: its period. */
uint64_t source_rest_ns(const struct source_group *group, const struct source_cost *cost, double share);

/* source_try.c, for probe: reads all groups one after the other into out, and writes down what each took; a second time but
 * for lists of processes that one reading tells, and for what took more than a second, since the first reading finds its symbols and
 * its memory. */
void source_try(const struct source_ops *ops, const struct source_env *env, struct source *source, struct framebuf *out);

extern const struct source_ops source_host;   /* host.c: groups fast (meminfo), pages (vmstat), slow (the rest) */
extern const struct source_ops source_energy; /* energy.c: RAPL */
extern const struct source_ops source_cgroup; /* cgroup.c: env->cgroup; groups memory (charged, peak), detail, events, quota. The peak
                                               * is known where it is this run's: begun with it, or risen since */
extern const struct source_ops source_nvml;   /* nvml.c: NVIDIA's GPUs. Unlike the others it may block in the driver: it belongs
                                               * into a process of its own */

/* ---- GPUs ---------------------------------------------------------------------------------------------------------
 *
 * Sources of GPUs are read by a helper process of the recorder, never in the recorder: each on a thread of its own, one
 * call at a time, on which it may block. It is opened there as well, so that a library that it loads is in no other
 * process. Where there is nothing for it, open says why in err ("no driver: libnvidia-ml.so.1 not found").
 *
 * ids   GPUs (MIG instances too) and processes on GPUs are numbered by each source from 1, never used again; the recorder
 *       gives them the run's own. Births come with the first readings, from any group. A gpu_process's birth leaves
 *       process, uid and name empty: the recorder knows whose pid it is. It ends (END_SEEN) when it is in no list.
 * lists Each time the processes on a device were listed there is a reading of gpu.processes (how many; unknown: the list
 *       could not be read, which is no empty list: nobody ends, their mem is unknown) and mem of each process in it: one
 *       figure a process and device. From these the recorder makes job_mem, foreign_mem, unattributed_mem.
 * lost  A GPU that is lost has unknown readings, once, and an EVENT_NOTE ("gpu: GPU-8a56... fell off the bus"); it is
 *       tried again rarely, the other GPUs go on. So does whatever else had answered and does not any more.
 * now   A frame's time is when read was called. read is given the groups that are due; what each costs is measured, and
 *       dear ones are asked for more rarely, so periods are wishes. A group's name says what it holds to the reader only.
 * sleep A GPU that sleeps (power/runtime_status "suspended") is not woken: its readings are unknown, once.
 *
 * Each declares its groups beside its name, here. */

extern const struct source_ops source_amdgpu; /* amdgpu.c: memory, sensors, processes */
extern const struct source_ops source_dcgm;   /* dcgm.c: what the SMs of NVIDIA's cards before Hopper did, by a host engine */
extern const struct source_ops source_drm;    /* drm.c: every driver but amdgpu and NVIDIA's own: sensors, processes */

/* ---- the cgroup's facts ------------------------------------------------------------------------------------------ */

struct cgroup_facts {
	char path[512];               /* of the memory hierarchy (v1) or the one (v2), below its mount; "" if none */
	bool v2;
	bool exclusive;               /* every process in it and below is one of members or recorder_pid; false from
	                               * cgroup_of: who knows the members sets it (cgroup_pids) */
	bool peak_is_ours;            /* its peak mark was made or reset for this run; likewise (cgroup_make) */
	struct maybe limit_bytes;     /* smallest limit on the way up; unknown: none */
	struct maybe cpu_limit_ppm;   /* smallest CPU quota on the way up, in millionths of a core */
	char cpu_path[512];           /* the group that has it, the process's own where none has one; in v1 of the cpu hierarchy;
	                               * "" if unknown */
	const char *scheduler;        /* "slurm", "kubernetes", "docker", "podman", "lxc", "qemu", "systemd", "" by the
	                               * path's pattern; static */
};

/* The cgroup of pid (0: this process). Returns 0, -ENOENT without cgroups, or -errno. */
int cgroup_of(const struct root *root, pid_t pid, struct cgroup_facts *ret);

/* The group at path, "/a/b" below the hierarchy or as a folder of the mounted tree. Returns likewise. */
int cgroup_at(const struct root *root, const char *path, struct cgroup_facts *ret);

/* Whether two processes are in the same groups of every hierarchy: two small reads, no walk. */
bool cgroup_is_common(const struct root *root, pid_t a, pid_t b);

/* The processes in the group at path (as above) and below. Returns how many there are (at most n are stored) or -errno. */
ssize_t cgroup_pids(const struct root *root, const char *path, pid_t *pids, size_t n);

/* Makes a group of its own for a job that is about to start (--cgroup=new), in the hierarchy that charges memory: v1
 * below this process's group, v2 there too, or beside it where the group itself may not hand controllers down and
 * limits nothing. *ret_procs is an open cgroup.procs (write "0" in the child before exec); *ret_dir is the group's
 * folder, kept open as long as the group is in use. The caller closes both. Groups there that nobody has in use and nobody
 * lives in, those of recorders that were killed, are removed. Returns 0 or -errno with text. */
int cgroup_make(const struct root *root, char *ret_path, size_t size, int *ret_procs, int *ret_dir, struct err *err);
/* Would it make one? It tries nothing. */
bool cgroup_may_make(const struct root *root);
/* Removes a group that cgroup_make made, if it is empty; any other is left alone. */
int cgroup_remove(const struct root *root, const char *path);

/* ---- processes: the one source with a wider interface ------------------------------------------------------------ */

/* Groups of what to read of each member. */
enum processes_what {
	PROCESSES_MEMORY = 1 << 0, /* statm: rss, rss_file */
	PROCESSES_CPU = 1 << 1, /* stat: cpu, faults, threads; notices an exec (EVENT_EXEC, and its birth again) */
	PROCESSES_IO = 1 << 2, /* io: storage and calls; past a few hundred members on a budget, round-robin */
	PROCESSES_TURNS = 1 << 4, /* of a crowd, stat too only of those that were busy or whose turn it is */
	PROCESSES_MARKS = 1 << 3, /* status: VmHWM, swap, hugetlb, switches; on the same budget, main always */
};

/* How to look for new members. */
enum processes_look {
	LOOK_GATE, /* only if the last pid handed out has moved: those handed out since, and once more the next time */
	LOOK_FULL, /* the whole tree below the members and the recorder */
};

struct processes;

/* Nothing is read yet. ours: hiwater started the job and is its subreaper. Returns 0 or -errno with text. */
int processes_new(const struct source_env *env, bool ours, struct processes **ret, struct err *err);
void processes_free(struct processes *p);

/* Why no process can be told by its pid: what lies at proc is of another pid namespace, where our pids are other
 * processes' or nobody's, or no proc file system is mounted. NULL: it is ours. Nobody is looked for then, nobody read, and who
 * becomes a member is known by the kernel's exit records alone. */
struct proc_lack {
	const char *why, *remedy;
};
const struct proc_lack *processes_foreign(const struct root *root);

/* From now on every process of the machine is a member, but for the kernel's threads and the recorder. */
void processes_take_all(struct processes *p);

/* Makes pid a member (the first one: main, or with attach each one asked for) and looks for main's descendants; those of
 * a further one are found by the next LOOK_FULL. Returns 0, -ESRCH, or -errno; births go to out. */
int processes_adopt(struct processes *p, pid_t pid, bool is_main, struct framebuf *out);

/* The process that pid is a thread of, apart from its first; 0: it is no such thread's. */
int32_t processes_of_thread(struct processes *p, pid_t pid);

/* pid is in the cgroup that is measured: a member unless it is hiwater's own, a recorder's or what this one started. Returns
 * 1 where it is one now, 0 where it was one or is none, or -errno; births go to out. */
int processes_join(struct processes *p, pid_t pid, struct framebuf *out);

/* A child of the recorder's own that is no part of the job (canary, GPU helper). */
void processes_ignore(struct processes *p, pid_t pid);
bool processes_is_ignored(const struct processes *p, pid_t pid);
/* The same up to a second late, for every look: the recorder's own children stand in its list of them at each one. */
bool processes_was_ignored(struct processes *p, pid_t pid);

/* Who was there before the job. A shell that starts helpers and then becomes hiwater (exec: the entry point of a container)
 * leaves it children that are none of the job's, nor are those of an earlier run; and a start time, of 10 ms, does not tell
 * the youngest of them from the job. */
struct pid_list {
	int32_t *pid;
	size_t n, cap;
};
void pid_list_done(struct pid_list *l);
/* The children of this thread, right before it forks the job. They are listed by nobody else: other threads of the
 * recorder have only children that it knows of. Nothing where the kernel does not tell. */
void processes_list_elders(const struct root *root, struct pid_list *ret);
/* They, and whom they start before a look finds it an orphan, are ignored. */
void processes_ignore_elders(struct processes *p, const struct pid_list *elders);
bool processes_is_elder(const struct processes *p, pid_t pid);
bool processes_has_elders(const struct processes *p); /* some lived at the last look */

/* Looks for new members; births go to out. Returns how many were found, or -errno. */
int processes_look(struct processes *p, enum processes_look how, struct framebuf *out);

/* The fork of pid was just seen: does the last-pid gate know of it? Turns the gate off where it does not. */
void processes_test_gate(struct processes *p, pid_t pid);
/* Whether a process may have been born between the last two looks: false if the gate says that none was. */
bool processes_moved(const struct processes *p);
/* How many members there were into whose memory nobody may look here: another user's, or setuid. */
size_t processes_hidden(const struct processes *p);
bool processes_gate_works(const struct processes *p, const char **ret_why_not);

/* Reads what of every member; readings and the ends of those found gone go to out (kept descriptors, pread). A mark
 * (VmHWM) that rose above what rss showed since it was read last raises max of the next rss reading. A process that
 * still runs in its parent's memory (vfork) has no memory readings of its own. Returns 0 or -errno. */
int processes_read(struct processes *p, unsigned what, struct framebuf *out);

/* Tells of the members whose marks, read since their memory, prove a burst: their last rss again, with it as max. */
void processes_bursts(struct processes *p, struct framebuf *out);

/* Reads what of the members whose ids are given, at once. */
int processes_read_some(struct processes *p, unsigned what, const uint32_t *ids, size_t n, struct framebuf *out);

/* The smaps_rollup pass over all members: pss, private, shared; begins with a full look. Processes whose rss is over
 * max_bytes are left out and make it invalid (0: no limit). *ret_valid: all were read, members were the same before
 * and after, and of the pids handed out meanwhile none is a member's child; of those that are gone again no member was
 * told as of children that it waited for. */
struct pss_pass {
	bool valid;
	uint64_t moved_bytes;    /* by so much the members' rss, added up, changed meanwhile: no more is their sum off */
	int64_t grown_bytes;     /* by so much all had grown when it began, without files, since their memory was told of */
	int64_t grown_main_bytes;/* main of that */
	uint64_t cost_ns;        /* processor time it took */
};
int processes_pss(struct processes *p, uint64_t max_bytes, struct pss_pass *ret, struct framebuf *out);
/* The anonymous part of its PSS in the last pass; unknown before Linux 5.4. */
struct maybe processes_pss_anon(const struct processes *p, uint32_t id);

/* Distinct mapped files and shared memory of all members, each (device, inode) once. */
struct files_read {
	uint64_t most_bytes;     /* at most: mapped extents, and what the members have resident */
	uint64_t likely_bytes;   /* probably: who maps the same file has the same part of it resident */
	uint64_t cost_ns;        /* processor time */
};
/* Reads the maps of all members: small text, no page is walked. Returns 0; 1 if one has ended since its size was told of; or -errno. */
int processes_files(struct processes *p, struct files_read *ret);
/* Of its files and shared memory, so many bytes may be pages that it maps more than once, by the last processes_files. */
uint64_t processes_mapped_twice(const struct processes *p, uint32_t id);

/* What a zombie that is not yet reaped still says: end.faults_waited, cpu (stat), and whether it ignored SIGCHLD (status).
 * Returns 0 or -errno. */
int processes_zombie(struct processes *p, pid_t pid, struct end *ret, bool *ret_ignored_sigchld);

/* Its I/O, that of all whom it waited for in it; unknown where it cannot be read. */
void processes_zombie_io(struct processes *p, pid_t pid, struct io_facts *ret);

/* A zombie that the recorder is to wait for: where no look has found it, its birth goes to out. False: there is none to be told
 * of. */
bool processes_orphan(struct processes *p, pid_t pid, struct framebuf *out);

/* Marks the end of a member that was reaped, with its facts. No-op (returns false) for a stranger. */
bool processes_reaped(struct processes *p, pid_t pid, const struct end *facts, struct framebuf *out);

/* Resets a member's VmHWM mark (clear_refs 5). Returns 0 or -errno. */
int processes_reset_mark(struct processes *p, uint32_t id);

size_t processes_count(const struct processes *p);
uint32_t processes_id(const struct processes *p, pid_t pid); /* 0: no member */

/* Members, living and ended, that were seen to ignore SIGCHLD: their children's processor time is never waited for. */
size_t processes_unwaited(const struct processes *p);

/* Whose files show what can be had: this process, of a captured machine the one that was captured (the first with
 * memory, else with a cgroup); 0 if there is none. */
pid_t processes_example(const struct root *root);

/* Tells of every process metric, tried on env->recorder_pid. */
void processes_probe(const struct source_env *env, source_prober *tell, void *ctx);

/* ---- the kernel's exit records ----------------------------------------------------------------------------------- */

struct taskstats;

/* Listens to exit records of the machine (CAP_NET_ADMIN). Returns 0, -EPERM, or -errno with text. */
int taskstats_open(struct taskstats **ret, struct err *err);
void taskstats_close(struct taskstats *t);
/* Every process that it will be asked for starts later than this: a start time, in clock ticks, need not prove it. */
void taskstats_precede(struct taskstats *t);
int taskstats_fd(const struct taskstats *t); /* readable when a record waits */

/* Takes what waits; ends of members (END_TASKSTATS) go to out, also of those that were already told to have ended. A
 * record of a process that no look has found waits for one more call, so that the look in between can find its zombie;
 * then it is that of a child which lived and died between two looks: if its parent is a member, it gets a birth with
 * its end. Returns 0, or -ENOBUFS: some were lost, now or before; or -errno: no more will come. */
int taskstats_read(struct taskstats *t, struct processes *p, struct framebuf *out);
/* Takes them out of the socket alone, so that it is known when they came; taskstats_read goes on with them. */
void taskstats_receive(struct taskstats *t);
/* Whether a record waits for one more call. */
bool taskstats_waits(const struct taskstats *t);

/* ---- whom the kernel killed for lack of memory -------------------------------------------------------------------- */

#define OOM_NAME 16

struct oom_victim {
	int32_t pid;
	char name[OOM_NAME];
};

/* Counts up to now. */
struct early_counts {
	struct maybe oom_kills, cgroup_oom_kills;
	struct maybe thp_faults; /* huge pages given to programs */
	char path[512]; /* the cgroup: this process's; "" none */
};

/* early_counts.c: a few small files. */
void early_counts_read(const struct root *root, bool no_cgroup, struct early_counts *ret);

/* kmsg.c: the kernel's log from here on. Returns a descriptor, -EOPNOTSUPP where the log would speak of other processes
 * by the same numbers (a pid namespace), or -errno: mostly it is root's to read. */
int oom_log_open(const struct root *root);
/* The next process that the log says was killed. Never waits. Returns 1, 0 if there is no more, or -errno: with -EPIPE the
 * kernel had overwritten what came next, and the next call goes on behind it. */
int oom_log_next(int fd, struct oom_victim *ret);

/* ---- this machine ------------------------------------------------------------------------------------------------- */

struct machine {
	char hostname[128];
	char kernel[128];
	char cpu_model[128];
	char container[32];           /* "docker", "kubernetes", "lxc", "wsl", "" */
	uint32_t cpus;                /* that this process may run on (affinity and quota apart) */
	uint32_t cpus_online;
	uint64_t page_bytes;
	uint64_t huge_page_bytes;     /* PMD size; 0: none */
	uint64_t fault_page_bytes;    /* largest page below that size that one anonymous fault may bring, page_bytes if none */
	uint64_t file_fault_bytes;    /* the most of a file that one fault may map */
	uint64_t mem_total_bytes;
	uint64_t swap_total_bytes;
	uint64_t rss_error_bytes;     /* how far one process's rss may be off: counters that this kernel adds up late */
	uint64_t hwm_error_bytes;     /* the same for VmHWM where memory was given back since the high */
	bool rss_error_per_thread;    /* both are for each thread (before Linux 6.2) */
	uint64_t boot_id_hash;
	uint64_t clock_tick_ns;
};

/* Reads what is there; what is not stays 0 or "". */
int machine_read(const struct root *root, struct machine *ret);

/* host.c: what all processes of the machine map (AnonPages + Mapped of meminfo), in bytes. Unknown where a container's file is mounted over
 * meminfo (lxcfs). */
struct maybe host_mapped(const struct root *root);
/* self.c: VmRSS and VmHWM of this process, in bytes. */
int self_memory(const struct root *root, uint64_t *ret_rss, uint64_t *ret_hwm);
/* Whose process pid is, and its name (procfs comm). Returns 0 or -errno: nobody of that number can be seen. */
int process_owner(const struct root *root, pid_t pid, char ret_name[16], uint32_t *ret_uid);
/* Has this process a child besides that one? -errno: it cannot be told. */
bool self_has_ptrace(const struct root *root); /* CAP_SYS_PTRACE is in effect: it may look into processes of others */
int self_has_children(const struct root *root, pid_t but);
/* The pid of a process that was started and has ended already, for processes_test_gate; 0: none could be started. Nobody
 * is told of its end. */
pid_t spent_pid(void);
/* Signals that wait for pid: bit n - 1 for signal n. */
int pending_signals(const struct root *root, pid_t pid, uint64_t *ret_mask);

/* find.c: processes whose name or command line matches an extended regular expression, without this process and its
 * parents. At most n are stored. Returns how many there are, -EINVAL with text for a bad expression, or -errno. */
ssize_t find_by_name(const struct root *root, const char *regex, pid_t *pids, size_t n, struct err *err);

/* SPDX-License-Identifier: MIT
 *
 * Shared by the files of the process source (processes.c, birth.c and so on, taskstats.c); no other
 * file includes this.
 *
 * A member's files are kept open and read with pread: a descriptor below /proc/PID belongs to that
 * one process forever, so it returns ESRCH once the process is gone and never reads another process
 * with the same pid. Files read by path instead (above the limit of descriptors) are verified by
 * the start time.
 */
#pragma once

#include "base/map.h"
#include "source/process/numbers.h"
#include "source/process/procfs_files.h"
#include "source/process/procfs_stat.h"
#include "source/source.h"

enum {
	WIDE_MEMBERS = 256,     /* members whose status and io are kept open as well; statm and stat
	                         * are kept open for all */
	SPARE_FDS = 96,         /* descriptors reserved for the rest of the recorder */
	ENDED_KEPT = 8192,      /* ended members to which late facts can still be added */
	ZOMBIES_KEPT = 8192,    /* with more at once, ends are reported again */
	MEMBERS_MAX = 1 << 22,
	COMMAND_MAX = 4096,
	TEXT_MAX = 16384,       /* largest file that is read in one piece */
};

enum keep {
	KEEP_STATM,
	KEEP_STAT,
	KEEP_STATUS,
	KEEP_IO,
	KEEP_SCHEDSTAT, /* of members at rest */
	KEEP_COUNT
};

/* A living process of the job. */
struct member {
	uint32_t id;
	int32_t pid;
	int32_t tid;             /* thread whose memory files are read: pid, unless the first thread
	                          * ended before others */
	int32_t vm_owner;        /* process whose memory it runs in (vfork); 0: its own */
	uint64_t start_ticks;
	uint64_t startstack, startcode, endcode; /* changed by an exec */
	uint64_t program;        /* startstack, or a substitute where the kernel hides it; 0: no
	                          * memory */
	bool hidden;
	int fd[KEEP_COUNT];      /* -1: not kept */
	char name[16];
	unsigned char launches;  /* how it numbers the processes that it starts (rank.c); 0: it is no launcher */
	struct maybe rank, ranks; /* its rank in a parallel job below hiwater, and their number */
	bool is_main, leader;    /* leader: of a session */
	bool young;              /* born after the start of the run: its whole VmHWM belongs to the
	                          * run */
	bool gone;               /* found ended in this read */
	uint64_t faults_at_start; /* faults of the children it had waited for when a PSS pass began */
	bool ignores_sigchld;
	bool visited;            /* its expensive files were read in this call */
	bool busy;               /* it ran between the last two reads of its stat, or was read only
	                          * once */
	uint64_t cpu_ticks;      /* user and system, at that read */
	unsigned rested;         /* reads of stat in a row without activity, in which its only thread slept */
	char ran[64];            /* schedstat, read before statm and stat; "": not yet */
	unsigned groups_done;    /* PROCESSES_*: groups read in this call */
	uint32_t reported_unknown; /* bit metric - M_PROC_RSS: already reported as unknown */
	uint64_t rss, rss_file, size; /* bytes, last read; size: of the address space */
	struct maybe pss_anon;   /* of the last PSS pass */
	uint64_t mapped_twice;   /* part of rss_file that it may map more than once, from its maps
	                          * as last read */
	uint64_t rss_at_status;  /* rss when status was last read */
	uint64_t activity_at_status; /* CPU time and faults in stat at that moment */
	unsigned idle_turns;     /* turns since then in which neither changed */
	struct maybe threads;
	struct maybe status;     /* exit status, if it was seen as a zombie and the kernel shows it */
	struct maybe program_hwm; /* last VmHWM of this program; a higher one proves a burst */
	uint64_t burst;          /* such a mark that no rss value contains yet; 0: none */
	/* For the end: last known values. */
	struct maybe hwm, cpu_user_ns, cpu_system_ns, cpu_waited_user_ns, cpu_waited_system_ns;
	struct maybe faults_minor, faults_major, faults_waited;
	struct io_facts io;
	struct maybe swap, hugetlb, switches, preemptions;
	/* RLIMIT_AS and RLIMIT_DATA; unknown: none, or not readable. vm: largest address space, data:
	 * VmData, both read only under such a limit. */
	struct maybe vm_limit, vm, data_limit, data;
	struct maybe vm_peak_before; /* VmPeak at its first read */
	bool limits_read;        /* since its last exec */
};

/* A member that has ended. */
struct ended {
	uint32_t id;
	int32_t pid;
	uint64_t start_ticks;
	uint64_t seen_ns;        /* CLOCK_BOOTTIME when its end was seen */
	bool is_hiwater;         /* by its name at the last read */
};

/* The last-pid gate: loadavg's fifth field. */
struct gate {
	int fd;                  /* -1: cannot be read */
	bool off;
	bool proven;             /* it showed a fork that was known */
	const char *why_not;     /* static */
	uint32_t first;          /* when the source was opened */
	uint32_t before, last;   /* at the scan before the last, at the last */
	uint32_t pid_max;
	uint32_t last_full;      /* at the last scan that walked everything */
	bool walked;             /* there was one */
	uint64_t walked_ns;      /* when it began */
	uint64_t scanned_ns;     /* when the last scan began */
};

struct processes {
	struct source_env env;
	bool ours;
	struct member *members;  /* dense; an end moves the last into the gap */
	size_t n, cap;
	struct map by_pid, by_id;/* indices of members */
	struct map ignored;      /* pids to their start in clock ticks, truncated to 32 bits */
	struct map ignored_at;   /* pids to when they were last verified as ignored, in seconds */
	struct map ignored_until; /* pids of reaped ones to their end, in seconds; only if foreign */
	struct pid_list preexisting; /* children of the recorder from before the job, and theirs; each
	                          * is ignored */
	uint64_t main_start_ticks; /* children of the recorder that are older are not part of the
	                            * job; 0: no main yet */
	struct map sessions;     /* pid of a session whose leader is or was a member to its start in
	                          * clock ticks, truncated to 32 bits */
	struct map zombies;      /* pids of members that ended and are not reaped to their start,
	                          * truncated to 32 bits */
	struct map strangers;    /* pids that a scan found not to be part of the job; forgotten when
	                          * reassigned */
	struct ended ended[ENDED_KEPT];
	size_t n_ended;          /* ever; the ring's next place is n_ended % ENDED_KEPT */
	struct map ended_by_pid; /* places in the ring: the newest of each pid */
	uint32_t last_id;
	uint64_t programs;       /* last substitute for a hidden program */
	size_t n_hidden;         /* members whose program is hidden */
	size_t n_wide, n_kept;   /* members with all descriptors; descriptors */
	size_t fd_limit;
	size_t round_active, round_others; /* where the next round of PROCESSES_IO and PROCESSES_HWM
	                                    * continues */
	bool io_moved;           /* in this call a member may have waited for a child and taken over
	                           * its I/O */
	size_t unwaited;         /* members, living and ended, that ignore SIGCHLD */
	bool foreign;            /* see processes_proc_lack */
	int32_t main_unread;     /* main's pid if foreign, until its exit record arrives; 0:
	                          * arrived, or not foreign */
	bool all;                /* every process with memory is a member */
	int children;            /* children files: 1 available, -1 missing, 0 not known yet */
	unsigned full_scans, proc_scans; /* full scans that could be skipped; scans of all of proc */
	struct gate gate;
	uint64_t tick_ns, page_bytes;
	struct files *files;     /* files.c; NULL until first used */
	char text[TEXT_MAX];     /* the file being read */
	char command[COMMAND_MAX + 1];
};

/* processes.c */

/* Whether pid, started at that time, was an ignored process that is reaped now. Only if foreign:
 * otherwise start times decide. */
bool processes_ignored_since(const struct processes *p, pid_t pid, int64_t start_boot_s);
/* CPU time of this thread. */
uint64_t thread_cpu_ns(void);

/* member.c */

/* A path below /proc, in the caller's buffer: "PID/name", or "PID/task/TID/name" if tid differs
 * from pid. Returns buf. */
#define PATH_LEN 64
#define HIWATER  "hiwater" /* name of hiwater's own processes */
#define REAPER   "hiwater-reaper" /* name of the process that reaps a recorder (python/hiwater/_core_spawn.c) */

/* The recorder of a program that measures itself (attach --control) has no job below it and is not
 * part of the job. */
enum recorder {
	RECORDER_NOT,
	RECORDER_MAY_BE, /* it has no arguments: in the middle of its exec, or at its end */
	RECORDER_IS
};
/* A member was added that no other member started: any process rejected before may descend from it. */
void processes_forget_scans(struct processes *p);

enum recorder process_recorder(struct processes *p, const struct procfs_stat *st);
/* m turned out not to be part of the job: its end is reported with the next sweep, and it stays
 * excluded. */
void member_disown(struct processes *p, struct member *m);
char *process_path(char buf[PATH_LEN], int32_t pid, int32_t tid, const char *name);

/* Reports the end of members[i] with all known facts, and forgets it; facts may be NULL. */
void member_end(
	struct processes *p, size_t i, enum end_how how, const struct end *facts, struct framebuf *out);
/* Copies the values of a stat line. */
void member_stat(struct processes *p, struct member *m, const struct procfs_stat *st);
/* Keeps one of its files open, if the limit of descriptors allows; member_close closes all of them. */
void member_keep(struct processes *p, struct member *m, enum keep which);
void member_close(struct processes *p, struct member *m);
struct maybe ticks_ns(const struct processes *p, uint64_t ticks);
struct member *member_of_pid(const struct processes *p, int32_t pid);
/* Whether the pid is still this process (reads stat). For a zombie, also stores its last facts and
 * sets gone; if only its first thread has ended, switches to another one. */
bool member_check(struct processes *p, struct member *m);
/* Parses a file io. Returns 0 or -EBADMSG. */
int process_io(const char *text, struct io_facts *ret);
/* Reads a zombie's I/O, which is final. Without root this works only if the file was opened before. */
bool member_io_last(struct member *m);
/* Sets gone; stat is the zombie's. */
void member_died(struct processes *p, struct member *m, const char *stat);
/* Reads one of its files into p->text, through the kept descriptor or by path. Returns bytes or
 * -errno; -ESRCH: gone. */
ssize_t member_read(struct processes *p, struct member *m, enum keep which);
/* Likewise by path (below the proc directory), verified to be this process's. */
ssize_t member_read_path(struct processes *p, struct member *m, const char *path, char *buf, size_t size);
bool member_is_same(struct processes *p, const struct member *m);
/* Whether it runs in another process's memory (vfork, CLONE_VM), which is counted only there. */
bool member_shares_vm(struct processes *p, struct member *m);
/* The current faults of the children it has waited for. False: could not be read. */
bool member_faults_waited(struct processes *p, struct member *m, uint64_t *ret);

/* A size of its memory without what hiwater made it touch (source_env.touched). */
uint64_t less_touched(const struct processes *p, pid_t pid, uint64_t start_ticks, uint64_t bytes);

/* Reads statm into rss and rss_file. Returns 0, or -errno: -ESRCH gone, -EAGAIN it has no memory
 * any more. */
int member_memory(struct processes *p, struct member *m);
/* Reads the stat of any pid. Returns 0 or -errno. */
int process_stat(const struct processes *p, int32_t pid, struct procfs_stat *ret);
/* Reports the end of every member with gone set. */
void members_sweep(struct processes *p, struct framebuf *out);
/* Reports a value that may be unknown: "unknown" once, then nothing until it is known again. */
void member_report(struct member *m, enum metric metric, struct maybe value, struct framebuf *out);
/* The newest ended member with this pid; 0: none. *ret_start_ticks: its start. */
uint32_t ended_find(const struct processes *p, int32_t pid, uint64_t *ret_start_ticks);
void ended_remember(struct processes *p, const struct member *m);
/* When the end of the newest one with this pid was seen, on CLOCK_BOOTTIME; 0: none. */
uint64_t ended_when(const struct processes *p, int32_t pid);
bool ended_is_hiwater(const struct processes *p, int32_t pid); /* by its name at the last read;
                                                                * false: no such member */

/* birth.c */

/* Makes the process of st a member; its birth goes to out. Returns 1, 0 if it is a thread or gone,
 * or -errno. */
int member_add(struct processes *p, const struct procfs_stat *st, bool is_main, struct framebuf *out);
/* 0 if it cannot be read. */
uint32_t process_uid(struct processes *p, int32_t pid);
/* A process that was born and reaped between two scans, known from the kernel's exit record. If
 * its parent (pid ppid; parent: its id if it is another such process, else 0) is or was a member
 * or, for a job of ours, is the recorder, its birth goes to out. Returns its id, 0 if it is not
 * part of the job. */
uint32_t member_unsampled(struct processes *p, int32_t pid, int32_t ppid, uint32_t parent, uint32_t uid,
	const char *name, struct framebuf *out);
/* Reports its birth again with the values of st: after an exec or a new name. */
void member_rebirth(
	struct processes *p, struct member *m, const struct procfs_stat *st, struct framebuf *out);

/* rank.c */

/* Whether m is a launcher, and its rank if its parent (NULL: no member) is one; after its birth and each exec. */
void rank_update(struct processes *p, struct member *m, const struct member *parent, const char *command);

/* gate.c */

void gate_init(struct processes *p);
/* Whether the last pid can be read; *ret is it. */
bool gate_read(struct processes *p, uint32_t *ret);
/* The pid assigned after pid, on the way to to. */
uint32_t gate_pid_after(const struct gate *g, uint32_t pid, uint32_t to);
/* How many pids were assigned after from, up to to. */
uint32_t gate_pids_between(const struct gate *g, uint32_t from, uint32_t to);
/* Turns the gate off if it did not show the members whose ids are above before_id. */
void gate_verify(struct processes *p, uint32_t before_id);

/* scan.c */

/* Whether none of the pids assigned since the last scan is a member's child. *ret_vanished: some
 * have ended and are unknown. */
bool gate_no_births(struct processes *p, bool *ret_vanished);

/* preexisting.c */

/* Also excludes children that the preexisting children have started since, even after their parent
 * has ended and they are the recorder's. */
void preexisting_scan(struct processes *p);

/* files.c */

void files_free(struct files *f);

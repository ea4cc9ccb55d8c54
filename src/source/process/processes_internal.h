/* SPDX-License-Identifier: MIT
 *
 * What the files of the process source (processes.c, birth.c and so on, taskstats.c) share; nobody else includes this.
 *
 * A member's files are kept open and read with pread: a descriptor below /proc/PID belongs to that one process for
 * ever, so it answers ESRCH when the process is gone and never speaks of another with the same pid. What is read by
 * path instead (past the limit of descriptors) is checked against the start time.
 */
#pragma once

#include "base/map.h"
#include "source/process/numbers.h"
#include "source/process/procfs_files.h"
#include "source/process/procfs_stat.h"
#include "source/source.h"

enum {
	WIDE_MEMBERS = 256,     /* members whose status and io are kept open as well; statm and stat are of all */
	SPARE_FDS = 96,      /* descriptors left to the rest of the recorder */
	ENDED_KEPT = 8192,    /* ended members that late facts can still be added to */
	ZOMBIES_KEPT = 8192,    /* more at once are told of again */
	MEMBERS_MAX = 1 << 22,
	COMMAND_MAX = 4096,
	TEXT_MAX = 16384,   /* of any file that is read in one piece */
};

enum keep {
	KEEP_STATM,
	KEEP_STAT,
	KEEP_STATUS,
	KEEP_IO,
	KEEP_COUNT
};

/* A living process of the job. */
struct member {
	uint32_t id;
	int32_t pid;
	int32_t tid;             /* whose memory files are read: pid, unless its first thread has ended before others */
	int32_t lender;          /* process whose memory it runs in (vfork); 0: its own */
	uint64_t start_ticks;
	uint64_t startstack, startcode, endcode; /* an exec changes them */
	uint64_t program;        /* startstack, or what stands for it where that is hidden; 0: it has no memory */
	bool hidden;
	int fd[KEEP_COUNT];      /* -1: not kept */
	char name[16];
	bool is_main, leader;    /* leader: of a session */
	bool young;              /* born after the run's start: its whole VmHWM is the run's */
	bool gone;               /* found ended in this read */
	uint64_t faults_then;    /* of children that it waited for, when a PSS pass began */
	bool ignores_sigchld;
	bool visited;            /* what is dear was read in this call */
	bool busy;               /* it ran between the last two readings of its stat, or was read once only */
	uint64_t cpu_ticks;      /* user and system, then */
	unsigned got;            /* PROCESSES_*: what this read brought */
	uint32_t silent;         /* bit metric - M_PROC_RSS: "unknown" was said already */
	uint64_t rss, rss_file;  /* bytes, last reading */
	struct maybe pss_anon;   /* of the last PSS pass */
	uint64_t twice;          /* of rss_file, so much may be pages that it maps more than once, by its maps as read last */
	uint64_t rss_at_marks;   /* rss when status was read last */
	uint64_t stirs_at_marks; /* and what stat had counted of it then: processor time, faults */
	unsigned slept;          /* turns since then that found neither changed */
	struct maybe threads;
	struct maybe status;     /* how it ended, if it was seen as a zombie and that may be known */
	struct maybe mark;       /* last VmHWM of this program; a higher one proves a burst */
	uint64_t burst;          /* such a mark that no rss reading has told of yet; 0: none */
	/* For the end: what was last known. */
	struct maybe hwm, cpu_user_ns, cpu_system_ns, cpu_waited_user_ns, cpu_waited_system_ns;
	struct maybe faults_minor, faults_major, faults_waited;
	struct io_facts io;
	struct maybe swap, hugetlb, switches, preemptions;
};

/* A member that has ended. */
struct ended {
	uint32_t id;
	int32_t pid;
	uint64_t start_ticks;
	uint64_t seen_ns;        /* CLOCK_BOOTTIME at which its end was seen */
	bool is_hiwater;         /* by its name, when it was looked at last */
};

/* The last-pid gate: loadavg's fifth field. */
struct gate {
	int fd;                  /* -1: cannot be read */
	bool off;
	bool proven;             /* it told of a fork that was known of */
	const char *why_not;     /* static */
	uint32_t first;          /* when the source was opened */
	uint32_t before, last;   /* at the look before the last, at the last */
	uint32_t pid_max;
	uint32_t last_full;      /* at the last look that went through all */
	bool walked;             /* there was one */
	uint64_t walked_ns;      /* when it began */
	uint64_t looked_ns;      /* when the last look began */
};

struct processes {
	struct source_env env;
	bool ours;
	struct member *members;  /* dense; an end moves the last into the gap */
	size_t n, cap;
	struct map by_pid, by_id;/* indices of members */
	struct map ignored;      /* pids, to their start in ticks, cut to 32 bits */
	struct map ignored_at;   /* and to when they were last seen to be who is ignored, in seconds */
	struct map ignored_until; /* pids of those who are reaped, to when, in seconds; only where foreign */
	struct pid_list elders;  /* who was below the recorder before the job, and whom they start; each ignored */
	uint64_t main_start_ticks; /* children of the recorder that are older are none of the job's; 0: no main yet */
	struct map sessions;     /* pid of a session whose leader is or was a member, to its start in ticks, cut to 32 bits */
	struct map zombies;      /* pids of members that ended and are not reaped, to their start, cut to 32 bits */
	struct map strangers;    /* pids that a scan found to be none of the job's; forgotten when handed out again */
	struct ended ended[ENDED_KEPT];
	size_t n_ended;          /* ever; the ring's next place is n_ended % ENDED_KEPT */
	struct map ended_by_pid; /* places in the ring: of a pid's newest */
	uint32_t last_id;
	uint64_t programs;       /* the last number that stands for a hidden one */
	size_t n_hidden;         /* members of whom that was hidden */
	size_t n_wide, n_kept;   /* members with all descriptors; descriptors */
	size_t fd_limit;
	size_t round_awake, round_rest; /* where the next round of PROCESSES_IO and PROCESSES_MARKS goes on */
	bool took_over;          /* somebody may have waited for a child, whose I/O it has now, in this call */
	size_t unwaited;         /* members, living and ended, seen to ignore SIGCHLD */
	bool foreign;            /* see processes_foreign */
	int32_t main_unread;     /* main's pid where foreign, until its exit record tells of it; 0: told, or not foreign */
	bool all;                /* whoever has memory is a member */
	int children;            /* children files: 1 there, -1 missing, 0 not known yet */
	unsigned looks, scans;   /* full looks that could be left out; scans of all of proc */
	struct gate gate;
	uint64_t tick_ns, page_bytes;
	struct files *files;     /* files.c; NULL until first used */
	char text[TEXT_MAX];     /* the file that is being read */
	char command[COMMAND_MAX + 1];
};

/* processes.c */

/* Was the process of that pid, which began then, one that is ignored and reaped? Only where foreign: else starts tell. */
bool processes_ignored_since(const struct processes *p, pid_t pid, int64_t start_boot_s);
/* Processor time of this thread. */
uint64_t thread_cpu_ns(void);

/* member.c */

/* A path below /proc, in the caller's buffer: "PID/name", or "PID/task/TID/name" where tid is not pid. Returns buf. */
#define PATH_LEN 64
#define HIWATER  "hiwater" /* what its own processes are called */

/* The recorder of a program that measures itself (attach --control), which has no job below it: none of the job's. */
enum recorder {
	RECORDER_NOT,
	RECORDER_MAY_BE, /* it has no arguments: in the middle of its exec, or at its end */
	RECORDER_IS
};
/* A member that none of them has started: whoever was a stranger may descend from it. */
void processes_newcomer(struct processes *p);

enum recorder process_recorder(struct processes *p, const struct procfs_stat *st);
/* It turned out to be none of the job's: its end is told with the next sweep, and it stays out. */
void member_disown(struct processes *p, struct member *m);
char *process_path(char buf[PATH_LEN], int32_t pid, int32_t tid, const char *name);

/* Tells of the end of members[i] with how and what is known, and forgets it; facts may be NULL. */
void member_end(struct processes *p, size_t i, enum end_how how, const struct end *facts, struct framebuf *out);
/* Takes over what a stat line says. */
void member_stat(struct processes *p, struct member *m, const struct procfs_stat *st);
/* Keeps one of its files open, if the limit of descriptors allows; and closes all of them. */
void member_keep(struct processes *p, struct member *m, enum keep which);
void member_close(struct processes *p, struct member *m);
struct maybe ticks_ns(const struct processes *p, uint64_t ticks);
struct member *member_of_pid(const struct processes *p, int32_t pid);
/* Whether the process is still the one that it was (reads stat). On a zombie also takes its last facts and sets gone;
 * where only its first thread has ended, turns to another one. */
bool member_check(struct processes *p, struct member *m);
/* What a file io says. Returns 0 or -EBADMSG. */
int process_io(const char *text, struct io_facts *ret);
/* What a zombie's says is final. Others than root may read it only where the file was opened before. */
bool member_io_last(struct member *m);
/* Sets gone; stat is what a zombie's says. */
void member_died(struct processes *p, struct member *m, const char *stat);
/* Reads one of its files into p->text, by the kept descriptor or by path. Returns bytes or -errno; -ESRCH: gone. */
ssize_t member_read(struct processes *p, struct member *m, enum keep which);
/* Likewise by path (below the proc directory), and checked to be its own. */
ssize_t member_read_path(struct processes *p, struct member *m, const char *path, char *buf, size_t size);
bool member_is_same(struct processes *p, const struct member *m);
/* Whether it runs in another process's memory (vfork, CLONE_VM), which then counts there alone. */
bool member_borrows(struct processes *p, struct member *m);
/* The faults of the children that it has waited for, now. False: that could not be read. */
bool member_faults_waited(struct processes *p, struct member *m, uint64_t *ret);

/* Reads statm into rss and rss_file. Returns 0, or -errno: -ESRCH gone, -EAGAIN it has no memory any more. */
int member_memory(struct processes *p, struct member *m);
/* Reads the stat of pid, whoever it is. Returns 0 or -errno. */
int process_stat(const struct processes *p, int32_t pid, struct procfs_stat *ret);
/* Every member with gone set has its end told. */
void members_sweep(struct processes *p, struct framebuf *out);
/* A reading that may be unknown: told once, then silent until it is had again. */
void member_tell(struct member *m, enum metric metric, struct maybe value, struct framebuf *out);
/* An ended member: the newest one with this pid; 0: none. start_ticks of it goes to *ret_start_ticks. */
uint32_t ended_find(const struct processes *p, int32_t pid, uint64_t *ret_start_ticks);
void ended_remember(struct processes *p, const struct member *m);
/* When the end of the newest of that pid was seen, on CLOCK_BOOTTIME; 0: there is none. */
uint64_t ended_when(const struct processes *p, int32_t pid);
bool ended_is_hiwater(const struct processes *p, int32_t pid); /* by its name at the last look; false: there is none */

/* birth.c */

/* Makes the process that st speaks of a member; its birth goes to out. Returns 1, 0 if it is a thread or gone, or
 * -errno. */
int member_add(struct processes *p, const struct procfs_stat *st, bool is_main, struct framebuf *out);
/* 0 where that cannot be read. */
uint32_t process_uid(struct processes *p, int32_t pid);
/* A process that lived and died between two looks, by the word of the kernel's exit record. If its parent (pid ppid; parent:
 * its id, if it is another such one, else 0) is or was a member or, for a job of ours, is the recorder, its birth goes to out.
 * Returns its id, 0 if it is a stranger. */
uint32_t member_missed(struct processes *p, int32_t pid, int32_t ppid, uint32_t parent, uint32_t uid, const char *name,
	struct framebuf *out);
/* Sends its birth again with what st says: an exec or a new name. */
void member_rebirth(struct processes *p, struct member *m, const struct procfs_stat *st, struct framebuf *out);

/* gate.c */

void gate_init(struct processes *p);
/* Whether the last pid can be read; *ret is it. */
bool gate_read(struct processes *p, uint32_t *ret);
/* The pid that is handed out after pid, on the way to to. */
uint32_t gate_pid_after(const struct gate *g, uint32_t pid, uint32_t to);
/* How many pids were handed out after from, up to to. */
uint32_t gate_pids_between(const struct gate *g, uint32_t from, uint32_t to);
/* Turns the gate off if it has not told of the members whose ids are above before_id. */
void gate_doubt(struct processes *p, uint32_t before_id);

/* look.c */

/* Whether each of the pids handed out since the last look is no member's child. *ret_vanished: of some nobody knows. */
bool gate_quiet(struct processes *p, bool *ret_vanished);

/* elders.c */

/* Whom elders have started since is none of the job's either, also once its parent is gone and it is the recorder's. */
void elders_look(struct processes *p);

/* files.c */

void files_free(struct files *f);

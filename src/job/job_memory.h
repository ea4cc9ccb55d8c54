/* SPDX-License-Identifier: MIT
 *
 * What is kept of the memory of a job from look to look: of fork families, of looks, of bursts between them.
 */
#pragma once

#include "base/maybe.h"
#include "model/frame.h"

/* A figure over all members, and one over all but main. */
enum set {
	ALL,
	REST,
	SETS
};

enum {
	ANCHORS = 4
};

/* What a fork family held at most at some instant, less what its faults may have brought until then. Its anonymous
 * memory at any later time is at most value + what its faults may have brought until that time. */
struct anchor {
	int64_t value;
	uint64_t time_ns;
};

/* Members that share pages since a fork: a founder and those of its descendants that run the same program still. */
struct family {
	bool used;
	uint32_t generation, living;
	int64_t ended;         /* faults of members that left or ended and that no living parent in it tells */
	int64_t kept;          /* own faults of those of them that had forked: what these brought others may hold */
	int64_t faults_before; /* of the family at the last total: read before whatever memory is read now */
	int64_t faults_earlier; /* at the total before that: read before the memory that the last one told of */
	struct anchor anchors[ANCHORS]; /* older and looser first */
	unsigned n_anchors;
	int64_t swelled;       /* by what its members' anonymous memory has risen, look by look */
	int64_t grown;         /* the same in steps of a huge page: of less the faults tell, and rss is not that exact everywhere */
	int64_t gone;          /* bytes: of what faults of its members brought, what none can hold any more */
	int64_t gone_surely;   /* likewise, less what a child may hold that showed late */
	uint64_t base_seq;     /* frame in which an anchor was taken */
	struct {
		bool set;
		int64_t anon, brought, swelled, grown; /* then */
		uint64_t seq;
	} since;               /* the look from which what it probably holds is counted */
	struct {
		int64_t told[SETS];   /* bytes at most at the last total */
		struct maybe read;    /* until its faults were read, behind that one's memory */
		bool lacks;           /* that one may lack a member */
		int64_t lost[SETS];   /* what members held then and do not now, added up */
		int64_t late[SETS];   /* of that, those that ended during the look */
	} lately;
	/* From here on: of the look that is being added up. */
	int64_t anon[SETS], faults;
	int64_t own;           /* faults of the living themselves, and those that are kept */
	int64_t unheld[SETS];  /* bytes that faults brought and, beside what is gone, none of the set can hold now */
	int64_t apart[SETS];   /* the same with what is probably no anonymous memory at all */
	int64_t largest;       /* anonymous memory of one member */
	int64_t most[SETS];    /* what it holds at most */
	struct maybe anchored; /* what it held at most until its faults were read */
	uint32_t n;
	bool stale;            /* faults of a member are older than the memory */
	bool uncounted;        /* a member's memory or faults are not fit for an anchor */
};

/* Everything that one pass over the living gives. */
struct look {
	size_t n;
	int64_t rss_sum, anon_sum, main_rss, main_anon;
	int64_t files_sum[SETS], files_growth[SETS];
	int64_t shrunk;        /* by how much relatives by fork are smaller than at the last total */
	int64_t back[SETS], back_likely[SETS]; /* what relatives by fork brought and gave back since the last total: of all, of one */
	int64_t back_new[SETS]; /* of those of whom it did not tell: none of it went from what it told */
	int64_t largest[SETS];
	bool main_alive, main_known;
	uint64_t seq;          /* of the job when it was made */
};

/* Marks above all that was seen, until a total tells of them. */
struct burst {
	int64_t low;           /* the largest mark */
	int64_t base;          /* the most that others + seen were for one of them */
	int64_t sum;           /* of the excesses over what was seen */
	int64_t likely;        /* what all held beside one of them, and it, most probably */
	bool any;
	/* Of relatives by fork, whose sizes do not show what they hold alone: what late faults brought those that have ended. */
	int64_t late, late_likely; /* of all; the most of one that probably held it */
	int64_t late_most;     /* sizes of those whose last faults nobody told of: their parents', who waited for them, do */
	/* Of processes that lived and died between two looks, as exit records tell: */
	int64_t missed_likely; /* the most that there probably was with one of them */
};

/* One that lived and died between two looks, as its exit record tells. */
struct missed {
	uint32_t parent;
	enum end_program program;
	int64_t bytes, faults;
};

/* Those since the last total. */
struct missed_ones {
	struct missed *list;
	size_t n, cap;
	int64_t bytes;         /* of all, none left out */
	uint64_t seq;          /* frame that told of the last of them */
};

/* What was held at the last total and is not now, and who ended since. What these prove later, they may have held beside all
 * that came meanwhile. */
struct lately {
	int64_t anon[SETS];    /* of families */
	int64_t late[SETS];    /* of those that ended during this look: they may have been there beside what the next one finds */
	int64_t before[SETS];  /* the same of the last look */
	int64_t files[SETS];   /* of all, added up */
	int64_t files_most[SETS]; /* at the last total */
	struct maybe faults;   /* of all, since before the memory was read that it told of */
	int64_t untold[SETS];  /* sizes of those that ended and that it did not tell of */
	uint32_t *ids;         /* of those that ended */
	size_t n, cap;
};

/* What a member can have been since its mark was read last. */
struct unmarked {
	int64_t faults, huge;  /* its own, and huge pages given to whomever, when a total had both anew */
	int64_t anon;          /* its anonymous memory then */
	int64_t ahead;         /* bytes that faults brought until then, which no look at its memory can have shown */
	int64_t top;           /* its rss then, or what it was larger since by files */
	uint64_t rss_seq;      /* frame of that look */
	int64_t most;          /* what it was at most since its mark was read; 0: no more than was seen */
	uint64_t exec_seq;     /* frame that told of another program, until a total has its faults; 0: none */
};

/* Of those whose mark nobody reads any more: from when to when, and what of it was seen. */
struct unmarked_span {
	uint64_t since_ns, until_ns;
	int64_t base[SETS];    /* all that was known to be held meanwhile, what was seen of it among that */
	int64_t most, seen;
	uint32_t id;           /* 0: several */
	uint32_t together;     /* so many at one time */
	bool is_main;
};

struct unmarked_spans {
	struct unmarked_span *list;
	size_t n, cap;
	size_t settled;        /* the next total tells what was held beside the others */
};

/* A total at the last look, its largest since marks were read last, and in the span before that. */
struct recent {
	int64_t last, now, before;
};

struct pass {
	bool valid, fresh;     /* ever valid; since the last total */
	int64_t pss[SETS];     /* the least that they hold */
	int64_t held[SETS];    /* what they hold; pages that strangers map too are in it in part */
	int64_t private_part[SETS], whole[SETS]; /* private_part of whole is private */
	bool lone[SETS];       /* it was of one process */
	uint64_t at_ns;        /* of the last valid one */
	int64_t likely[SETS];  /* what the families said then */
	int64_t adding[SETS], adding_private; /* readings since the last job_pss_done */
	int64_t main_private;  /* likewise; all there is if it was not read */
};

/* How what was held at a look is split: part of whole was private, as of at_ns. */
struct split {
	int64_t held, part, whole; /* whole 0: nobody knows */
	bool alone;            /* one process held it */
	bool lone;             /* the split is of one process */
	uint64_t at_ns;
	int64_t seen;          /* processes of the job until then */
};

/* How far the sum of rss has risen since a pass looked at it. */
struct growth {
	int64_t top, passed;
	unsigned still;        /* totals since top rose */
	unsigned tries;        /* spoilt passes at this level */
};

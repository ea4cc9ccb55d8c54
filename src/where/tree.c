/* SPDX-License-Identifier: MIT */
#include "where/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/longfile.h"
#include "base/map.h"
#include "base/smallfile.h"
#include "model/where.h"
#include "where/copies.h"

enum {
	PAGE = 4096,
	GROWN_PERCENT = 5,        /* since the last check: another is due */
	LOST_PARTS = 100,         /* of the total: that may end before a high is settled */
	KEPT_FDS = 2000,          /* of statm */
	PYTHON_TRIES = 8,         /* reads of stacks at a time */
	NEAR_SAMPLES = 4,         /* of a page that was copied: so many samples' bytes from one of the parent's */
	PIDS = 10000,
	RAW_MOST = 40 << 20,      /* of stacks that are not unwound; further ones are not known */
};
static const uint64_t fallen_bytes = 4 << 20, least_bytes = 1 << 20, pythons_every_ns = 10000000;

/* Processes that share pages, in the order of their forks. */
struct family {
	struct process *first, *last;
};

struct process {
	struct process *next, *before; /* of the family */
	struct process *parent;   /* in the family, alive; NULL: none */
	struct family *family;
	size_t place;             /* in the list */
	pid_t pid;
	char name[16];
	uint32_t number;          /* for samples; 0: it has none */
	struct image *image;
	struct samples samples;
	struct check_files files;
	int statm;                /* -1: not open */
	struct python_home python;
	uint64_t risen;           /* of counted, in the last 10 ms or more */
	bool was_eldest;          /* when counted was read: else it is another figure */
	bool has_executed;        /* else it is hiwater's copy, before the job's program */
	bool was_there;           /* before the sampler */
	uint64_t fork_ns;
	uint64_t anonymous, mapped; /* bytes, by statm */
	uint64_t most;            /* of anonymous, since the last check */
	size_t n_new;             /* samples since then */
	bool is_missing;          /* its pages cannot be read: it ended, and its record is to come or was lost */
	struct check_result checked;
	uint64_t counted, checked_counted; /* bytes that the tree's total has of it; that of the check */
	uint64_t growth;          /* bytes that it touched since sizes were read last, */
	uint64_t grown_number;    /* by samples up to this number */
};

struct tree {
	struct tree_options options;
	struct check *check;
	struct process **list;
	size_t n, cap;
	struct map places;        /* of pids */
	struct tree_process *processes; /* with samples, ended ones too */
	size_t n_processes, cap_processes;
	pid_t *pids;              /* of all processes */
	size_t n_pids;
	uint64_t samples, lost, before;
	size_t raw_bytes;
	struct map twins;         /* from the fingerprint of a stack to the place, + 1, in firsts */
	struct sample **firsts;   /* the first sample of each stack */
	size_t n_firsts, cap_firsts;
	uint64_t total;           /* by the last sizes, without processes that ended since */
	uint64_t ticked_samples;  /* when they were read */
	uint64_t lost_bytes;      /* of processes that ended since the last high was settled */
	uint64_t checked_total, checked_ns;
	uint64_t checked_left;    /* of checked_total, without processes that ended since */
	bool has_checked, is_fallen;
	/* the highest moment that is not settled: what was alive then still is */
	struct {
		uint64_t total, time_ns, samples;
		struct pythons pythons;
		bool is_open;
	} best;
	struct tree_high highs[WHERE_HIGHS + 1];
	size_t n_highs;
	uint32_t last_number, dropped[WHERE_HIGHS];
	size_t n_dropped;
	uint64_t risen_ns;        /* since when sizes of processes rose as they say */
	struct python_budget budget;
	bool lacks_pythons, rise_is_over;
};

/* ---- processes ------------------------------------------------------------------------------- */

static struct process *find(const struct tree *t, pid_t pid)
{
	uint32_t place;

	return map_get(&t->places, (uint64_t) pid, &place) ? t->list[place] : NULL;
}

static void leave_family(struct process *p)
{
	struct family *const f = p->family;

	if (p->before)
		p->before->next = p->next;
	else
		f->first = p->next;
	if (p->next)
		p->next->before = p->before;
	else
		f->last = p->before;
	p->next = p->before = NULL;
	p->family = NULL;
	if (!f->first)
		free(f);
}

static bool join_family(struct process *p, struct family *f)
{
	if (!f)
		f = calloc(1, sizeof(*f));
	if (!f)
		return false;
	p->family = f;
	p->before = f->last;
	if (f->last)
		f->last->next = p;
	else
		f->first = p;
	f->last = p;
	return true;
}

static bool is_eldest(const struct process *p)
{
	return p->family->first == p;
}

static void free_process(struct process *p)
{
	if (p->family)
		leave_family(p);
	samples_done(&p->samples);
	check_files_done(&p->files);
	image_leave(p->image);
	python_home_leave(&p->python);
	if (p->statm >= 0)
		(void) close(p->statm);
	free(p);
}

/* Takes the image. */
static struct process *add_process(struct tree *t, pid_t pid, struct family *family, struct image *image)
{
	struct process *const p = calloc(1, sizeof(*p));

	if (p)
		*p = (struct process) { .pid = pid, .statm = -1, .image = image };
	if (t->n == t->cap) {
		const size_t cap = t->cap ? 2 * t->cap : 64;
		struct process **const list = realloc(t->list, cap * sizeof(struct process *));

		if (list) {
			t->list = list;
			t->cap = cap;
		}
	}
	if (!p || !image || t->n == t->cap || !join_family(p, family) ||
		map_put(&t->places, (uint64_t) pid, (uint32_t) t->n) < 0) {
		if (p)
			free_process(p);
		else
			image_leave(image);
		return NULL;
	}
	p->place = t->n;
	t->list[t->n++] = p;
	if (t->n_pids < PIDS)
		t->pids[t->n_pids++] = pid;
	return p;
}

/* For samples and highs. 0: there are too many. */
static uint32_t number_of(struct tree *t, struct process *p)
{
	if (p->number)
		return p->number;
	if (t->n_processes == t->cap_processes) {
		const size_t cap = t->cap_processes ? 2 * t->cap_processes : 64;
		struct tree_process *const list = cap <= 2 * WHERE_PROCESSES ? realloc(t->processes,
										       cap * sizeof(*list))
									     : NULL;

		if (!list)
			return 0;
		t->processes = list;
		t->cap_processes = cap;
	}
	t->processes[t->n_processes].pid = p->pid;
	memcpy(t->processes[t->n_processes].name, p->name, sizeof(p->name));
	p->number = (uint32_t) ++t->n_processes;
	return p->number;
}

static void open_statm(struct tree *t, struct process *p)
{
	char name[32];

	(void) snprintf(name, sizeof(name), "%d/statm", (int) p->pid);
	p->statm = openat(t->options.proc, name, O_RDONLY | O_CLOEXEC);
}

/* "2091 1234 567 ...": pages in all, resident, of them mapped from files or shared. Zeros of a
 * process that ended. */
static void read_size(struct tree *t, struct process *p)
{
	char text[128];
	ssize_t n;
	uint64_t resident, mapped;
	char *at = text;

	if (p->statm < 0)
		open_statm(t, p);
	n = p->statm >= 0 ? pread(p->statm, text, sizeof(text) - 1, 0) : -1;
	if (t->n > KEPT_FDS && p->statm >= 0) {
		(void) close(p->statm);
		p->statm = -1;
	}
	text[n > 0 ? n : 0] = '\0';
	(void) strtoull(at, &at, 10);
	resident = strtoull(at, &at, 10) * PAGE;
	mapped = strtoull(at, &at, 10) * PAGE;
	p->anonymous = resident > mapped ? resident - mapped : 0;
	p->mapped = mapped;
}

/* Of those that share pages with an elder one: what it touched itself. */
static uint64_t own_bytes(const struct tree *t, const struct process *p)
{
	if (is_eldest(p))
		return p->anonymous;
	return p->checked.sampled + p->n_new * t->options.period * PAGE;
}

/* ---- highs ----------------------------------------------------------------------------------- */

/* The memory rose to the next one then. */
static void remove_high(struct tree *t, size_t i)
{
	if (t->n_dropped < WHERE_HIGHS)
		t->dropped[t->n_dropped++] = t->highs[i].number;
	pythons_join(&t->highs[i + 1].pythons, &t->highs[i].pythons);
	t->highs[i + 1].is_new = true;
	high_done(&t->highs[i]);
	memmove(&t->highs[i], &t->highs[i + 1], (t->n_highs - i - 1) * sizeof(*t->highs));
	t->n_highs--;
}

static void thin_highs(struct tree *t)
{
	if (t->n_highs >= WHERE_HIGHS)
		remove_high(t, high_least_needed(t->highs, t->n_highs));
}

/* The last one again, unless it has grown by so much that it is another. */
static struct tree_high *open_high(struct tree *t)
{
	struct tree_high *last = t->n_highs ? &t->highs[t->n_highs - 1] : NULL;

	if (last && t->best.total < last->total_bytes + last->total_bytes * GROWN_PERCENT / 100) {
		const uint32_t number = last->number;
		const bool was_sent = last->was_sent;
		const struct pythons pythons = last->pythons;

		last->pythons.n = 0;
		high_done(last);
		last->pythons = pythons;
		last->number = number;
		last->was_sent = was_sent;
		return last;
	}
	thin_highs(t);
	last = &t->highs[t->n_highs++];
	*last = (struct tree_high) { .number = ++t->last_number };
	return last;
}

/* What a sample stands for that came since the last check: its part of the growth, within its
 * weight. */
static uint64_t bytes_of_new(const struct tree *t, size_t n)
{
	const uint64_t before = t->has_checked ? t->checked_left : 0;
	const uint64_t growth = t->best.total > before ? t->best.total - before : 0;
	const uint64_t weight = (uint64_t) t->options.period * PAGE;
	const double share = n ? (double) growth / (double) n : 0;

	return share < (double) weight ? (uint64_t) share : weight;
}

/* An ancestor's pages are those that it had at the first fork on the way. */
static void mark_copies(struct tree *t)
{
	const uint64_t near_bytes = (uint64_t) t->options.period * PAGE * NEAR_SAMPLES;

	for (size_t i = 0; i < t->n; i++) {
		const struct process *const p = t->list[i];
		uint64_t fork_ns = UINT64_MAX;

		if (!p->parent)
			continue;
		struct copies c = copies_of(&p->samples, p->fork_ns);

		for (const struct process *q = p; c.n > 0 && q->parent; q = q->parent) {
			fork_ns = q->fork_ns < fork_ns ? q->fork_ns : fork_ns;
			copies_mark(&c, &q->parent->samples, fork_ns, near_bytes);
		}
		copies_done(&c);
	}
}

void tree_settle(struct tree *t)
{
	struct tree_high *h;
	size_t n_new = 0, cap = 0;
	uint64_t each;

	if (!t->best.is_open)
		return;
	t->best.is_open = false;
	t->lost_bytes = 0;
	h = open_high(t);
	h->time_boot_ns = t->best.time_ns;
	h->total_bytes = t->best.total;
	h->checked_boot_ns = t->checked_ns;
	h->checked_bytes = t->checked_total;
	h->lost = t->lost;
	h->is_new = true;
	pythons_join(&h->pythons, &t->best.pythons);
	for (size_t i = 0; i < t->n; i++) {
		for (size_t k = 0; k < t->list[i]->samples.n && !t->list[i]->is_missing; k++) {
			const struct sample *const s = t->list[i]->samples.list[k];

			n_new += !s->is_dead && !s->is_checked && s->number <= t->best.samples;
		}
	}
	each = bytes_of_new(t, n_new);
	mark_copies(t);
	for (size_t i = 0; i < t->n; i++) {
		const struct process *const p = t->list[i];

		if (p->is_missing)
			continue;
		h->huge_bytes += p->checked.huge;
		for (size_t k = 0; k < p->files.n; k++)
			high_add_file(h, &p->files.list[k]);
		for (size_t k = 0; k < p->samples.n; k++) {
			struct sample *const s = p->samples.list[k];
			const uint64_t bytes = s->is_checked ? s->bytes : s->number <= t->best.samples ? each
												       : 0;

			if (!s->is_dead && bytes > 0)
				high_add_share(h, &cap, s, bytes);
		}
	}
}

/* ---- checks -----------------------------------------------------------------------------------
 * */

static void check_one(struct tree *t, struct process *p, struct map *shared)
{
	struct check_files files = { .list = NULL };
	const struct check_options options = {
		.proc = t->options.proc,
		.pid = p->pid,
		.period = t->options.period,
		.by_samples = !is_eldest(p) || p->was_there,
		.most_bytes = p->anonymous + p->mapped,
		.files = &files,
		.shared = shared,
	};
	struct check_result result;

	if (check_process(t->check, &options, &p->samples, &result) < 0) {
		check_files_done(&files);
		p->most = p->anonymous; /* else it has fallen whenever it is read */
		p->is_missing = p->anonymous + p->mapped == 0;
		return;
	}
	p->is_missing = false;
	check_files_done(&p->files);
	p->files = files;
	p->checked = result;
	p->n_new = 0;
	p->most = p->anonymous;
	samples_drop_dead(&p->samples);
}

/* Eldest ones first, so that they have the shared memory. */
static void check(struct tree *t, uint64_t now_ns)
{
	struct map shared = { 0 };

	for (int elder = 1; elder >= 0; elder--) {
		for (size_t i = 0; i < t->n; i++) {
			struct process *const p = t->list[i];

			if (p->has_executed && is_eldest(p) == elder &&
				(p->samples.n > 0 || p->anonymous >= least_bytes))
				check_one(t, p, &shared);
		}
	}
	map_done(&shared);
	for (size_t i = 0; i < t->n; i++)
		t->list[i]->checked_counted = t->list[i]->counted;
	t->has_checked = true;
	t->is_fallen = false;
	t->checked_total = t->checked_left = t->total;
	t->checked_ns = now_ns;
}

static bool raise_best(struct tree *t, uint64_t total, uint64_t now_ns)
{
	const uint64_t high = t->n_highs ? t->highs[t->n_highs - 1].total_bytes : 0;

	if (total <= high || (t->best.is_open && total <= t->best.total))
		return false;
	t->best.total = total;
	t->best.time_ns = now_ns;
	t->best.samples = t->samples;
	t->best.is_open = true;
	return true;
}

static struct process *most_risen(const struct tree *t)
{
	struct process *most = NULL;

	for (size_t i = 0; i < t->n; i++) {
		struct process *const p = t->list[i];

		if (python_home_may(&p->python) && p->risen > (most ? most->risen : 0))
			most = p;
	}
	return most;
}

/* Of the processes that have grown most since the last time; unless the memory rose more before. */
static void read_pythons(struct tree *t, uint64_t now_ns)
{
	struct pythons new = { .n = 0 };
	struct process *p;
	unsigned tries = 0;
	const uint64_t begin = clock_thread_cpu_ns();

	for (size_t i = 0; i < t->n; i++)
		new.risen_bytes += t->list[i]->risen;
	if (new.risen_bytes < t->best.pythons.risen_bytes || !python_budget_left(&t->budget, now_ns))
		return;
	while (tries++ < PYTHON_TRIES && new.n < WHERE_PYTHONS && (p = most_risen(t))) {
		p->risen = 0;
		if (number_of(t, p) > 0 &&
			pythons_read(&new, &p->python, p->pid, p->number, now_ns) == -EPERM)
			t->lacks_pythons = true;
	}
	t->budget.spent_ns += clock_thread_cpu_ns() - begin;
	if (new.n > 0)
		pythons_join(&t->best.pythons, &new);
}

static void count_bytes(const struct tree *t, struct process *p)
{
	const uint64_t bytes = own_bytes(t, p);

	if (p->was_eldest == is_eldest(p))
		p->risen += counter_delta(p->counted, bytes);
	p->was_eldest = is_eldest(p);
	p->counted = bytes;
}

uint64_t tree_tick(struct tree *t, uint64_t now_ns, uint64_t credit_ns)
{
	uint64_t total = 0, mapped = 0, begin;

	for (size_t i = 0; i < t->n; i++) {
		struct process *const p = t->list[i];

		if (!p->has_executed)
			continue;
		read_size(t, p);
		p->risen = t->rise_is_over ? 0 : p->risen;
		count_bytes(t, p);
		p->growth = 0;
		p->grown_number = t->samples;
		total += p->counted;
		if (p->mapped > mapped)
			mapped = p->mapped;
		if (p->anonymous > p->most)
			p->most = p->anonymous;
		t->is_fallen = t->is_fallen || (p->anonymous + fallen_bytes <= p->most && p->samples.n > 0);
	}
	total += mapped;
	t->total = total;
	t->ticked_samples = t->samples;

	const bool is_raised = !t->is_fallen && raise_best(t, total, now_ns);

	t->rise_is_over = now_ns >= t->risen_ns + pythons_every_ns;

	if (is_raised && t->rise_is_over)
		read_pythons(t, now_ns);
	if (t->rise_is_over)
		t->risen_ns = now_ns;

	const bool has_grown = t->best.is_open && total >= t->best.total &&
			       (!t->has_checked ||
				       total >= t->checked_total + t->checked_total * GROWN_PERCENT / 100);

	if ((!t->is_fallen && !has_grown) || credit_ns == 0)
		return 0;
	begin = clock_thread_cpu_ns();
	if (t->is_fallen)
		tree_settle(t); /* as it was before */
	check(t, now_ns);
	if (has_grown && !t->best.is_open)
		(void) raise_best(t, total, now_ns);
	return clock_thread_cpu_ns() - begin;
}

void tree_end(struct tree *t, uint64_t now_ns)
{
	if (t->n_highs == 0)
		(void) raise_best(t, t->total > 0 ? t->total : PAGE, now_ns);
	tree_settle(t);
}

/* ---- records --------------------------------------------------------------------------------- */

/* One with an equal stack; NULL: there is none, and the sample becomes the first. */
static struct sample *find_twin(struct tree *t, struct process *p, struct sample *s)
{
	const uint64_t key = image_fingerprint(p->image, s->record);
	uint32_t place;

	if (map_get(&t->twins, key, &place))
		return t->firsts[place - 1];
	if (vec_reserve(&t->firsts, &t->cap_firsts, t->n_firsts, sizeof(s), WHERE_STACKS) == 0 &&
		map_put(&t->twins, key, (uint32_t) t->n_firsts + 1) == 0) {
		sample_ref(s);
		t->firsts[t->n_firsts++] = s;
	}
	return NULL;
}

static void on_sample(struct tree *t, struct process *p, struct record *r)
{
	struct sample *const s = calloc(1, sizeof(*s));

	if (!s || !number_of(t, p) || !samples_append(&p->samples, s)) {
		free(s);
		free(r);
		return;
	}
	*s = (struct sample) {
		.time_ns = r->time_ns,
		.address = r->sample.address,
		.number = ++t->samples,
		.process = p->number,
		.users = 1,
		.record = r,
		.raw_bytes = &t->raw_bytes,
		.image = image_ref(p->image),
	};
	t->raw_bytes += r->sample.stack_bytes;
	p->python.thread = r->tid;
	p->n_new++;
	s->twin = find_twin(t, p, s);
	if (s->twin) {
		sample_forget_record(s);
	} else if (t->raw_bytes > RAW_MOST) { /* its innermost frame is known then, and no more */
		struct record *const less = realloc(r, sizeof(*r));

		s->record = less ? less : r;
		t->raw_bytes -= s->record->sample.stack_bytes;
		s->record->sample.stack_bytes = 0;
		s->record->sample.stack = NULL;
	}
}

/* What was touched since sizes were last read. What was touched before, too, was freed meanwhile. */
static uint64_t growth_of(const struct tree *t, struct process *p)
{
	const uint64_t weight = (uint64_t) t->options.period * PAGE;
	struct map seen = { 0 };
	uint32_t there;

	if (p->samples.n == 0 || p->samples.list[p->samples.n - 1]->number <= p->grown_number)
		return p->growth;
	p->grown_number = p->samples.list[p->samples.n - 1]->number;
	p->growth = 0;
	for (size_t i = 0; i < p->samples.n; i++) {
		const struct sample *const s = p->samples.list[i];

		if (map_get(&seen, s->address / weight, &there))
			continue;
		(void) map_put(&seen, s->address / weight, 1);
		if (s->number > t->ticked_samples)
			p->growth += weight;
	}
	map_done(&seen);
	return p->growth;
}

/* Growth since sizes were last read is not in any size that was read: samples stand for it. That is not done for each small
 * process that ends, since it reads the samples of all. */
static void settle_before_loss(struct tree *t, struct process *p)
{
	uint64_t growth = 0;

	if (p->samples.n == 0)
		return;
	t->lost_bytes += p->counted > growth_of(t, p) ? p->counted : growth_of(t, p);
	if (t->lost_bytes < t->total / LOST_PARTS)
		return;
	t->lost_bytes = 0;
	for (size_t i = 0; i < t->n && !t->is_fallen; i++)
		growth += t->list[i]->has_executed ? growth_of(t, t->list[i]) : 0;
	if (growth > 0)
		(void) raise_best(t, t->total + growth, p->samples.list[p->samples.n - 1]->time_ns);
	tree_settle(t);
}

/* Those from a place on that are older than the process, which is a child of theirs; returns the next place. */
static size_t pass_samples(struct samples *from, size_t place, struct process *to)
{
	struct samples all = { .list = NULL };

	for (; place < from->n && from->list[place]->time_ns < to->fork_ns; place++) {
		struct sample *const s = from->list[place];

		if (samples_append(&all, s)) {
			s->is_checked = true;
			to->checked.sampled += s->bytes;
			continue;
		}
		s->is_dead = true;
		sample_unref(s);
	}
	if (all.n == 0)
		return place;
	to->most = to->grown_number = 0;
	for (size_t i = 0; i < to->samples.n; i++)
		(void) samples_append(&all, to->samples.list[i]);
	free(to->samples.list);
	to->samples = all;
	return place;
}

/* What it touched is its eldest child's of those that were forked since. The eldest takes its place, and each other
 * child hangs on the one before. */
static struct process *pass_on(struct process *p)
{
	struct process *heir = NULL, *elder = NULL;
	uint64_t elder_ns = p->fork_ns; /* what a child shares with its new parent is older than both forks */
	size_t place = 0;

	for (struct process *q = p->family->first; q; q = q->next) {
		if (q->parent != p)
			continue;
		const uint64_t own_ns = q->fork_ns;

		place = pass_samples(&p->samples, place, q);
		q->parent = elder ? elder : p->parent;
		if (elder_ns < own_ns)
			q->fork_ns = elder_ns;
		heir = heir ? heir : q;
		elder = q;
		elder_ns = own_ns;
	}
	if (heir)
		heir->most = heir->grown_number = 0;
	p->samples.n -= place;
	if (place > 0)
		memmove(p->samples.list, p->samples.list + place, p->samples.n * sizeof(*p->samples.list));
	return heir;
}

/* An heir has what both had. */
static void forget_size(struct tree *t, struct process *p, const struct process *heir)
{
	if (!heir) {
		t->total = counter_delta(p->counted, t->total);
		t->checked_left = counter_delta(p->checked_counted, t->checked_left);
	}
	p->counted = p->checked_counted = p->growth = 0;
}

static void on_process_end(struct tree *t, struct process *p)
{
	settle_before_loss(t, p);
	struct process *const heir = pass_on(p);

	forget_size(t, p, heir);
	map_remove(&t->places, (uint64_t) p->pid);
	t->list[p->place] = t->list[--t->n];
	t->list[p->place]->place = p->place;
	if (p->place < t->n)
		(void) map_put(&t->places, (uint64_t) t->list[p->place]->pid, (uint32_t) p->place);
	free_process(p);
}

static void on_process_exec(struct tree *t, struct process *p)
{
	struct image *const image = image_new(t->options.modules);
	struct family *const family = calloc(1, sizeof(*family));

	if (!family)
		return image_leave(image);
	settle_before_loss(t, p);
	struct process *const heir = pass_on(p);

	forget_size(t, p, heir);
	samples_done(&p->samples);
	check_files_done(&p->files);
	leave_family(p);
	p->parent = NULL;
	p->family = family;
	family->first = family->last = p;
	if (image) {
		image_leave(p->image);
		p->image = image;
	}
	python_home_leave(&p->python);
	p->has_executed = true;
	p->was_there = false;
	p->number = 0;
	p->n_new = 0;
	p->most = 0;
	p->checked = (struct check_result) { 0 };
}

static void on_process_fork(struct tree *t, const struct record *r)
{
	struct process *const parent = find(t, r->fork.parent);
	struct process *child = find(t, r->pid);

	if (r->pid == r->fork.parent || !parent)
		return; /* a thread */
	if (child)
		on_process_end(t, child); /* its number was used again */
	child = add_process(t, r->pid, parent->family, image_share(parent->image));
	if (!child)
		return;
	memcpy(child->name, parent->name, sizeof(child->name));
	child->parent = parent;
	child->fork_ns = r->time_ns;
	child->python = python_home_fork(&parent->python);
	child->has_executed = parent->has_executed;
}

static void on_process_exit(struct tree *t, struct process *p, const struct record *r)
{
	if (r->tid != r->pid)
		return;
	/* Its other threads may still run. */
	read_size(t, p);
	if (p->anonymous + p->mapped == 0)
		on_process_end(t, p);
}

static void add_map(struct process *p, const struct record *r)
{
	image_add(&p->image, r);
	python_home_map(&p->python, p->image, r->map.start);
}

void tree_record(struct tree *t, struct record *r)
{
	struct process *const p = find(t, r->pid);

	switch (r->kind) {
	case RECORD_SAMPLE:
		if (!p)
			break;
		on_sample(t, p, r);
		return;
	case RECORD_MAP:
		if (p)
			add_map(p, r);
		break;
	case RECORD_NAME:
		if (p && r->name.is_exec)
			on_process_exec(t, p);
		if (p && r->tid == r->pid)
			(void) snprintf(p->name, sizeof(p->name), "%s", r->name.name);
		if (p && p->number && r->tid == r->pid)
			memcpy(t->processes[p->number - 1].name, p->name, sizeof(p->name));
		break;
	case RECORD_FORK:
		on_process_fork(t, r);
		break;
	case RECORD_EXIT:
		if (p)
			on_process_exit(t, p, r);
		break;
	case RECORD_LOST:
		t->lost += r->lost;
		break;
	}
	free(r);
}

/* ---- the beginning and the end --------------------------------------------------------------- */

void tree_begin(struct tree *t, pid_t pid, bool from_exec)
{
	struct process *const p = add_process(t, pid, NULL, image_new(t->options.modules));

	if (p)
		p->has_executed = !from_exec;
}

static void read_mappings(struct tree *t, struct process *p)
{
	struct record map = { .kind = RECORD_MAP, .pid = p->pid, .tid = p->pid };
	struct longfile text = { 0 };
	char name[32];

	(void) snprintf(name, sizeof(name), "%d/maps", (int) p->pid);
	if (longfile_read(&text, t->options.proc, name) > 0) {
		for (char *line = text.data, *next; line && *line; line = next) {
			next = strchr(line, '\n');
			next = next ? next + 1 : NULL;
			if (next)
				next[-1] = '\0';
			if (map_of_line(line, &map))
				add_map(p, &map);
		}
	}
	longfile_done(&text);
}

static void read_name(struct tree *t, struct process *p)
{
	char name[32], text[32];

	(void) snprintf(name, sizeof(name), "%d/comm", (int) p->pid);
	if (smallfile_read(t->options.proc, name, text, sizeof(text)) > 0)
		(void) snprintf(p->name, sizeof(p->name), "%.*s", (int) strcspn(text, "\n"), text);
}

void tree_add(struct tree *t, pid_t pid)
{
	struct process *const p = add_process(t, pid, NULL, image_new(t->options.modules));

	if (!p)
		return;
	p->has_executed = p->was_there = true;
	read_name(t, p);
	read_mappings(t, p);
	read_size(t, p);
	count_bytes(t, p);
	p->risen = 0;
	t->before += p->anonymous + (t->n == 1 ? p->mapped : 0);
}

struct tree *tree_new(const struct tree_options *options)
{
	struct tree *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->options = *options;
	t->check = check_new();
	t->pids = calloc(PIDS, sizeof(*t->pids));
	if (!t->check || !t->pids) {
		check_free(t->check);
		free(t->pids);
		free(t);
		return NULL;
	}
	return t;
}

void tree_free(struct tree *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n_highs; i++)
		high_done(&t->highs[i]);
	for (size_t i = 0; i < t->n; i++)
		free_process(t->list[i]);
	for (size_t i = 0; i < t->n_firsts; i++)
		sample_unref(t->firsts[i]);
	free(t->firsts);
	map_done(&t->twins);
	map_done(&t->places);
	pythons_done(&t->best.pythons);
	free(t->list);
	free(t->processes);
	free(t->pids);
	check_free(t->check);
	free(t);
}

uint64_t tree_before(const struct tree *t)
{
	return t->before;
}

uint64_t tree_lost(const struct tree *t)
{
	return t->lost;
}

void tree_set_lost(struct tree *t, uint64_t lost)
{
	if (lost > t->lost)
		t->lost = lost;
	/* The last high may have been settled before. */
	if (t->n_highs > 0 && t->highs[t->n_highs - 1].lost < t->lost) {
		t->highs[t->n_highs - 1].lost = t->lost;
		t->highs[t->n_highs - 1].is_new = true;
	}
}

size_t tree_alive(const struct tree *t)
{
	return t->n;
}

bool tree_lacks_pythons(const struct tree *t)
{
	return t->lacks_pythons;
}

size_t tree_high_count(const struct tree *t)
{
	return t->n_highs;
}

struct tree_high *tree_high(struct tree *t, size_t i)
{
	return &t->highs[i];
}

bool tree_dropped(struct tree *t, uint32_t *ret_number)
{
	if (t->n_dropped == 0)
		return false;
	*ret_number = t->dropped[--t->n_dropped];
	return true;
}

uint32_t tree_last_number(const struct tree *t)
{
	return t->last_number;
}

size_t tree_process_count(const struct tree *t)
{
	return t->n_processes;
}

const struct tree_process *tree_process(const struct tree *t, size_t i)
{
	return &t->processes[i];
}

size_t tree_pid_count(const struct tree *t)
{
	return t->n_pids;
}

pid_t tree_pid(const struct tree *t, size_t i)
{
	return t->pids[i];
}

size_t tree_raw_bytes(const struct tree *t)
{
	return t->raw_bytes;
}

void tree_each_raw(struct tree *t, void (*see)(void *ctx, struct sample *s), void *ctx)
{
	for (size_t i = 0; i < t->n_firsts; i++) {
		if (t->firsts[i]->record)
			see(ctx, t->firsts[i]);
	}
}

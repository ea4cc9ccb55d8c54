/* SPDX-License-Identifier: MIT
 *
 * Fork families against a machine made of pages: processes fork, write, give back, run other programs, wait or do not,
 * and end, seen or unseen. The machine counts its pages; whatever happens, the bound is not below that count. Where nobody takes and gives
 * back between two looks, which no look can tell, neither is it at any instant between them.
 */
#include "job_rig.h"

enum {
	SPACE = 48,
	PROCS = 40,
	PHYSICAL = 1 << 11
};

struct page {
	int refs, weight;
};

struct proc {
	bool alive, zombie_seen, seen;
	uint32_t id, parent;     /* index of the parent in the machine; id in the job once it is seen */
	uint64_t startstack, start_ns;
	int page[SPACE];         /* physical pages; 0: none */
	int64_t minor, waited;
	bool takes;              /* of a calm machine: until the next look it takes, or else gives back */
};

struct machine {
	struct page pages[PHYSICAL];
	struct proc procs[PROCS];
	int64_t huge;
	uint64_t seed, next_stack;
	uint32_t next_id;
	bool has_huge, is_calm;
	int64_t peak[2];         /* all pages at any instant since the last look, bytes; all but main's */
};

static uint64_t roll(struct machine *m, uint64_t sides)
{
	m->seed = m->seed * 6364136223846793005U + 1442695040888963407U;
	return (m->seed >> 33) % sides;
}

static int page_new(struct machine *m, int weight)
{
	for (int i = 1; i < PHYSICAL; i++) {
		if (m->pages[i].refs == 0) {
			m->pages[i] = (struct page) { 1, weight };
			return i;
		}
	}
	abort();
}

static void page_drop(struct machine *m, int *page)
{
	m->pages[*page].refs -= *page != 0;
	*page = 0;
}

/* A write to what is not there or is shared brings a page: copies of huge pages come in small ones. */
static void do_write(struct machine *m, struct proc *p, int at)
{
	const bool huge = m->has_huge && p->page[at] == 0 && roll(m, 4) == 0;
	int was = p->page[at], weight = huge ? 512 : was ? m->pages[was].weight
							 : 1;

	if (was && m->pages[was].refs == 1)
		return;
	if (was)
		m->pages[was].refs--;
	p->page[at] = page_new(m, weight);
	p->minor += huge ? 1 : weight;
	m->huge += huge;
}

static void do_clear(struct machine *m, struct proc *p)
{
	for (int i = 0; i < SPACE; i++)
		page_drop(m, &p->page[i]);
}

static void do_fork(struct machine *m, struct proc *p, uint64_t now)
{
	for (uint32_t i = 1; i < PROCS; i++) {
		struct proc *c = &m->procs[i];

		if (c->alive || c->seen)
			continue;
		*c = *p;
		c->parent = (uint32_t) (p - m->procs);
		c->start_ns = now;
		c->minor = c->waited = 0;
		c->seen = false;
		c->id = 0;
		for (int k = 0; k < SPACE; k++)
			m->pages[c->page[k]].refs += c->page[k] != 0;
		return;
	}
}

/* Its parent waits for it at once, or never will. */
static void do_exit(struct machine *m, struct proc *p)
{
	struct proc *parent = &m->procs[p->parent];

	do_clear(m, p);
	p->alive = false;
	for (int i = 1; i < PROCS; i++) {
		if (m->procs[i].alive && m->procs[i].parent == (uint32_t) (p - m->procs))
			m->procs[i].parent = PROCS;
	}
	if (p->parent < PROCS && parent->alive && roll(m, 4))
		parent->waited += p->minor + p->waited;
}

enum deed {
	FORK,
	EXIT,
	GIVE_BACK,
	EXEC,
	WRITE
};

static enum deed deed_of(struct machine *m, const struct proc *p)
{
	const uint64_t n = roll(m, 12);
	const enum deed deed = n < WRITE ? (enum deed) n : WRITE;

	if (!m->is_calm)
		return deed;
	if (p->takes)
		return deed == FORK ? FORK : WRITE;
	return deed == EXIT || deed == EXEC ? deed : GIVE_BACK;
}

static void act(struct machine *m, struct proc *p, uint64_t now)
{
	switch (deed_of(m, p)) {
	case FORK:
		do_fork(m, p, now);
		break;
	case EXIT:
		if (p != &m->procs[0] && roll(m, 2))
			do_exit(m, p);
		break;
	case GIVE_BACK:
		for (int i = 0; i < SPACE; i++) {
			if (roll(m, 2))
				page_drop(m, &p->page[i]);
		}
		break;
	case EXEC:
		if (roll(m, 2) == 0) {
			do_clear(m, p);
			p->startstack = m->next_stack++;
		}
		break;
	case WRITE:
		for (uint64_t n = roll(m, 8); n > 0; n--)
			do_write(m, p, (int) roll(m, SPACE));
	}
}

static int64_t anon_of(const struct machine *m, const struct proc *p)
{
	int64_t sum = 0;

	for (int i = 0; i < SPACE; i++)
		sum += m->pages[p->page[i]].weight * (p->page[i] != 0);
	return sum * PAGE;
}

/* All pages that some process holds that the job knows of, or, if all, comes to know of, from first on: 0 is main. */
static int64_t pages_of(const struct machine *m, int first, bool all)
{
	static bool held[PHYSICAL];
	int64_t sum = 0;

	memset(held, 0, sizeof(held));
	for (int k = first; k < PROCS; k++) {
		for (int i = 0; i < SPACE && m->procs[k].alive && (all || m->procs[k].seen); i++)
			held[m->procs[k].page[i]] = true;
	}
	for (int i = 1; i < PHYSICAL; i++)
		sum += held[i] ? m->pages[i].weight : 0;
	return sum * PAGE;
}

static int64_t union_of(const struct machine *m, int first)
{
	return pages_of(m, first, false);
}

/* A look finds most of the new ones; those that it missed are found by the next. */
static void look(struct machine *m, struct rig *r, bool all)
{
	for (uint32_t i = 0; i < PROCS; i++) {
		struct proc *p = &m->procs[i];
		const struct proc *parent = &m->procs[p->parent < PROCS ? p->parent : 0];

		if (!p->alive || p->seen || (!all && roll(m, 5) == 0))
			continue;
		p->seen = true;
		p->id = m->next_id++;
		/* The kernel tells start times in clock ticks. */
		born_of(r, p->id, i > 0 && p->parent < PROCS && parent->seen ? parent->id : 0, p->startstack,
			(BOOT + p->start_ns) / (10 * MS) * (10 * MS));
	}
	push(r);
}

static void peak_take(struct machine *m)
{
	for (int first = 0; first < 2; first++) {
		const int64_t pages = pages_of(m, first, true);

		m->peak[first] = pages > m->peak[first] ? pages : m->peak[first];
	}
}

/* Memory is read before faults: what comes between the two is in these alone. */
static void write_before_faults_are_read(struct machine *m)
{
	for (int i = 0; i < PROCS; i++) {
		for (uint64_t n = m->procs[i].alive && m->procs[i].takes ? roll(m, 8) : 0; n > 0; n--)
			do_write(m, &m->procs[i], (int) roll(m, SPACE));
	}
	if (m->is_calm)
		peak_take(m);
}

static void read_all(struct machine *m, struct rig *r, bool with_faults)
{
	for (int i = 0; i < PROCS; i++) {
		if (m->procs[i].alive && m->procs[i].seen)
			rss(r, m->procs[i].id, anon_of(m, &m->procs[i]), 0);
	}
	push(r);
	write_before_faults_are_read(m);
	for (int i = 0; i < PROCS && with_faults; i++) {
		struct proc *p = &m->procs[i];

		if (!p->alive || !p->seen)
			continue;
		if (job_process_by_id(r->job, p->id)->startstack != p->startstack)
			born(r, p->id, 0, p->startstack);
		faults(r, p->id, p->minor);
		say(r, M_PROC_FAULTS_WAITED, p->id, p->waited);
	}
	for (int i = 0; i < PROCS; i++) {
		if (m->procs[i].seen && !m->procs[i].alive) {
			gone(r, m->procs[i].id);
			m->procs[i].seen = false;
		}
	}
	push(r);
	if (m->has_huge && with_faults)
		huge_pages(r, m->huge);
}

/* What is told of the most that there was since the look before. */
struct told {
	int64_t high[2], before[2];
};

static void see_told(void *ctx, const struct frame *frame)
{
	struct told *told = ctx;

	for (size_t i = 0; i < frame->n_readings; i++) {
		const struct reading *reading = &frame->readings[i];

		if (reading->metric != M_JOB_RAM_HIGH && reading->metric != M_JOB_RAM_REST_HIGH)
			continue;
		told->before[reading->metric == M_JOB_RAM_REST_HIGH] = told->high[reading->metric == M_JOB_RAM_REST_HIGH];
		told->high[reading->metric == M_JOB_RAM_REST_HIGH] = reading->max;
	}
}

/* What is read of its memory from here on is of the time that begins. */
static void turn(struct machine *m)
{
	m->peak[0] = m->peak[1] = 0;
	for (int i = 0; i < PROCS; i++)
		m->procs[i].takes = roll(m, 2) || !m->procs[i].seen;
}

static void live_on(struct machine *m, uint64_t since)
{
	for (int i = 0; i < PROCS; i++) {
		for (uint64_t n = roll(m, 3); n > 0 && m->procs[i].alive; n--) {
			act(m, &m->procs[i], since + roll(m, 100) * MS);
			if (m->is_calm)
				peak_take(m);
		}
	}
}

/* How much more is told than there was. */
struct tightness {
	double at_looks, between;
};

static void run(uint64_t seed, bool has_huge, bool is_calm, struct tightness *ret)
{
	struct machine *m = calloc(1, sizeof(*m));
	double bound = 0, truth = 0, bound_between = 0, truth_between = 0;
	struct told told = { 0 };
	struct rig r;

	assert_non_null(m);
	m->seed = seed;
	m->has_huge = has_huge;
	m->is_calm = is_calm;
	m->next_id = 1;
	m->next_stack = 100;
	m->procs[0] = (struct proc) { .alive = true, .parent = PROCS, .startstack = 1 };
	rig_new(&r, true, has_huge ? HUGE_PAGE : 0);
	r.see = see_told;
	r.ctx = &told;
	look(m, &r, true);
	if (has_huge)
		huge_pages(&r, m->huge);
	for (int t = 0; t < 400; t++) {
		const bool with_faults = roll(m, 3) > 0;

		look(m, &r, is_calm);

		const int64_t held[] = { union_of(m, 0), union_of(m, 1) }, peak[] = { m->peak[0], m->peak[1] };

		turn(m);
		read_all(m, &r, with_faults);
		job_total(r.job, r.now, &r.totals);
		push_as(&r, &r.totals, FRAME_TOTALS);
		assert_true(last(&r, M_JOB_RAM_HIGH) >= held[0]);
		assert_true(last(&r, M_JOB_RAM_REST_HIGH) >= held[1]);
		assert_true(last(&r, M_JOB_RAM_HIGH) <= last(&r, M_JOB_RSS_SUM));
		for (int first = 0; first < 2; first++)
			assert_true(told.high[first] >= peak[first] || told.before[first] >= peak[first]);
		if (with_faults) {
			bound += (double) last(&r, M_JOB_RAM_HIGH);
			truth += (double) held[0];
			bound_between += (double) told.high[0];
			truth_between += (double) (peak[0] > held[0] ? peak[0] : held[0]);
		}
		r.now += 100 * MS;
		live_on(m, r.now - 100 * MS);
	}
	ret->at_looks = truth > 0 ? bound / truth : 0;
	ret->between = truth_between > 0 ? bound_between / truth_between : 0;
	rig_done(&r);
	free(m);
}

static void test_the_bound_holds_for_any_family(void **state)
{
	(void) state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		const bool is_calm = seed % 4 < 2;
		struct tightness tightness;

		run(seed * 104729, seed % 2, is_calm, &tightness);
		if (getenv("SHOW"))
			print_message("seed %d: bound / truth %.2f, %s %.2f\n", (int) seed, tightness.at_looks,
				is_calm ? "between looks" : "proven", tightness.between);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_bound_holds_for_any_family),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * The estimator of combined memory, against a model of a machine that has pages: whatever processes do and however they are
 * sampled, low <= truth <= high, where the truth is the largest number of distinct pages that members mapped at one instant.
 *
 * A run is a list of operations with operands that mean something in any state, so that a list that fails can be shortened.
 * HIWATER_MEMORY_PROFILE=NAME runs one profile, HIWATER_MEMORY_SEED=N its run N alone, HIWATER_MEMORY_RUNS=N so many; a run that
 * fails is shortened and printed. Profiles of which counter-examples are known (is_open) run only where they are named.
 */
#include "memory_machine.h"

/* ---- the sampler ------------------------------------------------------------------------------------------------------ */

/* Within a sample, between the reads of two processes. */
static void meanwhile(struct run *r)
{
	r->now_ns += 20000;
	memory_time(r->memory, r->now_ns);
	if (r->torn == 0 || r->at >= r->n || r->ops[r->at].kind == SAMPLE || r->ops[r->at].kind == WAIT)
		return;
	r->torn--;
	operate(r, &r->ops[r->at++]);
	r->files_most = r->distinct_files > r->files_most ? r->distinct_files : r->files_most;
}

static struct process *by_id(struct run *r, uint32_t id)
{
	for (struct process *p = r->procs; p < r->procs + PROCS; p++) {
		if (id != 0 && p->id == id)
			return p;
	}
	return NULL;
}

static void find(struct run *r, struct process *p)
{
	struct process *parent = by_id(r, p->parent);

	if (parent && !parent->is_found)
		find(r, parent);
	p->is_found = true;
	p->program_told = p->program;
	SAY(r, "  finds %u", p->id);
	assert_int_equal(
		memory_birth(r->memory,
			&(struct memory_birth) {
				.id = p->id,
				.parent = p->parent,
				.program = p->is_alive ? p->program : 0,
				.forked_ns = p->born_ns / (10 * MS) * (10 * MS),
				.is_main = p->is_main,
				.is_new = p->is_alive && (p->is_main ? !r->is_attached : p->has_execed),
			}),
		0);
}

static void record(struct run *r, struct process *p)
{
	const bool is_known = r->has_records || p->is_main;

	SAY(r, "  record of %u: hwm %lld", p->id, (long long) (is_known ? p->hwm : -1));
	memory_end(r->memory, &(struct memory_end) {
				      .id = p->id,
				      .hwm = is_known ? known(p->hwm * r->page) : UNKNOWN,
				      .until_ns = r->now_ns,
				      .faults = known(p->faults),
				      .is_own = p->hwm > p->hwm_before,
				      .is_renamed = p->program != p->program_told,
				      .is_copy = !p->has_execed,
			      });
	r->is_unsampled |= !p->was_read;
	p->id = 0;
}

static void ends_tell(struct run *r)
{
	for (struct process *p = r->procs; p < r->procs + PROCS; p++) {
		if (p->id == 0 || p->is_alive)
			continue;
		if (p->record_at > 0 && r->has_records) {
			p->record_at--;
			if (p->is_found && !p->end_is_told)
				memory_end(r->memory,
					&(struct memory_end) {
						.id = p->id, .until_ns = r->now_ns, .is_awaited = true });
			p->end_is_told = p->is_found;
		} else if (p->is_found || r->has_records) {
			if (!p->is_found)
				find(r, p);
			record(r, p);
		} else {
			r->is_unsampled = true;
			p->id = 0;
		}
	}
}

static bool is_member(const struct process *p)
{
	return p->id != 0 && p->is_alive && p->is_found;
}

static void exec_notice(struct run *r, struct process *p)
{
	if (p->program == p->program_told)
		return;
	p->program_told = p->program;
	SAY(r, "  %u ran another program", p->id);
	assert_int_equal(memory_exec(r->memory, p->id, p->program), 0);
}

static void faults_read(struct run *r, struct process *p)
{
	p->faults_told = p->faults;
	memory_faults(r->memory, p->id, p->faults);
}

/* Ranges that it has mapped before, as its list of maps has them. */
static int64_t mapped_twice(const struct process *p)
{
	int64_t n = 0;

	for (uint32_t k = 0; k < p->n_maps; k++) {
		bool again = false;

		for (uint32_t i = 0; i < k; i++)
			again |= p->maps[i].file == p->maps[k].file;
		n += again ? p->maps[k].n : 0;
	}
	return n;
}

static void sizes_read(struct run *r, bool has_faults)
{
	for (struct process *p = r->procs; p < r->procs + PROCS; p++) {
		if (!is_member(p))
			continue;
		exec_notice(r, p);
		SAY(r, "  %u: %lld of them files", p->id, (long long) p->rss);
		SAY(r, " %lld", (long long) p->file);
		memory_size(r->memory, p->id, p->rss * r->page, p->file * r->page);
		p->was_read = true;
		p->anon_told = p->rss - p->file;
		if (has_faults)
			faults_read(r, p);
		if (r->profile->twice)
			memory_mapped_twice(r->memory, p->id, mapped_twice(p) * r->page);
		meanwhile(r);
	}
}

static void pass(struct run *r, bool is_valid)
{
	int64_t grown[MEMORY_SETS] = { 0 };

	for (struct process *p = r->procs; p < r->procs + PROCS; p++) {
		double anon = 0, pss = 0;
		int64_t private = 0;

		if (p->id != 0 && p->is_alive && (!p->is_found || p->program != p->program_told))
			is_valid = false;
		if (!is_member(p))
			continue;
		for (uint32_t k = 0; k < p->n_anon; k++) {
			anon += 1.0 / r->refs[0][p->anon[k]];
			private += r->refs[0][p->anon[k]] == 1;
		}
		pss = anon;
		for (uint32_t k = 0; k < p->n_maps; k++) {
			for (uint32_t i = 0; i < p->maps[k].n; i++) {
				const uint16_t n =
					r->refs[0][p->maps[k].file * FILE_PAGES + p->maps[k].from + i];

				pss += p->maps[k].is_there[i] ? 1.0 / n : 0;
				private += p->maps[k].is_there[i] && n == 1;
			}
		}
		for (int s = 0; s < MEMORY_SETS - p->is_main; s++)
			grown[s] += (p->rss - p->file - p->anon_told) * r->page;
		memory_pss(r->memory,
			&(struct memory_pss) { p->id, (int64_t) (pss * (double) r->page),
				(int64_t) (anon * (double) r->page), private * r->page });
	}
	SAY(r, "  %s pass", is_valid ? "valid" : "invalid");
	memory_pass(r->memory, is_valid, 0, grown);
}

static void total(struct run *r, bool has_faults)
{
	int64_t faults = r->faults_of_dead;
	struct memory_total t;

	for (struct process *p = r->procs; p < r->procs + PROCS; p++)
		faults += is_member(p) ? p->faults_told : 0;
	memory_total(r->memory, r->now_ns, has_faults ? known(faults) : UNKNOWN, &t);
	SAY(r, "\n%8.2f ms    total: %lld, %lld, %lld; others %lld, %lld, %lld\n",
		(double) r->now_ns / (double) MS, (long long) (t.low[0] / r->page),
		(long long) (t.estimate[0] / r->page), (long long) (t.high[0] / r->page),
		(long long) (t.low[1] / r->page), (long long) (t.estimate[1] / r->page),
		(long long) (t.high[1] / r->page));
}

static int64_t machine(const struct run *r)
{
	return (r->distinct[0] + r->outside) * r->page;
}

static void marks_read(struct run *r)
{
	for (struct process *p = r->procs; p < r->procs + PROCS; p++) {
		if (!is_member(p) || !p->was_read || p->program != p->program_told)
			continue;
		SAY(r, "  %u: mark %lld", p->id, (long long) p->hwm);
		memory_hwm(r->memory, p->id, p->hwm * r->page, p->hwm > p->hwm_before);
	}
}

/* A phase begins or ends between two samples: the marks are read then. */
static void edge(struct run *r)
{
	r->now_ns += 20000;
	memory_time(r->memory, r->now_ns);
	SAY(r, "%8.2f ms  edge:", (double) r->now_ns / (double) MS);
	marks_read(r);
	SAY(r, "%s\n", "");
}

static void sample(struct run *r, const struct op *op)
{
	bool has_faults = op->a % 8 < 5, late = r->profile->late_faults, is_read = op->a / 8 % 8 < 3;
	const int64_t before = machine(r);
	struct memory_state state;

	r->samples++;
	r->files_most = r->distinct_files;
	r->torn = r->profile->is_torn ? op->c % 4 : 0;
	r->now_ns += 50000;
	memory_time(r->memory, r->now_ns);
	SAY(r, "%8.2f ms  sample %u%s:", (double) r->now_ns / (double) MS, r->samples,
		has_faults ? " with faults" : "");
	for (struct process *p = r->procs; p < r->procs + PROCS; p++) {
		if (p->id != 0 && p->is_alive && !p->is_found &&
			(p->find_at <= r->samples || op->c == FINDS_ALL))
			find(r, p);
	}
	ends_tell(r);
	if (r->has_huge && (has_faults || op->b % 8 == 0))
		memory_huge(r->memory, r->huge);
	sizes_read(r, has_faults && !late);
	memory_state(r->memory, &state);
	if (op->a / 64 % 8 == 0 || (r->obeys && state.files_since > 0) ||
		(r->profile->one_file && !r->profile->twice)) {
		memory_files(r->memory, r->files_most * r->page, r->files_most * r->page);
		SAY(r, "  files %lld", (long long) r->files_most);
	}
	if (op->a / 512 % 8 == 0 || (r->obeys && state.high > state.estimate))
		pass(r, op->b / 8 % 4 > 0);
	if (is_read)
		memory_machine(r->memory, before > machine(r) ? before : machine(r));
	if (op->a / 4096 % 8 == 0)
		memory_cgroup(r->memory, (r->distinct[0] - r->distinct_files) * r->page);
	if (r->obeys && state.lacks_faults && !has_faults && late)
		has_faults = true;
	for (struct process *p = r->procs; p < r->procs + PROCS && has_faults && late; p++) {
		if (!is_member(p))
			continue;
		exec_notice(r, p);
		faults_read(r, p);
		meanwhile(r);
	}
	if (op->b / 64 % 8 == 0)
		marks_read(r);
	r->torn = 0;
	total(r, has_faults);
}

/* The end: all that lives ends, and all records come; or what lives is followed no further. */
static void finish(struct run *r)
{
	for (struct process *p = r->procs; p < r->procs + PROCS; p++) {
		if (p->id == 0)
			continue;
		r->now_ns += 20000;
		if (p->is_alive && r->seed % 8 != 0)
			leave(r, p);
		p->record_at = 0;
	}
	memory_time(r->memory, r->now_ns);
	ends_tell(r);
	for (struct process *p = r->procs; p < r->procs + PROCS; p++) {
		r->is_unsampled |= p->id != 0 && !p->was_read;
		if (is_member(p))
			memory_end(r->memory, &(struct memory_end) { .id = p->id, .until_ns = r->now_ns });
		if (p->id != 0 && p->is_alive)
			r->faults_of_dead += p->faults;
		p->is_found = false;
	}
	if (r->has_huge)
		memory_huge(r->memory, r->huge);
	total(r, true);
	memory_finish(r->memory);
}

/* ---- the property ------------------------------------------------------------------------------------------------------- */

enum wrong {
	RIGHT,
	LOW,
	HIGH,
	ORDER,
	MACHINE
};

static enum wrong peak_check(struct run *r, enum memory_set s)
{
	static const char *const sets[] = { "all", "descendants" };
	struct memory_peak peak;
	enum wrong wrong = RIGHT;

	memory_peak(r->memory, s, &peak);
	if (peak.low > r->truth[s] * r->page)
		wrong = LOW;
	else if (peak.high.known && peak.high.value < (r->truth[s] - 1) * r->page &&
		 (r->has_records || !r->is_unsampled))
		wrong = HIGH;
	else if (peak.estimate < peak.low || (peak.high.known && peak.estimate > peak.high.value))
		wrong = ORDER;
	else if (peak.high.known && peak.high.value > PAGES * r->page)
		wrong = MACHINE;
	if (wrong != RIGHT && r->wrong[0] == '\0')
		(void) snprintf(r->wrong, sizeof(r->wrong),
			"%s: truth %lld pages; low %.1f, estimate %.1f, high %.1f", sets[s],
			(long long) r->truth[s], (double) peak.low / (double) r->page,
			(double) peak.estimate / (double) r->page,
			peak.high.known ? (double) peak.high.value / (double) r->page : -1);
	return wrong;
}

static void run_begin(struct run *r)
{
	static struct process procs[PROCS];
	static uint32_t free_pages[PAGES];
	static uint16_t refs[MEMORY_SETS][PAGES];
	uint64_t state = r->seed * 77 + 1, bits = next(&state);
	struct process *main;

	r->page = (int64_t[]) { 4096, 65536, MIB, MIB }[bits % 4];
	r->has_records = !r->profile->no_records;
	r->has_huge = bits / 16 % 4 == 0;
	r->is_attached = bits / 64 % 8 == 0 && (r->profile->attaches || r->profile->weight[TOUCH] == 0);
	r->obeys = bits / 512 % 2;
	r->finds_late = bits / 1024 % 4 == 0;
	r->outside = (int64_t) (bits / 4096 % 3000);
	r->procs = procs;
	r->free = free_pages;
	r->refs = refs;
	for (struct process *p = procs; p < procs + PROCS; p++)
		p->id = 0;
	memset(refs, 0, sizeof(refs));
	for (uint32_t k = PAGES; k-- > FILES * FILE_PAGES;)
		free_pages[r->n_free++] = k;
	r->now_ns = r->is_attached ? 0 : MS;
	main = process_new(r);
	*main = (struct process) { .id = main->id, .is_alive = true, .is_main = true, .has_execed = !r->is_attached, .program = ++r->last_program };
	if (r->is_attached) {
		fill(r, main, 300);
		give_back(r, main, 0, 250);
		main->hwm_before = main->hwm;
	}
	main->faults = 0;
	truth_take(r);
	r->memory = memory_new(&(struct memory_config) {
		.page_bytes = r->page,
		.huge_bytes = r->has_huge ? HUGE * r->page : 0,

		.machine_bytes = PAGES * r->page,
		.ours = !r->is_attached,
	});
	assert_non_null(r->memory);
	if (r->has_huge)
		memory_huge(r->memory, 0);
	if (!r->has_records)
		memory_records_lost(r->memory);
	SAY(r, "\nprofile %s, seed %llu: pages of %lld%s%s%s\n", r->profile->name,
		(unsigned long long) r->seed, (long long) r->page, r->has_records ? "" : ", no exit records",
		r->has_huge ? ", huge pages" : "", r->is_attached ? ", attached" : "");
}

static enum wrong run_ops(
	const struct profile *profile, uint64_t seed, const struct op *ops, size_t n, bool is_printed)
{
	struct run r = { .profile = profile, .seed = seed, .ops = ops, .n = n, .is_printed = is_printed };
	enum wrong wrong;

	static const struct op whole = { .kind = SAMPLE, .b = 512, .c = FINDS_ALL };

	run_begin(&r);
	sample(&r, &whole);
	while (r.at < n) {
		const struct op *op = &ops[r.at++];

		if (op->kind == SAMPLE)
			sample(&r, op);
		else if (op->kind == EDGE)
			edge(&r);
		else
			operate(&r, op);
		if (r.is_asked)
			sample(&r, &whole);
		r.is_asked = false;
	}
	if (seed % 8 == 0) /* what lives then is followed no further */
		sample(&r, &whole);
	finish(&r);
	wrong = peak_check(&r, MEMORY_ALL);
	if (wrong == RIGHT)
		wrong = peak_check(&r, MEMORY_DESCENDANTS);
	SAY(&r, "%s\n", r.wrong);
	memory_free(r.memory);
	return wrong;
}

/* ---- profiles ----------------------------------------------------------------------------------------------------------- */

static const struct profile profiles[] = {
	{ "uniform", { 4, 4, 4, 2, 3, 4, 2, 2, 4, 2, 3, 1, 3, 0, 12 }, .pages = 60, .living = 10 },
	{ "lone", { [FILL] = 6, [BIG] = 1, [MAP] = 1, [TOUCH] = 2, [FREE] = 2, [WAIT] = 2, [SAMPLE] = 6 },
		.pages = 90, .living = 1 },
	{ "server",
		{ [FORK] = 6,
			[WRITE] = 5,
			[FILL] = 2,
			[EXIT] = 5,
			[FREE] = 1,
			[EDGE] = 1,
			[WAIT] = 1,
			[SAMPLE] = 6 },
		.pages = 50, .living = 12, .main_forks = true },
	{ "build",
		{ [FORK] = 4,
			[EXEC] = 5,
			[FILL] = 6,
			[TOUCH] = 4,
			[EXIT] = 4,
			[EDGE] = 1,
			[WAIT] = 2,
			[SAMPLE] = 5 },
		.pages = 80, .living = 3, .main_forks = true },
	{ "shared", { [FORK] = 2, [MAP] = 3, [TOUCH] = 8, [FILL] = 1, [EXIT] = 1, [WAIT] = 1, [SAMPLE] = 5 },
		.pages = 256, .living = 8, .one_file = true },
	{ "waves",
		{ [FORK] = 2,
			[FILL] = 6,
			[FREE] = 6,
			[WRITE] = 2,
			[EXIT] = 2,
			[EDGE] = 1,
			[WAIT] = 1,
			[SAMPLE] = 5 },
		.pages = 200, .living = 5 },
	{ "copies", { [FORK] = 4, [WRITE] = 8, [FILL] = 2, [EXIT] = 4, [EDGE] = 1, [WAIT] = 1, [SAMPLE] = 5 },
		.pages = 200, .living = 8 },
	{ "hand-over",
		{ [FORK] = 1, [FILL] = 3, [HAND_OVER] = 6, [FREE] = 1, [EDGE] = 1, [WAIT] = 1, [SAMPLE] = 6 },
		.pages = 200, .living = 4 },
	{ "twice", { [FILL] = 2, [MAP] = 2, [TOUCH] = 6, [WAIT] = 1, [SAMPLE] = 5 }, .pages = 200,
		.living = 1, .twice = true },
	{ "exchange", { [FILL] = 2, [MAP] = 2, [TOUCH] = 6, [FREE] = 1, [WAIT] = 1, [SAMPLE] = 5 },
		.pages = 200, .living = 1, .twice = true, .is_open = true },
	{ "torn", { 4, 4, 4, 0, 0, 0, 0, 0, 4, 2, 3, 3, 1, 10 }, .pages = 60, .living = 6, .is_torn = true },
	{ "user", { 4, 4, 4, 2, 2, 3, 1, 1, 4, 2, 3, 1, 3, 12 }, .pages = 60, .living = 6, .no_records = true,
		.is_open = true },
	{ "execs", { [FORK] = 4, [EXEC] = 5, [FILL] = 4, [TOUCH] = 4, [EXIT] = 3, [WAIT] = 2, [SAMPLE] = 5 },
		.pages = 80, .living = 4, .leaves_files = true, .is_open = true },
	{ "attached", { [FILL] = 6, [MAP] = 1, [TOUCH] = 3, [FREE] = 2, [WAIT] = 2, [SAMPLE] = 6 },
		.pages = 90, .living = 1, .attaches = true, .is_open = true },
	{ "files",
		{ [FORK] = 2,
			[FILL] = 1,
			[MAP] = 4,
			[TOUCH] = 8,
			[COPY] = 1,
			[UNMAP] = 4,
			[WAIT] = 1,
			[SAMPLE] = 7 },
		.pages = 120, .living = 5, .is_open = true },
	{ "late-faults", { 4, 4, 4, 0, 0, 0, 0, 0, 4, 2, 3, 3, 1, 10 }, .pages = 60, .living = 6,
		.is_torn = true, .late_faults = true, .is_open = true },
};

static void ops_make(const struct profile *profile, uint64_t seed, struct op *ops, size_t n)
{
	uint64_t state = seed ^ UINT64_C(0x5bd1e995) * (uint64_t) (profile - profiles + 1);
	unsigned sum = 0;

	for (int k = 0; k < OP_KINDS; k++)
		sum += profile->weight[k];
	for (size_t i = 0; i < n; i++) {
		unsigned at = (unsigned) (next(&state) % sum);
		uint8_t kind = 0;

		while (at >= profile->weight[kind])
			at -= profile->weight[kind++];
		ops[i] = (struct op) { kind, (uint32_t) next(&state), (uint32_t) next(&state),
			(uint32_t) next(&state) };
	}
}

/* Leaves out whatever it fails without. */
static size_t shorten(
	const struct profile *profile, uint64_t seed, struct op *ops, size_t n, enum wrong wrong)
{
	static struct op less[OPS];

	for (size_t chunk = n / 2; chunk > 0; chunk /= 2) {
		for (size_t from = 0; from + chunk <= n;) {
			memcpy(less, ops, from * sizeof(*ops));
			memcpy(less + from, ops + from + chunk, (n - from - chunk) * sizeof(*ops));
			if (run_ops(profile, seed, less, n - chunk, false) == wrong) {
				n -= chunk;
				memcpy(ops, less, n * sizeof(*ops));
			} else {
				from += chunk;
			}
		}
	}
	return n;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static bool holds(const struct profile *profile, uint64_t seed)
{
	static struct op ops[OPS];
	size_t n = 20 + seed % (OPS - 20);
	enum wrong wrong;

	ops_make(profile, seed, ops, n);
	wrong = run_ops(profile, seed, ops, n, false);
	if (wrong == RIGHT)
		return true;
	n = shorten(profile, seed, ops, n, wrong);
	(void) run_ops(profile, seed, ops, n, true);
	return false;
}

static void check(const struct profile *profile, uint64_t runs)
{
	const uint64_t seed = number("HIWATER_MEMORY_SEED", UINT64_MAX);
	const char *only = getenv("HIWATER_MEMORY_PROFILE");
	unsigned failed = 0;

	if (only && strcmp(only, profile->name) != 0)
		return;
	if (only && seed != UINT64_MAX) {
		assert_true(holds(profile, seed));
		return;
	}
	for (uint64_t k = 0; k < (only ? number("HIWATER_MEMORY_RUNS", runs) : runs) && failed < 3; k++)
		failed += !holds(profile, k);
	assert_int_equal(failed, 0);
}

static void test_profile(void **state)
{
	const struct profile *profile = *state;

	check(profile, profile->is_open ? 0 : 1000);
}

/* ---- what must be tight ------------------------------------------------------------------------------------------------- */

static size_t largest_request;

void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	largest_request = n * size > largest_request ? n * size : largest_request;
	return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	largest_request = size > largest_request ? size : largest_request;
	return __real_realloc(p, size);
}

enum {
	MAIN = 1,
	SHARERS = 8
};

static struct memory *start(void)
{
	struct memory *m = memory_new(
		&(struct memory_config) { .page_bytes = 4096, .machine_bytes = 65536 * MIB, .ours = true });

	assert_non_null(m);
	memory_time(m, MS);
	assert_int_equal(
		memory_birth(m,
			&(struct memory_birth) {
				.id = MAIN, .program = 1, .forked_ns = 0, .is_main = true, .is_new = true }),
		0);
	return m;
}

static void child(struct memory *m, uint32_t id, uint64_t at_ns)
{
	assert_int_equal(memory_birth(m,
				 &(struct memory_birth) {
					 .id = id, .parent = MAIN, .program = 1, .forked_ns = at_ns }),
		0);
}

static void read_one(struct memory *m, uint32_t id, int64_t rss, int64_t file, int64_t faults)
{
	memory_size(m, id, rss, file);
	memory_faults(m, id, faults);
}

static void end(struct memory *m, uint32_t id, int64_t hwm, int64_t faults, uint64_t until_ns)
{
	memory_end(m, &(struct memory_end) {
			      .id = id,
			      .hwm = known(hwm),
			      .faults = known(faults),
			      .until_ns = until_ns,
			      .is_own = true,
			      .is_copy = id != MAIN,
		      });
}

static void is_within(const struct memory *m, int64_t low, int64_t high)
{
	struct memory_peak peak;

	memory_peak(m, MEMORY_ALL, &peak);
	assert_in_range(peak.low, low, high);
	assert_true(peak.high.known);
	assert_in_range(peak.high.value, peak.low, high);
	assert_in_range(peak.estimate, peak.low, peak.high.value);
}

/* A parent of 200 MiB, and forks that copy 1 MiB each: 208 MiB. */
static void test_forks_that_share(void **state)
{
	struct memory *m = start();
	struct memory_total t;

	(void) state;
	read_one(m, MAIN, 200 * MIB, 0, 51200);
	memory_total(m, 10 * MS, known(51200), &t);
	memory_time(m, 20 * MS);
	read_one(m, MAIN, 200 * MIB, 0, 51200);
	memory_total(m, 20 * MS, known(51200), &t);
	for (uint32_t k = 0; k < SHARERS; k++)
		child(m, 2 + k, 40 * MS);
	for (uint64_t at = 50 * MS; at < 500 * MS; at += 10 * MS) {
		const int64_t faults = at > 100 * MS ? 256 : 0;

		memory_time(m, at);
		read_one(m, MAIN, 200 * MIB, 0, 51200);
		for (uint32_t k = 0; k < SHARERS; k++)
			read_one(m, 2 + k, 200 * MIB, 0, faults);
		memory_total(m, at, known(51200 + SHARERS * faults), &t);
	}
	memory_time(m, 500 * MS);
	for (uint32_t k = 0; k < SHARERS; k++)
		end(m, 2 + k, 200 * MIB, 256, 500 * MS);
	end(m, MAIN, 200 * MIB, 51200, 500 * MS);
	memory_total(m, 500 * MS, known(51200 + SHARERS * 256), &t);
	memory_finish(m);
	is_within(m, 200 * MIB, 208 * MIB / 10 * 11);
	memory_free(m);
}

/* One mapping of 512 MiB in 8 forks, 1 MiB of their own each, which touch it in quarters. */
static void test_one_shared_mapping(void **state)
{
	struct memory *m = start();
	struct memory_total t;

	(void) state;
	read_one(m, MAIN, MIB, 0, 256);
	memory_total(m, 10 * MS, known(256), &t);
	for (uint32_t k = 0; k < SHARERS; k++)
		child(m, 2 + k, 20 * MS);
	for (int64_t n = 1; n <= 8; n++) {
		const int64_t file = (n < 4 ? n : 4) * 128 * MIB, faults = 256 + file / 65536;
		const uint64_t at = (uint64_t) n * 100 * MS;

		memory_time(m, at);
		read_one(m, MAIN, MIB, 0, 256);
		for (uint32_t k = 0; k < SHARERS; k++)
			read_one(m, 2 + k, MIB + file, file, faults);
		memory_files(m, 512 * MIB, 512 * MIB);
		memory_hwm(m, MAIN, MIB, true);
		for (uint32_t k = 0; k < SHARERS; k++)
			memory_hwm(m, 2 + k, MIB + file, true);
		memory_total(m, at, known(256 + SHARERS * faults), &t);
	}
	memory_time(m, 900 * MS);
	for (uint32_t k = 0; k < SHARERS; k++)
		end(m, 2 + k, 513 * MIB, 256 + 8192, 900 * MS);
	end(m, MAIN, MIB, 256, 900 * MS);
	memory_total(m, 900 * MS, known(256 + SHARERS * (256 + 8192)), &t);
	memory_finish(m);
	is_within(m, 513 * MIB, 521 * MIB / 10 * 11);
	memory_free(m);
}

/* One process that maps 400 MiB of a file twice: 402 MiB with its own 2, though its size is 802. */
static void test_a_range_mapped_twice(void **state)
{
	struct memory *m = start();
	struct memory_total t;

	(void) state;
	for (int64_t n = 1; n <= 5; n++) {
		memory_time(m, (uint64_t) n * 100 * MS);
		read_one(m, MAIN, n > 1 ? 802 * MIB : 2 * MIB, n > 1 ? 800 * MIB : 0,
			n > 1 ? 512 + 12800 : 512);
		if (n > 1) {
			memory_files(m, 400 * MIB, 400 * MIB);
			memory_mapped_twice(m, MAIN, 400 * MIB);
		}
		memory_hwm(m, MAIN, n > 1 ? 802 * MIB : 2 * MIB, true);
		memory_total(m, (uint64_t) n * 100 * MS, known(n > 1 ? 512 + 12800 : 512), &t);
	}
	memory_time(m, 600 * MS);
	end(m, MAIN, 802 * MIB, 512 + 12800, 600 * MS);
	memory_total(m, 600 * MS, known(512 + 12800), &t);
	memory_finish(m);
	assert_true(memory_is_mapped_twice(m));
	is_within(m, 402 * MIB / 50 * 49, 402 * MIB / 50 * 51);
	memory_free(m);
}

/* 11 huge pages were given to the child before the machine's count was read for the first time in the run. */
static void test_huge_pages_that_come_before_their_count(void **state)
{
	static const int64_t before = 1000, huge = 11;
	struct memory *m = memory_new(&(struct memory_config) {
		.page_bytes = 4096, .huge_bytes = 2 * MIB, .machine_bytes = 65536 * MIB, .ours = true });
	struct memory_total t;

	(void) state;
	assert_non_null(m);
	memory_records_lost(m);
	memory_huge(m, before);
	memory_huge(m, before + huge);
	assert_int_equal(
		memory_birth(m, &(struct memory_birth) { .id = MAIN, .program = 1, .is_main = true, .is_new = true }), 0);
	child(m, 2, MS);
	memory_time(m, 10 * MS);
	read_one(m, MAIN, MIB / 4, 0, 64);
	read_one(m, 2, 23 * MIB, 0, 256);
	memory_huge(m, before + huge);
	memory_total(m, 10 * MS, known(320), &t);
	memory_time(m, 110 * MS);
	read_one(m, MAIN, MIB / 4 + 8 * MIB, 0, 64 + 2048);
	read_one(m, 2, 23 * MIB, 0, 256);
	memory_huge(m, before + huge);
	memory_total(m, 110 * MS, known(320 + 2048), &t);
	assert_in_range(t.high[MEMORY_ALL], 31 * MIB, 32 * MIB);
	memory_free(m);
}

/* 10,000 short forks, four of them between two samples, of which one is found by none: what the estimator needs for the first thousand
 * is enough for all. */
static void test_processes_that_have_ended_take_no_memory(void **state)
{
	struct memory *m = start();
	struct memory_total t;
	size_t most = 0;

	(void) state;
	for (uint32_t round = 0; round < 2500; round++) {
		const uint64_t at = (2 + round) * 10 * MS;
		const uint32_t first = 2 + 4 * round;

		memory_time(m, at);
		for (uint32_t k = 0; k < 3; k++)
			child(m, first + k, at - 5 * MS);
		for (uint32_t k = 1; k < 4 && round > 0; k++)
			end(m, first - k - 1, 9 * MIB, 256, at);
		child(m, first + 3, at - 5 * MS);
		end(m, first + 3, 9 * MIB, 256, at);
		read_one(m, MAIN, 8 * MIB, 0, 2048);
		for (uint32_t k = 0; k < 3; k++)
			read_one(m, first + k, 8 * MIB + 512 * 1024, 0, 128);
		if (round % 10 == 0)
			memory_hwm(m, MAIN, 8 * MIB, true);
		memory_total(m, at, known(2048 + 1024 * (int64_t) round + 640), &t);
		if (round == 250) {
			most = largest_request;
			largest_request = 0;
		}
	}
	assert_in_range(largest_request, 0, most);
	memory_finish(m);
	memory_free(m);
}

enum {
	PROFILES = sizeof(profiles) / sizeof(profiles[0])
};

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forks_that_share),
		cmocka_unit_test(test_one_shared_mapping),
		cmocka_unit_test(test_a_range_mapped_twice),
		cmocka_unit_test(test_huge_pages_that_come_before_their_count),
		cmocka_unit_test(test_processes_that_have_ended_take_no_memory),
	};
	struct CMUnitTest runs[PROFILES];

	for (int k = 0; k < PROFILES; k++)
		runs[k] = (struct CMUnitTest) { profiles[k].name, test_profile, NULL, NULL,
			(void *) (uintptr_t) &profiles[k] };
	return cmocka_run_group_tests_name("tight", tests, NULL, NULL) +
	       cmocka_run_group_tests_name("profiles", runs, NULL, NULL);
}

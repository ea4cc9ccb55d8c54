/* SPDX-License-Identifier: MIT
 *
 * The job's accumulators, facts, processes, series and phases as one message. Items that have not
 * changed since the last message are omitted: a fingerprint of each detects changes.
 */
#include <errno.h>
#include <string.h>

#include "record/wire_totals.h"

enum {
	TEXT_MOST = 16 << 10,  /* longer texts are truncated, */
	FACT_MOST = 512 << 10, /* those of facts here: arguments as JSON */
};

static const char zeros[16];

void wire_memory_done(struct wire_memory *memory)
{
	map_done(&memory->accs);
	map_done(&memory->processes);
	map_done(&memory->series);
	map_done(&memory->phases);
}

void wire_memory_clear(struct wire_memory *memory)
{
	wire_memory_done(memory);
	*memory = (struct wire_memory) { 0 };
}

static uint64_t hash_add(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
	return hash ^ (hash >> 29);
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; text && *text; text++)
		hash = (hash ^ (unsigned char) *text) * 0x100000001b3U;
	return hash;
}

/* Stores the fingerprint; true if it differs from the last one. */
static bool is_changed(struct map *map, uint64_t key, uint64_t hash)
{
	uint32_t print = (uint32_t) (hash ^ (hash >> 32)), before;

	if (map_get(map, key, &before) && before == print)
		return false;
	(void) map_put(map, key, print); /* out of memory: it is sent again next time */
	return true;
}

static uint64_t process_print(const struct process *p)
{
	const uint64_t values[] = {
		(uint64_t) p->parent << 32 | (uint32_t) p->pid,
		(uint64_t) (uint32_t) p->ppid << 32 | p->uid,
		p->start_ns,
		p->startstack,
		p->born_ns,
		p->ended_ns,
		(uint64_t) p->is_main | (uint64_t) p->ended << 1 | (uint64_t) p->status_known << 2 |
			(uint64_t) p->peak_exact << 3 | (uint64_t) p->cpu_known << 4 |
			(uint64_t) p->io_known << 5 | (uint64_t) p->split_known << 6 | (uint64_t) p->how << 8,
		(uint64_t) (uint32_t) p->status,
		(uint64_t) p->rss_bytes,
		(uint64_t) p->rss_file_bytes,
		(uint64_t) p->peak_bytes,
		(uint64_t) p->cpu_user_ns,
		(uint64_t) p->cpu_system_ns,
		(uint64_t) p->faults_minor,
		(uint64_t) p->faults_waited,
		(uint64_t) p->read_bytes,
		(uint64_t) p->write_bytes,
		(uint64_t) p->private_bytes,
		(uint64_t) p->shared_bytes,
		(uint64_t) p->grown_bytes,
		p->rank.known ? (uint64_t) p->rank.value + 1 : 0,
	};
	uint64_t hash = p->id;

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		hash = hash_add(hash, values[i]);
	return hash_text(hash_text(hash, p->name), p->command);
}

static uint64_t stir_maybe(uint64_t hash, struct maybe value)
{
	return hash_add(hash_add(hash, value.known), value.known ? (uint64_t) value.value : 0);
}

static uint64_t phase_print(const struct phase *p)
{
	uint64_t hash = hash_add(p->begin_ns, p->end_ns);

	hash = hash_add(hash, (uint64_t) p->ram_before);
	hash = hash_add(hash, (uint64_t) p->ram_peak);
	hash = hash_add(hash, (uint64_t) p->ram_after);
	hash = stir_maybe(stir_maybe(hash, p->use.gpu_peak), p->use.gpu_after);
	hash = stir_maybe(stir_maybe(hash, p->use.work[GPU_WORK_BUSY]), p->use.work[GPU_WORK_SM]);
	hash = stir_maybe(stir_maybe(hash, p->use.job_peak), p->use.cpu_ns);
	hash = stir_maybe(stir_maybe(hash, p->use.cpu_energy_uj), p->use.gpu_energy_uj);
	return hash_add(hash, (uint64_t) p->ram_known | (uint64_t) p->peak_exact << 1);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void pad(struct buf *out)
{
	if (out->len % sizeof(zeros))
		(void) buf_add(out, zeros, sizeof(zeros) - out->len % sizeof(zeros));
}

static void add_text(struct buf *out, const char *text, size_t most)
{
	(void) buf_add(out, text ? text : "", text ? strnlen(text, most) : 0);
	(void) buf_add(out, zeros, 1);
}

struct putting {
	struct buf *out;
	struct wire_totals *totals;
	struct wire_memory *memory;
};

static uint64_t acc_print(const struct acc *acc)
{
	uint64_t print = hash_add(hash_add(acc->n, acc->last_at_ns), acc->hold_ns);

	print = hash_add(hash_add(print, (uint64_t) acc->min), (uint64_t) acc->max);
	print = hash_add(hash_add(hash_add(print, (uint64_t) acc->last), acc->span_ns), acc->unlisted_ns);
	return hash_add(print, (uint64_t) acc->rise);
}

static void put_acc(void *ctx, enum metric metric, uint32_t id, const struct acc *acc)
{
	struct putting *p = ctx;
	struct wire_acc entry;

	/* Single cores are not stored. */
	if (metrics[metric].entity == ENTITY_HOST && id > 0)
		return;
	/* For host and job the writer compares with its last values itself. */
	if (id > 0 && !is_changed(&p->memory->accs, (uint64_t) metric << 32 | id, acc_print(acc)))
		return;
	memset(&entry, 0, sizeof(entry));
	entry.metric = metric;
	entry.id = id;
	entry.acc = *acc;
	if (buf_add(p->out, &entry, sizeof(entry)) == 0)
		p->totals->n_accs++;
}

static void put_bucket(void *ctx, const struct timeline *timeline, unsigned place)
{
	struct putting *p = ctx;
	struct wire_bucket entry;

	memset(&entry, 0, sizeof(entry));
	entry.metric = timeline->metric;
	entry.id = timeline->id;
	entry.place = place;
	entry.bucket = timeline->buckets[place];
	if (buf_add(p->out, &entry, sizeof(entry)) == 0)
		p->totals->n_buckets++;
}

static void put_processes(struct putting *p, struct wire_memory *memory, const struct job *job)
{
	for (size_t i = 0; i < job_process_count(job); i++) {
		const struct process *process = job_process(job, i);

		if (is_changed(&memory->processes, process->id, process_print(process)) &&
			buf_add(p->out, process, sizeof(*process)) == 0)
			p->totals->n_processes++;
	}
	pad(p->out);
}

static void put_series(struct putting *p, struct wire_memory *memory, const struct job *job)
{
	for (size_t i = 0; i < job_series_count(job); i++) {
		const struct series *series = job_series(job, i);

		if (is_changed(&memory->series, i, series->n) &&
			buf_add(p->out, series, sizeof(*series)) == 0)
			p->totals->n_series++;
	}
	pad(p->out);
}

static void put_phases(struct putting *p, struct wire_memory *memory, const struct job *job)
{
	for (size_t i = 0; i < job_phase_count(job); i++) {
		const struct phase *phase = job_phase(job, i);

		if (is_changed(&memory->phases, phase->number, phase_print(phase)) &&
			buf_add(p->out, phase, sizeof(*phase)) == 0)
			p->totals->n_phases++;
	}
	pad(p->out);
}

/* The structs were written first; their texts follow in the same order. */
static void put_texts(
	struct buf *out, const struct wire_totals *t, size_t processes_at, size_t series_at, size_t phases_at)
{
	for (size_t i = 0; i < t->n_processes; i++) {
		struct process p;

		memcpy(&p, out->data + processes_at + i * sizeof(p), sizeof(p));
		add_text(out, p.command, TEXT_MOST);
	}
	for (size_t i = 0; i < t->n_series; i++) {
		struct series s;

		memcpy(&s, out->data + series_at + i * sizeof(s), sizeof(s));
		add_text(out, s.name, TEXT_MOST);
	}
	for (size_t i = 0; i < t->n_phases; i++) {
		struct phase p;

		memcpy(&p, out->data + phases_at + i * sizeof(p), sizeof(p));
		add_text(out, p.name, TEXT_MOST);
		add_text(out, p.facts, TEXT_MOST);
	}
#define F_INT(name)
#define F_TEXT(name)            add_text(out, t->facts.name, FACT_MOST);
#define F(kind, name, sentence) F_##kind(name)
#include "model/facts.def"
#undef F
#undef F_INT
#undef F_TEXT
}

int wire_totals_put(struct buf *out, struct wire_memory *memory, const struct job *job)
{
	struct wire_head head = { .kind = WIRE_TOTALS };
	struct wire_totals totals = {
		.time_ns = job_now(job),
		.timeline_span_ns = job_timeline_span(job),
		.is_whole = memory->next_seq == 0,
		.facts = *job_facts_const(job),
	};
	struct putting p = { .out = out, .totals = &totals, .memory = memory };
	size_t processes_at, series_at, phases_at;

	buf_clear(out);
	(void) buf_add(out, &head, sizeof(head));
	pad(out);
	(void) buf_add(out, &totals, sizeof(totals));
	pad(out);
	job_each_acc(job, put_acc, &p);
	pad(out);
	job_each_bucket(job, memory->next_seq, put_bucket, &p);
	memory->next_seq = job_seq(job) + 1;
	pad(out);
	processes_at = out->len;
	put_processes(&p, memory, job);
	series_at = out->len;
	put_series(&p, memory, job);
	phases_at = out->len;
	put_phases(&p, memory, job);
	put_texts(out, &totals, processes_at, series_at, phases_at);
	pad(out);
	if (out->error)
		return out->error;
	head.size = out->len;
	memcpy(out->data, &head, sizeof(head));
	memcpy(out->data + sizeof(head), &totals, sizeof(totals));
	return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void *get(char **at, size_t n)
{
	void *found = *at;

	*at += (n + 15) & ~(size_t) 15;
	return found;
}

static char *get_text(char **at)
{
	char *text = *at;

	*at += strlen(text) + 1;
	return text;
}

struct wire_totals *wire_totals_get(void *where)
{
	char *at = (char *) where + sizeof(struct wire_head);
	struct wire_totals *t = get(&at, sizeof(*t));

	t->accs = get(&at, t->n_accs * sizeof(*t->accs));
	t->buckets = get(&at, t->n_buckets * sizeof(*t->buckets));
	t->processes = get(&at, t->n_processes * sizeof(*t->processes));
	t->series = get(&at, t->n_series * sizeof(*t->series));
	t->phases = get(&at, t->n_phases * sizeof(*t->phases));
	for (size_t i = 0; i < t->n_processes; i++)
		t->processes[i].command = get_text(&at);
	for (size_t i = 0; i < t->n_series; i++)
		t->series[i].name = get_text(&at);
	for (size_t i = 0; i < t->n_phases; i++) {
		t->phases[i].name = get_text(&at);
		t->phases[i].facts = get_text(&at);
	}
	/* Unknown facts stay NULL. */
#define F_INT(name)
#define F_TEXT(name) \
	{ \
		char *text = get_text(&at); \
		t->facts.name = t->facts.name ? text : NULL; \
	}
#define F(kind, name, sentence) F_##kind(name)
#include "model/facts.def"
#undef F
#undef F_INT
#undef F_TEXT
	return t;
}

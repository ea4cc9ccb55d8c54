/* SPDX-License-Identifier: MIT */
#include "source/trace/read.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/smallfile.h"
#include "source/process/procfs_stat.h"
#include "source/trace/decode.h"
#include "source/trace/ring.h"

enum {
	UNITS = TRACE_CHUNK_BYTES / TRACE_UNIT_BYTES,
	NOTES = 16,
	TASK_NAME = 16,            /* of the kernel, with its NUL */
	TEXT_ROOM = 4096,
	LAYERS = 4,
	SAMPLED = 64,              /* the probe times one event of so many */
	LOST_MOST = 1 << 30,       /* a counter that jumps further is a forgery */
};
static const uint64_t lag_ns = 100000000, alive_every_ns = 200000000, cost_every_ns = UINT64_C(5000000000);

/* What was read of a chunk. */
struct chunk_state {
	uint32_t generation, units;
	int32_t tid;
	bool is_done;              /* of this generation nothing more is read */
};

/* A slot that a process has taken. */
struct slot_state {
	struct trace_decoder *decoder;
	int fd;                    /* of the memory */
	unsigned slot;
	uint64_t introduced;       /* in which drain */
	uint32_t process;          /* in the sink; 0: not known yet */
	int32_t pid;               /* here; -1: in another namespace */
	int32_t inner_pid;         /* as the process sees it */
	int64_t key;               /* pid; in another namespace below -1, of that and the pid there; -1: unknown */
	uint64_t start_ticks;
	char name[48];
	bool is_damaged;           /* of another version: it is not read */
	bool is_overwritten;       /* it was of this version, and is no more */
	uint64_t alive_at_ns;      /* when that was checked last */
	uint64_t lost[TRACE_LOSS_COUNT];
	bool has_failed;           /* the sink has: settle */
	uint64_t dropped;          /* events that it did not take, not reported yet */
	uint64_t cost_at_ns, cost[LAYERS], used[LAYERS]; /* timed_ns and timed at the begin of a span */
	unsigned layers_off;       /* enum trace_layer: they cost too much */
	uint32_t why[LAYERS];      /* reported */
	struct chunk_state chunks[TRACE_CHUNKS];
};

struct trace_reader {
	struct trace_shared memory;
	const struct root *root;
	_Atomic uint64_t start_boot_ns; /* 0: not begun */
	_Atomic bool is_used;      /* a drain has seen a slot that was taken */
	uint64_t pid_namespace, tick_ns;
	struct slot_state *slots[TRACE_SLOTS];
	uint64_t drains;
	int64_t boot_minus_mono_ns;
	uint32_t refused, unmapped;
	unsigned layers;
	_Atomic pid_t main;
	struct trace_select *select;
	struct trace_selector selector; /* of the main process's ranges */
	pthread_mutex_t lock;      /* of the notes */
	char notes[NOTES][TRACE_NOTE_BYTES];
	unsigned first_note, n_notes;
	_Alignas(16) unsigned char events[TRACE_CHUNK_BYTES]; /* a copy of a chunk */
};

/* A pass over a slot. */
struct pass {
	struct trace_reader *reader;
	unsigned slot;
	struct slot_state *state;
	struct trace_slot *head;
	struct trace_clock clock;
	uint64_t until_mono_ns;    /* later events stay */
	bool has_ended;            /* the process, before this pass */
	const struct trace_sink *sink;
};

/* ---- making it ------------------------------------------------------------------------------- */

static uint64_t namespace_of(const struct root *root, const char *path)
{
	struct stat st;

	return fstatat(root->proc, path, &st, 0) == 0 ? st.st_ino : 0;
}

static unsigned layers_now(const struct trace_reader *t, bool has_window)
{
	return has_window ? t->layers : t->layers & ~(unsigned) TRACE_KERNELS;
}

int trace_reader_new(const struct trace_reader_options *options, struct trace_reader **ret, struct err *err)
{
	struct trace_reader *t = calloc(1, sizeof(*t));
	const long ticks = sysconf(_SC_CLK_TCK);
	int r;

	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	t->memory.fd = t->memory.socket = -1;
	t->root = options->root;
	t->layers = options->layers;
	t->pid_namespace = namespace_of(t->root, "self/ns/pid");
	t->tick_ns = 1000000000 / (uint64_t) (ticks > 0 ? ticks : 100);
	(void) pthread_mutex_init(&t->lock, NULL);
	r = trace_select_new(&options->select, &t->select, err);
	t->selector = (struct trace_selector) { trace_select_of, trace_select_edge, t->select };
	if (r == 0)
		r = trace_shared_open(layers_now(t, r == 0 && trace_select_begins_open(t->select)),
			options->layers, &t->memory, err);
	if (r < 0) {
		trace_reader_free(t);
		return r;
	}
	*ret = t;
	return 0;
}

static void free_slot(struct trace_reader *t, unsigned slot)
{
	if (t->slots[slot])
		trace_decoder_free(t->slots[slot]->decoder);
	free(t->slots[slot]);
	t->slots[slot] = NULL;
}

void trace_reader_free(struct trace_reader *t)
{
	if (!t)
		return;
	for (unsigned i = 0; i < TRACE_SLOTS; i++)
		free_slot(t, i);
	trace_shared_close(&t->memory);
	trace_select_free(t->select);
	(void) pthread_mutex_destroy(&t->lock);
	free(t);
}

void trace_reader_begin(struct trace_reader *t, uint64_t start_boot_ns, pid_t main)
{
	t->main = main;
	t->start_boot_ns = start_boot_ns;
}

struct trace_select *trace_reader_select(struct trace_reader *t)
{
	return t->select;
}

int trace_reader_fd(const struct trace_reader *t)
{
	return t->memory.fd;
}

const char *trace_reader_environment(const struct trace_reader *t)
{
	return t->memory.environment;
}

int trace_reader_socket(const struct trace_reader *t)
{
	return t->memory.socket;
}

void trace_reader_answer(struct trace_reader *t)
{
	trace_shared_answer(&t->memory, t->root);
}

bool trace_reader_is_used(const struct trace_reader *t)
{
	const _Atomic uint32_t *slots = t->memory.ring->slots;
	bool is_used = t->is_used;

	for (unsigned i = 0; i < TRACE_SLOTS && !is_used; i++)
		is_used = atomic_load_explicit(&slots[i], memory_order_relaxed) != TRACE_SLOT_FREE;
	return is_used;
}

void trace_reader_prepare(struct trace_reader *t)
{
	trace_shared_prepare_free(&t->memory);
}

uint64_t trace_reader_bytes_of(void *reader, pid_t pid, uint64_t start_ticks)
{
	struct trace_reader *t = reader;

	return trace_shared_bytes_of(&t->memory, pid, start_ticks, t->pid_namespace);
}

/* ---- notes ----------------------------------------------------------------------------------- */

void trace_reader_add_note(struct trace_reader *t, const char *text)
{
	(void) pthread_mutex_lock(&t->lock);
	if (t->n_notes < NOTES)
		(void) snprintf(t->notes[(t->first_note + t->n_notes++) % NOTES], TRACE_NOTE_BYTES, "%s", text);
	(void) pthread_mutex_unlock(&t->lock);
}

bool trace_reader_note(struct trace_reader *t, char ret[static TRACE_NOTE_BYTES])
{
	bool has;

	(void) pthread_mutex_lock(&t->lock);
	has = t->n_notes > 0;
	if (has) {
		memcpy(ret, t->notes[t->first_note], TRACE_NOTE_BYTES);
		t->first_note = (t->first_note + 1) % NOTES;
		t->n_notes--;
	}
	(void) pthread_mutex_unlock(&t->lock);
	return has;
}

/* A text of the job's in a message: one line, without control bytes. */
static void clean(char *text)
{
	for (char *p = text; *p; p++) {
		if ((unsigned char) *p < ' ' || *p == 0x7f)
			*p = '?';
	}
}

static void name_of(const struct slot_state *s, char ret[static 48])
{
	char name[16];

	(void) snprintf(name, sizeof(name), "%.15s", s->name);
	clean(name);
	if (s->pid > 0)
		(void) snprintf(ret, 48, "process %d%s%s%s", (int) s->pid, *name ? " (" : "", name, *name ? ")" : "");
	else
		(void) snprintf(ret, 48, "process %d of another pid namespace", (int) s->inner_pid);
}

/* ---- the arena ------------------------------------------------------------------------------- */

/* As trace_text_fn. An offset counts units of 8 bytes. */
static ptrdiff_t read_text(void *ctx, uint32_t offset, unsigned type, void *ret, size_t size)
{
	const struct slot_state *s = ctx;
	const uint64_t arena = trace_slot_at(s->slot) + TRACE_ARENA_AT, at = (uint64_t) offset * 8;
	struct trace_text text;
	size_t n;

	if (at + sizeof(text) > TRACE_ARENA_BYTES ||
		pread(s->fd, &text, sizeof(text), (off_t) (arena + at)) != sizeof(text))
		return -1;
	if (text.type != type || at + sizeof(text) + text.len > TRACE_ARENA_BYTES)
		return -1;
	n = text.len < size ? text.len : size;
	if (n > 0 && pread(s->fd, ret, n, (off_t) (arena + at + sizeof(text))) != (ssize_t) n)
		return -1;
	return (ptrdiff_t) n;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* Where the event at a unit lies in the copy, if it is one of this generation that was published and is whole:
 * *ret_units is its length. NULL: there is none. *ret_damaged: it is none that the probe writes. */
static const struct trace_ring_head *event_at(const unsigned char *events, uint32_t unit,
	uint32_t generation, uint32_t *ret_units, bool *ret_damaged)
{
	const struct trace_ring_head *event = (const void *) (events + (size_t) unit * TRACE_UNIT_BYTES);
	size_t bytes;

	if (unit + 2 > UNITS ||
		atomic_load_explicit(&event->seq, memory_order_relaxed) != TRACE_SEQ(generation, unit))
		return NULL;
	bytes = trace_ring_bytes(event->kind);
	*ret_units = (uint32_t) (bytes / TRACE_UNIT_BYTES);
	*ret_damaged = bytes == 0 || unit + *ret_units > UNITS;
	return *ret_damaged ? NULL : event;
}

static off_t chunk_at(const struct pass *p, unsigned chunk)
{
	return (off_t) (trace_slot_at(p->slot) + TRACE_CHUNKS_AT + (uint64_t) chunk * TRACE_CHUNK_BYTES);
}

/* Copies units of a chunk to their place in the reader's copy. */
static bool copy_units(const struct pass *p, unsigned chunk, uint32_t from, uint32_t to)
{
	const size_t at = (size_t) from * TRACE_UNIT_BYTES, n = (size_t) (to - from) * TRACE_UNIT_BYTES;

	return pread(p->reader->memory.fd, p->reader->events + at, n, chunk_at(p, chunk) + (off_t) at) ==
	       (ssize_t) n;
}

/* The end of the events that were published, from a unit on. */
static uint32_t extent(
	const struct pass *p, uint32_t from, uint32_t generation, bool *ret_damaged, bool *ret_late)
{
	const struct trace_ring_head *event;
	uint32_t unit = from, units;

	*ret_damaged = *ret_late = false;
	while ((event = event_at(p->reader->events, unit, generation, &units, ret_damaged))) {
		/* A time in the future would keep all behind it. */
		if (event->time_ns > p->until_mono_ns && event->time_ns <= p->until_mono_ns + 2 * lag_ns) {
			*ret_late = true;
			break;
		}
		unit += units;
	}
	return unit;
}

/* Events between two units of the copy. */
static uint64_t count_events(const struct pass *p, uint32_t generation, uint32_t from, uint32_t to)
{
	uint32_t unit = from, units;
	uint64_t n = 0;
	bool damaged;

	while (unit < to && event_at(p->reader->events, unit, generation, &units, &damaged)) {
		unit += units;
		n++;
	}
	return n;
}

/* As trace_decode_gap. The range that the sink does not take is lost. */
static int cut(struct pass *p, int32_t tid)
{
	const int r = trace_decode_gap(p->state->decoder, tid, p->sink);

	p->state->dropped += r < 0;
	return r;
}

/* The sink failed, so that events that were read are lost: reports them as soon as that works. They are counted with
 * those that the recorder was too slow for. */
static int settle(struct pass *p)
{
	struct slot_state *s = p->state;
	int r = 0;

	if (!s->has_failed)
		return 0;
	if (s->dropped > 0)
		r = p->sink->lost(p->sink->ctx, s->process, TRACE_LOST_OVERWRITTEN, s->dropped);
	if (r < 0)
		return r;
	s->dropped = 0;
	r = cut(p, -1);
	s->has_failed = r < 0;
	return r;
}

static int pass_on(struct pass *p, int32_t tid, uint32_t generation, uint32_t from, uint32_t to)
{
	const struct trace_ring_head *event;
	bool damaged = false;
	uint32_t units;
	int r = 0;

	/* Before the events that it copied without a name. */
	if (atomic_load_explicit(&p->head->lost[TRACE_LOST_NAMES], memory_order_relaxed) > 0)
		trace_decode_names_full(p->state->decoder);
	/* The process writes while it is read: its events may be later than the begin of the drain. */
	if (to > from)
		p->clock.now_ns = counter_delta(p->reader->start_boot_ns,
			clock_awake_ns() + (uint64_t) p->reader->boot_minus_mono_ns);
	for (uint32_t unit = from; unit < to && r == 0; unit += units) {
		event = event_at(p->reader->events, unit, generation, &units, &damaged);
		if (!event)
			return p->sink->lost(p->sink->ctx, p->state->process, TRACE_LOST_DAMAGED, 1);
		r = trace_decode(p->state->decoder, &p->clock, tid, event, p->sink);
		if (r < 0)
			p->state->dropped += count_events(p, generation, unit, to);
	}
	return r;
}

/* A chunk as it was when the pass began. */
struct seen {
	uint64_t order;
	uint32_t state, generation;
	int32_t tid;
	unsigned chunk;
};

/* Gives a chunk back that was read completely, unless a thread of the job has taken it. */
static void give_back(struct trace_chunk *c)
{
	uint32_t full = TRACE_CHUNK_FULL;

	(void) atomic_compare_exchange_strong_explicit(
		&c->state, &full, TRACE_CHUNK_FREE, memory_order_acq_rel, memory_order_relaxed);
}

/* Reads the next event alone, since usually there is none. */
static bool has_event(const struct pass *p, const struct seen *seen, uint32_t unit)
{
	const struct trace_ring_head *event =
		(const void *) (p->reader->events + (size_t) unit * TRACE_UNIT_BYTES);

	return unit + 2 <= UNITS && copy_units(p, seen->chunk, unit, unit + 1) &&
	       atomic_load_explicit(&event->seq, memory_order_relaxed) == TRACE_SEQ(seen->generation, unit);
}

/* The process was killed while it took the chunk anew. What it had not counted as lost by then is all there. */
static bool is_claim_cut_short(const struct pass *p, const struct seen *seen, uint32_t read)
{
	return p->has_ended && read == TRACE_READ(seen->generation + 1, 0);
}

static int read_chunk(struct pass *p, const struct seen *seen)
{
	struct chunk_state *s = &p->state->chunks[seen->chunk];
	struct trace_chunk *c = &p->head->chunks[seen->chunk];
	const uint32_t from = s->units;
	uint32_t before = TRACE_READ(seen->generation, from), to = from;
	bool damaged = false, late = false;
	int r = 0;

	if (has_event(p, seen, from) && copy_units(p, seen->chunk, from, UNITS)) {
		to = extent(p, from, seen->generation, &damaged, &late);
		/* In which order those bytes were copied is not known: bodies again, after their seqs. */
		atomic_thread_fence(memory_order_acquire);
		if (to > from && !copy_units(p, seen->chunk, from, to))
			to = from;
	}
	/* Also where nothing is new: a chunk that was taken meanwhile must not be given back. */
	if (!atomic_compare_exchange_strong_explicit(&c->read, &before, TRACE_READ(seen->generation, to),
		    memory_order_acq_rel, memory_order_relaxed) &&
		!is_claim_cut_short(p, seen, before)) {
		/* Taken meanwhile, what was not read counted as lost; or another program wrote there. */
		s->is_done = before >> 11 == TRACE_READ(seen->generation, 0) >> 11;
		return s->is_done ? p->sink->lost(p->sink->ctx, p->state->process, TRACE_LOST_DAMAGED, 1) : 0;
	}
	s->units = to;
	trace_shared_note_chunk(&p->reader->memory, p->slot, seen->chunk, to * TRACE_UNIT_BYTES);
	if (damaged || (seen->state != TRACE_CHUNK_OWNED && !late)) {
		s->is_done = true;
		give_back(c);
	}
	r = pass_on(p, s->tid, seen->generation, from, to);
	if (damaged && r == 0)
		r = p->sink->lost(p->sink->ctx, p->state->process, TRACE_LOST_DAMAGED, 1);
	return r;
}

static int by_order(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	return (x->order > y->order) - (x->order < y->order);
}

/* What there is to read, in the order in which the chunks were claimed. */
static unsigned see_chunks(struct pass *p, struct seen ret[static TRACE_CHUNKS], bool *ret_is_pressed)
{
	unsigned n = 0, busy = 0;

	for (unsigned i = 0; i < TRACE_CHUNKS; i++) {
		struct trace_chunk *c = &p->head->chunks[i];
		const struct chunk_state *s = &p->state->chunks[i];
		struct seen seen = { .chunk = i };
		const uint32_t before = atomic_load_explicit(&c->generation, memory_order_acquire);

		seen.state = atomic_load_explicit(&c->state, memory_order_acquire);
		seen.generation = atomic_load_explicit(&c->generation, memory_order_acquire);
		if (seen.generation != before) /* the state may be that of the one before */
			seen.state = TRACE_CHUNK_OWNED;
		seen.tid = atomic_load_explicit(&c->tid, memory_order_relaxed);
		seen.order = atomic_load_explicit(&c->order, memory_order_relaxed);
		busy += seen.state == TRACE_CHUNK_FULL;
		/* Between its claim and its first event it has the generation of its last owner. One that is free and of
		 * a new generation was taken and filled while the one before was given back. */
		if (seen.generation == 0 || (s->is_done && s->generation == seen.generation))
			continue;
		ret[n++] = seen;
	}
	qsort(ret, n, sizeof(*ret), by_order);
	*ret_is_pressed = busy > TRACE_CHUNKS / 2;
	return n;
}

/* A chunk that has another generation than when it was read: what was not read of the one before is lost, and of
 * those between all. */
static int note_taken(struct pass *p, const struct seen *seen)
{
	struct chunk_state *s = &p->state->chunks[seen->chunk];
	const struct chunk_state before = *s;
	int r = 0;

	if (seen->generation == before.generation)
		return 0;
	*s = (struct chunk_state) { .generation = seen->generation, .tid = seen->tid };
	if (before.generation != 0 && !before.is_done)
		trace_shared_note_chunk(&p->reader->memory, p->slot, seen->chunk, TRACE_CHUNK_BYTES);
	if (seen->generation != before.generation + 1)
		r = cut(p, -1);
	else if (before.generation != 0 && !before.is_done)
		r = cut(p, before.tid);
	return r;
}

static int read_chunks(struct pass *p)
{
	struct seen seen[TRACE_CHUNKS];
	bool is_pressed;
	const unsigned n = see_chunks(p, seen, &is_pressed);
	int r = 0;

	if (is_pressed) /* better in no phase than lost */
		p->until_mono_ns = UINT64_MAX - 2 * lag_ns;
	for (unsigned i = 0; i < n && r == 0; i++)
		r = note_taken(p, &seen[i]);
	for (unsigned i = 0; i < n && r == 0; i++)
		r = read_chunk(p, &seen[i]);
	return r;
}

/* ---- a process ------------------------------------------------------------------------------- */

/* Is the process alive? True if that cannot be known. */
static bool is_alive(const struct trace_reader *t, const struct slot_state *s)
{
	char path[32], text[1024];
	struct procfs_stat st;
	ssize_t n;

	if (s->pid <= 0)
		return true;
	(void) snprintf(path, sizeof(path), "%d/stat", (int) s->pid);
	n = smallfile_read(t->root->proc, path, text, sizeof(text));
	if (n == -ENOENT || n == -ESRCH)
		return false;
	if (n < 0 || procfs_stat_parse(text, &st) < 0)
		return true;
	return st.start_ticks == s->start_ticks && !((st.state == 'Z' || st.state == 'X') && st.threads <= 1);
}

/* Processes of other namespaces may have equal pids there. */
static int64_t key_of(uint64_t pid_namespace, int32_t pid)
{
	static const unsigned pid_bits = 22; /* PID_MAX_LIMIT of the kernel */
	const uint64_t of_namespace = pid_namespace & ((UINT64_C(1) << 40) - 1);

	if (pid <= 0 || pid_namespace == 0)
		return -1;
	return -2 - (int64_t) (of_namespace << pid_bits | ((uint32_t) pid & ((1U << pid_bits) - 1)));
}

static int introduce(struct pass *p)
{
	struct trace_reader *t = p->reader;
	struct slot_state *s = p->state;
	const uint64_t ns = atomic_load_explicit(&p->head->pid_namespace, memory_order_relaxed);
	const int32_t pid = atomic_load_explicit(&p->head->pid, memory_order_relaxed);
	char path[32];
	ssize_t n;
	int r;

	s->start_ticks = atomic_load_explicit(&p->head->start_ticks, memory_order_relaxed);
	s->pid = pid > 0 && ns != 0 && ns == t->pid_namespace ? pid : -1;
	s->inner_pid = pid;
	s->key = s->pid > 0 ? s->pid : key_of(ns, pid);
	if (s->key < -1)
		(void) snprintf(s->name, sizeof(s->name), "pid %d of another namespace", (int) pid);
	if (s->pid > 0 && is_alive(t, s)) {
		(void) snprintf(path, sizeof(path), "%d/comm", (int) s->pid);
		n = smallfile_read(t->root->proc, path, s->name, TASK_NAME);
		s->name[n > 0 ? strcspn(s->name, "\n") : 0] = '\0';
	}
	const struct trace_process process = {
		.pid = s->key,
		.start_ns = s->key != -1 ? s->start_ticks * t->tick_ns : 0,
		.name = s->name,
		.origin = "probe",
		.rank = -1,
	};

	r = p->sink->process(p->sink->ctx, &process, &s->process);
	if (r < 0)
		return r;
	s->introduced = t->drains;
	s->decoder = trace_decoder_new(s->process, read_text, s);
	if (s->decoder && s->pid > 0 && s->pid == t->main)
		trace_decoder_select(s->decoder, &t->selector);
	return s->decoder ? 0 : -ENOMEM;
}

/* Threads without a chunk lost events. One that got a chunk again says so in its first event. */
static int cut_threads_without_chunk(struct pass *p)
{
	int32_t tids[TRACE_CHUNKS];
	size_t n = 0;
	int r;

	for (unsigned i = 0; i < TRACE_CHUNKS; i++) {
		struct trace_chunk *c = &p->head->chunks[i];

		if (atomic_load_explicit(&c->state, memory_order_relaxed) == TRACE_CHUNK_OWNED)
			tids[n++] = atomic_load_explicit(&c->tid, memory_order_relaxed);
	}
	r = trace_decode_gap_of_others(p->state->decoder, tids, n, p->sink);
	p->state->dropped += r < 0;
	return r;
}

static int read_losses(struct pass *p)
{
	struct slot_state *s = p->state;
	int r = 0;

	for (int i = 0; i < TRACE_LOSS_COUNT && r == 0; i++) {
		const uint64_t now = atomic_load_explicit(&p->head->lost[i], memory_order_relaxed);
		uint64_t n = counter_delta(s->lost[i], now);

		s->lost[i] = now;
		if (n > LOST_MOST)
			n = 1;
		if (n > 0)
			r = p->sink->lost(p->sink->ctx, s->process, (enum trace_loss) i, n);
		if (n > 0 && i == TRACE_LOST_THREADS && r == 0)
			r = cut_threads_without_chunk(p);
	}
	return r;
}

/* The process has ended, with work whose records it never wrote. */
static int read_in_flight(const struct pass *p)
{
	const int64_t n = atomic_load_explicit(&p->head->in_flight, memory_order_relaxed);

	if (n <= 0)
		return 0;
	return p->sink->lost(p->sink->ctx, p->state->process, TRACE_LOST_INCOMPLETE,
		n > LOST_MOST ? 1 : (uint64_t) n);
}

static const char *why_text(uint32_t why)
{
	static const char *const texts[] = {
		[TRACE_WHY_SUBSCRIBER] = "another tool has the GPU's tracing interface",
		[TRACE_WHY_NO_LIBRARY] = "libcupti was not found",
		[TRACE_WHY_UNSUPPORTED] = "its library or driver does not have it",
		[TRACE_WHY_FORKED] = "a child of fork cannot use the tracing of CUDA; start it by spawn or exec",
		[TRACE_WHY_INNER] = "the probe found its own state inconsistent",
	};

	return why < sizeof(texts) / sizeof(*texts) && texts[why] ? texts[why] : "the probe could not";
}

static void note_unfollowed(struct pass *p)
{
	struct slot_state *s = p->state;
	char note[TRACE_NOTE_BYTES], process[48], detail[96] = "";
	const uint32_t offset = atomic_load_explicit(&p->head->detail, memory_order_relaxed);
	ptrdiff_t n;

	for (unsigned i = 0; i < LAYERS; i++) {
		const uint32_t why = atomic_load_explicit(&p->head->why[i], memory_order_relaxed);

		if (why == s->why[i])
			continue;
		s->why[i] = why;
		n = offset ? read_text(s, offset, 0, detail, sizeof(detail) - 1) : 0;
		detail[n > 0 ? n : 0] = '\0';
		clean(detail);
		name_of(s, process);
		(void) snprintf(note, sizeof(note), "trace: %s: %s are not followed: %s%s%s%s", process,
			trace_layer_name(1U << i), why_text(why), *detail ? " (" : "", detail,
			*detail ? ")" : "");
		if (why != TRACE_WHY_NONE)
			trace_reader_add_note(p->reader, note);
	}
}

/* The probe's own time may be 1 % of wall time; above it, the dearest layer is no longer followed there. */
static void limit_cost(struct pass *p)
{
	struct slot_state *s = p->state;
	const uint64_t now_ns = p->clock.now_ns, span_ns = counter_delta(s->cost_at_ns, now_ns);
	uint64_t sum = 0, most = 0;
	char note[TRACE_NOTE_BYTES], process[48];
	unsigned dearest = 0;

	if (s->cost_at_ns != 0 && span_ns < cost_every_ns)
		return;
	for (unsigned i = 0; i < LAYERS; i++) {
		const uint64_t ns = atomic_load_explicit(&p->head->timed_ns[i], memory_order_relaxed);
		uint64_t cost = counter_delta(s->cost[i], ns);

		s->cost[i] = ns;
		cost = cost < UINT64_MAX / SAMPLED / LAYERS ? cost * SAMPLED : UINT64_MAX / LAYERS;
		sum += cost;
		if (cost > most) {
			most = cost;
			dearest = i;
		}
	}
	const bool is_first = s->cost_at_ns == 0;

	s->cost_at_ns = now_ns ? now_ns : 1;
	if (is_first || sum <= span_ns / 100)
		return;
	s->layers_off |= 1U << dearest;
	(void) atomic_fetch_or_explicit(&p->head->layers_off, 1U << dearest, memory_order_relaxed);
	name_of(s, process);
	(void) snprintf(note, sizeof(note),
		"trace: %s: %s are not followed any more, %.1f s into the run: they took %.1f %% of its "
		"time",
		process, trace_layer_name(1U << dearest), (double) now_ns / 1e9,
		100.0 * (double) sum / (double) span_ns);
	trace_reader_add_note(p->reader, note);
}

/* ---- a drain --------------------------------------------------------------------------------- */

/* A process that executed another program has another slot. */
static bool is_replaced(const struct trace_reader *t, unsigned slot)
{
	const struct slot_state *s = t->slots[slot];

	for (unsigned i = 0; s->key != -1 && i < TRACE_SLOTS; i++) {
		const struct slot_state *other = t->slots[i];

		if (i != slot && other && other->process && other->key == s->key &&
			other->start_ticks == s->start_ticks && other->introduced > s->introduced)
			return true;
	}
	return false;
}

static int read_slot(struct pass *p, bool last)
{
	struct trace_reader *t = p->reader;
	struct slot_state *s = p->state;
	bool has_ended = false;
	int r = s->decoder ? 0 : introduce(p);

	if (r < 0)
		return r;
	if (last || p->clock.now_ns >= s->alive_at_ns + alive_every_ns) {
		s->alive_at_ns = p->clock.now_ns;
		has_ended = !is_alive(t, s) || is_replaced(t, p->slot); /* before reading: nothing follows */
	}
	p->has_ended = has_ended;
	if (has_ended)
		p->until_mono_ns = UINT64_MAX - 2 * lag_ns;
	r = settle(p);
	if (r == 0)
		r = read_chunks(p);
	if (r == 0)
		r = read_losses(p);
	note_unfollowed(p);
	limit_cost(p);
	/* Each time: what was written before the process saw that it is off may be read later. */
	if (r == 0 && s->layers_off)
		r = trace_decode_off(s->decoder, s->layers_off, p->sink);
	if (r == 0 && (has_ended || last))
		r = read_in_flight(p);
	if (r == 0 && (has_ended || last))
		r = trace_decode_end(s->decoder, p->clock.now_ns, p->sink);
	if (r == 0 && has_ended) {
		trace_shared_release(&t->memory, p->slot, s->pid, s->start_ticks);
		free_slot(t, p->slot);
	} else {
		trace_shared_prepare(&t->memory, p->slot,
			atomic_load_explicit(&p->head->claims, memory_order_relaxed));
		s->has_failed |= r < 0;
		if (r < 0)
			(void) settle(p); /* or next time */
	}
	return r;
}

/* A slot that was sound and is no more, or is free though only the recorder frees one: a process of the job has written
 * there. How much is lost is not known. */
static void note_overwritten(struct pass *p, struct slot_state *s)
{
	if (!s || !s->decoder || s->is_overwritten)
		return;
	s->is_overwritten = true;
	(void) p->sink->lost(p->sink->ctx, 0, TRACE_LOST_DAMAGED, 1);
}

/* The state of a taken slot whose process has filled in its head; NULL: there is none to read. */
static struct slot_state *find_slot(struct pass *p, unsigned slot)
{
	struct trace_reader *t = p->reader;
	uint32_t version;

	if (atomic_load_explicit(&t->memory.ring->slots[slot], memory_order_acquire) == TRACE_SLOT_FREE) {
		note_overwritten(p, t->slots[slot]);
		return NULL;
	}
	t->is_used = true;
	p->slot = slot;
	p->head = trace_shared_head(&t->memory, slot);
	version = p->head ? atomic_load_explicit(&p->head->version, memory_order_acquire) : 0;
	if (version != 0 && !t->slots[slot])
		t->slots[slot] = calloc(1, sizeof(*t->slots[slot]));
	p->state = t->slots[slot];
	if (p->state) {
		p->state->fd = t->memory.fd;
		p->state->slot = slot;
	}
	if (!p->state || p->state->is_damaged)
		return NULL;
	if (version != TRACE_RING_VERSION && !p->state->decoder) {
		p->state->is_damaged = version != 0;
		if (version != 0)
			(void) p->sink->lost(p->sink->ctx, 0, TRACE_LOST_DAMAGED, 1);
		return NULL;
	}
	if (version != TRACE_RING_VERSION)
		note_overwritten(p, p->state);
	return p->state;
}

enum {
	MOST_PROCESSES = 4 << 20, /* the kernel's limit of pids: a larger count is not one */
};

/* The first time that a count of processes that are not followed rises. */
static void note_count(struct trace_reader *t, _Atomic uint32_t *count, uint32_t *known, const char *why)
{
	const uint32_t now = atomic_load_explicit(count, memory_order_relaxed);
	char note[TRACE_NOTE_BYTES];

	if (now == *known)
		return;
	if (now > MOST_PROCESSES)
		(void) snprintf(note, sizeof(note), "trace: a process of the job has overwritten the memory of the trace");
	else
		(void) snprintf(note, sizeof(note), "trace: %u %s not followed: %s", now,
			now == 1 ? "process is" : "processes are", why);
	if (*known == 0)
		trace_reader_add_note(t, note);
	*known = now;
}

static void note_counts(struct trace_reader *t)
{
	struct trace_ring *ring = t->memory.ring;

	note_count(t, &ring->refused, &t->refused, "512 are followed at once");
	note_count(t, &ring->unmapped, &t->unmapped,
		"they could not map the memory for their events; is their address space limited (ulimit -v)?");
}

static void note_unopened(struct trace_reader *t)
{
	char note[TRACE_NOTE_BYTES];
	const char *window;

	for (unsigned i = 0; (window = trace_select_unopened(t->select, &i));) {
		(void) snprintf(note, sizeof(note), "trace: the window \"%s\" did not open: there was nothing of it in the run", window);
		trace_reader_add_note(t, note);
	}
}

/* CLOCK_BOOTTIME less CLOCK_MONOTONIC changes while the machine is suspended, and at no other time: what the
 * two reads of a comparison are apart must not move events against each other. Returns CLOCK_MONOTONIC. */
static uint64_t compare_clocks(struct trace_reader *t)
{
	enum {
		TRIES = 4
	};
	static const int64_t suspended_ns = 1000000;
	int64_t offset_ns = 0;
	uint64_t apart_ns = UINT64_MAX, now = 0;

	for (int i = 0; i < TRIES; i++) {
		const uint64_t before = clock_awake_ns(), boot_ns = clock_boot_ns();

		now = clock_awake_ns();
		if (now - before >= apart_ns)
			continue;
		apart_ns = now - before;
		offset_ns = (int64_t) (boot_ns - (before + apart_ns / 2));
	}
	if (t->drains == 0 || offset_ns - t->boot_minus_mono_ns > suspended_ns ||
		t->boot_minus_mono_ns - offset_ns > suspended_ns)
		t->boot_minus_mono_ns = offset_ns;
	return now;
}

int trace_drain(void *reader, enum trace_drain how, const struct trace_sink *sink)
{
	const bool last = how == TRACE_DRAIN_LAST;
	struct trace_reader *t = reader;
	struct pass pass = { .reader = t, .sink = sink };
	bool has_window;
	int r = 0;

	if (t->start_boot_ns == 0)
		return 0; /* not begun */

	const uint64_t mono_ns = compare_clocks(t);

	t->drains++;
	trace_select_pass_to(t->select, sink);
	pass.clock.now_ns = counter_delta(t->start_boot_ns, mono_ns + (uint64_t) t->boot_minus_mono_ns);
	pass.clock.offset_ns = t->boot_minus_mono_ns - (int64_t) t->start_boot_ns;
	for (unsigned i = 0; i < TRACE_SLOTS && r == 0; i++) {
		pass.until_mono_ns = how == TRACE_DRAIN_USUAL ? mono_ns - lag_ns : UINT64_MAX - 2 * lag_ns;
		if (find_slot(&pass, i))
			r = read_slot(&pass, last);
	}
	trace_select_pass_to(t->select, NULL);
	note_counts(t);
	if (r == 0 && last && sink->probe)
		r = sink->probe(sink->ctx, trace_shared_bytes(&t->memory));
	trace_shared_prepare_free(&t->memory);
	if (r < 0 || !(t->layers & TRACE_KERNELS))
		return r;
	r = trace_select_update(t->select, pass.clock.now_ns, last, sink, &has_window);
	if (last)
		note_unopened(t);
	atomic_store_explicit(
		&t->memory.ring->layers, layers_now(t, has_window && !last), memory_order_relaxed);
	return r;
}

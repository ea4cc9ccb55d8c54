/* SPDX-License-Identifier: MIT
 *
 * Shared by trace_write.c (numbers, sums), trace_rows.c (rows), trace_peak.c (peaks of memory), trace_flush.c
 * (all other tables), trace_load.c (what a recording had before) and trace_add.c (what another one has). Included by no other file.
 *
 * Numbers are given in memory; the tables are written by a flush, and before rows that refer to them.
 */
#pragma once

#include "base/map.h"
#include "record/trace/trace_histogram.h"
#include "record/trace/trace_read.h"
#include "record/trace/trace_union.h"
#include "record/trace/trace_write.h"

/* What names and sites may need at most; then equal ones are made of different ones, and counted. */
enum {
	TRACE_MOST_NAMES = 1 << 20,
	TRACE_MOST_NAME_BYTES = 32 << 20, /* of all names in memory, or half of the limit of rows */
	TRACE_NAME_COST = 64,      /* of one, besides its text */
	TRACE_MOST_THREADS = 4096, /* names of threads, of a process, */
	TRACE_THREAD_NAME = 64,    /* which are cut to that many bytes, */
	TRACE_SHORT_NAME = 256,    /* and those of processes and devices */
	TRACE_MOST_SITES = 1 << 21,
	TRACE_MOST_STATS = 200000, /* further ones are not divided by phases, */
	TRACE_MOST_DIVIDED = 2 * TRACE_MOST_STATS, /* nor by threads and streams */
	TRACE_MOST_PROCESSES = 1 << 16,
	TRACE_MOST_DEVICES = 1 << 14, /* a device of two processes is two */
	TRACE_MOST_WINDOWS = 1 << 16,
	TRACE_TWIN_HINTS = 1 << 16,
};

/* The tables of rows. */
enum trace_table {
	ROWS_RANGE,
	ROWS_LAUNCH,
	ROWS_KERNEL,
	ROWS_COPY,
	ROWS_MEMORY,
	ROWS_COUNT,
};

struct trace_table_info {
	const char *name, *time;   /* the column of its start */
	const char *columns;       /* as they are bound; the first three are the time, the duration or bytes, the site */
};
extern const struct trace_table_info trace_tables[ROWS_COUNT];
enum trace_table trace_table_of(enum trace_kind kind);

struct process_entry {
	struct trace_process process; /* its texts are its own */
	int64_t in_job;        /* its id in table process; 0: unknown */
	unsigned tries;        /* how often it was looked for there */
	bool is_of_part;       /* it is not there: of another recording */
	uint64_t lost[TRACE_LOSS_COUNT];
	uint32_t n_threads;    /* that have a name */
	bool is_lost_written, is_written;
};

/* As struct trace_site, comparable byte by byte. */
struct site_key {
	uint64_t context, stream;
	int64_t tid, device;
	uint32_t kind, process, name, domain; /* numbers of trace_name; 0: "" */
	uint32_t grid[3], block[3], registers, shared_static, shared_dynamic;
	uint32_t source, target, copy; /* copy: how many equal sites were made before (trace_site_twin) */
};

struct site_entry {
	struct site_key key;
	uint32_t stat_phase, stat; /* the last one used, plus 1; 0: none */
	uint32_t twin;         /* an equal site, for rows that are equal in their keys; 0: none */
};

struct stat_key {
	uint64_t stream;
	int64_t tid, device;
	uint32_t kind, process, name, domain, phase, source, target, unused;
};

struct stat_entry {
	struct stat_key key;
	uint64_t count, invalid, total_ns, min_ns, max_ns, bytes, rows;
	double sum_squares;
	struct trace_histogram histogram;
	uint64_t added, removed; /* rows since the last flush, in case it is rolled back */
	bool is_changed;
	bool is_thinned;         /* rows that may have been its are deleted */
};

struct thread_entry {
	uint32_t process;
	int64_t tid;
	char *name;
	bool is_written;
};

struct device_entry {
	uint32_t process;
	int64_t device;
	char *name;
	struct trace_union busy;
	struct trace_union_sums written;
	bool has_work, is_written;
};

struct peak_sums {
	uint64_t live, peak, at_ns;
};

/* Memory that a process has allocated on a device, of a kind. */
struct peak_entry {
	uint32_t process;
	uint32_t memory;       /* enum trace_memory, or TRACE_PEAK_GPU */
	int64_t device;
	struct peak_sums sums; /* of what counts for good */
	struct peak_sums shown, written; /* and of what waits; as of the last flush */
	bool is_written;
};

/* An allocation or a release that waits for its place in the order of time. */
struct memory_change {
	uint64_t time_ns, bytes, number; /* number: in the order of arrival */
	uint32_t peak;
	bool is_release;
};

struct window_entry {
	uint64_t begin_ns, end_ns;
	uint64_t sent_ns;      /* its begin, of which a gap may have cut off a part */
	char *why;
	bool is_written;
};

struct phase_change {
	uint64_t time_ns;
	uint32_t phase;
};

/* An event that waits for its row. */
struct pending_row {
	uint64_t start_ns, duration_ns, correlation, bytes, address;
	uint64_t queued_ns, submitted_ns; /* before start_ns; UINT64_MAX: unknown */
	uint32_t site, stat, flags, depth;
	uint8_t table;
	bool is_release;
};

/* The twin of a site that a row with these keys had, by their hash. */
struct twin_hint {
	uint64_t key;
	uint32_t twin;
};

struct trace_write {
	struct store *s;
	struct trace_write_options options;
	struct trace_sink sink;
	bool has_tables;
	bool has_failed;               /* the store, since its transaction began */

	struct process_entry *processes;
	size_t n_processes, cap_processes;
	uint64_t lost[TRACE_LOSS_COUNT]; /* of no process in particular */
	bool is_lost_written;
	struct map process_places;
	char **names;
	size_t n_names, cap_names, written_names;
	struct map name_places;
	uint64_t name_bytes;           /* of names, those of threads too */
	uint32_t names_full;           /* the number of "(names full)"; 0: there is room */
	struct site_entry *sites;
	size_t n_sites, cap_sites, written_sites;
	struct map site_places;
	struct stat_entry *stats;
	size_t n_stats, cap_stats;
	struct map stat_places;
	struct map thinned;            /* hashes of kind, process, name, domain of rows that were deleted */
	bool has_new_thinned;
	struct thread_entry *threads;
	size_t n_threads, cap_threads;
	bool has_new_threads;          /* or names of them */
	struct map thread_places;
	struct device_entry *devices;
	size_t n_devices, cap_devices;
	struct map device_places;
	struct peak_entry *peaks;
	size_t n_peaks, cap_peaks;
	struct map peak_places;
	struct memory_change *changes;
	size_t n_changes, cap_changes;
	uint64_t changes_seen;
	struct window_entry *windows;
	size_t n_windows, cap_windows;
	struct trace_span *spans;      /* the windows, sorted and disjoint */
	size_t n_spans, cap_spans;
	struct trace_span gap;         /* the last one (trace_write_gap) */
	uint64_t windows_end_ns;       /* of those that ended */

	struct phase_change *phases;
	size_t n_phases, cap_phases;

	struct pending_row *pending;
	size_t n_pending;
	struct twin_hint *twin_hints;  /* NULL: there was no row with equal keys */
	uint64_t rows[ROWS_COUNT];
	uint64_t rows_since_flush;
	uint64_t last_ns;              /* of all events */
	int64_t pages;                 /* that rows and sums use */
	int64_t flushed_pages;         /* as of the last commit */
	bool is_flushed;               /* since the last row */
	uint64_t second, events_in_second, rows_in_second, events_seen;
	unsigned shift;                /* one of 2^shift events gets a row */
};

/* trace_write.c */
/* Before something is written: what the last flush wrote is committed by now. */
void trace_write_begins(struct trace_write *w);
uint64_t trace_hash(const void *bytes, size_t n);
uint32_t trace_phase_at(struct trace_write *w, uint64_t time_ns);
/* The sums for events of the site in a phase; *ret is their index. Returns 0 or -ENOMEM. */
int trace_stat_of(struct trace_write *w, uint32_t site, uint32_t phase, uint32_t *ret);
/* A site that is equal and another one. Returns 0, -EFBIG or -ENOMEM. */
int trace_site_twin(struct trace_write *w, uint32_t site, uint32_t *ret);
/* Put texts, sites, sums and devices that were read from a file. Return 0 or -ENOMEM. */
int trace_put_name(struct trace_write *w, const char *text);
/* *ret is the number of the text, 0 for "". */
int trace_number_name(struct trace_write *w, const char *text, uint32_t process, uint32_t *ret);
int trace_put_site(struct trace_write *w, const struct site_key *key);
int trace_put_stat(struct trace_write *w, const struct stat_key *key, struct stat_entry **ret);
int trace_put_process(struct trace_write *w, const struct trace_process *process);
int trace_put_device(struct trace_write *w, uint32_t process, int64_t device, uint32_t *ret);
/* -EFBIG: it goes without its name. */
int trace_put_thread(struct trace_write *w, uint32_t process, int64_t tid, const char *name);
int trace_put_window(struct trace_write *w, uint64_t begin_ns, uint64_t end_ns, const char *why);
void trace_count_lost(struct trace_write *w, uint32_t process, enum trace_loss cause, uint64_t n);
void trace_uncount_lost(struct trace_write *w, uint32_t process, enum trace_loss cause, uint64_t n);
/* Events of the process that were lost, each of which may have been work on any of its devices. */
uint64_t trace_lost_work(const struct trace_write *w, uint32_t process);

/* trace_rows.c */
int trace_rows_put(struct trace_write *w, const struct trace_event *event, uint32_t stat);
/* Writes the rows that wait. Returns 0 or -errno. */
int trace_rows_spill(struct trace_write *w);
/* Deletes some of the oldest rows if they exceed the limit. */
int trace_rows_thin(struct trace_write *w);
/* Marks the sums that rows were deleted of: of which phase or stream they were is not known for certain. */
void trace_rows_mark_thinned(struct trace_write *w);
uint64_t trace_rows_all(const struct trace_write *w);

/* trace_flush.c */
int trace_flush_tables(struct trace_write *w);
/* Processes, names and sites that are not in the file yet. */
int trace_flush_keys(struct trace_write *w);
int trace_flush_sums(struct trace_write *w);
/* The sums of a device that gets no more work. */
int trace_flush_busy(
	struct trace_write *w, const struct device_entry *d, const struct trace_union_sums *sums);

/* trace_peak.c: counts an allocation or a release; writes the peaks that changed. Return 0 or -errno. */
int trace_peak_add(
	struct trace_write *w, const struct site_key *site, const struct trace_event *e, bool is_release);
int trace_put_peak(
	struct trace_write *w, uint32_t process, int64_t device, uint32_t memory, uint32_t *ret);
int trace_flush_peaks(struct trace_write *w);

/* trace_load.c: what the file has. Returns 0 or -errno (-EBADMSG: damaged). */
int trace_load(struct trace_write *w);

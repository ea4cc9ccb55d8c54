/* SPDX-License-Identifier: MIT
 *
 * hiwater runs: lists the history as a table or as JSON, and removes runs from it.
 */
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/textwidth.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/columns.h"
#include "cli/measure.h"
#include "cli/terminal.h"

enum {
	OUTPUT_MOST = 64 << 20,
	RUNS_MOST = 1 << 20,
};

#define SORT_CHOICES "start|ram|wall|size"

enum order {
	BY_START,
	BY_RAM,
	BY_WALL,
	BY_SIZE
};

static struct {
	bool json, rm, failed;
	uint64_t since_ns;   /* wall clock; 0: no such filter */
	enum order sort;
	enum hiw_units units;
	char *const *names;  /* patterns; NULL-terminated */
	size_t n_names;
	bool *has_runs;      /* of each name, apart from the filters */
} arg_runs;

struct list {
	struct buf out;
	struct json json;
	struct table table;
	struct hiw_entry *entries; /* the chosen ones; their texts are copies */
	size_t n, cap, n_all;
	bool has_notes, has_jobs;
	int error;
};

/* ---- which runs, in which order -------------------------------------------------------------- */

static bool has_name(const struct hiw_entry *e)
{
	const char *name = e->name ? e->name : "";
	bool has = arg_runs.n_names == 0;

	for (size_t i = 0; i < arg_runs.n_names; i++) {
		if (strcmp(arg_runs.names[i], name) == 0 || fnmatch(arg_runs.names[i], name, 0) == 0)
			has = arg_runs.has_runs[i] = true;
	}
	return has;
}

static bool has_raised(const struct hiw_entry *e)
{
	return e->complete && !e->exit_status.known && e->raised && *e->raised;
}

/* It ended with another status than 0, by a signal or an exception, or its recorder was killed. */
static bool has_failed(const struct hiw_entry *e)
{
	if (e->running)
		return false;
	return !e->complete || (e->exit_status.known ? e->exit_status.value != 0 : has_raised(e));
}

static bool is_chosen(const struct hiw_entry *e)
{
	return has_name(e) && (!arg_runs.failed || has_failed(e)) && e->started_wall_ns >= arg_runs.since_ns;
}

static int compare_values(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static int64_t value_of(const struct hiw_entry *e)
{
	switch (arg_runs.sort) {
	case BY_RAM:
		return e->peak_bytes.known ? e->peak_bytes.value : -1;
	case BY_WALL:
		return e->wall_ns;
	case BY_SIZE:
		return (int64_t) e->file_bytes;
	case BY_START:
		break;
	}
	return 0;
}

/* The largest first; equal ones, and without a value all, from the oldest to the newest. */
static int in_order(const void *a, const void *b)
{
	const struct hiw_entry *x = a, *y = b;
	const int by_value = compare_values(value_of(y), value_of(x));

	return by_value ? by_value : compare_values((int64_t) x->number, (int64_t) y->number);
}

/* "7d", or a date, at whose midnight it begins. */
static int parse_since(const char *value, void *dest, struct err *err)
{
	struct tm date = { .tm_isdst = -1 };
	const char *end = strptime(value, "%Y-%m-%d", &date);
	int64_t span;

	if (end && *end == '\0') {
		const time_t at = mktime(&date);

		*(uint64_t *) dest = at > 0 ? (uint64_t) at * UINT64_C(1000000000) : 1;
		return 0;
	}
	if (units_parse_duration(value, &span, NULL) < 0 || span <= 0)
		return err_set(err, -EINVAL, "'%.80s' is neither a time span, such as 7d or 12h, nor a date, such as 2026-11-01",
			value);
	const uint64_t now = clock_wall_ns();

	*(uint64_t *) dest = (uint64_t) span < now ? now - (uint64_t) span : 1;
	return 0;
}

static int parse_sort(const char *value, void *dest, struct err *err)
{
	const int i = opt_choice(value, SORT_CHOICES, err);

	if (i < 0)
		return i;
	*(enum order *) dest = (enum order) i;
	return 0;
}

/* ---- text ------------------------------------------------------------------------------------ */

enum column {
	RUN,
	NAME,
	STARTED,
	WALL,
	EXIT,
	RANKS, /* only if a run is a job of several ranks */
	PEAK_RAM,
	FILE_SIZE,
	COMMAND,
	NOTE, /* only if a run has one */
	COLUMNS
};

static const struct table_column columns[COLUMNS] = {
	[RUN] = { .head = "RUN" },
	[NAME] = { .head = "NAME", .is_left = true, .leaves = 7, .least = 8 },
	[STARTED] = { .head = "STARTED", .leaves = 2 },
	[WALL] = { .head = "WALL", .leaves = 5 },
	[EXIT] = { .head = "EXIT", .leaves = 6 },
	[RANKS] = { .head = "RANKS", .leaves = 3 },
	[PEAK_RAM] = { .head = "PEAK RAM" },
	[FILE_SIZE] = { .head = "FILE", .leaves = 1 },
	[COMMAND] = { .head = "COMMAND", .is_left = true, .leaves = 4, .least = 12 },
	[NOTE] = { .head = "NOTE", .is_left = true, .leaves = 8, .least = 8 },
};

static bool has_column(const struct list *l, enum column c)
{
	return (c != RANKS || l->has_jobs) && (c != NOTE || l->has_notes);
}

/* "8, 2 nodes" */
static const char *ranks_text(const struct hiw_entry *e, char buf[UNITS_LEN])
{
	const long long ranks = e->ranks.value, nodes = e->nodes.value;

	if (!e->is_folder)
		return "";
	if (!e->ranks.known)
		return "-";
	if (e->nodes.known && nodes > 1)
		(void) snprintf(buf, UNITS_LEN, "%lld, %lld nodes", ranks, nodes);
	else
		(void) snprintf(buf, UNITS_LEN, "%lld", ranks);
	return buf;
}

/* The EXIT column: "0", "1", "TERM", "raised" (an exception), "running", "lost" (its recorder was killed), "-" (not
 * known). */
static const char *exit_text(const struct hiw_entry *e, char buf[UNITS_LEN])
{
	if (e->running)
		return "running";
	if (!e->complete)
		return "lost";
	if (!e->exit_status.known)
		return has_raised(e) ? "raised" : "-";
	const int status = (int) e->exit_status.value;
	const char *name = WIFSIGNALED(status) ? units_signal(WTERMSIG(status)) : NULL;

	if (name)
		(void) snprintf(buf, UNITS_LEN, "%s", name + strlen("SIG"));
	else
		(void) snprintf(buf, UNITS_LEN, "%d",
			WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
	return buf;
}

/* Its recorder was killed between making the file and the first commit. */
static bool is_blank(const struct hiw_entry *e)
{
	return !e->complete && !e->running && e->started_wall_ns == 0;
}

static void add_text(struct list *l, const struct hiw_entry *e)
{
	struct table *t = &l->table;
	char number[UNITS_LEN], started[UNITS_LEN], wall[UNITS_LEN], exit_status[UNITS_LEN],
		ranks[UNITS_LEN], peak[UNITS_LEN] = "-", size[UNITS_LEN];
	const enum units units = (enum units) arg_runs.units;

	(void) snprintf(number, sizeof(number), "%" PRIu64, e->number);
	if (e->peak_bytes.known)
		(void) units_bytes(e->peak_bytes.value, units, peak);
	/* Seconds are in the JSON only. */
	if (e->started_wall_ns == 0)
		(void) snprintf(started, sizeof(started), "-");
	else
		(void) units_date(e->started_wall_ns, started);
	if (strlen(started) > 16)
		started[16] = '\0';
	const char *const cells[COLUMNS] = {
		[RUN] = number,
		[NAME] = e->name ? e->name : "",
		[STARTED] = started,
		[WALL] = units_duration(e->wall_ns, wall),
		[EXIT] = exit_text(e, exit_status),
		[RANKS] = ranks_text(e, ranks),
		[PEAK_RAM] = peak,
		[FILE_SIZE] = units_bytes((int64_t) e->file_bytes, units, size),
		[COMMAND] = is_blank(e)  ? "(lost before anything was recorded)"
			    : e->command ? e->command
					 : "",
		[NOTE] = e->note ? e->note : "",
	};

	for (enum column c = 0; c < COLUMNS; c++) {
		if (has_column(l, c))
			table_cell(t, cells[c]);
	}
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static struct maybe maybe_of(struct hiw_maybe m)
{
	return (struct maybe) { m.value, m.known };
}

static void add_exit(struct json *j, const struct hiw_entry *e)
{
	const int status = (int) e->exit_status.value;
	const bool is_known = e->complete && !e->running && e->exit_status.known;

	json_key(j, "exit");
	json_object(j);
	json_key(j, "code");
	json_maybe(j, is_known && WIFEXITED(status) ? known(WEXITSTATUS(status)) : UNKNOWN);
	json_key(j, "signal");
	json_maybe(j, is_known && WIFSIGNALED(status) ? known(WTERMSIG(status)) : UNKNOWN);
	json_key(j, "raised");
	json_str(j, has_raised(e) ? e->raised : NULL);
	json_end(j);
}

static void add_json(struct list *l, const struct hiw_entry *e)
{
	struct json *j = &l->json;
	char started[UNITS_LEN];

	json_object(j);
	json_key(j, "number");
	json_int(j, (int64_t) e->number);
	json_key(j, "name");
	json_str(j, e->name && *e->name ? e->name : NULL);
	json_key(j, "note");
	json_str(j, e->note && *e->note ? e->note : NULL);
	json_key(j, "command");
	json_str(j, e->command);
	json_key(j, "recording");
	json_str(j, e->path);
	json_key(j, "started");
	json_str(j, e->started_wall_ns == 0 ? NULL : units_rfc3339(e->started_wall_ns, started));
	json_key(j, "wall_s");
	json_seconds(j, known(e->wall_ns));
	add_exit(j, e);
	json_key(j, "complete");
	json_bool(j, e->complete);
	json_key(j, "running");
	json_bool(j, e->running);
	json_key(j, "ranks");
	json_maybe(j, maybe_of(e->ranks));
	json_key(j, "nodes");
	json_maybe(j, maybe_of(e->nodes));
	json_key(j, "ram_peak_bytes");
	json_maybe(j, maybe_of(e->peak_bytes));
	json_key(j, "file_bytes");
	json_int(j, (int64_t) e->file_bytes);
	json_end(j);
}

/* ---- the list -------------------------------------------------------------------------------- */

static const char *copy(struct list *l, const char *text)
{
	char *copied = strdup(text ? text : "");

	if (!copied)
		l->error = -ENOMEM;
	return copied;
}

static bool see(void *ctx, const struct hiw_entry *entry)
{
	struct list *l = ctx;

	l->n_all++;
	if (!is_chosen(entry))
		return true;
	l->error = vec_reserve(&l->entries, &l->cap, l->n, sizeof(*l->entries), RUNS_MOST);
	if (l->error < 0)
		return false;
	struct hiw_entry *mine = &l->entries[l->n++];

	*mine = *entry;
	mine->path = copy(l, entry->path);
	mine->name = copy(l, entry->name);
	mine->command = copy(l, entry->command);
	mine->note = copy(l, entry->note);
	mine->raised = copy(l, entry->raised);
	l->has_notes |= entry->note && *entry->note;
	l->has_jobs |= entry->is_folder;
	return l->error == 0;
}

static void list_done(struct list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct hiw_entry *e = &l->entries[i];
		const char *const texts[] = { e->path, e->name, e->command, e->note, e->raised };

		for (size_t k = 0; k < sizeof(texts) / sizeof(*texts); k++)
			free((void *) (uintptr_t) texts[k]);
	}
	free(l->entries);
	buf_done(&l->out);
}

static int write_list(struct list *l)
{
	struct table_column wanted[COLUMNS];
	size_t n = 0;
	int r;

	if (l->n > 0)
		qsort(l->entries, l->n, sizeof(*l->entries), in_order);
	if (arg_runs.json) {
		json_init(&l->json, &l->out, false);
		json_array(&l->json);
		for (size_t i = 0; i < l->n; i++)
			add_json(l, &l->entries[i]);
		json_end(&l->json);
		return buf_str(&l->out, "\n");
	}
	for (enum column c = 0; c < COLUMNS; c++) {
		if (has_column(l, c))
			wanted[n++] = columns[c];
	}
	table_init(&l->table, wanted, n, terminal_is_utf8());
	for (size_t i = 0; i < l->n; i++)
		add_text(l, &l->entries[i]);
	r = l->n > 0 ? table_put(&l->table, terminal_width(STDOUT_FILENO, 0), &l->out) : 0;
	table_done(&l->table);
	return r;
}

/* Returns the exit status. A name that no run has is most likely wrong; filters may match none. */
static int report_none(const struct list *l)
{
	if (arg_runs.n_names > 0 && !arg_runs.failed && arg_runs.since_ns == 0)
		complain("no run in the history is named '%s'; for the summary of one run: hiwater show %s",
			arg_runs.names[0], arg_runs.names[0]);
	else if (l->n_all == 0)
		complain(
			"the history has no runs yet; start one with: hiwater run -- COMMAND (only runs longer than 1 s are kept)");
	else
		complain("none of the %zu runs in the history matches", l->n_all);
	return arg_runs.n_names > 0 ? EXIT_FAILED : 0;
}

/* Reports the names that no run has. Returns the exit status. */
static int report_missing(void)
{
	int status = 0;

	for (size_t i = 0; i < arg_runs.n_names; i++) {
		if (arg_runs.has_runs[i])
			continue;
		complain("no run in the history is named '%s'", arg_runs.names[i]);
		status = EXIT_FAILED;
	}
	return status;
}

static int list(void)
{
	struct list l = { .out = BUF_INIT(OUTPUT_MOST) };
	struct hiw_err err = { "" };
	int r = hiw_history(see, &l, &err);

	if (r == 0)
		r = l.error < 0 ? l.error : write_list(&l);
	if (r < 0) {
		complain("cannot list the runs: %s", err.text[0] ? err.text : strerror(-r));
		r = EXIT_FAILED;
	} else if (l.n == 0 && !arg_runs.json) {
		r = report_none(&l);
	} else {
		r = print_out(l.out.data, l.out.len);
		if (r == 0 && l.n > 0)
			r = report_missing();
	}
	list_done(&l);
	return r;
}

/* A run that is removed, for the message about it. A name stands for its newest run, so the message
 * counts the others. */
struct removal {
	const char *path;
	struct buf text; /* empty if the file is damaged */
	char *name;
	size_t of_name;  /* runs that still have its name */
};

static void put_cleaned(const char *text, struct buf *out)
{
	enum {
		COMMAND_COLUMNS = 60
	};
	struct buf clean = BUF_INIT(1 << 20);

	(void) text_clean(text, terminal_is_utf8(), &clean);
	(void) text_shorten(clean.data, COMMAND_COLUMNS, terminal_is_utf8(), out);
	buf_done(&clean);
}

static bool see_removed(void *ctx, const struct hiw_entry *e)
{
	struct removal *m = ctx;

	if (strcmp(e->path, m->path) != 0)
		return true;
	(void) buf_printf(&m->text, "%" PRIu64, e->number);
	if (e->name && *e->name) {
		m->name = strdup(e->name);
		(void) buf_str(&m->text, " (");
		put_cleaned(e->name, &m->text);
		(void) buf_str(&m->text, ")");
	}
	if (!e->command || *e->command) {
		(void) buf_str(&m->text, ": ");
		put_cleaned(e->command ? e->command : "unknown command", &m->text);
	}
	return false;
}

static bool see_name(void *ctx, const struct hiw_entry *e)
{
	struct removal *m = ctx;

	m->of_name += e->name && strcmp(e->name, m->name) == 0;
	return true;
}

static int report_removed(struct removal *m)
{
	struct buf line = BUF_INIT(1 << 20);
	int r;

	(void) buf_printf(&line, "removed run %s", m->text.len > 0 ? m->text.data : m->path);
	if (m->name && hiw_history(see_name, m, NULL) == 0)
		(void) buf_printf(&line,
			m->of_name == 1 ? "; %zu more run has that name" : "; %zu more runs have that name",
			m->of_name);
	(void) buf_str(&line, "\n");
	r = print_out(line.data, line.len);
	buf_done(&line);
	return r;
}

static int remove_run(const char *path)
{
	struct removal m = { .path = path, .text = BUF_INIT(1 << 20) };
	struct hiw_err err = { "" };
	int r;

	(void) hiw_history(see_removed, &m, NULL);
	r = hwi_history_remove(path, &err);
	if (r < 0)
		complain("%s", err.text[0] ? err.text : strerror(-r));
	r = r < 0 ? EXIT_FAILED : report_removed(&m);
	buf_done(&m.text);
	free(m.name);
	return r;
}

/* Finds all runs before the first is removed: names and "last" stand for other runs afterwards. Two words for
 * one run count once. */
static int find_removed(int argc, char **argv, char **paths, int *ret_n)
{
	int status = 0;

	*ret_n = 0;
	for (int i = 0; i < argc; i++) {
		struct hiw_err err = { "" };
		char *path = NULL;
		int r = hiw_find(argv[i], &path, &err), k = 0;

		if (r == 0)
			r = hwi_history_may_remove(path, &err);
		if (r < 0) {
			complain("%s", err.text[0] ? err.text : strerror(-r));
			status = EXIT_FAILED;
		}
		while (path && k < *ret_n && strcmp(paths[k], path) != 0)
			k++;
		if (path && k == *ret_n)
			paths[(*ret_n)++] = path;
		else
			free(path);
	}
	if (status && argc > 1)
		complain("no run was removed");
	return status;
}

static int remove_runs(int argc, char **argv)
{
	char **paths = calloc((size_t) argc + 1, sizeof(*paths));
	int status, n = 0;

	if (argc == 0 || !paths) {
		complain("%s", paths ? "--rm needs at least one RUN, for example: hiwater runs --rm 12 13"
				     : "out of memory");
		free(paths);
		return EXIT_USAGE;
	}
	status = find_removed(argc, argv, paths, &n);
	for (int i = 0, all = status; i < n; i++) {
		if (all == 0 && remove_run(paths[i]) != 0)
			status = EXIT_FAILED;
		free(paths[i]);
	}
	free(paths);
	return status;
}

static int runs_main(int argc, char **argv)
{
	if (arg_runs.rm && (arg_runs.failed || arg_runs.since_ns || arg_runs.sort != BY_START)) {
		complain("--rm removes the RUNs that it is given; it takes no --since, --failed or --sort");
		return EXIT_USAGE;
	}
	if (arg_runs.rm)
		return remove_runs(argc, argv);
	arg_runs.names = argv;
	arg_runs.n_names = (size_t) argc;
	arg_runs.has_runs = calloc((size_t) argc + 1, sizeof(*arg_runs.has_runs));
	if (!arg_runs.has_runs) {
		complain("cannot list the runs: out of memory");
		return EXIT_FAILED;
	}
	const int status = list();

	free(arg_runs.has_runs);
	return status;
}

static const struct opt opts[] = {
	{ 0, "json", OPT_NONE, NULL, "print JSON, in base units", opt_flag, &arg_runs.json },
	{ 0, "since", OPT_TEXT, "SPAN|DATE", "only runs that started in the last SPAN (7d), or on DATE (2026-11-01) or later",
		parse_since, &arg_runs.since_ns },
	{ 0, "failed", OPT_NONE, NULL, "only runs that ended with another status than 0, by a signal, or lost", opt_flag,
		&arg_runs.failed },
	{ 0, "sort", OPT_CHOICE, SORT_CHOICES,
		"order: the oldest first (start), or the largest first by peak RAM, wall time or size of the file",
		parse_sort, &arg_runs.sort },
	{ 0, "rm", OPT_NONE, NULL, "remove each RUN, and print which it was", opt_flag, &arg_runs.rm },
	{ 0, "units", OPT_CHOICE, UNITS_CHOICES, "units of sizes: GiB, GB, or bytes (iec)",
		parse_units, &arg_runs.units },
	{ 0 },
};

static const char *const prose[] = {
	"Lists the runs in the history, the oldest first; with NAMEs only those of these names, which may be "
	"patterns ('base*'). The history is the folder HIWATER_DIR, or else "
	"hiwater below XDG_STATE_HOME (~/.local/state). It keeps up to 200 runs and 1 GiB; beyond that the "
	"oldest finished runs are removed.",
	"--rm prints a line for each run that it removes: its number, name and command, and how many runs "
	"of that name are left. Given a name, it removes the latest run of that name. If one of the RUNs cannot be "
	"removed, none is.",
	"EXIT is the exit status, the signal that killed the command, running, or lost if the recorder was "
	"killed: the run is recorded up to that time.",
	"A job of several ranks is one run, a folder with their recordings, of which at most 16 are read: its EXIT is the first "
	"that is not 0, or - where not every rank's is known, and its PEAK RAM is known if the job was on one node. hiwater show has all "
	"of it.",
	"The exit status is 0, 1 if no run has one of the NAMEs, a run cannot be removed or the history cannot be read, "
	"2 for an invalid command line.",
	NULL,
};

static const char *const examples[] = {
	"hiwater runs",
	"list the runs measured here",
	"hiwater runs base --since 7d --failed --sort ram",
	"the failed runs called base of the last week, the largest first",
	"hiwater runs --rm 12 13",
	"remove two of them",
	NULL,
};

const struct command command_runs = {
	.name = "runs",
	.usage = "[options] [NAME...] | --rm RUN...",
	.operands = WHAT_A_RUN_IS,
	.sentence = "list the history",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = runs_main,
};

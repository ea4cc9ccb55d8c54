/* SPDX-License-Identifier: MIT
 *
 * hiwater runs: lists the history as a table or as JSON, and removes runs from it.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/textwidth.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/columns.h"
#include "cli/measure.h"
#include "cli/terminal.h"

enum {
	OUTPUT_MOST = 64 << 20,
};

static struct {
	bool json, rm;
	enum hiw_units units;
} arg_runs;

struct list {
	struct buf out;
	struct json json;
	struct table table;
	size_t n;
};

/* ---- text ------------------------------------------------------------------------------------ */

static const struct table_column columns[] = {
	{ .head = "RUN" },
	{ .head = "NAME", .is_left = true, .leaves = 6, .least = 8 },
	{ .head = "STARTED", .leaves = 2 },
	{ .head = "WALL", .leaves = 4 },
	{ .head = "EXIT", .leaves = 5 },
	{ .head = "PEAK RAM" },
	{ .head = "FILE", .leaves = 1 },
	{ .head = "COMMAND", .is_left = true, .leaves = 3, .least = 12 },
};

/* "TERM"; NULL for a signal outside this table. */
static const char *signal_name(int signal)
{
	static const struct {
		int signal;
		const char *name;
	} names[] = {
		{ SIGHUP, "HUP" },
		{ SIGINT, "INT" },
		{ SIGQUIT, "QUIT" },
		{ SIGILL, "ILL" },
		{ SIGTRAP, "TRAP" },
		{ SIGABRT, "ABRT" },
		{ SIGBUS, "BUS" },
		{ SIGFPE, "FPE" },
		{ SIGKILL, "KILL" },
		{ SIGUSR1, "USR1" },
		{ SIGSEGV, "SEGV" },
		{ SIGUSR2, "USR2" },
		{ SIGPIPE, "PIPE" },
		{ SIGALRM, "ALRM" },
		{ SIGTERM, "TERM" },
		{ SIGXCPU, "XCPU" },
		{ SIGXFSZ, "XFSZ" },
		{ SIGSYS, "SYS" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (names[i].signal == signal)
			return names[i].name;
	}
	return NULL;
}

/* The EXIT column: "0", "1", "TERM", "running", "lost" (its recorder was killed), "-" (not
 * known). */
static const char *exit_text(const struct hiw_entry *e, char buf[UNITS_LEN])
{
	if (e->running)
		return "running";
	if (!e->complete)
		return "lost";
	if (!e->exit_status.known)
		return "-";
	const int status = (int) e->exit_status.value;
	const char *name = WIFSIGNALED(status) ? signal_name(WTERMSIG(status)) : NULL;

	if (name)
		(void) snprintf(buf, UNITS_LEN, "%s", name);
	else
		(void) snprintf(buf, UNITS_LEN, "%d",
			WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
	return buf;
}

static void add_text(struct table *t, const struct hiw_entry *e)
{
	char number[UNITS_LEN], started[UNITS_LEN], wall[UNITS_LEN], exit_status[UNITS_LEN],
		peak[UNITS_LEN] = "-", size[UNITS_LEN];
	const enum units units = (enum units) arg_runs.units;

	(void) snprintf(number, sizeof(number), "%" PRIu64, e->number);
	if (e->peak_bytes.known)
		(void) units_bytes(e->peak_bytes.value, units, peak);
	/* Seconds are in the JSON only. */
	(void) units_date(e->started_wall_ns, started);
	if (strlen(started) > 16)
		started[16] = '\0';
	const char *const cells[] = {
		number,
		e->name ? e->name : "",
		started,
		units_duration(e->wall_ns, wall),
		exit_text(e, exit_status),
		peak,
		units_bytes((int64_t) e->file_bytes, units, size),
		e->command ? e->command : "",
	};

	for (size_t i = 0; i < sizeof(cells) / sizeof(*cells); i++)
		table_cell(t, cells[i]);
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
	json_key(j, "command");
	json_str(j, e->command);
	json_key(j, "recording");
	json_str(j, e->path);
	json_key(j, "started");
	json_str(j, units_rfc3339(e->started_wall_ns, started));
	json_key(j, "wall_s");
	json_seconds(j, known(e->wall_ns));
	add_exit(j, e);
	json_key(j, "complete");
	json_bool(j, e->complete);
	json_key(j, "running");
	json_bool(j, e->running);
	json_key(j, "ram_peak_bytes");
	json_maybe(j, maybe_of(e->peak_bytes));
	json_key(j, "file_bytes");
	json_int(j, (int64_t) e->file_bytes);
	json_end(j);
}

/* ---- the list -------------------------------------------------------------------------------- */

static bool see(void *ctx, const struct hiw_entry *entry)
{
	struct list *l = ctx;

	l->n++;
	if (arg_runs.json)
		add_json(l, entry);
	else
		add_text(&l->table, entry);
	return l->out.error == 0 && l->table.cells.error == 0;
}

static int finish(struct list *l)
{
	int r = 0;

	if (arg_runs.json) {
		json_end(&l->json);
		r = buf_str(&l->out, "\n");
	} else if (l->n > 0) {
		r = table_put(&l->table, terminal_width(STDOUT_FILENO, 0), &l->out);
	}
	if (r < 0) {
		complain("cannot list the runs: %s", strerror(-r));
		return EXIT_FAILED;
	}
	if (l->n == 0 && !arg_runs.json) {
		complain(
			"the history has no runs yet; start one with: hiwater run -- COMMAND (only runs longer than 1 s are kept)");
		return 0;
	}
	return print_out(l->out.data, l->out.len);
}

static int list(void)
{
	struct list l = { .out = BUF_INIT(OUTPUT_MOST) };
	struct hiw_err err = { "" };
	int r;

	table_init(&l.table, columns, sizeof(columns) / sizeof(*columns), terminal_is_utf8());
	json_init(&l.json, &l.out, false);
	if (arg_runs.json)
		json_array(&l.json);
	r = hiw_history(see, &l, &err);
	if (r < 0) {
		complain("%s", err.text[0] ? err.text : strerror(-r));
		r = EXIT_FAILED;
	} else {
		r = finish(&l);
	}
	table_done(&l.table);
	buf_done(&l.out);
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
	(void) buf_str(&m->text, ": ");
	put_cleaned(e->command ? e->command : "unknown command", &m->text);
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

static int remove_run(const char *run)
{
	autofree char *path = NULL;
	struct removal m = { .text = BUF_INIT(1 << 20) };
	struct hiw_err err = { "" };
	int r = hiw_find(run, &path, &err);

	m.path = path;
	if (r == 0)
		(void) hiw_history(see_removed, &m, NULL);
	if (r == 0)
		r = hwi_history_remove(path, &err);
	if (r < 0)
		complain("%s", err.text[0] ? err.text : strerror(-r));
	r = r < 0 ? EXIT_FAILED : report_removed(&m);
	buf_done(&m.text);
	free(m.name);
	return r;
}

static int remove_runs(int argc, char **argv)
{
	int status = 0;

	if (argc == 0) {
		complain("--rm needs at least one RUN, for example: hiwater runs --rm 12 13");
		return EXIT_USAGE;
	}
	for (int i = 0; i < argc; i++) {
		if (remove_run(argv[i]) != 0)
			status = EXIT_FAILED;
	}
	return status;
}

static int runs_main(int argc, char **argv)
{
	if (arg_runs.rm)
		return remove_runs(argc, argv);
	if (argc > 0) {
		complain("unexpected operand '%s'; for the summary of a run: hiwater show %s",
			argv[0], argv[0]);
		return EXIT_USAGE;
	}
	return list();
}

static const struct opt opts[] = {
	{ 0, "json", OPT_NONE, NULL, "print JSON, in base units", opt_flag, &arg_runs.json },
	{ 0, "rm", OPT_NONE, NULL, "remove each RUN, and print which it was", opt_flag, &arg_runs.rm },
	{ 0, "units", OPT_CHOICE, UNITS_CHOICES, "units of sizes: GiB, GB, or bytes (iec)",
		parse_units, &arg_runs.units },
	{ 0 },
};

static const char *const prose[] = {
	"Lists the runs in the history, the oldest first. The history is the folder HIWATER_DIR, or else "
	"hiwater below XDG_STATE_HOME (~/.local/state). It keeps up to 200 runs and 1 GiB; beyond that the "
	"oldest finished runs are removed.",
	"--rm prints a line for each run that it removes: its number, name and command, and how many runs "
	"of that name are left. Given a name, it removes the latest run of that name.",
	"EXIT is the exit status, the signal that killed the command, running, or lost if the recorder was "
	"killed: the run is recorded up to that time.",
	"The exit status is 0, 1 if a run cannot be removed or the history cannot be read, 2 for an invalid "
	"command line.",
	NULL,
};

static const char *const examples[] = {
	"hiwater runs",
	"list the runs measured here",
	"hiwater runs --rm 12 13",
	"remove two of them",
	NULL,
};

const struct command command_runs = {
	.name = "runs",
	.usage = "[options] | --rm RUN...",
	.operands = WHAT_A_RUN_IS,
	.sentence = "list the history",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = runs_main,
};

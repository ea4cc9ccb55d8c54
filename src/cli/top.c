/* SPDX-License-Identifier: MIT
 *
 * hiwater top: resolves its operand and options, and executes the program that shows them
 * (src/top/, hiwater-top). The arguments of hiwater-top are KEY=VALUE words (src/top/main.c).
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/measure.h"
#include "cli/programs.h"
#include "cli/terminal.h"

#define SORT_CHOICES "pid|user|cpu|ram|peak|swap|gpu-mem|gpu|read|write|threads|name"

enum {
	WORDS_MOST = 24
};
static const uint64_t interval_least_ns = 10000000, interval_most_ns = 3600000000000;

static struct {
	uint64_t interval_ns;
	uint64_t count, rows;
	int64_t at_ns;           /* -1: not given */
	enum hiw_units units;
	enum hiw_gpu gpu;
	bool plain, no_mouse, readonly;
	const char *filter;
	char sort[2];
} arg_top = { .interval_ns = 1000000000, .rows = 10, .at_ns = -1 };

/* ---- options --------------------------------------------------------------------------------- */

static int parse_period(const char *value, void *dest, struct err *err)
{
	int64_t ns;
	const int r = units_parse_duration(value, &ns, err);

	if (r < 0)
		return r;
	if (ns < (int64_t) interval_least_ns || ns > (int64_t) interval_most_ns)
		return err_set(err, -EINVAL, "'%.80s' is out of range; give 10ms to 1h", value);
	*(uint64_t *) dest = (uint64_t) ns;
	return 0;
}

static int parse_time(const char *value, void *dest, struct err *err)
{
	int64_t ns;
	const int r = units_parse_duration(value, &ns, err);

	if (r == 0)
		*(int64_t *) dest = ns > 0 ? ns : 0;
	return r;
}

static int parse_number(const char *value, void *dest, struct err *err)
{
	const char *p = value;
	uint64_t n;

	if (parse_u64(&p, &n) < 0 || *p)
		return err_set(err, -EINVAL, "'%.80s' is not a whole number", value);
	*(uint64_t *) dest = n;
	return 0;
}

static int parse_sort(const char *value, void *dest, struct err *err)
{
	/* the columns of src/top/table.c, in the order of SORT_CHOICES */
	static const char letters[] = "pucrksgbdwtn";
	const int i = opt_choice(value, SORT_CHOICES, err);

	if (i < 0)
		return i;
	((char *) dest)[0] = letters[i];
	return 0;
}

/* ---- the operand ----------------------------------------------------------------------------- */

/* A process, or a recording. */
struct target {
	pid_t pid;
	char *path;
};

/* Finds the recording in the history that is being written about process target->pid. */
static bool see_running(void *ctx, const struct hiw_entry *entry)
{
	struct hiw_about about = { .size = sizeof(about) };
	struct target *target = ctx;
	struct hiw_run *run = NULL;

	if (!entry->running || hiw_run_open(entry->path, &run, NULL) < 0)
		return true;
	(void) hiw_run_about(run, &about);
	if (about.growing && about.main_pid.known && about.main_pid.value == target->pid)
		target->path = strdup(entry->path);
	hiw_run_close(run);
	return target->path == NULL;
}

static bool is_process(const char *word, pid_t *ret)
{
	const char *p = word;
	uint64_t pid;

	if (parse_u64(&p, &pid) < 0 || *p || pid < 1 || pid > INT32_MAX)
		return false;
	*ret = (pid_t) pid;
	return kill(*ret, 0) == 0 || errno == EPERM;
}

/* Returns 0, or an exit status after a complaint. */
static int find_target(const char *word, struct target *ret)
{
	struct hiw_err err = { "" };
	int r;

	if (is_process(word, &ret->pid)) {
		(void) hiw_history(see_running, ret, NULL);
		return 0;
	}
	r = find_run(word, &ret->path, &err);
	if (r < 0)
		complain("%s", err.text[0] ? err.text : strerror(-r));
	return r < 0 ? EXIT_FAILED : 0;
}

/* ---- executing hiwater-top ------------------------------------------------------------------- */

struct words {
	struct buf text[WORDS_MOST];
	char *argv[WORDS_MOST + 1];
	size_t n;
};

static void __attribute__((format(printf, 2, 3))) word(struct words *w, const char *format, ...)
{
	va_list ap;

	w->text[w->n] = BUF_INIT(1 << 16);
	va_start(ap, format);
	(void) buf_vprintf(&w->text[w->n], format, ap);
	va_end(ap);
	w->argv[w->n] = w->text[w->n].data;
	w->n++;
}

static void add_options(struct words *w)
{
	char path[PATH_MAX];
	const char *type = getenv("TERM");
	const bool is_dumb = !type || !*type || strcmp(type, "dumb") == 0;
	const bool plain = arg_top.plain || arg_top.count > 0 || environment_flag("ACCESSIBLE") || is_dumb ||
			   !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO);

	word(w, "plain=%d", plain);
	word(w, "utf8=%d", terminal_is_utf8());
	word(w, "color=%d", terminal_has_color(STDOUT_FILENO));
	word(w, "mouse=%d", !arg_top.no_mouse);
	word(w, "units=%d", (int) arg_top.units);
	word(w, "interval=%llu", (unsigned long long) arg_top.interval_ns);
	word(w, "count=%llu", (unsigned long long) arg_top.count);
	word(w, "rows=%llu", (unsigned long long) arg_top.rows);
	word(w, "gpus=%d", arg_top.gpu == HIW_GPU_AUTO);
	word(w, "readonly=%d", arg_top.readonly);
	if (arg_top.at_ns >= 0)
		word(w, "at=%lld", (long long) arg_top.at_ns);
	if (program_find("hiwater", path, sizeof(path)) == 0)
		word(w, "hiwater=%s", path);
	if (arg_top.filter)
		word(w, "filter=%s", arg_top.filter);
	if (*arg_top.sort)
		word(w, "sort=%s", arg_top.sort);
}

static int become(const struct target *target)
{
	struct words words = { .n = 0 };
	char path[PATH_MAX];

	if (program_find("hiwater-top", path, sizeof(path)) < 0) {
		char where[PROGRAM_WHY_LEN];

		program_why_not("hiwater-top", where, sizeof(where));
		complain(
			"the live view is not available: %s; a build without the headers of ncursesw (Debian: libncurses-dev) omits "
			"it; hiwater show and hiwater attach --progress work without it",
			where);
		return EXIT_FAILED;
	}
	word(&words, "hiwater-top");
	if (target->path)
		word(&words, "file=%s", target->path);
	else if (target->pid)
		word(&words, "pid=%d", (int) target->pid);
	add_options(&words);
	(void) execv(path, words.argv);
	complain("cannot run %s: %s", path, strerror(errno));
	for (size_t i = 0; i < words.n; i++)
		buf_done(&words.text[i]);
	return EXIT_FAILED;
}

static int top_main(int argc, char **argv)
{
	struct target target = { .path = NULL };
	struct hiw_err err = { "" };
	int r = 0;

	if (argc > 1) {
		complain("top takes one PID, RUN or FILE; see hiwater top --help");
		return EXIT_USAGE;
	}
	if (arg_top.filter && hiw_rule_check(arg_top.filter, HIW_RULE_FILTER, &err) < 0) {
		complain("--filter: %s", err.text);
		return EXIT_USAGE;
	}
	if (argc == 1)
		r = find_target(argv[0], &target);
	if (r == 0)
		r = become(&target);
	free(target.path);
	return r;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct opt opts[] = {
	{ 'i', "interval", OPT_TEXT, "INTERVAL",
		"time between samples, from 10ms to 1h (1s); printing a recording: between samples of "
		"its own time",
		parse_period, &arg_top.interval_ns },
	{ 'n', "count", OPT_TEXT, "COUNT", "print this many samples as lines, then exit", parse_number,
		&arg_top.count },
	{ 0, "plain", OPT_NONE, NULL,
		"print lines instead of a screen; the default without a terminal and with ACCESSIBLE=1",
		opt_flag, &arg_top.plain },
	{ 0, "rows", OPT_TEXT, "N", "processes per sample when printing lines (10)", parse_number,
		&arg_top.rows },
	{ 0, "at", OPT_TEXT, "TIME",
		"of a recording: pause at this time since its start; printed lines begin there", parse_time,
		&arg_top.at_ns },
	{ 0, "filter", OPT_TEXT, "RULE",
		"show only the processes that match RULE, for example 'rss > 1GiB and name ~ ^py'", opt_text,
		(void *) &arg_top.filter },
	{ 0, "sort", OPT_CHOICE, SORT_CHOICES, "sort processes by this column (ram)", parse_sort,
		arg_top.sort },
	{ 0, "units", OPT_CHOICE, UNITS_CHOICES, "units of sizes: GiB, GB, or bytes (iec)", parse_units,
		&arg_top.units },
	{ 0, "gpu", OPT_CHOICE, GPU_CHOICES, "show GPUs if there are any, or call no GPU driver (auto)",
		parse_gpu, &arg_top.gpu },
	{ 0, "no-mouse", OPT_NONE, NULL, "leave the mouse to the terminal, which can then select text",
		opt_flag, &arg_top.no_mouse },
	{ 0, "readonly", OPT_NONE, NULL, "disable sending signals to processes", opt_flag,
		&arg_top.readonly },
	{ 0 },
};

static const char *const prose[] = {
	"Shows current use and its recent history: of the whole machine (no operand), of process PID and "
	"its descendants, or of a recording, growing or finished. It reads from outside, as hiwater attach "
	"does, and keeps no recording; a process that is being recorded is shown from its recording. The "
	"job is not slowed down, and keeps running when the view is left.",
	"? shows the keys: q quits, arrows select a process, Enter shows its details, s sorts, / filters, f "
	"finds, t shows a tree, [ and ] zoom the charts, space pauses. In a recording , and . step, 1 2 4 8 "
	"set the speed. Click a column head to sort, a row to select it, scroll, or drag across a chart to "
	"select a span.",
	"A filter is a rule about a process: names are those of docs/metrics.md (rss, hwm, cpu, swap, "
	"threads, read_bytes, gpu.mem: its device memory), name, command, pid, uid, with < <= > >= == != ~ "
	"!~, and, or, not; .peak is the maximum so far.",
	"CPU% is of one core; SM is the share of time in which a GPU's SMs had work, busy the share in "
	"which any kernel ran. A value that is not available is shown as -. F9 sends a signal to one of "
	"your own processes, after two questions.",
	"Without a terminal, with -n or --plain it prints lines. Colours are those of the terminal, none "
	"with NO_COLOR. The terminal is restored at every exit except SIGKILL (kill -9); after that, run "
	"tput rmcup; reset.",
	"The exit status is 0, 1 if there is nothing to show, 2 for an invalid command line.",
	NULL,
};

static const char *const examples[] = {
	"hiwater top",
	"current use of the whole machine",
	"hiwater top 4711",
	"process 4711 and its descendants",
	"hiwater top last",
	"the latest run: live if it is running, else replayed",
	"hiwater top run.hiw --at 12m",
	"the state twelve minutes into a run",
	"hiwater top -n 1 --sort cpu --rows 5",
	"the five busiest processes, once, as lines",
	NULL,
};

static const char *const keys[] = {
#define KEY(name, shown, sentence, ...) shown, sentence,
#include "top/keys.def"
#undef KEY
	NULL,
};

const struct command command_top = {
	.name = "top",
	.usage = "[options] [PID|RUN|FILE]",
	.operands = WHAT_A_RUN_IS
	" A number is a PID if such a process exists, else a run. The default is the whole machine.",
	.sentence = "show current use, live: the machine, a job, a recording",
	.prose = prose,
	.examples = examples,
	.keys = keys,
	.opts = opts,
	.main = top_main,
};

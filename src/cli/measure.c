/* SPDX-License-Identifier: MIT */
#include "cli/measure.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/terminal.h"

static const uint64_t second_ns = UINT64_C(1000000000);
enum {
	LINE_MOST = 2000, /* columns of a progress line that goes to a file */
};
static const uint64_t default_progress_ns = UINT64_C(10000000000), least_progress_ns = UINT64_C(10000000);

/* ---- options --------------------------------------------------------------------------------- */

int parse_interval(const char *value, void *dest, struct err *err)
{
	struct measure *m = dest;
	int64_t ns;
	int r = units_parse_duration(value, &ns, err);

	if (r < 0)
		return r;
	if (ns < 1000000 || ns > INT64_C(3600) * (int64_t) second_ns)
		return err_set(err, -EINVAL, "'%.80s' is out of range; give 1ms to 1h", value);
	m->recorder.interval_ns = (uint64_t) ns;
	m->interval_given = true;
	return 0;
}

int parse_progress(const char *value, void *dest, struct err *err)
{
	int64_t ns;
	int r;

	if (!value) {
		*(uint64_t *) dest = default_progress_ns;
		return 0;
	}
	r = units_parse_duration(value, &ns, err);
	if (r < 0)
		return r;
	if (ns < (int64_t) least_progress_ns)
		return err_set(err, -EINVAL, "'%.80s' is too short; give 10ms or more", value);
	*(uint64_t *) dest = (uint64_t) ns;
	return 0;
}

int parse_summary(const char *value, void *dest, struct err *err)
{
	int i = opt_choice(value, SUMMARY_CHOICES, err);

	if (i < 0)
		return i;
	*(enum summary_kind *) dest = (enum summary_kind) i;
	return 0;
}

int parse_gpu(const char *value, void *dest, struct err *err)
{
	int i = opt_choice(value, GPU_CHOICES, err);

	if (i < 0)
		return i;
	*(enum hiw_gpu *) dest = (enum hiw_gpu) i;
	return 0;
}

int parse_measure_gpu(const char *value, void *dest, struct err *err)
{
	struct measure *m = dest;

	m->gpu_given = true;
	return parse_gpu(value, &m->recorder.gpu, err);
}

int parse_units(const char *value, void *dest, struct err *err)
{
	int i = opt_choice(value, UNITS_CHOICES, err);

	if (i < 0)
		return i;
	*(enum hiw_units *) dest = (enum hiw_units) i;
	return 0;
}

int parse_rule(const char *value, void *dest, struct err *err)
{
	struct rules *rules = dest;
	struct hiw_err why = { "" };
	size_t n = 0;
	int r = hiw_rule_check(value, rules->kind, &why);

	if (r < 0)
		return err_set(err, r, "%s", why.text);
	while (rules->text[n])
		n++;
	if (n + 1 == sizeof(rules->text) / sizeof(rules->text[0]))
		return err_set(err, -EINVAL, "more than %zu rules; leave some out", n);
	rules->text[n] = value;
	return 0;
}

int parse_grace(const char *value, void *dest, struct err *err)
{
	int64_t ns;
	int r = units_parse_duration(value, &ns, err);

	if (r == 0)
		*(uint64_t *) dest = ns > 0 ? (uint64_t) ns : 1; /* 0 means the default */
	return r;
}

static int request_ram(const char *text, struct hiw_options *o, struct err *err)
{
	int64_t bytes;
	int r = units_parse_bytes(text, &bytes, err);

	if (r == 0 && bytes <= 0)
		return err_set(err, -EINVAL, "ram=%.80s: give a size greater than 0", text);
	if (r == 0)
		o->request_bytes = (struct hiw_maybe) { bytes, true };
	return r;
}

static int request_cpus(const char *text, struct hiw_options *o, struct err *err)
{
	const char *p = text;
	uint64_t ppm;

	if (parse_ppm(&p, &ppm) < 0 || *p || ppm == 0 || ppm > (uint64_t) 1000000 * 1000000)
		return err_set(err, -EINVAL, "cpus=%.80s: give a number of CPUs greater than 0", text);
	o->request_cpus = (struct hiw_maybe) { (int64_t) ((ppm + 999999) / 1000000), true };
	return 0;
}

static int request_time(const char *text, struct hiw_options *o, struct err *err)
{
	int64_t ns;
	int r = units_parse_duration(text, &ns, err);

	if (r == 0 && ns <= 0)
		return err_set(err, -EINVAL, "time=%.80s: give a time greater than 0", text);
	if (r == 0)
		o->request_time_ns = (struct hiw_maybe) { ns, true };
	return r;
}

static int request_gpus(const char *text, struct hiw_options *o, struct err *err)
{
	const char *p = text;
	uint64_t n;

	if (parse_u64(&p, &n) < 0 || *p || n > 1000000)
		return err_set(err, -EINVAL, "gpus=%.80s: give a number of GPUs", text);
	o->request_gpus = (struct hiw_maybe) { (int64_t) n, true };
	return 0;
}

static const struct {
	const char *key;
	int (*parse)(const char *text, struct hiw_options *o, struct err *err);
} requests[] = { { "ram=", request_ram }, { "cpus=", request_cpus }, { "time=", request_time },
	{ "gpus=", request_gpus } };

/* given: the keys before this item, a bit each. */
static int request_one(const char *item, unsigned *given, struct hiw_options *o, struct err *err)
{
	for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
		const char *p = item;

		if (!parse_word(&p, requests[i].key))
			continue;
		if (*given & 1U << i)
			return err_set(err, -EINVAL, "'%s' is given twice; leave one out", requests[i].key);
		*given |= 1U << i;
		return requests[i].parse(p, o, err);
	}
	return err_set(err, -EINVAL, "unknown request '%.80s'; give ram=SIZE, cpus=N, time=SPAN, gpus=N", item);
}

int parse_request(const char *value, void *dest, struct err *err)
{
	unsigned given = 0;

	for (const char *p = value; *p;) {
		size_t len = strcspn(p, ",");
		char item[128];
		int r;

		if (len >= sizeof(item))
			return err_set(err, -EINVAL, "'%.80s...' is too long", p);
		(void) snprintf(item, sizeof(item), "%.*s", (int) len, p);
		r = request_one(item, &given, dest, err);
		if (r < 0)
			return r;
		p += len + (p[len] == ',' ? 1 : 0);
	}
	return 0;
}

/* ---- before the job -------------------------------------------------------------------------- */

/* A name that means nothing is a mistake, not something that hiwater lacks: said before anything starts. */
static int expand(const char *pattern, const char *option, char **ret)
{
	struct hiw_err err = { "" };
	int r = hwi_expand(pattern, ret, &err);

	if (r < 0)
		complain("%s %s", option, err.text);
	return r;
}

/* Expands the rank and the like in *name; the new text is never freed. */
static int prepare_file(const struct measure *m, const char **name, int *fd, int *error, const char *option)
{
	char *expanded;
	int r;

	if (!*name)
		return 0;
	r = expand(*name, option, &expanded);
	if (r < 0)
		return r;
	*name = expanded;
	r = file_check(expanded);
	*fd = r == 0 ? file_open_inherited(expanded) : -1;
	if (r < 0 && m->recorder.degrade && r != -EISDIR) {
		*error = r;
		if (!m->quiet)
			complain("warning: %s %s: %s; hiwater tries again when the job has ended", option,
				*name, strerror(-r));
		return 0;
	}
	if (r < 0)
		complain("%s %s: %s; give a file in an existing, writable folder",
			option, *name, strerror(-r));
	return r;
}

/* "17.hiw" and "17-slurm-4711.0" are run 17 of the history; what was written with -o has its path. */
static void warn_of_skipped(uint64_t skipped, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const size_t n = strspn(name, "0123456789");

	if (n > 0 && (name[n] == '-' || strcmp(name + n, ".hiw") == 0))
		complain("warning: run %" PRIu64 " has no readable recording; this is run %.*s", skipped, (int) n, name);
	else
		complain("warning: run %" PRIu64 " has no readable recording; this is %s", skipped, path);
}

int find_run(const char *run, char **ret_path, struct hiw_err *err)
{
	uint64_t skipped = 0;
	const int r = hwi_find(run, ret_path, &skipped, err);

	if (r == 0 && skipped > 0)
		warn_of_skipped(skipped, *ret_path);
	return r;
}

/* How history_find() reads a RUN that is written like this name, if not as a name; NULL: as a
 * name. */
static const char *other_meaning(const char *name)
{
	const size_t len = strlen(name);
	const char *p = name;
	uint64_t number;

	if (strncmp(name, "name:", 5) == 0)
		return "the name after the colon";
	if (hwi_is_job(name))
		return strncmp(name, "slurm:", 6) == 0 ? "a Slurm job" : "the job of a launcher";
	if (strchr(name, '/') || (len >= 4 && strcmp(name + len - 4, ".hiw") == 0))
		return "a path";
	if (parse_word(&p, "last") && (!*p || (*p++ == '-' && parse_u64(&p, &number) == 0 && !*p)))
		return "one of the latest runs of any name";
	p = name;
	return parse_u64(&p, &number) == 0 && !*p ? "a run number" : NULL;
}

/* Any name is valid, so the job starts; the user must know how to find the run afterwards. */
static void warn_of_name(const struct measure *m)
{
	const char *name = m->recorder.name;
	const char *other = name ? other_meaning(name) : NULL;

	if (other && !m->quiet && !m->recorder.no_record)
		complain(
			"warning: -n %.80s: as a RUN, '%.80s' means %s; to find this run by its name, give 'name:%.80s'",
			name, name, other, name);
}

int measure_prepare(struct measure *m)
{
	autofree char *output = NULL; /* the recorder expands it again */
	int r;

	m->quiet = environment_flag("HIWATER_QUIET");
	m->recorder.alerts = m->alerts.text;
	m->recorder.limits = m->limits.text;
	if (m->quiet)
		m->summary = SUMMARY_NONE;
	if (m->json_file && strcmp(m->json_file, "-") == 0) {
		complain(
			"--json -: stdout belongs to the job; give a file, or run hiwater show --json afterwards");
		return -EINVAL;
	}
	if (m->actions.n > 0 && !m->alerts.text[0] && !m->limits.text[0]) {
		complain("--on-alert needs an alert; give one with --alert, such as --alert default");
		return -EINVAL;
	}
	r = m->recorder.output ? expand(m->recorder.output, "-o", &output) : 0;
	if (r == 0)
		r = prepare_file(m, &m->json_file, &m->json_fd, &m->json_error, "--json");
	if (r == 0)
		r = prepare_file(m, &m->summary_file, &m->summary_fd, &m->summary_error, "--summary-file");
	if (r == 0)
		warn_of_name(m);
	return r;
}

int measure_timer(const struct measure *m)
{
	const struct timespec period = {
		.tv_sec = (time_t) (m->progress_ns / second_ns),
		.tv_nsec = (long) (m->progress_ns % second_ns),
	};
	const struct itimerspec timer = { .it_interval = period, .it_value = period };
	int fd = m->progress_ns ? timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK) : -1;

	if (fd >= 0)
		(void) timerfd_settime(fd, 0, &timer, NULL);
	return fd;
}

/* ---- while it runs --------------------------------------------------------------------------- */

void measure_progress(const struct measure *m, struct hiw_recorder *recorder)
{
	struct hiw_style style = terminal_style(STDERR_FILENO, m->units, m->plain);
	autofree char *text = NULL;
	size_t len;

	style.width = terminal_width(STDERR_FILENO, LINE_MOST);
	if (hiw_run_text(hiw_recorder_run(recorder), HIW_PROGRESS, &style, &text, &len, NULL) == 0)
		(void) terminal_write(STDERR_FILENO, text, len, PATIENCE_NONE_MS);
}

/* A line that stderr does not accept at once is dropped: it must not delay the measurement. */
static void print_line(const char *prefix, const char *text)
{
	char line[800];

	(void) snprintf(line, sizeof(line), "%s%s", prefix, text);
	print_message(line, PATIENCE_NONE_MS);
}

static void print_dropped(struct measure *m)
{
	char text[80];

	if (m->alert_lines.dropped == 0 || m->quiet)
		return;
	(void) snprintf(text, sizeof(text), "%" PRIu64 " more alerts are in the recording",
		m->alert_lines.dropped);
	print_line("", text);
	m->alert_lines.dropped = 0;
}

/* At most ten lines a second, not counting those about limits that signal the job. */
static void print_alert(struct measure *m, const struct hiw_alert *a)
{
	enum {
		LINES_A_SECOND = 10
	};

	if (m->quiet)
		return;
	if (a->time_ns >= m->alert_lines.since_ns + second_ns) {
		print_dropped(m);
		m->alert_lines.since_ns = a->time_ns;
		m->alert_lines.printed = 0;
	}
	if (a->act == HIW_ACT_NONE && m->alert_lines.printed >= LINES_A_SECOND) {
		m->alert_lines.dropped++;
		return;
	}
	m->alert_lines.printed++;
	print_line(a->act != HIW_ACT_NONE ? "limit: " : a->raised ? "alert: "
								  : "cleared: ",
		a->text);
}

static bool enforce(struct measure *m, struct hiw_recorder *recorder, const struct hiw_alert *a)
{
	/* Text is borrowed until the next call. */
	char why[800];

	if (a->act == HIW_ACT_NONE)
		return false;
	(void) snprintf(why, sizeof(why), "%s", a->text);
	m->killed.all |= a->act == HIW_ACT_KILL && a->pid == 0;
	/* each SIGTERM starts a grace of its own */
	m->killed.since_ns = a->act == HIW_ACT_KILL ? clock_boot_ns() : 0;
	if (hiw_recorder_signal(recorder, a->pid, a->act == HIW_ACT_END ? SIGTERM : SIGKILL) < 0) {
		if (!m->quiet && a->act == HIW_ACT_END)
			complain(
				"warning: SIGTERM could not be sent: the process has ended, or belongs to another user");
		return false;
	}
	if (a->act == HIW_ACT_END) /* a stopped process handles SIGTERM only after SIGCONT */
		(void) hiw_recorder_signal(recorder, a->pid, SIGCONT);
	hiw_recorder_stopped(recorder, why);
	return true;
}

bool measure_alerts(struct measure *m, struct hiw_recorder *recorder, pid_t main)
{
	struct hiw_alert a = { .size = sizeof(a) };
	bool ended = false;

	while (hwi_recorder_alert(recorder, &a)) {
		print_alert(m, &a);
		actions_run(&m->actions, &a, recorder, main, m->quiet);
		ended |= enforce(m, recorder, &a);
	}
	if (m->killed.all && measure_limit_waits(m, recorder)) /* processes born since the last SIGKILL */
		(void) hiw_recorder_signal(recorder, 0, SIGKILL);
	if (m->actions.n)
		(void) actions_check(&m->actions, m->quiet);
	return ended;
}

bool measure_limit_waits(const struct measure *m, const struct hiw_recorder *recorder)
{
	/* for processes of another user, or stuck in the kernel */
	static const uint64_t patience_ns = 2 * second_ns;

	return hiw_recorder_terminating(recorder) &&
	       (!m->killed.since_ns || clock_boot_ns() - m->killed.since_ns < patience_ns);
}

bool measure_cut_grace(const struct measure *m, struct hiw_recorder *recorder)
{
	if (m->killed.since_ns || !measure_limit_waits(m, recorder))
		return false;
	hwi_recorder_cut_grace(recorder);
	return true;
}

void measure_warnings(const struct measure *m, struct hiw_recorder *recorder)
{
	const char *text;

	while ((text = hiw_recorder_warning(recorder))) {
		if (!m->quiet)
			complain("warning: %s", text);
	}
}

/* ---- after the job --------------------------------------------------------------------------- */

/* What could not be written. */
struct unwritten {
	bool any;
	struct {
		const char *path, *option; /* NULL: nothing to report; the option of hiwater show */
		char why[200];
	} files[2];
};

static void print_summary(
	const struct measure *m, struct hiw_run *run, enum hiw_format format, struct unwritten *ret)
{
	const struct hiw_style style = terminal_style(STDERR_FILENO, m->units, m->plain);
	autofree char *text = NULL;
	struct hiw_err err = { "" };
	size_t len;

	if (hiw_run_text(run, format, &style, &text, &len, &err) < 0) {
		complain("warning: cannot make the summary: %s", err.text);
		return;
	}
	ret->any |= terminal_write(STDERR_FILENO, text, len, PATIENCE_END_MS) < 0;
}

static const char *explain_write(int error)
{
	if (error == -ENXIO)
		return "no program has opened it to read";
	return error == -ETIMEDOUT ? "its reader accepts nothing" : strerror(-error);
}

/* Returns 0, or -errno with err. */
static int write_text(const struct measure *m, struct hiw_run *run, enum hiw_format format, const char *path,
	int fd, struct hiw_err *err)
{
	const struct hiw_style style = terminal_style(-1, m->units, m->plain);
	autofree char *text = NULL;
	size_t len;
	int r = hiw_run_text(run, format, &style, &text, &len, err);

	if (r < 0)
		return r;
	if (fd >= 0)
		r = terminal_write(fd, text, len, PATIENCE_END_MS);
	else
		r = m->further ? file_add(path, text, len) : file_write(path, text, len);
	if (r < 0)
		(void) snprintf(err->text, sizeof(err->text), "%s", explain_write(r));
	return r;
}

static void write_file(const struct measure *m, struct hiw_run *run, bool is_json, struct unwritten *ret)
{
	const enum hiw_format text = m->summary == SUMMARY_LINE ? HIW_LINE : HIW_TEXT;
	const enum hiw_format json = m->many ? HIW_JSON_LINE : HIW_JSON;
	const char *path = is_json ? m->json_file : m->summary_file;
	const int fd = is_json ? m->json_fd : m->summary_fd;
	struct hiw_err err = { "" };
	const int r = path ? write_text(m, run, is_json ? json : text, path, fd, &err) : 0;

	if (r == 0)
		return;
	ret->any = true;
	if (r == (is_json ? m->json_error : m->summary_error))
		return;
	ret->files[is_json].path = path;
	ret->files[is_json].option = is_json ? " --json" : "";
	(void) snprintf(ret->files[is_json].why, sizeof(ret->files[is_json].why), "%.190s", err.text);
}

/* The run as an argument of hiwater show: its number in the history, else its path. */
static const char *run_argument(const struct measure *m, const struct hiw_recorder *recorder, char number[24])
{
	const char *path = hiw_recorder_path(recorder), *slash = strrchr(path, '/');
	const char *p = slash ? slash + 1 : path;
	uint64_t n;

	if (m->recorder.output || parse_u64(&p, &n) < 0 || strcmp(p, ".hiw") != 0)
		return path;
	(void) snprintf(number, 24, "%" PRIu64, n);
	return number;
}

static void report_unwritten(const struct measure *m, const struct unwritten *u, const char *run)
{
	for (size_t i = 0; i < sizeof(u->files) / sizeof(u->files[0]); i++) {
		char where[4200] = "";

		if (!u->files[i].path || m->quiet)
			continue;
		if (run)
			(void) snprintf(where, sizeof(where), "; its text is in hiwater show%s %s",
				u->files[i].option, run);
		complain("warning: cannot write %s: %s%s", u->files[i].path, u->files[i].why, where);
	}
}

void measure_summary(const struct measure *m, struct hiw_recorder *recorder)
{
	struct unwritten unwritten = { 0 };

	print_summary(m, hiw_recorder_run(recorder), HIW_TEXT, &unwritten);
}

void measure_report(const struct measure *m, struct hiw_recorder *recorder)
{
	struct hiw_run *run = hiw_recorder_run(recorder);
	struct unwritten unwritten = { 0 };
	enum summary_kind kind = m->summary;
	char number[24];

	terminal_be_patient();
	/* In a parallel job the first rank prints the full summary, the others a line each. */
	if (kind == SUMMARY_DEFAULT)
		kind = hwi_run_is_leader(run) ? SUMMARY_FULL : SUMMARY_LINE;
	if (kind != SUMMARY_NONE)
		print_summary(m, run, kind == SUMMARY_LINE ? HIW_LINE : HIW_TEXT, &unwritten);
	write_file(m, run, false, &unwritten);
	write_file(m, run, true, &unwritten);
	if (unwritten.any) {
		const bool is_kept = hwi_recorder_keep(recorder);

		report_unwritten(m, &unwritten, is_kept ? run_argument(m, recorder, number) : NULL);
		measure_warnings(m, recorder); /* those of keeping it */
	}
}

/* SPDX-License-Identifier: MIT
 *
 * hiwater doctor: which metrics can be measured on this machine, which cannot, why, and the remedy.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/columns.h"
#include "cli/doctor_rates.h"
#include "cli/doctor_overview.h"
#include "cli/doctor_trace.h"
#include "cli/doctor_where.h"
#include "cli/programs.h"
#include "cli/terminal.h"

enum {
	CHECKS_MOST = 4096,
	TEXT_MOST = 1 << 22,
	WIDTH_LEAST = 30,
	WIDTH_MOST = 80,
	PATIENCE_S = 2,      /* until a message names the driver that is waited for */
	FACT_COLUMNS = 16, /* "resident sizes" and two blanks */
	NAMES_COLUMNS = 36 /* leaves 42 of 80 columns to the origin; a narrow terminal is split in half */
};

static struct {
	bool json, why;
	const char *root;
} arg_doctor;

/* ---- gathering ------------------------------------------------------------------------------- */

/* Copies of the checks that hwi_doctor reported. */
struct report {
	struct hwi_check *checks;
	size_t n, cap;
	struct doctor_rates rates;
	int error;
};

static char *copy(struct report *r, const char *text)
{
	char *copied = strdup(text ? text : "");

	if (!copied)
		r->error = -ENOMEM;
	return copied;
}

static void see(void *ctx, const struct hwi_check *check)
{
	struct report *r = ctx;

	if (r->error == 0)
		r->error = vec_reserve(&r->checks, &r->cap, r->n, sizeof(*r->checks), CHECKS_MOST);
	if (r->error < 0)
		return;
	r->checks[r->n++] = (struct hwi_check) {
		.entity = copy(r, check->entity),
		.metric = copy(r, check->metric),
		.sentence = copy(r, check->sentence),
		.origin = copy(r, check->origin),
		.available = check->available,
		.how = copy(r, check->how),
		.why_not = copy(r, check->why_not),
		.remedy = copy(r, check->remedy),
	};
}

static void see_rate(void *ctx, const struct hwi_gpu_rate *rate)
{
	struct report *r = ctx;

	doctor_rates_add(&r->rates, rate);
}

static void report_done(struct report *r)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct hwi_check *c = &r->checks[i];
		const char *const texts[] = { c->entity, c->metric, c->sentence, c->origin, c->how,
			c->why_not, c->remedy };

		for (size_t k = 0; k < sizeof(texts) / sizeof(*texts); k++)
			free((void *) (uintptr_t) texts[k]);
	}
	free(r->checks);
	doctor_rates_done(&r->rates);
}

/* ---- text ------------------------------------------------------------------------------------ */

static const char *how_of(const struct hwi_check *c)
{
	return *c->how ? c->how : c->origin;
}

/* May both share a paragraph? Available metrics share one by entity and origin, missing ones by
 * reason and remedy. */
static bool is_alike(const struct hwi_check *a, const struct hwi_check *b)
{
	if (a->available != b->available)
		return false;
	if (a->available)
		return strcmp(a->entity, b->entity) == 0 && strcmp(how_of(a), how_of(b)) == 0;
	return strcmp(a->why_not, b->why_not) == 0 && strcmp(a->remedy, b->remedy) == 0;
}

/* Are all metrics of c's entity missing for the same reason? */
static bool is_all_missing(const struct report *r, const struct hwi_check *c)
{
	for (size_t k = 0; k < r->n; k++) {
		if (strcmp(r->checks[k].entity, c->entity) == 0 && !is_alike(c, &r->checks[k]))
			return false;
	}
	return !c->available;
}

static size_t first_of_entity(const struct report *r, size_t i)
{
	size_t k = 0;

	while (strcmp(r->checks[k].entity, r->checks[i].entity) != 0)
		k++;
	return k;
}

/* Appends the names of all checks that share a paragraph with check i: "a, b". False if an earlier
 * check is among them: its paragraph has the names. Missing metrics are named with their entity,
 * "gpu.*" if all of it is missing. */
static bool names_alike(const struct report *r, size_t i, struct buf *names)
{
	const struct hwi_check *c = &r->checks[i];

	for (size_t k = 0; k < r->n; k++) {
		const struct hwi_check *other = &r->checks[k];
		const bool whole = is_alike(c, other) && is_all_missing(r, other);

		if (!is_alike(c, other))
			continue;
		if (k < i)
			return false;
		if (whole && first_of_entity(r, k) < k)
			continue;
		(void) buf_printf(names, "%s%s%s%s", k > i ? ", " : "", c->available ? "" : other->entity,
			c->available ? "" : ".", whole ? "*" : other->metric);
	}
	return true;
}

static void add_missing(struct buf *out, const struct hwi_check *c, const char *names, size_t width)
{
	struct buf remedy = BUF_INIT(4096);

	(void) buf_printf(&remedy, "remedy: %s", c->remedy);
	add_two_columns(out, 2, names, width, "", width);
	add_two_columns(out, 6, *c->why_not ? c->why_not : "the reason is not known", width, "", width);
	if (*c->remedy && !remedy.error)
		add_two_columns(out, 6, remedy.data, width, "", width);
	buf_done(&remedy);
}

/* The available metrics of an entity; entity NULL: all missing metrics. */
static void add_group(struct buf *out, const struct report *r, const char *entity, size_t width)
{
	const size_t names_end = 2 + NAMES_COLUMNS;

	for (size_t i = 0; i < r->n; i++) {
		const struct hwi_check *c = &r->checks[i];
		struct buf names = BUF_INIT(1 << 16);

		if (entity && c->available && strcmp(entity, c->entity) == 0 && names_alike(r, i, &names))
			add_two_columns(out, 2, names.data, names_end < width / 2 ? names_end : width / 2,
				how_of(c), width);
		else if (!entity && !c->available && names_alike(r, i, &names))
			add_missing(out, c, names.data, width);
		buf_done(&names);
	}
}

/* How many metrics of entity (NULL: of all) are available; *ret_all: how many exist. */
static size_t count(const struct report *r, const char *entity, size_t *ret_all)
{
	size_t available = 0, all = 0;

	for (size_t i = 0; i < r->n; i++) {
		const bool of = !entity || strcmp(entity, r->checks[i].entity) == 0;

		all += of;
		available += of && r->checks[i].available;
	}
	*ret_all = all;
	return available;
}

/* machine is "key: value" lines; the values form a column. */
static void add_facts(struct buf *out, const char *machine, size_t width)
{
	while (*machine) {
		const size_t len = strcspn(machine, "\n"), key = strcspn(machine, ":\n");
		struct buf left = BUF_INIT(4096), right = BUF_INIT(4096);

		(void) buf_add(&left, machine, key);
		(void) buf_add(&right, machine + key + (key < len), len - key - (key < len));
		if (!left.error && !right.error)
			add_two_columns(out, 0, left.data, FACT_COLUMNS, right.data, width);
		buf_done(&left);
		buf_done(&right);
		machine += len + (machine[len] == '\n');
	}
}

static struct findings_here findings_of(const struct report *r, const char *machine)
{
	return (struct findings_here) { r->checks, r->n, machine };
}

/* Everything. Missing metrics come last, next to the prompt. */
static void add_all(struct buf *out, const struct report *r, const char *machine, size_t width)
{
	size_t all;
	const size_t available = count(r, NULL, &all);

	add_facts(out, machine, width);
	doctor_rates_text(&r->rates, width, out);
	for (size_t i = 0; i < r->n; i++) {
		size_t all_here;
		const size_t available_here = count(r, r->checks[i].entity, &all_here);

		if (first_of_entity(r, i) < i || available_here == 0)
			continue;
		(void) buf_printf(out, "\n%s: %zu of %zu metrics\n",
			r->checks[i].entity, available_here, all_here);
		add_group(out, r, r->checks[i].entity, width);
	}
	if (available < all) {
		(void) buf_printf(out, "\nmissing here: %zu\n", all - available);
		add_group(out, r, NULL, width);
	}
}

static size_t text_width(void)
{
	const size_t width = terminal_width(STDOUT_FILENO, WIDTH_MOST);

	return width < WIDTH_LEAST ? WIDTH_LEAST : width > WIDTH_MOST ? WIDTH_MOST
								      : width;
}

/* Another machine's files do not say what could be followed and sampled there. What is found is large, and the stack
 * may be small (ulimit -s). */
static void add_inside(struct buf *out, struct json *j)
{
	autofree struct doctor_trace *trace = arg_doctor.root ? NULL : malloc(sizeof(*trace));
	autofree struct doctor_where *where = trace ? malloc(sizeof(*where)) : NULL;

	if (!where)
		return;
	doctor_trace_find(trace);
	doctor_where_find(where);
	if (j) {
		doctor_trace_json(trace, j);
		doctor_where_json(where, j);
		return;
	}
	(void) buf_str(out, "\n");
	doctor_trace_text(trace, text_width(), out);
	(void) buf_str(out, "\n");
	doctor_where_text(where, text_width(), out);
}

static void add_text(struct buf *out, const struct report *r, const char *machine)
{
	const struct findings_here here = findings_of(r, machine);
	const size_t width = text_width();
	size_t all;
	const size_t available = count(r, NULL, &all);
	struct buf total = BUF_INIT(256);

	doctor_overview_text(&here, width, out);
	(void) buf_str(out, "\n");
	if (arg_doctor.why)
		add_all(out, r, machine, width);
	else
		doctor_overview_table(&here, width, out);
	(void) buf_printf(&total, "%zu of %zu metrics can be measured here%s", available, all,
		arg_doctor.why ? "" : "; each of them, and why not: hiwater doctor --why");
	(void) buf_str(out, "\n");
	add_two_columns(out, 0, total.data, width + 1, "", width);
	buf_done(&total);
	add_inside(out, NULL);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void add_machine(struct json *j, const char *machine)
{
	json_object(j);
	for (const char *p = machine; *p;) {
		const size_t len = strcspn(p, "\n"), key = strcspn(p, ":\n");
		struct buf text = BUF_INIT(4096);

		if (key < len) {
			(void) buf_printf(&text, "%.*s", (int) key, p);
			json_key(j, text.data);
			buf_clear(&text);
			(void) buf_printf(&text, "%.*s", (int) (len - key - 1), p + key + 1);
			json_str(j, text.data + strspn(text.data, " "));
		}
		buf_done(&text);
		p += len + (p[len] == '\n' ? 1 : 0);
	}
	json_end(j);
}

static void add_json(struct buf *out, const struct report *r, const char *machine)
{
	struct json json, *j = &json;

	const struct findings_here here = findings_of(r, machine);

	json_init(j, out, false);
	json_object(j);
	json_key(j, "hiwater");
	json_str(j, hiw_version());
	doctor_overview_json(&here, j);
	json_key(j, "machine");
	add_machine(j, machine);
	doctor_rates_json(&r->rates, j);
	json_key(j, "metrics");
	json_array(j);
	for (size_t i = 0; i < r->n; i++) {
		const struct hwi_check *c = &r->checks[i];

		json_object(j);
		json_key_text(j, "entity", c->entity);
		json_key_text(j, "metric", c->metric);
		json_key_text(j, "sentence", c->sentence);
		json_key_text(j, "origin", c->origin);
		json_key(j, "available");
		json_bool(j, c->available);
		json_key_text(j, "how", c->available ? c->how : "");
		json_key_text(j, "why_not", c->available ? "" : c->why_not);
		json_key_text(j, "remedy", c->available ? "" : c->remedy);
		json_end(j);
	}
	json_end(j);
	add_inside(out, j);
	json_end(j);
	(void) buf_str(out, "\n");
}

/* Names the programs that are not installed with hiwater or were left out of its build. */
static void add_programs(struct buf *out)
{
	static const struct {
		const char *name, *command, *library, *package;
	} programs[] = {
		{ "hiwater-top", "hiwater top", "ncursesw", "libncurses-dev" },
		{ "hiwater-serve", "hiwater serve", "libmicrohttpd", "libmicrohttpd-dev" },
		{ "hiwater-otlp", "hiwater run --otlp", "libcurl", "libcurl4-gnutls-dev" },
	};
	const size_t width = text_width();
	char path[PATH_MAX], where[PROGRAM_WHY_LEN];

	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		struct buf text = BUF_INIT(2 * PATH_MAX);

		if (program_find(programs[i].name, path, sizeof(path)) == 0)
			continue;
		program_why_not(programs[i].name, where, sizeof(where));
		(void) buf_printf(&text,
			"%s is not available: %s. To enable it: copy %s there; if hiwater was built without %s, install "
			"that (Debian: apt-get install %s) and build again.",
			programs[i].command, where, programs[i].name, programs[i].library,
			programs[i].package);
		(void) buf_str(out, "\n");
		if (!text.error)
			add_two_columns(out, 0, text.data, width + 1, "", width);
		buf_done(&text);
	}
}

/* ---- the command ----------------------------------------------------------------------------- */

static int print_report(const struct report *r, const char *machine)
{
	struct buf out = BUF_INIT(TEXT_MOST);
	int status = EXIT_FAILED;

	if (arg_doctor.json)
		add_json(&out, r, machine);
	else
		add_text(&out, r, machine);
	if (!arg_doctor.json && !arg_doctor.root)
		add_programs(&out);
	if (out.error)
		complain("no report: %s", strerror(-out.error));
	else
		status = print_out(out.data, out.len);
	buf_done(&out);
	return status;
}

/* A driver may take long to answer; the message names what the command waits for. */
static void say_waiting(int signal_number)
{
	static const char text[] = "hiwater: waiting for a GPU driver (30 s at most)\n";

	(void) signal_number;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		return;
}

static int ask(struct report *report, struct hiw_err *err)
{
	const struct sigaction say = { .sa_handler = say_waiting, .sa_flags = SA_RESTART };
	struct sigaction before;
	int r;

	(void) sigaction(SIGALRM, &say, &before);
	(void) alarm(PATIENCE_S);
	r = hwi_doctor(arg_doctor.root, see, see_rate, report, err);
	(void) alarm(0);
	(void) sigaction(SIGALRM, &before, NULL);
	return r;
}

static int doctor_main(int argc, char **argv)
{
	struct report report = { 0 };
	autofree char *machine = NULL;
	struct hiw_err err = { "" };
	int r;

	if (argc > 0) {
		complain("unexpected operand '%s'; see hiwater doctor --help", argv[0]);
		return EXIT_USAGE;
	}
	r = hwi_doctor_machine(arg_doctor.root, &machine, &err);
	if (r == 0)
		r = ask(&report, &err);
	if (r == 0)
		r = report.error < 0 ? report.error : report.rates.error;
	if (r < 0)
		complain("%s", err.text[0] ? err.text : strerror(-r));
	r = r < 0 ? EXIT_FAILED : print_report(&report, machine);
	report_done(&report);
	return r;
}

static const struct opt opts[] = {
	{ 0, "json", OPT_NONE, NULL, "print JSON", opt_flag, &arg_doctor.json },
	{ 0, "why", OPT_NONE, NULL,
		"every metric with its source, or why it is missing and the remedy; facts of the machine; how often GPUs are read",
		opt_flag, &arg_doctor.why },
	{ 0, "root", OPT_FILE, "DIR", "examine a captured machine: DIR holds its proc and sys",
		opt_text, (void *) &arg_doctor.root },
	{ 0 },
};

static const char *const prose[] = {
	"Begins with two lines: what can be measured on this machine with the rights of this user, and the one "
	"thing that would improve it most. A table of the topics follows. It changes nothing.",
	"--why prints the rest. First the facts that decide the accuracy of a run: the error of resident sizes, "
	"the cgroup, how new processes are found, and whether the kernel reports the end of each process. If a "
	"GPU driver answers, the next lines state how often a run at the default interval reads each group "
	"of its metrics (4/s while memory moves: a list is then read sooner), how long one read of all GPUs "
	"took now, and, if that exceeds the CPU budget, the longer period and the reason. Then each metric "
	"(docs/metrics.md) with its source; last what is missing, why, and what would enable it.",
	"The exit status is 0 (also if metrics are missing), 1 if the machine cannot be examined, 2 for an "
	"invalid command line.",
	NULL,
};

static const char *const examples[] = {
	"hiwater doctor",
	"what can be measured here",
	"hiwater doctor --why",
	"find out why the summary has no energy",
	"hiwater run --cgroup=new -- hiwater doctor",
	"what can be measured in a cgroup of the job's own",
	"hiwater doctor --json",
	"the same as JSON, for a program",
	NULL,
};

const struct command command_doctor = {
	.name = "doctor",
	.usage = "[options]",
	.sentence = "show what can be measured here, what cannot, and why",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = doctor_main,
};

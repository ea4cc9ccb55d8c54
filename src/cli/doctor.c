/* SPDX-License-Identifier: MIT
 *
 * hiwater doctor: what can be measured here, what cannot, why, and the remedy.
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
#include "cli/programs.h"
#include "cli/terminal.h"

enum {
	CHECKS_MOST = 4096,
	TEXT_MOST = 1 << 22,
	WIDTH_LEAST = 30,
	WIDTH_MOST = 80,
	PATIENCE_S = 2,      /* before it says what it waits for */
	FACT_COLUMNS = 16, /* "resident sizes" and two blanks */
	NAMES_COLUMNS = 36 /* leaves 42 of 80 to the origin; half of a narrow terminal */
};

static struct {
	bool json;
	const char *root;
} arg_doctor;

/* ---- gathering ---- */

/* Copies of what hwi_doctor told. */
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
		r->error = vec_room(&r->checks, &r->cap, r->n, sizeof(*r->checks), CHECKS_MOST);
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
		const char *const texts[] = { c->entity, c->metric, c->sentence, c->origin, c->how, c->why_not, c->remedy };

		for (size_t k = 0; k < sizeof(texts) / sizeof(*texts); k++)
			free((void *) (uintptr_t) texts[k]);
	}
	free(r->checks);
	doctor_rates_done(&r->rates);
}

/* ---- text ---- */

static const char *how_of(const struct hwi_check *c)
{
	return *c->how ? c->how : c->origin;
}

/* May both stand in one paragraph? What can be had goes by entity, what cannot by the reason alone. */
static bool is_alike(const struct hwi_check *a, const struct hwi_check *b)
{
	if (a->available != b->available)
		return false;
	if (a->available)
		return strcmp(a->entity, b->entity) == 0 && strcmp(how_of(a), how_of(b)) == 0;
	return strcmp(a->why_not, b->why_not) == 0 && strcmp(a->remedy, b->remedy) == 0;
}

/* Is all of c's entity missing for the one reason? */
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

/* The names of all that are like i, "a, b"; false if an earlier one is, which then had them. What is missing has its entity
 * in front, "gpu.*" where that is all of it. */
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

	(void) buf_printf(&remedy, "to have %s: %s", strstr(names, ", ") ? "them" : "it", c->remedy);
	beside_add(out, 2, names, width, "", width);
	beside_add(out, 6, *c->why_not ? c->why_not : "not known why", width, "", width);
	if (*c->remedy && !remedy.error)
		beside_add(out, 6, remedy.data, width, "", width);
	buf_done(&remedy);
}

/* Those of an entity that can be had; or, without an entity, all that cannot. */
static void add_group(struct buf *out, const struct report *r, const char *entity, size_t width)
{
	const size_t names_end = 2 + NAMES_COLUMNS;

	for (size_t i = 0; i < r->n; i++) {
		const struct hwi_check *c = &r->checks[i];
		struct buf names = BUF_INIT(1 << 16);

		if (entity && c->available && strcmp(entity, c->entity) == 0 && names_alike(r, i, &names))
			beside_add(out, 2, names.data, names_end < width / 2 ? names_end : width / 2, how_of(c), width);
		else if (!entity && !c->available && names_alike(r, i, &names))
			add_missing(out, c, names.data, width);
		buf_done(&names);
	}
}

/* How many of an entity (NULL: of all) can be had, and how many there are. */
static size_t count(const struct report *r, const char *entity, size_t *ret_all)
{
	size_t had = 0, all = 0;

	for (size_t i = 0; i < r->n; i++) {
		const bool of = !entity || strcmp(entity, r->checks[i].entity) == 0;

		all += of;
		had += of && r->checks[i].available;
	}
	*ret_all = all;
	return had;
}

/* "key: value" lines, the values in a column. */
static void add_facts(struct buf *out, const char *machine, size_t width)
{
	while (*machine) {
		const size_t len = strcspn(machine, "\n"), key = strcspn(machine, ":\n");
		struct buf left = BUF_INIT(4096), right = BUF_INIT(4096);

		(void) buf_add(&left, machine, key);
		(void) buf_add(&right, machine + key + (key < len), len - key - (key < len));
		if (!left.error && !right.error)
			beside_add(out, 0, left.data, FACT_COLUMNS, right.data, width);
		buf_done(&left);
		buf_done(&right);
		machine += len + (machine[len] == '\n');
	}
}

/* What is missing comes last: there the eye is. */
static void add_text(struct buf *out, const struct report *r, const char *machine)
{
	size_t width = terminal_width(STDOUT_FILENO, WIDTH_MOST), all;
	const size_t had = count(r, NULL, &all);
	struct buf verdict = BUF_INIT(256);

	width = width < WIDTH_LEAST ? WIDTH_LEAST : width > WIDTH_MOST ? WIDTH_MOST
								       : width;
	add_facts(out, machine, width);
	doctor_rates_text(&r->rates, width, out);
	for (size_t i = 0; i < r->n; i++) {
		size_t all_here;
		const size_t had_here = count(r, r->checks[i].entity, &all_here);

		if (first_of_entity(r, i) < i || had_here == 0)
			continue;
		(void) buf_printf(out, "\n%s: %zu of %zu metrics\n", r->checks[i].entity, had_here, all_here);
		add_group(out, r, r->checks[i].entity, width);
	}
	if (had < all) {
		(void) buf_printf(out, "\nmissing here: %zu\n", all - had);
		add_group(out, r, NULL, width);
	}
	(void) buf_printf(&verdict, "%zu of %zu metrics can be measured here", had, all);
	(void) buf_str(out, "\n");
	beside_add(out, 0, verdict.data, width + 1, "", width);
	buf_done(&verdict);
}

/* ---- JSON ---- */

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

	json_init(j, out, false);
	json_object(j);
	json_key(j, "hiwater");
	json_str(j, hiw_version());
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
	json_end(j);
	(void) buf_str(out, "\n");
}

/* What is not installed with it, or was left out of its build. */
static void add_programs(struct buf *out)
{
	char path[PATH_MAX], where[LOOKED_FOR_LEN];

	if (program_find("hiwater-top", path, sizeof(path)) == 0)
		return;
	program_looked_for("hiwater-top", where, sizeof(where));
	(void) buf_printf(out, "\nhiwater top is not here: %s. To have it: copy it there with hiwater, or, where it was built without "
			       "ncursesw, install that (Debian: apt-get install libncurses-dev) and build again.\n",
		where);
}

/* ---- the command ---- */

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

/* A driver may take its time, and whoever waits should know what for. */
static void say_waiting(int signal_number)
{
	static const char text[] = "hiwater: waiting for a driver of GPUs (30 s at most)\n";

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
		complain("'%s' is too much; see hiwater doctor --help", argv[0]);
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
	{ 0, "json", OPT_NONE, NULL, "as JSON", opt_flag, &arg_doctor.json },
	{ 0, "root", OPT_FILE, "DIR", "of the machine whose files lie in DIR (a captured one), not of this one",
		opt_text, (void *) &arg_doctor.root },
	{ 0 },
};

static const char *const prose[] = {
	"Says of each metric whether it can be had on this machine, with the rights of this user, and from where; and at the end "
	"what is missing, why, and what would change that. It changes nothing. The metrics are those of docs/metrics.md.",
	"In front stand the facts that decide how well things are known: how far sizes may be off, whose cgroup this is, how new "
	"processes are found, and whether the kernel tells of each one's end. Where a driver of GPUs answers, they say how often a run at "
	"the usual interval reads what of it (4/s while memory moves: a list is read again sooner then), what one reading of all GPUs "
	"took now, and, where that is too dear for the plan, how often it is read here and why.",
	"The exit status is 0 (also where much is missing), 1 if the machine could not be looked at, 2 for a command line that "
	"makes no sense.",
	NULL,
};

static const char *const examples[] = {
	"hiwater doctor",
	"why is there no energy in my summary?",
	"hiwater run --cgroup=new -- hiwater doctor",
	"what is there for a job in a cgroup of its own?",
	"hiwater doctor --json",
	"the same, for a program",
	NULL,
};

const struct command command_doctor = {
	.name = "doctor",
	.usage = "[options]",
	.sentence = "say what can be measured here, and what not, and why",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = doctor_main,
};

/* SPDX-License-Identifier: MIT
 *
 * hiwater doctor: what can be measured here, what cannot, why, and the remedy.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/terminal.h"

enum {
	CHECKS_MOST = 4096,
	NAME_COLUMNS = 22,
	TEXT_MOST = 1 << 22
};

static struct {
	bool json;
	const char *root;
} arg_doctor;

/* ---- gathering ---- */

/* Copies of what hiw_doctor told. */
struct report {
	struct hiw_check *checks;
	size_t n, cap;
	int error;
};

static char *copy(struct report *r, const char *text)
{
	char *copied = strdup(text ? text : "");

	if (!copied)
		r->error = -ENOMEM;
	return copied;
}

static void see(void *ctx, const struct hiw_check *check)
{
	struct report *r = ctx;

	if (r->error == 0)
		r->error = vec_room(&r->checks, &r->cap, r->n, sizeof(*r->checks), CHECKS_MOST);
	if (r->error < 0)
		return;
	r->checks[r->n++] = (struct hiw_check) {
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

static void report_done(struct report *r)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct hiw_check *c = &r->checks[i];
		const char *const texts[] = { c->entity, c->metric, c->sentence, c->origin, c->how, c->why_not, c->remedy };

		for (size_t k = 0; k < sizeof(texts) / sizeof(*texts); k++)
			free((void *) (uintptr_t) texts[k]);
	}
	free(r->checks);
}

/* ---- text ---- */

/* Writes text behind column, broken at blanks, further lines from column on. */
static void wrap(struct buf *out, const char *text, size_t column, size_t width)
{
	size_t at = column;

	while (*(text += strspn(text, " \n"))) {
		size_t len = strcspn(text, " \n");

		if (at > column && at + 1 + len > width) {
			(void) buf_printf(out, "\n%*s", (int) column, "");
			at = column;
		} else if (at > column) {
			(void) buf_str(out, " ");
			at++;
		}
		(void) buf_add(out, text, len);
		at += len;
		text += len;
	}
	(void) buf_str(out, "\n");
}

static void add_check(struct buf *out, const struct hiw_check *c, size_t width)
{
	const char *text = c->available ? (*c->how ? c->how : c->origin) : *c->why_not ? c->why_not
										       : "not known why";

	(void) buf_printf(out, "  %-3s  %-*s ", c->available ? "yes" : "no", NAME_COLUMNS, c->metric);
	wrap(out, text, NAME_COLUMNS + 8, width);
	if (c->available || !*c->remedy)
		return;
	(void) buf_printf(out, "%*s", NAME_COLUMNS + 8, "");
	wrap(out, "to have it:", NAME_COLUMNS + 8, width);
	out->len--; /* its line goes on */
	(void) buf_str(out, " ");
	wrap(out, c->remedy, NAME_COLUMNS + 8 + strlen("to have it: "), width);
}

static bool is_first_of_entity(const struct report *r, size_t i)
{
	for (size_t k = 0; k < i; k++) {
		if (strcmp(r->checks[k].entity, r->checks[i].entity) == 0)
			return false;
	}
	return true;
}

static void add_entity(struct buf *out, const struct report *r, const char *entity, size_t width)
{
	(void) buf_printf(out, "\n%s\n", entity);
	for (int available = 1; available >= 0; available--) {
		for (size_t i = 0; i < r->n; i++) {
			if (r->checks[i].available == (available == 1) && strcmp(r->checks[i].entity, entity) == 0)
				add_check(out, &r->checks[i], width);
		}
	}
}

static void add_text(struct buf *out, const struct report *r, const char *machine)
{
	size_t width = terminal_width(STDOUT_FILENO, 80), had = 0;

	if (width < NAME_COLUMNS + 40)
		width = NAME_COLUMNS + 40;
	(void) buf_str(out, machine);
	for (size_t i = 0; i < r->n; i++) {
		had += r->checks[i].available;
		if (is_first_of_entity(r, i))
			add_entity(out, r, r->checks[i].entity, width);
	}
	(void) buf_printf(out, "\n%zu of %zu metrics can be measured here\n", had, r->n);
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

static void add_text_key(struct json *j, const char *key, const char *value)
{
	json_key(j, key);
	json_str(j, *value ? value : NULL);
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
	json_key(j, "metrics");
	json_array(j);
	for (size_t i = 0; i < r->n; i++) {
		const struct hiw_check *c = &r->checks[i];

		json_object(j);
		add_text_key(j, "entity", c->entity);
		add_text_key(j, "metric", c->metric);
		add_text_key(j, "sentence", c->sentence);
		add_text_key(j, "origin", c->origin);
		json_key(j, "available");
		json_bool(j, c->available);
		add_text_key(j, "how", c->available ? c->how : "");
		add_text_key(j, "why_not", c->available ? "" : c->why_not);
		add_text_key(j, "remedy", c->available ? "" : c->remedy);
		json_end(j);
	}
	json_end(j);
	json_end(j);
	(void) buf_str(out, "\n");
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
	if (out.error)
		complain("no report: %s", strerror(-out.error));
	else
		status = print_out(out.data, out.len);
	buf_done(&out);
	return status;
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
	r = hiw_doctor_machine(arg_doctor.root, &machine, &err);
	if (r == 0)
		r = hiw_doctor(arg_doctor.root, see, &report, &err);
	if (r == 0)
		r = report.error;
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
	"Says of each metric whether it can be had on this machine, with the rights of this user, and from where; or why not, "
	"and what would change that. It changes nothing.",
	"The exit status is 0 (also where much is missing), 1 if the machine could not be looked at, 2 for a command line that "
	"makes no sense.",
	NULL,
};

static const char *const examples[] = {
	"hiwater doctor",
	"why is there no energy in my summary?",
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

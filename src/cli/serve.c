/* SPDX-License-Identifier: MIT
 *
 * hiwater serve: checks its options and executes the program that answers (src/serve/,
 * hiwater-serve). The arguments of hiwater-serve are NAME=VALUE words (src/serve/main.c).
 */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/measure.h"
#include "cli/programs.h"

#define JOBS_CHOICES "all|slurm|k8s|systemd|none"

enum {
	WORDS_MOST = 160,
	LIST_MOST = 31
};
static const int64_t window_least_ns = 10000000000, window_most_ns = 3600000000000;

/* An option that may be repeated. */
struct list {
	const char *values[LIST_MOST];
	size_t n;
};

static struct {
	struct list listen, host_names, admins, histories, groups;
	const char *token_file, *tls_cert, *tls_key, *textfile, *sd_file;
	int64_t window_ns;
	int jobs;
	enum hiw_gpu gpu;
	bool with_users;
} arg_serve = { .window_ns = 600000000000 };

/* ---- options --------------------------------------------------------------------------------- */

static int add_to_list(const char *value, void *dest, struct err *err)
{
	struct list *list = dest;

	if (!*value)
		return err_set(err, -EINVAL, "it is empty");
	if (list->n == LIST_MOST)
		return err_set(err, -EINVAL, "it is given more than %d times", LIST_MOST);
	list->values[list->n++] = value;
	return 0;
}

static int parse_window(const char *value, void *dest, struct err *err)
{
	int64_t ns;
	const int r = units_parse_duration(value, &ns, err);

	if (r < 0)
		return r;
	if (ns < window_least_ns || ns > window_most_ns)
		return err_set(err, -EINVAL, "'%.80s' is out of range; give 10s to 1h", value);
	*(int64_t *) dest = ns;
	return 0;
}

static int parse_jobs(const char *value, void *dest, struct err *err)
{
	const int i = opt_choice(value, JOBS_CHOICES, err);

	if (i >= 0)
		*(int *) dest = i;
	return i < 0 ? i : 0;
}

/* ---- executing hiwater-serve ----------------------------------------------------------------- */

struct words {
	char *argv[WORDS_MOST + 1];
	size_t n;
};

static void __attribute__((format(printf, 2, 3))) word(struct words *w, const char *format, ...)
{
	struct buf text = BUF_INIT(1 << 16);
	va_list ap;

	va_start(ap, format);
	(void) buf_vprintf(&text, format, ap);
	va_end(ap);
	if (w->n < WORDS_MOST && !text.error)
		w->argv[w->n++] = text.data; /* until exec, or the end */
}

static void word_list(struct words *w, const char *name, const struct list *list)
{
	for (size_t i = 0; i < list->n; i++)
		word(w, "%s=%s", name, list->values[i]);
}

/* "alice,bob" is two of them. */
static void word_names(struct words *w, const char *name, const struct list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		for (const char *p = list->values[i]; *p; p += strcspn(p, ","), p += *p == ',') {
			if (strcspn(p, ",") > 0)
				word(w, "%s=%.*s", name, (int) strcspn(p, ","), p);
		}
	}
}

static void word_text(struct words *w, const char *name, const char *value)
{
	if (value)
		word(w, "%s=%s", name, value);
}

static int serve_main(int argc, char **argv)
{
	struct words w = { .n = 0 };
	char path[PATH_MAX];

	if (argc > 0) {
		complain("unexpected operand '%s'; see hiwater serve --help", argv[0]);
		return EXIT_USAGE;
	}
	if (program_find("hiwater-serve", path, sizeof(path)) < 0) {
		char where[PROGRAM_WHY_LEN];

		program_why_not("hiwater-serve", where, sizeof(where));
		complain(
			"hiwater serve is not available: %s; a build without the headers of libmicrohttpd (Debian: "
			"libmicrohttpd-dev) omits it",
			where);
		return EXIT_FAILED;
	}
	word(&w, "hiwater-serve");
	word_list(&w, "listen", &arg_serve.listen);
	word_names(&w, "host-name", &arg_serve.host_names);
	word_names(&w, "admin", &arg_serve.admins);
	word_list(&w, "history", &arg_serve.histories);
	word_list(&w, "group", &arg_serve.groups);
	word_text(&w, "token-file", arg_serve.token_file);
	word_text(&w, "tls-cert", arg_serve.tls_cert);
	word_text(&w, "tls-key", arg_serve.tls_key);
	word_text(&w, "textfile", arg_serve.textfile);
	word_text(&w, "sd-file", arg_serve.sd_file);
	word(&w, "window=%lld", (long long) arg_serve.window_ns);
	word(&w, "jobs=%d", arg_serve.jobs);
	word(&w, "gpus=%d", arg_serve.gpu == HIW_GPU_AUTO);
	word(&w, "with-users=%d", arg_serve.with_users);
	(void) execv(path, w.argv);
	complain("cannot run %s: %s", path, strerror(errno));
	return EXIT_FAILED;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct opt opts[] = {
	{ 0, "listen", OPT_TEXT, "ADDR:PORT|unix:PATH",
		"answer here; may be repeated. Default: /run/hiwater/serve.sock for root, else hiwater/serve.sock in "
		"XDG_RUNTIME_DIR. 127.0.0.1:0 takes a free port and prints it. An address that is not loopback needs a "
		"token and TLS",
		add_to_list, &arg_serve.listen },
	{ 0, "token-file", OPT_FILE, "FILE",
		"the token (Authorization: Bearer) by which TCP gets all figures instead of totals alone; only its owner may "
		"read the file",
		opt_text, (void *) &arg_serve.token_file },
	{ 0, "tls-cert", OPT_FILE, "FILE", "certificate of TCP addresses (PEM)", opt_text,
		(void *) &arg_serve.tls_cert },
	{ 0, "tls-key", OPT_FILE, "FILE", "its key (PEM)", opt_text, (void *) &arg_serve.tls_key },
	{ 0, "host-name", OPT_TEXT, "NAME",
		"a name of this server in the Host header, in addition to its address and localhost; may be repeated",
		add_to_list, &arg_serve.host_names },
	{ 0, "admins", OPT_TEXT, "USER,...", "users who see the jobs of all users on a unix socket, as root does",
		add_to_list, &arg_serve.admins },
	{ 0, "jobs", OPT_CHOICE, JOBS_CHOICES, "which live runs are shown (all)", parse_jobs, &arg_serve.jobs },
	{ 0, "history", OPT_FILE, "DIR",
		"look for live runs in this history instead of one's own; may be repeated", add_to_list,
		&arg_serve.histories },
	{ 0, "window", OPT_TEXT, "TIME", "how much of the past is kept for ?window= and for room, 10s to 1h (10m)",
		parse_window, &arg_serve.window_ns },
	{ 0, "group", OPT_TEXT, "NAME=UUID,...",
		"a group of GPUs: a label of hiwater_gpu_info, and sums in JSON; may be repeated", add_to_list,
		&arg_serve.groups },
	{ 0, "with-users", OPT_NONE, NULL, "hiwater_run_info has user and host", opt_flag, &arg_serve.with_users },
	{ 0, "textfile", OPT_FILE, "DIR",
		"also write DIR/hiwater.prom, for prometheus-node-exporter, each second: the totals", opt_text,
		(void *) &arg_serve.textfile },
	{ 0, "sd-file", OPT_FILE, "FILE", "write the TCP addresses to FILE, for Prometheus' file_sd_configs", opt_text,
		(void *) &arg_serve.sd_file },
	{ 0, "gpu", OPT_CHOICE, GPU_CHOICES, "measure GPUs if there are any, or call no GPU driver (auto)", parse_gpu,
		&arg_serve.gpu },
	{ 0 },
};

static const char *const prose[] = {
	"Answers over HTTP what is used now on this node: the machine, its GPUs, and each live run of hiwater whose "
	"recording it may read. /metrics is for Prometheus, /v1/now, /v1/gpus, /v1/jobs and /v1/jobs/ID are JSON "
	"(?window=5m adds min, mean, p95 and max), /v1/room?gpu_memory=8GiB&sm=0.3 says on which GPU there is room for "
	"another job, or that this cannot be known. docs/serve.md describes them.",
	"Answers are made of the last samples; a request reads no driver. A source that does not answer has "
	"hiwater_source_up 0, and its values are left out.",
	"On the unix socket a user sees own runs in full, and of others only totals of devices and host; root and --admins "
	"see all. On TCP all users of the machine can ask: without a token it has the totals alone.",
	"It runs until it gets SIGTERM or SIGINT. The exit status is 0, 1 if it cannot start, 2 for an invalid command "
	"line.",
	NULL,
};

static const char *const examples[] = {
	"hiwater serve",
	"answer on the default unix socket",
	"curl --unix-socket $XDG_RUNTIME_DIR/hiwater/serve.sock http://localhost/v1/now",
	"ask it",
	"hiwater serve --listen 127.0.0.1:9123 --token-file /etc/hiwater/token",
	"for a Prometheus that has the token",
	NULL,
};

const struct command command_serve = {
	.name = "serve",
	.usage = "[options]",
	.sentence = "answer over HTTP what is used now: Prometheus, JSON, room on GPUs",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = serve_main,
};

/* SPDX-License-Identifier: MIT
 *
 * hiwater collect: executes python/hiwater/_collect.py, which has pyarrow write the Parquet files. Nothing
 * in C needs Parquet.
 */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/programs.h"

static struct {
	const char *to;
	bool redact;
	int64_t settle_ns;
} arg_collect = { .settle_ns = 600000000000 };

/* Without the present folder on the path of modules, which -c puts there: a folder of recordings may be
 * anybody's. */
static const char program[] =
	"import sys\n"
	"sys.path[:] = [p for p in sys.path if p]\n"
	"try:\n"
	"    import pyarrow, pyarrow.parquet\n"
	"    from hiwater._collect import main\n"
	"except ImportError as e:\n"
	"    sys.exit('hiwater: collect needs the Python packages hiwater and pyarrow in ' + sys.executable\n"
	"             + ' (%s); install them with: ' % e + sys.executable + ' -m pip install hiwater pyarrow')\n"
	"sys.exit(main(sys.argv[1:]))\n";

static int parse_settle(const char *value, void *dest, struct err *err)
{
	return units_parse_duration(value, dest, err);
}

/* Executes the interpreter next to this program (a virtual environment), else the first on PATH. Returns
 * if there is none. */
static void become_python(char **argv)
{
	char path[PATH_MAX];

	/* the recordings of a job of several ranks are merged by this very program */
	if (program_find("hiwater", path, sizeof(path)) == 0)
		(void) setenv("HIWATER_COMMAND", path, 1);
	if (program_find("python3", path, sizeof(path)) == 0)
		(void) execv(path, argv);
	(void) execvp("python3", argv);
	complain("collect needs Python with the packages hiwater and pyarrow: cannot run python3: %s",
		strerror(errno));
}

static int collect_main(int argc, char **argv)
{
	enum {
		WORDS_BEFORE = 9
	};
	char settle[32];
	char **words;
	size_t n = 0;

	if (argc < 1 || !arg_collect.to) {
		complain("collect needs folders and --to, for example: hiwater collect runs/ --to fleet/");
		return EXIT_USAGE;
	}
	words = calloc((size_t) argc + WORDS_BEFORE, sizeof(*words));
	if (!words) {
		complain("cannot collect: out of memory");
		return EXIT_FAILED;
	}
	(void) snprintf(settle, sizeof(settle), "--settle=%.3f", (double) arg_collect.settle_ns / 1e9);
	words[n++] = (char *) "python3";
	words[n++] = (char *) "-c";
	words[n++] = (char *) (uintptr_t) program;
	words[n++] = settle;
	words[n++] = (char *) "--to";
	words[n++] = (char *) (uintptr_t) arg_collect.to;
	if (arg_collect.redact)
		words[n++] = (char *) "--redact";
	words[n++] = (char *) "--";
	memcpy(words + n, argv, (size_t) argc * sizeof(*words));
	become_python(words);
	free(words);
	return EXIT_FAILED;
}

static const struct opt opts[] = {
	{ 0, "to", OPT_FILE, "FLEET", "the folder of the Parquet files; it is created if it does not exist", opt_text,
		(void *) &arg_collect.to },
	{ 0, "settle", OPT_TEXT, "SPAN",
		"take a recording that has no end, and changed in the last SPAN, as still running (10m)", parse_settle,
		&arg_collect.settle_ns },
	{ 0, "redact", OPT_NONE, NULL, "leave out users, names, commands and paths", opt_flag, &arg_collect.redact },
	{ 0 },
};

static const char *const prose[] = {
	"Adds the finished jobs whose recordings are in the folders, or below them, to Parquet files, which DuckDB, "
	"ClickHouse, Spark and pandas read: FLEET/job, rank, gpu and window, a folder for each day. Recordings of "
	"the ranks of one job are one job; they lie in one folder.",
	"A job is collected once, however often the command is run. Jobs that still run, and files that cannot be "
	"read, are left out with a line on stderr each. Readers of FLEET never see an incomplete file, and two "
	"collections at once take turns.",
	"It needs Python with the packages hiwater and pyarrow. docs/fleet.md has the columns, and questions with "
	"their SQL.",
	"The exit status is 0, 1 if FLEET cannot be written or a package is missing, 2 for an invalid command line, "
	"3 if files could not be read; the other jobs were collected.",
	NULL,
};

static const char *const examples[] = {
	"hiwater collect ~/.local/state/hiwater --to fleet",
	"the runs of the history",
	"hiwater collect /scratch/runs --to /data/fleet --redact",
	"the runs of all users, without names and commands; for example each hour by cron",
	NULL,
};

const struct command command_collect = {
	.name = "collect",
	.usage = "DIR|FILE... --to FLEET [options]",
	.operands = "DIR is a folder with recordings, in folders below it too; FILE is a recording.",
	.sentence = "finished jobs as Parquet, for queries over many",
	.prose = prose,
	.examples = examples,
	.opts = opts,
	.main = collect_main,
};

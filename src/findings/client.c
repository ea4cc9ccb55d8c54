/* SPDX-License-Identifier: MIT */
#include "findings/client.h"

#include <string.h>

#define CONTAINER "in a container, which a daemon starts outside of this process tree"
#define IN_CONTAINER \
	"run hiwater inside the container, or outside: hiwater attach --container NAME"
#define POD "in a container on a node of the cluster"
#define IN_POD \
	"put hiwater run -- in front of the command in the container, or on that node: hiwater attach --container ID"
#define UNIT "in a unit, which systemd starts outside of this process tree"
#define IN_UNIT \
	"put hiwater run -- in front of the unit's command, or measure its cgroup: hiwater attach --cgroup PATH"
#define BATCH      "in a batch job"
#define IN_BATCH   "put hiwater run -- in front of the command in the batch script"
#define HOST       "on another host"
#define ON_HOST    "run hiwater there: ssh HOST hiwater run -- COMMAND"
#define CLUSTER    "in the workers of a cluster"
#define IN_CLUSTER "run hiwater with the workers: hiwater attach --name RE on their hosts"

/* ---- which command lines --------------------------------------------------------------------- */

/* args: the words after the program's, separated by blanks. */
static const char *next_word(const char *args, size_t *ret_len)
{
	args += strspn(args, " ");
	*ret_len = strcspn(args, " ");
	return *ret_len > 0 ? args : NULL;
}

/* Is one of the words, up to "--", in list ("run|exec")? Options are looked for before the first other
 * word: later ones belong to another command. "--url=X" matches "--url". */
static bool has_word(const char *args, const char *list)
{
	size_t len, n;

	for (const char *word = args; (word = next_word(word, &len)); word += len) {
		if ((len == 2 && memcmp(word, "--", 2) == 0) || (*list == '-' && *word != '-'))
			return false;
		if (*word == '-' && memchr(word, '=', len))
			len = (size_t) ((const char *) memchr(word, '=', len) - word);
		for (const char *p = list; *p; p += n + (p[n] == '|')) {
			n = strcspn(p, "|");
			if (n == len && memcmp(word, p, n) == 0)
				return true;
		}
		len = strcspn(word, " ");
	}
	return false;
}

/* -N, -W, -O: a tunnel, or a command to a running one. Programs that only move data end in these
 * words. */
static bool is_transport(const char *args)
{
	static const char *const moves[] = { "git-upload-pack", "git-receive-pack", "git-upload-archive",
		"rsync --server", "scp -", "sftp", "borg serve", "hg -R", "svnserve" };
	size_t len;

	for (size_t i = 0; i < sizeof(moves) / sizeof(*moves); i++) {
		if (strstr(args, moves[i]))
			return true;
	}
	for (const char *word = args; (word = next_word(word, &len)) && *word == '-'; word += len) {
		if (word[1] != '-' && (memchr(word, 'N', len) || word[1] == 'W' || word[1] == 'O'))
			return true;
	}
	return false;
}

static const struct client {
	const char *name;
	/* one of them must be in the command line, after "!" none of them may; NULL: no condition */
	const char *words;
	const char *where, *remedy;
} clients[] = {
	{ "docker", "run|exec|start|attach|wait|build|buildx|compose", CONTAINER, IN_CONTAINER },
	{ "docker-compose", "run|exec|start|up|build", CONTAINER, IN_CONTAINER },
	{ "nerdctl", "run|exec|start|attach|wait|build|compose", CONTAINER, IN_CONTAINER },
	{ "podman", "--remote|-r|--url|--connection|-c", CONTAINER, IN_CONTAINER },
	{ "podman-remote", NULL, CONTAINER, IN_CONTAINER },
	{ "ctr", "run|exec|start|attach", CONTAINER, IN_CONTAINER },
	{ "crictl", "run|exec|start|attach", CONTAINER, IN_CONTAINER },
	{ "lxc", "exec|start|launch|shell", CONTAINER, IN_CONTAINER },
	{ "incus", "exec|start|launch|shell", CONTAINER, IN_CONTAINER },
	{ "kubectl", "run|exec|attach|debug|wait|apply|create", POD, IN_POD },
	{ "oc", "run|exec|attach|debug|wait|apply|create|rsh|start-build", POD, IN_POD },
	{ "systemd-run", NULL, UNIT, IN_UNIT },
	{ "machinectl", NULL, UNIT, IN_UNIT },
	{ "sbatch", NULL, BATCH, IN_BATCH },
	{ "qsub", NULL, BATCH, IN_BATCH },
	{ "qrsh", NULL, BATCH, IN_BATCH },
	{ "bsub", NULL, BATCH, IN_BATCH },
	{ "condor_submit", NULL, BATCH, IN_BATCH },
	{ "condor_wait", NULL, BATCH, IN_BATCH },
	{ "flux", "run|submit|batch|bulksubmit", BATCH, IN_BATCH },
	{ "ssh", NULL, HOST, ON_HOST },
	{ "pdsh", NULL, HOST, ON_HOST },
	{ "clush", NULL, HOST, ON_HOST },
	{ "pssh", NULL, HOST, ON_HOST },
	{ "parallel-ssh", NULL, HOST, ON_HOST },
	{ "dask-ssh", NULL, CLUSTER, IN_CLUSTER },
	{ "dask", "!worker|scheduler|cuda|spec|config|info|docs", CLUSTER, IN_CLUSTER },
	{ "ray", "submit|exec|attach", CLUSTER,
		"put hiwater run -- in front of the command: ray job submit -- hiwater run -- COMMAND" },
};

/* The rest of the command line after the word that names the program: of a script, the interpreter
 * comes first. */
static const char *arguments(const struct process *p)
{
	const size_t n = strlen(p->name);
	size_t len;

	for (const char *word = p->command ? p->command : ""; (word = next_word(word, &len)); word += len) {
		if (len >= n && memcmp(word + len - n, p->name, n) == 0 &&
			(len == n || word[len - n - 1] == '/'))
			return word + len;
	}
	return "";
}

/* Programs that start ssh to move their own data. */
static bool is_of_mover(const struct job *job, const struct process *p)
{
	static const char *const movers[] = { "git", "rsync", "scp", "sftp", "sshfs", "hg", "svn", "borg" };
	const struct process *parent = job_process_by_id(job, p->parent);

	for (size_t i = 0; parent && i < sizeof(movers) / sizeof(*movers); i++) {
		const size_t n = strlen(movers[i]);

		if (strncmp(parent->name, movers[i], n) == 0 && (!parent->name[n] || parent->name[n] == '-'))
			return true;
	}
	return false;
}

static const struct client *client_of(const struct job *job, const struct process *p)
{
	for (size_t i = 0; i < sizeof(clients) / sizeof(*clients); i++) {
		const struct client *c = &clients[i];

		if (strcmp(c->name, p->name) != 0)
			continue;
		const char *args = arguments(p);

		const bool excludes = c->words && *c->words == '!';

		if (c->words && has_word(args, c->words + excludes) == excludes)
			return NULL;
		if (strcmp(c->name, "ssh") == 0 && (is_transport(args) || is_of_mover(job, p)))
			return NULL;
		return c;
	}
	return NULL;
}

/* ---- how long they lived --------------------------------------------------------------------- */

struct client_seen client_find(const struct summary *s)
{
	enum {
		N = sizeof(clients) / sizeof(*clients)
	};
	struct {
		uint64_t lived_ns, until_ns;
	} of[N] = { 0 };
	const size_t n = s->job ? job_process_count(s->job) : 0;
	struct client_seen ret = { .name = NULL };
	size_t longest = 0;

	if (!s->wall_ns.known || s->wall_ns.value <= 0)
		return ret;
	/* Processes are in the order of their births: times that overlap count once. */
	for (size_t i = 0; i < n; i++) {
		const struct process *p = job_process(s->job, i);
		const struct client *c = client_of(s->job, p);
		const uint64_t end = p->ended ? p->ended_ns : (uint64_t) s->wall_ns.value;

		if (!c)
			continue;
		const size_t k = (size_t) (c - clients);
		const uint64_t from = p->born_ns > of[k].until_ns ? p->born_ns : of[k].until_ns;

		if (end <= from)
			continue;
		of[k].lived_ns += end - from;
		of[k].until_ns = end;
		if (of[k].lived_ns > of[longest].lived_ns)
			longest = k;
	}
	ret.share = (double) of[longest].lived_ns / (double) s->wall_ns.value;
	if (ret.share <= 0.5)
		return ret;
	ret.share = ret.share > 1 ? 1 : ret.share;
	ret.name = clients[longest].name;
	ret.where = clients[longest].where;
	ret.remedy = clients[longest].remedy;
	return ret;
}

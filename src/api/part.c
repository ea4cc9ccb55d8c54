/* SPDX-License-Identifier: MIT
 *
 * A recorder as part of a job of several ranks: where its recording is, and the line that a rank without one leaves.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/handles.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "record/history/history.h"
#include "source/cgroup/slurm.h"

/* ---- this process as a rank ------------------------------------------------------------------ */

/* The job as a RUN; a job that is known by its folder alone has none. */
static void write_run(const struct scheduler *s, char *ret, size_t size)
{
	static const char *const kinds[] = { "slurm", "torchrun", "mpi" };

	ret[0] = '\0';
	for (size_t i = 0; *s->job && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(s->name, kinds[i]) == 0)
			(void) snprintf(ret, size, "%s:%s", s->name, s->job);
	}
}

void hwi_rank_read(const char *const *argv, struct hwi_rank *ret)
{
	struct scheduler s;
	autofree char *key = NULL, *node = NULL;

	read_scheduler(&s);
	*ret = (struct hwi_rank) { .is_many = s.ranks.known && s.ranks.value > 1 };
	if (!ret->is_many)
		return;
	if (scheduler_key(&s, &key) < 0 || scheduler_node(&s, &node) < 0 || strlen(key) >= sizeof(ret->key) ||
		strlen(node) >= sizeof(ret->node)) {
		ret->is_many = false;
		return;
	}
	(void) snprintf(ret->key, sizeof(ret->key), "%s", key);
	(void) snprintf(ret->node, sizeof(ret->node), "%s", node);
	write_run(&s, ret->run, sizeof(ret->run));
	ret->is_launcher = scheduler_is_launcher(argv);
	ret->shares_node = !s.local_ranks.known || s.local_ranks.value > 1;
	ret->rank = api_maybe(s.rank);
	ret->ranks = api_maybe(s.ranks);
}

/* ---- the place of its recording -------------------------------------------------------------- */

/* The file of a node; else of a rank. */
static bool is_of_node(enum hwi_part part)
{
	return part == HWI_PART_NODE || part == HWI_PART_LINE;
}

/* A launcher that no scheduler started has no rank, nor has its file. */
static int file_in(const struct hiw_recorder *r, const char *folder, const struct scheduler *s,
	const char *ending, char **ret)
{
	if (is_of_node(r->part))
		return scheduler_node_file(folder, s, ending, ret);
	if (!s->rank.known && scheduler_is_launcher(r->options.argv))
		return scheduler_node_file(folder, s, ".hiw", ret);
	return scheduler_file(folder, s, ret);
}

/* FILE.hiw and "n1": FILE-n1 and the ending. */
static int file_beside(const struct hiw_recorder *r, const char *file, const char *ending, char **ret)
{
	const size_t len = strlen(file);
	const bool has_ending = len > 4 && strcmp(file + len - 4, ".hiw") == 0;
	autofree char *node = NULL;

	if (scheduler_node(&r->scheduler, &node) < 0)
		return -ENOMEM;
	if (asprintf(ret, "%.*s-%s%s", (int) (has_ending ? len - 4 : len), file, node, ending) < 0)
		return -ENOMEM;
	return 0;
}

/* In the folder of the job in the history. */
static int file_in_history(const struct hiw_recorder *r, const char *ending, char **ret, struct err *err)
{
	struct scheduler s = r->scheduler;
	autofree char *key = NULL, *folder = NULL, *with_slash = NULL;
	int error = scheduler_key(&r->scheduler, &key);

	s.job[0] = '\0'; /* the folder is the job's already */
	if (error == 0)
		error = history_job_folder(key, &folder, err);
	if (error == 0)
		error = asprintf(&with_slash, "%s/", folder) < 0 ? -ENOMEM : 0;
	return error < 0 ? error : file_in(r, with_slash, &s, ending, ret);
}

int part_path(const struct hiw_recorder *r, const char *pattern, const char *ending, char **ret_path,
	bool *ret_makes_folders, struct err *err)
{
	autofree char *given = NULL;
	int error;

	*ret_makes_folders = false;
	if (!pattern)
		return r->part == HWI_PART_NONE ? 0 : file_in_history(r, ending, ret_path, err);
	error = scheduler_expand(pattern, &r->scheduler, &given, err);
	if (error < 0)
		return error;
	const size_t n = strlen(given);

	*ret_makes_folders = n > 0 && given[n - 1] == '/';
	if (*ret_makes_folders)
		return file_in(r, given, &r->scheduler, ending, ret_path);
	if (is_of_node(r->part))
		return file_beside(r, given, ending, ret_path);
	*ret_path = take_ptr(given);
	return 0;
}

int hwi_recorder_new_part(
	const struct hiw_options *options, enum hwi_part part, struct hiw_recorder **ret, struct hiw_err *err)
{
	return recorder_new(options, part, NULL, ret, err);
}

/* ---- facts ----------------------------------------------------------------------------------- */

void hwi_recorder_gpus_by_node(struct hiw_recorder *r)
{
	(void) job_set_text(&job_facts(sampler_job(r->sampler))->gpu_why, "the recording of this node has the GPUs");
}

/* Each rank may have GPUs of its own (srun --gpus-per-task). */
static void add_gpus_of(struct hiw_recorder *r, pid_t pid)
{
	struct slurm_environment environment = { 0 };
	struct scheduler s;

	if (slurm_environment_read(&r->root, pid, &environment) == 0) {
		scheduler_read(slurm_environment_get, &environment, &s);
		if (s.selects_gpus)
			(void) job_select_gpus(sampler_job(r->sampler), s.gpu_selection);
	}
	slurm_environment_done(&environment);
}

void hwi_recorder_add_rank(struct hiw_recorder *r, pid_t pid)
{
	struct facts *f = job_facts(sampler_job(r->sampler));
	const uint32_t cpus = cpus_allowed_add(&r->ranks_cpus, pid);

	f->local_ranks = known(f->local_ranks.known ? f->local_ranks.value + 1 : 1);
	if (cpus > 0)
		f->cpus = maybe_min(known(cpus), f->node_cpus);
	add_gpus_of(r, pid);
}

/* ---- the line of a rank without a recording -------------------------------------------------- */

static void write_line(const struct hiw_recorder *r, struct buf *out)
{
	const struct summary *s = &r->run.summary;
	const struct {
		const char *key;
		struct maybe value;
	} before[] = {
		{ "rank", s->facts->rank },
		{ "local_rank", s->facts->local_rank },
		{ "restart", s->facts->restart },
		{ "started_wall_ns", s->facts->started_wall_ns },
		{ "wall_ns", s->wall_ns },
		{ "ram_peak_bytes", s->combined.peak },
	},
	  after[] = {
		  { "user_ns", s->user_ns },
		  { "system_ns", s->system_ns },
		  { "exit_status", s->facts->exit_status },
	  };
	autofree char *node = NULL;
	struct json j;

	(void) scheduler_node(&r->scheduler, &node);
	json_init(&j, out, true);
	json_object(&j);
	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
		json_key(&j, before[i].key);
		json_maybe(&j, before[i].value);
	}
	json_key(&j, "ram_method");
	json_str(&j, method_name(s->combined.method));
	for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++) {
		json_key(&j, after[i].key);
		json_maybe(&j, after[i].value);
	}
	json_key(&j, "node");
	json_str(&j, node);
	json_key(&j, "version");
	json_str(&j, HIW_VERSION);
	json_end(&j);
	(void) buf_str(out, "\n");
}

/* One write, which O_APPEND puts behind those of the other ranks. */
static int add_line(const struct hiw_recorder *r, const struct buf *line, struct err *err)
{
	const int error = r->makes_folders ? make_folder_of(r->line_path, err) : 0;
	autoclose int fd = -1;

	if (error < 0)
		return error;
	fd = open(r->line_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (fd < 0 || write(fd, line->data, line->len) != (ssize_t) line->len)
		return err_set(err, -errno, "%s", strerror(errno));
	return 0;
}

void part_add_line(struct hiw_recorder *r)
{
	struct buf line = BUF_INIT(4096);
	struct err err = { "" };
	int error = run_summarise(&r->run, false);

	if (error == 0) {
		write_line(r, &line);
		error = line.error ? line.error : add_line(r, &line, &err);
	}
	if (error < 0)
		(void) snprintf(r->warning, sizeof(r->warning), "the figures of this rank are not in %.200s: %.200s", r->line_path,
			err.text[0] ? err.text : strerror(-error));
	buf_done(&line);
}

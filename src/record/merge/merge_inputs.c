/* SPDX-License-Identifier: MIT
 *
 * The inputs of a merge: finds the files in folders, and makes candidates of what is in them. Files of other users are untrusted: only
 * regular files are read, links are not followed, and one that cannot be read is a problem of the result, not its end.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "record/merge/merge_internal.h"

enum {
	LINE_MOST = 4096,     /* of a list of ranks */
	LIST_MOST = 64 << 20, /* bytes of one */
	FOLDERS_MOST = 10000, /* of jobs in a folder */
};

/* ---- candidates ------------------------------------------------------------------------------ */

void candidate_done(struct candidate *c)
{
	part_done(&c->part);
	for (size_t i = 0; i < c->n_marks; i++)
		free(c->marks[i].text);
	free(c->marks);
	free(c->gpus);
	*c = (struct candidate) { 0 };
}

struct candidate *merge_add_candidate(struct merge *m)
{
	if (vec_reserve(&m->candidates, &m->cap, m->n, sizeof(m->candidates[0]), MERGE_INPUTS) < 0)
		return NULL;
	m->candidates[m->n] = (struct candidate) { 0 };
	return &m->candidates[m->n++];
}

int candidate_mark(struct candidate *c, uint64_t t_ns, const char *text)
{
	struct merge_mark mark = { .hash = store_hash(text), .t_ns = t_ns };

	if (c->n_marks >= MERGE_MARKS)
		return 0;
	if (vec_reserve(&c->marks, &c->cap_marks, c->n_marks, sizeof(mark), MERGE_MARKS) < 0)
		return -ENOMEM;
	mark.text = strdup(text);
	if (!mark.text)
		return -ENOMEM;
	c->marks[c->n_marks++] = mark;
	return 0;
}

int candidate_gpu(struct candidate *c, uint32_t id, const char *uuid, int64_t used)
{
	struct merge_gpu gpu = { .id = id, .used = used };

	if (!uuid || !*uuid)
		return 0;
	if (vec_reserve(&c->gpus, &c->cap_gpus, c->n_gpus, sizeof(gpu), MERGE_INPUTS) < 0)
		return -ENOMEM;
	(void) snprintf(gpu.uuid, sizeof(gpu.uuid), "%s", uuid);
	c->gpus[c->n_gpus++] = gpu;
	return 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

static int out_of_memory(struct merge *m)
{
	return err_set(m->err, -ENOMEM, "out of memory");
}

static bool ends_in(const char *name, const char *end)
{
	const size_t n = strlen(name), len = strlen(end);

	return n > len && strcmp(name + n - len, end) == 0;
}

static int add_input(struct merge *m, const char *path, const char *name, bool is_given)
{
	struct merge_input input = { .is_given = is_given };

	if (vec_reserve(&m->inputs, &m->cap_inputs, m->n_inputs, sizeof(input), MERGE_INPUTS) < 0)
		return out_of_memory(m);
	input.path = strdup(path);
	input.name = strdup(name);
	if (!input.path || !input.name) {
		free(input.path);
		free(input.name);
		return out_of_memory(m);
	}
	m->inputs[m->n_inputs++] = input;
	return 0;
}

/* Why a file of a folder is not read; NULL: it is. */
static const char *refusal(const struct stat *st)
{
	if (S_ISLNK(st->st_mode))
		return "it is a symbolic link, which is not followed";
	if (S_ISDIR(st->st_mode))
		return "it is a folder";
	if (!S_ISREG(st->st_mode))
		return "it is not a regular file";
	return st->st_size == 0
		       ? "it is empty: its run has just started, or its recorder was killed at once"
		       : NULL;
}

/* Adds what lies in the folder. *ret_newest: the newest folder in it with files of recordings, for a folder of jobs; its name is freed by
 * the caller. */
static int add_folder(
	struct merge *m, const char *path, const char *prefix, size_t *ret_n, char **ret_newest)
{
	autoclosedir DIR *dir = opendir(path);
	struct timespec newest = { 0 };
	struct dirent *entry;
	int r = 0, folders = 0;

	if (!dir)
		return err_set(m->err, -errno, "cannot read the folder %.200s: %s", path, strerror(errno));
	while (r == 0 && (entry = readdir(dir))) {
		char full[PATH_MAX], name[NAME_MAX + PATH_MAX];
		struct stat st;

		if (entry->d_name[0] == '.' ||
			fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			snprintf(full, sizeof(full), "%s/%s", path, entry->d_name) >= (int) sizeof(full))
			continue;
		(void) snprintf(name, sizeof(name), "%s%s", prefix, entry->d_name);
		if (ends_in(entry->d_name, ".hiw") || ends_in(entry->d_name, ".ranks")) {
			const char *why = refusal(&st);

			++*ret_n;
			r = why ? parts_add_problem(m->parts, name, why) : add_input(m, full, name, false);
		} else if (S_ISDIR(st.st_mode) && ret_newest && folders++ < FOLDERS_MOST &&
			   (st.st_mtim.tv_sec > newest.tv_sec ||
				   (st.st_mtim.tv_sec == newest.tv_sec &&
					   st.st_mtim.tv_nsec > newest.tv_nsec) ||
				   !*ret_newest)) {
			newest = st.st_mtim;
			free(*ret_newest);
			*ret_newest = strdup(entry->d_name);
			r = *ret_newest ? 0 : out_of_memory(m);
		}
	}
	return r;
}

static int add_path(struct merge *m, const char *path)
{
	autofree char *newest = NULL;
	char below[PATH_MAX], prefix[NAME_MAX + 2];
	struct stat st;
	size_t n = 0;
	int r;

	if (stat(path, &st) < 0)
		return err_set(m->err, -errno, "%.200s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return add_input(m, path, path, true);
	r = add_folder(m, path, "", &n, &newest);
	if (r == 0 && n == 0 && newest) {
		m->is_below = true;
		(void) snprintf(below, sizeof(below), "%s/%s", path, newest);
		(void) snprintf(prefix, sizeof(prefix), "%s/", newest);
		r = add_folder(m, below, prefix, &n, NULL);
	}
	if (r == 0 && n == 0)
		return err_set(m->err, -ENOENT, "no recordings (*.hiw) in the folder %.200s", path);
	return r;
}

int merge_add_path(struct merge *m, const char *path)
{
	const size_t first = m->n_inputs;
	const int r = add_path(m, path);

	for (size_t i = first; i < m->n_inputs; i++) {
		m->inputs[i].of = path;
		m->inputs[i].of_number = m->n_given;
	}
	m->n_given++;
	return r;
}

/* ---- an earlier merge ------------------------------------------------------------------------ */

static int read_marks(struct replay *r, struct candidate *of, size_t n)
{
	static const char *const columns[] = { "part", "t", "text", NULL };
	sqlite3_stmt *st = reader_table(r, "part_mark", columns, "ORDER BY part, t, text");
	int code = 0;

	while (st && code == 0 && sqlite3_step(st) == SQLITE_ROW) {
		uint32_t part;
		uint64_t t;

		if (reader_id(st, 0, &part) && part >= 1 && part <= n && reader_time(st, 1, &t))
			code = candidate_mark(&of[part - 1], t, reader_text(st, 2));
	}
	(void) sqlite3_finalize(st);
	return code;
}

static int read_gpus(struct replay *r, struct candidate *of, size_t n)
{
	sqlite3_stmt *st =
		reader_prepare(r, "SELECT p.part, p.gpu, g.uuid, p.used FROM part_gpu p JOIN gpu g ON "
				  "g.id = p.gpu ORDER BY p.part, p.gpu");
	int code = 0;

	while (st && code == 0 && sqlite3_step(st) == SQLITE_ROW) {
		uint32_t part, gpu;

		if (reader_id(st, 0, &part) && part >= 1 && part <= n && reader_id(st, 1, &gpu))
			code = candidate_gpu(
				&of[part - 1], gpu, reader_text(st, 2), reader_int_or(st, 3, 0));
	}
	(void) sqlite3_finalize(st);
	return code;
}

/* The problems of an earlier merge are those of this one if that is of the same job (merge_align.c). */
static int add_earlier_problem(struct merge *m, const struct part *of, const struct part_problem *problem)
{
	struct earlier_problem p = { .file = strdup(problem->file), .why = strdup(problem->why) };
	int r = p.file && p.why ? 0 : -ENOMEM;

	r = r < 0 ? r : part_set_text(&p.of.job, of->job);
	r = r < 0 ? r : part_set_text(&p.of.scheduler, of->scheduler);
	r = r < 0 ? r : part_set_text(&p.of.cluster, of->cluster);
	if (r == 0)
		r = vec_reserve(&m->earlier, &m->cap_earlier, m->n_earlier, sizeof(p), MERGE_INPUTS) < 0
			    ? -ENOMEM
			    : 0;
	if (r == 0)
		m->earlier[m->n_earlier++] = p;
	else
		earlier_problem_done(&p);
	return r;
}

void earlier_problem_done(struct earlier_problem *p)
{
	part_done(&p->of);
	free(p->file);
	free(p->why);
}

/* Takes the parts over. */
static int read_merged(struct merge *m, size_t input, struct replay *r, struct parts *parts)
{
	const size_t first = m->n, n = parts->n;
	int code = 0;

	for (size_t i = 0; i < n && code == 0; i++) {
		struct candidate *c = merge_add_candidate(m);

		if (!c)
			return -ENOMEM;
		c->part = parts->part[i];
		c->was_start_ns = c->part.start_ns.value;
		parts->part[i] = (struct part) { 0 };
		c->input = input;
		c->number = (uint32_t) i + 1;
	}
	for (size_t i = 0; n > 0 && i < parts->n_problems && code == 0; i++)
		code = add_earlier_problem(m, &m->candidates[first].part, &parts->problem[i]);
	reader_allow(r);
	for (size_t i = first; i < m->n && code == 0; i++)
		code = merge_read_rows(m, &m->candidates[i], r);
	if (code == 0)
		code = read_marks(r, m->candidates + first, n);
	return code == 0 ? read_gpus(r, m->candidates + first, n) : code;
}

/* ---- a list of ranks ------------------------------------------------------------------------- */

/* SQLite's functions read JSON. */
static const char line_sql[] =
	"SELECT json_extract(?1,'$.rank'), json_extract(?1,'$.started_wall_ns'), "
	"json_extract(?1,'$.wall_ns'),"
	" json_extract(?1,'$.local_rank'), json_extract(?1,'$.restart'), "
	"json_extract(?1,'$.ram_peak_bytes'),"
	" json_extract(?1,'$.user_ns'), json_extract(?1,'$.system_ns'), json_extract(?1,'$.exit_status'),"
	" json_extract(?1,'$.ram_method'), json_extract(?1,'$.version'), json_extract(?1,'$.node') WHERE "
	"json_valid(?1)";

enum {
	LINE_METHOD = 9,
	LINE_VERSION,
	LINE_NODE,
};

/* A line may have any number: one that no rank of today has is not known. */
static void line_figures(sqlite3_stmt *st, struct part *p)
{
	static const int64_t year_ns = INT64_C(366) * 24 * 3600 * 1000000000;
	struct maybe status = UNKNOWN;
	const struct {
		struct maybe *to;
		int64_t most;
	} columns[LINE_METHOD] = {
		{ &p->rank, 1 << 20 },
		{ &p->started_wall_ns, INT64_C(4000000000000000000) },
		{ &p->wall_ns, year_ns },
		{ &p->local_rank, 1 << 20 },
		{ &p->restart, 1 << 20 },
		{ &p->ram_peak_bytes, INT64_C(1) << 50 },
		{ &p->user_ns, year_ns },
		{ &p->system_ns, year_ns },
		{ &status, 0xffff },
	};

	for (int i = 0; i < LINE_METHOD; i++)
		columns[i].to->known = reader_int(st, i, &columns[i].to->value) &&
				       columns[i].to->value >= 0 && columns[i].to->value <= columns[i].most;
	if (status.known && (status.value & 0x7f) != 0) { /* as waitpid returns it */
		p->exit_signal = known(status.value & 0x7f);
		p->exit_code = known(128 + p->exit_signal.value);
	} else if (status.known) {
		p->exit_code = known(status.value >> 8);
	}
	p->ram_low_bytes = p->ram_peak_bytes;
	if (strcmp(reader_text(st, LINE_METHOD), "exact") == 0)
		p->ram_high_bytes = p->ram_peak_bytes;
	p->complete = known(1);
	p->has_recording = known(0);
}

/* The same file has the same name, wherever it was found. */
static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* One rank that kept no recording. The job is that of the recordings next to it (merge_align.c); the node is in the line, else in the
 * list's name. */
static int read_line(struct merge *m, size_t input, const char *line, const char *of_list, sqlite3_stmt *st)
{
	struct part part = { 0 };
	struct candidate *c;
	const char *node = of_list;
	char id[NAME_MAX + 80];
	int r = 0;

	(void) sqlite3_reset(st);
	(void) sqlite3_bind_text(st, 1, line, -1, SQLITE_STATIC);
	if (sqlite3_step(st) != SQLITE_ROW)
		return -EBADMSG;
	line_figures(st, &part);
	if (!part.rank.known || !part.started_wall_ns.known || !part.wall_ns.known)
		return -EBADMSG;
	c = merge_add_candidate(m);
	if (!c)
		return -ENOMEM;
	c->input = input;
	c->part = part;
	if (*reader_text(st, LINE_NODE))
		node = reader_text(st, LINE_NODE);
	(void) snprintf(id, sizeof(id), "%.200s/%lld/%lld", node, (long long) part.rank.value,
		(long long) part.started_wall_ns.value);
	const struct {
		char **to;
		const char *text;
	} texts[] = {
		{ &c->part.id, id },
		{ &c->part.kind, "rank" },
		{ &c->part.node, node },
		{ &c->part.file, base_name(m->inputs[input].name) },
		{ &c->part.ram_method, reader_text(st, LINE_METHOD) },
		{ &c->part.version, reader_text(st, LINE_VERSION) },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && r == 0; i++)
		r = part_set_text(texts[i].to, texts[i].text);
	return r;
}

static int read_list(struct merge *m, size_t input)
{
	const struct merge_input *in = &m->inputs[input];
	autofclose FILE *f = NULL;
	autofree char *node = strdup(base_name(in->name));
	sqlite3_stmt *st = NULL;
	char line[LINE_MOST];
	size_t bytes = 0, bad = 0;
	const int fd = open(in->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	int r = 0;

	if (fd < 0)
		return parts_add_problem(m->parts, in->name, strerror(errno));
	f = fdopen(fd, "re");
	if (!f || !node) {
		if (!f)
			(void) close(fd);
		return -ENOMEM;
	}
	node[strlen(node) - strlen(".ranks")] = '\0';
	st = store_cached(m->store, line_sql);
	while (r == 0 && st && fgets(line, sizeof(line), f) && (bytes += strlen(line)) < LIST_MOST) {
		r = read_line(m, input, line, node, st);
		if (r == -EBADMSG) {
			bad++;
			r = 0;
		}
	}
	if (st)
		(void) sqlite3_reset(st);
	if (r == 0 && bad > 0)
		r = parts_add_problem(
			m->parts, in->name, "some of its lines are not those of a list of ranks");
	return r;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* hiwater makes neither. */
static bool is_tampered(struct replay *r)
{
	sqlite3_stmt *st =
		reader_prepare(r, "SELECT 1 FROM sqlite_master WHERE type IN ('trigger', 'view') LIMIT 1");
	const bool is = st && sqlite3_step(st) == SQLITE_ROW;

	(void) sqlite3_finalize(st);
	return is;
}

/* The text of an error, which begins with the path, as one about "it". */
static int add_problem(struct merge *m, const struct merge_input *in, const struct err *err, int code)
{
	const size_t n = strlen(in->path);
	const bool has_path = strncmp(err->text, in->path, n) == 0;
	const char *text = has_path ? err->text + n : err->text[0] ? err->text
								   : strerror(-code);
	char why[sizeof(err->text) + 4];

	(void) snprintf(why, sizeof(why), "%s%s", has_path && *text == ' ' ? "it" : "",
		text + (has_path && *text == ':' ? strspn(text, ": ") : 0));
	return parts_add_problem(m->parts, in->name, why);
}

static int read_recording(struct merge *m, size_t input)
{
	const struct merge_input *in = &m->inputs[input];
	struct replay *r = NULL;
	struct parts *parts = NULL;
	struct err err = { "" };
	int code = replay_open(in->path, &r, &err);

	if (code == 0 && is_tampered(r))
		code = err_set(
			&err, -EBADMSG, "it has a trigger or a view, which no recording of hiwater has");
	if (code == 0) {
		reader_allow(r);
		m->inputs[input].has_where = reader_has_table(r, "where_high");
		code = reader_parts(r, &parts);
	}
	if (code == 0 && parts) {
		code = read_merged(m, input, r, parts);
	} else if (code == 0) {
		struct candidate c = { .input = input }, *at;

		code = part_read(m, r, in->name, &c, &err);
		reader_allow(r);
		if (code == 0)
			code = merge_read_rows(m, &c, r);
		at = code == 0 ? merge_add_candidate(m) : NULL;
		if (at)
			*at = c;
		else
			candidate_done(&c);
		if (code == 0 && !at)
			code = -ENOMEM;
	}
	parts_free(parts);
	replay_close(r);
	if (code < 0 && code != -ENOMEM)
		code = add_problem(m, in, &err, code);
	return code;
}

int merge_read_inputs(struct merge *m)
{
	int r = 0;

	for (size_t i = 0; i < m->n_inputs && r == 0; i++)
		r = ends_in(m->inputs[i].path, ".ranks") ? read_list(m, i) : read_recording(m, i);
	return r == -ENOMEM ? out_of_memory(m) : r;
}

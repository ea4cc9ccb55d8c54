/* SPDX-License-Identifier: MIT
 *
 * One line about all GPUs in the user's format, for status bars and prompts: {field} becomes a
 * figure, other text is copied, once for each device.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/opt.h"
#include "sink/gpus/gpus_internal.h"

enum {
	WORD = 32,
};

/* Fields that are not in the table of figures. */
enum special {
	SPECIAL_GPU,
	SPECIAL_USERS,
	SPECIALS,
};
static const struct {
	const char *word, *sentence;
} specials[SPECIALS] = {
	[SPECIAL_GPU] = { "gpu", "its number; 0.1 is a MIG instance" },
	[SPECIAL_USERS] = { "users", "users with processes on it, separated by commas" },
};

/* A piece of the format: text, or a field. */
struct piece {
	const char *text;
	size_t len;
	int figure, special;     /* -1: it is none */
};

static int figure_of(const char *word)
{
	for (size_t i = 0; i < gpus_n_figures; i++) {
		if (strcmp(gpus_figures[i].word, word) == 0)
			return (int) i;
	}
	return -1;
}

static int special_of(const char *word)
{
	for (int i = 0; i < SPECIALS; i++) {
		if (strcmp(specials[i].word, word) == 0)
			return i;
	}
	return -1;
}

static int unknown_field(const char *word, struct err *err)
{
	const char *names[64] = { NULL };
	size_t n = 0;

	for (int i = 0; i < SPECIALS; i++)
		names[n++] = specials[i].word;
	for (size_t i = 0; i < gpus_n_figures && n < sizeof(names) / sizeof(names[0]); i++)
		names[n++] = gpus_figures[i].word;
	const char *nearest = opt_nearest(word, names, n);

	return err_set(err, -EINVAL,
		"unknown field {%s} in the format of --line%s%s%s; hiwater gpus --help-line lists all", word,
		nearest ? "; did you mean {" : "", nearest ? nearest : "", nearest ? "}?" : "");
}

/* The next piece at *format. Returns 1, 0 at its end, or -EINVAL with text. */
static int next_piece(const char **format, struct piece *ret, struct err *err)
{
	const char *p = *format, *end;
	char word[WORD];

	*ret = (struct piece) { .text = p, .figure = -1, .special = -1 };
	if (!*p)
		return 0;
	if ((p[0] == '{' && p[1] == '{') || (p[0] == '}' && p[1] == '}')) {
		ret->len = 1;
		*format = p + 2;
		return 1;
	}
	if (p[0] == '\\' && (p[1] == 'n' || p[1] == 't')) {
		*ret = (struct piece) { p[1] == 'n' ? "\n" : "\t", 1, -1, -1 };
		*format = p + 2;
		return 1;
	}
	if (*p != '{') {
		ret->len = 1 + strcspn(p + 1, "{}\\");
		*format = p + ret->len;
		return 1;
	}
	end = strchr(p, '}');
	if (!end || (size_t) (end - p) >= sizeof(word))
		return err_set(err, -EINVAL,
			"a { without } in the format of --line: '%.40s' (write {{ for a literal {)", p);
	(void) snprintf(word, sizeof(word), "%.*s", (int) (end - p - 1), p + 1);
	ret->figure = figure_of(word);
	ret->special = special_of(word);
	*format = end + 1;
	return ret->figure < 0 && ret->special < 0 ? unknown_field(word, err) : 1;
}

static bool needs_pairs(enum metric metric)
{
	return metric >= M_GPU_GRAPHICS_ACTIVE && metric <= M_GPU_DRAM_ACTIVE;
}

static void add_needs(const struct piece *piece, struct gpus_needs *needs)
{
	const struct gpus_figure *f = piece->figure >= 0 ? &gpus_figures[piece->figure] : NULL;

	needs->lists |= piece->special == SPECIAL_USERS;
	if (!f)
		return;
	needs->lists |= f->metric == M_GPU_PROCESSES;
	needs->pairs |= needs_pairs(f->metric) || strncmp(f->word, "util", 4) == 0;
	needs->busy = true;
}

int gpus_line_plan(const char *format, struct gpus_needs *ret, struct err *err)
{
	struct piece piece;
	int r;

	if (!*format)
		return err_set(err, -EINVAL,
			"the format of --line is empty; for example: '{gpu}: {busy}%% {mem} of {mem_total}'");
	ret->lists = ret->pairs = ret->busy = false;
	while ((r = next_piece(&format, &piece, err)) > 0)
		add_needs(&piece, ret);
	return r;
}

/* ---- writing -------------------------------------------------------------------------------------------------------- */

static void put_users(
	const struct gpus_now *now, const struct gpu_now *gpu, const struct sink_options *o, struct buf *out)
{
	const struct gpu_user_now *u = NULL, *other;
	bool any = false;

	while ((u = gpus_next_user(now, gpu, u, false))) {
		for (other = NULL; (other = gpus_next_user(now, gpu, other, false)) != u;) {
			if (strcmp(other->user, u->user) == 0)
				break;
		}
		if (other != u)
			continue;
		(void) buf_str(out, any ? "," : "");
		gpus_put_text(u->user, o, out);
		any = true;
	}
	if (!any)
		(void) buf_str(out, "-");
}

static int64_t rounded(int64_t value, int64_t by)
{
	return (value + by / 2) / by;
}

static void put_figure(const struct gpus_figure *f, struct maybe value, enum units units, struct buf *out)
{
	static const int64_t whole[] = { [UNIT_NS] = 1000000000,
		[UNIT_PPM] = 10000,
		[UNIT_UJ] = 1000000,
		[UNIT_UW] = 1000000,
		[UNIT_MCEL] = 1000,
		[UNIT_HZ] = 1000000,
		[UNIT_COUNT] = 1 };
	char text[UNITS_LEN];

	if (!value.known)
		(void) buf_str(out, "-");
	else if (f->unit == UNIT_BYTES)
		(void) buf_str(out, units_bytes(value.value, units, text));
	else
		(void) buf_printf(out, "%lld", (long long) rounded(value.value, whole[f->unit]));
}

static void put_piece(const struct piece *piece, const struct gpus_now *now, const struct gpu_now *gpu,
	const struct sink_options *o, struct buf *out)
{
	const struct gpus_figure *f = piece->figure >= 0 ? &gpus_figures[piece->figure] : NULL;
	char number[UNITS_LEN];

	if (piece->special == SPECIAL_GPU)
		(void) buf_str(out, gpus_number(gpu, number));
	else if (piece->special == SPECIAL_USERS)
		put_users(now, gpu, o, out);
	else if (f && f->text)
		gpus_put_text(*f->text(gpu) ? f->text(gpu) : "-", o, out);
	else if (f)
		put_figure(f, gpus_figure_get(f, now, gpu), o->units, out);
	else
		(void) buf_add(out, piece->text, piece->len);
}

void gpus_line(const struct gpus_options *g, const struct gpus_now *now, const struct sink_options *o,
	struct buf *out)
{
	bool any = false;

	for (size_t i = 0; i < now->n_gpus; i++) {
		const char *format = g->what;
		struct piece piece;

		if (!now->gpus[i].is_chosen)
			continue;
		if (any && out->len && out->data[out->len - 1] != '\n')
			(void) buf_str(out, "  ");
		while (next_piece(&format, &piece, NULL) > 0)
			put_piece(&piece, now, &now->gpus[i], o, out);
		any = true;
	}
	if (out->len == 0 || out->data[out->len - 1] != '\n')
		(void) buf_str(out, "\n");
}

void gpus_line_help(struct buf *out)
{
	(void) buf_str(out,
		"Fields of --line. Shares are percentages without the sign; - stands for an unavailable value.\n\n");
	for (int i = 0; i < SPECIALS; i++)
		(void) buf_printf(out, "  {%s}%*s%s\n", specials[i].word,
			(int) (14 - strlen(specials[i].word)), "", specials[i].sentence);
	for (size_t i = 0; i < gpus_n_figures; i++)
		(void) buf_printf(out, "  {%s}%*s%s\n", gpus_figures[i].word,
			(int) (14 - strlen(gpus_figures[i].word)), "", gpus_figures[i].sentence);
}

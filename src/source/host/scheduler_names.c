/* SPDX-License-Identifier: MIT
 *
 * Names of files that differ from rank to rank.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "source/host/scheduler.h"

static void put_text(struct buf *out, const char *text)
{
	for (; *text; text++)
		(void) buf_add(out, *text == '/' ? "_" : text, 1); /* it names one file */
}

static void put_node(struct buf *out, const struct scheduler *s)
{
	char host[256] = "";

	if (!*s->node && gethostname(host, sizeof(host) - 1) < 0)
		host[0] = '\0';
	put_text(out, *s->node ? s->node : *host ? host
						 : "localhost");
}

static void put_number(struct buf *out, struct maybe number)
{
	(void) buf_printf(out, "%lld", number.known ? (long long) number.value : 0LL);
}

static void put_id(struct buf *out, const char *id)
{
	put_text(out, *id ? id : "0");
}

/* Whether letter stands for something. */
static bool put_letter(struct buf *out, char letter, const struct scheduler *s)
{
	switch (letter) {
	case 'r':
		put_number(out, s->rank);
		break;
	case 't':
		put_number(out, s->local_rank);
		break;
	case 'N':
		put_node(out, s);
		break;
	case 'j':
		put_id(out, s->id);
		break;
	case 's':
		put_id(out, s->step_id);
		break;
	case 'a':
		put_number(out, s->array_task);
		break;
	case 'R':
		put_number(out, s->restart);
		break;
	case '%':
		(void) buf_str(out, "%");
		break;
	default:
		return false;
	}
	return true;
}

static int take(struct buf *text, char **ret)
{
	*ret = text->error ? NULL : strdup(text->data);
	buf_done(text);
	return *ret ? 0 : -ENOMEM;
}

int scheduler_expand(const char *pattern, const struct scheduler *s, char **ret, struct err *err)
{
	struct buf text = BUF_INIT(8192);

	for (const char *p = pattern; *p; p++) {
		if (*p == '%' && (err || p[1] == 'r') && put_letter(&text, p[1], s)) {
			p++;
		} else if (*p == '%' && err) {
			buf_done(&text);
			return err_set(err, -EINVAL,
				"%.200s: '%.2s' means nothing; give %%r rank, %%t local rank, %%N node, %%j job, %%s step, "
				"%%a array task, %%R restart, or %%%% for a %%",
				pattern, p);
		} else {
			(void) buf_add(&text, p, 1);
		}
	}
	return take(&text, ret);
}

static void put_folder(struct buf *out, const char *folder, const struct scheduler *s)
{
	(void) buf_str(out, folder);
	if (!*s->job)
		return;
	put_text(out, s->job);
	(void) buf_str(out, "/");
}

static void put_restart(struct buf *out, const struct scheduler *s)
{
	if (!s->restart.known || s->restart.value <= 0)
		return;
	(void) buf_str(out, "-");
	put_number(out, s->restart);
}

int scheduler_file(const char *folder, const struct scheduler *s, char **ret)
{
	struct buf text = BUF_INIT(8192);

	put_folder(&text, folder, s);
	put_node(&text, s);
	if (!s->all_tasks) {
		(void) buf_str(&text, "-r");
		put_number(&text, s->rank);
	}
	put_restart(&text, s);
	(void) buf_str(&text, ".hiw");
	return take(&text, ret);
}

int scheduler_node_file(const char *folder, const struct scheduler *s, const char *ending, char **ret)
{
	struct buf text = BUF_INIT(8192);

	put_folder(&text, folder, s);
	put_node(&text, s);
	put_restart(&text, s);
	(void) buf_str(&text, ending);
	return take(&text, ret);
}

int scheduler_node(const struct scheduler *s, char **ret)
{
	struct buf text = BUF_INIT(8192);

	put_node(&text, s);
	return take(&text, ret);
}

/* torchrun's id is "none" unless the user gives one. */
static bool has_id(const struct scheduler *s)
{
	return *s->job && strcmp(s->job, "none") != 0;
}

int scheduler_key(const struct scheduler *s, char **ret)
{
	const bool is_whole = has_id(s) && (strcmp(s->name, "slurm") != 0 || s->step);
	struct buf text = BUF_INIT(8192);

	put_text(&text, s->name);
	if (*s->job) {
		(void) buf_str(&text, "-");
		put_text(&text, s->job);
	}
	if (!is_whole && *s->launch) {
		(void) buf_str(&text, "-");
		put_text(&text, s->launch);
	} else if (!is_whole) { /* the launcher, or its daemon on this node */
		(void) buf_str(&text, "-");
		put_node(&text, s);
		(void) buf_printf(&text, "-%lld", (long long) getppid());
	}
	return take(&text, ret);
}

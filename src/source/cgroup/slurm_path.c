/* SPDX-License-Identifier: MIT
 *
 * Cgroup paths of Slurm, as slurm.h lists them.
 */
#include <string.h>

#include "base/parse.h"
#include "source/cgroup/slurm.h"

#define SCOPE "slurmstepd.scope"

/* One component of a path; the next one follows it. */
struct component {
	const char *path, *at, *end; /* path, end: of the whole path */
	size_t len;
};

static void measure(struct component *c)
{
	const char *slash = memchr(c->at, '/', (size_t) (c->end - c->at));

	c->len = (size_t) ((slash ? slash : c->end) - c->at);
}

/* The first component that is not empty, from c->at on. False: there is none. */
static bool first(struct component *c)
{
	while (c->at < c->end && *c->at == '/')
		c->at++;
	measure(c);
	return c->len > 0;
}

static bool next(struct component *c)
{
	c->at += c->len;
	return first(c);
}

static size_t len_with(const struct component *c)
{
	return (size_t) (c->at + c->len - c->path);
}

static bool is_called(const struct component *c, const char *name)
{
	return c->len == strlen(name) && memcmp(c->at, name, c->len) == 0;
}

/* The rest of a component that begins with prefix, copied; false: another component, or too long. */
static bool rest_of(const struct component *c, const char *prefix, char *ret, size_t size)
{
	const size_t n = strlen(prefix);

	if (c->len <= n || c->len - n >= size || memcmp(c->at, prefix, n) != 0)
		return false;
	memcpy(ret, c->at + n, c->len - n);
	ret[c->len - n] = '\0';
	return true;
}

static bool number_of(const struct component *c, const char *prefix, struct maybe *ret)
{
	char text[24];
	const char *p = text;
	uint64_t value;

	if (!rest_of(c, prefix, text, sizeof(text)) || parse_u64(&p, &value) < 0 || *p || value > INT64_MAX)
		return false;
	*ret = known((int64_t) value);
	return true;
}

/* "s" and thirteen digits and capital letters. */
static bool is_sluid(const struct component *c)
{
	enum {
		SLUID_LEN = 14
	};

	if (c->len != SLUID_LEN || *c->at != 's')
		return false;
	for (size_t i = 1; i < SLUID_LEN; i++) {
		if (!strchr("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", c->at[i]))
			return false;
	}
	return true;
}

/* The job's own folder. */
static bool parse_job(const struct component *c, struct slurm_place *ret)
{
	struct maybe number;

	ret->job_len = len_with(c);
	if (number_of(c, "job_", &number))
		return rest_of(c, "job_", ret->job, sizeof(ret->job));
	return is_sluid(c) && rest_of(c, "", ret->sluid, sizeof(ret->sluid));
}

/* What is below the job's folder. */
static void parse_step(struct component c, struct slurm_place *ret)
{
	if (!next(&c) || !rest_of(&c, "step_", ret->step, sizeof(ret->step)))
		return;
	ret->step_len = len_with(&c);
	if (!next(&c))
		return;
	ret->is_daemons = is_called(&c, "slurm");
	if (is_called(&c, "user") && !next(&c))
		return;
	(void) number_of(&c, "task_", &ret->task);
}

static bool parse_v1(struct component c, struct slurm_place *ret)
{
	if (!is_called(&c, "slurm") && !rest_of(&c, "slurm_", ret->node, sizeof(ret->node)))
		return false;
	if (!next(&c) || !number_of(&c, "uid_", &ret->uid) || !next(&c) || !parse_job(&c, ret))
		return false;
	parse_step(c, ret);
	return true;
}

static bool parse_v2(struct component c, struct slurm_place *ret)
{
	static const char suffix[] = "_" SCOPE;
	const size_t n = sizeof(suffix) - 1;

	if (!is_called(&c, SCOPE)) {
		if (c.len <= n || memcmp(c.at + c.len - n, suffix, n) != 0 || c.len - n >= sizeof(ret->node))
			return false;
		memcpy(ret->node, c.at, c.len - n);
	}
	if (!next(&c) || !parse_job(&c, ret))
		return false;
	parse_step(c, ret);
	return true;
}

bool slurm_place_parse(const char *path, size_t len, struct slurm_place *ret)
{
	struct component c = { .path = path, .at = path, .end = path + len };

	for (bool more = first(&c); more; more = next(&c)) {
		*ret = (struct slurm_place) { .node = "" };
		if (parse_v1(c, ret))
			return true;
		*ret = (struct slurm_place) { .node = "" };
		if (parse_v2(c, ret))
			return true;
	}
	return false;
}

/* SPDX-License-Identifier: MIT
 *
 * Captured machines (tests/trees/) and machines that a test makes up, for tests of sources.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/root.h"
#include "model/framebuf.h"
#include "source/source.h"

static inline struct root tree_open(const char *name)
{
	struct root root;
	char path[512];

	snprintf(path, sizeof(path), "%s/trees/%s", TESTS_DIR, name);
	assert_int_equal(root_open(path, &root, NULL), 0);
	assert_false(root.live);
	return root;
}

/* A made-up machine: a folder that temp_tree_done removes. */
struct temp_tree {
	char path[64];
};

static inline void temp_tree_new(struct temp_tree *t)
{
	snprintf(t->path, sizeof(t->path), "/tmp/hiwater-tree-XXXXXX");
	assert_non_null(mkdtemp(t->path));
}

/* Writes a file, in place if it exists: open descriptors see the new text. */
static inline void temp_tree_put(const struct temp_tree *t, const char *file, const char *text)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", t->path, file);
	for (char *slash = path + strlen(t->path) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
		*slash = '/';
	}
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static inline struct root temp_tree_root(const struct temp_tree *t)
{
	struct root root;

	assert_int_equal(root_open(t->path, &root, NULL), 0);
	return root;
}

static inline int temp_tree_unlink(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void) st;
	(void) type;
	(void) ftw;
	return remove(path);
}

static inline void temp_tree_done(const struct temp_tree *t)
{
	assert_int_equal(nftw(t->path, temp_tree_unlink, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* The last value of that metric and id; NULL: none. */
static inline const struct reading *find_reading(const struct framebuf *b, enum metric metric, uint32_t id)
{
	const struct reading *found = NULL;

	for (size_t i = 0; i < b->n_readings; i++) {
		if (b->readings[i].metric == metric && b->readings[i].id == id)
			found = &b->readings[i];
	}
	return found;
}

static inline void check_value(const struct framebuf *b, enum metric metric, uint32_t id, int64_t value)
{
	const struct reading *r = find_reading(b, metric, id);

	if (!r || !r->known || r->value != value)
		fail_msg("%s of %u: %s, %lld expected", metrics[metric].name, (unsigned) id,
			!r ? "no reading" : !r->known ? "unknown"
						      : "another value",
			(long long) value);
	assert_int_equal(r->min, value);
	assert_int_equal(r->max, value);
}

static inline void check_unknown(const struct framebuf *b, enum metric metric)
{
	const struct reading *r = find_reading(b, metric, 0);

	if (!r || r->known)
		fail_msg("%s: %s, unknown expected", metrics[metric].name, r ? "a value" : "no reading");
}

/* The results of a source's probe, by metric. */
struct probes {
	bool told[METRIC_COUNT];
	struct source_probe of[METRIC_COUNT];
	size_t n;
};

static inline void probes_take(void *ctx, const struct source_probe *probe)
{
	struct probes *p = ctx;

	assert_false(p->told[probe->metric]); /* each metric once */
	assert_true(probe->how && *probe->how);
	assert_true(probe->why_not && probe->remedy);
	assert_true(probe->available == (*probe->why_not == '\0'));
	p->told[probe->metric] = true;
	p->of[probe->metric] = *probe;
	p->n++;
}

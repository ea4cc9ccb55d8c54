/* SPDX-License-Identifier: MIT */
#include "sink/export/export_js1.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "sink/export/export_internal.h"

enum {
	JSON_MOST = 1 << 28,
	GPUS_MOST = 256 /* of a node */
};

/* ---- groups of nodes ------------------------------------------------------------------------- */

/* Sums over nodes; a node that does not know its own makes the sum unknown. */
struct group {
	struct export_node sum;
	struct export_gpu gpus[GPUS_MOST];
	size_t util_n[GPUS_MOST]; /* nodes in each mean */
	size_t n;
};

static void add_gpu(struct group *g, const struct export_gpu *gpu)
{
	struct export_gpu *to = g->gpus;
	size_t i = 0;

	while (i < g->sum.n_gpus && strcmp(to[i].index, gpu->index) != 0)
		i++;
	if (i == GPUS_MOST)
		return;
	if (i == g->sum.n_gpus) {
		to[i] = *gpu;
		g->util_n[i] = 1;
		g->sum.n_gpus++;
		return;
	}
	to[i].used_bytes = maybe_sum(to[i].used_bytes, gpu->used_bytes);
	to[i].total_bytes = maybe_sum(to[i].total_bytes, gpu->total_bytes);
	if (to[i].util_ppm.known && gpu->util_ppm.known) {
		g->util_n[i]++;
		to[i].util_ppm.value += (gpu->util_ppm.value - to[i].util_ppm.value) / (int64_t) g->util_n[i];
	} else {
		to[i].util_ppm = UNKNOWN;
	}
}

static void add_node(struct group *g, const struct export_node *node)
{
	struct export_node *sum = &g->sum;

	if (g->n++ == 0) {
		*sum = *node;
		sum->gpus = g->gpus;
		sum->n_gpus = 0;
	} else {
		sum->cpus = maybe_sum(sum->cpus, node->cpus);
		sum->cpu_ns = maybe_sum(sum->cpu_ns, node->cpu_ns);
		sum->used_bytes = maybe_sum(sum->used_bytes, node->used_bytes);
		sum->total_bytes = maybe_sum(sum->total_bytes, node->total_bytes);
	}
	for (size_t i = 0; i < node->n_gpus; i++)
		add_gpu(g, &node->gpus[i]);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void key_known(struct json *j, const char *key, struct maybe value, unsigned digits)
{
	if (!value.known)
		return; /* readers count what is missing as unknown, but not null */
	json_key(j, key);
	json_decimal(j, value.value, digits);
}

static void put_gpus(
	struct json *j, const char *key, const struct export_node *node, size_t field, unsigned digits)
{
	json_key(j, key);
	json_object(j);
	for (size_t i = 0; i < node->n_gpus; i++) {
		struct maybe value;

		memcpy(&value, (const char *) &node->gpus[i] + field, sizeof(value));
		key_known(j, node->gpus[i].index, value, digits);
	}
	json_end(j);
}

static void put_node(struct json *j, const char *name, const struct export_node *node)
{
	enum {
		PERCENT_DIGITS = 4 /* of millionths */
	};
	const bool has_memory = node->used_bytes.known && node->total_bytes.known;

	json_key(j, name);
	json_object(j);
	key_known(j, "cpus", node->cpus, 0);
	key_known(j, "total_time", node->cpu_ns, 9);
	key_known(j, "used_memory", has_memory ? node->used_bytes : UNKNOWN, 0);
	key_known(j, "total_memory", has_memory ? node->total_bytes : UNKNOWN, 0);
	if (node->n_gpus > 0) {
		put_gpus(j, "gpu_utilization", node, offsetof(struct export_gpu, util_ppm), PERCENT_DIGITS);
		put_gpus(j, "gpu_used_memory", node, offsetof(struct export_gpu, used_bytes), 0);
		put_gpus(j, "gpu_total_memory", node, offsetof(struct export_gpu, total_bytes), 0);
	}
	json_end(j);
}

/* "n1", or "n1..n4" of several. */
static int put_group(struct json *j, const struct export_node *nodes, size_t n)
{
	struct group *g = calloc(1, sizeof(*g));
	char name[sizeof(nodes->name) * 2 + 4];

	if (!g)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		add_node(g, &nodes[i]);
	(void) snprintf(name, sizeof(name), n > 1 ? "%s..%s" : "%s", nodes[0].name, nodes[n - 1].name);
	put_node(j, name, &g->sum);
	free(g);
	return 0;
}

static int put_json(const struct export_job *job, size_t per_group, struct buf *out)
{
	struct json j;
	int64_t gpus = 0;
	int r = 0;

	for (size_t i = 0; i < job->n; i++)
		gpus += (int64_t) job->nodes[i].n_gpus;
	json_init(&j, out, true);
	json_object(&j);
	json_key(&j, "gpus");
	json_int(&j, gpus);
	key_known(&j, "total_time", job->wall_ns, 9);
	if (per_group > 1) {
		json_key(&j, "grouped");
		json_object(&j);
		json_key(&j, "nodes");
		json_int(&j, (int64_t) job->n);
		json_key(&j, "per_group");
		json_int(&j, (int64_t) per_group);
		json_end(&j);
	}
	json_key(&j, "nodes");
	json_object(&j);
	for (size_t i = 0; r == 0 && i < job->n; i += per_group)
		r = put_group(&j, &job->nodes[i], per_group < job->n - i ? per_group : job->n - i);
	json_end(&j);
	json_end(&j);
	return r < 0 ? r : out->error;
}

/* ---- gzip and base64 ------------------------------------------------------------------------- */

/* The caller frees *ret. The header of the gzip has no time, so that equal jobs give equal texts. */
static int gzip(const void *data, size_t len, unsigned char **ret, size_t *ret_len)
{
	enum {
		WINDOW_GZIP = 15 + 16,
		MEMORY = 8
	};
	z_stream z = { 0 };

	if (deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, WINDOW_GZIP, MEMORY, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	const size_t size = deflateBound(&z, len);

	*ret = malloc(size);
	if (*ret) {
		z.next_in = (Bytef *) (uintptr_t) data;
		z.avail_in = (uInt) len;
		z.next_out = *ret;
		z.avail_out = (uInt) size;
	}
	const bool done = *ret && deflate(&z, Z_FINISH) == Z_STREAM_END;

	*ret_len = z.total_out;
	(void) deflateEnd(&z);
	return done ? 0 : -ENOMEM;
}

static void base64(const unsigned char *data, size_t len, struct buf *out)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < len; i += 3) {
		const size_t n = len - i < 3 ? len - i : 3;
		const unsigned bits = (unsigned) data[i] << 16 | (n > 1 ? (unsigned) data[i + 1] << 8 : 0) |
				      (n > 2 ? (unsigned) data[i + 2] : 0);
		const char four[4] = {
			digits[bits >> 18],
			digits[bits >> 12 & 63],
			n > 1 ? digits[bits >> 6 & 63] : '=',
			n > 2 ? digits[bits & 63] : '=',
		};

		(void) buf_add(out, four, sizeof(four));
	}
}

static int write_grouped(const struct export_job *job, size_t per_group, struct buf *out)
{
	struct buf json = BUF_INIT(JSON_MOST);
	autofree unsigned char *packed = NULL;
	size_t len = 0;
	int r = put_json(job, per_group, &json);

	if (r == 0)
		r = gzip(json.data, json.len, &packed, &len);
	if (r == 0) {
		(void) buf_str(out, "JS1:");
		base64(packed, len, out);
		r = out->error;
	}
	buf_done(&json);
	return r;
}

int js1_write(const struct export_job *job, size_t most, struct buf *out)
{
	const size_t before = out->len;

	for (size_t per_group = 1;; per_group *= 2) {
		const int r = write_grouped(job, per_group, out);

		if (r < 0 || out->len - before <= most)
			return r;
		if (per_group >= job->n)
			return -E2BIG;
		out->len = before;
	}
}

/* ---- the format ------------------------------------------------------------------------------ */

static int begin(struct export *e, struct err *err)
{
	return e->o.summary ? 0 : err_set(err, -EINVAL, "js1 needs a whole run");
}

static void see(struct export *e, const struct frame *frame)
{
	(void) e;
	(void) frame;
}

static void end(struct export *e)
{
	struct export_job job;
	int r = export_job_read(e->o.summary, &job);

	for (size_t i = 0; r == 0 && e->o.redact && i < job.n; i++)
		(void) snprintf(job.nodes[i].name, sizeof(job.nodes[i].name), "node%zu", i);
	if (r == 0)
		r = js1_write(&job, JS1_BYTES, &e->out);
	(void) buf_str(&e->out, "\n");
	export_job_done(&job);
	if (e->error == 0)
		e->error = r;
}

const struct export_format export_js1 = {
	.name = "js1",
	.default_table = EXPORT_ALL,
	.wanted = export_no_metrics,
	.begin = begin,
	.see = see,
	.end = end,
};

/* SPDX-License-Identifier: MIT
 *
 * js1 of jobs of many nodes: what it decodes to, and that it always fits into Slurm's column.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "sink/export/export_js1.h"

enum {
	GPUS = 8,
	JSON_SIZE = 1 << 20
};

static struct export_job job_of(size_t n)
{
	struct export_job job = {
		.wall_ns = known(INT64_C(7200000000000)),
		.nodes = calloc(n, sizeof(*job.nodes)),
		.n = n,
	};
	uint64_t random = 1;

	assert_non_null(job.nodes);
	for (size_t i = 0; i < n; i++) {
		struct export_node *node = &job.nodes[i];

		(void) snprintf(node->name, sizeof(node->name), "node%zu", i);
		node->cpus = known(64);
		node->gpus = calloc(GPUS, sizeof(*node->gpus));
		node->n_gpus = GPUS;
		random = random * 6364136223846793005U + 1;
		node->cpu_ns = known((int64_t) (random >> 20));
		node->used_bytes = known((int64_t) (random >> 30));
		node->total_bytes = known(INT64_C(1) << 39);
		for (size_t g = 0; g < GPUS; g++) {
			random = random * 6364136223846793005U + 1;
			(void) snprintf(node->gpus[g].index, sizeof(node->gpus[g].index), "%zu", g);
			node->gpus[g].util_ppm = known((int64_t) (random >> 32) % 1000000);
			node->gpus[g].used_bytes = known((int64_t) (random >> 28));
			node->gpus[g].total_bytes = known(INT64_C(85899345920));
		}
	}
	return job;
}

static int digit(char c)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = strchr(digits, c);

	return at ? (int) (at - digits) : 0;
}

/* The JSON in the text; the caller frees it. */
static char *decoded(const char *text)
{
	const size_t len = strlen(text);
	unsigned char *packed = calloc(1, len);
	char *json = calloc(1, JSON_SIZE);
	size_t n = 0;
	z_stream z = { 0 };

	assert_non_null(packed);
	assert_non_null(json);
	assert_memory_equal(text, "JS1:", 4);
	assert_int_equal((len - 4) % 4, 0);
	for (size_t i = 4; i < len; i += 4) {
		const unsigned bits = (unsigned) (digit(text[i]) << 18 | digit(text[i + 1]) << 12 |
						  digit(text[i + 2]) << 6 | digit(text[i + 3]));

		packed[n++] = (unsigned char) (bits >> 16);
		packed[n++] = (unsigned char) (bits >> 8);
		packed[n++] = (unsigned char) bits;
	}
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	z.next_in = packed;
	z.avail_in = (uInt) n;
	z.next_out = (Bytef *) json;
	z.avail_out = JSON_SIZE - 1;
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	(void) inflateEnd(&z);
	free(packed);
	return json;
}

static void one_node(void **state)
{
	struct export_job job = job_of(1);
	struct buf out = BUF_INIT(1 << 20);

	(void) state;
	job.nodes[0].n_gpus = 1;
	job.nodes[0].cpu_ns = known(INT64_C(1500000000));
	job.nodes[0].used_bytes = known(1000);
	job.nodes[0].gpus[0] = (struct export_gpu) { "3", known(455000), known(10), UNKNOWN };
	assert_int_equal(js1_write(&job, JS1_BYTES, &out), 0);
	char *json = decoded(out.data);

	assert_string_equal(json,
		"{\"gpus\":1,\"total_time\":7200,\"nodes\":{\"node0\":{\"cpus\":64,\"total_time\":1.5,\"used_memory\":1000,"
		"\"total_memory\":549755813888,\"gpu_utilization\":{\"3\":45.5},\"gpu_used_memory\":{\"3\":10},"
		"\"gpu_total_memory\":{}}}}");
	free(json);
	buf_done(&out);
	export_job_done(&job);
}

static void many_nodes_are_grouped(void **state)
{
	static const struct {
		size_t nodes;
		const char *grouped; /* NULL: each for itself */
	} cases[] = {
		{ 128, NULL },
		{ 512, "\"grouped\":{\"nodes\":512,\"per_group\":2}" },
		{ 2000, "\"grouped\":{\"nodes\":2000,\"per_group\":8}" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct export_job job = job_of(cases[i].nodes);
		struct buf out = BUF_INIT(1 << 24);

		assert_int_equal(js1_write(&job, JS1_BYTES, &out), 0);
		assert_true(out.len <= JS1_BYTES);
		char *json = decoded(out.data);
		char first[128];

		assert_int_equal(strstr(json, "grouped") != NULL, cases[i].grouped != NULL);
		assert_true(!cases[i].grouped || strstr(json, cases[i].grouped));
		(void) snprintf(first, sizeof(first), "\"gpus\":%zu,", cases[i].nodes * GPUS);
		assert_non_null(strstr(json, first));
		free(json);
		buf_done(&out);
		export_job_done(&job);
	}
}

/* Sums, and the mean of utilisation; what one node does not know, the group does not. */
static void a_group_is_a_sum(void **state)
{
	struct export_job job = job_of(16); /* the others make it long enough to be worth grouping */
	struct buf out = BUF_INIT(1 << 20);

	(void) state;
	for (size_t i = 0; i < 2; i++) {
		struct export_node *node = &job.nodes[i];

		node->n_gpus = 1;
		node->cpu_ns = known(INT64_C(1000000000));
		node->used_bytes = known(100 + (int64_t) i);
		node->total_bytes = known(1000);
		node->gpus[0] = (struct export_gpu) { "0", known(i ? 200000 : 600000), i ? UNKNOWN : known(7), known(8) };
	}
	assert_int_equal(js1_write(&job, JS1_BYTES, &out), 0);
	const size_t len = out.len;

	buf_clear(&out);
	assert_int_equal(js1_write(&job, len - 1, &out), 0);
	char *json = decoded(out.data);

	assert_non_null(strstr(json, "\"grouped\":{\"nodes\":16,\"per_group\":2}"));
	assert_non_null(strstr(json,
		"\"node0..node1\":{\"cpus\":128,\"total_time\":2,\"used_memory\":201,\"total_memory\":2000,"
		"\"gpu_utilization\":{\"0\":40},\"gpu_used_memory\":{},\"gpu_total_memory\":{\"0\":16}}"));
	free(json);
	buf_clear(&out);
	assert_int_equal(js1_write(&job, 8, &out), -E2BIG);
	buf_done(&out);
	export_job_done(&job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_node),
		cmocka_unit_test(many_nodes_are_grouped),
		cmocka_unit_test(a_group_is_a_sum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

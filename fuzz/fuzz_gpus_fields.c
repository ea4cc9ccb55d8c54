/* SPDX-License-Identifier: MIT
 *
 * sink/gpus: formats of --line and fields of queries. Valid ones are written for a machine with a
 * GPU, invalid ones are explained. The first byte selects one of the two.
 */
#include <stdlib.h>
#include <string.h>

#include "sink/gpus/gpus_sink.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
	if (!holds)
		abort();
}

static void make(struct gpus_now *now)
{
	const struct birth births[] = {
		{ .entity = ENTITY_GPU,
			.id = 1,
			.gpu = { .uuid = "GPU-1",
				.name = "A, \"B\"",
				.vendor = "nvidia",
				.pci = "0000:01:00.0",
				.parent = "",
				.driver = "450.1" } },
		{ .entity = ENTITY_GPU,
			.id = 2,
			.gpu = { .uuid = "MIG-2",
				.name = "C",
				.vendor = "nvidia",
				.pci = "x",
				.parent = "GPU-1",
				.driver = "" } },
		{ .entity = ENTITY_GPU_PROCESS,
			.id = 1,
			.gpu_process = { .gpu = 1, .pid = { 7, true }, .name = "job", .compute = true } },
	};
	const struct reading readings[] = { reading_of(M_GPU_MEM, 1, 1 << 20),
		reading_of(M_GPU_BUSY, 1, 999999), reading_of(M_GPU_TEMP, 1, -500),
		reading_of(M_GPROC_MEM, 1, 5) };

	gpus_now_apply(now,
		&(struct frame) { .births = births, .n_births = 3, .readings = readings, .n_readings = 4 });
	gpus_now_sort(now);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum gpus_kind kinds[] = { GPUS_LINE, GPUS_QUERY, GPUS_QUERY_APPS };
	struct gpus_now now = { 0 };
	struct gpus_needs needs;
	struct buf out = BUF_INIT(1 << 24);
	struct err err = { "" };

	if (size == 0)
		return 0;
	char *what = strndup((const char *) data + 1, size - 1);
	const struct gpus_options options = {
		.kind = kinds[data[0] % 3], .header = true, .units = true, .what = what
	};

	check(what != NULL);
	if (gpus_plan(&options, &needs, &err) == 0) {
		make(&now);
		check(gpus_sink(&options, &now, &(struct sink_options) { .width = 80 }, &out) == 0);
		check(out.len > 0 && out.data[out.len - 1] == '\n');
	} else {
		check(err.text[0] != '\0');
	}
	gpus_now_done(&now);
	buf_done(&out);
	free(what);
	return 0;
}

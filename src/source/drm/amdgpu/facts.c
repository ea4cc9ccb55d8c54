/* SPDX-License-Identifier: MIT
 *
 * Facts of AMD GPUs: from the nodes of ROCm's driver (KFD's topology) and the board's BIOS.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "source/drm/amdgpu/internal.h"
#include "source/process/numbers.h"

static const char topology[] = "class/kfd/kfd/topology/nodes";

struct facts {
	const struct drm_gpus *gpus;
	const struct gpu_fact_set *wanted;
	source_fact_fn *report;
	void *ctx;
	int dir; /* folder of the nodes */
};

static void tell_number(const struct facts *f, uint32_t id, enum gpu_fact fact, uint64_t value)
{
	if (f->wanted->has[fact] && value > 0 && value <= INT64_MAX)
		f->report(f->ctx,
			&(struct gpu_fact_value) {
				.id = id, .fact = (uint16_t) fact, .value = (int64_t) value });
}

static void tell_text(const struct facts *f, uint32_t id, enum gpu_fact fact, const char *text)
{
	struct gpu_fact_value value = { .id = id, .fact = (uint16_t) fact, .is_text = true };

	(void) snprintf(value.text, sizeof(value.text), "%.*s", (int) strcspn(text, "\n"), text);
	if (f->wanted->has[fact] && *value.text)
		f->report(f->ctx, &value);
}

/* "simd_count 1216"; 0 if absent. */
static uint64_t property(const char *text, const char *key)
{
	uint64_t value;

	return parse_flat(text, key, &value) == 0 ? value : 0;
}

/* 90402 is gfx942: the last two parts are hexadecimal digits. */
static void report_architecture(const struct facts *f, uint32_t id, uint64_t version)
{
	char text[32];

	(void) snprintf(text, sizeof(text), "gfx%u%x%x", (unsigned) (version / 10000),
		(unsigned) (version / 100 % 100), (unsigned) (version % 100));
	if (version > 0)
		tell_text(f, id, GF_ARCHITECTURE, text);
}

static int report_node(void *ctx, int32_t number)
{
	const struct facts *f = ctx;
	char path[64], text[4096], address[32];

	(void) snprintf(path, sizeof(path), "%u/properties", (unsigned) number);
	if (smallfile_read(f->dir, path, text, sizeof(text)) < 0 ||
		!kfd_address_parse(text, address, sizeof(address)))
		return 0;
	const int card = drm_cards_find(&f->gpus->cards, address, "");
	const uint64_t simds = property(text, "simd_count"), per_cu = property(text, "simd_per_cu");
	const uint32_t id = (uint32_t) card + 1;

	if (card < 0)
		return 0;
	report_architecture(f, id, property(text, "gfx_target_version"));
	if (per_cu > 0 && per_cu < 64) {
		tell_number(f, id, GF_SMS, simds / per_cu);
		tell_number(f, id, GF_WARPS_SM, property(text, "max_waves_per_simd") * per_cu);
	}
	tell_number(f, id, GF_WARP, property(text, "wave_front_size"));
	tell_number(f, id, GF_SHARED_SM, property(text, "lds_size_in_kb") << 10);
	tell_number(f, id, GF_MAX_CLOCK_SM, property(text, "max_engine_clk_fcompute") * 1000000);
	tell_number(f, id, GF_COPY_ENGINES, property(text, "num_sdma_engines"));
	return 0;
}

void amdgpu_facts(struct source *s, const struct gpu_fact_set *wanted, source_fact_fn *report, void *ctx)
{
	autoclose int dir = openat(s->gpus.env->root->sys, topology, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct facts f = { &s->gpus, wanted, report, ctx, dir };
	char text[128];

	drm_gpus_facts(&s->gpus, wanted, report, ctx);
	for (size_t i = 0; i < s->gpus.cards.n; i++) {
		if (s->gpus.list[i].born && s->gpus.list[i].open && !s->gpus.list[i].asleep &&
			smallfile_read(s->gpus.cards.list[i].dir, "vbios_version", text, sizeof(text)) > 0)
			tell_text(&f, (uint32_t) i + 1, GF_VBIOS, text);
	}
	if (dir >= 0 && wanted->has[GF_ARCHITECTURE])
		(void) numbers_list(dir, ".", report_node, &f);
}

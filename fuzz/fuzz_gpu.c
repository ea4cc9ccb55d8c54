/* SPDX-License-Identifier: MIT
 *
 * Parsers of files from GPU drivers: fdinfo, amdgpu's table, KFD's topology, Intel's memory query.
 * The first byte selects the parser, the rest is the file.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "source/drm/amdgpu/kfd.h"
#include "source/drm/amdgpu/metrics.h"
#include "source/drm/clients_internal.h"
#include "source/drm/fdinfo.h"
#include "source/drm/query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(what) ((what) ? (void) 0 : abort())

static void require_count(struct maybe value)
{
	REQUIRE(!value.known || value.value >= 0);
}

/* A client read twice with the same text did nothing in between. */
static void client_twice(const struct drm_fdinfo *f)
{
	struct drm_client client = { 0 };

	drm_client_update(&client, f, true, 1000);
	REQUIRE(client.n_rates == 0);
	require_count(client.device_bytes);
	require_count(client.host_bytes);
	drm_client_update(&client, f, false, 2000);
	for (unsigned i = 0; i < client.n_rates; i++)
		REQUIRE(client.rates[i].ppm == 0);
}

static void fuzz_fdinfo(const uint8_t *data, size_t size)
{
	struct drm_fdinfo f = { .n_engines = 77 };
	char *text = malloc(size + 1);

	if (!text)
		return;
	memcpy(text, data, size);
	text[size] = '\0';
	if (drm_fdinfo_parse(text, &f) < 0) {
		REQUIRE(f.n_engines == 77);
		free(text);
		return;
	}
	REQUIRE(f.n_engines <= DRM_ENGINES && f.n_regions <= DRM_REGIONS);
	require_count(f.client);
	for (unsigned i = 0; i < f.n_engines; i++) {
		REQUIRE(f.engines[i].capacity >= 1 && strlen(f.engines[i].name) < DRM_NAME &&
			f.engines[i].name[0]);
		require_count(f.engines[i].busy_ns);
	}
	for (unsigned i = 0; i < f.n_regions; i++)
		require_count(drm_region_bytes(&f.regions[i]));
	client_twice(&f);
	free(text);
}

static void fuzz_metrics(const uint8_t *data, size_t size)
{
	struct amdgpu_metrics m;
	int r = amdgpu_metrics_parse(data, size, &m);

	for (int i = 0; i < AMDGPU_FIELDS; i++) {
		REQUIRE(r == 0 || !m.field[i].known);
		if (i != AMDGPU_THROTTLE)
			require_count(m.field[i]);
	}
	REQUIRE(!m.field[AMDGPU_BUSY].known || m.field[AMDGPU_BUSY].value <= 1000000);
}

static void fuzz_kfd(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), address[16] = "";

	if (!text)
		return;
	memcpy(text, data, size);
	text[size] = '\0';
	if (kfd_address_parse(text, address, sizeof(address)))
		REQUIRE(strlen(address) >= strlen("0000:00:00.0"));
	free(text);
}

static void fuzz_memory(const uint8_t *data, size_t size)
{
	static const char *const drivers[] = { "i915", "xe" };

	for (size_t i = 0; i < 2; i++) {
		struct drm_memory m;

		drm_memory_parse(drivers[i], data, size, &m);
		require_count(m.total);
		REQUIRE(!m.used.known ||
			(m.total.known && m.used.value > 0 && m.used.value <= m.total.value));
	}
}

static void (*const parsers[])(const uint8_t *data, size_t size) = {
	fuzz_fdinfo,
	fuzz_metrics,
	fuzz_kfd,
	fuzz_memory,
};

/* Letters, to keep the corpus readable: 'a' is the first parser. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	parsers[(uint8_t) (data[0] - 'a') % (sizeof(parsers) / sizeof(parsers[0]))](data + 1, size - 1);
	return 0;
}

/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "source/drm/gpus.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	SCAN_NS_IN_S = 10 /* devices come and go rarely */
};

static void gpu_open(struct drm_gpus *g, size_t i)
{
	struct drm_gpu *gpu = &g->list[i];
	const struct drm_card *card = &g->cards.list[i];

	drm_files_open(&gpu->files, card, g->rows, g->n_rows);
	if (!gpu->born)
		g->describe(g->env, card, gpu);
	gpu->open = true;
}

static void gpu_close(struct drm_gpus *g, size_t i)
{
	if (g->list[i].open)
		drm_files_close(&g->list[i].files, g->n_rows);
	g->list[i].open = false;
}

static int scan(struct drm_gpus *g)
{
	int r = drm_cards_scan(&g->cards, g->env->root, g->is_ours);

	for (size_t i = 0; i < g->cards.n; i++) {
		if (!g->list[i].open && g->cards.list[i].dir >= 0)
			gpu_open(g, i);
	}
	return r;
}

int drm_gpus_open(struct drm_gpus *g)
{
	g->list = calloc(DRM_CARDS, sizeof(*g->list));
	g->clients = drm_clients_new(g->env->root, &g->cards);
	if (g->clients && g->env->is_still)
		drm_clients_set_still(g->clients);
	int r = g->list && g->clients ? scan(g) : -ENOMEM;

	if (r <= 0) {
		drm_gpus_close(g);
		return r < 0 ? r : -ENOENT;
	}
	return 0;
}

void drm_gpus_close(struct drm_gpus *g)
{
	for (size_t i = 0; g->list && i < g->cards.n; i++)
		gpu_close(g, i);
	free(g->list);
	g->list = NULL;
	drm_clients_free(g->clients);
	g->clients = NULL;
	drm_users_done(&g->users);
	drm_cards_done(&g->cards);
}

/* ---- births and losses -------------------------------------------------------------------------------------------- */

/* Uses the display name and the address: the kernel has no number for a device, and several cards
 * may be of one product. */
void drm_gpu_note(struct drm_gpus *g, size_t i, const char *about, enum note_cause cause, const char *message,
	uint64_t now_ns, struct framebuf *out)
{
	const char *pci = g->cards.list[i].pci;
	char text[256];
	struct event event = {
		.time_ns = now_ns > g->env->start_boot_ns ? now_ns - g->env->start_boot_ns : 0,
		.kind = EVENT_NOTE,
		.entity = ENTITY_GPU,
		.id = (uint32_t) i + 1,
		.text = text,
		.cause = cause,
	};

	snprintf(text, sizeof(text), "%s: %s%s%s%s %s", about, g->list[i].name, *pci ? " (" : "", pci,
		*pci ? ")" : "", message);
	framebuf_event(out, &event);
}

static void note(struct drm_gpus *g, size_t i, enum note_cause cause, const char *message, uint64_t now_ns,
	struct framebuf *out)
{
	drm_gpu_note(g, i, "gpu", cause, message, now_ns, out);
}

static void birth_report(const struct drm_gpus *g, size_t i, struct framebuf *out)
{
	const struct drm_gpu *gpu = &g->list[i];
	const struct drm_card *card = &g->cards.list[i];
	struct birth birth = {
		.entity = ENTITY_GPU,
		.id = (uint32_t) i + 1,
		.gpu = {
			.uuid = gpu->uuid,
			.name = gpu->name,
			.vendor = drm_card_vendor(card),
			.pci = card->pci,
			.parent = "",
			.driver = "", /* in the kernel */
			.memory_bytes = gpu->memory_bytes,
			.unified = gpu->unified,
		},
	};

	framebuf_birth(out, &birth);
}

void drm_gpus_refresh(struct drm_gpus *g, uint64_t now_ns, struct framebuf *out)
{
	g->now_ns = now_ns;
	if (g->scanned_ns && now_ns - g->scanned_ns > SCAN_NS_IN_S * UINT64_C(1000000000)) {
		(void) scan(g);
		g->scanned_ns = now_ns;
	} else if (!g->scanned_ns) {
		g->scanned_ns = now_ns;
	}
	for (size_t i = 0; i < g->cards.n; i++) {
		struct drm_gpu *gpu = &g->list[i];

		if (!gpu->born)
			birth_report(g, i, out);
		else if (gpu->lost && gpu->open)
			note(g, i, CAUSE_NONE, "is available again", now_ns, out);
		gpu->born = true;
		if (gpu->open)
			gpu->lost = false;
	}
}

/* ---- values ------------------------------------------------------------------------------------------------------- */

void drm_gpu_set_impossible(struct drm_gpus *g, size_t i, enum metric metric)
{
	g->list[i].files.impossible[metric] = true;
}

static void note_impossible(struct drm_gpus *g, size_t i, struct framebuf *out, enum metric metric)
{
	char message[96];

	if (g->list[i].files.impossible_noted[metric])
		return;
	g->list[i].files.impossible_noted[metric] = true;
	snprintf(message, sizeof(message), "reports an impossible value of gpu.%s, which is left out",
		metrics[metric].name);
	note(g, i, CAUSE_NONE, message, g->now_ns, out);
}

void drm_gpu_report(
	struct drm_gpus *g, size_t i, struct framebuf *out, enum metric metric, struct maybe value)
{
	if (!value.known && g->list[i].files.impossible[metric])
		note_impossible(g, i, out, metric);
	g->list[i].files.impossible[metric] = false;
	drm_report(&g->list[i].files, out, metric, (uint32_t) i + 1, value);
}

void drm_gpu_report_by_users(
	struct drm_gpus *g, size_t i, struct framebuf *out, enum metric metric, struct maybe value)
{
	g->list[i].files.by_users[metric] = true;
	drm_gpu_report(g, i, out, metric, value);
}

struct maybe drm_gpu_figure(const struct drm_gpus *g, size_t i, enum metric metric)
{
	int error;
	const struct maybe value = drm_files_read(&g->list[i].files, g->rows, g->n_rows, metric, &error);

	g->list[i].files.impossible[metric] = error == -ERANGE;
	return value;
}

/* Nothing of it is available: reports everything reported so far, and everything in the table, as
 * unknown. */
static void report_unknown(struct drm_gpus *g, size_t i, struct framebuf *out)
{
	struct drm_gpu *gpu = &g->list[i];

	for (size_t row = 0; row < g->n_rows; row++) {
		if (g->rows[row].metric < METRIC_COUNT)
			drm_gpu_report(g, i, out, g->rows[row].metric, UNKNOWN);
	}
	for (int metric = 0; metric < METRIC_COUNT; metric++) {
		if (gpu->files.known[metric] && !gpu->files.by_users[metric])
			drm_gpu_report(g, i, out, (enum metric) metric, UNKNOWN);
	}
}

/* Its files are still open, but the device behind them was removed. */
static bool is_gone(const struct drm_gpus *g, size_t i)
{
	const int *fds = g->list[i].files.fds;
	size_t row = 0;
	int64_t number;

	while (row < g->n_rows && fds[row] < 0)
		row++;
	return row < g->n_rows && drm_number_pread(fds[row], &number) == -ENODEV;
}

static void lose(struct drm_gpus *g, size_t i, uint64_t now_ns, struct framebuf *out)
{
	gpu_close(g, i);
	drm_card_lose(&g->cards.list[i]);
	g->list[i].lost = true;
	note(g, i, CAUSE_DEVICE, "is gone", now_ns, out);
}

bool drm_gpus_may_query(struct drm_gpus *g, size_t i, uint64_t now_ns, struct framebuf *out)
{
	struct drm_gpu *gpu = &g->list[i];
	bool may = gpu->open &&
		   drm_card_may_read(&g->cards.list[i], drm_clients_has(g->clients, (int) i), now_ns);

	gpu->asleep = gpu->open && !may;
	if (may && is_gone(g, i)) {
		lose(g, i, now_ns, out);
		may = false;
	}
	if (!may)
		report_unknown(g, i, out);
	return may;
}

static bool is_first_row(const struct drm_gpus *g, size_t row)
{
	for (size_t i = 0; i < row; i++) {
		if (g->rows[i].metric == g->rows[row].metric)
			return false;
	}
	return g->rows[row].metric < METRIC_COUNT;
}

void drm_gpus_report_rows(struct drm_gpus *g, size_t i, unsigned group, struct framebuf *out)
{
	for (size_t row = 0; row < g->n_rows; row++) {
		if (g->rows[row].group & group && is_first_row(g, row))
			drm_gpu_report(
				g, i, out, g->rows[row].metric, drm_gpu_figure(g, i, g->rows[row].metric));
	}
}

/* ---- processes ---------------------------------------------------------------------------------------------------- */

void drm_gpus_report_users(struct drm_gpus *g, const struct drm_use *uses, size_t n, struct framebuf *out)
{
	int64_t counts[DRM_CARDS] = { 0 };
	bool adds_host[DRM_CARDS];

	for (size_t i = 0; i < g->cards.n; i++)
		adds_host[i] = g->list[i].adds_host;
	if (drm_users_report(&g->users, uses, n, adds_host, out) < 0) {
		drm_gpus_report_no_users(g, out);
		return;
	}
	for (size_t i = 0; i < n; i++)
		counts[uses[i].card]++;
	for (size_t i = 0; i < g->cards.n; i++) {
		drm_gpu_report_by_users(g, i, out, M_GPU_PROCESSES, known(counts[i]));
		if (g->list[i].no_users_noted)
			note(g, i, CAUSE_NONE, "lists its processes again", clock_boot_ns(), out);
		g->list[i].no_users_noted = false;
	}
}

void drm_gpus_report_no_users(struct drm_gpus *g, struct framebuf *out)
{
	for (size_t i = 0; i < g->cards.n; i++) {
		drm_gpu_report_by_users(g, i, out, M_GPU_PROCESSES, UNKNOWN);
		if (!g->list[i].no_users_noted)
			drm_gpu_note(g, i, "gpu.memory", CAUSE_DEVICE,
				"has processes that cannot be listed: the job's memory on it is unknown",
				clock_boot_ns(), out);
		g->list[i].no_users_noted = true;
	}
	drm_users_unknown(&g->users, out);
}

struct maybe drm_gpus_busy(const struct drm_gpus *g, size_t i, enum drm_class of)
{
	struct drm_rate rates[DRM_ENGINES];
	unsigned n_rates = 0;
	size_t n, here = 0;
	const struct drm_use *uses = drm_clients_uses(g->clients, &n);

	if (drm_clients_was_refused(g->clients))
		return UNKNOWN;
	for (size_t use = 0; use < n; use++) {
		if (uses[use].card != (int) i)
			continue;
		drm_rates_add(rates, &n_rates, uses[use].rates, uses[use].n_rates);
		here++;
	}
	if (here == 0 && of == DRM_COMPUTE && !g->list[i].asleep)
		return known(0); /* all possible users were read, and none uses it */
	return drm_rates_busiest(rates, n_rates, of);
}

void drm_gpus_facts(
	const struct drm_gpus *g, const struct gpu_fact_set *wanted, source_fact_fn *report, void *ctx)
{
	for (size_t i = 0; i < g->cards.n; i++) {
		if (g->list[i].born && g->list[i].asleep && wanted->has[GF_ASLEEP])
			report(ctx,
				&(struct gpu_fact_value) {
					.id = (uint32_t) i + 1, .fact = GF_ASLEEP, .value = 1 });
	}
}

/* ---- probes ------------------------------------------------------------------------------------------------------- */

bool drm_was_reported(const struct framebuf *out, enum metric metric)
{
	for (size_t i = 0; i < out->n_readings; i++) {
		if (out->readings[i].metric == metric && out->readings[i].known)
			return true;
	}
	return false;
}

const char *drm_gpus_sleep(const struct drm_gpus *g, const char *otherwise)
{
	for (size_t i = 0; i < g->cards.n; i++) {
		if (!g->list[i].asleep)
			return otherwise;
	}
	return "the GPU sleeps and is not woken for a measurement";
}

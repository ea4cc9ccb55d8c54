/* SPDX-License-Identifier: MIT
 *
 * Identity of a device: properties that do not change and are read once.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/smallfile.h"
#include "source/nvidia/cuda/order.h"
#include "source/nvidia/nvml/internal.h"

#define BY_PLACE "pci-" /* prefix of a PCI address that replaces a missing UUID */

enum {
	FIELD_POWER_INSTANT = 186,
	SCOPE_MODULE = 1, /* CPU and GPU */
};

/* "0000000F:3B:00.0" of NVML is "000f:3b:00.0" of sysfs. */
static void set_pci(struct nvml_gpu *d, const char *bus_id)
{
	const char *p = bus_id, *colon = strchr(bus_id, ':');
	size_t n = 0;

	if (colon && colon - bus_id == 8)
		p += 4;
	(void) snprintf(d->bus_id, sizeof(d->bus_id), "%s", bus_id);
	for (; *p && n + 1 < sizeof(d->pci); p++)
		d->pci[n++] = (char) tolower((unsigned char) *p);
	d->pci[n] = '\0';
}

static void read_pci(struct source *s, struct nvml_gpu *d)
{
	struct nvml_pci pci = { .bus_id = "" };

	if (NVML_CALL(&s->nvml, pci, d->handle, &pci) != NVML_SUCCESS)
		return;
	pci.bus_id[sizeof(pci.bus_id) - 1] = '\0';
	set_pci(d, pci.bus_id);
}

/* Does another GPU have this UUID? */
static bool is_uuid_taken(const struct source *s, const struct nvml_gpu *d)
{
	for (size_t i = 0; i < s->n_gpus; i++) {
		const struct nvml_gpu *other = s->gpus[i];

		if (other != d && other->state != NVML_ENDED && strcmp(other->uuid, d->uuid) == 0)
			return true;
	}
	return false;
}

static void read_texts(struct source *s, struct nvml_gpu *d)
{
	if (NVML_CALL(&s->nvml, name, d->handle, d->name, sizeof(d->name)) != NVML_SUCCESS)
		d->name[0] = '\0';
	if (NVML_CALL(&s->nvml, uuid, d->handle, d->uuid, sizeof(d->uuid)) != NVML_SUCCESS)
		d->uuid[0] = '\0';
	d->name[sizeof(d->name) - 1] = d->uuid[sizeof(d->uuid) - 1] = '\0';
	d->is_duplicate = *d->uuid && is_uuid_taken(s, d);
	if (d->uuid[0] == '\0' || d->is_duplicate) /* at least the PCI address is unique */
		(void) snprintf(d->uuid, sizeof(d->uuid), BY_PLACE "%s", d->pci);
}

static struct maybe host_memory(const struct source *s)
{
	char text[4096];
	uint64_t bytes;

	if (smallfile_read(s->env->root->proc, "meminfo", text, sizeof(text)) <= 0 ||
		parse_key(text, "MemTotal", &bytes) < 0)
		return UNKNOWN;
	return known((int64_t) bytes);
}

/* Does the driver list the device's processes? Both an empty list and one that needs more room
 * count. */
static bool has_lists(struct source *s, const struct nvml_gpu *d)
{
	unsigned n = 0;
	int code = NVML_CALL(&s->nvml, compute_v3, d->handle, &n, NULL);

	if (nvml_code(code)->meaning == NVML_ABSENT)
		code = NVML_CALL(&s->nvml, compute_v2, d->handle, &n, NULL);
	if (nvml_code(code)->meaning == NVML_ABSENT)
		code = NVML_CALL(&s->nvml, compute_v1, d->handle, &n, NULL);
	return code == NVML_SUCCESS || code == NVML_INSUFFICIENT_SIZE;
}

void nvml_set_total(struct nvml_gpu *d, int code, uint64_t total)
{
	if (code == NVML_SUCCESS && total > 0 && total <= INT64_MAX)
		d->memory_bytes = known((int64_t) total);
}

/* A device whose memory neither call reports, with a driver that lists its processes, shares the
 * host's memory (GB10). */
static int read_memory(struct source *s, struct nvml_gpu *d)
{
	struct nvml_memory_v2 v2 = { .version = NVML_VERSION(v2, 2), .total = NVML_NONE_U64 };
	struct nvml_memory v1 = { .total = NVML_NONE_U64 };
	int code = NVML_CALL(&s->nvml, memory_v2, d->handle, &v2);
	uint64_t total = v2.total;

	if (nvml_code(code)->meaning == NVML_ABSENT) {
		code = NVML_CALL(&s->nvml, memory, d->handle, &v1);
		total = v1.total;
	}
	nvml_set_total(d, code, total);
	d->unified = code == NVML_NOT_SUPPORTED && !d->parent && !d->mig && !s->is_wsl && has_lists(s, d);
	if (d->unified)
		d->memory_bytes = host_memory(s);
	return code;
}

/* A board that reports the power of a whole module is part of one. */
static bool is_of_module(struct source *s, const struct nvml_gpu *d)
{
	struct nvml_field_value v = {
		.id = FIELD_POWER_INSTANT, .scope = SCOPE_MODULE, .code = NVML_UNKNOWN
	};

	return NVML_CALL(&s->nvml, fields, d->handle, 1, &v) == NVML_SUCCESS && v.code == NVML_SUCCESS;
}

/* NVML's header: power is the mean of 1 s on Ampere and later, GA100 (capability 8.0) excepted, and
 * momentary on all others. */
static struct maybe power_span(struct source *s, const struct nvml_gpu *d)
{
	int major = 0, minor = 0;

	if (NVML_CALL(&s->nvml, compute_capability, d->handle, &major, &minor) != NVML_SUCCESS || major <= 0)
		return UNKNOWN;
	return known(major > 8 || (major == 8 && minor > 0) ? 1000000000 : 0);
}

static bool is_numa_node(struct source *s, const struct nvml_gpu *d)
{
	unsigned node = NVML_NONE_U32;

	return NVML_CALL(&s->nvml, numa_node, d->handle, &node) == NVML_SUCCESS && node != NVML_NONE_U32;
}

static void read_modes(struct source *s, struct nvml_gpu *d)
{
	unsigned mig = 0, pending;
	int accounting = 0;
	struct nvml_pci_gpu pci;

	d->mig = NVML_CALL(&s->nvml, mig_mode, d->handle, &mig, &pending) == NVML_SUCCESS && mig == 1;
	d->processes.accounting = NVML_CALL(&s->nvml, accounting_mode, d->handle, &accounting) ==
					  NVML_SUCCESS &&
				  accounting == 1;
	d->is_module = is_of_module(s, d);
	d->is_numa = is_numa_node(s, d);
	d->power_span_ns = power_span(s, d);
	d->may_sleep = nvml_pci_read(s->env->root, d->pci, &pci) && pci.may_sleep;
}

int nvml_identify(struct source *s, struct nvml_gpu *d)
{
	if (d->parent) {
		(void) snprintf(d->pci, sizeof(d->pci), "%s", d->parent->pci);
	} else {
		read_pci(s, d);
		(void) NVML_CALL(&s->nvml, index, d->handle, &d->index);
		read_modes(s, d);
	}
	read_texts(s, d);
	int code = read_memory(s, d);

	return nvml_code(code)->meaning == NVML_LOST ? code : NVML_SUCCESS;
}

/* ---- births ---------------------------------------------------------------------------------- */

/* CUDA's index in PCI order, among all devices that can be opened. */
static struct maybe cuda_index(const struct source *s, const struct nvml_gpu *d)
{
	struct cuda_device list[NVML_MAX_DEVICES];
	size_t order[NVML_MAX_DEVICES], n = 0, self = SIZE_MAX;

	for (size_t i = 0; i < s->n_gpus; i++) {
		const struct nvml_gpu *g = s->gpus[i];

		if (g->state == NVML_CLOSED || g->state == NVML_ENDED || !*g->uuid)
			continue;
		if (g == d)
			self = n;
		list[n++] = (struct cuda_device) {
			.uuid = g->uuid,
			.pci = g->pci,
			.name = g->name,
			.parent = g->parent ? g->parent->uuid : "",
			.is_divided = g->mig,
			.instance = g->parent ? g->index : 0,
			.gpu_instance = g->gpu_instance,
			.compute_instance = g->compute_instance,
		};
	}
	ssize_t found = cuda_order(list, n, CUDA_PCI_BUS_ID, order);

	for (ssize_t i = 0; i < found; i++) {
		if (order[i] == self)
			return known(i);
	}
	return UNKNOWN;
}

static void write_birth(const struct source *s, struct nvml_gpu *d, struct framebuf *out)
{
	const struct birth birth = {
		.entity = ENTITY_GPU,
		.id = d->id,
		.gpu = {
			.uuid = strcmp(d->uuid, BY_PLACE) != 0 ? d->uuid : "",
			.name = d->name,
			.vendor = "nvidia",
			.pci = d->pci,
			.parent = d->parent ? d->parent->uuid : "",
			.driver = s->nvml.driver,
			.gpu_instance = d->parent && d->gpu_instance != NVML_NONE_U32
						? known(d->gpu_instance)
						: UNKNOWN,
			.index = known(d->index),
			.cuda_index = cuda_index(s, d),
			.memory_bytes = d->memory_bytes,
			.unified = d->unified,
			.is_module = d->is_module,
			.is_numa = d->parent ? d->parent->is_numa : d->is_numa,
			.power_span_ns = d->power_span_ns,
		},
	};

	framebuf_birth(out, &birth);
	d->memory_reported = d->memory_bytes;
}

static void append_birth(struct source *s, struct nvml_gpu *d, struct framebuf *out)
{
	d->id = ++s->last_id;
	write_birth(s, d, out);
	if (d->is_duplicate)
		nvml_note(s, d, out, "gpu", CAUSE_NONE,
			"it has the UUID of another GPU; its PCI address identifies it");
	if (d->state != NVML_AWAKE) /* its processes cannot be listed */
		nvml_append_value(d, out, M_GPU_PROCESSES, UNKNOWN);
}

/* A lost device is reported without values, by the identity that is known: the job may be using
 * it. */
static bool is_there(const struct nvml_gpu *d)
{
	return d->state == NVML_AWAKE || (d->state == NVML_AWAY && !d->parent);
}

/* Was the total memory unknown or different when the birth was written? */
static bool has_another_total(const struct nvml_gpu *d)
{
	return d->memory_bytes.known &&
	       (!d->memory_reported.known || d->memory_reported.value != d->memory_bytes.value);
}

/* A parent precedes its instances in the list. */
void nvml_append_births(struct source *s, struct framebuf *out)
{
	for (size_t i = 0; i < s->n_gpus; i++) {
		struct nvml_gpu *d = s->gpus[i];

		if (!is_there(d))
			continue;
		if (d->id == 0)
			append_birth(s, d, out);
		else if (has_another_total(d))
			write_birth(s, d, out);
	}
}

/* Works on a copy without a CUDA index, which is known only after all devices have answered. */
static void publish_one(struct source *s, const struct nvml_gpu *d, const char *queried, struct framebuf *out)
{
	struct nvml_gpu shown = *d;

	shown.id = ++s->last_id;
	write_birth(s, &shown, out);
	if (queried || d->state != NVML_AWAKE)
		framebuf_unknown(out, M_GPU_PROCESSES, shown.id);
	if (queried)
		nvml_note(s, &shown, out, "gpu", CAUSE_DEVICE, queried);
}

void nvml_publish_found(struct source *s, const struct nvml_gpu *queried, const char *note)
{
	struct framebuf known = { 0 };

	nvml_turn_to(s, queried);
	if (!s->env->on_partial)
		return;
	for (size_t i = 0; i < s->n_gpus; i++) {
		if (s->gpus[i] == queried || is_there(s->gpus[i]))
			publish_one(s, s->gpus[i], s->gpus[i] == queried ? note : NULL, &known);
	}
	s->env->on_partial(s->env->progress_ctx, &known);
	framebuf_done(&known);
	s->last_id = 0; /* no birth was appended yet */
}

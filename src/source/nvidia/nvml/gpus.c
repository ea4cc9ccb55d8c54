/* SPDX-License-Identifier: MIT
 *
 * Finds devices and tracks their state: asleep, closed to this user, lost, and available again. One
 * unavailable device leaves the others as they are.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "source/nvidia/nvml/internal.h"

#define RETRY_MOST_NS 30000000000ULL

struct nvml_gpu *nvml_gpu_add(struct source *s)
{
	struct nvml_gpu *d = NULL;

	if (vec_reserve(&s->gpus, &s->cap_gpus, s->n_gpus, sizeof(d), NVML_MAX_DEVICES) == 0)
		d = calloc(1, sizeof(*d));
	if (d)
		s->gpus[s->n_gpus++] = d;
	return d;
}

/* Removes the device that was added last. */
static void remove_last(struct source *s, struct nvml_gpu *d)
{
	s->n_gpus--;
	free(d);
}

void nvml_gpus_free(struct source *s)
{
	for (size_t i = 0; i < s->n_gpus; i++) {
		nvml_gpm_drop(s, s->gpus[i]);
		nvml_processes_free(s->gpus[i]);
		free(s->gpus[i]);
	}
	free(s->gpus);
	s->gpus = NULL;
	s->n_gpus = s->cap_gpus = 0;
}

unsigned nvml_gpus_count(const struct source *s)
{
	unsigned n = 0;

	for (size_t i = 0; i < s->n_gpus; i++)
		n += !s->gpus[i]->parent && s->gpus[i]->state == NVML_AWAKE;
	return n;
}

/* Notes for devices whose driver hangs while they are opened. */
static const char no_identity[] = "its driver did not answer when asked for its identity";
static const char no_instances[] = "its driver did not answer when asked for its MIG instances";

/* ---- finding devices ------------------------------------------------------------------------- */

/* A GPU that was reset, or whose driver was reloaded, returns within seconds; querying one that is
 * lost for good may take seconds itself. So the delay doubles, also for a GPU that is lost again
 * soon after it returned. */
static void plan_retry(struct source *s, struct nvml_gpu *d)
{
	const uint64_t now_ns = clock_boot_ns(); /* after the call, which may have taken long */
	const bool goes_on = d->wait_ns &&
			     !(d->state == NVML_AWAKE && counter_delta(d->awake_ns, now_ns) >= RETRY_MOST_NS);

	d->wait_ns = goes_on ? 2 * d->wait_ns : s->retry_first_ns;
	if (d->wait_ns > RETRY_MOST_NS)
		d->wait_ns = RETRY_MOST_NS;
	d->retry_ns = now_ns + d->wait_ns;
}

/* Sets the state of d by the result of opening its handle. */
static void settle(struct source *s, struct nvml_gpu *d, int code)
{
	if (code == NVML_SUCCESS)
		code = nvml_identify(s, d);
	d->lost_code = code;
	d->state = code == NVML_SUCCESS                         ? NVML_AWAKE
		   : nvml_code(code)->meaning == NVML_FORBIDDEN ? NVML_CLOSED
								: NVML_AWAY;
	if (d->state == NVML_AWAY)
		plan_retry(s, d);
	else
		d->awake_ns = clock_boot_ns();
}

/* The note while device i of n is opened: the ones after it were not queried yet. */
static const char *identity_note(unsigned i, unsigned n, char text[160])
{
	if (i + 1 == n)
		return no_identity;
	(void) snprintf(text, 160,
		i + 2 < n ? "%s; GPUs %u to %u were not queried" : "%s; GPU %u was not queried", no_identity,
		i + 1, n - 1);
	return text;
}

static int find_by_index(struct source *s, unsigned n)
{
	char text[160];

	for (unsigned i = 0; i < n; i++) {
		struct nvml_gpu *d = nvml_gpu_add(s);

		if (!d)
			return -ENOMEM;
		d->index = i;
		nvml_publish_found(s, d, identity_note(i, n, text));
		settle(s, d, NVML_CALL(&s->nvml, by_index, i, &d->handle));
	}
	return 0;
}

/* NVML's own form: a domain of eight digits, upper case. */
static void bus_id_of(const char *pci, char ret[32])
{
	(void) snprintf(ret, 32, "0000%.27s", pci);
	for (char *p = ret; *p; p++)
		*p = (char) toupper((unsigned char) *p);
}

/* If a GPU sleeps, only those awake are opened, by PCI address: opening by index would wake it. A
 * GPU that sysfs shows and the driver does not know belongs to another container. */
static int find_by_place(struct source *s, const struct nvml_pci_gpu *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct nvml_gpu *d = nvml_gpu_add(s);

		if (!d)
			return -ENOMEM;
		d->index = (unsigned) i;
		(void) snprintf(d->pci, sizeof(d->pci), "%.31s", list[i].id);
		bus_id_of(list[i].id, d->bus_id);
		if (list[i].asleep) {
			d->state = NVML_ASLEEP;
			continue;
		}
		nvml_publish_found(s, d, no_identity);
		const int code = NVML_CALL(&s->nvml, by_bus_id, d->bus_id, &d->handle);

		if (code == NVML_NOT_FOUND || code == NVML_INVALID_ARGUMENT)
			remove_last(s, d);
		else
			settle(s, d, code);
	}
	return 0;
}

static bool any_asleep(const struct nvml_pci_gpu *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (list[i].asleep)
			return true;
	}
	return false;
}

int nvml_gpus_find(struct source *s, struct err *err)
{
	struct nvml_pci_gpu list[64];
	const size_t room = sizeof(list) / sizeof(list[0]);
	size_t listed = nvml_pci_list(s->env->root, list, room);
	unsigned n = 0;
	int r;

	listed = listed < room ? listed : room;
	if (any_asleep(list, listed)) {
		r = find_by_place(s, list, listed);
	} else {
		int code = NVML_CALL(&s->nvml, count, &n);

		if (code != NVML_SUCCESS)
			return err_set(err, -EIO, "NVML cannot count the GPUs: %s (NVML code %d)",
				nvml_code(code)->why, code);
		r = find_by_index(s, n < NVML_MAX_DEVICES ? n : NVML_MAX_DEVICES);
	}
	if (r < 0)
		return err_set(err, r, "NVML: out of memory");
	if (s->n_gpus == 0)
		return err_set(err, -ENODEV,
			"NVIDIA's driver is loaded but reports no GPU; in a container, NVIDIA_VISIBLE_DEVICES selects its GPUs");
	for (size_t i = 0, found = s->n_gpus; i < found; i++) {
		if (s->gpus[i]->state != NVML_AWAKE)
			continue;
		nvml_publish_found(s, s->gpus[i], no_instances);
		nvml_instances_find(s, s->gpus[i], NULL);
	}
	nvml_publish_found(s, NULL, NULL);
	return 0;
}

/* ---- state changes --------------------------------------------------------------------------- */

/* Appends unknown once for every known metric of d. Xids stay: the driver still collects them. */
static void mark_unavailable(struct nvml_gpu *d, enum nvml_state state, struct framebuf *out)
{
	for (int m = 0; m < METRIC_COUNT; m++) {
		if (d->reported[m] == REPORTED_KNOWN && m != M_GPU_XID)
			nvml_append_value(d, out, (enum metric) m, UNKNOWN);
	}
	nvml_processes_end(d, out);
	d->state = state;
}

static void mark_all_unavailable(
	struct source *s, struct nvml_gpu *d, enum nvml_state state, struct framebuf *out)
{
	for (size_t i = 0; i < s->n_gpus; i++) {
		if (s->gpus[i] == d || (s->gpus[i]->parent == d && s->gpus[i]->state == NVML_AWAKE))
			mark_unavailable(s->gpus[i], state, out);
	}
	d->state_noted = false;
}

static void note_state(struct source *s, struct nvml_gpu *d, struct framebuf *out)
{
	const struct nvml_code *code = nvml_code(d->lost_code);
	char text[192];

	if (d->state == NVML_ASLEEP)
		(void) snprintf(text, sizeof(text),
			"asleep: the kernel has powered it down; hiwater does not wake it");
	else
		(void) snprintf(text, sizeof(text),
			"%s: %s%s%s (NVML code %d); the job's memory on it is unknown",
			d->state == NVML_CLOSED ? "closed" : "lost", code->why, *code->remedy ? ": " : "",
			code->remedy, d->lost_code);
	nvml_note(s, d, out, "gpu", CAUSE_DEVICE, text);
	d->state_noted = true;
}

void nvml_gpu_lost(struct source *s, struct nvml_gpu *d, int code, struct framebuf *out)
{
	d->lost_code = code;
	plan_retry(s, d);
	mark_all_unavailable(s, d, NVML_AWAY, out);
	note_state(s, d, out);
}

/* Forgets everything learned about the device: capabilities, and the position in the driver's buffer
 * of processes' samples. */
static void reset_state(struct source *s, struct nvml_gpu *d)
{
	memset(d->tries, 0, sizeof(d->tries));
	nvml_fields_restart(&d->fields);
	nvml_gpm_drop(s, d);
	nvml_processes_free(d);
	d->reasons.read_ns = 0;
	nvml_power_resume(s, d);
	d->has_events = false;
}

static void reopen(struct source *s, struct nvml_gpu *d, struct framebuf *out)
{
	char uuid[NVML_NAME];
	bool was_known = d->id != 0;

	memcpy(uuid, d->uuid, sizeof(uuid));
	nvml_turn_to(s, d);
	int code = *d->bus_id ? NVML_CALL(&s->nvml, by_bus_id, d->bus_id, &d->handle)
			      : NVML_CALL(&s->nvml, by_index, d->index, &d->handle);

	if (d->id)
		reset_state(s, d);
	d->memory_bytes = UNKNOWN; /* another card may have replaced it */
	settle(s, d, code);
	if (d->state != NVML_AWAKE)
		return;
	if (was_known && strcmp(uuid, d->uuid) != 0) { /* another card, or its identity is new */
		framebuf_end(out, &(struct end) { .entity = ENTITY_GPU, .id = d->id, .how = END_SEEN });
		d->id = 0;
		d->xids = 0;
		memset(d->reported, 0, sizeof(d->reported));
		memset(d->notes, 0, sizeof(d->notes));
		memset(d->rejected, 0, sizeof(d->rejected));
		memset(d->rejected_noted, 0, sizeof(d->rejected_noted));
		d->gpm.noted = false;
		memset(d->list_noted, 0, sizeof(d->list_noted));
		d->silence_noted = false;
		memset(d->counters, 0, sizeof(d->counters));
		d->power = (struct nvml_power) { 0 };
	} else if (was_known) {
		nvml_note(s, d, out, "gpu", CAUSE_NONE, "it answers again");
	}
	nvml_instances_find(s, d, out);
	s->events_stale = true;
}

/* A library whose driver was unloaded must be initialised again, once for all devices. */
void nvml_gpus_retry(struct source *s, struct framebuf *out)
{
	bool initialised = false;

	for (size_t i = 0; i < s->n_gpus; i++) {
		struct nvml_gpu *d = s->gpus[i];

		if (d->state != NVML_AWAY || d->parent || clock_boot_ns() < d->retry_ns)
			continue;
		if (d->lost_code == NVML_UNINITIALIZED && !initialised) {
			initialised = true;
			if (nvml_init_again(&s->nvml) == NVML_SUCCESS)
				nvml_events_open(s); /* the driver dropped the event set */
		}
		reopen(s, d, out);
	}
}

static void check_sleep(struct source *s, struct nvml_gpu *d, struct framebuf *out)
{
	struct nvml_pci_gpu now;

	if (d->parent || !(d->may_sleep || d->state == NVML_ASLEEP) ||
		!nvml_pci_read(s->env->root, d->pci, &now))
		return;
	if (now.asleep && d->state == NVML_AWAKE)
		mark_all_unavailable(s, d, NVML_ASLEEP, out);
	else if (!now.asleep && d->state == NVML_ASLEEP)
		reopen(s, d, out);
}

void nvml_gpus_check(struct source *s, struct framebuf *out)
{
	for (size_t i = 0; i < s->n_gpus; i++)
		check_sleep(s, s->gpus[i], out);
	for (size_t i = 0, n = s->n_gpus; i < n; i++) {
		struct nvml_gpu *d = s->gpus[i];

		if (d->state == NVML_AWAKE && !d->parent)
			nvml_instances_find(s, d, out);
	}
	s->rescan = false;
	for (size_t i = 0; i < s->n_gpus; i++) {
		struct nvml_gpu *d = s->gpus[i];

		if (d->state != NVML_AWAKE && d->state != NVML_ENDED && !d->state_noted && !d->parent)
			note_state(s, d, out);
	}
}

/* ---- GPUs that the kernel has powered down --------------------------------------------------- */

/* GPUs that the kernel has powered down (laptops): opening a handle wakes them, so sysfs is read
 * first. Documentation/ABI/testing/sysfs-devices-power. */

#define PCI_DEVICES "bus/pci/devices"

static bool file_begins(const struct root *root, const char *id, const char *file, const char *with)
{
	char path[96], text[64];
	const char *p = text;

	(void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/%s", id, file);
	return smallfile_read(root->sys, path, text, sizeof(text)) > 0 && parse_word(&p, with);
}

bool nvml_pci_read(const struct root *root, const char *id, struct nvml_pci_gpu *ret)
{
	/* A GPU's sound device and USB port have the same vendor: only display and 3D controllers
	 * count. */
	if (!*id || !file_begins(root, id, "vendor", "0x10de") || !file_begins(root, id, "class", "0x03"))
		return false;
	(void) snprintf(ret->id, sizeof(ret->id), "%s", id);
	ret->asleep = file_begins(root, id, "power/runtime_status", "suspended");
	ret->may_sleep = file_begins(root, id, "power/control", "auto");
	return true;
}

size_t nvml_pci_list(const struct root *root, struct nvml_pci_gpu *ret, size_t n)
{
	autoclose int fd = openat(root->sys, PCI_DEVICES, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclosedir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	size_t found = 0;

	if (!dir)
		return 0;
	(void) take_fd(fd); /* dir owns it now */
	for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
		struct nvml_pci_gpu gpu;

		if (entry->d_name[0] == '.' || strlen(entry->d_name) >= sizeof(gpu.id) ||
			!nvml_pci_read(root, entry->d_name, &gpu))
			continue;
		if (found < n)
			ret[found] = gpu;
		found++;
	}
	return found;
}

/* ---- MIG instances --------------------------------------------------------------------------- */

/* MIG: instances of a divided GPU are devices of their own. They have a UUID, memory, processes and
 * GPM; everything else belongs to their GPU. A handle is valid until the GPU is divided anew. */

static struct nvml_gpu *find(struct source *s, const struct nvml_gpu *parent, const char *uuid)
{
	for (size_t i = 0; i < s->n_gpus; i++) {
		if (s->gpus[i]->parent == parent && s->gpus[i]->state != NVML_ENDED &&
			strcmp(s->gpus[i]->uuid, uuid) == 0)
			return s->gpus[i];
	}
	return NULL;
}

/* The instance of a handle, found or added; NULL: out of memory, or its UUID cannot be read. */
static struct nvml_gpu *find_or_add(struct source *s, struct nvml_gpu *parent, void *handle, unsigned index)
{
	char uuid[NVML_NAME] = "";

	if (NVML_CALL(&s->nvml, uuid, handle, uuid, sizeof(uuid)) != NVML_SUCCESS)
		return NULL;
	struct nvml_gpu *d = find(s, parent, uuid);

	if (!d)
		d = nvml_gpu_add(s);
	if (!d)
		return NULL;
	bool is_new = !d->parent || d->state != NVML_AWAKE;

	d->parent = parent;
	d->handle = handle;
	d->index = index;
	d->state = NVML_AWAKE;
	if (NVML_CALL(&s->nvml, gpu_instance, handle, &d->gpu_instance) != NVML_SUCCESS ||
		NVML_CALL(&s->nvml, compute_instance, handle, &d->compute_instance) != NVML_SUCCESS)
		d->gpu_instance = d->compute_instance = NVML_NONE_U32;
	if (is_new)
		(void) nvml_identify(s, d);
	return d;
}

static void end_instance(struct source *s, struct nvml_gpu *d, struct framebuf *out)
{
	const struct end end = { .entity = ENTITY_GPU, .id = d->id, .how = END_SEEN };

	if (out) {
		nvml_processes_end(d, out);
		framebuf_end(out, &end);
	}
	nvml_gpm_drop(s, d);
	d->state = NVML_ENDED;
}

void nvml_instances_find(struct source *s, struct nvml_gpu *d, struct framebuf *out)
{
	unsigned mode = 0, pending, most = 0;
	bool was_divided = d->mig;

	nvml_turn_to(s, d);
	if (NVML_CALL(&s->nvml, mig_mode, d->handle, &mode, &pending) != NVML_SUCCESS || mode != 1)
		mode = 0;
	d->mig = mode;
	if (!d->mig && !was_divided)
		return;
	if (d->mig != was_divided)
		memset(d->tries, 0, sizeof(d->tries)); /* the calls have other results now */
	for (size_t i = 0; i < s->n_gpus; i++)
		s->gpus[i]->found = false;
	if (d->mig && NVML_CALL(&s->nvml, mig_count, d->handle, &most) != NVML_SUCCESS)
		most = 0;
	for (unsigned i = 0; i < most && i < NVML_MAX_DEVICES; i++) {
		void *handle = NULL;
		/* NOT_FOUND is a gap in the numbering: others may follow. */
		struct nvml_gpu *instance = NVML_CALL(&s->nvml, mig_by_index, d->handle, i, &handle) ==
							    NVML_SUCCESS
						    ? find_or_add(s, d, handle, i)
						    : NULL;

		if (instance)
			instance->found = true;
	}
	for (size_t i = 0; i < s->n_gpus; i++) {
		struct nvml_gpu *instance = s->gpus[i];

		if (instance->parent == d && instance->state != NVML_ENDED && !instance->found)
			end_instance(s, instance, out);
	}
}

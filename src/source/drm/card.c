/* SPDX-License-Identifier: MIT */
#include "source/drm/card.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/smallfile.h"

/* ---- one device --------------------------------------------------------------------------------------------------- */

/* The rest of the line that begins with key, truncated to size. */
static void uevent_copy(const char *text, const char *key, char *ret, size_t size)
{
	const char *p = text;

	do {
		const char *value = p;

		if (parse_word(&value, key)) {
			snprintf(ret, size, "%.*s", (int) strcspn(value, "\n"), value);
			return;
		}
	} while (parse_line(&p));
}

/* "1002:73BF" */
static void id_parse(const char *text, struct drm_card *card)
{
	uint64_t vendor, device;

	if (parse_hex(&text, &vendor) < 0 || !parse_word(&text, ":") || parse_hex(&text, &device) < 0 ||
		vendor > UINT16_MAX || device > UINT16_MAX)
		return;
	card->vendor = (uint32_t) vendor;
	card->device = (uint32_t) device;
}

/* device/uevent: "DRIVER=amdgpu\nPCI_ID=1002:73BF\nPCI_SLOT_NAME=0000:03:00.0\n", or of a platform
 * device "DRIVER=panfrost\nOF_FULLNAME=/gpu@ff9a0000\nOF_COMPATIBLE_0=rockchip,rk3399-mali\n".
 * False: neither. */
static bool uevent_parse(const char *text, struct drm_card *ret)
{
	char id[16] = "", node[48] = "";

	uevent_copy(text, "DRIVER=", ret->driver, sizeof(ret->driver));
	uevent_copy(text, "PCI_ID=", id, sizeof(id));
	uevent_copy(text, "PCI_SLOT_NAME=", ret->pci, sizeof(ret->pci));
	uevent_copy(text, "OF_FULLNAME=", node, sizeof(node));
	uevent_copy(text, "OF_COMPATIBLE_0=", ret->model, sizeof(ret->model));
	id_parse(id, ret);
	if (ret->driver[0] == '\0' || (ret->pci[0] == '\0' && node[0] == '\0'))
		return false;
	const char *slash = strrchr(node, '/');

	snprintf(ret->key, sizeof(ret->key), "%s%s", ret->pci[0] ? "" : "platform-",
		ret->pci[0] ? ret->pci : slash ? slash + 1
					       : node);
	return true;
}

static int dir_open(int at, const char *path)
{
	int fd = openat(at, path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -1 : fd;
}

/* The first hwmonN of the device; -1: none. */
static int hwmon_open(int device)
{
	int fd = openat(device, "hwmon", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	autoclosedir DIR *dir = fdopendir(fd);

	if (!dir) {
		(void) close(fd);
		return -1;
	}
	for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
		if (strncmp(entry->d_name, "hwmon", 5) == 0)
			return dir_open(fd, entry->d_name);
	}
	return -1;
}

void drm_card_lose(struct drm_card *card)
{
	int *fds[] = { &card->dir, &card->class_dir, &card->hwmon };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0)
			(void) close(*fds[i]);
		*fds[i] = -1;
	}
}

/* ---- scan for devices --------------------------------------------------------------------------------------------- */

enum node {
	NODE_CARD,
	NODE_RENDER,
	NODE_ACCEL
};

static const struct {
	const char *folder, *prefix;
	enum node node;
} nodes[] = {
	{ "class/drm", "card", NODE_CARD },
	{ "class/drm", "renderD", NODE_RENDER },
	{ "class/accel", "accel", NODE_ACCEL },
};

/* "card0", not "card0-HDMI-A-1". */
static bool node_number(const char *name, const char *prefix, int32_t *ret)
{
	uint64_t n;

	if (!parse_word(&name, prefix) || parse_u64(&name, &n) < 0 || *name != '\0' || n > INT32_MAX)
		return false;
	*ret = (int32_t) n;
	return true;
}

static struct drm_card *card_of(struct drm_cards *cards, const char *key)
{
	for (size_t i = 0; i < cards->n; i++) {
		if (strcmp(cards->list[i].key, key) == 0)
			return &cards->list[i];
	}
	return NULL;
}

/* Adds the device of a node of the class, or adds the node to a known device. Returns 0 or -errno. */
static int node_add(struct drm_cards *cards, int class_dir, const char *name, enum node node, int32_t number)
{
	struct drm_card found = { .card = -1, .render = -1, .dir = -1, .class_dir = -1, .hwmon = -1 };
	autoclose int dir = dir_open(class_dir, name);
	char text[1024];

	if (dir < 0 || smallfile_read(dir, "device/uevent", text, sizeof(text)) < 0 ||
		!uevent_parse(text, &found))
		return 0;
	struct drm_card *card = card_of(cards, found.key);

	if (!card) {
		int r = vec_reserve(&cards->list, &cards->cap, cards->n, sizeof(found), DRM_CARDS);

		if (r < 0)
			return r;
		card = &cards->list[cards->n++];
		*card = found;
		card->dir = dir_open(dir, "device");
		card->hwmon = card->dir < 0 ? -1 : hwmon_open(card->dir);
	}
	if (node == NODE_CARD && card->class_dir < 0) {
		card->card = number;
		card->class_dir = take_fd(dir);
	} else if (node != NODE_CARD) {
		card->render = number;
		card->accel = node == NODE_ACCEL;
	}
	return 0;
}

static int folder_add(struct drm_cards *cards, const struct root *root, size_t i)
{
	int fd = openat(root->sys, nodes[i].folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int32_t number;
	int r = 0;

	if (fd < 0)
		return errno == ENOENT || errno == EBADF ? 0 : -errno;
	autoclosedir DIR *dir = fdopendir(fd);

	if (!dir) {
		(void) close(fd);
		return -ENOMEM;
	}
	for (const struct dirent *entry = readdir(dir); entry && r == 0; entry = readdir(dir)) {
		if (node_number(entry->d_name, nodes[i].prefix, &number))
			r = node_add(cards, fd, entry->d_name, nodes[i].node, number);
	}
	return r;
}

/* Moves card to the known ones: a new one to the end, one that returned to its old place. Returns 0
 * or -errno. */
static int card_keep(struct drm_cards *cards, struct drm_card *card)
{
	struct drm_card *before = card_of(cards, card->key);

	if (before && before->dir >= 0) {
		drm_card_lose(card);
		return 0;
	}
	if (!before) {
		int r = vec_reserve(&cards->list, &cards->cap, cards->n, sizeof(*card), DRM_CARDS);

		if (r < 0) {
			drm_card_lose(card);
			return r;
		}
		before = &cards->list[cards->n++];
	}
	*before = *card;
	return 0;
}

static int by_key(const void *a, const void *b)
{
	const struct drm_card *x = a, *y = b;

	return strcmp(x->key, y->key);
}

int drm_cards_scan(
	struct drm_cards *cards, const struct root *root, bool (*is_ours)(const struct drm_card *card))
{
	struct drm_cards found = { 0 };
	int r = 0, n = 0;

	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]) && r == 0; i++)
		r = folder_add(&found, root, i);
	if (found.n > 0)
		qsort(found.list, found.n, sizeof(*found.list), by_key);
	for (size_t i = 0; i < found.n; i++) {
		struct drm_card *card = &found.list[i];

		if (r == 0 && card->render >= 0 && card->dir >= 0 && is_ours(card)) {
			r = card_keep(cards, card);
			n++;
		} else {
			drm_card_lose(card);
		}
	}
	free(found.list);
	return r < 0 ? r : n;
}

void drm_cards_done(struct drm_cards *cards)
{
	for (size_t i = 0; i < cards->n; i++)
		drm_card_lose(&cards->list[i]);
	free(cards->list);
	*cards = (struct drm_cards) { 0 };
}

int drm_cards_find(const struct drm_cards *cards, const char *pdev, const char *driver)
{
	for (size_t i = 0; i < cards->n; i++) {
		const struct drm_card *card = &cards->list[i];

		if (*pdev ? strcmp(card->pci, pdev) == 0
			  : card->pci[0] == '\0' && strcmp(card->driver, driver) == 0)
			return (int) i;
	}
	return -1;
}

/* ---- sleep -------------------------------------------------------------------------------------------------------- */

/* "suspended", "suspending" */
static bool is_asleep(const char *status)
{
	return strncmp(status, "susp", 4) == 0;
}

bool drm_card_sleeps(const struct drm_card *card)
{
	char status[32];

	return card->dir >= 0 &&
	       smallfile_read(card->dir, "power/runtime_status", status, sizeof(status)) > 0 &&
	       is_asleep(status);
}

bool drm_gate_may_read(struct drm_gate *gate, const char *status, const char *control, struct maybe delay_ms,
	bool in_use, uint64_t now_ns)
{
	enum {
		DELAY_MS = 5000, /* if the file has no value; drivers set 1 to 10 s */
		DELAY_MAX_MS = 60000
	};

	if (is_asleep(status)) {
		gate->opened = false;
		return false;
	}
	int64_t ms = !delay_ms.known || delay_ms.value > DELAY_MAX_MS ? DELAY_MS : delay_ms.value;

	/* a negative delay: it never goes to sleep */
	if (strncmp(control, "auto", 4) != 0 || in_use || ms < 0) {
		gate->opened = false;
		return true;
	}
	uint64_t since = gate->opened ? now_ns - gate->opened_ns : UINT64_MAX;

	if (since < DRM_GATE_OPEN_NS)
		return true;
	if (since < DRM_GATE_OPEN_NS + 2 * (uint64_t) ms * 1000000)
		return false;
	gate->opened = true;
	gate->opened_ns = now_ns;
	return true;
}

bool drm_card_may_read(struct drm_card *card, bool in_use, uint64_t now_ns)
{
	char status[32] = "", control[32] = "", delay[32] = "";
	const char *p = delay;
	int64_t ms = 0;

	if (card->dir < 0)
		return false;
	/* These files belong to the PM core: reading them wakes no device. A device without them
	 * does not sleep. */
	(void) smallfile_read(card->dir, "power/runtime_status", status, sizeof(status));
	(void) smallfile_read(card->dir, "power/control", control, sizeof(control));
	if (strncmp(control, "auto", 4) == 0 && !in_use)
		(void) smallfile_read(card->dir, "power/autosuspend_delay_ms", delay, sizeof(delay));
	return drm_gate_may_read(
		&card->gate, status, control, parse_i64(&p, &ms) == 0 ? known(ms) : UNKNOWN, in_use, now_ns);
}

/* ---- names -------------------------------------------------------------------------------------------------------- */

/* PCI vendors whose devices have DRM drivers. */
static const struct {
	uint32_t id;
	const char *name, *shown;
} vendors[] = {
	{ 0x1002, "amd", "AMD" },
	{ 0x8086, "intel", "Intel" },
	{ 0x10de, "nvidia", "NVIDIA" },
	{ 0x1022, "amd", "AMD" }, /* NPUs */
	{ 0x1af4, "", "virtio" },
};

static size_t vendor_find(const struct drm_card *card)
{
	size_t i = 0;

	while (i < sizeof(vendors) / sizeof(vendors[0]) && vendors[i].id != card->vendor)
		i++;
	return i;
}

const char *drm_card_vendor(const struct drm_card *card)
{
	size_t i = vendor_find(card);

	return card->vendor && i < sizeof(vendors) / sizeof(vendors[0]) ? vendors[i].name : "";
}

void drm_card_name(const struct drm_card *card, char *ret, size_t size)
{
	size_t i = vendor_find(card);
	const char *shown = i < sizeof(vendors) / sizeof(vendors[0]) ? vendors[i].shown : card->driver;

	if (card->vendor)
		snprintf(ret, size, "%s %s %04x:%04x", shown, card->accel ? "NPU" : "GPU",
			(unsigned) card->vendor, (unsigned) card->device);
	else
		snprintf(ret, size, "%s", card->model[0] ? card->model : card->driver);
}

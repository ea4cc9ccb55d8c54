/* SPDX-License-Identifier: MIT
 *
 * The GPUs (and NPUs) in the kernel's DRM and accel classes, identified by PCI address, never by
 * their number. Nothing here wakes a device.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/maybe.h"
#include "base/root.h"
#include "model/frame.h"

enum {
	DRM_CARDS = 256 /* most devices that are handled */
};

/* Decides when a device may be read. A device that goes to sleep by itself is not woken, and reads
 * do not keep it awake: while no visible process uses it, it is read for DRM_GATE_OPEN_NS (so that
 * each group of a source has its turn) and then left alone for twice the delay after which it would
 * go to sleep. */
enum {
	DRM_GATE_OPEN_NS = 1500000000
};
struct drm_gate {
	bool opened;
	uint64_t opened_ns; /* when it was last opened while no process used it */
};

struct drm_card {
	char key[64];      /* identity: PCI address, or "platform-NAME" */
	char pci[16];      /* "" for a platform device */
	char driver[32];   /* kernel driver: "amdgpu", "i915" */
	char model[64];    /* platform device: "arm,mali-t860"; else "" */
	uint32_t vendor, device; /* PCI; 0: none */
	int32_t card;      /* N of cardN; -1: none */
	int32_t render;    /* N of renderDN or accelN; -1: none */
	bool accel;        /* in the accel class */
	int dir;           /* its device folder, O_PATH; -1: the device is gone */
	int class_dir;     /* the folder cardN, O_PATH; -1: none */
	int hwmon;         /* its hwmon folder, O_PATH; -1: none */
	struct drm_gate gate;
};

struct drm_cards {
	struct drm_card *list;
	size_t n, cap;
};

/* Scans for devices that is_ours accepts and that have a render or accel node. Known devices keep
 * their place; one that returned gets its folders again. Returns the number of devices present, or
 * -errno. */
int drm_cards_scan(
	struct drm_cards *cards, const struct root *root, bool (*is_ours)(const struct drm_card *card));
void drm_cards_done(struct drm_cards *cards);

/* Closes its folders: the device is gone until a scan finds it again. */
void drm_card_lose(struct drm_card *card);

/* The card of an fdinfo: by PCI address, for platform devices by driver. -1: none. */
int drm_cards_find(const struct drm_cards *cards, const char *pdev, const char *driver);

/* Whether it sleeps. */
bool drm_card_sleeps(const struct drm_card *card);

/* Whether it may be read now (CLOCK_BOOTTIME). False: it sleeps, or would go to sleep if left
 * alone. in_use: one of its clients was seen. */
bool drm_card_may_read(struct drm_card *card, bool in_use, uint64_t now_ns);

/* Likewise from the contents of the files: status, control ("auto": it may sleep), delay until
 * then. */
bool drm_gate_may_read(struct drm_gate *gate, const char *status, const char *control, struct maybe delay_ms,
	bool in_use, uint64_t now_ns);

/* "amd", "intel", ... by PCI vendor; "" if unknown. */
const char *drm_card_vendor(const struct drm_card *card);
/* A display name if sysfs has none: "AMD GPU 1002:73bf", "arm,mali-t860". */
void drm_card_name(const struct drm_card *card, char *ret, size_t size);

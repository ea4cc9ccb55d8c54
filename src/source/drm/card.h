/* SPDX-License-Identifier: MIT
 *
 * The GPUs (and NPUs) that the kernel's DRM and accel classes show, told apart by PCI address, never by their number.
 * What is here reads nothing that a device would have to wake for.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/maybe.h"
#include "base/root.h"
#include "model/frame.h"

enum {
	DRM_CARDS = 256 /* most that are looked at */
};

/* When a device may be asked. One that falls asleep by itself is not woken, and not kept awake by being asked: while
 * nobody who can be seen uses it, it is asked for DRM_GATE_OPEN_NS (so that each group of a source has its turn) and then
 * left alone for twice the time after which it would go to sleep. */
enum {
	DRM_GATE_OPEN_NS = 1500000000
};
struct drm_gate {
	bool opened;
	uint64_t opened_ns; /* when it was last opened while nobody used it */
};

struct drm_card {
	char key[64];      /* PCI address, or "platform-NAME": what it is known by */
	char pci[16];      /* "" for a platform device */
	char driver[32];   /* of the kernel: "amdgpu", "i915" */
	char model[64];    /* platform device: "arm,mali-t860"; else "" */
	uint32_t vendor, device; /* PCI; 0: none */
	int32_t card;      /* N of cardN; -1: it has none */
	int32_t render;    /* N of renderDN or accelN; -1 likewise */
	bool accel;        /* of the accel class */
	int dir;           /* its device folder, O_PATH; -1: it is gone */
	int class_dir;     /* the folder cardN, O_PATH; -1: none */
	int hwmon;         /* its hwmon folder, O_PATH; -1: it has none */
	struct drm_gate gate;
};

struct drm_cards {
	struct drm_card *list;
	size_t n, cap;
};

/* Looks for devices that is_ours accepts and that can be computed or drawn on (a render or accel node). Those known
 * already stay where they are; one that was gone and is there again gets its folders anew. Returns how many are there,
 * or -errno. */
int drm_cards_scan(struct drm_cards *cards, const struct root *root, bool (*is_ours)(const struct drm_card *card));
void drm_cards_done(struct drm_cards *cards);

/* Closes its folders: it is gone until a scan finds it again. */
void drm_card_lose(struct drm_card *card);

/* The card that fdinfo speaks of: by PCI address, or for platform devices by driver. -1: none of them. */
int drm_cards_find(const struct drm_cards *cards, const char *pdev, const char *driver);

/* Does it sleep? */
bool drm_card_sleeps(const struct drm_card *card);

/* May it be asked now (CLOCK_BOOTTIME)? False: it sleeps, or would if it were left alone. in_use: some client of it was
 * seen. */
bool drm_card_may_ask(struct drm_card *card, bool in_use, uint64_t now_ns);

/* The same from what the files say: status, control ("auto": it may sleep), delay until then. */
bool drm_gate_may_ask(struct drm_gate *gate, const char *status, const char *control, struct maybe delay_ms, bool in_use,
	uint64_t now_ns);

/* "amd", "intel", ... by PCI vendor; "" if it is none that we know. */
const char *drm_card_vendor(const struct drm_card *card);
/* A name for people where sysfs has none: "AMD GPU 1002:73bf", "arm,mali-t860". */
void drm_card_name(const struct drm_card *card, char *ret, size_t size);

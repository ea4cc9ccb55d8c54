/* SPDX-License-Identifier: MIT
 *
 * The files with code that processes of the job have mapped, and where: a module is a file, an
 * image the modules of an address space. Files come from the job, so nothing in them is trusted:
 * only regular files are opened, and what is read has limits.
 *
 * Threads: image_* may be called from any; modules are made by image_add, and do not change
 * afterwards.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MODULE_SEGMENTS = 16,
	BUILD_ID_TEXT = 2 * 32 + 1,
};

struct module {
	uint32_t number;       /* from 1 */
	char *path;
	char build_id[BUILD_ID_TEXT]; /* "": it has none */
	bool is_elf;           /* 64 bits, of this machine */
	struct {
		uint64_t offset, address, bytes; /* in the file, in memory before relocation */
	} segments[MODULE_SEGMENTS];
	size_t n_segments;
	uint64_t first_address; /* of the first segment, aligned: where the file's address 0 is loaded,
		if it is relocated */
};

/* A mapping with PROT_EXEC. */
struct image_map {
	uint64_t start, end;
	const struct module *module;
	uint64_t bias;         /* an address in memory less the module's own address */
};

struct image;
struct record;

struct modules;
/* NULL: out of memory. proc: a descriptor of the folder of processes, borrowed. */
struct modules *modules_new(int proc);
void modules_free(struct modules *m);
/* Opens the module's file, if it is still the same one; -1: not. */
int module_open(const struct module *module);
/* Reads what the file at fd is. False: no module of this machine. */
bool module_read(int fd, struct module *ret);

/* An empty image of one process; NULL: out of memory. */
struct image *image_new(struct modules *m);
/* A forked process has the same one, until one of them maps a file. */
struct image *image_share(struct image *i);
void image_leave(struct image *i);
/* For others, such as samples, that need it later. */
struct image *image_ref(struct image *i);
void image_unref(struct image *i);

/* Adds a mapping to a process's *i, or, if processes share it or the mapping lies over an older
 * one, makes *i a copy with it. The process's own root is searched for the file first. */
void image_add(struct image **i, const struct record *map);
/* Copies the mappings from number `from` on; returns how many, at most `most`. */
size_t image_maps(struct image *i, size_t from, struct image_map *ret, size_t most);
/* The mapping at an address; false: there is none. */
bool image_find(struct image *i, uint64_t address, struct image_map *ret);
/* The lowest and highest address of code. */
void image_range(struct image *i, uint64_t *ret_low, uint64_t *ret_high);
/* Of what is code in a sample's copy of the stack, and where: samples with equal ones have equal stacks, nearly always (a
 * stale word that differs costs another unwinding, and no more). */
uint64_t image_fingerprint(struct image *i, const struct record *sample);
/* Where the thread was: of a fault inside a system call, at its entry. */
uint64_t record_place(const struct record *sample);
/* A line of /proc/PID/maps as the kernel's record of the mapping. False: it is no code of a file. */
bool map_of_line(const char *line, struct record *ret);
/* A number of the image, of which no other has it. */
uint64_t image_number(const struct image *i);

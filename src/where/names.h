/* SPDX-License-Identifier: MIT
 *
 * Names of places in modules: the function by the module's symbol table, file and line by its debug
 * information, if it has any (or the machine: /usr/lib/debug, and debuginfod where DEBUGINFOD_URLS
 * is set). When the run is over: large symbol tables take seconds.
 *
 * Code without a module is named by a perf map, /tmp/perf-PID.map: Python's with PYTHONPERFSUPPORT,
 * those of JVMs and of Node where their options write one. Only a map that belongs to this user or
 * to root is read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "where/module.h"

enum {
	NAME_BYTES = 1024,
};

/* A place's name; "": not known. */
struct place_name {
	char function[NAME_BYTES]; /* as the symbol table has it */
	char file[NAME_BYTES];
	uint32_t line;             /* 0: unknown */
};

struct names;
struct names *names_new(void); /* NULL: out of memory */
void names_free(struct names *n);

/* Names a module's place. Those of one module should follow each other. */
void names_of(struct names *n, const struct module *module, uint64_t offset, struct place_name *ret);
/* Removes the perf map of a process, if Python wrote it, it is this user's and no older than a time (CLOCK_REALTIME, seconds). */
void names_remove_map(pid_t pid, int64_t since_s);

/* Names an address of a process by a perf map. False: there is none that has it. */
bool names_of_map(struct names *n, pid_t pid, uint64_t address, struct place_name *ret);

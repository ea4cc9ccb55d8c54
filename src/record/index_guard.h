/* SPDX-License-Identifier: MIT
 *
 * Survives a program that truncates the index of a journal (NAME-shm), which SQLite maps: each access to
 * a page that the file no longer has raises SIGBUS. A process whose SIGBUS handler calls
 * index_guard_fault gets an empty page of its own there instead, and the connection counts as lost: what
 * SQLite reads or writes afterwards is of no use, so the caller rolls back and opens the file again.
 * This module installs no handler; without one, a fault ends the process as before.
 */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>

/* Guards what db has mapped by now; call it after opening and after each commit. db must be in WAL mode,
 * without exclusive locking, and have read the file. */
void index_guard_watch(sqlite3 *db);
/* Call it after db was closed. */
void index_guard_forget(const sqlite3 *db);

/* True if a page of db's index was replaced, or the index was emptied and made anew by another program. */
bool index_guard_lost(const sqlite3 *db);

/* For a SIGBUS handler: replaces the page at address if it is guarded. False: it is not; the fault is
 * another one. Async-signal-safe; errno is kept. */
bool index_guard_fault(const void *address);

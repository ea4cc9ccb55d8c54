/* SPDX-License-Identifier: MIT
 *
 * Finds the memory that the recorder shares with the job (model/trace_ring.h), and maps parts of it.
 *
 * The environment names the file and three ways to it; each is needed: a program may close descriptors
 * that it does not know, another user may not open the recorder's, and a container may hide /proc. A
 * descriptor is used only if it is that file, by device and inode, and if it cannot shrink. None is kept
 * open. Nothing waits for long, changes errno, is a cancellation point, or reports an error: NULL is
 * "there is no recorder".
 */
#pragma once

#include "model/trace_ring.h"

/* Page 0; NULL also if the run has ended. */
struct trace_ring *attach_ring(void);
void attach_unmap_ring(struct trace_ring *ring);

/* Slot n, from 0. */
struct trace_slot *attach_slot(unsigned n);
void attach_unmap_slot(struct trace_slot *slot);

/* Who this process is: pid, pid namespace and start, into a slot of its own. */
void attach_identify(struct trace_slot *slot);

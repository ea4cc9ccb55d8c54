/* SPDX-License-Identifier: MIT
 *
 * What the sampler sends to the recorder: highs with the frames, stacks and processes that they
 * need, each once. A recorder that does not read does not hold up the sampler. One thread.
 */
#pragma once

#include "where/names.h"
#include "where/tree.h"
#include "where/worker.h"

struct outbox;

/* NULL: out of memory. fd: a socket, borrowed. sample_bytes: that a sample stands for. */
struct outbox *outbox_new(int fd, uint64_t sample_bytes);
void outbox_free(struct outbox *o);

/* Lines of the caller's. */
struct buf *outbox_lines(struct outbox *o);

/* Are all samples of the high unwound? If not, they are handed to the worker. */
bool outbox_is_ready(const struct tree_high *high, struct worker *w);
void outbox_high(struct outbox *o, struct tree *t, struct tree_high *high, struct worker *w);
/* What was sent was lost: frames, stacks and processes are sent again with the highs that need them. */
void outbox_forget(struct outbox *o);
/* Sends names of all frames that were sent, as far as they are found until a time (clock_awake_ns).
 * */
void outbox_names(struct outbox *o, struct worker *w, struct names *n, uint64_t until_ns);

/* Writes what there is room for; or all of it, for at most that long. False: the recorder is gone.
 * */
bool outbox_send(struct outbox *o, int timeout_ms);

/* SPDX-License-Identifier: MIT */
#pragma once

#include "sink/sink.h"

/* SINK_PROGRESS. */
int progress_sink(const struct summary *s, const struct sink_options *o, struct buf *out);

/* SPDX-License-Identifier: MIT */
#pragma once

#include "sink/sink.h"

/* SINK_LINE. */
int line_sink(const struct summary *s, const struct sink_options *o, struct buf *out);

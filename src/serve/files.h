/* SPDX-License-Identifier: MIT
 *
 * Files for other programs: --textfile DIR for the collector of prometheus-node-exporter, --sd-file FILE
 * for Prometheus' file_sd_configs. Each is written under another name and renamed, so that no reader
 * sees half of it.
 */
#pragma once

#include "serve/listen.h"
#include "serve/serve.h"

/* Checks --textfile. Returns 0, or -errno with text. */
int files_prepare(const struct serve *s, char *why, size_t size);

/* Writes DIR/hiwater.prom: what a request without a token would get, since all users may read it. */
void files_write_metrics(struct serve *s);

/* Writes the TCP addresses that are listened on. Returns 0, or -errno with text. */
int files_write_targets(
	const struct serve *s, const struct listener *listeners, size_t n, char *why, size_t size);

/* Removes them: values of a server that has ended are no values. */
void files_remove(const struct serve *s);

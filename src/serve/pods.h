/* SPDX-License-Identifier: MIT
 *
 * The Kubernetes identity of a run: pod, namespace and container, from what its main process shows of
 * itself: the path of its cgroup, its mounts, and the variables of the Downward API. No API server is
 * asked.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct live_run;

/* What is known of a pod; "" where it is not. */
struct pod {
	char uid[64], name[256], namespace[256], container[80]; /* container: its id, 64 hex digits */
};

/* Each adds what it finds and ret lacks. True if the text shows a pod. */
bool pod_of_cgroup(const char *path, struct pod *ret);
bool pod_of_mountinfo(const char *text, struct pod *ret);
/* block: n bytes of NAME=VALUE, each with a NUL at its end. POD_NAME, POD_NAMESPACE and what they are
 * often called; HOSTNAME is the pod's name if it is in one. */
bool pod_of_environment(const char *block, size_t n, struct pod *ret);

/* Fills in the run's pod, namespace and container, and adds them to the labels. */
void pods_identify(struct live_run *run, const char *cgroup, struct buf *labels);

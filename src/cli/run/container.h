/* SPDX-License-Identifier: MIT
 *
 * attach --container: finds a container's processes, by the id in their cgroups, or by name through
 * the inspect command of docker, podman or nerdctl.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Finds the container called or identified by name. At most n processes are stored in pids, *ret_n is
 * their number. ret_cgroup is its cgroup, "" if only the processes are known. Returns 0, or an exit
 * status after a complaint. */
int container_choose(
	const char *name, char *ret_cgroup, size_t size, pid_t *pids, size_t n, size_t *ret_n);

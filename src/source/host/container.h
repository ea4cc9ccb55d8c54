/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include "base/root.h"

/* The container this machine is, by the traces that engines leave: "kubernetes", "docker",
 * "podman", "lxc", "apptainer", the name given to systemd, "wsl" by the kernel's release, or "".
 * Static. */
const char *machine_container(const struct root *root, const char *release);

/* Whether this process is in the initial pid namespace, where pids are the kernel's own. */
bool machine_first_pids(const struct root *root);

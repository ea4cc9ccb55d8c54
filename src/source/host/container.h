/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include "base/root.h"

/* The container that the machine is, by the marks that engines leave: "kubernetes", "docker", "podman", "lxc",
 * "apptainer", what systemd was told, "wsl" by the kernel's release, or "". Static. */
const char *machine_container(const struct root *root, const char *release);

/* Whether this process is in the pid namespace that the machine was booted with, where numbers are the kernel's own. */
bool machine_first_pids(const struct root *root);

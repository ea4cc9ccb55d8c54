/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/root.h"

/* The container that the machine is, by the marks that engines leave: "kubernetes", "docker", "podman", "lxc",
 * "apptainer", what systemd was told, "wsl" by the kernel's release, or "". Static. */
const char *machine_container(const struct root *root, const char *release);

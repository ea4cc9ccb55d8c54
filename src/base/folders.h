/* SPDX-License-Identifier: MIT */
#pragma once

/* Creates the folder and its missing parents, accessible only to this user. One that exists is left as it is. Returns 0 or -errno. */
int folders_make(const char *path);

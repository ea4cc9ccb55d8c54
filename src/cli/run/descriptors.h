/* SPDX-License-Identifier: MIT
 *
 * The descriptors that hiwater run inherited: once the job has them, hiwater gives them up, so that
 * a reader sees its end, and a lock is gone, when the job closes them.
 */
#pragma once

/* Closes every inherited descriptor except stderr; stdin and stdout become /dev/null. hiwater's own
 * descriptors are close-on-exec, by which they differ from inherited ones. */
void descriptors_release(void);

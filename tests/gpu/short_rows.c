// SPDX-License-Identifier: MIT
/* Requests a list of processes into rows that are too short for 535.43: a sanitizer build detects
 * that. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	void *driver = dlopen("libnvidia-ml.so.1", RTLD_NOW), *gpu;
	int (*init)(void) = (int (*)(void)) dlsym(driver, "nvmlInit_v2");
	int (*by_index)(unsigned, void **) = (int (*)(unsigned, void **)) dlsym(
		driver, "nvmlDeviceGetHandleByIndex_v2");
	int (*list)(void *, unsigned *, void *) = (int (*)(void *, unsigned *, void *)) dlsym(
		driver, "nvmlDeviceGetComputeRunningProcesses_v3");
	unsigned n = 2;
	char *rows = malloc(n * 24);

	if (init() != 0 || by_index(0, &gpu) != 0 || list(gpu, &n, rows) != 0)
		return 1;
	printf("%u processes\n", n);
	free(rows);
	return 0;
}

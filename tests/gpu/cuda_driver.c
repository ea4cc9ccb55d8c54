/* SPDX-License-Identifier: MIT */
#include "cuda_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

void cuda_check(const struct cuda *cuda, int code, const char *what)
{
	const char *name = NULL;

	if (code == 0)
		return;
	if (cuda->error_name)
		(void) cuda->error_name(code, &name);
	(void) fprintf(stderr, "cuda: %s: error %d %s\n", what, code, name ? name : "");
	exit(1);
}

static void load(struct cuda *ret)
{
	const char *wanted = getenv("HIWATER_CUDA");
	void *library = dlopen(wanted && *wanted ? wanted : "libcuda.so.1", RTLD_NOW);

	if (!library) {
		(void) fprintf(stderr, "cuda: no driver: %s\n", dlerror());
		exit(2);
	}
#define X(member, parameters, name) \
	*(void **) &ret->member = dlsym(library, name); \
	if (!ret->member) { \
		(void) fprintf(stderr, "cuda: the driver lacks %s\n", name); \
		exit(2); \
	}
	CUDA_CALLS(X)
#undef X
}

void cuda_open(struct cuda *ret)
{
	void *context;
	int device;

	*ret = (struct cuda) { .gpu = "" };
	load(ret);
	CUDA(ret, init, 0);
	CUDA(ret, device, &device, 0);
	CUDA(ret, name, ret->gpu, (int) sizeof(ret->gpu), device);
	CUDA(ret, attribute, &ret->sms, CUDA_SMS, device);
	CUDA(ret, attribute, &ret->threads_sm, CUDA_THREADS_SM, device);
	CUDA(ret, context, &context, device);
	CUDA(ret, use, context);
}

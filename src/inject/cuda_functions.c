/* SPDX-License-Identifier: MIT
 *
 * The functions of CUDA's driver that are followed, by their numbers in CUPTI, which never changed. A later
 * form of a function (_v2, _ptsz for a stream of its thread) has a number of its own.
 *
 * Functions that are newer than this table: those that launch or copy are found by their names, since
 * nothing of their arguments is read. New ways to allocate are not followed.
 */
#include <string.h>

#include "inject/cuda.h"

enum {
	LAST_KNOWN = 877, /* as of CUDA 13.5 */
};

/* The forms of before CUDA 3.2, which have 32-bit addresses, are left out. */
static const struct row {
	uint16_t first, last;
	uint8_t class; /* enum cuda_class */
	uint8_t act;   /* enum cuda_act */
} rows[] = {
	{ 243, 243, CUDA_MEMORY, CUDA_LINEAR },      /* cuMemAlloc_v2 */
	{ 598, 599, CUDA_MEMORY, CUDA_LINEAR },      /* cuMemAllocAsync */
	{ 611, 612, CUDA_MEMORY, CUDA_LINEAR },      /* cuMemAllocFromPoolAsync */
	{ 244, 244, CUDA_MEMORY, CUDA_PITCH },       /* cuMemAllocPitch_v2 */
	{ 371, 371, CUDA_MEMORY, CUDA_MANAGED },     /* cuMemAllocManaged */
	{ 245, 245, CUDA_MEMORY, CUDA_FREE },        /* cuMemFree_v2 */
	{ 600, 601, CUDA_MEMORY, CUDA_FREE },        /* cuMemFreeAsync */
	{ 39, 39, CUDA_MEMORY, CUDA_PINNED },        /* cuMemHostAlloc */
	{ 271, 271, CUDA_MEMORY, CUDA_PINNED },      /* cuMemHostAlloc_v2 */
	{ 294, 294, CUDA_MEMORY, CUDA_PINNED },      /* cuMemAllocHost_v2 */
	{ 301, 301, CUDA_MEMORY, CUDA_REGISTER },    /* cuMemHostRegister */
	{ 379, 379, CUDA_MEMORY, CUDA_REGISTER },    /* cuMemHostRegister_v2 */
	{ 38, 38, CUDA_MEMORY, CUDA_PINNED_FREE },   /* cuMemFreeHost */
	{ 302, 302, CUDA_MEMORY, CUDA_PINNED_FREE }, /* cuMemHostUnregister */
	{ 272, 272, CUDA_MEMORY, CUDA_ARRAY },       /* cuArrayCreate_v2 */
	{ 274, 274, CUDA_MEMORY, CUDA_ARRAY_3D },    /* cuArray3DCreate_v2 */
	{ 347, 347, CUDA_MEMORY, CUDA_MIPMAPPED },   /* cuMipmappedArrayCreate */
	{ 89, 89, CUDA_MEMORY, CUDA_ARRAY_FREE },    /* cuArrayDestroy */
	{ 349, 349, CUDA_MEMORY, CUDA_ARRAY_FREE },  /* cuMipmappedArrayDestroy */
	{ 549, 549, CUDA_MEMORY, CUDA_CREATE },      /* cuMemCreate */
	{ 565, 565, CUDA_MEMORY, CUDA_RETAIN },      /* cuMemRetainAllocationHandle */
	{ 555, 555, CUDA_MEMORY, CUDA_IMPORT },      /* cuMemImportFromShareableHandle */
	{ 706, 706, CUDA_MEMORY, CUDA_IMPORT },      /* cuMulticastCreate */
	{ 550, 550, CUDA_MEMORY, CUDA_RELEASE },     /* cuMemRelease */
	{ 551, 551, CUDA_MEMORY, CUDA_MAP },         /* cuMemMap */
	{ 552, 552, CUDA_MEMORY, CUDA_UNMAP },       /* cuMemUnmap */

	{ 307, 307, CUDA_LAUNCH, 0 }, /* cuLaunchKernel */
	{ 442, 442, CUDA_LAUNCH, 0 },
	{ 477, 478, CUDA_LAUNCH, 0 }, /* cuLaunchCooperativeKernel */
	{ 480, 480, CUDA_LAUNCH, 0 }, /* cuLaunchCooperativeKernelMultiDevice */
	{ 514, 515, CUDA_LAUNCH, 0 }, /* cuGraphLaunch */
	{ 652, 653, CUDA_LAUNCH, 0 }, /* cuLaunchKernelEx */

	{ 216, 216, CUDA_LAUNCH, 0 }, /* cuMemsetD8Async; each other number is that of another function */
	{ 218, 218, CUDA_LAUNCH, 0 },
	{ 220, 220, CUDA_LAUNCH, 0 },
	{ 222, 222, CUDA_LAUNCH, 0 },
	{ 224, 224, CUDA_LAUNCH, 0 },
	{ 226, 226, CUDA_LAUNCH, 0 },
	{ 249, 254, CUDA_LAUNCH, 0 }, /* cuMemsetD8_v2 to cuMemsetD2D32_v2 */
	{ 276, 293, CUDA_LAUNCH, 0 }, /* cuMemcpyHtoD_v2 to cuMemcpyHtoAAsync_v2 */
	{ 305, 306, CUDA_LAUNCH, 0 }, /* cuMemcpy, cuMemcpyAsync */
	{ 318, 321, CUDA_LAUNCH, 0 }, /* cuMemcpyPeer to cuMemcpy3DPeerAsync */
	{ 397, 416, CUDA_LAUNCH, 0 }, /* all of these on the stream of the thread */
	{ 418, 433, CUDA_LAUNCH, 0 },
	{ 776, 779, CUDA_LAUNCH, 0 }, /* cuMemcpyBatchAsync, cuMemcpy3DBatchAsync */
	{ 796, 799, CUDA_LAUNCH, 0 },
	{ 837, 840, CUDA_LAUNCH, 0 }, /* cuMemcpyWithAttributesAsync */

	{ 17, 17, CUDA_WAIT, 0 },   /* cuCtxSynchronize */
	{ 121, 121, CUDA_WAIT, 0 }, /* cuEventSynchronize */
	{ 126, 126, CUDA_WAIT, 0 }, /* cuStreamSynchronize */
	{ 440, 440, CUDA_WAIT, 0 },
	{ 800, 800, CUDA_WAIT, 0 },
	{ 308, 309, CUDA_WAIT, 0 }, /* cuProfilerStart, cuProfilerStop */

	/* These allocate what no call names: code, stacks, constants. */
	{ 10, 10, CUDA_FAILURE, 0 },   /* cuCtxCreate */
	{ 235, 235, CUDA_FAILURE, 0 },
	{ 645, 645, CUDA_FAILURE, 0 },
	{ 757, 757, CUDA_FAILURE, 0 },
	{ 386, 386, CUDA_FAILURE, 0 }, /* cuDevicePrimaryCtxRetain */
	{ 18, 21, CUDA_FAILURE, 0 },   /* cuModuleLoad to cuModuleLoadFatBinary */
	{ 678, 679, CUDA_FAILURE, 0 }, /* cuLibraryLoadData, cuLibraryLoadFromFile */
	{ 513, 513, CUDA_FAILURE, 0 }, /* cuGraphInstantiate */
	{ 578, 578, CUDA_FAILURE, 0 },
	{ 643, 643, CUDA_FAILURE, 0 },
	{ 656, 657, CUDA_FAILURE, 0 },
	{ 638, 638, CUDA_FAILURE, 0 }, /* cuGraphAddMemAllocNode */

	{ 11, 11, CUDA_DESTROY, 0 },   /* cuCtxDestroy */
	{ 322, 322, CUDA_DESTROY, 0 },
	{ 387, 387, CUDA_DESTROY, 0 }, /* cuDevicePrimaryCtxRelease */
	{ 389, 389, CUDA_DESTROY, 0 }, /* cuDevicePrimaryCtxReset */
	{ 544, 545, CUDA_DESTROY, 0 },
};

/* Beginnings of names: functions that begin and end captures, and launches that came after LAST_KNOWN. */
static const char begins_capture[] = "cuStreamBeginCapture", ends_capture[] = "cuStreamEndCapture";
static const char *const launches[] = { "cuLaunch", "cuGraphLaunch", "cuMemcpy", "cuMemset" };

static bool is_launch(const char *name)
{
	if (strncmp(name, "cuLaunchHostFunc", strlen("cuLaunchHostFunc")) == 0)
		return false;
	for (size_t i = 0; i < sizeof(launches) / sizeof(launches[0]); i++) {
		if (strncmp(name, launches[i], strlen(launches[i])) == 0)
			return true;
	}
	return false;
}

void cuda_functions(struct cuda_function ret[CUPTI_CBIDS])
{
	const char *name;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (unsigned cbid = rows[i].first; cbid <= rows[i].last; cbid++)
			ret[cbid] = (struct cuda_function) { .class = rows[i].class, .act = rows[i].act };
	}
	for (unsigned cbid = 1; cuda_cupti.callback_name && cbid < CUPTI_CBIDS; cbid++) {
		name = NULL;
		if (ret[cbid].class != CUDA_NOT_FOLLOWED ||
			cuda_cupti.callback_name(CUPTI_DRIVER, cbid, &name) != CUPTI_OK || !name)
			continue;
		if (strncmp(name, begins_capture, sizeof(begins_capture) - 1) == 0)
			ret[cbid].class = CUDA_CAPTURE_BEGINS;
		else if (strncmp(name, ends_capture, sizeof(ends_capture) - 1) == 0)
			ret[cbid].class = CUDA_CAPTURE_ENDS;
		else if (cbid > LAST_KNOWN && is_launch(name))
			ret[cbid].class = CUDA_LAUNCH;
	}
}

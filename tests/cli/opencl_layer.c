/* SPDX-License-Identifier: MIT
 *
 * A layer of OpenCL's loader that is not hiwater's: counts kernels, and queues without profiling, and prints
 * both when the process ends.
 */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl_layer.h>
#include <stdio.h>
#include <string.h>

static cl_icd_dispatch next, ours;
static int kernels, unprofiled;

static CL_API_ENTRY cl_int CL_API_CALL enqueue(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
	const size_t *offset, const size_t *global, const size_t *local, cl_uint waits, const cl_event *list, cl_event *event)
{
	kernels++;
	return next.clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, waits, list, event);
}

static CL_API_ENTRY cl_command_queue CL_API_CALL create(cl_context context, cl_device_id device,
	cl_command_queue_properties properties, cl_int *error)
{
	unprofiled += !(properties & CL_QUEUE_PROFILING_ENABLE);
	return next.clCreateCommandQueue(context, device, properties, error);
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t size, void *value, size_t *size_ret)
{
	static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;

	if (what != CL_LAYER_API_VERSION || (value && size < sizeof version))
		return CL_INVALID_VALUE;
	if (value)
		memcpy(value, &version, sizeof version);
	if (size_ret)
		*size_ret = sizeof version;
	return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint places, const cl_icd_dispatch *target, cl_uint *places_ret,
	const cl_icd_dispatch **layer_ret)
{
	size_t bytes = places * sizeof(void *) < sizeof next ? places * sizeof(void *) : sizeof next;

	memcpy(&next, target, bytes);
	memcpy(&ours, target, bytes);
	ours.clEnqueueNDRangeKernel = enqueue;
	ours.clCreateCommandQueue = create;
	*places_ret = (cl_uint) (bytes / sizeof(void *));
	*layer_ret = &ours;
	return CL_SUCCESS;
}

static __attribute__((destructor)) void print(void)
{
	printf("layer kernels %d unprofiled %d\n", kernels, unprofiled);
}

/* SPDX-License-Identifier: MIT
 *
 * A job that uses OpenCL and prints what it knows of it, for tests/cli/test_trace_opencl.py: opencl_job WHAT [N]
 *
 *     times      kernels, copies and fills in a queue with profiling, a line each with the runtime's own times
 *     hidden     what a program sees that asked for no profiling, or for some
 *     many N     N empty kernels without events, out of order if "ooo" follows
 *     profiled N the same with what any tracer needs: profiling, an event each, a callback that asks for its times
 *     memory     buffers and their sizes
 *     leave      ends with 5 kernels in flight, after 1
 *     kill N     N empty kernels, then SIGKILL
 *     fork       forks after it has used OpenCL; the child ends at once
 *     nested     enqueues a kernel in a callback
 */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char source[] =
	"kernel void empty() {}\n"
	"kernel void scale(global float *a, float f) { a[get_global_id(0)] *= f; }\n"
	"kernel void spin(global float *a, int n) {\n"
	"	float x = a[get_global_id(0)];\n"
	"	for (int i = 0; i < n; i++) x = x * 1.0001f + 0.5f;\n"
	"	a[get_global_id(0)] = x;\n"
	"}\n";

enum {
	BYTES = 1 << 20,
	FLOATS = BYTES / sizeof(float),
};

static cl_device_id device;
static cl_context context;
static cl_program program;

#define CHECK(call) \
	do { \
		cl_int check_error = (call); \
		if (check_error != CL_SUCCESS) { \
			fprintf(stderr, "%s: %d\n", #call, check_error); \
			exit(2); \
		} \
	} while (0)

static void begin(void)
{
	const char *text = source;
	cl_platform_id platform;
	cl_int error;

	CHECK(clGetPlatformIDs(1, &platform, NULL));
	CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
	context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
	CHECK(error);
	program = clCreateProgramWithSource(context, 1, &text, NULL, &error);
	CHECK(error);
	CHECK(clBuildProgram(program, 1, &device, "", NULL, NULL));
}

static cl_kernel kernel(const char *name)
{
	cl_int error;
	cl_kernel k = clCreateKernel(program, name, &error);

	CHECK(error);
	return k;
}

static cl_command_queue queue(cl_command_queue_properties properties)
{
	cl_int error;
	cl_command_queue q = clCreateCommandQueue(context, device, properties, &error);

	CHECK(error);
	return q;
}

static cl_mem buffer(size_t bytes)
{
	cl_int error;
	cl_mem m = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &error);

	CHECK(error);
	return m;
}

static void print_times(const char *kind, const char *name, size_t bytes, cl_event event)
{
	cl_ulong t[4];

	for (cl_uint i = 0; i < 4; i++)
		CHECK(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_QUEUED + i, sizeof *t, &t[i], NULL));
	printf("%s %s %zu %lu %lu %lu %lu\n", kind, name, bytes, t[0], t[1], t[2], t[3]);
	CHECK(clReleaseEvent(event));
}

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void times(void)
{
	static float host[FLOATS];
	cl_command_queue q = queue(CL_QUEUE_PROFILING_ENABLE);
	cl_kernel scale = kernel("scale"), spin = kernel("spin");
	cl_mem a = buffer(BYTES), b = buffer(BYTES);
	size_t global = FLOATS, local = 64;
	float factor = 2, pattern = 1;
	char name[256];
	cl_event e[12];
	cl_int n;

	CHECK(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL));
	printf("device %s\n", name);
	CHECK(clSetKernelArg(scale, 0, sizeof a, &a));
	CHECK(clSetKernelArg(scale, 1, sizeof factor, &factor));
	CHECK(clSetKernelArg(spin, 0, sizeof a, &a));
	CHECK(clEnqueueFillBuffer(q, a, &pattern, sizeof pattern, 0, BYTES, 0, NULL, &e[0]));
	CHECK(clEnqueueWriteBuffer(q, b, CL_TRUE, 0, BYTES, host, 0, NULL, &e[1]));
	CHECK(clEnqueueWriteBuffer(q, b, CL_FALSE, 0, 4096, host, 0, NULL, &e[2]));
	for (int i = 0; i < 3; i++) {
		n = 1 + 100 * i;
		CHECK(clSetKernelArg(spin, 1, sizeof n, &n));
		CHECK(clEnqueueNDRangeKernel(q, spin, 1, NULL, &global, &local, 0, NULL, &e[3 + i]));
	}
	for (int i = 0; i < 4; i++)
		CHECK(clEnqueueNDRangeKernel(q, scale, 1, NULL, &global, NULL, 0, NULL, &e[6 + i]));
	CHECK(clEnqueueCopyBuffer(q, a, b, 0, 0, BYTES / 2, 0, NULL, &e[10]));
	CHECK(clEnqueueReadBuffer(q, a, CL_TRUE, 0, BYTES, host, 0, NULL, &e[11]));
	CHECK(clFinish(q));
	print_times("fill", "clEnqueueFillBuffer", BYTES, e[0]);
	print_times("copy", "clEnqueueWriteBuffer", BYTES, e[1]);
	print_times("copy", "clEnqueueWriteBuffer", 4096, e[2]);
	for (int i = 0; i < 3; i++)
		print_times("kernel", "spin", 0, e[3 + i]);
	for (int i = 0; i < 4; i++)
		print_times("kernel", "scale", 0, e[6 + i]);
	print_times("copy", "clEnqueueCopyBuffer", BYTES / 2, e[10]);
	print_times("copy", "clEnqueueReadBuffer", BYTES, e[11]);
	CHECK(clReleaseMemObject(a));
	CHECK(clReleaseMemObject(b));
	CHECK(clReleaseKernel(scale));
	CHECK(clReleaseKernel(spin));
	CHECK(clReleaseCommandQueue(q));
}

/* Everything that could give the layer away. */
static void print_seen(const char *name, cl_command_queue q)
{
	cl_command_queue_properties properties = 99;
	cl_queue_properties list[8] = { 99 };
	size_t bytes = 99;
	cl_uint references = 99;
	cl_kernel empty = kernel("empty");
	cl_ulong t = 77;
	cl_event e, gate;
	cl_int error;

	CHECK(clGetCommandQueueInfo(q, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL));
	printf("%s properties %lu\n", name, properties);
	printf("%s list %d", name, clGetCommandQueueInfo(q, CL_QUEUE_PROPERTIES_ARRAY, sizeof list, list, &bytes));
	printf(" %zu", bytes);
	for (size_t i = 0; i < bytes / sizeof *list; i++)
		printf(" %lu", list[i]);
	printf("\n%s short list %d\n", name, clGetCommandQueueInfo(q, CL_QUEUE_PROPERTIES_ARRAY, 1, list, &bytes));
	/* While it cannot begin, its references do not change. */
	gate = clCreateUserEvent(context, &error);
	CHECK(clEnqueueTask(q, empty, 1, &gate, &e));
	CHECK(clGetEventInfo(e, CL_EVENT_REFERENCE_COUNT, sizeof references, &references, NULL));
	printf("%s references %d\n", name, references);
	CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
	CHECK(clFinish(q));
	CHECK(clReleaseEvent(gate));
	printf("%s time %d", name, clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_START, sizeof t, &t, NULL));
	printf(" %d\n", t != 77);
	CHECK(clReleaseEvent(e));
	CHECK(clReleaseKernel(empty));
}

static void hidden(void)
{
	cl_queue_properties ordered[] = { CL_QUEUE_PROPERTIES, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0 };
	cl_queue_properties profiled[] = { CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0 };
	cl_queue_properties wrong[] = { 12345, 1, 0 };
	cl_command_queue q;
	cl_int error;

	q = queue(0);
	print_seen("plain", q);
	CHECK(clReleaseCommandQueue(q));
	q = queue(CL_QUEUE_PROFILING_ENABLE);
	print_seen("profiled", q);
	CHECK(clReleaseCommandQueue(q));
	q = clCreateCommandQueueWithProperties(context, device, NULL, &error);
	print_seen("none", q);
	CHECK(clReleaseCommandQueue(q));
	q = clCreateCommandQueueWithProperties(context, device, ordered, &error);
	print_seen("ordered", q);
	CHECK(clReleaseCommandQueue(q));
	q = clCreateCommandQueueWithProperties(context, device, profiled, &error);
	print_seen("list", q);
	CHECK(clReleaseCommandQueue(q));
	q = clCreateCommandQueueWithProperties(context, device, wrong, &error);
	printf("wrong %d %d\n", q != NULL, error);
	q = clCreateCommandQueue(context, device, 1 << 20, &error);
	printf("wrong bits %d %d\n", q != NULL, error);
	printf("no queue %d\n", clFinish(NULL));
	printf("no event %d\n", clGetEventProfilingInfo(NULL, CL_PROFILING_COMMAND_START, 8, &error, NULL));
}

static void many(int n, cl_command_queue_properties properties)
{
	cl_command_queue q = queue(properties);
	cl_kernel empty = kernel("empty");
	long long begun, ended;
	size_t one = 1;

	CHECK(clEnqueueNDRangeKernel(q, empty, 1, NULL, &one, &one, 0, NULL, NULL)); /* compiles it */
	CHECK(clFinish(q));
	begun = now();
	for (int i = 1; i < n; i++)
		CHECK(clEnqueueNDRangeKernel(q, empty, 1, NULL, &one, &one, 0, NULL, NULL));
	CHECK(clFinish(q));
	ended = now();
	printf("many %d %lld\n", n, ended - begun);
	CHECK(clReleaseKernel(empty));
	CHECK(clReleaseCommandQueue(q));
}

static void CL_CALLBACK ask_times(cl_event event, cl_int status, void *data)
{
	cl_ulong t;

	(void) status;
	(void) data;
	for (cl_uint i = 0; i < 4; i++)
		clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_QUEUED + i, sizeof t, &t, NULL);
	clReleaseEvent(event);
}

static void profiled(int n)
{
	cl_command_queue q = queue(CL_QUEUE_PROFILING_ENABLE);
	cl_kernel empty = kernel("empty");
	long long begun, ended;
	size_t one = 1;
	cl_event e;

	CHECK(clEnqueueNDRangeKernel(q, empty, 1, NULL, &one, &one, 0, NULL, NULL));
	CHECK(clFinish(q));
	begun = now();
	for (int i = 1; i < n; i++) {
		CHECK(clEnqueueNDRangeKernel(q, empty, 1, NULL, &one, &one, 0, NULL, &e));
		CHECK(clSetEventCallback(e, CL_COMPLETE, ask_times, NULL));
	}
	CHECK(clFinish(q));
	ended = now();
	printf("profiled %d %lld\n", n, ended - begun);
}

static void CL_CALLBACK count_gone(cl_mem mem, void *data)
{
	(void) mem;
	++*(int *) data;
}

static void memory(void)
{
	cl_mem a = buffer(1 << 20), b = buffer(2 << 20), part, c;
	cl_buffer_region region = { 0, 4096 };
	static char own[4096];
	int gone = 0;
	cl_int error;
	void *svm;

	part = clCreateSubBuffer(a, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
	CHECK(error);
	CHECK(clSetMemObjectDestructorCallback(a, count_gone, &gone));
	CHECK(clRetainMemObject(b));
	CHECK(clReleaseMemObject(b));
	c = buffer(3 << 20); /* 6 MiB: the peak */
	CHECK(clReleaseMemObject(b));
	CHECK(clReleaseMemObject(a)); /* its part keeps it */
	svm = clSVMAlloc(context, CL_MEM_READ_WRITE, 1 << 19, 0);
	clSVMFree(context, svm);
	CHECK(clReleaseMemObject(part));
	CHECK(clReleaseMemObject(c));
	c = clCreateBuffer(context, CL_MEM_USE_HOST_PTR, sizeof own, own, &error);
	CHECK(error);
	CHECK(clReleaseMemObject(c));
	printf("gone %d\n", gone);
	c = clCreateBuffer(context, 0, (size_t) 1 << 50, NULL, &error);
	printf("too large %d %d\n", c != NULL, error);
	c = clCreateBuffer(context, 0, 0, NULL, &error);
	printf("empty %d %d\n", c != NULL, error);
}

static void leave(void)
{
	cl_command_queue q = queue(0);
	cl_kernel empty = kernel("empty");
	size_t one = 1;
	cl_int error;
	cl_event user = clCreateUserEvent(context, &error);

	CHECK(error);
	CHECK(clEnqueueNDRangeKernel(q, empty, 1, NULL, &one, &one, 0, NULL, NULL));
	CHECK(clFinish(q));
	for (int i = 0; i < 5; i++)
		CHECK(clEnqueueNDRangeKernel(q, empty, 1, NULL, &one, &one, 1, &user, NULL));
	CHECK(clFlush(q));
	fflush(stdout);
	exit(7);
}

static void die(int n)
{
	many(n, 0);
	fflush(stdout);
	raise(SIGKILL);
}

static void forked(void)
{
	pid_t pid;
	int status;

	many(100, 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		exit(3);
	waitpid(pid, &status, 0);
	printf("child %d\n", WEXITSTATUS(status));
	many(100, 0);
}

static cl_command_queue nested_queue;
static cl_kernel nested_kernel;

static void CL_CALLBACK enqueue_more(cl_event event, cl_int status, void *data)
{
	size_t one = 1;

	(void) event;
	(void) status;
	(void) data;
	CHECK(clEnqueueNDRangeKernel(nested_queue, nested_kernel, 1, NULL, &one, &one, 0, NULL, NULL));
}

static void nested(void)
{
	size_t one = 1;
	cl_event e;

	nested_queue = queue(0);
	nested_kernel = kernel("empty");
	for (int i = 0; i < 20; i++) {
		CHECK(clEnqueueNDRangeKernel(nested_queue, nested_kernel, 1, NULL, &one, &one, 0, NULL, &e));
		CHECK(clSetEventCallback(e, CL_COMPLETE, enqueue_more, NULL));
		CHECK(clWaitForEvents(1, &e));
		CHECK(clReleaseEvent(e));
	}
	CHECK(clFinish(nested_queue));
	usleep(1000);
	CHECK(clFinish(nested_queue));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	begin();
	if (strcmp(what, "times") == 0)
		times();
	else if (strcmp(what, "hidden") == 0)
		hidden();
	else if (strcmp(what, "many") == 0)
		many(argc > 2 ? (int) strtol(argv[2], NULL, 10) : 100,
			argc > 3 ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0);
	else if (strcmp(what, "profiled") == 0)
		profiled(argc > 2 ? (int) strtol(argv[2], NULL, 10) : 100);
	else if (strcmp(what, "memory") == 0)
		memory();
	else if (strcmp(what, "leave") == 0)
		leave();
	else if (strcmp(what, "kill") == 0)
		die(argc > 2 ? (int) strtol(argv[2], NULL, 10) : 100);
	else if (strcmp(what, "fork") == 0)
		forked();
	else if (strcmp(what, "nested") == 0)
		nested();
	else
		return 1;
	return 0;
}

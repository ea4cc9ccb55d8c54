/* SPDX-License-Identifier: MIT
 *
 * The plumbing: functions that touch memory on behalf of their caller. A row of hiwater where has the innermost
 * function that is not in these lists. docs/where.md describes them.
 */
#include <string.h>

#include "sink/where/where_view.h"

/* Beginnings of file names of which every function is plumbing. */
static const char *const libraries[] = {
	"libc.so",
	"libc-2.",
	"libc.musl",
	"ld-linux",
	"ld-musl",
	"ld-2.",
	"ld.so",
	"ld64.so",
	"libpthread",
	"libdl.",
	"libgcc_s",
	"libjemalloc",
	"libtcmalloc",
	"libmimalloc",
	"libhoard",
	"libtbbmalloc",
	"librpmalloc",
	"libsnmalloc",
	"linux-vdso",
	"[vdso]",
};

/* As symbol tables have them; an asterisk at the end stands for any text. */
static const char *const functions[] = {
	/* C: of static programs, and of allocators that are linked into one. */
	"malloc",
	"calloc",
	"realloc",
	"reallocarray",
	"free",
	"memalign",
	"aligned_alloc",
	"posix_memalign",
	"valloc",
	"pvalloc",
	"__libc_malloc*",
	"__libc_calloc*",
	"__libc_realloc*",
	"__libc_memalign*",
	"_int_malloc*",
	"_int_free*",
	"_int_realloc*",
	"_int_memalign*",
	"sysmalloc*",
	"malloc_consolidate*",
	"tcache_init*",
	"__malloc_*",
	"arena_get2*",
	"new_heap",
	"ptmalloc_*",
	"unlink_chunk*",
	"systrim*",
	"brk",
	"sbrk",
	"__brk",
	"__sbrk",
	"__default_morecore",
	"mmap",
	"mmap64",
	"__mmap*",
	"mremap",
	"__mremap*",
	"strdup",
	"__strdup",
	"strndup",
	"__strndup",
	"memset",
	"__memset*",
	"memcpy",
	"__memcpy*",
	"memmove",
	"__memmove*",
	"mempcpy",
	"__mempcpy*",
	"bzero",
	"explicit_bzero",
	"wmemset",
	"__wmemset*",
	"strcpy",
	"__strcpy*",
	"strncpy",
	"__strncpy*",
	"stpcpy",
	"__stpcpy*",
	/* Other allocators. */
	"je_*",
	"_rjem_*",
	"jemalloc*",
	"tc_malloc*",
	"tc_calloc*",
	"tc_realloc*",
	"tc_new*",
	"tc_memalign*",
	"tc_posix_memalign*",
	"_ZN8tcmalloc*",
	"mi_malloc*",
	"mi_calloc*",
	"mi_realloc*",
	"mi_zalloc*",
	"mi_rezalloc*",
	"mi_heap_*",
	"mi_new*",
	"mi_free*",
	"_mi_*",
	"rpmalloc*",
	"rpcalloc*",
	"rprealloc*",
	"scalable_*alloc*",
	"xmalloc",
	"xcalloc",
	"xrealloc",
	"xzalloc",
	"g_malloc*",
	"g_realloc*",
	"g_slice_alloc*",
	"g_try_malloc*",
	/* C++: operator new, and namespaces std and __gnu_cxx, whose containers allocate for others. */
	"_Znw*",
	"_Zna*",
	"_ZdlPv*",
	"_ZdaPv*",
	"_ZSt*",
	"_ZNSt*",
	"_ZNKSt*",
	"_ZNSs*",
	"_ZNKSs*",
	"_ZNSa*",
	"_ZNKSa*",
	"_ZN9__gnu_cxx*",
	"_ZNK9__gnu_cxx*",
	/* Rust and Go. */
	"__rust_*",
	"__rdl_*",
	"__rg_*",
	"_ZN5alloc*17h*",
	"_ZN4core*17h*",
	"runtime.*",
	/* Python's allocators, object constructors and collector. */
	"PyObject_Malloc*",
	"PyObject_Calloc*",
	"PyObject_Realloc*",
	"PyObject_Free*",
	"_PyObject_Malloc*",
	"_PyObject_Calloc*",
	"_PyObject_Realloc*",
	"_PyObject_Alloc*",
	"_PyObject_Free*",
	"_PyObject_Arena*",
	"_PyObject_New*",
	"_PyObject_GC_*",
	"PyObject_GC_New*",
	"PyObject_Init*",
	"_PyObject_Init*",
	"PyMem_*",
	"_PyMem_*",
	"pymalloc_*",
	"new_arena",
	"arena_map_*",
	"allocate_from_new_pool*",
	"gc_alloc*",
	"PyType_GenericAlloc*",
	"_PyType_AllocNoTrack*",
	"_PyArena_*",
	"PyArena_*",
	"PyDataMem_*",
	"npy_alloc_cache*",
	"default_malloc",
	"default_calloc",
	"default_realloc",
	"PyTraceMalloc_*",
	"tracemalloc_*",
	/* Others: V8, Julia, R, Ruby, Perl, GPU frameworks' allocators of host memory. */
	"_ZN2v88internal4Heap*",
	"_ZN2v88internal7Factory*",
	"_ZN2v88internal13HeapAllocator*",
	"_ZN2v88internal10PagedSpace*",
	"_ZN2v84base2OS8Allocate*",
	"jl_gc_*",
	"ijl_gc_*",
	"jl_alloc_*",
	"ijl_alloc_*",
	"Rf_alloc*",
	"R_alloc*",
	"ruby_x*alloc*",
	"objspace_*alloc*",
	"rb_gc_impl_*",
	"Perl_safesys*",
	"Perl_sv_grow*",
	"_ZN3c1010alloc_cpu*",
	"_ZN3c1019DefaultCPUAllocator*",
	"_ZNK3c1019DefaultCPUAllocator*",
	/* The loader and the start of programs and threads. */
	"_dl_*",
	"_start",
	"__libc_start_*",
	"__libc_setup_tls*",
	"start_thread",
	"clone3",
	"__clone*",
};

/* Of libjvm.so alone: the heap and the virtual machine's own allocators. */
static const char *const jvm[] = {
	"_ZN2os6malloc*",
	"_ZN2os7realloc*",
	"_ZN2os13commit_memory*",
	"_ZN2os16pretouch_memory*",
	"_ZN12AllocateHeap*",
	"_Z12AllocateHeap*",
	"_Z14ReallocateHeap*",
	"_ZN5Arena*",
	"_ZN9ChunkPool*",
	"_ZN12MemAllocator*",
	"_ZNK12MemAllocator*",
	"_ZNK17ObjArrayAllocator*",
	"_ZN13CollectedHeap*",
	"_ZN4Copy*",
	"_ZN15G1CollectedHeap*",
	"_ZN12VirtualSpace*",
	"_ZN13MetaspaceArena*",
	"_ZN9metaspace*",
};

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* Asterisks in the middle stand for any text too. */
static bool matches(const char *text, const char *pattern)
{
	const char *star = strchr(pattern, '*'), *found;

	if (!star)
		return strcmp(text, pattern) == 0;
	if (strncmp(text, pattern, (size_t) (star - pattern)) != 0)
		return false;
	text += star - pattern;
	pattern = star + 1;
	if (!*pattern)
		return true;
	for (found = text; *found; found++) {
		if (matches(found, pattern))
			return true;
	}
	return false;
}

static bool is_in(const char *function, const char *const *patterns, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (matches(function, patterns[i]))
			return true;
	}
	return false;
}

bool where_is_plumbing(const char *library, const char *function)
{
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		if (begins(library, libraries[i]))
			return true;
	}
	if (!*function)
		return false;
	return is_in(function, functions, sizeof(functions) / sizeof(functions[0])) ||
	       (begins(library, "libjvm.so") && is_in(function, jvm, sizeof(jvm) / sizeof(jvm[0])));
}

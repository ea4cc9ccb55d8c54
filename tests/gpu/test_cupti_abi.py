# SPDX-License-Identifier: MIT
"""What src/inject/cupti.h says of CUPTI, against CUPTI itself: offsets and numbers against its headers, steps through a
buffer of records by its library, which needs no GPU for that up to 13.0.

Where they are: a toolkit (/usr/local/cuda*), packages of Python (nvidia-cuda-cupti, nvidia-cuda-runtime for cuda.h), and the
folders in HIWATER_CUPTI_FOLDERS, separated by colons, each with include/ and lib/."""
import ctypes
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
INJECT = ROOT / "src" / "inject"
FIELDS = {  # ours: theirs
    "cupti_kernel": ("Kernel", {
        "registers": "registersPerThread", "start": "start", "end": "end", "device": "deviceId", "context": "contextId",
        "stream": "streamId", "grid": "gridX", "block": "blockX", "shared_static": "staticSharedMemory",
        "shared_dynamic": "dynamicSharedMemory", "correlation": "correlationId", "name": "name", "queued": "queued",
        "submitted": "submitted", "node": "graphNodeId"}),
    "cupti_memcpy": ("Memcpy", {
        "direction": "copyKind", "source": "srcKind", "target": "dstKind", "bytes": "bytes", "start": "start", "end": "end",
        "device": "deviceId", "context": "contextId", "stream": "streamId", "correlation": "correlationId",
        "node": "graphNodeId"}),
    "cupti_memcpy2": ("MemcpyPtoP", {
        "direction": "copyKind", "source": "srcKind", "target": "dstKind", "bytes": "bytes", "start": "start", "end": "end",
        "device": "deviceId", "context": "contextId", "stream": "streamId", "source_device": "srcDeviceId",
        "target_device": "dstDeviceId", "correlation": "correlationId", "node": "graphNodeId"}),
    "cupti_memset": ("Memset", {
        "value": "value", "bytes": "bytes", "start": "start", "end": "end", "device": "deviceId", "context": "contextId",
        "stream": "streamId", "correlation": "correlationId", "memory": "memoryKind", "node": "graphNodeId"}),
    "cupti_graph": ("GraphTrace", {
        "correlation": "correlationId", "start": "start", "end": "end", "device": "deviceId", "graph": "graphId",
        "context": "contextId", "stream": "streamId"}),
}
CALL = {"site": "callbackSite", "function": "functionName", "params": "functionParams", "result": "functionReturnValue",
        "kernel": "symbolName", "context": "context", "context_id": "contextUid", "data": "correlationData",
        "correlation": "correlationId"}
SUBSCRIBER = {"size": "structSize", "name": "subscriberName", "other": "oldSubscriberName", "other_size": "oldSubscriberSize"}
NUMBERS = {
    "CUPTI_END": "CUPTI_ERROR_MAX_LIMIT_REACHED", "CUPTI_NOT_INITIALIZED": "CUPTI_ERROR_NOT_INITIALIZED",
    "CUPTI_NOT_SUPPORTED": "CUPTI_ERROR_NOT_SUPPORTED",
    "CUPTI_VIRTUALIZED": "CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED",
    "CUPTI_PRIVILEGES": "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",
    "CUPTI_SUBSCRIBED": "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
    "CUPTI_CONFIDENTIAL": "CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED", "CUPTI_UNKNOWN": "CUPTI_ERROR_UNKNOWN",
    "CUPTI_DRIVER": "CUPTI_CB_DOMAIN_DRIVER_API", "CUPTI_RESOURCE": "CUPTI_CB_DOMAIN_RESOURCE",
    "CUPTI_ENTER": "CUPTI_API_ENTER", "CUPTI_EXIT": "CUPTI_API_EXIT",
    "CUPTI_CONTEXT_DESTROYED": "CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING",
    "CUPTI_MEMCPY": "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_MEMSET": "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_KERNEL": "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "CUPTI_KERNEL_SERIAL": "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_MEMCPY2": "CUPTI_ACTIVITY_KIND_MEMCPY2", "CUPTI_GRAPH": "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
}
# What the names of functions begin with, by class in src/inject/cuda_functions.c.
CLASSES = {
    "CUDA_MEMORY": r"cu(Mem|Array|Mipmapped|MulticastCreate|da271)",
    "CUDA_LAUNCH": r"cu(Launch(?!Host)|GraphLaunch|Memcpy|Memset)",
    "CUDA_WAIT": r"cu((Ctx|Stream|Event)Synchronize|ProfilerSt)",
    "CUDA_FAILURE": r"cu(CtxCreate|DevicePrimaryCtxRetain|ModuleLoad|LibraryLoad|GraphInstantiate|GraphAddMemAllocNode)",
    "CUDA_DESTROY": r"cu(CtxDestroy|DevicePrimaryCtxRe(lease|set))",
}


def folders():
    given = [pathlib.Path(p) for p in os.environ.get("HIWATER_CUPTI_FOLDERS", "").split(":") if p]
    packages = [p for path in sys.path for p in pathlib.Path(path).glob("nvidia/*") if (p / "lib").is_dir()]
    return given + packages + sorted(pathlib.Path("/usr/local").glob("cuda-*")) + sorted(
        p / "extras" / "CUPTI" for p in pathlib.Path("/usr/local").glob("cuda-*"))


def headers():
    """(folder of cupti_activity.h, folder of cuda.h) of each release that is there."""
    all_of_them = [f / "include" for f in folders()]
    cuda = next((f for f in all_of_them if (f / "cuda.h").exists()), None)
    return [(f, f if (f / "cuda.h").exists() else cuda) for f in all_of_them if cuda and (f / "cupti_activity.h").exists()]


def libraries():
    found = {}
    for folder in folders():
        for name in ("lib", "lib64"):
            for path in (folder / name).glob("libcupti.so.1*"):
                found.setdefault(path.resolve(), path)
    return list(found.values())


def newest(text, name):
    """The struct of the last version: CUpti_ActivityKernel9 and 10 are the same records, the later is longer."""
    versions = re.findall(rf"}} (CUpti_Activity{name}(\d*));", text)
    return max(versions, key=lambda v: int(v[1] or 1))[0]


def asserts(include):
    text = (include / "cupti_activity.h").read_text()
    for ours, (name, fields) in FIELDS.items():
        theirs = newest(text, name)
        for a, b in fields.items():
            yield f"SAME(struct {ours}, {a}, {theirs}, {b})"
        yield f'_Static_assert(sizeof(struct {ours}) <= sizeof({theirs}), "{ours}");'
    for a, b in CALL.items():
        yield f"SAME(struct cupti_call, {a}, CUpti_CallbackData, {b})"
    callbacks = (include / "cupti_callbacks.h").read_text()
    if "CUpti_SubscriberParams" in callbacks:
        for a, b in SUBSCRIBER.items():
            yield f"SAME(struct cupti_subscriber, {a}, CUpti_SubscriberParams, {b})"
        whole = "allowMultipleSubscribers" in callbacks
        size = "sizeof(struct cupti_subscriber)" if whole else "offsetof(struct cupti_subscriber, shared)"
        yield f'_Static_assert({size} == sizeof(CUpti_SubscriberParams), "subscriber");'
    for a, b in NUMBERS.items():
        yield f'_Static_assert((int) {a} == (int) {b}, "{a}");'


def test_offsets_and_numbers_are_those_of_the_headers(tmp_path):
    found = headers()
    if not found:
        pytest.skip("no headers of CUPTI here; HIWATER_CUPTI_FOLDERS names folders with include/")
    for include, cuda in found:
        source = tmp_path / "check.c"
        source.write_text('#include <stddef.h>\n#include <cuda.h>\n#include <cupti_result.h>\n#include <cupti_callbacks.h>\n'
                          '#include <cupti_activity.h>\n#include "inject/cupti.h"\n'
                          '#define SAME(s, a, t, b) _Static_assert(offsetof(s, a) == offsetof(t, b), #t "." #b);\n'
                          + "\n".join(asserts(include)) + "\n")
        done = subprocess.run([shutil.which("gcc") or "cc", "-std=gnu17", "-w", "-c", source, "-o", tmp_path / "check.o",
                               f"-I{include}", f"-I{cuda}", f"-I{ROOT / 'src'}"], capture_output=True, text=True)
        assert done.returncode == 0, f"{include}: {done.stderr[:3000]}"


def test_numbers_of_functions_are_those_of_the_headers():
    found = headers()
    if not found:
        pytest.skip("no headers of CUPTI here; HIWATER_CUPTI_FOLDERS names folders with include/")
    rows = re.findall(r"\{ (\d+), (\d+), (CUDA_\w+), \w+ \}", (INJECT / "cuda_functions.c").read_text())
    assert len(rows) > 40
    for include, _ in found:
        names = {int(n): name for name, n in re.findall(r"CUPTI_DRIVER_TRACE_CBID_(\w+)\s*=\s*(\d+)",
                                                        (include / "cupti_driver_cbid.h").read_text())}
        for first, last, kind in rows:
            for n in range(int(first), int(last) + 1):
                assert n not in names or re.match(CLASSES[kind], names[n]), (include, n, names[n])


def version_of(library):
    version = ctypes.c_uint32()
    return version.value if library.cuptiGetVersion(ctypes.byref(version)) == 0 else 0


def record(kind, size):
    return struct.pack("<I", kind) + bytes(size - 4)


def test_records_are_stepped_through_by_the_real_library():
    stepped = []
    for path in libraries():
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        version = version_of(library)
        if not 26 <= version < 130100:  # later ones need a driver
            continue
        kernel = 216 if version >= 130000 else 208
        sizes = [(10, kernel), (1, 96), (10, kernel), (2, 88), (22, 96), (51, 56), (10, kernel)]
        text = b"".join(record(kind, size) for kind, size in sizes)
        buffer = (ctypes.c_uint64 * (len(text) // 8)).from_buffer_copy(text)  # aligned
        at, offsets = ctypes.c_void_p(), []
        step = library.cuptiActivityGetNextRecord
        step.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        while (code := step(buffer, len(text), ctypes.byref(at))) == 0:
            offsets.append(at.value - ctypes.addressof(buffer))
        assert code == 12, (path, code)
        assert offsets == [sum(size for _, size in sizes[:i]) for i in range(len(sizes))], path
        stepped.append(path)
    if not stepped:
        pytest.skip("no libcupti 12.8 to 13.0 here; HIWATER_CUPTI_FOLDERS names folders with lib/")

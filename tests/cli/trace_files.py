# SPDX-License-Identifier: MIT
"""Files of other tools, made for the tests of `hiwater import`, and what a plain reading of them gives."""
import collections
import json
import random
import sqlite3
from decimal import Decimal

WALL_NS = 1790857026000000000  # baseTimeNanoseconds of the files made here


def kineto(events, base=WALL_NS, rank=None, **more):
    """The text of a file in the shape that torch.profiler writes."""
    head = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA Test GPU"}]}
    if rank is not None:
        head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 2}
    if base is not None:
        head["baseTimeNanoseconds"] = base
    head.update(more)
    lines = ",\n  ".join(e if isinstance(e, str) else json.dumps(e) for e in events)
    return json.dumps(head)[:-1] + ',\n"traceEvents": [\n  ' + lines + '\n  ],\n"traceName": "made.json"\n}'


def profiled(steps=20, seed=1, pid=4711):
    """Events as torch.profiler gives them: ops, calls, kernels, copies, fills, flows, names."""
    r = random.Random(seed)
    at, correlation = 4764746439646112, 100  # ns
    events = []

    def us(ns):
        return f"{ns // 1000}.{ns % 1000:03}"

    def add(**event):
        events.append(json.dumps(event).replace('"@', "").replace('@"', ""))

    for step in range(steps):
        begin = at
        for _ in range(5):
            dur = r.randrange(1000, 90000)
            correlation += 1
            add(ph="X", cat="cpu_op", name=r.choice(["aten::mm", "aten::add", "aten::conv2d"]), pid=pid, tid=pid,
                ts=f"@{us(at)}@", dur=f"@{us(dur)}@", args={"External id": correlation})
            add(ph="X", cat="cuda_runtime", name="cudaLaunchKernel", pid=pid, tid=pid, ts=f"@{us(at + 100)}@", dur=f"@{us(300)}@",
                args={"correlation": correlation, "cbid": 211})
            add(ph="s", id=correlation, pid=pid, tid=pid, ts=f"@{us(at)}@", cat="ac2g", name="ac2g")
            add(ph="X", cat="kernel", name=f"void gemm<{r.randrange(3)}, float>(float*)", pid=0, tid=7, ts=f"@{us(at + 5000)}@",
                dur=f"@{us(r.randrange(500, 70000))}@",
                args={"device": 0, "context": 1, "stream": 7, "correlation": correlation, "registers per thread": 32,
                      "shared memory": 1024, "grid": [step + 1, 2, 1], "block": [128, 1, 1]})
            at += dur + r.randrange(5000)
        add(ph="X", cat="gpu_memcpy", name="Memcpy HtoD (Pageable -> Device)", pid=0, tid=7, ts=f"@{us(at)}@", dur=f"@{us(900)}@",
            args={"device": 0, "stream": 7, "correlation": 1, "bytes": 4096 * (step + 1)})
        add(ph="X", cat="gpu_memset", name="Memset (Device)", pid=0, tid=7, ts=f"@{us(at + 1000)}@", dur=f"@{us(400)}@",
            args={"device": 0, "stream": 7, "correlation": 2, "bytes": 64})
        add(ph="X", cat="user_annotation", name=f"ProfilerStep#{step}", pid=pid, tid=pid, ts=f"@{us(begin)}@", dur=f"@{us(at - begin)}@")
    add(ph="i", s="g", name="Iteration Start: PyTorch Profiler", pid="Traces", tid="Trace PyTorch Profiler", ts=f"@{us(at)}@")
    add(ph="X", cat="Trace", name="PyTorch Profiler (0)", pid="Spans", tid="PyTorch Profiler", ts=f"@{us(at)}@", dur=f"@{us(5)}@")
    add(ph="M", name="process_name", pid=pid, tid=0, args={"name": "python3"})
    add(ph="M", name="thread_name", pid=pid, tid=pid, args={"name": "thread main"})
    return events


KINDS = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "fill", "cuda_runtime": "launch", "cuda_driver": "launch"}


def counted(events):
    """{(kind, name): [count, sum of ns]} of parsed events, exactly."""
    found = collections.defaultdict(lambda: [0, 0])
    for e in events:
        if e.get("ph") in ("i", "I"):
            found["mark", e["name"]][0] += 1
        if e.get("ph") == "X":
            entry = found[KINDS.get(e.get("cat"), "range"), e["name"]]
            entry[0] += 1
            entry[1] += int(Decimal(str(e["dur"])) * 1000)
    return dict(found)


def counted_text(text):
    document = json.loads(text, parse_float=Decimal)
    return counted(document if isinstance(document, list) else document["traceEvents"])


def nsys(path, seed=1, rows=60, suffix="_V2", kernels=True, base=WALL_NS, key=True):
    """An export of Nsight Systems with its rows in any order. Returns counts and sums as counted()."""
    r = random.Random(seed)
    db = sqlite3.connect(path)
    db.execute(f"CREATE TABLE StringIds (id INTEGER NOT NULL {'PRIMARY KEY' if key else ''}, value TEXT NOT NULL)")
    names = ["", "void gemm<64, float>(float*)", "relu", "cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "epoch", "worker"]
    db.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(names))
    pid, tid = 4711, 4712
    global_pid = 1 << 56 | pid << 24
    found = collections.defaultdict(lambda: [0, 0])

    def put(table, columns, values):
        r.shuffle(values)
        db.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
        db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", values)

    def count(kind, name, duration):
        found[kind, name][0] += 1
        found[kind, name][1] += duration

    work = ["start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid"]
    kernel_rows, copies, peers, fills, calls, ranges = [], [], [], [], [], []
    for i in range(rows):
        start, duration, name = 1000 * i + 7, r.randrange(1, 900), r.choice((1, 2))
        kernel_rows.append((start, start + duration, 0, 1, 7, i, global_pid, name, 2, 32, 4, 1, 1, 128, 1, 1, 0, 1024))
        count("kernel", names[name], duration)
        calls.append((start - 5, start, global_pid | tid, i, 3, 0))
        count("launch", names[3], 5)
        copies.append((start, start + 10, 0, 1, 7, i, global_pid, 4096, 1, 0, 2))
        count("copy", "Memcpy HtoD (Pageable -> Device)", 10)
        ranges.append((start, start + 500, 59, global_pid | tid, f"step {i % 3}", None, 0, None))
        count("range", f"step {i % 3}", 500)
    peers.append((5, 25, 0, 1, 7, 999, global_pid, 8192, 10, 2, 2))
    count("copy", "Memcpy PtoP (Device -> Device)", 20)
    fills.append((5, 6, 0, 1, 7, 998, global_pid, 64, 2))
    count("fill", "Memset", 1)
    ranges.append((1, 1000 * rows, 59, global_pid | tid, None, 5, 0, None))
    count("range", "epoch", 1000 * rows - 1)
    ranges.append((2, None, 34, global_pid | tid, "mark", None, 0, None))
    count("mark", "mark", 0)
    if kernels:
        put("CUPTI_ACTIVITY_KIND_KERNEL", work + ["demangledName", "shortName", "registersPerThread", "gridX", "gridY", "gridZ",
            "blockX", "blockY", "blockZ", "staticSharedMemory", "dynamicSharedMemory"], kernel_rows)
        put("CUPTI_ACTIVITY_KIND_MEMCPY", work + ["bytes", "copyKind", "srcKind", "dstKind"], copies)
        put("CUPTI_ACTIVITY_KIND_MEMCPY2", work + ["bytes", "copyKind", "srcKind", "dstKind"], peers)
        put("CUPTI_ACTIVITY_KIND_MEMSET", work + ["bytes", "memKind"], fills)
    put("CUPTI_ACTIVITY_KIND_RUNTIME", ["start", "end", "globalTid", "correlationId", "nameId", "returnValue"], calls)
    columns = ["start", "end", "eventType", "globalTid", "text", "textId", "domainId", "endGlobalTid"]
    put("NVTX_EVENTS" + suffix, columns, ranges)
    if suffix:
        put("NVTX_EVENTS", columns, ranges[:3])  # an older form beside it, which does not count
    put("ThreadNames", ["nameId", "priority", "globalTid"], [(6, 0, global_pid | tid)])
    put("TARGET_INFO_GPU", ["id", "name"], [(0, "NVIDIA Test GPU")])
    if base is not None:
        put("TARGET_INFO_SESSION_START_TIME", ["utcEpochNs"], [(base,)])
    db.commit()
    db.close()
    return {k: v for k, v in found.items() if kernels or k[0] not in ("kernel", "copy", "fill")}

# SPDX-License-Identifier: MIT
"""hiwater export of traced work. Its rows are of the test's choice; what is expected of a format is computed here from the same
numbers. The judges: Perfetto's protobuf classes, Python's json, sqlite3 and gzip."""
import collections
import gzip
import json
import os
import random
import sqlite3
import subprocess

import pytest
from cli_helpers import HIWATER, Tool
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
from trace_data import Seen, rows_of, trace_of
from traced_runs import CROSSING, FAILED, INVALID, NODE, UNCLOSED, Traced

MS = 10**6
GEMM = "void gemm<4>(int)"


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    tool = Tool(tmp_path_factory.mktemp("measured"))
    done = tool.run("run", "--summary", "none", "-o", "run.hiw", "--gpu=none", "--", "sleep", "1.2")
    assert done.returncode == 0, done.stderr
    yield tool.folder / "run.hiw"
    tool.end_all()


@pytest.fixture
def copy(tool, measured):
    path = tool.folder / "copy.hiw"
    assert tool.run("show", "--copy", path, measured).returncode == 0
    return path


def fill(t):
    """Some of all; the times are in one second."""
    p = t.main()
    t.thread(p, 100, "trainer")
    t.device(p, 0, "NVIDIA H100")
    t.range(p, 100, "epoch", 10 * MS, 900 * MS)
    t.range(p, 100, "step", 10 * MS, 200 * MS, depth=1)  # begins with the one around it
    t.range(p, 100, "step", 200 * MS, 400 * MS, depth=1)  # begins where the one before ends
    t.range(p, 100, "load", 300 * MS, 500 * MS, depth=2, flags=CROSSING)
    t.range(p, 100, "load", 350 * MS, 450 * MS, depth=2, flags=CROSSING, domain="io")
    t.range(p, 101, "waits", 20 * MS, 1000 * MS, flags=UNCLOSED)
    t.mark(p, 100, "checkpoint", 250 * MS)
    t.launch(p, 100, "cudaLaunchKernel", 20 * MS, 21 * MS, correlation=5)
    t.launch(p, 100, "cuLaunchKernel", 30 * MS, 31 * MS, correlation=6)
    t.launch(p, 100, "cudaMalloc", 40 * MS, 41 * MS, correlation=7, flags=FAILED)
    t.launch(p, 100, "cudaMemcpyAsync", 50 * MS, 51 * MS, correlation=8)
    t.kernel(p, GEMM, 25 * MS, 27 * MS, correlation=5, grid=(128, 2, 1), block=(256, 1, 1), registers=32, shared=(16, 1024))
    t.kernel(p, "graph", 35 * MS, 60 * MS, correlation=6)
    t.kernel(p, "node", 36 * MS, 37 * MS, correlation=6, flags=NODE)
    t.kernel(p, "late", 55 * MS, 65 * MS, correlation=9)  # overlaps the graph in its stream
    t.kernel(p, GEMM, 55 * MS, 65 * MS + 123, stream=13)
    t.kernel(p, GEMM, 0, 0, flags=INVALID)
    t.copy(p, "pageable", "device", 4096, 52 * MS, 54 * MS, correlation=8, stream=14)
    t.copy(p, "device", "pinned", 100, 61 * MS, 62 * MS, stream=14)
    t.fill(p, "device", 1 << 20, 70 * MS, 71 * MS)
    t.memory(p, 12 * MS, 1000, 0x7f0000000000)
    t.memory(p, 13 * MS, 500, 0x7f0000001000)
    t.memory(p, 14 * MS, -1000, 0x7f0000000000)
    t.lost(p, "dropped", 3)
    return p


@pytest.fixture
def filled(copy):
    with Traced(copy) as t:
        fill(t)
    return copy


def start_of(path, key="started_boot_ns"):
    return rows_of(path, f"select value from meta where key = '{key}'")[0][0]


# ---- Perfetto ----

class Slice:
    def __init__(self, seen, event, track, begin):
        self.name, self.track, self.begin, self.end, self.event = seen.name_of(event), track, begin, None, event
        self.flags = seen.note(event, "flags") or ""


def slices_of(seen, start):
    """All slices of traced work, each ended by the innermost open one's end."""
    found = []
    for uuid, events in seen.events.items():
        stack = []
        for time, event in events:
            if event.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
                stack.append(Slice(seen, event, uuid, time - start))
                found.append(stack[-1])
            elif event.type == pb.TrackEvent.TYPE_SLICE_END:
                stack.pop().end = time - start
    return found


def track_names(seen, uuid):
    """The names of a track and those above it."""
    names = []
    while uuid:
        track = seen.tracks[uuid]
        names.append(track.thread.thread_name if track.HasField("thread") else track.process.process_name if track.HasField("process")
                     else track.name)
        uuid = track.parent_uuid
    return names


def test_perfetto_has_the_slices_where_they_belong(tool, filled):
    seen = Seen(trace_of(tool, filled))
    found = [s for s in slices_of(seen, start_of(filled)) if seen.traced(s.event)]
    on = collections.defaultdict(list)
    for s in found:
        on["/".join(track_names(seen, s.track))].append((s.name, s.begin / MS, s.end / MS, s.flags))
    stream = "device 0 NVIDIA H100/sleep"
    assert {k: sorted(v, key=lambda s: s[1]) for k, v in on.items()} == {
        "trainer/sleep": [("epoch", 10, 900, ""), ("step", 10, 200, ""), ("cudaLaunchKernel", 20, 21, ""), ("cuLaunchKernel", 30, 31, ""),
                          ("cudaMalloc", 40, 41, "failed"), ("cudaMemcpyAsync", 50, 51, ""), ("step", 200, 400, "")],
        "crossing/trainer/sleep": [("load", 300, 500, "crossing"), ("load", 350, 450, "crossing")],
        "/sleep": [("waits", 20, 1000, "unclosed")],
        f"stream 7 (context 1)/{stream}": [(GEMM, 25, 27, ""), ("graph", 35, 60, ""), ("node", 36, 37, "graph node"),
                                          ("Memset (Device)", 70, 71, "")],
        f"overlapping/stream 7 (context 1)/{stream}": [("late", 55, 65, "")],
        f"stream 13 (context 1)/{stream}": [(GEMM, 55, 65 + 123 / MS, "")],
        f"stream 14 (context 1)/{stream}": [("Memcpy HtoD (Pageable -> Device)", 52, 54, ""), ("Memcpy DtoH (Device -> Pinned)", 61, 62, "")],
    }
    assert {s.name[:11]: seen.note(s.event, "bytes") for s in found if s.name.startswith("Mem")} == {
        "Memcpy HtoD": 4096, "Memcpy DtoH": 100, "Memset (Dev": 1 << 20}
    assert [seen.category_of(s.event) for s in found if s.name == "load"] == ["", "io"]
    process, = [u for u, d in seen.tracks.items() if d.HasField("process")]
    assert [s.name for s in found if "sleep" not in track_names(seen, s.track)] == []
    assert seen.tracks[process].process.pid == rows_of(filled, "select pid from process where is_main")[0][0]


def test_perfetto_has_marks_flows_memory_and_what_is_missing(tool, filled):
    seen = Seen(trace_of(tool, filled))
    start = start_of(filled)
    marks = [(seen.name_of(e), t - start) for u in seen.events for t, e in seen.events[u]
             if seen.traced(e) and e.type == pb.TrackEvent.TYPE_INSTANT]
    assert marks == [("checkpoint", 250 * MS)]
    flows = collections.defaultdict(list)
    for s in slices_of(seen, start):
        for flow in s.event.flow_ids:
            flows[flow].append((s.begin, s.name))
    assert sorted([n for _, n in sorted(v)] for v in flows.values()) == [
        ["cuLaunchKernel", "graph", "node"], ["cudaLaunchKernel", GEMM], ["cudaMalloc"],
        ["cudaMemcpyAsync", "Memcpy HtoD (Pageable -> Device)"], ["late"]]
    allocated, = seen.named("allocated device")
    assert [(t - start, e.counter_value) for t, e in seen.events[allocated]] == [(12 * MS, 1000), (13 * MS, 1500), (14 * MS, 500)]
    assert seen.tracks[allocated].counter.unit == pb.CounterDescriptor.UNIT_SIZE_BYTES
    events, = seen.named("events")
    assert [e.name for _, e in seen.events[events] if "trace:" in e.name] == [
        "trace: 1 events without valid times are left out", "trace: 3 events are missing: dropped"]


def test_perfetto_shares_the_clock_with_the_counters(tool, filled):
    trace = trace_of(tool, filled)
    snapshots = [p for p in trace.packet if p.HasField("clock_snapshot") and p.trusted_packet_sequence_id > 1]
    assert len(snapshots) == len({p.trusted_packet_sequence_id for p in snapshots}) > 3
    for packet in snapshots:
        clocks = {c.clock_id: c for c in packet.clock_snapshot.clocks}
        assert clocks[6].timestamp == clocks[64].timestamp and clocks[64].is_incremental and not clocks[6].is_incremental
    seen = Seen(trace)
    counters = [t for u, d in seen.tracks.items() if d.HasField("counter") for t, _ in seen.events[u]]
    times = [t for u in seen.events for t, e in seen.events[u] if seen.traced(e)]
    assert min(counters) - 10**9 < min(times) < max(counters)


def test_perfetto_without_traced_work_has_one_sequence(tool, copy):
    assert {p.trusted_packet_sequence_id for p in trace_of(tool, copy).packet} == {1}


def test_perfetto_takes_few_bytes_a_slice(tool, copy):
    """100,000 rows as a training has them: a range around two operators, each a call and its kernel, some copies."""
    before = len((tool.folder / "trace").read_bytes()) if trace_of(tool, copy) else 0
    rng, n, t0, correlation = random.Random(1), 0, 10 * MS, 0
    with Traced(copy) as t:
        p = t.main()
        gpu = t0
        while n < 100_000:
            begin = t0
            for op in range(2):
                correlation += 1
                at = t0 + rng.randrange(1000, 5000)
                t.launch(p, 100, "cudaLaunchKernel", at, at + rng.randrange(2000, 6000), correlation)
                gpu = max(gpu + rng.randrange(500, 3000), at + 7000)
                end = gpu + rng.randrange(5000, 100_000)
                t.kernel(p, f"kernel {rng.randrange(100)}", gpu, end, correlation)
                gpu = end
                t.range(p, 100, f"aten::op{rng.randrange(200)}", t0, at + 8000, depth=1)
                t0 = at + 9000
            t.range(p, 100, "layer", begin, t0, depth=0)
            n += 7
            t0 += rng.randrange(1000, 60_000)
            if n % 70 == 0:
                t.copy(p, "pinned", "device", 1 << 20, gpu, gpu + 50_000, stream=14)
                n += 1
    trace = trace_of(tool, copy)
    size = len((tool.folder / "trace").read_bytes()) - before
    slices = sum(p.track_event.type == pb.TrackEvent.TYPE_SLICE_BEGIN for p in trace.packet if p.trusted_packet_sequence_id > 1)
    assert slices == n
    print(f"{size / n:.2f} bytes a slice")
    assert size / n <= 30.5, f"{size / n:.2f} bytes a slice"


# ---- anything at all: never nested wrongly, nothing lost ----

def scattered(t, seed):
    """Ranges and kernels anywhere; what was added, by name."""
    rng, added = random.Random(seed), []
    p = t.main()
    for i in range(3000):
        begin = rng.randrange(0, 1000) * 1000
        end = begin + rng.choice((0, 1, 1000, 5000, rng.randrange(300_000)))
        if rng.random() < 0.5:
            t.range(p, 100 + i % 3, f"r{i}", begin, end, depth=i % 4, flags=CROSSING)
        else:
            t.kernel(p, f"k{i}", begin, end, stream=i % 2)
        added.append((("r" if f"r{i}" in t.names else "k") + str(i), begin, end))
    return sorted(added)


@pytest.mark.parametrize("seed", range(3))
def test_perfetto_of_anything(tool, copy, seed):
    with Traced(copy) as t:
        added = scattered(t, seed)
    seen = Seen(trace_of(tool, copy))
    found = [s for s in slices_of(seen, start_of(copy)) if seen.traced(s.event)]
    assert sorted((s.name, s.begin, s.end) for s in found) == added


@pytest.mark.parametrize("seed", range(3))
def test_chrome_of_anything(tool, copy, seed):
    with Traced(copy) as t:
        added = scattered(t, seed)
    events = [e for e in chrome_of(tool, copy)["traceEvents"] if e["ph"] == "X"]
    assert sorted((e["name"], round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)) for e in events) == added
    by_thread = collections.defaultdict(list)
    for event in events:
        by_thread[event["pid"], event["tid"]].append(event)
    for events in by_thread.values():
        expect_nested(events)


def expect_nested(events):
    open_ends = []
    for event in events:  # as they come: by start, the longest first
        begin, end = round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)
        while open_ends and open_ends[-1] <= begin:
            open_ends.pop()
        assert not open_ends or end <= open_ends[-1], event
        open_ends.append(end)


# ---- Chrome traces ----

def chrome_of(tool, path, *args, name="trace.json"):
    out = tool.folder / name
    done = tool.run("export", path, "--to", "chrome", "-o", out, *args)
    assert done.returncode == 0, done.stderr
    return json.loads(gzip.decompress(out.read_bytes()) if name.endswith(".gz") else out.read_bytes())


def test_chrome_is_shaped_as_kineto_s(tool, filled):
    trace = chrome_of(tool, filled)
    pid = rows_of(filled, "select pid from process where is_main")[0][0]
    assert trace["distributedInfo"] == {"rank": 0} and trace["schemaVersion"] == 1
    assert trace["deviceProperties"] == [{"id": 0, "name": "NVIDIA H100"}]
    assert trace["baseTimeNanoseconds"] == start_of(filled, "started_wall_ns")
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert collections.Counter(e["cat"] for e in events) == {
        "user_annotation": 6, "cuda_runtime": 3, "cuda_driver": 1, "kernel": 5, "gpu_memcpy": 2, "gpu_memset": 1}
    gemm = [e for e in events if e["name"] == GEMM]
    assert gemm[0] == {"ph": "X", "name": GEMM, "cat": "kernel", "pid": 0, "tid": 7, "ts": 25000, "dur": 2000, "args": {
        "External id": 5, "correlation": 5, "device": 0, "context": 1, "stream": 7, "queued": 0, "registers per thread": 32,
        "shared memory": 1040, "grid": [128, 2, 1], "block": [256, 1, 1]}}
    assert gemm[1]["dur"] == 10000.123 and gemm[1]["tid"] == 13
    launch, = [e for e in events if e["name"] == "cudaLaunchKernel"]
    assert (launch["pid"], launch["tid"], launch["args"]["correlation"]) == (pid, 100, 5)
    copies = [(e["name"], e["args"]["bytes"], e["tid"]) for e in events if e["cat"].startswith("gpu_mem")]
    assert copies == [("Memcpy HtoD (Pageable -> Device)", 4096, 14), ("Memcpy DtoH (Device -> Pinned)", 100, 14),
                      ("Memset (Device)", 1 << 20, 7)]
    assert {e["name"]: e["args"]["flags"] for e in events if "flags" in e["args"]} == {
        "load": "crossing", "waits": "unclosed", "cudaMalloc": "failed", "node": "graph node"}
    assert [e["args"].get("domain") for e in events if e["name"] == "load"] == [None, "io"]
    assert [(e["args"]["thread"], e["tid"] > 1 << 22) for e in events if e["name"] == "load"] == 2 * [(100, True)]
    assert [(e["name"], e["ts"], e["s"]) for e in trace["traceEvents"] if e["ph"] == "i"][-1] == ("checkpoint", 250000, "t")
    assert trace["hiwater"] == {"run": trace["hiwater"]["run"], "invalid": 1, "lost": {"dropped": 3}}


def test_chrome_has_names_flows_and_memory(tool, filled):
    events = chrome_of(tool, filled)["traceEvents"]
    pid = rows_of(filled, "select pid from process where is_main")[0][0]
    names = {(e["name"], e["pid"], e["tid"]): list(e["args"].values())[0] for e in events if e["ph"] == "M"}
    assert names["process_name", pid, 0] == "sleep" and names["process_labels", 0, 0] == "GPU 0 NVIDIA H100"
    assert names["thread_name", pid, 100] == "thread 100 (trainer)" and names["thread_name", 0, 7] == "stream 7 (context 1)"
    flows = collections.defaultdict(list)
    for e in events:
        if e["ph"] in "sf":
            assert e["cat"] == e["name"] == "ac2g"
            flows[e["id"]].append((e["ph"], e["pid"], e["tid"], e["ts"]))
    assert flows[5] == [("s", pid, 100, 20000), ("f", 0, 7, 25000)]
    memory = [(e["ts"], e["args"]["Bytes"], e["args"]["Total Allocated"], e["args"]["Device Type"]) for e in events if e["name"] == "[memory]"]
    assert memory == [(12000, 1000, 1000, 1), (13000, 500, 1500, 1), (14000, -1000, 500, 1)]


def test_chrome_of_two_processes_and_a_rank(tool, copy):
    with Traced(copy) as t:
        for pid in (4000, 4001):
            p = t.process(pid, f"rank{pid}", rank=pid - 3997)
            t.launch(p, pid, "cudaLaunchKernel", 1000, 2000, 5)
            t.kernel(p, "k", 3000, 4000, 5)
            t.kernel(p, "k", 3000, 4000, stream=7, context=2)
    trace = chrome_of(tool, copy)
    assert trace["distributedInfo"]["rank"] == 3
    kernels = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == "kernel"]
    assert len({(e["pid"], e["tid"]) for e in kernels}) == 4, "same device and stream of another process or context is another track"
    assert sorted(e["args"].get("process", 0) for e in kernels) == [0, 0, 4001, 4001]
    flows = collections.Counter(e["id"] for e in trace["traceEvents"] if e["ph"] in "sf")
    assert sorted(flows.values()) == [2, 2], "a correlation counts within its process"


def test_a_process_without_a_number_and_threads_of_none(tool, copy):
    with Traced(copy) as t:
        spans = t.process(-1, "Spans", origin="chrome")
        t.range(spans, 5, "a", 0, 1000, domain="cpu_op")
        t.range(spans, None, "b", 0, 1000)
        t.kernel(spans, "k", 0, 1000, device=None, stream=None, context=None)
    seen = Seen(trace_of(tool, copy))
    assert {s.name: track_names(seen, s.track) for s in slices_of(seen, 0) if seen.traced(s.event)} == {
        "a": ["thread 5", "process 1 Spans"], "b": ["ranges", "process 1 Spans"], "k": ["stream 0", "device", "process 1 Spans"]}
    events = {e["name"]: e for e in chrome_of(tool, copy)["traceEvents"] if e["ph"] == "X"}
    assert events["a"]["cat"] == "cpu_op" and events["b"]["cat"] == "user_annotation" and "device" not in events["k"]["args"]
    assert events["a"]["pid"] == events["b"]["pid"] >= 1 << 22 and events["b"]["tid"] >= 1 << 22
    tids = nsys_of(tool, copy).execute("select globalTid / 0x1000000, globalTid % 0x1000000 from NVTX_EVENTS where text in ('a', 'b') "
                                       "order by text").fetchall()
    assert tids == [(events["a"]["pid"], 5), (events["a"]["pid"], 0)]


def test_names_of_any_bytes(tool, copy):
    odd = 'a"b\\c\n\x1b[2J\u20ac'
    with Traced(copy) as t:
        t.range(t.main(), 1, odd, 0, 1000)
        t.db.execute("update trace_name set text = cast(x'61ff62' as text) where text = ''")  # the domain
    event, = [e for e in chrome_of(tool, copy)["traceEvents"] if e["ph"] == "X"]
    assert (event["name"], event["args"]["domain"]) == (odd, "a\ufffdb")
    seen = Seen(trace_of(tool, copy))
    assert [s.name for s in slices_of(seen, 0) if seen.traced(s.event)] == [odd]


def test_gzip_by_the_file_s_name(tool, filled):
    assert chrome_of(tool, filled, name="trace.json.gz") == chrome_of(tool, filled)
    plain = tool.run("export", filled, "--to", "csv").stdout
    assert tool.run("export", filled, "--to", "csv", "-o", "x.csv.gz").returncode == 0
    assert gzip.decompress((tool.folder / "x.csv.gz").read_bytes()).decode() == plain


def test_chrome_on_stdout(tool, filled):
    done = tool.run("export", filled, "--to", "chrome")
    assert done.returncode == 0 and len(json.loads(done.stdout)["traceEvents"]) > 20


# ---- nsys ----

def nsys_of(tool, path, *args):
    out = tool.folder / "trace.sqlite"
    done = tool.run("export", path, "--to", "nsys-sqlite", "-o", out, *args)
    assert done.returncode == 0, done.stderr
    db = sqlite3.connect(out)
    assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
    return db


def tables_of(db):
    return {n for n, in db.execute("select name from sqlite_master where type = 'table'")}


def test_nsys_has_the_public_tables(tool, filled):
    db = nsys_of(tool, filled)
    pid = rows_of(filled, "select pid from process where is_main")[0][0]
    text = dict(db.execute("select id, value from StringIds"))
    kernels = db.execute("select start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName, shortName, "
                         "mangledName, registersPerThread, gridX, gridY, gridZ, blockX, staticSharedMemory, dynamicSharedMemory, "
                         "graphNodeId from CUPTI_ACTIVITY_KIND_KERNEL").fetchall()
    assert kernels[0] == (25 * MS, 27 * MS, 0, 1, 7, 5, pid << 24, kernels[0][7], kernels[0][8], kernels[0][9], 32, 128, 2, 1, 256, 16,
                          1024, None)
    assert [text[i] for i in kernels[0][7:10]] == [GEMM, "gemm", GEMM]
    assert [(text[k[7]], k[-1]) for k in kernels[1:]] == [("graph", None), ("node", 1), (GEMM, None), ("late", None)]
    calls = db.execute("select s.value, r.globalTid / 0x1000000 % 0x1000000, r.globalTid % 0x1000000, eventClass, returnValue from "
                       "CUPTI_ACTIVITY_KIND_RUNTIME r join StringIds s on s.id = r.nameId order by start").fetchall()
    assert calls == [("cudaLaunchKernel", pid, 100, 0, 0), ("cuLaunchKernel", pid, 100, 1, 0), ("cudaMalloc", pid, 100, 0, 999),
                     ("cudaMemcpyAsync", pid, 100, 0, 0)]
    copies = db.execute("select o.label, s.label, d.label, bytes from CUPTI_ACTIVITY_KIND_MEMCPY c join ENUM_CUDA_MEMCPY_OPER o on "
                        "o.id = copyKind join ENUM_CUDA_MEM_KIND s on s.id = srcKind join ENUM_CUDA_MEM_KIND d on d.id = dstKind")
    assert copies.fetchall() == [("Host-to-Device", "Pageable", "Device", 4096), ("Device-to-Host", "Device", "Pinned", 100)]
    assert db.execute("select start, end, bytes, memKind from CUPTI_ACTIVITY_KIND_MEMSET").fetchall() == [(70 * MS, 71 * MS, 1 << 20, 2)]
    assert db.execute("select start, bytes, address, memKind, memoryOperationType, globalPid from CUDA_GPU_MEMORY_USAGE_EVENTS"
                      ).fetchall() == [(12 * MS, 1000, 0x7f0000000000, 2, 0, pid << 24), (13 * MS, 500, 0x7f0000001000, 2, 0, pid << 24),
                                       (14 * MS, 1000, 0x7f0000000000, 2, 1, pid << 24)]
    ranges = db.execute("select text, start, end, eventType, globalTid % 0x1000000, domainId > 0 from NVTX_EVENTS where eventType != 75 "
                        "order by start, end desc").fetchall()
    assert ranges == [("epoch", 10 * MS, 900 * MS, 59, 100, 0), ("step", 10 * MS, 200 * MS, 59, 100, 0),
                      ("waits", 20 * MS, None, 59, 101, 0), ("step", 200 * MS, 400 * MS, 59, 100, 0),
                      ("checkpoint", 250 * MS, None, 34, 100, 0), ("load", 300 * MS, 500 * MS, 60, 100, 0),
                      ("load", 350 * MS, 450 * MS, 60, 100, 1)]
    assert db.execute("select text, d.domainId = (select max(domainId) from NVTX_EVENTS where text = 'load') from NVTX_EVENTS d where "
                      "eventType = 75").fetchall() == [("io", 1)]
    assert db.execute("select id, name from TARGET_INFO_GPU").fetchall() == [(0, "NVIDIA H100")]
    assert db.execute("select gpuId, cudaId from TARGET_INFO_CUDA_DEVICE").fetchall() == [(0, 0)]
    assert db.execute("select utcEpochNs from TARGET_INFO_SESSION_START_TIME").fetchall() == [(start_of(filled, "started_wall_ns"),)]
    assert db.execute("select s.value, globalTid from ThreadNames join StringIds s on s.id = nameId").fetchall() == [
        ("trainer", pid << 24 | 100)]
    assert ("HIWATER_INVALID", "1") in db.execute("select name, value from META_DATA_EXPORT").fetchall()


def test_kernels_have_their_names_as_the_program_wrote_them(tool, copy):
    mangled = "_ZN12_GLOBAL__N_14gemmILi4EEEvPf"
    shown = "void (anonymous namespace)::gemm<4>(float*)"
    with Traced(copy) as t:
        p = t.main()
        for i in range(3):
            t.kernel(p, mangled, i * 1000, i * 1000 + 500, grid=(i + 1, 1, 1))
        t.kernel(p, "_Zbroken", 9000, 9500)
    expected = [shown] * 3 + ["_Zbroken"]
    seen = Seen(trace_of(tool, copy))
    assert [s.name for s in sorted(slices_of(seen, 0), key=lambda s: s.begin) if seen.traced(s.event)] == expected
    assert [e["name"] for e in chrome_of(tool, copy)["traceEvents"] if e["ph"] == "X"] == expected
    names = nsys_of(tool, copy).execute(
        "select d.value, s.value, m.value from CUPTI_ACTIVITY_KIND_KERNEL k join StringIds d on d.id = demangledName "
        "join StringIds s on s.id = shortName join StringIds m on m.id = mangledName order by start").fetchall()
    assert names == 3 * [(shown, "gemm", mangled)] + [("_Zbroken", "_Zbroken", "_Zbroken")]


def test_nsys_has_only_tables_with_rows(tool, copy):
    with Traced(copy) as t:
        t.range(t.main(), 1, "alone", 0, 1000)
    db = nsys_of(tool, copy)
    assert tables_of(db) == {"NVTX_EVENTS", "META_DATA_EXPORT", "PROCESSES", "TARGET_INFO_SESSION_START_TIME", "ENUM_NSYS_EVENT_TYPE"}


def test_nsys_needs_a_file(tool, filled):
    done = tool.run("export", filled, "--to", "nsys-sqlite")
    assert done.returncode == 2 and "-o FILE" in done.stderr and not done.stdout


# ---- all of them ----

@pytest.mark.parametrize("to", ("chrome", "nsys-sqlite"))
def test_a_run_without_traced_work(tool, copy, to):
    done = tool.run("export", copy, "--to", to, "-o", "out")
    assert done.returncode == 1 and "hiwater run --trace" in done.stderr
    assert not (tool.folder / "out").exists()


@pytest.mark.parametrize("to", ("perfetto", "chrome", "nsys-sqlite"))
def test_redact_leaves_out_names_of_processes_and_threads(tool, filled, to):
    assert tool.run("export", filled, "--to", to, "-o", "out", "--redact").returncode == 0
    data = (tool.folder / "out").read_bytes()
    assert b"epoch" in data and b"trainer" not in data and b"sleep" not in data


@pytest.mark.parametrize("to", ("chrome", "nsys-sqlite"))
def test_all_rows_or_none(tool, filled, to):
    """A disk that is full: status 1, no file."""
    done = tool.run("export", filled, "--to", to, "-o", "/dev/full")
    assert done.returncode == 1 and "/dev/full" in done.stderr, done.stderr


@pytest.mark.release  # a sanitizer keeps what was freed
def test_memory_does_not_grow_with_the_rows(tool, copy):
    """The same trace, and one of ten times its rows."""
    used = {}
    for rows in (20_000, 200_000):
        path = tool.folder / f"{rows}.hiw"
        path.write_bytes(copy.read_bytes())
        with Traced(path) as t:
            p = t.main()
            for i in range(rows):
                t.range(p, 100, f"r{i % 50}", i * 5000, i * 5000 + 4000)
        for to in ("perfetto", "chrome", "nsys-sqlite"):
            done = tool.start("export", path, "--to", to, "-o", "out")
            _, status, usage = os.wait4(done.pid, 0)
            assert status == 0
            used.setdefault(to, []).append(usage.ru_maxrss)
    for to, (few, many) in used.items():
        assert many < few + 4096, (to, few, many)


# ---- and back ----

IMPORTS = subprocess.run([HIWATER, "import", "--help"], capture_output=True).returncode == 0
SUMS = ("select s.kind, n.text, sum(count), sum(total), sum(s.bytes) from trace_stat s left join trace_name n on n.id = s.name "
        "where s.kind in ('range', 'mark', 'launch', 'kernel', 'copy', 'fill'{}) group by 1, 2")


@pytest.mark.skipif(not IMPORTS, reason="this hiwater has no import")
@pytest.mark.parametrize("to, kinds", (("chrome", ""), ("nsys-sqlite", ", 'alloc', 'free'")))
def test_imported_again_it_has_the_same_sums(tool, filled, to, kinds):
    out, back = tool.folder / "trace.json", tool.folder / "back.hiw"
    assert tool.run("export", filled, "--to", to, "-o", out).returncode == 0
    done = tool.run("import", out, "-o", back)
    assert done.returncode == 0, done.stderr
    expected = collections.Counter()
    for table, size in (("range", "0"), ("launch", "0"), ("kernel", "0"), ("copy", "bytes"), ("memory", "abs(bytes)")):
        time = "0" if table == "memory" else "ifnull(duration, 0)"
        for kind, name, duration, bytes_ in rows_of(filled, f"select s.kind, n.text, {time}, {size} from trace_{table} t join trace_site s "
                                                    f"on s.id = t.site join trace_name n on n.id = s.name where not t.flags & {INVALID}"):
            for key, n in (("count", 1), ("total", duration), ("bytes", bytes_)):
                expected[kind, name if kind not in ("copy", "fill", "alloc", "free") else "", key] += n
    found = collections.Counter()
    for kind, name, count, total, bytes_ in rows_of(back, SUMS.format(kinds)):
        if name == "[memory]":
            continue
        for key, n in (("count", count), ("total", total), ("bytes", bytes_)):
            found[kind, name if kind not in ("copy", "fill", "alloc", "free") else "", key] += n
    ends_late = ("range", "waits", "total")  # without an end in one of the formats, so its end is that of the import
    for kind in ("alloc", "free") if not kinds else ():
        for key in ("count", "total", "bytes"):
            del expected[kind, "", key]
    del expected[ends_late], found[ends_late]
    assert +found == +expected


# ---- nothing in the file is trusted ----

NUMBERS = (None, 0, -1, 1, 2**31, 2**32, 2**62, 2**63 - 1, -2**63, 0.5, "x", b"\xff\x00")


def forge(path, seed):
    """Values of all kinds in rows of all tables."""
    rng = random.Random(seed)
    db = sqlite3.connect(path)
    for table, in db.execute("select name from sqlite_master where type = 'table' and name like 'trace_%'").fetchall():
        columns = db.execute(f"pragma table_info({table})").fetchall()
        without_rowid = any(c[5] > 0 for c in columns) and table not in ("trace_process", "trace_name", "trace_site", "trace_stat",
                                                                         "trace_window")
        for row in db.execute(f"select * from {table}").fetchall():
            row = [rng.choice(NUMBERS) if rng.random() < 0.15 and not (without_rowid and c[5]) else v for v, c in zip(row, columns)]
            if without_rowid and rng.random() < 0.3:
                row[rng.choice([c[0] for c in columns if c[5]])] = rng.choice([n for n in NUMBERS if n is not None])
            marks = ",".join("?" * len(row))
            try:
                db.execute(f"insert or replace into {table} values({marks})", row)
            except sqlite3.IntegrityError:
                pass
    db.commit()
    db.close()


@pytest.mark.parametrize("seed", range(12))
def test_a_forged_recording(tool, filled, seed):
    forge(filled, seed)
    for to in ("perfetto", "chrome", "nsys-sqlite"):
        out = tool.folder / to
        done = tool.run("export", filled, "--to", to, "-o", out)
        assert done.returncode in (0, 1) and (done.returncode == 0 or done.stderr.startswith("hiwater: ")), done.stderr
        assert out.exists() == (done.returncode == 0)
    if (tool.folder / "chrome").exists():
        events = [e for e in json.loads((tool.folder / "chrome").read_bytes())["traceEvents"] if e["ph"] == "X"]
        assert all(e["dur"] >= 0 for e in events)
    if (tool.folder / "perfetto").exists():
        slices_of(Seen(trace_of(tool, filled)), 0)
    if (tool.folder / "nsys-sqlite").exists():
        assert sqlite3.connect(tool.folder / "nsys-sqlite").execute("pragma integrity_check").fetchall() == [("ok",)]

# SPDX-License-Identifier: MIT
"""Measures the cost of a MemoryTracker for its program, on a stand-in for PyTorch's allocator;
prints one line of JSON.

    bench/memory_tracker.py PACKAGE        hiwater.compat.gpumemprof, gpumemprof or stormlog

starts_ms, stops_ms: fifteen times each, without the first start (first_start_ms); bytes: growth of
this process per event at the highest rate; cpu_us: CPU time per event at that rate."""
import importlib
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "python"))
import stand_in_torch  # noqa: E402

MIB = 1 << 20
ROUNDS = 15
SECONDS = 4.0
EVENTS = 200000


def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096


def edges(tracker_of):
    starts, stops = [], []
    tracker = tracker_of(sampling_interval=0.1)
    for _ in range(ROUNDS + 1):
        began = time.perf_counter()
        tracker.start_tracking()
        started = time.perf_counter()
        time.sleep(0.15)
        ending = time.perf_counter()
        tracker.stop_tracking()
        starts.append((started - began) * 1e3)
        stops.append((time.perf_counter() - ending) * 1e3)
    return starts, stops


def busy(tracker_of, gpu):
    """Bytes and CPU microseconds per event, with samples that all differ."""
    gpu.reserved = 800 * MIB
    tracker = tracker_of(sampling_interval=0.0002, max_events=EVENTS)
    tracker.start_tracking()
    time.sleep(0.3)
    stats = tracker.get_statistics
    before, size, cpu = stats()["total_events"], resident(), time.process_time()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        gpu.allocated = (gpu.allocated + 7 * MIB) % (700 * MIB)
        time.sleep(0.0002)
    size, cpu = resident() - size, time.process_time() - cpu
    events = stats()["total_events"] - before
    tracker.stop_tracking()
    return size / events, cpu / events * 1e6


def main():
    torch = stand_in_torch.install()
    package = importlib.import_module(sys.argv[1])
    starts, stops = edges(package.MemoryTracker)
    size, cpu = busy(package.MemoryTracker, torch.gpus[0])
    print(json.dumps({"first_start_ms": starts[0], "starts_ms": starts[1:], "stops_ms": stops[1:], "bytes": size, "cpu_us": cpu}))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the cost of the Python package in the interpreter. bench/run starts it, with
HIWATER_COMMAND and PYTHONPATH set.

    bench/package.py import | start | hole | block

Prints one JSON object of lists, in seconds unless the key names another unit."""
import json
import subprocess
import sys
import threading
import time

ROUNDS = 40


def importing():
    """Duration of `import hiwater` and `import json`, each measured inside a fresh interpreter."""
    took = {"hiwater": [], "track": [], "json": []}
    lines = {"hiwater": "import hiwater", "track": "import hiwater; hiwater.track", "json": "import json"}
    for _ in range(ROUNDS // 2):
        for name, line in lines.items():
            said = subprocess.run([sys.executable, "-c", "import time; t = time.perf_counter()\n" + line +
                                   "\nprint(time.perf_counter() - t)"], capture_output=True, text=True, check=True).stdout
            took[name].append(float(said))
    return took


def starting():
    """Duration of starts and stops in a running program; the first start, which imports modules,
    separately. Runs under a second with a temporary recording, and runs with record=False, in
    turns."""
    import hiwater

    took = {"first": [], "start": [], "stop": [], "stop_unrecorded": []}
    for i in range(2 * ROUNDS):
        run = hiwater.track(record=None if i % 2 == 0 else False)
        began = time.perf_counter()
        run.start()
        took["start" if i else "first"].append(time.perf_counter() - began)
        time.sleep(0.15)
        began = time.perf_counter()
        run.stop()
        took["stop_unrecorded" if i % 2 else "stop"].append(time.perf_counter() - began)
    return took


def hole():
    """The longest time between two samples during a C call that holds the GIL for 2 s: of hiwater
    at 20 Hz, and of a Python thread at the same rate."""
    import ctypes

    import hiwater

    keeps_it = ctypes.PyDLL(None)  # unlike CDLL, it does not release the interpreter during a call
    times = []
    end = threading.Event()

    def sample():
        while not end.wait(0.05):
            times.append(time.perf_counter())

    found = {"hiwater": [], "thread": [], "held": []}
    for _ in range(5):
        times.clear()
        end.clear()
        thread = threading.Thread(target=sample)
        with hiwater.track(interval=0.05, record=False) as run:
            thread.start()
            time.sleep(0.5)
            began = time.perf_counter()
            keeps_it.poll(None, 0, 2000)
            found["held"].append(time.perf_counter() - began)
            time.sleep(0.5)
            end.set()
            thread.join()
        found["hiwater"].append(run.summary.sampling.longest_gap_s)
        found["thread"].append(max(b - a for a, b in zip(times, times[1:])))
    return found


def smaps_reader():
    """Starts a thread that reads smaps twice a second, as samplers of unique memory do; returns a
    function that ends it."""
    end = threading.Event()

    def read_smaps():
        while not end.wait(0.5):
            with open("/proc/self/smaps", "rb") as f:
                f.read()

    thread = threading.Thread(target=read_smaps)
    thread.start()

    def stop():
        end.set()
        thread.join()
    return stop


def gpu_tracker():
    """A function that starts gpu-tracker and returns its stop function; None if it is not
    installed."""
    try:
        import gpu_tracker as package
    except ImportError:
        return None

    def begin():
        tracker = package.Tracker()
        tracker.start()
        return tracker.stop
    return begin


def block():
    """The first write pass over 1 GiB in a process that already uses 8 GiB (2 if less than 12 are
    free): alone, tracked by hiwater, with concurrent reads of smaps, and tracked by gpu-tracker."""
    import mmap

    import hiwater

    with open("/proc/meminfo") as f:
        free_kib = next(int(line.split()[1]) for line in f if line.startswith("MemAvailable"))
    held = bytearray((8 if free_kib > 12 << 20 else 2) << 30)
    for i in range(0, len(held), 4096):
        held[i] = 1
    theirs = gpu_tracker()
    took = {"held_gib": len(held) >> 30, "alone": [], "tracked": [], "slowest": {}}

    def write_pass():
        area = mmap.mmap(-1, 1 << 30)
        began = time.perf_counter()
        for i in range(0, 1 << 30, 1 << 16):
            area[i] = 1
        spent = time.perf_counter() - began
        area.close()
        return spent

    def slowest(begin):
        """The slowest pass of three seconds: a tracker that samples once a second has sampled
        during one of them."""
        stop = begin()
        end = time.monotonic() + 3
        spent = []
        while time.monotonic() < end:
            spent.append(write_pass())
        stop()
        return max(spent)

    def ours():
        return hiwater.track(record=False).start().stop

    write_pass()
    for _ in range(8):
        took["alone"].append(write_pass())
        with hiwater.track(record=False):
            took["tracked"].append(write_pass())
    for _ in range(3):
        for name, begin in {"alone": lambda: lambda: None, "tracked": ours, "smaps": smaps_reader, "gpu_tracker": theirs}.items():
            if begin:
                took["slowest"].setdefault(name, []).append(slowest(begin))
    return took


if __name__ == "__main__":
    print(json.dumps({"import": importing, "start": starting, "hole": hole, "block": block}[sys.argv[1]]()))

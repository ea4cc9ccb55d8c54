#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the Python package costs the interpreter; bench/run starts it, HIWATER_COMMAND and PYTHONPATH tell it where hiwater is.

    bench/package.py import | start | hole | block

Prints one JSON object of lists: seconds, but for what says otherwise."""
import json
import subprocess
import sys
import threading
import time

ROUNDS = 40


def importing():
    """Of `import hiwater`, by the interpreter's own account, each in a fresh interpreter; of json beside it."""
    took = {"hiwater": [], "track": [], "json": []}
    lines = {"hiwater": "import hiwater", "track": "import hiwater; hiwater.track", "json": "import json"}
    for _ in range(ROUNDS // 2):
        for name, line in lines.items():
            said = subprocess.run([sys.executable, "-c", "import time; t = time.perf_counter()\n" + line +
                                   "\nprint(time.perf_counter() - t)"], capture_output=True, text=True, check=True).stdout
            took[name].append(float(said))
    return took


def starting():
    """Of a start and a stop in a program that runs; the first start, which imports what it needs, apart. Runs as users have
    them, which are shorter than a second and yet have a recording, and such as keep none."""
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
    """A C call that keeps the interpreter to itself for 2 s: the longest time in which nobody looked, hiwater at 20 Hz and a
    thread of Python beside it, and the RAM that each saw at most of 400 MiB that came and went meanwhile."""
    import ctypes

    import hiwater

    keeps_it = ctypes.PyDLL(None)  # unlike CDLL, it does not release the interpreter during a call
    looks = []
    end = threading.Event()

    def sample():
        while not end.wait(0.05):
            looks.append(time.perf_counter())

    found = {"hiwater": [], "thread": [], "held": []}
    for _ in range(5):
        looks.clear()
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
        found["thread"].append(max(b - a for a, b in zip(looks, looks[1:])))
    return found


def smaps_reader():
    """A thread that reads smaps twice a second, as samplers of unique memory do; returns what ends it."""
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
    """The same by the package that is replaced; None where it is not installed."""
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
    """The first write pass over 1 GiB in a process that holds 8 GiB already (2 where less than 12 are free): alone,
    tracked, beside reads of smaps, and with gpu-tracker around it."""
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
        """Of the passes of three seconds: who looks once a second has looked during one of them."""
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

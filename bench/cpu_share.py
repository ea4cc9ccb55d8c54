# SPDX-License-Identifier: MIT
"""CPU time of running processes, from the scheduler's count."""
import pathlib
import time


def on_cpu_s(pid):
    """CPU seconds of all threads of a process."""
    return sum(int(path.read_text().split()[0]) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def shares_of(pids, rounds, seconds):
    """For each name, the shares of a core that its process used in `rounds` windows."""
    shares = {name: [] for name in pids}
    for _ in range(rounds):
        began, before = time.monotonic(), {name: on_cpu_s(pid) for name, pid in pids.items()}
        time.sleep(seconds)
        for name, pid in pids.items():
            shares[name].append((on_cpu_s(pid) - before[name]) / (time.monotonic() - began))
    return shares

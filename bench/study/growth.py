# SPDX-License-Identifier: MIT
"""How hiwater's own CPU time grows with the rate and with the number of processes, next to the bare
reads that any sampler of memory needs."""
import csv
import os
import pathlib
import resource
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = ["axis", "hz", "processes", "hiwater_share", "floor_share"]
RATES = (1, 10, 100, 1000)
CROWDS = (1, 10, 100, 1000, 5000)
SHORT_S, LONG_S = 2, 7


def points():
    yield from (("rate", hz, 10) for hz in RATES)
    yield from (("processes", 1, n) for n in CROWDS)


def used_s(hiwater, folder, hz, n, seconds):
    """CPU seconds of the recorder alone."""
    usage = folder / "growth-usage"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([hiwater, "run", "-i", f"{1000 / hz:g}ms", "--summary", "none", "-o", folder / "growth.hiw", "--",
                    folder / "stint", usage, folder / "floor", "crowd", str(n), str(seconds)], check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, env={**os.environ, "HIWATER_DIR": str(folder / "history")})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    _, _, _, job_s, clock_s, _ = map(float, usage.read_text().split())
    (folder / "growth.hiw").unlink()
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime - job_s - clock_s


def measure(hiwater, folder):
    """Writes growth.csv. The difference of a long and a short run leaves the start out."""
    subprocess.run(["cc", "-O2", "-o", folder / "floor", HERE / "floor.c"], check=True)
    rows = []
    for axis, hz, n in points():
        share = (used_s(hiwater, folder, hz, n, LONG_S) - used_s(hiwater, folder, hz, n, SHORT_S)) / (LONG_S - SHORT_S)
        floor = float(subprocess.run([folder / "floor", "reads", str(hz), str(n), "5"], check=True, capture_output=True, text=True).stdout)
        rows.append([axis, hz, n, f"{max(share, 0):.8f}", f"{floor:.8f}"])
        print(f"growth: {hz} samples/s of {n} processes: hiwater {share:.3%} of a core, bare reads {floor:.3%}", flush=True)
    with open(folder / "growth.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(rows)

# SPDX-License-Identifier: MIT
"""How hiwater's own CPU time grows with the rate and with the number of processes, next to the bare
reads that any sampler of memory needs."""
import csv
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from cpu_share import shares_of  # noqa: E402
from measure import ended_with_us  # noqa: E402

COLUMNS = ["axis", "hz", "processes", "hiwater_share", "floor_share"]
RATES = (1, 10, 100, 1000)
CROWDS = (1, 10, 100, 1000, 5000)
SETTLE_S, SPAN_S = 3, 5  # all processes have started and were found; what is measured


def points():
    yield from (("rate", hz, 10) for hz in RATES)
    yield from (("processes", 1, n) for n in CROWDS)


def share_of(hiwater, folder, hz, n):
    """The share of a core that the recorder alone took, once all processes are there."""
    process = subprocess.Popen([hiwater, "run", "-i", f"{1000 / hz:g}ms", "--summary", "none", "-o", folder / "growth.hiw", "--",
                                folder / "floor", "crowd", str(n), str(SETTLE_S + SPAN_S + 2)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, env={**os.environ, "HIWATER_DIR": str(folder / "history")}, start_new_session=True)
    with ended_with_us(process):
        time.sleep(SETTLE_S)
        [share] = shares_of({"own": process.pid}, 1, SPAN_S)["own"]
        process.wait()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    (folder / "growth.hiw").unlink()
    return share


def measure(hiwater, folder):
    """Writes growth.csv."""
    subprocess.run(["cc", "-O2", "-o", folder / "floor", HERE / "floor.c"], check=True)
    rows = []
    for axis, hz, n in points():
        share = share_of(hiwater, folder, hz, n)
        floor = float(subprocess.run([folder / "floor", "reads", str(hz), str(n), "5"], check=True, capture_output=True, text=True).stdout)
        rows.append([axis, hz, n, f"{share:.8f}", f"{floor:.8f}"])
        print(f"growth: {hz} samples/s of {n} processes: hiwater {share:.3%} of a core, bare reads {floor:.3%}", flush=True)
    with open(folder / "growth.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(rows)

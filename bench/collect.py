#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures hiwater collect on copies of one recording, against plain sqlite3 and pyarrow that read nothing but their
tables `meta`; and the sizes of its rows. Prints JSON. The package of this source is on PYTHONPATH.

    bench/collect.py HIWATER [RECORDINGS]"""
import contextlib
import glob
import io
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

import pyarrow
import pyarrow.parquet
from hiwater import _collect

ROUNDS = 3
HOUR_S = 3600


def made(hiwater, folder, n):
    """Copies of a real recording of three seconds, each with an id and figures of its own."""
    first = os.path.join(folder, "1.hiw")
    subprocess.run([hiwater, "run", "--summary", "none", "--gpu", "none", "-o", first, "--", "sleep", "3"], check=True)
    for number in range(2, n + 1):
        path = os.path.join(folder, f"{number}.hiw")
        shutil.copy(first, path)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("UPDATE meta SET value = ? WHERE key = 'id'", (uuid.uuid4().hex,))
            db.execute("UPDATE meta SET value = value + abs(random()) % 1000000000 WHERE key LIKE '%\\_bytes' ESCAPE '\\' OR key LIKE '%\\_ns' ESCAPE '\\'")
            db.execute("UPDATE summary SET max = max + abs(random()) % 1000000000, sum = sum + abs(random()) % 1000000000000")


def lengthen(path, seconds):
    """Gives a recording a window for each second, with values that differ."""
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        names = [row[1] for row in db.execute("PRAGMA table_info(job_sample)")]
        last = dict(zip(names, db.execute("SELECT * FROM job_sample ORDER BY t DESC LIMIT 1 OFFSET 1").fetchone()))
        db.execute("DELETE FROM job_sample")
        for t in range(seconds):
            ram = (1 << 30) + t * 1_234_567 % 987_654_321
            last.update(t=t * 10**9, span=10**9, ram=ram, ram_min=ram - t * 4096, ram_max=ram + t % 977 * 4096, cpu_user=t * 987_654_321,
                        read_bytes=t * 7_654_321, write_bytes=t * t * 4096)
            db.execute(f"INSERT INTO job_sample VALUES({','.join('?' * len(names))})", [last[name] for name in names])
        db.execute("UPDATE meta SET value = ? WHERE key IN ('ended_ns', 'last_ns')", (seconds * 10**9,))


def plain(folder, target):
    """The floor: every table meta, as columns of one Parquet file."""
    rows = []
    for path in sorted(glob.glob(os.path.join(folder, "*.hiw"))):
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            rows.append(dict(db.execute("SELECT key, value FROM meta")))
    keys = sorted({key for row in rows for key in row})
    table = pyarrow.table({key: [None if row.get(key) is None else str(row[key]) for row in rows] for key in keys})
    pyarrow.parquet.write_table(table, target, compression="zstd")


def collected(folder, fleet):
    with contextlib.redirect_stdout(io.StringIO()):
        assert _collect.main([folder, "--to", fleet]) == 0


def cpu_s(action, *arguments):
    began = time.process_time()
    action(*arguments)
    return time.process_time() - began


def size(fleet, table):
    return sum(os.path.getsize(path) for path in glob.glob(f"{fleet}/{table}/*/*.parquet"))


def main():
    hiwater, n = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    with tempfile.TemporaryDirectory() as scratch:
        folder, long = f"{scratch}/recordings", f"{scratch}/long"
        os.mkdir(folder)
        os.mkdir(long)
        made(hiwater, folder, n)
        floor, ours, again = [], [], []
        for turn in range(ROUNDS):
            floor.append(cpu_s(plain, folder, f"{scratch}/floor.parquet"))
            ours.append(cpu_s(collected, folder, f"{scratch}/fleet-{turn}"))
            again.append(cpu_s(collected, folder, f"{scratch}/fleet-{turn}"))
        shutil.copy(f"{folder}/1.hiw", long)
        lengthen(f"{long}/1.hiw", HOUR_S)
        collected(long, f"{scratch}/long-fleet")
        windows = pyarrow.parquet.read_table(f"{scratch}/long-fleet/window").num_rows
        print(json.dumps({
            "recordings": n, "floor_s": floor, "collect_s": ours, "again_s": again, "times": statistics.median(ours) / statistics.median(floor),
            "job_bytes": size(f"{scratch}/fleet-0", "job") / n, "rank_bytes": size(f"{scratch}/fleet-0", "rank") / n,
            "windows": windows, "windows_bytes": size(f"{scratch}/long-fleet", "window"),
        }))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""Recordings of long runs, made in a second: a real one of two seconds with as many more windows as are asked for."""
import math
import sqlite3
import subprocess

SECOND = 10**9
GIB = 1 << 30


def columns(db, table):
    return [row[1] for row in db.execute(f"PRAGMA table_info({table})")]


def windows(db, table, n, ids, values):
    """n windows of a second of each id, each like the table's last row but for the columns that values gives."""
    names = columns(db, table)
    pattern = dict(zip(names, db.execute(f"SELECT * FROM {table} ORDER BY t DESC LIMIT 1").fetchone()))
    slots = ",".join("?" * len(names))
    db.execute(f"DELETE FROM {table}")
    rows = ([{**pattern, "t": i * SECOND, "span": SECOND, "id": id, **values(i, id)}[name] for name in names]
            for i in range(n) for id in ids)
    db.executemany(f"INSERT INTO {table} VALUES({slots})", rows)


def job_values(burst_at):
    def values(i, _):
        ram = int(2 * GIB + GIB * math.sin(i / 500) + i * 4096)
        return {"ram_min": ram - 65536 * (i % 17), "ram": ram, "ram_max": 30 * GIB if i == burst_at else ram + 99991 * (i % 7),
                "cpu_user": i * SECOND + i % 97 * 10**7, "read_bytes": i * 12345678}
    return values


def process_values(i, id):
    rss = GIB // (id + 1) + i * 1024 * id
    return {"rss_min": None, "rss": rss, "rss_max": rss + 4096 * (i % 5), "cpu_user": i * SECOND // (id + 1)}


def make(hiwater, path, hours=24, processes=8, burst_at=54321):
    """A run of so many hours with a burst of 30 GiB in one of its windows."""
    job = ["sh", "-c", "sleep 2.2 & " * max(1, processes - 1) + "wait"]
    subprocess.run([hiwater, "run", "--summary", "none", "--gpu", "none", "-o", path, "--", *job], check=True)
    n = int(hours * 3600)
    with sqlite3.connect(path) as db:
        ids = [row[0] for row in db.execute("SELECT id FROM process ORDER BY id LIMIT ?", (processes,))]
        for table in ("job", "host", "process"):
            db.execute(f"DELETE FROM {table}_recent")
        windows(db, "job_sample", n, [0], job_values(burst_at))
        windows(db, "host_sample", n, [0], lambda i, _: {"cpu_user": i * 2 * SECOND, "net_rx": i * 1000 + i % 13})
        windows(db, "process_sample", n, ids, process_values)
        db.execute("UPDATE process SET ended = ?, born = 0", (n * SECOND,))
        db.execute("UPDATE meta SET value = ? WHERE key IN ('ended_ns', 'last_ns')", (n * SECOND,))
        db.execute("UPDATE summary SET max = ?, max_at = ? WHERE entity = 'job' AND metric = 'ram'", (30 * GIB, burst_at * SECOND))
    db.close()


def add_series(path, names, n, seconds):
    """Values that a job would have logged, a step each: falling curves with noise."""
    state, rows, values = 12345, [], {name: [] for name in names}
    for i in range(n):
        for k, name in enumerate(names, 1):
            state = state * 1103515245 + 12345 & 0x7FFFFFFF
            values[name].append(k * math.exp(-i / n * 3) + (state / 0x7FFFFFFF - 0.5) * 0.2)
            rows.append((i * seconds * SECOND // n, k, i, values[name][-1]))
    with sqlite3.connect(path) as db:
        db.executemany("INSERT INTO series_value VALUES(?,?,?,?)", rows)
        for k, (name, v) in enumerate(values.items(), 1):
            db.execute("INSERT INTO series(id, name, n, first, last, min, max, step, sum) VALUES(?,?,?,?,?,?,?,?,?)", (k, name, n, v[0], v[-1], min(v), max(v), n - 1, sum(v)))
    db.close()

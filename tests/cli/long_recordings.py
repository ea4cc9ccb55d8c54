# SPDX-License-Identifier: MIT
"""Recordings of long runs, made in a second: a real one of two seconds, given as many windows as are asked for by SQLite itself."""
import random
import sqlite3
import subprocess

SECOND = 10**9
GIB = 1 << 30
NUMBERS = "WITH RECURSIVE number(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM number WHERE i + 1 < ?) "

# What differs from window to window: SQL about i, the window's number, and id.
HOST = {"cpu_user": f"i * 2 * {SECOND}", "net_rx": "i * 1000 + i % 13"}
PROCESS = {"rss_min": "NULL", "rss": f"{GIB} / (id + 1) + i * 1024 * id", "rss_max": f"{GIB} / (id + 1) + i * 1024 * id + 4096 * (i % 5)",
           "cpu_user": f"i * {SECOND} / (id + 1)"}


def job(burst_at):
    ram = f"({2 * GIB} + abs(i % 1000 - 500) * 2000000 + i * 4096)"
    return {"ram_min": f"{ram} - 65536 * (i % 17)", "ram": ram,
            "ram_max": f"CASE i WHEN {burst_at} THEN {30 * GIB} ELSE {ram} + 99991 * (i % 7) END",
            "cpu_user": f"i * {SECOND} + i % 97 * 10000000", "read_bytes": "i * 12345678"}


def windows(db, table, n, ids, differs):
    """n windows of a second of each id, like the table's last row but for what differs."""
    names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    last = dict(zip(names, db.execute(f"SELECT * FROM {table} ORDER BY t DESC LIMIT 1").fetchone()))
    db.execute(f"DELETE FROM {table}")
    differs = {"t": f"i * {SECOND}", "span": str(SECOND), "id": "id", "part": "NULL", **differs}
    values = [differs.get(name, "?") for name in names]
    same = [last[name] for name in names if name not in differs]
    rows = f"SELECT i, column1 AS id FROM number, (VALUES {','.join(f'({id})' for id in ids)})"
    db.execute(f"INSERT INTO {table} {NUMBERS} SELECT {','.join(values)} FROM ({rows})", (n, *same) if "?" in values else (n,))


def make(hiwater, path, hours=24, processes=8, burst_at=54321):
    """A run of so many hours with a burst of 30 GiB in one of its windows."""
    command = ["sh", "-c", "sleep 2.2 & " * max(1, processes - 1) + "wait"]
    subprocess.run([hiwater, "run", "--summary", "none", "--gpu", "none", "-o", path, "--", *command], check=True)
    n = int(hours * 3600)
    with sqlite3.connect(path) as db:
        ids = [row[0] for row in db.execute("SELECT id FROM process ORDER BY id LIMIT ?", (processes,))]
        for table in ("job", "host", "process"):
            db.execute(f"DELETE FROM {table}_recent")
        windows(db, "job_sample", n, [0], job(burst_at))
        windows(db, "host_sample", n, [0], HOST)
        windows(db, "process_sample", n, ids, PROCESS)
        db.execute("UPDATE process SET ended = ?, born = 0", (n * SECOND,))
        db.execute("UPDATE meta SET value = ? WHERE key IN ('ended_ns', 'last_ns')", (n * SECOND,))
        db.execute("UPDATE summary SET max = ?, max_at = ? WHERE entity = 'job' AND metric IN ('ram', 'ram_high')",
                   (30 * GIB, burst_at * SECOND))
        db.execute("DELETE FROM meta WHERE key IN ('ram_low_bytes', 'ram_peak_bytes', 'ram_high_bytes')")
    db.close()


def add_series(path, names, n, seconds):
    """Values that a job would have logged, a step each: falling lines with noise."""
    keys = ",".join(f"({k})" for k in range(1, len(names) + 1))
    with sqlite3.connect(path) as db:
        db.create_function("noise", 0, random.Random(1).random)
        db.execute(f"INSERT INTO series_value {NUMBERS} SELECT i * {seconds * SECOND} / {n}, k, i, k * (1 - 0.9 * i / {n}) + 0.2 * noise()"
                   f" FROM (SELECT i, column1 AS k FROM number, (VALUES {keys})) ORDER BY i", (n,))
        for k, name in enumerate(names, 1):
            db.execute("INSERT INTO series(id, name, n, first, last, min, max, step, sum) SELECT ?1, ?2, count(*), 1, 0, min(value), max(value),"
                       " ?3, sum(value) FROM series_value WHERE series = ?1", (k, name, n - 1))
    db.close()

# SPDX-License-Identifier: MIT
"""A recording with known figures: two minutes of training on two GPUs, with loaders, an epoch every forty seconds, a burst of
memory, an alert. hiwater creates the tables; the rows are written here."""
import math
import sqlite3
import sys

SECOND = 10**9
MIB = 1 << 20
GIB = 1 << 30
END = 120
HOSTILE = "ev\x1b]0;owned\x07il \u202e\x9b2Jname"


def columns_of(db, table):
    return [row[1] for row in db.execute(f"PRAGMA table_info({table})")]


def insert(db, table, **values):
    """A row; the value of a gauge is used for minimum, mean and maximum."""
    known = columns_of(db, table)
    row = {}
    for name, value in values.items():
        row[name] = value
        if f"{name}_max" in known:
            row.setdefault(f"{name}_max", value)
    row = {name: value for name, value in row.items() if name in known}
    names = ", ".join(row)
    db.execute(f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({', '.join('?' * len(row))})", list(row.values()))


def ram(t):
    """Memory of main: growth with a sawtooth, and a burst of 8 GiB in second 71."""
    return 4 * GIB + t * 60 * MIB + (t % 20) * 50 * MIB


def processes(hostile):
    people = [(1, 4100, 0, "python", "/usr/bin/python3 train.py --epochs 3 --data /data/images"),
              (2, 4101, 1, "python", "loader 0"), (3, 4102, 1, "python", "loader 1"),
              (4, 4103, 1, "sh", "sh -c 'tail -f log | grep loss'"), (5, 4104, 4, "tail", "tail -f log")]
    if hostile:
        people.append((6, 4105, 1, HOSTILE[:15], HOSTILE + " --x\ty\nz"))
    return people


def clear(db):
    for table, in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        if table not in ("meta", "metric"):
            db.execute(f"DELETE FROM {table}")


def fill_meta(db, name):
    facts = {"command": "python3 train.py --epochs 3 --data /data/images", "name": name, "host": "node7", "main_pid": 4100,
             "started_wall_ns": 1763712000 * SECOND, "ended_ns": END * SECOND, "last_ns": END * SECOND, "cpus": 16,
             "capacity_bytes": 64 * GIB, "interval_ns": SECOND // 10, "window_ns": SECOND, "exit_status": 0}
    for key in ("limit_bytes", "limit_cpu_ppm", "cgroup", "request_bytes"):
        db.execute("DELETE FROM meta WHERE key = ?", [key])
    for key, value in facts.items():
        db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [key, value])


def fill_births(db, hostile):
    for id_, pid, parent, name, command in processes(hostile):
        insert(db, "process", id=id_, parent=parent, pid=pid, ppid=4099 + parent, uid=0, start=5000 * SECOND + id_, born=0,
               ended=None if id_ == 1 else (END - 10) * SECOND, end_source="reaped", is_main=int(id_ == 1), name=name, command=command)
    for g in range(2):
        insert(db, "gpu", id=g + 1, uuid=f"GPU-{g}", name="NVIDIA H200", vendor="nvidia", number=g, memory=141 * GIB, born=0,
               pci=f"0000:0{g}:00.0", parent="", driver="570.1", cuda=g, unified=0, is_module=0)
    insert(db, "gpu_process", id=1, gpu=1, process=1, pid=4100, born=2 * SECOND, uid=0, name="python", compute=1, graphics=0)


def fill_window(db, t, hostile):
    at = {"t": t * SECOND, "span": SECOND, "n": 10}
    main, burst = ram(t), 8 * GIB if t == 71 else 0
    insert(db, "host_sample", **at, mem_used=main + 9 * GIB, mem_available=50 * GIB, swap_used=0, cpu_user=t * 5 * SECOND,
           cpu_system=t * SECOND, cpu_idle=t * 9 * SECOND, cpu_iowait=t * SECOND, net_rx=t * 3 * MIB, net_tx=t * MIB,
           disk_read=t * 97 * MIB, disk_write=t * 2 * MIB, energy=t * 120 * 10**6)
    insert(db, "job_sample", **at, ram=main + 1500 * MIB, ram_max=main + 1500 * MIB + burst, rss_sum=main + 1700 * MIB, swap=0,
           processes=5, cpu_user=t * 4 * SECOND, cpu_system=t * SECOND // 2, read_bytes=t * 97 * MIB, write_bytes=t * 2 * MIB)
    sizes = {1: main, 2: 700 * MIB, 3: 690 * MIB + t * MIB, 4: 2 * MIB, 5: MIB, 6: 10 * MIB}
    for id_, *_ in processes(hostile):
        if t > 0 and id_ in (2, 4, 5, 6):
            continue  # unchanged: no row
        if id_ != 1 and t >= END - 10:
            continue
        extra = burst if id_ == 1 else 0
        insert(db, "process_sample", **at, id=id_, rss=sizes[id_], rss_max=sizes[id_] + extra, rss_file=50 * MIB,
               hwm=sizes[id_] + (8 * GIB if id_ == 1 and t >= 71 else 0), swap=0, threads=9 if id_ == 1 else 1,
               cpu_user=t * SECOND * (104 if id_ == 1 else 99) // 100, cpu_system=t * SECOND // 50,
               read_bytes=t * 24 * MIB, write_bytes=t * 100 * 1024)
    for g in range(2):
        busy = int(500000 + 400000 * math.sin(t / 6)) if g == 0 else 0
        insert(db, "gpu_sample", **at, id=g + 1, mem=(61 * GIB + t * 10 * MIB) if g == 0 else 600 * MIB,
               job_mem=(60 * GIB + t * 10 * MIB) if g == 0 else 0, busy=min(busy * 2, 1000000), sm_active=busy,
               power=318 * 10**6 if g == 0 else 71 * 10**6, power_limit=700 * 10**6, temp=71000 if g == 0 else 33000)
    insert(db, "gpu_process_sample", **at, id=1, mem=60 * GIB + t * 10 * MIB, sm_busy=min(900000, t * 10000))


def fill_words(db):
    events = [(12, "alert", "data-starved: GPU waits 57 % of each step"), (71, "alert", "warn: ram > 16GiB: ram is 18.2 GiB"),
              (74, "cleared", "warn: ram > 16GiB"), (80, "mark", "checkpoint 1")]
    rows = [(t, kind, 0, text) for t, kind, text in events]
    for epoch in range(3):
        rows += [(epoch * 40, "phase-begin", epoch + 1, f"epoch\nepoch={epoch}"), (epoch * 40 + 39, "phase-end", epoch + 1, "")]
    for t, kind, phase, text in sorted(rows):
        insert(db, "event", t=t * SECOND, kind=kind, entity="job", id=0, phase=phase, value=0, text=text)
    for id_, name in enumerate(("loss", "accuracy"), 1):
        insert(db, "series", id=id_, name=name, n=END)
    for t in range(0, END, 2):
        insert(db, "series_value", t=t * SECOND, series=1, step=t * 13, value=2.5 * math.exp(-t / 40))
        insert(db, "series_value", t=t * SECOND, series=2, step=t * 13, value=1 - math.exp(-t / 40))


def make(path, name="", hostile=False):
    """Replaces the rows of path, any recording, by the above."""
    db = sqlite3.connect(path)
    with db:
        clear(db)
        fill_meta(db, name)
        fill_births(db, hostile)
        for t in range(END):
            fill_window(db, t, hostile)
        fill_words(db)
    db.close()


if __name__ == "__main__":
    make(sys.argv[1], hostile=len(sys.argv) > 2)

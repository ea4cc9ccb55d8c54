# SPDX-License-Identifier: MIT
"""CPU and memory of a tool and of its job over time: hiwater records both in one run, and the
processes below the clock (stint) are the job's."""
import collections
import contextlib
import csv
import dataclasses
import io
import shlex
import sqlite3
import subprocess

import measure

COLUMNS = ["workload", "tool", "t_s", "job_cores", "tool_cores", "job_bytes", "tool_bytes"]


def split(recording):
    """Ids of the job's processes, and of the clock."""
    with sqlite3.connect(f"file:{recording}?mode=ro", uri=True) as db:
        rows = db.execute("SELECT id, parent, name FROM process ORDER BY id").fetchall()
    clocks = {i for i, _, name in rows if name == "stint"}
    job = set()
    for _ in range(2):  # a parent may have a larger number
        job |= {i for i, parent, _ in rows if parent in clocks or parent in job} - clocks
    return job, clocks


def figures(hiwater, recording):
    """(t_s, job_cores, tool_cores, job_bytes, tool_bytes) of each window."""
    job, clocks = split(recording)
    text = subprocess.run([hiwater, "export", recording, "--to", "csv", "--entity", "process"], check=True, capture_output=True,
                          text=True).stdout
    windows, cpu = collections.defaultdict(lambda: [0.0, 0.0, 0.0, 0.0]), {}
    spans = {}
    for row in csv.DictReader(io.StringIO(text)):
        number, t = int(row["id"]), round(float(row["elapsed_s"]), 3)
        if number in clocks:
            continue
        side = 0 if number in job else 1
        with contextlib.suppress(ValueError):
            windows[t][2 + side] += float(row["rss_mean_bytes"])
        with contextlib.suppress(ValueError):
            used = float(row["cpu_user_seconds"]) + float(row["cpu_system_seconds"])
            windows[t][side] += max(0.0, used - cpu.get(number, 0.0))
            cpu[number] = used
        spans[t] = max(spans.get(t, 0.0), float(row["span_s"]))
    for t in sorted(windows):
        job_cpu, tool_cpu, job_bytes, tool_bytes = windows[t]
        span = max(spans[t], 0.1)
        yield t, job_cpu / span, tool_cpu / span, job_bytes, tool_bytes


def below_one(tool):
    """The tool with a command that also runs the job, so that one recording has both."""
    if tool.where != "next to":
        return tool

    def command(run):
        words = [shlex.join(map(str, part)) for part in (tool.command(run), run.job)]
        return ["sh", "-c", f"{words[0]} & n=$!; sleep {measure.NEXT_TO_SETTLE_S}; {words[1]}; s=$?; kill -INT $n; wait; exit $s"]
    return dataclasses.replace(tool, where="around", command=command)


def record(hiwater, tool, workload, folder, env, size):
    """Appends the windows to timeline-SIZE.csv, unless they are there."""
    path = folder / f"timeline-{size}.csv"
    if path.exists():
        with open(path, newline="") as file:
            if any(row["workload"] == workload.name and row["tool"] == tool.name for row in csv.DictReader(file)):
                return
    recording = folder / "timeline.hiw"
    recording.unlink(missing_ok=True)

    def around(command):
        return [hiwater, "run", "-i", "100ms", "--summary", "none", "-o", recording, "--", *command]

    try:
        measure.measure(below_one(tool), workload, folder / "stint", folder / "run", env, around=around)
    except (measure.Failed, subprocess.SubprocessError) as e:
        print(f"  no timeline of {tool.name} on {workload.name}: {e}", flush=True)
        return
    out = io.StringIO()
    writer = csv.writer(out)
    if not path.exists():
        writer.writerow(COLUMNS)
    for row in figures(hiwater, recording):
        writer.writerow([workload.name, tool.name, *(f"{value:.4g}" for value in row[:3]), *(f"{value:.0f}" for value in row[3:])])
    with open(path, "a", newline="") as file:
        file.write(out.getvalue())

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

COLUMNS = ["workload", "tool", "t_s", "job_cores", "tool_cores", "job_bytes", "tool_bytes", "job_processes", "tool_processes"]


JOB, TOOL, NEITHER = 0, 1, 2


def side(number, parents, names, is_wrapped):
    """Whose a process is: the tool's if all its ancestors up to the main process are known, and none of them is the clock."""
    line = [number]
    while parents.get(line[-1]):
        line.append(parents[line[-1]])
    if names[number] == "stint" or (is_wrapped and (len(line) == 1 or (len(line) == 2 and names[number] == "sleep"))):
        return NEITHER
    return TOOL if line[-1] == min(parents) and "stint" not in (names[i] for i in line) else JOB


def lives(recording, is_wrapped):
    """{id: (side, born_s, ended_s)} of the processes of the job and of the tool. is_wrapped: below_one's shell is the main process."""
    with sqlite3.connect(f"file:{recording}?mode=ro", uri=True) as db:
        rows = db.execute("SELECT id, parent, name, born, ended FROM process").fetchall()
    parents, names = {row[0]: row[1] for row in rows}, {row[0]: row[2] for row in rows}
    whose = {number: side(number, parents, names, is_wrapped) for number in parents}
    return {number: (whose[number], born / 1e9, float("inf") if ended is None else ended / 1e9)
            for number, _, _, born, ended in rows if whose[number] != NEITHER}


def most_at_once(spans, since, until):
    """How many of the spans (from, to) there were at one time between the two."""
    begins = [since, *(born for born, _ in spans if since < born < until)]
    return max(sum(born <= t < ended for born, ended in spans) for t in begins)


def figures(hiwater, recording, is_wrapped=False):
    """(t_s, job_cores, tool_cores, job_bytes, tool_bytes, job_processes, tool_processes) of each window. A process without a row is
    as it was."""
    text = subprocess.run([hiwater, "export", recording, "--to", "csv", "--entity", "process"], check=True, capture_output=True,
                          text=True).stdout
    processes, windows, cpu, rss = lives(recording, is_wrapped), collections.defaultdict(dict), {}, {}
    for row in csv.DictReader(io.StringIO(text)):
        windows[float(row["elapsed_s"])][int(row["id"])] = row
    for t, rows in sorted(windows.items()):
        span = max(0.1, *(float(row["span_s"]) for row in rows.values()))
        used, held, living = [0.0, 0.0], [0.0, 0.0], [0, 0]
        for number, (whose, born, ended) in processes.items():
            if number in rows:
                with contextlib.suppress(ValueError):
                    total = float(rows[number]["cpu_user_seconds"]) + float(rows[number]["cpu_system_seconds"])
                    used[whose] += max(0.0, total - cpu.get(number, 0.0))
                    cpu[number] = total
                with contextlib.suppress(ValueError):
                    rss[number] = float(rows[number]["rss_mean_bytes"])
            if number in rss:
                held[whose] += rss[number] * max(0.0, min(ended, t + span) - max(born, t)) / span
        for whose in (JOB, TOOL):
            living[whose] = most_at_once([(born, ended) for owner, born, ended in processes.values() if owner == whose], t, t + span)
        yield t, used[0] / span, used[1] / span, *held, *living


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
    for row in figures(hiwater, recording, tool.where == "next to"):
        writer.writerow([workload.name, tool.name, *(f"{value:.4g}" for value in row[:3]), *(f"{value:.0f}" for value in row[3:])])
    with open(path, "a", newline="") as file:
        file.write(out.getvalue())

# SPDX-License-Identifier: MIT
"""Draws docs/study/overhead.md and its pictures from the raw data next to it, and from nothing else."""
import collections
import csv
import json
import os
import pathlib
import shutil
import statistics
import tempfile

import paired
import tools

DATA = ("overhead", "reported", "timeline", "growth")
INSTRUCTIONS = "instructions.csv"  # where the machine counts them
COLOURS = {"job": "#4477aa", "tool": "#ee6677"}


def publish(folder, size, docs):
    """Copies the data of a finished study into docs and draws the page there, all or nothing."""
    docs.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=docs.parent, prefix=".study-") as scratch:
        new = pathlib.Path(scratch) / "study"
        new.mkdir()
        for name in DATA:
            source = folder / (f"{name}-{size}.csv" if name != "growth" else "growth.csv")
            shutil.copy(source, new / f"{name}.csv")
        if (folder / f"instructions-{size}.csv").exists():
            shutil.copy(folder / f"instructions-{size}.csv", new / INSTRUCTIONS)
        shutil.copy(folder / f"machine-{size}.json", new / "machine.json")
        write(new)
        new.chmod(0o755)
        old = pathlib.Path(scratch) / "old"
        if docs.exists():
            docs.rename(old)
        os.rename(new, docs)
    print(f"wrote {docs / 'overhead.md'}")


def rows_of(docs, name):
    with open(docs / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def with_instructions(docs, rows):
    """The rows with what instructions.csv has; "" where there is nothing."""
    counted = rows_of(docs, "instructions") if (docs / INSTRUCTIONS).exists() else []
    found = {(row["workload"], row["tool"], row["round"]): row["instructions"] for row in counted}
    return [{**row, "instructions": found.get((row["workload"], row["tool"], row["round"]), "")} for row in rows]


def in_order(names):
    known = [tool.name for tool in tools.TOOLS]
    return sorted(names, key=lambda n: known.index(n) if n in known else len(known))


# ---- figures in words ------------------------------------------------------------------------------------------------

def three(value):
    """Three significant digits."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def size(value):
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{three(value)} {unit}"
        value /= 1000


def seconds(value):
    return "0" if value == 0 else f"{three(value)} s" if value >= 1 else f"{three(value * 1000)} ms"


def difference(values):
    if not values:
        return "-"
    middle, low, high = paired.interval(values)
    resolved = "" if low > 0 or high < 0 else ", not resolved"
    return f"{middle:+.1%} ({low:+.1%} to {high:+.1%}{resolved})"


def median_of(rows, column):
    values = [float(row[column]) for row in rows if row[column] not in ("", None)]
    return statistics.median(values) if values else None


def told(value, form):
    return "-" if value is None else form(value)


# ---- tables ----------------------------------------------------------------------------------------------------------

class Measured:
    """The rows of one workload."""

    def __init__(self, rows):
        self.rows = rows
        self.by_tool = collections.defaultdict(list)
        for row in rows:
            self.by_tool[row["tool"]].append(row)

    def values(self, tool, column):
        return {int(row["round"]): float(row[column]) for row in self.by_tool[tool] if row[column]}

    def against_none(self, tool, column):
        return paired.paired(self.values(tool, column), self.values("none", column))

    def error(self, tool):
        errors = [row["error"] for row in self.by_tool[tool] if row["error"]]
        return errors[0] if len(errors) == len(self.by_tool[tool]) else ""

    def failed(self, tool):
        return sum(bool(row["error"]) for row in self.by_tool[tool])


def cost_table(m, has_epochs, processes):
    """processes: the most that each tool had at a time."""
    has_counts = bool(m.values("none", "instructions"))
    first = "first epoch" if has_epochs else "wall time"
    head = ["tool", "version", first, *(["later epochs"] if has_epochs else []), "CPU of job",
            *(["instructions of job"] if has_counts else []), "CPU of tool", "memory of tool", "its processes", "written", "until the answer"]
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join(["---"] * len(head)) + " |"]
    job_s = statistics.median(m.values("none", "job_cpu_s").values())
    for tool in in_order(m.by_tool):
        version = m.by_tool[tool][0]["version"] or "-"
        if m.error(tool):
            lines.append(f"| {tool} | {version} | {m.error(tool)} |" + " |" * (len(head) - 3))
            continue
        rows = [row for row in m.by_tool[tool] if not row["error"]]
        if tool == "none":
            times = [seconds(median_of(rows, c)) for c in (["epoch_first_s", "epoch_rest_s"] if has_epochs else ["epoch_first_s"])]
            counts = [f"{statistics.median(m.values('none', 'instructions').values()):.3g}"] if has_counts else []
            lines.append("| " + " | ".join([tool, version, *times, f"{three(job_s)} s", *counts, "-", "-", "-", "-", "-"]) + " |")
            continue
        times = [difference(m.against_none(tool, c)) for c in (["epoch_first_s", "epoch_rest_s"] if has_epochs else ["epoch_first_s"])]
        own = median_of(rows, "tool_cpu_s")
        note = f"; {m.failed(tool)} of {len(m.by_tool[tool])} runs failed" if m.failed(tool) else ""
        lines.append("| " + " | ".join([
            tool, version, *times, difference(m.against_none(tool, "job_cpu_s")) + note,
            *([difference(m.against_none(tool, "instructions"))] if has_counts else []),
            "in the job" if own is None else f"{three(own)} s ({own / job_s:.1%} of the job's)",
            told(median_of(rows, "tool_peak_bytes"), size),
            str(processes.get(tool) or "-"), told(median_of(rows, "bytes_written"), size),
            told(median_of(rows, "post_s"), seconds)]) + " |")
    return lines


def report_table(rows):
    """What the tools reported, relative to the truth."""
    lines = ["| tool | peak RAM reported / truth | CPU time reported / truth | processes |", "| --- | --- | --- | --- |"]
    by_tool = collections.defaultdict(list)
    for row in rows:
        by_tool[row["tool"]].append(row)
    for tool in in_order(by_tool):
        ratio = {}
        for name in ("ram_bytes", "cpu_s"):
            values = [float(row[name]) / float(row[f"truth_{name}"]) for row in by_tool[tool] if row[name] and float(row[f"truth_{name}"])]
            ratio[name] = f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})" if values else "not reported"
        processes = told(median_of(by_tool[tool], "processes"), lambda v: f"{v:.0f}")
        lines.append(f"| {tool} | {ratio['ram_bytes']} | {ratio['cpu_s']} | {processes} |")
    return lines


def claims(measured, workload):
    """What follows from the rows of a workload, in sentences."""
    costs = {}
    for tool in measured.by_tool:
        if tool == "none" or measured.error(tool):
            continue
        total = {}
        job, own = measured.values(tool, "job_cpu_s"), measured.values(tool, "tool_cpu_s")
        none = measured.values("none", "job_cpu_s")
        for r in job:
            if r in none:
                total[r] = (job[r] + own.get(r, 0)) / none[r] - 1
        if total:
            costs[tool] = paired.interval(list(total.values()))
    if not costs:
        return []
    ordered = sorted(costs, key=lambda t: costs[t][0])
    own = [t for t in ordered if t.startswith("hiwater")]
    said = [f"CPU time of job and tool together, against the job alone, from least to most: "
            + ", ".join(f"{t} {costs[t][0]:+.1%}" for t in ordered) + "."]
    for t in own[:3]:
        cheaper = [o for o in ordered if not o.startswith("hiwater") and costs[o][2] < costs[t][1]]
        if cheaper:
            said.append(f"{t} cost more than {', '.join(cheaper)}, beyond their intervals.")
    return said


# ---- pictures --------------------------------------------------------------------------------------------------------

def pyplot():
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "hiwater", "font.size": 8, "axes.spines.top": False, "axes.spines.right": False})
    import matplotlib.pyplot as plt

    return plt


def draw_timeline(rows, path):
    plt = pyplot()
    by_tool = collections.defaultdict(list)
    for row in rows:
        by_tool[row["tool"]].append({k: float(v) for k, v in row.items() if k not in ("workload", "tool")})
    names = in_order(by_tool)
    figure, axes = plt.subplots(len(names), 2, figsize=(9, 1.1 * len(names) + 0.6), sharex=True, sharey="col", squeeze=False)
    for (cpu, memory), name in zip(axes, names):
        t = [row["t_s"] for row in by_tool[name]]
        for side, colour in COLOURS.items():
            cpu.plot(t, [row[f"{side}_cores"] for row in by_tool[name]], color=colour, label=side, linewidth=1)
            memory.plot(t, [row[f"{side}_bytes"] / 1e6 for row in by_tool[name]], color=colour, label=side, linewidth=1)
        cpu.set_ylabel(name, rotation=0, ha="right", va="center")
        memory.yaxis.tick_right()
    axes[0][0].set_title("CPU, cores")
    axes[0][1].set_title("sum of resident memory, MB")
    axes[0][1].legend(frameon=False, loc="upper right", ncols=2)
    for axis in axes[-1]:
        axis.set_xlabel("seconds")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def draw_growth(rows, path):
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True)
    for axis, kind, column, label in ((axes[0], "rate", "hz", "samples a second, 10 processes"),
                                      (axes[1], "processes", "processes", "processes, 1 sample a second")):
        chosen = [row for row in rows if row["axis"] == kind]
        for name, words, colour in (("hiwater_share", "hiwater", COLOURS["tool"]), ("floor_share", "bare reads of statm", "#888888")):
            points = [(float(row[column]), float(row[name]) * 100) for row in chosen if float(row[name]) > 0]
            axis.plot([x for x, _ in points], [y for _, y in points], "o-", color=colour, label=words, linewidth=1, markersize=3)
        axis.set_xscale("log")
        axis.set_yscale("log")
        for scale in (axis.xaxis, axis.yaxis):
            scale.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_xlabel(label)
    axes[0].set_ylabel("% of a core")
    axes[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


# ---- the page --------------------------------------------------------------------------------------------------------

WORDS = {
    "light": "A CNN of two convolutions and two dense layers on scikit-learn's digits at 28x28, batch 64, in PyTorch.",
    "heavy": "ResNet-50 on JPEG crops of photographs, batch 8, two DataLoader workers, in PyTorch.",
    "trees": "XGBoost on the demo's expanded digits.",
    "many": "`make -j2` of a C project: several hundred short processes.",
}


def processes_of(timeline, workload):
    """{tool: the most processes that it had at a time, in the run of its picture}"""
    most = collections.defaultdict(int)
    for row in timeline:
        if row["workload"] == workload and row["tool"] != "none":
            most[row["tool"]] = max(most[row["tool"]], int(row["tool_processes"]))
    return most


def write(docs):
    overhead, reported, timeline, growth = (rows_of(docs, name) for name in DATA)
    machine = json.loads((docs / "machine.json").read_text())
    overhead = with_instructions(docs, overhead)
    lines = head(machine, overhead)
    for workload in dict.fromkeys(row["workload"] for row in overhead):
        measured = Measured([row for row in overhead if row["workload"] == workload])
        has_epochs = any(row["epoch_rest_s"] for row in measured.rows)
        lines += [f"## {workload}", "", f"{WORDS.get(workload, '')} Here: {machine['workloads'][workload]}.", "",
                  *cost_table(measured, has_epochs, processes_of(timeline, workload)), "",
                  *(line for claim in claims(measured, workload) for line in (claim, "")),
                  "What each tool reported, relative to the truth (median, and the range over the rounds):", "",
                  *report_table([row for row in reported if row["workload"] == workload]), ""]
        shown = [row for row in timeline if row["workload"] == workload]
        if shown:
            draw_timeline(shown, docs / f"{workload}.svg")
            lines += [f"![CPU and memory of job and tool over time, {workload}]({workload}.svg)", ""]
    draw_growth(growth, docs / "growth.svg")
    lines += ["## How hiwater's cost grows", "",
              "Own CPU time at 1 to 1,000 samples a second and for 1 to 5,000 sleeping processes, next to the bare reads of each process's "
              "`statm` that any sampler of memory needs. The last samples of the steepest rates may be skipped: the summary of a run says so.",
              "", "![hiwater's CPU time by rate and by number of processes](growth.svg)", "",
              "## Microbenchmark on a GPU", "", "Blocks and threads against utilisation, SMACT, SMOCC and DRAMA: not run: no GPU.", ""]
    (docs / "overhead.md").write_text("\n".join(lines))


def head(machine, overhead):
    rounds = max(int(row["round"]) for row in overhead)
    counts = "" if any(row["instructions"] for row in overhead) else " This machine does not count instructions."
    return [
        "# What watching a job costs", "",
        f"<!-- made by bench/study/page.py from the files next to it; make overhead OVERHEAD={machine['size']} makes both anew -->", "",
        "Each tool runs as its own documentation recommends, once a round, in random order, next to a run without any; what is compared is "
        f"the round's pair. {rounds} round{'s' if rounds > 1 else ''}; the figure is the median, in brackets its 95 % bootstrap interval. \"Not resolved\" means that "
        "the interval holds 0: this machine cannot tell. CPU time decides where wall time does not."
        f"{counts} The truth of memory is a walk over the page frames of all processes by a separate program, in one run without a tool (the job's own peak differs by a few percent from run to "
        "run); that of CPU time the kernel's accounting of the same run.", "",
        f"Machine: {machine['cpu']}, {machine['cpus']} CPUs, {size(machine['memory_bytes'])} of memory, Linux {machine['kernel']}, "
        f"Python {machine['python']}, {machine['hiwater']}, GPU: {machine['gpu']}; {machine['date']}. "
        "Raw data: [overhead.csv](overhead.csv), [reported.csv](reported.csv), [timeline.csv](timeline.csv), [growth.csv](growth.csv).", "",
        "Where hiwater is not the best: for one process without children, `/usr/bin/time` reads the same high-water mark from the kernel "
        "and costs nothing while the job runs; `top` and `ps` are there without installing; profilers (memray, scalene, py-spy, "
        "torch.profiler) name the line of code, which hiwater does not. The tables say where it costs more than others.", "",
    ]

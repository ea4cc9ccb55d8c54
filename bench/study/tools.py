# SPDX-License-Identifier: MIT
"""The tools of the study, each used as its own documentation recommends.

A tool runs around the job (its command contains the job's), inside it (see inside.py), or next to
it. `command(run)` is the whole command; run.job is the job's command with the clock in front,
run.program the Python program and its arguments alone ("" for a job in another language), run.clock
the clock alone, run.output the folder for what the tool writes. `post(run)` is what a user does
until an answer can be read, `reported(run)` what the tool then says: ram_bytes, cpu_s, processes."""
import dataclasses
import importlib.metadata
import json
import re
import shlex
import shutil
import subprocess
import sys
import typing

DENET = ("import denet, sys; code, monitor = denet.execute_with_monitoring(sys.argv[2:], output_file=sys.argv[1], quiet=True); "
         "sys.exit(code)")


@dataclasses.dataclass
class Tool:
    name: str                 # as on the page
    package: str = ""         # whose version is stated; a program of PATH after "program:"
    where: str = "around"     # around, inside, next to
    command: typing.Callable = None
    post: typing.Callable = None
    reported: typing.Callable = None
    only: tuple = ()          # workloads; (): all that it can
    quick: bool = False
    gpu: bool = False         # needs an NVIDIA GPU
    python: bool = False      # measures Python programs alone

    def why_not(self, workload):
        """Why it cannot measure the workload here; "" if it can."""
        if self.only and workload.name not in self.only:
            return f"measured on {', '.join(self.only)} only"
        if (self.where == "inside" or self.python) and not workload.program:
            return "for Python programs only"
        if self.gpu and not shutil.which("nvidia-smi"):
            return "no NVIDIA GPU"
        return "" if self.version() else f"{self.package.removeprefix('program:')} is not installed"

    def version(self):
        if not self.package:
            return "-"
        if self.package.startswith("program:"):
            return program_version(self.package.removeprefix("program:"))
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return ""


def program_version(name):
    if not shutil.which(name):
        return ""
    for option in ("--version", "-V"):
        said = subprocess.run([name, option], capture_output=True, text=True, timeout=30, check=False)
        found = re.search(r"\d+(\.\d+)+", said.stdout + said.stderr)
        if found:
            return found[0]
    return "?"


# ---- what they reported ----------------------------------------------------------------------------------------------

def hiwater_json(run):
    summary = json.loads((run.output / "summary.json").read_text())
    return {"ram_bytes": summary["ram"]["combined"]["peak_bytes"],
            "cpu_s": (summary["time"]["user_s"] or 0) + (summary["time"]["system_s"] or 0),
            "processes": summary["processes"]["seen"]}


def top_said(run):
    """The largest RES of the job's processes that one screen has."""
    largest, now = 0, 0
    units = {"": 1024, "m": 1 << 20, "g": 1 << 30}
    for line in (run.output / "top.txt").read_text(errors="replace").splitlines():
        if line.startswith("top - "):
            largest, now = max(largest, now), 0
        row = re.match(r"\s*(\d+)\s+\S+\s+\S+\s+\S+\s+\S+\s+([\d.]+)([mg]?)\s", line)
        if row and int(row[1]) in run.pids:
            now += int(float(row[2]) * units[row[3]])
    return {"ram_bytes": max(largest, now) or None}


def psutil_said(run):
    rows = json.loads((run.output / "psutil.json").read_text())
    return {"ram_bytes": max((memory for _, _, memory in rows), default=None)}


def gpu_tracker_said(run):
    said = json.loads((run.output / "gpu-tracker.json").read_text())
    unit = {"bytes": 1, "kilobytes": 1e3, "megabytes": 1e6, "gigabytes": 1e9}[said["max_ram"]["unit"]]
    return {"ram_bytes": said["max_ram"]["combined"]["total_rss"] * unit}


def resource_tracker_said(run):
    return {"ram_bytes": max(json.loads((run.output / "resource_tracker.json").read_text()), default=0) * (1 << 20) or None}


def psrecord_said(run):
    rows = [line.split() for line in (run.output / "psrecord.txt").read_text().splitlines() if not line.startswith("#")]
    return {"ram_bytes": max((float(row[2]) * (1 << 20) for row in rows if len(row) > 2), default=None)}


def mprof_said(run):
    memory, parts = 0, 0
    for line in (run.output / "mprof.dat").read_text().splitlines():
        words = line.split()
        if words and words[0] == "MEM":
            memory, parts = float(words[1]), 0
        elif words and words[0] == "CHLD":
            parts += float(words[2])
        run.largest = max(getattr(run, "largest", 0), memory + parts)
    return {"ram_bytes": run.largest * (1 << 20)}


def duct_said(run):
    info = json.loads(next(run.output.glob("duct_*info.json")).read_text())
    return {"ram_bytes": info["execution_summary"]["peak_rss"]}


def denet_said(run):
    lines = [json.loads(line) for line in (run.output / "denet.jsonl").read_text().splitlines() if line.startswith("{")]
    sums = [(row.get("aggregated") or row).get("mem_rss_kb") for row in lines]
    return {"ram_bytes": max((kb * 1024 for kb in sums if kb), default=None)}


def memray_said(run):
    said = json.loads((run.output / "memray.json").read_text())
    return {"ram_bytes": said.get("metadata", {}).get("peak_memory")}


# ---- the table -------------------------------------------------------------------------------------------------------

def hiwater(name, *options, quick=False):
    return Tool(name, "program:hiwater", quick=quick, reported=hiwater_json,
                command=lambda run: ["hiwater", "run", *options, "-o", run.output / "run.hiw", "--json",
                                     run.output / "summary.json", "--", *run.job])


def python_m(module, *arguments):
    return [sys.executable, "-m", module, *arguments]


TOOLS = [
    Tool("none", command=lambda run: run.job, quick=True),
    Tool("top -b -d 1", "program:top", where="next to", quick=True, reported=top_said,
         command=lambda run: ["sh", "-c", f"exec top -b -d 1 > {shlex.quote(str(run.output / 'top.txt'))}"]),
    Tool("psutil loop", "psutil", where="inside", quick=True, reported=psutil_said),
    Tool("gpu-tracker, 1 s", "gpu-tracker", quick=True, reported=gpu_tracker_said,
         command=lambda run: ["gpu-tracker", "--st=1", "--format=json", f"--output={run.output / 'gpu-tracker.json'}",
                              f"--execute={shlex.join(map(str, run.job))}"]),
    Tool("gpu-tracker, 0.1 s", "gpu-tracker", reported=gpu_tracker_said,
         command=lambda run: ["gpu-tracker", "--st=0.1", "--format=json", f"--output={run.output / 'gpu-tracker.json'}",
                              f"--execute={shlex.join(map(str, run.job))}"]),
    Tool("psrecord", "psrecord", quick=True, reported=psrecord_said,
         command=lambda run: ["psrecord", "--include-children", "--log", run.output / "psrecord.txt",
                              shlex.join(map(str, run.job))]),
    Tool("mprof", "memory-profiler", quick=True, reported=mprof_said,
         command=lambda run: ["mprof", "run", "--include-children", "--multiprocess", "-o", run.output / "mprof.dat", *run.job]),
    Tool("con-duct", "con-duct", quick=True, reported=duct_said,
         command=lambda run: ["duct", "-p", f"{run.output}/duct_", *run.job]),
    Tool("resource-tracker", "resource-tracker", where="inside", reported=resource_tracker_said),
    Tool("denet", "denet", quick=True, reported=denet_said,
         command=lambda run: [sys.executable, "-c", DENET, run.output / "denet.jsonl", *run.job]),
    Tool("codecarbon", "codecarbon", where="inside"),
    Tool("scalene", "scalene", only=("light",), python=True,
         command=lambda run: [*run.clock, *python_m("scalene", "run", "--outfile", run.output / "scalene.json"), *run.program]),
    Tool("memray", "memray", only=("light",), python=True, reported=memray_said,
         command=lambda run: [*run.clock, *python_m("memray", "run", "-q", "-o", run.output / "memray.bin"), *run.program],
         post=lambda run: python_m("memray", "stats", "--json", "-o", run.output / "memray.json", run.output / "memray.bin")),
    Tool("py-spy record", "py-spy", python=True,
         command=lambda run: ["py-spy", "record", "-o", run.output / "py-spy.svg", "--", *run.job]),
    Tool("torch.profiler", "torch", where="inside", only=("light", "heavy"), quick=True),
    Tool("torch.profiler, 10 steps", "torch", where="inside", only=("light", "heavy")),
    Tool("nvidia-smi loop", "program:nvidia-smi", where="next to", gpu=True,
         command=lambda run: ["sh", "-c", "exec nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv -l 1 > "
                              + shlex.quote(str(run.output / "nvidia-smi.csv"))]),
    Tool("gpustat", "gpustat", where="next to", gpu=True,
         command=lambda run: ["sh", "-c", f"exec gpustat -i 1 > {shlex.quote(str(run.output / 'gpustat.txt'))}"]),
    Tool("nvitop exporter", "nvitop-exporter", where="next to", gpu=True,
         command=lambda run: ["nvitop-exporter", "--bind-address", "127.0.0.1", "--port", "5050"]),
    Tool("dcgm", "program:dcgmi", where="next to", gpu=True,
         command=lambda run: ["sh", "-c", f"exec dcgmi dmon -e 1002,1003,1005 > {shlex.quote(str(run.output / 'dcgm.txt'))}"]),
    Tool("nsys", "program:nsys", gpu=True,
         command=lambda run: ["nsys", "profile", "-o", run.output / "nsys", *run.job],
         post=lambda run: ["nsys", "stats", run.output / "nsys.nsys-rep"]),
    hiwater("hiwater, 1 Hz", "-i", "1s", quick=True),
    hiwater("hiwater, 10 Hz", "-i", "100ms", quick=True),
    hiwater("hiwater, 100 Hz", "-i", "10ms", quick=True),
    hiwater("hiwater, --live", "--live"),
    Tool("hiwater, run.log", "program:hiwater", where="inside"),
]
BY_NAME = {tool.name: tool for tool in TOOLS}

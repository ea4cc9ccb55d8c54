# SPDX-License-Identifier: MIT
"""Compares hiwater.compat with gpu-tracker itself, 5.0.1 and 2.0.1 from PyPI: the same lines,
programs, files and workloads in the same run. Shows where both agree, and where ours is right."""
import csv
import json
import os
import re
import sqlite3
import subprocess
import sys

import gpu_tracker_paper as paper
import pytest
from gpu_tracker_helpers import Commands, masked, without_gpus
from test_gpu_tracker_blocks import TEXT_BLOCKS, write_blocks, write_tracking
from track_helpers import ROOT

pytestmark = pytest.mark.full
OURS = {5: "hiwater.compat.gpu_tracker", 2: "hiwater.compat.gpu_tracker_2"}
VENV = {5: ROOT / ".venv-gpu-tracker", 2: ROOT / ".venv-gpu-tracker-2"}


class Both:
    """Runs programs and command lines with the package and with ours, each in a separate folder."""

    def __init__(self, program, version):
        if not VENV[version].exists():
            pytest.fail(f"no {VENV[version].name}: run make test-full")
        self.version = version
        self.folders = {name: program.folder / name for name in ("original", "ours")}
        for folder in self.folders.values():
            folder.mkdir()
        smi = program.folder / "smi"
        smi.mkdir()
        path = without_gpus()["PATH"]
        if version == 2:  # without nvidia-smi it runs a busy loop
            (smi / "nvidia-smi").write_text("#!/bin/sh\n")
            (smi / "nvidia-smi").chmod(0o755)
            path = f"{smi}:{path}"
        keep = {k: v for k, v in program.env.items() if k != "PYTHONPATH"}
        self.env = {"original": {**keep, "PATH": path}, "ours": {**program.env, "PATH": path}}
        self.python = {"original": VENV[version] / "bin" / "python", "ours": sys.executable}
        self.commands = {
            "original": Commands(self.folders["original"], self.env["original"], program=VENV[version] / "bin" / "gpu-tracker"),
            "ours": Commands(self.folders["ours"], self.env["ours"], OURS[version].rsplit(".", 1)[1]),
        }

    def lines(self, *arguments):
        """(status, stdout, stderr) of the command line, from the original and from ours."""
        return [self.commands[name].run(*arguments) for name in ("original", "ours")]

    def write(self, name, content):
        for folder in self.folders.values():
            (folder / name).write_text(content)

    def program(self, text):
        """The stdout of a program for gpu-tracker, unchanged except for the import."""
        said = []
        for name, folder in self.folders.items():
            (folder / "program.py").write_text(
                text if name == "original" else re.sub(r"\bgpu_tracker(?=[. ])", OURS[self.version], text))
            done = subprocess.run([self.python[name], "program.py"], cwd=folder, env=self.env[name], capture_output=True, text=True,
                                  timeout=110, check=False)
            assert done.returncode == 0, done.stderr
            said.append(done.stdout)
        return said

    def files(self, name):
        return [folder / name for folder in self.folders.values()]


@pytest.fixture
def five(program):
    return Both(program, 5)


@pytest.fixture
def two(program):
    return Both(program, 2)


# ---- agreement ---------------------------------------------------------------------------------------------------------------

LINES_5 = [
    ["-h"], ["--help"], ["-v"], ["--version"], [], ["-e"], ["--exec"], ["-x"], ["--nonsense"], ["-hx"], ["-e", "true", "more"],
    ["-e", "true", "-e", "true"], ["-e", "true", "--o=x"], ["-e", "true", "--overwrite=1"], ["-e", "true", "--stf=a.csv"],
    ["sub-track"], ["sub-track", "combine", "--stf=a.csv"], ["sub-track", "analyze", "--tf=a.csv"], ["sub-track", "compare"],
    ["combine", "sub-track"], ["-e", ""], ["-e", "no-such-command"], ["-e", "./file"], ["--", "-h"], ["-", "-h"],
]
LINES_2 = [["-h"], ["--help"], ["-v"], [], ["-e"], ["--ex"], ["-e", "true", "--nec=2"], ["more"], ["-e", "no-such-command"],
           ["-e", "./file"], ["--f", "json"], ["--st=1"]]


def without_smi(stderr):
    return "".join(line for line in stderr.splitlines(True) if "smi" not in line)


@pytest.mark.parametrize(("version", "line"), [*((5, line) for line in LINES_5), *((2, line) for line in LINES_2)])
def test_command_lines(program, version, line):
    both = Both(program, version)
    both.write("file", "x")
    original, ours = both.lines(*line)
    assert ours == (*original[:2], without_smi(original[2]))


@pytest.mark.parametrize("version", [5, 2])
def test_text_and_json_of_a_command(program, version):
    both = Both(program, version)
    for options in ((), ("--ru=megabytes", "--gru=megabytes", "--tu=seconds")):
        (_, original, _), (_, ours, _) = both.lines("-e", "sleep 1.2", *options)
        assert masked(ours) == masked(original)
        (_, original, _), (_, ours, _) = both.lines("-e", "sleep 1.2", "-f", "json", *options)
        assert masked(ours) == masked(original.split("\n", 1)[1])  # the original prints a line of text first
        assert both.lines("-e", "sleep 1.2", "-o", "out", "-f", "json", *options)[0][0] == 0
        read = [masked(file.read_text()) for file in both.files("out")]
        assert read[0] == read[1]


TOLD_5 = """
import gpu_tracker as gput
from gpu_tracker.tracker import Tracker, ResourceUsage, MaxRAM, MaxGPURAM, RSSValues, CPUUtilization, GPUUtilization, ComputeTime
from gpu_tracker.tracker import ProcessingUnitPercentages
from gpu_tracker.sub_tracker import SubTracker, sub_track, SubTrackingAnalyzer, SubTrackingResults, CodeBlockResults
from gpu_tracker.sub_tracker import TrackingComparison, ComparisonResults
import dataclasses, inspect, logging, os, sys

def told(act):
    try: print(repr(act()))
    except Exception as e: print(type(e).__name__, e)

def main():
    quiet = {"disable_logs": True}
    for arguments in ({"sleep_time": 0.05}, {"ram_unit": "u"}, {"gpu_ram_unit": "u"}, {"time_unit": "u"}, {"gpu_brand": "intel"},
                      {"tracking_file": "a.txt"}, {"sleep_time": 0.05, "ram_unit": "u"}, {}):
        told(lambda: gput.Tracker(**quiet, **arguments))
    open("old.csv", "w").close()
    told(lambda: gput.Tracker(**quiet, tracking_file="old.csv"))
    tracker = gput.Tracker(**quiet)
    for act in (tracker.stop, tracker.to_json, lambda: str(tracker), lambda: tracker.resource_usage, tracker.start, tracker.start,
                tracker.to_json, tracker.stop, tracker.stop, tracker.start):
        told(act)
    print(tracker, list(tracker.State), tracker.n_join_attempts, tracker.join_timeout)
    for kind in (RSSValues, MaxRAM, MaxGPURAM, ProcessingUnitPercentages, CPUUtilization, GPUUtilization, ComputeTime, ResourceUsage,
                 CodeBlockResults, SubTrackingResults, ComparisonResults):
        print(kind.__name__, [f.name for f in dataclasses.fields(kind)])
    for function in (gput.Tracker.__init__, gput.SubTracker.__init__, gput.sub_track, gput.SubTrackingAnalyzer.__init__,
                     gput.TrackingComparison.__init__, gput.TrackingComparison.compare):
        print({n: p.default for n, p in inspect.signature(function).parameters.items()})
    told(lambda: gput.SubTracker("a", sub_tracking_file="a.txt"))
    with gput.SubTracker("a", sub_tracking_file="a.csv") as block: print(block.code_block_name, block.sub_tracking_file)
    with gput.SubTracker() as block: print(block.code_block_name, block.sub_tracking_file == f"{os.getpid()}.csv")
    with gput.SubTracker(code_block_attribute="x", sub_tracking_file="a.csv") as block: print(block.code_block_name)
    told(lambda: gput.SubTracker("b", sub_tracking_file="old.csv").__enter__())
    os.remove("a.csv")
    told(lambda: gput.SubTracker("b", sub_tracking_file="a.csv").__enter__())
    told(lambda: gput.SubTrackingAnalyzer(None, "old.csv").combine_sub_tracking_files([]))
    told(lambda: gput.SubTrackingAnalyzer(None, "new.csv").combine_sub_tracking_files(["a.sqlite"]))
    print(gput.__version__)

if __name__ == "__main__":
    main()
"""


def test_what_programs_are_told(five):
    original, ours = five.program(TOLD_5)
    assert masked(ours) == masked(original)


TRACKED_5 = """
import gpu_tracker as gput
import json, pickle, time, glob, sys, os
import multiprocessing

@gput.sub_track(code_block_name="work", overwrite=True)
def work(seconds):
    time.sleep(seconds)
    return seconds

def main(kind):
    with gput.Tracker(sleep_time=0.1, tracking_file=f"t.{kind}", overwrite=True, disable_logs=True) as tracker:
        with gput.SubTracker("all", sub_tracking_file=f"main.{kind}", overwrite=True):
            print(work(1.5), work(1.4))
        if kind == "csv":
            with multiprocessing.get_context("spawn").Pool(2) as pool: print(sorted(pool.map(work, [1.2, 1.3])))
    files = sorted(glob.glob("[0-9]*.csv")) if kind == "csv" else [f"main.{kind}"]
    if os.path.exists(f"all.{kind}"): os.remove(f"all.{kind}")
    analyzer = gput.SubTrackingAnalyzer(f"t.{kind}", f"all.{kind}")
    analyzer.combine_sub_tracking_files(files)
    results = analyzer.sub_tracking_results()
    print(analyzer.load_code_block_names(), results.static_data.to_dict(), list(results.overall.columns), list(results.overall.index))
    for block in results.code_block_results:
        print(block.name, block.num_calls, block.num_non_empty_calls, block.num_timepoints > 3)
        print([round(b - a, 1) for a, b in sorted(analyzer.load_timestamp_pairs(block.name), key=lambda p: p[1] - p[0])])
    with open(f"{kind}.pkl", "wb") as f: pickle.dump(results, f)

if __name__ == "__main__":
    main("csv")
    main("sqlite")
    comparison = gput.TrackingComparison({"A": "csv.pkl", "B": "csv.pkl"}).compare("max")
    print(comparison)
    print(json.dumps(comparison.to_json(), indent=1))
"""


def test_sub_tracking(five):
    original, ours = (re.sub(" +", " ", masked(text)) for text in five.program(TRACKED_5))  # tables have other widths
    assert ours == original
    for lines in zip(*(list(csv.reader(open(file))) for file in five.files("t.csv"))):
        assert lines[0] == lines[1] if lines[0][0].endswith(("unit", "ram")) else len(lines[0]) == len(lines[1])
    kinds = []
    for file in five.files("t.sqlite"):
        with sqlite3.connect(file) as c:
            kinds.append({t: [(n, k) for _, n, k, *_ in c.execute(f"PRAGMA table_info({t})")] for t in ("data", "static_data")})
    sums = ("cpu_descendants_sum_utilization_percent",)  # an empty sum was an int in the original
    assert [(n, k) for n, k in kinds[0]["data"] if n not in sums] == [(n, k) for n, k in kinds[1]["data"] if n not in sums]
    assert kinds[0]["static_data"] == kinds[1]["static_data"]


@pytest.mark.parametrize("kind", ["csv", "sqlite"])
def test_the_same_files_give_the_same_results(five, kind):
    """Byte for byte, including numbers; and the pickles: ours reads both kinds."""
    for folder in five.folders.values():
        write_tracking(folder / f"t.{kind}", [1.0, 2.25, 3.5, 4.125])
        write_blocks(folder / f"s.{kind}", TEXT_BLOCKS)
    for form in ("text", "json"):
        original, ours = five.lines("sub-track", "analyze", f"--tf=t.{kind}", f"--stf=s.{kind}", "-f", form)
        assert ours == original and original[0] == 0
    for result in five.lines("sub-track", "analyze", f"--tf=t.{kind}", f"--stf=s.{kind}", "-f", "pickle", "-o", "r.pkl"):
        assert result == (0, "", "")
    (five.folders["ours"] / "original.pkl").write_bytes(five.files("r.pkl")[0].read_bytes())
    for form in ("text", "json"):
        compare = ["sub-track", "compare", "-f", form, "--stat=max"]
        original = five.commands["original"].run(*compare, "-m", "A=r.pkl", "-m", "B=r.pkl")
        assert original[0] == 0 and five.commands["ours"].run(*compare, "-m", "A=r.pkl", "-m", "B=original.pkl") == original


TOLD_2 = """
import gpu_tracker as gput
from gpu_tracker.tracker import Tracker, MaxRAM, MaxGPURAM, RSSValues, ComputeTime
import dataclasses, inspect, time

def told(act):
    try: print(repr(act()))
    except Exception as e: print(type(e).__name__, e)

for arguments in ({"ram_unit": "u"}, {"gpu_ram_unit": "u"}, {"time_unit": "u"}):
    told(lambda: gput.Tracker(**arguments))
tracker = gput.Tracker(sleep_time=0.01)
print(tracker.max_gpu_ram, tracker.compute_time, tracker.max_ram.main)
for act in (tracker.stop, tracker.start): told(act)
time.sleep(0.5)
print(tracker)  # while it tracks
for act in (tracker.start, tracker.stop, tracker.stop, tracker.start): told(act)
print(tracker)
print(tracker.to_json(), tracker.sleep_time, tracker.n_join_attempts, tracker.join_timeout, tracker.kill_if_join_fails)
for kind in (RSSValues, MaxRAM, MaxGPURAM, ComputeTime): print(kind.__name__, [f.name for f in dataclasses.fields(kind)])
print({n: p.default for n, p in inspect.signature(gput.Tracker.__init__).parameters.items()}, gput.__version__)
"""


def test_what_programs_of_the_paper_are_told(two):
    original, ours = two.program(TOLD_2)
    assert masked(ours) == masked(original)


def test_the_papers_tutorial(two):
    two.write("torch.py", paper.TORCH)
    original, ours = two.program(paper.API.format(package="gpu_tracker"))
    assert masked(ours) == masked(original)


# ---- differences where the original is wrong ---------------------------------------------------------------------------------

BURST = """
import gpu_tracker as gput
import time, json

def main():
    with gput.Tracker(ram_unit="megabytes", time_unit="seconds", disable_logs=True) as tracker:
        time.sleep(1.4)
        block = bytearray(300 << 20); block[::4096] = b"x" * len(block[::4096]); time.sleep(0.02); del block
        time.sleep(0.2)
    print(json.dumps(tracker.to_json()))

if __name__ == "__main__":
    main()
"""


def test_a_burst(five):
    original, ours = (json.loads(text) for text in five.program(BURST))
    assert ours["max_ram"]["main"]["total_rss"] >= 310
    assert ours["compute_time"]["time"] >= 1.6 and original["max_ram"]["main"].keys() == ours["max_ram"]["main"].keys()


def test_exit_status_and_quotes(five):
    (original, _, _), (ours, _, _) = five.lines("-e", "false")
    assert (original, ours) == (0, 1)
    (_, original, _), (_, ours, _) = five.lines("-e", "sh -c 'exit 7'")
    assert "status code: 2" in original and "status code: 7" in ours


def test_short_runs(five):
    original, ours = five.lines("-e", "true", "-f", "json", "--tu=seconds")
    assert json.loads(original[1].split("\n", 1)[1])["compute_time"]["time"] == 0 < json.loads(ours[1])["compute_time"]["time"]


def test_recursion(five):
    original, ours = five.program("""
import gpu_tracker as gput
import time

@gput.sub_track("f", sub_tracking_file="s.csv")
def f(n):
    time.sleep(0.4)
    if n: f(n - 1)

f(1)
print(sorted(round(b - a, 1) for a, b in gput.SubTrackingAnalyzer(None, "s.csv").load_timestamp_pairs("f")))
""")
    assert ours.startswith("[0.4, 0.8]") and original != ours


def test_the_environment_holds_both(five):
    """Ours is not installed under another package's name."""
    code = "import gpu_tracker, hiwater.compat.gpu_tracker as h; print(gpu_tracker.Tracker is h.Tracker, h.__version__)"
    done = subprocess.run([five.python["original"], "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
                          capture_output=True, text=True, check=True)
    assert done.stdout == "False 5.0.1\n"

# SPDX-License-Identifier: MIT
"""What the tests of runs on GPUs of a fake driver (tests/fake) share: the driver, and a job on it."""
import contextlib
import json
import sqlite3
import subprocess
import sys
import time

import pytest
from cli_helpers import DEADLINE, HIWATER, ROOT, processes, wait_for
from stress_jobs import BUILD

CARD = ROOT / "tests" / "fake" / "scenarios" / "cards" / "h100.conf"
GIB = 1 << 30
JOB = """
import os, subprocess, sys
child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
for name, pid in ("main", os.getpid()), ("child", child.pid):
    open(name + ".new", "w").write(str(pid))
    os.rename(name + ".new", name)
sys.stdin.readline()
child.kill()
"""


@pytest.fixture
def gpu(tool):
    """A driver whose scenario can be added to; GPU 0 has processes of the job, GPU 1 has none."""
    tool.scenario = tool.folder / "gpu.conf"
    tool.scenario.write_text(f"""[driver]
level = 550
[gpu 0-1]
include = {CARD}
memory_used = processes 100Mi
[process 0]
pid = @{tool.folder}/main
memory = steps 0:1Gi 1:3Gi
[process 0]
pid = @{tool.folder}/child
memory = 512Mi
""")
    tool.env.update(LD_LIBRARY_PATH=str(BUILD / "tests" / "fake" / "drivers" / "550"), HIWATER_FAKE_NVML=str(tool.scenario))
    return tool


def add(tool, text):
    tool.scenario.write_text(tool.scenario.read_text() + text)


def start(tool, *options):
    hiwater = tool.start("run", "--json", "run.json", *options, "--", sys.executable, "-c", JOB, stdin=subprocess.PIPE,
                         text=True)
    wait_for((tool.folder / "child").exists, "the job runs")
    return hiwater


def finish(tool, hiwater):
    """Ends the job; the summary, and how long hiwater took to end after it."""
    began = time.monotonic()
    hiwater.stdin.close()
    hiwater.stdin = None
    assert hiwater.wait(DEADLINE) == 0
    return json.loads((tool.folder / "run.json").read_text()), time.monotonic() - began


def asked(tool, sql):
    """The figure that a recording in the making answers, None before there is one."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{tool.folder}/run.hiw?mode=ro", uri=True)) as db:
            return db.execute(sql).fetchone()[0]
    except sqlite3.OperationalError:
        return None


def helper_of(hiwater):
    return next((p[0] for p in processes() if p[1] == "hiwater-gpu" and p[3] == hiwater.pid), None)


def gpu_notes(summary):
    return [n["why"] for n in summary["notes"] if n["about"] == "gpu"]


# Not on the GPU when the run begins, and then for longer than between two lists.
LATER = "sleep 1; echo $$ > main.new; mv main.new main; exec sleep 2"


def run_later(tool, *prefix, before=""):
    done = subprocess.run([*prefix, HIWATER, "run", "--json", "run.json", "--no-record", "--", "sh", "-c", before + LATER],
                          env=tool.env, cwd=tool.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr, json.loads((tool.folder / "run.json").read_text())["gpu"]

# SPDX-License-Identifier: MIT
"""Rules and limits about GPUs, on a fake driver (tests/fake) and real jobs."""
import re
import signal
import subprocess
import sys

import pytest
from cli_helpers import DEADLINE, ROOT, ended, wait_for
from stress_jobs import BUILD

CARD = ROOT / "tests" / "fake" / "scenarios" / "cards" / "a100.conf"  # 40 GiB
# Says who it is, and whose child: two processes of the job hold memory on GPU 0.
JOB = """
import os, pathlib, subprocess, sys
child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
pathlib.Path("small.new").write_text(str(os.getpid()))
pathlib.Path("big.new").write_text(str(child.pid))
os.rename("small.new", "small"); os.rename("big.new", "big")
print(child.wait(), flush=True)
"""


@pytest.fixture
def gpu(tool):
    scenario = tool.folder / "gpu.conf"
    scenario.write_text(f"""[driver]
level = 550
[gpu 0-1]
include = {CARD}
memory_used = processes 500Mi
util = 0
[gpu 0]
util = 50
[process 0]
pid = @{tool.folder}/small
memory = 1Gi
[process 0]
pid = @{tool.folder}/big
memory = steps 0:1Gi 1:20Gi
""")
    tool.env.update(LD_LIBRARY_PATH=str(BUILD / "tests" / "fake" / "drivers" / "550"), HIWATER_FAKE_NVML=str(scenario))
    return tool


def start(tool, *options):
    return tool.start("run", "--summary", "none", "-o", "run.hiw", *options, "--", sys.executable, "-c", JOB, text=True)


def end(tool):
    (tool.folder / "big").exists() and subprocess.run(["kill", (tool.folder / "big").read_text()], check=False)


def test_alerts_and_check(gpu):
    hiwater = start(gpu, "--alert", "gpu.mem > 10GiB", "--alert", "gpu.mem > 50%", "--alert", "gpu0.mem > 30%", "--alert",
                    "gpu.busy < 5% for 1s", "--alert", "gpu1.busy > 5%", "--alert", "gpu_process.mem > 10GiB")
    wait_for((gpu.folder / "big").exists, "the job runs")
    lines = [hiwater.stderr.readline() for _ in range(5)]
    end(gpu)
    assert hiwater.wait(DEADLINE) == 0
    lines = sorted([*lines, *hiwater.stderr.readlines()])
    told = [re.fullmatch(r"hiwater: alert: (.*)\n", line)[1] for line in lines if "alert: " in line]
    big = (gpu.folder / "big").read_text()
    assert "gpu.busy < 5% for 1s: gpu 1: 0%" in told
    assert any(t.startswith("gpu.mem > 10GiB: gpu 0: 2") for t in told)
    assert any(re.match(r"gpu\.mem > 50%: gpu 0: 2[\d.]+ GiB of 40\.0 GiB", t) for t in told)
    assert any(t.startswith("gpu0.mem > 30%: 2") for t in told)
    assert any(f"sleep ({big}): 20.0 GiB" in t for t in told)
    assert len(told) == 5
    for rule, status in {"gpu.mem.peak < 95%": 0, "gpu.mem.peak < 10GiB": 1, "gpu1.mem.peak < 10GiB": 0,
                         "gpu.busy.mean < 60%": 0, "gpu0.busy.mean > 40%": 0, "gpu.busy.mean > 40%": 1,
                         "never gpu.temp > 100C": 0, "gpu5.mem.peak < 1GiB": 3}.items():
        done = gpu.run("check", "run.hiw", rule)
        assert done.returncode == status, done.stdout


def test_limit_is_for_who_holds_most(gpu):
    hiwater = start(gpu, "--limit", "gpu.mem = 8GiB")
    assert hiwater.wait(DEADLINE) == 124
    big = int((gpu.folder / "big").read_text())
    assert ended(big)
    assert hiwater.stdout.read() == f"{-signal.SIGTERM}\n", "the other one saw it end"
    assert f"process {big} is told to end" in hiwater.stderr.read()

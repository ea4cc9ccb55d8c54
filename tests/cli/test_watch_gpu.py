# SPDX-License-Identifier: MIT
"""Rules and limits about GPUs, on a fake driver (tests/fake) and real jobs."""
import json
import re
import signal
import sqlite3
import subprocess
import sys

import pytest
from cli_helpers import DEADLINE, ROOT, ended, wait_for
from stress_jobs import BUILD

CARD = ROOT / "tests" / "fake" / "scenarios" / "cards" / "a100.conf"  # 40 GiB
# Prints its pid and its parent's: two processes of the job use memory on GPU 0.
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
                         "never gpu.temp > 100C": 0, "gpu5.mem.peak < 1GiB": 3,
                         # of each GPU, of each process that was on one
                         "ever gpu.mem.peak > 10GiB": 0, "ever gpu.mem.peak > 30GiB": 1, "never gpu.mem.peak > 10GiB": 1,
                         "never gpu.mem.peak > 30GiB": 0, "always gpu.mem.peak < 10GiB": 1, "always gpu.mem.peak < 30GiB": 0,
                         "gpu_process.mem.peak < 30GiB": 0, "gpu_process.mem.peak < 10GiB": 1,
                         "ever gpu_process.mem.peak > 10GiB": 0, "never gpu_process.mem.peak > 10GiB": 1,
                         "always gpu.mem.peak < 30GiB and ever": 2}.items():
        done = gpu.run("check", "run.hiw", rule)
        assert done.returncode == status, (rule, done.stdout)
    assert "gpu 0: gpu.mem.peak is 2" in gpu.run("check", "run.hiw", "gpu.mem.peak < 95%").stdout, "the one that is nearest to it"
    assert f"sleep ({big}): gpu_process.mem.peak is 20.0 GiB" in gpu.run("check", "run.hiw", "gpu_process.mem.peak < 1GiB").stdout


def test_counters_of_a_gpu_begin_with_the_run(gpu):
    """The driver's counters are as old as the driver: 1 MJ and 7 errors are none of this run's."""
    scenario = gpu.folder / "gpu.conf"
    scenario.write_text(scenario.read_text() + "[gpu 0-1]\npower = 100000\nenergy = integral power 1000000000\necc_uncorrected_volatile = 7\n")
    hiwater = start(gpu, "--alert", "gpu.energy > 500kJ", "--alert", "gpu.energy > 50J", "--alert", "gpu.ecc_uncorrected > 0")
    assert hiwater.stderr.readline().startswith("hiwater: alert: gpu.energy > 50J: gpu ")
    end(gpu)
    assert hiwater.wait(DEADLINE) == 0
    assert "500kJ" not in (rest := hiwater.stderr.read()) and "ecc" not in rest
    energy = [d["energy_j"] for d in json.loads(gpu.run("show", "--json", "run.hiw").stdout)["gpu"]["devices"]]
    said = json.loads(gpu.run("check", "--json", "run.hiw", "gpu0.energy.last > 50J", "gpu1.energy.last < 100kJ").stdout)
    assert said["pass"] and [rule["value"] for rule in said["rules"]] == pytest.approx(energy)
    other = gpu.folder / "other.hiw"
    other.write_bytes((gpu.folder / "run.hiw").read_bytes())
    done = gpu.run("compare", "--fail-if", "gpu.energy.last > 100kJ", "run.hiw", "other.hiw")
    assert done.returncode == 0, done.stdout


OOM = """
import os, socket
name = os.environ["HIWATER_SOCKET"]
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"oom CUDA out of memory. Tried to allocate 2.00 GiB.", chr(0) + name[1:])
"""


@pytest.mark.parametrize("by", ["program", "alert"])
def test_the_story_of_a_gpu(gpu, by):
    """Top users of the GPU when it ran out, by the program's report or by an alert."""
    options = ["--alert", "error: gpu.mem > 10GiB", "--on-alert", "trigger"] if by == "alert" else []
    (gpu.folder / "job.py").write_text(JOB.replace("print(child", OOM_WHEN + OOM + "print(child") if by == "program" else JOB)
    hiwater = gpu.start("run", "--summary", "none", "-o", "run.hiw", *options, "--", sys.executable, "job.py", text=True)
    wait_for(lambda: rows(gpu, "SELECT 1 FROM event WHERE kind = 'trigger'"), "the black box is pulled")
    wait_for(lambda: rows(gpu, "SELECT 1 FROM gpu_process_recent WHERE mem > 10000000000"), "the driver's list has come, too")
    end(gpu)
    assert hiwater.wait(DEADLINE) == 0
    small, big = (int((gpu.folder / name).read_text()) for name in ("small", "big"))
    incident = json.loads(gpu.run("show", "--json", "run.hiw").stdout)["incident"]
    assert incident["memory"] == "gpu"
    assert incident["event"].startswith("GPU memory alert: error: gpu.mem > 10GiB: gpu 0" if by == "alert" else
                                    "out of memory: CUDA out of memory. Tried to allocate 2.00 GiB.")
    held = [(p["pid"], p["bytes"]) for p in incident["processes"]]
    assert held == [(big, 20 << 30), (small, 1 << 30)]
    assert incident["used_bytes"] == 21 << 30 and incident["limit_bytes"] == 40 << 30
    text = " ".join(gpu.run("show", "run.hiw").stdout.replace("\u00a0", " ").split())
    assert "GPU memory at that time:" in text and "smaller batch" in text


# Once the driver has reported the 20 GiB.
OOM_WHEN = """
import time
time.sleep(3)
"""


def rows(gpu, sql):
    path = gpu.folder / "run.hiw"
    if not path.exists():
        return []
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return db.execute(sql).fetchall()
    except sqlite3.OperationalError:
        return []
    finally:
        db.close()


def test_limit_is_for_the_top_user(gpu):
    hiwater = start(gpu, "--limit", "gpu.mem = 8GiB")
    assert hiwater.wait(DEADLINE) == 124
    big = int((gpu.folder / "big").read_text())
    assert ended(big)
    assert hiwater.stdout.read() == f"{-signal.SIGTERM}\n", "the other one saw it end"
    said = hiwater.stderr.read()
    assert f"sending SIGTERM to process {big}," in said
    assert "over 90%" not in said, "it was never near: from 2 GiB it went to 21"


# ---- a rule that cannot be judged ----

def warnings(lines):
    return [line.removeprefix("hiwater: warning: ").rstrip("\n") for line in lines if line.startswith("hiwater: warning: ")]


@pytest.mark.parametrize("option", ["limit", "alert"])
def test_without_gpus_it_is_said_at_once(gpu, option):
    """The job runs until the warning is printed."""
    rule = "gpu_mem = 1GiB" if option == "limit" else "gpu_mem > 1GiB"
    hiwater = start(gpu, "--gpu=none", f"--{option}", rule)
    assert warnings([hiwater.stderr.readline()]) == [f"the {option} '{rule}' cannot be checked: GPUs are not measured (--gpu=none)"]
    wait_for((gpu.folder / "big").exists, "the job runs")
    end(gpu)
    assert hiwater.wait(DEADLINE) == 0
    assert hiwater.stderr.read() == "", "once"


def test_a_driver_that_refuses_is_the_reason(gpu):
    scenario = gpu.folder / "gpu.conf"
    scenario.write_text(scenario.read_text() + "[call nvmlInit*]\nerror = 9\n")
    hiwater = start(gpu, "--limit", "gpu.mem = 1GiB")
    said = warnings([hiwater.stderr.readline()])[0]
    assert said.startswith("the limit 'gpu.mem = 1GiB' cannot be checked: no GPU can be read: ")
    assert "nvidia" in said
    wait_for((gpu.folder / "big").exists, "the job runs")
    end(gpu)
    assert hiwater.wait(DEADLINE) == 0
    assert hiwater.stderr.read() == ""


def test_a_gpu_that_is_not_there_is_said_at_the_end(gpu):
    hiwater = start(gpu, "--limit", "gpu7.mem = 1GiB", "--limit", "gpu1.mem = 30GiB", "--alert", "gpu0.temp > 1C")
    assert hiwater.stderr.readline().startswith("hiwater: alert: gpu0.temp"), "GPUs have been read"
    wait_for((gpu.folder / "big").exists, "the job runs")
    end(gpu)
    assert hiwater.wait(DEADLINE) == 0
    assert warnings(hiwater.stderr) == ["the limit 'gpu7.mem = 1GiB' was never checked: there is no GPU 7"]


@pytest.mark.parametrize("option, job", [("limit", ["true"]), ("alert", ["true"]), ("limit", ["sleep", "0.5"]), ("alert", ["sleep", "2.5"])])
def test_a_run_that_ends_before_its_driver_answers_says_so(gpu, option, job):
    """However short it is; once."""
    scenario = gpu.folder / "gpu.conf"
    scenario.write_text(scenario.read_text() + "[call nvmlInit*]\nhang = 1\n")
    rules = [f"{name} {'=' if option == 'limit' else '>'} 1GiB" for name in ("gpu_mem", "gpu.mem", "gpu0.mem")]
    done = gpu.run("run", "--summary", "none", "--no-record", *[word for rule in rules for word in (f"--{option}", rule)], "--", *job)
    assert done.returncode == 0
    assert warnings(done.stderr.splitlines()) == [f"the {option} '{rule}' was never checked: the run ended before a driver answered" for rule in rules]


@pytest.mark.parametrize("seconds", ["1", "2.5"])
def test_a_driver_that_crashes_is_the_reason(gpu, seconds):
    scenario = gpu.folder / "gpu.conf"
    scenario.write_text(scenario.read_text() + "[call nvmlInit*]\ncrash = 1\n")
    done = gpu.run("run", "--summary", "none", "--no-record", "--limit", "gpu.mem = 1GiB", "--", "sleep", seconds)
    assert warnings(done.stderr.splitlines()) == ["the limit 'gpu.mem = 1GiB' was never checked: no GPU was read: the helper ended before it reported one"]


def test_a_run_that_ends_before_a_list_says_so(gpu):
    """The device itself was read."""
    scenario = gpu.folder / "gpu.conf"
    scenario.write_text(scenario.read_text() + "[call nvmlDeviceGet*RunningProcesses*]\nhang = 1\n")
    gpu.env["HIWATER_FAKE_LOG"] = str(gpu.folder / "calls")
    wait = "until grep -q RunningProcesses calls; do sleep 0.05; done"
    done = gpu.run("run", "--summary", "none", "--no-record", "--limit", "gpu.job_mem = 1GiB", "--", "sh", "-c", wait)
    assert done.returncode == 0
    assert re.fullmatch(r"the limit 'gpu.job_mem = 1GiB' was never checked: the run ended before that was read"
                        r"|the rule 'gpu.job_mem = 1GiB' was never checked: 'gpu.job_mem' was never measured", "\n".join(warnings(done.stderr.splitlines())))


@pytest.mark.parametrize("rule", ["gpu_mem = 30GiB", "gpu.mem = 30GiB"])
def test_memory_that_no_driver_tells_of_is_not_judged(gpu, rule):
    scenario = gpu.folder / "gpu.conf"
    scenario.write_text(scenario.read_text().replace("memory = 1Gi", "memory = unknown"))
    hiwater = start(gpu, "--limit", rule)
    wait_for(lambda: len(rows(gpu, "SELECT 1 FROM gpu_process")) == 2, "the driver's list has come")
    end(gpu)
    assert hiwater.wait(DEADLINE) == 0
    assert warnings(hiwater.stderr) == [f"the limit '{rule}' was not fully checked: part of the job's GPU memory is not known"]

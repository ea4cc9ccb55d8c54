# SPDX-License-Identifier: MIT
"""The incident report and the rows that are kept for it, except for lack of RAM (test_cgroup)."""
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys

import pytest
from cli_helpers import DEADLINE, HIWATER, Counter, as_nobody

PUSH = ("import os, socket, time; name = os.environ['HIWATER_SOCKET']; "
        "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'oom CUDA: tried to allocate 2 GiB', chr(0) + name[1:]); "
        "time.sleep(1.2)")


def events(path):
    with sqlite3.connect(path) as db:
        return [row[0] for row in db.execute("SELECT text FROM event WHERE kind = 'trigger'")]


def taskstats(path):
    with sqlite3.connect(path) as db:
        return db.execute("SELECT value FROM meta WHERE key = 'taskstats'").fetchone() == (1,)


def comm(path):
    with sqlite3.connect(path) as db:
        return db.execute("SELECT name FROM process WHERE is_main").fetchone()[0]


def pinned(path):
    with sqlite3.connect(path) as db:
        return db.execute("SELECT value FROM meta WHERE key = 'pinned'").fetchone()


def shown(tool, path):
    return json.loads(tool.run("show", "--json", path).stdout)


def test_a_fault_of_the_job(tool):
    path = tool.folder / "run.hiw"
    done = tool.run("run", "-o", path, "--", "sh", "-c", "sleep 1.2; kill -SEGV $$")
    assert done.returncode == -signal.SIGSEGV
    assert "signal 11 ended the job" in " ".join(done.stderr.split())
    assert events(path) == ["signal 11 ended the job"]
    assert pinned(path) == (2,)
    incident = shown(tool, path)["incident"]
    assert incident["event"] == "signal 11 ended the job"
    assert "sh" in [p["name"] for p in incident["processes"]]


# Workers that crash together, one that is sent SIGTERM, and a parent that reaps them late and succeeds.
FALLS = """
import os, signal, subprocess, sys, time
pids = []
for how in sys.argv[1:]:
    pid = os.fork()
    if pid == 0:
        time.sleep(0.5)
        os.kill(os.getpid(), int(how))
        os._exit(0)
    pids.append(pid)
time.sleep(1.5)
print([os.WTERMSIG(os.waitpid(pid, 0)[1]) for pid in pids])
"""


@pytest.mark.parametrize("user", ["own", "nobody"])
def test_a_fault_of_a_worker(tool, user):
    """Known from the kernel's exit record, or, where that is not permitted, from the zombie; one event for all that fell
    together."""
    path, python = tool.folder / "run.hiw", sys.executable
    command = [HIWATER, "run", "-o", path, "--", python]
    if user == "nobody":
        python = shutil.which("python3", path="/usr/bin:/bin")
        if not python:
            pytest.skip("no Python for another user")
        command = [*as_nobody(tool.folder), *command[:-1], python]
    done = subprocess.run([*map(str, command), "-c", FALLS, "15", "11", "9", "6"], env=tool.env, cwd=tool.folder, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[15, 11, 9, 6]\n"
    assert len(events(path)) == 1
    assert re.fullmatch(r"signal (11|6) ended python[0-9.]*\[[0-9]+\]", events(path)[0])
    assert pinned(path) == (2,)
    assert shown(tool, path)["incident"]["event"] == events(path)[0]


def test_a_fault_of_who_is_attached_to(tool):
    job = subprocess.Popen([sys.executable, "-c", "import os, signal; input(); os.kill(os.getpid(), signal.SIGSEGV)"],
                           stdin=subprocess.PIPE)
    path = tool.folder / "run.hiw"
    run = tool.start("attach", "-o", path, "--progress=100ms", job.pid)
    assert run.stderr.readline()  # it measures
    job.communicate(b"\n", timeout=DEADLINE)
    assert run.wait(DEADLINE) == 0
    told = [f"signal 11 ended {comm(path)}[{job.pid}]"]
    assert events(path) == told or not taskstats(path) and events(path) == []  # unless its parent reaped it first
    assert pinned(path) == ((2,) if events(path) else None)


def test_workers_that_their_parent_ends(tool):
    path = tool.folder / "run.hiw"
    assert tool.run("run", "-o", path, "--", sys.executable, "-c", FALLS, "15", "9", "2").returncode == 0
    assert events(path) == []
    assert pinned(path) is None


def test_an_end_on_purpose_is_no_story(tool):
    path = tool.folder / "run.hiw"
    tool.run("run", "-o", path, "--", "sh", "-c", "sleep 1.2; kill -TERM $$")
    assert events(path) == []
    assert pinned(path) is None
    assert shown(tool, path)["incident"] is None


def test_a_device_that_ran_out_of_memory(tool):
    path = tool.folder / "run.hiw"
    done = tool.run("run", "-o", path, "--", sys.executable, "-c", PUSH)
    assert done.returncode == 0, done.stderr
    assert events(path) == ["out of memory: CUDA: tried to allocate 2 GiB"]
    assert pinned(path) == (2,)
    report = shown(tool, path)
    assert not report["exit"]["oom_killed"]  # not killed: the device's memory is not the host's
    assert report["incident"]["event"] == "out of memory: CUDA: tried to allocate 2 GiB"
    assert "smaller batch" in report["incident"]["remedy"]


def test_somebody_asks_an_attached_recorder(tool):
    """SIGUSR2 to hiwater attach; with run every signal is the job's."""
    job = Counter(tool.folder)
    started = tool.start("run", "--no-record", "--summary", "none", "--", *job.command())
    path = tool.folder / "run.hiw"
    try:
        pid = job.wait_ready()
        run = tool.start("attach", "-o", path, "--progress=100ms", pid)
        assert run.stderr.readline()  # it measures
        run.send_signal(signal.SIGUSR2)
        assert run.stderr.readline()  # and continues
        assert run.stderr.readline()
        run.send_signal(signal.SIGINT)
        assert run.wait(DEADLINE) == 0
    finally:
        job.finish()
        assert started.wait(DEADLINE) == 0
    assert events(path) == ["SIGUSR2"]
    assert pinned(path) == (2,)
    assert str(pid) in [str(p["pid"]) for p in shown(tool, path)["incident"]["processes"]]
    assert job.got("SIGUSR2") == []
    assert os.path.exists(path)


def test_a_finding_is_switched_off(tool):
    run = ("run", "--no-record", "--", "sh", "-c", "sleep 2 > /dev/null 2>&1 & true")
    assert "blind-spots" in tool.run(*run).stderr  # a process is still running
    assert "blind-spots" not in tool.run(*run, env={"HIWATER_FINDINGS_OFF": "swap,blind-spots"}).stderr


RANK = """
import os, socket, sys, time
name = os.environ["HIWATER_SOCKET"]
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for step in range(1, 21):
    s.sendto(f"log step_time={sys.argv[1]} step={step}".encode(), chr(0) + name[1:])
time.sleep(1.2)
"""


def test_the_slowest_rank(tool):
    """Recordings of the ranks of one job are in one folder; those of another job do not count."""
    seconds = {0: 1.0, 1: 1.02, 2: 1.4, 3: 0.99}
    runs = [("77", rank, s) for rank, s in seconds.items()] + [("78", 5, 9.0)]
    started = [tool.start("run", "--summary", "none", "--gpu=none", "-o", f"{job}-r%r.hiw", "--", sys.executable, "-c", RANK, str(s),
                          env=dict(tool.env, SLURM_JOB_ID=job, SLURM_STEP_ID="0", SLURM_PROCID=str(rank), SLURM_NTASKS="4"))
               for job, rank, s in runs]
    for run in started:
        assert run.wait(DEADLINE) == 0
    for rank in seconds:
        path = tool.folder / f"77-r{rank}.hiw"
        with sqlite3.connect(path) as db:  # the rule wants a minute
            db.execute("UPDATE meta SET value = 70000000000 WHERE key = 'ended_ns'")
        db.close()
        found = {f["code"]: f for f in shown(tool, path)["findings"]}["rank-skew"]
        assert found["severity"] == "warn"
        assert found["evidence"]["rank"] == 2 and found["evidence"]["ranks"] == 4
        assert abs(found["evidence"]["median_step_s"] - 1.01) < 1e-9
        assert "1.4 s on rank 2, the median of 4 ranks is 1.01 s" in found["message"]
    (tool.folder / "77-r2.hiw").unlink()
    assert "rank-skew" not in [f["code"] for f in shown(tool, tool.folder / "77-r0.hiw")["findings"]]


TORCH = """
import os, socket, sys, time
name = os.environ["HIWATER_SOCKET"]
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
reserved, allocated, retries = sys.argv[1:]
s.sendto(f"log torch/gpu0/reserved_peak_bytes={reserved} torch/gpu0/allocated_peak_bytes={allocated} "
         f"torch/gpu0/alloc_retries={retries}".encode(), chr(0) + name[1:])
time.sleep(1.2)
"""


@pytest.mark.parametrize("reserved, allocated, retries, severity", [(40, 39, 0, None), (3, 1, 0, None), (40, 20, 0, "hint"),
                                                                    (40, 39, 2, "warn")])
def test_what_an_allocator_cannot_use(tool, reserved, allocated, retries, severity):
    path = tool.folder / "run.hiw"
    done = tool.run("run", "--summary", "none", "--gpu=none", "-o", path, "--", sys.executable, "-c", TORCH, str(reserved << 30),
                    str(allocated << 30), str(retries))
    assert done.returncode == 0
    with sqlite3.connect(path) as db:  # the rule wants a minute
        db.execute("UPDATE meta SET value = 70000000000 WHERE key = 'ended_ns'")
    db.close()
    found = [f for f in shown(tool, path)["findings"] if f["code"] == "alloc-gap"]
    assert [f["severity"] for f in found] == ([severity] if severity else [])
    assert "alloc-gap" not in tool.run("show", path, env={"HIWATER_FINDINGS_OFF": "alloc-gap"}).stdout
    why = " ".join(tool.run("show", "--why", path).stdout.split())
    assert "alloc-gap PyTorch reserved" in why

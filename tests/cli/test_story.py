# SPDX-License-Identifier: MIT
"""What is kept and told when something happens to a job, lack of memory aside (test_cgroup)."""
import json
import os
import signal
import sqlite3
import sys

from cli_helpers import DEADLINE, Counter

PUSH = ("import os, socket, time; name = os.environ['HIWATER_SOCKET']; "
        "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'oom CUDA: tried to allocate 2 GiB', chr(0) + name[1:]); "
        "time.sleep(1.2)")


def events(path):
    with sqlite3.connect(path) as db:
        return [row[0] for row in db.execute("SELECT text FROM event WHERE kind = 'trigger'")]


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
    story = shown(tool, path)["story"]
    assert story["what"] == "signal 11 ended the job"
    assert "sh" in [p["name"] for p in story["processes"]]


def test_an_end_on_purpose_is_no_story(tool):
    path = tool.folder / "run.hiw"
    tool.run("run", "-o", path, "--", "sh", "-c", "sleep 1.2; kill -TERM $$")
    assert events(path) == []
    assert pinned(path) is None
    assert shown(tool, path)["story"] is None


def test_a_device_that_ran_out_of_memory(tool):
    path = tool.folder / "run.hiw"
    done = tool.run("run", "-o", path, "--", sys.executable, "-c", PUSH)
    assert done.returncode == 0, done.stderr
    assert events(path) == ["out of memory: CUDA: tried to allocate 2 GiB"]
    assert pinned(path) == (2,)
    report = shown(tool, path)
    assert not report["exit"]["oom_killed"]  # by nobody: the device's memory is not the host's
    assert report["story"]["what"] == "out of memory: CUDA: tried to allocate 2 GiB"
    assert "smaller batch" in report["story"]["try"]


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
        assert run.stderr.readline()  # and goes on
        assert run.stderr.readline()
        run.send_signal(signal.SIGINT)
        assert run.wait(DEADLINE) == 0
    finally:
        job.finish()
        assert started.wait(DEADLINE) == 0
    assert events(path) == ["SIGUSR2"]
    assert pinned(path) == (2,)
    assert str(pid) in [str(p["pid"]) for p in shown(tool, path)["story"]["processes"]]
    assert job.got("SIGUSR2") == []
    assert os.path.exists(path)


def test_a_finding_is_switched_off(tool):
    run = ("run", "--no-record", "--", "sh", "-c", "sleep 0.1; sleep 0.1; true")
    assert "blind-spots" in tool.run(*run).stderr  # few looks
    assert "blind-spots" not in tool.run(*run, env={"HIWATER_FINDINGS_OFF": "swap,blind-spots"}).stderr

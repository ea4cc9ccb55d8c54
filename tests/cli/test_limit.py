# SPDX-License-Identifier: MIT
"""--limit: a warning, a signal, and the end, on real jobs."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
from cli_helpers import DEADLINE, HERE, HIWATER, as_nobody, ended, wait_for
from stress_jobs import valid
from watched_jobs import Watched


def shown(tool, job):
    return valid(tool.run("show", "--json", job.path).stdout)


def reported_afterwards(line):
    """Without the SIGKILL that may follow: it has a line of its own."""
    return line.replace("; sending ", "; sent ").partition(", SIGKILL after")[0]


def test_ram(tool):
    job = Watched(tool, "--limit", "ram = 300MiB")
    job.say("hold 275")  # with Python itself over 270 MiB, under 300
    line, = job.wait_lines("alert")
    assert re.fullmatch(r"ram = 300MiB: 2[789]\d MiB, over 90% of the limit", line)
    assert job.process.poll() is None
    job.send("hold 400")
    assert job.wait() == 124
    line, = job.lines("limit")
    assert re.fullmatch(r"ram = 300MiB: \d+ MiB; sending SIGTERM to the job, SIGKILL after 30 s", line)
    summary = shown(tool, job)
    assert summary["exit"]["code"] == 124
    assert [n["why"] for n in summary["notes"] if n["about"] == "exit"] == [reported_afterwards(line)]
    text = tool.run("show", job.path).stdout
    assert "ended by --limit (exit 124)" in text.replace("\u00a0", " ")
    assert " ".join(text.replace("\u00a0", " ").split()).count(reported_afterwards(line)) == 1
    assert summary["marks"]["seen"] == 0  # the job set none


def test_all_of_the_job_is_told(tool):
    """If only the shell got the signal, its child would be left behind."""
    job = Watched(tool, "--limit", "ram = 300MiB", before=["sh", "-c", '"$@"; exit 0', "sh"])
    child = int(job.say("child"))
    job.send("hold 400")
    assert job.wait() == 124
    wait_for(lambda: ended(child), "the grandchild has ended")


def test_who_does_not_end_is_killed(tool):
    job = Watched(tool, "--limit", "ram = 300MiB", "--grace", "500ms")
    job.say("ignore")
    child = int(job.say("child"))
    job.send("hold 400")
    job.wait_lines("limit")
    began = time.monotonic()
    assert job.wait() == 124
    assert time.monotonic() - began < 10
    told, killed = job.lines("limit")
    assert killed == "ram = 300MiB: the job did not end within 500 ms; sending SIGKILL"
    assert ended(child)
    assert [n["why"] for n in shown(tool, job)["notes"] if n["about"] == "exit"] == [reported_afterwards(killed)]


def test_no_grace(tool):
    job = Watched(tool, "--limit", "ram = 300MiB", "--grace", "0")
    job.say("ignore")
    job.send("hold 400")
    assert job.wait() == 124
    told, killed = job.lines("limit")
    assert told.endswith("; sending SIGTERM to the job, then SIGKILL at once")
    assert killed == "ram = 300MiB: sending SIGKILL to the job"
    assert [n["why"] for n in shown(tool, job)["notes"] if n["about"] == "exit"] == ["ram = 300MiB: sent SIGKILL to the job"]


def test_who_uses_the_grace_is_not_killed(tool):
    """A job may save its state at SIGTERM."""
    saved = tool.folder / "saved"
    script = f"trap 'sleep 0.3; echo saved > {saved}; exit 5' TERM; while :; do sleep 0.05; done"
    done = tool.run("run", "--summary", "none", "--limit", "time = 500ms", "--grace", "20s", "--", "sh", "-c", script)
    assert done.returncode == 124
    assert saved.read_text() == "saved\n"
    assert "sending SIGKILL" not in done.stderr


def test_what_is_over_is_told_once(tool):
    """The warning at 90% and the limit itself are two rules of one limit."""
    job = Watched(tool, "--limit", "process.rss = 300MiB")
    job.say("ignore")
    job.say("hold 400")
    job.wait_lines("limit")
    job.say("hold 0")
    job.wait_lines("cleared")
    job.say("hold 1")
    assert job.finish() == 124
    assert len(job.lines("cleared")) == 1
    assert job.query("SELECT count(*) FROM event WHERE kind = 'cleared'") == [(1,)]


def test_time(tool):
    began = time.monotonic()
    done = tool.run("run", "-i", "20ms", "--summary", "line", "--limit", "time = 700ms", "--", "sleep", "60")
    assert 0.7 <= time.monotonic() - began < 20
    assert done.returncode == 124
    assert "exit=124" in done.stderr
    assert "over 90% of the limit" in done.stderr


def test_a_short_run_that_a_limit_ended_is_kept(tool):
    """Other runs that are shorter than a window are not kept in the history."""
    tool.run("run", "--summary", "none", "--", "true")
    assert not list(tool.history.glob("*.hiw"))
    assert tool.run("run", "-i", "20ms", "--summary", "none", "--limit", "time = 200ms", "--", "sleep", "60").returncode == 124
    assert json.loads(tool.run("show", "--json", "last").stdout)["exit"]["code"] == 124


def test_a_stopped_job_ends(tool):
    done = tool.run("run", "--summary", "none", "--limit", "time = 500ms", "--", "sh", "-c", "kill -STOP $$; exit 0")
    assert done.returncode == 124


def test_one_process(tool):
    job = Watched(tool, "--limit", "process.rss = 300MiB")
    child = int(job.say("child"))
    job.send("hold 400")
    assert job.process.wait(DEADLINE) == 124
    assert not ended(child), "only the one that was over it"
    os.kill(child, signal.SIGKILL)
    job.wait()
    assert re.search(r"; sending SIGTERM to process \d+,", job.lines("limit")[0])


def test_what_is_not_reached_changes_nothing(tool):
    job = Watched(tool, "--limit", "ram = 1TiB", "--limit", "time = 1h")
    job.say("hold 20")
    assert job.finish(7) == 7
    assert job.text == ""
    assert shown(tool, job)["exit"]["code"] == 7


def test_repeat_ends_with_the_limit(tool):
    done = tool.run("run", "--repeat", "3", "--summary", "line", "--limit", "time = 400ms", "--", "sleep", "60")
    assert done.returncode == 124
    assert done.stderr.count("exit=124") == 1


def test_attach(tool):
    puppet = subprocess.Popen([sys.executable, str(HERE / "puppet.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    puppet.stdout.readline()
    hiwater = tool.start("attach", "-i", "20ms", "--summary", "none", "--no-record", "--limit", "ram = 300MiB", str(puppet.pid))
    puppet.stdin.write("hold 400\n")
    puppet.stdin.flush()
    assert puppet.wait(30) == -signal.SIGTERM
    assert hiwater.wait(30) == 124
    puppet.stdin.close()
    puppet.stdout.close()


@pytest.mark.parametrize("rule", ["ram = 1B", "time = 1ms"])
def test_at_once(tool, rule):
    done = tool.run("run", "--no-record", "--limit", rule, "--json", "out.json", "--summary", "none", "--", "sleep", "60")
    assert done.returncode == 124
    assert valid((tool.folder / "out.json").read_text())["exit"]["code"] == 124
    assert json.loads((tool.folder / "out.json").read_text())["notes"]


SHELL = ["sh", "-c", '"$@"; exit 0', "sh"]  # main, which ends at once when it is told to


def parent_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


def outliving(tool, grace):
    """A job over its limit whose main process ends at SIGTERM, and the PIDs of two processes that ignore it."""
    job = Watched(tool, "--limit", "ram = 300MiB", "--grace", grace, before=SHELL)
    job.say("ignore")
    child = int(job.say("child"))
    puppet = parent_of(child)
    job.send("hold 400")
    return job, child, puppet


def test_who_outlives_main_is_killed_after_the_grace(tool):
    job, child, puppet = outliving(tool, "500ms")
    assert job.wait() == 124
    assert ended(child) and ended(puppet)
    told, killed = job.lines("limit")
    assert killed == "ram = 300MiB: the job did not end within 500 ms; sending SIGKILL"
    summary = shown(tool, job)
    assert summary["exit"]["code"] == 124 and summary["processes"]["left"] == 0
    assert summary["time"]["wall_s"] >= 0.5  # main may take its time to obey: the grace began before its end


def test_the_grace_is_over_when_nobody_is_left(tool):
    job = Watched(tool, "--limit", "ram = 300MiB", "--grace", "1h", before=SHELL)
    child = int(job.say("child"))
    job.send("hold 400")
    assert job.wait() == 124
    assert ended(child)
    assert "SIGKILL after 1 h" in "".join(job.lines("limit")) and len(job.lines("limit")) == 1


def test_ctrl_c_ends_the_grace_of_who_outlives_main(tool):
    job, child, puppet = outliving(tool, "1h")
    job.wait_lines("limit")
    wait_for(lambda: parent_of(puppet) == job.process.pid, "main has ended")

    def interrupted():  # what comes while main is a zombie is main's
        job.process.send_signal(signal.SIGINT)
        return job.process.poll() is not None
    wait_for(interrupted, "hiwater has ended")
    assert job.wait() == 124
    assert ended(child) and ended(puppet)
    assert job.lines("limit")[1] == "ram = 300MiB: an end was requested; sending SIGKILL to the job"


RELAY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.dup2(1, 2)
    while True:
        if os.fork():
            os._exit(0)
        time.sleep(0.002)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
held = bytearray(b"x") * (200 << 20)
time.sleep(600)
"""


def test_who_is_born_meanwhile_is_killed_too(tool):
    """Each process of the relay ignores SIGTERM, starts the next one and ends."""
    name = f"relay-{os.getpid()}"

    def runners():
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as f:
                    found += [int(pid)] if f.read().rstrip("\0").endswith(name) else []
            except OSError:
                pass
        return found

    try:
        done = tool.run("run", "--no-record", "--summary", "none", "--limit", "ram = 100MiB", "--grace", "300ms", "--",
                        sys.executable, "-S", "-c", RELAY, name, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert done.returncode == 124
        assert "the job did not end within 300 ms; sending SIGKILL" in done.stderr
        wait_for(lambda: not runners(), "nobody runs on")
    finally:
        for _ in range(100):  # seen to be needed where hiwater leaves one alive
            for pid in runners():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass


def test_a_process_that_has_ended_is_not_said_to_be_killed(tool):
    """It ended at SIGTERM; the job continues beyond the grace."""
    job = Watched(tool, "--limit", "process.rss = 300MiB", "--grace", "200ms", "--alert", "time > 2s",
                  before=["sh", "-c", '"$@"; read line; exit 3', "sh"])
    job.send("hold 400")
    job.wait_lines("limit")
    wait_for(lambda: any("time > 2s" in line for line in job.lines("alert")), "the grace is over")
    job.send("")
    assert job.wait() == 124
    assert len(job.lines("limit")) == 1


def test_attach_leaves_nobody_whom_a_limit_has_told_to_end(tool):
    """What ends the measurement during the grace: a signal does so at once."""
    puppet = subprocess.Popen([sys.executable, str(HERE / "puppet.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              bufsize=1)
    try:
        assert puppet.stdout.readline() == "ready\n"
        print("ignore", file=puppet.stdin)
        puppet.stdout.readline()
        hiwater = tool.start("attach", "--no-record", "--summary", "none", "-i", "20ms", "--limit", "ram = 300MiB", "--grace", "1h",
                             str(puppet.pid), text=True)
        print("hold 400", file=puppet.stdin)
        line = next(line for line in hiwater.stderr if line.startswith("hiwater: limit: "))
        assert "sending SIGTERM" in line
        hiwater.send_signal(signal.SIGINT)
        assert hiwater.wait(DEADLINE) == 124
        assert puppet.wait(DEADLINE) == -signal.SIGKILL
    finally:
        puppet.kill()
        puppet.wait()


TWO = """
import os, signal, sys, time
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        held = bytearray(300 << 20)
    else:
        print(os.getpid(), flush=True)
    time.sleep(600)
time.sleep(600)
"""


def test_the_grace_of_a_limit_does_not_end_with_that_of_one_before(tool):
    """A process that ignores SIGTERM is killed by its own limit; seconds later all get SIGTERM, and another one ignores it."""
    done = tool.run("run", "--no-record", "--summary", "none", "--limit", "process.rss = 200MiB", "--limit", "time = 4s", "--grace", "300ms",
                    "--", sys.executable, "-S", "-c", TWO, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 124, done.stderr
    stubborn = int(done.stdout)
    try:
        assert not pathlib.Path(f"/proc/{stubborn}").exists(), done.stderr
    finally:
        try:
            os.kill(stubborn, signal.SIGKILL)
        except ProcessLookupError:
            pass


STARTER = """
import subprocess, sys, threading
for line in sys.stdin:
    started = subprocess.Popen(sys.argv[1:])
    print(started.pid, flush=True)
    threading.Thread(target=started.wait, daemon=True).start()
"""
HOLDER = "import time; held = bytearray(b'x') * (150 << 20); time.sleep(600)"


def test_who_comes_long_after_the_kill_lives(tool):
    """Main belongs to another user and stays, so hiwater continues; processes that it starts then were not there at the limit."""
    nobody = as_nobody(tool.folder)
    main = subprocess.Popen([sys.executable, "-S", "-c", STARTER, *nobody, sys.executable, "-S", "-c", HOLDER], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True, bufsize=1)

    def start():
        print("start", file=main.stdin)
        return int(main.stdout.readline())

    started = [start()]
    errors = tool.folder / "errors"
    with errors.open("w") as stderr:
        hiwater = subprocess.Popen([*nobody, HIWATER, "attach", "-i", "20ms", "--no-record", "--summary", "none", "--limit", "ram = 1B",
                                    "--grace", "50ms", "--alert", "process.rss > 100MiB", str(main.pid)], env=tool.env, cwd=tool.folder,
                                   stdin=subprocess.DEVNULL, stderr=stderr)
    try:
        wait_for(lambda: "the job did not end within" in errors.read_text(), "the kill")
        wait_for(lambda: ended(started[0]), "it hits who was there")
        over = time.monotonic() + 2.1  # what follows is told by hiwater's clock alone
        wait_for(lambda: time.monotonic() > over, "the two seconds of the chase")
        for _ in range(2):  # the step that tells of the second is behind the one that told of the first
            started.append(start())
            wait_for(lambda: f"({started[-1]})" in errors.read_text(), "hiwater sees it")
        assert not ended(started[1])
        assert hiwater.poll() is None
    finally:
        for pid in started:
            if not ended(pid):
                os.kill(pid, signal.SIGKILL)
        main.stdin.close()
        main.stdout.close()
        main.kill()
        main.wait()
        hiwater.wait(DEADLINE)

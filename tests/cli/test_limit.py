# SPDX-License-Identifier: MIT
"""--limit: a warning, a signal, and the end, on real jobs."""
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from cli_helpers import DEADLINE, HERE, ended, wait_for
from stress_jobs import valid
from watched_jobs import Watched


def shown(tool, job):
    return valid(tool.run("show", "--json", job.path).stdout)


def test_ram(tool):
    job = Watched(tool, "--limit", "ram = 300MiB")
    job.say("hold 275")  # with Python itself over 270 MiB, under 300
    line, = job.wait_lines("alert")
    assert re.fullmatch(r"ram = 300MiB: 2[789]\d MiB, over 90% of the limit", line)
    assert job.process.poll() is None
    job.send("hold 400")
    assert job.wait() == 124
    line, = job.lines("limit")
    assert re.fullmatch(r"ram = 300MiB: \d+ MiB; the job is told to end, and killed after 30\.0 s", line)
    summary = shown(tool, job)
    assert summary["exit"]["code"] == 124
    assert [n["why"] for n in summary["notes"] if n["about"] == "exit"] == [line]
    text = tool.run("show", job.path).stdout
    assert "ended by --limit (exit 124)" in text.replace("\u00a0", " ")
    assert line[:30] in text


def test_all_of_the_job_is_told(tool):
    """A shell that is told alone would leave its child behind."""
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
    assert killed == "ram = 300MiB: the job did not end within 500 ms and is killed"
    assert ended(child)
    assert [n["why"] for n in shown(tool, job)["notes"] if n["about"] == "exit"] == [killed]


def test_who_uses_the_grace_is_not_killed(tool):
    """SIGTERM may mean: save what there is."""
    saved = tool.folder / "saved"
    script = f"trap 'sleep 0.3; echo saved > {saved}; exit 5' TERM; while :; do sleep 0.05; done"
    done = tool.run("run", "--summary", "none", "--limit", "time = 500ms", "--grace", "20s", "--", "sh", "-c", script)
    assert done.returncode == 124
    assert saved.read_text() == "saved\n"
    assert "is killed" not in done.stderr


def test_what_is_over_is_told_once(tool):
    """Near and reached are two rules of one limit."""
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
    assert re.search(r"; process \d+ is told to end", job.lines("limit")[0])


def test_what_is_not_reached_changes_nothing(tool):
    job = Watched(tool, "--limit", "ram = 1TiB", "--limit", "time = 1h", "--limit", "gpu.mem = 8GiB")
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

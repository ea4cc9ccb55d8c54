# SPDX-License-Identifier: MIT
"""--alert and --on-alert on real jobs."""
import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from cli_helpers import DEADLINE, HERE, HIWATER, ROOT, ended, processes, wait_for
from watched_jobs import Watched

MIB = 1 << 20


# ---- raised and cleared ----

def test_memory(tool):
    job = Watched(tool, "--alert", "ram > 150MiB")
    job.say("hold 20")
    job.say("hold 200")
    line, = job.wait_lines("alert")
    assert re.fullmatch(r"ram > 150MiB: 2\d\d MiB|ram > 150MiB: 1[5-9]\d MiB", line)
    job.say("hold 1")
    assert job.wait_lines("cleared")
    assert job.finish(3) == 3
    assert job.process.stdout.read() == ""
    assert [kind for kind, _ in job.events("alert", "cleared")] == ["alert", "cleared"]
    assert job.events("alert")[0][1] == line


def test_what_does_not_last_is_not_told(tool):
    job = Watched(tool, "--alert", "ram > 150MiB for 1h", "--alert", "ram > 150MiB")
    job.say("hold 200")
    assert len(job.wait_lines("alert")) == 1
    assert job.finish() == 0
    assert len(job.lines("alert")) == 1


def test_for_a_while(tool):
    job = Watched(tool, "--alert", "ram > 150MiB for 500ms")
    began = time.monotonic()
    job.say("hold 200")
    job.wait_lines("alert")
    assert time.monotonic() - began >= 0.5
    assert job.finish() == 0


def test_series(tool):
    job = Watched(tool, "--alert", "error: loss is nan", "--alert", "loss > 5 and accuracy < 50%")
    job.say("log loss=0.5 accuracy=0.9 step=1")
    job.say("log loss=7 accuracy=0.1 step=2")
    assert job.wait_lines("alert") == ["loss > 5 and accuracy < 50%: loss 7"]
    job.say("log loss=nan step=3")
    assert job.wait_lines("alert", 2)[1] == "error: loss is nan: nan"
    assert job.finish() == 0


def test_no_step(tool):
    job = Watched(tool, "--alert", "no step for 1s")
    job.say("log step=1")
    wait_for(lambda: job.lines("alert"), "nothing came for a second")
    job.say("log step=2")
    job.wait_lines("cleared")
    assert job.finish() == 0


def test_growth(tool):
    job = Watched(tool, "--alert", "growth(ram, 2s) > 10MiB/s")
    for mib in range(20, 2000, 4):
        job.say(f"hold {mib}")
        if job.lines("alert") or job.process.poll() is not None:
            break
        time.sleep(0.02)
    assert re.fullmatch(r"growth\(ram, 2s\) > 10MiB/s: [\d.]+ [MG]iB/s", job.wait_lines("alert")[0])
    assert job.finish() == 0


def test_each_process(tool):
    job = Watched(tool, "--alert", "process.name ~ ^sleep and process.rss > 100kB")
    pid = job.say("child")
    line, = job.wait_lines("alert")
    assert f"sleep ({pid})" in line
    os.kill(int(pid), signal.SIGKILL)
    assert "has ended" in job.wait_lines("cleared")[0]
    assert job.finish() == 0


def test_percent_of_the_machine(tool):
    job = Watched(tool, "--alert", "ram > 0.1% of capacity", "--cgroup=none")
    job.say("hold 100")
    total = int(re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) * 1024
    if total * 0.001 > 100 * MIB:
        pytest.skip("a machine of over 100 GiB")
    assert re.search(r" of [\d.]+ [GT]iB$", job.wait_lines("alert")[0])
    assert job.finish() == 0


def test_nothing_to_look_at_is_said_at_the_end(tool):
    done = tool.run("run", "--summary", "none", "--gpu=none", "--alert", "lost > 5", "--alert", "ram > 1TiB", "--limit", "gpu.mem = 1GiB",
                    "--", "sleep", "2.1")
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "hiwater: warning: the limit 'gpu.mem = 1GiB' cannot be checked: GPUs are not measured (--gpu=none)",
        "hiwater: warning: the rule 'lost > 5' was never checked: 'lost' was never pushed"]


# ---- a rule that makes no sense ----

@pytest.mark.parametrize("option, rule, says", [
    ("--alert", "rma > 5GiB", "did you mean 'ram'?"),
    ("--alert", "ram > 5", "write it as 5GiB or 5%, or 5B for bytes"),
    ("--alert", "ram > 5%", None),
    ("--alert", "ram > 5 GBi", "write it as 5GiB"),
    ("--limit", "ram > 5GiB", "NAME = VALUE"),
    ("--on-alert", "signal BOB", "unknown signal"),
    ("--on-alert", "error: signal BOB", "unknown signal"),
    ("--on-alert", "error: ", "the action is empty"),
    ("--on-alert", "critical: echo", "unknown level"),
    ("--on-alert", "signal", "unknown signal"),
    ("--on-alert", "true", "--on-alert needs an alert; give one with --alert"),
    ("--limit", "ram = 24", "write it as 24GiB"),
])
def test_refused_before_the_job(tool, option, rule, says):
    done = tool.run("run", option, rule, "--", "touch", "began")
    if says is None:
        assert done.returncode == 0
        return
    assert done.returncode == 125
    assert says in done.stderr
    assert not (tool.folder / "began").exists()
    if option != "--on-alert":
        what, shown, caret = done.stderr.splitlines()
        column = int(re.search(r"column (\d+)", what)[1])
        assert shown == f"  {rule}" and caret == " " * (column + 1) + "^"


def quoted(tool, command):
    """What a manual has in quotes."""
    page = tool.run("_generate", f"man-{command}").stdout
    page = re.sub(r"\\f[A-Z]|\\&", "", page).replace("\\(aq", "'").replace("\\-", "-")
    page = page.replace("\\(ti", "~").replace("\\(ha", "^")
    return set(re.findall(r"(?<![A-Za-z])'([^']+)'(?![A-Za-z])", page.replace("\n", " ")))


@pytest.mark.parametrize("command", ["run", "attach"])
def test_every_rule_of_the_manual_can_be_read(tool, command):
    no_rules = {"job.", "signal USR1", "error: signal USR1", "trigger", "python .*train"}
    rules = quoted(tool, command) - no_rules
    assert len(rules) > 15
    for rule in rules:
        option = "--limit" if re.search(r"[a-z] = ", rule) else "--alert"
        done = tool.run("run", "--summary", "none", "--no-record", option, rule, "--", "true")
        assert done.returncode == 0, (rule, done.stderr)


def test_the_usual(tool):
    """The rules of the manual; a missing value causes no warning."""
    source = (ROOT / "src" / "rules" / "alert.c").read_text()
    usual = re.findall(r'^\t"(.*)",$', source, re.M)
    assert len(usual) > 5 and set(usual) <= quoted(tool, "run")
    told = tool.folder / "told"
    done = tool.run("run", "--summary", "none", "--gpu=none", "-o", "run.hiw", "--alert", "default", "--on-alert",
                    f"error: echo $HIWATER_VALUE > {told}", "--", "sh", "-c", "sleep 2.1; exit 3")
    assert done.returncode == 3
    assert done.stderr == "hiwater: alert: error: exit != 0: 3\n"
    wait_for(lambda: told.exists() and told.read_text() == "3\n", "the command runs after the job's end")
    assert tool.run("check", "run.hiw", "exit == 3", "exit != 0 and time > 1s").returncode == 0
    assert tool.run("check", "run.hiw", "exit == 0").returncode == 1


def test_slower_than_usual(tool):
    job = Watched(tool, "--alert", "no step for 8x median")
    began = time.monotonic()
    for n in range(8):
        job.say(f"log step={n}")
        time.sleep(0.1)
    gap = (time.monotonic() - began) / 8
    line, = job.wait_lines("alert")
    assert re.fullmatch(r"no step for 8x median: .*, the median is .*", line)
    assert time.monotonic() - began > 8 * gap
    job.say("log step=99")
    job.wait_lines("cleared")
    assert job.finish() == 0


# ---- actions ----

def test_command_and_its_environment(tool):
    out = tool.folder / "told"
    job = Watched(tool, "--alert", "error: ram > 150MiB", "--on-alert", f"env > {out}.new; echo noise; mv {out}.new {out}",
                  env={"HIWATER_VALUE": "old"})
    job.say("hold 200")
    wait_for(out.exists, "the command ran")
    said = dict(l.split("=", 1) for l in out.read_text().splitlines() if "=" in l)
    assert said["HIWATER_RULE"] == "error: ram > 150MiB"
    assert said["HIWATER_ALERT"] == job.wait_lines("alert")[0]
    assert 150 * MIB < int(said["HIWATER_VALUE"]) < 300 * MIB
    assert said["HIWATER_LEVEL"] == "error"
    assert 0 <= float(said["HIWATER_TIME_S"]) < 60
    assert said["HIWATER_RUN"] == str(job.path)
    assert said["HIWATER_PID"] == job.say("pid")
    assert job.finish() == 0
    assert job.process.stdout.read() == "", "the command's output is not the job's"
    assert "noise" not in job.text, "nor is it written into a pipe, whose reader would wait for it"


def test_output_of_a_command(tool):
    with open(tool.folder / "stderr", "w") as stderr:
        done = tool.run("run", "--summary", "none", "--alert", "ram > 0B", "--on-alert", "echo heard; echo too >&2", "--",
                        "sh", "-c", "echo job; sleep 0.5", stdout=subprocess.PIPE, stderr=stderr)
    assert done.returncode == 0 and done.stdout == "job\n"
    wait_for(lambda: {"heard", "too"} <= set((tool.folder / "stderr").read_text().splitlines()), "it is where hiwater writes")


def test_signal(tool):
    job = Watched(tool, "--alert", "ram > 150MiB", "--on-alert", "signal USR1")
    assert job.say("count") == "0"
    job.say("hold 200")
    job.wait_lines("alert")
    wait_for(lambda: job.say("count") == "1", "the job got it")
    assert job.finish() == 0


def test_an_action_for_a_level(tool):
    """Those below it do nothing."""
    told, signals = tool.folder / "told", tool.folder / "warned"
    job = Watched(tool, "--alert", "info: ram > 100MiB", "--alert", "ram > 150MiB", "--alert", "error: ram > 1TiB",
                  "--on-alert", f"error: touch {told}", "--on-alert", "warn: signal USR1", "--on-alert",
                  f"info:echo $HIWATER_LEVEL >> {signals}")
    job.say("hold 200")
    job.wait_lines("alert", 2)
    wait_for(lambda: job.say("count") == "1", "warn is one, info none")
    wait_for(lambda: signals.exists() and sorted(signals.read_text().split()) == ["info", "warn"], "both actions ran")
    assert job.finish() == 0
    assert not told.exists()


def test_an_alert_pulls_the_black_box(tool):
    job = Watched(tool, "--alert", "error: ram > 200MiB", "--alert", "ram > 50MiB", "--on-alert", "error: trigger")
    job.say("hold 60")
    job.say("hold 240")  # and stays so: one alert
    line, = wait_for(lambda: [l for l in job.lines("alert") if l.startswith("error")], "the alert")
    pid = int(job.say("pid"))
    assert job.finish() == 0
    assert job.events("trigger") == [("trigger", f"RAM alert: {line}")]
    assert job.query("SELECT value FROM meta WHERE key = 'pinned'") == [(2,)]
    incident = json.loads(tool.run("show", "--json", job.path).stdout)["incident"]
    assert incident["event"] == f"RAM alert: {line}" and incident["memory"] == "ram"
    assert incident["used_bytes"] > 200 * MIB
    assert incident["processes"][0]["pid"] == pid and incident["processes"][0]["bytes"] > 200 * MIB
    assert "smaller chunks of data" in incident["remedy"]
    text = " ".join(tool.run("show", job.path).stdout.replace("\u00a0", " ").split())
    assert "Events at" in text and "RAM at that time:" in text


def names(*wanted):
    return [pid for pid, name, state, _, _ in processes() if name in wanted and state != "Z"]


def test_a_slow_command_delays_nothing(tool):
    before = set(names("hiwater-alert"))
    mark = tool.folder / "slow"
    job = Watched(tool, "--alert", "ram > 150MiB", "--on-alert", f"echo $$ > {mark}; exec sleep 600")
    job.say("hold 200")
    job.wait_lines("alert")
    slow = int(wait_for(lambda: mark.exists() and mark.read_text().strip(), "the command runs"))
    began = time.monotonic()
    job.say("hold 1")
    assert job.finish() == 0
    assert time.monotonic() - began < DEADLINE  # the command takes 600 s
    assert not ended(slow), "it lives on to the end of its time"
    shown = json.loads(tool.run("show", "--json", job.path).stdout)
    assert shown["processes"]["seen"] == 1, "it is none of the job's"
    assert shown["exit"]["code"] == 0
    for keeper in set(names("hiwater-alert")) - before:
        os.kill(keeper, signal.SIGKILL)
    os.kill(slow, signal.SIGKILL)


def test_what_a_command_leaves_is_none_of_the_job(tool):
    mark = tool.folder / "left"
    job = Watched(tool, "--alert", "ram > 150MiB", "--wait", "--on-alert", f"(sleep 600 & echo $! > {mark}) & exit 0")
    job.say("hold 200")
    left = int(wait_for(lambda: mark.exists() and mark.read_text().strip(), "the command left a process behind"))
    keeper = int(pathlib.Path(f"/proc/{left}/stat").read_text().rpartition(")")[2].split()[1])
    assert pathlib.Path(f"/proc/{keeper}/comm").read_text() == "hiwater-alert\n"
    assert job.finish() == 0, "--wait does not wait for it"
    assert json.loads(tool.run("show", "--json", job.path).stdout)["processes"]["seen"] == 1
    os.kill(left, signal.SIGKILL)
    wait_for(lambda: ended(keeper), "the keeper goes with the last one")


def test_a_killed_keeper(tool):
    """Its command and the processes that it started become hiwater's children, but do not count as the job's."""
    mark = tool.folder / "started"
    job = Watched(tool, "--wait", "--alert", "ram > 150MiB", "--on-alert", f"sleep 600 & echo $! $$ > {mark}; wait")
    job.say("hold 200")
    left, command = map(int, wait_for(lambda: mark.exists() and mark.read_text().split(), "the command runs"))
    keeper = int(pathlib.Path(f"/proc/{command}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(keeper, signal.SIGKILL)
    wait_for(lambda: f"PPid:\t{job.process.pid}\n" in pathlib.Path(f"/proc/{command}/status").read_text(), "hiwater adopts it")
    job.say("hold 250")
    seen = newest_on_disk(job)
    wait_for(lambda: newest_on_disk(job) > seen + 1_500_000_000, "hiwater has sampled all of its children")
    os.kill(command, signal.SIGKILL)
    wait_for(lambda: f"PPid:\t{job.process.pid}\n" in pathlib.Path(f"/proc/{left}/status").read_text(), "hiwater adopts this, too")
    seen = newest_on_disk(job)
    wait_for(lambda: newest_on_disk(job) > seen + 1_500_000_000, "hiwater has sampled all of its children")
    assert job.finish(3) == 3, "--wait does not wait for it"
    summary = json.loads(tool.run("show", "--json", job.path).stdout)
    assert summary["processes"]["seen"] == 1 and summary["processes"]["left"] == 0
    assert not ended(left)
    os.kill(left, signal.SIGKILL)


def test_a_flood_of_a_command(tool):
    """It writes as much as it likes: neither the job nor hiwater waits for it."""
    with open(tool.folder / "stderr", "w+") as stderr:
        began = time.monotonic()
        done = tool.run("run", "--summary", "none", "-o", "run.hiw", "--alert", "ram > 0B", "--on-alert",
                        "echo $$ > pid; while :; do echo flood >&2; done", "--", "sh", "-c", "sleep 1.5; exit 5", stderr=stderr)
        took = time.monotonic() - began
        os.killpg(int((tool.folder / "pid").read_text()), signal.SIGKILL)
        stderr.seek(0)
        text = stderr.read(1 << 20)
    assert done.returncode == 5 and took < 15
    assert "flood" in text and "hiwater: alert: ram > 0B" in text


def test_a_flood_into_a_pipe_goes_nowhere(tool):
    job = Watched(tool, "--alert", "ram > 150MiB", "--on-alert", f"echo $$ > {tool.folder}/pid; while :; do echo flood; done")
    job.say("hold 200")
    pid = int(wait_for(lambda: (tool.folder / "pid").exists() and (tool.folder / "pid").read_text().strip(), "it floods"))
    assert job.finish() == 0
    assert "flood" not in job.text
    os.killpg(pid, signal.SIGKILL)


def test_an_alert_after_the_end(tool):
    """Nobody is there to get a signal, nothing to be kept; it is no failure."""
    done = tool.run("run", "--summary", "none", "--alert", "exit >= 0", "--on-alert", "signal KILL", "--on-alert", "trigger", "--",
                    "sh", "-c", "exit 4")
    assert done.returncode == 4
    assert done.stderr == "hiwater: alert: exit >= 0: 4\n"


def test_a_failing_command_is_told_once(tool):
    job = Watched(tool, "--alert", "ram > 150MiB", "--alert", "ram > 151MiB", "--on-alert", "exit 7")
    job.say("hold 200")
    job.wait_lines("alert", 2)
    job.wait_lines("warning")
    assert job.finish() == 0
    assert len(job.lines("warning")) == 1
    assert "exit 7" in job.lines("warning")[0]


def test_not_more_than_a_few_at_once(tool):
    log = tool.folder / "started"
    before = set(names("hiwater-alert"))
    rules = [option for n in range(20) for option in ("--alert", f"ram > {150 + n}MiB")]
    job = Watched(tool, *rules, "--on-alert", f"echo x >> {log}; sleep 600")
    job.say("hold 200")
    wait_for(lambda: log.exists() and len(log.read_text()) == 8, "four of them")
    wait_for(lambda: job.lines("warning"), "a warning says that there are no more")
    assert job.finish() == 0
    assert len(log.read_text()) == 8
    assert len([e for e in job.events("alert")]) == 20, "all are in the recording"
    for keeper in set(names("hiwater-alert")) - before:
        children = pathlib.Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
        os.kill(keeper, signal.SIGKILL)
        for child in children:
            os.killpg(int(child), signal.SIGKILL)


# ---- many alerts, and failures ----

@pytest.mark.full
def test_thousands_of_alerts(tool):
    """A rule about each process, and a job that starts 3000 of them."""
    script = "for i in $(seq 3000); do /bin/true; done"
    done = tool.run("run", "-i", "1ms", "--no-record", "--summary", "line", "--alert", "process.rss >= 0B", "--on-alert", "true",
                    "--", "sh", "-c", script)
    assert done.returncode == 0
    said = done.stderr.splitlines()
    assert len(said) < 600, "the lines are held to a few a second"
    assert any("more alerts" in l for l in said)


CROWD = """
import os, time
children = []
for _ in range(2000):
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    children.append(pid)
time.sleep(1.5)
for pid in children:
    os.kill(pid, 9)
for pid in children:
    os.waitpid(pid, 0)
"""


@pytest.mark.release  # a sanitizer's hiwater is too slow for so many
def test_two_thousand_alerts_a_second(tool):
    """All at once: alerts beyond the queue are counted and reported, nothing waits, and the first ones are recorded."""
    done = tool.run("run", "-o", "run.hiw", "--summary", "none", "--alert", "process.rss >= 0B", "--on-alert", "true", "--",
                    sys.executable, "-c", CROWD)
    assert done.returncode == 0
    said = done.stderr.splitlines()
    assert len(said) < 200
    assert any(re.search(r"\d+ more alerts are in the recording", l) for l in said)
    with sqlite3.connect(tool.folder / "run.hiw") as db:
        kept, = db.execute("SELECT count(*) FROM event WHERE kind = 'alert'").fetchone()
    lost = sum(int(re.search(r"(\d+) alerts", l)[1]) for l in said if "came too fast" in l)
    assert kept + lost >= 2000 and kept >= 100  # on a slow machine none comes too fast


def test_quiet(tool):
    job = Watched(tool, "--alert", "ram > 150MiB", env={"HIWATER_QUIET": "1"})
    job.say("hold 200")
    wait_for(lambda: job.path.exists() and job.events("alert"), "it is in the recording")
    assert job.finish() == 0
    assert job.text == ""


def test_nobody_reads_stderr(tool):
    """A full pipe delays nothing."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    while True:
        try:
            os.write(writer, b"x" * 4096)
        except BlockingIOError:
            break
    os.set_blocking(writer, True)
    began = time.monotonic()
    done = tool.run("run", "--summary", "none", "--alert", "ram > 0B", "--", "sleep", "0.5", stderr=writer,
                    stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert time.monotonic() - began < 5
    os.close(reader)
    os.close(writer)


def test_after_kill_9_the_alert_is_in_the_recording(tool):
    """While a rule about memory is raised, each tick is committed."""
    job = Watched(tool, "--alert", "ram > 150MiB")
    wait_for(job.path.exists, "the recording")
    job.say("hold 200")
    wait_for(lambda: job.events("alert"), "the alert is on the disk")
    job.process.kill()
    job.process.wait()
    assert [kind for kind, _ in job.events("alert", "cleared")] == ["alert"]
    job.process.stdin.close()  # ends the puppet


def newest_on_disk(job):
    """ns since the run's start; the last that a crash now would leave."""
    rows = job.query("select max(t) from job_recent")
    return rows[0][0] or 0 if rows else 0


def commits(job, n):
    """How long n commits took, in recorded time."""
    seen = set()
    wait_for(lambda: seen.add(newest_on_disk(job)) or len(seen) > n, f"{n} commits")
    return (max(seen) - min(seen)) / 1e9


def test_while_memory_is_raised_each_tick_is_committed(tool):
    job = Watched(tool, "-i", "100ms", "--alert", "ram > 150MiB", "--alert", "time > 1ms")
    wait_for(lambda: job.path.exists() and newest_on_disk(job), "the recording")
    assert commits(job, 2) > 1.5, "once a second, also while a rule about something else is raised"
    job.say("hold 200")
    job.wait_lines("alert", 2)
    commits(job, 2)
    assert commits(job, 10) < 4
    assert job.finish() == 0


def test_a_callback_of_the_library(tool):
    """examples/alerts.c: a program that gets alerts while it measures."""
    puppet = subprocess.Popen([sys.executable, str(HERE / "puppet.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    puppet.stdout.readline()
    example = pathlib.Path(HIWATER).parent / "example-alerts"
    watch = subprocess.Popen([example, str(puppet.pid), "error: ram > 150MiB", "ram > 1TiB"], stdout=subprocess.PIPE, text=True,
                             env=dict(tool.env, ALERTS_OUTPUT=str(tool.folder / "run.hiw")))

    def say(line):
        puppet.stdin.write(line + "\n")
        puppet.stdin.flush()
    say("hold 200")
    assert re.match(r" *[\d.]+ s  raised  error: ram > 150MiB: ", watch.stdout.readline())
    say("hold 1")
    assert re.match(r" *[\d.]+ s  cleared error: ram > 150MiB: ", watch.stdout.readline())
    puppet.stdin.close()
    puppet.wait()
    assert watch.stdout.readline() == f"recording: {tool.folder}/run.hiw\n"
    assert watch.wait(DEADLINE) == 0
    with sqlite3.connect(tool.folder / "run.hiw") as db:
        told = [text for text, in db.execute("SELECT text FROM event WHERE kind = 'trigger'")]
    assert len(told) == 1 and told[0].startswith("error: ram > 150MiB: ")
    for stream in (watch.stdout, puppet.stdout):
        stream.close()
    done = subprocess.run([example, "1", "rma > 5"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "did you mean 'ram'?" in done.stderr


def test_attach(tool):
    puppet = subprocess.Popen([sys.executable, str(HERE / "puppet.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    puppet.stdout.readline()
    out = tool.folder / "told"
    hiwater = tool.start("attach", "-i", "20ms", "--summary", "none", "--no-record", "--alert", "ram > 150MiB", "--on-alert",
                         f"echo $HIWATER_PID > {out}", str(puppet.pid), text=True)
    puppet.stdin.write("hold 200\n")
    puppet.stdin.flush()
    wait_for(lambda: out.exists() and out.read_text().strip() == str(puppet.pid), "the command ran")
    puppet.stdin.close()
    puppet.wait()
    assert hiwater.wait(30) == 0
    assert "hiwater: alert: ram > 150MiB: " in hiwater.stderr.read()
    puppet.stdout.close()



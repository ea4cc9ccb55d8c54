# SPDX-License-Identifier: MIT
"""run --live: the view of a job in the terminal that it was started in."""
import fcntl
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import termios
import time

import pytest
import top_screen
from cli_helpers import HERE, HIWATER, ended, state_of, wait_for
from top_screen import expect_given_back, modes, view_of

pytestmark = top_screen.needed


def live(*args, options=()):
    return " ".join([HIWATER, "run", "--live", "--summary", "line", "--gpu", "none", *options, "--", *args])


TALKER = "'for i in 1 2 3 4; do echo out $i; echo err $i >&2; sleep 1; done; exit 3'"


def test_live(tool, screen):
    """The view while the job runs; then what it printed, the summary, its status, and the terminal as it was."""
    s = screen(100, 30)
    before = modes(s)
    s.line("clear; " + live("sh", "-c", TALKER) + "; echo status=$?")
    s.wait(r"^ hiwater .*every 1 s")
    s.wait(r"^ +\d+ .* sleep 1$")
    assert s.value("alternate_on") == "1" and "out 1" not in s.text()
    s.wait("^status=3")
    assert re.findall(r"^(?:out|err) \d$", s.text(), re.M) == [f"{what} {i}" for i in range(1, 5) for what in ("out", "err")]
    assert re.search(r"^hiwater .*exit=3", s.text(), re.M)
    expect_given_back(s, before)
    assert not list(tool.folder.glob("hiwater-live-*"))


@pytest.mark.parametrize("kernel", ["", f"{sys.executable} {HERE / 'sandbox.py'} no-pidfd "], ids=["new", "old"])
def test_live_is_left_and_the_job_goes_on(tool, screen, kernel):
    go = tool.folder / "go"
    s = screen(100, 30)
    s.line("clear; " + kernel + live("sh", "-c", f"'echo out 1; echo err 1 >&2; while [ ! -e {go} ]; do sleep 0.1; done; "
                                     "echo out 2; echo err 2 >&2; exit 3'") + "; echo status=$?")
    s.wait(r"^ hiwater .*every 1 s")
    s.keys("q")
    s.wait("^out 1\nerr 1")
    assert "status=" not in s.text()
    go.touch()
    s.wait("^err 2\n(.*\n)+status=3")
    assert len(re.findall("^out 1", s.text(), re.M)) == 1


def test_live_keys_are_the_jobs(screen):
    """Ctrl-C ends the job, Ctrl-Z stops it and the view."""
    s = screen(100, 30)
    before = modes(s)
    s.line("clear; " + live("sleep", "600"))
    s.wait(r"^ hiwater .*every 1 s")
    s.keys("C-z")
    s.wait("Stopped")
    expect_given_back(s, before)
    s.line("fg")
    s.wait(r"^ hiwater .*every 1 s")
    s.keys("C-c")
    wait_for(lambda: s.value("alternate_on") == "0", "the view is over")
    s.line("echo status=$?")
    s.wait("^status=130")
    expect_given_back(s, before)


def job_state(file):
    """The state of the process that wrote its PID into the file: S, T (stopped) and so on."""
    return wait_for(lambda: file.exists() and file.read_text().strip(), "the job's pid") and \
        pathlib.Path(f"/proc/{file.read_text().strip()}/stat").read_text().rpartition(")")[2].split()[0]


def ticking(folder):
    """A job that writes its progress into the file ticks. It is no shell with children: a child that is stopped between vfork
    and exec keeps its parent from stopping, so the stop would not be reported, with or without hiwater."""
    script = (f"import itertools, os, time; open(\"{folder}/pid\", \"w\").write(str(os.getpid())); "
              f"[(open(\"{folder}/ticks\", \"w\").write(str(i)), time.sleep(0.1)) for i in itertools.count(1)]")
    return sys.executable, "-c", f"'{script}'"


def expect_running(folder, more=25):
    """The job makes progress for longer than the view takes to redraw."""
    ticks = folder / "ticks"
    number = lambda: int(ticks.read_text() or 0) if ticks.exists() else 0
    first = number()
    wait_for(lambda: number() >= first + more, "the job goes on")
    assert job_state(folder / "pid") != "T"


def test_live_in_the_background(tool, screen):
    """In the background there is no view, and the job continues; in the foreground there is one."""
    s = screen(100, 30)
    s.line("clear; " + live(*ticking(tool.folder)) + " &")
    expect_running(tool.folder)
    s.line("echo here; jobs")
    s.wait(r"^here\n.*Running")
    assert s.value("alternate_on") == "0"
    s.line("fg")
    s.wait(r"^ hiwater .*every 1 s")
    s.keys("C-c")
    wait_for(lambda: s.value("alternate_on") == "0", "the view is over")


def test_live_goes_on_in_the_background(tool, screen):
    """Ctrl-Z, bg: the job runs, and the shell has its terminal and keys; fg: the view is shown again."""
    s = screen(100, 30)
    before = modes(s)
    s.line("clear; " + live(*ticking(tool.folder)))
    s.wait(r"^ hiwater .*every 1 s")
    s.keys("C-z")
    s.wait("Stopped")
    s.line("clear; bg")
    expect_running(tool.folder)
    s.line("echo here; jobs")
    s.wait(r"^here\n.*Running")
    expect_given_back(s, before)
    s.line("fg")
    s.wait(r"^ hiwater .*every 1 s")
    assert s.value("alternate_on") == "1"
    s.keys("C-c")
    wait_for(lambda: s.value("alternate_on") == "0", "the view is over")
    s.line("echo status=$?")
    s.wait("^status=130")
    expect_given_back(s, before)


def test_live_the_shell_comes_after_a_slow_view(tool, screen):
    """Ctrl-Z: hiwater stops after the view has restored the terminal. The shell's message is on the first screen."""
    s = screen(100, 30)
    raw = tool.folder / "raw"
    s.line("clear; " + live(*ticking(tool.folder)))
    s.wait(r"^ hiwater .*every 1 s")
    expect_running(tool.folder, more=1)
    view = view_of(parent_of(int((tool.folder / "pid").read_text())))
    os.kill(view, signal.SIGSTOP)
    s.tmux("pipe-pane", "-o", f"cat >> {raw}")
    s.keys("C-z")
    wait_for(lambda: job_state(tool.folder / "pid") == "T", "the job is stopped")
    os.kill(view, signal.SIGCONT)
    s.wait("Stopped")
    out = wait_for(lambda: raw.exists() and b"Stopped" in raw.read_bytes() and raw.read_bytes(), "the shell's word")
    assert b"\x1b[?1049l" in out.partition(b"Stopped")[0] and b"\x1b[?1049l" not in out.partition(b"Stopped")[2]
    s.line("fg")
    s.wait(r"^ hiwater .*every 1 s")
    s.keys("C-c")
    wait_for(lambda: s.value("alternate_on") == "0", "the view is over")


def test_live_outlives_nobody(tool, screen):
    """hiwater is killed: the job and its output continue, and the terminal is restored."""
    s = screen(100, 30)
    before = modes(s)
    s.line("clear; " + live("sh", "-c", f"'echo $$ > {tool.folder}/pid; exec sleep 600'"))
    s.wait(r"^ hiwater .*every 1 s")
    job = int((tool.folder / "pid").read_text())
    hiwater = int(subprocess.run(["ps", "-o", "ppid=", "-p", str(job)], capture_output=True, text=True, check=True).stdout)
    spool = os.readlink(f"/proc/{job}/fd/1")
    os.kill(hiwater, signal.SIGKILL)
    expect_given_back(s, before)
    assert not ended(job) and pathlib.Path(spool).exists()
    os.kill(job, signal.SIGKILL)
    os.unlink(spool)


def parent_of(pid):
    return int(subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("how", ["TERM", "HUP", "SEGV", "ABRT", "USR1", "KILL"])
def test_live_the_view_ends_somehow(tool, screen, how):
    """The terminal is restored and shows the job's output; the job continues."""
    go = tool.folder / "go"
    s = screen(100, 30)
    before = modes(s)
    s.line("ulimit -c 0; clear; " + live("sh", "-c", f"'echo $$ > {tool.folder}/pid; echo out 1; while [ ! -e {go} ]; do "
                                         "sleep 0.1; done; echo out 2; exit 3'") + "; echo status=$?")
    s.wait(r"^ hiwater .*every 1 s")
    os.kill(view_of(parent_of(int((tool.folder / "pid").read_text()))), getattr(signal, f"SIG{how}"))
    s.wait("^out 1")
    assert "status=" not in s.text()
    assert s.value("alternate_on") == "0" and s.value("cursor_flag") == "1" and s.value("mouse_any_flag") == "0"
    go.touch()
    s.wait("^out 2\n(.*\n)*status=3")
    expect_given_back(s, before)


@pytest.mark.parametrize(("how", "status"), [("TERM", 143), ("HUP", 129), ("INT", 130)])
def test_live_is_ended_from_outside(tool, screen, how, status):
    """hiwater forwards it; when the job has ended by it, the view has ended too."""
    s = screen(100, 30)
    before = modes(s)
    s.line("clear; " + live("sh", "-c", f"'echo $$ > {tool.folder}/pid; exec sleep 600'"))
    s.wait(r"^ hiwater .*every 1 s")
    os.kill(parent_of(int((tool.folder / "pid").read_text())), getattr(signal, f"SIG{how}"))
    s.wait(f"^hiwater .*exit={status}")
    expect_given_back(s, before)


def test_live_a_view_that_steps_back_alone_comes_back(tool, screen):
    """A Ctrl-Z that stopped only the view, or whose SIGCONT came before: neither is the view left stopped nor the terminal idle."""
    s = screen(100, 30)
    s.line("clear; " + live(*ticking(tool.folder)))
    s.wait(r"^ hiwater .*every 1 s")
    expect_running(tool.folder, more=1)
    view = view_of(parent_of(int((tool.folder / "pid").read_text())))
    os.kill(view, signal.SIGTSTP)
    wait_for(lambda: s.value("alternate_on") == "0", "the view steps back")
    wait_for(lambda: s.value("alternate_on") == "1", "and comes back")
    s.wait(r"^ hiwater .*every 1 s")
    s.keys("q")
    wait_for(lambda: s.value("alternate_on") == "0", "keys are read")
    s.keys("C-c")


def test_live_lines_go_on_beside_a_job_that_heeds_no_ctrl_z(tool, screen):
    """No process would send the view a SIGCONT."""
    s = screen(100, 30)
    s.line("clear; " + live("sh", "-c", f"'trap : TSTP; echo $$ > {tool.folder}/pid; while :; do sleep 0.1; done'"))
    s.wait(r"^ hiwater .*every 1 s")
    view = view_of(parent_of(int((tool.folder / "pid").read_text())))
    s.keys("p")
    s.wait("^plain lines: p and Enter")
    s.keys("C-z")
    s.line("p")
    s.wait(r"^ hiwater .*every 1 s")
    assert pathlib.Path(f"/proc/{view}/stat").read_text().rpartition(")")[2].split()[0] != "T"
    s.keys("C-c")
    wait_for(lambda: s.value("alternate_on") == "0", "the view is over")


def test_live_a_report_is_written_beside_a_job_that_heeds_no_ctrl_z(tool, screen):
    """It takes until the test ends it. No process would continue what Ctrl-Z stopped then."""
    folder = tool.folder / "bin"
    folder.mkdir()
    shutil.copy(HIWATER, folder / "hiwater-itself")
    shutil.copy(pathlib.Path(HIWATER).with_name("hiwater-top"), folder)
    (folder / "hiwater").write_text(f"#!/bin/sh\necho $$ >{folder}/new && mv {folder}/new {folder}/pid\n"
                                    f"while [ ! -e {folder}/go ]; do sleep 0.1; done\necho run.html\n")
    (folder / "hiwater").chmod(0o755)
    s = screen(100, 30)
    s.line("clear; " + live("sh", "-c", "'trap : TSTP; while :; do sleep 0.1; done'").replace(HIWATER, str(folder / "hiwater-itself"), 1))
    s.wait(r"^ hiwater .*every 1 s")
    s.keys("w")
    wait_for(lambda: (folder / "pid").exists(), "the report has begun")
    s.keys("C-z")
    s.wait(r"^ hiwater .*every 1 s")
    (folder / "go").touch()
    s.wait("^ written: run.html")
    s.keys("C-c")
    wait_for(lambda: s.value("alternate_on") == "0", "the view is over")


def test_live_leaves_other_streams_alone(tool, screen):
    s = screen(100, 30)
    s.line(f"clear; echo in | {live('sh', '-c', TALKER.replace('echo out', 'cat; echo out'))} > out.txt 2> err.txt; echo status=$?")
    s.wait(r"^ hiwater .*every 1 s")
    s.wait("^status=3")
    folder = pathlib.Path(s.value("pane_current_path"))
    assert (folder / "out.txt").read_text() == "in\nout 1\nout 2\nout 3\nout 4\n"
    assert (folder / "err.txt").read_text().startswith("err 1\nerr 2\nerr 3\nerr 4\n")
    (folder / "out.txt").unlink()
    (folder / "err.txt").unlink()


def test_live_without_a_terminal(tool):
    done = tool.run("run", "--live", "--summary", "none", "--", "echo", "there", start_new_session=True)
    assert (done.returncode, done.stdout) == (0, "there\n") and "no terminal" in done.stderr
    done = tool.run("run", "--live", "--no-record", "--", "echo", "there")
    assert (done.returncode, done.stdout) == (125, "") and "--no-record" in done.stderr


@pytest.fixture
def unread(tool):
    """run --live of a script in a terminal that only the test reads, and the end of that terminal."""
    begun = []

    def begin(script):
        ours, its = os.openpty()
        run = subprocess.Popen([HIWATER, "run", "--live", "--summary", "none", "--gpu", "none", "--", "sh", "-c", script], stdin=its, stdout=its,
                               stderr=subprocess.PIPE, text=True, cwd=tool.folder, env={**tool.env, "TMPDIR": str(tool.folder), "TERM": "xterm"},
                               start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(its)
        begun.append((run, ours))
        return run, ours

    yield begin
    for run, ours in begun:
        run.kill()
        os.close(ours)
        run.communicate()


NUMBERS = [str(i) for i in range(1, 100001)]


def expect_kept(tool, err):
    [kept] = tool.folder.glob("hiwater-live-*")
    assert f"did not accept all output; the output is in {kept}" in err
    assert kept.read_text().splitlines() == NUMBERS


def test_live_what_the_terminal_does_not_take_is_kept(tool, unread):
    """The job's output stays in a file, which stderr names."""
    run, _ = unread("seq 100000; exit 3")
    _, err = run.communicate(timeout=60)
    assert run.returncode == 3
    expect_kept(tool, err)


def test_live_a_terminal_that_nobody_reads_is_waited_for_until_somebody_asks_to_end(tool, unread):
    run, _ = unread("seq 100000; echo $$ >pid.new; mv pid.new pid; exit 3")
    pid = tool.folder / "pid"
    wait_for(pid.exists, "the job has printed")
    wait_for(lambda: state_of(int(pid.read_text())) is None, "the job is reaped")
    run.terminate()
    began = time.monotonic()
    _, err = run.communicate(timeout=60)
    assert time.monotonic() - began < 4
    assert run.returncode == 3
    expect_kept(tool, err)


def test_live_a_terminal_that_is_read_now_and_then_has_everything_once(tool, unread):
    """The view is left, and the job prints more than the terminal has room for."""
    run, ours = unread("while [ ! -e left ]; do sleep 0.1; done; seq 9999; while [ ! -e read ]; do sleep 0.1; done; exit 3")
    read = b""

    def read_until(text, most):
        nonlocal read
        while text not in read:
            read += os.read(ours, most)

    read_until(b"every 1 s", 1000)
    os.write(ours, b"q")
    read_until(b"\033[?1049l", 1000)
    (tool.folder / "left").touch()
    read_until(b"\n2000\r", 100)
    (tool.folder / "read").touch()
    read_until(b"\n9999\r\n", 1000)
    _, err = run.communicate(timeout=60)
    assert (run.returncode, err) == (3, "")
    assert re.findall(r"(\d+)\r\n", read.decode().rpartition("\033[?1049l")[2]) == NUMBERS[:9999]
    assert not list(tool.folder.glob("hiwater-live-*"))

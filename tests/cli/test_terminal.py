# SPDX-License-Identifier: MIT
"""In a terminal: the keys, job control, hang-ups, a TTY that stays one."""
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios

import pytest
from cli_helpers import DEADLINE, HIWATER, processes, state_of, wait_for


class Terminal:
    """A program as the leader of a session with a pseudo terminal."""

    def __init__(self, tool, argv, columns=80):
        self.out = b""
        pid, self.fd = pty.fork()
        if pid == 0:
            try:
                os.chdir(tool.folder)
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
                for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGHUP):
                    signal.signal(number, signal.SIG_DFL)
                os.execve(argv[0], argv, tool.env)
            finally:
                os._exit(99)
        self.pid = pid
        self.status = None
        os.set_blocking(self.fd, False)

    def type(self, text):
        os.write(self.fd, text.encode())

    def read(self):
        """All that was printed so far."""
        try:
            while True:
                piece = os.read(self.fd, 65536)
                if not piece:
                    break
                self.out += piece
        except (BlockingIOError, OSError):
            pass
        return self.out.decode(errors="replace")

    def wait_text(self, pattern, n=1):
        return wait_for(lambda: len(re.findall(pattern, self.read())) >= n and self.out, f"{n} x {pattern!r} on the terminal")

    def resume(self):
        """fg; returns when the job has the terminal and goes on."""
        self.type("fg\n")
        group = wait_for(lambda: os.tcgetpgrp(self.fd) not in (self.pid, 0) and os.tcgetpgrp(self.fd), "the job has the terminal")
        wait_for(lambda: state_of(group) != "T", "the job goes on")

    def poll(self):
        self.read()
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
        return self.status is not None

    def wait(self):
        """How it ended, as subprocess would say it."""
        wait_for(self.poll, f"the end of {self.pid}", DEADLINE)
        self.read()
        return os.waitstatus_to_exitcode(self.status)

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        if not self.poll_quietly():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def poll_quietly(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
        return self.status is not None


@pytest.fixture
def terminal(tool):
    opened = []

    def start(*argv, **options):
        opened.append(Terminal(tool, [str(a) for a in argv], **options))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.fixture
def shell(terminal):
    """An interactive bash; its prompt is %N%, N being the last exit status."""
    one = terminal("/bin/bash", "--norc", "--noprofile", "-i")
    one.type("PS1='%''$?%'; bind 'set enable-bracketed-paste off'\n")
    one.wait_text(r"%0%")
    return one


@pytest.mark.parametrize("key, number", [("\x03", signal.SIGINT), ("\x1c", signal.SIGQUIT)], ids=["Ctrl-C", "Ctrl-backslash"])
def test_keys_reach_the_job_once(shell, tool, key, number):
    counter = tool.counter()
    shell.type(" ".join([HIWATER, "run", "--", *counter.command()]) + "\n")
    job = counter.wait_ready()
    hiwater = int(next(l.split()[1] for l in open(f"/proc/{job}/status", encoding="ascii") if l.startswith("PPid")))
    name = number.name.removeprefix("SIG")
    for i in range(1, 6):
        shell.type(key)
        counter.wait_got(name, i)
        os.kill(hiwater, signal.SIGUSR2)
        counter.wait_got("USR2", i)
    assert [line[1] for line in counter.got(name)] == ["KERNEL"] * 5
    counter.finish()
    shell.wait_text(r"%0%", 2)


@pytest.mark.parametrize("key, code", [("\x03", 130), ("\x1c", 131)], ids=["Ctrl-C", "Ctrl-backslash"])
def test_keys_end_an_ordinary_job(shell, tool, key, code):
    shell.type(f"{HIWATER} run -- sh -c 'echo rea\"\"dy; exec sleep 1000'\n")
    shell.wait_text(r"\bready")
    shell.type(key)
    shell.wait_text(f"%{code}%")
    assert "hiwater" in shell.read().partition("ready")[2]
    assert not list(tool.folder.glob("core*"))


def test_ctrl_z_and_fg(shell, tool):
    """The shell sees hiwater stopped and gets the terminal; fg lets both go on."""
    counter = tool.counter()
    shell.type(" ".join([HIWATER, "run", "--", *counter.command()]) + "\n")
    job = counter.wait_ready()
    for i in range(1, 4):
        shell.type("\x1a")
        shell.wait_text(r"%148%", i)
        assert state_of(job) == "T"
        assert len(counter.got("TSTP")) == i
        shell.type("fg\n")
        counter.wait_got("CONT", i)
        wait_for(lambda: state_of(job) != "T", "the job goes on")
    shell.type("\x03")
    counter.wait_got("INT")
    counter.finish()
    shell.wait_text(r"%0%", 2)
    assert len(counter.got("CONT")) == 3
    assert len(counter.got("INT")) == 1


def test_ctrl_z_and_fg_of_an_ordinary_job(shell):
    shell.type(f"{HIWATER} run -- sh -c 'echo rea\"\"dy; exec sleep 1000'\n")
    shell.wait_text(r"\bready")
    shell.type("\x1a")
    shell.wait_text(r"%148%")
    shell.type("jobs\n")
    shell.wait_text(r"Stopped.*run -- sh -c")
    shell.resume()
    shell.type("\x03")
    shell.wait_text(r"%130%")


def test_ctrl_z_while_the_command_is_looked_for(shell, tool):
    """A child that stopped on the way to its exec, for which hiwater waits, would hang the terminal. The way is made long: 60,000
    times a folder behind many links; were the key late all the same, it would stop the command."""
    for link, target in (("a", "b/b/b"), ("b", "c/c/c"), ("c", "d/d"), ("d", ".")):
        (tool.folder / link).symlink_to(target)
    script = tool.folder / "far"
    script.write_text(f"PATH=$(printf 'a:%.0s' {{1..60000}})$PATH\nexec {HIWATER} run --no-record -- sh -c 'echo rea\"\"dy; sleep 0.3'\n")

    def on_the_way():
        """hiwater and its child, which is no command yet."""
        called = {pid: parent for pid, name, _, parent, _ in processes() if name == "hiwater"}
        return any(parent in called and called[parent] == shell.pid for parent in called.values())
    shell.type("bash far\n")
    wait_for(lambda: on_the_way() or "ready" in shell.read(), "the child looks for the command")
    shell.type("\x1a")
    shell.wait_text(r"%148%")
    shell.resume()
    shell.wait_text("ready")  # it may stand right behind the key's ^Z
    shell.wait_text(r"%0%", 2)


def test_ctrl_z_and_bg(shell, tool):
    counter = tool.counter()
    shell.type(" ".join([HIWATER, "run", "--", *counter.command()]) + "\n")
    job = counter.wait_ready()
    shell.type("\x1a")
    shell.wait_text(r"%148%")
    shell.type("bg\n")
    shell.wait_text(r"%0%", 2)
    counter.wait_got("CONT")
    wait_for(lambda: state_of(job) != "T", "the job goes on")
    counter.finish()
    shell.type("wait\n")
    shell.wait_text(r"%0%", 3)


def test_a_job_that_ignores_ctrl_z_goes_on(shell):
    shell.type(f"{HIWATER} run -- sh -c 'trap \"\" TSTP; echo rea\"\"dy; read x; echo go\"\"t $x; exit 6'\n")
    shell.wait_text(r"\bready")
    shell.type("\x1a")
    shell.type("word\n")
    shell.wait_text(r"\bgot word")
    shell.wait_text(r"%6%")


def test_a_job_that_stops_itself_gives_the_terminal_back(shell):
    """As programs do that read Ctrl-Z as a key: only they are stopped."""
    shell.type(f"{HIWATER} run -- sh -c 'kill -TSTP $$; exit 6'\n")
    shell.wait_text(r"%148%")
    shell.type("fg\n")
    shell.wait_text(r"%6%")


def test_a_nested_run_stops_too(shell):
    shell.type(f"{HIWATER} run -- {HIWATER} run -- sh -c 'echo rea\"\"dy; exec sleep 1000'\n")
    shell.wait_text(r"\bready")
    shell.type("\x1a")
    shell.wait_text(r"%148%")
    shell.resume()
    shell.type("\x03")
    shell.wait_text(r"%130%")


def test_the_job_reads_the_terminal(shell):
    shell.type(f"{HIWATER} run -- sh -c 'test -t 0 && test -t 1 && test -t 2 && read x && echo go\"\"t $x; exit 8'\n")
    shell.type("word\n")
    shell.wait_text(r"\bgot word")
    shell.wait_text(r"%8%")


def test_hang_up_where_hiwater_leads_the_session(terminal, tool):
    """The kernel sends SIGHUP and SIGCONT to the leader alone."""
    counter = tool.counter()
    one = terminal(HIWATER, "run", "--", *counter.command())
    counter.wait_ready()
    os.close(one.fd)
    one.fd = -1
    counter.wait_got("HUP")
    counter.wait_got("CONT")
    os.kill(one.pid, signal.SIGUSR2)
    counter.wait_got("USR2")
    assert len(counter.got("HUP")) == 1
    assert len(counter.got("CONT")) == 1
    counter.finish()
    wait_for(one.poll_quietly, "hiwater's end")
    assert os.waitstatus_to_exitcode(one.status) == 0


def test_hang_up_ends_an_ordinary_job(terminal, tool):
    one = terminal(HIWATER, "run", "--json", "out.json", "--", "sh", "-c", "echo ready; exec sleep 1000")
    one.wait_text("ready")
    os.close(one.fd)
    one.fd = -1
    wait_for(one.poll_quietly, "hiwater's end")
    assert os.waitstatus_to_exitcode(one.status) == -signal.SIGHUP
    assert (tool.folder / "out.json").exists()


def test_hang_up_under_a_shell(terminal, tool):
    counter = tool.counter()
    one = terminal("/bin/bash", "--norc", "--noprofile", "-i")
    one.type(" ".join([HIWATER, "run", "--", *counter.command()]) + "\n")
    job = counter.wait_ready()
    hiwater = int(next(l.split()[1] for l in open(f"/proc/{job}/status", encoding="ascii") if l.startswith("PPid")))
    os.close(one.fd)
    one.fd = -1
    counter.wait_got("HUP")
    wait_for(one.poll_quietly, "the shell's end")
    os.kill(hiwater, signal.SIGUSR2)
    counter.wait_got("USR2")
    # The shell tells its jobs; when it ends, the kernel tells the foreground group. Two at most, as without hiwater.
    assert 1 <= len(counter.got("HUP")) <= 2
    counter.finish()
    wait_for(lambda: state_of(hiwater) in (None, "Z"), "hiwater's end")


def test_window_changes_reach_the_job_once(terminal, tool):
    counter = tool.counter()
    one = terminal(HIWATER, "run", "--", *counter.command())
    counter.wait_ready()
    os.kill(one.pid, signal.SIGUSR2)
    counter.wait_got("USR2")
    before = len(counter.got("WINCH"))
    for i in range(1, 6):
        fcntl.ioctl(one.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80 + i, 0, 0))
        counter.wait_got("WINCH", before + i)
        os.kill(one.pid, signal.SIGUSR2)
        counter.wait_got("USR2", 1 + i)
    assert len(counter.got("WINCH")) == before + 5
    counter.finish()
    assert one.wait() == 0


def test_colour_on_a_terminal_only_unless_unwanted(terminal, tool):
    one = terminal(HIWATER, "run", "--", "true")
    assert one.wait() == 0
    assert "\x1b[" in one.read()
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        before = dict(tool.env)
        tool.env[name] = value
        one = terminal(HIWATER, "run", "--", "true")
        assert one.wait() == 0
        assert "\x1b" not in one.read(), name
        tool.env = before


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal(terminal, columns):
    one = terminal(HIWATER, "run", "--", sys.executable, "-c", "x = bytearray(30_000_000)", columns=columns)
    assert one.wait() == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", one.read()).splitlines()
    assert any("hiwater" in line for line in lines)
    assert max(map(len, lines)) <= columns


def test_a_terminal_with_little_room_that_nobody_reads(tool):
    """It counts as writable, and a write of more than there is room for would wait for ever."""

    def fill(fd, most):
        taken = 0
        os.set_blocking(fd, False)
        with contextlib.suppress(BlockingIOError):
            while taken < most:
                taken += os.write(fd, b"x" * min(100, most - taken))
        os.set_blocking(fd, True)
        return taken

    # How much one takes depends on what the kernel has passed on by then, so two are not always alike.
    for _ in range(100):
        first, second = os.openpty(), os.openpty()
        fill(second[1], fill(first[1], 1 << 20) - 100)
        if select.select([], [second[1]], [], 0)[1]:
            break
        for fd in first + second:
            os.close(fd)
    else:
        raise AssertionError("no terminal with room for 100 bytes")
    process = tool.start("run", "--summary-file", "summary", "--", "sh", "-c", "exit 3", stderr=second[1])
    try:
        assert process.wait(30) == 3
        assert os.get_blocking(second[1]), "others write there, too"
        assert "RAM" in (tool.folder / "summary").read_text()
    finally:
        process.kill()
        for fd in first + second:
            os.close(fd)

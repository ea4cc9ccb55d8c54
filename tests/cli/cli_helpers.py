# SPDX-License-Identifier: MIT
"""Helpers for tests of the command. HIWATER is the binary, build/hiwater without it."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import sys
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HIWATER = str(pathlib.Path(os.environ.get("HIWATER", ROOT / "build" / "hiwater")).resolve())
COUNTER = str(HERE / "counter.py")
DEADLINE = 30  # seconds; a condition that does not come true by then never will


def fill(disk):
    """A file, filler, takes all that is left."""
    with contextlib.suppress(OSError), open(disk / "filler", "wb", buffering=0) as filler:
        while filler.write(b"x" * 4096):
            pass


def wait_for(condition, what, deadline=DEADLINE):
    """Waits until condition() is true; its value."""
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"after {deadline} s still not: {what}")
        time.sleep(0.005)


def processes():
    """What /proc says of everybody: a list of (pid, name, state, ppid, pgrp)."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text(errors="replace")  # a name may be any bytes
        except OSError:
            continue
        name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
        found.append((int(entry.name), name, rest[0], int(rest[1]), int(rest[2])))
    return found


def state_of(pid):
    """R, S, T, Z ...; None if there is no such process."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def ended(pid):
    return state_of(pid) in (None, "Z")


def numbers_of(text):
    return [int(n) for n in re.findall(r"\d+", text)]


class Counter:
    """A job that writes a line for each signal that reaches it; see counter.py."""

    def __init__(self, folder, name="counter"):
        self.log = folder / f"{name}.log"
        self.stop = folder / f"{name}.stop"

    def command(self, *options):
        return [sys.executable, COUNTER, str(self.log), str(self.stop), *options]

    def lines(self):
        try:
            return self.log.read_text().splitlines()
        except FileNotFoundError:
            return []

    def wait_ready(self):
        """The job's pid, once it counts."""
        line = wait_for(lambda: [l for l in self.lines() if l.startswith("ready")], "the job is ready")[0]
        return int(line.split()[1])

    def got(self, name):
        """The lines about one signal: (name, code, value)."""
        return [l.split() for l in self.lines() if l.split()[0] == name]

    def wait_got(self, name, n=1):
        return wait_for(lambda: len(self.got(name)) >= n and self.got(name), f"{n} x {name} at the job")

    def finish(self):
        self.stop.touch()


class Tool:
    """Runs hiwater; what is left at the end of a test is ended by pid."""

    def __init__(self, folder):
        self.folder = folder
        self.history = folder / "history"
        self.started = []
        self.env = {k: v for k, v in os.environ.items()
                    if not re.match(r"(HIWATER(?!_TRACE_LIBRARY)|SLURM|PMI|OMPI|TORCHELASTIC|WORLD_SIZE|NO_COLOR|CLICOLOR|COLUMNS|ACCESSIBLE|LC_|RANK|LOCAL_RANK)", k)}
        self.env.update(HIWATER_DIR=str(self.history), LANG="C.UTF-8", TERM="xterm")
        # Ranks of made jobs meet here, not with those of another test on this machine.
        runtime = folder.with_name(folder.name + ".runtime")
        runtime.mkdir(mode=0o700, exist_ok=True)
        self.env["XDG_RUNTIME_DIR"] = str(runtime)

    def start(self, *args, group=True, **options):
        """Starts hiwater, in a session of its own unless told otherwise."""
        options.setdefault("env", self.env)
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        process = subprocess.Popen([HIWATER, *map(str, args)], start_new_session=group, cwd=self.folder, **options)
        self.started.append(process)
        return process

    def run(self, *args, env=None, **options):
        """Runs hiwater to its end; stdout and stderr as text."""
        options.setdefault("stdin", subprocess.DEVNULL)
        if not {"stdout", "stderr"} & set(options):
            options["capture_output"] = True
        full = dict(self.env, **(env or {}))
        return subprocess.run([HIWATER, *map(str, args)], env=full, cwd=self.folder, text=True, errors="surrogateescape",
                              **{"timeout": 2 * DEADLINE, **options})

    def counter(self, name="counter"):
        return Counter(self.folder, name)

    def end_all(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()
            process.wait(DEADLINE)
        for log in self.folder.glob("*.log"):
            for line in log.read_text().splitlines():
                if line.startswith("ready"):
                    end_job(int(line.split()[1]))


def end_job(pid):
    """Ends a job of ours that hiwater left behind: only if it is one."""
    try:
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return
    if COUNTER.encode() in command:
        os.kill(pid, signal.SIGKILL)


def as_nobody(*paths):
    """What to put before a command for another user to run it; the paths are opened for everybody."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("cannot become another user")
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
    if subprocess.run([*prefix, "test", "-x", HIWATER], check=False).returncode:
        pytest.skip("this build is not for another user to run")
    for path in map(pathlib.Path, paths):
        path.chmod(0o777)
        for above in path.parents:
            if above == pathlib.Path(tempfile.gettempdir()) or above == pathlib.Path("/"):
                break
            above.chmod(above.stat().st_mode | 0o011)
    return prefix

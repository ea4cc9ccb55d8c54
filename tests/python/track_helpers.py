# SPDX-License-Identifier: MIT
"""Programs that measure themselves, run as separate processes. HIWATER is the command,
build/hiwater by default."""
import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = str(pathlib.Path(os.environ.get("HIWATER", ROOT / "build" / "hiwater")).resolve())
CORE = str(pathlib.Path(COMMAND).with_name("_core.abi3.so"))  # the package's C extension
DEADLINE = 60
MIB = 1 << 20

PRELUDE = f"""
import json, os, pathlib, signal, sys, threading, time
import hiwater
MIB = 1 << 20
FOLDER = pathlib.Path(os.environ["TEST_FOLDER"])

def fill(mib):
    'Memory that is really there, gone again with its last reference.'
    block = bytearray(mib * MIB)
    block[::4096] = b"x" * len(block[::4096])
    return block

def tell(**values):
    'What the test gets; stdout is not used.'
    with open(FOLDER / "told.json", "a") as f:
        f.write(json.dumps(values) + "\\n")

def recorders(pid=None):
    'Pids of the recorders of this process.'
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\\0")
            except OSError:
                continue
            if b"--control" in words and words[-2] == str(pid or os.getpid()).encode():
                found.append(int(entry.name))
    return found
"""


def wait_for(condition, what, deadline=DEADLINE):
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"after {deadline} s still not: {what}"
        time.sleep(0.01)


def recorders_of(pid):
    scope = {}
    exec(PRELUDE.split("def recorders")[0].split("import hiwater")[0] + "def recorders" + PRELUDE.split("def recorders")[1], scope)
    return scope["recorders"](pid)


def texts(file, kind):
    """The texts of the events of a kind in a recording."""
    with sqlite3.connect(file) as c:
        return [t for (t,) in c.execute("SELECT text FROM event WHERE kind = ? ORDER BY rowid", [kind])]


def ended_recording(program, process):
    """The summary, once no recorder measures the process any more."""
    wait_for(lambda: not recorders_of(process.pid), "the recorder has ended")
    return program.shown("a.hiw")


def pythons():
    """Every CPython from 3.9 on that this machine has."""
    found = {}
    homes = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")) / "versions"
    for path in [*homes.glob("3.*/bin/python3"), *pathlib.Path("/usr/bin").glob("python3.?*"), pathlib.Path(sys.executable)]:
        said = subprocess.run([path, "-c", "import sys, sqlite3; print(*sys.version_info[:2])"], capture_output=True, text=True,
                              check=False) if re.fullmatch(r"python3?(\.\d+)?", path.name) else None
        if said and said.returncode == 0 and [int(n) for n in said.stdout.split()] >= [3, 9]:
            found[said.stdout] = path
    return list(found.values())


class Program:
    """A Python program that imports hiwater, in a separate folder."""

    def __init__(self, folder):
        self.folder = folder
        keep = {k: v for k, v in os.environ.items() if not re.match(r"(HIWATER|SLURM|PMI|OMPI|RANK|LOCAL_RANK|COLUMNS|NO_COLOR)", k)}
        self.env = {**keep, "HIWATER_COMMAND": COMMAND, "HIWATER_CORE": CORE, "HIWATER_DIR": str(folder / "history"), "TEST_FOLDER": str(folder),
                    "PYTHONPATH": str(ROOT / "python"), "LANG": "C.UTF-8"}
        self.started = []

    def _file(self, text):
        file = self.folder / f"program{len(list(self.folder.glob('program*.py')))}.py"
        file.write_text(PRELUDE + textwrap.dedent(text))
        return file

    def start(self, text, *prefix, interpreter=(sys.executable,), **options):
        process = subprocess.Popen([*prefix, *interpreter, self._file(text)], env=self.env, cwd=self.folder,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   **options)
        self.started.append(process)
        return process

    def run(self, text, *prefix, status=0, quiet=True):
        """Runs the program to its end; returns the JSON lines of tell(). stdout must be empty, and
        stderr unless quiet is False."""
        process = self.start(text, *prefix)
        stdout, self.stderr = process.communicate(timeout=2 * DEADLINE)
        assert process.returncode == status, self.stderr
        assert stdout == ""
        assert not quiet or self.stderr == ""
        return self.told()

    def told(self):
        file = self.folder / "told.json"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def hiwater(self, *arguments):
        return subprocess.run([COMMAND, *map(str, arguments)], env=self.env, cwd=self.folder, capture_output=True, text=True,
                              timeout=DEADLINE, check=True).stdout

    def shown(self, name):
        """The summary of a recording in the folder."""
        return json.loads(self.hiwater("show", "--json", self.folder / name))

    def end_all(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            for pid in recorders_of(process.pid):  # first, because a stopped recorder keeps its stderr open
                os.kill(pid, signal.SIGKILL)
            process.communicate()

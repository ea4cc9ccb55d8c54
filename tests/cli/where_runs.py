# SPDX-License-Identifier: MIT
"""What the tests of `hiwater run --where` share: the job of where_job.c in several builds, runs of it, and the answer of `hiwater where
RUN --json`. What is true comes from the job, by construction."""
import ctypes
import errno
import json
import os
import pathlib
import re
import struct
import subprocess
import sys

import pytest
from cli_helpers import HERE, HIWATER, as_nobody

MIB = 1 << 20
HOLD = "hold 800".split()  # ms; several samples of memory, which come each 100 ms, also on a busy machine
CAP_SYS_ADMIN, CAP_PERFMON = 21, 38
BUILDS = {
    "usual": ["-O1", "-g"],
    "O2": ["-O2"],
    "no-frame-pointer": ["-O2", "-fomit-frame-pointer"],
    "static": ["-O2", "-static", "-DNO_DLOPEN"],
    "static-pie": ["-O2", "-static-pie", "-DNO_DLOPEN"],
    "stripped": ["-O2", "-s"],
    "static-stripped": ["-O2", "-static", "-DNO_DLOPEN", "-s"],
}


def can_sample():
    """None, or the error of opening an event of page faults."""
    attributes = bytearray(120)
    struct.pack_into("IIQ", attributes, 0, 1, len(attributes), 2)  # software, page faults
    struct.pack_into("Q", attributes, 40, 1 << 5)  # exclude_kernel
    call = ctypes.CDLL(None, use_errno=True).syscall
    number = {"x86_64": 298, "aarch64": 241}.get(os.uname().machine)
    if number is None:
        return "not on this architecture"
    fd = call(number, (ctypes.c_char * len(attributes)).from_buffer(attributes), 0, -1, -1, 0)
    if fd < 0:
        return errno.errorcode[ctypes.get_errno()]
    os.close(fd)
    return None


def sees_the_kernels_faults():
    """Whether this user's events include the faults inside system calls."""
    status = pathlib.Path("/proc/self/status").read_text()
    effective = int(re.search(r"CapEff:\s*(\w+)", status)[1], 16)
    paranoid = int(pathlib.Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    return paranoid <= 1 or bool(effective & (1 << CAP_PERFMON | 1 << CAP_SYS_ADMIN))


def compile_job(folder, build="usual", name=None):
    """The job, for any user to run."""
    path = folder / (name or f"job-{build}")
    line = ["cc", "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", *BUILDS[build], "-o", path, HERE / "where_job.c", "-ldl", "-lpthread"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode and "static" in build:
        pytest.skip("no static libraries to link with")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    folder.chmod(0o755)
    return str(path)


def compile_library(folder):
    path = folder / "libtouches.so"
    line = ["cc", "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-DLIBRARY", "-shared", "-fPIC", "-o", path, HERE / "where_job.c"]
    subprocess.run(line, check=True)
    return path


def mib(size):
    return size / MIB


class Where:
    """An answer of `hiwater where --json`, whose parts are checked to be the whole."""

    def __init__(self, text, result=None):
        self.json = json.loads(text)
        self.result = result  # of the run
        self.rows, self.stacks, self.files = self.json["rows"], self.json["stacks"], self.json["files"]
        self.peak, self.unsampled, self.in_files = (self.json[key] for key in ("peak_bytes", "unsampled_bytes", "files_bytes"))
        parts = sum(row["bytes"] for row in self.rows) + self.in_files + self.unsampled + self.json.get("before_bytes", 0)
        assert parts == self.peak, f"{parts} is not {self.peak}: {self}"
        assert all(row["bytes"] >= 0 and row["total_bytes"] >= row["bytes"] for row in self.rows), str(self)
        assert min(self.unsampled, self.in_files, self.json["lost"]) >= 0, str(self)
        # On a busy machine records are lost: they are nobody's.
        self.lost = mib(self.json["lost"] * self.json["sample_bytes"])

    def __str__(self):
        head = {key: self.json[key] for key in ("at_s", "lost")}
        rows = ", ".join(f"{row['function']} {mib(row['bytes']):.1f} ({row['samples']})" for row in self.rows[:12])
        return (f"peak {mib(self.peak):.1f} MiB, unsampled {mib(self.unsampled):.1f}, files {mib(self.in_files):.1f}, {head}: {rows}")

    def of(self, function):
        """MiB of all rows of this function."""
        return mib(sum(row["bytes"] for row in self.rows if row["function"] == function))

    def others(self, *functions):
        """MiB of all rows but those of these functions."""
        return mib(sum(row["bytes"] for row in self.rows if row["function"] not in functions))

    def row(self, function):
        return max((row for row in self.rows if row["function"] == function), key=lambda row: row["bytes"])

    def stacks_of(self, function):
        """The stacks that this function is in, the largest first."""
        return sorted((s for s in self.stacks if any(called(frame, function) for frame in s["frames"])), key=lambda s: -s["bytes"])

    def is_near(self, function, truth, share=0.03, slack=2.0):
        """Slack, in MiB, is eight samples of 64 faults: of those that are lost, and at the edges of mappings."""
        least, most = truth - truth * share - slack - self.lost, truth + truth * share + slack
        assert least <= self.of(function) <= most, f"{function}: {self.of(function):.1f} of {truth} MiB: {self}"

    def agrees(self, truth, share=0.03, slack=2.0, rest=3.0):
        """Each function has its MiB; what is left is the C library's and the program's own."""
        for function, size in truth.items():
            self.is_near(function, size, share, slack)
        whole = sum(truth.values())
        left = self.others(*truth) + mib(self.unsampled + self.in_files)
        assert left <= whole * share + rest + self.lost, f"{left:.1f} MiB on others: {self}"
        assert whole - 1 <= mib(self.peak) <= whole + 8, f"the job has {whole} MiB: {self}"


def called(frame, function):
    """Whether a frame is of this function, however it is decorated."""
    return re.search(rf"(?<!\w){re.escape(function)}(?!\w)", frame) is not None


def in_order(frames, *functions):
    """Whether the frames have these functions, the outermost first."""
    rest = iter(frames)
    return all(any(called(frame, function) for frame in rest) for function in functions)


class Runs:
    """Runs jobs with --where and reads what is recorded; as another user if there is a prefix."""

    def __init__(self, tool, job, prefix=(), who="self"):
        self.tool, self.job, self.prefix, self.who = tool, job, [*prefix], who
        self.kernel = who == "self" and sees_the_kernels_faults()
        self.env = dict(tool.env)
        self.made = 0
        if prefix:
            runtime = tool.folder / "runtime"
            runtime.mkdir(exist_ok=True)
            runtime.chmod(0o777)
            self.env["XDG_RUNTIME_DIR"] = str(runtime)

    def command(self, *words, option="--where", command=None, options=(), folder=None):
        """A run's command line, and the recording."""
        self.made += 1
        path = (folder or self.tool.folder) / f"run{self.made}.hiw"
        where = [option] if option else []
        line = [HIWATER, "run", *where, "-o", path, "--summary", "none", *options, "--", *(command or [self.job]), *words]
        return [*self.prefix, *map(str, line)], path

    def run(self, *words, env=None, timeout=60, **how):
        """The finished run, and the recording."""
        line, path = self.command(*words, **how)
        result = subprocess.run(line, env={**self.env, **(env or {})}, cwd=self.tool.folder, stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, errors="surrogateescape", timeout=timeout, check=False)
        return result, path

    def read(self, path, result=None):
        shown = self.tool.run("where", path, "--json")
        assert shown.returncode == 0, shown.stderr
        return Where(shown.stdout, result)

    def __call__(self, *words, status=0, **how):
        result, path = self.run(*words, **how)
        assert result.returncode == status, result.stderr
        return self.read(path, result)

    def read_when(self, path, condition):
        """The answer if there is one and the condition is true of it; for wait_for."""
        shown = self.tool.run("where", path, "--json")
        if shown.returncode or not shown.stdout.strip():
            return None
        where = Where(shown.stdout)
        return where if condition(where) else None


def sampling():
    """Skips a test where nothing can be sampled."""
    error = can_sample()
    if error:
        pytest.skip(f"page faults cannot be sampled here: {error}")


def nobody_runs(tool, job):
    return Runs(tool, job, as_nobody(tool.folder, job), "nobody")


def pythons(*versions):
    """Interpreters of these minor versions: pyenv's, and those in PATH."""
    found = {}
    for version in versions:
        places = [*pathlib.Path("/root/.pyenv/versions").glob(f"{version}.*/bin/python{version}")] if os.access("/root", os.X_OK) else []
        places += [pathlib.Path(folder) / f"python{version}" for folder in os.environ["PATH"].split(":") if "shims" not in folder]
        found[version] = next((str(p) for p in places if os.access(p, os.X_OK)), None)
    return found


def with_numpy():
    for python in (sys.executable, "python3", "/usr/bin/python3"):
        try:
            if subprocess.run([python, "-c", "import numpy"], capture_output=True, check=False).returncode == 0:
                return python
        except OSError:
            continue
    return None

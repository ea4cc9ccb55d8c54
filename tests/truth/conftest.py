# SPDX-License-Identifier: MIT
"""Runs jobs of known use under hiwater; see workload.c."""
import contextlib
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys

import pytest
import truth_jobs

ROOT = pathlib.Path(__file__).resolve().parents[2]
HIWATER = pathlib.Path(os.environ.get("HIWATER", ROOT / "build" / "hiwater")).resolve()
MB = 1_000_000


TRIES = 3


loose = []  # figures of this try that are right, but far above what was used


def better_be(is_close, text):
    """How close a figure is depends on when samples come, so on the load of the machine: if all else is
    right, the test is run again, TRIES times at most. Whether a bound holds, or is there, does not."""
    if not is_close:
        loose.append(text)


def tight(figure, most_bytes, or_none=False):
    """An upper bound that is not far above what was used."""
    high = figure["high_bytes"]
    assert high is not None or or_none, figure
    better_be(high is None or high <= most_bytes + figure["huge_bytes"],  # huge pages of others may be the job's
              f"high bound {high and high / MB} MB, at most {most_bytes / MB:.0f} wanted: {figure}")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    for _ in range(TRIES):
        loose.clear()
        pyfuncitem.obj(**arguments)
        if not loose:
            return True
        print("\n".join(loose))
    pytest.fail("; ".join(loose))


@pytest.fixture(scope="session")
def workload(tmp_path_factory):
    program = tmp_path_factory.mktemp("workload") / "workload"
    subprocess.run(["cc", "-O1", "-o", program, ROOT / "tests" / "truth" / "workload.c"], check=True)
    program.parent.chmod(0o755)
    for parent in program.parents:  # an unprivileged user must be able to reach it
        if parent.owner() != pathlib.Path("/").owner() or parent == pathlib.Path("/"):
            break
        parent.chmod(parent.stat().st_mode | 0o011)
    return program


def huge_bytes():
    """Memory that the machine has in huge pages now; an upper bound must count all of it, because
    its owners are unknown."""
    counts = dict(line.split() for line in pathlib.Path("/proc/vmstat").read_text().splitlines())
    size = pathlib.Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
    pages = sum(int(counts.get(name, 0)) for name in ("thp_fault_alloc", "thp_collapse_alloc"))
    return pages * int(size.read_text()) if size.exists() else 0


def unprivileged(command):
    """The same without root: no exit records, no access to other users' processes."""
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", *command]


class Runner:
    """Runs a command under hiwater and returns its JSON summary."""

    def __init__(self, folder, rights):
        self.folder = folder
        self.rights = rights

    def facts(self, *names):
        """The meta table of the last recording."""
        if not (self.folder / "run.hiw").exists():
            return {}
        with contextlib.closing(sqlite3.connect(f"file:{self.folder / 'run.hiw'}?mode=ro", uri=True)) as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
                return {}
            rows = database.execute("SELECT key, value FROM meta").fetchall()
        return {key: int(value) for key, value in rows if key in names}

    def show(self):
        """The summary that `show` prints of the last recording, also while it grows."""
        line = [HIWATER, "show", "--json", self.folder / "run.hiw"]
        done = subprocess.run(line, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def __call__(self, *command, options=(), record=False):
        return self.finish(self.start(*command, options=options, record=record, stdin=None))

    def start(self, *command, options=(), record=True, stdin=subprocess.PIPE):
        """Lets the job end by closing its stdin."""
        out = self.folder / "summary.json"
        out.unlink(missing_ok=True)
        keep = ["--output", str(self.folder / "run.hiw")] if record else ["--no-record"]
        line = [str(HIWATER), "run", *keep, "--summary", "none", "--json", str(out), *options, "--",
                *[str(word) for word in command]]
        if self.rights == "user":
            line = unprivileged(line)
        env = dict(os.environ, HIWATER_DIR=str(self.folder / "history"), TMPDIR=str(self.folder))
        self.huge_before = huge_bytes()
        return subprocess.Popen(line, env=env, stdin=stdin)

    def finish(self, process):
        try:
            process.wait(timeout=120)
        finally:
            process.kill()
        summary = json.loads((self.folder / "summary.json").read_text())
        for name in ("main", "descendants", "combined"):
            summary["ram"][name]["gap_s"] = summary["sampling"]["longest_gap_s"]
            summary["ram"][name]["huge_bytes"] = huge_bytes() - self.huge_before
        return summary


# For tests whose jobs the scoreboard runs as root in each `make test`: as root only in full runs.
ROOT_BY_SCOREBOARD = [pytest.param("root", marks=pytest.mark.full), "user"]
scored_as_root = pytest.mark.parametrize("run", ROOT_BY_SCOREBOARD, indirect=True)


@pytest.fixture(params=["root", "user"])
def run(request, tmp_path):
    """Runs each test as root, who gets exit records from the kernel, and as another user."""
    if request.param == "user" and os.geteuid() == 0:
        if not shutil.which("setpriv"):
            pytest.skip("setpriv is not installed: cannot become another user")
        tmp_path.chmod(0o777)
        for parent in tmp_path.parents:
            if parent == pathlib.Path("/tmp") or parent == pathlib.Path("/"):
                break
            parent.chmod(0o755)
    elif request.param == "root" and os.geteuid() != 0:
        pytest.skip("not root: no exit records here")
    return Runner(tmp_path, request.param)


@pytest.fixture(scope="session")
def board():
    """The scoreboard, as a module."""
    loader = importlib.machinery.SourceFileLoader("scoreboard", str(truth_jobs.HERE / "scoreboard"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("scoreboard", loader))
    sys.modules["scoreboard"] = module  # dataclasses need it there
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


@pytest.fixture
def row(board):
    """A row of figures in MB, of a job that uses 100 MB."""
    def made(low, estimate, high, job="job", kind="", status=0, load="quiet", method="bounded"):
        figure = {"low_bytes": low * MB, "peak_bytes": estimate * MB, "high_bytes": None if high is None else high * MB,
                  "method": method, "source": "PSS"}
        result = board.Row(job, kind, "root", load)
        result.take({"ram": {"combined": figure}, "truth": {"bytes": 100 * MB, "least": 98 * MB, "most": 105 * MB, "by": "construction"},
                     "time": {"wall_s": 2.0}, "sampling": {"cpu_s": 0.01, "longest_gap_s": 0.1}, "status": status})
        return result
    return made

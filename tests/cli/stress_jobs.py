# SPDX-License-Identifier: MIT
"""What test_recording.py and test_break.py share: jobs of stress.c, and recordings read with Python's sqlite3."""
import contextlib
import json
import os
import pathlib
import select
import shlex
import sqlite3
import subprocess
import time

import jsonschema
import pytest
from cli_helpers import DEADLINE, HERE, HIWATER, ROOT, Tool, wait_for

BUILD = pathlib.Path(HIWATER).parent
SCHEMA = json.loads((ROOT / "docs" / "summary.schema.json").read_text())
STATUS = 3  # of every job of stress.c


def compile_stress(folder):
    program = folder / "stress"
    subprocess.run(["cc", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-o", program, HERE / "stress.c", "-pthread"], check=True)
    folder.chmod(0o755)
    return program


def compile_small_limit(folder):
    """The command under test with TEST_MAX_BYTES and TEST_WINDOW_NS; see small_limit.c."""
    objects = sorted((BUILD / "hiwater.p").glob("*.o"))
    if not objects or not (BUILD / "libhiwater-internal.a").exists():
        pytest.skip("HIWATER is not in the folder in which it was built")
    options = {o["name"]: o["value"] for o in json.loads((BUILD / "meson-info" / "intro-buildoptions.json").read_text())}
    sanitize = options.get("b_sanitize") or []
    sanitize = [] if sanitize == "none" else sanitize if isinstance(sanitize, list) else sanitize.split(",")
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    compiler = next(shlex.split(c["command"])[:1] for c in commands if c["file"].endswith("cli/main.c"))
    if "ccache" in compiler[0]:
        compiler = ["cc"]
    program = folder / "hiwater-small"
    subprocess.run([*compiler, "-std=gnu17", "-D_GNU_SOURCE", f"-I{ROOT}/src", f"-I{ROOT}/include", "-o", program,
                    HERE / "small_limit.c", *objects, BUILD / "libhiwater-internal.a",
                    "-Wl,--wrap=record_new,--wrap=hwi_recorder_new_part", "-lsqlite3", "-lz", "-lm", "-pthread",
                    *([f"-fsanitize={','.join(sanitize)}"] if sanitize else [])], check=True)
    return program


def valid(text):
    """A summary's JSON, checked against the schema."""
    summary = json.loads(text)
    jsonschema.validate(summary, SCHEMA)
    return summary


def shown(tool, *args):
    done = tool.run("show", "--json", *args)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return valid(done.stdout)


@contextlib.contextmanager
def opened(path, mode="ro"):
    """As any program would open it."""
    db = sqlite3.connect(f"file:{path}?mode={mode}", uri=True, timeout=10)
    try:
        yield db
    finally:
        db.close()


def query(path, sql, *values):
    with opened(path) as db:
        return db.execute(sql, values).fetchall()


def value(path, sql, *values):
    rows = query(path, sql, *values)
    return rows[0][0] if rows else None


def check_integrity(path):
    assert query(path, "PRAGMA integrity_check") == [("ok",)]


def meta(path):
    return dict(query(path, "SELECT key, value FROM meta"))


def accumulators(path, entity="job"):
    """{metric: {n, min, max, sum, span, ...}} of one entity."""
    with opened(path) as db:
        db.row_factory = sqlite3.Row
        return {row["metric"]: dict(row) for row in db.execute("SELECT * FROM summary WHERE entity = ? AND id = 0", (entity,))}


def figures(summary):
    """Every peak, mean and total of a summary: what must not depend on who asks, and when."""
    whole = {key: summary[key] for key in ("command", "host", "started", "exit", "time", "ram", "gpu", "io", "energy",
                                           "swap", "processes", "phases", "series", "marks")}
    return dict(whole, sampling={k: summary["sampling"][k] for k in ("interval_s", "samples", "late_samples", "longest_gap_s")})


class Stress:
    """Starts jobs of stress.c under hiwater."""

    def __init__(self, tool, program):
        self.tool = tool
        self.program = program

    def start(self, options, *job, **more):
        """Started, and the job has said that it is ready."""
        more.setdefault("stdin", subprocess.PIPE)
        process = self.tool.start("run", *options, "--", self.program, *job, **more)
        assert line_of(process.stdout) == b"ready\n"
        return process

    def run(self, options, *job, **more):
        return self.tool.run("run", *options, "--", self.program, *job, **more)


def line_of(stream, deadline=DEADLINE):
    """The next line of an unfinished program's output, as bytes; b"" at its end."""
    line, end = b"", time.monotonic() + deadline
    while not line.endswith(b"\n"):
        if not select.select([stream], [], [], max(0, end - time.monotonic()))[0]:
            raise AssertionError(f"after {deadline} s still no line, but {line!r}")
        byte = os.read(stream.fileno(), 1)
        if not byte:
            break
        line += byte
    return line


def finish(process, deadline=30):
    """Lets a job that waits for the end of stdin end; stdout and stderr of what is left."""
    stdout, stderr = process.communicate(b"", timeout=deadline)
    return stdout.decode(), (stderr or b"").decode(errors="surrogateescape")


def child_of(pid):
    """The job's main process, which hiwater started."""
    def find():
        for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                for child in task.read_text().split():
                    if b"stress" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes():
                        return int(child)
        return None
    return wait_for(find, "the job is there")


def wait_recorded(path, windows=1):
    """Until so many windows are in the recording."""
    def there():
        if not path.exists():
            return False
        with contextlib.suppress(sqlite3.OperationalError):
            return value(path, "SELECT count(*) FROM job_sample") >= windows
        return False
    wait_for(there, f"{windows} windows in {path.name}")


def warnings_of(stderr):
    return [line for line in stderr.splitlines() if "warning" in line.lower()]


class Run:
    """A finished run of stress.c's wave, during which the machine gave out huge bytes in huge pages, whoever took them."""

    def __init__(self, tool, path, done, huge):
        self.tool, self.path, self.done, self.huge = tool, path, done, huge
        self.at_end = valid((tool.folder / "run.json").read_text())
        user, system = map(int, done.stdout.split())
        self.cpu_us = user + system  # what the kernel told the job


def huge_bytes():
    """What the machine has given out in huge pages since it was started."""
    counts = dict(line.split() for line in pathlib.Path("/proc/vmstat").read_text(encoding="ascii").splitlines())
    size = pathlib.Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
    pages = sum(int(counts.get(name, 0)) for name in ("thp_fault_alloc", "thp_collapse_alloc"))
    return pages * int(size.read_text(encoding="ascii")) if size.exists() else 0


def wave(folder, program, binary=HIWATER, env=None, interval="20ms"):
    tool = Tool(folder)
    before = huge_bytes()
    done = subprocess.run([binary, "run", "-i", interval, "-o", "x.hiw", "--json", "run.json", "--", program, "wave", "data"],
                          env=dict(tool.env, **(env or {})), cwd=folder, capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr
    return Run(tool, folder / "x.hiw", done, huge_bytes() - before)


def rights_of_nobody():
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"] if os.geteuid() == 0 else []


def root_only():
    """For what takes rights."""
    if os.geteuid() != 0:
        pytest.skip("not root: no rights")

# SPDX-License-Identifier: MIT
"""run --trace of programs that use OpenCL, on PoCL: what is recorded is what the program itself learned from the runtime, and
the program learns nothing else than without a trace."""
import os
import pathlib
import signal
import sqlite3
import subprocess

import pytest
from cli_helpers import HERE, HIWATER

LAYER = pathlib.Path(os.environ.get("HIWATER_TRACE_LIBRARY") or pathlib.Path(HIWATER).parent / "libhiwater-trace.so")


@pytest.fixture(scope="session")
def job(tmp_path_factory):
    """The compiled opencl_job.c, and a cache of compiled kernels of its own."""
    folder = tmp_path_factory.mktemp("opencl")
    program = folder / "opencl_job"
    if subprocess.run(["cc", "-shared", "-o", os.devnull, "-include", "CL/cl_layer.h", "-x", "c", os.devnull, "-lOpenCL"], check=False,
                      stderr=subprocess.DEVNULL).returncode:
        pytest.skip("ocl-icd-opencl-dev is not installed")
    subprocess.run(["cc", "-O1", "-w", "-o", program, HERE / "opencl_job.c", "-lOpenCL"], check=True)
    os.environ["POCL_CACHE_DIR"] = str(folder / "cache")
    if subprocess.run([program, "many", "1"], check=False, stdout=subprocess.DEVNULL).returncode:
        pytest.skip("no OpenCL device: pocl-opencl-icd is not installed")
    return program


@pytest.fixture(scope="session")
def other_layer(tmp_path_factory, job):
    library = tmp_path_factory.mktemp("layer") / "opencl_layer.so"
    subprocess.run(["cc", "-O1", "-w", "-shared", "-fPIC", "-o", library, HERE / "opencl_layer.c"], check=True)
    return library


class Traced:
    """A job that ran under run --trace: its lines, and the rows of its recording."""

    def __init__(self, tool, job, *args, options=(), status=0, before=(), **more):
        self.path = tool.folder / "run.hiw"
        self.path.unlink(missing_ok=True)
        done = tool.run("run", "--trace", "-o", self.path, *options, "--", *before, job, *args, **more)
        assert done.returncode == status, done.stderr
        self.out = done.stdout
        self.lines = [line.split() for line in done.stdout.splitlines()]
        self.db = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        self.db.row_factory = sqlite3.Row

    def events(self, table, kind=None):
        """The rows of a table with those of their sites, in order of time."""
        order = "t" if table == "trace_memory" else "start"
        rows = self.db.execute(
            f"SELECT e.*, s.kind, n.text AS name, s.process, s.device, s.context, s.stream, s.grid_x, s.grid_y, s.block_x, "
            f"s.source, s.target FROM {table} e JOIN trace_site s ON s.id = e.site LEFT JOIN trace_name n ON n.id = s.name "
            f"ORDER BY {order}").fetchall()
        return [row for row in rows if kind is None or row["kind"] == kind]

    def lost(self):
        """Rows that the recorder left out to stay within its budget are in all sums, and not lost."""
        return {row["cause"]: row["n"] for row in self.db.execute("SELECT * FROM trace_lost") if row["cause"] != "thinned"}

    def count(self, kind):
        return self.db.execute("SELECT sum(count) FROM trace_stat WHERE kind = ?", [kind]).fetchone()[0]


def plain(job, *args, status=0):
    done = subprocess.run([job, *args], capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    return done.stdout


def test_times_are_those_that_the_program_learns(tool, job):
    run = Traced(tool, job, "times")
    own = [(kind, name, int(size), *map(int, times)) for kind, name, size, *times in run.lines[1:]]
    events = run.events("trace_kernel") + run.events("trace_copy")
    events.sort(key=lambda e: e["start"])
    own.sort(key=lambda o: o[5])
    assert [(o[0], o[1]) for o in own] == [(e["kind"], e["name"]) for e in events]
    assert [o[6] - o[5] for o in own] == [e["duration"] for e in events]
    assert [o[5] - o[3] for o in own] == [e["queued"] for e in events]
    assert [o[5] - o[4] for o in own] == [e["submitted"] for e in events]
    assert [o[2] for o in own if o[0] != "kernel"] == [e["bytes"] for e in events if e["kind"] != "kernel"]
    # One clock: the starts are as far apart as the program's own, but for what the clocks drift apart meanwhile.
    distances = [e["start"] - o[5] for e, o in zip(events, own)]
    assert max(distances) - min(distances) < 2000 + (own[-1][5] - own[0][5]) // 1000
    # And it is the run's: each begins after the call that enqueued it, with the same number.
    calls = {c["correlation"]: c for c in run.events("trace_launch")}
    for e in events:
        call = calls[e["correlation"]]
        assert call["name"] == ("clEnqueueNDRangeKernel" if e["kind"] == "kernel" else e["name"])
        slack = 1000 + e["queued"] // 2000  # the clocks drift apart while it waits
        assert call["start"] - slack <= e["start"] - e["queued"] <= call["start"] + call["duration"] + slack
    names = [c["name"] for c in calls.values()]
    assert names.count("clFinish") == 1
    assert run.lost() == {}


def test_shape_device_and_queue(tool, job):
    run = Traced(tool, job, "times")
    kernels = run.events("trace_kernel")
    spin = [k for k in kernels if k["name"] == "spin"]
    scale = [k for k in kernels if k["name"] == "scale"]
    assert {(k["grid_x"], k["grid_y"], k["block_x"]) for k in spin} == {(4096, 1, 64)}
    assert {k["grid_x"] for k in scale} == {262144}  # work-items: the runtime chose the groups
    assert {(k["device"], k["stream"], k["context"]) for k in kernels} == {(0, 1, 1)}
    name = run.db.execute("SELECT name FROM trace_device WHERE device = 0").fetchone()[0]
    assert ["device", *name.split()] in run.lines
    ends = {(c["name"], c["source"], c["target"]) for c in run.events("trace_copy")}
    assert ends == {("clEnqueueWriteBuffer", "pageable", "device"), ("clEnqueueReadBuffer", "device", "pageable"),
                    ("clEnqueueCopyBuffer", "device", "device"), ("clEnqueueFillBuffer", None, "device")}


def test_the_program_sees_what_it_asked_for(tool, job):
    run = Traced(tool, job, "hidden")
    assert run.out == plain(job, "hidden")
    kernels = run.events("trace_kernel")
    assert len(kernels) == 5 and all(k["duration"] > 0 and not k["flags"] for k in kernels)


@pytest.mark.parametrize("order", [(), ("ooo",)])
def test_twelve_thousand_kernels_without_events(tool, job, order):
    run = Traced(tool, job, "many", "12000", *order)
    assert run.count("kernel") == 12000
    kept = run.events("trace_kernel")
    assert len({k["correlation"] for k in kept}) == len(kept) > 0
    assert all(not k["flags"] for k in kept)
    assert run.lost() == {}


def test_memory(tool, job):
    run = Traced(tool, job, "memory")
    assert run.out == plain(job, "memory")
    rows = run.events("trace_memory")
    now = peak = 0
    for row in rows:
        if not row["flags"]:
            now += row["bytes"]
            peak = max(peak, now)
    assert (peak, now) == (6 << 20, 0)
    made = [(row["name"], row["bytes"], row["target"]) for row in rows if row["bytes"] > 0 and not row["flags"]]
    assert made == [("clCreateBuffer", 1 << 20, "device"), ("clCreateBuffer", 2 << 20, "device"),
                    ("clCreateBuffer", 3 << 20, "device"), ("clSVMAlloc", 1 << 19, "managed"),
                    ("clCreateBuffer", 4096, "pageable")]
    # The buffer that a part of it kept is gone with the part.
    gone = [row["bytes"] for row in rows if row["bytes"] < 0]
    assert gone == [-(2 << 20), -(1 << 19), -(1 << 20), -(3 << 20), -4096]
    assert [row["bytes"] for row in rows if row["flags"]] == [1 << 50, 0]


def test_kernels_that_a_callback_enqueues(tool, job):
    run = Traced(tool, job, "nested")
    assert run.count("kernel") == 40
    assert run.lost() == {}


def test_a_fork_changes_nothing(tool, job):
    run = Traced(tool, job, "fork")
    assert ["child", "3"] in run.lines
    assert run.count("kernel") == 200
    assert run.lost() == {}


def test_commands_in_flight_at_the_end(tool, job):
    plain(job, "leave", status=7)
    run = Traced(tool, job, "leave", status=7)
    assert run.count("kernel") == 1
    assert run.lost() == {"incomplete": 5}


def test_nothing_completed_is_lost_at_sigkill(tool, job):
    run = Traced(tool, job, "kill", "1000", status=-signal.SIGKILL)
    assert run.count("kernel") == 1000


def test_a_layer_before_and_after(tool, job, other_layer):
    inner = Traced(tool, job, "many", "100", env={"OPENCL_LAYERS": str(other_layer)})
    assert ["layer", "kernels", "100", "unprofiled", "0"] in inner.lines  # ours is called first: it switched profiling on
    assert inner.count("kernel") == 100
    swapped = ["sh", "-c", f'OPENCL_LAYERS="{LAYER}:{other_layer}"; export OPENCL_LAYERS; exec "$@"', "sh"]
    outer = Traced(tool, job, "many", "100", before=swapped)
    assert ["layer", "kernels", "100", "unprofiled", "1"] in outer.lines
    assert outer.count("kernel") == 100
    twice = ["sh", "-c", f'OPENCL_LAYERS="{LAYER}:{LAYER}"; export OPENCL_LAYERS; exec "$@"', "sh"]
    assert Traced(tool, job, "many", "100", before=twice).count("kernel") == 100


@pytest.mark.parametrize("what, followed", [("ranges", set()), ("memory", {"trace_memory"}), ("launches", {"trace_launch"}),
                                          ("kernels", {"trace_kernel", "trace_copy"})])
def test_only_what_was_asked(tool, job, what, followed):
    path = tool.folder / "some.hiw"
    done = tool.run("run", f"--trace={what}", "-o", path, "--", job, "times")
    assert done.returncode == 0, done.stderr
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
        full = {t for t in ("trace_kernel", "trace_copy", "trace_launch", "trace_memory")
                if t in tables and db.execute(f"SELECT count(*) FROM {t}").fetchone()[0]}
    assert full == followed

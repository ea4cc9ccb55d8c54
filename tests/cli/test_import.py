# SPDX-License-Identifier: MIT
"""hiwater import: traces of other tools. The counts and sums are those of a plain reading by Python (trace_files.py)."""
import gzip
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import time

import pytest
import trace_files
from cli_helpers import DEADLINE, HIWATER, ROOT, Tool, wait_for
from trace_files import WALL_NS

REAL = ROOT / "tests" / "trees" / "h100" / "kineto-torch-2.11.json.gz"


def sums(path):
    """{(kind, name): [count, sum of ns]} of a recording."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    found = {(kind, name or ""): [count, total] for kind, name, count, total in db.execute(
        "SELECT kind, n.text, sum(count), sum(total) FROM trace_stat s LEFT JOIN trace_name n ON n.id = s.name GROUP BY 1, 2")}
    rows = sum(db.execute(f"SELECT count(*) FROM trace_{t}").fetchone()[0] for t in ("range", "launch", "kernel", "copy", "memory"))
    assert rows == sum(count for count, _ in found.values())
    db.close()
    return found


def query(path, sql):
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return db.execute(sql).fetchall()
    finally:
        db.close()


@pytest.fixture
def imported(tool, tmp_path):
    """Imports files into a new recording; its path and the messages."""
    def run(*files, status=0):
        target = tmp_path / f"imported-{len(list(tmp_path.glob('imported-*')))}.hiw"
        done = tool.run("import", *map(str, files), "-o", str(target))
        assert done.returncode == status, done.stderr
        return target, done.stderr
    return run


# ---- what is read -----------------------------------------------------------------------------------------------------

def test_a_real_file_of_torch_profiler(imported):
    recording, said = imported(REAL)
    text = gzip.decompress(REAL.read_bytes()).decode()
    assert sums(recording) == trace_files.counted_text(text)
    assert "130 kernels, 15 copies, 5 fills" in said
    assert query(recording, "SELECT DISTINCT device_name FROM (SELECT name AS device_name FROM trace_device)") == [("NVIDIA H100 80GB HBM3",)]
    # A kernel and the call that launched it belong to one process and have one correlation.
    alone = query(recording, """SELECT count(*) FROM trace_kernel k JOIN trace_site s ON s.id = k.site WHERE NOT EXISTS
        (SELECT 1 FROM trace_launch l JOIN trace_site m ON m.id = l.site WHERE l.correlation = k.correlation AND m.process = s.process)""")
    assert alone == [(0,)]
    events = [e for e in json.loads(text)["traceEvents"] if e.get("cat") == "gpu_memcpy"]
    assert query(recording, "SELECT sum(bytes) FROM trace_stat WHERE kind = 'copy'") == [(sum(e["args"]["bytes"] for e in events),)]


def test_made_files_plain_and_compressed(imported, tmp_path):
    text = trace_files.kineto(trace_files.profiled(), rank=3)
    plain, packed, members = tmp_path / "a.json", tmp_path / "b.json.gz", tmp_path / "c.json.gz"
    plain.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    members.write_bytes(gzip.compress(text[:5000].encode()) + gzip.compress(text[5000:].encode()))
    want = trace_files.counted_text(text)
    for file in (plain, packed, members):
        recording, _ = imported(file)
        assert sums(recording) == want
        assert query(recording, "SELECT DISTINCT pid, rank, origin FROM trace_process") == [(4711, 3, "kineto")]
        assert query(recording, "SELECT value FROM meta WHERE key IN ('rank', 'ranks') ORDER BY key") == [(3,), (2,)]
    grids = query(recording, "SELECT DISTINCT grid_x, grid_y, block_x, registers, shared_static FROM trace_site WHERE kind = 'kernel'")
    assert sorted(grids) == [(step + 1, 2, 128, 32, 1024) for step in range(20)]
    assert query(recording, "SELECT DISTINCT source, target FROM trace_site WHERE kind = 'copy'") == [("pageable", "device")]


def test_times_are_exact(imported, tmp_path):
    """Base and microseconds together have more digits than a double."""
    file = tmp_path / "t.json"
    file.write_text(trace_files.kineto(['{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 4764746439646.112, "dur": 0.001}',
                                        '{"ph": "X", "name": "b", "pid": 1, "tid": 1, "ts": 4764746439647.113, "dur": 1e-3}']))
    recording, _ = imported(file)
    assert query(recording, "SELECT value FROM meta WHERE key = 'started_wall_ns'") == [(WALL_NS + 4764746439646112,)]
    assert query(recording, "SELECT start, duration FROM trace_range ORDER BY start") == [(0, 1), (1001, 1)]


def test_a_bare_array_and_begins_and_ends(imported, tmp_path):
    file = tmp_path / "array.json"
    events = [{"ph": "B", "name": "outer", "cat": "c", "pid": 1, "tid": 2, "ts": 10}, {"ph": "B", "name": "inner", "pid": 1, "tid": 2, "ts": 11},
              {"ph": "B", "name": "other", "pid": 1, "tid": 3, "ts": 11.5}, {"ph": "E", "pid": 1, "tid": 2, "ts": 12},
              {"ph": "E", "pid": 1, "tid": 2, "ts": 15}, {"ph": "E", "pid": 9, "tid": 9, "ts": 15}, {"ph": "i", "name": "m", "pid": 1, "tid": 2, "ts": 20}]
    file.write_text(json.dumps(events))
    recording, said = imported(file)
    assert query(recording, """SELECT n.text, start, duration, depth, coalesce(flags, 0) FROM trace_range r JOIN trace_site s ON s.id = r.site
        JOIN trace_name n ON n.id = s.name ORDER BY start""") == [("outer", 0, 5000, 0, 0), ("inner", 1000, 1000, 1, 0),
                                                                     ("other", 1500, 8500, 0, 1), ("m", 10000, None, 0, 0)]
    assert "1 ends of ranges without a begin" in said


def test_depth_whatever_the_order(imported, tmp_path):
    """VizTracer writes a range when it ends, so children come before their parents."""
    nested = [{"ph": "X", "name": f"f{depth}", "pid": 1, "tid": 1, "ts": 100 * n + depth, "dur": 50 - 2 * depth}
              for n in range(50) for depth in range(5)]
    for seed in range(3):
        events = nested[::-1] if seed == 0 else random.Random(seed).sample(nested, len(nested))
        file = tmp_path / f"order-{seed}.json"
        file.write_text(json.dumps(events))
        recording, _ = imported(file)
        assert query(recording, """SELECT n.text, min(depth), max(depth), max(coalesce(flags, 0)), count(*) FROM trace_range r JOIN trace_site s
            ON s.id = r.site JOIN trace_name n ON n.id = s.name GROUP BY 1 ORDER BY 1""") == [(f"f{d}", d, d, 0, 50) for d in range(5)]


def test_nsys(imported, tmp_path):
    for suffix in ("", "_V2", "_V3"):
        for key in (True, False):
            file = tmp_path / f"report{suffix}{key}.sqlite"
            want = trace_files.nsys(file, seed=len(suffix), suffix=suffix, key=key)
            recording, said = imported(file)
            assert sums(recording) == want, said
    assert query(recording, "SELECT DISTINCT pid FROM trace_process") == [(4711,)]
    assert query(recording, "SELECT tid, name FROM trace_thread") == [(4712, "worker")]
    assert query(recording, "SELECT value FROM meta WHERE key = 'started_wall_ns'") == [(WALL_NS + 1,)]


def test_an_empty_capture(imported, tmp_path):
    file = tmp_path / "empty.sqlite"
    want = trace_files.nsys(file, kernels=False)
    recording, said = imported(file)
    assert sums(recording) == want
    assert "empty capture" in said and "not traced: copies" in said
    recording, said = imported(REAL.parent / "README.md", status=1)
    assert not recording.exists() and "neither a Chrome trace" in said


def test_nsys_that_lacks_what_it_names(imported, tmp_path):
    """Columns of other versions, open ranges, NULL times, views and a table that is none."""
    file = tmp_path / "odd.sqlite"
    db = sqlite3.connect(file)
    pid = 7 << 24
    db.executescript(f"""
        CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs); INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES ({WALL_NS});
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 20, 0), (30, NULL, 0), (NULL, NULL, 0), (50, 40, 0), ('x', 'y', 'z');
        CREATE TABLE NVTX_EVENTS (start, end, eventType, globalTid, text);
        INSERT INTO NVTX_EVENTS VALUES (15, NULL, 59, {pid | 8}, 'open'), (16, 18, 59, {pid | 8}, 'inner'), (16, 18, 75, {pid | 8}, 'no range');
        CREATE VIEW CUPTI_ACTIVITY_KIND_MEMCPY AS WITH RECURSIVE c(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM c) SELECT start FROM c;
    """)
    db.close()
    recording, said = imported(file)
    assert "4 events have no valid times" in said and "not traced: copies, calls of CUDA" in said
    assert query(recording, "SELECT sum(count), sum(invalid), sum(total) FROM trace_stat WHERE kind = 'kernel'") == [(1, 4, 10)]
    ranges = query(recording, """SELECT n.text, start, duration, depth, coalesce(flags, 0) FROM trace_range r JOIN trace_site s ON s.id = r.site
        JOIN trace_name n ON n.id = s.name ORDER BY start""")
    assert ranges == [("open", 5, 5, 0, 1), ("inner", 6, 2, 1, 0)]


def test_from_a_folder_that_cannot_be_written(tool, tmp_path):
    folder = tmp_path / "there"
    folder.mkdir()
    trace_files.nsys(folder / "r.sqlite")
    db = sqlite3.connect(folder / "r.sqlite")
    db.execute("PRAGMA journal_mode = WAL")
    db.close()
    before = sorted(os.listdir(folder))
    folder.chmod(0o555)
    done = tool.run("import", str(folder / "r.sqlite"), "-o", str(tmp_path / "r.hiw"))
    folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(folder)) == before


# ---- damage -----------------------------------------------------------------------------------------------------------

def test_cut_anywhere(imported, tmp_path):
    """Always the events that are whole before the cut, or a clear error."""
    text = trace_files.kineto(trace_files.profiled(steps=4))
    head, lines = text.split('"traceEvents": [\n  ')
    events = lines.split("\n  ],")[0].split(",\n  ")
    for cut in range(0, len(text), 1000):
        file = tmp_path / "cut.json"
        file.write_text(text[:cut])
        at, whole = len(head) + len('"traceEvents": [\n  '), []
        for event in events:
            if at + len(event) <= cut:
                whole.append(json.loads(event))
            at += len(event) + len(",\n  ")
        want = trace_files.counted(whole)
        recording, said = imported(file, status=0 if want else 1)
        if want:
            assert f"cut off at byte {cut}" in said
            assert {k: v[0] for k, v in sums(recording).items()} == {k: v[0] for k, v in want.items()}
        else:
            assert not recording.exists() and ("cut off at byte" in said or "has no event" in said)


def test_a_compressed_file_that_was_cut(imported, tmp_path):
    text = trace_files.kineto(trace_files.profiled(steps=200))
    data = gzip.compress(text.encode())
    file = tmp_path / "cut.json.gz"
    file.write_bytes(data[:len(data) // 2])
    recording, said = imported(file)
    assert "of its uncompressed text" in said and "within its compressed data" in said
    assert sum(n for n, _ in sums(recording).values()) > 500


def test_names_with_quotes(imported, tmp_path):
    """A bug of Kineto: such an event is lost, and no other."""
    events = trace_files.profiled(steps=3)
    bad = '{"ph": "X", "cat": "cpu_op", "name": "operator "" _a", "pid": 4711, "tid": 1, "ts": 1.0, "dur": 1.0,\n    "args": {"x": "y"}\n  }'
    for places in ([0], [10], [len(events)], [3, 4, 20], [7] * 3):
        broken = list(events)
        for place in sorted(places, reverse=True):
            broken.insert(place, bad)
        file = tmp_path / "quotes.json"
        file.write_text(trace_files.kineto(broken))
        recording, said = imported(file)
        assert sums(recording) == trace_files.counted(map(json.loads, events))
        assert "that event is lost" in said and f"at byte {file.read_text().index('operator ') + 10}" in said
        assert query(recording, "SELECT n FROM trace_lost WHERE cause = 'damaged'") == [(len(places),)]


HOSTILE = {
    "nan": '[{"ph": "X", "name": "a", "ts": NaN, "dur": 1}, {"ph": "X", "name": "b", "ts": 1, "dur": Infinity}, {"ph": "X", "name": "c", "ts": 1, "dur": 2}]',
    "digits": '[{"ph": "X", "name": "a", "ts": ' + "9" * 400 + ', "dur": 1}, {"ph": "X", "name": "c", "ts": 1, "dur": 2}]',
    "beyond": '[{"ph": "X", "name": "a", "ts": 9223372036854775.807, "dur": 1}, {"ph": "X", "name": "c", "ts": 1, "dur": 2}]',
    "negative": '[{"ph": "X", "name": "a", "ts": 5, "dur": -3}, {"ph": "X", "name": "c", "ts": -7, "dur": 2}]',
    "twice": '[{"ph": "B", "name": "x", "name": "c", "ph": "X", "ts": 9, "ts": 1, "dur": 2, "args": {"a": 1}, "args": {}}]',
    "nested": '[{"ph": "X", "name": "c", "ts": 1, "dur": 2}, {"ph": "X", "name": "a", "args": ' + '{"a":' * 300 + "1" + "}" * 300 + '}]',
    "kinds": '[1, null, "x", [2], {}, {"ph": 5}, {"ph": "XX"}, {"ph": "X", "name": 7, "pid": {}, "tid": [], "ts": "1", "dur": "2", "args": 3}, '
             '{"ph": "X", "name": "c", "ts": 1, "dur": 2}]',
    "bytes": '[{"ph": "X", "name": "\\u001b[2J\\u0000\\ud800\x01", "ts": 1, "dur": 2}]',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(name, imported, tool, tmp_path):
    file = tmp_path / f"{name}.json"
    file.write_bytes(HOSTILE[name].encode())
    recording, said = imported(file)
    valid = query(recording, "SELECT sum(count), max(total) FROM trace_stat WHERE count > 0")
    assert valid[0][1] == 2000 and "\x1b" not in said
    assert tool.run("show", str(recording)).returncode == 0


@pytest.mark.parametrize("content, why", [
    (b"", "before its first event"), (b"[", "before its first event"), (b"{}", "no trace"), (b"[]", "has no event"), (b"7", "no trace"),
    (b"hello", "at byte 0"), (b'{"a": [1, 2', "before its first event"), (b"[" * 100000, "nested too deep"),
    (b"\x1f\x8b\x08\x00" + b"garbage" * 9, "compressed data are damaged"), (b"SQLite format 3\0" + b"x" * 5000, "SQLite"),
])
def test_what_is_no_trace(content, why, imported, tmp_path):
    file = tmp_path / "file.bin"
    file.write_bytes(content)
    recording, said = imported(file, status=1)
    assert why in said and str(file) in said and not recording.exists()
    assert len(said.splitlines()) <= 2


def test_a_report_of_nsys(imported, tmp_path):
    (tmp_path / "r.nsys-rep").write_bytes(b"x")
    assert "nsys export --type sqlite" in imported(tmp_path / "r.nsys-rep", status=1)[1]


def test_a_damaged_sqlite_file(imported, tool, tmp_path):
    """Whatever byte is damaged: rows, or an error; never more."""
    source = tmp_path / "r.sqlite"
    trace_files.nsys(source, rows=300)
    data = source.read_bytes()
    r = random.Random(5)
    for n in range(25):
        broken = bytearray(data)
        for _ in range(40):
            broken[r.randrange(100, len(broken))] = r.randrange(256)
        file = tmp_path / f"broken-{n}.sqlite"
        file.write_bytes(broken)
        done = tool.run("import", str(file), "-o", str(tmp_path / f"broken-{n}.hiw"))
        assert done.returncode in (0, 1) and done.stderr


# ---- into a run -------------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def run_of_a_second(tmp_path_factory):
    tool = Tool(tmp_path_factory.mktemp("second"))
    path = tmp_path_factory.mktemp("run") / "run.hiw"
    done = tool.run("run", "-o", str(path), "--", "sleep", "0.3")
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture
def run(run_of_a_second, tmp_path):
    return shutil.copy(run_of_a_second, tmp_path / "run.hiw")


def started(path):
    return query(path, "SELECT value FROM meta WHERE key = 'started_wall_ns'")[0][0]


def at(base, ts_us=100000, n=3):
    return trace_files.kineto([{"ph": "X", "cat": "cpu_op", "name": f"op{i}", "pid": 1, "tid": 1, "ts": ts_us + 10 * i, "dur": 5} for i in range(n)], base=base)


def test_into_a_run_by_the_wall_clock(tool, tmp_path, run):
    file = tmp_path / "t.json"
    file.write_text(at(started(run)))
    done = tool.run("import", str(file), "--into", str(run))
    assert done.returncode == 0, done.stderr
    assert query(run, "SELECT start, duration FROM trace_range ORDER BY start") == [(100000000 + 10000 * i, 5000) for i in range(3)]
    # A second time nothing changes.
    done = tool.run("import", str(file), "--into", str(run))
    assert done.returncode == 1 and "already in" in done.stderr
    assert query(run, "SELECT sum(count) FROM trace_stat") == [(3,)]
    # Another one is added.
    file.write_text(at(started(run), ts_us=200000, n=4))
    assert tool.run("import", str(file), "--into", str(run)).returncode == 0
    assert query(run, "SELECT sum(count) FROM trace_stat") == [(7,)]
    assert tool.run("show", str(run)).returncode == 0


def test_a_trace_of_another_time(tool, tmp_path, run):
    before = open(run, "rb").read()
    file = tmp_path / "t.json"
    file.write_text(at(WALL_NS))
    done = tool.run("import", str(file), "--into", str(run))
    assert done.returncode == 1 and "no time in common" in done.stderr
    assert "2026-10-01T12:17:06.100Z" in done.stderr and time.strftime("%Y-%m-%d", time.gmtime(started(run) // 10**9)) in done.stderr
    assert open(run, "rb").read() == before
    done = tool.run("import", str(file), "--into", str(run), "--offset", "20ms")
    assert done.returncode == 0, done.stderr
    assert query(run, "SELECT min(start) FROM trace_range") == [(20000000,)]


def test_a_clock_that_begins_anywhere(tool, tmp_path, run):
    file = tmp_path / "t.json"
    file.write_text(json.dumps([{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 5000, "dur": 5}]))
    done = tool.run("import", str(file), "--into", str(run))
    assert done.returncode == 1 and "--at" in done.stderr and "--offset" in done.stderr
    for place, begin in ((f"{started(run) // 10**9}.{started(run) % 10**9 + 50000000:09}", 50000000),
                         (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(started(run) // 10**9 + 1)) + "Z", None)):
        copy = shutil.copy(run, tmp_path / f"copy-{begin}.hiw")
        if begin and started(run) % 10**9 + begin >= 10**9:
            place = f"{started(run) // 10**9 + 1}.{started(run) % 10**9 + begin - 10**9:09}"
        done = tool.run("import", str(file), "--into", str(copy), "--at", place)
        if begin is None and done.returncode:  # a whole second may be after the run's end
            assert "no time in common" in done.stderr
            continue
        assert done.returncode == 0, done.stderr
        if begin:
            assert query(copy, "SELECT start FROM trace_range") == [(begin,)]


def test_what_began_before_the_run(tool, tmp_path, run):
    file = tmp_path / "t.json"
    file.write_text(at(started(run), ts_us=-15, n=4))
    done = tool.run("import", str(file), "--into", str(run))
    assert done.returncode == 0 and "2 events began before the run" in done.stderr
    assert query(run, "SELECT start FROM trace_range ORDER BY start") == [(5000,), (15000,)]


def test_a_mark_in_an_event(tool, tmp_path):
    """A trace and its run have one axis: what the job itself measured is where the import puts it."""
    script, recording, trace = tmp_path / "job.py", tmp_path / "r.hiw", tmp_path / "t.json"
    script.write_text("import json, subprocess, sys, time\n"
                      "a = time.time_ns(); subprocess.run([sys.argv[1], 'mark', 'here']); b = time.time_ns()\n"
                      "json.dump({'baseTimeNanoseconds': a, 'traceEvents': [{'ph': 'X', 'name': 'block', 'ts': 0, 'dur': (b - a) // 1000 + 1}]},"
                      " open(sys.argv[2], 'w'))\n")
    assert tool.run("run", "-o", recording, "--", sys.executable, script, HIWATER, trace).returncode == 0
    done = tool.run("import", trace, "--into", recording)
    assert done.returncode == 0, done.stderr
    (start,), = query(recording, "SELECT start FROM trace_range")
    assert start == json.loads(trace.read_text())["baseTimeNanoseconds"] - started(recording)
    # The recorder stamps a mark when it reads it, which on a busy machine is later than it was sent.
    (mark,), = query(recording, "SELECT t FROM event WHERE text = 'here'")
    assert start - 1000000 <= mark


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_import_that_is_ended(number, tool, tmp_path, run):
    """The recording is as it was, and there is no new one; after a signal that can be caught nothing at all is left."""
    file, before = tmp_path / "t.json", open(run, "rb").read()
    file.write_text(trace_files.kineto(trace_files.profiled(steps=3000), base=started(run) - 4764746439 * 10**6))
    folder = tmp_path / "new"
    folder.mkdir()
    for target in (["--into", run], ["-o", folder / "new.hiw"]):
        there = {*tmp_path.iterdir(), *folder.iterdir()}
        process = tool.start("import", file, *target)
        wait_for(lambda: list(tmp_path.glob(".*.tmp")) + list(folder.glob(".*.tmp")) or process.poll() is not None, "it writes")
        process.send_signal(number)
        if process.wait(DEADLINE) == 0:
            pytest.skip("it ended before the signal came")
        assert process.returncode == -number
        if number == signal.SIGTERM:
            assert {*tmp_path.iterdir(), *folder.iterdir()} == there
        assert open(run, "rb").read() == before and not (folder / "new.hiw").exists()
    assert tool.run("show", run).returncode == 0


# ---- several files, names, the command line ---------------------------------------------------------------------------

def test_ranks_of_a_job(imported, tmp_path, tool):
    files = [tmp_path / f"rank{rank}.json" for rank in range(2)]
    for rank, file in enumerate(files):
        file.write_text(trace_files.kineto(trace_files.profiled(seed=rank), rank=rank, base=WALL_NS + rank * 1000000))
    recording, said = imported(*files)
    assert sorted(query(recording, "SELECT pid, rank FROM trace_process")) == [(4711, 0), (4711, 1)]
    both = {}
    for file in files:
        for key, (count, total) in trace_files.counted_text(file.read_text()).items():
            entry = both.setdefault(key, [0, 0])
            entry[0] += count
            entry[1] += total
    assert sums(recording) == both
    starts = query(recording, "SELECT s.process, min(start) FROM trace_range r JOIN trace_site s ON s.id = r.site GROUP BY 1 ORDER BY 1")
    assert [start for _, start in starts] == [0, 1000000]
    recording, said = imported(files[0], files[0], status=1)
    assert "twice" in said and not recording.exists()
    done = tool.run("import", str(files[0]), "--rank", "5", "-o", str(tmp_path / "five.hiw"))
    assert done.returncode == 0 and query(tmp_path / "five.hiw", "SELECT rank FROM trace_process") == [(5,)]


def test_a_run_of_the_history(tool, tmp_path):
    done = tool.run("import", str(REAL), "-n", "traced")
    assert done.returncode == 0 and "imported as run 1" in done.stderr, done.stderr
    shown = tool.run("show", "traced")
    assert shown.returncode == 0 and "traced" in shown.stdout
    assert "traced" in tool.run("runs").stdout
    done = tool.run("import", str(REAL), "--into", "traced")
    assert done.returncode == 1 and "already" in done.stderr
    # What fails leaves no run.
    assert tool.run("import", str(ROOT / "README.md")).returncode == 1
    assert tool.run("runs").stdout.count("\n") == 2


@pytest.mark.parametrize("words, why", [
    ([], "needs a FILE"), (["a", "--into", "x", "-o", "y"], "--into"), (["a", "--at", "1", "--offset", "1"], "exclude"),
    (["a", "--offset", "1s"], "--into"), (["a", "b", "--rank", "1"], "one FILE"), (["a", "--rank", "x"], "rank"), (["a", "--rank", "-1"], "rank"),
    (["a", "--at", "yesterday"], "time"), (["a", "--at", "2026-13-01T00:00:00"], "time"), (["a", "--into", "last", "--offset", "long"], "--offset"),
])
def test_wrong_command_lines(tool, words, why):
    done = tool.run("import", *words)
    assert done.returncode == 2 and why in done.stderr


def test_files_that_cannot_be_read_or_written(tool, tmp_path):
    assert "No such file" in tool.run("import", str(tmp_path / "none.json")).stderr
    assert "not a regular file" in tool.run("import", str(tmp_path)).stderr
    there = tmp_path / "there.hiw"
    there.write_text("mine")
    done = tool.run("import", str(REAL), "-o", str(there))
    assert done.returncode == 1 and there.read_text() == "mine" and str(there) in done.stderr
    done = tool.run("import", str(REAL), "-o", str(tmp_path / "no" / "such.hiw"))
    assert done.returncode == 1 and "No such file" in done.stderr
    assert tool.run("import", str(REAL), "--into", "nothing").returncode == 1

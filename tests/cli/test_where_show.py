# SPDX-License-Identifier: MIT
"""hiwater where and compare --where, on recordings of a short run into which the tables of a sampled run are inserted here. What is
true is computed from these tables in Python."""
import collections
import csv
import gzip
import io
import json
import math
import os
import random
import re
import sqlite3
import subprocess
import sys
import xml.etree.ElementTree as ET

import jsonschema
import pytest
from cli_helpers import HIWATER, ROOT

MIB = 1 << 20
SCHEMA = json.loads((ROOT / "docs" / "where.schema.json").read_text())
UNSAMPLED = "[touched by the kernel: read(2), or moved by mremap]"
FILES, BEFORE, OTHERS = "[mapped files]", "[before hiwater came]", "[others]"
APP, LIBC = "/usr/bin/app", "/usr/lib/x86_64-linux-gnu/libc.so.6"
TABLES = """
CREATE TABLE where_frame(id INTEGER PRIMARY KEY, module TEXT, build_id TEXT, offset INTEGER, function TEXT, file TEXT, line INTEGER);
CREATE TABLE where_stack(id INTEGER PRIMARY KEY, parent INTEGER, frame INTEGER);
CREATE TABLE where_process(id INTEGER PRIMARY KEY, pid INTEGER, rank INTEGER, name TEXT);
CREATE TABLE where_high(id INTEGER PRIMARY KEY, t INTEGER, total INTEGER, looked INTEGER, looked_total INTEGER, before INTEGER,
 sample_bytes INTEGER, huge_bytes INTEGER, lost INTEGER);
CREATE TABLE where_row(high INTEGER, stack INTEGER, process INTEGER, bytes INTEGER, n INTEGER, PRIMARY KEY(high, stack, process))
 WITHOUT ROWID;
CREATE TABLE where_file(high INTEGER, name TEXT, bytes INTEGER, PRIMARY KEY(high, name)) WITHOUT ROWID;
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A run that was not sampled."""
    path = tmp_path_factory.mktemp("where") / "plain.hiw"
    subprocess.run([HIWATER, "run", "-o", path, "--", "true"], check=True, capture_output=True)
    return path


class Sampled:
    """Tables of a sampled run."""

    def __init__(self, plain, path):
        path.write_bytes(plain.read_bytes())
        self.path, self.db = path, sqlite3.connect(path)
        self.db.executescript(TABLES)
        self.frames, self.nodes = {}, {}

    def frame(self, function, module=APP, file="", line=None, offset=0, build_id="ab12"):
        key = (module, function, file, line, offset)
        if key not in self.frames:
            self.frames[key] = len(self.frames) + 1
            self.db.execute("INSERT INTO where_frame VALUES(?,?,?,?,?,?,?)",
                            (self.frames[key], module, build_id, offset, function, file, line))
        return self.frames[key]

    def stack(self, *frames):
        """Frames from the outermost on, as arguments of frame() or names."""
        node = None
        for f in frames:
            frame = self.frame(*f) if isinstance(f, tuple) else self.frame(f)
            if (node, frame) not in self.nodes:
                self.nodes[node, frame] = len(self.nodes) + 1
                self.db.execute("INSERT INTO where_stack VALUES(?,?,?)", (self.nodes[node, frame], node, frame))
            node = self.nodes[node, frame]
        return node

    def process(self, number, pid=None, name="job", rank=None):
        self.db.execute("INSERT INTO where_process VALUES(?,?,?,?)", (number, pid, rank, name))

    def high(self, number, t, total, before=0, sample=256 << 10, huge=0, lost=0):
        self.db.execute("INSERT INTO where_high VALUES(?,?,?,?,?,?,?,?,?)", (number, t, total, t, total, before, sample, huge, lost))

    def row(self, high, stack, process, size, n):
        self.db.execute("INSERT INTO where_row VALUES(?,?,?,?,?)", (high, stack, process, size, n))

    def file(self, high, name, size):
        self.db.execute("INSERT INTO where_file VALUES(?,?,?)", (high, name, size))

    def write(self):
        self.db.commit()
        self.db.close()
        return self.path


def hiwater(*args, env=None):
    return subprocess.run([HIWATER, *map(str, args)], capture_output=True, env={**os.environ, "LC_ALL": "C.UTF-8", "COLUMNS": "140", **(env or {})})


def where(*args, **more):
    done = hiwater("where", *args, **more)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def read(*args):
    data = json.loads(where("--json", *args))
    jsonschema.validate(data, SCHEMA)
    assert data["peak_bytes"] == (sum(r["bytes"] for r in data["rows"]) + data["others_bytes"] + data["files_bytes"] +
                                  data["before_bytes"] + data["unsampled_bytes"])
    assert data["files_bytes"] == sum(f["bytes"] for f in data["files"])
    return data


def rows_of(data, key="function"):
    return {r[key]: r["bytes"] for r in data["rows"]}


LOAD = ("main", "load_table")


def small(plain, path, more=0):
    """100 MiB, of which 32 by load_table. It is not the last high, to which the peak of the run belongs."""
    s = Sampled(plain, path)
    s.process(1, 4711, "python")
    s.process(2, 4712, "child")
    s.high(1, 10**8, 100 * MIB + more, before=0, huge=128 * MIB, lost=11)
    main, load = ("main", APP, "job.c", 10), ("load_table", APP, "job.c", 42)
    memset = ("__memset_avx2_unaligned", LIBC)
    s.row(1, s.stack(main, load, memset), 1, 30 * MIB + more, 120)
    s.row(1, s.stack(main, load), 2, 2 * MIB, 8)
    s.row(1, s.stack(main, ("_ZN3foo3barEi", APP, "foo.cc", 7), ("malloc", "/usr/lib/libjemalloc.so.2")), 1, 20 * MIB, 80)
    s.row(1, s.stack(("…", ""), ("", "/opt/lib/libnp.so", "", None, 0x1234)), 2, 5 * MIB, 20)
    s.row(1, s.stack(main, ("recursive", APP), ("recursive", APP), memset), 2, 3 * MIB, 12)
    s.row(1, s.stack(main), 1, MIB, 0)
    s.file(1, "/usr/lib/libpython3.12.so.1.0", 8 * MIB)
    s.file(1, LIBC, MIB)
    s.high(2, 2 * 10**8, 101 * MIB)
    return s.write()


def test_table(plain, tmp_path):
    path = small(plain, tmp_path / "a.hiw")
    text = where("--high", 1, path).decode()
    lines = text.splitlines()
    assert lines[0].startswith("peak 100 MiB at 100 ms, from 240 samples (256 KiB each, huge pages 128 MiB); 11 records lost")
    assert "looked at 100 MiB" in text
    assert re.search(r"^ *32\.0 +32\.0 +2\.8 +128 +32\.0 +load_table +job\.c:42  < main$", text, re.M)
    assert re.search(r"^ *20\.0 +20\.0 +2\.2 +80 +20\.0 +foo::bar\(int\) +foo\.cc:7  < main$", text, re.M)
    assert re.search(r"^ *5\.0 +5\.0 +1\.1 +20 +5\.0 +libnp\.so\+0x1234 +libnp\.so  < …$", text, re.M)
    assert re.search(r"^ *30\.0 +30\.0 +- +0 +30\.0 +" + re.escape(UNSAMPLED) + "  or huge pages between samples; see `hiwater doctor`$", text, re.M)
    assert re.search(r"^ *9\.0 +9\.0 +- +- +9\.0 +\[mapped files\] +libpython3\.12\.so\.1\.0 8\.0, libc\.so\.6 1\.0$", text, re.M)
    assert re.search(r"^ *1\.0 +1\.0 +- +0 +56\.0 +main +job\.c:10$", text, re.M)
    assert lines[-1] == "first touched by, not owned by: memory that malloc reused counts for who touched it first"
    amounts = [float(line.split()[0]) for line in lines[2 if lines[1].startswith("looked") else 1:] if re.match(r" *\d", line)]
    assert sum(amounts) == pytest.approx(100, abs=0.5) and amounts == sorted(amounts, reverse=True)
    assert "libnp.so  < ...\n" in where("--high", 1, path, env={"LC_ALL": "C"}).decode()
    top = where("--high", 1, "--top", 1, path).decode()
    assert re.search(r"^ *29\.0 +29\.0 +- +- +29\.0 +others \(4 functions\)$", top, re.M)
    files = where("--high", 1, "--files", path).decode()
    assert re.search(r"8\.0 +libpython3\.12\.so\.1\.0 +mapped file /usr/lib/libpython3\.12\.so\.1\.0$", files, re.M)
    for width in (60, 80, 100, 133):
        text = where("--high", 1, path, env={"COLUMNS": str(width)}).decode()
        assert max(map(len, text.splitlines())) <= width


def test_json(plain, tmp_path):
    path = small(plain, tmp_path / "a.hiw")
    data = read("--high", 1, path)
    rows = {r["function"]: r for r in data["rows"]}
    assert {k: r["bytes"] // MIB for k, r in rows.items()} == {"load_table": 32, "foo::bar(int)": 20, "libnp.so+0x1234": 5,
                                                               "recursive": 3, "main": 1}
    assert rows["load_table"] == {"function": "load_table", "file": "job.c", "line": 42, "library": "app", "bytes": 32 * MIB,
                                  "sigma_bytes": round(32 * MIB / math.sqrt(128)), "samples": 128, "total_bytes": 32 * MIB, "copied_bytes": 0}
    assert rows["main"]["total_bytes"] == 56 * MIB and rows["main"]["sigma_bytes"] is None
    assert rows["recursive"]["total_bytes"] == 3 * MIB
    assert data["unsampled_bytes"] == 30 * MIB and data["files_bytes"] == 9 * MIB and data["lost"] == 11
    assert data["peak_bytes"] == 100 * MIB and data["at_s"] == 0.1 and data["high"] == 1 and data["samples"] == 240
    assert [h["number"] for h in data["highs"]] == [1, 2]
    assert {tuple(s["frames"]): (s["process"], s["pid"], s["bytes"]) for s in data["stacks"] if len(s["frames"]) == 2} == {
        ("main", "load_table"): ("child", 4712, 2 * MIB), ("…", "libnp.so+0x1234"): ("child", 4712, 5 * MIB)}
    assert sum(s["bytes"] for s in data["stacks"]) == sum(r["bytes"] for r in data["rows"])


def test_self_total_by_and_under(plain, tmp_path):
    path = small(plain, tmp_path / "a.hiw")
    high = ("--high", 1)
    assert rows_of(read(*high, "--self", path))["__memset_avx2_unaligned"] == 33 * MIB
    total = read(*high, "--total", path)["rows"]
    assert [r["function"] for r in total][:2] == ["main", "load_table"]
    assert [r["total_bytes"] for r in total] == sorted((r["total_bytes"] for r in total), reverse=True)
    assert rows_of(read(*high, "--by", "library", path), "library") == {"app": 56 * MIB, "libnp.so": 5 * MIB}
    assert rows_of(read(*high, "--by", "process", path), "process") == {"python (4711)": 51 * MIB, "child (4712)": 10 * MIB}
    stacks = read(*high, "--by", "stack", path)["rows"]
    assert [r["bytes"] // MIB for r in stacks] == [30, 20, 5, 3, 2, 1]
    assert [(r["file"], r["line"]) for r in read(*high, "--by", "line", path)["rows"]][:2] == [("job.c", 42), ("foo.cc", 7)]
    under = read(*high, "--under", "^load_", path)
    assert rows_of(under) == {"load_table": 32 * MIB} and under["others_bytes"] == 29 * MIB and under["others"] == 4
    assert rows_of(read(*high, "--top", 2, path)) == {"load_table": 32 * MIB, "foo::bar(int)": 20 * MIB}
    assert "process" in where("--by", "process", path).decode()


def test_peak_is_that_of_show(plain, tmp_path):
    """Of the last high; what is more than it is scaled down, what is less is unsampled."""
    shown = json.loads(hiwater("show", "--json", plain).stdout)["ram"]["combined"]["peak_bytes"]
    for size in (100, 1000, 10**9, 10**14):
        s = Sampled(plain, tmp_path / f"{size}.hiw")
        s.process(1, 1)
        s.high(1, 10**8, size)
        for i in range(1, 8):
            s.row(1, s.stack("main", f"f{i}"), 1, size // i, i)
        s.file(1, "/a", 1000)
        s.file(1, "/b", 11)
        data = read(s.write())
        assert data["peak_bytes"] == shown
        rows = rows_of(data)
        asked = {f"f{i}": size // i for i in range(1, 8)}
        if sum(asked.values()) + 1011 <= shown:
            assert rows == asked and data["unsampled_bytes"] == shown - sum(asked.values()) - 1011
        else:
            assert data["unsampled_bytes"] == 0 and data["files_bytes"] == 1011
            for name, scaled in rows.items():
                assert scaled == pytest.approx(asked[name] * (shown - 1011) / sum(asked.values()), abs=1)


def test_attach_and_many_files(plain, tmp_path):
    s = Sampled(plain, tmp_path / "a.hiw")
    s.process(1, 1)
    s.high(1, 10**8, 10 * MIB, before=4 * MIB)
    s.row(1, s.stack("main"), 1, MIB, 4)
    s.high(2, 10**9, 5 * MIB, before=40 * MIB)
    s.file(2, "/x", 60 * MIB)
    s.row(2, s.stack("main"), 1, MIB, 4)
    path = s.write()
    data = read("--high", 1, path)
    assert (data["before_bytes"], data["unsampled_bytes"]) == (4 * MIB, 5 * MIB)
    assert re.search(r"^ *4\.0 +40\.0 .*\[before hiwater came\]", where("--high", 1, path).decode(), re.M)
    last = read(path)
    assert rows_of(last) == {"main": 0} and last["unsampled_bytes"] == 0
    assert last["files_bytes"] == pytest.approx(last["peak_bytes"] * 0.6, abs=1)


# ---- formats ------------------------------------------------------------------------------------


def pprof(data):
    """Decodes profile.proto: {stack, the outermost first: (bytes, samples)}, and labels."""
    def varint(b, at):
        value = shift = 0
        while True:
            value |= (b[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if not b[at - 1] & 0x80:
                return value, at

    def fields(b):
        found, at = collections.defaultdict(list), 0
        while at < len(b):
            tag, at = varint(b, at)
            if tag & 7 == 0:
                value, at = varint(b, at)
            else:
                assert tag & 7 == 2
                length, at = varint(b, at)
                value, at = b[at:at + length], at + length
            found[tag >> 3].append(value)
        return found

    top = fields(gzip.decompress(data))
    strings = [s.decode() for s in top[6]]
    functions = {f[1][0]: strings[f[2][0]] for f in map(fields, top[5])}
    locations = {f[1][0]: functions[fields(f[4][0])[1][0]] for f in map(fields, top[4])}
    assert strings[0] == "" and [[strings[t[1][0]], strings[t[2][0]]] for t in map(fields, top[1])] == [
        ["inuse_space", "bytes"], ["samples", "count"]]
    mappings = {f[1][0] for f in map(fields, top[3])}
    assert all(f[2][0] in mappings for f in map(fields, top[4]) if 2 in f)
    stacks = collections.Counter()
    for sample in map(fields, top[2]):
        stacks[tuple(locations[i] for i in reversed(sample[1]))] += sample[2][0]
    return stacks


def folded(text):
    stacks = collections.Counter()
    for line in text.decode().splitlines():
        stack, size = line.rsplit(" ", 1)
        stacks[tuple(stack.split(";"))] += int(size)
    return stacks


def speedscope(text):
    data = json.loads(text)
    names = [f["name"] for f in data["shared"]["frames"]]
    stacks = collections.Counter()
    for p in data["profiles"]:
        assert p["type"] == "sampled" and p["unit"] == "bytes" and sum(p["weights"]) == p["endValue"]
        assert len(p["samples"]) == len(p["weights"])
        for sample, weight in zip(p["samples"], p["weights"]):
            stacks[tuple(names[i] for i in sample)] += weight
    return stacks


def truth_of(data):
    stacks = collections.Counter()
    for s in data["stacks"]:
        stacks[tuple(s["frames"])] += s["bytes"]
    for name, key in ((UNSAMPLED, "unsampled_bytes"), (FILES, "files_bytes"), (BEFORE, "before_bytes"), (OTHERS, "others_bytes")):
        stacks[name,] += data[key]
    return +stacks


def random_run(plain, path, seed):
    """Stacks at random; every second one's peak is too small for it."""
    rng = random.Random(seed)
    s = Sampled(plain, path)
    for p in range(1, 4):
        s.process(p, 100 + p, f"p{p}")
    total = 0
    rows = {}
    for _ in range(300):
        stack = s.stack(*(f"f{rng.randrange(20)}" for _ in range(rng.randrange(1, 12))))
        rows[stack, rng.randrange(1, 4)] = (rng.randrange(1, 10**rng.randrange(2, 9)), rng.randrange(100))
    for (stack, process), (size, n) in rows.items():
        s.row(1, stack, process, size, n)
        total += size
    for i in range(5):
        s.file(1, f"/lib/{i}", rng.randrange(10**6))
    s.high(1, 10**8, int(total * rng.choice((0.5, 0.97, 1.5))), before=rng.randrange(10**6))
    s.high(2, 10**9, 1)
    return s.write()


@pytest.mark.parametrize("seed", range(4))
def test_formats_have_equal_sums(plain, tmp_path, seed):
    path = random_run(plain, tmp_path / "r.hiw", seed)
    for more in ((), ("--under", "f1$")):
        args = ("--high", 1, *more, path)
        data = read(*args)
        truth = truth_of(data)
        assert sum(truth.values()) == data["peak_bytes"]
        assert folded(where("--to", "folded", *args)) == truth
        assert speedscope(where("--to", "speedscope", *args)) == truth
        assert +pprof(where("--to", "pprof", *args)) == truth
        table = list(csv.DictReader(io.StringIO(where("--csv", *args).decode())))
        assert sum(int(r["bytes"]) for r in table) == data["peak_bytes"]
        assert [(r["function"], int(r["bytes"]), r["sigma_bytes"]) for r in table if int(r["bytes"]) and r["function"][0] != "["] == [
            (r["function"], r["bytes"], "" if r["sigma_bytes"] is None else str(r["sigma_bytes"])) for r in data["rows"] if r["bytes"]]
        assert sum(int(r["bytes"]) for r in csv.DictReader(io.StringIO(where("--csv", "--files", "--top", "3", *args).decode()))) == \
            data["peak_bytes"]
    # A function's total: every stack with it, once.
    data = read("--high", 1, "--total", path)
    for row in data["rows"]:
        assert row["total_bytes"] == sum(s["bytes"] for s in data["stacks"] if row["function"] in s["frames"])


SVG = "{http://www.w3.org/2000/svg}"


def test_svg(plain, tmp_path):
    path = small(plain, tmp_path / "a.hiw")
    out = tmp_path / "a.svg"
    assert where("--high", 1, "--to", "svg", "-o", out, path) == b""
    root = ET.parse(out).getroot()
    titles = {}
    for g in root.iter(SVG + "g"):
        titles[g.get("data-n")] = (g.find(SVG + "title").text, float(g.get("data-x")), float(g.get("data-w")))
    assert titles["load_table"][0] == "load_table\n32.0 MiB, 32.0% of the peak\napp"
    assert titles["all"][2] == 1200 and titles["load_table"][2] == pytest.approx(0.32 * 1200, abs=0.02)
    assert titles[UNSAMPLED][2] == pytest.approx(0.3 * 1200, abs=0.02)
    top = [titles[n][2] for n in ("main", "…", UNSAMPLED, FILES)]
    assert sum(top) == pytest.approx(1200, abs=0.05)
    assert titles["main"][1] <= titles["load_table"][1] < titles["main"][1] + titles["main"][2]
    assert len(list(root.iter(SVG + "script"))) == 1


HOSTILE = ["\x1b[2J\x1b[31mred", "<script>alert(1)</script>", "a;b\nc 7", "]]>&amp;\"'", "\x00nul", "\u202eevil", "\ufffe\uffff", "=1+1", ""]


def test_hostile_names(plain, tmp_path):
    s = Sampled(plain, tmp_path / "h.hiw")
    s.process(1, 1, "\x1b]0;title\x07")
    s.high(1, 10**8, 100 * MIB)
    for i, name in enumerate([*HOSTILE, b"\xff\xfe\x80bad"]):
        s.row(1, s.stack("main", (name, f"/lib/{i}\x1b[2J.so", f"/src/\x1b[2J{i}.c", 3)), 1, (i + 1) * MIB, 4)
    s.file(1, "/lib/\x1b[2J<b>.so", MIB)
    s.high(2, 10**9, 1)
    path = s.write()
    args = ("--high", 1, path)
    for more in ((), ("--files",), ("--by", "process"), ("--by", "library"), ("--csv",), ("--to", "folded"), ("--to", "svg"), ("--json",)):
        out = where(*more, *args)
        text = out.decode()  # UTF-8
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text) and (more == ("--json",) or "\u202e" not in text), more
    assert sum(folded(where("--to", "folded", *args)).values()) == 100 * MIB
    assert where("--to", "folded", *args).decode().count("\n") == 12
    svg = where("--to", "svg", *args)
    root = ET.fromstring(svg)
    assert "<script>alert(1)</script>" in [g.get("data-n") for g in root.iter(SVG + "g")]
    assert svg.count(b"<script>") == 1
    assert read(*args)["peak_bytes"] == 100 * MIB
    assert sum(pprof(where("--to", "pprof", *args)).values()) == 100 * MIB
    assert "'=1+1" in where("--csv", *args).decode()
    ascii = where(*args, env={"LC_ALL": "C"})
    assert max(ascii) < 128


def test_hostile_tables(plain, tmp_path):
    """Cycles, numbers that do not exist, other types, huge and negative amounts."""
    s = Sampled(plain, tmp_path / "h.hiw")
    s.process(1, -5)
    s.high(1, 10**8, 100 * MIB)
    good = s.stack("main", "good")
    s.db.executescript("""
        INSERT INTO where_stack VALUES(10, 11, 1), (11, 10, 1), (12, 12, 1), (13, 99, 1), (14, NULL, 100001), (15, 1, -1), (16, 'x', 1),
         (499999, 1, 1), (600000, 1, 1), (-1, 1, 1);
        INSERT INTO where_row VALUES(1, 10, 1, 5, 1), (1, 11, 1, 5, 1), (1, 12, 1, 5, 1), (1, 13, 1, 5, 1), (1, 14, 1, 5, 1),
         (1, 15, 1, 5, 1), (1, 16, 1, 5, 1), (1, 600000, 1, 5, 1), (1, -1, 1, 5, 1), (1, 1, 9, 5, 1), (1, 1, -1, 5, 1), (7, 1, 1, 5, 1),
         (1, 2, 0, 5, 1), (1, 2, 'x', 5, 1), (1, 1, 1, -5, 1), (1, 499999, 1, 9223372036854775807, 1);
        INSERT INTO where_file VALUES(1, '/a', -1), (1, '/b', 'x'), (1, '/c', 9223372036854775807), (3, '/d', 4), (1, '/e', 3);
        INSERT INTO where_high VALUES(5, -1, 9223372036854775807, 0, 0, 0, 0, 0, 0);
        INSERT INTO where_frame VALUES(100000, 'm', '', 0, 'far', '', 0), (300000, 'm', '', 0, 'too far', '', 0), (-3, 'm', '', 0, 'n', '', 0);
    """)
    s.row(1, good, 1, MIB, 4)
    s.high(2, 10**9, 1)
    data = read("--high", 1, s.write())
    assert rows_of(data) == {"good": MIB} and data["files_bytes"] == 3 and len(data["highs"]) == 2
    views = Sampled(plain, tmp_path / "v.hiw")
    views.db.executescript("DROP TABLE where_high; CREATE VIEW where_high AS SELECT 1 AS id")
    done = hiwater("where", views.write())
    assert done.returncode == 1 and b"was not sampled" in done.stderr


def test_deep_stack(plain, tmp_path):
    s = Sampled(plain, tmp_path / "d.hiw")
    s.process(1, 1)
    s.high(1, 10**8, 2 * MIB)
    s.row(1, s.stack(*(f"f{i % 7}" for i in range(100000))), 1, MIB, 4)
    s.high(2, 10**9, 1)
    path = s.write()
    data = read("--high", 1, path)
    assert data["unsampled_bytes"] == MIB and [len(s["frames"]) for s in data["stacks"]] == [1024]
    assert sum(folded(where("--high", 1, "--to", "folded", path)).values()) == 2 * MIB


# ---- the summary --------------------------------------------------------------------------------


def sampled_kill(plain, path, name="load_table", after=False):
    """A run of which the kernel killed a process at 1 s, and highs before it; after: also one later."""
    peak = json.loads(hiwater("show", "--json", plain).stdout)["ram"]["combined"]["peak_bytes"]
    s = Sampled(plain, path)
    s.process(1, 1, "python")
    s.high(1, 2 * 10**8, peak // 4)
    s.row(1, s.stack("main", "too_early"), 1, peak // 4, 10)
    s.high(2, 9 * 10**8, peak)
    for i, part in enumerate((2, 8, 16, 32)):
        s.row(2, s.stack("main", name if i == 0 else f"f{i}"), 1, peak // part, 1000 // part)
    if after:
        s.high(3, 3 * 10**9, peak)
        s.row(3, s.stack("main", "too_late"), 1, peak, 10)
    s.db.execute("INSERT INTO event(t, kind, text, entity, id) VALUES(?, 'trigger', ?, 'job', 0)",
                 (10**9, "out of memory: the kernel killed a process in the job's cgroup"))
    return s.write(), peak


@pytest.mark.parametrize("after", [False, True])
def test_the_incident_has_the_last_high(plain, tmp_path, after):
    path, peak = sampled_kill(plain, tmp_path / "a.hiw", after=after)
    done = hiwater("show", path)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.decode().replace("\u00a0", " ").split())
    assert re.search(r"touched first: [\d.]+ [KM]iB by load_table [\d.]+ [KM]iB by f1 [\d.]+ [KM]iB by f2 at 900 ms", text), text
    shown = json.loads(hiwater("show", "--json", path).stdout)
    jsonschema.validate(shown, json.loads((ROOT / "docs" / "summary.schema.json").read_text()))
    then = shown["incident"]["touched_first"]
    assert [(r["function"], r["bytes"]) for r in then["rows"]] == [("load_table", peak // 2), ("f1", peak // 8), ("f2", peak // 16)]
    assert then["at_s"] == 0.9 and then["total_bytes"] == peak
    assert "touched first: " in hiwater("show", "--plain", path).stdout.decode()
    page = tmp_path / "r.html"
    assert hiwater("report", path, "-o", page).returncode == 0
    event = re.search(r'<span class="word">Event</span>.*?</article>', page.read_text(), re.S)[0]
    assert "touched first: " in event and "by load_table" in event and "too_" not in event
    assert hiwater("report", "--redact", path, "-o", tmp_path / "s.html").returncode == 0
    assert "load_table" not in (tmp_path / "s.html").read_text()


def test_an_incident_shows_names_cleaned(plain, tmp_path):
    path, _ = sampled_kill(plain, tmp_path / "a.hiw", "\x1b[2J<script>alert(1)</script>")
    assert "\x1b" not in hiwater("show", path).stdout.decode()
    page = tmp_path / "r.html"
    assert hiwater("report", path, "-o", page).returncode == 0
    assert "<script>alert(1)" not in page.read_text() and "\x1b" not in page.read_text()


def test_an_incident_of_a_run_that_was_not_sampled(plain, tmp_path):
    path, _ = sampled_kill(plain, tmp_path / "a.hiw")
    with sqlite3.connect(path) as db:
        for table in ("frame", "stack", "process", "high", "row", "file"):
            db.execute(f"DROP TABLE where_{table}")
    assert "touched_first" not in json.loads(hiwater("show", "--json", path).stdout)["incident"]
    assert "touched first" not in hiwater("show", path).stdout.decode()


@pytest.mark.parametrize("stack, samples, fires", [
    (("main", "prepare", "load_table", ("malloc", LIBC)), 1000, True),
    (("main", "prepare", "load_table"), 4, False),  # +- half of it
    (("main",), 1000, False),
    ((("<module>", "[python]", "a.py", 1),), 1000, False),
    (("main", ("", "/opt/lib/libnp.so", "", None, 0x1234)), 1000, False),  # without a name
    ((("…", ""), ("malloc", LIBC)), 1000, False),
    ((("", "[unknown]"),), 1000, False),
])
def test_finding_of_one_call(tmp_path, stack, samples, fires):
    """Judged of a run whose peak is 400 MiB."""
    path = tmp_path / "big.hiw"
    command = "x = bytearray(400 << 20); x[::4096] = b'1' * len(x[::4096])"
    subprocess.run([HIWATER, "run", "-o", path, "--", sys.executable, "-c", command], check=True, capture_output=True)
    s = Sampled(path, tmp_path / "a.hiw")
    s.process(1, 1)
    s.high(1, 10**7, 410 * MIB)
    s.row(1, s.stack(*stack), 1, 300 * MIB, samples)
    path = s.write()
    shown = json.loads(hiwater("show", "--json", path).stdout)
    jsonschema.validate(shown, json.loads((ROOT / "docs" / "summary.schema.json").read_text()))
    found = [f for f in shown["findings"] if f["code"] == "one-call"]
    assert len(found) == fires
    if fires:
        assert found[0]["severity"] == "hint" and found[0]["evidence"]["function"] == "load_table"
        assert found[0]["evidence"]["caller"] == "prepare" and found[0]["evidence"]["function_bytes"] == 300 * MIB
        assert "first touched by load_table, called by prepare" in found[0]["message"]
        page = tmp_path / "s.html"
        assert hiwater("report", "--redact", path, "-o", page).returncode == 0
        assert "load_table" not in page.read_text() and "prepare" not in page.read_text()


# ---- runs, errors -------------------------------------------------------------------------------


def test_ranks_of_a_folder(plain, tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in range(3):
        path = small(plain, folder / f"rank{rank}.hiw", rank * MIB)
        with sqlite3.connect(path) as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES('rank', ?)", (rank,))
    (folder / "plain.hiw").write_bytes(plain.read_bytes())
    data = read("--high", 1, folder)
    assert data["recordings"] == 3 and data["peak_bytes"] == 303 * MIB
    assert rows_of(data)["load_table"] == (3 * 32 + 3) * MIB
    assert len(data["stacks"]) == 18
    assert "of 4 recordings 3 were sampled" in where("--high", 1, folder).decode()


@pytest.fixture
def ranks(plain, tmp_path):
    """Three sampled ranks; the last is without rows of load_table."""
    folder = tmp_path / "ranks"
    folder.mkdir()
    peak = json.loads(hiwater("show", "--json", plain).stdout)["ram"]["combined"]["peak_bytes"]
    for rank in range(3):
        s = Sampled(plain, folder / f"rank{rank}.hiw")
        if rank == 1:
            s.stack("unused", "not_in_a_high")
        s.process(1, 100 + rank, "python")
        s.process(2, 200 + rank, "child")
        s.high(1, 10**7, peak // 2)
        s.row(1, s.stack("main", "earlier"), 1, peak // 2, 3)
        s.high(4, 2 * 10**7, peak, lost=rank, huge=MIB)
        if rank < 2:
            s.row(4, s.stack(("main", APP, "job.c", 10), ("load_table", APP, "job.c", 42)), 1, peak // 4, 40)
        s.row(4, s.stack(("main", APP, "job.c", 10), f"own_{rank}"), 2, peak // (8 + rank), 10)
        s.file(4, LIBC, 1000)
        s.file(4, f"/lib/own{rank}", 11 + rank)
        s.db.executemany("INSERT OR REPLACE INTO meta VALUES(?, ?)",
                         [("rank", rank), ("ranks", 3), ("id", f"id{rank}"), ("scheduler", "slurm"), ("scheduler_job", "4711.0"),
                          ("node", "n1"), ("part", "rank")])
        s.write()
    return folder


def merge(path, *parts):
    done = hiwater("merge", *parts, "-o", path)
    assert done.returncode == 0, done.stderr.decode()
    return path


def of_ranks(path):
    """What is shown of a job of ranks, without what tells a folder from a file."""
    data = {by: read("--by", by, path) for by in ("function", "line", "stack", "library", "process")}
    for d in data.values():
        d["stacks"].sort(key=str)
    return {by: {k: v for k, v in d.items() if k not in ("recordings", "highs", "high", "at_s", "high_s", "looked_s", "looked_bytes")}
            for by, d in data.items()}


def test_merged_ranks_are_those_of_the_folder(ranks, tmp_path):
    merged = merge(tmp_path / "merged.hiw", ranks)
    data = read(merged)
    assert of_ranks(merged) == of_ranks(ranks)
    assert {"load_table", "own_0", "own_1", "own_2"} == set(rows_of(data)) and data["lost"] == 3
    assert {f["name"]: f["bytes"] for f in data["files"]} == {LIBC: 3000, "/lib/own0": 11, "/lib/own1": 12, "/lib/own2": 13}
    assert "rank 2 child (202)" in rows_of(read("--by", "process", merged), "process")
    with sqlite3.connect(merged) as db:
        assert db.execute("SELECT count(*) FROM where_high").fetchone() == (1,)
        assert sorted(db.execute("SELECT function FROM where_frame")) == [("load_table",), ("main",), ("own_0",), ("own_1",), ("own_2",)]
        assert db.execute("SELECT count(*) FROM where_stack").fetchone() == (5,)
        assert sorted(db.execute("SELECT pid, rank, name FROM where_process")) == [
            (100, 0, "python"), (101, 1, "python"), (200, 0, "child"), (201, 1, "child"), (202, 2, "child")]
    page = tmp_path / "report.html"
    assert hiwater("report", ranks, "-o", page).returncode == 0
    assert "Where the RAM came from" in page.read_text() and "load_table" in page.read_text()
    summary = json.loads(hiwater("show", "--json", ranks).stdout)["where"]
    assert summary["peak_bytes"] == data["peak_bytes"] and summary["rows"][0]["function"] == "load_table"


def test_merges_of_merges(ranks, tmp_path):
    """In any order, and of an earlier merge only the ranks that are not replaced count."""
    rank = [ranks / f"rank{i}.hiw" for i in range(3)]
    whole = of_ranks(merge(tmp_path / "whole.hiw", *rank))
    half = merge(tmp_path / "half.hiw", rank[2], rank[0])
    assert of_ranks(merge(tmp_path / "a.hiw", half, rank[1])) == whole
    assert of_ranks(merge(tmp_path / "b.hiw", merge(tmp_path / "other.hiw", rank[1]), half)) == whole
    twice = read(merge(tmp_path / "c.hiw", half, merge(tmp_path / "most.hiw", rank[1], rank[2])))
    assert rows_of(twice) == {r["function"]: r["bytes"] for r in whole["function"]["rows"]}
    assert twice["peak_bytes"] == pytest.approx(whole["function"]["peak_bytes"], rel=0.2)


def test_merge_with_ranks_that_were_not_sampled(ranks, plain, tmp_path):
    before = read(ranks)
    with sqlite3.connect(ranks / "rank1.hiw") as db:
        for table in ("frame", "stack", "process", "high", "row", "file"):
            db.execute(f"DROP TABLE where_{table}")
    merged = merge(tmp_path / "merged.hiw", ranks)
    assert of_ranks(merged) == of_ranks(ranks) and read(merged)["peak_bytes"] == pytest.approx(before["peak_bytes"] * 2 / 3, abs=2)
    for rank in (0, 2):
        (ranks / f"rank{rank}.hiw").unlink()
    assert hiwater("where", merge(tmp_path / "none.hiw", ranks)).returncode == 1


@pytest.mark.parametrize("args, status, text", [
    (["PLAIN"], 1, "was not sampled; use: hiwater run --where -- COMMAND"),
    (["/nonexistent"], 1, "nonexistent"),
    (["--high", "9", "RUN"], 2, "there is no high 9"),
    (["--high", "0", "RUN"], 2, "not a number from 1"),
    (["--top", "x", "RUN"], 2, "not a number"),
    (["--by", "color", "RUN"], 2, "color"),
    (["--under", "(", "RUN"], 2, "regular expression"),
    (["--json", "--csv", "RUN"], 2, "exclude each other"),
    (["--to", "svg", "--self", "RUN"], 2, "leave out"),
    (["--to", "xyz", "RUN"], 2, "xyz"),
    (["-o", "x", "RUN"], 2, "-o needs a format"),
    (["RUN", "RUN"], 2, "one RUN"),
])
def test_errors(plain, tmp_path, args, status, text):
    path = small(plain, tmp_path / "a.hiw")
    done = hiwater("where", *({"RUN": path, "PLAIN": plain}.get(a, a) for a in args))
    assert (done.returncode, done.stdout) == (status, b"") and text in done.stderr.decode()


# ---- compare ------------------------------------------------------------------------------------


def sampled_run(plain, path, functions, module=APP, offset=0):
    """functions: name to (bytes, samples). The total is so small that the peak of the run is larger."""
    s = Sampled(plain, path)
    s.process(1, 1)
    for i, (name, (size, n)) in enumerate(functions.items()):
        s.row(1, s.stack("main", (name, module, "job.c", i + offset, 4096 * (i + offset))), 1, size, n)
    s.high(1, 10**8, 1)
    return s.write()


def compare(*args):
    done = hiwater("compare", "--where", *args)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_compare(plain, tmp_path):
    """A difference counts beyond two sigma of both; addresses, lines and folders do not matter."""
    before = {"load_a": (40000, 100), "load_b": (40000, 100), "ones": (30000, 4), "gone": (9000, 90), "": (5000, 50)}
    after = {"load_a": (52000, 100), "load_b": (49000, 100), "ones": (60000, 4), "new": (8000, 80), "": (5100, 51)}
    a = sampled_run(plain, tmp_path / "a.hiw", before)
    b = sampled_run(plain, tmp_path / "b.hiw", after, "/opt/other/app", 1000)
    status, text, _ = compare("--json", a, b)
    data = json.loads(text)
    lines = {line["function"]: line["groups"] for line in data["lines"] if line["kind"] == "function"}
    assert status == 0 and data["of"] == "where" and set(lines) == {"load_a", "load_b", "ones", "gone", "new", "[no name]"}
    for name, (base, here) in lines.items():
        key = "" if name == "[no name]" else name
        (old, n), (now, m) = before.get(key, (0, 1)), after.get(key, (0, 1))
        sigma = math.hypot(old / math.sqrt(n), now / math.sqrt(m))
        assert (base["bytes"], here["bytes"], here["added_bytes"]) == (old, now, now - old)
        assert here["added_sigma_bytes"] == pytest.approx(sigma, abs=1) and here["differs"] == (abs(now - old) > 2 * sigma), name
    assert [n for n in lines if lines[n][1]["differs"]] == ["gone", "new"]
    text = compare(a, b)[1]
    assert re.search(r"^ *-8\.79 KiB .* gone  app$", text, re.M) and re.search(r"^ *same .* ones  app$", text, re.M)


def test_a_run_against_itself(plain, tmp_path):
    path = random_run(plain, tmp_path / "r.hiw", 7)
    status, text, _ = compare("--json", path, path)
    assert status == 0
    assert not any(g.get("differs") for line in json.loads(text)["lines"] for g in line["groups"])
    assert "no function differs by more than two sigma" in compare(path, path)[1]


@pytest.mark.parametrize("rule, status, text", [
    ('where("big_*") > +10%', 1, "FAIL"),
    ('where("big_*") > +60%', 0, "pass"),
    ('where("*") > +10%', 1, "big_load: 146 KiB, base 97.7 KiB, +50.0 %"),
    ('where("noisy") > +10%', 0, "the same within +-"),
    ('where("noisy") > 20kB', 1, "FAIL"),
    ('where("big_load") < -10%', 0, "pass"),
    ('where("nothing*") > +10%', 3, "no function matches"),
    ('where("x").total > 1', 2, "expected < <="),
    ('where("x") > 3 apples', 2, "a size"),
    ('where(x) > 1', 2, "a pattern in quotes"),
])
def test_rules(plain, tmp_path, rule, status, text):
    a = sampled_run(plain, tmp_path / "a.hiw", {"big_load": (100000, 400), "noisy": (20000, 2)})
    b = sampled_run(plain, tmp_path / "b.hiw", {"big_load": (150000, 600), "noisy": (30000, 3)})
    for more in (["--where"], []):
        done = hiwater("compare", *more, "--fail-if", rule, a, b)
        assert done.returncode == status and text in (done.stdout + done.stderr).decode()


def test_compare_hostile_and_wrong(plain, tmp_path):
    a = sampled_run(plain, tmp_path / "a.hiw", {"\x1b[2Jred": (1000, 400)})
    b = sampled_run(plain, tmp_path / "b.hiw", {"\x1b[2Jred": (900000, 400)})
    for more in ([], ["--md"], ["--json"]):
        assert "\x1b" not in compare(*more, "--fail-if", 'where("*red") > +1%', a, b)[1]
    assert compare(a, plain)[0] == 1 and "was not sampled" in compare(a, plain)[2]
    assert compare("--kernels", a, b)[0] == 2 and compare("--by", "x", a, b)[0] == 2


# ---- summary, report ----------------------------------------------------------------------------


def test_show(plain, tmp_path):
    path = sampled_run(plain, tmp_path / "a.hiw", {f"f{i}": (10000 * (i + 1), 4 * i) for i in range(8)} | {"\x1b[2Jbig": (200000, 9)})
    data = json.loads(hiwater("show", "--json", path).stdout)
    jsonschema.validate(data, json.loads((ROOT / "docs" / "summary.schema.json").read_text()))
    full = read(path)
    assert data["where"]["peak_bytes"] == full["peak_bytes"] == data["ram"]["combined"]["peak_bytes"]
    assert [(r["bytes"], r["sigma_bytes"], r["samples"], r["library"]) for r in data["where"]["rows"]] == [
        (r["bytes"], r["sigma_bytes"], r["samples"], r["library"]) for r in full["rows"][:5]]
    assert [r["function"] for r in data["where"]["rows"]] == ["?[2Jbig", "f7", "f6", "f5", "f4"]
    assert data["where"]["unsampled_bytes"] == full["unsampled_bytes"] and data["where"]["functions"] == 9
    for more in ([], ["--plain"], ["--md"]):
        text = hiwater("show", *more, path).stdout.decode()
        assert "\x1b" not in text and "195 KiB by ?[2Jbig (" in text.replace("\\[", "["), more
    assert "where" not in json.loads(hiwater("show", "--json", plain).stdout)
    assert b"Touched" not in hiwater("show", plain).stdout


def test_report(plain, tmp_path):
    s = Sampled(plain, tmp_path / "a.hiw")
    s.process(1, 1)
    for i, name in enumerate(HOSTILE):
        s.row(1, s.stack("main", (name, f"/lib/<b>{i}.so", f"/src/<i>{i}.c", 3)), 1, 50000 + i, 4)
    s.high(1, 10**8, 1)
    path = s.write()
    out = tmp_path / "r.html"
    assert hiwater("report", path, "-o", out).returncode == 0
    page = out.read_text()
    section = re.search(r'<section class="panel"><h2>Where the RAM came from</h2>.*?</section>', page, re.S)[0]
    assert "<script" not in section and "<b>" not in section and "<i>" not in section
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in section
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", section)
    root = ET.fromstring(re.search(r"<svg .*</svg>", section, re.S)[0])
    assert sum(g.get("data-n") == "main" for g in root.iter(SVG + "g")) == 1
    assert len(re.findall("<tr>", section)) == 1 + len(HOSTILE) + (1 if read(path)["unsampled_bytes"] else 0)
    assert hiwater("report", "--redact", path, "-o", out).returncode == 0
    assert "<h2>Where the RAM came from" not in out.read_text() and "alert(1)" not in out.read_text()


@pytest.mark.parametrize("named", [False, True])
def test_python_whose_functions_have_no_names(plain, tmp_path, named):
    """Its interpreter's functions stand for them, which is said; where they have names, the interpreter's count for them."""
    s = Sampled(plain, tmp_path / "python.hiw")
    s.process(1, 4711, "python3")
    s.high(1, 10**8, 100 * MIB)
    evaluates = ("_PyEval_EvalFrameDefault", "/usr/lib/libpython3.12.so.1.0")
    frames = [evaluates, ("load", "[jit]", "/home/me/job.py"), evaluates] if named else [evaluates]
    s.row(1, s.stack(*frames, ("PyUnicode_New", "/usr/lib/libpython3.12.so.1.0")), 1, 64 * MIB, 256)
    path = s.write()
    assert ("--where=python" in where(path).decode()) == (not named)
    assert [row["function"] for row in read(path)["rows"]] == (["load"] if named else ["PyUnicode_New"])

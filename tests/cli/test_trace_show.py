# SPDX-License-Identifier: MIT
"""hiwater trace and compare --kernels, on recordings whose events are made here and written by make-trace (tests/fake). What is
true is computed from these events in Python."""
import csv
import io
import json
import os
import random
import re
import shlex
import shutil
import sqlite3
import statistics
import subprocess

import jsonschema
import pytest
from cli_helpers import HIWATER, ROOT
from stress_jobs import BUILD

S = 10**9
SCHEMA = json.loads((ROOT / "docs" / "trace.schema.json").read_text())
MANGLED = "_ZN2at6native29vectorized_elementwise_kernelILi4EiEEvT0_"
DEMANGLED = "void at::native::vectorized_elementwise_kernel<4, int>(int)"
GEMM = "sm90_xmma_gemm_bf16<128, 128>"


class Trace:
    """Events of a run, and the recording of them."""

    def __init__(self, argv=("python", "train.py", "--name", "it's"), wall=12 * S, **meta):
        self.lines, self.sites, self.events = [], [], []
        for key, value in {"argv_json": json.dumps(list(argv)), "mode": "run", "command": " ".join(argv), **meta}.items():
            self.add("meta", key, value)
        self.add("metaint", "ended_ns", wall)
        self.add("metaint", "last_ns", wall)

    def add(self, *fields):
        self.lines.append("\t".join(str(f) for f in fields))

    def site(self, kind, process, name, domain="", tid=-1, device=-1, stream=0, source="", target="", gpu=""):
        self.add("site", kind, process, name, domain, tid, device, stream, source, target, gpu)
        self.sites.append((kind, process, name, device, stream))
        return len(self.sites)

    def event(self, site, start, end, correlation=0, size=0, flags=0, depth=0):
        self.add("event", site, start, end, correlation, size, flags, depth)
        self.events.append((self.sites[site - 1], start, end, size))

    def durations(self, kind, name=None, keep=lambda start: True):
        return [e - s for site, s, e, _ in self.events if site[0] == kind and name in (None, site[2]) and keep(s) and e >= s]

    def write(self, path, *options):
        done = subprocess.run([BUILD / "make-trace", path, *options], input="\n".join(self.lines) + "\n", text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
        return path


def union(spans):
    """Sorted, disjoint."""
    joined = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1][1] = max(end, joined[-1][1])
        elif end > begin:
            joined.append([begin, end])
    return joined


def length(spans, low=0, high=1 << 62):
    return sum(max(0, min(e, high) - max(b, low)) for b, e in union(spans))


def gaps(spans, low, high):
    edges = [low, *(t for b, e in union(spans) if e > low and b < high for t in (max(b, low), min(e, high))), high]
    return [(b, a) for a, b in ((edges[i], edges[i + 1]) for i in range(0, len(edges), 2)) if b > a]


def busy_trace(seed=1, slower=1.0):
    """Kernels on three streams, copies, ranges, 10 records without an order of times, a phase."""
    made, rng = Trace(), random.Random(seed)
    made.add("phase", 1, 0, "data", 3 * S, 9 * S)
    made.add("process", 4711, "python", -1)
    gemm = made.site("kernel", 1, GEMM, device=0, stream=7, gpu="NVIDIA H100 80GB HBM3")
    wise = [made.site("kernel", 1, MANGLED, device=0, stream=s, gpu="NVIDIA H100 80GB HBM3") for s in (7, 8, 9)]
    up = made.site("copy", 1, "", device=0, stream=10, source="pageable", target="device")
    pinned = made.site("copy", 1, "", device=0, stream=10, source="pinned", target="device")
    down = made.site("copy", 1, "", device=0, stream=10, source="device", target="pinned")
    fill = made.site("fill", 1, "", device=0, stream=10, target="device")
    call = made.site("launch", 1, "cudaLaunchKernel", tid=4711)
    step = [made.site("range", 1, f"ProfilerStep#{i}", tid=4711) for i in range(12)]
    made.add("window", S, 11 * S, "whole run")
    t = 0
    for i in range(3000):
        t += rng.randrange(10_000, 2_000_000) + (S if i == 1500 else 0)
        size = int(slower * rng.randrange(200_000, 300_000))
        made.event(gemm, t, t + size, 2 * i + 1)
        start = t + rng.randrange(0, size)
        made.event(wise[i % 3], start, start + rng.randrange(100, 120_000), 2 * i + 2)
        made.event(call, t - 9000, t - 1000, 2 * i + 1)
        if i % 7 == 0:
            made.event(up if i % 14 else pinned, t, t + rng.randrange(1, 500_000), 0, 1 << 20)
        if i % 50 == 0:
            made.event(down, t + 5, t + 900_000, 0, 1000)
            made.event(fill, t + 900_000, t + 901_000, 0, 1 << 16)
    for i in range(10):
        made.event(gemm, 5000 + i, 4000)
    for i in range(12):
        made.event(step[i], i * S, i * S + S // 2)
    return made


@pytest.fixture
def busy(tool):
    made = busy_trace()
    return made, made.write(tool.folder / "busy.hiw")


def show(tool, *args):
    done = tool.run("trace", "--json", *args)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    jsonschema.validate(shown, SCHEMA)
    return shown


def line_of(shown, name):
    return next(l for l in shown["lines"] if l["name"] == name)


def test_sums_of_kernels(tool, busy):
    made, path = busy
    shown = show(tool, path)
    assert shown["by"] == "kernel" and shown["records"]["complete"] and shown["records"]["invalid"] == 10
    total = sum(made.durations("kernel"))
    for name, raw in ((GEMM, GEMM), (DEMANGLED, MANGLED)):
        truth, line = made.durations("kernel", raw), line_of(shown, name)
        assert line["count"] == len(truth) == 3000
        assert round(line["total_s"] * S) == sum(truth)
        assert round(line["median_s"] * S) == int(statistics.median(truth)) and line["median_method"] == "exact"
        assert (round(line["min_s"] * S), round(line["max_s"] * S)) == (min(truth), max(truth))
        assert line["stddev_s"] * S == pytest.approx(statistics.stdev(truth), rel=1e-6)
        assert line["share"] == pytest.approx(sum(truth) / total)
    assert line_of(shown, GEMM)["invalid"] == 10
    assert [l["total_s"] for l in shown["lines"]] == sorted((l["total_s"] for l in shown["lines"]), reverse=True)


@pytest.mark.parametrize("span", [None, (1.2, 3.3)])
def test_busy_is_a_union(tool, busy, span):
    made, path = busy
    kernels = [(s, e) for site, s, e, _ in made.events if site[0] == "kernel" and e >= s]
    copies = [(s, e) for site, s, e, _ in made.events if site[0] in ("copy", "fill")]
    low, high = (S, 11 * S) if span is None else (int(span[0] * S), int(span[1] * S))
    device, = show(tool, path, *(["--from", f"{span[0]}s", "--to", f"{span[1]}s"] if span else []))["devices"]
    holes = gaps(kernels + copies, low, high)
    busy_ns, ks, cs = (length(x, low, high) for x in (kernels + copies, kernels, copies))
    assert device["traced_s"] == (high - low) / S and device["method"] == "exact"
    assert [round(device[k] * S) for k in ("busy_s", "kernels_s", "copies_s", "both_s")] == [busy_ns, ks, cs, ks + cs - busy_ns]
    assert device["gaps"] == len(holes)
    assert round(device["longest_gap_s"] * S) == max(b - a for b, a in holes)
    assert device["name"] == "NVIDIA H100 80GB HBM3"
    assert device["longest_gap_phase"] in ("data", None)


def test_a_span_and_steps(tool, busy):
    made, path = busy
    for options, low, high in (("--from=2.6s --to=3s", 26 * S // 10, 3 * S), ("--steps=3-4", 3 * S, 4 * S + S // 2), ("--from=3", 3 * S, 1 << 60)):
        shown = show(tool, path, *options.split())
        inside = made.durations("kernel", GEMM, lambda start: low <= start < high)
        assert line_of(shown, GEMM)["count"] == len(inside) > 0, options
        assert round(line_of(shown, GEMM)["total_s"] * S) == sum(inside)
    done = tool.run("trace", "--steps", "77", path)
    assert done.returncode == 1 and "77" in done.stderr


def test_by(tool, busy):
    made, path = busy
    ranges = show(tool, path, "--by", "range")
    assert len(ranges["lines"]) == 12 and all(l["count"] == 1 and l["share"] is None and l["threads"] == 1 for l in ranges["lines"])
    phases = {l["name"]: l["count"] for l in show(tool, path, "--by", "phase")["lines"]}
    inside = len(made.durations("kernel", None, lambda start: 3 * S <= start < 9 * S))
    assert phases == {"data": inside, "(no phase)": 6000 - inside}
    streams = {l["name"]: l["count"] for l in show(tool, path, "--by", "stream")["lines"]}
    assert streams["GPU 0 stream 8, python (4711)"] == 1000
    copies = {l["name"]: (l["count"], l["bytes"]) for l in show(tool, path, "--by", "copy")["lines"]}
    assert copies["HtoD pinned to device"] == (215, 215 << 20) and copies["memset"] == (60, 60 << 16)
    assert show(tool, path, "--by", "api")["lines"][0]["count"] == 3000
    assert show(tool, path, "--by", "process")["lines"][0]["count"] == 6000
    assert len(show(tool, path, "--top", "1")["lines"]) == 1


def test_text_and_csv(tool, busy):
    _, path = busy
    text = tool.run("trace", path).stdout
    assert re.search(r"^GPU 0 +NVIDIA H100 80GB HBM3 +traced 10 s of 12 s +complete, 0 of [\d,]+ records lost$", text, re.M), text
    assert re.search(r"^busy +\d+\.\d%  \(kernels [\d.]+, copies [\d.]+, both at once [\d.]+\) +idle [\d.]+%: [\d,]+ gaps, longest", text, re.M)
    assert "invalid 10" in text and "Med is bounded" not in text and DEMANGLED in text
    assert re.search(r"^copies +HtoD .*50% pageable\).* DtoH .* memset", text, re.M)
    narrow = tool.run("trace", path, env={"COLUMNS": "70"}).stdout.splitlines()
    assert all(len(l) <= 70 for l in narrow if not l.startswith("deeper"))
    rows = list(csv.DictReader(io.StringIO(tool.run("trace", "--csv", path).stdout)))
    assert [r["count"] for r in rows] == ["3000", "3000"] and {r["kernel"] for r in rows} == {GEMM, DEMANGLED}


def test_sums_stay_when_rows_go(tool):
    made = busy_trace()
    path = made.write(tool.folder / "thin.hiw", "limit=8192", "rows=300")
    with sqlite3.connect(path) as db:
        kept = db.execute("select count(*) from trace_kernel").fetchone()[0]
    assert kept < 5000
    shown = show(tool, path)
    line = line_of(shown, GEMM)
    truth = made.durations("kernel", GEMM)
    assert (line["count"], round(line["total_s"] * S)) == (3000, sum(truth))
    assert line["median_method"] == "bounded" and line["median_s"] * S == pytest.approx(statistics.median(truth), rel=0.012)
    assert shown["records"]["complete"] and shown["records"]["causes"]["thinned"] == shown["records"]["events"] - shown["records"]["rows"]
    text = tool.run("trace", path).stdout
    assert "Med is bounded" in text and "have no row" in text
    assert show(tool, path)["devices"] == show(tool, busy_trace().write(tool.folder / "whole.hiw"))["devices"]


def test_losses_are_told(tool):
    made = Trace()
    made.add("process", 1, "a", -1)
    kernel = made.site("kernel", 1, "k", device=0)
    made.event(kernel, 100, 200)
    made.add("lost", 1, "dropped", 3)
    made.add("lost", 0, "overwritten", 2)
    path = made.write(tool.folder / "lost.hiw")
    assert "5 of 6 records lost: 2 overwritten before they were read, 3 dropped by the GPU's library" in tool.run("trace", path).stdout
    shown = show(tool, path)
    assert not shown["records"]["complete"] and shown["records"]["lost"] == 5


def test_a_job_without_a_gpu(tool):
    made = Trace()
    made.add("process", 1, "a", -1)
    first = made.site("range", 1, "primitive", domain="dnnl::execute", tid=1)
    second = made.site("range", 1, "primitive", domain="dnnl::execute", tid=2)
    other = made.site("range", 1, "primitive", domain="dnnl::create", tid=1)
    mark = made.site("mark", 1, "now", tid=1)
    for i in range(50):
        made.event(first, i * 1000, i * 1000 + 100 + i)
        made.event(second, i * 1000, i * 1000 + 300)
    made.event(other, 7, 9)
    made.event(mark, 5, 5)
    shown = show(tool, made.write(tool.folder / "cpu.hiw"))
    assert shown["by"] == "range" and shown["devices"] == []
    lines = {(l["domain"], l["name"]): l for l in shown["lines"]}
    assert lines["dnnl::execute", "primitive"]["count"] == 100 and lines["dnnl::execute", "primitive"]["threads"] == 2
    assert lines["dnnl::create", "primitive"]["count"] == 1 and lines[None, "now"]["total_s"] is None
    text = tool.run("trace", tool.folder / "cpu.hiw").stdout
    assert "Threads" in text and "Time %" not in text and "dnnl::execute: primitive" in text and "ncu" not in text


def test_names_are_masked(tool):
    made = Trace()
    made.add("process", 1, "a\x1b[2J", -1)
    made.event(made.site("kernel", 1, "\x1b[2Jevil\x07$(reboot)'", device=0, gpu="\x1b]0;x\x07"), 100, 200)
    path = made.write(tool.folder / "evil.hiw")
    for options in ((), ("--by", "process"), ("--csv",), ("--ncu", "1"), ("--json",)):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", tool.run("trace", *options, path).stdout), options
    words = shlex.split(tool.run("trace", "--ncu", "1", path).stdout)
    assert re.match(words[words.index("--kernel-name") + 1].removeprefix("regex:"), "\x1b[2Jevil\x07$(reboot)'")


def test_the_ncu_line(tool):
    made = Trace(argv=("python", "my train.py", "--x=$HOME"))
    made.add("process", 1, "a", -1)
    made.add("process", 2, "b", -1)
    names = ["f<int>(int*)", "f<int>(int*, int)", "f<long>(int*)", "ff<int>(int*)", "g.a", "gxa", "h[1]|^$?{}()\\+'\"", "f<int>(int*) "]
    for n, name in enumerate(names):
        for process in (1, 2):
            kernel = made.site("kernel", process, name, device=0)
            for i in range(4 + n + 2 * process):
                made.event(kernel, 1000 * i, 1000 * i + 100 * (n + 1), 100 * n + i)
    path = made.write(tool.folder / "ncu.hiw")
    shown = show(tool, path)
    for number, line in enumerate(shown["lines"], 1):
        words = shlex.split(tool.run("trace", "--ncu", number, path).stdout)
        assert words[0] == "ncu" and words[words.index("--"):] == ["--", "python", "my train.py", "--x=$HOME"]
        option = {w: words[i + 1] for i, w in enumerate(words[:-1])}
        assert option["--kernel-name-base"] == "demangled" and option["--target-processes"] == "all"
        regex = option["--kernel-name"].removeprefix("regex:")
        assert [n for n in names if re.search(regex, n)] == [line["name"]]
        count = max(p["count"] for p in line["processes"])
        assert 0 < int(option["--launch-skip"]) + int(option["--launch-count"]) <= count
    done = tool.run("trace", "--ncu", 99, path)
    assert done.returncode == 1 and "no kernel 99" in done.stderr


@pytest.mark.parametrize("window, words", [
    ((0, 12 * S, "whole run"), []),
    ((3 * S, 5 * S, "3s+2s"), ["--delay=3", "--duration=2"]),
    ((3 * S, 5 * S, "api"), ["--capture-range=cudaProfilerApi"]),
    ((3 * S, 5 * S, "range ^(a|b)"), ["--delay=3", "--duration=2"]),  # nsys takes a name
    ((3 * S, 5 * S, "range ^my step$"), ["--capture-range=nvtx", "--nvtx-capture=my step", "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0"]),
])
def test_the_nsys_line(tool, window, words):
    made = Trace()
    made.add("process", 1, "a", -1)
    made.event(made.site("kernel", 1, "k", device=0), 100, 200)
    made.add("window", *window)
    line = shlex.split(tool.run("trace", "--nsys", made.write(tool.folder / "nsys.hiw")).stdout)
    assert line == ["nsys", "profile", "--trace=cuda,nvtx,osrt", *words, "--", "python", "train.py", "--name", "it's"]


def steps_of(tool, expression, names):
    """The ranges in the steps 2 to 3, of a run that was traced with this expression of steps."""
    made = Trace()
    if expression is not None:
        made.add("meta", "trace_step_re", expression)
    made.add("process", 1, "a", -1)
    for i, name in enumerate(names):
        made.event(made.site("range", 1, name, tid=5) if name not in names[:i] else names.index(name) + 1, i * S, i * S + S // 2)
    path = made.write(tool.folder / "steps.hiw")
    done = tool.run("trace", "--steps", "2-3", "--by", "range", "--json", path)
    if done.returncode:
        return done.stderr
    shown = json.loads(done.stdout)
    return shown["from_s"], shown["to_s"]


@pytest.mark.parametrize("expression, names, expected", [
    (None, ["step 1", "step 2", "step 3", "epoch 2"], (1, 2.5)),
    ("^epoch", ["step 2", "epoch 1", "epoch 2", "epoch 3 of 3"], (2, 3.5)),  # by the last number
    ("^train$", ["train", "other", "train", "train", "train"], (2, 3.5)),  # by how many began
    ("^epoch\x1b", ["step 2", "step 3"], "those that match '^epoch?' are"),
    ("(", ["step 1", "step 2"], (1, 1.5)),  # none: the usual names
    ("((a{1,255}){1,255}){1,255}", ["step 1", "step 2"], (1, 1.5)),
    (r"(a*)*\1", ["step 1", "step 2"], (1, 1.5)),
])
def test_steps_are_those_of_the_run(tool, expression, names, expected):
    found = steps_of(tool, expression, names)
    assert expected in found if isinstance(expected, str) else found == expected


def test_ranks_of_a_job(tool):
    folder = tool.folder / "job"
    folder.mkdir()
    for rank in range(3):
        made = Trace(rank=rank)
        made.add("metaint", "rank", rank)
        made.add("process", 100 + rank, "python", -1)
        for i in range(10 + rank):
            made.event(made.site("kernel", 1, "k", device=0), 1000 * i, 1000 * i + 10, i) if i == 0 else made.event(1, 1000 * i, 1000 * i + 10, i)
        made.write(folder / f"n1-r{rank}.hiw")
    shown = show(tool, folder)
    assert line_of(shown, "k")["count"] == 33 and len(shown["devices"]) == 3 and shown["recordings_given"] == 3
    assert {l["name"] for l in show(tool, folder, "--by", "process")["lines"]} == {f"rank {r} python ({100 + r})" for r in range(3)}
    done = tool.run("run", "--summary", "none", "--gpu=none", "-o", folder / "n1-r3.hiw", "--", "true")
    assert done.returncode == 0, done.stderr
    assert "of 4 recordings 3 were traced" in tool.run("trace", folder).stdout


def test_a_run_without_a_trace(tool):
    assert tool.run("run", "--summary", "none", "--gpu=none", "-o", "plain.hiw", "--", "true").returncode == 0
    done = tool.run("trace", "plain.hiw")
    assert done.returncode == 1 and "hiwater run --trace" in done.stderr
    assert tool.run("trace", "nothing.hiw").returncode == 1


@pytest.mark.parametrize("options", ["--by nothing", "--top x", "--steps 9-3", "--steps a", "--from 3 --to 2", "--json --csv", "--ncu 0",
                                     "--steps 1-2 --from 3", "--ncu 1 --by range", "--from never", "--bogus", "a b"])
def test_wrong_options(tool, options):
    done = tool.run("trace", *options.split())
    assert done.returncode == 2 and done.stderr


def test_damaged_tables(tool, busy):
    """Whatever the tables hold, the answer is a table or an error."""
    _, path = busy
    rng = random.Random(5)
    with sqlite3.connect(path) as db:
        tables = {t: [c[1] for c in db.execute(f"pragma table_info({t})")] for t, in
                  db.execute("select name from sqlite_master where name like 'trace_%' and type = 'table'")}
    for n in range(40):
        broken = tool.folder / "broken.hiw"
        shutil.copy(path, broken)
        with sqlite3.connect(broken) as db:
            for _ in range(4):
                table = rng.choice(sorted(tables))
                column = rng.choice(tables[table])
                value = rng.choice([None, -1, 1 << 62, -(1 << 63), 4294967297, "text", b"\xff\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f", 1.5e300])
                try:
                    db.execute(f"update {table} set {column} = ? where rowid % 3 = 0" if table in ("trace_process", "trace_name", "trace_site",
                               "trace_stat", "trace_window") else f"update or ignore {table} set {column} = ?", (value,))
                except sqlite3.Error:
                    pass
            if n % 10 == 0:
                db.execute(f"drop table {rng.choice(sorted(tables))}")
        for options in ((), ("--by", "range"), ("--from", "1"), ("--json",), ("--ncu", "1")):
            assert tool.run("trace", *options, broken).returncode in (0, 1), (n, options)


def test_many_rows_take_no_time(tool):
    """The time is that of the sums, not of the rows: a hundred times the rows take less than ten times as long."""
    def cpu(n):
        made = Trace()
        made.add("process", 1, "a", -1)
        made.site("kernel", 1, "k", device=0)
        made.add("many", 1, 0, 1000, 500, n)
        path = made.write(tool.folder / f"{n}.hiw")
        before = os.times().children_user
        for _ in range(5):
            assert show(tool, path)["kernels"] == n
        return os.times().children_user - before
    few, many = cpu(310_000), cpu(2_000_000)
    assert many < 3 * few + 0.1


# ---- compare ------------------------------------------------------------------------------------------------------------


def compare(tool, *args):
    return tool.run("compare", "--kernels", *args)


def test_a_slower_kernel_comes_first(tool):
    a = busy_trace(1).write(tool.folder / "a.hiw")
    b = busy_trace(1, 1.3).write(tool.folder / "b.hiw")
    done = compare(tool, a, b)
    first = done.stdout.splitlines()[1]
    assert done.returncode == 0 and GEMM in first
    assert 29 <= float(re.search(r"\+([\d.]+) %", first)[1]) <= 31
    shown = json.loads(compare(tool, "--json", a, b).stdout)
    truth = [sum(busy_trace(1, f).durations("kernel", GEMM)) for f in (1, 1.3)]
    line = shown["lines"][0]
    assert line["name"] == GEMM and [round(g["total_s"] * S) for g in line["groups"]] == truth
    assert line["groups"][1]["ratio"] == pytest.approx(truth[1] / truth[0])
    rule = 'kernel("*gemm*").total > +10%'
    assert compare(tool, "--fail-if", rule, a, b).returncode == 1
    assert tool.run("compare", "--fail-if", rule, a, b).returncode == 1  # also with the usual table
    assert compare(tool, "--fail-if", 'kernel("*gemm*").total > +40%', a, b).returncode == 0
    assert compare(tool, "--fail-if", 'kernel("nothing*").total > +40%', a, b).returncode == 3
    assert compare(tool, "--fail-if", 'kernel("*").count > 3001', "--fail-if", 'kernel("*gemm*").mean < 1ms', a, b).returncode == 1
    assert compare(tool, "--fail-if", 'range("ProfilerStep#3").total > +1%', a, b).returncode == 0
    assert compare(tool, "--fail-if", 'kernel("*").total > +0.001%', a, a).returncode == 0  # a file and itself


def test_the_judged_name_is_clean(tool):
    """Whatever a kernel is called, the terminal gets no control characters."""
    made = []
    for i, length in enumerate((1000, 9000)):
        t = Trace()
        t.add("process", 1, "a", -1)
        t.event(t.site("kernel", 1, "\x1b[2Jevil\x07\u202e" + "x" * 300, device=0), 0, length)
        made.append(t.write(tool.folder / f"{i}.hiw"))
    for args, base in ((made, "base 1"), ((tool.folder / "empty.hiw", made[1]), "not in the base")):
        if not args[0].exists():
            empty = Trace()
            empty.add("process", 1, "a", -1)
            empty.event(empty.site("kernel", 1, "other", device=0), 0, 10)
            empty.write(args[0])
        done = compare(tool, "--fail-if", 'kernel("*evil*").total > +10%', *args)
        assert done.returncode == 1 and base in done.stdout
        assert "[2Jevil" in done.stdout and not re.search("[\x00-\x09\x0b-\x1f\x7f-\u009f\u202e]", done.stdout)


@pytest.mark.parametrize("rule", ['kernel("x").total', 'kernel(x).total > 1%', 'kernel("x").peak > 1%', 'kernel("x").total > 3GiB',
                                  'range("x").count > 3s', 'kernel("x").total > 1% and ram.peak > 3', 'kernel("").total > 1s'])
def test_wrong_rules(tool, rule):
    done = compare(tool, "--fail-if", rule, "a", "b")
    assert done.returncode == 2 and "for example" in done.stderr


def test_new_and_gone(tool):
    made = []
    for names in (("both", "old"), ("both", "new")):
        t = Trace()
        t.add("process", 1, "a", -1)
        for i, name in enumerate(names):
            t.event(t.site("kernel", 1, name, device=0), 0, 1000 * (i + 1))
        made.append(t.write(tool.folder / f"{names[1]}.hiw"))
    lines = compare(tool, *made).stdout.splitlines()
    assert re.search(r"new .* new$", lines[1]) and re.search(r"gone .* old$", lines[3])
    assert {l["name"]: l["groups"][1]["state"] for l in json.loads(compare(tool, "--json", *made).stdout)["lines"]} == {
        "both": "both", "old": "gone", "new": "new"}


def test_groups_have_a_spread(tool):
    tool.history.mkdir(mode=0o700)
    totals = {"base": [100, 110, 120], "new": [200, 220, 240]}
    for number, (name, total) in enumerate(((n, t) for n, ts in totals.items() for t in ts), 1):
        made = Trace(name=name)
        made.add("metaint", "exit_status", 0)
        made.add("process", 1, "a", -1)
        made.event(made.site("kernel", 1, "k", device=0), 0, total * 1_000_000)
        made.write(tool.history / f"{number}.hiw")
    done = compare(tool, "base", "new")
    assert done.returncode == 0, done.stderr
    assert re.search(r"\+110 ms +\+100\.0 % +110 ms ± 10 ms +220 ms ± 20 ms", done.stdout), done.stdout


def test_compare_without_a_trace(tool, busy):
    assert tool.run("run", "--summary", "none", "--gpu=none", "-o", "plain.hiw", "--", "true").returncode == 0
    done = compare(tool, "plain.hiw", busy[1])
    assert done.returncode == 1 and "hiwater run --trace" in done.stderr
    assert HIWATER

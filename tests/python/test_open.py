# SPDX-License-Identifier: MIT
"""Recordings read from Python: summaries, tables, and type checks of a program that uses them."""
import json
import pathlib
import re
import runpy
import subprocess
import sys

import jsonschema
import pytest
from track_helpers import MIB, ROOT

RECORDED = """
with hiwater.track("train", output="a.hiw", interval=0.02) as run:
    for epoch in range(2):
        with run.phase("epoch", epoch=epoch):
            block = fill(50 * (epoch + 1)); time.sleep(0.7)
            run.log(loss=1 / (epoch + 1), step=epoch)
            del block
    run.mark("done")
"""


def test_the_summary_is_the_commands(program):
    program.run(RECORDED + """
opened = hiwater.open("a.hiw")
assert opened.path == run.path == os.path.abspath("a.hiw") and opened.is_complete
for s in (run.summary, opened.summary):
    assert s == hiwater.Summary.from_json(s.to_json()) and s.to_dict()["schema"] == 2
    (FOLDER / "summary.json").write_text(s.to_json())
assert run.summary == opened.summary
(FOLDER / "summary.txt").write_text(str(opened.summary) + "\\n")
tell(peak=s.ram_peak_bytes, cpu=s.cpu_s, wall=s.wall_s, name=s.run.name, wait=s.data_wait_s)
""")
    [told] = program.told()
    shown = json.loads(program.hiwater("show", "--json", program.folder / "a.hiw"))
    assert json.loads((program.folder / "summary.json").read_text()) == shown
    jsonschema.validate(shown, json.loads((ROOT / "docs" / "summary.schema.json").read_text()))
    assert (program.folder / "summary.txt").read_text() == program.hiwater("show", program.folder / "a.hiw")
    assert told["peak"] == shown["ram"]["combined"]["peak_bytes"] >= 100 * MIB and told["wall"] >= 1.4
    assert told["name"] == "train" and told["wait"] is None


def test_tables(program):
    program.run(RECORDED + """
r = hiwater.open("a.hiw")
job = r.columns()
assert job["t_s"] == sorted(job["t_s"]) and len(job["t_s"]) >= 2 and 0 < sum(job["span_s"]) <= run.summary.wall_s + 0.1
assert max(job["ram_max"]) == run.summary.ram_peak_bytes and "t" not in job
assert r.columns("series") == {"t_s": r.columns("series")["t_s"], "name": ["loss"] * 2, "step": [0, 1], "value": [1, 0.5]}
assert r.columns("phase")["name"] == ["epoch"] * 2 and r.columns("phase")["facts"] == ["epoch=0", "epoch=1"]
assert r.columns("event")["kind"].count("mark") == 1
assert set(r.columns("process")["pid"]) == {os.getpid()} and r.columns("gpu")["t_s"] == []
assert r.query("SELECT value FROM meta WHERE key = ?", "name") == (["value"], [("train",)])
for bad in (lambda: r.columns("jobs"), lambda: r.query("SELECT nothing"), lambda: r.query("DELETE FROM meta")):
    try: bad()
    except hiwater.Error: pass
    else: raise AssertionError
""")


def test_arrays(program):
    """The same values as the lists; numpy uses them without a copy; unknown is NaN."""
    pytest.importorskip("numpy")
    program.run(RECORDED + """
import math
r = hiwater.open("a.hiw")
for entity in ("host", "job", "process", "gpu", "gpu_process", "series", "event", "phase"):
    lists, arrays = r.columns(entity), r.arrays(entity)
    assert list(lists) == list(arrays)
    for name, values in lists.items():
        array = arrays[name]
        if isinstance(array, list):
            assert array == values and all(v is None or isinstance(v, str) for v in array)
            continue
        assert array.itemsize == 8 and array.readonly and len(array) == len(values)
        assert array.format == ("q" if all(isinstance(v, int) for v in values) and values else array.format)
        assert [None if math.isnan(v) else v for v in array] == values, name
assert r.arrays()["ram"].format == "q" and r.arrays()["t_s"].format == "d"
assert "numpy" not in sys.modules
import numpy
column = r.arrays()["ram_max"]
array = numpy.asarray(column)
assert not array.flags.owndata and array.max() == run.summary.ram_peak_bytes and array.dtype == numpy.int64
os.chmod(".", 0o500)
assert list(hiwater.Recording(os.path.abspath("a.hiw")).arrays()["ram"]) == r.columns()["ram"]
os.chmod(".", 0o700)
open("b.hiw", "w").write("no recording")
for bad in (lambda: r.arrays("jobs"), lambda: hiwater.Recording("b.hiw").arrays(), lambda: hiwater.Recording("c.hiw").arrays()):
    try: bad()
    except hiwater.Error: pass
    else: raise AssertionError
""")


def test_without_its_c_part_only_that_is_missing(program):
    pytest.importorskip("pandas")
    program.env["HIWATER_CORE"] = "/nowhere/_core.so"
    program.run(RECORDED + """
assert run.to_pandas("job")["ram_max"].max() == run.summary.ram_peak_bytes
try: run.recording.arrays()
except hiwater.Error as e: assert "C extension" in str(e)
else: raise AssertionError
""")


def test_pandas_and_matplotlib(program):
    pytest.importorskip("pandas")
    pytest.importorskip("matplotlib")
    program.run(RECORDED + """
assert not {"pandas", "matplotlib", "numpy"} & set(sys.modules)
frame = run.to_pandas("job")
assert frame.index.name == "t_s" and frame["ram_max"].max() == run.summary.ram_peak_bytes
assert list(run.to_pandas("series").value) == [1, 0.5] and list(run.to_pandas("phase").name) == ["epoch"] * 2
figure = run.plot()
assert [axis.get_ylabel() for axis in figure.axes] == ["RAM, GiB", "cores", "loss"]
lines = figure.axes[-1].get_lines()
assert list(lines[0].get_ydata()) == [1, 0.5]
figure.savefig("a.png")
assert os.path.getsize("a.png") > 10000 and "matplotlib.pyplot" not in sys.modules
try: run.plot("los")
except hiwater.Error as e: assert "loss" in str(e)
else: raise AssertionError
""")


def test_full_rate_and_the_wall_clock(program):
    """Every sample, as SQLite has it; the wall clock is that of the start plus t_s."""
    pytest.importorskip("pandas")
    program.run(RECORDED + """
import sqlite3
stored = sqlite3.connect("a.hiw").execute("SELECT t, ram FROM job_recent ORDER BY t").fetchall()
started = int(sqlite3.connect("a.hiw").execute("SELECT value FROM meta WHERE key = 'started_wall_ns'").fetchone()[0])
full = run.to_pandas("job", rate="full")
assert len(full) == len(stored) > 2 * len(run.to_pandas("job")) and list(full.index) == [t / 1e9 for t, _ in stored]
assert [int(v) for v in full.ram.dropna()] == [ram for _, ram in stored if ram is not None]
for frame in (full, run.to_pandas("job"), run.to_pandas("host", rate="full"), run.to_pandas("series"), run.to_pandas("event")):
    assert str(frame.time.dtype) == "datetime64[ns, UTC]"
    assert all(abs(time.value - started - t * 1e9) < 1000 for t, time in frame.time.items())
phases = run.to_pandas("phase")
assert [abs(t.value - started - b * 1e9) < 1000 for t, b in zip(phases.time, phases.begin_s)] == [True] * 2
assert set(run.recording.columns("process", rate="full")) >= {"t_s", "pid", "name", "rss"} and "rss_max" not in full.columns
assert list(run.recording.arrays("job", rate="full")["t_s"]) == list(full.index)
for bad in (lambda: run.to_pandas("job", rate="fast"), lambda: run.to_pandas("jobs", rate="full")):
    try: bad()
    except hiwater.Error as e: assert "unknown" in str(e) and "windows, full" in str(e) or "job" in str(e)
    else: raise AssertionError
with sqlite3.connect("a.hiw") as db: db.execute("DELETE FROM meta WHERE key = 'started_wall_ns'")
assert run.to_pandas("job").time.isna().all()
""")


def test_logged_values_joined_with_use(program):
    """Each logged value has the last sample at or before it; older than full rate, the window around it; in a gap, nothing."""
    pytest.importorskip("pandas")
    program.run("""
import sqlite3
with hiwater.track("train", output="a.hiw", interval=0.02) as run:
    for step in range(3):
        time.sleep(0.6)
        run.log(loss=1 / (step + 1), ram=step, step=step)
    run.log(accuracy=float("nan"))
with sqlite3.connect("a.hiw") as db:
    times = [t for t, in db.execute("SELECT DISTINCT t FROM series_value ORDER BY t")]
    db.execute("DELETE FROM job_recent"); db.execute("DELETE FROM job_sample")
    SEC = 10**9
    # the first logged value lies in a window only, the second behind a sample, the third in a gap
    db.execute("INSERT INTO job_sample (t, span, n, ram, ram_max, cpu_user) VALUES (0, ?, 1, 7000, 9000, 5)", (times[0] + 1000,))
    for t, ram in ((times[1] - SEC // 2, 111), (times[1] - SEC // 100, 222), (times[1] + 1, 333)):
        db.execute("INSERT INTO job_recent (t, span, n, ram) VALUES (?, 0, 1, ?)", (t, ram))
    db.execute("INSERT INTO job_recent (t, span, n) VALUES (?, 0, 1)", (times[1] - 5,))  # it did not read this
    db.execute("UPDATE series_value SET t = t + 10 * ? WHERE t >= ?", (SEC, times[2]))
table = run.joined("job")
assert table.index.name == "t_s" and len(table) == 4 and str(table.time.dtype) == "datetime64[ns, UTC]"
assert list(table.loss)[:3] == [1, 1 / 2, 1 / 3] and list(table.step)[:3] == [0, 1, 2] and table.accuracy.isna().all()
assert table.step.isna().tolist() == [False] * 3 + [True]
assert list(table.ram)[:3] == [0, 1, 2]  # the program's own series of that name
assert list(table.ram_job)[:2] == [7000, 222] and table.ram_job.isna().tolist() == [False, False, True, True], table.ram_job
assert list(table.cpu_user)[:1] == [5] and table.cores.isna().all() and "id" not in table and "ram_max" not in table
try: run.joined("process")
except hiwater.Error as e: assert "host, job, gpu" in str(e), e
else: raise AssertionError
with hiwater.track(output="b.hiw") as other: pass
nothing, no_gpu = other.joined(), run.joined("gpu")
with sqlite3.connect("a.hiw") as db:
    db.execute("UPDATE job_recent SET cpu_user = t / 2, cpu_system = t / 4")  # three quarters of a core
cores = run.joined("job").cores
assert [abs(c - 0.75) < 0.01 for c in cores.dropna()] == [True, True] and cores.isna().tolist() == [False, False, True, True], cores
assert len(nothing) == len(no_gpu) == 0 and {"ram", "cores"} <= set(nothing.columns) and {"loss", "gpu", "mem"} <= set(no_gpu.columns)
sys.modules["pandas"] = None
try: run.joined()
except hiwater.Error as e: assert "pip install pandas" in str(e)
else: raise AssertionError
""")


def test_what_a_notebook_shows(program):
    """A picture, and short tables; none raises, before the start, while it runs, at its end, in another process."""
    pytest.importorskip("matplotlib")
    program.run("""
import pickle, re
run = hiwater.track("fit<&>", interval=0.02)
assert repr(run) == "hiwater.Run('fit<&>'), not started" and run._repr_html_() is None
with run:
    assert repr(run) == "hiwater.Run('fit<&>'), running"
    assert "so far" in repr(run.summary) and "so far" in run._repr_html_()
    for epoch in range(2):
        with run.phase("epoch", epoch=epoch):
            block = fill(50); time.sleep(0.6)
            for i in range(40): run.log({f"a_long_name_of_a_series,_number_{i}_" + 60 * "x": i})
    run.log(loss=0.5)
for shown in (run, run.summary, hiwater.open("fit<&>").summary):
    lines, table = repr(shown).splitlines(), shown._repr_html_()
    assert len(repr(shown)) <= 700 and re.match(r"fit<&>   [0-9.]+ m?s", lines[0]), lines
    assert [l for l in lines if re.match("RAM +peak [0-9.]+ MiB exact", l)] and [l for l in lines if l.startswith("CPU ")]
    assert [l for l in lines if re.match("Phases +epoch 0 [0-9.]+ m?s, epoch 1 [0-9.]+ m?s", l)], lines
    assert table.startswith("<table") and "fit&lt;&amp;&gt;" in table and "epoch 1" in table and "<fit" not in table
    assert str(hiwater.open("fit<&>").summary) != repr(shown)
assert [p.label for p in run.summary.phases] == ["epoch 0", "epoch 1"]
advice = [{"code": "x", "severity": "hint", "message": f"advice {i} " + 200 * "w"} for i in range(9)]
full = hiwater.Summary.from_json(json.dumps({**run.summary.to_dict(), "command": ["c" * 999], "run": {}, "findings": advice, "energy": {"gpu_j": 5}}))
assert 500 < len(repr(full)) <= 700 and "advice 0" in full._repr_html_() and "advice 0" in repr(full)
assert hiwater.open("fit<&>")._repr_html_() == run._repr_html_() and hiwater.Recording("/nowhere")._repr_html_() is None
copy = pickle.loads(pickle.dumps(run))
assert repr(copy) == "hiwater.Run('fit<&>'), measured in another process" and copy._repr_html_() is None
long = hiwater.track("n" * 1000)
assert len(repr(long)) <= 700
import matplotlib.figure
figure = run.plot("loss")
assert isinstance(figure, matplotlib.figure.Figure) and figure._repr_png_()[:8] == b"\\x89PNG\\r\\n\\x1a\\n"
assert len(repr(figure)) <= 700 and isinstance(pickle.loads(pickle.dumps(figure)), matplotlib.figure.Figure)
assert "matplotlib.pyplot" not in sys.modules
""")


def test_a_plot_names_its_lines_and_reaches_the_end(program):
    pytest.importorskip("matplotlib")
    program.run(RECORDED + """
figure = run.plot()
ram = figure.axes[0]
line, peak = ram.get_lines()[:2]  # then the mark
full = run.recording.columns("job", rate="full")
windows = run.recording.columns("job")
end = max(t + span for t, span in zip(windows["t_s"], windows["span_s"]))
assert len(line.get_xdata()) >= len([v for v in full["ram"] if v is not None]) > len(windows["t_s"])
assert windows["t_s"][-1] < end and all(abs(line.get_xdata()[-1] - end) < 1e-6 for line in (line, peak))
assert max(peak.get_ydata()) * (1 << 30) == run.summary.ram_peak_bytes
assert {t.get_text() for t in ram.texts} == {"RAM", "RAM, peak", "epoch 0", "epoch 1"} and ram.get_legend() is None
figure.savefig("a.png")
places = sorted(t.get_window_extent().y0 for t in ram.texts if t.get_text().startswith("RAM"))
assert places[1] - places[0] > 8
""")


def test_two_runs(program):
    program.run("""
def one(name, mib):
    with hiwater.track(name) as run:
        block = fill(mib)
        time.sleep(1.05)
    return run
a, b = one("base", 20), one("new", 200)
compared = hiwater.compare("base", "new")
assert compared.groups == ["base", "new"] and str(compared) == str(hiwater.compare(a, b)) == str(hiwater.compare(1, pathlib.Path(b.path)))
ram = compared.figures["ram.combined.peak_bytes"]
assert ram[1].values == [b.summary.ram_peak_bytes] and ram[1].ratio > 2 and ram[1].result == "single-runs" and ram[0].result is None
assert str(compared).endswith(f"Result: {compared.conclusion}.") and compared.conclusion in repr(compared)
assert compared._repr_markdown_().startswith("| ") and compared.to_dict()["groups"][1]["name"] == "new"
assert hiwater.compare(hiwater.open("base"), b, by="name").to_dict()["groups"][0]["by"] == {"name": "base"}
for bad, words in ((lambda: hiwater.compare("base"), "at least two"), (lambda: hiwater.compare("base", "nowhere"), "nowhere"),
                   (lambda: hiwater.compare("base", 1.5), "1.5 is not a run"), (lambda: hiwater.report("base", "nowhere"), "nowhere")):
    try: bad()
    except hiwater.Error as e: assert words in str(e), e
    else: raise AssertionError
with hiwater.track("short") as c: pass
with hiwater.track("short") as d: pass
assert len(hiwater.compare(c, d).groups) == 2
try:
    assert hiwater.report(a, "new", path="two.html") == os.path.abspath("two.html")
    page = pathlib.Path("two.html").read_text()
    assert "base" in page and "new" in page and compared.report("three.html") == os.path.abspath("three.html")
    assert os.path.exists(hiwater.report(a, b))
except hiwater.Error as e:
    assert "built without uPlot" in str(e)
""")


def test_a_plot_has_cores_between_readings(program):
    """Counters are read at instants of their own: a core that is busy all the time is one core in
    each window. Amounts start at 0."""
    pytest.importorskip("matplotlib")
    program.run(RECORDED + """
import sqlite3
with sqlite3.connect("a.hiw") as db:
    db.execute("UPDATE job_recent SET cpu_user = t, cpu_system = 0 WHERE cpu_user IS NOT NULL")
    db.execute("UPDATE job_sample SET cpu_user = (SELECT max(cpu_user) FROM job_recent r WHERE r.t <= job_sample.t + job_sample.span), "
               "cpu_system = 0")
ram, cores, loss = hiwater.open("a.hiw").plot().axes
line = cores.get_lines()[0]
drawn = list(line.get_ydata())
assert len(drawn) >= 2 and all(abs(v - 1) < 1e-9 for v in drawn), drawn
assert ram.get_ylim()[0] == cores.get_ylim()[0] == 0 < loss.get_ylim()[0]
assert ram.get_ylim()[1] > 1.04 * max(ram.get_lines()[1].get_ydata())  # what is level is not under the frame
""")


def test_parquet(program):
    """pyarrow reads the values of SQLite; the types do not depend on the values."""
    pytest.importorskip("pyarrow")
    program.run(RECORDED + """
import json, sqlite3
assert "pyarrow" not in sys.modules
for entity in ("host", "job", "process", "gpu", "gpu_process", "series", "event", "phase"):
    assert run.to_parquet(FOLDER / f"{entity}.parquet", entity) == str(FOLDER / f"{entity}.parquet")
import pyarrow, pyarrow.parquet as parquet
job = parquet.read_table("job.parquet")
stored = sqlite3.connect("a.hiw").execute("SELECT t, ram_max, cgroup_mem FROM job_sample ORDER BY t").fetchall()
assert job["ram_max"].to_pylist() == [row[1] for row in stored] and job["t_s"].to_pylist() == [row[0] / 1e9 for row in stored]
assert job["cgroup_mem"].to_pylist() == [row[2] for row in stored] and job.schema.field("cgroup_mem").type == pyarrow.int64()
assert json.loads(job.schema.metadata[b"hiwater.summary"])["ram"]["combined"]["peak_bytes"] == run.summary.ram_peak_bytes
assert parquet.read_table("series.parquet")["value"].to_pylist() == [1, 0.5]
gpu = parquet.read_table("gpu.parquet")
assert gpu.num_rows == 0 and gpu.schema.field("mem").type == pyarrow.int64()
before = (FOLDER / "job.parquet").read_bytes()
try: run.to_parquet("job.parquet", "jobs")
except hiwater.Error as e: assert "unknown entity" in str(e)
else: raise AssertionError
try: run.to_parquet("no/folder.parquet")
except hiwater.Error as e: assert "cannot write" in str(e)
else: raise AssertionError
assert (FOLDER / "job.parquet").read_bytes() == before
assert sorted(p.name for p in FOLDER.iterdir() if ".parquet." in p.name) == []
sys.modules["pyarrow"] = None
try: run.to_parquet("job.parquet")
except hiwater.Error as e: assert "pip install pyarrow" in str(e)
else: raise AssertionError
""")


def test_parquet_that_was_cut_off(program):
    """The file has no name until it is complete, so SIGKILL leaves nothing; an existing file of
    that name stays."""
    pytest.importorskip("pyarrow")
    program.run(RECORDED + """
import subprocess
target = FOLDER / "out" / "job.parquet"
target.parent.mkdir()
target.write_bytes(b"before")
written = '''
import os, signal, sys, hiwater, pyarrow.parquet as parquet
def close(writer):
    assert any(os.path.dirname(sys.argv[1]) in os.readlink(fd.path) for fd in os.scandir("/proc/self/fd")), "the write has begun"
    os.kill(os.getpid(), signal.SIGKILL)
parquet.ParquetWriter.close = close
hiwater.open("a.hiw").to_parquet(sys.argv[1])
'''
assert subprocess.run([sys.executable, "-c", written, str(target)]).returncode == -signal.SIGKILL
assert [p.name for p in target.parent.iterdir()] == ["job.parquet"] and target.read_bytes() == b"before"
mask = os.umask(0o027)
run.to_parquet(target)
os.umask(mask)
assert [p.name for p in target.parent.iterdir()] == ["job.parquet"] and target.read_bytes()[:4] == b"PAR1"
assert target.stat().st_mode & 0o777 == 0o640
os.chdir(target.parent)
os.open = (lambda original: lambda path, flags, *rest, **more: original("/nowhere" if flags & os.O_TMPFILE == os.O_TMPFILE else path, flags, *rest, **more))(os.open)
assert run.to_parquet("other.parquet") and sorted(os.listdir(".")) == ["job.parquet", "other.parquet"]
""")


def test_a_report(program):
    program.run(RECORDED + """
try: run.report(FOLDER / "run.html")
except hiwater.Error as e:
    tell(missing=str(e))
else:
    hiwater.open("a.hiw").report("redacted.html", redact=True)
    tell(plain=(FOLDER / "run.html").read_text(), redacted=(FOLDER / "redacted.html").read_text())
    try: run.report(FOLDER / "no" / "folder.html")
    except hiwater.Error as e: assert "cannot write" in str(e)
    else: raise AssertionError
""")
    [told] = program.told()
    if "built without uPlot" in told.get("missing", ""):
        pytest.skip("built without uPlot, which cannot be had here")
    assert "<title>train - hiwater</title>" in told["plain"] and "python" in told["plain"]
    assert "<title>train - hiwater</title>" in told["redacted"] and sys.executable not in told["redacted"]


def test_without_pandas_and_matplotlib_it_says_so(program):
    program.run(RECORDED + """
sys.modules["pandas"] = sys.modules["matplotlib"] = sys.modules["matplotlib.figure"] = None
for ask, word in ((run.to_pandas, "pandas"), (run.plot, "matplotlib")):
    try: ask()
    except hiwater.Error as e: assert f"pip install {word}" in str(e)
    else: raise AssertionError
""")


def test_which_run(program):
    """By path, number and name; the last one. Short runs are not kept."""
    program.run("""
        import pathlib
        for name in ("one", "two"):
            with hiwater.track(name) as run: time.sleep(1.2)
        with hiwater.track("short") as short: pass
        assert hiwater.open().summary.run.name == hiwater.open("two").summary.run.name == "two"
        assert hiwater.open(1).summary.run.name == hiwater.open("one").summary.run.name == "one"
        assert hiwater.open(pathlib.Path(run.path)).summary == run.summary
        assert short.summary.run.complete and short.summary.run.recording is None
    """)
    assert program.hiwater("runs").count("short") == 0


def test_a_short_run_in_the_hand_can_be_shown(program):
    """Its recording is removed with the object, and with the process; a forked child does not
    remove its parent's."""
    (program.folder / "tmp").mkdir()
    program.env["TMPDIR"] = str(program.folder / "tmp")
    program.run("""
        import gc, multiprocessing
        def short():
            with hiwater.track("short") as run: run.log(loss=1.5)
            return run
        def folders(): return sorted(os.listdir(FOLDER / "tmp"))
        run = short()
        if run.summary.wall_s < 1:
            assert run.recording.is_temporary and os.stat(os.path.dirname(run.path)).st_mode & 0o777 == 0o700
            try: run.report()
            except hiwater.Error as e: assert "report('run.html')" in str(e)
            else: raise AssertionError
        assert run.report("page.html") and run.recording.columns("series")["value"] == [1.5]
        assert run.recording.is_complete and run.recording.summary.phases == []
        if os.fork() == 0:
            run = None; hiwater._run._finished.clear(); gc.collect()
            sys.exit(0)
        os.wait()
        assert run.recording.columns("series")["value"] == [1.5]
        child = multiprocessing.get_context("fork").Process(target=short)
        child.start(); child.join()
        run = recording = short().recording
        assert len(folders()) == 1, folders()  # the one before is gone, and so is the child's
        assert recording.columns("series")["value"] == [1.5]
        with hiwater.track(record=False) as run: pass
        assert run.path is None
        left_open = hiwater.start()
    """)
    assert list((program.folder / "tmp").iterdir()) == [] and "short" not in program.hiwater("runs")


def test_short_runs_that_nobody_looks_at_hold_nothing(program):
    """stop does not wait for these recordings, and they keep neither recorders nor more than one
    descriptor until they are used."""
    (program.folder / "tmp").mkdir()
    program.env["TMPDIR"] = str(program.folder / "tmp")
    program.run("""
        def descriptors(): return len(os.listdir("/proc/self/fd"))
        hiwater.track(record=False).start().stop()
        before = descriptors()
        runs = []
        for i in range(20):
            runs.append(hiwater.track(interval=1).start())
            runs[-1].log(number=i)
            runs[-1].stop()
        assert runs[-1].summary.wall_s > 1 or runs[-1]._pending_spare, "stop has waited for the recording"
        # a recorder that keeps a short run, and where process 1 does not reap, the end of its reaper
        assert descriptors() <= before + 2, descriptors() - before
        end = time.monotonic() + 30
        while recorders() and time.monotonic() < end: time.sleep(0.01)
        assert not recorders()
        short = [(i, run) for i, run in enumerate(runs) if run.summary.wall_s < 1]
        for i, run in short:
            assert run.recording.columns("series")["value"] == [i] and run.recording.is_complete
        assert descriptors() <= before
    """)
    assert list((program.folder / "tmp").iterdir()) == []


def test_one_that_grows_and_one_that_was_cut_off(program):
    program.run("""
        with hiwater.track(output="a.hiw", interval=0.02) as run:
            block = fill(100)
            while run.path is None or len(hiwater.open(run.path).columns()["t_s"]) < 2:
                time.sleep(0.05)
                run.summary
            growing = hiwater.open("a.hiw")
            before = len(growing.columns()["t_s"])
            assert not growing.is_complete and not growing.summary.run.complete
            assert growing.summary.ram_peak_bytes >= 100 * MIB
            while len(growing.columns()["t_s"]) == before: time.sleep(0.05)
            [pid] = recorders()
            os.kill(pid, signal.SIGKILL)
        cut = hiwater.open("a.hiw")
        assert not cut.is_complete and cut.summary == run.summary and len(cut.columns()["t_s"]) > before
        assert cut.summary.ram_peak_bytes >= 100 * MIB
    """)


def test_a_program_that_uses_it_is_well_typed(tmp_path):
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "--python-version", "3.10",
                           str(pathlib.Path(__file__).parent / "typed_example.py")], capture_output=True, text=True,
                          env={"MYPYPATH": str(ROOT / "python"), "PATH": "/usr/bin:/bin"}, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_typed_program_runs(program):
    text = (pathlib.Path(__file__).parent / "typed_example.py").read_text()
    process = program.start(text)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert "AAA" in stdout


def test_the_old_columns_are_those_of_the_command():
    """The package and the command translate the names of schema 1 alike."""
    source = (ROOT / "src" / "model" / "schema1.c").read_text()
    metrics = source[source.index("/* metrics */"):source.index("/* facts */")]
    package = runpy.run_path(str(ROOT / "python" / "hiwater" / "_schema1.py"))
    assert {then: now for now, then in re.findall(r'\{ "(\w+)", "(\w+)" \}', metrics)} == package["_RENAMED"]

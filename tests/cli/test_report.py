# SPDX-License-Identifier: MIT
"""hiwater report, without a browser. The judges: Python's html.parser, hashlib, zlib, json; sqlite3's rows of the recording."""
import base64
import hashlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys

import long_recordings
import pytest
from cli_helpers import HIWATER, ROOT, Tool, wait_for
from report_data import Page, column, payload, table
from stress_jobs import query
from svg_pictures import pictures

EVIL = '</script><script>alert(1)</script>"\'&<img src=x onerror=alert(2)>\u202e'
JOB = """
import os, socket, subprocess, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect("\\0" + os.environ["HIWATER_SOCKET"][1:])
evil = sys.argv[1]
s.send(b"phase+ outer")
s.send(("phase+ in " + evil).encode())
child = subprocess.Popen(["sleep", "2.5"])
while time.process_time() < 0.7:
    pass
data = bytearray(200 << 20)
time.sleep(0.3)
s.send(("phase- in " + evil).encode())
del data
for step, loss in enumerate(("4", "nan", "0.25", "-inf", "1e300")):
    s.send(f"log loss={loss} <b>={step} step={step}".encode())
    s.send(f"log train/loss={loss} step={step}".encode())
    time.sleep(0.5)
s.send(("mark " + evil).encode())
child.wait()
s.send(b"phase- outer")
s.send(b"phase+ open\\nepoch=<3>")
time.sleep(0.2)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run with a child, phases, a mark, series with what is no number, hostile texts, 200 MB that are gone at once."""
    tool = Tool(tmp_path_factory.mktemp("reported"))
    (tool.folder / "job.py").write_text(JOB)
    done = tool.run("run", "--summary", "none", "-n", "study<i>", "-i", "20ms", "--request", "ram=1GiB", "-o", "run.hiw", "--",
                    sys.executable, "job.py", EVIL)
    assert done.returncode == 0, done.stderr
    yield tool, tool.folder / "run.hiw"
    tool.end_all()


def report(tool, *args, status=0):
    done = tool.run("report", *args)
    if "built without uPlot" in done.stderr:
        pytest.skip("built without uPlot, which cannot be had here")
    assert done.returncode == status, done.stderr
    return done


def page_of(tool, *args):
    report(tool, *args, "-o", "page.html")
    return Page((tool.folder / "page.html").read_text(encoding="utf-8"))


def test_a_run_that_is_given_twice_is_refused(made):
    tool, run = made
    done = report(tool, run, run, "-o", "twice.html", status=2)
    assert done.stderr == f"hiwater: {run} is given twice; leave one out\n" and not (tool.folder / "twice.html").exists()


# ---- the page ----

def test_nothing_is_loaded_and_the_policy_allows_one_style_and_one_program(made):
    page = page_of(*made)
    policy = next(m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'" and rules["base-uri"] == "'none'" and rules["form-action"] == "'none'"
    digest = lambda text: "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
    assert len(page.styles) == 1 and rules["style-src"] == digest(page.styles[0])
    assert len(page.scripts) == 2 and rules["script-src"] == digest(page.scripts[1]), "the data and the program"
    for tag, attrs in page.elements:
        assert not {"src", "srcset", "style", "action", "data", "poster"} & set(attrs), (tag, attrs)
        assert not any(name.startswith("on") for name in attrs), (tag, attrs)
        assert attrs.get("href", "#").startswith("#"), (tag, attrs)
    assert not {t for t, _ in page.elements} & {"link", "img", "iframe", "object", "embed", "base", "video", "audio"}


def test_the_license_of_uplot_goes_with_it(made):
    program = page_of(*made).scripts[1]
    assert "Copyright (c) 2022 Leon Sorokin" in program and "WITHOUT WARRANTY OF ANY KIND" in program and "v1.6.31" in program


def test_what_the_recording_says_is_text(made):
    """Names, commands, marks and phases that are written to break out of the page."""
    page = page_of(*made)
    assert len(page.scripts) == 2 and "alert(1)" not in page.scripts[1]
    assert page.inside["title"].startswith("study<i>")
    assert "</script><script>alert(1)</script>" in page.text, "the command and the phase are shown"
    assert "\u202e" not in page.source, "nothing turns the direction of text"
    assert not page.all("img") and not page.all("i")


def test_ids_are_unique_and_tags_are_closed(made):
    page = page_of(*made)
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    void = {"meta", "br", "input", "hr"}
    for tag in {t for t, _ in page.elements} - void:
        # What stands in scripts is no markup.
        outside = re.sub(r"<script.*?</script>|<style.*?</style>", "", page.source, flags=re.S) if tag not in ("script", "style") else page.source
        opened, closed = len(re.findall(rf"<{tag}[\s>/]", outside)), len(re.findall(rf"</{tag}>|<{tag}\s[^>]*/>", outside))
        assert opened == closed, tag


def test_it_reads_without_a_program(made):
    """Figures, findings, tables, pictures and the summary are there before any JavaScript runs."""
    tool, path = made
    page = page_of(tool, path)
    summary = json.loads(tool.run("show", "--json", path).stdout)
    mib = summary["ram"]["combined"]["peak_bytes"] / 2**20
    assert f"{mib:.0f} MiB" in page.text and summary["ram"]["combined"]["source"] in page.text
    assert len(page.all("svg")) >= 2 and "How this was measured" in page.text
    assert "Result    exit" in page.text.replace("\xa0", " "), "the summary as text"
    assert "epoch=<3>" in page.text


def test_no_finding_is_no_praise(tool):
    """Most rules judge longer runs only, and a run whose end nobody saw did not go well."""
    assert tool.run("run", "--summary", "none", "--gpu", "none", "-o", "well.hiw", "--", "sleep", "1.2").returncode == 0
    assert re.search(r"Nothing to advise\. The run was too short for \d\d of \d\d checks\.", page_of(tool, "well.hiw").text)
    with sqlite3.connect(tool.folder / "well.hiw") as db:
        db.execute("DELETE FROM meta WHERE key IN ('ended_ns', 'exit_status')")
    db.close()
    text = page_of(tool, "well.hiw").text
    assert "The recorder was lost after" in text and "Nothing to advise" not in text


# ---- the data ----

def test_windows_are_what_the_recording_has(made):
    """At full rate where it is known; memory to the byte, low, mean and high."""
    tool, path = made
    job = table(payload(page_of(tool, path))["runs"][0], "job")
    ram = column(job, "ram")
    stored = query(path, "SELECT t, ram FROM job_recent WHERE ram IS NOT NULL ORDER BY t")
    shown = [(t, v) for t, v in zip(job["t"], ram["mean"]) if v is not None]
    assert len(shown) == len(stored) > 20 and ram["step"] == 1
    for (t, value), (t_ns, bytes_) in zip(shown, stored):
        assert t == pytest.approx(t_ns / 1e9, abs=1e-6) and value == bytes_
    assert max(v for v in ram["high"] if v is not None) > 200 << 20, "the burst is there"


def test_rates_add_up_to_what_was_used(made):
    tool, path = made
    job = table(payload(page_of(tool, path))["runs"][0], "job")
    used = stored = 0
    for name in ("cpu_user", "cpu_system"):
        rate = column(job, name)
        assert rate["rate"] and rate["unit"] == "ppm"
        rows = query(path, f"SELECT t, {name} FROM job_recent WHERE {name} IS NOT NULL ORDER BY t")
        read = [(t, v) for t, v in zip(job["t"], rate["mean"]) if v is not None]
        used += sum(v * (t - before) for (before, _), (t, v) in zip([(rows[0][0] / 1e9, 0), *read], read))
        stored += (rows[-1][1] - rows[0][1]) / 1e9
    assert stored > 0.6 and used == pytest.approx(stored, abs=0.15)


@pytest.mark.parametrize("cancelled", ["cancelled", "of before"])
def test_writes_are_those_of_the_summary(tmp_path, cancelled):
    """A MiB a second, and in every fifth four more, of which the file is deleted two seconds later. Recordings of before have no
    counter of what was cancelled, and without it their writes never fall."""
    path = tmp_path / "run.hiw"
    long_recordings.make(HIWATER, path, hours=0.1, processes=1, burst_at=7)
    deleted = {"cancelled": "((t / 1000000000 - 2) / 5) * 4", "of before": "NULL"}[cancelled]
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE job_sample SET write_cancelled = ({deleted}) << 20,"
                   f" write_bytes = (t / 1000000000 + {'(t / 1000000000 / 5) * 4' if cancelled == 'cancelled' else '0'}) << 20")
        written, = db.execute("SELECT max(write_bytes - coalesce(write_cancelled, 0)) FROM job_sample").fetchone()
    db.close()
    shown = table(payload(page_of(Tool(tmp_path), path))["runs"][0], "job")
    rates = [(mean, span) for mean, span in zip(column(shown, "write_bytes")["mean"], shown["span"]) if mean is not None]
    assert sum(mean * span for mean, span in rates) == pytest.approx(written, rel=0.03)


def test_series_are_what_was_logged(made):
    tool, path = made
    run = payload(page_of(tool, path))["runs"][0]
    series = {t["columns"][0]["name"]: t for t in run["tables"] if t["entity"] == "series"}
    assert set(series) >= {"loss", "train/loss"}
    values = series["loss"]["columns"][0]["mean"]
    assert values[0] == 4 and values[1] != values[1] and values[2:] == [0.25, float("-inf"), 1e300]
    assert column(series["loss"], "step")["mean"] == [0, 1, 2, 3, 4] and column(series["train/loss"], "step")["mean"] == [0, 1, 2, 3, 4]


def test_times_that_were_logged_have_their_unit(tmp_path):
    tool = Tool(tmp_path)
    code = """if True:
        import os, socket
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        s.connect("\\0" + os.environ["HIWATER_SOCKET"][1:])
        for text in ("data_wait=0.25 step_time/rank0=90 load_seconds=-1 step_times=0.5", "data_wait=0.000125 step_time/rank0=nan"):
            s.send(b"log " + text.encode())"""
    assert tool.run("run", "--summary", "none", "-o", "run.hiw", "--", sys.executable, "-c", code).returncode == 0
    said = " ".join(tool.run("show", "run.hiw", env={**tool.env, "LC_ALL": "C"}).stdout.split())
    for text in ("data_wait 250 ms -> 125 us from 125 us to 250 ms", "step_time/rank0 90 s -> NaN", "load_seconds -1 -> -1", "step_times 0.500 -> 0.500"):
        assert text in said, said
    report(tool, "run.hiw", "-o", "page.html")
    notes = {title: picture.note == "In seconds." for title, picture in pictures((tmp_path / "page.html").read_text(encoding="utf-8")).items()}
    assert notes["data_wait"] and notes["rank0"] and not notes["step_times"]


def test_events_phases_processes(made):
    tool, path = made
    run = payload(page_of(tool, path))["runs"][0]
    assert [e["text"].replace("?", "\u202e") for e in run["events"] if e["kind"] == "mark"] == [EVIL]
    stored = query(path, "SELECT began, ended FROM phase ORDER BY number")
    assert [(p["begin_ns"], p["end_ns"]) for p in run["phases"]] == stored
    assert {p["pid"] for p in run["processes"]} == {pid for pid, in query(path, "SELECT pid FROM process")}
    assert run["request_bytes"] == 1 << 30 and run["peak"]["bytes"] == run["summary"]["ram"]["combined"]["peak_bytes"]


def test_the_summary_is_that_of_show(made):
    tool, path = made
    assert payload(page_of(tool, path))["runs"][0]["summary"] == json.loads(tool.run("show", "--json", path).stdout)


def test_process_columns_are_their_rows(made):
    tool, path = made
    run = payload(page_of(tool, path))["runs"][0]
    main = next(p for p in run["processes"] if p["name"].startswith("python"))
    rss = column(table(run, "processes"), "rss", process=main["id"])
    most = query(path, f"SELECT max(rss_max) FROM process_sample WHERE id = {main['id']}")[0][0]
    assert max(v for v in rss["high"] if v is not None) <= most
    assert max(v for v in rss["high"] if v is not None) > 150 << 20


def test_a_burst_is_drawn_where_it_was(tmp_path):
    """The mark that proves it is read up to a second later, when all is gone."""
    tool = Tool(tmp_path)
    job = ("import time\nheld = bytearray(200 << 20); time.sleep(0.5); more = bytearray(100 << 20); del held, more\n"
           "time.sleep(1.7)")
    done = tool.run("run", "--summary", "none", "-i", "20ms", "-o", "run.hiw", "--", sys.executable, "-c", job)
    assert done.returncode == 0, done.stderr
    run = payload(page_of(tool, "run.hiw"))["runs"][0]
    for shown in (column(table(run, "job"), "ram"), column(table(run, "processes"), "rss", process=1)):
        rows = [(mean, high) for mean, high in zip(shown["mean"], shown["high"]) if mean is not None]
        assert max(high for _, high in rows) > 300 << 20
        assert [mean >> 20 for mean, high in rows if high > 300 << 20 and mean < 150 << 20] == []


def test_no_ram_is_drawn_above_its_upper_bound(tmp_path):
    """A sample may estimate more than a later pass proves."""
    tool = Tool(tmp_path)
    done = tool.run("run", "--summary", "none", "-o", "run.hiw", "--", "sh", "-c", "sleep 1.3 & sleep 1.2; wait")
    assert done.returncode == 0, done.stderr
    high = json.loads(tool.run("show", "--json", "run.hiw").stdout)["ram"]["combined"]["high_bytes"]
    with sqlite3.connect(tmp_path / "run.hiw") as db:
        for name, columns in (("job_sample", ("ram", "ram_max", "ram_high", "ram_high_max")), ("job_recent", ("ram", "ram_high"))):
            db.execute(f"UPDATE {name} SET " + ", ".join(f"{column} = 3 * {column}" for column in columns))
    db.close()
    run = payload(page_of(tool, "run.hiw"))["runs"][0]
    for name in ("ram", "ram_high"):
        shown = column(table(run, "job"), name)
        assert high * 0.99 < max(v for v in shown["high"] if v is not None) <= high + shown["step"]
        assert max(v for v in shown["mean"] if v is not None) <= high + shown["step"]


# ---- long runs ----

def test_a_thread_never_takes_more_than_a_processor(tmp_path):
    """Its memory is read at each tick, its time once a second: a second's time is not that of the tick in which it was read."""
    tool = Tool(tmp_path)
    spin = "import time\nwhile time.process_time() < 2.5: pass"
    done = tool.run("run", "--summary", "none", "-o", "run.hiw", "--", "sh", "-c", f"{sys.executable} -c '{spin}'; true")
    assert done.returncode == 0, done.stderr
    shown = table(payload(page_of(tool, "run.hiw"))["runs"][0], "processes")
    busiest = max(max((m for m in c["mean"] if m is not None), default=0) for c in shown["columns"] if c["name"] == "cpu")
    assert 0.2 < busiest < 1.3, busiest


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    long_recordings.make(HIWATER, folder / "long.hiw", hours=16, processes=2, burst_at=12345)
    return Tool(folder), folder / "long.hiw"


def test_a_long_run_keeps_its_peaks(long_run):
    """Windows are folded; the burst of one of them is there, at its time, and no mean is made up."""
    tool, path = long_run
    page = page_of(tool, path)
    assert len(page.source) < 2_000_000
    job = table(payload(page)["runs"][0], "job")
    ram = column(job, "ram")
    assert job["rows"] < 16 * 3600 / 1.5 and job["row_ns"] > 0
    at = max(range(job["rows"]), key=lambda i: ram["high"][i] or 0)
    assert ram["high"][at] == pytest.approx(30 << 30, rel=1e-3)
    assert job["t"][at] - 1 <= 12345 <= job["t"][at] + job["span"][at] + 1
    stored = query(path, "SELECT min(ram_min), sum(ram) * 1.0 / count(*) FROM job_sample")[0]
    assert min(v for v in ram["low"] if v is not None) == pytest.approx(stored[0], abs=ram["step"])
    spans = list(zip(ram["mean"], job["span"]))
    assert sum(m * s for m, s in spans) / sum(s for _, s in spans) == pytest.approx(stored[1], rel=1e-3)
    assert all(low <= mean <= high for low, mean, high in zip(ram["low"], ram["mean"], ram["high"]))


@pytest.mark.full
def test_many_points_are_small_and_close(tmp_path):
    """14 series of 100,000 points take under 2 MB, and no point is further off than a sixteenth of what it moves."""
    tool = Tool(tmp_path)
    path = tmp_path / "run.hiw"
    long_recordings.make(HIWATER, path, hours=0.1, processes=1, burst_at=70)
    long_recordings.add_series(path, [f"series{k}" for k in range(14)], 100_000, 360)
    page = page_of(tool, path)
    assert len(page.source) < 2_000_000
    run = payload(page)["runs"][0]
    series = [t for t in run["tables"] if t["entity"] == "series"]
    assert len(series) == 14 and all(t["rows"] == 100_000 for t in series)
    stored = [v for v, in query(path, "SELECT value FROM series_value WHERE series = 3 ORDER BY rowid")]
    shown = series[2]["columns"][0]
    moved = sum(abs(b - a) for a, b in zip(stored, stored[1:])) / len(stored)
    assert shown["step"] <= moved / 16
    assert max(abs(a - b) for a, b in zip(shown["mean"], stored)) <= shown["step"] / 2 * 1.001


def test_as_many_series_as_can_be_stored(tmp_path):
    tool = Tool(tmp_path)
    path = tmp_path / "run.hiw"
    long_recordings.make(HIWATER, path, hours=0.01, processes=1, burst_at=7)
    with sqlite3.connect(path) as db:
        db.executemany("INSERT INTO series(id, name, n, first, last, min, max, step, sum) VALUES (?, ?, 1, 1, 1, 1, 1, 0, 1)",
                       [(k, f"series{k}") for k in range(1, 4097)])
        db.executemany("INSERT INTO series_value(t, series, step, value) VALUES (?, ?, 0, 1)",
                       [(k * 1000, k) for k in range(1, 4097)])
    db.close()
    run = payload(page_of(tool, path))["runs"][0]
    assert len([t for t in run["tables"] if t["entity"] == "series"]) == 4096


def test_the_line_of_a_picture_is_the_mean(tmp_path):
    """Each of its points is of 18 windows, every sixteenth of which held eight times as much."""
    tool = Tool(tmp_path)
    path = tmp_path / "run.hiw"
    long_recordings.make(HIWATER, path, hours=2, processes=1, burst_at=-1)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE job_sample SET ram = (1 << 30) * (CASE t / 1000000000 % 16 WHEN 15 THEN 8 ELSE 1 END)")
        db.execute("UPDATE job_sample SET ram_min = ram, ram_max = ram")
    db.close()
    report(tool, path, "-o", "page.html")
    shown = pictures((tmp_path / "page.html").read_text(encoding="utf-8"))["RAM of the job"]
    held = [value / 2**30 for line in shown.shapes("line") for _, value in line]
    assert len(held) >= 400 and 0.95 <= min(held) and max(held) <= 2.2, (min(held), max(held))


# ---- runs that have no end ----

def windows_of(path):
    """Of a recording that may not be there yet."""
    try:
        return query(path, "SELECT count(*) FROM job_sample")[0][0]
    except sqlite3.OperationalError:
        return 0


def test_a_run_that_was_cut_off(tmp_path):
    tool = Tool(tmp_path)
    process = tool.start("run", "--summary", "none", "-o", "cut.hiw", "--", "sleep", "30")
    path = tmp_path / "cut.hiw"
    try:
        wait_for(lambda: windows_of(path) >= 2, "two windows")
        growing = page_of(tool, path)
        assert "still running" in growing.text and payload(growing)["runs"][0]["growing"] is True
        child = int(subprocess.run(["ps", "--ppid", str(process.pid), "-o", "pid=,comm="], capture_output=True, text=True, check=True)
                    .stdout.split("sleep")[0].split()[-1])
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        os.kill(child, signal.SIGKILL)
        page = page_of(tool, path)
        run = payload(page)["runs"][0]
        assert run["growing"] is False and run["complete"] is False and "recorder was lost" in page.text
        assert table(run, "job")["rows"] >= 2
    finally:
        tool.end_all()


# ---- the command ----

def test_where_it_goes(made, tmp_path):
    tool, path = made
    assert report(tool, path).stdout == "run.html\n"
    assert (tool.folder / "run.html").exists()
    assert report(tool, path, "-o", "/dev/stdout").stdout.startswith("<!DOCTYPE html>")
    assert "cannot write" in report(tool, path, "-o", tmp_path / "no" / "folder.html", status=1).stderr
    assert report(tool, "nothing.hiw", status=1).stderr
    assert not list(tool.folder.glob("*.html.*")), "nothing is left beside it"


def test_a_failed_report_leaves_the_old_one(made, tmp_path):
    tool, path = made
    (tool.folder / "kept.html").write_text("old")
    damaged = tmp_path / "damaged.hiw"
    damaged.write_bytes(path.read_bytes()[:20000])
    assert report(tool, damaged, "-o", "kept.html", status=1).stderr
    assert (tool.folder / "kept.html").read_text() == "old"


def test_redact_takes_out_who_and_what(made):
    tool, path = made
    facts = dict(query(path, "SELECT key, value FROM meta WHERE key IN ('host', 'user', 'directory', 'command')"))
    plain, page = page_of(tool, path), page_of(tool, "--redact", path)
    everything = page.text + json.dumps(payload(page)["runs"], ensure_ascii=False)
    assert facts["host"] in plain.text
    for word in (facts["directory"], "job.py", "sleep[", "python", str(path.parent)):
        assert word not in everything, word
    assert not re.search(rf"\b{re.escape(facts['host'])}\b", page.text)
    assert "study<i>" in page.text, "the name was given by its user"


def test_several_runs_lie_on_one_axis(made):
    tool, path = made
    done = tool.run("run", "--summary", "none", "-n", "other", "-o", "other.hiw", "--", "sleep", "1.3")
    assert done.returncode == 0
    data = payload(page_of(tool, path, "other.hiw"))
    assert [run["name"] for run in data["runs"]] == ["study<i>", "other"]
    assert all(table(run, "job")["rows"] > 5 for run in data["runs"])
    many = [tool.folder / f"copy{i}.hiw" for i in range(65)]
    for copy in many:
        shutil.copy(path, copy)
    assert "a report shows at most 64" in report(tool, *many, status=2).stderr


def test_without_uplot_it_says_so(tmp_path):
    """What the build makes of a machine without it."""
    out = tmp_path / "page.c"
    subprocess.run([sys.executable, ROOT / "tools" / "make-page", out, ""], check=True)
    assert "page_piece_count = 0" in out.read_text()


def test_uplot_counts_only_with_its_hash(tmp_path):
    """A changed copy in the cache is not taken."""
    tools = tmp_path / "tools"
    cache = tmp_path / ".cache" / "uplot"
    tools.mkdir()
    cache.mkdir(parents=True)
    (tools / "find-uplot").write_bytes((ROOT / "tools" / "find-uplot").read_bytes())
    for name in ("uplot.iife.min.js", "uplot.min.css"):
        (cache / name).write_bytes(b"alert(1)")
    done = subprocess.run([sys.executable, "-I", "-S", tools / "find-uplot"], capture_output=True, text=True,
                          env={"PIP_NO_INDEX": "1", "PATH": os.environ["PATH"]})
    taken = (cache / "uplot.iife.min.js").read_bytes()
    assert (done.returncode == 1 and "is not available" in done.stderr) or hashlib.sha256(taken).hexdigest().startswith("2d27e8ad3d22")

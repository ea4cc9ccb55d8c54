# SPDX-License-Identifier: MIT
"""hiwater export. The judges: what lies in the recording (SQL), Python's csv and json, prometheus_client's strict parser and
promtool, and Perfetto's own protobuf classes."""
import collections
import csv
import io
import json
import os
import re
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree

import pytest
from cli_helpers import DEADLINE, HIWATER, ROOT, Tool, wait_for
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from stress_jobs import BUILD
from trace_data import Seen, rows_of, trace_of

SVG = "{http://www.w3.org/2000/svg}"
MARK = 'first, "quoted"\nand on'
JOB = """
import os, socket, subprocess, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect("\\0" + os.environ["HIWATER_SOCKET"][1:])
s.send(b"phase+ outer")
s.send(b"phase+ inner")
child = subprocess.Popen(["sleep", "1.5"])
data = bytearray(200 << 20)
time.sleep(0.3)
s.send(b"phase- inner")
del data
for step, loss in enumerate(("4", "nan", "0.8")):
    s.send(f"log loss={loss} step={step}".encode())
    time.sleep(0.5)
s.send(b'mark first, "quoted"\\nand on')
child.wait()
s.send(b"phase- outer")
s.send(b"phase+ open\\nepoch=3")
time.sleep(0.2)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run with a child, phases, marks, a series with NaN and 200 MB that are gone before the first window ends."""
    tool = Tool(tmp_path_factory.mktemp("exported"))
    done = tool.run("run", "--summary", "none", "-n", "study", "-i", "20ms", "-o", "run.hiw", "--", sys.executable, "-c", JOB)
    assert done.returncode == 0, done.stderr
    yield tool, tool.folder / "run.hiw"
    tool.end_all()


def exported(tool, path, *args, status=0, **options):
    done = tool.run("export", path, *args, **options)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def table(tool, path, *args):
    text = exported(tool, path, "--to", "csv", *args)
    return list(csv.DictReader(io.StringIO(text, newline="")))


# ---- csv ----

def test_csv_is_what_the_recording_has(made):
    tool, path = made
    rows = table(tool, path)
    stored = rows_of(path, "select t, span, ifnull(ram_min, ram), ram, ram_max, cpu_user, processes_max from job_sample order by t")
    assert len(rows) == len(stored) > 1
    for row, (t, span, low, mean, high, cpu, processes) in zip(rows, stored):
        assert float(row["elapsed_s"]) == pytest.approx(t / 1e9, abs=1e-9)
        assert float(row["span_s"]) == pytest.approx(span / 1e9, abs=1e-9)
        assert [int(row[f"ram_{part}_bytes"]) for part in ("min", "mean", "max")] == [low, mean, high]
        assert row["cpu_user_seconds"] == "" if cpu is None else float(row["cpu_user_seconds"]) == pytest.approx(cpu / 1e9)
        assert int(row["processes_max"]) == processes
    assert max(int(r["ram_max_bytes"]) for r in rows) > 200 << 20, "the burst is there"
    unread = [name for name, in rows_of(path, "select name from metric where entity = 'job' and kind = 'gauge'")
              if not rows_of(path, f"select 1 from job_sample where {name} is not null")]
    assert unread and all(r[column] == "" for r in rows for column in r for name in unread if column.startswith(f"{name}_mean"))


def test_csv_columns_come_from_the_metrics(made):
    tool, path = made
    suffix = {"bytes": "_bytes", "ns": "_seconds", "count": "", "ppm": "_ratio", "uj": "_joules", "uw": "_watts",
              "mcel": "_celsius", "hz": "_hertz"}
    for entity in ("host", "job", "process", "gpu", "gpu_process"):
        header = exported(tool, path, "--to", "csv", "--entity", entity).splitlines()[0].split(",")
        wanted = set()
        for name, unit, kind in rows_of(path, f"select name, unit, kind from metric where entity = '{entity}'"):
            parts = ("_min", "_mean", "_max") if kind == "gauge" else ("",)
            wanted |= {f"{name}{part}".removesuffix(suffix[unit]) + suffix[unit] for part in parts}
        fixed = [c for c in header if c not in wanted]
        assert wanted == set(header) - set(fixed) and len(header) == len(set(header))
        assert fixed[:4] == ["elapsed_s", "time", "span_s", "samples"]
        assert not [c for c in header if re.search(r"(_[a-z]+)\1$", c)], "a unit stands once"


def test_csv_of_processes_has_every_look(made):
    """A window without a row means unchanged: the export says it."""
    tool, path = made
    rows = table(tool, path, "--entity", "process")
    by_name = collections.Counter(r["name"] for r in rows)
    windows = len(rows_of(path, "select t from job_sample"))
    main = rows_of(path, "select id, pid from process where is_main")[0]
    assert sum((r["id"], r["pid"]) == tuple(map(str, main)) for r in rows) >= windows - 1
    assert by_name["sleep"] >= 1


def test_csv_of_events_and_series(made):
    tool, path = made
    events = table(tool, path, "--entity", "events")
    assert [e["text"] for e in events if e["kind"] == "mark"] == [MARK]
    assert [(e["kind"], e["text"]) for e in events if e["phase"]] == [
        ("phase-begin", "outer"), ("phase-begin", "inner"), ("phase-end", "inner"), ("phase-end", "outer"), ("phase-begin", "open\nepoch=3")]
    values = table(tool, path, "--entity", "series")
    assert [(v["series"], v["step"], v["value"]) for v in values] == [("loss", "0", "4"), ("loss", "1", "NaN"), ("loss", "2", "0.8")]


FORMULA_JOB = r"""
import ctypes, os, socket, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect("\0" + os.environ["HIWATER_SOCKET"][1:])
ctypes.CDLL(None).prctl(15, b"@SUM(1)", 0, 0, 0)  # PR_SET_NAME
for text in ("=HYPERLINK(1)", "+1", "-1", "@x", 'a=1, "b"'):
    s.send(f"mark {text}".encode())
s.send(b"log -x=-5")
time.sleep(1.2)
"""


def test_csv_has_no_formulas(tool):
    """An apostrophe marks a text for spreadsheets; numbers stay numbers."""
    tool.run("run", "--summary", "none", "-o", "run.hiw", "--", sys.executable, "-c", FORMULA_JOB)
    path = tool.folder / "run.hiw"
    events = [e["text"] for e in table(tool, path, "--entity", "events") if e["kind"] == "mark"]
    assert events == ["'=HYPERLINK(1)", "'+1", "'-1", "'@x", 'a=1, "b"']
    assert "\"'=HYPERLINK(1)\"" in exported(tool, path, "--to", "csv", "--entity", "events")
    value, = table(tool, path, "--entity", "series")
    assert value["series"] == "'-x" and value["value"] == "-5"
    assert "'@SUM(1)" in {p["name"] for p in table(tool, path, "--entity", "process")}
    assert "=HYPERLINK(1)" in exported(tool, path, "--to", "json")


EVIL_JOB = r"""
import ctypes, os, socket, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect("\0" + os.environ["HIWATER_SOCKET"][1:])
ctypes.CDLL(None).prctl(15, b"\x1b[2Jevil", 0, 0, 0)  # PR_SET_NAME
s.send("mark \x1b]0;taken\x07\x9b2J\u202e\r\tfirst\nsecond, line".encode())
s.send("log \x1b[2Jloss=1".encode())
time.sleep(0.5)
"""


def test_tables_are_harmless_in_a_terminal(tool):
    """Whatever a job calls itself and tells: of what moves a cursor only line feeds come out."""
    assert tool.run("run", "--summary", "none", "-o", "evil.hiw", "--", sys.executable, "-c", EVIL_JOB).returncode == 0
    path = tool.folder / "evil.hiw"
    for args in (("csv", "--entity", "events"), ("csv", "--entity", "process"), ("csv", "--entity", "series"),
                 ("openmetrics", "--entity", "process"), ("openmetrics",)):
        text = exported(tool, path, "--to", *args)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text), args
    assert {"?[2Jevil"} <= {r["name"] for r in table(tool, path, "--entity", "process")}
    assert [e["text"] for e in table(tool, path, "--entity", "events") if e["kind"] == "mark"] == ["?]0;taken??2J?  first\nsecond, line"]


# ---- json ----

def objects(text):
    return [json.loads(line) for line in text.splitlines()]


def test_json(made):
    tool, path = made
    all_of_it = objects(exported(tool, path, "--to", "json"))
    by_kind = collections.defaultdict(list)
    for o in all_of_it:
        by_kind[o["kind"]].append(o)
    assert set(by_kind) == {"run", "birth", "sample", "end", "event", "series"}
    assert all_of_it[0]["kind"] == "run" and all_of_it[0]["name"] == "study" and all_of_it[0]["complete"] is True
    assert [o["value"] for o in by_kind["series"]] == [4, "NaN", 0.8]
    stored = dict(rows_of(path, "select id, born from process where id > 0"))
    assert {o["id"]: o["elapsed_s"] for o in by_kind["birth"] if o["entity"] == "process"} == {
        i: pytest.approx(born / 1e9, abs=1e-9) for i, born in stored.items()}
    jobs = [o for o in by_kind["sample"] if o["entity"] == "job"]
    assert [o["ram_max_bytes"] for o in jobs] == [m for m, in rows_of(path, "select ram_max from job_sample order by t")]
    only = objects(exported(tool, path, "--to", "json", "--entity", "process"))
    assert {o.get("entity") for o in only[1:]} == {"process"} and {o["kind"] for o in only[1:]} == {"birth", "sample", "end"}


def test_redact(made):
    tool, path = made
    host, user, command = rows_of(path, """select (select value from meta where key = 'host'),
        (select value from meta where key = 'user'), (select value from meta where key = 'command')""")[0]
    for args in (["csv", "--entity", "process"], ["json"], ["openmetrics", "--entity", "process"], ["openmetrics"], ["perfetto"], ["svg"]):
        plain = subprocess.run([HIWATER, "export", path, "--to", *args], env=tool.env, capture_output=True, check=True).stdout
        hidden = subprocess.run([HIWATER, "export", path, "--redact", "--to", *args], env=tool.env, capture_output=True,
                                check=True).stdout
        assert b"sleep" not in hidden and command.encode() not in hidden
        assert b"python" not in hidden and f'"{user}"'.encode() not in hidden and f'"{host}"'.encode() not in hidden
        assert b"sleep" in plain or args in (["openmetrics"], ["svg"])


# ---- OpenMetrics ----

@pytest.mark.parametrize("entity", [[], ["--entity", "process"], ["--entity", "host"], ["--entity", "series"]])
def test_openmetrics_is_read_by_a_strict_parser(made, entity):
    tool, path = made
    text = exported(tool, path, "--to", "openmetrics", *entity)
    assert text.endswith("# EOF\n")
    families = list(text_string_to_metric_families(text))
    assert len({f.name for f in families}) == len(families) > 1, "each family once"
    for f in families:
        series = collections.defaultdict(list)
        for s in f.samples:
            assert s.timestamp and s.labels["run"] and not {"job", "instance"} & set(s.labels)
            series[tuple(sorted(s.labels.items()))].append(float(s.timestamp))
        assert all(times == sorted(set(times)) for times in series.values())


def test_openmetrics_values(made):
    tool, path = made
    families = {f.name: f for f in text_string_to_metric_families(exported(tool, path, "--to", "openmetrics"))}
    started = rows_of(path, "select value from meta where key = 'started_wall_ns'")[0][0]
    stored = rows_of(path, "select t + span, ram, ram_max, cpu_user from job_sample order by t")
    mean = [s for s in families["hiwater_run_memory_bytes"].samples if s.labels["kind"] == "combined"]
    most = [s for s in families["hiwater_run_memory_max_bytes"].samples if s.labels["kind"] == "combined"]
    assert [s.value for s in mean] == [ram for _, ram, _, _ in stored]
    assert [s.value for s in most] == [high for _, _, high, _ in stored]
    assert [float(s.timestamp) for s in mean] == [pytest.approx((started + t) / 1e9, abs=0.0011) for t, *_ in stored]
    assert families["hiwater_run_memory_bytes"].unit == "bytes"
    cpu = [s for s in families["hiwater_run_cpu_seconds"].samples if s.labels["mode"] == "user"]
    assert families["hiwater_run_cpu_seconds"].type == "counter" and cpu[0].name == "hiwater_run_cpu_seconds_total"
    assert [s.value for s in cpu] == [pytest.approx(c / 1e9) for *_, c in stored if c is not None]
    loss = families["hiwater_series"].samples
    assert [str(float(s.value)) for s in loss] == ["4.0", "nan", "0.8"] and loss[0].labels["series"] == "loss"
    assert re.search(r'^hiwater_series\{[^}]*\} 0\.8 ', exported(tool, path, "--to", "openmetrics"), re.M), "as it was logged, not 0.80000000000000004"
    assert not any("process" in f for f in families if f != "hiwater_run_processes" and f != "hiwater_run_processes_max")
    info = families["hiwater_run"].samples[0]
    assert info.name == "hiwater_run_info" and info.labels["name"] == "study" and info.labels["command"]


@pytest.mark.full
def test_a_prometheus_answers_from_it(made, tmp_path):
    """promtool makes blocks of it, a Prometheus on loopback reads them."""
    tool, path = made
    text = tmp_path / "run.om"
    assert tool.run("export", path, "--to", "openmetrics", "-o", text).returncode == 0
    for entity in ("process", "gpu"):
        other = tmp_path / f"{entity}.om"
        assert tool.run("export", path, "--to", "openmetrics", "--entity", entity, "-o", other).returncode == 0
        subprocess.run(["promtool", "tsdb", "create-blocks-from", "openmetrics", other, tmp_path / entity], check=True)
    started = rows_of(path, "select value from meta where key = 'started_wall_ns'")[0][0]
    ram = rows_of(path, "select max(ram_max) from job_sample")[0][0]
    ask = ("curl -sf $PROM/api/v1/query --data-urlencode 'query=max_over_time(hiwater_run_memory_max_bytes{kind=\"combined\"}[1h])'"
           f" --data-urlencode time={started // 10**9 + 600}")
    done = subprocess.run([ROOT / "tools" / "prom-loopback", "--backfill", text, "--", "sh",
                           "-c", ask], capture_output=True,
                          text=True, timeout=4 * DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)["data"]["result"]
    assert [float(r["value"][1]) for r in result] == [ram]


@pytest.mark.full
def test_a_job_of_two_ranks_is_one_run_for_a_prometheus(tool, tmp_path):
    for rank in range(2):
        env = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_PROCID": rank, "SLURM_LOCALID": 0, "SLURM_NTASKS": 2,
               "SLURM_STEP_NUM_TASKS": 2, "SLURM_NNODES": 2, "SLURM_NODEID": rank, "SLURMD_NODENAME": f"n{rank}"}
        done = tool.run("run", "--summary", "none", "-o", "d/", "--", "sleep", "1.5", env={k: str(v) for k, v in env.items()})
        assert done.returncode == 0, done.stderr
    text = exported(tool, "d", "--to", "openmetrics")
    runs = {s.labels["run"] for f in text_string_to_metric_families(text) for s in f.samples}
    assert len(runs) == 1 and 'scheduler_job="4711.0"' in text
    file = tmp_path / "job.om"
    file.write_text(text)
    subprocess.run(["promtool", "tsdb", "create-blocks-from", "openmetrics", file, tmp_path / "blocks"], check=True)
    assert list((tmp_path / "blocks").glob("*/index"))


@pytest.mark.full
def test_victoria_metrics_takes_it(made, tmp_path):
    tool, path = made
    text = exported(tool, path, "--to", "openmetrics")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    server = subprocess.Popen(["victoria-metrics", f"-httpListenAddr={address}", f"-storageDataPath={tmp_path}/vm", "-retentionPeriod=100y"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(path, data=None, **parameters):
        with urllib.request.urlopen(f"http://{address}{path}?{urllib.parse.urlencode(parameters)}", data, DEADLINE) as answer:
            return answer.read()

    def is_up():
        try:
            return ask("/health")
        except OSError:
            assert server.poll() is None
            return None

    try:
        wait_for(is_up, "victoria-metrics answers")
        ask("/api/v1/import/prometheus", text.encode())
        ask("/internal/force_flush")
        started = rows_of(path, "select value from meta where key = 'started_wall_ns'")[0][0]
        stored = rows_of(path, "select ram_max from job_sample order by t")
        answer = json.loads(ask("/api/v1/query", query='max_over_time(hiwater_run_memory_max_bytes{kind="combined"}[1h])',
                                time=started // 10**9 + 600))
        assert [float(r["value"][1]) for r in answer["data"]["result"]] == [max(ram for ram, in stored)]
    finally:
        server.terminate()
        server.wait(DEADLINE)


# ---- Perfetto ----

def test_perfetto(made):
    tool, path = made
    trace = trace_of(tool, path)
    seen = Seen(trace)
    facts = dict(rows_of(path, "select key, value from meta"))
    clocks = {c.clock_id: c.timestamp for c in trace.packet[0].clock_snapshot.clocks}
    assert clocks == {6: facts["started_boot_ns"], 1: facts["started_wall_ns"]}, "the wall clock can be had from the one since boot"
    boot = facts["started_boot_ns"]

    def at(t):
        return boot + t

    # processes: each with its pid, a slice as long as it lived
    stored = rows_of(path, "select id, pid, born, ended, name from process where id > 0")
    processes = {u: d for u, d in seen.tracks.items() if d.HasField("process")}
    assert len(processes) == len(stored)
    spans = sorted((d.process.pid, *seen.slices(u)[0]) for u, d in processes.items())
    assert spans == sorted((pid, name, at(born), at(ended)) for _, pid, born, ended, name in stored)
    # phases: nested, one never ended
    lanes = [seen.slices(u) for u in seen.named("phases")]
    phases = sorted((n, b, e) for lane in lanes for n, b, e in lane)
    assert phases == sorted((n, at(b), at(e) if e else None) for n, b, e in rows_of(path, "select name, began, ended from phase"))
    assert len(lanes) == 1
    notes = {e.name: {n.name: n.string_value for n in e.debug_annotations} for _, e in seen.events[seen.named("phases")[0]]}
    assert notes["open"]["facts"] == "epoch=3" and "facts" not in notes["outer"]
    # marks
    mark, = seen.named("marks")
    assert [(e.name, e.type) for _, e in seen.events[mark]] == [(MARK, pb.TrackEvent.TYPE_INSTANT)]
    # counters: the job's, the largest values beside the means, a process's under the process
    run, = [u for u, d in seen.tracks.items() if d.name == "run study"]
    windows = rows_of(path, "select t, ram, ram_max from job_sample order by t")
    changes = [w for i, w in enumerate(windows) if i == 0 or w[1] != windows[i - 1][1]]
    assert seen.counter("ram", run) == [(at(t), ram) for t, ram, _ in changes], "what stays is said once"
    assert max(v for _, v in seen.counter("ram max", run)) == max(m for *_, m in windows)
    main, = [u for u, d in processes.items() if d.process.pid == facts["main_pid"]]
    rss = seen.counter("rss", main)
    assert rss[0][1] > 0 and rss[-1] == (at(rows_of(path, "select ended from process where is_main")[0][0]), 0)
    assert seen.tracks[seen.named("ram")[0]].counter.unit == pb.CounterDescriptor.UNIT_SIZE_BYTES
    assert [v for _, v in seen.counter("loss", run)] == [4, 0.8]
    assert seen.named("mem_used"), "the machine's, too"


def test_phases_that_cross_have_tracks_of_their_own(made, tmp_path):
    """Slices of one track lie within one another; phases of two processes need not."""
    tool, path = made
    copy = tmp_path / "crossed.hiw"
    assert tool.run("show", "--copy", copy, path).returncode == 0
    with sqlite3.connect(copy) as db:
        db.execute("delete from phase")
        db.execute("delete from event where kind like 'phase-%'")
        db.executemany("insert into phase (number, parent, name, began, ended) values (?, 0, ?, ?, ?)", [
            (1, "a", 100, 500), (2, "b", 200, 700), (3, "c", 300, 400), (4, "d", 600, 650), (5, "e", 700, 700), (6, "f", 800, None)])
        for number, name, began, ended in db.execute("select number, name, began, ended from phase").fetchall():
            db.execute("insert into event values (?, 'phase-begin', 'job', 0, ?, 0, ?, NULL)", (began, number, name))
            if ended:
                db.execute("insert into event values (?, 'phase-end', 'job', 0, ?, 0, ?, NULL)", (ended, number, name))
    db.close()
    seen = Seen(trace_of(tool, copy))
    boot = rows_of(copy, "select value from meta where key = 'started_boot_ns'")[0][0]
    lanes = [[(n, b - boot, e and e - boot) for n, b, e in seen.slices(u)] for u in seen.named("phases")]
    assert len(lanes) == 2
    assert sorted(s for lane in lanes for s in lane) == [
        ("a", 100, 500), ("b", 200, 700), ("c", 300, 400), ("d", 600, 650), ("e", 700, 700), ("f", 800, None)]


def test_at_full_rate(made):
    """--recent: the looks in place of their windows."""
    tool, path = made
    looks = rows_of(path, "select count(*) from job_recent where ram is not null")[0][0]
    rows = table(tool, path, "--recent")
    assert len(rows) >= looks > 20
    assert max(int(r["ram_max_bytes"] or 0) for r in rows) == rows_of(path, "select max(ram_max) from job_sample")[0][0]
    assert len(Seen(trace_of(tool, path, "--recent")).counter("ram")) > len(Seen(trace_of(tool, path)).counter("ram"))


# ---- GPUs ----

def test_gpus(tool):
    """Two GPUs of a fake driver (tests/fake)."""
    drivers = ROOT / "tests" / "fake" / "scenarios" / "cards" / "a100.conf"
    scenario = tool.folder / "gpu.conf"
    scenario.write_text(f"[driver]\nlevel = 550\n[gpu 0-1]\ninclude = {drivers}\nutil = 25\n[gpu 0]\nutil = 50\n")
    env = dict(tool.env, LD_LIBRARY_PATH=str(BUILD / "tests" / "fake" / "drivers" / "550"), HIWATER_FAKE_NVML=str(scenario))
    done = tool.run("run", "--summary", "none", "-o", "gpu.hiw", "--", "sleep", "2.5", env=env)
    assert done.returncode == 0, done.stderr
    rows = table(tool, "gpu.hiw", "--entity", "gpu")
    assert {(r["index"], r["busy_mean_ratio"]) for r in rows if r["busy_mean_ratio"]} == {("0", "0.5"), ("1", "0.25")}
    assert all(r["uuid"].startswith("GPU-") and r["name"] for r in rows)
    families = {f.name: f for f in text_string_to_metric_families(exported(tool, "gpu.hiw", "--to", "openmetrics"))}
    busy = {(s.labels["gpu"], s.value) for s in families["hiwater_gpu_busy_ratio"].samples}
    assert busy == {("0", 0.5), ("1", 0.25)}
    assert {s.labels["uuid"] for s in families["hiwater_gpu"].samples} == {r["uuid"] for r in rows}
    seen = Seen(trace_of(tool, "gpu.hiw"))
    groups = {d.name.split()[1]: u for u, d in seen.tracks.items() if d.name.startswith("GPU ")}
    assert {i: {v for _, v in seen.counter("busy", u)} for i, u in groups.items()} == {"0": {0.5}, "1": {0.25}}


# ---- SVG ----

def svg_of(tool, path, *args):
    root = ElementTree.fromstring(exported(tool, path, "--to", "svg", *args))
    width, height = float(root.get("width")), float(root.get("height"))
    texts = list(root.iter(SVG + "text"))
    for text in texts:
        assert 0 <= float(text.get("x")) <= width and 0 <= float(text.get("y")) <= height, text.text
    return root, [t.text for t in texts]


def test_svg(made):
    """The burst of 200 MB, the value that is no number, phases and marks are in it, and only what was asked for is drawn."""
    tool, path = made
    root, said = svg_of(tool, path)
    assert root.get("aria-label") == "study" and root.get("role") == "img"
    assert [t for t in said if t in ("CPU", "RAM", "GPU", "GPU memory", "loss")] == ["CPU", "RAM", "loss"] and "NaN" in said
    assert any(float(t.split()[0]) >= 192 for t in said if t.endswith("MiB"))
    assert {t.text for t in root.iter(SVG + "title")} >= {"outer", MARK.replace("\n", " ")}
    _, alone = svg_of(tool, path, "--entity", "series", "--series", "loss", "--width", "500", "--height", "200")
    assert "loss" in alone and "RAM" not in alone
    wide, _ = svg_of(tool, path, "--width", "1200")
    assert wide.get("width") == "1200" and root.get("width") == "820"
    assert "no series is named 'lost'" in exported(tool, path, "--to", "svg", "--series", "lost", status=2)
    assert "svg has no table 'host'" in exported(tool, path, "--to", "svg", "--entity", "host", status=2)
    assert "number of pixels" in exported(tool, path, "--to", "svg", "--width", "wide", status=2)


# ---- runs that have no end ----

FORMATS = ("csv", "json", "openmetrics", "perfetto", "svg")


def test_growing_and_cut_off(tool):
    """While it is written, and after its recorder was killed with -9."""
    process = tool.start("run", "--summary", "none", "-i", "20ms", "-o", "run.hiw", "--", "sleep", "600", group=True)
    path = tool.folder / "run.hiw"
    wait_for(lambda: path.exists() and tool.run("show", path).returncode == 0 and len(table(tool, path)) >= 2, "two windows are there")
    job, = [pid for pid, in rows_of(path, "select pid from process where is_main")]
    for _ in range(2):
        for to in FORMATS:
            done = subprocess.run([HIWATER, "export", path, "--to", to], capture_output=True, timeout=DEADLINE, check=False)
            assert done.returncode == 0 and len(done.stdout) > 100, done.stderr
        assert objects(exported(tool, path, "--to", "json"))[0]["complete"] is False
        if process.poll() is None:
            process.kill()
            process.wait(DEADLINE)
    os.kill(job, signal.SIGKILL)
    list(text_string_to_metric_families(exported(tool, path, "--to", "openmetrics")))
    Seen(trace_of(tool, path))


# ---- what goes wrong ----

def test_refusals(made):
    tool, path = made
    assert "nothing-of-that-name" in exported(tool, "nothing-of-that-name", "--to", "csv", status=1)
    assert "./nothing.hiw" in exported(tool, "./nothing.hiw", "--to", "csv", status=1)
    assert "needs a format" in exported(tool, path, status=2)
    assert "csv" in exported(tool, path, "--to", "cvs", status=2)
    assert "--entity" in exported(tool, path, "--to", "perfetto", "--entity", "job", status=2)
    assert "openmetrics" in exported(tool, path, "--to", "openmetrics", "--entity", "events", status=2)
    assert exported(tool, path, "--to", "openmetrics", env={"TMPDIR": "/nowhere"}, status=1).count("\n") == 1


@pytest.mark.parametrize("to", FORMATS)
def test_a_full_disk(made, to):
    """Said in one line; the file of that name stays what it was, and nothing lies beside it."""
    tool, path = made
    with open("/dev/full", "wb") as full:
        done = tool.run("export", path, "--to", to, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "No space left" in done.stderr
    folder = tool.folder / f"small-{to}"
    folder.mkdir()
    (folder / "out").write_text("before")

    def small():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    done = subprocess.run([HIWATER, "export", path, "--to", to, "-o", folder / "out"], preexec_fn=small, capture_output=True,
                          text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and (to == "openmetrics" or str(folder / "out") in done.stderr)
    assert [p.name for p in folder.iterdir()] == ["out"] and (folder / "out").read_text() == "before"


def test_a_reader_that_leaves(made):
    """Quietly, also where SIGPIPE is ignored."""
    tool, path = made
    for ignored in (signal.SIG_DFL, signal.SIG_IGN):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([HIWATER, "export", path, "--to", "json"], stdout=writer, stderr=subprocess.PIPE, timeout=DEADLINE,
                              preexec_fn=lambda i=ignored: signal.signal(signal.SIGPIPE, i), restore_signals=False, check=False)
        os.close(writer)
        assert done.stderr == b"" and done.returncode == (-signal.SIGPIPE if ignored == signal.SIG_DFL else 1)


# ---- large ones ----

DAY = 86400
LONG = 5  # processes that live all day
SHORT = 2000  # and that live for five seconds


def column(name, number):
    """What a row of the made-up day has in the column: that of the real row, plus the number of its window."""
    fixed = {"t": f"{number} * 1000000000 + 10000000000", "id": "i.who", "span": "1000000000", "n": "10", "part": "NULL"}
    return fixed.get(name, f"s.{name} + {number}")


@pytest.fixture(scope="module")
def day(made, tmp_path_factory):
    """24 hours, made of the first window of a real run: the machine, the job, processes."""
    tool, path = made
    copy = tmp_path_factory.mktemp("day") / "day.hiw"
    assert tool.run("show", "--copy", copy, path).returncode == 0
    with sqlite3.connect(copy) as db:
        db.execute("pragma synchronous = off")
        for name, each, ids in (("host", 1, 1), ("job", 1, 1), ("process", 20, LONG)):
            columns = [c[1] for c in db.execute(f"pragma table_info({name}_sample)")]
            db.execute(f"""with recursive k(w) as (select 0 union all select w + 1 from k where w < {DAY}),
                i(who) as (select 1 union all select who + 1 from i where who < {ids})
                insert into {name}_sample select {', '.join(column(c, 'k.w') for c in columns)} from {name}_sample s, k, i
                where s.t = (select min(t) from {name}_sample) {'and s.id = 1' if ids > 1 else ''} and k.w % {each} = 0""")
            db.execute(f"delete from {name}_sample where t < 10000000000")
        columns = [c[1] for c in db.execute("pragma table_info(process_sample)")]
        db.execute(f"""with recursive i(who) as (select {LONG + 1} union all select who + 1 from i where who < {LONG + SHORT})
            insert into process_sample select {', '.join(column(c, '(i.who * 30)') for c in columns)} from process_sample s, i
            where s.t = (select min(t) from process_sample) and s.id = 1""")
        db.execute("delete from process")
        db.execute(f"""with recursive i(n) as (select 1 union all select n + 1 from i where n < {LONG + SHORT})
            insert into process (id, parent, pid, ppid, start, born, ended, end_source, name, is_main, command)
            select n, 0, n + 10, 1, n, 9000000000 + n * 30000000000 * (n > {LONG}),
            case when n > {LONG} then n * 30000000000 + 15000000000 end, 'seen', 'name' || n, n = 1, 'a command' from i""")
        db.execute("delete from meta where key = 'ended_ns'")
    db.close()
    return copy


def slow(*args):
    return pytest.param(args, marks=pytest.mark.full)


@pytest.mark.parametrize("args", [slow("csv"), slow("csv", "--entity", "process"), slow("json"), slow("openmetrics"),
                                  slow("openmetrics", "--entity", "process"), ("perfetto",)])
@pytest.mark.release
def test_a_day_in_bounded_memory(made, day, args):
    """A process's largest resident size, as the kernel has it; what is read and written is a hundred times as much."""
    tool, _ = made
    script = ("import os, subprocess, sys\n"
              "p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)\n"
              "n = 0\n"
              "while piece := p.stdout.read(1 << 20): n += len(piece)\n"
              "_, status, usage = os.wait4(p.pid, 0)\n"
              "print(status, usage.ru_maxrss, n)\n")
    done = subprocess.run([sys.executable, "-c", script, HIWATER, "export", str(day), "--to", *args], env=tool.env, text=True,
                          capture_output=True, timeout=4 * DEADLINE, check=True)
    status, rss, size = map(int, done.stdout.split())
    assert status == 0
    assert size > 10 << 20, "it was much"
    assert rss < 40 << 10, "KiB: the interpreter that starts it has about 10 MiB"


def test_killed_it_leaves_nothing(made, day):
    """What is written has no name before it is whole; what had the name stays."""
    tool, short = made
    folder = tool.folder / "killed"
    folder.mkdir()
    (folder / "out").write_text("before")
    export = subprocess.Popen([HIWATER, "export", day, "--to", "json", "-o", folder / "out"], env=tool.env)
    fds = f"/proc/{export.pid}/fd"

    def written():
        assert export.poll() is None, "it was over before it could be killed"
        return any(is_begun(f"{fds}/{f}") for f in os.listdir(fds))

    def is_begun(fd):
        try:
            return str(folder) in os.readlink(fd) and os.stat(fd).st_size > 0
        except FileNotFoundError:  # closed meanwhile
            return False
    wait_for(written, "it writes")
    export.kill()
    export.wait()
    assert [p.name for p in folder.iterdir()] == ["out"] and (folder / "out").read_text() == "before"
    assert tool.run("export", short, "--to", "csv", "-o", folder / "out").returncode == 0
    assert [p.name for p in folder.iterdir()] == ["out"] and (folder / "out").read_text().startswith("elapsed_s")
    assert (folder / "out").stat().st_mode & 0o777 == 0o666 & ~current_umask()


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_files_for_others_follow_the_umask(tool, made):
    """Only the recording is for its owner alone."""
    path = made[1]
    for umask, mode in ((0o022, "0o644"), (0o027, "0o640")):
        for args in (["run", "-o", f"{umask}.hiw", "--json", f"{umask}.json", "--summary-file", f"{umask}.txt", "--", "sleep", "1.1"],
                     ["export", path, "--to", "csv", "-o", f"{umask}.csv"], ["report", path, "-o", f"{umask}.html"]):
            done = tool.run(*args, preexec_fn=lambda umask=umask: os.umask(umask))
            assert done.returncode == 0, done.stderr
        modes = {f.suffix: oct(f.stat().st_mode & 0o777) for f in tool.folder.glob(f"{umask}.*")}
        assert modes == {".hiw": "0o600", ".json": mode, ".txt": mode, ".csv": mode, ".html": mode}

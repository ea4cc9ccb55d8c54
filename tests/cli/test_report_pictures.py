# SPDX-License-Identifier: MIT
"""The pictures of a report that need no program. They are read by the words at their axes, and compared with the recording's rows."""
import json
import math
import re
import sqlite3
import sys

import long_recordings
import pytest
from cli_helpers import HIWATER, ROOT, Tool
from report_data import Page, column, payload, table
from stress_jobs import BUILD, query
from svg_pictures import pictures

CARD = ROOT / "tests" / "fake" / "scenarios" / "cards" / "h100.conf"
SECOND = 10**9
GIB = 1 << 30
JOB = """
import os, socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect("\\0" + os.environ["HIWATER_SOCKET"][1:])
with open("main.new", "w") as f:
    f.write(str(os.getpid()))
os.rename("main.new", "main")
hold = []
for epoch in range(3):
    s.send(f"phase+ epoch\\nepoch={epoch}".encode())
    hold.append(bytearray(100 << 20))
    end = time.time() + 1.2
    while time.time() < end:
        s.send(f"log train/loss={5 - time.time() % 1} torch/gpu0/allocated_bytes=5".encode())
        time.sleep(0.02)
    s.send(("log val_loss=%s accuracy=%g <odd>&=1" % (("3", "nan", "1")[epoch], epoch / 4)).encode())
    s.send(b"phase- epoch")
s.send(b"mark the <end>")
hold.clear()  # what an interpreter takes for its end is less than this
time.sleep(1.5)  # the driver's clock may start late
"""


def report_of(tool, *args):
    done = tool.run("report", "run.hiw", *args, "-o", "page.html")
    if "built without uPlot" in done.stderr:
        pytest.skip("built without uPlot, which cannot be had here")
    assert done.returncode == 0, done.stderr
    return (tool.folder / "page.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A training on two of three fake GPUs."""
    tool = Tool(tmp_path_factory.mktemp("pictured"))
    (tool.folder / "job.py").write_text(JOB)
    (tool.folder / "gpu.conf").write_text(f"""[driver]
level = 550
[gpu 0-2]
include = {CARD}
[gpu 0]
util = 90
gpm 2 = 40
power = steps 0:100000 2:300000
temperature = ramp 30 60 0..4
event_reasons = steps 0:0 1:0x20 2.5:0
field 75 = ramp 0 1.5G 1..2.5
[process 0]
pid = @{tool.folder}/main
memory = steps 0:1Gi 2:3Gi
[process 2]
pid = @{tool.folder}/main
memory = 500Mi
""")
    tool.env.update(LD_LIBRARY_PATH=str(BUILD / "tests" / "fake" / "drivers" / "550"), HIWATER_FAKE_NVML=str(tool.folder / "gpu.conf"))
    done = tool.run("run", "--summary", "none", "-i", "20ms", "--request", "ram=512MiB", "--alert", "ram > 150MiB", "-o", "run.hiw", "--",
                    sys.executable, "job.py")
    assert done.returncode == 0, done.stderr
    yield tool, pictures(report_of(tool)), json.loads(tool.run("show", "--json", "run.hiw").stdout)
    tool.end_all()


def shown_keys(made, title):
    return made[1][title].keys


def test_what_is_pictured(made):
    titles = set(made[1])
    for of in ("GPU 0", "GPU 2"):
        assert {f"{of} memory", f"{of} activity", f"{of} power", f"{of} temperature"} <= titles
    assert not [t for t in titles if t.startswith("GPU 1")], "the job held nothing there"
    assert {"Phases and events", "RAM of the job", "RAM of the machine", "CPUs used by the job", "Storage", "loss", "accuracy", "<odd>&"} <= titles
    assert not [t for t in titles if "allocated" in t], "a framework's memory is no series of the user's"
    names = lambda title: {re.split(" max | \\d", key)[0] for key in shown_keys(made, title)}
    assert {"job", "device", "torch allocated"} <= names("GPU 0 memory") and "torch allocated" not in names("GPU 2 memory")
    assert "torch allocated max 5 B" in [key.replace("\xa0", " ") for key in shown_keys(made, "GPU 0 memory")]
    assert {"private", "job, shared pages once"} <= names("RAM of the job")
    assert names("GPU 0 throttled by") == {"heat"} and "GPU 2 throttled by" not in titles, "what never was is not pictured"


def test_memory_with_its_peak_and_its_request(made):
    tool, shown, summary = made
    ram = shown["RAM of the job"]
    peak = summary["ram"]["combined"]
    assert ram.keys[0].startswith("job, shared pages once max ")
    flag = next(p for p in ram.svg.iter("path") if p.get("class") == "flag")
    x, y = map(float, flag.get("d")[1:].split("l")[0].split())
    assert ram.time(x) == pytest.approx(peak["at_s"], abs=0.02) and ram.value(y) == pytest.approx(peak["peak_bytes"], rel=0.01)
    words = " ".join(t.text for t in ram.svg.iter("text"))
    assert "requested 512 MiB" in words and "peak " in words and peak["source"] in words
    requested = next(p for p in ram.svg.iter("path") if p.get("class") == "reference")
    assert ram.value(float(requested.get("d")[1:].split("H")[0].split()[1])) == pytest.approx(512 << 20, rel=0.01)
    for t, span, low, mean, high in query(tool.folder / "run.hiw", "SELECT t, span, coalesce(ram_min, ram), ram, coalesce(ram_max, ram) FROM job_sample WHERE span > 500000000"):
        seen = ram.at((t + span / 2) / SECOND)
        assert low - (8 << 20) <= seen <= high + (8 << 20), (t, seen, mean)


def test_the_phase_of_the_peak_is_told(made):
    """What was held grew until the last epoch had ended, and was given back."""
    tool, _, summary = made
    inside = [p for p in summary["phases"] if p["begin_s"] <= summary["ram"]["combined"]["at_s"] <= p["end_s"]]
    tile = (tool.folder / "page.html").read_text(encoding="utf-8").split("Peak RAM</dt>")[1].split("</div>")[0]
    assert [p["name"] for p in inside] == ["epoch"] and tile.split("<br>")[-1].startswith("in epoch 2"), tile


def test_gpus(made):
    tool, shown, _ = made
    memory = shown["GPU 0 memory"]
    assert [k.split(" max")[0] for k in memory.keys][:2] == ["job", "device"]
    assert "it has 79.6 GiB" not in " ".join(t.text for t in memory.svg.iter("text")), "a limit far above the lines would flatten them"
    rows = query(tool.folder / "run.hiw", "SELECT t, span, job_mem FROM gpu_sample WHERE id = (SELECT min(id) FROM gpu) AND job_mem IS NOT NULL AND span > 500000000")
    assert {GIB, 3 * GIB} <= {mem for _, _, mem in rows}
    for t, span, mem in rows:
        if mem in (GIB, 3 * GIB):
            assert memory.at((t + span / 2) / SECOND) == pytest.approx(mem, rel=0.01)
    work = shown["GPU 0 activity"]
    assert work.keys[0] == "SM active max 40 %" and work.keys[1] == '"utilisation": any kernel ran max 90 %'
    assert work.at(2.5, 0) == pytest.approx(0.4, abs=0.01) and work.at(2.5, 1) == pytest.approx(0.9, abs=0.01)
    late = made[2]["time"]["wall_s"] - 0.3  # a window before may still have some of the time at 100 W: the driver's clock starts late
    assert shown["GPU 0 power"].at(late, 0) == pytest.approx(300, rel=0.02)
    assert shown["GPU 2 power"].at(3.2, 0) == pytest.approx(70, rel=0.02)


def test_gpus_that_the_job_did_not_use(made):
    """They come behind the others, and a line says so in the place of charts; the data has them."""
    text = (made[0].folder / "page.html").read_text(encoding="utf-8")
    assert re.findall(r'<th scope="row">(GPU \d) <small>', text) == ["GPU 0", "GPU 2", "GPU 1"]
    assert '<p class="note">The job used no memory on GPU 1.</p>' in text
    run = payload(Page(text))["runs"][0]
    assert [(gpu["label"], gpu["unused"]) for gpu in run["gpus"]] == [("GPU 0", False), ("GPU 1", True), ("GPU 2", False)]
    assert table(run, "gpu", run["gpus"][1]["id"])["t"]


def test_limits_are_no_readings(made):
    """They are dashed; one that lies far above the lines is told."""
    shown = made[1]
    power = shown["GPU 0 power"]
    assert [k.split(" max")[0] for k in power.keys] == ["drawn", "limit"]
    assert power.at(3.2, 1) == pytest.approx(700, rel=0.02)
    assert [[bool(p.get("stroke-dasharray")) for p in power.svg.iter("path") if p.get("class") == f"line c{n}"][0] for n in range(2)] == [False, True]
    assert shown["GPU 0 memory"].above == ["total 79.6 GiB, above the chart"] and shown["GPU 0 activity"].above == []
    assert [re.split(r" \d", w)[0] for w in shown["RAM of the job"].above] == ["total of this machine"], "the request is drawn"


def test_a_device_stands_together(made):
    titles = list(made[1])
    of = [title[:5] for title in titles if title.startswith("GPU ")]
    assert of == sorted(of) and len(set(of)) == 2


def test_axes_say_different_things(made):
    """Also where nothing was read or written, and where what is drawn lies close together."""
    for title, picture in made[1].items():
        if title == "Phases and events":
            continue
        ticks = [t.text for t in picture.svg.iter("text") if t.get("text-anchor") == "end" and float(t.get("y")) < 170]
        assert len(ticks) == len(set(ticks)) >= 3, (title, ticks)
    rates = [t.text for t in made[1]["Storage"].svg.iter("text") if t.get("text-anchor") == "end" and float(t.get("y")) < 170]
    assert all(t.endswith("B/s") for t in rates), rates


def test_clocks_that_were_held_back(made):
    """The judge is the data of the page: rows of which heat took a twentieth of the time or more."""
    tool, shown, _ = made
    run = payload(Page((tool.folder / "page.html").read_text(encoding="utf-8")))["runs"][0]
    gpu = table(run, "gpu", run["gpus"][0]["id"])
    heat = column(gpu, "throttle_thermal")["mean"]
    held = [(t, t + span) for t, span, share in zip(gpu["t"], gpu["span"], heat) if share is not None and share >= 0.05]
    # Each share is of the time since the one before it, which stands until the next.
    known = [(t, share) for t, share in zip(gpu["t"], heat) if share is not None]
    around = zip([(0, 0)] + known, known, known[1:] + [(gpu["t"][-1] + 1, 0)])
    most = sum(after[0] - before[0] for before, (_, share), after in around if share > 0)
    for title in ("GPU 0 activity", "GPU 0 power", "GPU 0 temperature"):
        found = shown[title].stretches("held")
        assert found and all(any(a - 0.02 <= t and end <= b + 0.02 for a, b in found) for t, end in held), (found, held)
        assert 1 <= sum(b - a for a, b in found) <= most
        total = float(re.search(r"throttled by heat, ([\d.]+) s", shown[title].note)[1])
        assert 1 <= total <= 1.6, "the driver counts 1.5 s; a sample that comes late loses what exceeds its span"
    assert max(share for share in heat if share is not None) <= 1
    assert not shown["GPU 0 memory"].stretches("held") and not shown["GPU 2 power"].stretches("held")


def test_what_the_job_logged(made):
    tool, shown, _ = made
    loss = shown["loss"]
    assert [k.split()[0] for k in loss.keys] == ["train/loss", "val_loss"], "two lines of one picture"
    values = query(tool.folder / "run.hiw", "SELECT t, value FROM series_value WHERE series = (SELECT id FROM series WHERE name = 'val_loss') ORDER BY t")
    assert [v for _, v in values] == [3, None, 1]
    kept = [(t / SECOND, v) for t, v in values if v is not None]
    assert loss.dots(1) == [(pytest.approx(t, abs=0.02), pytest.approx(v, abs=0.05)) for t, v in kept]
    assert [t.text for t in loss.svg.iter("text") if t.get("class") == "special"] == ["NaN"]
    assert len(loss.shapes("line", 1)) == 2, "no line goes across what is no number"
    assert len(loss.shapes("line", 0)) == 1 and not loss.dots(0)
    accuracy = shown["accuracy"]
    assert [v for _, v in accuracy.dots()] == pytest.approx([0, 0.25, 0.5], abs=0.01) and len(accuracy.shapes("line")) == 1


def test_times_have_a_picture_of_their_own(tmp_path):
    """step_time/rank0 and loss/rank0 are both called rank0."""
    tool = Tool(tmp_path)
    long_recordings.make(HIWATER, tmp_path / "run.hiw", hours=0.05, processes=1, burst_at=-1)
    long_recordings.add_series(tmp_path / "run.hiw", ["step_time/rank0", "loss/rank0", "val/loss/rank0"], 100, 180)
    figures = re.findall(r'<figure class="picture">.*?</figure>', report_of(tool), flags=re.S)
    shown = [picture for figure in figures for title, picture in pictures(figure).items() if title == "rank0"]
    assert [[key.split()[0] for key in picture.keys] for picture in shown] == [["step_time/rank0"], ["loss/rank0", "val/loss/rank0"]]
    assert ["In seconds." in (picture.note or "") for picture in shown] == [True, False]


def test_what_happened(made):
    tool, shown, summary = made
    phases = [(p["begin_s"], p["end_s"]) for p in summary["phases"]]
    assert len(phases) == 3
    for title, picture in shown.items():
        if title != "Phases and events":
            assert picture.stretches("phase") == [(pytest.approx(a, abs=0.02), pytest.approx(b, abs=0.02)) for a, b in phases[::2]], title
    (alert, words), = query(tool.folder / "run.hiw", "SELECT t, text FROM event WHERE kind = 'alert'")
    (mark, end), = query(tool.folder / "run.hiw", "SELECT t, text FROM event WHERE kind = 'mark'")
    assert shown["loss"].moments("alert") == {words: pytest.approx(alert / SECOND, abs=0.02)}
    assert shown["loss"].moments("mark") == {"the <end>": pytest.approx(mark / SECOND, abs=0.02)} and end == "the <end>"
    lanes = shown["Phases and events"]
    assert lanes.stretches("band c0") == [(pytest.approx(a, abs=0.02), pytest.approx(b, abs=0.02)) for a, b in phases]
    written = [t.text for t in lanes.svg.iter("text")]
    assert {"phases", "events", "epoch 0", "epoch 1", "epoch 2"} <= set(written)
    assert lanes.moments("flag") == {words: pytest.approx(alert / SECOND, abs=0.02)}


def test_they_are_charts_where_mail_drops_the_style(made):
    """An SVG path without attributes is filled with black."""
    for title, picture in made[1].items():
        for path in picture.svg.iter("path"):
            assert path.get("fill") or path.get("stroke"), (title, path.attrib)
            if path.get("class").startswith("line"):
                assert path.get("fill") == "none" and path.get("stroke").startswith("#")


def test_what_is_read_rarely_stands(tmp_path):
    """A level until the next reading; a rate from the last one on. Readings each minute; the job works from 120 s on."""
    tool = Tool(tmp_path)
    long_recordings.make(HIWATER, tmp_path / "run.hiw", hours=0.1, processes=1, burst_at=-1)
    with sqlite3.connect(tmp_path / "run.hiw") as db:
        second = f"(t / {SECOND})"
        db.execute("UPDATE job_sample SET cpu_system = 0")
        for column in ("ram", "ram_min", "ram_max"):
            db.execute(f"UPDATE job_sample SET {column} = CASE WHEN {second} % 60 = 0 THEN {second} / 60 * {GIB} END")
        db.execute(f"UPDATE job_sample SET cpu_user = CASE WHEN {second} % 60 = 59 THEN max(0, {second} - 119) * {SECOND} END")
    db.close()
    shown = pictures(report_of(tool))
    assert [shown["RAM of the job"].at(t) / GIB for t in (30, 62, 118, 122, 178)] == pytest.approx([0, 1, 1, 2, 2], abs=0.02)
    assert [shown["CPUs used by the job"].at(t) for t in (80, 118, 122, 150, 178, 300)] == pytest.approx([0, 0, 1, 1, 1, 1], abs=0.02)


@pytest.mark.parametrize("alone", [True, False])
def test_a_cgroup_is_pictured_where_it_is_the_jobs_alone(tmp_path, alone):
    """Who is in it shows after its first reading, where a job is attached to: what strangers hold would leave the job no height."""
    tool = Tool(tmp_path)
    long_recordings.make(HIWATER, tmp_path / "run.hiw", hours=0.1, processes=1, burst_at=-1)
    with sqlite3.connect(tmp_path / "run.hiw") as db:
        db.execute(f"UPDATE job_sample SET cgroup_mem = {80 * GIB}, cgroup_mem_min = {80 * GIB}, cgroup_mem_max = {80 * GIB}")
        db.execute("INSERT OR REPLACE INTO meta VALUES ('cgroup_exclusive', ?)", (int(alone),))
    db.close()
    keys = pictures(report_of(tool))["RAM of the job"].keys
    assert any(key.startswith("charged to its cgroup") for key in keys) == alone, keys


def test_processors_are_what_both_kinds_were_at_one_time(tmp_path):
    """In every second one core, in user mode or in the kernel; many seconds are one place of the picture."""
    tool = Tool(tmp_path)
    long_recordings.make(HIWATER, tmp_path / "run.hiw", hours=1, processes=1, burst_at=-1)
    with sqlite3.connect(tmp_path / "run.hiw") as db:
        db.execute(f"UPDATE job_sample SET cpu_user = (t / {SECOND} + 1) / 2 * {SECOND}, cpu_system = (t / {SECOND}) / 2 * {SECOND}")
    db.close()
    shown = pictures(report_of(tool))["CPUs used by the job"]
    assert shown.keys == ["job max 1 cores", "in the kernel max 1 cores"]


def test_values_at_the_edge_of_doubles_are_drawn(tmp_path):
    tool = Tool(tmp_path)
    long_recordings.make(HIWATER, tmp_path / "run.hiw", hours=0.1, processes=1, burst_at=5)
    long_recordings.add_series(tmp_path / "run.hiw", ["huge", "tiny", "same"], 100, 300)
    with sqlite3.connect(tmp_path / "run.hiw") as db:
        ids = dict(db.execute("SELECT name, id FROM series")) or {"huge": 1, "tiny": 2, "same": 3}
        for name, value in (("huge", "CASE step % 2 WHEN 0 THEN 1e308 ELSE -1e308 END"), ("tiny", "4.9e-324 * step"), ("same", "7")):
            db.execute(f"UPDATE series_value SET value = {value} WHERE series = ?", (ids[name],))
    db.close()
    source = report_of(tool)
    shown = pictures(source)
    for name in ("huge", "tiny", "same"):
        assert "nan" not in source.split(f"<figcaption>{name}")[1].split("</figure>")[0].lower().replace("nanosecond", "")
        assert shown[name].svg is not None
    assert all(math.isclose(v, 7, rel_tol=1e-3) for _, v in shown["same"].shapes("line")[0])

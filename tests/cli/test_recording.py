# SPDX-License-Identifier: MIT
"""A run's recording: every command shows the same figures at any time, and the file matches the documents."""
import json
import os
import re
import shutil
import signal
import stat
import subprocess

import pytest
import stress_jobs
from cli_helpers import DEADLINE, HIWATER, ROOT, ended, processes, state_of, wait_for
from stress_jobs import (STATUS, accumulators, check_integrity, child_of, figures, finish, line_of, meta, opened,
                         query, shown, valid, value, wait_recorded, warnings_of)

MB = 1_000_000
LIMIT = 350_000  # bytes of the recordings that are thinned
THIN = {"TEST_WINDOW_NS": "10000000", "TEST_MAX_BYTES": str(LIMIT)}


@pytest.fixture(scope="module")
def small_limit(tmp_path_factory):
    return stress_jobs.compile_small_limit(tmp_path_factory.mktemp("small-limit"))


@pytest.fixture(scope="module")
def thinned(tmp_path_factory, stress_program, small_limit):
    """The same with windows of 10 ms that exceed the limit."""
    return stress_jobs.wave(tmp_path_factory.mktemp("thinned"), stress_program, small_limit, THIN, "5ms")


# ---- run, show, the tables ----

@pytest.mark.parametrize("which", ["recorded", "thinned"])
def test_show_agrees_with_run(which, request):
    run = request.getfixturevalue(which)
    assert figures(shown(run.tool, "x.hiw")) == figures(run.at_end)


@pytest.mark.parametrize("which", ["recorded", "thinned"])
def test_the_figures_are_true(which, request):
    run = request.getfixturevalue(which)
    ram, time = run.at_end["ram"], run.at_end["time"]
    assert 80 * MB <= ram["main"]["peak_bytes"] < 86 * MB  # 20, and 60 for a moment
    assert 60 * MB <= ram["descendants"]["peak_bytes"] < 66 * MB  # 20 of its parent's, and 40
    assert 80 * MB <= ram["combined"]["low_bytes"] < 86 * MB
    # 20 that both share, 60 and 40 at worst at once, and 20 again: main may have copied the shared pages. A bound cannot attribute
    # the machine's huge pages.
    assert ram["combined"]["high_bytes"] < 150 * MB + run.huge
    assert ram["combined"]["low_bytes"] <= ram["combined"]["peak_bytes"] <= ram["combined"]["high_bytes"]
    assert abs((time["user_s"] + time["system_s"]) * 1e6 - run.cpu_us) < 20_000
    assert 2.4 < time["wall_s"] < 15
    assert run.at_end["processes"]["seen"] == 2 and run.at_end["processes"]["peak_alive"] == 2
    assert run.at_end["exit"] == {"code": 0, "signal": None, "oom_killed": False, "raised": None}
    assert run.at_end["run"]["complete"] is True
    if run.at_end["io"]["write_bytes"] is not None and not on_tmpfs(run.path):
        assert run.at_end["io"]["write_bytes"] >= 4 * MB


def on_tmpfs(path):
    done = subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, text=True, check=True)
    return done.stdout.strip() in ("tmpfs", "ramfs")


@pytest.mark.parametrize("which", ["recorded", "thinned"])
def test_the_rows_agree_with_the_summary(which, request):
    """Peaks and means computed from the rows are those of the summary."""
    run = request.getfixturevalue(which)
    ram = run.at_end["ram"]
    for column, figure in (("ram", ram["combined"]), ("ram_main", ram["main"]), ("ram_descendants", ram["descendants"])):
        rows = query(run.path, f"SELECT t, span, {column}, coalesce({column}_max, {column}) FROM job_sample "
                               f"WHERE {column} IS NOT NULL ORDER BY t")
        assert max(r[3] for r in rows) == figure["peak_bytes"], column
        mean = sum(r[1] * r[2] for r in rows) / sum(r[1] for r in rows)
        if column != "ram_descendants":  # it does not exist all the time
            assert mean == pytest.approx(figure["mean_bytes"], rel=0.01), column
        for before, after in zip(rows, rows[1:]):
            assert before[0] + before[1] <= after[0], "windows do not overlap"
    host = query(run.path, "SELECT max(coalesce(mem_used_max, mem_used)) FROM host_sample")
    assert host[0][0] == ram["system"]["peak_bytes"]
    most = value(run.path, "SELECT max(coalesce(processes_max, processes)) FROM job_sample")
    assert most == run.at_end["processes"]["peak_alive"]


@pytest.mark.parametrize("which", ["recorded", "thinned"])
def test_the_accumulators_agree_with_the_summary(which, request):
    run = request.getfixturevalue(which)
    acc, ram = accumulators(run.path), run.at_end["ram"]
    for metric, figure in (("ram", ram["combined"]), ("ram_descendants", ram["descendants"])):
        assert acc[metric]["max"] == figure["peak_bytes"]
        assert acc[metric]["max_at"] / 1e9 == pytest.approx(figure["at_s"], abs=1e-6)
        assert acc[metric]["sum"] / acc[metric]["span"] == pytest.approx(figure["mean_bytes"], abs=1)


BURST = """
import mmap, os, signal, sys, time
kind = sys.argv[1]

def stop(seconds):
    os.kill(os.getppid(), signal.SIGSTOP)
    time.sleep(seconds)

time.sleep(0.7 if kind == "late" else 0.3)
if kind == "late":
    stop(0.6)
begun = time.time()
held = mmap.mmap(-1, 200 << 20)
held.write(bytes(200 << 20))
if kind == "seen":
    time.sleep(0.9)
held.close()
print(begun, time.time())
if kind == "seen":
    stop(1)
if kind != "in time":
    os.kill(os.getppid(), signal.SIGCONT)
time.sleep(2.5)
"""


@pytest.mark.parametrize("tick", ["in time", "late", "seen"])
def test_a_burst_is_told_in_the_window_that_it_happened_in(tool, tick):
    """Or in any window in which it may have happened: after the previous sample and, if a sample observed it (the machine is slow),
    until the next one, up to which that value is valid. A late sample is in the next window."""
    done = tool.run("run", "-i", "1s", "-o", "x.hiw", "--json", "x.json", "--", "python3", "-c", BURST, tick)
    assert done.returncode == 0, done.stderr
    path = tool.folder / "x.hiw"
    started = int(value(path, "SELECT value FROM meta WHERE key = 'started_wall_ns'")) / 1e9
    begun, over = (float(word) - started for word in done.stdout.split())
    looks = [look for look, in query(path, "SELECT t / 1e9 FROM job_recent")]
    stood = max((later for look, later in zip(looks, looks[1:]) if begun <= look <= over), default=over)
    windows = range(int(max(look for look in looks if look < begun)), int(stood) + 1)
    for table, column in (("job_sample", "ram"), ("job_sample", "ram_main"), ("process_sample", "rss")):
        rows = query(path, f"SELECT t / 1000000000 FROM {table} WHERE {column}_max > 200000000")
        assert rows and all(row[0] in windows for row in rows), (table, column, rows, begun, over)
    ram = shown(tool, "x.hiw")["ram"]
    assert all(begun - 1 <= ram[part]["at_s"] <= over + 0.6 for part in ("main", "combined"))


def test_thinning_happened_and_the_limit_held(thinned):
    spans = [row[0] for row in query(thinned.path, "SELECT span FROM job_sample ORDER BY t")]
    assert max(spans) > 15_000_000, "no window was merged"
    assert spans.index(max(spans)) < len(spans) / 2, "the oldest go first"
    assert thinned.path.stat().st_size <= LIMIT
    check_integrity(thinned.path)


def test_the_text_is_the_same(recorded):
    def figures_of(text):
        return [line for line in text.splitlines() if not re.match(r"Recording|Sampling|  .*hiwater itself", line)]

    text = recorded.tool.run("show", "x.hiw").stdout
    assert len(figures_of(text)) > 5
    assert figures_of(text) == figures_of(recorded.done.stderr)


# ---- the file ----

def test_the_file(recorded):
    assert stat.S_IMODE(recorded.path.stat().st_mode) == 0o600
    assert sorted(p.name for p in recorded.tool.folder.glob("x.hiw*")) == ["x.hiw"], "no journal is left"
    check_integrity(recorded.path)
    assert value(recorded.path, "PRAGMA journal_mode") == "delete", "it must open on a read-only disk"
    assert recorded.path.read_bytes()[:16] == b"SQLite format 3\0"
    kept = meta(recorded.path)
    assert kept["ended_ns"] / 1e9 == pytest.approx(recorded.at_end["time"]["wall_s"], abs=1e-6)
    assert kept["schema"] == 2


def test_the_file_opens_where_nothing_can_be_written(recorded, tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir()
    shutil.copy(recorded.path, folder / "x.hiw")
    (folder / "x.hiw").chmod(0o444)
    folder.chmod(0o555)
    rights = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"] if os.geteuid() == 0 else []
    for parent in folder.parents:
        if str(parent) in ("/tmp", "/"):
            break
        parent.chmod(0o755)
    done = subprocess.run([*rights, HIWATER, "show", "--json", folder / "x.hiw"], env=recorded.tool.env, cwd="/",
                          capture_output=True, text=True, timeout=30, check=False)
    folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert figures(valid(done.stdout)) == figures(recorded.at_end)


def documented():
    """{entity: {name: kind}} of docs/metrics.md."""
    entity, found = None, {}
    for line in (ROOT / "docs" / "metrics.md").read_text().splitlines():
        heading = re.match(r"## .*\(`(\w+)`\)", line)
        if heading:
            entity = heading[1]
            found[entity] = {}
        row = re.match(r"\| `(\w+)` \| [^|]+ \| (\w+) \|", line)
        if row and entity:
            found[entity][row[1]] = row[2]
    return found


def test_the_columns_are_those_of_the_document(recorded):
    """One column per metric, three per gauge in a window, and no others."""
    metrics = documented()
    assert set(metrics) >= {"host", "job", "process"}
    for entity, rows in metrics.items():
        alone = {"t", "span", "n", "part", *rows} | ({"id"} if entity not in ("host", "job") else set())
        extremes = {f"{name}_{end}" for name, kind in rows.items() if kind == "gauge" for end in ("min", "max")}
        for table, expected in ((f"{entity}_sample", alone | extremes), (f"{entity}_recent", alone)):
            assert {r[1] for r in query(recorded.path, f"PRAGMA table_info({table})")} == expected, table
    listed = {(e, n, k) for e, n, k in query(recorded.path, "SELECT entity, name, kind FROM metric")}
    assert listed == {(e, n, k) for e, rows in metrics.items() for n, k in rows.items()}


def test_units_of_the_rows(recorded):
    """Time in ns since the start, memory in bytes, CPU time in ns, and counters that never decrease."""
    rows = query(recorded.path, "SELECT t, span, cpu_user + cpu_system, ram_main FROM job_sample ORDER BY t")
    wall = recorded.at_end["time"]["wall_s"] * 1e9
    assert rows[0][0] == 0 and 0.9 * wall < rows[-1][0] + rows[-1][1] < 1.1 * wall
    used = [r[2] for r in rows if r[2] is not None]
    assert used == sorted(used)
    assert used[-1] / 1000 == pytest.approx(recorded.cpu_us, abs=50_000)
    assert all(MB < r[3] < 100 * MB for r in rows if r[3] is not None)


def test_full_rate_is_kept_too(recorded):
    ticks = value(recorded.path, "SELECT count(*) FROM job_recent WHERE ram IS NOT NULL")
    assert 0.7 * recorded.at_end["sampling"]["samples"] <= ticks <= recorded.at_end["sampling"]["samples"] + 10
    assert ticks > 5 * value(recorded.path, "SELECT count(*) FROM job_sample")


def test_copy(recorded):
    done = recorded.tool.run("show", "--copy", "copy.hiw", "x.hiw")
    assert done.returncode == 0 and done.stdout == ""
    copy = recorded.tool.folder / "copy.hiw"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    check_integrity(copy)
    again = shown(recorded.tool, "copy.hiw")
    assert figures(again) == figures(recorded.at_end)
    assert again["run"]["id"] == recorded.at_end["run"]["id"] and again["run"]["recording"].endswith("copy.hiw")
    assert not list(recorded.tool.folder.glob("copy.hiw-*"))


def test_a_recording_is_never_written_over(recorded):
    before = recorded.path.read_bytes()
    done = recorded.tool.run("run", "--strict", "-o", "x.hiw", "--", "touch", "began")
    assert done.returncode == 125 and done.stderr.count("\n") == 1 and "x.hiw" in done.stderr
    assert not (recorded.tool.folder / "began").exists()
    assert recorded.path.read_bytes() == before


# ---- growing, and cut off ----

def test_anybody_reads_it_while_it_grows(stress, tool):
    process = stress.start(["-o", "x.hiw", "--json", "run.json"], "beat", "beat")
    path = tool.folder / "x.hiw"
    wait_recorded(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for beside in tool.folder.glob("x.hiw-*"):
        assert stat.S_IMODE(beside.stat().st_mode) == 0o600
    with opened(path) as db:  # one connection, over commits
        first = db.execute("SELECT count(*) FROM job_sample").fetchone()[0]
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        wait_for(lambda: db.execute("SELECT count(*) FROM job_sample").fetchone()[0] > first, "it grows")
        # A reader with an open transaction delays neither writing nor the end.
        db.execute("BEGIN")
        seen = db.execute("SELECT count(*) FROM job_sample").fetchone()[0]
        middle = shown(tool, "x.hiw")
        assert middle["run"]["complete"] is False and middle["exit"]["code"] is None
        stdout, stderr = finish(process)
        assert db.execute("SELECT count(*) FROM job_sample").fetchone()[0] == seen
        db.execute("COMMIT")
    assert process.returncode == STATUS and stdout == "done\n"
    assert not warnings_of(stderr)
    end = valid((tool.folder / "run.json").read_text())
    assert figures(shown(tool, "x.hiw")) == figures(end)
    check_integrity(path)
    assert middle["ram"]["main"]["peak_bytes"] <= end["ram"]["main"]["peak_bytes"]


def compare_with_tables(summary, path):
    """A recording that was cut off has the figures of its last commit."""
    acc, kept, ram = accumulators(path), meta(path), summary["ram"]
    assert ram["combined"]["peak_bytes"] == acc["ram"]["max"]
    for name, metric in (("combined", "ram"), ("main", "ram_main")):
        mean = ram[name]["mean_bytes"]
        if kept["samples"] >= 3:  # fewer have none
            assert mean == pytest.approx(acc[metric]["sum"] / acc[metric]["span"], abs=1)
        else:
            assert mean is None
    assert ram["main"]["peak_bytes"] == max(acc["ram_main"]["max"], kept.get("main_hwm_bytes") or 0)
    assert ram["system"]["peak_bytes"] == accumulators(path, "host")["mem_used"]["max"]
    assert summary["processes"]["peak_alive"] == acc["processes"]["max"]
    assert summary["time"]["wall_s"] == pytest.approx(kept["last_ns"] / 1e9, abs=1e-6)
    assert summary["sampling"]["samples"] == kept["samples"]
    assert summary["run"]["id"] == kept["id"]


@pytest.mark.parametrize("binary", ["whole", "thinned"])
def test_kill_9_of_the_recorder(stress, tool, binary, request):
    options = ["-i", "10ms", "-o", "x.hiw"]
    path, beats = tool.folder / "x.hiw", tool.folder / "beat"
    if binary == "whole":
        process = stress.start(options, "beat", "beat")
        wait_recorded(path, 2)
    else:
        env = dict(tool.env, **THIN)
        process = subprocess.Popen([request.getfixturevalue("small_limit"), "run", *options, "--", stress.program, "beat", "beat"],
                                   env=env, cwd=tool.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        tool.started.append(process)
        assert line_of(process.stdout) == b"ready\n"
        wait_recorded(path)
        sizes = []
        wait_for(lambda: (sizes.append(sum(p.stat().st_size for p in tool.folder.glob("x.hiw*")))
                          or value(path, "SELECT max(span) FROM job_sample") > 15_000_000), "thinned")
        assert max(sizes) <= LIMIT, "journal included"
    job = child_of(process.pid)
    own = [p[0] for p in processes() if p[3] == process.pid and p[0] != job]
    process.kill()
    process.wait(30)
    wait_for(lambda: all(ended(pid) for pid in own), "nothing of hiwater's own lives on")
    summary = shown(tool, "x.hiw")  # with its journal
    compare_with_tables(summary, path)
    assert figures(shown(tool, "x.hiw")) == figures(summary)
    check_integrity(path)
    assert summary["run"]["complete"] is False
    assert summary["exit"]["code"] is None
    assert summary["ram"]["main"]["peak_bytes"] > 100_000
    # Rows and accumulators are written in one transaction.
    assert value(path, "SELECT max(coalesce(ram_max, ram)) FROM job_sample") == summary["ram"]["combined"]["peak_bytes"]
    assert tool.run("show", "--copy", "copy.hiw", "x.hiw").returncode == 0
    assert figures(shown(tool, "copy.hiw")) == figures(summary)
    assert not list(tool.folder.glob("copy.hiw-*"))
    # The job continues to its own end.
    assert not ended(job)
    before = beats.stat().st_size
    wait_for(lambda: beats.stat().st_size > before + 10, "the job goes on")
    assert finish(process)[0] == "done\n"
    wait_for(lambda: ended(job), "the job ended")


def test_kill_9_before_anything_is_written(stress, tool):
    process = stress.start(["-o", "x.hiw"], "beat", "beat")
    job = child_of(process.pid)
    process.kill()
    process.wait(30)
    assert not ended(job)
    done = tool.run("show", "x.hiw")
    assert done.returncode in (0, 1, 2)
    assert done.returncode == 0 or done.stderr.count("\n") == 1
    assert finish(process)[0] == "done\n"


def test_a_shorter_run_than_a_window_is_whole(tool):
    done = tool.run("run", "-o", "x.hiw", "--json", "run.json", "--", "sh", "-c", "exit 3")
    assert done.returncode == 3
    assert figures(shown(tool, "x.hiw")) == figures(valid((tool.folder / "run.json").read_text()))
    assert sorted(p.name for p in tool.folder.iterdir()) == ["run.json", "x.hiw"]
    check_integrity(tool.folder / "x.hiw")
    assert stat.S_IMODE((tool.folder / "x.hiw").stat().st_mode) == 0o600


def test_a_stopped_recorder_says_what_it_missed(stress, tool):
    process = stress.start(["-i", "20ms", "-o", "x.hiw", "--json", "run.json"], "beat", "beat")
    beats = tool.folder / "beat"
    wait_recorded(tool.folder / "x.hiw")
    process.send_signal(signal.SIGSTOP)
    wait_for(lambda: state_of(process.pid) == "T", "hiwater stopped")
    clock = os.times().elapsed
    before = beats.stat().st_size
    wait_for(lambda: os.times().elapsed - clock > 3 and beats.stat().st_size > before + 100, "the job goes on alone")
    process.send_signal(signal.SIGCONT)
    gone = os.times().elapsed - clock
    wait_for(lambda: value(tool.folder / "x.hiw", "SELECT count(*) FROM event WHERE kind = 'gap'"), "the gap is recorded")
    stdout, _ = finish(process)
    assert process.returncode == STATUS and stdout == "done\n"
    summary = valid((tool.folder / "run.json").read_text())
    assert 3 <= summary["sampling"]["longest_gap_s"] < gone + 2
    assert summary["sampling"]["longest_gap_cause"] == "stopped" and summary["sampling"]["skipped_samples"] >= 140
    assert value(tool.folder / "x.hiw", "SELECT text FROM event WHERE kind = 'gap' ORDER BY value DESC") == "stopped"
    assert any("hiwater was stopped" in f["message"] for f in summary["findings"] if f["code"] == "blind-spots")
    gaps = query(tool.folder / "x.hiw", "SELECT t, value FROM event WHERE kind = 'gap' ORDER BY value DESC")
    assert 3e9 <= gaps[0][1] < (gone + 2) * 1e9
    assert shown(tool, "x.hiw")["sampling"]["longest_gap_s"] == summary["sampling"]["longest_gap_s"]
    # It is a gap in the rows, too: no value covers it.
    rows = query(tool.folder / "x.hiw", "SELECT t, span FROM job_recent ORDER BY t")
    assert max(r[1] for r in rows) < 2_500_000_000


def test_a_mark_from_within(stress, tool):
    """From a grandchild of the job, while it runs: an event at that time."""
    script = f"sleep 0.3; sh -c '({HIWATER} mark \"epoch 1: 50 % \u2713\"; exit $?)' || exit 9; sleep 1"
    done = tool.run("run", "-i", "5s", "-o", "x.hiw", "--summary", "none", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    marks = query(tool.folder / "x.hiw", "SELECT t, text FROM event WHERE kind = 'mark'")
    assert [text for _, text in marks] == ["epoch 1: 50 % \u2713"]
    assert 0.3e9 <= marks[0][0] < value(tool.folder / "x.hiw", "SELECT value FROM meta WHERE key = 'ended_ns'") - 0.9e9
    # A mark causes a sample at once.
    assert value(tool.folder / "x.hiw", "SELECT min(abs(t - ?)) FROM job_recent", marks[0][0]) < 20_000_000


@pytest.mark.parametrize("killed", [False, True])
def test_marks_are_in_every_summary(tool, killed):
    """run, show, and show of a recording that was cut off: the last ten as text, the last fifty in JSON, and their number."""
    script = f"for i in $(seq 1 57); do {HIWATER} mark step $i || exit 9; done; sleep 1.5; echo ready; read x"
    process = subprocess.Popen([HIWATER, "run", "-o", "x.hiw", "--json", "at-end.json", "--", "sh", "-c", script], env=tool.env, cwd=tool.folder,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    tool.started.append(process)
    assert line_of(process.stdout) == b"ready\n"
    if killed:
        process.kill()
        process.wait(30)
    else:
        _, said = process.communicate(b"\n", timeout=30)
        assert "step 57" in said.decode()
        assert json.loads((tool.folder / "at-end.json").read_text())["marks"] == shown(tool, "x.hiw")["marks"]
    marks = shown(tool, "x.hiw")["marks"]
    assert marks["seen"] == 57
    assert [m["text"] for m in marks["list"]] == [f"step {i}" for i in range(8, 58)]
    assert marks["list"] == sorted(marks["list"], key=lambda m: m["time_s"])
    text = tool.run("show", "x.hiw").stdout
    assert [int(n) for n in re.findall(r"at [\d.]+ .?s: step (\d+)", text)] == list(range(48, 58))
    assert "and 47 earlier marks" in text.replace("\u00a0", " ")
    text = tool.run("show", "--plain", "x.hiw").stdout
    assert [int(n) for n in re.findall(r"^mark after [\d.]+ \w+: step (\d+)$", text, re.M)] == list(range(48, 58))
    assert "marks: 57, of which the last 10 follow\n" in text


@pytest.mark.alone
def test_shared_memory_that_others_release_is_no_rise(tool):
    """Without a cgroup of its own, the job's shared memory is at most the rise of the machine's during the run."""
    path, ready, go = tool.folder / "run.hiw", tool.folder / "ready", tool.folder / "go"
    held = os.memfd_create("held")
    for _ in range(200):
        os.write(held, b"x" * (1 << 20))
    process = tool.start("run", "--summary", "none", "--json", "s.json", "-o", path, "--", "sh", "-c",
                         f"touch {ready}; while [ ! -e {go} ]; do sleep 0.05; done; sleep 0.3")
    wait_for(ready.exists, "the job runs")
    wait_recorded(path)
    os.close(held)
    go.touch()
    assert process.wait(timeout=DEADLINE) == 0, process.stderr.read()
    ram = json.loads((tool.folder / "s.json").read_text(encoding="utf-8"))["ram"]
    assert ram["shmem"]["peak_bytes"] < 150 << 20
    assert json.loads(tool.run("show", "--json", path).stdout)["ram"] == ram

# SPDX-License-Identifier: MIT
"""A run's recording: whoever asks, and when, the figures are the same; and it is what the documents say."""
import json
import os
import re
import shutil
import signal
import stat
import subprocess

import pytest
import stress_jobs
from cli_helpers import HIWATER, ROOT, Tool, ended, state_of, wait_for
from stress_jobs import (STATUS, accumulators, check_integrity, child_of, figures, finish, meta, opened, query, shown,
                         valid, value, wait_recorded)

MB = 1_000_000
LIMIT = 350_000  # of the recordings that are thinned
THIN = {"TEST_WINDOW_NS": "10000000", "TEST_MAX_BYTES": str(LIMIT)}


class Run:
    """A finished run of stress.c's wave."""

    def __init__(self, tool, path, done):
        self.tool, self.path, self.done = tool, path, done
        self.at_end = valid((tool.folder / "run.json").read_text())
        user, system = map(int, done.stdout.split())
        self.cpu_us = user + system  # what the kernel told the job


def wave(folder, program, binary=HIWATER, env=None, interval="20ms"):
    tool = Tool(folder)
    done = subprocess.run([binary, "run", "-i", interval, "-o", "x.hiw", "--json", "run.json", "--", program, "wave", "data"],
                          env=dict(tool.env, **(env or {})), cwd=folder, capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr
    return Run(tool, folder / "x.hiw", done)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, stress_program):
    """One run for all tests that only look at it."""
    return wave(tmp_path_factory.mktemp("recorded"), stress_program)


@pytest.fixture(scope="module")
def small_limit(tmp_path_factory):
    return stress_jobs.compile_small_limit(tmp_path_factory.mktemp("small-limit"))


@pytest.fixture(scope="module")
def thinned(tmp_path_factory, stress_program, small_limit):
    """The same with windows of 10 ms and a limit that they do not fit into."""
    return wave(tmp_path_factory.mktemp("thinned"), stress_program, small_limit, THIN, "5ms")


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
    assert 80 * MB <= ram["combined"]["peak_bytes"] < 90 * MB
    assert abs((time["user_s"] + time["system_s"]) * 1e6 - run.cpu_us) < 20_000
    assert 2.4 < time["wall_s"] < 15
    assert run.at_end["processes"]["seen"] == 2 and run.at_end["processes"]["peak_alive"] == 2
    assert run.at_end["exit"] == {"code": 0, "signal": None, "oom_killed": False}
    assert run.at_end["run"]["complete"] is True
    if run.at_end["io"]["write_bytes"] is not None and not on_tmpfs(run.path):
        assert run.at_end["io"]["write_bytes"] >= 4 * MB


def on_tmpfs(path):
    done = subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, text=True, check=True)
    return done.stdout.strip() in ("tmpfs", "ramfs")


@pytest.mark.parametrize("which", ["recorded", "thinned"])
def test_the_rows_agree_with_the_summary(which, request):
    """Peaks and means that anybody can work out from the rows are the ones in the summary."""
    run = request.getfixturevalue(which)
    ram = run.at_end["ram"]
    for column, figure in (("ram", ram["combined"]), ("ram_main", ram["main"]), ("ram_rest", ram["descendants"])):
        rows = query(run.path, f"SELECT t, span, {column}, coalesce({column}_max, {column}) FROM job_sample "
                               f"WHERE {column} IS NOT NULL ORDER BY t")
        assert max(r[3] for r in rows) == figure["peak_bytes"], column
        mean = sum(r[1] * r[2] for r in rows) / sum(r[1] for r in rows)
        if column != "ram_rest":  # it is not there all the time
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
    for metric, figure in (("ram", ram["combined"]), ("ram_rest", ram["descendants"])):
        assert acc[metric]["max"] == figure["peak_bytes"]
        assert acc[metric]["max_at"] / 1e9 == pytest.approx(figure["at_s"], abs=1e-6)
        assert acc[metric]["sum"] / acc[metric]["span"] == pytest.approx(figure["mean_bytes"], abs=1)


def test_thinning_happened_and_the_limit_held(thinned):
    spans = [row[0] for row in query(thinned.path, "SELECT span FROM job_sample ORDER BY t")]
    assert max(spans) > 15_000_000, "no window was merged"
    assert spans.index(max(spans)) < len(spans) / 2, "the oldest go first"
    assert thinned.path.stat().st_size <= LIMIT
    check_integrity(thinned.path)


def test_the_text_is_the_same(recorded):
    def figures_of(text):
        return [line for line in text.splitlines() if not re.match(r"Again|Sampling|  .*hiwater itself", line)]

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
    assert kept["schema"] == 1


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
    """A column for each metric, three for a gauge in a window; and nothing else."""
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
    """Time in ns since the start, memory in bytes, processor time in ns, and counters that never fall."""
    rows = query(recorded.path, "SELECT t, span, cpu_user + cpu_system, ram_main FROM job_sample ORDER BY t")
    wall = recorded.at_end["time"]["wall_s"] * 1e9
    assert rows[0][0] == 0 and 0.9 * wall < rows[-1][0] + rows[-1][1] < 1.1 * wall
    used = [r[2] for r in rows if r[2] is not None]
    assert used == sorted(used)
    assert used[-1] / 1000 == pytest.approx(recorded.cpu_us, abs=50_000)
    assert all(MB < r[3] < 100 * MB for r in rows if r[3] is not None)


def test_full_rate_is_kept_too(recorded):
    ticks = value(recorded.path, "SELECT count(*) FROM job_recent WHERE ram IS NOT NULL")
    assert 0.7 * recorded.at_end["sampling"]["ticks"] <= ticks <= recorded.at_end["sampling"]["ticks"] + 10
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
    done = recorded.tool.run("run", "-o", "x.hiw", "--", "touch", "began")
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
        # A reader that holds its view keeps nobody from writing, nor from ending.
        db.execute("BEGIN")
        seen = db.execute("SELECT count(*) FROM job_sample").fetchone()[0]
        middle = shown(tool, "x.hiw")
        assert middle["run"]["complete"] is False and middle["exit"]["code"] is None
        stdout, stderr = finish(process)
        assert db.execute("SELECT count(*) FROM job_sample").fetchone()[0] == seen
        db.execute("COMMIT")
    assert process.returncode == STATUS and stdout == "done\n"
    assert not stress_jobs.warnings_of(stderr)
    end = valid((tool.folder / "run.json").read_text())
    assert figures(shown(tool, "x.hiw")) == figures(end)
    check_integrity(path)
    assert middle["ram"]["main"]["peak_bytes"] <= end["ram"]["main"]["peak_bytes"]


def compare_with_tables(summary, path):
    """The figures of a recording that was cut off are those of its last commit."""
    acc, kept, ram = accumulators(path), meta(path), summary["ram"]
    assert ram["combined"]["peak_bytes"] == acc["ram"]["max"]
    assert ram["combined"]["mean_bytes"] == pytest.approx(acc["ram"]["sum"] / acc["ram"]["span"], abs=1)
    assert ram["main"]["mean_bytes"] == pytest.approx(acc["ram_main"]["sum"] / acc["ram_main"]["span"], abs=1)
    assert ram["main"]["peak_bytes"] == max(acc["ram_main"]["max"], kept.get("main_hwm_bytes") or 0)
    assert ram["system"]["peak_bytes"] == accumulators(path, "host")["mem_used"]["max"]
    assert summary["processes"]["peak_alive"] == acc["processes"]["max"]
    assert summary["time"]["wall_s"] == pytest.approx(kept["last_ns"] / 1e9, abs=1e-6)
    assert summary["sampling"]["ticks"] == kept["ticks"]
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
        assert process.stdout.readline() == b"ready\n"
        wait_recorded(path)
        sizes = []
        wait_for(lambda: (sizes.append(sum(p.stat().st_size for p in tool.folder.glob("x.hiw*")))
                          or value(path, "SELECT max(span) FROM job_sample") > 15_000_000), "thinned")
        assert max(sizes) <= LIMIT, "journal included"
    job = child_of(process.pid)
    process.kill()
    process.wait(30)
    summary = shown(tool, "x.hiw")  # with the journal as it was left
    compare_with_tables(summary, path)
    assert figures(shown(tool, "x.hiw")) == figures(summary)
    check_integrity(path)
    assert summary["run"]["complete"] is False
    assert summary["exit"]["code"] is None
    assert summary["ram"]["main"]["peak_bytes"] > 100_000
    # Rows and accumulators are of one transaction.
    assert value(path, "SELECT max(coalesce(ram_max, ram)) FROM job_sample") == summary["ram"]["combined"]["peak_bytes"]
    assert tool.run("show", "--copy", "copy.hiw", "x.hiw").returncode == 0
    assert figures(shown(tool, "copy.hiw")) == figures(summary)
    assert not list(tool.folder.glob("copy.hiw-*"))
    # The job goes on, and ends as it wants to.
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
    gaps = query(tool.folder / "x.hiw", "SELECT t, value FROM event WHERE kind = 'gap' ORDER BY value DESC")
    assert 3e9 <= gaps[0][1] < (gone + 2) * 1e9
    assert shown(tool, "x.hiw")["sampling"]["longest_gap_s"] == summary["sampling"]["longest_gap_s"]
    # It is a gap in the rows, too: nobody stretched a value over it.
    rows = query(tool.folder / "x.hiw", "SELECT t, span FROM job_recent ORDER BY t")
    assert max(r[1] for r in rows) < 2_500_000_000


def test_a_mark_from_within(stress, tool):
    """From a grandchild of the job, while it runs: an event at that time."""
    script = f"sleep 0.3; sh -c '({HIWATER} mark \"epoch 1: 50 % \u2713\"; exit $?)' || exit 9; sleep 1"
    done = tool.run("run", "-o", "x.hiw", "--summary", "none", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    marks = query(tool.folder / "x.hiw", "SELECT t, text FROM event WHERE kind = 'mark'")
    assert [text for _, text in marks] == ["epoch 1: 50 % \u2713"]
    assert 0.3e9 <= marks[0][0] < value(tool.folder / "x.hiw", "SELECT value FROM meta WHERE key = 'ended_ns'") - 0.9e9
    # A mark asks for a look at once.
    assert value(tool.folder / "x.hiw", "SELECT min(abs(t - ?)) FROM job_recent", marks[0][0]) < 20_000_000


# ---- the history ----

def listed(tool, **options):
    done = tool.run("runs", "--json", **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def fill(tool, source, numbers):
    tool.history.mkdir(mode=0o700, exist_ok=True)
    for number in numbers:
        shutil.copy(source, tool.history / f"{number}.hiw")


def test_the_history_keeps_200(tool, recorded, stress):
    fill(tool, recorded.path, range(1, 206))
    pids = stress.start(["-n", "living"], "beat", "beat")  # it began before the last one, and runs
    living = wait_for(lambda: [r for r in listed(tool) if r["running"]], "a running one")[0]
    assert living["number"] == 206
    assert tool.run("run", "--summary", "none", "--", "sleep", "1.1").returncode == 0
    after = listed(tool)
    assert len(after) == 200
    numbers = [r["number"] for r in after]
    assert numbers == list(range(8, 208)), "the oldest went"
    assert [r["number"] for r in after if r["running"]] == [206]
    refused = tool.run("runs", "--rm", "206")
    assert refused.returncode == 1 and refused.stderr.count("\n") == 1
    assert (tool.history / "206.hiw").exists()
    finish(pids)
    assert tool.run("runs", "--rm", "206", "living-not", "207").returncode == 1
    assert tool.run("show", "living").returncode == 1 or tool.run("show", "207").returncode == 1


def test_a_running_one_is_never_removed(tool, recorded, stress):
    process = stress.start(["-n", "living"], "beat", "beat")
    wait_for(lambda: [r for r in listed(tool) if r["running"]], "a running one")
    fill(tool, recorded.path, range(2, 206))
    assert tool.run("run", "--summary", "none", "--", "sleep", "1.1").returncode == 0
    after = listed(tool)
    assert len(after) == 200
    assert after[0]["number"] == 1 and after[0]["running"], "the oldest of all, but it runs"
    assert [r["number"] for r in after[1:]] == list(range(8, 207))
    finish(process)
    assert process.returncode == STATUS


def test_the_history_keeps_a_gibibyte(tool, recorded):
    fill(tool, recorded.path, range(1, 9))
    for number in range(1, 9):  # not one of those bytes is on the disk
        os.truncate(tool.history / f"{number}.hiw", 200 << 20)
    assert tool.run("run", "--summary", "none", "--", "sleep", "1.1").returncode == 0
    sizes = {int(p.stem): p.stat().st_size for p in tool.history.glob("*.hiw")}
    if 1 not in sizes:
        assert sum(sizes.values()) <= 1 << 30
        assert max(sizes) == 9 and 8 in sizes and min(sizes) == 4
    else:  # or it counts what is on the disk
        assert sum((tool.history / f"{n}.hiw").stat().st_blocks * 512 for n in sizes) <= 1 << 30


def test_names_numbers_and_last(tool, recorded):
    for number, status, name in ((1, 5, "alpha"), (2, 6, "beta"), (3, 7, "alpha"), (4, 8, "gamma")):
        fill(tool, recorded.path, [number])
        with opened(tool.history / f"{number}.hiw", "rw") as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES ('name', ?), ('exit_status', ?)", (name, status << 8))
            db.commit()
    assert tool.run("run", "-n", "alpha", "--summary", "none", "--", "sh", "-c", "sleep 1.05; exit 9").returncode == 9
    assert [(r["number"], r["name"]) for r in listed(tool)] == [(1, "alpha"), (2, "beta"), (3, "alpha"), (4, "gamma"), (5, "alpha")]
    for run, status in (("alpha", 9), ("beta", 6), ("last", 9), ("3", 7), (tool.history / "4.hiw", 8), ("5", 9)):
        assert shown(tool, run)["exit"]["code"] == status, run
    assert shown(tool)["exit"]["code"] == 9
    assert tool.run("runs", "--rm", "5", "beta").returncode == 0
    assert [r["number"] for r in listed(tool)] == [1, 3, 4]
    assert shown(tool, "last")["exit"]["code"] == 8 and shown(tool, "alpha")["exit"]["code"] == 7
    assert sorted(p.name for p in tool.history.glob("[25].hiw*")) == []
    assert tool.run("show", "beta").returncode == 1


def test_secrets_are_nowhere_in_the_recording(tool):
    secrets = [f"hunter{n}X9q" for n in range(8)]
    child = f"sleep 1.2; : --api-key={secrets[5]}"
    env = {"MY_TOKEN": secrets[6], "AWS_SECRET_ACCESS_KEY": secrets[7]}
    done = tool.run("run", "--json", "run.json", "--", "sh", "-c", 'sh -c "$CHILD"', "x", f"--token={secrets[0]}", "--password", secrets[1],
                    f"API_KEY={secrets[2]}", f"https://me:{secrets[3]}@example.org/?access_token={secrets[4]}",
                    env=dict(env, CHILD=child))
    assert done.returncode == 0
    files = [*tool.history.iterdir(), tool.folder / "run.json"]
    assert len(files) == 2
    everything = b"".join(p.read_bytes() for p in files) + "".join(
        [done.stderr, tool.run("show").stdout, tool.run("show", "--json").stdout, tool.run("runs").stdout,
         tool.run("runs", "--json").stdout, tool.run("show", "--plain").stdout]).encode()
    assert b"sleep 1.2" in everything and b"--token" in everything
    for secret in secrets:
        assert secret.encode() not in everything, f"secret {secrets.index(secret)}"


def test_foreign_and_broken_files_in_the_history(tool, recorded):
    fill(tool, recorded.path, [3, 7])
    whole = recorded.path.read_bytes()
    folder = tool.history
    (folder / "notes.txt").write_text("mine")
    (folder / "4.hiw").write_bytes(whole[:5000])
    (folder / "5.hiw").write_bytes(b"")
    (folder / "6.hiw").write_bytes(os.urandom(20000))
    (folder / "8.hiw").mkdir()
    (folder / "9.hiw").symlink_to("/nowhere")
    (folder / "a.hiw").write_bytes(whole)
    (folder / "99999999999999999999999999.hiw").write_bytes(whole)
    (folder / "-1.hiw").write_bytes(whole)
    (folder / "10.hiw-wal").write_bytes(b"rubbish")
    os.mkfifo(folder / "11.hiw")
    with opened(folder / "12.hiw", "rwc") as db:
        db.execute("CREATE TABLE mine(x)")
        db.commit()
    before = sorted(p.name for p in folder.iterdir())
    numbers = [r["number"] for r in listed(tool)]
    assert {3, 7} <= set(numbers) and not {8, 11} & set(numbers)
    table = tool.run("runs")
    assert table.returncode == 0
    assert shown(tool, "3")["exit"]["code"] == 0
    assert tool.run("run", "--summary", "none", "-n", "new", "--", "sleep", "1.05").returncode == 0
    after = sorted(p.name for p in folder.iterdir())
    assert set(before) <= set(after), "nothing of anybody else's was touched"
    assert shown(tool)["run"]["name"] == "new"
    assert (folder / "notes.txt").read_text() == "mine" and (folder / "4.hiw").read_bytes() == whole[:5000]
    for number in (4, 5, 6, 8, 9, 11, 12):
        done = tool.run("show", str(number))
        assert done.returncode in (1, 2) and done.stderr.count("\n") == 1, (number, done.stderr)


# ---- show, given anything ----

def refused(done):
    """An error that a person can read, and no crash."""
    assert done.returncode in (1, 2), (done.returncode, done.stderr)
    assert done.stdout == ""
    assert re.fullmatch(r"hiwater: [^\n]{10,300}\n", done.stderr), done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("length", [0, 1, 15, 16, 50, 99, 100, 101, 511, 1000, 4095, 4096, 4097, 8192, 0.3, 0.5, 0.9])
def test_show_of_a_truncated_recording(tool, recorded, length):
    whole = recorded.path.read_bytes()
    cut = int(len(whole) * length) if isinstance(length, float) else length
    (tool.folder / "cut.hiw").write_bytes(whole[:cut])
    refused(tool.run("show", "--json", "cut.hiw"))


def test_show_of_what_is_no_recording(tool):
    folder = tool.folder
    (folder / "random.hiw").write_bytes(bytes((i * i * 7 + i // 3) & 255 for i in range(50000)))
    (folder / "header.hiw").write_bytes(b"SQLite format 3\0" + bytes((i * 31 + 5) & 255 for i in range(8176)))
    (folder / "zeros.hiw").write_bytes(bytes(8192))
    (folder / "text.hiw").write_text("hello\n" * 100)
    (folder / "folder.hiw").mkdir()
    (folder / "loop.hiw").symlink_to("loop.hiw")
    os.mkfifo(folder / "fifo.hiw")
    with opened(folder / "other.hiw", "rwc") as db:
        db.execute("CREATE TABLE meta(key, value)")
        db.execute("INSERT INTO meta VALUES ('schema', 1)")
        db.commit()
    for name in ("random", "header", "zeros", "text", "folder", "loop", "fifo", "other", "missing"):
        for path in (f"{name}.hiw", f"./{name}.hiw"):
            done = tool.run("show", path)
            refused(done)
            assert name in done.stderr
    for path in ("/dev/null", "/dev/zero", "/", "", "no/such/folder/x.hiw", "x" * 5000, "x" * 300 + ".hiw"):
        done = tool.run("show", path)
        assert done.returncode in (1, 2) and done.stderr.count("\n") == 1, path[:20]


def test_show_of_a_recording_of_the_future(tool, recorded):
    shutil.copy(recorded.path, tool.folder / "x.hiw")
    with opened(tool.folder / "x.hiw", "rw") as db:
        db.execute("UPDATE meta SET value = 99 WHERE key = 'schema'")
        db.execute("PRAGMA user_version = 99")
        db.commit()
    done = tool.run("show", "x.hiw")
    refused(done)
    assert "99" in done.stderr


HOSTILE = {
    "views": "DROP TABLE meta; CREATE VIEW meta AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
             "SELECT 'key' || x AS key, x AS value FROM c",
    "texts": "UPDATE meta SET value = 'x' || hex(randomblob(20))",
    "blobs": "UPDATE summary SET min = randomblob(9), max = randomblob(9), sum = 'NaN', span = x'00'",
    "largest": "UPDATE summary SET min = 9223372036854775807, max = 9223372036854775807, max_at = 9223372036854775807, "
               "last = -9223372036854775808, sum = 9e999, span = 0, n = -1, hold = 9223372036854775807, last_at = 9223372036854775807; "
               "UPDATE meta SET value = 9223372036854775807 WHERE typeof(value) = 'integer' AND key <> 'schema'",
    "smallest": "UPDATE summary SET min = -9223372036854775808, max = -9223372036854775808, max_at = -1, sum = -9e999, span = -1; "
                "UPDATE meta SET value = -9223372036854775808 WHERE typeof(value) = 'integer' AND key <> 'schema'",
    "circles": "UPDATE process SET parent = id",
    "no-main": "UPDATE process SET is_main = 0, pid = -1, id = id + 4294967290",
    "two-mains": "UPDATE process SET is_main = 1, born = -5, ended = -9",
    "huge-text": "UPDATE process SET name = replace(hex(zeroblob(3000000)), '00', x'1b5d303b'), command = zeroblob(5000000)",
    "no-tables": "DROP TABLE process; DROP TABLE event; DROP TABLE summary",
    "escapes": "UPDATE meta SET value = char(27) || ']0;owned' || char(7) || char(155) || '31m' || char(10) || 'x' "
               "WHERE typeof(value) = 'text'; UPDATE process SET name = char(27) || '[2J' || char(10)",
    "events": "INSERT INTO event SELECT -1, 'mark' || char(0), 'nobody', -7, -7, 'x', zeroblob(100) FROM metric",
    "series": "INSERT INTO series VALUES (1, NULL, 1, 'a', NULL, 9e999, -9e999, 9223372036854775807); "
              "INSERT INTO series VALUES (-1, char(27) || 'x', -1, x'ff', 'b', 1, 1, -1)",
    "phases": "INSERT INTO phase VALUES (1, 1, char(27) || '[31m', 9223372036854775807, -1, -1, 'x', NULL, 7)",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_show_of_a_hostile_recording(tool, recorded, what):
    """Whatever stands in the tables: an answer that is valid and harmless, or an error, and soon."""
    shutil.copy(recorded.path, tool.folder / "x.hiw")
    with opened(tool.folder / "x.hiw", "rw") as db:
        db.executescript(HOSTILE[what])
    done = tool.run("show", "--json", "x.hiw")
    if done.returncode == 0:
        valid(done.stdout)
    else:
        refused(done)
    for options in ([], ["--plain"], ["--summary", "line"]):
        done = tool.run("show", *options, "x.hiw")
        assert done.returncode in (0, 1, 2), done.stderr
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\x80-\x9f]", done.stdout + done.stderr)
    fill(tool, tool.folder / "x.hiw", [1])
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\x80-\x9f]", tool.run("runs").stdout)
    json.loads(tool.run("runs", "--json").stdout)


def test_show_of_damaged_pages(tool, recorded):
    """Bytes changed here and there: figures or an error, never a crash."""
    import random
    whole = recorded.path.read_bytes()
    crashed, answers = [], set()
    for seed in range(40):
        dice = random.Random(seed)
        bytes_now = bytearray(whole)
        for _ in range(1 << seed % 8):
            bytes_now[dice.randrange(100, len(whole))] = dice.randrange(256)
        (tool.folder / "x.hiw").write_bytes(bytes_now)
        done = tool.run("show", "--json", "x.hiw")
        answers.add(done.returncode)
        if done.returncode == 0:
            json.loads(done.stdout)
        elif done.returncode not in (1, 2) or done.stderr.count("\n") != 1:
            crashed.append((seed, done.returncode, done.stderr[-500:]))
    assert not crashed
    assert len(answers) > 1, "some do matter"


def test_a_foreign_journal_beside_it(tool, recorded):
    shutil.copy(recorded.path, tool.folder / "x.hiw")
    (tool.folder / "x.hiw-wal").write_bytes(os.urandom(40000))
    (tool.folder / "x.hiw-shm").write_bytes(os.urandom(32768))
    done = tool.run("show", "--json", "x.hiw")
    assert done.returncode in (0, 1, 2)
    if done.returncode == 0:
        assert figures(valid(done.stdout)) == figures(recorded.at_end)
    else:
        refused(done)

# SPDX-License-Identifier: MIT
"""hiwater collect: finished jobs as Parquet, read here by DuckDB and pyarrow. The queries are those of docs/fleet.md."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from cli_helpers import DEADLINE, HIWATER, ROOT, Tool, wait_for
from gpu_jobs import asked, finish, start
from ranks_helpers import DAMAGE, MB, OVERHEAD, Rank, compile_rank_job, cut_off, edit, facts, parts_of, record_step, set_facts, truncate

parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
GIB = 1 << 30
SECOND = 10**9
TABLES = ("job", "rank", "gpu", "window")
DAY = 1_790_000_000 * SECOND  # 2026-09-21, 14:13 UTC
GPU_A, GPU_B = "GPU-aaaa", "GPU-bbbb"


def environment(tool):
    return {**tool.env, "PYTHONPATH": str(ROOT / "python"), "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE": "1", "HIWATER_COMMAND": HIWATER}


def collect(tool, *words, to="fleet", expect=0):
    done = tool.run("collect", *words, "--to", to, env=environment(tool))
    assert done.returncode == expect, done.stderr
    return done


def rows(tool, table, to="fleet"):
    files = sorted((tool.folder / to / table).glob("*/*.parquet"))
    return [row for file in files for row in parquet.ParquetFile(file).read().to_pylist()]


def one(tool, table, to="fleet"):
    found = rows(tool, table, to)
    assert len(found) == 1, found
    return found[0]


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A recording of a real run; the others of this file are copies with figures of their own."""
    tool = Tool(tmp_path_factory.mktemp("real"))
    done = tool.run("run", "--summary", "none", "-n", "real", "-o", "run.hiw", "--gpu=none", "--", "sh", "-c", "i=0; while [ $i -lt 99999 ]; do i=$((i+1)); done; sleep 1.2")
    assert done.returncode == 0, done.stderr
    yield tool.folder / "run.hiw"
    tool.end_all()


@pytest.fixture(scope="module")
def step(tmp_path_factory):
    """The recordings of two nodes with two ranks each, in known memory; 60 MB are one mapping of both ranks of n1."""
    tool = Tool(tmp_path_factory.mktemp("step"))
    folder = record_step(tool, compile_rank_job(tool.folder), [Rank("n1", 100, 60), Rank("n1", 40, 60), Rank("n2", 150), Rank("n2", 30)])
    yield folder
    tool.end_all()


class Made:
    """Copies of a recording below a folder, with other facts."""

    def __init__(self, tool, source, folder="runs"):
        self.tool, self.source, self.folder, self.n = tool, source, tool.folder / folder, 0
        self.folder.mkdir(parents=True)

    def run(self, name=None, start_ns=DAY, wall_s=100, **values):
        self.n += 1
        path = self.folder / f"{name or self.n}.hiw"
        shutil.copy(self.source, path)
        set_facts(path, id=f"{self.n:032x}", started_wall_ns=start_ns + self.n * SECOND, ended_ns=int(wall_s * SECOND), main_ended_ns=int(wall_s * SECOND),
                  last_ns=int(wall_s * SECOND), **values)
        return path

    def windows(self, path, n, width_s=1, ram=GIB, gpu=()):
        """n windows of width_s; RAM rises by a MiB each, its minimum is a MiB below, its maximum two above the mean; one core is
        used throughout."""
        with contextlib.closing(sqlite3.connect(path)) as db, db:
            db.execute("DELETE FROM job_sample")
            for t in range(n):
                mean = ram + (t << 20)
                db.execute("INSERT INTO job_sample(t, span, n, ram, ram_min, ram_max, ram_low, ram_low_min, cpu_user, cpu_system, read_bytes, write_bytes,"
                           " write_cancelled) VALUES(?, ?, 10, ?, ?, ?, ?, ?, ?, 0, ?, 0, 0)",
                           (t * width_s * SECOND, width_s * SECOND, mean, mean - (1 << 20), mean + (2 << 20), mean, mean - (1 << 20), (t + 1) * width_s * SECOND, t * 1000))
                for number in gpu:
                    db.execute("INSERT OR REPLACE INTO gpu_sample(t, id, span, n, sm_active, sm_active_min, sm_active_max, busy, mem, mem_max, power)"
                               " VALUES(?, ?, ?, 1, 400000, 100000, 900000, 970000, ?, ?, 300000000)",
                               (t * width_s * SECOND, number + 1, width_s * SECOND, 60 * GIB, 62 * GIB))
            for metric in ("cpu_user", "cpu_system"):
                db.execute("UPDATE summary SET min = 0 WHERE entity = 'job' AND metric = ?", (metric,))

    def gpu(self, path, number, uuid, job_mem, sm=0.4, energy_j=1000, temp_c=60, xid=0):
        """A GPU of which the job used job_mem at its peak."""
        with contextlib.closing(sqlite3.connect(path)) as db, db:
            db.execute("INSERT INTO gpu(id, uuid, name, vendor, number, memory, born) VALUES(?, ?, 'H100', 'nvidia', ?, ?, 0)", (number + 1, uuid, number, 80 * GIB))
            for metric, least, most, total in (("mem", 0, 62 * GIB, 0), ("job_mem", 0, job_mem, 0), ("busy", 0, 10**6, 0.97e6 * 100), ("sm_active", 0, 10**6, sm * 1e6 * 100),
                                               ("energy", 5 * 10**6, 5 * 10**6 + energy_j * 10**6, 0), ("temp", 0, temp_c * 1000, 0), ("xid", 3, 3 + xid, 0)):
                db.execute("INSERT INTO summary(entity, id, metric, n, min, max, last, sum, span) VALUES('gpu', ?, ?, 10, ?, ?, ?, ?, 100)",
                           (number + 1, metric, least, most, most, total))
            for t, energy in ((0, 5 * 10**6), (1, 5 * 10**6 + energy_j * 10**6)):
                db.execute("INSERT OR REPLACE INTO gpu_sample(t, id, span, n, mem, mem_max, job_mem, job_mem_max, busy, sm_active, energy, temp, xid)"
                           " VALUES(?, ?, ?, 10, ?, ?, ?, ?, 970000, ?, ?, ?, ?)",
                           (t * SECOND, number + 1, SECOND, 62 * GIB, 62 * GIB, job_mem, job_mem, int(sm * 1e6), energy, temp_c * 1000, 3 + xid * t))
        set_facts(path, gpu_queried=1)


@pytest.fixture
def made(tool, real):
    return Made(tool, real)


# ---- one recording ---------------------------------------------------------------------------------------------------

def test_the_figures_are_those_of_the_recording(tool, real):
    shutil.copy(real, tool.folder / "run.hiw")
    done = collect(tool, "run.hiw")
    assert done.stdout == "1 collected, 0 already there, 0 still running in fleet\n" and not done.stderr
    job, rank, known = one(tool, "job"), one(tool, "rank"), facts(real)
    summary = shown(tool, real)
    assert job["run"] == known["id"] == rank["run"] and job["name"] == "real" and job["state"] == "completed" and job["complete"]
    ram = summary["ram"]["combined"]
    assert [job[f"peak_ram_{key}bytes"] for key in ("", "low_", "high_")] == [ram[f"{key}_bytes"] for key in ("peak", "low", "high")]
    assert job["cpu_s"] == pytest.approx(summary["time"]["user_s"] + summary["time"]["system_s"], abs=1e-6)
    assert job["wall_s"] == pytest.approx(summary["time"]["wall_s"]) and job["cpu_ratio"] == pytest.approx(job["cpu_s"] / job["cpus"] / job["wall_s"])
    assert job["read_bytes"] == summary["io"]["read_bytes"] and job["write_bytes"] == summary["io"]["write_bytes"]
    assert job["started"].strftime("%FT%T") == summary["started"][:19] and job["exit_code"] == 0
    assert rank["part"] == "run" and rank["rank"] is None and job["ranks"] is None and job["gpus"] is None
    seen = rows(tool, "window")
    assert sum(w["cores"] * w["span_s"] for w in seen) == pytest.approx(job["cpu_s"], rel=0.1)
    assert max(w["ram_max_bytes"] for w in seen) <= job["peak_ram_high_bytes"] and rows(tool, "gpu") == []


def test_types_do_not_depend_on_values(tool, made, real):
    path = made.run()
    made.gpu(path, 0, GPU_A, GIB)
    collect(tool, path, to="with")
    set_facts(path, user=None, command=None, cpus="many", ram_peak_bytes=None, request_bytes=None)
    edit(path, "UPDATE summary SET last = 'x' WHERE metric = 'read_bytes'", "DELETE FROM gpu")
    collect(tool, path, to="without")
    for table in TABLES:
        schemas = [parquet.read_schema(next((tool.folder / to / table).glob("*/*.parquet"))).remove_metadata() for to in ("with", "without")]
        assert schemas[0] == schemas[1]
    job = one(tool, "job", "without")
    assert job["user"] is None and job["command"] is None and job["cpus"] is None and job["read_bytes"] is None and job["cpu_ratio"] is None


def test_redacted(tool, real):
    shutil.copy(real, tool.folder / "secret.hiw")
    collect(tool, "secret.hiw", "--redact")
    job, rank = one(tool, "job"), one(tool, "rank")
    assert job["user"] is job["name"] is job["command"] is rank["recording"] is None and job["peak_ram_bytes"] > 0


def test_windows_are_merged_to_a_thousand_and_keep_their_extremes(tool, made):
    path = made.run(wall_s=3600)
    made.windows(path, 3600)
    collect(tool, path)
    seen = rows(tool, "window")
    assert 800 <= len(seen) <= 1000
    assert min(w["ram_min_bytes"] for w in seen) == GIB - (1 << 20) and max(w["ram_max_bytes"] for w in seen) == GIB + (3601 << 20)
    mean = sum(w["ram_mean_bytes"] * w["span_s"] for w in seen) / sum(w["span_s"] for w in seen)
    assert mean == pytest.approx(GIB + (3599 << 20) / 2)
    assert sum(w["span_s"] for w in seen) == 3600 and all(w["cores"] == pytest.approx(1) for w in seen)
    assert sum(w["read_bytes"] for w in seen) == 3599 * 1000


def test_sizes(tool, made):
    """The budgets of docs/fleet.md, with rows that differ: 2 KiB a job, 256 KiB the windows of a node-job."""
    paths = [made.run(ram_peak_bytes=GIB + k * 977, command=f"python train.py --lr {k / 7}", name=f"train-{k}") for k in range(30)]
    made.windows(paths[0], 1000)
    collect(tool, made.folder)
    size = {table: sum(f.stat().st_size for f in (tool.folder / "fleet" / table).glob("*/*.parquet")) for table in TABLES}
    assert size["job"] < 30 * 2048 and size["window"] < 256 << 10


# ---- once, complete, at the same time --------------------------------------------------------------------------------

def test_a_job_is_there_once(tool, made):
    path = made.run()
    (made.folder / "copies").mkdir()
    shutil.copy(path, made.folder / "copies" / "again.hiw")
    assert "1 collected, 1 already" in collect(tool, made.folder).stdout
    assert "0 collected, 2 already" in collect(tool, made.folder, made.folder).stdout
    made.run()
    assert "1 collected, 2 already" in collect(tool, made.folder).stdout
    assert sorted(r["run"] for r in rows(tool, "job")) == [f"{n:032x}" for n in (1, 2)]
    assert len({w["run"] for w in rows(tool, "window")}) == 2 and len(rows(tool, "rank")) == 2


def test_files_of_another_program_count(tool, made):
    """A fleet whose files were merged by something else has no list of runs in the footer."""
    pyarrow = pytest.importorskip("pyarrow")
    made.run()
    collect(tool, made.folder)
    for table in TABLES:
        file = next((tool.folder / "fleet" / table).glob("*/*.parquet"))
        data = parquet.ParquetFile(file).read().replace_schema_metadata(None)
        assert isinstance(data, pyarrow.Table)
        parquet.write_table(data, file.with_name("merged.parquet"))
        file.unlink()
    assert "0 collected, 1 already" in collect(tool, made.folder).stdout


def test_a_collection_that_died_between_two_renames_is_completed(tool, made):
    made.run()
    collect(tool, made.folder)
    before = {table: rows(tool, table) for table in TABLES}
    next((tool.folder / "fleet" / "job").glob("*/*.parquet")).unlink()  # the last that is renamed
    assert "1 collected" in collect(tool, made.folder).stdout
    assert {table: rows(tool, table) for table in TABLES} == before


def test_two_at_once(tool, made):
    for _ in range(40):
        made.run()
    both = [tool.start("collect", made.folder, "--to", "fleet", env=environment(tool)) for _ in range(3)]
    outputs = [process.communicate(timeout=2 * DEADLINE) for process in both]
    assert [process.returncode for process in both] == [0, 0, 0], outputs
    collected = sorted(int(stdout.split()[0]) for stdout, _ in outputs)
    assert collected == [0, 0, 40] and len(rows(tool, "job")) == len(rows(tool, "rank")) == 40


def test_killed_while_it_collects(tool, made):
    """Whenever it is killed: no incomplete file has a name that readers use, and the next one completes it."""
    for _ in range(30):
        made.run()
    for delay in (0.25, 0.4, 0.6):
        process = tool.start("collect", made.folder, "--to", "fleet", env=environment(tool))
        time.sleep(delay)  # at any of these instants
        process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE)
        for table in TABLES:
            rows(tool, table)
    collect(tool, made.folder)
    assert len(rows(tool, "job")) == 30 == len({r["run"] for r in rows(tool, "rank")}) == len(rows(tool, "rank"))


# ---- bad and unfinished input ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("what", DAMAGE)
def test_one_bad_file_is_one_line(tool, made, what):
    good, bad = made.run("good"), made.run("bad")
    DAMAGE[what](bad)
    done = collect(tool, made.folder, expect=3)
    assert "1 collected" in done.stdout and "1 unreadable" in done.stdout
    assert len(done.stderr.splitlines()) == 1 and f"{bad}: " in done.stderr and "Traceback" not in done.stderr
    assert one(tool, "job")["run"] == facts(good)["id"]


def test_a_hostile_recording(tool, made):
    """Values of other types, times out of range, a view in place of a table, windows outside the run."""
    made.run("good")
    absurd, view, outside = made.run("absurd"), made.run("view"), made.run("outside")
    set_facts(absurd, started_wall_ns=(1 << 63) - 1, ram_peak_bytes="much", ranks=-5)
    edit(view, "ALTER TABLE summary RENAME TO old", "CREATE VIEW summary AS SELECT * FROM old, old, old, old")
    edit(outside, "UPDATE job_sample SET t = t * 1000000000, ram = 'a lot'")
    done = collect(tool, made.folder, expect=3)
    assert "2 collected" in done.stdout and "2 unreadable" in done.stdout and "Traceback" not in done.stderr


def test_a_recording_that_still_runs_is_left_out(tool, made):
    made.run()
    process = tool.start("run", "-o", made.folder / "growing.hiw", "--gpu=none", "--", "cat", stdin=subprocess.PIPE)
    wait_for((made.folder / "growing.hiw").exists, "the recording exists", DEADLINE)
    done = collect(tool, made.folder)
    assert "1 collected, 0 already there, 1 still running" in done.stdout and "growing.hiw: still running" in done.stderr
    process.communicate(timeout=DEADLINE)
    assert "1 collected, 1 already there, 0 still running" in collect(tool, made.folder).stdout


def test_a_recorder_that_was_killed(tool, made):
    """What was committed is in the journal; the run has no end."""
    path = made.folder / "killed.hiw"
    process = tool.start("run", "-o", path, "--gpu=none", "--", "sleep", "600")
    wait_for(lambda: path.exists() and path.with_name("killed.hiw-wal").exists() and facts(path).get("last_ns", 0) > SECOND, "two commits")
    main = facts(path)["main_pid"]
    process.kill()
    process.wait(DEADLINE)
    with contextlib.suppress(ProcessLookupError):
        os.kill(main, signal.SIGKILL)
    done = collect(tool, path)
    assert "1 still running" in done.stdout  # it changed a moment ago
    done = tool.run("collect", path, "--to", "fleet", "--settle", "1ms", env=environment(tool))
    assert "1 collected" in done.stdout, done.stderr
    job = one(tool, "job")
    assert job["state"] == "cut off" and not job["complete"] and job["exit_code"] is None
    assert job["peak_ram_method"] == "sampled" and job["peak_ram_bytes"] > 0 and job["peak_ram_high_bytes"] is None


# ---- several ranks ---------------------------------------------------------------------------------------------------

def shown(tool, run):
    return json.loads(tool.run("show", run, "--json").stdout)


def test_a_job_of_several_ranks_has_the_figures_of_show(tool, step):
    collect(tool, step)
    job, ranks, summary = one(tool, "job"), rows(tool, "rank"), shown(tool, step)
    assert job["complete"] and job["ranks"] == 4 and job["nodes"] == 2 and job["recordings"] == len(parts_of(step)) and job["scheduler_job"] == "4711.0"
    ram = summary["ram"]["combined"]
    assert [job[f"peak_ram_{key}bytes"] for key in ("", "low_", "high_")] == [ram[f"{key}_bytes"] for key in ("peak", "low", "high")]
    truth = (100 + 40 + 60 + 150 + 30) * MB
    assert job["peak_ram_low_bytes"] <= truth + 4 * OVERHEAD and truth <= job["peak_ram_high_bytes"]
    assert job["cpu_s"] == pytest.approx(summary["time"]["user_s"] + summary["time"]["system_s"], abs=1e-6) and job["wall_s"] == pytest.approx(summary["time"]["wall_s"])
    assert job["stagger_s"] == pytest.approx(summary["job"]["stagger_s"]) and job["exit_code"] == 0 and job["state"] == "completed"
    assert {r["rank"]: r["node"] for r in ranks if r["part"] == "rank"} == {0: "n1", 1: "n1", 2: "n2", 3: "n2"}
    assert {r["rank"]: r["peak_ram_bytes"] for r in ranks if r["part"] == "rank"} == {r["rank"]: r["ram_peak_bytes"] for r in summary["job"]["ranks"]}
    seen = rows(tool, "window")
    assert {w["node"] for w in seen} == {"n1", "n2"}
    assert max(w["ram_max_bytes"] for w in seen if w["node"] == "n2") == pytest.approx(180 * MB, abs=2 * OVERHEAD)


def test_a_merged_recording_is_the_same_job(tool, step):
    assert tool.run("merge", step, "-o", "J.hiw").returncode == 0
    collect(tool, "J.hiw", to="merged")
    collect(tool, step, to="parts")
    assert one(tool, "job", "merged") == one(tool, "job", "parts") and rows(tool, "window", "merged") == rows(tool, "window", "parts")
    assert "0 collected, 1 already" in collect(tool, "J.hiw", to="parts").stdout
    folder = pathlib.Path(shutil.copytree(step, tool.folder / "both"))
    shutil.copy(tool.folder / "J.hiw", folder)
    collect(tool, folder, to="both")
    assert one(tool, "job", "both")["recordings"] == len(parts_of(step))


def test_the_order_and_the_names_of_files_do_not_matter(tool, step):
    folder = pathlib.Path(shutil.copytree(step, tool.folder / "a"))
    other = tool.folder / "b"
    other.mkdir()
    for number, path in enumerate(reversed(parts_of(folder))):
        shutil.copy(path, other / f"x{number}.hiw")
        shutil.copy(path, other / f"copy{number}.hiw")
    collect(tool, folder, to="fleet-a")
    collect(tool, other, to="fleet-b")
    assert one(tool, "job", "fleet-a") == one(tool, "job", "fleet-b")
    assert "0 collected, 1 already" in collect(tool, folder, to="fleet-b").stdout


def test_missing_and_cut_off_ranks(tool, step):
    folder = pathlib.Path(shutil.copytree(step, tool.folder / "d"))
    parts = {facts(p).get("rank"): p for p in parts_of(folder)}
    parts[2].unlink()
    truncate(parts[1])
    cut_off(parts[3], SECOND // 2)
    done = tool.run("collect", folder, "--to", "fleet", "--settle", "1ms", env=environment(tool))
    assert done.returncode == 3 and f"{parts[1]}: " in done.stderr
    job = one(tool, "job")
    assert not job["complete"] and job["ranks_missing"] == [1, 2] and job["ranks_cut_off"] == [3] and job["recordings_unreadable"] == 1
    assert job["state"] == "cut off"


def test_a_job_waits_for_its_last_rank(tool, step):
    folder = pathlib.Path(shutil.copytree(step, tool.folder / "d"))
    cut_off(parts_of(folder)[0], SECOND // 2)  # a moment ago, perhaps on another machine
    assert "0 collected, 0 already there, 1 still running" in collect(tool, folder).stdout


def test_restarts_are_jobs_of_their_own(tool, step):
    folder = pathlib.Path(shutil.copytree(step, tool.folder / "d"))
    for number, path in enumerate(parts_of(folder)):
        again = path.with_name(f"{path.stem}-1.hiw")
        shutil.copy(path, again)
        set_facts(again, restart=1, id=f"{number + 1:032x}")
    collect(tool, folder)
    assert sorted((j["restart"] or 0, j["ranks"]) for j in rows(tool, "job")) == [(0, 4), (1, 4)]


def test_ranks_that_keep_no_recording(tool, step):
    folder = pathlib.Path(shutil.copytree(step, tool.folder / "d"))
    for path in parts_of(folder):
        rank = facts(path).get("rank")
        if rank in (1, 3):
            path.unlink()
            with open(folder / f"n{1 + rank // 2}.ranks", "a") as file:
                file.write('{"rank": %d, "local_rank": 1, "started_wall_ns": %d, "wall_ns": 2000000000, "ram_peak_bytes": 50000000,'
                           ' "ram_method": "exact", "user_ns": 1500000000, "system_ns": 500000000, "exit_status": 256, "version": "0.1.0"}\n'
                           % (rank, facts(parts_of(folder)[0])["started_wall_ns"]))
    collect(tool, folder)
    job, ranks = one(tool, "job"), {r["rank"]: r for r in rows(tool, "rank") if r["part"] == "rank"}
    assert job["complete"] and sorted(ranks) == [0, 1, 2, 3] and job["recordings"] == len(parts_of(folder)) and job["exit_code"] == 1 and job["state"] == "failed"
    assert ranks[3]["cpu_s"] == 2 and ranks[3]["exit_code"] == 1 and ranks[3]["peak_ram_bytes"] == 50_000_000
    assert job["cpu_s"] == pytest.approx(4 + ranks[0]["cpu_s"] + ranks[2]["cpu_s"])


# ---- GPUs ------------------------------------------------------------------------------------------------------------

def test_a_gpu_counts_once_whatever_the_number_of_ranks(tool, step):
    """Two ranks of a node record both of its GPUs; GPU-bbbb is not the job's."""
    folder = pathlib.Path(shutil.copytree(step, tool.folder / "runs" / "d"))
    edits = Made(tool, parts_of(step)[0], "unused")
    for path in parts_of(folder):
        known = facts(path)
        edits.gpu(path, 0, f"{GPU_A}-{known['node']}", GIB if known.get("rank") in (0, 2, None) else 0, sm=0.2 if known["node"] == "n1" else 0.6, energy_j=500)
        edits.gpu(path, 1, f"{GPU_B}-{known['node']}", 0, sm=0.9, energy_j=7000)
        set_facts(path, allocated_gpus=f"{GPU_A}-{known['node']}", gpu_selection=None)
    collect(tool, folder)
    job, gpus = one(tool, "job"), rows(tool, "gpu")
    assert job["gpus"] == 2 and job["gpus_from"] == "allocated" and job["gpu_energy_j"] == 1000
    assert job["gpu_sm_active_ratio"] == pytest.approx(0.4) and job["gpu_sm_active_min_ratio"] == pytest.approx(0.2)
    assert {g["uuid"]: g["node"] for g in gpus if g["allocated"]} == {f"{GPU_A}-n1": "n1", f"{GPU_A}-n2": "n2"}
    for path in parts_of(folder):  # what was allocated is not known: those that it used
        set_facts(path, allocated_gpus=None)
    collect(tool, folder, to="used")
    job = one(tool, "job", "used")
    assert job["gpus"] == 2 and job["gpus_from"] == "used" and all(g["allocated"] is None for g in rows(tool, "gpu", "used"))


def test_a_real_run_on_a_fake_gpu(gpu):
    hiwater = start(gpu, "-o", "run.hiw")
    wait_for(lambda: asked(gpu, "SELECT count(*) FROM gpu_sample WHERE mem IS NOT NULL AND busy IS NOT NULL"), "both GPUs were read")
    summary, _ = finish(gpu, hiwater)
    collect(gpu, "run.hiw")
    job, gpus = one(gpu, "job"), {g["uuid"]: g for g in rows(gpu, "gpu")}
    for device in summary["gpu"]["devices"]:
        row = gpus[device["uuid"]]
        assert row["peak_memory_bytes"] == device["memory"]["peak_bytes"] and row["memory_bytes"] == device["memory"]["total_bytes"]
        assert row["busy_ratio"] == pytest.approx(device["utilization"]["gpu_mean"], abs=1e-3)
        assert row["energy_j"] == pytest.approx(device["energy_j"])
    assert job["gpus_from"] == "used" and job["gpus"] == sum(1 for d in summary["gpu"]["devices"] if d["memory"]["job_peak_bytes"])


# ---- docs/fleet.md ---------------------------------------------------------------------------------------------------

def queries():
    text = (ROOT / "docs" / "fleet.md").read_text()
    return re.findall(r"```sql\n(.*?)```", text, re.S)


@pytest.fixture
def fleet(tool, made, step):
    """A fleet in which each question of docs/fleet.md has an answer."""
    idle = made.run(name="idle", user="ada", scheduler="slurm", scheduler_job="1.0", allocated_gpus=f"{GPU_A},{GPU_B}", request_bytes=8 * GIB, ram_peak_bytes=GIB,
                    ram_high_bytes=GIB, ram_low_bytes=GIB, wall_s=7200)
    made.gpu(idle, 0, GPU_A, 60 * GIB)
    made.gpu(idle, 1, GPU_B, 0, temp_c=91, xid=2)
    made.windows(idle, 3600, gpu=(0,))
    set_facts(idle, name="train")
    close = made.run(name="close", scheduler_job="2.0", limit_bytes=GIB, ram_peak_bytes=GIB * 97 // 100, exit_status=9)
    set_facts(close, name="train")
    folder = pathlib.Path(shutil.copytree(step, made.folder / "4711.0"))
    next(p for p in parts_of(folder) if facts(p).get("rank") == 2).unlink()
    collect(tool, made.folder)
    return tool


def test_the_ten_questions(fleet):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    views, *questions = queries()
    assert len(questions) == 10
    db = duckdb.connect()
    db.execute(f"SET file_search_path = '{fleet.folder}'")
    db.execute("SET TimeZone = 'UTC'")
    for statement in views.strip().split(";\n"):
        db.execute(statement)
    answers = []
    for question in questions:
        cursor = db.execute(question)
        names = [column[0] for column in cursor.description]
        answers.append([dict(zip(names, row)) for row in cursor.fetchall()])
        assert answers[-1], question
    hours, unused, requests, following, near, skew, incomplete, ends, hourly, errors = answers
    assert hours[0]["user"] == "ada" and hours[0]["gpu_hours"] == pytest.approx(4) and hours[0]["sm_active"] == pytest.approx(0.4)
    assert unused[0]["unused"] == 1 and unused[0]["allocated"] == 2 and unused[0]["scheduler_job"] == "1.0"
    assert requests[0]["requested_gb"] == pytest.approx(8 * GIB / 1e9) and requests[0]["peak_gb"] == pytest.approx(GIB / 1e9)
    assert following[0]["name"] == "train" and following[0]["gb"] == pytest.approx(1.2 * GIB / 1e9)
    assert near[0]["scheduler_job"] == "2.0" and near[0]["worst_node_ram_ratio"] == pytest.approx(0.97, abs=0.001)
    assert [s["ram"] for s in skew if s["rank"] == 0] == [pytest.approx(1.6, rel=0.05)]
    assert [i["ranks_missing"] for i in incomplete] == [[2]]
    assert {(e["state"], e["exit_code"]) for e in ends} >= {("failed", 137), ("completed", 0)}
    assert sum(h["core_hours"] for h in hourly) >= 1
    assert errors[0]["uuid"] == GPU_B and errors[0]["xid"] == 2 and errors[0]["celsius"] == 91


def test_the_page_lists_the_columns(fleet):
    text = (ROOT / "docs" / "fleet.md").read_text()
    for table in TABLES:
        line = next(l for l in text.splitlines() if l.startswith(f"| `{table}` | "))
        schema = parquet.read_schema(next((fleet.folder / "fleet" / table).glob("*/*.parquet")))
        assert [name for name in schema.names if f"`{name}`" not in line] == []


# ---- what is missing -------------------------------------------------------------------------------------------------

def test_without_pyarrow(tool, real):
    (tool.folder / "none").mkdir()
    (tool.folder / "none" / "pyarrow.py").write_text("raise ImportError('none here')")
    env = {**environment(tool), "PYTHONPATH": f"{tool.folder / 'none'}:{ROOT / 'python'}"}
    done = tool.run("collect", real, "--to", "fleet", env=env)
    assert done.returncode == 1 and "pip install hiwater pyarrow" in done.stderr and "Traceback" not in done.stderr


def test_without_python(tool, real):
    done = tool.run("collect", real, "--to", "fleet", env={"PATH": str(tool.folder)})
    assert done.returncode == 1 and "python3" in done.stderr


def test_a_module_in_the_present_folder_is_not_executed(tool, real):
    (tool.folder / "hiwater").mkdir()
    (tool.folder / "hiwater" / "__init__.py").write_text("open('executed', 'w')")
    (tool.folder / "pyarrow.py").write_text("open('executed', 'w')")
    collect(tool, real)
    assert not (tool.folder / "executed").exists()


def test_wrong_command_lines(tool):
    assert tool.run("collect").returncode == 2 and tool.run("collect", "x").returncode == 2
    assert tool.run("collect", "x", "--to", "y", "--settle", "soon").returncode == 2


def test_as_a_module(tool, real):
    done = subprocess.run([sys.executable, "-m", "hiwater.collect", str(real), "--to", str(tool.folder / "fleet")], env=environment(tool),
                          capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0 and "1 collected" in done.stdout, done.stderr

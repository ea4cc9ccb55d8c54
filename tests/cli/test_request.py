# SPDX-License-Identifier: MIT
"""What to request next time: the summary's line and hiwater request, on recordings whose figures were set by SQL."""
import json
import sqlite3
import sys

import jsonschema
import pytest
from cli_helpers import ROOT
from made_runs import MadeRuns, real  # noqa: F401 (real is a fixture)

MIB = 1 << 20
GIB = 1 << 30
SEC = 10**9


class Made(MadeRuns):
    def run(self, name=None, wall=60.0, ram=1000, cores=1.0, argv=("./solve",), **facts):
        path = self.copy()
        known = {"name": name, "command": " ".join(argv), "argv_json": json.dumps(argv), "ended_ns": int(wall * SEC), "gpu_queried": 1,
                 "gpu_seen": 0, "reaped_user_ns": int(wall * cores * SEC), "reaped_system_ns": 0, **facts}
        with sqlite3.connect(path) as db:
            for key, value in known.items():
                db.execute("insert or replace into meta values (?, ?)", (key, value))
            db.executemany("delete from meta where key = ?", [(key,) for key, value in known.items() if value is None])
            for metric in ("ram", "ram_low", "ram_high", "ram_main"):
                db.execute("update summary set max = ? where entity = 'job' and metric = ?", (int(ram * MIB), metric))
            db.execute("delete from meta where key in ('main_ended_ns', 'main_high_bytes')")
            for key in ("main_hwm_bytes", "main_exit_hwm_bytes", "main_maxrss_bytes"):
                db.execute("insert or replace into meta values (?, ?)", (key, int(ram * MIB)))
            db.execute("delete from timeline")
            db.execute("delete from summary where entity = 'host' and metric = 'shmem'")  # of programs that ran at that time
            db.execute("update process set peak = ?, peak_exact = 1", (int(ram * MIB),))
        db.close()
        return path


@pytest.fixture
def made(tool, real):
    return Made(tool, real)


def lines(tool, *args, status=0):
    done = tool.run("request", *args)
    assert done.returncode == status, done.stderr + done.stdout
    return done.stdout.splitlines()


def answer(tool, *args):
    done = tool.run("request", "--json", *args)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["request"]


def test_all_runs_of_a_name(tool, made):
    for ram, wall, cores in ((480, 380, 1.6), (509, 390, 1.7), (500, 400, 1.8)):
        made.run("xgb", wall, ram, cores)
    made.run("other", 9000, 9000)
    said = lines(tool, "xgb")
    assert said[:3] == [
        "#SBATCH --mem=640M --cpus-per-task=2 --time=0:10:00",
        "# from 3 runs of xgb: peak 509 MiB + 20 %, cores 1.80, 6 min 40 s + 50 %",
        "# rounded up: memory to 64 MiB, CPUs to whole ones, time to 5 min"]
    r = answer(tool, "xgb")
    assert (r["memory_bytes"], r["cpus"], r["time_s"], r["gpus"], r["runs"]) == (640 * MIB, 2, 600, 0, 3)
    assert r["line"] == said[0] and "# " + r["basis"] == said[1]
    # the summary of each of them, as text, JSON and page, says the same
    shown = tool.run("show", "1").stdout.splitlines()
    at = next(i for i, line in enumerate(shown) if line.startswith("Request"))
    assert shown[at].split(maxsplit=1)[1] == said[0]
    assert " ".join(" ".join(shown[at + 1:at + 3]).split()) .startswith(r["basis"])
    summary = json.loads(tool.run("show", "--json", "2").stdout)
    assert summary["request"] == r
    jsonschema.validate(summary, json.loads((ROOT / "docs" / "summary.schema.json").read_text()))
    assert "request: " + said[0] in tool.run("show", "--plain", "1", env={"COLUMNS": "120"}).stdout


def test_options(tool, made):
    for ram in (*range(1000, 1900, 100), 9000):
        made.run("xgb", 60, ram)
    assert lines(tool, "xgb")[0] == "#SBATCH --mem=11G --cpus-per-task=1 --time=0:05:00"
    assert lines(tool, "--margin", "0%", "xgb")[0].startswith("#SBATCH --mem=9G")
    said = lines(tool, "--quantile", "0.9", "xgb")
    assert said[0].startswith("#SBATCH --mem=2304M") and said[1].endswith("; 1 of 10 runs would have failed")
    assert answer(tool, "--quantile", "90%", "xgb")["runs_would_fail"] == 1
    assert lines(tool, "--pbs", "xgb")[0] == "#PBS -l select=1:ncpus=1:mem=11gb -l walltime=0:05:00"
    assert lines(tool, "--nextflow", "xgb")[:4] == ["cpus 1", "memory '11 GB'", "time '5m'",
                                                     "// from 10 runs of xgb: peak 8.79 GiB + 20 %, cores 1, 60 s + 50 %"]
    assert json.loads(tool.run("request", "--json", "--lsf", "xgb").stdout)["request"]["line"].startswith("#BSUB")


@pytest.mark.parametrize("args, status, words", [
    ([], 2, ["NAME"]),
    (["nobody"], 1, ["no run named nobody"]),
    (["--margin", "20", "a"], 2, ["margin '20'", "20%"]),
    (["--margin", "-1%", "a"], 2, ["margin"]),
    (["--quantile", "0", "a"], 2, ["quantile '0'", "0.95"]),
    (["--quantile", "1.1", "a"], 2, ["quantile"]),
    (["--quantile", "nan", "a"], 2, ["quantile"]),
    (["--by", "a=b", "a"], 2, ["key 'a=b'"]),
    (["--pbs", "--lsf", "a"], 2, ["two formats"]),
    (["./missing.hiw"], 1, ["missing.hiw"]),
])
def test_bad_input(tool, args, status, words):
    done = tool.run("request", *args)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith("hiwater: ") and all(word in done.stderr for word in words)


def test_runs_that_ended_early(tool, made):
    made.run("xgb", 100, 1000)
    made.run("xgb", 10, 200, exit_status=1 << 8)
    assert lines(tool, "xgb")[1].startswith("# from 2 runs of xgb: peak 0.977 GiB + 20 %")
    made.run("xgb", 50, 3000, exit_status=1 << 8)
    assert "peak at least 2.93 GiB (run 3 did not finish) + 20 %" in lines(tool, "xgb")[1]
    made.run("xgb", 50, 4000, exit_status=9, stopped_by=124, stopped_why="ram = 4GB: ram is 4 GB; SIGTERM was sent to the job")
    r = answer(tool, "xgb")
    assert r["memory"]["at_limit"] and r["memory"]["at_least"] and r["memory_bytes"] >= 4000 * MIB * 1.2
    assert "peak more than 3.91 GiB (a limit ended run 4 there) + 20 %" in r["basis"]
    # a recorder that was lost counts as well
    made.run("xgb", 20, 8000, ended_ns=None, last_ns=20 * SEC)
    assert "peak at least 7.81 GiB (run 5 did not finish)" in lines(tool, "xgb")[1]


def test_no_answer(tool, made):
    made.run("bad", 100, 1000, exit_status=2 << 8)
    said = lines(tool, "bad", status=1)
    assert said == ["# not known: the run did not end with status 0, so its needs are unknown; at least 0.977 GiB and 1 min 40 s"]
    made.run("ranks", 100, 1000, srun_seen=1)
    assert lines(tool, "ranks", status=1) == ["# not known: the tasks that srun started were not measured"]
    shown = tool.run("show", "ranks").stdout
    assert "Request   not known: the tasks that srun started were not measured\n" in shown
    summary = json.loads(tool.run("show", "--json", "ranks").stdout)
    assert summary["request"]["memory_bytes"] is None
    assert {"about": "request", "why": "the tasks that srun started were not measured"} in summary["notes"]


def test_by_an_argument_or_a_part_of_the_name(tool, made):
    made.run("xgb", 60, 1000, argv=("./solve", "--rows", "900"))
    made.run("xgb", 60, 5000, argv=("./solve", "--rows=10000"))
    made.run("xgb/rows=900", 60, 1200)
    made.run("xgb-rows77", 60, 100)
    made.run("xgb", 60, 50)
    made.run("xgboost", 60, 99999, argv=("./solve", "--rows=1"))
    said = [line for line in lines(tool, "xgb", "--by", "rows") if line.startswith(("#SBATCH", "# rows", "# without"))]
    assert said == [
        "# rows = 77", "#SBATCH --mem=128M --cpus-per-task=1 --time=0:05:00",
        "# rows = 900", "#SBATCH --mem=1536M --cpus-per-task=1 --time=0:05:00",
        "# rows = 10000", "#SBATCH --mem=6G --cpus-per-task=1 --time=0:05:00",
        "# without rows", "#SBATCH --mem=64M --cpus-per-task=1 --time=0:05:00"]
    groups = json.loads(tool.run("request", "--json", "xgb", "--by=--rows").stdout)
    assert groups["by"] == "rows" and [g["value"] for g in groups["groups"]] == ["77", "900", "10000", None]
    assert [g["request"]["runs"] for g in groups["groups"]] == [1, 2, 1, 1]
    done = tool.run("request", "xgb", "--by", "columns")
    assert done.returncode == 1 and "no run of these has 'columns'" in done.stderr


def test_a_name_with_a_slash(tool, made):
    """A name that runs have, unless there is such a file."""
    made.run("ok/rows=10", 60, 1000)
    made.run("ok/rows=10", 60, 2000)
    made.run("ok/rows=20", 60, 5000)
    assert lines(tool, "ok/rows=10") == lines(tool, "name:ok/rows=10") and "from 2 runs" in lines(tool, "ok/rows=10")[1]
    assert json.loads(tool.run("show", "--json", "ok/rows=10").stdout)["run"]["name"] == "ok/rows=10"
    assert "ok/rows=10 (n=2)" in tool.run("compare", "ok/rows=10", "ok/rows=20").stdout
    done = tool.run("request", "ok/rows=30")
    assert done.returncode == 1 and "ok/rows=30: No such file or directory, and no run of that name" in done.stderr
    (tool.folder / "ok").mkdir()
    (tool.folder / "ok" / "rows=10").write_bytes((tool.history / "3.hiw").read_bytes())
    assert "one run of" in lines(tool, "ok/rows=10")[1]


def test_against_what_was_requested(tool, made):
    made.run("xgb", 3600, 4096, 1.8, request_bytes=2 * GIB, request_time_ns=4000 * SEC, request_cpus=16, request_gpus=1)
    said = lines(tool, "xgb")
    assert said[3:] == [
        "# memory: 2.00 GiB requested, 4.00 GiB used: too little",
        "# CPUs: 16 requested, 1.80 cores used: too much",
        "# time: 1 h 7 min requested, 1 h used: about right",
        "# GPUs: 1 requested, 0 used: too much"]
    r = answer(tool, "xgb")
    assert [r[k]["fit"] for k in ("memory", "cpu", "time", "gpu")] == ["too little", "too much", "about right", "too much"]


def test_hostile_names(tool, made):
    made.run("a\x1b[31mb\nc", 60, 1000)
    made.run("a\x1b[31mb\nc", 60, 1000)
    out = tool.run("request", "a\x1b[31mb\nc").stdout
    assert "\x1b" not in out and all(line.startswith("#") for line in out.splitlines())


def test_a_real_run(tool):
    """Without a scheduler and after a short run, the line is there; what was requested is read."""
    done = tool.run("run", "-n", "fill", "--gpu=none", "--request", "gpus=2,ram=1GiB", "--", sys.executable, "-c",
                    "import time; x = bytearray(100 << 20); x[::4096] = b'x' * len(x[::4096]); time.sleep(1.3)")
    assert done.returncode == 0
    line = next(line for line in done.stderr.splitlines() if line.startswith("Request"))
    assert "#SBATCH --mem=" in line and "rough: one run of " in done.stderr
    shown = tool.run("show").stdout
    assert line in shown
    r = answer(tool, "fill")
    # other programs may have used tmpfs meanwhile
    assert 100 * MIB * 1.2 < r["memory_bytes"] and (r["memory_bytes"] <= 256 * MIB or "tmpfs" in r["basis"])
    assert r["gpus"] is None and r["gpu"]["requested"] == 2
    assert "GPUs not known" not in r["basis"] or "--gpu=none" in r["basis"]
    # the next run of that name counts both; one of another name, or without a name, does not
    sleep = ["--gpu=none", "--", "sleep", "1.1"]
    assert "from 2 runs of fill: " in tool.run("run", "-n", "fill", *sleep).stderr
    assert "rough: one run of " in tool.run("run", "-n", "other", *sleep).stderr
    assert "rough: one run of " in tool.run("run", *sleep).stderr
    assert "from 2 runs of this command: " in tool.run("run", *sleep).stderr


@pytest.mark.release  # a sanitizer's hiwater is too slow to read them
def test_the_end_of_a_run_states_which_runs_were_read(tool, made):
    """All of them, or how many: 40 earlier runs are read in 200 ms on a machine that is not busy."""
    largest = made.run("many", 60, 313)
    for number in range(2, 42):
        (tool.history / f"{number}.hiw").write_bytes(largest.read_bytes())
    done = tool.run("run", "-n", "many", "--gpu=none", "--", "sleep", "1.1")
    said = " ".join(done.stderr[done.stderr.index("Request"):].split())
    if "from 42 runs of many: " not in said:
        assert "from the newest " in said and "hiwater request many reads all" in said
    assert "one run" not in said and ("--mem=384M" in said or "tmpfs" in said)
    assert "from 42 runs of many: " in " ".join(lines(tool, "many"))


def test_blocks_and_whole_programs_of_one_name(tool, made):
    """The newest run decides which are meant, at the end of a run and later."""
    made.run("fit", 60, 1000)
    made.run("fit", 10, 5000, mode="attach", by_block=1)
    made.run("fit", 60, 1200)
    said = lines(tool, "fit")
    assert said[0] == "#SBATCH --mem=1536M --cpus-per-task=1 --time=0:05:00"
    assert said[1].startswith("# from 2 runs of fit: peak 1.17 GiB") and said[1].endswith("; 1 watched part of that name does not count")
    assert "from 2 runs of fit: " in " ".join(tool.run("show", "3").stdout.split())
    made.run("fit", 10, 6000, mode="attach", by_block=1)
    said = lines(tool, "fit")
    assert said[0] == "#SBATCH --mem=7424M --cpus-per-task=1"
    assert said[1].endswith("; 2 whole programs of that name do not count")


def test_runs_of_different_names(tool, made):
    made.run("att", 10, 1000, mode="attach", exit_status=None)
    made.run("other", 60, 500)
    said = lines(tool, "1", "2")
    assert said[0].endswith(" --time=0:05:00")
    assert said[1].startswith("# from 2 runs: ") and said[1].endswith(", 60 s + 50 %")


def test_a_damaged_recording_among_several(tool, made):
    for _ in range(3):
        path = made.run("xgb", 60, 1000)
    with sqlite3.connect(path) as db:
        page = db.execute("select rootpage from sqlite_master where name = 'process'").fetchone()[0]
        size = db.execute("pragma page_size").fetchone()[0]
    db.close()
    with open(path, "r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    said = lines(tool, "xgb")
    assert said[1].startswith("# from 2 runs of xgb: ") and said[1].endswith("; 1 recording could not be read")
    assert "1 recording could not be read" in " ".join(tool.run("show", "1").stdout.split())


def test_a_killed_child(tool, made):
    path = made.run("xgb", 60, 2000, cgroup_exclusive=1)
    with sqlite3.connect(path) as db:
        columns = [row[1] for row in db.execute("pragma table_info(summary)")]
        row = dict.fromkeys(columns, 0)
        row.update(entity="job", id=0, metric="oom_kills", n=2, min=0, max=1, last=1)
        db.execute(f"insert or replace into summary values ({','.join('?' * len(columns))})", [row[c] for c in columns])
    db.close()
    assert "peak more than 1.95 GiB (a limit killed a process of run 1 there) + 20 %" in lines(tool, "xgb")[1]


@pytest.mark.alone
def test_tmpfs_of_the_machine(tool):
    """Files in tmpfs that no process maps count, as far as the machine's figure rose."""
    script = "import os, time; f = open('/dev/shm/hiwater-test-%d' % os.getpid(), 'wb'); os.unlink(f.name); time.sleep(.3); " \
             "f.write(bytes(120 << 20)); f.flush(); time.sleep(.8)"
    tool.run("run", "-n", "shm", "--gpu=none", "--cgroup=none", "--", sys.executable, "-c", script)
    r = answer(tool, "shm")
    assert r["memory_bytes"] >= 120 * MIB * 1.2
    assert "at most" in r["basis"] and " of tmpfs and shared memory, system-wide" in r["basis"]

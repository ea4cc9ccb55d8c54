# SPDX-License-Identifier: MIT
"""The history of jobs of several ranks, under faked schedulers: a folder is one run, and a job is found by its number."""
import contextlib
import json
import os
import re
import shutil
import sqlite3

import pytest
from cli_helpers import wait_for
from test_history import LONGER, runs


def slurm(job="4711", step="0", rank=0, ranks=2, node="n1", nodes=1):
    env = {"SLURM_JOB_ID": job, "SLURM_PROCID": str(rank), "SLURM_NTASKS": str(ranks), "SLURM_LOCALID": str(rank),
           "SLURMD_NODENAME": node, "SLURM_NNODES": str(nodes)}
    return dict(env, SLURM_STEP_ID=step) if step else env


def record(tool, path, *options, command=("true",), env=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    return tool.run("run", "--summary", "none", "-o", path, *options, "--", *command, env=env)


def facts(path, **values):
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        for key, value in values.items():
            file.execute("DELETE FROM meta WHERE key = ?", (key,))
            if value is not None:
                file.execute("INSERT INTO meta VALUES(?, ?)", (key, value))


def part(tool, path, *options, command=("true",), rank=0, ranks=2, nodes=1):
    """The recording of a rank of a step, alone in its place."""
    record(tool, path, *options, command=command)
    facts(path, part="rank", rank=rank, ranks=ranks, nodes=nodes, node=path.name.split("-")[0], scheduler="slurm", scheduler_job="4711.0")


@pytest.fixture
def job(tool):
    """Two ranks on one node as the history keeps them: run 1. The node's recording is that of rank 0."""
    folder = tool.history / "1-slurm-4711.0"
    part(tool, folder / "n1-r0.hiw", "-n", "study", command=["sh", "-c", LONGER])
    part(tool, folder / "n1-r1.hiw", "-n", "study", command=["sh", "-c", "exit 3"], rank=1)
    shutil.copy(folder / "n1-r0.hiw", folder / "n1.hiw")
    facts(folder / "n1.hiw", part="node", rank=None)
    return folder


def test_a_job_is_one_line(tool, job):
    assert tool.run("run", "--summary", "none", "-n", "alone", "--", "sh", "-c", LONGER).returncode == 0
    of_job, alone = runs(tool)
    assert (of_job["number"], of_job["name"], of_job["command"]) == (1, "study", f"sh -c {LONGER}")
    assert (of_job["ranks"], of_job["nodes"], of_job["recording"]) == (2, 1, str(job))
    assert (alone["number"], alone["ranks"], alone["nodes"]) == (2, None, None)
    assert of_job["exit"]["code"] == 3 and of_job["complete"] and not of_job["running"] and of_job["wall_s"] > 1
    assert of_job["ram_peak_bytes"] > 0, "of the only node"
    assert of_job["file_bytes"] == sum(path.stat().st_size for path in job.iterdir())
    head, first, second = tool.run("runs").stdout.splitlines()
    assert "RANKS" in head and re.match(r" +1 +study .* 3 +2 +\S+ .iB", first) and re.match(r" +2 +alone ", second)
    assert [r["number"] for r in json.loads(tool.run("runs", "--json", "--failed").stdout)] == [1]
    assert [r["number"] for r in json.loads(tool.run("runs", "--json", "--sort", "size", "--since", "1d").stdout)] == [1, 2]
    assert "RANKS" not in tool.run("runs", "alone").stdout


@pytest.mark.parametrize("local, nodes", [(2, 1), (1, None)])
def test_a_launcher_states_ranks_and_no_nodes(tool, job, local, nodes):
    """All ranks on this node: it is the only one."""
    for path in job.iterdir():
        facts(path, nodes=None, local_ranks=local)
    listed, = runs(tool)
    assert listed["nodes"] == nodes and (listed["ram_peak_bytes"] is None) == (nodes is None)


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_a_job_fits_the_terminal(tool, job, columns):
    for path in job.iterdir():
        facts(path, ranks=1024, nodes=128)
    lines = tool.run("runs", env={"COLUMNS": str(columns)}).stdout.splitlines()
    assert max(map(len, lines)) <= columns
    assert ("1024, 128 nodes" in lines[1]) == (columns >= 80)


def test_of_a_job_on_two_nodes_neither_peak_nor_end_are_made_up(tool, job):
    for path in job.iterdir():
        facts(path, nodes=2, ranks=3)
    facts(job / "n1-r1.hiw", exit_status=0)
    listed = runs(tool)[0]
    assert listed["ram_peak_bytes"] is None and listed["exit"]["code"] is None and listed["complete"]
    assert re.search(r" - +3, 2 nodes +- ", tool.run("runs", env={"COLUMNS": "200"}).stdout)


def test_a_job_is_removed_as_one_run(tool, job):
    (job / "notes.txt").write_text("mine")
    refused = tool.run("runs", "--rm", "study")
    assert refused.returncode == 1 and "the folder stays because of what is not hiwater's, for example notes.txt" in refused.stderr
    assert os.listdir(job) == ["notes.txt"] and runs(tool) == []
    (job / "notes.txt").unlink()
    just = tool.run("runs", "--rm", "1")
    assert just.returncode == 1 and "run 1 is still running, or has just started" in just.stderr, "its ranks may be about to record"
    os.utime(job, (1, 1))
    assert tool.run("runs", "--rm", "1").stdout == f"removed run {job}\n" and not job.exists()
    assert tool.run("run", "--summary", "none", "--", "sh", "-c", LONGER).returncode == 0
    assert [run["number"] for run in runs(tool)] == [2], "its number is not used again"


def test_a_running_job_is_not_removed(tool, job):
    process = tool.start("run", "--summary", "none", "-o", job / "n1-r2.hiw", "--", "sleep", "60")
    wait_for((job / "n1-r2.hiw-wal").exists, "the recording")
    wait_for(lambda: runs(tool)[0]["running"], "it is listed as running")
    assert " running " in tool.run("runs").stdout
    refused = tool.run("runs", "--rm", "1")
    assert refused.returncode == 1 and "run 1 is still running, or has just started" in refused.stderr
    for path in job.iterdir():
        os.utime(path, (1, 1))
    for number in range(2, 204):
        os.link(job / "n1-r0.hiw", tool.history / f"{number}.hiw")
    assert "1.00 GiB: 2, 3, 4" in tool.run("run", "--", "sh", "-c", LONGER).stderr
    assert sorted(path.name for path in job.glob("*.hiw")) == ["n1-r0.hiw", "n1-r1.hiw", "n1-r2.hiw", "n1.hiw"]
    process.terminate()
    process.wait(30)


def test_a_step_on_210_nodes_leaves_the_others(tool):
    """Each of its recorders trims the history at its end."""
    assert tool.run("run", "--summary", "none", "-n", "precious", "--", "sh", "-c", LONGER).returncode == 0
    folder = tool.history / "2-slurm-1.0"
    part(tool, folder / "n0-r0.hiw", command=["sh", "-c", LONGER], ranks=210, nodes=210)
    for node in range(1, 210):
        os.link(folder / "n0-r0.hiw", folder / f"n{node}-r{node}.hiw")
    done = tool.run("run", "-n", "later", "--", "sh", "-c", LONGER)
    assert "removed" not in done.stderr
    assert [run["name"] for run in runs(tool)] == ["precious", None, "later"]
    assert runs(tool)[1]["ranks"] == 210


def test_a_requeued_run_says_so(tool):
    """A run each; which start it was is shown."""
    for restart in (None, "2"):
        env = slurm("7000", ranks=1) | ({"SLURM_RESTART_COUNT": restart} if restart else {})
        assert tool.run("run", "--summary", "none", "--", "sh", "-c", LONGER, env=env).returncode == 0
        assert re.search(r"restart\s2\b", tool.run("show", "last").stdout) if restart else "restart" not in tool.run("show", "last").stdout
    assert len(runs(tool)) == 2


def test_an_array_counts_as_one_run(tool):
    """Its tasks of one rank are runs of their own, and remove neither each other nor another run; once it is the oldest, it goes as a whole."""
    def record_one(*options, env=None):
        done = tool.run("run", "--summary", "none", *options, "--", "sh", "-c", LONGER, env=env)
        assert done.returncode == 0
        return done.stderr

    def task(number):
        return record_one(env=slurm(str(5000 + number), ranks=1) | {"SLURM_ARRAY_JOB_ID": "5000", "SLURM_ARRAY_TASK_ID": str(number)})

    record_one("-n", "precious")
    assert task(1) == ""
    assert (tool.history / "arrays").read_text() == "2 slurm-5000\n"
    for number in range(3, 232):
        os.link(tool.history / "2.hiw", tool.history / f"{number}.hiw")
        with open(tool.history / "arrays", "a", encoding="ascii") as arrays:
            arrays.write(f"{number} slurm-5000\n")
    assert task(2) == "" and record_one() == ""
    names = [run["name"] for run in runs(tool)]
    assert len(names) == 233 and names[0] == "precious"
    assert tool.run("show", "slurm:5000_1").returncode == tool.run("show", "slurm:5000_2").returncode == 0
    for number in range(234, 431):
        os.link(tool.history / "1.hiw", tool.history / f"{number}.hiw")
    assert "1.00 GiB: 1" in record_one() and not (tool.history / "1.hiw").exists(), "200 others and the array"
    assert len(runs(tool)) == 231 + 199
    pinned = tool.history / "100.hiw"
    pinned.unlink()
    shutil.copy(tool.history / "2.hiw", pinned)
    facts(pinned, pinned=1)
    assert "1.00 GiB: 233" in record_one(), "a task that is pinned keeps its array"
    facts(pinned, pinned=None)
    assert "1.00 GiB: 2, 3, 4" in record_one()
    assert len(runs(tool)) == 200 and not [number for number in range(2, 233) if (tool.history / f"{number}.hiw").exists()]


# ---- finding a job ----

@pytest.mark.parametrize("env, run", [
    (slurm(), "slurm:4711"),
    (slurm(), "slurm:4711.0"),
    (slurm(step=None), "slurm:4711"),
    ({"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": "7"}, "slurm:4711_7"),
    ({"TORCHELASTIC_RUN_ID": "exp/1", "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}, "torchrun:exp/1"),
    ({"PMIX_RANK": "0", "PMIX_NAMESPACE": "prterun-n1-77@1"}, "mpi:prterun-n1-77@1"),
])
def test_a_recording_elsewhere_is_found_by_its_job(tool, env, run):
    record(tool, tool.folder / "there" / "x.hiw", "-n", "elsewhere", env=env)
    shown = tool.run("show", "--json", run)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["run"]["name"] == "elsewhere"
    assert runs(tool) == []
    shutil.rmtree(tool.folder / "there")
    gone = tool.run("show", run)
    assert gone.returncode == 1 and f"job {run.split(':')[1]} in {tool.history}" in gone.stderr, gone.stderr


def lines(tool, key):
    return (tool.history / "jobs" / key).read_text().splitlines()


def test_what_is_noted_of_a_recording_elsewhere(tool):
    """A line for each file, one for a folder; nothing without a scheduler."""
    for rank in range(2):
        tool.run("run", "--summary", "none", "-o", "d/", "--", "true", env=slurm(rank=rank))
        tool.run("run", "--summary", "none", "-o", "r%r.hiw", "--", "true", env=slurm(step="1", rank=rank))
    record(tool, tool.folder / "x.hiw")
    assert lines(tool, "slurm-4711.0") == [str(tool.folder / "d" / "4711.0")]
    ranks = [line for line in lines(tool, "slurm-4711.1") if not line.endswith("-n1.hiw")]  # a slow run has one of the node, too
    assert ranks == [str(tool.folder / "r0.hiw"), str(tool.folder / "r1.hiw")]
    assert sorted(os.listdir(tool.history / "jobs")) == ["slurm-4711.0", "slurm-4711.1"]
    assert (tool.history / "jobs" / "slurm-4711.1").stat().st_mode & 0o777 == 0o600
    for run in "slurm:4711.0", "slurm:4711.1", "slurm:4711":
        job = json.loads(tool.run("show", "--json", run).stdout)["job"]
        assert len(job["ranks"]) == 2 and job["complete"], job
    assert "were written with -o and are not in the history; remove them with rm" in tool.run("runs", "--rm", "slurm:4711").stderr
    for path in tool.folder.glob("r*.hiw"):
        if path.name != "r0.hiw":
            path.unlink()
    assert tool.run("show", "slurm:4711.1").stdout == tool.run("show", tool.folder / "r0.hiw").stdout != "", "the one that is left"


def test_the_newest_step_with_ranks_is_found(tool, job):
    """Not the batch script around it, which saw none of them."""
    done = tool.run("run", "-n", "script", "--summary", "none", "--", "sh", "-c", LONGER, env=slurm(step=None))
    assert done.returncode == 0 and [run["name"] for run in runs(tool)] == ["study", "script"]
    removed = tool.run("runs", "--rm", "slurm:4711")
    assert removed.stdout.startswith("removed run 1 (study)"), removed
    assert json.loads(tool.run("show", "--json", "slurm:4711").stdout)["run"]["name"] == "script"


@pytest.mark.parametrize("spoil", ["file", "unwritable"])
def test_a_note_that_cannot_be_made_is_no_matter(tool, spoil):
    tool.history.mkdir()
    if spoil == "file":
        (tool.history / "jobs").write_text("")
    else:
        shutil.rmtree(tool.history)
        tool.history.write_text("")
    done = record(tool, tool.folder / "x.hiw", command=["sh", "-c", "exit 7"], env=slurm())
    assert (done.returncode, done.stderr) == (7, "")
    assert tool.run("show", "x.hiw").returncode == 0


def test_a_name_that_means_a_job_is_warned_of(tool):
    done = tool.run("run", "-n", "mpi:3", "--", "sh", "-c", LONGER)
    assert "'mpi:3' means the job of a launcher" in done.stderr and "'name:mpi:3'" in done.stderr
    assert tool.run("show", "name:mpi:3").returncode == 0
    missing = tool.run("show", "mpi:3")
    assert missing.returncode == 1 and "no run of mpi job 3 in " in missing.stderr


@pytest.mark.parametrize("run, form", [("slurm:", "slurm:JOB.STEP"), ("slurm:abc", "slurm:JOB.STEP"), ("slurm:12x", "slurm:JOB.STEP"), ("mpi:", "its id")])
def test_a_job_that_cannot_be(tool, run, form):
    done = tool.run("show", run)
    assert done.returncode == 1 and f"{run} names no job" in done.stderr and form in done.stderr
    assert "names no job" not in tool.run("show", "slurm:12_7.0").stderr


# ---- limits ----

def test_limits_of_report_and_compare_are_stated(tool):
    record(tool, tool.folder / "x.hiw")
    for i in range(257):
        os.link(tool.folder / "x.hiw", tool.folder / f"copy{i}.hiw")
    names = [f"./copy{i}.hiw" for i in range(257)]
    assert tool.run("compare", "--json", *names[:256]).returncode == 0
    assert "cannot compare more than 256 groups" in tool.run("compare", *names).stderr
    many = tool.run("report", *names[:65], "-o", "x.html")
    assert many.returncode == 2 and "a report shows at most 64" in many.stderr

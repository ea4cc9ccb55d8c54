# SPDX-License-Identifier: MIT
"""Ranks that a launcher below hiwater starts: found in the environment of its children, and kept with the processes."""
import json
import shutil
import sqlite3
import subprocess
import sys

import pytest
from cli_helpers import DEADLINE, HIWATER

# Starts n workers as torchrun does; each grows to 20 MiB and ten more for each rank, and has a child that is of its rank.
TORCHRUN = """#!{python}
import os, subprocess, sys
worker = "import subprocess, sys; x = bytearray(int(sys.argv[1]) << 20); subprocess.run(['sleep', '1'])"
n = int(sys.argv[1])
sizes = sys.argv[2:]
started = [subprocess.Popen([sys.executable, "-c", worker, str(20 + 10 * i)],
                            env=dict(os.environ, RANK=str(i), LOCAL_RANK=str(i), WORLD_SIZE=sizes[i] if sizes else str(n)))
           for i in range(n)]
sys.exit(max(p.wait() for p in started))
"""


@pytest.fixture
def torchrun(tool):
    path = tool.folder / "torchrun"
    path.write_text(TORCHRUN.format(python=sys.executable))
    path.chmod(0o755)
    return path


def run(tool, *command, **environment):
    done = subprocess.run([HIWATER, "run", "-o", "run.hiw", "--json", "run.json", "--", *map(str, command)], cwd=tool.folder,
                          env=dict(tool.env, **environment), capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr, json.loads((tool.folder / "run.json").read_text())


def test_workers_have_ranks(tool, torchrun):
    text, summary = run(tool, torchrun, 4)
    processes = summary["processes"]
    assert processes["ranks_started"] == 4
    assert [r["rank"] for r in processes["ranks"]] == [0, 1, 2, 3]
    for i, rank in enumerate(processes["ranks"]):
        assert rank["processes"] == 2
        assert rank["peak_bytes"] > (20 + 10 * i) << 20
        assert rank["cpu_s"] > 0
    assert [p["rank"] for p in processes["list"] if p["name"] == "torchrun"] == [None]
    assert "0-3 of 4; rank 0: " in text.replace("\N{NO-BREAK SPACE}", " ")
    assert "ranks" not in summary["request"].get("basis", "")
    shown = json.loads(tool.run("show", "--json", "run.hiw").stdout)
    assert shown["processes"] == processes
    with sqlite3.connect(tool.folder / "run.hiw") as db:
        assert db.execute("SELECT count(*) FROM process WHERE rank IS NULL").fetchone() == (1,)
        assert db.execute("SELECT value FROM meta WHERE key = 'ranks'").fetchone() == (4,)


def test_a_folder_with_the_recording_of_a_launcher(tool, torchrun):
    """No scheduler: the recording has all ranks, and none itself. Two of them are two jobs."""
    def shown(run):
        done = tool.run("show", "--json", run)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    for n in (2, 3):
        assert tool.run("run", "-o", "d/", "--summary", "none", "--", torchrun, n).returncode == 0
        path = max((tool.folder / "d").iterdir(), key=lambda p: p.stat().st_mtime_ns)
        assert "-r0" not in path.name
        alone, folder = shown(path), shown("d")
        assert folder["command"] == [" ".join(alone["command"])] and folder["exit"] == alone["exit"] and folder["exit"]["code"] == 0
        assert folder["time"]["user_s"] == pytest.approx(alone["time"]["user_s"], abs=1e-6)
        assert folder["ram"]["combined"]["peak_bytes"] == pytest.approx(alone["ram"]["combined"]["peak_bytes"], rel=0.01)
        job = folder["job"]
        assert job["complete"] and job["world_size"] == n and len(job["nodes"]) == 1
        assert [(r["rank"], r["ram_peak_bytes"]) for r in job["ranks"]] == [(r["rank"], r["peak_bytes"]) for r in alone["processes"]["ranks"]]
        assert [r["user_s"] + r["system_s"] for r in job["ranks"]] == pytest.approx([r["cpu_s"] for r in alone["processes"]["ranks"]])
        assert job["other_jobs"] == (None if n == 2 else "one without a number")
    sacct = tool.run("export", "d", "--to", "sacct").stdout.splitlines()[1].split("|")
    assert sacct[1:3] == ["COMPLETED", "0:0"] and sacct[5] == "3" and sacct[12] != "00:00.000"


def test_many_workers_are_shown_by_the_least_and_the_most(tool, torchrun):
    text, summary = run(tool, torchrun, 9)
    assert len(summary["processes"]["ranks"]) == 9
    words = " ".join(text.split())
    assert "0-8 of 9; RAM " in words
    assert "(rank 0) to " in words
    assert "(rank 8)" in words


def test_workers_that_disagree_leave_the_number_unknown(tool, torchrun):
    _, summary = run(tool, torchrun, 2, 2, 3)
    assert summary["processes"]["ranks_started"] is None
    assert [r["rank"] for r in summary["processes"]["ranks"]] == [0, 1]


def test_the_number_of_an_agent_is_not_that_of_a_worker(tool, torchrun):
    """Below srun, torchrun's agents are numbered by node."""
    text, summary = run(tool, torchrun, 2, 4, 4, SLURM_JOB_ID="7", SLURM_STEP_ID="0", SLURM_PROCID="0", SLURM_STEP_NUM_TASKS="2",
                        SLURM_NNODES="2")
    assert summary["processes"]["ranks_started"] == 4
    assert [r["rank"] for r in summary["processes"]["ranks"]] == [0, 1]
    words = " ".join(text.split())
    assert "0-1 of 4; " in words or "rank=" not in words  # one that is not the leader's prints a line
    assert "rank 0 of 2" not in words


def test_other_processes_have_no_rank(tool):
    _, summary = run(tool, "sh", "-c", "sleep 0.5; true", RANK="3", WORLD_SIZE="4")
    assert summary["processes"]["ranks"] == []
    assert {p["rank"] for p in summary["processes"]["list"]} == {None}


@pytest.mark.full
@pytest.mark.parametrize("launcher", ["mpirun.openmpi", "mpiexec.hydra"])
def test_ranks_of_mpi(tool, launcher):
    if not shutil.which(launcher):
        pytest.skip(f"no {launcher}")
    options = ["--oversubscribe"] if launcher == "mpirun.openmpi" else []
    _, summary = run(tool, launcher, *options, "-n", "4", sys.executable, "-c", "import time; x = bytearray(32 << 20); time.sleep(2)",
                     OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    assert summary["processes"]["ranks_started"] == 4
    assert [r["rank"] for r in summary["processes"]["ranks"]] == [0, 1, 2, 3]
    assert all(r["peak_bytes"] > 32 << 20 for r in summary["processes"]["ranks"])

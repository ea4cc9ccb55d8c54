# SPDX-License-Identifier: MIT
"""Under Slurm: a cluster on this machine (tools/slurm-loopback), once as it comes, once with cgroup v1."""
import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys

import pytest
from cli_helpers import HIWATER, ROOT, wait_for

pytestmark = pytest.mark.full
LOOPBACK = ROOT / "tools" / "slurm-loopback"


@pytest.fixture(scope="module", params=["none", "v1"])
def cluster(request, tmp_path_factory):
    """SLURM_CONF of a cluster of two nodes."""
    if request.param == "v1" and not pathlib.Path("/sys/fs/cgroup/freezer").is_dir():
        pytest.skip("no cgroup v1 on this machine")
    folder = tmp_path_factory.mktemp("slurm") / request.param
    started = subprocess.run([LOOPBACK, "start", "--dir", folder, "--gpus", "0", "--cgroup", request.param], text=True,
                             capture_output=True)
    assert started.returncode == 0, started.stderr
    yield re.search(r"SLURM_CONF=(\S+)", started.stdout)[1]
    subprocess.run([LOOPBACK, "stop", "--dir", folder], check=True)


class Slurm:
    def __init__(self, tool, conf):
        self.tool = tool
        self.env = dict(tool.env, SLURM_CONF=conf)
        self.started = []

    def start(self, program, *args):
        process = subprocess.Popen([program, *map(str, args)], env=self.env, cwd=self.tool.folder, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.started.append(process)
        return process

    def run(self, program, *args):
        process = self.start(program, *args)
        stdout, stderr = process.communicate(timeout=100)
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def job_of(self, name):
        """The number of the job that was given this name with -J, once it runs."""
        return wait_for(lambda: self.run("squeue", "-h", "-n", name, "-t", "running", "-o", "%A").stdout.strip(), f"job {name} runs")

    def end(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def slurm(tool, cluster):
    made = Slurm(tool, cluster)
    yield made
    made.end()


def finished(slurm, path):
    done = slurm.tool.run("show", "--json", path)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("options", [[], ["--setsid"]], ids=["plain", "setsid"])
def test_scancel_signals_reach_the_job_once(slurm, tool, options):
    """linuxproc signals every process of the step, cgroups only hiwater."""
    counter = tool.counter()
    step = slurm.start("srun", "-n1", "-J", "count", HIWATER, "run", "--no-record", "--", *counter.command(*options))
    counter.wait_ready()
    job = slurm.job_of("count")
    for i in range(1, 6):
        for name in ("USR1", "USR2"):
            assert slurm.run("scancel", "-s", name, f"{job}.0").returncode == 0
            counter.wait_got(name, i)
    counter.finish()
    _, stderr = step.communicate(timeout=60)
    assert step.returncode == 0, stderr
    assert [len(counter.got(name)) for name in ("USR1", "USR2")] == [5, 5]


def test_what_a_child_gets_is_what_it_gets_without_hiwater(slurm, tool):
    """linuxproc signals children, too, cgroups do not: hiwater changes neither."""
    counts = []
    for name, wrapper in (("bare", []), ("with", [HIWATER, "run", "--no-record", "--"])):
        counter = tool.counter(name)
        step = slurm.start("srun", "-n1", "-J", name, *wrapper, "env", "--ignore-signal=USR1", *counter.command("--fork"))
        counter.wait_ready()
        job = slurm.job_of(name)
        assert slurm.run("scancel", "-s", "USR1", f"{job}.0").returncode == 0
        # SIGCONT is sent after it, and everybody may get that one.
        os.kill(counter.wait_ready(), signal.SIGRTMIN + 1)
        counter.wait_got("RT1")
        counter.finish()
        _, stderr = step.communicate(timeout=60)
        assert step.returncode == 0, stderr
        counts.append(len(counter.got("USR1")))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("script, code", [("exit 3", 3), ("kill -TERM $$", 143), ("kill -KILL $$", 137), ("exit 0", 0)])
def test_exit_statuses_are_those_without_hiwater(slurm, script, code):
    bare = slurm.run("srun", "-n1", "sh", "-c", script)
    with_it = slurm.run("srun", "-n1", HIWATER, "run", "--", "sh", "-c", script)
    assert with_it.returncode == bare.returncode == code


def test_scancel_leaves_a_finished_recording(slurm, tool):
    """SIGCONT and SIGTERM, and SIGKILL two seconds later."""
    step = slurm.start("srun", "-n1", "-J", "cancel", HIWATER, "run", "-o", "x.hiw", "--", "sh", "-c",
                       "echo ready > ready; exec sleep 1000")
    wait_for((tool.folder / "ready").exists, "the job runs")
    assert slurm.run("scancel", slurm.job_of("cancel")).returncode == 0
    step.communicate(timeout=60)
    wait_for(lambda: finished(slurm, "x.hiw")["run"]["complete"], "the recording is finished")
    summary = finished(slurm, "x.hiw")
    assert summary["exit"]["signal"] == signal.SIGTERM
    assert summary["ram"]["main"]["peak_bytes"] > 0


@pytest.mark.timeout(400)
def test_the_time_limit_leaves_a_finished_recording(slurm, tool, request):
    if "v1" in request.node.callspec.id:
        return  # the same signals as scancel's; a minute is enough
    step = slurm.start("srun", "-n1", "-t", "1", HIWATER, "run", "-o", "x.hiw", "--", "sleep", "1000")
    step.communicate(timeout=300)
    wait_for(lambda: finished(slurm, "x.hiw")["run"]["complete"], "the recording is finished")
    assert finished(slurm, "x.hiw")["exit"]["signal"] == signal.SIGTERM


def test_one_rank_prints_the_summary_of_its_node(slurm, tool):
    done = slurm.run("srun", "-n3", "-N1", "-l", HIWATER, "run", "-o", "r%r.hiw", "--", "sleep", "1.2")
    assert done.returncode == 0, done.stderr
    by_rank = [[l for l in done.stderr.splitlines() if l.startswith(f"{rank}: ")] for rank in range(3)]
    assert sorted(map(len, by_rank))[:2] == [1, 1] and max(map(len, by_rank)) > 4, done.stderr
    assert all(f"rank={rank} " in lines[0] for rank, lines in enumerate(by_rank))
    assert done.stderr.count("3 ranks") == 1
    assert all((tool.folder / f"r{rank}.hiw").exists() for rank in range(3))
    assert len(list(tool.folder.glob("r?-n*.hiw"))) == 1


def meta(path):
    with sqlite3.connect(path) as db:
        found = dict(db.execute("SELECT key, value FROM meta"))
    db.close()
    return found


@pytest.mark.parametrize("options", [[], ["-o", "d/"]], ids=["history", "folder"])
def test_the_parts_of_a_step(slurm, tool, options):
    """Two nodes with two ranks each: a recording of each rank, and one of each node with the figures of both."""
    job = [sys.executable, "-c", "import time; x = b'x' * (50 << 20); time.sleep(2.5)"]
    done = slurm.run("srun", "-N2", "-n4", "--ntasks-per-node=2", HIWATER, "run", *options, "--", *job)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("the whole job: ") == 1 and done.stderr.count("2 ranks") == 1
    folders = list((tool.folder / "d").iterdir()) if options else list(tool.history.iterdir())
    assert len(folders) == 1 and folders[0].name.endswith(".0")
    parts = {path.stem: meta(path) for path in folders[0].glob("*.hiw")}
    nodes = {name: f for name, f in parts.items() if f["part"] == "node"}
    ranks = {name: f for name, f in parts.items() if f["part"] == "rank"}
    assert len(nodes) == 2 and sorted(f["rank"] for f in ranks.values()) == [0, 1, 2, 3]
    for name, node in nodes.items():
        own = [f for f in ranks.values() if f["node"] == name]
        assert (node["local_ranks"], len(own), node["ranks"]) == (2, 2, 4)
        assert {f["local_ranks"] for f in own} == {2} and {f["node_rank"] for f in own} == {node["node_rank"]}
        assert 100 << 20 < node["ram_peak_bytes"] <= sum(f["ram_peak_bytes"] for f in own) * 1.02


def test_a_script_that_calls_srun_says_what_was_not_seen(slurm, tool):
    script = tool.folder / "script"
    script.write_text("#!/bin/sh\nsrun -n1 sleep 0.3\n")
    script.chmod(0o755)
    done = slurm.run("sbatch", "-W", "-o", tool.folder / "out", "--wrap", f"{HIWATER} run -- {script}")
    assert done.returncode == 0, done.stderr
    text = (tool.folder / "out").read_text()
    assert "srun hiwater run --" in re.sub(r"\s+", " ", text), text


def test_show_finds_a_run_by_its_job(slurm, tool):
    done = slurm.run("sbatch", "-W", "-o", tool.folder / "out", "--wrap", f"{HIWATER} run -- sleep 1.2")
    assert done.returncode == 0, done.stderr
    number = re.search(r"job (\d+)", done.stdout)[1]
    shown = tool.run("show", "--json", f"slurm:{number}")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["command"] == ["sleep", "1.2"]

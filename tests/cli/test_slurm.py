# SPDX-License-Identifier: MIT
"""Under Slurm: a cluster on this machine (tools/slurm-loopback), once as it comes, once with cgroup v1."""
import contextlib
import getpass
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


# ---- a job that hiwater did not start --------------------------------------------------------------------------------

# Clusters of other tests may have a job of that number on nodes of other names.
ON_N1 = {"SLURMD_NODENAME": "n1"}
# 60 MiB beyond what Python itself needs; ready: a file appears when it has them.
HOLDER = "import pathlib, sys, time; x = bytearray(60 << 20); pathlib.Path(sys.argv[1]).touch()\n" \
         "while not pathlib.Path('end').exists(): time.sleep(0.02)"


def facts(path):
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return dict(db.execute("select key, value from meta"))


@pytest.fixture
def held(slurm, tool):
    """The number of a batch job whose script and one step are on node n1; they end when the file `end` appears."""
    (tool.folder / "holder.py").write_text(HOLDER)
    done = slurm.run("sbatch", "-w", "n1", "-n1", "--overcommit", "--mem=200", "-o", tool.folder / "out", "--wrap",
                     f"srun -n1 {sys.executable} holder.py ready")
    assert done.returncode == 0, done.stderr
    wait_for((tool.folder / "ready").exists, "the step runs")
    yield re.search(r"job (\d+)", done.stdout)[1]
    (tool.folder / "end").touch()
    number = re.search(r"job (\d+)", done.stdout)[1]
    wait_for(lambda: not slurm.run("squeue", "-h", "-j", number).stdout, "the job has ended")


def test_attach_to_a_job_by_its_number(slurm, tool, held):
    attached = tool.run("attach", f"slurm:{held}", "--for", "1s", "-o", "x.hiw", env=ON_N1)
    assert attached.returncode == 0, attached.stderr
    summary, known = finished(slurm, "x.hiw"), facts(tool.folder / "x.hiw")
    assert summary["command"] == [f"slurm job {held}"] and summary["host"] == "n1"
    assert {k: known.get(k) for k in ("scheduler", "scheduler_job", "node", "user", "part", "nodes")} == {
        "scheduler": "slurm", "scheduler_job": held, "node": "n1", "user": getpass.getuser(), "part": "node", "nodes": 1}
    assert known["request_bytes"] == 200 << 20
    assert 60 << 20 < summary["ram"]["combined"]["peak_bytes"] < 120 << 20
    # slurmstepd is not the job, and srun's tasks are in it: nothing was missed.
    assert not any("slurmstepd" in p["name"] for p in summary["processes"]["list"])
    assert not any("srun" in f["evidence"] for f in summary["findings"])


def test_attach_to_a_step(slurm, tool, held):
    attached = tool.run("attach", f"slurm:{held}.0", "--for", "1s", "-o", "d/", env=ON_N1)
    assert attached.returncode == 0, attached.stderr
    summary, known = finished(slurm, f"d/{held}.0/n1.hiw"), facts(tool.folder / f"d/{held}.0/n1.hiw")
    assert "holder.py" in " ".join(summary["command"])
    assert known["scheduler_job"] == f"{held}.0" and known["step"] == "0"


def test_attach_to_the_group_of_a_job(slurm, tool, held, request):
    if "v1" not in request.node.callspec.id:
        return  # no groups
    group = f"/slurm_n1/uid_{os.getuid()}/job_{held}"
    attached = tool.run("attach", "--cgroup", group, "--for", "1s", "-o", "x.hiw", env=ON_N1)
    assert attached.returncode == 0, attached.stderr
    summary, known = finished(slurm, "x.hiw"), facts(tool.folder / "x.hiw")
    assert summary["command"] == [f"slurm job {held}"] and summary["host"] == "n1"
    assert known["scheduler_job"] == held and known["cgroup"] == group


def test_attach_on_each_node_of_a_running_job(slurm, tool):
    (tool.folder / "holder.py").write_text(HOLDER)
    step = slurm.start("srun", "-N2", "-n2", "-J", "wide", "--overcommit", sys.executable, "holder.py", "ready")
    wait_for((tool.folder / "ready").exists, "the step runs")
    job = slurm.job_of("wide")
    attached = slurm.run("srun", "--overlap", f"--jobid={job}", "-N2", "--ntasks-per-node=1", "--mem=0", HIWATER, "attach",
                         f"slurm:{job}", "--for", "1s", "-o", "d/")
    assert attached.returncode == 0, attached.stderr
    (tool.folder / "end").touch()
    step.communicate(timeout=60)
    for node in ("n1", "n2"):
        summary = finished(slurm, f"d/{job}/{node}.hiw")
        assert summary["host"] == node
        assert 60 << 20 < summary["ram"]["combined"]["peak_bytes"] < 120 << 20  # of one rank: hiwater's own step is not in it


def test_attach_waits_for_the_job(slurm, tool):
    missing = tool.run("attach", "slurm:4000000000", "-o", "x.hiw", env=ON_N1)
    assert missing.returncode == 1 and "has no processes on this node" in missing.stderr
    next_job = 1 + int(re.search(r"job (\d+)", slurm.run("sbatch", "-W", "-o", "/dev/null", "--wrap", "true").stdout)[1])
    attach = tool.start("attach", f"slurm:{next_job}", "--wait-start", "1m", "-o", "x.hiw", env=dict(tool.env, **ON_N1))
    done = slurm.run("sbatch", "-W", "-w", "n1", "-o", "/dev/null", "--wrap", "sleep 3")
    assert done.returncode == 0, done.stderr
    assert attach.wait(60) == 0
    assert facts(tool.folder / "x.hiw")["scheduler_job"] == str(next_job)


def test_a_batch_script_is_not_the_job(slurm, tool):
    """Its steps were not seen: no share of what was requested for them, and no advice."""
    script = tool.folder / "script"
    script.write_text("#!/bin/sh\nsrun -n1 sleep 0.5\n")
    script.chmod(0o755)
    done = slurm.run("sbatch", "-W", "--mem=200", "-o", tool.folder / "out", "--wrap", f"{HIWATER} run -o x.hiw -- {script}")
    assert done.returncode == 0, done.stderr
    text = (tool.folder / "out").read_text()
    assert "batch script only: steps that srun starts are not below it" in text
    assert "requested" not in text and "Request   not known" in text
    request = finished(slurm, "x.hiw")["request"]
    assert request["memory_bytes"] is None and request["line"] is None
    assert request["memory"]["fit"] is None


def test_a_request_is_exceeded_at_any_length_of_run(slurm, tool, request):
    if "v1" in request.node.callspec.id:
        return  # the kernel would end it
    done = slurm.run("sbatch", "-W", "--mem=20", "-o", tool.folder / "out", "--wrap",
                     f"{HIWATER} run -o x.hiw -- {sys.executable} -c 'x = bytearray(100 << 20)'")
    assert done.returncode == 0, done.stderr
    assert "memory-exceeded" in {f["code"] for f in finished(slurm, "x.hiw")["findings"]}

# SPDX-License-Identifier: MIT
"""hiwater run as one of several ranks of a node: each here has the environment that Slurm would give it."""
import json
import os
import pathlib
import signal
import sqlite3
import sys

import pytest
from cli_helpers import DEADLINE, ended, wait_for
from gpu_jobs import helper_of
from ranks_helpers import set_facts

MIB = 1 << 20

# A rank: maps a file that all ranks share, allocates memory of its own, and sleeps until the test stops it.
RANK = """
import mmap, os, sys, time
shared, private, ready, stop = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
if shared:
    with open(shared, "r+b") as f:
        m = mmap.mmap(f.fileno(), 0)
    for at in range(0, len(m), 4096):
        m[at]
own = b"x" * private
open(ready + "." + os.environ["SLURM_PROCID"], "w").write(str(os.getpid()))
while not os.path.exists(stop) and not os.path.exists(stop + "." + os.environ["SLURM_PROCID"]):
    time.sleep(0.02)
"""


class Step:
    """Ranks of step 7.0 on node n1."""

    def __init__(self, tool, ranks=3, **env):
        self.tool = tool
        self.ranks = ranks
        self.env = env
        self.started = {}
        self.stop = tool.folder / "stop"

    def of(self, rank):
        return {**self.tool.env, "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank),
                "SLURM_NTASKS": str(self.ranks), "SLURM_STEP_TASKS_PER_NODE": str(self.ranks), "SLURM_NNODES": "1", "SLURM_NODEID": "0",
                "SLURMD_NODENAME": "n1", **self.env}

    def start(self, rank, *options, shared="", private=0, command=()):
        job = command or (sys.executable, "-c", RANK, str(shared), str(private), str(self.tool.folder / "ready"), str(self.stop))
        self.started[rank] = self.tool.start("run", *options, "--", *job, env=self.of(rank))
        return self.started[rank]

    def start_all(self, *options, **how):
        """The first is the leader."""
        for rank in range(self.ranks):
            self.start(rank, *options, **how)
            if rank == 0:
                wait_for(self.locks, "the first rank leads")
        return [self.pid(rank) for rank in range(self.ranks)]

    def pid(self, rank):
        """Of the rank's main process, once it rests."""
        ready = self.tool.folder / f"ready.{rank}"
        return int(wait_for(lambda: ready.exists() and ready.read_text(), f"rank {rank} is ready"))

    def folder(self):
        return pathlib.Path(self.tool.env["XDG_RUNTIME_DIR"]) / f"hiwater-{os.geteuid()}" / "slurm-7.0-n1"

    def locks(self):
        """The rank that holds the lock."""
        for rank, process in self.started.items():
            for fd in pathlib.Path(f"/proc/{process.pid}/fd").glob("*"):
                try:
                    if os.readlink(fd) == str(self.folder() / "lock"):
                        return [rank]
                except OSError:
                    pass
        return None

    def end(self):
        """What each rank printed."""
        self.stop.touch()
        return {rank: self.finish(rank) for rank in self.started}

    def finish(self, rank):
        _, stderr = self.started[rank].communicate(timeout=2 * DEADLINE)
        return stderr.decode()


@pytest.fixture
def step(tool):
    return Step(tool)


def facts(path):
    with sqlite3.connect(path) as db:
        found = dict(db.execute("SELECT key, value FROM meta"))
    db.close()
    return found


def rows(path, table):
    with sqlite3.connect(path) as db:
        (n,) = db.execute(f"SELECT count(*) FROM {table}").fetchone()
    db.close()
    return n


def measures(path, ranks):
    """The recording of the node has this number of ranks, and has seen them rest: it is written each second."""
    try:
        return path.exists() and facts(path).get("local_ranks") == ranks
    except sqlite3.OperationalError:  # it is just being made
        return False


def shown(tool, path):
    done = tool.run("show", "--json", path)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def names(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm")))


# ---- the parts -----------------------------------------------------------------------------------


def test_the_recordings_of_a_step_are_one_folder_of_the_history(tool, step):
    step.start_all()
    folder = wait_for(lambda: list(tool.history.glob("*-slurm-7.0")), "the folder")[0]
    wait_for(lambda: measures(folder / "n1.hiw", 3), "the node is measured")
    printed = step.end()
    assert [p.returncode for p in step.started.values()] == [0, 0, 0]
    assert names(tool.history) == ["1-slurm-7.0"]
    assert names(folder) == ["n1-r0.hiw", "n1-r1.hiw", "n1-r2.hiw", "n1.hiw"]
    assert folder.stat().st_mode & 0o777 == 0o700
    node = facts(folder / "n1.hiw")
    assert (node["part"], node["node"], node["step"], node["local_ranks"], node["ranks"]) == ("node", "n1", "0", 3, 3)
    assert "rank" not in node and node["interval_ns"] == 100_000_000
    for rank in range(3):
        f = facts(folder / f"n1-r{rank}.hiw")
        assert (f["part"], f["rank"], f["local_rank"], f["ranks"], f["local_ranks"]) == ("rank", rank, rank, 3, 3)
        assert f["interval_ns"] == 1_000_000_000 and f["processes_seen"] == 1
        assert f["gpu_queried"] == 0 and f["gpu_why"] == "the recording of this node has the GPUs"
    assert node["processes_seen"] == 3 and node.get("gpu_queried") == 1
    # one summary, of the node of rank 0, and one line from each rank
    lines = [p.splitlines() for p in printed.values()]
    assert "node n1, 3 ranks" in printed[0] and "the whole job: hiwater show slurm:7.0" in printed[0]
    assert lines[0][0].startswith("hiwater - rank=0 ") and [len(l) for l in lines[1:]] == [1, 1]
    assert not step.folder().exists() and not step.folder().parent.exists()


def test_a_mapping_that_all_ranks_share_counts_once_on_the_node(tool, step):
    shared = pathlib.Path("/dev/shm") / f"hiwater-test-{os.getpid()}"
    private = 60 * MIB
    try:
        with open(shared, "wb") as f:
            f.write(b"\1" * (200 * MIB))
        pids = step.start_all("-o", "d/", shared=shared, private=private)
        node = tool.folder / "d" / "7.0" / "n1.hiw"
        wait_for(lambda: measures(node, 3), "the node is measured")

        def pss(pid):
            text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
            return int(text.split("\nPss:")[1].split()[0]) * 1024

        truth = sum(map(pss, pids))  # of libraries that others map as well, the share of these ranks
        # a pass over the resting ranks, which the node's recorder has not made before it has met them all
        wait_for(lambda: abs(facts(node).get("ram_peak_bytes", 0) - truth) < truth / 50, "the node has what its ranks have")
        step.end()
        ram = shown(tool, node)["ram"]["combined"]
        assert abs(ram["peak_bytes"] - truth) < truth / 50, (ram, truth)
        assert ram["low_bytes"] <= truth * 1.02 and abs(truth - (200 * MIB + 3 * private)) < 60 * MIB
        for rank in range(3):
            assert shown(tool, node.with_name(f"n1-r{rank}.hiw"))["ram"]["combined"]["peak_bytes"] > 260 * MIB
    finally:
        shared.unlink(missing_ok=True)


def test_a_rank_that_comes_late_is_measured(tool, step):
    step.start(0, "-o", "d/")
    step.pid(0)
    node = tool.folder / "d" / "7.0" / "n1.hiw"
    wait_for(lambda: measures(node, 1), "the node is measured")
    step.start(1, "-o", "d/")
    wait_for(lambda: measures(node, 2), "the second rank is measured")
    step.end()
    assert facts(node)["processes_seen"] == 2


def test_files_beside_one_that_was_named(tool, step):
    step.start_all("-o", "run-r%r.hiw")
    wait_for(lambda: measures(tool.folder / "run-r0-n1.hiw", 3), "the node is measured")
    printed = step.end()
    assert [n for n in names(tool.folder) if n.endswith(".hiw")] == ["run-r0-n1.hiw", "run-r0.hiw", "run-r1.hiw", "run-r2.hiw"]
    assert "the whole job: hiwater show " in printed[0]


@pytest.mark.parametrize("options", [("-o", "d/"), ("-o", "d/", "--strict"), ("-o", "x.hiw", "--strict"), ()])
def test_the_same_step_again_starts(tool, options):
    for again in range(2):
        step = Step(tool, 2)
        step.start_all(*options)
        step.end()
        assert [p.returncode for p in step.started.values()] == [0, 0]
        step.stop.unlink()
        for ready in tool.folder.glob("ready.*"):
            ready.unlink()
    assert len(list(tool.folder.rglob("*.hiw"))) == 6
    runs = [name for name in names(tool.history) if name != "jobs"] if tool.history.exists() else []
    assert runs == ([] if options else ["1-slurm-7.0"])


def test_what_the_user_asks_for_stays(tool, step):
    step.start_all("-o", "d/", "-i", "200ms", "--gpu", "auto")
    wait_for(lambda: measures(tool.folder / "d" / "7.0" / "n1.hiw", 3), "the node is measured")
    step.end()
    for name in ("n1", "n1-r0", "n1-r1"):
        f = facts(tool.folder / "d" / "7.0" / f"{name}.hiw")
        assert f["interval_ns"] == 200_000_000 and "the recording of this node" not in (f.get("gpu_why") or "")


def test_without_a_recording_there_is_no_folder(tool, step):
    step.start_all("--no-record")
    assert "node n1, " in step.end()[0]  # it may end before its recorder has met all three
    assert not list(tool.folder.rglob("*.hiw")) and not tool.history.exists()


def test_the_gpus_are_read_once(gpu):
    step = Step(gpu, 2)
    step.start_all("-o", "d/")
    folder = gpu.folder / "d" / "7.0"
    wait_for(lambda: measures(folder / "n1.hiw", 2) and rows(folder / "n1.hiw", "gpu_sample"), "the node has its GPUs")
    helpers = [helper_of(process) for process in step.started.values()]
    assert helpers[0] and not helpers[1]
    printed = step.end()
    assert len(shown(gpu, folder / "n1.hiw")["gpu"]["devices"]) == 2 and "GPU 0" in printed[0]
    for rank in range(2):
        summary = shown(gpu, folder / f"n1-r{rank}.hiw")
        assert summary["gpu"] is None and summary["run"]["complete"]
        assert any("the recording of this node has the GPUs" in note["why"] for note in summary["notes"])
        assert facts(folder / f"n1-r{rank}.hiw")["processes_seen"] == 1


def test_gpus_that_were_not_allocated_are_not_the_jobs(gpu):
    """Each rank has GPU 0, which is the only busy one; the driver shows GPU 1, too."""
    gpu.scenario.write_text(gpu.scenario.read_text() + "[gpu 0]\nutil = 80\ngpm 2 = 50\n[gpu 1]\nutil = 0\ngpm 2 = 0\n")
    step = Step(gpu, 2, SLURM_STEP_GPUS="0", CUDA_VISIBLE_DEVICES="0", SLURM_GPUS_ON_NODE="1")
    step.start_all("-o", "d/")
    folder = gpu.folder / "d" / "7.0"
    wait_for(lambda: measures(folder / "n1.hiw", 2) and rows(folder / "n1.hiw", "gpu_sample") > 2, "the node has its GPUs")
    step.end()
    assert gpu.run("merge", "d", "-o", "J.hiw").returncode == 0
    for run in ("d", "J.hiw"):
        summary = shown(gpu, run)
        zero, one = summary["gpu"]["devices"]
        assert (zero["allocated"], one["allocated"]) == (True, False)
        assert [node["gpus"] for node in summary["job"]["nodes"]] == [[zero["uuid"]]]
        text = gpu.run("show", run).stdout.replace("\N{NO-BREAK SPACE}", " ")
        assert "1 GPU " in text.splitlines()[0] and "busy 80 %" in text and "GPU SM active 50 %" in text
        assert "gres/gpu=1|" in gpu.run("export", "--to", "sacct", run).stdout


def test_each_rank_has_a_gpu_of_its_own(gpu):
    """srun --gpus-per-task=1: the leader's SLURM_STEP_GPUS is not the other rank's."""
    step = Step(gpu, 2)
    for rank in range(2):
        step.env = {"SLURM_STEP_GPUS": str(rank), "CUDA_VISIBLE_DEVICES": "0"}
        step.start(rank, "-o", "d/")
        wait_for(step.locks, "the first rank leads")
    folder = gpu.folder / "d" / "7.0"
    wait_for(lambda: measures(folder / "n1.hiw", 2) and rows(folder / "n1.hiw", "gpu_sample") > 2, "the node has its GPUs")
    printed = step.end()
    assert "not allocated" not in printed[0].replace("\N{NO-BREAK SPACE}", " ")
    for run in (folder / "n1.hiw", "d"):
        assert [device["allocated"] for device in shown(gpu, run)["gpu"]["devices"]] == [True, True]


def test_merging_merges_is_merging_all_where_two_nodes_see_one_gpu(gpu):
    """Containers of one machine: the driver shows both the same UUIDs."""
    step = Step(gpu, 2)
    folder = gpu.folder / "d" / "7.0"
    for rank in range(2):
        step.env = {"SLURM_STEP_GPUS": "0", "SLURM_NNODES": "2", "SLURM_NODEID": str(rank), "SLURMD_NODENAME": f"n{rank + 1}",
                    "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_LOCALID": "0"}
        step.start(rank, "-o", "d/")
    nodes = [folder / "n1.hiw", folder / "n2.hiw"]
    wait_for(lambda: all(measures(node, 1) and rows(node, "gpu_sample") > 8 for node in nodes), "both nodes have their GPUs")
    step.end()
    ranks = [folder / "n1-r0.hiw", folder / "n2-r1.hiw"]
    whole = shown(gpu, "d")
    assert whole["energy"]["gpu_j"] and [len(node["gpus"]) for node in whole["job"]["nodes"]] == [1, 1]
    for number, (first, second) in enumerate(((nodes, ranks), (nodes[:1] + ranks[1:], nodes[1:] + ranks[:1]), (nodes[1:] + ranks, nodes[:1]))):
        halves = [f"{number}-{half}.hiw" for half in range(3)]
        for inputs, output in ((first, halves[0]), (second, halves[1]), (halves[:2], halves[2])):
            assert gpu.run("merge", *inputs, "-o", output).returncode == 0
        again = shown(gpu, halves[2])
        assert (again["energy"], again["gpu"]) == (whole["energy"], whole["gpu"])
        assert [node["gpus"] for node in again["job"]["nodes"]] == [node["gpus"] for node in whole["job"]["nodes"]]
    assert [device["allocated"] for device in whole["gpu"]["devices"]] == [True, False]
    for path in (nodes[1], ranks[1]):  # of the GPUs of n2 it is not known
        set_facts(path, allocated_gpus=None, gpu_selection=None)
    assert [device["allocated"] for device in shown(gpu, "d")["gpu"]["devices"]] == [None, None]


def node_of(tool, run="d"):
    return shown(tool, run)["job"]["nodes"][0]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_the_cores_of_a_node_are_those_of_all_its_ranks(tool):
    """mpirun binds each rank to a core of its own."""
    step, mine = Step(tool, 2), sorted(os.sched_getaffinity(0))
    for rank in range(2):
        os.sched_setaffinity(0, {mine[rank]})
        try:
            step.start(rank, "-o", "d/", "--gpu", "none")
        finally:
            os.sched_setaffinity(0, mine)
        wait_for(step.locks, "the first rank leads")
    folder = tool.folder / "d" / "7.0"
    wait_for(lambda: measures(folder / "n1.hiw", 2), "the node's recorder has both ranks")
    step.end()
    assert [facts(folder / name)["cpus"] for name in ("n1.hiw", "n1-r0.hiw", "n1-r1.hiw")] == [2, 1, 1]
    assert node_of(tool)["cpus"] == 2 and "of 2 cores" in tool.run("show", "d").stdout


@pytest.mark.parametrize(("given", "ranks"), [(1, 2), (4096, 2), (1, 1)], ids=["fewer than the machine has", "more than it has", "one rank"])
def test_the_scheduler_says_how_many_cores(tool, given, ranks):
    """Ranks that share them, as of mpirun in a batch script, do not multiply them. A rank that is alone has those of its node."""
    step = Step(tool, ranks, SLURM_CPUS_ON_NODE=str(given))
    if ranks > 1:
        step.start_all("-o", "d/", "--gpu", "none")
    else:  # nobody leads
        step.start(0, "-o", "d/", "--gpu", "none")
        step.pid(0)
    folder = tool.folder / "d" / "7.0"
    wait_for(lambda: ranks == 1 or measures(folder / "n1.hiw", 2), "the node's recorder has both ranks")
    step.end()
    cpus = min(given, len(os.sched_getaffinity(0)))
    text = tool.run("show", "d").stdout.replace("\N{NO-BREAK SPACE}", " ")
    words = "of 1 core " if cpus == 1 else f"of {cpus} cores"
    assert node_of(tool)["cpus"] == cpus and words in text.replace("\n", " \n")
    assert "of 1 cores" not in text
    assert words in tool.run("show", folder / "n1-r0.hiw").stdout.replace("\N{NO-BREAK SPACE}", " ").replace("\n", " \n")
    assert f"|cpu={given}," in tool.run("export", "--to", "sacct", "d").stdout


def test_the_run_ends_where_the_last_process_does(gpu):
    """--wait, where the helper of the node's recorder may be a child as well."""
    step = Step(gpu, 2)
    step.start(0, "-o", "d/", "--wait", command=("sh", "-c", "sleep 1.5 & exit 3"))
    assert step.started[0].wait(DEADLINE) == 3
    f = facts(gpu.folder / "d" / "7.0" / "n1-r0.hiw")
    assert 1_400_000_000 < f["ended_ns"] < 10_000_000_000 and f["processes_left"] == 0


# ---- the leader ----------------------------------------------------------------------------------


def test_another_rank_takes_over_from_a_leader_that_is_killed(tool, step):
    pids = step.start_all("-o", "d/")
    folder = tool.folder / "d" / "7.0"
    wait_for(lambda: measures(folder / "n1.hiw", 3), "the node is measured")
    step.started[0].send_signal(signal.SIGKILL)
    step.started[0].wait(DEADLINE)
    wait_for(lambda: measures(folder / "n1-2.hiw", 3), "another rank has taken over")
    assert not any(map(ended, pids))
    printed = step.end()
    wait_for(lambda: all(map(ended, pids)), "the ranks end")
    assert [step.started[rank].returncode for rank in (1, 2)] == [0, 0]
    assert sorted(names(folder)) == ["n1-2.hiw", "n1-r0.hiw", "n1-r1.hiw", "n1-r2.hiw", "n1.hiw"]
    assert shown(tool, folder / "n1-2.hiw")["run"]["complete"] and not shown(tool, folder / "n1.hiw")["run"]["complete"]
    # it saw rank 0, so that its summary is that of the job's first node
    assert sum("node n1, 3 ranks" in text for text in printed.values()) == 1
    assert not step.folder().exists()


def test_another_rank_takes_over_from_a_leader_that_ends(tool, step):
    for rank in (2, 0, 1):
        step.start(rank, "-o", "d/")
        step.pid(rank)
    folder = tool.folder / "d" / "7.0"
    wait_for(lambda: measures(folder / "n1.hiw", 3), "the node is measured")
    (tool.folder / "stop.2").touch()
    first = step.finish(2)
    wait_for(lambda: measures(folder / "n1-2.hiw", 2), "another rank has taken over")
    step.stop.touch()
    others = [step.finish(rank) for rank in (0, 1)]
    assert "node n1, 3 ranks" in first
    assert not any("node n1" in text for text in others)  # one table is enough


@pytest.mark.parametrize("wrong", ["symlink", "open"])
def test_a_folder_that_cannot_be_trusted_costs_the_recording_of_the_node_alone(tool, step, wrong):
    above = step.folder().parent
    if wrong == "symlink":
        above.symlink_to(tool.folder)
    else:
        above.mkdir()
        above.chmod(0o755)
    step.ranks = 2
    for rank in range(2):
        step.start(rank, "-o", "d/")
    [step.pid(rank) for rank in range(2)]
    printed = step.end()
    assert [p.returncode for p in step.started.values()] == [0, 0]
    assert names(tool.folder / "d" / "7.0") == ["n1-r0.hiw", "n1-r1.hiw"]
    for text in printed.values():
        assert text.count("warning: node n1 is not recorded, but this rank is") == 1
    assert printed[0].count("\n") > 4 and printed[1].count("\n") == 2
    assert facts(tool.folder / "d" / "7.0" / "n1-r0.hiw")["interval_ns"] == 100_000_000  # nobody else measures the rest


# ---- which ranks record --------------------------------------------------------------------------


def test_ranks_leader(tool, step):
    step.start_all("-o", "d/", "--ranks", "leader", private=30 * MIB)
    folder = tool.folder / "d" / "7.0"
    wait_for(lambda: measures(folder / "n1.hiw", 3), "the node is measured")
    step.end()
    assert names(folder) == ["n1-r0.hiw", "n1.hiw", "n1.ranks"]
    lines = sorted((json.loads(l) for l in (folder / "n1.ranks").read_text().splitlines()), key=lambda l: l["rank"])
    assert [(l["rank"], l["local_rank"], l["exit_status"], l["ram_method"]) for l in lines] == [(1, 1, 0, "exact"), (2, 2, 0, "exact")]
    for line in lines:
        assert list(line) == ["rank", "local_rank", "restart", "started_wall_ns", "wall_ns", "ram_peak_bytes", "ram_method", "user_ns",
                              "system_ns", "exit_status", "node", "version"]
        assert 30 * MIB < line["ram_peak_bytes"] < 80 * MIB and line["user_ns"] > 0 and line["wall_ns"] > 0
        assert line["started_wall_ns"] > 1_700_000_000 * 10**9


def test_ranks_of_a_list_and_how_one_ends(tool, step):
    step.start(0, "-o", "d/", "--ranks", "1")
    step.pid(0)
    for rank, script in ((1, "exit 0"), (2, "kill -TERM $$")):
        step.start(rank, "-o", "d/", "--ranks", "1", command=("sh", "-c", script))
        step.finish(rank)
    step.end()
    folder = tool.folder / "d" / "7.0"
    assert names(folder) == ["n1-r1.hiw", "n1.hiw", "n1.ranks"]
    lines = {l["rank"]: l for l in map(json.loads, (folder / "n1.ranks").read_text().splitlines())}
    assert {rank: line["exit_status"] for rank, line in lines.items()} == {0: 0, 2: signal.SIGTERM}


@pytest.mark.parametrize("ranks, option, kept", [(64, (), True), (65, (), False), (65, ("--ranks", "all"), True)])
def test_of_many_ranks_the_leaders_record(tool, ranks, option, kept):
    step = Step(tool, ranks)
    for rank in (0, 1):
        step.start(rank, "-o", "d/", *option)
        step.pid(rank)
    step.end()
    assert names(tool.folder / "d" / "7.0") == ["n1-r0.hiw", "n1-r1.hiw" if kept else "n1.hiw", "n1.hiw" if kept else "n1.ranks"]


@pytest.mark.parametrize("value", ["", "some", "1,", ",1", "1,,2", "-1", "1-3", "0x1", "99999999999", "all,1"])
def test_a_list_of_ranks_that_means_nothing_is_an_error_before_the_job(tool, value):
    done = tool.run("run", f"--ranks={value}", "--", "touch", "started")
    assert done.returncode == 125 and not (tool.folder / "started").exists()
    assert "--ranks" in done.stderr


# ---- launchers inside launchers ------------------------------------------------------------------


def launcher(tool, name):
    path = tool.folder / name
    path.write_text("#!/bin/sh\nsleep 1.2\n")
    path.chmod(0o755)
    return path


def test_the_number_of_a_launcher_is_no_rank(tool):
    """srun -N2 hiwater run -- torchrun: one launcher on each node, whose recording is that of the node."""
    step = Step(tool, 2)
    env = dict(step.of(0), SLURM_NNODES="2", SLURM_STEP_TASKS_PER_NODE="1(x2)")
    for number in (0, 1):
        done = tool.run("run", "-o", "d/", "--", launcher(tool, "torchrun"), "--nproc-per-node=2", "train.py",
                        env=dict(env, SLURM_PROCID=str(number), SLURM_NODEID=str(number), SLURMD_NODENAME=f"n{number + 1}"))
        assert done.returncode == 0 and "rank 0 of 2" not in done.stderr and "rank=" not in done.stderr, done.stderr
        assert ("node n1" in done.stderr and f"the whole job: hiwater show {tool.folder}/d/7.0/" in done.stderr) == (number == 0)
    assert names(tool.folder / "d" / "7.0") == ["n1.hiw", "n2.hiw"]
    for number in (0, 1):
        f = facts(tool.folder / "d" / "7.0" / f"n{number + 1}.hiw")
        assert f["part"] == "node" and f["node_rank"] == number
        assert not {"rank", "ranks", "local_rank", "local_ranks"} & set(f)


def test_launchers_that_share_a_node_are_ranks_without_a_number(tool):
    step = Step(tool, 2)
    step.start(0, "-o", "d/", command=(launcher(tool, "mpirun"),))
    _ = step.finish(0)
    f = facts(tool.folder / "d" / "7.0" / "n1-r0.hiw")
    assert f["part"] == "rank" and not {"rank", "ranks"} & set(f)
    assert facts(tool.folder / "d" / "7.0" / "n1.hiw")["local_ranks"] == 1


def test_ranks_of_a_launcher_inside_a_step(tool):
    """srun -N1 torchrun hiwater run -- train: torchrun's numbers count."""
    env = dict(Step(tool, 1).of(0), RANK="3", WORLD_SIZE="4", LOCAL_RANK="1", LOCAL_WORLD_SIZE="2", TORCHELASTIC_RUN_ID="none")
    assert tool.run("run", "-o", "d/", "--", "sleep", "1.2", env=env).returncode == 0
    f = facts(tool.folder / "d" / "7.0" / "n1-r3.hiw")
    assert (f["rank"], f["ranks"], f["local_rank"], f["local_ranks"]) == (3, 4, 1, 2)


def test_a_job_without_a_launcher_is_as_before(tool):
    assert tool.run("run", "-o", "x.hiw", "--", "sleep", "0.1").returncode == 0
    assert not facts(tool.folder / "x.hiw").get("part")
    assert not list(pathlib.Path(tool.env["XDG_RUNTIME_DIR"]).iterdir())

# SPDX-License-Identifier: MIT
"""Jobs of several ranks for tests: recorders of N nodes x M ranks at once on this machine, each with the environment that Slurm
would give it, around processes of known memory; and what may have happened to their recordings."""
import contextlib
import dataclasses
import os
import pathlib
import shutil
import sqlite3
import subprocess
import time
import uuid

from cli_helpers import DEADLINE, HERE, HIWATER, wait_for

MB = 1_000_000
SECOND = 10**9
OVERHEAD = 2 * MB  # of a rank beyond what it was asked to use: libc, stack
NODE_1, NODE_2 = "n1", "n2"


def compile_rank_job(folder):
    program = folder / "rank_job"
    subprocess.run(["cc", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-o", program, HERE / "rank_job.c"], check=True)
    return program


@dataclasses.dataclass
class Rank:
    node: str
    private: int = 50  # MB
    shared: int = 0


def slurm(ranks, number, job, step=0, restart=None, array_task=None, nodes=None):
    """What srun would put into the environment of a rank."""
    names = list(dict.fromkeys(rank.node for rank in ranks))
    node = ranks[number].node
    env = {"SLURM_JOB_ID": job, "SLURM_STEP_ID": step, "SLURM_PROCID": number, "SLURM_NTASKS": len(ranks), "SLURM_NNODES": nodes or len(names),
           "SLURMD_NODENAME": node, "SLURM_NODEID": names.index(node), "SLURM_LOCALID": [k for k, r in enumerate(ranks) if r.node == node].index(number)}
    if restart is not None:
        env["SLURM_RESTART_COUNT"] = restart
    if array_task is not None:
        env.update(SLURM_ARRAY_JOB_ID=job, SLURM_ARRAY_TASK_ID=array_task)
    return {key: str(value) for key, value in env.items()}


class Step:
    """A step that runs: start() returns when every rank uses all its memory and a sample has seen it; finish() ends it."""

    def __init__(self, tool, program, ranks, job=4711, output="d/", options=(), **about):
        self.tool, self.ranks, self.job = tool, ranks, job
        self.folder = tool.folder / f"step-{uuid.uuid4().hex[:8]}"
        self.folder.mkdir()
        self.stop = self.folder / "stop"
        shared = self.folder / "shared"
        most = max(rank.shared for rank in ranks)
        if most:
            shared = pathlib.Path("/dev/shm") / f"hiwater-test-{uuid.uuid4().hex}"
            with open(shared, "wb") as file:
                for _ in range(most):
                    file.write(os.urandom(MB))
        self.shared = shared if most else None
        self.processes = []
        for number, rank in enumerate(ranks):
            env = {**tool.env, **slurm(ranks, number, job, **about), "XDG_RUNTIME_DIR": str(self.runtime(tool, rank.node))}
            self.processes.append(tool.start(
                "run", "--summary", "none", "--gpu", "none", *(("-o", output) if output else ()), *options, "--", program, rank.private, rank.shared,
                shared, self.folder / f"ready-{number}", self.stop, env=env, stdout=subprocess.DEVNULL))

    @staticmethod
    def runtime(tool, node):
        """A node has a runtime folder of its own."""
        path = tool.folder / "runtime" / node
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        return path

    def wait_ready(self):
        wait_for(lambda: len(list(self.folder.glob("ready-*"))) == len(self.ranks), "every rank uses its memory", 2 * DEADLINE)
        return time.time_ns()

    def wait_recorded(self, folder, since_ns, n):
        """Waits until n recordings below folder have a sample of that time or later."""
        wait_for(lambda: sum(recorded_until(path) >= since_ns for path in folder.rglob("*.hiw")) >= n, f"{n} recordings reach this time",
                 2 * DEADLINE)

    def finish(self, expect=0):
        self.stop.touch()
        texts = []
        for process in self.processes:
            texts.append(process.communicate(timeout=2 * DEADLINE)[1].decode(errors="replace"))
            assert process.returncode == expect, texts[-1]
        self.clean()
        return texts

    def clean(self):
        """Also after a failure: no rank stays behind."""
        self.stop.touch()
        if self.shared:
            self.shared.unlink(missing_ok=True)


def recorded_until(path):
    """Wall time of the last commit, ns; 0 while there is none."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as db:
            meta = dict(db.execute("SELECT key, value FROM meta WHERE key IN ('started_wall_ns', 'last_ns')"))
        return meta.get("started_wall_ns", 0) + meta.get("last_ns", 0)
    except sqlite3.Error:
        return 0


def record_step(tool, program, ranks, output="d/", hold_s=1.2, **about):
    """Runs a step to its end, in which all ranks use their memory for hold_s at least. The folder of its recordings, DIR/JOB.STEP."""
    step = Step(tool, program, ranks, output=output, **about)
    try:
        ready = step.wait_ready()
        step.wait_recorded(tool.folder / output, ready + round(hold_s * SECOND), len(ranks))
        step.finish()
    finally:
        step.clean()
    return newest_folder(tool.folder / output)


def newest_folder(parent):
    return max((p for p in parent.iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime_ns)


# ---- what may happen to recordings -----------------------------------------------------------------------------------

def copied(folder, to):
    return pathlib.Path(shutil.copytree(folder, to))


def edit(path, *statements):
    """SQL on a recording that has ended."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(*([statement] if isinstance(statement, str) else statement))


def facts(path):
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return dict(db.execute("SELECT key, value FROM meta"))


def set_facts(path, **values):
    """None removes a fact."""
    for key, value in values.items():
        edit(path, ("DELETE FROM meta WHERE key = ?", (key,)))
        if value is not None:
            edit(path, ("INSERT INTO meta VALUES(?, ?)", (key, value)))


def parts_of(folder, node=None):
    return sorted(p for p in folder.glob("*.hiw") if node is None or p.name.startswith(f"{node}-") or p.name == f"{node}.hiw")


def clock_ahead(folder, node, seconds):
    """The wall clock of a node was ahead from the start on."""
    for path in parts_of(folder, node):
        edit(path, ("UPDATE meta SET value = value + ? WHERE key = 'started_wall_ns'", (round(seconds * SECOND),)))


def cut_off(path, before_ns):
    """The recorder was killed so long before the end: what it would have written then is not there."""
    known = facts(path)
    end = known["ended_ns"] - before_ns
    set_facts(path, ended_ns=None, main_ended_ns=None, exit_status=None, last_ns=end)
    for table in ("job_sample", "host_sample", "process_sample", "job_recent", "host_recent", "process_recent"):
        edit(path, (f"DELETE FROM {table} WHERE t > ?", (end,)))
    edit(path, ("DELETE FROM event WHERE t > ?", (end,)), ("DELETE FROM timeline WHERE t > ?", (end,)), ("UPDATE process SET ended = NULL WHERE ended > ?", (end,)),
         ("UPDATE summary SET last_at = min(last_at, ?1), max_at = min(max_at, ?1)", (end,)))


def truncate(path, share=0.5):
    os.truncate(path, int(path.stat().st_size * share))


def random_bytes(path):
    path.write_bytes(os.urandom(path.stat().st_size))


def replace_by_folder(path):
    path.unlink()
    path.mkdir()


def replace_by_fifo(path):
    path.unlink()
    os.mkfifo(path)


def replace_by_link(path, target="/etc/shadow"):
    path.unlink()
    path.symlink_to(target)


def add_trigger(path):
    edit(path, "CREATE TRIGGER t AFTER INSERT ON meta BEGIN DELETE FROM meta; END")


DAMAGE = {"truncated": truncate, "random bytes": random_bytes, "a folder": replace_by_folder, "a FIFO": replace_by_fifo,
          "a symbolic link": replace_by_link, "a trigger": add_trigger}


def hiwater(*arguments, env, cwd, timeout=DEADLINE):
    """As Tool.run, with a timeout that a FIFO would exceed."""
    return subprocess.run([HIWATER, *map(str, arguments)], env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=timeout, check=False)

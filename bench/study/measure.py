# SPDX-License-Identifier: MIT
"""One run of a workload under one tool: what the job took, what the tool took, what it reported."""
import contextlib
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time

LONGEST_S = 900         # a run that takes longer is ended, and is an error
MEMORY_LEAST = 0.2      # of the machine; a run that leaves less is ended, and is an error
LOOK_S = 0.5            # between two reads of the tool's memory
NEXT_TO_SETTLE_S = 1.5  # a tool next to the job has started and sampled once


class Failed(Exception):
    """The tool could not measure: a row with this text."""


class Run:
    """What the commands of tools.py need to know of one run."""

    def __init__(self, workload, stint, folder):
        self.workload, self.folder = workload, pathlib.Path(folder)
        self.output = self.folder / "output"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.output.mkdir(parents=True)
        self.usage, self.times = self.folder / "usage", self.folder / "times"
        self.clock = [str(stint), str(self.usage)]
        self.job = [*self.clock, *map(str, workload.command)]
        self.program = [str(part) for part in workload.program]
        self.pids = set()  # of the job, as far as they were seen
        self.instructions = -1.0  # of the job; -1: the machine does not count them


def children(pid):
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                found += map(int, file.read().split())
    return found


def subtree(pid):
    found = [pid]
    for one in found:
        found += children(one)
    return found


def command_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def pss(pid):
    with contextlib.suppress(OSError, IndexError, ValueError):
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


class Watch:
    """Memory of the tool's own processes: all that belong to the command except the clock and what is
    below it."""

    def __init__(self, run):
        self.run, self.peak = run, 0

    def look(self, pids):
        clocks = [pid for pid in pids if command_of(pid)[:1] == [os.fsencode(self.run.clock[0])]]
        below = {pid for clock in clocks for pid in subtree(clock)}
        self.run.pids |= below
        own = [pid for pid in pids if pid not in below]
        self.peak = max(self.peak, sum(map(pss, own)))


def used_s():
    u = resource.getrusage(resource.RUSAGE_CHILDREN)
    return u.ru_utime + u.ru_stime


def start(command, run, env):
    log = open(run.folder / "log", "ab")
    try:
        return subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                                cwd=run.output, start_new_session=True)
    except OSError as e:
        raise Failed(f"{command[0]}: {e.strerror}") from e
    finally:
        log.close()


def end(process):
    """Ends a process group that this program started."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # what is left of the group


@contextlib.contextmanager
def ended_with_us(process):
    """What ends the measurement, such as an interrupt of the study, which is in another process group, ends the process, too."""
    try:
        yield
    except BaseException:
        end(process)
        raise


def reap():
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def memory_left():
    """The share of the machine's memory that is available."""
    lines = dict(line.split(":", 1) for line in pathlib.Path("/proc/meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) / int(lines["MemTotal"].split()[0])


def wait(process, watch, roots):
    began = time.monotonic()
    while process.poll() is None:
        watch.look([pid for root in roots() for pid in subtree(root)])
        if memory_left() < MEMORY_LEAST:
            raise Failed(f"ended: less than {MEMORY_LEAST:.0%} of the machine's memory was left")
        if time.monotonic() - began > LONGEST_S:
            raise Failed(f"ended: it took longer than {LONGEST_S} s")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_S)


def last_line(path):
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()] if path.exists() else []
    return lines[-1][:200] if lines else "no output"


def written(folder):
    """Bytes in files below the folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(tool, workload, stint, folder, env, around=lambda command: command):
    """A row of the raw data, without workload, tool, version and round; and the Run. around puts
    another command in front of the tool and its job."""
    run = Run(workload, stint, folder)
    env = {**env, "STUDY_TIMES": str(run.times), "STUDY_OUTPUT": str(run.output), "HIWATER_DIR": str(run.output / "history")}
    if tool.where == "inside":
        env["STUDY_INSIDE"] = tool.name
    watch, neighbour, neighbour_s = Watch(run), None, 0.0
    try:
        if tool.where == "next to":
            neighbour = start(tool.command(run), run, env)
            time.sleep(NEXT_TO_SETTLE_S)
            if neighbour.poll() is not None:
                raise Failed(f"it ended at once: {last_line(run.folder / 'log')}")
        before = used_s()
        process = start(around(tool.command(run) if tool.where == "around" else run.job), run, env)
        with ended_with_us(process):
            wait(process, watch, lambda: [process.pid] + ([neighbour.pid] if neighbour else []))
        reaped = time.monotonic()
        if not neighbour:
            reap()
        whole_s = used_s() - before
    finally:
        if neighbour:
            before = used_s()
            end(neighbour)
            neighbour_s = used_s() - before
        reap()
    return {**outcome(run, process.returncode, reaped, whole_s, neighbour_s, tool), "tool_peak_bytes": watch.peak or "",
            "bytes_written": written(run.output) if tool.name != "none" else 0, **post(tool, run, reaped, env)}, run


def outcome(run, status, ended, whole_s, neighbour_s, tool):
    if not run.usage.exists():
        raise Failed(f"exit status {status}, and the job was not started: {last_line(run.folder / 'log')}")
    _, job_status, wall_s, job_s, clock_s, _, run.instructions = map(float, run.usage.read_text().split())
    if job_status:
        raise Failed(f"the job ended with status {job_status:.0f}: {last_line(run.folder / 'log')}")
    epochs = [float(line) for line in run.times.read_text().split()[:-1]] if run.times.exists() else []
    if run.workload.has_epochs and not epochs:
        raise Failed("the training wrote no epochs")
    around_s = neighbour_s if tool.where == "next to" else max(0.0, whole_s - job_s - clock_s)
    return {"epoch_first_s": f"{epochs[0] if epochs else wall_s:.4f}",
            "epoch_rest_s": f"{sum(epochs[1:]) / len(epochs[1:]):.4f}" if len(epochs) > 1 else "",
            "job_cpu_s": f"{job_s:.4f}",
            "tool_cpu_s": "" if tool.where == "inside" or tool.python else f"{around_s:.4f}" if tool.name != "none" else "0"}


def post(tool, run, ended, env):
    """The time from the end of the job until an answer can be read."""
    times = run.times.read_text().split() if run.times.exists() else []
    job_end = float(times[-1]) if tool.where == "inside" and times else float(run.usage.read_text().split()[5])
    took = max(0.0, ended - job_end)
    if tool.post:
        began = time.monotonic()
        done = subprocess.run([str(part) for part in tool.post(run)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=env, cwd=run.output, check=False)
        took += time.monotonic() - began
        if done.returncode:
            raise Failed(f"its report: exit status {done.returncode}: {(done.stderr or done.stdout).strip()[-200:]}")
    return {"post_s": f"{took:.4f}" if tool.name != "none" else "0"}

# SPDX-License-Identifier: MIT
"""The jobs of the scoreboard, and how one is run under hiwater together with a measurement of its
truth.

Truth is: distinct resident pages (anonymous, shared memory, mapped files) that at least one process
of the job maps, at one instant. For jobs of workload.c it is known by construction. For real ones
judge.c measures it, without any code of hiwater."""
import contextlib
import dataclasses
import fnmatch
import functools
import json
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
REAL = HERE / "real"
MB, MIB = 1_000_000, 1 << 20
PATIENCE_S = 300  # limit for one job, however busy the machine
SAMPLES = 12  # of a job that waits until it was sampled
# Memory of a process of the workload in addition to what it fills: program and libraries, which are
# shared, and its own.
PROGRAM, OWN = 1.5 * MB, 0.03 * MB
PROGRAM_MOST, OWN_MOST = 3 * MB, 0.3 * MB
BLOCK = MIB / MB  # MB, of the buffer with which a process writes its file
# The judge walks about once a millisecond, and a peak may be shorter than that.
JUDGED_MOST, JUDGED_MORE = 1.1, 2 * MB


@dataclasses.dataclass
class Job:
    name: str
    command: list  # {workload}, {setuid}, {python}, {real}, {heap}, {java} and {folder} are replaced
    bytes: int = 0  # by construction; 0: measured by the judge
    processes: int = 1  # that use memory at the peak
    options: list = dataclasses.field(default_factory=list)
    full: bool = None  # True: only in the full scoreboard; False: only in the quick one
    rights: str = None  # only with these rights ("root" or "user")
    kind: str = ""  # selects the targets that apply
    needs: str = ""  # a requirement that may be missing
    concurrent: list = None  # a concurrent command that does not belong to the job
    attach: bool = False  # hiwater attaches once the memory is in use
    until_sampled: bool = False  # the job ends when its stdin is closed
    record: bool = False  # with a recording, as users do: for the cost of measuring

    @property
    def truth(self):
        return self.bytes + PROGRAM + self.processes * OWN

    @property
    def most(self):
        return self.bytes + PROGRAM_MOST + self.processes * OWN_MOST


def job(name, mb, *words, processes=1, **other):
    """A job of workload.c: name and use in MB."""
    return Job(name, ["{workload}", *map(str, words or [name])], int(mb * MB), processes, **other)


def share(way, mib, n, *options, attach=False, full=None):
    name = " ".join(["shared", way, f"{mib}x{n}", *options] + ["attached"] * attach)
    return Job(name, ["{workload}", "share", way, str(mib), str(n)], mib * MIB, n + 1, list(options), full, kind="shared", attach=attach)


COARSE, FINE = ["-i", "1s"], ["-i", "10ms"]
WAYS = ("anon", "memfd", "shm", "sysv", "file")


def all_jobs():
    yield job("burst", 500)
    yield job("forks 1", 300, "forks", 1, processes=9)
    yield job("forks 30", 300, "forks", 30, processes=9)
    yield job("forks 8, 30 s", 300, "forks", 8, processes=9, options=["-i", "30s"], full=True)
    yield job("forks-huge", 400, processes=3)
    yield job("forks-rewrite 1", 300, "forks-rewrite", 1, processes=2)
    yield job("forks-rewrite 8", 300, "forks-rewrite", 8, processes=9)
    yield job("forks-churn 8", 200, "forks-churn", 8, processes=9)
    yield job("forks-write-shared", 200, processes=9)
    for name, processes in (("forks", 9), ("forks-huge", 3), ("forks-rewrite", 2)):
        mb = 400 if name == "forks-huge" else 300
        yield job(f"{name} with huge pages of others", mb, name, 1, processes=processes, concurrent=["{workload}", "neighbour"], full=True)
        yield Job(f"{name}, set-user-ID", ["{setuid}", name, "1"], mb * MB, processes, full=True, rights="user", needs="setuid")
    yield job("forks-wait next to forks", 150, "forks-wait", 8, processes=9, until_sampled=True,
              concurrent=["sh", "-c", "while :; do /bin/true; done"])
    for name in ("copy-and-end", "copy-and-all-end", "copy-and-give-back", "copy-and-exec", "copy-by-main"):
        yield job(name, 300, processes=2)
        for options in (["-i", "50ms"] if name in ("copy-and-exec", "copy-by-main") else COARSE, FINE):
            yield job(f"{name}, {options[1]}", 300, name, processes=2, options=options, full=True)
    yield job("daemon", 200)
    yield job("shared-mapping", 200, processes=4)
    yield job("files-apart", 240 + 3 * BLOCK, processes=4)
    yield job("file-alone", 200 + BLOCK)
    yield job("hold below sh", 300, processes=2)
    yield job("hold unseen", 400, processes=2, options=["-i", "10s"])
    for n, mb, options in ((4, 15, []), (20, 2, []), (4, 100, COARSE)):
        yield job(f"all-at-once {n}x{mb}", n * mb, "all-at-once", n, mb, processes=n + 1, options=options)
        yield job(f"all-at-once {n}x{mb}, waits", n * mb, "all-at-once", n, mb, "wait", processes=n + 1, options=options, full=True)
    for options in ([], COARSE):
        coarse = {"options": options, "full": True if options else None}
        more = ", 1s" if options else ""
        yield job(f"huge-at-once{more}", 400, "huge-at-once", processes=5, **coarse)
        for how in ("end", "exec", "give-back", "file", "huge"):
            yield job(f"gives-way {how}{more}", 300 + (BLOCK if how == "file" else 0), "gives-way", how, processes=2, **coarse)
        for how in ("end", "exec"):
            yield job(f"unread-mark {how}{more}", 320, "unread-mark", how, processes=2, **coarse)
        yield job(f"file-by-exec{more}", 250 + BLOCK, "file-by-exec", processes=2, **coarse)
    yield job("forks-in-turn 30", 100, "forks-in-turn", 30, processes=2, options=["-i", "10s"])
    yield Job("numpy forks", ["{python}", "{real}/numpy_forks.py"], needs="numpy")
    # Memory that several processes share counts once, however they share it.
    for way in WAYS:
        yield share(way, 512, 8)
        yield share(way, 512, 8, attach=True)
        yield share(way, 512, 8, "--pss", full=True)
    yield share("anon", 1200, 2)
    yield share("anon", 1800, 4, "--pss")
    yield share("anon", 1800, 4, "--pss", attach=True, full=True)
    for n in (0, 4):
        name = f"twice memfd 400x{n + 1}"
        command = ["{workload}", "twice", "memfd", "400", str(n)]
        yield Job(name, command, 400 * MIB, n + 1, kind="shared")
        yield Job(f"{name} attached", command, 400 * MIB, n + 1, kind="shared", attach=True, full=True)
    # Jobs at rest, and the cost of measuring them.
    yield job("tree at rest 1+4+4", 556, "tree-at-rest", 2500, processes=9, kind="rest")
    yield job("grow", 1100, "grow", 1100, 110, 27, 300, full=False, kind="cpu", record=True)
    yield job("grow", 1100, "grow", 1100, 110, 100, 9000, full=True, kind="cpu", record=True)
    yield job("idle 10", 90, "idle", 9, 3000, processes=10, full=False, kind="cpu", record=True)
    yield job("idle 10", 90, "idle", 9, 20000, processes=10, full=True, kind="cpu", record=True)
    yield job("idle 1", 10, "hold", 10, 20000, full=True, kind="cpu", record=True)
    yield job("short-forks 2000", 20, "short-forks", 2000, full=False)
    yield job("short-forks 40000", 20, "short-forks", 40000, full=True)
    # Real jobs.
    yield Job("numpy Pool(4)", ["{python}", "{real}/numpy_pool.py"], needs="numpy")
    yield Job("joblib", ["{python}", "{real}/joblib_parallel.py"], needs="joblib")
    yield Job("torch DataLoader", ["{python}", "{real}/torch_loader.py"], needs="torch")
    yield Job("make -j2", ["make", "-s", "-j2", "-C", "{folder}/project"], kind="make", needs="make")
    yield Job("Java ZGC", ["{java}", "-XX:+UseZGC", "-Xmx384m", "-cp", "{heap}", "Heap"], needs="java")


def fixed(each):
    """Jobs whose command needs more than its name."""
    if each.name == "hold below sh":
        return dataclasses.replace(each, command=["/bin/sh", "-c", "{workload} hold 300 600; true"])
    if each.name == "hold unseen":
        return dataclasses.replace(each, command=["/bin/sh", "-c", "{workload} hold 400 5; true"])
    return each


def jobs(full, pattern="*"):
    chosen = [fixed(each) for each in all_jobs() if each.full is None or each.full == full]
    return [each for each in chosen if fnmatch.fnmatchcase(each.name, pattern)]


def unprivileged(command):
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", *command]


def memory_total():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def generate_project(folder, files=60):
    """A small C project whose files differ in size."""
    folder.mkdir()
    names = [f"part{i:02}" for i in range(files)]
    for i, name in enumerate(names):
        text = ["#include <errno.h>", "#include <math.h>", "#include <stdio.h>", "#include <stdlib.h>", "#include <string.h>"]
        for k in range(2 + i * 37 % 6):
            text += [f"double {name}_{k}(double *p, int n) {{", "\tdouble sum = 0;", "\tchar line[64];",
                     f"\tfor (int i = 0; i < n; i++)\n\t\tsum += p[i] * {k + 1} + (p[i] > {i} ? p[n - i - 1] : strlen(line));",
                     f'\tsnprintf(line, sizeof(line), "%f", sum);\n\treturn sum + atof(line);\n}}']
        (folder / f"{name}.c").write_text("\n".join(text) + "\n")
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    objects = " ".join(f"{name}.o" for name in [*names, "main"])
    (folder / "Makefile").write_text(f"program: {objects}\n\tgcc -o $@ $^ -lm\n%.o: %.c\n\tgcc -O1 -c -o $@ $<\n")


class Bench:
    """The programs that the jobs need, built once, in a folder that every user can reach."""

    def __init__(self, folder, hiwater, journals=None):
        """journals: a folder for the journals of hiwater-journal; see the property journal."""
        self.folder, self.hiwater = pathlib.Path(folder), pathlib.Path(hiwater).resolve()
        self.folder.chmod(0o755)
        for name in ("workload", "judge"):
            subprocess.run(["cc", "-O2" if name == "judge" else "-O1", "-o", self.folder / name, HERE / f"{name}.c"], check=True)
        self.number, self.journals = 0, journals

    @property
    def journal(self):
        """The file to which the present or last run writes its calls to the estimator; None if none
        is written."""
        return self.journals / f"{self.number:03}.journal" if self.journals else None

    @functools.cached_property
    def java(self):
        """java, or None; Heap.class is then in the folder."""
        compiler = shutil.which("javac")
        java = pathlib.Path(compiler).resolve().parent / "java" if compiler else None
        if not java or not java.exists():
            return None
        subprocess.run([compiler, "-d", self.folder, REAL / "Heap.java"], check=True)
        return java

    @functools.cached_property
    def setuid(self):
        if os.geteuid() != 0 or os.statvfs(self.folder).f_flag & os.ST_NOSUID:
            return None
        program = self.folder / "setuid"
        shutil.copy(self.folder / "workload", program)
        program.chmod(0o4755)
        return program

    @functools.lru_cache(maxsize=None)
    def imports(self, rights, module):
        """The reason why a Python job cannot run with these rights, or None."""
        def works(code):
            # A shell has lost the rights of root when it searches for the program; setpriv may
            # still have some.
            line = ["sh", "-c", '"$0" -c "$1"; exit $?', sys.executable, code]
            line = unprivileged(line) if rights == "user" and os.geteuid() == 0 else line
            return subprocess.run(line, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0

        if not works("pass"):
            return "this Python is not for another user to run"
        return None if works(f"import {module}") else f"{module} is not installed"

    def lacks(self, each, rights):
        """The reason why this job cannot run on this machine, or None."""
        if each.rights and each.rights != rights:
            return f"a job for rights of a {each.rights}"
        if rights == "user" and os.geteuid() == 0 and not shutil.which("setpriv"):
            return "setpriv is not installed: cannot become another user"
        if each.needs in ("numpy", "joblib", "torch"):
            return self.imports(rights, each.needs)
        found = {"": True, "make": shutil.which("make") and shutil.which("gcc"), "java": self.java if each.needs == "java" else True,
                 "setuid": self.setuid if each.needs == "setuid" else True}[each.needs]
        return None if found else {"make": "make or gcc is not installed", "java": "no JDK is installed",
                                   "setuid": "no program can be given root's rights here"}[each.needs]

    def measure(self, each, rights="root", options=(), hiwater=None, keep=None, judged=False):
        """The JSON summary of a run, with "truth": the value, and its least and largest."""
        return Measured(self, each, rights, options, hiwater or self.hiwater, keep, judged or not each.bytes).run()


def wakeups(pid):
    """Number of voluntary context switches of the busiest thread of a process; None if it has
    ended."""
    most = None
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(OSError):
            found = re.search(r"^voluntary_ctxt_switches:\s*(\d+)", task.read_text(), re.M)
            most = max(most or 0, int(found[1]) if found else 0)
    return most


def await_samples(process, n=SAMPLES):
    """Returns when hiwater has woken up n times since it began to sample, or has ended."""
    give_up, first = time.monotonic() + PATIENCE_S, None
    while process.poll() is None and time.monotonic() < give_up:
        now = wakeups(process.pid)
        if first is None and now and runs(process.pid, "hiwater"):
            first = now
        if first is not None and now is not None and now >= first + n:
            return
        time.sleep(0.02)


def runs(pid, name):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip().startswith(name)
    except OSError:
        return False


@contextlib.contextmanager
def running(command, **options):
    """A process that is killed at the end in every case."""
    process = subprocess.Popen([str(word) for word in command], **options)
    try:
        yield process
    finally:
        for stream in (process.stdin, process.stdout):
            if stream:
                stream.close()
        if process.poll() is None:
            process.kill()
        process.wait()


@contextlib.contextmanager
def load(n):
    """n processes that use all the CPU they get."""
    with contextlib.ExitStack() as stack:
        for _ in range(n):
            stack.enter_context(running([sys.executable, "-c", "while True: pass"]))
        yield


@dataclasses.dataclass
class Measured:
    bench: Bench
    each: Job
    rights: str
    options: tuple
    hiwater: pathlib.Path
    keep: pathlib.Path
    judged: bool

    def as_user(self, command):
        return unprivileged(command) if self.rights == "user" and os.geteuid() == 0 else command

    def run(self):
        self.bench.number += 1
        self.folder = self.bench.folder / f"run{self.bench.number}"
        self.folder.mkdir()
        self.folder.chmod(0o777)
        try:
            if self.each.needs == "make":
                generate_project(self.folder / "project")
                (self.folder / "project").chmod(0o777)
            with contextlib.ExitStack() as stack:
                if self.each.concurrent:
                    stack.enter_context(running(self.words(self.each.concurrent), stdout=subprocess.DEVNULL))
                status, verdict = self.attached() if self.each.attach else self.started()
            return self.summary(status, verdict)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def words(self, command):
        places = {"workload": self.bench.folder / "workload", "setuid": self.bench.folder / "setuid", "python": sys.executable, "real": REAL,
                  "heap": self.bench.folder, "folder": self.folder, "java": self.bench.java if "{java}" in command else ""}
        return [word.format(**places) if "{" in word else word for word in command]

    def environment(self):
        env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "TRUTH_UNTIL")}
        env.update(HIWATER_DIR=str(self.folder / "history"), TMPDIR=str(self.folder), HOME=str(self.folder))
        if self.bench.journal:
            env["HIWATER_MEMORY_JOURNAL"] = str(self.bench.journal)
        if "-i" not in self.each.options:
            env["TRUTH_STARTED_BY"] = str(os.getpid())
        return env

    def line(self, command, *more):
        recording = ["--no-record"]
        if self.keep:
            recording = ["-o", self.keep / f"{self.bench.number:03}.hiw"]
        elif self.each.record:
            recording = ["-o", self.folder / "run.hiw"]
        return self.as_user([self.hiwater, command, *recording, "--gpu", "none", "--summary", "none", "--json", self.folder / "used.json",
                             *self.each.options, *self.options, *more])

    def judge(self, pid, *below):
        first = ["nice", "-n", "-10"] if os.geteuid() == 0 else []  # on a busy machine it would walk too rarely
        return running([*first, self.bench.folder / "judge", pid, *below], stdout=subprocess.PIPE, text=True)

    def verdict(self, judge):
        judge.terminate()
        return judge.communicate(timeout=PATIENCE_S)[0].split()

    def started(self):
        line = self.line("run", "--", *self.words(self.each.command))
        stdin = subprocess.PIPE if self.each.until_sampled else subprocess.DEVNULL
        with contextlib.ExitStack() as stack:
            process = stack.enter_context(running(line, env=self.environment(), stdin=stdin, stdout=subprocess.DEVNULL))
            judge = None
            if self.judged:
                while process.poll() is None and not runs(process.pid, "hiwater"):
                    time.sleep(0.0005)
                judge = stack.enter_context(self.judge(process.pid, "below"))
            if self.each.until_sampled:
                await_samples(process, 2 * SAMPLES)
                process.stdin.close()
            status = process.wait(timeout=PATIENCE_S)
            return status, self.verdict(judge) if judge else None

    def attached(self):
        env = dict(self.environment(), TRUTH_UNTIL="stdin")
        command = self.as_user(self.words(self.each.command))
        with contextlib.ExitStack() as stack:
            target = stack.enter_context(running(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            if not select.select([target.stdout], [], [], PATIENCE_S)[0] or target.stdout.readline() != "held\n":
                raise RuntimeError(f"{self.each.name}: the job did not come to hold its memory")
            judge = stack.enter_context(self.judge(target.pid)) if self.judged else None
            process = stack.enter_context(running(self.line("attach", target.pid), env=env, stdin=subprocess.DEVNULL,
                                                  stdout=subprocess.DEVNULL))
            await_samples(process)
            verdict = self.verdict(judge) if judge else None
            target.stdin.close()
            target.wait(timeout=PATIENCE_S)
            return process.wait(timeout=PATIENCE_S), verdict

    def summary(self, status, verdict):
        file = self.folder / "used.json"
        if not file.exists():
            raise RuntimeError(f"{self.each.name}: hiwater wrote no summary and ended with {status}")
        summary = json.loads(file.read_text())
        summary["status"] = status
        if self.each.bytes:
            truth = {"bytes": int(self.each.truth), "least": self.each.bytes, "most": int(self.each.most), "by": "construction"}
        else:
            truth = {"bytes": int(verdict[1]), "least": int(verdict[1]), "by": verdict[0],
                     "most": int(max(map(int, verdict[1:3])) * JUDGED_MOST + JUDGED_MORE)}
        if verdict:
            truth["judged"] = dict(zip(("least", "once", "walks", "longest_us"), map(int, verdict[1:])))
        summary["truth"] = truth
        return summary

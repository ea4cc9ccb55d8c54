# SPDX-License-Identifier: MIT
"""The budgets of `run --where` (docs/where.md) as rows of bench/run: what it costs the job, what a run without it costs, the recorder's
CPU time and memory, the size of a recording, and the time until the table is there."""
import contextlib
import pathlib
import random
import shutil
import sqlite3
import statistics
import subprocess
import time

from cpu_share import shares_of
from figures import Row, added, differences, floors, result_of, spread

ROOT = pathlib.Path(__file__).resolve().parent.parent
STACKS = 10_000
TABLES = ("where_frame", "where_stack", "where_process", "where_high", "where_row", "where_file", "where_python")
# bash, since the times that it prints are those of getrusage, not of clock ticks
TIMED = 'TIMEFORMAT="%3U %3S"; out=$1; shift; { time "$@" >/dev/null 2>&1; } 2>"$out"'


def where(bench):
    job = compiled(bench, ROOT / "tests" / "cli" / "where_job.c", "-ldl", "-lpthread")
    faults = [str(job), "small", "first", "1536", "hold", "1"]
    yield from faulting(bench, faults)
    yield from real(bench)
    yield from without(bench)
    yield from idle(bench, [str(job), "small", "first", "400", "hold", "10000"])
    yield from stacks(bench, compiled(bench, ROOT / "bench" / "stacks.c"))


def compiled(bench, source, *more):
    job = bench.scratch / source.stem
    subprocess.run(["cc", "-O1", "-g", "-D_GNU_SOURCE", "-o", job, source, *more], check=True)
    return job


def recorded(bench, *options, job, name):
    out = bench.scratch / name
    out.unlink(missing_ok=True)
    return [str(bench.hiwater), "run", *options, "-o", str(out), "--summary", "none", "--", *map(str, job)], out


# ---- what it costs the job --------------------------------------------------------------------------------------------


def cpu_of(bench, job):
    """A function of the options of `run`: CPU seconds of the job alone, without hiwater's."""
    took = bench.scratch / "took"

    def cost(*options):
        command, _ = recorded(bench, *options, job=["bash", "-c", TIMED, "timed", took, *job], name="faults.hiw")
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        return sum(map(float, took.read_text().split()))

    return cost


NUMPY = """
import numpy
for _ in range(40):
    a = numpy.random.default_rng(1).random((1200, 1200))
    b = a @ a.T
    numpy.sort(b, axis=1)
"""


def real(bench, rounds=8):
    """Jobs whose faults are few next to their work: off, on, off."""
    sources = bench.scratch / "sources"
    sources.mkdir(exist_ok=True)
    body = "".join(f"int f{i}(int x) {{ return x * {i} + (x >> {i % 7}); }}\n" for i in range(1500))
    for i in range(6):
        (sources / f"s{i}.c").write_text(body)
    (sources / "Makefile").write_text("all: s0.o s1.o s2.o s3.o s4.o s5.o\n%.o: %.c\n\tcc -O2 -c -o $@ $<\n")
    python = ROOT / ".venv-full" / "bin" / "python"
    jobs = {"make -j2 of six C files": ["make", "-B", "-s", "-j2", "-C", sources]}
    if python.exists():
        jobs["numpy, products and sorts of 1,200 x 1,200"] = [python, "-c", NUMPY]
        jobs["torch, 40 steps of a training on the CPU"] = [python, ROOT / "bench" / "torch_training.py", "40", bench.scratch / "started"]
    else:
        yield Row("numpy and torch", "not measured", "1%", f"no {python}: make test-full makes it", "-")
    for name, job in jobs.items():
        cost, runs = cpu_of(bench, job), []
        cost()
        for _ in range(rounds):
            runs.append([cost(), cost("--where"), cost()])
        figure, result = added(differences(runs), 0.01)
        yield Row(f"{name}, --where: CPU time added", figure, "1%",
                  f"two runs without: {added(floors(runs))[0]}; {spread([run for three in runs for run in three[::2]], 's')}", result)


def faulting(bench, job, rounds=15):
    """Off, on, off, and fine, off; between two runs without it a drift cancels out."""
    cost = cpu_of(bench, job)
    usual, fine = [], []
    cost()  # fills the page cache
    for _ in range(rounds):
        runs = [cost(), cost("--where"), cost(), cost("--where=fine"), cost()]
        usual.append(runs[:3])
        fine.append(runs[2:])
    figure, result = ratio(differences(usual), 0.10)
    beside = f"two runs without: {ratio(floors(usual), 0.10)[0]}; {spread([run for runs in usual for run in runs[::2]], 's')}"
    yield Row("a job that only faults (1.5 GiB), --where: CPU time", figure, "1.10x", beside, result)
    yield Row("the same, --where=fine", ratio(differences(fine), 0.20)[0], "1.20x, reported", "", "-")


def ratio(shares, budget):
    """The median with its 95% interval (bootstrap), since other load lengthens single runs; a miss only if all of it is over the budget."""
    chance = random.Random(0)
    medians = sorted(statistics.median(chance.choices(shares, k=len(shares))) for _ in range(2000))
    low, middle, high = medians[50], statistics.median(shares), medians[-50]
    return (f"{1 + middle:.3f}x, 95% interval of the median {1 + low:.3f}..{1 + high:.3f} (n={len(shares)})",
            "MISS" if low > budget else "ok" if middle <= budget else "not resolved")


# ---- a run that is not sampled -----------------------------------------------------------------------------------------


def without(bench):
    """Next to a copy of hiwater stands a program that notes its start: the sampler of a run without --where is never started."""
    folder, started = bench.scratch / "copy", bench.scratch / "copy" / "started"
    folder.mkdir(exist_ok=True)
    shutil.copy(bench.hiwater, folder / "hiwater")
    (folder / "hiwater-where").write_text(f'#!/bin/sh\n: >"{started}"\n')
    (folder / "hiwater-where").chmod(0o755)
    starts = {}
    for name, options in {"without": [], "with": ["--where"]}.items():
        started.unlink(missing_ok=True)
        subprocess.run([folder / "hiwater", "run", *options, "--summary", "none", "--", "true"],
                       check=False, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        starts[name] = started.exists()
    yield Row("a run without --where starts no sampler", "it does" if starts["without"] else "none", "none, so no events",
              f"with --where: {'started' if starts['with'] else 'NOT started'}", result_of(not starts["without"] and starts["with"]))
    true = shutil.which("true")
    kinds = {"off": [str(bench.hiwater), "run", "--", true], "on": [str(bench.hiwater), "run", "--where", "--", true]}
    took = {kind: [] for kind in kinds}
    for _ in range(100):
        for kind in random.sample(sorted(kinds), 2):
            took[kind].append(bench.wall(kinds[kind]))
    more = [on - off for on, off in zip(took["on"], took["off"])]
    yield Row("run --where -- true: time added", spread(more, "ms", 1e-3), "none", f"run -- true: {spread(took['off'], 'ms', 1e-3)}", "-")


# ---- the recorder ------------------------------------------------------------------------------------------------------


def sampler_of(pid, seconds=5):
    """The pid of the hiwater-where that a recorder started."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                for child in path.read_text().split():
                    if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == "hiwater-where":
                        return int(child)
        time.sleep(0.01)
    raise RuntimeError("hiwater-where was not started")


def idle(bench, job):
    shares, alone = [], []
    for _ in range(3):
        for options, into in (["--where"], shares), ([], alone):
            command, _ = recorded(bench, *options, job=job, name="idle.hiw")
            process = bench.start(command)
            try:
                pids = {"recorder": process.pid, **({"sampler": sampler_of(process.pid)} if options else {})}
                time.sleep(1.5)
                windows = shares_of(pids, 2, 3.5)
                into += [sum(each) for each in zip(*windows.values())]
            finally:
                process.wait()
    yield Row("a job that idles for 10 s with 400 MiB: CPU of the recorder and the sampler", spread(shares, "% of a core", 0.01), "1%",
              f"without --where {spread(alone, '% of a core', 0.01)}", result_of(statistics.median(shares) <= 0.01))


# ---- many stacks -------------------------------------------------------------------------------------------------------


def peak_of(pid):
    """Peak resident bytes of a process, read until it ends."""
    peak = 0
    while True:
        try:
            lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            return peak
        peaks = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")]
        if not peaks:
            return peak
        peak = max(peak, *peaks)
        time.sleep(0.02)


def at_most(values, budget):
    """Other load only adds to these: a miss only if no try was within the budget."""
    return "ok" if statistics.median(values) <= budget else "MISS" if min(values) > budget else "not resolved"


def bytes_of(recording, scratch):
    """How much smaller the recording is without the tables of this page."""
    sizes = []
    for drop in (), TABLES:
        path = scratch / "vacuumed"
        shutil.copy(recording, path)
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA journal_mode=OFF")
            for table in drop:
                db.execute(f"DROP TABLE {table}")
            db.commit()
            db.execute("VACUUM")
        sizes.append(path.stat().st_size)
        path.unlink()
    return sizes[0] - sizes[1]


def stacks(bench, job):
    peaks = []
    for _ in range(5):
        command, out = recorded(bench, "--where=fine", job=[job, STACKS + STACKS // 5], name="stacks.hiw")
        process = bench.start(command)
        peaks.append(peak_of(sampler_of(process.pid)))
        if process.wait():
            raise RuntimeError("the job with many stacks failed")
    with contextlib.closing(sqlite3.connect(f"file:{out}?mode=ro", uri=True)) as db:
        n, = db.execute("SELECT count(DISTINCT stack) FROM where_row").fetchone()
        highs, = db.execute("SELECT count(*) FROM where_high").fetchone()
        lost, = db.execute("SELECT max(lost) FROM where_high").fetchone()
    size = bytes_of(out, bench.scratch)
    yield Row(f"a recording with {n:,} stacks at {highs} highs: bytes a stack", f"{size / n:.0f}", "200", f"{size / 1e6:.2f} MB; {lost} records lost",
              result_of(size / n <= 200))
    yield Row("hiwater-where, resident at most", spread(peaks, "MiB", 2**20), "80 MiB", "750 MiB of faults in about a second, --where=fine",
              at_most(peaks, 80 << 20))
    times = []
    for _ in range(7):
        before = time.monotonic()
        subprocess.run([bench.hiwater, "where", out], stdout=subprocess.DEVNULL, check=True)
        times.append(time.monotonic() - before)
    yield Row(f"hiwater where of {n:,} stacks", spread(times, "s"), "0.5 s", "", at_most(times, 0.5) if n >= STACKS else "not resolved")

# SPDX-License-Identifier: MIT
"""The budgets of tracing (docs/design.md, section 9), as rows of bench/run. The NVTX pair and the OpenCL
kernels are there, too: `nvtx`, `opencl`."""
import contextlib
import pathlib
import random
import shutil
import sqlite3
import statistics
import struct
import subprocess
import sys
import time

from cpu_share import shares_of
from figures import Row, added, differences, floors, result_of, spread

ROOT = pathlib.Path(__file__).resolve().parent.parent
TORCH = ROOT / ".venv-memory-trackers" / "bin" / "python"
EVENTS = 200_000  # of the file that is imported
JSON_LOAD = "import json, sys\njson.load(open(sys.argv[1]))"


def parts(bench):
    return {f"traced_{name}": lambda part=part: part(bench) for name, part in
            {"start": start, "training": training, "bytes": sizes, "import": imports, "recorder": recorder, "table": table, "kill": kill}.items()}


def nvtx_job(bench):
    job = bench.scratch / "nvtx_job"
    if not job.exists():
        subprocess.run(["cc", "-O1", "-D_GNU_SOURCE", "-o", job, ROOT / "tests" / "cli" / "nvtx_job.c", "-ldl", "-lpthread"], check=True)
    return job


def opened(path):
    return contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True))


def usage(command):
    """CPU seconds and peak bytes of a command; the peak of a process begins with that of its parent, so another one starts it."""
    said = subprocess.run([sys.executable, "-c", "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
                           "u = resource.getrusage(resource.RUSAGE_CHILDREN); print(u.ru_utime + u.ru_stime, u.ru_maxrss)",
                           *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout.split()
    return float(said[0]), int(said[1]) * 1024


# ---- a job that has nothing to trace --------------------------------------------------------------------------------


def start(bench):
    """In turns, in random order: the median of the differences, since other load lengthens some of them."""
    true = shutil.which("true")
    kinds = {"untraced": [str(bench.hiwater), "run", "--", true], "traced": [str(bench.hiwater), "run", "--trace", "--", true]}
    took = {kind: [] for kind in kinds}
    for _ in range(500):
        for kind in random.sample(sorted(kinds), 2):
            took[kind].append(bench.wall(kinds[kind]))
    apart = [traced - untraced for traced, untraced in zip(took["traced"], took["untraced"])]
    chance = random.Random(0)
    medians = sorted(statistics.median(chance.choices(apart, k=len(apart))) for _ in range(2000))
    low, high = medians[50], medians[-50]
    yield Row("run --trace -- true: time added", f"{spread(apart, 'ms', 1e-3)}, 95% interval of the median {low * 1e3:.3f}..{high * 1e3:.3f} ms",
              "0.3 ms", f"run -- true: {spread(took['untraced'], 'ms', 1e-3)}",
              "MISS" if low > 0.0003 else "ok" if statistics.median(apart) < 0.0003 else "not resolved")


# ---- a training ----------------------------------------------------------------------------------------------------


def training(bench):
    if not TORCH.exists():
        yield Row("a training in PyTorch, traced: CPU seconds added", "no .venv-memory-trackers: make bench makes it", "1%", "", "-")
        return
    job, out = [str(TORCH), str(ROOT / "bench" / "torch_training.py"), "100", str(bench.scratch / "started")], bench.scratch / "torch.hiw"
    alone, traced = bench.command(job=job), [str(bench.hiwater), "run", "--trace", "-o", str(out), "--summary", "none", "--", *job]
    cost = lambda command: bench.cost(command) - float((bench.scratch / "started").read_text())
    rounds, profiled = [], []
    bench.cost(job)  # fills the page cache
    for _ in range(12):
        out.unlink(missing_ok=True)
        rounds.append([cost(command) for command in (alone, traced, alone)])
        profiled.append(cost([*job, "profiled"]) / statistics.mean((rounds[-1][0], rounds[-1][2])) - 1)
    with opened(out) as db:
        ranges, = db.execute("SELECT sum(count) FROM trace_stat WHERE kind = 'range'").fetchone()
    figure, result = added(differences(rounds), 0.01)
    yield Row("a training in PyTorch, oneDNN traced: CPU seconds added", f"{figure} (n={len(rounds)}, {ranges or 0:,} ranges a run)", "1%",
              f"two untraced runs: {added(floors(rounds))[0]}; torch.profiler: {added(profiled)[0]}; "
              f"{spread([seconds for before, _, after in rounds for seconds in (before, after)], 's')}", result if ranges else "MISS")


# ---- bytes, import ---------------------------------------------------------------------------------------------------


def kineto(path, events=EVENTS):
    """A trace as torch.profiler writes one: operators in Python's thread, launches and kernels."""
    with open(path, "w") as f:
        f.write('{"schemaVersion": 1, "baseTimeNanoseconds": 1760000000000000000, "traceEvents": [')
        for i in range(events // 4):
            ts, apart = i * 40, ",\n" if i else "\n"
            f.write(f'{apart}  {{\n    "ph": "X", "cat": "cpu_op", "name": "aten::op{i % 97}", "pid": 71, "tid": 71,\n    "ts": {ts}.125, "dur": 30.250,'
                    f'\n    "args": {{\n      "External id": {i}, "Record function id": 0, "Ev Idx": {i}\n    }}\n  }}'
                    f',\n  {{\n    "ph": "X", "cat": "cpu_op", "name": "aten::inner{i % 41}", "pid": 71, "tid": 71,\n    "ts": {ts + 2}.500, "dur": 20.125,'
                    f'\n    "args": {{\n      "External id": {i}, "Record function id": 0, "Ev Idx": {i}\n    }}\n  }}'
                    f',\n  {{\n    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 71, "tid": 71,\n    "ts": {ts + 5}.063, "dur": 4.125,'
                    f'\n    "args": {{\n      "External id": {i}, "cbid": 211, "correlation": {i}\n    }}\n  }}'
                    f',\n  {{\n    "ph": "X", "cat": "kernel", "name": "void kernel{i % 61}<float, {i % 7}>(float*)", "pid": 0, "tid": 7,\n    "ts": {ts + 11}.333, '
                    f'"dur": 21.750,\n    "args": {{\n      "External id": {i}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": {i},\n'
                    f'      "registers per thread": 32, "shared memory": 0, "blocks per SM": 1.5, "warps per SM": 12, "grid": [256, 1, 1], '
                    f'"block": [256, 1, 1], "est. achieved occupancy %": 30\n    }}\n  }}')
        f.write("\n]}\n")


def rows_of(db):
    return sum(db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("trace_range", "trace_launch", "trace_kernel"))


def imported(bench, events=EVENTS):
    file, recording = bench.scratch / f"kineto{events}.json", bench.scratch / f"kineto{events}.hiw"
    if not file.exists():
        kineto(file, events)
        bench.cost([bench.hiwater, "import", file, "-o", recording])
    return file, recording


def sizes(bench):
    """Per event: of two files, so that what is there once does not count."""
    (less_file, less), (more_file, more) = imported(bench, EVENTS // 4), imported(bench)
    with opened(less) as few, opened(more) as many:
        rows = rows_of(many) - rows_of(few)
    sizes = {}
    for name, files in {"a row": (less, more), "kineto": (less_file, more_file)}.items():
        sizes[name] = (files[1].stat().st_size - files[0].stat().st_size) / rows
    for to in ("perfetto", "nsys-sqlite", "chrome"):
        files = [bench.scratch / f"{recording.stem}.{to}" for recording in (less, more)]
        for recording, file in zip((less, more), files):
            bench.cost([bench.hiwater, "export", recording, "--to", to, "-o", file])
        sizes[to] = (files[1].stat().st_size - files[0].stat().st_size) / rows
    beside = f"Kineto's JSON {sizes['kineto']:.0f}, as we export it {sizes['chrome']:.0f}, as an export of nsys {sizes['nsys-sqlite']:.0f} bytes; {rows:,} events"
    yield Row("an event in a recording", f"{sizes['a row']:.1f} bytes", "30 bytes", beside, result_of(sizes["a row"] <= 30))
    yield Row("an event for Perfetto", f"{sizes['perfetto']:.1f} bytes", "30 bytes", "the same", result_of(sizes["perfetto"] <= 30))


def imports(bench):
    file, _ = imported(bench)
    ours, theirs = [], []
    for i in range(7):
        ours.append(usage([bench.hiwater, "import", file, "-o", bench.scratch / f"again{i}.hiw"]))
        theirs.append(usage([sys.executable, "-c", JSON_LOAD, file]))
    times = statistics.median(their / our for (our, _), (their, _) in zip(ours, theirs))
    peak, loaded = max(peak for _, peak in ours), max(peak for _, peak in theirs)
    beside = f"json.load: {spread([s for s, _ in theirs], 's')}, {loaded / 2**20:.0f} MiB; a file of {file.stat().st_size / 1e6:.0f} MB"
    yield Row(f"import of {EVENTS:,} events of Kineto", f"{times:.2f} times faster, CPU {spread([s for s, _ in ours], 's')}", "2 times", beside,
              result_of(times >= 2))
    yield Row("its memory", f"{peak / 2**20:.1f} MiB", "32 MiB", "", result_of(peak <= 32 << 20))


# ---- the recorder ----------------------------------------------------------------------------------------------------


def share_while(bench, options, words, seconds=10):
    """Shares of a core that the recorder of a job uses."""
    process = bench.start([bench.hiwater, "run", *options, "--summary", "none", "--", nvtx_job(bench), *words])
    time.sleep(2)
    shares = shares_of({"own": process.pid}, 4, seconds / 4)["own"]
    process.wait()
    return shares


def recorder(bench):
    """5,000 ranges a second, which are 10,000 pushes and pops; then as many as the recorder gives no row each."""
    taken = {"idle": [], "5,000": [], "untraced": []}
    for i in range(3):
        traced = ["--trace", "-o", bench.scratch / f"idle{i}.hiw"], ["--trace", "-o", bench.scratch / f"paced{i}.hiw"]
        taken["untraced"] += share_while(bench, ["-o", bench.scratch / f"untraced{i}.hiw"], ["sleep", "13000"])
        taken["idle"] += share_while(bench, traced[0], ["paced", "1", "1", "sleep", "13000"])
        taken["5,000"] += share_while(bench, traced[1], ["paced", "65000", "5000"])
    more = [busy - statistics.median(taken["idle"]) for busy in taken["5,000"]]
    yield Row("the recorder at 5,000 ranges a second: CPU added", spread(more, "% of a core", 0.01), "1%",
              f"a traced job without events {spread(taken['idle'], '% of a core', 0.01)}, untraced {spread(taken['untraced'], '% of a core', 0.01)}",
              result_of(statistics.median(more) <= 0.01))
    # After 5 s the probe would give up ranges that come so fast, since they cost the job more than 1 %.
    n, rate, out = 400_000, 100_000, bench.scratch / "many.hiw"
    bench.cost([bench.hiwater, "run", "--trace", "-o", out, "--summary", "none", "--", nvtx_job(bench), "paced", n, rate])
    with opened(out) as db:
        counted, = db.execute("SELECT sum(count) FROM trace_stat WHERE kind = 'range'").fetchone()
        rows, = db.execute("SELECT count(*) FROM trace_range").fetchone()
        lost = dict(db.execute("SELECT cause, sum(n) FROM trace_lost GROUP BY cause"))
    thinned = lost.pop("thinned", 0)
    yield Row(f"{n:,} ranges, {rate:,} a second", f"{counted:,} counted, {rows:,} rows", "all counted",
              f"left out {thinned:,}, lost {sum(lost.values()):,}", result_of(counted == n and not any(lost.values()) and rows + thinned == n))


def table(bench):
    """Ten million rows: those of an import, repeated one after the other; the sums, too."""
    _, recording = imported(bench)
    many, times = bench.scratch / "tenmillion.hiw", 10_000_000 // EVENTS
    shutil.copy(recording, many)
    with contextlib.closing(sqlite3.connect(many)) as db:
        db.execute("PRAGMA synchronous=OFF")
        for name, rest in {"trace_range": "duration,site,depth,flags", "trace_launch": "duration,site,correlation,flags",
                           "trace_kernel": "duration,site,correlation,queued,submitted,flags"}.items():
            last, = db.execute(f"SELECT max(start) FROM {name}").fetchone()
            db.execute(f"CREATE TEMP TABLE one AS SELECT * FROM {name}")
            for k in range(1, times):
                db.execute(f"INSERT INTO {name}(start,{rest}) SELECT start + ?,{rest} FROM one", (k * (last + 1000),))
            db.execute("DROP TABLE one")
        db.execute("UPDATE trace_stat SET count = count * ?1, total = total * ?1, sum_squares = sum_squares * ?1, rows = rows * ?1", (times,))
        db.commit()
    count = 'import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1])\nfor t in "range", "launch", "kernel":\n db.execute(f"SELECT count(*) FROM trace_{t}").fetchone()'
    ours, theirs = [], []
    with opened(many) as db:
        rows = rows_of(db)
    for _ in range(7):
        before = time.monotonic()
        subprocess.run([bench.hiwater, "trace", many], stdout=subprocess.DEVNULL, check=True)
        ours.append(time.monotonic() - before)
        before = time.monotonic()
        subprocess.run([sys.executable, "-c", count, many], check=True)
        theirs.append(time.monotonic() - before)
    yield Row(f"hiwater trace of {rows:,} rows", spread(ours, "s"), "0.5 s", f"SELECT count(*) of them: {spread(theirs, 's')}",
              "ok" if statistics.median(ours) < 0.5 else "MISS" if min(ours) >= 0.5 else "not resolved")


def kill(bench):
    """A job that counts what it pushed and popped, and then kills itself: less than its memory has room for."""
    chance, lost, done = random.Random(0), 0, []
    for i in range(20):
        count, out = bench.scratch / f"count{i}", bench.scratch / f"kill{i}.hiw"
        subprocess.run([bench.hiwater, "run", "--trace", "-o", out, "--summary", "none", "--", nvtx_job(bench), "loop", count,
                        str(chance.randrange(1, 50_000))], check=False, stderr=subprocess.DEVNULL)
        done.append(struct.unpack("Q", count.read_bytes()[:8])[0])
        with opened(out) as db:
            ranges, = db.execute("SELECT sum(count) FROM trace_stat WHERE kind = 'range'").fetchone()
            unclosed, = db.execute("SELECT count(*) FROM trace_range WHERE flags & 1").fetchone()
        lost += abs(done[-1] - (2 * (ranges or 0) - unclosed))
    yield Row("events completed before SIGKILL, and lost", f"{lost} of {sum(done):,}", "0", f"the counters of {len(done)} jobs", result_of(lost == 0))

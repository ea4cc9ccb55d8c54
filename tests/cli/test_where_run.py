# SPDX-License-Identifier: MIT
"""hiwater run --where: which function first touched the memory that is resident at the peak. The jobs of where_job.c know it by
construction; where_runs.py says what every answer has to fulfil."""
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from cli_helpers import fill, wait_for
from where_runs import (HOLD, MIB, Runs, called, compile_job, compile_library, in_order, mib, nobody_runs, pythons, sampling,
                        with_numpy)

TWO = ["first", "300", "second", "100"]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Builds of the job, each made when it is first asked for."""
    folder, made = tmp_path_factory.mktemp("where"), {}
    return lambda build="usual": made.setdefault(build, made.get(build) or compile_job(folder, build))


@pytest.fixture
def runs(tool, programs):
    sampling()
    return Runs(tool, programs())


@pytest.fixture(params=["self", "nobody"])
def by(request, tool, programs):
    """As the user of the tests, and as one without any rights."""
    sampling()
    return Runs(tool, programs()) if request.param == "self" else nobody_runs(tool, programs())


# ---- who touched it --------------------------------------------------------------------------------


def test_two_functions(by):
    where = by(*TWO, *HOLD)
    where.agrees({"touch_first": 300, "touch_second": 100})
    assert by.who == "self" or where.result.stderr == "" or "--where" in where.result.stderr
    assert where.result.stdout == f"touch_first {300 * MIB}\ntouch_second {100 * MIB}\n"


def test_what_a_row_has(runs):
    """The innermost function outside libc; where it is in the source; and how it was reached."""
    where = runs(*TWO, *HOLD)
    for name in ("touch_first", "touch_second"):
        row = where.row(name)
        assert pathlib.Path(runs.job).name in row["library"] and row["file"].endswith("where_job.c") and row["line"] > 0
        assert row["samples"] > 100 and 0 < row["sigma_bytes"] < row["bytes"]
        assert in_order(where.stacks_of(name)[0]["frames"], "main", name), where.stacks[:3]
        assert abs(sum(s["bytes"] for s in where.stacks_of(name)) - row["bytes"]) <= MIB
    assert sum(row["samples"] for row in where.rows) == pytest.approx(400 * MIB / (64 * 4096), rel=0.1)
    assert 0 < where.json["at_s"] < 30 and isinstance(where.json["highs"], list) and where.json["highs"]


@pytest.mark.parametrize("option, share", [("--where=fine", 0.01), ("--where=stack=32K", 0.03), ("--where=fine,stack=32K", 0.01)])
def test_options(runs, option, share):
    where = runs(*TWO, *HOLD, option=option)
    where.agrees({"touch_first": 300, "touch_second": 100}, share)
    if "fine" in option:
        assert where.json["sample_bytes"] == 65536 and where.row("touch_first")["samples"] + where.json["lost"] > 3000


@pytest.mark.parametrize("words, truth", [
    ("brk 70", {"grow_break": 70}),
    ("malloc 60", {"build_list": 60}),
    ("thread 60", {"touch_on_thread": 60}),
    ("stack 6656", {"touch_stack": 6.5}),
    ("descend 3 60", {"touch_deep": 60}),
    ("copyfile 40 copied", {"write_mapped": 40}),
    ("first 60 arena 100 second 40 third 60", {"touch_first": 60, "touch_second": 40, "touch_third": 60}),
    ("brk 70 thread 60 stack 6656 malloc 50 second 30",
     {"grow_break": 70, "touch_on_thread": 60, "touch_stack": 6.5, "build_list": 50, "touch_second": 30}),
], ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "")
def test_kinds_of_memory(runs, words, truth):
    runs(*words.split(), *HOLD).agrees(truth)


@pytest.mark.parametrize("build", ["O2", "no-frame-pointer", "static", "static-pie"])
def test_builds(runs, programs, build):
    where = runs(*TWO, *HOLD, command=[programs(build)])
    where.agrees({"touch_first": 300, "touch_second": 100})
    assert in_order(where.stacks_of("touch_second")[0]["frames"], "main", "touch_second")


@pytest.mark.parametrize("build", ["stripped", "static-stripped"])
def test_builds_without_names(runs, programs, build):
    """The program is named, and an offset in it."""
    where = runs(*TWO, *HOLD, command=[programs(build)])
    name = pathlib.Path(programs(build)).name
    own = [row for row in where.rows if name in (row["library"] or "")]
    assert sum(row["bytes"] for row in own) >= 390 * MIB, str(where)
    assert all(row["function"] for row in where.rows)
    assert any("0x" in row["function"] for row in own), own
    assert not any(called(frame, "touch_first") for s in where.stacks for frame in s["frames"])


# ---- freed before the peak -----------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [0, 10, 200])
@pytest.mark.parametrize("how", ["free", "discard"])
def test_freed_memory_is_nobodys(by, gap, how):
    """300 are given back and 350 touched, at other addresses or at the same ones."""
    third = ["third", "350"] if how == "free" else ["third", "300", "third", "50"]
    where = by(*TWO, "gap", gap, how, "gap", gap, *third, *HOLD)
    assert where.of("touch_first") < 1, str(where)
    where.agrees({"touch_second": 100, "touch_third": 350})


def test_an_earlier_high_is_kept(runs):
    """What was freed for good is in the peak, if it was resident at the peak."""
    where = runs("first", "300", "second", "50", *HOLD, "free", "third", "100", *HOLD)
    where.is_near("touch_first", 300)
    where.is_near("touch_second", 50)
    assert where.of("touch_third") < 1 and 350 <= mib(where.peak) <= 358, str(where)


def test_touched_again_and_again(runs):
    where = runs("first", "200", *["discard", "first", "200"] * 6, "second", "100", *HOLD)
    where.agrees({"touch_first": 200, "touch_second": 100})


# ---- what the kernel touches -----------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["arena 400 second 100 read 300 {zero}", "arena 400 read 300 {zero} second 100",
                                    "apart read 300 {zero} second 100", "second 100 read 300 {zero}", "second 100 read 300 {file}"])
def test_read_into_fresh_memory(by, tmp_path, layout):
    """Without the right to see the kernel's faults it is unsampled, and never given to others."""
    data = tmp_path / "data"
    if "{file}" in layout:
        with data.open("wb") as file:
            for _ in range(300):
                file.write(os.urandom(1024) * 1024)
        data.chmod(0o644)
    where = by(*layout.format(zero="/dev/zero", file=data).split(), *HOLD)
    if by.kernel:
        where.is_near("fill_by_read", 300, 0.05)
    else:
        assert mib(where.unsampled) >= 0.95 * 300, str(where)
        assert where.of("fill_by_read") <= 15
    assert 95 <= where.of("touch_second") <= 105, str(where)
    assert where.others("touch_second", "fill_by_read") <= 5, str(where)


@pytest.mark.parametrize("words, own, moved", [("grow 20 90", 70, 20), ("move 50", 0, 50), ("grow 20 90 move 50 second 60", 70, 70)])
def test_moved_by_mremap(runs, words, own, moved):
    """What moved is its toucher's or unsampled, and nobody else's."""
    where = runs(*words.split(), *HOLD)
    touchers = where.of("grower") + where.of("mover")
    assert own * 0.97 - 0.5 <= touchers <= (own + moved) * 1.03 + 0.5, str(where)
    assert touchers + mib(where.unsampled) >= (own + moved) * 0.97 - 0.5, str(where)
    if "second" in words:
        where.is_near("touch_second", 60)
    assert where.others("grower", "mover", "touch_second") <= 3, str(where)


def test_a_list_that_grows_by_realloc(runs):
    where = runs("realloc", "76", "second", "60", *HOLD)
    assert where.of("grow_list") <= 76 * 1.03 + 0.5, str(where)
    assert where.of("grow_list") + mib(where.unsampled) >= 76 * 0.97 - 0.5, str(where)
    where.is_near("touch_second", 60)


# ---- huge pages, files, shared memory ------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--where", "--where=fine"])
def test_huge_pages(by, option):
    where = by("huge", "third", "600", "small", "second", "100", *HOLD, option=option)
    where.is_near("touch_third", 600, 0, 20)
    where.is_near("touch_second", 100, 0.03, 1)


def test_huge_pages_after_freed_ones(by):
    where = by("huge", "first", "200", "free", "third", "300", "small", "second", "60", *HOLD)
    where.is_near("touch_third", 300, 0, 20)
    assert where.of("touch_first") < 1, str(where)
    where.is_near("touch_second", 60, 0.03, 1)


def test_a_mapped_file(runs, tmp_path):
    """It is the file's, not the function's that reads it."""
    where = runs("file", "80", tmp_path / "table.bin", "second", "60", *HOLD)
    files = {file["name"]: mib(file["bytes"]) for file in where.files}
    assert [size for name, size in files.items() if "table.bin" in name] == [pytest.approx(80, abs=1.5)], files
    assert mib(where.in_files) >= 79 and abs(sum(file["bytes"] for file in where.files) - where.in_files) <= MIB
    assert where.of("read_mapped") < 1
    where.is_near("touch_second", 60)


@pytest.mark.parametrize("word", ["shared", "shared-child"])
def test_shared_memory_counts_once(runs, word):
    """As its toucher's, or under a name of its own."""
    where = runs(word, "40", "second", "60", *HOLD)
    named = [mib(file["bytes"]) for file in where.files if re.search("shared|shm|zero|anon", file["name"])]
    assert 38 <= where.of("touch_shared") + sum(named) <= 42.5, f"{where.files} {where}"
    assert 100 <= mib(where.peak) <= 110
    where.is_near("touch_second", 60)


# ---- processes -------------------------------------------------------------------------------------------


def test_copies_of_written_pages_are_the_writers(by):
    where = by("first", "300", "cow", "3", "50", *HOLD)
    where.is_near("touch_first", 300, 0.05)
    where.is_near("rewrite_copy", 150, 0.05)
    assert where.others("touch_first", "rewrite_copy") <= 4, str(where)
    writers = {s["pid"] for s in where.stacks_of("rewrite_copy") if s["bytes"] > 40 * MIB}
    assert len(writers) == 3 and not writers & {s["pid"] for s in where.stacks_of("touch_first") if s["bytes"] > 200 * MIB}


def findings_of(runs):
    shown = json.loads(runs.tool.run("show", "--json", runs.tool.folder / f"run{runs.made}.hiw").stdout)
    return {f["code"]: f for f in shown["findings"]}


def copied(where):
    return mib(sum(row["copied_bytes"] for row in where.rows))


def test_copies_are_known_as_such(runs):
    where = runs("first", "300", "cow", "3", "50", *HOLD)
    assert 0.95 * 150 - where.lost <= copied(where) <= 152 and where.row("touch_first")["copied_bytes"] == 0, str(where)
    found = findings_of(runs)["copy-on-write"]
    assert (found["evidence"]["function"], found["evidence"]["cow_processes"]) == ("rewrite_copy", 3), found
    assert found["evidence"]["cow_bytes"] == sum(row["copied_bytes"] for row in where.rows)


def test_memory_of_a_childs_own_is_no_copy(runs):
    """New memory in forked processes, also of a program that is executed at the addresses of its parent."""
    where = runs("first", "100", "fork", "third", "200", *HOLD)
    assert copied(where) <= 1.5 and "copy-on-write" not in findings_of(runs), str(where)
    where = runs("first", "100", "fork", "exec", "first", "200", *HOLD)
    assert copied(where) <= 1.5 and "copy-on-write" not in findings_of(runs), str(where)


FORKS = """
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) static char *touch_new(size_t bytes)
{
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(at, bytes, MADV_NOHUGEPAGE);
    memset(at, 1, bytes);
    return at;
}
__attribute__((noinline)) static void touch_copies(char *at, size_t bytes) { memset(at, 2, bytes); }
int main(int argc, char **argv)
{
    const size_t bytes = 150 << 20;
    char *at = argv[1][0] == 'g' ? touch_new(bytes) : NULL;
    if (fork() > 0) {
        if (!at)
            touch_new(bytes); /* where the child has it, too: no page is shared */
        wait(NULL);
        return 0;
    }
    if (at && fork() > 0) {
        wait(NULL);
        return 0;
    }
    if (at)
        touch_copies(at, bytes);
    else
        touch_new(bytes);
    usleep(800000);
    return 0;
}
"""


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forks")
    (folder / "forks.c").write_text(FORKS)
    subprocess.run(["cc", "-O1", "-g", "-o", folder / "forks", folder / "forks.c"], check=True)
    return folder / "forks"


def test_copies_of_a_grandparents_pages(runs, forks):
    where = runs("grandparent", command=[forks])
    assert 140 - where.lost <= copied(where) <= 151, str(where)
    assert findings_of(runs)["copy-on-write"]["evidence"]["function"] == "touch_copies"


def test_new_memory_at_equal_addresses_is_no_copy(runs, forks):
    where = runs("both", command=[forks])
    assert where.of("touch_new") >= 290 - where.lost and copied(where) <= 1.5, str(where)


OBJECTS = """
import os, sys, time
data = [str(i) * 3 for i in range(900_000)]
def read_all():
    return sum(map(len, [item for item in data]))
def make_all():
    return [str(i) * 3 for i in range(900_000)]
for _ in range(2):
    if os.fork() == 0:
        kept = read_all() if sys.argv[1] == "read" else make_all()
        time.sleep(1.5)
        os._exit(0)
for _ in range(2):
    os.wait()
"""


@pytest.mark.parametrize("how", ["read", "make"])
def test_pythons_reference_counts_copy(runs, tmp_path, how):
    """Children that only read what their parent has; and others that make objects of their own."""
    (tmp_path / "job.py").write_text(OBJECTS)
    where = runs(how, command=[sys.executable, tmp_path / "job.py"])
    if how == "read":
        assert copied(where) >= 80 - where.lost and findings_of(runs)["copy-on-write"]["evidence"]["cow_processes"] == 2, str(where)
    else:
        assert copied(where) <= 15 and "copy-on-write" not in findings_of(runs), str(where)


@pytest.mark.parametrize("children", [1, 3])
def test_a_parent_that_ends_first(runs, children):
    """Its children still have what it touched: all but the 50 that each of them has a copy of."""
    where = runs("orphans", children, "50", "400", *HOLD)
    where.is_near("touch_third", 400)
    where.is_near("touch_first", 250, 0.05)
    where.is_near("rewrite_copy", 50 * children, 0.05)


@pytest.mark.parametrize("same_addresses", [False, True])
def test_exec_ends_what_came_before(runs, same_addresses):
    """Also where the new image has its memory at the addresses of the old one."""
    fixed = ["setarch", "-R"] if same_addresses else []
    if fixed and (not shutil.which("setarch") or subprocess.run([*fixed, "true"], check=False).returncode):
        pytest.skip("setarch -R does not work here")
    where = runs("first", "200", *HOLD, "exec", "third", "350", *HOLD, command=[*fixed, runs.job])
    assert where.of("touch_first") < 1, str(where)
    where.agrees({"touch_third": 350})


@pytest.mark.parametrize("words, truth", [
    ("second 100 fork third 80", {"touch_second": 100, "touch_third": 80}),
    ("second 100 vfork third 80", {"touch_second": 100, "touch_third": 80}),
    ("daemon second 100", {"touch_second": 100}),
    ("second 60 daemon third 80", {"touch_second": 60, "touch_third": 80}),
    ("fork second 60 vfork third 80", {"touch_second": 60, "touch_third": 80}),
], ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "")
def test_processes(runs, words, truth):
    runs(*words.split(), *HOLD).agrees(truth)


def test_a_pipeline_of_the_shell(runs):
    """Two programs beside each other."""
    line = f"{runs.job} first 120 hold 1500 | {{ {runs.job} second 80 hold 1500; cat; }}"
    runs(command=["sh", "-c", line]).agrees({"touch_first": 120, "touch_second": 80}, rest=8)


@pytest.mark.parametrize("children", [60, pytest.param(300, marks=pytest.mark.full)])
def test_many_short_processes(runs, children):
    where = runs("crowd", children, "20", "1", "second", "100", *HOLD, timeout=100)
    assert where.of("touch_small") < 1, str(where)
    where.agrees({"touch_second": 100})


def test_a_library_that_is_gone(runs, tmp_path):
    where = runs("library", "60", compile_library(tmp_path), "second", "40", *HOLD)
    where.agrees({"touch_library": 60, "touch_second": 40})
    assert "libtouches.so" in where.row("touch_library")["library"]


def test_stacks_that_are_cut(runs):
    """They are marked and count; a larger copy has them whole."""
    cut = runs("descend", "20", "60", *HOLD)
    cut.agrees({"touch_deep": 60})
    whole = runs("descend", "20", "60", *HOLD, option="--where=stack=32K")
    whole.agrees({"touch_deep": 60})
    assert any("…" in frame for frame in cut.stacks_of("touch_deep")[0]["frames"])
    frames = whole.stacks_of("touch_deep")[0]["frames"]
    assert in_order(frames, "main", *["descend"] * 21, "touch_deep") and not any("…" in frame for frame in frames)


# ---- the job is as it is without ---------------------------------------------------------------------------


PROBE = """
import ctypes, json, os, re, resource, sys
def text(name):
    try:
        return open(f"/proc/self/{name}").read()
    except OSError as e:
        return e.strerror
status = dict(line.split(":\\t", 1) for line in text("status").splitlines() if ":\\t" in line)
kept = "Sig[BIC]|Shd|Cap|NoNew|Seccomp$|Umask|Groups|Uid|Gid|Speculation|Threads"
links = {n: os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")}
libc, death = ctypes.CDLL(None), ctypes.c_int(-1)
libc.prctl(1 + 1, ctypes.byref(death))
print(json.dumps({
    "status": {k: v for k, v in status.items() if re.match(kept, k)}, "traced": status["TracerPid"] != "0",
    "links": {n: re.sub(r"\\d+", "N", link) for n, link in links.items()}, "death": death.value, "dumpable": libc.prctl(3),
    "environment": {k: v for k, v in os.environ.items() if not k.startswith("HIWATER_")},
    "own": sorted(k for k in os.environ if "HIWATER" in k), "limits": [resource.getrlimit(n) for n in range(16)],
    "nice": os.getpriority(0, 0), "scheduler": os.sched_getscheduler(0), "cpus": sorted(os.sched_getaffinity(0)),
    "group": os.getpgrp() == os.getpid(), "session": os.getsid(0) == os.getpid(), "cwd": os.getcwd(), "slack": text("timerslack_ns"),
    "oom": text("oom_score_adj"), "personality": text("personality"), "children": text(f"task/{os.getpid()}/children")}, sort_keys=True))
sys.stderr.write("said\\n")
sys.exit(7)
"""


def test_what_the_job_finds(by, tmp_path):
    """Its environment, descriptors, signals, limits and streams."""
    python = sys.executable if by.who == "self" else "/usr/bin/python3"
    if not os.access(python, os.X_OK):
        pytest.skip("this Python is not for another user to run")
    script = tmp_path / "probe.py"
    script.write_text(PROBE)
    script.chmod(0o644)
    seen = [by.run(option=option, command=[python, script])[0] for option in (None, "--where")]
    off, on = (json.loads(result.stdout) for result in seen)
    assert {key: (off[key], on[key]) for key in off if off[key] != on[key]} == {}
    assert [result.returncode for result in seen] == [7, 7] and seen[0].stderr == seen[1].stderr == "said\n"


@pytest.mark.parametrize("words, status", [("exit 3", 3), ("exit 255", 255), (f"kill {int(signal.SIGTERM)}", -signal.SIGTERM),
                                           (f"kill {int(signal.SIGKILL)}", -signal.SIGKILL)])
def test_how_the_job_ends(runs, words, status):
    for option in (None, "--where"):
        assert runs.run("second", "20", *words.split(), option=option)[0].returncode == status


def test_commands_that_do_not_start(runs, tmp_path):
    (tmp_path / "plain").write_text("text")
    for command in (["/nonexistent/command"], [tmp_path / "plain"], [tmp_path]):
        off, on = (runs.run(option=option, command=command)[0] for option in (None, "--where"))
        assert (off.returncode, off.stderr) == (on.returncode, on.stderr) and on.returncode in (126, 127)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_reach_the_job(tool, runs, number):
    counter = tool.counter()
    line, _ = runs.command(command=counter.command())
    process = tool.start(*line[1:])
    counter.wait_ready()
    process.send_signal(number)
    counter.wait_got(signal.Signals(number).name.removeprefix("SIG"))
    counter.finish()
    process.wait(30)


def test_the_peak_is_the_same(runs):
    peaks = []
    for option in (None, "--where"):
        runs.run(*TWO, *HOLD, option=option, options=["--json", "summary.json"])
        peaks.append(json.loads((runs.tool.folder / "summary.json").read_text())["ram"]["main"]["peak_bytes"])
    assert abs(peaks[0] - peaks[1]) <= 2 * MIB, peaks


def test_the_peak_is_the_summarys(runs):
    result, path = runs.run(*TWO, *HOLD, options=["--json", "summary.json"])
    assert result.returncode == 0
    summary = json.loads((runs.tool.folder / "summary.json").read_text())
    assert abs(runs.read(path).peak - summary["ram"]["combined"]["peak_bytes"]) <= MIB


def job_of(pid, runs):
    """The child that is the job; the recorder may have others."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (job,) = [int(child) for child in children if os.readlink(f"/proc/{child}/exe") == runs.job]
    return job


def children(pid):
    return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def events_of(pid):
    links = []
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            links.append(os.readlink(entry))
        except OSError:
            continue
    return sum("perf_event" in link for link in links)


@pytest.mark.parametrize("option", [None, "--where"])
def test_events_are_the_recorders_alone(tool, runs, tmp_path, option):
    """None is open without --where, and none in the job."""
    line, path = runs.command("ready", tmp_path / "ready", "until-eof", option=option)
    process = tool.start(*line[1:], stdin=subprocess.PIPE)
    wait_for((tmp_path / "ready").exists, "the job runs")
    job = job_of(process.pid, runs)
    recorders = [process.pid, *children(process.pid)]
    assert (sum(events_of(pid) for pid in recorders if pid != job) > 0) == (option is not None) and events_of(job) == 0
    process.stdin.close()
    assert process.wait(30) == 0
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        tables = db.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE 'where_%'").fetchone()[0]
    db.close()
    assert (tables > 0) == (option is not None)


# ---- killed, stopped -------------------------------------------------------------------------------------


@pytest.mark.parametrize("killed", ["job", "recorder"])
def test_killed(tool, runs, tmp_path, killed):
    """The last high is there."""
    line, path = runs.command(*TWO, "ready", tmp_path / "ready", "until-eof", "ready", tmp_path / "done")
    process = tool.start(*line[1:], stdin=subprocess.PIPE)
    wait_for((tmp_path / "ready").exists, "the job holds its memory")
    wait_for(lambda: runs.read_when(path, lambda where: mib(where.peak) >= 395), "the high is written")
    if killed == "job":
        os.kill(job_of(process.pid, runs), signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL
    else:
        process.kill()
        process.wait(30)
        assert not (tmp_path / "done").exists()
        process.stdin.close()
        wait_for((tmp_path / "done").exists, "the job goes on")
    where = runs.read(path)
    where.is_near("touch_first", 300)
    where.is_near("touch_second", 100)


def test_a_disk_that_is_full_for_a_while(tool, runs, small_disk, tmp_path):
    """What was sent meanwhile is sent again: every row has its stack, its frames and its process."""
    disk = small_disk("2m")
    line, path = runs.command("first", "100", "ready", tmp_path / "one", "await", tmp_path / "full", "second", "200", "ready",
                              tmp_path / "two", "await", tmp_path / "free", "third", "300", *HOLD, folder=disk)
    process = tool.start(*line[1:], text=True)
    wait_for(lambda: runs.read_when(path, lambda where: mib(where.peak) >= 95), "the first high is written")
    fill(disk)
    (tmp_path / "full").touch()
    assert "recording stopped: cannot write" in process.stderr.readline()
    wait_for((tmp_path / "two").exists, "the job holds the second")
    (disk / "filler").unlink()
    assert "the recording continues" in process.stderr.readline()
    (tmp_path / "free").touch()
    assert process.wait(60) == 0
    where = runs.read(path)
    where.agrees({"touch_first": 100, "touch_second": 200, "touch_third": 300})
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        for child, key, parent in (("row", "stack", "stack"), ("row", "process", "process"), ("row", "high", "high"),
                                   ("stack", "frame", "frame"), ("stack", "parent", "stack")):
            lost = db.execute(f"SELECT count(*) FROM where_{child} WHERE {key} NOT IN (SELECT id FROM where_{parent})").fetchone()[0]
            assert lost == 0, f"{lost} of {child}"
    db.close()


def test_a_storm_that_is_not_read(tool, runs, tmp_path):
    """What was lost while the recorder did not run is counted, and given to nobody."""
    line, path = runs.command("ready", tmp_path / "ready", "await", tmp_path / "go", "third", "600", "ready", tmp_path / "done", *HOLD,
                              option="--where=fine")
    process = tool.start(*line[1:])
    wait_for((tmp_path / "ready").exists, "the job runs")
    stopped = [process.pid, *(pid for pid in children(process.pid) if pid != job_of(process.pid, runs))]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    (tmp_path / "go").touch()
    wait_for((tmp_path / "done").exists, "the job touched all")
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    assert process.wait(60) == 0
    where = runs.read(path)
    assert where.json["lost"] > 1000, str(where)
    assert where.of("touch_third") <= 600 * 1.03 and where.others("touch_third") <= 3, str(where)
    assert where.of("touch_third") + mib(where.unsampled) >= 597, str(where)


# ---- attached ----------------------------------------------------------------------------------------------


THREADED = """
import subprocess, sys, threading, time
thread = threading.Thread(target=lambda: subprocess.run(sys.argv[1:]))
thread.start()
thread.join()
"""


def test_attach_to_what_a_thread_forked(tool, runs, tmp_path):
    """The children of a process are those of all its threads."""
    job = subprocess.Popen([sys.executable, "-c", THREADED, runs.job, "ready", tmp_path / "ready", "await", tmp_path / "go", "first", "200",
                            "ready", tmp_path / "done", *HOLD], env=runs.env)
    tool.started.append(job)
    wait_for((tmp_path / "ready").exists, "the job runs")
    attached = tool.start("attach", "--where", "-o", tmp_path / "a.hiw", "--summary", "none", job.pid)
    wait_for(lambda: runs.read_when(tmp_path / "a.hiw", lambda where: where.peak > 0), "the attached recorder has what was there before")
    (tmp_path / "go").touch()
    assert job.wait(60) == 0 and attached.wait(60) == 0
    runs.read(tmp_path / "a.hiw").is_near("touch_first", 200)


# ---- out of reach ------------------------------------------------------------------------------------------


def notes(result):
    return [line for line in result.stderr.splitlines() if line.strip()]


@pytest.mark.parametrize("error", ["EPERM", "ENOSYS", "EACCES"])
def test_a_sandbox_without_events(tool, programs, error):
    """The job runs as always; one note says what to do."""
    number = {"EPERM": 1, "ENOSYS": 38, "EACCES": 13}[error]
    runs = Runs(tool, programs())
    line, path = runs.command("first", "20", *HOLD, "exit", "7")
    done = subprocess.run([runs.job, "forbid", str(number), *line], env=runs.env, cwd=tool.folder, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (7, f"touch_first {20 * MIB}\n")
    assert len(notes(done)) == 1 and re.search("perf_event_paranoid|cap_perfmon|CAP_PERFMON|seccomp", done.stderr), done.stderr
    shown = tool.run("where", path)
    assert shown.returncode in (0, 1) and (shown.stdout or shown.stderr)


def test_little_locked_memory(tool, programs):
    sampling()
    runs = nobody_runs(tool, programs())
    if not shutil.which("prlimit"):
        pytest.skip("no prlimit")
    runs.prefix += ["prlimit", "--memlock=65536:65536"]
    where = runs(*TWO, *HOLD)
    assert where.of("touch_first") <= 309 and where.of("touch_second") <= 103, str(where)
    assert where.of("touch_first") + where.of("touch_second") + mib(where.unsampled) >= 388, str(where)
    if not where.json["lost"]:
        where.agrees({"touch_first": 300, "touch_second": 100})


def test_a_program_that_cannot_be_read(tool, programs, tmp_path):
    """The kernel ends the events when it starts: nothing is sampled, and the recorder does not spin."""
    sampling()
    runs = nobody_runs(tool, programs())
    hidden = tmp_path / "hidden"
    shutil.copy(programs(), hidden)
    hidden.chmod(0o711)
    result, path = runs.run("first", "100", "hold", "2000", command=[hidden], options=["--json", "summary.json"])
    assert result.returncode == 0 and result.stdout == f"touch_first {100 * MIB}\n"
    assert json.loads((tmp_path / "summary.json").read_text())["sampling"]["cpu_s"] < 0.6
    shown = tool.run("where", path, "--json")
    assert shown.returncode in (0, 1)
    assert "touch_first" not in shown.stdout


@pytest.mark.parametrize("option", ["--where=foo", "--where=fine,foo", "--where=stack=lots", "--where=,"])
def test_an_unknown_word(tool, tmp_path, option):
    result = tool.run("run", option, "--", "touch", tmp_path / "started")
    assert result.returncode == 125 and not (tmp_path / "started").exists()
    assert "lots" in result.stderr or all(word in result.stderr for word in ("fine", "python", "stack"))


def test_a_run_without_it(tool):
    assert tool.run("run", "-o", "plain.hiw", "--summary", "none", "--", "true").returncode == 0
    for options in ([], ["--json"]):
        shown = tool.run("where", "plain.hiw", *options)
        assert shown.returncode == 1 and shown.stdout == "" and "--where" in shown.stderr
    assert tool.run("where", "missing.hiw").returncode not in (0, -signal.SIGSEGV)


# ---- names that mean no good ---------------------------------------------------------------------------------


def shown_by_all(runs, path):
    """What `hiwater where` prints in all its forms."""
    texts = []
    for options in ([], ["--json"], ["--by", "process"], ["--by", "library"], ["--by", "stack"], ["--files"], ["--csv"]):
        shown = runs.tool.run("where", path, *options, timeout=30)
        assert shown.returncode == 0, (options, shown.stderr)
        texts.append(shown.stdout + shown.stderr)
    return texts


def test_a_program_whose_name_is_an_escape_sequence(runs, tmp_path):
    program = tmp_path / "\x1b[2J"
    shutil.copy(runs.job, program)
    result, path = runs.run("first", "60", "name", "\x1b]0;x\x07", *HOLD, command=[program])
    assert result.returncode == 0
    runs.read(path).is_near("touch_first", 60)
    assert not any(re.search("[\x00-\x08\x0b-\x1f\x7f]", text) for text in shown_by_all(runs, path))


def test_a_function_whose_name_is_an_escape_sequence(runs, programs, tmp_path):
    if not shutil.which("objcopy"):
        pytest.skip("no objcopy")
    evil = tmp_path / "evil"
    subprocess.run(["objcopy", "--redefine-sym", "touch_first=\x1b[2Jtouch\n\x07<&", programs("O2"), evil], check=True)
    result, path = runs.run("first", "60", *HOLD, command=[evil])
    assert result.returncode == 0
    where = runs.read(path)
    assert any(mib(row["bytes"]) > 58 - where.lost for row in where.rows), str(where)
    assert not any(re.search("[\x00-\x08\x0b-\x1f\x7f]", text) for text in shown_by_all(runs, path))


@pytest.mark.parametrize("what", ["missing", "fifo", "truncated", "garbage", "huge", "another"])
def test_a_program_that_is_replaced(tool, runs, programs, tmp_path, what):
    """Before its names are looked up. No crash, no hang, no name that is not its own."""
    program = tmp_path / "program"
    shutil.copy(programs("O2"), program)
    line, path = runs.command("first", "60", "ready", tmp_path / "ready", "until-eof", *HOLD, command=[program])
    process = tool.start(*line[1:], stdin=subprocess.PIPE)
    wait_for((tmp_path / "ready").exists, "the job holds its memory")
    program.unlink()
    if what == "fifo":
        os.mkfifo(program)
    elif what == "another":
        shutil.copy(programs("static"), program)
    elif what == "huge":
        with program.open("wb") as file:
            file.write(b"\x7fELF")
            file.truncate(1 << 40)
    elif what != "missing":
        whole = pathlib.Path(programs("O2")).read_bytes()
        program.write_bytes(whole[:len(whole) // 2] if what == "truncated" else whole[:64] + os.urandom(len(whole)))
    process.stdin.close()
    assert process.wait(60) == 0
    where = runs.read(path)
    own = sum(row["bytes"] for row in where.rows if "program" in (row["library"] or "") or row["function"] in ("touch_first", "[unknown]"))
    assert mib(own) >= 58, str(where)
    named = {row["function"] for row in where.rows if row["bytes"] > 50 * MIB}
    assert all(name == "touch_first" or "0x" in name or name.startswith("[") for name in named), named
    shown_by_all(runs, path)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the job's machine code is x86-64's")
@pytest.mark.parametrize("whose", ["none", "own", "forged"])
def test_machine_code_that_was_made(runs, whose):
    """It has the names of a perf map that the job's user owns, and of no other."""
    if whose == "forged" and os.geteuid():
        pytest.skip("not root: cannot give a file to another user")
    result, path = runs.run("jit", "60", whose, *HOLD)
    map_file = re.search("^# map (.*)", result.stdout, re.M)
    try:
        assert result.returncode == 0, result.stderr
        where = runs.read(path)
    finally:
        if map_file:
            pathlib.Path(map_file[1]).unlink(missing_ok=True)
    assert max(row["bytes"] for row in where.rows) > 58 * MIB, str(where)
    names = [frame for s in where.stacks for frame in s["frames"]] + [row["function"] for row in where.rows]
    assert not any("forged" in name for name in names)
    if whose == "own":
        where.is_near("jitted_own", 60)


# ---- Python ------------------------------------------------------------------------------------------------


NUMPY = """
import time
import numpy
def free_one():
    return len(numpy.ones((200 << 20) // 8))
def load_table():
    return numpy.ones((300 << 20) // 8)
free_one()
table = load_table()
time.sleep(1)
"""

JOB = """
import os, sys, time
def load_table():
    table = bytearray(300 << 20)
    block = b"x" * (1 << 20)
    for at in range(0, len(table), len(block)):
        table[at:at + len(block)] = block
    return table
def main():
    table = load_table()
    time.sleep(1)
    print(os.getpid(), len(table))
main()
"""


def test_numpy(runs, tmp_path):
    """An array of 300 MiB in huge pages, after a freed one."""
    python = with_numpy()
    if not python:
        pytest.skip("no numpy")
    (tmp_path / "job.py").write_text(NUMPY)
    where = runs(command=[python, tmp_path / "job.py"], env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
    assert 280 <= mib(max(row["bytes"] for row in where.rows)) <= 320, str(where)
    assert mib(where.peak) < 420 and mib(where.unsampled) < 30, str(where)


def test_a_python_without_exact_frames(runs, tmp_path):
    """Native rows, of any version."""
    (tmp_path / "job.py").write_text(JOB)
    where = runs(command=[sys.executable, tmp_path / "job.py"])
    assert sum(row["bytes"] for row in where.rows) >= 290 * MIB and mib(where.unsampled) < 20, str(where)


@pytest.mark.parametrize("version", ["3.12", "3.13"])
@pytest.mark.parametrize("option", ["--where=python", "--where=fine,python"])
def test_python_frames(runs, tmp_path, version, option):
    python = pythons(version)[version]
    if not python:
        pytest.skip(f"no Python {version}")
    (tmp_path / "job.py").write_text(JOB)
    where = runs(command=[python, tmp_path / "job.py"], option=option)
    chains = [s for s in where.stacks if in_order(s["frames"], "main", "load_table")]
    assert sum(s["bytes"] for s in chains) >= 285 * MIB, [(mib(s["bytes"]), s["frames"]) for s in where.stacks[:3]]
    assert in_order(max(chains, key=lambda s: s["bytes"])["frames"], "<module>", "main", "load_table")
    where.is_near("load_table", 300, 0.05)
    row = where.row("load_table")
    assert row["file"].endswith("job.py")
    shown = json.loads(runs.tool.run("show", "--json", runs.tool.folder / "run1.hiw").stdout)
    one, = [f for f in shown["findings"] if f["code"] == "one-call"]
    assert (one["evidence"]["function"], one["evidence"]["caller"]) == ("load_table", "main"), one
    pid, size = map(int, where.result.stdout.split())
    assert size == 300 * MIB and not pathlib.Path(f"/tmp/perf-{pid}.map").exists()


def test_a_perf_map_that_is_the_users_stays(runs, tmp_path):
    python = next(filter(None, pythons("3.12", "3.13").values()), None)
    if not python:
        pytest.skip("no Python 3.12")
    (tmp_path / "job.py").write_text(JOB)
    where = runs(command=[python, tmp_path / "job.py"], option="--where=python", env={"PYTHONPERFSUPPORT": "1"})
    left = pathlib.Path(f"/tmp/perf-{where.result.stdout.split()[0]}.map")
    assert left.exists()
    left.unlink()
    where.is_near("load_table", 300, 0.05)


def test_a_perf_map_of_the_job_stays(runs, tmp_path):
    """Only what Python wrote is removed."""
    python = next(filter(None, pythons("3.12", "3.13").values()), None)
    if not python:
        pytest.skip("no Python 3.12")
    (tmp_path / "job.py").write_text("import os\nwith open(f'/tmp/perf-{os.getpid()}.map', 'w') as f:\n    f.write('1000 10 mine\\n')\n"
                                     + JOB)
    where = runs(command=[python, "-I", tmp_path / "job.py"], option="--where=python")
    left = pathlib.Path(f"/tmp/perf-{where.result.stdout.split()[0]}.map")
    assert left.read_text() == "1000 10 mine\n"
    left.unlink()


def test_the_environment_of_python(runs, tmp_path):
    """PYTHONPERFSUPPORT is set with `python` alone, and that is said."""
    for option, value in (("--where", ""), ("--where=python", "1")):
        result, _ = runs.run(option=option, command=["sh", "-c", "echo $PYTHONPERFSUPPORT"])
        assert (result.returncode, result.stdout.strip()) == (0, value)
        assert ("PYTHONPERFSUPPORT" in result.stderr) == bool(value), result.stderr


# ---- what is kept --------------------------------------------------------------------------------------------


def test_the_recording_stays_small(runs):
    with_it, without = (runs.run(*TWO, *HOLD, option=option)[1].stat().st_size for option in ("--where", None))
    assert with_it - without <= 256 << 10, (with_it, without)


MANY_STACKS = """
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static char *at;
__attribute__((noinline)) void leaf(void) { memset(at, 1, 65536); at += 65536; usleep(20); }
__attribute__((noinline)) void branch(int depth)
{
    if (depth == 0) { leaf(); return; }
    branch(depth - 1);
    __asm__ volatile("" ::: "memory");
    branch(depth - 1);
    __asm__ volatile("" ::: "memory");
}
int main(void)
{
    at = mmap(0, 1 << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(at, 1 << 30, MADV_NOHUGEPAGE);
    branch(14);
    return 0;
}
"""


def test_many_stacks_are_merged_into_their_callers(runs, tmp_path):
    """16,384 stacks: the recording keeps the largest and, for the others, their callers; nothing is lost by that."""
    (tmp_path / "many.c").write_text(MANY_STACKS)
    subprocess.run(["cc", "-O1", "-fno-optimize-sibling-calls", "-o", tmp_path / "many", tmp_path / "many.c"], check=True)
    result, path = runs.run(command=[tmp_path / "many"], option="--where=fine")
    assert result.returncode == 0
    where = runs.read(path)
    assert where.of("leaf") > 400 - where.lost and 1010 - 1.5 * where.lost <= where.of("leaf") + where.of("branch") <= 1040, str(where)
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        most = max(n for n, in db.execute("SELECT count(*) FROM where_row GROUP BY high"))
    db.close()
    assert most <= 12000 and path.stat().st_size < 8 * MIB


@pytest.mark.full
def test_a_long_job_with_many_highs(runs):
    """At most 16 highs are kept, and the last is the peak."""
    words = [word for i in range(40) for word in ("second", "10", "gap", "250")]
    start = time.monotonic()
    where = runs(*words, *HOLD, timeout=100)
    assert time.monotonic() - start >= 10
    where.agrees({"touch_second": 400})
    assert 2 <= len(where.json["highs"]) <= 16


# ---- its cost --------------------------------------------------------------------------------------


def test_cost_includes_the_sampler(runs):
    """The run's summary and that of its recording have it; the truth is what the kernel counted for all children, less the job."""
    before = os.times()
    result, path = runs.run(*TWO, *HOLD, options=["--json", "used.json"])
    after = os.times()
    assert result.returncode == 0, result.stderr
    run = json.loads((runs.tool.folder / "used.json").read_text())
    shown = json.loads(runs.tool.run("show", "--json", path).stdout)
    assert shown["sampling"] == run["sampling"]
    own, job = run["sampling"], run["time"]["user_s"] + run["time"]["system_s"]
    assert 0 < own["where_cpu_s"] < own["cpu_s"] and 2 * MIB < own["where_rss_bytes"] < own["rss_peak_bytes"] < 300 * MIB
    whole = after.children_user + after.children_system - before.children_user - before.children_system - job
    assert own["cpu_s"] <= whole + 0.05 and own["cpu_s"] >= 0.5 * whole - 0.05, (own, whole)
    text = runs.tool.run("show", path).stdout.replace("\u00a0", " ")
    assert re.search(r"hiwater itself used [\d.]+ m?s\s+CPU, [\d.]+ MiB", text) and "of which the page fault sampler" in text
    with sqlite3.connect(path) as db:
        facts = dict(db.execute("SELECT key, value FROM meta WHERE key IN ('own_cpu_ns', 'where_cpu_ns', 'own_rss_bytes', 'where_rss_bytes')"))
    assert facts["own_rss_bytes"] == own["rss_peak_bytes"] and facts["where_rss_bytes"] == own["where_rss_bytes"]


def test_a_run_without_it_has_no_such_cost(runs):
    result, path = runs.run("true", command=["true"], option=None)
    assert result.returncode == 0
    sampling_of = json.loads(runs.tool.run("show", "--json", path).stdout)["sampling"]
    assert not [key for key in sampling_of if key.startswith("where")]

# SPDX-License-Identifier: MIT
"""What `hiwater run --where` reads of Python while the memory rises: the stack, from outside, for every version of CPython that is known. What
is true comes from the job itself, which prints its own frames."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from where_runs import MIB, Runs, compile_job, nobody_runs, pythons, sampling

VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")

# grow() is at work for at least 60 times 10 ms, in which nothing else touches memory, and rises the faster the longer.
HEAD = '''
import json, os, sys, time
def grow(mib=120, steps=60):
    frames, at = [], sys._getframe(1)
    while at:
        frames.append([at.f_code.co_name, at.f_code.co_filename, at.f_lineno])
        at = at.f_back
    blocks = []
    for step in range(steps):
        blocks.append(bytearray((mib << 21) * (step + 1) // (steps * (steps + 1))))
        time.sleep(0.01)
    print(json.dumps({"pid": os.getpid(), "frames": frames[::-1]}), flush=True)
    return blocks
'''

# Calls over several lines, in loops, generators, comprehensions, decorators and methods; lines that go backwards.
PLAIN = HEAD + '''
def decorated(function):
    def wrapper(*words,
                **more):
        return function(
            *words,
            **more,
        )
    return wrapper


class Größe:
    @decorated
    def method(self, n):
        if n:
            return self.method(
                n - 1)
        for i in range(3):
            values = (
                i,
                [grow()
                 for _ in range(1)] if i == 1
                else 0)
        return values

    @property
    def value(self):
        return (
            self
            .method(2))


def numbers():
    yield 1
    yield Größe().value
    yield 2


def main():
    total = 0
    for n in numbers():
        total += 1
    try:
        raise ValueError
    except ValueError:
        time.sleep(0.1)


main()
'''


@pytest.fixture
def runs(tool, tmp_path):
    sampling()
    return Runs(tool, None)


def stacks(where):
    """Those of the high that is shown."""
    return [found for found in where.json["python"] if found["high"] == where.json["high"]]


def is_of(found, truth):
    """Whether a stack that was read is that of the job. Names are qualified from 3.11 on."""
    frames = found["frames"]
    if frames[-1]["function"] == "grow":
        frames = frames[:-1]
    return [(f["function"].split(".")[-1], f["file"], f["line"]) for f in frames] == [tuple(f) for f in truth["frames"]]


def run(runs, tmp_path, python, text, **how):
    path = tmp_path / "job.py"
    path.write_text(text)
    where = runs(command=[python, path], **how)
    return where, [json.loads(line) for line in where.result.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stack_of_each_version(runs, tmp_path, version):
    python = pythons(version)[version]
    if not python:
        pytest.skip(f"no Python {version}")
    where, (truth,) = run(runs, tmp_path, python, PLAIN)
    found, = stacks(where)
    assert is_of(found, truth), (found["frames"], truth)
    assert (found["pid"], found["thread"]) == (truth["pid"], truth["pid"])


def test_this_interpreter(runs, tmp_path):
    """The one that runs the tests, which has its code in the program or in a library."""
    where, (truth,) = run(runs, tmp_path, sys.executable, PLAIN)
    if f"3.{sys.version_info.minor}" in VERSIONS:
        assert is_of(stacks(where)[0], truth), (stacks(where), truth)
    else:
        assert stacks(where) == []


def test_as_nobody(tool, tmp_path):
    sampling()
    runs = nobody_runs(tool, compile_job(tmp_path))
    python = next((p for p in ("/usr/bin/python3.11", "/usr/bin/python3") if os.access(p, os.X_OK)), None)
    if not python:
        pytest.skip("no Python in /usr/bin")
    where, (truth,) = run(runs, tmp_path, python, PLAIN)
    if pathlib.Path(python).resolve().name[6:] in VERSIONS:
        assert is_of(stacks(where)[0], truth), stacks(where)


def test_the_table_shows_it(runs, tmp_path):
    where, _ = run(runs, tmp_path, sys.executable, PLAIN)
    if not stacks(where):
        pytest.skip(f"Python 3.{sys.version_info.minor} is not known")
    shown = runs.tool.run("where", tmp_path / "run1.hiw").stdout
    line, = [line for line in shown.splitlines() if line.startswith("python ")]
    assert "was in grow job.py:" in line and " < … < numbers job.py:48 < main job.py:54 < <module> job.py:62" in line and f"({stacks(where)[0]['pid']})" in line, line
    report = tmp_path / "report.html"
    assert runs.tool.run("report", tmp_path / "run1.hiw", "-o", report).returncode == 0
    assert "main job.py:" in report.read_text().replace("\u00a0", " ")


def test_a_thread(runs, tmp_path):
    """Of the thread that touches the memory, while the main thread waits."""
    for version, python in pythons(*VERSIONS).items():
        if not python:
            continue
        where, (truth,) = run(runs, tmp_path, python, HEAD + '''
import threading
def work():
    grow()
    print(threading.get_native_id())
t = threading.Thread(target=work)
t.start()
t.join()
''')
        found, = stacks(where)
        assert is_of(found, truth), (version, found["frames"], truth)
        assert found["thread"] == int(where.result.stdout.splitlines()[1]) != found["pid"], version


def test_workers(runs, tmp_path):
    """Processes that were forked, all of which grow."""
    where, truths = run(runs, tmp_path, sys.executable, HEAD + '''
def child():
    grow(40)
    time.sleep(0.5)
pids = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        child()
        os._exit(0)
    pids.append(pid)
for pid in pids:
    os.waitpid(pid, 0)
''')
    if f"3.{sys.version_info.minor}" not in VERSIONS:
        pytest.skip(f"Python 3.{sys.version_info.minor} is not known")
    by_pid = {truth["pid"]: truth for truth in truths}
    children = [found for found in stacks(where) if found["pid"] in by_pid]  # the parent may have grown, too
    assert children and len(stacks(where)) <= len(children) + 1
    assert all(is_of(found, by_pid[found["pid"]]) for found in children), (stacks(where), truths)
    lines = [line for line in runs.tool.run("where", tmp_path / "run1.hiw").stdout.splitlines() if line.startswith("python ")]
    distinct = {(s["high"], json.dumps(s["frames"])) for s in where.json["python"]}
    assert 1 <= len(lines) <= len(distinct) and not any("more" in line and " was in " in line for line in lines), lines


def test_a_deep_stack_is_cut(runs, tmp_path):
    where, _ = run(runs, tmp_path, sys.executable, HEAD + '''
def deeper(n):
    return deeper(n - 1) if n else grow()
deeper(400)
''')
    if not stacks(where):
        pytest.skip(f"Python 3.{sys.version_info.minor} is not known")
    frames = stacks(where)[0]["frames"]
    assert len(frames) == 100 and frames[0] == {"function": "…", "file": None, "line": None}
    assert frames[-1]["function"] == "grow" and {f["function"] for f in frames[1:-1]} == {"deeper"}


def test_each_high_has_its_own(runs, tmp_path):
    """What rose last is not what rose before; a small rise afterwards changes nothing."""
    where, _ = run(runs, tmp_path, sys.executable, HEAD + '''
def first():
    return grow(100)
def second():
    return grow(200)
def third():
    return grow(1, 3)
kept = [first()]
time.sleep(1.5)
kept.append(second())
time.sleep(1.5)
kept.append(third())
time.sleep(1.2)
''')
    if not stacks(where):
        pytest.skip(f"Python 3.{sys.version_info.minor} is not known")
    assert "second" in [f["function"] for f in stacks(where)[0]["frames"]], stacks(where)
    earlier = [f["function"] for s in where.json["python"] for f in s["frames"] if s["high"] < where.json["high"]]
    assert "first" in earlier, earlier
    shown = runs.tool.run("where", tmp_path / "run1.hiw").stdout
    lines = [line for line in shown.splitlines() if line.startswith("python ")]
    names = [name for line in lines for name in ("first", "second", "third") if f"< {name} " in line]
    assert names[-1] == "second" and names == sorted(names) and "first" in names, lines
    first = next(s["high"] for s in where.json["python"] if "first" in [f["function"] for f in s["frames"]])
    at_first = json.loads(runs.tool.run("where", tmp_path / "run1.hiw", "--high", str(first), "--json").stdout)
    assert "second" not in [f["function"] for s in at_first["python"] for f in s["frames"]]


def test_a_child_that_only_reads(runs, tmp_path):
    """Reference counts copy what it reads, and so its memory rises."""
    where, _ = run(runs, tmp_path, sys.executable, """
import os, time
data = [[str(i) * 3 for i in range(20_000)] for _ in range(50)]
time.sleep(1.3)
def read_all():
    for part in data:
        kept = [item for item in part]
        time.sleep(0.01)
    time.sleep(0.6)
if os.fork() == 0:
    read_all()
    os._exit(0)
os.wait()
""")
    if f"3.{sys.version_info.minor}" not in VERSIONS:
        pytest.skip(f"Python 3.{sys.version_info.minor} is not known")
    assert "read_all" in [f["function"] for s in where.json["python"] for f in s["frames"]], where.json["python"]


def test_an_idle_child_is_not_read(runs, tmp_path):
    """What it shares with its parent is no rise."""
    where, (truth,) = run(runs, tmp_path, sys.executable, HEAD + """
kept = bytearray(300 << 20)
time.sleep(1.2)
def idle():
    time.sleep(1)
if os.fork() == 0:
    grow(100)
    time.sleep(1)
    os._exit(0)
time.sleep(0.3)
if os.fork() == 0:
    idle()
    os._exit(0)
os.wait()
os.wait()
""")
    if f"3.{sys.version_info.minor}" not in VERSIONS:
        pytest.skip(f"Python 3.{sys.version_info.minor} is not known")
    functions = [f["function"] for s in where.json["python"] for f in s["frames"]]
    assert "grow" in functions and "idle" not in functions, where.json["python"]


def test_code_without_a_file(runs, tmp_path):
    where, _ = run(runs, tmp_path, sys.executable, HEAD + """
exec(compile("def worker(): return grow()", "", "exec"))
kept = worker()
""")
    if not stacks(where):
        pytest.skip(f"Python 3.{sys.version_info.minor} is not known")
    frame, = [f for f in stacks(where)[0]["frames"] if f["function"] == "worker"]
    assert (frame["file"], frame["line"]) == ("?", 1)


def test_a_job_without_python(tool, tmp_path):
    sampling()
    where = Runs(tool, compile_job(tmp_path))("first", "100", "hold", "300")
    assert stacks(where) == []


# A program with the interpreter's name and symbols, which lead in circles and to nowhere.
FORGED = r'''
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
uint64_t PyCode_Type[8], _PyRuntime[64];
static uint64_t interpreter[4096], thread[64], frame[64], code[64], text[64], cframe[8], lines[64];
int main(int argc, char **argv)
{
    const int how = argc > 1 ? atoi(argv[1]) : 0;
    char *at;

    _PyRuntime[4] = _PyRuntime[5] = (uint64_t) interpreter;
    interpreter[0] = (uint64_t) interpreter;               /* the next one is the same one */
    for (int i = 1; i < 64; i++)
        interpreter[i] = (uint64_t) thread;
    thread[1] = how == 1 ? (uint64_t) thread : 0;          /* likewise */
    for (int i = 2; i < 64; i++)
        thread[i] = (uint64_t) cframe;
    thread[3] = (uint64_t) frame;
    cframe[0] = cframe[1] = (uint64_t) frame;
    for (int i = 0; i < 64; i++) {
        frame[i] = (uint64_t) code;
        code[i] = how == 3 ? (uint64_t) -8 : (uint64_t) text;
    }
    frame[6] = frame[3] = how == 2 ? (uint64_t) frame : 0; /* the caller is the same one */
    frame[8] = 0;
    code[1] = (uint64_t) PyCode_Type;
    text[2] = how == 4 ? (uint64_t) -1 : how == 5 ? INT32_MAX : 3;
    memset(&text[4], 0x64, 64);
    code[17] = (uint64_t) lines;
    lines[2] = how == 6 ? (uint64_t) 1 << 40 : 16;
    memset(&lines[4], 0xff, 200);
    if (how == 7)                                          /* lines that are far away */
        for (int i = 0; i < 16; i++)
            memcpy((char *) &lines[4] + 11 * i, "\350\177\177\177\177\177\177\177\177\177>", 11);
    lines[2] = how == 7 ? 176 : lines[2];
    at = mmap(0, 200 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 40; i++) {
        memset(at + ((size_t) i * 5 << 20), 1, 5 << 20);
        usleep(10000);
    }
    usleep(200000);
    return 0;
}
'''


@pytest.mark.parametrize("version", ["3.8", "3.11", "3.12"])
def test_a_forged_interpreter(runs, tmp_path, version):
    """No crash, no hang; and the rest of the answer is there."""
    (tmp_path / "forged.c").write_text(FORGED)
    program = tmp_path / f"python{version}"
    subprocess.run(["cc", "-rdynamic", "-O1", "-o", program, tmp_path / "forged.c"], check=True)
    for how in range(8):
        where = runs(str(how), command=[program])
        assert "hiwater-where" not in where.result.stderr, where.result.stderr
        assert 195 <= sum(row["bytes"] for row in where.rows) / MIB <= 206, str(where)
        for stack in stacks(where):
            assert 1 <= len(stack["frames"]) <= 100


def test_names_that_are_no_interpreters(runs, tmp_path):
    """By its name alone a program is no interpreter."""
    program = tmp_path / "python3.11"
    shutil.copy(compile_job(tmp_path), program)
    where = runs("first", "100", "hold", "300", command=[program])
    assert stacks(where) == [] and where.result.stderr == "", where.result.stderr

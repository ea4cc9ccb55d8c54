# SPDX-License-Identifier: MIT
"""hiwater.track: figures of programs whose use is known by construction, the interface, and
errors."""
import json
import re
import sqlite3

import pytest
from track_helpers import DEADLINE, MIB, ROOT, pythons, texts

SLACK = 8 * MIB  # memory that the interpreter allocates meanwhile
GIVEN = MIB  # memory that it may release: its own objects, read buffers


def test_a_burst_between_two_looks_is_exact(program):
    """50 ms of 300 MiB, with one sample each 10 s; before the block the program used more."""
    [told] = program.run("""
        del [fill(500)][0]
        before = int(open("/proc/self/statm").read().split()[1]) * 4096
        with hiwater.track(interval=10) as run:
            block = fill(300); time.sleep(0.05); del block
        ram = run.summary.ram
        tell(before=before, main=ram.main.peak_bytes, method=ram.main.method, combined=ram.combined.peak_bytes,
             combined_method=ram.combined.method, seen=run.summary.processes.seen)
    """)
    assert told["method"] == told["combined_method"] == "exact" and told["seen"] == 1
    assert 300 * MIB - GIVEN <= told["main"] - told["before"] <= 300 * MIB + SLACK
    assert told["combined"] == told["main"]


def test_names_of_recordings_have_the_rank(program):
    """In what was given, not in the folder of the program."""
    [told] = program.run("""
        import os, pathlib
        here = pathlib.Path("50%train%x"); here.mkdir(); os.chdir(here)
        with hiwater.track(output="r%r-%%.hiw") as run: pass
        with hiwater.track(output="there/") as other: pass
        tell(paths=[str(p) for p in sorted(pathlib.Path(".").rglob("*.hiw"))],
             found=[os.path.relpath(str(r.recording.path)) for r in (run, other)])
    """)
    assert told["paths"] == sorted(["r0-%.hiw", told["found"][1]]) and told["found"][0] == "r0-%.hiw"
    assert re.fullmatch(r"there/[^/]+-r0\.hiw", told["found"][1])


def test_limits_of_the_process(program):
    """RLIMIT_AS and the address space of this process, in the block alone; what it used before is not the block's."""
    [told] = program.run("""
        import mmap, resource
        big = mmap.mmap(-1, 3000 * MIB); big.close()
        resource.setrlimit(resource.RLIMIT_AS, (4000 * MIB, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_RSS, (1 * MIB, resource.RLIM_INFINITY))
        with hiwater.track(interval=0.02) as run:
            block = fill(200)
            time.sleep(0.3)
        r = run.summary.ram.rlimits
        tell(limit=r.address_space.limit_bytes, peak=r.address_space.peak_bytes, pid=r.address_space.pid == os.getpid(), data=r.data,
             rss=r.rss_bytes, findings=[f.code for f in run.summary.findings])
    """)
    assert told["limit"] == 4000 * MIB and told["rss"] == MIB
    assert 200 * MIB < told["peak"] < 3000 * MIB
    assert told["pid"] and told["data"] is None
    assert "rlimit" not in told["findings"]


def test_phases_have_exact_peaks_of_their_own(program):
    """Nested phases too: a reset at an inner one loses nothing of the outer one, before or after
    it."""
    told = program.run("""
        with hiwater.track(interval=10, output="a.hiw") as run:
            with run.phase("outer", epoch=3, split="train"):
                block = fill(300); del block
                with run.phase("small"):
                    block = fill(40); del block
                    with run.phase("none"):
                        pass
                with run.phase("middle"):
                    block = fill(100); del block
            with run.phase("late"):
                with run.phase("inner"):
                    block = fill(200); del block
                block = fill(20); del block
        for p in run.summary.phases:
            tell(name=p.name, facts=p.facts, rose=p.ram.peak_bytes - p.ram.before_bytes, exact=p.peak_exact, wall=p.wall_s)
    """)
    expected = {"outer": 300, "small": 40, "none": 0, "middle": 100, "late": 200, "inner": 200}
    assert [t["name"] for t in told] == list(expected)
    for t in told:
        assert expected[t["name"]] * MIB - GIVEN <= t["rose"] <= expected[t["name"]] * MIB + SLACK, t
        assert t["exact"] and t["wall"] >= 0
    assert told[0]["facts"] == {"epoch": 3, "split": "train"}
    with sqlite3.connect(program.folder / "a.hiw") as c:
        assert c.execute("SELECT peak_exact, facts FROM phase WHERE name = 'outer'").fetchall() == [(1, "epoch=3\nsplit=train")]
    assert [p["ram"]["method"] for p in program.shown("a.hiw")["phases"]] == ["exact"] * 6


def test_without_exact_nothing_is_set_back(program):
    [told] = program.run("""
        import resource
        del [fill(400)][0]
        with hiwater.track(exact=False) as run:
            with run.phase("p"):
                block = fill(100); time.sleep(0.3); del block
        [p] = run.summary.phases
        tell(method=p.ram.method, peak=p.ram.peak_bytes, main=run.summary.ram.main.method,
             usage=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    """)
    assert told["method"] == "sampled" and told["main"] != "exact"
    assert told["usage"] >= 400 * MIB
    assert 100 * MIB <= told["peak"] <= 200 * MIB


def test_several_at_once_do_not_take_each_others_peaks(program):
    told = program.run("""
        outer = hiwater.start("outer", interval=10)
        block = fill(300); del block
        with hiwater.track("inner", interval=10) as inner:
            with inner.phase("p"):
                block = fill(50); del block
            with outer.phase("q"):
                block = fill(100); del block
        assert hiwater.stop() is outer and hiwater.stop() is None and hiwater.last() is outer
        for run in (outer, inner):
            ram = run.summary.ram.main
            tell(peak=ram.peak_bytes, method=ram.method, phases=[p.name for p in run.summary.phases],
                 exact=[p.peak_exact for p in run.summary.phases])
    """)
    assert [t["method"] for t in told] == ["exact", "exact"]
    assert [t["phases"] for t in told] == [["q"], ["p"]] and told[0]["exact"] == told[1]["exact"] == [True]
    assert told[0]["peak"] >= 300 * MIB
    assert 100 * MIB <= told[1]["peak"] <= 200 * MIB


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_are_measured(program, method):
    """Their memory counts; their messages are not recorded for the parent; they do not hang."""
    [told] = program.run(f"""
        import multiprocessing

        def work(run, ready, go):
            block = fill(100)
            run.log(child=1); run.mark("child")
            with run.phase("child"):
                pass
            assert not run.is_running and run.stop() is None
            ready.release(); go.wait()

        if __name__ == "__main__":
            context = multiprocessing.get_context({method!r})
            ready, go = context.Semaphore(0), context.Event()
            with hiwater.track(interval=0.02, output="a.hiw") as run:
                children = [context.Process(target=work, args=(run, ready, go)) for _ in range(3)]
                for c in children: c.start()
                for c in children: ready.acquire()
                time.sleep(0.3); go.set()
                for c in children: c.join()
            s = run.summary
            tell(codes=[c.exitcode for c in children], combined=s.ram.combined.peak_bytes, seen=s.processes.seen,
                 rest=s.ram.descendants.peak_bytes, series=list(s.series), phases=len(s.phases))
    """)
    assert told["codes"] == [0, 0, 0] and told["seen"] >= 4
    assert told["combined"] >= 300 * MIB and told["rest"] >= 300 * MIB
    assert told["series"] == [] and told["phases"] == 0
    assert texts(program.folder / "a.hiw", "mark") == []


def test_another_process(program):
    [told] = program.run("""
        import subprocess
        child = subprocess.Popen([sys.executable, "-c", "b = bytearray(200 << 20); b[::4096] = b'x' * len(b[::4096]); input()"],
                                 stdin=subprocess.PIPE)
        run = hiwater.track("it", pid=child.pid, interval=0.02).start()
        time.sleep(0.5)
        so_far = run.summary.ram.main.peak_bytes
        child.communicate(b"\\n")
        run.stop()
        tell(so_far=so_far, peak=run.summary.ram.main.peak_bytes, name=run.summary.run.name, wall=run.summary.wall_s)
    """)
    assert told["name"] == "it" and told["peak"] >= 200 * MIB and told["so_far"] <= told["peak"]


def test_decorators(program):
    program.run("""
        import asyncio

        @hiwater.track
        def plain(x, *, y):
            "its words"
            return x + y

        @hiwater.track("named", interval=0.01)
        def named(): raise ValueError("mine")

        @hiwater.track(interval=0.01)
        async def later(): await asyncio.sleep(0.1); return 5

        @hiwater.track(interval=0.01)
        def pieces():
            time.sleep(0.1)
            yield 1
            time.sleep(0.1)
            yield 2

        assert plain(1, y=2) == 3 and plain.__doc__ == "its words"
        assert hiwater.last().summary.run.name == "plain"
        assert plain(1, y=3) == 4
        try: named()
        except ValueError as e: assert str(e) == "mine"
        assert hiwater.last().summary.run.name == "named"
        assert asyncio.run(later()) == 5 and hiwater.last().summary.wall_s >= 0.1
        assert list(pieces()) == [1, 2] and hiwater.last().summary.wall_s >= 0.2

        with hiwater.track() as run:
            @run.phase("work", kind="a b")
            def work(): return 7
            assert work() == work() == 7
        assert [(p.name, p.facts) for p in run.summary.phases] == [("work", {"kind": "a b"})] * 2
    """)


def test_threads(program):
    program.run("""
        with hiwater.track() as run:
            def work(k):
                for i in range(20):
                    with run.phase(f"thread{k}"):
                        run.log(**{f"s{k}": i})
            threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
            for t in threads: t.start()
            for t in threads: t.join()
            live = run.summary
        s = run.summary
        assert len(s.phases) == 120 and all(p.end_s is not None for p in s.phases), len(s.phases)
        assert [s.series[f"s{k}"].n for k in range(6)] == [20] * 6
        assert not live.run.complete and s.run.complete and run.warnings == []

        one = []
        def whole():
            with hiwater.track("in a thread") as run:
                pass
            one.append(run)
        t = threading.Thread(target=whole); t.start(); t.join()
        assert one[0].summary.run.complete
    """)


def test_lines_about_the_present(program):
    program.run("""
        with hiwater.track(print_every=0.1): time.sleep(0.35)
    """, quiet=False)
    lines = program.stderr.splitlines()
    assert 2 <= len(lines) <= 4 and all("RAM" in line for line in lines), program.stderr


def test_the_summary_at_the_end(program):
    program.run("""
        with hiwater.track(summary="full", output="a.hiw"): pass
        with hiwater.track(summary="line"): pass
    """, quiet=False)
    assert "RAM       peak" in program.stderr and "ram_peak=" in program.stderr.splitlines()[-1], program.stderr


def test_all_options_of_the_command(program):
    """Options that choose processes or the duration belong to the block, not to the command."""
    known = re.findall(r'"(-[-a-z]+)"', (ROOT / "python" / "hiwater" / "_options.py").read_text())
    offered = set(re.findall(r"^ +(?:-[a-z], +)?(-[-a-z]+)", program.hiwater("attach", "--help"), re.M))
    assert {"--units", "--interval", "--gpu"} <= offered
    assert offered - set(known) == {"--name", "--container", "--for", "--wait-start", "--help"}
    program.run("""
        import json
        with hiwater.track(units="si", plain=True, json="a.json", summary_file="a.txt", record=False) as run: pass
        assert json.loads(pathlib.Path("a.json").read_text())["ram"]["combined"]["peak_bytes"] == run.summary.ram_peak_bytes
        assert "RAM peak: " in str(run.summary) and " MB" in str(run.summary) and "RAM peak: " in pathlib.Path("a.txt").read_text()
    """)


def test_facts_may_have_any_name(program):
    program.run("""
        with hiwater.track() as run:
            with run.phase("p", name=3): pass
        assert run.summary.phases[0].facts == {"name": 3}, run.summary.phases
    """)


@pytest.mark.parametrize("call, words", [
    ("hiwater.track(intervall=1)", "unknown option 'intervall'"),
    ("hiwater.track(4711)", "track(pid=4711)"),
    ("hiwater.track(summary='long')", "summary='long'"),
    ("hiwater.track(interval=0).start()", "give 1ms to 1h"),
    ("hiwater.track(alert='ram >').start()", "ram >"),
    ("hiwater.track(pid=2**22 + 1, strict=True).start()", "cannot attach to"),
    ("hiwater.track(output='there', strict=True).start()", "there"),
    ("hiwater.track(output='/nowhere/a.hiw', strict=True).start()", "/nowhere"),
    ("hiwater.track(gpu='some').start()", "some"),
    ("hiwater.track(record='zz')", "'zz'"),
    ("hiwater.track().stop()", "not started"),
    ("hiwater.track().summary", "no summary"),
    ("hiwater.track().to_pandas()", "no recording"),
    ("[r := hiwater.track().start(), r.start()]", "already"),
    ("hiwater.open('nothing-like-it')", "nothing-like-it"),
    ("hiwater.track('x' * 50000).start()", "has 50000 bytes; give one of at most 1000"),
    ("hiwater.track(interval=float('nan'))", "invalid time nan"),
    ("hiwater.track(interval=float('inf'))", "invalid time inf"),
    ("hiwater.track(grace=[])", "invalid time []"),
    ("hiwater.open(None)", "cannot open None"),
    ("hiwater.open(b'a.hiw')", "cannot open b'a.hiw'"),
    ("hiwater.Summary.from_json('{}')", "schema is missing"),
    ("hiwater.Summary.from_json('[1]')", "schema is missing"),
    ("hiwater.Summary.from_json('{')", "invalid JSON"),
    ("hiwater.Summary.from_json('{\"schema\": 99}')", "has schema 99, and this package reads 2"),
    ("os.environ.update(HIWATER_COMMAND='/nowhere/hiwater') or hiwater.track(strict=True).start()", "/nowhere/hiwater"),
    ("os.environ.update(HIWATER_COMMAND='/bin/true') or hiwater.track(strict=True).start()", "before it began"),
])
def test_errors_say_what(program, call, words):
    [told] = program.run(f"""
        pathlib.Path("there").touch()
        try:
            {call}
        except hiwater.Error as e:
            tell(text=str(e))
        else:
            raise AssertionError("no error")
    """)
    assert words in told["text"], told["text"]


def test_importing_costs_nothing(program):
    program.run("""
        assert "hiwater" in sys.modules
        import subprocess
        said = subprocess.run([sys.executable, "-c", "import sys; before = set(sys.modules); import hiwater; "
                               "print(*sorted(set(sys.modules) - before))"], capture_output=True, text=True, check=True)
        assert said.stdout.split() == ["hiwater"], said.stdout
    """)


def test_on_every_python(program):
    text = """
        with hiwater.track(output=f"{sys.version_info[1]}.hiw") as run:
            with run.phase("p", n=1): block = fill(50)
        assert run.summary.phases[0].peak_exact and run.summary.ram_peak_bytes >= 50 * MIB and str(run.summary)
        assert run.recording.columns("phase")["name"] == ["p"]
    """
    for python in pythons():
        process = program.start(text, str(python), interpreter=())
        _, stderr = process.communicate(timeout=DEADLINE)
        assert process.returncode == 0 and stderr == "", f"{python}: {stderr}"


def test_a_block_that_raised_did_not_succeed(program):
    """Its summary, findings, JSON and the list of runs say so; its figures are lower bounds. The end of a generator and sys.exit(0)
    are no failures; what is left open when an exception ends the program is one."""
    program.run("""
        class Odd(Exception): pass
        @hiwater.track("decorated", output="b.hiw")
        def fail(): raise Odd("password=hunter2")
        try: fail()
        except Odd: pass
        tell(decorated=hiwater.last().summary.exit.raised)
        with hiwater.track("fine") as run: time.sleep(0.05)
        assert run.summary.exit.raised is None and "failed" not in [f.code for f in run.summary.findings]
        try:
            with hiwater.track("fit", output="a.hiw") as run:
                raise MemoryError
        except MemoryError: pass
        shown = run.summary
        assert shown.exit.raised == "MemoryError" and "block fit raised MemoryError after" in str(shown).replace("\\xa0", " "), str(shown)
        assert "raised MemoryError" in repr(run) and [f.code for f in shown.findings] == ["failed"]
        request = shown.to_dict()["request"]
        assert request["memory_bytes"] is None and request["memory"]["at_least"] and request["runs_succeeded"] == 0
        @hiwater.track
        def values(): yield from (1, 2)
        for _ in values(): break
        assert hiwater.last().summary.exit.raised is None
        for code in (0, None, 3):
            try:
                with hiwater.track() as run: sys.exit(code)
            except SystemExit: pass
            assert run.summary.exit.raised == ("SystemExit" if code else None), code
    """)
    assert program.told() == [{"decorated": "Odd"}]
    assert program.shown("b.hiw")["exit"]["raised"] == "Odd"
    program.run("""
        hiwater.start("open", output="c.hiw")
        raise KeyError("x")
    """, status=1, quiet=False)
    assert program.shown("c.hiw")["exit"]["raised"] == "KeyError"


def test_runs_lists_a_block_that_raised(program):
    program.run("""
        for name in ("good", "bad"):
            try:
                with hiwater.track(name):
                    time.sleep(1.1)
                    if name == "bad": raise ValueError
            except ValueError: pass
    """)
    listed = program.hiwater("runs", "--failed")
    assert " bad " in listed and " raised " in listed and " good " not in listed, listed
    rows = json.loads(program.hiwater("runs", "--json"))
    assert [row["exit"]["raised"] for row in rows] == [None, "ValueError"]

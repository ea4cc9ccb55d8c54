# SPDX-License-Identifier: MIT
"""hiwater.track: what it says of programs whose use is known by construction, and that nothing becomes of them."""
import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys

import pytest
from track_helpers import COMMAND, DEADLINE, MIB, ROOT, recorders_of, wait_for

SLACK = 8 * MIB  # what an interpreter takes meanwhile
GIVEN = MIB  # what it may give back: its own objects, buffers of reading


def texts(file, kind):
    with sqlite3.connect(file) as c:
        return [t for (t,) in c.execute("SELECT text FROM event WHERE kind = ? ORDER BY rowid", [kind])]


# ---- truth ---------------------------------------------------------------------------------------------------------------

def test_a_burst_between_two_looks_is_exact(program):
    """50 ms of 300 MiB, with a look each 10 s; more than that was there before the block."""
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


def test_phases_have_exact_peaks_of_their_own(program):
    """Nested ones too: what an inner one sets back is not lost to the outer, before it or behind it."""
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
    """Their memory counts; what they tell is not the parent's to record; they do not hang."""
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


# ---- what the program tells ------------------------------------------------------------------------------------------------

def test_logged_values_and_marks(program):
    program.run("""
        with hiwater.track(output="a.hiw") as run:
            for i in range(1000):
                run.log(loss=1 / (i + 1), step=i)
            run.log({"val/loss": float("nan")}); run.log(big=float("inf"), small=-1e-300)
            run.mark("half"); run.mark("of it")
        s = run.summary.series
        assert (s["loss"].n, s["loss"].first, s["loss"].last, s["loss"].last_step) == (1000, 1, 1 / 1000, 999), s
        assert s["loss"].sum > 7 and s["big"].last == float("inf") and s["small"].last == -1e-300
        assert s["val/loss"].n == 1 and s["val/loss"].first != s["val/loss"].first
        assert run.warnings == []
    """)
    assert texts(program.folder / "a.hiw", "mark") == ["half", "of it"]
    with sqlite3.connect(program.folder / "a.hiw") as c:
        rows = c.execute("SELECT step, value FROM series_value WHERE series = 1 ORDER BY rowid").fetchall()
    assert rows == [(i, 1 / (i + 1)) for i in range(1000)]


def test_any_number_of_values_in_one_call(program):
    """80 are those of one time; what one message does not hold goes as several, each with the step. Also to the recorder around."""
    text = """
        import contextlib
        with hiwater.track(output="inner.hiw") if INNER else contextlib.nullcontext() as run:
            hiwater.log({f"class{i}": i for i in range(80)}, step=3)
            hiwater.log({f"much/{'x' * 40}{i}": i for i in range(1000)}, step=4)
            hiwater.log({"\u00e4" * 500: 1})
        assert not run or run.warnings == []
    """
    program.run("        INNER = True" + text)
    program.run("        INNER = False" + text, COMMAND, "run", "--summary", "none", "-o", "outer.hiw", "--")
    for name in ("inner.hiw", "outer.hiw"):
        series = program.shown(name)["series"]
        assert [series[f"class{i}"]["last"] for i in range(80)] == list(range(80)), name
        assert [series[f"much/{'x' * 40}{i}"]["last_step"] for i in range(1000)] == [4] * 1000, name
        assert series["\u00e4" * 500]["n"] == 1, name
        with sqlite3.connect(program.folder / name) as c:
            [[times, n]] = c.execute("SELECT count(DISTINCT t), count(*) FROM series_value WHERE step = 3")
        assert (times, n) == (1, 80), name


def test_a_step_has_64_bits(program):
    program.run("""
        steps = [2**53 + 1, 1795373046552457965, 2**63 - 1, -2**63]
        with hiwater.track(output="a.hiw") as run:
            for step in steps:
                run.log(a=1, step=step)
            assert run.warnings == []
            run.log(a=2, step=2**63); run.log(a=3, step=10**5000)
        s = run.summary.series["a"]
        assert (s.n, s.last, s.last_step) == (6, 3, -2**63), s
        [warning] = run.warnings
        assert "64 bits is left out; the values are kept" in warning
    """)
    with sqlite3.connect(program.folder / "a.hiw") as c:
        rows = c.execute("SELECT step FROM series_value ORDER BY rowid").fetchall()
    assert rows == [(2**53 + 1,), (1795373046552457965,), (2**63 - 1,), (-2**63,), (None,), (None,)]


def test_a_mark_that_is_too_long_is_said_to_be(program):
    text = """
        for n in (4096, 4097, 9000, 300000):
            hiwater.mark("x" * n)
        hiwater.mark("\u00e4" * 2049)
    """
    program.run(f"""
        with hiwater.track(output="inner.hiw") as run:
        {text.replace(chr(10), chr(10) + "    ")}
        [warning] = run.warnings
        assert "longer than the 4096 bytes" in warning and "shorten it" in warning
    """)
    program.run(text, COMMAND, "run", "--summary", "none", "-o", "outer.hiw", "--")
    for name in ("inner.hiw", "outer.hiw"):
        assert texts(program.folder / name, "mark") == ["x" * 4096], name
    notes = [note for note in texts(program.folder / "outer.hiw", "note") if note.startswith("mark:")]
    assert len(notes) == 4 and all("longer than the 4096 bytes" in note for note in notes)


def test_what_is_no_number_is_named(program):
    program.run("""
        with hiwater.track(record=False) as run:
            for value, kind in ((None, TypeError), ("x", ValueError), (10**400, OverflowError)):
                try:
                    run.log(good=1, bad=value)
                except kind as e:
                    assert "'bad'" in str(e), e
                else:
                    raise AssertionError("no error")
        assert not run.summary.series
    """)


def test_waiting_for_data_is_told(program):
    [told] = program.run("""
        class Slow:
            batch_size = 7
            def __len__(self): return 20
            def __iter__(self):
                for i in range(20):
                    time.sleep(0.02)
                    yield i
        with hiwater.track() as run:
            loader = run.wrap_loader(Slow())
            assert len(loader) == 20 and loader.batch_size == 7
            began = time.perf_counter()
            for i in loader:
                time.sleep(0.005)
            whole = time.perf_counter() - began
        s = run.summary
        tell(wait=s.data_wait_s, steps=s.series["step_time"].sum, whole=whole, n=s.series["data_wait"].n)
    """)
    assert 20 * 0.02 <= told["wait"] <= told["whole"] - 20 * 0.005
    assert abs(told["steps"] - told["whole"]) < 0.05 * told["whole"]
    assert told["n"] <= 10 * told["whole"] + 2


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
    """Those that say which processes and how long are the block's own."""
    known = re.findall(r'"(-[-a-z]+)"', (ROOT / "python" / "hiwater" / "_options.py").read_text())
    offered = set(re.findall(r"^ +(?:-[a-z], +)?(-[-a-z]+)", program.hiwater("attach", "--help"), re.M))
    assert {"--units", "--interval", "--gpu"} <= offered
    assert offered - set(known) == {"--name", "--for", "--help"}
    program.run("""
        import json
        with hiwater.track(units="si", plain=True, json="a.json", summary_file="a.txt", record=False) as run: pass
        assert json.loads(pathlib.Path("a.json").read_text())["ram"]["combined"]["peak_bytes"] == run.summary.ram_peak_bytes
        assert "RAM peak: " in str(run.summary) and " MB" in str(run.summary) and "RAM peak: " in pathlib.Path("a.txt").read_text()
    """)


# ---- harmless ----------------------------------------------------------------------------------------------------------------

def test_no_child_is_to_be_waited_for(program):
    program.run("""
        got = []
        signal.signal(signal.SIGCHLD, lambda *_: got.append(1))
        with hiwater.track() as run:
            del got[:]
            try: os.wait()
            except ChildProcessError: pass
            else: raise AssertionError("os.wait() saw a child")
            time.sleep(0.2)
        try: os.wait()
        except ChildProcessError: pass
        else: raise AssertionError("os.wait() saw a child")
        assert not got
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        with hiwater.track() as run: pass
        assert run.summary.run.complete
        from hiwater import _run
        assert not recorders() or time.sleep(1) or not recorders()
    """)


def test_a_forked_child_is_left_alone(program):
    """It has no exec. It neither hangs nor records, and its end is not the run's."""
    program.run("""
        with hiwater.track(output="a.hiw") as run:
            with run.phase("p"):
                child = os.fork()
                if child == 0:
                    run.log(child=1); run.mark("child"); run.stop()
                    with run.phase("q"): pass
                    with hiwater.track(record=False) as own: own.mark("own")
                    sys.exit(0 if own.summary.run.complete and not run.is_running else 1)
                assert os.waitpid(child, 0)[1] == 0
            run.mark("parent")
        assert run.summary.run.complete and list(run.summary.series) == []
        assert [p.name for p in run.summary.phases] == ["p"]
    """)
    assert texts(program.folder / "a.hiw", "mark") == ["parent"]


def test_the_recorder_is_killed(program):
    """The program goes on to its own end; what was recorded can be read."""
    [told] = program.run("""
        def recorded_mib():
            try: return (hiwater.open("a.hiw").summary.ram.main.peak_bytes or 0) / MIB
            except hiwater.Error: return 0
        with hiwater.track(output="a.hiw") as run:
            block = fill(100)
            while not run.path or recorded_mib() < 100: time.sleep(0.01)
            [pid] = recorders()
            os.kill(pid, signal.SIGKILL)
            while recorders(): time.sleep(0.01)
            run.log(loss=1); run.mark("x")
            with run.phase("p"): pass
            peak = run.summary.ram.main.peak_bytes
        tell(peak=peak, complete=run.summary.run.complete, warnings=run.warnings, path=run.path)
    """)
    assert told["peak"] >= 100 * MIB and told["complete"] is False
    assert told["warnings"] and told["path"] == str(program.folder / "a.hiw")


@pytest.mark.parametrize("options", ["output='a.hiw'", "output='[%r].hiw'", ""])
def test_the_recorder_is_killed_before_it_tells_its_file(program, options):
    """What it wrote is found all the same, from whatever folder: it says who has written it."""
    here = repr(f"{program.folder}/")
    [told] = program.run(f"""
        from hiwater._channel import Channel
        take = Channel._take
        Channel._take = lambda self, message: message.startswith(b"0 file") or take(self, message)
        def written():
            try: return hiwater.open({options.replace("%r", "0").replace("output=", here + "+")}).summary.run.recording
            except hiwater.Error: return None
        run = hiwater.track({options}).start()
        while not written(): time.sleep(0.01)
        other = hiwater.track().start()  # newer, and not its own
        while not other.summary.wall_s > 1.5: time.sleep(0.05)
        pid, path = run._channel._recorder.pid, run.path
        os.chdir("/")
        os.kill(pid, signal.SIGKILL)
        so_far = run.summary.run.complete
        run.stop(); other.stop()
        tell(path=path, so_far=so_far, whole=run.summary.run.complete, now=run.path, there=written(), others=other.path)
    """)
    assert told["path"] is None and told["so_far"] is False and told["whole"] is False
    assert told["now"] and told["now"] != told["others"]
    assert not options or told["now"] == told["there"]


@pytest.mark.parametrize("stops", ["kill -STOP $$; exec", "sh -c 'kill -STOP $$; exec \"$@\"' sh"], ids=["first", "second"])
@pytest.mark.parametrize("for_ever", [False, True])
def test_a_recorder_that_is_stopped_before_it_says_anything(program, stops, for_ever):
    """Neither the process that is started nor the one that it leaves behind holds the program up."""
    command = program.folder / "slow"
    if for_ever:
        stops = stops.replace("kill -STOP $$;", "while :; do kill -STOP $$; done;")
    command.write_text(f'#!/bin/sh\n{stops} {COMMAND} "$@" {"" if stops.endswith("exec") else "&"}\n')
    command.chmod(0o755)
    program.env["HIWATER_COMMAND"] = str(command)
    [told] = program.run("""
        began, why, warnings = time.monotonic(), None, []
        try:
            with hiwater.track(record=False) as run: pass
            warnings = run.warnings
        except hiwater.Error as e: why = str(e)
        tell(took=time.monotonic() - began, why=why, warnings=warnings, pid=os.getpid())
    """)
    assert told["took"] < 15  # the limit of a start is 20 s
    wait_for(lambda: not recorders_of(told["pid"]), "nobody is left behind")
    assert (told["why"] or "").startswith("nothing is measured: ") if for_ever else told["why"] is None
    assert for_ever or told["warnings"] == ([] if stops.endswith("exec") else [
        "the recorder was stopped (SIGSTOP), and was told to go on (SIGCONT): nothing was measured meanwhile"])


def test_a_forked_child_is_not_taken_for_the_recorder(program):
    """It has the recorder's end of the socket where it was forked before that was closed; stopped, it stays as it is."""
    command = program.folder / "slow"
    command.write_text(f'#!/bin/sh\nsh -c \'kill -STOP $$; exec "$@"\' sh {COMMAND} "$@" &\n')
    command.chmod(0o755)
    program.env["HIWATER_COMMAND"] = str(command)
    [told] = program.run("""
        from hiwater import _channel
        spawn, children = _channel.spawn, []
        def forks_before(*what):
            children.append(os.fork())
            if children[-1] == 0:
                signal.pause()
            os.kill(children[-1], signal.SIGSTOP)
            os.waitpid(children[-1], os.WUNTRACED)
            spawn(*what)
        _channel.spawn = forks_before
        try:
            with hiwater.track(record=False) as run: pass
            state = open(f"/proc/{children[0]}/stat").read().rpartition(")")[2].split()[0]
        finally:
            os.kill(children[0], signal.SIGKILL)
        tell(state=state, complete=run.summary.run.complete, warnings=run.warnings)
    """)
    assert told == {"state": "T", "complete": True, "warnings": [
        "the recorder was stopped (SIGSTOP), and was told to go on (SIGCONT): nothing was measured meanwhile"]}


def test_the_recorder_stands_still(program):
    """Nothing waits for it longer than it says."""
    [told] = program.run("""
        with hiwater.track(record=False) as run:
            [pid] = recorders()
            os.kill(pid, signal.SIGSTOP)
            began = time.monotonic()
            for i in range(3):
                with run.phase("p"): pass
            for i in range(5000): run.log(loss=i)
            took = time.monotonic() - began
            os.kill(pid, signal.SIGCONT)
        tell(took=took, exact=[p.peak_exact for p in run.summary.phases], warnings=run.warnings, n=run.summary.series["loss"].n)
    """)
    assert told["took"] < 10 and told["warnings"]
    assert not any(told["exact"]) and told["n"] < 5000


STOPPED = """
    def stop_it(run):
        pid = run._channel._recorder.pid  # that of its GPU helper has the same command line
        os.kill(pid, signal.SIGSTOP)
        while open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "T": time.sleep(0.001)
"""


def test_a_recorder_that_was_stopped_goes_on(program):
    """Nobody who waits for an answer waits for nothing: what is stopped is told to go on, and the run ends as others do."""
    [told] = program.run(STOPPED + """
    with hiwater.track(output="a.hiw") as run:
        stop_it(run)
        so_far = run.summary.run.complete
        stop_it(run)
    tell(so_far=so_far, complete=run.summary.run.complete, warnings=run.warnings)
    """)
    assert told == {"so_far": False, "complete": True, "warnings": [
        "the recorder was stopped (SIGSTOP), and was told to go on (SIGCONT): nothing was measured meanwhile"]}
    assert program.shown("a.hiw")["run"]["complete"]


def test_a_recorder_that_was_stopped_ends_with_the_program(program):
    process = program.start(STOPPED + """
    run = hiwater.track(output="a.hiw").start()
    stop_it(run)
    """)
    assert process.wait(2 * DEADLINE) == 0
    assert ended_recording(program, process)["run"]["complete"]


def test_a_recorder_that_stays_stopped_is_given_up(program):
    """It is told to go on once for each question, named as what it is, and not left behind."""
    [told] = program.run(STOPPED + """
    from hiwater._process import Process
    send, sent = Process.signal, []
    Process.signal = lambda self, number: sent.append(number) or (number == signal.SIGKILL and send(self, number))
    with hiwater.track(record=False) as run:
        stop_it(run)
        try: run.summary
        except hiwater.Error as e: why = str(e)
    tell(why=why, sent=sent, warnings=run.warnings, pid=os.getpid())
    """)
    assert told["why"].startswith("there is no summary: ") and "is stopped (SIGSTOP), and again after" in told["why"]
    assert told["sent"] == [signal.SIGCONT, signal.SIGCONT, signal.SIGKILL]
    assert told["warnings"][-1].startswith("the end was not recorded: the recorder is stopped (SIGSTOP)")
    wait_for(lambda: not recorders_of(told["pid"]), "the recorder has ended")


def ended_recording(program, process):
    """The summary, once nobody records the process any more."""
    wait_for(lambda: not recorders_of(process.pid), "the recorder has ended")
    return program.shown("a.hiw")


WORK = """
    run = hiwater.track(output="a.hiw").start()
    block = fill(100)
    run.mark("ready")
    (FOLDER / "ready").touch()
    {}
"""


@pytest.mark.parametrize("number, status", [(signal.SIGKILL, -9), (signal.SIGTERM, -15), (signal.SIGINT, -2)])
def test_the_interpreter_is_killed(program, number, status):
    process = program.start(WORK.format("time.sleep(1000)"), start_new_session=True)
    wait_for((program.folder / "ready").exists, "the program is ready")
    os.killpg(process.pid, number)  # as the terminal does it
    assert process.wait(DEADLINE) == status
    shown = ended_recording(program, process)
    assert shown["run"]["complete"] and shown["ram"]["main"]["peak_bytes"] >= 100 * MIB
    assert texts(program.folder / "a.hiw", "mark") == ["ready"]


def test_a_worker_that_lives_on_does_not_keep_the_run_open(program):
    """Forked below Python, it has a copy of the socket."""
    process = program.start(WORK.format("""
    import ctypes
    if ctypes.CDLL(None).fork() == 0:
        (FOLDER / "worker").write_text(str(os.getpid()))
        time.sleep(1000)
    while not (FOLDER / "worker").exists(): time.sleep(0.01)
    (FOLDER / "both").touch()
    time.sleep(1000)"""))
    wait_for((program.folder / "both").exists, "both are there")
    process.kill()
    shown = ended_recording(program, process)
    os.kill(int((program.folder / "worker").read_text()), signal.SIGKILL)
    assert shown["run"]["complete"]


@pytest.mark.parametrize("last, status", [
    ("sys.exit(3)", 3), ("os._exit(4)", 4), ("pass", 0), ("raise RuntimeError('mine')", 1), ("os.abort()", -6),
    ("os.execv('/bin/sh', ['sh', '-c', 'exit 5'])", 5),
])
def test_its_end_is_its_own(program, last, status):
    process = program.start(WORK.format(last))
    stdout, stderr = process.communicate(timeout=DEADLINE)
    assert process.returncode == status and stdout == ""
    assert ("mine" in stderr) == ("mine" in last) and "hiwater" not in stderr.replace("import hiwater", "")
    assert ended_recording(program, process)["run"]["complete"]


def test_an_exception_and_an_interrupt_pass_through(program):
    program.run("""
        try:
            with hiwater.track(output="a.hiw") as run:
                with run.phase("p"):
                    raise KeyError("mine")
        except KeyError as e:
            assert e.args == ("mine",)
        assert run.summary.run.complete and run.summary.phases[0].end_s is not None
        try:
            with hiwater.track() as run:
                with run.phase("p"):
                    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
                    while True: time.sleep(10)
        except KeyboardInterrupt:
            tell(complete=run.summary.run.complete)
        else:
            raise AssertionError
    """)
    assert program.told() == [{"complete": True}]


@pytest.mark.parametrize("options", ["", ", output='a.hiw'"])
@pytest.mark.parametrize("sink", [False, True])
def test_an_interrupt_with_a_run_left_open_ends_it_as_without(program, options, sink):
    """The exit status is the signal's: what the run does at exit does not make the interpreter forget it."""
    process = program.start(f"""
        run = hiwater.start("k"{options})
        class Sink:
            def write(self, figures, step): pass
            def end(self, summary): tell(complete=summary.run.complete)
        if {sink}: run.add_sink(Sink())
        if "output" not in {options!r}:
            while not run.path: time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    """)
    stderr = process.communicate(timeout=DEADLINE)[1]
    assert process.returncode == -signal.SIGINT and "KeyboardInterrupt" in stderr
    assert program.told() == [{"complete": True}] * sink


def test_whatever_interrupts_the_end_every_sink_is_told_of_it(program):
    """Of a run left open: after an exception, in a process of multiprocessing, where a sink raises, and where one is interrupted."""
    program.run("""
        import multiprocessing
        class Sink:
            def __init__(self, name, error=None): self.name, self.error = name, error
            def write(self, figures, step): pass
            def end(self, summary):
                tell(name=self.name, complete=summary.run.complete)
                if self.error: raise self.error
        def work(name):
            run = hiwater.start()
            run.add_sink(Sink(name))
        for kind in ("fork", "spawn"):
            worker = multiprocessing.get_context(kind).Process(target=work, args=(kind,))
            if __name__ == "__main__": worker.start(); worker.join(); assert worker.exitcode == 0
        if __name__ == "__main__":
            run = hiwater.start()
            for sink in (Sink("bad", OSError("full")), Sink("interrupted", KeyboardInterrupt()), Sink("last")): run.add_sink(sink)
            try:
                run.stop()
            except KeyboardInterrupt:
                tell(name="raised", complete=run.summary.run.complete)
            assert any("Sink gets no more figures: OSError: full" in w for w in run.warnings)
            left = hiwater.start()
            for sink in (Sink("bad at exit", OSError("full")), Sink("at exit")): left.add_sink(sink)
            raise KeyError("mine")
    """, status=1, quiet=False)
    assert [t["name"] for t in program.told()] == ["fork", "spawn", "bad", "interrupted", "last", "raised", "bad at exit", "at exit"]
    assert all(t["complete"] for t in program.told())
    assert program.stderr.count("Traceback") == 1 and program.stderr.rstrip().endswith("KeyError: 'mine'")


def test_recorders_of_runs_inside_another_are_none_of_its_processes(program):
    """Neither where the program is measured by itself, nor by the command, which adopts what leaves its parent."""
    text = """
        with hiwater.track("outer", record=False, interval=0.002) as outer:
            for i in range(4):
                with hiwater.track("inner", record=False): time.sleep(0.15)
        tell(names=[p.name for p in outer.summary.processes.list], peaks=[p.peak_bytes for p in outer.summary.processes.list])
    """
    [told] = program.run(text)
    # One may be seen before its exec, and have its memory read in it: it is dropped then, with what it held so far.
    own = [peak or 0 for peak in told["peaks"][1:]]
    assert "hiwater" not in told["names"] and sum(peak > 100_000 for peak in own) <= 1 and sum(own) < 4_000_000, told
    program.run(text, COMMAND, "run", "-i", "2ms", "--summary", "none", "--json", program.folder / "run.json", "--no-record", "--")
    seen = json.loads((program.folder / "run.json").read_text())["processes"]
    assert "hiwater" not in " ".join(p["name"] for p in seen["list"]), seen
    assert seen["left"] == 0


def test_a_sink_is_told_of_the_end_before_what_it_leads_to_ends(program):
    """A tracker of experiments closes what it has at exit, too, and was there before."""
    assert program.run("""
        import atexit
        class Sink:
            def write(self, figures, step): pass
            def end(self, summary): tell(first=True)
        hiwater.current()  # hiwater is there already
        atexit.register(lambda: tell(first=False))
        hiwater.start().add_sink(Sink())
    """) == [{"first": True}, {"first": False}]


def test_a_stderr_that_nobody_reads(program):
    """The end is whole: what is told to others is told, and last() is this run."""
    program.run("""
        class Sink:
            ended = 0
            def write(self, figures, step): pass
            def end(self, summary): self.ended += 1
        readers, writer = os.pipe()
        os.close(readers)
        closed = open("closed", "w"); closed.close()
        kept = sys.stderr
        for sys.stderr in (os.fdopen(writer, "w"), closed, None):
            sink = Sink()
            with hiwater.track(output=f"{id(sink)}.hiw", summary="line") as run: run.add_sink(sink)
            assert hiwater.last() is run and sink.ended == 1 and run.summary.run.complete, run.warnings
        sys.stderr = kept
        os._exit(0)  # what is left in the broken one's buffer is the interpreter's to complain of
    """)


def test_descriptors_closed_behind_its_back(program):
    program.run("""
        run = hiwater.track(record=False).start()
        os.closerange(3, 100)
        run.stop()
        assert run.warnings and not run.is_running
    """)


def test_a_run_from_before_a_fork_is_started_in_the_child(program):
    """The sinks and the chart that it has there are the parent's; reading is free, too."""
    program.run("""
        from hiwater import _recording
        got = []
        class Sink:
            def write(self, figures, step): got.append(figures)
            def end(self, summary): got.append(summary)
        run = hiwater.track(output="a.hiw").start()
        run.add_sink(Sink())
        with _recording._reading: child = os.fork()
        if child == 0:
            run._options["output"] = "b.hiw"
            run.start(); run.stop()
            assert run.recording.columns() is not None and got == []
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        run.stop()
        assert got
    """)


def test_a_chart_that_cannot_be_shown(program):
    """Neither its beginning nor its end raises."""
    program.run("""
        from hiwater import _live
        def display(*_, **__): raise RuntimeError("no")
        _live.notebook = lambda: display
        with hiwater.track(live=True) as run: pass
        assert any("no chart: RuntimeError" in w for w in run.warnings)
        class Handle:
            shown = None
            def update(self, bundle, raw): self.shown = bundle
        handle = Handle()
        _live.notebook = lambda: lambda *_, **__: handle
        with hiwater.track(live=True, output="a.hiw") as run:
            while not run.path or not os.path.exists(run.path): time.sleep(0.01)
            [pid] = recorders()
            os.kill(pid, signal.SIGKILL)
            while recorders(): time.sleep(0.01)
            os.unlink(run.path)
        assert hiwater.last() is run and "the end was not recorded" in handle.shown["text/plain"]
    """)


def test_facts_may_have_any_name(program):
    program.run("""
        with hiwater.track() as run:
            with run.phase("p", name=3): pass
        assert run.summary.phases[0].facts == {"name": 3}, run.summary.phases
    """)


def test_a_handler_of_a_signal_may_use_it(program):
    program.run("""
        with hiwater.track() as run:
            def handler(*_):
                with run.phase("in the handler"): run.log(handled=1)
                signal.setitimer(signal.ITIMER_REAL, 0.002)
            signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, 0.002)
            end = time.monotonic() + 1
            while time.monotonic() < end:
                with run.phase("p"): pass
            signal.setitimer(signal.ITIMER_REAL, 0)
        assert run.warnings == [], run.warnings
        assert run.summary.series["handled"].n > 0
        assert all(p.end_s is not None for p in run.summary.phases)
    """)


def test_nothing_of_the_interpreter_is_kept_open(program):
    """A pipe that any child would inherit ends when the interpreter closes it."""
    program.run("""
        r, w = os.pipe()
        os.set_inheritable(w, True)
        with hiwater.track():
            os.close(w)
            assert os.read(r, 1) == b""
    """)


def test_in_a_run_of_the_command(program):
    """Both hear of it; the kernel's mark, which the outer one reads, is left alone."""
    [told] = program.run("""
        del [fill(200)][0]
        with hiwater.track(output="inner.hiw") as run:
            run.mark("both"); run.log(loss=1)
            with run.phase("p"): pass
        tell(method=run.summary.phases[0].ram.method, hwm=open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
    """, COMMAND, "run", "--summary", "none", "-o", "outer.hiw", "--")
    assert told["method"] == "sampled" and int(told["hwm"]) * 1024 >= 200 * MIB
    for name in ("inner.hiw", "outer.hiw"):
        assert texts(program.folder / name, "mark") == ["both"]
        shown = program.shown(name)
        assert list(shown["series"]) == ["loss"] and [p["name"] for p in shown["phases"]] == ["p"]


def test_who_names_no_run_speaks_to_the_command_around(program):
    """Also more at once than a socket holds, from a function that was decorated before, and from a fork."""
    text = """
        assert hiwater.current() is None
        @hiwater.phase("fit", kind="small")
        def fit():
            for i in range(500):
                hiwater.log({"i": i}, loss=1, step=i)
            with hiwater.phase("end"):
                for _ in hiwater.wrap_loader([1, 2]): pass
            assert hiwater.oom(MemoryError("none left")) and not hiwater.oom(ValueError())
            pid = os.fork()
            if not pid:
                hiwater.mark("from a fork")
                os._exit(0)
            os.waitpid(pid, 0)
        fit()
    """
    program.run(text)  # where nobody measures, it is nothing
    program.run(text, COMMAND, "run", "--summary", "none", "-o", "around.hiw", "--")
    shown = program.shown("around.hiw")
    assert [(p["name"], p["facts"]) for p in shown["phases"]] == [("fit", {"kind": "small"}), ("end", {})]
    assert shown["series"]["i"]["n"] == 500 and shown["series"]["i"]["sum"] == 499 * 250
    assert shown["series"]["loss"]["sum"] == 500 and "data_wait" in shown["series"]
    assert texts(program.folder / "around.hiw", "mark") == ["from a fork"]
    assert texts(program.folder / "around.hiw", "trigger") == ["out of memory: host: MemoryError: none left"]


def test_a_recorder_around_that_takes_nothing_is_waited_for_once(program):
    """Whatever the program has as default for its sockets."""
    program.run("""
        import socket
        from hiwater import _enclosing
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as full:
            full.bind("")
            os.environ["HIWATER_SOCKET"] = "@" + full.getsockname()[1:].decode()
            socket.setdefaulttimeout(5)
            for i in range(int(open("/proc/sys/net/unix/max_dgram_qlen").read()) + 3):
                hiwater.mark(str(i))
            assert _enclosing._is_slow
            full.recv(100)
            hiwater.mark("taken")
            assert not _enclosing._is_slow
    """)


def test_who_names_no_run_speaks_to_the_innermost(program):
    told = program.run("""
        part = hiwater.phase("part")
        loader = hiwater.wrap_loader(range(2))
        with hiwater.track(record=False) as outer, hiwater.track(record=False) as inner:
            with part:
                hiwater.log(loss=1)
                list(loader)
            inner.stop()
            hiwater.log(loss=2)
        tell(inner=list(inner.summary.series), outer=list(outer.summary.series),
             phases=[[p.name for p in run.summary.phases] for run in (inner, outer)])
    """)[0]
    assert told["inner"] == ["loss", "data_wait", "step_time"] and told["outer"] == ["loss"] and told["phases"] == [["part"], []]


# ---- errors --------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("call, words", [
    ("hiwater.track(intervall=1)", "no option 'intervall'"),
    ("hiwater.track(4711)", "track(pid=4711)"),
    ("hiwater.track(summary='long')", "summary='long'"),
    ("hiwater.track(interval=0).start()", "not from 1ms to 1h"),
    ("hiwater.track(alert='ram >').start()", "ram >"),
    ("hiwater.track(pid=2**22 + 1).start()", "cannot attach to"),
    ("hiwater.track(output='there').start()", "there"),
    ("hiwater.track(output='/nowhere/a.hiw').start()", "/nowhere"),
    ("hiwater.track(gpu='some').start()", "some"),
    ("hiwater.track(record='zz')", "'zz'"),
    ("hiwater.track().stop()", "not started"),
    ("hiwater.track().summary", "no summary"),
    ("hiwater.track().log(**{'a b': 1})", "'a b'"),
    ("hiwater.track().log(**{'a\\0b': 1})", "no NUL"),
    ("hiwater.track().log(**{'a' * 1001: 1})", "longer than 1000 bytes"),
    ("hiwater.track().to_pandas()", "no recording"),
    ("[r := hiwater.track().start(), r.start()]", "already"),
    ("hiwater.open('nothing-like-it')", "nothing-like-it"),
    ("hiwater.track('x' * 50000).start()", "1000 bytes at most, and this one 50000"),
    ("hiwater.track(interval=float('nan'))", "nan is no time"),
    ("hiwater.track(interval=float('inf'))", "inf is no time"),
    ("hiwater.track(grace=[])", "[] is no time"),
    ("hiwater.open(None)", "None is no recording"),
    ("hiwater.open(b'a.hiw')", "b'a.hiw' is no recording"),
    ("hiwater.Summary.from_json('{}')", "no schema"),
    ("hiwater.Summary.from_json('[1]')", "no schema"),
    ("hiwater.Summary.from_json('{')", "no JSON"),
    ("hiwater.Summary.from_json('{\"schema\": 99}')", "has schema 99, and this package reads 1"),
    ("os.environ.update(HIWATER_COMMAND='/nowhere/hiwater') or hiwater.track().start()", "/nowhere/hiwater"),
    ("os.environ.update(HIWATER_COMMAND='/bin/true') or hiwater.track().start()", "before it began"),
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


def pythons():
    """Every CPython from 3.9 on that this machine has."""
    found = {}
    homes = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")) / "versions"
    for path in [*homes.glob("3.*/bin/python3"), *pathlib.Path("/usr/bin").glob("python3.?*"), pathlib.Path(sys.executable)]:
        said = subprocess.run([path, "-c", "import sys, sqlite3; print(*sys.version_info[:2])"], capture_output=True, text=True,
                              check=False) if re.fullmatch(r"python3?(\.\d+)?", path.name) else None
        if said and said.returncode == 0 and [int(n) for n in said.stdout.split()] >= [3, 9]:
            found[said.stdout] = path
    return list(found.values())


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

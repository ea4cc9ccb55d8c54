# SPDX-License-Identifier: MIT
"""Values, marks and phases that a tracked program logs, the wait for data, and the run that gets
them."""
import sqlite3

from track_helpers import COMMAND, MIB, texts


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
    """80 values of one time; those that do not fit one message are sent as several, each with the
    step. Also to the enclosing recorder."""
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
    program.env["PYTHONWARNINGS"] = "ignore"
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
        assert "64 bits was dropped; the values are kept" in warning
    """)
    with sqlite3.connect(program.folder / "a.hiw") as c:
        rows = c.execute("SELECT step FROM series_value ORDER BY rowid").fetchall()
    assert rows == [(2**53 + 1,), (1795373046552457965,), (2**63 - 1,), (-2**63,), (None,), (None,)]


def test_a_mark_that_is_too_long_is_said_to_be(program):
    program.env["PYTHONWARNINGS"] = "ignore"
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
    first, others = texts(program.folder / "outer.hiw", "note")
    assert first.startswith("mark:") and "longer than the 4096 bytes" in first and "3 more messages" in others


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


def test_in_a_run_of_the_command(program):
    """Both runs get them; the high-water mark, which the outer one reads, is not reset."""
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
    """Also more messages than the socket's buffer, from a function that was decorated before, and
    from a fork."""
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
    program.run(text)  # without a run they do nothing
    program.run(text, COMMAND, "run", "--summary", "none", "-o", "around.hiw", "--")
    shown = program.shown("around.hiw")
    assert [(p["name"], p["facts"]) for p in shown["phases"]] == [("fit", {"kind": "small"}), ("end", {})]
    assert shown["series"]["i"]["n"] == 500 and shown["series"]["i"]["sum"] == 499 * 250
    assert shown["series"]["loss"]["sum"] == 500 and "data_wait" in shown["series"]
    assert texts(program.folder / "around.hiw", "mark") == ["from a fork"]
    assert texts(program.folder / "around.hiw", "trigger") == ["out of memory: host: MemoryError: none left"]


def test_a_recorder_around_that_takes_nothing_is_waited_for_once(program):
    """Independent of the program's default timeout for sockets."""
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

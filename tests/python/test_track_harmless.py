# SPDX-License-Identifier: MIT
"""hiwater.track does not affect the measured program, its children, its exit, its sinks."""
import json
import os
import signal

import pytest
from track_helpers import COMMAND, DEADLINE, MIB, ended_recording, texts, wait_for


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
    """The child does no exec. It neither hangs nor records, and its end does not end the run."""
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


WORK = """
    run = hiwater.track(output="a.hiw").start()
    block = fill(100)
    run.mark("ready")
    (FOLDER / "ready").touch()
    {}
"""


@pytest.mark.parametrize("number, status", [(signal.SIGKILL, -9), (signal.SIGTERM, -15), (signal.SIGINT, -2)])
def test_the_interpreter_is_killed(program, number, status):
    # Short sleeps: an interrupt that arrives between the interpreter's check for signals and the
    # system call is noticed after the sleep.
    process = program.start(WORK.format("while True: time.sleep(0.1)"), start_new_session=True)
    wait_for((program.folder / "ready").exists, "the program is ready")
    os.killpg(process.pid, number)  # as the terminal does
    assert process.wait(DEADLINE) == status
    shown = ended_recording(program, process)
    assert shown["run"]["complete"] and shown["ram"]["main"]["peak_bytes"] >= 100 * MIB
    assert texts(program.folder / "a.hiw", "mark") == ["ready"]


def test_a_worker_that_lives_on_does_not_keep_the_run_open(program):
    """A process forked by C code has a copy of the socket."""
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
                    while True: time.sleep(0.1)
        except KeyboardInterrupt:
            tell(complete=run.summary.run.complete)
        else:
            raise AssertionError
    """)
    assert program.told() == [{"complete": True}]


@pytest.mark.parametrize("options", ["", ", output='a.hiw'"])
@pytest.mark.parametrize("sink", [False, True])
def test_an_interrupt_with_a_run_left_open_ends_it_as_without(program, options, sink):
    """The exit status is that of the signal: the exit handler of the run does not make the
    interpreter forget the interrupt."""
    process = program.start(f"""
        run = hiwater.start("k"{options})
        class Sink:
            def write(self, figures, step): pass
            def end(self, summary): tell(complete=summary.run.complete)
        if {sink}: run.add_sink(Sink())
        if "output" not in {options!r}:
            while not run.path: time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        while True: time.sleep(0.1)
    """)
    stderr = process.communicate(timeout=DEADLINE)[1]
    assert process.returncode == -signal.SIGINT and "KeyboardInterrupt" in stderr
    assert program.told() == [{"complete": True}] * sink


def test_whatever_interrupts_the_end_every_sink_is_told_of_it(program):
    """A run that was left open: after an exception, in a process of multiprocessing, with a sink
    that raises or is interrupted."""
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
    """Neither for the program alone, nor under the command, which adopts processes that leave their
    parent."""
    text = """
        with hiwater.track("outer", record=False, interval=0.002) as outer:
            for i in range(4):
                with hiwater.track("inner", record=False): time.sleep(0.15)
        tell(names=[p.name for p in outer.summary.processes.list], peaks=[p.peak_bytes for p in outer.summary.processes.list])
    """
    [told] = program.run(text)
    # A process may be seen and read before its exec: it is then dropped, with the memory that it
    # used so far.
    own = [peak or 0 for peak in told["peaks"][1:]]
    assert "hiwater" not in told["names"] and sum(peak > 100_000 for peak in own) <= 1 and sum(own) < 4_000_000, told
    program.run(text, COMMAND, "run", "-i", "2ms", "--summary", "none", "--json", program.folder / "run.json", "--no-record", "--")
    seen = json.loads((program.folder / "run.json").read_text())["processes"]
    assert "hiwater" not in " ".join(p["name"] for p in seen["list"]), seen
    assert seen["left"] == 0


def test_a_sink_is_told_of_the_end_before_what_it_leads_to_ends(program):
    """An experiment tracker with an exit handler of its own, registered before."""
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
    """The run ends completely: sinks and chart get their end, and last() returns this run."""
    program.run("""
        class Sink:
            ended = 0
            def write(self, figures, step): pass
            def end(self, summary): self.ended += 1
        readers, writer = os.pipe()
        os.close(readers)
        closed = open("closed", "w"); closed.close()
        kept = sys.stderr
        for n, sys.stderr in enumerate((os.fdopen(writer, "w"), closed, None)):
            sink = Sink()
            with hiwater.track(output=f"{n}.hiw", summary="line") as run: run.add_sink(sink)
            assert hiwater.last() is run and sink.ended == 1 and run.summary.run.complete, run.warnings
        sys.stderr = kept
        os._exit(0)  # what is left in the broken one's buffer is the interpreter's to complain of
    """)


def test_a_warning_that_nobody_gets(program):
    """Python raises ValueError where sys.stderr is closed."""
    program.run("""
        kept, sys.stderr = sys.stderr, open("closed", "w")
        sys.stderr.close()
        for _ in range(2):
            with hiwater.track(output="same.hiw") as run: done = True
        sys.stderr = kept
        assert done and "same.hiw" in run.warnings[0], run.warnings
    """)


def test_a_run_from_before_a_fork_is_started_in_the_child(program):
    """Its sinks and chart belong to the parent; reading works as well."""
    program.run("""
        from hiwater import _recording
        got = []
        class Sink:
            def write(self, figures, step): got.append(figures)
            def end(self, summary): got.append(summary)
        run = hiwater.track(output="a.hiw").start()
        run.add_sink(Sink())
        with _recording._reader_lock: child = os.fork()
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
    """Neither start nor end raises."""
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


def test_signals_do_not_prolong_a_wait(program):
    """Such as those of a profiler; the recorder is stopped meanwhile."""
    program.run("""
        with hiwater.track() as run:
            signal.signal(signal.SIGALRM, lambda *_: None)
            signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
            [pid] = recorders()
            os.kill(pid, signal.SIGSTOP)
            begin = time.monotonic()
            with run.phase("p"): pass
            assert time.monotonic() - begin < 30  # 10 times the limits of both edges
            signal.setitimer(signal.ITIMER_REAL, 0)
        assert any("stopped (SIGSTOP)" in w for w in run.warnings), run.warnings
    """)


def test_nothing_of_the_interpreter_is_kept_open(program):
    """A pipe that a child would inherit ends when the interpreter closes it."""
    program.run("""
        r, w = os.pipe()
        os.set_inheritable(w, True)
        with hiwater.track():
            os.close(w)
            assert os.read(r, 1) == b""
    """)


@pytest.mark.parametrize("name, package", [("Lightning", "lightning"), ("HuggingFace", "transformers"), ("Keras", "keras")])
def test_a_callback_without_its_framework_says_what_to_install(program, name, package):
    program.run(f"""
        import sys
        sys.modules[{package!r}] = None
        try: hiwater.callbacks.{name}
        except ModuleNotFoundError as error: assert "pip install {package}" in str(error), error
        else: raise AssertionError("it is there")
    """)

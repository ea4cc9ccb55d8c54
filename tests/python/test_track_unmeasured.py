# SPDX-License-Identifier: MIT
"""What hiwater lacks, and what the program logs by accident, ends no program: it runs unmeasured, or
the value is dropped, and warnings say so."""
import os
import shutil
import subprocess
import sys

import pytest
from track_helpers import COMMAND, DEADLINE, recorders_of, texts, wait_for

LACKS = {
    "descriptors": "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (6, 6))",
    "command": "os.environ['HIWATER_COMMAND'] = '/nonexistent/hiwater'",
    "a program": "os.environ['HIWATER_COMMAND'] = '/bin/true'",
    "no program": "os.environ['HIWATER_COMMAND'] = '/etc/passwd'",
    "memory": "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20))",
}
IS_MEASURED = "run.summary.run.complete and run.summary.wall_s > 0"


@pytest.mark.parametrize("lacks", LACKS)
def test_a_block_runs_unmeasured(program, lacks):
    """With the reason in run.warnings and one warning, at the line of the program."""
    program.run(f"""
        import warnings
        warnings.simplefilter("error")
        import hiwater._run, hiwater._summary, hiwater._spawn
        hiwater._spawn._core()
        {LACKS[lacks]}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with hiwater.track() as run:
                ran = True
                run.log(loss=1); run.mark("m")
                with run.phase("p"): pass
                list(run.wrap_loader([1, 2]))
        assert ran and not run.is_running and run.path is None
        [why] = run.warnings
        assert why.startswith("nothing is measured: "), why
        [warning] = caught
        assert warning.category is RuntimeWarning and why in str(warning.message) and warning.filename == __file__, warning
        assert run.summary.ram_peak_bytes is None and str(run.summary) == why and hiwater.last() is run
        resource = sys.modules.get("resource")
        if resource: os._exit(0)  # nothing else runs within such limits
    """)


def test_standard_streams_that_are_closed(program):
    """It is measured, and no socket of hiwater gets the number of a stream."""
    [told] = program.run("""
        for n in (0, 1, 2): os.close(n)
        with hiwater.track(record=False) as run:
            numbers = [os.readlink(f"/proc/self/fd/{n}") for n in (0, 1, 2) if os.path.exists(f"/proc/self/fd/{n}")]
        tell(streams=numbers, warnings=run.warnings, complete=run.summary.run.complete)
        os._exit(0)
    """)
    assert told == {"streams": [], "warnings": [], "complete": True}


def test_who_wants_the_exception_gets_it(program):
    program.run("""
        import warnings
        os.environ["HIWATER_COMMAND"] = "/nonexistent/hiwater"
        for enter in (lambda: hiwater.track(strict=True).start(), lambda: hiwater.start("x", strict=True)):
            try: enter()
            except hiwater.Error as e: assert "/nonexistent/hiwater" in str(e)
            else: raise AssertionError
        warnings.simplefilter("error")
        try: hiwater.start()
        except RuntimeWarning: pass
        else: raise AssertionError
        assert hiwater.current() is None and hiwater.stop() is None
    """)


def test_a_wrong_argument_is_the_callers(program):
    """TypeError or ValueError, and hiwater.Error."""
    program.run("""
        for kind, call in ((TypeError, lambda: hiwater.track(bogus=1)), (TypeError, lambda: hiwater.track(7)),
                           (ValueError, lambda: hiwater.track(interval="soon").start()), (ValueError, lambda: hiwater.track(interval=float("nan"))),
                           (ValueError, lambda: hiwater.track(summary="half")), (TypeError, lambda: hiwater.track(alert=3)),
                           (ValueError, lambda: hiwater.track(limit="nonsense !").start()), (ValueError, lambda: hiwater.track(gpu="maybe").start())):
            try: call()
            except kind as e: assert isinstance(e, hiwater.Error), e
            else: raise AssertionError(kind)
        assert not recorders()
    """)


def test_a_wrong_argument_of_a_recording_is_the_callers(program):
    """And what is missing is no wrong argument."""
    program.run("""
        with hiwater.track(output="a.hiw") as run: run.log(loss=1)
        wrong = (TypeError, ValueError)
        for kind, call in ((ValueError, lambda: run.joined("bogus")), (TypeError, lambda: run.joined(3)), (TypeError, lambda: run.joined([])),
                           (ValueError, lambda: run.to_pandas("bogus")), (ValueError, lambda: run.to_pandas("job", rate="bogus")),
                           (ValueError, lambda: run.recording.columns("bogus")), (TypeError, lambda: run.recording.arrays(None)),
                           (ValueError, lambda: run.to_parquet("a.parquet", "bogus")), (ValueError, lambda: run.plot("bogus")),
                           (ValueError, lambda: run.plot(3)), (TypeError, lambda: hiwater.open(3.5)), (TypeError, lambda: hiwater.report(3.5)),
                           (TypeError, lambda: hiwater.compare()), (TypeError, lambda: hiwater.compare(None, 3)),
                           (ValueError, lambda: hiwater.compare(run, run)), (TypeError, lambda: hiwater.compare(run, "a", by=3))):
            try: call()
            except kind as e: assert isinstance(e, hiwater.Error), e
            else: raise AssertionError(kind)
        for call in (lambda: hiwater.compare(run, "nowhere"), lambda: hiwater.open("nowhere"), lambda: hiwater.report("nowhere")):
            try: call()
            except hiwater.Error as e: assert not isinstance(e, wrong) and "nowhere" in str(e), e
            else: raise AssertionError
    """)


def test_a_run_without_a_recording_says_why(program):
    program.run("""
        import warnings
        def why(call):
            try: call()
            except hiwater.Error as e: return str(e)
            raise AssertionError("no error")
        with hiwater.track(record=False) as unrecorded: assert "record=False" in why(unrecorded.plot)
        with hiwater.track() as run: assert why(run.to_pandas).startswith("no recording yet: "), why(run.to_pandas)
        assert "record=False" in why(unrecorded.joined)
        os.environ["HIWATER_COMMAND"] = "/nonexistent"
        warnings.simplefilter("ignore")
        with hiwater.track() as lost: pass
        for call in (lost.joined, lost.to_pandas, lost.plot, lost.report, lambda: hiwater.compare(lost, run), lambda: lost.recording):
            assert why(call).startswith("no recording, because nothing was measured: /nonexistent cannot be started"), why(call)
        request = lost.summary.request
        assert request.line is None and request.memory_bytes is None and "/nonexistent" in request.why_not, request
        assert hiwater.Summary.from_json('{"schema": 2, "request": null}').request.line is None
        del os.environ["HIWATER_COMMAND"]
    """)


def test_stop_ends_the_run_that_could_not_be_measured(program):
    """And not the one around it."""
    program.env["PYTHONWARNINGS"] = "ignore"
    program.run("""
        outer = hiwater.start("outer", record=False)
        os.environ["HIWATER_COMMAND"] = "/nonexistent/hiwater"
        inner = hiwater.start("inner")
        ended = []
        class Sink:
            def write(self, figures, step): pass
            def end(self, summary): ended.append(summary.wall_s)
        inner.add_sink(Sink())
        hiwater.log(loss=1)
        assert hiwater.current() is inner and hiwater.stop() is inner and hiwater.current() is outer and ended == [None]
        hiwater.stop()
        assert outer.summary.run.complete and not outer.summary.series
    """)


@pytest.mark.parametrize("lacks", ["command", "a program", "descriptors"])
def test_the_drop_ins_run_unmeasured(program, lacks):
    """As in the originals a warning is logged; the figures are 0, except the time."""
    program.run(f"""
        import logging
        said = []
        class Handler(logging.Handler):
            def emit(self, record): said.append(record.getMessage())
        logging.getLogger().addHandler(Handler())
        from hiwater.compat import gpu_tracker, gpu_tracker_2
        from hiwater.compat.gpumemprof import CPUMemoryTracker
        from hiwater.compat import _session
        import hiwater.compat.gpu_tracker._keeper
        _session._may_have_gpus = lambda: True
        {LACKS[lacks]}
        for package in (gpu_tracker, gpu_tracker_2):
            del said[:]
            more = dict(tracking_file="t.csv", overwrite=True) if package is gpu_tracker else {{}}
            with package.Tracker(time_unit="seconds", **more) as tracker: time.sleep(0.1)
            assert any("will remain 0.0: nothing is measured: " in text for text in said), said
            found = tracker.to_json()
            time_s = found["compute_time"]["time"]
            assert found["max_ram"]["main"]["total_rss"] == 0 and (time_s >= 0.1 or package is gpu_tracker_2), found
            assert str(tracker)
        with CPUMemoryTracker(sampling_interval=0.01) as tracker:
            with tracker.phase("p"): time.sleep(0.1)
        assert tracker.get_statistics()["total_events"] > 3 and tracker.get_statistics()["recording"] is None
        if {lacks == "descriptors"}: os._exit(0)
    """, quiet=False)


def test_the_commands_of_the_drop_ins_run_the_job_unmeasured(program):
    program.env["HIWATER_COMMAND"] = "/nonexistent/hiwater"
    for package in ("gpu_tracker", "gpu_tracker_2"):
        done = subprocess.run([sys.executable, "-m", f"hiwater.compat.{package}", "-e", "sh -c 'echo ran; exit 7'"], env=program.env,
                              cwd=program.folder, capture_output=True, text=True, timeout=DEADLINE, check=False)
        assert done.returncode == 7 and done.stdout.startswith("ran\n") and "Nothing is tracked: /nonexistent/hiwater" in done.stderr, done


def test_the_magics_of_a_shell(program):
    """%hiwater on and off, and a cell, without the command: a line on stderr says why."""
    program.env["HIWATER_COMMAND"] = "/nonexistent/hiwater"
    program.run("""
        import contextlib, io, types
        from hiwater._ipython import Magic
        magic = Magic(types.SimpleNamespace(execution_count=1))
        for line in ("on -n x", "off", "_cell -n y --live --report"):
            with contextlib.redirect_stderr(io.StringIO()) as said: magic(line)
            assert ("/nonexistent/hiwater" in said.getvalue()) == (line != "off"), (line, said.getvalue())
        magic.after_cell(types.SimpleNamespace())
        assert hiwater.current() is None
    """)


def test_a_thread_limit(program):
    """The thread that reads the frameworks cannot start: the run is measured without it."""
    program.run("""
        import types
        from hiwater import _frameworks
        _frameworks.may_use_devices = lambda: True
        class Thread(threading.Thread):
            def start(self): raise RuntimeError("can't start new thread")
        threading.Thread = Thread
        with hiwater.track(record=False) as run: pass
        assert run.summary.run.complete and run.warnings == [], run.warnings
        from hiwater.compat.gpumemprof._evidence import Evidence
        evidence = Evidence("x")
        evidence.begin("x"); evidence.send("mark x"); evidence.end()
    """)


def test_a_working_folder_that_is_gone(program):
    program.run("""
        os.mkdir("gone"); os.chdir("gone"); os.rmdir("../gone")
        with hiwater.track(json="x.json", output="a.hiw", record=True) as run: ran = True
        assert ran
        os.chdir("/")
    """, quiet=False)


# ---- odd values ----------------------------------------------------------------------------------------------------------

def test_odd_values_and_names_are_dropped(program):
    """Each with one warning a name; the others of the call are kept."""
    program.run("""
        import warnings
        class Odd:
            def __float__(self): raise RuntimeError("lost device")
            __str__ = __int__ = __float__
        with warnings.catch_warnings(record=True) as caught, hiwater.track(output="a.hiw") as run:
            warnings.simplefilter("always")
            for value in (None, "x", [0.1], (), 10**400, Odd(), {}):
                run.log(good=1, bad=value)
            run.log({"train loss": 1.5, "  new\\nline ": 2, "a=b": 3, 'say "hi"': 4, "back\\\\slash": 5, 7: 6, "": 8, "x" * 2000: 9, None: 10})
            run.log({Odd(): 1}); run.log(Odd()); run.log([1, 2]); run.log(0.5)
            for step in (float("nan"), "x", Odd(), 10**400, None, 3): run.log(stepped=1, step=step)
            hiwater.log(loss=[])
            run.mark(Odd()); run.mark("nul\\0byte")
            with run.phase(Odd(), odd=Odd(), long="x" * 10000, **{"a b": 1}): pass
            with run.phase("p" * 5000, **{f"k{i}": "v" * 400 for i in range(100)}): pass
            class Bad(RuntimeError): __str__ = Odd.__str__
            assert not run.oom(Bad())
            list(run.wrap_loader([1], prefix="my loop "))
        said = [str(w.message) for w in caught]
        assert len(said) == len(set(said)) == len(run.warnings) == 6, said
        assert all(any(f"hiwater: {w}" == text for text in said) for w in run.warnings)
        for word in ("'bad'", "''", "'xxx", "mapping", "step", "'loss'"): assert any(word in w for w in run.warnings), (word, run.warnings)
        s = run.summary
        assert s.series["good"].n == 7 and "bad" not in s.series and s.series["train loss"].last == 1.5
        assert {"new line", "a=b", 'say "hi"', "back\\\\slash", "7", "None", "<Odd>", "my loop data_wait"} <= set(s.series), set(s.series)
        assert s.series["stepped"].n == 6 and s.series["stepped"].last_step == 3
        assert [p.name for p in s.phases] == ["<Odd>", "p" * 200] and all(p.end_s for p in s.phases)
        assert s.phases[0].facts["odd"] == "<Odd>" and len(s.phases[1].facts) > 10
    """)
    assert texts(program.folder / "a.hiw", "mark") == ["<Odd>", "nul byte"]


def test_what_was_dropped_is_said_in_plain_words(program):
    program.run("""
        import array, warnings
        warnings.simplefilter("ignore")
        with hiwater.track(record=False) as run:
            run.log(none=None); run.log(text="a"); run.log(list=[1, 2]); run.log(array=array.array("d", [1, 2])); run.log(huge=10**400)
            run.log(a=1, step="a"); run.log(0.5); run.log(long="x" * 1000)
        assert [w.partition("log: ")[2] for w in run.warnings] == [
            "a value of 'none' was dropped: None is not a number", "a value of 'text' was dropped: 'a' is not a number",
            "a value of 'list' was dropped: [1, 2] is not a number", "a value of 'array' was dropped: an array is not a number",
            "a value of 'huge' was dropped: it is too large for a number of 64 bits",
            "a step was dropped, and its values are kept without it: 'a' is not a whole number",
            "0.5 was dropped: it is not a mapping of names to numbers", "a value of 'long' was dropped: a str is not a number"], run.warnings
    """)


def test_without_a_run_odd_values_are_nobodys(program):
    """With the command around they are dropped with a warning, too, and names with blanks arrive."""
    text = """
        import warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            hiwater.log({"train loss": 1, "bad": None})
        tell(n=len(caught))
    """
    program.run(text)
    program.run(text, COMMAND, "run", "--summary", "none", "-o", "outer.hiw", "--")
    assert [told["n"] for told in program.told()] == [0, 1]
    assert list(program.shown("outer.hiw")["series"]) == ["train loss"]


def test_many_phases_are_open_at_once(program):
    program.run("""
        import contextlib
        with hiwater.track(record=False) as run, contextlib.ExitStack() as stack:
            for i in range(100): stack.enter_context(run.phase("nested", depth=i))
        assert run.warnings == [] and len(run.summary.phases) == 100 and all(p.end_s for p in run.summary.phases)
    """)


# ---- descriptors and children --------------------------------------------------------------------------------------------

def test_a_descriptor_that_is_not_its_own_any_more(program):
    """Libraries for daemons close everything from 3 on. What the program opened there since gets no
    byte of hiwater's, and stays open."""
    program.run("""
        import socket
        def reopened():
            os.closerange(3, 256)
            return [end for _ in range(4) for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)]
        with hiwater.track() as run:
            ends = reopened()
            run.log(a=1); run.mark("m")
            with run.phase("p"): pass
            run.summary
        from hiwater.compat.gpumemprof._evidence import Evidence
        evidence = Evidence("x")
        evidence.begin("x"); evidence._starter.join()
        ends_2 = reopened()
        evidence.send("mark x"); evidence.end()
        for end in [*ends[:0], *ends_2]:
            end.setblocking(False)
            try: raise AssertionError(end.recv(1000))
            except BlockingIOError: pass
        assert any("closed the descriptor" in w for w in run.warnings), run.warnings
        while recorders(): time.sleep(0.01)
        os._exit(0)  # ends is closed by the second closerange
    """)


def test_a_descriptor_that_is_another_file_now(program):
    program.run("""
        with hiwater.track() as run:
            number = run._channel._socket._socket.fileno()
            os.dup2(os.open("mine", os.O_RDWR | os.O_CREAT), number)
            run.log(a=1)
        assert run.warnings[0] == "a message was not recorded: the program closed the descriptor of the recorder's socket", run.warnings
        del run
        import gc; gc.collect()
        os.fstat(number)
        assert os.path.getsize("mine") == 0
    """)


def test_no_handler_of_sigchld_is_called(program):
    """Also where a keeper writes files for a tracker."""
    program.run("""
        got = []
        signal.signal(signal.SIGCHLD, lambda *_: got.append(1))
        with hiwater.track() as run: pass
        assert run.recording.summary.run.complete and run.report("r.html")  # these run the command
        try: hiwater.open("nothing-like-it")
        except hiwater.Error as e: assert "nothing-like-it" in str(e)
        from hiwater.compat.gpu_tracker import Tracker
        with Tracker(disable_logs=True, tracking_file="t.csv", sleep_time=0.1) as tracker: time.sleep(0.3)
        time.sleep(0.1)
        assert got == [] and run.summary.run.complete and os.path.getsize("t.csv") > 0
        try: os.wait()
        except ChildProcessError: pass
        else: raise AssertionError
    """)


LEFT = """
    def states():
        found = []
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try: found.append((int(stat.parent.name), stat.read_text().rpartition(")")[2].split()[0]))
            except OSError: pass
        return found
    before = {pid for pid, _ in states()}
    def left(): return [(pid, state) for pid, state in states() if pid not in before]
"""
CONTAINER = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child")


def is_allowed():
    return bool(shutil.which("unshare")) and subprocess.run([*CONTAINER, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("init", [(), ("sh", "-c", "\"$@\"; exit", "sh"), "sleep"], ids=["the program itself", "a shell", "one that reaps nobody"])
def test_nothing_is_left_in_a_container(program, init):
    """Neither a zombie nor a process, after track, a recorder that was killed, both drop-ins."""
    if not is_allowed():
        pytest.skip("no user and pid namespaces here")
    if init == "sleep":  # process 1 is no shell: it starts the program and sleeps
        one = program.folder / "one.py"
        one.write_text("import os, sys, time\npid = os.fork()\nif not pid: os.execvp(sys.argv[1], sys.argv[1:])\n"
                       "status = os.waitpid(pid, 0)[1]\nos._exit(os.waitstatus_to_exitcode(status))\n")
        init = ("python3", str(one))
    program.run(LEFT + """
    for i in range(5):
        with hiwater.track() as run: pass
        time.sleep(0.02 * i)
        assert [state for _, state in left() if state == "Z"] == [], left()
    run.path  # the temporary recording of a short run is awaited until here
    with hiwater.track(record=False) as run:
        [pid] = recorders()
        os.kill(pid, signal.SIGKILL)
    assert run.warnings
    from hiwater.compat.gpu_tracker import Tracker
    with Tracker(disable_logs=True, tracking_file="t.csv", sleep_time=0.1): time.sleep(0.3)
    from hiwater.compat.gpumemprof import CPUMemoryTracker
    with CPUMemoryTracker(sampling_interval=0.05): time.sleep(0.2)
    end = time.monotonic() + 10
    while left() and time.monotonic() < end: time.sleep(0.01)
    assert left() == [], left()
    """, *CONTAINER, *init)


def test_nothing_is_left_by_what_the_program_left_open(program):
    """A run and a tracker that nobody stopped, where process 1 reaps nobody."""
    if not is_allowed():
        pytest.skip("no user and pid namespaces here")
    (program.folder / "inner.py").write_text("import hiwater\nfrom hiwater.compat.gpumemprof import CPUMemoryTracker\n"
                                             "run = hiwater.start()\ntracker = CPUMemoryTracker(); tracker.start_tracking()\n"
                                             "tracker._evidence._starter and tracker._evidence._starter.join()\n"
                                             "from hiwater._channel import Channel\nfrom hiwater._command import command\n"
                                             "import os\nleft = Channel(command(), ['--summary', 'none', '--no-record', '--', str(os.getpid())])\n")
    program.run(LEFT + """
    pid = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "inner.py"])
    assert os.waitpid(pid, 0)[1] == 0
    assert left() == [], left()
    """, *CONTAINER)


def test_a_killed_program_takes_its_reaper_along(program):
    """The memory that they share is free at once; the recording is complete."""
    if not is_allowed():
        pytest.skip("no user and pid namespaces here")
    process = program.start("""
        run = hiwater.track(output="a.hiw").start()
        child = [int(p) for p in open(f"/proc/self/task/{os.getpid()}/children").read().split()]
        assert [open(f"/proc/{p}/comm").read().strip() for p in child] == ["hiwater-reaper"], child
        (FOLDER / "ready").touch()
        time.sleep(1000)
    """, *CONTAINER, "python3", "-c", """if True:
        import os, sys, time
        pid = os.fork()
        if not pid: os.execvp(sys.argv[1], sys.argv[1:])
        while not os.path.exists("ready"): time.sleep(0.01)
        reapers = [int(p) for p in os.listdir("/proc") if p.isdigit() and open(f"/proc/{p}/comm").read().strip() == "hiwater-reaper"]
        assert len(reapers) == 1, reapers
        os.kill(pid, 9)
        while reapers:
            found, _ = os.waitpid(-1, 0)
            reapers = [p for p in reapers if p != found]
        while True:
            try: os.waitpid(-1, 0)
            except ChildProcessError: break
    """)
    _, stderr = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, stderr
    assert program.shown("a.hiw")["run"]["complete"]


def test_an_exec_frees_the_memory_of_the_program(program):
    """Its reaper shares that memory, and ends with the recorder."""
    process = program.start("""
        import hiwater._spawn
        hiwater._spawn._init_reaps = lambda: False
        hiwater.track(output="a.hiw").start()
        block = fill(30)
        os.execv("/bin/sleep", ["sleep", "1000"])
    """)

    def children_with_memory():
        children = open(f"/proc/{process.pid}/task/{process.pid}/children").read().split()
        return [pid for pid in children if "VmRSS" in open(f"/proc/{pid}/status").read()]

    wait_for(lambda: open(f"/proc/{process.pid}/comm").read() == "sleep\n", "the exec")
    wait_for(lambda: not children_with_memory(), "the reaper ends", deadline=30)
    assert process.poll() is None
    process.kill()
    process.communicate()
    assert program.shown("a.hiw")["run"]["complete"]


def test_two_threads_wait_for_a_helper_and_one_reaps_it(program):
    """The one that reaps unmaps the stacks of the helper."""
    program.run("""
        from hiwater import _spawn
        class Core:
            calls, results = [], [-1, 0]
            def reap(self, *arguments):
                self.calls.append(arguments)
                entered.set()
                assert leave.wait(60)
                return self.results.pop(0)
        entered, leave, core = threading.Event(), threading.Event(), Core()
        helper = _spawn.Spawned(core, 5, 6)
        first = threading.Thread(target=helper.wait, args=(1,))
        first.start()
        assert entered.wait(60)
        leave_soon = threading.Timer(1, leave.set)  # a second call would wait as well
        leave_soon.start()
        assert helper.wait(1) and len(core.calls) == 1
        first.join()
        assert _spawn._late == [helper] and len(core.calls) == 1
        _spawn._reap_late()
        assert _spawn._late == [] and helper.wait(1) and core.calls == [(5, 6, 1000), (5, 6, 0)]
        leave_soon.join()
    """)


def test_a_socket_that_cannot_be_moved_is_closed(program):
    """Where the program closed its standard streams, and no further file may be opened."""
    program.run("""
        from _socket import socketpair
        from hiwater import _channel
        unraisable = []
        sys.unraisablehook = unraisable.append
        class Refusing:
            F_DUPFD_CLOEXEC = 0
            def fcntl(self, *arguments): raise OSError(24, "Too many open files")
        _channel.fcntl = Refusing()
        _channel.OwnSocket.FIRST = 1 << 20
        ours, theirs = socketpair()
        try: _channel.OwnSocket(ours)
        except OSError: pass
        else: raise AssertionError
        import gc; gc.collect()
        assert unraisable == [] and ours.fileno() == -1, unraisable
    """)


def test_a_reaper_is_no_process_of_the_job(program):
    """It shares the memory of the program: a run around another one must not count it twice. It may
    be seen before it has its name, and is then dropped."""
    if not is_allowed():
        pytest.skip("no user and pid namespaces here")
    [told] = program.run("""
        block = fill(100)
        with hiwater.track("outer", record=False, interval=0.005) as outer:
            for _ in range(3):
                with hiwater.track("inner", record=False): time.sleep(0.1)
        s = outer.summary
        tell(names=[p.name for p in s.processes.list], left=s.processes.left, peak=s.ram.combined.peak_bytes, main=s.ram.main.peak_bytes)
    """, *CONTAINER)
    assert "hiwater" not in " ".join(told["names"]) and told["left"] == 1 and told["peak"] < 1.3 * told["main"], told


# ---- green threads -------------------------------------------------------------------------------------------------------

def test_no_function_that_green_threads_replace_is_used(program):
    program.run("""
        import select, socket
        from hiwater import _run, _channel
        sleep = time.sleep
        def replaced(*_, **__): raise AssertionError("a green function")
        del select.poll
        socket.socket = socket.socketpair = select.select = time.sleep = replaced
        with hiwater.track(output="a.hiw") as run:
            run.log(loss=1)
            with run.phase("p"): run.summary
        assert run.summary.run.complete and run.summary.series["loss"].n == 1 and run.warnings == []
    """)


@pytest.mark.full
@pytest.mark.frameworks
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("package", ["gevent", "eventlet"])
def test_with_green_threads(program, package, when):
    """Patched before or after the import of hiwater."""
    patch = {"gevent": "from gevent import monkey; monkey.patch_all()", "eventlet": "import eventlet; eventlet.monkey_patch()"}[package]
    program.env["PYTHONWARNINGS"] = "ignore"
    [told] = program.run(f"""
        if {when == "after"}: import hiwater._run, hiwater._channel, hiwater._recording
        {patch}
        import threading, time
        with hiwater.track(output="a.hiw", interval=0.01) as run:
            def work(i):
                with run.phase("work", i=i):
                    run.log(i=i)
                    time.sleep(0.05)
            threads = [threading.Thread(target=work, args=(i,)) for i in range(10)]
            for t in threads: t.start()
            for t in threads: t.join()
            so_far = run.summary.wall_s
        s = run.summary
        tell(warnings=run.warnings, n=s.series["i"].n, phases=len(s.phases), so_far=so_far, wall=s.wall_s)
    """, quiet=False)
    assert told["warnings"] == [] and told["n"] == told["phases"] == 10 and told["so_far"] <= told["wall"]
    wait_for(lambda: not recorders_of(0), "no recorder is left")

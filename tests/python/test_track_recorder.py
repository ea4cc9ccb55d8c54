# SPDX-License-Identifier: MIT
"""hiwater.track with a recorder that is killed, stopped or cut off: the program continues, and the
recording is kept."""
import signal

import pytest
from track_helpers import COMMAND, DEADLINE, MIB, ended_recording, recorders_of, wait_for


def test_the_recorder_is_killed(program):
    """The program runs to its end; the recording is readable."""
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
    """Its recording is found from any folder, by the recorder named in it."""
    here = repr(f"{program.folder}/")
    [told] = program.run(f"""
        from hiwater._channel import Channel
        take = Channel._dispatch
        Channel._dispatch = lambda self, message: message.startswith(b"0 file") or take(self, message)
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
    """Neither the recorder nor a process that starts it blocks the program when stopped."""
    command = program.folder / "slow"
    if for_ever:
        stops = stops.replace("kill -STOP $$;", "while :; do kill -STOP $$; done;")
    command.write_text(f'#!/bin/sh\n{stops} {COMMAND} "$@" {"" if stops.endswith("exec") else "&"}\n')
    command.chmod(0o755)
    program.env["HIWATER_COMMAND"] = str(command)
    [told] = program.run("""
        began, why, warnings = time.monotonic(), None, []
        try:
            with hiwater.track(record=False, strict=True) as run: pass
            warnings = run.warnings
        except hiwater.Error as e: why = str(e)
        tell(took=time.monotonic() - began, why=why, warnings=warnings, pid=os.getpid())
    """)
    assert told["took"] < 15  # the limit of a start is 20 s
    wait_for(lambda: not recorders_of(told["pid"]), "nobody is left behind")
    assert (told["why"] or "").startswith("nothing is measured: ") if for_ever else told["why"] is None
    assert for_ever or told["warnings"] == [
        "the recorder was stopped (SIGSTOP) and has been continued (SIGCONT); nothing was measured in between"]


def test_a_forked_child_is_not_taken_for_the_recorder(program):
    """A child has the recorder's end of the socket if it was forked before that was closed; if
    stopped, it stays stopped."""
    command = program.folder / "slow"
    command.write_text(f'#!/bin/sh\nsh -c \'kill -STOP $$; exec "$@"\' sh {COMMAND} "$@" &\n')
    command.chmod(0o755)
    program.env["HIWATER_COMMAND"] = str(command)
    [told] = program.run("""
        from hiwater import _channel
        spawn, children = _channel._spawn.spawn, []
        def forks_before(*what):
            children.append(os.fork())
            if children[-1] == 0:
                signal.pause()
            os.kill(children[-1], signal.SIGSTOP)
            os.waitpid(children[-1], os.WUNTRACED)
            return spawn(*what)
        _channel._spawn.spawn = forks_before
        try:
            with hiwater.track(record=False) as run: pass
            state = open(f"/proc/{children[0]}/stat").read().rpartition(")")[2].split()[0]
        finally:
            os.kill(children[0], signal.SIGKILL)
        tell(state=state, complete=run.summary.run.complete, warnings=run.warnings)
    """)
    assert told == {"state": "T", "complete": True, "warnings": [
        "the recorder was stopped (SIGSTOP) and has been continued (SIGCONT); nothing was measured in between"]}


def test_the_recorder_stands_still(program):
    """No call waits longer than its limit."""
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
    """No call waits in vain: the stopped recorder gets SIGCONT, and the run ends normally."""
    [told] = program.run(STOPPED + """
    with hiwater.track(output="a.hiw") as run:
        stop_it(run)
        so_far = run.summary.run.complete
        stop_it(run)
    tell(so_far=so_far, complete=run.summary.run.complete, warnings=run.warnings)
    """)
    assert told == {"so_far": False, "complete": True, "warnings": [
        "the recorder was stopped (SIGSTOP) and has been continued (SIGCONT); nothing was measured in between"]}
    assert program.shown("a.hiw")["run"]["complete"]


def test_a_recorder_that_was_stopped_ends_with_the_program(program):
    process = program.start(STOPPED + """
    run = hiwater.track(output="a.hiw").start()
    stop_it(run)
    """)
    assert process.wait(2 * DEADLINE) == 0
    assert ended_recording(program, process)["run"]["complete"]


def test_a_recorder_that_stays_stopped_is_given_up(program):
    """It gets SIGCONT once per request, the error names the cause, and no process is left."""
    [told] = program.run(STOPPED + """
    from hiwater._process import Process
    send, sent = Process.signal, []
    Process.signal = lambda self, number: sent.append(number) or (number == signal.SIGKILL and send(self, number))
    with hiwater.track(record=False) as run:
        stop_it(run)
        why = str(run.summary)
    tell(why=why, sent=sent, warnings=run.warnings, pid=os.getpid())
    """)
    assert "is stopped (SIGSTOP), and was stopped again after" in told["why"]
    assert told["sent"] == [signal.SIGCONT, signal.SIGCONT, signal.SIGKILL]
    assert told["warnings"][-1].startswith("the end was not recorded: the recorder is stopped (SIGSTOP)")
    wait_for(lambda: not recorders_of(told["pid"]), "the recorder has ended")


def test_descriptors_closed_behind_its_back(program):
    program.run("""
        run = hiwater.track(record=False).start()
        os.closerange(3, 100)
        run.stop()
        assert run.warnings and not run.is_running
    """)

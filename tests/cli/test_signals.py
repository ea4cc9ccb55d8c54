# SPDX-License-Identifier: MIT
"""A signal reaches the job exactly once, however it is sent."""
import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import sys

import pytest
from cli_helpers import HERE, HIWATER, processes, state_of, wait_for

SIGNALS = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGCONT, signal.SIGALRM,
           signal.SIGWINCH, signal.SIGPIPE, signal.SIGSEGV, signal.SIGABRT, signal.SIGURG, signal.SIGRTMIN + 5]


def name_of(number):
    number = int(number)
    if number > signal.SIGRTMIN:
        return f"RT{number - signal.SIGRTMIN}"
    return signal.Signals(number).name.removeprefix("SIG")


def settle(process, counter, n=1):
    """hiwater handles signals in order: when this one has arrived, all earlier ones have been decided."""
    os.kill(process.pid, signal.SIGUSR2)
    counter.wait_got("USR2", n)


def start(tool, *options, job_options=()):
    counter = tool.counter()
    process = tool.start("run", *options, "--", *counter.command(*job_options))
    counter.wait_ready()
    settle(process, counter)
    return process, counter


@pytest.mark.parametrize("number", SIGNALS, ids=name_of)
def test_to_hiwater_alone(tool, number):
    process, counter = start(tool)
    os.kill(process.pid, number)
    counter.wait_got(name_of(number))
    settle(process, counter, 2)
    assert len(counter.got(name_of(number))) == 1
    counter.finish()
    assert process.wait(30) == 0


@pytest.mark.parametrize("number", SIGNALS, ids=name_of)
def test_to_the_group(tool, number):
    process, counter = start(tool)
    os.killpg(process.pid, number)
    counter.wait_got(name_of(number))
    settle(process, counter, 2)
    assert len(counter.got(name_of(number))) == 1
    counter.finish()
    assert process.wait(30) == 0


@pytest.mark.release  # a sanitizer takes SIGBUS
@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["alone", "group"])
def test_a_bus_error_that_is_sent(tool, send):
    """The thread that writes the recording does not block it, since a fault of its own would then end hiwater."""
    process, counter = start(tool, "-o", "x.hiw")
    wait_for(lambda: len(list(pathlib.Path(f"/proc/{process.pid}/task").iterdir())) > 1 and (tool.folder / "x.hiw").exists(),
             "the recording is written")
    send(process.pid, signal.SIGBUS)
    counter.wait_got("BUS")
    settle(process, counter, 2)
    assert len(counter.got("BUS")) == 1
    counter.finish()
    assert process.wait(30) == 0


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["alone", "group"])
def test_many_times(tool, send):
    process, counter = start(tool)
    for i in range(1, 101):
        send(process.pid, signal.SIGUSR1)
        counter.wait_got("USR1", i)
    settle(process, counter, 2)
    assert len(counter.got("USR1")) == 100
    counter.finish()
    assert process.wait(30) == 0


def test_alone_and_to_the_group_by_turns(tool):
    """hiwater must have read one signal before the next is sent: else the kernel merges the two at hiwater."""
    process, counter = start(tool)
    for i in range(1, 61):
        (os.killpg if i % 3 else os.kill)(process.pid, signal.SIGUSR1)
        counter.wait_got("USR1", i)
        settle(process, counter, 1 + i)
    assert len(counter.got("USR1")) == 60
    counter.finish()
    assert process.wait(30) == 0


def test_different_signals_at_once(tool):
    """What scancel does, and more: several signals without a pause, all of them to the group."""
    process, counter = start(tool)
    sent = [signal.SIGCONT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM, signal.SIGRTMIN + 1]
    for i in range(1, 21):
        for number in sent:
            os.killpg(process.pid, number)
        for number in sent:
            counter.wait_got(name_of(number), i)
        settle(process, counter, 1 + i)
    for number in sent:
        assert len(counter.got(name_of(number))) == 20, name_of(number)
    counter.finish()
    assert process.wait(30) == 0


def test_a_group_and_a_lone_signal_at_once(tool):
    process, counter = start(tool)
    for i in range(1, 21):
        os.killpg(process.pid, signal.SIGTERM)
        os.kill(process.pid, signal.SIGUSR1)
        counter.wait_got("TERM", i)
        counter.wait_got("USR1", i)
        settle(process, counter, 1 + i)
    assert len(counter.got("TERM")) == 20
    assert len(counter.got("USR1")) == 20
    counter.finish()
    assert process.wait(30) == 0


def test_values_of_sigqueue(tool):
    process, counter = start(tool)
    sigqueue = ctypes.CDLL(None).sigqueue
    number = signal.SIGRTMIN + 3
    for value in range(1, 41):
        assert sigqueue(process.pid, number, ctypes.c_void_p(value)) == 0
    counter.wait_got("RT3", 40)
    settle(process, counter, 2)
    assert counter.got("RT3") == [["RT3", "QUEUE", str(value)] for value in range(1, 41)]
    counter.finish()
    assert process.wait(30) == 0


def test_a_loop_over_the_pids(tool):
    """A sender that signals a process tree one by one reaches the group probe too: children first, as Slurm's linuxproc does."""
    process, counter = start(tool)
    for i in range(1, 11):
        for pid, _, _, _, pgrp in sorted(processes(), reverse=True):
            if pgrp == process.pid:
                with contextlib.suppress(ProcessLookupError):  # a canary that has done its work
                    os.kill(pid, signal.SIGUSR1)
        counter.wait_got("USR1", i)
        settle(process, counter, 1 + i)
    assert len(counter.got("USR1")) == 10
    counter.finish()
    assert process.wait(30) == 0


def test_a_job_in_a_session_of_its_own(tool):
    """It gets signals sent to hiwater, but not those sent to hiwater's group, as without hiwater."""
    process, counter = start(tool, job_options=["--setsid"])
    os.kill(process.pid, signal.SIGTERM)
    counter.wait_got("TERM")
    os.killpg(process.pid, signal.SIGUSR1)
    settle(process, counter, 2)
    assert len(counter.got("TERM")) == 1
    assert counter.got("USR1") == []
    counter.finish()
    assert process.wait(30) == 0


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["alone", "group"])
def test_term_ends_the_job_and_there_is_a_summary(tool, send):
    process = tool.start("run", "--", "sh", "-c", "echo ready; exec sleep 1000")
    assert process.stdout.readline() == b"ready\n"
    send(process.pid, signal.SIGTERM)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGTERM
    assert b"hiwater" in stderr


def test_a_job_that_ignores_term(tool):
    process = tool.start("run", "--", "sh", "-c", "trap '' TERM; echo ready; read x; exit 5", stdin=-1)
    assert process.stdout.readline() == b"ready\n"
    os.killpg(process.pid, signal.SIGTERM)
    os.kill(process.pid, signal.SIGTERM)
    process.stdin.write(b"go\n")
    process.stdin.flush()
    assert process.wait(30) == 5


def test_a_job_that_ends_well_on_term(tool):
    process = tool.start("run", "--", "sh", "-c", "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done")
    assert process.stdout.readline() == b"ready\n"
    os.kill(process.pid, signal.SIGTERM)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 7
    assert stdout == b"bye\n"
    assert b"hiwater" in stderr


def test_a_signal_before_the_job_is_there(tool):
    """Sent right after hiwater was started: it ends hiwater or the job; it is never lost."""
    for _ in range(20):
        process = tool.start("run", "--", "sleep", "1000")
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(30) == -signal.SIGTERM


def test_kill_9_leaves_the_job_alone(tool):
    process = tool.start("run", "--", "sh", "-c", "echo ready; read x; echo still here", stdin=-1)
    assert process.stdout.readline() == b"ready\n"
    process.kill()
    assert process.wait(30) == -signal.SIGKILL
    wait_for(lambda: not [p for p in processes() if p[1] == "hiwater-probe" and p[4] == process.pid and p[2] != "Z"],
             "the canary went with hiwater")
    process.stdin.write(b"go\n")
    process.stdin.flush()
    assert process.stdout.read() == b"still here\n"


def test_stop_and_continue_of_hiwater_alone(tool):
    """In a group that a shell may stop: hiwater forwards the signal, then stops as well. The group must not be orphaned, so
    this process stays in the session."""
    counter = tool.counter()
    process = tool.start("run", "--", *counter.command(), group=False, process_group=0)
    job = counter.wait_ready()
    settle(process, counter)
    os.kill(process.pid, signal.SIGTSTP)
    wait_for(lambda: state_of(job) == "T", "the job is stopped")
    wait_for(lambda: state_of(process.pid) == "T", "hiwater is stopped")
    os.kill(process.pid, signal.SIGCONT)
    wait_for(lambda: state_of(job) != "T", "the job goes on")
    settle(process, counter, 2)
    assert len(counter.got("TSTP")) == 1
    assert len(counter.got("CONT")) == 1
    counter.finish()
    assert process.wait(30) == 0


def test_stop_and_continue_of_the_group(tool):
    counter = tool.counter()
    process = tool.start("run", "--", *counter.command(), group=False, process_group=0)
    job = counter.wait_ready()
    settle(process, counter)
    for i in range(1, 11):
        os.killpg(process.pid, signal.SIGTSTP)
        wait_for(lambda: state_of(job) == "T" and state_of(process.pid) == "T", "both are stopped")
        os.killpg(process.pid, signal.SIGCONT)
        counter.wait_got("CONT", i)
        settle(process, counter, 1 + i)
    assert len(counter.got("TSTP")) == 10
    assert len(counter.got("CONT")) == 10
    counter.finish()
    assert process.wait(30) == 0


def test_stop_and_continue_without_a_pause(tool):
    """No process is left stopped: the kernel cancels a stop when it continues a group."""
    counter = tool.counter()
    process = tool.start("run", "--", *counter.command("--default-stop"), group=False, process_group=0)
    job = counter.wait_ready()
    settle(process, counter)
    for i in range(1, 31):
        os.killpg(process.pid, signal.SIGTSTP)
        os.killpg(process.pid, signal.SIGCONT)
        settle(process, counter, 1 + i)
    assert state_of(job) != "T" and state_of(process.pid) != "T"
    counter.finish()
    assert process.wait(30) == 0


def test_a_stop_of_main_from_outside_does_not_stop_hiwater(tool):
    counter = tool.counter()
    process = tool.start("run", "--", *counter.command(), group=False, process_group=0)
    job = counter.wait_ready()
    os.kill(job, signal.SIGSTOP)
    wait_for(lambda: state_of(job) == "T", "the job is stopped")
    os.kill(job, signal.SIGCONT)
    settle(process, counter)
    counter.finish()
    assert process.wait(30) == 0


def test_the_jobs_mask_and_dispositions_are_those_without_hiwater(tool):
    def prepare():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})

    command = ["grep", "^Sig[BIC]", "/proc/self/status"]
    with_it = tool.run("run", "--summary", "none", "--", *command, preexec_fn=prepare).stdout
    without = subprocess.run(command, capture_output=True, text=True, preexec_fn=prepare).stdout
    assert with_it == without
    assert len(without.splitlines()) == 3


def test_a_fault_of_a_recording_read_at_the_end_is_not_blocked(tool):
    """A blocked fault would end hiwater; the job's SIGBUS is forwarded as long as it runs."""
    def is_blocked():
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        return int(status.split("SigBlk:")[1].split()[0], 16) >> signal.SIGBUS - 1 & 1

    os.mkfifo(tool.folder / "fifo")  # without a reader: the end takes a second
    process = tool.start("run", "--json", "fifo", "--no-record", "--", "sh", "-c", "echo; read line", stdin=subprocess.PIPE)
    assert process.stdout.readline() and is_blocked()
    process.stdin.close()
    wait_for(lambda: process.poll() is not None or not is_blocked(), "it does not block SIGBUS")
    assert process.poll() is None
    assert process.wait(30) == 1


def test_no_process_is_started_where_no_signal_came(tool):
    """A sandbox without poll: hiwater then tries to read signals every 10 ms."""
    process = subprocess.Popen([sys.executable, HERE / "sandbox.py", "no-poll", HIWATER, "run", "--json", "run.json", "--summary", "none",
                                "-i", "100ms", "--", "sleep", "2"], env=tool.env, cwd=tool.folder, start_new_session=True)
    probes = set()

    def note_probes():
        probes.update(p[0] for p in processes() if p[4] == process.pid and p[1] == "hiwater-probe")
        return process.poll() is not None

    wait_for(note_probes, "the run ends")
    assert process.returncode == 0 and len(probes) == 1


def test_no_process_of_hiwaters_is_left(tool):
    process, counter = start(tool)
    os.killpg(process.pid, signal.SIGUSR1)
    counter.wait_got("USR1")
    counter.finish()
    assert process.wait(30) == 0
    assert [p for p in processes() if p[4] == process.pid and p[2] != "Z"] == []


def test_an_alarm_set_before_the_exec_rings_in_the_job(tool):
    """perl -e 'alarm 10; exec @ARGV' is an old way to limit a command's time."""
    code = ("import os, signal, sys; signal.setitimer(signal.ITIMER_REAL, 0.3);"
            "os.execv(sys.argv[1], [sys.argv[1], 'run', '--', 'sleep', '1000'])")
    done = subprocess.run([sys.executable, "-c", code, HIWATER], env=tool.env, capture_output=True, cwd=tool.folder,
                          timeout=60)
    assert done.returncode == -signal.SIGALRM

# SPDX-License-Identifier: MIT
"""Live views of hiwater top: the machine, a process, a growing or truncated recording, GPUs."""
import os
import pathlib
import re
import signal
import subprocess
import sys

import top_screen
from cli_helpers import DEADLINE, HERE, HIWATER, wait_for
from top_screen import SLEEPER, click, first_row, place_of, top

pytestmark = top_screen.needed


def test_the_machine(screen, sleeper):
    s = screen(100, 30)
    s.line(top("--filter", f"'pid == {sleeper.pid}'", "--gpu", "none"))
    s.wait(rf"^ +{sleeper.pid} .*python")
    s.wait(r"CPU +[\d.]+ cores")
    s.keys("C")
    s.wait(r"^   0 \[")


def test_a_process_and_a_signal_to_it(screen, sleeper):
    s = screen(100, 30)
    s.line(top(sleeper.pid, "--gpu", "none"))
    s.wait(rf"pid {sleeper.pid}")
    s.wait(rf"^ +{sleeper.pid} ")
    s.keys("F9")
    s.wait("select a process first")
    s.keys("Down", "F9")
    s.wait("5 TERM")
    s.keys("5")
    s.wait(rf"TERM to {sleeper.pid} .*y or n")
    s.keys("n")
    s.wait_not("y or n")
    assert sleeper.poll() is None
    s.keys("m")
    s.line("look here")
    s.wait("mark look here")
    s.keys("F9", "5", "y")
    assert sleeper.wait(DEADLINE) == -signal.SIGTERM
    s.wait("ended")
    s.keys("q")


def test_a_signal_goes_to_whom_the_question_names(screen, sleeper):
    """A click on another row changes nothing about it."""
    with subprocess.Popen(["sleep", "600"]) as other:
        try:
            s = screen(100, 30)
            s.line(top("--filter", f"'pid == {sleeper.pid} or pid == {other.pid}'", "--gpu", "none"))
            s.wait(rf"^ +{other.pid} .*sleep 600")
            click(s, *place_of(s, f"{sleeper.pid} "))
            s.keys("F9", "5")
            s.wait(rf"TERM to {sleeper.pid} .*y or n")
            click(s, *place_of(s, f"{other.pid} "))
            s.keys("y")
            assert sleeper.wait(DEADLINE) == -signal.SIGTERM
            assert other.poll() is None
        finally:
            other.kill()


def test_no_signals_where_they_are_switched_off(screen, sleeper):
    s = screen()
    s.line(top(sleeper.pid, "--gpu", "none", "--readonly"))
    s.wait(rf"^ +{sleeper.pid} ")
    s.keys("Down", "F9")
    s.wait("signals are disabled")


def test_a_recording_that_grows(tool, screen):
    path = tool.folder / "grows.hiw"
    run = tool.start("run", "-o", path, "--summary", "none", "--gpu", "none", "--", sys.executable, "-c", SLEEPER)
    wait_for(path.exists, "the recording")
    s = screen(100, 30)
    s.line(top(path))
    s.wait("every 1 s")
    first = s.wait(r"(0:00:\d\d)  every")[1]
    wait_for(lambda: (re.search(r"(0:00:\d\d)  every", s.text()) or [0, first])[1] > first, "the time advances")
    s.wait("python")
    s.keys("m")  # another shell's run: no question whose answer could not be used
    s.wait("marks can be added inside the run only: hiwater mark TEXT")
    run.terminate()
    run.wait(DEADLINE)
    s.wait("ended")


def test_a_process_that_is_recorded_is_not_read_twice(tool, screen):
    run = tool.start("run", "--summary", "none", "--gpu", "none", "-n", "mine", "--", "sleep", "60")
    pid = wait_for(lambda: subprocess.run(["ps", "-o", "pid=", "--ppid", str(run.pid)], capture_output=True, text=True,
                                          check=False).stdout.split(), "the job")[0]
    wait_for(lambda: list(tool.history.glob("*.hiw")), "the recording")
    s = screen(100, 30)
    s.line(top(pid))
    s.wait(r"hiwater mine .*every 1 s")  # the run's name is in the recording alone
    run.terminate()
    run.wait(DEADLINE)


def test_a_recording_whose_recorder_was_killed(tool, screen):
    path = tool.folder / "cut.hiw"
    run = tool.start("run", "-o", path, "--summary", "none", "--gpu", "none", "--", sys.executable, "-c", SLEEPER)
    wait_for(path.exists, "the recording")
    wait_for(lambda: "RAM" in tool.run("show", path).stdout, "something in it")
    run.kill()
    run.wait(DEADLINE)
    s = screen(100, 30)
    s.line(top(path, "--at", "1s"))
    s.wait("0:00:0. of 0:00:")
    s.wait("python")
    os.kill(int(re.search(r"^ +(\d+) ", first_row(s))[1]), signal.SIGKILL)


def test_an_instance_is_not_called_as_its_gpu(tool, screen, sleeper):
    fakes = HERE.parent / "fake" / "scenarios"
    env = {"LD_LIBRARY_PATH": str(pathlib.Path(HIWATER).parent / "tests" / "fake" / "drivers" / "550"),
           "HIWATER_FAKE_NVML": str(fakes / "mig.conf"), "HIWATER_FAKE_PID": str(sleeper.pid)}
    lines = tool.run("top", sleeper.pid, "-n", "3", env=env).stdout
    assert re.search(r"^MIG0\.0 memory .* of 39\.5G", lines, re.M) and re.search(r"^GPU0 memory .* of 79\.6G", lines, re.M), lines
    assert re.search(r"^MIG0\.0 NVIDIA H100 .*, SM ", lines, re.M), lines
    s = screen(120, 70, **env)  # the meters and the chart of it by the same number
    s.line(top(sleeper.pid))
    s.wait(r"^ MIG0\.0 +\d")
    s.wait(r" SM0\.0 ")
    s.keys("q")


def test_gpus_of_a_driver(tool, screen, sleeper):
    """Live, with a fake driver: memory of the device and of the process, SM activity, power."""
    scenario = tool.folder / "gpu.conf"
    scenario.write_text(f"""[driver]
level = 550
[gpu 0-1]
include = {HERE.parent}/fake/scenarios/cards/h100.conf
memory_used = processes 100Mi
[process 0]
pid = {sleeper.pid}
memory = 3Gi
""")
    drivers = pathlib.Path(HIWATER).parent / "tests" / "fake" / "drivers" / "550"
    s = screen(120, 40, LD_LIBRARY_PATH=str(drivers), HIWATER_FAKE_NVML=str(scenario))
    s.line(top(sleeper.pid))
    s.wait(r"^ GPU0 +3\.\d+G \[.* of 80\.0G|^ GPU0 +3\.\d+G \[.*of \d\d\.\dG")
    s.wait(r"^  SM .*%.* W .* C .*H100|^  busy .* W ")
    s.wait("1 GPU on which the job uses no memory")
    s.wait(rf"^ +{sleeper.pid} .* 3\.00G")
    s.keys("q")
    lines = tool.run("top", sleeper.pid, "-n", "3", env={"LD_LIBRARY_PATH": str(drivers), "HIWATER_FAKE_NVML": str(scenario)}).stdout
    assert re.search(r"^GPU0 memory 3\.\d+G of ", lines, re.M), lines


def test_the_only_look_has_the_gpus(tool, sleeper):
    """A driver that answers after the sample was due."""
    scenario = tool.folder / "gpu.conf"
    scenario.write_text(f"""[driver]
level = 550
[gpu 0]
include = {HERE.parent}/fake/scenarios/cards/h100.conf
[call nvmlInit*]
delay = 0.1
""")
    drivers = pathlib.Path(HIWATER).parent / "tests" / "fake" / "drivers" / "550"
    lines = tool.run("top", sleeper.pid, "--plain", "-n", "1", "--interval", "10ms",
                     env={"LD_LIBRARY_PATH": str(drivers), "HIWATER_FAKE_NVML": str(scenario)}).stdout
    assert re.search(r"^GPU0 memory ", lines, re.M), lines

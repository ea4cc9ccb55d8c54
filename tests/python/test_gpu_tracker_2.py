# SPDX-License-Identifier: MIT
"""hiwater.compat.gpu_tracker_2, the Tracker of gpu-tracker's paper: its tutorial as printed, its
texts, and correct figures."""
import json
import re
import subprocess
import sys

import gpu_tracker_paper as paper
import pytest
from gpu_tracker_helpers import Commands, golden, masked, without_gpus
from track_helpers import COMMAND, MIB, recorders_of, wait_for

import hiwater.compat.gpu_tracker_2 as gput

BEGIN = "import hiwater.compat.gpu_tracker_2 as gput\n"
DONE = "Resource tracking complete. Process completed with status code: "


@pytest.fixture
def command(program):
    return Commands(program.folder, {**program.env, "PATH": without_gpus()["PATH"]}, "gpu_tracker_2")


# ---- the paper ---------------------------------------------------------------------------------------------------------------

def test_the_tutorial_in_python(program):
    """The golden output is that of gpu-tracker 2.0.1 for the same lines, without the numbers."""
    (program.folder / "torch.py").write_text(paper.TORCH)
    (program.folder / "tutorial.py").write_text(paper.API.format(package="hiwater.compat.gpu_tracker_2"))
    done = subprocess.run([sys.executable, "tutorial.py"], cwd=program.folder, env=program.env, capture_output=True, text=True,
                          timeout=100, check=True)
    assert masked(done.stdout) + "\n" == golden("gpu_tracker-2-tutorial.txt") and done.stderr == ""
    [as_json] = re.findall(r"^\{.*?^\}", done.stdout, re.S | re.M)
    assert json.loads(as_json)["max_ram"]["main"]["total_rss"] > 300 and json.loads(as_json)["compute_time"]["time"] > 0.1


def test_the_tutorial_of_the_command(program):
    """stdout and stderr together, as a terminal shows them."""
    folder = subprocess.run([sys.executable, "-m", "hiwater.compat", "bin", "gpu_tracker_2"], capture_output=True, text=True,
                            env={**program.env, "XDG_CACHE_HOME": str(program.folder)}, check=True).stdout.strip()
    (program.folder / "example-script.sh").write_text(paper.SCRIPT)
    done = subprocess.run(["sh", "-e"], input=paper.COMMANDS, cwd=program.folder, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, env={**program.env, "PATH": f"{folder}:{without_gpus()['PATH']}"}, timeout=100,
                          check=True)
    assert masked(done.stdout) + "\n" == golden("gpu_tracker-2-tutorial-command.txt")


# ---- the Tracker ---------------------------------------------------------------------------------------------------------------

def test_live_and_constant_afterwards(program):
    """The three results are objects that stay the same; sleep_time has no lower limit; a burst is
    exact."""
    [told] = program.run(BEGIN + """
tracker = gput.Tracker(sleep_time=0.001, ram_unit="bytes", time_unit="seconds")
ram, duration = tracker.max_ram, tracker.compute_time
assert (ram.main.total_rss, duration.time, tracker.max_gpu_ram) == (0, 0, gput.tracker.MaxGPURAM("gigabytes"))
assert ram.system_capacity == tracker.max_ram.system_capacity > 0
assert tracker.start() is None
block = fill(100)
deadline = time.monotonic() + 60
while tracker.max_ram.main.total_rss < 100 * MIB: assert time.monotonic() < deadline; time.sleep(0.005)
first = tracker.compute_time.time
while tracker.compute_time.time <= first: assert time.monotonic() < deadline; time.sleep(0.005)
more = fill(200); time.sleep(0.01); del more
tracker.stop()
assert ram is tracker.max_ram and duration is tracker.compute_time and ram.main.total_rss >= 300 * MIB
before = tracker.to_json()
time.sleep(0.1)
assert tracker.to_json() == before
tracker.stop()  # again, as a thread that is joined
tell(**before)
""")
    assert told["max_ram"]["combined"]["total_rss"] == told["max_ram"]["main"]["total_rss"] >= 300 * MIB
    assert list(told) == ["max_ram", "max_gpu_ram", "compute_time"]


def test_attributes_and_errors(program):
    program.run(BEGIN + """
import pickle
tracker = gput.Tracker(2.0, process_id=os.getppid())
assert (tracker.sleep_time, tracker.n_join_attempts, tracker.join_timeout, tracker.kill_if_join_fails, tracker.process_id) == (
    2.0, 5, 10.0, False, os.getppid())
memory = "is not a valid memory unit. Valid values are bytes, gigabytes, kilobytes, megabytes, terabytes"
for arguments, words in (({"ram_unit": "milliunit"}, f'"milliunit" {memory}'), ({"gpu_ram_unit": "milliunit"}, f'"milliunit" {memory}'),
                         ({"time_unit": "milliunit"}, '"milliunit" is not a valid time unit. Valid values are days, hours, minutes, seconds')):
    try: gput.Tracker(**arguments)
    except ValueError as e: assert str(e) == words, e
    else: raise AssertionError
try: gput.Tracker(process_id=1 << 30)
except ProcessLookupError as e: assert str(e) == f"process PID not found (pid={1 << 30})"
else: raise AssertionError
for act, words in ((tracker.stop, "cannot join thread before it is started"), (tracker.start, None),
                   (tracker.start, "threads can only be started once")):
    try: act()
    except RuntimeError as e: assert str(e) == words, e
    else: assert words is None
assert "main" in pickle.loads(pickle.dumps(tracker)).to_json()["max_ram"]
tracker.stop()
""")


STUCK = BEGIN + """
tracker = gput.Tracker(ram_unit="bytes", n_join_attempts=2, join_timeout=0.2{more})
tracker.start()
block = fill(100)
path = tracker._session.timeline.path
def written():
    try: return hiwater.open(path).summary.ram.main.peak_bytes >= 100 * MIB
    except hiwater.Error: return False
while not written(): time.sleep(0.05)
[pid] = recorders()
os.kill(pid, signal.SIGSTOP)
try:
    tracker.stop()
finally:
    tell(main=tracker.max_ram.main.total_rss, pid=os.getpid())
"""


@pytest.mark.parametrize("kills", [False, True])
def test_a_recorder_that_does_not_answer_is_left(program, kills):
    """A stopped recorder is not waited for, and is killed. With kill_if_join_fails the program ends
    with 1."""
    [told] = program.run(STUCK.format(more=", kill_if_join_fails=True" if kills else ""), quiet=False, status=int(kills))
    assert told["main"] >= 100 * MIB
    wait_for(lambda: not recorders_of(told["pid"]), "the recorder has ended")
    again = "WARNING:root:Thread is still alive after join timout. Attempting to join again..."
    assert program.stderr.splitlines() == [
        again, again, "WARNING:root:Thread is still alive after 2 attempts to join. The thread will likely not end until the parent "
        "process ends.", *["WARNING:root:The thread failed to join and kill_if_join_fails is set. Exiting ..."] * kills]


# ---- the command -----------------------------------------------------------------------------------------------------------------

def test_help(command):
    """Fig. 2 of the paper."""
    assert command.run("-h") == command.run("--help") == (0, golden("gpu_tracker-2-help.txt"), "")
    usage = re.search(r"Usage:.*?(?=\n\n)", golden("gpu_tracker-2-help.txt"), re.S)[0] + "\n"
    for line in ([], ["-v"], ["-e", "true", "--nec=2"], ["more"]):
        assert command.run(*line) == (1, "", usage)
    assert command.run("-e") == (1, "", "-e requires argument\n" + usage)


def test_exit_status_quotes_and_formats(command):
    status, stdout, stderr = command.run("-e", "sh -c 'exit 3'")
    assert (status, stderr) == (3, "") and stdout.startswith(DONE + "3\nMax RAM:")
    status, stdout, stderr = command.run("-e", "sleep 0.3", "-f", "json", "--tu=seconds", "--st=0.05")
    assert (status, stderr) == (0, DONE + "0\n") and 0.3 <= json.loads(stdout)["compute_time"]["time"] < 30
    assert command.run("-e", "touch ran", "-f", "xml") == (
        1, "", 'ERROR:root:"xml is not a valid format. Valid values are "json" or "text".\n')
    assert command.run("-e", "touch ran", "--ru=mb")[0] == 1 and not (command.folder / "ran").exists()
    assert command.run("-e", "no-such-command") == (1, "", 'ERROR:root:Command not found: "no-such-command"\n')
    assert command.run("-e", "") == (1, "", 'ERROR:root:Command not found: ""\n')


def test_names():
    assert gput.__version__ == "2.0.1" and gput.tracker.Tracker is gput.Tracker and COMMAND

# SPDX-License-Identifier: MIT
"""The command gpu-tracker of hiwater.compat, as of 5.0.1: its texts and forms, and the job, which
it leaves alone."""
import fcntl
import json
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import termios

import pytest
from gpu_tracker_helpers import Commands, golden, masked, without_gpus
from test_gpu_tracker import rows_of
from test_gpu_tracker_blocks import write_blocks, write_tracking
from track_helpers import MIB, wait_for

import hiwater.compat.gpu_tracker as gput

DONE = "Resource tracking complete. Process completed with status code: "
KILLED = "sh -c 'kill -9 $$'"
NO_GPU = ("WARNING:root:Neither the nvidia-smi command nor the amd-smi command is installed. Install one of these to profile the "
          "GPU. Otherwise the GPU RAM and GPU utilization values will remain 0.0.\n")


@pytest.fixture
def command(program):
    made = Commands(program.folder, {**program.env, "PATH": without_gpus()["PATH"]})
    return made


def script(command, text):
    """A command line that runs a Python text."""
    file = command.folder / f"job{len(list(command.folder.glob('job*.py')))}.py"
    file.write_text(f"import os, signal, sys, time\n{text}\n")
    return f"{sys.executable} {file}"


# ---- the job is left alone ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("package", ["gpu_tracker", "gpu_tracker_2"])
def test_a_job_that_was_killed(command, package):
    """The action of SIGKILL cannot be set; the command ends as the job did."""
    done = subprocess.run([sys.executable, "-m", f"hiwater.compat.{package}", "--execute", KILLED], env=command.environment,
                          cwd=command.folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL and f"{DONE}-9" in done.stdout and "Traceback" not in done.stderr, done


@pytest.mark.parametrize("status", [0, 7])
def test_exit_status(command, status):
    done, stdout, stderr = command.run("-e", f"sh -c 'exit {status}'")
    assert done == status and stdout.startswith(f"{DONE}{status}\nMax RAM:\n") and stderr == NO_GPU


def test_quotes(command):
    assert command.ok("-e", """python3 -c 'print("a  b", 42)'""").startswith("a  b 42\n" + DONE + "0\n")
    assert command.run("-e", "echo 'a")[::2] == (1, "ERROR:root:No closing quotation\n")


def test_short_runs_are_measured(command):
    """gpu-tracker reported zeros."""
    got = json.loads(command.ok("-e", script(command, "b = bytearray(50 << 20); b[::4096] = b'x' * len(b[::4096])"), "-f", "json",
                                "--ru=bytes", "--tu=seconds"))
    assert got["max_ram"]["main"]["total_rss"] >= 50 * MIB and got["max_ram"]["unit"] == "bytes"
    assert got["compute_time"]["time"] > 0 and got["cpu_utilization"]["main_n_threads"] == 1


def test_a_daemon_belongs_to_it(command):
    job = script(command, """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        b = bytearray(200 << 20); b[::4096] = b"x" * len(b[::4096]); time.sleep(1); os._exit(0)
    os._exit(0)
os.wait(); time.sleep(1)""")
    got = json.loads(command.ok("-e", job, "-f", "json", "--ru=bytes"))
    assert got["max_ram"]["descendants"]["total_rss"] >= 200 * MIB


COUNT = """
def took(n, frame): os.write(f, b"%d\\n" % n)
f = os.open("signals", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for n in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1): signal.signal(n, took)
open("ready", "w").close()
end = time.monotonic() + 60
while not os.path.exists("go") and time.monotonic() < end: time.sleep(0.01)
sys.exit(3)
"""


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
@pytest.mark.parametrize("to_group", [False, True])
def test_signals_reach_the_job_once(command, signo, to_group):
    process = command.start("-e", script(command, COUNT), start_new_session=True)
    wait_for((command.folder / "ready").exists, "the job runs")
    os.killpg(process.pid, signo) if to_group else process.send_signal(signo)
    signals = command.folder / "signals"
    wait_for(signals.read_text, "the signal is there")
    (command.folder / "go").touch()
    stdout, _ = process.communicate(timeout=60)
    assert process.returncode == 3 and DONE + "3\nMax RAM" in stdout
    assert signals.read_text() == f"{int(signo)}\n"


def test_a_signal_that_ends_it(command):
    """The report is printed, and no process is left."""
    process = command.start("-e", "sleep 100")
    wait_for(lambda: b"sleep\x00100\x00" in children(process.pid), "the job runs, and not only what has it among its arguments")
    process.terminate()
    stdout, _ = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM and stdout.startswith(f"{DONE}-15\nMax RAM")


def children(pid):
    """Command lines of pid and its descendants."""
    found = []
    todo = [pid]
    while todo:
        here = pathlib.Path(f"/proc/{todo.pop()}")
        for file in [here / "cmdline", *here.glob("task/*/children")]:
            try:
                content = file.read_bytes()
            except OSError:
                continue
            if file.name == "cmdline":
                found.append(content)
            else:
                todo += map(int, content.split())
    return found


# ---- output ------------------------------------------------------------------------------------------------------------------

def test_text_and_json(command):
    assert masked(command.ok("-e", "true", "--disable-logs")) == DONE + "N\n" + golden("gpu_tracker-5.txt").rstrip("\n")
    status, stdout, stderr = command.run("-e", "true", "--disable-logs", "-f", "json")
    assert (status, stderr) == (0, DONE + "0\n") and masked(stdout) == golden("gpu_tracker-5.json").rstrip("\n")


def test_into_a_file(command):
    for kind in ("text", "json", "pickle"):
        assert command.ok("-e", "true", "-o", f"out.{kind}", "-f", kind) == DONE + "0\n"
    read = [(command.folder / f"out.{kind}").read_bytes() for kind in ("text", "json", "pickle")]
    assert read[0].startswith(b"Max RAM:") and not read[0].endswith(b"\n") and "max_ram" in json.loads(read[1])
    assert pickle.loads(read[2]).resource_usage.compute_time.unit == "hours"


def test_a_pickle_on_stdout(command):
    process = subprocess.run([*command.command, "-e", "true", "-f", "pickle", "--disable-logs"], cwd=command.folder,
                             env=command.environment, capture_output=True, timeout=100, check=True)
    assert str(pickle.loads(process.stdout)).startswith("Max RAM:")


def test_help_and_version(command):
    assert command.run("--help") == command.run("-h") == (0, golden("gpu_tracker-5-help.txt"), "")
    assert command.run("-v") == command.run("--version") == (0, "5.0.1\n", "")


USAGE = re.search(r"Usage:.*?(?=\n\n)", golden("gpu_tracker-5-help.txt"), re.S)[0] + "\n"


@pytest.mark.parametrize(("line", "why"), [
    ([], ""), (["-e"], "-e requires argument\n"), (["--exec"], "--execute requires argument\n"), (["--nonsense"], ""),
    (["-x"], ""), (["-e", "true", "more"], ""), (["-e", "true", "-e", "true"], ""),
    (["-e", "true", "--o=x"], "--o is not a unique prefix: --output, --overwrite?\n"),
    (["-e", "true", "--overwrite=1"], "--overwrite must not have an argument\n"), (["-e", "true", "--stf=a.csv"], ""),
    (["sub-track"], ""), (["sub-track", "combine", "--stf=a.csv"], ""), (["combine", "sub-track", "--stf=a.csv", "-p", "b"], ""),
    (["sub-track", "analyze", "--tf=a.csv"], ""), (["--", "-h"], ""),
])
def test_lines_that_are_not_understood(command, line, why):
    assert command.run(*line) == (1, "", why + USAGE)


def test_errors_come_before_the_command(command):
    """gpu-tracker left it running."""
    (command.folder / "old.csv").write_text("")
    (command.folder / "bad.json").write_text('{"sleep_tim": 1}')
    (command.folder / "pid.json").write_text('{"process_id": 1}')
    for options, words in (
        (["-f", "xml"], '"xml" is not a valid format. Valid values are "json" or "text".'),
        (["--st=0.01"], "Sleep time of 0.01 is invalid. Must be at least 0.1 seconds."),
        (["--st=soon"], "could not convert string to float: 'soon'"),
        (["--nec=two"], "invalid literal for int() with base 10: 'two'"),
        (["--ru=mb"], '"mb" is not a valid RAM unit. Valid values are bytes, gigabytes, kilobytes, megabytes, terabytes'),
        (["--gb=intel"], '"intel" is not a valid GPU brand. Supported values are "nvidia" and "amd".'),
        (["--tf=old.csv", "--disable-logs"], "File old.csv already exists. Set overwrite to True to overwrite the existing file."),
        (["--tconfig=bad.json"], "Tracker.__init__() got an unexpected keyword argument 'sleep_tim'"),
        (["--tconfig=pid.json"], "process_id cannot be configured here: the process is that of the command"),
        (["--tconfig=none.json"], "[Errno 2] No such file or directory: 'none.json'"),
    ):
        assert command.run("-e", "touch ran", *options) == (1, "", f"ERROR:root:{words}\n")
    assert not (command.folder / "ran").exists()


def test_commands_that_cannot_be_started(command):
    assert command.run("-e", "") == command.run("-e", " ") == (1, "", "ERROR:root:Empty command provided.\n")
    assert command.run("-e", "no-such-command -x") == (1, "", 'ERROR:root:Command not found: "no-such-command"\n')
    (command.folder / "file").write_text("x")
    assert command.run("-e", "./file") == (1, "[Errno 13] Permission denied: './file'\n",
                                           'ERROR:root:The following error occurred when starting the command "./file":\n')
    (command.folder / "script").write_text("#!/no/such/interpreter\n")
    (command.folder / "script").chmod(0o755)
    status, stdout, stderr = command.run("-e", "./script")
    assert (status, stdout) == (1, "") and stderr.endswith('ERROR:root:Command not found: "./script"\n')


def test_a_tracking_file_and_a_configuration(command):
    """Options of the command line override those of the file; flags in the file count."""
    (command.folder / "c.json").write_text(json.dumps({"sleep_time": 5, "ram_unit": "bytes", "disable_logs": True,
                                                       "n_expected_cores": 3, "overwrite": True, "tracking_file": "t.sqlite"}))
    (command.folder / "t.sqlite").write_text("old")
    status, stdout, stderr = command.run("-e", "sleep 0.7", "--tconfig=c.json", "--st=0.2", "-f", "json")
    got = json.loads(stdout)
    assert status == 0 and stderr == DONE + "0\n" and got["max_ram"]["unit"] == "bytes"
    assert got["cpu_utilization"]["n_expected_cores"] == 3
    rows = rows_of(command.folder / "t.sqlite")
    assert len(rows) >= 3 and all(r["main_ram"] > 1000 for r in rows)


# ---- sub-tracking --------------------------------------------------------------------------------------------------------------

def test_sub_track(command):
    tracking = write_tracking(command.folder / "t.csv", [1.0, 2.0, 3.0])
    parts = command.folder / "parts"
    parts.mkdir()
    for n in (1, 2):
        write_blocks(parts / f"{n}.csv", [(n, "a", 0, 1.0), (n, "a", 1, 1.5 + n)])
    assert command.run("sub-track", "combine", "--stf=all.csv", "-p", "parts") == (0, "", "")
    assert command.run("sub-track", "combine", "--stf=two.csv", "-p", "parts/1.csv", "-p", "parts/2.csv") == (0, "", "")
    assert (command.folder / "all.csv").read_bytes() == (command.folder / "two.csv").read_bytes()
    results = gput.SubTrackingAnalyzer(str(tracking), str(command.folder / "all.csv")).sub_tracking_results()
    analyze = ["sub-track", "analyze", "--tf=t.csv", "--stf=all.csv"]
    assert command.run(*analyze) == (0, str(results) + "\n", "")
    assert json.loads(command.run(*analyze, "-f", "json")[1]) == json.loads(json.dumps(results.to_json()))
    for name in "ab":
        assert command.run(*analyze, "-f", "pickle", "-o", f"{name}.pkl") == (0, "", "")
    (command.folder / "c.json").write_text(json.dumps({"file_path_map": {"A": "a.pkl"}, "statistic": "max"}))
    status, stdout, _ = command.run("sub-track", "compare", "--cconfig=c.json", "-m", "B=b.pkl", "-f", "json")
    assert status == 0 and json.loads(stdout)["overall_resource_usage"]["main_ram"] == {"A": 2.0, "B": 2.0}
    status, stdout, _ = command.run("sub-track", "compare", "--cconfig=c.json", "-m", "B=b.pkl", "-f", "json", "--stat=min")
    assert json.loads(stdout)["overall_resource_usage"]["main_ram"] == {"A": 0.0, "B": 0.0}


def test_what_sub_track_says_no_to(command):
    none = ("A mapping of tracking session name to file path must be provided either through the -m option or a config file.")
    assert command.run("sub-track", "compare") == (1, "", f"ERROR:root:{none}\n")
    assert command.run("sub-track", "compare", "-m", "a") == (
        1, "", "ERROR:root:-m a: give a session's name and the path of its file, as NAME=PATH\n")
    (command.folder / "x.csv").write_text("")
    assert command.run("sub-track", "combine", "--stf=x.csv", "-p", "x.csv", "-p", "x.csv") == (
        1, "", "ERROR:root:Cannot create sub-tracking file x.csv. File already exists.\n")


# ---- the folder for the PATH -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("words", "version"), [([], "5.0.1"), (["gpu_tracker"], "5.0.1"), (["gpu_tracker_2"], None)])
def test_a_folder_for_the_path(program, words, version):
    env = {**program.env, "XDG_CACHE_HOME": str(program.folder / "a 'cache"), "PATH": without_gpus()["PATH"]}
    made = [subprocess.run([sys.executable, "-m", "hiwater.compat", "bin", *words], env=env, capture_output=True, text=True,
                           check=True).stdout for _ in range(2)]
    assert made[0] == made[1] and made[0].count("\n") == 1 and made[0].startswith(env["XDG_CACHE_HOME"])
    folder = made[0].rstrip("\n")
    assert os.listdir(folder) == ["gpu-tracker"]
    (program.folder / "json.py").write_text("raise SystemExit('a module of the working directory')")
    env = {**{k: v for k, v in env.items() if k != "PYTHONPATH"}, "PATH": f"{folder}:{env['PATH']}"}
    done = subprocess.run(["gpu-tracker", "-e", "sh -c 'exit 5'"], env=env, cwd=program.folder, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 5 and done.stdout.startswith(DONE + "5\nMax RAM"), done.stderr
    done = subprocess.run(["gpu-tracker", "-v"], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == (f"{version}\n" if version else "")


def test_what_compat_says_no_to(program):
    for words in ([], ["bin", "other"], ["nonsense"]):
        done = subprocess.run([sys.executable, "-m", "hiwater.compat", *words], env=program.env, capture_output=True, text=True,
                              check=False)
        assert done.returncode == 2 and done.stderr.startswith("usage: python -m hiwater.compat bin")


# ---- failures ---------------------------------------------------------------------------------------------------------------

def test_files_that_go_leave_the_job_alone(command):
    status, stdout, stderr = command.run("-e", script(command, """
end = time.monotonic() + 60
import pathlib
while pathlib.Path("t.csv").read_text().count("\\n") < 4 and time.monotonic() < end: time.sleep(0.01)
os.remove("t.csv"); time.sleep(1.5); sys.exit(4)"""), "--tf=t.csv", "--st=0.1")
    assert status == 4 and stdout.startswith(DONE + "4\nMax RAM")
    assert stderr.splitlines()[1:] == ["WARNING:root:The following uncaught exception occurred in the tracking process:",
                                       "WARNING:root:FileNotFoundError: The file t.csv was removed in the middle of writing data to it."]


def test_places_that_cannot_be_written_are_told_before(command):
    for path, words in (("no/out.txt", "[Errno 2] No such file or directory: 'no/out.txt'"), (".", "[Errno 21] Is a directory: '.'")):
        assert command.run("-e", "touch ran", "-o", path) == (1, "", f"ERROR:root:{words}\n")
    assert not (command.folder / "ran").exists()


def test_nobody_reads_on(command):
    process = command.start("-e", "sh -c 'exit 6'", "--disable-logs")
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(60) == 6


def test_a_recorder_that_was_killed(command):
    """There is no report; the exit status is that of the job."""
    status, stdout, stderr = command.run("-e", script(command, """
os.kill(os.getppid(), signal.SIGKILL); time.sleep(0.5); sys.exit(0)"""))
    assert status != 0 and "Max RAM" not in stdout


def test_ctrl_c_reaches_the_job_once(command):
    """The terminal sends the signal to the whole group."""
    ours, theirs = os.openpty()
    job = script(command, COUNT)
    process = subprocess.Popen([*command.command, "-e", job], cwd=command.folder, env=command.environment, stdin=theirs,
                               stdout=theirs, stderr=theirs, start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(theirs)
    wait_for((command.folder / "ready").exists, "the job runs")
    os.write(ours, b"\x03")
    signals = command.folder / "signals"
    wait_for(signals.read_text, "the signal is there")
    (command.folder / "go").touch()
    said = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the terminal is closed
            break
        if not piece:
            break
        said += piece
    os.close(ours)
    assert process.wait(60) == 3 and DONE.encode() + b"3\r\nMax RAM" in said
    assert signals.read_text() == f"{int(signal.SIGINT)}\n"

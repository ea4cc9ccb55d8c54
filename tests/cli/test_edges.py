# SPDX-License-Identifier: MIT
"""Edge cases of a run: one that ends before the first sample, its last messages, files that are not read."""
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time

import pytest
from cli_helpers import HIWATER, state_of, wait_for
from stress_jobs import query, valid

QUEUE = pathlib.Path("/proc/sys/net/unix/max_dgram_qlen")

# Stops its recorder, sends until the socket is full, and ends.
LAST_MESSAGES = """
import os, signal, socket
recorder, name = os.getppid(), os.environ["HIWATER_SOCKET"]
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as s:
    s.connect("\\0" + name[1:])
    os.kill(recorder, signal.SIGSTOP)
    sent = 0
    try:
        while sent < 300:
            s.send(f"mark word {sent}".encode())
            sent += 1
    except BlockingIOError:
        pass
open("sent", "w").write(f"{os.getpid()} {sent}\\n")
"""


def test_the_last_messages_are_all_taken(tool):
    """Also if the kernel queues hundreds: settable in a network namespace of its own."""
    if os.geteuid() != 0:
        pytest.skip("not root: no network namespace")
    run = f"echo 512 > {QUEUE} && exec {HIWATER} run -o x.hiw --summary none -- {sys.executable} -c '{LAST_MESSAGES}'"
    process = subprocess.Popen(["unshare", "-n", "sh", "-c", run], cwd=tool.folder, env=tool.env, start_new_session=True)
    tool.started.append(process)
    said = tool.folder / "sent"
    wait_for(lambda: said.exists() and said.read_text().endswith("\n"), "it has sent what it could")
    job, sent = map(int, said.read_text().split())
    wait_for(lambda: state_of(job) == "Z" and state_of(process.pid) == "T", "the job has ended, hiwater is stopped")
    process.send_signal(signal.SIGCONT)
    assert process.wait(30) == 0
    words = [text for text, in query(tool.folder / "x.hiw", "SELECT text FROM event WHERE kind = 'mark' ORDER BY rowid")]
    assert sent > 200 and words == [f"word {n}" for n in range(sent)]


def test_attached_to_a_zombie(tool):
    """Values that do not exist any more are unknown, not 0."""
    with subprocess.Popen(["true"]) as zombie:
        wait_for(lambda: state_of(zombie.pid) == "Z", "it is a zombie")
        assert tool.run("attach", "--summary", "none", "--json", "run.json", str(zombie.pid)).returncode == 0
    ram = valid((tool.folder / "run.json").read_text())["ram"]
    assert [ram["combined"][key] for key in ("peak_bytes", "low_bytes", "high_bytes", "mean_bytes")] == [None] * 4
    assert ram["combined"]["method"] is None


def test_no_figure_lies_outside_of_a_short_run(tool):
    """The time begins with the fork, as the CPU time does, and ends with the last end."""
    assert tool.run("run", "--no-record", "--json", "run.json", "--", "sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"
                    ).returncode == 0
    told = valid((tool.folder / "run.json").read_text())
    time, ram = told["time"], told["ram"]
    assert 0 < time["user_s"] + time["system_s"] <= time["wall_s"]
    assert 0 < ram["main"]["at_s"] <= time["wall_s"] and 0 < ram["combined"]["at_s"] <= time["wall_s"]


def test_the_split_of_a_lone_process_is_of_its_peak(tool):
    """Memory shared with a fork before it grew does not matter."""
    assert tool.run("run", "--no-record", "--json", "run.json", "--", sys.executable, "-c", """
import os, time
if os.fork() == 0:
    time.sleep(0.3)
    os._exit(0)
os.wait()
data = bytearray(b"x") * (200 << 20)
time.sleep(0.5)
""").returncode == 0
    summary = valid((tool.folder / "run.json").read_text())
    main = summary["ram"]["main"]
    if summary["sampling"]["longest_gap_s"] > 0.4:  # it may have ended without a sample
        return
    assert main["private_bytes"] > 190 << 20 and main["shared_bytes"] < 30 << 20


def test_no_mean_of_what_was_not_looked_at(tool):
    assert tool.run("run", "-i", "10s", "--no-record", "--json", "run.json", "--", "sleep", "0.2").returncode == 0
    told = valid((tool.folder / "run.json").read_text())
    assert told["ram"]["combined"]["peak_bytes"] > 0 and told["ram"]["combined"]["mean_bytes"] is None
    assert {"about": "ram.combined.mean_bytes", "why": "fewer than three samples of its memory"} in told["notes"]


def test_few_looks_are_no_blind_spot_where_bounds_are_tight(tool):
    """Shared pages count once, and samples after it has grown show that it was never larger: there is no advice."""
    told = tool.run("run", "--no-record", "--", sys.executable, "-c", """
import os, time
data = bytearray(256 << 20)
time.sleep(0.5)
if os.fork() == 0:
    os._exit(0)
os.wait()
""").stderr
    assert "blind-spots" not in told
    wide = tool.run("run", "--no-record", "-i", "10s", "--", sys.executable, "-c", """
import os
if os.fork() == 0:
    data = bytearray(64 << 20)
    os._exit(0)
data = bytearray(64 << 20)
os.wait()
""").stderr
    assert "blind-spots" in wide


def test_a_fifo_that_nobody_reads_holds_nobody_up(tool):
    os.mkfifo(tool.folder / "fifo")
    done = tool.run("run", "--json", "fifo", "--summary", "none", "--", "sh", "-c", "exit 3", timeout=30)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1 and "cannot write fifo: " in done.stderr


def test_a_fifo_that_is_read_gets_it_all(tool):
    os.mkfifo(tool.folder / "fifo")
    process = tool.start("run", "--json", "fifo", "--summary", "none", "--", "sh", "-c", "exit 3")
    with open(tool.folder / "fifo") as fifo:
        assert valid(fifo.read())["exit"]["code"] == 3
    assert process.wait(30) == 3


def test_an_exit_status_that_nobody_saw_is_unknown_in_the_list(tool):
    with subprocess.Popen(["sleep", "30"]) as job:
        assert tool.run("attach", "--summary", "none", "--for", "1.2s", str(job.pid)).returncode == 0
        job.kill()
    listed = json.loads(tool.run("runs", "--json").stdout)
    assert [run["exit"] for run in listed] == [{"code": None, "signal": None, "raised": None}]
    assert re.search(r" - +[0-9.]+ .iB", tool.run("runs").stdout)


def test_quiet_is_quiet_where_nothing_can_be_measured(tool):
    """With too few descriptors the job runs unmeasured."""
    for files in range(12, 30):
        done = tool.run("run", "--", "sh", "-c", "exit 7", env={"HIWATER_QUIET": "1"},
                        preexec_fn=lambda n=files: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))
        if done.returncode == 7:
            assert done.stderr == "", files


# Starts helpers, one of which has a child, and becomes hiwater, as entry points of containers do.
ENTRY_POINT = """
for i in $(seq 8); do sleep 60 & echo $! >> started; done
( sleep 0.1; sleep 61 & echo $! | tee child >> started; exec sleep 62 ) & echo $! | tee parent >> started
exec "$@"
"""
# Ends the one with the child, which then is hiwater's, and checks it.
JOB = """
until [ -s child ]; do sleep 0.01; done
sleep 1.3
kill $(cat parent)
while kill -0 $(cat parent) 2> /dev/null; do sleep 0.01; done
sleep 1.3
"""


def test_who_was_there_before_is_none_of_the_job(tool):
    """Children of the shell that became hiwater, the youngest started in the same clock tick as the job; also after their parent ended."""
    command = ["sh", "-c", ENTRY_POINT, "sh", HIWATER, "run", "--json", "run.json", "--summary", "none", "--", "sh", "-c", JOB]
    try:
        done = subprocess.run(command, cwd=tool.folder, env=tool.env, stdin=subprocess.DEVNULL, timeout=60, check=False)
    finally:
        for pid in map(int, (tool.folder / "started").read_text().split()):
            if state_of(pid) and b"sleep" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
    run = valid((tool.folder / "run.json").read_text())
    assert done.returncode == 0
    assert run["processes"]["left"] == 0
    assert run["processes"]["peak_alive"] == 2


def test_who_was_there_before_is_not_followed(tool):
    """--wait follows processes left by the job, but not a helper started by the shell, which never ends."""
    entry = 'sleep 300 & echo $! > helper; exec "$@"'
    command = ["sh", "-c", entry, "sh", HIWATER, "run", "--wait", "--json", "run.json", "--summary", "none", "--",
               "sh", "-c", "sleep 1 & exit 0"]
    try:
        done = subprocess.run(command, cwd=tool.folder, env=tool.env, stdin=subprocess.DEVNULL, timeout=60, check=False)
    finally:
        os.kill(int((tool.folder / "helper").read_text()), signal.SIGKILL)
    run = valid((tool.folder / "run.json").read_text())
    assert done.returncode == 0
    assert 0.9 < run["time"]["wall_s"] < 60, "what the job left is followed"


def test_a_stderr_that_nobody_reads_is_waited_for_until_somebody_asks_to_end(tool):
    """With a full pipe, progress lines are dropped and the summary waits a second, or until SIGTERM."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    process = tool.start("run", "--progress=10ms", "--summary-file", "summary", "--", "sh", "-c", "sleep 0.2; echo $$", stderr=writer)
    job = int(process.stdout.readline())
    wait_for(lambda: state_of(job) is None, "the job is reaped")
    process.terminate()
    began = time.monotonic()
    assert process.wait(30) == 0, "as the job did"
    assert time.monotonic() - began < 3
    assert "RAM" in (tool.folder / "summary").read_text(), "what can be written is"
    os.close(reader)
    os.close(writer)

# SPDX-License-Identifier: MIT
"""Storage I/O compared with the kernel's count: every job prints its /proc/self/io when its work is
done, and so does each of its processes that no parent waits for."""
import contextlib
import csv
import os
import socket
import subprocess
import sys

import pytest
from conftest import HIWATER

PYTHON = next(path for path in ("/usr/bin/python3", sys.executable) if os.access(path, os.X_OK))

COMMON = """
import mmap, os, signal, socket, sys, threading, time
folder, address, block = sys.argv[1], sys.argv[2], mmap.mmap(-1, 1 << 20)
os.chdir(folder)

def write(name, n=1):
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT, 0o666)
    for _ in range(n):
        os.write(file, block)

def write_and_delete(name, n):
    with open(name, "wb", buffering=0) as file:
        for _ in range(n):
            file.write(block)
    os.unlink(name)

def tell():
    told = open("/proc/self/io", "rb").read()
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(told, "\\0" + address)

def child(work):
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    return pid

"""

# The jobs; "waits" is longer than a window, so that all processes are read.
JOBS = {
    "one after another": """
for _ in range(40):
    child(lambda: write("a"))
    os.wait()
""",
    "looked at, then waited for": """
def work():
    write("a", 3)
    time.sleep(1.2)
    write("a", 2)
for _ in range(2):
    child(work)
    write("b", 1)
    os.wait()
    write("b", 1)
time.sleep(1.2)
child(lambda: write("a", 4))
os.wait()
""",
    "grandchildren": """
def work():
    for _ in range(10):
        child(lambda: write("a"))
        os.wait()
    write("b", 2)
for _ in range(3):
    child(work)
    os.wait()
""",
    "threads": """
def work():
    threads = [threading.Thread(target=write, args=(str(n),)) for n in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
child(work)
work()
os.wait()
""",
    "ends without waiting": """
write("b", 3)
time.sleep(1.2)
pids = [child(lambda: (write("a" + str(n), 4), tell())) for n in range(3)]
[os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT) for pid in pids]
time.sleep(1.2)
write("b", 3)
""",
    "orphan": """
done, end = os.pipe()
def orphan():
    write("a", 2)
    while os.getppid() == middle:
        time.sleep(0.01)
    time.sleep(1.2)
    write("a", 4)
    tell()
def middle_work():
    global middle
    middle = os.getpid()
    write("b", 1)
    child(orphan)
child(middle_work)
os.wait()
write("b", 1)
os.close(end)
os.read(done, 1)
""",
    "written and deleted": """
write("b", 1)
write_and_delete("a", 32)
""",
    "written and deleted, looked at in between": """
write_and_delete("a", 16)
time.sleep(1.2)
write("b", 1)
child(lambda: write_and_delete("a", 8))
os.wait()
""",
}


class Judge:
    """Adds up the counts that the kernel reports for the processes of a job and the children they
    waited for."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.bind("\0" + address)

    def sums(self):
        sums = {}
        with contextlib.suppress(BlockingIOError):
            while True:
                for line in self.socket.recv(4096).decode().splitlines():
                    key, value = line.split(": ")
                    sums[key] = sums.get(key, 0) + int(value)
        return sums


@pytest.mark.parametrize("job", JOBS)
def test_io_is_what_the_kernel_counted(run, tmp_path, job):
    (tmp_path / "work").mkdir(mode=0o777)
    (tmp_path / "work").chmod(0o777)
    script = tmp_path / "job.py"
    script.write_text(COMMON + JOBS[job] + "\ntell()\nos._exit(0)\n")
    address = f"hiwater-test-io-{os.getpid()}"
    judge = Judge(address)
    with contextlib.closing(judge.socket):
        summary = run(PYTHON, "-S", script, tmp_path / "work", address, record=True)
        true = judge.sums()
    assert summary["io"]["write_bytes"] == max(0, true["write_bytes"] - true["cancelled_write_bytes"]), true
    assert summary["io"]["read_bytes"] >= true["read_bytes"]  # a page of the program may still be read at its end
    assert run.show()["io"] == summary["io"]


def test_children_whose_end_is_ignored_count_too(run, tmp_path):
    """The kernel adds their counts to no process: without exit records only their last read is
    known."""
    code = ('signal.signal(signal.SIGCHLD, signal.SIG_IGN)\nwrite("b", 2)\n'
            'for _ in range(10):\n    child(lambda: (write("a"), tell()))\n'
            'write("b", 2)\nwith __import__("contextlib").suppress(ChildProcessError):\n    os.wait()\ntell()\nos._exit(0)\n')
    script = tmp_path / "job.py"
    script.write_text(COMMON + code)
    (tmp_path / "work").mkdir()
    (tmp_path / "work").chmod(0o777)
    judge = Judge(f"hiwater-test-io-{os.getpid()}")
    with contextlib.closing(judge.socket):
        summary = run(PYTHON, "-S", script, tmp_path / "work", f"hiwater-test-io-{os.getpid()}")
        written = judge.sums()["write_bytes"]
    if run.rights == "root":
        assert written - 16 * 1024 <= summary["io"]["write_bytes"] <= written  # records are in whole KiB
    else:
        assert summary["io"]["write_bytes"] <= written


def test_a_rate_of_writes_is_never_negative(run, tmp_path):
    """Deleted data was first counted as written: two counters, and neither decreases."""
    script = tmp_path / "job.py"
    (tmp_path / "work").mkdir()
    (tmp_path / "work").chmod(0o777)
    script.write_text(COMMON + 'write_and_delete("a", 16)\ntime.sleep(1.2)\nwrite_and_delete("b", 16)\n')
    run(PYTHON, "-S", script, tmp_path / "work", "none", record=True)
    line = [HIWATER, "export", "--to", "csv", "--output", tmp_path / "job.csv", tmp_path / "run.hiw"]
    subprocess.run(line, check=True)
    with (tmp_path / "job.csv").open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    for name in ("write_bytes", "write_cancelled"):
        column = next(key for key in rows[0] if key.startswith(name))
        values = [int(row[column]) for row in rows if row[column]]
        assert values == sorted(values) and values[-1] >= 32 << 20, (name, values)

# SPDX-License-Identifier: MIT
"""hiwater attach: peaks from before it, and who controls it."""
import contextlib
import json
import os
import socket
import sqlite3
import subprocess
import sys

import pytest

MIB = 1 << 20
HOG = """
def fill(mib):
    block = bytearray(mib << 20)
    block[::4096] = b"x" * len(block[::4096])
fill(400)
print("ready", flush=True)
input()
fill(100)
print("done", flush=True)
input()
"""


def attached(tool, *options):
    """The main process's RAM, for a process that used 400 MiB before and 100 MiB for a moment meanwhile."""
    job = subprocess.Popen([sys.executable, "-c", HOG], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert job.stdout.readline() == "ready\n"
        process = tool.start("attach", "--progress=20ms", "-i", "10s", "--json", "a.json", "--summary", "none", *options, job.pid)
        assert b"RAM" in process.stderr.readline()  # it is attached
        job.stdin.write("\n")
        job.stdin.flush()
        assert job.stdout.readline() == "done\n"
        process.terminate()
        process.communicate(timeout=30)
        assert process.returncode == 0
    finally:
        job.kill()
        job.communicate()
    return json.loads((tool.folder / "a.json").read_text())["ram"]["main"]


def test_the_mark_is_set_back_if_asked(tool):
    main = attached(tool, "--exact")
    assert main["method"] == "exact" and main["source"] == "VmHWM"
    assert 100 * MIB <= main["peak_bytes"] <= 200 * MIB


def test_the_mark_is_left_alone_else(tool):
    """The burst was below the older high-water mark: it is unknown and not reported."""
    main = attached(tool)
    assert main["method"] == "bounded" and main["low_bytes"] < 100 * MIB and main["high_bytes"] >= 400 * MIB


def test_a_controller_must_have_a_socket_that_keeps_messages_apart(tool):
    for descriptor in ("1", "77", "x"):
        done = tool.run("attach", "--control", descriptor, "1")
        assert done.returncode == 2 and "--control" in done.stderr
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        done = tool.run("attach", "--control", theirs.fileno(), "--interval", "0", "1", pass_fds=[theirs.fileno()])
        assert done.returncode == 2 and done.stderr == ""
        assert b"1ms to 1h" in ours.recv(4096)


def test_what_makes_no_sense_is_no_request(tool):
    """Only closing the socket, or stop, ends the recorder."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    job = subprocess.Popen(["sleep", "1000"])
    try:
        with ours:
            with theirs:
                done = tool.run("attach", "--control", theirs.fileno(), "--no-record", "--exact", "--summary", "none", job.pid,
                                pass_fds=[theirs.fileno()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                assert done.returncode == 0  # it has left
            ours.settimeout(30)
            ours.send(b"7 0 begin")
            assert ours.recv(4096).startswith(b"7 ok @hiwater-")
            for message in (b"x", b"1", b"1 2", b" 1 2 mark", b"-1 0 stop", b"99999999999999999999999 0 stop", b"0 0 json" * 2000,
                            b"\xff" * 100, b"0 0 phase- nothing", b"0 0 log x=\xff"):
                ours.send(message)
            for number, text, expected in ((8, b"phase- nothing", b"8 no phase: "), (9, b"", b"9 no message: "), (10, b"mark x", b"10 ok "),
                                           (11, b"phase+ p", b"11 ok "), (12, b"read", b"12 ok "), (13, b"line", b"13 + ")):
                ours.send(b"%d 0 %s" % (number, text))
                assert ours.recv(65536).startswith(expected), text
            assert ours.recv(65536) == b"13 ok "
            ours.send(b"14 0 stop")
            assert [ours.recv(65536), ours.recv(65536)] == [b"0 over ", b"14 ok "]
            ours.send(b"15 0 json")
            pieces = b""
            while not (message := ours.recv(65536)).startswith(b"15 ok"):
                pieces += message.split(b" ", 2)[2]
            assert json.loads(pieces)["run"]["complete"]
    finally:
        job.kill()
        job.wait()


ENDS = {
    "exit": ("import sys; input(); sys.exit(7)", 7, None),
    "signal": ("import os, signal; input(); os.kill(os.getpid(), signal.SIGKILL)", 137, 9),
    "another thread's exit": ("import os, threading\n"
                              "threading.Thread(target=lambda: (input(), os._exit(5))).start()", 5, None),
    "threads that are ended": ("import os, threading, time\n"
                               "[threading.Thread(target=time.sleep, args=(60,)).start() for _ in range(20)]\n"
                               "input(); os._exit(6)", 6, None),
    # The first thread ends by itself long before the others.
    "the last thread's exit": ("import ctypes, os, threading, time\n"
                               "threading.Thread(target=lambda: (input(), time.sleep(0.3), os._exit(8))).start()\n"
                               "time.sleep(0.2); ctypes.CDLL(None).pthread_exit(None)", 8, None),
}


@pytest.mark.parametrize("way", ENDS)
def test_the_exit_record_has_the_status(tool, way):
    """hiwater is not the parent; where root gets exit records, the status is known nevertheless."""
    code, status, signal = ENDS[way]
    job = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    try:
        process = tool.start("attach", "--progress=20ms", "-o", "a.hiw", "--json", "a.json", job.pid)
        assert b"RAM" in process.stderr.readline()
        job.communicate(b"\n", timeout=30)
        text = process.communicate(timeout=30)[1].decode()
        assert process.returncode == 0
    finally:
        job.kill()
        job.wait()
    summary = json.loads((tool.folder / "a.json").read_text())
    notes = [note["why"] for note in summary["notes"] if note["about"] == "exit"]
    with contextlib.closing(sqlite3.connect(tool.folder / "a.hiw")) as db:
        has_records = db.execute("SELECT value FROM meta WHERE key = 'taskstats'").fetchone() == (1,)
    if not has_records:
        assert summary["exit"]["code"] is None and "parent alone" in notes[0]
        return
    assert (summary["exit"]["code"], summary["exit"]["signal"]) == (status, signal)
    assert "from its exit record" in text and "taskstats" in notes[0], text
    again = tool.run("show", "a.hiw", "--json").stdout
    assert json.loads(again)["exit"] == summary["exit"]


def test_of_several_none_has_the_jobs_status(tool):
    jobs = [subprocess.Popen(["sh", "-c", f"read x; exit {n}"], stdin=subprocess.PIPE) for n in (3, 4)]
    try:
        process = tool.start("attach", "--progress=20ms", "--json", "a.json", *[job.pid for job in jobs])
        assert b"RAM" in process.stderr.readline()
        for job in jobs:
            job.communicate(b"\n", timeout=30)
        process.communicate(timeout=30)
    finally:
        for job in jobs:
            job.kill()
            job.wait()
    assert json.loads((tool.folder / "a.json").read_text())["exit"]["code"] is None


def test_a_thread_is_no_process_and_its_process_is_named(tool):
    with subprocess.Popen([sys.executable, "-c", """
import sys, threading
t = threading.Thread(target=sys.stdin.read)
t.start()
print(t.native_id, flush=True)
"""], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        thread = int(process.stdout.readline())
        done = tool.run("attach", thread)
        process.stdin.close()
    assert done.returncode != 0
    assert f"thread of process {process.pid}" in done.stderr

# SPDX-License-Identifier: MIT
"""A job that does what it is told on stdin, a line a command, and answers each with a line:

hold MIB    holds so much memory, and nothing that it held before
log TEXT    tells the recorder (HIWATER_SOCKET) "log TEXT"
ignore      does not end at SIGTERM from here on
pid         answers its own
child       starts a child that lives as long as SIGTERM lets it; answers its pid
count       answers how often SIGUSR1 came
exit N      ends"""
import mmap
import os
import signal
import socket
import subprocess
import sys

held, got = None, 0


def hold(mib):
    """Fresh pages of its own, so that what is freed is given back."""
    global held
    if held:
        held.close()
    size = int(mib) << 20
    held = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) if size else None
    for page in range(0, size, 4096):
        held[page] = 1
    return "ok"


def log(*words):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.sendto(f"log {' '.join(words)}".encode(), "\0" + os.environ["HIWATER_SOCKET"][1:])
    return "ok"


def ignore():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return "ok"


def child():
    return subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL).pid


def count_one(*_):
    global got
    got += 1


def main():
    signal.signal(signal.SIGUSR1, count_one)
    commands = {"hold": hold, "log": log, "ignore": ignore, "child": child, "count": lambda: got, "pid": os.getpid}
    print("ready", flush=True)
    for line in sys.stdin:
        name, *words = line.split()
        if name == "exit":
            sys.exit(int(words[0]))
        print(commands[name](*words), flush=True)


main()

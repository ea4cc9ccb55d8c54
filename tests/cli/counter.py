# SPDX-License-Identifier: MIT
"""A job that counts: counter.py LOG STOP [--setsid] [--fork] [--default-stop]

Writes "ready PID" into LOG, then "NAME CODE VALUE" for each signal that is delivered, until the file STOP is there.
With --fork a child does the counting, and the parent waits for it. SIGTSTP stops it as usual, after its line; with
--default-stop the kernel does that, and no line is written."""
import ctypes
import os
import pathlib
import signal
import sys

libc = ctypes.CDLL(None, use_errno=True)


class Info(ctypes.Structure):
    """siginfo_t of sigqueue: sigaction(2)."""
    _fields_ = [("signo", ctypes.c_int), ("errno", ctypes.c_int), ("code", ctypes.c_int), ("pad", ctypes.c_int),
                ("pid", ctypes.c_int), ("uid", ctypes.c_uint), ("value", ctypes.c_longlong), ("rest", ctypes.c_char * 96)]


class Time(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]


CODES = {0: "USER", -1: "QUEUE", -6: "TKILL", 0x80: "KERNEL"}


def name_of(number):
    if signal.SIGRTMIN < number <= signal.SIGRTMAX:
        return f"RT{number - signal.SIGRTMIN}"
    return signal.Signals(number).name.removeprefix("SIG")


def main():
    log, stop, *options = sys.argv[1:]
    if "--setsid" in options:
        os.setsid()
    if "--fork" in options:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            return
    everything = signal.valid_signals() - {signal.SIGCHLD}
    if "--default-stop" in options:
        everything -= {signal.SIGTSTP}
    signal.pthread_sigmask(signal.SIG_BLOCK, everything)
    mask = (ctypes.c_ulong * 16)(sum(1 << (number - 1) for number in everything))
    info, patience = Info(), Time(0, 20_000_000)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(out, f"ready {os.getpid()}\n".encode())
    while not pathlib.Path(stop).exists():
        number = libc.sigtimedwait(mask, ctypes.byref(info), ctypes.byref(patience))
        if number <= 0 or number == signal.SIGCHLD:
            continue
        value = info.value & 0xffffffff if info.code == -1 else 0
        os.write(out, f"{name_of(number)} {CODES.get(info.code, info.code)} {value}\n".encode())
        if number == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)


main()

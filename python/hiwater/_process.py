# SPDX-License-Identifier: MIT
"""Identifies and signals a helper process of this package, such as a recorder that was stopped
(SIGSTOP)."""
from __future__ import annotations

import os
import signal
import struct

from _socket import CMSG_SPACE, SOL_SOCKET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from typing import Iterable, Optional

SO_PASSCRED = 16
SCM_CREDENTIALS = 2  # not every build of Python names these two
_CREDENTIALS = struct.Struct("@iII")  # the kernel's struct ucred: pid, uid, gid
ANCILLARY_SIZE = CMSG_SPACE(_CREDENTIALS.size)


class Process:
    """A process, identified by pid and start time, so that a later process with the same pid is not
    mistaken for it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._start = _stat(pid)[1]

    @property
    def identity(self) -> tuple[int, int]:
        """Pid and start time (clock ticks since boot, 0 if unknown), as a recording stores those of
        its recorder."""
        return self.pid, int(self._start or 0)

    @property
    def is_stopped(self) -> bool:
        return bool(self._start) and _stat(self.pid) == ("T", self._start)

    def signal(self, number: int) -> None:
        """Sends a signal if the process still exists and this is permitted."""
        try:
            fd = os.pidfd_open(self.pid)  # opened before the start time is compared, so that both are of one process
        except (AttributeError, OSError):
            fd = -1  # not available in this Python or kernel
        try:
            if not self._start or _stat(self.pid)[1] != self._start:
                return
            if fd >= 0:
                signal.pidfd_send_signal(fd, number)
            else:
                os.kill(self.pid, number)
        except OSError:
            pass
        finally:
            if fd >= 0:
                os.close(fd)


def _stat(pid: int) -> tuple[str, str]:
    """State and start time (proc_pid_stat(5)); empty strings if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            words = f.read().rpartition(b")")[2].decode().split()
        return words[0], words[19]
    except (OSError, IndexError):
        return "", ""


def recorder_by_socket(inode: int) -> Optional[Process]:
    """The visible recorder that has this socket open, a stopped one first; None if there is none.
    Other processes may have it open too: a child of the job that another thread forked
    meanwhile."""
    link = f"socket:[{inode}]"
    found = [Process(int(name)) for name in os.listdir("/proc") if name.isdigit() and _is_recorder(name) and link in _open_files(name)]
    return min(found, key=lambda process: not process.is_stopped, default=None)


def _is_recorder(pid: str) -> bool:
    """Decides by the command line, in which the interpreter of a wrapper script may come first."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return b"\0attach\0--control\0" in f.read()
    except OSError:
        return False  # it has ended


def _open_files(pid: str) -> Iterable[str]:
    folder = f"/proc/{pid}/fd"
    try:
        for name in os.listdir(folder):
            yield os.readlink(f"{folder}/{name}")
    except OSError:
        pass  # another user's process, or it has ended


def request_credentials(mine: socket) -> None:
    """Makes received messages carry the credentials of their sender (unix(7))."""
    mine.setsockopt(SOL_SOCKET, SO_PASSCRED, 1)


def sender(ancillary: Iterable[tuple[int, int, bytes]], before: Optional[Process]) -> Optional[Process]:
    """The sender, from the ancillary data of a message; before if the data has no credentials, or
    the sender is in a pid namespace that is not visible here."""
    for level, kind, data in ancillary:
        if level == SOL_SOCKET and kind == SCM_CREDENTIALS and len(data) >= _CREDENTIALS.size:
            pid, _, _ = _CREDENTIALS.unpack(data[:_CREDENTIALS.size])
            return Process(pid) if pid > 0 and not (before and before.pid == pid) else before
    return before

# SPDX-License-Identifier: MIT
"""Another process of ours that may have been stopped (SIGSTOP): who is stopped answers nobody, however long one waits."""
from __future__ import annotations

import os
import signal
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, Optional

SO_PASSCRED = 16
SCM_CREDENTIALS = 2  # from here on: Python has no names for these two everywhere
_CREDENTIALS = struct.Struct("@iII")  # of the kernel's struct ucred: pid, uid, gid
ROOM = socket.CMSG_SPACE(_CREDENTIALS.size)


class Process:
    """Known by pid and start time: one that got the same pid later is never taken for it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._start = _stat(pid)[1]

    @property
    def identity(self) -> tuple[int, int]:
        """Pid and start time (ticks, 0 unknown), as recordings have them of who writes them."""
        return self.pid, int(self._start or 0)

    @property
    def is_stopped(self) -> bool:
        return bool(self._start) and _stat(self.pid) == ("T", self._start)

    def signal(self, number: int) -> None:
        """Where that is allowed, and there is still such a process."""
        try:
            fd = os.pidfd_open(self.pid)  # before it is looked whose it is
        except (AttributeError, OSError):
            fd = -1  # a kernel without
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
    """State and start time (proc_pid_stat(5)); empty: no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            words = f.read().rpartition(b")")[2].decode().split()
        return words[0], words[19]
    except (OSError, IndexError):
        return "", ""


def recorder_with(inode: int) -> Optional[Process]:
    """The recorder that has this socket open, if one that can be seen from here has; a stopped one first. A child that another
    thread forked meanwhile may have it, too: that is the job's."""
    held = f"socket:[{inode}]"
    found = [Process(int(name)) for name in os.listdir("/proc") if name.isdigit() and _is_recorder(name) and held in _open_files(name)]
    return min(found, key=lambda process: not process.is_stopped, default=None)


def _is_recorder(pid: str) -> bool:
    """By how it was started, also where a script stands before it."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return b"\0attach\0--control\0" in f.read()
    except OSError:
        return False  # gone meanwhile


def _open_files(pid: str) -> Iterable[str]:
    folder = f"/proc/{pid}/fd"
    try:
        for name in os.listdir(folder):
            yield os.readlink(f"{folder}/{name}")
    except OSError:
        pass  # somebody else's, or gone meanwhile


def ask_who(mine: socket.socket) -> None:
    """Messages that are received say who has sent them from here on (unix(7))."""
    mine.setsockopt(socket.SOL_SOCKET, SO_PASSCRED, 1)


def who(ancillary: Iterable[tuple[int, int, bytes]], before: Optional[Process]) -> Optional[Process]:
    """Whose message this came with; as before where it does not say, or of a process that cannot be seen from here."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == SCM_CREDENTIALS and len(data) >= _CREDENTIALS.size:
            pid, _, _ = _CREDENTIALS.unpack(data[:_CREDENTIALS.size])
            return Process(pid) if pid > 0 and not (before and before.pid == pid) else before
    return before

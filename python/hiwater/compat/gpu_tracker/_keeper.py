# SPDX-License-Identifier: MIT
"""A small process beside the recorder that writes a tracker's files while it tracks, so that they are there whatever becomes
of the interpreter. It measures nothing: it reads the recording. Only trackers with files have one."""
from __future__ import annotations

import dataclasses
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import weakref

from ... import _process
from ..._command import command
from ._follower import Follower
from ._rows import Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Optional

    from .._session import Session

END_LIMIT_S = 30.0
SLOWEST_S, FASTEST_S = 1.0, 0.1  # between two looks at the recording

# It leaves its parent before anything else: no wait() of the program sees it, and it belongs to no job.
_CODE = """
import os, sys
if os.fork():
    os._exit(0)
os.setsid()
sys.path.append(sys.argv[1])
from hiwater.compat.gpu_tracker._keeper import main
main(int(sys.argv[2]), sys.argv[3])
"""


class Keeper:
    """Follows the session, which starts after it."""

    def __init__(self, plan: Plan, session: Session) -> None:
        self._plan = plan
        self._session = session
        self._socket: Optional[socket.socket] = None
        self._process: Optional[_process.Process] = None  # once its first word is read
        self._pid = os.getpid()
        try:
            self._start()
        except OSError:
            self._socket = None  # then the files are written in the end
        _keepers.add(self)

    def _start(self) -> None:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        _process.ask_who(mine)
        package = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
        task = json.dumps({"plan": dataclasses.asdict(self._plan), "path": self._session.timeline.path,
                           "folder": self._session.folder.path, "working": os.getcwd()})
        with theirs:
            subprocess.run([sys.executable or "python3", "-I", "-S", "-c", _CODE, package, str(theirs.fileno()), task],
                           pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=True, env={**os.environ, "HIWATER_COMMAND": command() or ""})
        self._socket = mine
        self._session.folder.is_temporary = False  # if this process ends before end(), the recording is still to be read

    def end(self) -> Optional[str]:
        """Waits until all is written. What went wrong, or None."""
        if self._pid != os.getpid():
            return None
        if self._socket is None:
            Follower(self._plan, self._session.timeline.path).finish()
            return None
        with self._socket as s:
            s.settimeout(FASTEST_S)
            try:
                s.send(b"end")
                self._next(s)  # that it is there
                return self._next(s).decode() or None
            except OSError as e:
                return f"the rest of {self._plan.tracking_file or self._plan.resource_usage_file} was not written: {e}"

    def _next(self, s: socket.socket) -> bytes:
        """What it says next. One that somebody has stopped (SIGSTOP) is told to go on."""
        end = time.monotonic() + END_LIMIT_S
        while True:
            try:
                message, who, _, _ = s.recvmsg(4096, _process.ROOM)
                self._process = _process.who(who, self._process)
                return message
            except socket.timeout:
                if time.monotonic() >= end:
                    raise
            if self._process and self._process.is_stopped:
                self._process.signal(signal.SIGCONT)

    def forget(self) -> None:
        """In a forked child: the keeper is the parent's."""
        if self._socket:
            self._socket.close()


def main(fd: int, task: str) -> None:
    """The keeper's own process."""
    told = json.loads(task)
    plan = Plan(**told["plan"])
    os.chdir(told["working"])
    follower = Follower(plan, told["path"])
    period_s = min(max(plan.sleep_time, FASTEST_S), SLOWEST_S)
    complaint = ""
    with socket.socket(fileno=fd) as s:
        s.send(b"here")
        while not select.select([s], [], [], period_s)[0]:
            complaint = complaint or _told(follower.step)
        if _heard(s):
            complaint = complaint or _told(follower.finish)
            s.send(complaint.encode() or b"")
        else:
            _outlive(follower, told["folder"])


def _heard(s: socket.socket) -> bytes:
    """Empty: the program is gone."""
    try:
        return s.recv(16)
    except ConnectionResetError:  # and has not read that its keeper is there
        return b""


def _outlive(follower: Follower, folder: Optional[str]) -> None:
    """The program is gone; the recorder notices, and then the end is there."""
    end = time.monotonic() + END_LIMIT_S
    while not follower.is_over() and time.monotonic() < end:
        time.sleep(FASTEST_S)
    _told(lambda: follower.finish(keep=True))
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


def _told(action: Callable[[], None]) -> str:
    """What went wrong with it."""
    try:
        action()
    except Exception as e:  # whatever it is, the program is told in the end
        return f"{type(e).__name__}: {e}"[:4000]
    return ""


_keepers: weakref.WeakSet[Keeper] = weakref.WeakSet()


def _forget_all() -> None:
    for keeper in list(_keepers):
        keeper.forget()


os.register_at_fork(after_in_child=_forget_all)

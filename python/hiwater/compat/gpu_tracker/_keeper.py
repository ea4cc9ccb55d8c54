# SPDX-License-Identifier: MIT
"""A small process that writes the files of a tracker from the growing recording, so that they exist
even if the interpreter is killed. It does not measure. Only trackers with files have one."""
from __future__ import annotations

import dataclasses
import json
import os
import select
import shutil
import signal
import struct
import sys
import time
import weakref

from _socket import AF_UNIX, MSG_NOSIGNAL, SO_RCVTIMEO, SOCK_SEQPACKET, SOL_SOCKET, socket, socketpair

from ... import _process, _spawn
from ..._channel import OwnSocket
from ..._command import command
from ._follower import Follower
from ._rows import Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Optional

    from .._session import Session

END_LIMIT_S = 30.0
SLOWEST_S, FASTEST_S = 1.0, 0.1  # limits of the time between two reads of the recording

# A child of the program daemonises first (_spawn._spawn_twice).
_CODE = """
import os, sys
if os.getppid() == int(sys.argv[2]) and os.fork():
    os._exit(0)
sys.path.append(sys.argv[1])
os.environ["HIWATER_COMMAND"] = sys.argv[3]
from hiwater.compat.gpu_tracker._keeper import main
main(sys.argv[4])
"""


class Keeper:
    """Handle of the process, which follows a session that starts later."""

    def __init__(self, plan: Plan, session: Session) -> None:
        self._plan = plan
        self._session = session
        self._socket: Optional[OwnSocket] = None
        self._spawned: Optional[_spawn.Spawned] = None
        self._process: Optional[_process.Process] = None  # known from its first message
        self._pid = os.getpid()
        try:
            self._start()
        except Exception:
            self._socket = None  # the files are written at the end only
        _keepers.add(self)

    def _start(self) -> None:
        package = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
        task = json.dumps({"plan": dataclasses.asdict(self._plan), "path": self._session.timeline.path,
                           "folder": self._session.folder.path, "working": os.getcwd()})
        python = sys.executable or shutil.which("python3") or "python3"
        made, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
        try:
            ours = OwnSocket(made)
            theirs.setblocking(True)
            ours.get().setblocking(True)
            ours.get().setsockopt(SOL_SOCKET, SO_RCVTIMEO, struct.pack("@ll", 0, int(FASTEST_S * 1e6)))
            _process.request_credentials(ours.get())
            with open(os.devnull, "wb") as null:
                self._spawned = _spawn.spawn([python, "-I", "-S", "-c", _CODE, package, str(os.getpid()), command() or "", task],
                                             theirs.fileno(), null.fileno())
        finally:
            theirs.close()
        self._socket = ours
        self._session.folder.is_temporary = False  # the keeper still reads the recording if this process ends before end()

    def end(self) -> Optional[str]:
        """Waits until everything is written. Returns an error text, or None."""
        if self._pid != os.getpid():
            return None
        if self._socket is None:
            Follower(self._plan, self._session.timeline.path).finish()
            return None
        try:
            self._socket.get().send(b"end", MSG_NOSIGNAL)
            self._next(self._socket)  # its greeting
            return self._next(self._socket).decode() or None
        except OSError as e:
            return f"the rest of {self._plan.tracking_file or self._plan.resource_usage_file} was not written: {e}"
        finally:
            self._socket.close()
            if self._spawned:
                self._spawned.wait(_spawn.WAIT_LIMIT_S)

    def _next(self, s: OwnSocket) -> bytes:
        """The next message of the keeper. A keeper that was stopped (SIGSTOP) gets SIGCONT."""
        end = time.monotonic() + END_LIMIT_S
        while True:
            try:
                message, ancillary, _, _ = s.get().recvmsg(4096, _process.ANCILLARY_SIZE)
                self._process = _process.sender(ancillary, self._process)
                return message
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise
            if self._process and self._process.is_stopped:
                self._process.signal(signal.SIGCONT)

    def forget(self) -> None:
        """In a forked child: the keeper belongs to the parent."""
        if self._socket:
            self._socket.close()


def main(task: str) -> None:
    """Main function of the keeper process."""
    task_data = json.loads(task)
    plan = Plan(**task_data["plan"])
    os.chdir(task_data["working"])
    follower = Follower(plan, task_data["path"])
    period_s = min(max(plan.sleep_time, FASTEST_S), SLOWEST_S)
    error = ""
    s = socket(fileno=_spawn.TARGET)
    s.send(b"here", MSG_NOSIGNAL)
    while not select.select([s], [], [], period_s)[0]:
        error = error or _error_of(follower.step)
    if _end_request(s):
        error = error or _error_of(follower.finish)
        s.send(error.encode() or b"", MSG_NOSIGNAL)
    else:
        _finish_alone(follower, task_data["folder"])


def _end_request(s: socket) -> bytes:
    """The request to end; empty if the program has ended."""
    try:
        return s.recv(16)
    except ConnectionResetError:  # it has ended without reading the greeting
        return b""


def _finish_alone(follower: Follower, folder: Optional[str]) -> None:
    """After the end of the program: waits until the recorder has finished, and writes the rest."""
    end = time.monotonic() + END_LIMIT_S
    while not follower.is_finished() and time.monotonic() < end:
        time.sleep(FASTEST_S)
    _error_of(lambda: follower.finish(keep=True))
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


def _error_of(action: Callable[[], None]) -> str:
    """Calls action; returns an error text, or "" on success."""
    try:
        action()
    except Exception as e:  # of any kind: the program reports it at the end
        return f"{type(e).__name__}: {e}"[:4000]
    return ""


_keepers: weakref.WeakSet[Keeper] = weakref.WeakSet()


def _forget_all() -> None:
    for keeper in list(_keepers):
        keeper.forget()


os.register_at_fork(after_in_child=_forget_all)

# SPDX-License-Identifier: MIT
"""The recorder process of this interpreter, and the socket to it (docs/python.md has the protocol).

The recorder is `hiwater attach --control FD`, started by _spawn, so that no wait() of the program
returns it. A request is "NUMBER TIME TEXT", its answer "NUMBER ok|no|+ TEXT". A request
with number 0 is not answered; a message from the recorder with number 0 is a notice. No method
waits longer than its limit. A recorder that was stopped (SIGSTOP) gets SIGCONT after
STOPPED_LIMIT_S, and is abandoned if it is still stopped as long again later.
"""
from __future__ import annotations

import atexit
import errno
import fcntl
import os
import signal
import threading
import time
import weakref

# Not from socket: gevent and eventlet replace its names by sockets that switch to another greenlet.
from _socket import AF_UNIX, MSG_NOSIGNAL, SOCK_SEQPACKET, socketpair, timeout

from . import _process, _spawn
from ._errors import ArgumentValueError, Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from typing import Optional, Sequence

START_LIMIT_S = 20.0
POLL_MS = 20
STOPPED_LIMIT_S = 1.0  # at least EDGE_LIMIT_S: an edge that waited for a stopped recorder is too late in any case
ROOM_LIMIT_S = 0.1  # wait for room while the socket's buffer is full
MESSAGE_MOST = 16384  # bytes
WAS_STOPPED = "the recorder was stopped (SIGSTOP) and has been continued (SIGCONT); nothing was measured in between"


class Lost(Error):
    """The recorder has ended."""


class Late(Error):
    """The recorder did not answer in time."""


class Refused(Error):
    """The recorder answered with an error."""


CLOSED = "the program closed the descriptor of the recorder's socket"


class OwnSocket:
    """A socket whose descriptor the program may have closed, or closed and opened again: it is used
    and closed only while it is still this socket."""

    FIRST = 3  # a socket with the number of a standard stream would get the program's output

    def __init__(self, made: socket) -> None:
        """Takes over a socket. Raises OSError."""
        self._socket = made
        self._waiting: Optional[socket] = None
        self._identity = self._identify()
        if made.fileno() < self.FIRST:
            number = fcntl.fcntl(made.fileno(), fcntl.F_DUPFD_CLOEXEC, self.FIRST)
            made.close()
            self._socket = type(made)(fileno=number)
            self._identity = self._identify()
        # Two objects of one descriptor: Python reads an object's limit again and again, also that of another thread's call. The limit
        # is Python's, since one of the kernel's (SO_RCVTIMEO) would begin anew after each signal.
        self._waiting = type(made)(fileno=self._socket.fileno())
        self._waiting.settimeout(POLL_MS / 1000)
        self._socket.settimeout(0)

    def _identify(self) -> Optional[tuple[int, int]]:
        try:
            found = os.fstat(self._socket.fileno())
            return found.st_dev, found.st_ino
        except OSError:
            return None

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def is_open(self) -> bool:
        return self._socket.fileno() >= 0 and self._identify() == self._identity

    def get(self, wait: bool = False) -> socket:
        """The socket, for one operation, which waits for at most POLL_MS or not at all. Raises OSError if the descriptor is not its
        own any more."""
        if self._socket.fileno() >= 0 and not self.is_open:
            raise OSError(errno.EBADF, CLOSED)
        return self._waiting if wait and self._waiting else self._socket

    def close(self) -> None:
        if self._waiting:
            self._waiting.detach()
        if self.is_open:
            self._socket.close()
        else:
            self._socket.detach()

    def __del__(self) -> None:
        self.close()


class _StopDeadline:
    """Deadline for a stopped recorder: the first is followed by SIGCONT, the second by giving
    up."""

    def __init__(self) -> None:
        self.end = time.monotonic() + STOPPED_LIMIT_S
        self.is_last = False  # this is the second deadline

    def renew(self) -> None:
        self.end = time.monotonic() + STOPPED_LIMIT_S
        self.is_last = True


class Channel:
    """Connection to a recorder. Its methods may be called by any thread; in a forked child they do
    nothing."""

    def __init__(self, command: str, options: Sequence[str], warnings: Optional[list[str]] = None) -> None:
        """Starts `command attach` with these options and returns once it measures; raises Error if
        it does not. Later warnings about the recorder are appended to warnings."""
        self._lock = threading.RLock()  # reentrant: a signal handler may send a request, too
        self._pid = os.getpid()
        self._number = 0
        self._answers: dict[int, list[tuple[bytes, bytes]]] = {}
        self.file: Optional[str] = None  # path of the recording, once it exists
        self.environment: list[str] = []  # NAME=VALUE that a traced process sets
        self.why_lost = ""  # the reason of the last False of `notify`
        self._is_slow = False  # the last notification was lost: the next does not wait for room
        self._startup_messages: list[str] = []  # errors and warnings at startup
        self._is_usage = False  # the recorder refused its arguments
        self._warnings = [] if warnings is None else warnings
        self._recorder: Optional[_process.Process] = None  # known from its first message
        self._is_given_up = False  # stopped again after SIGCONT
        self._socket: Optional[OwnSocket] = None
        self._recorder_inode: Optional[int] = None  # inode of the recorder's end, until it was searched
        self._spawned: Optional[_spawn.Spawned] = None
        try:
            self._start(command, options)
        except Lost:
            self.close()
            text = f"nothing is measured: {' '.join(self._startup_messages) or command + ' ended before it began'}"
            raise (ArgumentValueError if self._is_usage else Error)(text) from None
        except Late as e:
            self.close()
            raise Error(f"nothing is measured: {e}" if self._is_given_up else
                        f"nothing is measured: {command} did not begin within {START_LIMIT_S:g} s; the machine may be "
                        "overloaded, or the command may not be the one of this package") from None
        except OSError as e:
            self.close()
            raise Error(f"nothing is measured: {command} cannot be started: {e.strerror}") from e
        except BaseException:
            self.close()
            raise

    def _start(self, command: str, options: Sequence[str]) -> None:
        """Raises OSError, Lost or Late."""
        ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
        try:
            theirs.setblocking(True)  # also where socket.setdefaulttimeout() was called
            self._socket = OwnSocket(ours)
            self._recorder_inode = os.fstat(theirs.fileno()).st_ino
            _process.request_credentials(self._socket.get())
            self._spawned = _spawn.spawn([command, "attach", "--control", str(_spawn.TARGET), *options], theirs.fileno())
        finally:
            theirs.close()
        _channels.add(self)
        _, *self.environment = self.ask("begin", START_LIMIT_S).split("\0")

    @property
    def is_open(self) -> bool:
        return self._socket is not None and self._socket.is_open and self._pid == os.getpid()

    def notify(self, text: str) -> bool:
        """Sends a message without an answer. False: it is lost, and why_lost says why. Waits for room at most ROOM_LIMIT_S, and not at all if the previous message was
        lost."""
        limit_s = 0 if self._is_slow else ROOM_LIMIT_S
        try:
            self._send(0, text, time.monotonic() + limit_s)
            self._is_slow = False
        except Error as e:
            self._is_slow, self.why_lost = True, str(e)
        return not self._is_slow

    def ask(self, text: str, limit_s: float) -> str:
        """Sends a request and returns its answer. Raises Lost, Late or Refused."""
        end = time.monotonic() + limit_s
        with self._lock:
            number = self._begin(text, end)
            try:
                return self._answer(number, end)
            finally:
                del self._answers[number]

    def ask_for_later(self, text: str) -> int:
        """Sends a request and returns its number, for `answer`. Raises Lost or Late."""
        with self._lock:
            return self._begin(text, time.monotonic() + ROOM_LIMIT_S)

    def answer(self, number: int, limit_s: float) -> str:
        """Waits for the answer to an `ask_for_later`. Raises Lost, Late or Refused."""
        with self._lock:
            try:
                return self._answer(number, time.monotonic() + limit_s)
            finally:
                del self._answers[number]

    def receive_notices(self) -> None:
        """Receives pending notices, such as the path of the recording."""
        try:
            while self._receive(0, wait=False):
                pass
        except Error:
            pass

    def find_recording(self, output: Optional[str]) -> Optional[str]:
        """The recording of a recorder that is lost or does not answer, also if it was lost before
        it sent the path. output: the absolute path given with --output, if any."""
        if not self.file and self._recorder:
            from ._recording import written_by

            self.file = written_by(self._recorder.identity, output)
        return self.file

    def close(self) -> None:
        """Closes the socket, which ends the recorder. A stopped recorder is killed."""
        if self._socket:
            self._socket.close()
        if self._pid != os.getpid():
            return
        if self._recorder and (self._is_given_up or self._recorder.is_stopped):
            self._recorder.signal(signal.SIGKILL)
        if self._spawned:
            self._spawned.wait(_spawn.WAIT_LIMIT_S)

    def _begin(self, text: str, end: float) -> int:
        self._number += 1
        number = self._number
        self._answers[number] = []
        try:
            self._send(number, text, end)
        except BaseException:
            del self._answers[number]
            raise
        return number

    def _send(self, number: int, text: str, end: float = 0) -> None:
        message = b"%d %d %s" % (number, time.clock_gettime_ns(time.CLOCK_BOOTTIME), text.encode(errors="replace"))
        if len(message) > MESSAGE_MOST:
            raise Refused(f"a message of {len(message)} bytes is too long; the limit is {MESSAGE_MOST} bytes")
        if self._socket is None or self._pid != os.getpid():
            raise Lost("this process has no recorder")
        wait = False  # at first: poll() reports room only once much of the buffer is free
        while True:
            try:
                self._socket.get(wait).send(message, MSG_NOSIGNAL)
                return
            except (BlockingIOError, timeout):
                wait = time.monotonic() < end
                if not wait:
                    raise Late("the recorder does not read its socket") from None
            except OSError as e:
                self._receive_rest()
                raise Lost(CLOSED if e.strerror == CLOSED else "the recorder has ended") from None

    def _answer(self, number: int, end: float) -> str:
        pieces: list[bytes] = []
        deadline = _StopDeadline()
        while True:
            while self._answers[number]:
                word, text = self._answers[number].pop(0)
                if word == b"+":
                    pieces.append(text)
                elif word == b"ok":
                    return (b"".join(pieces) or text).decode(errors="replace")
                else:
                    raise Refused(text.decode(errors="replace"))
            if not self._receive(end):
                self._continue_stopped(deadline, end)

    def _continue_stopped(self, deadline: _StopDeadline, end: float) -> None:
        """Sends SIGCONT to a stopped recorder. Raises Late if it is stopped again."""
        if not deadline.end <= time.monotonic() < end:
            return
        if not self._recorder and self._recorder_inode:  # no message yet: search for its pid
            self._recorder, self._recorder_inode = _process.recorder_by_socket(self._recorder_inode), None
        if not self._recorder or not self._recorder.is_stopped:
            return
        if deadline.is_last:
            self._is_given_up = True
            raise Late("the recorder is stopped (SIGSTOP), and was stopped again after SIGCONT")
        self._recorder.signal(signal.SIGCONT)
        if WAS_STOPPED not in self._warnings:
            self._warnings.append(WAS_STOPPED)
        deadline.renew()

    def _why_late(self) -> str:
        is_stopped = self._recorder and self._recorder.is_stopped
        return "the recorder is stopped (SIGSTOP)" if is_stopped else "the recorder does not answer"

    def _receive(self, end: float, wait: bool = True) -> bool:
        """Receives a message and dispatches it; False if none came within POLL_MS. A signal handler
        may meanwhile receive the answer that the caller waits for, so the caller checks again after
        each call."""
        if self._socket is None or (wait and time.monotonic() >= end):
            raise Late(self._why_late())
        try:
            try:
                message, ancillary, _, _ = self._socket.get(wait).recvmsg(2 * MESSAGE_MOST, _process.ANCILLARY_SIZE)
            except ConnectionResetError:  # it ended without reading a request; its own messages come after this error
                message, ancillary, _, _ = self._socket.get(wait).recvmsg(2 * MESSAGE_MOST, _process.ANCILLARY_SIZE)
            self._recorder = _process.sender(ancillary, self._recorder)
            self._is_given_up = False
        except (BlockingIOError, timeout):  # none came
            return False
        except OSError as e:
            if e.strerror == CLOSED:
                raise Lost(CLOSED) from None
            message = b""
        if not message:
            raise Lost("the recorder has ended")
        self._dispatch(message)
        return True

    def _receive_rest(self) -> None:
        """Receives the last messages of a recorder that has ended."""
        try:
            while self._receive(0, wait=False):
                pass
        except Error:
            pass

    def _dispatch(self, message: bytes) -> None:
        number, word, text = message.split(b" ", 2)
        if number != b"0":
            waiting = self._answers.get(int(number))
            if waiting is not None:
                waiting.append((word, text))
        elif word == b"file":
            self.file = os.fsdecode(text)
        elif word == b"said":
            self._startup_messages.append(text.decode(errors="replace"))
        elif word == b"usage":
            self._is_usage = True

    def _forget(self) -> None:
        """In a forked child: the recorder belongs to the parent."""
        self._lock = threading.RLock()
        if self._socket:
            self._socket.close()


_channels: weakref.WeakSet[Channel] = weakref.WeakSet()


def _forget_all() -> None:
    for channel in list(_channels):
        channel._forget()
    _channels.clear()


def _close_all() -> None:
    """At exit, after the runs: nothing of a recorder is left to be reaped by others."""
    for channel in list(_channels):
        channel.close()


os.register_at_fork(after_in_child=_forget_all)
atexit.register(_close_all)

# SPDX-License-Identifier: MIT
"""The recorder beside this interpreter, and the socket to it (docs/python.md has the protocol).

The recorder is `hiwater attach --control FD`: a process of its own that leaves its parent at once, so that no wait() sees
it. A message is "NUMBER TIME TEXT", its answer "NUMBER ok|no|+ TEXT"; what has number 0 is not answered or was not asked.
Whatever becomes of the recorder, nothing here waits longer than its limit. One that works is given that time; one that
somebody has stopped (SIGSTOP) is told to go on after STOPPED_LIMIT_S, and given up after as long again.
"""
from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
import weakref

from . import _process
from ._errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Sequence

START_LIMIT_S = 20.0
LOOK_AGAIN_MS = 20
STOPPED_LIMIT_S = 1.0  # not less than a phase's edge waits: that is too late then, however it goes on
PATIENCE_S = 0.1  # where more is said at once than the recorder has taken
MESSAGE_MOST = 16384
WAS_STOPPED = "the recorder was stopped (SIGSTOP), and was told to go on (SIGCONT): nothing was measured meanwhile"


class Lost(Error):
    """There is no recorder any more."""


class Late(Error):
    """It did not answer in time."""


class Refused(Error):
    """It said no."""


class _Patience:
    """How long an answer is waited for where the recorder is stopped: until it is told to go on, and once more."""

    def __init__(self) -> None:
        self.end = time.monotonic() + STOPPED_LIMIT_S
        self.is_over = False  # with the second end

    def renew(self) -> None:
        self.end = time.monotonic() + STOPPED_LIMIT_S
        self.is_over = True


class Channel:
    """A recorder of its own. Its methods may be called by any thread; in a forked child they do nothing."""

    def __init__(self, command: str, options: Sequence[str], warnings: Optional[list[str]] = None) -> None:
        """Starts `command attach` with these options and returns once it measures; Error if it does not. warnings: what happens
        to it later is told there."""
        self._lock = threading.RLock()  # also a signal's handler may ask
        self._pid = os.getpid()
        self._number = 0
        self._answers: dict[int, list[tuple[bytes, bytes]]] = {}
        self.file: Optional[str] = None  # the recording, once there is one
        self.is_over = False  # measuring has ended
        self._is_slow = False
        self._said: list[str] = []
        self._warnings = [] if warnings is None else warnings
        self._recorder: Optional[_process.Process] = None  # once it has said something
        self._is_given_up = False  # it does not stay awake
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._theirs: Optional[int] = os.fstat(theirs.fileno()).st_ino  # until it was looked who has that end
        try:
            with theirs:
                spawn(command, options, theirs.fileno())
            self._socket.setblocking(False)
            _process.ask_who(self._socket)
            _channels.add(self)
            self.ask("begin", START_LIMIT_S)
        except Lost:
            self.close()
            raise Error(f"nothing is measured: {' '.join(self._said) or command + ' ended before it began'}") from None
        except Late as e:
            self.close()
            raise Error(f"nothing is measured: {e}" if self._is_given_up else
                        f"nothing is measured: {command} did not begin within {START_LIMIT_S:g} s; the machine may be "
                        "overloaded, or the command not the one of this package") from None
        except BaseException:
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        return self._socket.fileno() >= 0 and self._pid == os.getpid()

    def tell(self, text: str) -> bool:
        """Sends what needs no answer. False: it is lost, because nobody reads; that is waited for only once."""
        patience_s = 0 if self._is_slow else PATIENCE_S
        try:
            self._send(0, text, time.monotonic() + patience_s)
            self._is_slow = False
        except Error:
            self._is_slow = True
        return not self._is_slow

    def ask(self, text: str, limit_s: float) -> str:
        """The answer. Raises Lost, Late or Refused."""
        end = time.monotonic() + limit_s
        with self._lock:
            number = self._begin(text, end)
            try:
                return self._answer(number, end)
            finally:
                del self._answers[number]

    def ask_for_later(self, text: str) -> int:
        """Asks, and does not wait: `answer` of the number does. Raises Lost or Late."""
        with self._lock:
            return self._begin(text, time.monotonic() + PATIENCE_S)

    def answer(self, number: int, limit_s: float) -> str:
        """Of what was asked for later. Raises Lost, Late or Refused."""
        with self._lock:
            try:
                return self._answer(number, time.monotonic() + limit_s)
            finally:
                del self._answers[number]

    def hear(self) -> None:
        """Takes what it said meanwhile without being asked: that there is a file, or that it is over."""
        try:
            while self._receive(time.monotonic() + 1, wait=False):
                pass
        except Error:
            pass

    def left(self, output: Optional[str]) -> Optional[str]:
        """The recording of one that is lost or silent, also where it did not come to tell of it. output: what it was told to write,
        absolute."""
        if not self.file and self._recorder:
            from ._recording import written_by

            self.file = written_by(self._recorder.identity, output)
        return self.file

    def close(self) -> None:
        """The recorder ends then, if it has not yet. One that is stopped is killed: nobody waits for it any more."""
        try:
            self._socket.close()
        except OSError:
            pass  # its descriptor was closed behind its back
        if self._recorder and self._pid == os.getpid() and (self._is_given_up or self._recorder.is_stopped):
            self._recorder.signal(signal.SIGKILL)

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
            raise Refused(f"a message of {len(message)} bytes is too long: {MESSAGE_MOST} are the most")
        if not self.is_open:
            raise Lost("this process has no recorder")
        while True:
            try:
                self._socket.send(message, socket.MSG_NOSIGNAL)
                return
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise Late("the recorder takes nothing") from None
                time.sleep(0.0002)
            except OSError:
                self._take_all()
                raise Lost("the recorder is gone") from None

    def _answer(self, number: int, end: float) -> str:
        pieces: list[bytes] = []
        patience = _Patience()
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
                self._rouse(patience, end)

    def _rouse(self, patience: _Patience, end: float) -> None:
        """A recorder that was stopped is told to go on. Raises Late where it is stopped again."""
        if not patience.end <= time.monotonic() < end:
            return
        if not self._recorder and self._theirs:  # it has not said who it is yet
            self._recorder, self._theirs = _process.recorder_with(self._theirs), None
        if not self._recorder or not self._recorder.is_stopped:
            return
        if patience.is_over:
            self._is_given_up = True
            raise Late("the recorder is stopped (SIGSTOP), and again after it was told to go on")
        self._recorder.signal(signal.SIGCONT)
        if WAS_STOPPED not in self._warnings:
            self._warnings.append(WAS_STOPPED)
        patience.renew()

    def _why_late(self) -> str:
        is_stopped = self._recorder and self._recorder.is_stopped
        return "the recorder is stopped (SIGSTOP)" if is_stopped else "the recorder does not answer"

    def _receive(self, end: float, wait: bool = True) -> bool:
        """Takes a message to where it belongs, if one comes soon. A signal's handler may ask meanwhile, and take what this
        one waits for: so it looks again every few milliseconds."""
        poll = select.poll()
        left_ms = (end - time.monotonic()) * 1000
        try:
            poll.register(self._socket, select.POLLIN)
            if left_ms <= 0:
                raise Late(self._why_late())
            if not poll.poll(min(left_ms, LOOK_AGAIN_MS) if wait else 0):
                return False
            message, who, _, _ = self._socket.recvmsg(2 * MESSAGE_MOST, _process.ROOM)
            self._recorder = _process.who(who, self._recorder)
            self._is_given_up = False
        except BlockingIOError:
            return False
        except (OSError, ValueError):  # closed by another thread, too
            message = b""
        if not message:
            raise Lost("the recorder is gone")
        self._take(message)
        return True

    def _take_all(self) -> None:
        """What it said before it went."""
        try:
            while True:
                self._receive(time.monotonic() + 1)
        except Error:
            pass

    def _take(self, message: bytes) -> None:
        number, word, text = message.split(b" ", 2)
        if number != b"0":
            waiting = self._answers.get(int(number))
            if waiting is not None:
                waiting.append((word, text))
        elif word == b"file":
            self.file = os.fsdecode(text)
        elif word == b"over":
            self.is_over = True
        elif word == b"said":
            self._said.append(text.decode(errors="replace"))

    def _forget(self) -> None:
        """In a forked child: the recorder is the parent's."""
        self._lock = threading.RLock()
        self._socket.close()


def spawn(command: str, options: Sequence[str], descriptor: int) -> None:
    """Starts the recorder with this descriptor. It leaves its first process at once; that is waited for here."""
    theirs = 3 if descriptor != 3 else 4
    actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
               (os.POSIX_SPAWN_DUP2, descriptor, theirs)]
    usual = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGCHLD]
    try:
        pid = os.posix_spawn(command, [command, "attach", "--control", str(theirs), *options], os.environ,
                             file_actions=actions, setsigmask=[], setsigdef=usual)
    except OSError as e:
        raise Error(f"nothing is measured: {command} cannot be started: {e.strerror}") from e
    try:
        _await_first(pid)
    except ChildProcessError:
        pass  # SIGCHLD is ignored here, or another thread waits for everybody


def _await_first(pid: int) -> None:
    """One that somebody stops on its way is told to go on once, and then ended: nobody waits for what does not go on."""
    for number in (signal.SIGCONT, signal.SIGKILL):
        if not os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1]):
            return
        os.kill(pid, number)
    os.waitpid(pid, 0)


_channels: weakref.WeakSet[Channel] = weakref.WeakSet()


def _forget_all() -> None:
    for channel in list(_channels):
        channel._forget()
    _channels.clear()


os.register_at_fork(after_in_child=_forget_all)

# SPDX-License-Identifier: MIT
"""Starts the processes of this package: recorders, the process that writes the files of a tracker,
and the command where it reads recordings. No wait() of the program returns them, and they send it
no SIGCHLD (_core_spawn.h).

Recorders are adopted by init, which reaps them. Where init does not (a program that is process 1 of a
container, or `sleep infinity`), an intermediate process stays and reaps them, until `Spawned.wait`.
"""
from __future__ import annotations

import os
import signal

from ._errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Mapping, Optional, Sequence

TARGET = 3  # the descriptor of the helper
WAIT_LIMIT_S = 1.0
_GONE = -2

# Names of programs that reap processes which they did not start, as process 1.
_REAPING = {"systemd", "init", "tini", "docker-init", "dumb-init", "catatonit", "s6-svscan", "runit", "runsvdir", "supervisord",
            "my_init", "pause", "bwrap", "appinit", "sinit", "procd", "bash", "sh", "dash", "ash", "busybox", "ksh", "zsh", "hiwater"}


class Spawned:
    """A helper. It belongs to this process: a forked child must not use it."""

    def __init__(self, core: Optional[ModuleType] = None, pid: int = 0, stacks: int = 0, end: int = -1) -> None:
        self._core = core
        self._pids = [pid] if pid else []  # of its intermediate process; none: it has ended, or a thread waits for it
        self._stacks = stacks
        self._end = end  # a socket that an exec closes; the program may have closed it, and opened another file as this number
        self._identity = _identify(end)

    def wait(self, limit_s: float) -> bool:
        """Waits for the end of the helper if it has an intermediate process, and reaps that. False:
        it has not ended yet; a later helper's start or wait reaps it. While another thread waits,
        this returns True at once."""
        try:
            pid = self._pids.pop()  # by one thread alone: reap() unmaps the stacks
        except IndexError:
            return True
        if self._core and self._core.reap(pid, self._stacks, int(limit_s * 1000)) == -1:
            self._pids.append(pid)
            _late.append(self)
            return False
        if self._identity and _identify(self._end) == self._identity:
            os.close(self._end)
        return True


def _identify(descriptor: int) -> Optional[tuple[int, int]]:
    try:
        found = os.fstat(descriptor)
        return found.st_dev, found.st_ino
    except OSError:
        return None


_late: list[Spawned] = []


def _reap_late() -> None:
    waiting, _late[:] = _late[:], []
    for helper in waiting:
        helper.wait(0)


def spawn(argv: Sequence[str], descriptor: int, stderr: int = -1) -> Spawned:
    """Starts a helper that has this descriptor as number TARGET, no input and no output, and this
    stderr (-1: that of this process). Raises OSError."""
    _reap_late()
    core = _core()
    if core is None:
        return _spawn_twice(argv, descriptor, stderr)
    return Spawned(core, *core.spawn(*_encoded(argv, os.environb), (-1, -1, stderr, descriptor), not _init_reaps()))


def run(argv: Sequence[str], environment: Mapping[bytes, bytes]) -> tuple[int, bytes, bytes]:
    """Runs a command of this package that writes little on stderr. Returns its exit status, stdout
    and stderr. Raises OSError."""
    core = _core()
    if core is None or not core.CAN_STAY:
        import subprocess

        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, check=False)
        return done.returncode, done.stdout, done.stderr
    ends, pid, stacks, end, status = [*os.pipe(), *os.pipe()], 0, 0, -1, -1
    try:
        pid, stacks, end = core.spawn(*_encoded(argv, environment), (-1, ends[1], ends[3], -1), True)
        for number in (1, 3):
            os.close(ends[number])
            ends[number] = -1
        stdout, stderr = (_read_all(ends[number]) for number in (0, 2))
        while pid and status == -1:
            status = core.reap(pid, stacks, 1000)
        return status, stdout, stderr
    finally:
        if pid and status == -1:  # an interrupt
            _late.append(Spawned(core, pid, stacks, end))
            end = -1
        for descriptor in [*ends, end]:
            if descriptor >= 0:
                os.close(descriptor)


def _encoded(argv: Sequence[str], environment: Mapping[bytes, bytes]) -> tuple[list[bytes], list[bytes]]:
    return [os.fsencode(word) for word in argv], [key + b"=" + value for key, value in environment.items()]


def _read_all(descriptor: int) -> bytes:
    pieces = []
    while True:
        pieces.append(os.read(descriptor, 1 << 20))
        if not pieces[-1]:
            return b"".join(pieces)


def _core() -> Optional[ModuleType]:
    try:
        from ._native import _module

        return _module
    except Error:
        return None  # the source tree, built without Python's headers


def _init_reaps() -> bool:
    if os.getpid() == 1:
        return False
    try:
        with open("/proc/1/comm", encoding="ascii", errors="replace") as f:
            return f.read().strip() in _REAPING
    except OSError:
        return True  # hidden, as on machines with many users: not a container


def _spawn_twice(argv: Sequence[str], descriptor: int, stderr: int) -> Spawned:
    """Starts the helper as a child, which daemonises, and waits for that child."""
    actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
               *([(os.POSIX_SPAWN_DUP2, stderr, 2)] if stderr >= 0 else []), (os.POSIX_SPAWN_DUP2, descriptor, TARGET)]
    default_signals = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGCHLD]
    pid = os.posix_spawn(argv[0], list(argv), os.environ, file_actions=actions, setsigmask=[], setsigdef=default_signals)
    try:
        _await_first(pid)
    except ChildProcessError:
        pass  # SIGCHLD is ignored in this program, or another thread waits for all children
    return Spawned()


def _await_first(pid: int) -> None:
    """Waits for the first process. If it is stopped, it gets SIGCONT; if it is stopped again,
    SIGKILL."""
    for number in (signal.SIGCONT, signal.SIGKILL):
        if not os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1]):
            return
        os.kill(pid, number)
    os.waitpid(pid, 0)

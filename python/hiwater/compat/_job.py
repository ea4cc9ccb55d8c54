# SPDX-License-Identifier: MIT
"""A command under `hiwater run`: measured from its first instruction to its end, with its own input, output, signals and exit
status."""
from __future__ import annotations

import contextlib
import json
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

from .._command import needed_command
from .._errors import Error
from ._session import Session, interval_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Collection, Dict, List, Optional

    Started = Callable[..., "Job"]

_FORWARDED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
_CANARY_S = 0.002
_NOT_MEASURED = 125  # of hiwater run: it failed before the job began


def words_of(command: str) -> List[str]:
    """As a shell has them, quotes and all. Raises ValueError for a quotation without an end."""
    return shlex.split(command)


def told(words: List[str], run: Callable[[Started], int], is_for_programs: bool, write: Callable[[], None]) -> int:
    """Runs the command and says how it ended. run gets what makes a Job of it, and returns its status; write writes what it
    used. Returns the status to end with, negative for a signal; 1 where the command could not be started. is_for_programs:
    stdout is left to what is written."""
    jobs: List[Job] = []

    def started(*arguments: Any) -> Job:
        jobs.append(Job(words, *arguments))
        return jobs[0]

    try:
        _check(words[0])
        status = run(started)
    except _NoJob as e:
        if isinstance(e.why, FileNotFoundError):
            logging.error(f'Command not found: "{words[0]}"')
        else:
            logging.error(f'The following error occurred when starting the command "{words[0]}":')
            print(e.why)
        return 1
    finally:
        for job in jobs:
            job.close()
    try:
        print(f"Resource tracking complete. Process completed with status code: {status}",
              file=sys.stderr if is_for_programs else sys.stdout, flush=True)
        write()
        sys.stdout.flush()
    except BrokenPipeError:  # nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except (OSError, RuntimeError, ValueError) as e:
        logging.error(str(e))
        return status or 1
    return status


def check_output(path: Optional[str]) -> None:
    """Raises OSError for a file that could not be written in the end."""
    if path is None:
        return
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise IsADirectoryError(21, "Is a directory", path)
    if not os.path.isdir(folder):
        raise FileNotFoundError(2, "No such file or directory", path)
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise PermissionError(13, "Permission denied", path)


class _NoJob(Exception):
    """The command cannot be started."""

    def __init__(self, why: OSError) -> None:
        super().__init__(str(why))
        self.why = why


def _check(word: str) -> None:
    """Raises _NoJob for a command that cannot be started, before anything was begun for it."""
    path = word if "/" in word else shutil.which(word, mode=os.F_OK)
    if not path or not os.path.exists(path):
        raise _NoJob(FileNotFoundError(2, "No such file or directory", word))
    if not os.access(path, os.X_OK) or os.path.isdir(path):
        raise _NoJob(PermissionError(13, "Permission denied", word))


class Job(Session):
    """The command words; the other arguments are those of Session."""

    def __init__(self, words: List[str], period_s: float, n_cores: Optional[int] = None, uuids: Collection[str] = (),
                 system_uuids: Collection[str] = ()) -> None:
        super().__init__(None, period_s, n_cores or os.cpu_count() or 1, uuids, system_uuids)
        self._words = words
        self._summary_file = self.folder.file("run.json")

    def start(self) -> None:
        """Nothing: `run` does all."""

    def run(self, look: Callable[[], None]) -> int:
        """To its end; the exit status as subprocess has it (-9: a signal). look is called every now and then. Raises Error where
        it could not be started."""
        command = self._command()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would take the exit status with it
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED | {signal.SIGCHLD})
        canary: Optional[subprocess.Popen[bytes]] = None
        try:
            canary = _canary()
            process = subprocess.Popen(command, preexec_fn=lambda: _unblock(blocked))
            while process.poll() is None:
                canary = self._wait(process, canary)
                look()
        finally:
            _end(canary)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        self._check_start(process.returncode)
        return process.returncode

    def _check_start(self, status: int) -> None:
        """hiwater run says in its exit status why there was no job; where there was one, there is a summary."""
        if not self.folder.path or os.path.exists(self._summary_file):
            return
        if status == 127:
            raise _NoJob(FileNotFoundError(2, "No such file or directory", self._words[0]))
        if status == 126:
            raise _NoJob(OSError(8, "Exec format error", self._words[0]))
        if status == _NOT_MEASURED:
            raise Error("hiwater could not measure it; the command was not started")

    def _command(self) -> List[str]:
        made = [needed_command(), "run", "--summary", "none", "--interval", f"{interval_of(self.period_s) * 1e6:.0f}us"]
        if self.folder.path:
            made += ["--json", self._summary_file, "--output", self.timeline.path]
        return [*made, "--", *self._words]

    def _wait(self, process: subprocess.Popen[bytes], canary: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """For a signal, or a while. One that only this process got goes on to the job; hiwater passes it on. Returns the canary
        for the next one."""
        info = signal.sigtimedwait(_FORWARDED | {signal.SIGCHLD}, min(self.period_s, 1.0))
        if info is None or info.si_signo == signal.SIGCHLD:
            return canary
        time.sleep(_CANARY_S)
        if not _has_pending(canary.pid, info.si_signo):
            process.send_signal(info.si_signo)
            return canary
        _end(canary)
        return _canary()

    def _summary_so_far(self) -> Optional[Dict[str, Any]]:
        try:
            with open(self._summary_file, encoding="utf-8") as file:
                summary: Dict[str, Any] = json.load(file)
                return summary
        except (OSError, ValueError):
            return None


def _unblock(mask: Collection[int]) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _canary() -> subprocess.Popen[bytes]:
    """A process of our group in which signals stay pending: one that is, everybody got. It ends with its pipe."""
    return subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _end(canary: Optional[subprocess.Popen[bytes]]) -> None:
    if canary:
        canary.kill()
        canary.communicate()


def _has_pending(pid: int, signo: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        return bool((int(fields["ShdPnd"], 16) | int(fields["SigPnd"], 16)) >> (signo - 1) & 1)
    except (OSError, KeyError, ValueError):
        return False


def end_as(returncode: int) -> int:
    """The exit status to end with; a signal ends this process, as it did the job."""
    if returncode < 0:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # SIGKILL has no other action
            signal.signal(-returncode, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-returncode})
        os.kill(os.getpid(), -returncode)
        return 128 - returncode
    return returncode

# SPDX-License-Identifier: MIT
"""Runs a command under `hiwater run`, which measures it from its first instruction to its end. The
command keeps its input, output, signals and exit status."""
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
_PROBE_S = 0.002
_NOT_MEASURED = 125  # exit status of hiwater run if it failed before the job began


def words_of(command: str) -> List[str]:
    """Splits a command as a shell does. Raises ValueError for a quotation without an end."""
    return shlex.split(command)


def run_and_report(words: List[str], run: Callable[[Started], int], is_for_programs: bool, write: Callable[[], None]) -> int:
    """Runs the command, prints its status and writes its figures. run gets a function that makes
    the Job, and returns the exit status; write writes the figures. Returns the status to exit with,
    negative for a signal; 1 if the command could not be started. is_for_programs: stdout is for the
    output of write alone."""
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
        if jobs[0].is_measured:
            write()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of stdout has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except (OSError, RuntimeError, ValueError) as e:
        logging.error(str(e))
        return status or 1
    return status


def check_output(path: Optional[str]) -> None:
    """Raises OSError if the file will not be writable at the end."""
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
    """Raises _NoJob for a command that cannot be started."""
    path = word if "/" in word else shutil.which(word, mode=os.F_OK)
    if not path or not os.path.exists(path):
        raise _NoJob(FileNotFoundError(2, "No such file or directory", word))
    if not os.access(path, os.X_OK) or os.path.isdir(path):
        raise _NoJob(PermissionError(13, "Permission denied", word))


class Job(Session):
    """A session that runs the command `words`; the other arguments are those of Session."""

    def __init__(self, words: List[str], period_s: float, n_cores: Optional[int] = None, uuids: Collection[str] = (),
                 system_uuids: Collection[str] = ()) -> None:
        super().__init__(None, period_s, n_cores or os.cpu_count() or 1, uuids, system_uuids)
        self._words = words
        self.is_measured = True
        self._summary_file = self.folder.file("run.json")

    def start(self) -> None:
        """Does nothing; `run` starts the command."""

    def run(self, on_wake: Callable[[], None]) -> int:
        """Runs the command to its end and returns its exit status as subprocess does (-9: a
        signal). Calls on_wake once a period. Raises Error or _NoJob if it could not be started."""
        command = self._command()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if SIGCHLD is ignored, the exit status is lost
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED | {signal.SIGCHLD})
        probe: Optional[subprocess.Popen[bytes]] = None
        try:
            probe = _start_probe()
            process = self._popen(command, lambda: _unblock(blocked))
            while process.poll() is None:
                probe = self._wait(process, probe)
                on_wake()
        finally:
            _end(probe)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        self._check_start(process.returncode)
        return process.returncode

    def _popen(self, command: List[str], before_exec: Callable[[], None]) -> subprocess.Popen[bytes]:
        """Starts the command, unmeasured if hiwater cannot be started. Raises OSError."""
        try:
            return subprocess.Popen(command, preexec_fn=before_exec)
        except OSError as e:
            if not self.is_measured:
                raise
            logging.warning(f"Nothing is tracked: {command[0]}: {e.strerror}")
            self.is_measured = False
            return subprocess.Popen(self._words, preexec_fn=before_exec)

    def _check_start(self, status: int) -> None:
        """Raises if there was no job: then it has no summary, and the exit status of hiwater run
        shows the reason."""
        if not self.is_measured or not self.folder.path or os.path.exists(self._summary_file):
            return
        if status == 127:
            raise _NoJob(FileNotFoundError(2, "No such file or directory", self._words[0]))
        if status == 126:
            raise _NoJob(OSError(8, "Exec format error", self._words[0]))
        if status == _NOT_MEASURED:
            raise Error("hiwater could not measure the command; it was not started")

    def _command(self) -> List[str]:
        try:
            made = [needed_command()]
        except Error as e:
            logging.warning(f"Nothing is tracked: {e}")
            self.is_measured = False
            return self._words
        made += ["run", "--summary", "none", "--interval", f"{interval_of(self.period_s) * 1e6:.0f}us"]
        if self.folder.path:
            made += ["--json", self._summary_file, "--output", self.timeline.path]
        return [*made, "--", *self._words]

    def _wait(self, process: subprocess.Popen[bytes], probe: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """Waits for a signal, or one period. A signal that was sent to this process alone is
        forwarded to hiwater, which forwards it to the job. Returns the group probe for the next
        signal."""
        info = signal.sigtimedwait(_FORWARDED | {signal.SIGCHLD}, min(self.period_s, 1.0))
        if info is None or info.si_signo == signal.SIGCHLD:
            return probe
        time.sleep(_PROBE_S)
        if not _has_pending(probe.pid, info.si_signo):
            process.send_signal(info.si_signo)
            return probe
        _end(probe)
        return _start_probe()

    def _summary_so_far(self) -> Optional[Dict[str, Any]]:
        try:
            with open(self._summary_file, encoding="utf-8") as file:
                summary: Dict[str, Any] = json.load(file)
                return summary
        except (OSError, ValueError):
            return None


def _unblock(mask: Collection[int]) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _start_probe() -> subprocess.Popen[bytes]:
    """Starts a group probe: a process of this process group with blocked signals. A signal that is
    pending there was sent to the whole group. The probe ends when its pipe is closed."""
    return subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _end(probe: Optional[subprocess.Popen[bytes]]) -> None:
    if probe:
        probe.kill()
        probe.communicate()


def _has_pending(pid: int, signo: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        return bool((int(fields["ShdPnd"], 16) | int(fields["SigPnd"], 16)) >> (signo - 1) & 1)
    except (OSError, KeyError, ValueError):
        return False


def end_as(returncode: int) -> int:
    """Ends this process by the signal that ended the job, or returns the exit status to exit
    with."""
    if returncode < 0:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # the action of SIGKILL cannot be set
            signal.signal(-returncode, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-returncode})
        os.kill(os.getpid(), -returncode)
        return 128 - returncode
    return returncode

# SPDX-License-Identifier: MIT
"""A run of hiwater behind a tracker: its recorder process, its recording in a private folder, and
its figures during and after the run."""
from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass

from .. import _run
from .._channel import START_LIMIT_S, Channel, Late, Lost, Refused
from .._command import needed_command
from .._errors import Error
from .._recording import Recording
from ._figures import Figures, figures
from ._timeline import Timeline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Collection, Dict, List, Optional

INTERVAL_S = 0.1  # longest time between two samples
LEAST_INTERVAL_S = 0.001
GPU_LIMIT_S = 5.0
NO_LIMIT_S = 1e9


@dataclass(frozen=True)
class Gpu:
    uuid: str
    vendor: str
    total_bytes: int


def interval_of(period_s: float) -> float:
    """Time between two samples in seconds: at most INTERVAL_S, with a whole number of samples per
    period."""
    period_s = max(period_s, LEAST_INTERVAL_S)
    return max(period_s / max(round(period_s / INTERVAL_S), 1), LEAST_INTERVAL_S)


class Session:
    """Measures process pid (None: this one). period_s: seconds between two timepoints of the
    tracker; n_cores: of the machine; uuids: of the GPUs whose utilisation counts; system_uuids: of
    those whose memory counts."""

    def __init__(self, pid: Optional[int], period_s: float, n_cores: int, uuids: Collection[str] = (),
                 system_uuids: Collection[str] = ()) -> None:
        self.pid = pid
        self.period_s = max(period_s, LEAST_INTERVAL_S)
        self.n_cores = n_cores
        self.folder = Folder()
        self.timeline = Timeline(self.folder.file("run.hiw"), uuids, system_uuids)
        self._run: Optional[_run.Run] = None
        self.has_begun = False
        self.not_measured = ""  # why, after `start`
        self._started_s = 0.0
        atexit.register(self._at_exit)
        self._final: Optional[Dict[str, Any]] = None

    def start(self) -> None:
        """Raises ProcessLookupError if there is no such process. If nothing can be measured,
        `not_measured` says why, and the figures are unknown."""
        if self.pid is not None and not os.path.exists(f"/proc/{self.pid}"):
            raise ProcessLookupError(f"process PID not found (pid={self.pid})")
        path = self.timeline.path or None
        self._run = _run.Run({"pid": self.pid, "interval": interval_of(self.period_s), "output": path, "record": bool(path)})
        self._started_s = time.monotonic()
        try:
            self._run._begin()
            self.has_begun = True
        except Exception as e:  # of any kind: the program must run all the same
            if self.pid is not None and not os.path.exists(f"/proc/{self.pid}"):
                raise ProcessLookupError(f"process PID not found (pid={self.pid})") from None
            self.not_measured = str(e) or type(e).__name__

    def end_within(self, limit_s: Optional[float]) -> bool:
        """Requests the end of the recorder. Returns False if it does not answer within limit_s
        seconds."""
        return self._run is None or self._run.end_within(NO_LIMIT_S if limit_s is None else limit_s)

    def leave(self, kill: bool = False) -> None:
        """Abandons a recorder that does not answer; its recording until now counts. kill: also
        sends SIGKILL."""
        if self._run:
            self._run.leave()
        pid = self.timeline.recorder_pid() if kill else None
        with contextlib.suppress(OSError):
            if pid and b"--control" in open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0"):
                os.kill(pid, signal.SIGKILL)

    def stop(self) -> Optional[Figures]:
        """Ends the run and returns its figures; None if nothing is known."""
        if self._run:
            self._run.stop()
        self._final = self._summary_so_far()
        return Figures(wall_s=time.monotonic() - self._started_s) if self.not_measured else self.figures()

    def silent_s(self) -> Optional[float]:
        """Seconds since the recorder last wrote; None if it never did."""
        with contextlib.suppress(OSError):
            times = [os.stat(self.timeline.path + end).st_mtime for end in ("", "-wal") if os.path.exists(self.timeline.path + end)]
            return max(time.time() - max(times), 0.0) if times else None
        return None

    @property
    def warnings(self) -> List[str]:
        return self._run.warnings if self._run else []

    def figures(self) -> Optional[Figures]:
        """The figures of the run so far, or of the whole run."""
        summary = self._final or self._summary_so_far()
        return figures(summary, self.timeline, self.period_s, self.n_cores) if summary else None

    def close(self) -> None:
        """Removes the recording."""
        self.folder.remove()
        atexit.unregister(self._at_exit)

    def _summary_so_far(self) -> Optional[Dict[str, Any]]:
        """The summary from the recorder; if that does not answer, from its recording."""
        with contextlib.suppress(Error):
            if self._run:
                return self._run.summary.to_dict()
        with contextlib.suppress(Error):
            if os.path.exists(self.timeline.path):
                return Recording(self.timeline.path).summary.to_dict()
        return None

    def _at_exit(self) -> None:
        """Ends a run that the program did not stop."""
        if self.folder.is_temporary and self._run:
            self._run.stop()
            self.close()


PREFIX = "hiwater-compat-"
NAME_LENGTH = len(PREFIX) + 8  # mkdtemp appends eight characters
OURS = {"run.hiw", "run.hiw-wal", "run.hiw-shm", "run.json"}
LEFT_S = 24 * 3600.0  # how long the recording of a killed program is kept


def _sweep(temporary: str) -> None:
    """Removes old folders of this user's killed programs, if they contain only files made here. A
    running recorder writes once a second, so its folder is never old."""
    for folder in os.scandir(temporary):
        with contextlib.suppress(OSError):
            if not (folder.name.startswith(PREFIX) and len(folder.name) == NAME_LENGTH and folder.is_dir(follow_symlinks=False) and
                    folder.stat(follow_symlinks=False).st_uid == os.getuid()):
                continue
            files = list(os.scandir(folder.path))
            newest = max(entry.stat(follow_symlinks=False).st_mtime for entry in [folder, *files])
            if {entry.name for entry in files} <= OURS and time.time() - newest > LEFT_S:
                for entry in files:
                    os.unlink(entry.path)
                os.rmdir(folder.path)


class Folder:
    """A folder for recordings, mode 0700. If it cannot be made, path is None and no files are
    written.

    is_temporary    it is removed when this process ends; False: the keeper process removes it
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self.is_temporary = True
        try:
            _sweep(tempfile.gettempdir())
            self.path: Optional[str] = tempfile.mkdtemp(prefix=PREFIX)
        except OSError:
            self.path = None

    def file(self, name: str) -> str:
        return os.path.join(self.path, name) if self.path else ""

    def remove(self) -> None:
        """Removes the folder. Does nothing in a forked child: the folder belongs to the parent."""
        if self.path and self._pid == os.getpid():
            shutil.rmtree(self.path, ignore_errors=True)
        self.path = None


# ---- the machine -----------------------------------------------------------------------------------------------------

def capacity_bytes() -> int:
    """RAM of the machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


_found: List[List[Gpu]] = []


def gpus() -> List[Gpu]:
    """The GPUs that hiwater can read. If the machine may have GPUs, a recorder lists them once per
    process."""
    if not _found:
        _found.append(_asked_gpus() if _may_have_gpus() else [])
    return _found[0]


def _may_have_gpus() -> bool:
    import glob

    return bool(os.environ.get("HIWATER_NVML") or glob.glob("/dev/nvidia*") or glob.glob("/sys/class/drm/card[0-9]*") or
                os.path.exists("/dev/dxg") or _has_library())


def _has_library() -> bool:
    return any(os.path.exists(os.path.join(folder, "libnvidia-ml.so.1"))
               for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder)


def _asked_gpus() -> List[Gpu]:
    end = time.monotonic() + GPU_LIMIT_S
    try:
        channel = Channel(needed_command(), ["--summary", "none", "--no-record", "--", str(os.getpid())])
    except Error:
        return []
    try:
        while time.monotonic() < end:
            summary = json.loads(channel.ask("json", START_LIMIT_S))
            if summary["gpu"] is not None:
                return [Gpu(d["uuid"] or "", d["vendor"] or "", d["memory"]["total_bytes"] or 0)
                        for d in summary["gpu"]["devices"] if not d["parent"]]
            if any(n["about"] == "gpu" and "helper" in n["why"] for n in summary["notes"]):
                return []
            time.sleep(0.01)
    except (Late, Lost, Refused):
        pass
    finally:
        channel.close()
    return []

# SPDX-License-Identifier: MIT
"""The Tracker of gpu-tracker 2, and the classes of its results. A recorder process of hiwater
measures."""
from __future__ import annotations

import dataclasses
import logging
import os
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Dict, Optional

from .. import _session, _units
from .._report import as_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._figures import Figures

FRESH_S = 0.02  # attributes read within this time share one request to the recorder


@dataclass
class RSSValues:
    """Resident memory of one process or of several: total_rss = private_rss (pages that only one
    process maps) + shared_rss (pages that several map, each counted once)."""

    total_rss: float = 0.0
    private_rss: float = 0.0
    shared_rss: float = 0.0


@dataclass
class MaxRAM:
    """Peak RAM at one instant, in `unit`: used by the whole `system` (which has system_capacity),
    by the `main` process, by its `descendents`, and by both `combined`, with shared pages counted
    once."""

    unit: str
    system_capacity: float
    system: float = 0.0
    main: RSSValues = field(default_factory=RSSValues)
    descendents: RSSValues = field(default_factory=RSSValues)
    combined: RSSValues = field(default_factory=RSSValues)


@dataclass
class MaxGPURAM:
    """Peak GPU memory at one instant, in `unit`: of main, its descendents, and both."""

    unit: str
    main: float = 0.0
    descendents: float = 0.0
    combined: float = 0.0


@dataclass
class ComputeTime:
    """Real time from the start to the stop, or to the end of the tracked process."""

    unit: str
    time: float = 0.0


class Tracker:
    """Tracks RAM, GPU RAM and time of this process, or another one, and its descendants: in a
    `with` block, or from `start` to `stop`.

    max_ram, max_gpu_ram, compute_time   of the run so far while it tracks, constant afterwards; each is one object that is updated

    A recorder process of hiwater measures; this process does not sample.
    """

    def __init__(self, sleep_time: float = 1.0, ram_unit: str = "gigabytes", gpu_ram_unit: str = "gigabytes",
                 time_unit: str = "hours", n_join_attempts: int = 5, join_timeout: Optional[float] = 10.0,
                 kill_if_join_fails: bool = False, process_id: Optional[int] = None) -> None:
        """
        sleep_time           longest time between two samples of memory in seconds; hiwater samples at least ten times a second
        ram_unit, gpu_ram_unit    "bytes", "kilobytes", "megabytes", "gigabytes" or "terabytes"
        time_unit            "seconds", "minutes", "hours" or "days"
        n_join_attempts, join_timeout    number of times, and seconds each time, that stop() waits for the recorder
        kill_if_join_fails   True: exit this program with 1 if the recorder does not answer even then
        process_id           the process to track; default: this one

        Raises ValueError for invalid units, ProcessLookupError if there is no such process.
        """
        self._ram_size = _units.size_of(ram_unit, _units.BYTES, "memory")
        self._gpu_ram_size = _units.size_of(gpu_ram_unit, _units.BYTES, "memory")
        self._time_size = _units.size_of(time_unit, _units.SECONDS, "time")
        if process_id is not None and not os.path.exists(f"/proc/{process_id}"):
            raise ProcessLookupError(f"process PID not found (pid={process_id})")
        self.sleep_time = sleep_time
        self.n_join_attempts = n_join_attempts
        self.join_timeout = join_timeout
        self.kill_if_join_fails = kill_if_join_fails
        self.process_id = os.getpid() if process_id is None else process_id
        self._max_ram = MaxRAM(ram_unit, _session.capacity_bytes() / self._ram_size)
        self._max_gpu_ram = MaxGPURAM(gpu_ram_unit)
        self._compute_time = ComputeTime(time_unit)
        self._session: Optional[_session.Session] = None
        self._was_started = False
        self._fresh_until = 0.0
        self._lock = threading.RLock()

    @property
    def max_ram(self) -> MaxRAM:
        """Peak RAM."""
        self._refresh()
        return self._max_ram

    @property
    def max_gpu_ram(self) -> MaxGPURAM:
        """Peak GPU memory."""
        self._refresh()
        return self._max_gpu_ram

    @property
    def compute_time(self) -> ComputeTime:
        """Time tracked."""
        self._refresh()
        return self._compute_time

    def __enter__(self) -> Tracker:
        if self._was_started:
            raise RuntimeError("threads can only be started once")
        session = _session.Session(None if self.process_id == os.getpid() else self.process_id, self.sleep_time,
                                   os.cpu_count() or 1)
        self._was_started = True
        try:
            session.start()
        except ProcessLookupError:
            logging.warning("Failed to track a process that does not exist. This possibly resulted from the process completing "
                            "before tracking could begin.")
        except BaseException:
            self._was_started = False
            session.close()
            raise
        if session.not_measured:
            logging.warning(f"The usage values will remain 0.0: {session.not_measured}")
        self._session = session
        return self

    def __exit__(self, *_: object) -> None:
        if not self._was_started:
            raise RuntimeError("cannot join thread before it is started")
        with self._lock:
            session, self._session = self._session, None
        if session is None:
            return
        try:
            joined = self._join(session)
            self._set_figures(session.stop())
        finally:
            session.close()
        if not joined and self.kill_if_join_fails:
            logging.warning("The thread failed to join and kill_if_join_fails is set. Exiting ...")
            sys.exit(1)

    def _join(self, session: _session.Session) -> bool:
        """Waits for the recorder to end, within the configured attempts; abandons it if it does not
        answer."""
        for _ in range(self.n_join_attempts):
            if session.end_within(self.join_timeout):
                return True
            logging.warning("Thread is still alive after join timout. Attempting to join again...")
        logging.warning(f"Thread is still alive after {self.n_join_attempts} attempts to join. "
                        "The thread will likely not end until the parent process ends.")
        session.leave()
        return False

    def start(self) -> None:
        """Starts tracking, as entering the `with` block does. If nothing can be measured, it logs a
        warning, and the figures are 0."""
        self.__enter__()

    def stop(self) -> None:
        """Stops tracking, as leaving the `with` block does."""
        self.__exit__()

    def __str__(self) -> str:
        """The figures and their units as text."""
        return as_text(self.to_json())

    def to_json(self) -> Dict[str, Dict[str, Any]]:
        """The figures and their units as nested dicts."""
        return {"max_ram": dataclasses.asdict(self.max_ram), "max_gpu_ram": dataclasses.asdict(self.max_gpu_ram),
                "compute_time": dataclasses.asdict(self.compute_time)}

    def __getstate__(self) -> Dict[str, Any]:
        """State for another process: the present figures, without tracking."""
        self._refresh()
        return {**self.__dict__, "_session": None, "_lock": None}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    def _refresh(self) -> None:
        with self._lock:
            if self._session and time.monotonic() >= self._fresh_until:
                self._set_figures(self._session.figures())
                self._fresh_until = time.monotonic() + FRESH_S

    def _set_figures(self, f: Optional[Figures]) -> None:
        if f is None:
            return
        self._max_ram.system = f.system_ram / self._ram_size
        for mine, ram, gpu in (("main", f.main, f.gpu_main), ("descendents", f.descendants, f.gpu_descendants),
                               ("combined", f.combined, f.gpu_combined)):
            values: RSSValues = getattr(self._max_ram, mine)
            values.total_rss, values.private_rss, values.shared_rss = (
                v / self._ram_size for v in (ram.total, ram.private, ram.shared))
            setattr(self._max_gpu_ram, mine, gpu / self._gpu_ram_size)
        self._compute_time.time = f.wall_s / self._time_size
        if "gpu_ram" in f.unknown:
            logging.warning("The driver does not report the GPU RAM of processes here. Their GPU RAM values remain 0.0.")

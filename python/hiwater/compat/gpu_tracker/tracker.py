# SPDX-License-Identifier: MIT
"""The Tracker of gpu-tracker 5, and the classes of its results. A recorder process of hiwater
measures."""
from __future__ import annotations

import dataclasses
import enum
import logging
import os
import time
from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Set

from .. import _session, _units
from .._figures import Figures
from .._report import as_text
from ._data_file import DataFile
from ._rows import Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

    from .._figures import Ram, Share
    from ._keeper import Keeper

_NO_RESULTS = "The temporary tracking results file does not exist. Tracking results cannot be obtained."
LEAST_SLEEP_S = 0.1
FRESH_S = 0.02  # attributes read within this time share one request to the recorder
SILENCE_S = 10.0  # time without a write of the recorder that is worth a warning


@dataclass
class RSSValues:
    """Resident memory of one process or of several.

    total_rss    private_rss + shared_rss
    private_rss  pages that one process alone maps
    shared_rss   pages that another process maps too, each counted once
    """

    total_rss: float = 0.0
    private_rss: float = 0.0
    shared_rss: float = 0.0


@dataclass
class MaxRAM:
    """Peak RAM at one instant, in `unit`.

    system_capacity  RAM of the machine
    system           in use on the machine by all processes
    main             used by the tracked process
    descendants      used by all processes that it started, directly or not
    combined         used by both, shared pages counted once
    """

    unit: str
    system_capacity: float
    system: float = 0.0
    main: RSSValues = field(default_factory=RSSValues)
    descendants: RSSValues = field(default_factory=RSSValues)
    combined: RSSValues = field(default_factory=RSSValues)


@dataclass
class MaxGPURAM:
    """Peak GPU memory at one instant over all GPUs, in `unit`; the fields are those of MaxRAM."""

    unit: str
    system_capacity: float
    system: float = 0.0
    main: float = 0.0
    descendants: float = 0.0
    combined: float = 0.0


@dataclass
class ProcessingUnitPercentages:
    """Utilisation of processing units (cores or GPUs), in percent: 100 is one unit for
    *_sum_percent, all units for *_hardware_percent. max is over periods of sleep_time, mean over
    the whole time."""

    max_sum_percent: float = 0.0
    max_hardware_percent: float = 0.0
    mean_sum_percent: float = 0.0
    mean_hardware_percent: float = 0.0


@dataclass
class CPUUtilization:
    """Cores and threads.

    system_core_count  cores of the machine: the base of the hardware percentages of `system`
    n_expected_cores   the base of those of main, descendants and combined
    *_n_threads        the largest number of threads at one instant
    """

    system_core_count: int
    n_expected_cores: int
    system: ProcessingUnitPercentages = field(default_factory=ProcessingUnitPercentages)
    main: ProcessingUnitPercentages = field(default_factory=ProcessingUnitPercentages)
    descendants: ProcessingUnitPercentages = field(default_factory=ProcessingUnitPercentages)
    combined: ProcessingUnitPercentages = field(default_factory=ProcessingUnitPercentages)
    main_n_threads: int = 0
    descendants_n_threads: int = 0
    combined_n_threads: int = 0


@dataclass
class GPUUtilization:
    """GPUs: number in the machine, number tracked, and the utilisation of those (share of time in
    which some kernel ran)."""

    system_gpu_count: int
    n_expected_gpus: int
    gpu_percentages: ProcessingUnitPercentages = field(default_factory=ProcessingUnitPercentages)


@dataclass
class ComputeTime:
    """Real time from the start to the stop, or to the end of the tracked process."""

    unit: str
    time: float = 0.0


@dataclass
class ResourceUsage:
    """All figures of a tracker."""

    max_ram: MaxRAM
    max_gpu_ram: MaxGPURAM
    cpu_utilization: CPUUtilization
    gpu_utilization: GPUUtilization
    compute_time: ComputeTime


class Tracker:
    """Tracks the resource usage of this process, or another one, and its descendants: in a `with`
    block, or from `start` to `stop`.

    resource_usage   a ResourceUsage: of the run so far while it tracks, constant afterwards; None before
    state            a Tracker.State

    A recorder process of hiwater measures; this process does not sample.
    """

    class State(enum.Enum):
        """NEW, STARTED or STOPPED; a tracker cannot be started twice."""

        NEW = 0
        STARTED = 1
        STOPPED = 2

    def __init__(self, sleep_time: float = 1.0, ram_unit: str = "gigabytes", gpu_ram_unit: str = "gigabytes",
                 time_unit: str = "hours", n_expected_cores: Optional[int] = None, gpu_uuids: Optional[Set[str]] = None,
                 disable_logs: bool = False, process_id: Optional[int] = None, resource_usage_file: Optional[str] = None,
                 n_join_attempts: int = 5, join_timeout: Optional[float] = 10.0, gpu_brand: Optional[str] = None,
                 tracking_file: Optional[str] = None, overwrite: bool = False) -> None:
        """
        sleep_time           seconds between two rows of the tracking file, and the period of maximum utilisation; at least 0.1.
                             Peaks of memory do not depend on it
        ram_unit, gpu_ram_unit    "bytes", "kilobytes", "megabytes", "gigabytes" or "terabytes"
        time_unit            "seconds", "minutes", "hours" or "days"
        n_expected_cores     the number of cores that 100 hardware percent mean; default: all cores of the machine
        gpu_uuids            GPUs whose utilisation counts; default: all
        disable_logs         True: log no warnings
        process_id           the process to track; default: this one
        resource_usage_file  kept up to date with a pickle of the ResourceUsage and removed at the end; it stays if this process is
                             killed. Default: no file
        n_join_attempts, join_timeout    number of times, and seconds each time, that stop() waits for the recorder
        gpu_brand            "nvidia" or "amd"; default: the brand found, NVIDIA first
        tracking_file        file for a row each sleep_time: .csv or .sqlite
        overwrite            True: replace an existing tracking_file

        Raises ValueError for invalid arguments, FileExistsError for a tracking_file that exists.
        """
        self._disable_logs = disable_logs
        if sleep_time < LEAST_SLEEP_S:
            raise ValueError(f"Sleep time of {sleep_time} is invalid. Must be at least {LEAST_SLEEP_S} seconds.")
        sizes = (_units.size_of(ram_unit, _units.BYTES, "RAM"), _units.size_of(gpu_ram_unit, _units.BYTES, "GPU RAM"),
                 _units.size_of(time_unit, _units.SECONDS, "time"))
        file = DataFile.create(tracking_file, overwrite)
        all_gpus = self._gpus(gpu_brand)
        uuids = _chosen(gpu_uuids, {g.uuid for g in all_gpus}) if all_gpus else set()
        n_cores = os.cpu_count() or 1
        self._plan = Plan(sleep_time=sleep_time, ram_unit=ram_unit, gpu_ram_unit=gpu_ram_unit, time_unit=time_unit,
                          ram_size=sizes[0], gpu_ram_size=sizes[1], time_size=sizes[2],
                          ram_capacity=_session.capacity_bytes() / sizes[0],
                          gpu_ram_capacity=sum(g.total_bytes for g in all_gpus) / sizes[1], n_cores=n_cores,
                          n_expected_cores=n_cores if n_expected_cores is None else n_expected_cores,
                          n_gpus=len(all_gpus), uuids=sorted(uuids), system_uuids=[g.uuid for g in all_gpus],
                          tracking_file=tracking_file, resource_usage_file=resource_usage_file)
        if file:
            file.write_static_data(self._plan.static_row())
        self._process_id = process_id
        self._session: Optional[_session.Session] = None
        self._keeper: Optional[Keeper] = None
        self._usage: Optional[ResourceUsage] = None
        self._fresh_until = 0.0
        self.n_join_attempts = n_join_attempts
        self.join_timeout = join_timeout
        self.state = Tracker.State.NEW

    @property
    def resource_usage(self) -> Optional[ResourceUsage]:
        """The usage so far while it tracks, the final one once it has stopped; None before it
        started."""
        if self.state == Tracker.State.STARTED and self._session and time.monotonic() >= self._fresh_until:
            found = self._session.figures()
            self._usage = usage_of(self._plan, found) if found else self._usage
            self._fresh_until = time.monotonic() + FRESH_S
        return self._usage

    @resource_usage.setter
    def resource_usage(self, value: Optional[ResourceUsage]) -> None:
        self._usage = value

    def __repr__(self) -> str:
        return f"State: {self.state.name}"

    def __enter__(self) -> Tracker:
        if self.state != Tracker.State.NEW:
            raise RuntimeError(f"Cannot start tracking when tracking has already {self.state.name.lower()}.")
        session = self._make_session()
        if self._plan.needs_keeper:
            from ._keeper import Keeper

            self._keeper = Keeper(self._plan, session)
        try:
            session.start()
        except ProcessLookupError:
            self._warn(f"The target process of ID {self._process_id} ended before tracking could begin.")
        except BaseException:
            self._end_keeper()
            session.close()
            raise
        if session.not_measured:
            self._warn(f"The usage values will remain 0.0: {session.not_measured}")
        self._session = session
        self.state = Tracker.State.STARTED
        return self

    def __exit__(self, *_: object) -> None:
        if self.state == Tracker.State.NEW:
            raise RuntimeError("Cannot stop tracking when tracking has not started yet.")
        if self.state == Tracker.State.STOPPED or self._session is None:
            raise RuntimeError("Cannot stop tracking when tracking has already stopped.")
        session, self._session = self._session, None
        self._join(session)
        try:
            found = session.stop()
            self._end_keeper()
        finally:
            session.close()
        if session.has_begun and found is None:  # the recorder was lost, with its recording
            self._warn(_NO_RESULTS)
        self._set_figures(found or Figures())

    def _join(self, session: _session.Session) -> None:
        """Waits for the recorder to end, within the configured attempts; kills it if it does not
        answer."""
        for _ in range(self.n_join_attempts):
            if session.end_within(self.join_timeout):
                return
            logging.warning("The tracking process is still alive after join timout. Attempting to join again...")
        silent_s = session.silent_s()
        logging.warning(f"The tracking process is still alive after {self.n_join_attempts} attempts to join. "
                        "Terminating the process by force...")
        session.leave(kill=True)
        if silent_s is not None and silent_s > SILENCE_S:
            logging.warning(f"Tracking is stopping and it has been {silent_s} seconds since the temporary tracking results file "
                            "was last updated. Resource usage was not updated during that time.")

    def _set_figures(self, found: Optional[Figures]) -> None:
        """Sets the final usage. Raises RuntimeError for None."""
        if found is None:
            raise RuntimeError(_NO_RESULTS)
        self._usage = usage_of(self._plan, found)
        if "gpu_ram" in found.unknown:
            self._warn("The driver does not report the GPU RAM of processes here. Their GPU RAM values remain 0.0.")
        self.state = Tracker.State.STOPPED

    def start(self) -> None:
        """Starts tracking, as entering the `with` block does. If nothing can be measured, it logs a
        warning, and the figures are 0."""
        self.__enter__()

    def stop(self) -> None:
        """Stops tracking, as leaving the `with` block does."""
        self.__exit__()

    def __str__(self) -> str:
        """The figures and their units as text. Raises RuntimeError before tracking has stopped."""
        return as_text(self.to_json())

    def to_json(self) -> Dict[str, Dict[str, Any]]:
        """The figures and their units as nested dicts. Raises RuntimeError before tracking has
        stopped."""
        if self.state != Tracker.State.STOPPED or self._usage is None:
            raise RuntimeError("Cannot display the tracker in string or JSON format before tracking completes. Exit the content "
                               "manager or call the stop() method before calling to_json() or str()")
        return dataclasses.asdict(self._usage)

    def __getstate__(self) -> Dict[str, Any]:
        """State for another process: the present usage, without tracking."""
        return {**self.__dict__, "_usage": self.resource_usage, "_session": None, "_keeper": None}

    def _warn(self, text: str) -> None:
        if not self._disable_logs:
            logging.warning(text)

    def _gpus(self, brand: Optional[str]) -> List[_session.Gpu]:
        """The GPUs of one vendor: those of NVIDIA if there are any, else of AMD."""
        if brand not in (None, "nvidia", "amd"):
            raise ValueError(f'"{brand}" is not a valid GPU brand. Supported values are "nvidia" and "amd".')
        every = _session.gpus()
        for vendor in [brand] if brand else ["nvidia", "amd"]:
            found = [g for g in every if g.vendor == vendor]
            if found:
                return found
        self._warn(_why_none(brand))
        return []

    def _make_session(self) -> _session.Session:
        plan = self._plan
        return _session.Session(self._process_id, plan.sleep_time, plan.n_cores, plan.uuids, plan.system_uuids)

    def _end_keeper(self) -> None:
        keeper, self._keeper = self._keeper, None
        error = keeper.end() if keeper else None
        if error:
            self._warn_of(error)

    def _warn_of(self, what: str) -> None:
        self._warn("The following uncaught exception occurred in the tracking process:")
        self._warn(what)


def _chosen(uuids: Optional[Set[str]], known: Set[str]) -> Set[str]:
    if uuids is None:
        return known
    if not uuids:
        raise ValueError("gpu_uuids is not None but the set is empty. Please provide a set of at least one GPU UUID.")
    for uuid in uuids:
        if uuid not in known:
            raise ValueError(f"GPU UUID of {uuid} is not valid. Available UUIDs are: {', '.join(sorted(known))}")
    return set(uuids)


def _why_none(brand: Optional[str]) -> str:
    import shutil

    for command in [f"{brand}-smi"] if brand else ["nvidia-smi", "amd-smi"]:
        if shutil.which(command):
            return (f"The {command} command is installed but cannot connect to a GPU. "
                    "The GPU RAM and GPU utilization values will remain 0.0.")
    return ("Neither the nvidia-smi command nor the amd-smi command is installed. Install one of these to profile the GPU. "
            "Otherwise the GPU RAM and GPU utilization values will remain 0.0.")


# ---- from hiwater's figures ------------------------------------------------------------------------------------------

def empty_usage(plan: Plan) -> ResourceUsage:
    """The usage of a tracker without samples."""
    return ResourceUsage(MaxRAM(plan.ram_unit, plan.ram_capacity), MaxGPURAM(plan.gpu_ram_unit, plan.gpu_ram_capacity),
                         CPUUtilization(plan.n_cores, plan.n_expected_cores), GPUUtilization(plan.n_gpus, len(plan.uuids)),
                         ComputeTime(plan.time_unit))


def usage_of(plan: Plan, f: Figures) -> ResourceUsage:
    """Converts f to the units of plan."""
    usage = empty_usage(plan)
    usage.max_ram.system = f.system_ram / plan.ram_size
    usage.max_gpu_ram.system = f.gpu_system / plan.gpu_ram_size
    cpu = usage.cpu_utilization
    cpu.system = _percentages(f.cpu_system, plan.n_cores)
    for theirs, mine in (("main", "main"), ("descendants", "descendants"), ("combined", "combined")):
        setattr(usage.max_ram, theirs, _rss(getattr(f, mine), plan.ram_size))
        setattr(usage.max_gpu_ram, theirs, getattr(f, f"gpu_{mine}") / plan.gpu_ram_size)
        setattr(cpu, theirs, _percentages(getattr(f, f"cpu_{mine}"), plan.n_expected_cores))
    cpu.main_n_threads, cpu.descendants_n_threads, cpu.combined_n_threads = f.main_threads, f.descendants_threads, f.threads
    usage.gpu_utilization.gpu_percentages = _percentages(f.gpu_busy, len(plan.uuids))
    usage.compute_time.time = f.wall_s / plan.time_size
    return usage


def _rss(ram: Ram, size: float) -> RSSValues:
    return RSSValues(ram.total / size, ram.private / size, ram.shared / size)


def _percentages(share: Share, n_units: int) -> ProcessingUnitPercentages:
    most, mean = share.max * 100, share.mean * 100
    n = n_units or 1
    return ProcessingUnitPercentages(most, most / n, mean, mean / n)

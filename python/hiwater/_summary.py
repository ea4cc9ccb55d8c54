# SPDX-License-Identifier: MIT
"""The summary of a run, typed. Names end with their units; None is unknown, and `notes` states the
reason. The fields are those of docs/summary.schema.json; units are bytes, seconds, joules, watts,
degrees Celsius, ratios from 0 to 1."""
from __future__ import annotations

import dataclasses
import json
import typing
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

from ._errors import Error

SCHEMA = 2
Value = Union[str, int, float]


@dataclass(frozen=True)
class Exit:
    """Exit status of the main process, as in a shell; None if the recorder could not wait for it
    (attach). `raised` is the type of the exception that left a block or cell."""

    code: Optional[int] = None
    signal: Optional[int] = None
    oom_killed: bool = False
    raised: Optional[str] = None


@dataclass(frozen=True)
class Time:
    """Wall time, and CPU time of main and its descendants, in seconds. `main_wall_s` is less than
    `wall_s` if the run was followed beyond the end of its main process."""

    wall_s: Optional[float] = None
    main_wall_s: Optional[float] = None
    user_s: Optional[float] = None
    system_s: Optional[float] = None


@dataclass(frozen=True)
class Peak:
    """A peak: the maximum at one instant."""

    peak_bytes: Optional[int] = None


@dataclass(frozen=True)
class Ram:
    """low_bytes <= peak_bytes <= high_bytes. method is "exact" (the kernel's high-water mark),
    "bounded", "sampled" (at least peak_bytes) or None."""

    peak_bytes: Optional[int] = None
    low_bytes: Optional[int] = None
    high_bytes: Optional[int] = None
    private_bytes: Optional[int] = None
    shared_bytes: Optional[int] = None
    mean_bytes: Optional[int] = None
    at_s: Optional[float] = None
    method: Optional[str] = None
    source: Optional[str] = None


@dataclass(frozen=True)
class Cgroup:
    """Memory that the kernel charged to a cgroup that contains only the job, with page cache and
    kernel memory. method: "exact" is the kernel's high-water mark; "sampled" is the largest charge
    read, if the mark was reached before the run."""

    peak_bytes: Optional[int] = None
    method: Optional[str] = None
    limit_bytes: Optional[int] = None
    oom_kills: Optional[int] = None


@dataclass(frozen=True)
class Hugetlb:
    """Reserved huge pages, which no other figure includes, summed over the processes: a page that
    several processes map counts for each. method: "sampled", "bounded" (several processes: an upper
    bound) or None."""

    peak_bytes: Optional[int] = None
    method: Optional[str] = None


@dataclass(frozen=True)
class Shmem:
    """Files in tmpfs and shared memory, which count as memory until they are removed. method:
    "sampled" (source "cgroup"), "bounded" (source "meminfo": at most, the rise on the whole
    machine) or None."""

    peak_bytes: Optional[int] = None
    method: Optional[str] = None
    source: Optional[str] = None


@dataclass(frozen=True)
class Rlimit:
    """A limit of single processes (ulimit), and the process that came nearest to its own;
    peak_bytes is a lower bound."""

    limit_bytes: Optional[int] = None
    peak_bytes: Optional[int] = None
    pid: Optional[int] = None
    name: Optional[str] = None


@dataclass(frozen=True)
class Rlimits:
    """None: no process with that limit was found. rss_bytes is of the main process; Linux ignores
    it."""

    address_space: Optional[Rlimit] = None
    data: Optional[Rlimit] = None
    rss_bytes: Optional[int] = None


@dataclass(frozen=True)
class RamOfAll:
    """main is the tracked process; descendants are the processes that it started; combined is all
    of them at one instant, with shared pages counted once. unreclaimable_peak_bytes: memory in the
    cgroup with the limit that the kernel cannot free."""

    capacity_bytes: Optional[int] = None
    limit_bytes: Optional[int] = None
    system: Peak = field(default_factory=Peak)
    main: Ram = field(default_factory=Ram)
    descendants: Ram = field(default_factory=Ram)
    combined: Ram = field(default_factory=Ram)
    hugetlb: Hugetlb = field(default_factory=Hugetlb)
    shmem: Shmem = field(default_factory=Shmem)
    unreclaimable_peak_bytes: Optional[int] = None
    rlimits: Rlimits = field(default_factory=Rlimits)
    cgroup: Optional[Cgroup] = None


@dataclass(frozen=True)
class GpuPeak:
    """Peak GPU memory of the job at one instant, over all devices."""

    peak_bytes: Optional[int] = None
    method: Optional[str] = None


@dataclass(frozen=True)
class GpuMemory:
    """peak_bytes: memory in use on the device by all processes; job_*: used by the job's processes;
    foreign: by other processes; unattributed: by no visible process; reserved: by the driver.
    unified: the device shares the host's memory; numa: its memory is a NUMA node of the host."""

    total_bytes: Optional[int] = None
    peak_bytes: Optional[int] = None
    mean_bytes: Optional[int] = None
    job_peak_bytes: Optional[int] = None
    job_high_bytes: Optional[int] = None
    job_mean_bytes: Optional[int] = None
    method: Optional[str] = None
    other_peak_bytes: Optional[int] = None
    unattributed_peak_bytes: Optional[int] = None
    reserved_bytes: Optional[int] = None
    unified: bool = False
    numa: bool = False


@dataclass(frozen=True)
class Power:
    """Watts. module: the power of a whole module, CPUs included. averaged_s: each value is the mean of this time."""

    mean: Optional[float] = None
    max: Optional[float] = None
    limit: Optional[float] = None
    module: bool = False
    averaged_s: Optional[float] = None


@dataclass(frozen=True)
class Temperature:
    """Degrees Celsius."""

    max: Optional[float] = None
    memory_max: Optional[float] = None


@dataclass(frozen=True)
class GpuProcess:
    """A process on a device. job: it belongs to the job. high_bytes: the upper bound of a peak that is not exact: the
    driver's high-water mark, which counts from the start of the process. busy_mean: a ratio from 0 to 1."""

    pid: Optional[int] = None
    name: Optional[str] = None
    job: bool = False
    uid: Optional[int] = None
    peak_bytes: Optional[int] = None
    high_bytes: Optional[int] = None
    mean_bytes: Optional[int] = None
    method: Optional[str] = None
    busy_mean: Optional[float] = None


@dataclass(frozen=True)
class FrameworkMemory:
    """Memory of a device as the allocator of a framework reports it; `GpuMemory` has the driver's
    figures. allocated: to tensors; reserved: from the driver. fragmentation_max: the largest share
    of reserved memory that was idle in split blocks, 0 to 1. alloc_retries: requests that succeeded
    only after the cache was emptied."""

    allocated_peak_bytes: Optional[int] = None
    reserved_peak_bytes: Optional[int] = None
    fragmentation_max: Optional[float] = None
    alloc_retries: Optional[int] = None
    ooms: Optional[int] = None


@dataclass(frozen=True)
class Device:
    """A GPU, or a MIG instance (parent is the uuid of its GPU). utilization: means, ratios from 0
    to 1, by name; utilization_lead is the name of the most meaningful one. throttled_s: time with
    reduced clocks, by reason. traffic in bytes and errors as counts, by name; framework by the name
    of the framework ("torch"). allocated: by the scheduler, None where none says so; a device that is not allocated counts only
    if a process of the job was seen on it."""

    index: Optional[int] = None
    cuda_index: Optional[int] = None
    uuid: Optional[str] = None
    parent: Optional[str] = None
    pci: Optional[str] = None
    name: Optional[str] = None
    vendor: Optional[str] = None
    driver: Optional[str] = None
    allocated: Optional[bool] = None
    memory: GpuMemory = field(default_factory=GpuMemory)
    utilization_lead: Optional[str] = None
    utilization: Dict[str, Optional[float]] = field(default_factory=dict)
    energy_j: Optional[float] = None
    energy_source: Optional[str] = None
    power_w: Power = field(default_factory=Power)
    temperature_c: Temperature = field(default_factory=Temperature)
    throttled_s: Dict[str, Optional[float]] = field(default_factory=dict)
    traffic: Dict[str, Optional[int]] = field(default_factory=dict)
    errors: Dict[str, Optional[int]] = field(default_factory=dict)
    processes: List[GpuProcess] = field(default_factory=list)
    framework: Dict[str, FrameworkMemory] = field(default_factory=dict)


@dataclass(frozen=True)
class Gpu:
    """GPU memory of the job, and its devices."""

    main: Peak = field(default_factory=Peak)
    descendants: Peak = field(default_factory=Peak)
    combined: GpuPeak = field(default_factory=GpuPeak)
    devices: List[Device] = field(default_factory=list)


@dataclass(frozen=True)
class Fabric:
    """InfiniBand, RoCE and Slingshot, of the whole node: bytes, errors, and the share of its link rate that the busiest port
    moved in its busier direction."""

    ports: str = ""
    rate_bits_per_s: Optional[int] = None
    rx_bytes: Optional[int] = None
    tx_bytes: Optional[int] = None
    errors: Optional[int] = None
    busiest_mean: Optional[float] = None
    busiest_max: Optional[float] = None


@dataclass(frozen=True)
class Io:
    """Bytes read from storage and written to it."""

    read_bytes: Optional[int] = None
    write_bytes: Optional[int] = None


@dataclass(frozen=True)
class Energy:
    """Energy of the CPUs and of the GPUs, in joules."""

    cpu_j: Optional[float] = None
    gpu_j: Optional[float] = None


@dataclass(frozen=True)
class PhaseEnergy(Energy):
    """Energy of whole devices while the phase was open, in joules. method "sampled": power is
    assumed constant between two reads of a counter. None: unknown, or less than half of the phase
    lay between reads."""

    method: Optional[str] = None


@dataclass(frozen=True)
class Process:
    """A process of the job."""

    pid: int = 0
    name: str = ""
    peak_bytes: Optional[int] = None
    cpu_s: Optional[float] = None
    rank: Optional[int] = None


@dataclass(frozen=True)
class RankUse:
    """A rank of a parallel job whose launcher hiwater started. peak_bytes: of its largest process; cpu_s: of those for which it is known."""

    rank: int = 0
    processes: int = 0
    peak_bytes: Optional[int] = None
    cpu_s: Optional[float] = None


@dataclass(frozen=True)
class Processes:
    """seen: number of processes (seen_at_least: there may have been more); peak_alive: the maximum
    at one sample; left: still running at the end; list: the largest. ranks_started: ranks that a launcher which hiwater started
    states; ranks: those of them that ran here."""

    seen: Optional[int] = None
    seen_at_least: Optional[bool] = None
    peak_alive: Optional[int] = None
    left: Optional[int] = None
    ranks_started: Optional[int] = None
    ranks: List[RankUse] = field(default_factory=list)
    list: List[Process] = field(default_factory=list)  # the last: in this class the name is no longer the type's


@dataclass(frozen=True)
class PhaseRam:
    """RAM of the main process. method: "exact" or "sampled". job_peak_bytes: the sampled peak of
    the whole job."""

    before_bytes: Optional[int] = None
    peak_bytes: Optional[int] = None
    after_bytes: Optional[int] = None
    method: Optional[str] = None
    job_peak_bytes: Optional[int] = None


@dataclass(frozen=True)
class PhaseGpu:
    """Device memory of the job over all devices, sampled. gpu_mean (some kernel ran) and
    sm_active_mean are ratios from 0 to 1, means over the devices on which the job used memory."""

    before_bytes: Optional[int] = None
    peak_bytes: Optional[int] = None
    after_bytes: Optional[int] = None
    method: Optional[str] = None
    gpu_mean: Optional[float] = None
    sm_active_mean: Optional[float] = None


@dataclass(frozen=True)
class PhaseSummary:
    """A phase; end_s None: it was still open. facts: as given to `Run.phase`, numbers as numbers.
    cpu_s: CPU time of the whole job. gpu None: unknown."""

    name: str = ""
    facts: Dict[str, Value] = field(default_factory=dict)
    begin_s: Optional[float] = None
    end_s: Optional[float] = None
    ram: PhaseRam = field(default_factory=PhaseRam)
    cpu_s: Optional[float] = None
    gpu: Optional[PhaseGpu] = None
    energy: PhaseEnergy = field(default_factory=PhaseEnergy)

    @property
    def label(self) -> str:
        """The name with its number, if the first fact has the same name: "epoch 3"."""
        key, value = next(iter(self.facts.items()), (None, None))
        return f"{self.name} {value}" if key == self.name else self.name

    @property
    def wall_s(self) -> Optional[float]:
        """From begin to end; None while it is open."""
        return None if self.begin_s is None or self.end_s is None else self.end_s - self.begin_s

    @property
    def peak_exact(self) -> bool:
        """True if the peak is the kernel's high-water mark of exactly this phase."""
        return self.ram.method == "exact"


@dataclass(frozen=True)
class Series:
    """The values logged under one name. sum is over its numbers; last_step None: the values had no
    steps."""

    n: int = 0
    first: float = float("nan")
    last: float = float("nan")
    min: float = float("nan")
    max: float = float("nan")
    sum: float = 0.0
    last_step: Optional[int] = None


@dataclass(frozen=True)
class Sampling:
    """How hiwater sampled, and its own cost."""

    interval_s: Optional[float] = None
    samples: Optional[int] = None
    late_samples: Optional[int] = None
    skipped_samples: Optional[int] = None
    longest_gap_s: Optional[float] = None
    longest_gap_cause: Optional[str] = None
    cpu_s: Optional[float] = None
    rss_peak_bytes: Optional[int] = None
    gpu_longest_gap_s: Optional[float] = None
    gpu_helper_cpu_s: Optional[float] = None
    gpu_helper_rss_bytes: Optional[int] = None
    where_cpu_s: Optional[float] = None
    where_rss_bytes: Optional[int] = None


@dataclass(frozen=True)
class IncidentProcess:
    """A process, and the memory that it used at the incident, in bytes."""

    pid: int = 0
    name: str = ""
    bytes: Optional[int] = None
    killed: bool = False


@dataclass(frozen=True)
class IncidentPart:
    """A part of a full limit. what: "processes" (of the job), "shmem" (tmpfs and shared memory),
    "page_cache", "kernel" or "others"."""

    what: str = ""
    bytes: Optional[int] = None


@dataclass(frozen=True)
class Toucher:
    """A function, and the memory that it touched first; sigma_bytes is one sigma of bytes, None without samples."""

    function: str = ""
    library: Optional[str] = None
    bytes: int = 0
    sigma_bytes: Optional[int] = None
    samples: int = 0


@dataclass(frozen=True)
class IncidentTouched:
    """The functions that first touched most of the memory at the last high before the incident."""

    at_s: Optional[float] = None
    total_bytes: int = 0
    rows: List[Toucher] = field(default_factory=list)


@dataclass(frozen=True)
class Incident:
    """The incident: memory ran out, or a trigger fired. of: "ram" or "gpu", the kind of memory that
    the amounts refer to. touched_first: where RAM came from, of a run with --where. used_bytes: used by the job at that moment. other_bytes: the peak of
    other processes on its GPUs."""

    event: str = ""
    at_s: Optional[float] = None
    memory: str = "ram"
    used_bytes: Optional[int] = None
    limit_bytes: Optional[int] = None
    requested_bytes: Optional[int] = None
    growing_since_s: Optional[float] = None
    growing_from_bytes: Optional[int] = None
    growth_bytes_per_s: Optional[float] = None
    filled_by: List[IncidentPart] = field(default_factory=list)
    touched_first: Optional[IncidentTouched] = None
    processes: List[IncidentProcess] = field(default_factory=list)
    other_bytes: Optional[int] = None
    remedy: str = ""


@dataclass(frozen=True)
class MarkSummary:
    """A mark: its time in seconds since the start, and its text."""

    time_s: float = 0.0
    text: str = ""


@dataclass(frozen=True)
class Marks:
    """seen: number of marks; list: the last of them, 50 at most."""

    seen: int = 0
    list: List[MarkSummary] = field(default_factory=list)


@dataclass(frozen=True)
class Need:
    """What the runs needed of a resource, without margin and rounding: at least that if the run that
    used it did not finish, more if a limit ended it there. fit: "too little", "about right" or
    "too much" about what was requested, or None."""

    need: Optional[float] = None
    at_least: bool = False
    at_limit: bool = False
    requested: Optional[float] = None
    fit: Optional[str] = None


@dataclass(frozen=True)
class Request:
    """What to request for the next run, from this run and the others of its name or command. line
    is ready for a batch script, basis states the runs and figures behind it. why_not: the reason if
    there is no request. memory, cpu, time and gpu are the needs in bytes, cores, seconds, GPUs."""

    memory_bytes: Optional[int] = None
    cpus: Optional[int] = None
    time_s: Optional[float] = None
    gpus: Optional[int] = None
    gpu_memory_bytes: Optional[int] = None
    runs: int = 0
    runs_succeeded: int = 0
    runs_would_fail: int = 0
    margin: float = 0.2
    quantile: float = 1.0
    memory: Need = field(default_factory=Need)
    cpu: Need = field(default_factory=Need)
    time: Need = field(default_factory=Need)
    gpu: Need = field(default_factory=Need)
    line: Optional[str] = None
    basis: Optional[str] = None
    why_not: Optional[str] = None
    gpus_why_not: Optional[str] = None


@dataclass(frozen=True)
class Finding:
    """A piece of advice with its evidence. severity: "hint", "warn" or "error"."""

    code: str = ""
    severity: str = ""
    message: Optional[str] = None
    evidence: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Note:
    """The reason for an unknown figure."""

    about: str = ""
    why: str = ""


@dataclass(frozen=True)
class TracedName:
    """A kernel or a range with much of the time."""

    name: str = ""
    count: int = 0
    total_s: Optional[float] = None


@dataclass(frozen=True)
class TracedDevice:
    """A GPU as one process saw it. busy_s is the union of its kernels and copies in traced_s; kernels_s the
    sum of its kernels; memory_peak_bytes what calls of the process had allocated at once."""

    gpu: int = -1
    name: Optional[str] = None
    traced_s: Optional[float] = None
    busy_s: Optional[float] = None
    kernel_s: Optional[float] = None
    copy_s: Optional[float] = None
    gaps: int = 0
    longest_gap_s: Optional[float] = None
    longest_gap_at_s: Optional[float] = None
    kernels: int = 0
    kernels_s: Optional[float] = None
    launches: int = 0
    launches_s: Optional[float] = None
    syncs: int = 0
    syncs_s: Optional[float] = None
    copied_bytes: int = 0
    pageable_bytes: int = 0
    memory_peak_bytes: Optional[int] = None
    memory_peak_at_s: Optional[float] = None


@dataclass(frozen=True)
class TracedFailure:
    """A call of a GPU's driver that found no memory, or the first one after which nothing else worked: when that was
    first, and how many equal ones were marked."""

    text: str
    at_s: Optional[float] = None
    count: int = 1


@dataclass(frozen=True)
class Trace:
    """A traced run in a few figures (`hiwater trace` has all). lost: events that are in no sum."""

    processes: int = 0
    events: int = 0
    invalid: int = 0
    lost: int = 0
    probe_bytes: Optional[int] = None
    devices: List[TracedDevice] = field(default_factory=list)
    kernels: List[TracedName] = field(default_factory=list)
    ranges: List[TracedName] = field(default_factory=list)
    failures: List[TracedFailure] = field(default_factory=list)


@dataclass(frozen=True)
class Where:
    """Where the memory at the peak came from (`hiwater where` has all). rows: the functions with the most memory;
    peak_bytes is the sum of all functions and of unsampled_bytes, files_bytes and before_bytes."""

    peak_bytes: int = 0
    unsampled_bytes: int = 0
    files_bytes: int = 0
    before_bytes: int = 0
    functions: int = 0
    samples: int = 0
    lost: int = 0
    rows: List[Toucher] = field(default_factory=list)


@dataclass(frozen=True)
class RunId:
    """Identity of the run. complete: its end was recorded."""

    id: Optional[str] = None
    name: Optional[str] = None
    note: Optional[str] = None
    recording: Optional[str] = None
    complete: bool = False


@dataclass(frozen=True, repr=False)
class Summary:
    """The summary of a run. str() is the text that the command prints, `to_json` its JSON, repr() a
    short table, which a notebook shows for a last line `run.summary`. Names end in their unit
    (`_bytes`, `_s` seconds, `_j` joules); None is unknown; `method` states how a figure was
    obtained.

    run, command, host, started, exit    identity, command line, host name, start (UTC), exit status
    time, ram, swap, io, energy          of all processes; ram.combined, .main, .descendants
    gpu          devices and the job's use of them; None: no GPU found (notes state the reason)
    processes    number, and the largest
    phases       a list, ordered by start
    series       logged values, by name: n, first, last, min, max, sum
    marks        number, and the last of them: time_s, text
    where        functions that first touched the memory at the peak; None: it was not sampled
    trace        kernels, copies and ranges of a traced run; None: it was not traced
    sampling     number and intervals of samples, and the cost of hiwater
    incident     the incident: memory ran out, or a trigger fired; None: there was none
    request      what to request for the next run: memory_bytes, cpus, time_s, gpus, line, basis
    findings, notes    advice; figures that could not be measured, and the reasons
    """

    hiwater: str = ""
    run: RunId = field(default_factory=RunId)
    command: List[str] = field(default_factory=list)
    host: Optional[str] = None
    started: Optional[str] = None
    exit: Exit = field(default_factory=Exit)
    time: Time = field(default_factory=Time)
    ram: RamOfAll = field(default_factory=RamOfAll)
    gpu: Optional[Gpu] = None
    io: Io = field(default_factory=Io)
    fabric: Optional[Fabric] = None
    energy: Energy = field(default_factory=Energy)
    swap: Peak = field(default_factory=Peak)
    processes: Processes = field(default_factory=Processes)
    phases: List[PhaseSummary] = field(default_factory=list)
    series: Dict[str, Series] = field(default_factory=dict)
    marks: Marks = field(default_factory=Marks)
    where: Optional[Where] = None
    trace: Optional[Trace] = None
    sampling: Sampling = field(default_factory=Sampling)
    incident: Optional[Incident] = None
    request: Request = field(default_factory=Request)
    findings: List[Finding] = field(default_factory=list)
    notes: List[Note] = field(default_factory=list)
    _json: str = field(default="", repr=False, compare=False)
    _text: str = field(default="", repr=False, compare=False)

    @classmethod
    def from_json(cls, text: str, as_text: str = "") -> Summary:
        """Parses the output of `hiwater show --json`; str() returns as_text. Raises Error if it is
        not such a summary."""
        try:
            data = json.loads(text)
        except ValueError as e:
            raise Error(f"not a summary: invalid JSON: {e}") from e
        schema = data.get("schema") if isinstance(data, dict) else None
        if schema != SCHEMA:
            raise Error("not a summary of `hiwater show --json`: the key schema is missing" if schema is None else
                        f"this summary has schema {schema!r:.40}, and this package reads {SCHEMA}: use the hiwater that wrote it")
        made: Summary = _made(cls, {**data, "request": _request(data), "_json": text, "_text": as_text})
        return made

    @classmethod
    def without_values(cls, why: str) -> Summary:
        """The summary of a run that was not measured."""
        return cls.from_json(json.dumps({"schema": SCHEMA, "notes": [{"about": about, "why": why} for about in ("run", "request")]}), why)

    def to_json(self) -> str:
        """The JSON that the command writes (docs/summary.schema.json)."""
        return self._json

    def to_dict(self) -> Dict[str, Any]:
        """The same as a dict; NaN and infinities are strings in it."""
        made: Dict[str, Any] = json.loads(self._json)
        return made

    def __str__(self) -> str:
        return self._text.rstrip("\n")

    def __repr__(self) -> str:
        from ._short import text

        return text(self)

    def _repr_html_(self) -> str:
        from ._short import html

        return html(self)

    @property
    def ram_peak_bytes(self) -> Optional[int]:
        """Peak memory of main and its descendants at one instant, in bytes, with shared pages
        counted once."""
        return self.ram.combined.peak_bytes

    @property
    def gpu_peak_bytes(self) -> Optional[int]:
        """Peak GPU memory of the job at one instant, in bytes, over all devices."""
        return self.gpu.combined.peak_bytes if self.gpu else None

    @property
    def wall_s(self) -> Optional[float]:
        """Seconds from the start of the run to its end."""
        return self.time.wall_s

    @property
    def cpu_s(self) -> Optional[float]:
        """CPU time of all processes in seconds, user and system."""
        if self.time.user_s is None or self.time.system_s is None:
            return None
        return self.time.user_s + self.time.system_s

    @property
    def data_wait_s(self) -> Optional[float]:
        """Seconds that the program waited for its data loader (`Run.wrap_loader`, callbacks); None
        if not measured."""
        waits = self.series.get("data_wait")
        return waits.sum if waits else None


# ---- from JSON -----------------------------------------------------------------------------------------------------------

def _request(data: Dict[str, Any]) -> Dict[str, Any]:
    """The request; where none was made, one with the reason alone."""
    made: Dict[str, Any] = data.get("request") or {
        "why_not": next((note.get("why") for note in data.get("notes") or [] if note.get("about") == "request"), None)}
    return made


_NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def _fact(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _made(kind: Any, value: Any) -> Any:
    """Converts a JSON value to kind. Unknown keys are ignored, missing ones get their defaults."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if value is None or kind is Any:
        return value
    if origin is Union and type(None) in arguments:
        return _made(next(a for a in arguments if a is not type(None)), value)
    if origin is list:
        return [_made(arguments[0], item) for item in value]
    if origin is dict:
        return {key: _made(arguments[1], item) for key, item in value.items()}
    if kind == Value:
        return _fact(value)
    if kind is float:
        return _NOT_FINITE[value] if isinstance(value, str) else float(value)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        types = _types(kind)
        make: Any = kind
        return make(**{name: _made(types[name], item) for name, item in _named(types, value)})
    return value


def _named(types: Dict[str, Any], value: Dict[str, Any]) -> Iterator[Tuple[str, Any]]:
    """(field, value) of the known keys; a key that is a Python keyword has a field with _
    appended."""
    for key, item in value.items():
        name = key + "_" if key + "_" in types else key
        if name in types:
            yield name, item


_known_types: Dict[Any, Dict[str, Any]] = {}


def _types(kind: Any) -> Dict[str, Any]:
    """The types of the fields of a dataclass. Names resolve in this module, not among the fields:
    one of these is called list."""
    if kind not in _known_types:
        _known_types[kind] = typing.get_type_hints(kind, globals(), {})
    return _known_types[kind]

# SPDX-License-Identifier: MIT
"""What a run used, typed. Names end with their units; None is unknown, and `notes` says why. The fields are those of
docs/summary.schema.json; amounts are bytes, seconds, joules, watts, degrees Celsius, ratios from 0 to 1."""
from __future__ import annotations

import dataclasses
import json
import typing
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

from ._errors import Error

SCHEMA = 1
Value = Union[str, int, float]


@dataclass(frozen=True)
class Exit:
    """Of the main process, as a shell has it; None where it was not this recorder's to wait for."""

    code: Optional[int] = None
    signal: Optional[int] = None
    oom_killed: bool = False


@dataclass(frozen=True)
class Time:
    """Wall time, and processor time of main and its descendants. `main_wall_s` is less than `wall_s` where the run was followed
    beyond the end of its main process."""

    wall_s: Optional[float] = None
    main_wall_s: Optional[float] = None
    user_s: Optional[float] = None
    system_s: Optional[float] = None


@dataclass(frozen=True)
class Peak:
    """The most at one instant."""

    peak_bytes: Optional[int] = None


@dataclass(frozen=True)
class Ram:
    """low_bytes <= peak_bytes <= high_bytes. method is "exact" (the kernel's own mark), "bounded", "sampled" (at least this)
    or None."""

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
    """What the kernel charged to a cgroup that the job has to itself, with page cache and kernel memory. method: "exact" is the
    kernel's mark, "sampled" the largest charge that was seen, where the mark is higher from before the run."""

    peak_bytes: Optional[int] = None
    method: Optional[str] = None
    limit_bytes: Optional[int] = None
    oom_kills: Optional[int] = None


@dataclass(frozen=True)
class Hugetlb:
    """Reserved huge pages, which are in no other figure, summed over the processes: pages that several map count for each.
    method: "sampled", "bounded" (of several processes: at most so much) or None."""

    peak_bytes: Optional[int] = None
    method: Optional[str] = None


@dataclass(frozen=True)
class RamOfAll:
    """main is the process that was tracked, descendants what it started, combined all at one instant, shared pages once."""

    capacity_bytes: Optional[int] = None
    limit_bytes: Optional[int] = None
    system: Peak = field(default_factory=Peak)
    main: Ram = field(default_factory=Ram)
    descendants: Ram = field(default_factory=Ram)
    combined: Ram = field(default_factory=Ram)
    hugetlb: Hugetlb = field(default_factory=Hugetlb)
    cgroup: Optional[Cgroup] = None


@dataclass(frozen=True)
class GpuPeak:
    """The most GPU memory that the job held at one instant, over all devices."""

    peak_bytes: Optional[int] = None
    method: Optional[str] = None


@dataclass(frozen=True)
class GpuMemory:
    """peak_bytes: in use on the device, whoever held it; job_*: what the job's processes held; unattributed: nobody's who can
    be seen; reserved: the driver's own. unified: it shares the host's memory."""

    total_bytes: Optional[int] = None
    peak_bytes: Optional[int] = None
    mean_bytes: Optional[int] = None
    job_peak_bytes: Optional[int] = None
    job_mean_bytes: Optional[int] = None
    method: Optional[str] = None
    foreign_peak_bytes: Optional[int] = None
    unattributed_peak_bytes: Optional[int] = None
    reserved_bytes: Optional[int] = None
    unified: bool = False


@dataclass(frozen=True)
class Power:
    """Watts. module: those of a whole module, processors included."""

    mean: Optional[float] = None
    max: Optional[float] = None
    limit: Optional[float] = None
    module: bool = False


@dataclass(frozen=True)
class Temperature:
    """Degrees Celsius."""

    max: Optional[float] = None
    memory_max: Optional[float] = None


@dataclass(frozen=True)
class GpuProcess:
    """job: one of the job's. busy_mean: a ratio from 0 to 1."""

    pid: Optional[int] = None
    name: Optional[str] = None
    job: bool = False
    uid: Optional[int] = None
    peak_bytes: Optional[int] = None
    mean_bytes: Optional[int] = None
    method: Optional[str] = None
    busy_mean: Optional[float] = None


@dataclass(frozen=True)
class FrameworkMemory:
    """What a framework's allocator said of a device; the driver's figures are beside it, in `GpuMemory`. allocated: given out
    to tensors; reserved: held from the driver. fragmentation_max: the largest share of what was reserved that lay idle in
    pieces of split blocks, 0 to 1. alloc_retries: requests that succeeded only once the cache was emptied."""

    allocated_peak_bytes: Optional[int] = None
    reserved_peak_bytes: Optional[int] = None
    fragmentation_max: Optional[float] = None
    alloc_retries: Optional[int] = None
    ooms: Optional[int] = None


@dataclass(frozen=True)
class Device:
    """A GPU, or a MIG instance (parent is the uuid of its GPU). utilization: means, ratios from 0 to 1, by name;
    utilization_lead is the name that says most. throttled_s: time in which clocks were held back, by reason. traffic in bytes,
    errors as counts, by name; framework by its name ("torch")."""

    index: Optional[int] = None
    cuda_index: Optional[int] = None
    uuid: Optional[str] = None
    parent: Optional[str] = None
    pci: Optional[str] = None
    name: Optional[str] = None
    vendor: Optional[str] = None
    driver: Optional[str] = None
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
    """The job's GPUs."""

    main: Peak = field(default_factory=Peak)
    descendants: Peak = field(default_factory=Peak)
    combined: GpuPeak = field(default_factory=GpuPeak)
    devices: List[Device] = field(default_factory=list)


@dataclass(frozen=True)
class Io:
    """Fetched from storage and sent to it."""

    read_bytes: Optional[int] = None
    write_bytes: Optional[int] = None


@dataclass(frozen=True)
class Energy:
    """In joules: of the processors, of the GPUs."""

    cpu_j: Optional[float] = None
    gpu_j: Optional[float] = None


@dataclass(frozen=True)
class PhaseEnergy(Energy):
    """In joules, while the phase was open, whoever used it. method "sampled": between two readings of a counter the power is
    taken as even. None: nobody knows, or less than half of the phase lay between readings."""

    method: Optional[str] = None


@dataclass(frozen=True)
class Process:
    """A process of the job."""

    pid: int = 0
    name: str = ""
    peak_bytes: Optional[int] = None
    cpu_s: Optional[float] = None


@dataclass(frozen=True)
class Processes:
    """seen: how many there were (seen_at_least: or more); peak_alive: most that a look found at one instant; left: lived on at the end;
    list: the largest."""

    seen: Optional[int] = None
    seen_at_least: Optional[bool] = None
    peak_alive: Optional[int] = None
    left: Optional[int] = None
    list: List[Process] = field(default_factory=list)


@dataclass(frozen=True)
class PhaseRam:
    """Of the main process. method: "exact" or "sampled". job_peak_bytes: of the whole job at one instant, sampled."""

    before_bytes: Optional[int] = None
    peak_bytes: Optional[int] = None
    after_bytes: Optional[int] = None
    method: Optional[str] = None
    job_peak_bytes: Optional[int] = None


@dataclass(frozen=True)
class PhaseGpu:
    """Device memory that the job held, over all devices, sampled; gpu_mean (some kernel ran) and sm_active_mean are ratios from
    0 to 1, means over the devices that it held memory on."""

    before_bytes: Optional[int] = None
    peak_bytes: Optional[int] = None
    after_bytes: Optional[int] = None
    method: Optional[str] = None
    gpu_mean: Optional[float] = None
    sm_active_mean: Optional[float] = None


@dataclass(frozen=True)
class PhaseSummary:
    """A phase; end_s None: it was still open. facts: what was given with it, numbers as such. cpu_s: processor
    time of the whole job. gpu None: nothing is known."""

    name: str = ""
    facts: Dict[str, Value] = field(default_factory=dict)
    begin_s: Optional[float] = None
    end_s: Optional[float] = None
    ram: PhaseRam = field(default_factory=PhaseRam)
    cpu_s: Optional[float] = None
    gpu: Optional[PhaseGpu] = None
    energy: PhaseEnergy = field(default_factory=PhaseEnergy)

    @property
    def wall_s(self) -> Optional[float]:
        """From begin to end; None while it is open."""
        return None if self.begin_s is None or self.end_s is None else self.end_s - self.begin_s

    @property
    def peak_exact(self) -> bool:
        """Is the peak the kernel's own mark of just this phase?"""
        return self.ram.method == "exact"


@dataclass(frozen=True)
class Series:
    """What was logged under one name. sum is over its numbers; last_step None: values came without steps."""

    n: int = 0
    first: float = float("nan")
    last: float = float("nan")
    min: float = float("nan")
    max: float = float("nan")
    sum: float = 0.0
    last_step: Optional[int] = None


@dataclass(frozen=True)
class Sampling:
    """What hiwater saw, and what it cost."""

    interval_s: Optional[float] = None
    ticks: Optional[int] = None
    late_ticks: Optional[int] = None
    longest_gap_s: Optional[float] = None
    cpu_s: Optional[float] = None
    rss_peak_bytes: Optional[int] = None
    gpu_longest_gap_s: Optional[float] = None
    gpu_helper_cpu_s: Optional[float] = None
    gpu_helper_rss_bytes: Optional[int] = None


@dataclass(frozen=True)
class StoryProcess:
    """A process, and how much it held when it happened."""

    pid: int = 0
    name: str = ""
    bytes: Optional[int] = None
    killed: bool = False


@dataclass(frozen=True)
class Story:
    """What happened to the run, of the moment at which memory ran out or a trigger came. of: "ram" or "gpu", whose
    memory the amounts are of. held_bytes: by the job then. foreign_bytes: by others on its GPUs at the most."""

    what: str = ""
    at_s: Optional[float] = None
    of: str = "ram"
    held_bytes: Optional[int] = None
    limit_bytes: Optional[int] = None
    requested_bytes: Optional[int] = None
    growing_since_s: Optional[float] = None
    growing_from_bytes: Optional[int] = None
    growth_bytes_per_s: Optional[float] = None
    processes: List[StoryProcess] = field(default_factory=list)
    foreign_bytes: Optional[int] = None
    try_: str = ""  # "try" in JSON: what to do


@dataclass(frozen=True)
class MarkSummary:
    """A mark: when, since the start, and its text."""

    time_s: float = 0.0
    text: str = ""


@dataclass(frozen=True)
class Marks:
    """seen: how many marks there were; list: the last of them, 50 at most."""

    seen: int = 0
    list: List[MarkSummary] = field(default_factory=list)


@dataclass(frozen=True)
class Finding:
    """A piece of advice with its evidence. severity: "hint", "warn" or "error"."""

    code: str = ""
    severity: str = ""
    message: Optional[str] = None
    evidence: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Note:
    """Why something is unknown."""

    about: str = ""
    why: str = ""


@dataclass(frozen=True)
class RunId:
    """complete: its end was recorded."""

    id: Optional[str] = None
    name: Optional[str] = None
    recording: Optional[str] = None
    complete: bool = False


@dataclass(frozen=True)
class Summary:
    """What a run used. str() is the text that the command prints, `to_json` what it writes for programs. Names end in their unit
    (`_bytes`, `_s` seconds, `_j` joules); None is unknown; `method` says how a figure was had.

    run, command, host, started, exit    which run, of what, where, since when (UTC), how it ended
    time, ram, swap, io, energy          of all processes; ram.combined, .main, .descendants
    gpu          devices and what the job held on them; None: no GPU was seen (notes say why)
    processes    how many, and the largest
    phases       a list, in the order of their beginning
    series       what was logged, by name: n, first, last, min, max, sum
    marks        how many were set, and the last of them: time_s, text
    sampling     how often was looked, and what that cost
    story        of the moment at which memory ran out or a trigger came; None: there was none
    findings, notes    what to do better; what could not be measured, and why
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
    energy: Energy = field(default_factory=Energy)
    swap: Peak = field(default_factory=Peak)
    processes: Processes = field(default_factory=Processes)
    phases: List[PhaseSummary] = field(default_factory=list)
    series: Dict[str, Series] = field(default_factory=dict)
    marks: Marks = field(default_factory=Marks)
    sampling: Sampling = field(default_factory=Sampling)
    story: Optional[Story] = None
    findings: List[Finding] = field(default_factory=list)
    notes: List[Note] = field(default_factory=list)
    _json: str = field(default="", repr=False, compare=False)
    _text: str = field(default="", repr=False, compare=False)

    @classmethod
    def from_json(cls, text: str, as_text: str = "") -> Summary:
        """From what `hiwater show --json` writes; as_text is what str() gives. Raises Error for what is no such summary."""
        try:
            data = json.loads(text)
        except ValueError as e:
            raise Error(f"this is no summary, since it is no JSON: {e}") from e
        schema = data.get("schema") if isinstance(data, dict) else None
        if schema != SCHEMA:
            raise Error("this is no summary as `hiwater show --json` writes it: it has no schema" if schema is None else
                        f"this summary has schema {schema!r:.40}, and this package reads {SCHEMA}: use the hiwater that wrote it")
        made: Summary = _made(cls, {**data, "_json": text, "_text": as_text})
        return made

    def to_json(self) -> str:
        """docs/summary.schema.json, as the command writes it."""
        return self._json

    def to_dict(self) -> Dict[str, Any]:
        """The same as a dict; NaN and infinities are texts in it."""
        made: Dict[str, Any] = json.loads(self._json)
        return made

    def __str__(self) -> str:
        return self._text.rstrip("\n")

    @property
    def ram_peak_bytes(self) -> Optional[int]:
        """The most that main and its descendants held at one instant, shared pages once."""
        return self.ram.combined.peak_bytes

    @property
    def gpu_peak_bytes(self) -> Optional[int]:
        """The most GPU memory that they held at one instant, over all devices."""
        return self.gpu.combined.peak_bytes if self.gpu else None

    @property
    def wall_s(self) -> Optional[float]:
        """Seconds from its start to its end."""
        return self.time.wall_s

    @property
    def cpu_s(self) -> Optional[float]:
        """Processor time of all of them in seconds, user and system."""
        if self.time.user_s is None or self.time.system_s is None:
            return None
        return self.time.user_s + self.time.system_s

    @property
    def data_wait_s(self) -> Optional[float]:
        """How many seconds the program waited for its loader (`Run.wrap_loader`); None: nothing tells."""
        waits = self.series.get("data_wait")
        return waits.sum if waits else None


# ---- from JSON -----------------------------------------------------------------------------------------------------------

_NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def _fact(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _made(kind: Any, value: Any) -> Any:
    """value, out of JSON, as kind. Keys that are not known here are left out, those that are missing have their defaults."""
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
    """Keys as fields: a word of Python's own has a _ behind it."""
    for key, item in value.items():
        name = key + "_" if key + "_" in types else key
        if name in types:
            yield name, item


_known_types: Dict[Any, Dict[str, Any]] = {}


def _types(kind: Any) -> Dict[str, Any]:
    """Of its fields. Names are looked up here, not among the fields: one of them is called list."""
    if kind not in _known_types:
        _known_types[kind] = typing.get_type_hints(kind, globals(), {})
    return _known_types[kind]

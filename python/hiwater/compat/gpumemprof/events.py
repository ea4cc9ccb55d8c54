# SPDX-License-Identifier: MIT
"""Conversion of the raw events of the list (in hiwater's C extension) to the events that programs
see.

Texts and percentages are made from the figures; facts that these do not have (a phase, an error)
are stored with the event, as a line of JSON."""
from __future__ import annotations

import bisect
import json
from dataclasses import asdict, dataclass
from typing import Any, Callable, Dict, Generic, List, Optional, Sequence, Tuple, TypeVar

from .device_collectors import DeviceMemorySample
from .utils import format_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    RawEvent = Tuple[int, int, int, int, int, Optional[int], Tuple[Optional[int], ...], Optional[str]]

T = TypeVar("T")

# The series of the list, in order.
SERIES = ("allocated", "reserved", "active", "inactive", "used", "free", "total")
ALLOCATED, RESERVED, ACTIVE, INACTIVE, USED, FREE, TOTAL = range(7)

# Kinds of events: those that the list makes (hwi_push_kind), then those noted here.
SAMPLE, ALLOCATION, DEALLOCATION, PEAK, ALERT = range(5)
START, STOP, ERROR, CLEANUP, PHASE_ENTER, PHASE_EXIT, DEGRADED, RECOVERED, OTHER = range(8, 17)
KINDS = {
    "sample": SAMPLE, "allocation": ALLOCATION, "deallocation": DEALLOCATION, "peak": PEAK, "start": START, "stop": STOP,
    "error": ERROR, "cleanup": CLEANUP, "phase_enter": PHASE_ENTER, "phase_exit": PHASE_EXIT,
    "collector_degraded": DEGRADED, "collector_recovered": RECOVERED,
}
TYPES = {kind: name for name, kind in KINDS.items()}
ALERT_TYPES = ("warning", "critical", "error")

# Rules of the list, by number.
CRITICAL, WARNING, LEAK, FRAGMENTED = range(4)


@dataclass
class TrackingEvent:
    """An event; sizes in bytes, timestamp in seconds since 1970. memory_change: difference to the
    previous sample."""

    timestamp: float
    event_type: str
    memory_allocated: Optional[int]
    memory_reserved: Optional[int]
    memory_change: Optional[int]
    device_id: int
    context: Optional[str] = None
    metadata: Optional[Dict[str, Any]] = None
    active_memory: Optional[int] = None
    inactive_memory: Optional[int] = None
    device_used: Optional[int] = None
    device_free: Optional[int] = None
    device_total: Optional[int] = None
    backend: str = "cuda"
    session_id: Optional[str] = None
    job_id: Optional[str] = None
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1


def event_payload(event: TrackingEvent) -> Dict[str, Any]:
    """The event as a dict for JSON."""
    return {**asdict(event), "metadata": dict(event.metadata or {})}


def values_of(sample: DeviceMemorySample, total: Optional[int]) -> Tuple[Optional[int], ...]:
    """The values of a sample in the order of SERIES."""
    return (sample.allocated_bytes, sample.reserved_bytes, sample.active_bytes, sample.inactive_bytes, sample.used_bytes,
            sample.free_bytes, sample.total_bytes if sample.total_bytes is not None else total)


class Timed(Generic[T]):
    """Values that are valid from a time on until the next one. Keeps the last MOST."""

    MOST = 1000

    def __init__(self) -> None:
        self._times: List[int] = []
        self._values: List[T] = []

    def add(self, time_ns: int, value: T) -> None:
        self._times.append(time_ns)
        self._values.append(value)
        if len(self._times) > self.MOST:
            del self._times[0], self._values[0]

    def replace_last(self, value: T) -> None:
        self._values[-1] = value

    def at(self, time_ns: int) -> Optional[T]:
        """The value at a time; the first value for earlier times."""
        place = bisect.bisect_right(self._times, time_ns)
        return self._values[max(place - 1, 0)] if self._values else None

    @property
    def last(self) -> Optional[T]:
        return self._values[-1] if self._values else None


# ---- texts ---------------------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Words:
    """Templates for the texts of events, each formatted with the text of a size."""

    peak: str
    allocation: str
    deallocation: str
    sample: str
    size: Callable[[int], str] = format_bytes


GPU_WORDS = Words("New peak memory: {}", "Memory allocated: {}", "Memory freed: {}", "Collected telemetry sample.")


def _ratio(values: Sequence[Optional[int]], of: int, by: int) -> float:
    above, below = values[of], values[by]
    return above / below if above is not None and below else 0.0


def _alert(rule: int, change: Optional[int], values: Sequence[Optional[int]], of: int) -> Tuple[str, str, Dict[str, Any]]:
    if rule in (CRITICAL, WARNING):
        kind = "critical" if rule == CRITICAL else "warning"
        percent = _ratio(values, of, TOTAL) * 100
        return kind, f"{kind.upper()}: Memory usage at {percent:.1f}%", {"usage_percent": percent}
    if rule == LEAK:
        return "warning", f"Large allocation detected: {format_bytes(change or 0)}", {"large_allocation": True}
    share = _ratio(values, INACTIVE, RESERVED)
    return "warning", f"High fragmentation: {share:.1%}", {"fragmentation": share}


def unpacked_event(raw: RawEvent, words: Words, usage_of: int) -> Tuple[str, str, Dict[str, Any], Optional[int]]:
    """Type, context, metadata and change of a raw event. usage_of: usage is the share of this
    series in the total."""
    _, kind, rule, _, _, change, values, text = raw
    if kind == ALERT:
        return (*_alert(rule, change, values, usage_of), change)
    if kind == SAMPLE:
        return "sample", words.sample, {}, change
    if kind == PEAK:
        return "peak", words.peak.format(words.size(values[ALLOCATED] or 0)), {}, change
    if kind in (ALLOCATION, DEALLOCATION):
        template = words.allocation if kind == ALLOCATION else words.deallocation
        return TYPES[kind], template.format(words.size(abs(change or 0))), {}, change
    note = unpacked(text)
    return str(note.get("type", TYPES.get(kind, "other"))), str(note.get("context", "")), dict(note.get("metadata") or {}), \
        note.get("change", change)


def packed(context: str, metadata: Optional[Dict[str, Any]], change: Optional[int], kind: Optional[str]) -> str:
    """The text that the list stores with a noted event."""
    note: Dict[str, Any] = {"context": context}
    if metadata:
        note["metadata"] = metadata
    if change:
        note["change"] = change
    if kind is not None:
        note["type"] = kind
    text = json.dumps(note, default=str)
    if len(text) >= TEXT_MOST:  # the list would truncate it
        text = json.dumps({**note, "context": context[:1000], "metadata": {"left_out": f"{len(text)} bytes of metadata"}})
    return text


def unpacked(text: Optional[str]) -> Dict[str, Any]:
    if not text:
        return {}
    note: Dict[str, Any] = json.loads(text)
    return note


TEXT_MOST = 16384

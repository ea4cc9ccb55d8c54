# SPDX-License-Identifier: MIT
"""The common part of MemoryTracker and CPUMemoryTracker: the list of events (in hiwater's C
extension), the sampling thread, phases, sessions, files. A subclass provides the samples."""
from __future__ import annotations

import csv
import json
import logging
import os
import socket
import threading
import time
import weakref
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, TypeVar

from ..._native import Pushes
from . import session as sessions
from ._evidence import Evidence
from .collector_health import CollectorHealthState
from .device_collectors import DeviceMemoryCapabilities, DeviceMemorySample
from .events import (ALERT, ALERT_TYPES, ALLOCATED, ERROR, FREE, GPU_WORDS, INACTIVE, KINDS, OTHER, RESERVED, SAMPLE, SERIES,
                     START, TOTAL, USED, Timed, TrackingEvent, Words, packed, unpacked_event, values_of)
from .phases import PhaseHandle, PhaseRecorder, PhaseToken
from .session import SessionSummary
from .telemetry import (SCHEMA_VERSION_V2, SCHEMA_VERSION_V4, TelemetryEvent, TelemetryEventV2, TelemetryEventV4,
                        resolve_distributed_identity, telemetry_event_to_dict)
from .telemetry_sink import AppendOnlyTelemetrySink, TelemetrySinkConfig, no_diagnostics

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .events import RawEvent

log = logging.getLogger(__name__)

Tracker = TypeVar("Tracker", bound="Tracking")

ALERT_KINDS = 1 << ALERT | 1 << ERROR | 1 << OTHER
BACKOFF_S = 1.0        # after an exception in the loop
STOP_LIMIT_S = 5.0
ROUNDING_NS = 1000     # rounding error of a time as a float


class Tracking:
    """Samples in a thread from start_tracking to stop_tracking. All methods may be called from any
    thread.

    In a forked child it tracks nothing and does not touch the files of the parent; phases are
    accepted and have no effect. start_tracking in the child samples the child, without a sink."""

    words: Words = GPU_WORDS
    usage_of = ALLOCATED           # usage is the share of this series in the total
    thread_name = "hiwater-memory-tracker"
    session_source = "gpumemprof.tracker"
    started_text = "Memory tracking started"
    stopped_text = "Memory tracking stopped"
    backend = "cuda"
    collector_capabilities: DeviceMemoryCapabilities

    def __init__(self, sampling_interval: float, max_events: int, enable_alerts: bool, capacity: int,
                 identity: Mapping[str, Any], sink: Optional[TelemetrySinkConfig]) -> None:
        if not sampling_interval > 0:
            raise ValueError("sampling_interval must be > 0")
        if max_events < 1:
            raise ValueError("max_events must be >= 1")
        self.sampling_interval = sampling_interval
        self.max_events = max_events
        self.enable_alerts = enable_alerts
        self.is_tracking = False
        self.total_memory = 0
        self.distributed_identity = resolve_distributed_identity(**identity, env=os.environ)
        self.telemetry_schema_version = SCHEMA_VERSION_V2
        if sink is not None or any(value is not None for value in identity.values()):
            self.telemetry_schema_version = SCHEMA_VERSION_V4
        self._capacity = max(capacity, max_events)
        self._list = Pushes(SERIES, self._capacity, ratios=(("usage", self.usage_of, TOTAL), ("fragmentation", INACTIVE, RESERVED)),
                            changes=True, samples=True, every=True, whole=True)
        self._rules: Optional[List[str]] = None
        self._lock = threading.RLock()      # held while starting and stopping
        self._thread: Optional[threading.Thread] = None
        self._stop = threading.Event()
        self._started_at: Optional[float] = None
        self._last_check: float = 0
        self._other_alerts = 0
        self._highest = 0  # largest allocated size; a new one is recorded at once
        self._last_sample: Optional[DeviceMemorySample] = None
        self._device_id = 0
        self._sessions: Timed[SessionSummary] = Timed()
        self._healths: Timed[CollectorHealthState] = Timed()
        self._phases = PhaseRecorder()
        self._sink_config = sink
        self._sink: Optional[AppendOnlyTelemetrySink] = AppendOnlyTelemetrySink(sink) if sink is not None else None
        self._sink_diagnostics = no_diagnostics()
        self._evidence = Evidence(self._series_prefix())
        self._pid = os.getpid()
        _trackers.add(self)

    # ---- overridden by subclasses

    def _series_prefix(self) -> str:
        raise NotImplementedError

    def _sample(self) -> Optional[DeviceMemorySample]:
        """Reads a sample; None if it is not available. Does not raise."""
        raise NotImplementedError

    def _read_once(self) -> None:
        """One iteration of the sampling loop."""
        sample = self._sample()
        if sample is not None:
            self._push(sample)

    def _rule_texts(self) -> List[str]:
        """Rules of the list, in the order of CRITICAL, WARNING and so on."""
        return []

    def _alerted(self, event: TrackingEvent) -> None:
        """Called with each alert event."""

    # ---- start and stop

    def start_tracking(self) -> None:
        """Starts the sampling thread. Earlier events and statistics are kept; while it tracks, this
        does nothing."""
        with self._lock:
            if self.is_tracking:
                return
            self._pid = os.getpid()
            self._phases.reset()
            self._stop = threading.Event()
            self._started_at = time.time()
            self._open_session()
            self._evidence.begin(f"gpumemprof {self._series_prefix()}")
            sample = self._sample()
            self._remember(sample)
            self._list.begin(*self._pushed_values(sample or self._nothing()))
            self.is_tracking = True
            self._note("start", self.started_text, sample=sample)
            self._thread = threading.Thread(target=self._loop, args=(self._stop,), name=self.thread_name, daemon=True)
            self._thread.start()

    def stop_tracking(self) -> None:
        """Reads a last sample and stops. Raises TimeoutError if the thread is stuck in a read;
        tracking then continues."""
        with self._lock:
            if not self.is_tracking:
                return
            self._stop.set()
            if self._thread is not None and self._thread is not threading.current_thread():
                self._thread.join(STOP_LIMIT_S)
                if self._thread.is_alive():
                    raise TimeoutError(f"Memory tracking thread did not stop within {STOP_LIMIT_S} seconds")
            self._read_safely()
            self._list.end()
            self.is_tracking = False
            self._note("stop", self.stopped_text)
            self._close_sink(sessions.SESSION_STATUS_COMPLETED)
            current = self._sessions.last
            if current is not None:
                self._sessions.replace_last(sessions.ended(current))
            self._evidence.end()

    def _forget(self) -> None:
        """In a forked process: thread, session and files belong to the parent, and a lock may be
        owned by a thread that does not exist here."""
        if self.is_tracking:
            self._list.end()
        self.is_tracking = False
        self._lock = threading.RLock()
        self._thread = None
        self._stop = threading.Event()
        self._phases = PhaseRecorder()
        self._sink = self._sink_config = None
        self._evidence.forget()

    def __enter__(self: Tracker) -> Tracker:
        self.start_tracking()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_tracking()

    def _loop(self, stop: threading.Event) -> None:
        while not stop.wait(self.sampling_interval):
            if not self._read_safely():
                stop.wait(BACKOFF_S)
            self._with_sink("flush", lambda sink: sink.flush())

    def _read_safely(self) -> bool:
        try:
            self._read_once()
            return True
        except Exception as e:
            self._note("error", f"Tracking error: {e}")
            return False

    # ---- samples

    @staticmethod
    def _nothing(device_id: int = 0) -> DeviceMemorySample:
        return DeviceMemorySample(None, None, None, None, None, None, None, device_id)

    def _values(self, sample: DeviceMemorySample) -> Tuple[Optional[int], ...]:
        return values_of(sample, self.total_memory or None)

    def _pushed_values(self, sample: DeviceMemorySample) -> Tuple[Tuple[Optional[int], ...], Optional[int]]:
        return self._values(sample), sample.peak_bytes

    def _remember(self, sample: Optional[DeviceMemorySample]) -> None:
        if sample is None:
            return
        self._last_sample, self._device_id = sample, sample.device_id
        if sample.total_bytes is not None:
            self.total_memory = sample.total_bytes

    def _push(self, sample: DeviceMemorySample) -> None:
        """Passes a sample to the list, the recorder, the sink and, if it makes alerts, to the
        callbacks."""
        self._remember(sample)
        self._last_check = time.time()
        self._keep_rules()
        first, rules = self._list.push(*self._pushed_values(sample))
        made = self._list.read(first=first) if rules or self._sink is not None else []
        is_peak = (sample.allocated_bytes or 0) > self._highest
        self._highest = max(self._highest, sample.allocated_bytes or 0)
        self._evidence.log_sample({"allocated": sample.allocated_bytes, "reserved": sample.reserved_bytes,
                                "used": sample.used_bytes, "total": sample.total_bytes}, is_peak)
        for raw in made:
            event = self._event(raw)
            self._append_to_sink(event)
            if raw[1] == ALERT:
                self._evidence.send(f"mark {event.event_type}: {event.context}")
                self._alerted(event)

    def _keep_rules(self) -> None:
        """Updates the rules of the list: the program may have changed the thresholds."""
        rules = self._rule_texts() if self.enable_alerts else []
        if rules != self._rules:
            self._list.rules(rules)
            self._rules = rules

    # ---- events

    def _note(self, event_type: str, context: str, metadata: Optional[Dict[str, Any]] = None, change: Optional[int] = None,
              sample: Optional[DeviceMemorySample] = None) -> TrackingEvent:
        """Adds an event that is not a sample, with the figures of sample, or of the last sample."""
        sample = sample or self._last_sample or self._nothing(self._device_id)
        kind = KINDS.get(event_type, OTHER)
        if kind < START:
            kind = OTHER  # the lower kinds are reserved for events that the list makes
        text = packed(context, metadata, change, event_type if kind == OTHER else None)
        values = self._values(sample)
        self._list.note(kind, text, values)
        event = self._event((time.time_ns(), kind, 0, 0, 0, 0, values, text))
        self._append_to_sink(event)
        if event_type in ALERT_TYPES:
            self._other_alerts += kind == OTHER
            self._evidence.send(f"mark {event_type}: {' '.join(context.split())}")
            self._alerted(event)
        return event

    def _add_event(self, event_type: str, memory_change: Optional[int], context: str,
                   metadata: Optional[Dict[str, Any]] = None, sample: Optional[DeviceMemorySample] = None) -> None:
        """Adds an event of the program; without a sample, reads one."""
        self._note(event_type, context, metadata, memory_change, sample or self._sample())

    def _event(self, raw: RawEvent) -> TrackingEvent:
        event_type, context, metadata, change = unpacked_event(raw, self.words, self.usage_of)
        time_ns, values = raw[0], raw[6]
        health, session = self._healths.at(time_ns), self._sessions.at(time_ns)
        if health is not None and not health.is_healthy:
            metadata = {**metadata, **health.to_dict()}
            if raw[1] == SAMPLE:
                context = f"Collected partial telemetry sample ({', '.join(health.partial_fields)})."
        return TrackingEvent(
            timestamp=time_ns / 1e9, event_type=event_type, memory_allocated=values[0], memory_reserved=values[1],
            memory_change=change if values[0] is not None else None, device_id=self._device_id, context=context,
            metadata=metadata or None, active_memory=values[2], inactive_memory=values[3], device_used=values[USED],
            device_free=values[FREE], device_total=values[TOTAL], backend=self.backend,
            session_id=session.session_id if session else None, **self.distributed_identity)

    def _raw_events(self, event_type: Optional[str], last_n: Optional[int], since_ns: int) -> List[RawEvent]:
        """The events that may be of this type: those of its kind, and those whose type only their
        text shows."""
        if self._capacity > self.max_events:
            return self._list.read(last=self.max_events)
        kinds = 0
        if event_type:
            kinds = 1 << OTHER | (1 << KINDS[event_type] if event_type in KINDS else ALERT_KINDS)
        return self._list.read(kinds=kinds, since_ns=since_ns, last=0 if event_type or since_ns else last_n or 0)

    def get_events(self, event_type: Optional[str] = None, last_n: Optional[int] = None,
                   since: Optional[float] = None) -> List[TrackingEvent]:
        """Events, oldest first: of one type, since a time (seconds since 1970), and of these the
        last last_n."""
        since_ns = max(int(since * 1e9) - ROUNDING_NS, 0) if since else 0
        events = [self._event(raw) for raw in self._raw_events(event_type, last_n, since_ns)]
        events = [e for e in events if (not event_type or e.event_type == event_type) and (not since or e.timestamp >= since)]
        return events[-last_n:] if last_n else events

    @property
    def events(self) -> List[TrackingEvent]:
        """All events that are kept."""
        return self.get_events()

    def clear_events(self) -> None:
        """Deletes events and statistics."""
        self._list.clear()
        self._other_alerts = 0

    def _timeline(self, interval: float, places: Mapping[str, int]) -> Dict[str, List[Any]]:
        if not interval > 0:
            raise ValueError("interval must be > 0")
        points = self._list.timeline(max(int(interval * 1e9), 1))
        return {"timestamps": [point[0] / 1e9 for point in points],
                **{name: [point[6][place] for point in points] for name, place in places.items()}}

    # ---- phases

    def enter_phase(self, name: str, *, metadata: Optional[Dict[str, Any]] = None) -> PhaseHandle:
        """Starts a phase; close() of the returned handle ends it. Raises RuntimeError while nothing
        is tracked."""
        pid = os.getpid()
        if pid != self._pid:
            return PhaseHandle(scope_id="", name=name, path=(name,), close_callback=lambda: None)
        session = self._sessions.last
        if not self.is_tracking or session is None:
            raise RuntimeError("Tracking must be active before entering a phase.")
        phase, entered = self._phases.enter(session_id=session.session_id, rank=self.distributed_identity["rank"], name=name,
                                            attrs=metadata)
        self._evidence.send(f"phase+ {' '.join(phase.name.split())}")
        self._note(entered.event_type, entered.context, entered.metadata, sample=self._sample())
        return PhaseHandle(scope_id=phase.scope_id, name=name, path=phase.path,
                           close_callback=lambda: self._exit_phase(phase, pid))

    def _exit_phase(self, phase: PhaseToken, pid: int) -> None:
        if pid != os.getpid():
            return  # the phase belongs to the parent process
        exited = self._phases.exit(phase)
        self._note(exited.event_type, exited.context, exited.metadata, sample=self._sample())
        self._evidence.send(f"phase- {' '.join(phase.name.split())}")

    @contextmanager
    def phase(self, name: str, *, metadata: Optional[Dict[str, Any]] = None) -> Iterator[PhaseHandle]:
        """`enter_phase` as a context manager."""
        handle = self.enter_phase(name, metadata=metadata)
        try:
            yield handle
        finally:
            handle.close()

    # ---- sessions

    def _open_session(self) -> None:
        session = sessions.begun(self.session_source, self.distributed_identity)
        self._sessions.add(session.started_at_ns, session)
        if self._sink is None and self._sink_config is not None:
            self._with_new_sink()
        self._with_sink("start", lambda sink: sink.start_session(session))

    def get_session_summary(self) -> Optional[SessionSummary]:
        """The present session, or the last one; None if nothing was tracked yet."""
        return self._sessions.last

    def _session_stats(self) -> Dict[str, Any]:
        session = self._sessions.last
        return {"session_id": session.session_id if session else None, "session_status": session.status if session else None}

    # ---- files

    def _with_new_sink(self) -> None:
        assert self._sink_config is not None
        try:
            self._sink = AppendOnlyTelemetrySink(self._sink_config)
        except (OSError, ValueError) as e:
            log.warning("no telemetry sink: %s", e)

    def _with_sink(self, what: str, do: Any) -> None:
        """Calls do(sink). A sink that fails is dropped and the session becomes incomplete; the
        tracker continues."""
        sink = self._sink
        if sink is None:
            return
        try:
            do(sink)
            self._sink_diagnostics = sink.get_diagnostics()
        except Exception as e:
            self._sink = None
            log.warning("Disabling telemetry sink after %s failure: %s", what, e)
            session = self._sessions.last
            if session is not None:
                self._sessions.replace_last(replace(session, status=sessions.SESSION_STATUS_INCOMPLETE))

    def _append_to_sink(self, event: TrackingEvent) -> None:
        if self._sink is not None:
            self._with_sink("append", lambda sink: sink.append(self.telemetry_record(event)))

    def _close_sink(self, status: str) -> None:
        self._with_sink("close", lambda sink: sink.close(status))
        self._sink = None

    def _telemetry_metadata(self, event: TrackingEvent) -> Dict[str, Any]:
        capabilities = self.collector_capabilities
        metadata = {**(event.metadata or {}), "backend": self.backend,
                    "supports_device_total": capabilities.supports_device_total,
                    "supports_device_free": capabilities.supports_device_free,
                    "sampling_source": capabilities.sampling_source}
        if self.telemetry_schema_version == SCHEMA_VERSION_V4:
            return {**metadata, "memory_capabilities": capabilities.to_metadata()}
        return {**metadata, "session_id": event.session_id, **self.distributed_identity}

    def telemetry_record(self, event: TrackingEvent) -> Dict[str, Any]:
        """An event as a record for export: of schema 2, or of schema 4 if the tracker has values
        that only this can represent."""
        record: Dict[str, Any] = {
            "schema_version": self.telemetry_schema_version, "timestamp_ns": round(event.timestamp * 1e9),
            "event_type": event.event_type, "collector": self.collector_capabilities.telemetry_collector,
            "sampling_interval_ms": int(round(self.sampling_interval * 1000)), "pid": os.getpid(),
            "host": socket.gethostname(), "device_id": event.device_id,
            "allocator_allocated_bytes": event.memory_allocated, "allocator_reserved_bytes": event.memory_reserved,
            "allocator_active_bytes": event.active_memory, "allocator_inactive_bytes": event.inactive_memory,
            "allocator_change_bytes": event.memory_change, "device_used_bytes": event.device_used,
            "device_free_bytes": event.device_free, "device_total_bytes": event.device_total, "context": event.context,
            "metadata": self._telemetry_metadata(event),
        }
        made: TelemetryEvent
        if self.telemetry_schema_version == SCHEMA_VERSION_V4:
            made = TelemetryEventV4(**record, session_id=event.session_id or "none", **self.distributed_identity)
        else:
            made = TelemetryEventV2(**_without_nulls(record))
        return telemetry_event_to_dict(made)

    def export_events(self, filename: str, format: str = "csv") -> None:
        """Writes all events that are kept, as "csv" or "json"; writes no file if there are none.
        Raises ValueError for another format."""
        if format not in ("csv", "json"):
            raise ValueError(f"Unsupported format: {format}")
        records = [self.telemetry_record(event) for event in self.get_events()]
        if not records:
            return
        with open(filename, "w", encoding="utf-8", newline="") as f:
            if format == "json":
                json.dump(records, f, indent=2, default=str)
            else:
                writer = csv.DictWriter(f, fieldnames=list(records[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(records)


_trackers: weakref.WeakSet[Tracking] = weakref.WeakSet()


def _forget_all() -> None:
    for tracker in list(_trackers):
        tracker._forget()


os.register_at_fork(after_in_child=_forget_all)


def _without_nulls(record: Dict[str, Any]) -> Dict[str, Any]:
    """Schema 2 has no null for these fields: unknown ones become 0, and the metadata names them."""
    missing = [name for name in ("allocator_allocated_bytes", "allocator_reserved_bytes", "allocator_change_bytes",
                                 "device_used_bytes") if record[name] is None]
    unread = [name for name in missing if name != "allocator_change_bytes"]
    metadata = {**record["metadata"], "unknown_fields": unread} if unread else record["metadata"]
    return {**record, **{name: 0 for name in missing}, "metadata": metadata}

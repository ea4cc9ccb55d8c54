# SPDX-License-Identifier: MIT
"""MemoryTracker and MemoryWatchdog."""
from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

from . import _native_history
from ._tracking import Tracking
from .collector_health import (COLLECTOR_HEALTH_DEGRADED, COLLECTOR_HEALTH_HEALTHY, COLLECTOR_HEALTH_UNHEALTHY,
                               CollectorHealthState, collector_retry_delay_seconds)
from .device_collectors import (SAMPLE_FIELDS, DeviceMemoryCapabilities, DeviceMemoryCollector, DeviceMemorySample,
                                DeviceMemorySampleResult, build_device_memory_collector, tracked_device,
                                validate_device_memory_sample)
from .events import (ALERT, ALERT_TYPES, ALLOCATED, ALLOCATION, DEALLOCATION, ERROR, FREE, RESERVED, TOTAL, USED,
                     TrackingEvent, event_payload)
from .oom_flight_recorder import OOMFlightRecorder, OOMFlightRecorderConfig, classify_oom_exception
from .telemetry import SCHEMA_VERSION_V4
from .telemetry_sink import TelemetrySinkConfig
from .utils import get_gpu_info, needed_torch

log = logging.getLogger(__name__)

AlertCallback = Callable[[TrackingEvent], Any]

HOUR_NS = 3600 * 10**9
LARGEST = 1e18
NEVER = "change < 0 and change > 0"  # stands for a disabled rule, so that the others keep their numbers

# Threshold: its default.
THRESHOLDS = {
    "memory_warning_percent": 80.0,
    "memory_critical_percent": 95.0,
    "memory_leak_threshold": float(100 * 1024 * 1024),
    "fragmentation_threshold": 0.3,
}


class Thresholds(Dict[str, float]):
    """Thresholds of alerts: percent of the device's memory (warning, critical), bytes of growth
    between two samples (leak), idle share of reserved memory in split blocks (fragmentation)."""


def _can_be_reached(value: float) -> bool:
    return abs(value) < LARGEST  # false for NaN, too


def _rule(text: str, *values: float) -> str:
    """A rule with its numbers in the grammar of rules. If a number is not finite, or so large that
    no value reaches it (its digits would not fit a rule), a rule that never fires."""
    if not all(_can_be_reached(v) for v in values):
        return NEVER
    return text.format(*(f"{v:.15f}".rstrip("0").rstrip(".") for v in values))


class MemoryTracker(Tracking):
    """Samples the memory of a GPU's allocator every sampling_interval seconds in a thread.

    device               "cuda:0", "mps", a CUDA device number, a torch.device; None: the current one
    max_events           number of events kept; the oldest are removed first (88 bytes each)
    enable_alerts        make warning and critical events when `thresholds` are exceeded
    enable_oom_flight_recorder, oom_dump_dir, oom_buffer_size, oom_max_dumps, oom_max_total_mb
                         write bundles at out-of-memory errors (handle_exception, capture_oom): folder, number of events per
                         bundle (None: max_events), number of bundles and their total size in MiB
    job_id, rank, local_rank, world_size    None: from the environment of the launcher
    enable_native_cuda_history, native_history_max_entries    add PyTorch's allocator history to bundles of capture_oom
    telemetry_sink_config    also write each event to files
    collector            used instead of PyTorch; device must then be None

    Raises RuntimeError or ValueError if there is nothing to track, ImportError without PyTorch
    (unless collector is given).
    """

    def __init__(self, device: Optional[Union[str, int, Any]] = None, sampling_interval: float = 0.1,
                 max_events: int = 10000, enable_alerts: bool = True, enable_oom_flight_recorder: bool = False,
                 oom_dump_dir: str = "oom_dumps", oom_buffer_size: Optional[int] = None, oom_max_dumps: int = 5,
                 oom_max_total_mb: int = 256, job_id: Optional[str] = None, rank: Optional[int] = None,
                 local_rank: Optional[int] = None, world_size: Optional[int] = None,
                 enable_native_cuda_history: bool = False,
                 native_history_max_entries: int = _native_history.MOST_ENTRIES,
                 telemetry_sink_config: Optional[TelemetrySinkConfig] = None,
                 collector: Optional[DeviceMemoryCollector] = None) -> None:
        if native_history_max_entries <= 0:
            raise ValueError("native_history_max_entries must be >= 1")
        self._set_collector(device, collector)
        buffer_size = oom_buffer_size if oom_buffer_size is not None and oom_buffer_size > 0 else max_events
        identity = {"job_id": job_id, "rank": rank, "local_rank": local_rank, "world_size": world_size}
        super().__init__(sampling_interval, max_events, enable_alerts, buffer_size if enable_oom_flight_recorder else 0,
                         identity, telemetry_sink_config)
        if collector is not None:
            self.telemetry_schema_version = SCHEMA_VERSION_V4
        self.enable_native_cuda_history = enable_native_cuda_history
        self.native_history_max_entries = native_history_max_entries
        if enable_native_cuda_history and not self.collector_capabilities.supports_native_allocator_history:
            raise ValueError(f"native allocator history is unavailable for backend {self.backend!r}")
        self.thresholds: Dict[str, float] = Thresholds(THRESHOLDS)
        self._texts_for: Optional[Dict[str, float]] = None  # the thresholds from which _texts was made
        self._texts: List[str] = []
        self.alert_callbacks: List[AlertCallback] = []
        self.last_oom_dump_path: Optional[str] = None
        self._oom_flight_recorder = OOMFlightRecorder(OOMFlightRecorderConfig(
            enabled=enable_oom_flight_recorder, dump_dir=oom_dump_dir, buffer_size=buffer_size, max_dumps=oom_max_dumps,
            max_total_mb=oom_max_total_mb))
        self._health = CollectorHealthState()
        self._remember(self._valid(self.collector.sample_with_diagnostics()).sample)

    def _set_collector(self, device: Optional[Union[str, int, Any]], collector: Optional[DeviceMemoryCollector]) -> None:
        if collector is not None and device is not None:
            raise ValueError("device and collector cannot be provided together")
        self.device = tracked_device(device) if collector is None else None
        self.collector = build_device_memory_collector(self.device) if collector is None else collector
        self.backend = self.collector.name()
        capabilities: Mapping[str, Any] = self.collector.capabilities()
        self.collector_capabilities = capabilities if isinstance(capabilities, DeviceMemoryCapabilities) else \
            DeviceMemoryCapabilities.from_mapping(capabilities)
        self._provided = tuple(bool(self.collector_capabilities[needed]) for _, needed in SAMPLE_FIELDS.values())
        self.usage_of = ALLOCATED if self.collector_capabilities.supports_allocator_allocated else USED

    def _series_prefix(self) -> str:
        return str(self.device) if self.device is not None else "-".join(self.backend.split()) or "device"

    @property
    def oom_buffer_size(self) -> int:
        """Maximum number of events in a bundle."""
        return self._oom_flight_recorder.config.buffer_size

    @property
    def gpu_info(self) -> Dict[str, Any]:
        """Present information of PyTorch about the device; empty for MPS and for collectors of the
        program."""
        is_cuda = self.device is not None and self.device.type == "cuda"
        return get_gpu_info(self.device, smi=False) if is_cuda else {}

    def _forget(self) -> None:
        super()._forget()
        self._oom_flight_recorder.forget()

    # ---- samples

    def _valid(self, result: DeviceMemorySampleResult) -> DeviceMemorySampleResult:
        """Rejects a sample that contradicts the capabilities of its collector."""
        if result.sample is None or (not result.partial_fields and self._is_whole(result.sample)):
            return result
        try:
            validate_device_memory_sample(result.sample, self.collector_capabilities, partial_fields=result.partial_fields)
        except ValueError as e:
            return DeviceMemorySampleResult(sample=None, errors={"sample_contract": str(e)}, core_error=str(e))
        return result

    def _is_whole(self, s: DeviceMemorySample) -> bool:
        """Quick check: the sample has exactly the fields that the collector provides, and plausible
        values."""
        values = (s.allocated_bytes, s.reserved_bytes, s.active_bytes, s.inactive_bytes, s.used_bytes, s.free_bytes, s.total_bytes)
        for value, is_provided in zip(values, self._provided):
            if (value is None) == is_provided or (value is not None and value < 0):
                return False
        most = s.total_bytes
        return most is None or ((s.used_bytes or 0) <= most and (s.free_bytes or 0) <= most)

    def _sample(self) -> Optional[DeviceMemorySample]:
        return self._valid(self.collector.sample_with_diagnostics()).sample

    def _read_once(self) -> None:
        retry_at = self._health.next_retry_epoch_s
        if retry_at is not None and time.time() < retry_at:
            return
        result = self._valid(self.collector.sample_with_diagnostics())
        if result.sample is None:
            self._apply_failure(result)
            return
        self._remember(result.sample)
        self._apply_health(result)
        self._push(result.sample)

    # ---- health of the collector

    def _set_health(self, health: CollectorHealthState) -> None:
        if health != self._health:
            self._healths.add(time.time_ns(), health)
        self._health = health

    @staticmethod
    def _error_of(result: DeviceMemorySampleResult) -> Optional[str]:
        return result.core_error or "; ".join(dict.fromkeys(result.errors.values())) or None

    def _apply_failure(self, result: DeviceMemorySampleResult) -> None:
        before, error = self._health, self._error_of(result) or "Collector unavailable"
        failures = before.consecutive_failures + 1
        delay = collector_retry_delay_seconds(failures)
        self._set_health(CollectorHealthState(COLLECTOR_HEALTH_UNHEALTHY, True, (), error, failures, time.time() + delay))
        if before.is_healthy:
            self._note_degraded("Collector unavailable; telemetry paused until recovery.", before, error,
                                {"collector_retry_delay_s": delay})

    def _apply_health(self, result: DeviceMemorySampleResult) -> None:
        before = self._health
        if result.is_partial:
            error = self._error_of(result)
            self._set_health(CollectorHealthState(COLLECTOR_HEALTH_DEGRADED, True, result.partial_fields, error))
            if before.is_healthy:
                self._note_degraded("Collector degraded; telemetry is partial.", before, error, {})
            return
        self._set_health(CollectorHealthState())
        if not before.is_healthy:
            self._note("collector_recovered", "Collector recovered; full telemetry sampling resumed.", {
                "collector_transition": "recovered", "collector_recovered_from": before.status,
                "collector_previous_error": before.last_error,
                "collector_previous_failure_count": before.consecutive_failures, **self._health.to_dict()})

    def _note_degraded(self, text: str, before: CollectorHealthState, error: Optional[str], more: Dict[str, Any]) -> None:
        self._note("collector_degraded", text, {"collector_transition": "degraded", "collector_degraded_from": before.status,
                                                "collector_degradation_reason": error, **more})

    # ---- alerts

    def _rule_texts(self) -> List[str]:
        if self.thresholds != self._texts_for:
            self._texts = self._rules_of_thresholds()
            self._texts_for = dict(self.thresholds)
        return self._texts

    def _rules_of_thresholds(self) -> List[str]:
        limits = {**THRESHOLDS, **self.thresholds}
        warning, critical = (limits[f"memory_{name}_percent"] / 100 for name in ("warning", "critical"))
        leak, share = float(limits["memory_leak_threshold"]), float(limits["fragmentation_threshold"])
        warn = _rule("warn: usage >= {} and usage < {}", warning, critical)
        return [
            _rule("error: usage >= {}", critical),
            warn if _can_be_reached(critical) else _rule("warn: usage >= {}", warning),
            _rule("warn: change > {}", leak),
            _rule("warn: fragmentation > {}", share) if self.collector_capabilities.supports_fragmentation_analysis else NEVER,
        ]

    def set_threshold(self, threshold_name: str, value: Union[int, float]) -> None:
        """Sets a threshold; infinity disables it. Raises ValueError for an unknown name."""
        if threshold_name not in self.thresholds:
            raise ValueError(f"Unknown threshold: {threshold_name}")
        self.thresholds[threshold_name] = value

    def add_alert_callback(self, callback: AlertCallback) -> None:
        """Adds a function that is called with each warning, critical and error event, in the thread
        that made the event. Its exceptions are suppressed."""
        self.alert_callbacks.append(callback)

    def remove_alert_callback(self, callback: AlertCallback) -> None:
        if callback in self.alert_callbacks:
            self.alert_callbacks.remove(callback)

    def _alerted(self, event: TrackingEvent) -> None:
        for callback in list(self.alert_callbacks):
            try:
                callback(event)
            except Exception as e:
                log.debug("Alert callback error (suppressed): %s", e)

    def get_alerts(self, last_n: Optional[int] = None) -> List[TrackingEvent]:
        """Warning, critical and error events."""
        alerts = [event for event in self.get_events() if event.event_type in ALERT_TYPES]
        return alerts[-last_n:] if last_n else alerts

    # ---- figures

    def get_memory_timeline(self, interval: float = 1.0) -> Dict[str, List[Any]]:
        """Sizes in bytes at the end of each interval (seconds) that has an event: timestamps (start
        of the interval), allocated, reserved, device_used, device_free, device_total."""
        return self._timeline(interval, {"allocated": ALLOCATED, "reserved": RESERVED, "device_used": USED,
                                         "device_free": FREE, "device_total": TOTAL})

    @property
    def stats(self) -> Dict[str, Any]:
        """Sums and peaks since the start or clear_events; None if the collector does not provide
        them."""
        _, _, counts, risen, fallen, peaks, *_ = self._list.stats()
        has_allocator = self.collector_capabilities.supports_allocator_allocated
        sums = {"peak_memory": peaks[ALLOCATED] or 0, "total_allocations": counts[ALLOCATION],
                "total_deallocations": counts[DEALLOCATION], "total_allocation_bytes": risen,
                "total_deallocation_bytes": fallen}
        return {**(sums if has_allocator else dict.fromkeys(sums)), "peak_device_used": peaks[USED] or 0,
                "alert_count": counts[ALERT] + counts[ERROR] + self._other_alerts,
                "tracking_start_time": self._started_at, "last_memory_check": self._last_check}

    def _present(self) -> Dict[str, Any]:
        sample = self._sample() or self._nothing()
        total = sample.total_bytes or self.total_memory
        percent = sample.used_bytes / total * 100 if sample.used_bytes is not None and total else None
        return {"current_memory_allocated": sample.allocated_bytes, "current_memory_reserved": sample.reserved_bytes,
                "current_device_used": sample.used_bytes, "current_device_free": sample.free_bytes,
                "device_total": sample.total_bytes, "memory_utilization_percent": percent}

    def _rates(self, stats: Mapping[str, Any]) -> Dict[str, Any]:
        """Rates per second of tracked time."""
        *_, seconds, rises, risen = self._list.stats()
        rates: Dict[str, Any] = {"tracking_duration_seconds": seconds}
        for name, total, number in (("average_allocation_size", "total_allocation_bytes", "total_allocations"),
                                    ("average_deallocation_size", "total_deallocation_bytes", "total_deallocations")):
            rates[name] = None if stats[total] is None else stats[total] / max(stats[number], 1)
        has_allocator = stats["total_allocations"] is not None
        return {**rates, "allocations_per_second": (rises or 0.0) if has_allocator else None,
                "bytes_allocated_per_second": (risen or 0.0) if has_allocator else None}

    def get_statistics(self) -> Dict[str, Any]:
        """All statistics: stats, number of events, present use, rates, session, health of the
        collector and the sink."""
        stats = self.stats
        ever, kept = self._list.stats()[:2]
        kept = min(kept, self.max_events)
        recent = len(self._list.read(since_ns=max(time.time_ns() - HOUR_NS, 0), last=self.max_events))
        return {
            **stats, "total_events": kept, "events_last_hour": recent, "history_window_limit_events": self.max_events,
            "history_retained_events": kept, "history_dropped_events": ever - kept, "backend": self.backend,
            "oom_flight_recorder_enabled": self._oom_flight_recorder.config.enabled,
            "last_oom_dump_path": self.last_oom_dump_path, **self._session_stats(), **self._present(),
            "memory_capabilities": self.collector_capabilities.to_metadata(), **self._rates(stats),
            **self._health.to_dict(), **self._sink_diagnostics, "recording": self._evidence.path(),
        }

    # ---- out of memory

    def handle_exception(self, exc: BaseException, context: Optional[str] = None,
                         metadata: Optional[Dict[str, Any]] = None) -> Optional[str]:
        """Writes a bundle for an out-of-memory exception and returns its path; None for other
        exceptions or if bundles are disabled. Does not raise."""
        reason = classify_oom_exception(exc).reason
        if reason is None:
            return None
        self._evidence.send(f"oom {type(exc).__name__}: {' '.join(str(exc).split())[:1000]}")
        if not self._oom_flight_recorder.config.enabled:
            return None
        try:
            self.last_oom_dump_path = self._dump(exc, reason, context, metadata)
        except Exception as e:
            log.debug("OOM flight recorder dump failed: %s", e)
            return None
        return self.last_oom_dump_path

    def _dump(self, exc: BaseException, reason: str, context: Optional[str],
              metadata: Optional[Dict[str, Any]]) -> Optional[str]:
        sample = self._sample()
        self._note("error", f"OOM detected ({reason})", {"oom_reason": reason}, sample=sample)
        session = self._sessions.last
        figures = asdict(sample or self._nothing(self._device_id))
        facts: Dict[str, Any] = {
            "tracker_stats": self.get_statistics(), "collector_capabilities": self.collector_capabilities.to_metadata(),
            "total_memory_bytes": self.total_memory, "sampling_interval_s": self.sampling_interval,
            "session_id": session.session_id if session else None, **self.distributed_identity,
            **(metadata or {}), **{f"sample_{name}": value for name, value in figures.items()},
            "driver": self._driver_figures(), "hiwater_recording": self._evidence.path(),
        }
        events = [event_payload(self._event(raw)) for raw in self._list.read(last=self.oom_buffer_size)]
        return self._oom_flight_recorder.dump(reason=reason, exception=exc, context=context, backend=self.backend,
                                              metadata=facts, session_summary=session, events=events)

    def _driver_figures(self) -> Optional[Dict[str, int]]:
        """The driver's figures of the whole device, including other processes; read only after an
        out-of-memory error."""
        if self.device is None or self.device.type != "cuda":
            return None
        try:
            free, total = needed_torch().cuda.mem_get_info(self.device)
            return {"device_free_bytes": int(free), "device_total_bytes": int(total)}
        except Exception as e:
            log.debug("the driver did not report memory: %s", e)
            return None

    @contextmanager
    def capture_oom(self, context: str = "runtime", metadata: Optional[Dict[str, Any]] = None) -> Iterator[None]:
        """A block in which out-of-memory exceptions write a bundle; they are raised again."""
        history = self.enable_native_cuda_history and self._oom_flight_recorder.config.enabled and self.backend == "cuda" and \
            _native_history.begin(self.device, self.native_history_max_entries)
        try:
            yield
        except Exception as e:
            path = self.handle_exception(e, context=context, metadata=metadata)
            if path and history:
                _native_history.add_to(path, self.device)
            if path:
                log.error("OOM flight recorder dump saved to: %s", path)
            raise
        finally:
            if history:
                _native_history.end(self.device)


class MemoryWatchdog:
    """Releases cached memory at alerts of a tracker: at cleanup_threshold (a share of the device's
    memory, or a critical alert) it empties the cache; at aggressive_cleanup_threshold it first
    collects garbage and waits for the device. At least min_cleanup_interval seconds lie between two
    cleanups."""

    min_cleanup_interval = 30.0

    def __init__(self, tracker: MemoryTracker, auto_cleanup: bool = True, cleanup_threshold: float = 0.9,
                 aggressive_cleanup_threshold: float = 0.95) -> None:
        self.tracker = tracker
        self.auto_cleanup = auto_cleanup
        self.cleanup_threshold = cleanup_threshold
        self.aggressive_cleanup_threshold = aggressive_cleanup_threshold
        self.cleanup_count = 0
        self.last_cleanup_time = 0.0
        tracker.add_alert_callback(self._handle_alert)

    def _handle_alert(self, event: TrackingEvent) -> None:
        percent = (event.metadata or {}).get("usage_percent")
        if not self.auto_cleanup or percent is None or time.time() - self.last_cleanup_time < self.min_cleanup_interval:
            return
        if event.event_type == "critical" or percent >= self.cleanup_threshold * 100:
            self._perform_cleanup(aggressive=percent >= self.aggressive_cleanup_threshold * 100)

    def _perform_cleanup(self, aggressive: bool = False) -> None:
        self.cleanup_count += 1
        self.last_cleanup_time = time.time()
        try:
            for step in _steps(self.tracker.backend, aggressive):
                step()
            self.tracker._add_event("cleanup", 0, f"Performed {'aggressive' if aggressive else 'standard'} memory cleanup")
        except Exception as e:
            self.tracker._add_event("error", 0, f"Cleanup failed: {e}")

    def force_cleanup(self, aggressive: bool = False) -> None:
        """Cleans up now, independently of min_cleanup_interval."""
        self._perform_cleanup(aggressive)

    def get_cleanup_stats(self) -> Dict[str, Any]:
        return {"cleanup_count": self.cleanup_count, "last_cleanup_time": self.last_cleanup_time,
                "auto_cleanup_enabled": self.auto_cleanup, "cleanup_threshold": self.cleanup_threshold,
                "aggressive_cleanup_threshold": self.aggressive_cleanup_threshold}


def _steps(backend: str, aggressive: bool) -> Tuple[Callable[[], Any], ...]:
    """The steps of a cleanup. Garbage is collected first, because its memory is returned to the
    cache only then."""
    import gc

    if backend in ("cuda", "rocm"):
        cuda = needed_torch().cuda
        return (gc.collect, cuda.synchronize, cuda.empty_cache) if aggressive else (cuda.empty_cache,)
    if backend == "mps":
        empty = getattr(needed_torch().mps, "empty_cache", lambda: None)
        return (gc.collect, empty) if aggressive else (empty,)
    return (gc.collect,) if aggressive else ()


__all__ = ["COLLECTOR_HEALTH_HEALTHY", "MemoryTracker", "MemoryWatchdog", "TrackingEvent"]

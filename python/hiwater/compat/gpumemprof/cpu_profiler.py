# SPDX-License-Identifier: MIT
"""CPUMemoryTracker: tracks the RAM of this process."""
from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Optional, Tuple

from ._tracking import Tracking
from .device_collectors import DeviceMemoryCapabilities, DeviceMemorySample
from .events import ALLOCATED, RESERVED, TrackingEvent, Words
from .telemetry_sink import TelemetrySinkConfig
from .utils import scaled_text

CAPABILITIES = DeviceMemoryCapabilities(
    backend="cpu", telemetry_collector="gpumemprof.cpu_tracker", sampling_source="/proc/self/status",
    supports_allocator_allocated=True, supports_allocator_reserved=True, supports_device_used=True)

WORDS = Words("New CPU peak RSS: {}", "RSS increased by {}", "RSS decreased by {}", "Collected CPU telemetry sample.",
              lambda size: scaled_text(size, 2, most=4))


def resident() -> Tuple[Optional[int], Optional[int]]:
    """Resident memory of this process and its high-water mark (VmHWM), in bytes; None if
    unknown."""
    sizes: Dict[str, int] = {}
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as f:
            for line in f:
                name, _, rest = line.partition(":")
                if name in ("VmRSS", "VmHWM"):
                    sizes[name] = int(rest.split()[0]) * 1024
    except (OSError, ValueError):
        return None, None
    return sizes.get("VmRSS"), sizes.get("VmHWM")


class CPUMemoryTracker(Tracking):
    """Samples the RAM of this process every sampling_interval seconds in a thread. Peaks are the
    kernel's high-water mark if it rose. enable_alerts is accepted and has no effect, since there
    are no thresholds."""

    words = WORDS
    backend = "cpu"
    thread_name = "hiwater-cpu-memory-tracker"
    session_source = "gpumemprof.cpu_tracker"
    started_text = "CPU memory tracking started"
    stopped_text = "CPU memory tracking stopped"
    collector_capabilities = CAPABILITIES

    def __init__(self, sampling_interval: float = 0.5, max_events: int = 10_000, enable_alerts: bool = True,
                 job_id: Optional[str] = None, rank: Optional[int] = None, local_rank: Optional[int] = None,
                 world_size: Optional[int] = None, telemetry_sink_config: Optional[TelemetrySinkConfig] = None) -> None:
        identity = {"job_id": job_id, "rank": rank, "local_rank": local_rank, "world_size": world_size}
        super().__init__(sampling_interval, max_events, enable_alerts, 0, identity, telemetry_sink_config)
        self._device_id = -1

    def _series_prefix(self) -> str:
        return "cpu"

    def _sample(self) -> Optional[DeviceMemorySample]:
        rss, hwm = resident()
        return None if rss is None else DeviceMemorySample(rss, rss, rss, None, None, None, None, -1, hwm)

    def _event(self, raw: Any) -> TrackingEvent:
        event = super()._event(raw)
        event.device_used = None  # RAM does not belong to a device
        return event

    def telemetry_record(self, event: TrackingEvent) -> Dict[str, Any]:
        event.device_used = event.memory_allocated
        return super().telemetry_record(event)

    @property
    def stats(self) -> Dict[str, Any]:
        ever, _, _, _, _, peaks, *_ = self._list.stats()
        return {"tracking_start_time": self._started_at, "peak_memory": peaks[ALLOCATED] or 0, "total_events": ever,
                "alert_count": self._other_alerts}

    def get_statistics(self) -> Dict[str, Any]:
        ever, kept, _, _, _, peaks, seconds, *_ = self._list.stats()
        return {"mode": "cpu", "total_events": kept, "peak_memory": peaks[ALLOCATED] or 0,
                "current_memory_allocated": resident()[0], "tracking_duration_seconds": seconds,
                "history_window_limit_events": self.max_events, "history_retained_events": kept,
                "history_dropped_events": ever - kept, **self._sink_diagnostics, **self._session_stats(),
                "recording": self._evidence.path()}

    def get_memory_timeline(self, interval: float = 1.0) -> Dict[str, List[Any]]:
        """Sizes in bytes at the end of each interval (seconds) that has an event, with the start
        times of these intervals."""
        return self._timeline(interval, {"allocated": ALLOCATED, "reserved": RESERVED})

    def export_events_with_timestamp(self, directory: str, format: str) -> str:
        """Exports into a new file in the folder and returns its path."""
        path = os.path.join(directory, f"cpu_tracker_{time.strftime('%Y%m%d_%H%M%S')}.{format}")
        self.export_events(path, format=format)
        return path

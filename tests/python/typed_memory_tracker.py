# SPDX-License-Identifier: MIT
"""A typical program with MemoryTracker, for mypy --strict."""
from typing import Optional

from hiwater.compat.gpumemprof import CPUMemoryTracker, MemoryTracker, MemoryWatchdog, TrackingEvent, classify_oom_exception


def on_alert(event: TrackingEvent) -> None:
    print(event.event_type, event.context, (event.metadata or {}).get("usage_percent"))


def main() -> None:
    with MemoryTracker(device="cuda:0", sampling_interval=0.05, enable_oom_flight_recorder=True) as tracker:
        tracker.add_alert_callback(on_alert)
        watchdog = MemoryWatchdog(tracker, cleanup_threshold=0.9)
        with tracker.phase("epoch", metadata={"epoch": 3}) as phase:
            print(phase.phase_path)
        with tracker.capture_oom(context="step"):
            pass
        dump: Optional[str] = tracker.handle_exception(MemoryError(), context="x")
        print(dump, classify_oom_exception(MemoryError()).is_oom, watchdog.get_cleanup_stats()["cleanup_count"])
    peak: Optional[int] = tracker.get_events("peak", last_n=1)[0].memory_allocated
    print(peak, tracker.get_statistics()["peak_memory"], tracker.get_memory_timeline(0.5)["allocated"][-1])
    tracker.export_events("events.csv", format="csv")
    print(tracker.collector_capabilities.supports_device_total, tracker.collector_capabilities["sampling_source"])
    with CPUMemoryTracker() as cpu:
        print(cpu.get_statistics()["current_memory_allocated"])


if __name__ == "__main__":
    main()

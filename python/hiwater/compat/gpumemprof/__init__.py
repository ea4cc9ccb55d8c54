# SPDX-License-Identifier: MIT
"""Replacement of gpumemprof's trackers, implemented by hiwater: only the import changes, to
`from hiwater.compat.gpumemprof import MemoryTracker`. Modules keep their names.

Events, rules on thresholds, statistics and timelines are hiwater's (hwi_pushes), and a recorder
process keeps the events even if this process is killed. docs/compat.md lists the differences from
gpu-memory-profiler 0.2.2 and its successor stormlog 0.4.3, with the reasons. Their profilers,
views, queries and inference tools are not included.
"""
from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .cpu_profiler import CPUMemoryTracker as CPUMemoryTracker
    from .device_collectors import DeviceMemoryCapabilities as DeviceMemoryCapabilities
    from .device_collectors import DeviceMemoryCollector as DeviceMemoryCollector
    from .device_collectors import DeviceMemorySample as DeviceMemorySample
    from .device_collectors import DeviceMemorySampleResult as DeviceMemorySampleResult
    from .device_collectors import build_device_memory_collector as build_device_memory_collector
    from .device_collectors import detect_torch_runtime_backend as detect_torch_runtime_backend
    from .events import TrackingEvent as TrackingEvent
    from .oom_flight_recorder import OOMExceptionClassification as OOMExceptionClassification
    from .oom_flight_recorder import OOMFlightRecorder as OOMFlightRecorder
    from .oom_flight_recorder import OOMFlightRecorderConfig as OOMFlightRecorderConfig
    from .oom_flight_recorder import classify_oom_exception as classify_oom_exception
    from .phases import PhaseHandle as PhaseHandle
    from .session import SessionSummary as SessionSummary
    from .telemetry import TelemetryEventV2 as TelemetryEventV2
    from .telemetry import TelemetryEventV3 as TelemetryEventV3
    from .telemetry import TelemetryEventV4 as TelemetryEventV4
    from .telemetry import load_telemetry_events as load_telemetry_events
    from .telemetry import resolve_distributed_identity as resolve_distributed_identity
    from .telemetry import telemetry_event_from_record as telemetry_event_from_record
    from .telemetry import telemetry_event_to_dict as telemetry_event_to_dict
    from .telemetry import validate_telemetry_record as validate_telemetry_record
    from .telemetry_sink import AppendOnlyTelemetrySink as AppendOnlyTelemetrySink
    from .telemetry_sink import TelemetrySinkConfig as TelemetrySinkConfig
    from .tracker import MemoryTracker as MemoryTracker
    from .tracker import MemoryWatchdog as MemoryWatchdog
    from .utils import convert_bytes as convert_bytes
    from .utils import format_bytes as format_bytes
    from .utils import get_gpu_info as get_gpu_info
    from .utils import get_system_info as get_system_info

__version__ = "0.2.2"

# Module: its public names, which are imported at first use.
_MODULES = {
    "cpu_profiler": ("CPUMemoryTracker",),
    "device_collectors": ("DeviceMemoryCapabilities", "DeviceMemoryCollector", "DeviceMemorySample",
                          "DeviceMemorySampleResult", "build_device_memory_collector", "detect_torch_runtime_backend"),
    "events": ("TrackingEvent",),
    "oom_flight_recorder": ("OOMExceptionClassification", "OOMFlightRecorder", "OOMFlightRecorderConfig",
                            "classify_oom_exception"),
    "phases": ("PhaseHandle",),
    "session": ("SessionSummary",),
    "telemetry": ("TelemetryEventV2", "TelemetryEventV3", "TelemetryEventV4", "load_telemetry_events", "resolve_distributed_identity",
                  "telemetry_event_from_record", "telemetry_event_to_dict", "validate_telemetry_record"),
    "telemetry_sink": ("AppendOnlyTelemetrySink", "TelemetrySinkConfig"),
    "tracker": ("MemoryTracker", "MemoryWatchdog"),
    "utils": ("convert_bytes", "format_bytes", "get_gpu_info", "get_system_info"),
}
_NAMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_NAMES)


def __getattr__(name: str) -> object:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

# SPDX-License-Identifier: MIT
"""Events as telemetry records: schema 2, which gpu-memory-profiler 0.2.2 writes and reads, and
schema 4 of stormlog, which also has the session, job and rank of an event and the capabilities of
its collector. Schema 3 of stormlog is read."""
from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Type, Union

from .device_collectors import SAMPLE_FIELDS, DeviceMemoryCapabilities

SCHEMA_VERSION_V2 = 2
SCHEMA_VERSION_V3 = 3
SCHEMA_VERSION_V4 = 4
UNKNOWN_PID = -1
UNKNOWN_HOST = "unknown"


@dataclass
class TelemetryEventV2:
    """A record of schema 2; sizes in bytes. Raises ValueError for invalid values."""

    schema_version: int
    timestamp_ns: int
    event_type: str
    collector: str
    sampling_interval_ms: int
    pid: int
    host: str
    device_id: int
    allocator_allocated_bytes: int
    allocator_reserved_bytes: int
    allocator_active_bytes: Optional[int]
    allocator_inactive_bytes: Optional[int]
    allocator_change_bytes: int
    device_used_bytes: int
    device_free_bytes: Optional[int]
    device_total_bytes: Optional[int]
    context: Optional[str]
    job_id: Optional[str] = None
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    metadata: Dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        validate_telemetry_record(telemetry_event_to_dict(self))


@dataclass
class _OfSession:
    """The fields of schemas 3 and 4."""

    schema_version: int
    session_id: str
    timestamp_ns: int
    event_type: str
    collector: str
    sampling_interval_ms: int
    pid: int
    host: str
    device_id: int
    allocator_allocated_bytes: Optional[int]
    allocator_reserved_bytes: Optional[int]
    allocator_active_bytes: Optional[int]
    allocator_inactive_bytes: Optional[int]
    allocator_change_bytes: Optional[int]
    device_used_bytes: Optional[int]
    device_free_bytes: Optional[int]
    device_total_bytes: Optional[int]
    context: Optional[str]
    job_id: Optional[str] = None
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    metadata: Dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        validate_telemetry_record(telemetry_event_to_dict(self))


class TelemetryEventV3(_OfSession):
    """A record of schema 3; the figures of schema 2 cannot be null."""


class TelemetryEventV4(_OfSession):
    """A record of schema 4; null means not measured."""


TelemetryEvent = Union[TelemetryEventV2, TelemetryEventV3, TelemetryEventV4]
_SCHEMAS: Dict[int, Type[Any]] = {SCHEMA_VERSION_V2: TelemetryEventV2, SCHEMA_VERSION_V3: TelemetryEventV3,
                                  SCHEMA_VERSION_V4: TelemetryEventV4}
_IDENTITY = {"job_id": None, "rank": 0, "local_rank": 0, "world_size": 1}  # may be missing; with their defaults

# The order of the fields in stormlog's records.
_ORDER = ("schema_version", "session_id", "timestamp_ns", "event_type", "collector", "sampling_interval_ms", "pid", "host",
             "job_id", "rank", "local_rank", "world_size", "device_id", "allocator_allocated_bytes",
             "allocator_reserved_bytes", "allocator_active_bytes", "allocator_inactive_bytes", "allocator_change_bytes",
             "device_used_bytes", "device_free_bytes", "device_total_bytes", "context", "metadata")


def telemetry_event_to_dict(event: Union[TelemetryEvent, _OfSession]) -> Dict[str, Any]:
    """The record of an event, in the order of its schema. Schema 2 of gpu-memory-profiler has no job
    and rank: only those that are set are added."""
    values = asdict(event)
    if isinstance(event, TelemetryEventV2) and all(values[name] == default for name, default in _IDENTITY.items()):
        return {name: value for name, value in values.items() if name not in _IDENTITY}
    return {name: values[name] for name in _ORDER if name in values}


# ---- validation ----------------------------------------------------------------------------------------------------------

def _integer(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be an integer")
    return value


def _at_least(least: int) -> Callable[[Any, str], None]:
    def check(value: Any, name: str) -> None:
        if _integer(value, name) < least:
            raise ValueError(f"{name} must be >= {least}")
    return check


def _text(value: Any, name: str) -> None:
    if value is None:
        raise ValueError(f"{name} must be a non-empty string")
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string")
    if not value.strip():
        raise ValueError(f"{name} must be a non-empty string")


def _context(value: Any, name: str) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string")


def _object(value: Any, name: str) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object")


def _any_integer(value: Any, name: str) -> None:
    _integer(value, name)


# Field: (check, may be null in schemas 2 and 3, may be null in schema 4).
_CHECKS: Dict[str, Tuple[Callable[[Any, str], None], bool, bool]] = {
    "schema_version": (_any_integer, False, False),
    "session_id": (_text, False, False),
    "timestamp_ns": (_at_least(0), False, False),
    "event_type": (_text, False, False),
    "collector": (_text, False, False),
    "sampling_interval_ms": (_at_least(0), False, False),
    "pid": (_at_least(-1), False, False),
    "host": (_text, False, False),
    "device_id": (_any_integer, False, False),
    "allocator_allocated_bytes": (_at_least(0), False, True),
    "allocator_reserved_bytes": (_at_least(0), False, True),
    "allocator_active_bytes": (_at_least(0), True, True),
    "allocator_inactive_bytes": (_at_least(0), True, True),
    "allocator_change_bytes": (_any_integer, False, True),
    "device_used_bytes": (_at_least(0), False, True),
    "device_free_bytes": (_at_least(0), True, True),
    "device_total_bytes": (_at_least(0), True, True),
    "context": (_context, True, True),
    "job_id": (_text, True, True),
    "rank": (_at_least(0), False, False),
    "local_rank": (_at_least(0), False, False),
    "world_size": (_at_least(1), False, False),
    "metadata": (_object, False, False),
}


def _check_fields(record: Mapping[str, Any], version: int) -> None:
    names = [f.name for f in fields(_SCHEMAS[version])]
    missing = [name for name in names if name not in record and name not in _IDENTITY]
    if missing:
        raise ValueError(f"Missing required telemetry fields: {', '.join(missing)}")
    unknown = sorted(str(name) for name in record if name not in names)
    if unknown:
        raise ValueError(f"Unknown telemetry fields: {', '.join(unknown)}")
    for name in record:
        check, null_in_2, null_in_4 = _CHECKS[name]
        if record[name] is not None or not (null_in_4 if version == SCHEMA_VERSION_V4 else null_in_2):
            check(record[name], name)


def _check_capabilities(record: Mapping[str, Any]) -> None:
    """Raises ValueError if a field is set that the collector does not provide."""
    capabilities = record["metadata"].get("memory_capabilities")
    if not isinstance(capabilities, Mapping):
        raise ValueError("metadata.memory_capabilities must be an object")
    names = [f.name for f in fields(DeviceMemoryCapabilities)]
    missing = [name for name in names if name not in capabilities]
    if missing:
        raise ValueError(f"Missing memory capability fields: {', '.join(missing)}")
    for name, capability in SAMPLE_FIELDS.values():
        if record[name] is not None and not capabilities[capability]:
            raise ValueError(f"{name} must be null when metadata.memory_capabilities.{capability} is false")
    if record["allocator_change_bytes"] is not None and not capabilities["supports_allocator_allocated"]:
        raise ValueError("allocator_change_bytes must be null when allocator allocated memory is unsupported")


def validate_telemetry_record(record: Mapping[str, Any]) -> None:
    """Raises ValueError unless record is a valid record of schema 2, 3 or 4."""
    version = _integer(record.get("schema_version"), "schema_version")
    if version not in _SCHEMAS:
        raise ValueError(f"Unsupported schema_version: {version}")
    _check_fields(record, version)
    total = record["device_total_bytes"]
    for name in ("device_used_bytes", "device_free_bytes"):
        if total is not None and record[name] is not None and record[name] > total:
            raise ValueError(f"{name} cannot exceed device_total_bytes")
    if version == SCHEMA_VERSION_V4:
        _check_capabilities(record)
    resolve_distributed_identity(**{name: record.get(name) for name in _IDENTITY})


# ---- from records, also those of older programs ----------------------------------------------------------------------------

# Field: its names in older records.
_OLD_NAMES = {
    "event_type": ("type",), "allocator_allocated_bytes": ("memory_allocated", "device_used_bytes"),
    "allocator_reserved_bytes": ("memory_reserved",), "allocator_change_bytes": ("memory_change",),
    "device_total_bytes": ("total_memory", "device_total", "total_bytes"), "context": ("message",),
}


def _first(record: Mapping[str, Any], name: str, default: Any = None) -> Any:
    return next((record[n] for n in (name, *_OLD_NAMES.get(name, ())) if n in record), default)


def _old_device_id(record: Mapping[str, Any]) -> int:
    """The device number; -1 is the CPU."""
    if "device_id" in record:
        return _integer(record["device_id"], "device_id")
    device = str(record.get("device", "")).lower()
    number = device.rpartition(":")[2]
    if number.isdigit() and "cpu" not in device:
        return int(number)
    return 0 if device.startswith("/gpu") or ("memory_mb" in record and "cpu" not in device) else -1


def _old_collector(record: Mapping[str, Any], metadata: Mapping[str, Any], device_id: int, default: str) -> str:
    backend = str(record.get("backend", metadata.get("backend", ""))).strip().lower()
    if record.get("collector"):
        return str(record["collector"])
    if backend in ("mps", "rocm", "cuda", "cpu"):
        return f"gpumemprof.{backend}_tracker"
    if "memory_mb" in record:
        return "tfmemprof.memory_tracker"
    if "memory_allocated" in record:
        return f"gpumemprof.{'cpu' if device_id == -1 else 'cuda'}_tracker"
    return default


def _old_time_ns(record: Mapping[str, Any]) -> int:
    if "timestamp_ns" in record:
        return _integer(record["timestamp_ns"], "timestamp_ns")
    seconds = record.get("timestamp")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise ValueError("Legacy record is missing a valid timestamp")
    return int(float(seconds) * 1e9)


def _from_old(record: Mapping[str, Any], collector: str, interval_ms: int) -> TelemetryEventV2:
    if not isinstance(record.get("metadata") or {}, Mapping):
        raise ValueError("metadata must be an object when provided")
    metadata = dict(record.get("metadata") or {})
    metadata.update({k[len("metadata_"):]: v for k, v in record.items() if str(k).startswith("metadata_")})
    allocated = _first(record, "allocator_allocated_bytes", int(float(record.get("memory_mb", 0)) * 1024 * 1024))
    used, device_id = record.get("device_used_bytes", allocated), _old_device_id(record)
    total = _first(record, "device_total_bytes", metadata.get("total_memory"))
    return TelemetryEventV2(
        schema_version=SCHEMA_VERSION_V2, timestamp_ns=_old_time_ns(record),
        event_type=_first(record, "event_type", "sample"),
        collector=_old_collector(record, metadata, device_id, collector),
        sampling_interval_ms=record.get("sampling_interval_ms", interval_ms),
        pid=record.get("pid", metadata.get("pid", UNKNOWN_PID)), host=record.get("host", metadata.get("host", UNKNOWN_HOST)),
        device_id=device_id, allocator_allocated_bytes=allocated,
        allocator_reserved_bytes=_first(record, "allocator_reserved_bytes", allocated),
        allocator_active_bytes=record.get("allocator_active_bytes"),
        allocator_inactive_bytes=record.get("allocator_inactive_bytes"),
        allocator_change_bytes=_first(record, "allocator_change_bytes", 0), device_used_bytes=used,
        device_free_bytes=record.get("device_free_bytes", None if total is None else max(total - used, 0)),
        device_total_bytes=total, context=_first(record, "context"), metadata=metadata)


_BACKENDS = ("cuda", "rocm", "mps", "cpu", "tensorflow", "jax")


def _capabilities_of(record: Mapping[str, Any]) -> Dict[str, Any]:
    """The capabilities of the collector of a record that does not have them: those of the fields
    that are set."""
    metadata, collector = record["metadata"], str(record.get("collector"))
    backend = metadata.get("backend") or next((name for name in _BACKENDS if name in collector.lower()), "unknown")
    has = {capability: record.get(name) is not None for name, capability in SAMPLE_FIELDS.values()}
    has_allocator = has["supports_allocator_allocated"] and has["supports_allocator_reserved"]
    return {"backend": str(backend), "telemetry_collector": collector,
            "sampling_source": str(metadata.get("sampling_source", "legacy")), **has,
            "supports_native_allocator_history": False, "supports_fragmentation_analysis": has_allocator,
            "supports_allocator_attribution": has_allocator, "supports_bounded_profiling": False}


def _session_of(record: Mapping[str, Any], default: Optional[str]) -> str:
    """The session of a record; for one without, the same for the same process and time."""
    found = record.get("session_id") or record["metadata"].get("session_id") or default
    parts = "::".join(str(record.get(name, "unknown")) for name in ("timestamp_ns", "host", "pid"))
    return found if isinstance(found, str) else f"legacy-{uuid.uuid5(uuid.NAMESPACE_URL, parts)}"


def _from_session_record(record: Mapping[str, Any], default_session_id: Optional[str]) -> TelemetryEvent:
    """The event, of schema 4, of a record of schema 3 or 4, which may lack its session and the
    capabilities of its collector."""
    if not isinstance(record.get("metadata"), Mapping):
        validate_telemetry_record(record)  # raises
    whole = {**record, "session_id": _session_of(record, default_session_id),
             "metadata": {"memory_capabilities": _capabilities_of(record), **record["metadata"]}}
    validate_telemetry_record(whole)
    identity = resolve_distributed_identity(**{name: record.get(name) for name in _IDENTITY})
    return TelemetryEventV4(**{**whole, **identity, "schema_version": SCHEMA_VERSION_V4})


def telemetry_event_from_record(record: Mapping[str, Any], permissive_legacy: bool = True,
                                default_collector: str = "legacy.unknown", default_sampling_interval_ms: int = 0,
                                default_session_id: Optional[str] = None) -> TelemetryEvent:
    """The event of a record of schema 2, or of schema 3 or 4 as one of schema 4; permissive_legacy:
    also of an older record without schema_version. default_session_id: of records of schema 3 and 4
    without a session. Raises ValueError."""
    if not isinstance(record, Mapping):
        raise ValueError("record must be a mapping")
    if record.get("schema_version") in (SCHEMA_VERSION_V3, SCHEMA_VERSION_V4):
        return _from_session_record(record, default_session_id)
    if "schema_version" in record:
        validate_telemetry_record(record)
        event: TelemetryEvent = _SCHEMAS[record["schema_version"]](**record)
        return event
    if not permissive_legacy:
        raise ValueError("Legacy record conversion is disabled")
    return _from_old(record, default_collector, default_sampling_interval_ms)


def _records(path: Path, events_key: Optional[str]) -> List[Any]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    payload = json.loads(text)
    if isinstance(payload, list):
        return payload
    if not isinstance(payload, Mapping):
        raise ValueError("Telemetry payload must be a JSON object or array")
    listed = payload.get(events_key or "events")
    if isinstance(listed, list):
        return listed
    if events_key is not None:
        raise ValueError(f"Top-level key '{events_key}' must contain a list of events")
    if not {"schema_version", "event_type", "type", "memory_allocated", "timestamp", "timestamp_ns"} & set(payload):
        raise ValueError("JSON payload does not contain telemetry events")
    return [payload]


def load_telemetry_events(path: Union[str, Path], permissive_legacy: bool = True,
                          events_key: Optional[str] = None, session_id: Optional[str] = None) -> List[TelemetryEvent]:
    """The events of a JSON file, a JSONL segment, or the folder of a telemetry sink; session_id:
    only those of this session. Raises ValueError for other content, and if there is no such
    session."""
    files = sorted(Path(path).glob("segment-*.jsonl")) if Path(path).is_dir() else [Path(path)]
    found: List[TelemetryEvent] = []
    for file in files:
        for number, record in enumerate(_records(file, events_key)):
            if not isinstance(record, Mapping):
                raise ValueError(f"Event at index {number} must be an object")
            found.append(telemetry_event_from_record(record, permissive_legacy))
    if session_id is None:
        return found
    found = [event for event in found if _session(event) == session_id]
    if not found:
        raise ValueError(f"Requested session_id not found: {session_id}")
    return found


def _session(event: TelemetryEvent) -> Optional[str]:
    found: Optional[str] = event.metadata.get("session_id") if isinstance(event, TelemetryEventV2) else event.session_id
    return found


# ---- job and rank --------------------------------------------------------------------------------------------------------

_JOB_IDS = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID")
_RANKS = (("RANK", "LOCAL_RANK", "WORLD_SIZE"),
          ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
          ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"))


def _from_environment(env: Mapping[str, str]) -> Dict[str, Any]:
    from_env: Dict[str, Any] = {"job_id": next((env[k].strip() for k in _JOB_IDS if env.get(k, "").strip()), None)}
    for rank, local_rank, world_size in _RANKS:
        if env.get(rank, "").strip() and env.get(world_size, "").strip():
            words = {"rank": env[rank], "local_rank": env.get(local_rank) or env[rank], "world_size": env[world_size]}
            for name, word in words.items():
                try:
                    from_env[name] = int(word)
                except ValueError:
                    raise ValueError(f"{name} must be an integer") from None
            break
    return from_env


def resolve_distributed_identity(*, job_id: Optional[str] = None, rank: Optional[int] = None,
                                 local_rank: Optional[int] = None, world_size: Optional[int] = None,
                                 metadata: Optional[Mapping[str, Any]] = None,
                                 env: Optional[Mapping[str, str]] = None) -> Dict[str, Any]:
    """job_id, rank, local_rank and world_size: as given, else from metadata, else from the
    environment of the launcher (torchrun, Open MPI, Slurm), else those of a single process. Raises
    ValueError for invalid values."""
    given = {"job_id": job_id, "rank": rank, "local_rank": local_rank, "world_size": world_size}
    from_metadata = {name: (metadata or {}).get(name) for name in given}
    found = {name: value if value is not None else from_metadata[name] for name, value in given.items()}
    if env is not None and any(found[name] is None for name in found):
        from_env = _from_environment(env)
        found = {name: from_env.get(name) if value is None else value for name, value in found.items()}
    found["world_size"] = 1 if found["world_size"] is None else found["world_size"]
    found["rank"] = 0 if found["rank"] is None else found["rank"]
    found["local_rank"] = found["rank"] if found["local_rank"] is None else found["local_rank"]
    for name in ("job_id", "rank", "local_rank", "world_size"):
        if found[name] is not None:
            _CHECKS[name][0](found[name], name)
    size = _integer(found["world_size"], "world_size")
    for name in ("rank", "local_rank"):
        if _integer(found[name], name) >= size:
            raise ValueError(f"{name} must be < world_size")
    return found

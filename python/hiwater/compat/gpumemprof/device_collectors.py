# SPDX-License-Identifier: MIT
"""Collectors of device memory: CUDA, ROCm and MPS through PyTorch's allocators, or a collector of
the program.

PyTorch's counters are read in one call per sample, without synchronising with the device; peaks are
not reset."""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Dict, Iterator, Optional, Tuple, Type, Union

from .utils import needed_torch


@dataclass(frozen=True)
class DeviceMemorySample:
    """Bytes; None is unknown. used: memory of the device that this process uses; peak: the
    allocator's high-water mark, which the program may have reset."""

    allocated_bytes: Optional[int]
    reserved_bytes: Optional[int]
    used_bytes: Optional[int]
    free_bytes: Optional[int]
    total_bytes: Optional[int]
    active_bytes: Optional[int]
    inactive_bytes: Optional[int]
    device_id: int
    peak_bytes: Optional[int] = None


@dataclass(frozen=True)
class DeviceMemorySampleResult:
    """A sample, if available, and the fields and errors of a partial or failed read."""

    sample: Optional[DeviceMemorySample]
    partial_fields: Tuple[str, ...] = ()
    errors: Dict[str, str] = field(default_factory=dict)
    core_error: Optional[str] = None

    @property
    def is_partial(self) -> bool:
        return self.sample is not None and bool(self.partial_fields)

    @property
    def is_core_failure(self) -> bool:
        return self.sample is None


@dataclass(frozen=True)
class DeviceMemoryCapabilities(Mapping):  # type: ignore[type-arg]
    """The figures that a collector provides: attributes, and a mapping with the same names."""

    backend: str
    telemetry_collector: str
    sampling_source: str
    supports_allocator_allocated: bool = False
    supports_allocator_reserved: bool = False
    supports_allocator_active: bool = False
    supports_allocator_inactive: bool = False
    supports_device_used: bool = False
    supports_device_free: bool = False
    supports_device_total: bool = False
    supports_native_allocator_history: bool = False
    supports_fragmentation_analysis: bool = False
    supports_allocator_attribution: bool = False
    supports_bounded_profiling: bool = False

    def __post_init__(self) -> None:
        for name in ("backend", "telemetry_collector", "sampling_source"):
            if not getattr(self, name).strip():
                raise ValueError(f"{name} must be a non-empty string")
        wanting = [name for name in _ALLOCATOR_FEATURES if getattr(self, name)]
        if wanting and not (self.supports_allocator_allocated and self.supports_allocator_reserved):
            raise ValueError(f"allocator features require allocated and reserved counters: {', '.join(wanting)}")
        if not (self.supports_allocator_allocated or self.supports_device_used):
            raise ValueError("collector must support allocator allocated or device used memory")

    @classmethod
    def from_mapping(cls, value: Mapping[str, Any]) -> DeviceMemoryCapabilities:
        """From a mapping, which may lack the fields that gpumemprof 0.2.2 did not have."""
        made: Dict[str, Any] = {name: str(value.get(name, default)) for name, default in _TEXTS.items()}
        made.update({name: bool(value.get(name, default)) for name, default in _LEGACY.items()})
        return cls(**made)

    def to_metadata(self) -> Dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __getitem__(self, name: str) -> Any:
        if name not in _FIELDS:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(_FIELDS)

    def __len__(self) -> int:
        return len(_FIELDS)


_ALLOCATOR_FEATURES = ("supports_native_allocator_history", "supports_fragmentation_analysis",
                       "supports_allocator_attribution", "supports_bounded_profiling")
_TEXTS = {"backend": "unknown", "telemetry_collector": "legacy.unknown", "sampling_source": "unknown"}
_LEGACY = {
    "supports_allocator_allocated": True, "supports_allocator_reserved": True, "supports_allocator_active": True,
    "supports_allocator_inactive": True, "supports_device_used": True, "supports_device_free": False,
    "supports_device_total": False, "supports_native_allocator_history": False, "supports_fragmentation_analysis": True,
    "supports_allocator_attribution": True, "supports_bounded_profiling": False,
}
_FIELDS = tuple(f.name for f in fields(DeviceMemoryCapabilities))

# Field of a sample: (its name in telemetry, the capability that it needs).
SAMPLE_FIELDS = {
    "allocated_bytes": ("allocator_allocated_bytes", "supports_allocator_allocated"),
    "reserved_bytes": ("allocator_reserved_bytes", "supports_allocator_reserved"),
    "active_bytes": ("allocator_active_bytes", "supports_allocator_active"),
    "inactive_bytes": ("allocator_inactive_bytes", "supports_allocator_inactive"),
    "used_bytes": ("device_used_bytes", "supports_device_used"),
    "free_bytes": ("device_free_bytes", "supports_device_free"),
    "total_bytes": ("device_total_bytes", "supports_device_total"),
}


def _check_value(value: Optional[int], name: str, is_supported: bool, is_partial: bool) -> None:
    if value is None:
        if is_supported and not is_partial:
            raise ValueError(f"{name} is missing without a partial-field diagnostic")
        if is_partial and not is_supported:
            raise ValueError(f"{name} is unsupported and must not be marked partial")
    elif value < 0:
        raise ValueError(f"{name} must be >= 0 when provided")
    elif not is_supported:
        raise ValueError(f"{name} was provided by a collector that declares it unsupported")
    elif is_partial:
        raise ValueError(f"{name} is populated but marked partial")


def validate_device_memory_sample(sample: DeviceMemorySample, capabilities: DeviceMemoryCapabilities, *,
                                  partial_fields: Tuple[str, ...] = ()) -> None:
    """Raises ValueError for a sample that contradicts the capabilities of its collector."""
    unknown = sorted(set(partial_fields) - {name for name, _ in SAMPLE_FIELDS.values()})
    if unknown:
        raise ValueError(f"unknown partial sample fields: {', '.join(unknown)}")
    for attribute, (name, capability) in SAMPLE_FIELDS.items():
        _check_value(getattr(sample, attribute), name, bool(getattr(capabilities, capability)), name in partial_fields)
    if all(getattr(sample, attribute) is None for attribute in SAMPLE_FIELDS):
        raise ValueError("device memory sample contains no supported measurements")
    if sample.total_bytes is not None:
        for attribute in ("used_bytes", "free_bytes"):
            value = getattr(sample, attribute)
            if value is not None and value > sample.total_bytes:
                raise ValueError(f"{SAMPLE_FIELDS[attribute][0]} cannot exceed device_total_bytes")


class DeviceMemoryCollector(ABC):
    """Reads one device. A program may provide its own: MemoryTracker(collector=...)."""

    @abstractmethod
    def name(self) -> str:
        """The backend: cuda, rocm, mps, or a name of the program's choice."""

    @abstractmethod
    def is_available(self) -> bool:
        """True if it can sample in this process."""

    @abstractmethod
    def sample(self) -> DeviceMemorySample:
        """The present use. Raises if it is not available."""

    @abstractmethod
    def capabilities(self) -> Union[DeviceMemoryCapabilities, Mapping[str, Any]]:
        """The figures that its samples have."""

    def sample_with_diagnostics(self) -> DeviceMemorySampleResult:
        """As `sample`, with the error in the result instead of an exception."""
        try:
            return DeviceMemorySampleResult(sample=self.sample())
        except Exception as e:
            return DeviceMemorySampleResult(sample=None, errors={"core_metrics": str(e)}, core_error=str(e))


def _needed(result: DeviceMemorySampleResult, what: str) -> DeviceMemorySample:
    if result.sample is None:
        raise RuntimeError(result.core_error or f"{what} sample collection failed")
    return result.sample


def _failed(names: Tuple[str, ...], error: Exception, partial: Dict[str, str]) -> None:
    partial.update({name: str(error) for name in names})


# ---- PyTorch -----------------------------------------------------------------------------------------------------------

def _is_mps_available(torch: Any) -> bool:
    mps = getattr(torch.backends, "mps", None)
    try:
        return bool(mps is not None and mps.is_available())
    except Exception:
        return False


def detect_torch_runtime_backend() -> str:
    """"cuda", "rocm", "mps", or "cpu" if PyTorch has no GPU."""
    torch = needed_torch()
    if torch.cuda.is_available():
        return "rocm" if getattr(torch.version, "hip", None) else "cuda"
    return "mps" if _is_mps_available(torch) else "cpu"


def resolve_device(device: Optional[Union[str, int, Any]]) -> Any:
    """The torch.device: the current one for None, the CUDA device for a number."""
    torch = needed_torch()
    if device is None:
        backend = detect_torch_runtime_backend()
        if backend == "cpu":
            raise RuntimeError("No supported GPU backend is available")
        return torch.device("mps" if backend == "mps" else f"cuda:{torch.cuda.current_device()}")
    if isinstance(device, int):
        if detect_torch_runtime_backend() not in ("cuda", "rocm"):
            raise ValueError("Integer device IDs are only supported for CUDA/ROCm backends")
        return torch.device(f"cuda:{device}")
    return torch.device(device) if isinstance(device, str) else device


def tracked_device(device: Optional[Union[str, int, Any]]) -> Any:
    """The torch.device to track. Raises ValueError or RuntimeError if it cannot be tracked."""
    torch = needed_torch()
    resolved = resolve_device(device)
    if resolved.type not in ("cuda", "mps"):
        raise ValueError("Only CUDA/ROCm or MPS devices are supported for GPU memory tracking")
    if resolved.type == "mps":
        if detect_torch_runtime_backend() != "mps":
            raise RuntimeError("MPS backend is not available in this runtime")
        return resolved
    if not torch.cuda.is_available():
        raise RuntimeError("CUDA/ROCm backend is not available in this runtime")
    index = torch.cuda.current_device() if resolved.index is None else resolved.index
    if index >= torch.cuda.device_count():
        raise ValueError(f"Device {resolved} is not available")
    return torch.device(f"cuda:{index}")


class CudaDeviceCollector(DeviceMemoryCollector):
    """CUDA's caching allocator, as torch.cuda reports it."""

    telemetry_collector = "gpumemprof.cuda_tracker"
    sampling_source = "torch.cuda.memory_allocated/reserved"

    def __init__(self, device: Optional[Union[str, int, Any]] = None) -> None:
        self.device = resolve_device(device)
        if self.device.type != "cuda":
            raise ValueError("CUDA collector requires a CUDA device")
        self._total: Optional[int] = None

    def name(self) -> str:
        return "cuda"

    def is_available(self) -> bool:
        return detect_torch_runtime_backend() == self.name()

    def sample(self) -> DeviceMemorySample:
        return _needed(self.sample_with_diagnostics(), "CUDA")

    def _stats(self, cuda: Any, partial: Dict[str, str]) -> Mapping[str, int]:
        try:
            stats: Mapping[str, int] = cuda.memory_stats(self.device)
            return stats
        except Exception as e:
            _failed(("allocator_active_bytes", "allocator_inactive_bytes"), e, partial)
            return {}

    def _total_bytes(self, cuda: Any, partial: Dict[str, str]) -> Optional[int]:
        if self._total is None:
            try:
                self._total = int(cuda.get_device_properties(self.device).total_memory)
            except Exception as e:
                _failed(("device_total_bytes", "device_free_bytes"), e, partial)
        return self._total

    def sample_with_diagnostics(self) -> DeviceMemorySampleResult:
        cuda = needed_torch().cuda
        partial: Dict[str, str] = {}
        stats = self._stats(cuda, partial)
        try:
            index = cuda.current_device() if self.device.index is None else self.device.index
            allocated = stats.get("allocated_bytes.all.current")
            reserved = stats.get("reserved_bytes.all.current")
            allocated = int(cuda.memory_allocated(self.device) if allocated is None else allocated)
            reserved = int(cuda.memory_reserved(self.device) if reserved is None else reserved)
        except Exception as e:
            return DeviceMemorySampleResult(sample=None, errors={"core_metrics": str(e)}, core_error=str(e))
        used, total = max(allocated, reserved), self._total_bytes(cuda, partial)
        is_had = "allocator_active_bytes" not in partial
        sample = DeviceMemorySample(
            allocated_bytes=allocated, reserved_bytes=reserved, used_bytes=used,
            free_bytes=None if total is None else max(total - used, 0), total_bytes=total,
            active_bytes=int(stats.get("active_bytes.all.current", 0)) if is_had else None,
            inactive_bytes=int(stats.get("inactive_split_bytes.all.current", 0)) if is_had else None,
            device_id=index, peak_bytes=stats.get("allocated_bytes.all.peak"))
        return DeviceMemorySampleResult(sample=sample, partial_fields=tuple(partial), errors=partial)

    def capabilities(self) -> DeviceMemoryCapabilities:
        supported = {name: True for name in _FIELDS if name.startswith("supports_")}
        return DeviceMemoryCapabilities(backend=self.name(), telemetry_collector=self.telemetry_collector,
                                        sampling_source=self.sampling_source, **supported)


class ROCmDeviceCollector(CudaDeviceCollector):
    """The same for AMD's GPUs, which PyTorch also presents as torch.cuda."""

    telemetry_collector = "gpumemprof.rocm_tracker"
    sampling_source = "torch.cuda.memory_* (HIP runtime)"

    def name(self) -> str:
        return "rocm"


class MPSDeviceCollector(DeviceMemoryCollector):
    """Apple's Metal, as torch.mps reports it."""

    telemetry_collector = "gpumemprof.mps_tracker"
    sampling_source = "torch.mps.current_allocated_memory/driver_allocated_memory"

    def __init__(self, device: Optional[Union[str, int, Any]] = None) -> None:
        self.device = resolve_device(device)
        if self.device.type != "mps":
            raise ValueError("MPS collector requires an MPS device")

    def name(self) -> str:
        return "mps"

    def is_available(self) -> bool:
        return _is_mps_available(needed_torch())

    def sample(self) -> DeviceMemorySample:
        return _needed(self.sample_with_diagnostics(), "MPS")

    @staticmethod
    def _total_bytes(mps: Any, partial: Dict[str, str]) -> Optional[int]:
        """The limit that Metal recommends, in bytes, in place of the size, which it does not
        report."""
        if not hasattr(mps, "recommended_max_memory"):
            return None
        try:
            total = int(mps.recommended_max_memory())
            if total > 0:
                return total
            raise ValueError("Metal reports no recommended size")
        except Exception as e:
            _failed(("device_total_bytes", "device_free_bytes"), e, partial)
            return None

    def sample_with_diagnostics(self) -> DeviceMemorySampleResult:
        mps = needed_torch().mps
        partial: Dict[str, str] = {}
        try:
            allocated, reserved = int(mps.current_allocated_memory()), int(mps.driver_allocated_memory())
        except Exception as e:
            return DeviceMemorySampleResult(sample=None, errors={"core_metrics": str(e)}, core_error=str(e))
        used, total = max(allocated, reserved), self._total_bytes(mps, partial)
        sample = DeviceMemorySample(
            allocated_bytes=allocated, reserved_bytes=reserved, used_bytes=used if total is None else min(used, total),
            free_bytes=None if total is None else max(total - used, 0), total_bytes=total, active_bytes=None,
            inactive_bytes=None, device_id=0)
        return DeviceMemorySampleResult(sample=sample, partial_fields=tuple(partial), errors=partial)

    def capabilities(self) -> DeviceMemoryCapabilities:
        has_total = hasattr(needed_torch().mps, "recommended_max_memory")
        return DeviceMemoryCapabilities(
            backend=self.name(), telemetry_collector=self.telemetry_collector, sampling_source=self.sampling_source,
            supports_allocator_allocated=True, supports_allocator_reserved=True, supports_device_used=True,
            supports_device_free=has_total, supports_device_total=has_total)


_COLLECTORS: Dict[str, Type[Any]] = {"cuda": CudaDeviceCollector, "rocm": ROCmDeviceCollector, "mps": MPSDeviceCollector}


def build_device_memory_collector(device: Optional[Union[str, int, Any]] = None) -> DeviceMemoryCollector:
    """The collector for a device. Raises ValueError or RuntimeError if it cannot be tracked."""
    resolved = resolve_device(device)
    if resolved.type not in ("cuda", "mps"):
        raise ValueError("Only CUDA/ROCm and MPS devices are supported for tracking")
    is_rocm = resolved.type == "cuda" and detect_torch_runtime_backend() == "rocm"
    collector: DeviceMemoryCollector = _COLLECTORS["rocm" if is_rocm else resolved.type](resolved)
    return collector

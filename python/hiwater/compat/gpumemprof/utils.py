# SPDX-License-Identifier: MIT
"""Sizes as text, and information about the machine and its GPU."""
from __future__ import annotations

import os
import sys
from typing import Any, Dict, Optional, Union

UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


def needed_torch() -> Any:
    """Imports PyTorch. Raises ImportError with the remedy if it is not installed."""
    from importlib import import_module

    try:
        return import_module("torch")
    except ModuleNotFoundError as e:
        if e.name != "torch":
            raise
        raise ImportError("PyTorch is required for this feature: pip install torch, or see "
                          "https://pytorch.org/get-started/locally/") from e


def scaled_text(value: float, precision: int, most: int = len(UNITS) - 1) -> str:
    """A size as text, such as "1.50 KB" for 1536; most: index of the largest unit."""
    size, unit = abs(float(value)), 0
    while size >= 1024 and unit < most:
        size, unit = size / 1024, unit + 1
    return f"{'-' if value < 0 else ''}{size:.{precision}f} {UNITS[unit]}"


def format_bytes(bytes_value: int, precision: int = 2) -> str:
    """A size as text, such as "1.25 GB", with factors of 1024."""
    return "0 B" if bytes_value == 0 else scaled_text(bytes_value, precision)


def convert_bytes(value: Union[int, float], from_unit: str, to_unit: str) -> float:
    """Converts between B, KB, MB, GB and TB, with factors of 1024. Raises ValueError for another
    unit."""
    units = UNITS[:5]
    if from_unit not in units or to_unit not in units:
        raise ValueError(f"Invalid unit. Must be one of: {list(units)}")
    return value * 1024.0 ** (units.index(from_unit) - units.index(to_unit))


# ---- the machine -------------------------------------------------------------------------------------------------------

def _memory() -> Dict[str, Any]:
    """Memory of the host."""
    lines: Dict[str, int] = {}
    with open("/proc/meminfo", encoding="ascii", errors="replace") as f:
        for line in f:
            name, _, rest = line.partition(":")
            lines[name] = int(rest.split()[0]) * 1024
    total, available = lines["MemTotal"], lines["MemAvailable"]
    return {"memory_total": total, "memory_available": available,
            "memory_percent": round((total - available) / total * 100, 1)}


def _torch_info(torch: Any) -> Dict[str, Any]:
    from .device_collectors import detect_torch_runtime_backend

    mps = getattr(torch.backends, "mps", None)
    backend = detect_torch_runtime_backend()
    has_cuda = backend in ("cuda", "rocm")
    info = {
        "torch_available": True,
        "cuda_available": has_cuda,
        "rocm_available": backend == "rocm",
        "rocm_version": torch.version.hip if backend == "rocm" else None,
        "mps_available": bool(mps and mps.is_available()),
        "mps_built": bool(mps and mps.is_built()),
        "detected_backend": backend,
    }
    if has_cuda:
        cudnn = getattr(torch.backends, "cudnn", None)
        info.update(cuda_device_count=torch.cuda.device_count(), cuda_version=torch.version.cuda,
                    cudnn_version=cudnn.version() if cudnn is not None else None,
                    current_device=torch.cuda.current_device())
    return info


_NO_TORCH = {"torch_available": False, "cuda_available": False, "rocm_available": False, "rocm_version": None,
             "mps_available": False, "mps_built": False, "detected_backend": "cpu"}


def get_system_info() -> Dict[str, Any]:
    """Platform, Python, PyTorch's backends, CPUs and memory of this machine. Does not raise."""
    uname = os.uname()
    info: Dict[str, Any] = {"platform": uname.sysname, "architecture": uname.machine, "python_version": sys.version}
    try:
        info.update(_torch_info(needed_torch()))
    except ImportError:
        info.update(_NO_TORCH)
    except Exception as e:
        info.update(_NO_TORCH, torch_available=True, torch_error=str(e))
    try:
        info.update(cpu_count=os.cpu_count(), cpu_count_logical=os.cpu_count(), **_memory())
    except (OSError, KeyError, ValueError) as e:
        info["system_info_error"] = str(e)
    return info


# ---- its GPU -----------------------------------------------------------------------------------------------------------

def _index_of(torch: Any, device: Any) -> int:
    if device is None:
        return int(torch.cuda.current_device())
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        device = torch.device(device)
    return int(device.index or 0)


def _smi_info(index: int) -> Dict[str, Any]:
    """Output of nvidia-smi, if it is installed."""
    import subprocess

    fields = "memory.total,memory.used,memory.free,utilization.gpu,temperature.gpu,power.draw"
    keys = ("memory_total_mb", "memory_used_mb", "memory_free_mb", "gpu_utilization_percent", "temperature_c", "power_draw_w")
    try:
        said = subprocess.run(["nvidia-smi", f"--id={index}", f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, timeout=5, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    info: Dict[str, Any] = {}
    for key, word in zip(keys, said.split(",")):
        try:
            info[key] = float(word) if key == "power_draw_w" else int(word)
        except ValueError:
            info[key] = None  # "[N/A]"
    return {"nvidia_smi_info": info} if info else {}


def allocator_info(torch: Any, index: int) -> Dict[str, Any]:
    stats = torch.cuda.memory_stats(index)
    names = {"active_bytes": "active_bytes.all.current", "inactive_bytes": "inactive_split_bytes.all.current",
             "reserved_bytes": "reserved_bytes.all.current", "num_alloc_retries": "num_alloc_retries", "num_ooms": "num_ooms"}
    return {
        "allocated_memory": torch.cuda.memory_allocated(index),
        "reserved_memory": torch.cuda.memory_reserved(index),
        "max_memory_allocated": torch.cuda.max_memory_allocated(index),
        "max_memory_reserved": torch.cuda.max_memory_reserved(index),
        "memory_stats": {name: stats.get(key, 0) for name, key in names.items()},
    }


def get_gpu_info(device: Optional[Union[str, int, Any]] = None, *, smi: bool = True) -> Dict[str, Any]:
    """Name, size and use of a CUDA or ROCm device (default: the current one). smi: also run
    nvidia-smi, which may take seconds."""
    torch = needed_torch()
    if not torch.cuda.is_available():
        return {"error": "CUDA is not available"}
    index = _index_of(torch, device)
    properties = torch.cuda.get_device_properties(index)
    info = {
        "device_id": index,
        "device_name": torch.cuda.get_device_name(index),
        "device_capability": torch.cuda.get_device_capability(index),
        "total_memory": properties.total_memory,
        "multiprocessor_count": properties.multi_processor_count,
        "cuda_version": torch.version.cuda,
        "pytorch_version": torch.__version__,
    }
    try:
        info.update(allocator_info(torch, index))
    except Exception as e:
        info["memory_error"] = str(e)
    if smi:
        info.update(_smi_info(index))
    return info

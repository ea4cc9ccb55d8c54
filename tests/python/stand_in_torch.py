# SPDX-License-Identifier: MIT
"""A stand-in for PyTorch on a machine without a GPU: its devices and the counters of a caching
allocator, as a program sees them. install() puts it in the place of the real package; tests
allocate and free explicitly."""
import sys
import types

MIB = 1 << 20


class Device:
    """torch.device"""

    def __init__(self, text):
        self.type, _, number = str(text).partition(":")
        if self.type not in ("cuda", "mps", "cpu"):
            raise RuntimeError(f"Expected one of cpu, cuda, mps device type at start of device string: {text}")
        self.index = int(number) if number else None

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other):
        return str(self) == str(other)


class Allocator:
    """Rounds up to blocks of 2 MiB and keeps freed blocks until empty_cache; half of the cache
    counts as split blocks."""

    def __init__(self, total):
        self.total, self.sizes = total, {}
        self.allocated = self.reserved = self.peak = self.number = 0
        self.fails = None

    def allocate(self, size):
        if self.allocated + size > self.total:
            raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size / MIB:.2f} MiB. GPU 0 has a total capacity of "
                                   f"{self.total / MIB:.2f} MiB")
        self.number += 1
        self.sizes[self.number] = size
        self.allocated += size
        self.peak = max(self.peak, self.allocated)
        self.reserved = max(self.reserved, -(-self.allocated // (2 * MIB)) * 2 * MIB)
        return self.number

    def free(self, number):
        self.allocated -= self.sizes.pop(number)

    def stats(self):
        if self.fails:
            raise RuntimeError(self.fails)
        return {"allocated_bytes.all.current": self.allocated, "allocated_bytes.all.peak": self.peak,
                "reserved_bytes.all.current": self.reserved, "active_bytes.all.current": self.allocated,
                "inactive_split_bytes.all.current": (self.reserved - self.allocated) // 2, "num_alloc_retries": 0, "num_ooms": 0}


class OutOfMemoryError(RuntimeError):
    pass


OutOfMemoryError.__module__ = "torch"


class Torch(types.ModuleType):
    """gpus: number of devices. hip: presents ROCm. mps: presents Apple's Metal."""

    def __init__(self, gpus=1, hip=None, mps=False, total=1000 * MIB):
        super().__init__("torch")
        self.gpus = [Allocator(total) for _ in range(gpus)]
        self.calls = []
        self.device, self.__version__ = Device, "2.13.0"
        self.OutOfMemoryError = OutOfMemoryError
        self.version = types.SimpleNamespace(cuda="12.8", hip=hip)
        self.backends = types.SimpleNamespace(
            cudnn=types.SimpleNamespace(version=lambda: 90000),
            mps=types.SimpleNamespace(is_available=lambda: mps, is_built=lambda: mps))
        self.cuda = self._cuda()
        if mps:
            self.mps = self._mps()

    def _of(self, device):
        if isinstance(device, Device):
            device = device.index
        return self.gpus[device or 0]

    def _call(self, name):
        return lambda *_: self.calls.append(name)

    def _empty(self, *_):
        self.calls.append("empty_cache")
        for gpu in self.gpus:
            gpu.reserved = gpu.allocated

    def _cuda(self):
        properties = lambda d=None: types.SimpleNamespace(total_memory=self._of(d).total, multi_processor_count=132)  # noqa: E731
        return types.SimpleNamespace(
            is_available=lambda: bool(self.gpus), device_count=lambda: len(self.gpus), current_device=lambda: 0,
            is_initialized=lambda: bool(self.gpus), get_device_properties=properties,
            get_device_name=lambda d=None: "NVIDIA H100", get_device_capability=lambda d=None: (9, 0),
            memory_stats=lambda d=None: self._of(d).stats(), memory_allocated=lambda d=None: self._of(d).stats()["allocated_bytes.all.current"],
            memory_reserved=lambda d=None: self._of(d).stats()["reserved_bytes.all.current"],
            max_memory_allocated=lambda d=None: self._of(d).peak, max_memory_reserved=lambda d=None: self._of(d).reserved,
            mem_get_info=lambda d=None: (self._of(d).total - self._of(d).reserved - 100 * MIB, self._of(d).total),
            OutOfMemoryError=OutOfMemoryError, empty_cache=self._empty, synchronize=self._call("synchronize"))

    def _mps(self):
        return types.SimpleNamespace(
            current_allocated_memory=lambda: self.gpus[0].allocated, driver_allocated_memory=lambda: self.gpus[0].reserved,
            recommended_max_memory=lambda: self.gpus[0].total, empty_cache=self._empty)


def install(**options):
    """Puts the stand-in into sys.modules as torch."""
    torch = Torch(**options)
    if options.get("mps"):
        torch.cuda.is_available = lambda: False
    sys.modules["torch"] = torch
    return torch

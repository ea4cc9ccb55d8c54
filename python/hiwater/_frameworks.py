# SPDX-License-Identifier: MIT
"""Device memory as the allocators of PyTorch, JAX and TensorFlow report it, which is known only
inside the interpreter.

This module imports no framework and initialises no device: it reads only frameworks that the
program already uses. It does not synchronise with a device and does not reset peak counters, since
other code reads them. Figures become series FRAMEWORK/DEVICE/FIGURE (`torch/gpu0/allocated_bytes`),
which the summary shows next to the driver's figures. DEVICE is gpuN, where N is CUDA's number of
the device in PCI order, or the uuid of the device where that number is unknown.

allocated_bytes       allocated to tensors now, bytes; allocated_peak_bytes: the peak in this run
reserved_bytes        reserved from the driver now, bytes; reserved_peak_bytes: the peak in this run
fragmentation         idle parts of split blocks, which cannot be released, as a share of reserved memory (0 to 1)
alloc_retries         requests that succeeded only after the cache was emptied, in this run
ooms                  out-of-memory errors of the device, in this run
"""
from __future__ import annotations

import os
import sys
import threading
import time

from ._messages import text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Sequence, Set, Tuple

    Figures = Dict[str, float]

PERIOD_S = 1.0   # of the thread
GENTLE_S = 0.1   # least time between two reads from log()
PEAKS = ("allocated", "reserved")
COUNTS = ("alloc_retries", "ooms")


# ---- names of devices --------------------------------------------------------------------------------------------------

def device_name(number: int, names: Sequence[str] = (), uuid: Optional[str] = None,
                environ: Optional[Mapping[str, str]] = None) -> str:
    """The name of the framework's device with this number, an index into the devices that
    CUDA_VISIBLE_DEVICES leaves. names: model names of all visible devices; if they differ and CUDA
    sorts by speed, only the uuid identifies the device."""
    environ = os.environ if environ is None else environ
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        words = [word.strip() for word in chosen.split(",")]
        if number < len(words) and not words[number].isdigit():
            return words[number] or f"gpu{number}"
        if number < len(words):
            number = int(words[number])
    elif len(set(names)) > 1 and environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID" and uuid:
        return uuid
    return f"gpu{number}"


# ---- readers: yield (device, figures) of all devices that the program uses through a framework -------------------------

def _torch(torch: Any) -> Iterator[Tuple[str, Figures]]:
    cuda = torch.cuda
    if not cuda.is_initialized():
        return
    count = cuda.device_count()
    properties = [cuda.get_device_properties(i) for i in range(count)]
    for i in range(count):
        stats = cuda.memory_stats(i)
        reserved = stats.get("reserved_bytes.all.current", 0)
        if not stats.get("reserved_bytes.all.peak", 0):
            continue  # this process has reserved nothing on this device
        uuid = getattr(properties[i], "uuid", None)
        name = device_name(i, [p.name for p in properties], uuid and f"GPU-{uuid}")
        yield name, {
            "allocated_bytes": stats.get("allocated_bytes.all.current", 0),
            "allocated_peak_bytes": stats.get("allocated_bytes.all.peak", 0),
            "reserved_bytes": reserved,
            "reserved_peak_bytes": stats.get("reserved_bytes.all.peak", 0),
            "fragmentation": stats.get("inactive_split_bytes.all.current", 0) / reserved if reserved else 0.0,
            "alloc_retries": stats.get("num_alloc_retries", 0),
            "ooms": stats.get("num_ooms", 0),
        }


def _jax(jax: Any) -> Iterator[Tuple[str, Figures]]:
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    if bridge is None or not bridge.backends_are_initialized():
        return  # local_devices() would initialise them
    for device in jax.local_devices():
        stats = device.memory_stats()
        if not stats or device.platform not in ("gpu", "cuda", "rocm"):
            continue
        number = getattr(device, "local_hardware_id", None)
        yield device_name(device.id if number is None else number), _known({
            "allocated_bytes": stats.get("bytes_in_use"), "allocated_peak_bytes": stats.get("peak_bytes_in_use"),
            "reserved_bytes": stats.get("bytes_reserved") or stats.get("pool_bytes"),
            "reserved_peak_bytes": stats.get("peak_bytes_reserved") or stats.get("peak_pool_bytes"),
        })


def _tensorflow(tensorflow: Any) -> Iterator[Tuple[str, Figures]]:
    eager: Any = sys.modules.get("tensorflow.python.eager.context")
    context = eager.context_safe() if eager is not None else None
    if context is None or not context._initialized:
        return
    for i, _ in enumerate(tensorflow.config.list_logical_devices("GPU")):
        info = tensorflow.config.experimental.get_memory_info(f"GPU:{i}")
        yield device_name(i), _known({"allocated_bytes": info.get("current"), "allocated_peak_bytes": info.get("peak")})


def _known(figures: Mapping[str, Optional[float]]) -> Figures:
    return {name: value for name, value in figures.items() if value is not None}


READERS: Dict[str, Callable[[Any], Iterator[Tuple[str, Figures]]]] = {
    "torch": _torch, "jax": _jax, "tensorflow": _tensorflow,
}


def read() -> Dict[str, Figures]:
    """Present figures of the frameworks that this program uses, by "FRAMEWORK/DEVICE". A framework
    that fails has none."""
    found: Dict[str, Figures] = {}
    for name, reader in READERS.items():
        module = sys.modules.get(name)
        try:
            for device, figures in reader(module) if module is not None else ():
                found[f"{name}/{device}"] = figures
        except Exception:  # partly imported, another version, a lost device: the program must not notice
            pass
    return found


def may_use_devices() -> bool:
    """True if a framework with devices is imported, so that a thread that reads once a second is
    worth it."""
    version = getattr(sys.modules.get("torch"), "version", None)
    return bool(getattr(version, "cuda", None) or getattr(version, "hip", None) or "jax" in sys.modules
                or "tensorflow" in sys.modules)


# ---- in a run ----------------------------------------------------------------------------------------------------------

class Watch:
    """The figures of one run. Frameworks count from their start, or from a reset; peaks and counts
    here are those of the run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_at = 0.0  # monotonic seconds; 0: the first read, before the run
        self._before: Dict[str, Figures] = {}
        self._peaks: Dict[str, float] = {}
        self._counts: Dict[str, float] = {}
        self._update(read())  # the baseline: earlier peaks and counts are not those of this run

    def read(self, gently: bool = False) -> Dict[str, Figures]:
        """The figures to log now. Empty while another thread reads, or if gently and the last read
        is less than GENTLE_S ago."""
        now = time.monotonic()
        if (gently and now - self._read_at < GENTLE_S) or not self._lock.acquire(blocking=False):
            return {}
        try:
            self._read_at = now
            return self._update(read())
        finally:
            self._lock.release()

    def _update(self, found: Dict[str, Figures]) -> Dict[str, Figures]:
        own = {device: self._own(device, figures) for device, figures in found.items()}
        self._before.update(found)
        return own

    def _own(self, device: str, figures: Figures) -> Figures:
        own, before = dict(figures), self._before.get(device)
        for name in PEAKS:
            now, hwm = figures.get(f"{name}_bytes"), figures.get(f"{name}_peak_bytes")
            if now is None or hwm is None:
                continue
            old = before.get(f"{name}_peak_bytes") if before else None
            peak = now if hwm == old or (before is None and not self._read_at) else hwm
            key = f"{device}/{name}"
            own[f"{name}_peak_bytes"] = self._peaks[key] = max(peak, self._peaks.get(key, 0))
        for name in COUNTS:
            if name in figures:
                key, now = f"{device}/{name}", figures[name]
                base = now if before is None and not self._read_at else before.get(name, 0) if before else 0
                self._counts[key] = self._counts.get(key, 0) + (now - base if now >= base else now)
                own[name] = self._counts[key]
        return own


class Thread:
    """A thread that reads once a second for all runs of this process, while any is measured. It is
    not started in a program that uses no devices through a framework."""

    def __init__(self, read_all: Callable[[], None]) -> None:
        self._read_all = read_all
        self._end: Optional[threading.Event] = None
        self._lock = threading.Lock()

    def start(self) -> None:
        with self._lock:
            if self._end is None and may_use_devices():
                end = threading.Event()
                try:
                    threading.Thread(target=self._work, args=(end,), name="hiwater-frameworks", daemon=True).start()
                    self._end = end
                except RuntimeError:
                    pass  # no more threads: the figures are read when the program calls its run

    def stop(self) -> None:
        with self._lock:
            if self._end is not None:
                self._end.set()
                self._end = None

    def _work(self, end: threading.Event) -> None:
        while not end.wait(PERIOD_S):
            self._read_all()


# ---- out of memory -------------------------------------------------------------------------------------------------------

_DEVICE_TYPES = {"OutOfMemoryError", "ResourceExhaustedError"}
_OOM_WORDS = ("out of memory", "RESOURCE_EXHAUSTED", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")
_HOST_WORDS = ("DefaultCPUAllocator", "Cannot allocate memory")  # PyTorch's, of the host's memory
TEXT_MOST = 1000


def oom_text(exception: BaseException) -> Optional[str]:
    """The text to record of an out-of-memory exception of a device, or, after "host: ", of the
    host; None for any other exception."""
    import errno

    name = type(exception).__name__
    text = text_of(exception)
    kinds: Set[str] = {kind.__name__ for kind in type(exception).__mro__}
    in_words = text if isinstance(exception, RuntimeError) else ""
    is_device = bool(kinds & _DEVICE_TYPES) or any(word in in_words for word in _OOM_WORDS)
    is_host = isinstance(exception, MemoryError) or (isinstance(exception, OSError) and exception.errno == errno.ENOMEM) or \
        any(word in in_words for word in _HOST_WORDS)
    if not is_device and not is_host:
        return None
    return f"{'' if is_device else 'host: '}{name}{': ' if text else ''}{text}"[:TEXT_MOST]

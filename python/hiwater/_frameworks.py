# SPDX-License-Identifier: MIT
"""What only the interpreter knows: how much device memory PyTorch, JAX and TensorFlow hold and give out.

A framework is never imported here, nor are its devices woken: only what the program itself already uses is asked. Nothing
synchronises with a device, and no peak is set back: others read those counters. Figures become series
FRAMEWORK/DEVICE/FIGURE (`torch/gpu0/allocated_bytes`), which the summary shows beside the driver's; DEVICE is gpuN, N as
CUDA numbers the devices of the machine in PCI order, or a device's uuid where that number cannot be told.

allocated_bytes       given out to tensors now; allocated_peak_bytes: at most in this run
reserved_bytes        held from the driver now; reserved_peak_bytes: at most in this run
fragmentation         share of what is reserved that lies idle in pieces of split blocks, which cannot be given back (0 to 1)
alloc_retries         how often a request succeeded only after the cache was emptied, in this run
ooms                  how often the device was out of memory, in this run
"""
from __future__ import annotations

import os
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Sequence, Set, Tuple

    Figures = Dict[str, float]

PERIOD_S = 1.0   # of the thread
GENTLE_S = 0.1   # least between two looks at logged values
PEAKS = ("allocated", "reserved")
COUNTS = ("alloc_retries", "ooms")


# ---- who is who --------------------------------------------------------------------------------------------------------

def device_name(number: int, names: Sequence[str] = (), uuid: Optional[str] = None,
                environ: Optional[Mapping[str, str]] = None) -> str:
    """Of the framework's device with this number, out of those that CUDA_VISIBLE_DEVICES leaves. names: of all visible
    ones; where they differ and CUDA sorts by speed, only the uuid tells which one it is."""
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


# ---- a reader each: (device, figures) of all devices that the program uses through it -----------------------------------

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
            continue  # this process has nothing there
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
        return  # asking for devices would make them
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
    """What the frameworks that this program uses say now, by "FRAMEWORK/DEVICE". One that fails says nothing."""
    found: Dict[str, Figures] = {}
    for name, reader in READERS.items():
        module = sys.modules.get(name)
        try:
            for device, figures in reader(module) if module is not None else ():
                found[f"{name}/{device}"] = figures
        except Exception:  # half imported, another version, a device that is gone: the program goes on
            pass
    return found


def may_use_devices() -> bool:
    """Is there a framework whose devices are worth a thread that looks once a second?"""
    version = getattr(sys.modules.get("torch"), "version", None)
    return bool(getattr(version, "cuda", None) or getattr(version, "hip", None) or "jax" in sys.modules
                or "tensorflow" in sys.modules)


# ---- in a run ----------------------------------------------------------------------------------------------------------

class Watch:
    """The figures of one run: peaks and counts are this run's, though the frameworks count since they began, or since
    somebody set them back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looked = 0.0
        self._before: Dict[str, Figures] = {}
        self._peaks: Dict[str, float] = {}
        self._counts: Dict[str, float] = {}
        self._take(read())  # what was there before is not this run's

    def look(self, gently: bool = False) -> Dict[str, Figures]:
        """What is to be logged now; nothing where it was asked for a moment ago and gently, or by another thread."""
        now = time.monotonic()
        if (gently and now - self._looked < GENTLE_S) or not self._lock.acquire(blocking=False):
            return {}
        try:
            self._looked = now
            return self._take(read())
        finally:
            self._lock.release()

    def _take(self, found: Dict[str, Figures]) -> Dict[str, Figures]:
        told = {who: self._own(who, figures) for who, figures in found.items()}
        self._before.update(found)
        return told

    def _own(self, who: str, figures: Figures) -> Figures:
        own, before = dict(figures), self._before.get(who)
        for what in PEAKS:
            now, mark = figures.get(f"{what}_bytes"), figures.get(f"{what}_peak_bytes")
            if now is None or mark is None:
                continue
            old = before.get(f"{what}_peak_bytes") if before else None
            here = now if mark == old or (before is None and not self._looked) else mark
            key = f"{who}/{what}"
            own[f"{what}_peak_bytes"] = self._peaks[key] = max(here, self._peaks.get(key, 0))
        for what in COUNTS:
            if what in figures:
                key, now = f"{who}/{what}", figures[what]
                base = now if before is None and not self._looked else before.get(what, 0) if before else 0
                self._counts[key] = self._counts.get(key, 0) + (now - base if now >= base else now)
                own[what] = self._counts[key]
        return own


class Thread:
    """The one that looks once a second for all runs of this process, while there are some. It is not there in a program that
    uses no devices through a framework."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._end: Optional[threading.Event] = None
        self._lock = threading.Lock()

    def start(self) -> None:
        with self._lock:
            if self._end is None and may_use_devices():
                self._end = threading.Event()
                threading.Thread(target=self._work, args=(self._end,), name="hiwater-frameworks", daemon=True).start()

    def stop(self) -> None:
        with self._lock:
            if self._end is not None:
                self._end.set()
                self._end = None

    def _work(self, end: threading.Event) -> None:
        while not end.wait(PERIOD_S):
            self._look()


# ---- out of memory -------------------------------------------------------------------------------------------------------

_DEVICE_TYPES = {"OutOfMemoryError", "ResourceExhaustedError"}
_OOM_WORDS = ("out of memory", "RESOURCE_EXHAUSTED", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")
_HOST_WORDS = ("DefaultCPUAllocator", "Cannot allocate memory")  # PyTorch's, of the host's memory
TEXT_MOST = 1000


def oom_text(exception: BaseException) -> Optional[str]:
    """What to record of an exception that says memory ran out: a device's, or, behind "host: ", the host's; None: it says
    something else."""
    import errno

    name = type(exception).__name__
    text = " ".join(str(exception).split())
    kinds: Set[str] = {kind.__name__ for kind in type(exception).__mro__}
    in_words = text if isinstance(exception, RuntimeError) else ""
    is_device = bool(kinds & _DEVICE_TYPES) or any(word in in_words for word in _OOM_WORDS)
    is_host = isinstance(exception, MemoryError) or (isinstance(exception, OSError) and exception.errno == errno.ENOMEM) or \
        any(word in in_words for word in _HOST_WORDS)
    if not is_device and not is_host:
        return None
    return f"{'' if is_device else 'host: '}{name}{': ' if text else ''}{text}"[:TEXT_MOST]

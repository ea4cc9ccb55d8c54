# SPDX-License-Identifier: MIT
"""Classifies out-of-memory exceptions, and writes bundles with the events before them.

A bundle is a folder oom_dump_TIME_PID_BACKEND_N with manifest.json, events.json, metadata.json and
environment.json. It appears complete, by a rename."""
from __future__ import annotations

import errno
import json
import os
import re
import shutil
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Deque, Dict, List, Optional

from .session import SessionSummary, session_summary_to_dict
from .utils import get_system_info

FILES = ("manifest.json", "events.json", "metadata.json", "environment.json")
PREFIX = "oom_dump_"

_PATTERNS = ("out of memory", "cuda out of memory", "hip out of memory", "resource exhausted", "failed to allocate",
             "allocation failed", "cublas_status_alloc_failed", "cudnn_status_alloc_failed", "cusolver_status_alloc_failed",
             "cannot allocate memory", "std::bad_alloc")
_DEEPEST = 8  # longest chain of causes that is examined


@dataclass(frozen=True)
class OOMFlightRecorderConfig:
    """max_dumps, max_total_mb: limits for the bundles in dump_dir; 0 means no limit."""

    enabled: bool = False
    dump_dir: str = "oom_dumps"
    buffer_size: int = 10_000
    max_dumps: int = 5
    max_total_mb: int = 256


@dataclass(frozen=True)
class OOMExceptionClassification:
    """reason: the criterion that applied; None if the exception is not an out-of-memory error."""

    is_oom: bool
    reason: Optional[str]


def _reason_of(exc: BaseException) -> Optional[str]:
    names = [(kind.__name__.lower(), kind.__module__.lower()) for kind in type(exc).__mro__]
    if any(name == "outofmemoryerror" and "torch" in module for name, module in names):
        return "torch.cuda.OutOfMemoryError"
    if names[0][0].endswith("resourceexhaustederror"):
        return "tensorflow.ResourceExhaustedError"
    if isinstance(exc, MemoryError):
        return "MemoryError"
    if isinstance(exc, OSError) and exc.errno == errno.ENOMEM:
        return "ENOMEM"
    message = str(exc).strip().lower()
    found = next((pattern for pattern in _PATTERNS if pattern in message), None)
    return f"message_pattern:{found}" if found else None


def classify_oom_exception(exc: BaseException) -> OOMExceptionClassification:
    """Decides whether the exception, or one of its causes, is an out-of-memory error of a device or
    the host."""
    cause: Optional[BaseException] = exc
    for _ in range(_DEEPEST):
        if cause is None:
            break
        reason = _reason_of(cause)
        if reason:
            return OOMExceptionClassification(True, reason)
        cause = cause.__cause__
    return OOMExceptionClassification(False, None)


def _write(path: Path, payload: Any) -> None:
    with path.open("w", encoding="utf-8") as f:
        json.dump(payload, f, indent=2, default=str)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _bundles(root: Path) -> List[Path]:
    """The bundles, oldest first: folders with the prefix and a manifest."""
    found = [p for p in root.iterdir() if p.name.startswith(PREFIX) and (p / FILES[0]).is_file()]
    return sorted(found, key=lambda p: (p.stat().st_mtime_ns, p.name))


class OOMFlightRecorder:
    """Keeps the last events, and writes bundles of them. Its methods may be called by any
    thread."""

    def __init__(self, config: OOMFlightRecorderConfig, *,
                 system_info_provider: Optional[Callable[[], Dict[str, Any]]] = None) -> None:
        self.config = config
        self._system_info = system_info_provider or get_system_info
        self._events: Deque[Dict[str, Any]] = deque(maxlen=max(1, int(config.buffer_size)))
        self._lock = threading.Lock()
        self._number = 0

    def forget(self) -> None:
        """In a forked process: a thread that does not exist here may hold the lock."""
        self._lock = threading.Lock()

    def record_event(self, event: Dict[str, Any]) -> None:
        with self._lock:
            self._events.append(dict(event))

    def snapshot_events(self) -> List[Dict[str, Any]]:
        """Copies of the events, oldest first."""
        with self._lock:
            return [dict(event) for event in self._events]

    def clear(self) -> None:
        with self._lock:
            self._events.clear()

    def dump(self, *, reason: str, exception: BaseException, context: Optional[str], backend: str,
             metadata: Optional[Dict[str, Any]] = None, session_summary: Optional[SessionSummary] = None,
             events: Optional[List[Dict[str, Any]]] = None) -> Optional[str]:
        """Writes a bundle, removes old ones and returns its path; None if dumps are disabled.
        events: used instead of the recorded ones. Raises OSError if the bundle cannot be
        written."""
        if not self.config.enabled:
            return None
        root = Path(self.config.dump_dir)
        root.mkdir(parents=True, exist_ok=True)
        payload = self.snapshot_events() if events is None else events
        bundle = self._next(root, backend)
        session = {} if session_summary is None else {"session_id": session_summary.session_id,
                                                      "session_status": session_summary.status,
                                                      "session": session_summary_to_dict(session_summary)}
        contents = {
            "events.json": payload,
            "metadata.json": {
                "reason": reason, "exception_type": type(exception).__name__, "exception_module": type(exception).__module__,
                "exception_message": str(exception), "context": context, "backend": backend,
                "captured_event_count": len(payload), **session, "custom_metadata": dict(metadata or {}),
            },
            "environment.json": {"pid": os.getpid(), "cwd": os.getcwd(), "system": self._system_info()},
            "manifest.json": {
                "schema_version": 2 if session else 1, "bundle_name": bundle.name,
                "created_at_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "reason": reason, "backend": backend,
                "event_count": len(payload), **session, "files": list(FILES),
            },
        }
        self._write_bundle(bundle, contents)
        self.prune(keep=bundle)
        return str(bundle)

    @staticmethod
    def _write_bundle(bundle: Path, contents: Dict[str, Any]) -> None:
        unfinished = bundle.with_name(f".{bundle.name}")
        unfinished.mkdir()
        try:
            for name, payload in contents.items():
                _write(unfinished / name, payload)
            unfinished.rename(bundle)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise

    def _next(self, root: Path, backend: str) -> Path:
        when = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        word = re.sub(r"[^a-zA-Z0-9_-]+", "_", backend) or "unknown"
        while True:
            with self._lock:
                self._number += 1
                bundle = root / f"{PREFIX}{when}_{os.getpid()}_{word}_{self._number}"
            if not bundle.exists():
                return bundle

    def prune(self, keep: Path) -> None:
        """Removes the oldest bundles beyond the limits, except keep."""
        root = Path(self.config.dump_dir)
        old = [bundle for bundle in _bundles(root) if bundle != keep]
        while self.config.max_dumps > 0 and len(old) >= self.config.max_dumps:
            shutil.rmtree(old.pop(0), ignore_errors=True)
        most = self.config.max_total_mb * 1024 * 1024
        while most > 0 and old and _size(keep) + sum(map(_size, old)) > most:
            shutil.rmtree(old.pop(0), ignore_errors=True)

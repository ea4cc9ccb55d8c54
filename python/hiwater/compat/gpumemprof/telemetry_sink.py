# SPDX-License-Identifier: MIT
"""Telemetry records in append-only files: ROOT/segment-000001.jsonl and so on, and
ROOT/manifest.json, which lists the sessions and the segments. A segment is closed when it is full;
the oldest closed ones are removed when there are too many."""
from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Union

from .session import (SESSION_STATUS_COMPLETED, SESSION_STATUS_INTERRUPTED, SESSION_STATUS_RUNNING, SessionSummary, begun, ended,
                      session_summary_from_dict, session_summary_to_dict)

MANIFEST = "manifest.json"
FORMAT = "stormlog.append_only_telemetry_sink"
SCHEMA_VERSION = 2
_POSITIVE = ("flush_every_events", "flush_every_seconds", "rollover_max_bytes", "rollover_max_events", "retention_max_files",
             "retention_max_total_bytes", "rollup_window_seconds", "failure_backoff_seconds")


@dataclass
class TelemetrySinkConfig:
    """flush_every_*: when to write; rollover_*: when a segment is full; retention_*: how much is
    kept. max_buffer_bytes: limit of the unwritten records; records beyond it are dropped and
    counted, and a failed write is tried again after failure_backoff_seconds, twice that, and so on.
    write_rollups and rollup_window_seconds are accepted and have no effect."""

    root_dir: Union[str, Path]
    flush_every_events: int = 50
    flush_every_seconds: float = 2.0
    rollover_max_bytes: int = 64 * 1024 * 1024
    rollover_max_events: int = 10000
    retention_max_files: int = 8
    retention_max_total_bytes: int = 512 * 1024 * 1024
    write_rollups: bool = True
    rollup_window_seconds: int = 60
    max_buffer_bytes: Optional[int] = None
    failure_backoff_seconds: float = 1.0
    failure_backoff_max_seconds: float = 60.0

    def __post_init__(self) -> None:
        self.root_dir = Path(self.root_dir)
        for name in _POSITIVE:
            value = getattr(self, name)
            if value <= 0:
                raise ValueError(f"{name} must be {'> 0' if isinstance(value, float) else '>= 1'}")
        if self.retention_max_total_bytes < self.rollover_max_bytes:
            raise ValueError("retention_max_total_bytes must be >= rollover_max_bytes")
        if self.max_buffer_bytes is not None and self.max_buffer_bytes <= 0:
            raise ValueError("max_buffer_bytes must be >= 1")
        if self.failure_backoff_max_seconds < self.failure_backoff_seconds:
            raise ValueError("failure_backoff_max_seconds must be >= failure_backoff_seconds")


@dataclass
class TelemetrySinkSegment:
    filename: str
    event_count: int = 0
    size_bytes: int = 0
    closed: bool = False
    session_id: Optional[str] = None


@dataclass
class _Counts:
    """The figures of get_diagnostics and failure_diagnostics."""

    rollover_count: int = 0
    pruned_segment_count: int = 0
    pruned_bytes: int = 0
    dropped_records: int = 0
    dropped_bytes: int = 0
    flush_failures: int = 0
    consecutive_flush_failures: int = 0
    last_flush_error: Optional[str] = None


@dataclass
class _Waiting:
    data: bytearray = field(default_factory=bytearray)
    n: int = 0


def no_diagnostics() -> Dict[str, int]:
    return {"rollover_count": 0, "pruned_segment_count": 0, "pruned_bytes": 0, "final_retained_files": 0,
            "final_retained_bytes": 0}


class AppendOnlyTelemetrySink:
    """Its methods may be called by any thread."""

    def __init__(self, config: TelemetrySinkConfig) -> None:
        """Continues the files of the folder. Raises OSError if it cannot be made or read."""
        self.config = config
        self.root_dir = Path(config.root_dir)
        self.root_dir.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()
        self._counts = _Counts()
        self._waiting = _Waiting()
        self._flushed = time.monotonic()
        self._retry_at = 0.0
        self._segments: List[TelemetrySinkSegment] = []
        self._sessions: Dict[str, SessionSummary] = {}
        self._active: Optional[str] = None
        self._take_over()

    # ---- existing files

    def _take_over(self) -> None:
        """Reads the existing files: marks sessions without an end as interrupted, and removes a
        record that was cut off."""
        try:
            manifest = json.loads((self.root_dir / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            manifest = {}
        listed = {s["filename"]: s for s in manifest.get("segments", []) if isinstance(s, dict) and "filename" in s}
        for payload in manifest.get("sessions", []):
            session = session_summary_from_dict(payload)
            self._sessions[session.session_id] = ended(session, SESSION_STATUS_INTERRUPTED)
        for path in sorted(self.root_dir.glob("segment-*.jsonl")):
            lines = path.read_bytes()
            whole = lines.rfind(b"\n") + 1
            if whole < len(lines):
                os.truncate(path, whole)
            self._segments.append(TelemetrySinkSegment(path.name, lines.count(b"\n"), whole, True,
                                                       listed.get(path.name, {}).get("session_id")))
        if self._segments or self._sessions:
            self._write_manifest()

    # ---- sessions

    def start_session(self, summary: Optional[SessionSummary] = None) -> SessionSummary:
        """Starts a session, to which all records appended from now on belong. Without an argument:
        the session that is active, or a new one."""
        with self._lock:
            if summary is None:
                summary = self.current_session() or begun("gpumemprof.telemetry_sink", {})
            self._sessions[summary.session_id] = summary
            self._active = summary.session_id
            self._write_manifest()
            return summary

    def current_session(self) -> Optional[SessionSummary]:
        with self._lock:
            return self._sessions.get(self._active) if self._active else None

    # ---- records

    def append(self, record: Mapping[str, Any]) -> None:
        """Appends a record. Raises OSError if it cannot be written, unless max_buffer_bytes is
        set."""
        line = json.dumps(dict(record), sort_keys=True, default=str).encode() + b"\n"
        most = self.config.max_buffer_bytes
        with self._lock:
            if most is not None and len(self._waiting.data) + len(line) > most:
                self.flush(force=True)
                if len(self._waiting.data) + len(line) > most:
                    self._counts.dropped_records += 1
                    self._counts.dropped_bytes += len(line)
                    return
            self._waiting.data += line
            self._waiting.n += 1
            self.flush()

    def flush(self, force: bool = False) -> None:
        """Writes the buffered records, if they are due or force is set."""
        with self._lock:
            now = time.monotonic()
            is_due = force or self._waiting.n >= self.config.flush_every_events or \
                now - self._flushed >= self.config.flush_every_seconds
            if not self._waiting.n or not is_due or now < self._retry_at:
                return
            try:
                self._write()
            except OSError as e:
                self._failed(e, now)
                if self.config.max_buffer_bytes is None:
                    raise
                return
            self._counts.consecutive_flush_failures = 0
            self._flushed = now

    def _failed(self, error: OSError, now: float) -> None:
        c = self._counts
        c.flush_failures += 1
        c.consecutive_flush_failures += 1
        c.last_flush_error = str(error)
        delay = self.config.failure_backoff_seconds * 2.0 ** min(c.consecutive_flush_failures - 1, 30)
        self._retry_at = now + min(delay, self.config.failure_backoff_max_seconds)

    def _write(self) -> None:
        segment = self._segment()
        path = self.root_dir / segment.filename
        try:
            with path.open("ab") as f:
                f.write(self._waiting.data)
        except OSError:
            if path.exists():
                os.truncate(path, segment.size_bytes)
            raise
        segment.event_count += self._waiting.n
        segment.size_bytes += len(self._waiting.data)
        self._waiting = _Waiting()
        if segment.event_count >= self.config.rollover_max_events or segment.size_bytes >= self.config.rollover_max_bytes:
            segment.closed = True
            self._counts.rollover_count += 1
        self._prune()
        self._write_manifest()

    def _segment(self) -> TelemetrySinkSegment:
        """The segment to write to."""
        last = self._segments[-1] if self._segments else None
        if last is None or last.closed or last.session_id != self._active:
            number = int(last.filename[len("segment-"):-len(".jsonl")]) + 1 if last else 1
            last = TelemetrySinkSegment(f"segment-{number:06d}.jsonl", session_id=self._active)
            self._segments.append(last)
        return last

    def _prune(self) -> None:
        while self._segments and self._segments[0].closed and (
                len(self._segments) > self.config.retention_max_files or
                sum(s.size_bytes for s in self._segments) > self.config.retention_max_total_bytes):
            oldest = self._segments[0]
            (self.root_dir / oldest.filename).unlink(missing_ok=True)
            del self._segments[0]
            self._counts.pruned_segment_count += 1
            self._counts.pruned_bytes += oldest.size_bytes

    def _write_manifest(self) -> None:
        payload = {
            "schema_version": SCHEMA_VERSION, "format": FORMAT,
            "sessions": [session_summary_to_dict(s) for s in sorted(self._sessions.values(), key=lambda s: s.started_at_ns)],
            "segments": [asdict(s) for s in self._segments],
        }
        new = self.root_dir / "manifest.tmp"
        new.write_text(json.dumps(payload, indent=2) + "\n", encoding="utf-8")
        new.replace(self.root_dir / MANIFEST)

    def close(self, session_status: str = SESSION_STATUS_COMPLETED) -> None:
        """Writes the buffered records and ends the session with this status."""
        with self._lock:
            self._retry_at = 0.0
            self.flush(force=True)
            session = self.current_session()
            if session is not None and session.status == SESSION_STATUS_RUNNING:
                self._sessions[session.session_id] = ended(session, session_status)
            if self._segments:
                self._segments[-1].closed = True
            self._active = None
            self._write_manifest()

    def get_diagnostics(self) -> Dict[str, int]:
        with self._lock:
            return {
                "rollover_count": self._counts.rollover_count,
                "pruned_segment_count": self._counts.pruned_segment_count,
                "pruned_bytes": self._counts.pruned_bytes,
                "final_retained_files": len(self._segments),
                "final_retained_bytes": sum(s.size_bytes for s in self._segments),
            }

    def failure_diagnostics(self) -> Dict[str, Union[int, str, None]]:
        with self._lock:
            c = self._counts
            return {
                "buffered_records": self._waiting.n, "buffered_bytes": len(self._waiting.data),
                "dropped_records": c.dropped_records, "dropped_bytes": c.dropped_bytes, "flush_failures": c.flush_failures,
                "consecutive_flush_failures": c.consecutive_flush_failures, "last_flush_error": c.last_flush_error,
            }

# SPDX-License-Identifier: MIT
"""Sessions: identity and times of the span from start_tracking to stop_tracking."""
from __future__ import annotations

import os
import socket
import time
import uuid
from dataclasses import asdict, dataclass, replace
from typing import Any, Dict, Mapping, Optional

SESSION_STATUS_RUNNING = "running"
SESSION_STATUS_COMPLETED = "completed"
SESSION_STATUS_INTERRUPTED = "interrupted"
SESSION_STATUS_INCOMPLETE = "incomplete"
SESSION_STATUSES = frozenset({SESSION_STATUS_RUNNING, SESSION_STATUS_COMPLETED, SESSION_STATUS_INTERRUPTED,
                              SESSION_STATUS_INCOMPLETE})


@dataclass(frozen=True)
class SessionSummary:
    """status: "running", "completed", "interrupted" (the process ended without stop_tracking) or
    "incomplete" (the sink failed). Times in nanoseconds since 1970."""

    session_id: str
    status: str
    started_at_ns: int
    ended_at_ns: Optional[int]
    host: str
    pid: int
    job_id: Optional[str] = None
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    source: str = "gpumemprof.session"


def begun(source: str, identity: Mapping[str, Any]) -> SessionSummary:
    """A session of this process that begins now."""
    return SessionSummary(session_id=str(uuid.uuid4()), status=SESSION_STATUS_RUNNING, started_at_ns=time.time_ns(),
                          ended_at_ns=None, host=socket.gethostname(), pid=os.getpid(), source=source, **identity)


def ended(session: SessionSummary, status: str = SESSION_STATUS_COMPLETED) -> SessionSummary:
    """The session with its end set to now, unless it has ended; a status other than "running" is
    kept."""
    if session.status != SESSION_STATUS_RUNNING:
        status = session.status
    return replace(session, status=status, ended_at_ns=session.ended_at_ns or time.time_ns())


def session_summary_to_dict(summary: SessionSummary) -> Dict[str, Any]:
    return asdict(summary)


def session_summary_from_dict(payload: Mapping[str, Any]) -> SessionSummary:
    """Raises ValueError for an invalid session."""
    for name in ("session_id", "source", "host"):
        if not isinstance(payload.get(name), str) or not payload[name].strip():
            raise ValueError(f"{name} must be a non-empty string")
    if payload.get("status") not in SESSION_STATUSES:
        raise ValueError(f"Unsupported session status: {payload.get('status')}")
    if payload.get("started_at_ns") is None:
        raise ValueError("started_at_ns must be present")
    known = {name: payload[name] for name in SessionSummary.__dataclass_fields__ if name in payload}
    return SessionSummary(**{"ended_at_ns": None, "pid": -1, **known})

# SPDX-License-Identifier: MIT
"""Named parts of a run; they nest within each thread."""
from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

PHASE_ENTER_EVENT = "phase_enter"
PHASE_EXIT_EVENT = "phase_exit"


class PhaseProtocolError(RuntimeError):
    """A handle was closed out of order, or by another thread."""


@dataclass
class PhaseToken:
    """An open phase; ends it with `PhaseRecorder.exit`."""

    scope_id: str
    session_id: str
    rank: int
    thread_id: int
    name: str
    parent_scope_id: Optional[str] = None
    path: Tuple[str, ...] = ()
    thread_name: str = ""
    attributes: Dict[str, Any] = field(default_factory=dict)

    def boundary(self, action: str, sequence: int) -> PhaseBoundary:
        scope: Dict[str, Any] = {
            "action": action, "name": self.name, "path": list(self.path), "depth": len(self.path), "scope_id": self.scope_id,
            "parent_scope_id": self.parent_scope_id, "thread_id": self.thread_id, "thread_name": self.thread_name,
            "sequence": sequence,
        }
        if self.attributes:
            scope["attributes"] = dict(self.attributes)
        is_enter = action == "enter"
        return PhaseBoundary(PHASE_ENTER_EVENT if is_enter else PHASE_EXIT_EVENT,
                             f"Phase {'entered' if is_enter else 'exited'}: {' / '.join(self.path)}",
                             {"phase_scope": scope}, self.scope_id, self.path)


@dataclass(frozen=True)
class PhaseBoundary:
    """The event of a start or an end of a phase."""

    event_type: str
    context: str
    metadata: Dict[str, Any]
    scope_id: str
    path: Tuple[str, ...]


class PhaseHandle:
    """The result of enter_phase; must be closed by the thread that opened it, innermost first."""

    def __init__(self, *, scope_id: str, name: str, path: Tuple[str, ...], close_callback: Callable[[], Any]) -> None:
        self.scope_id = scope_id
        self.name = name
        self.path = path
        self._close_callback = close_callback
        self._closed = False

    @property
    def phase_path(self) -> str:
        return " / ".join(self.path)

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> Any:
        """Ends the phase; later calls do nothing."""
        if self._closed:
            return None
        result = self._close_callback()
        self._closed = True
        return result

    def __enter__(self) -> PhaseHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class PhaseRecorder:
    """The open phases: those of a session and rank nest within each thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stacks: Dict[Tuple[str, int, int], List[PhaseToken]] = {}
        self._sequence = 0

    def reset(self) -> None:
        with self._lock:
            self._stacks.clear()
            self._sequence = 0

    def enter(self, *, session_id: str, rank: int = 0, name: str,
              attrs: Optional[Mapping[str, Any]] = None) -> Tuple[PhaseToken, PhaseBoundary]:
        """Opens a phase. Raises ValueError for an empty name."""
        name = str(name).strip()
        if not name:
            raise ValueError("phase name must be a non-empty string")
        thread, ident = threading.current_thread(), threading.get_ident()
        with self._lock:
            stack = self._stacks.setdefault((session_id, rank, ident), [])
            parent = stack[-1] if stack else None
            self._sequence += 1
            phase = PhaseToken(f"{session_id}:{self._sequence}", session_id, rank, ident, name,
                               parent.scope_id if parent else None, (*(parent.path if parent else ()), name), thread.name,
                               dict(attrs or {}))
            stack.append(phase)
            return phase, phase.boundary("enter", self._sequence)

    def enter_phase(self, *, session_id: str, rank: int = 0, name: str,
                    metadata: Optional[Mapping[str, Any]] = None) -> PhaseBoundary:
        """As `enter`, without the token."""
        return self.enter(session_id=session_id, rank=rank, name=name, attrs=metadata)[1]

    def exit(self, token: PhaseToken) -> PhaseBoundary:
        """Closes a phase. Raises PhaseProtocolError."""
        return self.exit_phase(session_id=token.session_id, rank=token.rank, scope_id=token.scope_id,
                               thread_id=threading.get_ident())

    def exit_phase(self, *, session_id: str, rank: int = 0, scope_id: str, thread_id: int) -> PhaseBoundary:
        """Closes the innermost phase of a thread, which must have this scope_id. Raises
        PhaseProtocolError."""
        with self._lock:
            key = (session_id, rank, thread_id)
            stack = self._stacks.get(key, [])
            if not stack or stack[-1].scope_id != scope_id:
                raise PhaseProtocolError(self._why(session_id, rank, scope_id, stack))
            phase = stack.pop()
            if not stack:
                del self._stacks[key]
            self._sequence += 1
            return phase.boundary("exit", self._sequence)

    def _why(self, session_id: str, rank: int, scope_id: str, stack: List[PhaseToken]) -> str:
        if any(phase.scope_id == scope_id for phase in stack):
            return "Phase handles must be closed in strict LIFO order per thread."
        if any(phase.scope_id == scope_id for key, other in self._stacks.items() if key[:2] == (session_id, rank) for phase in other):
            return "Phase handle was closed from a different thread than it was opened."
        if not stack:
            return "No active phase stack exists for this thread."
        return f"Unknown phase scope_id '{scope_id}' for active tracker state."

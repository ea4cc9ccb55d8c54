# SPDX-License-Identifier: MIT
"""Named parts of a run; they nest within each thread."""
from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple

PHASE_ENTER_EVENT = "phase_enter"
PHASE_EXIT_EVENT = "phase_exit"


class PhaseProtocolError(RuntimeError):
    """A handle was closed out of order, or by another thread."""


@dataclass
class OpenPhase:
    scope_id: str
    parent_scope_id: Optional[str]
    name: str
    path: Tuple[str, ...]
    thread_id: int
    thread_name: str
    attributes: Dict[str, Any] = field(default_factory=dict)

    def metadata(self, action: str, sequence: int) -> Dict[str, Any]:
        scope: Dict[str, Any] = {
            "action": action, "name": self.name, "path": list(self.path), "depth": len(self.path), "scope_id": self.scope_id,
            "parent_scope_id": self.parent_scope_id, "thread_id": self.thread_id, "thread_name": self.thread_name,
            "sequence": sequence,
        }
        if self.attributes:
            scope["attributes"] = dict(self.attributes)
        return {"phase_scope": scope}


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
    """The open phases of a session."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stacks: Dict[int, List[OpenPhase]] = {}
        self._sequence = 0

    def reset(self) -> None:
        with self._lock:
            self._stacks.clear()
            self._sequence = 0

    def enter(self, session_id: str, name: str, attributes: Optional[Dict[str, Any]]) -> Tuple[OpenPhase, Dict[str, Any]]:
        """Opens a phase; returns it and the metadata of its event. Raises ValueError for an empty
        name."""
        name = str(name).strip()
        if not name:
            raise ValueError("phase name must be a non-empty string")
        thread = threading.current_thread()
        with self._lock:
            stack = self._stacks.setdefault(threading.get_ident(), [])
            parent = stack[-1] if stack else None
            self._sequence += 1
            phase = OpenPhase(f"{session_id}:{self._sequence}", parent.scope_id if parent else None, name,
                              (*(parent.path if parent else ()), name), threading.get_ident(), thread.name,
                              dict(attributes or {}))
            stack.append(phase)
            return phase, phase.metadata("enter", self._sequence)

    def exit(self, phase: OpenPhase) -> Dict[str, Any]:
        """Closes a phase; returns the metadata of its event. Raises PhaseProtocolError."""
        with self._lock:
            stack = self._stacks.get(threading.get_ident(), [])
            if not stack or stack[-1] is not phase:
                raise PhaseProtocolError(self._why(phase, stack))
            stack.pop()
            self._sequence += 1
            return phase.metadata("exit", self._sequence)

    def _why(self, phase: OpenPhase, stack: List[OpenPhase]) -> str:
        if phase in stack:
            return "Phase handles must be closed in strict LIFO order per thread."
        if any(phase in other for other in self._stacks.values()):
            return "Phase handle was closed from a different thread than it was opened."
        return "No active phase stack exists for this thread."

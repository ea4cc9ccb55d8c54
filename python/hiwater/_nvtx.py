# SPDX-License-Identifier: MIT
"""Phases and steps as NVTX ranges, through the package nvtx, or PyTorch where the program has imported it."""
from __future__ import annotations

import sys
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional


class _Functions(NamedTuple):
    push: Callable[[str], Any]  # of this thread
    pop: Callable[[], Any]
    start: Callable[[str], Any]  # of the process; the result is for `end`
    end: Callable[[Any], Any]


_functions: Optional[_Functions] = None
_has_warned = False


def _find() -> Optional[_Functions]:
    """None: there are none."""
    global _functions, _has_warned
    if _functions:
        return _functions
    try:
        from importlib import import_module

        nvtx: Any = import_module("nvtx")
        _functions = _Functions(nvtx.push_range, nvtx.pop_range, nvtx.start_range, nvtx.end_range)
        return _functions
    except (ImportError, AttributeError):
        pass
    torch: Any = sys.modules.get("torch")
    try:
        if torch and torch.version.cuda:
            ranges = torch.cuda.nvtx
            _functions = _Functions(ranges.range_push, ranges.range_pop, ranges.range_start, ranges.range_end)
            return _functions
    except AttributeError:
        pass
    if not _has_warned:
        from ._errors import warn

        _has_warned = True
        warn("phases and steps are no NVTX ranges: that needs the package nvtx (pip install nvtx), or a PyTorch with CUDA")
    return None


def push(name: str) -> None:
    functions = _find()
    if functions:
        functions.push(name)


def pop() -> None:
    functions = _find()
    if functions:
        functions.pop()


class Range:
    """A range of the process, which any thread may end; it need not nest with those of a thread."""

    def __init__(self, name: str) -> None:
        functions = _find()
        self._end = functions.end if functions else None
        self._handle = functions.start(name) if functions else None

    def end(self) -> None:
        if self._end:
            end, self._end = self._end, None
            end(self._handle)

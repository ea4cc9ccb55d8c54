# SPDX-License-Identifier: MIT
"""Phases as NVTX ranges, through the package nvtx, or PyTorch where the program has imported it."""
from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional, Tuple

_functions: Optional[Tuple[Callable[[str], Any], Callable[[], Any]]] = None
_has_warned = False


def _find() -> Optional[Tuple[Callable[[str], Any], Callable[[], Any]]]:
    """The functions that push and pop a range of this thread; None: there are none."""
    global _functions, _has_warned
    if _functions:
        return _functions
    try:
        from importlib import import_module

        nvtx: Any = import_module("nvtx")
        _functions = (nvtx.push_range, nvtx.pop_range)
        return _functions
    except (ImportError, AttributeError):
        pass
    torch: Any = sys.modules.get("torch")
    try:
        if torch and torch.version.cuda:
            _functions = (torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop)
            return _functions
    except AttributeError:
        pass
    if not _has_warned:
        from ._errors import warn

        _has_warned = True
        warn("phases are no NVTX ranges: that needs the package nvtx (pip install nvtx), or a PyTorch with CUDA")
    return None


def push(name: str) -> None:
    functions = _find()
    if functions:
        functions[0](name)


def pop() -> None:
    functions = _find()
    if functions:
        functions[1]()

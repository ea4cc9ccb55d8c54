# SPDX-License-Identifier: MIT
"""Tracing this process: `track(trace=...)`.

The interfaces that emit ranges and GPU work read the environment once, when they are first used. So tracing begins with a change of
the environment, reaches what is loaded or started later, and says which parts came too early."""
from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Sequence

_LOADED = {  # a module that has read the environment already, and its ranges, which are not followed any more
    "torch": "ranges of PyTorch and oneDNN (ITT)",
    "nvtx": "ranges of the package nvtx",
}
_MAPPED = {  # the same of a library
    "libcuda.so.1": "CUDA",
    "libOpenCL.so.1": "OpenCL",
}


def _mapped() -> set[str]:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as f:
            return {os.path.basename(line.split(maxsplit=5)[5].strip()) for line in f if line.count(" /") > 0}
    except (OSError, IndexError):
        return set()


def too_late() -> list[str]:
    """What cannot be followed any more in this process, in words."""
    files = _mapped()
    return [*(what for module, what in _LOADED.items() if module in sys.modules),
            *(what for name, what in _MAPPED.items() if any(file.startswith(name) for file in files))]


class Environment:
    """Variables of this process from begin to end: children that start meanwhile are traced, too."""

    def __init__(self, settings: Sequence[str]) -> None:
        self._before: dict[str, Optional[str]] = {}
        self._now: dict[str, str] = {}
        for setting in settings:
            name, _, value = setting.partition("=")
            self._before[name], self._now[name] = os.environ.get(name), value
            os.environ[name] = value

    def end(self) -> None:
        """Sets what was there before, unless the program has changed it meanwhile."""
        for name, value in self._before.items():
            if os.environ.get(name) != self._now[name]:
                continue
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        self._before = {}

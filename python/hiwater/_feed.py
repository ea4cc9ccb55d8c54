# SPDX-License-Identifier: MIT
"""Passes the figures of a run to a sink when they are due."""
from __future__ import annotations

import os
import time

from ._errors import Error
from ._figures import Since

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Optional

    from ._run import Run
    from ._summary import Summary
    from .sinks import Sink


class Feed:
    """Figures that are due every `every` seconds. Without a sink, the caller of `due` uses them."""

    def __init__(self, every: float, sink: Optional[Sink] = None) -> None:
        self.sink = sink
        self.pid = os.getpid()  # a forked child must not use the sink of its parent
        self._every = float(every)
        self._since = Since()
        self._last_s = time.monotonic()
        self._is_broken = False

    def due(self, run: Run, is_last: bool = False) -> Dict[str, float]:
        """The figures since the previous ones; empty if they are not due, or the run has no
        recording."""
        now = time.monotonic()
        if self._is_broken or (now - self._last_s < self._every and not is_last) or not run.path:
            return {}
        self._last_s = now
        try:
            return self._since.read(run.recording)
        except Error as e:
            run._warn(f"no figures: {e}")
            return {}

    def write(self, run: Run, step: Optional[int], is_last: bool = False) -> None:
        """Writes the figures that are due. An exception of the sink becomes a warning of the
        run."""
        figures = self.due(run, is_last)
        if figures and self.sink is not None:
            self._try(run, lambda sink: sink.write(figures, step))

    def end(self, run: Run, step: Optional[int]) -> None:
        """Ends the sink, also if no figures can be read, so that it closes what it has open."""
        try:
            self.write(run, step, is_last=True)
        finally:
            if self.sink is not None and not self._is_broken:
                self._try(run, lambda sink: sink.end(_summary_of(run)))

    def _try(self, run: Run, call: object) -> None:
        try:
            call(self.sink)  # type: ignore[operator]
        except Exception as e:
            self._is_broken = True
            run._warn(f"{type(self.sink).__name__} gets no more figures: {type(e).__name__}: {e}")


def _summary_of(run: Run) -> Summary:
    """The summary of the run; one without values if it cannot be read."""
    from ._summary import Summary

    try:
        return run.summary
    except Error:
        return Summary()

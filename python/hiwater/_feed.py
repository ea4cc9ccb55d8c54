# SPDX-License-Identifier: MIT
"""The figures of a run on their way out: when they are due, and to whom."""
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
    """What is due each so many seconds. sink None: whoever asks takes the figures."""

    def __init__(self, every: float, sink: Optional[Sink] = None) -> None:
        self.sink = sink
        self.pid = os.getpid()  # in a forked child it is the parent's
        self._every = float(every)
        self._since = Since()
        self._told = time.monotonic()
        self._is_broken = False

    def due(self, run: Run, is_last: bool = False) -> Dict[str, float]:
        """The figures since the last time; none before it is time, or where the run keeps no recording."""
        now = time.monotonic()
        if self._is_broken or (now - self._told < self._every and not is_last) or not run.path:
            return {}
        self._told = now
        try:
            return self._since.read(run.recording)
        except Error as e:
            run._warn(f"no figures: {e}")
            return {}

    def write(self, run: Run, step: Optional[int], is_last: bool = False) -> None:
        """Whatever the sink raises, the program goes on."""
        figures = self.due(run, is_last)
        if figures and self.sink is not None:
            self._try(run, lambda sink: sink.write(figures, step))

    def end(self, run: Run, step: Optional[int]) -> None:
        """Also where nothing more can be known, since it is the end of what the sink has open."""
        try:
            self.write(run, step, is_last=True)
        finally:
            if self.sink is not None and not self._is_broken:
                self._try(run, lambda sink: sink.end(_summary_of(run)))

    def _try(self, run: Run, what: object) -> None:
        try:
            what(self.sink)  # type: ignore[operator]
        except Exception as e:
            self._is_broken = True
            run._warn(f"{type(self.sink).__name__} gets no more figures: {type(e).__name__}: {e}")


def _summary_of(run: Run) -> Summary:
    """One in which nothing is known, if there is none."""
    from ._summary import Summary

    try:
        return run.summary
    except Error:
        return Summary()

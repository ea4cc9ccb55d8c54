# SPDX-License-Identifier: MIT
"""Writes what a tracker was asked to write, out of a recording that grows: rows of the tracking file, and the pickle of what
was used so far."""
from __future__ import annotations

import contextlib
import os
import pickle
from typing import Optional

from ..._errors import Error
from ..._recording import Recording
from .. import _figures, _session
from .._timeline import Timeline, Timepoints
from ._data_file import DataFile
from ._rows import Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

    from .._timeline import Timepoint


class Follower:
    """Of the recording at path. One that is not called for minutes misses rows: five are there at full rate."""

    def __init__(self, plan: Plan, path: str) -> None:
        self._plan = plan
        self._path = path
        self._timeline = Timeline(path, plan.uuids, plan.system_uuids)
        self._points = Timepoints(_session.interval_of(plan.sleep_time), plan.sleep_time, plan.n_cores)
        self._file = DataFile.continued(plan.tracking_file)
        self._began: Optional[float] = None

    def step(self) -> None:
        """Writes what is new. Raises OSError and sqlite3.Error."""
        self._write(self._points.take(self._timeline.take()))
        if self._plan.resource_usage_file:
            self._pickle(self._plan.resource_usage_file)

    def finish(self, keep: bool = False) -> None:
        """The same once the run is over. keep: the pickle stays."""
        self._write(self._points.take(self._timeline.take()))
        self._write(self._points.finish())
        if self._plan.resource_usage_file:
            if keep:
                self._pickle(self._plan.resource_usage_file)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(self._plan.resource_usage_file)

    def is_over(self) -> bool:
        """Was the end recorded?"""
        return self._timeline.is_over()

    def _write(self, points: Iterable[Timepoint]) -> None:
        if self._began is None:
            self._began = self._timeline.started()
        if self._file is None or self._began is None:
            return
        self._file.write_data([self._plan.row(point, self._began) for point in points])

    def _pickle(self, path: str) -> None:
        """As a whole or not at all."""
        from .tracker import empty_usage, usage_of

        usage = empty_usage(self._plan)
        with contextlib.suppress(Error):
            summary = Recording(self._path).summary.to_dict()
            timeline = Timeline(self._path, self._plan.uuids, self._plan.system_uuids)
            usage = usage_of(self._plan, _figures.figures(summary, timeline, self._plan.sleep_time, self._plan.n_cores))
        with open(path + ".new", "wb") as file:
            pickle.dump(usage, file)
        os.replace(path + ".new", path)

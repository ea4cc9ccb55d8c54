# SPDX-License-Identifier: MIT
"""Writes the files of a tracker from a growing recording: rows of the tracking file, and the pickle
of the use so far."""
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
    """Follows the recording at path. `step` must be called at least every five minutes, the span
    that a recording keeps at full rate; otherwise rows are lost."""

    def __init__(self, plan: Plan, path: str) -> None:
        self._plan = plan
        self._path = path
        self._timeline = Timeline(path, plan.uuids, plan.system_uuids)
        self._points = Timepoints(_session.interval_of(plan.sleep_time), plan.sleep_time, plan.n_cores)
        self._file = DataFile.continued(plan.tracking_file)
        self._began: Optional[float] = None

    def step(self) -> None:
        """Writes the new rows. Raises OSError and sqlite3.Error."""
        self._write(self._points.add(self._timeline.read_new()))
        if self._plan.resource_usage_file:
            self._pickle(self._plan.resource_usage_file)

    def finish(self, keep: bool = False) -> None:
        """Writes the last rows after the end of the run. keep: keep the pickle; otherwise it is
        removed."""
        self._write(self._points.add(self._timeline.read_new()))
        self._write(self._points.finish())
        if self._plan.resource_usage_file:
            if keep:
                self._pickle(self._plan.resource_usage_file)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(self._plan.resource_usage_file)

    def is_finished(self) -> bool:
        """True if the end of the run was recorded."""
        return self._timeline.is_finished()

    def _write(self, points: Iterable[Timepoint]) -> None:
        if self._began is None:
            self._began = self._timeline.started()
        if self._file is None or self._began is None:
            return
        self._file.write_data([self._plan.row(point, self._began) for point in points])

    def _pickle(self, path: str) -> None:
        """Replaces the pickle atomically."""
        from .tracker import empty_usage, usage_of

        usage = empty_usage(self._plan)
        with contextlib.suppress(Error):
            summary = Recording(self._path).summary.to_dict()
            timeline = Timeline(self._path, self._plan.uuids, self._plan.system_uuids)
            usage = usage_of(self._plan, _figures.figures(summary, timeline, self._plan.sleep_time, self._plan.n_cores))
        with open(path + ".new", "wb") as file:
            pickle.dump(usage, file)
        os.replace(path + ".new", path)

# SPDX-License-Identifier: MIT
"""Code blocks within a tracking session: their times (SubTracker, sub_track), the use during them
(SubTrackingAnalyzer), and the comparison of sessions (TrackingComparison)."""
from __future__ import annotations

import functools
import os
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

from . import _blocks
from ._analysis import CodeBlockResults, ComparisonResults, SubTrackingResults, summary_stats
from ._comparison import TrackingComparison
from ._data_file import DataFile
from ._pandas import pandas

__all__ = ["CodeBlockResults", "ComparisonResults", "SubTracker", "SubTrackingAnalyzer", "SubTrackingResults",
           "TrackingComparison", "sub_track"]

F = TypeVar("F", bound=Callable[..., Any])

_COLUMNS = {"process_id": int, "code_block_name": str, "position": int, "timestamp": float}


class SubTracker:
    """A code block: `with SubTracker("load"):`. Writes the times of its start and stop into a file,
    for a SubTrackingAnalyzer.

    code_block_name    name of the block
    sub_tracking_file  path of the file
    process_id         of the process that made the object

    Both rows of a block are written when it ends, one after the other, so that overlapping blocks
    (recursion, threads) can be distinguished.
    """

    def __init__(self, code_block_name: Optional[str] = None, code_block_attribute: Optional[str] = None,
                 sub_tracking_file: Optional[str] = None, overwrite: bool = False) -> None:
        """
        code_block_name       default: FILE:ATTRIBUTE of the caller
        code_block_attribute  ATTRIBUTE in that default; default: the line number of the caller
        sub_tracking_file     .csv or .sqlite; default: PID.csv. Each process needs its own file; they can be combined later
        overwrite             True: replace an existing file
        """
        if code_block_name is None:
            caller = sys._getframe(1)
            line = caller.f_lineno if code_block_attribute is None else code_block_attribute
            code_block_name = f"{os.path.relpath(caller.f_code.co_filename)}:{line}"
        self.code_block_name = code_block_name
        self.process_id = os.getpid()
        self.sub_tracking_file = f"{self.process_id}.csv" if sub_tracking_file is None else sub_tracking_file
        self._file = DataFile.create(self.sub_tracking_file, overwrite)
        self._starts: Dict[int, List[float]] = {}  # by thread; a block may be entered again before it is left

    def __enter__(self) -> SubTracker:
        if self._file:
            self._file.begin(_COLUMNS)
        self._starts.setdefault(threading.get_ident(), []).append(time.time())
        return self

    def __exit__(self, *_: object) -> None:
        stop = time.time()
        starts = self._starts.get(threading.get_ident())
        start = starts.pop() if starts else stop
        if self._file:
            self._file.write_data([self._row(0, start), self._row(1, stop)])

    def _row(self, position: int, timestamp: float) -> Dict[str, Any]:
        return {"process_id": self.process_id, "code_block_name": self.code_block_name, "position": position,
                "timestamp": timestamp}


def sub_track(code_block_name: Optional[str] = None, code_block_attribute: Optional[str] = None,
              sub_tracking_file: Optional[str] = None, overwrite: bool = False) -> Callable[[F], F]:
    """A decorator: each call of the function is a block, as with SubTracker. Without
    code_block_name its name is FILE:FUNCTION, where FILE is the absolute path of the file with the
    decorator."""
    file = os.path.abspath(sys._getframe(1).f_code.co_filename)

    def decorator(function: F) -> F:
        attribute = function.__name__ if code_block_attribute is None else code_block_attribute
        name = f"{file}:{attribute}" if code_block_name is None else code_block_name

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with SubTracker(name, attribute, sub_tracking_file, overwrite):
                return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorator


class SubTrackingAnalyzer:
    """The resource use during each code block, from the tracking file of a Tracker and the
    sub-tracking file of SubTrackers. Needs pandas, except for combining files."""

    def __init__(self, tracking_file: Optional[str], sub_tracking_file: Optional[str]) -> None:
        """Raises ValueError for names that do not end with .csv or .sqlite."""
        self._tracking = DataFile.create(tracking_file)
        self._sub_tracking = DataFile.create(sub_tracking_file)
        self._points: Any = None
        self._blocks: Optional[List[_blocks.Row]] = None

    def read_static_data(self) -> Any:
        """Units, and the capacities of the machine: a Series."""
        return _needed(self._tracking, "tracking").static_data()

    def load_code_block_names(self) -> List[str]:
        return sorted({name for _, name, _, _ in self._rows()})

    def combine_sub_tracking_files(self, files: List[str]) -> None:
        """Writes the sub-tracking file from other files, in this order. Raises ValueError if it
        exists or another has a different format."""
        _needed(self._sub_tracking, "sub-tracking").combine(files)

    def load_timestamp_pairs(self, code_block_name: str) -> List[Tuple[float, float]]:
        """Start and stop of each call, seconds since the epoch. Calls that have not ended are left
        out. Raises ValueError for a stop without a start."""
        return _blocks.pairs([(pid, position, at) for pid, name, position, at in self._rows() if name == code_block_name])

    def load_timepoints(self, timestamp_pairs: List[Tuple[float, float]]) -> Any:
        """The rows of the tracking file between the timestamps of any pair: a DataFrame."""
        points = self._timepoints()
        chosen = points.timestamp != points.timestamp
        for start, stop in timestamp_pairs:
            chosen |= (points.timestamp >= start) & (points.timestamp <= stop)
        return points[chosen]

    def overall_timepoint_results(self) -> Any:
        """min, max, mean and std of each measurement over all timepoints: a DataFrame."""
        return summary_stats(self._timepoints().drop(columns="timestamp"))

    def sub_tracking_results(self) -> SubTrackingResults:
        """The results of the whole session and of each code block."""
        overall, static = self.overall_timepoint_results(), self.read_static_data()
        return SubTrackingResults(overall, static, [self._results_of(name) for name in self.load_code_block_names()])

    def _results_of(self, name: str) -> CodeBlockResults:
        calls = self.load_timestamp_pairs(name)
        lengths = pandas().Series([stop - start for start, stop in calls], dtype=float)
        times = summary_stats(lengths)
        times["total"] = lengths.sum().item()
        points = self.load_timepoints(calls)
        seen = sum(bool(((points.timestamp >= start) & (points.timestamp <= stop)).any()) for start, stop in calls)
        return CodeBlockResults(name, len(points), len(calls), seen, times, summary_stats(points.drop(columns="timestamp")))

    def _rows(self) -> List[_blocks.Row]:
        if self._blocks is None:
            self._blocks = _needed(self._sub_tracking, "sub-tracking").blocks()
        return self._blocks

    def _timepoints(self) -> Any:
        if self._points is None:
            self._points = _needed(self._tracking, "tracking").table()
        return self._points


def _needed(file: Optional[DataFile], what: str) -> DataFile:
    if file is None:
        raise ValueError(f"This needs a {what} file, and the SubTrackingAnalyzer was made without one.")
    return file


for _kind in (CodeBlockResults, SubTrackingResults, ComparisonResults, TrackingComparison):
    _kind.__module__ = __name__  # pickles then name this module, like those of gpu-tracker

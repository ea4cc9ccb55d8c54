# SPDX-License-Identifier: MIT
"""Runs a command within a Tracker."""
from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

from .. import _job
from .._figures import Figures
from ._follower import Follower
from .tracker import Tracker


def track(make: Callable[[], Tracker], words: List[str], is_for_programs: bool, write: Callable[[Any], None]) -> int:
    """Makes a tracker, runs the command to its end and writes its figures; arguments and result as
    in `_job.run_and_report`."""

    def run(job: _job.Started) -> int:
        tracker = make()
        plan = tracker._plan
        session = job(plan.sleep_time, plan.n_cores, plan.uuids, plan.system_uuids)
        follower = Follower(plan, session.timeline.path)
        files = _Files(tracker)
        status = session.run(lambda: files.do(follower.step))
        files.do(follower.finish)
        results.append((tracker, session.figures()))
        return status

    def report() -> None:
        [(tracker, found)] = results
        tracker._set_figures(found)
        write(tracker)

    results: List[Tuple[Tracker, Optional[Figures]]] = []
    return _job.run_and_report(words, run, is_for_programs, report)


class _Files:
    """Writes files while the job runs. The first error is logged and ends the writing; the job
    continues."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._is_wanted = tracker._plan.needs_keeper

    def do(self, action: Callable[[], None]) -> None:
        if not self._is_wanted:
            return
        try:
            action()
        except Exception as e:  # of any kind: a full disk, a removed file
            self._is_wanted = False
            self._tracker._warn_of(f"{type(e).__name__}: {e}")

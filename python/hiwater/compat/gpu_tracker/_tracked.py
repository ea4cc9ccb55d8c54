# SPDX-License-Identifier: MIT
"""A command with a Tracker round it."""
from __future__ import annotations

from typing import Any, Callable, List

from .. import _job
from ._follower import Follower
from .tracker import Tracker


def track(make: Callable[[], Tracker], words: List[str], is_for_programs: bool, write: Callable[[Any], None]) -> int:
    """Makes a tracker, runs the command to its end and writes what it used; as `_job.told`."""

    def run(job: _job.Started) -> int:
        tracker = make()
        plan = tracker._plan
        session = job(plan.sleep_time, plan.n_cores, plan.uuids, plan.system_uuids)
        follower = Follower(plan, session.timeline.path)
        status = session.run(follower.step if plan.needs_keeper else lambda: None)
        follower.finish()
        tracker._take(session.figures())
        results.append(tracker)
        return status

    results: List[Tracker] = []
    return _job.told(words, run, is_for_programs, lambda: write(results[0]))

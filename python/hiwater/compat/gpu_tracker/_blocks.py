# SPDX-License-Identifier: MIT
"""Pairs the start and stop marks of code blocks."""
from __future__ import annotations

from typing import Dict, List, Tuple

Row = Tuple[int, str, int, float]  # process, code block, position (0 start, 1 stop), timestamp
Mark = Tuple[int, int, float]  # process, position, timestamp

START, STOP = 0, 1


def pairs(marks: List[Mark]) -> List[Tuple[float, float]]:
    """(start, stop) of the calls of one code block, from its marks in file order; sorted by
    process, then by time.

    Files written by hiwater have the two marks of a call next to each other. In other files
    overlapping blocks are taken for nested ones, as in recursion; a start without a stop is a call
    that was cut off. Raises ValueError for a stop without a start."""
    by_process: Dict[int, List[Mark]] = {}
    for mark in marks:
        by_process.setdefault(mark[0], []).append(mark)
    made: List[Tuple[float, float]] = []
    for pid in sorted(by_process):
        made += sorted(_of_process(by_process[pid], marks))
    return made


def _of_process(marks: List[Mark], every: List[Mark]) -> List[Tuple[float, float]]:
    made: List[Tuple[float, float]] = []
    starts: List[float] = []
    for _, position, at in marks if _are_adjacent(marks) else sorted(marks, key=lambda m: (m[2], m[1])):
        if position == START:
            starts.append(at)
        elif starts:
            made.append((starts.pop(), at))
        else:
            raise _complaint(every)
    return made


def _are_adjacent(marks: List[Mark]) -> bool:
    """True if the marks alternate: a start, its stop, and so on; the last may be a start alone."""
    return all(m[1] == (START, STOP)[i % 2] for i, m in enumerate(marks)) and all(
        a[2] <= b[2] for a, b in zip(marks[::2], marks[1::2]))


def _complaint(every: List[Mark]) -> ValueError:
    """The error for the first two marks, by process and time, that do not form a call."""
    ordered = sorted(every, key=lambda m: (m[0], m[2], m[1]))
    for first, second in zip(ordered[::2], ordered[1::2]):
        pair = f"Sub-tracking file is invalid. Detected timestamp pair ({first[2]}, {second[2]})"
        if first[0] != second[0]:
            return ValueError(f"{pair} with differing process IDs: {first[0]} and {second[0]}.")
        if first[1] > second[1]:
            return ValueError(f"{pair} of process ID {first[0]} with a start time greater than the stop time.")
    return ValueError(f"Sub-tracking file is invalid. Process ID {ordered[-1][0]} has a stop time without a start time.")

# SPDX-License-Identifier: MIT
"""Makes the rows of a job from its parts (docs/jobs.md has the rules): memory of the nodes at one time, CPU time summed,
GPUs and energy once."""
from __future__ import annotations

import hashlib

from ._fleet_read import read_windows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

    from ._fleet_read import Part, Windows
    from ._fleet_tables import Row

    Group = Tuple[Any, ...]
    Curve = Dict[int, Tuple[Any, ...]]

SECOND = 10**9
WINDOWS_MOST = 1000  # per node and job
RANKS_MOST = 1 << 20
SPAN, LEAST, MEAN, MOST, LOW, CORES, READ, WRITTEN = range(8)  # of a row of a curve
VALID_WINDOWS = 2  # a value stays valid so long; then there is a gap


def group_of(part: Part) -> Optional[Group]:
    """What the parts of one job have in common; None: this recording is a job of its own."""
    several = part.text("part") in ("rank", "node", "job") or (part.integer("ranks") or 0) > 1
    if not several or not part.text("scheduler_job"):
        return None
    return part.text("scheduler"), part.text("cluster"), part.text("scheduler_job"), part.integer("restart") or 0


class Job:
    """A finished job.

    parts       its recordings, without copies
    lines       ranks that keep no recording: (name of the node, line of NODE.ranks)
    unreadable  recordings next to them that cannot be read"""

    def __init__(self, group: Optional[Group], parts: Sequence[Part], lines: Sequence[Tuple[str, Dict[str, Any]]] = (), unreadable: int = 0) -> None:
        merged = [p for p in parts if p.text("part") == "job"]
        self.parts = [p for p in parts if p.text("part") != "job"] or merged[:1]
        self.lines = [line for _, line in lines]
        self.unreadable = unreadable
        self.start_ns = min(start_of(p) for p in self.parts)
        self.end_ns = max(end_of(p) for p in self.parts)
        self.run = self.parts[0].text("id") if group is None else _run_of(group, self.start_ns)
        self.nodes: Dict[str, Node] = {}
        for part in self.parts:
            name = part.text("node") or part.text("host") or ""
            self.nodes.setdefault(name, Node(name)).add(part)
        for name, line in lines:
            self.nodes.setdefault(name, Node(name)).lines.append(line)
        width = max(max((p.integer("window_ns") or 0) for p in self.parts), SECOND)
        self.width = -(-max(width, -(-(self.end_ns - self.start_ns) // (WINDOWS_MOST - 1))) // SECOND) * SECOND
        self.ranks = self._ranks()

    @property
    def ranked(self) -> List[Part]:
        """The recordings of the ranks; of a job that has none (leaders' ranks apart), those that there are."""
        return [p for p in self.parts if p.text("part") != "node"]

    def _ranks(self) -> Optional[int]:
        known = [n for n in (p.integer("ranks") for p in self.parts) if n is not None and 0 < n <= RANKS_MOST]
        return max(known) if known else None

    def missing(self) -> List[int]:
        seen = {p.integer("rank") for p in self.ranked} | {line["rank"] for line in self.lines}
        return [] if self.ranks is None or self.is_merged else [n for n in range(self.ranks) if n not in seen]

    def missing_nodes(self) -> int:
        """How many nodes of a job of several ranks have no recording."""
        if self.ranks is None or self.is_merged:
            return 0
        return max(0, (most(p.integer("nodes") for p in self.parts) or 0) - len(self.nodes))

    @property
    def is_merged(self) -> bool:
        return any(p.text("part") == "job" for p in self.parts)


def _run_of(group: Group, start_ns: int) -> str:
    """The same for the parts of a job and for the recording that was merged of them: the scheduler's numbers begin again
    some day, but not on the same day."""
    text = "\0".join(map(str, (*group, start_ns // (86400 * SECOND))))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def start_of(part: Part) -> int:
    return part.integer("started_wall_ns") or 0


def end_of(part: Part) -> int:
    return start_of(part) + (part.integer("ended_ns") or part.integer("last_ns") or 0)


def add(values: Iterable[Any]) -> Any:
    """None if one of them is unknown, or there is none."""
    known = list(values)
    return sum(known) if known and None not in known else None


def most(values: Iterable[Any]) -> Any:
    return max((v for v in values if v is not None), default=None)


def least(values: Iterable[Any]) -> Any:
    return min((v for v in values if v is not None), default=None)


def mean(values: Iterable[Any]) -> Any:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def scaled(value: Any, by: float) -> Optional[float]:
    return None if value is None else value / by


def as_number(value: Any) -> Any:
    return value if isinstance(value, (int, float)) else None


# ---- memory ----------------------------------------------------------------------------------------------------------

class Ram:
    """A peak: bytes, None where unknown (of high: unbounded)."""

    def __init__(self, peak: Any, low: Any, high: Any, exact: bool = False) -> None:
        self.peak, self.low, self.high = peak, low, high
        self.method = None if peak is None else "sampled" if high is None else "exact" if exact and low == high else "bounded"

    def columns(self) -> Row:
        return {"peak_ram_bytes": self.peak, "peak_ram_low_bytes": self.low, "peak_ram_high_bytes": self.high, "peak_ram_method": self.method}


def ram_of(part: Part) -> Ram:
    low, peak, high = (part.integer(f"ram_{name}_bytes") for name in ("low", "peak", "high"))
    if part.integer("ended_ns") is None:  # cut off: what came afterwards is not known
        return Ram(most((peak, part.value("job", "ram", "max"))), most((low, part.value("job", "ram_low", "max"))), None)
    return Ram(peak, low, high, exact=part.integer("processes_seen") == 1)


def _within(peak: Any, low: Any, high: Any) -> Any:
    if peak is not None and low is not None:
        peak = max(peak, low)
    return peak if peak is None or high is None else min(peak, high)


class Node:
    """The parts of a job on one node.

    unions  recordings of the node: a second one after a takeover
    ranks   those of its ranks; also that of a job of one recording
    lines   its ranks without a recording"""

    def __init__(self, name: str) -> None:
        self.name = name
        self.unions: List[Part] = []
        self.ranks: List[Part] = []
        self.lines: List[Dict[str, Any]] = []
        self._windows: Optional[Tuple[Curve, Curve]] = None

    def add(self, part: Part) -> None:
        (self.unions if part.text("part") == "node" else self.ranks).append(part)

    @property
    def sources(self) -> List[Part]:
        """Where its windows come from."""
        return self.unions or self.ranks

    def ram(self, curve: Curve, is_whole: bool) -> Ram:
        """is_whole: no rank of the job is missing."""
        if self.unions:
            seen = [ram_of(p) for p in self.unions]
            return seen[0] if len(seen) == 1 else Ram(most(r.peak for r in seen), most(r.low for r in seen), None)
        seen = [ram_of(p) for p in self.ranks]
        if len(seen) == 1 and not self.lines and is_whole:
            return seen[0]
        kept = [line.get("ram_peak_bytes") for line in self.lines]
        high = add([r.high for r in seen] + kept) if is_whole else None
        low = most([r.low for r in seen])
        peak = add([most(row[MOST] for row in curve.values())] + kept)
        return Ram(_within(peak, low, high), low, high)

    def cpus(self) -> Any:
        if self.unions or len(self.ranks) == 1:
            return most(p.integer("cpus") for p in self.sources)
        return add(p.integer("request_cpus") for p in self.ranks) if not self.lines else None

    def limit(self) -> Any:
        """The memory that its ranks share: the smallest limit, else the machine's."""
        return least(p.integer("limit_bytes") for p in self.sources) or most(p.integer("capacity_bytes") for p in self.sources)

    def windows(self, job: Job, uuids: Sequence[str]) -> Tuple[Curve, Curve]:
        """Its windows, rows by bucket (SPAN, ...: RAM, then CPUs and bytes), and those of its GPUs.
        Of several ranks, sums; of recordings of the node, which follow one another, what either has."""
        made = []
        for part in self.sources:
            windows = read_windows(part, job.width, [number for number, uuid, *_ in part.gpus if uuid in uuids])
            made.append((_rates(part, windows), windows.gpu))
        gpu: Curve = {}
        for _, of_gpu in made:
            for bucket, values in of_gpu.items():
                gpu.setdefault(bucket, values)
        if self.unions:
            job_curve: Curve = {}
            for curve, _ in made:
                for bucket, values in curve.items():
                    job_curve.setdefault(bucket, values)
            return job_curve, gpu
        return _added([curve for curve, _ in made], lows_add=False), gpu


def _rates(part: Part, windows: Windows) -> Curve:
    """The windows with cores and bytes in place of counters."""
    made: Curve = {}
    before: Optional[Tuple[int, Tuple[Any, ...]]] = None
    first = (add(part.value("job", f"cpu_{mode}", "min") for mode in ("user", "system")), 0, 0)
    for bucket, (span, least, mean, most, low, *counters) in windows.job.items():
        place, last = before or (bucket - 1, first)
        grown = [max(0, now - was) if as_number(now) is not None and was is not None else None for now, was in zip(counters, last)]
        covered = span if place == bucket - 1 else (bucket - place) * windows.width
        made[bucket] = (span, least, mean, most, low, grown[0] / covered if grown[0] is not None and covered else None, grown[1], grown[2])
        before = bucket, tuple(counters)
    return made


def _valid(curve: Curve, bucket: int) -> Optional[Tuple[Any, ...]]:
    return next((curve[b] for b in range(bucket, bucket - VALID_WINDOWS, -1) if b in curve), None)


def _added(curves: Sequence[Curve], lows_add: bool) -> Curve:
    """The sum of curves at the same time. A sum of which a part is unknown is unknown; a recording that has not begun, or
    has ended, adds nothing. lows_add: they share no memory; else the lower bound is the largest of them."""
    if len(curves) == 1:
        return curves[0]
    ends = [(curve, min(curve), max(curve)) for curve in curves if curve]
    made: Curve = {}
    for bucket in sorted({b for curve, _, _ in ends for b in curve}):
        there = [(curve, first, last) for curve, first, last in ends if first <= bucket <= last]
        rows = [row for row in (_valid(curve, bucket) for curve, _, _ in there) if row]
        if len(rows) < len(there):
            continue
        here = [curve[bucket] for curve, _, _ in there if bucket in curve]
        # a lower bound is one of a whole window: at its first and last, two recordings may not have been there at once
        whole = [curve[bucket][LOW] for curve, first, last in there if bucket in curve and first < bucket < last]
        made[bucket] = (most(row[SPAN] for row in here), *(add(row[column] for row in rows) for column in (LEAST, MEAN, MOST)),
                        add(whole) if lows_add else most(whole), add(row[CORES] for row in rows), *(add(row[column] for row in here) for column in (READ, WRITTEN)))
    return made


def job_ram(job: Job, nodes: Dict[str, Ram], curves: Sequence[Curve]) -> Ram:
    """The largest sum over the nodes at one time. Bounds add up; at one time, the job used at least what its largest node
    did, and the sum of what all nodes did throughout a window."""
    if len(nodes) == 1 and not job.missing_nodes():
        return next(iter(nodes.values()))
    added = _added(curves, lows_add=True)
    high = add(r.high for r in nodes.values()) if not job.missing_nodes() else None
    low = most([*(r.low for r in nodes.values()), *(row[LOW] for row in added.values())])
    if low is not None and high is not None:
        low = min(low, high)
    peak = most([*(row[MOST] for row in added.values()), *(r.peak for r in nodes.values())])
    return Ram(_within(peak, low, high), low, high)

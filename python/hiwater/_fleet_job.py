# SPDX-License-Identifier: MIT
"""A finished job as one recording: of a run, or merged by `hiwater merge` from those of its ranks and nodes, so that a fleet
has the figures that `hiwater show` has."""
from __future__ import annotations

import hashlib

from ._fleet_read import read_windows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

    from ._fleet_read import Part, Samples
    from ._fleet_tables import Row

    Group = Tuple[Any, ...]
    Curve = Dict[int, Tuple[Any, ...]]

SECOND = 10**9
WINDOWS_MOST = 1000  # per node and job
RANKS_MOST = 1 << 20
SPAN, LEAST, MEAN, MOST, CORES, READ, WRITTEN = range(7)  # of a row of a curve
VALID_WINDOWS = 2  # a value stays valid so long; then there is a gap


def group_of(part: Part) -> Optional[Group]:
    """What the recordings of one job of several ranks have in common; None: this recording is a job of its own."""
    several = part.text("part") in ("rank", "node", "job") or (part.integer("ranks") or 0) > 1
    if not several or not part.text("scheduler_job"):
        return None
    return part.text("scheduler"), part.text("cluster"), part.text("scheduler_job"), part.integer("restart") or 0


class Job:
    """recording    of the run, or merged
    group        of a job of several ranks
    parts        rows as those of the table part of a merged recording (src/job/part.def): its ranks and nodes
    nodes        likewise (src/job/part_node.def)
    unreadable   how many recordings of the job cannot be used"""

    def __init__(self, recording: Part, group: Optional[Group], unreadable: int = 0) -> None:
        self.recording, self.group = recording, group
        self.start_ns = recording.integer("started_wall_ns") or 0
        self.wall_ns = recording.integer("ended_ns") or recording.integer("last_ns") or 0
        self.run = recording.text("id") if group is None else _run_of(group, self.start_ns)
        self.is_merged = recording.text("part") == "job"
        self.parts = recording.table("part") if self.is_merged else [_only_part(recording)]
        self.nodes = recording.table("node") if self.is_merged else [_only_node(recording)]
        self.unreadable = unreadable + (len(recording.table("problem")) if self.is_merged else 0)
        window = max(recording.integer("window_ns") or 0, SECOND)
        self.width = -(-max(window, -(-self.wall_ns // (WINDOWS_MOST - 1))) // SECOND) * SECOND
        known = [n for n in (p["ranks"] for p in self.parts) if isinstance(n, int) and 0 < n <= RANKS_MOST]
        self.ranks = max(known) if known and self.is_merged else None

    def ranked(self) -> List[Row]:
        return [p for p in self.parts if p["kind"] != "node" and p["counts"] != 0]

    def missing(self) -> List[int]:
        seen = {p["rank"] for p in self.ranked()}
        return [] if self.ranks is None else [n for n in range(self.ranks) if n not in seen]

    def missing_nodes(self) -> int:
        """How many nodes of a job of several ranks have no recording."""
        return max(0, (most(as_number(p["nodes"]) for p in self.parts) or 0) - len(self.nodes)) if self.ranks else 0

    def cut_off(self) -> List[Row]:
        return [p for p in self.parts if not p["complete"] and p["has_recording"]]

    def curves(self, gpus: Dict[str, List[int]]) -> Dict[str, Tuple[Curve, Curve]]:
        """Per node its windows, and those of its GPUs, whose ids are given. Raises Unreadable."""
        samples = read_windows(self, gpus)
        return {name: (_added([_rates(self.width, curve) for curve in samples.of_node(name)]), samples.gpu.get(name, {}))
                for name in sorted({text_of(node["name"]) for node in self.nodes})}


def _run_of(group: Group, start_ns: int) -> str:
    """The same wherever and from whatever a job is merged: the scheduler's numbers begin again some day, but not on the same
    day."""
    text = "\0".join(map(str, (*group, start_ns // (86400 * SECOND))))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _only_part(r: Part) -> Row:
    user, system = cpu_of(r)
    ended = r.integer("ended_ns")
    ram = ram_of(r)
    return {"kind": "run", "file": r.path, "has_recording": 1, "node": _node_name(r), "rank": r.integer("rank"), "local_rank": r.integer("local_rank"),
            "ranks": r.integer("ranks"), "nodes": r.integer("nodes"), "counts": 1, "complete": ended is not None, "start_ns": 0,
            "started_wall_ns": r.integer("started_wall_ns"), "wall_ns": ended or r.integer("last_ns"), "exit_code": _shell_code(r.integer("exit_status")),
            "cpus": r.integer("cpus"), "user_ns": user, "system_ns": system, "ram_peak_bytes": ram["peak_ram_bytes"],
            "ram_low_bytes": ram["peak_ram_low_bytes"], "ram_high_bytes": ram["peak_ram_high_bytes"], "ram_method": ram["peak_ram_method"],
            "limit_bytes": r.integer("limit_bytes"), "capacity_bytes": r.integer("capacity_bytes"), "request_bytes": r.integer("request_bytes"),
            "request_time_ns": r.integer("request_time_ns"), "request_gpus": r.integer("request_gpus"), "read_bytes": r.value("job", "read_bytes", "last"),
            "write_bytes": written_by(r), "processes": r.integer("processes_seen"), "version": r.text("version"), "name": r.text("name"),
            "user": r.text("user"), "command": r.text("command"), "allocated_gpus": r.known_text("allocated_gpus"), "restart": r.integer("restart")}


def _only_node(r: Part) -> Row:
    return {"name": _node_name(r), "has_union": 0, "limit_bytes": r.integer("limit_bytes"), "capacity_bytes": r.integer("capacity_bytes"),
            "ram_peak_bytes": ram_of(r)["peak_ram_bytes"], "energy_uj": r.increase("host", "energy")}


def _node_name(r: Part) -> str:
    return r.text("node") or r.text("host") or ""


def _shell_code(status: Optional[int]) -> Optional[int]:
    """The exit status of a shell for one of waitpid: 128 + the signal."""
    if status is None:
        return None
    return 128 + (status & 0x7F) if status & 0x7F else status >> 8 & 0xFF


# ---- numbers ---------------------------------------------------------------------------------------------------------

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


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


# ---- figures of a recording ------------------------------------------------------------------------------------------

def cpu_of(r: Part) -> Tuple[Any, Any]:
    """User and system time in ns: what the kernel reported of processes that were waited for, or the last sample, the
    larger; both are lower bounds."""
    user, system = (most((r.integer(f"reaped_{mode}_ns"), r.value("job", f"cpu_{mode}", "last"))) for mode in ("user", "system"))
    return user, system


def written_by(r: Part) -> Optional[int]:
    written, cancelled = r.value("job", "write_bytes", "last"), r.value("job", "write_cancelled", "last")
    return None if written is None else max(0, int(written - (cancelled or 0)))


def ram_of(r: Part) -> Row:
    """The columns of the peak. Of a recording that was cut off there is no upper bound: what came afterwards is not known."""
    low, peak, high = (r.integer(f"ram_{name}_bytes") for name in ("low", "peak", "high"))
    if r.integer("ended_ns") is None:
        low, peak, high = most((low, r.value("job", "ram_low", "max"))), most((peak, r.value("job", "ram", "max"))), None
    is_exact = low == high and r.integer("processes_seen") == 1
    method = None if peak is None else "sampled" if high is None else "exact" if is_exact else "bounded"
    return {"peak_ram_bytes": peak, "peak_ram_low_bytes": low, "peak_ram_high_bytes": high, "peak_ram_method": method}


# ---- windows ---------------------------------------------------------------------------------------------------------

def _rates(width: int, samples: Samples) -> Curve:
    """The windows of one recording with cores and bytes in place of counters."""
    made: Curve = {}
    before, last = None, samples.first
    for bucket, (span, low, middle, high, *counters) in samples.rows.items():
        grown = [None if as_number(now) is None or was is None else max(0, now - was) for now, was in zip(counters, last)]
        covered = span if before in (None, bucket - 1) else (bucket - before) * width
        made[bucket] = (span, low, middle, high, grown[0] / covered if grown[0] is not None and covered else None, grown[1], grown[2])
        before, last = bucket, tuple(counters)
    return made


def _valid(curve: Curve, bucket: int) -> Optional[Tuple[Any, ...]]:
    return next((curve[b] for b in range(bucket, bucket - VALID_WINDOWS, -1) if b in curve), None)


def _added(curves: Sequence[Curve]) -> Curve:
    """The sum of curves at the same time. A sum of which a part is unknown is unknown; a recording that has not begun, or
    has ended, adds nothing."""
    if len(curves) == 1:
        return curves[0]
    ends = [(curve, min(curve), max(curve)) for curve in curves if curve]
    made: Curve = {}
    for bucket in sorted({b for curve, _, _ in ends for b in curve}):
        there = [curve for curve, first, last in ends if first <= bucket <= last]
        rows = [row for row in (_valid(curve, bucket) for curve in there) if row]
        if len(rows) < len(there):
            continue
        here = [curve[bucket] for curve in there if bucket in curve]
        made[bucket] = (most(row[SPAN] for row in here), *(add(row[column] for row in rows) for column in (LEAST, MEAN, MOST, CORES)),
                        *(add(row[column] for row in here) for column in (READ, WRITTEN)))
    return made

# SPDX-License-Identifier: MIT
"""How a run went, for drawing: read as the recording grows, thinned as it gets long. Each line has some hundred points
however long the run is, and reading on costs what is new."""
from __future__ import annotations

import math
import re

from ._recording import GPU_NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence, Tuple

    from ._recording import Recording

GIB = 1 << 30
POINTS_MOST = 300
SERIES_SHOWN = 4
FRAMEWORK = re.compile(r"(torch|jax|tensorflow)/([^/]+)/(\w+)$")
LOOP = ("data_wait", "step_time", "steps")  # of callbacks and wrap_loader: drawn only where they are asked for


class Line:
    """Points by time; value None is a gap. Neighbours become one where there are too many: the mean, and of those that are
    peaks the larger."""

    def __init__(self, label: str, is_peak: bool = False, dashed: bool = False, colour: Optional[int] = None) -> None:
        self.label = label
        self.dashed = dashed
        self.colour = colour
        self.points: List[Tuple[float, Optional[float]]] = []
        self._is_peak = is_peak
        self._stride = 1
        self._pending: List[Tuple[float, Optional[float]]] = []

    def add(self, t_s: float, value: Optional[float]) -> None:
        self._pending.append((t_s, value if value is None or math.isfinite(value) else None))
        if len(self._pending) >= self._stride:
            self.points.append(self._one(self._pending))
            self._pending = []
        if len(self.points) > POINTS_MOST:
            self._stride *= 2
            pairs = [self.points[i:i + 2] for i in range(0, len(self.points), 2)]
            self.points = [self._one(pair) for pair in pairs]

    @property
    def last(self) -> Optional[float]:
        known = [v for _, v in self._pending or self.points[-1:] if v is not None]
        return known[-1] if known else None

    def _one(self, points: Sequence[Tuple[float, Optional[float]]]) -> Tuple[float, Optional[float]]:
        known = [v for _, v in points if v is not None]
        if not known:
            return points[-1][0], None
        return points[-1][0], max(known) if self._is_peak else sum(known) / len(known)


class Panel:
    """Lines over the same time with one unit. from_zero: the scale begins there; top: it reaches at least so far."""

    def __init__(self, title: str, from_zero: bool = False, top: Optional[float] = None) -> None:
        self.title = title
        self.from_zero = from_zero
        self.top = top
        self.lines: Dict[Any, Line] = {}

    def line(self, key: Any, label: str, is_peak: bool = False, dashed: bool = False, colour: Optional[int] = None) -> Line:
        if key not in self.lines:
            self.lines[key] = Line(label, is_peak, dashed, colour)
        return self.lines[key]

    @property
    def has_something(self) -> bool:
        return any(v is not None for line in self.lines.values() for _, v in line.points)


class Course:
    """The panels of a run. series: which logged ones are drawn; without names the first few that were logged."""

    def __init__(self, series: Sequence[str] = ()) -> None:
        self._wanted = tuple(series)
        self.cpu, self.ram = Panel("CPU, cores", True), Panel("RAM, GiB", True)
        self.busy, self.memory = Panel("GPU, %", True, 100.0), Panel("GPU memory, GiB", True)
        self.logged: Dict[str, Panel] = {}
        self.phases: List[Tuple[str, float, Optional[float]]] = []
        self.marks: List[Tuple[float, str]] = []
        self.end_s = 0.0
        self._read_to: Dict[Any, int] = {}
        self._cpu: Optional[Tuple[int, int]] = None

    @property
    def panels(self) -> List[Panel]:
        """Those with something to draw."""
        return [p for p in (self.cpu, self.ram, self.busy, self.memory, *self.logged.values()) if p.has_something]

    def read(self, recording: Recording) -> None:
        """What is new. Raises hiwater.Error if it cannot be read."""
        self.read_job(recording)
        self._read_gpus(recording)
        self._read_series(recording)
        self._read_phases(recording)

    # ---- a table each

    def _new(self, recording: Recording, table: str, columns: str, key: str = "") -> List[Tuple[Any, ...]]:
        """Rows after those that were read: windows from before the black box begins, then each look."""
        after = self._read_to.get(table, -1)
        rows: List[Tuple[Any, ...]] = []
        if after < 0:
            rows = recording.query(f"SELECT t, {columns} FROM {table}_sample {key} WHERE t + span <= coalesce((SELECT min(t) "
                                   f"FROM {table}_recent), 1 << 62) ORDER BY t")[1]
        rows += recording.query(f"SELECT t, {columns} FROM {table}_recent {key} WHERE t > ? ORDER BY t", after)[1]
        if rows:
            self._read_to[table] = rows[-1][0]
            self.end_s = max(self.end_s, rows[-1][0] / 1e9)
        return rows

    def read_job(self, recording: Recording) -> None:
        for t, ram, user, system in self._new(recording, "job", "ram, cpu_user, cpu_system"):
            if ram is not None:
                self.ram.line("ram", "job", is_peak=True).add(t / 1e9, ram / GIB)
            if user is None or system is None:
                continue
            if self._cpu and t - self._cpu[0] >= 200_000_000:
                cores = (user + system - self._cpu[1]) / (t - self._cpu[0])
                self.cpu.line("cpu", "job").add(t / 1e9, max(cores, 0.0))
                self._cpu = (t, user + system)
            elif not self._cpu:
                self._cpu = (t, user + system)

    def _read_gpus(self, recording: Recording) -> None:
        rows = self._new(recording, "gpu", f"id, (SELECT {GPU_NUMBER} FROM gpu g WHERE g.id = x.id), busy, sm_active, job_mem, mem", "x")
        for t, key, number, busy, active, job_mem, mem in rows:
            is_whole = isinstance(number, int)
            colour = number if is_whole else key
            name = f"MIG {number}" if number is not None and not is_whole else f"GPU {colour}"
            if busy is not None:
                self.busy.line(key, f"{name} busy", colour=colour).add(t / 1e9, busy / 1e4)
            if active is not None:
                self.busy.line((key, "sm"), f"{name} SM", dashed=True, colour=colour).add(t / 1e9, active / 1e4)
            held = job_mem if job_mem is not None else mem
            if held is not None:
                self.memory.line(key, name, is_peak=True, colour=colour).add(t / 1e9, held / GIB)

    def _read_series(self, recording: Recording) -> None:
        after = self._read_to.get("series", 0)
        rows = recording.query("SELECT v.rowid, v.t, s.name, v.value FROM series_value v JOIN series s ON s.id = v.series "
                               "WHERE v.rowid > ? ORDER BY v.rowid", after)[1]
        for row, t, name, value in rows:
            self._read_to["series"] = row
            self._value(t / 1e9, name, value)

    def _value(self, t_s: float, name: str, value: Optional[float]) -> None:
        found = FRAMEWORK.match(name)
        if found:
            if found[3] in ("allocated_bytes", "reserved_bytes") and value is not None:
                device = found[2][3:] if found[2].startswith("gpu") and found[2][3:].isdigit() else None
                label = f"{found[1]} {found[3].split('_')[0]}" + (f" {found[2]}" if device != "0" else "")
                self.memory.line(name, label, is_peak=True, dashed=True, colour=int(device) if device else None) \
                    .add(t_s, value / GIB)
        elif name in self.logged or self._is_drawn(name):
            self.logged.setdefault(name, Panel(name)).line(name, name).add(t_s, value)

    def _is_drawn(self, name: str) -> bool:
        if self._wanted:
            return name in self._wanted
        return name not in LOOP and len(self.logged) < SERIES_SHOWN

    def _read_phases(self, recording: Recording) -> None:
        rows = recording.query("SELECT name, began, ended FROM phase ORDER BY number DESC LIMIT 200")[1]
        self.phases = [(name, began / 1e9, None if ended is None else ended / 1e9) for name, began, ended in reversed(rows)]
        rows = recording.query("SELECT t, text FROM event WHERE kind = 'mark' ORDER BY t DESC LIMIT 50")[1]
        self.marks = [(t / 1e9, text or "") for t, text in reversed(rows)]

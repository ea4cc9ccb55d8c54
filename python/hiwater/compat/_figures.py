# SPDX-License-Identifier: MIT
"""What a run used, in base units: made of its summary (peaks, exact where they can be) and its timeline (how much at once)."""
from __future__ import annotations

from dataclasses import dataclass, field

from ._timeline import Timepoints

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

    from ._timeline import Timeline, Timepoint


@dataclass
class Ram:
    """Bytes; total = private + shared."""

    total: float = 0.0
    private: float = 0.0
    shared: float = 0.0


@dataclass
class Share:
    """The most and the mean of something busy; 1.0 is one core, or one GPU."""

    max: float = 0.0
    mean: float = 0.0


@dataclass
class Figures:
    """Bytes, seconds, shares. 0 stands for what is unknown, as it does in the packages that this is for; `unknown` names it."""

    system_ram: float = 0.0
    main: Ram = field(default_factory=Ram)
    rest: Ram = field(default_factory=Ram)
    combined: Ram = field(default_factory=Ram)
    gpu_system: float = 0.0
    gpu_main: float = 0.0
    gpu_rest: float = 0.0
    gpu_combined: float = 0.0
    wall_s: float = 0.0
    cpu_system: Share = field(default_factory=Share)
    cpu_main: Share = field(default_factory=Share)
    cpu_rest: Share = field(default_factory=Share)
    cpu_combined: Share = field(default_factory=Share)
    gpu_busy: Share = field(default_factory=Share)
    main_threads: int = 0
    rest_threads: int = 0
    threads: int = 0
    unknown: List[str] = field(default_factory=list)


def figures(summary: Dict[str, Any], timeline: Timeline, period_s: float, n_cores: int) -> Figures:
    """Of a run that goes on, or is over. summary is that of docs/summary.schema.json."""
    f = Figures()
    ram, gpu, time = summary["ram"], summary["gpu"] or {}, summary["time"]
    f.system_ram = ram["system"]["peak_bytes"] or 0.0
    main_files, rest_files = timeline.file_bytes()
    for mine, theirs, files in (("main", "main", main_files), ("rest", "descendants", rest_files),
                                ("combined", "combined", max(main_files, rest_files))):
        setattr(f, mine, _ram(ram[theirs], files))
        setattr(f, f"gpu_{mine}", (gpu.get(theirs) or {}).get("peak_bytes") or 0.0)
    if gpu.get("devices") and gpu["combined"]["peak_bytes"] is None:
        f.unknown.append("gpu_ram")
    f.wall_s = time["wall_s"] or 0.0
    cpu_s = None if time["user_s"] is None else time["user_s"] + (time["system_s"] or 0.0)
    looks = timeline.whole()
    points = Timepoints(period_s, period_s, n_cores)
    _shares(f, [*points.take(looks), *points.finish()], cpu_s)
    f.gpu_system = max((look.gpu_used for look in looks), default=0.0)
    f.main_threads = max((look.main_threads for look in looks), default=0)
    f.rest_threads = max((look.rest_threads for look in looks), default=0)
    f.threads = max((look.threads for look in looks), default=0)
    return f


def _ram(figure: Dict[str, Any], file_bytes: float) -> Ram:
    """Where pages were not told apart (a process over 1.5 GiB), mapped files and shared memory count as shared."""
    total = float(figure["peak_bytes"] or 0)
    private = figure["private_bytes"]
    private = total - min(float(file_bytes), total) if private is None else min(float(private), total)
    return Ram(total, private, total - private)


def _shares(f: Figures, points: List[Timepoint], cpu_s: Optional[float]) -> None:
    """Means are of the whole time, not of moments in it."""
    if not points:
        if cpu_s is not None and f.wall_s > 0:
            f.cpu_main = f.cpu_combined = Share(cpu_s / f.wall_s, cpu_s / f.wall_s)
        return
    for name, values in (("cpu_main", [p.main_cores for p in points]), ("cpu_rest", [p.rest_cores for p in points]),
                         ("cpu_combined", [p.cores for p in points]), ("cpu_system", [p.system_cores or 0.0 for p in points])):
        setattr(f, name, _share(values, [p.span_s for p in points]))
    seen = [p for p in points if p.look.gpu_seen]  # the driver answers some time after the job began
    if seen:
        f.gpu_busy = _share([p.look.gpu_busy for p in seen], [p.span_s for p in seen])


def _share(values: List[float], spans: List[float]) -> Share:
    """Weighted by the time that each stands for."""
    whole = sum(spans)
    mean = sum(v * span for v, span in zip(values, spans)) / whole if whole > 0 else values[-1]
    return Share(max(values), min(mean, max(values)))  # the quotient may be rounded up

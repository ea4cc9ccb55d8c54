# SPDX-License-Identifier: MIT
"""Figures of a run in base units: peaks from its summary, shares of CPUs and GPUs from its
timeline."""
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
    """Maximum and mean utilisation; 1.0 is one core, or one GPU."""

    max: float = 0.0
    mean: float = 0.0


@dataclass
class Figures:
    """Bytes, seconds, shares. Unknown figures are 0, as in the replaced packages; `unknown` names
    them."""

    system_ram: float = 0.0
    main: Ram = field(default_factory=Ram)
    descendants: Ram = field(default_factory=Ram)
    combined: Ram = field(default_factory=Ram)
    gpu_system: float = 0.0
    gpu_main: float = 0.0
    gpu_descendants: float = 0.0
    gpu_combined: float = 0.0
    wall_s: float = 0.0
    cpu_system: Share = field(default_factory=Share)
    cpu_main: Share = field(default_factory=Share)
    cpu_descendants: Share = field(default_factory=Share)
    cpu_combined: Share = field(default_factory=Share)
    gpu_busy: Share = field(default_factory=Share)
    main_threads: int = 0
    descendants_threads: int = 0
    threads: int = 0
    unknown: List[str] = field(default_factory=list)


def figures(summary: Dict[str, Any], timeline: Timeline, period_s: float, n_cores: int) -> Figures:
    """Figures of a growing or finished run. summary: as in docs/summary.schema.json; period_s: of
    the maximum of shares."""
    f = Figures()
    ram, gpu, time = summary["ram"], summary["gpu"] or {}, summary["time"]
    f.system_ram = ram["system"]["peak_bytes"] or 0.0
    main_files, descendants_files = timeline.file_bytes()
    for mine, theirs, files in (("main", "main", main_files), ("descendants", "descendants", descendants_files),
                                ("combined", "combined", max(main_files, descendants_files))):
        setattr(f, mine, _ram(ram[theirs], files))
        setattr(f, f"gpu_{mine}", (gpu.get(theirs) or {}).get("peak_bytes") or 0.0)
    if gpu.get("devices") and gpu["combined"]["peak_bytes"] is None:
        f.unknown.append("gpu_ram")
    f.wall_s = time["wall_s"] or 0.0
    cpu_s = None if time["user_s"] is None else time["user_s"] + (time["system_s"] or 0.0)
    samples = timeline.read_all()
    points = Timepoints(period_s, period_s, n_cores)
    _shares(f, [*points.add(samples), *points.finish()], cpu_s)
    f.gpu_system = max((sample.gpu_used for sample in samples), default=0.0)
    f.main_threads = max((sample.main_threads for sample in samples), default=0)
    f.descendants_threads = max((sample.descendants_threads for sample in samples), default=0)
    f.threads = max((sample.threads for sample in samples), default=0)
    return f


def _ram(figure: Dict[str, Any], file_bytes: float) -> Ram:
    """Without private_bytes (no PSS pass), mapped files and shared memory count as shared, the rest
    as private."""
    total = float(figure["peak_bytes"] or 0)
    private = figure["private_bytes"]
    private = total - min(float(file_bytes), total) if private is None else min(float(private), total)
    return Ram(total, private, total - private)


def _shares(f: Figures, points: List[Timepoint], cpu_s: Optional[float]) -> None:
    """Sets the shares. Means are weighted by time."""
    if not points:
        if cpu_s is not None and f.wall_s > 0:
            f.cpu_main = f.cpu_combined = Share(cpu_s / f.wall_s, cpu_s / f.wall_s)
        return
    for name, values in (("cpu_main", [p.main_cores for p in points]), ("cpu_descendants", [p.descendants_cores for p in points]),
                         ("cpu_combined", [p.cores for p in points]), ("cpu_system", [p.system_cores or 0.0 for p in points])):
        setattr(f, name, _share(values, [p.span_s for p in points]))
    seen = [p for p in points if p.sample.gpu_seen]  # the first read of a driver comes after the start of the job
    if seen:
        f.gpu_busy = _share([p.sample.gpu_busy for p in seen], [p.span_s for p in seen])


def _share(values: List[float], spans: List[float]) -> Share:
    """Maximum and mean of values, weighted by spans (seconds)."""
    whole = sum(spans)
    mean = sum(v * span for v, span in zip(values, spans)) / whole if whole > 0 else values[-1]
    return Share(max(values), min(mean, max(values)))  # rounding may lift the quotient above the maximum

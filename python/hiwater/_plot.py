# SPDX-License-Identifier: MIT
"""A recording as a matplotlib figure. No other module imports matplotlib (but _figure, for this one)."""
from __future__ import annotations

import re

from ._errors import ArgumentValueError, Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence, Tuple

    from ._recording import Recording

    Line = Tuple[str, List[float], List[Optional[float]]]

GIB = 1 << 30
FRAMEWORK = re.compile(r"(torch|jax|tensorflow)/([^/]+)/(\w+)$")
LOOP = ("data_wait", "step_time", "steps")  # series of callbacks and wrap_loader: drawn only on request
PEAK = "RAM, peak"  # of windows: drawn as steps
LABELS_MOST = 9  # labels at the ends of the lines of one panel; more lines have a legend
LABEL_POINTS = 9.0  # height of a label
PANEL_POINTS = 90.0  # height of a panel, about
LETTER = 0.0085  # width of a letter, of the width of a panel, about
RATE_LEAST_NS = 200_000_000  # shortest interval of a rate: counters advance in steps of 10 ms


def scaled(values: List[Any], by: float) -> List[Optional[float]]:
    return [None if v is None else v / by for v in values]


def memory(recording: Recording) -> List[Line]:
    """RAM of full-rate rows, and before the first of these the means of windows; peaks of windows.
    Both reach to the end of the last window."""
    job, full = recording.columns("job"), recording.columns("job", rate="full")
    since = full["t_s"][0] if full["t_s"] else float("inf")
    means = [(t, ram) for t, span, ram in zip(job["t_s"], job["span_s"], job["ram"]) if t + span <= since]
    rows = [*means, *((t, ram) for t, ram in zip(full["t_s"], full["ram"]) if ram is not None)]
    peaks = list(zip(job["t_s"], job["ram_max"]))
    ends = [t + span for t, span in zip(job["t_s"], job["span_s"])]
    for line in (rows, peaks):
        if line and ends and max(ends) > line[-1][0]:
            line.append((max(ends), line[-1][1]))
    return [(name, [t for t, _ in line], scaled([v for _, v in line], GIB))
            for name, line in (("RAM", rows), (PEAK, peaks)) if line]


def cores(recording: Recording) -> List[Line]:
    """CPUs in use between two samples: full-rate rows, and before the first of these the windows,
    which have the last value of a counter but not its time."""
    rows = recording.query("SELECT t, cpu_user + cpu_system AS cpu FROM job_sample WHERE cpu NOT NULL AND t + span <= coalesce((SELECT min(t) "
                           "FROM job_recent), 1 << 62) UNION ALL SELECT t, cpu_user + cpu_system AS cpu FROM job_recent WHERE cpu NOT NULL "
                           "ORDER BY t")[1]
    line: Line = ("cores", [], [])
    since, used = rows[0] if rows else (0, 0)
    for at, cpu in rows[1:]:
        if at - since >= RATE_LEAST_NS:
            line[1].append(at / 1e9)
            line[2].append(max((cpu - used) / (at - since), 0.0))
            since, used = at, cpu
    return [line] if line[1] else []


def by_gpu(recording: Recording, metric: str, unit: float) -> List[Line]:
    gpus = recording.columns("gpu")
    lines: Dict[Any, Line] = {}
    for i, number in enumerate(gpus.get("id", [])):
        label = f"GPU {gpus['gpu'][i] if gpus['gpu'][i] is not None else number}"
        line = lines.setdefault(number, (label, [], []))
        line[1].append(gpus["t_s"][i])
        line[2].extend(scaled([gpus[metric][i]], unit))
    return [line for line in lines.values() if any(v is not None for v in line[2])]


def allocated(recording: Recording) -> List[Line]:
    """Memory that frameworks have reserved and allocated on GPUs."""
    columns = recording.columns("series")
    lines: Dict[str, Line] = {}
    for t, name, value in zip(columns["t_s"], columns["name"], columns["value"]):
        found = FRAMEWORK.match(name)
        if found and found[3] in ("allocated_bytes", "reserved_bytes"):
            label = f"{found[1]} {found[2]} {found[3].partition('_')[0]}"
            line = lines.setdefault(name, (label, [], []))
            line[1].append(t)
            line[2].extend(scaled([value], GIB))
    return list(lines.values())


def is_drawn(name: str, wanted: Sequence[str]) -> bool:
    """True for the wanted series; if none are wanted, for those that the program logged itself."""
    return name in wanted if wanted else name not in LOOP and not FRAMEWORK.match(name)


def logged(recording: Recording, wanted: Sequence[str]) -> List[Line]:
    columns = recording.columns("series")
    lines: Dict[str, Line] = {}
    for t, name, value in zip(columns["t_s"], columns["name"], columns["value"]):
        if is_drawn(name, wanted):
            line = lines.setdefault(name, (name, [], []))
            line[1].append(t)
            line[2].append(value)
    missing = set(wanted) - set(lines)
    if missing:
        raise ArgumentValueError(f"unknown series {', '.join(sorted(map(str, missing)))}; the series are: {', '.join(sorted(set(columns['name'])))}")
    return list(lines.values())


def panels(recording: Recording, series: Sequence[str]) -> List[Tuple[str, List[Line], bool]]:
    """(label, lines, whether the scale starts at 0) of each panel that has data."""
    all_of_them = [("RAM, GiB", memory(recording), True), ("cores", cores(recording), True),
                   ("GPU memory, GiB", [*by_gpu(recording, "mem", GIB), *allocated(recording)], True),
                   ("GPU busy", by_gpu(recording, "busy", 1e6), True),
                   *[(line[0], [line], False) for line in logged(recording, series)]]
    return [panel for panel in all_of_them if panel[1]]


def outer_phases(recording: Recording, end: float) -> List[Tuple[float, float, str]]:
    """(begin, end, label) of the phases that are in no other: "epoch 3"."""
    columns = recording.columns("phase")
    found = []
    for name, facts, parent, begin, ended in zip(*(columns[key] for key in ("name", "facts", "parent", "begin_s", "end_s"))):
        if not parent:
            first = (facts or "").split("\n")[0]
            number = first[len(name) + 1:] if first.startswith(name + "=") else ""
            found.append((begin, end if ended is None else ended, f"{name} {number}".rstrip()))
    return found


def label_lines(axis: Any) -> None:
    """Names the lines at their ends, without overlaps; a legend next to the panel if they are many."""
    if len(axis.get_lines()) > LABELS_MOST:
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small", frameon=False)
        return
    low, high = axis.get_ylim()
    ends = []
    for line in axis.get_lines():
        points = [(x, y) for x, y in zip(line.get_xdata(), line.get_ydata()) if y - y == 0]
        if points:
            ends.append(((points[-1][1] - low) / ((high - low) or 1) * PANEL_POINTS, points[-1], line))
    at = float("-inf")
    for height, point, line in sorted(ends, key=lambda end: end[0]):
        at = max(height, at + LABEL_POINTS)
        axis.annotate(line.get_label(), point, xytext=(4, at - height), textcoords="offset points", color=line.get_color(),
                      fontsize="small", va="center", annotation_clip=False)


def shade_phases(axes: Any, phases: Sequence[Tuple[float, float, str]]) -> None:
    """Shades every other phase, and names those that are wide enough above the first panel."""
    begin, end = axes[0].get_xlim()
    free = begin
    for i, (since, until, label) in enumerate(phases):
        for axis in axes if i % 2 == 0 else ():
            axis.axvspan(since, until, alpha=0.08, linewidth=0)
        if since >= free and until - since >= len(label) * LETTER * (end - begin):
            axes[0].annotate(label, (since, 1), xycoords=("data", "axes fraction"), xytext=(2, 3), textcoords="offset points",
                             fontsize="small", annotation_clip=False)
            free = since + len(label) * LETTER * (end - begin)


def plot(recording: Recording, series: Sequence[str]) -> Any:
    from importlib import import_module

    try:
        make_figure: Any = import_module("._figure", __package__).Figure
    except ImportError as e:
        raise Error("plot needs matplotlib: pip install matplotlib; columns() returns the values") from e
    shown = panels(recording, series)
    if not shown:
        raise Error("nothing to draw: the recording has no samples yet")
    events = recording.columns("event")
    figure = make_figure(figsize=(9, 1 + 1.6 * len(shown)), layout="constrained")
    axes = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for axis, (label, lines, from_zero) in zip(axes, shown):
        for name, times, values in lines:
            axis.plot(times, [float("nan") if v is None else v for v in values], label=name, linewidth=1.2,
                      drawstyle="steps-post" if name == PEAK else "default")
        axis.set_ylabel(label)
        axis.margins(x=0)
        if from_zero:
            axis.set_ylim(0, 1.05 * axis.get_ylim()[1])  # keeps a constant line off the frame
        if len(lines) > 1:
            label_lines(axis)
        for time, kind in zip(events["t_s"], events["kind"]):
            if kind == "mark":
                axis.axvline(time, linewidth=0.8, linestyle=":")
    shade_phases(axes, outer_phases(recording, axes[0].get_xlim()[1]))
    axes[-1].set_xlabel("seconds")
    return figure

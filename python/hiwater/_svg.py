# SPDX-License-Identifier: MIT
"""A course as SVG, made here: no package, no script. Text has the colour of the page; lines have one palette for light pages
and one for dark ones (contrast of 3 to 1 at least, told apart by the colour-blind), a label at each line's end, dashes."""
from __future__ import annotations

import math
from html import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional, Sequence, Tuple

    from ._course import Course, Line, Panel

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 820, 62, 150, 22, 24
PANEL, GAP = 74, 16
LIGHT = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000")
DARK = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#FFFFFF")
LINES_MOST = 10  # in a panel

# JupyterLab and Notebook 7, VS Code, Colab say of themselves that they are dark.
_DARK_PAGES = ("[data-jp-theme-light=false] .hiwater", ".vscode-dark .hiwater", ".vscode-high-contrast .hiwater",
               "html[theme=dark] .hiwater")


def _variables(palette: Sequence[str]) -> str:
    return "".join(f"--hw{i}:{colour};" for i, colour in enumerate(palette))


STYLE = (f".hiwater{{{_variables(LIGHT)}}}" + ",".join(_DARK_PAGES) + f"{{{_variables(DARK)}}}"
         ".hiwater svg{max-width:100%;height:auto;display:block;font:11px system-ui,sans-serif}"
         ".hiwater pre{margin:0;white-space:pre-wrap}")


def number(value: float) -> str:
    """Three digits."""
    if value == 0:
        return "0"
    if abs(value) >= 1e5 or abs(value) < 1e-3:
        return f"{value:.3g}"
    exponent = int(f"{value:.2e}".partition("e")[2])
    return f"{value:.{max(0, 2 - exponent)}f}"


def amount(*values: Optional[int]) -> str:
    """Bytes, one or from one to another, in the unit of the largest: "9.30 -> 12.4 GiB"."""
    most = max((v for v in values if v is not None), default=0)
    unit, by = ("GiB", 1 << 30) if most >= 1 << 30 else ("MiB", 1 << 20)
    return " -> ".join("?" if v is None else number(v / by) for v in values) + f" {unit}"


def duration(seconds: float) -> str:
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
    return f"{whole // 60}:{whole % 60:02}" if whole >= 60 else f"{seconds:.1f} s"


def steps(low: float, high: float, most: int) -> List[float]:
    """Round numbers between them."""
    raw = (high - low) / most if high > low else 1.0
    base = 10.0 ** math.floor(math.log10(raw))
    step = next(m * base for m in (1, 2, 5, 10) if m * base >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def moments(end_s: float) -> List[float]:
    """Up to eight of them, at full minutes and hours where it is long."""
    step = next((s for s in (0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200)
                 if end_s / s <= 8), 86400 * math.ceil(end_s / 86400 / 8))
    return [i * step for i in range(int(end_s / step + 1e-9) + 1)]


class Scale:
    """From values to places."""

    def __init__(self, low: float, high: float, at_low: float, at_high: float) -> None:
        self.low, self.high = low, high if high > low else low + 1.0
        self._at, self._by = at_low, (at_high - at_low) / (self.high - self.low)

    def __call__(self, value: float) -> float:
        return self._at + (value - self.low) * self._by


def _in_units(panel: Panel) -> Panel:
    """GiB, or MiB where there is less than one."""
    if not panel.title.endswith(", GiB") or max((v for line in panel.lines.values() for _, v in line.points if v is not None),
                                                default=1.0) >= 1:
        return panel
    small = type(panel)(panel.title.replace("GiB", "MiB"), panel.from_zero, panel.top)
    for key, line in panel.lines.items():
        copy = small.line(key, line.label, dashed=line.dashed, colour=line.colour)
        copy.points = [(t, None if v is None else v * 1024) for t, v in line.points]
    return small


def _range(panel: Panel) -> Tuple[float, float]:
    known = [v for line in panel.lines.values() for _, v in line.points if v is not None]
    low, high = min(known), max([*known, *([panel.top] if panel.top is not None else [])])
    low = 0.0 if panel.from_zero or 0 <= low < 0.5 * high else low
    room = (high - low) * 0.06 if high > low else abs(high) * 0.05 or 1.0
    return (low if low == 0 else low - room), (high if panel.top is not None else high + room)


def _path(line: Line, x: Scale, y: Scale) -> str:
    """A gap lifts the pen; a point alone is a dot."""
    parts: List[str] = []
    pen = False
    for t, value in line.points:
        if value is None:
            pen = False
            continue
        parts.append(f"{'L' if pen else 'M'}{x(t):.1f} {y(value):.1f}")
        pen = True
    if len(parts) == 1:
        parts.append("h0.1")
    return "".join(parts)


def _labels(lines: List[Line], y: Scale, top: float) -> List[Tuple[float, Line]]:
    """Places at the lines' ends that do not cover each other."""
    placed: List[Tuple[float, Line]] = []
    wanted = sorted(((y(line.last), line) for line in lines if line.last is not None), key=lambda pair: pair[0])
    for at, line in wanted:
        placed.append((max(at, placed[-1][0] + 12 if placed else top + 4), line))
    over = placed[-1][0] - (top + PANEL) if placed else 0
    return [(at - max(over, 0), line) for at, line in placed]


def _colour(i: int) -> str:
    return f"var(--hw{i % len(LIGHT)},{LIGHT[i % len(LIGHT)]})"


def _panel(panel: Panel, x: Scale, top: float) -> List[str]:
    lines = list(panel.lines.values())[:LINES_MOST]
    y = Scale(*_range(panel), top + PANEL, top)
    out = [f'<text x="{LEFT}" y="{top - 4:.0f}" fill="currentColor" font-weight="600">{escape(panel.title)}</text>']
    for value in steps(y.low, y.high, 3):
        at = y(value)
        out.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="currentColor" stroke-opacity=".15"/>'
                   f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end" fill="currentColor" fill-opacity=".75">{value:.4g}</text>')
    colours = {id(line): _colour(i if line.colour is None else line.colour) for i, line in enumerate(lines)}
    for line in lines:
        dash = ' stroke-dasharray="5 3"' if line.dashed else ""
        out.append(f'<path d="{_path(line, x, y)}" fill="none" stroke="{colours[id(line)]}" stroke-width="1.6" '
                   f'stroke-linejoin="round" stroke-linecap="round"{dash}/>')
    for at, line in _labels(lines, y, top):
        said = number(line.last or 0.0)
        said = f"{line.label} {said}" if len(panel.lines) > 1 else said
        out.append(f'<text x="{WIDTH - RIGHT + 6}" y="{at + 4:.1f}" fill="{colours[id(line)]}">{escape(said)}</text>')
    return out


def _phases(course: Course, x: Scale, bottom: float) -> List[str]:
    out: List[str] = []
    named_to = 0.0
    for i, (name, begin, end) in enumerate(course.phases):
        left, right = x(max(begin, x.low)), x(min(course.end_s if end is None else end, x.high))
        if right - left < 0.5:
            continue
        if i % 2 == 0:
            out.append(f'<rect x="{left:.1f}" y="{TOP}" width="{right - left:.1f}" height="{bottom - TOP:.0f}" '
                       'fill="currentColor" fill-opacity=".06"/>')
        if right - left > 6.5 * len(name) + 4 and left >= named_to:
            out.append(f'<text x="{left + 2:.1f}" y="11" fill="currentColor" fill-opacity=".75">{escape(name)}</text>')
            named_to = left + 6.5 * len(name)
    for at, text in course.marks:
        out.append(f'<path d="M{x(at):.1f} {TOP}V{bottom:.0f}" stroke="currentColor" stroke-opacity=".6" stroke-dasharray="2 3">'
                   f'<title>{escape(text)}</title></path>')
    return out


def svg(course: Course, label: str, end_s: Optional[float] = None, alone: bool = False) -> str:
    """label: what a reader of screens says. alone: as a file of its own, on white."""
    panels = [_in_units(panel) for panel in course.panels]
    bottom = TOP + max(len(panels), 1) * (PANEL + GAP)
    height = bottom + BOTTOM
    x = Scale(0.0, max(course.end_s if end_s is None else end_s, 1.0), LEFT, WIDTH - RIGHT)
    out = _phases(course, x, bottom)
    for i, panel in enumerate(panels):
        out += _panel(panel, x, TOP + GAP + i * (PANEL + GAP))
    if not panels:
        out.append(f'<text x="{LEFT}" y="{TOP + 40}" fill="currentColor">nothing is recorded yet</text>')
    for value in moments(x.high):
        out.append(f'<path d="M{x(value):.1f} {bottom + 1}v4" stroke="currentColor" stroke-opacity=".5"/><text x="{x(value):.1f}" '
                   f'y="{bottom + 17}" text-anchor="middle" fill="currentColor" fill-opacity=".75">'
                   f'{duration(value) if value >= 60 else f"{value:g} s"}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" ' \
           f'aria-label="{escape(label, quote=True)}"'
    if not alone:
        return f"{head}>{''.join(out)}</svg>"
    return f'{head} font-family="system-ui,sans-serif" font-size="11" color="#1f2937"><rect width="100%" height="100%" fill="#fff"/>' \
           f"{''.join(out)}</svg>"


def html(course: Course, text: str, end_s: Optional[float] = None) -> str:
    """For a notebook: the chart, and the text below it."""
    return f'<div class="hiwater"><style>{STYLE}</style>{svg(course, text, end_s)}<pre>{escape(text)}</pre></div>'

# SPDX-License-Identifier: MIT
"""A run in a few lines: what a notebook or an interpreter shows for a run and for its summary."""
from __future__ import annotations

from html import escape

from ._live import amount, busy, cores, device_label, duration, leaf_devices, number
from ._plot import is_drawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, List, Tuple

    Row = Tuple[str, str]

CHARACTERS_MOST = 700  # of a text
VALUE_MOST = 100       # of a row, and of the headline
SHOWN = 4              # phases and series in a row, findings


def shortened(text: str, most: int = VALUE_MOST) -> str:
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= most else text[:most - 3].rstrip() + "..."


def _some(items: List[str], n: int) -> str:
    """The first n items, and the number of the others."""
    return ", ".join(items[:n]) + (f" and {len(items) - n} more" if len(items) > n else "")


def headline(summary: Any) -> str:
    """The name of the run, its duration and its end."""
    name = summary.run.name or " ".join(summary.command) or "hiwater"
    end = summary.exit
    words = ("killed: out of memory" if end.oom_killed else f"signal {end.signal}" if end.signal else
             f"raised {end.raised}" if end.raised else
             f"exit {end.code}" if end.code is not None else "" if summary.run.complete else "so far")
    parts = [shortened(name, VALUE_MOST // 2), duration(summary.wall_s) if summary.wall_s is not None else "", words]
    return "   ".join(part for part in parts if part)


def rows(summary: Any) -> Iterator[Row]:
    """(label, value) of the figures that are known."""
    ram = summary.ram.combined
    if ram.peak_bytes is not None:
        bounds = ram.method == "bounded" and ram.high_bytes is not None and ram.low_bytes is not None
        yield "RAM", f"peak {amount(ram.peak_bytes)} {ram.method or ''}".rstrip() + (
            f", {amount(ram.low_bytes)} to {amount(ram.high_bytes)}" if bounds else "")
    for device in leaf_devices(summary):
        memory = device.memory
        if memory.job_peak_bytes:
            peak = f"peak {amount(memory.job_peak_bytes)} {memory.method or ''}".rstrip()
            yield device_label(summary, device), ", ".join(filter(None, [peak, busy(device)]))
    if summary.cpu_s is not None and summary.wall_s:
        yield "CPU", f"{cores(summary.cpu_s / summary.wall_s)} cores, {duration(summary.cpu_s)} CPU time"
    if summary.data_wait_s:
        yield "Data wait", duration(summary.data_wait_s)
    if summary.energy.gpu_j:
        yield "Energy", f"{number(summary.energy.gpu_j)} J of the GPUs"
    outer = [p for p in summary.phases if p.wall_s is not None]
    if outer:
        yield "Phases", _some([shortened(p.label, 30) + " " + duration(p.wall_s) for p in outer], SHOWN)
    logged = [f"{shortened(name, 30)} {number(s.last)}" for name, s in summary.series.items() if is_drawn(name, ())]
    if logged:
        yield "Logged", _some(logged, SHOWN)
    for finding in summary.findings[:SHOWN]:
        yield finding.severity.capitalize(), (finding.message or finding.code).split("\n")[0]


def text(summary: Any) -> str:
    """A table of at most CHARACTERS_MOST characters."""
    lines = [headline(summary), *(f"{label:<10}{shortened(value)}" for label, value in rows(summary))]
    while len("\n".join(lines)) > CHARACTERS_MOST:
        lines[-2:] = ["..."]
    return "\n".join(lines)


def html(summary: Any) -> str:
    """The same table for a notebook, with whole values."""
    cells = "".join(f'<tr><th scope="row" style="text-align:left">{escape(label)}</th>'
                    f'<td style="text-align:left">{escape(shortened(value, 5 * VALUE_MOST))}</td></tr>' for label, value in rows(summary))
    head = f'<tr><th colspan="2" style="text-align:left">{escape(headline(summary).replace("   ", ", "))}</th></tr>'
    return f'<table class="hiwater-run"><thead>{head}</thead><tbody>{cells}</tbody></table>'

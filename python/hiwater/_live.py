# SPDX-License-Identifier: MIT
"""The chart of a run in a notebook: redrawn twice a second while its cell runs; the last chart
stays in the notebook.

A thread reads the growing recording and updates the output of the cell by its display id: HTML with
SVG in it, and text for front ends without HTML. It needs no widget, no script and no extension.
Drawing takes at most a fiftieth of one core (SHARE_MOST); if one drawing costs more, the next is
delayed.
"""
from __future__ import annotations

import sys
import threading
import time

from html import escape

from . import _recording

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, Sequence, Tuple

    from ._run import Run

PERIOD_S = 0.5
SHARE_MOST = 0.02
FAILURES_MOST = 5


SERIES_SHOWN = 4  # in the line of text
LIGHT = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#6B7280", "#8B5E1A")  # the colours of the SVG itself
DARK = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#FFFFFF", "#C49A6C")

# Selectors for the dark themes of JupyterLab and Notebook 7, VS Code, Colab.
_DARK_PAGES = ("[data-jp-theme-light=false] .hiwater", ".vscode-dark .hiwater", ".vscode-high-contrast .hiwater",
               "html[theme=dark] .hiwater")


def _style() -> str:
    """Text has the colour of the page; lines have one palette for light pages and one for dark
    ones."""
    colours = "".join(f".hiwater .line.c{i}{{stroke:var(--hw{i})}}.hiwater .band.c{i},.hiwater circle.c{i},.hiwater text.c{i}"
                      f"{{fill:var(--hw{i})}}" for i in range(len(LIGHT)))
    light, dark = ("".join(f"--hw{i}:{colour};" for i, colour in enumerate(palette)) for palette in (LIGHT, DARK))
    return (f".hiwater{{{light}}}" + ",".join(_DARK_PAGES) + f"{{{dark}}}"
            ".hiwater svg{max-width:100%;height:auto;display:block;font:11px system-ui,sans-serif}"
            ".hiwater pre{margin:0;white-space:pre-wrap}.hiwater text{fill:currentColor}.hiwater .ground{fill:none}"
            ".hiwater .grid{stroke:currentColor;stroke-opacity:.15}.hiwater .phase{fill:currentColor;fill-opacity:.06}" + colours)


def number(value: float) -> str:
    """Three significant digits."""
    if value == 0:
        return "0"
    if value - value != 0:  # NaN, an infinity
        return str(value)
    if abs(value) >= 1e5 or abs(value) < 1e-3:
        return f"{value:.3g}"
    exponent = int(f"{value:.2e}".partition("e")[2])
    return f"{value:.{max(0, 2 - exponent)}f}"


def amount(*values: Optional[int]) -> str:
    """An amount of bytes, or several joined by arrows, in the unit of the largest: "9.30 -> 12.4
    GiB"."""
    most = max((v for v in values if v is not None), default=0)
    unit, by = ("GiB", 1 << 30) if most >= 1 << 30 else ("MiB", 1 << 20)
    return " -> ".join("?" if v is None else number(v / by) for v in values) + f" {unit}"


def duration(seconds: float) -> str:
    """As the command writes it: "30 ms", "1.44 s"; from a minute on a clock, "2:05"."""
    whole = int(seconds)
    unit, by = ("s", 1.0) if seconds >= 0.9995 or seconds <= 0 else ("ms", 1e3) if seconds >= 0.9995e-3 else ("us", 1e6)
    if whole >= 3600:
        return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
    return f"{whole // 60}:{whole % 60:02}" if whole >= 60 else f"{_brief(seconds * by)} {unit}"


def _brief(value: float) -> str:
    """Three digits without zeros at the end."""
    text = number(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def cores(value: float) -> str:
    """As the command writes it: "2", "1.90", "0.02", "<0.01"."""
    return f"{value:.0f}" if value == int(value) else "<0.01" if value < 0.01 else f"{value:.2f}" if value < 9.995 else number(value)


def html(svg: str, text: str) -> str:
    """The chart and the text below it, as HTML for a notebook."""
    return f'<div class="hiwater"><style>{_style()}</style>{svg}<pre>{escape(text)}</pre></div>'


def picture(recording: _recording.Recording, wanted: Sequence[str]) -> Tuple[str, str]:
    """The chart as SVG, and the present use as text. Raises Error or ValueError."""
    from ._native import svg
    from ._plot import is_drawn

    logged = [row for row in recording.query("SELECT name, last FROM series ORDER BY id")[1] if is_drawn(row[0], wanted)]
    with _recording._reader_lock:
        drawn, line = svg(recording._file(), [name for name, _ in logged] if wanted else ())
    return drawn, "   ".join([*line.strip().split("  ")[1:],
                              *(f"{name} {number(last)}" for name, last in logged[:SERIES_SHOWN] if last is not None)])


def notebook() -> Any:
    """IPython's display function if a notebook shows HTML; else None."""
    module: Any = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from importlib import import_module

    return import_module("IPython.display").display


class Live:
    """The live chart of one run, from now on until `finish`."""

    def __init__(self, run: Run, display: Callable[..., Any], series: Sequence[str] = ()) -> None:
        self._run = run
        self._series = tuple(series)
        self._picture = "", ""
        self._began = time.monotonic()
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._failures = 0
        self._handle = display(self._bundle(""), raw=True, display_id=True)
        self._thread = threading.Thread(target=self._work, name="hiwater-live", daemon=True)
        self._thread.start()

    def finish(self, text: str) -> None:
        """Draws the last chart, which stays, with this text."""
        self._end.set()
        if self._thread is not threading.current_thread():
            self._thread.join(2)
        self._try(text)

    def _work(self) -> None:
        wait = PERIOD_S
        while not self._end.wait(wait) and self._failures < FAILURES_MOST:
            began = time.thread_time()
            self._try("")
            wait = max(PERIOD_S, (time.thread_time() - began) / SHARE_MOST)

    def _try(self, text: str) -> None:
        """Draws once. A failure adds a warning to the run and has no other effect."""
        try:
            with self._lock:
                try:
                    if self._run.path:
                        self._picture = picture(self._run.recording, self._series)
                finally:  # if the read failed, the previous chart is shown again
                    self._handle.update(self._bundle(text), raw=True)
            self._failures = 0
        except Exception as e:
            self._failures += 1
            self._run._warn(f"the live chart was not drawn: {type(e).__name__}: {e}")

    def _bundle(self, text: str) -> Dict[str, str]:
        svg, now = self._picture
        if text:
            return {"text/html": html(svg, text), "text/plain": text, **({"image/svg+xml": svg} if svg else {})}
        line = "   ".join(filter(None, [self._run.name or "hiwater", duration(time.monotonic() - self._began), now]))
        return {"text/html": html(svg, line), "text/plain": line}


def run_lines(summary: Any) -> str:
    """One or two lines about a run: its peaks with their method, its CPU and GPU utilisation, and
    its findings."""
    ram = summary.ram.combined
    parts = [summary.run.name or "hiwater", duration(summary.wall_s or 0.0)]
    if ram.peak_bytes is not None:
        parts.append(f"RAM peak {amount(ram.peak_bytes)} {ram.method or ''}".rstrip())
    for device in leaf_devices(summary):
        peak = device.memory.job_peak_bytes
        if peak:
            parts.append(f"{device_label(summary, device)} peak {amount(peak)}")
    more = []
    if summary.cpu_s is not None and summary.wall_s:
        more.append(f"CPU {cores(summary.cpu_s / summary.wall_s)} cores")
    more += busy_parts(summary)
    if summary.data_wait_s:
        more.append(f"data wait {duration(summary.data_wait_s)}")
    if summary.energy.gpu_j:
        more.append(f"GPU energy {number(summary.energy.gpu_j)} J")
    lines = ["   ".join(parts), "   ".join(more), *(f"{f.severity}: {f.message}".split("\n")[0] for f in summary.findings)]
    return "\n".join(line for line in lines if line)


def leaf_devices(summary: Any) -> list[Any]:
    """MIG instances, and the GPUs that are not divided into instances."""
    devices = summary.gpu.devices if summary.gpu else ()
    divided = {d.parent for d in devices if d.parent}
    return [d for d in devices if d.uuid not in divided]


def device_label(summary: Any, device: Any) -> str:
    """A label with the number that `hiwater gpus` shows: "GPU 0", for an instance "MIG 0.1"."""
    parents = [d.index for d in summary.gpu.devices if device.parent and d.uuid == device.parent]
    return f"MIG {parents[0]}.{device.index}" if parents else f"GPU {device.index}"


def busy_parts(summary: Any) -> list[str]:
    """The utilisation of the devices on which the job used memory."""
    return [f"{device_label(summary, device)} {busy(device)}" for device in leaf_devices(summary)
            if device.memory.job_peak_bytes and busy(device)]


def busy(device: Any) -> str:
    """"SM active 30 %"; "" if unknown."""
    lead = device.utilization_lead
    value = device.utilization.get(lead) if lead else None
    word = {"sm_active_mean": "SM active", "graphics_active_mean": "active"}.get(lead, "busy")
    return "" if value is None else f"{word} {number(value * 100)} %"

# SPDX-License-Identifier: MIT
"""The chart of a run in a notebook, drawn anew twice a second while its cell works, and left there as it was in the end.

A thread reads the growing recording and updates the cell's output by its display id: HTML with SVG in it, and text for where
HTML is not shown. No widget, no script, nothing to install in JupyterLab, Notebook, VS Code or Colab. Drawing takes a
fiftieth of the time at most: where it costs more, it is done less often.
"""
from __future__ import annotations

import sys
import threading
import time

from ._course import GIB, Course
from ._svg import amount, duration, html, number, svg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, Sequence

    from ._run import Run

PERIOD_S = 0.5
SHARE_MOST = 0.02
FAILURES_MOST = 5


def notebook() -> Any:
    """IPython's display function where a notebook shows HTML; else None."""
    module: Any = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from importlib import import_module

    return import_module("IPython.display").display


def present(course: Course, began: float, name: Optional[str]) -> str:
    """One line of text about now."""
    parts = [name or "hiwater", duration(time.monotonic() - began)]
    parts += [f"RAM {amount(int(line.last * GIB))}" for line in course.ram.lines.values() if line.last is not None]
    parts += [f"CPU {number(line.last)} cores" for line in course.cpu.lines.values() if line.last is not None]
    parts += [f"{line.label} {number(line.last)} %" for line in course.busy.lines.values() if line.last is not None]
    parts += [f"{line.label} {amount(int(line.last * GIB))}" for line in course.memory.lines.values() if line.last is not None]
    for logged, panel in course.logged.items():
        last = panel.lines[logged].last
        if last is not None:
            parts.append(f"{logged} {number(last)}")
    return "   ".join(parts)


class Live:
    """Of one run, from now on until `finish`."""

    def __init__(self, run: Run, display: Callable[..., Any], series: Sequence[str] = ()) -> None:
        self._run = run
        self._course = Course(series)
        self._began = time.monotonic()
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._failures = 0
        self._handle = display(self._bundle(""), raw=True, display_id=True)
        self._thread = threading.Thread(target=self._work, name="hiwater-live", daemon=True)
        self._thread.start()

    def finish(self, text: str) -> None:
        """The last picture stays: static, with this text."""
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
        """Whatever fails is the picture's alone."""
        try:
            with self._lock:
                try:
                    if self._run.path:
                        self._course.read(self._run.recording)
                finally:  # what was read before stays in the picture
                    self._handle.update(self._bundle(text), raw=True)
            self._failures = 0
        except Exception as e:
            self._failures += 1
            self._run._warn(f"the live chart was not drawn: {type(e).__name__}: {e}")

    def _bundle(self, text: str) -> Dict[str, str]:
        if text:
            return {"text/html": html(self._course, text), "image/svg+xml": svg(self._course, text, alone=True), "text/plain": text}
        line = present(self._course, self._began, self._run.name)
        return {"text/html": html(self._course, line, max(time.monotonic() - self._began, self._course.end_s)), "text/plain": line}


def after(summary: Any) -> str:
    """A line or two about a run that is over: what it held at its peak, how it was obtained, how busy it was."""
    ram = summary.ram.combined
    parts = [summary.run.name or "hiwater", duration(summary.wall_s or 0.0)]
    if ram.peak_bytes is not None:
        parts.append(f"RAM peak {amount(ram.peak_bytes)} {ram.method or ''}".rstrip())
    for device in whole_or_parts(summary):
        held = device.memory.job_peak_bytes
        if held:
            parts.append(f"{named(summary, device)} peak {amount(held)}")
    more = []
    if summary.cpu_s is not None and summary.wall_s:
        more.append(f"CPU {number(summary.cpu_s / summary.wall_s)} cores")
    more += busy(summary)
    if summary.data_wait_s:
        more.append(f"data wait {duration(summary.data_wait_s)}")
    if summary.energy.gpu_j:
        more.append(f"GPU energy {number(summary.energy.gpu_j)} J")
    lines = ["   ".join(parts), "   ".join(more), *(f"{f.severity}: {f.message}".split("\n")[0] for f in summary.findings)]
    return "\n".join(line for line in lines if line)


def whole_or_parts(summary: Any) -> list[Any]:
    """Without GPUs that are divided: what the job does there, it does on their instances."""
    devices = summary.gpu.devices if summary.gpu else ()
    divided = {d.parent for d in devices if d.parent}
    return [d for d in devices if d.uuid not in divided]


def named(summary: Any, device: Any) -> str:
    """By the number that hiwater gpus has for it: "GPU 0", of an instance "MIG 0.1"."""
    parents = [d.index for d in summary.gpu.devices if device.parent and d.uuid == device.parent]
    return f"MIG {parents[0]}.{device.index}" if parents else f"GPU {device.index}"


def busy(summary: Any) -> list[str]:
    """How busy the devices were that the job held memory on."""
    said = []
    for device in whole_or_parts(summary):
        lead = device.utilization_lead
        value = device.utilization.get(lead) if lead else None
        if value is not None and device.memory.job_peak_bytes:
            word = {"sm_active_mean": "SM active", "graphics_active_mean": "active"}.get(lead, "busy")
            said.append(f"{named(summary, device)} {word} {number(value * 100)} %")
    return said

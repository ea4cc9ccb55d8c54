# SPDX-License-Identifier: MIT
"""`%load_ext hiwater`: the magics of notebooks and IPython.

    %hiwater on [-n NAME]       starts a run; a line below each later cell shows the cell's use
    %hiwater off                ends the run and prints its totals
    %hiwater status             prints the present use of the run
    %hiwater last               prints the summary of the run that ended last
    %hiwater report [FILE]      writes a page about the last cell: its run, or the run of %hiwater on at its time
    %hiwater report all [FILE]  writes a page about the notebook: the run of %hiwater on, else the runs of its cells
    %%hiwater [-n NAME] [--live] [--report] [-i INTERVAL] [-o FILE]    at the top of a cell: measures the cell as a separate run

`%%hiwater` is replaced by a line of Python before the cell runs. The cell is therefore compiled,
awaited, displayed and interrupted as any other, errors point to its own lines, and the run ends
with the cell, also after an error. If hiwater cannot measure, the cell still runs, and a line
states the reason (`hiwater.log` then does nothing, `hiwater.current()` is None). A cell that runs
again replaces its FILE if that is a finished recording of a cell of the same NAME, also one of a
kernel that was restarted or killed meanwhile.
"""
from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shlex
import sys
import time

from ._errors import Error
from ._live import amount, cores, duration, number, run_lines
from ._run import Run, _finished

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

    from ._run import Phase
    from ._summary import PhaseSummary

CELL = "%%hiwater"
FINISH_LIMIT_S = 2.0  # wait for the recorder of an ended kernel to finish its recording
_SUFFIXES = ("", "-wal", "-shm")  # suffixes of the files of a recording; the latter two are left by a killed recorder
FILE_LIMIT_S = 3.0  # wait for the recording of a run that has just begun
CELLS_MOST = 16  # runs on a page
LEAST_CPU_S = 0.5  # below this, CPU time is too coarse for a mean
ACTIONS = "on, off, status, report, last"
_OPTIONS = {"-n": "name", "--name": "name", "-i": "interval", "--interval": "interval", "-o": "output", "--output": "output"}
_FLAGS = {"--live": "live", "--report": "report"}


def rewritten(lines: List[str]) -> List[str]:
    """Replaces a first line %%hiwater by a call of the line magic. Before another cell magic the
    cell is left unchanged."""
    if not lines or not (lines[0].rstrip() == CELL or lines[0].startswith(CELL + " ")):
        return lines
    if next((line for line in lines[1:] if line.strip()), "").startswith("%%"):
        return lines
    rest = lines[0][len(CELL):].strip()
    return [f"get_ipython().run_line_magic('hiwater', {'_cell ' + rest!r})\n", *lines[1:]]


rewritten.has_side_effects = False  # type: ignore[attr-defined]


def parsed(words: List[str]) -> Dict[str, Any]:
    """Parses the options of %%hiwater and %hiwater on. Raises Error."""
    found: Dict[str, Any] = {}
    words = list(words)
    while words:
        word, _, value = words.pop(0).partition("=")
        if word in _FLAGS and not value:
            found[_FLAGS[word]] = True
        elif word in _OPTIONS and (value or words):
            found[_OPTIONS[word]] = value or words.pop(0)
        elif word in _OPTIONS:
            raise Error(f"{word} needs a value")
        else:
            raise Error(f"unknown option {word!r}; the options are -n NAME, -i INTERVAL, -o FILE, --live, --report")
    return found


@contextlib.contextmanager
def replacing_previous(options: Dict[str, Any]) -> Iterator[None]:
    """Removes the recording of an earlier run of the cell once the body, which starts the new run,
    has succeeded; restores it if the body raises. Any other file of this name is kept: recordings
    not made by a cell, of another name, or still growing."""
    path = options.get("output")
    if not path or not _is_replaceable(path, options.get("name", "")):
        yield
        return
    aside = f"{path}.{os.getpid()}~"
    _rename(path, aside)
    try:
        yield
    except BaseException:
        _rename(aside, path)
        raise
    for end in _SUFFIXES:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside + end)


def _rename(path: str, to: str) -> None:
    for end in _SUFFIXES:
        with contextlib.suppress(FileNotFoundError):
            os.rename(path + end, to + end)


def _is_replaceable(path: str, name: str) -> bool:
    from ._recording import Recording

    recording = Recording(path)
    until = time.monotonic() + FINISH_LIMIT_S
    try:
        known: Dict[str, Any] = dict(recording.query("SELECT key, value FROM meta WHERE key IN ('name', 'by_cell')")[1])
        if not known.get("by_cell") or known.get("name", "") != name:
            return False
        while recording._is_growing():
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
    except Error:
        return False
    return True


def cell_line(label: str, phase: PhaseSummary) -> str:
    """One line about the use of a cell: time, RAM and GPU memory before, after and at the peak,
    CPUs, energy."""
    parts = [label, duration(phase.wall_s or 0.0)]
    ram = phase.ram
    if ram.peak_bytes is not None:
        parts.append(f"RAM {amount(ram.before_bytes, ram.after_bytes)}, peak {amount(ram.peak_bytes)} {ram.method or ''}".rstrip())
        if ram.job_peak_bytes is not None and ram.job_peak_bytes > 1.02 * ram.peak_bytes:
            parts.append(f"with children {amount(ram.job_peak_bytes)}")
    if phase.gpu and phase.gpu.peak_bytes:
        parts.append(f"GPU {amount(phase.gpu.before_bytes, phase.gpu.after_bytes)}, peak {amount(phase.gpu.peak_bytes)}")
        share = phase.gpu.sm_active_mean if phase.gpu.sm_active_mean is not None else phase.gpu.gpu_mean
        if share is not None:
            parts.append(f"GPU {'SM active' if phase.gpu.sm_active_mean is not None else 'busy'} {number(share * 100)} %")
    if phase.cpu_s is not None and phase.wall_s and phase.wall_s >= LEAST_CPU_S:
        parts.append(f"CPU {cores(phase.cpu_s / phase.wall_s)} cores")
    if phase.energy.gpu_j:
        parts.append(f"GPU energy {number(phase.energy.gpu_j)} J")
    return "   ".join(parts)


class Magic:
    """The magics of one shell."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.session: Optional[Run] = None                    # the run of %hiwater on
        self.notebook: Optional[Run] = None                   # the same, also after %hiwater off
        self.cells: List[Run] = []                            # the last runs of %%hiwater
        self.last_cell: Optional[Tuple[Run, Optional[PhaseSummary]]] = None  # its run, and in the run of %hiwater on its phase
        self.is_unmeasured = False                            # %hiwater on could not measure
        self.phase: Optional[Tuple[str, Phase]] = None        # the running cell, in that run
        self.cell: Optional[Tuple[Run, Dict[str, Any]]] = None  # the run of %%hiwater
        self.next_cell = 0  # the number of the next cell; depending on the version, the shell's count may be one ahead

    # ---- magics

    def __call__(self, line: str, cell: Optional[str] = None) -> None:
        if cell is not None:
            self._other_magic(line, cell)
            return
        try:
            words = shlex.split(line, comments=True)
            action = words.pop(0) if words else "status"
            if action not in self._actions:
                raise Error(f"unknown command %hiwater {action}; use {ACTIONS}, or %%hiwater at the top of a cell")
            self._actions[action](self, words)
        except (Error, ValueError) as e:
            from importlib import import_module

            usage: Any = import_module("IPython.core.error").UsageError
            raise usage(str(e)) from None

    def _on(self, words: List[str]) -> None:
        options = parsed(words)
        if self.session and self.session.is_running:
            raise Error("a run is already measured; %hiwater off ends it")
        if options.pop("report", False):
            raise Error("--report applies to %%hiwater only; use %hiwater report to write a page about the present run")
        session = Run({"name": "notebook", **options, "_by_cell": True})
        self.is_unmeasured = False
        try:
            with replacing_previous(session._options):
                session._begin()
        except ValueError:
            raise  # an invalid option
        except Exception as e:
            self.is_unmeasured = True
            print(f"hiwater: {e}", file=sys.stderr)
            return
        self.session = session
        self.notebook, self.last_cell = session, None

    def _off(self, words: List[str]) -> None:
        self._no_arguments(words)
        if self.is_unmeasured:
            self.is_unmeasured = False
            return
        if not self.session or not self.session.is_running:
            raise Error("nothing is measured; %hiwater on starts a run")
        self.phase = None
        self.session.stop()
        self._show(run_lines(self.session.summary))
        self.session = None

    def _status(self, words: List[str]) -> None:
        self._no_arguments(words)
        run = self.session
        if not run or not run.is_running:
            self._show("nothing is measured; use %hiwater on, or %%hiwater at the top of a cell")
            return
        where = f"   recording {run.path}" if run.path else ""
        self._show("\n".join([run_lines(run.summary) + where, *run.warnings]))

    def _last(self, words: List[str]) -> None:
        self._no_arguments(words)
        if not _finished:
            raise Error("no run has ended in this process yet; hiwater.open() opens those of the history")
        self._show(str(_finished[-1].summary))

    def _report(self, words: List[str]) -> None:
        words = list(words)
        is_whole = words[:1] == ["all"]
        if is_whole:
            words.pop(0)
        if len(words) > 1:
            raise Error("%hiwater report takes `all` and one file name at most")
        runs, phase = self._whole() if is_whole else self._last_run()
        if not runs:
            raise Error("there is no run to report; use %hiwater on, or %%hiwater at the top of a cell")
        self._show_report(runs, words[0] if words else None, phase)

    def _whole(self) -> Tuple[List[Run], Optional[PhaseSummary]]:
        """The run of the notebook, or those of its cells."""
        return [self.notebook] if self.notebook else list(self.cells), None

    def _last_run(self) -> Tuple[List[Run], Optional[PhaseSummary]]:
        """The run of the last cell, and the cell's phase in the run of %hiwater on; else the run that
        ended last."""
        session = self.session if self.session and self.session.is_running else None
        if self.last_cell and (session or _finished[-1:] == [self.last_cell[0]]):
            return [self.last_cell[0]], self.last_cell[1]
        return [session] if session else _finished[-1:], None

    def _cell(self, words: List[str]) -> None:
        """Starts the run of a cell: the call that replaces its line %%hiwater."""
        options = parsed(words)
        wants = {key: options.pop(key, False) for key in ("live", "report")}
        self._end_cell()
        run = Run({**options, "_by_cell": True})
        try:
            with replacing_previous(options):
                run._begin()
        except Exception as e:
            print(f"hiwater: {e}", file=sys.stderr)
            return
        self.cell = run, wants
        if wants["live"]:
            run.live()

    _actions: Dict[str, Callable[[Magic, List[str]], None]] = {
        "on": _on, "off": _off, "status": _status, "last": _last, "report": _report, "_cell": _cell}

    def _other_magic(self, line: str, cell: str) -> None:
        """Handles %%hiwater before another cell magic, or called by a program (run_cell_magic) with
        a cell of Python."""
        self(f"_cell {line}")
        if not cell.lstrip().startswith("%%"):
            self.shell.run_cell(cell).raise_error()
            return
        name, _, rest = cell.lstrip().partition("\n")[0][2:].partition(" ")
        self.shell.run_cell_magic(name, rest, cell.lstrip().partition("\n")[2])

    @staticmethod
    def _no_arguments(words: List[str]) -> None:
        if words:
            raise Error(f"unexpected argument {words[0]!r}")

    # ---- cells

    def before_cell(self, info: Any) -> None:
        """Hook before a cell runs: starts its phase."""
        if str(getattr(info, "raw_cell", "")).lstrip().startswith("%hiwater"):
            return
        if self.session and self.session.is_running and getattr(info, "store_history", True):
            name = f"[{self.next_cell or self.shell.execution_count}]"
            self.phase = name, self.session.phase(name).__enter__()

    def after_cell(self, result: Any) -> None:
        """Hook after a cell ran, also with an error: ends its run or phase, and prints its line."""
        try:
            exception = getattr(result, "error_in_exec", None) or getattr(result, "error_before_exec", None)
            if getattr(result, "execution_count", None) is not None:
                self.next_cell = result.execution_count + 1
            has_run = self.cell is not None
            self._end_cell(exception)
            self._end_phase(exception, is_last=not has_run)
        except Error as e:
            print(f"hiwater: {e}", file=sys.stderr)

    def _end_phase(self, exception: Optional[BaseException], is_last: bool) -> None:
        """Ends the phase of a cell in the run of %hiwater on. is_last: the cell has no run of its
        own."""
        if not self.phase or not self.session:
            return
        name, phase = self.phase
        self.phase = None
        phase.__exit__(type(exception) if exception else None, exception, None)
        if not self.session.is_running:
            return
        found = [p for p in self.session.summary.phases if p.name == name]
        if found:
            self._show(cell_line(name, found[-1]))
        if found and is_last:
            self.last_cell = self.session, found[-1]

    def _end_cell(self, exception: Optional[BaseException] = None) -> None:
        if not self.cell:
            return
        (run, wants), self.cell = self.cell, None
        self.cells, self.last_cell = [*self.cells, run][-CELLS_MOST:], (run, None)
        if exception is not None:
            run._fail(exception)
        has_chart = run._live is not None
        run.stop()
        text = run_lines(run.summary)
        if not has_chart:
            self._show(text)
        for warning in run.warnings:
            print(f"hiwater: {warning}", file=sys.stderr)
        if wants["report"]:
            self._show_report([run])

    def _show_report(self, runs: List[Run], path: Optional[str] = None, phase: Optional[PhaseSummary] = None) -> None:
        """Writes the page next to the recording; of several runs, or of a temporary recording, into
        the working folder. Opened by the address that is shown, the page begins at the phase."""
        if len(runs) > 1:
            from ._compare import report

            self._show(f"report: {report(*runs, path=path or 'hiwater-notebook.html')}")
            return
        run = runs[0]
        until = time.monotonic() + FILE_LIMIT_S
        while run.is_running and not run.path and time.monotonic() < until:
            time.sleep(0.02)
        if path is None and run.recording.is_temporary:
            path = f"hiwater-{re.sub('[^-_.0-9A-Za-z]+', '-', run.name or 'cell')}.html"
        page = run.report(path)
        self._show(f"report: {page}" + (f"   {phase.name}: {pathlib.Path(page).as_uri()}#t={phase.begin_s:.3f}-{phase.end_s:.3f}"
                                        if phase and phase.end_s is not None else ""))

    def _show(self, text: str) -> None:
        """Shows text as output of the cell; in a terminal on stdout."""
        if hasattr(self.shell, "kernel"):
            from importlib import import_module

            import_module("IPython.display").display({"text/plain": text}, raw=True)
        else:
            print(text)


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext hiwater`."""
    if getattr(shell, "_hiwater", None) is not None:
        return
    magic = shell._hiwater = Magic(shell)
    shell.register_magic_function(magic, "line_cell", "hiwater")
    shell.input_transformers_cleanup.append(rewritten)
    shell.events.register("pre_run_cell", magic.before_cell)
    shell.events.register("post_run_cell", magic.after_cell)


def unload_ipython_extension(shell: Any) -> None:
    """Called by `%unload_ext hiwater`; ends the runs of the magics."""
    magic = getattr(shell, "_hiwater", None)
    if magic is None:
        return
    shell._hiwater = None
    shell.events.unregister("pre_run_cell", magic.before_cell)
    shell.events.unregister("post_run_cell", magic.after_cell)
    shell.input_transformers_cleanup.remove(rewritten)
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("hiwater", None)
    magic._end_cell()
    if magic.session and magic.session.is_running:
        magic.session.stop()

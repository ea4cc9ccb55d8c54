# SPDX-License-Identifier: MIT
"""`track`, `start`, `stop` and the module functions that log to the innermost run. _track.pyi has
the types."""
from __future__ import annotations

from ._errors import ArgumentTypeError, ArgumentValueError
from ._run import Loader, Phase, Run, _finished, _innermost, _newest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Mapping, Optional, TypeVar, Union

    T = TypeVar("T")


def track(target: object = None, /, **options: Any) -> Any:
    """Measures this process and its descendants, or another process, in a block, in a function, or
    from start to stop.

        with hiwater.track() as run: ...
        @hiwater.track
        def train(): ...
        run = hiwater.track("fit", interval=0.01).start(); ...; run.stop()

    The first argument is the name of the run (runs with the same name form a group), or the
    function to measure. Keywords are the options of `hiwater attach`:

    pid           measure this process, with the children that it starts from now on; the caller may end before it
    interval      seconds between two samples of memory, 0.001 to 3600, or a string ("10ms")
    output        keep the recording in this file, which must not exist yet, instead of in the history
    record        False: keep no recording
    exact         reset the kernel's high-water mark (VmHWM) at the start and at each phase. This makes the peak of main exact,
                  bursts between two samples included, and lowers the value that getrusage returns. Default: True for this
                  process unless `hiwater run` encloses it
    cgroup, gpu   "auto" or "none"
    trace         True, or what to follow ("ranges", ["ranges", "kernels"]): ranges of NVTX and ITT, and the memory, launches and
                  kernels of GPUs, of what is loaded or started from now on (docs/tracing.md); what was loaded before is named in
                  Run.warnings
    trace_window  the kernels and copies of GPUs are kept only then: "steps=10-19", "60s+5s", and so on, or a list of them
    where         True, or how ("fine", "stack=32K"): sample which functions touch memory first from now on (docs/where.md);
                  `hiwater where` shows it
    pss           also split processes over 1.5 GiB into private and shared memory
    print_every   print a line about the current use on stderr every so many seconds
    live          in a notebook: draw a chart during the run (`Run.live`)
    summary       "full" or "line": print it on stderr at the end
    json, summary_file    files that the summary is also written into, as JSON and as text
    units         of amounts in texts: "iec" (GiB), "si" (GB) or "bytes"
    plain         print one fact per line, for screen readers
    strict        True: raise Error if the run cannot be measured
    alert, on_alert, limit, grace, request    rules, as on the command line; a string or a list of strings

    Raises TypeError or ValueError if an option is invalid. If nothing can be measured, the block
    runs unmeasured: `Run.warnings` says why, and so does one RuntimeWarning.
    """
    if callable(target):
        if options:
            raise ArgumentTypeError("give either a function or options: @hiwater.track(interval=0.01)")
        return Run({})(target)
    if target is not None and not isinstance(target, str):
        raise ArgumentTypeError(f"the name of a run must be a string, not {target!r}; to measure another process: track(pid={target!r})")
    if target is not None:
        options["name"] = target
    if options.get("summary") not in (None, "none", "line", "full"):
        raise ArgumentValueError(f"summary={options['summary']!r}: must be 'full', 'line' or 'none'")
    if options.get("record") not in (None, True, False):
        raise ArgumentValueError(f"record={options['record']!r}: must be True or False; to choose the file: output='run.hiw'")
    if options.get("summary") == "none":
        del options["summary"]
    return Run(options)


def start(name: Optional[str] = None, /, **options: Any) -> Run:
    """Starts a run, as `track(name, **options).start()`; `stop` ends it."""
    run = track(name, **options)
    assert isinstance(run, Run)
    return run.start()


def stop() -> Optional[Run]:
    """Ends the run that was started last in this process and returns it; returns None if no run is
    measured."""
    run = _newest()
    if run:
        run.stop()
    return run


def current() -> Optional[Run]:
    """The innermost run of this process, for example that of `%%hiwater` in its cell; None if there
    is none. An enclosing `hiwater run` is not returned, but `hiwater.log` and the other functions
    also reach that one."""
    return _newest()


def last() -> Optional[Run]:
    """The run that ended last in this process, for example that of a decorated function; None if no
    run has ended."""
    return _finished[-1] if _finished else None


# ---- logging to the innermost run, or to the enclosing `hiwater run` -----------------------------------------------------


def log(values: Optional[Mapping[str, Any]] = None, /, *, step: Optional[int] = None, **more: Any) -> None:
    """`Run.log` of the innermost run of this process, else of the enclosing `hiwater run`. Without
    a run it does nothing, so that programs may keep the call. The same applies to `mark`, `phase`,
    `wrap_loader` and `oom`."""
    _innermost().log(values, step=step, **more)


def mark(text: str) -> None:
    """`Run.mark` of the innermost run; see `log`."""
    _innermost().mark(text)


def phase(name: str, /, *, nvtx: bool = False, **facts: Any) -> Phase:
    """`Run.phase` of the run that is innermost when the phase begins; see `log`."""
    return Phase(None, name, facts, nvtx)


def step(number: Optional[int] = None) -> None:
    """`Run.step` of the innermost run; see `log`."""
    _innermost().step(number)


def wrap_loader(loader: Iterable[T], *, prefix: str = "") -> Iterable[T]:
    """`Run.wrap_loader` of the run that is innermost at each value; see `log`."""
    return Loader(None, loader, prefix)


def oom(what: Union[BaseException, str]) -> bool:
    """`Run.oom` of the innermost run; see `log`."""
    return _innermost().oom(what)

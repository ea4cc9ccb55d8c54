# SPDX-License-Identifier: MIT
"""`track` and what belongs to it. _track.pyi has the types."""
from __future__ import annotations

from ._errors import Error
from ._run import Loader, Phase, Run, _finished, _innermost, _newest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Mapping, Optional, TypeVar, Union

    T = TypeVar("T")


def track(what: object = None, /, **options: Any) -> Any:
    """Measures this process and all that it starts, or another process, in a block, a function or from start to stop.

        with hiwater.track() as run: ...
        @hiwater.track
        def train(): ...
        run = hiwater.track("fit", interval=0.01).start(); ...; run.stop()

    The first argument is the run's name (runs of one name are a group), or the function to measure. Keywords are the
    options of `hiwater attach`:

    pid          another process, with what it starts from now on; this one may end before it
    interval     seconds between two looks at memory, 0.001 to 3600, or a text ("10ms")
    output       keep the recording in this file, which must not exist yet, instead of the history
    record       False: keep no recording
    exact        set the kernel's mark of the largest size (VmHWM) back at the beginning and at each phase, which makes the
                 peak of main exact also for bursts between two looks; it lowers what getrusage says. Usual for this process
                 unless `hiwater run` encloses it
    cgroup, gpu  "auto" or "none"
    pss          also split processes over 1.5 GiB into private and shared memory
    print_every  seconds: a line about the present on stderr so often
    live         in a notebook: draw a chart while it runs (`Run.live`)
    summary      "full" or "line": print it on stderr at the end
    json, summary_file    files to write the summary into as well, as JSON and as text
    units        of amounts in texts: "iec" (GiB), "si" (GB) or "bytes"
    plain        texts have one fact a line, for screen readers
    alert, on_alert, limit, grace, request    rules, as on the command line; one text or several

    Raises Error where an option makes no sense; `start`, or entering the block, where nothing can be measured.
    """
    if callable(what):
        if options:
            raise Error("give either a function or options: @hiwater.track(interval=0.01)")
        return Run({})(what)
    if what is not None and not isinstance(what, str):
        raise Error(f"{what!r} is no name of a run; for another process: track(pid={what!r})")
    if what is not None:
        options["name"] = what
    if options.get("summary") not in (None, "none", "line", "full"):
        raise Error(f"summary={options['summary']!r} is none of 'full', 'line', 'none'")
    if options.get("record") not in (None, True, False):
        raise Error(f"record={options['record']!r} is neither True nor False; for a file of its own: output='run.hiw'")
    if options.get("summary") == "none":
        del options["summary"]
    return Run(options)


def start(name: Optional[str] = None, /, **options: Any) -> Run:
    """Begins to measure, as `track(name, **options).start()`; `stop` ends it."""
    run = track(name, **options)
    assert isinstance(run, Run)
    return run.start()


def stop() -> Optional[Run]:
    """Ends the run that was started last in this process and returns it; None: there is none."""
    run = _newest()
    if run:
        run.stop()
    return run


def current() -> Optional[Run]:
    """The innermost run that measures in this process, that of `%%hiwater` in its cell for example; None: there is none. A
    `hiwater run` around the process is none of it: `hiwater.log` and the like reach that, too."""
    return _newest()


def last() -> Optional[Run]:
    """The run that ended last in this process, of a decorated function for example; None: there was none."""
    return _finished[-1] if _finished else None


# ---- what the program tells, whoever measures it ------------------------------------------------------------------------


def log(values: Optional[Mapping[str, Any]] = None, /, *, step: Optional[int] = None, **more: Any) -> None:
    """As `Run.log`, of the innermost run of this process, else of the `hiwater run` around it. Where nobody measures, it does
    nothing: programs may keep it. The same goes for `mark`, `phase`, `wrap_loader` and `oom`."""
    _innermost().log(values, step=step, **more)


def mark(text: str) -> None:
    """As `Run.mark`, of whoever measures; see `log`."""
    _innermost().mark(text)


def phase(name: str, /, **facts: Any) -> Phase:
    """As `Run.phase`, of whoever measures when it begins; see `log`."""
    return Phase(None, name, facts)


def wrap_loader(loader: Iterable[T], *, prefix: str = "") -> Iterable[T]:
    """As `Run.wrap_loader`, of whoever measures meanwhile; see `log`."""
    return Loader(None, loader, prefix)


def oom(what: Union[BaseException, str]) -> bool:
    """As `Run.oom`, of whoever measures; see `log`."""
    return _innermost().oom(what)

# SPDX-License-Identifier: MIT
"""A live run: its start and end, and what the program tells of itself."""
from __future__ import annotations

import os
import sys
import threading
import time
import weakref

from . import _enclosing, _frameworks, _messages
from ._channel import Channel, Late, Lost, Refused
from ._command import needed_command
from ._errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, TypeVar, Union

    from ._feed import Feed
    from ._live import Live
    from ._recording import Recording, Spare
    from ._summary import Summary
    from .sinks import Sink

    F = TypeVar("F", bound=Callable[..., Any])
    T = TypeVar("T")

EDGE_LIMIT_S = 1.0  # the recorder takes an edge for exact only if it comes to it in half of that
STOP_LIMIT_S = 15.0


class Run:
    """What measures: made by `track` or `start`. A context manager, and a decorator that measures each call.

    All methods may be called from any thread. In a forked child they do nothing: the run is the parent's. Once the
    recorder is lost they do nothing either, and `warnings` says so. A run that was stopped may be started again; then it
    is a new one.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        from ._options import arguments

        self._options = dict(options)
        arguments(self._options)  # what makes no sense is said at once
        self._is_exact = False
        self._channel: Optional[Channel] = None
        self._watch: Optional[_frameworks.Watch] = None
        self._feeds: list[Feed] = []
        self._live: Optional[Live] = None
        self._step: Optional[int] = None  # the last that was logged
        self._pid = 0
        self._output: Optional[str] = None  # what it was told to write: the program may change its folder
        self._texts: Optional[tuple[str, str]] = None  # the summary as JSON and for people
        self._path: Optional[str] = None  # of what was recorded
        self._recording: Optional[Recording] = None
        self._unwritten: Optional[Spare] = None  # of a short run
        self.warnings: list[str] = []
        """What went wrong with measuring, if anything did."""

    # ---- beginning and end

    def start(self) -> Run:
        """Begins to measure; returns once the recorder does. Raises Error if it cannot."""
        if self.is_running:
            raise Error("this run is being measured already: stop it first, or make another one with hiwater.track()")
        from ._options import arguments, is_exact

        self._texts, self._path, self._recording, self._unwritten, self.warnings = None, None, None, None, []
        if self._pid != os.getpid():  # made before a fork: its chart is the parent's, and so are the sinks from there
            self._live, self._feeds = None, [feed for feed in self._feeds if feed.pid == os.getpid()]
        self._pid = os.getpid()
        self._is_exact = is_exact(self._options)
        output = self._options.get("output")
        self._output = os.path.abspath(output) if output else None
        with _resets:
            if self._is_exact:
                _read_marks(self)
            self._channel = Channel(needed_command(), arguments(self._options), self.warnings)
        self._watch = _frameworks.Watch()
        _end_in_worker()
        _running.append(self)
        _thread.start()
        if self._options.get("live"):
            self.live()
        return self

    def stop(self) -> None:
        """Ends the measuring; then the summary is ready. In a forked child, where nothing is measured, it does nothing. Raises
        Error only if the run was never started."""
        if not self._pid:
            raise Error("this run was not started: call start() first")
        self._stop(is_held=True)

    def _stop(self, is_held: bool) -> None:
        channel, self._channel = self._channel, None
        if not channel or self._pid != os.getpid():
            return
        if self in _running:
            _running.remove(self)
        try:
            self._look(channel)
            if not _running:
                _thread.stop()
            if self._end(channel) and is_held:
                self._spare(channel)
        finally:  # also where an interrupt comes meanwhile
            if not self._unwritten:
                channel.close()
            _finished[:] = [self]
            self._end_outputs()

    def _end_outputs(self) -> None:
        """Whoever follows this run is told of its end, also where another one of them is interrupted."""
        try:
            if self._feeds:
                self._feeds.pop(0).end(self, self._step)
            elif self._live:
                live, self._live = self._live, None
                live.finish(self._afterwards())
        finally:
            if self._feeds or self._live:
                self._end_outputs()

    def _afterwards(self) -> str:
        """What is said below the last chart."""
        from ._live import after

        try:
            return after(self.summary)
        except Error as e:
            return "; ".join(self.warnings) or str(e)

    def end_within(self, limit_s: float) -> bool:
        """Tells the recorder to end. False: it did not in that time; it may be told again, or left with `leave`. Whatever comes
        of it, `stop` is to follow."""
        if self._channel is None or not self.is_running:
            return True
        try:
            self._channel.ask("stop", limit_s)
        except Late:
            return False
        except (Lost, Refused):
            pass
        return True

    def leave(self) -> None:
        """The recorder does not answer and is left behind: nobody waits for it any more. What was recorded is known."""
        if self._channel and self.is_running:
            self._warn("the end was not recorded: the recorder does not answer")
            self._channel.close()

    def _end(self, channel: Channel) -> bool:
        """False: the recorder does not answer."""
        how = self._options.get("summary")
        try:
            stop, json, text = [channel.ask_for_later(word) for word in ("stop", "json", "text")]  # one way there and back
            self._path = channel.answer(stop, STOP_LIMIT_S) or None
            self._texts = (channel.answer(json, STOP_LIMIT_S), channel.answer(text, STOP_LIMIT_S))
            if how:
                _print(self._texts[1] if how == "full" else channel.ask("line", STOP_LIMIT_S))
        except (Lost, Late, Refused, OSError) as e:  # OSError: the socket was closed behind its back
            self._warn(f"the end was not recorded: {e}")
            self._path = self._path or channel.left(self._output)
            return False
        finally:
            self._recording = None
        return True

    def _spare(self, channel: Channel) -> None:
        """The recording of a run that is too short for the history: who has the run can show it. The recorder writes it while
        the program goes on; it goes with its `Recording`."""
        from ._recording import Spare

        if self._path or self._options.get("output") or self._options.get("record") is False:
            return
        _settle_last(self)
        try:
            self._unwritten = Spare(channel)
        except (Lost, Late, OSError):
            pass  # there is none, then

    def _settle(self) -> None:
        """The recording is there, or there is none."""
        with _settles:
            spare, self._unwritten = self._unwritten, None
            if spare and self._pid == os.getpid():
                self._recording = spare.recording(STOP_LIMIT_S)
                self._path = self._recording.path if self._recording else None

    def __enter__(self) -> Run:
        return self.start()

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        if value is not None:
            self.oom(value)
        self.stop()

    def __call__(self, function: F) -> F:
        """Measures each call of function as a run of its own; `hiwater.last()` is the one that ended last."""
        from ._wrap import wrap

        options = {"name": getattr(function, "__qualname__", None), **{k: v for k, v in self._options.items() if v is not None}}
        return wrap(function, lambda: Run(options))

    def __reduce__(self) -> tuple[Any, ...]:
        """What another process gets is a run that does nothing: only this one measures."""
        return _elsewhere, (self._options,)

    # ---- what is known

    @property
    def is_running(self) -> bool:
        """Is it being measured, by this process? True also when the recorder was lost, until `stop`."""
        return self._channel is not None and self._pid == os.getpid()

    @property
    def name(self) -> Optional[str]:
        """Given with track(name); None: none was."""
        name: Optional[str] = self._options.get("name")
        return name

    @property
    def path(self) -> Optional[str]:
        """Of the recording; None: there is none, or none yet. That of a run shorter than a second is temporary and goes with
        this object and its `recording`; output= keeps it."""
        self._settle()
        if self._path:
            return self._path
        channel = self._channel
        if channel and not channel.file and self.is_running:
            channel.hear()
        return channel.file if channel else None

    @property
    def summary(self) -> Summary:
        """The summary: of the run so far while it is measured, else of the whole. Raises Error if there is none."""
        from ._summary import Summary

        channel, why = self._channel, []
        if channel and self.is_running:
            self._look(channel)
            try:
                return Summary.from_json(channel.ask("json", STOP_LIMIT_S), channel.ask("text", STOP_LIMIT_S))
            except (Lost, Late, Refused) as e:
                why = [str(e)]
                channel.left(self._output)
        if self._texts:
            return Summary.from_json(*self._texts)
        if self.path:
            return self.recording.summary
        raise Error("there is no summary: " + ("; ".join([*self.warnings, *why]) or "the run was not started in this process"))

    @property
    def recording(self) -> Recording:
        """The recording, finished or growing. Raises Error if none was kept."""
        self._settle()
        if not self._recording and self.path:
            from ._recording import Recording

            self._recording = Recording(self.path)
        if not self._recording:
            raise Error("there is no recording: one is made when the run ends, or with track(output='run.hiw') at once")
        return self._recording

    def to_pandas(self, entity: str = "job") -> Any:
        """A pandas.DataFrame of the recording; see `Recording.to_pandas`."""
        return self.recording.to_pandas(entity)

    def to_parquet(self, path: Union[str, os.PathLike[str]], entity: str = "job") -> str:
        """A Parquet file of the recording; see `Recording.to_parquet`."""
        return self.recording.to_parquet(path, entity)

    def plot(self, *series: str) -> Any:
        """A matplotlib figure of the recording; see `Recording.plot`."""
        return self.recording.plot(*series)

    def live(self, *series: str) -> None:
        """In a notebook: a chart of CPU, RAM, GPUs and logged values (those named, else the first four) over the same time, below
        the cell, drawn anew twice a second until the run ends; the last one stays. Elsewhere it does nothing but a warning."""
        from ._live import Live, notebook

        display = notebook()
        if display is None or not self.is_running:
            self._warn("live: there is no chart, since " + ("this is no notebook" if self.is_running else "nothing is measured"))
        elif self._options.get("record") is False:
            self._warn("live: there is no chart, since the chart is drawn from the recording: leave record=False out")
        elif not self._live:
            try:
                self._live = Live(self, display, series)
            except Exception as e:
                self._warn(f"live: there is no chart: {type(e).__name__}: {e}")

    def report(self, path: Union[str, os.PathLike[str], None] = None, *, redact: bool = False) -> str:
        """Writes one self-contained page of HTML about the recording; see `Recording.report`."""
        if path is None and self.recording.is_temporary:
            raise Error("say where the page goes, as report('run.html'): this run was too short for the history")
        return self.recording.report(path, redact=redact)

    # ---- what the program tells

    def log(self, values: Optional[Mapping[str, Any]] = None, /, *, step: Optional[int] = None, **more: Any) -> None:
        """Adds a value to each series named, at this instant: `run.log(loss=0.4, step=3)`, `run.log({"val/loss": 0.5})`.

        Values are whatever float() takes, NaN and infinities too, and as many as you like; step is a whole number of 64 bits
        (without it where it is more, which `warnings` says). Raises Error for names with blanks, `=` or NUL in them or over
        1000 bytes, and what float() raises, with the name.
        """
        numbers = {_messages.series_name(name): _messages.number(name, value) for name, value in {**(values or {}), **more}.items()}
        number = None if step is None else int(step)
        if number is not None and not _messages.step_fits(number):
            self._warn(_messages.STEP_TOO_FAR)
            number = None
        self._step = self._step if number is None else number
        for text in _messages.logged(numbers, number):
            self._tell(text)
        self._look(self._channel, gently=True)
        if self._pid == os.getpid():
            for feed in self._feeds:
                feed.write(self, self._step)

    def add_sink(self, sink: Sink, *, every: float = 10.0) -> None:
        """Figures of this run go there, too (`hiwater.sinks`): from `log`, each `every` seconds at most, and at the end, with the
        summary. What it raises is in `warnings`."""
        from ._feed import Feed

        self._feeds.append(Feed(every, sink))
        _be_first_at_exit()

    def remove_sink(self, sink: Sink) -> None:
        """It gets the figures up to now, and no more. One that was never added is nothing."""
        for feed in [feed for feed in self._feeds if feed.sink is sink]:
            self._feeds.remove(feed)
            feed.write(self, self._step, is_last=True)

    def oom(self, what: Union[BaseException, str]) -> bool:
        """Tells the recorder that memory ran out, a device's or the host's: what happened before and after is kept at full
        rate, and the summary says who held what. For exceptions that the program handles itself; those that leave the block,
        or a phase, are told without it. False: this exception says something else."""
        if isinstance(what, BaseException):
            if getattr(what, "_hiwater_told", False):
                return True
            text = _frameworks.oom_text(what)
        else:
            text = " ".join(str(what).split())[:_frameworks.TEXT_MOST]
        if text is None:
            return False
        self._look(self._channel)
        self._tell("oom " + text)
        try:
            what._hiwater_told = True  # type: ignore[union-attr]
        except AttributeError:
            pass  # a text
        return True

    def mark(self, text: str) -> None:
        """Puts a mark into the recording, at this instant. One over 4096 bytes is left out, which `warnings` says."""
        text = str(text)
        if not _messages.is_long_mark(text):
            self._tell("mark " + text)
        elif self._pid == os.getpid():
            self._warn(_messages.MARK_TOO_LONG)
            _enclosing.tell("mark " + text[:_messages.MESSAGE_MOST])  # its recorder says so, too

    def phase(self, name: str, /, **facts: Any) -> Phase:
        """A part of the run, a context manager and a decorator; phases may nest. Its time and the main process's RAM before,
        at its peak (exact unless track(exact=False)) and after are in `summary.phases`, with the facts given here."""
        return Phase(self, name, facts)

    def wrap_loader(self, loader: Iterable[T], *, prefix: str = "") -> Iterable[T]:
        """Iterates over loader and measures how long the program waits for it: series `data_wait` and `step_time` in seconds,
        at most ten values a second, each the sum since the last one; their totals are in `summary.series`."""
        return Loader(self, loader, prefix)

    def _tell(self, text: str) -> None:
        if self._pid != os.getpid():
            return
        channel = self._channel
        if channel and not channel.tell(text):
            self._warn("something was not recorded: the recorder is gone or too busy")
        _enclosing.tell(text)

    def _look(self, channel: Optional[Channel], gently: bool = False) -> None:
        """Frameworks are asked for their memory; also by the thread that does so for all runs."""
        if not channel or not self._watch or self._pid != os.getpid():
            return
        for who, figures in self._watch.look(gently).items():
            for text in _messages.logged({f"{who}/{name}": float(value) for name, value in figures.items()}):
                channel.tell(text)
                _enclosing.tell(text)

    def _edge(self, text: str) -> None:
        """A phase begins or ends: where peaks are exact, the recorder reads main's mark before the program goes on."""
        channel = self._channel
        self._look(channel)
        if not self._is_exact or not channel or self._pid != os.getpid():
            self._tell(text)
            return
        _enclosing.tell(text)
        try:
            with _resets:
                if text.startswith("phase+"):
                    _read_marks(self)
                channel.ask(text, EDGE_LIMIT_S)
        except Refused as e:
            self._warn(str(e))
        except (Late, Lost) as e:
            self._is_exact = False
            self._warn(f"peaks are not exact from here on: {e}")

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


class Phase:
    """A part of a run: `with run.phase("epoch", epoch=3):`, or `@run.phase("load")` on a function. Each use is a phase of
    its own."""

    def __init__(self, run: Optional[Run], name: str, facts: Mapping[str, Any]) -> None:
        self._run = run  # None: whichever is the innermost when the phase begins
        self._inside = run
        self.name = " ".join(str(name).split()) or "phase"
        self.facts = dict(facts)

    def __enter__(self) -> Phase:
        lines = [f"{key}={str(value)[:500]}".replace("\n", " ") for key, value in self.facts.items()]
        self._inside = self._run or _innermost()
        self._inside._edge("\n".join([f"phase+ {self.name}", *lines]))
        return self

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        run = self._inside or _innermost()
        if value is not None:
            run.oom(value)
        run._edge(f"phase- {self.name}")

    def __call__(self, function: F) -> F:
        from ._wrap import wrap

        return wrap(function, lambda: Phase(self._run, self.name, self.facts))


class Loader:
    """What `Run.wrap_loader` makes: everything but iterating is the loader's own."""

    PERIOD_S = 0.1

    def __init__(self, run: Optional[Run], loader: Iterable[Any], prefix: str) -> None:
        self._run = run  # None: the innermost
        self._loader = loader
        self._names = (prefix + "data_wait", prefix + "step_time")

    def __iter__(self) -> Iterator[Any]:
        began = told = time.perf_counter()
        waited = 0.0
        iterator = iter(self._loader)
        try:
            while True:
                try:
                    item = next(iterator)
                except StopIteration:
                    return
                finally:
                    now = time.perf_counter()
                    waited += now - began
                if now - told >= self.PERIOD_S:
                    self._log(waited, now - told)
                    waited, told = 0.0, now
                yield item
                began = time.perf_counter()
        finally:
            self._log(waited, time.perf_counter() - told)

    def _log(self, waited: float, whole: float) -> None:
        (self._run or _innermost()).log({self._names[0]: waited, self._names[1]: whole})

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._loader, name)


def _print(text: str) -> None:
    """On stderr, where somebody reads it."""
    try:
        if sys.stderr:
            print(text, end="", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass


# ---- all runs of this process ----------------------------------------------------------------------------------------

_running: list[Run] = []
_around: Optional[Run] = None  # speaks to the `hiwater run` that encloses this process, if one does
_finished: list[Run] = []  # the last one
_worker = 0  # the process whose end was looked after
_settles = threading.RLock()
_resets = threading.RLock()  # who sets the mark back lets the others read it first


_unsettled: Optional[weakref.ref[Run]] = None  # the last run that may have a recording to come


def _newest() -> Optional[Run]:
    """It is looked at once: another thread may end the last one meanwhile."""
    for run in _running[-1:]:
        return run
    return None


def _innermost() -> Run:
    """To whom the program speaks that names no run."""
    global _around
    newest = _newest()
    if newest:
        return newest
    if not _around or _around._pid != os.getpid():
        _around = Run({})
        _around._pid = os.getpid()
    return _around


def _settle_last(now: Run) -> None:
    """Runs that are held and not looked at hold no descriptor."""
    global _unsettled
    with _settles:
        last, _unsettled = _unsettled() if _unsettled else None, weakref.ref(now)
    if last and last is not now:
        last._settle()


def _look_all() -> None:
    for run in list(_running):
        run._look(run._channel)


_thread = _frameworks.Thread(_look_all)


def _read_marks(but: Run) -> None:
    """Every other run whose peaks are exact reads the kernel's mark before it is set back."""
    for other in list(_running):
        channel = other._channel
        if other is but or not channel or not other._is_exact:
            continue
        try:
            channel.ask("read", EDGE_LIMIT_S)
        except Error:
            other._is_exact = False


def _elsewhere(options: Mapping[str, Any]) -> Run:
    run = Run(options)
    run._pid = -1
    return run


def _after_fork() -> None:
    global _resets, _settles, _thread
    _resets, _settles = threading.RLock(), threading.RLock()
    _thread = _frameworks.Thread(_look_all)
    _running.clear()
    _finished.clear()


def _at_exit() -> None:
    """Runs that were left open end, and whoever follows them is told."""
    kind = getattr(sys, "last_type", None)
    is_interrupted = isinstance(kind, type) and issubclass(kind, KeyboardInterrupt) and not hasattr(sys, "ps1")
    try:
        for run in list(reversed(_running)):
            run._stop(is_held=False)
    finally:
        if is_interrupted:
            _interrupt_again()


def _interrupt_again() -> None:
    """CPython ends by the signal if the last text that it executed was interrupted. Modules that are imported meanwhile
    execute texts, too (dataclasses), and a shell would not learn of the interrupt any more."""
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        pass


def _be_first_at_exit() -> None:
    """A tracker of experiments that ends its run at exit does so after what it is told of."""
    import atexit

    atexit.unregister(_at_exit)
    atexit.register(_at_exit)


def _end_in_worker() -> None:
    """Processes of multiprocessing end without atexit."""
    global _worker
    if _worker == os.getpid():
        return
    _worker = os.getpid()
    util: Any = sys.modules.get("multiprocessing.util")
    process: Any = sys.modules.get("multiprocessing.process")
    if util and process and process.parent_process() is not None:
        util.Finalize(None, _at_exit, exitpriority=0)


def _prepare() -> None:
    _be_first_at_exit()
    os.register_at_fork(after_in_child=_after_fork)


_prepare()

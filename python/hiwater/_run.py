# SPDX-License-Identifier: MIT
"""A live run: its start and end, and the values, marks and phases that the program logs."""
from __future__ import annotations

import os
import sys
import threading
import time
import weakref

from . import _enclosing, _frameworks, _messages
from ._channel import Channel, Late, Lost, Refused
from ._command import needed_command
from ._errors import ArgumentTypeError, ArgumentValueError, Error, warn
from ._options import arguments, file_pattern, is_exact, several, window_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, TypeVar, Union

    from ._feed import Feed
    from ._live import Live
    from ._nvtx import Range
    from ._traced import Environment
    from ._recording import Recording, Spare
    from ._summary import Summary
    from .sinks import Sink

    F = TypeVar("F", bound=Callable[..., Any])
    T = TypeVar("T")

EDGE_LIMIT_S = 1.0  # the recorder accepts an edge as exact only if it handles the message within half of this
STOP_LIMIT_S = 15.0
PHASE_NAME_MOST = 200  # characters


class Run:
    """A run, made by `track` or `start`. A context manager, and a decorator that measures each
    call.

    All methods may be called from any thread. In a forked child they do nothing, because the run
    belongs to the parent. Once the recorder is lost they do nothing either, and `warnings` says so.
    A stopped run may be started again, as a new run.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = dict(options)
        arguments(self._options)  # raises for invalid options now, not at start()
        self._is_exact = False
        self._channel: Optional[Channel] = None
        self._watch: Optional[_frameworks.Watch] = None
        self._feeds: list[Feed] = []
        self._live: Optional[Live] = None
        self._step: Optional[int] = None  # the last one logged
        self._pid = 0  # of the process that started the run
        self._output: Optional[str] = None  # absolute: the program may change its working directory
        self._texts: Optional[tuple[str, str]] = None  # the summary as JSON and as text
        self._path: Optional[str] = None  # of the recording
        self._recording: Optional[Recording] = None
        self._pending_spare: Optional[Spare] = None  # the temporary recording of a short run, until it is collected
        self._unmeasured: Optional[str] = None  # why the run could not be measured
        self._traced: Optional[Environment] = None  # of track(trace=...)
        self._traced_step: Optional[Range] = None  # of step()
        self._next_step = 0
        self._dropped: set[str] = set()  # names whose values were dropped
        self.warnings: list[str] = []
        """Failures of the measurement, in order."""

    # ---- start and end

    def start(self) -> Run:
        """Starts the recorder and returns once it measures. If nothing can be measured, `warnings`
        says why, and so does one RuntimeWarning; with track(strict=True) this raises Error."""
        try:
            return self._begin()
        except (ArgumentTypeError, ArgumentValueError):
            raise
        except Exception as e:
            why = str(e) if isinstance(e, Error) else f"nothing is measured: {type(e).__name__}: {e}"
            if self._options.get("strict"):
                raise e if isinstance(e, Error) else Error(why)
        self._unmeasured = why.replace("nothing is measured: ", "", 1)
        self._warn(why)
        warn(why)
        _running.append(self)  # so that stop() ends this run, and not the one around it
        return self

    def _begin(self) -> Run:
        """As `start`; raises Error or another exception if nothing can be measured."""
        if self.is_running:
            raise ArgumentValueError("this run is already being measured: stop it first, or make another one with hiwater.track()")
        if self in _running:
            _running.remove(self)
        self._texts, self._path, self._recording, self._pending_spare, self.warnings = None, None, None, None, []
        self._dropped, self._unmeasured = set(), None
        self._traced_step, self._next_step = None, 0
        if self._pid != os.getpid():  # made before a fork: its chart and sinks belong to the parent
            self._live, self._feeds = None, [feed for feed in self._feeds if feed.pid == os.getpid()]
        self._pid = os.getpid()
        self._is_exact = is_exact(self._options)
        output = self._options.get("output")
        self._output = file_pattern(os.fspath(output)) if output else None
        with _hwm_lock:
            if self._is_exact:
                _read_hwms(self)
            self._channel = Channel(needed_command(), arguments(self._options), self.warnings)
        if self._channel.environment:
            from ._traced import Environment, too_late

            self._traced = Environment(self._channel.environment)
            lost = too_late()
            if lost:
                self._warn(f"not traced in this process, as it was loaded before: {', '.join(lost)}; start the run before the import, "
                           "or use hiwater run --trace")
        self._watch = _frameworks.Watch()
        _register_finalizer()
        _running.append(self)
        _thread.start()
        if self._options.get("live"):
            self.live()
        return self

    def stop(self) -> None:
        """Ends the run; the summary is then ready. Does nothing in a forked child, or if nothing was
        measured. Raises Error only if the run was never started."""
        if not self._pid:
            raise Error("this run was not started: call start() first")
        self._stop(keeps_recording=True)

    def _stop(self, keeps_recording: bool) -> None:
        if self._pid != os.getpid() or self not in _running:
            return
        channel, self._channel = self._channel, None
        _running.remove(self)
        if self._traced_step:
            self._traced_step.end()
            self._traced_step = None
        if self._traced:
            self._traced.end()
            self._traced = None
        if not channel:  # it could not be measured
            _finished[:] = [self]
            self._end_outputs()
            return
        try:
            self._read_frameworks(channel)
            if not _running:
                _thread.stop()
            if self._end(channel) and keeps_recording:
                self._request_spare(channel)
        finally:  # also after an interrupt
            if not self._pending_spare:
                channel.close()
            _finished[:] = [self]
            self._end_outputs()

    def _end_outputs(self) -> None:
        """Ends the sinks and the live chart, each of them even if an interrupt ended the one
        before."""
        try:
            if self._feeds:
                self._feeds.pop(0).end(self, self._step)
            elif self._live:
                live, self._live = self._live, None
                live.finish(self._closing_text())
        finally:
            if self._feeds or self._live:
                self._end_outputs()

    def _closing_text(self) -> str:
        """The text below the last chart."""
        from ._live import run_lines

        try:
            return run_lines(self.summary)
        except Error as e:
            return "; ".join(self.warnings) or str(e)

    def end_within(self, limit_s: float) -> bool:
        """Sends the recorder the request to stop. Returns False if it does not answer within
        limit_s seconds; then repeat the call, or abandon the recorder with `leave`. `stop` must be
        called afterwards in every case."""
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
        """Abandons a recorder that does not answer: `stop` will not wait for it. Its recording
        stays readable."""
        if self._channel and self.is_running:
            self._warn("the end was not recorded: the recorder does not answer")
            self._channel.close()

    def _end(self, channel: Channel) -> bool:
        """Returns False if the recorder does not answer."""
        form = self._options.get("summary")
        try:
            stop, json, text = [channel.ask_for_later(word) for word in ("stop", "json", "text")]  # one round trip for all
            self._path = channel.answer(stop, STOP_LIMIT_S) or None
            self._texts = (channel.answer(json, STOP_LIMIT_S), channel.answer(text, STOP_LIMIT_S))
            if form:
                _print(self._texts[1] if form == "full" else channel.ask("line", STOP_LIMIT_S))
        except (Lost, Late, Refused, OSError) as e:  # OSError: the program closed the descriptor of the socket
            self._warn(f"the end was not recorded: {e}")
            self._path = self._path or channel.find_recording(self._output)
            return False
        finally:
            self._recording = None
        return True

    def _request_spare(self, channel: Channel) -> None:
        """Requests a temporary recording of a run that is too short for the history, so that the
        run object can be shown. The recorder writes it while the program continues; it is removed
        with its `Recording`."""
        from ._recording import Spare

        if self._path or self._options.get("output") or self._options.get("record") is False:
            return
        _collect_previous_spare(self)
        try:
            self._pending_spare = Spare(channel)
        except (Lost, Late, OSError):
            pass  # the run has no recording then

    def _collect_spare(self) -> None:
        """Waits for the temporary recording of a short run, if one was requested."""
        with _spare_lock:
            spare, self._pending_spare = self._pending_spare, None
            if spare and self._pid == os.getpid():
                self._recording = spare.recording(STOP_LIMIT_S)
                self._path = self._recording.path if self._recording else None

    def __enter__(self) -> Run:
        return self.start()

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        if value is not None:
            self._fail(value)
        self.stop()

    def __call__(self, function: F) -> F:
        """Measures each call of function as a run of its own; `hiwater.last()` is the one that
        ended last."""
        from ._wrap import wrap

        options = {"name": getattr(function, "__qualname__", None), **{k: v for k, v in self._options.items() if v is not None}}
        return wrap(function, lambda: Run(options))

    def __reduce__(self) -> tuple[Any, ...]:
        """Unpickled in another process, a run does nothing: only this process measures."""
        return _inert_run, (self._options,)

    # ---- state and results

    @property
    def is_running(self) -> bool:
        """True while this process measures the run, until `stop`; also if the recorder was lost."""
        return self._channel is not None and self._pid == os.getpid()

    def __repr__(self) -> str:
        """A short table of a run that has ended; one line of one that is running."""
        is_ours = self._pid == os.getpid()
        if is_ours and self._texts:
            return repr(self.summary)
        state = ("running" if self.is_running else "ended without a summary" if is_ours else
                 "measured in another process" if self._pid else "not started")
        return f"hiwater.Run({(self.name or '')[:100]!r}), {state}"

    def _repr_html_(self) -> Optional[str]:
        """The same table for a notebook, also of a run that is running."""
        try:
            return self.summary._repr_html_() if self._pid == os.getpid() else None
        except (Error, OSError):
            return None

    @property
    def name(self) -> Optional[str]:
        """The name given to track(name); None if none was given."""
        name: Optional[str] = self._options.get("name")
        return name

    @property
    def path(self) -> Optional[str]:
        """The path of the recording; None if there is none, or none yet. The recording of a run
        shorter than a second is temporary: it is removed with this object and its `recording`,
        unless output= was given."""
        self._collect_spare()
        if self._path:
            return self._path
        channel = self._channel
        if channel and not channel.file and self.is_running:
            channel.receive_notices()
        return channel.file if channel else None

    @property
    def summary(self) -> Summary:
        """The summary of the run so far while it is measured, else of the whole run. That of a run
        that could not be measured has no values, and its text is the reason. Raises Error if there
        is none."""
        from ._summary import Summary

        channel, why = self._channel, []
        if channel and self.is_running:
            self._read_frameworks(channel)
            try:
                return Summary.from_json(channel.ask("json", STOP_LIMIT_S), channel.ask("text", STOP_LIMIT_S))
            except (Lost, Late, Refused) as e:
                why = [str(e)]
                channel.find_recording(self._output)
        if self._texts:
            return Summary.from_json(*self._texts)
        if self.path:
            return self.recording.summary
        if (self.warnings or why) and not self._options.get("strict"):
            return Summary.without_values("; ".join([*self.warnings, *why]))
        raise Error("no summary: " + ("; ".join([*self.warnings, *why]) or "the run was not started in this process"))

    @property
    def recording(self) -> Recording:
        """The recording, finished or growing. Raises Error if none was kept."""
        self._collect_spare()
        if not self._recording and self.path:
            from ._recording import Recording

            self._recording = Recording(self.path)
        if not self._recording:
            raise Error(self._why_no_recording())
        return self._recording

    def _why_no_recording(self) -> str:
        if self._unmeasured:
            return f"no recording, because nothing was measured: {self._unmeasured}"
        if not self._pid:
            return "no recording: this run was not started; call start() first"
        if self._pid != os.getpid():
            return "no recording here: this run is measured in another process"
        if self._options.get("record") is False:
            return "no recording: the run was started with record=False"
        if self.is_running:
            return "no recording yet: one is made when the run ends, or with track(output='run.hiw') at once"
        return "no recording was kept" + "".join(f"; {warning}" for warning in self.warnings)

    def to_pandas(self, entity: str = "job", *, rate: str = "windows") -> Any:
        """A pandas.DataFrame of the recording; see `Recording.to_pandas`."""
        return self.recording.to_pandas(entity, rate=rate)

    def joined(self, entity: str = "job") -> Any:
        """Logged values with the use at their times; see `Recording.joined`."""
        return self.recording.joined(entity)

    def ranges(self) -> Any:
        """`Recording.ranges`."""
        return self.recording.ranges()

    def kernels(self) -> Any:
        """`Recording.kernels`."""
        return self.recording.kernels()

    def to_parquet(self, path: Union[str, os.PathLike[str]], entity: str = "job") -> str:
        """A Parquet file of the recording; see `Recording.to_parquet`."""
        return self.recording.to_parquet(path, entity)

    def plot(self, *series: str) -> Any:
        """A matplotlib figure of the recording; see `Recording.plot`."""
        return self.recording.plot(*series)

    def live(self, *series: str) -> None:
        """In a notebook: draws a chart of CPU, RAM, GPUs and logged values (the named series, else
        the first four) below the cell, on one time axis, and redraws it twice a second until the
        run ends; the last chart stays. Elsewhere it adds a warning."""
        from ._live import Live, notebook

        display = notebook()
        if display is None or not self.is_running:
            self._warn("live: no chart, because " + ("this is not a notebook" if self.is_running else "nothing is measured"))
        elif self._options.get("record") is False:
            self._warn("live: no chart, because it is drawn from the recording: omit record=False")
        elif not self._live:
            try:
                self._live = Live(self, display, series)
            except Exception as e:
                self._warn(f"live: no chart: {type(e).__name__}: {e}")

    def report(self, path: Union[str, os.PathLike[str], None] = None, *, redact: bool = False) -> str:
        """Writes one self-contained page of HTML about the recording; see `Recording.report`."""
        if path is None and self.recording.is_temporary:
            raise Error("this run was too short for the history: give report() a path, such as report('run.html')")
        return self.recording.report(path, redact=redact)

    # ---- values, marks and phases of the program

    def log(self, values: Optional[Mapping[str, Any]] = None, /, *, step: Optional[int] = None, **more: Any) -> None:
        """Adds a value to each named series, at this instant: `run.log(loss=0.4, step=3)`,
        `run.log({"val/loss": 0.5})`.

        Values are anything that float() accepts, NaN and infinities included, and any number of
        them; step is an integer of 64 bits. Nothing raises: a value that is not a number, a name
        that is empty or over 1000 bytes, or a step that does not fit is dropped, and `warnings`
        says so, as does one RuntimeWarning a name.
        """
        numbers = self._numbers(values, more)
        number = self._step_of(step)
        self._step = self._step if number is None else number
        for text in _messages.logged(numbers, number):
            self._notify(text)
        self._read_frameworks(self._channel, gently=True)
        if self._pid == os.getpid():
            for feed in self._feeds:
                feed.write(self, self._step)

    def _numbers(self, values: Any, more: Mapping[str, Any]) -> dict[str, float]:
        try:
            given = {**(values or {}), **more}
        except Exception:  # whatever the mapping itself raises
            self._drop("values", f"log: {_messages.shown(values)} was dropped: it is not a mapping of names to numbers")
            given = dict(more)
        numbers: dict[str, float] = {}
        for key, value in given.items():
            shown = _messages.text_of(key)[:80]
            try:
                name = _messages.series_name(key)
            except ValueError as e:
                self._drop(shown, f"log: a value of {shown!r} was dropped: {e}")
                continue
            try:
                numbers[name] = float(value)
            except OverflowError:
                self._drop(shown, f"log: a value of {shown!r} was dropped: it is too large for a number of 64 bits")
            except Exception:  # whatever the value's own conversion raises
                self._drop(shown, f"log: a value of {shown!r} was dropped: {_messages.shown(value)} is not a number")
        return numbers

    def _step_of(self, step: Any) -> Optional[int]:
        if step is None:
            return None
        try:
            number = int(step)
        except Exception:
            self._drop("step", f"log: a step was dropped, and its values are kept without it: {_messages.shown(step)} is not a whole number")
            return None
        if _messages.step_fits(number):
            return number
        self._drop("step", _messages.STEP_TOO_FAR)
        return None

    def add_sink(self, sink: Sink, *, every: float = 10.0) -> None:
        """Adds a sink for figures of this run (`hiwater.sinks`). It gets them from `log`, every
        `every` seconds at most, and at the end, with the summary. Exceptions of the sink are listed
        in `warnings`."""
        from ._feed import Feed

        self._feeds.append(Feed(every, sink))
        _be_first_at_exit()

    def remove_sink(self, sink: Sink) -> None:
        """Removes a sink, which gets the figures up to now. A sink that was never added is
        ignored."""
        for feed in [feed for feed in self._feeds if feed.sink is sink]:
            self._feeds.remove(feed)
            feed.write(self, self._step, is_last=True)

    def oom(self, what: Union[BaseException, str]) -> bool:
        """Reports an out-of-memory error, of a device or the host: the minutes before and after are
        kept at full rate, and the summary lists the memory that each process used. For exceptions
        that the program handles itself; those that leave the block, or a phase, are reported
        without it. Returns False if the exception is not an out-of-memory error."""
        if isinstance(what, BaseException):
            if getattr(what, "_hiwater_told", False):
                return True
            text = _frameworks.oom_text(what)
        else:
            text = _messages.text_of(what)[:_frameworks.TEXT_MOST]
        if text is None:
            return False
        self._read_frameworks(self._channel)
        self._notify("oom " + text)
        try:
            what._hiwater_told = True  # type: ignore[union-attr]
        except Exception:
            pass  # a string, or an exception without room for it
        return True

    def _fail(self, value: BaseException) -> None:
        """Reports the exception that ends the run, so that it does not count as succeeded."""
        self.oom(value)
        self._raised(value)

    def _raised(self, value: Any) -> None:
        """value: the exception, or its type. The end of a generator and sys.exit(0) are no failures."""
        is_type = isinstance(value, type)
        kind = value if is_type else type(value)
        if issubclass(kind, GeneratorExit) or (issubclass(kind, SystemExit) and (is_type or value.code in (None, 0))):
            return
        if self._channel and self._pid == os.getpid():
            self._channel.notify("raised " + _messages.text_of(kind.__name__))

    def mark(self, text: str) -> None:
        """Records a mark at this instant. A text over 4096 bytes is dropped, and `warnings` says
        so, as does one RuntimeWarning."""
        text = _messages.mark_text(text)
        if not _messages.is_long_mark(text):
            self._notify("mark " + text)
        elif self._pid == os.getpid():
            self._drop("mark", _messages.MARK_TOO_LONG)
            _enclosing.notify("mark " + text[:_messages.MESSAGE_MOST])  # the enclosing recorder then warns as well

    def phase(self, name: str, /, *, nvtx: bool = False, **facts: Any) -> Phase:
        """A part of the run: a context manager and a decorator; phases may nest. `summary.phases`
        has its time and the main process's RAM before, at the peak (exact unless
        track(exact=False)) and after, with the facts given here. nvtx: it is an NVTX range too, which traces and
        profilers see; needs the package nvtx, or a PyTorch with CUDA that is imported already."""
        return Phase(self, name, facts, nvtx)

    def step(self, number: Optional[int] = None) -> None:
        """Ends the step before and begins the next one, 0, 1, 2 and so on, or this number; the last one ends with the run.
        Steps are NVTX ranges "step N", which traces and profilers see: `hiwater trace --steps 10-20` and
        `trace(steps=range(10, 20))` are about them. Needs the package nvtx, or a PyTorch with CUDA that is imported already."""
        from ._nvtx import Range

        if self._traced_step:
            self._traced_step.end()
        number = self._next_step if number is None else int(number)
        self._next_step = number + 1
        self._traced_step = Range(f"step {number}")

    def trace(self, window: Optional[str] = None, *, steps: Optional[range] = None) -> None:
        """Of a run with track(trace=...), before it starts or meanwhile: keep kernels and copies of GPUs only in these steps,
        or in this window ("60s+5s", "range=RE", "api", "alert", "last=60s"; docs/tracing.md). Each call adds one. Ranges,
        memory and sums are kept always. Meanwhile "range=RE" is about names that have not been used yet. A window that the run cannot have is one of `warnings`."""
        text = window_of(window, steps)
        if not self.is_running:
            self._options["trace_window"] = [*several(self._options.get("trace_window") or []), text]
        elif self._channel and self._pid == os.getpid():
            try:
                self._channel.ask("window " + text, EDGE_LIMIT_S)
            except Refused as e:
                self._warn(str(e))
            except (Late, Lost) as e:
                self._warn(f"no window {text!r} of the trace: {e}")

    def wrap_loader(self, loader: Iterable[T], *, prefix: str = "") -> Iterable[T]:
        """Iterates over loader and measures the time that the program waits for it. Logs the series
        `data_wait` and `step_time` in seconds, at most ten values a second, each the sum since the
        previous one; `summary.series` has the totals."""
        return Loader(self, loader, prefix)

    def _notify(self, text: str) -> None:
        if self._pid != os.getpid():
            return
        channel = self._channel
        if channel and not channel.notify(text):
            self._warn(f"a message was not recorded: {channel.why_lost}")
        _enclosing.notify(text)

    def _read_frameworks(self, channel: Optional[Channel], gently: bool = False) -> None:
        """Logs the memory figures of frameworks; also called by the thread that does so for all
        runs."""
        if not channel or not self._watch or self._pid != os.getpid():
            return
        for device, figures in self._watch.read(gently).items():
            for text in _messages.logged({f"{device}/{name}": float(value) for name, value in figures.items()}):
                channel.notify(text)
                _enclosing.notify(text)

    def _edge(self, text: str) -> None:
        """Start or end of a phase. If peaks are exact, waits until the recorder has read main's
        high-water mark."""
        channel = self._channel
        self._read_frameworks(channel)
        if not self._is_exact or not channel or self._pid != os.getpid():
            self._notify(text)
            return
        _enclosing.notify(text)
        try:
            with _hwm_lock:
                if text.startswith("phase+"):
                    _read_hwms(self)
                channel.ask(text, EDGE_LIMIT_S)
        except Refused as e:
            self._warn(str(e))
        except (Late, Lost) as e:
            self._is_exact = False
            self._warn(f"peaks are not exact from here on: {e}")

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def _drop(self, name: str, text: str) -> None:
        """Warns that something the program logged was dropped, once a name. Says nothing where
        nothing is recorded."""
        if name in self._dropped or self._pid != os.getpid() or not (self._channel or _enclosing.name()):
            return
        self._dropped.add(name)
        self._warn(text)
        warn(text)


class Phase:
    """A part of a run: `with run.phase("epoch", epoch=3):`, or `@run.phase("load")` on a function.
    Each use is a separate phase."""

    def __init__(self, run: Optional[Run], name: str, facts: Mapping[str, Any], nvtx: bool = False) -> None:
        self._run = run  # None: the run that is innermost when the phase begins
        self._nvtx = nvtx
        self._inside = run
        self.name = _messages.text_of(name)[:PHASE_NAME_MOST] or "phase"
        self.facts = dict(facts)

    def __enter__(self) -> Phase:
        self._inside = self._run or _innermost()
        self._inside._edge(_messages.phase_begin(self.name, self.facts))
        if self._nvtx:
            from ._nvtx import push

            push(self.name)
        return self

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        run = self._inside or _innermost()
        if self._nvtx:
            from ._nvtx import pop

            pop()
        if value is not None:
            run.oom(value)
        run._edge(f"phase- {self.name}")

    def __call__(self, function: F) -> F:
        from ._wrap import wrap

        return wrap(function, lambda: Phase(self._run, self.name, self.facts, self._nvtx))


class Loader:
    """The result of `Run.wrap_loader`: measures iteration; all other attributes are those of the
    loader."""

    PERIOD_S = 0.1

    def __init__(self, run: Optional[Run], loader: Iterable[Any], prefix: str) -> None:
        self._run = run  # None: the run that is innermost at each value
        self._loader = loader
        self._names = (prefix + "data_wait", prefix + "step_time")

    def __iter__(self) -> Iterator[Any]:
        began = logged_at = time.perf_counter()
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
                if now - logged_at >= self.PERIOD_S:
                    self._log(waited, now - logged_at)
                    waited, logged_at = 0.0, now
                yield item
                began = time.perf_counter()
        finally:
            self._log(waited, time.perf_counter() - logged_at)

    def _log(self, waited: float, whole: float) -> None:
        (self._run or _innermost()).log({self._names[0]: waited, self._names[1]: whole})

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._loader, name)


def _print(text: str) -> None:
    """Prints on stderr; a closed stderr is ignored."""
    try:
        if sys.stderr:
            print(text, end="", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass


# ---- all runs of this process ----------------------------------------------------------------------------------------

_running: list[Run] = []
_enclosing_run: Optional[Run] = None  # a run without a recorder, which reaches the enclosing `hiwater run`, if any
_finished: list[Run] = []  # the last one
_finalizer_pid = 0  # the pid for which a multiprocessing finalizer is registered
_spare_lock = threading.RLock()
_hwm_lock = threading.RLock()  # held while the other runs read the high-water mark and one resets it


_last_with_spare: Optional[weakref.ref[Run]] = None  # the last run that may have a temporary recording to collect


def _newest() -> Optional[Run]:
    """Reads the list once: another thread may end the last run meanwhile."""
    for run in _running[-1:]:
        return run
    return None


def _innermost() -> Run:
    """The run that the module functions (`hiwater.log` and others) apply to."""
    global _enclosing_run
    newest = _newest()
    if newest:
        return newest
    if not _enclosing_run or _enclosing_run._pid != os.getpid():
        _enclosing_run = Run({})
        _enclosing_run._pid = os.getpid()
    return _enclosing_run


def _collect_previous_spare(now: Run) -> None:
    """Collects the recording of the previous run, so that unused run objects keep no descriptor
    open."""
    global _last_with_spare
    with _spare_lock:
        last, _last_with_spare = _last_with_spare() if _last_with_spare else None, weakref.ref(now)
    if last and last is not now:
        last._collect_spare()


def _read_all_frameworks() -> None:
    for run in list(_running):
        run._read_frameworks(run._channel)


_thread = _frameworks.Thread(_read_all_frameworks)


def _read_hwms(resetting: Run) -> None:
    """Lets every other run with exact peaks read the high-water mark before it is reset."""
    for other in list(_running):
        channel = other._channel
        if other is resetting or not channel or not other._is_exact:
            continue
        try:
            channel.ask("read", EDGE_LIMIT_S)
        except Error:
            other._is_exact = False


def _inert_run(options: Mapping[str, Any]) -> Run:
    run = Run(options)
    run._pid = -1
    return run


def _after_fork() -> None:
    global _hwm_lock, _spare_lock, _thread
    _hwm_lock, _spare_lock = threading.RLock(), threading.RLock()
    _thread = _frameworks.Thread(_read_all_frameworks)
    _running.clear()
    _finished.clear()


def _at_exit() -> None:
    """Ends runs that were left open, with their sinks."""
    kind = getattr(sys, "last_type", None)
    is_interrupted = isinstance(kind, type) and issubclass(kind, KeyboardInterrupt) and not hasattr(sys, "ps1")
    try:
        for run in list(reversed(_running)):
            if isinstance(kind, type) and not hasattr(sys, "ps1"):  # an exception ends the program
                run._raised(kind)
            run._stop(keeps_recording=False)
    finally:
        if is_interrupted:
            _interrupt_again()


def _interrupt_again() -> None:
    """CPython ends by SIGINT if the last source string that it executed was interrupted. Modules
    imported during exit execute source strings too (dataclasses); without this, a shell would not
    see the interrupt."""
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        pass


def _be_first_at_exit() -> None:
    """Registers _at_exit last, so that it runs first: experiment trackers end their runs at exit,
    and get the figures before."""
    import atexit

    atexit.unregister(_at_exit)
    atexit.register(_at_exit)


def _register_finalizer() -> None:
    """Processes of multiprocessing end without atexit; they need a finalizer."""
    global _finalizer_pid
    if _finalizer_pid == os.getpid():
        return
    _finalizer_pid = os.getpid()
    util: Any = sys.modules.get("multiprocessing.util")
    process: Any = sys.modules.get("multiprocessing.process")
    if util and process and process.parent_process() is not None:
        util.Finalize(None, _at_exit, exitpriority=0)


def _register_hooks() -> None:
    _be_first_at_exit()
    os.register_at_fork(after_in_child=_after_fork)


_register_hooks()

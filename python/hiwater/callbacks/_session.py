# SPDX-License-Identifier: MIT
"""The common part of all callbacks: a run, its phases, the duration of steps and their wait for
data."""
from __future__ import annotations

import functools
import time

from .._errors import Error
from .._feed import Feed
from .._run import Run, _running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, TypeVar

    from .._run import Phase
    from ..sinks import Sink

    F = TypeVar("F", bound=Callable[..., Any])
    T = TypeVar("T")

LOG_PERIOD_S = 0.1  # least time between two values of a series


def harmless(hook: F) -> F:
    """Makes a hook add exceptions to the run's warnings instead of raising them. KeyboardInterrupt
    passes through."""

    @functools.wraps(hook)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return hook(self, *args, **kwargs)
        except Exception as e:
            self.session.warn(f"{type(self).__name__}.{hook.__name__}: {type(e).__name__}: {e}")
            return None

    return wrapper  # type: ignore[return-value]


def numbers(values: Optional[Mapping[str, Any]]) -> Dict[str, float]:
    """The values that can be read without waiting: Python and NumPy numbers, and one-element
    tensors of the host. Reading a tensor of a device would wait for the device's queue."""
    return {str(name).replace(" ", "_").replace("=", "_"): float(value)
            for name, value in (values or {}).items() if _is_at_hand(value) and name != "step"}


def _is_at_hand(value: Any) -> bool:
    if isinstance(value, (bool, str)):
        return False
    if isinstance(value, (int, float)) or type(value).__module__ == "numpy":
        return getattr(value, "size", 1) == 1
    device = getattr(value, "device", None)
    return str(getattr(device, "type", "")) == "cpu" and value.numel() == 1


class Session:
    """One training, from start to end."""

    def __init__(self, run: Optional[Run], name: Optional[str], sinks: Iterable[Sink], every: float,
                 options: Mapping[str, Any]) -> None:
        self._given = run
        self._own = Run({**options, **({"name": name} if name else {})})
        self._sinks: List[Sink] = list(sinks)
        self._every = every
        self._is_own = False
        self._phases: List[Tuple[str, Phase]] = []
        self._figures = Feed(every)
        self._logged_at: Optional[float] = None           # when steps were last logged
        self._waiting_since: Optional[float] = None  # start of the wait for data
        self._waited, self._steps = 0.0, 0
        self.run: Run = run or self._own

    def __getstate__(self) -> Dict[str, Any]:
        """State for another process, in which nothing is measured or written to sinks."""
        return {**self.__dict__, "_sinks": [], "_phases": []}

    def warn(self, text: str) -> None:
        self.run._warn(text)

    # ---- start and end

    def begin(self) -> None:
        """Starts a training. First ends an earlier one that was cut off."""
        if self._is_own:
            self.end()
        running = [run for run in _running if run is not self._own]
        self._is_own = self._given is None and not running
        self.run = self._given or (self._own if self._is_own else running[-1])
        if self._is_own:
            self.run.start()
        self._figures = Feed(self._every)
        for sink in self._sinks:
            self.run.add_sink(sink, every=self._every)

    def end(self, exception: Optional[BaseException] = None) -> None:
        if exception is not None:
            (self.run._fail if self._is_own else self.run.oom)(exception)
        while self._phases:
            self.leave(self._phases[-1][0])
        self._log_steps()
        self._reset_steps()
        if self._is_own:
            self._is_own = False
            self.run.stop()
        for sink in self._sinks:
            self.run.remove_sink(sink)

    def enter(self, name: str, **facts: Any) -> None:
        self._phases.append((name, self.run.phase(name, **facts).__enter__()))

    def leave(self, name: str) -> None:
        """Leaves a phase, and those inside it that are still open."""
        while any(open_one == name for open_one, _ in self._phases):
            last, phase = self._phases.pop()
            phase.__exit__(None, None, None)
            if last == name:
                break
        self.pause()

    # ---- steps

    def step_begins(self) -> None:
        now = time.perf_counter()
        if self._waiting_since is not None:
            self._waited += now - self._waiting_since
        self._waiting_since = None
        if self._logged_at is None:
            self._logged_at = now

    def step_ends(self) -> None:
        """Ends a step; the wait for data begins."""
        self._waiting_since = now = time.perf_counter()
        self._steps += 1
        if self._logged_at is not None and now - self._logged_at >= LOG_PERIOD_S:
            self._log_steps()

    def pause(self) -> None:
        """Stops timing: the time that follows (validation, a checkpoint) is not a wait for data."""
        self._log_steps()
        self._reset_steps()

    def loop_begins(self) -> None:
        """Starts timing: the wait for the first batch begins."""
        self._reset_steps()
        self._logged_at = self._waiting_since = time.perf_counter()

    def log(self, values: Optional[Mapping[str, Any]], step: Optional[int] = None) -> None:
        found = numbers(values)
        if found:
            self.run.log(found, step=step)

    def figures(self, is_last: bool = False) -> Dict[str, float]:
        """Figures for the framework's own loggers; empty if they are not due."""
        return self._figures.due(self.run, is_last)

    def _log_steps(self) -> None:
        if self._logged_at is None or self._steps == 0:
            return
        now = time.perf_counter()
        waiting = now - self._waiting_since if self._waiting_since is not None else 0.0
        self.run.log({"data_wait": self._waited, "step_time": now - self._logged_at - waiting, "steps": self._steps})
        self._waited, self._steps, self._logged_at = 0.0, 0, now - waiting

    def _reset_steps(self) -> None:
        self._logged_at = self._waiting_since = None
        self._waited, self._steps = 0.0, 0


def epochs(count: int, loader: Iterable[T], *, run: Optional[Run] = None, name: Optional[str] = None,
           sinks: Iterable[Sink] = (), every: float = 10.0, **options: Any) -> Iterator[Tuple[int, Iterator[T]]]:
    """A plain training loop: each epoch is a phase, and the wait for its batches is measured.

        for epoch, batches in hiwater.callbacks.epochs(3, loader):
            for batch in batches:
                ...
    """
    session = Session(run, name, sinks, every, options)
    try:
        session.begin()
    except Error as e:
        session.warn(str(e))  # the training continues unmeasured
    try:
        for epoch in range(count):
            session.enter("epoch", epoch=epoch)
            yield epoch, _batches(session, loader)
            session.leave("epoch")
    except BaseException as e:
        session.end(e)
        raise
    session.end()


def _batches(session: Session, loader: Iterable[T]) -> Iterator[T]:
    session.loop_begins()
    for batch in loader:
        session.step_begins()
        yield batch
        session.step_ends()
    session.pause()

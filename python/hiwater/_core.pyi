# SPDX-License-Identifier: MIT
from typing import List, Optional, Sequence, Tuple, Union

_Number = Optional[float]
_Event = Tuple[int, int, int, int, int, Optional[int], Tuple[Optional[int], ...], Optional[str]]

class Pushes:
    """A bounded list of values and events that a program pushes (hwi_pushes in src/api/internal.h).
    whole: values are returned as integers. Raises ValueError for invalid arguments and rules."""

    def __new__(cls, series: Sequence[str], max_events: int, *, ratios: Sequence[Tuple[str, int, int]] = ...,
                changes: bool = False, samples: bool = False, every: bool = False, whole: bool = False) -> Pushes: ...
    def push(self, values: Sequence[_Number], mark: _Number = None, /) -> Tuple[int, int]:
        """Pushes a sample; None is unknown. Returns the number of the first event that it made
        (else of the next event), and a bit for each rule that made one."""
    def note(self, kind: int, text: Optional[str] = None, values: Optional[Sequence[_Number]] = None, tag: int = 0, /) -> None: ...
    def rules(self, rules: Sequence[str], /) -> None: ...
    def begin(self, values: Sequence[_Number], mark: _Number = None, /) -> None: ...
    def end(self) -> None: ...
    def clear(self) -> None: ...
    def read(self, kinds: int = 0, since_ns: int = 0, first: int = 0, last: int = 0) -> List[_Event]:
        """The events: time_ns, kind, rule, level, tag, change, values, text. kinds: a bit for each
        kind to return; 0: all."""
    def timeline(self, interval_ns: int, /) -> List[_Event]: ...
    def stats(self) -> Tuple[int, int, Tuple[int, ...], int, int, Tuple[Optional[int], ...], float, _Number, _Number]:
        """Number of events ever and kept; number of each kind; bytes risen and fallen; peaks;
        seconds between begin and end; rises per second and bytes risen per second of that time."""

def svg(path: str, series: Sequence[str], /) -> Tuple[str, str]:
    """A recording as a picture (hiwater export --to svg), and a line about the present use. Raises
    ValueError if it cannot be read or has no such series."""

def columns(uri: str, sql: str, /) -> List[Tuple[str, Union[memoryview, List[Optional[str]]]]]:
    """The result of a SELECT on a recording (an SQLite URI), by column: integers ("q") if all are
    known, else floats ("d") with NaN for unknown; texts as a list. Raises OSError."""

CAN_STAY: int  # 0: no intermediate process can stay on this architecture

def spawn(argv: List[bytes], environment: List[bytes], descriptors: Tuple[int, int, int, int], stays: bool, /) -> Tuple[int, int, int]:
    """Starts a command that is no child of this process (_core_spawn.h), in a session of its own.
    descriptors: its 0 to 3; -1 is /dev/null, for 2 that of this process. Returns the pid of the
    intermediate process and the address of its stack, for `reap`, and a descriptor to close after
    that; zeros and -1 if it has ended, as it always has without stays. Raises OSError."""

def reap(pid: int, stack: int, limit_ms: int, /) -> int:
    """Lets an intermediate process end after its command, and waits for it. Returns the exit status of its command, -1 if it still
    runs, -2 if it is no child of this process."""

# SPDX-License-Identifier: MIT
from typing import List, Optional, Sequence, Tuple, Union

_Number = Optional[float]
_Event = Tuple[int, int, int, int, int, Optional[int], Tuple[Optional[int], ...], Optional[str]]

class Pushes:
    """A bounded list of what a program tells of itself (hwi_pushes in src/api/internal.h). whole: values come back as whole numbers.
    Raises ValueError for what makes no sense, rules included."""

    def __new__(cls, series: Sequence[str], max_events: int, *, ratios: Sequence[Tuple[str, int, int]] = ...,
                changes: bool = False, samples: bool = False, every: bool = False, whole: bool = False) -> Pushes: ...
    def push(self, values: Sequence[_Number], mark: _Number = None, /) -> Tuple[int, int]:
        """None is unknown. The number of the first event that this made, or of the next one; bits of the rules that have one."""
    def note(self, kind: int, text: Optional[str] = None, values: Optional[Sequence[_Number]] = None, tag: int = 0, /) -> None: ...
    def rules(self, rules: Sequence[str], /) -> None: ...
    def begin(self, values: Sequence[_Number], mark: _Number = None, /) -> None: ...
    def end(self) -> None: ...
    def clear(self) -> None: ...
    def read(self, kinds: int = 0, since_ns: int = 0, first: int = 0, last: int = 0) -> List[_Event]:
        """time_ns, kind, rule, level, tag, change, values, text of each; kinds is a bit each."""
    def timeline(self, interval_ns: int, /) -> List[_Event]: ...
    def stats(self) -> Tuple[int, int, Tuple[int, ...], int, int, Tuple[Optional[int], ...], float, _Number, _Number]:
        """Events ever, kept; how many of each kind; risen, fallen; peaks; seconds between begin and end; allocations and their
        bytes a second of those."""

def svg(path: str, series: Sequence[str], /) -> Tuple[str, str]:
    """A recording as a picture (hiwater export --to svg), and a line about its present. Raises ValueError where it cannot be read or
    has no such series."""

def columns(uri: str, sql: str, /) -> List[Tuple[str, Union[memoryview, List[Optional[str]]]]]:
    """What a SELECT gives of a recording (a URI of SQLite's), by column: whole numbers ("q") where all are known, else floats
    ("d") with NaN for unknown; texts as a list. Raises OSError."""

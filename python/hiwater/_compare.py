# SPDX-License-Identifier: MIT
"""Several runs: compared, or on one page."""
from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Union

from ._command import output_of
from ._errors import ArgumentTypeError
from ._recording import Recording
from ._run import Run

Which = Union[str, int, "os.PathLike[str]", Run, Recording]


@dataclass(frozen=True)
class Compared:
    """One figure of one group of runs. Seconds, bytes, joules, ratios from 0 to 1. values: one a
    run, None is unknown; mean and deviation (standard, of several runs) over them.

    In every group but the first, compared with that: result is "differs" or "no-difference" (exact
    Mann-Whitney test, p above 0.05), "too-few-runs" or "single-runs" (no test), "unknown". order is
    "above" or "below" if every run lies on that side of every run of the first group, else
    "overlap". ratio is that of the means. runs_needed: about how many runs of each group would show
    a difference of this size.
    """

    group: str = ""
    n: int = 0
    mean: Optional[float] = None
    deviation: Optional[float] = None
    values: List[Optional[float]] = field(default_factory=list)
    result: Optional[str] = None
    order: Optional[str] = None
    difference: Optional[float] = None
    ratio: Optional[float] = None
    ratio_error: Optional[float] = None
    p: Optional[float] = None
    runs_needed: Optional[float] = None


class Comparison:
    """The result of `compare`. str() is the table that the command prints.

    conclusion    the result in one sentence
    groups        names of the groups; the first is the base
    figures       by key ("time.wall_s", "ram.combined.peak_bytes", "series.loss.last"): a `Compared` for each group
    differ        facts that are not equal in all runs: "hosts", "GPU drivers"
    """

    def __init__(self, words: List[str], by: Optional[str], kept: List[Any]) -> None:
        import json

        self._words = words
        self._by = [f"--by={by}"] if by else []
        self._kept = kept  # the temporary recordings of short runs are removed with their runs
        self._data: Dict[str, Any] = json.loads(self._output("--json"))
        self.conclusion: str = self._data["conclusion"]
        self.groups: List[str] = [group["name"] for group in self._data["groups"]]
        self.differ: List[str] = self._data["differ"]
        known = Compared.__dataclass_fields__
        self.figures: Dict[str, List[Compared]] = {
            figure["key"]: [Compared(group=name, **{k: v for k, v in cell.items() if k in known})
                            for name, cell in zip(self.groups, figure["groups"])] for figure in self._data["figures"]}

    def _output(self, *options: str) -> str:
        return output_of("compare", *options, *self._by, "--", *self._words)

    def to_dict(self) -> Dict[str, Any]:
        """The JSON of `hiwater compare --json`."""
        return self._data

    def to_pandas(self) -> Any:
        """A pandas.DataFrame with a row for each figure and group. Needs pandas. Raises Error."""
        from dataclasses import asdict

        from ._tables import pandas_for

        pandas = pandas_for("to_pandas", "figures has the same values")
        return pandas.DataFrame([{"figure": key, **asdict(cell)} for key, cells in self.figures.items() for cell in cells])

    def report(self, path: Union[str, os.PathLike[str], None] = None, *, redact: bool = False) -> str:
        """One page about these runs; see `report`."""
        return _page(self._words, path, redact)

    def __str__(self) -> str:
        return self._output().rstrip("\n")

    def __repr__(self) -> str:
        return f"<comparison of {', '.join(self.groups)}: {self.conclusion}>"

    def _repr_markdown_(self) -> str:
        return self._output("--md")


def _word(run: Which) -> str:
    if isinstance(run, Run):
        return run.recording.path
    if isinstance(run, Recording):
        return run.path
    if isinstance(run, (str, os.PathLike)):
        return os.fspath(run)
    import operator

    try:
        return str(operator.index(run))
    except TypeError:
        raise ArgumentTypeError(f"{run!r} is not a run: give a name, a number or a path, or an object of hiwater.track or hiwater.open") from None


def compare(*runs: Which, by: Optional[str] = None) -> Comparison:
    """Compares runs: names (all finished runs of that name in the history), numbers, paths, "last",
    and objects of `track` and `open`. Runs of one name are a group, and the first group is the
    base; each run counts as one value. With four runs or more in both groups a test decides whether
    a figure differs.

        print(hiwater.compare("base", "new"))
        hiwater.compare(run, other).conclusion

    by: heads for the parts of the groups' names, "model,data" for "mlp-original"; the text then has
    a row for each group and no test. Raises Error if there are fewer than two groups, or a run
    cannot be read.
    """
    if len(runs) < 2:
        raise ArgumentTypeError('compare needs at least two runs, for example compare("base", "new")')
    if by is not None and not isinstance(by, str):
        raise ArgumentTypeError(f"by={by!r}: give the heads as a string, such as by='model,data'")
    return Comparison([_word(run) for run in runs], by, list(runs))


def report(*runs: Which, path: Union[str, os.PathLike[str], None] = None, redact: bool = False) -> str:
    """Writes one self-contained HTML page about one run or several, aligned at their starts, and
    returns its path. Of a name, the latest run is taken; the default is the last run. Without path
    the page is named after the first recording, in the working folder. redact: omit user, host,
    commands, paths and names of processes. Raises Error."""
    return _page([_word(run) for run in runs], path, redact)


def _page(words: List[str], path: Union[str, os.PathLike[str], None], redact: bool) -> str:
    page = os.path.abspath(path) if path is not None else None
    written = output_of("report", *(["--redact"] if redact else []), *(["-o", page] if page else []), "--", *words)
    return page or os.path.abspath(written.strip())

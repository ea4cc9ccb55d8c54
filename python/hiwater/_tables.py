# SPDX-License-Identifier: MIT
"""Tables of a recording as pandas.DataFrames. No other module imports pandas or numpy."""
from __future__ import annotations

from importlib import import_module

from ._errors import Error, one_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

    from ._recording import Recording

    Columns = Dict[str, List[Any]]

JOINED = ("host", "job", "gpu")
NO_GPU = -1  # an id of no GPU: the table then has its columns and no rows
_FIXED = ("t_s", "time", "step")
_NOT_FIGURES = ("t_s", "span_s", "id", "gpu", "name")
LEAST_HOLD_S = 1.0
HOLD_INTERVALS = 3.5  # a value is valid until the next one, but for at most so many mean intervals


def pandas_for(what: str, instead: str) -> Any:
    try:
        return import_module("pandas")
    except ImportError as e:
        raise Error(f"{what} needs pandas: pip install pandas; {instead}") from e


def wall_clock(recording: Recording, pandas: Any, seconds: Any) -> Any:
    """Seconds since the start of the run as times of the wall clock, in UTC; NaT if its start is
    unknown. Times are read from one clock that never jumps; a wall clock that was set during the
    run differs from them afterwards."""
    started = recording.query("SELECT value FROM meta WHERE key = 'started_wall_ns'")[1]
    if not started or started[0][0] is None:
        return pandas.Series(pandas.NaT, index=getattr(seconds, "index", None), dtype="datetime64[ns, UTC]")
    return pandas.to_datetime((seconds * 1e9).round().astype("int64") + int(started[0][0]), unit="ns", utc=True)


def _logged(recording: Recording, numpy: Any) -> Tuple[Any, List[Optional[int]], Dict[str, Any]]:
    """The instants at which values were logged, the step of each, and the values of each series."""
    values = recording.columns("series")
    times = sorted(set(values["t_s"]))
    row = {t: i for i, t in enumerate(times)}
    steps: List[Optional[int]] = [None] * len(times)
    series: Dict[str, Any] = {}
    for t, name, step, value in zip(values["t_s"], values["name"], values["step"], values["value"]):
        column = series.setdefault(name, numpy.full(len(times), numpy.nan))
        column[row[t]] = numpy.nan if value is None else value
        steps[row[t]] = step if step is not None else steps[row[t]]
    return numpy.asarray(times), steps, series


def _known(columns: Columns, name: str, rows: List[int], numpy: Any) -> Tuple[Any, Any]:
    """Indexes of rows in which the column is known, and its values."""
    values = columns.get(name)
    found = [i for i in rows if values is not None and values[i] is not None]
    return numpy.asarray(found, dtype=int), numpy.asarray([values[i] for i in found] if values is not None else [], dtype=float)


def _last_before(times: Any, at: Any, values: Any, until: Any, numpy: Any) -> Any:
    """For each of times the last value at or before it, if that is still valid."""
    found = numpy.full(len(times), numpy.nan)
    if len(at):
        place = numpy.searchsorted(at, times, side="right") - 1
        valid = (place >= 0) & (times <= until[place])
        found[valid] = values[place[valid]]
    return found


def _figures(times: Any, samples: Columns, windows: Columns, entity_id: Optional[int], numpy: Any) -> Dict[str, Any]:
    """The figures of one entity at these times."""
    of = {kind: [i for i in range(len(columns["t_s"])) if entity_id is None or columns["id"][i] == entity_id]
          for kind, columns in (("samples", samples), ("windows", windows))}
    made = {}
    for name in samples:
        if name in _NOT_FIGURES:
            continue
        rows, values = _known(samples, name, of["samples"], numpy)
        at = numpy.asarray(samples["t_s"], dtype=float)[rows]
        hold = max(LEAST_HOLD_S, HOLD_INTERVALS * float(numpy.median(numpy.diff(at)))) if len(at) > 1 else LEAST_HOLD_S
        made[name] = _last_before(times, at, values, at + hold, numpy)
        rows, values = _known(windows, name, of["windows"], numpy)
        begin = numpy.asarray(windows["t_s"], dtype=float)[rows]
        older = _last_before(times, begin, values, begin + numpy.asarray(windows["span_s"], dtype=float)[rows], numpy)
        unknown = numpy.isnan(made[name])
        made[name][unknown] = older[unknown]
    return made


def _cores(recording: Recording, times: Any, numpy: Any) -> Any:
    """The CPUs in use between the two reads around each of times; shortly after the last read, those
    before it."""
    from ._plot import cores

    found = numpy.full(len(times), numpy.nan)
    for _, at, values in cores(recording):
        place = numpy.minimum(numpy.searchsorted(numpy.asarray(at), times, side="left"), len(at) - 1)
        valid = times <= at[-1] + LEAST_HOLD_S
        found[valid] = numpy.asarray(values, dtype=float)[place[valid]]
    return found


def joined(recording: Recording, entity: str) -> Any:
    """`Recording.joined`."""
    one_of("entity", entity, JOINED)
    pandas = pandas_for("joined", 'columns("series") and columns("job", rate="full") return the parts as lists')
    numpy: Any = import_module("numpy")
    times, steps, series = _logged(recording, numpy)
    samples, windows = recording.columns(entity, rate="full"), recording.columns(entity)
    fixed: Dict[str, Any] = {"t_s": times, "time": wall_clock(recording, pandas, times), "step": pandas.array(steps, dtype="Int64")}
    fixed.update({f"{name}_logged" if name in _FIXED else name: values for name, values in series.items()})
    ids: List[Optional[int]] = list(dict.fromkeys([*windows["id"], *samples["id"]])) if entity == "gpu" else [None]
    frames = []
    for entity_id in ids or [NO_GPU]:
        figures: Dict[str, Any] = {}
        if entity_id is not None:
            rows = list(zip(*([*windows[key], *samples[key]] for key in ("id", "gpu", "name"))))
            figures = next(({"gpu": gpu, "name": name} for i, gpu, name in rows if i == entity_id), {"gpu": None, "name": None})
        figures.update(_figures(times, samples, windows, entity_id, numpy))
        if entity == "job":
            figures["cores"] = _cores(recording, times, numpy)
        frames.append(pandas.DataFrame({**fixed, **{f"{name}_{entity}" if name in fixed else name: v for name, v in figures.items()}}))
    made = pandas.concat(frames).sort_values("t_s", kind="stable").set_index("t_s")
    return made if ids else made[:0]

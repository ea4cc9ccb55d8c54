# SPDX-License-Identifier: MIT
"""Results of analyses and comparisons: dataclasses of pandas objects, with their JSON and text."""
from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List

from ._pandas import pandas

STATISTICS = ["min", "max", "mean", "std"]


def summary_stats(data: Any) -> Any:
    """min, max, mean and std (of the population) of a Series, or a row of these for each column of
    a DataFrame."""
    values = {"min": data.min(), "max": data.max(), "mean": data.mean(), "std": data.std(ddof=0)}
    pd = pandas()
    return pd.Series(values, dtype=float) if isinstance(data, pd.Series) else pd.DataFrame(values).astype(float)


@dataclass
class CodeBlockResults:
    """Results of one code block.

    num_timepoints       number of rows of the tracking file during its calls
    num_calls            number of calls
    num_non_empty_calls  number of calls with at least one row
    compute_time         seconds: a Series of min, max, mean, std, total
    resource_usage       a DataFrame with a row per measurement, columns min, max, mean, std
    """

    name: str
    num_timepoints: int
    num_calls: int
    num_non_empty_calls: int
    compute_time: Any
    resource_usage: Any


@dataclass
class SubTrackingResults:
    """Results of a tracking session: overall, a DataFrame over all its timepoints; static_data, a
    Series; and each code block."""

    overall: Any
    static_data: Any
    code_block_results: List[CodeBlockResults]

    def to_json(self) -> Dict[str, Any]:
        """The same as nested dicts."""
        values = dataclasses.asdict(self)
        blocks = [{**block, "compute_time": block["compute_time"].to_dict(), "resource_usage": _rows_of(block["resource_usage"])}
                  for block in values["code_block_results"]]
        return {"overall": _rows_of(values["overall"]), "static_data": values["static_data"].to_dict(),
                "code_block_results": blocks}

    def __str__(self) -> str:
        return _text(dataclasses.asdict(self))


@dataclass
class ComparisonResults:
    """Comparison of sessions: Series with one value per session, smallest first, by measurement; by
    measurement and code block; by code block (seconds)."""

    overall_resource_usage: Dict[str, Any]
    code_block_resource_usage: Dict[str, Dict[str, Any]]
    code_block_compute_time: Dict[str, Any]

    def to_json(self) -> Dict[str, Any]:
        """The same as nested dicts."""
        as_dicts: Dict[str, Any] = _map_series(dataclasses.asdict(self), lambda series: series.to_dict())
        return as_dicts

    def __str__(self) -> str:
        return _text(dataclasses.asdict(self), frozenset(self.code_block_compute_time))


def _map_series(value: Any, change: Any) -> Any:
    if isinstance(value, dict):
        return {key: _map_series(item, change) for key, item in value.items()}
    return change(value)


def _rows_of(frame: Any) -> Dict[str, Any]:
    return {name: row.to_dict() for name, row in frame.iterrows()}


# ---- text ------------------------------------------------------------------------------------------------------------

def _text(values: Dict[str, Any], names: frozenset[str] = frozenset()) -> str:
    """The text of nested results. names: keys that are printed unchanged."""
    return "".join(_lines(values, "", names))


def _lines(values: Dict[str, Any], indent: str, names: frozenset[str]) -> Iterator[str]:
    labels = {key: indent + (key if key in names else key.replace("_", " ").title()) for key in values}
    width = max((len(label) for label in labels.values()), default=0)
    pd = pandas()
    for key, value in values.items():
        if isinstance(value, dict):
            yield f"{labels[key]}:\n"
            yield from _lines(value, indent + "\t", names)
        elif isinstance(value, list):
            yield f"{labels[key]}:\n"
            for item in value:
                yield from _lines(item, indent + "\t", names)
                yield "\n"
        elif isinstance(value, (pd.Series, pd.DataFrame)):
            yield f"{labels[key]}:\n"
            yield from (f"{indent}\t{line}\n" for line in _table(value).splitlines())
        else:
            shown = f"{value:.8f}" if isinstance(value, float) else value
            yield f"{labels[key]}:{' ' * (width - len(labels[key]))} {shown}\n"


def _table(value: Any) -> str:
    """The text of a table; a Series is a row without a name."""
    pd = pandas()
    if isinstance(value, pd.Series):
        value = value.to_frame().T
        value.index = [""]
    with pd.option_context("display.max_rows", None, "display.max_columns", None, "display.width", 5000,
                           "display.float_format", lambda x: f'{float(f"{x:.8f}")}'):
        return str(value)

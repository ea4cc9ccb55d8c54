# SPDX-License-Identifier: MIT
"""Comparison of tracking sessions."""
from __future__ import annotations

import logging
import pickle
from typing import IO, Any, Callable, Dict, List, Optional, Tuple

from ._analysis import STATISTICS, CodeBlockResults, ComparisonResults, SubTrackingResults
from ._pandas import pandas


class TrackingComparison:
    """Compares the results of tracking sessions, read from pickles of SubTrackingResults written by
    hiwater or by gpu-tracker. Code blocks are matched by name; those whose names end with a line
    number, by file and order.

    results_map   session: SubTrackingResults
    """

    def __init__(self, file_path_map: Dict[str, str]) -> None:
        """file_path_map: session name to path of its pickle. Raises ValueError if the code blocks
        do not match. Loading a pickle can run code: use only files that you trust."""
        if not file_path_map:
            raise ValueError("There is nothing to compare: the mapping of tracking session names to files is empty.")
        self.results_map: Dict[str, SubTrackingResults] = {}
        for name, path in file_path_map.items():
            with open(path, "rb") as file:
                self.results_map[name] = _Unpickler(file).load()
        self._name1 = min(self.results_map)
        for results in self.results_map.values():
            results.code_block_results = _sorted(results.code_block_results)
        for name in self.results_map:
            if name != self._name1:
                self._match(name)

    def _match(self, name2: str) -> None:
        first, second = (self.results_map[name].code_block_results for name in (self._name1, name2))
        if len(first) != len(second):
            raise ValueError(f"All sub-tracking results must have the same number of code blocks. The first has {len(first)} "
                             f'code blocks but tracking session "{name2}" has {len(second)} code blocks.')
        for a, b in zip(first, second):
            if a.name == b.name:
                continue
            (file_a, line_a), (file_b, line_b) = _split(a.name), _split(b.name)
            if line_a is None or line_b is None or file_a != file_b:
                raise ValueError(f'Code block name "{a.name}" of tracking session "{self._name1}" does not match code block name '
                                 f'"{b.name}" of tracking session "{name2}"')
            logging.warning(f'Code block name "{a.name}" of tracking session "{self._name1}" matched with code block name '
                            f'"{b.name}" of tracking session "{name2}" but they differ by line number. If these code blocks were '
                            "not meant to match, their comparison will not be valid and their names must be disambiguated.")

    def compare(self, statistic: str = "mean") -> ComparisonResults:
        """statistic: "min", "max", "mean" or "std"; otherwise raises ValueError. Needs pandas."""
        if statistic not in STATISTICS:
            raise ValueError(f"Invalid summary statistic '{statistic}'. Valid values are {' '.join(STATISTICS)}.")
        first = self.results_map[self._name1]
        overall: Dict[str, Any] = {}
        usage: Dict[str, Dict[str, Any]] = {}
        for measurement in first.overall.index:
            overall[measurement] = _side_by_side(
                {name: r.overall[statistic][measurement].item() for name, r in self.results_map.items()})
            if first.code_block_results:
                usage[measurement] = self._blocks(lambda block: block.resource_usage[statistic][measurement].item())
        times = self._blocks(lambda block: block.compute_time[statistic].item()) if first.code_block_results else {}
        return ComparisonResults(overall, usage, times)

    def _blocks(self, value_of: Callable[[CodeBlockResults], float]) -> Dict[str, Any]:
        made: Dict[str, Any] = {}
        for blocks in zip(*(r.code_block_results for r in self.results_map.values())):
            title = " -> ".join(sorted({block.name for block in blocks}))
            made[title] = _side_by_side({name: value_of(block) for name, block in zip(self.results_map, blocks)})
        return made


def _side_by_side(values: Dict[str, float]) -> Any:
    return pandas().Series(values).sort_values(ascending=True)


def _split(name: str) -> Tuple[str, Optional[int]]:
    """Splits FILE:LINE; the line is None if the name does not end with one."""
    file, colon, line = name.rpartition(":")
    try:
        return (file, int(line)) if colon else (name, None)
    except ValueError:
        return name, None


def _sorted(blocks: List[CodeBlockResults]) -> List[CodeBlockResults]:
    """Sorts by name, with line numbers compared as numbers."""
    width = max((len(b.name.rpartition(":")[2]) for b in blocks if _split(b.name)[1] is not None), default=0)

    def key(block: CodeBlockResults) -> str:
        file, line = _split(block.name)
        return block.name if line is None else f"{file}:{block.name.rpartition(':')[2].zfill(width)}"

    return sorted(blocks, key=key)


class _Unpickler(pickle.Unpickler):
    """Loads pickles of gpu-tracker as the classes of this package."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("sqlalchemy.sql.elements", "quoted_name"):  # gpu-tracker's type for column names from SQLite
            return _plain
        if module.split(".")[0] == "gpu_tracker":
            module = __package__ + module[len("gpu_tracker"):]
        return super().find_class(module, name)


def _plain(text: str, *_: object) -> str:
    return text

# SPDX-License-Identifier: MIT
"""The command gpu-tracker, also as `python -m hiwater.compat.gpu_tracker`."""
from __future__ import annotations

import json
import logging
import os
import pickle
import sys
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from ..._errors import Error
from .. import _job
from . import SubTrackingAnalyzer, Tracker, TrackingComparison
from ._commandline import COMMAND, TRACKER
from ._tracked import track

FORMATS: Dict[str, Callable[[Any], bytes]] = {
    "json": lambda result: json.dumps(result.to_json(), indent=1).encode(),
    "text": lambda result: str(result).encode(),
    "pickle": pickle.dumps,
}


def main(argv: Optional[List[str]] = None) -> int:
    """Runs the command line argv, by default that of sys.argv. Returns the exit status: that of the
    job, or 1."""
    words, options = COMMAND.parse(sys.argv[1:] if argv is None else argv)
    kind = options["--format"] or "text"
    if kind not in FORMATS:
        return _failed(f'"{kind}" is not a valid format. Valid values are "json" or "text".')
    try:
        return _WORK[words[-1] if words else "execute"](options, Output(str(kind), options["--output"]))
    except (ValueError, TypeError, KeyError, OSError, ImportError, RuntimeError, Error, pickle.UnpicklingError) as e:
        return _failed(str(e))


def _failed(why: str) -> int:
    logging.error(why)
    return 1


class Output:
    """Writes a result to a file, or to stdout."""

    def __init__(self, kind: str, path: Any) -> None:
        self._kind = kind
        self._path = path

    @property
    def is_for_programs(self) -> bool:
        """True if stdout is to be parsed, and must contain nothing else."""
        return self._path is None and self._kind != "text"

    def write(self, result: Any) -> None:
        content = FORMATS[self._kind](result)
        if self._path is not None:
            with open(self._path, "wb") as file:
                file.write(content)
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(content if self._kind == "pickle" else content + b"\n")
            sys.stdout.flush()


# ---- tracking --------------------------------------------------------------------------------------------------------

def _execute(options: Dict[str, Any], output: Output) -> int:
    """Checks all options before the command starts, so that a wrong option does not leave it
    running."""
    words = _job.words_of(options["--execute"])
    if not words:
        return _failed("Empty command provided.")
    _job.check_output(options["--output"])
    return track(lambda: Tracker(**_tracker_arguments(options)), words, output.is_for_programs, output.write)


def _tracker_arguments(options: Dict[str, Any]) -> Dict[str, Any]:
    arguments: Dict[str, Any] = _read_json(options["--tconfig"])
    if "process_id" in arguments:
        raise ValueError("process_id cannot be configured here: the process is that of the command")
    for option, (name, made) in TRACKER.items():
        if options[option]:
            arguments[name] = made(str(options[option]))
    if arguments.get("gpu_uuids") is not None:
        arguments["gpu_uuids"] = _uuids(arguments["gpu_uuids"])
    return arguments


def _uuids(value: Any) -> Set[str]:
    return set(value.split(",")) if isinstance(value, str) else set(value)


def _read_json(path: Optional[str]) -> Dict[str, Any]:
    if path is None:
        return {}
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds no JSON object")
    return content


# ---- sub-tracking ----------------------------------------------------------------------------------------------------

def _analyze(options: Dict[str, Any], output: Output) -> int:
    output.write(SubTrackingAnalyzer(options["--tf"], options["--stf"]).sub_tracking_results())
    return 0


def _combine(options: Dict[str, Any], output: Output) -> int:
    files = options["-p"]
    if len(files) == 1:
        files = sorted(os.path.join(files[0], name) for name in os.listdir(files[0]))
    SubTrackingAnalyzer(None, options["--stf"]).combine_sub_tracking_files(files)
    return 0


def _compare(options: Dict[str, Any], output: Output) -> int:
    config = _read_json(options["--cconfig"])
    files = {**config.get("file_path_map", {}), **dict(_mapping(text) for text in options["-m"])}
    if not files:
        return _failed("A mapping of tracking session name to file path must be provided either through the -m option or a "
                       "config file.")
    statistic = options["--stat"] or config.get("statistic") or "mean"
    output.write(TrackingComparison(files).compare(statistic))
    return 0


def _mapping(text: str) -> Tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals:
        raise ValueError(f"-m {text}: give a session's name and the path of its file, as NAME=PATH")
    return name, path


_WORK: Dict[str, Callable[[Dict[str, Any], Output], int]] = {
    "execute": _execute, "analyze": _analyze, "combine": _combine, "compare": _compare,
}

if __name__ == "__main__":
    sys.exit(_job.end_as(main()))

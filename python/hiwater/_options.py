# SPDX-License-Identifier: MIT
"""Translates keywords of `track` into options of `hiwater attach`."""
from __future__ import annotations

import os

from . import _enclosing
from ._errors import ArgumentTypeError, ArgumentValueError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping, Optional, Union


def is_exact(options: Mapping[str, Any]) -> bool:
    """True if the recorder may reset the kernel's high-water mark. By default not if a run encloses
    this process, because that run reads the mark too, and not for other processes."""
    exact = options.get("exact")
    if exact is not None:
        return bool(exact)
    return options.get("pid") in (None, os.getpid()) and _enclosing.name() is None


def span(value: Union[float, str]) -> str:
    """A time for the command, from seconds or a string such as "10ms"."""
    if isinstance(value, str):
        return value
    try:
        return f"{round(float(value) * 1e6)}us"
    except (TypeError, ValueError, OverflowError):  # also NaN and infinity
        raise ArgumentValueError(f"invalid time {value!r}: give seconds, or a string such as '10ms'") from None


def several(value: object) -> list[str]:
    """The values of an option that may be repeated, from a string or a list of strings."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, (list, tuple)):
        return [str(v) for v in value]
    raise ArgumentTypeError(f"invalid value {value!r}: give a string or a list of strings")


def window_of(window: Optional[str], steps: Optional[range]) -> str:
    """A window of a trace. Raises ArgumentTypeError or ArgumentValueError."""
    if (window is None) == (steps is None):
        raise ArgumentTypeError("give either a window or steps: run.trace(steps=range(10, 20)), run.trace('60s+5s')")
    if window is not None:
        return str(window)
    if not isinstance(steps, range):
        raise ArgumentTypeError(f"steps={steps!r}: give a range: run.trace(steps=range(10, 20))")
    if steps.step != 1 or not steps or steps[0] < 0:
        raise ArgumentValueError(f"steps={steps!r}: give steps one after the other, from 0 on: range(10, 20)")
    return f"steps={steps[0]}-{steps[-1]}"


def request(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [",".join(f"{k}={v}" for k, v in value.items())]
    raise ArgumentTypeError(f"invalid request {value!r}: give ram, cpus and time, as 'ram=16G,cpus=4' or a dict")


def _one(value: object) -> list[str]:
    return [str(value)]


NAME_MOST = 1000  # bytes of the name of a run


def _name(value: object) -> list[str]:
    size = len(str(value).encode(errors="replace"))
    if size > NAME_MOST:
        raise ArgumentValueError(f"the name of the run has {size} bytes; give one of at most {NAME_MOST}")
    return [str(value)]


def _file(value: Any) -> list[str]:
    return [file_pattern(os.fspath(value))]


def file_pattern(given: str) -> str:
    """The name, absolute, because the program may change its working directory; as it is if that folder was removed. %r and the like
    stand for something in what was given alone, and "DIR/" is a folder."""
    try:
        here = os.getcwd().replace("%", "%%")
    except OSError:
        return given
    path = os.path.normpath(os.path.join(here, given))
    return path + "/" if given.endswith("/") else path


def _span(value: Any) -> list[str]:
    return [span(value)]


def _trace(value: object) -> list[str]:
    if value is True:
        return [""]
    return [",".join(several(value))]


# Keyword: (option of hiwater attach, function that formats its value).
_OPTIONS = {
    "interval": ("--interval", _span),
    "name": ("-n", _name),
    "note": ("--note", _one),
    "output": ("--output", _file),
    "cgroup": ("--cgroup", _one),
    "gpu": ("--gpu", _one),
    "alert": ("--alert", several),
    "on_alert": ("--on-alert", several),
    "limit": ("--limit", several),
    "grace": ("--grace", _span),
    "request": ("--request", request),
    "print_every": ("--progress", _span),
    "trace": ("--trace", _trace),
    "trace_window": ("--trace-window", several),
    "where": ("--where", _trace),
    "units": ("--units", _one),
    "json": ("--json", _file),
    "summary_file": ("--summary-file", _file),
}
_FLAGS = {"pss": "--pss", "plain": "--plain", "_by_cell": "--by-cell"}
_OTHERS = {"pid", "record", "exact", "summary", "live", "strict"}


def arguments(options: Mapping[str, Any]) -> list[str]:
    """The arguments after `hiwater attach --control FD`. Raises ArgumentTypeError or
    ArgumentValueError."""
    made = ["--summary", "none"]
    for key, value in options.items():
        if key in _OPTIONS and value is not None and not (key in ("trace", "where") and value is False):
            option, write = _OPTIONS[key]
            for text in write(value):
                if text or key not in ("name", "trace", "where"):  # an empty name means no name
                    made.append(f"{option}{text}" if key == "name" else f"{option}={text}")
                elif key in ("trace", "where"):
                    made.append(option)
        elif key in _FLAGS and value:
            made.append(_FLAGS[key])
        elif key not in _OPTIONS and key not in _FLAGS and key not in _OTHERS:
            raise ArgumentTypeError(f"unknown option {key!r} of track; see help(hiwater.track)")
    if options.get("record") is False:
        made.append("--no-record")
    if is_exact(options):
        made.append("--exact")
    return [*made, "--", str(options.get("pid") or os.getpid())]

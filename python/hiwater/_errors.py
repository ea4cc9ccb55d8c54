# SPDX-License-Identifier: MIT
"""The exceptions of this package, and its warnings."""
from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable


class Error(Exception):
    """A request failed. The message states the failure, its cause and the remedy.

    Raised by `open` and the functions that read recordings, and by `track` with strict=True. An
    error about an invalid argument is a TypeError or a ValueError as well. A recorder that cannot be started, is lost or slow never raises into the
    measured program; `Run.warnings` reports it.
    """


class ArgumentValueError(Error, ValueError):
    """The value of an argument is invalid."""


class ArgumentTypeError(Error, TypeError):
    """There is no such argument, or it has the wrong type."""


def one_of(what: str, value: object, choices: Iterable[str]) -> str:
    """value, if it is one of choices. Raises ArgumentTypeError or ArgumentValueError."""
    known = tuple(choices)
    if isinstance(value, str) and value in known:
        return value
    kind = ArgumentValueError if isinstance(value, str) else ArgumentTypeError
    raise kind(f"unknown {what} {value!r:.100}; use one of {', '.join(known)}")


def warn(text: str) -> None:
    """Warns at the line of the program that called this package."""
    import warnings

    level, frame = 1, sys._getframe()
    while frame.f_back and str(frame.f_globals.get("__name__", "")).partition(".")[0] == __package__:
        level, frame = level + 1, frame.f_back
    try:
        warnings.warn(f"hiwater: {text}", RuntimeWarning, stacklevel=level)
    except Warning:  # the program has made it an error
        raise
    except Exception:  # such as ValueError where sys.stderr is closed: the program does not fail by a warning
        pass

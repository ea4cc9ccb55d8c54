# SPDX-License-Identifier: MIT
"""Messages to a recorder, within its size limit (src/source/process/user_events.h defines them)."""
from __future__ import annotations

from ._errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, Mapping, Optional

MESSAGE_MOST = 8192  # bytes
NAME_MOST = 1000  # bytes of the name of a series
STEP_MOST = 1 << 63
MARK_MOST = 4096  # bytes
MARK_TOO_LONG = (f"mark: the text is longer than the {MARK_MOST} bytes that a recording keeps, and was dropped; shorten it, or "
                 "write it to a file and mark the name of the file")
STEP_TOO_FAR = "log: a step that does not fit into 64 bits was dropped; the values are kept without it"
_ERRORS = (TypeError, ValueError, OverflowError)


def series_name(name: object) -> str:
    text = str(name)
    if not text or "=" in text or "\0" in text or any(c.isspace() for c in text) or text == "step":
        raise Error(f"invalid series name {text[:80]!r}: it must not be empty or 'step', nor contain blanks, '=' or NUL")
    if len(text.encode(errors="replace")) > NAME_MOST:
        raise Error(f"invalid series name '{text[:40]}...': it is longer than {NAME_MOST} bytes")
    return text


def number(name: object, value: Any) -> float:
    try:
        return float(value)
    except _ERRORS as e:
        kind = next(kind for kind in _ERRORS if isinstance(e, kind))
        raise kind(f"the value of {str(name)[:80]!r} is not a number: {e}") from e


def step_fits(step: int) -> bool:
    return -STEP_MOST <= step < STEP_MOST


def logged(values: Mapping[str, float], step: Optional[int] = None) -> Iterator[str]:
    """Yields as few messages as the values fit into, each with the step."""
    tail = "" if step is None else f" step={step}"
    room = MESSAGE_MOST - len("log" + tail)
    words: list[str] = []
    size = 0
    for name, value in values.items():
        word = f" {name}={value!r}"
        length = len(word.encode(errors="replace"))
        if size + length > room:
            yield "log" + "".join(words) + tail
            words, size = [], 0
        words.append(word)
        size += length
    if words or tail:
        yield "log" + "".join(words) + tail


def is_long_mark(text: str) -> bool:
    return len(text.encode(errors="replace")) > MARK_MOST

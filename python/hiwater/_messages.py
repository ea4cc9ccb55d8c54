# SPDX-License-Identifier: MIT
"""Messages to a recorder, within its size limit (src/source/process/user_events.h defines them)."""
from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, Mapping, Optional

MESSAGE_MOST = 8192  # bytes
NAME_MOST = 1000  # bytes of the name of a series
STEP_MOST = 1 << 63
MARK_MOST = 4096  # bytes
MARK_TOO_LONG = (f"mark: the text is longer than the {MARK_MOST} bytes that a recording keeps, and was dropped; shorten it, or "
                 "write it to a file and mark the name of the file")
STEP_TOO_FAR = "log: a step that does not fit into 64 bits was dropped; the values are kept without it"
FACT_MOST = 500   # characters of a fact of a phase
PHASE_MOST = 8000  # bytes of all its facts


def text_of(value: object) -> str:
    """str(value), on one line and without control characters; whatever str() raises, its type."""
    try:
        text = str(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


SHOWN_MOST = 40  # characters of a value in a warning


def shown(value: object) -> str:
    """The value for a warning: 'a', None, [1, 2]; of what has a long text, or none, the type."""
    kind = type(value).__name__
    if value is None or isinstance(value, (str, int, float, bytes, list, tuple, dict, set)):
        try:
            text = text_of(repr(value))
        except Exception:  # of an element
            text = ""
        if text and len(text) <= SHOWN_MOST:
            return text
    return f"{'an' if kind[:1].lower() in tuple('aeiou') else 'a'} {kind}"


def series_name(name: object) -> str:
    """The name as recorded. Raises ValueError for one that cannot be recorded."""
    text = text_of(name)
    if not text:
        raise ValueError("a name must not be empty")
    if len(text.encode(errors="replace")) > NAME_MOST:
        raise ValueError(f"a name must not be longer than {NAME_MOST} bytes")
    return text


def step_fits(step: int) -> bool:
    return -STEP_MOST <= step < STEP_MOST


def quoted(name: str) -> str:
    """The name of a series in a message: in quotes if it would be cut otherwise."""
    if not any(c in name for c in ' ="\\'):
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def logged(values: Mapping[str, float], step: Optional[int] = None) -> Iterator[str]:
    """Yields as few messages as the values fit into, each with the step."""
    tail = "" if step is None else f" step={step}"
    room = MESSAGE_MOST - len("log" + tail)
    words: list[str] = []
    size = 0
    for name, value in values.items():
        word = f" {quoted(name)}={value!r}"
        length = len(word.encode(errors="replace"))
        if size + length > room:
            yield "log" + "".join(words) + tail
            words, size = [], 0
        words.append(word)
        size += length
    if words or tail:
        yield "log" + "".join(words) + tail


def mark_text(value: object) -> str:
    """str(value), or text_of(value) if that raises or contains NUL, which would end it."""
    try:
        text = str(value)
    except Exception:
        return text_of(value)
    return text.replace("\0", " ")


def is_long_mark(text: str) -> bool:
    return len(text.encode(errors="replace")) > MARK_MOST


def phase_begin(name: str, facts: Mapping[str, object]) -> str:
    """The message; facts beyond its size are left out."""
    lines, size = [f"phase+ {name}"], 0
    for key, value in facts.items():
        line = f"{text_of(key) or '?'}={text_of(value)[:FACT_MOST]}"
        size += len(line.encode(errors="replace")) + 1
        if size <= PHASE_MOST - NAME_MOST:
            lines.append(line)
    return "\n".join(lines)

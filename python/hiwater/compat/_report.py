# SPDX-License-Identifier: MIT
"""Nested figures as gpu-tracker prints them: one per line, indented by three blanks, keys as words,
three decimals."""
from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator

_WORDS = {"n": "number of", "ram": "RAM", "gpu": "GPU", "gpus": "GPUs", "cpu": "CPU", "rss": "RSS"}


def as_text(values: Dict[str, Any]) -> str:
    return "\n".join(_lines(values, ""))


def _lines(values: Dict[str, Any], indent: str) -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield f"{indent}{_label(key)}:"
            yield from _lines(value, indent + "   ")
        else:
            yield f"{indent}{_label(key)}: {_scalar(value)}"


def _label(key: str) -> str:
    words = " ".join(_WORDS.get(word, word) for word in key.split("_"))
    return words[:1].upper() + words[1:]


def _scalar(value: object) -> str:
    if isinstance(value, float):
        return json.dumps(float(f"{value:.3f}"))
    return value if isinstance(value, str) else json.dumps(value)

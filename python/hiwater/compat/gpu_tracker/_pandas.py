# SPDX-License-Identifier: MIT
"""Imports pandas, which analysis of files needs and tracking does not."""
from __future__ import annotations

from importlib import import_module
from typing import Any


def pandas() -> Any:
    """The module. Raises ImportError with the remedy."""
    try:
        module: Any = import_module("pandas")
    except ImportError as e:
        raise ImportError("analysing and comparing tracking sessions needs pandas: pip install pandas "
                          "(tracking itself does not)") from e
    return module

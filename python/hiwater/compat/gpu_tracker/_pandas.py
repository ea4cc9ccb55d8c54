# SPDX-License-Identifier: MIT
"""pandas, where it is needed: for analysing files, not for tracking."""
from __future__ import annotations

from importlib import import_module
from typing import Any


def pandas() -> Any:
    """The module. Raises ImportError with what to do."""
    try:
        module: Any = import_module("pandas")
    except ImportError as e:
        raise ImportError("analysing and comparing tracking sessions needs pandas: pip install pandas "
                          "(tracking itself does not)") from e
    return module

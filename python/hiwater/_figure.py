# SPDX-License-Identifier: MIT
"""matplotlib's Figure, with a picture for notebooks that did not call %matplotlib. Only _plot
imports this module."""
from __future__ import annotations

import io
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_Figure: Any = import_module("matplotlib.figure").Figure


class Figure(_Figure):  # type: ignore[misc]
    """A figure that is shown as the last line of a cell."""

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        self.savefig(out, format="png")
        return out.getvalue()

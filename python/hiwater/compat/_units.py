# SPDX-License-Identifier: MIT
"""gpu-tracker's names of units, with their sizes in bytes or seconds. Decimal: a gigabyte is 1e9
bytes."""
from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict

BYTES = {"bytes": 1e0, "kilobytes": 1e3, "megabytes": 1e6, "gigabytes": 1e9, "terabytes": 1e12}
SECONDS = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "days": 86400.0}


def size_of(unit: str, units: Dict[str, float], kind: str) -> float:
    """The size of a unit. Raises ValueError for an unknown one; kind names the quantity in the
    message."""
    if unit not in units:
        raise ValueError(f'"{unit}" is not a valid {kind} unit. Valid values are {", ".join(sorted(units))}')
    return units[unit]

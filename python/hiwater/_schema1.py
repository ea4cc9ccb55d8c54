# SPDX-License-Identifier: MIT
"""Columns that recordings of schema 1 call otherwise (src/model/schema1.c has all names)."""
_RENAMED = {
    "cgroup_held_periods": "cgroup_throttled_periods",
    "foreign_mem": "other_mem",
    "gpu_mem_rest": "gpu_mem_descendants",
    "ram_rest": "ram_descendants",
    "ram_rest_high": "ram_descendants_high",
    "ram_rest_low": "ram_descendants_low",
}


def now(column: str) -> str:
    """The present name of a column of windows."""
    ending = column[-4:] if column.endswith(("_min", "_max")) else ""
    name = column[:len(column) - len(ending)]
    return _RENAMED.get(name, name) + ending

# SPDX-License-Identifier: MIT
"""python3 -m hiwater.collect DIR... --to FLEET: finished jobs as Parquet files (docs/fleet.md)."""
from __future__ import annotations

import sys

from ._collect import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

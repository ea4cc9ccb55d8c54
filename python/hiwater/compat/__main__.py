# SPDX-License-Identifier: MIT
"""`python -m hiwater.compat bin [gpu_tracker|gpu_tracker_2]`: prints a folder for the PATH with a
program gpu-tracker.

    export PATH="$(python -m hiwater.compat bin):$PATH"

The folder is in the user's cache and is specific to this interpreter and package, so that the
original package may be installed at the same time.
"""
from __future__ import annotations

import sys
from typing import List, Optional

from ._bin import PACKAGES, folder

USAGE = f"usage: python -m hiwater.compat bin [{'|'.join(PACKAGES)}]"


def main(argv: Optional[List[str]] = None) -> int:
    """Returns 0; 1 if the folder cannot be made; 2 for a wrong command line."""
    words = sys.argv[1:] if argv is None else argv
    if words in (["-h"], ["--help"]):
        print(f"{USAGE}\n\nPrints a folder for the PATH with the program gpu-tracker, measured by hiwater: gpu-tracker 5 (gpu_tracker,\n"
              "the default) or gpu-tracker 2 (gpu_tracker_2).")
        return 0
    if not words or words[0] != "bin" or len(words) > 2 or not set(words[1:]) <= set(PACKAGES):
        print(USAGE, file=sys.stderr)
        return 2
    try:
        print(folder(*words[1:]))
    except OSError as e:
        print(f"python -m hiwater.compat: the folder cannot be made: {e}; set XDG_CACHE_HOME to a writable folder",
              file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

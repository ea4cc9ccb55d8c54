# SPDX-License-Identifier: MIT
"""Replacements of other packages, name for name, measured by hiwater: only the import changes
(docs/compat.md).

    import hiwater.compat.gpu_tracker as gput       # gpu-tracker 5
    import hiwater.compat.gpu_tracker_2 as gput     # gpu-tracker 2, the Tracker of its paper

`python -m hiwater.compat bin` prints a folder with their commands, to put on the PATH.
"""

# SPDX-License-Identifier: MIT
"""Other packages, name for name, measured by hiwater: change one import and nothing else (docs/compat.md).

    import hiwater.compat.gpu_tracker as gput       # gpu-tracker 5
    import hiwater.compat.gpu_tracker_2 as gput     # gpu-tracker 2, the Tracker of its paper

`python -m hiwater.compat bin` prints a folder for the PATH with their commands.
"""

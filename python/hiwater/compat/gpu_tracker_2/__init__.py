# SPDX-License-Identifier: MIT
"""Replacement of gpu-tracker 2.0.1, the Tracker of its paper (arXiv 2404.01473), measured by
hiwater: only the import changes (`import hiwater.compat.gpu_tracker_2 as gput`). docs/compat.md
lists the differences and the reasons."""
from ._version import version as __version__
from .tracker import Tracker

__all__ = ["Tracker", "__version__"]

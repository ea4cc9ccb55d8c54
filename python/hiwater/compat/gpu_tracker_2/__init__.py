# SPDX-License-Identifier: MIT
"""gpu-tracker 2.0.1 by name, the Tracker of its paper (arXiv 2404.01473), measured by hiwater:
`import hiwater.compat.gpu_tracker_2 as gput` and nothing else changes. docs/compat.md has what is told differently, and why."""
from ._version import version as __version__
from .tracker import Tracker

__all__ = ["Tracker", "__version__"]

# SPDX-License-Identifier: MIT
"""gpu-tracker 5.0.1 by name, measured by hiwater: `import hiwater.compat.gpu_tracker as gput` and nothing else changes.

What is told differently, because gpu-tracker's own way gets it wrong, is listed in docs/compat.md with the reasons.
"""
from ._version import version as __version__
from .sub_tracker import SubTracker, SubTrackingAnalyzer, TrackingComparison, sub_track
from .tracker import Tracker

__all__ = ["SubTracker", "SubTrackingAnalyzer", "Tracker", "TrackingComparison", "__version__", "sub_track"]

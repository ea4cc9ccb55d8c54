# SPDX-License-Identifier: MIT
"""Replacement of gpu-tracker 5.0.1, measured by hiwater: only the import changes (`import
hiwater.compat.gpu_tracker as gput`).

docs/compat.md lists the figures that differ because gpu-tracker's are wrong, with the reasons.
"""
from ._version import version as __version__
from .sub_tracker import SubTracker, SubTrackingAnalyzer, TrackingComparison, sub_track
from .tracker import Tracker

__all__ = ["SubTracker", "SubTrackingAnalyzer", "Tracker", "TrackingComparison", "__version__", "sub_track"]

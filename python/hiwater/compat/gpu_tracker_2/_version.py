# SPDX-License-Identifier: MIT
"""The version of gpu-tracker that this package replaces."""
__version__ = version = "2.0.1"
__version_tuple__ = version_tuple = (2, 0, 1)

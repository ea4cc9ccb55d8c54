# SPDX-License-Identifier: MIT
"""Fixtures for the tests of hiwater gpus."""
from gpus_command import cards  # noqa: F401  (a fixture)

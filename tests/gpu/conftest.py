# SPDX-License-Identifier: MIT
"""What the tests of hiwater gpus get."""
from gpus_command import cards  # noqa: F401  (a fixture)

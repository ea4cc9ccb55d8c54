# SPDX-License-Identifier: MIT
"""Fixtures of all tests of the package."""
import pytest
from track_helpers import Program


@pytest.fixture
def program(tmp_path):
    made = Program(tmp_path)
    yield made
    made.end_all()

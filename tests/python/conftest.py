# SPDX-License-Identifier: MIT
"""What every test of the package gets."""
import pytest
from track_helpers import Program


@pytest.fixture
def program(tmp_path):
    made = Program(tmp_path)
    yield made
    made.end_all()

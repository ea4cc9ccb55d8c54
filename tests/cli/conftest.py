# SPDX-License-Identifier: MIT
"""What every test of the command gets."""
import pytest
from cli_helpers import Tool


@pytest.fixture
def tool(tmp_path):
    made = Tool(tmp_path)
    yield made
    made.end_all()

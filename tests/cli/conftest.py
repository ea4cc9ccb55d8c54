# SPDX-License-Identifier: MIT
"""What every test of the command gets."""
import pytest
import stress_jobs
from cli_helpers import Tool


@pytest.fixture
def tool(tmp_path):
    made = Tool(tmp_path)
    yield made
    made.end_all()


@pytest.fixture(scope="session")
def stress_program(tmp_path_factory):
    return stress_jobs.compile_stress(tmp_path_factory.mktemp("stress"))


@pytest.fixture
def stress(tool, stress_program):
    """Starts jobs of stress.c."""
    return stress_jobs.Stress(tool, stress_program)

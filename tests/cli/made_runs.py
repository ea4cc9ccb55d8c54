# SPDX-License-Identifier: MIT
"""A history of runs with figures of a test's choice: copies of one measured run, whose values are then
replaced. A test imports `real`, the measured run, and derives its own class from MadeRuns."""
import pytest
from cli_helpers import Tool


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    tool = Tool(tmp_path_factory.mktemp("real"))
    done = tool.run("run", "--summary", "none", "-o", "run.hiw", "--gpu=none", "--", "sleep", "1.2")
    assert done.returncode == 0, done.stderr
    yield tool.folder / "run.hiw"
    tool.end_all()


class MadeRuns:
    """Writes runs into a history that only this test uses."""

    def __init__(self, tool, real):
        self.tool, self.real, self.number = tool, real, 0
        tool.history.mkdir(mode=0o700)

    def copy(self):
        """The next run of the history, as it was measured."""
        self.number += 1
        path = self.tool.history / f"{self.number}.hiw"
        assert self.tool.run("show", "--copy", path, self.real).returncode == 0
        return path

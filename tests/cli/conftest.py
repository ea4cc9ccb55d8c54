# SPDX-License-Identifier: MIT
"""What every test of the command gets."""
import os
import pathlib
import subprocess

import pytest
import stress_jobs
from cli_helpers import Tool, wait_for
from gpu_jobs import gpu  # noqa: F401  (a fixture)
from top_screen import recording, screen, sleeper  # noqa: F401  (fixtures)


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


@pytest.fixture(scope="session")
def recorded(tmp_path_factory, stress_program):
    """One run for all tests that only look at it."""
    return stress_jobs.wave(tmp_path_factory.mktemp("recorded"), stress_program)


@pytest.fixture
def memory_cgroup():
    """A memory cgroup (v1) of its own; gone afterwards."""
    root = pathlib.Path("/sys/fs/cgroup/memory")
    if not (root / "memory.limit_in_bytes").exists() and not list(root.glob("*/memory.limit_in_bytes")):
        pytest.skip("no cgroup v1 memory controller")
    own = next(l.split(":", 2)[2] for l in pathlib.Path("/proc/self/cgroup").read_text().splitlines() if ":memory:" in l)
    group = root / own.lstrip("/") / f"hiwater-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("not allowed to make a cgroup")
    yield group
    wait_for(lambda: not (group / "cgroup.procs").read_text(), "the cgroup is empty")
    group.rmdir()


@pytest.fixture
def small_disk(tmp_path):
    """Makes a file system of so many bytes."""
    stress_jobs.root_only()
    made = []

    def make(size, *options):
        where = tmp_path / f"disk{len(made)}"
        where.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join([f"size={size}", "mode=777", *options]), "none", where],
                          check=False, capture_output=True).returncode:
            pytest.skip("not allowed to mount")
        made.append(where)
        return where

    yield make
    for where in made:
        subprocess.run(["umount", "-l", where], check=True)

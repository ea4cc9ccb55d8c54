# SPDX-License-Identifier: MIT
"""What `make install` puts there is whole: the command goes, and a program is built on the library as its header says."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("HIWATER_BUILD", ROOT / "build")).resolve()
MESON = pathlib.Path(sys.executable).with_name("meson")

pytestmark = pytest.mark.release  # a sanitizer's library wants a program of its own kind


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([MESON, "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", folder], check=True)
    return folder


def test_the_command_where_it_is_installed(installed):
    [command] = installed.rglob("bin/hiwater")
    told = subprocess.run([command, "run", "--summary=line", "--no-record", "--", "true"], capture_output=True, text=True)
    assert told.returncode == 0 and "ram" in told.stderr.lower(), told


def test_the_example_on_the_installed_library(installed, tmp_path):
    """By pkg-config and nothing else, and without warnings."""
    [described] = installed.rglob("hiwater.pc")
    env = dict(os.environ, PKG_CONFIG_PATH=str(described.parent), PKG_CONFIG_SYSROOT_DIR=str(installed))
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "hiwater"], env=env, check=True, capture_output=True, text=True)
    program = tmp_path / "peak"
    built = subprocess.run([shutil.which("cc"), "-Wall", "-Wextra", "-Werror", ROOT / "examples" / "peak.c", "-o", program, *flags.stdout.split()],
                           capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    hold = "import mmap; m = mmap.mmap(-1, 200 << 20); [m.__setitem__(i, 1) for i in range(0, len(m), 4096)]"
    told = subprocess.run([program, sys.executable, "-c", hold], env=dict(os.environ, LD_LIBRARY_PATH=str(described.parent.parent)),
                          capture_output=True, text=True)
    assert told.returncode == 0, told
    [mib] = [float(word) for word in (told.stdout + told.stderr).split() if word.replace(".", "").isdigit()][:1]
    assert 200 <= mib <= 230, told


def would(*more):
    """What `make install` would do."""
    env = {name: value for name, value in os.environ.items() if name not in ("PREFIX", "DESTDIR", "MAKEFLAGS", "MAKELEVEL")}
    return subprocess.run(["make", "-n", "install", f"BUILD={BUILD}", *more], cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout


def test_the_loader_learns_of_the_library():
    assert "ldconfig" in would()
    assert "ldconfig" not in would("DESTDIR=/elsewhere")


def test_a_prefix_asked_for_late_holds():
    """`make`, then `make install PREFIX=...`: where the folder was set up for another one."""
    assert "--prefix=/opt/elsewhere" in would("PREFIX=/opt/elsewhere")
    assert "--prefix" not in would()

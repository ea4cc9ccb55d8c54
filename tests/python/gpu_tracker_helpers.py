# SPDX-License-Identifier: MIT
"""Runs programs and command lines for gpu-tracker on hiwater.compat instead, and helps to compare
their output."""
import os
import re
import subprocess
import sys

from track_helpers import ROOT

sys.path.insert(0, str(ROOT / "python"))  # for tests that import the package themselves

GOLDEN = ROOT / "tests" / "golden"
NUMBER = r"(?<![\w.])-?\d+(\.\d+)?(e[-+]?\d+)?(?![\w.])"


def masked(text):
    """Replaces numbers by N, and the blanks whose number depends on them in tables of pandas."""
    text = re.sub(NUMBER, "N", text)
    return "\n".join(re.sub(r"(?<=\S) {2,}", " ", line) if "N" in line else line for line in text.splitlines())


def golden(name):
    return (GOLDEN / name).read_text()


class Commands:
    """Runs gpu-tracker command lines in a folder, with the command of hiwater.compat.MODULE or with
    a program, in `environment`."""

    def __init__(self, folder, environment, module="gpu_tracker", program=None):
        self.folder = folder
        self.environment = {**environment, "PYTHONWARNINGS": "error"} if program is None else environment
        self.command = [program] if program else [sys.executable, "-m", f"hiwater.compat.{module}"]

    def start(self, *arguments, prefix=(), **options):
        return subprocess.Popen([*map(str, prefix), *map(str, self.command), *map(str, arguments)], cwd=self.folder,
                                env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, **options)

    def run(self, *arguments, **options):
        """status, stdout, stderr"""
        process = self.start(*arguments, **options)
        stdout, stderr = process.communicate(timeout=100)
        return process.returncode, stdout, stderr

    def ok(self, *arguments, **options):
        """The stdout of a command that must end with 0 and print nothing on stderr except the
        warning about a missing GPU."""
        status, stdout, stderr = self.run(*arguments, **options)
        left = [line for line in stderr.splitlines() if not line.startswith(("WARNING:root:Neither", "Resource tracking complete"))]
        assert (status, left) == (0, []), stderr
        return stdout


def without_gpus():
    """A PATH without nvidia-smi, even if the machine has it."""
    return {**os.environ, "PATH": os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep)
                                                  if not os.path.exists(os.path.join(p, "nvidia-smi")))}

# SPDX-License-Identifier: MIT
"""Runs programs with the fake drivers of tests/fake. HIWATER_BUILD is the build folder (default: build/)."""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("HIWATER_BUILD", ROOT / "build")).resolve()
DRIVERS = BUILD / "tests" / "fake" / "drivers"
SCENARIOS = ROOT / "tests" / "fake" / "scenarios"
LEVELS = ("450", "470", "535.43", "535.98", "535.104", "550", "580", "615")


def value_of(scenario, key):
    """The value of a key in a scenario, or in the last file that it includes; None: not set."""
    found = None
    for line in pathlib.Path(scenario).read_text().splitlines():
        name, _, value = (part.strip() for part in line.partition("#")[0].partition("="))
        if name == "include":
            found = value_of(pathlib.Path(scenario).parent / value, key) or found
        elif name == key:
            found = value
    return found


def level_of(scenario):
    """The driver that a scenario is for; None: any."""
    return value_of(scenario, "level")


class Fake:
    """A driver with a scenario: the name of one of tests/fake/scenarios, or its text."""

    def __init__(self, folder, scenario, level=None):
        self.scenario = SCENARIOS / f"{scenario}.conf"
        if "\n" in scenario:
            self.scenario = folder / "scenario.conf"
            self.scenario.write_text(scenario)
        self.level = level or level_of(self.scenario) or "550"

    def environment(self, time=None, pid=None, log=None):
        """Environment in which a program finds the fake driver, and the fake DCGM if the scenario has an engine."""
        folders = [DRIVERS / self.level, *([DRIVERS / "dcgm"] if value_of(self.scenario, "engine") else [])]
        env = {"LD_LIBRARY_PATH": ":".join(map(str, folders)), "HIWATER_FAKE_NVML": str(self.scenario)}
        for name, value in (("TIME", time), ("PID", pid), ("LOG", log)):
            env |= {f"HIWATER_FAKE_{name}": str(value)} if value is not None else {}
        return env

    def run(self, *command, **moment):
        """The standard output of a command that must succeed."""
        done = self.run_any(*command, **moment)
        assert done.returncode == 0, f"{command[0]}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def run_any(self, *command, **moment):
        return subprocess.run([str(c) for c in command], env={**os.environ, **self.environment(**moment)},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)

    def python(self, code, **moment):
        """The value of `answer` after running code with nvidia-ml-py as `nvml`, initialised."""
        text = f"import json, pynvml as nvml\nnvml.nvmlInit()\n{code}\nprint(json.dumps(answer))"
        return json.loads(self.run(sys.executable, "-c", text, **moment))

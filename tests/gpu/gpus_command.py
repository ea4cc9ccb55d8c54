# SPDX-License-Identifier: MIT
"""Shared by the tests of hiwater gpus: the command with a fake driver, and a driver with two cards."""
import json
import os
import pathlib
import subprocess

import jsonschema
import pytest
from fake_gpu import BUILD, ROOT, SCENARIOS, Fake

HIWATER = pathlib.Path(os.environ.get("HIWATER", BUILD / "hiwater")).resolve()
TREES = ROOT / "tests" / "trees"
SCHEMA = json.loads((ROOT / "docs" / "gpus.schema.json").read_text())
MIB = 1 << 20
NO_GPU, NO_DRIVER, LOST, SILENT = 6, 9, 15, 124
NO_GPM = "[call nvmlGpm*]\nerror = 3\n"  # it has no values while time does not advance
CARDS = """
[driver]
version = {level}.1
[gpu 0-1]
include = {cards}/h100.conf
util = 92
temperature = 70
fan = 33
[gpu 1]
util = 55
[process 0]
pid = $HIWATER_FAKE_PID
memory = 4321Mi
sm = 44
[process 0]
pid = 4000001
memory = 17Mi
lists = compute graphics
"""


@pytest.fixture
def cards(tmp_path):
    """Makes the driver of a level with two cards and two processes, one of which does not exist."""
    return lambda level="580", more="": Fake(tmp_path, CARDS.format(level=level, cards=SCENARIOS / "cards") + more, level)


def run(fake, *options, status=0, time=15, pid=None, **env):
    moment = fake.environment(time=time, pid=pid or os.getpid())
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("CUDA_", "HIWATER_"))}
    done = subprocess.run([HIWATER, "gpus", *map(str, options)], env={**plain, **moment, **env}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done


def as_json(fake, *options, **more):
    shown = json.loads(run(fake, "--json", *options, **more).stdout)
    jsonschema.validate(shown, SCHEMA)
    return shown

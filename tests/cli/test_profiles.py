# SPDX-License-Identifier: MIT
"""Every profile of a driver (tests/fake/scenarios): doctor lists what it listed before, a run has what doctor promises and
nothing else, and what the driver does not tell is nowhere a zero.

tests/golden/doctor-fake-NAME.txt lists the metrics of GPUs that a profile must have. UPDATE_GOLDEN=1 writes them anew."""
import contextlib
import json
import os
import pathlib
import sqlite3
import subprocess
import sys

import pytest
from cli_helpers import HIWATER, ROOT
from stress_jobs import BUILD

sys.path.insert(0, str(ROOT / "tests" / "gpu"))
from fake_gpu import SCENARIOS, level_of, value_of  # noqa: E402

GOLDEN = ROOT / "tests" / "golden"
NONE = {"costs", "eight", "hang"}  # parts of others, for benchmarks, and one that never answers
PROFILES = sorted(p.stem for p in SCENARIOS.glob("*.conf") if p.stem not in NONE)
# What doctor promises and a short run of nobody who computes does not show.
NOT_SHOWN = {
    "cuda": {"gpu_process.mem"},  # nobody is on the fake CUDA
    "gb10": {"gpu.unattributed_mem"},  # of memory that is the host's nobody can say what is left over
    "no-permission": {"gpu_process.mem"},  # nobody is on the device that may be opened
    "wsl": {"gpu.other_mem", "gpu.unattributed_mem", "gpu_process.mem"},  # those who are listed hold an unknown amount
}
QUICK = {"dcgm", "driver-450", "gpm", "mig", "vgpu"}


def environment(tool, profile):
    scenario = SCENARIOS / f"{profile}.conf"
    drivers = BUILD / "tests" / "fake" / "drivers"
    engine = value_of(scenario, "engine")
    folders = [drivers / (level_of(scenario) or "550"), *([drivers / "dcgm"] if engine else [])]
    return tool.env | {"LD_LIBRARY_PATH": ":".join(map(str, folders)), "HIWATER_FAKE_NVML": str(scenario),
                       "HIWATER_FAKE_PID": str(os.getpid()), **({"HIWATER_DCGM_ENGINE": engine} if engine else {})}


def promised(env):
    """Metrics of devices and processes on them by what doctor says, with the reasons of those that cannot be had."""
    done = subprocess.run([HIWATER, "doctor", "--json"], env=env, capture_output=True, text=True, timeout=60, check=True)
    rows = {f"{m['entity']}.{m['metric']}": m for m in json.loads(done.stdout)["metrics"] if m["entity"].startswith("gpu")}
    assert all(m["available"] or m["why_not"] for m in rows.values())
    return {name for name, m in rows.items() if m["available"]}


def recorded(tool, env):
    """Metrics that have a value anywhere in a recording; and the summary."""
    command = [HIWATER, "run", "--summary", "none", "--json", "run.json", "-o", "run.hiw", "--", "sleep", "2.6"]
    subprocess.run(command, env=env, cwd=tool.folder, timeout=60, check=True)
    found = set()
    with contextlib.closing(sqlite3.connect(tool.folder / "run.hiw")) as db:
        metrics = {f"{entity}.{name}" for entity, name in db.execute("SELECT entity, name FROM metric")}
        for entity in ("gpu", "gpu_process"):
            for table in (f"{entity}_sample", f"{entity}_recent"):
                for column in {row[1] for row in db.execute(f"PRAGMA table_info({table})")}:
                    if f"{entity}.{column}" in metrics and db.execute(f'SELECT count("{column}") FROM {table}').fetchone()[0]:
                        found.add(f"{entity}.{column}")
    return found, json.loads((tool.folder / "run.json").read_text())


@pytest.mark.parametrize("profile", PROFILES)
def test_doctor_loses_nothing(tool, profile):
    has = promised(environment(tool, profile))
    golden = GOLDEN / f"doctor-fake-{profile}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text("".join(f"{name}\n" for name in sorted(has)), encoding="utf-8")
    must = set(golden.read_text(encoding="utf-8").split())
    assert not must - has
    assert bool(must) == (profile not in ("mismatch", "no-driver"))


def test_energy_without_a_counter(tool):
    """Power over time is said to be that, and a single look has none of it: not nothing."""
    env = environment(tool, "wsl")
    found, summary = recorded(tool, env)
    shown = json.loads(subprocess.run([HIWATER, "show", "--json", "run.hiw"], cwd=tool.folder, env=env, capture_output=True, timeout=60, check=True).stdout)
    for device in (summary["gpu"]["devices"][0], shown["gpu"]["devices"][0]):
        assert device["energy_source"] == "power over time" and device["energy_j"] > 0
    done = subprocess.run([HIWATER, "gpus", "--json"], env=env, capture_output=True, timeout=60, check=True)
    device = json.loads(done.stdout)["devices"][0]
    assert device["power_w"]["now"] > 0 and device["energy_j"] is None


@pytest.mark.parametrize("profile", [p if p in QUICK else pytest.param(p, marks=pytest.mark.full) for p in PROFILES])
def test_a_run_has_what_doctor_promises_and_nothing_else(tool, profile):
    env = environment(tool, profile)
    has = promised(env)
    found, summary = recorded(tool, env)
    assert has - found <= NOT_SHOWN.get(profile, set())
    assert not found - has
    used = [d["utilization"] for d in summary["gpu"]["devices"]] if summary["gpu"] else []
    for metric, key in {"sm_active": "sm_active_mean", "dram_active": "dram_active_mean", "busy": "gpu_mean"}.items():
        assert any(u[key] is not None for u in used) == (f"gpu.{metric}" in found)

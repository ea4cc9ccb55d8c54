# SPDX-License-Identifier: MIT
"""Runs on an H100 as it answered (tests/fake/scenarios/h100): what its calls cost must not falsify a figure."""
import json

import pytest
from cli_helpers import ROOT
from stress_jobs import BUILD

H100 = ROOT / "tests" / "fake" / "scenarios" / "h100"
MIB = 1 << 20
IDLE_S = 2  # of costs.conf: then the job uses the GPU
JOB = "echo $$ > main.new && mv main.new main && exec sleep 6"


def measured(tool, scenario, *job):
    tool.env.update(LD_LIBRARY_PATH=str(BUILD / "tests" / "fake" / "drivers" / "580"), HIWATER_FAKE_NVML=str(H100 / scenario),
                    HIWATER_FAKE_PID=f"@{tool.folder}/main")
    assert tool.run("run", "--json", "run.json", "--", "sh", "-c", *job).returncode == 0
    summary = json.loads((tool.folder / "run.json").read_text())
    return summary, summary["gpu"]["devices"][0]


def test_figures_are_right_although_calls_are_expensive(tool):
    """Means and totals of a job that is idle for two seconds and then uses the GPU evenly. Figures read rarely must not stand for the
    time before or after; those of the driver's page are read often."""
    summary, device = measured(tool, "costs.conf", JOB)
    wall = summary["time"]["wall_s"]
    used = wall - IDLE_S
    power = (74 * IDLE_S + 700 * used) / wall
    assert device["utilization"]["gpu_mean"] == pytest.approx(used / wall, abs=0.06)
    assert device["power_w"]["mean"] == pytest.approx(power, rel=0.08) and device["power_w"]["max"] == 700
    assert device["utilization"]["sm_active_mean"] == pytest.approx(0.92 * used / wall, abs=0.05)
    assert device["utilization"]["tensor_active_mean"] == pytest.approx(0.90 * used / wall, abs=0.05)
    assert device["utilization"]["graphics_active_mean"] == pytest.approx(0.95 * used / wall, abs=0.05)
    assert device["energy_j"] == pytest.approx(power * wall, rel=0.08) and device["energy_source"] == "counter"
    for key, mib_s in (("pcie_tx_bytes", 1000), ("pcie_rx_bytes", 2000)):
        assert device["traffic"][key] == pytest.approx(mib_s * MIB * used, rel=0.06)
    assert device["memory"]["job_peak_bytes"] == 3 << 30
    assert not [n for n in summary["notes"] if n["about"].startswith("gpu") and not n["why"].startswith("null: ")], summary["notes"]


def test_its_figures_at_work(tool):
    """One kernel on all SMs with blocks of 1024 threads."""
    _, device = measured(tool, "work.conf", JOB)
    use = device["utilization"]
    assert use["gpu_mean"] == 1 and use["sm_active_mean"] > 0.99 and 0.99 < use["sm_occupancy_mean"] <= 1
    assert use["fp32_active_mean"] == pytest.approx(0.5476, abs=0.001) and use["tensor_active_mean"] < 0.001
    assert device["power_w"]["mean"] == pytest.approx(323, abs=3) and device["power_w"]["limit"] == 700
    assert device["memory"]["job_peak_bytes"] == 545259520 and device["memory"]["reserved_bytes"] == 503316480
    assert 47 <= device["temperature_c"]["max"] <= 49 and 42 <= device["temperature_c"]["memory_max"] <= 44
    assert device["throttled_s"] == {"power": 0, "thermal": 0, "hardware": 0, "other": 0}


def test_a_job_that_fills_its_memory(tool):
    _, device = measured(tool, "oom.conf", JOB)
    assert device["memory"]["job_peak_bytes"] > 0.99 * (device["memory"]["total_bytes"] - device["memory"]["reserved_bytes"])

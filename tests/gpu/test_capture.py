# SPDX-License-Identifier: MIT
"""tools/capture-gpu: a capture of a replayed capture is the same file."""
import os
import subprocess
import sys

import pytest
from fake_gpu import ROOT, SCENARIOS, Fake, level_of

CAPTURE = ROOT / "tools" / "capture-gpu"
# Time advances with each sample of the capture, however slow the machine is.
CLOCK = "[clock]\nstep = 0.5\non = nvmlDeviceGetBAR1MemoryInfo\n"


def capture(folder, scenario, level, to):
    fake = Fake(folder, f"include = {scenario}\n{CLOCK}", level)
    fake.run(sys.executable, "-I", CAPTURE, "--fast", "--seconds", "12", "--interval", "0.5", "--pcie",
             "--job", os.getpid(), to, pid=os.getpid())
    return to.read_text()


@pytest.mark.parametrize("name", ["gpm", "mig", "gb10", "wsl", "vgpu", "lost", "accounting",
                                  *sorted(p.stem for p in SCENARIOS.glob("driver-*.conf"))])
def test_a_capture_replays(tmp_path, name):
    scenario = SCENARIOS / f"{name}.conf"
    level = level_of(scenario)
    first = capture(tmp_path, scenario, level, tmp_path / "first.conf")
    assert f"level = {level}\n" in first and "memory" in first and "[process 0" in first
    assert "steps" in first
    assert capture(tmp_path, tmp_path / "first.conf", level, tmp_path / "second.conf") == first


def test_captured_values(tmp_path):
    """The values of a scenario at each sample; the machine's identity is left out."""
    (tmp_path / "known.conf").write_text("""[driver]
level = 550
[gpu 0]
name = Card
uuid = GPU-secret
serial = 12345
memory_total = 1000
memory_reserved = 10
memory_used = steps 0:50 2:70
util = ramp 0 10 0..10
util_memory = 1
temperature = error4
power = unknown
field 197 = rate 100
field 185 1 = 8
gpm 2 = square 10 30 2
[process 0]
pid = 77
lists = graphics compute
memory = 33
from = 1
until = 3
""")
    lines = capture(tmp_path, tmp_path / "known.conf", "550", tmp_path / "seen.conf").splitlines()
    wanted = {"memory_used = steps 0:50 2:70", "memory_reserved = 10", "temperature = error4", "power = unknown",
              "field 185 1 = 8", "field 187 = absent", "serial = 0", "uuid = GPU-00000000-0000-4000-8000-000000000000",
              "pid = 77", "lists = compute graphics", "from = 1", "until = 3", "memory = 33"}
    assert wanted <= set(lines)
    by_key = dict(line.split(" = ", 1) for line in lines if " = " in line)
    assert by_key["field 197"].startswith("steps 0:0 0.5:50 1:100 1.5:150 ")
    assert by_key["gpm 2"].startswith("steps 0:30 1:10 2:30 3:10 ")
    assert by_key["util"].endswith(" 9.5:10") or by_key["util"].endswith(" 10:10")
    assert "secret" not in "".join(lines) and "12345" not in "".join(lines)


def test_costs_are_rules_of_the_scenario(tmp_path):
    out = tmp_path / "costs.conf"
    slow = "include = {}\n[call nvmlDeviceGetName]\ndelay = 0.03\n[call nvmlDeviceGetUUID]\nburn = 0.03\n"
    Fake(tmp_path, slow.format(SCENARIOS / "gpm.conf")).run(CAPTURE, "--fast", "--seconds", "0.3", "--costs", out, time=1)
    costs = dict(part.split("]", 1) for part in out.read_text().split("[call ")[1:])
    figures = {name: dict(line.split(" = ") for line in text.splitlines() if " = " in line) for name, text in costs.items()}
    assert float(figures["nvmlDeviceGetName"]["delay"]) > 0.02 and float(figures["nvmlDeviceGetUUID"]["burn"]) > 0.02
    assert "nvmlDeviceGetPowerUsage" in costs
    assert Fake(tmp_path, f"include = {out}\n", "550").python("answer = nvml.nvmlDeviceGetCount()") == 2


def test_without_a_driver(tmp_path):
    done = subprocess.run([CAPTURE, "--library", tmp_path / "none.so", tmp_path / "out"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("capture-gpu: ") and not (tmp_path / "out").exists()
    done = Fake(tmp_path, "no-driver").run_any(CAPTURE, tmp_path / "out")
    assert done.returncode == 1 and "cannot be initialised: error 9" in done.stderr

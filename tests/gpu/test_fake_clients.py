# SPDX-License-Identifier: MIT
"""Unmodified third-party programs for NVIDIA's driver run on the fake and show the scenario's values."""
import json
import os
import pathlib
import re
import signal
import sys

import pytest
from fake_gpu import LEVELS, SCENARIOS, Fake, level_of

BIN = pathlib.Path(sys.executable).parent
MI = 1 << 20

PLAIN = """
[driver]
version = {level}.1
[gpu 0-1]
name = Card %d
uuid = GPU-0000000%d
pci = 00000000:0%d:00.0
memory_total = 16Gi
memory_reserved = 100Mi
memory_used = processes 50Mi
util = steps 0:11 10:92
util_memory = 7
util_encoder = 3
util_decoder = 4
power = 123000
power_limit = 300000
power_management_limit = 300000
temperature = ramp 40 80 0..20
fan = 33
pstate = 2
ecc_mode = 0
persistence_mode = 1
display_active = 0
compute_mode = 0
[gpu 1]
util = 55
[process 0]
pid = $HIWATER_FAKE_PID
memory = 4321Mi
sm = 44
mem = 6
[process 0]
pid = 4000001
memory = 17Mi
"""


@pytest.fixture
def plain(tmp_path):
    """Makes the driver of a level with the scenario above."""
    return lambda level: Fake(tmp_path, PLAIN.format(level=level), level)


def gpustat(fake, **moment):
    return json.loads(fake.run(BIN / "gpustat", "--json", **moment))


@pytest.mark.parametrize("level", LEVELS[1:])
def test_gpustat(plain, level):
    seen = gpustat(plain(level), time=15, pid=os.getpid())
    first, second = seen["gpus"]
    assert seen["driver_version"] == f"{level}.1"
    assert (first["name"], first["uuid"], first["temperature.gpu"]) == ("Card 0", "GPU-00000000", 70)
    assert (first["utilization.gpu"], second["utilization.gpu"]) == (92, 55)
    assert (first["utilization.enc"], first["utilization.dec"]) == (3, 4)
    assert (first["power.draw"], first["enforced.power.limit"], first["fan.speed"]) == (123, 300, 33)
    reserved = 100 if level == "470" else 0  # the first memory call counts it as used
    assert (first["memory.used"], first["memory.total"]) == (4321 + 17 + 50 + reserved, 16384)
    assert [(p["pid"], p["gpu_memory_usage"]) for p in first["processes"]] == [(os.getpid(), 4321)]
    assert second["processes"] == []


@pytest.mark.parametrize("level", LEVELS[1:])
def test_nvitop(plain, level):
    text = plain(level).run(BIN / "nvitop", "-1", "--ascii", time=5, pid=os.getpid())
    assert f"Driver Version: {level}.1" in text
    assert re.search(r"\b33%   50C   P2    123W / 300W \|", text), text
    assert re.search(r"\|     11%      Default \|", text) and re.search(r"\|     55%      Default \|", text), text
    assert re.search(rf"\|   0 +{os.getpid()} C +\S+ +4321MiB +44 +6 ", text), text
    assert re.search(r"\|   0 +4000001 C .* 17\.00MiB ", text), text


def test_450_has_the_first_lists_only(plain):
    """nvidia-ml-py and gpustat report that as with such a driver; nvitop can use the first lists."""
    fake = plain("450")
    done = fake.run_any(BIN / "gpustat", "--json", pid=os.getpid())
    assert "Unversioned function called" in done.stdout + done.stderr
    text = fake.run(BIN / "nvitop", "-1", "--ascii", pid=os.getpid())
    assert re.search(rf"\|   0 +{os.getpid()} C +\S+ +4321MiB", text), text


@pytest.mark.parametrize("level", LEVELS)
def test_exports_of_a_level(plain, level):
    """nvidia-ml-py finds the functions that this driver has, and no others."""
    since = {"nvmlDeviceGetMemoryInfo": 450, "nvmlDeviceGetComputeRunningProcesses_v2": 455,
             "nvmlDeviceGetMemoryInfo_v2": 510, "nvmlGpmMetricsGet": 525, "nvmlDeviceGetCurrentClocksEventReasons": 535,
             "nvmlDeviceGetConfComputeMemSizeInfo": 535, "nvmlDeviceGetProcessesUtilizationInfo": 550,
             "nvmlDeviceGetTemperatureV": 570, "nvmlDeviceGetAddressingMode": 580, "nvmlDeviceGetMemoryLimits_v1": 615}
    wanted = {name: float(level) >= first for name, first in since.items()}
    wanted["nvmlDeviceGetComputeRunningProcesses_v3"] = float(level) >= 510 and level != "535.98"
    wanted["nvmlDeviceGetRunningProcessDetailList"] = float(level) >= 535 and level != "535.43"
    names = list(wanted)
    assert plain(level).python(f"""
def has(name):
    try:
        return bool(nvml._nvmlGetFunctionPointer(name))
    except nvml.NVMLError_FunctionNotFound:
        return False
answer = {{name: has(name) for name in {names}}}""") == wanted


@pytest.mark.parametrize("name", sorted(p.stem for p in SCENARIOS.glob("*.conf") if level_of(p)))
def test_the_scenarios(tmp_path, name):
    """Every scenario is one that nvidia-ml-py can be run on."""
    answer = Fake(tmp_path, name).python("""
def get(function, *args):
    try:
        return function(*args)
    except nvml.NVMLError as error:
        return -error.value
handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
answer = [[get(nvml.nvmlDeviceGetName, h), get(nvml.nvmlDeviceGetUUID, h), get(nvml.nvmlDeviceGetPowerUsage, h),
           get(nvml.nvmlDeviceGetTotalEnergyConsumption, h), get(nvml.nvmlDeviceGetTemperature, h, 0)]
          for h in handles]""", time=1)
    assert answer
    for card, uuid, power, energy, temperature in answer:
        assert re.match(r"NVIDIA|Tesla|GRID", card) and uuid.startswith("GPU-")
        assert power == -3 or 1000 < power < 1_000_000
        assert energy == -3 or energy > 0
        assert temperature < 0 or 20 < temperature < 100


def test_misuse_that_would_corrupt_memory_ends_the_process(plain):
    fake = plain("550")
    cases = {
        "is no handle": "import ctypes\nnvml.nvmlDeviceGetPowerUsage(ctypes.c_void_p(4096))",
        "in a child": "import os\nif os.fork() == 0:\n    nvml.nvmlDeviceGetCount()\n"
                      "else:\n    os.kill(os.getpid(), os.waitstatus_to_exitcode(os.wait()[1]) * -1)",
        "was freed": "s = nvml.nvmlGpmSampleAlloc()\nnvml.nvmlGpmSampleFree(s)\n"
                     "nvml.nvmlGpmSampleGet(nvml.nvmlDeviceGetHandleByIndex(0), s)",
    }
    for said, code in cases.items():
        done = fake.run_any(sys.executable, "-c", f"import pynvml as nvml\nnvml.nvmlInit()\n{code}")
        assert done.returncode == -signal.SIGABRT and said in done.stderr, (said, done)


def test_a_scenario_for_another_driver_or_with_a_fault_is_refused(tmp_path):
    faults = {
        "this is for the library of driver 470": "[driver]\nlevel = 470\n",
        "scenario.conf:2: no such key in this section: utl": "[gpu 0]\nutl = 3\n",
        "scenario.conf:2: not a value: 3 4": "[gpu 0]\nutil = 3 4\n",
        "scenario.conf:1: no such section: gpus": "[gpus 0]\n",
    }
    for said, text in faults.items():
        done = Fake(tmp_path, text, "550").run_any(sys.executable, "-c", "import pynvml\npynvml.nvmlInit()")
        assert done.returncode == -signal.SIGABRT and said in done.stderr, (said, done.stderr)

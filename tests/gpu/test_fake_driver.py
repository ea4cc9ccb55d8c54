# SPDX-License-Identifier: MIT
"""The fake driver keeps to the driver's protocols: figures over time, lists and buffers, GPM, MIG, events, faults."""
import math
import os
import pathlib
import re
import subprocess
import sys

import pytest
from fake_gpu import DRIVERS, Fake

DEVICE = "h = nvml.nvmlDeviceGetHandleByIndex(0)\n"
CODE = """
import ctypes
def call(name, *args):
    return getattr(nvml.nvmlLib, name)(*args)
def figure(name, handle):
    x = ctypes.c_ulonglong(0)
    code = call(name, handle, ctypes.byref(x))
    return x.value if code == 0 else -code
"""


def fake(tmp_path, text, level="580"):
    return Fake(tmp_path, text, level)


@pytest.mark.parametrize("written, wanted", {
    "42": lambda t: 42, "1.5M": lambda t: 1500000, "2Ki": lambda t: 2048, "absent": lambda t: -3, "error15": lambda t: -15,
    "unknown": lambda t: 2**32 - 1,
    "steps 0:10 5:90 7.5:absent": lambda t: 10 if t < 5 else 90 if t < 7.5 else -3,
    "ramp 100 200 4..8": lambda t: 100 if t < 4 else 200 if t > 8 else round(100 + 25 * (t - 4)),
    "sine 500 100 10": lambda t: round(500 + 100 * math.sin(2 * math.pi * t / 10)),
    "square 1 9 4 0.75": lambda t: 9 if t % 4 < 3 else 1, "rate 8 100": lambda t: 100 + 8 * t,
}.items())
def test_a_value_over_time(tmp_path, written, wanted):
    clock = tmp_path / "time"
    clock.write_text("0")
    times = [0, 1.25, 3, 5.5, 7.75, 9]
    seen = fake(tmp_path, f"[gpu 0]\npower = {written}\n").python(f"""{DEVICE}{CODE}
answer = []
for t in {times}:
    open({str(clock)!r}, "w").write(str(t))
    answer.append(figure("nvmlDeviceGetPowerUsage", h))""", time=f"file:{clock}")
    assert seen == [wanted(t) for t in times]


@pytest.mark.parametrize("power, joules", {
    "3000": 30, "ramp 0 1000 0..10": 5, "ramp 0 1000 2..4": 1 + 6, "square 1000 2000 4": 10 + 6, "sine 1000 500 10": 10,
    "steps 0:1000 5:4000": 5 + 20, "rate 200": 10,
}.items())
def test_energy_is_the_integral_of_power(tmp_path, power, joules):
    driver = fake(tmp_path, f"[gpu 0]\npower = {power}\nenergy = integral power 5\n")
    assert driver.python(f"{DEVICE}answer = nvml.nvmlDeviceGetTotalEnergyConsumption(h)", time=10) == joules * 1000 + 5


def test_figures_may_change_only_so_often(tmp_path):
    driver = fake(tmp_path, "[gpu 0]\nrefresh = 0.5\npower = rate 1000\n")
    seen = [driver.python(f"{DEVICE}answer = nvml.nvmlDeviceGetPowerUsage(h)", time=t) for t in (1, 1.4, 1.5, 1.9)]
    assert seen == [1000, 1000, 1500, 1500]


def test_time_may_go_by_calls(tmp_path):
    driver = fake(tmp_path, "[clock]\nstep = 0.5\non = nvmlDeviceGetUtilizationRates\n"
                            "[gpu 0-1]\nutil = 3\nutil_memory = 1\npower = rate 100\n")
    assert driver.python(f"""{DEVICE}answer = []
for _ in range(4):
    nvml.nvmlDeviceGetUtilizationRates(h)
    nvml.nvmlDeviceGetUtilizationRates(nvml.nvmlDeviceGetHandleByIndex(1))
    answer.append(nvml.nvmlDeviceGetPowerUsage(h))""") == [0, 50, 100, 150]


LISTS = """
[gpu 0]
util = 1
[process 0]
pid = 11
memory = 3Gi
memory_protected = 7
[process 0]
pid = 12
lists = compute graphics
memory = unknown
gi = 1
ci = 2
[process 0]
pid = 13
from = 20
"""
ROWS = f"""{DEVICE}{CODE}
import struct
def rows(name, size, capacity, form):
    n, buffer = ctypes.c_uint(capacity), ctypes.create_string_buffer(b"\\xee" * size * 4, size * 4)
    code = call(name, h, ctypes.byref(n), buffer if capacity else None)
    count = n.value if code == 0 else 0
    assert buffer.raw[count * size:] == b"\\xee" * (4 - count) * size
    return code, n.value, [struct.unpack(form, buffer.raw[i * size:(i + 1) * size]) for i in range(count)]
"""
ALL_ONES, ALL_ONES_32 = 2**64 - 1, 2**32 - 1


@pytest.mark.parametrize("level, suffix, size, form", [
    ("450", "", 16, "IxxxxQ"), ("470", "_v2", 24, "IxxxxQII"), ("535.43", "_v3", 32, "IxxxxQIIQ"),
    ("535.43", "_v2", 24, "IxxxxQII"), ("550", "_v3", 24, "IxxxxQII"), ("615", "", 16, "IxxxxQ")])
def test_lists_of_processes(tmp_path, level, suffix, size, form):
    name = f"nvmlDeviceGetComputeRunningProcesses{suffix}"
    none, short, enough, graphics = fake(tmp_path, LISTS, level).python(f"""{ROWS}
answer = [rows("{name}", {size}, c, "{form}") for c in (0, 1, 3)]
answer.append(rows("{name}".replace("Compute", "Graphics"), {size}, 3, "{form}"))""", time=1)
    full = [[11, 3 << 30, ALL_ONES_32, ALL_ONES_32, 7], [12, ALL_ONES, 1, 2, ALL_ONES]]
    columns = {16: 2, 24: 4, 32: 5}[size]
    assert none == short == [7, 2, []]
    assert enough == [0, 2, [row[:columns] for row in full]]
    assert graphics == [0, 1, [full[1][:columns]]]


def test_a_process_leaves_the_list_when_it_ends(tmp_path):
    pid_file = tmp_path / "pid"
    driver = fake(tmp_path, f"[gpu 0]\nmemory_total = 1Gi\nmemory_used = processes 5\n[process 0]\npid = @{pid_file}\nmemory = 100\n")
    assert driver.python(f"""{DEVICE}{ROWS}
import subprocess
def look():
    return [r[0] for r in rows("nvmlDeviceGetComputeRunningProcesses_v3", 24, 3, "IxxxxQII")[2]], nvml.nvmlDeviceGetMemoryInfo(h).used
answer = [look()]
child = subprocess.Popen(["sleep", "60"])
open({str(pid_file)!r}, "w").write(str(child.pid))
answer.append([look()[0] == [child.pid], look()[1]])
child.kill()
child.wait()
answer.append(look())""") == [[[], 5], [True, 105], [[], 5]]


def test_versions_of_structs_are_checked(tmp_path):
    driver = fake(tmp_path, "[gpu 0]\nmemory_total = 10\nmemory_used = 3\nmemory_reserved = 2\ntemperature = 50\ngpm 1 = 1\n")
    codes = driver.python(f"""{DEVICE}{CODE}
import struct
def code(name, version, size):
    buffer = ctypes.create_string_buffer(struct.pack("I", version), size)
    return call(name, h, buffer), list(struct.unpack("QQQQ", buffer.raw[8:40])) if size == 40 else None
answer = [code("nvmlDeviceGetMemoryInfo_v2", v, 40) for v in (0x02000028, 2, 0x01000028)]
answer += [code("nvmlDeviceGetTemperatureV", v, 12) for v in (0x0100000c, 1)]
answer += [code("nvmlGpmQueryDeviceSupport", v, 8) for v in (1, 0x01000008)]""")
    assert codes[0] == [0, [10, 2, 5, 3]]
    assert [c[0] for c in codes] == [0, 25, 25, 0, 25, 0, 25]


def test_utilisation_of_processes_is_reported_once(tmp_path):
    clock = tmp_path / "time"
    clock.write_text("5.0")
    driver = fake(tmp_path, "[gpu 0]\nsample_interval = 1\n[process 0]\npid = 7\nsm = rate 10\nmem = 4\nenc = 1\ndec = 2\n")
    assert driver.python(f"""{DEVICE}{CODE}
import struct
def look(last, capacity=9):
    n, buffer = ctypes.c_uint(capacity), ctypes.create_string_buffer(32 * 100)
    code = call("nvmlDeviceGetProcessUtilization", h, buffer if capacity else None, ctypes.byref(n), ctypes.c_ulonglong(last))
    return code, n.value, struct.unpack("IxxxxQIIII", buffer.raw[:32])
answer = [look(0, 0)[:2], look(0)]
stamp = answer[1][2][1]
answer.append(look(stamp)[0])
open({str(clock)!r}, "w").write("6.2")
answer.append(look(stamp)[2][1] - stamp)
answer[1] = answer[1][:2] + (answer[1][2][2:],)""", time=f"file:{clock}") == [[7, 100], [0, 1, [50, 4, 1, 2]], 6, 1000000]


def test_samples_are_all_those_since_the_last(tmp_path):
    driver = fake(tmp_path, "[driver]\nepoch = 1000\n[gpu 0]\nsample_interval = 0.5\npower = rate 100\n")
    assert driver.python(f"""{DEVICE}
kind, samples = nvml.nvmlDeviceGetSamples(h, 0, 1001000000)
answer = [kind, [(s.timeStamp, s.sampleValue.uiVal) for s in samples]]
try:
    nvml.nvmlDeviceGetSamples(h, 0, 1002500000)
except nvml.NVMLError as error:
    answer.append(error.value)""", time=2.6) == [1, [[1001500000, 150], [1002000000, 200], [1002500000, 250]], 6]


def test_fields(tmp_path):
    driver = fake(tmp_path, "[gpu 0]\npower = 9000\nenergy = 77\nfield 186 = 8000\nfield 138 = rate 1G\nfield 138 2 = 5\n"
                            "temperature_memory = error4\n")
    assert driver.python(f"""{DEVICE}
fields = nvml.nvmlDeviceGetFieldValues(h, [186, 83, (138, 0xffffffff), (138, 2), (138, 1), 82, 999])
answer = [(f.nvmlReturn, f.valueType, f.value.ullVal if f.nvmlReturn == 0 else None) for f in fields]""", time=10) == [
        [0, 1, 8000], [0, 3, 77], [0, 3, 10**10], [0, 3, 5], [3, 3, None], [4, 1, None], [3, 3, None]]


def test_gpm_is_the_mean_between_two_samples(tmp_path):
    clock = tmp_path / "time"
    clock.write_text("1")
    driver = fake(tmp_path, "[gpu 0-1]\ngpm 2 = steps 0:0 2:80\ngpm 5 = ramp 0 100 0..10\ngpm 10 = nan\n")
    assert driver.python(f"""{DEVICE}
a, b, other = (nvml.nvmlGpmSampleAlloc() for _ in range(3))
nvml.nvmlGpmSampleGet(h, a)
open({str(clock)!r}, "w").write("5")
nvml.nvmlGpmSampleGet(h, b)
nvml.nvmlGpmSampleGet(nvml.nvmlDeviceGetHandleByIndex(1), other)
def metrics(second):
    get = nvml.c_nvmlGpmMetricsGet_t(version=1, numMetrics=4, sample1=a, sample2=second)
    for i, metric in enumerate((2, 5, 10, 3)):
        get.metrics[i].metricId = metric
    return nvml.nvmlGpmMetricsGet(get)
answer = [(m.nvmlReturn, str(m.value)) for m in list(metrics(b).metrics)[:4]]
try:
    metrics(other)
except nvml.NVMLError as error:
    answer.append(error.value)""", time=f"file:{clock}") == [[0, "60.0"], [0, "30.0"], [0, "nan"], [3, "0.0"], 2]


def test_mig(tmp_path):
    answer = Fake(tmp_path, "mig").python(f"""{DEVICE}
def get(function, *args):
    try:
        return function(*args)
    except nvml.NVMLError as error:
        return -error.value
migs = [get(nvml.nvmlDeviceGetMigDeviceHandleByIndex, h, i) for i in range(nvml.nvmlDeviceGetMaxMigDeviceCount(h))]
there = [m for m in migs if not isinstance(m, int)]
answer = {{"mode": nvml.nvmlDeviceGetMigMode(h), "holes": [i for i, m in enumerate(migs) if m == -6],
          "gi": [nvml.nvmlDeviceGetGpuInstanceId(m) for m in there], "ci": [nvml.nvmlDeviceGetComputeInstanceId(m) for m in there],
          "memory": [nvml.nvmlDeviceGetAttributes_v2(m).memorySizeMB for m in there],
          "util": get(nvml.nvmlDeviceGetUtilizationRates, h), "list": get(nvml.nvmlDeviceGetComputeRunningProcesses, h),
          "parents": [nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(m)) for m in there],
          "processes": [[(p.pid, p.usedGpuMemory >> 20, p.gpuInstanceId, p.computeInstanceId)
                         for p in nvml.nvmlDeviceGetComputeRunningProcesses(m)] for m in there]}}""", time=3, pid=os.getpid())
    assert answer == {"mode": [1, 1], "holes": [1, 4, 5, 6], "gi": [1, 2, 2], "ci": [0, 0, 1], "memory": [40448, 20096, 20096],
                      "util": -3, "list": -4, "parents": [0, 0, 0],
                      "processes": [[[os.getpid(), 17408, 1, 0]], [[4100001, 3072, 2, 0]], []]}


def test_a_lost_gpu_and_its_xid(tmp_path):
    clock = tmp_path / "time"
    clock.write_text("1")
    assert Fake(tmp_path, "lost").python(f"""{CODE}
import ctypes
a, b = (nvml.nvmlDeviceGetHandleByIndex(i) for i in (0, 1))
events = nvml.nvmlEventSetCreate()
nvml.nvmlDeviceRegisterEvents(b, 8, events)
def wait():
    try:
        return nvml.nvmlEventSetWait_v2(events, 0).eventData
    except nvml.NVMLError as error:
        return -error.value
answer = [wait(), figure("nvmlDeviceGetPowerUsage", b) > 0]
open({str(clock)!r}, "w").write("10")
answer += [wait(), wait(), figure("nvmlDeviceGetPowerUsage", b), figure("nvmlDeviceGetPowerUsage", a) > 0]""",
                                         time=f"file:{clock}") == [-10, True, 79, -10, -15, True]


def test_accounting(tmp_path):
    assert Fake(tmp_path, "accounting").python(f"""{DEVICE}
def stats(pid):
    s = nvml.nvmlDeviceGetAccountingStats(h, pid)
    return s.maxMemoryUsage >> 20, s.gpuUtilization, s.memoryUtilization, s.time, s.isRunning
answer = [sorted(nvml.nvmlDeviceGetAccountingPids(h)), stats({os.getpid()}), stats(4100002)]""", time=9, pid=os.getpid()) == [
        sorted((os.getpid(), 4100002)), [9733, 76, 25, 0, 1], [1300, 41, 7, 5000, 0]]


def test_rules_about_calls(tmp_path):
    driver = fake(tmp_path, """[gpu 0-1]
power = 5
temperature = 6
[call nvmlDeviceGetPower*]
gpu = 1
error = 999
first = 1
[call nvmlDeviceGetTemperature]
delay = 0.15
""")
    log = tmp_path / "log"
    seen = driver.python(f"""{CODE}
a, b = (nvml.nvmlDeviceGetHandleByIndex(i) for i in (0, 1))
import time
answer = [figure("nvmlDeviceGetPowerUsage", h) for h in (a, b, b, a)]
start = time.monotonic()
nvml.nvmlDeviceGetTemperature(a, 0)
answer.append(time.monotonic() - start)""", time=2, log=log)
    assert seen[:4] == [5, 5, -999, 5] and seen[4] >= 0.15
    calls = [line.split() for line in log.read_text().splitlines()]
    assert [c[1:] for c in calls] == [
        ["nvmlInitWithFlags", "-"], ["nvmlDeviceGetHandleByIndex_v2", "0"], ["nvmlDeviceGetHandleByIndex_v2", "1"],
        *(["nvmlDeviceGetPowerUsage", d] for d in "0110"), ["nvmlDeviceGetTemperature", "0"]]
    assert {c[0] for c in calls} == {"2.000000"}


def test_a_call_that_hangs_is_another_threads_matter(tmp_path):
    """It never returns; a call of another thread on another device does."""
    assert Fake(tmp_path, "hang").python(f"""{CODE}
import os, threading
a, b = (nvml.nvmlDeviceGetHandleByIndex(i) for i in (0, 1))
stuck = threading.Thread(target=lambda: nvml.nvmlDeviceGetMemoryInfo(b), daemon=True)
stuck.start()
stuck.join(0.2)
answer = [stuck.is_alive(), figure("nvmlDeviceGetPowerUsage", a) > 0]
print(json.dumps(answer), flush=True)
os._exit(0)""", time=3) == [True, True]


def test_rows_of_the_wrong_length_show_in_a_checked_program(tmp_path):
    program = tmp_path / "short_rows"
    source = pathlib.Path(__file__).with_name("short_rows.c")
    subprocess.run(["gcc", "-fsanitize=address", "-o", program, source, "-ldl"], check=True)
    text = "[gpu 0]\nutil = 1\n[process 0]\npid = 11\n[process 0]\npid = 12\n"
    assert fake(tmp_path, text, "550").run(program) == "2 processes\n"
    done = fake(tmp_path, text, "535.43").run_any(program)
    assert done.returncode != 0 and "heap-buffer-overflow" in done.stderr


def test_every_function_stands_in_the_table_of_symbols():
    """Otherwise no program would find it."""
    for level in ("615", "dcgm"):
        library = next((DRIVERS / level).glob("lib*.so.*"))
        names = subprocess.run(["nm", library], stdout=subprocess.PIPE, text=True, check=True).stdout
        assert re.findall(r" t (nvml[A-Z]\w*|dcgm[A-Z]\w*)$", names, re.M) == []
        assert len(re.findall(r" [TW] (nvml[A-Z]|dcgm[A-Z])", names)) > 20


@pytest.mark.parametrize("scenario, said", [("no-driver", "Driver Not Loaded"), ("mismatch", "version mismatch")])
def test_a_driver_that_cannot_be_initialised(tmp_path, scenario, said):
    done = Fake(tmp_path, scenario).run_any(sys.executable, "-c", "import pynvml\npynvml.nvmlInit()")
    assert done.returncode == 1 and said in done.stderr

# SPDX-License-Identifier: MIT
"""hiwater gpus on every fake driver and on captured machines: compared with other programs, text, lines and tables."""
import csv
import fcntl
import io
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import termios
import time

import jsonschema
import pytest
from fake_gpu import LEVELS, ROOT, SCENARIOS, Fake, level_of
from gpus_command import HIWATER, LOST, NO_GPM, MIB, SCHEMA, TREES, as_json, run

BIN = pathlib.Path(sys.executable).parent


# ---- compared with other programs -----------------------------------------------------------------------------------

SCENARIOS_AT = [(p.stem, t) for p in sorted(SCENARIOS.glob("*.conf")) if level_of(p)
                for t in ((1,) if p.stem == "hang" else (1, 7))]


@pytest.mark.parametrize("name,at", SCENARIOS_AT)
def test_every_scenario_is_told_as_nvidia_ml_py_reads_it(tmp_path, name, at):
    """All values are equal, null where the driver has none; hangs, missing drivers and the like have tests of their own."""
    fake = Fake(tmp_path, name)
    theirs = fake.python("""
def get(function, *args):
    try:
        return function(*args)
    except (nvml.NVMLError, AttributeError):
        return None
answer = {}
for i in range(nvml.nvmlDeviceGetCount()):
    h = get(nvml.nvmlDeviceGetHandleByIndex, i)
    uuid = h and get(nvml.nvmlDeviceGetUUID, h)
    if not uuid:
        continue
    memory = get(nvml.nvmlDeviceGetMemoryInfo, h, nvml.nvmlMemory_v2) or get(nvml.nvmlDeviceGetMemoryInfo, h)
    use = get(nvml.nvmlDeviceGetUtilizationRates, h)
    answer[uuid] = {
        "index": get(nvml.nvmlDeviceGetIndex, h), "name": get(nvml.nvmlDeviceGetName, h),
        "total": memory and memory.total, "used": memory and memory.used, "gpu": use and use.gpu, "memory": use and use.memory,
        "power": get(nvml.nvmlDeviceGetPowerUsage, h), "limit": get(nvml.nvmlDeviceGetEnforcedPowerLimit, h),
        "energy": get(nvml.nvmlDeviceGetTotalEnergyConsumption, h), "temperature": get(nvml.nvmlDeviceGetTemperature, h, 0),
        "sm_clock": get(nvml.nvmlDeviceGetClockInfo, h, 1), "fan": get(nvml.nvmlDeviceGetFanSpeed, h)}
""", time=at, pid=os.getpid())
    done = run(fake, "--json", status=LOST if name in ("lost", "reset") and len(theirs) < 2 else 0, time=at)
    shown = json.loads(done.stdout)
    jsonschema.validate(shown, SCHEMA)
    ours = {d["uuid"]: d for d in shown["devices"] if not d["parent"] and (d["uuid"] or d["state"] != "lost")}  # identified by its number
    assert set(ours) == set(theirs)
    for uuid, their in theirs.items():
        our = ours[uuid]
        assert (our["index"], our["name"]) == (their["index"], their["name"])
        assert our["power_w"]["now"] == scaled(their["power"], 1e3)
        assert our["power_w"]["limit"] == scaled(their["limit"], 1e3)
        if name != "hostile":
            assert our["clock_hz"]["sm"] == (their["sm_clock"] and their["sm_clock"] * 10**6)
            assert our["temperature_c"]["gpu"] == their["temperature"]
            assert our["fan"] == scaled(their["fan"], 100)
            assert our["utilization"]["gpu"] == scaled(their["gpu"], 100)
            assert our["utilization"]["memory"] == scaled(their["memory"], 100)
        if their["energy"] is not None:
            assert our["energy_j"] == pytest.approx(their["energy"] / 1e3)
        if their["used"] is not None and not our["memory"]["unified"]:
            can_be = their["used"] <= their["total"]
            assert (our["memory"]["used_bytes"], our["memory"]["total_bytes"]) == (their["used"] if can_be else None, their["total"])


def scaled(value, by):
    return None if value is None else pytest.approx(value / by)


@pytest.mark.parametrize("level", LEVELS[1:])
def test_gpustat_reports_the_same(cards, level):
    fake = cards(level)
    theirs = json.loads(fake.run(BIN / "gpustat", "--json", time=15, pid=os.getpid()))["gpus"]
    ours = as_json(fake)["devices"]
    for our, their in zip(ours, theirs, strict=True):
        assert (our["index"], our["uuid"], our["name"]) == (their["index"], their["uuid"], their["name"])
        assert our["temperature_c"]["gpu"] == their["temperature.gpu"]
        assert our["utilization"]["gpu"] == their["utilization.gpu"] / 100
        assert our["utilization"]["encoder"] == their["utilization.enc"] / 100
        assert our["memory"]["used_bytes"] // MIB == their["memory.used"]
        assert our["memory"]["total_bytes"] // MIB == their["memory.total"]
        assert (our["power_w"]["now"], our["power_w"]["limit"]) == (their["power.draw"], their["enforced.power.limit"])
        assert our["fan"] == their["fan.speed"] / 100
        seen = [p for p in our["processes"] if p["visible"]]
        assert [(p["pid"], p["memory_bytes"] // MIB, p["user"]) for p in seen] == \
               [(p["pid"], p["gpu_memory_usage"], p["username"]) for p in their["processes"]]


def test_sm_activity_is_the_mean_over_the_interval(tmp_path):
    """Two samples 100 ms apart, with a running clock."""
    fake = Fake(tmp_path, "gpm")
    device = as_json(fake, time=f"since:{time.clock_gettime(time.CLOCK_BOOTTIME) - 20}")["devices"][0]
    assert device["utilization_lead"] == "sm_active"
    assert device["utilization"]["sm_active"] == pytest.approx(0.51, abs=0.02)
    text = run(fake, time=f"since:{time.clock_gettime(time.CLOCK_BOOTTIME) - 20}").stdout
    assert re.search(r"BUSY +SM ACTIVE", text) and re.search(r" 97 % +51 % ", text), text


def test_dcgm_adds_to_nvml(tmp_path):
    """For an A100, from the second sample on: the engine computes a mean each second."""
    fake = Fake(tmp_path, "dcgm")
    since = time.clock_gettime(time.CLOCK_BOOTTIME) - 4
    env = {**os.environ, **fake.environment(time=f"since:{since}", pid=os.getpid()), "HIWATER_DCGM_ENGINE": "127.0.0.1:5555"}
    with subprocess.Popen([HIWATER, "gpus", "--csv", "-i", "0", "-l", "0.5"], env=env, stdout=subprocess.PIPE, text=True) as looking:
        deadline = time.monotonic() + 30
        head = looking.stdout.readline().rstrip("\n").split(",")
        row = {}
        while not row.get("sm_active_ratio") and time.monotonic() < deadline:
            row = dict(zip(head, looking.stdout.readline().rstrip("\n").split(",")))
            assert row["gpu"] == "gpu" or (row["cuda_index"], row["memory_total_bytes"]) == ("0", str(40 << 30)), row
            row = {} if row["gpu"] == "gpu" else row
        looking.terminate()
    assert 0 <= float(row["sm_active_ratio"]) < 0.6 < float(row["busy_ratio"]) + 1 and row["utilization_kind"] == "sm_active"


def children_of(pid):
    """States of a process's children, by their pids."""
    listed = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {child: pathlib.Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] for child in listed}


def test_repeated_samples_leave_no_zombies(cards):
    """The helpers of other vendors end if they have no GPU."""
    env = {**os.environ, **cards().environment(time=15, pid=os.getpid())}
    with subprocess.Popen([HIWATER, "gpus", "--line", "{gpu}\\n", "-i", "0", "-l", "0.1"], env=env, stdout=subprocess.PIPE, text=True) as looking:
        for _ in range(8):
            assert looking.stdout.readline() == "0\n"
        states = children_of(looking.pid)
        looking.terminate()
    assert states and "Z" not in states.values(), states


def test_instances_stand_below_their_gpu(tmp_path):
    fake = Fake(tmp_path, "mig")
    devices = as_json(fake, time=20)["devices"]
    assert [d["number"] for d in devices] == ["0", "0.0", "0.2", "0.3", "1"]
    whole, first, second = devices[:3]
    assert first["parent"] == second["parent"] == whole["uuid"] and whole["utilization"]["gpu"] is None
    assert whole["processes"] is None and [p["pid"] for p in first["processes"]] == [os.getpid()]
    assert re.search(r"^0\.0 +0    MIG 3g\.40gb ", run(fake, time=20).stdout, re.M)
    assert [d["number"] for d in as_json(fake, "-i", first["uuid"], time=20)["devices"]] == ["0.0"]
    assert len(as_json(fake, "-i", "0", time=20)["devices"]) == 4


WITHHELD = "GPU 0: gpu.busy is not available: NVIDIA's driver does not report it for a GPU divided by MIG"


@pytest.mark.parametrize("level", ["450", "550"])
def test_why_a_divided_gpu_does_not_say_how_busy_it_is(tmp_path, level):
    """Nor do its instances, if the driver has no GPM."""
    text = "\n".join(line for line in (SCENARIOS / "mig.conf").read_text().splitlines() if level == "550" or not line.startswith("gpm"))
    fake = Fake(tmp_path, text.replace("include = cards", f"include = {SCENARIOS}/cards").replace("level = 550", f"level = {level}") + "\n" + NO_GPM, level)
    shown = as_json(fake)
    assert [d["utilization"]["gpu"] for d in shown["devices"]] == [None, None, None, None, 0]
    assert [n["why"] for n in shown["notes"]] == [WITHHELD]
    assert f"hiwater: warning: {WITHHELD}\n" == run(fake, "--csv").stderr


def test_compute_instances_of_one_gpu_instance_have_one_memory(tmp_path):
    """Memory of a process in one instance is not unattributed in the other."""
    mig = (SCENARIOS / "mig.conf").read_text().replace("include = ", f"include = {SCENARIOS}/").replace("4100001", str(os.getpid()))
    devices = {d["number"]: d["memory"] for d in as_json(Fake(tmp_path, mig))["devices"]}
    assert devices["0.2"]["used_bytes"] == devices["0.3"]["used_bytes"] == 3016 * MIB < 3072 * MIB
    assert devices["0.2"]["unattributed_bytes"] == devices["0.3"]["unattributed_bytes"] == 0


# ---- text -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("width", [60, 80, 120])
def test_text(cards, width):
    text = run(cards(), COLUMNS=str(width), LANG="C.UTF-8").stdout
    assert all(len(line) <= width for line in text.splitlines()), text
    assert re.search(r"H100.* 70 C +92 % .*4\.2\d / 79\.6 GiB" + (r" +70 / 700 W" if width > 60 else "$"), text, re.M), text
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    assert re.search(rf"^ +{os.getpid()}  {user[:12]} *  4\.22 GiB +44 %  \S", text, re.M), text
    assert re.search(r"^ +unattributed +21\.0 MiB  of processes", text, re.M), text
    assert width < 80 or "not visible here: 4000001\n" in text


@pytest.mark.parametrize("options", [(), ("--spec",), ("-L",), ("--line", "{name} {uuid} {driver}"),
                                     ("--query-gpu=name,uuid,serial,driver_version", "--format=csv"), ("--csv",), ("--json",)])
def test_text_of_a_driver_cannot_control_the_terminal(cards, options):
    said = run(cards(more="[driver]\nversion = 580.1\033[31m\n[gpu 0]\nname = \033[2JEvil\a\nuuid = GPU-\033]0;x\aevil\nserial = \033c\n"),
               *options).stdout
    assert "Evil" in said.replace("?[2J", "") and not re.search("[\x00-\x09\x0b-\x1f]", said), said


def test_secrets_are_masked(cards):
    job = subprocess.Popen([sys.executable, "-c", "input()", "--token=hunter2"], stdin=subprocess.PIPE)
    try:
        shown = run(cards(), "--json", pid=job.pid).stdout + run(cards(), "--csv=processes", pid=job.pid).stdout
        assert "--token=***" in shown and "hunter2" not in shown
    finally:
        job.communicate(b"\n")


def test_cuda_numbers_are_those_of_this_environment(cards):
    fake = cards(more="[gpu 2]\nname = Other\nuuid = GPU-22222222\npci = 00000000:01:00.0\nmemory_total = 1Gi\n")
    pci = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}

    def numbers(**env):
        return [d["cuda_visible_index"] for d in as_json(fake, **env)["devices"]]

    assert numbers() == [None] * 3  # unlike cards: the fastest is first, which only CUDA knows
    assert numbers(**pci) == [1, 2, 0]
    assert numbers(**pci, CUDA_VISIBLE_DEVICES="2,GPU-2") == [None, 0, None]  # not mixed
    assert [d["cuda_hidden"] for d in as_json(fake, **pci, CUDA_VISIBLE_DEVICES="2")["devices"]] == [True, False, True]
    text = run(fake, **pci, CUDA_VISIBLE_DEVICES="2").stdout
    assert re.search(r"^ +0 +- +.*H100", text, re.M) and re.search(r"^ +1 +0 +.*H100", text, re.M), text
    assert re.search(r"^ +0 +\? ", run(fake).stdout, re.M)


def test_line(cards):
    fake = cards()
    assert run(fake, "--line", "{gpu}:{busy}% {mem}").stdout == "0:92% 4.24 GiB  1:55% 4.00 MiB\n"
    assert run(fake, "--line", r"{{{gpu}}} {temp} {fan} {sm}\n").stdout == "{0} 70 33 -\n{1} 70 33 -\n"
    fields = re.findall(r"^  \{(\w+)\} +\S", run(fake, "--help-line").stdout, re.M)
    assert len(fields) > 30 and {"gpu", "users", "util_kind", "power"} <= set(fields)
    assert run(fake, "--line", "".join(f"{{{f}}}|" for f in fields), "-i", "0").stdout.count("|") == len(fields)
    assert "did you mean {busy}" in run(fake, "--line", "{busi}", status=2).stderr
    assert "a { without }" in run(fake, "--line", "{busy", status=2).stderr


def test_csv(cards):
    rows = list(csv.DictReader(io.StringIO(run(cards(), "--csv").stdout)))
    assert [(r["gpu"], r["busy_ratio"], r["memory_total_bytes"]) for r in rows] == \
           [("0", "0.92", str(81559 * MIB)), ("1", "0.55", str(81559 * MIB))]
    who = list(csv.DictReader(io.StringIO(run(cards(), "--csv=processes").stdout)))
    assert [(r["pid"], r["memory_bytes"]) for r in who] == [(str(os.getpid()), str(4321 * MIB)), ("4000001", str(17 * MIB))]
    assert who[1]["type"] == "compute+graphics"


def test_the_page_has_every_field(cards):
    page = (ROOT / "docs" / "gpus.md").read_text()
    for kind in ("line", "query-gpu", "query-compute-apps"):
        names = re.findall(r'\{(\w+)\}|"([\w.]+)"', run(cards(), f"--help-{kind}").stdout)
        for name in (a or b for a, b in names):
            assert f"`{name}`" in page or f"`{{{name}}}`" in page, name


@pytest.mark.parametrize("terminal", [False, True])
def test_text_fits_forty_columns(cards, terminal):
    """Amounts stay; the least important columns are left out, the header and names are cut. Also with SM activity and notes."""
    fake = cards(more="[gpu 0-1]\nname = NVIDIA H100 80GB HBM3 with a name of its own\ngpm 2 = 40\n[gpu 1]\nutil = 255\n")
    if terminal:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 40, 0, 0))
        env = {**os.environ, **fake.environment(time=15, pid=os.getpid()), "LANG": "C.UTF-8", "NO_COLOR": "1"}
        subprocess.run([HIWATER, "gpus"], env=env, stdin=slave, stdout=slave, check=True, timeout=60)
        os.close(slave)
        text = os.read(master, 1 << 16).decode().replace("\r\n", "\n")
        os.close(master)
    else:
        text = run(fake, COLUMNS="40", LANG="C.UTF-8").stdout
    assert all(len(line) <= 40 for line in text.splitlines()), text
    assert re.search(r"^GPU +NAME +BUSY +MEMORY$", text, re.M) and re.search(r"^  0 +H100\S*.* 92 % +4\.2\d / 79\.6 GiB$", text, re.M), text
    assert re.search(rf"^ +{os.getpid()} +4\.22 GiB  \S", text, re.M) and re.search(r"^ +unattributed +21\.0 MiB  of pro", text, re.M), text


def test_one_thing_at_a_time(cards):
    assert "--json and --csv" in run(cards(), "--json", "--csv", status=2).stderr
    assert "--spec" in run(cards(), "--spec", "--csv", status=2).stderr
    assert "unexpected operand" in run(cards(), "0", status=2).stderr
    assert "milliseconds" in run(cards(), "-lms", status=2).stderr


# ---- other vendors --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("tree,name,total", [("amd-rdna", "amd", 16368 * MIB), ("i915", "intel", None), ("xe", "intel", None)])
def test_captured_machines(tree, name, total):
    done = subprocess.run([HIWATER, "gpus", "--json", "--root", TREES / tree], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    jsonschema.validate(shown, SCHEMA)
    device = shown["devices"][0]
    assert device["vendor"] == name and device["cuda_visible_index"] is None
    if total:
        assert device["memory"]["total_bytes"] == total
    if name == "intel":  # differences between constant files
        assert device["utilization"]["gpu"] is None and device["power_w"]["now"] is None and device["energy_j"] > 0
        assert {p["sm_busy"] for p in device["processes"]} == {None}
    for format in (["--csv"], ["--query-gpu=index,name,memory.total,utilization.gpu"], ["--line", "{gpu} {busy}"], ["-L"], []):
        assert subprocess.run([HIWATER, "gpus", *format, "--root", TREES / tree], capture_output=True, check=False).returncode == 0


def test_properties_of_amd_gpus():
    """By KFD's topology for the first card of the tree; its second card has no topology."""
    done = subprocess.run([HIWATER, "gpus", "--json", "--spec", "--root", TREES / "amd-mi"], capture_output=True, text=True, check=True)
    shown = json.loads(done.stdout)
    jsonschema.validate(shown, SCHEMA)
    spec, other = (d["spec"] for d in shown["devices"])
    assert (spec["architecture"], spec["sms"], spec["warp_threads"], spec["warps_per_sm"]) == ("gfx942", 304, 64, 32)
    assert (spec["shared_bytes_per_sm"], spec["sm_clock_hz"], spec["copy_engines"]) == (64 << 10, 2100 * 10**6, 16)
    assert spec["compute_capability"] is None and other["architecture"] is None and other["sms"] is None

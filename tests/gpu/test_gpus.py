# SPDX-License-Identifier: MIT
"""hiwater gpus on every fake driver and on captured machines: what others say of the same fake, and what scripts ask for."""
import csv
import fcntl
import io
import json
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
import time

import jsonschema
import pytest
from fake_gpu import BUILD, LEVELS, ROOT, SCENARIOS, Fake, level_of

HIWATER = pathlib.Path(os.environ.get("HIWATER", BUILD / "hiwater")).resolve()
BIN = pathlib.Path(sys.executable).parent
TREES = ROOT / "tests" / "trees"
SCHEMA = json.loads((ROOT / "docs" / "gpus.schema.json").read_text())
MIB = 1 << 20
NO_GPU, NO_DRIVER, LOST, SILENT = 6, 9, 15, 124
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
    """Makes the driver of a level with two cards and two processes, one of which nobody sees."""
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


# ---- what others say ------------------------------------------------------------------------------------------------

SCENARIOS_AT = [(p.stem, t) for p in sorted(SCENARIOS.glob("*.conf")) if level_of(p)
                for t in ((1,) if p.stem == "hang" else (1, 7))]


@pytest.mark.parametrize("name,at", SCENARIOS_AT)
def test_every_scenario_is_told_as_nvidia_ml_py_reads_it(tmp_path, name, at):
    """Number for number, with null where the driver does not answer; hang, no driver and the like have tests of their own."""
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
    ours = {d["uuid"]: d for d in shown["devices"] if not d["parent"] and (d["uuid"] or d["state"] != "lost")}  # that is told by its number
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
def test_gpustat_says_the_same(cards, level):
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


def test_sm_activity_is_the_mean_of_the_look(tmp_path):
    """Two samples 100 ms apart; the clock runs, since nothing happens in no time."""
    fake = Fake(tmp_path, "gpm")
    device = as_json(fake, time=f"since:{time.clock_gettime(time.CLOCK_BOOTTIME) - 20}")["devices"][0]
    assert device["utilization_lead"] == "sm_active"
    assert device["utilization"]["sm_active"] == pytest.approx(0.51, abs=0.02)
    text = run(fake, time=f"since:{time.clock_gettime(time.CLOCK_BOOTTIME) - 20}").stdout
    assert re.search(r"BUSY +SM ACTIVE", text) and re.search(r" 97 % +51 % ", text), text


def test_dcgm_adds_to_what_nvml_tells(tmp_path):
    """Of an A100, from the second look on: the engine makes a mean each second."""
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


WITHHELD = "GPU 0: gpu.busy is missing: NVIDIA's driver does not tell it of a GPU that is divided by MIG"


@pytest.mark.parametrize("level", ["450", "550"])
def test_why_a_divided_gpu_does_not_say_how_busy_it_is(tmp_path, level):
    """Nor do its instances where the driver has no GPM."""
    text = "\n".join(line for line in (SCENARIOS / "mig.conf").read_text().splitlines() if level == "550" or not line.startswith("gpm"))
    fake = Fake(tmp_path, text.replace("include = cards", f"include = {SCENARIOS}/cards").replace("level = 550", f"level = {level}") + "\n", level)
    shown = as_json(fake)
    assert [d["utilization"]["gpu"] for d in shown["devices"]] == [None, None, None, None, 0]
    assert [n["why"] for n in shown["notes"]] == [WITHHELD]
    assert f"hiwater: warning: {WITHHELD}\n" == run(fake, "--csv").stderr


def test_compute_instances_of_one_gpu_instance_have_one_memory(tmp_path):
    """What a process in one of them holds is nobody's unknown in the other."""
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
    assert width < 80 or "cannot be seen here: 4000001\n" in text


@pytest.mark.parametrize("options", [(), ("--spec",), ("-L",), ("--line", "{name} {uuid} {driver}"),
                                     ("--query-gpu=name,uuid,serial,driver_version", "--format=csv"), ("--csv",), ("--json",)])
def test_no_terminal_obeys_what_a_driver_says(cards, options):
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

    assert numbers() == [None] * 3  # unlike cards: the fastest is first, and only CUDA knows which that is
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
    assert "without its }" in run(fake, "--line", "{busy", status=2).stderr


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


# ---- in nvidia-smi's place ------------------------------------------------------------------------------------------

def test_a_script_for_nvidia_smi(cards):
    """Headers, units and spelling as scripts parse them."""
    fake = cards("550")
    out = run(fake, "--query-gpu=index,gpu_name,memory.total,memory.used,utilization.gpu,temperature.gpu,power.draw,clocks.sm,"
              "clocks_throttle_reasons.active,compute_mode,persistence_mode,pstate,fan.speed", "--format=csv").stdout.splitlines()
    assert out[0] == ("index, name, memory.total [MiB], memory.used [MiB], utilization.gpu [%], temperature.gpu, power.draw [W], "
                      "clocks.current.sm [MHz], clocks_event_reasons.active, compute_mode, persistence_mode, pstate, fan.speed [%]")
    assert out[1] == ("0, NVIDIA H100 80GB HBM3, 81559 MiB, 4342 MiB, 92 %, 70, 70.00 W, 345 MHz, 0x0000000000000001, Default, "
                      "Enabled, P0, 33 %")
    assert run(fake, "--query-gpu", "memory.used", "--format=csv,noheader,nounits").stdout == "4342\n4\n"
    assert run(fake, "--query-gpu=memory.free,addressing_mode", "--format=csv,noheader", "-i", "1").stdout == "81016 MiB, [N/A]\n"
    apps = run(fake, "--query-compute-apps=pid,process_name,used_memory", "--format=csv").stdout.splitlines()
    assert apps[0] == "pid, process_name, used_gpu_memory [MiB]"
    assert re.fullmatch(rf"{os.getpid()}, \S+, 4321 MiB", apps[1]) and apps[2] == "4000001, [Not Found], 17 MiB"
    assert re.fullmatch(r"GPU 0: NVIDIA H100 80GB HBM3 \(UUID: GPU-80000000\S+\)", run(fake, "-L").stdout.splitlines()[0])
    assert re.match(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}, ", run(fake, "--query-gpu=timestamp,uuid", "--format=csv,noheader").stdout)
    assert run(cards("450"), "--query-gpu=addressing_mode", "--format=csv,noheader", "-i", "0").stdout == "[Not Supported]\n"


@pytest.mark.parametrize("code, word", [(4, "[Insufficient Permissions]"), (999, "[Unknown Error]"), (3, "[N/A]"), (6, "[N/A]")])
def test_why_a_value_is_missing_has_nvidia_smi_s_words(cards, code, word):
    """Of figures, of what is asked for by name alone and of totals; the other card has its own."""
    calls = ("MemoryInfo*", "PowerUsage", "VbiosVersion", "PowerManagementDefaultLimit", "CurrentClocks*Reasons", "UtilizationRates", "Samples")
    fake = cards(more="".join(f"[call nvmlDeviceGet{call}]\ngpu = 1\nerror = {code}\n" for call in calls))
    fields = "memory.total,memory.used,memory.free,memory.reserved,power.draw,vbios_version,power.default_limit,clocks_event_reasons.gpu_idle,utilization.gpu"
    out = run(fake, f"--query-gpu={fields},temperature.gpu", "--format=csv,noheader").stdout.splitlines()
    assert "[" not in out[0]
    assert out[1].split(", ") == [word] * len(fields.split(",")) + ["70"]


def test_an_instance_is_listed_and_asked_for_as_nvidia_smi_has_it(tmp_path):
    """By its own name alone, and by the number that the table has for it."""
    fake = Fake(tmp_path, "mig")
    rows = [row for row in run(fake, "-L").stdout.splitlines() if row.startswith(" ")]
    assert rows and all(re.fullmatch(r"  MIG \d\S*gb +Device  \d: \(UUID: MIG-\S+\)", row) for row in rows), rows
    uuid = re.search(r"UUID: (\S+)\)", rows[-1]).group(1)
    number = next(d for d in json.loads(run(fake, "--json").stdout)["devices"] if d["uuid"] == uuid)["number"]
    for name in (number, number.replace(".", ":")):
        assert run(fake, "-L", "-i", name).stdout == rows[-1] + "\n"
    assert run(fake, "-i", "0.77", status=NO_GPU).stdout == ""


def test_memory_that_is_the_hosts_is_not_the_gpus(tmp_path):
    """Of a GB10 nvidia-smi tells no memory at all."""
    row = run(Fake(tmp_path, "gb10"), "--query-gpu=memory.total,memory.used,memory.free", "--format=csv,noheader").stdout
    assert row == "[N/A], [N/A], [N/A]\n"


@pytest.mark.parametrize("kind", ["gpu", "compute-apps"])
def test_every_field_can_be_asked_for(cards, kind):
    fake = cards()
    names = re.findall(r'"([\w.]+)"', run(fake, f"--help-query-{kind}").stdout)
    assert len(names) > (80 if kind == "gpu" else 8) and len(names) == len(set(names))
    header, *rows = run(fake, f"--query-{kind}={','.join(names)}").stdout.splitlines()
    assert len(header.split(", ")) == len(names) and len(rows) == 2
    assert all(len(row.split(", ")) == len(names) for row in rows)


def test_a_program_name_is_one_field_of_one_row(cards):
    """Line breaks, escapes and commas in it forge neither rows nor fields, and no terminal sees them."""
    forged = "evil\n1, 2, 3 MiB\x1b]0;t\x07, x"
    with subprocess.Popen([forged, "-c", "import sys; sys.stdin.read()"], executable=sys.executable, stdin=subprocess.PIPE) as evil:
        rows = run(cards(), "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader", pid=evil.pid).stdout
        table = run(cards(), "--csv=processes", pid=evil.pid).stdout
        evil.stdin.close()
    assert not re.search("[\x00-\x09\x0b-\x1f]", table) and len(table.splitlines()) == 3
    assert next(csv.DictReader(table.splitlines()))["command"].startswith("evil?1, 2, 3 MiB?]0;t?, x ")
    assert rows == f"{evil.pid}, evil 1; 2; 3 MiB?]0;t?; x, 4321 MiB\n4000001, [Not Found], 17 MiB\n"


@pytest.mark.parametrize("table,column", [("--csv", "uuid"), ("--csv=processes", "gpu_uuid")])
def test_what_a_driver_says_is_one_field_of_a_table(cards, table, column):
    rows = list(csv.DictReader(run(cards(more='[gpu 0]\nuuid = GPU-a,"b\n'), table).stdout.splitlines()))
    assert rows[0][column] == 'GPU-a,"b' and None not in rows[0], rows


def test_a_field_that_is_none(cards):
    done = run(cards(), "--query-gpu=index,utilisation.gpu", status=2)
    assert 'Field "utilisation.gpu" is not a valid field to query.' in done.stderr and '"utilization.gpu"?' in done.stderr
    assert "noheader" in run(cards(), "--query-gpu=index", "--format=csv,nohead", status=2).stderr
    assert "csv" in run(cards(), "--query-gpu=index", "--format=noheader", status=2).stderr


@pytest.mark.parametrize("ids,numbers", [("1", [1]), ("1,0", [0, 1]), ("GPU-80000000-0000-4000-8000-000000000001", [1]),
                                         ("00000000:10:00.0", [0]), ("0000:11:00.0", [1]), ("11:00.0", [1])])
def test_which(cards, ids, numbers):
    assert [d["index"] for d in as_json(cards(), "-i", ids)["devices"]] == numbers


def test_each_five_seconds_unless_a_number_follows(cards):
    for options in (["-l"], ["-l", "-i", "0"], ["--loop"]):
        with subprocess.Popen([HIWATER, "gpus", "--query-gpu=index", "--format=csv,noheader", *options],
                              env={**os.environ, **cards().environment(time=15, pid=os.getpid())}, stdout=subprocess.PIPE, text=True) as looking:
            assert looking.stdout.readline() == "0\n"
            assert looking.poll() is None
            looking.terminate()
    assert "'x' is no interval" in run(cards(), "-l", "x", status=2).stderr
    assert "-lms needs a number" in run(cards(), "-lms", status=2).stderr


@pytest.mark.parametrize("words, option, unit, wrong", [
    ("-lms=abc", "-lms", "milliseconds", "abc"), ("-lmsabc", "-lms", "milliseconds", "abc"), ("-lms abc", "-lms", "milliseconds", "abc"),
    ("-lms=0.5", "-lms", "milliseconds", "0.5"), ("--loop-ms abc", "--loop-ms", "milliseconds", "abc"), ("-labc", "-l (--loop)", "seconds", "abc"),
    ("-l abc", "-l (--loop)", "seconds", "abc"), ("--loop abc", "-l (--loop)", "seconds", "abc"), ("--loop=-1", "-l (--loop)", "seconds", "-1"),
    ("-l nan", "-l (--loop)", "seconds", "nan"), ("-l 1e9", "-l (--loop)", "seconds", "1e9")])
def test_an_interval_that_is_none_names_its_option(cards, words, option, unit, wrong):
    """As it was written, and what to write instead."""
    told = run(cards(), *words.split(), status=2).stderr
    assert told.startswith(f"hiwater: {option}: '{wrong}' is no interval: give a number of {unit} ") and "such as -" in told, told


def test_of_two_intervals_the_last_one_counts(cards):
    assert "'x' is no interval" in run(cards(), "--loop-ms=20", "-lx", status=2).stderr
    assert run(cards(), "-lms", "--loop-ms=x", status=2).stderr.startswith("hiwater: --loop-ms: ")


def test_a_long_command_is_whole_in_csv(cards):
    """Quoted, its characters are not cut, wherever they stand."""
    words = [sys.executable, "-c", "import sys; sys.stdin.read()", *("a" * i + ',"' + "\u00e4" * 600 for i in range(2))]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as long:
        out = run(cards(), "--csv=processes", pid=long.pid).stdout
        long.stdin.close()
    assert "\ufffd" not in out and next(csv.DictReader(io.StringIO(out)))["command"].count("\u00e4") == 1200


def test_which_is_none(cards):
    assert "no GPU here is 7" in run(cards(), "-i", "7", status=NO_GPU).stderr
    assert "no GPU was asked for" in run(cards(), "-i", ", ", status=NO_GPU).stderr


def test_again_and_again(cards):
    """Each look is a new one, and processes come and go."""
    fake = cards(more="[process 1]\npid = 4000002\nmemory = 1Gi\nfrom = 100\n")
    clock = pathlib.Path(fake.scenario).parent / "time"
    clock.write_text("15")
    env = {**os.environ, **fake.environment(time=f"file:{clock}", pid=os.getpid())}
    for options in (["-lms", "20"], ["--loop-ms=20"], ["-l", "0.02"], ["-l0.02"], ["--loop", "0.02"], ["--loop=0.02"]):
        clock.write_text("15")
        with subprocess.Popen([HIWATER, "gpus", "--query-gpu=index,memory.used", "--format=csv,noheader,nounits", "-i", "1", *options],
                              env=env, stdout=subprocess.PIPE, text=True) as looking:
            assert looking.stdout.readline() == "1, 4\n"
            clock.write_text("110")
            deadline = time.monotonic() + 30
            while looking.stdout.readline() != "1, 1028\n":
                assert time.monotonic() < deadline
            looking.terminate()


@pytest.mark.parametrize("options,header", [(["--query-gpu=index", "--format=csv"], "index\n"), (["--csv"], "gpu,cuda_index,"),
                                            (["--query-compute-apps=pid", "--format=csv"], "pid\n")])
def test_a_table_that_goes_on_has_one_header(cards, options, header):
    env = {**os.environ, **cards().environment(time=15, pid=os.getpid())}
    with subprocess.Popen([HIWATER, "gpus", *options, "-lms", "20"], env=env, stdout=subprocess.PIPE, text=True) as looking:
        lines = [looking.stdout.readline() for _ in range(9)]
        looking.terminate()
    assert [line.startswith(header) for line in lines] == [True] + 8 * [False], lines


# ---- what goes wrong ------------------------------------------------------------------------------------------------

def test_no_gpu(tmp_path):
    empty = tmp_path / "machine"
    (empty / "proc").mkdir(parents=True)
    (empty / "sys").mkdir()
    done = subprocess.run([HIWATER, "gpus", "--root", empty], capture_output=True, text=True, check=False)
    assert done.returncode == NO_GPU and "no GPU is here" in done.stderr and done.stdout == ""
    done = subprocess.run([HIWATER, "gpus", "--json", "--root", empty], capture_output=True, text=True, check=False)
    assert done.returncode == NO_GPU and json.loads(done.stdout)["devices"] == []


@pytest.mark.parametrize("code, why", [(9, "kernel module is not loaded"), (12, "lacks a library"), (18, "different versions"),
                                       (6, "lacks a library"), (999, "does not start")])
def test_a_driver_that_cannot_be_asked(tmp_path, code, why):
    said = run(Fake(tmp_path, f"[call nvmlInit*]\nerror = {code}\n"), status=NO_DRIVER).stderr
    assert why in said and "no GPU is here" not in said


def test_a_library_that_is_named_and_cannot_be_loaded(cards, tmp_path):
    """It is asked in place of any other; which one it is, and why not, is said."""
    for library, why in (tmp_path / "none.so", "No such file"), (SCENARIOS / "hang.conf", "ELF"):
        said = run(cards(), status=NO_DRIVER, HIWATER_NVML=str(library)).stderr
        assert f"HIWATER_NVML names no library that can be loaded: {library}" in said and why in said


def test_a_driver_without_a_gpu(tmp_path):
    assert "knows no GPU" in run(Fake(tmp_path, "[driver]\nlevel = 550\n"), status=NO_GPU).stderr


def test_a_driver_that_hangs(tmp_path):
    began = time.monotonic()
    done = run(Fake(tmp_path, "hang"), "--timeout", "300ms", time=20, status=SILENT)
    assert time.monotonic() - began < 20 and "NVML has not answered in 0.3 s" in done.stderr
    shown = json.loads(run(Fake(tmp_path, "hang"), "--timeout=300ms", "--json", time=20, status=SILENT).stdout)
    jsonschema.validate(shown, SCHEMA)
    of_gpu, of_driver = (n["why"] for n in shown["notes"])
    assert of_gpu == "GPU 1: its driver did not say who it is when it was asked" and "NVML has not answered" in of_driver


def test_a_driver_that_is_slow_is_not_stuck(cards):
    """Each call takes a tenth of the patience: all of them take longer than that."""
    done = run(cards(more="[call nvmlDevice*]\ndelay = 0.1\n"), "--timeout=1s", status=SILENT)
    assert "NVML was not done in 1 s: its driver answers, and slowly" in done.stderr, done.stderr


def test_a_driver_that_hangs_leaves_the_others(cards):
    """What one source knew before the other one was given up is shown."""
    fake = cards(more="[call nvmlInit*]\nhang = 1\n")
    env = {"HIWATER_NVML": str(BUILD / "tests/fake/drivers/580/libnvidia-ml.so.1")}
    done = run(fake, "--root", TREES / "amd-rdna", "--timeout=500ms", status=SILENT, **env)
    assert "Radeon" in done.stdout or "AMD" in done.stdout, done.stdout


def test_a_driver_that_crashes(cards):
    assert "crashed" in run(cards(more="[call nvmlDeviceGetName]\ncrash = 1\n"), status=1).stderr


@pytest.mark.parametrize("what, status", [("hang", SILENT), ("crash", 1)])
def test_a_gpu_that_fails_takes_nothing_from_those_that_answered(cards, what, status):
    """Of the look in which it fails alone: the next one shows nothing of it as new."""
    fake = cards(more=f"[call nvmlDeviceGetUtilizationRates]\ngpu = 1\n{what} = 1\n")
    shown = as_json(fake, "--timeout=500ms", status=status)
    well, ill = shown["devices"]
    assert well["utilization"]["gpu"] == 0.92 and well["power_w"]["now"] is not None and well["memory"]["used_bytes"] > 0
    assert ill["utilization"]["gpu"] is None and ill["memory"]["used_bytes"] > 0
    assert [(d["memory"]["unattributed_bytes"], d["processes"]) for d in (well, ill)] == [(None, None)] * 2  # no list came
    with subprocess.Popen([HIWATER, "gpus", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-i", "0", "-lms", "20", "--timeout=500ms"],
                          env={**os.environ, **fake.environment(time=15)}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as looking:
        assert [looking.stdout.readline() for _ in range(2)] == ["92\n", "[N/A]\n"]
        looking.terminate()


@pytest.mark.parametrize("what, status, words", [("hang", SILENT, "is stuck in {})"), ("crash", 1, "the process that asked NVML crashed in {}")])
@pytest.mark.parametrize("call, where, named", [
    ("nvmlInit*", "", "nvmlInitWithFlags"), ("nvmlDeviceGetCount*", "", "nvmlDeviceGetCount_v2"),
    ("nvmlDeviceGetName", "gpu = 1", "nvmlDeviceGetName of GPU 1"),
    ("nvmlDeviceGetUtilizationRates", "gpu = 1", "nvmlDeviceGetUtilizationRates of GPU 1"),
    ("nvmlDeviceGetComputeRunningProcesses*", "gpu = 1", "nvmlDeviceGetComputeRunningProcesses_v3 of GPU 1"),
    ("nvmlGpmSampleGet", "gpu = 1", "nvmlGpmSampleGet of GPU 1")])
def test_a_call_that_fails_is_named(cards, call, where, named, what, status, words):
    said = run(cards(more=f"[call {call}]\n{where}\n{what} = 1\n"), "--timeout=500ms", status=status).stderr
    assert words.format(named) in said, said


@pytest.mark.parametrize("what, status", [("hang", SILENT), ("crash", 1)])
@pytest.mark.parametrize("call", ["nvmlDeviceGetUtilizationRates", "nvmlDeviceGetFanSpeed*", "nvmlDeviceGetComputeRunningProcesses*", "nvmlGpmSampleGet"])
def test_a_gpu_is_asked_for_all_figures_before_the_next_that_fails(cards, call, what, status):
    whole, _ = as_json(cards())["devices"]
    well, _ = as_json(cards(more=f"[call {call}]\ngpu = 1\n{what} = 1\n"), "--timeout=500ms", status=status)["devices"]
    if "Processes" not in call:  # lists come behind the figures of all
        for device in (whole, well):
            del device["processes"]
            device["memory"] = {name: value for name, value in device["memory"].items() if name.endswith(("total_bytes", "used_bytes", "free_bytes"))}
    assert well == whole


@pytest.mark.parametrize("what, status", [("hang", SILENT), ("crash", 1)])
@pytest.mark.parametrize("call", ["nvmlDeviceGetMemoryInfo*", "nvmlDeviceGetUUID", "nvmlDeviceGetHandleByIndex*"])
def test_a_gpu_that_does_not_say_who_it_is_takes_nothing_from_those_before_it(cards, call, what, status):
    """It has a row of its own, and the reason; those behind it were not asked."""
    fake = cards(more=f"[gpu 2]\ninclude = {SCENARIOS}/cards/h100.conf\n[call {call}]\ngpu = 1\n{what} = 1\n")
    shown = as_json(fake, "--timeout=500ms", status=status)
    well, ill = shown["devices"]
    assert (well["index"], ill["index"], ill["uuid"]) == (0, 1, None)
    assert well["uuid"].startswith("GPU-") and "H100" in well["name"] and well["memory"]["total_bytes"] > 0
    assert [d["processes"] for d in (well, ill)] == [None, None] and ill["memory"]["total_bytes"] is None
    why = [n["why"] for n in shown["notes"]]
    assert "GPU 1: its driver did not say who it is when it was asked" in why and len(why) == 2, why
    assert len(run(fake, "--query-gpu=index", "--format=csv,noheader", "--timeout=500ms", status=status).stdout.split()) == 2


def test_a_gpu_beside_a_sleeping_one_that_does_not_say_who_it_is(cards, tmp_path):
    """Those that are awake are asked for by their place; which of them is asked first is sysfs's to say."""
    for place, state in (("0000:10:00.0", "active"), ("0000:11:00.0", "active"), ("0000:05:00.0", "suspended")):
        device = tmp_path / "m/sys/bus/pci/devices" / place
        (device / "power").mkdir(parents=True)
        for name, value in {"vendor": "0x10de", "class": "0x030200", "power/runtime_status": state, "power/control": "auto"}.items():
            (device / name).write_text(value + "\n")
    (tmp_path / "m/proc").mkdir()
    fake = cards(more="[call nvmlDeviceGetHandleByPciBusId*]\ngpu = 0\nhang = 1\n")
    env = {"HIWATER_NVML": str(BUILD / "tests/fake/drivers/580/libnvidia-ml.so.1")}
    shown = as_json(fake, "--root", tmp_path / "m", "--timeout=500ms", status=SILENT, **env)
    asked = [d for d in shown["devices"] if d["pci"] == "0000:10:00.0"]
    assert [d["uuid"] for d in asked] == [None]
    assert all(d["uuid"] for d in shown["devices"] if d["pci"] == "0000:11:00.0")
    open_ones = [n["why"] for n in shown["notes"] if "did not say who it is" in n["why"]]
    assert len(open_ones) == 1 and open_ones[0].startswith(f"GPU {asked[0]['number']}:"), (open_ones, asked)


def test_a_gpu_that_does_not_say_how_it_is_divided_has_said_who_it_is(tmp_path):
    text = (SCENARIOS / "mig.conf").read_text().replace("include = cards", f"include = {SCENARIOS}/cards")
    fake = Fake(tmp_path, text + "[call nvmlDeviceGetMaxMigDeviceCount]\nhang = 1\n", "550")
    shown = as_json(fake, "--timeout=500ms", status=SILENT)
    assert shown["devices"][0]["uuid"] and shown["devices"][0]["memory"]["total_bytes"] > 0
    why = [n["why"] for n in shown["notes"]]
    assert "GPU 0: its driver did not say how it is divided when it was asked" in why, why


@pytest.mark.parametrize("what, status", [("hang", SILENT), ("crash", 1)])
def test_lists_that_came_do_not_wait_for_the_next_one(cards, what, status):
    fake = cards(more=f"[call nvmlDeviceGetComputeRunningProcesses*]\ngpu = 1\n{what} = 1\n")
    well, ill = as_json(fake, "--timeout=500ms", status=status)["devices"]
    assert sorted(p["memory_bytes"] for p in well["processes"]) == [17 * MIB, 4321 * MIB] and ill["processes"] is None
    assert well["utilization"]["gpu"] == 0.92 and ill["utilization"]["gpu"] == 0.55


@pytest.mark.parametrize("what, then", [("hang", "not asked any more"), ("crash", "asked again soon")])
def test_what_is_not_asked_any_more_is_unknown(cards, what, then):
    """A driver that fails after good looks: no later look shows its figures as new ones."""
    fake = cards(more=f"[call nvmlDeviceGetTemperature*]\n{what} = 1\nfrom = 100\n")
    clock = pathlib.Path(fake.scenario).parent / "time"
    clock.write_text("15")
    env = {**os.environ, **fake.environment(time=f"file:{clock}", pid=os.getpid())}
    with subprocess.Popen([HIWATER, "gpus", "--query-gpu=index,memory.used", "--format=csv,noheader,nounits", "-i", "1", "-lms", "20",
                           "--timeout=500ms"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as looking:
        assert looking.stdout.readline() == "1, 4\n"
        clock.write_text("110")
        deadline = time.monotonic() + 30
        while looking.stdout.readline() != "1, [N/A]\n":
            assert time.monotonic() < deadline
        assert [looking.stdout.readline() for _ in range(3)] == ["1, [N/A]\n"] * 3
        looking.terminate()
        assert f"NVML is {then}" in looking.stderr.read()


def test_a_total_that_was_not_had_at_first_is_told_later(cards):
    """It is the same GPU, once."""
    fake = cards(more="[call nvmlDeviceGetMemoryInfo*]\nerror = 999\nuntil = 100\ngpu = 1\n")
    clock = pathlib.Path(fake.scenario).parent / "time"
    clock.write_text("15")
    env = {**os.environ, **fake.environment(time=f"file:{clock}", pid=os.getpid())}
    with subprocess.Popen([HIWATER, "gpus", "--query-gpu=count,index,memory.total", "--format=csv,noheader,nounits", "-lms", "20"],
                          env=env, stdout=subprocess.PIPE, text=True) as looking:
        assert [looking.stdout.readline() for _ in range(2)] == ["2, 0, 81559\n", "2, 1, [Unknown Error]\n"]
        clock.write_text("110")
        deadline = time.monotonic() + 30
        while looking.stdout.readline() != "2, 1, 81559\n":
            assert time.monotonic() < deadline
        looking.terminate()


def test_after_a_crash_it_is_asked_again(cards):
    """As in a run; and where its driver is gone meanwhile, that is told."""
    fake = cards(more="[call nvmlDeviceGetTemperature*]\ncrash = 1\nfrom = 100\nuntil = 200\n[call nvmlInit*]\nerror = 9\nfrom = 300\n")
    clock = pathlib.Path(fake.scenario).parent / "time"

    def await_line(wanted, pipe):
        deadline = time.monotonic() + 30
        while wanted not in pipe.readline():
            assert time.monotonic() < deadline

    clock.write_text("15")
    env = {**os.environ, **fake.environment(time=f"file:{clock}", pid=os.getpid())}
    with subprocess.Popen([HIWATER, "gpus", "--query-gpu=index,memory.used", "--format=csv,noheader,nounits", "-i", "1", "-lms", "20"],
                          env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as looking:
        for at, lines in ((15, ["1, 4"]), (110, ["crashed", "asked again soon", "1, [N/A]"]), (210, ["1, 4"]), (110, ["crashed"]), (310, ["cannot be asked again"])):
            clock.write_text(str(at))
            for line in lines:
                await_line(line, looking.stdout)
        looking.terminate()


def test_a_crash_is_noted_in_its_look_alone(cards):
    """What answers again has no note of it; meanwhile there is one that nobody is asked."""
    fake = cards(more="[call nvmlDeviceGetTemperature*]\ncrash = 1\nfrom = 100\nuntil = 200\n")
    clock = pathlib.Path(fake.scenario).parent / "time"
    clock.write_text("15")
    env = {**os.environ, **fake.environment(time=f"file:{clock}", pid=os.getpid())}

    def await_notes(pipe, *wanted):
        deadline = time.monotonic() + 30
        while [n["why"].partition(" in nvml")[0] for n in json.loads("".join(iter(pipe.readline, "}\n")) + "}")["notes"]] != list(wanted):
            assert time.monotonic() < deadline

    with subprocess.Popen([HIWATER, "gpus", "--json", "-lms", "20"], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as looking:
        for at, wanted in ((15, []), (110, ["the process that asked NVML crashed"]), (110, ["NVML is asked again soon"]), (210, [])):
            clock.write_text(str(at))
            await_notes(looking.stdout, *wanted)
        looking.terminate()


@pytest.mark.parametrize("options, rows", [(["--query-compute-apps=pid,used_memory"], 1), (["--csv=processes"], 1), (["--query-gpu=index"], 3)])
def test_processes_that_a_driver_refuses_to_list_are_said_on_stderr(cards, options, rows):
    """A script that sees no process would take the machine for free. Where no process is asked for, nothing is missing."""
    done = run(cards(more="[call nvmlDeviceGet*RunningProcesses*]\nerror = 4\n"), *options)
    assert len(done.stdout.splitlines()) == rows
    words = "hiwater: warning: GPU {}: its compute processes cannot be listed: no permission (NVML's code 4)"
    told = done.stderr.splitlines()
    assert [line.partition("): ")[0] + ")" for line in told] == ([words.format(0), words.format(1)] if rows == 1 else []), told
    assert not run(cards(), *options).stderr


@pytest.mark.parametrize("options", [["--query-gpu=index"], ["--csv"], ["--line={gpu}\\n"], ["-L"], ["--query-compute-apps=pid"], ["--csv=processes"]])
def test_a_gpu_that_cannot_be_opened_is_said_on_stderr(cards, options):
    """It has no row; once, also where it goes on. Who asks for another one alone misses nothing."""
    fake = cards(more="[call nvmlDeviceGetHandleByIndex*]\ngpu = 1\nerror = 4\n")
    told = run(fake, *options).stderr
    assert told.startswith("hiwater: warning: GPU 1: closed: no permission") and told.count("\n") == 1
    assert not run(fake, *options, "-i", "0").stderr and not run(fake).stderr
    with subprocess.Popen([HIWATER, "gpus", *options, "--no-header", "-lms", "20"], env={**os.environ, **fake.environment(time=15, pid=os.getpid())},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as looking:
        for _ in range(4):
            assert looking.stdout.readline()
        looking.terminate()
        assert looking.stderr.read().count("GPU 1") == 1


def test_a_lost_gpu_leaves_the_others(tmp_path):
    done = run(Fake(tmp_path, "lost"), time=20, status=LOST)
    assert re.search(r"^ +0 +0 +.*H100", done.stdout, re.M) and "fallen off the bus" in done.stdout
    fake = Fake(tmp_path, f"[driver]\nlevel = 550\n[gpu 0]\ninclude = {SCENARIOS}/cards/h100.conf\n"
                          "[call nvmlDeviceGetPowerUsage]\nerror = 15\n")
    assert json.loads(run(fake, "--json", status=LOST).stdout)["devices"][0]["state"] == "lost"
    assert run(fake, "--query-gpu=power.draw,uuid", "--format=csv,noheader", status=LOST).stdout.startswith("[GPU is lost], GPU-8")
    reset = Fake(tmp_path, pathlib.Path(fake.scenario).read_text().replace("error = 15", "error = 16"))
    assert run(reset, "--query-gpu=power.draw", "--format=csv,noheader", status=LOST).stdout == "[GPU requires reset]\n"
    assert "needs a reset" in run(reset, status=LOST).stdout


def test_a_gpu_that_was_lost_before_has_a_row(cards):
    """Its handle, name, UUID and place answer, nothing else does."""
    fake = cards("550", "".join(f"[call nvmlDeviceGet{c}]\ngpu = 0\nerror = 15\n" for c in ("Mem*", "Ut*", "Power*", "Temp*", "*Run*")))
    shown = as_json(fake, status=LOST)
    assert [(d["index"], d["state"]) for d in shown["devices"]] == [(0, "lost"), (1, "ok")]
    lost, other = shown["devices"]
    assert lost["uuid"] != other["uuid"] and lost["name"] == other["name"]
    assert set(lost["memory"].values()) == {None, False} and lost["power_w"]["now"] is None and lost["utilization"]["gpu"] is None
    assert other["memory"]["used_bytes"] > 0
    assert [n["why"] for n in shown["notes"] if "fallen off the bus" in n["why"]]
    done = run(fake, "--query-gpu=index,name,memory.used", "--format=csv,noheader", status=LOST)
    assert done.stdout.splitlines()[0] == f"0, {lost['name']}, [GPU is lost]"
    assert "GPU 0 is lost" in done.stderr
    assert re.search(r"^ +0 +0 +.*H100", run(fake, status=LOST).stdout, re.M)


def test_a_lost_gpu_is_named_beside_a_driver_that_hangs(cards, tmp_path):
    """Whether it is its own or another's."""
    lost = "[call nvmlDeviceGetPowerUsage]\ngpu = 0\nerror = 15\n"
    own = run(cards(more=lost + "[call nvmlDeviceGetUtilizationRates]\ngpu = 1\nhang = 1\n"), "--csv", "--timeout=500ms", status=SILENT).stderr
    assert "NVML has not answered in 0.5 s" in own and "warning: GPU 0: lost: the GPU has fallen off the bus" in own, own
    fake = Fake(tmp_path, f"include = {SCENARIOS}/dcgm.conf\n{lost}[call dcgmConnect*]\nhang = 1\n", level_of(SCENARIOS / "dcgm.conf"))
    others = run(fake, "--timeout=500ms", status=SILENT, HIWATER_DCGM_ENGINE="127.0.0.1:5555").stderr
    assert re.search(r"^hiwater: DCGM .*not answered.*; GPU 0 is lost$", others, re.M), others


@pytest.mark.parametrize("terminal", [False, True])
def test_text_fits_forty_columns(cards, terminal):
    """The amounts stay; what matters least is left out, the header and names are cut. Also of cards with SM activity, and beside a note."""
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


@pytest.mark.parametrize("options, told", [(["--csv"], True), (["-L"], False), (["--query-gpu=index"], False), (["--csv=processes"], False)])
def test_figures_that_are_left_out_are_said_on_stderr(cards, options, told):
    """As the table has it, where all figures are asked for."""
    fake = cards(more="[gpu 1]\nutil = 255\n[call nvmlDeviceGetPowerUsage]\ngpu = 0\nerror = 4\n")
    refused, nonsense = (f"hiwater: warning: GPU {words}" for words in ("0: the driver refuses figures, gpu.power first: no permission",
                                                                         "1: what the driver says for gpu.busy cannot be so: it is left out"))
    lines = run(fake, *options).stderr.splitlines()
    assert [line for line in lines if line.startswith(refused)] == lines[:1] * told and (nonsense in lines) == told and len(lines) == 2 * told, lines
    assert refused[18:] in " ".join(run(fake, COLUMNS="200").stdout.split())


@pytest.fixture
def lost(tmp_path):
    """Four cards: the first and the third are lost, of which the third has not told who it is; the last one is divided, and lost."""
    mig = "".join(f"[mig 3.{i}]\nname = NVIDIA H100 80GB HBM3 MIG 3g.40gb\nuuid = MIG-3{i}\nmemory_total = 40Gi\n" for i in (0, 1))
    return Fake(tmp_path, f"""
[driver]
version = 580.1
[gpu 0-3]
include = {SCENARIOS}/cards/h100.conf
[call nvmlDeviceGetMem*]
gpu = 0
error = 15
[call nvmlDeviceGetHandleByIndex*]
gpu = 2
error = 16
[gpu 3]
mig_mode = 1
{mig}
[call nvmlDeviceGetPowerUsage]
gpu = 3
error = 15
""", "580")


def test_every_lost_gpu_is_named(lost):
    """In one sentence; those that were asked for alone, and an instance that was asked for without its GPU."""
    for options in ([], ["-L"], ["--spec"], ["--csv"], ["--query-gpu=index"]):
        assert "GPUs 0, 2 and 3 are lost\n" in run(lost, *options, status=LOST).stderr
    assert run(lost, "-L", "-i", "2,0", status=LOST).stderr.startswith("hiwater: GPUs 0 and 2 are lost\n")
    assert run(lost, "-L", "-i", "3.1", status=LOST).stderr == "hiwater: GPU 3.1 is lost\n"
    why = ("hiwater: GPU 2 is lost\nhiwater: warning: GPU 2: lost: the GPU needs a reset: nvidia-smi --gpu-reset, or reboot (NVML's code 16): "
           "what a job holds there is not known\n")
    for options in (["-L"], ["--csv"], ["--query-gpu=index"], ["--line={gpu}"], ["--csv=processes"]):
        assert run(lost, *options, "-i", "2", status=LOST).stderr == why
    assert run(lost, "-i", "2", status=LOST).stderr == "hiwater: GPU 2 is lost\n", "the table has a note"
    assert not run(lost, "-L", "-i", "1").stderr
    assert [d["state"] for d in as_json(lost, status=LOST)["devices"]] == ["lost", "ok", "lost", "lost", "lost", "lost"]


def test_a_lost_gpu_is_listed_as_lost(lost):
    """By what is known of it; a row is never empty."""
    name, uuid = "NVIDIA H100 80GB HBM3", "GPU-80000000-0000-4000-8000-00000000000"
    assert run(lost, "-L", status=LOST).stdout.splitlines() == [
        f"GPU 0: {name} (UUID: {uuid}0): lost", f"GPU 1: {name} (UUID: {uuid}1)", "GPU 2: nvidia (UUID: unknown): lost",
        f"GPU 3: {name} (UUID: {uuid}3): lost", "  MIG 3g.40gb     Device  0: (UUID: MIG-30): lost", "  MIG 3g.40gb     Device  1: (UUID: MIG-31): lost"]
    blocks = [b.splitlines() for b in run(lost, "--spec", status=LOST).stdout.split("\n\n") if b.startswith("GPU ")]
    told = [(b[0], dict(re.split(r"  +", line.strip(), maxsplit=1) for line in b[1:])) for b in blocks]
    assert [head for head, _ in told][:4] == [f"GPU 0  {name}", f"GPU 1  {name}", "GPU 2  nvidia", f"GPU 3  {name}"]
    assert [rows.get("State") for _, rows in told] == ["lost", None] + ["lost"] * 4
    assert [rows["UUID"] for _, rows in told][:3] == [f"{uuid}0", f"{uuid}1", "unknown"]


def test_a_sleeping_gpu_is_not_woken(cards, tmp_path):
    """The tree has an NVIDIA GPU that is powered down; the driver must hear of none of it."""
    log = tmp_path / "log"
    env = {"HIWATER_NVML": str(BUILD / "tests/fake/drivers/580/libnvidia-ml.so.1"), "HIWATER_FAKE_LOG": str(log)}
    device = tmp_path / "m" / "sys/bus/pci/devices/0000:10:00.0"
    (device / "power").mkdir(parents=True)
    (tmp_path / "m" / "proc").mkdir()
    for name, value in {"vendor": "0x10de", "class": "0x030200", "power/runtime_status": "suspended", "power/control": "auto"}.items():
        (device / name).write_text(value + "\n")
    done = run(cards(), "--spec", "--root", tmp_path / "m", status=NO_DRIVER, **env)
    assert "asleep" in done.stderr
    assert "Handle" not in log.read_text() and "Count" not in log.read_text()


def test_a_gpu_that_wakes_is_not_asleep_any_more(tmp_path):
    """What a look says of a GPU is that look's alone."""
    shutil.copytree(TREES / "amd-rdna", tmp_path / "m", symlinks=True)
    status = tmp_path / "m/sys/class/drm/card1/device/power/runtime_status"
    status.chmod(0o644)
    with subprocess.Popen([HIWATER, "gpus", "--json", "-lms", "20", "--root", tmp_path / "m"], stdout=subprocess.PIPE, text=True) as looking:
        states = (found[1] for line in looking.stdout if (found := re.search(r'"state": ?"(\w+)"', line)))
        assert next(states) == "ok"
        for word, awaited in (("suspended", "asleep"), ("active", "ok")):
            status.write_text(word + "\n")
            deadline = time.monotonic() + 20
            while next(states) != awaited:
                assert time.monotonic() < deadline
        looking.terminate()


# ---- other makers' --------------------------------------------------------------------------------------------------

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
    for format in (["--csv"], ["--query-gpu=index,name,memory.total,utilization.gpu"], ["--line", "{gpu} {busy}"], ["-L"], []):
        assert subprocess.run([HIWATER, "gpus", *format, "--root", TREES / tree], capture_output=True, check=False).returncode == 0


def test_what_amds_are_made_of():
    """By KFD's topology of the first card of the tree; its second card says nothing of itself."""
    done = subprocess.run([HIWATER, "gpus", "--json", "--spec", "--root", TREES / "amd-mi"], capture_output=True, text=True, check=True)
    shown = json.loads(done.stdout)
    jsonschema.validate(shown, SCHEMA)
    spec, other = (d["spec"] for d in shown["devices"])
    assert (spec["architecture"], spec["sms"], spec["warp_threads"], spec["warps_per_sm"]) == ("gfx942", 304, 64, 32)
    assert (spec["shared_bytes_per_sm"], spec["sm_clock_hz"], spec["copy_engines"]) == (64 << 10, 2100 * 10**6, 16)
    assert spec["compute_capability"] is None and other["architecture"] is None and other["sms"] is None


def test_one_thing_at_a_time(cards):
    assert "--json and --csv" in run(cards(), "--json", "--csv", status=2).stderr
    assert "--spec" in run(cards(), "--spec", "--csv", status=2).stderr
    assert "no operand" in run(cards(), "0", status=2).stderr
    assert "milliseconds" in run(cards(), "-lms", status=2).stderr

# SPDX-License-Identifier: MIT
"""hiwater gpus with faults: no driver, one that fails or hangs, GPUs that are lost, closed or asleep."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

import jsonschema
import pytest
from fake_gpu import BUILD, SCENARIOS, Fake, level_of
from gpus_command import HIWATER, LOST, MIB, NO_DRIVER, NO_GPM, NO_GPU, SCHEMA, SILENT, TREES, as_json, run


def test_no_gpu(tmp_path):
    empty = tmp_path / "machine"
    (empty / "proc").mkdir(parents=True)
    (empty / "sys").mkdir()
    done = subprocess.run([HIWATER, "gpus", "--root", empty], capture_output=True, text=True, check=False)
    assert done.returncode == NO_GPU and "no GPU found" in done.stderr and done.stdout == ""
    done = subprocess.run([HIWATER, "gpus", "--json", "--root", empty], capture_output=True, text=True, check=False)
    shown = json.loads(done.stdout)
    assert done.returncode == NO_GPU and shown["devices"] == [] and ["no GPU found" in n["why"] for n in shown["notes"]] == [True]


@pytest.mark.parametrize("scenario, options, status, why", [
    ("[driver]\nlevel = 550\n", (), NO_GPU, "reports no GPU"),
    ("[gpu 0]\nname = some\n", ("--id=7",), NO_GPU, "no GPU 7 found"),
    ("[call nvmlInit*]\nerror = 9\n", (), NO_DRIVER, "kernel module is not loaded"),
    ("[call nvmlInit*]\nerror = 12\n", (), NO_DRIVER, "a library that NVML needs is missing")])
def test_json_states_why_it_has_no_device(tmp_path, scenario, options, status, why):
    """Once, and on stderr once, too."""
    done = run(Fake(tmp_path, scenario), "--json", *options, status=status)
    shown = json.loads(done.stdout)
    jsonschema.validate(shown, SCHEMA)
    assert shown["devices"] == [] and [n["about"] for n in shown["notes"] if why in n["why"]] == ["gpu"], shown["notes"]
    assert done.stderr.count(why) == 1, done.stderr


@pytest.mark.parametrize("code, why", [(9, "kernel module is not loaded"), (12, "a library that NVML needs is missing"), (18, "different versions"),
                                       (6, "a library that NVML needs is missing"), (999, "cannot be initialised")])
def test_a_driver_that_cannot_be_read(tmp_path, code, why):
    said = run(Fake(tmp_path, f"[call nvmlInit*]\nerror = {code}\n"), status=NO_DRIVER).stderr
    assert why in said and "no GPU found" not in said


def test_a_library_that_is_named_and_cannot_be_loaded(cards, tmp_path):
    """It replaces all others; its name and the reason are reported."""
    for library, why in (tmp_path / "none.so", "No such file"), (SCENARIOS / "hang.conf", "ELF"):
        said = run(cards(), status=NO_DRIVER, HIWATER_NVML=str(library)).stderr
        assert f"the library that HIWATER_NVML names cannot be loaded: {library}" in said and why in said


def test_a_driver_without_a_gpu(tmp_path):
    assert "reports no GPU" in run(Fake(tmp_path, "[driver]\nlevel = 550\n"), status=NO_GPU).stderr


def test_a_driver_that_hangs(tmp_path):
    began = time.monotonic()
    done = run(Fake(tmp_path, "hang"), "--timeout", "300ms", time=20, status=SILENT)
    assert time.monotonic() - began < 20 and "NVML has not answered in 0.3 s" in done.stderr
    shown = json.loads(run(Fake(tmp_path, "hang"), "--timeout=300ms", "--json", time=20, status=SILENT).stdout)
    jsonschema.validate(shown, SCHEMA)
    of_gpu, of_driver = (n["why"] for n in shown["notes"])
    assert of_gpu == "GPU 1: its driver did not answer when asked for its identity" and "NVML has not answered" in of_driver


def test_a_driver_that_is_slow_is_not_stuck(cards):
    """Each call takes a tenth of the timeout: all of them together take longer."""
    done = run(cards(more="[call nvmlDevice*]\ndelay = 0.1\n"), "--timeout=1s", status=SILENT)
    assert "NVML did not finish in 1 s: its driver responds slowly" in done.stderr, done.stderr


def test_a_driver_that_hangs_leaves_the_others(cards):
    """The values of one source are shown although another one was given up."""
    fake = cards(more="[call nvmlInit*]\nhang = 1\n")
    env = {"HIWATER_NVML": str(BUILD / "tests/fake/drivers/580/libnvidia-ml.so.1")}
    done = run(fake, "--root", TREES / "amd-rdna", "--timeout=500ms", status=SILENT, **env)
    assert "Radeon" in done.stdout or "AMD" in done.stdout, done.stdout


def test_a_driver_that_crashes(cards):
    assert "the helper was killed by signal" in run(cards(more="[call nvmlDeviceGetName]\ncrash = 1\n"), status=1).stderr


@pytest.mark.parametrize("what, status", [("hang", SILENT), ("crash", 1)])
def test_a_gpu_that_fails_takes_nothing_from_those_that_answered(cards, what, status):
    """Only for the sample in which it fails: the next one does not show its values as new."""
    fake = cards(more=f"[call nvmlDeviceGetUtilizationRates]\ngpu = 1\n{what} = 1\n")
    shown = as_json(fake, "--timeout=500ms", status=status)
    well, ill = shown["devices"]
    assert well["utilization"]["gpu"] == 0.92 and well["power_w"]["now"] is not None and well["memory"]["used_bytes"] > 0
    assert ill["utilization"]["gpu"] is None and ill["memory"]["used_bytes"] > 0
    assert [(d["memory"]["unattributed_bytes"], d["processes"]) for d in (well, ill)] == [(None, None)] * 2  # no list
    with subprocess.Popen([HIWATER, "gpus", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-i", "0", "-lms", "20", "--timeout=500ms"],
                          env={**os.environ, **fake.environment(time=15)}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as looking:
        assert [looking.stdout.readline() for _ in range(2)] == ["92\n", "[N/A]\n"]
        looking.terminate()


@pytest.mark.parametrize("what, status, words", [("hang", SILENT, "NVML has not answered in 0.5 s: it is stuck in {}"), ("crash", 1, "in a call of NVML ({})")])
@pytest.mark.parametrize("call, where, named", [
    ("nvmlInit*", "", "nvmlInitWithFlags"), ("nvmlDeviceGetCount*", "", "nvmlDeviceGetCount_v2"),
    ("nvmlDeviceGetName", "gpu = 1", "nvmlDeviceGetName of GPU 1"),
    ("nvmlDeviceGetUtilizationRates", "gpu = 1", "nvmlDeviceGetUtilizationRates of GPU 1"),
    ("nvmlDeviceGetComputeRunningProcesses*", "gpu = 1", "nvmlDeviceGetComputeRunningProcesses_v3 of GPU 1"),
    ("nvmlGpmSampleGet", "gpu = 1", "nvmlGpmSampleGet of GPU 1")])
def test_a_call_that_fails_is_named(cards, call, where, named, what, status, words):
    said = run(cards(more=f"[call {call}]\n{where}\n{what} = 1\n"), "--timeout=500ms", status=status).stderr
    assert words.format(named) in said, said


@pytest.mark.parametrize("what, status, words", [("hang", SILENT, "DCGM has not answered in 0.5 s: it is stuck in {}"), ("crash", 1, "in a call of DCGM ({})")])
@pytest.mark.parametrize("call, first, named", [
    ("dcgmInit", 0, "dcgmInit"), ("dcgmConnect*", 0, "dcgmConnect_v2"), ("dcgmGetAllSupportedDevices", 0, "dcgmGetAllSupportedDevices"),
    ("dcgmGetLatest*", 1, "dcgmGetLatestValuesForFields"),  # identity of the second one
    ("dcgmGetLatest*", 3, "dcgmGetLatestValuesForFields of GPU 1"), ("dcgmWatchFields", 1, "dcgmWatchFields")])
def test_a_call_of_dcgm_that_fails_is_named(tmp_path, call, first, named, what, status, words):
    rule = f"include = {SCENARIOS}/dcgm.conf\n[call {call}]\nfirst = {first}\n{what} = 1\n"
    said = run(Fake(tmp_path, rule, level_of(SCENARIOS / "dcgm.conf")), "--timeout=500ms", status=status, HIWATER_DCGM_ENGINE="127.0.0.1:5555").stderr
    assert re.search(re.escape(words.format(named)) + r"($|[^ ]| (?!of))", said, re.M), said


@pytest.mark.parametrize("what, status", [("hang", SILENT), ("crash", 1)])
@pytest.mark.parametrize("call", ["nvmlDeviceGetUtilizationRates", "nvmlDeviceGetFanSpeed*", "nvmlDeviceGetComputeRunningProcesses*", "nvmlGpmSampleGet"])
def test_all_figures_of_a_gpu_are_read_before_the_next_one_fails(cards, call, what, status):
    whole, _ = as_json(cards())["devices"]
    well, _ = as_json(cards(more=f"[call {call}]\ngpu = 1\n{what} = 1\n"), "--timeout=500ms", status=status)["devices"]
    if "Processes" not in call:  # lists are read after all figures
        for device in (whole, well):
            del device["processes"]
            device["memory"] = {name: value for name, value in device["memory"].items() if name.endswith(("total_bytes", "used_bytes", "free_bytes"))}
    assert well == whole


@pytest.mark.parametrize("what, status", [("hang", SILENT), ("crash", 1)])
@pytest.mark.parametrize("call", ["nvmlDeviceGetMemoryInfo*", "nvmlDeviceGetUUID", "nvmlDeviceGetHandleByIndex*"])
@pytest.mark.parametrize("behind, unasked", [("2", "GPU 2 was not queried"), ("2-5", "GPUs 2 to 5 were not queried")])
def test_a_gpu_that_hangs_over_its_identity_keeps_those_before_it(cards, call, behind, unasked, what, status):
    """It has a row of its own, with the reason; those after it were not queried, which is reported."""
    fake = cards(more=f"[gpu {behind}]\ninclude = {SCENARIOS}/cards/h100.conf\n[call {call}]\ngpu = 1\n{what} = 1\n")
    shown = as_json(fake, "--timeout=500ms", status=status)
    well, ill = shown["devices"]
    assert (well["index"], ill["index"], ill["uuid"]) == (0, 1, None)
    assert well["uuid"].startswith("GPU-") and "H100" in well["name"] and well["memory"]["total_bytes"] > 0
    assert [d["processes"] for d in (well, ill)] == [None, None] and ill["memory"]["total_bytes"] is None
    why = [n["why"] for n in shown["notes"]]
    assert f"GPU 1: its driver did not answer when asked for its identity; {unasked}" in why and len(why) == 2, why
    assert len(run(fake, "--query-gpu=index", "--format=csv,noheader", "--timeout=500ms", status=status).stdout.split()) == 2


def test_a_gpu_without_identity_next_to_a_sleeping_one(cards, tmp_path):
    """Those that are awake are opened by PCI address, in the order of sysfs."""
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
    open_ones = [n["why"] for n in shown["notes"] if "did not answer when asked" in n["why"]]
    assert len(open_ones) == 1 and open_ones[0].startswith(f"GPU {asked[0]['number']}:"), (open_ones, asked)


def test_a_gpu_that_hangs_over_its_instances_has_an_identity(tmp_path):
    text = (SCENARIOS / "mig.conf").read_text().replace("include = cards", f"include = {SCENARIOS}/cards")
    fake = Fake(tmp_path, text + "[call nvmlDeviceGetMaxMigDeviceCount]\nhang = 1\n", "550")
    shown = as_json(fake, "--timeout=500ms", status=SILENT)
    assert shown["devices"][0]["uuid"] and shown["devices"][0]["memory"]["total_bytes"] > 0
    why = [n["why"] for n in shown["notes"]]
    assert "GPU 0: its driver did not answer when asked for its MIG instances" in why, why


@pytest.mark.parametrize("what, status", [("hang", SILENT), ("crash", 1)])
def test_lists_that_came_do_not_wait_for_the_next_one(cards, what, status):
    fake = cards(more=f"[call nvmlDeviceGetComputeRunningProcesses*]\ngpu = 1\n{what} = 1\n")
    well, ill = as_json(fake, "--timeout=500ms", status=status)["devices"]
    assert sorted(p["memory_bytes"] for p in well["processes"]) == [17 * MIB, 4321 * MIB] and ill["processes"] is None
    assert well["utilization"]["gpu"] == 0.92 and ill["utilization"]["gpu"] == 0.55


@pytest.mark.parametrize("what, then", [("hang", "is no longer read"), ("crash", "will be retried soon")])
def test_a_value_no_longer_read_is_unknown(cards, what, then):
    """A driver that fails after good samples: no later sample shows its values as new."""
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
        assert f"NVML {then}" in looking.stderr.read()


def test_a_missing_total_is_reported_later(cards):
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


def test_after_a_crash_it_is_read_again(cards):
    """As in a run; if its driver disappears meanwhile, that is reported."""
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
        for at, lines in ((15, ["1, 4"]), (110, ["killed by signal", "will be retried soon", "1, [N/A]"]), (210, ["1, 4"]), (110, ["killed by signal"]), (310, ["could not read NVML"])):
            clock.write_text(str(at))
            for line in lines:
                await_line(line, looking.stdout)
        looking.terminate()


def test_a_crash_is_noted_only_in_its_sample(cards):
    """A driver that answers again has no note; meanwhile a note states that it is not read."""
    fake = cards(more="[call nvmlDeviceGetTemperature*]\ncrash = 1\nfrom = 100\nuntil = 200\n" + NO_GPM)
    clock = pathlib.Path(fake.scenario).parent / "time"
    clock.write_text("15")
    env = {**os.environ, **fake.environment(time=f"file:{clock}", pid=os.getpid())}

    def await_notes(pipe, *wanted):
        deadline = time.monotonic() + 30
        while [re.sub(r"\d+ in a call.*", "N", n["why"]) for n in json.loads("".join(iter(pipe.readline, "}\n")) + "}")["notes"]] != list(wanted):
            assert time.monotonic() < deadline

    with subprocess.Popen([HIWATER, "gpus", "--json", "-lms", "20"], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as looking:
        for at, wanted in ((15, []), (110, ["the helper was killed by signal N"]), (110, ["NVML will be retried soon"]), (210, [])):
            clock.write_text(str(at))
            await_notes(looking.stdout, *wanted)
        looking.terminate()


@pytest.mark.parametrize("options, rows", [(["--query-compute-apps=pid,used_memory"], 1), (["--csv=processes"], 1), (["--query-gpu=index"], 3)])
def test_processes_that_a_driver_refuses_to_list_are_reported_on_stderr(cards, options, rows):
    """A script that sees no process would consider the machine free. If no processes are requested, nothing is missing."""
    done = run(cards(more="[call nvmlDeviceGet*RunningProcesses*]\nerror = 4\n"), *options)
    assert len(done.stdout.splitlines()) == rows
    words = "hiwater: warning: GPU {}: its compute processes cannot be listed: no permission (NVML code 4)"
    told = done.stderr.splitlines()
    assert [line.partition("); ")[0] + ")" for line in told] == ([words.format(0), words.format(1)] if rows == 1 else []), told
    assert not run(cards(), *options).stderr


@pytest.mark.parametrize("options", [["--query-gpu=index"], ["--csv"], ["--line={gpu}\\n"], ["-L"], ["--query-compute-apps=pid"], ["--csv=processes"]])
def test_a_gpu_that_cannot_be_opened_is_reported_on_stderr(cards, options):
    """It has no row; reported once, also with -l. If only another GPU is requested, nothing is missing."""
    fake = cards(more="[call nvmlDeviceGetHandleByIndex*]\ngpu = 1\nerror = 4\n" + NO_GPM)
    told = run(fake, *options).stderr
    assert told.startswith("hiwater: warning: GPU 1: closed: no permission") and told.count("\n") == 1
    assert not run(fake, *options, "-i", "0").stderr and not run(fake).stderr
    with subprocess.Popen([HIWATER, "gpus", *options, "--no-header", "-lms", "20"], env={**os.environ, **fake.environment(time=15, pid=os.getpid())},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as looking:
        for _ in range(4):
            assert looking.stdout.readline()
        looking.terminate()
        assert looking.stderr.read().count("GPU 1") == 1


def test_a_lost_gpu_does_not_affect_the_others(tmp_path):
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
    """Only its handle, name, UUID and PCI address can be read."""
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


def test_a_lost_gpu_is_named_next_to_a_driver_that_hangs(cards, tmp_path):
    """Whether it is its own or another's."""
    lost = "[call nvmlDeviceGetPowerUsage]\ngpu = 0\nerror = 15\n"
    own = run(cards(more=lost + "[call nvmlDeviceGetUtilizationRates]\ngpu = 1\nhang = 1\n"), "--csv", "--timeout=500ms", status=SILENT).stderr
    assert "NVML has not answered in 0.5 s" in own and "warning: GPU 0: lost: the GPU has fallen off the bus" in own, own
    fake = Fake(tmp_path, f"include = {SCENARIOS}/dcgm.conf\n{lost}[call dcgmConnect*]\nhang = 1\n", level_of(SCENARIOS / "dcgm.conf"))
    others = run(fake, "--timeout=500ms", status=SILENT, HIWATER_DCGM_ENGINE="127.0.0.1:5555").stderr
    assert re.search(r"^hiwater: DCGM .*not answered.*; GPU 0 is lost$", others, re.M), others


@pytest.mark.parametrize("options, told", [(["--csv"], True), (["-L"], False), (["--query-gpu=index"], False), (["--csv=processes"], False)])
def test_figures_left_out_are_reported_on_stderr(cards, options, told):
    """The same as in the table, if all values are requested."""
    fake = cards(more="[gpu 1]\nutil = 255\n[call nvmlDeviceGetPowerUsage]\ngpu = 0\nerror = 4\n" + NO_GPM)
    refused, nonsense = (f"hiwater: warning: GPU {words}" for words in ("0: the driver refuses some values, gpu.power first: no permission",
                                                                         "1: the driver reports impossible values for gpu.busy; they are left out"))
    lines = run(fake, *options).stderr.splitlines()
    assert [line for line in lines if line.startswith(refused)] == lines[:1] * told and (nonsense in lines) == told and len(lines) == 2 * told, lines
    assert refused[18:] in " ".join(run(fake, COLUMNS="200").stdout.split())


def test_figures_that_a_driver_answers_without_are_named(cards):
    """All ones and, from GPM, NaN: a note for each GPU and each of both."""
    figures = ("memory_used", "util", "power", "temperature")
    unknown = "".join(f"{name} = unknown\n" for name in figures)
    shown = as_json(cards(more=f"[gpu 1]\n{unknown}gpm 2 = nan\n[call nvmlGpmSampleGet]\ngpu = 0\nerror = 4\n"))
    assert shown["devices"][1]["power_w"]["now"] is None
    words = [n["why"] for n in shown["notes"]]
    assert [w for w in words if "the driver returns no value for gpu.mem, " in w and "gpu.busy, gpu.power, gpu.temp" in w] == words[:1], words
    assert [w for w in words if "GPU 1: GPM returns no value for " in w and "gpu.sm_active" in w] == words[2:], words
    assert words[1].startswith("GPU 0: not available from GPM: no permission (NVML code 4)") and len(words) == 3


@pytest.mark.parametrize("level, refusal, used, reserved", [("580", "", 1, 7), ("580", "error = 3\n", 8, None), ("580", "error = 25\n", 8, None),
                                                           ("535.43", "", 1, 7), ("470", "", 8, None)])
def test_reserved_memory_counts_as_used_if_not_reported_separately(cards, level, refusal, used, reserved):
    """With a note; drivers before 510 do not have that part."""
    fake = cards(level, f"[gpu 0-1]\nmemory_used = 1Gi\nmemory_reserved = 7Gi\n[call nvmlDeviceGetMemoryInfo_v2]\ngpu = 1\n{refusal}")
    shown = as_json(fake)
    memory = shown["devices"][1]["memory"]
    assert (memory["used_bytes"], memory["reserved_bytes"]) == (used << 30, reserved and reserved << 30)
    words = "GPU 1: memory in use includes the driver's reserved memory, which this driver does not report separately"
    notes = [words] if refusal else []
    assert [n["why"] for n in shown["notes"] if n["about"] == "gpu.memory"] == notes
    assert (words in " ".join(run(fake, COLUMNS="200").stdout.split())) == bool(notes)


@pytest.fixture
def lost(tmp_path):
    """Four cards: the first and the third are lost, the third without a known identity; the last one is divided, and lost."""
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
    """In one sentence; only requested ones, and an instance requested without its GPU."""
    for options in ([], ["-L"], ["--spec"], ["--csv"], ["--query-gpu=index"]):
        assert "GPUs 0, 2 and 3 are lost\n" in run(lost, *options, status=LOST).stderr
    assert run(lost, "-L", "-i", "2,0", status=LOST).stderr.startswith("hiwater: GPUs 0 and 2 are lost\n")
    assert run(lost, "-L", "-i", "3.1", status=LOST).stderr == "hiwater: GPU 3.1 is lost\n"
    why = ("hiwater: GPU 2 is lost\nhiwater: warning: GPU 2: lost: the GPU needs a reset: nvidia-smi --gpu-reset, or reboot (NVML code 16); "
           "the job's memory on it is unknown\n")
    for options in (["-L"], ["--csv"], ["--query-gpu=index"], ["--line={gpu}"], ["--csv=processes"]):
        assert run(lost, *options, "-i", "2", status=LOST).stderr == why
    assert run(lost, "-i", "2", status=LOST).stderr == "hiwater: GPU 2 is lost\n", "the table has a note"
    assert not run(lost, "-L", "-i", "1").stderr
    assert [d["state"] for d in as_json(lost, status=LOST)["devices"]] == ["lost", "ok", "lost", "lost", "lost", "lost"]


def test_a_lost_gpu_is_listed_as_lost(lost):
    """By its known properties; a row is never empty."""
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
    """The tree has an NVIDIA GPU that is powered down; no call may reach the driver."""
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
    """The values of a sample are not repeated in the next one."""
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

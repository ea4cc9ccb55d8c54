# SPDX-License-Identifier: MIT
"""GPUs in hiwater.compat.gpu_tracker and gpu_tracker_2, with fake drivers in place of
nvidia-smi."""
import json
import os
import pathlib

import pytest
from gpu_tracker_helpers import Commands, without_gpus
from test_gpu_tracker import rows_of
from track_helpers import ROOT

import hiwater.compat.gpu_tracker as gput

MIB = 1 << 20
DRIVERS = pathlib.Path(os.environ.get("HIWATER_BUILD", ROOT / "build")).resolve() / "tests" / "fake" / "drivers"
SCENARIO = """
[driver]
level = 550
[gpu 0-1]
name = Card %d
uuid = GPU-0000000%d
pci = 00000000:0%d:00.0
memory_total = 16Gi
memory_used = processes 100Mi
util = 60
util_memory = 7
[gpu 1]
util = 20
[process 0]
pid = @{pid}
memory = 1000Mi
[process 1]
pid = @{pid}
memory = 500Mi
"""


@pytest.fixture
def on_gpus(program):
    """A program with two GPUs, on which it (or the process whose pid is in the file) uses 1000 MiB
    and 500 MiB."""
    scenario = program.folder / "scenario.conf"
    scenario.write_text(SCENARIO.format(pid=program.folder / "pid"))
    program.env |= {"LD_LIBRARY_PATH": str(DRIVERS / "550"), "HIWATER_FAKE_NVML": str(scenario), "PATH": without_gpus()["PATH"]}
    return program


TRACK = """
import hiwater.compat.{module} as gput
pathlib.Path("pid").write_text(str(os.getpid()))
tracker = gput.Tracker({arguments})
tracker.start()
deadline = time.monotonic() + 60
while {held} < 1500 * MIB and time.monotonic() < deadline: time.sleep(0.05)
time.sleep(1.2)
tracker.stop()
tell(**{told})
"""


def test_memory_and_utilisation(on_gpus):
    [told] = on_gpus.run(TRACK.format(module="gpu_tracker", arguments="gpu_ram_unit='bytes', tracking_file='t.csv', sleep_time=0.2",
                                      held="tracker.resource_usage.max_gpu_ram.main", told="tracker.to_json()"))
    ram, use = told["max_gpu_ram"], told["gpu_utilization"]
    assert ram == {"unit": "bytes", "system_capacity": 32 << 30, "system": 1700 * MIB, "main": 1500 * MIB, "descendants": 0,
                   "combined": 1500 * MIB}
    assert (use["system_gpu_count"], use["n_expected_gpus"]) == (2, 2)
    percentages = use["gpu_percentages"]
    assert percentages["max_sum_percent"] == pytest.approx(80) and percentages["max_hardware_percent"] == pytest.approx(40)
    assert 0 < percentages["mean_sum_percent"] <= 80.001
    last = rows_of(on_gpus.folder / "t.csv")[-1]
    assert last["main_gpu_ram"] == last["combined_gpu_ram"] == 1500 * MIB and last["system_gpu_ram"] == 1700 * MIB
    assert last["gpu_sum_utilization_percent"] == pytest.approx(80)


ACCOUNTED = "[gpu 0-1]\naccounting_mode = 1\n[process 0]\npid = @{pid}\nmemory = 1000Mi\naccount_memory = 12000Mi\nfrom = -100\n"


@pytest.mark.parametrize("module", ["gpu_tracker", "gpu_tracker_2"])
def test_what_the_program_used_before_is_not_of_the_block(on_gpus, module):
    """The driver's high-water mark counts from the start of the program; main is never above the system."""
    scenario = pathlib.Path(on_gpus.env["HIWATER_FAKE_NVML"])
    text = SCENARIO.format(pid=on_gpus.folder / "pid").replace("memory = 1000Mi\n", "", 1)
    first = text.index("[process 0]")
    scenario.write_text(text[:first] + ACCOUNTED.format(pid=on_gpus.folder / "pid") + text[text.index("[process 1]"):])
    held = "tracker.resource_usage.max_gpu_ram.main" if module == "gpu_tracker" else "tracker.max_gpu_ram.main"
    [told] = on_gpus.run(TRACK.format(module=module, arguments="gpu_ram_unit='bytes'", held=held, told="tracker.to_json()"))
    assert told["max_gpu_ram"]["main"] == told["max_gpu_ram"]["combined"] == 1500 * MIB
    assert told["max_gpu_ram"].get("system", 1700 * MIB) == 1700 * MIB


def test_a_block_and_a_mark_from_before(on_gpus):
    scenario = pathlib.Path(on_gpus.env["HIWATER_FAKE_NVML"])
    text = SCENARIO.format(pid=on_gpus.folder / "pid")
    first = text.index("[process 0]")
    scenario.write_text(text[:first] + ACCOUNTED.format(pid=on_gpus.folder / "pid"))
    [told] = on_gpus.run("""
import hiwater
pathlib.Path("pid").write_text(str(os.getpid()))
with hiwater.track() as run:
    time.sleep(3)  # the length of the block, with some lists
memory = run.summary.gpu.devices[0].memory
tell(memory=[memory.job_peak_bytes, memory.method, memory.job_high_bytes], main=run.summary.gpu.main.peak_bytes)
""")
    assert told == {"memory": [1000 * MIB, "sampled", 12000 * MIB], "main": 1000 * MIB}


def test_nothing_is_taken_for_idle_before_the_driver_answers(on_gpus):
    with open(on_gpus.env["HIWATER_FAKE_NVML"], "a") as scenario:
        scenario.write("[call nvmlInit*]\ndelay = 0.7\n")
    [told] = on_gpus.run(TRACK.format(module="gpu_tracker", arguments="gpu_ram_unit='bytes', sleep_time=0.1",
                                      held="tracker.resource_usage.max_gpu_ram.main", told="tracker.to_json()"))
    assert told["gpu_utilization"]["gpu_percentages"]["mean_sum_percent"] == pytest.approx(80)


def test_chosen_gpus(on_gpus):
    [told] = on_gpus.run(TRACK.format(module="gpu_tracker", arguments="gpu_ram_unit='bytes', gpu_uuids={'GPU-00000001'}, "
                                      "gpu_brand='nvidia'", held="tracker.resource_usage.max_gpu_ram.main",
                                      told="tracker.to_json()") + """
def refused(words, **arguments):
    try: gput.Tracker(**arguments)
    except ValueError as e: assert str(e) == words, e
    else: raise AssertionError(words)
refused("gpu_uuids is not None but the set is empty. Please provide a set of at least one GPU UUID.", gpu_uuids=set())
refused("GPU UUID of x is not valid. Available UUIDs are: GPU-00000000, GPU-00000001", gpu_uuids={"x"})
""")
    use = told["gpu_utilization"]
    assert (use["system_gpu_count"], use["n_expected_gpus"]) == (2, 1)
    assert use["gpu_percentages"]["max_sum_percent"] == pytest.approx(20) == use["gpu_percentages"]["max_hardware_percent"]
    assert told["max_gpu_ram"]["system"] == 1700 * MIB  # over all GPUs


def test_the_papers_tracker(on_gpus):
    [told] = on_gpus.run(TRACK.format(module="gpu_tracker_2", arguments="gpu_ram_unit='bytes'",
                                      held="tracker.max_gpu_ram.main", told="tracker.to_json()"))
    assert told["max_gpu_ram"] == {"unit": "bytes", "main": 1500 * MIB, "descendents": 0, "combined": 1500 * MIB}


def test_the_command(on_gpus):
    """Memory of a descendant, as in the paper."""
    (on_gpus.folder / "job.sh").write_text(
        """python3 -c 'import os, time; f = open("pid", "w"); f.write(str(os.getpid())); f.close(); time.sleep(2.5)'; true\n""")
    got = json.loads(Commands(on_gpus.folder, on_gpus.env).ok("-e", "sh job.sh", "-f", "json", "--gru=megabytes",
                                                              "--guuids=GPU-00000000"))
    assert got["max_gpu_ram"]["descendants"] == got["max_gpu_ram"]["combined"] == 1500 * MIB / 1e6
    assert got["max_gpu_ram"]["main"] == 0 and got["gpu_utilization"]["n_expected_gpus"] == 1


def test_a_driver_that_tells_nothing_of_processes(on_gpus):
    """gpu-tracker's [N/A]: all other figures exist, and one warning is printed."""
    wsl = (ROOT / "tests" / "fake" / "scenarios" / "wsl.conf").read_text()
    (on_gpus.folder / "scenario.conf").write_text(wsl.replace("$HIWATER_FAKE_PID", f"@{on_gpus.folder}/pid"))
    (on_gpus.folder / "cards").symlink_to(ROOT / "tests" / "fake" / "scenarios" / "cards")
    [told] = on_gpus.run("""
import hiwater.compat.gpu_tracker as gput
pathlib.Path("pid").write_text(str(os.getpid()))
tracker = gput.Tracker(gpu_ram_unit="bytes", time_unit="seconds")
tracker.start()
deadline = time.monotonic() + 60
while not tracker.resource_usage.max_gpu_ram.system and time.monotonic() < deadline: time.sleep(0.05)
tracker.stop()
tell(**tracker.to_json())
""", quiet=False)
    assert on_gpus.stderr == ("WARNING:root:The driver does not report the GPU RAM of processes here. Their GPU RAM values remain "
                              "0.0.\n")
    assert told["max_gpu_ram"]["main"] == 0 < told["max_gpu_ram"]["system"] < told["max_gpu_ram"]["system_capacity"]
    assert told["compute_time"]["time"] > 0 and told["max_ram"]["main"]["total_rss"] > 0


@pytest.mark.parametrize(("commands", "words"), [
    ([], "Neither the nvidia-smi command nor the amd-smi command is installed. Install one of these to profile the GPU. Otherwise "
         "the GPU RAM and GPU utilization values will remain 0.0."),
    (["nvidia-smi", "amd-smi"], "The nvidia-smi command is installed but cannot connect to a GPU. The GPU RAM and GPU utilization "
                                "values will remain 0.0."),
    (["amd-smi"], "The amd-smi command is installed but cannot connect to a GPU. The GPU RAM and GPU utilization values will "
                  "remain 0.0."),
])
def test_no_gpu(tmp_path, monkeypatch, caplog, commands, words):
    from hiwater.compat import _session

    for name in commands:
        (tmp_path / name).touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(_session, "gpus", lambda: [])
    assert gput.Tracker().state is gput.Tracker.State.NEW
    assert [r.message for r in caplog.records] == [words]
    caplog.clear()
    gput.Tracker(disable_logs=True)
    assert not caplog.records


def test_amd_where_there_is_no_nvidia(monkeypatch):
    from hiwater.compat import _session

    monkeypatch.setattr(_session, "gpus", lambda: [_session.Gpu("a", "intel", 1), _session.Gpu("b", "amd", 8 * 10**9)])
    tracker = gput.Tracker()
    assert tracker._plan.uuids == ["b"] and tracker._plan.gpu_ram_capacity == 8.0

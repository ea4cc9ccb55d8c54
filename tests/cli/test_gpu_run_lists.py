# SPDX-License-Identifier: MIT
"""Runs on GPUs whose processes are listed rarely, late or not at all: what is known of the job's memory then."""
import json
import re
import time

import pytest
from cli_helpers import wait_for
from gpu_jobs import CARD, GIB, add, asked, finish, run_later, start
from stress_jobs import BUILD


@pytest.mark.parametrize("fails", [False, True])
def test_what_came_while_nobody_was_listed_may_be_the_jobs(gpu, fails):
    """From 1.5 s on the driver lists nobody any more, and the device's memory goes on to rise."""
    if fails:
        add(gpu, "[call nvmlDeviceGet*RunningProcesses*]\nerror = 999\nfrom = 1.5\n")
    gpu.scenario.write_text(gpu.scenario.read_text().replace("steps 0:1Gi 1:3Gi", "steps 0:1Gi 2.5:5Gi"))
    hiwater = start(gpu)
    time.sleep(3.5)  # the length of the run, not a wait
    summary, _ = finish(gpu, hiwater)
    notes = [n["why"] for n in summary["notes"] if n["about"] == "gpu.memory"]
    memory = summary["gpu"]["devices"][0]["memory"]
    assert memory["peak_bytes"] == 5.5 * GIB + (100 << 20)
    if fails:
        assert memory["job_peak_bytes"] == 1.5 * GIB
        assert any("GPU 0: the driver did not list its processes" in n and "up to 5.50 GiB" in n for n in notes), notes
    else:
        assert memory["job_peak_bytes"] == 5.5 * GIB and not notes


CANNOT = {  # what fails, and what is told of it
    "lost": ("[call nvmlDevice*]\ngpu = 1\nfrom = 0.5\nerror = 15\n", "GPU 1: lost"),
    "compute list": ("[call nvmlDeviceGetComputeRunning*]\ngpu = 1\nerror = 999\n", "GPU 1: its compute processes cannot be listed"),
    "graphics list": ("[call nvmlDeviceGetGraphicsRunning*]\ngpu = 0\nerror = 999\n", "GPU 0: its graphics processes cannot be listed"),
    "all lists": ("[call nvmlDeviceGet*RunningProcesses*]\ngpu = 1\nerror = 4\n", "GPU 1: its compute processes cannot be listed: no permission"),
    "graphics and MPS": ("[call nvmlDeviceGet[GM]*RunningProcesses*]\ngpu = 0\nerror = 4\n",
                         "GPU 0: its graphics, MPS processes cannot be listed: no permission"),
    "MPS list": ("[call nvmlDeviceGetMPSComputeRunning*]\ngpu = 0\nerror = 4\n", "GPU 0: its MPS processes cannot be listed: no permission"),
}


@pytest.mark.parametrize("what", CANNOT)
def test_what_cannot_be_looked_at_takes_nothing_from_the_rest(gpu, what):
    """Totals are what is known of the others, with the reason; what nobody could have told is no zero."""
    scenario, why = CANNOT[what]
    add(gpu, scenario)
    _, summary = run_later(gpu)
    notes = [n["why"] for n in json.loads((gpu.folder / "run.json").read_text())["notes"]]
    zero = summary["devices"][0]
    assert summary["combined"]["peak_bytes"] == summary["main"]["peak_bytes"] == zero["memory"]["job_peak_bytes"] >= GIB
    assert [p["job"] for p in zero["processes"]] == [True]
    assert summary["descendants"]["peak_bytes"] == (0 if what == "lost" else None)  # it was seen to be 0 until then
    told, = [n for n in notes if n.startswith(f"{why[:5]}: ") and "energy" not in n]
    assert told.startswith(why), notes
    assert "their memory is missing from the job's" in told or "the job's memory on it is unknown" in told


def test_what_a_right_is_missing_for_is_told_once(gpu):
    """Also by gpus, whose line would be dashes without a word."""
    add(gpu, "".join(f"[call nvmlDeviceGet{call}*]\nerror = 4\n" for call in ("MemoryInfo", "Utilization", "Power", "*RunningProcesses")))
    said = " ".join(gpu.run("gpus").stdout.split())
    for n in 0, 1:
        assert said.count(f"GPU {n}: the driver refuses some values, gpu.mem first: no permission (NVML code 4); run as root") == 1
        assert said.count(f"GPU {n}: its compute processes cannot be listed: no permission") == 1
    assert gpu.run("run", "--json", "run.json", "--", "sleep", "0.5").returncode == 0
    notes = [n["why"] for n in json.loads((gpu.folder / "run.json").read_text())["notes"]]
    assert len([n for n in notes if "the driver refuses some values" in n]) == 2


def test_a_driver_that_hangs_over_its_lists_has_no_second_reason(gpu):
    """Energy was read once before: that it was not had at all is no reason beside that."""
    add(gpu, "[call nvmlDeviceGet*RunningProcesses*]\nhang = 1\n")
    assert gpu.run("run", "--json", "run.json", "--", "sleep", "3").returncode == 0
    whole = json.loads((gpu.folder / "run.json").read_text())
    why = {n["about"]: n["why"] for n in whole["notes"]}
    assert whole["energy"]["gpu_j"] is None
    assert why["energy.gpu_j"] == "an energy counter was read only once, so its increase is unknown"
    assert "NVML has not answered since" in why["gpu"] and "gpu.memory" not in why


@pytest.mark.parametrize("refused", ["", "[call nvmlDeviceGetUtilizationRates*]\nerror = 4\n"], ids=["nothing else", "what is no reason"])
def test_where_no_list_came_that_is_said(gpu, refused):
    """The run is over in the first one; that its driver was still being asked, or after a second that it does not answer, is a reason."""
    add(gpu, "[call nvmlDeviceGet*RunningProcesses*]\nhang = 1\n" + refused)
    hiwater = start(gpu, "-o", "run.hiw")
    wait_for(lambda: asked(gpu, "SELECT max(mem_max) FROM gpu_sample"), "memory of GPU 0 is known")
    summary, _ = finish(gpu, hiwater)
    assert summary["gpu"]["devices"][0]["memory"]["job_peak_bytes"] is None
    why = [n["why"] for n in summary["notes"] if n["about"] in ("gpu", "gpu.memory") and not n["why"].startswith("null: ")]
    assert "GPU 0: the driver returned no process list before the end; how much memory the job used there is unknown" in why or \
        any("answer" in w or "stuck" in w or "still being read" in w for w in why), why


def peaks_of(tool):
    """The job's peaks on all GPUs, as far as they are recorded."""
    shown = json.loads(tool.run("show", "--json", "run.hiw").stdout or "null") or {}
    return [d["memory"]["job_peak_bytes"] for d in (shown.get("gpu") or {}).get("devices", [])]


def comes_late(gpu, devices):
    """A run whose main is on the GPUs only after each of them was listed once."""
    hiwater = start(gpu, "-o", "run.hiw")
    wait_for(lambda: peaks_of(gpu) == [0] * devices, "nobody was there")
    (gpu.folder / "late").write_text((gpu.folder / "main").read_text())
    return hiwater


def test_who_comes_late_is_listed_at_once_though_lists_are_dear(gpu):
    gpu.env.update(LD_LIBRARY_PATH=str(BUILD / "tests" / "fake" / "drivers" / "580"), HIWATER_FAKE_PID=f"@{gpu.folder}/late",
                   HIWATER_FAKE_NVML=str(CARD.parent.parent / "eight.conf"))
    hiwater = comes_late(gpu, 8)
    wait_for(lambda: all(peak and peak > 40 * GIB for peak in peaks_of(gpu)), "all are listed again")
    summary, _ = finish(gpu, hiwater)
    assert summary["gpu"]["combined"]["peak_bytes"] > 8 * 40 * GIB


def lists_of(gpu, device):
    """When a device's processes were listed, in the driver's time; the calls of one look are one."""
    path = gpu.folder / "calls"
    # Behind the last newline is half a line, perhaps.
    lines = [line.split() for line in path.read_text().split("\n")[:-1]] if path.exists() else []
    times = [float(line[0]) for line in lines if line[1].startswith("nvmlDeviceGetComputeRunning") and line[2:] == [device]]
    return [time for before, time in zip([-1, *times], times) if time - before > 0.1]


def gaps(times):
    return [after - before for before, after in zip(times, times[1:])]


def at_rest(gpu, cost):
    """Nothing moves, so that nothing says that there is anything new."""
    gpu.scenario.write_text(gpu.scenario.read_text().replace("0:1Gi 1:3Gi", "0:1Gi"))
    add(gpu, f"[call nvmlDeviceGet*RunningProcesses*]\n{cost}\n")
    gpu.env["HIWATER_FAKE_LOG"] = str(gpu.folder / "calls")
    return start(gpu)


def test_lists_are_read_each_second_where_they_are_cheap(gpu):
    """On a loaded machine one of them may take long."""
    hiwater = at_rest(gpu, "burn = 0")
    wait_for(lambda: any(gap < 4 for gap in gaps(lists_of(gpu, "1"))), "a device is listed again soon")
    finish(gpu, hiwater)


@pytest.mark.parametrize("cost", [pytest.param("burn = 0.0045", marks=pytest.mark.full), "delay = 0.01"])
def test_lists_are_read_rarely_where_they_are_dear(gpu, cost):
    """Also those that spend nothing, but hold the driver's locks."""
    hiwater = at_rest(gpu, cost)
    wait_for(lambda: len(lists_of(gpu, "1")) > 2, "a device is listed again and again")
    between = gaps(lists_of(gpu, "1"))
    finish(gpu, hiwater)
    assert min(between) > 4


@pytest.mark.parametrize("seconds", [0, 4])
def test_a_zero_that_was_not_read_again_is_no_figure(gpu, seconds):
    """Both lists of the first look take all that may be borrowed; then memory comes, and nobody can say whose it is."""
    gpu.scenario.write_text(gpu.scenario.read_text().replace(f"@{gpu.folder}/main", f"@{gpu.folder}/late").replace(
        f"@{gpu.folder}/child", f"@{gpu.folder}/late").replace("steps 0:1Gi 1:3Gi", "3Gi"))
    add(gpu, "[call nvmlDeviceGetComputeRunningProcesses_v3]\nburn = 0.098\n")
    hiwater = comes_late(gpu, 2)
    wait_for(lambda: (asked(gpu, "SELECT max(mem_max) FROM gpu_sample") or 0) > 3 * GIB, "its memory is read")
    time.sleep(seconds)  # the length of the run, not a wait: a list may be old for a second
    summary, _ = finish(gpu, hiwater)
    zero, one = (d["memory"] for d in summary["gpu"]["devices"])
    assert zero["peak_bytes"] > 3 * GIB
    assert zero["job_peak_bytes"] is zero["job_mean_bytes"] is zero["method"] is None
    assert one["job_peak_bytes"] == 0  # nothing moved there
    assert summary["gpu"]["combined"] == {"peak_bytes": None, "method": None}
    notes = [n["why"] for n in summary["notes"] if n["about"] == "gpu.memory"]
    assert all(n.startswith("GPU 0: ") for n in notes), notes
    assert any(re.search("the driver did not list its processes .*up to 3.50 GiB, and higher between samples", n) for n in notes), notes
    assert any("its users are unknown" in n for n in notes) == (seconds > 0), notes
    unlisted = "SELECT unlisted FROM summary WHERE entity = 'gpu' AND id = 1 AND metric = 'mem'"
    assert (asked(gpu, unlisted) >= 1e9) == (seconds > 0)
    said = gpu.run("show", "run.hiw").stdout.replace("\u00a0", " ")
    assert "job peak unknown" in said and "used no memory on GPU 1" in said

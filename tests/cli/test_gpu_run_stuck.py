# SPDX-License-Identifier: MIT
"""Runs on GPUs with a driver that hangs, is slow or crashes, and with a helper that is stuck: the job's run goes on without."""
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time

import pytest
from cli_helpers import DEADLINE, HIWATER, ROOT, ended, processes, state_of, wait_for
from gpu_jobs import GIB, add, asked, finish, gpu_notes, helper_of, run_later, start

FREEZER = pathlib.Path("/sys/fs/cgroup/freezer")
LATE = 0.1  # seconds that a stuck helper may cost at the end of a run
PAIRS = 5


def test_what_a_slow_driver_kept_from_being_read_is_said(gpu):
    """Each call answers, so that it is not called silent."""
    add(gpu, "[call nvmlDeviceGetTemperature*]\ngpu = 1\nfrom = 1\nuntil = 2.5\ndelay = 1.6\n")
    assert gpu.run("run", "-o", "run.hiw", "--json", "run.json", "--", "sleep", "4").returncode == 0
    for said in (gpu.folder / "run.json").read_text(), gpu.run("show", "--json", "run.hiw").stdout:
        summary = json.loads(said)
        assert summary["sampling"]["gpu_longest_gap_s"] >= 1.6 > summary["sampling"]["interval_s"]
        assert any(n.startswith("a slow driver left GPUs unread for ") for n in gpu_notes(summary)), gpu_notes(summary)


def test_what_a_driver_that_is_slow_to_begin_kept_from_being_read_is_said(gpu):
    """A card without persistence mode: what the job held meanwhile is in no list."""
    add(gpu, "[call nvmlInit*]\ndelay = 2.6\n")
    assert gpu.run("run", "-o", "run.hiw", "--json", "run.json", "--", "sleep", "5").returncode == 0
    for said in (gpu.folder / "run.json").read_text(), gpu.run("show", "--json", "run.hiw").stdout:
        summary = json.loads(said)
        assert summary["sampling"]["gpu_longest_gap_s"] >= 2.6
        assert any(n.startswith("a slow driver left GPUs unread for ") for n in gpu_notes(summary)), gpu_notes(summary)
        assert all(d["memory"]["job_peak_bytes"] is None for d in summary["gpu"]["devices"]), summary["gpu"]


def test_a_driver_that_hangs_as_the_run_ends_is_told_of(gpu):
    add(gpu, "[call nvmlInit*]\nhang = 1\n")
    assert gpu.run("run", "--no-record", "--json", "run.json", "--", "sleep", "0.8").returncode == 0
    notes = gpu_notes(json.loads((gpu.folder / "run.json").read_text()))
    assert any(re.match(r"NVML was still being read when the run ended, since 0 s \(nvmlInit", n) for n in notes), notes


def test_a_driver_that_hangs_costs_nothing(gpu):
    add(gpu, "[call nvmlDeviceGetMemoryInfo*]\nfrom = 1\nhang = 1\n")
    hiwater = start(gpu, "--progress=1s")
    helper = wait_for(lambda: helper_of(hiwater), "the helper was started")
    wait_for(lambda: "sleep" in [p[1] for p in processes() if p[0] == int((gpu.folder / "child").read_text())], "it runs on")
    time.sleep(6)  # longer than a driver may be silent
    summary, took = finish(gpu, hiwater)
    assert took < LATE + 0.4  # with an interpreter that ends, on a busy machine
    assert any(n.startswith("NVML has not answered since ") for n in gpu_notes(summary))
    assert summary["sampling"]["late_samples"] == 0
    assert ended(helper)


def test_a_driver_that_hangs_shortly_before_the_end_is_told_of(gpu):
    """Sooner than in the middle of a run: nobody will see whether it would have answered yet."""
    add(gpu, "[call nvmlDeviceGetMemoryInfo*]\nfrom = 1\nhang = 1\n")
    hiwater = start(gpu)
    time.sleep(3.5)  # the hang is of the scenario's second second
    summary, _ = finish(gpu, hiwater)
    assert [d["memory"]["job_peak_bytes"] for d in summary["gpu"]["devices"]] == [1.5 * GIB, None]  # a zero of the first second is none
    assert any(n.startswith("NVML has not answered since ") for n in gpu_notes(summary)), gpu_notes(summary)


def hangs_at(gpu, call):
    """The summary of a job that goes on until the driver hangs in its call about GPU 1."""
    add(gpu, f"[call {call}*]\ngpu = 1\nhang = 1\n")
    calls = gpu.folder / "calls"
    calls.touch()
    gpu.env["HIWATER_FAKE_LOG"] = str(calls)
    hiwater = start(gpu, "-o", "run.hiw")
    wait_for(lambda: re.search(f"{call}.* 1$", calls.read_text(), re.M), "the call that hangs was made")
    summary, _ = finish(gpu, hiwater)
    assert json.loads(gpu.run("show", "--json", "run.hiw").stdout)["gpu"] == summary["gpu"]
    return summary


def test_who_answered_is_known_though_the_next_gpu_hangs(gpu):
    """While the driver is asked who they are: the one that hangs is there, too, and why it has no figures."""
    summary = hangs_at(gpu, "nvmlDeviceGetMemoryInfo")
    zero, one = summary["gpu"]["devices"]
    assert "H100" in zero["name"] and zero["uuid"].startswith("GPU-") and (one["uuid"], one["index"]) == (None, 1)
    assert all(d["memory"]["job_peak_bytes"] is None and d["memory"]["peak_bytes"] is None for d in (zero, one))
    assert summary["gpu"]["combined"]["peak_bytes"] is None
    assert "GPU 1: its driver did not answer when asked for its identity" in gpu_notes(summary), gpu_notes(summary)


def test_a_list_that_hangs_takes_nothing_from_the_one_before_it(gpu):
    """What the job held of GPU 0 in the only look is known, and that there is more is not denied."""
    summary = hangs_at(gpu, "nvmlDeviceGetComputeRunningProcesses")
    zero, one = summary["gpu"]["devices"]
    assert zero["memory"]["job_peak_bytes"] >= GIB and one["memory"]["job_peak_bytes"] is None
    assert summary["gpu"]["combined"]["peak_bytes"] == zero["memory"]["job_peak_bytes"], summary["gpu"]["combined"]


def test_a_helper_that_is_stopped_goes_on(gpu):
    hiwater = start(gpu)
    helper = wait_for(lambda: helper_of(hiwater), "the helper was started")
    for _ in range(2):
        wait_for(lambda: os.kill(helper, signal.SIGSTOP) or state_of(helper) == "T", "the helper is stopped")
        wait_for(lambda: state_of(helper) != "T", "the recorder has told it to go on")
    finish(gpu, hiwater)
    assert ended(helper)


@pytest.mark.full
def test_a_driver_that_is_slow_again_and_again_is_one_note(gpu):
    """Each call of memory takes six seconds, which is a silence: the summary has one note about all of them."""
    add(gpu, "[call nvmlDeviceGetMemoryInfo*]\nfrom = 1\ndelay = 6\n")
    hiwater = start(gpu)
    time.sleep(16)
    summary, _ = finish(gpu, hiwater)
    silent = [n for n in gpu_notes(summary) if "answer" in n]
    assert len(silent) <= 2 and re.match(r"NVML did not answer [2-9] times between \d s and \d+ s, for \d+ s in total", silent[0]), silent
    assert all(n.startswith("NVML has not answered since") for n in silent[1:]), silent


def end_of(hiwater):
    """Ends a job that reads a line: seconds until the summary is there, and until hiwater has ended."""
    began = time.monotonic()
    hiwater.stdin.close()
    hiwater.stdin = None
    first = hiwater.stderr.read(1)
    said = time.monotonic() - began
    assert hiwater.wait(DEADLINE) == 0 and first
    return said, time.monotonic() - began


def begin_run(gpu, name, **env):
    return gpu.start("run", "--", "sh", "-c", f"touch {name}; read line; true", stdin=subprocess.PIPE, **env)


TRACKED = "import hiwater, pathlib, sys; hiwater.start(record=False, summary='full'); pathlib.Path(sys.argv[1]).touch(); sys.stdin.readline()"


def begin_interpreter(gpu, name, env=None):
    env = {**(env or gpu.env), "PYTHONPATH": str(ROOT / "python"), "HIWATER_COMMAND": str(HIWATER)}
    gpu.started.append(subprocess.Popen([sys.executable, "-c", TRACKED, name], env=env, cwd=gpu.folder, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True))
    return gpu.started[-1]


def helper_on(gpu):
    """The helper that asks this test's driver, whoever started it."""
    for pid, name, *_ in processes():
        try:
            if name == "hiwater-gpu" and str(gpu.scenario).encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes():
                return pid
        except OSError:
            pass  # it has ended
    return None


def assert_not_late(gpu, get_stuck=lambda helper: None, release=lambda: None, begin=begin_run):
    """The same job at the same time with a GPU library that is stuck and without one, pair by pair: how fast this machine
    is, and how busy, does not matter."""
    bare = {k: v for k, v in gpu.env.items() if k not in ("LD_LIBRARY_PATH", "HIWATER_FAKE_NVML")}
    log = gpu.folder / "calls"
    gpu.env["HIWATER_FAKE_LOG"] = str(log)
    late = []
    for i in range(PAIRS):
        log.unlink(missing_ok=True)
        without = begin(gpu, f"without.{i}", env=bare)
        stuck = begin(gpu, f"stuck.{i}")
        wait_for(lambda: all((gpu.folder / f"{name}.{i}").exists() for name in ("stuck", "without")), "the jobs run")
        wait_for(lambda: log.exists() and "nvmlDeviceGetMemoryInfo" in log.read_text(), "the driver was asked")
        get_stuck(wait_for(lambda: helper_on(gpu), "the helper is there"))
        took = {run: end_of(run) for run in ([stuck, without] if i % 2 else [without, stuck])}
        release()
        late.append([a - b for a, b in zip(took[stuck], took[without])])
    summary, end = (statistics.median(kind) for kind in zip(*late))
    assert summary < LATE and end < LATE, late


@pytest.mark.parametrize("begin", [begin_run, begin_interpreter])
def test_a_stuck_driver_makes_nothing_late(gpu, begin):
    add(gpu, "[call nvmlDeviceGetMemoryInfo*]\nhang = 1\n")
    assert_not_late(gpu, begin=begin)


@pytest.mark.parametrize("begin", [begin_run, begin_interpreter])
def test_a_driver_that_has_just_got_stuck_makes_nothing_late(gpu, begin):
    """It answered until then, so that its last readings are waited for: not for long."""
    clock, log = gpu.folder / "clock", gpu.folder / "calls"
    gpu.env["HIWATER_FAKE_TIME"] = f"file:{clock}"
    add(gpu, "[call nvmlDeviceGetMemoryInfo*]\nfrom = 1\nhang = 1\n")

    def set_clock(time):
        (gpu.folder / "later").write_text(time)
        (gpu.folder / "later").rename(clock)

    def asked_at(time):
        return sum(line.startswith(time) and "nvmlDeviceGetMemoryInfo" in line for line in log.read_text().splitlines())

    def get_stuck(_):
        wait_for(lambda: asked_at("0") > 4, "both devices were looked at again and again")
        set_clock("1")
        wait_for(lambda: asked_at("1"), "the call that hangs was made")

    set_clock("0")
    assert_not_late(gpu, get_stuck, lambda: set_clock("0"), begin=begin)


def test_a_driver_that_is_slow_is_not_silent(gpu):
    """Opening eight devices takes longer than one call may, and every call less."""
    gpu.scenario.write_text(gpu.scenario.read_text().replace("gpu 0-1", "gpu 0-7"))
    add(gpu, "[call nvmlDeviceGetUUID]\ndelay = 1\n")
    hiwater = start(gpu)
    time.sleep(7)  # the length of the run, longer than a call may take
    summary, _ = finish(gpu, hiwater)
    assert "has not answered" not in "".join(gpu_notes(summary)), gpu_notes(summary)


def test_a_driver_that_crashes_is_not_the_jobs_end(gpu):
    add(gpu, "[call nvmlDeviceGetMemoryInfo*]\nfrom = 1\ncrash = 1\n")
    hiwater = start(gpu)
    time.sleep(2)  # past the crash
    summary, _ = finish(gpu, hiwater)
    assert any("the helper was killed by signal" in n and "in a call of NVML" in n for n in gpu_notes(summary))
    assert summary["exit"]["code"] == 0


def test_a_crash_over_one_gpu_leaves_what_the_one_before_it_said(gpu):
    add(gpu, "[gpu 0-1]\npower = 400000\n[call nvmlDeviceGetUtilizationRates]\ngpu = 1\ncrash = 1\n")
    said, summary = run_later(gpu)
    first, second = summary["devices"]
    assert (first["power_w"]["mean"], second["power_w"]["mean"]) == (400, None), said
    assert "in a call of NVML (nvmlDeviceGetUtilizationRates of GPU 1) at " in " ".join(said.split()), said


def test_a_hang_in_the_first_call_names_it(gpu):
    add(gpu, "[call nvmlInit*]\nhang = 1\n")
    said, _ = run_later(gpu)
    assert "NVML has not answered since 0 s (nvmlInitWithFlags); its values are missing" in " ".join(said.split()), said


def test_a_driver_that_crashed_is_asked_again(gpu):
    """Energy is that of the whole run, once, and the job's memory that of after the crash."""
    clock = time.clock_gettime(time.CLOCK_BOOTTIME)
    gpu.env["HIWATER_FAKE_TIME"] = f"since:{clock}"  # over both helpers
    gpu.scenario.write_text(gpu.scenario.read_text().replace("steps 0:1Gi 1:3Gi", "steps 0:1Gi 2:3Gi"))
    add(gpu, "[gpu 0-1]\npower = 400000\nenergy = rate 400000\n[call nvmlDeviceGetMemoryInfo*]\nfrom = 1\nuntil = 1.5\ncrash = 1\n")
    hiwater = start(gpu)
    wait_for(lambda: helper_of(hiwater) is None, "the helper is gone")
    wait_for(lambda: helper_of(hiwater), "there is another one")
    time.sleep(max(0, clock + 4.5 - time.clock_gettime(time.CLOCK_BOOTTIME)))
    summary, _ = finish(gpu, hiwater)
    notes = gpu_notes(summary)
    assert any("the helper was killed by signal" in n and "it is restarted" in n for n in notes), notes
    assert any("reading resumed at" in n for n in notes), notes
    first = summary["gpu"]["devices"][0]
    assert first["memory"]["job_peak_bytes"] == 3 * GIB + (512 << 20)
    assert 0.7 < first["energy_j"] / (400 * summary["time"]["wall_s"]) <= 1.01
    assert len(summary["gpu"]["devices"]) == 2


@pytest.fixture
def freezer():
    """A group of the first version's freezer: not even SIGKILL ends who is frozen there."""
    if not (FREEZER / "tasks").exists():
        pytest.skip("no cgroup v1 freezer")
    group = FREEZER / f"hiwater-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("not allowed to make a cgroup")
    yield group
    (group / "freezer.state").write_text("THAWED")
    wait_for(lambda: not (group / "cgroup.procs").read_text(), "the group is empty")
    group.rmdir()


def freeze(group, pid):
    (group / "cgroup.procs").write_text(str(pid))
    (group / "freezer.state").write_text("FROZEN")
    wait_for(lambda: (group / "freezer.state").read_text().strip() == "FROZEN", "it is frozen")


def test_who_cannot_be_killed_is_left_behind(gpu, freezer):
    hiwater = start(gpu, "-o", "run.hiw")
    helper = wait_for(lambda: helper_of(hiwater), "the helper was started")
    freeze(freezer, helper)
    summary, took = finish(gpu, hiwater)
    assert took < LATE + 0.4
    assert any(f"the helper (process {helper}) was killed but has not exited" in n for n in gpu_notes(summary))
    assert asked(gpu, "SELECT cause = 'helper' FROM event WHERE text LIKE '%was killed but has not exited%'")


def test_a_helper_that_is_frozen_between_calls_is_told_of(gpu, freezer):
    """It is in no call of the driver, and yet nothing comes from it any more."""
    hiwater = start(gpu, "-o", "run.hiw")
    wait_for(lambda: asked(gpu, "SELECT max(mem_max) FROM gpu_sample"), "a GPU was read")
    freeze(freezer, helper_of(hiwater))
    frozen = time.monotonic()
    wait_for(lambda: time.monotonic() > frozen + 4, "it should have read for three seconds")
    summary, took = finish(gpu, hiwater)
    assert took < LATE + 0.4
    assert any(re.match(r"NVML has not answered since \d s \(its helper is not running\)", n) for n in gpu_notes(summary))
    assert summary["sampling"]["gpu_longest_gap_s"] > 2
    assert [d["memory"]["job_peak_bytes"] for d in summary["gpu"]["devices"]] == [1.5 * GIB, None]


def test_a_helper_that_gives_back_much_memory_is_not_stuck(gpu):
    gpu.scenario.write_text(gpu.scenario.read_text().replace("[driver]\n", "[driver]\nresident = 500Mi\n"))
    hiwater = start(gpu, "-o", "run.hiw")
    wait_for(lambda: asked(gpu, "SELECT max(mem_max) FROM gpu_sample"), "a GPU was read")
    summary, _ = finish(gpu, hiwater)
    assert not any("stuck" in n for n in gpu_notes(summary))


@pytest.mark.parametrize("begin", [begin_run, begin_interpreter])
def test_who_cannot_be_killed_makes_nothing_late(gpu, freezer, begin):
    assert_not_late(gpu, lambda helper: freeze(freezer, helper), lambda: (freezer / "freezer.state").write_text("THAWED"), begin)


def test_a_driver_that_is_silent_from_the_start_is_said_once(gpu):
    scenario = gpu.folder / "gpu.conf"
    scenario.write_text(scenario.read_text() + "[call nvmlInit*]\nhang = 1\n")
    gpu.run("run", "--no-record", "--json", "run.json", "--", "sleep", "3.5")
    note, = gpu_notes(json.loads((gpu.folder / "run.json").read_text()))
    assert note.startswith("NVML has not answered since 0 s") or note == "the run ended before any GPU could be read"

# SPDX-License-Identifier: MIT
"""Runs on GPUs of a fake driver (tests/fake): whose memory, what show says of it, and a driver that hangs or crashes."""
import contextlib
import csv
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import time

import pytest
from cli_helpers import DEADLINE, HIWATER, ROOT, ended, processes, state_of, wait_for
from stress_jobs import BUILD

CARD = ROOT / "tests" / "fake" / "scenarios" / "cards" / "h100.conf"
FREEZER = pathlib.Path("/sys/fs/cgroup/freezer")
GIB = 1 << 30
LATE = 0.1  # seconds that a stuck helper may cost at the end of a run
PAIRS = 5
JOB = """
import os, subprocess, sys
child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
for name, pid in ("main", os.getpid()), ("child", child.pid):
    open(name + ".new", "w").write(str(pid))
    os.rename(name + ".new", name)
sys.stdin.readline()
child.kill()
"""


@pytest.fixture
def gpu(tool):
    """A driver whose scenario can be added to; GPU 0 has processes of the job, GPU 1 has none."""
    tool.scenario = tool.folder / "gpu.conf"
    tool.scenario.write_text(f"""[driver]
level = 550
[gpu 0-1]
include = {CARD}
memory_used = processes 100Mi
[process 0]
pid = @{tool.folder}/main
memory = steps 0:1Gi 1:3Gi
[process 0]
pid = @{tool.folder}/child
memory = 512Mi
""")
    tool.env.update(LD_LIBRARY_PATH=str(BUILD / "tests" / "fake" / "drivers" / "550"), HIWATER_FAKE_NVML=str(tool.scenario))
    return tool


def add(tool, text):
    tool.scenario.write_text(tool.scenario.read_text() + text)


def start(tool, *options):
    hiwater = tool.start("run", "--json", "run.json", *options, "--", sys.executable, "-c", JOB, stdin=subprocess.PIPE,
                         text=True)
    wait_for((tool.folder / "child").exists, "the job runs")
    return hiwater


def finish(tool, hiwater):
    """Ends the job; the summary, and how long hiwater took to end after it."""
    began = time.monotonic()
    hiwater.stdin.close()
    hiwater.stdin = None
    assert hiwater.wait(DEADLINE) == 0
    return json.loads((tool.folder / "run.json").read_text()), time.monotonic() - began


def asked(tool, sql):
    """The figure that a recording in the making answers, None before there is one."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{tool.folder}/run.hiw?mode=ro", uri=True)) as db:
            return db.execute(sql).fetchone()[0]
    except sqlite3.OperationalError:
        return None


def helper_of(hiwater):
    return next((p[0] for p in processes() if p[1] == "hiwater-gpu" and p[3] == hiwater.pid), None)


def gpu_notes(summary):
    return [n["why"] for n in summary["notes"] if n["about"] == "gpu"]


def test_whose_memory_and_show_agrees(gpu):
    hiwater = start(gpu, "-o", "run.hiw")
    time.sleep(2.5)  # the length of the run, not a wait: the scenario's times are within it
    summary, _ = finish(gpu, hiwater)
    zero, one = summary["gpu"]["devices"]
    assert zero["memory"]["job_peak_bytes"] == 3.5 * GIB
    assert summary["gpu"]["combined"] == {"peak_bytes": 3.5 * GIB, "method": "sampled"}
    assert summary["gpu"]["main"] == {"peak_bytes": 3 * GIB}
    assert summary["gpu"]["descendants"] == {"peak_bytes": GIB / 2}
    assert zero["memory"]["peak_bytes"] == 3.5 * GIB + (100 << 20)
    assert zero["memory"]["unattributed_peak_bytes"] == 100 << 20
    assert one["memory"]["job_peak_bytes"] == 0
    assert sorted(p["peak_bytes"] for p in zero["processes"]) == [GIB / 2, 3 * GIB]
    assert all(p["job"] for p in zero["processes"])
    assert zero["energy_j"] > 0 and summary["energy"]["gpu_j"] == pytest.approx(zero["energy_j"] + one["energy_j"])
    shown = json.loads(gpu.run("show", "--json", "run.hiw").stdout)
    assert shown["gpu"] == summary["gpu"]
    assert shown["energy"] == summary["energy"]
    assert gpu_notes(shown) == gpu_notes(summary)
    text = gpu.run("show", "run.hiw").stdout
    assert "GPU 0     job peak 3.50 GiB sampled" in text
    assert "the job held nothing on GPU 1" in text


# Not on the GPU when the run begins, and then for longer than between two lists.
LATER = "sleep 1; echo $$ > main.new; mv main.new main; exec sleep 2"


def run_later(tool, *prefix, before=""):
    done = subprocess.run([*prefix, HIWATER, "run", "--json", "run.json", "--no-record", "--", "sh", "-c", before + LATER],
                          env=tool.env, cwd=tool.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr, json.loads((tool.folder / "run.json").read_text())["gpu"]


# Its child ends, and another one gets the same pid at once (clone3 with set_tid). What the driver lists for that pid grows.
SAME_PID = """
import ctypes, os, struct, sys, time
def fork_as(pid):
    wanted = ctypes.c_int(pid)
    args = struct.pack("11Q", 0, 0, 0, 0, 17, 0, 0, 0, ctypes.addressof(wanted), 1, 0)
    child = ctypes.CDLL(None, use_errno=True).syscall(435, args, len(args))
    if child == 0:
        os.execvp("sleep", ["sleep", "600"])
    return child
def tell(name, text):
    open(name + ".new", "w").write(str(text))
    os.rename(name + ".new", name)
first = os.fork()
if first == 0:
    os.execvp("sleep", ["sleep", "600"])
tell("child", first)
sys.stdin.readline()
os.kill(first, 9)
os.waitpid(first, 0)
second = fork_as(first)
tell("memory", 4 << 30)
tell("second", second)
sys.stdin.readline()
os.kill(first, 9)
"""


def test_a_pid_that_is_used_again_is_another_process(gpu):
    (gpu.folder / "memory").write_text(str(GIB))
    gpu.scenario.write_text(gpu.scenario.read_text().replace("memory = 512Mi", f"memory = file {gpu.folder}/memory"))
    hiwater = gpu.start("run", "--json", "run.json", "-o", "run.hiw", "--", sys.executable, "-c", SAME_PID, stdin=subprocess.PIPE, text=True)

    def holds(least):
        shown = json.loads(gpu.run("show", "--json", "run.hiw").stdout or "null") or {}
        peak = ((shown.get("gpu") or {}).get("combined") or {}).get("peak_bytes")
        return peak is not None and peak >= least

    wait_for(lambda: holds(GIB), "the first is listed")
    hiwater.stdin.write("\n")
    hiwater.stdin.flush()
    wait_for((gpu.folder / "second").exists, "the second is there")
    if (gpu.folder / "second").read_text() != (gpu.folder / "child").read_text():
        hiwater.stdin.close()
        hiwater.wait(DEADLINE)
        pytest.skip("not allowed to choose a pid")
    wait_for(lambda: holds(4 * GIB), "the second's memory is the job's")
    summary, _ = finish(gpu, hiwater)
    assert summary["gpu"]["combined"]["peak_bytes"] == 4 * GIB


def test_what_the_driver_does_not_tell_of_the_job_is_not_nothing(gpu):
    """WSL: who is on the device is told, not what they hold. That the job held nothing before it came is no figure of the run."""
    text = gpu.scenario.read_text()
    text = text.replace("memory = steps 0:1Gi 1:3Gi", "memory = unknown")
    gpu.scenario.write_text(text.replace("processes 100Mi", "ramp 100000000 3000000000 0..3"))
    said, summary = run_later(gpu)
    memory = summary["devices"][0]["memory"]
    assert memory["job_peak_bytes"] is memory["job_mean_bytes"] is memory["method"] is None
    assert summary["combined"] == {"peak_bytes": None, "method": None} and summary["main"] == {"peak_bytes": None}
    assert summary["devices"][1]["memory"]["job_peak_bytes"] == 0
    assert "held nothing on GPU 1" in (said := said.replace("\u00a0", " ")) and "held nothing on GPU 0" not in said
    assert "job peak not known" in said


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs unshare and root")
@pytest.mark.parametrize("memory, while_there", [("4Gi", ""), ("4Gi", "from = 1.5\nuntil = 3\n"), ("150Mi", "from = 1.5\nuntil = 3\n")],
                         ids=["always", "a-while", "a-little"])
def test_pids_that_mean_nothing_tell_nothing_of_the_job(gpu, memory, while_there):
    """In a container, drivers before 535.113 tell the host's pids: any of them may be the job's."""
    gpu.env["LD_LIBRARY_PATH"] = str(BUILD / "tests" / "fake" / "drivers" / "470")
    gpu.scenario.write_text(gpu.scenario.read_text().replace("level = 550", "level = 470\nversion = 470.256.02").replace(
        f"@{gpu.folder}/main", "4100001").replace("steps 0:1Gi 1:3Gi", f"{memory}\n{while_there}"))
    _, summary = run_later(gpu, "unshare", "--pid", "--fork", "--mount-proc", before="sleep 2; ")
    zero, one = (d["memory"] for d in summary["devices"])
    assert zero["job_peak_bytes"] is None and zero["unattributed_peak_bytes"] > (3 * GIB if memory == "4Gi" else 150 << 20)
    assert while_there or zero["foreign_peak_bytes"] is None
    assert one["job_peak_bytes"] == 0, "nobody is there"
    notes = [n["why"] for n in json.loads((gpu.folder / "run.json").read_text())["notes"] if n["about"] == "gpu.memory"]
    assert len(notes) == 1 and notes[0].startswith("GPU 0: its driver lists processes by numbers that mean nothing here"), notes
    assert summary["combined"]["peak_bytes"] is None


def test_others_whose_memory_is_not_told_hide_nothing_of_the_jobs(gpu):
    add(gpu, f"[process 0]\npid = {os.getpid()}\nmemory = unknown\n")
    _, summary = run_later(gpu)
    assert summary["combined"]["peak_bytes"] == summary["devices"][0]["memory"]["job_peak_bytes"] >= GIB
    assert summary["devices"][0]["memory"]["foreign_peak_bytes"] is None


def test_the_sum_of_instances_is_had_though_their_gpu_may_not_be_asked(gpu):
    """The list of a divided GPU takes a right; those of its instances do not, and have everybody."""
    gpu.scenario.write_text((ROOT / "tests/fake/scenarios/mig.conf").read_text().replace("include = ", f"include = {CARD.parent.parent}/")
                            .replace("$HIWATER_FAKE_PID", f"@{gpu.folder}/main"))
    said, summary = run_later(gpu)
    assert summary["combined"] == {"peak_bytes": 17 * GIB, "method": "sampled"}
    assert summary["main"] == {"peak_bytes": 17 * GIB}
    said = said.replace("\u00a0", " ")  # instances by the numbers that hiwater gpus has for them
    assert "\nMIG 0.0 " in said and "held nothing on GPU 1, MIG 0.2, MIG 0.3" in said
    whole, other, *parts = (d["memory"] for d in summary["devices"])
    assert [p["job_peak_bytes"] for p in parts] == [17 * GIB, 0, 0] and other["job_peak_bytes"] == 0
    assert whole["job_peak_bytes"] == 17 * GIB and whole["method"] == "sampled"  # what is on an instance is on its GPU
    assert re.search(r"^GPU 0 +job peak 17.0 GiB sampled", said, re.M), said


def test_exports_tell_instances_from_gpus(gpu):
    gpu.scenario.write_text((ROOT / "tests/fake/scenarios/mig.conf").read_text().replace("include = ", f"include = {CARD.parent.parent}/")
                            .replace("$HIWATER_FAKE_PID", f"@{gpu.folder}/main"))
    assert gpu.run("run", "-o", "mig.hiw", "--summary", "none", "--", "sh", "-c", LATER).returncode == 0
    said = gpu.run("export", "mig.hiw", "--to", "openmetrics").stdout
    assert re.search(r'^hiwater_gpu_info\{.*gpu="0",uuid="GPU-8.*parent=""', said, re.M), said[-3000:]
    assert re.search(r'^hiwater_gpu_info\{.*gpu="0\.2",uuid="MIG-2.*parent="GPU-8', said, re.M)
    owners = {(m[1], m[2]) for m in re.finditer(r'gpu="([\d.]+)",uuid="(\S+?)"', said)}
    assert len({g for g, _ in owners}) == len(owners) == 5, owners


def test_rows_of_instances_say_whose_they_are(gpu):
    """Their index is one on their GPU, which may have the same: uuid and parent tell them apart, in CSV and in JSON."""
    gpu.scenario.write_text((ROOT / "tests/fake/scenarios/mig.conf").read_text().replace("include = ", f"include = {CARD.parent.parent}/")
                            .replace("$HIWATER_FAKE_PID", f"@{gpu.folder}/main"))
    assert gpu.run("run", "-o", "mig.hiw", "--summary", "none", "--", "sh", "-c", LATER).returncode == 0
    whole = "GPU-80000000-0000-4000-8000-000000000000"
    rows = list(csv.DictReader(gpu.run("export", "mig.hiw", "--to", "csv", "--entity", "gpu").stdout.splitlines()))
    births = [row for line in gpu.run("export", "mig.hiw", "--to", "json", "--entity", "gpu").stdout.splitlines()
              for row in [json.loads(line)] if row.get("entity") == "gpu" and "vendor" in row]
    for said in ({(r["index"], r["uuid"], r["parent"] or None) for r in rows}, {(str(b["index"]), b["uuid"], b["parent"]) for b in births}):
        assert {("0", whole, None), ("1", whole[:-1] + "1", None), ("0", "MIG-11111111-0000-5000-8000-000000000001", whole),
                ("2", "MIG-22222222-0000-5000-8000-000000000001", whole)} < said


def test_of_a_divided_gpu_nothing_is_told_that_is_not_known_of_an_instance(gpu):
    gpu.scenario.write_text((ROOT / "tests/fake/scenarios/mig.conf").read_text().replace("include = ", f"include = {CARD.parent.parent}/")
                            .replace("$HIWATER_FAKE_PID", f"@{gpu.folder}/main"))
    add(gpu, f"[process 0.3]\npid = @{gpu.folder}/main\nmemory = unknown\n[mig 0.3]\nmemory_used = ramp 3016Mi 4016Mi 0..10\n")
    said, summary = run_later(gpu)
    whole, _, first, _, third = (d["memory"] for d in summary["devices"])
    assert first["job_peak_bytes"] == 17 * GIB and third["job_peak_bytes"] is None
    assert whole["job_peak_bytes"] is whole["job_mean_bytes"] is None and "GPU 0     job peak not known" in said.replace("\u00a0", " ")


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
        assert any("GPU 0: its processes were not listed" in n and "up to 5.50 GiB" in n for n in notes), notes
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
    assert "what they hold is not among what a job holds" in told or "what a job holds there is not known" in told


def test_what_a_slow_driver_kept_from_being_read_is_said(gpu):
    """Each call answers, so that it is not called silent."""
    add(gpu, "[call nvmlDeviceGetTemperature*]\ngpu = 1\nfrom = 1\nuntil = 2.5\ndelay = 1.6\n")
    assert gpu.run("run", "-o", "run.hiw", "--json", "run.json", "--", "sleep", "4").returncode == 0
    for said in (gpu.folder / "run.json").read_text(), gpu.run("show", "--json", "run.hiw").stdout:
        summary = json.loads(said)
        assert summary["sampling"]["gpu_longest_gap_s"] >= 1.6 > summary["sampling"]["interval_s"]
        assert any(n.startswith("a driver was so slow that GPUs were not read for ") for n in gpu_notes(summary)), gpu_notes(summary)


def test_what_a_right_is_missing_for_is_told_once(gpu):
    """Also by gpus, whose line would be dashes without a word."""
    add(gpu, "".join(f"[call nvmlDeviceGet{call}*]\nerror = 4\n" for call in ("MemoryInfo", "Utilization", "Power", "*RunningProcesses")))
    said = " ".join(gpu.run("gpus").stdout.split())
    for n in 0, 1:
        assert said.count(f"GPU {n}: the driver refuses figures, gpu.mem first: no permission (NVML's code 4): root may") == 1
        assert said.count(f"GPU {n}: its compute processes cannot be listed: no permission") == 1
    assert gpu.run("run", "--json", "run.json", "--", "sleep", "0.5").returncode == 0
    notes = [n["why"] for n in json.loads((gpu.folder / "run.json").read_text())["notes"]]
    assert len([n for n in notes if "the driver refuses figures" in n]) == 2


def test_a_driver_that_hangs_over_its_lists_has_no_second_reason(gpu):
    """Energy was read once before: that it was not had at all is no reason beside that."""
    add(gpu, "[call nvmlDeviceGet*RunningProcesses*]\nhang = 1\n")
    assert gpu.run("run", "--json", "run.json", "--", "sleep", "3").returncode == 0
    whole = json.loads((gpu.folder / "run.json").read_text())
    why = {n["about"]: n["why"] for n in whole["notes"]}
    assert whole["energy"]["gpu_j"] is None
    assert why["energy.gpu_j"] == "an energy counter was read once: nobody knows what it rose by"
    assert "NVML has not answered since" in why["gpu"] and "gpu.memory" not in why


@pytest.mark.parametrize("refused", ["", "[call nvmlDeviceGetUtilizationRates*]\nerror = 4\n"], ids=["nothing else", "what is no reason"])
def test_where_no_list_came_that_is_said(gpu, refused):
    """The run is over in the first one, before anybody calls the driver silent; after a second somebody does, which is a reason, too."""
    add(gpu, "[call nvmlDeviceGet*RunningProcesses*]\nhang = 1\n" + refused)
    hiwater = start(gpu, "-o", "run.hiw")
    wait_for(lambda: asked(gpu, "SELECT max(mem_max) FROM gpu_sample"), "memory of GPU 0 is known")
    summary, _ = finish(gpu, hiwater)
    assert summary["gpu"]["devices"][0]["memory"]["job_peak_bytes"] is None
    why = [n["why"] for n in summary["notes"] if n["about"] in ("gpu", "gpu.memory") and not n["why"].startswith("null: ")]
    assert "GPU 0: no list of its processes came before the end: what the job held there is not known" in why or \
        any("answer" in w or "stuck" in w for w in why), why


def test_the_drivers_own_mark_is_mains_too(gpu):
    gpu.scenario.write_text(gpu.scenario.read_text().replace("[process 0]", "[gpu 0]\naccounting_mode = 1\n[process 0]\naccount_memory = 5Gi", 1))
    _, summary = run_later(gpu)
    assert summary["combined"] == {"peak_bytes": 5 * GIB, "method": "exact"}
    assert summary["main"]["peak_bytes"] == 5 * GIB and summary["descendants"]["peak_bytes"] == 0


def peak_of_main(tool):
    shown = json.loads(tool.run("show", "--json", "run.hiw").stdout or "null") or {}
    return ((shown.get("gpu") or {}).get("main") or {}).get("peak_bytes")


def test_the_drivers_last_mark_needs_no_list(gpu):
    """Lists are so dear that there is none at the end; the mark has risen since the only one."""
    clock = gpu.folder / "clock"
    clock.write_text("0")
    gpu.env["HIWATER_FAKE_TIME"] = f"file:{clock}"
    gpu.scenario.write_text(gpu.scenario.read_text().replace(
        "[process 0]", "[gpu 0]\naccounting_mode = 1\n[process 0]\naccount_memory = steps 0:5Gi 1:7Gi", 1).replace(" 1:3Gi", ""))
    add(gpu, "[call nvmlDeviceGet*RunningProcesses*]\nburn = 0.05\n")
    hiwater = start(gpu, "-o", "run.hiw")
    wait_for(lambda: peak_of_main(gpu) == 5 * GIB, "it was listed")
    (gpu.folder / "later").write_text("1")
    (gpu.folder / "later").rename(clock)
    summary, _ = finish(gpu, hiwater)
    assert summary["gpu"]["main"]["peak_bytes"] == 7 * GIB


def test_no_sum_is_below_a_mark_of_its_parts(gpu):
    """Lists saw 3.5 GiB of both together; the driver's marks are each process's own, nobody knows of which time."""
    text = gpu.scenario.read_text().replace("[process 0]", "[gpu 0]\naccounting_mode = 1\n[process 0]\naccount_memory = 5Gi", 1)
    gpu.scenario.write_text(text.replace("memory = 512Mi", "memory = 512Mi\naccount_memory = 8Gi"))
    hiwater = start(gpu, "-o", "run.hiw")
    wait_for(lambda: asked(gpu, "SELECT count(DISTINCT id) FROM gpu_process_sample WHERE mem_peak > 0") == 2, "both have marks")
    summary = finish(gpu, hiwater)[0]["gpu"]
    zero = summary["devices"][0]
    assert sorted((p["peak_bytes"], p["method"]) for p in zero["processes"]) == [(5 * GIB, "exact"), (8 * GIB, "exact")]
    assert (zero["memory"]["job_peak_bytes"], zero["memory"]["method"]) == (8 * GIB, "sampled")
    assert summary["combined"] == {"peak_bytes": 8 * GIB, "method": "sampled"}
    assert summary["main"]["peak_bytes"] == 5 * GIB and summary["descendants"]["peak_bytes"] == 8 * GIB


def test_a_gpu_that_never_answers_is_no_zero(gpu):
    """The job is on the one whose handle cannot be had: it is among the devices, and what is held is not known."""
    add(gpu, "[call nvmlDeviceGetHandleBy*]\ngpu = 0\nerror = 999\n")
    said, summary = run_later(gpu)
    whole = json.loads((gpu.folder / "run.json").read_text())
    assert [(d["index"], d["uuid"] is None, d["memory"]["job_peak_bytes"]) for d in summary["devices"]] == [(0, True, None), (1, False, 0)]
    assert summary["combined"] == {"peak_bytes": None, "method": None}
    assert summary["main"]["peak_bytes"] is summary["descendants"]["peak_bytes"] is None
    told, = [n["why"] for n in whole["notes"] if n["why"].startswith("GPU 0: ")]
    assert told.startswith("GPU 0: lost: ") and "what a job holds there is not known" in told
    assert whole["energy"]["gpu_j"] == summary["devices"][1]["energy_j"] > 0
    assert re.search(r"^GPU 0 +job peak not known", said.replace("\u00a0", " "), re.M), said


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
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
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


@pytest.mark.parametrize("cost", ["burn = 0.0045", "delay = 0.01"])
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
    assert any(re.search("its processes were not listed .*up to 3.50 GiB, and more between two readings", n) for n in notes), notes
    assert any("is not known of" in n for n in notes) == (seconds > 0), notes
    unlisted = "SELECT unlisted FROM summary WHERE entity = 'gpu' AND id = 1 AND metric = 'mem'"
    assert (asked(gpu, unlisted) >= 1e9) == (seconds > 0)
    said = gpu.run("show", "run.hiw").stdout.replace("\u00a0", " ")
    assert "job peak not known" in said and "held nothing on GPU 1" in said


def test_a_killed_recorder_leaves_what_it_knew(gpu):
    hiwater = start(gpu, "-o", "run.hiw")
    wait_for(lambda: json.loads(gpu.run("show", "--json", "run.hiw").stdout or "null") and
             (json.loads(gpu.run("show", "--json", "run.hiw").stdout)["gpu"] or {}).get("combined", {}).get("peak_bytes"),
             "the job's memory is in the recording")
    helper = helper_of(hiwater)
    hiwater.kill()
    hiwater.wait()
    wait_for(lambda: ended(helper), "the helper goes with its recorder")
    assert json.loads(gpu.run("show", "--json", "run.hiw").stdout)["gpu"]["combined"]["peak_bytes"] >= 1.5 * GIB
    os.kill(int((gpu.folder / "child").read_text()), signal.SIGKILL)


def test_waiting_for_all_does_not_wait_for_the_helper(gpu):
    done = gpu.run("run", "--wait", "--json", "run.json", "--summary", "none", "--", "sh", "-c", "sleep 1 & sleep 0.5")
    assert done.returncode == 0
    assert len(json.loads((gpu.folder / "run.json").read_text())["gpu"]["devices"]) == 2


def test_a_driver_that_hangs_costs_nothing(gpu):
    add(gpu, "[call nvmlDeviceGetMemoryInfo*]\nfrom = 1\nhang = 1\n")
    hiwater = start(gpu, "--progress=1s")
    helper = wait_for(lambda: helper_of(hiwater), "the helper was started")
    wait_for(lambda: "sleep" in [p[1] for p in processes() if p[0] == int((gpu.folder / "child").read_text())], "it runs on")
    time.sleep(6)  # longer than a driver may be silent
    summary, took = finish(gpu, hiwater)
    assert took < LATE + 0.4  # with an interpreter that ends, on a busy machine
    assert any(n.startswith("NVML has not answered since 0:0") for n in gpu_notes(summary))
    assert summary["sampling"]["late_ticks"] == 0
    assert ended(helper)


def test_a_driver_that_hangs_shortly_before_the_end_is_told_of(gpu):
    """Sooner than in the middle of a run: nobody will see whether it would have answered yet."""
    add(gpu, "[call nvmlDeviceGetMemoryInfo*]\nfrom = 1\nhang = 1\n")
    hiwater = start(gpu)
    time.sleep(3.5)  # the hang is of the scenario's second second
    summary, _ = finish(gpu, hiwater)
    assert [d["memory"]["job_peak_bytes"] for d in summary["gpu"]["devices"]] == [1.5 * GIB, None]  # a zero of the first second is none
    assert any(n.startswith("NVML has not answered since 0:0") for n in gpu_notes(summary)), gpu_notes(summary)


def log_calls(tool):
    (tool.folder / "calls").touch()
    tool.env["HIWATER_FAKE_LOG"] = str(tool.folder / "calls")


def await_call(tool, line):
    wait_for(lambda: re.search(line, (tool.folder / "calls").read_text(), re.M), "the call that hangs was made")


def test_who_answered_is_known_though_the_next_gpu_hangs(gpu):
    """While the driver is asked who they are: the one that hangs is there, too, and why it has no figures."""
    add(gpu, "[call nvmlDeviceGetMemoryInfo*]\ngpu = 1\nhang = 1\n")
    log_calls(gpu)
    hiwater = start(gpu, "-o", "run.hiw")
    await_call(gpu, "nvmlDeviceGetMemoryInfo.* 1$")
    summary, _ = finish(gpu, hiwater)
    zero, one = summary["gpu"]["devices"]
    assert "H100" in zero["name"] and zero["uuid"].startswith("GPU-") and (one["uuid"], one["index"]) == (None, 1)
    assert all(d["memory"]["job_peak_bytes"] is None and d["memory"]["peak_bytes"] is None for d in (zero, one))
    assert summary["gpu"]["combined"]["peak_bytes"] is None
    assert "GPU 1: its driver did not say who it is when it was asked" in gpu_notes(summary), gpu_notes(summary)
    assert json.loads(gpu.run("show", "--json", "run.hiw").stdout)["gpu"] == summary["gpu"]


def test_a_list_that_hangs_takes_nothing_from_the_one_before_it(gpu):
    """What the job held of GPU 0 in the only look is known, and that there is more is not denied."""
    add(gpu, "[call nvmlDeviceGetComputeRunningProcesses*]\ngpu = 1\nhang = 1\n")
    log_calls(gpu)
    hiwater = start(gpu, "-o", "run.hiw")
    await_call(gpu, "nvmlDeviceGetComputeRunningProcesses.* 1$")
    summary, _ = finish(gpu, hiwater)
    zero, one = summary["gpu"]["devices"]
    assert zero["memory"]["job_peak_bytes"] >= GIB and one["memory"]["job_peak_bytes"] is None
    assert summary["gpu"]["combined"]["peak_bytes"] == zero["memory"]["job_peak_bytes"], summary["gpu"]["combined"]
    assert json.loads(gpu.run("show", "--json", "run.hiw").stdout)["gpu"] == summary["gpu"]


def test_a_helper_that_is_stopped_goes_on(gpu):
    hiwater = start(gpu)
    helper = wait_for(lambda: helper_of(hiwater), "the helper was started")
    for _ in range(2):
        wait_for(lambda: os.kill(helper, signal.SIGSTOP) or state_of(helper) == "T", "the helper is stopped")
        wait_for(lambda: state_of(helper) != "T", "the recorder has told it to go on")
    finish(gpu, hiwater)
    assert ended(helper)


def test_a_driver_that_is_slow_again_and_again_is_one_note(gpu):
    """Each call of memory takes six seconds, which is a silence: the summary has one note about all of them."""
    add(gpu, "[call nvmlDeviceGetMemoryInfo*]\nfrom = 1\ndelay = 6\n")
    hiwater = start(gpu)
    time.sleep(16)
    summary, _ = finish(gpu, hiwater)
    silent = [n for n in gpu_notes(summary) if "answer" in n]
    assert len(silent) <= 2 and re.match(r"NVML did not answer [2-9] times between 0:0\d and 0:1\d, for \d+ s in all", silent[0]), silent
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


def test_memory_errors_of_the_run_are_a_finding(gpu):
    """Those that the driver had counted before are nobody's here, and so are those of a GPU that the job does not use."""
    add(gpu, "[gpu 0-1]\necc_uncorrected_volatile = steps 0:3 1:5\n")
    said, _ = run_later(gpu)
    summary = json.loads((gpu.folder / "run.json").read_text())
    assert [d["errors"]["ecc_uncorrected"] for d in summary["gpu"]["devices"]] == [2, 2]
    assert "The memory of GPU 0 had 2 errors during the run" in " ".join(said.split()), said
    found, = (f for f in summary["findings"] if f["code"] == "gpu-ecc")
    assert (found["severity"], found["evidence"]["gpu"], found["evidence"]["ecc_uncorrected"]) == ("error", 0, 2)


def test_a_library_that_is_named_and_cannot_be_loaded(gpu):
    gpu.env["HIWATER_NVML"] = str(gpu.folder / "none.so")
    said, _ = run_later(gpu)
    why, = gpu_notes(json.loads((gpu.folder / "run.json").read_text()))
    assert why.startswith(f"HIWATER_NVML names no library that can be loaded: {gpu.folder}/none.so"), said
    assert "Notes     gpu: HIWATER_NVML names no library" in said


def test_a_driver_that_crashes_is_not_the_jobs_end(gpu):
    add(gpu, "[call nvmlDeviceGetMemoryInfo*]\nfrom = 1\ncrash = 1\n")
    hiwater = start(gpu)
    time.sleep(2)  # past the crash
    summary, _ = finish(gpu, hiwater)
    assert any("the helper was ended by signal" in n and "in a call of NVML" in n for n in gpu_notes(summary))
    assert summary["exit"]["code"] == 0


def test_a_crash_over_one_gpu_leaves_what_the_one_before_it_said(gpu):
    add(gpu, "[gpu 0-1]\npower = 400000\n[call nvmlDeviceGetUtilizationRates]\ngpu = 1\ncrash = 1\n")
    said, summary = run_later(gpu)
    first, second = summary["devices"]
    assert (first["power_w"]["mean"], second["power_w"]["mean"]) == (400, None), said
    assert "in a call of NVML (nvmlDeviceGetUtilizationRates of GPU 1) at 0:0" in " ".join(said.split()), said


def test_a_hang_in_the_first_call_names_it(gpu):
    add(gpu, "[call nvmlInit*]\nhang = 1\n")
    said, _ = run_later(gpu)
    assert "NVML has not answered since 0:00 (nvmlInitWithFlags); its readings are missing" in " ".join(said.split()), said


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
    assert any("the helper was ended by signal" in n and "it is started again" in n for n in notes), notes
    assert any("read again since" in n for n in notes), notes
    first = summary["gpu"]["devices"][0]
    assert first["memory"]["job_peak_bytes"] == 3 * GIB + (512 << 20)
    assert 0.7 < first["energy_j"] / (400 * summary["time"]["wall_s"]) <= 1.01
    assert len(summary["gpu"]["devices"]) == 2


def test_an_error_of_the_jobs_gpu_is_told(gpu):
    """An Xid is in the notes with its time, and what happened around it is kept and told; that of another GPU is no story."""
    add(gpu, "[event 1]\nat = 2\ntype = 0x8\ndata = 45\n[event 0]\nat = 2\ntype = 0x8\ndata = 31\n")
    clock = gpu.folder / "clock"
    clock.write_text("1")
    gpu.env["HIWATER_FAKE_TIME"] = f"file:{clock}"
    hiwater = start(gpu, "-o", "run.hiw")
    wait_for(lambda: asked(gpu, "SELECT max(job_mem_max) FROM gpu_sample"), "the job is known to hold memory of GPU 0")
    (gpu.folder / "later").write_text("2.5")
    (gpu.folder / "later").rename(clock)
    wait_for(lambda: asked(gpu, "SELECT count(*) = 2 FROM event WHERE text LIKE '%Xid%' AND kind = 'note'"), "both errors")
    summary, _ = finish(gpu, hiwater)
    notes = [n["why"] for n in summary["notes"] if n["about"] == "gpu.xid"]
    assert any(n.startswith("GPU 1: Xid 45") for n in notes) and any(n.startswith("GPU 0: Xid 31") and "(at 0:0" in n for n in notes)
    assert [d["errors"]["xid"] for d in summary["gpu"]["devices"]] == [1, 1]
    assert summary["story"]["what"].startswith("GPU 0: Xid 31: a page fault") and summary["story"]["of"] == "gpu"


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


def test_who_cannot_be_killed_is_left_behind(gpu, freezer):
    hiwater = start(gpu, "-o", "run.hiw")
    helper = wait_for(lambda: helper_of(hiwater), "the helper was started")
    (freezer / "cgroup.procs").write_text(str(helper))
    (freezer / "freezer.state").write_text("FROZEN")
    wait_for(lambda: (freezer / "freezer.state").read_text().strip() == "FROZEN", "it is frozen")
    summary, took = finish(gpu, hiwater)
    assert took < LATE + 0.4
    assert any(f"the helper (process {helper}) is stuck in a driver and stays behind" in n for n in gpu_notes(summary))
    assert asked(gpu, "SELECT cause = 'helper' FROM event WHERE text LIKE '%stays behind'")


def test_a_gpu_that_was_lost_before_the_run_is_named_without_figures(gpu):
    add(gpu, "[call nvmlDeviceGetMemoryInfo*]\ngpu = 1\nerror = 15\n")
    hiwater = start(gpu, "-o", "run.hiw")
    wait_for(lambda: asked(gpu, "SELECT max(job_mem_max) FROM gpu_sample"), "the job is known to hold memory of GPU 0")
    summary, _ = finish(gpu, hiwater)
    ours, lost = summary["gpu"]["devices"]
    assert ours["memory"]["job_peak_bytes"] > 0
    assert lost["uuid"] and lost["memory"]["job_peak_bytes"] is None
    assert summary["gpu"]["combined"]["peak_bytes"] == ours["memory"]["job_peak_bytes"]
    told, = [n for n in gpu_notes(summary) if "GPU 1: " in n]
    assert "GPU 1: lost: the GPU has fallen off the bus" in told and "what a job holds there is not known" in told


def test_a_helper_that_gives_back_much_memory_is_not_stuck(gpu):
    gpu.scenario.write_text(gpu.scenario.read_text().replace("[driver]\n", "[driver]\nresident = 500Mi\n"))
    hiwater = start(gpu, "-o", "run.hiw")
    wait_for(lambda: asked(gpu, "SELECT max(mem_max) FROM gpu_sample"), "a GPU was read")
    summary, _ = finish(gpu, hiwater)
    assert not any("stuck" in n for n in gpu_notes(summary))


@pytest.mark.parametrize("begin", [begin_run, begin_interpreter])
def test_who_cannot_be_killed_makes_nothing_late(gpu, freezer, begin):
    def freeze(helper):
        (freezer / "cgroup.procs").write_text(str(helper))
        (freezer / "freezer.state").write_text("FROZEN")
        wait_for(lambda: (freezer / "freezer.state").read_text().strip() == "FROZEN", "it is frozen")

    assert_not_late(gpu, freeze, lambda: (freezer / "freezer.state").write_text("THAWED"), begin)


def test_none_are_asked_unless_wanted(gpu):
    summary, _ = finish(gpu, start(gpu, "--gpu=none"))
    assert summary["gpu"] is None
    assert gpu_notes(summary) == ["not asked for: --gpu=none"]


def test_no_gpu(tool):
    if any(pathlib.Path(p).exists() for p in ("/dev/nvidiactl", "/dev/kfd", "/dev/dri")) or shutil.which("nvidia-smi"):
        pytest.skip("this machine has a GPU")
    done = tool.run("run", "--json", "run.json", "--", "sleep", "0.5")
    summary = json.loads((tool.folder / "run.json").read_text())
    assert summary["gpu"]["devices"] == []
    assert len(gpu_notes(summary)) == 1
    assert "GPU" not in done.stderr.replace("helper", "")


def test_a_driver_of_another_version_is_in_the_summary(gpu):
    """It is here, and fails: no machine without GPUs. The recording says it, too."""
    scenario = gpu.folder / "gpu.conf"
    scenario.write_text(scenario.read_text() + "[call nvmlInit*]\nerror = 18\n")
    done = gpu.run("run", "-o", "x.hiw", "--", "sleep", "0.5")
    words = "gpu: NVIDIA's library and kernel module are of different versions"
    assert words in " ".join(done.stderr.replace("\u00a0", " ").split())
    assert words in " ".join(gpu.run("show", "x.hiw").stdout.replace("\u00a0", " ").split())


def test_a_driver_that_is_silent_from_the_start_is_said_once(gpu):
    scenario = gpu.folder / "gpu.conf"
    scenario.write_text(scenario.read_text() + "[call nvmlInit*]\nhang = 1\n")
    gpu.run("run", "--no-record", "--json", "run.json", "--", "sleep", "3.5")
    note, = gpu_notes(json.loads((gpu.folder / "run.json").read_text()))
    assert note.startswith("NVML has not answered since 0:00") or note == "the run was over before GPUs could be asked"


def test_a_short_run_asks_nobody(gpu):
    done = gpu.run("run", "--json", "run.json", "--", "true")
    assert done.returncode == 0
    summary = json.loads((gpu.folder / "run.json").read_text())
    assert summary["gpu"] is None
    assert gpu_notes(summary) == ["the run was over before GPUs could be asked"]

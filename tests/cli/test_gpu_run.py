# SPDX-License-Identifier: MIT
"""Runs on GPUs of a fake driver (tests/fake): whose memory it is, also on instances, and what show says of it."""
import csv
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from cli_helpers import DEADLINE, ROOT, ended, wait_for
from gpu_jobs import CARD, GIB, LATER, add, asked, finish, gpu_notes, helper_of, run_later, start
from stress_jobs import BUILD


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
    assert shown["request"] == summary["request"]
    assert (shown["request"]["gpus"], shown["request"]["gpu_memory_bytes"]) == (1, 3.5 * GIB)
    assert shown["request"]["line"].endswith(" --gres=gpu:1")
    assert gpu_notes(shown) == gpu_notes(summary)
    text = gpu.run("show", "run.hiw").stdout
    assert "GPU 0     job peak 3.50 GiB sampled" in text
    assert "the job used no memory on GPU 1" in text


@pytest.mark.parametrize(("environment", "counted"), [
    ({"SLURM_STEP_GPUS": "0", "CUDA_VISIBLE_DEVICES": "0"}, [0]),
    ({"SLURM_STEP_GPUS": "1", "CUDA_VISIBLE_DEVICES": "0"}, [0, 1]),  # a process of the job is on GPU 0
    ({}, [0]),
    ({"SLURM_JOB_GPUS": "0,1"}, [0]),
], ids=["its own", "another", "none", "the job's list"])
def test_gpus_that_slurm_did_not_allocate_are_not_the_jobs(gpu, environment, counted):
    gpu.env.update(environment, SLURM_JOB_ID="7", SLURM_STEP_ID="0", SLURM_PROCID="0", SLURM_NTASKS="1", SLURMD_NODENAME="n1")
    hiwater = start(gpu, "-o", "run.hiw")
    time.sleep(2.5)  # the length of the run, not a wait: GPUs are read once a second
    summary, _ = finish(gpu, hiwater)
    devices = summary["gpu"]["devices"]
    wanted = environment.get("SLURM_STEP_GPUS", "")
    assert [d["allocated"] for d in devices] == [wanted == "0", wanted == "1"]
    assert summary["energy"]["gpu_j"] == pytest.approx(sum(devices[i]["energy_j"] for i in counted))
    assert summary["request"]["gpus"] == 1
    shown = json.loads(gpu.run("show", "--json", "run.hiw").stdout)
    assert (shown["gpu"], shown["energy"], shown["request"]) == (summary["gpu"], summary["energy"], summary["request"])
    text = gpu.run("show", "run.hiw").stdout
    assert ("not allocated to the job: GPU 1" in text) == (1 not in counted)
    metrics = gpu.run("export", "--to", "openmetrics", "run.hiw").stdout
    assert ('allocated="true"' in metrics) == bool(wanted)


def test_a_step_without_gpus_is_charged_none(gpu):
    gpu.scenario.write_text(gpu.scenario.read_text().split("[process 0]")[0])
    gpu.env.update(SLURM_JOB_ID="7", SLURM_STEP_ID="0", SLURM_PROCID="0", SLURM_NTASKS="1")
    hiwater = start(gpu, "-o", "run.hiw")
    time.sleep(2.5)  # the length of the run, not a wait: GPUs are read once a second
    summary, _ = finish(gpu, hiwater)
    assert [d["energy_j"] > 0 for d in summary["gpu"]["devices"]] == [True, True]
    assert summary["energy"]["gpu_j"] is None
    assert any(n["about"] == "energy.gpu_j" and "allocated" in n["why"] for n in summary["notes"])
    assert summary["request"]["gpus"] == 0
    assert "not allocated to the job: GPU 0, GPU 1" in gpu.run("show", "run.hiw").stdout.replace("\N{NO-BREAK SPACE}", " ")


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
    assert "used no memory on GPU 1" in (said := said.replace("\u00a0", " ")) and "used no memory on GPU 0" not in said
    assert "job peak unknown" in said


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
    assert while_there or zero["other_peak_bytes"] is None
    assert one["job_peak_bytes"] == 0, "nobody is there"
    notes = [n["why"] for n in json.loads((gpu.folder / "run.json").read_text())["notes"] if n["about"] == "gpu.memory"]
    assert len(notes) == 1 and notes[0].startswith("GPU 0: its driver lists processes by the PIDs of another namespace"), notes
    assert summary["combined"]["peak_bytes"] is None


def test_others_whose_memory_is_not_told_hide_nothing_of_the_jobs(gpu):
    add(gpu, f"[process 0]\npid = {os.getpid()}\nmemory = unknown\n")
    _, summary = run_later(gpu)
    assert summary["combined"]["peak_bytes"] == summary["devices"][0]["memory"]["job_peak_bytes"] >= GIB
    assert summary["devices"][0]["memory"]["other_peak_bytes"] is None


def test_the_sum_of_instances_is_had_though_their_gpu_may_not_be_asked(gpu):
    """The list of a divided GPU takes a right; those of its instances do not, and have everybody."""
    gpu.scenario.write_text((ROOT / "tests/fake/scenarios/mig.conf").read_text().replace("include = ", f"include = {CARD.parent.parent}/")
                            .replace("$HIWATER_FAKE_PID", f"@{gpu.folder}/main"))
    said, summary = run_later(gpu)
    assert summary["combined"] == {"peak_bytes": 17 * GIB, "method": "sampled"}
    assert summary["main"] == {"peak_bytes": 17 * GIB}
    said = said.replace("\u00a0", " ")  # instances by the numbers that hiwater gpus has for them
    assert "\nMIG 0.0 " in said and "used no memory on GPU 1, MIG 0.2, MIG 0.3" in said
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
    assert whole["job_peak_bytes"] is whole["job_mean_bytes"] is None and "GPU 0     job peak unknown" in said.replace("\u00a0", " ")


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
    assert told.startswith("GPU 0: lost: ") and "the job's memory on it is unknown" in told
    assert whole["energy"]["gpu_j"] == summary["devices"][1]["energy_j"] > 0
    assert re.search(r"^GPU 0 +job peak unknown", said.replace("\u00a0", " "), re.M), said


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
    assert why.startswith(f"the library that HIWATER_NVML names cannot be loaded: {gpu.folder}/none.so"), said
    assert "Notes     gpu: the library that HIWATER_NVML names" in said


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
    text = gpu.run("show", "run.hiw").stdout
    at = re.search(r"^Events +at\s(\S+\ss):", text, re.M).group(1)
    assert any(n.startswith("GPU 1: Xid 45") for n in notes) and any(n.startswith("GPU 0: Xid 31") and n.endswith(f"(at {at})") for n in notes), (at, notes)
    assert [d["errors"]["xid"] for d in summary["gpu"]["devices"]] == [1, 1]
    assert summary["incident"]["event"].startswith("GPU 0: Xid 31: a page fault") and summary["incident"]["memory"] == "gpu"


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
    assert "GPU 1: lost: the GPU has fallen off the bus" in told and "the job's memory on it is unknown" in told


def test_none_are_asked_unless_wanted(gpu):
    summary, _ = finish(gpu, start(gpu, "--gpu=none"))
    assert summary["gpu"] is None
    assert gpu_notes(summary) == ["not measured: --gpu=none"]


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
    words = "gpu: NVIDIA's library and kernel module have different versions"
    assert words in " ".join(done.stderr.replace("\u00a0", " ").split())
    assert words in " ".join(gpu.run("show", "x.hiw").stdout.replace("\u00a0", " ").split())


def test_a_short_run_asks_nobody(gpu):
    done = gpu.run("run", "--json", "run.json", "--", "true")
    assert done.returncode == 0
    summary = json.loads((gpu.folder / "run.json").read_text())
    assert summary["gpu"] is None
    assert gpu_notes(summary) == ["the run ended before any GPU could be read"]

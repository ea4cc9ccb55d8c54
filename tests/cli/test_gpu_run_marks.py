# SPDX-License-Identifier: MIT
"""High-water marks of a driver (accounting), which count from the start of a process, in runs that began later; and memory that a
driver lists for no process, because a PID namespace hides it or because the GPU is a NUMA node."""
import json
import os
import shutil
import signal
import subprocess

import pytest
from cli_helpers import DEADLINE, ROOT, wait_for
from gpu_jobs import CARD, GIB, LATER, asked, run_later
from stress_jobs import BUILD

MIB = 1 << 20
EARLIER = "from = -100\n"  # seconds: before the run


@pytest.fixture
def process():
    """It began before the run."""
    process = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    yield process
    process.kill()
    process.wait()


def scenario(gpu, text):
    gpu.scenario.write_text(f"[driver]\nlevel = 580\n[gpu 0]\ninclude = {CARD}\nmemory_used = processes 100Mi\naccounting_mode = 1\n{text}")
    gpu.env["LD_LIBRARY_PATH"] = str(BUILD / "tests" / "fake" / "drivers" / "580")


def attached(gpu, process, until):
    """Summary of an attachment that lasts until the SQL expression over its recording is true."""
    hiwater = gpu.start("attach", "--json", "a.json", "-o", "run.hiw", process.pid)
    wait_for(lambda: asked(gpu, until), until)
    hiwater.send_signal(signal.SIGTERM)
    said = hiwater.communicate(timeout=DEADLINE)[1]
    assert hiwater.returncode == 0, said
    summary = json.loads((gpu.folder / "a.json").read_text())
    assert json.loads(gpu.run("show", "--json", "run.hiw").stdout)["gpu"] == summary["gpu"]
    return summary, said.decode().replace("\u00a0", " ")


MARKED = "SELECT count(mem_peak) > 0 FROM gpu_process_sample"


def test_a_mark_from_before_the_run_is_an_upper_bound(gpu, process):
    scenario(gpu, f"[process 0]\npid = {process.pid}\nmemory = 512Mi\naccount_memory = 30000Mi\n{EARLIER}")
    summary, said = attached(gpu, process, MARKED)
    memory = summary["gpu"]["devices"][0]["memory"]
    assert (memory["job_peak_bytes"], memory["method"], memory["job_high_bytes"]) == (512 * MIB, "sampled", 30000 * MIB)
    assert memory["peak_bytes"] == 612 * MIB  # main is never above the device
    assert summary["gpu"]["main"]["peak_bytes"] == summary["gpu"]["combined"]["peak_bytes"] == 512 * MIB
    one, = summary["gpu"]["devices"][0]["processes"]
    assert (one["peak_bytes"], one["method"], one["high_bytes"]) == (512 * MIB, "sampled", 30000 * MIB)
    note, = [n["why"] for n in summary["notes"] if n["about"] == "gpu.memory"]
    assert note.startswith("GPU 0: the driver's high-water mark, 29.3 GiB, counts from the start of the process and did not rise")
    assert "512 MiB sampled" in said, said


def test_a_mark_that_rose_in_the_run_is_its_peak(gpu, process):
    """5 GiB at first; a burst to 7 GiB that no list saw."""
    clock = gpu.folder / "clock"
    clock.write_text("0")
    gpu.env["HIWATER_FAKE_TIME"] = f"file:{clock}"
    scenario(gpu, f"[process 0]\npid = {process.pid}\nmemory = 512Mi\naccount_memory = steps -100:5Gi 1:7Gi\n{EARLIER}")
    hiwater = gpu.start("attach", "--json", "a.json", "-o", "run.hiw", process.pid)
    wait_for(lambda: asked(gpu, MARKED), "it was marked")
    (gpu.folder / "later").write_text("1")
    (gpu.folder / "later").rename(clock)
    wait_for(lambda: asked(gpu, f"SELECT max(mem_peak) = {7 * GIB} FROM gpu_process_sample"), "it rose")
    hiwater.send_signal(signal.SIGTERM)
    hiwater.communicate(timeout=DEADLINE)
    summary = json.loads((gpu.folder / "a.json").read_text())["gpu"]
    memory = summary["devices"][0]["memory"]
    assert (memory["job_peak_bytes"], memory["method"], memory["job_high_bytes"]) == (7 * GIB, "exact", None)
    assert summary["main"]["peak_bytes"] == 7 * GIB
    assert json.loads(gpu.run("show", "--json", "run.hiw").stdout)["gpu"] == summary


def test_a_mark_that_equals_the_samples_is_exact(gpu, process):
    scenario(gpu, f"[process 0]\npid = {process.pid}\nmemory = 512Mi\naccount_memory = 512Mi\n{EARLIER}")
    memory = attached(gpu, process, MARKED)[0]["gpu"]["devices"][0]["memory"]
    assert (memory["job_peak_bytes"], memory["method"], memory["job_high_bytes"]) == (512 * MIB, "exact", None)


def test_an_older_process_that_came_to_the_gpu_in_the_run(gpu, process):
    """The driver says that it began to use the GPU in the run: all of its mark is of the run."""
    scenario(gpu, f"[process 0]\npid = {process.pid}\nmemory = 512Mi\naccount_memory = 3Gi\nfrom = 1\n")
    memory = attached(gpu, process, MARKED)[0]["gpu"]["devices"][0]["memory"]
    assert (memory["job_peak_bytes"], memory["method"], memory["job_high_bytes"]) == (3 * GIB, "exact", None)


def test_with_several_processes_a_mark_from_before_bounds_nothing(gpu, process):
    scenario(gpu, f"[process 0]\npid = {process.pid}\nmemory = 512Mi\naccount_memory = 30000Mi\n{EARLIER}"
             f"[process 0]\npid = {os.getpid()}\nmemory = 1Gi\naccount_memory = 20Gi\n{EARLIER}")
    summary = attached(gpu, process, "SELECT count(DISTINCT id) = 2 FROM gpu_process_sample WHERE mem_peak > 0")[0]["gpu"]
    peaks = {p["pid"]: (p["job"], p["peak_bytes"], p["method"], p["high_bytes"]) for p in summary["devices"][0]["processes"]}
    assert peaks == {process.pid: (True, 512 * MIB, "sampled", 30000 * MIB), os.getpid(): (False, GIB, "sampled", 20 * GIB)}


# ---- memory of no visible process ------------------------------------------------------------------------------------------

IN_NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc")
needs_unshare = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs unshare and root")


def unlisted(gpu, used, more=""):
    """A driver after 535.113, which lists nobody; GPU 1 does not change."""
    gpu.scenario.write_text(f"[driver]\nlevel = 580\n[gpu 0-1]\ninclude = {CARD}\nmemory_used = 300Mi\n[gpu 0]\nmemory_used = {used}\n{more}")
    gpu.env["LD_LIBRARY_PATH"] = str(BUILD / "tests" / "fake" / "drivers" / "580")


@needs_unshare
def test_what_a_namespace_hides_may_be_the_jobs(gpu):
    unlisted(gpu, "steps 0:300Mi 1.2:4Gi")
    said, summary = run_later(gpu, *IN_NAMESPACE)
    zero, one = (d["memory"] for d in summary["devices"])
    assert zero["job_peak_bytes"] is zero["job_mean_bytes"] is zero["method"] is None
    assert one["job_peak_bytes"] == 0, "nothing rose there"
    assert summary["combined"] == {"peak_bytes": None, "method": None} and summary["main"]["peak_bytes"] is None
    notes = [n["why"] for n in json.loads((gpu.folder / "run.json").read_text())["notes"] if n["about"] == "gpu.memory"]
    assert len(notes) == 1 and notes[0].startswith("GPU 0: 3.71 GiB was allocated during the run, but no visible process uses it"), notes
    assert "job peak unknown" in said.replace("\u00a0", " ")


@needs_unshare
def test_a_recording_keeps_what_was_hidden(gpu):
    unlisted(gpu, "steps 0:300Mi 1.2:4Gi")
    done = subprocess.run([*IN_NAMESPACE, "sh", "-c", f"exec {os.environ.get('HIWATER', BUILD / 'hiwater')} run -o run.hiw -- sleep 3"],
                          env=gpu.env, cwd=gpu.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    shown = json.loads(gpu.run("show", "--json", "run.hiw").stdout)["gpu"]
    assert [d["memory"]["job_peak_bytes"] for d in shown["devices"]] == [None, 0]


@needs_unshare
@pytest.mark.parametrize("used", ["4Gi", "steps 0:4Gi 1.2:300Mi", "steps 0:300Mi 1.2:340Mi"], ids=["stays", "falls", "a-little"])
def test_what_did_not_rise_is_not_the_jobs(gpu, used):
    unlisted(gpu, used)
    assert [d["memory"]["job_peak_bytes"] for d in run_later(gpu, *IN_NAMESPACE)[1]["devices"]] == [0, 0]


@needs_unshare
def test_a_driver_that_lists_the_job_hides_none_of_it(gpu):
    """Its process on GPU 1 is listed, so another one on GPU 0 would be, too."""
    unlisted(gpu, "steps 0:300Mi 1.2:4Gi", f"[process 1]\npid = @{gpu.folder}/main\nmemory = 200Mi\n")
    assert [d["memory"]["job_peak_bytes"] for d in run_later(gpu, *IN_NAMESPACE)[1]["devices"]] == [0, 200 * MIB]


def test_in_the_first_namespace_nothing_is_hidden(gpu):
    if os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
        pytest.skip("these tests run in a namespace of their own")
    unlisted(gpu, "steps 0:300Mi 1.2:4Gi")
    assert [d["memory"]["job_peak_bytes"] for d in run_later(gpu)[1]["devices"]] == [0, 0]


@needs_unshare
def test_an_instance_that_hides_its_users_makes_its_gpu_unknown(gpu):
    """The driver's list of a divided GPU is the sum over its instances."""
    text = (ROOT / "tests/fake/scenarios/mig.conf").read_text().replace("include = ", f"include = {CARD.parent.parent}/")
    gpu.scenario.write_text(text.replace("$HIWATER_FAKE_PID", "4100007") + "[mig 0.0]\nmemory_used = steps 0:300Mi 1.2:8Gi\n")
    devices = run_later(gpu, *IN_NAMESPACE)[1]["devices"]
    peaks = {d["index"] if d["parent"] is None else (0, d["index"]): d["memory"]["job_peak_bytes"] for d in devices}
    assert peaks[0] is peaks[0, 0] is None and peaks[1] == 0, peaks


def test_a_numa_node_keeps_memory_of_ended_processes(gpu):
    gpu.scenario.write_text(gpu.scenario.read_text().replace("memory_used = processes 100Mi", "memory_used = processes 6Gi\nnuma_node = 1"))
    _, summary = run_later(gpu)
    assert all(d["memory"]["numa"] for d in summary["devices"])
    notes = [n["why"] for n in json.loads((gpu.folder / "run.json").read_text())["notes"]]
    assert any("NUMA node of the host, where the kernel may keep memory of processes that ended" in n for n in notes), notes
    assert not any("another container" in n for n in notes)
    shown = next(line for line in gpu.run("gpus").stdout.splitlines() if "unattributed" in line)
    assert "NUMA node: may be of ended processes" in shown, shown
    assert json.loads(gpu.run("gpus", "--json").stdout)["devices"][0]["memory"]["numa"] is True


@pytest.mark.parametrize("card, seconds", [("h100", 1), ("rtx4090", 1), ("a100", 0), ("v100", 0)])
def test_whether_power_is_a_mean_is_said(gpu, card, seconds):
    """By NVML's header: the mean of 1 s from Ampere on, GA100 excepted."""
    gpu.scenario.write_text(f"[driver]\nlevel = 580\n[gpu 0]\ninclude = {CARD.parent}/{card}.conf\npower = 100000\n[process 0]\npid = @{gpu.folder}/main\nmemory = 1Gi\n")
    gpu.env["LD_LIBRARY_PATH"] = str(BUILD / "tests" / "fake" / "drivers" / "580")
    done = gpu.run("run", "--json", "run.json", "--plain", "--", "sh", "-c", LATER)
    assert json.loads((gpu.folder / "run.json").read_text())["gpu"]["devices"][0]["power_w"]["averaged_s"] == seconds
    assert ("(means of 1 s)" in done.stderr.replace("\u00a0", " ")) == (seconds > 0), done.stderr
    device = json.loads(gpu.run("gpus", "--json").stdout)["devices"][0]
    assert device["power_averaged_s"] == seconds
    how, = [m["how"] for m in json.loads(gpu.run("doctor", "--json").stdout)["metrics"] if (m["entity"], m["metric"]) == ("gpu", "power")]
    assert ("the mean of 1 s" in how, "momentary" in how) == (seconds > 0, seconds == 0)

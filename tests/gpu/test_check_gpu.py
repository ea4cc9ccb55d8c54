# SPDX-License-Identifier: MIT
"""The checks of make check-gpu (tests/gpu/run) and their jobs, on a fake CUDA driver: that they measure, compare and end.
The results for a real GPU need a real GPU."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest
from fake_gpu import BUILD, DRIVERS, ROOT, SCENARIOS

RUN = ROOT / "tests" / "gpu" / "run"
HIWATER = pathlib.Path(os.environ.get("HIWATER", BUILD / "hiwater")).resolve()
PTXAS = next((ROOT / ".venv-full").glob("lib/python*/site-packages/nvidia/cuda_nvcc/bin/ptxas"), None)
MIB = 1 << 20


@pytest.fixture
def fake(tmp_path):
    """The environment of a machine with a fake GPU, and a folder with the programs, as in a bundle."""
    (tmp_path / "cuda").mkdir()
    (tmp_path / "bin").mkdir()
    for program in (HIWATER, BUILD / "cuda-jobs", BUILD / "nvml-cost", ROOT / "tools" / "capture-gpu"):
        (tmp_path / "bin" / program.name).symlink_to(program)
    return {**{k: v for k, v in os.environ.items() if not k.startswith("HIWATER")},
            "HIWATER_FAKE_CUDA": str(tmp_path / "cuda"), "HIWATER_FAKE_NVML": str(SCENARIOS / "cuda.conf"),
            "HIWATER_CUDA": str(DRIVERS / "cuda" / "libcuda.so.1"), "LD_LIBRARY_PATH": str(DRIVERS / "550")}


def checks(fake, folder, *names):
    done = subprocess.run([sys.executable, RUN, "--quick", "--bin", folder / "bin", "--results", folder / "results", *names],
                          env=fake, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    return done, json.loads((folder / "results" / "results.json").read_text())


def jobs(fake, *args, lines=""):
    return subprocess.run([BUILD / "cuda-jobs", *map(str, args)], env=fake, input=lines, capture_output=True, text=True,
                          timeout=60, check=False)


def test_all_is_right_on_a_gpu_that_is_as_it_should_be(fake, tmp_path):
    done, rows = checks(fake, tmp_path, "machine", "ladder", "square", "ipc", "calls", "memory_error", "captures", "look")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not [r for r in rows if r["result"] == "WRONG"]
    seen = {(r["check"], r["what"]): r["seen"] for r in rows}
    assert seen["ladder", "+100 MiB at 116"] == "+100.00 MiB"
    assert seen["ladder", "+3 MiB at 6"] == "+4.00 MiB"  # the driver's unit is 2 MiB
    assert seen["square", "one thread: busy"] == "1" and float(seen["square", "one thread: SM active"]) < 0.02
    assert seen["ipc", "the process that opened it"] == "+0 MiB"
    assert seen["machine", "l2_bytes"] == str(50 * MIB)
    assert "nvmlGpmSampleGet on GPU 0" in {r["what"] for r in rows if r["check"] == "calls"}
    results = tmp_path / "results"
    assert len((results / "square.csv").read_text().splitlines()) == 5
    assert (results / "results.md").read_text().count("\n") == len(rows) + 2
    for name in ("idle", "work", "oom"):
        assert "[gpu 0]" in (results / f"{name}.conf").read_text()


def with_keys(fake, folder, gpu="", process=""):
    """The scenario with keys added to the GPU and to its first process; its time is that of the boot, for all processes."""
    text = (SCENARIOS / "cuda.conf").read_text().replace("include = cards", f"include = {SCENARIOS}/cards")
    text = text.replace("power = 300000\n", f"power = 300000\n{gpu}")
    (folder / "open.conf").write_text(text.replace("[process 0]\n", f"[process 0]\n{process}", 1))
    return {**fake, "HIWATER_FAKE_NVML": str(folder / "open.conf"), "HIWATER_FAKE_TIME": f"since:{time.clock_gettime(time.CLOCK_BOOTTIME) - 50}"}


def test_what_the_header_leaves_open_is_asked_first(fake, tmp_path):
    listed = subprocess.run([sys.executable, RUN, "--list"], capture_output=True, text=True, check=True).stdout.split("\n")
    assert [line.split()[0] for line in listed[:5]] == ["accounting", "namespace", "throttling", "momentary", "numa"]
    env = with_keys(fake, tmp_path, "accounting_mode = 1\nevent_reasons = 0x48\nfield 74 = 0\nfield 75 = 0\nfield 185 = 300000\n",
                    "account_memory = 1500Mi\nfrom = 0\n")
    done, rows = checks(env, tmp_path, "accounting", "throttling", "momentary", "numa")
    assert done.returncode == 0 and not [r for r in rows if r["result"] in ("WRONG", "skipped")], done.stdout + done.stderr
    seen = {(r["check"], r["what"]): r["seen"] for r in rows}
    assert seen["accounting", "its upper bound"] == "1500 MiB"
    assert seen["throttling", "hardware thermal, by the mask"].startswith("2.") and seen["throttling", "field 75"] == "0.00 s"
    assert seen["momentary", "hiwater gpus: power_averaged_s, capability 9.0"] in ("1", "1.0")
    assert seen["numa", "NUMA node"] == "code 3"


def test_a_driver_that_is_not_as_the_header_says_is_found(fake, tmp_path):
    """Accounting that does not know of what was allocated; a field that counts what the mask does not show; memory that stays."""
    env = with_keys(fake, tmp_path, "accounting_mode = 1\nevent_reasons = 0\nfield 74 = 0\nfield 75 = rate 1000000000\n", "account_memory = 5Mi\nfrom = 0\n")
    done, rows = checks(env, tmp_path, "accounting", "throttling")
    wrong = {(r["check"], r["what"]) for r in rows if r["result"] == "WRONG"}
    assert done.returncode == 1
    assert wrong >= {("accounting", "the mark right after 1 GiB was allocated"),
                     ("throttling", "field 75 compared with the mask's bit of software thermal")}, wrong


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs unshare and root")
def test_a_namespace_is_asked(fake, tmp_path):
    """The fake lists nobody who is not in its namespace, and counts their memory."""
    env = with_keys(fake, tmp_path)
    text = pathlib.Path(env["HIWATER_FAKE_NVML"]).read_text()
    pathlib.Path(env["HIWATER_FAKE_NVML"]).write_text(text.replace("power = 300000\n", "power = 300000\nmemory_used = file $HIWATER_FAKE_CUDA/memory.0\n"))
    done, rows = checks(env, tmp_path, "namespace")
    assert done.returncode == 0 and len(rows) == 5, done.stdout + done.stderr


def test_accounting_that_is_off_is_not_tried(fake, tmp_path):
    done, rows = checks(fake, tmp_path, "accounting")
    assert done.returncode == 0 and rows[0]["result"] == "skipped" and "accounting is off" in rows[0]["seen"]


def test_a_figure_that_is_off_is_found(fake, tmp_path):
    """The driver reports 500 MiB, whatever the job allocates."""
    text = (SCENARIOS / "cuda.conf").read_text().replace("include = cards", f"include = {SCENARIOS}/cards")
    (tmp_path / "off.conf").write_text(re.sub(r"memory = file \S+", "memory = 500Mi", text))
    done, rows = checks({**fake, "HIWATER_FAKE_NVML": str(tmp_path / "off.conf")}, tmp_path, "ladder", "ipc")
    assert done.returncode == 1
    wrong = {r["what"] for r in rows if r["result"] == "WRONG"}
    assert {"+100 MiB at 116", "hiwater run: peak of the job", "the owner"} <= wrong


def test_a_failing_check_is_reported_and_the_others_continue(fake, tmp_path):
    (tmp_path / "bin" / "nvml-cost").unlink()
    done, rows = checks(fake, tmp_path, "calls", "machine")
    assert done.returncode == 1 and [r["result"] for r in rows if r["check"] == "calls"] == ["WRONG"]
    assert [r for r in rows if r["check"] == "machine" and r["result"] == "ok"]
    done = subprocess.run([sys.executable, RUN, "ladders"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "no such check: ladders" in done.stderr


def test_jobs(fake):
    held = [json.loads(line)["held"] for line in jobs(fake, "ladder", 1, 5 * MIB, lines="\n" * 5).stdout.splitlines()]
    assert held == [0, 1, 1 + 5 * MIB, 1, 0]
    full = jobs({**fake, "HIWATER_FAKE_CUDA_BYTES": str(600 * MIB)}, "fill", 10 * MIB, lines="\n")
    assert full.returncode == 1 and json.loads(full.stdout)["held"] == 80 * MIB and "out of memory" in full.stderr
    assert json.loads(jobs(fake, "work", 3, 1000).stdout)["launches"] == 3
    assert [*map(json.loads, jobs(fake, "long", 0.01).stdout.splitlines())][1] == {"over": True}
    assert "no driver" in jobs({**fake, "HIWATER_CUDA": "/no/such.so"}, "info").stderr
    assert jobs(fake, "ladder").returncode == 2 and jobs(fake, "square", "x", 1, 1).returncode == 2


def test_limits_come_from_cuda(fake):
    spec = json.loads(subprocess.run([HIWATER, "gpus", "--json", "--spec"], env=fake, capture_output=True, text=True,
                                     check=True).stdout)["devices"][0]["spec"]
    assert (spec["l2_bytes"], spec["shared_bytes_per_block_max"], spec["copy_engines"]) == (50 * MIB, 232448, 3)
    assert "L2 cache                      50.0 MiB" in subprocess.run([HIWATER, "gpus", "--spec"], env=fake, capture_output=True,
                                                                        text=True, check=True).stdout


def test_without_a_gpu_it_reports_that():
    env = {k: v for k, v in os.environ.items() if k != "HIWATER_CUDA"}
    done = subprocess.run([ROOT / "tools" / "check-gpu"], env=env, capture_output=True, text=True, check=False)
    if "libcuda.so.1" in subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout:
        pytest.skip("this machine has a GPU")
    assert done.returncode == 0 and done.stdout.startswith("skipped: no CUDA driver (")


@pytest.mark.full
@pytest.mark.parametrize("arch", ["sm_50", "sm_75", "sm_90"])
def test_the_kernel_is_one_for_nvidias_own_assembler(tmp_path, arch):
    source = (ROOT / "tests" / "gpu" / "cuda_jobs.c").read_text()
    text = source[source.index("square_ptx[] ="):]
    lines = re.findall(r'^\t"(.*)\\n"', text[:text.index(";\n\n")], re.M)
    (tmp_path / "square.ptx").write_text("\n".join(line.replace("\\t", "\t") for line in lines) + "\n")
    assert PTXAS, "make test-full installs it"
    subprocess.run([PTXAS, f"-arch={arch}", tmp_path / "square.ptx", "-o", tmp_path / "square.cubin"], check=True)

# SPDX-License-Identifier: MIT
"""doctor: the metrics that it reports as available, compared with those that must be, and with those that a run records.

tests/golden/doctor-TREE.txt lists the metrics that a captured machine must have; metrics that it also has are no
failure, so that a new one needs no change here. UPDATE_GOLDEN=1 writes them anew. doctor-here.txt is written by hand.
"""
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys

import pytest
from cli_helpers import HERE, HIWATER, ROOT, as_nobody
from stress_jobs import BUILD
from where_runs import sampling, sees_the_kernels_faults

TREES = sorted(p.name for p in (ROOT / "tests" / "trees").iterdir() if (p / "proc").is_dir())
GOLDEN = ROOT / "tests" / "golden"
CARD = ROOT / "tests" / "fake" / "scenarios" / "cards" / "h100.conf"
WAITING = "hiwater: waiting for a GPU driver (30 s at most)\n"  # printed if it takes more than 2 s


def report(tool, *args, prefix=(), **options):
    done = subprocess.run([*map(str, prefix), HIWATER, "doctor", "--json", *map(str, args)], env=tool.env, cwd="/", text=True,
                          capture_output=True, timeout=60, check=False, **options)
    assert done.returncode == 0 and done.stderr in ("", WAITING), done.stderr
    return json.loads(done.stdout)


def available(found):
    return [f"{m['entity']}.{m['metric']}" for m in found["metrics"] if m["available"]]


def why_not(found):
    return {f"{m['entity']}.{m['metric']}": m["why_not"] for m in found["metrics"] if not m["available"]}


def rows(name):
    lines = (GOLDEN / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def assert_none_lost(must, found):
    lost = {m: why_not(found).get(m, "no such metric") for m in must if m not in available(found)}
    assert not lost


# ---- captured machines ----

@pytest.mark.parametrize("tree", TREES)
def test_a_captured_machine_loses_nothing(tool, tree):
    found = report(tool, "--root", ROOT / "tests" / "trees" / tree)
    golden = f"doctor-{tree}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        (GOLDEN / golden).write_text("\n".join(available(found)) + "\n", encoding="utf-8")
    assert_none_lost(rows(golden), found)
    assert found["machine"]["new processes"] == "not tested on a captured machine"


# ---- this machine ----

class Facts:
    """A fact of the machine, determined without hiwater: FILE WORD (a file that the user can read has that word), or a name."""

    def __init__(self, prefix, group=None):
        self.prefix, self.group = prefix, group

    def has(self, fact):
        if not fact:
            return True
        if hasattr(self, fact):
            return getattr(self, fact)()
        file, word = fact.split(None, 1)
        if file.startswith("GROUP/"):
            if not self.group:
                return False
            file = str(self.group / file.removeprefix("GROUP/"))
        done = subprocess.run([*self.prefix, "grep", "-qs", "-e", word, "--", file], check=False)
        return done.returncode == 0

    @staticmethod
    def disk():
        """There is a device behind one of the listed block devices."""
        listed = {line.split()[2] for line in pathlib.Path("/proc/diskstats").read_text(encoding="ascii").splitlines()}
        return any((d / "device").exists() and d.name in listed for d in pathlib.Path("/sys/block").glob("*"))

    @staticmethod
    def local_root():
        """/, which doctor reads in these tests, is a file system that cannot hang."""
        kind = subprocess.run(["stat", "-f", "-c", "%T", "/"], capture_output=True, text=True, check=True).stdout.strip()
        return kind in ("ext2/ext3", "xfs", "btrfs", "tmpfs", "overlayfs", "zfs", "f2fs")


def musts(facts):
    """The metrics of doctor-here.txt whose fact applies to this machine."""
    split = [row.split(None, 1) for row in rows("doctor-here.txt")]
    return [row[0] for row in split if facts.has(row[1].strip() if len(row) > 1 else "")]


def test_this_machine_loses_nothing(tool):
    assert_none_lost(musts(Facts([])), report(tool))


def test_this_machine_loses_nothing_for_others_than_root(tool):
    prefix = as_nobody(tool.folder)
    must = musts(Facts(prefix))
    assert "process.rss" in must and "job.ram" in must
    assert_none_lost(must, report(tool, prefix=prefix))


def test_in_a_cgroup_of_its_own(tool, memory_cgroup):
    def enter():
        (memory_cgroup / "cgroup.procs").write_text("0", encoding="ascii")

    must = musts(Facts([], memory_cgroup))
    assert "job.cgroup_mem" in must
    found = report(tool, preexec_fn=enter)
    assert_none_lost(must, found)
    assert "shared" not in found["machine"]["cgroup"]


def test_in_a_cgroup_with_others(tool, memory_cgroup):
    """A run does not report a cgroup that it shares with other processes, so doctor does not list it as available."""
    def enter():
        (memory_cgroup / "cgroup.procs").write_text("0", encoding="ascii")

    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, preexec_fn=enter) as other:
        found = report(tool, preexec_fn=enter)
        other.stdin.close()
    assert "shared with other processes" in found["machine"]["cgroup"]
    assert "other processes" in why_not(found)["job.cgroup_mem"]


def test_every_promise_is_kept(tool, recorded):
    """Every metric that doctor reports as available has a value in the recording of a run."""
    tables = {"host": "host_sample", "job": "job_sample", "process": "process_sample"}
    with sqlite3.connect(recorded.path) as db:
        for name in available(report(tool)):
            entity, metric = name.split(".")
            if entity not in tables:
                continue
            columns = [c[1] for c in db.execute(f"PRAGMA table_info({tables[entity]})")]
            mine = [c for c in columns if c in (metric, f"{metric}_max")]
            assert mine, name
            values, = db.execute(f"SELECT {'+'.join(f'count({c})' for c in mine)} FROM {tables[entity]}").fetchone()
            assert values > 0, f"{name} can be measured, says doctor, and has no value in the recording"


# ---- GPUs ----

def gpu_env(tool, more="", level=550):
    """A fake driver with a GPU."""
    scenario = tool.folder / "gpu.conf"
    scenario.write_text(f"[driver]\nlevel = {level}\n[gpu 0]\ninclude = {CARD}\n{more}", encoding="utf-8")
    tool.env.update(LD_LIBRARY_PATH=str(BUILD / "tests" / "fake" / "drivers" / str(level)), HIWATER_FAKE_NVML=str(scenario))


def of_gpus(names):
    return [name for name in names if re.match(r"gpu|job\.gpu", name)]


def test_a_gpu(tool):
    gpu_env(tool)
    found = report(tool)
    assert {"gpu.mem", "gpu.power", "gpu.energy", "gpu.processes", "gpu.job_mem", "gpu_process.mem", "job.gpu_mem"} <= \
        set(available(found))
    how = {f"{m['entity']}.{m['metric']}": m["how"] for m in found["metrics"]}
    assert how["gpu_process.mem"].startswith("the driver's process lists")
    assert all(why_not(found)[name] for name in of_gpus(why_not(found)))


@pytest.mark.parametrize("ill, call, why, remedy", [
    pytest.param("hang", "nvmlDeviceGetMemoryInfo_v2", r"NVML has not answered in 1\d s: it is stuck in {call} of GPU 0", "Xid",
                 marks=pytest.mark.full),
    ("hang", "nvmlInitWithFlags", r"NVML has not answered in 1\d s: it is stuck in {call}", "Xid"),
    ("crash", "nvmlDeviceGetPowerUsage", r"the helper was killed by signal (6|11) in a call of NVML \({call} of GPU 0\)", "NVRM")])
def test_a_driver_that_does_not_answer(tool, ill, call, why, remedy):
    """The message says which of both happened, in which call, and what to do."""
    gpu_env(tool, f"[call {call}]\n{ill} = 1\n")
    found = report(tool)
    assert not of_gpus(available(found))
    stays = r"(; the helper \(process \d+\) was killed but has not exited)?"  # on a busy machine its end takes longer than doctor waits
    assert re.fullmatch(why.format(call=call) + stays, why_not(found)["gpu.mem"]), why_not(found)["gpu.mem"]
    assert why_not(found)["job.gpu_mem"] == why_not(found)["gpu.mem"]
    assert all(remedy in m["remedy"] for m in found["metrics"] if f"{m['entity']}.{m['metric']}" in ("gpu.mem", "job.gpu_mem"))
    assert "process.rss" in available(found)


def test_a_driver_that_is_slow_is_waited_for(tool):
    """It takes more than ten seconds in total but answers each call, as a driver does that initialises its cards first."""
    gpu_env(tool, "".join(f"[gpu {i}]\ninclude = {CARD}\n" for i in range(1, 8)) + "[call nvmlDeviceGetHandleByIndex*]\ndelay = 1.4\n")
    done = subprocess.run([HIWATER, "doctor", "--json"], env=tool.env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == WAITING
    assert {"gpu.mem", "gpu.power", "gpu_process.mem", "job.gpu_mem"} <= set(available(json.loads(done.stdout)))


@pytest.mark.parametrize("code, why, remedy", [
    (9, "kernel module is not loaded", "modprobe"), (12, "a library that NVML needs is missing", "NVIDIA_DRIVER_CAPABILITIES"),
    (18, "different versions", "reboot"), (999, "NVML cannot be initialised", None)])
def test_a_driver_that_does_not_start_is_no_missing_gpu(tool, code, why, remedy):
    gpu_env(tool, f"[call nvmlInit*]\nerror = {code}\n")
    found = report(tool)
    missing = {m["metric"]: m for m in found["metrics"] if m["entity"] == "gpu" and m["metric"] != "mem_host"}
    assert all(why in m["why_not"] for m in missing.values())
    assert {m["remedy"] is None or remedy in m["remedy"] for m in missing.values()} == {True}
    assert all(m["remedy"] for m in missing.values()) == bool(remedy)


def test_a_library_that_is_named_and_cannot_be_loaded(tool):
    gpu_env(tool)
    tool.env["HIWATER_NVML"] = str(tool.folder / "none.so")
    power, = (m for m in report(tool)["metrics"] if (m["entity"], m["metric"]) == ("gpu", "power"))
    assert power["why_not"] == "the library that HIWATER_NVML names cannot be loaded" and "unset" in power["remedy"]


@pytest.mark.parametrize("code, why", [(4, "no permission"), (13, "this driver does not support it")])
def test_device_memory_is_missing_for_the_reason_that_the_driver_gives(tool, code, why):
    gpu_env(tool, f"[call nvmlDeviceGetMemoryInfo*]\nerror = {code}\n")
    missing = why_not(report(tool))
    assert {missing[f"gpu.{name}"] for name in ("mem", "mem_free", "mem_reserved")} == {why}


def test_a_figure_that_cannot_be_so_is_told_as_that(tool):
    """A GPU that is awake answered the call."""
    gpu_env(tool, "temperature = 0\nutil = 255\nfan = unknown\n")
    missing = why_not(report(tool))
    assert missing["gpu.temp"] == missing["gpu.busy"] == "the driver reports an impossible value"
    assert missing["gpu.fan"] == "the driver returns no value"


def test_a_gpu_that_is_divided(tool):
    gpu_env(tool, "mig_mode = 1\n" + "".join(f"{name} = absent\n" for name in ("util", "util_memory", "util_encoder", "fan")))
    missing = why_not(report(tool))
    assert {missing[f"gpu.{name}"] for name in ("busy", "mem_busy", "enc_busy")} == {"NVIDIA's driver does not report it for a GPU divided by MIG"}
    assert "MIG" not in missing["gpu.fan"]


@pytest.mark.parametrize("code, why", [(4, "no permission"), (3, "this device does not support it")])
def test_of_several_ways_the_reason_that_matters_is_told(tool, code, why):
    """The user may not read the fields, and there is no GPM: with the permission it would be available."""
    gpu_env(tool, f"[call nvmlDeviceGetFieldValues]\nerror = {code}\n[call nvmlGpm*]\nerror = 3\n")
    found = {m["metric"]: m for m in report(tool)["metrics"] if m["entity"] == "gpu"}
    assert {found[name]["why_not"] for name in ("nvlink_rx", "nvlink_tx", "pcie_rx")} == {why}
    assert bool(found["nvlink_rx"]["remedy"]) == (code == 4)


def test_a_driver_without_a_gpu_says_so(tool):
    tool.folder.joinpath("gpu.conf").write_text("[driver]\nlevel = 550\n", encoding="utf-8")
    tool.env.update(LD_LIBRARY_PATH=str(BUILD / "tests" / "fake" / "drivers" / "550"),
                    HIWATER_FAKE_NVML=str(tool.folder / "gpu.conf"))
    assert "reports no GPU" in why_not(report(tool))["gpu.mem"]


def test_no_gpu_takes_one_line(tool):
    if any(pathlib.Path(p).exists() for p in ("/dev/nvidiactl", "/dev/kfd", "/dev/dri")):
        pytest.skip("this machine has a GPU")
    assert re.search("^GPU +no +no GPU$", tool.run("doctor").stdout, re.M)
    said = tool.run("doctor", "--why").stdout
    assert "  gpu.*, gpu_process.*, job.gpu_mem, job.gpu_mem_main, job.gpu_mem_descendants\n      no GPU\n" in said


def rates(tool):
    return {(r["source"], r["group"]): r for r in report(tool)["gpu_reads"]}


def test_how_often_gpus_are_read(tool):
    """The period of each group of calls: as planned, and longer if a call is costly."""
    gpu_env(tool, "[call nvmlDeviceGetComputeRunningProcesses*]\nburn = 0.05\n")
    found = rates(tool)
    assert {group for _, group in found} == {"memory", "activity", "counters", "processes", "gpm", "rare", "events"}
    assert {source for source, _ in found} == {"NVML"}
    assert [found["NVML", group]["period_s"] for group in ("memory", "activity", "rare")] == [0.1, 0.2, 5]
    for r in found.values():
        assert r["contents"] and r["wall_s"] >= r["cpu_s"] > 0 and r["period_here_s"] >= r["period_s"] >= r["period_moving_s"]
        assert (r["period_here_s"] > r["period_s"]) == bool(r["why_longer"]) and r["period_idle_s"] >= r["period_here_s"]
    lists = found["NVML", "processes"]
    assert lists["period_moving_s"] == 0.25 and lists["period_s"] == 1
    assert lists["cpu_s"] >= 0.05 and lists["period_here_s"] >= 0.05 / 0.005
    assert lists["why_longer"] == "all reads together may use 0.5 % of a core; lists of processes use the remainder"
    said = " ".join(tool.run("doctor", "--why").stdout.split())
    assert "GPU reads at most 0.5 % of one core in total" in said and "device memory in use; took " in said
    assert re.search(r'NVML processes, 1/s \(4/s while .*the processes on each GPU', said)


def test_a_list_that_holds_locks_is_read_less_often(tool):
    gpu_env(tool, "[call nvmlDeviceGetComputeRunningProcesses*]\ndelay = 0.3\n")
    lists = rates(tool)["NVML", "processes"]
    assert lists["wall_s"] >= 0.3 and lists["period_here_s"] == 10
    assert lists["why_longer"] == "lists of processes may lock the driver, and delay the job, for 2 % of the time"


def test_lists_at_rest_are_read_as_their_cost_says(tool):
    """At least every five seconds, unless a list costs too much even for that."""
    gpu_env(tool, "[call nvmlDeviceGetComputeRunningProcesses*]\ndelay = 0.03\n")
    found = rates(tool)
    lists = found["NVML", "processes"]
    assert lists["period_here_s"] >= 50 * 0.03 and lists["period_idle_s"] == max(5, lists["period_here_s"])
    assert all(r["period_idle_s"] == r["period_here_s"] for r in found.values() if r != lists)
    said = " ".join(tool.run("doctor", "--why").stdout.split())
    # A list that took a tenth of a second this time, on a busy machine, is read less often than that as it is.
    assert "memory moves, 0.2/s while it does" in said or "memory moves), here every" in said, said


def test_how_often_others_than_nvidias_are_read(tool):
    def read(tree):
        return [(r["source"], r["group"]) for r in report(tool, "--root", ROOT / "tests" / "trees" / tree)["gpu_reads"]]

    assert read("amd-mi") == [("amdgpu", "memory"), ("amdgpu", "sensors"), ("amdgpu", "processes")]
    assert read("i915") == [("DRM", "sensors"), ("DRM", "processes")]
    assert not read("cgroup-v1")


# ---- how new processes are found ----

def test_the_last_pid_gate(tool):
    assert "last PID" in report(tool)["machine"]["new processes"]
    assert "off" not in report(tool)["machine"]["new processes"]


def test_a_falsified_loadavg_turns_the_gate_off(tool):
    """lxcfs mounts a file of its own over /proc/loadavg; here it has a PID of long ago."""
    if os.geteuid() != 0:
        pytest.skip("not root: no mounts")
    fake = tool.folder / "loadavg"
    last = int(pathlib.Path("/proc/loadavg").read_text(encoding="ascii").split()[4])
    most = int(pathlib.Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii"))
    fake.write_text(f"0.00 0.00 0.00 1/100 {(last + most // 2) % most}\n", encoding="ascii")
    enter = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /proc/loadavg && exec "$@"', fake]
    tried = subprocess.run([*enter, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"unshare: {tried.stderr.strip()}")
    assert "gate is off: loadavg did not show the pid of a process just started" in report(tool, prefix=enter)["machine"]["new processes"]


@pytest.mark.parametrize("user", ["as it is", "nobody"])
def test_a_cgroup_of_its_own_is_had_as_doctor_says(tool, user):
    """If --cgroup=new is refused, it is not offered as a remedy; the remedy is that of the refusal."""
    prefix = as_nobody(tool.folder) if user == "nobody" else []
    remedies = {m["remedy"] for m in report(tool, prefix=prefix)["metrics"] if "--cgroup=new" in (m["remedy"] or "")}
    tried = subprocess.run([*prefix, HIWATER, "run", "--cgroup=new", "--strict", "--no-record", "--", "true"], cwd=tool.folder, env=tool.env,
                           capture_output=True, text=True, check=False)
    if not remedies:
        pytest.skip("the cgroup is the job's own, or there is none")
    assert all(r.startswith("--cgroup=new, or ") == (tried.returncode == 0) for r in remedies), (remedies, tried.stderr)
    if tried.returncode == 125 and "systemd-run" in tried.stderr:
        assert all(re.search("systemd-run .*Delegate=yes", tried.stderr)[0].split(";")[0] in r for r in remedies)


# ---- the text ----

def paragraphs(text):
    """Without the parts about traces and about memory by function, which are the last."""
    others = "RUN --TRACE", "hiwater run --trace", "RUN --WHERE", "hiwater run --where"
    return [part for part in re.split(r"\n\n", text.rstrip("\n")) if not part.startswith(others)]


def names_missing(paragraph, missing):
    """The names of missing metrics, which are indented by two blanks; "gpu.*" stands for all metrics of an entity."""
    named = re.findall(r"([a-z_]+)\.([\w*]+)", " ".join(re.findall(r"^  (\S.*)$", paragraph, re.M)))
    return [m for e, name in named
            for m in ([m for m in missing if m.startswith(f"{e}.")] if name == "*" else [f"{e}.{name}"])]


@pytest.mark.parametrize("tree", [None, *TREES])
def test_text(tool, tree):
    """80 columns, every metric once, missing metrics last, each with its reason."""
    root = ["--root", ROOT / "tests" / "trees" / tree] if tree else []
    done = tool.run("doctor", "--why", *root)
    assert done.returncode == 0 and done.stderr == ""
    assert not [l for l in done.stdout.splitlines() if len(l) > 80 and len(l.split()) > 2]  # a path of 70 stays whole
    found = report(tool, *root)
    parts = paragraphs(done.stdout)
    had, total = map(int, re.fullmatch(r"(\d+) of (\d+) metrics can be measured here", parts[-1]).groups())
    assert had == len(available(found)) and total == len(found["metrics"])
    for part in parts[2:-1]:
        entity, n = re.match(r"(\w+): (\d+) of ", part).groups() if not part.startswith("missing") else (None, None)
        if entity:
            mine = [name.split(".")[1] for name in available(found) if name.startswith(f"{entity}.")]
            named = re.findall(r"\w+", re.sub(r"^(.{0,37}).*", r"\1", part, flags=re.M).split("\n", 1)[1])
            assert sorted(named) == sorted(mine) and len(mine) == int(n)
        else:
            assert sorted(names_missing(part, why_not(found))) == sorted(why_not(found))
    for reason in why_not(found).values():
        assert reason and " ".join(reason.split()) in " ".join(done.stdout.split())


@pytest.mark.parametrize("tree", [None, *TREES])
def test_the_overview_comes_first(tool, tree):
    """What is here and what is not, then one remedy; the table agrees with both."""
    root = ["--root", ROOT / "tests" / "trees" / tree] if tree else []
    done = tool.run("doctor", *root)
    assert done.returncode == 0 and done.stderr == ""
    overview, table, total = paragraphs(done.stdout)
    found = report(tool, *root)
    assert overview.startswith(", ".join(found["overview"]["here"]).join(["Here: ", "."]) if found["overview"]["here"] else "Here: nothing.")
    assert len(overview.splitlines()[0]) <= 80
    assert "hiwater doctor --why" in " ".join(total.split())
    rows = [re.split(r"  +", line) for line in table.splitlines()]
    assert rows[0][:2] == ["WHAT", "HERE"] and all(len(row) == 3 and row[1] in ("yes", "no") for row in rows[1:])
    assert set(found["overview"]["here"]) <= {row[0] for row in rows if row[1] == "yes"}
    assert set(found["overview"]["missing"]) <= {row[0] for row in rows if row[1] == "no"}
    remedies = {m["remedy"] for m in found["metrics"]} | {"run hiwater as root or with CAP_NET_ADMIN", None}
    assert found["overview"]["improve"] in remedies
    if found["overview"]["improve"]:
        assert f"To add {found['overview']['gain']}: {found['overview']['improve']}." in " ".join(overview.split())


def test_the_remedy_is_that_of_what_is_missed_most(tool):
    """The driver refuses, no cgroup is the job's own, and there is no energy: the first matters most."""
    gpu_env(tool, "[call nvmlInit*]\nerror = 9\n")
    found = report(tool)
    assert {"GPU memory", "GPU use"} <= set(found["overview"]["missing"]) and "modprobe" in found["overview"]["improve"]
    assert found["overview"]["gain"] == "GPU memory"
    assert "modprobe" in "".join(tool.run("doctor").stdout.splitlines(keepends=True)[1:3])


def test_without_root_exit_records_are_missed(tool):
    prefix = as_nobody(tool.folder)
    found = report(tool, prefix=prefix)
    assert "yes" not in found["machine"]["exit records"][:3]
    assert found["overview"]["improve"] == "run hiwater as root or with CAP_NET_ADMIN"


# ---- run --trace ----

def trace_rows(tool):
    return {row["what"]: row for row in report(tool)["trace"]}


@pytest.fixture
def trace_tool(tool):
    """With libraries and platforms of the test's own."""
    libraries, vendors = tool.folder / "lib", tool.folder / "vendors"
    libraries.mkdir()
    vendors.mkdir()
    tool.env.update(LD_LIBRARY_PATH=str(libraries), OCL_ICD_VENDORS=str(vendors))
    for name in ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64", "VIRTUAL_ENV"):
        tool.env.pop(name, None)
    return tool


def test_what_a_trace_can_follow(trace_tool):
    libraries, vendors = trace_tool.folder / "lib", trace_tool.folder / "vendors"
    (libraries / "libOpenCL.so.1").write_bytes(b"an old loader")
    found = trace_rows(trace_tool)
    assert found["ranges (NVTX)"]["available"] and found["ranges (ITT)"]["available"]
    assert "knows no layers" in found["OpenCL"]["why_not"] and "ocl-icd" in found["OpenCL"]["remedy"]
    (libraries / "libOpenCL.so.1").write_bytes(b"a loader\0OPENCL_LAYERS\0")
    assert "no OpenCL platform" in trace_rows(trace_tool)["OpenCL"]["why_not"]
    (vendors / "acme.icd").write_text("libacme.so\n")
    (vendors / "pocl.icd").write_text("libpocl.so\n")
    found = trace_rows(trace_tool)
    assert found["OpenCL"]["available"] and found["OpenCL"]["how"].endswith("platforms: acme, pocl")


def test_what_is_in_the_way_of_a_trace(trace_tool):
    libraries = trace_tool.folder / "lib"
    (libraries / "libcuda.so.1").write_bytes(b"a driver")
    (libraries / "libcupti.so.13").write_bytes(b"its library")
    assert trace_rows(trace_tool)["CUDA"]["how"].endswith("libcupti.so.13")
    trace_tool.env.update(CUDA_INJECTION64_PATH="/opt/nsys/inject.so", NVTX_INJECTION64_PATH="/opt/nsys/nvtx.so",
                          INTEL_LIBITTNOTIFY64="/opt/vtune/itt.so")
    found = trace_rows(trace_tool)
    assert found["CUDA"]["remedy"] == "unset CUDA_INJECTION64_PATH" and "/opt/nsys/inject.so" in found["CUDA"]["why_not"]
    assert found["ranges (NVTX)"]["available"] and "/opt/nsys/nvtx.so" in found["ranges (NVTX)"]["how"]
    assert not found["ranges (ITT)"]["available"] and found["ranges (ITT)"]["remedy"] == "unset INTEL_LIBITTNOTIFY64"


def test_another_machine_has_no_part_about_traces(tool):
    assert "trace" not in report(tool, "--root", ROOT / "tests" / "trees" / "i915")


# ---- run --where ----

def where_rows(found):
    return {row["what"]: row for row in found["where"]}


def asked(tool, folder, **answers):
    """The rows where hiwater-where answers so: a copy of hiwater, next to a program of this name."""
    said = {"error": 0, "kernel": 0, "pages": 512, "pages_most": 512, "cpus": 2, "libdw": 1, "machine": 1, "paranoid": 2, "seccomp": 0, "ptrace": 0, "huge": "madvise",
            **answers}
    copied, program = folder / "hiwater", folder / "hiwater-where"
    if not copied.exists():  # a helper of an earlier one may still be ending
        subprocess.run(["cp", HIWATER, copied], check=True)
    program.write_text("#!/bin/sh\n[ \"$*\" = probe ] || exit 2\ncat <<END\n" + "".join(f"{k}={v}\n" for k, v in said.items()) + "END\n")
    program.chmod(0o755)
    done = subprocess.run([copied, "doctor", "--json"], env=tool.env, cwd="/", text=True, capture_output=True, timeout=60, check=True)
    return where_rows(json.loads(done.stdout))


def test_page_faults_of_this_user_and_of_nobody(tool):
    sampling()
    for prefix, kernel in (([], sees_the_kernels_faults()), (as_nobody(tool.folder), False)):
        found = where_rows(report(tool, prefix=prefix))
        assert found["page faults"]["available"] and found["buffers"]["how"].endswith(" a CPU"), found
        paranoid = int(pathlib.Path("/proc/sys/kernel/perf_event_paranoid").read_text())
        if kernel or paranoid > 1:
            assert found["system calls"]["available"] == kernel
        if not found["system calls"]["available"]:
            assert "perf_event_paranoid=1" in found["system calls"]["remedy"] and "setcap cap_perfmon+ep /" in found["system calls"]["remedy"]


@pytest.mark.parametrize("what, name", [("no-perf", "ENOSYS"), ("refused-perf", "EPERM")])
def test_a_container_without_events(tool, what, name):
    found = where_rows(report(tool, prefix=[sys.executable, HERE / "sandbox.py", what]))
    assert found["page faults"]["why_not"] == f"a seccomp profile forbids perf_event_open ({name})"
    assert "seccomp" in found["page faults"]["remedy"] and "PERFMON" in found["page faults"]["remedy"]
    assert not found["system calls"]["available"] and not found["buffers"]["available"]
    assert found["callers"] == where_rows(report(tool))["callers"]


def test_the_price_of_many_cpus_and_little_locked_memory(tool, tmp_path):
    found = asked(tool, tmp_path)
    assert found["CPUs"]["how"] == "2: a process inherits as many events" and found["buffers"]["remedy"] is None
    assert asked(tool, tmp_path, cpus=31)["CPUs"]["how"] == "31: a process inherits as many events"
    for cpus, us in ((32, 271), (128, 434), (192, 559), (256, 684)):
        assert asked(tool, tmp_path, cpus=cpus)["CPUs"]["how"] == f"{cpus}: a fork and its exit take about {us} us, else 189"
    found = asked(tool, tmp_path, pages=128)
    assert found["buffers"]["how"] == "512 KiB a CPU, not 2048: locked memory is limited" and "ulimit -l" in found["buffers"]["remedy"]


def test_what_the_build_and_the_machine_lack(tool, tmp_path):
    found = asked(tool, tmp_path, libdw=0)
    assert "built without libdw" in found["callers"]["why_not"] and "libdw-dev" in found["callers"]["remedy"]
    assert asked(tool, tmp_path, huge="never")["resolution"]["how"] == "a sample is 256 KiB (fine: 64); no transparent huge pages"
    assert asked(tool, tmp_path, huge="")["resolution"]["how"] == "a sample is 256 KiB (fine: 64)"
    assert "128 MiB (always)" in asked(tool, tmp_path, huge="always")["resolution"]["how"]
    found = asked(tool, tmp_path, error=13, paranoid=4)
    assert found["page faults"]["why_not"] == "kernel.perf_event_paranoid is 4, and no CAP_PERFMON"
    assert "perf_event_paranoid=2" in found["page faults"]["remedy"]
    assert asked(tool, tmp_path, error=13, paranoid=2)["page faults"]["why_not"] == "perf_event_open: Permission denied"
    assert "x86-64" in asked(tool, tmp_path, machine=0)["page faults"]["why_not"]
    assert "perf_event_open: " in asked(tool, tmp_path, error=22)["page faults"]["why_not"]


def test_whose_python_stacks_may_be_read(tool, tmp_path):
    for value in (0, -2):
        found = asked(tool, tmp_path, ptrace=value)["Python stacks"]
        assert found["available"] and found["remedy"] is None and "Python 3.8 to 3.13" in found["how"]
    found = asked(tool, tmp_path, ptrace=1)["Python stacks"]
    assert found["available"] and found["how"] == "of the first process (kernel.yama.ptrace_scope is 1)"
    assert "kernel.yama.ptrace_scope=0" in found["remedy"]
    found = asked(tool, tmp_path, ptrace=3)["Python stacks"]
    assert not found["available"] and found["why_not"] == "kernel.yama.ptrace_scope is 3"


def test_another_hiwater_where(tool, tmp_path):
    """Without an answer, or with one of another version, no row is available."""
    for answer in ({"pages": "many"}, {"cpus": ""}):
        found = asked(tool, tmp_path, **answer)
        assert not any(row["available"] for row in found.values()) and "does not respond" in found["page faults"]["why_not"]
    (tmp_path / "hiwater-where").unlink()
    done = subprocess.run([tmp_path / "hiwater", "doctor"], env=tool.env, cwd="/", text=True, capture_output=True, timeout=60, check=True)
    assert "hiwater run --where is not available: there is no hiwater-where in" in " ".join(done.stdout.split())


def test_the_text_fits_a_terminal(tool):
    """No cell is cut at 80 columns, and a remedy is below the table."""
    done = tool.run("doctor")
    part = next(p for p in re.split(r"\n\n", done.stdout) if p.startswith("RUN --WHERE"))
    assert "\u2026" not in part and all(len(line) <= 80 for line in part.splitlines())
    for row in report(tool)["where"]:
        assert (row["how"] or row["why_not"]) in part
        assert not row["remedy"] or f"For {row['what']}: {row['remedy']}." in " ".join(part.split())


def test_another_machine_has_no_part_about_memory_by_function(tool):
    assert "where" not in report(tool, "--root", ROOT / "tests" / "trees" / "i915")

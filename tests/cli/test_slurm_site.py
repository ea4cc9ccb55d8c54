# SPDX-License-Identifier: MIT
"""contrib/slurm and the exports js1 and sacct: with a hiwater that hangs, is missing or crashes; in a cluster on this machine; against
sacct, with a database."""
import base64
import gzip
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
from cli_helpers import HIWATER, ROOT, wait_for

CONTRIB = ROOT / "contrib" / "slurm"
LOOPBACK = ROOT / "tools" / "slurm-loopback"
COLUMNS = "JobID|State|ExitCode|Elapsed|NNodes|NTasks|AllocTRES|ReqMem|MaxRSS|MaxRSSNode|MaxRSSTask|AveRSS|TotalCPU|MaxDiskRead|" \
          "MaxDiskWrite|ConsumedEnergy".split("|")


def installed(folder, name, hiwater):
    """A script of contrib/slurm as a site edits it."""
    text = (CONTRIB / name).read_text()
    text = re.sub(r"^HIWATER=.*", f"HIWATER={hiwater}", text, flags=re.M)
    text = re.sub(r"^SPOOL=.*", f"SPOOL={folder}/spool", text, flags=re.M)
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


def decoded(text):
    assert text.startswith("JS1:")
    return json.loads(gzip.decompress(base64.b64decode(text[4:], validate=True)))


def kib(text):
    return int(re.fullmatch(r"(\d+)K", text)[1])


def seconds(text):
    """Of [D-][HH:]MM:SS[.mmm]."""
    days, _, rest = text.rpartition("-")
    total = 0.0
    for part in rest.split(":"):
        total = 60 * total + float(part)
    return total + 86400 * int(days or 0)


# ---- hooks that must not fail ------------------------------------------------------------------------------------------

BROKEN = {
    "hangs": "#!/bin/sh\nexec sleep 30\n",
    "ignores signals": "#!/bin/sh\ntrap '' TERM INT HUP\nwhile :; do sleep 1; done\n",
    "crashes": "#!/bin/sh\nkill -SEGV $$\n",
    "fails": "#!/bin/sh\nexit 125\n",
    "prints": "#!/bin/sh\nwhile :; do echo export LD_PRELOAD=x; done\n",
    "missing": None,
}


@pytest.fixture(params=BROKEN, ids=[b.replace(" ", "-") for b in BROKEN])
def broken(request, tmp_path):
    program = tmp_path / "broken-hiwater"
    if BROKEN[request.param]:
        program.write_text(BROKEN[request.param])
        program.chmod(0o755)
    yield program
    for entry in pathlib.Path("/proc").iterdir():  # what a hook has started runs on: its command line has our folder
        try:
            if entry.name.isdigit() and str(program).encode() in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:
            pass


def environment(tmp_path, **more):
    return {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "SLURM_JOB_ID": "4711", "SLURM_JOB_UID": str(os.getuid()),
            "SLURM_JOB_GID": str(os.getgid()), "SLURMD_NODENAME": "n1", "SLURM_STEP_ID": "0", "SLURM_LOCALID": "0", **more}


def took(*args, **options):
    start = time.monotonic()
    done = subprocess.run(args, capture_output=True, stdin=subprocess.DEVNULL, timeout=60, **options)
    return done, time.monotonic() - start


@pytest.mark.parametrize("hook", ["prolog", "task_prolog"])
def test_a_prolog_exits_0_within_a_second(tmp_path, broken, hook):
    """A pipe that something started holds open would keep Slurm waiting, too: capture_output waits for the end of it. The best of
    three, because the machine may be busy."""
    script, env = installed(tmp_path, hook, broken), environment(tmp_path, HIWATER_PROGRAM=str(broken))
    spans = []
    for _ in range(3):
        done, span = took(script, env=env)
        assert (done.returncode, done.stdout) == (0, b""), done.stderr
        spans.append(span)
    assert min(spans) < 1


@pytest.mark.parametrize("env", [{"SLURM_JOB_ID": ""}, {"SLURM_JOB_UID": "x; touch hurt"}, {"SLURM_JOB_ID": "../../etc"}], ids=str)
@pytest.mark.parametrize("hook", ["prolog", "epilog", "admin_comment"])
def test_a_hook_without_a_job_does_nothing(tmp_path, hook, env):
    done, _ = took(installed(tmp_path, hook, HIWATER), env=environment(tmp_path, **env), cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == b""
    assert sorted(p.name for p in tmp_path.iterdir()) == [hook]


def test_an_epilog_ends_what_the_prolog_started(tmp_path, broken):
    env = environment(tmp_path)
    took(installed(tmp_path, "prolog", broken), env=env)
    done, _ = took(installed(tmp_path, "epilog", broken), env=env)
    assert done.returncode == 0
    assert not (tmp_path / "spool" / "4711.pid").exists()
    for entry in pathlib.Path("/proc").iterdir():
        try:
            assert not (entry.name.isdigit() and f"{broken}\0attach".encode() in (entry / "cmdline").read_bytes())
        except OSError:
            pass


def test_an_epilog_spares_a_stranger_with_that_pid(tmp_path):
    """The pid was given to another process since."""
    stranger = subprocess.Popen(["sleep", "60"])
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "4711.pid").write_text(f"{stranger.pid} 1\n")
    done, _ = took(installed(tmp_path, "epilog", HIWATER), env=environment(tmp_path))
    assert done.returncode == 0 and stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_root_runs_nothing_on_the_users_files(tmp_path):
    """The recorder, and what reads the recording, have the job's user and groups alone."""
    if os.geteuid() != 0:
        pytest.skip("not root: cannot become another user")
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:3]:
        if parent.stat().st_uid == os.getuid():
            parent.chmod(0o755)
    seen = pathlib.Path("/tmp") / f"hiwater-test-{os.getpid()}-ids"
    program = tmp_path / "ids"
    program.write_text(f"#!/bin/sh\ngrep -E '^(Uid|Gid|Groups)' /proc/self/status >> {seen}\nenv >> {seen}\n")
    program.chmod(0o755)
    seen.touch()
    seen.chmod(0o666)
    try:
        env = environment(tmp_path, SLURM_JOB_UID="65534", SLURM_JOB_GID="65534", SECRET="x")
        took(installed(tmp_path, "prolog", program), env=env)
        text = wait_for(lambda: "PATH" in seen.read_text() and seen.read_text(), "hiwater was started")
        assert re.search(r"^Uid:\s+65534\s+65534\s+65534\s+65534$", text, re.M)
        assert re.search(r"^Groups:\s*$", text, re.M) and "SECRET" not in text
        folder = tmp_path / "spool" / "4711"
        assert folder.stat().st_uid == 65534 and folder.stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "spool" / "4711.pid").stat().st_uid == 0
        (folder / "4711").mkdir()
        (folder / "4711" / "n1.hiw").touch()
        seen.write_text("")
        took(installed(tmp_path, "admin_comment", program), env=env)
        assert re.search(r"^Uid:\s+65534\s+65534\s+65534\s+65534$", seen.read_text(), re.M)
    finally:
        seen.unlink()


# ---- in a cluster ----------------------------------------------------------------------------------------------------------

JOB = """#!/bin/bash
srun -n1 {python} -c '
import time
x = bytearray(100 << 20)
end = time.process_time() + 2
while time.process_time() < end: pass
open("written", "wb").write(b"x" * (5 << 20))
time.sleep(1)'
"""


def in_cluster(tool, script, *options, timeout=300):
    """Runs a shell script in a cluster of its own; returns its output. Its nodes have names that no other cluster of this machine uses:
    the path of a cgroup has the name of its node in it."""
    path = tool.folder / "script.sh"
    path.write_text(script)
    done = subprocess.run([LOOPBACK, "run", "--gpus", "0", "--prefix", "site", *options, "--", "bash", path], env=tool.env, cwd=tool.folder, text=True,
                          capture_output=True, timeout=timeout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def need_v1():
    if not pathlib.Path("/sys/fs/cgroup/freezer").is_dir():
        pytest.skip("no cgroup v1 on this machine")


def need_root():
    if os.geteuid() != 0:
        pytest.skip("not root: no prolog of its own, no network namespace")


@pytest.mark.full
def test_a_site_records_each_job(tool):
    """The prolog's recorder ends with the group of the job, without the epilog."""
    need_v1()
    need_root()
    job = tool.folder / "job"
    job.write_text(JOB.format(python=sys.executable))
    prolog = installed(tool.folder, "prolog", HIWATER)
    in_cluster(tool, f"sbatch -W --mem=300 -o out {job} && while pgrep -f '[h]iwater attach slurm:1 ' > /dev/null; do sleep 0.1; done",
               "--cgroup", "v1", "--set", f"Prolog={prolog}", "--set", "PrologFlags=Alloc,Contain")
    summary = json.loads(tool.run("show", "--json", tool.folder / "spool" / "1" / "1" / "site1.hiw").stdout)
    assert summary["command"] == ["slurm job 1"] and summary["host"] == "site1" and summary["run"]["complete"]
    assert 100 << 20 < summary["ram"]["combined"]["peak_bytes"] < 150 << 20


@pytest.mark.full
def test_a_broken_prolog_drains_no_node(tool, broken):
    need_root()
    prolog, epilog = installed(tool.folder, "prolog", broken), installed(tool.folder, "epilog", broken)
    out = in_cluster(tool, "srun -n1 echo ran; sleep 0.5; sinfo -h -N -o %t; scontrol show node | grep -c Reason= || :",
                     "--set", f"Prolog={prolog}", "--set", f"Epilog={epilog}")
    assert out.splitlines()[0] == "ran"
    assert not re.search("drain|down|fail", out), out


@pytest.mark.full
@pytest.mark.parametrize("cgroup", ["none", "v1"])
def test_task_prolog_and_epilog(tool, cgroup):
    if cgroup == "v1":
        need_v1()
    tool.env["HIWATER_PROGRAM"] = HIWATER
    in_cluster(tool, f"srun -N2 -n4 --task-prolog={CONTRIB}/task_prolog --task-epilog={CONTRIB}/task_epilog {sys.executable} -c "
                     "'import time; x = bytearray(60 << 20); time.sleep(2)'", "--cgroup", cgroup)
    for node, tasks in (("site1", 3), ("site2", 1)):
        summary = json.loads(tool.run("show", "--json", tool.folder / "hiwater" / "1.0" / f"{node}.hiw").stdout)
        assert summary["run"]["complete"] and summary["host"] == node
        assert tasks * 60 << 20 < summary["ram"]["combined"]["peak_bytes"] < tasks * 110 << 20


@pytest.mark.full
@pytest.mark.parametrize("cgroup", ["none", "v1"])
def test_spank_plugin(tool, cgroup):
    """srun --hiwater=DIR, and a step whose recorder cannot be started."""
    if not pathlib.Path("/usr/include/slurm/spank.h").exists():
        pytest.skip("libslurm-dev is not installed")
    if cgroup == "v1":
        need_v1()
    plugin = tool.folder / "spank_hiwater.so"
    subprocess.run(["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-o", plugin,
                    CONTRIB / "spank_hiwater.c"], check=True)
    (tool.folder / "holder.py").write_text("import time; x = bytearray(60 << 20); time.sleep(2)")
    plugstack = tool.folder / "plugstack.conf"
    plugstack.write_text(f"optional {plugin} hiwater={HIWATER}\n")
    in_cluster(tool, f"srun -N1 -n2 --hiwater=d {sys.executable} holder.py && srun -n1 true", "--cgroup", cgroup,
               "--plugstack", plugstack)
    assert [p.name for p in (tool.folder / "d").glob("*/*.hiw")] == ["site1.hiw"]  # of the first step alone
    summary = json.loads(tool.run("show", "--json", tool.folder / "d" / "1.0" / "site1.hiw").stdout)
    assert summary["run"]["complete"] and summary["host"] == "site1" and "holder.py" in " ".join(summary["command"])
    assert 120 << 20 < summary["ram"]["combined"]["peak_bytes"] < 220 << 20
    plugstack.write_text(f"optional {plugin} hiwater=/nowhere\n")
    assert in_cluster(tool, "srun -n1 --hiwater echo ran", "--plugstack", plugstack) == "ran\n"


# ---- against sacct ---------------------------------------------------------------------------------------------------------

RECORDED = """#!/bin/bash
srun hiwater run -o x.hiw -- {python} -c '
import time
x = bytearray(100 << 20)
end = time.process_time() + 3
while time.process_time() < end: pass
open("written", "wb").write(b"x" * (5 << 20))
time.sleep(2)'
hiwater export x.hiw --to js1 > js1
scontrol update JobId=$SLURM_JOB_ID AdminComment="$(cat js1)"
"""


@pytest.mark.full
def test_sacct_agrees(tool):
    """A judge of its own: names and units, MaxRSS within 10 %, CPU time within 5 %, and AdminComment byte for byte."""
    need_root()
    (tool.folder / "job").write_text(RECORDED.format(python=sys.executable))
    tool.env["PATH"] = f"{pathlib.Path(HIWATER).parent}:{tool.env['PATH']}"
    out = in_cluster(tool, f"""
        sbatch -W --mem=300 -o out job > /dev/null
        for _ in $(seq 100); do sacct -n -P -j 1.0 --format=State | grep -q COMPLETED && break; sleep 0.1; done
        sacct -P -j 1.0 --format={','.join(COLUMNS)}
        echo ---
        sacct -n -P -X -j 1 --format=AdminComment%70000""", "--accounting")
    theirs, comment = out.split("---\n")
    ours = tool.run("export", "x.hiw", "--to", "sacct").stdout
    names, line = ours.splitlines()
    assert names.split("|") == COLUMNS == theirs.splitlines()[0].split("|")
    a, b = dict(zip(COLUMNS, line.split("|"))), dict(zip(COLUMNS, theirs.splitlines()[1].split("|")))
    for same in ("JobID", "State", "ExitCode", "NNodes", "NTasks", "AllocTRES", "MaxRSSNode", "MaxRSSTask"):
        assert a[same] == b[same], (same, a, b)
    assert a["ReqMem"] == "300M"
    assert abs(kib(a["MaxRSS"]) - kib(b["MaxRSS"])) < 0.1 * kib(b["MaxRSS"])
    assert abs(seconds(a["TotalCPU"]) - seconds(b["TotalCPU"])) < 0.05 * seconds(b["TotalCPU"])
    assert abs(seconds(a["Elapsed"]) - seconds(b["Elapsed"])) <= 2
    assert 5 <= float(a["MaxDiskWrite"].removesuffix("M")) < float(b["MaxDiskWrite"].removesuffix("M")) + 0.01
    assert comment == (tool.folder / "js1").read_text() == tool.run("export", "x.hiw", "--to", "js1").stdout
    summary = json.loads(tool.run("show", "--json", "x.hiw").stdout)
    kept = decoded(comment.strip())
    assert kept["gpus"] == 0 and list(kept["nodes"]) == ["site1"]
    assert kept["total_time"] == pytest.approx(summary["time"]["wall_s"])
    node = kept["nodes"]["site1"]
    assert node["cpus"] == 1 and node["total_memory"] == 300 << 20
    assert node["used_memory"] == summary["ram"]["combined"]["peak_bytes"]
    assert node["total_time"] == pytest.approx(summary["time"]["user_s"] + summary["time"]["system_s"])
